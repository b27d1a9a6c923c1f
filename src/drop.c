/*-------------------------------------------------------------------------
 *
 * drop.c
 *		drop_queue, purge_queue.
 *
 * A drop waits for whoever has a job of the queue in hand; a purge passes
 * over what it would have to wait for.
 *
 * Whoever enqueued to a queue holds off its drop from just before the commit
 * on, or hears there that it is gone: no job is left without a queue, and
 * none is dropped that was committed after the drop had looked
 * (xact_begin_drop).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "admin.h"
#include "depend.h"
#include "grant.h"
#include "meta.h"
#include "retire.h"
#include "spi.h"
#include "store.h"
#include "turn.h"
#include "waitjob.h"
#include "xact.h"

/* Error 2BP01 when another queue's dead letters go to this one. Inside a scope, under the routes' lock. */
static void
refuse_if_routed_to(const text *name, int32 id)
{
	static SpiStatement find = {
		.sql = "SELECT name FROM jobq.queue WHERE dead_letter_queue = $1 AND id <> $1 ORDER BY name",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {INT4OID}};
	Datum value = Int32GetDatum(id);
	bool isnull;
	char *other;

	if (spi_run(&find, &value, NULL) == 0)
		return;
	other = TextDatumGetCString(spi_value(0, 1, &isnull));
	ereport(
		ERROR,
		(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
		 errmsg("cannot drop queue \"%s\": it is the dead letter queue of queue \"%s\"", text_to_cstring(name), other),
		 errhint("Run SELECT jobq.alter_queue(%s, reset => '{dead_letter_queue}') first.", quote_literal_cstr(other))));
}

/* Error 55006 when the queue has jobs. Inside a scope. */
static void
refuse_if_in_use(const text *name, int32 id)
{
	static SpiStatement look = {
		.sql =
			"SELECT EXISTS (SELECT 1 FROM jobq.ready WHERE queue_id = $1 AND group_id IS NULL)"
			" OR EXISTS (SELECT 1 FROM jobq.job_group g JOIN jobq.line l ON l.group_id = g.id WHERE g.queue_id = $1),"
			" EXISTS (SELECT 1 FROM jobq.delayed WHERE queue_id = $1 AND coalesce(group_id, 0) = 0 AND visible_at < 'infinity'),"
			" EXISTS (SELECT 1 FROM jobq.delayed WHERE queue_id = $1 AND visible_at = 'infinity'),"
			" EXISTS (SELECT 1 FROM jobq.lease l JOIN jobq.job j ON j.id = ANY (l.job_ids) WHERE l.queue_id = $1),"
			" EXISTS (SELECT 1 FROM jobq.dead WHERE queue_id = $1)",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {INT4OID}};
	static const char *const states[] = {"ready jobs", "delayed jobs", "pending jobs", "active jobs", "dead letters"};
	Datum value = Int32GetDatum(id);
	StringInfoData has;
	bool isnull;

	spi_run(&look, &value, NULL);
	initStringInfo(&has);
	for (int i = 0; i < lengthof(states); i++)
		if (DatumGetBool(spi_value(0, i + 1, &isnull)))
			appendStringInfo(&has, "%s%s", has.len > 0 ? " and " : "", states[i]);
	if (has.len > 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
						errmsg("cannot drop queue \"%s\": it still has jobs", text_to_cstring(name)),
						errdetail("It has %s.", has.data),
						errhint("Delete them with jobq.purge_queue(), or with the queue by force => true.")));
}

/* Deletes one queue's rows of a table. Inside a scope. */
static void
delete_from(const char *table, int32 id)
{
	Oid type = INT4OID;
	Datum value = Int32GetDatum(id);

	(void) spi_run_once(psprintf("DELETE FROM jobq.%s WHERE queue_id = $1", table), SPI_OK_DELETE, 1, &type, &value,
						NULL);
}

