/*-------------------------------------------------------------------------
 *
 * turn.c
 *		A group's turn: its next jobs go into a lease, and come back from it.
 *
 * Taking: the ticket is deleted first, then the line is read with a newer
 * snapshot: a lock refreshes no snapshot, and what an older one shows may
 * have been finished meanwhile. A row of the line is the arbiter between
 * the taker and a cancel: it is deleted without waiting, and when that
 * fails for the first one the ticket rests for a moment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "debug.h"
#include "event.h"
#include "timeutil.h"
#include "turn.h"
#include "xact.h"

/* How long a group rests whose first job somebody else has in hand. */
#define BUSY_PAUSE (20 * 1000)

void
turn_close(TurnTables *t)
{
	group_close(&t->group);
	store_close(t->line);
	store_close(t->job);
	t->line = t->job = NULL;
}

/* Whether the claim of the group's first job was rolled back too often: the scheduler counts an attempt for it before it is taken again. */
bool
turn_is_poisoned(TurnTables *t, const Ticket *ticket)
{
	Snapshot snapshot;
	LineRow head;
	bool found;

	if (pg_atomic_read_u32(&jobq_shared->nrollbacks) == 0)
		return false;
	snapshot = store_snapshot();
	found = store_line_head(store_open_once(&t->line, TABLE_LINE), snapshot, ticket->group_id, ticket->from_ord, &head);
	store_snapshot_done(snapshot);
	return found && shmem_rollback_count(MyDatabaseId, head.job_id) >= ROLLBACK_LIMIT;
}

/* The key of the group of a job; NULL when the job's row is missing. In the current memory context. */
static text *
key_of_job(StoreTable *job, Snapshot snapshot, LineRow *row)
{
	TupleTableSlot *slot = store_read_slot(job);
	text *key = NULL;
	bool isnull;
	Datum datum;

	if (store_job_fetch(job, snapshot, row->job_id, &row->job_tid, slot))
	{
		datum = slot_datum(slot, Anum_job_group_key, &isnull);
		if (!isnull)
			key = DatumGetTextPCopy(datum);
	}
	ExecDropSingleTupleTableSlot(slot);
	return key;
}

/*
 * Looks at the settings of a group whose ticket we took. False: it may not start a job now, and its ticket is where it belongs, or on its
 * way. A ticket goes to held only under the group's stripe: otherwise a resume that sees it still in ready would leave it there for ever.
 */
static bool
may_start(TurnTables *t, QueueInfo *queue, const Ticket *ticket, const text *key, TimestampTz now,
		  GroupSettings *settings)
{
	group_settings(&t->group, queue, key, settings);
	if (settings->paused)
	{
		place_parked(queue, ticket, now);
		return false;
	}
	if (settings->gap > 0)
	{
		TimestampTz free = group_rate_free(&t->group, queue, key);

		if (free > now)
		{
			place_parked(queue, ticket, free);
			return false;
		}
	}
	return true;
}

/*
 * Takes the next jobs of a group whose ticket this transaction has deleted from ready, at most room, out of the line into jobs[]; returns
 * how many. 0: the ticket went elsewhere. batch: jobs in a turn of a group of weight 1.
 */
