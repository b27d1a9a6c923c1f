/*-------------------------------------------------------------------------
 *
 * store.c
 *		Rows and indexes through the table, index and executor interfaces.
 *
 * Inserts go straight to our own indexes: their predicates are known here,
 * so no expression is compiled per call. A table that has gained an index
 * (a user's own, or the transient one of REINDEX CONCURRENTLY) is written
 * through the executor instead, which maintains whatever there is.
 *
 * Statements here run without the executor, so privileges are the caller's
 * business, triggers do not fire, and row security does not apply.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "store.h"

/* Executor state for a table with indexes that are not ours. */
typedef struct StoreGeneric
{
	EState *estate;
	ResultRelInfo *rri;
} StoreGeneric;

/* Number of columns that the code knows; a table may not have fewer. */
static int
known_columns(JobqTable which)
{
	switch (which)
	{
		case TABLE_JOB:
			return Natts_job;
		case TABLE_READY:
			return Natts_ready;
		case TABLE_DELAYED:
			return Natts_delayed;
		case TABLE_LEASE:
			return Natts_lease;
		case TABLE_FAILURE:
			return Natts_failure;
		case TABLE_DEAD:
			return Natts_dead;
		case TABLE_JOB_GROUP:
			return Natts_job_group;
		case TABLE_LINE:
			return Natts_line;
		case TABLE_HELD:
			return Natts_held;
		case TABLE_GROUP_SETTING:
			return Natts_group_setting;
		case TABLE_GROUP_RATE:
			return Natts_group_rate;
		case TABLE_UNIQUE_WINDOW:
			return Natts_unique_window;
		case TABLE_DEPENDENCY:
			return Natts_dependency;
		default:
			return which >= TABLE_HISTORY ? Natts_history : 0;
	}
}

/*
 * Opens a table of ours for reading and writing, RowExclusiveLock until the transaction ends. Error when its columns are not those the
 * library was built for.
 */
StoreTable *
store_open(JobqTable which)
{
	StoreTable *t = palloc0(sizeof(StoreTable));
	List *indexes;
	int known = 0;

	t->which = which;
	t->rel = table_open(meta_table_oid(which), RowExclusiveLock);
	meta_revalidate();
	if (RelationGetDescr(t->rel)->natts < known_columns(which))
		elog(ERROR, "table %s has too few columns", RelationGetRelationName(t->rel));
	t->nblocks = InvalidBlockNumber;
	t->deferred = -1;

	while (known < MAX_INDEXES && OidIsValid(meta_index_oid(which, known)))
		known++;
	t->nindexes = known;

	indexes = RelationGetIndexList(t->rel);
	if (list_length(indexes) != known)
	{
		t->generic = palloc(sizeof(StoreGeneric));
		t->generic->estate = CreateExecutorState();
		/* more room than this header says: minor releases have grown the struct */
		t->generic->rri = palloc0(sizeof(ResultRelInfo) + 256);
		t->generic->rri->type = T_ResultRelInfo;
		InitResultRelInfo(t->generic->rri, t->rel, 1, NULL, 0);
		ExecOpenIndices(t->generic->rri, which == TABLE_JOB);
	}
	list_free(indexes);
	return t;
}

/* Opens a table at its first use. */
StoreTable *
store_open_once(StoreTable **t, JobqTable which)
{
	if (*t == NULL)
		*t = store_open(which);
	return *t;
}

static Relation
store_index(StoreTable *t, int n)
{
	if (t->indexes[n] == NULL)
		t->indexes[n] = index_open(meta_index_oid(t->which, n), RowExclusiveLock);
	return t->indexes[n];
}

/* Closes the table; one opened for writing stays locked until the transaction ends. NULL is accepted. */
void
store_close(StoreTable *t)
{
	if (t == NULL)
		return;
	for (int i = 0; i < STORE_BATCH; i++)
		if (t->slots[i])
			ExecDropSingleTupleTableSlot(t->slots[i]);
	if (t->read_slot)
		ExecDropSingleTupleTableSlot(t->read_slot);
	if (t->generic)
	{
		ExecCloseIndices(t->generic->rri);
		FreeExecutorState(t->generic->estate);
		pfree(t->generic->rri);
	}
	for (int i = 0; i < t->nindexes; i++)
		if (t->indexes[i])
			index_close(t->indexes[i], t->release);
	table_close(t->rel, t->release);
	pfree(t);
}

