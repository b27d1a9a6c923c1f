/*-------------------------------------------------------------------------
 *
 * stats.c
 *		What the view jobq.queues shows of each queue.
 *
 * Counters come from shared memory where they are exact, and from the
 * tables otherwise. The oldest ready job is found from the claim cursors:
 * one look per priority, however many jobs wait. Nothing is written, and
 * only AccessShareLock is taken, so that this also works on a standby.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "cursor.h"
#include "guc.h"
#include "meta.h"
#include "spi.h"
#include "stats.h"
#include "store.h"
#include "timeutil.h"

PG_FUNCTION_INFO_V1(jobq_queue_counts);

#define COUNTS_COLUMNS 16

typedef struct QueueStats
{
	int32 id;
	bool exact;
	int64 counts[NUM_COUNTERS];
	TimestampTz next_due;     /* DT_NOBEGIN: not known */
	TimestampTz oldest_ready; /* DT_NOEND: none */
} QueueStats;

/* Ids of all queues, in order. */
static int
queue_ids(int32 **ids)
{
	static SpiStatement statement = {.sql = "SELECT id FROM jobq.queue ORDER BY id", .result = SPI_OK_SELECT};
	SpiScope scope;
	int n;
	bool isnull;

	spi_begin(&scope);
	n = (int) spi_run(&statement, NULL, NULL);
	*ids = MemoryContextAlloc(scope.caller, Max(n, 1) * sizeof(int32));
	for (int i = 0; i < n; i++)
		(*ids)[i] = DatumGetInt32(spi_value(i, 1, &isnull));
	spi_end(&scope);
	return n;
}

/* Reads a queue's slot. False: it has none. */
static bool
read_slot(DbSlot *db, QueueSlot *slot, QueueStats *stats)
{
	bool ours = false;

	stats->next_due = DT_NOBEGIN;
	if (slot == NULL)
		return false;
	SpinLockAcquire(&slot->mutex);
	if (slot->db_oid == MyDatabaseId && slot->queue_id == stats->id)
	{
		ours = true;
		stats->exact = slot->exact && !db->prepared;
		memcpy(stats->counts, slot->counts, sizeof(stats->counts));
		stats->next_due = slot->next_due;
	}
	SpinLockRelease(&slot->mutex);
	return ours;
}

/* Counts a queue's rows. */
static void
count_queue(QueueStats *stats)
{
	static SpiStatement statement = {
		.sql =
			"SELECT (SELECT count(*) FROM jobq.ready WHERE queue_id = $1 AND group_id IS NULL)"
			" + (SELECT count(*) FROM jobq.job_group g JOIN jobq.line l ON l.group_id = g.id WHERE g.queue_id = $1),"
			" (SELECT count(*) FROM jobq.delayed WHERE queue_id = $1 AND coalesce(group_id, 0) = 0),"
			" (SELECT count(*) FROM jobq.lease l CROSS JOIN LATERAL unnest(l.job_ids) u(id) JOIN jobq.job j ON j.id = u.id"
			" WHERE l.queue_id = $1),"
			" (SELECT count(*) FROM jobq.dead WHERE queue_id = $1),"
			" (SELECT visible_at FROM jobq.delayed WHERE queue_id = $1 ORDER BY visible_at LIMIT 1)",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {INT4OID}};
	Datum id = Int32GetDatum(stats->id);
	SpiScope scope;
	bool isnull;
	TimestampTz next_due;

	spi_begin(&scope);
	(void) spi_run(&statement, &id, NULL);
	for (int i = 0; i < NUM_GAUGES; i++)
		stats->counts[i] = DatumGetInt64(spi_value(0, i + 1, &isnull));
	next_due = DatumGetTimestampTz(spi_value(0, NUM_GAUGES + 1, &isnull));
	stats->next_due = isnull ? DT_NOEND : next_due;
	spi_end(&scope);
}

/* Makes a group's ticket look like one of the first job in its line. */
static bool
first_of_group(Snapshot snapshot, Ticket *ticket)
{
	StoreTable *line = store_open_read(TABLE_LINE);
	LineRow head;
	bool found = store_line_head(line, snapshot, ticket->group_id, ticket->from_ord, &head);

	store_close(line);
	ticket->job_id = head.job_id;
	ticket->job_tid = head.job_tid;
	return found;
}

