-- Who may do what, and that nobody's functions run in place of the server's.

-- Traps: functions and operators that a user left in public before the extension came, fitting their arguments better than the server's
-- own. One that is called leaves a note and does its work.
CREATE TABLE sprung (trap text, who text);
GRANT INSERT ON sprung TO PUBLIC;
CREATE FUNCTION trap(name text) RETURNS void LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.sprung VALUES ($1, current_user); END$$;
DO $do$
DECLARE
	t record;
BEGIN
	FOR t IN SELECT * FROM (VALUES
		('format', 'text, text', 'text', $$'x'::text$$), ('format', 'text, int', 'text', $$'x'::text$$), ('now', '', 'timestamptz', 'pg_catalog.clock_timestamp()'),
		('clock_timestamp', '', 'timestamptz', 'pg_catalog.now()'), ('current_database', '', 'name', $$'x'::name$$), ('octet_length', 'text', 'int', '1'),
		('array_position', 'bigint[], bigint', 'int', '1'), ('left', 'text, int', 'text', $$'x'::text$$), ('concat_ws', 'text, text, text', 'text', $$'x'::text$$),
		('jsonb_build_object', 'text, int, text, timestamptz, text, text', 'jsonb', $$'{}'::jsonb$$), ('unnest', 'bigint[]', 'bigint', '1::bigint'),
		('gen_random_uuid', '', 'uuid', $$'00000000-0000-0000-0000-000000000000'::uuid$$), ('generate_series', 'int, int', 'int', '1'),
		('current_setting', 'text, boolean', 'text', $$'off'::text$$), ('to_regprocedure', 'text', 'regprocedure', 'NULL::regprocedure'),
		('nextval', 'regclass', 'bigint', '1::bigint'), ('pg_extension_config_dump', 'text, text', 'void', 'NULL::text'))
		f (name, args, result, value)
	LOOP
		EXECUTE pg_catalog.format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM public.trap(%L); %s END$f$',
			t.name, t.args, t.result, t.name, CASE t.result WHEN 'void' THEN '' ELSE 'RETURN ' || t.value || ';' END);
	END LOOP;
	FOR t IN SELECT * FROM (VALUES ('=', 'bigint', 'bigint', 'int8eq'), ('=', 'int', 'int', 'int4eq'), ('=', 'text', 'text', 'texteq'), ('=', 'name', 'text', 'nameeqtext'),
		('=', 'uuid', 'uuid', 'uuid_eq'), ('=', 'oid', 'oid', 'oideq'), ('=', 'smallint', 'smallint', 'int2eq'), ('<', 'timestamptz', 'timestamptz', 'timestamptz_lt'),
		('>', 'timestamptz', 'timestamptz', 'timestamptz_gt'), ('<', 'bigint', 'bigint', 'int8lt'), ('>', 'bigint', 'bigint', 'int8gt'), ('<>', 'text', 'text', 'textne'))
		o (name, l, r, real)
	LOOP
		EXECUTE pg_catalog.format('CREATE FUNCTION public.trap_%s(%s, %s) RETURNS boolean LANGUAGE plpgsql AS $f$BEGIN PERFORM public.trap(%L); RETURN pg_catalog.%s($1, $2); END$f$',
			t.real, t.l, t.r, t.name || ' on ' || t.l, t.real);
		EXECUTE pg_catalog.format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.trap_%s)', t.name, t.l, t.r, t.real);
	END LOOP;
END
$do$;
-- a trap works: this is what would be seen
SET search_path = public, pg_catalog;
SELECT 1::bigint = 2::bigint AS equal, octet_length('xyz') AS length;
RESET search_path;
SELECT trap FROM sprung ORDER BY trap;
TRUNCATE sprung;

-- The extension is made with the traps first in the search path.
SET search_path = public, pg_catalog;
CREATE EXTENSION jobq;
RESET search_path;
SELECT * FROM sprung;

