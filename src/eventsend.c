/*-------------------------------------------------------------------------
 *
 * eventsend.c
 *		Tells of events: jobq.events() to who asks, NOTIFY to who listens,
 *		and the alarms of dead letters.
 *
 * NOTIFY is sent by the scheduler, many events in one message and at most
 * every SEND_GAP, so that no commit of others takes the lock of the
 * notification queue. It sleeps while there is nothing new.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/async.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "args.h"
#include "event.h"
#include "grant.h"
#include "guc.h"
#include "maintain.h"
#include "timeutil.h"

PG_FUNCTION_INFO_V1(jobq_events);

#define READ_BATCH 64
#define MAX_EVENTS 100000 /* in one call of events() */
#define SEND_GAP (50 * 1000)
#define SEND_EVENTS 2048 /* in one transaction */
#define PAYLOAD_BYTES 7900
#define STALL_PAUSE USECS_PER_SEC

enum
{
	OUT_POSITION,
	OUT_AT,
	OUT_QUEUE,
	OUT_EVENT,
	OUT_JOB_ID,
	OUT_NAME,
	OUT_ATTEMPT,
	OUT_MAX_ATTEMPTS,
	OUT_DELAY,
	OUT_GROUP_KEY,
	OUT_ERROR,
	OUT_COUNT,
	NUM_OUT
};

static TimestampTz last_sent = DT_NOBEGIN;
static TimestampTz stalled_until = DT_NOEND; /* an event is being committed: its commit tells, unless it hangs */
static bool sending = false;                 /* the flag was taken */
static List *alarms = NIL;                   /* slots whose alarm the running step has taken */

static Datum
cut_text(const char *bytes, int n, bool *isnull)
{
	*isnull = n == 0;
	return n == 0 ? (Datum) 0 : PointerGetDatum(cstring_to_text_with_len(bytes, n));
}

static Datum
delay_of(const EventRecord *record, bool *isnull)
{
	Interval *interval;

	*isnull = record->delay < 0;
	if (*isnull)
		return (Datum) 0;
	interval = palloc0(sizeof(Interval));
	interval->time = record->delay;
	return IntervalPGetDatum(interval);
}

/* Returns an event as a row; false: left out, for its queue was dropped or is not for the current user to read. */
static bool
put_row(ReturnSetInfo *rsinfo, const EventRecord *record)
{
	QueueInfo *queue = meta_queue_by_id(record->queue_id);
	Datum values[NUM_OUT];
	bool nulls[NUM_OUT] = {false};

	if (queue == NULL || !grant_has(queue, RIGHTS_READ))
		return false;
	values[OUT_POSITION] = Int64GetDatum((int64) record->position);
	values[OUT_AT] = TimestampTzGetDatum(record->at);
	values[OUT_QUEUE] = CStringGetTextDatum(queue->name);
	values[OUT_EVENT] = CStringGetTextDatum(event_names[record->kind]);
	values[OUT_JOB_ID] = Int64GetDatum(record->job_id);
	nulls[OUT_JOB_ID] = record->job_id == 0;
	values[OUT_NAME] = cut_text(record->name, record->name_bytes, &nulls[OUT_NAME]);
	values[OUT_ATTEMPT] = Int32GetDatum(record->attempt);
	nulls[OUT_ATTEMPT] = record->attempt < 0;
	values[OUT_MAX_ATTEMPTS] = Int32GetDatum(record->max_attempts);
	nulls[OUT_MAX_ATTEMPTS] = record->max_attempts < 0;
	values[OUT_DELAY] = delay_of(record, &nulls[OUT_DELAY]);
	values[OUT_GROUP_KEY] = cut_text(record->key, record->key_bytes, &nulls[OUT_GROUP_KEY]);
	values[OUT_ERROR] = cut_text(record->error, record->error_bytes, &nulls[OUT_ERROR]);
	values[OUT_COUNT] = Int64GetDatum(record->count);
	nulls[OUT_COUNT] = record->count < 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return true;
}

