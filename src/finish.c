/*-------------------------------------------------------------------------
 *
 * finish.c
 *		The verbs that end a lease's hold on jobs: complete, fail, release.
 *
 * All take a list of (job, token) pairs; the single verbs pass a list of
 * one. Steps, in this order for every verb:
 *
 *	1. the leases named, in the order of tokens (leases.c). A whole lease is
 *	   deleted when all its jobs are in the list; completing some of them
 *	   needs only a key-share lock, so that siblings complete side by side;
 *	   giving some back needs an exclusive one, since the lease is written
 *	   back without them.
 *	2. one new snapshot. A finished key-share locker leaves no trace in the
 *	   lease row, so what an older snapshot shows of its jobs may be wrong.
 *	3. the jobs, in the order of their ids: the row's deletion decides.
 *	4. leases that lost jobs are written back or deleted.
 *
 * A group's lease is held exclusively whatever the verb, and its jobs end
 * in their order; what becomes of the group is decided at commit (line.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#include "args.h"
#include "debug.h"
#include "event.h"
#include "finish.h"
#include "grant.h"
#include "leases.h"
#include "retire.h"
#include "timeutil.h"
#include "turn.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_complete);
PG_FUNCTION_INFO_V1(jobq_fail);
PG_FUNCTION_INFO_V1(jobq_nack);
PG_FUNCTION_INFO_V1(jobq_release);
PG_FUNCTION_INFO_V1(jobq_complete_many);
PG_FUNCTION_INFO_V1(jobq_fail_many);
PG_FUNCTION_INFO_V1(jobq_release_many);

typedef enum FinishVerb
{
	FINISH_COMPLETE,
	FINISH_FAIL,
	FINISH_RELEASE
} FinishVerb;

/* What to do with the jobs of a list. */
typedef struct FinishCall
{
	FinishVerb verb;
	const text *error;
	int64 retry_in; /* microseconds, or RETRY_IN_DEFAULT */
	bool retry;
	int64 delay; /* of release, microseconds */
} FinishCall;

static int
by_job(const void *a, const void *b)
{
	const LeaseItem *x = *(LeaseItem *const *) a;
	const LeaseItem *y = *(LeaseItem *const *) b;

	return x->job_id < y->job_id ? -1 : x->job_id > y->job_id;
}

/* Completes a job. ITEM_LOST when its row is gone: finish_list finds out whether a sibling completed it, or somebody deleted it. */
static ItemStatus
complete_job(Retire *r, QueueInfo *queue, TupleTableSlot *job, LeaseItem *item, Attempt *attempt, bool cancelled)
{
	attempt->result = item->result;
	if (cancelled)
		ereport(NOTICE,
				(errmsg("job " INT64_FORMAT " was asked to cancel, and is completed all the same", item->job_id)));
	if (!retire_finish(r, queue, job, 'c', attempt))
		return ITEM_LOST;
	xact_done(queue, item->job_id, item->token);
	return ITEM_OK;
}

/* Applies the verb to one job, of no group, whose lease is in our hands. */
static ItemStatus
finish_job(const FinishCall *call, Retire *r, TupleTableSlot *job, LeaseItem *item)
{
	Lease *lease = &item->group->lease;
	QueueInfo *queue = meta_queue_by_id(lease->queue_id);
	bool cancelled = (lease->cancel & (UINT64CONST(1) << item->position)) != 0;
	Attempt attempt = retire_attempt(lease, item->position);
	ItemStatus status;

	if (queue == NULL)
		return ITEM_LOST;
	item->returned = call->verb != FINISH_COMPLETE;

	if (call->verb == FINISH_COMPLETE)
		status = complete_job(r, queue, job, item, &attempt, cancelled);
	else if (cancelled)
		status = retire_finish(r, queue, job, 'x', &attempt) ? ITEM_CANCELLED : ITEM_LOST;
	else if (call->verb == FINISH_RELEASE)
	{
		retire_requeue(r, queue, job, attempt.attempt - 1,
					   call->delay == 0 ? r->now : timestamp_add(r->now, call->delay));
		event_job(queue, EVENT_WAITING, job, attempt.attempt - 1, call->delay == 0 ? EVENT_NO_DELAY : call->delay,
				  NULL);
		status = ITEM_OK;
	}
	else
	{
		FailResult result = retire_fail(r, queue, job, &attempt, call->error, call->retry ? "max_attempts" : "rejected",
										call->retry_in, call->retry, NULL);

		status = result == FAIL_RETRY ? ITEM_RETRY : ITEM_DEAD;
	}
	if (status != ITEM_LOST)
		xact_count(queue, COUNT_ACTIVE, -1);
	return status;
}

