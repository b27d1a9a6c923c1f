/*-------------------------------------------------------------------------
 *
 * groupadmin.c
 *		alter_group, pause_group, resume_group, unblock_group: verbs about one
 *		group, whether it has jobs or not.
 *
 * Settings lie in a row of their own, by the group's key; a change is noted
 * for pre-commit, where the group's ticket, if nobody has it in hand, goes
 * where it belongs now. Who has it in hand looks at the settings itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "args.h"
#include "grant.h"
#include "line.h"
#include "meta.h"
#include "redrive.h"
#include "spi.h"
#include "turn.h"
#include "xact.h"

/* The group that a verb is about: its arguments queue and group_key. */
typedef struct GroupArg
{
	QueueInfo *queue;
	text *key;
} GroupArg;

/* Errors: 22004 null; 22023 bad key; 42704 unknown queue. The queue is not dropped until the transaction ends. */
static GroupArg
group_arg(FunctionCallInfo fcinfo, DbSlot *db)
{
	GroupArg group;

	group.queue = grant_queue_arg(fcinfo, 0, RIGHT_MANAGE);
	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("group_key must not be null")));
	group.key = arg_text(fcinfo, 1, "group_key", JOBQ_MAX_NAME);
	xact_verb_begin(db);
	xact_lock_queue(group.queue->id, ShareLock);
	group.queue = grant_queue_arg(fcinfo, 0, RIGHT_MANAGE);
	return group;
}

/* Names of the settings that alter_group changes; their order is that of its arguments. */
enum
{
	GROUP_WEIGHT,
	GROUP_LEASE,
	GROUP_RATE_LIMIT,
	GROUP_RATE_INTERVAL,
	NUM_GROUP_SETTINGS
};
static const char *const setting_names[NUM_GROUP_SETTINGS] = {"weight", "lease", "rate_limit", "rate_interval"};

/* Which settings go back to the queue's. Errors: 22023 unknown, or also given; 22004 a null among them. */
static void
read_reset(FunctionCallInfo fcinfo, int argno, const char *nulls, Datum *reset)
{
	Datum *elements;
	bool *element_nulls;
	int n;

	for (int s = 0; s < NUM_GROUP_SETTINGS; s++)
		reset[s] = BoolGetDatum(false);
	if (PG_ARGISNULL(argno))
		return;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argno), TEXTOID, -1, false, TYPALIGN_INT, &elements, &element_nulls, &n);
	for (int i = 0; i < n; i++)
	{
		char *name;
		int s = 0;

		if (element_nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("reset must not contain nulls")));
		name = TextDatumGetCString(elements[i]);
		while (s < NUM_GROUP_SETTINGS && strcmp(setting_names[s], name) != 0)
			s++;
		if (s == NUM_GROUP_SETTINGS)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no group setting \"%s\"", name),
							errhint("The settings are weight, lease, rate_limit and rate_interval.")));
		if (nulls[s] == ' ')
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("setting \"%s\" is both given and reset", name)));
		reset[s] = BoolGetDatum(true);
	}
}

/* Forgets a group's row of settings that says nothing. Inside a scope. */
static void
drop_empty_settings(Datum *group)
{
	static SpiStatement forget = {
		.sql = "DELETE FROM jobq.group_setting WHERE queue_id = $1 AND group_key = $2 AND NOT paused"
			   " AND weight IS NULL AND lease IS NULL AND rate_limit IS NULL AND rate_interval IS NULL",
		.result = SPI_OK_DELETE,
		.nargs = 2,
		.argtypes = {INT4OID, TEXTOID}};

	(void) spi_run(&forget, group, NULL);
}

/*
 * alter_group(queue, group_key, weight, lease, rate_limit, rate_interval, reset): null leaves a setting as it is; reset names those that
 * go back to the queue's. Errors: 22004, 22023 bad argument; 42704 unknown queue.
 */
PG_FUNCTION_INFO_V1(jobq_alter_group);
Datum
jobq_alter_group(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("alter_group", VERB_WRITES);
	static Oid types[2 + 2 * NUM_GROUP_SETTINGS] = {INT4OID,     TEXTOID, INT4OID, INTERVALOID, INT4OID,
													INTERVALOID, BOOLOID, BOOLOID, BOOLOID,     BOOLOID};
	Datum values[2 + 2 * NUM_GROUP_SETTINGS];
	char nulls[2 + 2 * NUM_GROUP_SETTINGS];
	GroupArg group = group_arg(fcinfo, db);
	SpiScope scope;

	memset(nulls, ' ', sizeof(nulls));
	(void) arg_int32_range(fcinfo, 2 + GROUP_WEIGHT, "weight", 1, 1, JOBQ_MAX_WEIGHT);
	(void) arg_interval(fcinfo, 2 + GROUP_LEASE, "lease", 0, 1000, JOBQ_MAX_LEASE_USECS);
	(void) arg_int32_range(fcinfo, 2 + GROUP_RATE_LIMIT, "rate_limit", 1, 1, 1000000);
	(void) arg_interval(fcinfo, 2 + GROUP_RATE_INTERVAL, "rate_interval", 0, 1000, JOBQ_MAX_DELAY_USECS);
	values[0] = Int32GetDatum(group.queue->id);
	values[1] = PointerGetDatum(group.key);
	for (int s = 0; s < NUM_GROUP_SETTINGS; s++)
	{
		values[2 + s] = PG_ARGISNULL(2 + s) ? (Datum) 0 : PG_GETARG_DATUM(2 + s);
		nulls[2 + s] = PG_ARGISNULL(2 + s) ? 'n' : ' ';
	}
	read_reset(fcinfo, 2 + NUM_GROUP_SETTINGS, nulls + 2, values + 2 + NUM_GROUP_SETTINGS);

	spi_begin(&scope);
	(void) spi_run_once(
		"INSERT INTO jobq.group_setting AS s (queue_id, group_key, weight, lease, rate_limit, rate_interval)"
		" VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (queue_id, group_key) DO UPDATE SET"
		" weight = CASE WHEN $7 THEN NULL ELSE coalesce(excluded.weight, s.weight) END,"
		" lease = CASE WHEN $8 THEN NULL ELSE coalesce(excluded.lease, s.lease) END,"
		" rate_limit = CASE WHEN $9 THEN NULL ELSE coalesce(excluded.rate_limit, s.rate_limit) END,"
		" rate_interval = CASE WHEN $10 THEN NULL ELSE coalesce(excluded.rate_interval, s.rate_interval) END",
		SPI_OK_INSERT, lengthof(types), types, values, nulls);
	drop_empty_settings(values);
	spi_end(&scope);
	line_look(group.queue, group.key);
	xact_verb_end(false);
	PG_RETURN_VOID();
}

