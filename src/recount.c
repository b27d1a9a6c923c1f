/*-------------------------------------------------------------------------
 *
 * recount.c
 *		Counts the tables when the counters in shared memory are not theirs:
 *		after a start, for a queue that is new to shared memory, and when
 *		prepared transactions have taken changes along.
 *
 * The count is that of one snapshot, which is published under count_lock.
 * Every commit applies its changes to the counters, and while a recount
 * runs also to recount[] if the published snapshot does not show it. So the
 * count plus recount[] is exact at the moment it is put in place. A commit
 * that the snapshot shows, but that comes to apply its changes only after
 * that, leaves them out: the snapshot stays published.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "alert.h"
#include "guc.h"
#include "maintain.h"
#include "meta.h"
#include "spi.h"
#include "timeutil.h"

#define RETRY_FIRST USECS_PER_SEC
#define RETRY_LONGEST (60 * USECS_PER_SEC)

/* The gauges of one queue, in the order of JobqCounter. */
typedef struct Count
{
	QueueSlot *slot;
	int32 queue_id;
	int32 alert_dead; /* alarm at so many dead letters; 0: none */
	int64 gauges[NUM_GAUGES];
} Count;

static bool slots_made = false; /* every queue was given a slot by this process */
static TimestampTz not_before = DT_NOBEGIN;
static TimestampTz waiting_since = DT_NOEND;
static bool publishing = false;
static bool took_prepared = false;

TimestampTz
recount_due(Maintain *m)
{
	bool needed = !slots_made || m->db->prepared;

	for (int i = 0; i < jobq_max_queues && !needed; i++)
		needed = maintain_slot_is_ours(m, &jobq_queues[i]) && !jobq_queues[i].exact;
	return needed ? not_before : DT_NOEND;
}

/* What has to be waited for is asked for ever more seldom. */
static void
retry_later(void)
{
	TimestampTz now = clock_now();

	if (TIMESTAMP_IS_NOEND(waiting_since) || waiting_since > now)
		waiting_since = now;
	not_before = now + Min(Max(RETRY_FIRST, (now - waiting_since) / 10), RETRY_LONGEST);
}

/*
 * Whether a prepared transaction is open that has written to our tables: it holds their locks, and a lock without a process is a
 * prepared transaction's. Those of others may stay for ever.
 */
static bool
prepared_open(void)
{
	static SpiStatement statement = {
		.sql = "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
			   " WHERE EXISTS (SELECT FROM pg_prepared_xacts) AND l.pid IS NULL AND l.mode = 'RowExclusiveLock'"
			   " AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
			   " AND c.relnamespace = 'jobq'::regnamespace LIMIT 1",
		.result = SPI_OK_SELECT};
	SpiScope scope;
	bool open;

	spi_begin(&scope);
	open = spi_run(&statement, NULL, NULL) > 0;
	spi_end(&scope);
	return open;
}

/*
 * Takes a snapshot and publishes it. NULL: it has too many transactions in progress. The snapshot is registered.
 */
static Snapshot
publish_snapshot(DbSlot *db)
{
	Snapshot snapshot;
	bool fits;

	LWLockAcquire(&db->count_lock, LW_EXCLUSIVE);
	/* allocates nothing: GetLatestSnapshot fills a static snapshot whose arrays exist since this transaction's first ones */
	snapshot = GetLatestSnapshot();
	fits = snapshot->xcnt <= RECOUNT_MAX_XIDS;
	if (fits)
	{
		db->recount_id++;
		db->recount_next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
		db->recount_xmin = snapshot->xmin;
		db->recount_xmax = snapshot->xmax;
		db->recount_nxids = snapshot->xcnt;
		memcpy(db->recount_xids, snapshot->xip, snapshot->xcnt * sizeof(TransactionId));
		for (int i = 0; i < jobq_max_queues; i++)
		{
			QueueSlot *slot = &jobq_queues[i];

			SpinLockAcquire(&slot->mutex);
			if (slot->db_oid == MyDatabaseId)
				memset(slot->recount, 0, sizeof(slot->recount));
			SpinLockRelease(&slot->mutex);
		}
		db->recounting = publishing = true;
	}
	LWLockRelease(&db->count_lock);
	return fits ? RegisterSnapshot(snapshot) : NULL;
}

