/*-------------------------------------------------------------------------
 *
 * launcher.c
 *		One process per server: starts a scheduler in every database where
 *		one is wanted.
 *
 * After its start it has each database looked at once by a scheduler (a
 * "probe"), few at a time, which leaves at once where the extension is not.
 * From then on it sleeps until a database's slot in shared memory says that
 * a scheduler is wanted, or wants one back at a certain time, or one that it
 * started has ended. It assumes a crash at every start of a scheduler and is
 * told of success by the scheduler itself (failures = 0), so that one that
 * cannot run is tried ever more seldom.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "launcher.h"
#include "pool.h"
#include "shmem.h"
#include "timeutil.h"
#include "worker.h"

/* A scheduler that wants to be back by a time is started so much earlier. */
#define HEAD_START (250 * 1000)
/* A clock that is set forward while we sleep is noticed after this. */
#define LONGEST_SLEEP (60 * USECS_PER_SEC)
#define BACKOFF_LONGEST (60 * USECS_PER_SEC)
#define PROBE_TRIES 5

typedef struct Database
{
	Oid oid;
	bool open; /* can be connected to */
	bool template;
} Database;

/* A database that has not been looked at yet. */
typedef struct Probe
{
	Oid db_oid;
	int tries;
	TimestampTz not_before;
} Probe;

/* A scheduler that we started and that has not ended, as far as we know. */
typedef struct Child
{
	Oid db_oid;
	int probe; /* index into JobqShared.probed, or -1 */
	BackgroundWorkerHandle *handle;
} Child;

static List *probes = NIL;
static List *children = NIL;
static bool probes_listed = false;
static bool out_of_slots = false;
static int64 slot_pause = 0;
static TimestampTz slots_not_before = DT_NOBEGIN;

/* Registers the launcher. Called from _PG_init, while shared_preload_libraries is processed. */
void
launcher_register(void)
{
	BackgroundWorker worker;

	worker_describe(&worker, "launcher");
	worker.bgw_restart_time = 5;
	RegisterBackgroundWorker(&worker);
}

static void
launcher_exit(int code, Datum arg)
{
	SpinLockAcquire(&jobq_shared->launcher_mutex);
	if (jobq_shared->launcher_latch == MyLatch)
		jobq_shared->launcher_latch = NULL;
	SpinLockRelease(&jobq_shared->launcher_mutex);
}

/* The databases, as Database in TopMemoryContext. */
static List *
list_databases(void)
{
	MemoryContext context = CurrentMemoryContext;
	List *databases = NIL;
	Relation rel;
	TableScanDesc scan;
	HeapTuple tuple;

	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, "list databases");
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		Database *database;

		if (form->datconnlimit == -2) /* half dropped */
			continue;
		MemoryContextSwitchTo(TopMemoryContext);
		database = palloc(sizeof(Database));
		database->oid = form->oid;
		database->open = form->datallowconn;
		database->template = form->datistemplate;
		databases = lappend(databases, database);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	pgstat_report_activity(STATE_IDLE, NULL);
	return databases;
}

static Database *
find_database(List *databases, Oid oid)
{
	ListCell *lc;

	foreach (lc, databases)
		if (((Database *) lfirst(lc))->oid == oid)
			return lfirst(lc);
	return NULL;
}

/* Whether a database can be connected to. False for one that was dropped. */
static bool
database_is_open(Oid oid)
{
	List *databases = list_databases();
	Database *database = find_database(databases, oid);
	bool open = database && database->open;

	list_free_deep(databases);
	return open;
}

/* Every database is to be looked at once. */
static void
list_probes(void)
{
	List *databases = list_databases();
	MemoryContext context = MemoryContextSwitchTo(TopMemoryContext);
	ListCell *lc;

	foreach (lc, databases)
	{
		Database *database = lfirst(lc);
		Probe *probe;

		if (!database->open || database->template)
			continue;
		probe = palloc0(sizeof(Probe));
		probe->db_oid = database->oid;
		probe->not_before = DT_NOBEGIN;
		probes = lappend(probes, probe);
	}
	MemoryContextSwitchTo(context);
	list_free_deep(databases);
	probes_listed = true;
}

