/*-------------------------------------------------------------------------
 *
 * fire.c
 *		The step that enqueues the jobs of schedules that are due.
 *
 * A schedule is dealt with under its row's lock: the job, the mark of the
 * instant in schedule_run and the next instant are one commit, so that an
 * instant fires once whatever happens. Each schedule has a subtransaction:
 * one that cannot fire is noted, put to its next instant, and holds up no
 * other. A row that somebody else has locked is passed over and tried again.
 *
 * The commit waits for this server's disk: a job that was seen is not fired
 * again after a crash.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "debug.h"
#include "grant.h"
#include "maintain.h"
#include "meta.h"
#include "schedule.h"
#include "spi.h"
#include "timeutil.h"

#define FIRE_SCHEDULES 100 /* in one transaction */
#define FIRE_JOBS 1000     /* the same, when many were missed */
#define BUSY_FIRST (20 * 1000)
#define BUSY_LONGEST USECS_PER_SEC
#define MAX_ERROR 1000 /* bytes kept of an error */

/* the statements below say these numbers */
StaticAssertDecl(SCHEDULE_RUNS_KEPT == 100 && FIRE_SCHEDULES == 100, "statements of fire.c and their limits");

/* A schedule in hand. */
typedef struct Due
{
	text *name;
	int32 queue_id;
	char *cron;
	char *timezone;
	char *owner;
	char *last_error; /* NULL: none */
	bool skip_missed;
	bool all_missed;
	bool skip_overlap;
	bool has_next;
	TimestampTz next_run;
	TimestampTz last_run; /* DT_NOBEGIN: none */
	int64 last_job;       /* 0: none */
	/* found out */
	bool planned; /* the expression and the zone are good */
	TimestampTz instant;
	bool has_following;
	TimestampTz following; /* the next instant after this run */
	const char *outcome;
	int njobs;
} Due;

static bool looked = false;          /* this process has looked at every schedule */
static TimestampTz taken = DT_NOEND; /* out of shared memory, by the running step */
static int64 busy_pause = 0;         /* before schedules are tried again that others have locked */

/* When the next schedule is due. */
TimestampTz
schedule_due(Maintain *m)
{
	TimestampTz due;

	SpinLockAcquire(&m->db->mutex);
	due = m->db->next_schedule;
	SpinLockRelease(&m->db->mutex);
	return looked ? due : DT_NOBEGIN;
}

/* Puts back what a step that came to nothing has taken. */
void
schedule_undo(Maintain *m)
{
	schedule_look_at(m->db, taken);
	taken = DT_NOEND;
}

static char *
copy_text(uint64 row, int column)
{
	bool isnull;
	Datum value = spi_value(row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* The rows of the last statement, which has the columns as in COLUMNS; they outlive the scope. */
#define COLUMNS "name, cron, timezone, owner, last_error, missed, overlap, next_run, last_run, last_job, queue_id"
static Due *
read_rows(int n, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	Due *rows = palloc0(Max(n, 1) * sizeof(Due));
	bool isnull;

	for (int i = 0; i < n; i++)
	{
		Due *d = &rows[i];

		d->name = DatumGetTextPCopy(spi_value(i, 1, &isnull));
		d->cron = copy_text(i, 2);
		d->timezone = copy_text(i, 3);
		d->owner = copy_text(i, 4);
		d->last_error = copy_text(i, 5);
		d->skip_missed = strcmp(copy_text(i, 6), "skip") == 0;
		d->all_missed = strcmp(copy_text(i, 6), "all") == 0;
		d->skip_overlap = strcmp(copy_text(i, 7), "skip") == 0;
		d->next_run = DatumGetTimestampTz(spi_value(i, 8, &isnull));
		d->has_next = !isnull;
		d->last_run = DatumGetTimestampTz(spi_value(i, 9, &isnull));
		d->last_run = isnull ? DT_NOBEGIN : d->last_run;
		d->last_job = DatumGetInt64(spi_value(i, 10, &isnull));
		d->last_job = isnull ? 0 : d->last_job;
		d->queue_id = DatumGetInt32(spi_value(i, 11, &isnull));
	}
	MemoryContextSwitchTo(old);
	return rows;
}

/* What is wrong with the server, or its state, not with one schedule. */
static bool
is_general(int sqlstate)
{
	int class = ERRCODE_TO_CATEGORY(sqlstate);

	return class == ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) ||
		   class == ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION) ||
		   class == ERRCODE_TO_CATEGORY(ERRCODE_TRANSACTION_ROLLBACK) ||
		   class == ERRCODE_TO_CATEGORY(ERRCODE_SYSTEM_ERROR) || sqlstate == ERRCODE_LOCK_NOT_AVAILABLE;
}

