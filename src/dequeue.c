/*-------------------------------------------------------------------------
 *
 * dequeue.c
 *		jobq.dequeue(), jobq.complete_and_dequeue() and CALL jobq.wait().
 *
 * The tickets taken by claim.c become leases: at most JOBQ_MAX_LEASE_JOBS
 * jobs of the same run timeout in one row, under one token.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "args.h"
#include "claim.h"
#include "compat.h"
#include "debug.h"
#include "event.h"
#include "dequeue.h"
#include "finish.h"
#include "grant.h"
#include "ident.h"
#include "limit.h"
#include "liveness.h"
#include "retire.h"
#include "store.h"
#include "timeutil.h"
#include "ttl.h"
#include "turn.h"
#include "unique.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_dequeue);
PG_FUNCTION_INFO_V1(jobq_complete_and_dequeue);
PG_FUNCTION_INFO_V1(jobq_wait);

/* Longest sleep of a waiter whose queue is paused, or has a next due time that is not known. */
#define BLIND_SLEEP_MS 1000
/* A waiter's pause when a ticket is due but not to be had: somebody is at it. */
#define OVERDUE_SLEEP_MS 50

#define MAX_WAIT_USECS (INT64CONST(24) * USECS_PER_HOUR)

/* Leases being written by one dequeue. */
typedef struct Leasing
{
	const ClaimRequest *request;
	StoreTable *lease;
	Lease row;
	int64 timeout; /* microseconds, of all jobs in the row; 0: none */
	bool may_be_lost;
	StoreTable *job;
	StoreTable *window; /* of unique keys, once it is needed */
	TimestampTz now;    /* when it was first asked whether a time to live is over; 0: never */
	int expired;        /* jobs that were ended for it */
	Retire retire;      /* open once there are some */
} Leasing;

static void
write_lease(Leasing *l)
{
	if (l->row.njobs == 0)
		return;
	store_lease_insert(l->lease, &l->row);
	if (l->row.group_id > 0)
		xact_count(l->request->queue, COUNT_GROUPS_LEASED, 1);
	xact_made_lease(l->row.lease_until);
	l->row.njobs = 0;
}

/* Opens a lease row for jobs of a timeout. first: the job that it is opened for. */
static void
open_lease(Leasing *l, int64 timeout, const Ticket *first)
{
	TimestampTz now = clock_now();
	int64 lease = l->request->lease;

	write_lease(l);
	memset(&l->row, 0, offsetof(Lease, job_ids));
	if (lease == 0)
		lease = first->group_id > 0 ? first->turn_lease : l->request->queue->lease;
	if (!TIMESTAMP_IS_NOBEGIN(first->turn_start))
	{
		now = first->turn_start; /* the rate was reckoned from it */
		l->may_be_lost = false;
	}
	/* an executor sees to the timeouts by itself */
	l->timeout = l->request->executor ? 0 : timeout;
	timeout = l->timeout;
	l->row.token = ident_token(l->request->db);
	l->row.started = now;
	l->row.lease_until = timestamp_add(now, lease);
	l->row.deadline = timeout > 0 ? timestamp_add(now, timeout) : DT_NOEND;
	l->row.lease_until = Min(l->row.lease_until, l->row.deadline);
	l->row.queue_id = l->request->queue->id;
	l->row.worker = l->request->worker;
	l->row.progress = NULL;
	l->row.group_id = first->group_id;
	l->row.drain = false;
	l->row.lane = first->lane;
	l->row.session = l->request->executor  ? l->request->executor
					 : first->group_id > 0 ? liveness_key(l->request->db)
										   : 0;
}

/* The run timeout of a job, microseconds; 0: none. */
static int64
job_timeout(const Leasing *l, TupleTableSlot *job)
{
	bool isnull;
	Datum datum = slot_datum(job, Anum_job_timeout, &isnull);

	return isnull ? l->request->queue->timeout
				  : interval_usecs(DatumGetIntervalP(datum), "timeout", PG_INT64_MIN, PG_INT64_MAX);
}

static inline void
copy_out(Datum *values, bool *nulls, int out, TupleTableSlot *job, int attnum)
{
	values[out] = job->tts_values[attnum - 1];
	nulls[out] = job->tts_isnull[attnum - 1];
}

