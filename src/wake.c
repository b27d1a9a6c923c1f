/*-------------------------------------------------------------------------
 *
 * wake.c
 *		Who is woken when there is something to take.
 *
 * Called after a commit or an abort is visible: nothing here can fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "guc.h"
#include "pool.h"
#include "wake.h"

/* Wakes executors and waiting sessions for n tickets of a queue. */
void
wake_waiters(DbSlot *db, QueueSlot *slot, int n)
{
	uint32 waiters = pg_atomic_read_u32(&slot->waiters);

	pool_wake(db, slot, n);
	if (waiters == 0)
		return;
	if (n >= waiters)
		ConditionVariableBroadcast(&slot->wake);
	else
		while (n-- > 0)
			ConditionVariableSignal(&slot->wake);
}

/* The same when n jobs of a limited queue have made room: in all queues that share the limit. */
void
wake_limited(DbSlot *db, QueueSlot *slot, int64 n)
{
	uint64 group = slot->limit_group;
	Oid db_oid = slot->db_oid;

	n = Min(n, PG_INT32_MAX);
	if (group == 0)
		wake_waiters(db, slot, (int) n);
	for (int i = 0; i < jobq_max_queues && group != 0; i++)
		if (jobq_queues[i].limit_group == group && jobq_queues[i].db_oid == db_oid)
			wake_waiters(db, &jobq_queues[i], (int) n);
}
