/*-------------------------------------------------------------------------
 *
 * event.c
 *		The buffer of events: a ring in shared memory, no table and no WAL.
 *
 * A transaction keeps its events to itself, by subtransaction, as xact.c
 * does with what it owes. They get their places in the ring in pre-commit,
 * reserved, and are made public after the commit; readers stop at one that
 * is reserved. So whoever acts on what a commit shows has its events behind
 * those of that commit; places taken after the commit could be overtaken.
 * A commit that takes long (it may wait for a standby) is passed over after
 * STALL, and its events then stand behind those that came meanwhile.
 *
 * Bounded everywhere: a full ring forgets its oldest, a transaction with
 * too many keeps the first ones. Readers are told what they have missed.
 * PREPARE TRANSACTION loses its events, for COMMIT PREPARED has no callback.
 *
 * The callback is registered before that of xact.c, hence runs after it:
 * what a group is owed (line.c) is paid by then, and noted here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "event.h"
#include "guc.h"
#include "pending.h"
#include "timeutil.h"
#include "waitjob.h"

/* Events of one transaction that are kept; and entries that count those that are not, one per queue. */
#define PENDING_EVENTS 4096
#define PENDING_LOST 16
/* Longest time that readers wait for a commit that has places. */
#define STALL USECS_PER_SEC
/* Records that a reader looks at while it holds the lock. */
#define READ_WALK 1024

typedef struct PendingEvent
{
	SubTransactionId subid;
	EventRecord record;
} PendingEvent;

static PendingList events = {NULL, sizeof(PendingEvent), 0, 0};
static int reserved = 0;          /* the first so many have places, one after the other */
static uint64 reserved_place = 0; /* of the first one */
static DbSlot *events_db = NULL;
static DbSlot *once_db = NULL;
static TimestampTz once_expires = DT_NOEND; /* earliest end of a record of once() made here */

#define EVENT(i) (&((PendingEvent *) events.items)[i])
#define RING(place) (&jobq_event_ring[(place) % jobq_event_buffer])

/* How many events a transaction may keep: no more than half of the ring. */
static int
pending_limit(void)
{
	return Min(PENDING_EVENTS, jobq_event_buffer / 2);
}

/* Copies a text, cut at a character's end; returns its bytes. */
static int
copy_text(char *to, int room, const text *from)
{
	int bytes;

	if (from == NULL)
		return 0;
	bytes = VARSIZE_ANY_EXHDR(from);
	if (bytes > room)
		bytes = pg_mbcliplen(VARDATA_ANY(from), bytes, room);
	memcpy(to, VARDATA_ANY(from), bytes);
	return bytes;
}

static void
init_record(EventRecord *record, QueueInfo *queue, EventKind kind)
{
	record->db_oid = MyDatabaseId;
	record->queue_id = queue->id;
	record->slot = queue->slot ? queue->slot - jobq_queues : -1;
	record->kind = kind;
	record->attempt = record->max_attempts = -1;
	record->delay = EVENT_NO_DELAY;
	record->count = -1;
}

/* Counts an event that the transaction has no room for. */
static void
count_lost(QueueInfo *queue)
{
	int limit = pending_limit();
	EventRecord *record = NULL;

	for (int i = limit; i < events.n; i++)
		if (EVENT(i)->record.queue_id == queue->id || i == limit + PENDING_LOST - 1)
			record = &EVENT(i)->record;
	if (record == NULL)
	{
		PendingEvent *event = list_add(&events);

		event->subid = GetCurrentSubTransactionId();
		record = &event->record;
		init_record(record, queue, EVENT_LOST);
		record->count = 0;
	}
	record->count++;
}

/* A new event of this transaction, or NULL when it has too many. */
static EventRecord *
note(QueueInfo *queue, EventKind kind)
{
	PendingEvent *event;

	events_db = meta_db();
	if (events.n >= pending_limit())
	{
		count_lost(queue);
		return NULL;
	}
	event = list_add(&events);
	event->subid = GetCurrentSubTransactionId();
	init_record(&event->record, queue, kind);
	return &event->record;
}

static const text *
text_of(TupleTableSlot *job, int attnum)
{
	bool isnull;
	Datum datum = slot_datum(job, attnum, &isnull);

	return isnull ? NULL : DatumGetTextPP(datum);
}

