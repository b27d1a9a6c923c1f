/*-------------------------------------------------------------------------
 *
 * pool.c
 *		The executors' places in shared memory.
 *
 * The scheduler reserves a place and has a process started for it; the
 * process enters it and sleeps there between jobs. Which queue, and which
 * handler, a process is at stands in its place, and nowhere else: a limit is
 * kept by counting places, and nothing can be left over from a process that
 * has ended. All of it is guarded by JobqShared.executor_lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "pool.h"
#include "timeutil.h"

/* A place whose process has not come by then is free again. */
#define LONGEST_WAY (30 * USECS_PER_SEC)

static void
clear(ExecutorSlot *e)
{
	e->db_oid = InvalidOid;
	e->pid = 0;
	e->latch = NULL;
	e->key = 0;
	e->leave = false;
	e->queue_id = 0;
	e->handler = 0;
	pg_atomic_write_u32(&e->idle, 0);
}

/* Takes a free place for a database; -1: there is none. */
int
pool_reserve(Oid db_oid)
{
	int place = -1;

	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	for (int i = 0; i < jobq_max_executors && place < 0; i++)
	{
		ExecutorSlot *e = &jobq_executors[i];

		if (OidIsValid(e->db_oid))
			continue;
		clear(e);
		e->db_oid = db_oid;
		e->reserved = clock_now();
		place = i;
	}
	LWLockRelease(&jobq_shared->executor_lock);
	return place;
}

/* Gives a place back. pid: of the process that has it, 0: none came. Somebody else's is left alone. */
void
pool_free(int place, int pid)
{
	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	if (jobq_executors[place].pid == pid)
		clear(&jobq_executors[place]);
	LWLockRelease(&jobq_shared->executor_lock);
}

/* Frees the database's places that were reserved long ago, and to which nobody came: the scheduler that waited for them has ended. */
void
pool_forget_lost(Oid db_oid)
{
	TimestampTz now = clock_now();

	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	for (int i = 0; i < jobq_max_executors; i++)
	{
		ExecutorSlot *e = &jobq_executors[i];

		if (e->db_oid == db_oid && e->pid == 0 && (e->reserved > now || now - e->reserved > LONGEST_WAY))
			clear(e);
	}
	LWLockRelease(&jobq_shared->executor_lock);
}

PoolCount
pool_count(Oid db_oid)
{
	PoolCount count = {0, 0, 0};

	LWLockAcquire(&jobq_shared->executor_lock, LW_SHARED);
	for (int i = 0; i < jobq_max_executors; i++)
	{
		ExecutorSlot *e = &jobq_executors[i];

		count.free += !OidIsValid(e->db_oid);
		count.ours += e->db_oid == db_oid;
		count.unasked += e->db_oid == db_oid && e->queue_id == 0 && !e->leave;
	}
	LWLockRelease(&jobq_shared->executor_lock);
	return count;
}

/* This process is the one that the place was reserved for. False: it came too late. */
bool
pool_enter(int place, int64 key)
{
	ExecutorSlot *e = &jobq_executors[place];
	bool ours;

	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	ours = e->db_oid == MyDatabaseId && e->pid == 0;
	if (ours)
	{
		e->pid = MyProcPid;
		e->latch = MyLatch;
		e->key = key;
	}
	LWLockRelease(&jobq_shared->executor_lock);
	return ours;
}

/* Whether this process is an executor. */
bool
pool_is_mine(void)
{
	bool found = false;

	LWLockAcquire(&jobq_shared->executor_lock, LW_SHARED);
	for (int i = 0; i < jobq_max_executors && !found; i++)
		found = jobq_executors[i].pid == MyProcPid;
	LWLockRelease(&jobq_shared->executor_lock);
	return found;
}

/* How many executors are at a queue. */
int
pool_executing(Oid db_oid, int32 queue_id)
{
	int n = 0;

	LWLockAcquire(&jobq_shared->executor_lock, LW_SHARED);
	for (int i = 0; i < jobq_max_executors; i++)
		n += jobq_executors[i].db_oid == db_oid && jobq_executors[i].queue_id == queue_id;
	LWLockRelease(&jobq_shared->executor_lock);
	return n;
}

/* Turns to a queue, if it may have one more executor. */
bool
pool_take_queue(int place, QueueSlot *slot)
{
	uint32 others = 0;
	bool taken;

	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	for (int i = 0; i < jobq_max_executors; i++)
		others +=
			i != place && jobq_executors[i].db_oid == MyDatabaseId && jobq_executors[i].queue_id == slot->queue_id;
	taken = slot->db_oid == MyDatabaseId && others < pg_atomic_read_u32(&slot->handlers);
	if (taken)
		jobq_executors[place].queue_id = slot->queue_id;
	LWLockRelease(&jobq_shared->executor_lock);
	return taken;
}