/* Runs something in a subtransaction. Returns NULL, or the error that undid it. */
static ErrorData *
run_protected(void (*what)(Due *), Due *d)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner resources = CurrentResourceOwner;
	ErrorData *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		what(d);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = resources;
	if (error && is_general(error->sqlerrcode))
		ReThrowError(error);
	return error;
}

/* Writes into the history what became of an instant. job_id 0: there is none. Inside a scope. */
static void
note_run(Due *d, TimestampTz instant, const char *outcome, int64 job_id, const char *detail)
{
	static SpiStatement note = {
		.sql =
			"INSERT INTO jobq.schedule_run (schedule, instant, outcome, at, job_id, detail) VALUES ($1, $2, $3, $4, $5, $6)"
			" ON CONFLICT (schedule, instant) DO NOTHING",
		.result = SPI_OK_INSERT,
		.nargs = 6,
		.argtypes = {TEXTOID, TIMESTAMPTZOID, TEXTOID, TIMESTAMPTZOID, INT8OID, TEXTOID}};
	Datum values[] = {PointerGetDatum(d->name),     TimestampTzGetDatum(instant),
					  CStringGetTextDatum(outcome), TimestampTzGetDatum(clock_now()),
					  Int64GetDatum(job_id),        detail ? CStringGetTextDatum(detail) : (Datum) 0};
	char nulls[] = {' ', ' ', ' ', ' ', job_id == 0 ? 'n' : ' ', detail ? ' ' : 'n'};

	(void) spi_run(&note, values, nulls);
	d->outcome = outcome;
}

/* Moves a schedule on to its next instant. error NULL: none. Inside a scope. */
static void
move_on(Due *d, const char *error)
{
	static SpiStatement move = {
		.sql =
			"UPDATE jobq.schedule SET next_run = $2, last_run = $3, last_job = coalesce($4, last_job), last_outcome = coalesce($5, last_outcome),"
			" last_error = CASE WHEN $5 = 'enqueued' THEN NULL ELSE coalesce($6, last_error) END,"
			" finished = $2 IS NULL AND $7 WHERE name = $1",
		.result = SPI_OK_UPDATE,
		.nargs = 7,
		.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, TEXTOID, TEXTOID, BOOLOID}};
	static SpiStatement trim = {
		.sql =
			"DELETE FROM jobq.schedule_run WHERE schedule = $1 AND instant <"
			" (SELECT r.instant FROM jobq.schedule_run r WHERE r.schedule = $1 ORDER BY r.instant DESC OFFSET 99 LIMIT 1)",
		.result = SPI_OK_DELETE,
		.nargs = 1,
		.argtypes = {TEXTOID}};
	Datum values[] = {PointerGetDatum(d->name),
					  TimestampTzGetDatum(d->following),
					  TimestampTzGetDatum(d->instant),
					  Int64GetDatum(d->last_job),
					  d->outcome ? CStringGetTextDatum(d->outcome) : (Datum) 0,
					  error ? CStringGetTextDatum(error) : (Datum) 0,
					  BoolGetDatum(d->planned)};
	char nulls[] = {
		' ', d->has_following ? ' ' : 'n', ' ', d->last_job == 0 ? 'n' : ' ', d->outcome ? ' ' : 'n', error ? ' ' : 'n',
		' '};

	(void) spi_run(&move, values, nulls);
	(void) spi_run(&trim, values, NULL);
}

/* Enqueues the job of one instant, unless the previous one is still live and that matters. Inside a scope. */
static void
fire_instant(Due *d, TimestampTz instant)
{
	static SpiStatement look = {.sql = "SELECT EXISTS (SELECT 1 FROM jobq.job WHERE id = $1),"
									   " EXISTS (SELECT 1 FROM jobq.schedule_run WHERE schedule = $2 AND instant = $3)",
								.result = SPI_OK_SELECT,
								.nargs = 3,
								.argtypes = {INT8OID, TEXTOID, TIMESTAMPTZOID}};
	static SpiStatement enqueue = {
		.sql =
			"SELECT jobq.enqueue(q.name, s.payload, name => s.job_name, priority => s.priority, max_attempts => s.max_attempts,"
			" headers => jsonb_build_object('schedule', s.name, 'scheduled_for', $2))"
			" FROM jobq.schedule s JOIN jobq.queue q ON q.id = s.queue_id WHERE s.name = $1",
		.result = SPI_OK_SELECT,
		.nargs = 2,
		.argtypes = {TEXTOID, TIMESTAMPTZOID}};
	Datum look_values[] = {Int64GetDatum(d->last_job), PointerGetDatum(d->name), TimestampTzGetDatum(instant)};
	Datum values[] = {PointerGetDatum(d->name), TimestampTzGetDatum(instant)};
	bool isnull;

	(void) spi_run(&look, look_values, NULL);
	if (DatumGetBool(spi_value(0, 2, &isnull)))
		return; /* fired already: the clock was set back */
	if (d->skip_overlap && d->last_job != 0 && DatumGetBool(spi_value(0, 1, &isnull)))
	{
		note_run(d, instant, "skipped", 0, psprintf("job " INT64_FORMAT " is not finished", d->last_job));
		return;
	}
	if (spi_run(&enqueue, values, NULL) == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("its queue does not exist")));
	d->last_job = DatumGetInt64(spi_value(0, 1, &isnull));
	d->njobs++;
	note_run(d, instant, "enqueued", d->last_job, NULL);
}

