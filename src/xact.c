/*-------------------------------------------------------------------------
 *
 * xact.c
 *		The one transaction callback: applies to shared memory what the
 *		verbs of a transaction noted, once its end is visible.
 *
 * Everything noted carries the subtransaction it belongs to. Entries of a
 * subtransaction stand at the end of their list, so its end touches only
 * them. After a commit or an abort nothing here allocates or can fail.
 *
 * Why at the end: a counter, a cursor or a wake-up that ran ahead of the
 * commit would tell of rows nobody can see yet.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "alert.h"
#include "cursor.h"
#include "flush.h"
#include "pending.h"
#include "wake.h"
#include "times.h"
#include "xact.h"

/* Changes of one queue. */
typedef struct PendingQueue
{
	SubTransactionId subid;
	QueueSlot *slot; /* NULL: the queue has none */
	int32 queue_id;
	bool enqueued;
	bool committing; /* counted in slot->committing */
	bool dropping;   /* raised slot->dropping */
	bool dropped;    /* its row is deleted */
	bool notify;
	int32 alert_dead; /* 0: no alarm */
	int64 alert_interval;
	int made;        /* tickets made ready */
	int reserved;    /* of slot->reserved */
	TimestampTz due; /* earliest delayed ticket made */
	int64 counts[NUM_COUNTERS];
	PendingTimes times[NUM_TIMES];
} PendingQueue;

/* Sequence numbers of one lane and priority: made (announced at commit) or taken (announced at abort). */
typedef struct PendingRange
{
	SubTransactionId subid;
	QueueSlot *slot;
	int32 queue_id;
	int16 lane;
	int16 priority;
	bool took;
	int n;
	int64 lo;
	int64 hi;
} PendingRange;

/* A job claimed (token 0) or completed. */
typedef struct PendingJob
{
	SubTransactionId subid;
	int32 queue_id;
	int64 job_id;
	int64 token;
} PendingJob;

static PendingList queues = {NULL, sizeof(PendingQueue), 0, 0};
static PendingList ranges = {NULL, sizeof(PendingRange), 0, 0};
static PendingList jobs = {NULL, sizeof(PendingJob), 0, 0};

#define QUEUE(i) (&((PendingQueue *) queues.items)[i])
#define RANGE(i) (&((PendingRange *) ranges.items)[i])
#define JOB(i) (&((PendingJob *) jobs.items)[i])

/* How far back a list is searched for an entry to add to, and the gap that two ranges may have to be one. */
#define SEARCH_BACK 8
#define RANGE_GAP 1024

XactPrecommit xact_precommit_jobs = NULL;
XactPrecommit xact_precommit = NULL;
static bool active = false; /* this transaction owes something */
static DbSlot *db = NULL;
static TimestampTz lease_until =
	DT_NOEND; /* earliest lease made; not undone by subtransactions: too early is harmless */
static bool dequeued = false;
static Oid register_ext = InvalidOid;

static void
forget_all(void)
{
	list_empty(&queues);
	list_empty(&ranges);
	list_empty(&jobs);
	active = false;
	lease_until = DT_NOEND;
	dequeued = false;
	register_ext = InvalidOid;
}

/* The entry of this subtransaction for a queue, made when there is none. */
static PendingQueue *
pending_queue(QueueInfo *queue)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	PendingQueue *p;

	for (int i = queues.n - 1; i >= 0 && i >= queues.n - SEARCH_BACK; i--)
	{
		p = QUEUE(i);
		if (p->queue_id == queue->id && p->subid == subid)
			return p;
	}
	p = list_add(&queues);
	p->subid = subid;
	p->slot = queue->slot;
	p->queue_id = queue->id;
	p->notify = queue->notify;
	p->alert_dead = queue->alert_dead;
	p->alert_interval = queue->alert_dead_interval;
	p->due = DT_NOEND;
	return p;
}

static void
pending_range(QueueInfo *queue, int lane, int priority, bool took, int64 lo, int64 hi, int n)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	PendingRange *p;

	if (queue->slot == NULL)
		return;
	for (int i = ranges.n - 1; i >= 0 && i >= ranges.n - SEARCH_BACK; i--)
	{
		p = RANGE(i);
		if (p->slot == queue->slot && p->lane == lane && p->priority == priority && p->took == took &&
			p->subid == subid && lo <= p->hi + RANGE_GAP && hi >= p->lo - RANGE_GAP)
		{
			p->lo = Min(p->lo, lo);
			p->hi = Max(p->hi, hi);
			p->n += n;
			return;
		}
	}
	p = list_add(&ranges);
	p->subid = subid;
	p->slot = queue->slot;
	p->queue_id = queue->id;
	p->lane = lane;
	p->priority = priority;
	p->took = took;
	p->lo = lo;
	p->hi = hi;
	p->n = n;
}

