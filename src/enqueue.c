/*-------------------------------------------------------------------------
 *
 * enqueue.c
 *		jobq.enqueue(), and what it has in common with jobq.enqueue_many().
 *
 * A job's row and its ticket are written together; neither waits for
 * anybody. A job of a group joins its line at commit (line.c). A unique key
 * comes first, and that waits for a transaction which has the same key
 * in hand. Where the payload limits forbid a job, enqueue() raises an error
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
#include "debug.h"
#include "due.h"
#include "enqueue.h"
#include "event.h"
#include "grant.h"
#include "ident.h"
#include "line.h"
#include "replace.h"
#include "store.h"
#include "timeutil.h"
#include "unique.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_enqueue);
PG_FUNCTION_INFO_V1(jobq_open_batch);

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

static OnConflict
conflict_arg(FunctionCallInfo fcinfo)
{
	char *value;

	if (PG_ARGISNULL(ARG_ON_CONFLICT))
		return CONFLICT_KEEP;
	value = text_to_cstring(PG_GETARG_TEXT_PP(ARG_ON_CONFLICT));
	if (strcmp(value, "keep") == 0)
		return CONFLICT_KEEP;
	if (strcmp(value, "replace") == 0)
		return CONFLICT_REPLACE;
	if (strcmp(value, "error") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid on_conflict \"%s\"", value),
						errhint("Use keep, replace or error.")));
	return CONFLICT_ERROR;
}

static void
read_scope(FunctionCallInfo fcinfo, JobTemplate *t)
{
	int64 window = arg_interval(fcinfo, ARG_UNIQUE_FOR, "unique_for", 0, 1000, JOBQ_MAX_DELAY_USECS);
	char *until;

	t->unique_until = window > 0 ? timestamp_add(t->now, window) : DT_NOBEGIN;
	t->until_started = false;
	if (PG_ARGISNULL(ARG_UNIQUE_UNTIL))
		return;
	until = text_to_cstring(PG_GETARG_TEXT_PP(ARG_UNIQUE_UNTIL));
	t->until_started = strcmp(until, "started") == 0;
	if (!t->until_started && strcmp(until, "finished") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid unique_until \"%s\"", until),
						errhint("Use started or finished.")));
}

/* What the jobs wait for. */
static void
read_after(FunctionCallInfo fcinfo, bool opens, JobTemplate *t)
{
	after_read(fcinfo, ARG_AFTER, opens, &t->after);
	if (t->on_conflict == CONFLICT_REPLACE && t->after.given)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("on_conflict 'replace' cannot be combined with after, batch or open_batch"),
						errhint("Cancel the job that has the key, and enqueue a new one.")));
	t->run_at = t->visible_at;
	if (t->after.waits)
		t->visible_at = DT_NOEND;
}

/* Checks what the functions have in common. opens: the jobs are batches, and open. */
void
enqueue_read(FunctionCallInfo fcinfo, const char *verb, bool opens, JobTemplate *t)
{
	int64 expires_in;

	t->db = meta_begin(verb, VERB_WRITES);
	t->queue = grant_queue_arg(fcinfo, ARG_QUEUE, RIGHT_ENQUEUE);
	t->now = clock_now();
	t->visible_at = start_time(fcinfo, t->now);
	t->name = arg_text(fcinfo, ARG_NAME, "name", JOBQ_MAX_NAME);
	t->priority = arg_int32_range(fcinfo, ARG_PRIORITY, "priority", JOBQ_DEFAULT_PRIORITY, PG_INT16_MIN, PG_INT16_MAX);
	t->max_attempts =
		arg_int32_range(fcinfo, ARG_MAX_ATTEMPTS, "max_attempts", t->queue->max_attempts, 1, JOBQ_MAX_ATTEMPTS);
	(void) arg_interval(fcinfo, ARG_TIMEOUT, "timeout", 0, 1000, JOBQ_MAX_DELAY_USECS);
	t->timeout = PG_ARGISNULL(ARG_TIMEOUT) ? NULL : PG_GETARG_INTERVAL_P(ARG_TIMEOUT);
	t->expires = DT_NOEND;
	expires_in = arg_interval(fcinfo, ARG_EXPIRES_IN, "expires_in", 0, 1000, JOBQ_MAX_DELAY_USECS);
	if (expires_in > 0)
		t->expires = timestamp_add(t->now, expires_in);
	t->on_conflict = conflict_arg(fcinfo);
	read_scope(fcinfo, t);
	read_after(fcinfo, opens, t);
}