/*
 * The n-th slot for rows to insert (n < STORE_BATCH), empty, all columns null. Set values with slot_set, then pass it to store_insert.
 */
TupleTableSlot *
store_slot(StoreTable *t, int n)
{
	TupleTableSlot *slot = t->slots[n];

	if (slot == NULL)
		slot = t->slots[n] = MakeSingleTupleTableSlot(RelationGetDescr(t->rel), &TTSOpsVirtual);
	else
		ExecClearTuple(slot);
	memset(slot->tts_isnull, true, RelationGetDescr(t->rel)->natts * sizeof(bool));
	return slot;
}

/* Whether a row belongs into one of our partial indexes. */
static bool
index_wants(StoreTable *t, int n, TupleTableSlot *slot)
{
	if (t->which == TABLE_JOB && n == INDEX_JOB_UNIQUE_KEY)
		return !slot->tts_isnull[Anum_job_unique_key - 1] &&
			   (slot->tts_isnull[Anum_job_unique_started - 1] ||
				!DatumGetBool(slot->tts_values[Anum_job_unique_started - 1]));
	if (t->which == TABLE_JOB && n == INDEX_JOB_EXPIRES)
		return !slot->tts_isnull[Anum_job_expires - 1];
	if (t->which == TABLE_READY && n == INDEX_READY_JOB)
		return DatumGetInt16(slot->tts_values[Anum_ready_lane - 1]) != LANE_FRESH;
	return true;
}

/* The columns of a row that an index has. */
static inline void
index_columns(Relation index, TupleTableSlot *slot, Datum *values, bool *isnull)
{
	int natts = IndexRelationGetNumberOfAttributes(index);

	for (int i = 0; i < natts; i++)
	{
		AttrNumber attnum = index->rd_index->indkey.values[i];

		values[i] = slot->tts_values[attnum - 1];
		isnull[i] = slot->tts_isnull[attnum - 1];
	}
}

/* Enters one row, whose tid stands in the slot, into one index. Error 23505 on a duplicate. */
static void
index_enter(StoreTable *t, int n, TupleTableSlot *slot, IndexInfo *info)
{
	Relation index = store_index(t, n);
	Datum values[INDEX_MAX_KEYS];
	bool isnull[INDEX_MAX_KEYS];

	index_columns(index, slot, values, isnull);
	index_insert(index, values, isnull, &slot->tts_tid, t->rel,
				 index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, info);
}

/* What a btree reads of it: whether an entry is unique. */
static IndexInfo *
index_info(StoreTable *t, int n)
{
	IndexInfo *info = makeNode(IndexInfo);

	info->ii_Unique = store_index(t, n)->rd_index->indisunique;
	info->ii_ReadyForInserts = true;
	return info;
}

/* Enters rows into every index of the table. */
static void
enter_indexes(StoreTable *t, TupleTableSlot **slots, int n)
{
	if (t->generic)
	{
		for (int i = 0; i < n; i++)
		{
			GetPerTupleExprContext(t->generic->estate)->ecxt_scantuple = slots[i];
			list_free(exec_insert_index_tuples_compat(t->generic->rri, slots[i], t->generic->estate));
			ResetPerTupleExprContext(t->generic->estate);
		}
		return;
	}
	for (int index = 0; index < t->nindexes; index++)
	{
		IndexInfo *info = NULL;

		for (int i = 0; i < n; i++)
		{
			if (index == t->deferred || !index_wants(t, index, slots[i]))
				continue;
			if (info == NULL)
				info = index_info(t, index);
			index_enter(t, index, slots[i], info);
		}
		if (info)
			pfree(info);
	}
}

/* Inserts n rows (at most STORE_BATCH) given in slots of store_slot; their tids stand in the slots afterwards. */
void
store_insert(StoreTable *t, TupleTableSlot **slots, int n)
{
	CommandId cid = GetCurrentCommandId(true);

	for (int i = 0; i < n; i++)
		if (TTS_EMPTY(slots[i]))
			ExecStoreVirtualTuple(slots[i]);
	if (n == 1)
		table_tuple_insert(t->rel, slots[0], cid, 0, NULL);
	else
		table_multi_insert(t->rel, slots, n, cid, 0, NULL);
	enter_indexes(t, slots, n);
}

