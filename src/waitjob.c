/*-------------------------------------------------------------------------
 *
 * waitjob.c
 *		CALL jobq.wait_job(): waits until a job has ended.
 *
 * Waiters sleep on one of JOB_WAIT_SLOTS condition variables, by a hash of
 * the job's id, and hold no transaction meanwhile. Whoever ends jobs wakes
 * their slots after its commit; where nobody waits at all it reads one
 * number. COMMIT PREPARED wakes nobody: so a waiter looks now and then by
 * itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "args.h"
#include "compat.h"
#include "grant.h"
#include "meta.h"
#include "store.h"
#include "waitjob.h"

PG_FUNCTION_INFO_V1(jobq_wait_job);

#define MAX_WAIT_USECS (INT64CONST(24) * USECS_PER_HOUR)
/* A waiter looks so often even if nobody wakes it. */
#define LOOK_MS 5000

uint64 waitjob_ended = 0;

StaticAssertDecl(JOB_WAIT_SLOTS == 64, "a bit for each slot");

/* Wakes who waits for the jobs that the transaction has ended. */
void
waitjob_at_commit(void)
{
	uint64 ended = waitjob_ended;

	waitjob_ended = 0;
	if (ended == 0 || pg_atomic_read_u32(&jobq_shared->job_waiters) == 0)
		return;
	for (int i = 0; i < JOB_WAIT_SLOTS; i++)
		if (ended & (UINT64CONST(1) << i) && pg_atomic_read_u32(&jobq_shared->job_waits[i].waiters) > 0)
			ConditionVariableBroadcast(&jobq_shared->job_waits[i].wake);
}

void
waitjob_forget(void)
{
	waitjob_ended = 0;
}

/* What is known of a job. */
typedef struct JobState
{
	int64 job_id;
	const char *state; /* NULL: nothing */
	bool ended;
	Jsonb *result;         /* in context, or NULL */
	MemoryContext context; /* that outlives the look */
} JobState;

/* Reads the row of that id by a table's index on ids. False: there is none. The scan stays open if there is one. */
static bool
find_row(StoreScan *scan, StoreTable *table, int index, Snapshot snapshot, int64 id)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	store_scan_begin(scan, table, index, snapshot, &key, 1);
	if (store_scan_next(scan))
		return true;
	store_scan_end(scan);
	return false;
}

static void
read_history(JobState *job, TupleTableSlot *row)
{
	MemoryContext old;
	bool isnull;
	Datum result = slot_datum(row, Anum_history_result, &isnull);

	switch (DatumGetChar(slot_value(row, Anum_history_state)))
	{
		case 'c':
			job->state = "completed";
			break;
		case 'x':
			job->state = "cancelled";
			break;
		default:
			job->state = "expired";
			break;
	}
	if (isnull)
		return;
	old = MemoryContextSwitchTo(job->context);
	job->result = DatumGetJsonbPCopy(result);
	MemoryContextSwitchTo(old);
}

/* Looks for a job that is no more: among the dead letters, then in the history. */
static void
find_ended(JobState *job, Snapshot snapshot)
{
	StoreTable *table = store_open_read(TABLE_DEAD);
	StoreScan scan;

	job->ended = true;
	if (find_row(&scan, table, INDEX_DEAD_PKEY, snapshot, job->job_id))
	{
		if (grant_has_id(DatumGetInt32(slot_value(scan.slot, Anum_dead_queue_id)), RIGHTS_READ))
			job->state = "dead";
		store_scan_end(&scan);
	}
	store_close(table);
	for (int which = TABLE_HISTORY; which < NUM_TABLES && job->state == NULL; which++)
	{
		table = store_open_read(which);
		if (find_row(&scan, table, INDEX_HISTORY_ID, snapshot, job->job_id))
		{
			if (grant_has_id(DatumGetInt32(slot_value(scan.slot, Anum_history_queue_id)), RIGHTS_READ))
				read_history(job, scan.slot);
			store_scan_end(&scan);
		}
		store_close(table);
	}
}

/* The state of a live job. */
static const char *
live_state(int64 job_id, Snapshot snapshot)
{
	StoreTable *lease = store_open_read(TABLE_LEASE);
	StoreTable *delayed = store_open_read(TABLE_DELAYED);
	const char *state = "ready";
	StoreScan scan;
	Lease *row = palloc(sizeof(Lease));
	int position;

	if (store_lease_of_job(lease, snapshot, job_id, row, &position))
		state = "active";
	else if (find_row(&scan, delayed, INDEX_DELAYED_JOB, snapshot, job_id))
	{
		state = TIMESTAMP_IS_NOEND(DatumGetTimestampTz(slot_value(scan.slot, Anum_delayed_visible_at))) ? "pending"
																										: "delayed";
		store_scan_end(&scan);
	}
	store_close(delayed);
	store_close(lease);
	pfree(row);
	return state;
}

