/*-------------------------------------------------------------------------
 *
 * settings.c
 *		The settings of a queue: one list, from which create_queue() and
 *		alter_queue() take their arguments, and one check for both.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "backoff.h"
#include "eventkind.h"
#include "settings.h"
#include "timeutil.h"

/* Defaults are those of the extension script; a regression test compares the two. */
const SettingInfo setting_info[NUM_SETTINGS] = {
	[SETTING_MAX_ATTEMPTS] = {"max_attempts", INT4OID, false, true, "3"},
	[SETTING_LEASE] = {"lease", INTERVALOID, false, true, "30 s"},
	[SETTING_TIMEOUT] = {"timeout", INTERVALOID, true, true, NULL},
	[SETTING_BACKOFF] = {"backoff", TEXTOID, false, true, "exponential_jitter"},
	[SETTING_BACKOFF_BASE] = {"backoff_base", INTERVALOID, false, true, "1 s"},
	[SETTING_BACKOFF_CAP] = {"backoff_cap", INTERVALOID, true, true, NULL},
	[SETTING_BACKOFF_FUNCTION] = {"backoff_function", TEXTOID, true, true, NULL},
	[SETTING_CONCURRENCY] = {"concurrency", INT4OID, true, true, NULL},
	[SETTING_RATE_LIMIT] = {"rate_limit", INT4OID, true, true, NULL},
	[SETTING_RATE_INTERVAL] = {"rate_interval", INTERVALOID, false, true, "1 s"},
	[SETTING_RATE_BURST] = {"rate_burst", INT4OID, true, true, NULL},
	[SETTING_KEEP_COMPLETED] = {"keep_completed", INTERVALOID, true, true, "1 day"},
	[SETTING_KEEP_DEAD] = {"keep_dead", INTERVALOID, true, true, "30 days"},
	[SETTING_DEAD_LETTER_QUEUE] = {"dead_letter_queue", INT4OID, true, true, NULL},
	[SETTING_MAX_PAYLOAD_BYTES] = {"max_payload_bytes", INT4OID, false, true, "262144"},
	[SETTING_NOTIFY] = {"notify", BOOLOID, false, true, "false"},
	[SETTING_ON_RETRY] = {"on_retry", TEXTOID, false, true, "hold"},
	[SETTING_ON_DEAD] = {"on_dead", TEXTOID, false, true, "block"},
	[SETTING_GROUP_RATE_LIMIT] = {"group_rate_limit", INT4OID, true, true, NULL},
	[SETTING_GROUP_RATE_INTERVAL] = {"group_rate_interval", INTERVALOID, false, true, "1 s"},
	[SETTING_GROUP_LEASE] = {"group_lease", INTERVALOID, true, true, NULL},
	[SETTING_ISOLATE_ABOVE] = {"isolate_above", INT4OID, true, true, NULL},
	[SETTING_EVENTS] = {"events", TEXTARRAYOID, true, true, NULL},
	[SETTING_ALERT_DEAD] = {"alert_dead", INT4OID, true, true, NULL},
	[SETTING_ALERT_DEAD_INTERVAL] = {"alert_dead_interval", INTERVALOID, true, true, NULL},
	[SETTING_LIMIT_NAME] = {"limit_name", TEXTOID, true, true, NULL},
	[SETTING_AGEING] = {"ageing", BOOLOID, false, true, "false"},
};

static const char *const backoff_names[] = {"fixed", "linear", "exponential", "exponential_jitter", "function"};

/*
 * A name for a queue, as a palloc'd C string. what: the argument, for messages. Errors: 22004 null; 22023 empty, longer than
 * JOBQ_MAX_QUEUE_NAME bytes, or with control characters.
 */
