/*-------------------------------------------------------------------------
 *
 * replace.c
 *		A new call takes the place of a waiting job's old content: enqueue
 *		with on_conflict => 'replace'.
 *
 * The job keeps its id, its key and the time it was first enqueued; all else
 * is as if it had been enqueued now. In a group it keeps its place unless it
 * is to start later. Earlier attempts were attempts at something else, so
 * they are forgotten.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/timestamp.h"

#include "depend.h"
#include "event.h"
#include "line.h"
#include "replace.h"
#include "retire.h"
#include "timeutil.h"
#include "waiting.h"
#include "xact.h"

/* The job goes back to where it waits. */
static void
put_back(Retire *r, QueueInfo *queue, TupleTableSlot *row, const text *old_group, Waited *w, TimestampTz visible_at)
{
	bool isnull;
	Datum key = slot_datum(row, Anum_job_group_key, &isnull);

	if (w->has_place && visible_at <= r->now && !isnull && old_group && same_key(DatumGetTextPP(key), old_group))
	{
		w->row.attempt = 0;
		w->row.priority = DatumGetInt16(slot_value(row, Anum_job_priority));
		w->row.job_tid = row->tts_tid;
		w->row.since = r->now;
		line_put_back(queue, DatumGetTextPP(key), &w->row);
		retire_waits(row);
	}
	else
		retire_requeue(r, queue, row, 0, visible_at);
}

/* Replaces the row of a job that is ours. */
static void
write_row(Retire *r, TupleTableSlot *job, TupleTableSlot *row)
{
	ItemPointerData tid = job->tts_tid;

	slot_set(row, Anum_job_id, slot_value(job, Anum_job_id));
	slot_set(row, Anum_job_created, slot_value(job, Anum_job_created));
	if (store_delete(r->job, &tid, true) != TM_Ok)
		elog(ERROR, "job " INT64_FORMAT " changed without its ticket", DatumGetInt64(slot_value(job, Anum_job_id)));
	depend_left(job);
	store_insert(r->job, &row, 1);
}

bool
replace_job(QueueInfo *queue, int64 job_id, TupleTableSlot *row, TimestampTz visible_at)
{
	Retire r;
	TupleTableSlot *job;
	Snapshot snapshot;
	Waited waited;
	bool isnull;
	Datum old_group;
	bool taken;

	retire_begin(&r);
	job = store_read_slot(r.job);
	snapshot = store_snapshot();
	taken = store_job_fetch(r.job, snapshot, job_id, NULL, job) &&
			DatumGetInt32(slot_value(job, Anum_job_queue_id)) == queue->id &&
			waiting_take(&r, queue, job, snapshot, &waited) == WAITING_TAKEN;
	if (taken)
	{
		slot_getallattrs(job);
		old_group = slot_datum(job, Anum_job_group_key, &isnull);
		write_row(&r, job, row);
		store_failures_delete(job_id);
		put_back(&r, queue, row, isnull ? NULL : DatumGetTextPP(old_group), &waited, visible_at);
		event_job(queue, EVENT_WAITING, row, 0, visible_at > r.now ? visible_at - r.now : EVENT_NO_DELAY, NULL);
	}
	store_snapshot_done(snapshot);
	ExecDropSingleTupleTableSlot(job);
	retire_end(&r);
	return taken;
}