/* Whether a job's time to live is over; then it ends here. */
static bool
end_expired(Leasing *l, const Ticket *ticket, TupleTableSlot *job)
{
	Attempt attempt = {.attempt = ticket->attempt};

	if (!ttl_is_over(job, &l->now))
		return false;
	if (l->expired++ == 0)
		retire_begin(&l->retire);
	(void) retire_finish(&l->retire, l->request->queue, job, 'e', &attempt);
	return true;
}

/* Adds a job to the lease at hand and returns its row to the caller. */
static void
lease_job(Leasing *l, const Ticket *ticket, TupleTableSlot *job, ReturnSetInfo *rsinfo)
{
	Datum values[NUM_DELIVERY];
	bool nulls[NUM_DELIVERY];
	TimestampTz deadline = l->row.deadline;
	int64 timeout;

	slot_getallattrs(job);
	if (unlikely(!job->tts_isnull[Anum_job_unique_started - 1]))
		unique_start(l->job, &l->window, job, clock_now());
	l->row.job_ids[l->row.njobs] = ticket->job_id;
	l->row.job_tids[l->row.njobs] = job->tts_tid;
	l->row.attempts[l->row.njobs] = ticket->attempt + 1;
	l->row.ords[l->row.njobs] = ticket->ord;
	l->row.njobs++;
	if (ticket->attempt > 0)
		l->may_be_lost = false;
	else
		xact_time(l->request->queue, TIME_WAIT, l->row.started - store_ready_since(ticket, job));
	xact_claimed(l->request->queue, ticket->job_id);
	event_job(l->request->queue, EVENT_ACTIVE, job, ticket->attempt + 1, EVENT_NO_DELAY, NULL);

	memset(nulls, false, sizeof(nulls));
	values[DELIVERY_JOB_ID] = Int64GetDatum(ticket->job_id);
	values[DELIVERY_TOKEN] = Int64GetDatum(l->row.token);
	copy_out(values, nulls, DELIVERY_NAME, job, Anum_job_name);
	copy_out(values, nulls, DELIVERY_PAYLOAD, job, Anum_job_payload);
	copy_out(values, nulls, DELIVERY_HEADERS, job, Anum_job_headers);
	values[DELIVERY_PRIORITY] = Int32GetDatum(ticket->priority);
	values[DELIVERY_ATTEMPT] = Int32GetDatum(ticket->attempt + 1);
	copy_out(values, nulls, DELIVERY_MAX_ATTEMPTS, job, Anum_job_max_attempts);
	copy_out(values, nulls, DELIVERY_GROUP_KEY, job, Anum_job_group_key);
	copy_out(values, nulls, DELIVERY_ENQUEUED_AT, job, Anum_job_created);
	values[DELIVERY_LEASE_UNTIL] = TimestampTzGetDatum(l->row.lease_until);
	if (l->request->executor && (timeout = job_timeout(l, job)) > 0)
		deadline = timestamp_add(l->row.started, timeout);
	values[DELIVERY_DEADLINE] = TimestampTzGetDatum(deadline);
	nulls[DELIVERY_DEADLINE] = TIMESTAMP_IS_NOEND(deadline);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Where jobs are read from. */
typedef struct JobReader
{
	StoreTable *table;
	Snapshot snapshot;
	TupleTableSlot *slot;
} JobReader;

/* Reads a ticket's job. False: it was deleted by hand, and the ticket is what remains. */
static bool
read_job(JobReader *reader, Ticket *ticket)
{
	return store_job_fetch(reader->table, reader->snapshot, ticket->job_id, &ticket->job_tid, reader->slot);
}

/* A job of no group; returns how many were given out. */
static int
lease_single(Leasing *l, JobReader *reader, Ticket *ticket, ReturnSetInfo *rsinfo)
{
	int64 timeout;

	if (!read_job(reader, ticket) || end_expired(l, ticket, reader->slot))
		return 0;
	timeout = l->request->executor ? 0 : job_timeout(l, reader->slot);
	if (l->row.njobs == 0 || l->row.njobs == JOBQ_MAX_LEASE_JOBS || l->timeout != timeout || l->row.group_id > 0)
		open_lease(l, timeout, ticket);
	lease_job(l, ticket, reader->slot, rsinfo);
	return 1;
}

/* The jobs of a group's turn, under a lease of their own. They run one after the other, so their timeouts add up. */
static int
lease_turn(Leasing *l, JobReader *reader, Ticket *tickets, int n, ReturnSetInfo *rsinfo)
{
	int64 timeout = 0;
	bool limited = true;
	int given = 0;

	for (int i = 0; i < n && limited; i++)
	{
		int64 one;

		if (!read_job(reader, &tickets[i]) || ttl_is_over(reader->slot, &l->now))
			continue;
		one = job_timeout(l, reader->slot);
		limited = one > 0;
		timeout += one;
	}
	for (int i = 0; i < n; i++)
	{
		if (!read_job(reader, &tickets[i]) || end_expired(l, &tickets[i], reader->slot))
			continue;
		if (given++ == 0)
			open_lease(l, limited ? timeout : 0, &tickets[i]);
		lease_job(l, &tickets[i], reader->slot, rsinfo);
	}
	if (given == 0)
		turn_give_up(l->request->queue, &tickets[n - 1]);
	return given;
}

/* Puts jobs that were taken under leases and into the result. Returns their number. */
static int
lease_tickets(const ClaimRequest *request, Ticket *tickets, int n, ReturnSetInfo *rsinfo, bool *may_be_lost)
{
	int given = 0;
	JobReader reader;
	Leasing l;

	if (n == 0)
		return 0;
	reader.table = store_open(TABLE_JOB);
	reader.slot = store_read_slot(reader.table);
	reader.snapshot = store_snapshot();
	memset(&l, 0, sizeof(l));
	l.request = request;
	l.job = reader.table;
	l.lease = store_open(TABLE_LEASE);
	l.may_be_lost = true;
	for (int i = 0, run; i < n; i += run)
	{
		run = 1;
		if (tickets[i].group_id == 0)
		{
			given += lease_single(&l, &reader, &tickets[i], rsinfo);
			continue;
		}
		while (i + run < n && tickets[i + run].group_id == tickets[i].group_id)
			run++;
		given += lease_turn(&l, &reader, &tickets[i], run, rsinfo);
	}
	write_lease(&l);
	xact_count(request->queue, COUNT_ACTIVE, given);
	*may_be_lost = *may_be_lost && l.may_be_lost;
	if (l.expired > 0)
	{
		*may_be_lost = false;
		retire_end(&l.retire);
	}
	if (request->expired)
		*request->expired += l.expired;
	store_snapshot_done(reader.snapshot);
	ExecDropSingleTupleTableSlot(reader.slot);
	store_close(l.window);
	store_close(l.lease);
	store_close(reader.table);
	return given;
}

/* The next jobs of the group whose turn this transaction has just ended: when no other group wants its turn. */
static int
dequeue_own_turn(const ClaimRequest *request, ReturnSetInfo *rsinfo, bool *may_be_lost)
{
	TurnTables tables;
	Ticket jobs[JOBQ_MAX_LEASE_JOBS];
	Ticket ticket;
	int n;

	if (!line_reclaim(request->queue, &ticket))
		return 0;
	memset(&tables, 0, sizeof(tables));
	n = turn_take(&tables, request->queue, &ticket, request->group_batch, Min(request->max_jobs, lengthof(jobs)), jobs);
	turn_close(&tables);
	return lease_tickets(request, jobs, n, rsinfo, may_be_lost);
}

/* An executor takes one lease at a time. */
static bool
wants_more(const ClaimRequest *request, int given)
{
	return given == 0 || (given < request->max_jobs && request->executor == 0);
}

/*
 * Claims, without regard to limits, once more as long as some of what it met had expired. Returns the number of jobs put into the result.
 */
static int
claim_and_lease(const ClaimRequest *request, ReturnSetInfo *rsinfo, bool *may_be_lost)
{
	Ticket few[8];
	Ticket *tickets = request->max_jobs <= lengthof(few) ? few : palloc(request->max_jobs * sizeof(Ticket));
	ClaimRequest rest = *request;
	int expired = 0;
	int before;
	int given = 0;

	rest.expired = &expired;
	do
	{
		int last = before = expired;

		given += lease_tickets(&rest, tickets, claim_tickets(&rest, tickets), rsinfo, may_be_lost);
		/* a group all of whose jobs in hand had expired goes on at once */
		while (expired > last && wants_more(request, given))
		{
			last = expired;
			CommandCounterIncrement();
			rest.max_jobs = request->max_jobs - given;
			given += dequeue_own_turn(&rest, rsinfo, may_be_lost);
		}
		rest.max_jobs = request->max_jobs - given;
	} while (expired > before && wants_more(request, given));
	if (request->expired)
		*request->expired += expired;
	if (tickets != few)
		pfree(tickets);
	return given;
}

typedef int (*Take)(const ClaimRequest *request, ReturnSetInfo *rsinfo, bool *may_be_lost);

/* Takes jobs as far as the queue's limits allow. Returns the number of jobs put into the result. */
static int
take_within_limits(const ClaimRequest *request, ReturnSetInfo *rsinfo, bool *may_be_lost, Take take)
{
	ClaimRequest allowed = *request;
	int given;

	if (request->queue->paused)
		return 0;
	if (!limit_applies(request->queue))
		return take(request, rsinfo, may_be_lost);
	allowed.max_jobs = limit_reserve(request->queue, request->max_jobs);
	if (allowed.max_jobs == 0)
		return 0;
	given = take(&allowed, rsinfo, may_be_lost);
	limit_settle(request->queue, allowed.max_jobs, given);
	return given;
}

static int
dequeue_once(const ClaimRequest *request, ReturnSetInfo *rsinfo, bool *may_be_lost)
{
	return take_within_limits(request, rsinfo, may_be_lost, claim_and_lease);
}

/*
 * One claim for an executor: at most JOBQ_MAX_LEASE_JOBS jobs, as rows of jobq.delivery, in the order in which they are to run. Inside
 * xact_verb_begin and end. Returns their number.
 */
int
dequeue_for_executor(const ClaimRequest *request, Tuplestorestate *result, TupleDesc desc)
{
	ReturnSetInfo rsinfo = {.type = T_ReturnSetInfo, .setResult = result, .setDesc = desc};
	bool may_be_lost = true;

	return dequeue_once(request, &rsinfo, &may_be_lost);
}

/* A session's place among the waiters of a queue. */
static void
leave_waiters(int code, Datum arg)
{
	QueueSlot *slot = (QueueSlot *) DatumGetPointer(arg);

	condition_variable_cancel_compat(&slot->wake);
	pg_atomic_fetch_sub_u32(&slot->waiters, 1);
}

/* Milliseconds left of a wait; 0 when it is over. By the clock that nobody can set. */
static long
wait_left(instr_time begin, int64 usecs)
{
	instr_time elapsed;

	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, begin);
	usecs -= (int64) INSTR_TIME_GET_MICROSEC(elapsed);
	return usecs > 0 ? (long) ((usecs + 999) / 1000) : 0;
}

