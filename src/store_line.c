/*-------------------------------------------------------------------------
 *
 * store_line.c
 *		Rows of groups: who is in line, tickets that are held, known groups,
 *		settings and rates of single groups.
 *
 * Some of these rows are replaced again and again: a group that gets idle
 * and busy, a job that is taken and given back, a rate. Under an old
 * snapshot no vacuum removes the dead ones. So what is looked up has the
 * newest entry first, and the search ends at the first one that tells.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_collation.h"
#include "executor/executor.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "store.h"
#include "timeutil.h"

/* Fills an empty slot of store_slot(line, ..), which points into *row. ver: a new number. */
void
store_line_fill(TupleTableSlot *slot, const LineRow *row, int64 ver)
{
	slot_set(slot, Anum_line_group_id, Int64GetDatum(row->group_id));
	slot_set(slot, Anum_line_ord, Int64GetDatum(row->ord));
	slot_set(slot, Anum_line_ver, Int64GetDatum(ver));
	slot_set(slot, Anum_line_job_id, Int64GetDatum(row->job_id));
	slot_set(slot, Anum_line_attempt, Int32GetDatum(row->attempt));
	slot_set(slot, Anum_line_priority, Int16GetDatum(row->priority));
	slot_set(slot, Anum_line_job_tid, PointerGetDatum(&row->job_tid));
	if (row->since != 0)
		slot_set(slot, Anum_line_since, TimestampTzGetDatum(row->since));
}

void
store_line_read(TupleTableSlot *slot, LineRow *row)
{
	slot_getallattrs(slot);
	row->since = slot->tts_isnull[Anum_line_since - 1] ? 0 : DatumGetTimestampTz(slot->tts_values[Anum_line_since - 1]);
	row->tid = slot->tts_tid;
	row->group_id = DatumGetInt64(slot_value(slot, Anum_line_group_id));
	row->ord = DatumGetInt64(slot_value(slot, Anum_line_ord));
	row->job_id = DatumGetInt64(slot_value(slot, Anum_line_job_id));
	row->attempt = DatumGetInt32(slot_value(slot, Anum_line_attempt));
	row->priority = DatumGetInt16(slot_value(slot, Anum_line_priority));
	row->job_tid = *(ItemPointer) DatumGetPointer(slot_value(slot, Anum_line_job_tid));
}

/* Scans a group's line in its order, from a place on. */
void
store_line_scan(StoreScan *scan, StoreTable *line, Snapshot snapshot, int64 group_id, int64 from_ord)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(group_id));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from_ord));
	store_scan_begin(scan, line, INDEX_LINE_ORDER, snapshot, keys, 2);
}

/* The first in a group's line. False: nobody is in line. */
bool
store_line_head(StoreTable *line, Snapshot snapshot, int64 group_id, int64 from_ord, LineRow *row)
{
	StoreScan scan;
	bool found;

	store_line_scan(&scan, line, snapshot, group_id, from_ord);
	found = store_scan_next(&scan);
	if (found)
		store_line_read(scan.slot, row);
	store_scan_end(&scan);
	return found;
}

/* A job's place in line. False: it is in none. */
bool
store_line_of_job(StoreTable *line, Snapshot snapshot, int64 job_id, LineRow *row)
{
	ScanKeyData key;
	StoreScan scan;
	bool found;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	store_scan_begin(&scan, line, INDEX_LINE_JOB, snapshot, &key, 1);
	found = store_scan_next(&scan);
	if (found)
		store_line_read(scan.slot, row);
	store_scan_end(&scan);
	return found;
}

/* Adds a held ticket. */
void
store_held_insert(StoreTable *held, const HeldRow *row)
{
	TupleTableSlot *slot = store_slot(held, 0);

	slot_set(slot, Anum_held_group_id, Int64GetDatum(row->group_id));
	slot_set(slot, Anum_held_queue_id, Int32GetDatum(row->queue_id));
	slot_set(slot, Anum_held_priority, Int16GetDatum(row->priority));
	slot_set(slot, Anum_held_reason, CStringGetTextDatum(row->blocked ? "blocked" : "paused"));
	slot_set(slot, Anum_held_since, TimestampTzGetDatum(row->since));
	slot_set(slot, Anum_held_from_ord, Int64GetDatum(row->from_ord));
	if (row->blocked)
	{
		slot_set(slot, Anum_held_dead_job, Int64GetDatum(row->dead_job));
		slot_set(slot, Anum_held_dead_ord, Int64GetDatum(row->dead_ord));
	}
	store_insert(held, &slot, 1);
}