static void
set_paused(FunctionCallInfo fcinfo, DbSlot *db, bool paused)
{
	static SpiStatement pause = {
		.sql = "INSERT INTO jobq.group_setting AS s (queue_id, group_key, paused) VALUES ($1, $2, true)"
			   " ON CONFLICT (queue_id, group_key) DO UPDATE SET paused = true WHERE NOT s.paused",
		.result = SPI_OK_INSERT,
		.nargs = 2,
		.argtypes = {INT4OID, TEXTOID}};
	static SpiStatement resume = {
		.sql = "UPDATE jobq.group_setting SET paused = false WHERE queue_id = $1 AND group_key = $2 AND paused",
		.result = SPI_OK_UPDATE,
		.nargs = 2,
		.argtypes = {INT4OID, TEXTOID}};
	GroupArg group = group_arg(fcinfo, db);
	Datum values[2] = {Int32GetDatum(group.queue->id), PointerGetDatum(group.key)};
	SpiScope scope;

	spi_begin(&scope);
	(void) spi_run(paused ? &pause : &resume, values, NULL);
	if (!paused)
		drop_empty_settings(values);
	spi_end(&scope);
	if (paused || !turn_unpause(group.queue, group.key))
		line_look(group.queue, group.key);
	xact_verb_end(false);
}

/*
 * pause_group(queue, group_key): nothing of the group is leased by a dequeue that begins after this commits; a running job goes on, and
 * the group stops after it. Harmless when paused already; for groups that have no jobs too. Errors: 22004, 22023, 42704.
 */
PG_FUNCTION_INFO_V1(jobq_pause_group);
Datum
jobq_pause_group(PG_FUNCTION_ARGS)
{
	set_paused(fcinfo, meta_begin("pause_group", VERB_WRITES), true);
	PG_RETURN_VOID();
}

/* resume_group(queue, group_key): undoes pause_group. */
PG_FUNCTION_INFO_V1(jobq_resume_group);
Datum
jobq_resume_group(PG_FUNCTION_ARGS)
{
	set_paused(fcinfo, meta_begin("resume_group", VERB_WRITES), false);
	PG_RETURN_VOID();
}

/*
 * unblock_group(queue, group_key, head): a group that is blocked by a dead job goes on: with that job again ('retry': it returns to its
 * place, its attempts counted anew) or without it ('skip'). Errors: 22004, 22023, 42704; 55000 not blocked, or no dead letter to retry.
 */
PG_FUNCTION_INFO_V1(jobq_unblock_group);
Datum
jobq_unblock_group(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("unblock_group", VERB_WRITES);
	GroupArg group = group_arg(fcinfo, db);
	const char *head = PG_ARGISNULL(2) ? "retry" : text_to_cstring(PG_GETARG_TEXT_PP(2));
	bool retry = strcmp(head, "retry") == 0;
	HeldRow held;
	int64 holder = 0;

	if (!retry && strcmp(head, "skip") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid head \"%s\"", head),
						errhint("It is retry or skip.")));
	/* the ticket first: who ends the block at the same time is waited for */
	if (!turn_unblock(group.queue, group.key, 0, &held))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("group \"%s\" of queue \"%s\" is not blocked", text_to_cstring(group.key), group.queue->name),
				 errhint("The view jobq.groups shows what it waits for.")));
	if (retry && !redrive_held(group.queue, &held, &holder))
	{
		if (holder != 0)
			ereport(
				ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job " INT64_FORMAT
						", which blocks group \"%s\" of queue \"%s\", cannot come back: job " INT64_FORMAT
						" has its unique key",
						held.dead_job, text_to_cstring(group.key), group.queue->name, holder),
				 errhint("Try again when that job is finished, or use head => 'skip' to go on without the dead one.")));
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job " INT64_FORMAT ", which blocks group \"%s\" of queue \"%s\", is no dead letter any more",
						held.dead_job, text_to_cstring(group.key), group.queue->name),
				 errhint("Use head => 'skip' to go on without it.")));
	}
	xact_verb_end(false);
	PG_RETURN_VOID();
}
