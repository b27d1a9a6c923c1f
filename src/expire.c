/*-------------------------------------------------------------------------
 *
 * expire.c
 *		Finds the leases whose time is over, those whose session has ended, and
 *		the jobs whose claims keep being rolled back.
 *
 * For the first, lease_cursor and lease_low are what timewalk.h says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "debug.h"
#include "liveness.h"
#include "maintain.h"
#include "overdue.h"
#include "retire.h"
#include "store.h"
#include "timeutil.h"
#include "timewalk.h"
#include "turn.h"
#include "xact.h"

#define EXPIRE_LEASES 50 /* in one transaction */
#define EXPIRE_WALK 5000 /* index entries in one transaction */
#define TAKE_AGAIN (50 * 1000)

/* The ended leases that one transaction deals with. */
typedef struct Ended
{
	TimestampTz now;
	int n;
	int room;
	Lease *leases;
} Ended;

static TimeLook look;
static TimePass pass = TIME_PASS_INIT;
static TimestampTz take_again = DT_NOBEGIN;
static bool clearing_poison = false;
static TimestampTz take_over_again = DT_NOBEGIN; /* a new scheduler looks once */
static TimestampTz take_over_retry = DT_NOEND;
static bool taking_over = false;

/* When the earliest lease of the database ends. */
TimestampTz
expire_due(Maintain *m)
{
	TimestampTz due;

	SpinLockAcquire(&m->db->mutex);
	due = m->db->next_lease;
	SpinLockRelease(&m->db->mutex);
	return due;
}

static Lease *
next_lease(Ended *e)
{
	if (e->n == e->room)
	{
		e->room = Max(EXPIRE_LEASES, e->room * 2);
		if (e->leases == NULL)
			e->leases = palloc(e->room * sizeof(Lease));
		else
			e->leases = repalloc(e->leases, e->room * sizeof(Lease));
	}
	return &e->leases[e->n];
}

/* Collects a lease that has ended, as far as its time tells. False: that is enough. */
static bool
find_expired(void *arg, TupleTableSlot *slot, TimestampTz ends)
{
	Ended *e = arg;
	int64 token = DatumGetInt64(slot_value(slot, Anum_lease_token));
	Lease *row = next_lease(e);
	TimestampTz until;

	if (maintain_is_skipped(token, &until))
	{
		timewalk_leave(&pass, ends, until);
		return true;
	}
	maintain_working_on(token);
	store_lease_read(slot, row);
	maintain_working_on(0);
	until = liveness_grace(row);
	if (until > e->now)
		timewalk_leave(&pass, ends, until);
	else
		e->n++;
	return e->n < EXPIRE_LEASES;
}

/* Notes a lease that somebody is finishing. */
static void
leave_busy(TimestampTz ends)
{
	timewalk_leave_busy(&pass, ends);
}

void
expire_run(Maintain *m)
{
	TimeWalk walk = {.index = INDEX_LEASE_UNTIL, .column = 1, .limit = EXPIRE_WALK, .take = find_expired};
	Ended ended = {.n = 0};
	StoreTable *lease;
	Snapshot snapshot;
	TimestampTz cursor;
	TimestampTz next;

	if (!maintain_begin(m))
		return;
	SpinLockAcquire(&m->db->mutex);
	timewalk_take(&look, m->db->lease_cursor, &m->db->lease_low);
	SpinLockRelease(&m->db->mutex);
	timewalk_begin(&look, &pass);
	lease = walk.table = store_open(TABLE_LEASE);
	walk.arg = &ended;
	snapshot = store_snapshot();
	ended.now = clock_now();
	timewalk_run(&look, &pass, &walk, snapshot, ended.now);
	store_snapshot_done(snapshot);
	ended.n = overdue_lock(lease, ended.leases, ended.n, leave_busy);
	if (ended.n > 1 && maintain_batch(EXPIRE_LEASES) == 1)
	{
		ended.n = 1;
		look.more = true;
		look.reached = ended.leases[1].lease_until;
	}
	overdue_end(lease, ended.leases, ended.n, maintain_working_on);
	store_close(lease);
	if (ended.n == 1)
		maintain_working_on(ended.leases[0].token);
	maintain_end(m);

	timewalk_end(&look, &pass, &cursor, &next);
	SpinLockAcquire(&m->db->mutex);
	m->db->lease_cursor = Min(cursor, m->db->lease_low);
	m->db->next_lease = Min(next, m->db->lease_low);
	SpinLockRelease(&m->db->mutex);
	look.taken = false;
}

