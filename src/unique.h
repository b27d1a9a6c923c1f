/*-------------------------------------------------------------------------
 *
 * unique.h
 *		Unique keys: who has one, taking one, and letting go of it.
 *
 * The row of a job is its claim on its key, by a unique index, until the
 * job's end, or its first start. A claim that is to last longer leaves a row
 * in jobq.unique_window then.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_UNIQUE_H
#define JOBQ_UNIQUE_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "meta.h"
#include "store.h"

/* Looks at keys, one after the other. */
typedef struct UniqueWork
{
	QueueInfo *queue;
	UniqueLooks looks;
	StoreTable *window;
	bool windows; /* there may be some */
	bool wait;    /* for transactions in progress that decide */
} UniqueWork;

extern void unique_begin(UniqueWork *u, QueueInfo *queue, StoreTable *job, bool wait);
extern void unique_rest(UniqueWork *u); /* before its memory context is reset */
extern void unique_end(UniqueWork *u);

/*
 * Whether a key is free; *holder is the job that has it, 0: not known, since a transaction in progress decides. Where the key is free from
 * the start of that job on, the job is kept from starting until this transaction ends. for_job: whose own window does not count.
 */
extern bool unique_is_free(UniqueWork *u, const text *key, int64 for_job, int64 *holder);

/* The same where no job has the key, as unique_next has said; what it says of windows is a hint only, as is all that is said here. */
extern bool unique_has_window(UniqueWork *u, const text *key, int64 for_job, int64 *holder);

/* The first key from..to that a job has, or that a transaction in progress decides about; a copy, NULL: there is none. */
extern text *unique_next(UniqueWork *u, const text *from, const text *to);

/*
 * Inserts the row of a job, given in a slot of store_slot, with its key. False: another one came first. If it stays, the key is
 * the transaction's.
 */
extern bool unique_insert(UniqueWork *u, StoreTable *job, TupleTableSlot *row);

/* After rows with keys were entered otherwise, and unique_begin: whether a key has got a window since it was looked at. */
extern bool unique_window_came(UniqueWork *u, const text *key);

/* A job starts whose key is free from its first start on: its row is written anew, and tells so. The slot gets its new address. */
extern void unique_start(StoreTable *table, StoreTable **window, TupleTableSlot *job, TimestampTz now);

/* A job leaves the scope of its claim, at its first start or at its end. */
extern void unique_release(StoreTable **window, TupleTableSlot *job, TimestampTz now);

#endif
