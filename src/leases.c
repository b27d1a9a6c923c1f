/*-------------------------------------------------------------------------
 *
 * leases.c
 *		(job, token) pairs against the lease rows they name.
 *
 * The rules, each of which closes an interleaving that loses or doubles a
 * job:
 *	- a token is checked under its row's lock, never before;
 *	- leases are locked in the order of tokens, before any job row;
 *	- TM_Updated means that a heartbeat moved the row: look again;
 *	- a lease is deleted, or written back without a job, only under a lock
 *	  that excludes a key-share holder (a deletion or LockTupleExclusive).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "args.h"
#include "debug.h"
#include "grant.h"
#include "leases.h"

/* Pairs in one call: each may name a lease of its own, which is held in memory. */
#define MAX_LEASE_ITEMS 100000

/* The place of a job in a lease, or -1. */
int
lease_position(const Lease *lease, int64 job_id)
{
	for (int i = 0; i < lease->njobs; i++)
		if (lease->job_ids[i] == job_id)
			return i;
	return -1;
}

/* As the _many verbs tell it. */
const char *
item_status_name(ItemStatus status)
{
	switch (status)
	{
		case ITEM_OK:
			return "ok";
		case ITEM_ALREADY:
			return "already";
		case ITEM_CANCEL:
			return "cancel";
		case ITEM_CANCELLED:
			return "cancelled";
		case ITEM_TOO_LARGE:
			return "result_too_large";
		case ITEM_RETRY:
			return "retry";
		case ITEM_DEAD:
			return "dead";
		case ITEM_BLOCKED:
			return "blocked";
		case ITEM_DRAIN:
			return "drain";
		case ITEM_OUT_OF_ORDER:
			return "out_of_order";
		case ITEM_PENDING:
		case ITEM_LOST:
		case NUM_ITEM_STATUS:
			break;
	}
	return "lost";
}

/* Error JQ001 of the single verbs. */
void
lease_lost(int64 job_id)
{
	ereport(ERROR, (errcode(ERRCODE_JOBQ_LEASE_LOST), errmsg("the lease of job " INT64_FORMAT " is lost", job_id),
					errdetail("The token is not that of a current lease of this job."),
					errhint("Stop working on the job: it was given to another worker, ended, or withdrawn.")));
}

/* The pairs of a _many verb: arguments job_ids and tokens. Error 22023 when their lengths differ, 22004 on a NULL job id. */
LeaseItem *
lease_items_args(FunctionCallInfo fcinfo, int *n)
{
	int ntokens;
	int64 *job_ids = arg_bigints(fcinfo, 0, "job_ids", 0, n);
	int64 *tokens = arg_bigints(fcinfo, 1, "tokens", 0, &ntokens);
	LeaseItem *items = palloc0(Max(*n, 1) * sizeof(LeaseItem));

	if (*n > MAX_LEASE_ITEMS)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("job_ids has more than %d elements", MAX_LEASE_ITEMS)));
	if (*n != ntokens)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("job_ids has %d elements but tokens has %d", *n, ntokens)));
	for (int i = 0; i < *n; i++)
	{
		if (job_ids[i] == 0)
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("job_ids must not contain null")));
		items[i].job_id = job_ids[i];
		items[i].token = tokens[i];
	}
	return items;
}