/* Puts back what was taken out of shared memory. */
void
expire_undo(Maintain *m)
{
	if (!look.taken)
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->lease_low = Min(m->db->lease_low, look.low);
	SpinLockRelease(&m->db->mutex);
	look.taken = false;
}

/* A session that took groups has ended. */
TimestampTz
take_over_due(Maintain *m)
{
	return m->db->sessions_ended ? DT_NOBEGIN : take_over_again;
}

/* Notes that a lease of an ended session is in somebody's hands. */
static void
take_over_busy(TimestampTz ends)
{
	take_over_retry = Min(take_over_retry, clock_now() + TAKE_AGAIN);
}

/* Collects leases whose session has ended, at most EXPIRE_LEASES; returns how many. */
static int
find_orphans(StoreTable *lease, Lease *rows)
{
	TupleTableSlot *slot = store_read_slot(lease);
	Snapshot snapshot = store_snapshot();
	TableScanDesc scan = store_heap_begin(lease, snapshot);
	int n = 0;

	while (n < EXPIRE_LEASES && store_heap_next(scan, slot))
	{
		TimestampTz until;
		bool isnull;

		CHECK_FOR_INTERRUPTS();
		(void) slot_datum(slot, Anum_lease_session, &isnull);
		if (isnull)
			continue;
		store_lease_read(slot, &rows[n]);
		if (!liveness_has_ended(&rows[n]))
			continue;
		if (maintain_is_skipped(rows[n].token, &until))
			take_over_retry = Min(take_over_retry, until);
		else
			n++;
	}
	store_heap_end(scan);
	store_snapshot_done(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	return n;
}

/* Ends the leases of sessions that have ended, before their time. */
void
take_over_run(Maintain *m)
{
	StoreTable *lease;
	Lease *rows;
	bool more;
	int found;
	int n;

	SpinLockAcquire(&m->db->mutex);
	m->db->sessions_ended = false;
	SpinLockRelease(&m->db->mutex);
	taking_over = true;
	take_over_again = take_over_retry = DT_NOEND;
	if (!maintain_begin(m))
		return;
	lease = store_open(TABLE_LEASE);
	rows = palloc(EXPIRE_LEASES * sizeof(Lease));
	found = find_orphans(lease, rows);
	n = overdue_lock_orphans(lease, rows, found, take_over_busy);
	more = found == EXPIRE_LEASES;
	if (n > 1 && maintain_batch(EXPIRE_LEASES) == 1)
	{
		n = 1;
		more = true;
	}
	overdue_end(lease, rows, n, maintain_working_on);
	store_close(lease);
	if (n == 1)
		maintain_working_on(rows[0].token);
	maintain_end(m);
	taking_over = false;
	/* a whole batch that is in other hands leaves nothing to do for a moment */
	take_over_again = more && n > 0 ? DT_NOBEGIN : take_over_retry;
}

void
take_over_undo(Maintain *m)
{
	if (!taking_over)
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->sessions_ended = true;
	SpinLockRelease(&m->db->mutex);
	taking_over = false;
}

/* A job whose claim was rolled back too often waits for us. */
TimestampTz
rolled_back_due(Maintain *m)
{
	return m->db->poisoned ? take_again : DT_NOEND;
}

/* Counts an attempt for the first job of a group's line: as if it had been taken alone, and had failed. */
static TakeResult
count_in_line(Retire *retire, QueueInfo *queue, int64 job_id, TupleTableSlot *job)
{
	StoreTable *line = store_open(TABLE_LINE);
	StoreTable *ready = store_open(TABLE_READY);
	Snapshot snapshot = store_snapshot();
	TakeResult result = TAKE_NONE;
	Lease *turn = palloc0(sizeof(Lease));
	Attempt attempt;
	TurnEnd e;
	LineRow row;
	LineRow head;
	Ticket ticket;

	/* of a batch that was rolled back only the first one is to blame */
	if (store_line_of_job(line, snapshot, job_id, &row) &&
		store_ticket_of_group(TABLE_READY, ready, snapshot, row.group_id, &ticket) &&
		store_line_head(line, snapshot, row.group_id, ticket.from_ord, &head) && head.job_id == job_id)
		result = store_delete(ready, &ticket.tid, false) == TM_Ok ? TAKE_OK : TAKE_BUSY;
	store_snapshot_done(snapshot);
	if (result == TAKE_OK)
	{
		xact_took_ready(queue, ticket.lane, ticket.priority, ticket.seq);
		xact_claimed(queue, job_id);
		turn->group_id = row.group_id;
		turn->lane = ticket.lane;
		turn->njobs = 1;
		turn->job_ids[0] = job_id;
		turn->attempts[0] = row.attempt + 1;
		turn->ords[0] = row.ord;
		turn_end_begin(&e, retire, queue, turn);
		e.after.from_ord = ticket.from_ord;
		/* the ticket is ours: nobody else takes the row but to cancel the job */
		if (store_delete(line, &row.tid, false) != TM_Ok)
			result = TAKE_BUSY;
		snapshot = store_snapshot();
		if (result == TAKE_OK && store_job_fetch(retire->job, snapshot, job_id, &row.job_tid, job))
		{
			attempt = retire_attempt(turn, 0);
			(void) turn_fail(&e, 0, job, &attempt, cstring_to_text("claim rolled back 3 times in a row"),
							 "claim_rolled_back", RETRY_IN_DEFAULT, true);
		}
		store_snapshot_done(snapshot);
		if (result == TAKE_OK)
			xact_count(queue, COUNT_READY, -1);
		turn_over(&e);
	}
	store_close(ready);
	store_close(line);
	return result;
}

/* Counts an attempt for one job that is still waiting. */
static TakeResult
count_rolled_back(Retire *retire, int32 queue_id, int64 job_id)
{
	QueueInfo *queue = meta_queue_by_id(queue_id);
	TupleTableSlot *job = store_read_slot(retire->job);
	Snapshot snapshot = store_snapshot();
	TakeResult result = TAKE_NONE;
	Ticket ticket;
	JobqTable from;

	if (queue && store_job_fetch(retire->job, snapshot, job_id, NULL, job))
		result = retire_take_ticket(retire, queue, job, &ticket, &from);
	store_snapshot_done(snapshot);
	if (result == TAKE_NONE && queue && !TTS_EMPTY(job))
		result = count_in_line(retire, queue, job_id, job);
	else if (result == TAKE_OK)
	{
		xact_claimed(queue, job_id);
		/* the ticket is ours now: only from here on the row cannot be finished by another */
		snapshot = store_snapshot();
		if (store_job_fetch(retire->job, snapshot, job_id, &ticket.job_tid, job))
		{
			Attempt attempt;

			memset(&attempt, 0, sizeof(attempt));
			attempt.attempt = ticket.attempt + 1;
			(void) retire_fail(retire, queue, job, &attempt, cstring_to_text("claim rolled back 3 times in a row"),
							   "claim_rolled_back", RETRY_IN_DEFAULT, true, NULL);
		}
		store_snapshot_done(snapshot);
		xact_count(queue, ticket_counter(from, &ticket), -1);
	}
	ExecDropSingleTupleTableSlot(job);
	return result;
}

void
rolled_back_run(Maintain *m)
{
	int position = 0;
	int32 queue_id;
	int64 job_id;
	TimestampTz again = DT_NOEND;
	TimestampTz until;

	SpinLockAcquire(&m->db->mutex);
	m->db->poisoned = false;
	SpinLockRelease(&m->db->mutex);
	clearing_poison = true;
	while ((job_id = shmem_rollback_next(MyDatabaseId, ROLLBACK_LIMIT, &position, &queue_id)) != 0)
	{
		Retire retire;
		TakeResult result;
		int count = shmem_rollback_count(MyDatabaseId, job_id);

		CHECK_FOR_INTERRUPTS();
		if (maintain_is_skipped(job_id, &until))
		{
			again = Min(again, until);
			continue;
		}
		if (!maintain_begin(m))
		{
			again = DT_NOBEGIN;
			break;
		}
		maintain_working_on(job_id);
		DEBUG_POINT("claim-rolled-back");
		retire_begin(&retire);
		result = count_rolled_back(&retire, queue_id, job_id);
		retire_end(&retire);
		maintain_end(m);
		maintain_working_on(0);
		/* a job that was counted is forgotten by the commit: by now it may have been rolled back again, and passed over for it */
		if (result == TAKE_NONE)
			shmem_rollback_clear(MyDatabaseId, job_id, count);
		else if (result == TAKE_BUSY)
			again = Min(again, clock_now() + TAKE_AGAIN);
	}
	clearing_poison = false;
	take_again = DT_NOBEGIN;
	if (!TIMESTAMP_IS_NOEND(again))
	{
		take_again = again;
		SpinLockAcquire(&m->db->mutex);
		m->db->poisoned = true;
		SpinLockRelease(&m->db->mutex);
	}
}

void
rolled_back_undo(Maintain *m)
{
	if (!clearing_poison)
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->poisoned = true;
	SpinLockRelease(&m->db->mutex);
	clearing_poison = false;
}
