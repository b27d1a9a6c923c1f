/*-------------------------------------------------------------------------
 *
 * retire.h
 *		What becomes of a job whose ticket is in our hands: finished, dead,
 *		or back in the queue.
 *
 * Contract of every function here: the caller owns the job, that is, this
 * transaction deleted its ticket or holds or deleted its lease, and the job
 * row was read with a snapshot taken after that. The functions write the
 * rows and note counters with xact.c, but do not count the job out of the
 * state it came from: the caller does, since it knows it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_RETIRE_H
#define JOBQ_RETIRE_H

#include "jobq.h"

#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "due.h"
#include "store.h"

/* The tables an ending may write; opened on first use, closed by retire_end. */
typedef struct Retire
{
	StoreTable *job; /* opened by retire_begin */
	StoreTable *ready;
	StoreTable *delayed;
	StoreTable *dead;
	StoreTable *line;
	StoreTable *window;
	StoreTable *history[NUM_TABLES - TABLE_HISTORY];
	int nhistory; /* pending history rows, all for history_table */
	JobqTable history_table;
	TimestampTz now;
	TupleTableSlot *read_slots[STORE_BATCH]; /* of retire_job */
	int next_read;
	bool batched; /* jobs are read with retire_job only: history rows may be written together */
} Retire;

/* What is known of the attempt that ends; token 0: none was running. */
typedef struct Attempt
{
	int64 token;
	int32 attempt; /* the number of the attempt that ends, or the attempts counted so far */
	TimestampTz started;
	text *worker;
	Jsonb *progress; /* the lease's object by job id, or NULL */
	Jsonb *result;
} Attempt;

/* Where a job comes from that died: for its headers when it is routed on or redriven. */
typedef struct Origin
{
	const char *queue;
	int64 job_id;
	int32 attempts;
	const char *reason;
	const text *error; /* NULL: none, or told elsewhere */
	TimestampTz died;
} Origin;

typedef enum FailResult
{
	FAIL_RETRY,
	FAIL_DEAD,
	FAIL_BLOCKED
} FailResult;

#define RETRY_IN_DEFAULT INT64CONST(-1)

/* When the job began that this process completes next, where that is not when its lease did; 0: not said. */
extern TimestampTz retire_run_began;

extern void retire_begin(Retire *r);
extern void retire_end(Retire *r);

/* The attempt that the job at a place of a lease is at. */
extern Attempt retire_attempt(const Lease *lease, int position);

/* Reads a job's row into a slot of r, good until STORE_BATCH more are read; NULL when the snapshot shows none. hint: its address, or NULL. */
extern TupleTableSlot *retire_job(Retire *r, Snapshot snapshot, int64 job_id, ItemPointer hint);

/* Ends a job: state 'c' completed, 'x' cancelled, 'e' expired. Deletes its row, keeps history where the queue does. False: the row was gone. */
extern bool retire_finish(Retire *r, QueueInfo *queue, TupleTableSlot *job, char state, const Attempt *attempt);

/*
 * A failed attempt: keeps the error, then puts the job back (after retry_in microseconds, or the queue's backoff when that is
 * RETRY_IN_DEFAULT) or makes it a dead letter. reason: of the death if it dies ('max_attempts', 'lease_expired', 'rejected').
 * With hold, a job that will run again is left without a ticket, and *hold tells from when on.
 */
extern FailResult retire_fail(Retire *r, QueueInfo *queue, TupleTableSlot *job, const Attempt *attempt,
							  const text *error, const char *reason, int64 retry_in, bool retry, TimestampTz *hold);

/*
 * Puts a job back: into ready, lane returned, under a new seq, or into delayed when visible_at is still to come. A group's job joins its
 * line at the end, then. attempt: counted so far.
 */
extern void retire_requeue(Retire *r, QueueInfo *queue, TupleTableSlot *job, int32 attempt, TimestampTz visible_at);

/* A job goes back to where it waits: its time to live may end there. */
static inline void
retire_waits(TupleTableSlot *job)
{
	bool isnull;
	Datum expires = slot_datum(job, Anum_job_expires, &isnull);

	if (!isnull)
		due_expiry(DatumGetTimestampTz(expires));
}

/* Deletes a job that nobody wants to remember (purge, delete): row and failures. False: the row was gone. */
extern bool retire_delete(Retire *r, QueueInfo *queue, TupleTableSlot *job);

extern Datum retire_origin_headers(Datum headers, bool isnull, const Origin *from);

/*
 * Finds the ticket of a waiting job in ready or delayed and deletes it without waiting. TAKE_OK and TAKE_BUSY tell the ticket and
 * where it was; the caller counts it out.
 */
typedef enum TakeResult
{
	TAKE_OK,
	TAKE_BUSY, /* another transaction has it in hand */
	TAKE_NONE  /* neither ready nor delayed: active or finished */
} TakeResult;
extern TakeResult retire_take_ticket(Retire *r, QueueInfo *queue, TupleTableSlot *job, Ticket *ticket, JobqTable *from);

#endif