/*
 * Sleeps until a wake-up or the queue's next due time, at most ms milliseconds. The session is registered on the condition variable
 * already.
 */
static void
sleep_once(QueueInfo *queue, QueueSlot *slot, long ms)
{
	TimestampTz now = clock_now();
	TimestampTz due;
	TimestampTz free;

	SpinLockAcquire(&slot->mutex);
	due = slot->next_due;
	SpinLockRelease(&slot->mutex);
	free = limit_free_at(queue);
	if (free > now)
		ms = Min(ms, TimestampDifferenceMilliseconds(now, free));
	/* a resume wakes us just before other sessions are told of it: look again soon */
	if (TIMESTAMP_IS_NOBEGIN(due) || queue->paused)
		ms = Min(ms, BLIND_SLEEP_MS);
	else if (due <= now)
		ms = Min(ms, OVERDUE_SLEEP_MS);
	else
		ms = Min(ms, TimestampDifferenceMilliseconds(now, due));
	(void) ConditionVariableTimedSleep(&slot->wake, Max(ms, 1), wait_event_compat());
}

/* What a waiter looks for at each wake-up; true ends the wait. */
typedef bool (*WaitCheck)(void *arg);

/*
 * Runs check now and at every wake-up, until it is true or the time is over. The session registers before it looks, so no wake-up
 * is lost; it hands on one that it does not use.
 */
