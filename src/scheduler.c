/*-------------------------------------------------------------------------
 *
 * scheduler.c
 *		One process per database that has the extension: runs the steps of
 *		maintain.c when they are due, and otherwise sleeps.
 *
 * It is started by the launcher and leaves by itself when there is nothing
 * to do for jobq.scheduler_idle_timeout, so that the database can be dropped
 * or copied; the launcher has it back when work comes, or in time for the
 * next due time it left behind. While it sleeps it holds no transaction, no
 * snapshot and no lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "maintain.h"
#include "meta.h"
#include "timeutil.h"
#include "worker.h"

/* A clock that is set forward while we sleep is noticed after this. */
#define LONGEST_SLEEP (60 * USECS_PER_SEC)
/* While somebody changes or drops the extension. */
#define BLOCKED_FIRST (20 * 1000)
#define BLOCKED_LONGEST USECS_PER_SEC

static Maintain maintain;
static int probe; /* index into JobqShared.probed where it is to say that it has looked for the extension; -1: none */
static bool entered = false; /* registered in the database's slot */

/*
 * Settings that ALTER ROLE or ALTER DATABASE may have changed: nothing a user sets for his sessions may stop or change what happens
 * here. Commits need not wait for the disk: whatever a crash undoes here is done again after it.
 */
static const WorkerSetting fixed_settings[] = {
	{"role", "none"},
	{"search_path", ""},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"synchronous_commit", "off"},
	{"statement_timeout", "0"},
	/* a table that somebody locks must not stop the other steps for ever */
	{"lock_timeout", "2s"},
	/* nor must a commit that hangs while it brings jobs into a group */
	{"jobq.commit_timeout", "500ms"},
	{"idle_in_transaction_session_timeout", "0"},
	{"idle_session_timeout", "0"},
	{"transaction_timeout", "0"},
	{"session_replication_role", "origin"},
	{"row_security", "off"},
	{"default_tablespace", ""},
	{"temp_tablespaces", ""},
	{"datestyle", "ISO, MDY"},
	{"intervalstyle", "postgres"},
	{"timezone", "UTC"},
	{"plan_cache_mode", "auto"},
	{"enable_seqscan", "on"},
	{"enable_indexscan", "on"},
	{"enable_bitmapscan", "on"},
	{"enable_tidscan", "on"},
	{"enable_hashjoin", "on"},
	{"enable_nestloop", "on"},
	{"enable_hashagg", "on"},
	{"enable_sort", "on"},
	{"max_parallel_workers_per_gather", "0"},
	{"jit", "off"},
	{"transform_null_equals", "off"},
};

/* Leaves the slot, and tells the launcher. After an error or a termination another process is wanted. */
static void
scheduler_exit(int code, Datum arg)
{
	DbSlot *db = maintain.db;

	if (!entered)
		return;
	entered = false;
	if (code != 0)
		maintain_undo(&maintain);
	SpinLockAcquire(&db->mutex);
	if (db->scheduler_pid == MyProcPid)
	{
		db->scheduler_latch = NULL;
		db->scheduler_pid = 0;
		if (code != 0 && db->db_oid == MyDatabaseId)
			db->wanted = true;
	}
	SpinLockRelease(&db->mutex);
	shmem_wake_launcher();
}

/* Takes the database's slot. False: another scheduler has it. */
static bool
take_slot(DbSlot *db)
{
	bool taken;

	SpinLockAcquire(&db->mutex);
	taken = db->scheduler_pid == 0;
	if (taken)
	{
		db->scheduler_pid = MyProcPid;
		db->scheduler_latch = MyLatch;
		db->wanted = false;
		db->wake_at = DT_NOEND;
	}
	SpinLockRelease(&db->mutex);
	return taken;
}

/* Says that this process has looked for the extension, whatever it found. */
static void
answer_probe(void)
{
	if (probe >= 0 && probe < LAUNCHER_PROBES)
	{
		SpinLockAcquire(&jobq_shared->launcher_mutex);
		jobq_shared->probed[probe] = MyDatabaseId;
		SpinLockRelease(&jobq_shared->launcher_mutex);
	}
}

/* A scheduler that must not run: wanted no longer, and said once. */
static void
refuse(DbSlot *db, const char *why)
{
	bool first = true;

	if (db)
	{
		SpinLockAcquire(&db->mutex);
		db->wanted = false;
		first = db->failures <= 1;
		SpinLockRelease(&db->mutex);
	}
	ereport(first ? LOG : DEBUG1,
			(errmsg("jobq scheduler does not run in database \"%s\": %s", get_database_name(MyDatabaseId), why)));
}

/* Looks at the installation. Returns its slot, or NULL when there is nothing to do here. */
static DbSlot *
find_installation(Oid *ext_oid)
{
	DbSlot *db = NULL;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	*ext_oid = meta_extension_oid(true);
	answer_probe();
	if (OidIsValid(*ext_oid))
	{
		db = meta_db();
		if (!meta_adopted())
		{
			refuse(db, "it is a copy that was not adopted");
			db = NULL;
		}
	}
	else
		shmem_db_free(MyDatabaseId); /* what an extension that was dropped has left */
	CommitTransactionCommand();
	return db;
}

