/*-------------------------------------------------------------------------
 *
 * jobinfo.c
 *		jobq.job(): all there is to know of one job.
 *
 * The view job_full says the same of all jobs, and is what this must agree
 * with; planning it for one job takes longer than looking. So this goes
 * through the tables by their indexes: the job's row and the place of its
 * ticket, else the dead letters, else the history. One snapshot, the
 * caller's, decides for all of them, and shows a job in one place only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "grant.h"
#include "jobinfo.h"
#include "line.h"
#include "meta.h"

PG_FUNCTION_INFO_V1(jobq_job);
PG_FUNCTION_INFO_V1(jobq_lease_counts);

static void
set_value(JobInfo *info, int column, Datum value)
{
	info->values[column] = value;
	info->nulls[column] = false;
}

static void
set_time(JobInfo *info, int column, TimestampTz value)
{
	set_value(info, column, TimestampTzGetDatum(value));
}

static void
set_state(JobInfo *info, JobPlace place, const char *state)
{
	info->place = place;
	set_value(info, JOB_STATE, CStringGetTextDatum(state));
}

/* Takes a column of the job's row, null or not. */
static void
copy_column(JobInfo *info, int column, int attnum)
{
	info->values[column] = info->slot->tts_values[attnum - 1];
	info->nulls[column] = info->slot->tts_isnull[attnum - 1];
}

/* A text column as a string; NULL: it is null. */
const char *
jobinfo_string(const JobInfo *info, int column)
{
	return info->nulls[column] ? NULL : TextDatumGetCString(info->values[column]);
}

/* What failed so far, of a live job. Returns the number of the last attempt that did, 0: none did. */
static int32
read_failures(JobInfo *info, Snapshot snapshot)
{
	bool isnull;
	text *error;
	int32 attempt;
	Datum failures = store_failures_read(snapshot, info->id, &isnull, &error, &attempt);

	if (isnull)
		return 0;
	set_value(info, JOB_FAILURES, failures);
	if (error)
		set_value(info, JOB_LAST_ERROR, PointerGetDatum(error));
	return Max(attempt, 0);
}

/* The error of the last of the failures that a finished job keeps. */
static void
last_of_failures(JobInfo *info)
{
	Jsonb *failures;
	JsonbValue *last;
	JsonbValue error;
	int n;

	if (info->nulls[JOB_FAILURES])
		return;
	failures = DatumGetJsonbP(info->values[JOB_FAILURES]);
	n = JB_ROOT_IS_ARRAY(failures) ? (int) JB_ROOT_COUNT(failures) : 0;
	last = n > 0 ? getIthJsonbValueFromContainer(&failures->root, n - 1) : NULL;
	if (last && last->type == jbvBinary && JsonContainerIsObject(last->val.binary.data) &&
		getKeyJsonValueFromContainer(last->val.binary.data, "error", 5, &error) && error.type == jbvString)
		set_value(info, JOB_LAST_ERROR,
				  PointerGetDatum(cstring_to_text_with_len(error.val.string.val, error.val.string.len)));
}

/* The columns that job, dead and the history have alike; the arguments are their numbers. */
static void
set_common(JobInfo *info, int queue_id, int created, int max_attempts, int priority, int name, int group_key,
		   int unique_key, int payload, int headers)
{
	info->queue_id = DatumGetInt32(info->slot->tts_values[queue_id - 1]);
	info->queue = meta_queue_by_id(info->queue_id);
	set_value(info, JOB_JOB_ID, Int64GetDatum(info->id));
	if (info->queue)
		set_value(info, JOB_QUEUE, CStringGetTextDatum(info->queue->name));
	set_value(info, JOB_PRIORITY, Int32GetDatum(DatumGetInt16(info->slot->tts_values[priority - 1])));
	copy_column(info, JOB_CREATED, created);
	copy_column(info, JOB_MAX_ATTEMPTS, max_attempts);
	copy_column(info, JOB_NAME, name);
	copy_column(info, JOB_GROUP_KEY, group_key);
	copy_column(info, JOB_UNIQUE_KEY, unique_key);
	copy_column(info, JOB_PAYLOAD, payload);
	copy_column(info, JOB_HEADERS, headers);
}

