/*-------------------------------------------------------------------------
 *
 * retire.c
 *		What becomes of a job whose ticket is in our hands: finished, dead,
 *		or back in the queue.
 *
 * See retire.h for the contract of all of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/datetime.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "backoff.h"
#include "depend.h"
#include "event.h"
#include "ident.h"
#include "line.h"
#include "retire.h"
#include "timeutil.h"
#include "unique.h"
#include "waitjob.h"
#include "xact.h"

TimestampTz retire_run_began = 0;

static void flush_history(Retire *r);

/* Opens what every ending needs. */
void
retire_begin(Retire *r)
{
	memset(r, 0, sizeof(*r));
	r->job = store_open(TABLE_JOB);
	r->now = clock_now();
}

/* Writes what is still to be written and closes all tables. */
void
retire_end(Retire *r)
{
	flush_history(r);
	for (int i = 0; i < STORE_BATCH; i++)
		if (r->read_slots[i])
			ExecDropSingleTupleTableSlot(r->read_slots[i]);
	store_close(r->job);
	store_close(r->ready);
	store_close(r->delayed);
	store_close(r->dead);
	store_close(r->line);
	store_close(r->window);
	for (int i = 0; i < lengthof(r->history); i++)
		store_close(r->history[i]);
}

Attempt
retire_attempt(const Lease *lease, int position)
{
	Attempt attempt;

	memset(&attempt, 0, sizeof(attempt));
	attempt.token = lease->token;
	attempt.attempt = lease->attempts[position];
	attempt.started = lease->started;
	attempt.worker = lease->worker;
	attempt.progress = lease->progress;
	return attempt;
}

static void
flush_history(Retire *r)
{
	if (r->nhistory > 0)
	{
		StoreTable *history = r->history[r->history_table - TABLE_HISTORY];

		store_insert(history, history->slots, r->nhistory);
		r->nhistory = 0;
	}
}

TupleTableSlot *
retire_job(Retire *r, Snapshot snapshot, int64 job_id, ItemPointer hint)
{
	TupleTableSlot **slot;

	if (r->next_read == STORE_BATCH)
	{
		/* pending history rows point into the slots that come round */
		flush_history(r);
		r->next_read = 0;
	}
	slot = &r->read_slots[r->next_read];
	if (*slot == NULL)
		*slot = store_read_slot(r->job);
	if (!store_job_fetch(r->job, snapshot, job_id, hint, *slot))
		return NULL;
	r->next_read++;
	return *slot;
}

/* Deletes the job's row, which is its claim on a unique key. False: it was gone already. */
static bool
delete_row(Retire *r, TupleTableSlot *job)
{
	ItemPointerData tid = job->tts_tid;

	/* waits only for somebody who locked the row by hand */
	if (store_delete(r->job, &tid, true) != TM_Ok)
		return false;
	unique_release(&r->window, job, r->now);
	depend_left(job);
	return true;
}

/* Copies a column of the job's row, which must stay in its slot until the copy is stored. */
static inline void
copy_column(TupleTableSlot *to, int to_att, TupleTableSlot *from, int from_att)
{
	to->tts_values[to_att - 1] = from->tts_values[from_att - 1];
	to->tts_isnull[to_att - 1] = from->tts_isnull[from_att - 1];
}

/* The value that progress() left for a job, out of the lease's object; null when there is none. */
static Datum
progress_of(const Attempt *attempt, int64 job_id, bool *isnull)
{
	char key[32];
	JsonbValue *value = NULL;
	JsonbValue buffer;

	if (attempt->progress)
	{
		pg_lltoa(job_id, key);
		value = getKeyJsonValueFromContainer(&attempt->progress->root, key, strlen(key), &buffer);
	}
	*isnull = value == NULL;
	return value ? JsonbPGetDatum(JsonbValueToJsonb(value)) : (Datum) 0;
}

/*
 * Whether a job that ends with this attempt may have failed before: an attempt was counted, or it was redriven, which counts anew but
 * keeps the failures.
 */
