/*-------------------------------------------------------------------------
 *
 * timeutil.c
 *		The clock, and interval arithmetic that saturates instead of failing.
 *
 * Times are the server's, in microseconds. An interval's month counts as 30
 * days and its day as 24 hours, as PostgreSQL itself compares intervals.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "timeutil.h"

static TimestampTz
server_now(void)
{
#ifdef JOBQ_DEBUG
	return GetCurrentTimestamp() + jobq_debug_clock * INT64CONST(1000);
#else
	return GetCurrentTimestamp();
#endif
}

JobqClock jobq_clock = {server_now};

/* a * b, or the nearest int64 */
int64
saturating_mul(int64 a, int64 b)
{
	int64 result;

	if (!pg_mul_s64_overflow(a, b, &result))
		return result;
	return ((a < 0) == (b < 0)) ? PG_INT64_MAX : PG_INT64_MIN;
}

/*
 * Length of an interval in microseconds.
 *
 * what: the argument's name for the message. min, max: bounds in microseconds; both are errors (22023) beyond them, so that a negative
 * or infinite interval is refused where min is 0.
 */
int64
interval_usecs(const Interval *interval, const char *what, int64 min, int64 max)
{
	int64 days = (int64) interval->month * DAYS_PER_MONTH + interval->day;
	int64 result = saturating_mul(days, USECS_PER_DAY);

	if (pg_add_s64_overflow(result, interval->time, &result))
		result = interval->time > 0 ? PG_INT64_MAX : PG_INT64_MIN;
	if (result < min)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						min > 0 ? errmsg("%s must be at least " INT64_FORMAT " ms", what, min / 1000)
								: errmsg("%s must not be negative", what)));
	if (result > max)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is too long", what),
						errdetail("The longest allowed is " INT64_FORMAT " days.", max / USECS_PER_DAY)));
	return result;
}

/* t + usecs, kept inside the range of finite timestamps */
TimestampTz
timestamp_add(TimestampTz t, int64 usecs)
{
	TimestampTz result;

	if (pg_add_s64_overflow(t, usecs, &result) || result >= END_TIMESTAMP)
		return usecs > 0 ? END_TIMESTAMP - 1 : MIN_TIMESTAMP;
	return result < MIN_TIMESTAMP ? MIN_TIMESTAMP : result;
}