int
turn_take(TurnTables *t, QueueInfo *queue, const Ticket *ticket, int batch, int room, Ticket *jobs)
{
	StoreTable *line = store_open_once(&t->line, TABLE_LINE);
	Snapshot snapshot;
	StoreScan scan;
	GroupSettings settings;
	TimestampTz now = clock_now();
	bool special = group_is_special(queue);
	text *key = NULL;
	int most = Min(batch, room);
	int n = 0;

	DEBUG_POINT("group-took");
	settings.lease = queue->group_lease > 0 ? queue->group_lease : queue->lease;
	settings.gap = 0;
	snapshot = store_snapshot();
	store_line_scan(&scan, line, snapshot, ticket->group_id, ticket->from_ord);
	while (n < most && store_scan_next(&scan))
	{
		LineRow row;

		CHECK_FOR_INTERRUPTS();
		store_line_read(scan.slot, &row);
		if (n == 0 && special && (key = key_of_job(store_open_once(&t->job, TABLE_JOB), snapshot, &row)) != NULL)
		{
			if (!may_start(t, queue, ticket, key, now, &settings))
			{
				n = -1;
				break;
			}
			most = settings.gap > 0 ? 1 : Min(Min(batch * settings.weight, JOBQ_MAX_LEASE_JOBS), room);
		}
		if (store_delete(line, &row.tid, false) != TM_Ok)
			break;
		if (settings.gap > 0)
			group_rate_use(&t->group, queue, key, timestamp_add(now, settings.gap));
		memset(&jobs[n], 0, sizeof(Ticket));
		jobs[n].job_id = row.job_id;
		jobs[n].queue_id = queue->id;
		jobs[n].attempt = row.attempt;
		jobs[n].lane = ticket->lane;
		jobs[n].priority = row.priority;
		jobs[n].job_tid = row.job_tid;
		jobs[n].group_id = ticket->group_id;
		jobs[n].ord = row.ord;
		jobs[n].since = row.since;
		jobs[n].turn_lease = settings.lease;
		jobs[n].turn_start = settings.gap > 0 ? now : DT_NOBEGIN;
		n++;
	}
	store_scan_end(&scan);
	store_snapshot_done(snapshot);
	if (n > 0)
		xact_count(queue, COUNT_READY, -n);
	else if (n == 0)
		place_parked(queue, ticket, timestamp_add(now, BUSY_PAUSE));
	return Max(n, 0);
}

/* The key of a group, in the current memory context; NULL when it has no row. */
static text *
key_of_group(int64 group_id)
{
	StoreTable *job_group = store_open(TABLE_JOB_GROUP);
	Snapshot snapshot = store_snapshot();
	text *key = store_group_key(job_group, snapshot, group_id);

	store_snapshot_done(snapshot);
	store_close(job_group);
	return key;
}

/* How long a lease of a group lasts where nobody asks for another time; microseconds. */
int64
turn_lease_length(QueueInfo *queue, int64 group_id)
{
	GroupTables tables = {NULL};
	GroupSettings settings;
	text *key;

	settings.lease = queue->group_lease > 0 ? queue->group_lease : queue->lease;
	if (queue->group_settings && (key = key_of_group(group_id)) != NULL)
		group_settings(&tables, queue, key, &settings);
	group_close(&tables);
	return settings.lease;
}

/* A group's ticket as it stands in held. */
static bool
find_held(StoreTable *table, QueueInfo *queue, const text *key, HeldRow *held)
{
	StoreTable *job_group = store_open(TABLE_JOB_GROUP);
	Snapshot snapshot = store_snapshot();
	ItemPointerData tid;
	int64 id;
	bool found =
		store_group_find(job_group, snapshot, queue->id, key, &id, &tid) && store_held_find(table, snapshot, id, held);

	store_snapshot_done(snapshot);
	store_close(job_group);
	return found;
}

/* Takes a ticket out of held and gives it back at commit. False: somebody else did. Waits for who has it in hand. */
static bool
take_held(StoreTable *table, QueueInfo *queue, const text *key, HeldRow *held)
{
	LineAfter after = {.from_ord = held->from_ord, .lane = LANE_GROUP, .not_before = DT_NOBEGIN};

	if (store_delete(table, &held->tid, true) != TM_Ok)
		return false;
	xact_count(queue, COUNT_GROUPS_HELD, -1);
	line_let_go(queue, key, held->group_id, &after);
	return true;
}

bool
turn_unblock(QueueInfo *queue, const text *key, int64 dead_job, HeldRow *held)
{
	StoreTable *table;
	bool taken;

	if (line_unblock(queue, key, dead_job, held))
		return true;
	table = store_open(TABLE_HELD);
	taken = find_held(table, queue, key, held) && held->blocked && (dead_job == 0 || held->dead_job == dead_job) &&
			take_held(table, queue, key, held);
	store_close(table);
	if (taken)
		event_group(queue, EVENT_GROUP_UNBLOCKED, key, held->dead_job);
	return taken;
}

bool
turn_unpause(QueueInfo *queue, const text *key)
{
	StoreTable *table = store_open(TABLE_HELD);
	HeldRow held;
	bool taken = find_held(table, queue, key, &held) && !held.blocked && take_held(table, queue, key, &held);

	store_close(table);
	return taken;
}