char *
settings_check_name(const text *name, const char *what)
{
	char *result;

	if (name == NULL)
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", what)));
	if (VARSIZE_ANY_EXHDR(name) == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", what)));
	if (VARSIZE_ANY_EXHDR(name) > JOBQ_MAX_QUEUE_NAME)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is too long", what),
				 errdetail("It has %d bytes; the limit is %d.", (int) VARSIZE_ANY_EXHDR(name), JOBQ_MAX_QUEUE_NAME)));
	result = text_to_cstring(name);
	for (const unsigned char *c = (const unsigned char *) result; *c; c++)
		if (*c < ' ' || *c == 0x7f)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not contain control characters", what)));
	return result;
}

/* The default of a setting, in the current memory context. */
static Datum
standard_value(Setting s, bool *isnull)
{
	Oid input;
	Oid ioparam;

	*isnull = setting_info[s].standard == NULL;
	if (*isnull)
		return (Datum) 0;
	getTypeInputInfo(setting_info[s].type, &input, &ioparam);
	return OidInputFunctionCall(input, unconstify(char *, setting_info[s].standard), ioparam, -1);
}

/* Whether a given value is the setting's default. */
static bool
is_standard(Setting s, Datum value)
{
	bool isnull;
	Datum standard = standard_value(s, &isnull);

	if (isnull)
		return false;
	switch (setting_info[s].type)
	{
		case INTERVALOID:
			return DatumGetBool(DirectFunctionCall2(interval_eq, value, standard));
		case TEXTOID:
			return strcmp(TextDatumGetCString(value), TextDatumGetCString(standard)) == 0;
		default:
			return value == standard;
	}
}

/* Oid of the function of that signature as the caller's search path finds it, or InvalidOid. Syntax errors are errors. */
static Oid
find_signature(const char *signature)
{
	LOCAL_FCINFO(call, 1);
	Datum result;

	InitFunctionCallInfoData(*call, NULL, 1, InvalidOid, NULL, NULL);
	call->args[0].value = CStringGetTextDatum(signature);
	call->args[0].isnull = false;
	result = to_regprocedure(call);
	return call->isnull ? InvalidOid : DatumGetObjectId(result);
}

/*
 * Resolves a backoff function given by name or by signature; returns its schema-qualified signature. Errors: 42883 unknown, 22023 not
 * of the right type. A text and not an oid is stored, so that pg_upgrade and a restore keep it.
 */
static text *
resolve_backoff_function(const text *given)
{
	char *name = text_to_cstring(given);
	bool known;
	Oid oid = InvalidOid;

	if (strchr(name, '('))
	{
		oid = find_signature(name);
		known = OidIsValid(oid);
	}
	else
	{
		List *names = textToQualifiedNameList(unconstify(text *, given));
		FuncCandidateList candidates = FuncnameGetCandidates(names, -1, NIL, false, false, false, true);

		known = candidates != NULL;
		/* without a count of arguments the list is of every function of that name that the search path shows */
		for (; candidates && !OidIsValid(oid); candidates = candidates->next)
			if (backoff_function_fits(candidates->oid))
				oid = candidates->oid;
	}
	if (!known)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("function \"%s\" does not exist", name),
						errhint("backoff_function names a function f(attempt int, error text) returns interval.")));
	if (!OidIsValid(oid) || !backoff_function_fits(oid))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("function \"%s\" cannot be a backoff function", name),
				 errhint("It must be a function f(attempt int, error text) returns interval.")));
	return cstring_to_text(format_procedure_qualified(oid));
}

/*
 * Reads the arguments that follow the name. What was not given, or is null, is null in *settings. *dead_letter_queue: the name given,
 * or NULL; the setting itself is 0 then, for the caller to fill. Errors: 0A000 for a setting of a later version; those of
 * the backoff function.
 */
