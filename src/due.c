/*-------------------------------------------------------------------------
 *
 * due.c
 *		Times that a transaction tells the scheduler when it commits: the
 *		ends of times to live, and of unique keys' windows.
 *
 * They are not undone by subtransactions: a look too early is harmless. A
 * prepared transaction tells nothing; the rescan after it finds out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/timestamp.h"

#include "due.h"
#include "meta.h"

static DbSlot *db = NULL;
static TimestampTz expiry = DT_NOEND;
static TimestampTz window = DT_NOEND;

void
due_expiry(TimestampTz expires)
{
	db = meta_db();
	expiry = Min(expiry, expires);
}

void
due_window(TimestampTz until)
{
	db = meta_db();
	window = Min(window, until);
}

/* After a commit is visible: nothing here can fail. */
static void
tell(void)
{
	bool wake = false;

	SpinLockAcquire(&db->mutex);
	db->expiry_low = Min(db->expiry_low, expiry);
	if (expiry < db->next_expiry)
	{
		db->next_expiry = expiry;
		wake = true;
	}
	else if (TIMESTAMP_IS_NOBEGIN(db->next_expiry) && !TIMESTAMP_IS_NOEND(expiry))
		wake = true; /* not known: the scheduler has not looked yet */
	if (window < db->next_window)
	{
		db->next_window = window;
		wake = true;
	}
	SpinLockRelease(&db->mutex);
	if (wake)
		shmem_wake_scheduler(db);
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	if (event == XACT_EVENT_COMMIT && (!TIMESTAMP_IS_NOEND(expiry) || !TIMESTAMP_IS_NOEND(window)))
		tell();
	expiry = window = DT_NOEND;
}

/* Registers the callback. Called once, from _PG_init. */
void
due_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}
