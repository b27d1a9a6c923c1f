/*-------------------------------------------------------------------------
 *
 * claim.c
 *		Taking tickets of a queue.
 *
 * A claim walks the index of ready tickets from the cursors on and deletes
 * what it can get without waiting: whoever deletes a ticket owns the next
 * step of its job. No planner and no statistics are involved, so nothing can
 * change what a claim costs.
 *
 * Order: lowest priority number first; among lanes of one priority by turns,
 * so that none starves; within a lane by sequence number. A group's ticket
 * is the turn of that group: its next jobs are taken out of its line.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/timestamp.h"

#include "claim.h"
#include "cursor.h"
#include "debug.h"
#include "overdue.h"
#include "store.h"
#include "timeutil.h"
#include "turn.h"
#include "xact.h"

/*
 * Which lane goes first among equal priorities, claim by claim, and which come after it. Returned jobs go first most of the time; bulk
 * groups go first in one of sixteen claims, and last in the others.
 */
static const char lane_turns[16][NUM_LANES + 1] = {"RFGB", "RGFB", "FRGB", "RGFB", "RFGB", "GRFB", "RFGB", "RGFB",
												   "RFGB", "RGFB", "FRGB", "RGFB", "RFGB", "GRFB", "RFGB", "BRGF"};

/* How long a due ticket is left to a running scheduler. */
#define SCHEDULER_GRACE (100 * INT64CONST(1000))

/* Entries that the first look may meet and not get: taken by others meanwhile. */
#define FIRST_LOOK_SPARE 16

/* Due delayed tickets, at least, that a claim makes ready while no scheduler does. */
#define DUE_TICKETS 64

/* Overdue leases that a claim ends while no scheduler runs. */
#define OVERDUE_LEASES 16

/* In a queue with ageing one claim in so many takes the ticket that has waited longest, whatever its priority. */
#define AGED_TURNS 8

#define BEFORE_ALL (PG_INT16_MIN - 1)

/* A claim under way, or a probe that takes nothing. */
typedef struct Claim
{
	DbSlot *db;
	QueueInfo *queue;
	StoreTable *ready;
	bool probe;
	bool scheduler; /* one is running */
	int64 own_from; /* tickets of this very transaction from here on may be taken */
	int max;
	int n;
	Ticket *tickets;
	int group_batch;
	bool one_lease; /* one group's turn, or jobs of no group */
	TurnTables turn;
} Claim;

static bool
scheduler_running(DbSlot *db)
{
	return db->scheduler_latch != NULL;
}

/* Whether a row's deleter or locker is still at work. */
static bool
in_hand(TupleTableSlot *slot)
{
	bool isnull;
	TransactionId xmax = DatumGetTransactionId(slot_getsysattr(slot, MaxTransactionIdAttributeNumber, &isnull));

	return TransactionIdIsNormal(xmax) && TransactionIdIsInProgress(xmax);
}

/* Whether the job's claim was rolled back too often: then the scheduler counts an attempt for it first. */
static bool
is_poisoned(Claim *claim, const Ticket *ticket)
{
	if (!claim->scheduler)
		return false;
	if (ticket->group_id > 0)
		return turn_is_poisoned(&claim->turn, ticket);
	return shmem_rollback_count(MyDatabaseId, ticket->job_id) >= ROLLBACK_LIMIT;
}

/* Takes the ticket in the slot if nobody else has it. True when the claim is full. */
static bool
take(Claim *claim, TupleTableSlot *slot)
{
	Ticket *ticket = &claim->tickets[claim->n];

	CHECK_FOR_INTERRUPTS();
	store_ticket_read(TABLE_READY, slot, ticket);
	if (ticket->mine && ticket->seq < claim->own_from)
		return false;
	if (is_poisoned(claim, ticket))
		return false;
	if (claim->probe)
	{
		if (in_hand(slot))
			return false;
	}
	else
	{
		xact_reserve();
		if (store_delete(claim->ready, &ticket->tid, false) != TM_Ok)
			return false;
		DEBUG_POINT("claim-took");
		xact_took_ready(claim->queue, ticket->lane, ticket->priority, ticket->seq);
		if (ticket->group_id > 0)
		{
			Ticket turn = *ticket;

			claim->n += turn_take(&claim->turn, claim->queue, &turn, claim->group_batch, claim->max - claim->n, ticket);
			if (claim->one_lease && claim->n > 0)
				claim->max = claim->n;
			return claim->n == claim->max;
		}
		xact_count(claim->queue, COUNT_READY, -1);
	}
	claim->n++;
	return claim->n == claim->max;
}

