/*-------------------------------------------------------------------------
 *
 * admin.c
 *		Queues: create_queue, alter_queue, rename_queue, pause_queue,
 *		resume_queue.
 *
 * Whoever changes a queue holds a lock on its name until the end of the
 * transaction, and reads the queue with a snapshot taken after that; so the
 * verbs give the same answers at every isolation level. Who changes where
 * dead letters go, or drops a queue, also holds the lock on the routes:
 * two of them at once could close a loop that neither sees.
 *
 * Other sessions learn of a change through the triggers on jobq.queue.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

#include "admin.h"
#include "grant.h"
#include "meta.h"
#include "settings.h"
#include "spi.h"
#include "xact.h"

/* What objsubid says of a lock on an "object" of jobq.queue. */
#define LOCK_NAME 1   /* objid is a hash of the name */
#define LOCK_ROUTES 2 /* objid is 0 */

/* Two names of one hash merely wait for each other. */
static uint32
name_hash(const text *name)
{
	return hash_bytes((const unsigned char *) VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
}

/*
 * Excludes, until the transaction ends, every other change of the queue of that name (ExclusiveLock), or only that it is dropped or
 * renamed meanwhile (ShareLock).
 */
void
admin_lock_name(const text *name, LOCKMODE mode)
{
	LockDatabaseObject(meta_table_oid(TABLE_QUEUE), name_hash(name), LOCK_NAME, mode);
}

/* Excludes every other change of where dead letters go until the transaction ends. To be taken after the names' locks. */
void
admin_lock_routes(void)
{
	LockDatabaseObject(meta_table_oid(TABLE_QUEUE), 0, LOCK_ROUTES, ExclusiveLock);
}

/* Error 42704 */
void
admin_no_such_queue(const text *name)
{
	int length = pg_mbcliplen(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), JOBQ_MAX_QUEUE_NAME);

	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("queue \"%.*s\" does not exist", length, VARDATA_ANY(name)),
			 errhint("Make it with jobq.create_queue(); names are case-sensitive.")));
}

/* Id of a queue, or 0 when there is none. Inside a scope of spi.c. */
int32
admin_queue_id(const text *name)
{
	static SpiStatement find = {
		.sql = "SELECT id FROM jobq.queue WHERE name = $1", .result = SPI_OK_SELECT, .nargs = 1, .argtypes = {TEXTOID}};
	Datum value = PointerGetDatum(name);
	bool isnull;

	return spi_run(&find, &value, NULL) ? DatumGetInt32(spi_value(0, 1, &isnull)) : 0;
}

/* A text argument, or NULL */
static text *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : PG_GETARG_TEXT_PP(n);
}

/* The queue's name as given to a verb that needs it to exist. Error 22004 when it is null. */
static text *
name_arg(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", what)));
	return PG_GETARG_TEXT_PP(n);
}

/*
 * Fills in the queue that dead letters are to go to. id: of the queue that they come from, 0 when it is being made. Errors: 42704
 * unknown; 22023 itself, or a loop. Holds the routes' lock afterwards.
 */
static void
set_dead_letter_queue(QueueSettings *settings, const text *target, const text *name, int32 id)
{
	static SpiStatement loop = {.sql = "WITH RECURSIVE chain (id) AS ("
									   " SELECT $1 UNION"
									   " SELECT q.dead_letter_queue FROM chain c JOIN jobq.queue q ON q.id = c.id"
									   " WHERE q.dead_letter_queue IS NOT NULL) "
									   "SELECT 1 FROM chain WHERE id = $2",
								.result = SPI_OK_SELECT,
								.nargs = 2,
								.argtypes = {INT4OID, INT4OID}};
	int32 target_id;
	Datum values[2];

	admin_lock_routes();
	target_id = admin_queue_id(target);
	if (target_id == 0 && VARSIZE_ANY_EXHDR(target) == VARSIZE_ANY_EXHDR(name) &&
		memcmp(VARDATA_ANY(target), VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)) == 0)
		target_id = id;
	else if (target_id == 0)
		admin_no_such_queue(target);
	if (target_id == id)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("queue \"%s\" cannot be its own dead letter queue", text_to_cstring(name))));
	values[0] = Int32GetDatum(target_id);
	values[1] = Int32GetDatum(id);
	if (id != 0 && spi_run(&loop, values, NULL) > 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("dead letter queue \"%s\" of queue \"%s\" would close a loop", text_to_cstring(target),
							   text_to_cstring(name)),
						errdetail("Dead letters of \"%s\" already go, directly or not, to \"%s\".",
								  text_to_cstring(target), text_to_cstring(name))));
	settings->value[SETTING_DEAD_LETTER_QUEUE] = Int32GetDatum(target_id);
	settings->isnull[SETTING_DEAD_LETTER_QUEUE] = false;
}

