-- The verbs of producers and workers. Names, order and types of the arguments are fixed; a feature adds its arguments at the end.
-- Every function here is C, VOLATILE, PARALLEL UNSAFE, and checks its own arguments.

CREATE FUNCTION jobq.enqueue(queue text, payload jsonb DEFAULT '{}', name text DEFAULT NULL, priority int DEFAULT NULL,
	delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, group_key text DEFAULT NULL, unique_key text DEFAULT NULL,
	max_attempts int DEFAULT NULL, timeout interval DEFAULT NULL, expires_in interval DEFAULT NULL, headers jsonb DEFAULT NULL,
	on_conflict text DEFAULT 'keep', unique_until text DEFAULT 'finished', unique_for interval DEFAULT NULL,
	after bigint[] DEFAULT NULL, after_dead text DEFAULT 'wait', batch bigint DEFAULT NULL)
	RETURNS bigint LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_enqueue';

CREATE FUNCTION jobq.enqueue_many(queue text, payloads jsonb, name text DEFAULT NULL, priority int DEFAULT NULL,
	delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, group_keys text[] DEFAULT NULL, unique_keys text[] DEFAULT NULL,
	max_attempts int DEFAULT NULL, timeout interval DEFAULT NULL, expires_in interval DEFAULT NULL, headers jsonb DEFAULT NULL,
	on_conflict text DEFAULT 'keep', unique_until text DEFAULT 'finished', unique_for interval DEFAULT NULL,
	after bigint[] DEFAULT NULL, after_dead text DEFAULT 'wait', batch bigint DEFAULT NULL)
	RETURNS TABLE (ord int, job_id bigint, status text) LANGUAGE C ROWS 1000 AS 'MODULE_PATHNAME', 'jobq_enqueue_many';

CREATE FUNCTION jobq.dequeue(queue text, max_jobs int DEFAULT 1, lease interval DEFAULT NULL, worker text DEFAULT NULL,
	wait interval DEFAULT '0', group_batch int DEFAULT 1)
	RETURNS TABLE (job_id bigint, token bigint, name text, payload jsonb, headers jsonb, priority int, attempt int, max_attempts int,
		group_key text, enqueued_at timestamptz, lease_until timestamptz, deadline timestamptz)
	LANGUAGE C ROWS 100 AS 'MODULE_PATHNAME', 'jobq_dequeue';

CREATE FUNCTION jobq.complete(job_id bigint, token bigint, result jsonb DEFAULT NULL)
	RETURNS boolean LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_complete';
CREATE FUNCTION jobq.ack(job_id bigint, token bigint)
	RETURNS boolean LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_complete';
CREATE FUNCTION jobq.fail(job_id bigint, token bigint, error text DEFAULT NULL, retry_in interval DEFAULT NULL,
	retry boolean DEFAULT true)
	RETURNS text LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_fail';
CREATE FUNCTION jobq.nack(job_id bigint, token bigint)
	RETURNS text LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_nack';
CREATE FUNCTION jobq.release(job_id bigint, token bigint, delay interval DEFAULT '0')
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_release';
CREATE FUNCTION jobq.extend(job_id bigint, token bigint, lease interval DEFAULT NULL)
	RETURNS text LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_extend';

CREATE FUNCTION jobq.complete_many(job_ids bigint[], tokens bigint[], results jsonb DEFAULT NULL)
	RETURNS TABLE (job_id bigint, status text) LANGUAGE C ROWS 100 AS 'MODULE_PATHNAME', 'jobq_complete_many';
CREATE FUNCTION jobq.fail_many(job_ids bigint[], tokens bigint[], error text DEFAULT NULL, retry_in interval DEFAULT NULL)
	RETURNS TABLE (job_id bigint, status text) LANGUAGE C ROWS 100 AS 'MODULE_PATHNAME', 'jobq_fail_many';
CREATE FUNCTION jobq.release_many(job_ids bigint[], tokens bigint[], delay interval DEFAULT '0')
	RETURNS TABLE (job_id bigint, status text) LANGUAGE C ROWS 100 AS 'MODULE_PATHNAME', 'jobq_release_many';
CREATE FUNCTION jobq.extend_many(job_ids bigint[], tokens bigint[], lease interval DEFAULT NULL)
	RETURNS TABLE (job_id bigint, status text) LANGUAGE C ROWS 100 AS 'MODULE_PATHNAME', 'jobq_extend_many';

CREATE FUNCTION jobq.complete_and_dequeue(job_id bigint, token bigint, queue text, result jsonb DEFAULT NULL, max_jobs int DEFAULT 1,
	lease interval DEFAULT NULL, worker text DEFAULT NULL, wait interval DEFAULT '0', group_batch int DEFAULT 1)
	RETURNS TABLE (job_id bigint, token bigint, name text, payload jsonb, headers jsonb, priority int, attempt int, max_attempts int,
		group_key text, enqueued_at timestamptz, lease_until timestamptz, deadline timestamptz)
	LANGUAGE C ROWS 100 AS 'MODULE_PATHNAME', 'jobq_complete_and_dequeue';

CREATE FUNCTION jobq.progress(job_id bigint, token bigint, value jsonb)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_progress';
CREATE FUNCTION jobq.assert_lease(job_id bigint, token bigint)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_assert_lease';
CREATE PROCEDURE jobq.wait(queue text, timeout interval DEFAULT '30 s', INOUT ready boolean DEFAULT NULL)
	LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_wait';
