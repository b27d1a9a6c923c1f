/*-------------------------------------------------------------------------
 *
 * promote.c
 *		Delayed tickets that are due become ready.
 *
 * delayed_cursor says where a queue's scan of delayed starts. What commits
 * below or beside a scan is told through delayed_low: it is emptied before
 * the snapshot is taken, so whatever the snapshot does not show is in it
 * afterwards, and next_due and delayed_cursor are never set beyond it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "guc.h"
#include "ident.h"
#include "maintain.h"
#include "overdue.h"
#include "store.h"
#include "timeutil.h"
#include "xact.h"

#define PROMOTE_TICKETS 500 /* in one transaction */
#define PROMOTE_QUEUES 64   /* in one transaction */
#define PROMOTE_WALK 5000   /* index entries of one queue in one transaction, dead ones too */
#define PEEK_WALK 2000
#define BUSY_FIRST (20 * 1000)
#define BUSY_LONGEST USECS_PER_SEC
#define SLOTLESS_PAUSE USECS_PER_SEC

/* What this process remembers of a queue. */
typedef struct PromoteState
{
	int32 queue_id; /* hash key */
	/* A pass over what is due takes many transactions; it stands behind (resume_at, resume_job). */
	bool in_pass;
	TimestampTz resume_at;
	int64 resume_job;
	TimestampTz kept;  /* earliest ticket that the pass left */
	TimestampTz retry; /* when to try that again */
	bool busy;         /* it left some because they are in somebody's hands */
	int64 pause;       /* before those are tried again */
} PromoteState;

/* One queue in one transaction. */
typedef struct Promotion
{
	PromoteState *state;
	QueueSlot *slot; /* NULL: it has none */
	int32 queue_id;
	TimestampTz low; /* taken out of the slot */
	TimestampTz start;
	bool resume;
	/* results */
	bool more;           /* stopped before the end of what is due */
	TimestampTz reached; /* everything before it was seen */
	int64 reached_job;
	TimestampTz next; /* no ticket is due between now and then */
	int ntickets;
	int64 first; /* of the first ticket, the job's id */
	Ticket *tickets;
} Promotion;

static HTAB *promote_states = NULL;
static Promotion promotions[PROMOTE_QUEUES];
static int npromotions = 0;
static int next_slot = 0;
static TimestampTz slotless_due = DT_NOBEGIN;

static PromoteState *
promote_state(int32 queue_id)
{
	PromoteState *state;
	bool found;

	if (promote_states == NULL)
	{
		HASHCTL info;

		memset(&info, 0, sizeof(info));
		info.keysize = sizeof(int32);
		info.entrysize = sizeof(PromoteState);
		info.hcxt = TopMemoryContext;
		promote_states = hash_create("jobq promotion", 64, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	state = hash_search(promote_states, &queue_id, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) state + sizeof(int32), 0, sizeof(PromoteState) - sizeof(int32));
		state->kept = state->retry = DT_NOEND;
	}
	return state;
}

/* Notes that a due ticket is left for now. until: when to try it again. */
static void
leave_ticket(PromoteState *state, TimestampTz visible_at, TimestampTz until)
{
	state->kept = Min(state->kept, visible_at);
	state->retry = Min(state->retry, until);
}

/* When the earliest delayed ticket of the database is due. */
TimestampTz
promote_due(Maintain *m)
{
	TimestampTz due = DT_NOEND;

	for (int i = 0; i < jobq_max_queues; i++)
	{
		QueueSlot *slot = &jobq_queues[i];

		if (!maintain_slot_is_ours(m, slot))
			continue;
		SpinLockAcquire(&slot->mutex);
		due = Min(due, slot->next_due);
		SpinLockRelease(&slot->mutex);
	}
	/* queues without a slot can tell nobody of their tickets */
	return jobq_shared->queues_overflowed ? Min(due, slotless_due) : due;
}

/* Takes the next queue that is due into promotions[]. */
static void
take_slot(Maintain *m, QueueSlot *slot, TimestampTz now)
{
	Promotion *p = &promotions[npromotions];
	bool taken = false;

	if (!maintain_slot_is_ours(m, slot) || slot->next_due > now)
		return;
	memset(p, 0, sizeof(*p));
	SpinLockAcquire(&slot->mutex);
	if (maintain_slot_is_ours(m, slot) && slot->next_due <= now)
	{
		p->slot = slot;
		p->queue_id = slot->queue_id;
		p->low = slot->delayed_low;
		p->start = Min(slot->delayed_cursor, p->low);
		slot->delayed_low = DT_NOEND;
		taken = true;
	}
	SpinLockRelease(&slot->mutex);
	if (!taken)
		return;
	npromotions++; /* from here on undo puts it back */
	p->state = promote_state(p->queue_id);
	if (p->state->in_pass)
	{
		p->resume = p->low > p->state->resume_at;
		p->start = p->resume ? p->state->resume_at : p->low;
	}
}

