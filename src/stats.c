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
#include "grant.h"
#include "guc.h"
#include "meta.h"
#include "spi.h"
#include "stats.h"
#include "store.h"
#include "timeutil.h"

PG_FUNCTION_INFO_V1(jobq_queue_counts);

/* The counters that queue_counts() shows: all but those of groups, which the metrics do. */
#define COUNTS_COLUMNS 18

/* Rates are told of no shorter time. */
#define SHORTEST_SAMPLE (USECS_PER_SEC / 2)

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

/*
 * Gives the sample of a slot's totals to measure from, which is old enough, and makes way for a new one. Whoever looks shares the two
 * samples with all others. Caller holds the slot's lock.
 */
static void
take_sample(QueueSlot *slot, TimestampTz now, TotalsSample *sample)
{
	TotalsSample *newest = &slot->samples[1];

	if (newest->at > now)
		memset(slot->samples, 0, sizeof(slot->samples)); /* the clock was set back */
	if (newest->at == 0 || now - newest->at >= SHORTEST_SAMPLE)
	{
		slot->samples[0] = *newest;
		newest->at = now;
		memcpy(newest->totals, &slot->counts[NUM_GAUGES], sizeof(newest->totals));
	}
	*sample = slot->samples[0];
}

/* Reads a queue's slot, if it has one. now: also takes a sample; DT_NOBEGIN: does not. */
static void
read_slot(DbSlot *db, QueueInfo *queue, TimestampTz now, QueueStats *stats)
{
	QueueSlot *slot = queue->slot;

	memset(stats, 0, sizeof(*stats));
	stats->queue = queue;
	stats->next_due = DT_NOBEGIN;
	stats->oldest_ready = DT_NOEND;
	if (slot == NULL)
		return;
	SpinLockAcquire(&slot->mutex);
	if (slot->db_oid == MyDatabaseId && slot->queue_id == queue->id)
	{
		stats->exact = slot->exact && !db->prepared;
		memcpy(stats->counts, slot->counts, sizeof(stats->counts));
		memcpy(stats->times, slot->times, sizeof(stats->times));
		stats->next_due = slot->next_due;
		stats->alarmed = slot->alarmed;
		if (!TIMESTAMP_IS_NOBEGIN(now))
			take_sample(slot, now, &stats->sample);
	}
	SpinLockRelease(&slot->mutex);
	stats->claims = pg_atomic_read_u64(&slot->claims);
	stats->claim_buffers = pg_atomic_read_u64(&slot->claim_buffers);
}

