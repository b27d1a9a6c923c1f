/*-------------------------------------------------------------------------
 *
 * timewalk.c
 *		Bounded walks over what is due, in an index that is ordered by time.
 *
 * See timewalk.h for how the parts go together.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#include "timeutil.h"
#include "timewalk.h"

#define PEEK_WALK 2000
#define BUSY_FIRST (20 * 1000)
#define BUSY_LONGEST USECS_PER_SEC

/* Takes what was told out of shared memory. Caller holds its lock. */
void
timewalk_take(TimeLook *look, TimestampTz cursor, TimestampTz *low)
{
	*look = (TimeLook){.taken = true, .low = *low, .start = Min(cursor, *low)};
	*low = DT_NOEND;
}

/* Decides where the walk starts: where the pass stands, or lower, if something was told there meanwhile. */
void
timewalk_begin(TimeLook *look, const TimePass *pass)
{
	if (pass->running)
	{
		look->resume = look->low > pass->resume_at;
		look->start = look->resume ? pass->resume_at : look->low;
	}
	look->reached = look->start;
	look->next = DT_NOEND;
}

/* Walks over the entries under the keys. False: stopped before their end. */
static bool
walk_keys(TimeLook *look, const TimeWalk *w, Snapshot snapshot, ScanKey keys, int nkeys)
{
	StoreWalk walk;
	bool full = false;
	bool all = true;
	bool visible;

	store_walk_begin(&walk, w->table, w->index, snapshot, keys, nkeys);
	while (all && store_walk_next(&walk, &visible))
	{
		CHECK_FOR_INTERRUPTS();
		look->reached = DatumGetTimestampTz(store_walk_key(&walk, w->column));
		if (w->has_id)
			look->reached_id = DatumGetInt64(store_walk_key(&walk, w->column + 1));
		if (visible && !w->take(w->arg, walk.slot, look->reached))
			full = true;
		all = !full && walk.walked < w->limit;
		/* without an id the next transaction starts at reached again, and that must be progress */
		if (!w->has_id && look->reached <= look->start)
			all = true;
	}
	store_walk_end(&walk);
	return all;
}

/* Finds when the next entry after now is due; a lower bound when too many dead entries lie before it. */
static TimestampTz
peek(const TimeWalk *w, Snapshot snapshot, TimestampTz now)
{
	ScanKeyData keys[2];
	int n = w->column - 1;
	StoreWalk walk;
	TimestampTz next = DT_NOEND;
	bool visible = false;

	keys[0] = w->prefix;
	ScanKeyInit(&keys[n++], w->column, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, TimestampTzGetDatum(now));
	store_walk_begin(&walk, w->table, w->index, snapshot, keys, n);
	while (!visible && walk.walked < PEEK_WALK && store_walk_next(&walk, &visible))
		next = DatumGetTimestampTz(store_walk_key(&walk, w->column));
	if (!visible && walk.walked < PEEK_WALK)
		next = DT_NOEND;
	store_walk_end(&walk);
	return next;
}

/* Walks over what is due by now, as far as one transaction may, and finds out what comes after it. */
void
timewalk_run(TimeLook *look, const TimePass *pass, const TimeWalk *w, Snapshot snapshot, TimestampTz now)
{
	ScanKeyData keys[3];
	int n = w->column - 1;
	Datum start = TimestampTzGetDatum(look->start);

	keys[0] = w->prefix;
	if (look->resume && w->has_id)
	{
		ScanKeyInit(&keys[n], w->column, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ, start);
		ScanKeyInit(&keys[n + 1], w->column + 1, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(pass->resume_id));
		look->more = !walk_keys(look, w, snapshot, keys, n + 2);
		if (look->more)
			return;
		ScanKeyInit(&keys[n++], w->column, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, start);
	}
	else if (!TIMESTAMP_IS_NOBEGIN(look->start))
		ScanKeyInit(&keys[n++], w->column, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE, start);
	ScanKeyInit(&keys[n++], w->column, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(now));
	look->more = !walk_keys(look, w, snapshot, keys, n);
	if (look->more)
		return;
	look->reached = now;
	look->next = peek(w, snapshot, now);
}

/* Notes that something due is left for now. until: when to try it again. */
void
timewalk_leave(TimePass *pass, TimestampTz at, TimestampTz until)
{
	pass->kept = Min(pass->kept, at);
	pass->retry = Min(pass->retry, until);
}

/* The same of what somebody has in hand: tried again soon, and ever less soon. */
void
timewalk_leave_busy(TimePass *pass, TimestampTz at)
{
	timewalk_leave(pass, at, DT_NOEND);
	pass->busy = true;
}

/* Ends a pass. Returns when what was left is tried again. */
static TimestampTz
end_pass(TimePass *pass)
{
	TimestampTz retry = pass->retry;

	if (!pass->busy)
		pass->pause = 0;
	else
	{
		pass->pause = pass->pause == 0 ? BUSY_FIRST : Min(pass->pause * 2, BUSY_LONGEST);
		retry = Min(retry, clock_now() + pass->pause);
	}
	pass->busy = false;
	pass->kept = pass->retry = DT_NOEND;
	return retry;
}

/* After the commit: what was found out. *cursor, *next: to be set in shared memory, unless its low is lower. */
void
timewalk_end(const TimeLook *look, TimePass *pass, TimestampTz *cursor, TimestampTz *next)
{
	*cursor = Min(look->reached, pass->kept);
	*next = look->reached;
	pass->running = look->more;
	pass->resume_at = look->reached;
	pass->resume_id = look->reached_id;
	if (!look->more)
	{
		*next = end_pass(pass);
		*next = Min(*next, look->next);
	}
}