/* The slots to count, in m->cycle. */
static int
slots_to_count(Maintain *m, bool all, Count **counts)
{
	int n = 0;

	*counts = MemoryContextAllocHuge(m->cycle, jobq_max_queues * sizeof(Count));
	for (int i = 0; i < jobq_max_queues; i++)
	{
		QueueSlot *slot = &jobq_queues[i];
		QueueInfo *queue;

		if (!maintain_slot_is_ours(m, slot) || (slot->exact && !all))
			continue;
		memset(&(*counts)[n], 0, sizeof(Count));
		(*counts)[n].slot = slot;
		(*counts)[n].queue_id = slot->queue_id;
		queue = meta_queue_by_id(slot->queue_id);
		if (queue && queue->alert_dead_interval == 0)
			(*counts)[n].alert_dead = queue->alert_dead;
		n++;
	}
	return n;
}

static int
compare_counts(const void *a, const void *b)
{
	int32 x = ((const Count *) a)->queue_id;
	int32 y = ((const Count *) b)->queue_id;

	return x < y ? -1 : x > y;
}

static void
store_row(Count *counts, int n, uint64 row)
{
	Count key = {0};
	Count *count;
	bool isnull;

	key.queue_id = DatumGetInt32(spi_value(row, 2, &isnull));
	count = bsearch(&key, counts, n, sizeof(Count), compare_counts);
	if (count)
		count->gauges[DatumGetInt32(spi_value(row, 1, &isnull))] = DatumGetInt64(spi_value(row, 3, &isnull));
}

