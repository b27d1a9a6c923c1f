/*-------------------------------------------------------------------------
 *
 * jobadmin.c
 *		cancel, reschedule, run_now, delete_jobs: verbs about a job by its
 *		id, whoever has it.
 *
 * A waiting job belongs to who deletes its ticket. Where another transaction
 * has the ticket in hand, cancel, reschedule and delete_jobs wait for it and
 * look again, so that their answer holds: a job that was cancelled waiting
 * never starts. run_now passes over what it would have to wait for.
 *
 * Ids are taken in ascending order, so that two calls do not deadlock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "args.h"
#include "depend.h"
#include "event.h"
#include "grant.h"
#include "meta.h"
#include "retire.h"
#include "store.h"
#include "timeutil.h"
#include "turn.h"
#include "xact.h"

/* A job without ticket and lease is looked for this often before it is called damaged: it may be on its way from one to the other. */
#define MAX_LOOKS 1000

/* What a verb works with; the tables are open from first use to work_end. */
typedef struct Work
{
	Retire retire;
	StoreTable *lease;
	StoreTable *dead;
	StoreTable *history[NUM_TABLES - TABLE_HISTORY];
	TupleTableSlot *job; /* the job's row */
	QueueInfo *queue;
	Ticket ticket; /* that we deleted */
	StoreTable *line;
	bool stays; /* a job that leaves its line only to come back to its place: what its group waits for is not over */
	bool was_in_line; /* row tells where; it has no ticket of its own */
	LineRow row;
	Lease held;   /* lease that has the job */
	int position; /* of the job in it */
} Work;

typedef enum Standing
{
	STANDING_WAITING, /* its ticket is ours now; ticket, queue and job tell */
	STANDING_ACTIVE,  /* held and position tell */
	STANDING_NONE     /* no live job */
} Standing;

static void
work_begin(Work *w)
{
	memset(w, 0, sizeof(*w));
	retire_begin(&w->retire);
	w->job = store_read_slot(w->retire.job);
}

static void
work_end(Work *w)
{
	retire_end(&w->retire); /* may still read the job's row */
	ExecDropSingleTupleTableSlot(w->job);
	store_close(w->lease);
	store_close(w->line);
	store_close(w->dead);
	for (int i = 0; i < lengthof(w->history); i++)
		store_close(w->history[i]);
}

/* Reads a job's row with a new snapshot. False: there is no such live job. */
static bool
read_job(Work *w, int64 id)
{
	Snapshot snapshot = store_snapshot();
	bool found = store_job_fetch(w->retire.job, snapshot, id, NULL, w->job);

	store_snapshot_done(snapshot);
	if (found)
	{
		w->queue = meta_queue_by_id(DatumGetInt32(slot_value(w->job, Anum_job_queue_id)));
		found = w->queue != NULL;
	}
	return found;
}

/* Looks for the lease that has a job. */
static bool
find_lease(Work *w, int64 id)
{
	Snapshot snapshot = store_snapshot();
	bool found = store_lease_of_job(store_open_once(&w->lease, TABLE_LEASE), snapshot, id, &w->held, &w->position);

	store_snapshot_done(snapshot);
	return found;
}

/* Takes a waiting job's ticket. False: somebody moved it first. Waits for who has it in hand. */
static bool
take_ticket(Work *w)
{
	Retire *r = &w->retire;
	JobqTable from;
	TakeResult result = retire_take_ticket(r, w->queue, w->job, &w->ticket, &from);

	if (result == TAKE_NONE)
		return false;
	if (result == TAKE_BUSY)
	{
		if (store_delete(from == TABLE_READY ? r->ready : r->delayed, &w->ticket.tid, true) != TM_Ok)
			return false;
		/* the other one gave it back */
		if (from == TABLE_READY)
			xact_took_ready(w->queue, w->ticket.lane, w->ticket.priority, w->ticket.seq);
	}
	xact_count(w->queue, ticket_counter(from, &w->ticket), -1);
	return true;
}

/*
 * The group of a job that left the line may have waited for it: takes the group's ticket out of delayed then, and gives it back at commit.
 * Waits for who has it in hand. False: it does not wait, or for another.
 */