/* Walks due entries under the keys and deletes the visible tickets without waiting. False: a limit was reached. */
static bool
walk_due(Promotion *p, StoreTable *delayed, Snapshot snapshot, ScanKey keys, int nkeys, int room)
{
	StoreWalk walk;
	bool visible;
	bool all = true;
	TimestampTz until;

	store_walk_begin(&walk, delayed, INDEX_DELAYED_DUE, snapshot, keys, nkeys);
	while (all && store_walk_next(&walk, &visible))
	{
		Ticket *ticket = &p->tickets[p->ntickets];
		TM_Result result;

		CHECK_FOR_INTERRUPTS();
		p->reached = DatumGetTimestampTz(store_walk_key(&walk, 2));
		p->reached_job = DatumGetInt64(store_walk_key(&walk, 3));
		all = walk.walked < PROMOTE_WALK;
		if (!visible)
			continue;
		store_ticket_read(TABLE_DELAYED, walk.slot, ticket);
		if (maintain_is_skipped(ticket->job_id, &until))
		{
			leave_ticket(p->state, ticket->visible_at, until);
			continue;
		}
		maintain_working_on(ticket->job_id);
		result = store_delete(delayed, &ticket->tid, false);
		maintain_working_on(0);
		if (result == TM_Ok)
			all &= ++p->ntickets < room;
		else if (result == TM_BeingModified || result == TM_WouldBlock)
		{
			leave_ticket(p->state, ticket->visible_at, DT_NOEND);
			p->state->busy = true;
		}
	}
	store_walk_end(&walk);
	return all;
}

/* Finds when the queue's next ticket after now is due; a lower bound when too many dead entries lie before it. */
static TimestampTz
peek(Promotion *p, StoreTable *delayed, Snapshot snapshot, TimestampTz now)
{
	ScanKeyData keys[2];
	StoreWalk walk;
	TimestampTz next = DT_NOEND;
	bool visible = false;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(p->queue_id));
	ScanKeyInit(&keys[1], 2, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, TimestampTzGetDatum(now));
	store_walk_begin(&walk, delayed, INDEX_DELAYED_DUE, snapshot, keys, 2);
	while (!visible && walk.walked < PEEK_WALK && store_walk_next(&walk, &visible))
		next = DatumGetTimestampTz(store_walk_key(&walk, 2));
	if (!visible && walk.walked < PEEK_WALK)
		next = DT_NOEND;
	store_walk_end(&walk);
	return next;
}

/* Deletes the due tickets of one queue into p->tickets, at most room, and finds out what comes after them. */
static void
scan_queue(Promotion *p, StoreTable *delayed, Snapshot snapshot, TimestampTz now, int room)
{
	ScanKeyData keys[3];
	int n = 1;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(p->queue_id));
	if (p->resume)
	{
		ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ, TimestampTzGetDatum(p->start));
		ScanKeyInit(&keys[2], 3, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(p->state->resume_job));
		p->more = !walk_due(p, delayed, snapshot, keys, 3, room);
		if (p->more)
			return;
		ScanKeyInit(&keys[n++], 2, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, TimestampTzGetDatum(p->start));
	}
	else if (!TIMESTAMP_IS_NOBEGIN(p->start))
		ScanKeyInit(&keys[n++], 2, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE, TimestampTzGetDatum(p->start));
	ScanKeyInit(&keys[n++], 2, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(now));
	p->more = !walk_due(p, delayed, snapshot, keys, n, room);
	if (p->more)
		return;
	p->reached = now;
	p->next = peek(p, delayed, snapshot, now);
}

/* One queue's part of the transaction; returns the number of its tickets. */
static int
promote_queue(Maintain *m, Promotion *p, StoreTable *delayed, StoreTable *ready, int room)
{
	QueueInfo *queue = meta_queue_by_id(p->queue_id);
	Snapshot snapshot;

	p->reached = p->start;
	p->next = DT_NOEND;
	if (queue == NULL)
		return 0;
	p->tickets = palloc(room * sizeof(Ticket));
	snapshot = store_snapshot();
	scan_queue(p, delayed, snapshot, clock_now(), room);
	store_snapshot_done(snapshot);
	p->first = p->ntickets > 0 ? p->tickets[0].job_id : 0;
	if (p->ntickets > 0)
		overdue_make_ready(m->db, queue, ready, p->tickets, p->ntickets);
	pfree(p->tickets);
	return p->ntickets;
}