/* A job's ticket in ready or delayed. */
static bool
find_ticket(JobInfo *info, Snapshot snapshot, JobqTable which)
{
	StoreTable *t = store_open_read(which);
	int16 priority = DatumGetInt16(slot_value(info->slot, Anum_job_priority));
	bool found = store_ticket_find(which, t, snapshot, info->id, info->queue_id, priority, &info->ticket);

	if (found)
	{
		info->in_hand = store_in_hand(t, snapshot, &info->ticket.tid);
		set_value(info, JOB_ATTEMPT, Int32GetDatum(info->ticket.attempt));
	}
	store_close(t);
	return found;
}

static bool
find_in_line(JobInfo *info, Snapshot snapshot)
{
	StoreTable *line = store_open_read(TABLE_LINE);
	bool found = store_line_of_job(line, snapshot, info->id, &info->row);

	if (found)
	{
		info->in_hand = store_in_hand(line, snapshot, &info->row.tid);
		set_value(info, JOB_ATTEMPT, Int32GetDatum(info->row.attempt));
	}
	store_close(line);
	return found;
}

static bool
find_lease(JobInfo *info, Snapshot snapshot)
{
	StoreTable *lease = store_open_read(TABLE_LEASE);
	Lease *l = &info->lease;
	bool found = store_lease_of_job(lease, snapshot, info->id, l, &info->position);
	char key[MAXINT8LEN + 1];
	JsonbValue value;

	store_close(lease);
	if (!found)
		return false;
	set_value(info, JOB_ATTEMPT, Int32GetDatum(l->attempts[info->position]));
	set_time(info, JOB_LEASE_UNTIL, l->lease_until);
	set_time(info, JOB_STARTED, l->started);
	if (!TIMESTAMP_IS_NOEND(l->deadline))
		set_time(info, JOB_DEADLINE, l->deadline);
	if (l->worker)
		set_value(info, JOB_WORKER, PointerGetDatum(l->worker));
	(void) pg_lltoa(info->id, key);
	if (l->progress && JB_ROOT_IS_OBJECT(l->progress) &&
		getKeyJsonValueFromContainer(&l->progress->root, key, (int) strlen(key), &value))
		set_value(info, JOB_PROGRESS, JsonbPGetDatum(JsonbValueToJsonb(&value)));
	return true;
}

/* A job with a ticket in delayed. A pending one has no time but its own, if it has any. */
static void
set_delayed(JobInfo *info)
{
	if (TIMESTAMP_IS_NOEND(info->ticket.visible_at))
	{
		set_state(info, JOB_IN_PENDING, "pending");
		copy_column(info, JOB_RUN_AT, Anum_job_run_at);
	}
	else
	{
		set_state(info, JOB_IN_DELAYED, "delayed");
		set_time(info, JOB_RUN_AT, info->ticket.visible_at);
	}
}

/* A job that is not finished. */
static bool
find_live(JobInfo *info, Snapshot snapshot)
{
	StoreTable *job = store_open_read(TABLE_JOB);
	bool found;
	int32 failed;

	info->slot = store_read_slot(job);
	found = store_job_fetch(job, snapshot, info->id, NULL, info->slot);
	if (found)
		ExecMaterializeSlot(info->slot);
	store_close(job);
	if (!found)
		return false;
	slot_getallattrs(info->slot);
	set_common(info, Anum_job_queue_id, Anum_job_created, Anum_job_max_attempts, Anum_job_priority, Anum_job_name,
			   Anum_job_group_key, Anum_job_unique_key, Anum_job_payload, Anum_job_headers);
	copy_column(info, JOB_EXPIRES, Anum_job_expires);
	failed = read_failures(info, snapshot);
	if (find_ticket(info, snapshot, TABLE_READY))
		set_state(info, JOB_IN_READY, "ready");
	else if (find_in_line(info, snapshot))
		set_state(info, JOB_IN_LINE, "ready");
	else if (find_ticket(info, snapshot, TABLE_DELAYED))
		set_delayed(info);
	else if (line_joins(info->id))
	{
		/* every attempt that counted has left a failure */
		set_state(info, JOB_JOINS, "ready");
		set_value(info, JOB_ATTEMPT, Int32GetDatum(failed));
	}
	else if (find_lease(info, snapshot))
		set_state(info, JOB_IN_LEASE, "active");
	else
		info->place = JOB_IS_LOST;
	return true;
}

