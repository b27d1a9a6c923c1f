/*-------------------------------------------------------------------------
 *
 * shmem.c
 *		Layout of shared memory and the allocation of its slots.
 *
 * A slot stays where it is until its queue or database is dropped; holders
 * of a pointer check the key under the slot's lock before they write.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "shmem.h"

typedef struct QueueKey
{
	Oid db_oid;
	int32 queue_id;
} QueueKey;

typedef struct QueueEntry
{
	QueueKey key;
	int32 index;
} QueueEntry;

JobqShared *jobq_shared = NULL;
DbSlot *jobq_dbs = NULL;
QueueSlot *jobq_queues = NULL;
ClaimCursor *jobq_cursors = NULL;
EventRecord *jobq_event_ring = NULL;
pg_atomic_uint64 *jobq_sessions = NULL;
ExecutorSlot *jobq_executors = NULL;

static HTAB *queue_hash = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static Size
shared_size(void)
{
	Size size = MAXALIGN(sizeof(JobqShared));

	size = add_size(size, MAXALIGN(mul_size(jobq_max_databases, sizeof(DbSlot))));
	size = add_size(size, MAXALIGN(mul_size(jobq_max_queues, sizeof(QueueSlot))));
	size = add_size(size, MAXALIGN(mul_size(jobq_event_buffer, sizeof(EventRecord))));
	size = add_size(size, MAXALIGN(mul_size(jobq_max_cursors, sizeof(ClaimCursor))));
	size = add_size(size, MAXALIGN(mul_size(MaxBackends, sizeof(pg_atomic_uint64))));
	size = add_size(size, MAXALIGN(mul_size(jobq_max_executors, sizeof(ExecutorSlot))));
	return size;
}

static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(shared_size());
	RequestAddinShmemSpace(hash_estimate_size(jobq_max_queues, sizeof(QueueEntry)));
	RequestNamedLWLockTranche("jobq", 1);
}

static void
init_shared(char *base)
{
	int tranche = GetNamedLWLockTranche("jobq")->lock.tranche;

	jobq_shared->free_cursor = 0;
	jobq_shared->launcher_latch = NULL;
	memset(jobq_shared->probed, 0, sizeof(jobq_shared->probed));
	jobq_shared->queues_overflowed = false;
	jobq_shared->dbs_overflowed = false;
	LWLockInitialize(&jobq_shared->event_lock, tranche);
	jobq_shared->event_next = 0;
	for (int i = 0; i < jobq_event_buffer; i++)
		jobq_event_ring[i].db_oid = InvalidOid;
	pg_atomic_init_u32(&jobq_shared->job_waiters, 0);
	for (int i = 0; i < JOB_WAIT_SLOTS; i++)
	{
		ConditionVariableInit(&jobq_shared->job_waits[i].wake);
		pg_atomic_init_u32(&jobq_shared->job_waits[i].waiters, 0);
	}
	jobq_shared->running_since = 0;
	LWLockInitialize(&jobq_shared->lock, tranche);
	LWLockInitialize(&jobq_shared->executor_lock, tranche);
	LWLockInitialize(&jobq_shared->limit_lock, tranche);
	SpinLockInit(&jobq_shared->launcher_mutex);
	SpinLockInit(&jobq_shared->cursor_mutex);
	pg_atomic_init_u32(&jobq_shared->slots_freed, 0);
	SpinLockInit(&jobq_shared->rollback_mutex);
	pg_atomic_init_u32(&jobq_shared->nrollbacks, 0);
	memset(jobq_shared->rollbacks, 0, sizeof(jobq_shared->rollbacks));
	memset(jobq_shared->done, 0, sizeof(jobq_shared->done));
	for (int i = 0; i < DONE_LOCKS; i++)
		SpinLockInit(&jobq_shared->done_mutex[i]);
	for (int i = 0; i < jobq_max_databases; i++)
	{
		memset(&jobq_dbs[i], 0, sizeof(DbSlot));
		SpinLockInit(&jobq_dbs[i].mutex);
		LWLockInitialize(&jobq_dbs[i].count_lock, tranche);
	}
	for (int i = 0; i < jobq_max_queues; i++)
	{
		memset(&jobq_queues[i], 0, sizeof(QueueSlot));
		SpinLockInit(&jobq_queues[i].mutex);
		LWLockInitialize(&jobq_queues[i].cursor_lock, tranche);
		ConditionVariableInit(&jobq_queues[i].wake);
		pg_atomic_init_u32(&jobq_queues[i].turn, 0);
		pg_atomic_init_u64(&jobq_queues[i].claims, 0);
		pg_atomic_init_u64(&jobq_queues[i].claim_buffers, 0);
		pg_atomic_init_u32(&jobq_queues[i].waiters, 0);
		pg_atomic_init_u32(&jobq_queues[i].handlers, 0);
		pg_atomic_init_u32(&jobq_queues[i].committing, 0);
		pg_atomic_init_u32(&jobq_queues[i].dropping, 0);
		pg_atomic_init_u32(&jobq_queues[i].watched, 0);
		pg_atomic_init_u32(&jobq_queues[i].ending, 0);
		for (int lane = 0; lane < NUM_LANES; lane++)
			jobq_queues[i].lane_head[lane] = -1;
	}
	for (int i = 0; i < jobq_max_cursors; i++)
		jobq_cursors[i].next = i + 1 < jobq_max_cursors ? i + 1 : -1;
	for (int i = 0; i < MaxBackends; i++)
		pg_atomic_init_u64(&jobq_sessions[i], 0);
	for (int i = 0; i < jobq_max_executors; i++)
	{
		memset(&jobq_executors[i], 0, sizeof(ExecutorSlot));
		pg_atomic_init_u32(&jobq_executors[i].idle, 0);
	}
}

static void
startup_shmem(void)
{
	bool found;
	HASHCTL info;
	char *base;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	base = ShmemInitStruct("jobq", shared_size(), &found);
	jobq_shared = (JobqShared *) base;
	jobq_dbs = (DbSlot *) (base + MAXALIGN(sizeof(JobqShared)));
	jobq_queues = (QueueSlot *) ((char *) jobq_dbs + MAXALIGN(jobq_max_databases * sizeof(DbSlot)));
	jobq_cursors = (ClaimCursor *) ((char *) jobq_queues + MAXALIGN(jobq_max_queues * sizeof(QueueSlot)));
	jobq_event_ring = (EventRecord *) ((char *) jobq_cursors + MAXALIGN(jobq_max_cursors * sizeof(ClaimCursor)));
	jobq_sessions = (pg_atomic_uint64 *) ((char *) jobq_event_ring + MAXALIGN(jobq_event_buffer * sizeof(EventRecord)));
	jobq_executors = (ExecutorSlot *) ((char *) jobq_sessions + MAXALIGN(MaxBackends * sizeof(pg_atomic_uint64)));
	if (!found)
		init_shared(base);

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(QueueKey);
	info.entrysize = sizeof(QueueEntry);
	queue_hash = ShmemInitHash("jobq queues", jobq_max_queues, jobq_max_queues, &info, HASH_ELEM | HASH_BLOBS);
	LWLockRelease(AddinShmemInitLock);
}

/* Installs the hooks. Called once, from _PG_init, while shared_preload_libraries is processed. */
void
shmem_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