static bool
end_wait(Work *w, const text *key)
{
	StoreTable *delayed = store_open_once(&w->retire.delayed, TABLE_DELAYED);
	LineAfter after = {.lane = LANE_GROUP, .not_before = DT_NOBEGIN};
	Snapshot snapshot = store_snapshot();
	LineRow head;
	Ticket ticket;
	bool taken =
		store_ticket_of_group(TABLE_DELAYED, delayed, snapshot, w->row.group_id, &ticket) &&
		(!store_line_head(w->line, snapshot, w->row.group_id, ticket.from_ord, &head) || head.ord >= w->row.ord);

	store_snapshot_done(snapshot);
	if (!taken || store_delete(delayed, &ticket.tid, true) != TM_Ok)
		return false;
	after.from_ord = ticket.from_ord;
	line_let_go(w->queue, key, w->row.group_id, &after);
	return true;
}

/* Takes a job out of its group's line. False: it is not there. Waits for who is taking or cancelling it. */
static bool
leave_line(Work *w, int64 id)
{
	StoreTable *line = store_open_once(&w->line, TABLE_LINE);
	Snapshot snapshot;
	bool isnull;
	bool taken;
	Datum key = slot_datum(w->job, Anum_job_group_key, &isnull);

	w->was_in_line = false;
	if (isnull)
		return false;
	memset(&w->ticket, 0, sizeof(w->ticket));
	w->ticket.visible_at = DT_NOBEGIN;
	/* one that this transaction itself enqueued, or gave back, is not in line yet */
	if (line_forget(id, &w->row, &w->was_in_line))
	{
		w->ticket.attempt = w->row.attempt;
		return true;
	}
	snapshot = store_snapshot();
	taken = store_line_of_job(line, snapshot, id, &w->row);
	store_snapshot_done(snapshot);
	if (!taken || store_delete(line, &w->row.tid, true) != TM_Ok)
		return false;
	xact_count(w->queue, COUNT_READY, -1);
	if (w->stays || !end_wait(w, DatumGetTextPP(key)))
		line_left(w->queue, DatumGetTextPP(key), w->row.ord);
	w->ticket.attempt = w->row.attempt;
	w->was_in_line = true;
	return true;
}

/* What is left when somebody has changed rows by hand. */
static void
damaged(int64 id, const char *how)
{
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("job " INT64_FORMAT " %s", id, how),
					errhint("SELECT * FROM jobq.verify() tells what else is wrong.")));
}

/* Finds out where a job stands, and takes its ticket if it waits. Waits for whoever has the ticket in hand. */
static Standing
find_job(Work *w, int64 id)
{
	for (int looks = 0; looks < MAX_LOOKS; looks++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!read_job(w, id) || !grant_has(w->queue, RIGHT_MANAGE))
			return STANDING_NONE;
		if (take_ticket(w) || leave_line(w, id))
		{
			/* with the ticket in hand nobody else changes the row: now what is read is what is */
			if (!read_job(w, id))
				damaged(id, "has a ticket but no row");
			return STANDING_WAITING;
		}
		if (find_lease(w, id))
			return STANDING_ACTIVE;
	}
	damaged(id, "has neither a ticket nor a lease");
	return STANDING_NONE; /* keep compiler quiet */
}

typedef enum Finished
{
	FINISHED_FOUND,
	FINISHED_NOT_FOUND,
	FINISHED_LIVE /* it is a live job after all: look again */
} Finished;

/* A dead letter was deleted: a group that it blocks goes on. */
static void
forget_dead(QueueInfo *queue, int64 id, TupleTableSlot *dead)
{
	bool isnull;
	Datum key = slot_datum(dead, Anum_dead_group_key, &isnull);
	HeldRow held;

	xact_count(queue, COUNT_DEAD, -1);
	if (!isnull)
		(void) turn_unblock(queue, DatumGetTextPP(key), id, &held);
}

/* Whether the current user manages the queue of a row. Who does not is told that there is no such job. */
static bool
may_manage(StoreTable *t, TupleTableSlot *row)
{
	int attnum = t->which == TABLE_JOB    ? Anum_job_queue_id
				 : t->which == TABLE_DEAD ? Anum_dead_queue_id
										  : Anum_history_queue_id;

	return grant_has_id(DatumGetInt32(slot_value(row, attnum)), RIGHT_MANAGE);
}

/* Looks for a row of that id by an index on the id, and deletes it if asked to. */
static Finished
look_in(StoreTable *t, int index, Snapshot snapshot, int64 id, bool delete)
{
	ScanKeyData key;
	StoreScan scan;
	Finished result = FINISHED_NOT_FOUND;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	store_scan_begin(&scan, t, index, snapshot, &key, 1);
	if (store_scan_next(&scan) && may_manage(t, scan.slot))
	{
		ItemPointerData tid = scan.slot->tts_tid;
		int32 queue_id = t->which == TABLE_DEAD ? DatumGetInt32(slot_value(scan.slot, Anum_dead_queue_id)) : 0;

		result = FINISHED_FOUND;
		if (delete &&store_delete(t, &tid, true) != TM_Ok)
			result = FINISHED_LIVE; /* trimmed or redriven meanwhile */
		else if (delete &&t->which == TABLE_DEAD && meta_queue_by_id(queue_id))
			forget_dead(meta_queue_by_id(queue_id), id, scan.slot);
	}
	store_scan_end(&scan);
	return result;
}

