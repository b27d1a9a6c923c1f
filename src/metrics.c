/*-------------------------------------------------------------------------
 *
 * metrics.c
 *		What a monitoring system asks for, as text and as rows.
 *
 * One list names every metric: jobq.metrics() writes them as Prometheus
 * reads them, queue_metrics() and database_metrics() return the same as
 * columns, for exporters that run queries. Nothing is counted: all comes
 * from shared memory, a look at the first ticket of each queue, and the
 * server's own list of transactions, so that the cost hangs on the number
 * of queues alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "guc.h"
#include "meta.h"
#include "pool.h"
#include "spi.h"
#include "stats.h"
#include "timeutil.h"

PG_FUNCTION_INFO_V1(jobq_metrics);
PG_FUNCTION_INFO_V1(jobq_queue_metrics);
PG_FUNCTION_INFO_V1(jobq_database_metrics);
PG_FUNCTION_INFO_V1(jobq_queue_rates);

typedef enum MetricType
{
	METRIC_GAUGE,
	METRIC_COUNTER,
	METRIC_HISTOGRAM
} MetricType;

typedef struct Metric
{
	const char *name; /* after "jobq_" or "jobq_queue_" */
	MetricType type;
	const char *help;
} Metric;

/* In the order of the columns of database_metrics(). */
enum
{
	DB_ENABLED,
	DB_ADOPTED,
	DB_STOPPED,
	DB_SCHEDULER,
	DB_EXECUTORS,
	DB_EXECUTORS_FREE,
	DB_EXECUTORS_MAX,
	DB_QUEUES,
	DB_HORIZON_SECONDS,
	DB_HORIZON_TRANSACTIONS,
	DB_TOTALS_START,
	NUM_DB_METRICS
};

static const Metric db_metrics[NUM_DB_METRICS] = {
	[DB_ENABLED] = {"enabled", METRIC_GAUGE, "Whether jobs may be taken on this server: jobq.enabled, and no standby."},
	[DB_ADOPTED] = {"adopted", METRIC_GAUGE, "Whether the jobs are this database's own; 0: it is a copy."},
	[DB_STOPPED] = {"handlers_stopped", METRIC_GAUGE, "Whether stop() keeps handlers from running."},
	[DB_SCHEDULER] = {"scheduler_running", METRIC_GAUGE,
					  "Whether the database's scheduler runs; it leaves while idle."},
	[DB_EXECUTORS] = {"executors", METRIC_GAUGE, "Processes that run handlers of this database."},
	[DB_EXECUTORS_FREE] = {"executors_free", METRIC_GAUGE, "Executors that the server could still start."},
	[DB_EXECUTORS_MAX] = {"executors_max", METRIC_GAUGE, "jobq.max_executors, for the whole server."},
	[DB_QUEUES] = {"queues", METRIC_GAUGE, "Queues of this database."},
	[DB_HORIZON_SECONDS] = {"horizon_age_seconds", METRIC_GAUGE,
							"Age of the oldest transaction that keeps dead rows from being removed."},
	[DB_HORIZON_TRANSACTIONS] = {"horizon_age_transactions", METRIC_GAUGE,
								 "Transactions since the oldest one that keeps dead rows, replication slots included."},
	[DB_TOTALS_START] = {"totals_start_time_seconds", METRIC_GAUGE, "Unix time at which all totals began at 0."},
};

/* In the order of the columns of queue_metrics(), histograms last. */
enum
{
	QUEUE_PAUSED,
	QUEUE_EXACT,
	QUEUE_READY,
	QUEUE_DELAYED,
	QUEUE_PENDING,
	QUEUE_ACTIVE,
	QUEUE_DEAD,
	QUEUE_OLDEST_READY,
	QUEUE_GROUPS_READY,
	QUEUE_GROUPS_WAITING,
	QUEUE_GROUPS_LEASED,
	QUEUE_GROUPS_MIGRATING,
	QUEUE_GROUPS_BLOCKED,
	QUEUE_WAITERS,
	QUEUE_EXECUTORS,
	QUEUE_DEAD_ALERT,
	QUEUE_CURSOR_DISTANCE,
	QUEUE_CURSOR_INTERVALS,
	QUEUE_ENQUEUED,
	QUEUE_COMPLETED,
	QUEUE_FAILED,
	QUEUE_RETRIED,
	QUEUE_DIED,
	QUEUE_CANCELLED,
	QUEUE_EXPIRED,
	QUEUE_EXPIRED_LEASES,
	QUEUE_CLAIMS,
	QUEUE_CLAIM_BUFFERS,
	NUM_QUEUE_VALUES,
	QUEUE_WAIT = NUM_QUEUE_VALUES,
	QUEUE_RUN,
	NUM_QUEUE_METRICS
};

