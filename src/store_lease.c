/*-------------------------------------------------------------------------
 *
 * store_lease.c
 *		Leases, and which history table a row goes to.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "store.h"
#include "timeutil.h"

/* A one-dimensional array without nulls; its elements are copied as they lie in memory. */
static Datum
flat_array(const void *elements, int n, int size, Oid type)
{
	int bytes = ARR_OVERHEAD_NONULLS(1) + n * size;
	ArrayType *array = palloc0(bytes);

	SET_VARSIZE(array, bytes);
	array->ndim = 1;
	array->dataoffset = 0;
	array->elemtype = type;
	ARR_DIMS(array)[0] = n;
	ARR_LBOUND(array)[0] = 1;
	memcpy(ARR_DATA_PTR(array), elements, n * size);
	return PointerGetDatum(array);
}

/* A row of jobq.lease that somebody has changed by hand. */
static void
malformed(void)
{
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("malformed row in jobq.lease"),
					errhint("SELECT * FROM jobq.verify() tells what else is wrong.")));
}

/* Elements of such an array, at most JOBQ_MAX_LEASE_JOBS; returns their number. */
static int
flat_elements(Datum datum, void *elements, int size)
{
	ArrayType *array = DatumGetArrayTypeP(datum);
	int n = ARR_NDIM(array) == 1 ? ARR_DIMS(array)[0] : 0;

	if (n < 1 || n > JOBQ_MAX_LEASE_JOBS || ARR_HASNULL(array))
		malformed();
	memcpy(elements, ARR_DATA_PTR(array), n * size);
	return n;
}

static void
lease_fill(TupleTableSlot *slot, const Lease *row)
{
	slot_set(slot, Anum_lease_token, Int64GetDatum(row->token));
	slot_set(slot, Anum_lease_started, TimestampTzGetDatum(row->started));
	slot_set(slot, Anum_lease_lease_until, TimestampTzGetDatum(row->lease_until));
	if (!TIMESTAMP_IS_NOEND(row->deadline))
		slot_set(slot, Anum_lease_deadline, TimestampTzGetDatum(row->deadline));
	slot_set(slot, Anum_lease_cancel, Int64GetDatum((int64) row->cancel));
	slot_set(slot, Anum_lease_queue_id, Int32GetDatum(row->queue_id));
	slot_set(slot, Anum_lease_job_ids, flat_array(row->job_ids, row->njobs, sizeof(int64), INT8OID));
	slot_set(slot, Anum_lease_job_tids, flat_array(row->job_tids, row->njobs, sizeof(ItemPointerData), TIDOID));
	slot_set(slot, Anum_lease_attempts, flat_array(row->attempts, row->njobs, sizeof(int32), INT4OID));
	if (row->worker)
		slot_set(slot, Anum_lease_worker, PointerGetDatum(row->worker));
	if (row->progress)
		slot_set(slot, Anum_lease_progress, JsonbPGetDatum(row->progress));
	if (row->group_id > 0)
	{
		slot_set(slot, Anum_lease_group_id, Int64GetDatum(row->group_id));
		slot_set(slot, Anum_lease_ords, flat_array(row->ords, row->njobs, sizeof(int64), INT8OID));
	}
	slot_set(slot, Anum_lease_drain, BoolGetDatum(row->drain));
	slot_set(slot, Anum_lease_lane, Int16GetDatum(row->lane));
	if (row->session != 0)
		slot_set(slot, Anum_lease_session, Int64GetDatum(row->session));
}

/* Adds a lease. */
void
store_lease_insert(StoreTable *lease, const Lease *row)
{
	TupleTableSlot *slot = store_slot(lease, 0);

	lease_fill(slot, row);
	store_insert(lease, &slot, 1);
}

/* Reads a row of jobq.lease; what varies in length is copied into the current memory context. */
void
store_lease_read(TupleTableSlot *slot, Lease *row)
{
	bool isnull;
	Datum datum;

	slot_getallattrs(slot);
	row->tid = slot->tts_tid;
	row->token = DatumGetInt64(slot_value(slot, Anum_lease_token));
	row->started = DatumGetTimestampTz(slot_value(slot, Anum_lease_started));
	row->lease_until = DatumGetTimestampTz(slot_value(slot, Anum_lease_lease_until));
	datum = slot_datum(slot, Anum_lease_deadline, &isnull);
	row->deadline = isnull ? DT_NOEND : DatumGetTimestampTz(datum);
	row->cancel = (uint64) DatumGetInt64(slot_value(slot, Anum_lease_cancel));
	row->queue_id = DatumGetInt32(slot_value(slot, Anum_lease_queue_id));
	row->njobs = flat_elements(slot_value(slot, Anum_lease_job_ids), row->job_ids, sizeof(int64));
	(void) flat_elements(slot_value(slot, Anum_lease_job_tids), row->job_tids, sizeof(ItemPointerData));
	(void) flat_elements(slot_value(slot, Anum_lease_attempts), row->attempts, sizeof(int32));
	datum = slot_datum(slot, Anum_lease_worker, &isnull);
	row->worker = isnull ? NULL : DatumGetTextPCopy(datum);
	datum = slot_datum(slot, Anum_lease_progress, &isnull);
	row->progress = isnull ? NULL : DatumGetJsonbPCopy(datum);
	datum = slot_datum(slot, Anum_lease_group_id, &isnull);
	row->group_id = isnull ? 0 : DatumGetInt64(datum);
	datum = slot_datum(slot, Anum_lease_ords, &isnull);
	if (isnull != (row->group_id == 0) || (!isnull && flat_elements(datum, row->ords, sizeof(int64)) != row->njobs))
		malformed();
	row->drain = DatumGetBool(slot_value(slot, Anum_lease_drain));
	row->lane = DatumGetInt16(slot_value(slot, Anum_lease_lane));
	datum = slot_datum(slot, Anum_lease_session, &isnull);
	row->session = isnull ? 0 : DatumGetInt64(datum);
}

