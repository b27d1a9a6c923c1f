/*-------------------------------------------------------------------------
 *
 * ttl.c
 *		The step that ends jobs whose time to live is over while they wait.
 *
 * A job that is active then goes on. When it comes back, its time is told
 * again (retire_waits), so the scan need not keep it in sight: expiry_cursor
 * passes it. expiry_cursor and expiry_low work as delayed_cursor and
 * delayed_low do, see promote.c; one pair per database.
 *
 * A dequeue that meets such a job before this step does ends it, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#include "debug.h"
#include "maintain.h"
#include "retire.h"
#include "store.h"
#include "timeutil.h"
#include "waiting.h"
#include "xact.h"

#define TTL_JOBS 500  /* in one transaction */
#define TTL_WALK 5000 /* index entries in one transaction, dead ones too */
#define PEEK_WALK 2000
#define BUSY_FIRST (20 * 1000)
#define BUSY_LONGEST USECS_PER_SEC

/* A job that was taken to be ended. */
typedef struct Ending
{
	int64 job_id;
	ItemPointerData tid;
	int32 queue_id;
	int32 attempt;
} Ending;

/* One transaction's look at the jobs. */
typedef struct Look
{
	bool taken; /* low was taken out of shared memory */
	TimestampTz low;
	TimestampTz start;
	bool resume;
	bool more;           /* stopped before the end of what is over */
	TimestampTz reached; /* everything before it was seen */
	int64 reached_job;
	TimestampTz next; /* none is over between now and then */
	int room;
	int n;
	Ending *endings;
} Look;

/* A pass over what is over takes many transactions. */
typedef struct Pass
{
	bool running;
	TimestampTz resume_at;
	int64 resume_job;
	TimestampTz kept;  /* earliest job that the pass left */
	TimestampTz retry; /* when to try that again */
	bool busy;         /* it left some because they are in somebody's hands */
	int64 pause;       /* before those are tried again */
} Pass;

static Look look;
static Pass pass = {.kept = DT_NOEND, .retry = DT_NOEND};

/* When the earliest time to live of a waiting job is over. */
TimestampTz
ttl_due(Maintain *m)
{
	TimestampTz due;

	SpinLockAcquire(&m->db->mutex);
	due = m->db->next_expiry;
	SpinLockRelease(&m->db->mutex);
	return due;
}

/* Notes that a job is left for now. until: when to try it again. */
static void
leave_job(TimestampTz expires, TimestampTz until)
{
	pass.kept = Min(pass.kept, expires);
	pass.retry = Min(pass.retry, until);
}

/* Takes a job that the snapshot shows out of where it waits. */
static void
take_job(Retire *r, TupleTableSlot *job, Snapshot snapshot, TimestampTz expires)
{
	int64 job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	QueueInfo *queue = meta_queue_by_id(DatumGetInt32(slot_value(job, Anum_job_queue_id)));
	Ending *ending = &look.endings[look.n];
	TimestampTz until;
	Waited waited;

	if (queue == NULL)
		return;
	if (maintain_is_skipped(job_id, &until))
	{
		leave_job(expires, until);
		return;
	}
	maintain_working_on(job_id);
	switch (waiting_take(r, queue, job, snapshot, &waited))
	{
		case WAITING_TAKEN:
			ending->job_id = job_id;
			ending->tid = job->tts_tid;
			ending->queue_id = queue->id;
			ending->attempt = waited.attempt;
			look.n++;
			break;
		case WAITING_BUSY:
			leave_job(expires, DT_NOEND);
			pass.busy = true;
			break;
		case WAITING_NOT:
			break;
	}
	maintain_working_on(0);
}

/* Takes the waiting jobs under the keys. False: a limit was reached. */
static bool
walk_over(Retire *r, Snapshot snapshot, ScanKey keys, int nkeys)
{
	StoreWalk walk;
	bool visible;
	bool all = true;

	store_walk_begin(&walk, r->job, INDEX_JOB_EXPIRES, snapshot, keys, nkeys);
	while (all && store_walk_next(&walk, &visible))
	{
		CHECK_FOR_INTERRUPTS();
		look.reached = DatumGetTimestampTz(store_walk_key(&walk, 1));
		look.reached_job = DatumGetInt64(store_walk_key(&walk, 2));
		if (visible)
			take_job(r, walk.slot, snapshot, look.reached);
		all = look.n < look.room && walk.walked < TTL_WALK;
	}
	store_walk_end(&walk);
	return all;
}

/* Finds when the next time to live is over; a lower bound when too many dead entries lie before it. */
static TimestampTz
peek(Retire *r, Snapshot snapshot, TimestampTz now)
{
	ScanKeyData key;
	StoreWalk walk;
	TimestampTz next = DT_NOEND;
	bool visible = false;

	ScanKeyInit(&key, 1, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, TimestampTzGetDatum(now));
	store_walk_begin(&walk, r->job, INDEX_JOB_EXPIRES, snapshot, &key, 1);
	while (!visible && walk.walked < PEEK_WALK && store_walk_next(&walk, &visible))
		next = DatumGetTimestampTz(store_walk_key(&walk, 1));
	if (!visible && walk.walked < PEEK_WALK)
		next = DT_NOEND;
	store_walk_end(&walk);
	return next;
}

