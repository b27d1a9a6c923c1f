-- What a monitoring system asks for. All of it comes from shared memory and a look at the first ticket of each queue.

CREATE FUNCTION jobq.metrics()
	RETURNS text LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_metrics';

-- The same as columns, for exporters that run queries. Of a histogram: the bounds of its buckets, the cumulative counts, sum and count.
CREATE FUNCTION jobq.queue_metrics()
	RETURNS TABLE (queue text, paused float8, exact float8, ready float8, delayed float8, pending float8, active float8,
		dead float8, oldest_ready_age_seconds float8, groups_ready float8, groups_waiting float8, groups_leased float8, groups_migrating float8,
		groups_blocked float8, waiters float8, executors float8, dead_alert float8, cursor_distance float8, cursor_intervals float8,
		enqueued_total float8, completed_total float8, failed_total float8, retried_total float8, dead_total float8, cancelled_total float8,
		expired_total float8, expired_leases_total float8, claims_total float8, claim_buffers_total float8,
		wait_seconds float8[], wait_seconds_bucket bigint[], wait_seconds_sum float8, wait_seconds_count bigint,
		run_seconds float8[], run_seconds_bucket bigint[], run_seconds_sum float8, run_seconds_count bigint)
	LANGUAGE C ROWS 20 AS 'MODULE_PATHNAME', 'jobq_queue_metrics';
CREATE FUNCTION jobq.database_metrics()
	RETURNS TABLE (enabled float8, adopted float8, handlers_stopped float8, scheduler_running float8, executors float8, executors_free float8, executors_max float8,
		queues float8, horizon_age_seconds float8, horizon_age_transactions float8, totals_start_time_seconds float8)
	LANGUAGE C ROWS 1 AS 'MODULE_PATHNAME', 'jobq_database_metrics';

CREATE FUNCTION jobq.queue_rates()
	RETURNS TABLE (queue text, seconds float8, enqueued float8, completed float8, failed float8, retried float8, dead float8,
		cancelled float8, expired_leases float8)
	LANGUAGE C ROWS 20 AS 'MODULE_PATHNAME', 'jobq_queue_rates';

-- The groups that nobody may take, out of the table of their tickets: a look at it costs what they are, however many groups there are.
CREATE VIEW jobq.blocked_groups AS
SELECT q.name AS queue,
	g.group_key,
	h.reason,
	h.dead_job,
	h.since
FROM jobq.held h
	JOIN jobq.job_group g ON g.id = h.group_id
	JOIN jobq.queue q ON q.id = g.queue_id;

COMMENT ON FUNCTION jobq.metrics IS
'All metrics of this database in the text format of Prometheus. Reads no jobs but the first of each queue.';
COMMENT ON FUNCTION jobq.queue_metrics IS
'The metrics of each queue as columns, named as in metrics() without jobq_queue_. Of a histogram: bounds of its buckets (seconds), cumulative counts, sum (seconds) and count.';
COMMENT ON FUNCTION jobq.database_metrics IS
'The metrics of the database as columns, named as in metrics() without jobq_.';
COMMENT ON FUNCTION jobq.queue_rates IS
'How fast the totals of each queue grow, per second, over the seconds since anybody last looked (half a second at least); NULL at the first look.';
COMMENT ON VIEW jobq.blocked_groups IS 'Groups that wait for unblock_group() or resume_group(): reason blocked (by dead_job) or paused, and since when.';