/* Opens a verb. What WAL was written since the last one is somebody else's. */
void
xact_verb_begin(DbSlot *verb_db)
{
	flush_verb_begin(!active);
	active = true;
	db = verb_db;
}

/*
 * Closes a verb. may_be_lost: a crash may undo it without harm (a first attempt's dequeue, an extend), so its transaction need not wait
 * for the disk if it does nothing else.
 */
void
xact_verb_end(bool may_be_lost)
{
	flush_verb_end(may_be_lost);
	CommandCounterIncrement();
}

/* Notes a change of a counter, applied at commit. */
void
xact_count(QueueInfo *queue, JobqCounter counter, int64 delta)
{
	PendingQueue *p = pending_queue(queue);

	p->counts[counter] += delta;
	if (counter == TOTAL_ENQUEUED)
		p->enqueued = true;
}

/* Notes a change of what this transaction holds of slot->reserved. */
void
xact_reserved(QueueInfo *queue, int n)
{
	pending_queue(queue)->reserved += n;
}

/* How many jobs of a queue this transaction makes active, less those it ends; *reserved: what it holds of slot->reserved. */
int64
xact_active(QueueInfo *queue, int64 *reserved)
{
	int64 active = 0;

	*reserved = 0;
	for (int i = 0; i < queues.n; i++)
	{
		if (QUEUE(i)->queue_id != queue->id)
			continue;
		active += QUEUE(i)->counts[COUNT_ACTIVE];
		*reserved += QUEUE(i)->reserved;
	}
	return active;
}

/* Notes how long something took, put into a histogram at commit. */
void
xact_time(QueueInfo *queue, JobqTime what, int64 usecs)
{
	times_add(&pending_queue(queue)->times[what], usecs);
}

/* Notes n tickets made ready, their sequence numbers within lo..hi. */
void
xact_made_ready(QueueInfo *queue, int lane, int priority, int64 lo, int64 hi, int n)
{
	PendingQueue *p = pending_queue(queue);

	p->made = p->made > PG_INT32_MAX - n ? PG_INT32_MAX : p->made + n;
	p->counts[COUNT_GROUPS_READY] += lane >= LANE_GROUP ? n : 0;
	pending_range(queue, lane, priority, false, lo, hi, n);
}

/* Wakes everybody who waits on the queue, at commit: it was resumed, or its settings changed. */
void
xact_wake_all(QueueInfo *queue)
{
	pending_queue(queue)->made = PG_INT32_MAX;
}

/* Makes room for the next note, so that it cannot fail for want of memory after the ticket is gone. */
void
xact_reserve(void)
{
	list_reserve(&ranges);
	list_reserve(&queues);
	list_reserve(&jobs);
}

/* Notes a ticket deleted from ready: an abort gives it back. */
void
xact_took_ready(QueueInfo *queue, int lane, int priority, int64 seq)
{
	pending_range(queue, lane, priority, true, seq, seq, 1);
	if (lane >= LANE_GROUP)
		xact_count(queue, COUNT_GROUPS_READY, -1);
}

/* Notes a job given to a worker (or taken to count its rollbacks): a commit forgets its rollbacks, an abort counts one more. */
void
xact_claimed(QueueInfo *queue, int64 job_id)
{
	PendingJob *p = list_add(&jobs);

	p->subid = GetCurrentSubTransactionId();
	p->queue_id = queue->id;
	p->job_id = job_id;
	dequeued = true;
}

void
xact_made_delayed(QueueInfo *queue, TimestampTz visible_at)
{
	PendingQueue *p = pending_queue(queue);

	p->due = Min(p->due, visible_at);
}

void
xact_made_lease(TimestampTz until)
{
	lease_until = Min(lease_until, until);
}

/* Notes that (job, token) is completed, for a caller who will have lost the answer. */
void
xact_done(QueueInfo *queue, int64 job_id, int64 token)
{
	PendingJob *p = list_add(&jobs);

	p->subid = GetCurrentSubTransactionId();
	p->queue_id = queue->id;
	p->job_id = job_id;
	p->token = token;
}