static bool
wait_for(QueueInfo *queue, int64 usecs, WaitCheck check, void *arg)
{
	instr_time begin;
	long left;
	QueueSlot *slot = queue->slot;
	bool done = false;
	MemoryContext look = AllocSetContextCreate(CurrentMemoryContext, "jobq wait", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(look); /* a long wait looks often */

	INSTR_TIME_SET_CURRENT(begin);

	if (slot == NULL)
	{
		/* no slot in shared memory was left for this queue: look now and then */
		while (!(done = check(arg)) && wait_left(begin, usecs) > 0)
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 2 * OVERDUE_SLEEP_MS,
							 wait_event_compat());
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(look);
		}
		MemoryContextSwitchTo(old);
		MemoryContextDelete(look);
		return done;
	}
	pg_atomic_fetch_add_u32(&slot->waiters, 1);
	PG_ENSURE_ERROR_CLEANUP(leave_waiters, PointerGetDatum(slot));
	{
		ConditionVariablePrepareToSleep(&slot->wake);
		while (!(done = check(arg)) && (left = wait_left(begin, usecs)) > 0)
		{
			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(look);
			sleep_once(queue, slot, left);
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave_waiters, PointerGetDatum(slot));
	leave_waiters(0, PointerGetDatum(slot));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(look);
	return done;
}

