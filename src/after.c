/*-------------------------------------------------------------------------
 *
 * after.c
 *		Jobs that wait for others: enqueue's arguments after, after_dead and
 *		batch; jobq.close_batch().
 *
 * What is found out here about jobs of other transactions may change until
 * the commit: it is noted, and looked at again there (letgo.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "after.h"
#include "args.h"
#include "depend.h"
#include "grant.h"
#include "ident.h"
#include "store.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_close_batch);

/* Looking for jobs. */
typedef struct Look
{
	Snapshot snapshot;
	StoreTable *job;
	StoreTable *delayed;
	StoreTable *dependency;
	TupleTableSlot *slot; /* of job */
} Look;

static void
look_begin(Look *look)
{
	look->snapshot = store_snapshot();
	look->job = store_open(TABLE_JOB);
	look->delayed = store_open(TABLE_DELAYED);
	look->dependency = store_open(TABLE_DEPENDENCY);
	look->slot = store_read_slot(look->job);
}

static void
look_end(Look *look)
{
	ExecDropSingleTupleTableSlot(look->slot);
	store_close(look->dependency);
	store_close(look->delayed);
	store_close(look->job);
	store_snapshot_done(look->snapshot);
}

static char
policy_arg(FunctionCallInfo fcinfo, int argno)
{
	char *value;

	if (PG_ARGISNULL(argno))
		return 'w';
	value = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	if (strcmp(value, "wait") != 0 && strcmp(value, "cancel") != 0 && strcmp(value, "run") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid after_dead \"%s\"", value),
						errhint("Use wait, cancel or run.")));
	return value[0];
}

/* Error where the current user has no right at all on a job's queue. */
static QueueInfo *
check_right(int64 id, int32 queue_id)
{
	if (!grant_has_id(queue_id, RIGHTS_SEE))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied for job " INT64_FORMAT, id),
						errhint("A job can wait for jobs of queues on which its creator has a right.")));
	return meta_queue_by_id(queue_id);
}

/* Whether a job is to be waited for; *own, *live_in: see After. Its queue's jobs are watched from then on. */
static bool
is_unfinished(Look *look, int64 id, bool *own, int32 *live_in)
{
	QueueInfo *queue;
	int32 queue_id;
	bool isnull;
	char how;

	*own = false;
	*live_in = 0;
	if (store_job_fetch(look->job, look->snapshot, id, NULL, look->slot))
	{
		queue = check_right(id, DatumGetInt32(slot_value(look->slot, Anum_job_queue_id)));
		*own = TransactionIdIsCurrentTransactionId(
			DatumGetTransactionId(slot_getsysattr(look->slot, MinTransactionIdAttributeNumber, &isnull)));
		depend_watch(queue, !*own);
		*live_in = queue->id;
		return true;
	}
	how = store_how_ended(id, look->snapshot, &queue_id);
	if (how == 0 && !ident_job_was_drawn(meta_db(), id))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there was never a job " INT64_FORMAT, id),
						errhint("Pass ids that jobq.enqueue() returned, of jobs that were not rolled back.")));
	if (how != 0)
	{
		queue = check_right(id, queue_id);
		/* a dead one may be redriven */
		if (queue && how == ENDED_DEAD)
			depend_watch(queue, true);
	}
	/* one that is no longer known is done */
	return how != 0 && how != ENDED_COMPLETED;
}

static void
read_after(FunctionCallInfo fcinfo, int argno, Look *look, After *a)
{
	int given;
	int64 *ids = arg_id_set(fcinfo, argno, "after", &given);

	a->on_jobs = MemoryContextAllocHuge(CurrentMemoryContext, Max(given, 1) * sizeof(int64));
	a->own = palloc(Max(given, 1) * sizeof(bool));
	a->queues = palloc(Max(given, 1) * sizeof(int32));
	for (int i = 0; i < given; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_unfinished(look, ids[i], &a->own[a->n], &a->queues[a->n]))
			a->on_jobs[a->n++] = ids[i];
	}
}

/* Whether a job waits for others now. */
static bool
is_pending(Look *look, int64 id, int32 queue_id)
{
	Ticket ticket;

	return store_ticket_find(TABLE_DELAYED, look->delayed, look->snapshot, id, queue_id, 0, &ticket) &&
		   TIMESTAMP_IS_NOEND(ticket.visible_at);
}

/*
 * The queue of a batch. Error 42704 when there is none of that id, it is a job that never waited for others, or the current user may not
 * enqueue to its queue.
 */
static int32
batch_queue(Look *look, int64 id)
{
	int32 queue_id = 0;
	bool no_batch;

	if (store_job_fetch(look->job, look->snapshot, id, NULL, look->slot))
	{
		(void) slot_datum(look->slot, Anum_job_after_dead, &no_batch);
		if (!no_batch)
			queue_id = DatumGetInt32(slot_value(look->slot, Anum_job_queue_id));
	}
	else
		(void) store_how_ended(id, look->snapshot, &queue_id);
	if (queue_id == 0 || !grant_has_id(queue_id, RIGHT_ENQUEUE))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("batch " INT64_FORMAT " does not exist", id),
						errhint("Pass the id that jobq.open_batch() returned.")));
	return queue_id;
}

