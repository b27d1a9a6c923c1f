/*-------------------------------------------------------------------------
 *
 * explain.c
 *		jobq.explain_job(): why a job is not running, or who runs it.
 *
 * An answer is a list of clauses. Each function below adds those of one kind
 * where they apply; what could keep a job waiting needs one in waits[].
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "args.h"
#include "cursor.h"
#include "explaindep.h"
#include "group.h"
#include "guc.h"
#include "handler.h"
#include "jobinfo.h"
#include "limit.h"
#include "meta.h"
#include "pool.h"
#include "spi.h"
#include "stats.h"
#include "timeutil.h"

PG_FUNCTION_INFO_V1(jobq_explain_job);

/* Characters of an error that are repeated. */
#define ERROR_CHARS 200
/* Groups before a group that are counted. */
#define COUNTED_GROUPS 100
/* Entries of a line that are walked to find who stands before a job. */
#define LINE_WALK 10000

typedef struct Explain
{
	DbSlot *db;
	JobInfo *job;
	Snapshot snapshot;
	TimestampTz now;
	const char *group_key; /* NULL: of no group */
	StringInfoData text;
} Explain;

/* Where the group of a job stands. */
typedef struct GroupInfo
{
	int64 id;
	int64 previous; /* the last unfinished job before this one; 0: none */
	bool leased;
	Lease lease;
	bool held_paused;
	int64 dead_job; /* that blocks it; 0: none */
	bool ready;
	Ticket ticket; /* in ready or delayed */
	bool delayed;
	bool paused; /* by its settings */
} GroupInfo;

/* Adds a clause. */
static void say(Explain *e, const char *fmt, ...) pg_attribute_printf(2, 3);

static void
say(Explain *e, const char *fmt, ...)
{
	int save_errno = errno;

	if (e->text.len > 0)
		appendStringInfoString(&e->text, "; ");
	for (;;)
	{
		va_list args;
		int needed;

		errno = save_errno;
		va_start(args, fmt);
		needed = appendStringInfoVA(&e->text, fmt, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&e->text, needed);
	}
}

static const char *
time_text(TimestampTz t)
{
	return DatumGetCString(DirectFunctionCall1(timestamptz_out, TimestampTzGetDatum(t)));
}

static const char *
column_time(const Explain *e, int column)
{
	return time_text(DatumGetTimestampTz(e->job->values[column]));
}

static int32
column_int(const Explain *e, int column)
{
	return DatumGetInt32(e->job->values[column]);
}

static const char *
worker_text(const text *worker)
{
	return worker ? psprintf("worker \"%s\"", text_to_cstring(worker)) : "a worker without a name";
}

static bool
is_waiting(const Explain *e)
{
	return e->job->place <= JOB_IN_PENDING;
}

static bool
is_ready(const Explain *e)
{
	return e->job->place <= JOB_JOINS;
}

/* The first clause. */
static void
say_state(Explain *e, const GroupInfo *g)
{
	const JobInfo *job = e->job;
	int32 attempt = column_int(e, JOB_ATTEMPT);
	int32 max_attempts = column_int(e, JOB_MAX_ATTEMPTS);

	switch (job->place)
	{
		case JOB_IN_READY:
			say(e, "ready: waits for a worker to take it");
			break;
		case JOB_IN_LINE:
			if (g && g->previous == 0 && g->ready)
				say(e, "ready: waits for a worker to take it");
			else
				say(e, "ready: waits for its turn in group \"%s\"", e->group_key);
			break;
		case JOB_JOINS:
			say(e, "ready: joins its group \"%s\" at commit", e->group_key);
			break;
		case JOB_IN_DELAYED:
			say(e, job->ticket.visible_at > e->now ? "delayed until %s" : "delayed, due since %s",
				time_text(job->ticket.visible_at));
			break;
		case JOB_IN_PENDING:
			explain_dependencies(&e->text, job, e->snapshot);
			break;
		case JOB_IN_LEASE:
			say(e, "active: attempt %d of %d, held by %s since %s", attempt, max_attempts,
				worker_text(job->lease.worker), time_text(job->lease.started));
			break;
		case JOB_IS_LOST:
			say(e, "job " INT64_FORMAT " has neither a ticket nor a lease: SELECT * FROM jobq.verify() tells more",
				job->id);
			break;
		case JOB_IS_COMPLETED:
			say(e, "completed at %s in attempt %d of %d", column_time(e, JOB_FINISHED), attempt, max_attempts);
			break;
		case JOB_IS_CANCELLED:
			say(e, "cancelled at %s", column_time(e, JOB_FINISHED));
			break;
		case JOB_IS_EXPIRED:
			say(e, "expired at %s: its time to live ran out", column_time(e, JOB_FINISHED));
			break;
		case JOB_IS_DEAD:
			say(e, "dead since %s: %s, attempt %d of %d", column_time(e, JOB_FINISHED), job->reason, attempt,
				max_attempts);
			break;
	}
}

