/*-------------------------------------------------------------------------
 *
 * depend.c
 *		Jobs that wait for others: what a transaction notes of them.
 *
 * Whether a queue's jobs are watched is told by its slot in shared memory,
 * without a lock. A transaction that ends jobs counts itself in before it
 * looks, and stays so if they are not; who starts to watch them says so
 * first, and then waits until nobody is counted in. So either sees the
 * other. After a start nothing is known: then the table of dependencies
 * tells, which is empty where the feature is not used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "depend.h"
#include "xact.h"

/* Values of QueueSlot.watched, in the order in which they follow each other */
#define WATCHED_UNKNOWN 0
#define WATCHED_NOT 1
#define WATCHED_SAID 2 /* commits in progress may not have heard of it */
#define WATCHED_YES 3

PendingList depend_notes = {NULL, sizeof(DependNote), 0, 0};
DependPrecommit depend_precommit = NULL;

static PendingList counted = {NULL, sizeof(QueueSlot *), 0, 0}; /* slots in whose ending this transaction is counted */
static bool closed = false; /* the commit has begun: what is noted now would not be seen to */
static bool sweep = false;

#define COUNTED(i) (((QueueSlot **) counted.items)[i])

static DependNote *
new_note(DependKind kind, int64 job)
{
	DependNote *note;

	if (closed)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("jobs cannot be ended any more: the transaction is being committed"),
			 errhint(
				 "Put jobq before other libraries in shared_preload_libraries, so that it comes last in a commit.")));
	note = list_add(&depend_notes);
	note->subid = GetCurrentSubTransactionId();
	note->kind = kind;
	note->job = job;
	return note;
}

void
depend_note(DependKind kind, int64 job, int64 other)
{
	new_note(kind, job)->other = other;
}

void
depend_unsure(int64 job, int64 other, int32 queue_id)
{
	DependNote *note = new_note(DEPEND_UNSURE, job);

	note->other = other;
	note->queue_id = queue_id;
}

void
depend_ended(QueueInfo *queue, int64 job, char how)
{
	DependNote *note = new_note(DEPEND_ENDED, job);

	note->queue_id = queue->id;
	note->slot = queue->slot;
	note->how = how;
}

void
depend_moved(QueueInfo *queue, int64 job, QueueInfo *to, int64 goes_on_as)
{
	DependNote *note = new_note(DEPEND_MOVED, job);

	note->queue_id = queue->id;
	note->slot = queue->slot;
	note->how = ENDED_DEAD;
	note->other = goes_on_as;
	note->other_queue = to->id;
}

void
depend_watch(QueueInfo *queue, bool wait)
{
	QueueSlot *slot = queue->slot;
	uint32 watched;

	if (slot == NULL)
		return;
	watched = pg_atomic_read_u32(&slot->watched);
	while (watched < WATCHED_SAID && !pg_atomic_compare_exchange_u32(&slot->watched, &watched, WATCHED_SAID))
		continue;
	if (watched == WATCHED_YES || !wait)
		return;
	/* whoever said it: nobody may have waited yet */
	pg_memory_barrier();
	while (pg_atomic_read_u32(&slot->ending) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000); /* a commit's length; there is nothing to be woken by */
	}
	watched = WATCHED_SAID;
	(void) pg_atomic_compare_exchange_u32(&slot->watched, &watched, WATCHED_YES);
}

/* Finds out what a slot does not know. */
static bool
look_whether_watched(QueueSlot *slot)
{
	StoreTable *dependency = store_open(TABLE_DEPENDENCY);
	uint32 expected = WATCHED_UNKNOWN;
	bool exist = store_dependencies_exist(dependency);

	store_close(dependency);
	if (pg_atomic_compare_exchange_u32(&slot->watched, &expected, exist ? WATCHED_SAID : WATCHED_NOT))
		return exist;
	return expected >= WATCHED_SAID;
}

bool
depend_is_watched(const DependNote *note)
{
	QueueSlot *slot = note->slot;
	uint32 watched;

	/* nothing is known */
	if (slot == NULL)
		return true;
	for (int i = 0; i < counted.n; i++)
		if (COUNTED(i) == slot)
			return false;
	list_reserve(&counted);
	/* a full barrier: the look comes after it */
	pg_atomic_fetch_add_u32(&slot->ending, 1);
	COUNTED(counted.n++) = slot;
	watched = pg_atomic_read_u32(&slot->watched);
	/* the slot may have become another queue's */
	if (slot->queue_id == note->queue_id && slot->db_oid == MyDatabaseId &&
		(watched == WATCHED_NOT || (watched == WATCHED_UNKNOWN && !look_whether_watched(slot))))
		return false;
	counted.n--;
	pg_atomic_fetch_sub_u32(&slot->ending, 1);
	return true;
}

bool
depend_nothing_to_do(void)
{
	int32 queue_id = 0;

	for (int i = 0; i < depend_notes.n; i++)
	{
		DependNote *note = DEPEND_NOTE(i);

		if (note->kind > DEPEND_MOVED)
			return false;
		if (note->queue_id != queue_id && depend_is_watched(note))
			return false;
		queue_id = note->queue_id;
	}
	return true;
}

bool
depend_may_prepare(void)
{
	StoreTable *dependency = store_open(TABLE_DEPENDENCY);
	Snapshot snapshot = store_snapshot();
	bool may = true;

	for (int i = 0; i < depend_notes.n && may; i++)
	{
		StoreScan scan;

		may = DEPEND_NOTE(i)->kind <= DEPEND_MOVED;
		if (!may)
			break;
		store_dependencies_on(&scan, dependency, snapshot, DEPEND_NOTE(i)->job);
		may = !store_scan_next(&scan);
		store_scan_end(&scan);
	}
	store_snapshot_done(snapshot);
	store_close(dependency);
	return may;
}

void
depend_sweep_soon(void)
{
	sweep = true;
}

static void
ask_for_sweep(void)
{
	DbSlot *db = meta_db();

	SpinLockAcquire(&db->mutex);
	db->sweep_at = DT_NOBEGIN;
	SpinLockRelease(&db->mutex);
	shmem_wake_scheduler(db);
}

static void
forget(void)
{
	for (int i = 0; i < counted.n; i++)
		pg_atomic_fetch_sub_u32(&COUNTED(i)->ending, 1);
	list_empty(&counted);
	list_empty(&depend_notes);
	closed = sweep = false;
}

static void
precommit(bool prepare)
{
	if (depend_notes.n > 0)
		depend_precommit(prepare);
	closed = true;
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (sweep)
				ask_for_sweep();
			forget();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			forget();
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int n = depend_notes.n;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	while (n > 0 && DEPEND_NOTE(n - 1)->subid == subid)
		DEPEND_NOTE(--n)->subid = parent;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		depend_notes.n = n;
}

/* Registers the callbacks. Called once, from _PG_init, after those of line.c and xact.c: callbacks run in the reverse order. */
void
depend_init(void)
{
	xact_precommit_jobs = precommit;
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
