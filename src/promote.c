/*-------------------------------------------------------------------------
 *
 * promote.c
 *		Delayed tickets that are due become ready.
 *
 * Each queue's are walked over as timewalk.h says: delayed_cursor,
 * delayed_low and next_due stand in its slot.
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
#include "timewalk.h"
#include "xact.h"

#define PROMOTE_TICKETS 500 /* in one transaction */
#define PROMOTE_QUEUES 64   /* in one transaction */
#define PROMOTE_WALK 5000   /* index entries of one queue in one transaction, dead ones too */
#define SLOTLESS_PAUSE USECS_PER_SEC

/* What this process remembers of a queue. */
typedef struct PromoteState
{
	int32 queue_id; /* hash key */
	TimePass pass;
} PromoteState;

/* One queue in one transaction. */
typedef struct Promotion
{
	TimePass *pass;
	QueueSlot *slot; /* NULL: it has none */
	int32 queue_id;
	TimeLook look;
	StoreTable *delayed;
	int room;
	int ntickets;
	int64 first; /* of the first ticket, the job's id */
	Ticket *tickets;
} Promotion;

static HTAB *promote_states = NULL;
static Promotion promotions[PROMOTE_QUEUES];
static int npromotions = 0;
static int next_slot = 0;
static TimestampTz slotless_due = DT_NOBEGIN;

static TimePass *
pass_of(int32 queue_id)
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
		state->pass = (TimePass) TIME_PASS_INIT;
	return &state->pass;
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
		timewalk_take(&p->look, slot->delayed_cursor, &slot->delayed_low);
		taken = true;
	}
	SpinLockRelease(&slot->mutex);
	if (!taken)
		return;
	npromotions++; /* from here on undo puts it back */
	p->pass = pass_of(p->queue_id);
	timewalk_begin(&p->look, p->pass);
}

/* Deletes a due ticket without waiting. False: that is enough. */
static bool
take_ticket(void *arg, TupleTableSlot *slot, TimestampTz visible_at)
{
	Promotion *p = arg;
	Ticket *ticket = &p->tickets[p->ntickets];
	TimestampTz until;
	TM_Result result;

	store_ticket_read(TABLE_DELAYED, slot, ticket);
	if (maintain_is_skipped(ticket->job_id, &until))
	{
		timewalk_leave(p->pass, visible_at, until);
		return true;
	}
	maintain_working_on(ticket->job_id);
	result = store_delete(p->delayed, &ticket->tid, false);
	maintain_working_on(0);
	if (result == TM_Ok)
		p->ntickets++;
	else if (result == TM_BeingModified || result == TM_WouldBlock)
		timewalk_leave_busy(p->pass, visible_at);
	return p->ntickets < p->room;
}

/* One queue's part of the transaction: at most room tickets; returns the number of them. */
static int
promote_queue(Maintain *m, Promotion *p, StoreTable *delayed, StoreTable *ready, int room)
{
	TimeWalk walk = {.table = delayed,
					 .index = INDEX_DELAYED_DUE,
					 .column = 2,
					 .has_id = true,
					 .limit = PROMOTE_WALK,
					 .take = take_ticket,
					 .arg = p};
	QueueInfo *queue = meta_queue_by_id(p->queue_id);
	Snapshot snapshot;

	if (queue == NULL)
		return 0;
	ScanKeyInit(&walk.prefix, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(p->queue_id));
	p->delayed = delayed;
	p->room = room;
	p->tickets = palloc(room * sizeof(Ticket));
	snapshot = store_snapshot();
	timewalk_run(&p->look, p->pass, &walk, snapshot, clock_now());
	store_snapshot_done(snapshot);
	p->first = p->ntickets > 0 ? p->tickets[0].job_id : 0;
	if (p->ntickets > 0)
		overdue_make_ready(m->db, queue, ready, p->tickets, p->ntickets);
	pfree(p->tickets);
	return p->ntickets;
}

/* After the commit: what was found out becomes known. */
static void
apply(Maintain *m, Promotion *p)
{
	QueueSlot *slot = p->slot;
	TimestampTz cursor;
	TimestampTz next;

	timewalk_end(&p->look, p->pass, &cursor, &next);
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
	TimestampTz nothing_told = DT_NOEND;

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
		p->pass = pass_of(ids[i]);
		timewalk_take(&p->look, DT_NOBEGIN, &nothing_told);
		timewalk_begin(&p->look, p->pass);
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
			p->slot->delayed_low = Min(p->slot->delayed_low, p->look.low);
		SpinLockRelease(&p->slot->mutex);
	}
	npromotions = 0;
}