/* Applies the verb to the first unfinished job of a group's turn. */
static ItemStatus
finish_first(const FinishCall *call, TurnEnd *e, TupleTableSlot *job, LeaseItem *item)
{
	bool cancelled = (e->lease->cancel & (UINT64CONST(1) << item->position)) != 0;
	Attempt attempt = retire_attempt(e->lease, item->position);
	TimestampTz now = e->retire->now;

	if (call->verb == FINISH_COMPLETE)
		return complete_job(e->retire, e->queue, job, item, &attempt, cancelled);
	if (cancelled)
		return retire_finish(e->retire, e->queue, job, 'x', &attempt) ? ITEM_CANCELLED : ITEM_LOST;
	if (call->verb == FINISH_RELEASE)
	{
		turn_return(e, item->position, job, &attempt, call->delay == 0 ? DT_NOBEGIN : timestamp_add(now, call->delay));
		return ITEM_OK;
	}
	switch (turn_fail(e, item->position, job, &attempt, call->error, call->retry ? "max_attempts" : "rejected",
					  call->retry_in, call->retry))
	{
		case FAIL_RETRY:
			return ITEM_RETRY;
		case FAIL_BLOCKED:
			return ITEM_BLOCKED;
		case FAIL_DEAD:
			break;
	}
	return ITEM_DEAD;
}

/*
 * Applies the verb to a group's turn: to its jobs one after the other, as far as the call names them. What fails or is released ends the
 * turn, and who comes after it goes back to its place; so does a completion where the holder is asked to let go.
 */
static void
finish_turn(const FinishCall *call, Retire *r, Snapshot snapshot, LeaseGroup *group)
{
	Lease *lease = &group->lease;
	LeaseItem *items[JOBQ_MAX_LEASE_JOBS] = {NULL};
	QueueInfo *queue = meta_queue_by_id(lease->queue_id);
	TurnEnd e;
	bool over = false;
	int done = 0;
	int left = 0;

	if (pending_items(group) == 0)
		return; /* the lease is not ours */
	for (int i = 0; i < group->n; i++)
	{
		if (group->items[i]->status != ITEM_PENDING)
			continue;
		if (queue)
			items[group->items[i]->position] = group->items[i];
		group->items[i]->status = ITEM_LOST; /* until its job is found */
	}
	if (queue == NULL)
		return;
	turn_end_begin(&e, r, queue, lease);
	for (int p = 0; p < lease->njobs; p++)
	{
		TupleTableSlot *job = retire_job(r, snapshot, lease->job_ids[p], &lease->job_tids[p]);
		LeaseItem *item = items[p];

		if (job == NULL)
			continue; /* done before, or deleted by hand */
		turn_saw(&e, job);
		if (over || (lease->drain && done > 0 && item == NULL))
		{
			Attempt attempt = retire_attempt(lease, p);

			over = true;
			turn_return(&e, p, job, &attempt, DT_NOBEGIN);
			if (item)
				item->status = call->verb == FINISH_COMPLETE ? ITEM_OUT_OF_ORDER : ITEM_OK;
			xact_count(queue, COUNT_ACTIVE, -1);
		}
		else if (left == 0 && item)
		{
			item->status = finish_first(call, &e, job, item);
			if (item->status == ITEM_LOST)
				continue;
			over = call->verb != FINISH_COMPLETE;
			done++;
			xact_count(queue, COUNT_ACTIVE, -1);
		}
		else
		{
			left++;
			if (item)
				item->status = ITEM_OUT_OF_ORDER;
		}
	}
	if (over || left == 0)
	{
		group->over = true;
		turn_over(&e);
	}
}

