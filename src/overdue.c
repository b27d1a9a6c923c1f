/*-------------------------------------------------------------------------
 *
 * overdue.c
 *		Ends leases whose time is over, and makes delayed tickets ready.
 *
 * The lease row comes first: it is locked exclusively without waiting, and
 * only then a new snapshot shows which of its jobs are still unfinished. A
 * finished key-share locker leaves no trace on the row, so a job judged by
 * an older snapshot could be ended twice. A lease that somebody is
 * finishing is passed over.
 *
 * The scheduler does this when it is due (expire.c); a dequeue does it for
 * its own queue while no scheduler runs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "debug.h"
#include "event.h"
#include "ident.h"
#include "liveness.h"
#include "overdue.h"
#include "retire.h"
#include "timeutil.h"
#include "turn.h"
#include "xact.h"

/* While no scheduler runs, each session looks for overdue leases at most so often, and at so many entries. */
#define LOOK_PAUSE (200 * 1000)
#define LOOK_WALK 20000
/* After an error in it. */
#define FAILURE_PAUSE (10 * USECS_PER_SEC)

static int
lock_leases(StoreTable *lease, Lease *rows, int n, bool orphans, void (*busy)(TimestampTz ends))
{
	int kept = 0;

	for (int i = 0; i < n; i++)
	{
		TimestampTz ends = rows[i].lease_until;
		TM_Result result;

		DEBUG_POINT("lease-overdue");
		result = store_lease_lock(lease, &rows[i], LEASE_EXCLUSIVE, false);
		if (result == TM_Ok && (orphans || rows[i].lease_until <= clock_now()))
			rows[kept++] = rows[i];
		else if (result != TM_Deleted && busy)
			busy(ends);
	}
	return kept;
}

/*
 * Locks leases that were found to be over; those that are gone leave the list, and so do those that are in somebody's hands, or were
 * rewritten meanwhile, through busy (may be NULL): they are to be looked at again. Returns how many are left.
 */
int
overdue_lock(StoreTable *lease, Lease *rows, int n, void (*busy)(TimestampTz ends))
{
	return lock_leases(lease, rows, n, false, busy);
}

/* The same for leases whose session has ended, whatever their time. */
int
overdue_lock_orphans(StoreTable *lease, Lease *rows, int n, void (*busy)(TimestampTz ends))
{
	return lock_leases(lease, rows, n, true, busy);
}

/*
 * A handler may take its process down with it, or the whole server: it is told from a worker that did not come back, and its job backs off.
 * An executor runs the jobs of a lease one after the other, so only the first one that is left can have been begun.
 */
static text *
why_over(const Lease *row)
{
	return cstring_to_text(row->session < 0 ? "the process that ran the handler ended" : "lease expired");
}

static int64
retry_after(const Lease *row)
{
	return row->session < 0 ? RETRY_IN_DEFAULT : 0;
}

/* Ends the jobs of a lease of no group: each that is still there has failed once more, or was cancelled. Returns how many there were. */
static int
end_jobs(Retire *retire, QueueInfo *queue, Lease *row, Snapshot snapshot, TupleTableSlot *job)
{
	int unfinished = 0;

	for (int i = 0; i < row->njobs; i++)
	{
		Attempt attempt = retire_attempt(row, i);

		if (!store_job_fetch(retire->job, snapshot, row->job_ids[i], &row->job_tids[i], job))
			continue;
		if (row->cancel & (UINT64CONST(1) << i))
			(void) retire_finish(retire, queue, job, 'x', &attempt);
		else if (row->session < 0 && unfinished > 0)
		{
			retire_requeue(retire, queue, job, attempt.attempt - 1, retire->now);
			event_job(queue, EVENT_WAITING, job, attempt.attempt - 1, EVENT_NO_DELAY, NULL);
		}
		else
			(void) retire_fail(retire, queue, job, &attempt, why_over(row), "lease_expired", retry_after(row), true,
							   NULL);
		unfinished++;
	}
	return unfinished;
}

/* Ends a group's turn: the first job that is still there has failed once more, or was cancelled; those after it go back to their places. */
static int
end_turn(Retire *retire, QueueInfo *queue, Lease *row, Snapshot snapshot, TupleTableSlot *job)
{
	TurnEnd e;
	int unfinished = 0;

	turn_end_begin(&e, retire, queue, row);
	for (int i = 0; i < row->njobs; i++)
	{
		Attempt attempt = retire_attempt(row, i);

		if (!store_job_fetch(retire->job, snapshot, row->job_ids[i], &row->job_tids[i], job))
			continue;
		if (unfinished++ > 0)
			turn_return(&e, i, job, &attempt, DT_NOBEGIN);
		else if (row->cancel & (UINT64CONST(1) << i))
		{
			turn_saw(&e, job);
			(void) retire_finish(retire, queue, job, 'x', &attempt);
		}
		else
			(void) turn_fail(&e, i, job, &attempt, why_over(row), "lease_expired", retry_after(row), true);
	}
	turn_over(&e);
	return unfinished;
}