typedef struct DequeueWait
{
	ClaimRequest request;
	text *queue_name;
	ReturnSetInfo *rsinfo;
	bool may_be_lost;
	int expired;
} DequeueWait;

static bool
dequeue_check(void *arg)
{
	DequeueWait *w = arg;

	w->request.db = meta_begin("dequeue", VERB_TAKES);
	w->request.queue = grant_queue(w->queue_name, RIGHT_CONSUME);
	/* what was ended must not be kept uncommitted for the rest of the wait */
	return dequeue_once(&w->request, w->rsinfo, &w->may_be_lost) > 0 || w->expired > 0;
}

/* Waits for a job. When there was none, the groups that nobody has dealt with meanwhile are, for whoever comes next. */
static void
wait_and_dequeue(DequeueWait *w, int64 wait)
{
	if (wait_for(w->request.queue, wait, dequeue_check, w))
		return;
	w->request.settles = true;
	(void) dequeue_check(w);
}

/* Reads the arguments that dequeue and complete_and_dequeue share; they begin with the given one. */
static void
read_request(FunctionCallInfo fcinfo, DequeueWait *w, int64 *wait, int max_jobs_arg)
{
	int64 lease;

	w->request.queue = grant_queue(w->queue_name, RIGHT_CONSUME);
	w->request.expired = &w->expired;
	w->request.max_jobs = arg_int32_range(fcinfo, max_jobs_arg, "max_jobs", 1, 1, JOBQ_MAX_BATCH);
	lease = arg_interval(fcinfo, max_jobs_arg + 1, "lease", 0, 1000, JOBQ_MAX_LEASE_USECS);
	w->request.lease = lease;
	w->request.worker = arg_text(fcinfo, max_jobs_arg + 2, "worker", JOBQ_MAX_NAME);
	*wait = arg_interval(fcinfo, max_jobs_arg + 3, "wait", 0, 0, MAX_WAIT_USECS);
	/* a ticket that is settled moves at commit: not to be held while this waits */
	w->request.settles = *wait == 0;
	w->request.group_batch = arg_int32_range(fcinfo, max_jobs_arg + 4, "group_batch", 1, 1, JOBQ_MAX_LEASE_JOBS);
}

/*
 * jobq.dequeue(): takes up to max_jobs jobs under a lease and returns them; waits up to `wait` while there is none.
 *
 * Errors: 22004, 22023 bad argument; 42704 no such queue; 0A000 isolation level; 25006 read-only; 55000 disabled or not adopted.
 */
Datum
jobq_dequeue(PG_FUNCTION_ARGS)
{
	DequeueWait w;
	int64 wait;

	memset(&w, 0, sizeof(w));
	w.request.db = meta_begin("dequeue", VERB_TAKES);
	if (PG_ARGISNULL(0))
		(void) meta_queue_arg(fcinfo, 0);
	w.queue_name = PG_GETARG_TEXT_PP(0);
	read_request(fcinfo, &w, &wait, 1);
	InitMaterializedSRF(fcinfo, 0);
	w.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	w.may_be_lost = true;

	xact_verb_begin(w.request.db);
	if (dequeue_once(&w.request, w.rsinfo, &w.may_be_lost) == 0 && wait > 0 && w.expired == 0)
		wait_and_dequeue(&w, wait);
	xact_verb_end(w.may_be_lost);
	return (Datum) 0;
}