/* Looks for a dead or finished job, and deletes it if asked to. */
static Finished
find_finished(Work *w, int64 id, bool delete)
{
	Snapshot snapshot = store_snapshot();
	Finished result;

	/* one snapshot for all places: a redrive moves it from one to another */
	if (store_job_fetch(w->retire.job, snapshot, id, NULL, w->job) &&
		meta_queue_by_id(DatumGetInt32(slot_value(w->job, Anum_job_queue_id))))
		result = may_manage(w->retire.job, w->job) ? FINISHED_LIVE : FINISHED_NOT_FOUND;
	else
		result = look_in(store_open_once(&w->dead, TABLE_DEAD), INDEX_DEAD_PKEY, snapshot, id, delete);
	for (int i = 0; i < lengthof(w->history) && result == FINISHED_NOT_FOUND; i++)
		result = look_in(store_open_once(&w->history[i], TABLE_HISTORY + i), INDEX_HISTORY_ID, snapshot, id, delete);
	store_snapshot_done(snapshot);
	return result;
}

/* Sets the job's bit in the lease that has it. False: the lease or the job is no longer what it was, look again. */
static bool
ask_holder_to_stop(Work *w, int64 id)
{
	uint64 bit = UINT64CONST(1) << w->position;

	if (store_lease_lock(w->lease, &w->held, LEASE_NO_KEY, true) != TM_Ok)
		return false;
	/* the lease stands still now; the job may have ended before that */
	if (!read_job(w, id))
		return false;
	if (w->held.cancel & bit)
		return true;
	w->held.cancel |= bit;
	return store_lease_update(w->lease, &w->held) == TM_Ok;
}

/*
 * cancel(job_id) -> 'cancelled': it waited, and never starts; 'running': its holder hears of it at its next extend; 'finished' (or dead);
 * 'not_found'. Waits for a transaction that has the job in hand. Error 22004 for a null id.
 */
PG_FUNCTION_INFO_V1(jobq_cancel);
Datum
jobq_cancel(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("cancel", VERB_WRITES);
	int64 id = arg_int64(fcinfo, 0, "job_id");
	const char *answer = NULL;
	Work w;

	xact_verb_begin(db);
	work_begin(&w);
	while (answer == NULL)
	{
		Attempt attempt;
		Finished finished;

		switch (find_job(&w, id))
		{
			case STANDING_WAITING:
				memset(&attempt, 0, sizeof(attempt));
				attempt.attempt = w.ticket.attempt;
				(void) retire_finish(&w.retire, w.queue, w.job, 'x', &attempt);
				answer = "cancelled";
				break;
			case STANDING_ACTIVE:
				if (ask_holder_to_stop(&w, id))
					answer = "running";
				break;
			case STANDING_NONE:
				finished = find_finished(&w, id, false);
				if (finished != FINISHED_LIVE)
					answer = finished == FINISHED_FOUND ? "finished" : "not_found";
				break;
		}
	}
	work_end(&w);
	xact_verb_end(false);
	PG_RETURN_TEXT_P(cstring_to_text(answer));
}

/* Error for a job that reschedule cannot move. */
static void
refuse_reschedule(Work *w, int64 id, Standing standing)
{
	if (standing == STANDING_ACTIVE)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("job " INT64_FORMAT " of queue \"%s\" is active", id, w->queue->name),
						errhint("Cancel it with jobq.cancel(), or wait until it ends.")));
	if (find_finished(w, id, false) == FINISHED_FOUND)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("job " INT64_FORMAT " is finished", id),
				 errhint("A dead letter goes back to work with jobq.redrive().")));
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("job " INT64_FORMAT " does not exist", id)));
}

/* Whether the ticket in hand is that of a job which waits for others. */
static bool
is_pending(const Work *w)
{
	return TIMESTAMP_IS_NOEND(w->ticket.visible_at);
}

/*
 * Replaces the job's row by one with another priority, or, of a job that waits for others, another time to run at; NULL: as it was.
 * Returns a slot with the new row, good until the next one is made.
 */
