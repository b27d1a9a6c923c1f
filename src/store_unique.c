/*-------------------------------------------------------------------------
 *
 * store_unique.c
 *		Who has a unique key: rows of jobq.job by their key, and of
 *		jobq.unique_window.
 *
 * A look at a key sees what other transactions are about to commit, and
 * waits for them, as a unique index does. It locks nothing: a transaction
 * that only finds its key taken is in nobody's way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "store.h"

static void
key_of_claim(ScanKey keys, int32 queue_id, const text *key)
{
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
						   PointerGetDatum(key));
}

static void
read_holder(TupleTableSlot *slot, UniqueHolder *holder)
{
	bool isnull;
	Datum xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);

	holder->mine = TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin));
	holder->job_id = DatumGetInt64(slot_value(slot, Anum_job_id));
	holder->priority = DatumGetInt16(slot_value(slot, Anum_job_priority));
	(void) slot_datum(slot, Anum_job_unique_started, &isnull);
	holder->until_started = !isnull; /* a job that has started has no entry here */
}

/* Opens looks at keys of jobs. */
void
store_unique_begin(UniqueLooks *looks, StoreTable *job)
{
	memset(looks, 0, sizeof(*looks));
	InitDirtySnapshot(looks->dirty);
	looks->job = job;
}

void
store_unique_end(UniqueLooks *looks)
{
	if (looks->open)
		store_scan_end(&looks->scan);
	if (looks->range_open)
		store_scan_end(&looks->range);
	looks->open = looks->range_open = false;
}

/* The first of the keys in a range, ends included, that a job has or is about to have or to give up; a copy, NULL when there is none. */
text *
store_unique_next(UniqueLooks *looks, int32 queue_id, const text *from, const text *to)
{
	ScanKeyData keys[3];
	bool isnull;
	text *key = NULL;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTGreaterEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXT_GE,
						   PointerGetDatum(from));
	ScanKeyEntryInitialize(&keys[2], 0, 2, BTLessEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXT_LE,
						   PointerGetDatum(to));
	if (looks->range_open)
		index_rescan(looks->range.desc, keys, 3, NULL, 0);
	else
		store_scan_begin(&looks->range, looks->job, INDEX_JOB_UNIQUE_KEY, &looks->dirty, keys, 3);
	looks->range_open = true;
	if (store_scan_next(&looks->range))
	{
		key = DatumGetTextPCopy(slot_datum(looks->range.slot, Anum_job_unique_key, &isnull));
		ExecClearTuple(looks->range.slot);
	}
	return key;
}

/* One look. *other: the transaction to wait for, if that decides who has the key; *token: it is about to insert, and will know in no time. */
static bool
look(UniqueLooks *looks, ScanKey keys, UniqueHolder *holder, TransactionId *other, uint32 *token, ItemPointer tid)
{
	bool found;

	if (looks->open)
		index_rescan(looks->scan.desc, keys, 2, NULL, 0);
	else
		store_scan_begin(&looks->scan, looks->job, INDEX_JOB_UNIQUE_KEY, &looks->dirty, keys, 2);
	looks->open = true;
	found = store_scan_next(&looks->scan);
	if (found)
	{
		*other = TransactionIdIsValid(looks->dirty.xmin) ? looks->dirty.xmin : looks->dirty.xmax;
		*token = TransactionIdIsValid(looks->dirty.xmin) ? looks->dirty.speculativeToken : 0;
		*tid = looks->scan.slot->tts_tid;
		read_holder(looks->scan.slot, holder);
		/* no pin is kept while something is waited for */
		ExecClearTuple(looks->scan.slot);
	}
	return found;
}

/* Which job has a key. Where that hangs on a transaction in progress it is waited for, or with wait = false the answer is UNIQUE_LOOK_BUSY. */
UniqueLook
store_unique_look(UniqueLooks *looks, int32 queue_id, const text *key, bool wait, UniqueHolder *holder)
{
	ScanKeyData keys[2];

	key_of_claim(keys, queue_id, key);
	for (;;)
	{
		TransactionId other;
		ItemPointerData tid;
		uint32 token;

		CHECK_FOR_INTERRUPTS();
		if (!look(looks, keys, holder, &other, &token, &tid))
			return UNIQUE_LOOK_FREE;
		if (!TransactionIdIsValid(other))
			return UNIQUE_LOOK_TAKEN;
		store_unique_end(looks);
		if (token != 0)
			SpeculativeInsertionWait(other, token);
		else if (wait)
			XactLockTableWait(other, looks->job->rel, &tid, XLTW_InsertIndexUnique);
		else
			return UNIQUE_LOOK_BUSY;
	}
}

/* Whether there are windows at all: to know that there are none is cheap. */
bool
store_windows_exist(StoreTable *window)
{
	return RelationGetNumberOfBlocks(window->rel) > 0;
}

/* The window of a key. False: none. */
bool
store_window_find(StoreTable *window, Snapshot snapshot, int32 queue_id, const text *key, UniqueWindow *row)
{
	ScanKeyData keys[2];
	StoreScan scan;
	bool found;

	key_of_claim(keys, queue_id, key);
	store_scan_begin(&scan, window, INDEX_UNIQUE_WINDOW_PKEY, snapshot, keys, 2);
	found = store_scan_next(&scan);
	if (found)
	{
		row->tid = scan.slot->tts_tid;
		row->job_id = DatumGetInt64(slot_value(scan.slot, Anum_unique_window_job_id));
		row->until = DatumGetTimestampTz(slot_value(scan.slot, Anum_unique_window_until));
	}
	store_scan_end(&scan);
	return found;
}

void
store_window_insert(StoreTable *window, int32 queue_id, const text *key, int64 job_id, TimestampTz until)
{
	TupleTableSlot *slot = store_slot(window, 0);

	slot_set(slot, Anum_unique_window_queue_id, Int32GetDatum(queue_id));
	slot_set(slot, Anum_unique_window_unique_key, PointerGetDatum(key));
	slot_set(slot, Anum_unique_window_job_id, Int64GetDatum(job_id));
	slot_set(slot, Anum_unique_window_until, TimestampTzGetDatum(until));
	store_insert(window, &slot, 1);
}