/* What came before, and what is asked of it. */
static void
say_past(Explain *e)
{
	const JobInfo *job = e->job;
	const char *error = jobinfo_string(job, JOB_LAST_ERROR);

	if (job->place == JOB_IN_LEASE)
		say(e,
			job->lease.lease_until >= e->now
				? "its lease ends at %s"
				: "its lease ended at %s and will be taken back unless the worker comes first",
			time_text(job->lease.lease_until));
	else if (job->place == JOB_IN_DELAYED && column_int(e, JOB_ATTEMPT) == 0)
		say(e, "not started yet");
	else if (is_waiting(e) && column_int(e, JOB_ATTEMPT) > 0)
		say(e, "%d of %d attempts are used up", column_int(e, JOB_ATTEMPT), column_int(e, JOB_MAX_ATTEMPTS));
	if (job->place == JOB_IN_LEASE && job->lease.cancel & (UINT64CONST(1) << job->position))
		say(e, "its cancellation is asked for");
	if (error && job->place != JOB_IS_COMPLETED)
		say(e, "last error: %.*s", pg_mbcharcliplen(error, (int) strlen(error), ERROR_CHARS), error);
	if (job->place == JOB_IS_DEAD)
		say(e, "redrive() runs it again");
	if (job->place == JOB_IN_PENDING && !job->nulls[JOB_RUN_AT] &&
		DatumGetTimestampTz(job->values[JOB_RUN_AT]) > e->now)
		say(e, "not before %s", column_time(e, JOB_RUN_AT));
	if ((job->place == JOB_IN_DELAYED || job->place == JOB_IN_PENDING) && e->group_key)
		say(e, "joins group \"%s\" then", e->group_key);
}

/* What it was enqueued with that matters while it waits. */
static void
say_terms(Explain *e)
{
	const char *unique_key = jobinfo_string(e->job, JOB_UNIQUE_KEY);

	if (!is_waiting(e))
		return;
	if (!e->job->nulls[JOB_EXPIRES])
		say(e,
			DatumGetTimestampTz(e->job->values[JOB_EXPIRES]) > e->now
				? "its time to live ends at %s"
				: "its time to live ended at %s: the scheduler makes it expire",
			column_time(e, JOB_EXPIRES));
	if (unique_key)
		say(e, "its unique key is \"%s\"", unique_key);
}

/* The last one in line before the job; 0: none. */
static int64
previous_in_line(Explain *e, const GroupInfo *g)
{
	StoreTable *line = store_open_read(TABLE_LINE);
	ScanKeyData keys[2];
	StoreWalk walk;
	bool visible = false;
	int64 previous = 0;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(g->id));
	ScanKeyInit(&keys[1], 2, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(e->job->row.ord));
	store_walk_begin(&walk, line, INDEX_LINE_ORDER, e->snapshot, keys, 2);
	while (!visible && walk.walked < LINE_WALK && store_walk_back(&walk, &visible))
		if (visible)
			previous = DatumGetInt64(slot_value(walk.slot, Anum_line_job_id));
	store_walk_end(&walk);
	store_close(line);
	return previous;
}

/* The last unfinished job of a lease, among the first n of it; 0: none. */
static int64
previous_in_lease(Explain *e, const Lease *lease, int n)
{
	StoreTable *job = store_open_read(TABLE_JOB);
	TupleTableSlot *slot = store_read_slot(job);
	int64 previous = 0;

	while (previous == 0 && n-- > 0)
	{
		ItemPointerData hint = lease->job_tids[n];

		if (store_job_fetch(job, e->snapshot, lease->job_ids[n], &hint, slot))
			previous = lease->job_ids[n];
	}
	ExecDropSingleTupleTableSlot(slot);
	store_close(job);
	return previous;
}

