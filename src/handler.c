/*-------------------------------------------------------------------------
 *
 * handler.c
 *		Handlers: functions in this database that run the jobs of a queue.
 *
 * A handler is stored by the text of its function's signature and of its
 * role, so that a dump can be restored in any order; what they name is looked
 * up when a job runs, and a job whose handler cannot run fails with that as
 * its reason.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "args.h"
#include "compat.h"
#include "grant.h"
#include "handler.h"
#include "spi.h"
#include "timeutil.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_set_handler);
PG_FUNCTION_INFO_V1(jobq_drop_handler);

#define MAX_CONCURRENCY 1024

/* The handlers of a queue. */
typedef struct HandlerSet
{
	int32 queue_id; /* hash key */
	uint32 loads;   /* of the queue, when they were read */
	MemoryContext context;
	Handler *handlers;
	int n;
} HandlerSet;

static HTAB *sets = NULL;

/* The row type that a handler may take instead of a payload. */
Oid
handler_delivery_type(void)
{
	Oid oid = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("delivery"),
							  ObjectIdGetDatum(get_namespace_oid(JOBQ_SCHEMA, false)));

	if (!OidIsValid(oid))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("type jobq.delivery does not exist"),
						errhint("The installation is damaged: drop and create the extension.")));
	return oid;
}

static char *
text_column(uint64 row, int column, MemoryContext context)
{
	bool isnull;

	return MemoryContextStrdup(context, TextDatumGetCString(spi_value(row, column, &isnull)));
}

static void
read_handlers(HandlerSet *set)
{
	static SpiStatement statement = {
		.sql = "SELECT name, handler, role, search_path, concurrency, timeout FROM jobq.handler WHERE queue_id = $1",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {INT4OID}};
	Datum value = Int32GetDatum(set->queue_id);
	SpiScope scope;
	bool isnull;

	spi_begin(&scope);
	set->n = (int) spi_run(&statement, &value, NULL);
	set->handlers = MemoryContextAllocZero(set->context, Max(set->n, 1) * sizeof(Handler));
	for (int i = 0; i < set->n; i++)
	{
		Handler *h = &set->handlers[i];

		h->name = text_column(i, 1, set->context);
		h->number = Max(string_hash(h->name, strlen(h->name) + 1), 1);
		h->signature = text_column(i, 2, set->context);
		h->role = text_column(i, 3, set->context);
		h->search_path = text_column(i, 4, set->context);
		h->concurrency = DatumGetInt32(spi_value(i, 5, &isnull));
		h->timeout = interval_usecs(DatumGetIntervalP(spi_value(i, 6, &isnull)), "timeout", PG_INT64_MIN, PG_INT64_MAX);
	}
	spi_end(&scope);
}

