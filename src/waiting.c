/*-------------------------------------------------------------------------
 *
 * waiting.c
 *		Taking a job out of where it waits, without waiting for anybody.
 *
 * One snapshot shows a live job in exactly one place, so a job that it shows
 * in none of them was active then. A ticket that can be deleted although an
 * older snapshot showed it has been there all the time, and with it the
 * job's row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "waiting.h"
#include "xact.h"

/* Gone since the snapshot, or in somebody's hands: it is to be looked for again. */
static WaitingResult
take_row(StoreTable *t, ItemPointer tid, Snapshot snapshot)
{
	return store_take(t, tid, snapshot) ? WAITING_TAKEN : WAITING_BUSY;
}

static WaitingResult
take_ticket(Retire *r, QueueInfo *queue, TupleTableSlot *job, JobqTable which, Snapshot snapshot, Waited *w)
{
	StoreTable *t = store_open_once(which == TABLE_READY ? &r->ready : &r->delayed, which);
	int64 job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	int16 priority = DatumGetInt16(slot_value(job, Anum_job_priority));
	WaitingResult result;
	Ticket ticket;

	if (!store_ticket_find(which, t, snapshot, job_id, queue->id, priority, &ticket))
		return WAITING_NOT;
	if (which == TABLE_READY)
		xact_reserve();
	result = take_row(t, &ticket.tid, snapshot);
	if (result != WAITING_TAKEN)
		return result;
	if (which == TABLE_READY)
		xact_took_ready(queue, ticket.lane, ticket.priority, ticket.seq);
	xact_count(queue, ticket_counter(which, &ticket), -1);
	w->attempt = ticket.attempt;
	return WAITING_TAKEN;
}

/* A job that left the line: its group's ticket follows at commit, if nobody has it in hand. */
static WaitingResult
leave_line(Retire *r, QueueInfo *queue, TupleTableSlot *job, const text *key, Snapshot snapshot, Waited *w)
{
	StoreTable *line = store_open_once(&r->line, TABLE_LINE);
	int64 job_id = DatumGetInt64(slot_value(job, Anum_job_id));
	WaitingResult result;

	/* one that this transaction itself enqueued, or gave back, is not in line yet */
	if (line_forget(job_id, &w->row, &w->has_place))
	{
		w->attempt = w->row.attempt;
		return WAITING_TAKEN;
	}
	if (!store_line_of_job(line, snapshot, job_id, &w->row))
		return WAITING_NOT;
	result = take_row(line, &w->row.tid, snapshot);
	if (result != WAITING_TAKEN)
		return result;
	xact_count(queue, COUNT_READY, -1);
	line_left(queue, key, w->row.ord);
	w->attempt = w->row.attempt;
	w->has_place = true;
	return WAITING_TAKEN;
}

WaitingResult
waiting_take(Retire *r, QueueInfo *queue, TupleTableSlot *job, Snapshot snapshot, Waited *w)
{
	WaitingResult result;
	bool isnull;
	Datum key;

	memset(w, 0, sizeof(*w));
	CHECK_FOR_INTERRUPTS();
	result = take_ticket(r, queue, job, TABLE_READY, snapshot, w);
	if (result == WAITING_NOT)
		result = take_ticket(r, queue, job, TABLE_DELAYED, snapshot, w);
	key = slot_datum(job, Anum_job_group_key, &isnull);
	if (result == WAITING_NOT && !isnull)
		result = leave_line(r, queue, job, DatumGetTextPP(key), snapshot, w);
	return result;
}
