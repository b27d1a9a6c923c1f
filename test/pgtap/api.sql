-- The contract of the SQL interface: functions with the names, order, types and defaults of their arguments, their marks, rights and
-- comments, and what pg_dump takes along.
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION jobq;
SET intervalstyle = postgres;
SET search_path = public, pg_catalog;
SELECT * FROM no_plan();

-- right after its creation
CREATE FUNCTION pg_temp.dumped_rows() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	rel regclass;
	filled text[] := '{}';
	found boolean;
BEGIN
	FOR rel IN SELECT c.oid FROM pg_extension e, unnest(e.extconfig) x, pg_class c WHERE e.extname = 'jobq' AND c.oid = x AND c.relkind = 'r' LOOP
		EXECUTE format('SELECT EXISTS (SELECT FROM %s)', rel) INTO found;
		IF found THEN
			filled := filled || rel::text;
		END IF;
	END LOOP;
	RETURN array_to_string(filled, ', ');
END
$$;
SELECT is(pg_temp.dumped_rows(), '', 'a new installation has no row in a dumped table');
SELECT is(count(*), 1::bigint, 'and one identity') FROM jobq.identity;
SELECT is(extversion || CASE WHEN extrelocatable THEN ' relocatable' ELSE '' END, '0.1.0', 'version, not relocatable')
	FROM pg_extension WHERE extname = 'jobq';
SELECT is(extnamespace::regnamespace::text, 'jobq', 'schema') FROM pg_extension WHERE extname = 'jobq';

