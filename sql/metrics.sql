-- What a monitoring system asks for: metrics() as text, the same as columns, and how fast totals grow.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION jobq;
\pset null '(null)'

-- One line of metrics() as a row.
CREATE FUNCTION samples() RETURNS TABLE (name text, label text, value numeric) LANGUAGE sql AS $$
	SELECT m[1], m[2], m[3]::numeric FROM regexp_split_to_table(jobq.metrics(), '\n') line,
		regexp_match(line, '^([a-z_]+)(?:\{(.*)\})? ([0-9.]+)$') m
	WHERE line !~ '^#' AND line <> ''
$$;

SELECT jobq.create_queue('work'), jobq.create_queue('say "hi" \ now'), jobq.create_queue('slow', backoff => 'fixed', backoff_base => '1 h');
CALL becomes_true('SELECT bool_and(exact = 1) FROM jobq.queue_metrics()');

-- some of everything
SELECT count(jobq.enqueue('work', to_jsonb(n))) FROM generate_series(1, 6) n;
SELECT jobq.enqueue('work', delay => '1 h') > 0 AS delayed, jobq.enqueue('say "hi" \ now') > 0 AS quoted;
SELECT count(jobq.enqueue('slow', to_jsonb(n), group_key => 'g' || n, max_attempts => CASE n WHEN 1 THEN 1 ELSE 2 END)) FROM generate_series(1, 5) n;
SELECT job_id, token FROM jobq.dequeue('work') \gset
SELECT jobq.complete(:job_id, :token);
SELECT job_id, token FROM jobq.dequeue('work') \gset
SELECT jobq.fail(:job_id, :token, 'no', retry => false);
SELECT count(*) FROM jobq.dequeue('work', 2);
SELECT job_id, token FROM jobq.dequeue('slow') \gset
SELECT jobq.fail(:job_id, :token, 'blocks its group');
SELECT job_id, token FROM jobq.dequeue('slow') \gset
SELECT jobq.fail(:job_id, :token, 'its group waits');
SELECT count(*) FROM jobq.dequeue('slow', worker => 'w1');
SELECT jobq.pause_group('slow', 'g4');
SELECT jobq.pause_queue('slow');

SELECT name, label, value FROM samples() WHERE label IN ('queue="work"', 'queue="slow"') AND value <> 0
	AND name !~ '_(seconds|sum|buffers_total|distance|intervals)$' ORDER BY label, name COLLATE "C";
SELECT state, count(*) FROM jobq.groups WHERE queue = 'slow' GROUP BY state ORDER BY state COLLATE "C";
SELECT value > 0 AS pages FROM samples() WHERE name = 'jobq_queue_claim_buffers_total' AND label = 'queue="work"';
SELECT value BETWEEN 0.000001 AND 600 AS age FROM samples() WHERE name = 'jobq_queue_oldest_ready_age_seconds' AND label = 'queue="work"';

-- names of queues are escaped
SELECT name, label, value FROM samples() WHERE name = 'jobq_queue_ready' ORDER BY label COLLATE "C";

-- of the database
SELECT name, value FROM samples() WHERE label IS NULL AND name IN ('jobq_enabled', 'jobq_adopted', 'jobq_handlers_stopped', 'jobq_scheduler_running',
	'jobq_queues') ORDER BY name COLLATE "C";
SELECT value BETWEEN extract(epoch FROM now()) - 86400 AND extract(epoch FROM now()) + 1 AS since FROM samples() WHERE name = 'jobq_totals_start_time_seconds';
SELECT jobq.stop();
SELECT handlers_stopped FROM jobq.database_metrics();
SELECT jobq.start();

-- a histogram's buckets are cumulative, the last one is the count, and only first starts are waits
SELECT label, value FROM samples() WHERE name = 'jobq_queue_run_seconds_bucket' AND label ~ '"work".*(67108|Inf)' ORDER BY 1;
SELECT bool_and(value >= before) AS cumulative FROM (
	SELECT value, lag(value, 1, 0) OVER (ORDER BY CASE WHEN label ~ 'Inf' THEN 'Infinity' ELSE substring(label FROM 'le="([0-9.]+)"') END::float8) AS before
	FROM samples() WHERE name = 'jobq_queue_wait_seconds_bucket' AND label ~ '"work"') b;