/* Puts a cursor back. Caller holds the lock that guards its list. */
static void
cursor_free(int32 index)
{
	SpinLockAcquire(&jobq_shared->cursor_mutex);
	jobq_cursors[index].next = jobq_shared->free_cursor;
	jobq_shared->free_cursor = index;
	SpinLockRelease(&jobq_shared->cursor_mutex);
}

/* Index of a blank cursor, or -1 when all are in use. Never fails; may be called under cursor_lock. */
int32
shmem_cursor_alloc(void)
{
	int32 index;

	SpinLockAcquire(&jobq_shared->cursor_mutex);
	index = jobq_shared->free_cursor;
	if (index >= 0)
		jobq_shared->free_cursor = jobq_cursors[index].next;
	SpinLockRelease(&jobq_shared->cursor_mutex);
	if (index >= 0)
	{
		memset(&jobq_cursors[index], 0, sizeof(ClaimCursor));
		jobq_cursors[index].next = -1;
		jobq_cursors[index].cursor = PG_INT64_MIN;
		jobq_cursors[index].next_id = 1;
	}
	return index;
}

/* Empties a queue's slot and gives it a new key. Caller holds JobqShared.lock exclusively. */
static void
queue_slot_reset(QueueSlot *slot, Oid db_oid, Oid ext_oid, int32 queue_id)
{
	LWLockAcquire(&slot->cursor_lock, LW_EXCLUSIVE);
	for (int lane = 0; lane < NUM_LANES; lane++)
	{
		int32 index = slot->lane_head[lane];

		while (index >= 0)
		{
			int32 next = jobq_cursors[index].next;

			cursor_free(index);
			index = next;
		}
		slot->lane_head[lane] = -1;
		slot->lane_known[lane] = false;
		slot->lane_lost[lane]++;
	}
	SpinLockAcquire(&slot->mutex);
	slot->db_oid = db_oid;
	slot->ext_oid = ext_oid;
	slot->queue_id = queue_id;
	slot->exact = false;
	memset(slot->counts, 0, sizeof(slot->counts));
	memset(slot->times, 0, sizeof(slot->times));
	memset(slot->samples, 0, sizeof(slot->samples));
	slot->counted_by = 0;
	memset(slot->recount, 0, sizeof(slot->recount));
	slot->next_due = DT_NOBEGIN;
	slot->delayed_cursor = DT_NOBEGIN;
	slot->delayed_low = DT_NOEND;
	slot->notify_pending = slot->alarmed = slot->alarm_pending = false;
	slot->reserved = 0;
	slot->rate_at = 0;
	slot->limited = false;
	slot->limit_group = 0;
	slot->alert_width = 0;
	slot->event_gone = 0;
	SpinLockRelease(&slot->mutex);
	pg_atomic_write_u32(&slot->dropping, 0);
	pg_atomic_write_u32(&slot->watched, 0);
	pg_atomic_write_u32(&slot->turn, 0);
	pg_atomic_write_u64(&slot->claims, 0);
	pg_atomic_write_u64(&slot->claim_buffers, 0);
	pg_atomic_write_u32(&slot->handlers, 0);
	LWLockRelease(&slot->cursor_lock);
}