-- So are all its verbs and views called, with tables of one's own besides.
CREATE TEMP TABLE queue (id int, name text);
CREATE TEMP TABLE job (id bigint);
CREATE TEMP TABLE pg_extension (extname name, extversion text);
CREATE FUNCTION public.pause(attempt int, error text) RETURNS interval LANGUAGE sql AS $$SELECT interval '1 h'$$;
SET search_path = public, pg_temp, pg_catalog;
SELECT jobq.create_queue('q'), jobq.create_queue('f', backoff => 'function', backoff_function => 'pause', dead_letter_queue => 'q', max_attempts => 2);
SELECT jobq.alter_queue('q', lease => '1 min', reset => '{timeout}'), jobq.create_queue('r'), jobq.rename_queue('r', 's'), jobq.pause_queue('s'), jobq.resume_queue('s');
SELECT jobq.enqueue('q', '1') AS job \gset
SELECT job_id AS job, token FROM jobq.dequeue('q') \gset
SELECT jobq.extend(:job, :token), jobq.progress(:job, :token, '1'), jobq.assert_lease(:job, :token), jobq.fence('x', :token), jobq.fence('x', :token);
SELECT state, payload FROM jobq.job(:job);
SELECT jobq.fail(:job, :token, 'x', '0');
SELECT jobq.explain_job(:job) IS NOT NULL AS explained, jobq.run_now(ARRAY[:job]), jobq.reschedule(:job, priority => 3);
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q');
SELECT jobq.enqueue('f', '2') AS job \gset
SELECT jobq.fail(job_id, token, 'x') FROM jobq.dequeue('f');
SELECT jobq.run_now(ARRAY[:job]);
SELECT jobq.fail(job_id, token, 'x') FROM jobq.dequeue('f');
SELECT jobq.fail(job_id, token, 'x', retry => false) FROM jobq.dequeue('q');
SELECT jobq.redrive('q'), jobq.purge_queue('q'), jobq.cancel(:job), jobq.delete_jobs(ARRAY[:job]), jobq.adopt();
SELECT count(*) FROM jobq.enqueue_many('q', '[1, 2, 3]');
SELECT s.status FROM (SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM jobq.dequeue('q', 3)) d, jobq.complete_many(ids, tokens) s;
CALL jobq.wait('q', '0');
SELECT count(*) FROM jobq.queues;
SELECT count(*) FROM jobq.jobs;
SELECT count(*) FROM jobq.workers;
SELECT count(*) FROM jobq.dead_letters;
CREATE FUNCTION public.handle(payload jsonb) RETURNS void LANGUAGE sql AS '';
SELECT jobq.stop('0'), jobq.set_handler('s', 'handle'), jobq.schedule('s', '0 0 1 1 *', 's') IS NOT NULL AS scheduled, jobq.alter_group('s', 'g', weight => 2);
SELECT (SELECT count(*) FROM jobq.handlers), (SELECT count(*) FROM jobq.schedules), (SELECT count(*) FROM jobq.schedule_runs), (SELECT count(*) FROM jobq.groups);
SELECT jobq.drop_handler('s'), jobq.unschedule('s'), jobq.start();
SELECT first FROM jobq.once('k');
SELECT jobq.once_done('k', '1'), (SELECT count(*) FROM jobq.events()) AS events, (SELECT count(*) > 0 FROM jobq.metrics()) AS metrics;
SELECT jobq.grant_queue('s', 'public', '{enqueue,consume,manage}'), jobq.revoke_queue('s', 'public', '{enqueue}'), (SELECT count(*) FROM jobq.grants) AS grants;
SELECT jobq.revoke_queue('s', 'public', '{consume,manage}');
SELECT jobq.drop_queue('f', force => true), jobq.drop_queue('s');
SELECT * FROM jobq.verify();
RESET search_path;
SELECT * FROM sprung;
DROP TABLE pg_temp.queue, pg_temp.job, pg_temp.pg_extension;

-- PUBLIC may do nothing: not even look into the schema.
CREATE ROLE regress_jobq_nobody;
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END
$$;
CREATE TABLE calls AS SELECT p.oid::regprocedure::text AS call, p.prokind, CASE p.prokind WHEN 'p' THEN 'CALL ' ELSE 'SELECT ' END || p.oid::regproc || '(' ||
	(SELECT coalesce(string_agg(format('NULL::%s', t::regtype), ', ' ORDER BY ord), '') FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, ord)) || ')' AS statement
	FROM pg_proc p WHERE p.pronamespace = 'jobq'::regnamespace;