void
settings_from_args(FunctionCallInfo fcinfo, QueueSettings *settings, text **dead_letter_queue)
{
	*dead_letter_queue = NULL;
	for (Setting s = 0; s < NUM_SETTINGS; s++)
	{
		int arg = s + 1;

		settings->isnull[s] = PG_ARGISNULL(arg);
		settings->value[s] = PG_ARGISNULL(arg) ? (Datum) 0 : PG_GETARG_DATUM(arg);
		if (settings->isnull[s])
			continue;
		if (setting_info[s].type == TEXTOID)
			settings->value[s] = PointerGetDatum(PG_DETOAST_DATUM(settings->value[s]));
		if (!setting_info[s].supported && !is_standard(s, settings->value[s]))
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("setting \"%s\" is not supported in this version", setting_info[s].name)));
		if (s == SETTING_BACKOFF_FUNCTION)
			settings->value[s] = PointerGetDatum(resolve_backoff_function(DatumGetTextPP(settings->value[s])));
		if (s == SETTING_DEAD_LETTER_QUEUE)
		{
			*dead_letter_queue = DatumGetTextPP(settings->value[s]);
			settings->value[s] = Int32GetDatum(0);
		}
	}
}

/*
 * Puts the named settings back to their defaults. given: what the same call sets. Errors: 22023 for a name that is not a setting, or
 * one that is also given; 22004 for a null name.
 */
void
settings_reset(QueueSettings *settings, const QueueSettings *given, ArrayType *names)
{
	Datum *elements;
	bool *nulls;
	int n;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		char *name;
		Setting s;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("reset must not contain nulls")));
		name = TextDatumGetCString(elements[i]);
		for (s = 0; s < NUM_SETTINGS && strcmp(setting_info[s].name, name) != 0; s++)
			;
		if (s == NUM_SETTINGS)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no setting \"%s\"", name),
							errhint("reset takes the names of the settings that alter_queue() has as arguments.")));
		if (!given->isnull[s])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("setting \"%s\" is both given and reset", name)));
		settings->value[s] = standard_value(s, &settings->isnull[s]);
	}
}

static void
check_int(const QueueSettings *settings, Setting s, int min, int max)
{
	int32 value = DatumGetInt32(settings->value[s]);

	if (value < min || value > max)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s must be between %d and %d", setting_info[s].name, min, max)));
}

static void
check_interval(const QueueSettings *settings, Setting s, int64 min, int64 max)
{
	if (!settings->isnull[s])
		(void) interval_usecs(DatumGetIntervalP(settings->value[s]), setting_info[s].name, min, max);
}

static void
check_choice(const QueueSettings *settings, Setting s, const char *one, const char *other)
{
	char *value = TextDatumGetCString(settings->value[s]);

	if (strcmp(value, one) != 0 && strcmp(value, other) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid %s \"%s\"", setting_info[s].name, value),
				 errhint("It is %s or %s.", one, other)));
}

/* Checks the settings of what a queue tells of. */
static void
check_events(const QueueSettings *settings)
{
	if (!settings->isnull[SETTING_EVENTS])
		(void) event_mask(DatumGetArrayTypeP(settings->value[SETTING_EVENTS]));
	check_interval(settings, SETTING_ALERT_DEAD_INTERVAL, 1000, JOBQ_MAX_DELAY_USECS);
	if (!settings->isnull[SETTING_ALERT_DEAD])
		check_int(settings, SETTING_ALERT_DEAD, 1, PG_INT32_MAX);
	else if (!settings->isnull[SETTING_ALERT_DEAD_INTERVAL])
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("alert_dead_interval needs alert_dead"),
						errhint("alert_dead is the number of jobs that may not die within the interval.")));
	/* it would never have a dead letter of its own */
	if (!settings->isnull[SETTING_ALERT_DEAD] && settings->isnull[SETTING_ALERT_DEAD_INTERVAL] &&
		!settings->isnull[SETTING_DEAD_LETTER_QUEUE])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("alert_dead of a queue with a dead_letter_queue needs alert_dead_interval"),
				 errhint("Its dead letters are counted by the interval in which they die, for none stays with it.")));
}