/*
 * The slot of a queue, made when there is none. NULL when all are in use.
 * A slot of an earlier installation of the extension is emptied first.
 */
QueueSlot *
shmem_queue(Oid db_oid, Oid ext_oid, int32 queue_id)
{
	QueueKey key;
	QueueEntry *entry;
	QueueSlot *slot = NULL;
	DbSlot *db = NULL;
	bool found;

	memset(&key, 0, sizeof(key));
	key.db_oid = db_oid;
	key.queue_id = queue_id;

	LWLockAcquire(&jobq_shared->lock, LW_SHARED);
	entry = hash_search(queue_hash, &key, HASH_FIND, NULL);
	if (entry)
		slot = &jobq_queues[entry->index];
	if (slot && slot->ext_oid != ext_oid)
		slot = NULL;
	LWLockRelease(&jobq_shared->lock);
	if (slot)
		return slot;

	LWLockAcquire(&jobq_shared->lock, LW_EXCLUSIVE);
	entry = hash_search(queue_hash, &key, HASH_FIND, NULL);
	if (entry)
		slot = &jobq_queues[entry->index];
	else
	{
		int i;

		for (i = 0; i < jobq_max_queues && OidIsValid(jobq_queues[i].db_oid); i++)
			;
		if (i < jobq_max_queues && (entry = hash_search(queue_hash, &key, HASH_ENTER_NULL, &found)) != NULL)
		{
			entry->index = i;
			slot = &jobq_queues[i];
		}
	}
	if (slot && (slot->db_oid != db_oid || slot->ext_oid != ext_oid))
		queue_slot_reset(slot, db_oid, ext_oid, queue_id);
	if (slot == NULL && !jobq_shared->queues_overflowed)
	{
		jobq_shared->queues_overflowed = true;
		db = shmem_db_find(db_oid);
	}
	LWLockRelease(&jobq_shared->lock);
	/* it frees the slots of queues that are gone */
	if (db && db->scheduler_pid != MyProcPid)
		shmem_wake_scheduler(db);
	return slot;
}

