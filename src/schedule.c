/*-------------------------------------------------------------------------
 *
 * schedule.c
 *		schedule, unschedule, schedule_next.
 *
 * A schedule's next instant stands in its row; the scheduler (fire.c) moves
 * it on in the transaction that enqueues the job, under the row's lock. The
 * earliest one of all stands in shared memory, told at commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "admin.h"
#include "args.h"
#include "grant.h"
#include "maintain.h"
#include "meta.h"
#include "schedule.h"
#include "spi.h"
#include "timeutil.h"
#include "xact.h"

#define MAX_CRON 1024
#define MAX_PREVIEW 100000
/* objsubid of the lock on a schedule's name, beside those of admin.c and xact.c */
#define LOCK_SCHEDULE 5

/* The arguments of schedule(); the columns of jobq.schedule begin with the same. */
enum
{
	ARG_NAME,
	ARG_CRON,
	ARG_QUEUE,
	ARG_PAYLOAD,
	ARG_TIMEZONE,
	ARG_MISSED,
	ARG_OVERLAP,
	ARG_JOB_NAME,
	ARG_PRIORITY,
	ARG_MAX_ATTEMPTS,
	ARG_ENABLED
};

/* When the scheduler is to look at what this transaction has planned; told at commit, since it would see nothing of it before. */
static TimestampTz planned = DT_NOEND;
static DbSlot *planned_db = NULL;

/* Has the scheduler look at the schedules by a time. Cannot fail. */
void
schedule_look_at(DbSlot *db, TimestampTz at)
{
	SpinLockAcquire(&db->mutex);
	db->next_schedule = Min(db->next_schedule, at);
	SpinLockRelease(&db->mutex);
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (TIMESTAMP_IS_NOEND(planned))
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			/* no callback tells of COMMIT PREPARED */
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("cannot PREPARE a transaction that has changed a schedule")));
		case XACT_EVENT_COMMIT:
			schedule_look_at(planned_db, planned);
			shmem_wake_scheduler(planned_db);
			planned = DT_NOEND;
			break;
		case XACT_EVENT_ABORT:
			planned = DT_NOEND;
			break;
		default:
			break;
	}
}

/* Registers the callback. Called once, from _PG_init. */
void
schedule_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}

/*
 * The next instant of a schedule: after now, and after the last one that was dealt with, unless a wrong clock is to blame for that.
 * False: there is none.
 */
bool
schedule_plan(const CronExpr *expr, pg_tz *tz, TimestampTz now, TimestampTz last_run, TimestampTz *next)
{
	return cron_next(expr, tz, last_run <= timestamp_add(now, SCHEDULE_CLOCK_ERROR) ? Max(now, last_run) : now, next);
}

/* Excludes every other change of the settings of the schedule of that name until the transaction ends. */
static void
lock_schedule(const text *name)
{
	LockDatabaseObject(meta_table_oid(TABLE_QUEUE),
					   hash_bytes((const unsigned char *) VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)), LOCK_SCHEDULE,
					   ExclusiveLock);
}

static void
not_null(FunctionCallInfo fcinfo, int argno, const char *what)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", what)));
}

/* An argument that is one of a few words; NULL means the first. Error 22023. */
static const char *
word_arg(FunctionCallInfo fcinfo, int argno, const char *what, const char *const *words, const char *hint)
{
	char *given;

	if (PG_ARGISNULL(argno))
		return words[0];
	given = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	for (int i = 0; words[i]; i++)
		if (strcmp(given, words[i]) == 0)
			return words[i];
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid %s \"%s\"", what, given), errhint("%s", hint)));
}

/* The expression and the zone of two arguments, checked. */
static void
cron_args(FunctionCallInfo fcinfo, int cron_arg, int timezone_arg, CronExpr *expr, pg_tz **tz)
{
	not_null(fcinfo, cron_arg, "cron");
	cron_parse(text_to_cstring(arg_text(fcinfo, cron_arg, "cron", MAX_CRON)), expr);
	*tz = cron_timezone(PG_ARGISNULL(timezone_arg)
							? "UTC"
							: text_to_cstring(arg_text(fcinfo, timezone_arg, "timezone", JOBQ_MAX_NAME)));
}