/* Counts the queues' rows as the snapshot shows them. */
static void
count_rows(Snapshot snapshot, Count *counts, int n)
{
	static SPIPlanPtr plan = NULL;
	Oid types[1] = {INT4ARRAYOID};
	Datum *ids = palloc(n * sizeof(Datum));
	Datum value;
	SpiScope scope;

	qsort(counts, n, sizeof(Count), compare_counts);
	for (int i = 0; i < n; i++)
		ids[i] = Int32GetDatum(counts[i].queue_id);
	value = PointerGetDatum(construct_array(ids, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));

	spi_begin(&scope);
	if (plan == NULL)
	{
		plan = SPI_prepare(
			"SELECT 0, r.queue_id, sum(r.n)::bigint FROM ("
			" SELECT queue_id, count(*) AS n FROM jobq.ready WHERE queue_id = ANY ($1) AND group_id IS NULL GROUP BY queue_id"
			" UNION ALL SELECT g.queue_id, count(*) FROM jobq.job_group g JOIN jobq.line l ON l.group_id = g.id"
			" WHERE g.queue_id = ANY ($1) GROUP BY g.queue_id) r GROUP BY r.queue_id"
			" UNION ALL SELECT 1, queue_id, count(*) FROM jobq.delayed WHERE queue_id = ANY ($1)"
			" AND coalesce(group_id, 0) = 0 AND visible_at < 'infinity' GROUP BY queue_id"
			" UNION ALL SELECT 2, l.queue_id, count(*) FROM jobq.lease l CROSS JOIN LATERAL unnest(l.job_ids) u(id)"
			" JOIN jobq.job j ON j.id = u.id WHERE l.queue_id = ANY ($1) GROUP BY l.queue_id"
			" UNION ALL SELECT 3, queue_id, count(*) FROM jobq.dead WHERE queue_id = ANY ($1) GROUP BY queue_id"
			" UNION ALL SELECT 4, queue_id, count(*) FROM jobq.job_group WHERE queue_id = ANY ($1) GROUP BY queue_id"
			" UNION ALL SELECT 5, queue_id, count(*) FROM jobq.ready WHERE queue_id = ANY ($1) AND lane IN (2, 3)"
			" GROUP BY queue_id"
			" UNION ALL SELECT 6, queue_id, count(*) FROM jobq.lease WHERE queue_id = ANY ($1) AND group_id > 0 GROUP BY queue_id"
			" UNION ALL SELECT 7, queue_id, count(*) FROM jobq.lease WHERE queue_id = ANY ($1) AND group_id > 0 AND drain"
			" GROUP BY queue_id"
			" UNION ALL SELECT 8, queue_id, count(*) FROM jobq.held WHERE queue_id = ANY ($1) GROUP BY queue_id"
			" UNION ALL SELECT 9, queue_id, count(*) FROM jobq.delayed WHERE queue_id = ANY ($1)"
			" AND visible_at = 'infinity' GROUP BY queue_id",
			1, types);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare the count: %s", SPI_result_code_string(SPI_result));
	}
	if (SPI_execute_snapshot(plan, &value, NULL, snapshot, InvalidSnapshot, true, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not count: %s", SPI_result_code_string(SPI_result));
	for (uint64 row = 0; row < SPI_processed; row++)
		store_row(counts, n, row);
	spi_end(&scope);
}

/* Puts the counts in place. */
static void
install(Maintain *m, Count *counts, int n)
{
	LWLockAcquire(&m->db->count_lock, LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
	{
		QueueSlot *slot = counts[i].slot;

		SpinLockAcquire(&slot->mutex);
		if (maintain_slot_is_ours(m, slot) && slot->queue_id == counts[i].queue_id)
		{
			for (int g = 0; g < NUM_GAUGES; g++)
				slot->counts[g] = counts[i].gauges[g] + slot->recount[g];
			slot->counted_by = m->db->recount_id;
			slot->exact = true;
			if (counts[i].alert_dead > 0 && alert_check(slot, counts[i].alert_dead, 0, 0, 0))
				m->db->alarms = true;
		}
		SpinLockRelease(&slot->mutex);
	}
	m->db->recounting = publishing = false;
	LWLockRelease(&m->db->count_lock);
}

/* Gives every queue a slot as far as there are any, after those of queues that are gone are freed. */
static void
make_slots(Maintain *m)
{
	int32 *ids;
	int n = maintain_queue_ids(m, &ids);

	/* a queue whose creation is not committed yet loses its slot too: it gets another, and is counted again */
	shmem_queue_sweep(MyDatabaseId, ids, n);
	for (int i = 0; i < n; i++)
		(void) meta_queue_by_id(ids[i]);
	slots_made = true;
}

void
recount_run(Maintain *m)
{
	Snapshot snapshot;
	Count *counts;
	int n;

	took_prepared = false;
	if (!maintain_begin(m))
		return;
	make_slots(m);
	if (m->db->prepared)
	{
		SpinLockAcquire(&m->db->mutex);
		m->db->prepared = false;
		SpinLockRelease(&m->db->mutex);
		took_prepared = true;
		if (prepared_open())
		{
			retry_later();
			maintain_end(m);
			recount_undo(m);
			return;
		}
	}
	n = slots_to_count(m, took_prepared, &counts);
	snapshot = n > 0 ? publish_snapshot(m->db) : NULL;
	if (snapshot)
	{
		count_rows(snapshot, counts, n);
		UnregisterSnapshot(snapshot);
		install(m, counts, n);
		not_before = DT_NOBEGIN;
		waiting_since = DT_NOEND;
	}
	else if (n > 0)
		retry_later();
	maintain_end(m);
	if (n > 0 && snapshot == NULL)
	{
		recount_undo(m);
		return;
	}
	/* tickets, ends and handlers that a COMMIT PREPARED made were announced to nobody */
	if (took_prepared)
	{
		rescan_soon(m);
		SpinLockAcquire(&m->db->mutex);
		m->db->handlers_changed = true;
		m->db->sweep_at = DT_NOBEGIN;
		SpinLockRelease(&m->db->mutex);
	}
	took_prepared = false;
}

/* Ends a recount that did not come to its end. */
void
recount_undo(Maintain *m)
{
	if (publishing)
	{
		LWLockAcquire(&m->db->count_lock, LW_EXCLUSIVE);
		m->db->recounting = publishing = false;
		LWLockRelease(&m->db->count_lock);
	}
	if (took_prepared)
	{
		SpinLockAcquire(&m->db->mutex);
		m->db->prepared = true;
		SpinLockRelease(&m->db->mutex);
	}
	took_prepared = false;
}