-- f: function, p: procedure; v: volatile, s: stable
CREATE TEMP TABLE expected (name text, args text, result text, kind "char", volatility "char");
INSERT INTO expected VALUES
('create_queue', 'name text, max_attempts int = 3, lease interval = ''00:00:30'', timeout interval = NULL, backoff text = ''exponential_jitter'', backoff_base interval = ''00:00:01'', backoff_cap interval = NULL, backoff_function text = NULL, concurrency int = NULL, rate_limit int = NULL, rate_interval interval = ''00:00:01'', rate_burst int = NULL, keep_completed interval = ''1 day'', keep_dead interval = ''30 days'', dead_letter_queue text = NULL, max_payload_bytes int = 262144, notify boolean = false, on_retry text = ''hold'', on_dead text = ''block'', group_rate_limit int = NULL, group_rate_interval interval = ''00:00:01'', group_lease interval = NULL, isolate_above int = NULL, events text[] = NULL, alert_dead int = NULL, alert_dead_interval interval = NULL, limit_name text = NULL, ageing boolean = false', 'boolean', 'f', 'v'),
('alter_queue', 'name text, max_attempts int = NULL, lease interval = NULL, timeout interval = NULL, backoff text = NULL, backoff_base interval = NULL, backoff_cap interval = NULL, backoff_function text = NULL, concurrency int = NULL, rate_limit int = NULL, rate_interval interval = NULL, rate_burst int = NULL, keep_completed interval = NULL, keep_dead interval = NULL, dead_letter_queue text = NULL, max_payload_bytes int = NULL, notify boolean = NULL, on_retry text = NULL, on_dead text = NULL, group_rate_limit int = NULL, group_rate_interval interval = NULL, group_lease interval = NULL, isolate_above int = NULL, events text[] = NULL, alert_dead int = NULL, alert_dead_interval interval = NULL, limit_name text = NULL, ageing boolean = NULL, reset text[] = ''{}''', 'void', 'f', 'v'),
('rename_queue', 'name text, new_name text', 'void', 'f', 'v'),
('drop_queue', 'name text, force boolean = false', 'void', 'f', 'v'),
('pause_queue', 'queue text', 'void', 'f', 'v'),
('resume_queue', 'queue text', 'void', 'f', 'v'),
('purge_queue', 'queue text, states text[] = ''{ready,delayed}''', 'bigint', 'f', 'v'),
('enqueue', 'queue text, payload jsonb = ''{}'', name text = NULL, priority int = NULL, delay interval = NULL, run_at timestamptz = NULL, group_key text = NULL, unique_key text = NULL, max_attempts int = NULL, timeout interval = NULL, expires_in interval = NULL, headers jsonb = NULL, on_conflict text = ''keep'', unique_until text = ''finished'', unique_for interval = NULL, after bigint[] = NULL, after_dead text = ''wait'', batch bigint = NULL', 'bigint', 'f', 'v'),
('open_batch', 'queue text, payload jsonb = ''{}'', name text = NULL, priority int = NULL, delay interval = NULL, run_at timestamptz = NULL, group_key text = NULL, unique_key text = NULL, max_attempts int = NULL, timeout interval = NULL, expires_in interval = NULL, headers jsonb = NULL, on_conflict text = ''keep'', unique_until text = ''finished'', unique_for interval = NULL, after bigint[] = NULL, after_dead text = ''wait'', batch bigint = NULL', 'bigint', 'f', 'v'),
('close_batch', 'batch bigint', 'boolean', 'f', 'v'),
('enqueue_many', 'queue text, payloads jsonb, name text = NULL, priority int = NULL, delay interval = NULL, run_at timestamptz = NULL, group_keys text[] = NULL, unique_keys text[] = NULL, max_attempts int = NULL, timeout interval = NULL, expires_in interval = NULL, headers jsonb = NULL, on_conflict text = ''keep'', unique_until text = ''finished'', unique_for interval = NULL, after bigint[] = NULL, after_dead text = ''wait'', batch bigint = NULL', 'TABLE(ord int, job_id bigint, status text)', 'f', 'v'),
('dequeue', 'queue text, max_jobs int = 1, lease interval = NULL, worker text = NULL, wait interval = ''00:00:00'', group_batch int = 1', 'TABLE(job_id bigint, token bigint, name text, payload jsonb, headers jsonb, priority int, attempt int, max_attempts int, group_key text, enqueued_at timestamptz, lease_until timestamptz, deadline timestamptz)', 'f', 'v'),
('complete', 'job_id bigint, token bigint, result jsonb = NULL', 'boolean', 'f', 'v'),
('ack', 'job_id bigint, token bigint', 'boolean', 'f', 'v'),
('fail', 'job_id bigint, token bigint, error text = NULL, retry_in interval = NULL, retry boolean = true', 'text', 'f', 'v'),
('nack', 'job_id bigint, token bigint', 'text', 'f', 'v'),
('release', 'job_id bigint, token bigint, delay interval = ''00:00:00''', 'void', 'f', 'v'),
('extend', 'job_id bigint, token bigint, lease interval = NULL', 'text', 'f', 'v'),
('complete_many', 'job_ids bigint[], tokens bigint[], results jsonb = NULL', 'TABLE(job_id bigint, status text)', 'f', 'v'),
('fail_many', 'job_ids bigint[], tokens bigint[], error text = NULL, retry_in interval = NULL', 'TABLE(job_id bigint, status text)', 'f', 'v'),
('release_many', 'job_ids bigint[], tokens bigint[], delay interval = ''00:00:00''', 'TABLE(job_id bigint, status text)', 'f', 'v'),
('extend_many', 'job_ids bigint[], tokens bigint[], lease interval = NULL', 'TABLE(job_id bigint, status text)', 'f', 'v'),
('complete_and_dequeue', 'job_id bigint, token bigint, queue text, result jsonb = NULL, max_jobs int = 1, lease interval = NULL, worker text = NULL, wait interval = ''00:00:00'', group_batch int = 1', 'TABLE(job_id bigint, token bigint, name text, payload jsonb, headers jsonb, priority int, attempt int, max_attempts int, group_key text, enqueued_at timestamptz, lease_until timestamptz, deadline timestamptz)', 'f', 'v'),
('progress', 'job_id bigint, token bigint, value jsonb', 'void', 'f', 'v'),
('assert_lease', 'job_id bigint, token bigint', 'void', 'f', 'v'),
('fence', 'resource text, token bigint', 'void', 'f', 'v'),
('cancel', 'job_id bigint', 'text', 'f', 'v'),
('job', 'job_id bigint', 'TABLE(job_id bigint, queue text, state text, name text, priority int, group_key text, attempt int, max_attempts int, run_at timestamptz, lease_until timestamptz, worker text, progress jsonb, last_error text, created timestamptz, started timestamptz, finished timestamptz, payload jsonb, headers jsonb, result jsonb, failures jsonb, deadline timestamptz, unique_key text, expires timestamptz)', 'f', 's'),
('explain_job', 'job_id bigint', 'text', 'f', 's'),
('reschedule', 'job_id bigint, run_at timestamptz = NULL, priority int = NULL', 'void', 'f', 'v'),
('run_now', 'job_ids bigint[]', 'bigint', 'f', 'v'),
('delete_jobs', 'job_ids bigint[]', 'bigint', 'f', 'v'),
('redrive', 'queue text, job_ids bigint[] = NULL, max_jobs int = 1000, to_queue text = NULL', 'bigint', 'f', 'v'),
('wait', 'IN queue text, IN timeout interval = ''00:00:30'', INOUT ready boolean = NULL', '', 'p', 'v'),
('alter_group', 'queue text, group_key text, weight int = NULL, lease interval = NULL, rate_limit int = NULL, rate_interval interval = NULL, reset text[] = ''{}''', 'void', 'f', 'v'),
('pause_group', 'queue text, group_key text', 'void', 'f', 'v'),
('resume_group', 'queue text, group_key text', 'void', 'f', 'v'),
('unblock_group', 'queue text, group_key text, head text = ''retry''', 'void', 'f', 'v'),
('drain_worker', 'worker text, step int = 5, pause interval = ''00:00:01''', 'bigint', 'f', 'v'),
('events', 'after bigint = NULL, queue text = NULL, max_events int = 1000', 'TABLE("position" bigint, at timestamptz, queue_name text, event text, job_id bigint, name text, attempt int, max_attempts int, delay interval, group_key text, error text, count bigint)', 'f', 'v'),
('once', 'key text, ttl interval = ''1 day''', 'TABLE(first boolean, result jsonb)', 'f', 'v'),
('once_done', 'key text, result jsonb', 'void', 'f', 'v'),
('wait_job', 'IN job_id bigint, IN timeout interval = ''00:00:30'', INOUT state text = NULL, INOUT result jsonb = NULL', '', 'p', 'v'),
('joining', '', 'SETOF bigint', 'f', 's'),
('schedule', 'name text, cron text, queue text, payload jsonb = ''{}'', timezone text = ''UTC'', missed text = ''skip'', overlap text = ''allow'', job_name text = NULL, priority int = NULL, max_attempts int = NULL, enabled boolean = true', 'timestamptz', 'f', 'v'),
('unschedule', 'name text', 'boolean', 'f', 'v'),
('schedule_next', 'cron text, timezone text = ''UTC'', after timestamptz = now(), n int = 5', 'SETOF timestamptz', 'f', 's'),
('set_handler', 'queue text, handler text, name text = ''*'', concurrency int = 1, timeout interval = ''00:00:30''', 'void', 'f', 'v'),
('grant_queue', 'queue text, role text, privileges text[]', 'void', 'f', 'v'),
('revoke_queue', 'queue text, role text, privileges text[]', 'void', 'f', 'v'),
('may_read', 'queue_id int', 'boolean', 'f', 's'),
('may_see', 'queue_id int', 'boolean', 'f', 's'),
('drop_handler', 'queue text, name text = ''*''', 'boolean', 'f', 'v'),
('stop', 'timeout interval = ''00:00:30''', 'int', 'f', 'v'),
('start', '', 'boolean', 'f', 'v'),
('handlers_changed', '', 'trigger', 'f', 'v'),
('adopt', '', 'void', 'f', 'v'),
('verify', '', 'TABLE(rule text, detail text)', 'f', 's'),
('queue_counts', '', 'TABLE(queue_id int, ready bigint, delayed bigint, pending bigint, active bigint, dead bigint, enqueued_total bigint, completed_total bigint, failed_total bigint, retried_total bigint, dead_total bigint, cancelled_total bigint, expired_leases_total bigint, expired_total bigint, oldest_ready timestamptz, next_due timestamptz, exact boolean, totals_since timestamptz)', 'f', 'v'),
('lease_counts', '', 'TABLE(queue_id int, worker text, started timestamptz, lease_until timestamptz, drain boolean, jobs int)', 'f', 's'),
('metrics', '', 'text', 'f', 'v'),
('queue_metrics', '', 'TABLE(queue text, paused double precision, exact double precision, ready double precision, delayed double precision, pending double precision, active double precision, dead double precision, oldest_ready_age_seconds double precision, groups_ready double precision, groups_waiting double precision, groups_leased double precision, groups_migrating double precision, groups_blocked double precision, waiters double precision, executors double precision, dead_alert double precision, cursor_distance double precision, cursor_intervals double precision, enqueued_total double precision, completed_total double precision, failed_total double precision, retried_total double precision, dead_total double precision, cancelled_total double precision, expired_total double precision, expired_leases_total double precision, claims_total double precision, claim_buffers_total double precision, wait_seconds double precision[], wait_seconds_bucket bigint[], wait_seconds_sum double precision, wait_seconds_count bigint, run_seconds double precision[], run_seconds_bucket bigint[], run_seconds_sum double precision, run_seconds_count bigint)', 'f', 'v'),
('database_metrics', '', 'TABLE(enabled double precision, adopted double precision, handlers_stopped double precision, scheduler_running double precision, executors double precision, executors_free double precision, executors_max double precision, queues double precision, horizon_age_seconds double precision, horizon_age_transactions double precision, totals_start_time_seconds double precision)', 'f', 'v'),
('queue_rates', '', 'TABLE(queue text, seconds double precision, enqueued double precision, completed double precision, failed double precision, retried double precision, dead double precision, cancelled double precision, expired_leases double precision)', 'f', 'v'),
('settings_changed', '', 'trigger', 'f', 'v'),
('register_database', '', 'void', 'f', 'v');

