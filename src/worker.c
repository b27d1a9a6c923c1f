/*-------------------------------------------------------------------------
 *
 * worker.c
 *		What the background workers have in common: how they are started, and
 *		their habits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_extension.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/guc.h"
#include "utils/inval.h"

#include "meta.h"
#include "worker.h"

/* Fills in what all workers have in common. They run where writing is allowed: on a standby after its promotion. */
void
worker_describe(BackgroundWorker *worker, const char *kind)
{
	memset(worker, 0, sizeof(*worker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker->bgw_library_name, "jobq", sizeof(worker->bgw_library_name));
	snprintf(worker->bgw_function_name, sizeof(worker->bgw_function_name), "jobq_%s_main", kind);
	snprintf(worker->bgw_name, sizeof(worker->bgw_name), "jobq %s", kind);
	snprintf(worker->bgw_type, sizeof(worker->bgw_type), "jobq %s", kind);
}

/*
 * Has the postmaster start a worker in a database, and tell this process of its start and its end. number: what its main function gets.
 * False: there is no free worker slot.
 */
bool
worker_start(const char *kind, Oid db_oid, int number, BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker;

	worker_describe(&worker, kind);
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "jobq %s for database %u", kind, db_oid);
	worker.bgw_main_arg = Int32GetDatum(number);
	worker.bgw_notify_pid = MyProcPid;
	memcpy(worker.bgw_extra, &db_oid, sizeof(db_oid));
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

/*
 * Connects a worker to its database. The settings are those that ALTER ROLE or ALTER DATABASE may have changed; RESET comes back to
 * what is given here. Settings that this server has not are left out.
 */
void
worker_connect(const WorkerSetting *settings, int n)
{
	Oid db_oid;

	memcpy(&db_oid, MyBgworkerEntry->bgw_extra, sizeof(db_oid));
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(db_oid, InvalidOid, 0);
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