static TupleTableSlot *
change_row(Work *w, const int32 *priority, const TimestampTz *run_at)
{
	StoreTable *table = w->retire.job;
	TupleTableSlot *slot = store_slot(table, 0);
	ItemPointerData tid = w->job->tts_tid;

	slot_getallattrs(w->job);
	for (int i = 0; i < Natts_job; i++)
	{
		slot->tts_values[i] = w->job->tts_values[i];
		slot->tts_isnull[i] = w->job->tts_isnull[i];
	}
	if (priority)
		slot_set(slot, Anum_job_priority, Int16GetDatum((int16) *priority));
	if (run_at)
		slot_set(slot, Anum_job_run_at, TimestampTzGetDatum(*run_at));
	if (store_delete(table, &tid, true) != TM_Ok)
		damaged(DatumGetInt64(slot_value(w->job, Anum_job_id)), "changed without its ticket");
	store_insert(table, &slot, 1);
	return slot;
}

/* A job that left its group's line goes back to its place. job: its row, which may be new. */
static void
keep_place(Work *w, TupleTableSlot *job)
{
	bool isnull;

	w->row.priority = DatumGetInt16(slot_value(job, Anum_job_priority));
	w->row.job_tid = job->tts_tid;
	line_put_back(w->queue, DatumGetTextPP(slot_datum(job, Anum_job_group_key, &isnull)), &w->row);
}

/* A time to run at. Error 22023 when it is infinite or too far away. */
static TimestampTz
run_at_arg(FunctionCallInfo fcinfo, int argno)
{
	TimestampTz run_at = PG_GETARG_TIMESTAMPTZ(argno);

	if (TIMESTAMP_NOT_FINITE(run_at))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("run_at must be finite")));
	if (run_at > timestamp_add(clock_now(), JOBQ_MAX_DELAY_USECS))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("run_at is too far in the future"),
						errdetail("The longest delay allowed is " INT64_FORMAT " days.",
								  JOBQ_MAX_DELAY_USECS / USECS_PER_DAY)));
	return run_at;
}

/*
 * reschedule(job_id, run_at, priority): moves a waiting job; one that waits for others will start then, or later; null leaves a thing as it is, a run_at in the past means now. The job
 * keeps its attempts and goes to the end of its priority; in a group it keeps its place, unless it is to run later: then it joins again. Errors: 42704 unknown; 55000 active or finished; 22023 bad or no value.
 */
PG_FUNCTION_INFO_V1(jobq_reschedule);
Datum
jobq_reschedule(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("reschedule", VERB_WRITES);
	int64 id = arg_int64(fcinfo, 0, "job_id");
	int32 priority = arg_int32_range(fcinfo, 2, "priority", 0, PG_INT16_MIN, PG_INT16_MAX);
	TimestampTz run_at = PG_ARGISNULL(1) ? DT_NOBEGIN : run_at_arg(fcinfo, 1);
	TupleTableSlot *job;
	Standing standing;
	Work w;

	if (PG_ARGISNULL(1) && PG_ARGISNULL(2))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("nothing to change for job " INT64_FORMAT, id),
						errhint("Give run_at, priority or both.")));
	xact_verb_begin(db);
	work_begin(&w);
	w.stays = PG_ARGISNULL(1);
	standing = find_job(&w, id);
	if (standing != STANDING_WAITING)
		refuse_reschedule(&w, id, standing);
	job = w.job;
	if (!PG_ARGISNULL(2) || is_pending(&w))
		job = change_row(&w, PG_ARGISNULL(2) ? NULL : &priority, is_pending(&w) && !PG_ARGISNULL(1) ? &run_at : NULL);
	if (is_pending(&w))
		retire_requeue(&w.retire, w.queue, job, w.ticket.attempt, DT_NOEND);
	else if (w.was_in_line && (PG_ARGISNULL(1) || run_at <= w.retire.now))
		keep_place(&w, job);
	else
		retire_requeue(&w.retire, w.queue, job, w.ticket.attempt, PG_ARGISNULL(1) ? w.ticket.visible_at : run_at);
	if (!PG_ARGISNULL(1) && !is_pending(&w))
		event_job(w.queue, EVENT_WAITING, job, w.ticket.attempt,
				  run_at > w.retire.now ? run_at - w.retire.now : EVENT_NO_DELAY, NULL);
	work_end(&w);
	xact_verb_end(false);
	PG_RETURN_VOID();
}

/* Whether the group whose delayed ticket we found could not start a job before its time, whatever its first job waits for. */
static bool
waits_for_rate(Work *w, const text *key)
{
	GroupTables tables = {NULL};
	GroupSettings settings;
	bool waits = false;

	if (group_is_special(w->queue))
	{
		group_settings(&tables, w->queue, key, &settings);
		waits = settings.gap > 0 && group_rate_free(&tables, w->queue, key) >= w->ticket.visible_at;
		group_close(&tables);
	}
	return waits;
}