/*
 * jobq.complete_and_dequeue(): completes a job and takes the next in one transaction. With job_id and token NULL it only takes.
 * It does not wait when it completed a job: the completion would stay uncommitted meanwhile.
 *
 * Errors: those of complete() and dequeue().
 */
Datum
jobq_complete_and_dequeue(PG_FUNCTION_ARGS)
{
	DequeueWait w;
	int64 wait;
	bool completed = false;

	memset(&w, 0, sizeof(w));
	w.request.db = meta_begin("complete_and_dequeue", VERB_TAKES);
	if (PG_ARGISNULL(2))
		(void) meta_queue_arg(fcinfo, 2);
	w.queue_name = PG_GETARG_TEXT_PP(2);
	read_request(fcinfo, &w, &wait, 4);
	InitMaterializedSRF(fcinfo, 0);
	w.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	w.may_be_lost = true;

	xact_verb_begin(w.request.db);
	if (!PG_ARGISNULL(0) || !PG_ARGISNULL(1))
	{
		completed = finish_complete_one(arg_int64(fcinfo, 0, "job_id"), PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1),
										PG_ARGISNULL(3) ? NULL : PG_GETARG_JSONB_P(3), false);
		if (completed)
			CommandCounterIncrement();
	}
	if (dequeue_once(&w.request, w.rsinfo, &w.may_be_lost) == 0)
	{
		if (completed)
			(void) take_within_limits(&w.request, w.rsinfo, &w.may_be_lost, dequeue_own_turn);
		else if (wait > 0 && w.expired == 0)
			wait_and_dequeue(&w, wait);
	}
	xact_verb_end(w.may_be_lost && !completed);
	return (Datum) 0;
}

typedef struct ProbeWait
{
	text *queue_name;
} ProbeWait;

/* Looks with a snapshot of its own; the transaction ends with the look, so that the sleep holds neither snapshot nor lock. */
static bool
probe_check(void *arg)
{
	ProbeWait *w = arg;
	DbSlot *db = meta_begin("wait", VERB_WAITS);
	QueueInfo *queue;
	bool possible;

	PushActiveSnapshot(GetTransactionSnapshot());
	queue = grant_queue(w->queue_name, RIGHT_CONSUME);
	possible = !queue->paused && limit_is_free(queue) && claim_possible(db, queue);
	PopActiveSnapshot();
	SPI_commit();
	return possible;
}

/*
 * CALL jobq.wait(): waits until a dequeue of the queue would probably find a job. Holds no snapshot, transaction id or lock meanwhile.
 *
 * ready: true, or false when the time is over. Errors: 25001 in a transaction block; 42704; 22004; 22023.
 */
Datum
jobq_wait(PG_FUNCTION_ARGS)
{
	bool atomic =
		fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) || castNode(CallContext, fcinfo->context)->atomic;
	ProbeWait w;
	MemoryContext context;
	TupleDesc desc;
	int64 timeout;
	QueueInfo *queue;
	Datum value;
	bool isnull = false;

	(void) meta_begin("wait", VERB_WAITS);
	if (atomic)
		ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
						errmsg("CALL jobq.wait() cannot run inside a transaction block"),
						errhint("Call it outside BEGIN, or use jobq.dequeue(queue, wait => ...).")));
	queue = grant_queue_arg(fcinfo, 0, RIGHT_CONSUME);
	timeout = arg_interval(fcinfo, 1, "timeout", 30 * USECS_PER_SEC, 0, MAX_WAIT_USECS);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "jobq.wait() has no result row");

	/* what must outlive the transaction that CALL started */
	context = MemoryContextSwitchTo(PortalContext);
	w.queue_name = PG_GETARG_TEXT_P_COPY(0);
	desc = CreateTupleDescCopy(desc);
	MemoryContextSwitchTo(context);

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	value = BoolGetDatum(wait_for(queue, timeout, probe_check, &w));
	SPI_finish();

	EnsurePortalSnapshotExists();
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), &value, &isnull)));
}
