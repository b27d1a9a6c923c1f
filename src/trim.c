/*-------------------------------------------------------------------------
 *
 * trim.c
 *		Empties history whose time is over, and old dead letters.
 *
 * A pass goes through the ring of history tables, history_far and the dead
 * letters, one bounded piece per transaction. It sets the time of the next
 * pass from what it finds, so that an idle database needs no scheduler until
 * then.
 *
 * A table of the ring is emptied by TRUNCATE, under a lock that is only had
 * when nobody uses the table: completions and pg_dump never wait for us. All
 * its rows are of one day unless nothing trimmed for a month, so before that
 * every row is looked at. A table that today's completions may write to is
 * looked at again under the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#include "maintain.h"
#include "meta.h"
#include "spi.h"
#include "timeutil.h"
#include "xact.h"

#define TRIM_PAUSE (60 * USECS_PER_SEC) /* between passes while there is work */
#define TRIM_ROWS 1000                  /* of one DELETE; its text repeats it */
#define CHECK_BLOCKS 1000               /* looked at in one transaction */
#define LOCKED_BLOCKS 4096              /* looked at under the exclusive lock at most */

typedef enum TrimStage
{
	STAGE_IDLE,
	STAGE_RING,  /* which tables of the ring are over */
	STAGE_TABLE, /* look at every row of one, then empty it */
	STAGE_FAR,
	STAGE_RATES, /* of groups */
	STAGE_DEAD
} TrimStage;

static TrimStage stage = STAGE_IDLE;
static TimestampTz next_pass = DT_NOBEGIN;
static TimestampTz found_next;  /* of the running pass */
static bool over[HISTORY_RING]; /* tables whose first row's day is over */
static int table = 0;           /* the one in hand */
static BlockNumber checked;     /* so many of its blocks hold nothing that is to be kept */

/* Everything before this was deleted in this pass, so that a batch does not walk the dead entries of those before it. */
static TimestampTz deleted_to;
static int32 deleted_queue; /* 0: history_far */

TimestampTz
trim_due(Maintain *m)
{
	return stage == STAGE_IDLE ? next_pass : DT_NOBEGIN;
}

/* Has a pass made as soon as possible. */
void
trim_soon(void)
{
	next_pass = DT_NOBEGIN;
}

static int64
day_of(TimestampTz t)
{
	return t / USECS_PER_DAY - (t % USECS_PER_DAY < 0 ? 1 : 0);
}

static TimestampTz
today(void)
{
	return (TimestampTz) day_of(clock_now()) * USECS_PER_DAY;
}

static void
again_at(TimestampTz t)
{
	found_next = Min(found_next, t);
}

static void
end_pass(void)
{
	TimestampTz soonest = clock_now() + TRIM_PAUSE;

	stage = STAGE_IDLE;
	next_pass = TIMESTAMP_IS_NOEND(found_next) ? found_next : Max(found_next, soonest);
}

/* Size of a table, 0 when somebody locks it so that it cannot be asked. */
static BlockNumber
table_blocks(JobqTable which, bool *busy)
{
	Oid oid = meta_table_oid(which);
	Relation rel;
	BlockNumber blocks;

	*busy = !ConditionalLockRelationOid(oid, AccessShareLock);
	if (*busy)
		return 0;
	rel = table_open(oid, NoLock);
	blocks = RelationGetNumberOfBlocks(rel);
	table_close(rel, NoLock);
	return blocks;
}

/* Finds the tables of the ring whose day is over, by their first row. */
static void
look_at_ring(void)
{
	SpiScope scope;

	for (int i = 0; i < HISTORY_RING; i++)
	{
		bool busy;
		bool isnull;
		char *sql = psprintf("SELECT expiry FROM jobq.history_%d LIMIT 1", i);

		over[i] = false;
		if (table_blocks(TABLE_HISTORY + i, &busy) == 0)
		{
			if (busy)
				again_at(clock_now());
			continue;
		}
		spi_begin(&scope);
		/* nothing but dead rows: emptying it does no harm either */
		if (spi_run_once(sql, SPI_OK_SELECT, 0, NULL, NULL, NULL) == 0)
			over[i] = true;
		else
		{
			TimestampTz expiry = DatumGetTimestampTz(spi_value(0, 1, &isnull));

			over[i] = expiry < today();
			if (!over[i])
				again_at((day_of(expiry) + 1) * USECS_PER_DAY);
		}
		spi_end(&scope);
	}
	table = -1;
}

/* Chooses the next table to empty; the stage ends when there is none. */
static void
next_table(void)
{
	checked = 0;
	while (++table < HISTORY_RING)
	{
		if (over[table])
		{
			stage = STAGE_TABLE;
			return;
		}
	}
	stage = STAGE_FAR;
}

