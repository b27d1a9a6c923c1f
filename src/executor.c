/*-------------------------------------------------------------------------
 *
 * executor.c
 *		A process that takes jobs and runs their handlers.
 *
 * It takes a few jobs of one queue in a transaction of its own, which is on
 * disk before the first of them runs, and runs them one after the other.
 * Each run is one transaction: the handler, as its role, and the completion
 * commit together, or not at all. A run that fails is counted in a second
 * transaction. What the process cannot do in order, it leaves to its end:
 * its leases bear its key, and the scheduler takes them over when its place
 * is empty; of each, only the first job that is left counts an attempt.
 *
 * Between jobs, and while it sleeps, it holds no transaction and no lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "compat.h"
#include "dequeue.h"
#include "extend.h"
#include "finish.h"
#include "guc.h"
#include "handler.h"
#include "ident.h"
#include "limit.h"
#include "pool.h"
#include "retire.h"
#include "sandbox.h"
#include "timeutil.h"
#include "worker.h"
#include "xact.h"

/* Jobs are taken together as long as they are expected to be done in this time. */
#define BATCH_USECS (50 * 1000)
#define LARGEST_BATCH 32
/* What a lease lasts beyond the longest run. */
#define LEASE_SPARE (15 * USECS_PER_SEC)
/* While somebody changes or drops the extension, or a claim failed. */
#define PAUSE_MS 200
#define HANDLER_WAIT_MS 1000

/* A job in hand. */
typedef struct Delivery
{
	int64 job_id;
	int64 token;
	char *name; /* NULL: none */
	Datum values[NUM_DELIVERY];
	bool nulls[NUM_DELIVERY];
	int64 timeout;  /* microseconds, the job's own or its queue's; 0: none */
	uint32 handler; /* its number, where the queue has several */
	int concurrency;
	int64 longest; /* run of the queue's handlers, microseconds */
	int64 limit;   /* of its own run, microseconds */
	bool later;    /* other jobs came between its claim and its run */
	bool left;     /* not run: it is no longer ours, or is to be cancelled */
	bool done;
} Delivery;

/* What is known of the runs of a queue, to choose how many jobs to take at once. */
typedef struct Pace
{
	int32 queue_id;
	double usecs; /* of a run, on the average of late */
} Pace;

static const WorkerSetting fixed_settings[] = {
	{"role", "none"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"session_replication_role", "origin"},
	{"idle_in_transaction_session_timeout", "0"},
	{"idle_session_timeout", "0"},
	{"transaction_timeout", "0"},
	/* the handler's own is kept by the process */
	{"statement_timeout", "0"},
};

static int place;
static Oid ext_oid;
static DbSlot *db = NULL;
static int64 my_key;
static text *my_name;
static bool entered = false;
static bool holding = false;        /* may have leases */
static MemoryContext batch_context; /* of the jobs in hand */
static TupleDesc delivery_desc;
static Pace paces[16];
static TimestampTz rate_again = DT_NOEND; /* when a queue's rate allows the next start, of those with work */

/* The place is free; leases that are left are taken over. */
static void
executor_exit(int code, Datum arg)
{
	if (!entered)
		return;
	entered = false;
	pool_free(place, MyProcPid);
	SpinLockAcquire(&db->mutex);
	db->sessions_ended |= holding;
	db->executors_wanted = true;
	if (code != 0)
	{
		db->executor_failures = Min(db->executor_failures + 1, 16);
		db->executor_pause = clock_now() + Min((USECS_PER_SEC / 10) << db->executor_failures, 60 * USECS_PER_SEC);
	}
	SpinLockRelease(&db->mutex);
	shmem_wake_scheduler(db);
}

/* Starts a transaction, and holds the extension in it. Anything but WORKER_OK: there is none. */
static WorkerHold
begin(const char *activity)
{
	WorkerHold hold;

	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, activity);
	StartTransactionCommand();
	hold = worker_hold_extension(ext_oid);
	if (hold != WORKER_OK)
	{
		AbortCurrentTransaction();
		return hold;
	}
	PushActiveSnapshot(GetTransactionSnapshot());
	return hold;
}

