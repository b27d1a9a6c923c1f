/*-------------------------------------------------------------------------
 *
 * sandbox.c
 *		One run of a handler: with no more rights than its role has, within
 *		its time, and with nothing of it left in the process afterwards.
 *
 * Rights. The process's session user is a superuser. A run sets the current
 * user to the handler's role with SECURITY_LOCAL_USERID_CHANGE, under which
 * SET ROLE, SET SESSION AUTHORIZATION and their RESET are refused, and keeps
 * it until the transaction is over: deferred triggers and the queries of
 * held cursors run inside the commit.
 *
 * Time. While the process is at work a timer ticks; the tick looks at the
 * clock and raises a query cancel when the run's time is over, or when the
 * process is to end and has waited long enough. A handler that catches the
 * cancel gets it again with each tick, and in the end its process goes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/prepare.h"
#include "commands/sequence.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/portal.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "sandbox.h"

#define TICK_MS 20
/* Ticks that a handler may go on after it was cancelled. */
#define PATIENCE 250

static ExecutorSlot *my_place = NULL;
static TimeoutId timer;
static volatile sig_atomic_t terminated = false; /* SIGTERM came */
static volatile TimestampTz terminated_at = 0;
static volatile sig_atomic_t running = false;
static volatile sig_atomic_t interrupted = SANDBOX_RAN;
static volatile TimestampTz deadline = 0;
static volatile int ticks_since = 0;
static Oid saved_user;
static int saved_sec_context;

/* SIGTERM: the run may finish, as far as there is time. */
static void
terminate(SIGNAL_ARGS)
{
	int save_errno = errno;

	if (!terminated)
		terminated_at = GetCurrentTimestamp();
	terminated = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/* Whether the process is to end. */
bool
sandbox_stopping(void)
{
	return terminated || my_place->leave || !jobq_enabled;
}

/* Whether what runs is to be interrupted because the process is to end. In a signal handler. */
static bool
out_of_patience(TimestampTz now)
{
	if (terminated && now - terminated_at >= jobq_stop_timeout * INT64CONST(1000))
		return true;
	return my_place->leave && now >= my_place->until;
}

/* The timer's tick, in a signal handler. */
static void
tick(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (interrupted == SANDBOX_RAN)
	{
		if (running && now >= deadline)
			interrupted = SANDBOX_TIMED_OUT;
		else if (out_of_patience(now))
			interrupted = SANDBOX_STOPPED;
		else
			return;
		ticks_since = 0;
	}
	/* not a handler, or one that does not let itself be cancelled */
	if (!running || ticks_since++ > PATIENCE)
		ProcDiePending = true;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

/* Takes over the process's signals. place: its own. */
void
sandbox_init(ExecutorSlot *place)
{
	my_place = place;
	timer = RegisterTimeout(USER_TIMEOUT, tick);
	pqsignal(SIGTERM, terminate);
	pqsignal(SIGINT, StatementCancelHandler);
}

/* Has the timer tick while the process is at work: an idle one wants no wake-ups. */
void
sandbox_watch(bool on)
{
	if (on)
		enable_timeout_every(timer, GetCurrentTimestamp() + TICK_MS * 1000, TICK_MS);
	else
		disable_timeout(timer, false);
}

/* What a handler returned, as the job's result. */
static Jsonb *
as_result(Datum value, bool isnull, Oid type)
{
	LOCAL_FCINFO(fcinfo, 1);
	FmgrInfo flinfo;
	Datum result;

	if (isnull || type == VOIDOID)
		return NULL;
	if (type == JSONBOID)
		return DatumGetJsonbP(value);
	/* to_jsonb() asks the expression for the type of its argument */
	fmgr_info(F_TO_JSONB, &flinfo);
	fmgr_info_set_expr((Node *) makeFuncExpr(F_TO_JSONB, JSONBOID, list_make1(makeNullConst(type, -1, InvalidOid)),
											 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL),
					   &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = value;
	fcinfo->args[0].isnull = false;
	result = FunctionCallInvoke(fcinfo);
	return fcinfo->isnull ? NULL : DatumGetJsonbP(result);
}

/* The role of a handler. Error 42704 when it was dropped. */
static Oid
role_of(const Handler *handler)
{
	Oid role = get_role_oid(handler->role, true);

	if (!OidIsValid(role))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("role \"%s\" of handler %s does not exist any more", handler->role, handler->signature),
						errhint("Have another role call jobq.set_handler().")));
	return role;
}

/*
 * Calls the handler inside the job's transaction, as its role; the role stays until sandbox_over. timeout: of this run, in microseconds.
 *
 * Returns the job's result, or NULL. Errors: whatever the handler raises; 57014 when it was interrupted; that it cannot be called.
 */
Jsonb *
sandbox_run(const Handler *handler, Datum payload, HeapTuple delivery, TupleDesc desc, int64 timeout)
{
	LOCAL_FCINFO(fcinfo, 1);
	FmgrInfo flinfo;
	HandlerFunction function;
	Oid role = role_of(handler);
	Jsonb *result;
	Datum value;

	function = handler_function(handler, role);
	GetUserIdAndSecContext(&saved_user, &saved_sec_context);
	SetUserIdAndSecContext(role, saved_sec_context | SECURITY_LOCAL_USERID_CHANGE);
	(void) set_config_option("search_path", handler->search_path, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
							 false);
	fmgr_info(function.oid, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = function.takes_delivery ? heap_copy_tuple_as_datum(delivery, desc) : payload;
	fcinfo->args[0].isnull = false;

	QueryCancelPending = false;
	interrupted = SANDBOX_RAN;
	deadline = GetCurrentTimestamp() + timeout;
	running = true;
	value = FunctionCallInvoke(fcinfo);
	result = as_result(value, fcinfo->isnull, function.result_type);
	/* one that caught its cancel and went on */
	if (interrupted == SANDBOX_TIMED_OUT)
		ereport(ERROR, (errcode(ERRCODE_QUERY_CANCELED), errmsg("the handler did not end when it was cancelled")));
	return result;
}

/* After the transaction of a run has ended, either way: the process is itself again. Returns whether the run was interrupted. */
SandboxInterrupt
sandbox_over(void)
{
	SandboxInterrupt why = interrupted;

	running = false;
	interrupted = SANDBOX_RAN;
	QueryCancelPending = false;
	/* an abort has done so by itself */
	if (OidIsValid(saved_user))
		SetUserIdAndSecContext(saved_user, saved_sec_context);
	saved_user = InvalidOid;
	return why;
}

/* Adds a part of an error; from the first invalid byte on, such bytes are written as \x.. */
static void
add_text(StringInfo buf, const char *label, const char *text)
{
	int len;
	int valid;

	if (text == NULL)
		return;
	appendStringInfoString(buf, label);
	len = strnlen(text, JOBQ_MAX_ERROR_BYTES);
	valid = pg_encoding_verifymbstr(GetDatabaseEncoding(), text, len);
	appendBinaryStringInfo(buf, text, valid);
	if (text[len] != '\0' && len - valid < MAX_MULTIBYTE_CHAR_LEN)
		return; /* the rest is a character that was cut */
	for (int i = valid; i < len; i++)
		if (IS_HIGHBIT_SET(text[i]))
			appendStringInfo(buf, "\\x%02x", (unsigned char) text[i]);
		else
			appendStringInfoChar(buf, text[i]);
}

static char *
interval_text(int64 usecs)
{
	Interval interval = {.time = usecs};

	return DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&interval)));
}