/* The first job of a group that waits for its backoff: the group need not wait any more, but for its rate. */
static bool
end_backoff(Work *w, int64 id)
{
	StoreTable *line = store_open_once(&w->line, TABLE_LINE);
	StoreTable *delayed = store_open_once(&w->retire.delayed, TABLE_DELAYED);
	LineAfter after = {.lane = LANE_GROUP, .not_before = DT_NOBEGIN};
	Snapshot snapshot;
	bool isnull;
	bool taken;
	Datum key = slot_datum(w->job, Anum_job_group_key, &isnull);

	if (isnull)
		return false;
	snapshot = store_snapshot();
	taken = store_line_of_job(line, snapshot, id, &w->row) &&
			store_ticket_of_group(TABLE_DELAYED, delayed, snapshot, w->row.group_id, &w->ticket) &&
			store_line_head(line, snapshot, w->row.group_id, w->ticket.from_ord, &w->row) && w->row.job_id == id &&
			!waits_for_rate(w, DatumGetTextPP(key)) && store_delete(delayed, &w->ticket.tid, false) == TM_Ok;
	store_snapshot_done(snapshot);
	if (!taken)
		return false;
	after.from_ord = w->ticket.from_ord;
	line_let_go(w->queue, DatumGetTextPP(key), w->row.group_id, &after);
	return true;
}

/* Makes a delayed or pending job ready. False: it is neither, or somebody has it in hand. */
static bool
run_now(Work *w, int64 id)
{
	StoreTable *delayed = store_open_once(&w->retire.delayed, TABLE_DELAYED);
	Snapshot snapshot;
	bool taken;

	if (!read_job(w, id) || !grant_has(w->queue, RIGHT_MANAGE))
		return false;
	if (end_backoff(w, id))
		return true;
	snapshot = store_snapshot();
	taken = store_ticket_find(TABLE_DELAYED, delayed, snapshot, id, w->queue->id, 0, &w->ticket) &&
			store_delete(delayed, &w->ticket.tid, false) == TM_Ok;
	store_snapshot_done(snapshot);
	if (!taken)
		return false;
	xact_count(w->queue, ticket_counter(TABLE_DELAYED, &w->ticket), -1);
	if (!read_job(w, id))
		damaged(id, "has a ticket but no row");
	if (is_pending(w))
		depend_left(w->job);
	retire_requeue(&w->retire, w->queue, w->job, w->ticket.attempt, w->retire.now);
	event_job(w->queue, EVENT_WAITING, w->job, w->ticket.attempt, EVENT_NO_DELAY, NULL);
	return true;
}

/* run_now(job_ids) -> how many delayed or pending jobs became ready; others are passed over. Waits for nobody. */
PG_FUNCTION_INFO_V1(jobq_run_now);
Datum
jobq_run_now(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("run_now", VERB_WRITES);
	int n;
	int64 *ids = arg_id_set(fcinfo, 0, "job_ids", &n);
	int64 count = 0;
	Work w;

	xact_verb_begin(db);
	work_begin(&w);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (run_now(&w, ids[i]))
			count++;
	}
	work_end(&w);
	xact_verb_end(false);
	PG_RETURN_INT64(count);
}

/* Deletes a job that nobody works on. False: there is none, or it is active. */
static bool
delete_job(Work *w, int64 id)
{
	for (;;)
	{
		Finished finished;

		switch (find_job(w, id))
		{
			case STANDING_WAITING:
				return retire_delete(&w->retire, w->queue, w->job);
			case STANDING_ACTIVE:
				return false;
			case STANDING_NONE:
				finished = find_finished(w, id, true);
				if (finished != FINISHED_LIVE)
					return finished == FINISHED_FOUND;
				break;
		}
	}
}

/*
 * delete_jobs(job_ids) -> how many waiting, finished or dead jobs were deleted; active and unknown ones are passed over. Waits for a
 * transaction that has one in hand.
 */
PG_FUNCTION_INFO_V1(jobq_delete_jobs);
Datum
jobq_delete_jobs(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("delete_jobs", VERB_WRITES);
	int n;
	int64 *ids = arg_id_set(fcinfo, 0, "job_ids", &n);
	int64 count = 0;
	Work w;

	xact_verb_begin(db);
	work_begin(&w);
	for (int i = 0; i < n; i++)
		if (delete_job(&w, ids[i]))
			count++;
	work_end(&w);
	xact_verb_end(false);
	PG_RETURN_INT64(count);
}