/* Whether this transaction itself completed the job with this token. */
bool
xact_done_here(int64 job_id, int64 token)
{
	for (int i = jobs.n - 1; i >= 0; i--)
		if (JOB(i)->job_id == job_id && JOB(i)->token == token && token != 0)
			return true;
	return false;
}

/* Notes that a queue is dropped; its slot is freed at commit. */
void
xact_dropped_queue(QueueInfo *queue)
{
	pending_queue(queue)->dropped = true;
}

/* Has the launcher start this database's scheduler at commit. */
void
xact_register_database(Oid ext_oid)
{
	active = true;
	register_ext = ext_oid;
	db = shmem_db(MyDatabaseId, ext_oid);
}

/* Applies one queue's changes; seen: the last recount's snapshot shows them. True: its scheduler has something to do. */
static bool
apply_queue(PendingQueue *p, bool seen)
{
	QueueSlot *slot = p->slot;
	bool wake_scheduler = false;
	bool wake_all = false;

	if (slot == NULL)
		return false;
	SpinLockAcquire(&slot->mutex);
	if (slot->queue_id == p->queue_id && slot->db_oid == MyDatabaseId)
	{
		/* what the recount that made these counts has seen is in them */
		bool counted = seen && slot->counted_by == db->recount_id;

		for (int i = counted ? NUM_GAUGES : 0; i < NUM_COUNTERS; i++)
			slot->counts[i] += p->counts[i];
		for (int i = 0; i < NUM_TIMES; i++)
			times_apply(&slot->times[i], &p->times[i]);
		slot->reserved -= p->reserved;
		p->reserved = 0;
		if (db->recounting && !seen)
			for (int i = 0; i < NUM_GAUGES; i++)
				slot->recount[i] += p->counts[i];
		if (p->due < slot->delayed_low)
			slot->delayed_low = p->due;
		if (p->due < slot->next_due)
		{
			slot->next_due = p->due;
			wake_scheduler = wake_all = true;
		}
		else if (TIMESTAMP_IS_NOBEGIN(slot->next_due) && !TIMESTAMP_IS_NOEND(p->due))
			wake_scheduler = true; /* not known: the scheduler has not looked yet */
		if (p->notify && p->made > 0 && !slot->notify_pending)
			slot->notify_pending = wake_scheduler = true;
		if (p->alert_dead > 0 && alert_check(slot, p->alert_dead, p->alert_interval, p->counts[TOTAL_DEAD],
											 GetCurrentTransactionStopTimestamp()))
			db->alarms = wake_scheduler = true;
	}
	SpinLockRelease(&slot->mutex);
	/* sleepers wait until their queue's next due time: it has moved */
	if (wake_all && pg_atomic_read_u32(&slot->waiters) > 0)
		ConditionVariableBroadcast(&slot->wake);
	return wake_scheduler;
}

static void
announce_range(PendingRange *p)
{
	QueueSlot *slot = p->slot;

	if (slot->queue_id == p->queue_id && slot->db_oid == MyDatabaseId)
	{
		cursor_announce(slot, p->lane, p->priority, p->lo, p->hi);
		if (p->took)
			wake_waiters(db, slot, p->n);
	}
}

/* Applies the counters and due times; true when the scheduler must look. */
static bool
apply_queues(FullTransactionId xid)
{
	bool wake = false;
	bool seen;

	/* shared: appliers do not disturb each other, only a recount's two ends do */
	LWLockAcquire(&db->count_lock, LW_SHARED);
	seen = shmem_recount_sees(db, xid);
	for (int i = 0; i < queues.n; i++)
		wake |= apply_queue(QUEUE(i), seen);
	LWLockRelease(&db->count_lock);

	SpinLockAcquire(&db->mutex);
	if (queues.n > 0 || ranges.n > 0)
		db->activity++;
	if (lease_until < db->lease_low)
		db->lease_low = lease_until;
	if (lease_until < db->next_lease)
	{
		db->next_lease = lease_until;
		wake = true;
	}
	else if (TIMESTAMP_IS_NOBEGIN(db->next_lease) && !TIMESTAMP_IS_NOEND(lease_until))
		wake = true; /* not known: the scheduler has not looked yet */
	SpinLockRelease(&db->mutex);
	return wake;
}

