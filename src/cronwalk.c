/*-------------------------------------------------------------------------
 *
 * cronwalk.c
 *		The instants of an expression in a time zone.
 *
 * Between two changes of its offset a zone's wall clock runs evenly: the walk
 * goes from one such segment to the next, and in each over the matching wall
 * clock times, by days first. What an expression with fixed hours means:
 *
 *		a time that the clock jumps over runs at the moment of the jump, once
 *		however many it jumps over;
 *		a time that comes twice runs the first time only: wall clock times
 *		that earlier segments have reached ("seen") are passed over.
 *
 * One whose hours begin with * runs whenever the wall clock reads so, in each
 * segment: nothing for what is jumped over, twice what comes twice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "cron.h"

/* No expression that is possible at all pauses longer: 29 February on one day of the week, over 2100. */
#define HORIZON (INT64CONST(101) * 366 * SECS_PER_DAY)
/* A clock is never set back further: where a walk begins, so that it knows what was seen. */
#define LONGEST_FOLD (3 * SECS_PER_DAY)

#define EPOCH_SHIFT ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY)

/* a / b, rounded down */
static inline int64
floor_div(int64 a, int64 b)
{
	return a / b - (a % b < 0);
}

static inline int64
to_unix(TimestampTz t)
{
	return floor_div(t, USECS_PER_SEC) + EPOCH_SHIFT;
}

static inline TimestampTz
from_unix(int64 seconds)
{
	return (seconds - EPOCH_SHIFT) * USECS_PER_SEC;
}

static bool
day_matches(const CronExpr *e, int day, int days_in_month, int weekday)
{
	bool by_day = (e->days & (1u << day)) != 0 || (e->last_day && day == days_in_month);
	bool by_weekday =
		(e->weekdays & (1u << weekday)) != 0 || ((e->last_weekdays & (1u << weekday)) != 0 && day > days_in_month - 7);

	return e->any_day || e->any_weekday ? by_day && by_weekday : by_day || by_weekday;
}

/* The first matching minute of a day from one on; -1: none. */
static int
minute_of_day(const CronExpr *e, int from)
{
	int hour = from / MINS_PER_HOUR;
	uint64 minutes = e->minutes & ~((UINT64CONST(1) << (from % MINS_PER_HOUR)) - 1);
	uint32 hours;

	if ((e->hours & (1u << hour)) && minutes)
		return hour * MINS_PER_HOUR + pg_rightmost_one_pos64(minutes);
	hours = hour == HOURS_PER_DAY - 1 ? 0 : e->hours & ~((2u << hour) - 1);
	return hours == 0 ? -1 : pg_rightmost_one_pos32(hours) * MINS_PER_HOUR + pg_rightmost_one_pos64(e->minutes);
}

/* The first matching wall clock time in [from, end). False: there is none. */
static bool
next_local(const CronExpr *e, int64 from, int64 end, int64 *local)
{
	int64 start = -floor_div(-from, SECS_PER_MINUTE); /* rounded up */
	int64 jday = floor_div(start, MINS_PER_HOUR * HOURS_PER_DAY);
	int minute = (int) (start - jday * MINS_PER_HOUR * HOURS_PER_DAY);
	int year;
	int month;
	int day;

	if (e->kind == CRON_AT)
	{
		*local = e->at;
		return e->at >= from && e->at < end;
	}
	if (from >= end)
		return false;
	j2date((int) jday + UNIX_EPOCH_JDATE, &year, &month, &day);
	while (jday * SECS_PER_DAY < end)
	{
		int days_in_month = day_tab[isleap(year)][month - 1];

		if (!(e->months & (1u << month)))
		{
			jday += days_in_month - day;
			day = days_in_month;
		}
		else if (day_matches(e, day, days_in_month, j2day((int) jday + UNIX_EPOCH_JDATE)) &&
				 (minute = minute_of_day(e, minute)) >= 0)
		{
			*local = jday * SECS_PER_DAY + minute * SECS_PER_MINUTE;
			return *local < end;
		}
		minute = 0;
		jday++;
		if (++day > days_in_month)
		{
			day = 1;
			if (++month > MONTHS_PER_YEAR)
			{
				month = 1;
				year++;
			}
		}
	}
	return false;
}

