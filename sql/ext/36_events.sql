-- Events, records of what was done once, and waiting for one job.

CREATE FUNCTION jobq.events(after bigint DEFAULT NULL, queue text DEFAULT NULL, max_events int DEFAULT 1000)
	RETURNS TABLE ("position" bigint, at timestamptz, queue_name text, event text, job_id bigint, name text, attempt int, max_attempts int,
		delay interval, group_key text, error text, count bigint)
	LANGUAGE C ROWS 100 AS 'MODULE_PATHNAME', 'jobq_events';

CREATE FUNCTION jobq.once(key text, ttl interval DEFAULT '1 day')
	RETURNS TABLE (first boolean, result jsonb) LANGUAGE C ROWS 1 AS 'MODULE_PATHNAME', 'jobq_once';
CREATE FUNCTION jobq.once_done(key text, result jsonb)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_once_done';

CREATE PROCEDURE jobq.wait_job(job_id bigint, timeout interval DEFAULT '30 s', INOUT state text DEFAULT NULL, INOUT result jsonb DEFAULT NULL)
	LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_wait_job';
