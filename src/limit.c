/*-------------------------------------------------------------------------
 *
 * limit.c
 *		How many jobs of a queue may run at a time, and how many may start.
 *
 * Concurrency. A job that runs is one that is under a lease, and nothing else
 * is counted: the slot's number of active jobs, which changes when a commit
 * is visible, and what open transactions have taken, which they reserve
 * before they look for a job. Both change under one mutex when such a
 * transaction ends, so their sum is never too small. After a start, until the
 * slot's numbers are exact again, the leases are counted instead, with a
 * snapshot taken after the reservation: a claim is then in the snapshot, or
 * still reserved, or both.
 *
 * Rate. The generic cell rate algorithm: rate_at moves on by one gap with
 * each start, and a start is allowed while it is not further ahead than the
 * burst. Kept in shared memory only: a restart allows one burst more.
 *
 * Queues of the same limit_name share both: what runs and starts in any of
 * them counts for all, and each goes up to its own number.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"

#include "guc.h"
#include "limit.h"
#include "spi.h"
#include "timeutil.h"
#include "xact.h"

/* objsubid of the lock of a queue without a slot; those of admin.c and xact.c are others */
#define LOCK_LIMIT 5

/* What shared memory says of the queues that share a limit. */
typedef struct LimitUse
{
	bool exact;
	int64 active;
	int64 reserved;
	TimestampTz rate_at;
} LimitUse;

static void
add_use(LimitUse *use, QueueSlot *slot)
{
	SpinLockAcquire(&slot->mutex);
	use->exact &= slot->exact;
	use->active += slot->counts[COUNT_ACTIVE];
	use->reserved += slot->reserved;
	use->rate_at = Max(use->rate_at, slot->rate_at);
	SpinLockRelease(&slot->mutex);
}

/* Caller holds limit_lock. */
static LimitUse
read_use(QueueInfo *queue)
{
	LimitUse use = {true, 0, 0, 0};

	if (queue->limit_group == 0)
		add_use(&use, queue->slot);
	else
		for (int i = 0; i < jobq_max_queues; i++)
			if (jobq_queues[i].db_oid == MyDatabaseId && jobq_queues[i].limit_group == queue->limit_group)
				add_use(&use, &jobq_queues[i]);
	return use;
}

/* Active jobs of the queues that share the limit, counted in the tables. */
static int64
count_active(QueueInfo *queue)
{
	static SpiStatement statement = {
		.sql = "SELECT count(*) FROM jobq.lease l CROSS JOIN unnest(l.job_ids) i JOIN jobq.job j ON j.id = i"
			   " WHERE l.queue_id = $1 OR l.queue_id IN (SELECT q.id FROM jobq.queue q JOIN jobq.queue me"
			   " ON me.limit_name = q.limit_name WHERE me.id = $1)",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {INT4OID}};
	Datum value = Int32GetDatum(queue->id);
	SpiScope scope;
	int64 n;
	bool isnull;

	spi_begin(&scope);
	(void) spi_run(&statement, &value, NULL);
	n = DatumGetInt64(spi_value(0, 1, &isnull));
	spi_end(&scope);
	return n;
}

/* Microseconds between two starts at the queue's rate. */
static int64
rate_gap(const QueueInfo *queue)
{
	return Max(queue->rate_interval / queue->rate_limit, 1);
}

/* How many starts the rate allows now. */
static int64
rate_room(const QueueInfo *queue, TimestampTz rate_at, TimestampTz now)
{
	int64 gap = rate_gap(queue);
	int64 burst = saturating_mul(gap, queue->rate_burst);
	TimestampTz from = Max(rate_at, now);

	/* a clock that was set back must not stop the queue for long */
	if (from - now > burst)
		return from - now > burst + gap ? -1 : 0;
	return (burst - (from - now)) / gap;
}

static void
change_reserved(QueueInfo *queue, int n)
{
	SpinLockAcquire(&queue->slot->mutex);
	queue->slot->reserved += n;
	SpinLockRelease(&queue->slot->mutex);
}