static const Metric queue_metrics[NUM_QUEUE_METRICS] = {
	[QUEUE_PAUSED] = {"paused", METRIC_GAUGE, "Whether the queue is paused."},
	[QUEUE_EXACT] = {"exact", METRIC_GAUGE, "Whether the counts are kept; 0: counted just now, soon after a start."},
	[QUEUE_READY] = {"ready", METRIC_GAUGE, "Jobs that may be taken, and those in the lines of groups."},
	[QUEUE_DELAYED] = {"delayed", METRIC_GAUGE, "Jobs that wait for their time: delayed starts and retries."},
	[QUEUE_PENDING] = {"pending", METRIC_GAUGE, "Jobs that wait for other jobs to end, and open batches."},
	[QUEUE_ACTIVE] = {"active", METRIC_GAUGE, "Jobs under a lease."},
	[QUEUE_DEAD] = {"dead", METRIC_GAUGE, "Dead letters kept."},
	[QUEUE_OLDEST_READY] = {"oldest_ready_age_seconds", METRIC_GAUGE,
							"Age of the oldest job among the first of each priority; 0: none waits."},
	[QUEUE_GROUPS_READY] = {"groups_ready", METRIC_GAUGE, "Groups whose next job may be taken."},
	[QUEUE_GROUPS_WAITING] = {"groups_waiting", METRIC_GAUGE, "Groups that wait for a backoff, a delay or their rate."},
	[QUEUE_GROUPS_LEASED] = {"groups_leased", METRIC_GAUGE, "Groups that a worker has."},
	[QUEUE_GROUPS_MIGRATING] = {"groups_migrating", METRIC_GAUGE, "Groups whose worker is asked to hand them over."},
	[QUEUE_GROUPS_BLOCKED] = {"groups_blocked", METRIC_GAUGE, "Groups that a dead job or a pause holds."},
	[QUEUE_WAITERS] = {"waiters", METRIC_GAUGE, "Sessions that wait for a job."},
	[QUEUE_EXECUTORS] = {"executors", METRIC_GAUGE, "Executors that are at the queue."},
	[QUEUE_DEAD_ALERT] = {"dead_alert", METRIC_GAUGE, "Whether there are more dead letters than alert_dead allows."},
	[QUEUE_CURSOR_DISTANCE] = {"cursor_distance", METRIC_GAUGE,
							   "Sequence numbers between the start of a claim's scan and the first ticket."},
	[QUEUE_CURSOR_INTERVALS] = {"cursor_intervals", METRIC_GAUGE, "Intervals that claims scan before that."},
	[QUEUE_ENQUEUED] = {"enqueued_total", METRIC_COUNTER, "Jobs enqueued."},
	[QUEUE_COMPLETED] = {"completed_total", METRIC_COUNTER, "Jobs completed."},
	[QUEUE_FAILED] = {"failed_total", METRIC_COUNTER, "Failed attempts, expired leases included."},
	[QUEUE_RETRIED] = {"retried_total", METRIC_COUNTER, "Failed attempts after which the job runs again."},
	[QUEUE_DIED] = {"dead_total", METRIC_COUNTER, "Jobs that became dead letters."},
	[QUEUE_CANCELLED] = {"cancelled_total", METRIC_COUNTER, "Jobs cancelled."},
	[QUEUE_EXPIRED] = {"expired_total", METRIC_COUNTER, "Jobs whose time to live was over while they waited."},
	[QUEUE_EXPIRED_LEASES] = {"expired_leases_total", METRIC_COUNTER, "Leases that ended before their job did."},
	[QUEUE_CLAIMS] = {"claims_total", METRIC_COUNTER, "Looks for jobs by dequeue, those that found none included."},
	[QUEUE_CLAIM_BUFFERS] = {"claim_buffers_total", METRIC_COUNTER, "Pages read by those looks, from cache or disk."},
	[QUEUE_WAIT] = {"wait_seconds", METRIC_HISTOGRAM, "From when a job could start to its first start."},
	[QUEUE_RUN] = {"run_seconds", METRIC_HISTOGRAM, "From the start of the last attempt to the completion."},
};

/* Columns of a histogram in queue_metrics(): bounds, cumulative counts, sum, count. */
#define HISTOGRAM_COLUMNS 4
#define QUEUE_COLUMNS (1 + NUM_QUEUE_VALUES + NUM_TIMES * HISTOGRAM_COLUMNS)