static bool
may_have_failed(TupleTableSlot *job, char state, const Attempt *a)
{
	bool isnull;
	Datum headers;
	JsonbValue buffer;

	/* a completed attempt has not failed; one that was cancelled may not have begun, and then its number is that of the last failure */
	if (a->attempt > (a->token != 0 && state == 'c' ? 1 : 0))
		return true;
	headers = slot_datum(job, Anum_job_headers, &isnull);
	return !isnull && JB_ROOT_IS_OBJECT(DatumGetJsonbP(headers)) &&
		   getKeyJsonValueFromContainer(&DatumGetJsonbP(headers)->root, "jobq_origin", 11, &buffer) != NULL;
}

/* Sets a column to the job's failed attempts, which are taken out of jobq.failure; only looks when there can be any. */
static void
move_failures(TupleTableSlot *to, int attnum, int64 job_id, bool any)
{
	bool isnull = true;
	Datum failures = any ? store_failures_take(job_id, &isnull) : (Datum) 0;

	if (!isnull)
		slot_set(to, attnum, failures);
}

/* Adds a history row; with r->batched it is written together with others, and job's slot must live until then. */
static void
add_history(Retire *r, QueueInfo *queue, TupleTableSlot *job, char state, const Attempt *a)
{
	TimestampTz expiry =
		queue->keep_completed == KEEP_FOREVER ? DT_NOEND : timestamp_add(r->now, queue->keep_completed);
	JobqTable which = store_history_table(expiry, r->now);
	StoreTable *history;
	TupleTableSlot *slot;
	int64 job_id;
	bool isnull;
	Datum datum;

	if (r->nhistory > 0 && which != r->history_table)
		flush_history(r);
	r->history_table = which;
	history = store_open_once(&r->history[which - TABLE_HISTORY], which);
	slot = store_slot(history, r->nhistory++);

	slot_getallattrs(job);
	job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	copy_column(slot, Anum_history_id, job, Anum_job_id);
	copy_column(slot, Anum_history_created, job, Anum_job_created);
	copy_column(slot, Anum_history_queue_id, job, Anum_job_queue_id);
	copy_column(slot, Anum_history_max_attempts, job, Anum_job_max_attempts);
	copy_column(slot, Anum_history_priority, job, Anum_job_priority);
	copy_column(slot, Anum_history_name, job, Anum_job_name);
	copy_column(slot, Anum_history_group_key, job, Anum_job_group_key);
	copy_column(slot, Anum_history_unique_key, job, Anum_job_unique_key);
	copy_column(slot, Anum_history_payload, job, Anum_job_payload);
	copy_column(slot, Anum_history_headers, job, Anum_job_headers);
	slot_set(slot, Anum_history_finished, TimestampTzGetDatum(r->now));
	slot_set(slot, Anum_history_expiry, TimestampTzGetDatum(expiry));
	slot_set(slot, Anum_history_attempt, Int32GetDatum(a->attempt));
	slot_set(slot, Anum_history_state, CharGetDatum(state));
	if (a->token != 0)
	{
		slot_set(slot, Anum_history_token, Int64GetDatum(a->token));
		slot_set(slot, Anum_history_started, TimestampTzGetDatum(a->started));
	}
	if (a->worker)
		slot_set(slot, Anum_history_worker, PointerGetDatum(a->worker));
	if (a->result)
		slot_set(slot, Anum_history_result, JsonbPGetDatum(a->result));
	datum = progress_of(a, job_id, &isnull);
	if (!isnull)
		slot_set(slot, Anum_history_progress, datum);
	move_failures(slot, Anum_history_failures, job_id, may_have_failed(job, state, a));
	if (!r->batched || r->nhistory == STORE_BATCH)
		flush_history(r);
}

static JobqCounter
total_of_state(char state)
{
	if (state == 'c')
		return TOTAL_COMPLETED;
	return state == 'x' ? TOTAL_CANCELLED : TOTAL_EXPIRED;
}

static EventKind
event_of_state(char state)
{
	if (state == 'c')
		return EVENT_COMPLETED;
	return state == 'x' ? EVENT_CANCELLED : EVENT_EXPIRED;
}