/*
 * Where the first look from the cursor on ends. A btree scan reads all matching entries of a leaf page before it returns the first, which
 * is most of a small claim's cost; so ask for about as many as are wanted, judging by how densely this queue's numbers lay.
 */
static int64
first_look(const Claim *claim, const CursorScan *scan)
{
	int64 width;

	if (scan->start == PG_INT64_MIN || scan->span == 0)
		return PG_INT64_MAX;
	width = saturating_mul(scan->span, 2 * (claim->max - claim->n) + FIRST_LOOK_SPARE);
	return width > PG_INT64_MAX - scan->start ? PG_INT64_MAX : scan->start + width;
}

/* Scans the tail from lo to hi. True when the claim is full. */
static bool
scan_tail(Claim *claim, int lane, CursorScan *scan, Snapshot snapshot, int64 lo, int64 hi)
{
	StoreScan s;
	bool full = false;
	int before = claim->n;

	store_ready_scan(&s, claim->ready, snapshot, claim->queue->id, lane, scan->priority, lo, hi);
	while (!full && store_scan_next(&s))
	{
		scan->tail_seen = true;
		scan->tail_last = DatumGetInt64(slot_value(s.slot, Anum_ready_seq));
		full = take(claim, s.slot);
	}
	store_scan_end(&s);
	scan->tail_taken += claim->n - before;
	return full;
}

/* Scans what a cursor says and records in it how far it came. */
static void
scan_lane(Claim *claim, int lane, CursorScan *scan)
{
	Snapshot snapshot = store_snapshot();
	StoreScan s;
	bool full = false;

	for (int i = 0; i < scan->nstanding && !full; i++)
	{
		CursorInterval *part = &scan->standing[i];

		store_ready_scan(&s, claim->ready, snapshot, claim->queue->id, lane, scan->priority, part->lo, part->hi);
		while (!full && store_scan_next(&s))
		{
			scan->part_lo = DatumGetInt64(slot_value(s.slot, Anum_ready_seq));
			full = take(claim, s.slot);
		}
		store_scan_end(&s);
		if (!full)
		{
			scan->nscanned++;
			scan->part_lo = PG_INT64_MIN;
		}
	}
	if (!full)
	{
		int64 hi = first_look(claim, scan);

		full = scan_tail(claim, lane, scan, snapshot, scan->start, hi);
		if (!full && hi != PG_INT64_MAX)
			full = scan_tail(claim, lane, scan, snapshot, hi + 1, PG_INT64_MAX);
		scan->tail_end = !full;
	}
	store_snapshot_done(snapshot);
}

/*
 * Opens the lane's next priority above the given one. Lanes whose priorities are not all known are looked up in the index.
 */
static bool
next_priority(Claim *claim, int lane, int above, CursorScan *scan)
{
	QueueSlot *slot = claim->queue->slot;
	Snapshot snapshot;
	int16 priority;
	bool found;

	uint32 lost;

	/* tickets that this transaction has just made are announced to nobody yet */
	if (slot && claim->own_from == PG_INT64_MAX && cursor_lane_known(slot, lane, &lost))
		return cursor_first(slot, claim->queue->id, lane, above, scan);
	snapshot = store_snapshot();
	found = store_ready_next_priority(claim->ready, snapshot, claim->queue->id, lane, above, &priority);
	store_snapshot_done(snapshot);
	if (!found)
		return false;
	if (slot)
	{
		(void) cursor_open(slot, claim->queue->id, lane, priority, scan);
		scan->start = Min(scan->start, claim->own_from);
	}
	else
	{
		memset(scan, 0, sizeof(*scan));
		scan->priority = priority;
		scan->start = PG_INT64_MIN;
	}
	return true;
}

