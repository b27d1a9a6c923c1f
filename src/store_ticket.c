/*-------------------------------------------------------------------------
 *
 * store_ticket.c
 *		Tickets: rows of jobq.ready and jobq.delayed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "store.h"

/* Fills an empty slot of store_slot(ready, ..). The slot points into *ticket. */
void
store_ready_fill(TupleTableSlot *slot, const Ticket *ticket)
{
	slot_set(slot, Anum_ready_seq, Int64GetDatum(ticket->seq));
	slot_set(slot, Anum_ready_job_id, Int64GetDatum(ticket->job_id));
	slot_set(slot, Anum_ready_queue_id, Int32GetDatum(ticket->queue_id));
	slot_set(slot, Anum_ready_attempt, Int32GetDatum(ticket->attempt));
	slot_set(slot, Anum_ready_lane, Int16GetDatum(ticket->lane));
	slot_set(slot, Anum_ready_priority, Int16GetDatum(ticket->priority));
	if (ticket->group_id > 0)
	{
		slot_set(slot, Anum_ready_group_id, Int64GetDatum(ticket->group_id));
		slot_set(slot, Anum_ready_from_ord, Int64GetDatum(ticket->from_ord));
	}
	else
		slot_set(slot, Anum_ready_job_tid, PointerGetDatum(&ticket->job_tid));
	if (ticket->since != 0)
		slot_set(slot, Anum_ready_since, TimestampTzGetDatum(ticket->since));
}

/* The same for store_slot(delayed, ..). */
void
store_delayed_fill(TupleTableSlot *slot, const Ticket *ticket)
{
	slot_set(slot, Anum_delayed_visible_at, TimestampTzGetDatum(ticket->visible_at));
	slot_set(slot, Anum_delayed_job_id, Int64GetDatum(ticket->job_id));
	slot_set(slot, Anum_delayed_queue_id, Int32GetDatum(ticket->queue_id));
	slot_set(slot, Anum_delayed_attempt, Int32GetDatum(ticket->attempt));
	slot_set(slot, Anum_delayed_priority, Int16GetDatum(ticket->priority));
	if (ticket->group_id > 0)
	{
		slot_set(slot, Anum_delayed_group_id, Int64GetDatum(ticket->group_id));
		slot_set(slot, Anum_delayed_from_ord, Int64GetDatum(ticket->from_ord));
		return;
	}
	if (ticket->joins)
		slot_set(slot, Anum_delayed_group_id, Int64GetDatum(0));
	slot_set(slot, Anum_delayed_job_tid, PointerGetDatum(&ticket->job_tid));
}

/* Reads a row of ready or delayed as scanned. */
void
store_ticket_read(JobqTable which, TupleTableSlot *slot, Ticket *ticket)
{
	bool isnull;
	bool ready = which == TABLE_READY;
	ItemPointer job_tid;

	slot_getallattrs(slot);
	ticket->tid = slot->tts_tid;
	ticket->seq = ready ? DatumGetInt64(slot_value(slot, Anum_ready_seq)) : 0;
	ticket->visible_at = ready ? DT_NOBEGIN : DatumGetTimestampTz(slot_value(slot, Anum_delayed_visible_at));
	ticket->job_id = DatumGetInt64(slot_value(slot, ready ? Anum_ready_job_id : Anum_delayed_job_id));
	ticket->queue_id = DatumGetInt32(slot_value(slot, ready ? Anum_ready_queue_id : Anum_delayed_queue_id));
	ticket->attempt = DatumGetInt32(slot_value(slot, ready ? Anum_ready_attempt : Anum_delayed_attempt));
	ticket->lane = ready ? DatumGetInt16(slot_value(slot, Anum_ready_lane)) : LANE_RETURNED;
	ticket->priority = DatumGetInt16(slot_value(slot, ready ? Anum_ready_priority : Anum_delayed_priority));
	job_tid =
		(ItemPointer) DatumGetPointer(slot_datum(slot, ready ? Anum_ready_job_tid : Anum_delayed_job_tid, &isnull));
	if (isnull)
		ItemPointerSetInvalid(&ticket->job_tid);
	else
		ticket->job_tid = *job_tid;
	ticket->group_id = DatumGetInt64(slot_datum(slot, ready ? Anum_ready_group_id : Anum_delayed_group_id, &isnull));
	ticket->joins = !isnull && ticket->group_id == 0;
	if (isnull)
		ticket->group_id = 0;
	ticket->from_ord = DatumGetInt64(slot_datum(slot, ready ? Anum_ready_from_ord : Anum_delayed_from_ord, &isnull));
	if (isnull)
		ticket->from_ord = PG_INT64_MIN;
	ticket->since = 0;
	if (ready && !slot->tts_isnull[Anum_ready_since - 1])
		ticket->since = DatumGetTimestampTz(slot->tts_values[Anum_ready_since - 1]);
	ticket->ord = ticket->turn_lease = 0;
	ticket->turn_start = DT_NOBEGIN;

	ticket->mine = false;
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
	{
		Datum xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);

		ticket->mine = TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin));
	}
}