bool
retire_finish(Retire *r, QueueInfo *queue, TupleTableSlot *job, char state, const Attempt *attempt)
{
	int64 job_id = DatumGetInt64(slot_value(job, Anum_job_id));

	if (!delete_row(r, job))
		return false;
	if (queue->keep_completed != 0)
		add_history(r, queue, job, state, attempt);
	else if (may_have_failed(job, state, attempt))
		store_failures_delete(job_id);
	xact_count(queue, total_of_state(state), 1);
	event_job(queue, event_of_state(state), job, attempt->attempt, EVENT_NO_DELAY, NULL);
	depend_ended(queue, job_id, state);
	waitjob_note(job_id);
	if (state == 'c')
		xact_time(queue, TIME_RUN, r->now - (retire_run_began != 0 ? retire_run_began : attempt->started));
	return true;
}

bool
retire_delete(Retire *r, QueueInfo *queue, TupleTableSlot *job)
{
	int64 job_id = DatumGetInt64(slot_value(job, Anum_job_id));

	if (!delete_row(r, job))
		return false;
	store_failures_delete(job_id);
	event_job(queue, EVENT_DELETED, job, -1, EVENT_NO_DELAY, NULL);
	depend_ended(queue, job_id, ENDED_REMOVED);
	waitjob_note(job_id);
	return true;
}

void
retire_requeue(Retire *r, QueueInfo *queue, TupleTableSlot *job, int32 attempt, TimestampTz visible_at)
{
	Ticket ticket;
	TupleTableSlot *slot;
	bool isnull;
	Datum key = slot_datum(job, Anum_job_group_key, &isnull);

	memset(&ticket, 0, sizeof(ticket));
	ticket.job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	ticket.joins = !isnull;
	ticket.queue_id = queue->id;
	ticket.attempt = attempt;
	ticket.lane = LANE_RETURNED;
	ticket.priority = DatumGetInt16(slot_value(job, Anum_job_priority));
	ticket.job_tid = job->tts_tid;
	ticket.visible_at = visible_at;
	retire_waits(job);
	if (visible_at > r->now)
	{
		slot = store_slot(store_open_once(&r->delayed, TABLE_DELAYED), 0);
		store_delayed_fill(slot, &ticket);
		store_insert(r->delayed, &slot, 1);
		xact_count(queue, ticket_counter(TABLE_DELAYED, &ticket), 1);
		xact_made_delayed(queue, visible_at);
		/* what it waits for may have ended while its ticket was in hand */
		if (TIMESTAMP_IS_NOEND(visible_at))
			depend_note(DEPEND_CHECK, ticket.job_id, 0);
	}
	else if (ticket.joins)
	{
		LineRow row = {.job_id = ticket.job_id,
					   .attempt = attempt,
					   .priority = ticket.priority,
					   .job_tid = ticket.job_tid,
					   .since = r->now};

		line_join(queue, DatumGetTextPP(key), &row);
	}
	else
	{
		ticket.seq = ident_job_id(meta_db());
		ticket.since = r->now;
		slot = store_slot(store_open_once(&r->ready, TABLE_READY), 0);
		store_ready_fill(slot, &ticket);
		store_insert(r->ready, &slot, 1);
		xact_count(queue, COUNT_READY, 1);
		xact_made_ready(queue, LANE_RETURNED, ticket.priority, ticket.seq, ticket.seq, 1);
	}
}

/* Cuts an error text to what is stored, at a character's end; it is valid in the server's encoding as every text. */
static const text *
cut_error(const text *error)
{
	int bytes;
	int kept;

	if (error == NULL)
		return NULL;
	bytes = VARSIZE_ANY_EXHDR(error);
	if (bytes <= JOBQ_MAX_ERROR_BYTES)
		return error;
	kept = pg_mbcliplen(VARDATA_ANY(error), bytes, JOBQ_MAX_ERROR_BYTES);
	return cstring_to_text_with_len(VARDATA_ANY(error), kept);
}

static void
set_string(JsonbParseState **state, const char *key, const char *value)
{
	JsonbValue v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, key);
	v.val.string.len = strlen(key);
	(void) pushJsonbValue(state, WJB_KEY, &v);
	v.val.string.val = unconstify(char *, value);
	v.val.string.len = strlen(value);
	(void) pushJsonbValue(state, WJB_VALUE, &v);
}

static void
set_number(JsonbParseState **state, const char *key, int64 value)
{
	JsonbValue v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, key);
	v.val.string.len = strlen(key);
	(void) pushJsonbValue(state, WJB_KEY, &v);
	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(value);
	(void) pushJsonbValue(state, WJB_VALUE, &v);
}

