/*-------------------------------------------------------------------------
 *
 * backoff.c
 *		How long a failed job waits before it may run again.
 *
 * With base b and failed attempt n (from 1):
 *		fixed				b
 *		linear				b * n
 *		exponential			b * 2^(n-1)
 *		exponential_jitter	between half of that and all of it
 *		function			f(n, error); its error or NULL counts as exponential_jitter
 * All saturate, and backoff_cap bounds each. A growing strategy never gives
 * less than 1 ms, so that a base of 0 is no hot loop.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "args.h"
#include "backoff.h"
#include "compat.h"
#include "timeutil.h"

#define MIN_GROWING_DELAY INT64CONST(1000)
/* A function that takes longer is interrupted: it holds up whoever counts the failure, also the scheduler. */
#define LONGEST_CALL_MS 1000
#define INTERRUPT_AGAIN_MS 100

static TimeoutId call_timer;
static bool registered = false;
static volatile sig_atomic_t call_too_long = false;

/* In a signal handler. */
static void
interrupt_call(void)
{
	call_too_long = true;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

static void
watch_call(void)
{
	if (!registered)
		call_timer = RegisterTimeout(USER_TIMEOUT, interrupt_call);
	registered = true;
	enable_timeout_every(call_timer, GetCurrentTimestamp() + LONGEST_CALL_MS * INT64CONST(1000), INTERRUPT_AGAIN_MS);
}

/* Returns whether the call was interrupted. */
static bool
unwatch_call(void)
{
	if (registered)
		disable_timeout(call_timer, false);
	if (call_too_long)
		QueryCancelPending = false;
	return call_too_long;
}

/* Whether the function is f(int, text) returns interval. */
bool
backoff_function_fits(Oid oid)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
	Form_pg_proc form;
	bool result;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	result = form->prokind == PROKIND_FUNCTION && !form->proretset && form->prorettype == INTERVALOID &&
			 form->pronargs == 2 && form->proargtypes.values[0] == INT4OID && form->proargtypes.values[1] == TEXTOID;
	ReleaseSysCache(tuple);
	return result;
}

/* Calls f(attempt, error) as the queue's owner, in a restricted context. Microseconds, or -1 for NULL, a negative or a failed one. */
static int64
call_function(QueueInfo *queue, int attempt, const text *error)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile int64 result = -1;
	Oid user;
	int sec_context;
	int nest;

	GetUserIdAndSecContext(&user, &sec_context);
	nest = NewGUCNestLevel();
	call_too_long = false;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		LOCAL_FCINFO(fcinfo, 2);
		FmgrInfo flinfo;
		Oid role = get_role_oid(queue->owner, false);
		Oid function = function_by_signature(queue->backoff_function, false);
		Datum datum;

		SetUserIdAndSecContext(role, sec_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
		(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
		if (!backoff_function_fits(function))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("%s is no longer a function f(int, text) returns interval", queue->backoff_function)));
		if (function_aclcheck_compat(function, role) != ACLCHECK_OK)
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							errmsg("role \"%s\" may not execute %s", queue->owner, queue->backoff_function)));
		fmgr_info(function, &flinfo);
		InitFunctionCallInfoData(*fcinfo, &flinfo, 2, InvalidOid, NULL, NULL);
		fcinfo->args[0].value = Int32GetDatum(attempt);
		fcinfo->args[0].isnull = false;
		fcinfo->args[1].value = PointerGetDatum(error);
		fcinfo->args[1].isnull = error == NULL;
		if (!flinfo.fn_strict || error != NULL)
		{
			watch_call();
			datum = FunctionCallInvoke(fcinfo);
			(void) unwatch_call();
			if (!fcinfo->isnull)
				result = interval_usecs(DatumGetIntervalP(datum), "backoff_function's result", 0, JOBQ_MAX_DELAY_USECS);
		}
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *edata;
		bool interrupted = unwatch_call();

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		result = -1;
		/* a cancel or shutdown is meant for the verb, not for the function; one that the function raises itself is an error as any */
		if (!interrupted &&
			(edata->sqlerrcode == ERRCODE_QUERY_CANCELED || edata->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN) &&
			edata->funcname && strcmp(edata->funcname, "ProcessInterrupts") == 0)
		{
			MemoryContextSwitchTo(context);
			CurrentResourceOwner = owner;
			SetUserIdAndSecContext(user, sec_context);
			AtEOXact_GUC(false, nest);
			ReThrowError(edata);
		}
		ereport(
			WARNING,
			(errmsg("backoff function of queue \"%s\" failed: %s", queue->name,
					interrupted ? "it took longer than 1 s" : edata->message),
			 errhint(
				 "The default backoff is used. Mend the function, or choose another backoff with jobq.alter_queue().")));
		FreeErrorData(edata);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	SetUserIdAndSecContext(user, sec_context);
	AtEOXact_GUC(false, nest);
	return result;
}

/* Microseconds that the job waits after its n-th failed attempt. */
int64
backoff_delay(QueueInfo *queue, int attempt, const text *error)
{
	int64 delay = -1;
	bool jitter = queue->backoff == BACKOFF_EXPONENTIAL_JITTER;

	if (queue->backoff == BACKOFF_FUNCTION && queue->backoff_function)
		delay = call_function(queue, attempt, error);
	if (delay < 0)
	{
		jitter = jitter || queue->backoff == BACKOFF_FUNCTION;
		delay = queue->backoff_base;
		if (queue->backoff == BACKOFF_LINEAR)
			delay = saturating_mul(delay, attempt);
		else if (queue->backoff != BACKOFF_FIXED)
			delay =
				attempt > 62 ? (delay > 0 ? PG_INT64_MAX : 0) : saturating_mul(delay, INT64CONST(1) << (attempt - 1));
		if (queue->backoff != BACKOFF_FIXED)
			delay = Max(delay, MIN_GROWING_DELAY);
	}
	delay = Min(Min(delay, queue->backoff_cap), JOBQ_MAX_DELAY_USECS);
	if (jitter)
		delay = delay - (int64) (pg_prng_double(&pg_global_prng_state) * (double) (delay / 2));
	return delay;
}
