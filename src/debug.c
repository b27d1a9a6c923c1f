/*-------------------------------------------------------------------------
 *
 * debug.c
 *		Debug points: a session whose jobq.debug_point names the point takes
 *		and lets go the advisory lock hashtext(name), so that a test that
 *		holds this lock decides when the session goes on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "debug.h"

#ifdef JOBQ_DEBUG
#include "common/hashfn.h"
#include "storage/lock.h"
#include "utils/fmgrprotos.h"
#include "miscadmin.h"
#include "catalog/pg_collation.h"
#include "utils/builtins.h"

#include "guc.h"

/* Waits while another session holds pg_advisory_lock(hashtext(name)). Not to be called under an LWLock. */
void
debug_point(const char *name)
{
	LOCKTAG tag;
	int64 key;

	if (jobq_debug_point == NULL || strstr(jobq_debug_point, name) == NULL)
		return;
	key = DatumGetInt32(DirectFunctionCall1Coll(hashtext, C_COLLATION_OID, CStringGetTextDatum(name)));
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (key >> 32), (uint32) key, 1);
	(void) LockAcquire(&tag, ShareLock, true, false);
	LockRelease(&tag, ShareLock, true);
}
#endif