SELECT wait_seconds[1:4] AS bounds, wait_seconds_count, run_seconds_count, wait_seconds_sum BETWEEN 0 AND 600 AS waited FROM jobq.queue_metrics() WHERE queue = 'work';
SELECT jobq.create_queue('again');
SELECT jobq.enqueue('again') > 0 AS enqueued;
SELECT job_id, token FROM jobq.dequeue('again') \gset
SELECT jobq.nack(:job_id, :token);
SELECT job_id, token, attempt FROM jobq.dequeue('again') \gset
SELECT :attempt AS attempt, wait_seconds_count, run_seconds_count FROM jobq.queue_metrics() WHERE queue = 'again';

-- a wait begins when the job may start: a delayed one has not waited before
SELECT jobq.create_queue('later');
SELECT jobq.enqueue('later', run_at => clock_timestamp() + '1.5 s') > 0 AS enqueued;
SELECT count(*) FROM jobq.dequeue('later', wait => '20 s');
SELECT wait_seconds_count, wait_seconds_sum < 1.4 AS not_the_delay FROM jobq.queue_metrics() WHERE queue = 'later';

-- text and columns say the same
SELECT t.name, t.label FROM samples() t
	JOIN (SELECT q.queue, c.key, c.value FROM jobq.queue_metrics() q, jsonb_each_text(to_jsonb(q) - 'queue') c) c
		ON t.name = 'jobq_queue_' || c.key AND t.label = format('queue="%s"', replace(replace(c.queue, '\', '\\'), '"', '\"'))
	WHERE t.value <> c.value::numeric AND t.name <> 'jobq_queue_oldest_ready_age_seconds';
SELECT count(*) FROM samples() t JOIN (SELECT c.key FROM jobq.database_metrics() d, jsonb_each_text(to_jsonb(d)) c) c ON t.name = 'jobq_' || c.key;
SELECT jobq.metrics() ~ '\n$' AS ends_with_a_line, count(*) AS not_read FROM regexp_split_to_table(jobq.metrics(), '\n') line
	WHERE line <> '' AND line !~ '^# (HELP|TYPE) ' AND line !~ '^[a-z_]+(\{.*\})? [0-9.]+$';
SELECT name, count(DISTINCT kind) FROM regexp_matches(jobq.metrics(), '# (HELP|TYPE) ([a-z_]+)', 'g') m(words), LATERAL (SELECT words[2], words[1]) w(name, kind)
	GROUP BY name HAVING count(*) <> 2;

-- rates: none at the first look, then since the look before
SELECT queue, seconds, completed FROM jobq.queue_rates() WHERE queue = 'work';
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n));
CALL becomes_true('SELECT round((enqueued * seconds)::numeric) = 100 AND completed = 0 AND seconds >= 0.5 FROM jobq.queue_rates() WHERE queue = ''work''');
CALL becomes_true('SELECT enqueued = 0 FROM jobq.queue_rates() WHERE queue = ''work''');

-- groups that nobody may take
SELECT queue, group_key, reason, dead_job IS NOT NULL AS dead, since <= now() AS since FROM jobq.blocked_groups ORDER BY 2;

-- a monitoring role, and nobody else
CREATE ROLE regress_jobq_watch;
SET ROLE regress_jobq_watch;
SELECT jobq.metrics();
RESET ROLE;
GRANT pg_monitor TO regress_jobq_watch;
SET ROLE regress_jobq_watch;
SELECT jobq.metrics() LIKE '# HELP jobq_enabled %' AS watched, (SELECT count(*) FROM jobq.queue_metrics()) AS queues,
	(SELECT count(*) FROM jobq.queue_rates()) AS rates, (SELECT count(*) FROM jobq.blocked_groups) AS blocked, (SELECT queues FROM jobq.database_metrics());
RESET ROLE;
DROP ROLE regress_jobq_watch;

-- a dropped queue is gone
SELECT jobq.drop_queue('work', force => true);
SELECT count(*) FROM samples() WHERE label ~ '"work"';

SELECT * FROM jobq.verify();