/* Finds a group's ticket: in one table, or in a lease. */
static void
find_group_ticket(Explain *e, GroupInfo *g)
{
	StoreTable *ready = store_open_read(TABLE_READY);
	StoreTable *delayed = store_open_read(TABLE_DELAYED);
	StoreTable *held = store_open_read(TABLE_HELD);
	StoreTable *lease = store_open_read(TABLE_LEASE);
	HeldRow row;

	if (e->job->place == JOB_IN_LEASE)
	{
		g->leased = true;
		g->lease = e->job->lease;
	}
	else if (store_ticket_of_group(TABLE_READY, ready, e->snapshot, g->id, &g->ticket))
		g->ready = true;
	else if (store_ticket_of_group(TABLE_DELAYED, delayed, e->snapshot, g->id, &g->ticket))
		g->delayed = true;
	else if (store_held_find(held, e->snapshot, g->id, &row))
	{
		g->held_paused = !row.blocked;
		g->dead_job = row.blocked ? row.dead_job : 0;
	}
	else
		g->leased = store_lease_of_group(lease, e->snapshot, g->id, &g->lease);
	store_close(lease);
	store_close(held);
	store_close(delayed);
	store_close(ready);
}

/* The group of a job whose ticket decides when it runs. False: there is none, or it does not matter. */
static bool
find_group(Explain *e, GroupInfo *g)
{
	const JobInfo *job = e->job;

	memset(g, 0, sizeof(*g));
	if (e->group_key == NULL || job->queue == NULL)
		return false;
	if (job->place == JOB_IN_LINE)
		g->id = job->row.group_id;
	else if (job->place == JOB_IN_LEASE)
		g->id = job->lease.group_id;
	else if (job->place == JOB_IS_DEAD)
	{
		StoreTable *job_group = store_open_read(TABLE_JOB_GROUP);
		ItemPointerData tid;

		if (!store_group_find(job_group, e->snapshot, job->queue->id, DatumGetTextPP(job->values[JOB_GROUP_KEY]),
							  &g->id, &tid))
			g->id = 0;
		store_close(job_group);
	}
	if (g->id == 0)
		return false;
	find_group_ticket(e, g);
	if (job->place == JOB_IN_LINE)
	{
		g->previous = previous_in_line(e, g);
		if (g->previous == 0 && g->leased)
			g->previous = previous_in_lease(e, &g->lease, g->lease.njobs);
	}
	else if (job->place == JOB_IN_LEASE)
		g->previous = previous_in_lease(e, &g->lease, job->position);
	g->paused = g->held_paused;
	if (job->queue->group_settings)
	{
		StoreTable *setting = store_open_read(TABLE_GROUP_SETTING);
		TupleTableSlot *slot;

		if (store_group_setting(setting, e->snapshot, job->queue->id, DatumGetTextPP(job->values[JOB_GROUP_KEY]),
								&slot))
		{
			g->paused |= DatumGetBool(slot_value(slot, Anum_group_setting_paused));
			ExecDropSingleTupleTableSlot(slot);
		}
		store_close(setting);
	}
	return true;
}

/* How many tickets of its lane and priority come before a group's, at most one more than are counted. */
static int
groups_before(Explain *e, const Ticket *ticket)
{
	QueueSlot *slot = e->job->queue->slot;
	StoreTable *ready = store_open_read(TABLE_READY);
	CursorScan cursor;
	StoreScan scan;
	int n = 0;

	/* claims have seen all below the cursor, but for the standing intervals */
	if (slot == NULL || !cursor_first(slot, ticket->queue_id, ticket->lane, ticket->priority - 1, &cursor) ||
		cursor.priority != ticket->priority)
	{
		cursor.nstanding = 0;
		cursor.start = PG_INT64_MIN;
	}
	for (int i = 0; i <= cursor.nstanding; i++)
	{
		int64 lo = i < cursor.nstanding ? cursor.standing[i].lo : cursor.start;
		int64 hi = i < cursor.nstanding ? cursor.standing[i].hi : PG_INT64_MAX;

		store_ready_scan(&scan, ready, e->snapshot, ticket->queue_id, ticket->lane, ticket->priority, lo,
						 Min(hi, ticket->seq - 1));
		while (n <= COUNTED_GROUPS && store_scan_next(&scan))
			n++;
		store_scan_end(&scan);
	}
	store_close(ready);
	return n;
}