/* Makes a cursor for every priority that a lane has in the index: after a restart nobody has announced them. */
static void
learn_lane(Claim *claim, int lane)
{
	QueueSlot *slot = claim->queue->slot;
	Snapshot snapshot;
	CursorScan scan;
	int16 priority;
	int above = BEFORE_ALL;
	bool all = true;

	uint32 lost;

	if (slot == NULL || cursor_lane_known(slot, lane, &lost))
		return;
	snapshot = store_snapshot();
	while (all && store_ready_next_priority(claim->ready, snapshot, claim->queue->id, lane, above, &priority))
	{
		CHECK_FOR_INTERRUPTS();
		all = cursor_open(slot, claim->queue->id, lane, priority, &scan);
		above = priority;
	}
	store_snapshot_done(snapshot);
	if (all)
		cursor_lane_learnt(slot, claim->queue->id, lane, lost);
}

/* Whether delayed tickets are due that the scheduler, not running or late, has left; *from: where to look for them. */
static bool
due_left(Claim *claim, TimestampTz *from)
{
	QueueSlot *slot = claim->queue->slot;
	TimestampTz now = clock_now();
	TimestampTz due;

	*from = DT_NOBEGIN;
	if (slot == NULL)
		return true;
	SpinLockAcquire(&slot->mutex);
	due = slot->next_due;
	*from = Min(slot->delayed_cursor, slot->delayed_low);
	SpinLockRelease(&slot->mutex);
	if (due > now || (claim->scheduler && !TIMESTAMP_IS_NOBEGIN(due) && due > now - SCHEDULER_GRACE))
		return false;
	if (claim->scheduler)
		shmem_wake_scheduler(claim->db);
	return true;
}

/* For a probe: whether the queue has a due ticket that nobody has in hand. */
static bool
probe_due(Claim *claim, TimestampTz from)
{
	StoreTable *delayed = store_open(TABLE_DELAYED);
	Snapshot snapshot = store_snapshot();
	StoreScan s;
	bool found = false;

	store_delayed_scan(&s, delayed, snapshot, claim->queue->id, from, clock_now());
	while (!found && store_scan_next(&s))
	{
		CHECK_FOR_INTERRUPTS();
		found = !in_hand(s.slot);
	}
	store_scan_end(&s);
	store_snapshot_done(snapshot);
	store_close(delayed);
	return found;
}

static int
lane_of(char letter)
{
	return letter == 'R' ? LANE_RETURNED : letter == 'F' ? LANE_FRESH : letter == 'G' ? LANE_GROUP : LANE_BULK;
}

/* Opens the first priority of each lane. */
static void
open_lanes(Claim *claim, CursorScan *scans, bool *have)
{
	for (int lane = 0; lane < NUM_LANES; lane++)
		have[lane] = next_priority(claim, lane, BEFORE_ALL, &scans[lane]);
	/* an executor takes either one group's turn, or jobs of no group */
	if (claim->one_lease && claim->n > 0)
		have[LANE_GROUP] = have[LANE_BULK] = false;
}

static void
scan_and_note(Claim *claim, int lane, CursorScan *scan)
{
	scan_lane(claim, lane, scan);
	if (!claim->probe && claim->queue->slot)
		cursor_finish(claim->queue->slot, scan);
}

/*
 * For a queue with ageing: the lane and priority whose next ticket has waited longest, as far as the cursors tell. The lane's scan is
 * moved on to it. -1: there is nothing.
 */
static int
oldest(Claim *claim, const char *order, CursorScan *scans, bool *have)
{
	int best = -1;
	CursorScan found;

	for (int i = 0; i < NUM_LANES; i++)
	{
		int lane = lane_of(order[i]);
		CursorScan scan;
		bool more = have[lane];

		scan = scans[lane];
		while (more)
		{
			int64 start = scan.nstanding > 0 ? scan.standing[0].lo : scan.start;

			CHECK_FOR_INTERRUPTS();
			/* of two that nobody has looked at yet the one that comes last otherwise */
			if (best < 0 || start <= (found.nstanding > 0 ? found.standing[0].lo : found.start))
			{
				best = lane;
				found = scan;
			}
			more = next_priority(claim, lane, scan.priority, &scan);
		}
	}
	if (best >= 0)
		scans[best] = found;
	return best;
}