/*
 * The first queue makes this database the origin of its jobs: from now on a dump says whose they are. A database cloned from one that
 * never had a queue becomes one of its own.
 */
static void
note_origin(void)
{
	static SpiStatement look = {.sql = "SELECT 1 FROM jobq.origin UNION ALL SELECT 1 FROM jobq.queue LIMIT 1",
								.result = SPI_OK_SELECT};
	static SpiStatement own = {.sql = "UPDATE jobq.identity SET id = gen_random_uuid(), db_oid = $1 WHERE db_oid <> $1",
							   .result = SPI_OK_UPDATE,
							   .nargs = 1,
							   .argtypes = {OIDOID}};
	static SpiStatement note = {.sql = "INSERT INTO jobq.origin SELECT id FROM jobq.identity", .result = SPI_OK_INSERT};
	Datum db = ObjectIdGetDatum(MyDatabaseId);

	if (spi_run(&look, NULL, NULL) > 0)
		return;
	LockRelationOid(meta_table_oid(TABLE_ORIGIN), ShareRowExclusiveLock);
	if (spi_run(&look, NULL, NULL) > 0)
		return;
	spi_run(&own, &db, NULL);
	spi_run(&note, NULL, NULL);
}

/* Dead letters go as new jobs: to a queue where the current user may enqueue. Errors: 42501; 42704. */
static void
check_route(const text *dead_letter_queue)
{
	if (dead_letter_queue && !grant_has_all())
		(void) grant_queue(dead_letter_queue, RIGHT_ENQUEUE | RIGHT_MANAGE);
}

/* A limit that other queues share already is joined by who manages all of them. Inside a scope. role: the caller. Error 42501. */
static void
check_limit(const QueueSettings *given, Oid role)
{
	static SpiStatement sharers = {.sql = "SELECT id FROM jobq.queue WHERE limit_name = $1",
								   .result = SPI_OK_SELECT,
								   .nargs = 1,
								   .argtypes = {TEXTOID}};
	Datum name = given->value[SETTING_LIMIT_NAME];
	uint64 n = given->isnull[SETTING_LIMIT_NAME] ? 0 : spi_run(&sharers, &name, NULL);
	bool isnull;

	for (uint64 i = 0; i < n; i++)
	{
		QueueInfo *queue = meta_queue_by_id(DatumGetInt32(spi_value(i, 1, &isnull)));

		if ((grant_rights(queue, role) & (RIGHT_MANAGE | RIGHT_OWN)) == 0)
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							errmsg("permission denied for limit \"%s\"", TextDatumGetCString(name)),
							errhint("Queues that this role does not manage share it: choose another limit_name.")));
	}
}

/* Writes a new row of jobq.queue. False when a statement that is not ours was faster. */
static bool
insert_queue(const text *name, const char *owner, const QueueSettings *settings)
{
	StringInfoData columns;
	StringInfoData parameters;
	Oid types[NUM_SETTINGS + 2] = {TEXTOID, TEXTOID};
	Datum values[NUM_SETTINGS + 2];
	char nulls[NUM_SETTINGS + 2];

	initStringInfo(&columns);
	initStringInfo(&parameters);
	values[0] = PointerGetDatum(name);
	values[1] = CStringGetTextDatum(owner);
	nulls[0] = nulls[1] = ' ';
	for (Setting s = 0; s < NUM_SETTINGS; s++)
	{
		appendStringInfo(&columns, ", %s", setting_info[s].name);
		appendStringInfo(&parameters, ", $%d", s + 3);
		types[s + 2] = setting_info[s].type;
		values[s + 2] = settings->value[s];
		nulls[s + 2] = settings->isnull[s] ? 'n' : ' ';
	}
	return spi_run_once(
			   psprintf("INSERT INTO jobq.queue (name, owner%s) VALUES ($1, $2%s) ON CONFLICT (name) DO NOTHING",
						columns.data, parameters.data),
			   SPI_OK_INSERT, NUM_SETTINGS + 2, types, values, nulls) > 0;
}

/*
 * create_queue(name, settings) -> whether it was made; false: there was one of that name, which is left as it is.
 * Errors: 22023, 22004 bad argument; 42704 unknown dead_letter_queue; 42883 unknown backoff_function; 0A000 setting of a later version.
 */