/* Counts a queue's rows. */
static void
count_queue(QueueStats *stats)
{
	static SpiStatement statement = {
		.sql =
			"SELECT (SELECT count(*) FROM jobq.ready WHERE queue_id = $1 AND group_id IS NULL)"
			" + (SELECT count(*) FROM jobq.job_group g JOIN jobq.line l ON l.group_id = g.id WHERE g.queue_id = $1),"
			" (SELECT count(*) FROM jobq.delayed WHERE queue_id = $1 AND coalesce(group_id, 0) = 0 AND visible_at < 'infinity'),"
			" (SELECT count(*) FROM jobq.lease l CROSS JOIN LATERAL unnest(l.job_ids) u(id) JOIN jobq.job j ON j.id = u.id"
			" WHERE l.queue_id = $1),"
			" (SELECT count(*) FROM jobq.dead WHERE queue_id = $1),"
			" (SELECT count(*) FROM jobq.job_group WHERE queue_id = $1),"
			" (SELECT count(*) FROM jobq.ready WHERE queue_id = $1 AND lane IN (2, 3)),"
			" (SELECT count(*) FROM jobq.lease WHERE queue_id = $1 AND group_id > 0),"
			" (SELECT count(*) FROM jobq.lease WHERE queue_id = $1 AND group_id > 0 AND drain),"
			" (SELECT count(*) FROM jobq.held WHERE queue_id = $1),"
			" (SELECT count(*) FROM jobq.delayed WHERE queue_id = $1 AND visible_at = 'infinity'),"
			" (SELECT visible_at FROM jobq.delayed WHERE queue_id = $1 ORDER BY visible_at LIMIT 1)",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {INT4OID}};
	Datum id = Int32GetDatum(stats->queue->id);
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

/* Looking for the first tickets of queues; the tables are opened once for all. */
typedef struct HeadLook
{
	StoreTable *ready;
	StoreTable *line; /* NULL: not needed yet */
	StoreTable *job;
	TupleTableSlot *slot; /* of job */
	Snapshot snapshot;
	QueueStats *stats;
} HeadLook;

/* Makes a group's ticket look like one of the first job in its line. */
static bool
first_of_group(HeadLook *l, Ticket *ticket)
{
	LineRow head;
	bool found;

	if (l->line == NULL)
		l->line = store_open_read(TABLE_LINE);
	found = store_line_head(l->line, l->snapshot, ticket->group_id, ticket->from_ord, &head);
	ticket->job_id = head.job_id;
	ticket->job_tid = head.job_tid;
	return found;
}

/* Looks at a lane's first visible ticket from lo to hi. start: of the claims' scan, PG_INT64_MIN: none. */
static void
look_at_first(HeadLook *l, int lane, int priority, int64 lo, int64 hi, int64 start)
{
	QueueStats *stats = l->stats;
	StoreScan scan;
	Ticket ticket = {.job_id = 0};
	bool found;

	store_ready_scan(&scan, l->ready, l->snapshot, stats->queue->id, lane, priority, lo, hi);
	found = store_scan_next(&scan);
	if (found)
		store_ticket_read(TABLE_READY, scan.slot, &ticket);
	store_scan_end(&scan);
	if (found && start != PG_INT64_MIN)
		stats->cursor_distance = Max(stats->cursor_distance, ticket.seq - start);
	if (found && ticket.group_id > 0)
		found = first_of_group(l, &ticket);
	if (found && store_job_fetch(l->job, l->snapshot, ticket.job_id, &ticket.job_tid, l->slot))
	{
		TimestampTz created = DatumGetTimestampTz(slot_value(l->slot, Anum_job_created));

		stats->oldest_ready = Min(stats->oldest_ready, created);
	}
}

/* Looks at the first tickets of a lane, one for each priority. */
static void
look_at_lane(HeadLook *l, int lane)
{
	QueueInfo *queue = l->stats->queue;
	uint32 lost;
	bool known = queue->slot && cursor_lane_known(queue->slot, lane, &lost);
	int above = PG_INT16_MIN - 1;
	int16 priority;
	CursorScan scan;

	for (;;)
	{
		int64 start = PG_INT64_MIN;

		CHECK_FOR_INTERRUPTS();
		if (known)
		{
			if (!cursor_first(queue->slot, queue->id, lane, above, &scan))
				break;
			priority = scan.priority;
			start = scan.start;
			l->stats->cursor_intervals += scan.nstanding;
			for (int i = 0; i < scan.nstanding; i++)
				look_at_first(l, lane, priority, scan.standing[i].lo, scan.standing[i].hi, PG_INT64_MIN);
		}
		else if (!store_ready_next_priority(l->ready, l->snapshot, queue->id, lane, above, &priority))
			break;
		look_at_first(l, lane, priority, start, PG_INT64_MAX, start);
		above = priority;
	}
}

/* Finds the oldest ready job of each queue that has any, and how far from the cursors the first tickets are. */
void
stats_heads(QueueStats *stats, int n)
{
	HeadLook l = {NULL};

	l.ready = store_open_read(TABLE_READY);
	l.job = store_open_read(TABLE_JOB);
	l.slot = store_read_slot(l.job);
	for (int i = 0; i < n; i++)
	{
		l.stats = &stats[i];
		if (l.stats->counts[COUNT_READY] == 0)
			continue;
		l.snapshot = store_snapshot();
		for (int lane = 0; lane < NUM_LANES; lane++)
			look_at_lane(&l, lane);
		store_snapshot_done(l.snapshot);
	}
	ExecDropSingleTupleTableSlot(l.slot);
	store_close(l.line);
	store_close(l.job);
	store_close(l.ready);
}

/* What is known of one queue without looking at its jobs. */
void
stats_counts(DbSlot *db, QueueInfo *queue, QueueStats *stats)
{
	read_slot(db, queue, DT_NOBEGIN, stats);
	if (!stats->exact)
		count_queue(stats);
}

/* The same for all queues that the current user may know of, in the order of their ids. now: also takes a sample of the totals; DT_NOBEGIN: does not. */
QueueStats *
stats_collect(DbSlot *db, TimestampTz now, int *n)
{
	int32 *ids;
	int queues = queue_ids(&ids);
	QueueStats *stats = MemoryContextAllocHuge(CurrentMemoryContext, Max(queues, 1) * sizeof(QueueStats));
	bool all_exact = true;

	*n = 0;
	for (int i = 0; i < queues; i++)
	{
		QueueInfo *queue = meta_queue_by_id(ids[i]);

		CHECK_FOR_INTERRUPTS();
		if (queue == NULL || !grant_has(queue, RIGHTS_SEE))
			continue;
		read_slot(db, queue, now, &stats[*n]);
		all_exact &= stats[*n].exact || queue->slot == NULL;
		if (!stats[*n].exact)
			count_queue(&stats[*n]);
		(*n)++;
	}
	/* the scheduler makes them exact */
	if (!all_exact && jobq_enabled && !RecoveryInProgress() && meta_adopted())
		shmem_wake_scheduler(db);
	return stats;
}

static void
put_row(ReturnSetInfo *rsinfo, QueueStats *stats, TimestampTz totals_since)
{
	static const JobqCounter states[] = {COUNT_READY, COUNT_DELAYED, COUNT_PENDING, COUNT_ACTIVE, COUNT_DEAD};
	Datum values[COUNTS_COLUMNS];
	bool nulls[COUNTS_COLUMNS] = {false};
	int n = 0;

	values[n++] = Int32GetDatum(stats->queue->id);
	for (int i = 0; i < lengthof(states); i++)
		values[n++] = Int64GetDatum(stats->counts[states[i]]);
	for (int i = TOTAL_ENQUEUED; i < NUM_COUNTERS; i++)
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
 * queue_counts() returns one row per queue that the current user may know of: id, jobs by state, totals, oldest_ready, next_due, exact
 * (counters come from shared memory), totals_since (the totals begin at 0 then).
 */
Datum
jobq_queue_counts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	DbSlot *db = meta_begin("queue_counts", VERB_READS);
	QueueStats *stats;
	int n;

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != COUNTS_COLUMNS)
		elog(ERROR, "queue_counts() must return %d columns", COUNTS_COLUMNS);
	stats = stats_collect(db, DT_NOBEGIN, &n);
	stats_heads(stats, n);
	for (int i = 0; i < n; i++)
		put_row(rsinfo, &stats[i], db->totals_since);
	pfree(stats);
	return (Datum) 0;
}