/* Whether a history table has the job as completed with this token. */
static bool
in_history(StoreTable *history, Snapshot snapshot, const LeaseItem *item)
{
	StoreScan scan;
	ScanKeyData key;
	bool isnull;
	bool found = false;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(item->job_id));
	store_scan_begin(&scan, history, INDEX_HISTORY_ID, snapshot, &key, 1);
	while (!found && store_scan_next(&scan))
		found = DatumGetInt64(slot_datum(scan.slot, Anum_history_token, &isnull)) == item->token && !isnull &&
				DatumGetChar(slot_value(scan.slot, Anum_history_state)) == 'c' &&
				lease_item_allowed(item, DatumGetInt32(slot_value(scan.slot, Anum_history_queue_id)));
	store_scan_end(&scan);
	return found;
}

/*
 * Finds out which lost pairs were completed before: by this transaction, by what this server remembers, or by the history that is kept.
 * They become ITEM_ALREADY.
 */
static void
find_completed(LeaseItem *items, int n)
{
	Snapshot snapshot;
	int left = 0;

	for (int i = 0; i < n; i++)
	{
		int32 queue_id;

		if (items[i].status != ITEM_LOST)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (xact_done_here(items[i].job_id, items[i].token) ||
			(shmem_done_known(MyDatabaseId, items[i].job_id, items[i].token, &queue_id) &&
			 lease_item_allowed(&items[i], queue_id)))
			items[i].status = ITEM_ALREADY;
		else
			left++;
	}
	if (left == 0)
		return;
	snapshot = store_snapshot();
	for (int which = TABLE_HISTORY; which < NUM_TABLES && left > 0; which++)
	{
		StoreTable *history = store_open_read(which);

		for (int i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (items[i].status != ITEM_LOST || !in_history(history, snapshot, &items[i]))
				continue;
			items[i].status = ITEM_ALREADY;
			left--;
		}
		store_close(history);
	}
	store_snapshot_done(snapshot);
}

/* Steps 1 to 4 for a list; every item has its status afterwards. */
static void
finish_list(const FinishCall *call, LeaseItem *items, int n)
{
	LeaseList list;
	LeaseItem **order = palloc(Max(n, 1) * sizeof(LeaseItem *));
	Retire r;
	Snapshot snapshot;

	leases_acquire(&list, items, n, call->verb == FINISH_COMPLETE ? LEASE_USE_COMPLETE : LEASE_USE_GIVE_BACK);
	DEBUG_POINT("finish-leased");
	snapshot = store_snapshot();
	retire_begin(&r);
	r.batched = true;
	for (int i = 0; i < n; i++)
		order[i] = &items[i];
	if (n > 1)
		qsort(order, n, sizeof(LeaseItem *), by_job);
	for (int i = 0; i < n; i++)
	{
		LeaseItem *item = order[i];
		TupleTableSlot *job;

		CHECK_FOR_INTERRUPTS();
		if (item->status != ITEM_PENDING || item->group->lease.group_id > 0)
			continue;
		job = retire_job(&r, snapshot, item->job_id, &item->group->lease.job_tids[item->position]);
		item->status = job ? finish_job(call, &r, job, item) : ITEM_LOST;
	}
	for (int i = 0; i < list.ngroups; i++)
		if (list.groups[i].lease.group_id > 0)
			finish_turn(call, &r, snapshot, &list.groups[i]);
	store_snapshot_done(snapshot);
	leases_write_back(&list, r.job);
	if (call->verb == FINISH_COMPLETE)
		find_completed(items, n);
	retire_end(&r);
	leases_close(&list);
	pfree(order);
}