/* Reads the row of a finished job into info->slot. */
static bool
find_row(JobInfo *info, Snapshot snapshot, JobqTable which, int index)
{
	StoreTable *t = store_open_read(which);
	ScanKeyData key;
	StoreScan scan;
	bool found = false;

	/* most tables of the ring are empty */
	if (RelationGetNumberOfBlocks(t->rel) > 0)
	{
		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(info->id));
		store_scan_begin(&scan, t, index, snapshot, &key, 1);
		found = store_scan_next(&scan);
		if (found)
		{
			info->slot = store_read_slot(t);
			ExecCopySlot(info->slot, scan.slot);
			ExecMaterializeSlot(info->slot);
			slot_getallattrs(info->slot);
		}
		store_scan_end(&scan);
	}
	store_close(t);
	return found;
}

static bool
find_dead(JobInfo *info, Snapshot snapshot)
{
	if (!find_row(info, snapshot, TABLE_DEAD, INDEX_DEAD_PKEY))
		return false;
	set_common(info, Anum_dead_queue_id, Anum_dead_created, Anum_dead_max_attempts, Anum_dead_priority, Anum_dead_name,
			   Anum_dead_group_key, Anum_dead_unique_key, Anum_dead_payload, Anum_dead_headers);
	set_state(info, JOB_IS_DEAD, "dead");
	copy_column(info, JOB_ATTEMPT, Anum_dead_attempt);
	copy_column(info, JOB_LAST_ERROR, Anum_dead_last_error);
	copy_column(info, JOB_FINISHED, Anum_dead_died);
	copy_column(info, JOB_FAILURES, Anum_dead_failures);
	info->reason = TextDatumGetCString(slot_value(info->slot, Anum_dead_reason));
	return true;
}

static bool
find_in_history(JobInfo *info, Snapshot snapshot)
{
	JobqTable which = TABLE_HISTORY;

	while (which < NUM_TABLES && !find_row(info, snapshot, which, INDEX_HISTORY_ID))
		which++;
	if (which == NUM_TABLES)
		return false;
	set_common(info, Anum_history_queue_id, Anum_history_created, Anum_history_max_attempts, Anum_history_priority,
			   Anum_history_name, Anum_history_group_key, Anum_history_unique_key, Anum_history_payload,
			   Anum_history_headers);
	switch (DatumGetChar(slot_value(info->slot, Anum_history_state)))
	{
		case 'c':
			set_state(info, JOB_IS_COMPLETED, "completed");
			break;
		case 'x':
			set_state(info, JOB_IS_CANCELLED, "cancelled");
			break;
		default:
			set_state(info, JOB_IS_EXPIRED, "expired");
	}
	copy_column(info, JOB_ATTEMPT, Anum_history_attempt);
	copy_column(info, JOB_WORKER, Anum_history_worker);
	copy_column(info, JOB_PROGRESS, Anum_history_progress);
	copy_column(info, JOB_STARTED, Anum_history_started);
	copy_column(info, JOB_FINISHED, Anum_history_finished);
	copy_column(info, JOB_RESULT, Anum_history_result);
	copy_column(info, JOB_FAILURES, Anum_history_failures);
	last_of_failures(info);
	return true;
}

/*
 * Finds a job, in the current memory context; NULL: there is none. To be ended with jobinfo_end. Nobody is asked for rights: whoever may
 * not read it must not be told.
 */