/* Whether blocks from..to of the table in hand (to exclusive) hold a row whose day is not over. */
static bool
holds_kept(BlockNumber from, BlockNumber to)
{
	Oid types[3] = {TIDOID, TIDOID, TIMESTAMPTZOID};
	ItemPointerData tids[2];
	Datum values[3];
	char *sql =
		psprintf("SELECT 1 FROM jobq.history_%d WHERE ctid >= $1 AND ctid < $2 AND expiry >= $3 LIMIT 1", table);
	SpiScope scope;
	bool found;

	ItemPointerSet(&tids[0], from, 0);
	ItemPointerSet(&tids[1], to, 0);
	values[0] = PointerGetDatum(&tids[0]);
	values[1] = PointerGetDatum(&tids[1]);
	values[2] = TimestampTzGetDatum(today());
	spi_begin(&scope);
	found = spi_run_once(sql, SPI_OK_SELECT, 3, types, values, NULL) > 0;
	spi_end(&scope);
	return found;
}

/* Empties the table in hand if nobody uses it and it still holds nothing to be kept. False: try again later. */
static bool
truncate_table(BlockNumber blocks)
{
	bool busy;
	bool closed;
	SpiScope scope;

	if (!ConditionalLockRelationOid(meta_table_oid(TABLE_HISTORY + table), AccessExclusiveLock))
		return false;
	/* the one table of the ring that no completion up to now can have written to, asked under the lock: midnight may have passed */
	closed = table == (day_of(clock_now()) + HISTORY_RING - 1) % HISTORY_RING;
	if (table_blocks(TABLE_HISTORY + table, &busy) != blocks)
		return false;
	if (!closed && (blocks > LOCKED_BLOCKS || holds_kept(0, blocks)))
		return false;
	spi_begin(&scope);
	(void) spi_run_once(psprintf("TRUNCATE jobq.history_%d", table), SPI_OK_UTILITY, 0, NULL, NULL, NULL);
	spi_end(&scope);
	return true;
}

/* One piece of work on the table in hand. */
static void
work_on_table(void)
{
	bool busy;
	BlockNumber blocks = table_blocks(TABLE_HISTORY + table, &busy);
	BlockNumber to = Min(blocks, checked + CHECK_BLOCKS);

	if (busy)
	{
		again_at(clock_now());
		next_table();
	}
	else if (checked < blocks && holds_kept(checked, to))
	{
		/* rows of several days: all go when the last one's day is over */
		again_at(today() + USECS_PER_DAY);
		next_table();
	}
	else if ((checked = to) >= blocks)
	{
		if (!truncate_table(blocks))
			again_at(clock_now());
		next_table();
	}
}

/* Runs a DELETE .. RETURNING of a batch of a queue (0: history_far), rows before a time; returns how many. Inside a scope of spi.c. */
static uint64
delete_batch(SpiStatement *statement, int32 queue_id, TimestampTz before)
{
	Datum values[3];
	uint64 n;
	bool isnull;

	if (deleted_queue != queue_id)
		deleted_to = DT_NOBEGIN;
	deleted_queue = queue_id;
	values[0] = TimestampTzGetDatum(before);
	values[1] = TimestampTzGetDatum(deleted_to);
	values[2] = Int32GetDatum(queue_id);
	n = spi_run(statement, values, NULL);
	for (uint64 i = 0; i < n; i++)
		deleted_to = Max(deleted_to, DatumGetTimestampTz(spi_value(i, 1, &isnull)));
	return n;
}

/* Deletes from what is kept beyond the ring. */
static void
trim_far(void)
{
	static SpiStatement delete_far = {
		.sql =
			"DELETE FROM jobq.history_far WHERE ctid = ANY (ARRAY(SELECT ctid FROM jobq.history_far"
			" WHERE expiry < $1 AND expiry >= $2 ORDER BY expiry LIMIT 1000 FOR UPDATE SKIP LOCKED)) RETURNING expiry",
		.result = SPI_OK_DELETE_RETURNING,
		.nargs = 2,
		.argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID}};
	static SpiStatement first_far = {
		.sql = "SELECT expiry FROM jobq.history_far WHERE expiry < 'infinity' ORDER BY expiry LIMIT 1",
		.result = SPI_OK_SELECT};
	SpiScope scope;
	bool isnull;

	if (!ConditionalLockRelationOid(meta_table_oid(TABLE_HISTORY_FAR), RowExclusiveLock))
	{
		again_at(clock_now());
		stage = STAGE_RATES;
		return;
	}
	spi_begin(&scope);
	if (delete_batch(&delete_far, 0, clock_now()) < TRIM_ROWS)
	{
		if (spi_run(&first_far, NULL, NULL) > 0)
			again_at(DatumGetTimestampTz(spi_value(0, 1, &isnull)));
		stage = STAGE_RATES;
	}
	spi_end(&scope);
}

/* Deletes the rates of groups that may start at any time; a row that says so is as good as none. */
static void
trim_rates(void)
{
	static SpiStatement delete_rates = {
		.sql = "DELETE FROM jobq.group_rate WHERE ctid = ANY (ARRAY(SELECT ctid FROM jobq.group_rate"
			   " WHERE next_at < $1 LIMIT 1000 FOR UPDATE SKIP LOCKED))",
		.result = SPI_OK_DELETE,
		.nargs = 1,
		.argtypes = {TIMESTAMPTZOID}};
	static SpiStatement first_rate = {.sql = "SELECT min(next_at) FROM jobq.group_rate", .result = SPI_OK_SELECT};
	Datum now = TimestampTzGetDatum(clock_now());
	SpiScope scope;
	bool isnull;

	spi_begin(&scope);
	if (spi_run(&delete_rates, &now, NULL) < TRIM_ROWS)
	{
		TimestampTz next;

		(void) spi_run(&first_rate, NULL, NULL);
		next = DatumGetTimestampTz(spi_value(0, 1, &isnull));
		if (!isnull)
			again_at(next);
		stage = STAGE_DEAD;
	}
	spi_end(&scope);
}