/* Wakes those who wait for one of the database's handlers. Caller holds executor_lock. */
static void
wake_waiting(int place)
{
	for (int i = 0; i < jobq_max_executors; i++)
		if (i != place && jobq_executors[i].db_oid == MyDatabaseId && jobq_executors[i].latch)
			SetLatch(jobq_executors[i].latch);
}

void
pool_leave_queue(int place)
{
	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	jobq_executors[place].queue_id = 0;
	jobq_executors[place].handler = 0;
	LWLockRelease(&jobq_shared->executor_lock);
}

/* Takes one of a handler's concurrency, of the queue that the place is at. False: they are all taken; the latch is set when one is free. */
bool
pool_take_handler(int place, uint32 handler, int concurrency)
{
	int others = 0;

	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	for (int i = 0; i < jobq_max_executors; i++)
	{
		ExecutorSlot *e = &jobq_executors[i];

		others += i != place && e->db_oid == MyDatabaseId && e->queue_id == jobq_executors[place].queue_id &&
				  e->handler == handler;
	}
	if (others < concurrency)
		jobq_executors[place].handler = handler;
	LWLockRelease(&jobq_shared->executor_lock);
	return others < concurrency;
}

void
pool_leave_handler(int place)
{
	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	jobq_executors[place].handler = 0;
	wake_waiting(place);
	LWLockRelease(&jobq_shared->executor_lock);
}

/* Whether the executor that marks its leases with the key is still there. */
bool
pool_has_key(int64 key)
{
	bool found = false;

	LWLockAcquire(&jobq_shared->executor_lock, LW_SHARED);
	for (int i = 0; i < jobq_max_executors && !found; i++)
		found = OidIsValid(jobq_executors[i].db_oid) && jobq_executors[i].key == key;
	LWLockRelease(&jobq_shared->executor_lock);
	return found;
}

/* Leaves word that a job is ready that nobody was woken for. */
void
pool_want(DbSlot *db, bool wake_scheduler)
{
	bool was;

	SpinLockAcquire(&db->mutex);
	was = db->executors_wanted;
	db->executors_wanted = true;
	SpinLockRelease(&db->mutex);
	if (!was && wake_scheduler)
		shmem_wake_scheduler(db);
}

/* Whether such word was left since the last call. */
bool
pool_is_wanted(DbSlot *db)
{
	bool was;

	SpinLockAcquire(&db->mutex);
	was = db->executors_wanted;
	db->executors_wanted = false;
	SpinLockRelease(&db->mutex);
	return was;
}

/* Wakes idle executors for n tickets of a queue; where too few are idle and a place is free, more are to be started. Cannot fail. */
void
pool_wake_for(DbSlot *db, QueueSlot *slot, int n)
{
	Oid db_oid = db->db_oid;
	int allowed = (int) Min(pg_atomic_read_u32(&slot->handlers), (uint32) jobq_max_executors);
	bool free = false;

	LWLockAcquire(&jobq_shared->executor_lock, LW_SHARED);
	for (int i = 0; i < jobq_max_executors; i++)
	{
		free |= !OidIsValid(jobq_executors[i].db_oid);
		allowed -= jobq_executors[i].db_oid == db_oid && jobq_executors[i].queue_id == slot->queue_id;
	}
	n = Min(n, allowed);
	for (int i = 0; i < jobq_max_executors && n > 0; i++)
	{
		uint32 idle = 1;

		if (jobq_executors[i].db_oid != db_oid || !pg_atomic_compare_exchange_u32(&jobq_executors[i].idle, &idle, 0))
			continue;
		SetLatch(jobq_executors[i].latch);
		n--;
	}
	LWLockRelease(&jobq_shared->executor_lock);
	if (n > 0)
		pool_want(db, free);
}

/*
 * Asks the executors of a database (InvalidOid: of all) to leave; after `until` they interrupt what they run. Returns how many there are.
 */
int
pool_ask_to_leave(Oid db_oid, TimestampTz until)
{
	int n = 0;

	LWLockAcquire(&jobq_shared->executor_lock, LW_EXCLUSIVE);
	for (int i = 0; i < jobq_max_executors; i++)
	{
		ExecutorSlot *e = &jobq_executors[i];

		if (!OidIsValid(e->db_oid) || (OidIsValid(db_oid) && e->db_oid != db_oid))
			continue;
		e->until = e->leave ? Min(e->until, until) : until;
		e->leave = true;
		if (e->latch)
			SetLatch(e->latch);
		n++;
	}
	LWLockRelease(&jobq_shared->executor_lock);
	return n;
}
