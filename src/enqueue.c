/*-------------------------------------------------------------------------
 *
 * enqueue.c
 *		jobq.enqueue() and jobq.enqueue_many().
 *
 * A job's row and its ticket are written together; neither waits for
 * anybody. A job of a group joins its line at commit (line.c). Where the payload limits forbid a job, enqueue() raises an error
 * and enqueue_many() answers for that row alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "args.h"
#include "ident.h"
#include "line.h"
#include "store.h"
#include "timeutil.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_enqueue);
PG_FUNCTION_INFO_V1(jobq_enqueue_many);

/* Both functions have their arguments in the same places. */
enum
{
	ARG_QUEUE,
	ARG_PAYLOAD,
	ARG_NAME,
	ARG_PRIORITY,
	ARG_DELAY,
	ARG_RUN_AT,
	ARG_GROUP_KEY,
	ARG_UNIQUE_KEY,
	ARG_MAX_ATTEMPTS,
	ARG_TIMEOUT,
	ARG_EXPIRES_IN,
	ARG_HEADERS,
	ARG_ON_CONFLICT
};

/* What the jobs of one call have in common. */
typedef struct JobTemplate
{
	DbSlot *db;
	QueueInfo *queue;
	TimestampTz now;
	TimestampTz visible_at; /* not after now: ready at once */
	int16 priority;
	int32 max_attempts;
	text *name;
	Interval *timeout;
} JobTemplate;

static TimestampTz
start_time(FunctionCallInfo fcinfo, TimestampTz now)
{
	TimestampTz run_at;

	if (!PG_ARGISNULL(ARG_DELAY) && !PG_ARGISNULL(ARG_RUN_AT))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("delay and run_at cannot both be given"),
						errhint("Give the start as one of them.")));
	if (!PG_ARGISNULL(ARG_DELAY))
		return timestamp_add(now, arg_interval(fcinfo, ARG_DELAY, "delay", 0, 0, JOBQ_MAX_DELAY_USECS));
	if (PG_ARGISNULL(ARG_RUN_AT))
		return now;
	run_at = PG_GETARG_TIMESTAMPTZ(ARG_RUN_AT);
	if (TIMESTAMP_NOT_FINITE(run_at))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("run_at must be finite")));
	if (run_at > timestamp_add(now, JOBQ_MAX_DELAY_USECS))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("run_at is too far in the future"),
						errdetail("The longest delay allowed is " INT64_FORMAT " days.",
								  JOBQ_MAX_DELAY_USECS / USECS_PER_DAY)));
	return run_at;
}

static void
check_on_conflict(FunctionCallInfo fcinfo)
{
	char *value;

	if (PG_ARGISNULL(ARG_ON_CONFLICT))
		return;
	value = text_to_cstring(PG_GETARG_TEXT_PP(ARG_ON_CONFLICT));
	if (strcmp(value, "keep") == 0)
		return;
	if (strcmp(value, "replace") == 0 || strcmp(value, "error") == 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("on_conflict \"%s\" is not supported by this version of jobq", value)));
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid on_conflict \"%s\"", value),
					errhint("Use keep, replace or error.")));
}

/* Checks what the two functions have in common. */
static void
read_template(FunctionCallInfo fcinfo, const char *verb, JobTemplate *t)
{
	t->db = meta_begin(verb, VERB_WRITES);
	t->queue = meta_queue_arg(fcinfo, ARG_QUEUE);
	t->now = clock_now();
	t->visible_at = start_time(fcinfo, t->now);
	t->name = arg_text(fcinfo, ARG_NAME, "name", JOBQ_MAX_NAME);
	t->priority = arg_int32_range(fcinfo, ARG_PRIORITY, "priority", JOBQ_DEFAULT_PRIORITY, PG_INT16_MIN, PG_INT16_MAX);
	t->max_attempts =
		arg_int32_range(fcinfo, ARG_MAX_ATTEMPTS, "max_attempts", t->queue->max_attempts, 1, JOBQ_MAX_ATTEMPTS);
	(void) arg_interval(fcinfo, ARG_TIMEOUT, "timeout", 0, 1000, JOBQ_MAX_DELAY_USECS);
	t->timeout = PG_ARGISNULL(ARG_TIMEOUT) ? NULL : PG_GETARG_INTERVAL_P(ARG_TIMEOUT);
	arg_not_supported(fcinfo, ARG_EXPIRES_IN, "expires_in");
	check_on_conflict(fcinfo);
}

