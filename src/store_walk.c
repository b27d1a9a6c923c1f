/*-------------------------------------------------------------------------
 *
 * store_walk.c
 *		Index walks that also count the dead entries, and tables opened
 *		only for reading.
 *
 * Under an old snapshot an index may hold millions of dead entries between
 * two live ones, and a scan that yields visible rows only cannot be bounded.
 * A walk stops at every entry and knows its key, visible or not, so that its
 * caller can stop anywhere and go on there in another transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/itup.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "storage/procarray.h"
#include "utils/rel.h"

#include "compat.h"
#include "store.h"

/*
 * Opens a table of ours for reading only, with AccessShareLock until store_close, which is also allowed during recovery. Only for scans.
 */
StoreTable *
store_open_read(JobqTable which)
{
	StoreTable *t = palloc0(sizeof(StoreTable));

	t->which = which;
	t->rel = table_open(meta_table_oid(which), AccessShareLock);
	meta_revalidate();
	t->nblocks = InvalidBlockNumber;
	t->release = AccessShareLock;
	while (t->nindexes < MAX_INDEXES && OidIsValid(meta_index_oid(which, t->nindexes)))
	{
		t->indexes[t->nindexes] = index_open(meta_index_oid(which, t->nindexes), AccessShareLock);
		t->nindexes++;
	}
	return t;
}

/* Whether another transaction that is still at work has deleted or locked a row that the snapshot shows. */
bool
store_in_hand(StoreTable *t, Snapshot snapshot, ItemPointer tid)
{
	TupleTableSlot *slot = store_read_slot(t);
	bool in_hand = false;
	bool isnull;

	if (table_tuple_fetch_row_version(t->rel, tid, snapshot, slot))
	{
		TransactionId xmax = DatumGetTransactionId(slot_getsysattr(slot, MaxTransactionIdAttributeNumber, &isnull));

		in_hand = TransactionIdIsNormal(xmax) && !TransactionIdIsCurrentTransactionId(xmax) &&
				  TransactionIdIsInProgress(xmax);
	}
	ExecDropSingleTupleTableSlot(slot);
	return in_hand;
}

/* Starts a walk over the entries that satisfy the keys, in key order; keys count the index's columns. */
void
store_walk_begin(StoreWalk *walk, StoreTable *t, int index, Snapshot snapshot, ScanKey keys, int nkeys)
{
	StoreScan scan;

	store_scan_begin(&scan, t, index, snapshot, keys, nkeys);
	walk->desc = scan.desc;
	walk->slot = store_read_slot(t);
	walk->walked = 0;
	/* has to stand before the scan is positioned */
	walk->desc->xs_want_itup = true;
	index_rescan(walk->desc, keys, nkeys, NULL, 0);
}

/* Steps to the next entry. *visible: its row is visible to the snapshot and stands in walk->slot. False at the end. */
bool
store_walk_next(StoreWalk *walk, bool *visible)
{
	if (index_getnext_tid(walk->desc, ForwardScanDirection) == NULL)
		return false;
	walk->walked++;
	*visible = index_fetch_heap(walk->desc, walk->slot);
	return true;
}

/* The same backwards; a walk goes in one direction only. */
bool
store_walk_back(StoreWalk *walk, bool *visible)
{
	if (index_getnext_tid(walk->desc, BackwardScanDirection) == NULL)
		return false;
	walk->walked++;
	*visible = index_fetch_heap(walk->desc, walk->slot);
	return true;
}

/* Whether the current entry's row, which is not visible, was there once: its insertion was committed. Only for rows never updated. */
bool
store_walk_was_committed(StoreWalk *walk)
{
	ItemPointerData tid = walk->desc->xs_heaptid;
	bool isnull;
	Datum xmin;

	if (!table_tuple_fetch_row_version(walk->desc->heapRelation, &tid, SnapshotAny, walk->slot))
		return false;
	xmin = slot_getsysattr(walk->slot, MinTransactionIdAttributeNumber, &isnull);
	ExecClearTuple(walk->slot);
	return TransactionIdDidCommit(DatumGetTransactionId(xmin));
}

/* A column (from 1) of the current entry's key; not for null values. */
Datum
store_walk_key(StoreWalk *walk, int column)
{
	bool isnull;

	return index_getattr(walk->desc->xs_itup, column, walk->desc->xs_itupdesc, &isnull);
}

void
store_walk_end(StoreWalk *walk)
{
	index_endscan(walk->desc);
	ExecDropSingleTupleTableSlot(walk->slot);
}