/* Error 2BP01 when schedules enqueue to the queue. Inside a scope. */
static void
refuse_if_scheduled(const text *name, int32 id)
{
	static SpiStatement find = {
		.sql = "SELECT name, count(*) OVER () FROM jobq.schedule WHERE queue_id = $1 ORDER BY name",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {INT4OID}};
	Datum value = Int32GetDatum(id);
	bool isnull;

	if (spi_run(&find, &value, NULL) == 0)
		return;
	ereport(ERROR, (errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					errmsg("cannot drop queue \"%s\": schedule \"%s\" enqueues to it", text_to_cstring(name),
						   TextDatumGetCString(spi_value(0, 1, &isnull))),
					errdetail("Schedules that do: " INT64_FORMAT ".", DatumGetInt64(spi_value(0, 2, &isnull))),
					errhint("Remove them with jobq.unschedule(), or with the queue by force => true.")));
}

/*
 * Deletes the schedules that enqueue to the queue. Before the drop begins: the scheduler has them locked while it enqueues, and then
 * waits for a drop that has begun. Inside a scope.
 */
static void
delete_schedules(int32 id)
{
	static SpiStatement runs = {
		.sql =
			"DELETE FROM jobq.schedule_run r WHERE NOT EXISTS (SELECT 1 FROM jobq.schedule s WHERE s.name = r.schedule)",
		.result = SPI_OK_DELETE};

	delete_from("schedule", id);
	spi_run(&runs, NULL, NULL);
}

