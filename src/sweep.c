/*-------------------------------------------------------------------------
 *
 * sweep.c
 *		The step that looks for jobs which wait for others and were not let
 *		go, or do not know that those have ended.
 *
 * That is everybody's own business at commit (letgo.c). Left are: a ticket
 * that was in somebody's hands just then, what a COMMIT PREPARED brought,
 * and what a restore or a crash of shared memory made uncertain. So it runs
 * when it is asked to, and once after a start. It only notes which jobs to
 * look at, and does that at its own commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#include "depend.h"
#include "maintain.h"
#include "store.h"
#include "timeutil.h"

#define SWEEP_JOBS 500 /* in one transaction */
#define BUSY_FIRST (20 * 1000)
#define BUSY_LONGEST USECS_PER_SEC

/* Where a sweep stands that takes many transactions. */
typedef struct Position
{
	int32 queue_id;
	int64 job_id;
} Position;

static Position position = {0};
static bool running = false; /* a run is under way, and has taken the time out of shared memory */
static int64 backoff = 0;    /* before the next sweep, where this one met what is in other hands */
static bool busy = false;

TimestampTz
sweep_due(Maintain *m)
{
	TimestampTz due;

	SpinLockAcquire(&m->db->mutex);
	due = m->db->sweep_at;
	SpinLockRelease(&m->db->mutex);
	return due;
}

static void
look_again(Maintain *m, TimestampTz at)
{
	SpinLockAcquire(&m->db->mutex);
	m->db->sweep_at = Min(m->db->sweep_at, at);
	SpinLockRelease(&m->db->mutex);
}

/* Notes what is to be looked at of one job that waits. */
static void
sweep_job(StoreTable *dependency, StoreTable *job, TupleTableSlot *slot, Snapshot snapshot, int64 id)
{
	StoreScan scan;
	bool held = false;
	bool cancel = false;
	bool isnull;

	store_dependencies_of(&scan, dependency, snapshot, id);
	while (store_scan_next(&scan))
	{
		Dependency row;

		CHECK_FOR_INTERRUPTS();
		store_dependency_read(scan.slot, &row);
		held = held || dependency_holds(&row);
		cancel = cancel || (row.ended != 0 && dependency_holds(&row));
		if (row.ended != 0 || row.on_job == id)
			continue;
		if (!store_job_fetch(job, snapshot, row.on_job, NULL, slot))
			depend_note(DEPEND_UNSURE, id, row.on_job);
		else
			busy = busy || store_in_hand(job, snapshot, &slot->tts_tid);
	}
	store_scan_end(&scan);
	cancel = cancel && store_job_fetch(job, snapshot, id, NULL, slot) &&
			 DatumGetChar(slot_datum(slot, Anum_job_after_dead, &isnull)) == 'c' && !isnull;
	if (cancel)
		depend_note(DEPEND_CANCEL, id, 0);
	else if (!held)
		depend_note(DEPEND_CHECK, id, 0);
}

/* Looks at jobs of one queue from position on. False: there may be more. */
static bool
sweep_queue(int32 queue_id, int *room)
{
	StoreTable *delayed = store_open(TABLE_DELAYED);
	StoreTable *dependency = store_open(TABLE_DEPENDENCY);
	StoreTable *job = store_open(TABLE_JOB);
	TupleTableSlot *slot = store_read_slot(job);
	Snapshot snapshot = store_snapshot();
	ScanKeyData keys[3];
	StoreScan scan;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ, TimestampTzGetDatum(DT_NOEND));
	ScanKeyInit(&keys[2], 3, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(position.job_id));
	store_scan_begin(&scan, delayed, INDEX_DELAYED_DUE, snapshot, keys, 3);
	while (*room > 0 && store_scan_next(&scan))
	{
		position.job_id = DatumGetInt64(slot_value(scan.slot, Anum_delayed_job_id));
		maintain_working_on(position.job_id);
		sweep_job(dependency, job, slot, snapshot, position.job_id);
		maintain_working_on(0);
		(*room)--;
	}
	store_scan_end(&scan);
	store_snapshot_done(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	store_close(job);
	store_close(dependency);
	store_close(delayed);
	return *room > 0;
}

/* Looks at jobs from position on, queue after queue. False: there may be more. */
static bool
sweep(Maintain *m)
{
	StoreTable *dependency = store_open(TABLE_DEPENDENCY);
	bool exist = store_dependencies_exist(dependency);
	int room = maintain_batch(SWEEP_JOBS);
	int32 *ids;
	int n;

	store_close(dependency);
	if (!exist)
		return true;
	n = maintain_queue_ids(m, &ids);
	for (int i = 0; i < n; i++)
	{
		if (ids[i] < position.queue_id)
			continue;
		if (ids[i] > position.queue_id)
			position.job_id = 0;
		position.queue_id = ids[i];
		if (!sweep_queue(ids[i], &room))
			return false;
	}
	return true;
}

void
sweep_run(Maintain *m)
{
	bool asked;
	bool all;

	SpinLockAcquire(&m->db->mutex);
	asked = m->db->sweep_at == DT_NOBEGIN;
	m->db->sweep_at = DT_NOEND;
	SpinLockRelease(&m->db->mutex);
	/* for what is behind us */
	busy = busy || (asked && position.queue_id != 0);
	running = true;
	if (!maintain_begin(m))
	{
		sweep_undo(m);
		return;
	}
	all = sweep(m);
	maintain_end(m);
	running = false;
	if (!all)
	{
		/* to go on; DT_NOBEGIN is somebody who asks, this commit, too, where it met a ticket in other hands */
		look_again(m, clock_now());
		return;
	}
	busy = busy || sweep_due(m) == DT_NOBEGIN;
	memset(&position, 0, sizeof(position));
	backoff = !busy ? 0 : backoff == 0 ? BUSY_FIRST : Min(backoff * 2, BUSY_LONGEST);
	if (busy)
	{
		SpinLockAcquire(&m->db->mutex);
		m->db->sweep_at = clock_now() + backoff;
		SpinLockRelease(&m->db->mutex);
	}
	busy = false;
}

/* Puts back what was taken out of shared memory. */
void
sweep_undo(Maintain *m)
{
	if (running)
		look_again(m, DT_NOBEGIN);
	running = false;
}