/* One pair. Error JQ001 when the lease is lost. trusted: whoever is the current user. */
static ItemStatus
finish_one(const FinishCall *call, int64 job_id, int64 token, Jsonb *result, bool trusted)
{
	LeaseItem item;

	memset(&item, 0, sizeof(item));
	item.trusted = trusted;
	item.job_id = job_id;
	item.token = token;
	item.result = result;
	finish_list(call, &item, 1);
	if (item.status == ITEM_TOO_LARGE)
		check_json_size(meta_queue_by_id(item.group->lease.queue_id), result, "result");
	if (item.status == ITEM_LOST)
		lease_lost(job_id);
	if (item.status == ITEM_OUT_OF_ORDER)
		ereport(ERROR, (errcode(ERRCODE_JOBQ_OUT_OF_ORDER),
						errmsg("job " INT64_FORMAT " is not the next one of its group", job_id),
						errdetail("A job that was taken before it under the same token is not finished."),
						errhint("Finish the jobs of a group in the order in which dequeue returned them.")));
	return item.status;
}

/* Completes one job inside a verb. True now, false when it was completed before; error JQ001 when the lease is lost. */
bool
finish_complete_one(int64 job_id, int64 token, Jsonb *result, bool trusted)
{
	FinishCall call = {.verb = FINISH_COMPLETE};

	return finish_one(&call, job_id, token, result, trusted) == ITEM_OK;
}

/* Ends an attempt as failed, with the queue's backoff. */
void
finish_fail_one(int64 job_id, int64 token, const text *error)
{
	FinishCall call = {.verb = FINISH_FAIL, .error = error, .retry_in = RETRY_IN_DEFAULT, .retry = true};

	(void) finish_one(&call, job_id, token, NULL, true);
}

/* Gives a job back at once; no attempt is counted. */
void
finish_release_one(int64 job_id, int64 token)
{
	FinishCall call = {.verb = FINISH_RELEASE};

	(void) finish_one(&call, job_id, token, NULL, true);
}

/* A NULL token is nobody's: the verbs answer JQ001, as for any other wrong one. */
static int64
token_arg(FunctionCallInfo fcinfo, int argno)
{
	return PG_ARGISNULL(argno) ? 0 : PG_GETARG_INT64(argno);
}

/*
 * jobq.complete(job_id, token, result): ends a job as done.
 *
 * True; false when it was completed with this token before. Errors: 22004; JQ001; JQ004 result too large; 25006.
 */
Datum
jobq_complete(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("complete", VERB_HOLDS);
	int64 job_id = arg_int64(fcinfo, 0, "job_id");
	bool now;

	xact_verb_begin(db);
	now = finish_complete_one(job_id, token_arg(fcinfo, 1),
							  PG_NARGS() > 2 && !PG_ARGISNULL(2) ? PG_GETARG_JSONB_P(2) : NULL, false);
	xact_verb_end(false);
	PG_RETURN_BOOL(now);
}

static Datum
fail_one(FunctionCallInfo fcinfo, const char *verb, const FinishCall *call)
{
	DbSlot *db = meta_begin(verb, VERB_HOLDS);
	int64 job_id = arg_int64(fcinfo, 0, "job_id");
	ItemStatus status;

	xact_verb_begin(db);
	status = finish_one(call, job_id, token_arg(fcinfo, 1), NULL, false);
	xact_verb_end(false);
	return CStringGetTextDatum(item_status_name(status));
}

/*
 * jobq.fail(job_id, token, error, retry_in, retry): ends an attempt as failed. retry_in NULL: the queue's backoff. retry false: dead at once.
 *
 * 'retry', 'dead', or 'cancelled' when the job was asked to cancel. Errors: 22004; 22023; JQ001; 25006.
 */
Datum
jobq_fail(PG_FUNCTION_ARGS)
{
	FinishCall call = {.verb = FINISH_FAIL};

	call.error = PG_ARGISNULL(2) ? NULL : PG_GETARG_TEXT_PP(2);
	call.retry_in = arg_interval(fcinfo, 3, "retry_in", RETRY_IN_DEFAULT, 0, JOBQ_MAX_DELAY_USECS);
	call.retry = PG_ARGISNULL(4) || PG_GETARG_BOOL(4);
	return fail_one(fcinfo, "fail", &call);
}