/* The same; an installation that cannot be used (another version, damaged) is said and left. */
static DbSlot *
try_installation(Oid *ext_oid)
{
	MemoryContext context = CurrentMemoryContext;
	DbSlot *db = NULL;

	PG_TRY();
	{
		db = find_installation(ext_oid);
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		if (error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
			ReThrowError(error);
		answer_probe();
		StartTransactionCommand();
		LWLockAcquire(&jobq_shared->lock, LW_SHARED);
		db = shmem_db_find(MyDatabaseId);
		LWLockRelease(&jobq_shared->lock);
		refuse(db, error->message);
		CommitTransactionCommand();
		db = NULL;
	}
	PG_END_TRY();
	return db;
}

/* The process may end here without a word: there is nothing to undo. */
static void
check_for_end(void)
{
	if (ProcDiePending)
	{
		ereport(DEBUG1, (errmsg("terminating jobq scheduler due to administrator command")));
		proc_exit(1);
	}
	CHECK_FOR_INTERRUPTS();
}

/* Sleeps until a time or until somebody has something for us. */
static void
sleep_until(TimestampTz next)
{
	TimestampTz now = clock_now();
	long ms = -1;

	pgstat_report_activity(STATE_IDLE, NULL);
	if (!TIMESTAMP_IS_NOEND(next))
		ms = next <= now ? 0 : TimestampDifferenceMilliseconds(now, Min(next, now + LONGEST_SLEEP));
	if (ms != 0)
	{
		(void) pgstat_report_stat(true);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (ms > 0 ? WL_TIMEOUT : 0), ms,
						 wait_event_compat());
	}
	ResetLatch(MyLatch);
	check_for_end();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Ends the process because of what maintenance found. */
static void
leave_for(MaintainLeave why)
{
	DbSlot *db = maintain.db;
	bool ours;

	if (why == LEAVE_FAILED)
		proc_exit(1);
	StartTransactionCommand();
	if (why == LEAVE_NOT_ADOPTED)
		refuse(db, "it is a copy that was not adopted");
	CommitTransactionCommand();
	SpinLockAcquire(&db->mutex);
	ours = db->db_oid == MyDatabaseId && db->ext_oid == maintain.ext_oid;
	db->scheduler_latch = NULL;
	db->scheduler_pid = 0;
	if (!ours && db->db_oid == MyDatabaseId)
		db->wanted = true; /* created anew while we ran */
	SpinLockRelease(&db->mutex);
	if (why == LEAVE_GONE && ours)
		shmem_db_free(MyDatabaseId);
	proc_exit(0);
}

/*
 * Leaves an idle database, to be back by next. Returns when something has come in between: who saw us still here has set our latch
 * only, so there is one more look after nobody can see us any more.
 */
static void
leave_idle(TimestampTz next)
{
	DbSlot *db = maintain.db;
	bool stay;

	SpinLockAcquire(&db->mutex);
	db->scheduler_latch = NULL;
	db->wake_at = next;
	SpinLockRelease(&db->mutex);
	stay = maintain_next(&maintain) < next;
	SpinLockAcquire(&db->mutex);
	stay |= db->wanted;
	if (stay)
	{
		db->scheduler_latch = MyLatch;
		db->wanted = false;
		db->wake_at = DT_NOEND;
	}
	SpinLockRelease(&db->mutex);
	if (!stay)
		proc_exit(0);
}

/* jobq.enabled was switched off: another process when it is on again. */
static void
leave_disabled(void)
{
	SpinLockAcquire(&maintain.db->mutex);
	maintain.db->wanted = true;
	SpinLockRelease(&maintain.db->mutex);
	proc_exit(0);
}

static void
main_loop(void)
{
	TimestampTz last_work = clock_now();
	int64 blocked = 0;
	bool tidied = false;

	for (;;)
	{
		int64 idle_timeout = jobq_scheduler_idle_timeout * USECS_PER_SEC;
		bool ran;
		TimestampTz next;
		TimestampTz now;

		if (!jobq_enabled)
			leave_disabled();
		next = maintain_run_due(&maintain, &ran);
		if (maintain.leave != LEAVE_NOT)
			leave_for(maintain.leave);
		now = clock_now();
		if (maintain.blocked)
		{
			maintain.blocked = false;
			blocked = blocked == 0 ? BLOCKED_FIRST : Min(blocked * 2, BLOCKED_LONGEST);
			sleep_until(now + blocked);
			continue;
		}
		blocked = 0;
		if (ran || last_work > now)
		{
			last_work = now;
			tidied = false;
		}
		if (next > now && next - now > idle_timeout && now - last_work >= idle_timeout)
		{
			if (tidied)
				leave_idle(next);
			else
				trim_soon();
			tidied = !tidied;
			continue;
		}
		/* came to rest: whatever ended earlier processes, this one works */
		if (next > now && maintain.db->failures > 0)
		{
			SpinLockAcquire(&maintain.db->mutex);
			maintain.db->failures = 0;
			SpinLockRelease(&maintain.db->mutex);
		}
		sleep_until(next > now && next - now > idle_timeout ? last_work + idle_timeout : next);
	}
}

/* arg: see probe. */
void
jobq_scheduler_main(Datum arg)
{
	probe = DatumGetInt32(arg);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	before_shmem_exit(scheduler_exit, (Datum) 0);
	worker_connect(fixed_settings, lengthof(fixed_settings));

	maintain.db = try_installation(&maintain.ext_oid);
	if (maintain.db == NULL)
		proc_exit(0);
	if (!jobq_enabled)
		leave_disabled();
	if (!take_slot(maintain.db))
		proc_exit(0);
	entered = true;
	maintain.cycle = AllocSetContextCreate(TopMemoryContext, "jobq maintenance", ALLOCSET_DEFAULT_SIZES);
	main_loop();
}
