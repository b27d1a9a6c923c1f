/*-------------------------------------------------------------------------
 *
 * cursor.c
 *		The claim cursor: where the scan of one (queue, lane, priority) starts.
 *
 * Taken tickets leave dead index entries that no vacuum can remove while an
 * old snapshot is held. A claim would walk all of them; so it starts behind
 * what earlier claims have seen. What becomes claimable below the cursor, by
 * a late commit of an enqueue or the rollback of a claim, is announced as an
 * interval of sequence numbers:
 *
 *	announce (after the commit or abort is visible):
 *		gen++; log[gen % R] = (lo, hi); below the cursor: standing += (lo, hi)
 *	claim:
 *		copy cursor, gen and standing; then take the snapshot
 *		scan the standing intervals, lowest first, then from the cursor on
 *		standing intervals that were scanned go, or are cut to what is left
 *		x = last seen + 1; what was announced since the copy and lies below x
 *		joins standing; cursor = max(cursor, x)
 *
 * The order is what makes it safe: whatever the snapshot did not show is
 * announced after the copy, and is found in the log when the cursor is
 * raised. When the log was too short for that, the cursor stays.
 *
 * Standing intervals are told apart by an id of their own: an aborted claim
 * announces the very same bounds again.
 *
 * A cursor that was scanned to its end without filling a batch is "drained"
 * until the next announcement, so that empty priorities cost no probe.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cursor.h"

/* Finds a lane's cursor for a priority; -1 when there is none. Caller holds cursor_lock. */
static int32
find_cursor(QueueSlot *slot, int lane, int priority)
{
	int32 index = slot->lane_head[lane];

	while (index >= 0 && jobq_cursors[index].priority < priority)
		index = jobq_cursors[index].next;
	return index >= 0 && jobq_cursors[index].priority == priority ? index : -1;
}

/*
 * Makes a lane's cursor for a priority. It starts at the very beginning, since there may be tickets from before a restart. -1 when all
 * cursors are in use: then the lane is not known any more, and claims look for its priorities in the index. Caller holds cursor_lock
 * exclusively.
 */
static int32
make_cursor(QueueSlot *slot, int lane, int priority)
{
	int32 index = shmem_cursor_alloc();
	int32 *link = &slot->lane_head[lane];

	if (index < 0)
	{
		slot->lane_known[lane] = false;
		slot->lane_lost[lane]++;
		return -1;
	}
	while (*link >= 0 && jobq_cursors[*link].priority < priority)
		link = &jobq_cursors[*link].next;
	jobq_cursors[index].priority = priority;
	jobq_cursors[index].next = *link;
	*link = index;
	return index;
}

/* Adds a standing interval; when there is no room the two ends with the smallest gap between them become one. */
static void
add_standing(ClaimCursor *cursor, int64 lo, int64 hi)
{
	CursorInterval *s = cursor->standing;
	int at = 0;

	if (lo > hi)
		return;
	if (cursor->nstanding == CURSOR_STANDING)
	{
		int best = 0;
		int64 gap = PG_INT64_MAX;

		for (int i = 0; i + 1 < cursor->nstanding; i++)
		{
			int64 g = s[i + 1].lo - s[i].hi;

			if (g < gap)
			{
				gap = g;
				best = i;
			}
		}
		s[best].hi = Max(s[best].hi, s[best + 1].hi);
		s[best].id = cursor->next_id++;
		memmove(&s[best + 1], &s[best + 2], (cursor->nstanding - best - 2) * sizeof(*s));
		cursor->nstanding--;
	}
	while (at < cursor->nstanding && s[at].lo <= lo)
		at++;
	memmove(&s[at + 1], &s[at], (cursor->nstanding - at) * sizeof(*s));
	s[at].lo = lo;
	s[at].hi = hi;
	s[at].id = cursor->next_id++;
	cursor->nstanding++;
}

/*
 * Tells claims of tickets with sequence numbers in lo..hi that can be taken from now on. To be called when the commit (or abort) that
 * makes them so is visible. Cannot fail.
 */
