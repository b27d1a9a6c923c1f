/*-------------------------------------------------------------------------
 *
 * collect.c
 *		The steps that delete rows whose time has passed: once() records, and
 *		windows of unique keys.
 *
 * Nobody waits for it: who asks for such a key takes it over, or ends its
 * window. So a row may lie around for a while, and many go together.
 *
 * The scheduler knows when the next one is from who made it, and does not
 * look before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/timestamp.h"

#include "maintain.h"
#include "spi.h"
#include "timeutil.h"

/* How long a row may lie around that is over. */
#define COLLECT_SLACK (60 * USECS_PER_SEC)
#define COLLECT_BATCH 500

/* What is collected. */
typedef struct Kind
{
	size_t next;         /* in DbSlot, when the earliest row is over; DT_NOBEGIN: not known, DT_NOEND: there is none */
	SpiStatement remove; /* $1: now, $2: so many at most */
	SpiStatement find;   /* when the earliest row is over */
} Kind;

static Kind once_records = {
	.next = offsetof(DbSlot, once_next),
	.remove =
		{.sql =
			 "WITH over AS MATERIALIZED (SELECT key FROM jobq.once_record WHERE expires <= $1 ORDER BY expires LIMIT $2"
			 " FOR UPDATE SKIP LOCKED)"
			 " DELETE FROM jobq.once_record r USING over WHERE r.key = over.key",
		 .result = SPI_OK_DELETE,
		 .nargs = 2,
		 .argtypes = {TIMESTAMPTZOID, INT4OID}},
	.find = {.sql = "SELECT expires FROM jobq.once_record ORDER BY expires LIMIT 1", .result = SPI_OK_SELECT}};

static Kind windows = {
	.next = offsetof(DbSlot, next_window),
	.remove = {.sql = "DELETE FROM jobq.unique_window WHERE ctid = ANY (ARRAY(SELECT ctid FROM jobq.unique_window"
					  " WHERE until <= $1 ORDER BY until LIMIT $2 FOR UPDATE SKIP LOCKED))",
			   .result = SPI_OK_DELETE,
			   .nargs = 2,
			   .argtypes = {TIMESTAMPTZOID, INT4OID}},
	.find = {.sql = "SELECT until FROM jobq.unique_window ORDER BY until LIMIT 1", .result = SPI_OK_SELECT}};

static Kind *collecting = NULL; /* by the running step: its time was taken out of shared memory */

static TimestampTz *
next_of(Maintain *m, Kind *kind)
{
	return (TimestampTz *) ((char *) m->db + kind->next);
}

/* Sets the next look, unless an earlier one is wanted. */
static void
look_at(Maintain *m, Kind *kind, TimestampTz next)
{
	TimestampTz *at = next_of(m, kind);

	SpinLockAcquire(&m->db->mutex);
	*at = Min(*at, next);
	SpinLockRelease(&m->db->mutex);
}

static TimestampTz
due(Maintain *m, Kind *kind)
{
	TimestampTz next;

	SpinLockAcquire(&m->db->mutex);
	next = *next_of(m, kind);
	SpinLockRelease(&m->db->mutex);
	return TIMESTAMP_NOT_FINITE(next) ? next : timestamp_add(next, COLLECT_SLACK);
}

/* Deletes rows that are over, and finds out when the next one is. */
static void
run(Maintain *m, Kind *kind)
{
	TimestampTz now = clock_now();
	TimestampTz next = DT_NOEND;
	Datum args[2] = {TimestampTzGetDatum(now), Int32GetDatum(COLLECT_BATCH)};
	SpiScope scope;
	bool more;
	bool isnull;

	if (!maintain_begin(m))
		return;
	/* what is announced from here on may not be seen below */
	SpinLockAcquire(&m->db->mutex);
	*next_of(m, kind) = DT_NOEND;
	SpinLockRelease(&m->db->mutex);
	collecting = kind;
	spi_begin(&scope);
	more = spi_run(&kind->remove, args, NULL) == COLLECT_BATCH;
	if (!more && spi_run(&kind->find, NULL, NULL) > 0)
	{
		next = DatumGetTimestampTz(spi_value(0, 1, &isnull));
		/* one that is over was locked, or is being taken over */
		next = Max(next, now);
	}
	spi_end(&scope);
	maintain_end(m);
	collecting = NULL;
	look_at(m, kind, more ? DT_NOBEGIN : next);
}

TimestampTz
once_due(Maintain *m)
{
	return due(m, &once_records);
}

void
once_run(Maintain *m)
{
	run(m, &once_records);
}

TimestampTz
windows_due(Maintain *m)
{
	return due(m, &windows);
}

void
windows_run(Maintain *m)
{
	run(m, &windows);
}

/* Of either step: what it took out of shared memory is not known any more. */
void
collect_undo(Maintain *m)
{
	if (collecting)
		look_at(m, collecting, DT_NOBEGIN);
	collecting = NULL;
}
