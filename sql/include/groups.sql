-- What the tests of groups share, on top of common.sql.
SET datestyle = ISO;
\ir common.sql

-- Who has been taken. A payload names its job.
CREATE TABLE hand (n serial, job text, job_id bigint, token bigint);
-- Takes jobs; says which, those of one lease side by side and leases divided by bars, with the attempt where it is not the first.
-- Jobs of no group come last: whether they or the groups were looked at first is a matter of turns.
CREATE FUNCTION take(queue text, max_jobs int DEFAULT 1, batch int DEFAULT 1, worker text DEFAULT NULL, lease interval DEFAULT NULL, wait interval DEFAULT '0')
	RETURNS text LANGUAGE sql AS $$
	WITH d AS MATERIALIZED (
		SELECT payload #>> '{}' AS job, job_id, token, attempt, ordinality + CASE WHEN group_key IS NULL THEN 10000 ELSE 0 END AS n
		FROM jobq.dequeue($1, $2, $5, $4, $6, $3) WITH ORDINALITY),
	h AS (INSERT INTO hand (job, job_id, token) SELECT job, job_id, token FROM d ORDER BY n)
	SELECT coalesce(string_agg(jobs, ' | ' ORDER BY n), 'nothing')
	FROM (
		SELECT min(n) AS n, string_agg(job || CASE WHEN attempt > 1 THEN '(' || attempt || ')' ELSE '' END, ' ' ORDER BY n) AS jobs
		FROM d GROUP BY token) l
$$;
-- The verbs, by the name of a job that was taken.
CREATE FUNCTION done(job text) RETURNS boolean LANGUAGE sql AS
	$$SELECT jobq.complete(job_id, token) FROM hand WHERE n = (SELECT max(n) FROM hand WHERE job = $1)$$;
CREATE FUNCTION failed(job text, retry_in interval DEFAULT NULL, retry boolean DEFAULT true) RETURNS text LANGUAGE sql AS
	$$SELECT jobq.fail(job_id, token, $1 || ' is broken', $2, $3) FROM hand WHERE n = (SELECT max(n) FROM hand WHERE job = $1)$$;
CREATE FUNCTION released(job text, delay interval DEFAULT '0') RETURNS void LANGUAGE sql AS
	$$SELECT jobq.release(job_id, token, $2) FROM hand WHERE n = (SELECT max(n) FROM hand WHERE job = $1)$$;
CREATE FUNCTION extended(job text) RETURNS text LANGUAGE sql AS
	$$SELECT jobq.extend(job_id, token) FROM hand WHERE n = (SELECT max(n) FROM hand WHERE job = $1)$$;
-- Takes and completes all there is, as one worker; the order it came in.
CREATE PROCEDURE drain(queue text, INOUT jobs text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	job record;
BEGIN
	LOOP
		SELECT * INTO job FROM jobq.dequeue(queue);
		EXIT WHEN NOT FOUND;
		jobs := concat_ws(' ', jobs, job.payload #>> '{}' || CASE WHEN job.attempt > 1 THEN '(' || job.attempt || ')' ELSE '' END);
		PERFORM jobq.complete(job.job_id, job.token);
		COMMIT;
	END LOOP;
END
$$;
-- A job's id.
CREATE FUNCTION id(job text) RETURNS bigint LANGUAGE sql AS $$SELECT job_id FROM jobq.jobs WHERE payload = to_jsonb($1)$$;
-- Groups and jobs without what differs from run to run.
CREATE VIEW groups AS SELECT queue, group_key, state, pending, holder, token IS NOT NULL AND lease_until > now() AS leased, wake_at > now() AS waits,
	regexp_replace(blocked_reason, '\d+', 'N') AS blocked_reason FROM jobq.groups ORDER BY 1, 2;
CREATE VIEW jobs AS SELECT queue, payload #>> '{}' AS job, state, attempt, group_key, run_at > now() AS waits, worker, last_error FROM jobq.jobs ORDER BY job_id;
CREATE VIEW counts AS SELECT queue, ready, delayed, active, dead, completed_total AS completed, failed_total AS failed, retried_total AS retried
	FROM jobq.queues ORDER BY queue;
-- What is left of groups, all told.
CREATE VIEW left_over AS SELECT (SELECT count(*) FROM jobq.job_group) AS groups, (SELECT count(*) FROM jobq.line) AS line, (SELECT count(*) FROM jobq.held) AS held,
	(SELECT count(*) FROM jobq.ready WHERE group_id > 0) AS ready, (SELECT count(*) FROM jobq.delayed WHERE group_id IS NOT NULL) AS delayed,
	(SELECT count(*) FROM jobq.lease) AS leases;
-- Why a job does not run, with numbers and times masked.
CREATE FUNCTION explained(job text) RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(regexp_replace(jobq.explain_job(job_id), '\d{4}-\d\d-\d\d [0-9:.+]+', 'TIME', 'g'), 'job \d+', 'job N', 'g')
	FROM jobq.jobs WHERE payload = to_jsonb($1)$$;
