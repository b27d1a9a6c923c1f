/*-------------------------------------------------------------------------
 *
 * rescan.c
 *		Looks now and then for tickets that the hints have forgotten.
 *
 * Claims start at cursors, promotion and expiry at positions in time. If an
 * announcement was ever lost (COMMIT PREPARED makes none), a ticket would
 * lie below for ever. A rescan walks what lies below, in small pieces, and
 * announces again what is still there at a second look. It runs only after
 * there was activity, and at most a hundredth of the time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"

#include "cursor.h"
#include "guc.h"
#include "maintain.h"
#include "store.h"
#include "timeutil.h"

#define RESCAN_WALK 5000 /* index entries in one transaction */
#define DESCENT_COST 20  /* a descent of the index counts as so many */
#define TAIL_WALK 2000
#define MAX_SUSPECTS 256
#define SECOND_LOOK USECS_PER_SEC
#define REST_FACTOR 100 /* rest after a rescan, in multiples of its time */

typedef enum RescanStage
{
	STAGE_IDLE,
	STAGE_QUEUES,
	STAGE_LEASES,
	STAGE_EXPIRIES,
	STAGE_SECOND_LOOK
} RescanStage;

/* Visible tickets below a cursor. */
typedef struct Suspect
{
	QueueSlot *slot;
	int32 queue_id;
	int16 lane;
	int16 priority;
	int64 lo;
	int64 hi;
} Suspect;

/* Where a rescan stands. */
static RescanStage stage = STAGE_IDLE;
static int slot_index;
static int unit;         /* a lane, or NUM_LANES for delayed */
static int above;        /* priorities up to this one are done */
static int64 walk_from;  /* of the priority, or of the times, in hand */
static int32 walk_queue; /* whose priority that is */
static int16 walk_prio;
static int64 time_used;
static TimestampTz look_again;
static Suspect suspects[MAX_SUSPECTS];
static int nsuspects;
static int budget;
static bool requested = false;

TimestampTz
rescan_due(Maintain *m)
{
	TimestampTz due = DT_NOEND;

	if (stage == STAGE_SECOND_LOOK)
		return look_again;
	if (stage != STAGE_IDLE || requested)
		return DT_NOBEGIN;
	if (jobq_rescan_interval == 0)
		return DT_NOEND;
	SpinLockAcquire(&m->db->mutex);
	if (m->db->activity != m->db->rescan_activity)
		due = m->db->next_rescan;
	SpinLockRelease(&m->db->mutex);
	return due;
}

/* Has one made at once. */
void
rescan_soon(Maintain *m)
{
	requested = true;
}

static void
next_unit(void)
{
	above = PG_INT16_MIN - 1;
	walk_from = PG_INT64_MIN;
	if (++unit > NUM_LANES)
	{
		unit = 0;
		slot_index++;
	}
}

static void
wake_all(QueueSlot *slot)
{
	if (pg_atomic_read_u32(&slot->waiters) > 0)
		ConditionVariableBroadcast(&slot->wake);
}

/* Announces tickets again, unless the claims know of them. */
static void
announce(Suspect *s)
{
	CursorScan scan;
	bool known = false;

	if (s->slot->queue_id != s->queue_id || s->slot->db_oid != MyDatabaseId)
		return;
	(void) cursor_open(s->slot, s->queue_id, s->lane, s->priority, &scan);
	for (int i = 0; i < scan.nstanding; i++)
		known |= scan.standing[i].lo <= s->lo && scan.standing[i].hi >= s->hi;
	if (known)
		return;
	cursor_announce(s->slot, s->lane, s->priority, s->lo, s->hi);
	wake_all(s->slot);
}