/* A queue without a slot in shared memory: one claim at a time, until its transaction ends, counts for itself. */
static int
reserve_without_slot(QueueInfo *queue, int wanted)
{
	int64 room;

	if (queue->concurrency == 0)
		return wanted;
	LockDatabaseObject(meta_table_oid(TABLE_QUEUE), (Oid) queue->id, LOCK_LIMIT, ExclusiveLock);
	room = queue->concurrency - count_active(queue);
	return (int) Max(Min(wanted, room), 0);
}

/*
 * How many of the wanted jobs a claim may take now. They are reserved until the transaction ends; limit_settle says how many were taken.
 */
int
limit_reserve(QueueInfo *queue, int wanted)
{
	QueueSlot *slot = queue->slot;
	TimestampTz now = clock_now();
	int64 allowed = wanted;
	LimitUse use;
	int64 mine;
	int64 own;

	if (slot == NULL)
		return reserve_without_slot(queue, wanted);
	own = xact_active(queue, &mine);
	/* makes the note before there is something to note: it may fail for want of memory */
	xact_reserved(queue, 0);

	LWLockAcquire(&jobq_shared->limit_lock, LW_EXCLUSIVE);
	use = read_use(queue);
	if (queue->concurrency > 0)
	{
		/* what this transaction has taken is reserved, and what it has ended makes room for what it takes */
		int64 used = use.reserved - mine + own + (use.exact ? use.active : 0);

		allowed = Min(allowed, queue->concurrency - used);
	}
	if (queue->rate_limit > 0)
	{
		int64 room = rate_room(queue, use.rate_at, now);

		if (room < 0)
		{
			use.rate_at = now;
			room = queue->rate_burst;
		}
		allowed = Min(allowed, room);
		if (allowed > 0)
			slot->rate_at = Max(use.rate_at, now) + allowed * rate_gap(queue);
	}
	if (allowed > 0)
		change_reserved(queue, (int) allowed);
	LWLockRelease(&jobq_shared->limit_lock);
	if (allowed <= 0)
		return 0;
	xact_reserved(queue, (int) allowed);
	if (queue->concurrency > 0 && !use.exact)
	{
		int64 room = queue->concurrency - count_active(queue) - (use.reserved - mine);

		if (room < allowed)
		{
			room = Max(room, 0);
			limit_settle(queue, (int) allowed, (int) room);
			allowed = room;
		}
	}
	return (int) allowed;
}

/* Gives back what was reserved and not taken. */
void
limit_settle(QueueInfo *queue, int reserved, int taken)
{
	QueueSlot *slot = queue->slot;
	int left = reserved - taken;

	if (slot == NULL || left <= 0)
		return;
	LWLockAcquire(&jobq_shared->limit_lock, LW_EXCLUSIVE);
	change_reserved(queue, -left);
	if (queue->rate_limit > 0)
		slot->rate_at -= left * rate_gap(queue);
	LWLockRelease(&jobq_shared->limit_lock);
	xact_reserved(queue, -left);
}

/* Whether a claim would be allowed a job now, as far as shared memory tells. */
bool
limit_is_free(QueueInfo *queue)
{
	LimitUse use;

	if (!limit_applies(queue) || queue->slot == NULL)
		return true;
	LWLockAcquire(&jobq_shared->limit_lock, LW_SHARED);
	use = read_use(queue);
	LWLockRelease(&jobq_shared->limit_lock);
	if (queue->concurrency > 0 && use.exact && use.active + use.reserved >= queue->concurrency)
		return false;
	return queue->rate_limit == 0 || rate_room(queue, use.rate_at, clock_now()) != 0;
}

/* When the rate allows the next start; DT_NOBEGIN: now, or it is not for the rate. */
TimestampTz
limit_free_at(QueueInfo *queue)
{
	LimitUse use;
	TimestampTz now = clock_now();

	if (queue->rate_limit == 0 || queue->slot == NULL)
		return DT_NOBEGIN;
	LWLockAcquire(&jobq_shared->limit_lock, LW_SHARED);
	use = read_use(queue);
	LWLockRelease(&jobq_shared->limit_lock);
	if (rate_room(queue, use.rate_at, now) != 0)
		return DT_NOBEGIN;
	return use.rate_at - saturating_mul(rate_gap(queue), queue->rate_burst - 1);
}