/* Looks at the job in a transaction of its own, so that the sleep after it holds nothing. live: find out the state of a live one, too. */
static void
look(JobState *job, bool live)
{
	StoreTable *table;
	Snapshot snapshot;
	TupleTableSlot *slot;

	(void) meta_begin("wait_job", VERB_WAITS);
	PushActiveSnapshot(GetTransactionSnapshot());
	table = store_open_read(TABLE_JOB);
	snapshot = store_snapshot(); /* one for all places: a redrive moves the job from one to another */
	slot = store_read_slot(table);
	if (!store_job_fetch(table, snapshot, job->job_id, NULL, slot))
		find_ended(job, snapshot);
	else if (!grant_has_id(DatumGetInt32(slot_value(slot, Anum_job_queue_id)), RIGHTS_READ))
		job->ended = true; /* not known to who asks */
	else if (live)
		job->state = live_state(job->job_id, snapshot);
	ExecDropSingleTupleTableSlot(slot);
	store_snapshot_done(snapshot);
	store_close(table);
	PopActiveSnapshot();
	SPI_commit();
}

/* A session's place among the waiters. */
static void
leave_waiters(int code, Datum arg)
{
	JobWaitSlot *slot = (JobWaitSlot *) DatumGetPointer(arg);

	condition_variable_cancel_compat(&slot->wake);
	pg_atomic_fetch_sub_u32(&slot->waiters, 1);
	pg_atomic_fetch_sub_u32(&jobq_shared->job_waiters, 1);
}

/* Milliseconds left of a wait; 0 when it is over. By the clock that nobody can set. */
static long
wait_left(instr_time begin, int64 usecs)
{
	instr_time elapsed;

	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, begin);
	usecs -= (int64) INSTR_TIME_GET_MICROSEC(elapsed);
	return usecs > 0 ? (long) ((usecs + 999) / 1000) : 0;
}

/* Sleeps until the job has ended or the time is over. The session registers before it looks, so that no wake-up is lost. */
static void
wait_for_end(JobState *job, int64 usecs)
{
	JobWaitSlot *slot = &jobq_shared->job_waits[waitjob_slot(job->job_id)];
	MemoryContext context = AllocSetContextCreate(job->context, "jobq wait_job", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	instr_time begin;
	long left;

	INSTR_TIME_SET_CURRENT(begin);
	pg_atomic_fetch_add_u32(&slot->waiters, 1);
	pg_atomic_fetch_add_u32(&jobq_shared->job_waiters, 1); /* a full barrier: a commit that the look misses sees it */
	PG_ENSURE_ERROR_CLEANUP(leave_waiters, PointerGetDatum(slot));
	{
		ConditionVariablePrepareToSleep(&slot->wake);
		for (;;)
		{
			look(job, false);
			if (job->ended || (left = wait_left(begin, usecs)) == 0)
				break;
			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(context);
			(void) ConditionVariableTimedSleep(&slot->wake, Min(left, LOOK_MS), wait_event_compat());
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave_waiters, PointerGetDatum(slot));
	leave_waiters(0, PointerGetDatum(slot));
	if (!job->ended)
		look(job, true);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * CALL jobq.wait_job(): waits until a job has ended. Holds no snapshot, transaction id or lock meanwhile.
 *
 * state: completed, cancelled, expired or dead, with the result; ready, delayed, pending or active when the time is over; NULL: the job is
 * not known. Errors: 25001 in a transaction block; 22004; 22023.
 */
Datum
jobq_wait_job(PG_FUNCTION_ARGS)
{
	bool atomic =
		fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) || castNode(CallContext, fcinfo->context)->atomic;
	JobState job = {0};
	MemoryContext old;
	TupleDesc desc;
	int64 timeout;
	Datum values[2] = {0};
	bool nulls[2];

	(void) meta_begin("wait_job", VERB_WAITS);
	if (atomic)
		ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
						errmsg("CALL jobq.wait_job() cannot run inside a transaction block"),
						errhint("Call it outside BEGIN; jobq.job() tells the state of a job without waiting.")));
	job.job_id = arg_int64(fcinfo, 0, "job_id");
	timeout = arg_interval(fcinfo, 1, "timeout", 30 * USECS_PER_SEC, 0, MAX_WAIT_USECS);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "jobq.wait_job() has no result row");

	/* what must outlive the transaction that CALL started */
	job.context = PortalContext;
	old = MemoryContextSwitchTo(PortalContext);
	desc = CreateTupleDescCopy(desc);
	MemoryContextSwitchTo(old);

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	wait_for_end(&job, timeout);
	SPI_finish();

	EnsurePortalSnapshotExists();
	nulls[0] = job.state == NULL;
	if (job.state)
		values[0] = CStringGetTextDatum(job.state);
	nulls[1] = job.result == NULL;
	if (job.result)
		values[1] = JsonbPGetDatum(job.result);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