JobInfo *
jobinfo_find_any(int64 id, Snapshot snapshot)
{
	JobInfo *info = palloc0(sizeof(JobInfo));

	info->id = id;
	memset(info->nulls, true, sizeof(info->nulls));
	if (!find_live(info, snapshot))
	{
		ExecDropSingleTupleTableSlot(info->slot);
		info->slot = NULL;
		if (!find_dead(info, snapshot) && !find_in_history(info, snapshot))
			return NULL;
	}
	if (info->nulls[JOB_FAILURES])
		set_value(info, JOB_FAILURES, DirectFunctionCall1(jsonb_in, CStringGetDatum("[]")));
	return info;
}

/* The same for a job that the current user may read. */
JobInfo *
jobinfo_find(int64 id, Snapshot snapshot)
{
	JobInfo *info = jobinfo_find_any(id, snapshot);

	if (info && !grant_has(info->queue, RIGHTS_READ))
	{
		jobinfo_end(info);
		return NULL;
	}
	return info;
}

void
jobinfo_end(JobInfo *info)
{
	ExecDropSingleTupleTableSlot(info->slot);
	pfree(info);
}

/* job(job_id): all there is to know of one job; no row where there is none that the current user may read. */
Datum
jobq_job(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	JobInfo *info;

	(void) meta_begin("job", VERB_READS);
	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != NUM_JOB_COLUMNS)
		elog(ERROR, "job() must return %d columns", NUM_JOB_COLUMNS);
	if (PG_ARGISNULL(0))
		return (Datum) 0;
	info = jobinfo_find(PG_GETARG_INT64(0), GetActiveSnapshot());
	if (info == NULL)
		return (Datum) 0;
	if (info->place != JOB_IS_LOST)
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, info->values, info->nulls);
	jobinfo_end(info);
	return (Datum) 0;
}

#define LEASE_COLUMNS 6

/* How many jobs of a lease are live: a job that it lists is active while its row exists. */
static int
count_live(StoreTable *job, TupleTableSlot *slot, Snapshot snapshot, const Lease *lease)
{
	int n = 0;

	for (int i = 0; i < lease->njobs; i++)
	{
		ItemPointerData hint = lease->job_tids[i];

		n += store_job_fetch(job, snapshot, lease->job_ids[i], &hint, slot);
	}
	return n;
}

/*
 * lease_counts(): the leases of queues whose jobs the current user may read, and how many live jobs each has: queue_id, worker, started,
 * lease_until, drain, jobs. For the view workers.
 */
Datum
jobq_lease_counts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Snapshot snapshot = GetActiveSnapshot();
	Lease *row = palloc(sizeof(Lease));
	StoreTable *lease;
	StoreTable *job;
	TupleTableSlot *lease_slot;
	TupleTableSlot *job_slot;
	TableScanDesc scan;

	(void) meta_begin("lease_counts", VERB_READS);
	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != LEASE_COLUMNS)
		elog(ERROR, "lease_counts() must return %d columns", LEASE_COLUMNS);
	lease = store_open_read(TABLE_LEASE);
	job = store_open_read(TABLE_JOB);
	lease_slot = store_read_slot(lease);
	job_slot = store_read_slot(job);
	scan = store_heap_begin(lease, snapshot);
	while (store_heap_next(scan, lease_slot))
	{
		Datum values[LEASE_COLUMNS];
		bool nulls[LEASE_COLUMNS] = {false};

		CHECK_FOR_INTERRUPTS();
		store_lease_read(lease_slot, row);
		if (!grant_has_id(row->queue_id, RIGHTS_READ))
			continue;
		values[0] = Int32GetDatum(row->queue_id);
		values[1] = PointerGetDatum(row->worker);
		nulls[1] = row->worker == NULL;
		values[2] = TimestampTzGetDatum(row->started);
		values[3] = TimestampTzGetDatum(row->lease_until);
		values[4] = BoolGetDatum(row->drain);
		values[5] = Int32GetDatum(count_live(job, job_slot, snapshot, row));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	store_heap_end(scan);
	ExecDropSingleTupleTableSlot(job_slot);
	ExecDropSingleTupleTableSlot(lease_slot);
	store_close(job);
	store_close(lease);
	return (Datum) 0;
}
