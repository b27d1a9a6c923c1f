/*-------------------------------------------------------------------------
 *
 * window.c
 *		The step that collects windows of unique keys that are over.
 *
 * Nobody waits for it: who wants such a key takes it, and ends the window.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/timestamp.h"

#include "maintain.h"
#include "spi.h"
#include "timeutil.h"

/* How long a window may lie around that is over: many are deleted together. */
#define COLLECT_SLACK (60 * USECS_PER_SEC)
#define COLLECT_BATCH 500

static bool collecting = false;

/* Sets the next look, unless an earlier one is wanted. */
static void
look_at(Maintain *m, TimestampTz next)
{
	SpinLockAcquire(&m->db->mutex);
	m->db->next_window = Min(m->db->next_window, next);
	SpinLockRelease(&m->db->mutex);
}

/* The earliest window is over. */
TimestampTz
windows_due(Maintain *m)
{
	TimestampTz next;

	SpinLockAcquire(&m->db->mutex);
	next = m->db->next_window;
	SpinLockRelease(&m->db->mutex);
	return TIMESTAMP_NOT_FINITE(next) ? next : timestamp_add(next, COLLECT_SLACK);
}

/* Deletes windows that are over, and finds out when the next one is. */
void
windows_run(Maintain *m)
{
	static SpiStatement collect = {
		.sql = "DELETE FROM jobq.unique_window WHERE ctid = ANY (ARRAY(SELECT ctid FROM jobq.unique_window"
			   " WHERE until <= $1 ORDER BY until LIMIT $2 FOR UPDATE SKIP LOCKED))",
		.result = SPI_OK_DELETE,
		.nargs = 2,
		.argtypes = {TIMESTAMPTZOID, INT4OID}};
	static SpiStatement find = {.sql = "SELECT until FROM jobq.unique_window ORDER BY until LIMIT 1",
								.result = SPI_OK_SELECT};
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
	m->db->next_window = DT_NOEND;
	SpinLockRelease(&m->db->mutex);
	collecting = true;
	spi_begin(&scope);
	more = spi_run(&collect, args, NULL) == COLLECT_BATCH;
	if (!more && spi_run(&find, NULL, NULL) > 0)
	{
		next = DatumGetTimestampTz(spi_value(0, 1, &isnull));
		/* one that is over was locked, or is being taken over */
		next = Max(next, now);
	}
	spi_end(&scope);
	maintain_end(m);
	collecting = false;
	look_at(m, more ? DT_NOBEGIN : next);
}

void
windows_undo(Maintain *m)
{
	if (collecting)
		look_at(m, DT_NOBEGIN);
	collecting = false;
}