-- the catalog's words made short: "integer DEFAULT NULL::integer" reads "int = NULL"
CREATE FUNCTION pg_temp.short(words text) RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(replace(replace(replace(words, ' DEFAULT ', ' = '), 'timestamp with time zone', 'timestamptz'), 'integer', 'int'),
		'::[a-z]+(\[\])?', '', 'g')
$$;
CREATE TEMP VIEW routine AS
	SELECT p.oid, p.proname::text COLLATE "default" AS name, pg_temp.short(pg_get_function_arguments(p.oid)) AS args,
		coalesce(pg_temp.short(pg_get_function_result(p.oid)), '') AS result, p.prokind AS kind, p.provolatile AS volatility, p.proparallel,
		p.prosecdef, p.proconfig, p.proisstrict, p.proacl, p.proowner
	FROM pg_proc p
	WHERE p.pronamespace = 'jobq'::regnamespace;

SELECT is(r.args, e.args, e.name || ': arguments') FROM expected e LEFT JOIN routine r USING (name) ORDER BY e.name;
SELECT is(r.result, e.result, e.name || ': result') FROM expected e LEFT JOIN routine r USING (name) ORDER BY e.name;
SELECT results_eq('SELECT name, kind, volatility FROM routine ORDER BY 1', 'SELECT name, kind, volatility FROM expected ORDER BY 1',
	'these routines, without overloads, of these kinds and volatilities, and no others');
