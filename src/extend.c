/*-------------------------------------------------------------------------
 *
 * extend.c
 *		The verbs that keep a lease: extend, progress, assert_lease.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "args.h"
#include "extend.h"
#include "leases.h"
#include "timeutil.h"
#include "turn.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_extend);
PG_FUNCTION_INFO_V1(jobq_extend_many);
PG_FUNCTION_INFO_V1(jobq_progress);
PG_FUNCTION_INFO_V1(jobq_assert_lease);

/* Marks as lost what the lease does not list, or whose job is gone already. */
static int
check_items(LeaseGroup *group, StoreTable *job)
{
	Snapshot snapshot = store_snapshot();
	TupleTableSlot *slot = store_read_slot(job);
	int live = 0;

	for (int i = 0; i < group->n; i++)
	{
		LeaseItem *item = group->items[i];

		item->position = lease_position(&group->lease, item->job_id);
		item->status = ITEM_LOST;
		if (item->position < 0 ||
			!store_job_fetch(job, snapshot, item->job_id, &group->lease.job_tids[item->position], slot))
			continue;
		item->status = group->lease.cancel & (UINT64CONST(1) << item->position) ? ITEM_CANCEL
					   : group->lease.drain                                     ? ITEM_DRAIN
																				: ITEM_OK;
		live++;
	}
	ExecDropSingleTupleTableSlot(slot);
	store_snapshot_done(snapshot);
	return live;
}

/* Moves the lease's end; never back, and never past its deadline. */
static void
prolong(LeaseList *list, LeaseGroup *group, int64 lease)
{
	QueueInfo *queue = meta_queue_by_id(group->lease.queue_id);
	TimestampTz until;

	if (lease == 0 && queue == NULL)
		lease = 30 * USECS_PER_SEC;
	if (lease == 0)
		lease = group->lease.group_id > 0 ? turn_lease_length(queue, group->lease.group_id) : queue->lease;
	until = Min(timestamp_add(clock_now(), lease), group->lease.deadline);
	if (until <= group->lease.lease_until)
		return;
	group->lease.lease_until = until;
	(void) store_lease_update(list->lease, &group->lease);
	xact_made_lease(until);
}

/*
 * Looks one lease up and locks it for an update that keeps its jobs. Without wait, a row that a verb in progress holds is TM_WouldBlock.
 */
static TM_Result
lock_group(LeaseList *list, LeaseGroup *group, bool wait)
{
	TM_Result result;

	do
	{
		Snapshot snapshot = store_snapshot();
		bool found = store_lease_find(list->lease, snapshot, group->items[0]->token, &group->lease);

		store_snapshot_done(snapshot);
		CHECK_FOR_INTERRUPTS();
		if (!found || !lease_item_allowed(group->items[0], group->lease.queue_id))
			return TM_Deleted;
		result = store_lease_lock(list->lease, &group->lease, LEASE_NO_KEY, wait);
	} while (result == TM_Updated);
	return result;
}

/* Extends the leases that the items name; each item has its status afterwards. Waits for nobody. */
static void
extend_list(LeaseItem *items, int n, int64 lease)
{
	LeaseList list;
	StoreTable *job = store_open(TABLE_JOB);

	leases_group(&list, items, n);
	for (int i = 0; i < list.ngroups; i++)
	{
		LeaseGroup *group = &list.groups[i];
		TM_Result result = lock_group(&list, group, false);

		if (result == TM_Ok)
		{
			if (check_items(group, job) > 0)
				prolong(&list, group, lease);
			continue;
		}
		/* a verb in progress has the row: what was seen of it is the answer */
		if (result == TM_WouldBlock)
			(void) check_items(group, job);
		else
			for (int j = 0; j < group->n; j++)
				group->items[j]->status = ITEM_LOST;
	}
	leases_close(&list);
	store_close(job);
}

/*
 * jobq.extend(job_id, token, lease): moves the end of the job's lease to `lease` from now (NULL: the queue's). The lease is that of the
 * whole dequeue call: jobs taken together are extended together.
 *
 * 'ok'; 'cancel' when the job is asked to stop; 'drain' when the worker is to let go of the group. Errors: 22004; 22023; JQ001; 25006.
 */
Datum
jobq_extend(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("extend", VERB_HOLDS);
	int64 lease = arg_interval(fcinfo, 2, "lease", 0, 1000, JOBQ_MAX_LEASE_USECS);
	LeaseItem item;

	memset(&item, 0, sizeof(item));
	item.job_id = arg_int64(fcinfo, 0, "job_id");
	item.token = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1);
	xact_verb_begin(db);
	extend_list(&item, 1, lease);
	if (item.status == ITEM_LOST)
		lease_lost(item.job_id);
	xact_verb_end(true);
	return CStringGetTextDatum(item_status_name(item.status));
}