/* Notes a visible ticket below a cursor. */
static void
suspect(QueueSlot *slot, int32 queue_id, int16 priority, int64 seq)
{
	Suspect *s = nsuspects > 0 ? &suspects[nsuspects - 1] : NULL;
	bool same = s && s->slot == slot && s->lane == unit && s->priority == priority;

	if (same && (s->hi + 1 == seq || nsuspects == MAX_SUSPECTS))
		s->hi = seq;
	else
	{
		if (nsuspects == MAX_SUSPECTS)
			announce(&suspects[--nsuspects]);
		s = &suspects[nsuspects++];
		s->slot = slot;
		s->queue_id = queue_id;
		s->lane = unit;
		s->priority = priority;
		s->lo = s->hi = seq;
	}
}

static int
lane_keys(ScanKey keys, int32 queue_id, int lane)
{
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(lane));
	return 2;
}

/* The next priority of the lane that has entries at all, dead ones too. */
static bool
next_priority(StoreTable *ready, Snapshot snapshot, int32 queue_id, int16 *priority)
{
	ScanKeyData keys[3];
	StoreWalk walk;
	int n = lane_keys(keys, queue_id, unit);
	bool visible;
	bool found;

	if (above >= PG_INT16_MIN)
		ScanKeyInit(&keys[n++], 3, BTGreaterStrategyNumber, F_INT2GT, Int16GetDatum((int16) above));
	store_walk_begin(&walk, ready, INDEX_READY_SCAN, snapshot, keys, n);
	found = store_walk_next(&walk, &visible);
	if (found)
		*priority = DatumGetInt16(store_walk_key(&walk, 3));
	store_walk_end(&walk);
	budget -= DESCENT_COST;
	return found;
}

/* A cursor that says nothing is left, or no cursor: announces the first ticket from position on, if there is one. */
static void
check_tail(QueueSlot *slot, int32 queue_id, StoreTable *ready, Snapshot snapshot, int16 priority, int64 position)
{
	ScanKeyData keys[4];
	StoreWalk walk;
	CursorScan scan;
	int n = lane_keys(keys, queue_id, unit);
	bool visible = false;
	int64 seq = 0;

	if (cursor_first(slot, queue_id, unit, priority - 1, &scan) && scan.priority == priority)
		return;
	ScanKeyInit(&keys[n++], 3, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(priority));
	if (position != PG_INT64_MIN)
		ScanKeyInit(&keys[n++], 4, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(position));
	store_walk_begin(&walk, ready, INDEX_READY_SCAN, snapshot, keys, n);
	while (!visible && walk.walked < TAIL_WALK && store_walk_next(&walk, &visible))
		seq = DatumGetInt64(store_walk_key(&walk, 4));
	budget -= walk.walked + DESCENT_COST;
	if (walk.walked > 0 && (visible || walk.walked == TAIL_WALK))
	{
		cursor_announce(slot, unit, priority, seq, seq);
		wake_all(slot);
	}
	store_walk_end(&walk);
}

/* One priority of a lane, below its cursor. */
static void
walk_priority(QueueSlot *slot, int32 queue_id, StoreTable *ready, Snapshot snapshot, int16 priority)
{
	ScanKeyData keys[5];
	StoreWalk walk;
	int n = lane_keys(keys, queue_id, unit);
	int64 position = PG_INT64_MIN;
	bool visible;
	bool end = true;

	if (walk_queue != queue_id || walk_prio != priority)
		walk_from = PG_INT64_MIN;
	walk_queue = queue_id;
	walk_prio = priority;
	if (cursor_position(slot, unit, priority, &position) && position != PG_INT64_MIN)
	{
		ScanKeyInit(&keys[n++], 3, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(priority));
		ScanKeyInit(&keys[n++], 4, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(position));
		if (walk_from != PG_INT64_MIN)
			ScanKeyInit(&keys[n++], 4, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(walk_from));
		store_walk_begin(&walk, ready, INDEX_READY_SCAN, snapshot, keys, n);
		while (store_walk_next(&walk, &visible))
		{
			CHECK_FOR_INTERRUPTS();
			walk_from = DatumGetInt64(store_walk_key(&walk, 4));
			if (visible)
				suspect(slot, queue_id, priority, walk_from);
			if (--budget <= 0)
			{
				end = false;
				break;
			}
		}
		store_walk_end(&walk);
		budget -= DESCENT_COST;
	}
	if (!end)
		return;
	check_tail(slot, queue_id, ready, snapshot, priority, position);
	above = priority;
	walk_from = PG_INT64_MIN;
}