/* Ends one locked lease. */
static void
end_lease(Retire *retire, StoreTable *lease, Lease *row, Snapshot snapshot, TupleTableSlot *job)
{
	QueueInfo *queue = meta_queue_by_id(row->queue_id);
	int unfinished = 0;

	if (queue && row->group_id > 0)
		unfinished = end_turn(retire, queue, row, snapshot, job);
	else if (queue)
		unfinished = end_jobs(retire, queue, row, snapshot, job);
	if (unfinished > 0)
	{
		xact_count(queue, COUNT_ACTIVE, -unfinished);
		xact_count(queue, TOTAL_EXPIRED_LEASES, 1);
	}
	/* without waiting, our own lock would pass for somebody else's */
	if (store_delete(lease, &row->tid, true) != TM_Ok)
		elog(ERROR, "lease " INT64_FORMAT " changed although it is locked", row->token);
}

/* Ends leases that overdue_lock has locked. working_on (may be NULL) is told the token in hand, and 0 after it. */
void
overdue_end(StoreTable *lease, Lease *rows, int n, void (*working_on)(int64 token))
{
	Retire retire;
	Snapshot snapshot;
	TupleTableSlot *job;

	if (n == 0)
		return;
	retire_begin(&retire);
	job = store_read_slot(retire.job);
	snapshot = store_snapshot();
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (working_on)
			working_on(rows[i].token);
		end_lease(&retire, lease, &rows[i], snapshot, job);
		if (working_on)
			working_on(0);
	}
	store_snapshot_done(snapshot);
	ExecDropSingleTupleTableSlot(job);
	retire_end(&retire);
}

/* Notes the new tickets for the claims, an interval for each priority. */
static void
note_ready(QueueInfo *queue, Ticket *tickets, int n)
{
	typedef struct Range
	{
		int16 priority;
		int n;
		int64 lo;
		int64 hi;
	} Range;
	Range *ranges = palloc(n * sizeof(Range));
	int nranges = 0;

	for (int i = 0; i < n; i++)
	{
		int r = 0;

		while (r < nranges && ranges[r].priority != tickets[i].priority)
			r++;
		if (r == nranges)
		{
			nranges++;
			ranges[r].priority = tickets[i].priority;
			ranges[r].n = 0;
			ranges[r].lo = tickets[i].seq;
		}
		ranges[r].hi = tickets[i].seq;
		ranges[r].n++;
	}
	for (int r = 0; r < nranges; r++)
		xact_made_ready(queue, LANE_RETURNED, ranges[r].priority, ranges[r].lo, ranges[r].hi, ranges[r].n);
	xact_count(queue, COUNT_READY, n);
	xact_count(queue, COUNT_DELAYED, -n);
}

/* Takes the jobs that join their group, and the tickets of groups, out of a list of due ones: both are dealt with at commit. */
static int
settle_groups(QueueInfo *queue, Ticket *tickets, int n)
{
	StoreTable *job = NULL;
	StoreTable *job_group = NULL;
	TupleTableSlot *slot = NULL;
	Snapshot snapshot = NULL;
	int kept = 0;

	for (int i = 0; i < n; i++)
	{
		Ticket *ticket = &tickets[i];
		bool isnull;

		if (ticket->group_id == 0 && !ticket->joins)
		{
			tickets[kept++] = *ticket;
			continue;
		}
		if (snapshot == NULL)
			snapshot = store_snapshot();
		if (ticket->group_id > 0)
		{
			LineAfter after = {.from_ord = ticket->from_ord, .lane = LANE_GROUP, .not_before = DT_NOBEGIN};
			text *key = store_group_key(store_open_once(&job_group, TABLE_JOB_GROUP), snapshot, ticket->group_id);
			if (key)
				line_let_go(queue, key, ticket->group_id, &after);
			continue;
		}
		if (job == NULL)
		{
			job = store_open(TABLE_JOB);
			slot = store_read_slot(job);
		}
		xact_count(queue, COUNT_DELAYED, -1);
		if (store_job_fetch(job, snapshot, ticket->job_id, &ticket->job_tid, slot))
		{
			LineRow row = {.job_id = ticket->job_id,
						   .attempt = ticket->attempt,
						   .priority = ticket->priority,
						   .job_tid = slot->tts_tid,
						   .since = ticket->visible_at};
			Datum key = slot_datum(slot, Anum_job_group_key, &isnull);

			if (!isnull)
				line_join(queue, DatumGetTextPP(key), &row);
		}
	}
	if (snapshot)
		store_snapshot_done(snapshot);
	if (slot)
		ExecDropSingleTupleTableSlot(slot);
	store_close(job);
	store_close(job_group);
	return kept;
}

/*
 * Tickets deleted from delayed, in the order they were due: those of jobs are written into ready; a group's job joins its line, and a
 * group's own ticket is given back, both at commit. Returns how many are in ready now, first in the list.
 */