/* Returns a row that says that events are not to be had any more. */
static void
put_lost(ReturnSetInfo *rsinfo, const EventReader *reader)
{
	Datum values[NUM_OUT] = {0};
	bool nulls[NUM_OUT];

	memset(nulls, true, sizeof(nulls));
	values[OUT_POSITION] = Int64GetDatum((int64) reader->lost_before - 1);
	values[OUT_AT] = TimestampTzGetDatum(clock_now());
	values[OUT_EVENT] = CStringGetTextDatum(event_names[EVENT_LOST]);
	values[OUT_COUNT] = Int64GetDatum(reader->lost_count);
	nulls[OUT_POSITION] = nulls[OUT_AT] = nulls[OUT_EVENT] = false;
	nulls[OUT_COUNT] = reader->lost_count < 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * jobq.events(after, queue, max_events): the events behind a position, of one queue or of all, in their order. after NULL: from the oldest
 * that is kept.
 *
 * Errors: 42704 no such queue; 22023 bad after or max_events.
 */
Datum
jobq_events(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	EventReader reader = {0};
	EventRecord *records = palloc(READ_BATCH * sizeof(EventRecord));
	MemoryContext rows;
	MemoryContext old;
	int left;

	reader.db = meta_begin("events", VERB_READS);
	if (!PG_ARGISNULL(0) && PG_GETARG_INT64(0) < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("after must not be negative"),
						errhint("It is the position of the last event that was read, or NULL.")));
	/* 0 was never a position: as if it were from before the last start */
	if (!PG_ARGISNULL(0))
		reader.after = Max(PG_GETARG_INT64(0), 1);
	if (!PG_ARGISNULL(1))
	{
		QueueInfo *queue = grant_queue_arg(fcinfo, 1, RIGHTS_READ);

		reader.queue_id = queue->id;
		reader.slot = queue->slot;
	}
	left = arg_int32_range(fcinfo, 2, "max_events", 1000, 1, MAX_EVENTS);
	InitMaterializedSRF(fcinfo, 0);
	rows = AllocSetContextCreate(CurrentMemoryContext, "jobq events", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(rows);
	do
	{
		int n = event_read(&reader, records, Min(left, READ_BATCH));

		CHECK_FOR_INTERRUPTS();
		if (reader.lost)
			put_lost(rsinfo, &reader);
		for (int i = 0; i < n; i++)
			left -= put_row(rsinfo, &records[i]);
		MemoryContextReset(rows);
	} while (reader.more && left > 0);
	MemoryContextSwitchTo(old);
	return (Datum) 0;
}

/* A message to the listeners of one queue, while it grows. */
typedef struct Message
{
	int32 queue_id;
	const char *queue; /* name; NULL: the queue was dropped */
	int n;
	StringInfoData payload;
} Message;

static void
append_string(StringInfo buf, const char *key, const char *bytes, int n)
{
	char value[256];

	if (n == 0)
		return;
	memcpy(value, bytes, n);
	value[n] = '\0';
	appendStringInfo(buf, ",\"%s\":", key);
	escape_json(buf, value);
}

static void
append_event(StringInfo buf, const EventRecord *record)
{
	char at[MAXDATELEN + 1];

	JsonEncodeDateTime(at, TimestampTzGetDatum(record->at), TIMESTAMPTZOID, NULL);
	appendStringInfo(buf, "{\"position\":" INT64_FORMAT ",\"at\":\"%s\",\"event\":\"%s\"", (int64) record->position, at,
					 event_names[record->kind]);
	if (record->job_id != 0)
		appendStringInfo(buf, ",\"job_id\":" INT64_FORMAT, record->job_id);
	append_string(buf, "name", record->name, record->name_bytes);
	if (record->attempt >= 0)
		appendStringInfo(buf, ",\"attempt\":%d", record->attempt);
	if (record->max_attempts >= 0)
		appendStringInfo(buf, ",\"max_attempts\":%d", record->max_attempts);
	if (record->delay >= 0)
		appendStringInfo(buf, ",\"delay\":" INT64_FORMAT ".%06d", record->delay / USECS_PER_SEC,
						 (int) (record->delay % USECS_PER_SEC));
	append_string(buf, "group_key", record->key, record->key_bytes);
	append_string(buf, "error", record->error, record->error_bytes);
	if (record->count >= 0)
		appendStringInfo(buf, ",\"count\":" INT64_FORMAT, record->count);
	appendStringInfoChar(buf, '}');
}

/* Channel of a queue's events: cut like any identifier. No other queue's channel of another kind has such a name: those begin with jobq_. */
static char *
channel_name(const char *queue)
{
	char *name = psprintf("jobqevents_%s", queue);
	int len = strlen(name);

	if (len >= NAMEDATALEN)
		name[pg_mbcliplen(name, len, NAMEDATALEN - 1)] = '\0';
	return name;
}

static void
begin_payload(Message *message)
{
	resetStringInfo(&message->payload);
	appendStringInfoString(&message->payload, "{\"queue\":");
	escape_json(&message->payload, message->queue);
	appendStringInfoString(&message->payload, ",\"events\":[");
	message->n = 0;
}

static void
send_message(Message *message)
{
	if (message->n == 0)
		return;
	appendStringInfoString(&message->payload, "]}");
	Async_Notify(channel_name(message->queue), message->payload.data);
	begin_payload(message);
}

/* Adds an event, already as text, to its queue's message. */
static void
add_to_message(Message *message, const StringInfo event)
{
	if (message->payload.len + event->len + 3 > PAYLOAD_BYTES)
		send_message(message);
	if (message->n++ > 0)
		appendStringInfoChar(&message->payload, ',');
	appendBinaryStringInfo(&message->payload, event->data, event->len);
}

/* The message of a queue, made when there is none. */
static Message *
message_of(List **messages, int32 queue_id)
{
	ListCell *lc;
	Message *message;
	QueueInfo *queue;

	foreach (lc, *messages)
	{
		message = lfirst(lc);
		if (message->queue_id == queue_id)
			return message;
	}
	message = palloc0(sizeof(Message));
	message->queue_id = queue_id;
	queue = meta_queue_by_id(queue_id);
	if (queue)
	{
		message->queue = pstrdup(queue->name);
		initStringInfo(&message->payload);
		begin_payload(message);
	}
	*messages = lappend(*messages, message);
	return message;
}

/* Tells every queue that has lost events, none of whose were sent since a position. */
static void
tell_lost(Maintain *m, List **messages, const EventReader *reader, uint64 sent)
{
	EventRecord lost = {0};
	StringInfoData text;

	lost.position = reader->lost_before - 1;
	lost.at = clock_now();
	lost.kind = EVENT_LOST;
	lost.attempt = lost.max_attempts = -1;
	lost.delay = -1;
	lost.count = reader->lost_count;
	initStringInfo(&text);
	append_event(&text, &lost);
	for (int i = 0; i < jobq_max_queues; i++)
	{
		Message *message;

		if (!maintain_slot_is_ours(m, &jobq_queues[i]) || jobq_queues[i].event_gone <= sent)
			continue;
		message = message_of(messages, jobq_queues[i].queue_id);
		if (message->queue)
			add_to_message(message, &text);
	}
}

/* Events are to be sent. */
TimestampTz
events_due(Maintain *m)
{
	TimestampTz due = m->db->events_new ? DT_NOBEGIN : stalled_until;

	if (TIMESTAMP_IS_NOEND(due) || TIMESTAMP_IS_NOBEGIN(last_sent))
		return due;
	return last_sent > clock_now() ? due : Max(due, last_sent + SEND_GAP);
}

void
events_run(Maintain *m)
{
	EventReader reader = {.db = m->db};
	EventRecord *records;
	List *messages = NIL;
	ListCell *lc;
	StringInfoData event;
	int sent = 0;

	if (!maintain_begin(m))
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->events_new = false;
	SpinLockRelease(&m->db->mutex);
	sending = true;
	initStringInfo(&event);
	records = palloc(READ_BATCH * sizeof(EventRecord));
	reader.after = m->db->event_sent - 1;
	do
	{
		uint64 before = reader.after;
		int n = event_read(&reader, records, READ_BATCH);

		if (reader.lost)
			tell_lost(m, &messages, &reader, before);
		for (int i = 0; i < n; i++)
		{
			Message *message = message_of(&messages, records[i].queue_id);

			if (message->queue == NULL)
				continue;
			resetStringInfo(&event);
			append_event(&event, &records[i]);
			add_to_message(message, &event);
		}
		sent += n;
	} while (reader.more && sent < SEND_EVENTS);
	foreach (lc, messages)
		send_message(lfirst(lc));
	maintain_end(m);
	sending = false;
	last_sent = clock_now();
	stalled_until = reader.stalled ? last_sent + STALL_PAUSE : DT_NOEND;
	LWLockAcquire(&jobq_shared->event_lock, LW_EXCLUSIVE);
	/* not if the installation was replaced meanwhile */
	if (reader.after + 1 > m->db->event_sent)
		m->db->event_sent = reader.after + 1;
	LWLockRelease(&jobq_shared->event_lock);
	if (reader.more)
	{
		SpinLockAcquire(&m->db->mutex);
		m->db->events_new = true;
		SpinLockRelease(&m->db->mutex);
	}
}

void
events_undo(Maintain *m)
{
	if (!sending)
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->events_new = true;
	SpinLockRelease(&m->db->mutex);
	sending = false;
}

/* A queue has too many dead letters. */
TimestampTz
alarms_due(Maintain *m)
{
	return m->db->alarms ? DT_NOBEGIN : DT_NOEND;
}

static void
raise_alarm(DbSlot *db, QueueInfo *queue, int64 count)
{
	const char *hint =
		"SELECT * FROM jobq.dead_letters shows them and why they died; jobq.redrive() makes jobs of them again.";

	if (queue->alert_dead_interval > 0)
	{
		Interval interval = {.time = queue->alert_dead_interval};

		ereport(WARNING, (errmsg("queue \"%s\": " INT64_FORMAT " jobs have died within %s", queue->name, count,
								 DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&interval)))),
						  errdetail("The alarm (alert_dead) is set to %d.", queue->alert_dead), errhint("%s", hint)));
	}
	else
		ereport(WARNING, (errmsg("queue \"%s\" has " INT64_FORMAT " dead letters", queue->name, count),
						  errdetail("The alarm (alert_dead) is set to %d.", queue->alert_dead), errhint("%s", hint)));
	event_append(db, queue, EVENT_DEAD_ALARM, count);
}