static void
commit(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	(void) pgstat_report_stat(false);
}

/* Sleeps at most ms milliseconds, or until somebody sets the latch. */
static void
doze(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, wait_event_compat());
	ResetLatch(MyLatch);
	QueryCancelPending = false; /* meant for what ran before */
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

static Pace *
pace_of(int32 queue_id)
{
	Pace *pace = &paces[(uint32) queue_id % lengthof(paces)];

	if (pace->queue_id != queue_id)
	{
		pace->queue_id = queue_id;
		pace->usecs = BATCH_USECS;
	}
	return pace;
}

/* How many jobs to take: as many as are quickly done, and no more than this executor's share of what waits. */
static int
batch_size(QueueSlot *slot)
{
	Pace *pace = pace_of(slot->queue_id);
	int n = (int) Min(BATCH_USECS / Max(pace->usecs, 1.0), LARGEST_BATCH);
	int64 share = slot->counts[COUNT_READY] / Max(2 * pool_executing(MyDatabaseId, slot->queue_id), 1);

	return (int) Max(Min(n, share), 1);
}

/* Reads a claim's rows into the batch. lease: its length. */
static Delivery *
read_deliveries(Tuplestorestate *store, QueueInfo *queue, int64 lease, int n)
{
	Delivery *deliveries = MemoryContextAllocZero(batch_context, n * sizeof(Delivery));
	TupleTableSlot *slot = MakeSingleTupleTableSlot(delivery_desc, &TTSOpsMinimalTuple);
	bool several = handler_number_of(queue) > 1;
	MemoryContext old = MemoryContextSwitchTo(batch_context);

	for (int i = 0; i < n && tuplestore_gettupleslot(store, true, false, slot); i++)
	{
		Delivery *d = &deliveries[i];
		const Handler *handler;

		slot_getallattrs(slot);
		for (int a = 0; a < NUM_DELIVERY; a++)
		{
			Form_pg_attribute attr = TupleDescAttr(delivery_desc, a);

			d->nulls[a] = slot->tts_isnull[a];
			if (!d->nulls[a])
				d->values[a] = datumCopy(slot->tts_values[a], attr->attbyval, attr->attlen);
		}
		d->job_id = DatumGetInt64(d->values[DELIVERY_JOB_ID]);
		d->token = DatumGetInt64(d->values[DELIVERY_TOKEN]);
		if (!d->nulls[DELIVERY_DEADLINE])
			d->timeout = DatumGetTimestampTz(d->values[DELIVERY_DEADLINE]) -
						 (DatumGetTimestampTz(d->values[DELIVERY_LEASE_UNTIL]) - lease);
		d->name = d->nulls[DELIVERY_NAME] ? NULL : TextDatumGetCString(d->values[DELIVERY_NAME]);
		d->longest = lease - LEASE_SPARE;
		handler = several ? handler_find(queue, d->name) : NULL;
		if (handler)
		{
			d->handler = handler->number;
			d->concurrency = handler->concurrency;
		}
	}
	MemoryContextSwitchTo(old);
	ExecDropSingleTupleTableSlot(slot);
	return deliveries;
}