void
cursor_announce(QueueSlot *slot, int lane, int priority, int64 lo, int64 hi)
{
	int32 index;

	LWLockAcquire(&slot->cursor_lock, LW_EXCLUSIVE);
	index = find_cursor(slot, lane, priority);
	if (index < 0)
		index = make_cursor(slot, lane, priority);
	if (index >= 0)
	{
		ClaimCursor *cursor = &jobq_cursors[index];

		cursor->gen++;
		cursor->log[cursor->gen % CURSOR_LOG].lo = lo;
		cursor->log[cursor->gen % CURSOR_LOG].hi = hi;
		if (lo < cursor->cursor)
			add_standing(cursor, lo, Min(hi, cursor->cursor - 1));
	}
	LWLockRelease(&slot->cursor_lock);
}

/* Copies a cursor for one claim. Caller holds cursor_lock. */
static void
copy_cursor(QueueSlot *slot, int lane, int32 index, CursorScan *scan)
{
	ClaimCursor *cursor = &jobq_cursors[index];

	scan->cursor = cursor;
	scan->queue_id = slot->queue_id;
	scan->lane = lane;
	scan->priority = cursor->priority;
	scan->start = cursor->cursor;
	scan->span = cursor->span;
	scan->gen = cursor->gen;
	scan->nstanding = cursor->nstanding;
	memcpy(scan->standing, cursor->standing, cursor->nstanding * sizeof(CursorInterval));
	scan->nscanned = 0;
	scan->part_lo = PG_INT64_MIN;
	scan->tail_seen = scan->tail_end = false;
	scan->tail_last = PG_INT64_MIN;
	scan->tail_taken = 0;
}

/*
 * Opens the lane's first cursor with a priority above the given one (PG_INT16_MIN - 1: the very first) that may have something to take.
 * False when there is none. The caller takes its snapshot after this, and ends with cursor_finish.
 */
bool
cursor_first(QueueSlot *slot, int32 queue_id, int lane, int above, CursorScan *scan)
{
	int32 index;

	/* a lane that nobody uses costs no lock: as if we had looked a moment before its first ticket was announced */
	if (slot->lane_head[lane] < 0)
		return false;
	LWLockAcquire(&slot->cursor_lock, LW_SHARED);
	/* a dropped queue's slot may be another's by now */
	for (index = slot->queue_id == queue_id ? slot->lane_head[lane] : -1; index >= 0; index = jobq_cursors[index].next)
	{
		ClaimCursor *cursor = &jobq_cursors[index];

		if (cursor->priority <= above)
			continue;
		if (cursor->drained && cursor->drained_gen == cursor->gen && cursor->nstanding == 0)
			continue;
		copy_cursor(slot, lane, index, scan);
		break;
	}
	LWLockRelease(&slot->cursor_lock);
	return index >= 0;
}

/* Opens the cursor of one priority, made when there is none. False, and scan->cursor NULL, when all cursors are in use. */
bool
cursor_open(QueueSlot *slot, int32 queue_id, int lane, int priority, CursorScan *scan)
{
	int32 index = -1;

	LWLockAcquire(&slot->cursor_lock, LW_EXCLUSIVE);
	if (slot->queue_id == queue_id)
	{
		index = find_cursor(slot, lane, priority);
		if (index < 0)
			index = make_cursor(slot, lane, priority);
	}
	if (index >= 0)
		copy_cursor(slot, lane, index, scan);
	LWLockRelease(&slot->cursor_lock);
	if (index < 0)
	{
		memset(scan, 0, sizeof(*scan));
		scan->priority = priority;
		scan->start = PG_INT64_MIN;
	}
	return index >= 0;
}