/* Gives back the slots of databases that are gone. The slots are listed first: whoever takes one has a database that we then see. */
static void
free_dropped(void)
{
	Oid *used = palloc(jobq_max_databases * sizeof(Oid));
	int nused = 0;
	List *databases;

	for (int i = 0; i < jobq_max_databases; i++)
		if (OidIsValid(jobq_dbs[i].db_oid) && jobq_dbs[i].scheduler_pid == 0)
			used[nused++] = jobq_dbs[i].db_oid;
	if (nused > 0)
	{
		databases = list_databases();
		for (int i = 0; i < nused; i++)
			if (find_database(databases, used[i]) == NULL)
				shmem_db_free(used[i]);
		list_free_deep(databases);
	}
	pfree(used);
}

/* A database found no slot: one of those that have one may have lost the extension, which its scheduler will find out. */
static void
look_at_all(void)
{
	jobq_shared->dbs_overflowed = false;
	for (int i = 0; i < jobq_max_databases; i++)
	{
		DbSlot *db = &jobq_dbs[i];

		SpinLockAcquire(&db->mutex);
		if (OidIsValid(db->db_oid) && db->scheduler_pid == 0)
			db->wanted = true;
		SpinLockRelease(&db->mutex);
	}
}

static Child *
find_child(Oid db_oid)
{
	ListCell *lc;

	foreach (lc, children)
		if (((Child *) lfirst(lc))->db_oid == db_oid)
			return lfirst(lc);
	return NULL;
}

static Probe *
find_probe(Oid db_oid)
{
	ListCell *lc;

	foreach (lc, probes)
		if (((Probe *) lfirst(lc))->db_oid == db_oid)
			return lfirst(lc);
	return NULL;
}

static void
drop_probe(Probe *probe)
{
	probes = list_delete_ptr(probes, probe);
	pfree(probe);
}

/* Takes note of how a probe ended: answered, or to be tried again. */
static void
probe_ended(Child *child)
{
	Probe *probe = find_probe(child->db_oid);
	bool answered;

	SpinLockAcquire(&jobq_shared->launcher_mutex);
	answered = jobq_shared->probed[child->probe] == child->db_oid;
	SpinLockRelease(&jobq_shared->launcher_mutex);
	if (probe == NULL)
		return;
	if (answered)
		drop_probe(probe);
	else if (++probe->tries >= PROBE_TRIES)
	{
		ereport(LOG, (errmsg("jobq could not look into database %u", probe->db_oid),
					  errhint("The next use of jobq there starts its scheduler.")));
		drop_probe(probe);
	}
	else
		probe->not_before = clock_now() + (USECS_PER_SEC << (probe->tries - 1));
}

/* Forgets the schedulers that have ended. */
static void
reap_children(void)
{
	ListCell *lc;

	foreach (lc, children)
	{
		Child *child = lfirst(lc);
		pid_t pid;

		if (GetBackgroundWorkerPid(child->handle, &pid) != BGWH_STOPPED)
			continue;
		if (child->probe >= 0)
			probe_ended(child);
		slots_not_before = DT_NOBEGIN; /* a worker slot is free */
		children = foreach_delete_current (children, lc);
		pfree(child->handle);
		pfree(child);
	}
}

/* Says once when worker slots run out, and once when they are back. */
static void
note_slots(bool full)
{
	if (full)
	{
		slot_pause = slot_pause == 0 ? USECS_PER_SEC : Min(slot_pause * 2, BACKOFF_LONGEST);
		slots_not_before = clock_now() + slot_pause;
	}
	else
		slot_pause = 0;
	if (full == out_of_slots)
		return;
	out_of_slots = full;
	if (full)
		ereport(WARNING, (errmsg("jobq has no free background worker slot to start a scheduler"),
						  errdetail("Jobs can be taken; delayed jobs and expired leases wait for the next dequeue()."),
						  errhint("Raise max_worker_processes.")));
	else
		ereport(LOG, (errmsg("jobq has background worker slots again")));
}

