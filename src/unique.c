/*-------------------------------------------------------------------------
 *
 * unique.c
 *		Unique keys: who has one, taking one, and letting go of it.
 *
 * A duplicate writes nothing and locks nothing, with one exception. Where
 * the key is free from the start of its job on, a duplicate promises that
 * the job has not started: what the transaction wrote before is what the
 * job shall see. So the job's ticket is locked until that transaction ends,
 * and dequeues pass over it meanwhile.
 *
 * A window is written by who ends a claim, in the same transaction, so who
 * has got the key in the index sees every window of it, and only that one
 * may delete it. Windows that nobody asks for are collected (collect.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "due.h"
#include "timeutil.h"
#include "unique.h"
#include "xact.h"

/* A claim whose job has no ticket is looked at this often: the job may be on its way. */
#define MAX_LOOKS 1000

void
unique_begin(UniqueWork *u, QueueInfo *queue, StoreTable *job, bool wait)
{
	u->queue = queue;
	u->wait = wait;
	store_unique_begin(&u->looks, job);
	u->window = store_open(TABLE_UNIQUE_WINDOW);
	u->windows = store_windows_exist(u->window);
	/* made here, so that looks may run in a context that is reset */
	store_make_read_slot(job);
	store_make_read_slot(u->window);
}

void
unique_rest(UniqueWork *u)
{
	store_unique_end(&u->looks);
}

void
unique_end(UniqueWork *u)
{
	store_unique_end(&u->looks);
	store_close(u->window);
}

/* Locks a row against being deleted, until the transaction ends. Waits for who is about to. */
static bool
lock_row(StoreTable *t, ItemPointer tid, Snapshot snapshot)
{
	TupleTableSlot *slot = store_read_slot(t);
	TM_Result result = store_lock(t, tid, snapshot, slot, LockTupleKeyShare, true);

	ExecDropSingleTupleTableSlot(slot);
	return result == TM_Ok;
}

static bool
hold_ticket(QueueInfo *queue, JobqTable which, Snapshot snapshot, const UniqueHolder *holder)
{
	StoreTable *t = store_open(which);
	Ticket ticket;
	bool held = store_ticket_find(which, t, snapshot, holder->job_id, queue->id, holder->priority, &ticket) &&
				lock_row(t, &ticket.tid, snapshot);

	/* claims that pass over it are told at the end, whichever that is, to look again */
	if (held && which == TABLE_READY)
	{
		xact_took_ready(queue, ticket.lane, ticket.priority, ticket.seq);
		xact_made_ready(queue, ticket.lane, ticket.priority, ticket.seq, ticket.seq, 1);
	}
	else if (held)
		xact_made_delayed(queue, ticket.visible_at);
	store_close(t);
	return held;
}

static bool
hold_place(Snapshot snapshot, int64 job_id)
{
	StoreTable *line = store_open(TABLE_LINE);
	LineRow row;
	bool held = store_line_of_job(line, snapshot, job_id, &row) && lock_row(line, &row.tid, snapshot);

	store_close(line);
	return held;
}

/* Keeps a waiting job from being started until this transaction ends. False: it was started, or moved, meanwhile. */
static bool
hold_back(QueueInfo *queue, const UniqueHolder *holder)
{
	Snapshot snapshot = store_snapshot(); /* one for all places: a job moves from one to another */
	bool held = hold_ticket(queue, TABLE_READY, snapshot, holder) ||
				hold_ticket(queue, TABLE_DELAYED, snapshot, holder) || hold_place(snapshot, holder->job_id);

	store_snapshot_done(snapshot);
	return held;
}

text *
unique_next(UniqueWork *u, const text *from, const text *to)
{
	return store_unique_next(&u->looks, u->queue->id, from, to);
}

/* One that is over is left. */
bool
unique_has_window(UniqueWork *u, const text *key, int64 for_job, int64 *holder)
{
	Snapshot snapshot;
	UniqueWindow row;
	bool found;

	if (!u->windows)
		return false;
	snapshot = store_snapshot();
	found = store_window_find(u->window, snapshot, u->queue->id, key, &row);
	store_snapshot_done(snapshot);
	*holder = row.job_id;
	return found && row.job_id != for_job && row.until > clock_now();
}

