/*-------------------------------------------------------------------------
 *
 * drain.c
 *		drain_worker: a worker that leaves hands its groups over in steps.
 *
 * At most so many of its leases are marked at a time; the holder hears of it
 * at its next extend, finishes the job in hand and lets go. The scheduler
 * marks the next ones, until the worker has none left.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "args.h"
#include "maintain.h"
#include "meta.h"
#include "spi.h"
#include "store.h"
#include "timeutil.h"
#include "xact.h"

#define MAX_STEP 10000

/* When the scheduler is to look at what this transaction asks for; told at commit, since it would see nothing of it before. */
static TimestampTz asked = DT_NOEND;
static DbSlot *asked_db = NULL;
static bool looking = false; /* drain_at was taken out of shared memory */

/* Marks leases of groups of a worker until `step` are marked; returns how many it holds in all. Passes over those in somebody's hands. */
static int64
mark_leases(const text *worker, int step)
{
	StoreTable *lease = store_open(TABLE_LEASE);
	TupleTableSlot *slot = store_read_slot(lease);
	Lease *row = palloc(sizeof(Lease));
	int64 held = 0;
	int marked = 0;

	/* first those that are marked already */
	for (int pass = 0; pass < 2; pass++)
	{
		Snapshot snapshot = store_snapshot();
		TableScanDesc scan = store_heap_begin(lease, snapshot);

		while ((pass == 0 || marked < step) && store_heap_next(scan, slot))
		{
			CHECK_FOR_INTERRUPTS();
			store_lease_read(slot, row);
			if (row->group_id == 0 || row->worker == NULL ||
				VARSIZE(row->worker) != VARSIZE_ANY_EXHDR(worker) + VARHDRSZ ||
				memcmp(VARDATA(row->worker), VARDATA_ANY(worker), VARSIZE_ANY_EXHDR(worker)) != 0)
				continue;
			if (pass == 0)
			{
				held++;
				marked += row->drain;
			}
			else if (!row->drain && store_lease_lock(lease, row, LEASE_NO_KEY, false) == TM_Ok)
			{
				row->drain = true;
				if (store_lease_update(lease, row) == TM_Ok)
				{
					QueueInfo *queue = meta_queue_by_id(row->queue_id);

					marked++;
					if (queue)
						xact_count(queue, COUNT_GROUPS_MIGRATING, 1);
				}
			}
		}
		store_heap_end(scan);
		store_snapshot_done(snapshot);
	}
	ExecDropSingleTupleTableSlot(slot);
	store_close(lease);
	return held;
}

static void
look_at(DbSlot *db, TimestampTz at)
{
	SpinLockAcquire(&db->mutex);
	db->drain_at = Min(db->drain_at, at);
	SpinLockRelease(&db->mutex);
}

/*
 * drain_worker(worker, step, pause) -> how many leases of groups the worker still holds. At most `step` of them are asked for at a time;
 * the next ones follow every `pause`. Leases of jobs without a group are left alone. Errors: 22004, 22023 bad argument.
 */
