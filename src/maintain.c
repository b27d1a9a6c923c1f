/*-------------------------------------------------------------------------
 *
 * maintain.c
 *		Runs the scheduler's steps: one transaction helper pair, errors
 *		caught per step, items that cannot be handled passed over.
 *
 * An item (a job, a lease) whose handling fails is remembered here and
 * passed over for a while, so that it holds up neither the items behind it
 * nor the other steps. What a group is owed at commit fails for the whole
 * transaction: the step then takes one item at a time, to find which it is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "guc.h"
#include "maintain.h"
#include "meta.h"
#include "spi.h"
#include "timeutil.h"
#include "worker.h"
#include "xact.h"

#define MAX_SKIPPED 10000
#define SKIP_FIRST (10 * USECS_PER_SEC)
#define SKIP_WAITED (2 * USECS_PER_SEC) /* after a lock that was not to be had; SKIP_FIRST at most */
#define SKIP_LONGEST (10 * 60 * USECS_PER_SEC)
#define FAILURE_LONGEST (60 * USECS_PER_SEC)
#define ALONE_RUNS 100
#define NOTIFY_GAP (50 * 1000)

typedef struct SkippedItem
{
	int64 id; /* hash key: a job's id or a token; tokens are far above ids */
	TimestampTz until;
	int64 pause;
} SkippedItem;

typedef struct StepState
{
	int failures;
	int alone; /* so many runs more take one item each */
	TimestampTz not_before;
} StepState;

static TimestampTz notify_due(Maintain *m);
static void notify_run(Maintain *m);
static void notify_undo(Maintain *m);

static const MaintainStep steps[] = {
	{"promote due jobs", promote_due, promote_run, promote_undo},
	{"fire schedules", schedule_due, schedule_run, schedule_undo},
	{"end expired leases", expire_due, expire_run, expire_undo},
	{"end what has expired", ttl_due, ttl_run, ttl_undo},
	{"take over from ended sessions", take_over_due, take_over_run, take_over_undo},
	{"hand groups over", drain_due, drain_run, drain_undo},
	{"count rolled back claims", rolled_back_due, rolled_back_run, rolled_back_undo},
	{"start executors", manager_due, manager_run, manager_undo},
	{"notify listeners", notify_due, notify_run, notify_undo},
	{"let go of jobs", sweep_due, sweep_run, sweep_undo},
	{"raise alarms", alarms_due, alarms_run, alarms_undo},
	{"send events", events_due, events_run, events_undo},
	{"recount", recount_due, recount_run, recount_undo},
	{"rescan", rescan_due, rescan_run, NULL},
	{"trim history", trim_due, trim_run, NULL},
	{"collect once records", once_due, once_run, collect_undo},
	{"collect unique keys", windows_due, windows_run, collect_undo},
};

static StepState states[lengthof(steps)];
static int running = -1;
static int64 working_on = 0;
static HTAB *skipped = NULL;
static TimestampTz last_now = 0;
static TimestampTz last_notify = DT_NOBEGIN;
static List *notified = NIL; /* slots whose flag the running notify step has taken */

/*
 * Starts a transaction, holds the extension in it and opens our bracket. False: there is no transaction; m says whether to leave or
 * to wait. Results that outlive the transaction are allocated in m->cycle.
 */
bool
maintain_begin(Maintain *m)
{
	WorkerHold hold;

	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, m->step);
	StartTransactionCommand();

	hold = worker_hold_extension(m->ext_oid);
	m->blocked = hold == WORKER_BLOCKED;
	if (hold == WORKER_GONE)
		m->leave = LEAVE_GONE;
	else if (hold == WORKER_NOT_ADOPTED)
		m->leave = LEAVE_NOT_ADOPTED;
	if (m->blocked || m->leave != LEAVE_NOT)
	{
		AbortCurrentTransaction();
		MemoryContextSwitchTo(m->cycle);
		return false;
	}
	PushActiveSnapshot(GetTransactionSnapshot());
	m->db = meta_begin("maintenance", VERB_WRITES);
	xact_verb_begin(m->db);
	m->begun = true;
	return true;
}

/* Commits what maintain_begin started. The caller is in m->cycle afterwards. */
void
maintain_end(Maintain *m)
{
	xact_verb_end(false);
	PopActiveSnapshot();
	CommitTransactionCommand();
	(void) pgstat_report_stat(false);
	MemoryContextSwitchTo(m->cycle);
}

/* Whether a slot belongs to this database's installation. */
bool
maintain_slot_is_ours(Maintain *m, QueueSlot *slot)
{
	return slot->db_oid == MyDatabaseId && slot->ext_oid == m->ext_oid;
}

/* Names the item in hand, so that it is passed over if handling it fails. 0: none. */
void
maintain_working_on(int64 id)
{
	working_on = id;
}