/*
 * Walks entries with a time before limit, from walk_from on; returns the first visible one's time, or DT_NOEND. *end: there are no more.
 */
static TimestampTz
walk_times(StoreTable *t, int index, Snapshot snapshot, ScanKey keys, int n, int column, TimestampTz limit, bool *end)
{
	StoreWalk walk;
	bool visible = false;
	TimestampTz at = DT_NOEND;
	TimestampTz start = walk_from;

	*end = true;
	ScanKeyInit(&keys[n++], column, BTLessStrategyNumber, F_TIMESTAMPTZ_LT, TimestampTzGetDatum(limit));
	if (start != PG_INT64_MIN)
		ScanKeyInit(&keys[n++], column, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE, TimestampTzGetDatum(start));
	store_walk_begin(&walk, t, index, snapshot, keys, n);
	while (*end && !visible && store_walk_next(&walk, &visible))
	{
		CHECK_FOR_INTERRUPTS();
		at = DatumGetTimestampTz(store_walk_key(&walk, column));
		/* the next piece starts at the same time again: that must be progress */
		*end = --budget > 0 || at <= start;
	}
	store_walk_end(&walk);
	budget -= DESCENT_COST;
	walk_from = at;
	return visible ? at : DT_NOEND;
}

/* The delayed tickets of a queue: what lies before its cursor, and no longer trust when the next one is due. */
static void
walk_delayed(QueueSlot *slot, int32 queue_id, StoreTable *delayed, Snapshot snapshot)
{
	ScanKeyData keys[3];
	TimestampTz cursor;
	TimestampTz found = DT_NOEND;
	bool end = true;

	SpinLockAcquire(&slot->mutex);
	cursor = slot->delayed_cursor;
	SpinLockRelease(&slot->mutex);
	if (!TIMESTAMP_IS_NOBEGIN(cursor))
	{
		ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
		found = walk_times(delayed, INDEX_DELAYED_DUE, snapshot, keys, 1, 2, cursor, &end);
		if (!end && TIMESTAMP_IS_NOEND(found))
			return;
	}
	SpinLockAcquire(&slot->mutex);
	if (slot->queue_id == queue_id && slot->db_oid == MyDatabaseId)
	{
		slot->delayed_low = Min(slot->delayed_low, found);
		slot->next_due = DT_NOBEGIN;
	}
	SpinLockRelease(&slot->mutex);
	next_unit();
}

static void
walk_queues(Maintain *m, StoreTable *ready, StoreTable *delayed, Snapshot snapshot)
{
	while (budget > 0 && slot_index < jobq_max_queues)
	{
		QueueSlot *slot = &jobq_queues[slot_index];
		int32 queue_id = slot->queue_id;
		int16 priority;

		CHECK_FOR_INTERRUPTS();
		if (!maintain_slot_is_ours(m, slot))
		{
			unit = NUM_LANES;
			next_unit();
		}
		else if (unit == NUM_LANES)
			walk_delayed(slot, queue_id, delayed, snapshot);
		else if (next_priority(ready, snapshot, queue_id, &priority))
			walk_priority(slot, queue_id, ready, snapshot, priority);
		else
			next_unit();
	}
	if (slot_index >= jobq_max_queues)
	{
		stage = STAGE_LEASES;
		walk_from = PG_INT64_MIN;
	}
}

static void
walk_leases(Maintain *m, Snapshot snapshot)
{
	StoreTable *lease = store_open(TABLE_LEASE);
	ScanKeyData keys[2];
	TimestampTz cursor;
	TimestampTz found = DT_NOEND;
	bool end = true;

	SpinLockAcquire(&m->db->mutex);
	cursor = m->db->lease_cursor;
	SpinLockRelease(&m->db->mutex);
	if (!TIMESTAMP_IS_NOBEGIN(cursor))
		found = walk_times(lease, INDEX_LEASE_UNTIL, snapshot, keys, 0, 1, cursor, &end);
	store_close(lease);
	if (!end && TIMESTAMP_IS_NOEND(found))
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->lease_low = Min(m->db->lease_low, found);
	m->db->next_lease = DT_NOBEGIN;
	SpinLockRelease(&m->db->mutex);
	stage = STAGE_EXPIRIES;
	walk_from = PG_INT64_MIN;
}

