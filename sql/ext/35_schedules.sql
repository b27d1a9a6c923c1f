-- Schedules: the scheduler enqueues their jobs when they are due.

CREATE TABLE jobq.schedule (
	name         text COLLATE "C" PRIMARY KEY,
	queue_id     int NOT NULL,
	cron         text NOT NULL,
	timezone     text NOT NULL,
	payload      jsonb NOT NULL,
	missed       text NOT NULL,
	overlap      text NOT NULL,
	job_name     text COLLATE "C",
	priority     int,
	max_attempts int,
	enabled      boolean NOT NULL,
	owner        text NOT NULL,
	created      timestamptz NOT NULL,
	changed      timestamptz NOT NULL,
	next_run     timestamptz,
	last_run     timestamptz,
	last_job     bigint,
	last_outcome text,
	last_error   text,
	finished     boolean NOT NULL
);
CREATE INDEX schedule_due ON jobq.schedule (next_run) WHERE next_run IS NOT NULL;
CREATE INDEX schedule_queue ON jobq.schedule (queue_id);
COMMENT ON TABLE jobq.schedule IS 'One row per schedule: its settings, the instant it is due at next (NULL: disabled, finished or broken), and the latest instant that was dealt with.';

CREATE TABLE jobq.schedule_run (
	schedule text COLLATE "C" NOT NULL,
	instant  timestamptz NOT NULL,
	outcome  text NOT NULL,
	at       timestamptz NOT NULL,
	job_id   bigint,
	detail   text,
	PRIMARY KEY (schedule, instant)
);
COMMENT ON TABLE jobq.schedule_run IS 'What became of the latest 100 instants of each schedule. An instant that stands here is not fired again.';

SELECT pg_catalog.pg_extension_config_dump('jobq.schedule', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.schedule_run', '');
REVOKE ALL ON jobq.schedule, jobq.schedule_run FROM PUBLIC;

CREATE FUNCTION jobq.schedule(name text, cron text, queue text, payload jsonb DEFAULT '{}', timezone text DEFAULT 'UTC',
	missed text DEFAULT 'skip', overlap text DEFAULT 'allow', job_name text DEFAULT NULL, priority int DEFAULT NULL,
	max_attempts int DEFAULT NULL, enabled boolean DEFAULT true)
	RETURNS timestamptz LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_schedule';
CREATE FUNCTION jobq.unschedule(name text)
	RETURNS boolean LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_unschedule';
-- STABLE: the rules of time zones may change.
CREATE FUNCTION jobq.schedule_next(cron text, timezone text DEFAULT 'UTC', after timestamptz DEFAULT now(), n int DEFAULT 5)
	RETURNS SETOF timestamptz LANGUAGE C STABLE ROWS 5 AS 'MODULE_PATHNAME', 'jobq_schedule_next';

CREATE VIEW jobq.schedules WITH (security_barrier) AS
SELECT s.name,
	q.name AS queue,
	s.cron,
	s.timezone,
	CASE WHEN NOT s.enabled THEN 'disabled'
		WHEN s.next_run IS NOT NULL THEN 'active'
		WHEN s.finished THEN 'finished'
		ELSE 'broken' END AS state,
	s.next_run,
	s.last_run,
	s.last_job AS last_job_id,
	s.last_outcome,
	s.last_error,
	s.missed,
	s.overlap,
	s.job_name,
	s.priority,
	s.max_attempts,
	s.payload,
	s.owner,
	s.created,
	s.changed
FROM jobq.schedule s
	LEFT JOIN jobq.queue q ON q.id = s.queue_id
WHERE jobq.may_read(s.queue_id);

CREATE VIEW jobq.schedule_runs WITH (security_barrier) AS
SELECT r.schedule, r.instant, r.outcome, r.job_id, r.at, r.detail
FROM jobq.schedule_run r
	JOIN jobq.schedule s ON s.name = r.schedule
WHERE jobq.may_read(s.queue_id);