PG_FUNCTION_INFO_V1(jobq_create_queue);
Datum
jobq_create_queue(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("create_queue", VERB_WRITES);
	text *name = text_arg(fcinfo, 0);
	char *owner = GetUserNameFromId(GetUserId(), false);
	QueueSettings settings;
	text *dead_letter_queue;
	SpiScope scope;
	bool made;

	(void) settings_check_name(name, "name");
	settings_from_args(fcinfo, &settings, &dead_letter_queue);
	settings_check(&settings);
	check_route(dead_letter_queue);

	xact_verb_begin(db);
	admin_lock_name(name, ExclusiveLock);
	spi_begin(&scope);
	if (dead_letter_queue)
		set_dead_letter_queue(&settings, dead_letter_queue, name, 0);
	made = admin_queue_id(name) == 0;
	if (made)
	{
		check_limit(&settings, scope.userid);
		note_origin();
		made = insert_queue(name, owner, &settings);
		/* what one may do with a queue of one's own */
		if (!superuser_arg(scope.userid) && scope.userid != GetUserId())
			grant_objects(scope.userid, RIGHT_OWN);
	}
	spi_end(&scope);
	xact_verb_end(false);
	PG_RETURN_BOOL(made);
}

/* Reads a queue's row and locks it. Returns its id; error 42704 when there is none. Inside a scope. */
static int32
load_queue_row(const text *name, QueueSettings *settings)
{
	StringInfoData sql;
	Oid type = TEXTOID;
	Datum value = PointerGetDatum(name);
	bool isnull;
	int32 id;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT id");
	for (Setting s = 0; s < NUM_SETTINGS; s++)
		appendStringInfo(&sql, ", %s", setting_info[s].name);
	appendStringInfoString(&sql, " FROM jobq.queue WHERE name = $1 FOR UPDATE");
	if (spi_run_once(sql.data, SPI_OK_SELECT, 1, &type, &value, NULL) == 0)
		admin_no_such_queue(name);
	id = DatumGetInt32(spi_value(0, 1, &isnull));
	for (Setting s = 0; s < NUM_SETTINGS; s++)
	{
		int16 length;
		bool byval;

		settings->value[s] = spi_value(0, s + 2, &settings->isnull[s]);
		get_typlenbyval(setting_info[s].type, &length, &byval);
		if (!settings->isnull[s])
			settings->value[s] = datumCopy(settings->value[s], byval, length);
	}
	return id;
}

/* Writes all settings of a queue. */
static void
update_queue(int32 id, const QueueSettings *settings)
{
	StringInfoData sql;
	Oid types[NUM_SETTINGS + 1] = {INT4OID};
	Datum values[NUM_SETTINGS + 1];
	char nulls[NUM_SETTINGS + 1];

	initStringInfo(&sql);
	appendStringInfoString(&sql, "UPDATE jobq.queue SET ");
	values[0] = Int32GetDatum(id);
	nulls[0] = ' ';
	for (Setting s = 0; s < NUM_SETTINGS; s++)
	{
		appendStringInfo(&sql, "%s%s = $%d", s == 0 ? "" : ", ", setting_info[s].name, s + 2);
		types[s + 1] = setting_info[s].type;
		values[s + 1] = settings->value[s];
		nulls[s + 1] = settings->isnull[s] ? 'n' : ' ';
	}
	appendStringInfoString(&sql, " WHERE id = $1");
	spi_run_once(sql.data, SPI_OK_UPDATE, NUM_SETTINGS + 1, types, values, nulls);
}

/*
 * alter_queue(name, settings, reset): null leaves a setting as it is; reset names those to put back to their default.
 * Errors: as create_queue; 42704 unknown queue; 22023 unknown setting, or one both given and reset.
 */