/* Why the group's ticket is where it is. */
static void
say_group_ticket(Explain *e, const GroupInfo *g)
{
	const JobInfo *job = e->job;
	const char *key = e->group_key;
	TimestampTz next_at = DT_NOBEGIN;
	LineRow head;
	int before;

	if (g->dead_job != 0)
		say(e, "its group \"%s\" is blocked by dead job " INT64_FORMAT ": unblock_group() lets it go on", key,
			g->dead_job);
	else if (g->delayed)
	{
		StoreTable *rate = store_open_read(TABLE_GROUP_RATE);
		StoreTable *line = store_open_read(TABLE_LINE);
		ItemPointerData tid;

		if (!store_group_rate(rate, e->snapshot, job->queue->id, DatumGetTextPP(job->values[JOB_GROUP_KEY]), &next_at,
							  &tid))
			next_at = DT_NOBEGIN;
		if (g->ticket.visible_at <= next_at)
			say(e, "its group \"%s\" waits for its rate until %s", key, time_text(next_at));
		else if (store_line_head(line, e->snapshot, g->id, g->ticket.from_ord, &head) && head.attempt > 0)
			say(e, "its group \"%s\" waits until %s: job " INT64_FORMAT " is in backoff", key,
				time_text(g->ticket.visible_at), head.job_id);
		else
			say(e, "its group \"%s\" waits until %s", key, time_text(g->ticket.visible_at));
		store_close(line);
		store_close(rate);
	}
	else if (g->leased)
		say(e,
			g->lease.drain ? "its group \"%s\" is being handed over by %s (token " INT64_FORMAT ")"
						   : "its group \"%s\" is worked on by %s (token " INT64_FORMAT ")",
			key, worker_text(g->lease.worker), g->lease.token);
	else if (g->ready)
	{
		if (g->ticket.lane == LANE_BULK)
			say(e, "its group \"%s\" has more jobs than isolate_above and is served apart", key);
		before = groups_before(e, &g->ticket);
		if (before > COUNTED_GROUPS)
			say(e, "more than %d groups are before its group \"%s\"", COUNTED_GROUPS, key);
		else if (before > 0)
			say(e, "groups before its group \"%s\": %d", key, before);
	}
}

static void
say_group(Explain *e, const GroupInfo *g)
{
	if (g->previous != 0)
		say(e, "behind job " INT64_FORMAT " of its group \"%s\"", g->previous, e->group_key);
	if (e->job->place == JOB_IS_DEAD)
	{
		if (g->dead_job == e->job->id)
			say(e, "it blocks its group \"%s\": unblock_group() lets it go on", e->group_key);
	}
	else if (e->job->place == JOB_IN_LEASE)
	{
		if (g->lease.drain)
			say(e, "its worker is asked to hand its group over");
	}
	else
		say_group_ticket(e, g);
	if (g->paused && is_ready(e))
		say(e, "its group \"%s\" is paused: resume_group() lets it go on", e->group_key);
}

static void
wait_for_resume(Explain *e)
{
	if (e->job->queue->paused)
		say(e, "queue \"%s\" is paused: resume_queue() lets it run", e->job->queue->name);
}

/* Nothing runs on this server, or in this database. */
static void
wait_for_server(Explain *e)
{
	if (!jobq_enabled)
		say(e, "jobq.enabled is off: nothing runs on this server");
	if (!meta_adopted())
		say(e, "this database is a copy: nothing runs in it until adopt()");
	if (RecoveryInProgress())
		say(e, "this server is a standby: nothing runs on it");
}

static void
wait_for_scheduler(Explain *e)
{
	if (e->job->place == JOB_IN_DELAYED && e->job->ticket.visible_at < e->now && jobq_enabled &&
		!RecoveryInProgress() && e->db->scheduler_latch == NULL)
		say(e, "no scheduler runs to make it ready; a dequeue does");
}

/* Who claimed it gave it back by a rollback, or is about to commit. */
static void
wait_for_others(Explain *e)
{
	int rollbacks = shmem_rollback_count(MyDatabaseId, e->job->id);

	if (rollbacks >= ROLLBACK_LIMIT)
		say(e, "claims of it were rolled back %d times in a row: the scheduler counts an attempt for it first",
			rollbacks);
	else if (rollbacks > 0)
		say(e, "claims of it that were rolled back: %d", rollbacks);
	if (e->job->in_hand)
		say(e, "a transaction that is not over yet has it in hand");
}