static void
at_commit(void)
{
	bool wake;

	for (int i = 0; i < queues.n; i++)
		if (QUEUE(i)->dropped)
			shmem_queue_free(MyDatabaseId, QUEUE(i)->queue_id);
	wake = apply_queues(GetTopFullTransactionIdIfAny());
	/* before the tickets are announced: a claim that still passes over one because of its rollbacks is told of it afterwards */
	for (int i = 0; i < jobs.n; i++)
	{
		if (JOB(i)->token != 0)
			shmem_done_remember(MyDatabaseId, JOB(i)->queue_id, JOB(i)->job_id, JOB(i)->token);
		else if (pg_atomic_read_u32(&jobq_shared->nrollbacks) > 0)
			shmem_rollback_clear(MyDatabaseId, JOB(i)->job_id, PG_INT32_MAX);
	}
	for (int i = 0; i < ranges.n; i++)
		if (!RANGE(i)->took)
			announce_range(RANGE(i));
	for (int i = 0; i < queues.n; i++)
		if (QUEUE(i)->slot && QUEUE(i)->slot->limited && QUEUE(i)->counts[COUNT_ACTIVE] < 0)
			wake_limited(db, QUEUE(i)->slot, -QUEUE(i)->counts[COUNT_ACTIVE]);
	for (int i = 0; i < queues.n; i++)
		if (QUEUE(i)->made > 0 && QUEUE(i)->slot)
			wake_waiters(db, QUEUE(i)->slot, QUEUE(i)->made);
	if (OidIsValid(register_ext))
	{
		/* what kept earlier schedulers from running is over */
		SpinLockAcquire(&db->mutex);
		db->failures = 0;
		SpinLockRelease(&db->mutex);
	}
	if (wake || OidIsValid(register_ext))
		shmem_wake_scheduler(db);
}

/* Gives back what the entries from these positions on took. */
static void
at_abort(int first_range, int first_job)
{
	for (int i = first_range; i < ranges.n; i++)
		if (RANGE(i)->took)
			announce_range(RANGE(i));
	for (int i = first_job; i < jobs.n; i++)
		if (JOB(i)->token == 0)
			shmem_rollback_add(MyDatabaseId, JOB(i)->queue_id, JOB(i)->job_id, db);
}

/* Whether this transaction itself dropped the queue, with all that it had enqueued to it; queue_id 0: any queue. */
static bool
dropped_here(int32 queue_id)
{
	for (int i = 0; i < queues.n; i++)
		if (QUEUE(i)->dropped && (queue_id == 0 || QUEUE(i)->queue_id == queue_id))
			return true;
	return false;
}

/* Counts this transaction in among those that commit jobs into the queue. False: a drop of it is under way, or over. */
static bool
hold_off_drop(PendingQueue *p)
{
	QueueSlot *slot = p->slot;

	if (slot == NULL)
		return false;
	pg_atomic_fetch_add_u32(&slot->committing,
							1); /* a full barrier: the looks below come after it, as the drop's look at it does */
	p->committing = true;
	return slot->queue_id == p->queue_id && slot->db_oid == MyDatabaseId && pg_atomic_read_u32(&slot->dropping) == 0;
}

/* Is no longer among the committing, from the given entry on. */
static void
leave_counts(int first)
{
	for (int i = first; i < queues.n; i++)
	{
		if (QUEUE(i)->committing)
			pg_atomic_fetch_sub_u32(&QUEUE(i)->slot->committing, 1);
		QUEUE(i)->committing = false;
	}
}

/* What was reserved and not taken, or taken and rolled back. */
static void
limit_given_back(PendingQueue *p)
{
	QueueSlot *slot = p->slot;

	SpinLockAcquire(&slot->mutex);
	if (slot->queue_id == p->queue_id && slot->db_oid == MyDatabaseId)
		slot->reserved -= p->reserved;
	SpinLockRelease(&slot->mutex);
	wake_limited(db, slot, p->reserved);
	p->reserved = 0;
}

/* Takes back what this transaction raised in the slots, from the given entry on. */
static void
leave_slots(int first)
{
	leave_counts(first);
	for (int i = first; i < queues.n; i++)
	{
		PendingQueue *p = QUEUE(i);

		if (p->dropping && p->slot->queue_id == p->queue_id && p->slot->db_oid == MyDatabaseId)
			pg_atomic_write_u32(&p->slot->dropping, 0);
		p->dropping = false;
		if (p->reserved != 0)
			limit_given_back(p);
	}
}

