/*-------------------------------------------------------------------------
 *
 * redrive.c
 *		redrive: dead letters go back to work.
 *
 * One row after the other: who deletes a dead letter's row makes the job, so
 * two sessions that redrive the same rows share them, and what another
 * session has in hand is passed over. A call does at most max_jobs of the
 * oldest and can be repeated until it answers 0.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "admin.h"
#include "args.h"
#include "depend.h"
#include "event.h"
#include "grant.h"
#include "meta.h"
#include "redrive.h"
#include "retire.h"
#include "store.h"
#include "turn.h"
#include "unique.h"
#include "xact.h"

typedef struct Redrive
{
	QueueInfo *from;
	QueueInfo *to;
	StoreTable *dead;
	Retire retire;
	MemoryContext row; /* reset after each */
	int64 count;
	int64 limit;
	int64 holder; /* job that has the unique key of the last one that was left for it */
	UniqueWork unique;
	TupleTableSlot *locked;
	Snapshot snapshot;
	const HeldRow *held; /* ticket of the group that the dead letter blocks, which we took; NULL: not said */
} Redrive;

/* A member of a JSON object, or NULL */
static JsonbValue *
member(JsonbContainer *object, const char *key)
{
	return getKeyJsonValueFromContainer(object, key, strlen(key), NULL);
}

/*
 * One failed attempt, as it stands in a dead letter, becomes a row of jobq.failure again. Attempts count anew, so the job's earlier ones
 * are moved below 1: the last of them is 0. What is not of that form is left out.
 */
static void
restore_failure(const Origin *origin, JsonbValue *failure)
{
	JsonbContainer *object;
	JsonbValue *attempt;
	JsonbValue *at;
	JsonbValue *error;
	char *when;
	text *message = NULL;

	if (failure->type != jbvBinary || !JsonContainerIsObject(failure->val.binary.data))
		return;
	object = failure->val.binary.data;
	attempt = member(object, "attempt");
	at = member(object, "at");
	error = member(object, "error");
	if (attempt == NULL || attempt->type != jbvNumeric || at == NULL || at->type != jbvString)
		return;
	if (error && error->type == jbvString)
		message = cstring_to_text_with_len(error->val.string.val, error->val.string.len);
	when = pnstrdup(at->val.string.val, at->val.string.len);
	store_failure_insert(origin->job_id,
						 DatumGetInt32(DirectFunctionCall1(numeric_int4, NumericGetDatum(attempt->val.numeric))) -
							 origin->attempts,
						 DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in, CStringGetDatum(when),
																 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1))),
						 message);
}

/* Gives a job its failed attempts back. */
static void
restore_failures(const Origin *origin, TupleTableSlot *dead)
{
	bool isnull;
	Datum datum = slot_datum(dead, Anum_dead_failures, &isnull);
	Jsonb *failures;

	if (isnull)
		return;
	failures = DatumGetJsonbP(datum);
	if (!JB_ROOT_IS_ARRAY(failures))
		return;
	for (uint32 i = 0; i < JB_ROOT_COUNT(failures); i++)
		restore_failure(origin, getIthJsonbValueFromContainer(&failures->root, i));
}

static void
copy_column(TupleTableSlot *to, int to_att, TupleTableSlot *from, int from_att)
{
	to->tts_values[to_att - 1] = from->tts_values[from_att - 1];
	to->tts_isnull[to_att - 1] = from->tts_isnull[from_att - 1];
}

/* The row of the job that a dead letter becomes, its attempts uncounted. The slot returned is good until the next one. */
static TupleTableSlot *
revive(Redrive *r, TupleTableSlot *dead, Origin *origin)
{
	TupleTableSlot *job = store_slot(r->retire.job, 0);
	bool isnull;
	Datum headers;

	slot_getallattrs(dead);
	copy_column(job, Anum_job_id, dead, Anum_dead_id);
	copy_column(job, Anum_job_created, dead, Anum_dead_created);
	slot_set(job, Anum_job_queue_id, Int32GetDatum(r->to->id));
	copy_column(job, Anum_job_max_attempts, dead, Anum_dead_max_attempts);
	copy_column(job, Anum_job_priority, dead, Anum_dead_priority);
	copy_column(job, Anum_job_timeout, dead, Anum_dead_timeout);
	copy_column(job, Anum_job_name, dead, Anum_dead_name);
	copy_column(job, Anum_job_group_key, dead, Anum_dead_group_key);
	copy_column(job, Anum_job_unique_key, dead, Anum_dead_unique_key);
	(void) slot_datum(dead, Anum_dead_unique_started, &isnull);
	if (!isnull)
		slot_set(job, Anum_job_unique_started, BoolGetDatum(false));
	copy_column(job, Anum_job_payload, dead, Anum_dead_payload);

	origin->queue = r->from->name;
	origin->job_id = DatumGetInt64(slot_value(dead, Anum_dead_id));
	origin->attempts = DatumGetInt32(slot_value(dead, Anum_dead_attempt));
	origin->reason = TextDatumGetCString(slot_value(dead, Anum_dead_reason));
	origin->error = NULL; /* it is among the failures */
	origin->died = DatumGetTimestampTz(slot_value(dead, Anum_dead_died));
	headers = slot_datum(dead, Anum_dead_headers, &isnull);
	slot_set(job, Anum_job_headers, retire_origin_headers(headers, isnull, origin));
	ExecStoreVirtualTuple(job);
	return job;
}

