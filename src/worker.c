/*-------------------------------------------------------------------------
 *
 * worker.c
 *		Habits that the background workers of a database share.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/guc.h"
#include "utils/inval.h"

#include "meta.h"
#include "worker.h"

/* Sets what ALTER ROLE or ALTER DATABASE may have changed, so that RESET comes back to it; settings that this server has not are left out. */
void
worker_fix_settings(const WorkerSetting *settings, int n)
{
	for (int i = 0; i < n; i++)
		if (GetConfigOption(settings[i].name, true, false) != NULL)
			SetConfigOption(settings[i].name, settings[i].value, PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * First act of a worker's transaction: holds the extension until its end. Whoever drops or updates it waits for this transaction, not
 * this transaction for them. With another answer than WORKER_OK the caller aborts the transaction.
 */
WorkerHold
worker_hold_extension(Oid ext_oid)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, ext_oid, 0);
	if (LockAcquire(&tag, AccessShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return WORKER_BLOCKED;
	AcceptInvalidationMessages();
	if (meta_extension_oid(true) != ext_oid)
		return WORKER_GONE;
	return meta_adopted() ? WORKER_OK : WORKER_NOT_ADOPTED;
}