/* Notes what happened to a job. */
void
event_note_job(QueueInfo *queue, EventKind kind, TupleTableSlot *job, int32 attempt, int64 delay, const text *error)
{
	EventRecord *record = note(queue, kind);

	if (record == NULL)
		return;
	record->job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	record->attempt = attempt;
	record->max_attempts = DatumGetInt32(slot_value(job, Anum_job_max_attempts));
	record->delay = delay;
	record->name_bytes = copy_text(record->name, sizeof(record->name), text_of(job, Anum_job_name));
	record->key_bytes = copy_text(record->key, sizeof(record->key), text_of(job, Anum_job_group_key));
	record->error_bytes = copy_text(record->error, sizeof(record->error), error);
}

/* Notes what happened to a group. */
void
event_note_group(QueueInfo *queue, EventKind kind, const text *key, int64 dead_job)
{
	EventRecord *record = note(queue, kind);

	if (record == NULL)
		return;
	record->job_id = dead_job;
	record->key_bytes = copy_text(record->key, sizeof(record->key), key);
}

/* Notes that a record of once() ends at a time: then it is to be looked for, if this transaction commits. */
void
event_once_expires(DbSlot *db, TimestampTz expires)
{
	once_db = db;
	once_expires = Min(once_expires, expires);
}

/* Gives a record the next place. Caller holds event_lock exclusively. */
static void
put(DbSlot *db, EventRecord *record, EventState state, TimestampTz now)
{
	EventRecord *old = RING(jobq_shared->event_next);

	if (old->db_oid != InvalidOid && old->state == EVENT_PUBLIC && old->slot >= 0 &&
		jobq_queues[old->slot].queue_id == old->queue_id && jobq_queues[old->slot].db_oid == old->db_oid)
		jobq_queues[old->slot].event_gone = old->position;
	record->place = jobq_shared->event_next++;
	record->position = db->event_next++;
	record->at = now;
	record->state = state;
	*old = *record;
}

/* Has the scheduler send what is new. */
static void
tell_scheduler(DbSlot *db)
{
	bool first;

	SpinLockAcquire(&db->mutex);
	first = !db->events_new;
	db->events_new = true;
	SpinLockRelease(&db->mutex);
	if (first)
		shmem_wake_scheduler(db);
}

/* An event that belongs to no transaction. */
void
event_append(DbSlot *db, QueueInfo *queue, EventKind kind, int64 count)
{
	EventRecord record;

	memset(&record, 0, sizeof(record));
	init_record(&record, queue, kind);
	record.count = count;
	LWLockAcquire(&jobq_shared->event_lock, LW_EXCLUSIVE);
	put(db, &record, EVENT_PUBLIC, GetCurrentTimestamp());
	LWLockRelease(&jobq_shared->event_lock);
	tell_scheduler(db);
}

/* Takes places for all events of the transaction. */
static void
reserve(void)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&jobq_shared->event_lock, LW_EXCLUSIVE);
	reserved_place = jobq_shared->event_next;
	for (int i = 0; i < events.n; i++)
		put(events_db, &EVENT(i)->record, EVENT_RESERVED, now);
	LWLockRelease(&jobq_shared->event_lock);
	reserved = events.n;
}

/* Makes the transaction's events public, or its places void. Those whose places others have taken meanwhile get new ones. */
static void
publish(bool committed)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&jobq_shared->event_lock, LW_EXCLUSIVE);
	for (int i = 0; i < events.n; i++)
	{
		EventRecord *record = i < reserved ? RING(reserved_place + i) : NULL;

		if (record && record->place == reserved_place + i && record->state == EVENT_RESERVED)
			record->state = committed ? EVENT_PUBLIC : EVENT_VOID;
		else if (committed)
			put(events_db, &EVENT(i)->record, EVENT_PUBLIC, now);
	}
	LWLockRelease(&jobq_shared->event_lock);
	tell_scheduler(events_db);
}

static void
forget(void)
{
	events.n = 0;
	reserved = 0;
	once_expires = DT_NOEND;
	/* a transaction with many events is an exception, and they are large */
	if (events.room > 128)
	{
		pfree(events.items);
		events.items = NULL;
		events.room = 0;
	}
}