/* Whether an item is to be passed over; until when. */
bool
maintain_is_skipped(int64 id, TimestampTz *until)
{
	SkippedItem *item;

	if (skipped == NULL || hash_get_num_entries(skipped) == 0)
		return false;
	item = hash_search(skipped, &id, HASH_FIND, NULL);
	if (item == NULL || item->until <= clock_now())
		return false;
	*until = item->until;
	return true;
}

/* Forgets items that have not been met again for long. */
static void
forget_skipped(TimestampTz now)
{
	HASH_SEQ_STATUS seq;
	SkippedItem *item;

	hash_seq_init(&seq, skipped);
	while ((item = hash_seq_search(&seq)) != NULL)
		if (item->until < now - SKIP_LONGEST)
			(void) hash_search(skipped, &item->id, HASH_REMOVE, NULL);
}

/*
 * How many items a step that takes many in one transaction may take. When it is one, the step names it (maintain_working_on) before
 * maintain_end, too.
 */
int
maintain_batch(int usual)
{
	return states[running].alone > 0 ? 1 : usual;
}

/* Remembers an item that cannot be handled; waited: for a lock, in vain. False: there are too many. */
static bool
skip_item(int64 id, bool waited)
{
	TimestampTz now = clock_now();
	SkippedItem *item;
	bool found;

	if (skipped == NULL)
	{
		HASHCTL info;

		memset(&info, 0, sizeof(info));
		info.keysize = sizeof(int64);
		info.entrysize = sizeof(SkippedItem);
		info.hcxt = TopMemoryContext;
		skipped = hash_create("jobq skipped items", 64, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	if (hash_get_num_entries(skipped) >= MAX_SKIPPED)
		forget_skipped(now);
	if (hash_get_num_entries(skipped) >= MAX_SKIPPED)
		return false;
	item = hash_search(skipped, &id, HASH_ENTER, &found);
	item->pause = found ? item->pause * 2 : SKIP_WAITED;
	item->pause = waited ? Min(item->pause, SKIP_FIRST) : Min(Max(item->pause, SKIP_FIRST), SKIP_LONGEST);
	item->until = now + item->pause;
	return true;
}

/* Ends a step that raised an error: reports it, undoes it, and decides when to try again. */
static void
step_failed(Maintain *m, int i)
{
	StepState *state = &states[i];
	bool waited = geterrcode() == ERRCODE_LOCK_NOT_AVAILABLE;

	HOLD_INTERRUPTS();
	EmitErrorReport();
	AbortOutOfAnyTransaction();
	FlushErrorState();
	if (steps[i].undo)
		steps[i].undo(m);
	if (working_on == 0 && m->begun && state->alone == 0)
		state->alone = ALONE_RUNS;
	else if (working_on == 0 || !skip_item(working_on, waited))
	{
		state->failures = Min(state->failures + 1, 16);
		state->not_before = clock_now() + Min((USECS_PER_SEC / 2) << state->failures, FAILURE_LONGEST);
	}
	/* not even started: what is wrong is wrong for every step */
	if (!m->begun && m->leave == LEAVE_NOT)
		m->leave = LEAVE_FAILED;
	RESUME_INTERRUPTS();
	MemoryContextSwitchTo(m->cycle);
}

static void
step_context(void *arg)
{
	errcontext("jobq maintenance: %s", ((Maintain *) arg)->step);
}

static void
run_step(Maintain *m, int i)
{
	ErrorContextCallback context;

	MemoryContextReset(m->cycle);
	MemoryContextSwitchTo(m->cycle);
	m->step = steps[i].name;
	m->begun = false;
	working_on = 0;
	running = i;
	context.callback = step_context;
	context.arg = m;
	context.previous = error_context_stack;
	error_context_stack = &context;
	PG_TRY();
	{
		steps[i].run(m);
		states[i].failures = 0;
		states[i].alone = Max(states[i].alone - 1, 0);
	}
	PG_CATCH();
	{
		error_context_stack = context.previous;
		step_failed(m, i);
	}
	PG_END_TRY();
	error_context_stack = context.previous;
	running = -1;
}

/* When the clock was set back, times to come that were reckoned from it are no longer right. */
static void
watch_clock(Maintain *m)
{
	TimestampTz now = clock_now();
	HASH_SEQ_STATUS seq;
	SkippedItem *item;

	if (now >= last_now - USECS_PER_SEC)
	{
		last_now = now;
		return;
	}
	last_now = now;
	last_notify = DT_NOBEGIN;
	for (int i = 0; i < lengthof(steps); i++)
		states[i].not_before = DT_NOBEGIN;
	if (skipped)
	{
		hash_seq_init(&seq, skipped);
		while ((item = hash_seq_search(&seq)) != NULL)
			item->until = now;
	}
	for (int i = 0; i < jobq_max_queues; i++)
	{
		SpinLockAcquire(&jobq_queues[i].mutex);
		if (maintain_slot_is_ours(m, &jobq_queues[i]))
			jobq_queues[i].next_due = DT_NOBEGIN;
		SpinLockRelease(&jobq_queues[i].mutex);
	}
	SpinLockAcquire(&m->db->mutex);
	m->db->next_lease = DT_NOBEGIN;
	m->db->next_expiry = DT_NOBEGIN;
	m->db->next_schedule = DT_NOBEGIN;
	m->db->next_rescan = DT_NOBEGIN;
	SpinLockRelease(&m->db->mutex);
	trim_soon();
}

static TimestampTz
step_due(Maintain *m, int i)
{
	TimestampTz due = steps[i].due(m);

	return TIMESTAMP_IS_NOEND(due) ? due : Max(due, states[i].not_before);
}

/* When the next step is due. */
TimestampTz
maintain_next(Maintain *m)
{
	TimestampTz next = DT_NOEND;

	for (int i = 0; i < lengthof(steps); i++)
	{
		TimestampTz due = step_due(m, i);

		next = Min(next, due);
	}
	return next;
}

/*
 * Runs every step that is due, once. Returns when the next one is (may lie in the past). *ran: something was done that keeps the
 * scheduler from going idle; tidying history does not.
 */
TimestampTz
maintain_run_due(Maintain *m, bool *ran)
{
	*ran = false;
	watch_clock(m);
	for (int i = 0; i < lengthof(steps); i++)
	{
		if (step_due(m, i) > clock_now())
			continue;
		CHECK_FOR_INTERRUPTS();
		run_step(m, i);
		if (m->leave != LEAVE_NOT || m->blocked)
			return DT_NOBEGIN;
		*ran |= steps[i].run != trim_run;
	}
	return maintain_next(m);
}

/* The same undoing for a process that ends in the middle of a step. Must not fail. */
void
maintain_undo(Maintain *m)
{
	if (running >= 0 && steps[running].undo)
		steps[running].undo(m);
	running = -1;
}

/* Ids of all queues, in m->cycle; returns their number. Inside a transaction of ours. */
int
maintain_queue_ids(Maintain *m, int32 **ids)
{
	static SpiStatement statement = {.sql = "SELECT id FROM jobq.queue ORDER BY id", .result = SPI_OK_SELECT};
	SpiScope scope;
	int n;

	spi_begin(&scope);
	n = (int) spi_run(&statement, NULL, NULL);
	*ids = MemoryContextAlloc(m->cycle, Max(n, 1) * sizeof(int32));
	for (int i = 0; i < n; i++)
	{
		bool isnull;

		(*ids)[i] = DatumGetInt32(spi_value(i, 1, &isnull));
	}
	spi_end(&scope);
	return n;
}

/* NOTIFY is sent from here, so that no producer's commit takes the lock of the notification queue. */
static TimestampTz
notify_due(Maintain *m)
{
	for (int i = 0; i < jobq_max_queues; i++)
		if (jobq_queues[i].notify_pending && maintain_slot_is_ours(m, &jobq_queues[i]))
			return TIMESTAMP_IS_NOBEGIN(last_notify) ? last_notify : last_notify + NOTIFY_GAP;
	return DT_NOEND;
}

/* Channel of a queue: cut like any identifier, as the server cuts it in LISTEN. */
static char *
channel_name(const char *queue)
{
	char *name = psprintf("jobq_%s", queue);
	int len = strlen(name);

	if (len >= NAMEDATALEN)
		name[pg_mbcliplen(name, len, NAMEDATALEN - 1)] = '\0';
	return name;
}

static void
notify_run(Maintain *m)
{
	notified = NIL;
	if (!maintain_begin(m))
		return;
	for (int i = 0; i < jobq_max_queues; i++)
	{
		QueueSlot *slot = &jobq_queues[i];
		QueueInfo *queue;
		int32 id;
		bool pending;

		if (!slot->notify_pending || !maintain_slot_is_ours(m, slot))
			continue;
		MemoryContextSwitchTo(m->cycle);
		notified = lappend(notified, slot);
		MemoryContextSwitchTo(CurTransactionContext);
		SpinLockAcquire(&slot->mutex);
		pending = slot->notify_pending;
		id = slot->queue_id;
		slot->notify_pending = false;
		SpinLockRelease(&slot->mutex);
		queue = pending ? meta_queue_by_id(id) : NULL;
		if (queue)
			Async_Notify(channel_name(queue->name), "");
	}
	maintain_end(m);
	notified = NIL;
	last_notify = clock_now();
}

static void
notify_undo(Maintain *m)
{
	ListCell *lc;

	foreach (lc, notified)
	{
		QueueSlot *slot = lfirst(lc);

		SpinLockAcquire(&slot->mutex);
		if (maintain_slot_is_ours(m, slot))
			slot->notify_pending = true;
		SpinLockRelease(&slot->mutex);
	}
	notified = NIL;
}