/* Fills in the segment that a time lies in. */
static void
find_segment(CronWalk *walk, int64 at)
{
	pg_time_t t = at;
	pg_time_t boundary;
	long before;
	long after;
	int before_isdst;
	int after_isdst;
	int found = pg_next_dst_boundary(&t, &before, &before_isdst, &boundary, &after, &after_isdst, walk->tz);

	walk->offset = before;
	walk->segment_end = found == 1 && boundary > at ? boundary : PG_INT64_MAX;
}

/*
 * Goes on to the next segment. True: the clock jumps over a time that an expression with fixed hours wants; *instant is the moment of the
 * jump.
 */
static bool
next_segment(CronWalk *walk, int64 *instant)
{
	int64 start = walk->segment_end;
	int64 local;
	bool jumped = false;

	walk->seen = Max(walk->seen, start + walk->offset);
	find_segment(walk, start);
	walk->position = start + walk->offset;
	if (walk->expr->any_hour && walk->expr->kind == CRON_FIELDS)
	{
		walk->position = Max(walk->position, walk->after + 1 + walk->offset);
		return false;
	}
	if (walk->seen < walk->position && start > walk->after)
	{
		jumped = next_local(walk->expr, walk->seen, walk->position, &local);
		*instant = start;
	}
	if (jumped)
		walk->position++; /* the minute in which the clock lands is the same moment */
	walk->position = Max(walk->position, Max(walk->seen, walk->after + 1 + walk->offset));
	return jumped;
}

/* Begins a walk over the instants after a time. */
void
cron_walk_begin(CronWalk *walk, const CronExpr *expr, pg_tz *tz, TimestampTz after)
{
	int64 ignored;

	walk->expr = expr;
	walk->tz = tz;
	walk->after = to_unix(after);
	walk->end = Min(walk->after + HORIZON, to_unix(END_TIMESTAMP) - 1);
	if (expr->kind == CRON_EVERY || (expr->kind == CRON_AT && expr->at_is_utc))
		return;
	find_segment(walk, walk->after - LONGEST_FOLD);
	walk->seen = walk->after - LONGEST_FOLD + walk->offset;
	walk->position = walk->after + 1 + walk->offset;
	while (walk->segment_end <= walk->after)
		(void) next_segment(walk, &ignored);
}

/* The next instant of the walk. False: there is none. */
bool
cron_walk_next(CronWalk *walk, TimestampTz *instant)
{
	const CronExpr *e = walk->expr;
	int64 found;
	int64 local;

	if (e->kind == CRON_EVERY)
		found = (floor_div(walk->after, e->every) + 1) * e->every;
	else if (e->kind == CRON_AT && e->at_is_utc)
		found = e->at > walk->after ? e->at : PG_INT64_MAX;
	else
		for (;;)
		{
			int64 end = Min(walk->segment_end, walk->end + 1);

			if (next_local(e, walk->position, end + walk->offset, &local))
			{
				found = local - walk->offset;
				walk->position = local + 1;
				break;
			}
			if (walk->segment_end > walk->end)
				return false;
			if (next_segment(walk, &found))
				break;
		}
	if (found > walk->end)
		return false;
	/* found again in no other segment, and by no other look */
	walk->after = found;
	walk->end = Min(found + HORIZON, to_unix(END_TIMESTAMP) - 1);
	*instant = from_unix(found);
	return true;
}

/* The first instant after a time. False: there is none. */
bool
cron_next(const CronExpr *expr, pg_tz *tz, TimestampTz after, TimestampTz *instant)
{
	CronWalk walk;

	cron_walk_begin(&walk, expr, tz, after);
	return cron_walk_next(&walk, instant);
}

/*
 * The latest instants in [from, to], at most max of them, in ascending order; returns how many. Looks at a short time before `to` first,
 * and further back as long as there are too few.
 */
int
cron_latest(const CronExpr *expr, pg_tz *tz, TimestampTz from, TimestampTz to, TimestampTz *instants, int max)
{
	int64 window = USECS_PER_HOUR;

	for (;;)
	{
		TimestampTz start = to - from <= window ? from : to - window;
		TimestampTz instant;
		CronWalk walk;
		int64 n = 0;

		cron_walk_begin(&walk, expr, tz, start - 1);
		while (cron_walk_next(&walk, &instant) && instant <= to)
		{
			if (n++ >= max)
				memmove(instants, instants + 1, (max - 1) * sizeof(TimestampTz));
			instants[Min(n, max) - 1] = instant;
		}
		if (n >= max || start == from)
			return (int) Min(n, max);
		window *= 16;
	}
}