/* What differs from job to job. */
typedef struct JobInput
{
	Jsonb *payload;
	Jsonb *headers;  /* NULL: none */
	text *group_key; /* NULL: no group */
} JobInput;

/* Fills an empty slot of the job table. */
static void
fill_job(TupleTableSlot *slot, const JobTemplate *t, int64 id, const JobInput *input)
{
	slot_set(slot, Anum_job_id, Int64GetDatum(id));
	slot_set(slot, Anum_job_created, TimestampTzGetDatum(t->now));
	slot_set(slot, Anum_job_queue_id, Int32GetDatum(t->queue->id));
	slot_set(slot, Anum_job_max_attempts, Int32GetDatum(t->max_attempts));
	slot_set(slot, Anum_job_priority, Int16GetDatum(t->priority));
	if (t->timeout)
		slot_set(slot, Anum_job_timeout, IntervalPGetDatum(t->timeout));
	if (t->name)
		slot_set(slot, Anum_job_name, PointerGetDatum(t->name));
	if (input->group_key)
		slot_set(slot, Anum_job_group_key, PointerGetDatum(input->group_key));
	slot_set(slot, Anum_job_payload, JsonbPGetDatum(input->payload));
	if (input->headers)
		slot_set(slot, Anum_job_headers, JsonbPGetDatum(input->headers));
}

/*
 * Writes up to STORE_BATCH jobs; ids receives the new ids. A job of a group gets no ticket: it joins the group's line at commit, or has a
 * delayed one until then.
 */
static void
insert_jobs(const JobTemplate *t, StoreTable *job, StoreTable *place, const JobInput *inputs, int64 *ids, int n)
{
	bool delayed = place->which == TABLE_DELAYED;
	Ticket tickets[STORE_BATCH];
	TupleTableSlot *slots[STORE_BATCH];
	int placed = 0;
	int64 lo = 0;
	int64 hi = 0;

	ident_job_ids(t->db, ids, n);
	for (int i = 0; i < n; i++)
		fill_job(store_slot(job, i), t, ids[i], &inputs[i]);
	store_insert(job, job->slots, n);
	for (int i = 0; i < n; i++)
	{
		Ticket *ticket = &tickets[placed];

		if (inputs[i].group_key && !delayed)
		{
			LineRow row = {.job_id = ids[i], .priority = t->priority, .job_tid = job->slots[i]->tts_tid};

			line_join(t->queue, inputs[i].group_key, &row);
			continue;
		}
		memset(ticket, 0, sizeof(Ticket));
		ticket->seq = ticket->job_id = ids[i];
		ticket->joins = inputs[i].group_key != NULL;
		ticket->visible_at = t->visible_at;
		ticket->queue_id = t->queue->id;
		ticket->lane = LANE_FRESH;
		ticket->priority = t->priority;
		ticket->job_tid = job->slots[i]->tts_tid;
		slots[placed] = store_slot(place, placed);
		if (delayed)
			store_delayed_fill(slots[placed], ticket);
		else
			store_ready_fill(slots[placed], ticket);
		if (placed++ == 0)
			lo = ids[i];
		hi = ids[i];
	}
	xact_count(t->queue, TOTAL_ENQUEUED, n);
	if (placed == 0)
		return;
	store_insert(place, slots, placed);
	xact_count(t->queue, delayed ? COUNT_DELAYED : COUNT_READY, placed);
	if (delayed)
		xact_made_delayed(t->queue, t->visible_at);
	else
		xact_made_ready(t->queue, LANE_FRESH, t->priority, lo, hi, placed);
}

/*
 * jobq.enqueue(): one job. Returns its id.
 *
 * Errors: 22004, 22023 bad argument; 42704 no such queue; JQ004 payload too large; 0A000 argument of a feature this version lacks.
 */