/* Has the scheduler look for the record of once() that ends first. */
static void
announce_once(void)
{
	bool sooner;

	SpinLockAcquire(&once_db->mutex);
	sooner = once_expires < once_db->once_next;
	if (sooner)
		once_db->once_next = once_expires;
	SpinLockRelease(&once_db->mutex);
	if (sooner)
		shmem_wake_scheduler(once_db);
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (events.n > 0)
				reserve();
			break;
		case XACT_EVENT_COMMIT:
			if (events.n > 0)
				publish(true);
			if (!TIMESTAMP_IS_NOEND(once_expires))
				announce_once();
			forget();
			waitjob_at_commit();
			break;
		case XACT_EVENT_ABORT:
			if (reserved > 0)
				publish(false);
			forget();
			waitjob_forget();
			break;
		case XACT_EVENT_PREPARE:
			forget();
			waitjob_forget();
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int n = events.n;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	while (n > 0 && EVENT(n - 1)->subid == subid)
		EVENT(--n)->subid = parent;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		events.n = n;
}

/* Where the reader's next event is, or would be. Caller holds event_lock. */
static uint64
find_place(const EventReader *r, uint64 position)
{
	uint64 next = jobq_shared->event_next;
	uint64 oldest = next > jobq_event_buffer ? next - jobq_event_buffer : 0;
	uint64 behind = r->db->event_next - position; /* of this database; the others' come on top */
	uint64 place = next - oldest > behind ? next - behind : oldest;

	while (place > oldest && !(RING(place)->db_oid == MyDatabaseId && RING(place)->position <= position))
		place--;
	return place;
}

/* Notes that the positions from first to before the given one are not to be had. */
static void
note_gap(EventReader *r, uint64 first, uint64 position)
{
	if (position == first)
		return;
	/* others' events that have made way do not matter */
	if (r->slot && r->slot->queue_id == r->queue_id && r->slot->event_gone < first)
		return;
	r->lost = true;
	r->lost_count = position - first;
}

/* Declares an event void whose commit takes too long. */
static void
give_up(uint64 place)
{
	LWLockAcquire(&jobq_shared->event_lock, LW_EXCLUSIVE);
	if (RING(place)->place == place && RING(place)->state == EVENT_RESERVED)
		RING(place)->state = EVENT_VOID;
	LWLockRelease(&jobq_shared->event_lock);
}

/* Whether a commit that has a place takes too long for its readers. */
static bool
is_hung(const EventRecord *record)
{
	TimestampTz now = GetCurrentTimestamp();

	return now - record->at > STALL || record->at - now > STALL;
}

/*
 * Copies the next events, at most max, and moves the reader behind them, and behind those of other queues. Call it again while it says
 * that there are more.
 */
int
event_read(EventReader *r, EventRecord *records, int max)
{
	DbSlot *db = r->db;
	bool begun = r->after == 0; /* nothing to be missed before the first one */
	bool hung = false;
	uint64 position;
	uint64 place;
	uint64 end;
	int walked = 0;
	int n = 0;

	r->lost = r->stalled = r->more = false;
	LWLockAcquire(&jobq_shared->event_lock, LW_SHARED);
	if (!begun && (r->after + 1 < db->event_first || r->after >= db->event_next))
	{
		/* of a time before the last start */
		r->lost = begun = true;
		r->lost_count = -1;
		r->after = 0;
	}
	position = begun ? db->event_first : r->after + 1;
	r->lost_before = db->event_next;
	end = jobq_shared->event_next;
	place = position < db->event_next ? find_place(r, position) : end;
	for (; place < end; place++)
	{
		EventRecord *record = RING(place);

		if (record->db_oid != MyDatabaseId || record->position < position)
			continue;
		if (r->lost_before > record->position)
			r->lost_before = record->position;
		if (!begun)
			note_gap(r, position, record->position);
		begun = true;
		r->stalled = record->state == EVENT_RESERVED;
		hung = r->stalled && is_hung(record);
		r->more = n == max || ++walked > READ_WALK || hung;
		if (r->stalled || r->more)
			break;
		r->after = record->position;
		if (record->state == EVENT_PUBLIC && (r->queue_id == 0 || record->queue_id == r->queue_id))
			records[n++] = *record;
	}
	if (!begun && position < db->event_next)
		note_gap(r, position, db->event_next);
	if (!begun || r->lost)
		r->after = Max(r->after, r->lost_before - 1);
	LWLockRelease(&jobq_shared->event_lock);
	if (hung)
	{
		give_up(place);
		r->stalled = false;
	}
	return n;
}

/* Registers the callbacks. Called once, from _PG_init. */
void
event_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