/* A group's ticket in held. False: it is not there. */
bool
store_held_find(StoreTable *held, Snapshot snapshot, int64 group_id, HeldRow *row)
{
	ScanKeyData key;
	StoreScan scan;
	bool isnull;
	bool found;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(group_id));
	store_scan_begin(&scan, held, INDEX_HELD_PKEY, snapshot, &key, 1);
	found = store_scan_next(&scan);
	if (found)
	{
		slot_getallattrs(scan.slot);
		row->tid = scan.slot->tts_tid;
		row->group_id = group_id;
		row->queue_id = DatumGetInt32(slot_value(scan.slot, Anum_held_queue_id));
		row->priority = DatumGetInt16(slot_value(scan.slot, Anum_held_priority));
		row->blocked = strcmp(TextDatumGetCString(slot_value(scan.slot, Anum_held_reason)), "blocked") == 0;
		row->since = DatumGetTimestampTz(slot_value(scan.slot, Anum_held_since));
		row->from_ord = DatumGetInt64(slot_value(scan.slot, Anum_held_from_ord));
		row->dead_job = DatumGetInt64(slot_datum(scan.slot, Anum_held_dead_job, &isnull));
		row->dead_ord = DatumGetInt64(slot_datum(scan.slot, Anum_held_dead_ord, &isnull));
		if (isnull)
			row->blocked = false;
	}
	store_scan_end(&scan);
	return found;
}

static void
key_of_group(ScanKey keys, StoreTable *t, int index, int32 queue_id, const text *key)
{
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
						   PointerGetDatum(key));
}

/*
 * The row of a group's current life. Under the group's stripe every other transaction that changed it is over, so the newest entry whose
 * row was ever committed decides: if that is deleted, the older ones are.
 */
bool
store_group_find(StoreTable *job_group, Snapshot snapshot, int32 queue_id, const text *key, int64 *id, ItemPointer tid)
{
	ScanKeyData keys[2];
	StoreWalk walk;
	bool visible = false;

	key_of_group(keys, job_group, INDEX_JOB_GROUP_KEY, queue_id, key);
	store_walk_begin(&walk, job_group, INDEX_JOB_GROUP_KEY, snapshot, keys, 2);
	while (!visible && store_walk_back(&walk, &visible))
	{
		if (visible)
		{
			*id = DatumGetInt64(slot_value(walk.slot, Anum_job_group_id));
			*tid = walk.slot->tts_tid;
		}
		else if (store_walk_was_committed(&walk))
			break;
	}
	store_walk_end(&walk);
	return visible;
}

/* The key of a group, in the current memory context; NULL when there is no such group. */
text *
store_group_key(StoreTable *job_group, Snapshot snapshot, int64 id)
{
	ScanKeyData key;
	StoreScan scan;
	text *result = NULL;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	store_scan_begin(&scan, job_group, INDEX_JOB_GROUP_PKEY, snapshot, &key, 1);
	if (store_scan_next(&scan))
		result = DatumGetTextPCopy(slot_value(scan.slot, Anum_job_group_group_key));
	store_scan_end(&scan);
	return result;
}

void
store_group_insert(StoreTable *job_group, int64 id, int32 queue_id, const text *key)
{
	TupleTableSlot *slot = store_slot(job_group, 0);

	slot_set(slot, Anum_job_group_id, Int64GetDatum(id));
	slot_set(slot, Anum_job_group_queue_id, Int32GetDatum(queue_id));
	slot_set(slot, Anum_job_group_group_key, PointerGetDatum(key));
	store_insert(job_group, &slot, 1);
}

/* The settings of a group, in a slot of the caller's to drop; false, and no slot, when it has none. */
bool
store_group_setting(StoreTable *t, Snapshot snapshot, int32 queue_id, const text *key, TupleTableSlot **slot)
{
	ScanKeyData keys[2];
	StoreScan scan;
	bool found;

	key_of_group(keys, t, INDEX_GROUP_SETTING_PKEY, queue_id, key);
	store_scan_begin(&scan, t, INDEX_GROUP_SETTING_PKEY, snapshot, keys, 2);
	found = store_scan_next(&scan);
	if (found)
	{
		*slot = MakeSingleTupleTableSlot(RelationGetDescr(t->rel), &TTSOpsVirtual);
		ExecCopySlot(*slot, scan.slot);
	}
	store_scan_end(&scan);
	return found;
}

/* From when on a group may start its next job, and the row that says so. False: there is none. */
bool
store_group_rate(StoreTable *t, Snapshot snapshot, int32 queue_id, const text *key, TimestampTz *next_at,
				 ItemPointer tid)
{
	ScanKeyData keys[2];
	StoreWalk walk;
	bool visible = false;

	key_of_group(keys, t, INDEX_GROUP_RATE_KEY, queue_id, key);
	store_walk_begin(&walk, t, INDEX_GROUP_RATE_KEY, snapshot, keys, 2);
	while (!visible && store_walk_back(&walk, &visible))
	{
		if (visible)
		{
			*next_at = DatumGetTimestampTz(slot_value(walk.slot, Anum_group_rate_next_at));
			*tid = walk.slot->tts_tid;
		}
		else if (DatumGetTimestampTz(store_walk_key(&walk, 3)) <= clock_now() && store_walk_was_committed(&walk))
			break; /* trimmed, and so are those before it, or as good as that; one in the future may have been shortened */
	}
	store_walk_end(&walk);
	return visible;
}

void
store_group_rate_insert(StoreTable *t, int32 queue_id, const text *key, TimestampTz next_at)
{
	TupleTableSlot *slot = store_slot(t, 0);

	slot_set(slot, Anum_group_rate_queue_id, Int32GetDatum(queue_id));
	slot_set(slot, Anum_group_rate_group_key, PointerGetDatum(key));
	slot_set(slot, Anum_group_rate_next_at, TimestampTzGetDatum(next_at));
	store_insert(t, &slot, 1);
}