/* What is kept of the error that ended a run. timeout: what it had, in microseconds. Needs no transaction. */
text *
sandbox_error(const ErrorData *error, SandboxInterrupt why, int64 timeout)
{
	StringInfoData buf;

	initStringInfo(&buf);
	if (why == SANDBOX_TIMED_OUT)
		appendStringInfo(&buf, "the handler ran longer than its timeout of %s", interval_text(timeout));
	else
	{
		add_text(&buf, "", error->message ? error->message : "no message");
		appendStringInfo(&buf, " (SQLSTATE %s)", unpack_sql_state(error->sqlerrcode));
		add_text(&buf, "\nDETAIL: ", error->detail);
		add_text(&buf, "\nHINT: ", error->hint);
	}
	add_text(&buf, "\nCONTEXT: ", error->context);
	return cstring_to_text_with_len(buf.data, buf.len);
}

/*
 * Takes away what a run may have left in the session. Outside a transaction. What DISCARD ALL does, but for the plans that are ours, and
 * only where there is something.
 */
void
sandbox_reset(void)
{
	Oid temp;
	Oid temp_toast;

	PortalHashTableDeleteAll();
	DropAllPreparedStatements();
	LockReleaseAll(USER_LOCKMETHOD, true);
	ResetSequenceCaches();
	ResetAllOptions();
	GetTempNamespaceState(&temp, &temp_toast);
	if (OidIsValid(temp))
	{
		StartTransactionCommand();
		ResetTempTableNamespace();
		CommitTransactionCommand();
	}
}