#define RATE_COLUMNS 9

static double
seconds(int64 usecs)
{
	return (double) usecs / USECS_PER_SEC;
}

/* Upper bound of a bucket but the last, in seconds. */
static double
bucket_bound(int bucket)
{
	return (double) (INT64CONST(1) << (2 * bucket)) / 1000;
}

/*
 * How far back a transaction keeps the dead rows of this database, and whether its handlers are stopped. A replication slot has no time of
 * its own, only a place among the transactions.
 */
static void
ask_server(double *values)
{
	static SpiStatement statement = {
		.sql =
			"SELECT greatest(extract(epoch FROM clock_timestamp() - min(h.since)), 0)::float8, max(h.age)::float8,"
			" EXISTS (SELECT FROM jobq.stopped) FROM ("
			" SELECT a.xact_start AS since, greatest(age(a.backend_xmin), age(a.backend_xid)) AS age"
			" FROM pg_stat_get_activity(NULL) a WHERE a.pid <> pg_backend_pid() AND (a.datid = $1 OR a.datid IS NULL)"
			" AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)"
			" UNION ALL SELECT p.prepared, age(p.transaction) FROM pg_prepared_xact() p WHERE p.dbid = $1"
			" UNION ALL SELECT NULL, age(s.xmin) FROM pg_get_replication_slots() s WHERE s.xmin IS NOT NULL) h",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {OIDOID}};
	Datum db_oid = ObjectIdGetDatum(MyDatabaseId);
	SpiScope scope;
	bool isnull;
	Datum datum;

	spi_begin(&scope);
	(void) spi_run(&statement, &db_oid, NULL);
	datum = spi_value(0, 1, &isnull);
	values[DB_HORIZON_SECONDS] = isnull ? 0 : DatumGetFloat8(datum);
	datum = spi_value(0, 2, &isnull);
	values[DB_HORIZON_TRANSACTIONS] = isnull ? 0 : DatumGetFloat8(datum);
	values[DB_STOPPED] = DatumGetBool(spi_value(0, 3, &isnull));
	spi_end(&scope);
}

static void
database_values(DbSlot *db, int queues, double *values)
{
	PoolCount pool = pool_count(MyDatabaseId);

	ask_server(values);
	values[DB_ENABLED] = jobq_enabled && !RecoveryInProgress();
	values[DB_ADOPTED] = meta_adopted();
	values[DB_SCHEDULER] = db->scheduler_latch != NULL;
	values[DB_EXECUTORS] = pool.ours;
	values[DB_EXECUTORS_FREE] = pool.free;
	values[DB_EXECUTORS_MAX] = jobq_max_executors;
	values[DB_QUEUES] = queues;
	values[DB_TOTALS_START] = (double) timestamptz_to_time_t(db->totals_since);
}

/* A level that the transactions of a moment may leave below 0. */
static double
level(int64 count)
{
	return (double) Max(count, 0);
}

static void
queue_values(const QueueStats *stats, TimestampTz now, double *values)
{
	const int64 *c = stats->counts;
	int64 owned = c[COUNT_GROUPS_READY] + c[COUNT_GROUPS_LEASED] + c[COUNT_GROUPS_HELD];

	values[QUEUE_PAUSED] = stats->queue->paused;
	values[QUEUE_EXACT] = stats->exact;
	values[QUEUE_READY] = level(c[COUNT_READY]);
	values[QUEUE_DELAYED] = level(c[COUNT_DELAYED]);
	values[QUEUE_PENDING] = level(c[COUNT_PENDING]);
	values[QUEUE_ACTIVE] = level(c[COUNT_ACTIVE]);
	values[QUEUE_DEAD] = level(c[COUNT_DEAD]);
	values[QUEUE_OLDEST_READY] =
		TIMESTAMP_IS_NOEND(stats->oldest_ready) ? 0 : seconds(Max(now - stats->oldest_ready, 0));
	values[QUEUE_GROUPS_READY] = level(c[COUNT_GROUPS_READY]);
	values[QUEUE_GROUPS_WAITING] = level(c[COUNT_GROUPS] - owned);
	values[QUEUE_GROUPS_LEASED] = level(c[COUNT_GROUPS_LEASED] - c[COUNT_GROUPS_MIGRATING]);
	values[QUEUE_GROUPS_MIGRATING] = level(c[COUNT_GROUPS_MIGRATING]);
	values[QUEUE_GROUPS_BLOCKED] = level(c[COUNT_GROUPS_HELD]);
	values[QUEUE_WAITERS] = stats->queue->slot ? pg_atomic_read_u32(&stats->queue->slot->waiters) : 0;
	values[QUEUE_EXECUTORS] = pool_executing(MyDatabaseId, stats->queue->id);
	values[QUEUE_DEAD_ALERT] = stats->alarmed;
	values[QUEUE_CURSOR_DISTANCE] = (double) stats->cursor_distance;
	values[QUEUE_CURSOR_INTERVALS] = stats->cursor_intervals;
	values[QUEUE_ENQUEUED] = (double) c[TOTAL_ENQUEUED];
	values[QUEUE_COMPLETED] = (double) c[TOTAL_COMPLETED];
	values[QUEUE_FAILED] = (double) c[TOTAL_FAILED];
	values[QUEUE_RETRIED] = (double) c[TOTAL_RETRIED];
	values[QUEUE_DIED] = (double) c[TOTAL_DEAD];
	values[QUEUE_CANCELLED] = (double) c[TOTAL_CANCELLED];
	values[QUEUE_EXPIRED] = (double) c[TOTAL_EXPIRED];
	values[QUEUE_EXPIRED_LEASES] = (double) c[TOTAL_EXPIRED_LEASES];
	values[QUEUE_CLAIMS] = (double) stats->claims;
	values[QUEUE_CLAIM_BUFFERS] = (double) stats->claim_buffers;
}