Datum
jobq_enqueue(PG_FUNCTION_ARGS)
{
	JobTemplate t;
	StoreTable *job;
	StoreTable *place;
	JobInput input = {NULL};
	int64 id;

	read_template(fcinfo, "enqueue", &t);
	input.group_key = arg_text(fcinfo, ARG_GROUP_KEY, "group_key", JOBQ_MAX_NAME);
	arg_not_supported(fcinfo, ARG_UNIQUE_KEY, "unique_key");
	if (PG_ARGISNULL(ARG_PAYLOAD))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("payload must not be null")));
	input.payload = PG_GETARG_JSONB_P(ARG_PAYLOAD);
	check_json_size(t.queue, input.payload, "payload");
	if (jsonb_too_deep(input.payload))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("payload nests deeper than %d levels", JOBQ_MAX_JSON_DEPTH)));
	if (!PG_ARGISNULL(ARG_HEADERS))
	{
		input.headers = PG_GETARG_JSONB_P(ARG_HEADERS);
		if (!JB_ROOT_IS_OBJECT(input.headers))
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("headers must be a JSON object")));
		check_json_size(t.queue, input.headers, "headers");
	}

	xact_verb_begin(t.db);
	job = store_open(TABLE_JOB);
	place = store_open(t.visible_at > t.now ? TABLE_DELAYED : TABLE_READY);
	insert_jobs(&t, job, place, &input, &id, 1);
	store_close(place);
	store_close(job);
	xact_verb_end(false);
	PG_RETURN_INT64(id);
}

/* A walk over the elements of a JSON array. */
typedef struct ArrayWalk
{
	JsonbIterator *it;
	int n;
} ArrayWalk;

static void
walk_begin(ArrayWalk *walk, Jsonb *array, const char *what)
{
	JsonbValue v;

	if (!JB_ROOT_IS_ARRAY(array) || JB_ROOT_IS_SCALAR(array))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be a JSON array", what),
						errhint("Pass one element per job.")));
	walk->n = JB_ROOT_COUNT(array);
	if (walk->n > JOBQ_MAX_MANY)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s has more than %d elements", what, JOBQ_MAX_MANY)));
	walk->it = JsonbIteratorInit(&array->root);
	(void) JsonbIteratorNext(&walk->it, &v, true);
}

static Jsonb *
walk_next(ArrayWalk *walk, bool null_is_none)
{
	JsonbValue v;

	if (JsonbIteratorNext(&walk->it, &v, true) != WJB_ELEM)
		elog(ERROR, "unexpected end of a JSON array");
	if (null_is_none && v.type == jbvNull)
		return NULL;
	return JsonbValueToJsonb(&v);
}

/* The groups of enqueue_many's jobs, NULL for none; NULL when no job has one. Errors: 22023 another number than of jobs, or a bad key. */
static text **
group_keys_arg(FunctionCallInfo fcinfo, int njobs)
{
	ArrayType *array;
	Datum *elements;
	bool *nulls;
	text **keys;
	int n;

	if (PG_ARGISNULL(ARG_GROUP_KEY))
		return NULL;
	array = PG_GETARG_ARRAYTYPE_P(ARG_GROUP_KEY);
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	if (ARR_NDIM(array) > 1 || n != njobs)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("group_keys has %d elements but payloads has %d", n, njobs)));
	keys = palloc(Max(n, 1) * sizeof(text *));
	for (int i = 0; i < n; i++)
		keys[i] = nulls[i] ? NULL : check_text(DatumGetTextPP(elements[i]), "group_keys", JOBQ_MAX_NAME);
	return keys;
}

/* Why enqueue_many leaves a job out; NULL when it does not. */
static const char *
refusal(QueueInfo *queue, Jsonb *payload, Jsonb *headers)
{
	if (VARSIZE(payload) - VARHDRSZ > queue->max_payload_bytes)
		return "payload_too_large";
	if (jsonb_too_deep(payload))
		return "payload_too_deep";
	if (headers && !JB_ROOT_IS_OBJECT(headers))
		return "headers_not_object";
	if (headers && VARSIZE(headers) - VARHDRSZ > queue->max_payload_bytes)
		return "headers_too_large";
	return NULL;
}