/* The queue's handlers, read again when its settings were. Inside a transaction, after meta_begin. */
static HandlerSet *
handlers_of(QueueInfo *queue)
{
	HandlerSet *set;
	bool found;

	if (sets == NULL)
	{
		HASHCTL info;

		memset(&info, 0, sizeof(info));
		info.keysize = sizeof(int32);
		info.entrysize = sizeof(HandlerSet);
		info.hcxt = TopMemoryContext;
		sets = hash_create("jobq handlers", 64, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	set = hash_search(sets, &queue->id, HASH_ENTER, &found);
	if (!found)
		set->context = NULL;
	if (set->context && set->loads == queue->loads)
		return set;
	if (set->context)
		MemoryContextDelete(set->context);
	set->n = 0;
	set->loads = queue->loads - 1; /* an error leaves it to be read again */
	set->context = AllocSetContextCreate(TopMemoryContext, "jobq handlers of a queue", ALLOCSET_SMALL_SIZES);
	read_handlers(set);
	set->loads = queue->loads;
	return set;
}

/* The handler for jobs of a name (NULL: none), or the queue's default; NULL when there is neither. */
const Handler *
handler_find(QueueInfo *queue, const char *name)
{
	HandlerSet *set = handlers_of(queue);
	const Handler *standard = NULL;

	for (int i = 0; i < set->n; i++)
	{
		if (name && strcmp(set->handlers[i].name, name) == 0)
			return &set->handlers[i];
		if (strcmp(set->handlers[i].name, "*") == 0)
			standard = &set->handlers[i];
	}
	return standard;
}

int
handler_number_of(QueueInfo *queue)
{
	return handlers_of(queue)->n;
}

/* Microseconds; 0 where the queue has no handler. */
int64
handler_longest_timeout(QueueInfo *queue)
{
	HandlerSet *set = handlers_of(queue);
	int64 longest = 0;

	for (int i = 0; i < set->n; i++)
		longest = Max(longest, set->handlers[i].timeout);
	return longest;
}

/* Refuses what cannot be a handler. Errors: 42809 no plain function; 42883 other arguments; 42P13 other result. */
static HandlerFunction
check_function(Oid oid, const char *signature)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
	Oid delivery = handler_delivery_type();
	HandlerFunction function;
	Form_pg_proc form;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("function %s does not exist", signature)));
	form = (Form_pg_proc) GETSTRUCT(tuple);
	if (form->prokind == PROKIND_PROCEDURE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("%s is a procedure", signature),
				 errhint("A handler is a function: it runs in one transaction with the completion of its job.")));
	if (form->prokind != PROKIND_FUNCTION)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("%s is an aggregate or window function", signature),
						errhint("A handler is a plain function.")));
	if (form->pronargs != 1 || (form->proargtypes.values[0] != JSONBOID && form->proargtypes.values[0] != delivery))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("%s cannot be a handler", signature),
						errhint("A handler takes one argument: the payload as jsonb, or the job as jobq.delivery.")));
	if (form->proretset || form->prorettype == TRIGGEROID || form->prorettype == EVENT_TRIGGEROID ||
		form->prorettype == INTERNALOID || form->prorettype == CSTRINGOID || IsPolymorphicType(form->prorettype))
		ereport(ERROR, (errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
						errmsg("%s cannot be a handler for what it returns", signature),
						errhint("A handler returns void, or one value, which becomes the result of the job.")));
	function.oid = oid;
	function.result_type = form->prorettype;
	function.takes_delivery = form->proargtypes.values[0] == delivery;
	ReleaseSysCache(tuple);
	return function;
}

static void
check_may_execute(Oid function, Oid role, const char *signature)
{
	Oid schema = get_func_namespace(function);

	if (function_aclcheck_compat(function, role) != ACLCHECK_OK)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("role \"%s\" may not execute %s", GetUserNameFromId(role, false), signature),
						errhint("GRANT EXECUTE on the function to the role.")));
	if (OidIsValid(schema) && schema_aclcheck_compat(schema, role) != ACLCHECK_OK)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("role \"%s\" may not use the schema of %s", GetUserNameFromId(role, false), signature),
						errhint("GRANT USAGE on the schema to the role.")));
}

/* Looks up the function of a stored handler, which its role must be allowed to run. Errors: 42883, 42809, 42P13, 42501. */
HandlerFunction
handler_function(const Handler *handler, Oid role)
{
	Oid oid = function_by_signature(handler->signature, true);
	HandlerFunction function;

	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("handler %s does not exist any more", handler->signature),
				 errhint("Create the function, or choose another one with jobq.set_handler().")));
	function = check_function(oid, handler->signature);
	check_may_execute(oid, role, handler->signature);
	return function;
}

/* The function that a user names, by a name alone or by a signature. Errors: 42883 none; 42725 two; 42602 not a name. */
static Oid
find_named(const char *name)
{
	Oid by_payload;
	Oid by_delivery;

	if (strchr(name, '(') != NULL)
		return function_by_signature(name, false);
	by_payload = function_by_signature(psprintf("%s(pg_catalog.jsonb)", name), true);
	by_delivery = function_by_signature(psprintf("%s(jobq.delivery)", name), true);
	if (OidIsValid(by_payload) && OidIsValid(by_delivery))
		ereport(ERROR, (errcode(ERRCODE_AMBIGUOUS_FUNCTION), errmsg("function name \"%s\" is not unique", name),
						errhint("Name it with its argument: %s(jsonb) or %s(jobq.delivery).", name, name)));
	if (!OidIsValid(by_payload) && !OidIsValid(by_delivery))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
						errmsg("function %s(jsonb) or %s(jobq.delivery) does not exist", name, name),
						errhint("A handler takes one argument: the payload as jsonb, or the job as jobq.delivery.")));
	return OidIsValid(by_payload) ? by_payload : by_delivery;
}

