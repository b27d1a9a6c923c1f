-- Handlers: functions in the database that run the jobs of a queue.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
-- Enqueues, and waits until the job has ended: what came of it.
CREATE PROCEDURE run(queue text, payload jsonb, name text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	job bigint := jobq.enqueue($1, $2, name => $3);
	ended record;
BEGIN
	COMMIT;
	CALL public.becomes_true(format('SELECT state IN (''completed'', ''dead'') FROM jobq.job(%s)', job));
	SELECT j.state, j.attempt, j.result, j.last_error INTO ended FROM jobq.job(job) j;
	RAISE NOTICE '%, attempt %, result %', ended.state, ended.attempt, coalesce(ended.result::text, 'none');
	IF ended.last_error IS NOT NULL THEN
		RAISE NOTICE '%', ended.last_error;
	END IF;
END
$$;
\set VERBOSITY terse
SELECT jobq.create_queue('mail', max_attempts => 1);

-- A function of the payload. What it returns is the job's result.
CREATE TABLE sent (address text);
CREATE FUNCTION send(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sent VALUES (payload->>'to');
	RETURN jsonb_build_object('sent', payload->>'to');
END
$$;
SELECT jobq.set_handler('mail', 'send');
CALL run('mail', '{"to": "ada"}');
SELECT * FROM sent;
SELECT queue, name, handler, role = current_user AS mine, concurrency, timeout, search_path, usable FROM jobq.handlers;
-- what it wrote and the completion are one transaction; an error undoes both
DROP FUNCTION send;
CREATE FUNCTION send(payload jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sent VALUES (payload->>'to');
	RAISE EXCEPTION 'no such address: %', payload->>'to' USING ERRCODE = 'MX001', DETAIL = 'It was looked for.', HINT = 'Ask around.';
END
$$;
CALL run('mail', '{"to": "bob"}');
SELECT * FROM sent;
SELECT queue, reason, attempt FROM jobq.dead_letters;

-- A function of the whole job: the columns are those of dequeue(). The token is good for progress(), the deadline is when the run's time is over.
CREATE TABLE seen (n serial, job jobq.delivery, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION look(job jobq.delivery) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen (job) VALUES (job);
	PERFORM jobq.progress(job.job_id, job.token, '"half"'), jobq.assert_lease(job.job_id, job.token);
END
$$;
SELECT jobq.create_queue('look', max_attempts => 5);
SELECT jobq.set_handler('look', 'look', timeout => '20 s');
SELECT jobq.enqueue('look', '{"x": [1, 2]}', name => 'a name', priority => 7, headers => '{"h": 1}', group_key => 'g', max_attempts => 9, timeout => '10 s') AS job \gset
CALL becomes_true(format('SELECT state = ''completed'' FROM jobq.job(%s)', :job));
SELECT (job).job_id = :job AS job_id, (job).token <> 0 AS token, (job).name, (job).payload, (job).headers, (job).priority, (job).attempt, (job).max_attempts, (job).group_key,
	(job).enqueued_at BETWEEN at - interval '1 min' AND at AS enqueued_at, (job).lease_until > at AS lease_until,
	(job).deadline - at BETWEEN '5 s' AND '10 s' AS deadline
	FROM seen;
SELECT progress FROM jobq.job(:job);
-- a job with the least: no name, headers or group; the deadline is the handler's
SELECT jobq.enqueue('look') AS job \gset
CALL becomes_true(format('SELECT state = ''completed'' FROM jobq.job(%s)', :job));
SELECT (job).name IS NULL AS name, (job).payload, (job).headers IS NULL AS headers, (job).priority, (job).attempt, (job).max_attempts, (job).group_key IS NULL AS group_key,
	(job).deadline - at BETWEEN '15 s' AND '20 s' AS deadline
	FROM seen WHERE (job).job_id = :job;

-- Results: void and null are none, jsonb is itself, any other value is turned into jsonb.
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE DOMAIN object AS jsonb;
DO $do$
DECLARE
	t record;
BEGIN
	FOR t IN SELECT * FROM (VALUES
		('void', 'void', 'SELECT'), ('null', 'jsonb', 'SELECT NULL::jsonb'), ('jsonb', 'jsonb', $$SELECT '[1, {"a": null}]'::jsonb$$), ('jsonnull', 'jsonb', $$SELECT 'null'::jsonb$$),
		('json', 'json', $$SELECT '{"b":  1}'::json$$), ('int', 'int', 'SELECT 42'), ('numeric', 'numeric', 'SELECT 1.50'), ('bool', 'boolean', 'SELECT true'),
		('text', 'text', $$SELECT 'done "well"'::text$$), ('textnull', 'text', 'SELECT NULL::text'), ('time', 'timestamp', $$SELECT '2020-02-03 04:05'::timestamp$$),
		('bytea', 'bytea', $$SELECT '\xff00'::bytea$$), ('array', 'int[]', 'SELECT ARRAY[1, NULL]'), ('pair', 'pair', $$SELECT (1, 'x')::pair$$), ('pairnull', 'pair', 'SELECT NULL::pair'),
		('record', 'record', $$SELECT ROW(1, 'x'::text)$$), ('small', 'small', 'SELECT 3::small'), ('object', 'object', $$SELECT '{"o": 1}'::object$$), ('row', 'sent', 'SELECT s FROM sent s LIMIT 1'), ('nan', 'float8', $$SELECT 'NaN'::float8$$))
		v (name, type, body)
	LOOP
		EXECUTE format('CREATE FUNCTION result_%s(payload jsonb) RETURNS %s LANGUAGE sql AS %L', t.name, t.type, t.body);
		PERFORM jobq.set_handler('mail', 'result_' || t.name, name => t.name);
		PERFORM jobq.enqueue('mail', name => t.name);
	END LOOP;
END
$do$;
CALL becomes_true($$SELECT NOT EXISTS (SELECT FROM jobq.job)$$);
SELECT name, state, result, last_error FROM jobq.jobs WHERE name IS NOT NULL AND queue = 'mail' ORDER BY job_id;
-- a result has the size of a payload at most
CREATE FUNCTION result_large(payload jsonb) RETURNS text LANGUAGE sql AS $$SELECT repeat('x', 300000)$$;
SELECT jobq.set_handler('mail', 'result_large', name => 'large');
CALL run('mail', '{}', 'large');
SELECT bool_and(jobq.drop_handler('mail', name)) FROM jobq.handlers WHERE queue = 'mail' AND name <> '*';

-- Names: a handler for the jobs of one name, * for all that have none of their own. Where there is none, the attempt fails for it.
CREATE FUNCTION by_name(job jobq.delivery) RETURNS text LANGUAGE sql AS $$SELECT 'by name: ' || coalesce((job).name, 'none')$$;
CREATE FUNCTION by_default(job jobq.delivery) RETURNS text LANGUAGE sql AS $$SELECT 'by default: ' || coalesce((job).name, 'none')$$;
SELECT jobq.create_queue('names', max_attempts => 2, backoff => 'fixed', backoff_base => '1 ms');
SELECT jobq.set_handler('names', 'by_name', name => 'a');
CALL run('names', '{}', 'a');
CALL run('names', '{}', 'b');
CALL run('names', '{}');
SELECT jobq.set_handler('names', 'by_default', '*'), jobq.set_handler('names', 'by_name', 'A b');
CALL run('names', '{}', 'a');
CALL run('names', '{}', 'A b');
CALL run('names', '{}', 'A');
CALL run('names', '{}');
-- the dead ones can be run again now
SELECT jobq.redrive('names');
CALL becomes_true($$SELECT NOT EXISTS (SELECT FROM jobq.job)$$);
SELECT name, state, result FROM jobq.jobs WHERE queue = 'names' ORDER BY job_id;
-- dropped: true when there was one; null is the default's name
SELECT jobq.drop_handler('names', 'a'), jobq.drop_handler('names', 'a'), jobq.drop_handler('names', NULL), jobq.drop_handler('names'), jobq.drop_handler('names', 'A b');
SELECT count(*) FROM jobq.handlers WHERE queue = 'names';
-- without any, jobs wait
SELECT jobq.enqueue('names') AS job \gset
SELECT state FROM jobq.job(:job);
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('names');

-- A failed attempt is retried as the queue says; the handler sees which one it is.
CREATE FUNCTION third_time(job jobq.delivery) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF job.attempt < 3 THEN
		RAISE EXCEPTION 'attempt %', job.attempt;
	END IF;
	RETURN 'attempt ' || job.attempt;
END
$$;
SELECT jobq.create_queue('retry', max_attempts => 3, backoff => 'fixed', backoff_base => '1 ms'), jobq.set_handler('retry', 'third_time');
CALL run('retry', '{}');
SELECT jobq.enqueue('retry', max_attempts => 2) AS job \gset
CALL becomes_true(format('SELECT state = ''dead'' FROM jobq.job(%s)', :job));
SELECT state, attempt, split_part(last_error, E'\n', 1) AS last_error, (SELECT string_agg(split_part(f->>'error', E'\n', 1), '; ') FROM jsonb_array_elements(failures) f) AS failures FROM jobq.job(:job);
-- one that takes too long: the message names the limit
CREATE FUNCTION slow(payload jsonb) RETURNS void LANGUAGE sql AS $$SELECT pg_sleep(60)$$;
SELECT jobq.set_handler('mail', 'slow', timeout => '50 ms');
CALL run('mail', '{}');
-- COMMIT is not for a handler
CREATE FUNCTION commits(payload jsonb) RETURNS void LANGUAGE plpgsql AS $$BEGIN INSERT INTO sent VALUES ('by commit'); COMMIT; END$$;
SELECT jobq.set_handler('mail', 'commits');
CALL run('mail', '{}');
-- nor is another role
CREATE FUNCTION becomes_other(payload jsonb) RETURNS void LANGUAGE plpgsql AS $$BEGIN RESET ROLE; END$$;
SELECT jobq.set_handler('mail', 'becomes_other');
CALL run('mail', '{}');
-- an error that comes with the commit
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
CREATE FUNCTION orphan(payload jsonb) RETURNS void LANGUAGE sql AS $$INSERT INTO child VALUES (1)$$;
SELECT jobq.set_handler('mail', 'orphan');
CALL run('mail', '{}');
SELECT count(*) FROM child;
SELECT * FROM sent;

-- A handler uses jobq like anybody: the next step of its job, in the same transaction.
CREATE FUNCTION countdown(payload jsonb) RETURNS jsonb LANGUAGE sql AS
	$$SELECT to_jsonb(CASE WHEN payload::int > 0 THEN jobq.enqueue('countdown', to_jsonb(payload::int - 1)) END IS NULL)$$;
SELECT jobq.create_queue('countdown'), jobq.set_handler('countdown', 'countdown');
SELECT jobq.enqueue('countdown', '5') AS job \gset
CALL becomes_true($$SELECT count(*) = 6 FROM jobq.jobs WHERE queue = 'countdown' AND state = 'completed'$$);
SELECT payload, result, attempt FROM jobq.jobs WHERE queue = 'countdown' ORDER BY job_id;
-- completed by itself is completed
CREATE FUNCTION completes(job jobq.delivery) RETURNS text LANGUAGE sql AS $$SELECT 'late: ' || jobq.complete((job).job_id, (job).token, '"early"')$$;
SELECT jobq.set_handler('mail', 'completes');
CALL run('mail', '{}');
-- stop() would wait for the handler that calls it
CREATE FUNCTION stops(payload jsonb) RETURNS int LANGUAGE sql AS $$SELECT jobq.stop('0')$$;
SELECT jobq.set_handler('mail', 'stops');
CALL run('mail', '{}');

-- Groups: one job at a time, in order.
CREATE TABLE grouped (n serial, job text);
CREATE FUNCTION in_order(job jobq.delivery) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF job.attempt <= (job.payload->>'fails')::int THEN
		RAISE EXCEPTION 'not yet';
	END IF;
	INSERT INTO grouped (job) VALUES (job.group_key || (job.payload->>'n'));
END
$$;
SELECT jobq.create_queue('hold', max_attempts => 2, backoff => 'fixed', backoff_base => '20 ms', on_retry => 'hold', on_dead => 'block'),
	jobq.create_queue('pass', max_attempts => 2, backoff => 'fixed', backoff_base => '500 ms', on_retry => 'pass', on_dead => 'skip');
SELECT count(*) FROM jobq.enqueue_many('hold', (SELECT jsonb_agg(jsonb_build_object('n', n, 'fails', (n % 4 = 1)::int)) FROM generate_series(1, 12) n), group_keys => array_fill('g'::text, ARRAY[12]));
SELECT count(*) FROM jobq.enqueue_many('pass', '[{"n": 1, "fails": 1}, {"n": 2, "fails": 0}, {"n": 3, "fails": 0}]', group_keys => '{p,p,p}');
SELECT jobq.set_handler(q, 'in_order', concurrency => 3) FROM unnest('{hold,pass}'::text[]) q;
CALL becomes_true($$SELECT NOT EXISTS (SELECT FROM jobq.job)$$);
SELECT string_agg(job, ' ' ORDER BY n) FROM grouped WHERE job LIKE 'g%';
SELECT string_agg(job, ' ' ORDER BY n) FROM grouped WHERE job LIKE 'p%';
-- a dead one blocks its group, or does not
TRUNCATE grouped;
SELECT count(*) FROM jobq.enqueue_many('hold', '[{"n": 1, "fails": 9}, {"n": 2, "fails": 0}]', group_keys => '{g,g}');
SELECT count(*) FROM jobq.enqueue_many('pass', '[{"n": 1, "fails": 9}, {"n": 2, "fails": 0}]', group_keys => '{p,p}');
SELECT jobq.enqueue('hold', '{"n": 1, "fails": 0}', group_key => 'h') > 0;
CALL becomes_true($$SELECT count(*) = 2 FROM jobq.dead_letters WHERE queue IN ('hold', 'pass')$$);
CALL becomes_true($$SELECT count(*) = 1 FROM jobq.job$$);
SELECT queue, group_key, state FROM jobq.groups WHERE pending > 0;
SELECT job FROM grouped ORDER BY job;
SELECT jobq.unblock_group('hold', 'g', 'skip');
CALL becomes_true($$SELECT NOT EXISTS (SELECT FROM jobq.job)$$);
SELECT job FROM grouped ORDER BY job;

-- A queue that is paused runs nothing; its handlers go along when it is renamed, and with it when it is dropped.
SELECT jobq.set_handler('mail', 'by_default');
SELECT jobq.pause_queue('mail');
SELECT jobq.enqueue('mail', name => 'paused') AS job \gset
CALL run('look', '{}');
SELECT state FROM jobq.job(:job);
SELECT jobq.resume_queue('mail');
CALL becomes_true(format('SELECT state = ''completed'' FROM jobq.job(%s)', :job));
SELECT jobq.rename_queue('mail', 'letters');
SELECT queue, name, handler FROM jobq.handlers WHERE queue IN ('mail', 'letters');
CALL run('letters', '{}');
SELECT jobq.drop_queue('letters', force => true);
SELECT count(*) FROM jobq.handlers WHERE queue = 'letters';
SELECT count(*) AS left_over FROM jobq.handler WHERE queue_id NOT IN (SELECT id FROM jobq.queue);
SELECT jobq.create_queue('mail'), jobq.create_queue('letters', max_attempts => 1);
SELECT count(*) FROM jobq.handlers WHERE queue IN ('mail', 'letters');

-- stop() keeps all handlers from running, start() has them run again.
SELECT jobq.set_handler('mail', 'by_default');
SELECT jobq.stop(), jobq.stop('1 s');
SELECT jobq.enqueue('mail') AS job \gset
SELECT state FROM jobq.job(:job);
SELECT jobq.start(), jobq.start();
CALL becomes_true(format('SELECT state = ''completed'' FROM jobq.job(%s)', :job));
SELECT outcome($$SELECT jobq.stop('-1 s')$$);
SELECT outcome($$SELECT jobq.stop('1 year')$$);

-- Arguments: what can be a handler.
CREATE FUNCTION ok(payload jsonb) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION either(payload jsonb) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION either(job jobq.delivery) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION wrong(payload json) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION wrong(payload jsonb, more int DEFAULT 1) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION wrong() RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION variadic_one(VARIADIC payload jsonb[]) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE PROCEDURE proc(payload jsonb) LANGUAGE sql AS 'SELECT';
CREATE AGGREGATE agg(jsonb) (SFUNC = jsonb_concat, STYPE = jsonb);
CREATE FUNCTION many(payload jsonb) RETURNS SETOF int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION tab(payload jsonb) RETURNS TABLE (x int) LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION poly(payload anyelement) RETURNS anyelement LANGUAGE sql AS 'SELECT payload';
CREATE FUNCTION out_args(payload jsonb, OUT a int, OUT b int) LANGUAGE sql AS 'SELECT 1, 2';
CREATE FUNCTION "Odd name"(payload jsonb) RETURNS text LANGUAGE sql AS $$SELECT 'odd'$$;
CREATE SCHEMA "My Schema";
CREATE FUNCTION "My Schema"."f(x)"(payload jsonb) RETURNS text LANGUAGE sql AS $$SELECT 'odder'$$;
SELECT given, outcome(format('SELECT jobq.set_handler(%L, %L)', 'mail', given))
	FROM unnest('{ok,public.ok,ok(jsonb),"public.ok ( pg_catalog.jsonb )",either,either(jobq.delivery),none,none(jsonb),no_schema.ok,wrong,wrong(json),"wrong(jsonb, int)",wrong(),variadic_one,proc,proc(jsonb),agg,many,tab,poly,poly(anyelement),out_args,rank(),"\"Odd name\"","Odd name","\"My Schema\".\"f(x)\"","\"My Schema\".\"f(x)\"(jsonb)","ok(",")","","a.b.c.d","42",jsonb_typeof,pg_catalog.jsonb_typeof}'::text[]) given;
SELECT queue, handler FROM jobq.handlers WHERE queue = 'mail';
SELECT outcome('SELECT jobq.set_handler(NULL, ''ok'')');
SELECT outcome('SELECT jobq.set_handler(''mail'', NULL)');
SELECT outcome('SELECT jobq.set_handler(''none'', ''ok'')');
SELECT outcome('SELECT jobq.set_handler('''', ''ok'')');
SELECT outcome('SELECT jobq.set_handler(''mail'', ''ok'', '''')');
SELECT outcome('SELECT jobq.set_handler(''mail'', ''ok'', repeat(''x'', 257))');
SELECT outcome('SELECT jobq.set_handler(''mail'', repeat(''x'', 2000))');
SELECT c, outcome(format('SELECT jobq.set_handler(''mail'', ''ok'', concurrency => %s)', c)) FROM unnest('{0,-1,1025,1024,"NULL"}'::text[]) WITH ORDINALITY u(c, n) ORDER BY n;
SELECT t, outcome(format('SELECT jobq.set_handler(''mail'', ''ok'', timeout => %s)', t)) FROM unnest(ARRAY['NULL', '''0''', '''-1 s''', '''1 us''', '''31 days''', '''1 mon''', '''1 ms''']) t;
SELECT outcome('SELECT jobq.drop_handler(NULL)');
SELECT outcome('SELECT jobq.drop_handler(''none'')');
SELECT outcome('SELECT jobq.drop_handler(''mail'', '''')');
-- replaced by the same name: there is one row
SELECT jobq.set_handler('mail', 'ok', concurrency => 2, timeout => '1 h'), jobq.set_handler('mail', 'either(jsonb)', NULL, NULL);
SELECT name, handler, concurrency, timeout FROM jobq.handlers WHERE queue = 'mail';
-- not usable: the function is gone, which a job says when it comes
SELECT jobq.set_handler('letters', 'ok');
DROP FUNCTION ok;
SELECT queue, handler, usable FROM jobq.handlers WHERE queue = 'letters';
CALL run('letters', '{}');

-- Rights: PUBLIC has none. A handler runs as who set it, who must be allowed to call it; with the search_path of then.
CREATE ROLE regress_jobq_handler;
SET ROLE regress_jobq_handler;
SELECT outcome('SELECT jobq.set_handler(''letters'', ''either'')');
SELECT outcome('SELECT jobq.drop_handler(''letters'')');
SELECT outcome('SELECT jobq.stop()');
SELECT outcome('SELECT jobq.start()');
SELECT outcome('SELECT * FROM jobq.handlers');
RESET ROLE;
CREATE SCHEMA private;
CREATE FUNCTION private.who(payload jsonb) RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN current_user || ' ' || current_setting('search_path') || ' ' || f(); END$$;
CREATE FUNCTION private.f() RETURNS text LANGUAGE sql AS $$SELECT 'private'$$;
CREATE FUNCTION public.f() RETURNS text LANGUAGE sql AS $$SELECT 'public'$$;
GRANT USAGE ON SCHEMA jobq TO regress_jobq_handler;
GRANT EXECUTE ON FUNCTION jobq.set_handler TO regress_jobq_handler;
SELECT jobq.grant_queue('letters', 'regress_jobq_handler', '{manage}');
SET ROLE regress_jobq_handler;
SELECT outcome('SELECT jobq.set_handler(''letters'', ''private.who'')');
RESET ROLE;
GRANT USAGE ON SCHEMA private TO regress_jobq_handler;
REVOKE EXECUTE ON FUNCTION private.who FROM PUBLIC;
SET ROLE regress_jobq_handler;
SELECT outcome('SELECT jobq.set_handler(''letters'', ''private.who'')');
RESET ROLE;
GRANT EXECUTE ON FUNCTION private.who TO regress_jobq_handler;
SET ROLE regress_jobq_handler;
SET search_path = private, public;
SELECT jobq.set_handler('letters', 'who');
RESET search_path;
RESET ROLE;
CALL run('letters', '{}');
SELECT handler, role, search_path, usable FROM jobq.handlers WHERE queue = 'letters';
-- the right is looked at again when a job runs
REVOKE EXECUTE ON FUNCTION private.who FROM regress_jobq_handler;
CALL run('letters', '{}');
-- and a role that is gone runs nothing
REVOKE ALL ON SCHEMA private FROM regress_jobq_handler;
DROP OWNED BY regress_jobq_handler;
DROP ROLE regress_jobq_handler;
CALL run('letters', '{}');
SELECT handler, usable FROM jobq.handlers WHERE queue = 'letters';

-- Handlers are dumped, by the names of function and role; that the database is stopped is not.
SELECT c.relname, c.oid = ANY (e.extconfig) AS dumped FROM pg_extension e, pg_class c
	WHERE e.extname = 'jobq' AND c.relnamespace = 'jobq'::regnamespace AND c.relname IN ('handler', 'stopped') ORDER BY 1;
SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type FROM pg_attribute a WHERE a.attrelid = 'jobq.handler'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;

SELECT * FROM jobq.verify();