bool
unique_is_free(UniqueWork *u, const text *key, int64 for_job, int64 *holder)
{
	for (int looks = 1;; looks++)
	{
		UniqueHolder found;

		switch (store_unique_look(&u->looks, u->queue->id, key, u->wait, &found))
		{
			case UNIQUE_LOOK_BUSY:
				*holder = 0;
				return false;
			case UNIQUE_LOOK_FREE:
				return !unique_has_window(u, key, for_job, holder);
			case UNIQUE_LOOK_TAKEN:
				*holder = found.job_id;
				if (found.mine || !found.until_started || !u->wait || looks > MAX_LOOKS || hold_back(u->queue, &found))
					return false;
				break;
		}
	}
}

/* The key is ours: a window that keeps it came since it was looked at; one that is over goes. */
static bool
end_window(UniqueWork *u, const text *key, int64 for_job)
{
	Snapshot snapshot;
	UniqueWindow row;
	bool came = false;

	/* who had the key may have made the first one */
	u->windows = u->windows || store_windows_exist(u->window);
	if (!u->windows)
		return false;
	snapshot = store_snapshot();
	if (store_window_find(u->window, snapshot, u->queue->id, key, &row))
	{
		came = row.job_id != for_job && row.until > clock_now();
		/* the scheduler may be at it, too */
		if (!came)
			(void) store_delete(u->window, &row.tid, true);
	}
	store_snapshot_done(snapshot);
	return came;
}

bool
unique_window_came(UniqueWork *u, const text *key)
{
	return u->windows && end_window(u, key, 0);
}

/* Asked while the row is in the index, but may still vanish. */
static bool
no_window(void *arg, TupleTableSlot *row)
{
	bool isnull;
	Datum key = slot_datum(row, Anum_job_unique_key, &isnull);

	return !end_window(arg, DatumGetTextPP(key), DatumGetInt64(slot_value(row, Anum_job_id)));
}

bool
unique_insert(UniqueWork *u, StoreTable *job, TupleTableSlot *row)
{
	return store_insert_unique(job, INDEX_JOB_UNIQUE_KEY, row, no_window, u);
}

void
unique_release(StoreTable **window, TupleTableSlot *job, TimestampTz now)
{
	bool isnull;
	bool no_scope;
	Datum until = slot_datum(job, Anum_job_unique_until, &isnull);
	Datum started = slot_datum(job, Anum_job_unique_started, &no_scope);

	/* without a window the row's own end says it all; one that has started has said it before */
	if (isnull || DatumGetTimestampTz(until) <= now || (!no_scope && DatumGetBool(started)))
		return;
	store_window_insert(store_open_once(window, TABLE_UNIQUE_WINDOW), DatumGetInt32(slot_value(job, Anum_job_queue_id)),
						DatumGetTextPP(slot_value(job, Anum_job_unique_key)),
						DatumGetInt64(slot_value(job, Anum_job_id)), DatumGetTimestampTz(until));
	due_window(DatumGetTimestampTz(until));
}

void
unique_start(StoreTable *table, StoreTable **window, TupleTableSlot *job, TimestampTz now)
{
	TupleTableSlot *row = store_slot(table, 0);
	ItemPointerData tid = job->tts_tid;
	bool isnull;

	if (DatumGetBool(slot_datum(job, Anum_job_unique_started, &isnull)))
		return;
	unique_release(window, job, now);
	slot_getallattrs(job);
	for (int i = 0; i < Natts_job; i++)
	{
		row->tts_values[i] = job->tts_values[i];
		row->tts_isnull[i] = job->tts_isnull[i];
	}
	slot_set(row, Anum_job_unique_started, BoolGetDatum(true));
	if (store_update(table, &tid, row) != TM_Ok)
		elog(ERROR, "job " INT64_FORMAT " changed without its ticket", DatumGetInt64(slot_value(job, Anum_job_id)));
	job->tts_tid = row->tts_tid;
}
