/*-------------------------------------------------------------------------
 *
 * liveness.c
 *		Which sessions that took groups are still there.
 *
 * Opt-in, by jobq.session_liveness: a session draws a key, keeps it in its
 * place in shared memory until its process ends, and marks its leases of
 * groups with it. A lease whose key nobody holds any more is taken over at
 * once. The place is emptied by the end of the process, and a process that
 * dies without that takes all of shared memory with it; so unlike an
 * advisory lock the key cannot get lost while the session lives.
 *
 * Leases from before the server's start, or its promotion, say nothing of
 * the sessions of today: they last until their time is over, and a moment
 * longer, in which their workers may come back and extend them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "ident.h"
#include "liveness.h"
#include "pool.h"
#include "timeutil.h"

/* How much longer a lease lasts that is older than the server's start, at most; and never more than its own length. */
#define START_GRACE (30 * USECS_PER_SEC)

static int64 my_key = 0;

/* The end of the process: its leases may be taken over. */
static void
session_ends(int code, Datum arg)
{
	DbSlot *db = (DbSlot *) DatumGetPointer(arg);

	pg_atomic_write_u64(&jobq_sessions[backend_index_compat()], 0);
	SpinLockAcquire(&db->mutex);
	db->sessions_ended = true;
	SpinLockRelease(&db->mutex);
	shmem_wake_scheduler(db);
}

/* When the server began to run; 0 in recovery. The launcher notes it, or whoever comes first: it may find no place to run. */
static TimestampTz
running_since(void)
{
	if (jobq_shared->running_since == 0 && !RecoveryInProgress())
		jobq_shared->running_since = clock_now();
	return jobq_shared->running_since;
}

/* The key to mark a group's lease with; 0 when the session does not want it. */
int64
liveness_key(DbSlot *db)
{
	(void) running_since();
	if (!jobq_session_liveness)
		return 0;
	if (my_key == 0)
	{
		/* ids are a database's own, the array is the server's */
		my_key = ((int64) (MyDatabaseId & 0x3fffff) << 41) | (ident_job_id(db) & ((INT64CONST(1) << 41) - 1));
		on_shmem_exit(session_ends, PointerGetDatum(db));
		pg_atomic_write_u64(&jobq_sessions[backend_index_compat()], (uint64) my_key);
	}
	return my_key;
}

/* Whether the lease was granted before this server started, or was promoted. */
static bool
is_from_before(const Lease *lease)
{
	TimestampTz since = running_since();

	return since == 0 || lease->started < since;
}

/* Whether the session that took a lease has ended, as far as that is known. */
bool
liveness_has_ended(const Lease *lease)
{
	/* an executor does not survive its server, whoever started it */
	if (lease->session < 0)
		return !pool_has_key(lease->session);
	if (lease->session == 0 || is_from_before(lease))
		return false;
	for (int i = 0; i < MaxBackends; i++)
		if (pg_atomic_read_u64(&jobq_sessions[i]) == (uint64) lease->session)
			return false;
	return true;
}

/* Until when a group's lease whose time is over is left alone; DT_NOBEGIN: no longer. */
TimestampTz
liveness_grace(const Lease *lease)
{
	TimestampTz since = running_since();

	if (lease->group_id == 0 || !is_from_before(lease))
		return DT_NOBEGIN;
	return timestamp_add(since, Min(lease->lease_until - lease->started, START_GRACE));
}