/* What there is already under the name. */
typedef struct OldSchedule
{
	bool exists;
	bool same_times; /* it is enabled, not broken, and its times are those that are asked for now */
	bool has_next;
	TimestampTz next_run;
	TimestampTz last_run; /* DT_NOBEGIN: none */
} OldSchedule;

/* Reads and locks the row. Inside a scope. values: those of the arguments. */
static void
find_old(Datum *values, OldSchedule *old)
{
	static SpiStatement find = {
		.sql =
			"SELECT next_run, last_run, enabled AND cron = $2 AND timezone = $3 AND (next_run IS NOT NULL OR finished)"
			" FROM jobq.schedule WHERE name = $1 FOR UPDATE",
		.result = SPI_OK_SELECT,
		.nargs = 3,
		.argtypes = {TEXTOID, TEXTOID, TEXTOID}};
	Datum args[3] = {values[ARG_NAME], values[ARG_CRON], values[ARG_TIMEZONE]};
	bool isnull;

	memset(old, 0, sizeof(*old));
	old->last_run = DT_NOBEGIN;
	old->exists = spi_run(&find, args, NULL) > 0;
	if (!old->exists)
		return;
	old->next_run = DatumGetTimestampTz(spi_value(0, 1, &isnull));
	old->has_next = !isnull;
	old->last_run = DatumGetTimestampTz(spi_value(0, 2, &isnull));
	if (isnull)
		old->last_run = DT_NOBEGIN;
	old->same_times = DatumGetBool(spi_value(0, 3, &isnull));
}

/* A role's rights on the queue of the schedule of that name; all, when there is none of the name. Inside a scope. */
static uint32
rights_on(Datum name, Oid role)
{
	static SpiStatement look = {.sql = "SELECT queue_id FROM jobq.schedule WHERE name = $1",
								.result = SPI_OK_SELECT,
								.nargs = 1,
								.argtypes = {TEXTOID}};
	bool isnull;

	if (spi_run(&look, &name, NULL) == 0)
		return RIGHTS_GRANTED;
	return grant_rights(meta_queue_by_id(DatumGetInt32(spi_value(0, 1, &isnull))), role);
}

static void
permission_denied(Datum name, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					errmsg("permission denied for schedule \"%s\"", TextDatumGetCString(name)), errhint("%s", hint)));
}

/* Writes the row. values, nulls: those of the arguments, then owner, next run, now, and whether it is finished. Inside a scope. */
static void
write_schedule(Datum *values, char *nulls)
{
	static Oid types[] = {TEXTOID, TEXTOID, INT4OID, JSONBOID, TEXTOID,        TEXTOID,        TEXTOID, TEXTOID,
						  INT4OID, INT4OID, BOOLOID, TEXTOID,  TIMESTAMPTZOID, TIMESTAMPTZOID, BOOLOID};

	(void) spi_run_once(
		"INSERT INTO jobq.schedule AS s (name, cron, queue_id, payload, timezone, missed, overlap, job_name, priority,"
		" max_attempts, enabled, owner, next_run, created, changed, finished)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $15)"
		" ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, queue_id = excluded.queue_id, payload = excluded.payload,"
		" timezone = excluded.timezone, missed = excluded.missed, overlap = excluded.overlap, job_name = excluded.job_name,"
		" priority = excluded.priority, max_attempts = excluded.max_attempts, enabled = excluded.enabled, owner = excluded.owner,"
		" next_run = excluded.next_run, changed = excluded.changed, finished = excluded.finished, last_error = NULL",
		SPI_OK_INSERT, lengthof(types), types, values, nulls);
}

/* Decides when the schedule is due next. False: never. */
static bool
plan(const OldSchedule *old, const CronExpr *expr, pg_tz *tz, bool enabled, const char *cron, TimestampTz *next)
{
	TimestampTz now = clock_now();

	if (!enabled)
		return false;
	/* what came due meanwhile is not forgotten because the settings are written again, nor does "at" come twice */
	if (old->exists && old->same_times)
	{
		*next = old->next_run;
		return old->has_next;
	}
	if (schedule_plan(expr, tz, now, old->last_run, next))
		return true;
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("\"%s\" lies in the past", cron),
					errdetail("The time zone is %s.", pg_get_timezone_name(tz)),
					errhint("For a job that runs at once use jobq.enqueue().")));
}