/* Fills an empty slot of the job table. */
void
enqueue_fill(TupleTableSlot *slot, const JobTemplate *t, const JobInput *input)
{
	slot_set(slot, Anum_job_id, Int64GetDatum(input->id));
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
	if (!TIMESTAMP_IS_NOEND(t->expires))
		slot_set(slot, Anum_job_expires, TimestampTzGetDatum(t->expires));
	if (input->unique_key)
	{
		slot_set(slot, Anum_job_unique_key, PointerGetDatum(input->unique_key));
		if (t->until_started)
			slot_set(slot, Anum_job_unique_started, BoolGetDatum(false));
		if (!TIMESTAMP_IS_NOBEGIN(t->unique_until))
			slot_set(slot, Anum_job_unique_until, TimestampTzGetDatum(t->unique_until));
	}
	if (t->after.waits)
	{
		slot_set(slot, Anum_job_after_dead, CharGetDatum(t->after.policy));
		if (t->run_at > t->now)
			slot_set(slot, Anum_job_run_at, TimestampTzGetDatum(t->run_at));
	}
	slot_set(slot, Anum_job_payload, JsonbPGetDatum(input->payload));
	if (input->headers)
		slot_set(slot, Anum_job_headers, JsonbPGetDatum(input->headers));
}

/*
 * Gives up to STORE_BATCH jobs, whose rows have been written, their places. A job of a group gets no ticket: it joins the group's line at
 * commit, or has a delayed one until then.
 */
void
enqueue_place(const JobTemplate *t, StoreTable *place, const JobInput *inputs, TupleTableSlot **jobs, int n)
{
	bool delayed = place->which == TABLE_DELAYED;
	Ticket tickets[STORE_BATCH];
	TupleTableSlot *slots[STORE_BATCH];
	int placed = 0;
	int64 lo = 0;
	int64 hi = 0;

	if (event_wanted(t->queue, EVENT_WAITING) && !t->after.waits)
		for (int i = 0; i < n; i++)
			event_note_job(t->queue, EVENT_WAITING, jobs[i], 0, delayed ? t->visible_at - t->now : EVENT_NO_DELAY,
						   NULL);
	for (int i = 0; i < n; i++)
	{
		Ticket *ticket = &tickets[placed];

		if (inputs[i].group_key && !delayed)
		{
			LineRow row = {.job_id = inputs[i].id, .priority = t->priority, .job_tid = jobs[i]->tts_tid};

			line_join(t->queue, inputs[i].group_key, &row);
			continue;
		}
		memset(ticket, 0, sizeof(Ticket));
		ticket->seq = ticket->job_id = inputs[i].id;
		ticket->joins = inputs[i].group_key != NULL;
		ticket->visible_at = t->visible_at;
		ticket->queue_id = t->queue->id;
		ticket->lane = LANE_FRESH;
		ticket->priority = t->priority;
		ticket->job_tid = jobs[i]->tts_tid;
		slots[placed] = store_slot(place, placed);
		if (delayed)
			store_delayed_fill(slots[placed], ticket);
		else
			store_ready_fill(slots[placed], ticket);
		if (placed++ == 0)
			lo = inputs[i].id;
		hi = inputs[i].id;
	}
	xact_count(t->queue, TOTAL_ENQUEUED, n);
	if (!TIMESTAMP_IS_NOEND(t->expires))
		due_expiry(t->expires);
	if (placed == 0)
		return;
	store_insert(place, slots, placed);
	xact_count(t->queue, ticket_counter(place->which, &tickets[0]), placed);
	if (delayed)
		xact_made_delayed(t->queue, t->visible_at);
	else
		xact_made_ready(t->queue, LANE_FRESH, t->priority, lo, hi, placed);
}