/* Times to live that lie before the cursor: those of active jobs, too, which the step passes over once more. */
static void
walk_expiries(Maintain *m, Snapshot snapshot)
{
	StoreTable *job = store_open(TABLE_JOB);
	ScanKeyData keys[2];
	TimestampTz cursor;
	TimestampTz found = DT_NOEND;
	bool end = true;

	SpinLockAcquire(&m->db->mutex);
	cursor = m->db->expiry_cursor;
	SpinLockRelease(&m->db->mutex);
	if (!TIMESTAMP_IS_NOBEGIN(cursor))
		found = walk_times(job, INDEX_JOB_EXPIRES, snapshot, keys, 0, 1, cursor, &end);
	store_close(job);
	if (!end && TIMESTAMP_IS_NOEND(found))
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->expiry_low = Min(m->db->expiry_low, found);
	m->db->next_expiry = DT_NOBEGIN;
	SpinLockRelease(&m->db->mutex);
	stage = STAGE_SECOND_LOOK;
	look_again = nsuspects > 0 ? clock_now() + SECOND_LOOK : DT_NOBEGIN;
}

/* Announces the suspects of which something is still there. */
static void
second_look(StoreTable *ready, Snapshot snapshot)
{
	while (nsuspects > 0 && budget > 0)
	{
		Suspect *s = &suspects[--nsuspects];
		StoreScan scan;
		bool found;

		CHECK_FOR_INTERRUPTS();
		store_ready_scan(&scan, ready, snapshot, s->queue_id, s->lane, s->priority, s->lo, s->hi);
		found = store_scan_next(&scan);
		store_scan_end(&scan);
		budget -= DESCENT_COST;
		if (found)
			announce(s);
	}
}

static void
start(Maintain *m)
{
	stage = STAGE_QUEUES;
	requested = false;
	slot_index = 0;
	unit = -1;
	next_unit();
	nsuspects = 0;
	time_used = 0;
	SpinLockAcquire(&m->db->mutex);
	m->db->rescan_activity = m->db->activity;
	/* if this process does not come to the end of it */
	m->db->next_rescan = clock_now() + jobq_rescan_interval * USECS_PER_SEC;
	SpinLockRelease(&m->db->mutex);
}

static void
finish(Maintain *m)
{
	stage = STAGE_IDLE;
	SpinLockAcquire(&m->db->mutex);
	m->db->next_rescan = clock_now() + Max(jobq_rescan_interval * USECS_PER_SEC, REST_FACTOR * time_used);
	SpinLockRelease(&m->db->mutex);
}

void
rescan_run(Maintain *m)
{
	TimestampTz began = clock_now();
	StoreTable *ready;
	StoreTable *delayed;
	Snapshot snapshot;

	if (!maintain_begin(m))
		return;
	if (stage == STAGE_IDLE)
		start(m);
	budget = RESCAN_WALK;
	ready = store_open(TABLE_READY);
	delayed = store_open(TABLE_DELAYED);
	snapshot = store_snapshot();
	if (stage == STAGE_QUEUES)
		walk_queues(m, ready, delayed, snapshot);
	else if (stage == STAGE_LEASES)
		walk_leases(m, snapshot);
	else if (stage == STAGE_EXPIRIES)
		walk_expiries(m, snapshot);
	else
		second_look(ready, snapshot);
	store_snapshot_done(snapshot);
	store_close(delayed);
	store_close(ready);
	maintain_end(m);
	time_used += Max(clock_now() - began, 0);
	if (stage == STAGE_SECOND_LOOK && nsuspects == 0)
		finish(m);
}