/* Enters a speculative row into the index that decides whether it may stay. */
static bool
enter_arbiter(StoreTable *t, int n, TupleTableSlot *slot)
{
	Relation index = store_index(t, n);
	IndexInfo *info = index_info(t, n);
	Datum values[INDEX_MAX_KEYS];
	bool isnull[INDEX_MAX_KEYS];
	bool unique;

	index_columns(index, slot, values, isnull);
	unique = index_insert(index, values, isnull, &slot->tts_tid, t->rel, UNIQUE_CHECK_PARTIAL, false, info);
	pfree(info);
	return unique;
}

/*
 * Inserts a row, given in a slot of store_slot, unless another with its key is there, or about to be, or may_stay, asked when it is in
 * the index that decides, says no: then false, and nothing is left of it. Waits for nobody.
 */
bool
store_insert_unique(StoreTable *t, int arbiter, TupleTableSlot *slot, bool (*may_stay)(void *arg, TupleTableSlot *slot),
					void *arg)
{
	TransactionId xid = GetCurrentTransactionId();
	uint32 token = SpeculativeInsertionLockAcquire(xid);
	bool conflict;

	if (TTS_EMPTY(slot))
		ExecStoreVirtualTuple(slot);
	table_tuple_insert_speculative(t->rel, slot, GetCurrentCommandId(true), 0, NULL, token);
	if (t->generic)
	{
		GetPerTupleExprContext(t->generic->estate)->ecxt_scantuple = slot;
		list_free(exec_insert_index_tuples_unique_compat(t->generic->rri, slot, t->generic->estate, &conflict));
		ResetPerTupleExprContext(t->generic->estate);
	}
	else
		conflict = !enter_arbiter(t, arbiter, slot);
	if (!conflict)
		conflict = !may_stay(arg, slot);
	table_tuple_complete_speculative(t->rel, slot, token, !conflict);
	SpeculativeInsertionLockRelease(xid);
	if (!conflict && !t->generic)
	{
		t->deferred = arbiter;
		enter_indexes(t, &slot, 1);
		t->deferred = -1;
	}
	return !conflict;
}

/* Enters a row, whose columns stand in the slot, into the index that store_insert has left out. Error 23505 on a duplicate. */
void
store_enter_deferred(StoreTable *t, TupleTableSlot *slot, ItemPointer tid)
{
	IndexInfo *info;

	if (t->generic)
		return; /* the executor has left out none */
	info = index_info(t, t->deferred);
	slot->tts_tid = *tid;
	index_enter(t, t->deferred, slot, info);
	pfree(info);
}

/*
 * Deletes a row by address. With wait = false a row that another transaction holds is passed over (TM_BeingModified or TM_WouldBlock),
 * and so is one on which this transaction holds no more than a lock. Error when this very command has made the row.
 */
TM_Result
store_delete(StoreTable *t, ItemPointer tid, bool wait)
{
	TM_FailureData failure;

	return table_tuple_delete(t->rel, tid, GetCurrentCommandId(true), InvalidSnapshot, InvalidSnapshot, wait, &failure,
							  false);
}

/* A registered snapshot that shows every commit until now. */
Snapshot
store_snapshot(void)
{
	return RegisterSnapshot(GetLatestSnapshot());
}

void
store_snapshot_done(Snapshot snapshot)
{
	UnregisterSnapshot(snapshot);
}

/* Makes the slot that scans of the table share, if it is not there yet. */
void
store_make_read_slot(StoreTable *t)
{
	if (t->read_slot == NULL)
		t->read_slot = table_slot_create(t->rel, NULL);
}

/* Starts a scan of one of the table's indexes; keys count the index's columns. */
void
store_scan_begin(StoreScan *scan, StoreTable *t, int index, Snapshot snapshot, ScanKey keys, int nkeys)
{
	scan->table = t;
	store_make_read_slot(t);
	scan->slot = t->read_slot;
	scan->desc = index_beginscan_compat(t->rel, store_index(t, index), snapshot, nkeys);
	index_rescan(scan->desc, keys, nkeys, NULL, 0);
}