/* Takes jobs of a queue, in a transaction of its own that waits for the disk. Returns how many. */
static int
claim_jobs(QueueSlot *slot, Delivery **deliveries)
{
	ClaimRequest request;
	Tuplestorestate *store;
	MemoryContext old;
	int n;

	if (begin("claim jobs") != WORKER_OK)
		return 0;
	/* a server that dies in a handler must know of the attempt; waiting for a standby gains nothing */
	if (synchronous_commit < SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		(void) set_config_option("synchronous_commit", "local", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
								 false);
	memset(&request, 0, sizeof(request));
	request.db = meta_begin("executor", VERB_TAKES);
	request.queue = meta_queue_by_id(slot->queue_id);
	if (request.queue == NULL || handler_number_of(request.queue) == 0)
	{
		commit();
		return 0;
	}
	request.max_jobs = batch_size(slot);
	request.group_batch = request.max_jobs;
	request.lease = handler_longest_timeout(request.queue) + LEASE_SPARE;
	request.worker = my_name;
	request.executor = my_key;
	old = MemoryContextSwitchTo(batch_context);
	store = tuplestore_begin_heap(false, false, work_mem);
	MemoryContextSwitchTo(old);
	xact_verb_begin(request.db);
	n = dequeue_for_executor(&request, store, delivery_desc);
	xact_verb_end(false);
	if (n == 0)
	{
		TimestampTz free = limit_free_at(request.queue);

		if (!TIMESTAMP_IS_NOBEGIN(free))
			rate_again = Min(rate_again, free);
	}
	if (n > 0)
		*deliveries = read_deliveries(store, request.queue, request.lease, n);
	tuplestore_end(store);
	commit();
	return n;
}

/* Ends the process in order to have its leases taken over: what it must not do by halves has failed. */
static void
give_up(const char *what, int64 job_id)
{
	ereport(LOG,
			(errmsg("jobq executor could not %s job " INT64_FORMAT ", and leaves it to the scheduler", what, job_id)));
	proc_exit(1);
}

/* In a transaction of its own: an attempt that failed (error), or a job that is given back. */
static void
put_back(Delivery *d, const text *error)
{
	WorkerHold hold;

	d->done = true;
	while ((hold = begin(error ? "count a failed attempt" : "give a job back")) == WORKER_BLOCKED)
		doze(PAUSE_MS);
	if (hold != WORKER_OK)
		return;
	xact_verb_begin(meta_begin("executor", VERB_WRITES));
	if (error)
		finish_fail_one(d->job_id, d->token, error);
	else
		finish_release_one(d->job_id, d->token);
	xact_verb_end(false);
	commit();
}

/* The same, whatever happens: a lease that was lost meanwhile is nobody's business, and any other failure ends the process. */
static void
put_back_safely(Delivery *d, const text *error)
{
	volatile bool lost = false;
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		put_back(d, error);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		lost = geterrcode() == ERRCODE_JOBQ_LEASE_LOST;
		if (!lost)
			EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		if (!lost)
			give_up(error ? "count the failed attempt of" : "give back", d->job_id);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
}

/* Makes sure that the lease lasts for one more run. */
static void
prolong(Delivery *d)
{
	TimestampTz until = DatumGetTimestampTz(d->values[DELIVERY_LEASE_UNTIL]);
	TimestampTz now = clock_now();

	if (until - now >= d->longest + LEASE_SPARE / 3)
		return;
	if (begin("extend a lease") != WORKER_OK)
		return;
	xact_verb_begin(meta_begin("executor", VERB_WRITES));
	extend_one(d->job_id, d->token, d->longest + LEASE_SPARE);
	xact_verb_end(true);
	commit();
	d->values[DELIVERY_LEASE_UNTIL] = TimestampTzGetDatum(now + d->longest + LEASE_SPARE);
}

/* The handler and the completion of its job, in one transaction. Another answer than WORKER_OK: it could not be begun. */
static WorkerHold
run_and_complete(Delivery *d, QueueSlot *slot)
{
	WorkerHold hold = begin("run a handler");
	QueueInfo *queue;
	const Handler *handler;
	HeapTuple tuple;
	Jsonb *result;

	if (hold != WORKER_OK)
		return hold;
	(void) meta_begin("executor", VERB_WRITES);
	/* one that has not begun is cancelled, and so is the rest of a group's turn whose head failed */
	if (d->later && extend_look(d->job_id, d->token) != ITEM_OK)
	{
		d->left = true;
		commit();
		return hold;
	}
	queue = meta_queue_by_id(slot->queue_id);
	if (queue == NULL)
		ereport(ERROR, (errcode(ERRCODE_JOBQ_LEASE_LOST), errmsg("the queue was dropped")));
	handler = handler_find(queue, d->name);
	if (handler == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 d->name ? errmsg("queue \"%s\" has no handler for jobs of the name \"%s\"", queue->name, d->name)
						 : errmsg("queue \"%s\" has no handler for jobs without a name", queue->name),
				 errhint("Set one with jobq.set_handler(); the name \"*\" stands for all others.")));
	d->limit = d->timeout > 0 ? Min(d->timeout, handler->timeout) : handler->timeout;
	pgstat_report_activity(STATE_RUNNING, psprintf("job " INT64_FORMAT " of queue \"%s\": %s", d->job_id, queue->name,
												   handler->signature));
	d->values[DELIVERY_DEADLINE] = TimestampTzGetDatum(timestamp_add(clock_now(), d->limit));
	d->nulls[DELIVERY_DEADLINE] = false;
	tuple = heap_form_tuple(delivery_desc, d->values, d->nulls);
	result = sandbox_run(handler, d->values[DELIVERY_PAYLOAD], tuple, delivery_desc, d->limit);
	xact_verb_begin(meta_begin("complete", VERB_WRITES));
	retire_run_began = DatumGetTimestampTz(d->values[DELIVERY_DEADLINE]) - d->limit;
	(void) finish_complete_one(d->job_id, d->token, result, true);
	retire_run_began = 0;
	xact_verb_end(false);
	commit();
	return WORKER_OK;
}