PG_FUNCTION_INFO_V1(jobq_drain_worker);
Datum
jobq_drain_worker(PG_FUNCTION_ARGS)
{
	static SpiStatement request = {
		.sql = "INSERT INTO jobq.drain AS d (worker, step, pause, requested) VALUES ($1, $2, $3, clock_timestamp())"
			   " ON CONFLICT (worker) DO UPDATE SET step = excluded.step, pause = excluded.pause",
		.result = SPI_OK_INSERT,
		.nargs = 3,
		.argtypes = {TEXTOID, INT4OID, INTERVALOID}};
	static SpiStatement forget = {
		.sql = "DELETE FROM jobq.drain WHERE worker = $1", .result = SPI_OK_DELETE, .nargs = 1, .argtypes = {TEXTOID}};
	DbSlot *db = meta_begin("drain_worker", VERB_WRITES);
	int step = arg_int32_range(fcinfo, 1, "step", 5, 1, MAX_STEP);
	int64 pause = arg_interval(fcinfo, 2, "pause", USECS_PER_SEC, 1000, JOBQ_MAX_LEASE_USECS);
	Datum values[3];
	SpiScope scope;
	text *worker;
	int64 held;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("worker must not be null")));
	worker = arg_text(fcinfo, 0, "worker", JOBQ_MAX_NAME);
	xact_verb_begin(db);
	held = mark_leases(worker, step);
	values[0] = PointerGetDatum(worker);
	values[1] = Int32GetDatum(step);
	values[2] = PG_ARGISNULL(2) ? DirectFunctionCall3(interval_in, CStringGetDatum("1 s"), ObjectIdGetDatum(InvalidOid),
													  Int32GetDatum(-1))
								: PG_GETARG_DATUM(2);
	spi_begin(&scope);
	(void) spi_run(held > 0 ? &request : &forget, values, NULL);
	spi_end(&scope);
	if (held > 0)
	{
		asked = Min(asked, timestamp_add(clock_now(), pause));
		asked_db = db;
	}
	xact_verb_end(false);
	PG_RETURN_INT64(held);
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (TIMESTAMP_IS_NOEND(asked) || (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT))
		return;
	if (event == XACT_EVENT_COMMIT)
	{
		look_at(asked_db, asked);
		shmem_wake_scheduler(asked_db);
	}
	asked = DT_NOEND;
}

/* Registers the callback. Called once, from _PG_init. */
void
drain_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}

/* When the next worker is to hand over more. */
TimestampTz
drain_due(Maintain *m)
{
	TimestampTz at;

	SpinLockAcquire(&m->db->mutex);
	at = m->db->drain_at;
	SpinLockRelease(&m->db->mutex);
	return at;
}

/* Has a look that did not come to its end repeated. */
void
drain_undo(Maintain *m)
{
	if (looking)
		look_at(m->db, clock_now());
	looking = false;
}

/* Marks the next leases of every worker that hands over, and forgets those that have none left. */
void
drain_run(Maintain *m)
{
	static SpiStatement requests = {.sql = "SELECT worker, step, pause FROM jobq.drain ORDER BY worker",
									.result = SPI_OK_SELECT};
	static SpiStatement forget = {
		.sql = "DELETE FROM jobq.drain WHERE worker = $1", .result = SPI_OK_DELETE, .nargs = 1, .argtypes = {TEXTOID}};
	TimestampTz next = DT_NOEND;
	SpiScope scope;
	bool isnull;
	int n;
	text **workers;
	int *steps;

	/* before the snapshot: whoever asks from here on is looked at again */
	SpinLockAcquire(&m->db->mutex);
	m->db->drain_at = DT_NOEND;
	SpinLockRelease(&m->db->mutex);
	looking = true;
	if (!maintain_begin(m))
	{
		drain_undo(m);
		return;
	}
	spi_begin(&scope);
	n = (int) spi_run(&requests, NULL, NULL);
	workers = palloc(Max(n, 1) * sizeof(text *));
	steps = palloc(Max(n, 1) * sizeof(int));
	for (int i = 0; i < n; i++)
	{
		int64 pause = interval_usecs(DatumGetIntervalP(spi_value(i, 3, &isnull)), "pause", PG_INT64_MIN, PG_INT64_MAX);

		workers[i] = DatumGetTextPCopy(spi_value(i, 1, &isnull));
		steps[i] = DatumGetInt32(spi_value(i, 2, &isnull));
		next = Min(next, timestamp_add(clock_now(), pause));
	}
	for (int i = 0; i < n; i++)
	{
		Datum value = PointerGetDatum(workers[i]);

		if (mark_leases(workers[i], steps[i]) == 0)
			(void) spi_run(&forget, &value, NULL);
	}
	spi_end(&scope);
	maintain_end(m);
	looking = false;
	look_at(m->db, next);
}