/* headers (null: none) with "jobq_origin" added, unless they tell of an origin already */
Datum
retire_origin_headers(Datum headers, bool isnull, const Origin *from)
{
	JsonbParseState *state = NULL;
	Jsonb *origin;
	char died[MAXDATELEN + 1];

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	(void) pushJsonbValue(&state, WJB_KEY, &(JsonbValue){.type = jbvString, .val.string = {11, "jobq_origin"}});
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	set_string(&state, "queue", from->queue);
	set_number(&state, "job_id", from->job_id);
	set_number(&state, "attempts", from->attempts);
	set_string(&state, "reason", from->reason);
	if (from->error)
		set_string(&state, "error", text_to_cstring(from->error));
	JsonEncodeDateTime(died, TimestampTzGetDatum(from->died), TIMESTAMPTZOID, NULL);
	set_string(&state, "died", died);
	(void) pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	origin = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));

	if (isnull || !JB_ROOT_IS_OBJECT(DatumGetJsonbP(headers)))
		return JsonbPGetDatum(origin);
	/* the right side wins: an origin that is there already stays */
	return DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(origin), headers);
}

/* A dead job becomes a new job of the queue that its own routes dead letters to; returns that one's id. */
static int64
route_on(Retire *r, QueueInfo *from, QueueInfo *to, TupleTableSlot *job, int attempts, const char *reason,
		 const text *error)
{
	TupleTableSlot *slot = store_slot(r->job, 0);
	TupleTableSlot *copy;
	int64 id = ident_job_id(meta_db());
	Origin origin = {from->name, DatumGetInt64(slot_value(job, Anum_job_id)), attempts, reason, error, r->now};
	bool isnull;
	Datum headers = slot_datum(job, Anum_job_headers, &isnull);

	slot_getallattrs(job);
	slot_set(slot, Anum_job_id, Int64GetDatum(id));
	slot_set(slot, Anum_job_created, TimestampTzGetDatum(r->now));
	slot_set(slot, Anum_job_queue_id, Int32GetDatum(to->id));
	slot_set(slot, Anum_job_max_attempts, Int32GetDatum(to->max_attempts));
	copy_column(slot, Anum_job_priority, job, Anum_job_priority);
	copy_column(slot, Anum_job_name, job, Anum_job_name);
	copy_column(slot, Anum_job_payload, job, Anum_job_payload);
	slot_set(slot, Anum_job_headers, retire_origin_headers(headers, isnull, &origin));
	store_insert(r->job, &slot, 1);
	xact_count(to, TOTAL_ENQUEUED, 1);
	event_job(to, EVENT_WAITING, slot, 0, EVENT_NO_DELAY, NULL);

	copy = MakeSingleTupleTableSlot(RelationGetDescr(r->job->rel), &TTSOpsVirtual);
	ExecCopySlot(copy, slot);
	copy->tts_tid = slot->tts_tid;
	retire_requeue(r, to, copy, 0, r->now);
	ExecDropSingleTupleTableSlot(copy);
	store_failures_move(DatumGetInt64(slot_value(job, Anum_job_id)), id, attempts);
	return id;
}

/* Makes a job a dead letter of its own queue. */
static void
bury(Retire *r, QueueInfo *queue, TupleTableSlot *job, int attempts, const char *reason, const text *error)
{
	StoreTable *dead = store_open_once(&r->dead, TABLE_DEAD);
	TupleTableSlot *slot = store_slot(dead, 0);

	slot_getallattrs(job);
	copy_column(slot, Anum_dead_id, job, Anum_job_id);
	copy_column(slot, Anum_dead_created, job, Anum_job_created);
	slot_set(slot, Anum_dead_died, TimestampTzGetDatum(r->now));
	copy_column(slot, Anum_dead_queue_id, job, Anum_job_queue_id);
	slot_set(slot, Anum_dead_attempt, Int32GetDatum(attempts));
	copy_column(slot, Anum_dead_max_attempts, job, Anum_job_max_attempts);
	copy_column(slot, Anum_dead_priority, job, Anum_job_priority);
	copy_column(slot, Anum_dead_timeout, job, Anum_job_timeout);
	copy_column(slot, Anum_dead_expires, job, Anum_job_expires);
	slot_set(slot, Anum_dead_reason, CStringGetTextDatum(reason));
	if (error)
		slot_set(slot, Anum_dead_last_error, PointerGetDatum(error));
	copy_column(slot, Anum_dead_name, job, Anum_job_name);
	copy_column(slot, Anum_dead_group_key, job, Anum_job_group_key);
	copy_column(slot, Anum_dead_unique_key, job, Anum_job_unique_key);
	copy_column(slot, Anum_dead_unique_started, job, Anum_job_unique_started);
	copy_column(slot, Anum_dead_payload, job, Anum_job_payload);
	copy_column(slot, Anum_dead_headers, job, Anum_job_headers);
	move_failures(slot, Anum_dead_failures, DatumGetInt64(slot_value(job, Anum_job_id)), true);
	store_insert(dead, &slot, 1);
	xact_count(queue, COUNT_DEAD, 1);
}