/* Starts a scheduler. False: there is no worker slot. */
static bool
start_child(Oid db_oid, int probe)
{
	MemoryContext context = MemoryContextSwitchTo(TopMemoryContext);
	Child *child = palloc0(sizeof(Child));
	DbSlot *db;

	child->db_oid = db_oid;
	child->probe = probe;
	if (probe >= 0)
	{
		SpinLockAcquire(&jobq_shared->launcher_mutex);
		jobq_shared->probed[probe] = InvalidOid;
		SpinLockRelease(&jobq_shared->launcher_mutex);
	}
	if (!worker_start("scheduler", db_oid, probe, &child->handle))
	{
		pfree(child);
		MemoryContextSwitchTo(context);
		note_slots(true);
		return false;
	}
	children = lappend(children, child);
	MemoryContextSwitchTo(context);
	note_slots(false);

	LWLockAcquire(&jobq_shared->lock, LW_SHARED);
	db = shmem_db_find(db_oid);
	if (db)
	{
		SpinLockAcquire(&db->mutex);
		db->last_start = clock_now();
		if (db->failures < 16)
			db->failures++;
		SpinLockRelease(&db->mutex);
	}
	LWLockRelease(&jobq_shared->lock);
	return true;
}

/* An index into JobqShared.probed that no running probe uses; -1: all are in use. */
static int
free_probe(void)
{
	for (int i = 0; i < LAUNCHER_PROBES; i++)
	{
		ListCell *lc;
		bool used = false;

		foreach (lc, children)
			used |= ((Child *) lfirst(lc))->probe == i;
		if (!used)
			return i;
	}
	return -1;
}

/* Whether a scheduler runs in the database already. */
static bool
has_scheduler(Oid db_oid)
{
	DbSlot *db;
	bool has = false;

	LWLockAcquire(&jobq_shared->lock, LW_SHARED);
	db = shmem_db_find(db_oid);
	if (db)
		has = db->scheduler_pid != 0;
	LWLockRelease(&jobq_shared->lock);
	return has;
}

/* Starts probes as far as they are due. Returns when the next one is. */
static TimestampTz
start_probes(void)
{
	TimestampTz next = DT_NOEND;
	ListCell *lc;

	foreach (lc, probes)
	{
		Probe *probe = lfirst(lc);
		int index = free_probe();

		if (index < 0)
			break; /* the end of one of them wakes us */
		if (find_child(probe->db_oid))
			continue;
		if (has_scheduler(probe->db_oid) || !database_is_open(probe->db_oid))
		{
			probes = foreach_delete_current (probes, lc);
			pfree(probe);
		}
		else if (probe->not_before > clock_now())
			next = Min(next, probe->not_before);
		else if (!start_child(probe->db_oid, index))
			return slots_not_before;
	}
	return next;
}

/* When the slot's database may have its next start, as far as earlier failures tell. Caller holds its mutex. */
static TimestampTz
backed_off(DbSlot *db)
{
	int64 pause = USECS_PER_SEC;

	if (db->failures == 0 && db->last_start == 0)
		return DT_NOBEGIN;
	if (db->failures > 1)
		pause = Min(USECS_PER_SEC << Min(db->failures - 1, 10), BACKOFF_LONGEST);
	/* a start in the future: the clock was set back */
	return db->last_start > clock_now() ? DT_NOBEGIN : db->last_start + pause;
}

/* A database that nobody can connect to now: asks again after the longest pause. Returns when. */
static TimestampTz
put_off(DbSlot *db)
{
	TimestampTz now = clock_now();

	SpinLockAcquire(&db->mutex);
	db->last_start = now;
	db->failures = 16;
	SpinLockRelease(&db->mutex);
	return now + BACKOFF_LONGEST;
}