static void
read_batch(FunctionCallInfo fcinfo, int argno, Look *look, After *a)
{
	if (PG_ARGISNULL(argno))
		return;
	a->batch = PG_GETARG_INT64(argno);
	if (!is_pending(look, a->batch, batch_queue(look, a->batch)))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("batch " INT64_FORMAT " does not wait for members any more", a->batch),
						errhint("Add members before jobq.close_batch(), or from a member that has not ended yet.")));
}

/*
 * Error when the batch that the new jobs belong to is among what they wait for, directly or by others. (Two transactions that each close
 * one half of a ring are not seen: its jobs stay pending, and explain_job() tells.)
 */
static void
refuse_ring(Look *look, const After *a)
{
	HASHCTL ctl = {.keysize = sizeof(int64), .entrysize = sizeof(int64), .hcxt = CurrentMemoryContext};
	HTAB *seen = hash_create("jobq dependencies", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	List *todo = NIL;

	for (int i = 0; i < a->n; i++)
		todo = lappend(todo, &a->on_jobs[i]);
	while (todo != NIL)
	{
		int64 id = *(int64 *) llast(todo);
		StoreScan scan;

		CHECK_FOR_INTERRUPTS();
		todo = list_delete_last(todo);
		if (id == a->batch)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("a member of batch " INT64_FORMAT " cannot wait for the batch itself", a->batch)));
		store_dependencies_of(&scan, look->dependency, look->snapshot, id);
		while (store_scan_next(&scan))
		{
			Dependency row;
			bool found;
			int64 *entry;

			store_dependency_read(scan.slot, &row);
			entry = hash_search(seen, &row.on_job, HASH_ENTER, &found);
			if (!found && dependency_holds(&row))
				todo = lappend(todo, entry);
		}
		store_scan_end(&scan);
	}
	hash_destroy(seen);
}

void
after_read(FunctionCallInfo fcinfo, int argno, bool opens, After *a)
{
	Look look;

	memset(a, 0, sizeof(*a));
	a->opens = a->waits = a->given = opens;
	a->policy = policy_arg(fcinfo, argno + 1);
	if (PG_ARGISNULL(argno) && PG_ARGISNULL(argno + 2))
		return;
	look_begin(&look);
	read_after(fcinfo, argno, &look, a);
	read_batch(fcinfo, argno + 2, &look, a);
	if (a->batch != 0 && a->n > 0)
		refuse_ring(&look, a);
	look_end(&look);
	a->waits = opens || a->n > 0;
	a->given = true;
}

/* Rows to be written together. */
typedef struct Rows
{
	StoreTable *dependency;
	int n;
} Rows;

static void
flush_rows(Rows *rows)
{
	if (rows->n > 0)
		store_insert(rows->dependency, rows->dependency->slots, rows->n);
	rows->n = 0;
}

static void
add_row(Rows *rows, int64 job_id, int64 on_job)
{
	store_dependency_fill(store_slot(rows->dependency, rows->n++), job_id, on_job, 0);
	if (rows->n == STORE_BATCH)
		flush_rows(rows);
}

void
after_attach(const After *a, QueueInfo *queue, const int64 *ids, int n)
{
	Rows rows = {NULL};

	if (n == 0 || (!a->waits && a->batch == 0))
		return;
	if ((int64) n * a->n > JOBQ_MAX_MANY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%d jobs cannot wait for %d others each", n, a->n),
				 errhint("Let them wait for one job, which waits for the others.")));
	rows.dependency = store_open(TABLE_DEPENDENCY);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int k = 0; k < a->n; k++)
		{
			add_row(&rows, ids[i], a->on_jobs[k]);
			if (!a->own[k])
				depend_unsure(ids[i], a->on_jobs[k], a->queues[k]);
		}
		if (a->opens)
			add_row(&rows, ids[i], ids[i]);
		if (a->batch != 0)
			add_row(&rows, a->batch, ids[i]);
	}
	flush_rows(&rows);
	store_close(rows.dependency);
	if (a->batch != 0)
	{
		depend_watch(queue, false);
		depend_note(DEPEND_MEMBER, a->batch, ids[0]);
	}
}

/* Whether a batch is open, and is not closed by this very transaction. */
static bool
is_open(Look *look, int64 batch)
{
	StoreScan scan;
	bool open = false;

	for (int i = 0; i < depend_notes.n; i++)
		if (DEPEND_NOTE(i)->kind == DEPEND_CLOSE && DEPEND_NOTE(i)->job == batch)
			return false;
	store_dependencies_of(&scan, look->dependency, look->snapshot, batch);
	while (!open && store_scan_next(&scan))
	{
		Dependency row;

		CHECK_FOR_INTERRUPTS();
		store_dependency_read(scan.slot, &row);
		open = row.on_job == batch;
	}
	store_scan_end(&scan);
	return open;
}

/*
 * close_batch(batch): no members come any more but from members. True; false when it was closed before, or is over.
 *
 * Errors: 22004; 42704 no such batch, or no right to enqueue to its queue; 25006.
 */
Datum
jobq_close_batch(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("close_batch", VERB_WRITES);
	int64 batch = arg_int64(fcinfo, 0, "batch");
	bool open;
	Look look;

	xact_verb_begin(db);
	look_begin(&look);
	(void) batch_queue(&look, batch);
	open = is_open(&look, batch);
	look_end(&look);
	if (open)
		depend_note(DEPEND_CLOSE, batch, 0);
	xact_verb_end(false);
	PG_RETURN_BOOL(open);
}