/* Takes jobs whose time is over, at most look.room, and finds out what comes after them. */
static void
scan(Retire *r, Snapshot snapshot, TimestampTz now)
{
	ScanKeyData keys[2];
	int n = 0;

	if (look.resume)
	{
		ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ, TimestampTzGetDatum(look.start));
		ScanKeyInit(&keys[1], 2, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(pass.resume_job));
		look.more = !walk_over(r, snapshot, keys, 2);
		if (look.more)
			return;
		ScanKeyInit(&keys[n++], 1, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT, TimestampTzGetDatum(look.start));
	}
	else if (!TIMESTAMP_IS_NOBEGIN(look.start))
		ScanKeyInit(&keys[n++], 1, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE, TimestampTzGetDatum(look.start));
	ScanKeyInit(&keys[n++], 1, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(now));
	look.more = !walk_over(r, snapshot, keys, n);
	if (look.more)
		return;
	look.reached = now;
	look.next = peek(r, snapshot, now);
}

/* Ends the jobs that were taken. */
static void
end_jobs(Retire *r)
{
	Snapshot snapshot =
		store_snapshot(); /* later than the tickets' deletes: nobody else can change the jobs any more */

	for (int i = 0; i < look.n; i++)
	{
		Ending *ending = &look.endings[i];
		Attempt attempt = {.attempt = ending->attempt};
		TupleTableSlot *job;

		CHECK_FOR_INTERRUPTS();
		maintain_working_on(ending->job_id);
		job = retire_job(r, snapshot, ending->job_id, &ending->tid);
		if (job)
			(void) retire_finish(r, meta_queue_by_id(ending->queue_id), job, 'e', &attempt);
		maintain_working_on(0);
	}
	store_snapshot_done(snapshot);
}

/* Ends a pass: what was left is tried again after a while. Returns when. */
static TimestampTz
end_pass(void)
{
	TimestampTz retry = pass.retry;

	if (!pass.busy)
		pass.pause = 0;
	else
	{
		pass.pause = pass.pause == 0 ? BUSY_FIRST : Min(pass.pause * 2, BUSY_LONGEST);
		retry = Min(retry, clock_now() + pass.pause);
	}
	pass.busy = false;
	pass.kept = pass.retry = DT_NOEND;
	return retry;
}

static void
begin_look(Maintain *m)
{
	SpinLockAcquire(&m->db->mutex);
	look.low = m->db->expiry_low;
	look.start = Min(m->db->expiry_cursor, look.low);
	look.taken = true;
	m->db->expiry_low = DT_NOEND;
	SpinLockRelease(&m->db->mutex);
	if (pass.running)
	{
		look.resume = look.low > pass.resume_at;
		look.start = look.resume ? pass.resume_at : look.low;
	}
	look.reached = look.start;
	look.next = DT_NOEND;
	look.room = maintain_batch(TTL_JOBS);
	look.endings = palloc(look.room * sizeof(Ending));
}

/* After the commit: what was found out becomes known. */
static void
apply(Maintain *m)
{
	TimestampTz cursor = Min(look.reached, pass.kept);
	TimestampTz next = look.reached;

	pass.running = look.more;
	pass.resume_at = look.reached;
	pass.resume_job = look.reached_job;
	if (!look.more)
	{
		next = end_pass();
		next = Min(next, look.next);
	}
	SpinLockAcquire(&m->db->mutex);
	m->db->expiry_cursor = Min(cursor, m->db->expiry_low);
	m->db->next_expiry = Min(next, m->db->expiry_low);
	SpinLockRelease(&m->db->mutex);
	look.taken = false;
}

void
ttl_run(Maintain *m)
{
	Retire retire;
	Snapshot snapshot;

	memset(&look, 0, sizeof(look));
	if (!maintain_begin(m))
		return;
	begin_look(m);
	retire_begin(&retire);
	retire.batched = true;
	snapshot = store_snapshot();
	scan(&retire, snapshot, clock_now());
	store_snapshot_done(snapshot);
	DEBUG_POINT("ttl-taken");
	end_jobs(&retire);
	retire_end(&retire);
	if (look.room == 1 && look.n == 1)
		maintain_working_on(look.endings[0].job_id);
	maintain_end(m);
	maintain_working_on(0);
	apply(m);
}

/* Puts back what was taken out of shared memory. */
void
ttl_undo(Maintain *m)
{
	if (!look.taken)
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->expiry_low = Min(m->db->expiry_low, look.low);
	SpinLockRelease(&m->db->mutex);
	look.taken = false;
}
