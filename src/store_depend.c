/*-------------------------------------------------------------------------
 *
 * store_depend.c
 *		What jobs wait for: rows of jobq.dependency.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "store.h"

/* So many entries are looked at in one direction before the other is tried. */
#define LOOK_AHEAD 32

/* Whether there may be any: to know that there are none is cheap. */
bool
store_dependencies_exist(StoreTable *dependency)
{
	return RelationGetNumberOfBlocks(dependency->rel) > 0;
}

void
store_dependency_fill(TupleTableSlot *slot, int64 job_id, int64 on_job, char ended)
{
	slot_set(slot, Anum_dependency_job_id, Int64GetDatum(job_id));
	slot_set(slot, Anum_dependency_on_job, Int64GetDatum(on_job));
	if (ended != 0)
		slot_set(slot, Anum_dependency_ended, CharGetDatum(ended));
}

void
store_dependency_read(TupleTableSlot *slot, Dependency *row)
{
	bool isnull;
	Datum ended = slot_datum(slot, Anum_dependency_ended, &isnull);

	row->tid = slot->tts_tid;
	row->job_id = DatumGetInt64(slot_value(slot, Anum_dependency_job_id));
	row->on_job = DatumGetInt64(slot_value(slot, Anum_dependency_on_job));
	row->ended = isnull ? 0 : DatumGetChar(ended);
}

/* What a job waits for. */
void
store_dependencies_of(StoreScan *scan, StoreTable *dependency, Snapshot snapshot, int64 job_id)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	store_scan_begin(scan, dependency, INDEX_DEPENDENCY_PKEY, snapshot, &key, 1);
}

/* Who waits for a job. */
void
store_dependencies_on(StoreScan *scan, StoreTable *dependency, Snapshot snapshot, int64 on_job)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(on_job));
	store_scan_begin(scan, dependency, INDEX_DEPENDENCY_ON, snapshot, &key, 1);
}

/* The same for another job with the same scan, which is cheaper than a new one. */
void
store_dependencies_on_next(StoreScan *scan, int64 on_job)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(on_job));
	index_rescan(scan->desc, &key, 1, NULL, 0);
}

/* A look at the rows of one job that others may be about to delete. */
typedef struct Look
{
	StoreTable *table;
	SnapshotData dirty;
	int64 job_id;
	int enough;
	int found; /* rows that hold the job back, and that nobody is deleting */
} Look;

/* Counts rows under the second key, upwards or downwards, until there are enough. limit: of entries to look at, 0: all. */
static void
look_on(Look *look, ScanKey on_job, bool upwards, int limit)
{
	ScanDirection direction = upwards ? ForwardScanDirection : BackwardScanDirection;
	ScanKeyData keys[2];
	StoreScan scan;
	int entries = 0;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(look->job_id));
	keys[1] = *on_job;
	store_scan_begin(&scan, look->table, INDEX_DEPENDENCY_PKEY, &look->dirty, keys, 2);
	while (look->found < look->enough && (limit == 0 || entries++ < limit) &&
		   index_getnext_tid(scan.desc, direction) != NULL)
	{
		Dependency row;

		CHECK_FOR_INTERRUPTS();
		if (!index_fetch_heap(scan.desc, scan.slot))
			continue;
		store_dependency_read(scan.slot, &row);
		if (!TransactionIdIsValid(look->dirty.xmin) && !TransactionIdIsValid(look->dirty.xmax) &&
			dependency_holds(&row))
			look->found++;
	}
	store_scan_end(&scan);
}

/*
 * Whether at least n rows hold a job back that nobody is deleting: rows of committed transactions, or of this one. near: an on_job whose
 * neighbours are looked at first. Whatever the order in which the jobs end, few dead entries lie between it and the next live one.
 */
bool
store_dependencies_hold(StoreTable *dependency, int64 job_id, int64 near, int n)
{
	Look look = {.table = dependency, .job_id = job_id, .enough = n};
	ScanKeyData itself;
	ScanKeyData from;
	ScanKeyData before;

	ScanKeyInit(&itself, 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	ScanKeyInit(&from, 2, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(near));
	ScanKeyInit(&before, 2, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(near));
	InitDirtySnapshot(look.dirty);
	look_on(&look, &from, true, LOOK_AHEAD);
	/* members of an open batch may have come and gone in any number */
	if (look.found < n && near > job_id)
		look_on(&look, &itself, true, 0);
	if (look.found < n)
	{
		/* what was found so far is found again */
		look.found = 0;
		look_on(&look, &before, false, 0);
		if (look.found < n)
			look_on(&look, &from, true, 0);
	}
	return look.found >= n;
}