/* Steps to the next visible row, forwards; it stands in scan->slot. */
bool
store_scan_next(StoreScan *scan)
{
	return index_getnext_slot(scan->desc, ForwardScanDirection, scan->slot);
}

void
store_scan_end(StoreScan *scan)
{
	index_endscan(scan->desc);
	ExecClearTuple(scan->slot);
}

/*
 * Reads a job's row into a slot of the caller's (table_slot_create kind). hint: where the row probably is, or NULL; a hint may point
 * anywhere, so its block is compared with the table's size and the row's id with the one wanted. False when the snapshot shows no such job.
 */
bool
store_job_fetch(StoreTable *job, Snapshot snapshot, int64 id, ItemPointer hint, TupleTableSlot *slot)
{
	ScanKeyData key;
	IndexScanDesc desc;
	bool found;

	if (hint && ItemPointerIsValid(hint))
	{
		if (!BlockNumberIsValid(job->nblocks) || ItemPointerGetBlockNumberNoCheck(hint) >= job->nblocks)
			job->nblocks = RelationGetNumberOfBlocks(job->rel);
		if (ItemPointerGetBlockNumberNoCheck(hint) < job->nblocks &&
			table_tuple_fetch_row_version(job->rel, hint, snapshot, slot) &&
			DatumGetInt64(slot_value(slot, Anum_job_id)) == id)
			return true;
	}
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	desc = index_beginscan_compat(job->rel, store_index(job, INDEX_JOB_PKEY), snapshot, 1);
	index_rescan(desc, &key, 1, NULL, 0);
	found = index_getnext_slot(desc, ForwardScanDirection, slot);
	index_endscan(desc);
	if (!found)
		ExecClearTuple(slot);
	return found;
}

/*
 * Locks a row. slot (table_slot_create kind) receives the locked version when the result is TM_Ok. With wait = false a row that is
 * locked otherwise is TM_WouldBlock. A lock of our own transaction is no obstacle. Where an update that does not conflict is in progress
 * (a heartbeat beside a completer), the new version is locked too: else its next reader would not see the lock.
 */
TM_Result
store_lock(StoreTable *t, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot, LockTupleMode mode, bool wait)
{
	TM_FailureData failure;

	return table_tuple_lock(t->rel, tid, snapshot, slot, GetCurrentCommandId(true), mode,
							wait ? LockWaitBlock : LockWaitSkip, TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS, &failure);
}

/* Deletes a row that the snapshot shows, without waiting, also where this transaction has locked it. False: somebody else has it in hand. */
bool
store_take(StoreTable *t, ItemPointer tid, Snapshot snapshot)
{
	TupleTableSlot *slot;
	bool ours;

	if (store_delete(t, tid, false) == TM_Ok)
		return true;
	slot = store_read_slot(t);
	ours = store_lock(t, tid, snapshot, slot, LockTupleExclusive, false) == TM_Ok;
	ExecDropSingleTupleTableSlot(slot);
	/* there is nobody to wait for */
	return ours && store_delete(t, tid, true) == TM_Ok;
}

/* Replaces the row at tid, which the caller has locked, by the one in a slot of store_slot. */
TM_Result
store_update(StoreTable *t, ItemPointer tid, TupleTableSlot *slot)
{
	TM_Result result;
	bool new_entries;

	if (TTS_EMPTY(slot))
		ExecStoreVirtualTuple(slot);
	result = table_tuple_update_compat(t->rel, tid, slot, GetCurrentCommandId(true), &new_entries);
	if (result == TM_Ok && new_entries)
		enter_indexes(t, &slot, 1);
	return result;
}

/* A slot for reading rows of the table, the caller's to drop with ExecDropSingleTupleTableSlot. */
TupleTableSlot *
store_read_slot(StoreTable *t)
{
	return table_slot_create(t->rel, NULL);
}

/* Starts a scan of the whole table. */
TableScanDesc
store_heap_begin(StoreTable *t, Snapshot snapshot)
{
	return table_beginscan(t->rel, snapshot, 0, NULL);
}

bool
store_heap_next(TableScanDesc scan, TupleTableSlot *slot)
{
	return table_scan_getnextslot(scan, ForwardScanDirection, slot);
}

void
store_heap_end(TableScanDesc scan)
{
	table_endscan(scan);
}