/* jobq.extend_many(job_ids, tokens, lease): extend() for each pair: ok, cancel, drain, lost. */
Datum
jobq_extend_many(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("extend_many", VERB_HOLDS);
	int64 lease = arg_interval(fcinfo, 2, "lease", 0, 1000, JOBQ_MAX_LEASE_USECS);
	int n;
	LeaseItem *items = lease_items_args(fcinfo, &n);

	InitMaterializedSRF(fcinfo, 0);
	xact_verb_begin(db);
	extend_list(items, n, lease);
	lease_items_result(fcinfo, items, n);
	xact_verb_end(true);
	return (Datum) 0;
}

/* {"<job id>": value} */
static Datum
progress_entry(int64 job_id, Jsonb *value)
{
	JsonbParseState *state = NULL;
	JsonbValue key;
	JsonbValue v;
	char digits[32];

	pg_lltoa(job_id, digits);
	key.type = jbvString;
	key.val.string.val = digits;
	key.val.string.len = strlen(digits);
	JsonbToJsonbValue(value, &v);
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	(void) pushJsonbValue(&state, WJB_KEY, &key);
	(void) pushJsonbValue(&state, WJB_VALUE, &v);
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

/* Extends the lease of one job, if it is still its own, for an executor. lease: microseconds. Inside xact_verb_begin and end. */
void
extend_one(int64 job_id, int64 token, int64 lease)
{
	LeaseItem item;

	memset(&item, 0, sizeof(item));
	item.trusted = true;
	item.job_id = job_id;
	item.token = token;
	extend_list(&item, 1, lease);
}

/* What the holder of a job would be told now, for an executor: ITEM_OK, ITEM_CANCEL, ITEM_DRAIN or ITEM_LOST. Locks no row. */
ItemStatus
extend_look(int64 job_id, int64 token)
{
	StoreTable *lease = store_open_read(TABLE_LEASE);
	StoreTable *job = store_open_read(TABLE_JOB);
	Snapshot snapshot = store_snapshot();
	LeaseItem item;
	LeaseItem *items = &item;
	LeaseGroup group;

	memset(&item, 0, sizeof(item));
	memset(&group, 0, sizeof(group));
	item.job_id = job_id;
	item.token = token;
	item.status = ITEM_LOST;
	group.items = &items;
	group.n = 1;
	if (store_lease_find(lease, snapshot, token, &group.lease))
		(void) check_items(&group, job);
	store_snapshot_done(snapshot);
	store_close(job);
	store_close(lease);
	return item.status;
}

/*
 * jobq.progress(job_id, token, value): keeps a value for views and job() while the job runs, and with its history.
 *
 * Errors: 22004; JQ001; JQ004 too large; 25006.
 */
Datum
jobq_progress(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("progress", VERB_HOLDS);
	int64 job_id = arg_int64(fcinfo, 0, "job_id");
	LeaseList list;
	LeaseGroup *group;
	LeaseItem item;
	StoreTable *job;
	QueueInfo *queue;
	Datum entry;

	if (PG_ARGISNULL(2))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("value must not be null")));
	memset(&item, 0, sizeof(item));
	item.job_id = job_id;
	item.token = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1);
	xact_verb_begin(db);
	job = store_open(TABLE_JOB);
	leases_group(&list, &item, 1);
	group = &list.groups[0];
	if (lock_group(&list, group, true) != TM_Ok || check_items(group, job) == 0)
		lease_lost(job_id);
	queue = meta_queue_by_id(group->lease.queue_id);
	if (queue)
		check_json_size(queue, PG_GETARG_JSONB_P(2), "progress");

	entry = progress_entry(job_id, PG_GETARG_JSONB_P(2));
	if (group->lease.progress)
		entry = DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(group->lease.progress), entry);
	group->lease.progress = DatumGetJsonbP(entry);
	(void) store_lease_update(list.lease, &group->lease);
	leases_close(&list);
	store_close(job);
	xact_verb_end(true);
	PG_RETURN_VOID();
}

/*
 * jobq.assert_lease(job_id, token): holds the lease until the caller's transaction ends, so that nobody takes the job over between this
 * check and what the transaction writes.
 *
 * Errors: 22004; JQ001; 25006.
 */
Datum
jobq_assert_lease(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("assert_lease", VERB_HOLDS);
	StoreTable *job;
	LeaseList list;
	LeaseItem item;

	memset(&item, 0, sizeof(item));
	item.job_id = arg_int64(fcinfo, 0, "job_id");
	item.token = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1);
	xact_verb_begin(db);
	job = store_open(TABLE_JOB);
	leases_acquire(&list, &item, 1, LEASE_USE_HOLD);
	if (item.status != ITEM_PENDING || check_items(item.group, job) == 0)
		lease_lost(item.job_id);
	leases_close(&list);
	store_close(job);
	xact_verb_end(false);
	PG_RETURN_VOID();
}