/* Whoever made a schedule enqueues by it: error when that role may not do so any more. */
static void
check_owner(Due *d)
{
	Oid role = get_role_oid(d->owner, true);
	QueueInfo *queue = meta_queue_by_id(d->queue_id);

	if (!OidIsValid(role))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("role \"%s\", who made it, does not exist", d->owner)));
	if (queue == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("its queue does not exist")));
	if ((grant_rights(queue, role) & RIGHTS_FIRE) == 0)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("role \"%s\", who made it, may not enqueue to queue \"%s\"", d->owner, queue->name)));
}

/* Notes that instants up to this one were missed, from the one that was due on. Inside a scope. */
static void
note_missed(Due *d, TimestampTz latest)
{
	note_run(d, latest, "missed", 0,
			 latest == d->next_run ? NULL : psprintf("with all since %s", timestamptz_to_str(d->next_run)));
}

/* Deals with a schedule that is due. */
static void
fire(Due *d)
{
	TimestampTz instants[SCHEDULE_MAX_MISSED + 1];
	TimestampTz now = clock_now();
	int want = d->all_missed ? SCHEDULE_MAX_MISSED : 1;
	CronExpr expr;
	SpiScope scope;
	pg_tz *tz;
	int n;
	int first;

	cron_parse(d->cron, &expr);
	tz = cron_timezone(d->timezone);
	n = cron_latest(&expr, tz, d->next_run, now, instants, want + 1);
	if (n == 0)
		instants[n++] = d->next_run; /* the rules of the zone have changed */
	d->instant = instants[n - 1];
	d->has_following = schedule_plan(&expr, tz, now, d->instant, &d->following);
	d->planned = true;

	check_owner(d);
	first = Max(n - want, 0);
	/* "at" is late rather than never */
	if (d->skip_missed && expr.kind != CRON_AT && d->instant < now - SCHEDULE_GRACE)
		first = n;
	spi_begin(&scope);
	if (first > 0)
		note_missed(d, instants[first - 1]);
	for (int i = first; i < n; i++)
		fire_instant(d, instants[i]);
	move_on(d, NULL);
	spi_end(&scope);
}

/* Notes that a schedule could not fire; the first time also in the server's log. */
static void
fail(Due *d, ErrorData *error)
{
	char *text = error->detail ? psprintf("%s (%s)", error->message, error->detail) : pstrdup(error->message);
	SpiScope scope;

	text[pg_mbcliplen(text, strlen(text), MAX_ERROR)] = '\0';
	d->njobs = 0;
	d->last_job = 0;
	if (!d->planned)
	{
		d->instant = d->next_run;
		d->has_following = false;
	}
	if (d->last_error == NULL || strcmp(d->last_error, text) != 0)
		ereport(WARNING, (errmsg("schedule \"%s\" could not enqueue its job: %s", text_to_cstring(d->name), text),
						  d->planned ? errdetail("It goes on at its next time.")
									 : errdetail("It is broken, and has no next time."),
						  errhint("See the view jobq.schedule_runs; jobq.schedule() replaces its settings.")));
	spi_begin(&scope);
	note_run(d, d->instant, "failed", 0, text);
	move_on(d, text);
	spi_end(&scope);
}

/* Finds out when a schedule is due next, as of now. */
static void
replan(Due *d)
{
	CronExpr expr;
	pg_tz *tz;

	cron_parse(d->cron, &expr);
	tz = cron_timezone(d->timezone);
	d->has_following = schedule_plan(&expr, tz, clock_now(), d->last_run, &d->following);
	d->planned = true;
}

/*
 * Looks at every schedule: one that waits longer than it should, because the clock was set back or the rules of its zone changed, is
 * planned anew, and so is one whose zone is known again.
 */
