/* ttl.h: times to live */
#ifndef JOBQ_TTL_H
#define JOBQ_TTL_H

#include "jobq.h"

#include "datatype/timestamp.h"
#include "executor/tuptable.h"

#include "store.h"
#include "timeutil.h"

/* Whether a job's time to live is over; *now is read from the clock when it is 0. */
static inline bool
ttl_is_over(TupleTableSlot *job, TimestampTz *now)
{
	bool isnull;
	Datum expires = slot_datum(job, Anum_job_expires, &isnull);

	if (likely(isnull))
		return false;
	if (*now == 0)
		*now = clock_now();
	return DatumGetTimestampTz(expires) <= *now;
}

#endif
