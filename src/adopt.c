/*-------------------------------------------------------------------------
 *
 * adopt.c
 *		adopt: a copy of a database begins a life of its own.
 *
 * Until then it runs nothing: its jobs are the original's. The leases that
 * came with the copy belong to workers of the original; their jobs go back
 * to ready here, no attempt counted, and their tokens are worth nothing: the
 * copy's own are of a new generation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"

#include "ident.h"
#include "meta.h"
#include "retire.h"
#include "spi.h"
#include "store.h"
#include "turn.h"
#include "xact.h"

/* Gives the unfinished jobs of a lease back that we have deleted. */
static void
requeue_jobs(Retire *retire, TupleTableSlot *job, const Lease *lease)
{
	QueueInfo *queue = meta_queue_by_id(lease->queue_id);
	Snapshot snapshot = store_snapshot(); /* later than the lease's delete */
	TurnEnd e;

	if (queue && lease->group_id > 0)
		turn_end_begin(&e, retire, queue, lease);
	for (int i = 0; queue && i < lease->njobs; i++)
	{
		ItemPointerData hint = lease->job_tids[i];

		if (!store_job_fetch(retire->job, snapshot, lease->job_ids[i], &hint, job))
			continue;
		xact_count(queue, COUNT_ACTIVE, -1);
		if (lease->group_id > 0)
		{
			Attempt attempt = retire_attempt(lease, i);

			turn_return(&e, i, job, &attempt, DT_NOBEGIN);
		}
		else
			retire_requeue(retire, queue, job, lease->attempts[i] - 1, retire->now);
	}
	if (queue && lease->group_id > 0)
		turn_over(&e);
	store_snapshot_done(snapshot);
}

/* Ends every lease. */
static void
end_leases(void)
{
	StoreTable *table = store_open(TABLE_LEASE);
	TupleTableSlot *slot = store_read_slot(table);
	Snapshot snapshot = store_snapshot();
	TableScanDesc scan = store_heap_begin(table, snapshot);
	Lease *lease = palloc(sizeof(Lease));
	TupleTableSlot *job;
	Retire retire;

	retire_begin(&retire);
	job = store_read_slot(retire.job);
	while (store_heap_next(scan, slot))
	{
		CHECK_FOR_INTERRUPTS();
		store_lease_read(slot, lease);
		if (store_lease_lock(table, lease, LEASE_EXCLUSIVE, true) == TM_Ok &&
			store_delete(table, &lease->tid, true) == TM_Ok)
			requeue_jobs(&retire, job, lease);
	}
	store_heap_end(scan);
	retire_end(&retire);
	ExecDropSingleTupleTableSlot(job);
	ExecDropSingleTupleTableSlot(slot);
	store_snapshot_done(snapshot);
	store_close(table);
}

/* Numbers go on behind those that the tables hold, whatever the sequences say: logical replication does not carry them. */
static void
raise_numbers(void)
{
	static SpiStatement look = {
		.sql =
			"SELECT greatest((SELECT max(id) FROM jobq.job), (SELECT max(seq) FROM jobq.ready), (SELECT max(id) FROM jobq.dead),"
			" (SELECT max(id) FROM jobq.job_group), (SELECT max(greatest(ord, ver)) FROM jobq.line),"
			" (SELECT max(dead_ord) FROM jobq.held), (SELECT max(ords[cardinality(ords)]) FROM jobq.lease),"
			" (SELECT max(id) FROM jobq.history), 0),"
			" greatest((SELECT max(token) FROM jobq.lease), (SELECT max(token) FROM jobq.resource_fence),"
			" (SELECT max(token) FROM jobq.history), 0)",
		.result = SPI_OK_SELECT};
	static SpiStatement queue_ids = {
		.sql = "SELECT setval('jobq.queue_id_seq', m.id) FROM (SELECT greatest((SELECT max(id) FROM jobq.queue),"
			   " (SELECT max(queue_id) FROM jobq.dead), (SELECT max(queue_id) FROM jobq.history)) AS id) m,"
			   " jobq.queue_id_seq s WHERE m.id >= s.last_value",
		.result = SPI_OK_SELECT};
	SpiScope scope;
	int64 id;
	int64 token;
	bool isnull;

	spi_begin(&scope);
	spi_run(&look, NULL, NULL);
	id = DatumGetInt64(spi_value(0, 1, &isnull));
	token = DatumGetInt64(spi_value(0, 2, &isnull));
	spi_run(&queue_ids, NULL, NULL);
	spi_end(&scope);
	ident_raise_generation(id, token);
}

/* Makes this database the origin of its jobs, under a new identity: the old ones may have come along with the copy. */
static void
write_identity(void)
{
	static SpiStatement forget = {.sql = "DELETE FROM jobq.identity", .result = SPI_OK_DELETE};
	static SpiStatement make = {.sql = "INSERT INTO jobq.identity SELECT gen_random_uuid(), $1",
								.result = SPI_OK_INSERT,
								.nargs = 1,
								.argtypes = {OIDOID}};
	static SpiStatement clear = {.sql = "DELETE FROM jobq.origin", .result = SPI_OK_DELETE};
	static SpiStatement note = {.sql = "INSERT INTO jobq.origin SELECT id FROM jobq.identity", .result = SPI_OK_INSERT};
	Datum db = ObjectIdGetDatum(MyDatabaseId);
	SpiScope scope;

	spi_begin(&scope);
	spi_run(&forget, NULL, NULL);
	spi_run(&make, &db, NULL);
	spi_run(&clear, NULL, NULL);
	spi_run(&note, NULL, NULL);
	spi_end(&scope);
}

/*
 * adopt(): lets this copy of a database run the jobs in it, from the commit on. Changes nothing where that is so already. For the
 * extension's owner and superusers (42501).
 */
PG_FUNCTION_INFO_V1(jobq_adopt);
Datum
jobq_adopt(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("adopt", VERB_WRITES);

	if (!superuser() && !has_privs_of_role(GetUserId(), spi_owner()))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied to adopt the jobs of this database"),
						errhint("Only a superuser or the owner of the extension may.")));

	LockRelationOid(meta_table_oid(TABLE_ORIGIN), ShareRowExclusiveLock);
	if (meta_adopted())
		PG_RETURN_VOID();
	xact_verb_begin(db);
	raise_numbers();
	end_leases();
	write_identity();
	meta_settings_changed();
	xact_register_database(meta_extension_oid(false));
	xact_verb_end(false);
	PG_RETURN_VOID();
}