int
overdue_make_ready(DbSlot *db, QueueInfo *queue, StoreTable *ready, Ticket *tickets, int n)
{
	int64 *seqs;
	TupleTableSlot *slots[STORE_BATCH];
	int filled = 0;

	n = settle_groups(queue, tickets, n);
	if (n == 0)
		return 0;
	seqs = palloc(n * sizeof(int64));
	ident_job_ids(db, seqs, n);
	for (int i = 0; i < n; i++)
	{
		tickets[i].seq = seqs[i];
		tickets[i].lane = LANE_RETURNED;
		tickets[i].since = tickets[i].visible_at;
		slots[filled] = store_slot(ready, filled);
		store_ready_fill(slots[filled], &tickets[i]);
		if (++filled == STORE_BATCH || i == n - 1)
		{
			store_insert(ready, slots, filled);
			filled = 0;
		}
	}
	note_ready(queue, tickets, n);
	pfree(seqs);
	return n;
}

/*
 * For a dequeue while the scheduler does not run, or is late: makes up to max due tickets of the queue ready, in the caller's transaction,
 * so that they take their turn by priority. They have sequence numbers from *first_seq on, and this transaction may take them. from: where
 * the scan starts.
 */
void
overdue_promote_some(DbSlot *db, QueueInfo *queue, int max, TimestampTz from, bool groups, int64 *first_seq)
{
	StoreTable *delayed = store_open(TABLE_DELAYED);
	Snapshot snapshot = store_snapshot();
	Ticket *tickets = palloc(max * sizeof(Ticket));
	StoreScan scan;
	int n = 0;

	store_delayed_scan(&scan, delayed, snapshot, queue->id, from, clock_now());
	while (n < max && store_scan_next(&scan))
	{
		CHECK_FOR_INTERRUPTS();
		store_ticket_read(TABLE_DELAYED, scan.slot, &tickets[n]);
		if (!groups && (tickets[n].group_id > 0 || tickets[n].joins))
			continue;
		/* not what this transaction itself has enqueued */
		if (!tickets[n].mine && store_delete(delayed, &tickets[n].tid, false) == TM_Ok)
			n++;
	}
	store_scan_end(&scan);
	store_snapshot_done(snapshot);
	store_close(delayed);
	if (n > 0)
	{
		StoreTable *ready = store_open(TABLE_READY);

		if (overdue_make_ready(db, queue, ready, tickets, n) > 0)
			*first_seq = Min(*first_seq, tickets[0].seq);
		store_close(ready);
		CommandCounterIncrement();
	}
	pfree(tickets);
}

/* Finds and ends overdue leases of one queue; returns how many. */
static int
end_some(QueueInfo *queue, int max, TimestampTz from, bool groups)
{
	StoreTable *lease = store_open(TABLE_LEASE);
	Snapshot snapshot = store_snapshot();
	Lease *rows = palloc(max * sizeof(Lease));
	int n = 0;
	int looked = 0;
	StoreScan scan;

	store_lease_scan(&scan, lease, snapshot, from, clock_now());
	while (n < max && looked++ < LOOK_WALK && store_scan_next(&scan))
	{
		CHECK_FOR_INTERRUPTS();
		if (DatumGetInt32(slot_value(scan.slot, Anum_lease_queue_id)) != queue->id)
			continue;
		store_lease_read(scan.slot, &rows[n]);
		if (rows[n].group_id > 0 && (!groups || liveness_grace(&rows[n]) > clock_now()))
			continue;
		n++;
	}
	store_scan_end(&scan);
	store_snapshot_done(snapshot);
	n = overdue_lock(lease, rows, n, NULL);
	overdue_end(lease, rows, n, NULL);
	store_close(lease);
	pfree(rows);
	return n;
}

/*
 * For a dequeue while no scheduler runs: ends up to max overdue leases of the queue, in the caller's transaction. The tickets it makes
 * have sequence numbers from *first_seq on, and this transaction may take them. Returns how many leases were ended. One that cannot be
 * ended does not disturb the dequeue.
 */
int
overdue_end_some(DbSlot *db, QueueInfo *queue, int max, bool groups, int64 *first_seq)
{
	static TimestampTz not_before = 0;
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	TimestampTz now = clock_now();
	TimestampTz next;
	TimestampTz from;
	volatile int ended = 0;

	SpinLockAcquire(&db->mutex);
	next = db->next_lease;
	from = Min(db->lease_cursor, db->lease_low);
	SpinLockRelease(&db->mutex);
	if (next > now || (now < not_before && not_before - now <= FAILURE_PAUSE))
		return 0;
	not_before = now + LOOK_PAUSE;
	*first_seq = Min(*first_seq, ident_job_id(db));
	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		ended = end_some(queue, max, from, groups);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			ReThrowError(error);
		ereport(LOG, (errmsg("jobq could not end an expired lease: %s", error->message)));
		not_before = now + FAILURE_PAUSE;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return ended;
}