/* Forgets a dropped queue. Callable after commit: cannot fail. */
void
shmem_queue_free(Oid db_oid, int32 queue_id)
{
	QueueKey key;
	QueueEntry *entry;
	QueueSlot *slot = NULL;

	memset(&key, 0, sizeof(key));
	key.db_oid = db_oid;
	key.queue_id = queue_id;
	LWLockAcquire(&jobq_shared->lock, LW_EXCLUSIVE);
	entry = hash_search(queue_hash, &key, HASH_FIND, NULL);
	if (entry)
	{
		slot = &jobq_queues[entry->index];
		queue_slot_reset(slot, InvalidOid, InvalidOid, 0);
		hash_search(queue_hash, &key, HASH_REMOVE, NULL);
		pg_atomic_fetch_add_u32(&jobq_shared->slots_freed, 1);
	}
	LWLockRelease(&jobq_shared->lock);
	/* its waiters find that it is gone */
	if (slot)
		ConditionVariableBroadcast(&slot->wake);
}

/* Frees the database's slots whose queues are not among the given ids, which are in ascending order: rolled back, or dropped. */
void
shmem_queue_sweep(Oid db_oid, const int32 *ids, int n)
{
	for (int i = 0; i < jobq_max_queues; i++)
	{
		int32 queue_id = jobq_queues[i].queue_id;
		int lo = 0;
		int hi = n;

		if (jobq_queues[i].db_oid != db_oid)
			continue;
		while (lo < hi)
		{
			int mid = lo + (hi - lo) / 2;

			if (ids[mid] < queue_id)
				lo = mid + 1;
			else
				hi = mid;
		}
		if (lo == n || ids[lo] != queue_id)
			shmem_queue_free(db_oid, queue_id);
	}
}

static void
db_slot_reset(DbSlot *db, Oid db_oid, Oid ext_oid)
{
	Latch *latch;

	SpinLockAcquire(&db->mutex);
	latch = db->scheduler_latch;
	db->db_oid = db_oid;
	db->ext_oid = ext_oid;
	db->ids.next = db->ids.limit = 0;
	db->tokens.next = db->tokens.limit = 0;
	db->wanted = false;
	db->wake_at = DT_NOEND;
	db->failures = 0;
	db->lease_cursor = DT_NOBEGIN;
	db->lease_low = DT_NOEND;
	db->next_lease = DT_NOBEGIN;
	db->prepared = true; /* of the time before a restart: the first recount looks */
	db->poisoned = false;
	db->sessions_ended = true;
	db->drain_at = DT_NOBEGIN;
	db->next_schedule = DT_NOBEGIN;
	db->handlers_changed = true;
	db->executors_wanted = false;
	db->executor_pause = DT_NOBEGIN;
	db->executor_failures = 0;
	db->rescan_activity = db->activity;
	db->next_rescan = DT_NOBEGIN;
	db->totals_since = GetCurrentTimestamp();
	db->events_new = db->alarms = false;
	db->once_next = DT_NOBEGIN;
	db->sweep_at = DT_NOBEGIN;
	db->expiry_cursor = DT_NOBEGIN;
	db->expiry_low = DT_NOEND;
	db->next_expiry = DT_NOBEGIN;
	db->next_window = DT_NOBEGIN;
	SpinLockRelease(&db->mutex);
	/* what a reader remembers of an earlier time shall lie below */
	LWLockAcquire(&jobq_shared->event_lock, LW_EXCLUSIVE);
	db->event_first = Max(db->event_next + 1, (uint64) db->totals_since);
	db->event_next = db->event_sent = db->event_first;
	LWLockRelease(&jobq_shared->event_lock);
	if (latch)
		SetLatch(latch);
}

/* A database's slot without making one; NULL when there is none. Caller holds JobqShared.lock, or is the database's scheduler. */
DbSlot *
shmem_db_find(Oid db_oid)
{
	for (int i = 0; i < jobq_max_databases; i++)
		if (jobq_dbs[i].db_oid == db_oid)
			return &jobq_dbs[i];
	return NULL;
}