/*
 * schedule(name, cron, queue, ...) -> its next run; NULL when it has none: disabled, or a one-shot that is over. Replaces the settings of
 * one of that name. Errors: 22023, 22004 bad argument; 42704 no such queue; JQ004 payload too large.
 */
PG_FUNCTION_INFO_V1(jobq_schedule);
Datum
jobq_schedule(PG_FUNCTION_ARGS)
{
	static const char *const missed_words[] = {"skip", "last", "all", NULL};
	static const char *const overlap_words[] = {"allow", "skip", NULL};
	DbSlot *db = meta_begin("schedule", VERB_WRITES);
	bool enabled = PG_ARGISNULL(ARG_ENABLED) || PG_GETARG_BOOL(ARG_ENABLED);
	Datum values[ARG_ENABLED + 5];
	char nulls[ARG_ENABLED + 6];
	QueueInfo *queue;
	CronExpr expr;
	pg_tz *tz;
	OldSchedule old;
	SpiScope scope;
	TimestampTz next = 0;

	memset(nulls, ' ', sizeof(nulls));
	not_null(fcinfo, ARG_NAME, "name");
	values[ARG_NAME] = PointerGetDatum(arg_text(fcinfo, ARG_NAME, "name", JOBQ_MAX_NAME));
	cron_args(fcinfo, ARG_CRON, ARG_TIMEZONE, &expr, &tz);
	values[ARG_CRON] = PG_GETARG_DATUM(ARG_CRON);
	values[ARG_TIMEZONE] = CStringGetTextDatum(pg_get_timezone_name(tz));
	values[ARG_MISSED] =
		CStringGetTextDatum(word_arg(fcinfo, ARG_MISSED, "missed", missed_words,
									 "Use skip (what was missed is not made up for), last (once) or all."));
	values[ARG_OVERLAP] =
		CStringGetTextDatum(word_arg(fcinfo, ARG_OVERLAP, "overlap", overlap_words,
									 "Use allow, or skip (not while the previous run's job waits or runs)."));
	values[ARG_JOB_NAME] = PointerGetDatum(arg_text(fcinfo, ARG_JOB_NAME, "job_name", JOBQ_MAX_NAME));
	nulls[ARG_JOB_NAME] = PG_ARGISNULL(ARG_JOB_NAME) ? 'n' : ' ';
	values[ARG_PRIORITY] =
		Int32GetDatum(arg_int32_range(fcinfo, ARG_PRIORITY, "priority", 0, PG_INT16_MIN, PG_INT16_MAX));
	nulls[ARG_PRIORITY] = PG_ARGISNULL(ARG_PRIORITY) ? 'n' : ' ';
	values[ARG_MAX_ATTEMPTS] =
		Int32GetDatum(arg_int32_range(fcinfo, ARG_MAX_ATTEMPTS, "max_attempts", 0, 1, JOBQ_MAX_ATTEMPTS));
	nulls[ARG_MAX_ATTEMPTS] = PG_ARGISNULL(ARG_MAX_ATTEMPTS) ? 'n' : ' ';
	values[ARG_ENABLED] = BoolGetDatum(enabled);
	not_null(fcinfo, ARG_PAYLOAD, "payload");
	values[ARG_PAYLOAD] = PG_GETARG_DATUM(ARG_PAYLOAD);

	xact_verb_begin(db);
	(void) grant_queue_arg(fcinfo, ARG_QUEUE, RIGHT_MANAGE);
	admin_lock_name(PG_GETARG_TEXT_PP(ARG_QUEUE), ShareLock); /* it is not dropped meanwhile */
	queue = grant_queue_arg(fcinfo, ARG_QUEUE, RIGHT_MANAGE);
	values[ARG_QUEUE] = Int32GetDatum(queue->id);
	check_json_size(queue, PG_GETARG_JSONB_P(ARG_PAYLOAD), "payload");
	if (jsonb_too_deep(PG_GETARG_JSONB_P(ARG_PAYLOAD)))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("payload nests deeper than %d levels", JOBQ_MAX_JSON_DEPTH)));

	lock_schedule(PG_GETARG_TEXT_PP(ARG_NAME));
	values[ARG_ENABLED + 1] = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	spi_begin(&scope);
	find_old(values, &old);
	if ((rights_on(values[ARG_NAME], scope.userid) & (RIGHT_MANAGE | RIGHT_OWN)) == 0)
		permission_denied(
			values[ARG_NAME],
			"There is one of that name, for a queue that this role does not manage: choose another name.");
	if (!plan(&old, &expr, tz, enabled, text_to_cstring(PG_GETARG_TEXT_PP(ARG_CRON)), &next))
		nulls[ARG_ENABLED + 2] = 'n';
	values[ARG_ENABLED + 2] = TimestampTzGetDatum(next);
	values[ARG_ENABLED + 3] = TimestampTzGetDatum(clock_now());
	values[ARG_ENABLED + 4] = BoolGetDatum(enabled && nulls[ARG_ENABLED + 2] == 'n');
	write_schedule(values, nulls);
	spi_end(&scope);
	if (nulls[ARG_ENABLED + 2] == ' ')
	{
		planned = Min(planned, next);
		planned_db = db;
	}
	xact_verb_end(false);
	if (nulls[ARG_ENABLED + 2] == 'n')
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(next);
}

