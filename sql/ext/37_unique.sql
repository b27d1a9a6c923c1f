-- Unique keys. A job's own row is its claim on its key; what outlasts the job, or its first start, stands here.

CREATE TABLE jobq.unique_window (
	queue_id   int NOT NULL,
	unique_key text COLLATE "C" NOT NULL,
	job_id     bigint NOT NULL,
	until      timestamptz NOT NULL
);
CREATE UNIQUE INDEX unique_window_pkey ON jobq.unique_window (queue_id, unique_key);
ALTER TABLE jobq.unique_window ADD PRIMARY KEY USING INDEX unique_window_pkey;
CREATE INDEX unique_window_until ON jobq.unique_window (until);
ALTER TABLE jobq.unique_window SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
	autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2);
SELECT pg_catalog.pg_extension_config_dump('jobq.unique_window', '');
REVOKE ALL ON jobq.unique_window FROM PUBLIC;
COMMENT ON TABLE jobq.unique_window IS 'One row per unique key that no job has any more and that is taken all the same, until a time: the rest of a unique_for.';