SELECT is_empty($$SELECT name FROM routine WHERE proparallel <> 'u'$$, 'all are parallel unsafe');
SELECT is_empty($$SELECT name FROM routine WHERE proisstrict$$, 'none is strict: a NULL is answered by the function');
SELECT results_eq($$SELECT name FROM routine WHERE prosecdef ORDER BY 1$$, $$VALUES ('fence'), ('verify')$$,
	'these run with their owner''s rights');
SELECT is_empty($$SELECT name FROM routine WHERE prosecdef AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)$$,
	'each of them has its search_path set');

-- rights
SELECT is_empty($$SELECT r.name FROM routine r, aclexplode(coalesce(r.proacl, acldefault('f', r.proowner))) a WHERE a.grantee = 0$$,
	'PUBLIC executes nothing');
SELECT is_empty($$SELECT c.relname FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))) a
	WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'v', 'S') AND a.grantee = 0$$, 'PUBLIC reads and writes nothing');
SELECT is_empty($$SELECT a.privilege_type FROM pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
	WHERE n.nspname = 'jobq' AND a.grantee = 0$$, 'PUBLIC has no right on the schema');
SELECT results_eq($$SELECT c.relname::text COLLATE "default", a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
	WHERE c.relnamespace = 'jobq'::regnamespace AND a.grantee <> c.relowner ORDER BY 1$$,
	$$VALUES ('blocked_groups', 'SELECT'), ('dead_letters', 'SELECT'), ('dependencies', 'SELECT'), ('grants', 'SELECT'), ('groups', 'SELECT'), ('handlers', 'SELECT'), ('jobs', 'SELECT'), ('queues', 'SELECT'), ('schedule_runs', 'SELECT'), ('schedules', 'SELECT'), ('workers', 'SELECT')$$,
	'only the views are open to another role');
SELECT ok(has_schema_privilege('pg_monitor', 'jobq', 'USAGE') AND NOT has_schema_privilege('pg_monitor', 'jobq', 'CREATE'),
	'pg_monitor may look into the schema');