/*
 * Starts the drop of a queue: waits for commits that bring jobs into it, and holds off later ones until this transaction ends; they then
 * find that the queue is gone.
 */
void
xact_begin_drop(QueueInfo *queue)
{
	PendingQueue *p = pending_queue(queue);

	xact_lock_queue(queue->id, ExclusiveLock);
	if (p->slot == NULL)
		return;
	p->dropping = true;
	pg_atomic_write_u32(&p->slot->dropping, 1);
	pg_memory_barrier();
	while (pg_atomic_read_u32(&p->slot->committing) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000); /* a commit's length; there is nothing to be woken by */
	}
}

/* Waits for drops under way and holds off later ones, for all queues that this transaction enqueued to, in the order of their ids. */
static void
lock_enqueued(void)
{
	List *ids = NIL;
	ListCell *lc;

	for (int i = 0; i < queues.n; i++)
		if (QUEUE(i)->enqueued)
			ids = lappend_oid(ids, (Oid) QUEUE(i)->queue_id);
	list_sort(ids, list_oid_cmp);
	list_deduplicate_oid(ids);
	foreach (lc, ids)
		xact_lock_queue((int32) lfirst_oid(lc), ShareLock);
	list_free(ids);
}

/*
 * Last checks before a commit; may fail. A job enqueued beside the drop of its queue would be an orphan: usually one atomic increment
 * per queue holds the drop off until this transaction has ended. Where a drop is under way, the locks are waited for instead, and
 * nothing is counted meanwhile: a drop that waits for our count would be a deadlock that nobody sees.
 */
static void
before_commit(bool prepare)
{
	bool held = !prepare; /* a prepared transaction keeps locks, but no counts */

	for (int i = 0; i < queues.n && held; i++)
		held = !QUEUE(i)->enqueued || hold_off_drop(QUEUE(i));
	if (!held)
	{
		leave_counts(0);
		lock_enqueued();
	}
	for (int i = 0; i < queues.n; i++)
	{
		if (!QUEUE(i)->enqueued)
			continue;
		AcceptInvalidationMessages();
		if (meta_queue_by_id(QUEUE(i)->queue_id) == NULL && !dropped_here(QUEUE(i)->queue_id))
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
							errmsg("a queue that this transaction enqueued to was dropped")));
	}
}

/* A drop is waited for while no stripe is held, and nobody waits for what depend.c counts: who drops may do both. */
static void
precommit(bool prepare)
{
	before_commit(prepare);
	xact_precommit_jobs(prepare);
	xact_precommit(prepare);
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (!active)
	{
		/* nothing is owed, and from here on nothing can be */
		if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
			precommit(event == XACT_EVENT_PRE_PREPARE);
		return;
	}
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			precommit(false);
			flush_choose();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (dequeued)
				ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
								errmsg("cannot PREPARE a transaction that has taken jobs"),
								errhint("Commit the dequeue in a transaction of its own.")));
			/* dropping would be lowered before the drop is decided, and an enqueue slip in */
			if (dropped_here(0))
				ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
								errmsg("cannot PREPARE a transaction that has dropped a queue")));
			precommit(true);
			break;
		case XACT_EVENT_PREPARE:
			/* no callback tells of COMMIT PREPARED: the scheduler recounts and rescans when no prepared transaction is left */
			SpinLockAcquire(&db->mutex);
			db->prepared = true;
			db->activity++;
			SpinLockRelease(&db->mutex);
			shmem_wake_scheduler(db);
			leave_slots(0);
			forget_all();
			break;
		case XACT_EVENT_COMMIT:
			flush_restore();
			at_commit();
			leave_slots(0);
			forget_all();
			break;
		case XACT_EVENT_ABORT:
			flush_restore();
			if (db)
				at_abort(0, 0);
			leave_slots(0);
			forget_all();
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int q = queues.n;
	int r = ranges.n;
	int j = jobs.n;

	if (!active || (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB))
		return;
	while (q > 0 && QUEUE(q - 1)->subid == subid)
		QUEUE(--q)->subid = parent;
	while (r > 0 && RANGE(r - 1)->subid == subid)
		RANGE(--r)->subid = parent;
	while (j > 0 && JOB(j - 1)->subid == subid)
		JOB(--j)->subid = parent;
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		at_abort(r, j);
		leave_slots(q);
		queues.n = q;
		ranges.n = r;
		jobs.n = j;
	}
}

/* Registers the callbacks. Called once, from _PG_init. */
void
xact_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