/* jobq.nack(job_id, token): a failed attempt that may be taken again at once. As fail() otherwise. */
Datum
jobq_nack(PG_FUNCTION_ARGS)
{
	FinishCall call = {.verb = FINISH_FAIL, .retry_in = 0, .retry = true};

	return fail_one(fcinfo, "nack", &call);
}

/* jobq.release(job_id, token, delay): gives a job back; no attempt is counted. Errors: 22004; 22023; JQ001; 25006. */
Datum
jobq_release(PG_FUNCTION_ARGS)
{
	FinishCall call = {.verb = FINISH_RELEASE};
	DbSlot *db = meta_begin("release", VERB_HOLDS);
	int64 job_id = arg_int64(fcinfo, 0, "job_id");

	call.delay = arg_interval(fcinfo, 2, "delay", 0, 0, JOBQ_MAX_DELAY_USECS);
	xact_verb_begin(db);
	(void) finish_one(&call, job_id, token_arg(fcinfo, 1), NULL, false);
	xact_verb_end(false);
	PG_RETURN_VOID();
}

/* Gives each item its element of a JSON array. */
static void
read_results(Jsonb *results, LeaseItem *items, int n)
{
	JsonbIterator *it;
	JsonbValue v;

	if (!JB_ROOT_IS_ARRAY(results) || JB_ROOT_IS_SCALAR(results) || JB_ROOT_COUNT(results) != n)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("results must be a JSON array with one element per job")));
	it = JsonbIteratorInit(&results->root);
	(void) JsonbIteratorNext(&it, &v, true);
	for (int i = 0; i < n; i++)
	{
		(void) JsonbIteratorNext(&it, &v, true);
		items[i].result = v.type == jbvNull ? NULL : JsonbValueToJsonb(&v);
	}
}

/* Runs a _many verb. results_arg: -1, or the argument with the results. */
static Datum
finish_many(FunctionCallInfo fcinfo, const char *verb, const FinishCall *call, int results_arg)
{
	DbSlot *db = meta_begin(verb, VERB_HOLDS);
	int n;
	LeaseItem *items = lease_items_args(fcinfo, &n);

	if (results_arg >= 0 && !PG_ARGISNULL(results_arg))
		read_results(PG_GETARG_JSONB_P(results_arg), items, n);
	InitMaterializedSRF(fcinfo, 0);
	xact_verb_begin(db);
	finish_list(call, items, n);
	lease_items_result(fcinfo, items, n);
	xact_verb_end(false);
	return (Datum) 0;
}

/*
 * jobq.complete_many(job_ids, tokens, results): complete() for each pair. Returns (job_id, status) in the order given: ok, already, lost,
 * result_too_large (the job stays active).
 *
 * Errors: 22023 arrays of different length; 22004 NULL job id; 25006.
 */
Datum
jobq_complete_many(PG_FUNCTION_ARGS)
{
	FinishCall call = {.verb = FINISH_COMPLETE};

	return finish_many(fcinfo, "complete_many", &call, 2);
}

/* jobq.fail_many(job_ids, tokens, error, retry_in): fail() for each pair: retry, dead, cancelled, lost. */
Datum
jobq_fail_many(PG_FUNCTION_ARGS)
{
	FinishCall call = {.verb = FINISH_FAIL, .retry = true};

	call.error = PG_ARGISNULL(2) ? NULL : PG_GETARG_TEXT_PP(2);
	call.retry_in = arg_interval(fcinfo, 3, "retry_in", RETRY_IN_DEFAULT, 0, JOBQ_MAX_DELAY_USECS);
	return finish_many(fcinfo, "fail_many", &call, -1);
}

/* jobq.release_many(job_ids, tokens, delay): release() for each pair: ok, cancelled, lost. */
Datum
jobq_release_many(PG_FUNCTION_ARGS)
{
	FinishCall call = {.verb = FINISH_RELEASE};

	call.delay = arg_interval(fcinfo, 2, "delay", 0, 0, JOBQ_MAX_DELAY_USECS);
	return finish_many(fcinfo, "release_many", &call, -1);
}