CREATE TABLE relations AS SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind IN ('r', 'v', 'S');
GRANT SELECT ON calls, relations TO PUBLIC;
SET ROLE regress_jobq_nobody;
SELECT count(*) > 30 AS all_calls, outcome(statement) FROM calls GROUP BY outcome(statement);
SELECT count(*) > 50 AS all_relations, outcome('SELECT * FROM ' || name) FROM relations GROUP BY outcome('SELECT * FROM ' || name);
RESET ROLE;
-- with a look into it, still nothing
GRANT USAGE ON SCHEMA jobq TO regress_jobq_nobody;
SET ROLE regress_jobq_nobody;
SELECT count(*) > 30 AS all_calls, left(outcome(statement), 23) AS outcome FROM calls GROUP BY 2;
SELECT count(*) > 50 AS all_relations, left(outcome(statement), 23) AS outcome FROM relations, LATERAL (SELECT 'SELECT * FROM ' || name AS statement) s GROUP BY 2;
SELECT left(outcome(statement), 40) FROM unnest(ARRAY['INSERT INTO jobq.queue (name, owner) VALUES (''x'', ''y'')', 'DELETE FROM jobq.job', 'UPDATE jobq.lease SET lease_until = now()',
	'TRUNCATE jobq.ready', 'DROP TABLE jobq.job', 'CREATE FUNCTION jobq.enqueue(text) RETURNS int LANGUAGE sql AS ''SELECT 1''', 'CREATE TABLE jobq.x ()', 'ALTER EXTENSION jobq UPDATE',
	'DROP EXTENSION jobq']) statement;
RESET ROLE;

-- EXECUTE alone does nothing: it takes a right on the queue. Who has both needs no right on the tables, and gets none.
GRANT EXECUTE ON FUNCTION jobq.enqueue, jobq.dequeue, jobq.complete, jobq.grant_queue TO regress_jobq_nobody;
SET ROLE regress_jobq_nobody;
SELECT outcome(statement) FROM unnest(ARRAY['SELECT jobq.enqueue(''q'')', 'SELECT jobq.enqueue(''no such'')', 'SELECT jobq.dequeue(''q'')',
	'SELECT jobq.grant_queue(''q'', ''current_user'', ''{enqueue}'')']) statement;
RESET ROLE;
SET search_path = public, pg_catalog;
SELECT jobq.grant_queue('q', 'regress_jobq_nobody', '{enqueue,consume}');
SET ROLE regress_jobq_nobody;
SELECT jobq.enqueue('q', '"by nobody"') > 0 AS job;
SELECT payload, jobq.complete(job_id, token) FROM jobq.dequeue('q');
RESET search_path;
SELECT left(outcome(statement), 40) FROM unnest(ARRAY['SELECT * FROM jobq.job', 'SELECT * FROM jobq.jobs', 'SELECT jobq.drop_queue(''q'')', 'SELECT jobq.create_queue(''x'')',
	'SELECT jobq.fail(1, 1)', 'SELECT jobq.purge_queue(''q'')']) statement;
SELECT queue, ready FROM jobq.queues;
SELECT count(*) FROM jobq.jobs WHERE queue <> 'q';
SELECT queue, privileges, usable FROM jobq.grants;
RESET ROLE;
SET search_path = public, pg_catalog;
SELECT jobq.revoke_queue('q', 'regress_jobq_nobody', '{enqueue}');
SET ROLE regress_jobq_nobody;
SELECT outcome('SELECT jobq.enqueue(''q'')');
RESET ROLE;
SELECT jobq.revoke_queue('q', 'regress_jobq_nobody', '{consume}');
RESET search_path;
SELECT has_schema_privilege('regress_jobq_nobody', 'jobq', 'USAGE') AS schema_left, * FROM sprung;
-- who makes a queue owns it, and its backoff function runs as that role
GRANT USAGE ON SCHEMA jobq TO regress_jobq_nobody;
GRANT EXECUTE ON FUNCTION jobq.create_queue TO regress_jobq_nobody;
CREATE FUNCTION who(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'runs as %', current_user; RETURN '1 h'; END$$;
SET ROLE regress_jobq_nobody;
SELECT jobq.create_queue('own', backoff => 'function', backoff_function => 'who');
RESET ROLE;
SELECT owner FROM jobq.queues WHERE queue = 'own';
SELECT jobq.enqueue('own') > 0 AS job;
SELECT jobq.fail(job_id, token, 'x') FROM jobq.dequeue('own');

-- The traps are still unsprung.
SELECT * FROM sprung;
DROP OWNED BY regress_jobq_nobody;
DROP ROLE regress_jobq_nobody;
SELECT * FROM jobq.verify();