/* A dead letter that blocks its group stands at the group's head again, and the group goes on with it. */
static bool
back_to_its_place(Redrive *r, TupleTableSlot *job)
{
	bool isnull;
	Datum key = slot_datum(job, Anum_job_group_key, &isnull);
	int64 id = DatumGetInt64(slot_value(job, Anum_job_id));
	HeldRow held = {0};
	LineRow row = {0};

	if (isnull)
		return false;
	if (r->held)
		held = *r->held;
	else if (!turn_unblock(r->from, DatumGetTextPP(key), id, &held))
		return false;
	if (r->from != r->to)
		return false; /* it starts anew in another queue, and its group goes on without it */
	row.group_id = held.group_id;
	row.ord = held.dead_ord;
	row.job_id = id;
	row.attempt = 0;
	row.priority = DatumGetInt16(slot_value(job, Anum_job_priority));
	row.job_tid = job->tts_tid;
	line_put_back(r->to, DatumGetTextPP(key), &row);
	return true;
}

/* Inserts the row of a job that has a unique key. False: another job has it, or is about to. */
static bool
insert_unique(Redrive *r, TupleTableSlot *job)
{
	bool isnull;
	Datum key = slot_datum(job, Anum_job_unique_key, &isnull);
	int64 id = DatumGetInt64(slot_value(job, Anum_job_id));
	bool inserted = false;

	while (!inserted && unique_is_free(&r->unique, DatumGetTextPP(key), id, &r->holder))
		inserted = unique_insert(&r->unique, r->retire.job, job);
	unique_rest(&r->unique);
	return inserted;
}

/* Makes the dead letter in a scan's slot a job, if it is to be had. NULL: another session has it in hand, or another job its unique key. */
static TupleTableSlot *
take_dead(Redrive *r, TupleTableSlot *dead)
{
	bool plain;
	TupleTableSlot *job;
	Origin origin;

	(void) slot_datum(dead, Anum_dead_unique_key, &plain);
	if (plain && store_delete(r->dead, &dead->tts_tid, false) != TM_Ok)
		return NULL;
	/* where it may have to stay, it is only locked first */
	if (!plain && store_lock(r->dead, &dead->tts_tid, r->snapshot, r->locked, LockTupleExclusive, false) != TM_Ok)
		return NULL;
	job = revive(r, dead, &origin);
	if (plain)
		store_insert(r->retire.job, &job, 1);
	else if (!insert_unique(r, job) || store_delete(r->dead, &dead->tts_tid, true) != TM_Ok)
		return NULL;
	restore_failures(&origin, dead);
	return job;
}

/* Redrives the dead letter in a scan's slot, if it is to be had. */
static void
redrive_row(Redrive *r, TupleTableSlot *dead)
{
	MemoryContext caller;
	TupleTableSlot *job;

	CHECK_FOR_INTERRUPTS();
	if (DatumGetInt32(slot_value(dead, Anum_dead_queue_id)) != r->from->id)
		return;
	caller = MemoryContextSwitchTo(r->row);
	job = take_dead(r, dead);
	MemoryContextSwitchTo(caller);
	if (job == NULL)
	{
		MemoryContextReset(r->row);
		return;
	}
	event_job(r->to, EVENT_WAITING, job, 0, EVENT_NO_DELAY, NULL);
	if (!back_to_its_place(r, job))
		retire_requeue(&r->retire, r->to, job, 0, r->retire.now);
	MemoryContextReset(r->row);
	r->count++;
}

/* Redrives the oldest dead letters of the queue. */
static void
redrive_oldest(Redrive *r, Snapshot snapshot)
{
	ScanKeyData key;
	StoreScan scan;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(r->from->id));
	store_scan_begin(&scan, r->dead, INDEX_DEAD_QUEUE, snapshot, &key, 1);
	while (r->count < r->limit && store_scan_next(&scan))
		redrive_row(r, scan.slot);
	store_scan_end(&scan);
}

