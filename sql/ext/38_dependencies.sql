-- Jobs that wait for others. Such a job's ticket lies in jobq.delayed, due at infinity, until the last of these rows is gone.

CREATE TABLE jobq.dependency (
	job_id bigint NOT NULL,
	on_job bigint NOT NULL,
	ended  "char"
);
CREATE UNIQUE INDEX dependency_pkey ON jobq.dependency (job_id, on_job);
ALTER TABLE jobq.dependency ADD PRIMARY KEY USING INDEX dependency_pkey;
CREATE INDEX dependency_on ON jobq.dependency (on_job, job_id);
ALTER TABLE jobq.dependency SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
	autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2);
SELECT pg_catalog.pg_extension_config_dump('jobq.dependency', '');
REVOKE ALL ON jobq.dependency FROM PUBLIC;
COMMENT ON TABLE jobq.dependency IS 'One row per job that a job waits for; on itself: a batch that is open. Deleted when that one completes. ended: it did not complete: d dead, x cancelled, e expired, r removed. In lower case the job runs all the same; in upper case it waits all the same, since a dead one may be redriven.';

CREATE FUNCTION jobq.open_batch(queue text, payload jsonb DEFAULT '{}', name text DEFAULT NULL, priority int DEFAULT NULL,
	delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, group_key text DEFAULT NULL, unique_key text DEFAULT NULL,
	max_attempts int DEFAULT NULL, timeout interval DEFAULT NULL, expires_in interval DEFAULT NULL, headers jsonb DEFAULT NULL,
	on_conflict text DEFAULT 'keep', unique_until text DEFAULT 'finished', unique_for interval DEFAULT NULL,
	after bigint[] DEFAULT NULL, after_dead text DEFAULT 'wait', batch bigint DEFAULT NULL)
	RETURNS bigint LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_open_batch';
CREATE FUNCTION jobq.close_batch(batch bigint)
	RETURNS boolean LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_close_batch';