/* Removes the standing intervals that a claim scanned, and cuts the one it scanned in part, if they still are those very entries. */
static void
drop_scanned(ClaimCursor *cursor, const CursorScan *scan)
{
	int kept = 0;

	for (int i = 0; i < cursor->nstanding; i++)
	{
		CursorInterval entry = cursor->standing[i];
		bool gone = false;

		for (int j = 0; j < scan->nstanding && j <= scan->nscanned; j++)
		{
			if (scan->standing[j].id != entry.id)
				continue;
			if (j < scan->nscanned)
				gone = true;
			else if (scan->part_lo >= entry.lo)
			{
				entry.lo = scan->part_lo + 1;
				gone = entry.lo > entry.hi;
			}
			break;
		}
		if (!gone)
			cursor->standing[kept++] = entry;
	}
	cursor->nstanding = kept;
}

/* Raises the cursor to x, with what was announced below x since the claim's copy. */
static void
raise_cursor(ClaimCursor *cursor, const CursorScan *scan, int64 x)
{
	int64 from = cursor->cursor;

	if (x <= from || cursor->gen - scan->gen > CURSOR_LOG)
		return;
	for (uint64 g = scan->gen + 1; g <= cursor->gen; g++)
	{
		int64 lo = cursor->log[g % CURSOR_LOG].lo;
		int64 hi = cursor->log[g % CURSOR_LOG].hi;

		add_standing(cursor, Max(lo, from), Min(hi, x - 1));
	}
	cursor->cursor = x;
}

/* Ends a claim's scan: its results go into the cursor. */
void
cursor_finish(QueueSlot *slot, CursorScan *scan)
{
	ClaimCursor *cursor = scan->cursor;
	int32 index;

	if (cursor == NULL)
		return;
	if (scan->nscanned == 0 && scan->part_lo == PG_INT64_MIN && !scan->tail_seen && !scan->tail_end)
		return;
	LWLockAcquire(&slot->cursor_lock, LW_EXCLUSIVE);
	index = slot->queue_id == scan->queue_id ? find_cursor(slot, scan->lane, scan->priority) : -1;
	if (index < 0 || cursor != &jobq_cursors[index])
	{
		/* the queue was dropped meanwhile, and the cursor may serve another */
		LWLockRelease(&slot->cursor_lock);
		return;
	}
	if (scan->nstanding > 0)
		drop_scanned(cursor, scan);
	if (scan->tail_seen)
		raise_cursor(cursor, scan, scan->tail_last + 1);
	if (scan->tail_taken > 0 && scan->start != PG_INT64_MIN)
		cursor->span = (scan->tail_last - scan->start) / scan->tail_taken + 1;
	if (scan->tail_end && cursor->gen == scan->gen)
	{
		cursor->drained = true;
		cursor->drained_gen = scan->gen;
	}
	LWLockRelease(&slot->cursor_lock);
}

/* Whether every priority of the lane that has tickets has a cursor. lost: for cursor_lane_learnt. */
bool
cursor_lane_known(QueueSlot *slot, int lane, uint32 *lost)
{
	*lost = slot->lane_lost[lane];
	pg_read_barrier(); /* what is lost after this look is noticed by cursor_lane_learnt */
	return slot->lane_known[lane];
}

/*
 * Notes that the caller has made a cursor for every priority in the index; announcements make the others. Unless one of them found no
 * cursor since cursor_lane_known.
 */
void
cursor_lane_learnt(QueueSlot *slot, int32 queue_id, int lane, uint32 lost)
{
	LWLockAcquire(&slot->cursor_lock, LW_EXCLUSIVE);
	if (slot->queue_id == queue_id && slot->lane_lost[lane] == lost)
		slot->lane_known[lane] = true;
	LWLockRelease(&slot->cursor_lock);
}

/* Where claims of this lane and priority start; false when there is no cursor. */
bool
cursor_position(QueueSlot *slot, int lane, int priority, int64 *position)
{
	int32 index;

	LWLockAcquire(&slot->cursor_lock, LW_SHARED);
	index = find_cursor(slot, lane, priority);
	if (index >= 0)
		*position = jobq_cursors[index].cursor;
	LWLockRelease(&slot->cursor_lock);
	return index >= 0;
}