/* The slot of a database, made when there is none. Error 53400 when jobq.max_databases are in use. */
DbSlot *
shmem_db(Oid db_oid, Oid ext_oid)
{
	DbSlot *db;

	LWLockAcquire(&jobq_shared->lock, LW_SHARED);
	db = shmem_db_find(db_oid);
	if (db && db->ext_oid != ext_oid)
		db = NULL;
	LWLockRelease(&jobq_shared->lock);
	if (db)
		return db;

	LWLockAcquire(&jobq_shared->lock, LW_EXCLUSIVE);
	db = shmem_db_find(db_oid);
	if (db == NULL)
		db = shmem_db_find(InvalidOid);
	if (db && (db->db_oid != db_oid || db->ext_oid != ext_oid))
		db_slot_reset(db, db_oid, ext_oid);
	LWLockRelease(&jobq_shared->lock);
	if (db == NULL)
	{
		/* it gives back the slots of databases that are gone, or no longer have the extension */
		jobq_shared->dbs_overflowed = true;
		shmem_wake_launcher();
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg("too many databases use jobq"),
						errhint("Raise jobq.max_databases and restart the server.")));
	}
	return db;
}

/* Forgets a database that is gone or no longer has the extension, with its queues. */
void
shmem_db_free(Oid db_oid)
{
	DbSlot *db;

	LWLockAcquire(&jobq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < jobq_max_queues; i++)
	{
		if (jobq_queues[i].db_oid == db_oid)
		{
			QueueKey key;

			memset(&key, 0, sizeof(key));
			key.db_oid = db_oid;
			key.queue_id = jobq_queues[i].queue_id;
			hash_search(queue_hash, &key, HASH_REMOVE, NULL);
			queue_slot_reset(&jobq_queues[i], InvalidOid, InvalidOid, 0);
			pg_atomic_fetch_add_u32(&jobq_shared->slots_freed, 1);
		}
	}
	db = shmem_db_find(db_oid);
	if (db)
		db_slot_reset(db, InvalidOid, InvalidOid);
	LWLockRelease(&jobq_shared->lock);

	for (int i = 0; i < ROLLBACK_SLOTS; i++)
		if (jobq_shared->rollbacks[i].db_oid == db_oid && jobq_shared->rollbacks[i].job_id != 0)
			shmem_rollback_clear(db_oid, jobq_shared->rollbacks[i].job_id, PG_INT32_MAX);
}

/* Whether the last recount's snapshot shows a transaction. Caller holds db->count_lock. */
bool
shmem_recount_sees(DbSlot *db, FullTransactionId full)
{
	TransactionId xid = XidFromFullTransactionId(full);

	if (db->recount_id == 0 || U64FromFullTransactionId(full) >= db->recount_next_xid)
		return false;
	if (TransactionIdPrecedes(xid, db->recount_xmin))
		return true;
	if (TransactionIdFollowsOrEquals(xid, db->recount_xmax))
		return false;
	for (int i = 0; i < db->recount_nxids; i++)
		if (db->recount_xids[i] == xid)
			return false;
	return true;
}

/* Makes the launcher look at its databases. Cannot fail. */
void
shmem_wake_launcher(void)
{
	Latch *latch;

	SpinLockAcquire(&jobq_shared->launcher_mutex);
	latch = jobq_shared->launcher_latch;
	SpinLockRelease(&jobq_shared->launcher_mutex);
	if (latch)
		SetLatch(latch);
}

/* Makes the database's scheduler look; has one started when none runs. Cannot fail. */
void
shmem_wake_scheduler(DbSlot *db)
{
	Latch *latch;
	bool start = false;

	SpinLockAcquire(&db->mutex);
	latch = db->scheduler_latch;
	if (latch == NULL && !db->wanted)
		db->wanted = start = true;
	SpinLockRelease(&db->mutex);
	if (latch)
		SetLatch(latch);
	else if (start)
		shmem_wake_launcher();
}

static inline uint32
done_index(int64 job_id, int64 token)
{
	return hash_combine(murmurhash32((uint32) job_id ^ (uint32) (job_id >> 32)),
						murmurhash32((uint32) token ^ (uint32) (token >> 32))) %
		   DONE_SLOTS;
}

/* Remembers that (job, token) was completed, for a caller who lost the answer. Bounded: a later pair may take the place. */
void
shmem_done_remember(Oid db_oid, int32 queue_id, int64 job_id, int64 token)
{
	uint32 i = done_index(job_id, token);
	slock_t *mutex = &jobq_shared->done_mutex[i % DONE_LOCKS];

	SpinLockAcquire(mutex);
	jobq_shared->done[i].db_oid = db_oid;
	jobq_shared->done[i].queue_id = queue_id;
	jobq_shared->done[i].job_id = job_id;
	jobq_shared->done[i].token = token;
	SpinLockRelease(mutex);
}

