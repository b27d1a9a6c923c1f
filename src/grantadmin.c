/*-------------------------------------------------------------------------
 *
 * grantadmin.c
 *		grant_queue and revoke_queue; what the views show.
 *
 * A right is a row of jobq.queue_acl, by the name of the role. With it go
 * the server's own EXECUTE, SELECT and USAGE, given by the extension's owner
 * (grant.c): pg_dump knows them for what they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "admin.h"
#include "args.h"
#include "grant.h"
#include "spi.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_grant_queue);
PG_FUNCTION_INFO_V1(jobq_revoke_queue);
PG_FUNCTION_INFO_V1(jobq_may_read);
PG_FUNCTION_INFO_V1(jobq_may_see);

/* The arguments of grant_queue and revoke_queue. */
typedef struct GrantArgs
{
	QueueInfo *queue;
	char *role; /* name, or public */
	Oid oid;    /* InvalidOid: public, or no such role */
	bool exists;
	Datum privileges;
	uint32 rights;
} GrantArgs;

static void
not_null(FunctionCallInfo fcinfo, int argno, const char *what)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", what)));
}

/* A role by its name, or one of the words that stand for one. */
static void
read_role(const text *given, GrantArgs *args)
{
	args->role = text_to_cstring(given);
	if (strcmp(args->role, "current_user") == 0)
		args->role = GetUserNameFromId(GetUserId(), false);
	else if (strcmp(args->role, "session_user") == 0)
		args->role = GetUserNameFromId(GetSessionUserId(), false);
	args->oid = InvalidOid;
	args->exists = strcmp(args->role, "public") == 0;
	if (args->exists)
		return;
	args->oid = get_role_oid(args->role, true);
	args->exists = OidIsValid(args->oid);
}

/* Errors: 22004 a NULL in it; 22023 none, or no such privilege. */
static void
read_privileges(ArrayType *array, GrantArgs *args)
{
	Datum *elements;
	bool *nulls;
	int n;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	if (n == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("privileges must not be empty"),
						errhint("Name some of enqueue, consume and manage.")));
	args->rights = 0;
	for (int i = 0; i < n; i++)
	{
		char *word;
		uint32 right;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("privileges must not contain null")));
		word = TextDatumGetCString(elements[i]);
		right = grant_right_named(word);
		if (right == 0)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no privilege \"%s\"", word),
							errhint("The privileges are enqueue, consume and manage.")));
		args->rights |= right;
	}
	args->privileges = PointerGetDatum(array);
}

static void
no_such_role(const char *role)
{
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("role \"%s\" does not exist", role),
					errhint("Name a role, public, current_user or session_user; names are case-sensitive.")));
}

/* Reads the arguments, checks that the caller owns the queue, and keeps everybody else from changing it until the transaction ends. */
static void
grant_begin(FunctionCallInfo fcinfo, const char *verb, GrantArgs *args)
{
	DbSlot *db = meta_begin(verb, VERB_WRITES);

	not_null(fcinfo, 1, "role");
	not_null(fcinfo, 2, "privileges");
	(void) grant_queue_arg(fcinfo, 0, RIGHT_OWN);
	read_privileges(PG_GETARG_ARRAYTYPE_P(2), args);
	xact_verb_begin(db);
	admin_lock_name(PG_GETARG_TEXT_PP(0), ExclusiveLock);
	args->queue = grant_queue_arg(fcinfo, 0, RIGHT_OWN);
	read_role(PG_GETARG_TEXT_PP(1), args);
}

/*
 * grant_queue(queue, role, privileges): lets a role do more with a queue. role: a name, public, current_user or session_user.
 *
 * For the queue's owner. Errors: 42501; 42704 no such role or queue; 22023 no such privilege; 22004.
 */