static void
look_at_all(void)
{
	static SpiStatement find = {.sql = "SELECT " COLUMNS " FROM jobq.schedule WHERE enabled AND NOT finished",
								.result = SPI_OK_SELECT};
	static SpiStatement move = {
		.sql =
			"UPDATE jobq.schedule SET next_run = $3, last_run = CASE WHEN last_run <= $4 THEN last_run END"
			" WHERE name = (SELECT s.name FROM jobq.schedule s WHERE s.name = $1 AND s.next_run IS NOT DISTINCT FROM $2"
			" FOR UPDATE SKIP LOCKED)",
		.result = SPI_OK_UPDATE,
		.nargs = 4,
		.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};
	static SpiStatement forget = {.sql = "DELETE FROM jobq.schedule_run WHERE schedule = $1 AND instant > $2",
								  .result = SPI_OK_DELETE,
								  .nargs = 2,
								  .argtypes = {TEXTOID, TIMESTAMPTZOID}};
	MemoryContext context = CurrentMemoryContext;
	SpiScope scope;
	Due *rows;
	int n;

	spi_begin(&scope);
	n = (int) spi_run(&find, NULL, NULL);
	rows = read_rows(n, context);
	spi_end(&scope);
	for (int i = 0; i < n; i++)
	{
		Due *d = &rows[i];
		TimestampTz limit = timestamp_add(clock_now(), SCHEDULE_CLOCK_ERROR);
		Datum values[] = {PointerGetDatum(d->name), TimestampTzGetDatum(d->next_run), (Datum) 0,
						  TimestampTzGetDatum(limit)};
		char nulls[] = {' ', d->has_next ? ' ' : 'n', ' ', ' '};

		CHECK_FOR_INTERRUPTS();
		if (run_protected(replan, d) != NULL || !d->has_following || (d->has_next && d->next_run <= d->following))
			continue;
		values[2] = TimestampTzGetDatum(d->following);
		spi_begin(&scope);
		/* what a wrong clock has fired comes again */
		if (spi_run(&move, values, nulls) > 0 && d->last_run > limit)
		{
			values[1] = TimestampTzGetDatum(limit);
			(void) spi_run(&forget, values, NULL);
		}
		spi_end(&scope);
	}
}

/* Deals with schedules that are due. Returns when to look again; *fired: whether there were any. */
static TimestampTz
fire_due(bool *fired)
{
	static SpiStatement find = {.sql =
									"SELECT " COLUMNS " FROM jobq.schedule WHERE next_run <= $1 ORDER BY next_run, name"
									" LIMIT 100 FOR UPDATE SKIP LOCKED",
								.result = SPI_OK_SELECT,
								.nargs = 1,
								.argtypes = {TIMESTAMPTZOID}};
	static SpiStatement next = {.sql = "SELECT min(next_run) FROM jobq.schedule", .result = SPI_OK_SELECT};
	MemoryContext context = CurrentMemoryContext;
	TimestampTz now = clock_now();
	Datum value = TimestampTzGetDatum(now);
	SpiScope scope;
	Due *rows;
	bool isnull;
	TimestampTz at;
	int njobs = 0;
	int n;

	spi_begin(&scope);
	n = (int) spi_run(&find, &value, NULL);
	rows = read_rows(n, context);
	spi_end(&scope);
	for (int i = 0; i < n && njobs < FIRE_JOBS; i++)
	{
		ErrorData *error;

		CHECK_FOR_INTERRUPTS();
		error = run_protected(fire, &rows[i]);
		if (error)
			fail(&rows[i], error);
		njobs += rows[i].njobs;
	}
	*fired = n > 0;
	spi_begin(&scope);
	(void) spi_run(&next, NULL, NULL);
	at = DatumGetTimestampTz(spi_value(0, 1, &isnull));
	if (isnull)
		at = DT_NOEND;
	spi_end(&scope);
	/* due, and somebody has them in hand */
	if (n == 0 && at <= now)
	{
		busy_pause = busy_pause == 0 ? BUSY_FIRST : Min(busy_pause * 2, BUSY_LONGEST);
		return now + busy_pause;
	}
	busy_pause = 0;
	return at;
}

void
schedule_run(Maintain *m)
{
	TimestampTz next;
	bool fired;

	/* before the snapshot: whatever commits from here on is looked at again */
	SpinLockAcquire(&m->db->mutex);
	taken = m->db->next_schedule;
	m->db->next_schedule = DT_NOEND;
	SpinLockRelease(&m->db->mutex);
	if (!looked)
		taken = DT_NOBEGIN;
	if (!maintain_begin(m))
	{
		schedule_undo(m);
		return;
	}
	if (TIMESTAMP_IS_NOBEGIN(taken))
		look_at_all();
	next = fire_due(&fired);
	if (fired)
		(void) set_config_option("synchronous_commit", "local", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
								 false);
	DEBUG_POINT("schedule-fired");
	maintain_end(m);
	looked = true;
	taken = DT_NOEND;
	schedule_look_at(m->db, next);
}