/* Deletes the queue's tickets or leases that a snapshot shows, after whoever holds them; returns whether there were any. */
static bool
delete_visible(JobqTable which, int32 id, Snapshot snapshot)
{
	static const int queue_column[] = {[TABLE_READY] = Anum_ready_queue_id,
									   [TABLE_DELAYED] = Anum_delayed_queue_id,
									   [TABLE_LEASE] = Anum_lease_queue_id,
									   [TABLE_HELD] = Anum_held_queue_id};
	StoreTable *table = store_open(which);
	TupleTableSlot *slot = store_read_slot(table);
	TableScanDesc scan = store_heap_begin(table, snapshot);
	bool any = false;

	while (store_heap_next(scan, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (DatumGetInt32(slot_value(slot, queue_column[which])) != id)
			continue;
		any = true;
		(void) store_delete(table, &slot->tts_tid, true);
	}
	store_heap_end(scan);
	ExecDropSingleTupleTableSlot(slot);
	store_close(table);
	return any;
}

/*
 * Deletes every job of a queue, live, dead and finished. Waits for transactions that have a ticket or a lease in hand. Under the queue's
 * lock, so that no new job comes. Inside a scope.
 */
static void
delete_everything(QueueInfo *queue)
{
	int32 id = queue->id;
	static SpiStatement failures = {
		.sql = "DELETE FROM jobq.failure f USING jobq.job j WHERE j.id = f.job_id AND j.queue_id = $1",
		.result = SPI_OK_DELETE,
		.nargs = 1,
		.argtypes = {INT4OID}};
	static SpiStatement lines = {
		.sql = "DELETE FROM jobq.line l USING jobq.job_group g WHERE g.id = l.group_id AND g.queue_id = $1",
		.result = SPI_OK_DELETE,
		.nargs = 1,
		.argtypes = {INT4OID}};
	static SpiStatement jobs = {.sql = "SELECT id, after_dead IS NOT NULL FROM jobq.job WHERE queue_id = $1",
								.result = SPI_OK_SELECT,
								.nargs = 1,
								.argtypes = {INT4OID}};
	Datum value = Int32GetDatum(id);
	bool any;
	bool isnull;

	/* what we wait for may turn up in another of these tables; one snapshot shows each ticket in one place or another */
	do
	{
		Snapshot snapshot;

		CommandCounterIncrement();
		snapshot = store_snapshot();
		any = delete_visible(TABLE_READY, id, snapshot);
		any |= delete_visible(TABLE_DELAYED, id, snapshot);
		any |= delete_visible(TABLE_LEASE, id, snapshot);
		any |= delete_visible(TABLE_HELD, id, snapshot);
		store_snapshot_done(snapshot);
	} while (any);
	/* until this is committed, others may come to wait for them, and to be waited for by batches */
	for (uint64 i = spi_run(&jobs, &value, NULL); i > 0; i--)
	{
		int64 job_id = DatumGetInt64(spi_value(i - 1, 1, &isnull));

		depend_ended(queue, job_id, ENDED_REMOVED);
		if (DatumGetBool(spi_value(i - 1, 2, &isnull)))
			depend_note(DEPEND_LEFT, job_id, 0);
	}
	spi_run(&failures, &value, NULL);
	spi_run(&lines, &value, NULL);
	delete_from("job_group", id);
	delete_from("group_setting", id);
	delete_from("group_rate", id);
	delete_from("handler", id);
	delete_from("unique_window", id);
	delete_from("job", id);
	delete_from("dead", id);
	for (int i = 0; i < HISTORY_RING; i++)
		delete_from(psprintf("history_%d", i), id);
	delete_from("history_far", id);
	waitjob_ended = PG_UINT64_MAX;
}

/*
 * drop_queue(name, force). Without force refused while the queue has jobs or dead letters; its history goes with it. With force they are
 * deleted, and who works on one hears JQ001. Errors: 42704 unknown; 55006 it has jobs; 2BP01 it is another's dead letter queue.
 */
PG_FUNCTION_INFO_V1(jobq_drop_queue);
Datum
jobq_drop_queue(PG_FUNCTION_ARGS)
{
	static SpiStatement drop = {
		.sql = "DELETE FROM jobq.queue WHERE id = $1", .result = SPI_OK_DELETE, .nargs = 1, .argtypes = {INT4OID}};
	DbSlot *db = meta_begin("drop_queue", VERB_WRITES);
	QueueInfo *queue;
	text *name;
	SpiScope scope;
	Datum value;
	int32 id;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("%s must not be null", PG_ARGISNULL(0) ? "name" : "force")));
	name = PG_GETARG_TEXT_PP(0);

	(void) grant_queue(name, RIGHT_OWN);
	xact_verb_begin(db);
	admin_lock_name(name, ExclusiveLock);
	admin_lock_routes();
	(void) grant_queue(name, RIGHT_OWN); /* it may be another one by now */
	spi_begin(&scope);
	id = admin_queue_id(name);
	if (id == 0)
		admin_no_such_queue(name);
	queue = meta_queue_by_id(id);
	if (queue == NULL)
		admin_no_such_queue(name);
	if (PG_GETARG_BOOL(1))
		delete_schedules(id);
	else
		refuse_if_scheduled(name, id);
	xact_begin_drop(queue);
	refuse_if_routed_to(name, id);
	if (!PG_GETARG_BOOL(1))
		refuse_if_in_use(name, id);
	delete_everything(queue);
	value = Int32GetDatum(id);
	spi_run(&drop, &value, NULL);
	spi_end(&scope);
	xact_dropped_queue(queue);
	xact_verb_end(false);
	PG_RETURN_VOID();
}

/* What a purge is to delete. */
typedef struct PurgeStates
{
	bool ready;
	bool delayed;
	bool pending;
	bool dead;
	bool completed;
} PurgeStates;

/* Errors: 22023 unknown state or active; 22004 a null among them. */
static void
read_states(FunctionCallInfo fcinfo, PurgeStates *states)
{
	Datum *elements;
	bool *nulls;
	int n;

	memset(states, 0, sizeof(*states));
	if (PG_ARGISNULL(1))
		return;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		char *state;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("states must not contain nulls")));
		state = TextDatumGetCString(elements[i]);
		if (strcmp(state, "ready") == 0)
			states->ready = true;
		else if (strcmp(state, "delayed") == 0)
			states->delayed = true;
		else if (strcmp(state, "pending") == 0)
			states->pending = true;
		else if (strcmp(state, "dead") == 0)
			states->dead = true;
		else if (strcmp(state, "completed") == 0)
			states->completed = true;
		else if (strcmp(state, "active") == 0)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("active jobs cannot be purged"),
							errhint("Cancel them with jobq.cancel(), or drop the queue with force => true.")));
		else
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no state \"%s\" to purge", state),
					 errhint("The states are ready, delayed, pending, dead and completed.")));
	}
}