/* Ends a turn whose jobs, up to the given one, were all deleted by hand: the group's ticket is given back at commit. */
void
turn_give_up(QueueInfo *queue, const Ticket *last)
{
	LineAfter after = {.from_ord = last->ord + 1, .lane = last->lane, .not_before = DT_NOBEGIN};
	text *key = key_of_group(last->group_id);

	if (key)
		line_let_go(queue, key, last->group_id, &after);
}

void
turn_end_begin(TurnEnd *e, Retire *retire, QueueInfo *queue, const Lease *lease)
{
	memset(e, 0, sizeof(*e));
	e->retire = retire;
	e->queue = queue;
	e->lease = lease;
	e->after.from_ord = lease->ords[lease->njobs - 1] + 1;
	e->after.lane = lease->lane;
	e->after.not_before = DT_NOBEGIN;
	e->after.drain = lease->drain;
}

/* Takes the group's key from one of its jobs. To be called before the job is given away. */
void
turn_saw(TurnEnd *e, TupleTableSlot *job)
{
	bool isnull;
	Datum datum;

	if (e->key)
		return;
	datum = slot_datum(job, Anum_job_group_key, &isnull);
	if (!isnull)
		e->key = DatumGetTextPCopy(datum);
}

static void
put_back(TurnEnd *e, int p, TupleTableSlot *job, int32 attempt)
{
	LineRow row = {0};

	row.group_id = e->lease->group_id;
	row.ord = e->lease->ords[p];
	row.job_id = e->lease->job_ids[p];
	row.attempt = attempt;
	row.priority = DatumGetInt16(slot_value(job, Anum_job_priority));
	row.job_tid = job->tts_tid;
	row.since = e->retire->now;
	line_put_back(e->queue, e->key, &row);
	retire_waits(job);
}

/* The running job of the turn has failed. As retire_fail, and FAIL_BLOCKED where the group waits for its dead job. */
FailResult
turn_fail(TurnEnd *e, int p, TupleTableSlot *job, const Attempt *attempt, const text *error, const char *reason,
		  int64 retry_in, bool retry)
{
	TimestampTz hold = DT_NOBEGIN;
	FailResult result;

	turn_saw(e, job);
	result = retire_fail(e->retire, e->queue, job, attempt, error, reason, retry_in, retry,
						 e->queue->pass_on_retry ? NULL : &hold);
	if (result == FAIL_RETRY && !e->queue->pass_on_retry)
	{
		put_back(e, p, job, attempt->attempt);
		e->after.not_before = hold;
	}
	else if (result == FAIL_DEAD && !e->queue->skip_on_dead)
	{
		e->after.dead_job = e->lease->job_ids[p];
		e->after.dead_ord = e->lease->ords[p];
		return FAIL_BLOCKED;
	}
	return result;
}

/* A job of the turn that was not touched goes back to its place, no attempt counted; or ends, when it was asked to. not_before: the group waits until then. */
void
turn_return(TurnEnd *e, int p, TupleTableSlot *job, const Attempt *attempt, TimestampTz not_before)
{
	turn_saw(e, job);
	if (e->lease->cancel & (UINT64CONST(1) << p))
	{
		Attempt untouched = *attempt;

		untouched.attempt--;
		(void) retire_finish(e->retire, e->queue, job, 'x', &untouched);
		return;
	}
	put_back(e, p, job, attempt->attempt - 1);
	event_job(e->queue, EVENT_WAITING, job, attempt->attempt - 1,
			  not_before > e->retire->now ? not_before - e->retire->now : EVENT_NO_DELAY, NULL);
	e->after.not_before = Max(e->after.not_before, not_before);
}

/* The turn is over: the group's ticket, which the lease was, is given back at commit. */
void
turn_over(TurnEnd *e)
{
	/* a turn without a token was no lease */
	if (e->lease->token != 0)
		xact_count(e->queue, COUNT_GROUPS_LEASED, -1);
	if (e->lease->token != 0 && e->lease->drain)
		xact_count(e->queue, COUNT_GROUPS_MIGRATING, -1);
	if (e->key == NULL)
		e->key = key_of_group(e->lease->group_id); /* all its jobs were deleted by hand */
	if (e->key)
		line_let_go(e->queue, e->key, e->lease->group_id, &e->after);
}