/* Runs one job, and counts the attempt if it fails. False: the extension is not to be had, and the job stays in hand. */
static bool
run_job(Delivery *d, QueueSlot *slot)
{
	volatile SandboxInterrupt why = SANDBOX_RAN;
	volatile WorkerHold hold = WORKER_OK;
	text *volatile error = NULL;

	PG_TRY();
	{
		hold = run_and_complete(d, slot);
		(void) sandbox_over();
	}
	PG_CATCH();
	{
		ErrorData *edata;

		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(batch_context);
		edata = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		MemoryContextSwitchTo(batch_context);
		why = sandbox_over();
		error = sandbox_error(edata, why, d->limit);
		ereport(DEBUG1, (errmsg("job " INT64_FORMAT " failed: %s", d->job_id, edata->message)));
		FreeErrorData(edata);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(batch_context);
	sandbox_reset();
	if (hold == WORKER_BLOCKED)
		doze(PAUSE_MS);
	if (hold != WORKER_OK)
		return false;
	d->done = true;
	if (d->left || why == SANDBOX_STOPPED)
		put_back_safely(d, NULL);
	else if (error)
		put_back_safely(d, error);
	else if (db->executor_failures > 0)
		db->executor_failures = 0; /* whatever ended earlier processes, this one works */
	return true;
}

/* Waits until the handler of a job may run once more. False: the process is to end. */
static bool
wait_for_handler(Delivery *d)
{
	if (d->handler == 0)
		return true;
	while (!pool_take_handler(place, d->handler, d->concurrency))
	{
		if (sandbox_stopping())
			return false;
		d->later = true;
		doze(HANDLER_WAIT_MS);
		prolong(d);
	}
	return true;
}

static void
note_pace(int32 queue_id, TimestampTz began)
{
	Pace *pace = pace_of(queue_id);
	TimestampTz now = GetCurrentTimestamp();

	pace->usecs = pace->usecs * 0.8 + 0.2 * (double) Max(now - began, 1);
}

/* Takes jobs of the queue that the place is at, and runs them. Returns whether there were any. */
static bool
work_on(QueueSlot *slot)
{
	Delivery *deliveries = NULL;
	MemoryContext old;
	int n;

	MemoryContextReset(batch_context);
	old = MemoryContextSwitchTo(batch_context);
	holding = true;
	n = claim_jobs(slot, &deliveries);
	for (int i = 0; i < n && !sandbox_stopping(); i++)
	{
		Delivery *d = &deliveries[i];
		TimestampTz began = GetCurrentTimestamp();

		MemoryContextSwitchTo(batch_context);
		d->later = i > 0;
		if (!wait_for_handler(d))
			break;
		prolong(d);
		while (!run_job(d, slot) && !sandbox_stopping())
			;
		if (d->handler)
			pool_leave_handler(place);
		note_pace(slot->queue_id, began);
	}
	/* to end: nothing is counted that has not run */
	for (int i = 0; i < n; i++)
		if (!deliveries[i].done)
			put_back_safely(&deliveries[i], NULL);
	holding = false;
	MemoryContextSwitchTo(old);
	return n > 0;
}

/* Whether the queue may have a job for an executor now, as far as shared memory tells. */
static bool
may_have_work(QueueSlot *slot)
{
	bool may;

	if (slot->db_oid != MyDatabaseId || pg_atomic_read_u32(&slot->handlers) == 0)
		return false;
	SpinLockAcquire(&slot->mutex);
	may = !slot->exact || slot->counts[COUNT_READY] > 0;
	SpinLockRelease(&slot->mutex);
	return may;
}

/* Goes round the queues once, from the one after the last. Returns whether there was a job in any. */
static bool
work_round(void)
{
	static int last = 0;
	bool worked = false;

	rate_again = DT_NOEND;
	for (int i = 0; i < jobq_max_queues && !sandbox_stopping(); i++)
	{
		QueueSlot *slot = &jobq_queues[(last + 1 + i) % jobq_max_queues];

		if (!may_have_work(slot) || !pool_take_queue(place, slot))
			continue;
		sandbox_watch(true);
		worked = work_on(slot);
		sandbox_watch(false);
		pool_leave_queue(place);
		if (worked)
		{
			last = slot - jobq_queues;
			break;
		}
	}
	return worked;
}

/* Enters the place that the scheduler reserved. False: there is nothing to do here. */
static bool
enter(void)
{
	bool found;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	ext_oid = meta_extension_oid(true);
	found = OidIsValid(ext_oid) && meta_adopted();
	if (found)
	{
		TupleDesc desc = lookup_rowtype_tupdesc(handler_delivery_type(), -1);
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		delivery_desc = CreateTupleDescCopyConstr(desc);
		MemoryContextSwitchTo(old);
		ReleaseTupleDesc(desc);
		if (delivery_desc->natts != NUM_DELIVERY)
			elog(ERROR, "jobq.delivery has %d columns instead of %d", delivery_desc->natts, NUM_DELIVERY);
		db = meta_db();
		my_key = -(((int64) MyProcPid << 31 ^ ident_job_id(db)) & PG_INT64_MAX) - 1;
	}
	CommitTransactionCommand();
	if (!found || !pool_enter(place, my_key))
		return false;
	entered = true;
	return true;
}

/* arg: the place that was reserved for it. */
void
jobq_executor_main(Datum arg)
{
	TimestampTz last_work;
	char name[64];

	place = DatumGetInt32(arg);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	before_shmem_exit(executor_exit, (Datum) 0);
	sandbox_init(&jobq_executors[place]);
	worker_connect(fixed_settings, lengthof(fixed_settings));

	batch_context = AllocSetContextCreate(TopMemoryContext, "jobq jobs in hand", ALLOCSET_DEFAULT_SIZES);
	snprintf(name, sizeof(name), "executor %d", MyProcPid);
	my_name = cstring_to_text(name);
	if (!jobq_enabled || !enter())
		proc_exit(0);
	last_work = clock_now();
	while (!sandbox_stopping())
	{
		pg_atomic_uint32 *idle = &jobq_executors[place].idle;
		TimestampTz now;
		int64 left;

		if (work_round())
		{
			last_work = clock_now();
			continue;
		}
		/* from here on who makes a job ready wakes us; who did so before has left word */
		pg_atomic_write_u32(idle, 1);
		pg_memory_barrier();
		if (pool_is_wanted(db))
		{
			pg_atomic_write_u32(idle, 0);
			continue;
		}
		now = clock_now();
		if (last_work > now)
			last_work = now; /* the clock was set back */
		left = last_work + jobq_executor_idle_timeout * USECS_PER_SEC - now;
		if (!TIMESTAMP_IS_NOEND(rate_again))
			left = Max(Min(rate_again - now, USECS_PER_SEC), 1000);
		if (left <= 0)
			break;
		pgstat_report_activity(STATE_IDLE, NULL);
		(void) pgstat_report_stat(true);
		doze(left / 1000 + 1);
		pg_atomic_write_u32(idle, 0);
	}
	proc_exit(0);
}