/* Scans one lane of one priority from lo to hi, both inclusive; PG_INT64_MIN and PG_INT64_MAX leave an end open. */
void
store_ready_scan(StoreScan *scan, StoreTable *ready, Snapshot snapshot, int32 queue_id, int lane, int priority,
				 int64 lo, int64 hi)
{
	ScanKeyData keys[5];
	int n = 3;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(lane));
	ScanKeyInit(&keys[2], 3, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(priority));
	if (lo != PG_INT64_MIN)
		ScanKeyInit(&keys[n++], 4, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(lo));
	if (hi != PG_INT64_MAX)
		ScanKeyInit(&keys[n++], 4, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(hi));
	store_scan_begin(scan, ready, INDEX_READY_SCAN, snapshot, keys, n);
}

/* The lowest priority above the given one that has a visible ticket in the lane. above: PG_INT16_MIN - 1 for the first. */
bool
store_ready_next_priority(StoreTable *ready, Snapshot snapshot, int32 queue_id, int lane, int above, int16 *priority)
{
	ScanKeyData keys[3];
	StoreScan scan;
	int n = 2;
	bool found;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(lane));
	if (above >= PG_INT16_MIN)
		ScanKeyInit(&keys[n++], 3, BTGreaterStrategyNumber, F_INT2GT, Int16GetDatum((int16) above));
	store_scan_begin(&scan, ready, INDEX_READY_SCAN, snapshot, keys, n);
	found = store_scan_next(&scan);
	if (found)
		*priority = DatumGetInt16(slot_value(scan.slot, Anum_ready_priority));
	store_scan_end(&scan);
	return found;
}

/* Scans the queue's delayed tickets due from lo to hi, both inclusive; DT_NOBEGIN and DT_NOEND leave an end open. */
void
store_delayed_scan(StoreScan *scan, StoreTable *delayed, Snapshot snapshot, int32 queue_id, TimestampTz lo,
				   TimestampTz hi)
{
	ScanKeyData keys[3];
	int n = 1;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	if (!TIMESTAMP_IS_NOBEGIN(lo))
		ScanKeyInit(&keys[n++], 2, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE, TimestampTzGetDatum(lo));
	if (!TIMESTAMP_IS_NOEND(hi))
		ScanKeyInit(&keys[n++], 2, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE, TimestampTzGetDatum(hi));
	store_scan_begin(scan, delayed, INDEX_DELAYED_DUE, snapshot, keys, n);
}

static bool
first_ticket(JobqTable which, StoreTable *t, int index, Snapshot snapshot, ScanKey keys, int nkeys, Ticket *ticket)
{
	StoreScan scan;
	bool found;

	store_scan_begin(&scan, t, index, snapshot, keys, nkeys);
	found = store_scan_next(&scan);
	if (found)
		store_ticket_read(which, scan.slot, ticket);
	store_scan_end(&scan);
	return found;
}

/* The ticket of a group in ready or delayed. False when the snapshot shows none there. */
bool
store_ticket_of_group(JobqTable which, StoreTable *t, Snapshot snapshot, int64 group_id, Ticket *ticket)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(group_id));
	return first_ticket(which, t, which == TABLE_READY ? INDEX_READY_JOB : INDEX_DELAYED_JOB, snapshot, &key, 1,
						ticket);
}

/* The ticket of a job in ready or delayed. queue_id and priority are the job's. False when the snapshot shows none there. */
bool
store_ticket_find(JobqTable which, StoreTable *t, Snapshot snapshot, int64 job_id, int32 queue_id, int16 priority,
				  Ticket *ticket)
{
	ScanKeyData keys[4];

	if (which == TABLE_READY)
	{
		ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
		ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(LANE_FRESH));
		ScanKeyInit(&keys[2], 3, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(priority));
		ScanKeyInit(&keys[3], 4, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
		if (first_ticket(which, t, INDEX_READY_SCAN, snapshot, keys, 4, ticket))
			return true;
	}
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	return first_ticket(which, t, which == TABLE_READY ? INDEX_READY_JOB : INDEX_DELAYED_JOB, snapshot, keys, 1,
						ticket);
}