/* The name of the jobs that a handler is for. */
static text *
name_arg(FunctionCallInfo fcinfo, int argno)
{
	text *name = arg_text(fcinfo, argno, "name", JOBQ_MAX_NAME);

	return name ? name : cstring_to_text("*");
}

/*
 * set_handler(queue, handler, name, concurrency, timeout): has jobs of a name (null or '*': those without a handler of their own) run by a
 * function, as the current role and with its search_path of now. Replaces an earlier one.
 *
 * concurrency: how many at a time. timeout: longest run, over 0. Errors: 22004; 22023; 42704 queue; 42883, 42725, 42809, 42P13 function;
 * 42501.
 */
Datum
jobq_set_handler(PG_FUNCTION_ARGS)
{
	static SpiStatement set = {
		.sql =
			"INSERT INTO jobq.handler AS h (queue_id, name, handler, role, search_path, concurrency, timeout)"
			" VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (queue_id, name) DO UPDATE SET handler = excluded.handler,"
			" role = excluded.role, search_path = excluded.search_path, concurrency = excluded.concurrency,"
			" timeout = excluded.timeout",
		.result = SPI_OK_INSERT,
		.nargs = 7,
		.argtypes = {INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, INTERVALOID}};
	DbSlot *db = meta_begin("set_handler", VERB_WRITES);
	QueueInfo *queue = grant_queue_arg(fcinfo, 0, RIGHT_MANAGE);
	text *name = name_arg(fcinfo, 2);
	int concurrency = arg_int32_range(fcinfo, 3, "concurrency", 1, 1, MAX_CONCURRENCY);
	Datum values[7];
	SpiScope scope;
	char *given;
	char *signature;
	Oid function;

	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("handler must not be null")));
	if (PG_ARGISNULL(4))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("timeout must not be null")));
	(void) arg_interval(fcinfo, 4, "timeout", 0, 1000, JOBQ_MAX_LEASE_USECS);
	given = text_to_cstring(check_text(PG_GETARG_TEXT_PP(1), "handler", 1024));
	function = find_named(given);
	(void) check_function(function, given);
	check_may_execute(function, GetUserId(), given);
	signature = format_procedure_qualified(function);

	xact_verb_begin(db);
	xact_lock_queue(queue->id, ShareLock);
	queue = grant_queue_arg(fcinfo, 0, RIGHT_MANAGE);
	values[0] = Int32GetDatum(queue->id);
	values[1] = PointerGetDatum(name);
	values[2] = CStringGetTextDatum(signature);
	values[3] = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	values[4] = CStringGetTextDatum(GetConfigOption("search_path", false, false));
	values[5] = Int32GetDatum(concurrency);
	values[6] = PG_GETARG_DATUM(4);
	spi_begin(&scope);
	(void) spi_run(&set, values, NULL);
	spi_end(&scope);
	xact_verb_end(false);
	PG_RETURN_VOID();
}

/* drop_handler(queue, name): true; false when there was none. What runs already goes on to its end. Errors: 22004; 22023; 42704. */
Datum
jobq_drop_handler(PG_FUNCTION_ARGS)
{
	static SpiStatement drop = {.sql = "DELETE FROM jobq.handler WHERE queue_id = $1 AND name = $2",
								.result = SPI_OK_DELETE,
								.nargs = 2,
								.argtypes = {INT4OID, TEXTOID}};
	DbSlot *db = meta_begin("drop_handler", VERB_WRITES);
	QueueInfo *queue = grant_queue_arg(fcinfo, 0, RIGHT_MANAGE);
	Datum values[2];
	SpiScope scope;
	uint64 dropped;

	values[0] = Int32GetDatum(queue->id);
	values[1] = PointerGetDatum(name_arg(fcinfo, 1));
	xact_verb_begin(db);
	spi_begin(&scope);
	dropped = spi_run(&drop, values, NULL);
	spi_end(&scope);
	xact_verb_end(false);
	PG_RETURN_BOOL(dropped > 0);
}