/* Redrives those of the given ids that are dead letters of the queue. */
static void
redrive_ids(Redrive *r, Snapshot snapshot, int64 *ids, int n)
{
	for (int i = 0; i < n && r->count < r->limit; i++)
	{
		ScanKeyData key;
		StoreScan scan;

		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(ids[i]));
		store_scan_begin(&scan, r->dead, INDEX_DEAD_PKEY, snapshot, &key, 1);
		if (store_scan_next(&scan))
			redrive_row(r, scan.slot);
		store_scan_end(&scan);
	}
}

static void
redrive_begin(Redrive *r, QueueInfo *from, QueueInfo *to, int64 limit, const HeldRow *held)
{
	memset(r, 0, sizeof(*r));
	r->from = from;
	r->to = to;
	/* jobs may wait for those that come there */
	if (to != from)
		depend_watch(to, false);
	r->limit = limit;
	r->dead = store_open(TABLE_DEAD);
	r->locked = store_read_slot(r->dead);
	retire_begin(&r->retire);
	(void) store_slot(r->retire.job, 0); /* made here, not in the rows' context */
	/* keys come in any order here, so that to wait could be a deadlock; but one alone may */
	unique_begin(&r->unique, to, r->retire.job, held != NULL);
	r->held = held;
	r->row = AllocSetContextCreate(CurrentMemoryContext, "jobq redrive", ALLOCSET_DEFAULT_SIZES);
}

static void
redrive_end(Redrive *r)
{
	xact_count(r->from, COUNT_DEAD, -r->count);
	unique_end(&r->unique);
	retire_end(&r->retire);
	ExecDropSingleTupleTableSlot(r->locked);
	store_close(r->dead);
	MemoryContextDelete(r->row);
}

/*
 * Redrives the dead letter that blocks a group, whose ticket the caller has taken out of held. False: *holder has its unique key, or, if
 * that is 0, it is not there or in another session's hands.
 */
bool
redrive_held(QueueInfo *queue, const HeldRow *held, int64 *holder)
{
	int64 id = held->dead_job;
	Snapshot snapshot;
	Redrive r;

	redrive_begin(&r, queue, queue, 1, held);
	snapshot = r.snapshot = store_snapshot();
	redrive_ids(&r, snapshot, &id, 1);
	store_snapshot_done(snapshot);
	redrive_end(&r);
	*holder = r.holder;
	return r.count > 0;
}

/*
 * redrive(queue, job_ids, max_jobs, to_queue) -> how many dead letters became jobs again: same id, ready at once, attempts counted
 * anew, their origin in the headers, their failures kept. job_ids null: the oldest ones. Passes over what another session has
 * in hand, and those whose unique key another job has: they stay dead letters. A time to live is not counted anew. Errors: 42704 unknown queue; 22023 max_jobs out of range.
 */
PG_FUNCTION_INFO_V1(jobq_redrive);
Datum
jobq_redrive(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("redrive", VERB_WRITES);
	int n = 0;
	int64 *ids = arg_id_set(fcinfo, 1, "job_ids", &n);
	QueueInfo *from;
	QueueInfo *to;
	Snapshot snapshot;
	Redrive r;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("queue must not be null")));
	if (PG_ARGISNULL(2) || PG_GETARG_INT32(2) < 1 || PG_GETARG_INT32(2) > JOBQ_MAX_MANY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("max_jobs must be between 1 and %d", JOBQ_MAX_MANY)));

	from = grant_queue_arg(fcinfo, 0, RIGHT_MANAGE);
	to = PG_ARGISNULL(3) ? from : grant_queue_arg(fcinfo, 3, RIGHT_ENQUEUE | RIGHT_MANAGE);

	xact_verb_begin(db);
	/* no drop of the queue that gets the jobs until they are committed */
	xact_lock_queue(to->id, ShareLock);
	if (meta_queue_by_id(to->id) == NULL)
		admin_no_such_queue(PG_GETARG_TEXT_PP(PG_ARGISNULL(3) ? 0 : 3));
	redrive_begin(&r, from, to, PG_GETARG_INT32(2), NULL);
	snapshot = r.snapshot = store_snapshot();
	if (PG_ARGISNULL(1))
		redrive_oldest(&r, snapshot);
	else
		redrive_ids(&r, snapshot, ids, n);
	store_snapshot_done(snapshot);
	redrive_end(&r);
	xact_verb_end(false);
	PG_RETURN_INT64(r.count);
}
