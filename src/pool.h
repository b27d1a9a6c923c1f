/* pool.h: the executors' places in shared memory */
#ifndef JOBQ_POOL_H
#define JOBQ_POOL_H

#include "jobq.h"

#include "shmem.h"

/* What is known of the places, as one database sees them. */
typedef struct PoolCount
{
	int free;    /* places that nobody has, in the whole server */
	int ours;    /* of this database */
	int unasked; /* of those: on their way, or without a queue at the moment */
} PoolCount;

/* by the scheduler */
extern int pool_reserve(Oid db_oid);
extern void pool_free(int place, int pid);
extern void pool_forget_lost(Oid db_oid);
extern PoolCount pool_count(Oid db_oid);

/* by the executor, of its own place */
extern bool pool_enter(int place, int64 key);
extern bool pool_take_queue(int place, QueueSlot *slot);
extern void pool_leave_queue(int place);
extern bool pool_take_handler(int place, uint32 handler, int concurrency);
extern void pool_leave_handler(int place);

/* by anybody */
extern bool pool_is_mine(void);
extern int pool_executing(Oid db_oid, int32 queue_id);
extern bool pool_has_key(int64 key);
extern void pool_want(DbSlot *db, bool wake_scheduler);
extern bool pool_is_wanted(DbSlot *db);
extern void pool_wake_for(DbSlot *db, QueueSlot *slot, int n);
extern int pool_ask_to_leave(Oid db_oid, TimestampTz until);

/* After a commit that made n tickets of the queue ready. */
static inline void
pool_wake(DbSlot *db, QueueSlot *slot, int n)
{
	if (pg_atomic_read_u32(&slot->handlers) > 0)
		pool_wake_for(db, slot, n);
}

#endif