SELECT results_eq($$SELECT name FROM routine WHERE has_function_privilege('pg_monitor', oid, 'EXECUTE') ORDER BY 1$$, $$VALUES ('database_metrics'), ('events'), ('joining'), ('lease_counts'), ('may_read'), ('may_see'), ('metrics'), ('queue_counts'), ('queue_metrics'), ('queue_rates')$$,
	'pg_monitor executes what the views are made of');
SELECT ok(has_table_privilege('pg_monitor', 'jobq.' || v, 'SELECT'), 'pg_monitor may read ' || v)
	FROM unnest('{queues,jobs,dependencies,groups,workers,dead_letters,schedules,schedule_runs}'::text[]) v;
SELECT lives_ok($$SET LOCAL ROLE pg_monitor; SELECT * FROM jobq.queues; SELECT * FROM jobq.jobs; SELECT * FROM jobq.dependencies; SELECT * FROM jobq.groups; SELECT * FROM jobq.workers; SELECT * FROM jobq.dead_letters; SELECT * FROM jobq.schedules; SELECT * FROM jobq.schedule_runs$$,
	'and does');
RESET ROLE;

-- comments
SELECT is_empty($$SELECT name FROM routine WHERE coalesce(obj_description(oid, 'pg_proc'), '') = ''$$, 'every routine has a comment');
SELECT is_empty($$SELECT relname FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind IN ('r', 'v')
	AND coalesce(obj_description(oid, 'pg_class'), '') = ''$$, 'every table and view has a comment');

-- pg_dump
SELECT results_eq($$SELECT c.relname::text COLLATE "default" FROM pg_class c WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'S')
		AND c.relname NOT IN ('identity', 'stopped') ORDER BY 1$$,
	$$SELECT c.relname::text COLLATE "default" FROM pg_extension e, unnest(e.extconfig) x, pg_class c WHERE e.extname = 'jobq' AND c.oid = x ORDER BY 1$$,
	'every table and sequence is dumped with its rows, but for identity and stopped');
SELECT is_empty($$SELECT c FROM pg_extension e, unnest(e.extcondition) c WHERE e.extname = 'jobq' AND c <> ''$$, 'and with all of them');
SELECT is_empty($$SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'v', 'S')
	AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')$$,
	'all relations in the schema are the extension''s');

-- the C code knows the columns by number
CREATE FUNCTION pg_temp.columns(rel regclass) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = rel AND attnum > 0
$$;
SELECT is(pg_temp.columns('jobq.' || t.name), t.columns, t.name || ': columns') FROM (VALUES
	('job', 'id created queue_id max_attempts priority timeout expires name group_key unique_key payload headers unique_started unique_until after_dead run_at'),
	('dependency', 'job_id on_job ended'),
	('unique_window', 'queue_id unique_key job_id until'),
	('ready', 'seq job_id queue_id attempt lane priority job_tid group_id from_ord since'),
	('delayed', 'visible_at job_id queue_id attempt priority job_tid group_id from_ord'),
	('lease', 'token started lease_until deadline cancel queue_id job_ids job_tids attempts worker progress group_id ords drain lane session'),
	('job_group', 'id queue_id group_key'),
	('line', 'group_id ord ver job_id attempt priority job_tid since'),
	('held', 'group_id queue_id priority reason since from_ord dead_job dead_ord'),
	('group_setting', 'queue_id group_key weight lease rate_limit rate_interval paused'),
	('group_rate', 'queue_id group_key next_at'),
	('queue', 'id name owner paused max_attempts lease timeout backoff backoff_base backoff_cap backoff_function concurrency rate_limit rate_interval rate_burst keep_completed keep_dead dead_letter_queue max_payload_bytes notify on_retry on_dead group_rate_limit group_rate_interval group_lease isolate_above created events alert_dead alert_dead_interval limit_name ageing'),
	('failure', 'job_id at attempt error'),
	('dead', 'id created died queue_id attempt max_attempts priority timeout expires reason last_error name group_key unique_key payload headers failures unique_started'),
	('history_far', 'id token created started finished expiry queue_id attempt max_attempts priority state name group_key unique_key worker payload headers result progress failures')) t (name, columns);
SELECT is(count(*)::text || ' ' || count(DISTINCT pg_temp.columns(oid))::text, '33 1', 'the history tables are alike')
	FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind = 'r' AND relname ~ '^history_';

SELECT * FROM finish();