static void
wait_for_limits(Explain *e)
{
	QueueInfo *queue = e->job->queue;
	TimestampTz free = limit_free_at(queue);

	if (!is_ready(e) || limit_is_free(queue))
		return;
	if (free > e->now)
		say(e, "queue \"%s\" has used up its rate limit until %s", queue->name, time_text(free));
	else
		say(e, "queue \"%s\" runs as many jobs as its concurrency limit allows", queue->name);
}

/* Whether stop() keeps the handlers of this database from running. */
static bool
handlers_stopped(void)
{
	static SpiStatement statement = {.sql = "SELECT FROM jobq.stopped", .result = SPI_OK_SELECT};
	SpiScope scope;
	bool stopped;

	spi_begin(&scope);
	stopped = spi_run(&statement, NULL, NULL) > 0;
	spi_end(&scope);
	return stopped;
}

/* Its queue has handlers, but they cannot run. */
static void
wait_for_handler(Explain *e)
{
	QueueInfo *queue = e->job->queue;
	const Handler *handler;
	int allowed;

	if (!is_ready(e) || RecoveryInProgress() || handler_number_of(queue) == 0)
		return;
	handler = handler_find(queue, jobinfo_string(e->job, JOB_NAME));
	if (handler == NULL)
		say(e, "queue \"%s\" has no handler for jobs of its name: each attempt fails for that", queue->name);
	else if (!OidIsValid(function_by_signature(handler->signature, true)))
		say(e, "its handler %s does not exist any more: each attempt fails for that", handler->signature);
	else if (!OidIsValid(get_role_oid(handler->role, true)))
		say(e, "role \"%s\" of its handler does not exist any more: each attempt fails for that", handler->role);
	if (handlers_stopped())
	{
		say(e, "handlers are stopped in this database: start() lets them run");
		return;
	}
	allowed = queue->slot ? (int) pg_atomic_read_u32(&queue->slot->handlers) : 0;
	if (jobq_max_executors == 0)
		say(e, "no handler can run: jobq.max_executors is 0");
	else if (allowed > 0 && pool_executing(MyDatabaseId, queue->id) >= allowed)
		say(e, "as many executors are at queue \"%s\" as its handlers allow: %d", queue->name, allowed);
	else if (pool_count(MyDatabaseId).free == 0)
		say(e, "all executors that the server may have are at work: jobq.max_executors is %d", jobq_max_executors);
}

static void
say_counts(Explain *e)
{
	QueueStats stats;

	if (!is_ready(e))
		return;
	stats_counts(e->db, e->job->queue, &stats);
	say(e, "queue \"%s\" has " INT64_FORMAT " ready and " INT64_FORMAT " active jobs", e->job->queue->name,
		stats.counts[COUNT_READY], stats.counts[COUNT_ACTIVE]);
}

/* What may keep a waiting job from being taken, besides its group; in the order in which it is said. */
static void (*const waits[])(Explain *e) = {
	wait_for_resume, wait_for_server,  wait_for_scheduler, wait_for_others,
	wait_for_limits, wait_for_handler, say_counts,
};

/* explain_job(job_id): why a job is not running, or who runs it. A job that the current user may not read is not known. */
Datum
jobq_explain_job(PG_FUNCTION_ARGS)
{
	Explain e;
	GroupInfo *g = palloc(sizeof(GroupInfo));
	bool grouped;

	memset(&e, 0, sizeof(e));
	e.db = meta_begin("explain_job", VERB_READS);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	initStringInfo(&e.text);
	e.snapshot = GetActiveSnapshot();
	e.now = clock_now();
	e.job = jobinfo_find(PG_GETARG_INT64(0), e.snapshot);
	if (e.job == NULL)
	{
		say(&e, "job " INT64_FORMAT " is not known: it never existed, or it ended and is no longer kept",
			PG_GETARG_INT64(0));
		PG_RETURN_TEXT_P(cstring_to_text(e.text.data));
	}
	e.group_key = jobinfo_string(e.job, JOB_GROUP_KEY);
	grouped = find_group(&e, g);
	say_state(&e, grouped ? g : NULL);
	say_past(&e);
	say_terms(&e);
	if (grouped)
		say_group(&e, g);
	if (is_waiting(&e) && e.job->queue)
		for (int i = 0; i < lengthof(waits); i++)
			waits[i](&e);
	jobinfo_end(e.job);
	PG_RETURN_TEXT_P(cstring_to_text(e.text.data));
}
