/*-------------------------------------------------------------------------
 *
 * flush.c
 *		Whether a commit waits for the disk.
 *
 * A transaction that did nothing but what a crash may undo without harm (the
 * dequeue of first attempts, extend) need not: the crash gives its jobs
 * back. That nobody else wrote in it shows in the WAL: it ends where our
 * last verb ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"

#include "flush.h"
#include "guc.h"

static XLogRecPtr last_end = InvalidXLogRecPtr;
static bool only_ours = false;
static bool must_flush = false;
static int saved_synchronous_commit = -1;

/* What WAL was written since the last verb is somebody else's. first: of the transaction. */
void
flush_verb_begin(bool first)
{
	if (first)
	{
		only_ours = XLogRecPtrIsInvalid(XactLastRecEnd);
		must_flush = false;
	}
	else if (XactLastRecEnd != last_end)
		only_ours = false;
}

void
flush_verb_end(bool may_be_lost)
{
	must_flush |= !may_be_lost;
	last_end = XactLastRecEnd;
}

/* Last act before the commit. */
void
flush_choose(void)
{
	if (jobq_async_dequeue && only_ours && !must_flush && XactLastRecEnd == last_end &&
		synchronous_commit > SYNCHRONOUS_COMMIT_OFF)
	{
		saved_synchronous_commit = synchronous_commit;
		synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	}
}

/* After the transaction has ended, either way. */
void
flush_restore(void)
{
	if (saved_synchronous_commit >= 0)
		synchronous_commit = saved_synchronous_commit;
	saved_synchronous_commit = -1;
}
