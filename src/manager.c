/*-------------------------------------------------------------------------
 *
 * manager.c
 *		Starts executors where jobs wait for a handler; stop() and start().
 *
 * A step of the scheduler. It tells every queue's slot how many executors the
 * queue may have (0 where it has no handler, is paused, or the database is
 * stopped), and starts as many as are short. Everything else the executors
 * see to by themselves.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "args.h"
#include "compat.h"
#include "guc.h"
#include "maintain.h"
#include "manager.h"
#include "pool.h"
#include "spi.h"
#include "timeutil.h"
#include "worker.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_handlers_changed);
PG_FUNCTION_INFO_V1(jobq_stop);
PG_FUNCTION_INFO_V1(jobq_start);

/* After there was no place, or no worker slot, for an executor that is wanted. */
#define LOOK_AGAIN USECS_PER_SEC
#define NO_SLOT_AGAIN (5 * USECS_PER_SEC)
/* How much longer stop() waits than the executors do. */
#define STOP_SPARE (2 * USECS_PER_SEC)

/* An executor that this process has started. */
typedef struct Started
{
	int place;
	BackgroundWorkerHandle *handle;
} Started;

static List *started = NIL;
static TimestampTz look_at = DT_NOEND;
static bool changing = false;
static bool out_of_slots = false;

/* Of this transaction: what its end changes. */
static DbSlot *changed_db = NULL;
static bool stopping = false;

/* At the end of a transaction that changed handlers, or called stop(). */
static void
xact_callback(XactEvent event, void *arg)
{
	if (changed_db == NULL || (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE))
		return;
	if (event != XACT_EVENT_ABORT || stopping)
	{
		SpinLockAcquire(&changed_db->mutex);
		changed_db->handlers_changed = true;
		if (stopping)
			changed_db->stopping--;
		SpinLockRelease(&changed_db->mutex);
		shmem_wake_scheduler(changed_db);
	}
	changed_db = NULL;
	stopping = false;
}

/* Registers the callback. Called once, from _PG_init. */
void
manager_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}

/* Trigger of the tables that say which queues have handlers that run: the scheduler reads them again after the commit. */
Datum
jobq_handlers_changed(PG_FUNCTION_ARGS)
{
	if (jobq_shared && meta_extension_oid(true) != InvalidOid)
		changed_db = meta_db();
	PG_RETURN_POINTER(NULL);
}

/* Whether there may be more to do for executors. */
TimestampTz
manager_due(Maintain *m)
{
	bool now;

	if (jobq_max_executors == 0)
		return DT_NOEND;
	SpinLockAcquire(&m->db->mutex);
	now = m->db->handlers_changed || (m->db->executors_wanted && TIMESTAMP_IS_NOEND(look_at));
	SpinLockRelease(&m->db->mutex);
	return now ? DT_NOBEGIN : look_at;
}

/* Forgets executors that have ended, and frees the places of those that never came. */
static void
reap(void)
{
	ListCell *lc;

	foreach (lc, started)
	{
		Started *s = lfirst(lc);
		pid_t pid;

		if (GetBackgroundWorkerPid(s->handle, &pid) != BGWH_STOPPED)
			continue;
		pool_free(s->place, 0);
		pfree(s->handle);
		pfree(s);
		started = foreach_delete_current (started, lc);
	}
	pool_forget_lost(MyDatabaseId);
}

/* Tells the queues' slots how many executors they may have. */
static void
read_handlers(Maintain *m)
{
	static SpiStatement statement = {
		.sql =
			"SELECT q.id, least(sum(h.concurrency), 1024)::int FROM jobq.handler h JOIN jobq.queue q ON q.id = h.queue_id"
			" WHERE NOT q.paused AND NOT EXISTS (SELECT FROM jobq.stopped) GROUP BY q.id",
		.result = SPI_OK_SELECT};
	SpiScope scope;
	int32 *ids;
	int32 *limits;
	int n;

	spi_begin(&scope);
	n = (int) spi_run(&statement, NULL, NULL);
	ids = MemoryContextAlloc(m->cycle, Max(n, 1) * sizeof(int32));
	limits = MemoryContextAlloc(m->cycle, Max(n, 1) * sizeof(int32));
	for (int i = 0; i < n; i++)
	{
		bool isnull;

		ids[i] = DatumGetInt32(spi_value(i, 1, &isnull));
		limits[i] = DatumGetInt32(spi_value(i, 2, &isnull));
	}
	spi_end(&scope);

	/* their slots may not have been made yet */
	for (int i = 0; i < n; i++)
		(void) meta_queue_by_id(ids[i]);
	for (int q = 0; q < jobq_max_queues; q++)
	{
		QueueSlot *slot = &jobq_queues[q];
		uint32 limit = 0;

		if (!maintain_slot_is_ours(m, slot))
			continue;
		for (int i = 0; i < n; i++)
			if (ids[i] == slot->queue_id)
				limit = limits[i];
		pg_atomic_write_u32(&slot->handlers, limit);
	}
}

/* How many more executors the queues could use now; wakes idle ones. */
static int
needed(Maintain *m)
{
	int64 need = 0;

	for (int q = 0; q < jobq_max_queues; q++)
	{
		QueueSlot *slot = &jobq_queues[q];
		int limit = (int) pg_atomic_read_u32(&slot->handlers);
		int64 ready;

		if (limit == 0 || !maintain_slot_is_ours(m, slot))
			continue;
		SpinLockAcquire(&slot->mutex);
		ready = slot->exact ? slot->counts[COUNT_READY] : Max(slot->counts[COUNT_READY], 1);
		SpinLockRelease(&slot->mutex);
		if (ready <= 0)
			continue;
		limit -= pool_executing(MyDatabaseId, slot->queue_id);
		need += Max(Min(limit, ready), 0);
	}
	return (int) Min(need, jobq_max_executors);
}