/* Deletes the jobs of tickets that we have deleted; returns how many there were. */
static int64
delete_jobs_of(Retire *retire, QueueInfo *queue, TupleTableSlot *slot, Ticket *tickets, int n)
{
	Snapshot snapshot =
		store_snapshot(); /* later than the tickets' deletes: nobody else can change the jobs any more */
	int64 deleted = 0;

	for (int i = 0; i < n; i++)
		if (store_job_fetch(retire->job, snapshot, tickets[i].job_id, &tickets[i].job_tid, slot) &&
			retire_delete(retire, queue, slot))
			deleted++;
	ExecClearTuple(slot);
	store_snapshot_done(snapshot);
	return deleted;
}

/*
 * Deletes a queue's jobs that wait in ready or delayed, without waiting for those that somebody is taking; returns how many. pending:
 * those in delayed that wait for others.
 */
static int64
purge_waiting(QueueInfo *queue, JobqTable which, bool pending)
{
	StoreTable *table = store_open(which);
	Snapshot snapshot = store_snapshot();
	Ticket *tickets = palloc(STORE_BATCH * sizeof(Ticket));
	TupleTableSlot *slot;
	Retire retire;
	ScanKeyData key;
	StoreScan scan;
	int n = 0;
	int64 deleted = 0;

	retire_begin(&retire);
	slot = store_read_slot(retire.job);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue->id));
	store_scan_begin(&scan, table, which == TABLE_READY ? INDEX_READY_SCAN : INDEX_DELAYED_DUE, snapshot, &key, 1);
	while (store_scan_next(&scan))
	{
		Ticket *ticket = &tickets[n];

		CHECK_FOR_INTERRUPTS();
		store_ticket_read(which, scan.slot, ticket);
		if (TIMESTAMP_IS_NOEND(ticket->visible_at) != pending)
			continue;
		if (ticket->group_id > 0 || store_delete(table, &ticket->tid, false) != TM_Ok)
			continue; /* a group's ticket goes with its last job */
		xact_count(queue, ticket_counter(which, ticket), -1);
		if (which == TABLE_READY)
			xact_took_ready(queue, ticket->lane, ticket->priority, ticket->seq);
		if (++n == STORE_BATCH)
		{
			deleted += delete_jobs_of(&retire, queue, slot, tickets, n);
			n = 0;
		}
	}
	store_scan_end(&scan);
	deleted += delete_jobs_of(&retire, queue, slot, tickets, n);
	ExecDropSingleTupleTableSlot(slot);
	retire_end(&retire);
	store_snapshot_done(snapshot);
	store_close(table);
	return deleted;
}

/* Deletes the jobs that wait in one group's line; returns how many. */
static int64
purge_line(QueueInfo *queue, StoreTable *line, Retire *retire, Snapshot snapshot, int64 group_id, const text *key)
{
	TupleTableSlot *job = store_read_slot(retire->job);
	StoreScan scan;
	int64 deleted = 0;

	store_line_scan(&scan, line, snapshot, group_id, PG_INT64_MIN);
	while (store_scan_next(&scan))
	{
		LineRow row;
		Snapshot later;

		CHECK_FOR_INTERRUPTS();
		store_line_read(scan.slot, &row);
		if (store_delete(line, &row.tid, false) != TM_Ok)
			continue;
		xact_count(queue, COUNT_READY, -1);
		line_left(queue, key, row.ord);
		later = store_snapshot();
		if (store_job_fetch(retire->job, later, row.job_id, &row.job_tid, job) && retire_delete(retire, queue, job))
			deleted++;
		store_snapshot_done(later);
	}
	store_scan_end(&scan);
	ExecDropSingleTupleTableSlot(job);
	return deleted;
}