/* Sets *oldest to the time at which the job of a lane's first visible ticket from lo to hi was made, if that is earlier. */
static void
look_at_first(StoreTable *ready, StoreTable *job, Snapshot snapshot, int32 queue_id, int lane, int priority, int64 lo,
			  int64 hi, TimestampTz *oldest)
{
	StoreScan scan;
	Ticket ticket;
	bool found;

	store_ready_scan(&scan, ready, snapshot, queue_id, lane, priority, lo, hi);
	found = store_scan_next(&scan);
	if (found)
		store_ticket_read(TABLE_READY, scan.slot, &ticket);
	store_scan_end(&scan);
	if (found && ticket.group_id > 0)
		found = first_of_group(snapshot, &ticket);
	if (found)
	{
		TupleTableSlot *slot = store_read_slot(job);

		if (store_job_fetch(job, snapshot, ticket.job_id, &ticket.job_tid, slot))
		{
			TimestampTz created = DatumGetTimestampTz(slot_value(slot, Anum_job_created));

			*oldest = Min(*oldest, created);
		}
		ExecDropSingleTupleTableSlot(slot);
	}
}

/* Sets *oldest to the time of the first ticket of a lane's priorities that is the oldest, if that is earlier. */
static void
oldest_of_lane(StoreTable *ready, StoreTable *job, Snapshot snapshot, QueueSlot *slot, int32 queue_id, int lane,
			   TimestampTz *oldest)
{
	uint32 lost;
	bool known = slot && cursor_lane_known(slot, lane, &lost);
	int above = PG_INT16_MIN - 1;
	int16 priority;
	CursorScan scan;

	for (;;)
	{
		int64 start = PG_INT64_MIN;

		CHECK_FOR_INTERRUPTS();
		if (known)
		{
			if (!cursor_first(slot, queue_id, lane, above, &scan))
				break;
			priority = scan.priority;
			start = scan.start;
			for (int i = 0; i < scan.nstanding; i++)
				look_at_first(ready, job, snapshot, queue_id, lane, priority, scan.standing[i].lo, scan.standing[i].hi,
							  oldest);
		}
		else if (!store_ready_next_priority(ready, snapshot, queue_id, lane, above, &priority))
			break;
		look_at_first(ready, job, snapshot, queue_id, lane, priority, start, PG_INT64_MAX, oldest);
		above = priority;
	}
}

static void
put_row(ReturnSetInfo *rsinfo, QueueStats *stats, TimestampTz totals_since)
{
	Datum values[COUNTS_COLUMNS];
	bool nulls[COUNTS_COLUMNS] = {false};
	int n = 0;

	values[n++] = Int32GetDatum(stats->id);
	for (int i = 0; i < NUM_COUNTERS; i++)
		values[n++] = Int64GetDatum(stats->counts[i]);
	nulls[n] = TIMESTAMP_IS_NOEND(stats->oldest_ready);
	values[n++] = TimestampTzGetDatum(stats->oldest_ready);
	nulls[n] = TIMESTAMP_NOT_FINITE(stats->next_due);
	values[n++] = TimestampTzGetDatum(stats->next_due);
	values[n++] = BoolGetDatum(stats->exact);
	values[n++] = TimestampTzGetDatum(totals_since);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * queue_counts() returns one row per queue: id, the counters in the order of JobqCounter, oldest_ready, next_due, exact (counters come
 * from shared memory), totals_since (the totals begin at 0 then).
 */
Datum
jobq_queue_counts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	DbSlot *db = meta_begin("queue_counts", VERB_READS);
	StoreTable *ready;
	StoreTable *job;
	int32 *ids;
	int n;
	bool all_exact = true;

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != COUNTS_COLUMNS)
		elog(ERROR, "queue_counts() must return %d columns", COUNTS_COLUMNS);
	n = queue_ids(&ids);
	ready = store_open_read(TABLE_READY);
	job = store_open_read(TABLE_JOB);
	for (int i = 0; i < n; i++)
	{
		QueueInfo *queue = meta_queue_by_id(ids[i]);
		QueueStats stats;
		Snapshot snapshot;

		CHECK_FOR_INTERRUPTS();
		if (queue == NULL)
			continue;
		memset(&stats, 0, sizeof(stats));
		stats.id = ids[i];
		(void) read_slot(db, queue->slot, &stats);
		all_exact &= stats.exact || queue->slot == NULL;
		if (!stats.exact)
			count_queue(&stats);
		snapshot = store_snapshot();
		stats.oldest_ready = DT_NOEND;
		if (stats.counts[COUNT_READY] > 0)
			for (int lane = 0; lane < NUM_LANES; lane++)
				oldest_of_lane(ready, job, snapshot, queue->slot, queue->id, lane, &stats.oldest_ready);
		store_snapshot_done(snapshot);
		put_row(rsinfo, &stats, db->totals_since);
	}
	store_close(job);
	store_close(ready);
	/* the scheduler makes them exact */
	if (!all_exact && jobq_enabled && !RecoveryInProgress() && meta_adopted())
		shmem_wake_scheduler(db);
	return (Datum) 0;
}