static void
check_limits(const QueueSettings *settings)
{
	if (!settings->isnull[SETTING_CONCURRENCY])
		check_int(settings, SETTING_CONCURRENCY, 1, 1000000);
	if (!settings->isnull[SETTING_RATE_LIMIT])
		check_int(settings, SETTING_RATE_LIMIT, 1, 1000000);
	check_interval(settings, SETTING_RATE_INTERVAL, 1000, JOBQ_MAX_DELAY_USECS);
	if (!settings->isnull[SETTING_RATE_BURST])
		check_int(settings, SETTING_RATE_BURST, 1, 1000000);
	if (!settings->isnull[SETTING_RATE_BURST] && settings->isnull[SETTING_RATE_LIMIT])
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("rate_burst needs rate_limit")));
	if (settings->isnull[SETTING_LIMIT_NAME])
		return;
	(void) settings_check_name(DatumGetTextPP(settings->value[SETTING_LIMIT_NAME]), "limit_name");
	if (settings->isnull[SETTING_CONCURRENCY] && settings->isnull[SETTING_RATE_LIMIT])
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("limit_name needs concurrency or rate_limit"),
						errhint("Queues of one limit_name share them: give each the number that it may go up to.")));
}

/*
 * Checks a queue's settings as a whole; what they refer to (dead_letter_queue) is the caller's to check. Errors: 22004 for
 * a null where there must be a value, 22023 for a value out of its range.
 */
void
settings_check(const QueueSettings *settings)
{
	const char *backoff;
	bool known = false;

	for (Setting s = 0; s < NUM_SETTINGS; s++)
		if (settings->isnull[s] && !setting_info[s].nullable)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", setting_info[s].name)));
	check_int(settings, SETTING_MAX_ATTEMPTS, 1, JOBQ_MAX_ATTEMPTS);
	check_int(settings, SETTING_MAX_PAYLOAD_BYTES, 1, 268435455);
	check_interval(settings, SETTING_LEASE, 1000, JOBQ_MAX_LEASE_USECS);
	check_interval(settings, SETTING_TIMEOUT, 1000, JOBQ_MAX_DELAY_USECS);
	check_interval(settings, SETTING_BACKOFF_BASE, 0, JOBQ_MAX_DELAY_USECS);
	check_interval(settings, SETTING_BACKOFF_CAP, 0, JOBQ_MAX_DELAY_USECS);
	check_interval(settings, SETTING_KEEP_COMPLETED, 0, JOBQ_MAX_DELAY_USECS);
	check_interval(settings, SETTING_KEEP_DEAD, 0, JOBQ_MAX_DELAY_USECS);

	check_limits(settings);
	check_interval(settings, SETTING_GROUP_RATE_INTERVAL, 1000, JOBQ_MAX_DELAY_USECS);
	check_interval(settings, SETTING_GROUP_LEASE, 1000, JOBQ_MAX_LEASE_USECS);
	if (!settings->isnull[SETTING_GROUP_RATE_LIMIT])
		check_int(settings, SETTING_GROUP_RATE_LIMIT, 1, 1000000);
	if (!settings->isnull[SETTING_ISOLATE_ABOVE])
		check_int(settings, SETTING_ISOLATE_ABOVE, 1, 100000);
	check_events(settings);
	check_choice(settings, SETTING_ON_RETRY, "hold", "pass");
	check_choice(settings, SETTING_ON_DEAD, "block", "skip");

	backoff = TextDatumGetCString(settings->value[SETTING_BACKOFF]);
	for (int i = 0; i < lengthof(backoff_names); i++)
		known |= strcmp(backoff, backoff_names[i]) == 0;
	if (!known)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no backoff \"%s\"", backoff),
						errhint("It is one of fixed, linear, exponential, exponential_jitter, function.")));
	if (strcmp(backoff, "function") == 0 && settings->isnull[SETTING_BACKOFF_FUNCTION])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("backoff \"function\" needs backoff_function")));
	if (strcmp(backoff, "function") != 0 && !settings->isnull[SETTING_BACKOFF_FUNCTION])
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("backoff_function needs backoff \"function\", not \"%s\"", backoff),
			 errhint(
				 "Set backoff => 'function', or leave the function out; alter_queue(reset => '{backoff_function}') takes it away.")));
}
