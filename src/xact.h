/*-------------------------------------------------------------------------
 *
 * xact.h
 *		What a transaction of ours owes shared memory at its end.
 *
 * Verbs note what they did; the one transaction callback applies it after
 * the commit is visible (or after the abort), per subtransaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_XACT_H
#define JOBQ_XACT_H

#include "jobq.h"

#include "datatype/timestamp.h"
#include "storage/lmgr.h"

#include "meta.h"

/*
 * Called before each commit (prepare: PREPARE TRANSACTION) of a transaction that used a verb, when no drop can interfere any more. It may
 * fail. Set once, at the start.
 */
typedef void (*XactPrecommit)(bool prepare);
extern XactPrecommit xact_precommit_jobs; /* takes the stripes of jobs */
extern XactPrecommit xact_precommit;      /* and after it, those of groups */
extern void xact_init(void);

/* Brackets of a verb: what is written between them is ours. Every verb ends with a CommandCounterIncrement. */
extern void xact_verb_begin(DbSlot *db);
extern void xact_verb_end(bool may_be_lost);

extern void xact_count(QueueInfo *queue, JobqCounter counter, int64 delta);
extern void xact_time(QueueInfo *queue, JobqTime what, int64 usecs);
extern void xact_made_ready(QueueInfo *queue, int lane, int priority, int64 lo, int64 hi, int n);
extern void xact_reserved(QueueInfo *queue, int n);
extern int64 xact_active(QueueInfo *queue, int64 *reserved);
extern void xact_wake_all(QueueInfo *queue);
extern void xact_reserve(void);
extern void xact_took_ready(QueueInfo *queue, int lane, int priority, int64 seq);
extern void xact_claimed(QueueInfo *queue, int64 job_id);
extern void xact_made_delayed(QueueInfo *queue, TimestampTz visible_at);
extern void xact_made_lease(TimestampTz lease_until);
extern void xact_done(QueueInfo *queue, int64 job_id, int64 token);
extern bool xact_done_here(int64 job_id, int64 token);
extern void xact_begin_drop(QueueInfo *queue);
extern void xact_dropped_queue(QueueInfo *queue);
extern void xact_register_database(Oid ext_oid);

/* objsubid of the lock; those of other modules are others */
#define LOCK_COMMITS 3

/*
 * Locks a queue against the commits of who enqueued to it. Those take ShareLock before they commit; a drop takes ExclusiveLock before
 * it looks at the jobs, and so sees those of every commit it did not hold up. Until the transaction ends.
 */
static inline void
xact_lock_queue(int32 queue_id, LOCKMODE mode)
{
	LockDatabaseObject(meta_table_oid(TABLE_QUEUE), (Oid) queue_id, LOCK_COMMITS, mode);
}

#endif