/*
 * unschedule(name) -> whether there was one. Its history goes with it, its jobs stay. Errors: 22004; 42501 for who may read it, but does
 * not manage its queue. To all others it is not there.
 */
PG_FUNCTION_INFO_V1(jobq_unschedule);
Datum
jobq_unschedule(PG_FUNCTION_ARGS)
{
	static SpiStatement forget = {
		.sql = "DELETE FROM jobq.schedule WHERE name = $1", .result = SPI_OK_DELETE, .nargs = 1, .argtypes = {TEXTOID}};
	static SpiStatement forget_runs = {.sql = "DELETE FROM jobq.schedule_run WHERE schedule = $1",
									   .result = SPI_OK_DELETE,
									   .nargs = 1,
									   .argtypes = {TEXTOID}};
	DbSlot *db = meta_begin("unschedule", VERB_WRITES);
	SpiScope scope;
	Datum name;
	uint32 rights;
	bool found = false;

	not_null(fcinfo, 0, "name");
	name = PG_GETARG_DATUM(0);
	xact_verb_begin(db);
	lock_schedule(PG_GETARG_TEXT_PP(0));
	spi_begin(&scope);
	rights = rights_on(name, scope.userid);
	if ((rights & (RIGHT_MANAGE | RIGHT_OWN)) != 0)
		found = spi_run(&forget, &name, NULL) > 0;
	else if ((rights & RIGHTS_READ) != 0)
		permission_denied(name, "The owner of its queue gives the privilege manage with jobq.grant_queue().");
	if (found)
		(void) spi_run(&forget_runs, &name, NULL);
	spi_end(&scope);
	xact_verb_end(false);
	PG_RETURN_BOOL(found);
}

/* schedule_next(cron, timezone, after, n): the next n instants, fewer when there are not so many. Errors: 22023, 22004. */
PG_FUNCTION_INFO_V1(jobq_schedule_next);
Datum
jobq_schedule_next(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int n = arg_int32_range(fcinfo, 3, "n", 5, 1, MAX_PREVIEW);
	TimestampTz after = PG_ARGISNULL(2) ? clock_now() : PG_GETARG_TIMESTAMPTZ(2);
	CronExpr expr;
	CronWalk walk;
	pg_tz *tz;
	Datum value;
	bool isnull = false;
	TimestampTz instant;

	(void) meta_begin("schedule_next", VERB_READS);
	cron_args(fcinfo, 0, 1, &expr, &tz);
	if (TIMESTAMP_NOT_FINITE(after))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("after must be finite")));
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	cron_walk_begin(&walk, &expr, tz, after);
	while (n-- > 0 && cron_walk_next(&walk, &instant))
	{
		CHECK_FOR_INTERRUPTS();
		value = TimestampTzGetDatum(instant);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}
	return (Datum) 0;
}