/* Returns (job_id, status) for each pair, in the order given. */
void
lease_items_result(FunctionCallInfo fcinfo, LeaseItem *items, int n)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum status[NUM_ITEM_STATUS];

	for (int i = 0; i < NUM_ITEM_STATUS; i++)
		status[i] = CStringGetTextDatum(item_status_name(i));
	for (int i = 0; i < n; i++)
	{
		Datum values[2] = {Int64GetDatum(items[i].job_id), status[items[i].status]};
		bool nulls[2] = {false, false};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

static int
by_token(const void *a, const void *b)
{
	const LeaseItem *x = *(LeaseItem *const *) a;
	const LeaseItem *y = *(LeaseItem *const *) b;

	if (x->token != y->token)
		return x->token < y->token ? -1 : 1;
	return x->job_id < y->job_id ? -1 : x->job_id > y->job_id;
}

/* Opens the lease table and groups the items by token, lowest first. */
void
leases_group(LeaseList *list, LeaseItem *items, int n)
{
	LeaseItem **order = palloc(n * sizeof(LeaseItem *));

	list->lease = store_open(TABLE_LEASE);
	list->items = items;
	list->nitems = n;
	list->ngroups = 0;
	for (int i = 0; i < n; i++)
		order[i] = &items[i];
	if (n > 1)
		qsort(order, n, sizeof(LeaseItem *), by_token);
	for (int i = 0; i < n; i++)
		list->ngroups += i == 0 || order[i]->token != order[i - 1]->token;
	list->groups = palloc0(Max(list->ngroups, 1) * sizeof(LeaseGroup));
	list->ngroups = 0;
	for (int i = 0; i < n; i++)
	{
		LeaseGroup *group;

		if (i == 0 || order[i]->token != order[i - 1]->token)
		{
			group = &list->groups[list->ngroups++];
			group->items = &order[i];
		}
		group = &list->groups[list->ngroups - 1];
		group->n++;
		order[i]->group = group;
		order[i]->status = ITEM_PENDING;
	}
}

static bool
result_too_large(const Lease *lease, const LeaseItem *item)
{
	QueueInfo *queue = item->result ? meta_queue_by_id(lease->queue_id) : NULL;

	return queue && VARSIZE(item->result) - VARHDRSZ > queue->max_payload_bytes;
}

/* Whether the current user may finish jobs of the queue. Who may not is told what he would be of a token that was never given out. */
bool
lease_item_allowed(const LeaseItem *item, int32 queue_id)
{
	return item->trusted || grant_has_id(queue_id, RIGHT_CONSUME);
}

/* Gives each item of a group its place; one that the lease does not list, or lists under another item already, is lost. */
static void
place_items(LeaseGroup *group, bool found)
{
	for (int i = 0; i < group->n; i++)
	{
		LeaseItem *item = group->items[i];

		item->status = ITEM_LOST;
		if (!found || (i > 0 && group->items[i - 1]->job_id == item->job_id) ||
			!lease_item_allowed(item, group->lease.queue_id))
			continue;
		item->position = lease_position(&group->lease, item->job_id);
		if (item->position >= 0)
			item->status = result_too_large(&group->lease, item) ? ITEM_TOO_LARGE : ITEM_PENDING;
	}
}

/* How many items of a lease are in our hands. */
int
pending_items(const LeaseGroup *group)
{
	int n = 0;

	for (int i = 0; i < group->n; i++)
		n += group->items[i]->status == ITEM_PENDING;
	return n;
}

/* Looks one lease up and takes it for the verb. */
static void
acquire_group(LeaseList *list, LeaseGroup *group, LeaseUse use)
{
	for (;;)
	{
		Snapshot snapshot = store_snapshot();
		bool found = store_lease_find(list->lease, snapshot, group->items[0]->token, &group->lease);
		TM_Result result;

		store_snapshot_done(snapshot);
		place_items(group, found);
		if (!found || pending_items(group) == 0)
			return;
		DEBUG_POINT("lease-found");
		if (use != LEASE_USE_HOLD && pending_items(group) == group->lease.njobs)
		{
			result = store_delete(list->lease, &group->lease.tid, true);
			group->deleted = result == TM_Ok;
		}
		else
		{
			/* a group's lease is shared by nobody but those who only hold it: who ends a job of it decides over the rest */
			bool exclusive = use == LEASE_USE_GIVE_BACK || (use != LEASE_USE_HOLD && group->lease.group_id > 0);

			result = store_lease_lock(list->lease, &group->lease, exclusive ? LEASE_EXCLUSIVE : LEASE_KEY_SHARE, true);
			if (result == TM_Ok)
				place_items(group, true); /* as the locked row has it */
		}
		if (result == TM_Ok)
			return;
		if (result != TM_Updated)
		{
			place_items(group, false);
			return;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/* Takes every lease that the items name. Afterwards each item is pending, or lost. The caller then takes a new snapshot. */
void
leases_acquire(LeaseList *list, LeaseItem *items, int n, LeaseUse use)
{
	leases_group(list, items, n);
	for (int i = 0; i < list->ngroups; i++)
	{
		CHECK_FOR_INTERRUPTS();
		acquire_group(list, &list->groups[i], use);
	}
}

/* Whether any job of the lease is still there, but for those this call dealt with; the last ones go last, so look there first. */
static bool
jobs_left(StoreTable *job, const Lease *lease, uint64 gone)
{
	Snapshot snapshot = store_snapshot();
	TupleTableSlot *slot = store_read_slot(job);
	bool left = false;

	for (int i = lease->njobs - 1; i >= 0 && !left; i--)
	{
		ItemPointerData hint = lease->job_tids[i];

		if ((gone & (UINT64CONST(1) << i)) == 0)
			left = store_job_fetch(job, snapshot, lease->job_ids[i], &hint, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	store_snapshot_done(snapshot);
	return left;
}

/* A lease some of whose jobs were completed: it goes with the last of them. */
static void
end_if_empty(LeaseList *list, LeaseGroup *group, StoreTable *job, uint64 gone)
{
	if (jobs_left(job, &group->lease, gone))
		return;
	/* from key-share to exclusive without waiting: a sibling at work leaves the row to its expiry */
	if (store_lease_lock(list->lease, &group->lease, LEASE_EXCLUSIVE, false) == TM_Ok &&
		!jobs_left(job, &group->lease, gone))
		(void) store_delete(list->lease, &group->lease.tid, true);
}

/* Removes jobs from a lease that we hold exclusively. */
static void
shrink(LeaseList *list, LeaseGroup *group, StoreTable *job, uint64 gone)
{
	Lease *lease = &group->lease;
	uint64 cancel = 0;
	int kept = 0;

	for (int i = 0; i < lease->njobs; i++)
	{
		if (gone & (UINT64CONST(1) << i))
			continue;
		if (lease->cancel & (UINT64CONST(1) << i))
			cancel |= UINT64CONST(1) << kept;
		lease->job_ids[kept] = lease->job_ids[i];
		lease->job_tids[kept] = lease->job_tids[i];
		lease->attempts[kept] = lease->attempts[i];
		kept++;
	}
	lease->njobs = kept;
	lease->cancel = cancel;
	/* what is left may all have been completed before */
	if (kept == 0 || !jobs_left(job, lease, 0))
		(void) store_delete(list->lease, &lease->tid, true);
	else
		(void) store_lease_update(list->lease, lease);
}

/*
 * Brings the lease rows into line with what became of their items. Given-back jobs leave the row at once; completed ones are left in it,
 * since their deleted job rows tell the same, until the last is done. The caller has made its deletions of job rows visible to itself.
 */
void
leases_write_back(LeaseList *list, StoreTable *job)
{
	for (int i = 0; i < list->ngroups; i++)
	{
		LeaseGroup *group = &list->groups[i];
		uint64 gone = 0;
		bool given_back = false;

		if (group->deleted)
			continue;
		if (group->lease.group_id > 0)
		{
			if (group->over && store_delete(list->lease, &group->lease.tid, true) != TM_Ok)
				elog(ERROR, "lease " INT64_FORMAT " changed although it is locked", group->lease.token);
			continue;
		}
		for (int j = 0; j < group->n; j++)
		{
			LeaseItem *item = group->items[j];

			if (item->status == ITEM_LOST || item->status == ITEM_PENDING || item->status == ITEM_TOO_LARGE)
				continue;
			gone |= UINT64CONST(1) << item->position;
			given_back |= item->returned;
		}
		if (gone == 0)
			continue;
		if (given_back)
			shrink(list, group, job, gone);
		else
			end_if_empty(list, group, job, gone);
	}
}

void
leases_close(LeaseList *list)
{
	store_close(list->lease);
}