/* Whether it was, and in which queue. */
bool
shmem_done_known(Oid db_oid, int64 job_id, int64 token, int32 *queue_id)
{
	uint32 i = done_index(job_id, token);
	slock_t *mutex = &jobq_shared->done_mutex[i % DONE_LOCKS];
	bool known;

	SpinLockAcquire(mutex);
	known = jobq_shared->done[i].job_id == job_id && jobq_shared->done[i].token == token &&
			jobq_shared->done[i].db_oid == db_oid;
	*queue_id = jobq_shared->done[i].queue_id;
	SpinLockRelease(mutex);
	return known;
}

static inline RollbackSlot *
rollback_slot(int64 job_id)
{
	return &jobq_shared->rollbacks[murmurhash32((uint32) job_id) % ROLLBACK_SLOTS];
}

/* Counts one more rolled-back claim of a job. Callable while aborting. */
void
shmem_rollback_add(Oid db_oid, int32 queue_id, int64 job_id, DbSlot *db)
{
	RollbackSlot *slot = rollback_slot(job_id);
	bool limit;

	SpinLockAcquire(&jobq_shared->rollback_mutex);
	/* a claim passes over a job that has reached the limit: its mark must stay until the scheduler has dealt with it */
	if ((slot->job_id != job_id || slot->db_oid != db_oid) && slot->job_id != 0 && slot->count >= ROLLBACK_LIMIT)
	{
		SpinLockRelease(&jobq_shared->rollback_mutex);
		return;
	}
	if (slot->job_id != job_id || slot->db_oid != db_oid)
	{
		if (slot->job_id == 0)
			pg_atomic_fetch_add_u32(&jobq_shared->nrollbacks, 1);
		slot->db_oid = db_oid;
		slot->queue_id = queue_id;
		slot->job_id = job_id;
		slot->count = 0;
	}
	limit = ++slot->count >= ROLLBACK_LIMIT;
	SpinLockRelease(&jobq_shared->rollback_mutex);
	if (limit)
	{
		SpinLockAcquire(&db->mutex);
		db->poisoned = true;
		SpinLockRelease(&db->mutex);
		shmem_wake_scheduler(db);
	}
}

/* Forgets the rolled-back claims of a job, unless there are more than so many. */
void
shmem_rollback_clear(Oid db_oid, int64 job_id, int at_most)
{
	RollbackSlot *slot = rollback_slot(job_id);

	if (slot->job_id != job_id)
		return;
	SpinLockAcquire(&jobq_shared->rollback_mutex);
	if (slot->job_id == job_id && slot->db_oid == db_oid && slot->count <= at_most)
	{
		slot->job_id = 0;
		pg_atomic_fetch_sub_u32(&jobq_shared->nrollbacks, 1);
	}
	SpinLockRelease(&jobq_shared->rollback_mutex);
}

/* Claims of this job rolled back in a row. */
int
shmem_rollback_count(Oid db_oid, int64 job_id)
{
	RollbackSlot *slot = rollback_slot(job_id);
	int count = 0;

	if (pg_atomic_read_u32(&jobq_shared->nrollbacks) == 0 || slot->job_id != job_id)
		return 0;
	SpinLockAcquire(&jobq_shared->rollback_mutex);
	if (slot->job_id == job_id && slot->db_oid == db_oid)
		count = slot->count;
	SpinLockRelease(&jobq_shared->rollback_mutex);
	return count;
}

/* The next job of the database whose claims were rolled back at least so often; 0 at the end. *position starts at 0. */
int64
shmem_rollback_next(Oid db_oid, int at_least, int *position, int32 *queue_id)
{
	int64 job_id = 0;

	SpinLockAcquire(&jobq_shared->rollback_mutex);
	while (*position < ROLLBACK_SLOTS && job_id == 0)
	{
		RollbackSlot *slot = &jobq_shared->rollbacks[(*position)++];

		if (slot->job_id != 0 && slot->db_oid == db_oid && slot->count >= at_least)
		{
			job_id = slot->job_id;
			*queue_id = slot->queue_id;
		}
	}
	SpinLockRelease(&jobq_shared->rollback_mutex);
	return job_id;
}