Datum
jobq_grant_queue(PG_FUNCTION_ARGS)
{
	static SpiStatement add = {
		.sql = "INSERT INTO jobq.queue_acl AS a (queue_id, role, privileges, grantor)"
			   " SELECT $1, $2, array_agg(p ORDER BY n), $4"
			   " FROM unnest('{enqueue,consume,manage}'::text[]) WITH ORDINALITY u (p, n) WHERE p = ANY ($3)"
			   " ON CONFLICT (queue_id, role) DO UPDATE SET grantor = excluded.grantor, privileges = ARRAY(SELECT p"
			   " FROM unnest('{enqueue,consume,manage}'::text[]) WITH ORDINALITY u (p, n)"
			   " WHERE p = ANY (a.privileges || excluded.privileges) ORDER BY n)",
		.result = SPI_OK_INSERT,
		.nargs = 4,
		.argtypes = {INT4OID, TEXTOID, TEXTARRAYOID, TEXTOID}};
	GrantArgs args;
	Datum values[4];
	SpiScope scope;

	grant_begin(fcinfo, "grant_queue", &args);
	if (!args.exists)
		no_such_role(args.role);
	values[0] = Int32GetDatum(args.queue->id);
	values[1] = CStringGetTextDatum(args.role);
	values[2] = args.privileges;
	values[3] = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	spi_begin(&scope);
	(void) spi_run(&add, values, NULL);
	grant_objects(args.oid, args.rights);
	spi_end(&scope);
	xact_verb_end(false);
	PG_RETURN_VOID();
}

/* What a role has on any queue, as grants to its own name and as an owner. Inside a scope. */
static uint32
rights_left(Datum role)
{
	static SpiStatement look = {.sql = "SELECT EXISTS (SELECT FROM jobq.queue WHERE owner = $1),"
									   " coalesce(bool_or('enqueue' = ANY (a.privileges)), false),"
									   " coalesce(bool_or('consume' = ANY (a.privileges)), false),"
									   " coalesce(bool_or('manage' = ANY (a.privileges)), false)"
									   " FROM jobq.queue_acl a WHERE a.role = $1",
								.result = SPI_OK_SELECT,
								.nargs = 1,
								.argtypes = {TEXTOID}};
	bool isnull;
	uint32 rights = 0;

	(void) spi_run(&look, &role, NULL);
	if (DatumGetBool(spi_value(0, 1, &isnull)))
		rights |= RIGHT_OWN;
	if (DatumGetBool(spi_value(0, 2, &isnull)))
		rights |= RIGHT_ENQUEUE;
	if (DatumGetBool(spi_value(0, 3, &isnull)))
		rights |= RIGHT_CONSUME;
	if (DatumGetBool(spi_value(0, 4, &isnull)))
		rights |= RIGHT_MANAGE;
	return rights;
}

/* Handlers run on as the role that set them, with the jobs of the queue: whoever takes the role's right away is told. Inside a scope. */
static void
tell_of_handlers(const GrantArgs *args, Datum *values)
{
	static SpiStatement look = {.sql = "SELECT count(*) FROM jobq.handler WHERE queue_id = $1 AND role = $2",
								.result = SPI_OK_SELECT,
								.nargs = 2,
								.argtypes = {INT4OID, TEXTOID}};
	bool isnull;
	int64 n;

	(void) spi_run(&look, values, NULL);
	n = DatumGetInt64(spi_value(0, 1, &isnull));
	if (n > 0)
		ereport(NOTICE, (errmsg("handlers of queue \"%s\" that run as role \"%s\" go on: " INT64_FORMAT,
								args->queue->name, args->role, n),
						 errhint("Take them away with jobq.drop_handler().")));
}