/* A dead letter that blocks its group stays until somebody has decided: unblock_group() may still want it. */
#define NOT_BLOCKING "id NOT IN (SELECT h.dead_job FROM jobq.held h WHERE h.dead_job IS NOT NULL)"

typedef struct DeadQueue
{
	int32 id;
	int64 keep;
	TimestampTz oldest;
} DeadQueue;

/* The queues that have dead letters which do not stay for ever, and each one's oldest. */
static int
dead_queues(DeadQueue **queues)
{
	static SpiStatement statement = {
		.sql = "SELECT q.id, q.keep_dead, (SELECT d.died FROM jobq.dead d WHERE d.queue_id = q.id AND " NOT_BLOCKING
			   " ORDER BY d.died LIMIT 1)"
			   " FROM jobq.queue q WHERE q.keep_dead IS NOT NULL",
		.result = SPI_OK_SELECT};
	SpiScope scope;
	int n;
	int kept = 0;

	spi_begin(&scope);
	n = (int) spi_run(&statement, NULL, NULL);
	*queues = MemoryContextAlloc(scope.caller, Max(n, 1) * sizeof(DeadQueue));
	for (int i = 0; i < n; i++)
	{
		DeadQueue *q = &(*queues)[kept];
		bool isnull;

		q->id = DatumGetInt32(spi_value(i, 1, &isnull));
		q->keep = interval_usecs(DatumGetIntervalP(spi_value(i, 2, &isnull)), "keep_dead", PG_INT64_MIN, PG_INT64_MAX);
		q->oldest = DatumGetTimestampTz(spi_value(i, 3, &isnull));
		if (!isnull)
			kept++;
	}
	spi_end(&scope);
	return kept;
}

/* Deletes a batch of each queue's old dead letters, until one was full. */
static void
trim_dead(void)
{
	static SpiStatement delete_dead = {.sql = "DELETE FROM jobq.dead WHERE ctid = ANY (ARRAY(SELECT ctid FROM jobq.dead"
											  " WHERE queue_id = $3 AND died < $1 AND died >= $2 AND " NOT_BLOCKING
											  " ORDER BY died LIMIT 1000 FOR UPDATE SKIP LOCKED))"
											  " RETURNING died",
									   .result = SPI_OK_DELETE_RETURNING,
									   .nargs = 3,
									   .argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID, INT4OID}};
	DeadQueue *queues;
	int n;
	TimestampTz now = clock_now();
	bool more = false;

	if (!ConditionalLockRelationOid(meta_table_oid(TABLE_DEAD), RowExclusiveLock))
	{
		again_at(now);
		end_pass();
		return;
	}
	n = dead_queues(&queues);
	for (int i = 0; i < n && !more; i++)
	{
		SpiScope scope;
		uint64 deleted;
		QueueInfo *queue;

		if (timestamp_add(queues[i].oldest, queues[i].keep) > now)
		{
			again_at(timestamp_add(queues[i].oldest, queues[i].keep));
			continue;
		}
		spi_begin(&scope);
		deleted = delete_batch(&delete_dead, queues[i].id, timestamp_add(now, -queues[i].keep));
		spi_end(&scope);
		queue = meta_queue_by_id(queues[i].id);
		if (queue && deleted > 0)
			xact_count(queue, COUNT_DEAD, -(int64) deleted);
		/* one batch per transaction; what is locked, or younger, is for the next pass */
		more = deleted == TRIM_ROWS;
		again_at(now);
	}
	if (!more)
		end_pass();
}

void
trim_run(Maintain *m)
{
	TrimStage before = stage;

	if (!maintain_begin(m))
		return;
	if (stage == STAGE_IDLE)
	{
		found_next = DT_NOEND;
		deleted_queue = -1;
		stage = STAGE_RING;
	}
	/* an error ends the pass, so that a table that cannot be emptied does not hold up the rest for ever */
	PG_TRY();
	{
		switch (stage)
		{
			case STAGE_RING:
				look_at_ring();
				next_table();
				break;
			case STAGE_TABLE:
				work_on_table();
				break;
			case STAGE_FAR:
				trim_far();
				break;
			case STAGE_RATES:
				trim_rates();
				break;
			default:
				trim_dead();
				break;
		}
	}
	PG_CATCH();
	{
		again_at(clock_now());
		if (before == STAGE_TABLE)
			next_table();
		else if (stage == STAGE_FAR)
			stage = STAGE_RATES;
		else if (stage == STAGE_RATES)
			stage = STAGE_DEAD;
		else
			end_pass();
		PG_RE_THROW();
	}
	PG_END_TRY();
	maintain_end(m);
}