static void
append_help(StringInfo buf, const char *prefix, const Metric *metric)
{
	static const char *const types[] = {"gauge", "counter", "histogram"};

	appendStringInfo(buf, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, metric->name, metric->help, prefix, metric->name,
					 types[metric->type]);
}

static void
append_number(StringInfo buf, double value)
{
	if (value == (double) (int64) value)
		appendStringInfo(buf, INT64_FORMAT "\n", (int64) value);
	else
		appendStringInfo(buf, "%.6f\n", value);
}

/* A queue's name as the value of a label. */
static char *
escape_label(const char *name)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (; *name; name++)
	{
		if (*name == '\n')
			appendStringInfoString(&buf, "\\n");
		else
		{
			if (*name == '\\' || *name == '"')
				appendStringInfoChar(&buf, '\\');
			appendStringInfoChar(&buf, *name);
		}
	}
	return buf.data;
}

static void
append_histogram(StringInfo buf, const char *name, const char *label, const TimeHistogram *h)
{
	int64 count = 0;

	for (int i = 0; i < TIME_BUCKETS - 1; i++)
	{
		count += h->buckets[i];
		appendStringInfo(buf, "jobq_queue_%s_bucket{queue=\"%s\",le=\"%.3f\"} " INT64_FORMAT "\n", name, label,
						 bucket_bound(i), count);
	}
	count += h->buckets[TIME_BUCKETS - 1];
	appendStringInfo(buf, "jobq_queue_%s_bucket{queue=\"%s\",le=\"+Inf\"} " INT64_FORMAT "\n", name, label, count);
	appendStringInfo(buf, "jobq_queue_%s_sum{queue=\"%s\"} %.6f\n", name, label, seconds(h->sum));
	appendStringInfo(buf, "jobq_queue_%s_count{queue=\"%s\"} " INT64_FORMAT "\n", name, label, count);
}

/*
 * jobq.metrics(): all metrics of this database in the text format of Prometheus. Metrics in the order of the lists above, queues in the
 * order in which they were made.
 */
Datum
jobq_metrics(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("metrics", VERB_READS);
	TimestampTz now = clock_now();
	double values[NUM_DB_METRICS];
	double(*queues)[NUM_QUEUE_VALUES];
	char **labels;
	QueueStats *stats;
	StringInfoData buf;
	int n;

	stats = stats_collect(db, DT_NOBEGIN, &n);
	stats_heads(stats, n);
	labels = palloc(Max(n, 1) * sizeof(char *));
	queues = palloc(Max(n, 1) * sizeof(*queues));
	for (int i = 0; i < n; i++)
	{
		labels[i] = escape_label(stats[i].queue->name);
		queue_values(&stats[i], now, queues[i]);
	}
	database_values(db, n, values);

	initStringInfo(&buf);
	for (int m = 0; m < NUM_DB_METRICS; m++)
	{
		append_help(&buf, "jobq_", &db_metrics[m]);
		appendStringInfo(&buf, "jobq_%s ", db_metrics[m].name);
		append_number(&buf, values[m]);
	}
	for (int m = 0; m < NUM_QUEUE_METRICS; m++)
	{
		append_help(&buf, "jobq_queue_", &queue_metrics[m]);
		for (int i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (m >= NUM_QUEUE_VALUES)
			{
				append_histogram(&buf, queue_metrics[m].name, labels[i], &stats[i].times[m - NUM_QUEUE_VALUES]);
				continue;
			}
			appendStringInfo(&buf, "jobq_queue_%s{queue=\"%s\"} ", queue_metrics[m].name, labels[i]);
			append_number(&buf, queues[i][m]);
		}
	}
	PG_RETURN_TEXT_P(cstring_to_text_with_len(buf.data, buf.len));
}