/* Enqueues the next n elements and returns a row for each. */
static void
enqueue_batch(const JobTemplate *t, StoreTable *job, StoreTable *place, ArrayWalk *walk, ArrayWalk *header_walk,
			  text **group_keys, int first, int n, ReturnSetInfo *rsinfo)
{
	JobInput inputs[STORE_BATCH];
	const char *refused[STORE_BATCH];
	int64 ids[STORE_BATCH];
	Datum inserted = CStringGetTextDatum("inserted");
	int kept = 0;
	int next = 0;

	for (int i = 0; i < n; i++)
	{
		Jsonb *payload = walk_next(walk, false);
		Jsonb *header = header_walk ? walk_next(header_walk, true) : NULL;

		refused[i] = refusal(t->queue, payload, header);
		if (refused[i])
			continue;
		inputs[kept].payload = payload;
		inputs[kept].headers = header;
		inputs[kept++].group_key = group_keys ? group_keys[first + i] : NULL;
	}
	if (kept > 0)
		insert_jobs(t, job, place, inputs, ids, kept);
	for (int i = 0; i < n; i++)
	{
		Datum values[3];
		bool nulls[3] = {false, refused[i] != NULL, false};

		values[0] = Int32GetDatum(first + i + 1);
		values[1] = refused[i] ? (Datum) 0 : Int64GetDatum(ids[next++]);
		values[2] = refused[i] ? CStringGetTextDatum(refused[i]) : inserted;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

/*
 * jobq.enqueue_many(): one job per element of a JSON array, in its order. Returns (ord, job_id, status) for each: inserted, or why not.
 *
 * Errors: as enqueue(); 22023 when headers is an array of another length.
 */
Datum
jobq_enqueue_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	JobTemplate t;
	ArrayWalk walk;
	ArrayWalk header_walk;
	bool with_headers = !PG_ARGISNULL(ARG_HEADERS);
	text **group_keys;
	StoreTable *job;
	StoreTable *place;
	MemoryContext batch;
	MemoryContext old;

	read_template(fcinfo, "enqueue_many", &t);
	arg_not_supported(fcinfo, ARG_UNIQUE_KEY, "unique_keys");
	if (PG_ARGISNULL(ARG_PAYLOAD))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("payloads must not be null")));
	walk_begin(&walk, PG_GETARG_JSONB_P(ARG_PAYLOAD), "payloads");
	if (with_headers)
	{
		walk_begin(&header_walk, PG_GETARG_JSONB_P(ARG_HEADERS), "headers");
		if (header_walk.n != walk.n)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("headers has %d elements but payloads has %d", header_walk.n, walk.n)));
	}
	group_keys = group_keys_arg(fcinfo, walk.n);
	InitMaterializedSRF(fcinfo, 0);

	xact_verb_begin(t.db);
	job = store_open(TABLE_JOB);
	place = store_open(t.visible_at > t.now ? TABLE_DELAYED : TABLE_READY);
	batch = AllocSetContextCreate(CurrentMemoryContext, "jobq enqueue batch", ALLOCSET_DEFAULT_SIZES);
	/* slots live as long as the tables */
	for (int i = 0; i < Min(walk.n, STORE_BATCH); i++)
	{
		(void) store_slot(job, i);
		(void) store_slot(place, i);
	}
	for (int i = 0; i < walk.n; i += STORE_BATCH)
	{
		CHECK_FOR_INTERRUPTS();
		old = MemoryContextSwitchTo(batch);
		enqueue_batch(&t, job, place, &walk, with_headers ? &header_walk : NULL, group_keys, i,
					  Min(STORE_BATCH, walk.n - i), rsinfo);
		MemoryContextSwitchTo(old);
		MemoryContextReset(batch);
	}
	store_close(place);
	store_close(job);
	xact_verb_end(false);
	return (Datum) 0;
}
