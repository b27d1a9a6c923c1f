/* timeutil.h: the clock and interval arithmetic that saturates */
#ifndef JOBQ_TIMEUTIL_H
#define JOBQ_TIMEUTIL_H

#include "jobq.h"

#include "datatype/timestamp.h"
#include "utils/timestamp.h"

/* The one clock of the extension: a table, so that a test can put another in its place. */
typedef struct JobqClock
{
	TimestampTz (*now)(void);
} JobqClock;

extern JobqClock jobq_clock;

#define clock_now() (jobq_clock.now())

extern int64 interval_usecs(const Interval *interval, const char *what, int64 min, int64 max);
extern TimestampTz timestamp_add(TimestampTz t, int64 usecs);
extern int64 saturating_mul(int64 a, int64 b);

#endif