FailResult
retire_fail(Retire *r, QueueInfo *queue, TupleTableSlot *job, const Attempt *attempt, const text *error,
			const char *reason, int64 retry_in, bool retry, TimestampTz *hold)
{
	int64 job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	int32 max_attempts = DatumGetInt32(slot_value(job, Anum_job_max_attempts));
	QueueInfo *onward = NULL;
	TimestampTz again;

	error = cut_error(error);
	xact_count(queue, TOTAL_FAILED, 1);
	store_failure_insert(job_id, attempt->attempt, r->now, error);
	event_job(queue, EVENT_FAILED, job, attempt->attempt, EVENT_NO_DELAY, error);
	if (retry && attempt->attempt < max_attempts)
	{
		if (retry_in == RETRY_IN_DEFAULT)
			retry_in = backoff_delay(queue, attempt->attempt, error);
		/* the failure above and a caller's function are behind us: the delay counts from here */
		again = retry_in == 0 ? r->now : timestamp_add(clock_now(), retry_in);
		if (hold)
			*hold = again;
		else
			retire_requeue(r, queue, job, attempt->attempt, again);
		xact_count(queue, TOTAL_RETRIED, 1);
		event_job(queue, EVENT_RETRYING, job, attempt->attempt, retry_in, error);
		return FAIL_RETRY;
	}

	/* so that the failures just written are seen and move along */
	CommandCounterIncrement();
	if (queue->dead_letter_queue != 0)
		onward = meta_queue_by_id(queue->dead_letter_queue);
	if (onward)
		depend_moved(queue, job_id, onward, route_on(r, queue, onward, job, attempt->attempt, reason, error));
	else
	{
		bury(r, queue, job, attempt->attempt, reason, error);
		depend_ended(queue, job_id, ENDED_DEAD);
	}
	(void) delete_row(r, job);
	xact_count(queue, TOTAL_DEAD, 1);
	event_job(queue, EVENT_DEAD, job, attempt->attempt, EVENT_NO_DELAY, error);
	waitjob_note(job_id);
	return FAIL_DEAD;
}

TakeResult
retire_take_ticket(Retire *r, QueueInfo *queue, TupleTableSlot *job, Ticket *ticket, JobqTable *from)
{
	static const JobqTable places[] = {TABLE_READY, TABLE_DELAYED};
	int64 job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	int16 priority = DatumGetInt16(slot_value(job, Anum_job_priority));
	bool busy = false;

	for (int i = 0; i < lengthof(places); i++)
	{
		StoreTable *t = places[i] == TABLE_READY ? store_open_once(&r->ready, TABLE_READY)
												 : store_open_once(&r->delayed, TABLE_DELAYED);
		Snapshot snapshot = store_snapshot();
		bool found = store_ticket_find(places[i], t, snapshot, job_id, queue->id, priority, ticket);
		TM_Result result = TM_Deleted;

		if (found)
		{
			*from = places[i];
			result = store_delete(t, &ticket->tid, false);
		}
		store_snapshot_done(snapshot);
		if (found && result == TM_Ok)
		{
			if (places[i] == TABLE_READY)
				xact_took_ready(queue, ticket->lane, ticket->priority, ticket->seq);
			return TAKE_OK;
		}
		busy = busy || found;
	}
	return busy ? TAKE_BUSY : TAKE_NONE;
}