PG_FUNCTION_INFO_V1(jobq_alter_queue);
Datum
jobq_alter_queue(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("alter_queue", VERB_WRITES);
	text *name = name_arg(fcinfo, 0, "name");
	ArrayType *reset = PG_ARGISNULL(NUM_SETTINGS + 1) ? NULL : PG_GETARG_ARRAYTYPE_P(NUM_SETTINGS + 1);
	QueueSettings given;
	QueueSettings settings;
	text *dead_letter_queue;
	SpiScope scope;
	uint32 rights;
	int32 id;

	settings_from_args(fcinfo, &given, &dead_letter_queue);
	/* it runs with the owner's rights */
	rights = given.isnull[SETTING_BACKOFF_FUNCTION] ? RIGHT_MANAGE : RIGHT_OWN;
	(void) grant_queue(name, rights);
	check_route(dead_letter_queue);
	xact_verb_begin(db);
	admin_lock_name(name, ExclusiveLock);
	(void) grant_queue(name, rights); /* it may be another one by now */
	spi_begin(&scope);
	check_limit(&given, scope.userid);
	id = load_queue_row(name, &settings);
	for (Setting s = 0; s < NUM_SETTINGS; s++)
	{
		if (given.isnull[s])
			continue;
		settings.value[s] = given.value[s];
		settings.isnull[s] = false;
	}
	if (reset)
		settings_reset(&settings, &given, reset);
	settings_check(&settings);
	if (dead_letter_queue)
		set_dead_letter_queue(&settings, dead_letter_queue, name, id);
	update_queue(id, &settings);
	spi_end(&scope);
	/* there may be too many dead letters already */
	if (!settings.isnull[SETTING_ALERT_DEAD])
	{
		CommandCounterIncrement();
		xact_count(meta_queue(name), COUNT_DEAD, 0);
	}
	xact_verb_end(false);
	PG_RETURN_VOID();
}

/* rename_queue(name, new_name). Errors: 42704 unknown; 42710 the new name exists; 22023, 22004 bad name. Jobs and routes stay with it. */
PG_FUNCTION_INFO_V1(jobq_rename_queue);
Datum
jobq_rename_queue(PG_FUNCTION_ARGS)
{
	static SpiStatement rename = {.sql = "UPDATE jobq.queue SET name = $2 WHERE name = $1",
								  .result = SPI_OK_UPDATE,
								  .nargs = 2,
								  .argtypes = {TEXTOID, TEXTOID}};
	DbSlot *db = meta_begin("rename_queue", VERB_WRITES);
	text *name = name_arg(fcinfo, 0, "name");
	text *new_name = text_arg(fcinfo, 1);
	bool ascending;
	Datum values[2];
	SpiScope scope;

	(void) settings_check_name(new_name, "new_name");
	(void) grant_queue(name, RIGHT_OWN);
	xact_verb_begin(db);
	ascending = name_hash(name) < name_hash(new_name); /* two renames against each other shall not deadlock */
	admin_lock_name(ascending ? name : new_name, ExclusiveLock);
	admin_lock_name(ascending ? new_name : name, ExclusiveLock);
	(void) grant_queue(name, RIGHT_OWN);
	spi_begin(&scope);
	if (admin_queue_id(name) == 0)
		admin_no_such_queue(name);
	if (admin_queue_id(new_name) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT), errmsg("cannot rename queue \"%s\": queue \"%s\" already exists",
														   text_to_cstring(name), text_to_cstring(new_name))));
	values[0] = PointerGetDatum(name);
	values[1] = PointerGetDatum(new_name);
	spi_run(&rename, values, NULL);
	spi_end(&scope);
	xact_verb_end(false);
	PG_RETURN_VOID();
}

/* Pauses a queue or lets it go on. Error 42704 when it does not exist. */
static void
set_paused(DbSlot *db, const text *name, bool paused)
{
	static SpiStatement update = {.sql = "UPDATE jobq.queue SET paused = $2 WHERE name = $1 AND paused <> $2",
								  .result = SPI_OK_UPDATE,
								  .nargs = 2,
								  .argtypes = {TEXTOID, BOOLOID}};
	SpiScope scope;
	Datum values[2];

	(void) grant_queue(name, RIGHT_MANAGE);
	xact_verb_begin(db);
	admin_lock_name(name, ExclusiveLock);
	(void) grant_queue(name, RIGHT_MANAGE);
	spi_begin(&scope);
	if (admin_queue_id(name) == 0)
		admin_no_such_queue(name);
	values[0] = PointerGetDatum(name);
	values[1] = BoolGetDatum(paused);
	spi_run(&update, values, NULL);
	spi_end(&scope);
	if (!paused)
		xact_wake_all(meta_queue(name));
	xact_verb_end(false);
}

/* pause_queue(queue): nothing is leased by a dequeue that begins after this commits; running jobs go on. Harmless when paused already. */
PG_FUNCTION_INFO_V1(jobq_pause_queue);
Datum
jobq_pause_queue(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("pause_queue", VERB_WRITES);

	set_paused(db, name_arg(fcinfo, 0, "queue"), true);
	PG_RETURN_VOID();
}

/* resume_queue(queue): undoes pause_queue. */
PG_FUNCTION_INFO_V1(jobq_resume_queue);
Datum
jobq_resume_queue(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("resume_queue", VERB_WRITES);

	set_paused(db, name_arg(fcinfo, 0, "queue"), false);
	PG_RETURN_VOID();
}