/* Error 42710; holder 0: not known. */
void
enqueue_key_taken(const JobTemplate *t, const text *key, int64 holder)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("unique key \"%s\" of queue \"%s\" is taken by job " INT64_FORMAT, text_to_cstring(key),
					t->queue->name, holder),
			 errhint("Use on_conflict => 'keep' to get that job's id, or 'replace' to give it the new content.")));
}

/* Gives a waiting job that has the key the content of another. False: it does not wait, or somebody has it in hand. */
bool
enqueue_replace(const JobTemplate *t, StoreTable *job, JobInput *input, int64 holder)
{
	TupleTableSlot *slot = store_slot(job, 0);

	input->id = holder;
	enqueue_fill(slot, t, input);
	return replace_job(t->queue, holder, slot, t->visible_at);
}

/* Writes the row of a job that has a unique key. False: another job, now input->id, has the key, and is the answer. */
static bool
insert_unique(const JobTemplate *t, StoreTable *job, JobInput *input)
{
	int64 holder = 0;
	bool inserted = false;
	UniqueWork u;

	unique_begin(&u, t->queue, job, true);
	while (!inserted && unique_is_free(&u, input->unique_key, 0, &holder))
	{
		TupleTableSlot *row;

		DEBUG_POINT("key-looked-at");
		/* only now, so that duplicates use up no numbers */
		if (input->id == 0)
			input->id = ident_job_id(t->db);
		row = store_slot(job, 0);
		enqueue_fill(row, t, input);
		inserted = unique_insert(&u, job, row);
	}
	unique_end(&u);
	if (inserted)
		return true;
	if (t->on_conflict == CONFLICT_ERROR)
		enqueue_key_taken(t, input->unique_key, holder);
	if (t->on_conflict == CONFLICT_REPLACE)
		(void) enqueue_replace(t, job, input, holder);
	input->id = holder;
	return false;
}

/* Writes the row of a job. False: another has its unique key. */
static bool
insert_row(const JobTemplate *t, StoreTable *job, JobInput *input)
{
	TupleTableSlot *row;

	if (input->unique_key)
		return insert_unique(t, job, input);
	input->id = ident_job_id(t->db);
	row = store_slot(job, 0);
	enqueue_fill(row, t, input);
	store_insert(job, &row, 1);
	return true;
}

static Datum
enqueue_one(FunctionCallInfo fcinfo, const char *verb, bool opens)
{
	JobTemplate t;
	StoreTable *job;
	StoreTable *place;
	JobInput input = {NULL};

	enqueue_read(fcinfo, verb, opens, &t);
	input.group_key = arg_text(fcinfo, ARG_GROUP_KEY, "group_key", JOBQ_MAX_NAME);
	input.unique_key = arg_text(fcinfo, ARG_UNIQUE_KEY, "unique_key", JOBQ_MAX_NAME);
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
	if (insert_row(&t, job, &input))
	{
		place = store_open(t.visible_at > t.now ? TABLE_DELAYED : TABLE_READY);
		enqueue_place(&t, place, &input, job->slots, 1);
		store_close(place);
		after_attach(&t.after, t.queue, &input.id, 1);
	}
	store_close(job);
	xact_verb_end(false);
	PG_RETURN_INT64(input.id);
}

/*
 * jobq.enqueue(): one job. Returns its id, or that of the job that has the unique key.
 *
 * Errors: 22004, 22023 bad argument; 42704 no such queue; JQ004 payload too large; 42710 key taken, with on_conflict 'error'; those of
 * after_read().
 */
Datum
jobq_enqueue(PG_FUNCTION_ARGS)
{
	return enqueue_one(fcinfo, "enqueue", false);
}

/* jobq.open_batch(): a job that waits until the batch that has its id is closed, and all its members have ended. As enqueue() otherwise. */
Datum
jobq_open_batch(PG_FUNCTION_ARGS)
{
	return enqueue_one(fcinfo, "open_batch", true);
}