/* Starts a scheduler in every database that wants one. Returns when to look again. */
static TimestampTz
start_wanted(void)
{
	static TimestampTz last_look = 0;
	TimestampTz next = DT_NOEND;
	TimestampTz now = clock_now();
	bool set_back = now < last_look - USECS_PER_SEC;

	last_look = now;

	for (int i = 0; i < jobq_max_databases; i++)
	{
		DbSlot *db = &jobq_dbs[i];
		Oid db_oid;
		TimestampTz due = DT_NOEND;

		SpinLockAcquire(&db->mutex);
		db_oid = db->db_oid;
		if (OidIsValid(db_oid) && db->scheduler_pid == 0)
		{
			/* the clock was set back: the next time of a schedule may be an earlier one now */
			if (set_back && !TIMESTAMP_IS_NOEND(db->wake_at))
				db->wake_at = DT_NOBEGIN;
			if (!TIMESTAMP_IS_NOEND(db->wake_at))
				due = TIMESTAMP_IS_NOBEGIN(db->wake_at) ? db->wake_at : db->wake_at - HEAD_START;
			if (db->wanted)
				due = DT_NOBEGIN;
			if (!TIMESTAMP_IS_NOEND(due))
			{
				TimestampTz earliest = backed_off(db);

				due = Max(due, earliest);
			}
		}
		SpinLockRelease(&db->mutex);
		if (TIMESTAMP_IS_NOEND(due) || find_child(db_oid))
			continue; /* the end of that one wakes us */
		if (due > clock_now())
			next = Min(next, due);
		else if (!database_is_open(db_oid))
		{
			due = put_off(db);
			next = Min(next, due);
		}
		else if (!start_child(db_oid, -1))
			return Min(next, slots_not_before);
	}
	return next;
}

/* One look at everything. Returns when the next one is due. */
static TimestampTz
look(bool woken)
{
	TimestampTz next;
	TimestampTz next_probe;

	reap_children();
	if (!jobq_enabled)
	{
		/* a process that runs a handler does not read the configuration */
		(void) pool_ask_to_leave(InvalidOid,
								 timestamp_add(GetCurrentTimestamp(), jobq_stop_timeout * INT64CONST(1000)));
		return DT_NOEND;
	}
	if (woken)
		free_dropped();
	if (jobq_shared->dbs_overflowed)
		look_at_all();
	if (!probes_listed)
		list_probes();
	if (slots_not_before > clock_now())
		return slots_not_before;
	next = start_wanted();
	if (slots_not_before > clock_now())
		return next;
	next_probe = start_probes();
	return Min(next, next_probe);
}

void
jobq_launcher_main(Datum arg)
{
	bool woken = false;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	before_shmem_exit(launcher_exit, (Datum) 0);
	BackgroundWorkerUnblockSignals();
	/* shared catalogs only */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	SpinLockAcquire(&jobq_shared->launcher_mutex);
	jobq_shared->launcher_latch = MyLatch;
	/* not when it is only this process that starts anew */
	if (jobq_shared->running_since == 0)
		jobq_shared->running_since = clock_now();
	SpinLockRelease(&jobq_shared->launcher_mutex);

	for (;;)
	{
		TimestampTz next;
		TimestampTz now;
		long ms = -1;

		ResetLatch(MyLatch);
		if (ProcDiePending)
		{
			ereport(DEBUG1, (errmsg("terminating jobq launcher due to administrator command")));
			proc_exit(1);
		}
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		next = look(woken);
		now = clock_now();
		if (!TIMESTAMP_IS_NOEND(next))
			ms = next <= now ? 0 : TimestampDifferenceMilliseconds(now, Min(next, now + LONGEST_SLEEP));
		woken = WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (ms >= 0 ? WL_TIMEOUT : 0), ms,
						  wait_event_compat()) &
				WL_LATCH_SET;
	}
}