/* Ends a queue's pass: what was left is tried again after a while. Returns when. */
static TimestampTz
end_pass(PromoteState *state)
{
	TimestampTz retry = state->retry;

	if (!state->busy)
		state->pause = 0;
	else
	{
		state->pause = state->pause == 0 ? BUSY_FIRST : Min(state->pause * 2, BUSY_LONGEST);
		retry = Min(retry, clock_now() + state->pause);
	}
	state->in_pass = state->busy = false;
	state->kept = state->retry = DT_NOEND;
	return retry;
}

/* After the commit: what was found out becomes known. */
static void
apply(Maintain *m, Promotion *p)
{
	QueueSlot *slot = p->slot;
	TimestampTz cursor = Min(p->reached, p->state->kept);
	TimestampTz next = p->reached;

	if (p->more)
	{
		p->state->in_pass = true;
		p->state->resume_at = p->reached;
		p->state->resume_job = p->reached_job;
	}
	else
	{
		next = end_pass(p->state);
		next = Min(next, p->next);
	}
	if (slot == NULL)
		return;
	SpinLockAcquire(&slot->mutex);
	if (maintain_slot_is_ours(m, slot) && slot->queue_id == p->queue_id)
	{
		slot->delayed_cursor = Min(cursor, slot->delayed_low);
		slot->next_due = Min(next, slot->delayed_low);
	}
	SpinLockRelease(&slot->mutex);
}

/* Queues that have no slot, when there are more than slots: looked at now and then. Returns when next. */
static TimestampTz
promote_slotless(Maintain *m, StoreTable *delayed, StoreTable *ready, int *room)
{
	int32 *ids;
	int n = maintain_queue_ids(m, &ids);
	TimestampTz next = DT_NOEND;

	for (int i = 0; i < n; i++)
	{
		QueueInfo *queue = meta_queue_by_id(ids[i]);
		Promotion *p = &promotions[npromotions];

		if (queue == NULL || queue->slot != NULL)
			continue;
		next = Min(next, clock_now() + SLOTLESS_PAUSE);
		if (*room <= 0 || npromotions == PROMOTE_QUEUES)
			return DT_NOBEGIN;
		memset(p, 0, sizeof(*p));
		npromotions++;
		p->queue_id = ids[i];
		p->state = promote_state(ids[i]);
		p->low = DT_NOEND;
		p->resume = p->state->in_pass;
		p->start = p->resume ? p->state->resume_at : DT_NOBEGIN;
		*room -= promote_queue(m, p, delayed, ready, *room);
	}
	if (TIMESTAMP_IS_NOEND(next))
		jobq_shared->queues_overflowed = false; /* for this database; the next queue without a slot sets it again */
	return next;
}

void
promote_run(Maintain *m)
{
	StoreTable *delayed;
	StoreTable *ready;
	int batch = maintain_batch(PROMOTE_TICKETS);
	int room = batch;
	TimestampTz slotless = slotless_due;

	npromotions = 0;
	if (!maintain_begin(m))
		return;
	delayed = store_open(TABLE_DELAYED);
	ready = store_open(TABLE_READY);
	for (int i = 0; i < jobq_max_queues && room > 0 && npromotions < PROMOTE_QUEUES; i++)
	{
		int before = npromotions;

		next_slot = (next_slot + 1) % jobq_max_queues;
		take_slot(m, &jobq_queues[next_slot], clock_now());
		if (npromotions > before)
			room -= promote_queue(m, &promotions[before], delayed, ready, room);
	}
	if (room > 0 && npromotions < PROMOTE_QUEUES && jobq_shared->queues_overflowed && slotless_due <= clock_now())
		slotless = promote_slotless(m, delayed, ready, &room);
	store_close(ready);
	store_close(delayed);
	if (batch == 1 && room < batch)
		maintain_working_on(promotions[npromotions - 1].first);
	maintain_end(m);
	for (int i = 0; i < npromotions; i++)
		apply(m, &promotions[i]);
	npromotions = 0;
	slotless_due = TIMESTAMP_IS_NOEND(slotless) ? DT_NOBEGIN : slotless;
}

/* Puts back what was taken out of the slots. */
void
promote_undo(Maintain *m)
{
	for (int i = 0; i < npromotions; i++)
	{
		Promotion *p = &promotions[i];

		if (p->slot == NULL)
			continue;
		SpinLockAcquire(&p->slot->mutex);
		if (maintain_slot_is_ours(m, p->slot) && p->slot->queue_id == p->queue_id)
			p->slot->delayed_low = Min(p->slot->delayed_low, p->low);
		SpinLockRelease(&p->slot->mutex);
	}
	npromotions = 0;
}