/* Deletes the jobs that wait in the lines of a queue's groups, without waiting for those that somebody is taking; returns how many. */
static int64
purge_lines(QueueInfo *queue)
{
	StoreTable *job_group = store_open(TABLE_JOB_GROUP);
	StoreTable *line = store_open(TABLE_LINE);
	Snapshot snapshot = store_snapshot();
	Retire retire;
	ScanKeyData key;
	StoreScan scan;
	int64 deleted = 0;

	retire_begin(&retire);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue->id));
	store_scan_begin(&scan, job_group, INDEX_JOB_GROUP_KEY, snapshot, &key, 1);
	while (store_scan_next(&scan))
		deleted += purge_line(queue, line, &retire, snapshot, DatumGetInt64(slot_value(scan.slot, Anum_job_group_id)),
							  DatumGetTextPP(slot_value(scan.slot, Anum_job_group_group_key)));
	store_scan_end(&scan);
	retire_end(&retire);
	store_snapshot_done(snapshot);
	store_close(line);
	store_close(job_group);
	return deleted;
}

/* Deletes a queue's dead letters but for those that somebody is redriving or deleting; returns how many. */
static int64
purge_dead(QueueInfo *queue)
{
	StoreTable *table = store_open(TABLE_DEAD);
	Snapshot snapshot = store_snapshot();
	ScanKeyData key;
	StoreScan scan;
	HeldRow held;
	Datum key_datum;
	bool isnull;
	int64 deleted = 0;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue->id));
	store_scan_begin(&scan, table, INDEX_DEAD_QUEUE, snapshot, &key, 1);
	while (store_scan_next(&scan))
	{
		ItemPointerData tid = scan.slot->tts_tid;

		CHECK_FOR_INTERRUPTS();
		if (store_delete(table, &tid, false) != TM_Ok)
			continue;
		deleted++;
		key_datum = slot_datum(scan.slot, Anum_dead_group_key, &isnull);
		/* a group that it blocks goes on */
		if (!isnull)
			(void) turn_unblock(queue, DatumGetTextPP(key_datum), DatumGetInt64(slot_value(scan.slot, Anum_dead_id)),
								&held);
	}
	store_scan_end(&scan);
	store_snapshot_done(snapshot);
	store_close(table);
	xact_count(queue, COUNT_DEAD, -deleted);
	return deleted;
}

/* Deletes a queue's rows of one history table, which has no index by queue; returns how many. */
static int64
purge_history(QueueInfo *queue, JobqTable which)
{
	StoreTable *table = store_open(which);
	Snapshot snapshot = store_snapshot();
	TupleTableSlot *slot = store_read_slot(table);
	TableScanDesc scan = store_heap_begin(table, snapshot);
	int64 deleted = 0;

	while (store_heap_next(scan, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (DatumGetInt32(slot_value(slot, Anum_history_queue_id)) == queue->id &&
			store_delete(table, &slot->tts_tid, false) == TM_Ok)
			deleted++;
	}
	store_heap_end(scan);
	ExecDropSingleTupleTableSlot(slot);
	store_snapshot_done(snapshot);
	store_close(table);
	return deleted;
}

/*
 * purge_queue(queue, states) -> number of jobs deleted. States: ready, delayed, pending, dead, completed (all that is in the history). Waits for
 * nobody: what another transaction has in hand stays. Errors: 42704 unknown queue; 22023 unknown state, or active.
 */
PG_FUNCTION_INFO_V1(jobq_purge_queue);
Datum
jobq_purge_queue(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("purge_queue", VERB_WRITES);
	QueueInfo *queue = grant_queue_arg(fcinfo, 0, RIGHT_MANAGE);
	PurgeStates states;
	int64 deleted = 0;

	read_states(fcinfo, &states);
	xact_verb_begin(db);
	if (states.ready)
		deleted += purge_waiting(queue, TABLE_READY, false) + purge_lines(queue);
	if (states.delayed)
		deleted += purge_waiting(queue, TABLE_DELAYED, false);
	if (states.pending)
		deleted += purge_waiting(queue, TABLE_DELAYED, true);
	if (states.dead)
		deleted += purge_dead(queue);
	for (JobqTable which = TABLE_HISTORY; states.completed && which < NUM_TABLES; which++)
		deleted += purge_history(queue, which);
	xact_verb_end(false);
	PG_RETURN_INT64(deleted);
}