/* Walks the lanes in order of priority until the claim is full. */
static void
take_ready(Claim *claim)
{
	QueueSlot *slot = claim->queue->slot;
	CursorScan scans[NUM_LANES];
	bool have[NUM_LANES];
	uint32 turn = slot ? pg_atomic_fetch_add_u32(&slot->turn, 1) : 0;
	const char *order = lane_turns[turn % lengthof(lane_turns)];
	bool aged = claim->queue->ageing && turn % AGED_TURNS == 0 && !claim->probe;

	for (int lane = 0; lane < NUM_LANES; lane++)
		learn_lane(claim, lane);
	open_lanes(claim, scans, have);
	if (aged)
	{
		int lane = oldest(claim, order, scans, have);

		if (lane >= 0)
			scan_and_note(claim, lane, &scans[lane]);
		open_lanes(claim, scans, have);
	}
	while (claim->n < claim->max)
	{
		int best = -1;
		int16 priority;

		for (int i = 0; i < NUM_LANES; i++)
		{
			int lane = lane_of(order[i]);

			if (have[lane] && (best < 0 || scans[lane].priority < scans[best].priority))
				best = lane;
		}
		if (best < 0)
			break;
		priority = scans[best].priority;
		scan_and_note(claim, best, &scans[best]);
		if (claim->one_lease && claim->n > 0)
			have[LANE_GROUP] = have[LANE_BULK] = false;
		if (claim->n < claim->max && have[best])
			have[best] = next_priority(claim, best, priority, &scans[best]);
	}
}

/* Pages that this process has looked at so far. */
static inline int64
pages_seen(void)
{
	return pgBufferUsage.shared_blks_hit + pgBufferUsage.shared_blks_read;
}

/* Takes up to request->max_jobs tickets, which the caller has room for; returns how many. */
int
claim_tickets(const ClaimRequest *request, Ticket *tickets)
{
	Claim claim;
	TimestampTz from;
	int64 before = pages_seen();

	memset(&claim, 0, sizeof(claim));
	claim.db = request->db;
	claim.queue = request->queue;
	claim.scheduler = scheduler_running(request->db);
	claim.own_from = PG_INT64_MAX;
	claim.max = request->max_jobs;
	claim.group_batch = request->group_batch;
	claim.one_lease = request->executor != 0;
	claim.tickets = tickets;
	if (due_left(&claim, &from))
		overdue_promote_some(claim.db, claim.queue, Max(claim.max, DUE_TICKETS), from, request->settles,
							 &claim.own_from);
	if (!claim.scheduler)
		(void) overdue_end_some(claim.db, claim.queue, OVERDUE_LEASES, request->settles, &claim.own_from);
	claim.ready = store_open(TABLE_READY);
	take_ready(&claim);
	turn_close(&claim.turn);
	store_close(claim.ready);
	if (claim.queue->slot)
	{
		pg_atomic_fetch_add_u64(&claim.queue->slot->claims, 1);
		pg_atomic_fetch_add_u64(&claim.queue->slot->claim_buffers, pages_seen() - before);
	}
	return claim.n;
}

/* Whether a dequeue of this queue would probably find a job now. Takes nothing and waits for nobody. */
bool
claim_possible(DbSlot *db, QueueInfo *queue)
{
	Claim claim;
	Ticket ticket;
	TimestampTz from;

	memset(&claim, 0, sizeof(claim));
	claim.db = db;
	claim.queue = queue;
	claim.scheduler = scheduler_running(db);
	claim.probe = true;
	claim.own_from = PG_INT64_MAX;
	claim.max = 1;
	claim.tickets = &ticket;
	if (due_left(&claim, &from) && probe_due(&claim, from))
		return true;
	claim.ready = store_open(TABLE_READY);
	take_ready(&claim);
	turn_close(&claim.turn);
	store_close(claim.ready);
	return claim.n > 0;
}