/* The four columns of a histogram. */
static void
put_histogram(Datum *values, const TimeHistogram *h)
{
	Datum bounds[TIME_BUCKETS - 1];
	Datum counts[TIME_BUCKETS - 1];
	int64 count = 0;

	for (int i = 0; i < TIME_BUCKETS - 1; i++)
	{
		count += h->buckets[i];
		bounds[i] = Float8GetDatum(bucket_bound(i));
		counts[i] = Int64GetDatum(count);
	}
	values[0] = PointerGetDatum(
		construct_array(bounds, lengthof(bounds), FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	values[1] = PointerGetDatum(
		construct_array(counts, lengthof(counts), INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	values[2] = Float8GetDatum(seconds(h->sum));
	values[3] = Int64GetDatum(count + h->buckets[TIME_BUCKETS - 1]);
}

/* queue_metrics(): a row per queue, its name and then the metrics above as columns; of a histogram bounds, counts, sum and count. */
Datum
jobq_queue_metrics(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	DbSlot *db = meta_begin("queue_metrics", VERB_READS);
	TimestampTz now = clock_now();
	QueueStats *stats;
	int n;

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != QUEUE_COLUMNS)
		elog(ERROR, "queue_metrics() must return %d columns", QUEUE_COLUMNS);
	stats = stats_collect(db, DT_NOBEGIN, &n);
	stats_heads(stats, n);
	for (int i = 0; i < n; i++)
	{
		double numbers[NUM_QUEUE_VALUES];
		Datum values[QUEUE_COLUMNS];
		bool nulls[QUEUE_COLUMNS] = {false};

		CHECK_FOR_INTERRUPTS();
		queue_values(&stats[i], now, numbers);
		values[0] = CStringGetTextDatum(stats[i].queue->name);
		for (int m = 0; m < NUM_QUEUE_VALUES; m++)
			values[1 + m] = Float8GetDatum(numbers[m]);
		for (int t = 0; t < NUM_TIMES; t++)
			put_histogram(&values[1 + NUM_QUEUE_VALUES + t * HISTOGRAM_COLUMNS], &stats[i].times[t]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* database_metrics(): one row with the metrics of the database as columns. */
Datum
jobq_database_metrics(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("database_metrics", VERB_READS);
	double numbers[NUM_DB_METRICS];
	Datum values[NUM_DB_METRICS];
	bool nulls[NUM_DB_METRICS] = {false};
	TupleDesc desc;
	int n;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE || desc->natts != NUM_DB_METRICS)
		elog(ERROR, "database_metrics() must return %d columns", NUM_DB_METRICS);
	(void) stats_collect(db, DT_NOBEGIN, &n);
	database_values(db, n, numbers);
	for (int m = 0; m < NUM_DB_METRICS; m++)
		values[m] = Float8GetDatum(numbers[m]);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * queue_rates(): how fast the totals of each queue have grown since somebody last looked, half a second ago or more: queue, seconds, then
 * per second enqueued, completed, failed, retried, dead, cancelled, expired_leases. Null at the first look.
 */
Datum
jobq_queue_rates(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	DbSlot *db = meta_begin("queue_rates", VERB_READS);
	TimestampTz now = clock_now();
	QueueStats *stats;
	int n;

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != RATE_COLUMNS)
		elog(ERROR, "queue_rates() must return %d columns", RATE_COLUMNS);
	stats = stats_collect(db, now, &n);
	for (int i = 0; i < n; i++)
	{
		const TotalsSample *sample = &stats[i].sample;
		Datum values[RATE_COLUMNS];
		bool nulls[RATE_COLUMNS];
		double passed = seconds(now - sample->at);

		memset(nulls, sample->at == 0, sizeof(nulls));
		nulls[0] = false;
		values[0] = CStringGetTextDatum(stats[i].queue->name);
		values[1] = Float8GetDatum(passed);
		for (int c = TOTAL_ENQUEUED; c <= TOTAL_EXPIRED_LEASES; c++)
			values[2 + c - TOTAL_ENQUEUED] =
				Float8GetDatum((double) (stats[i].counts[c] - sample->totals[c - NUM_GAUGES]) / passed);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