/* Says once when worker slots run out, and once when they are back. */
static void
note_slots(bool full)
{
	if (full == out_of_slots)
		return;
	out_of_slots = full;
	if (full)
		ereport(WARNING, (errmsg("jobq has no free background worker slot to run a handler"),
						  errdetail("The jobs wait; it is tried again every few seconds."),
						  errhint("Raise max_worker_processes.")));
	else
		ereport(LOG, (errmsg("jobq has background worker slots for handlers again")));
}

/* Starts an executor. False: there is no place, or no worker slot. */
static bool
start_one(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Started *s = palloc(sizeof(Started));
	bool full;

	s->place = pool_reserve(MyDatabaseId);
	full = s->place < 0;
	if (!full && !worker_start("executor", MyDatabaseId, s->place, &s->handle))
	{
		pool_free(s->place, 0);
		note_slots(true);
		full = true;
	}
	else if (!full)
	{
		started = lappend(started, s);
		note_slots(false);
	}
	if (full)
		pfree(s);
	MemoryContextSwitchTo(old);
	return !full;
}

/* Starts as many executors as are short. */
static void
start_needed(Maintain *m)
{
	TimestampTz now = clock_now();
	PoolCount count = pool_count(MyDatabaseId);
	int need;
	TimestampTz pause;

	/* before the look: who finds nobody afterwards leaves word again */
	SpinLockAcquire(&m->db->mutex);
	m->db->executors_wanted = false;
	pause = m->db->stopping > 0 ? DT_NOEND : m->db->executor_pause;
	SpinLockRelease(&m->db->mutex);
	look_at = DT_NOEND;
	need = needed(m) - count.unasked;
	if (need <= 0 || TIMESTAMP_IS_NOEND(pause))
		return;
	if (pause > now && pause - now <= 60 * USECS_PER_SEC)
		look_at = pause;
	else
		while (need-- > 0)
			if (!start_one())
			{
				look_at = now + (out_of_slots ? NO_SLOT_AGAIN : LOOK_AGAIN);
				break;
			}
}

void
manager_run(Maintain *m)
{
	bool changed;

	SpinLockAcquire(&m->db->mutex);
	changed = m->db->handlers_changed;
	m->db->handlers_changed = false;
	SpinLockRelease(&m->db->mutex);
	changing = changed;
	if (changed)
	{
		if (!maintain_begin(m))
			return;
		read_handlers(m);
		maintain_end(m);
		for (int q = 0; q < jobq_max_queues; q++)
			if (maintain_slot_is_ours(m, &jobq_queues[q]) && jobq_queues[q].counts[COUNT_READY] > 0)
				pool_wake(m->db, &jobq_queues[q], PG_INT32_MAX);
	}
	changing = false;
	reap();
	start_needed(m);
}

void
manager_undo(Maintain *m)
{
	if (!changing)
		return;
	SpinLockAcquire(&m->db->mutex);
	m->db->handlers_changed = true;
	SpinLockRelease(&m->db->mutex);
	changing = false;
}

/*
 * stop(timeout) -> how many executors are still at work. Handlers of this database run no more, from now on and after the commit, until
 * start(); those that run may finish within timeout, and are then interrupted and their jobs given back. Errors: 0A000 inside a handler,
 * which would wait for itself; 22023; 25006.
 */
Datum
jobq_stop(PG_FUNCTION_ARGS)
{
	static SpiStatement mark = {.sql =
									"INSERT INTO jobq.stopped (at) VALUES (clock_timestamp()) ON CONFLICT DO NOTHING",
								.result = SPI_OK_INSERT};
	DbSlot *db = meta_begin("stop", VERB_WRITES);
	int64 timeout = arg_interval(fcinfo, 0, "timeout", 30 * USECS_PER_SEC, 0, JOBQ_MAX_LEASE_USECS);
	TimestampTz until;
	SpiScope scope;
	int left;

	if (pool_is_mine())
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("a handler cannot stop the handlers"),
						errhint("Call jobq.pause_queue() to have a queue's jobs wait.")));
	xact_verb_begin(db);
	spi_begin(&scope);
	(void) spi_run(&mark, NULL, NULL);
	spi_end(&scope);
	changed_db = db;
	if (!stopping)
	{
		SpinLockAcquire(&db->mutex);
		db->stopping++;
		SpinLockRelease(&db->mutex);
		stopping = true;
	}
	until = timestamp_add(GetCurrentTimestamp(), timeout);
	while ((left = pool_ask_to_leave(MyDatabaseId, until)) > 0 &&
		   GetCurrentTimestamp() < timestamp_add(until, STOP_SPARE))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10, wait_event_compat());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	xact_verb_end(false);
	PG_RETURN_INT32(left);
}

/* start(): ends what stop() began; true when the database was stopped. Errors: 25006. */
Datum
jobq_start(PG_FUNCTION_ARGS)
{
	static SpiStatement unmark = {.sql = "DELETE FROM jobq.stopped", .result = SPI_OK_DELETE};
	DbSlot *db = meta_begin("start", VERB_WRITES);
	SpiScope scope;
	uint64 n;

	xact_verb_begin(db);
	spi_begin(&scope);
	n = spi_run(&unmark, NULL, NULL);
	spi_end(&scope);
	xact_verb_end(false);
	PG_RETURN_BOOL(n > 0);
}
