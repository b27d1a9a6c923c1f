/*-------------------------------------------------------------------------
 *
 * ttl.c
 *		The step that ends jobs whose time to live is over while they wait.
 *
 * A job that is active then goes on. When it comes back, its time is told
 * again (retire_waits), so the walk (timewalk.h) need not keep it in sight:
 * expiry_cursor passes it.
 *
 * A dequeue that meets such a job before this step does ends it, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "debug.h"
#include "maintain.h"
#include "retire.h"
#include "store.h"
#include "timeutil.h"
#include "timewalk.h"
#include "waiting.h"
#include "xact.h"

#define TTL_JOBS 500  /* in one transaction */
#define TTL_WALK 5000 /* index entries in one transaction, dead ones too */

/* A job that was taken to be ended. */
typedef struct Ending
{
	int64 job_id;
	ItemPointerData tid;
	int32 queue_id;
	int32 attempt;
} Ending;

/* What one transaction takes. */
typedef struct Endings
{
	Retire retire;
	Snapshot snapshot;
	int room;
	int n;
	Ending *list;
} Endings;

static TimeLook look;
static TimePass pass = TIME_PASS_INIT;

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

/* Takes a job that the snapshot shows out of where it waits. False: that is enough. */
static bool
take_job(void *arg, TupleTableSlot *job, TimestampTz expires)
{
	Endings *e = arg;
	int64 job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	QueueInfo *queue = meta_queue_by_id(DatumGetInt32(slot_value(job, Anum_job_queue_id)));
	Ending *ending = &e->list[e->n];
	TimestampTz until;
	Waited waited;

	if (queue == NULL)
		return true;
	if (maintain_is_skipped(job_id, &until))
	{
		timewalk_leave(&pass, expires, until);
		return true;
	}
	maintain_working_on(job_id);
	switch (waiting_take(&e->retire, queue, job, e->snapshot, &waited))
	{
		case WAITING_TAKEN:
			ending->job_id = job_id;
			ending->tid = job->tts_tid;
			ending->queue_id = queue->id;
			ending->attempt = waited.attempt;
			e->n++;
			break;
		case WAITING_BUSY:
			timewalk_leave_busy(&pass, expires);
			break;
		case WAITING_NOT:
			break;
	}
	maintain_working_on(0);
	return e->n < e->room;
}

/* Takes jobs whose time is over, and finds out what comes after them. */
static void
take_jobs(Endings *e)
{
	TimeWalk walk = {.table = e->retire.job,
					 .index = INDEX_JOB_EXPIRES,
					 .column = 1,
					 .has_id = true,
					 .limit = TTL_WALK,
					 .take = take_job,
					 .arg = e};

	e->room = maintain_batch(TTL_JOBS);
	e->list = palloc(e->room * sizeof(Ending));
	e->snapshot = store_snapshot();
	timewalk_run(&look, &pass, &walk, e->snapshot, clock_now());
	store_snapshot_done(e->snapshot);
}

/* Ends the jobs that were taken. */
static void
end_jobs(Endings *e)
{
	Snapshot snapshot =
		store_snapshot(); /* later than the tickets' deletes: nobody else can change the jobs any more */

	for (int i = 0; i < e->n; i++)
	{
		Ending *ending = &e->list[i];
		Attempt attempt = {.attempt = ending->attempt};
		TupleTableSlot *job;

		CHECK_FOR_INTERRUPTS();
		maintain_working_on(ending->job_id);
		job = retire_job(&e->retire, snapshot, ending->job_id, &ending->tid);
		if (job)
			(void) retire_finish(&e->retire, meta_queue_by_id(ending->queue_id), job, 'e', &attempt);
		maintain_working_on(0);
	}
	store_snapshot_done(snapshot);
}

void
ttl_run(Maintain *m)
{
	Endings endings = {.n = 0};
	TimestampTz cursor;
	TimestampTz next;

	if (!maintain_begin(m))
		return;
	SpinLockAcquire(&m->db->mutex);
	timewalk_take(&look, m->db->expiry_cursor, &m->db->expiry_low);
	SpinLockRelease(&m->db->mutex);
	timewalk_begin(&look, &pass);
	retire_begin(&endings.retire);
	endings.retire.batched = true;
	take_jobs(&endings);
	DEBUG_POINT("ttl-taken");
	end_jobs(&endings);
	retire_end(&endings.retire);
	if (endings.room == 1 && endings.n == 1)
		maintain_working_on(endings.list[0].job_id);
	maintain_end(m);
	maintain_working_on(0);

	timewalk_end(&look, &pass, &cursor, &next);
	SpinLockAcquire(&m->db->mutex);
	m->db->expiry_cursor = Min(cursor, m->db->expiry_low);
	m->db->next_expiry = Min(next, m->db->expiry_low);
	SpinLockRelease(&m->db->mutex);
	look.taken = false;
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
