-- The verbs of administrators: queues, and jobs that nobody holds.

CREATE FUNCTION jobq.create_queue(name text, max_attempts int DEFAULT 3, lease interval DEFAULT '30 s', timeout interval DEFAULT NULL,
	backoff text DEFAULT 'exponential_jitter', backoff_base interval DEFAULT '1 s', backoff_cap interval DEFAULT NULL,
	backoff_function text DEFAULT NULL, concurrency int DEFAULT NULL, rate_limit int DEFAULT NULL, rate_interval interval DEFAULT '1 s',
	rate_burst int DEFAULT NULL, keep_completed interval DEFAULT '1 day', keep_dead interval DEFAULT '30 days',
	dead_letter_queue text DEFAULT NULL, max_payload_bytes int DEFAULT 262144, notify boolean DEFAULT false, on_retry text DEFAULT 'hold',
	on_dead text DEFAULT 'block', group_rate_limit int DEFAULT NULL, group_rate_interval interval DEFAULT '1 s',
	group_lease interval DEFAULT NULL, isolate_above int DEFAULT NULL, events text[] DEFAULT NULL, alert_dead int DEFAULT NULL,
	alert_dead_interval interval DEFAULT NULL,
	limit_name text DEFAULT NULL, ageing boolean DEFAULT false)
	RETURNS boolean LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_create_queue';
CREATE FUNCTION jobq.alter_queue(name text, max_attempts int DEFAULT NULL, lease interval DEFAULT NULL, timeout interval DEFAULT NULL,
	backoff text DEFAULT NULL, backoff_base interval DEFAULT NULL, backoff_cap interval DEFAULT NULL,
	backoff_function text DEFAULT NULL, concurrency int DEFAULT NULL, rate_limit int DEFAULT NULL, rate_interval interval DEFAULT NULL,
	rate_burst int DEFAULT NULL, keep_completed interval DEFAULT NULL, keep_dead interval DEFAULT NULL,
	dead_letter_queue text DEFAULT NULL, max_payload_bytes int DEFAULT NULL, notify boolean DEFAULT NULL, on_retry text DEFAULT NULL,
	on_dead text DEFAULT NULL, group_rate_limit int DEFAULT NULL, group_rate_interval interval DEFAULT NULL,
	group_lease interval DEFAULT NULL, isolate_above int DEFAULT NULL, events text[] DEFAULT NULL, alert_dead int DEFAULT NULL,
	alert_dead_interval interval DEFAULT NULL,
	limit_name text DEFAULT NULL, ageing boolean DEFAULT NULL, reset text[] DEFAULT '{}')
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_alter_queue';
CREATE FUNCTION jobq.rename_queue(name text, new_name text)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_rename_queue';
CREATE FUNCTION jobq.drop_queue(name text, force boolean DEFAULT false)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_drop_queue';
CREATE FUNCTION jobq.pause_queue(queue text)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_pause_queue';
CREATE FUNCTION jobq.resume_queue(queue text)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_resume_queue';
CREATE FUNCTION jobq.purge_queue(queue text, states text[] DEFAULT '{ready,delayed}')
	RETURNS bigint LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_purge_queue';

CREATE FUNCTION jobq.cancel(job_id bigint)
	RETURNS text LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_cancel';
CREATE FUNCTION jobq.reschedule(job_id bigint, run_at timestamptz DEFAULT NULL, priority int DEFAULT NULL)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_reschedule';
CREATE FUNCTION jobq.run_now(job_ids bigint[])
	RETURNS bigint LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_run_now';
CREATE FUNCTION jobq.delete_jobs(job_ids bigint[])
	RETURNS bigint LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_delete_jobs';
CREATE FUNCTION jobq.redrive(queue text, job_ids bigint[] DEFAULT NULL, max_jobs int DEFAULT 1000, to_queue text DEFAULT NULL)
	RETURNS bigint LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_redrive';

CREATE FUNCTION jobq.alter_group(queue text, group_key text, weight int DEFAULT NULL, lease interval DEFAULT NULL,
	rate_limit int DEFAULT NULL, rate_interval interval DEFAULT NULL, reset text[] DEFAULT '{}')
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_alter_group';
CREATE FUNCTION jobq.pause_group(queue text, group_key text)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_pause_group';
CREATE FUNCTION jobq.resume_group(queue text, group_key text)
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_resume_group';
CREATE FUNCTION jobq.unblock_group(queue text, group_key text, head text DEFAULT 'retry')
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_unblock_group';
CREATE FUNCTION jobq.drain_worker(worker text, step int DEFAULT 5, pause interval DEFAULT '1 s')
	RETURNS bigint LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_drain_worker';

CREATE FUNCTION jobq.adopt()
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_adopt';

-- Any change of these tables, by whatever means, empties every session's cache at its commit (or this session's at its rollback).
CREATE FUNCTION jobq.settings_changed()
	RETURNS trigger LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_settings_changed';
DO $do$
DECLARE
	obj text;
BEGIN
	FOREACH obj IN ARRAY ARRAY['queue', 'origin', 'identity', 'group_setting'] LOOP
		EXECUTE pg_catalog.format('CREATE TRIGGER settings_changed AFTER INSERT OR UPDATE OR DELETE ON jobq.%I
			FOR EACH ROW EXECUTE FUNCTION jobq.settings_changed()', obj);
		EXECUTE pg_catalog.format('CREATE TRIGGER settings_truncated AFTER TRUNCATE ON jobq.%I
			FOR EACH STATEMENT EXECUTE FUNCTION jobq.settings_changed()', obj);
		-- always: also for what replication brings
		EXECUTE pg_catalog.format('ALTER TABLE jobq.%I ENABLE ALWAYS TRIGGER settings_changed, ENABLE ALWAYS TRIGGER settings_truncated', obj);
	END LOOP;
END
$do$;