void
alarms_run(Maintain *m)
{
	alarms = NIL;
	if (!maintain_begin(m))
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->alarms = false;
	SpinLockRelease(&m->db->mutex);
	for (int i = 0; i < jobq_max_queues; i++)
	{
		QueueSlot *slot = &jobq_queues[i];
		QueueInfo *queue;
		bool pending;
		int32 id;
		int64 count;

		if (!slot->alarm_pending || !maintain_slot_is_ours(m, slot))
			continue;
		MemoryContextSwitchTo(m->cycle);
		alarms = lappend(alarms, slot);
		MemoryContextSwitchTo(CurTransactionContext);
		SpinLockAcquire(&slot->mutex);
		pending = slot->alarm_pending;
		slot->alarm_pending = false;
		id = slot->queue_id;
		count = slot->alarm_count;
		SpinLockRelease(&slot->mutex);
		queue = pending ? meta_queue_by_id(id) : NULL;
		if (queue && queue->alert_dead > 0)
			raise_alarm(m->db, queue, count);
	}
	maintain_end(m);
	alarms = NIL;
}

void
alarms_undo(Maintain *m)
{
	ListCell *lc;

	foreach (lc, alarms)
	{
		QueueSlot *slot = lfirst(lc);

		SpinLockAcquire(&slot->mutex);
		if (maintain_slot_is_ours(m, slot))
			slot->alarm_pending = true;
		SpinLockRelease(&slot->mutex);
		m->db->alarms = true;
	}
	alarms = NIL;
}