/* The lease of that token as the snapshot shows it. */
bool
store_lease_find(StoreTable *lease, Snapshot snapshot, int64 token, Lease *row)
{
	StoreScan scan;
	ScanKeyData key;
	bool found;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(token));
	store_scan_begin(&scan, lease, INDEX_LEASE_PKEY, snapshot, &key, 1);
	found = store_scan_next(&scan);
	if (found)
		store_lease_read(scan.slot, row);
	store_scan_end(&scan);
	return found;
}

/*
 * Locks a lease that was found. TM_Ok: *row is the locked version. TM_Updated: a heartbeat moved it, look the token up again.
 * TM_Deleted: it is gone. TM_WouldBlock (only with wait = false): a verb in progress holds it.
 */
TM_Result
store_lease_lock(StoreTable *lease, Lease *row, LeaseLock lock, bool wait)
{
	static const LockTupleMode modes[] = {LockTupleKeyShare, LockTupleNoKeyExclusive, LockTupleExclusive};
	TupleTableSlot *slot = store_read_slot(lease);
	Snapshot snapshot = store_snapshot();
	TM_Result result = store_lock(lease, &row->tid, snapshot, slot, modes[lock], wait);

	store_snapshot_done(snapshot);
	if (result == TM_Ok)
		store_lease_read(slot, row);
	ExecDropSingleTupleTableSlot(slot);
	return result;
}

/* Writes back a lease that the caller has locked: LEASE_EXCLUSIVE if it has fewer jobs, else LEASE_NO_KEY. */
TM_Result
store_lease_update(StoreTable *lease, Lease *row)
{
	TupleTableSlot *slot = store_slot(lease, 0);
	TM_Result result;

	lease_fill(slot, row);
	result = store_update(lease, &row->tid, slot);
	row->tid = slot->tts_tid;
	return result;
}

/* The lease that lists a job, and its place there. Reads the whole table: for verbs of administrators. */
bool
store_lease_of_job(StoreTable *lease, Snapshot snapshot, int64 job_id, Lease *row, int *position)
{
	TupleTableSlot *slot = store_read_slot(lease);
	TableScanDesc scan = store_heap_begin(lease, snapshot);
	bool found = false;

	while (!found && store_heap_next(scan, slot))
	{
		int64 ids[JOBQ_MAX_LEASE_JOBS];
		int n = flat_elements(slot_value(slot, Anum_lease_job_ids), ids, sizeof(int64));

		for (int i = 0; i < n && !found; i++)
		{
			found = ids[i] == job_id;
			*position = i;
		}
		if (found)
			store_lease_read(slot, row);
	}
	store_heap_end(scan);
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

/* The lease of a group. Reads the whole table. */
bool
store_lease_of_group(StoreTable *lease, Snapshot snapshot, int64 group_id, Lease *row)
{
	TupleTableSlot *slot = store_read_slot(lease);
	TableScanDesc scan = store_heap_begin(lease, snapshot);
	bool found = false;

	while (!found && store_heap_next(scan, slot))
	{
		bool isnull;
		Datum datum = slot_datum(slot, Anum_lease_group_id, &isnull);

		found = !isnull && DatumGetInt64(datum) == group_id;
		if (found)
			store_lease_read(slot, row);
	}
	store_heap_end(scan);
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

/* Scans leases that end from lo to hi, both inclusive; DT_NOBEGIN and DT_NOEND leave an end open. */
void
store_lease_scan(StoreScan *scan, StoreTable *lease, Snapshot snapshot, TimestampTz lo, TimestampTz hi)
{
	ScanKeyData keys[2];
	int n = 0;

	if (!TIMESTAMP_IS_NOBEGIN(lo))
		ScanKeyInit(&keys[n++], 1, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE, TimestampTzGetDatum(lo));
	if (!TIMESTAMP_IS_NOEND(hi))
		ScanKeyInit(&keys[n++], 1, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(hi));
	store_scan_begin(scan, lease, INDEX_LEASE_UNTIL, snapshot, keys, n);
}

/*
 * Where a finished job goes that is kept until expiry. The ring holds what expires within 30 days, by day; its table for a day is empty
 * again before the ring comes round.
 */
JobqTable
store_history_table(TimestampTz expiry, TimestampTz now)
{
	if (TIMESTAMP_IS_NOEND(expiry) || expiry > timestamp_add(now, 30 * USECS_PER_DAY))
		return TABLE_HISTORY_FAR;
	return TABLE_HISTORY + (int) ((expiry / USECS_PER_DAY) % HISTORY_RING);
}
