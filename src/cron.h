/* cron.h: when a schedule is due: expressions, and their instants in a time zone. Reads no table. */
#ifndef JOBQ_CRON_H
#define JOBQ_CRON_H

#include "jobq.h"

#include "datatype/timestamp.h"
#include "pgtime.h"

typedef enum CronKind
{
	CRON_FIELDS, /* minute, hour, day of month, month, day of week */
	CRON_EVERY,  /* every so many seconds */
	CRON_AT      /* once */
} CronKind;

/* A parsed expression. Sets are bit masks, bit n for the value n. */
typedef struct CronExpr
{
	CronKind kind;
	uint64 minutes;
	uint32 hours;
	uint32 days;
	bool last_day;
	uint32 months;
	uint32 weekdays;
	uint32 last_weekdays; /* the last one of the month */
	bool any_hour;        /* the hours begin with *: it runs whenever the wall clock reads so, by elapsed time */
	bool any_day;         /* the days of the month begin with * */
	bool any_weekday;
	int64 every;    /* seconds */
	int64 at;       /* seconds since 1970, on the wall clock, or UTC when at_is_utc */
	bool at_is_utc; /* the time was given with an offset */
} CronExpr;

/* A walk over the instants of an expression in a time zone, in ascending order. */
typedef struct CronWalk
{
	const CronExpr *expr;
	pg_tz *tz;
	int64 after; /* instants are later than this; all times in seconds since 1970 */
	int64 end;   /* and not later than this */
	/* Between two changes of the zone's offset; local = UTC + offset. */
	int64 segment_end; /* PG_INT64_MAX: none follows */
	long offset;
	int64 position; /* local time up to which this segment was looked through */
	int64 seen;     /* local time up to which the segments before have come */
} CronWalk;

extern void cron_parse(const char *text, CronExpr *expr);
extern pg_tz *cron_timezone(const char *name);
extern void cron_walk_begin(CronWalk *walk, const CronExpr *expr, pg_tz *tz, TimestampTz after);
extern bool cron_walk_next(CronWalk *walk, TimestampTz *instant);
extern bool cron_next(const CronExpr *expr, pg_tz *tz, TimestampTz after, TimestampTz *instant);
extern int cron_latest(const CronExpr *expr, pg_tz *tz, TimestampTz from, TimestampTz to, TimestampTz *instants,
					   int max);

#endif