/* Schedules are another matter: they enqueue only where the role that made them may. Inside a scope. */
static void
tell_of_schedules(const GrantArgs *args, Datum *values)
{
	static SpiStatement look = {
		.sql = "SELECT count(*) FROM jobq.schedule WHERE queue_id = $1 AND owner = $2 AND enabled AND NOT finished",
		.result = SPI_OK_SELECT,
		.nargs = 2,
		.argtypes = {INT4OID, TEXTOID}};
	bool isnull;
	int64 n;

	if (!OidIsValid(args->oid) || (grant_rights(meta_queue_by_id(args->queue->id), args->oid) & RIGHTS_FIRE) != 0)
		return;
	(void) spi_run(&look, values, NULL);
	n = DatumGetInt64(spi_value(0, 1, &isnull));
	if (n > 0)
		ereport(NOTICE,
				(errmsg("schedules of queue \"%s\" that role \"%s\" made enqueue no longer: " INT64_FORMAT,
						args->queue->name, args->role, n),
				 errhint("Make them as another role with jobq.schedule(), or take them away with jobq.unschedule().")));
}

/*
 * revoke_queue(queue, role, privileges): takes back what grant_queue() gave to the role itself; harmless when it has not got it. A role
 * that was dropped is taken by the name it had. With the last queue go EXECUTE and the rest, too.
 *
 * For the queue's owner. Errors as in grant_queue().
 */
Datum
jobq_revoke_queue(PG_FUNCTION_ARGS)
{
	static SpiStatement take = {
		.sql = "UPDATE jobq.queue_acl SET privileges = ARRAY(SELECT p FROM unnest(privileges) WITH ORDINALITY u (p, n)"
			   " WHERE p <> ALL ($3) ORDER BY n) WHERE queue_id = $1 AND role = $2",
		.result = SPI_OK_UPDATE,
		.nargs = 3,
		.argtypes = {INT4OID, TEXTOID, TEXTARRAYOID}};
	static SpiStatement forget = {
		.sql = "DELETE FROM jobq.queue_acl WHERE queue_id = $1 AND role = $2 AND privileges = '{}'",
		.result = SPI_OK_DELETE,
		.nargs = 2,
		.argtypes = {INT4OID, TEXTOID}};
	GrantArgs args;
	Datum values[3];
	SpiScope scope;

	grant_begin(fcinfo, "revoke_queue", &args);
	values[0] = Int32GetDatum(args.queue->id);
	values[1] = CStringGetTextDatum(args.role);
	values[2] = args.privileges;
	spi_begin(&scope);
	if (spi_run(&take, values, NULL) == 0 && !args.exists)
		no_such_role(args.role);
	(void) spi_run(&forget, values, NULL);
	if (args.rights & RIGHT_MANAGE)
		tell_of_handlers(&args, values);
	tell_of_schedules(&args, values);
	if (args.exists)
		grant_take_objects(args.oid, rights_left(values[1]));
	spi_end(&scope);
	xact_verb_end(false);
	PG_RETURN_VOID();
}

/* The last answer of a filter, for the rows of one statement. */
typedef struct FilterMemo
{
	int32 queue_id;
	bool answer;
} FilterMemo;

/* Whether the current user has one of the rights on the queue whose id is the argument; NULL: a queue that was dropped. */
static bool
filter(FunctionCallInfo fcinfo, const char *verb, uint32 rights)
{
	FilterMemo *memo = fcinfo->flinfo->fn_extra;
	int32 id = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT32(0);

	if (memo && memo->queue_id == id)
		return memo->answer;
	(void) meta_begin(verb, VERB_READS);
	if (memo == NULL)
		memo = fcinfo->flinfo->fn_extra = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(FilterMemo));
	memo->answer = id == 0 ? grant_has(NULL, rights) : grant_has_id(id, rights);
	memo->queue_id = id;
	return memo->answer;
}

/* may_read(queue_id): whether the current user reads the jobs of a queue. For the views. */
Datum
jobq_may_read(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(filter(fcinfo, "may_read", RIGHTS_READ));
}

/* may_see(queue_id): whether the current user knows of a queue. For the views. */
Datum
jobq_may_see(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(filter(fcinfo, "may_see", RIGHTS_SEE));
}
