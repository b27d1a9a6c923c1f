-- Queues: create_queue, alter_queue, rename_queue, pause_queue, resume_queue, purge_queue, drop_queue.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
CREATE VIEW settings AS
	SELECT q.name, q.owner, q.paused, q.max_attempts, q.lease, q.timeout, q.backoff, q.backoff_base, q.backoff_cap, q.backoff_function,
		q.keep_completed, q.keep_dead, d.name AS dead_letter_queue, q.max_payload_bytes, q.notify
	FROM jobq.queue q LEFT JOIN jobq.queue d ON d.id = q.dead_letter_queue;

-- A queue is made once; the second time nothing changes.
SELECT jobq.create_queue('mail');
SELECT jobq.create_queue('mail', max_attempts => 9);
\x on
SELECT * FROM settings WHERE name = 'mail';
\x off

-- Its defaults are those of the table.
INSERT INTO jobq.queue (name, owner) VALUES ('by hand', 'nobody');
SELECT count(DISTINCT to_jsonb(q) - '{id,name,owner,created}'::text[]) AS kinds FROM jobq.queue q;
SELECT jobq.drop_queue('by hand');

-- The first queue made this database the origin of its jobs.
SELECT count(*), bool_and(o.id = i.id) FROM jobq.origin o, jobq.identity i;

-- Names: 1 to 128 bytes without control characters; case matters.
SELECT label, outcome(format('SELECT jobq.create_queue(%L)', name))
	FROM (VALUES ('null', NULL), ('empty', ''), ('128 bytes', repeat('x', 128)), ('129 bytes', repeat('x', 129)),
		('129 bytes in 65 characters', repeat('ä', 64) || 'x'), ('a megabyte', repeat('x', 1000000)), ('newline', E'a\nb'), ('delete', E'a\x7f'),
		('quotes', $$a'b"c$$), ('punctuation', 'a:b,c\d%e{}'), ('space', ' '), ('umlaut', 'Aufträge'), ('case', 'Mail')) AS n (label, name);
SELECT name FROM jobq.queue WHERE length(name) < 100 ORDER BY name;
SELECT jobq.enqueue($$a'b"c$$) > 0 AS job;
SELECT outcome($$SELECT jobq.pause_queue('MAIL')$$);
SELECT outcome($$SELECT jobq.pause_queue(repeat('x', 1000))$$);
SELECT outcome('SELECT jobq.pause_queue(NULL)');

-- Every setting is checked.
SELECT args, outcome('SELECT jobq.create_queue(''bad'', ' || args || ')')
	FROM unnest(ARRAY[
		'max_attempts => 0', 'max_attempts => 1000001', 'max_attempts => NULL',
		$$lease => '0'$$, $$lease => '0.9 ms'$$, $$lease => '31 days'$$, $$lease => '-1 s'$$, 'lease => NULL',
		$$timeout => '0'$$, $$timeout => '-1 s'$$, $$timeout => '200 years'$$,
		$$backoff => 'random'$$, $$backoff => ''$$, 'backoff => NULL', $$backoff => 'function'$$, $$backoff_function => 'pg_sleep'$$,
		$$backoff_base => '-1 s'$$, 'backoff_base => NULL', $$backoff_cap => '-1 s'$$,
		$$keep_completed => '-1 s'$$, $$keep_dead => '-1 s'$$, $$keep_dead => '200 years'$$,
		'max_payload_bytes => 0', 'max_payload_bytes => 268435456', 'notify => NULL',
		$$on_retry => 'wait'$$, 'on_retry => NULL', $$on_dead => ''$$, 'group_rate_limit => 0', $$group_rate_interval => '0'$$,
		'group_rate_interval => NULL', $$group_lease => '-1 s'$$, 'isolate_above => 0',
		$$dead_letter_queue => 'no such'$$, $$dead_letter_queue => 'bad'$$, $$dead_letter_queue => ''$$]) AS args;

SELECT args, outcome('SELECT jobq.create_queue(''bad'', ' || args || ')')
	FROM unnest(ARRAY['concurrency => 0', 'rate_limit => 0', 'rate_limit => 1000001', $$rate_limit => 5, rate_interval => '0'$$, 'rate_interval => NULL',
		'rate_burst => 5', 'rate_limit => 5, rate_burst => 0', $$limit_name => 'api'$$, $$concurrency => 1, limit_name => ''$$, 'ageing => NULL']) AS args;
SELECT jobq.create_queue('plain', rate_interval => '1000 ms', on_retry => 'hold', on_dead => 'block', concurrency => NULL);
SELECT count(*) FROM jobq.queue WHERE name = 'bad';

-- The limits themselves.
SELECT jobq.create_queue('widest', max_attempts => 1000000, lease => '30 days', timeout => '1 ms', backoff => 'fixed', backoff_base => '0',
	backoff_cap => '0', keep_completed => NULL, keep_dead => NULL, max_payload_bytes => 268435455, notify => true);
SELECT jobq.create_queue('narrowest', max_attempts => 1, lease => '1 ms', backoff => 'linear', backoff_base => '100 years', keep_completed => '0',
	keep_dead => '0', max_payload_bytes => 1);

-- A backoff function is given by name or signature and kept with its schema.
CREATE SCHEMA app;
CREATE FUNCTION app.delay(attempt int, error text) RETURNS interval LANGUAGE sql AS $$SELECT attempt * interval '1 min'$$;
CREATE FUNCTION app.delay(attempt int) RETURNS interval LANGUAGE sql AS $$SELECT interval '1 s'$$;
CREATE FUNCTION app.wrong(attempt int, error text) RETURNS text LANGUAGE sql AS $$SELECT 'soon'$$;
CREATE FUNCTION app.many(attempt int, error text) RETURNS SETOF interval LANGUAGE sql AS $$SELECT interval '1 s'$$;
CREATE FUNCTION app."Odd name"(int, text) RETURNS interval LANGUAGE sql AS $$SELECT interval '1 s'$$;
SELECT given, outcome(format('SELECT jobq.create_queue(%L, backoff => ''function'', backoff_function => %L)', 'f ' || ord, given))
	FROM unnest(ARRAY['app.delay', 'app.delay(int, text)', 'app."Odd name"', 'app.delay(int)', 'app.wrong', 'app.many', 'delay', 'app.missing',
		'app.missing(int, text)', '', 'a.b.c.d', 'app.delay(']) WITH ORDINALITY AS f (given, ord);
SET search_path = app, public;
SELECT jobq.create_queue('f path', backoff => 'function', backoff_function => 'delay');
RESET search_path;
SELECT name, backoff_function FROM jobq.queue WHERE backoff = 'function' ORDER BY name;

-- alter_queue: null leaves a setting, reset puts it back.
SELECT jobq.alter_queue('mail', max_attempts => 5, timeout => '10 s', notify => true, keep_dead => '1 day', backoff_cap => '1 h',
	dead_letter_queue => 'plain');
SELECT max_attempts, timeout, notify, keep_dead, backoff_cap, dead_letter_queue, lease FROM settings WHERE name = 'mail';
SELECT jobq.alter_queue('mail', lease => '1 min', reset => '{timeout,notify,dead_letter_queue}');
SELECT max_attempts, timeout, notify, keep_dead, backoff_cap, dead_letter_queue, lease FROM settings WHERE name = 'mail';
SELECT jobq.alter_queue('mail', backoff => 'function', backoff_function => 'app.delay');
SELECT args, outcome('SELECT jobq.alter_queue(' || args || ')')
	FROM unnest(ARRAY[$$'mail', backoff => 'fixed'$$, $$'mail', reset => '{backoff_function}'$$, $$'mail', reset => '{backoff}'$$,
		$$'mail', max_attempts => 0$$, $$'mail', lease => '0'$$, $$'mail', backoff => 'never'$$, $$'mail', concurrency => 0$$,
		$$'mail', lease => '1 s', reset => '{lease}'$$, $$'mail', dead_letter_queue => 'plain', reset => '{dead_letter_queue}'$$,
		$$'mail', reset => '{paused}'$$, $$'mail', reset => '{lease,NULL}'$$, $$'no such'$$, 'NULL']) AS args;
SELECT backoff, backoff_function FROM settings WHERE name = 'mail';
SELECT jobq.alter_queue('mail', reset => '{backoff,backoff_function}');
-- all of them at once: as if it were new
SELECT jobq.alter_queue('mail', reset => ARRAY(SELECT attname FROM pg_attribute WHERE attrelid = 'jobq.queue'::regclass AND attnum > 4
	AND attname <> 'created'));
SELECT count(DISTINCT to_jsonb(q) - '{id,name,owner,created}'::text[]) AS kinds FROM jobq.queue q WHERE name IN ('mail', 'Mail');
SELECT jobq.alter_queue('mail', reset => NULL);

-- Dead letters cannot go round in a circle.
SELECT jobq.create_queue('d1'), jobq.create_queue('d2', dead_letter_queue => 'd1'), jobq.create_queue('d3', dead_letter_queue => 'd2');
SELECT outcome($$SELECT jobq.alter_queue('d1', dead_letter_queue => 'd1')$$);
SELECT outcome($$SELECT jobq.alter_queue('d1', dead_letter_queue => 'd2')$$);
SELECT outcome($$SELECT jobq.alter_queue('d1', dead_letter_queue => 'd3')$$);
SELECT outcome($$SELECT jobq.alter_queue('d3', dead_letter_queue => 'd1')$$);
SELECT outcome($$SELECT jobq.alter_queue('d1', dead_letter_queue => 'no such')$$);

-- A queue that others send their dead letters to is not dropped, with force or without.
SELECT outcome($$SELECT jobq.drop_queue('d1', force => true)$$);
SELECT jobq.alter_queue('d3', reset => '{dead_letter_queue}');
SELECT jobq.alter_queue('d2', reset => '{dead_letter_queue}');
SELECT jobq.drop_queue('d1'), jobq.drop_queue('d2'), jobq.drop_queue('d3');

-- rename_queue: the jobs go along.
SELECT jobq.enqueue('mail', '{"n": 1}') AS job \gset
SELECT jobq.rename_queue('mail', 'post');
SELECT queue FROM jobq.jobs WHERE job_id = :job;
SELECT outcome($$SELECT jobq.enqueue('mail')$$);
SELECT jobq.enqueue('post') > 0 AS job;
SELECT args, outcome('SELECT jobq.rename_queue(' || args || ')')
	FROM unnest(ARRAY[$$'mail', 'other'$$, $$'post', 'plain'$$, $$'post', 'post'$$, $$'post', ''$$, $$'post', NULL$$, $$NULL, 'x'$$,
		$$'post', repeat('x', 129)$$]) AS args;

-- pause_queue, resume_queue: as often as one likes.
SELECT jobq.pause_queue('post'), jobq.pause_queue('post');
SELECT count(*) FROM jobq.dequeue('post');
SELECT queue, paused, ready FROM jobq.queues WHERE queue = 'post';
SELECT jobq.resume_queue('post'), jobq.resume_queue('post');
SELECT count(*) FROM jobq.dequeue('post');
-- altering does not resume
SELECT jobq.pause_queue('post');
SELECT jobq.alter_queue('post', max_attempts => 4);
SELECT paused FROM jobq.queue WHERE name = 'post';

-- purge_queue: what waits, unless other states are named; never what runs.
SELECT jobq.create_queue('bin');
SELECT count(*) FROM jobq.enqueue_many('bin', (SELECT jsonb_agg(n) FROM generate_series(1, 200) n));
SELECT count(*) FROM jobq.enqueue_many('bin', '[1, 2, 3]', delay => '1 h');
SELECT count(*) FROM jobq.enqueue_many('bin', '[1, 2, 3]', priority => 5);
SELECT jobq.fail(job_id, token, 'broken', retry => false) FROM jobq.dequeue('bin');
SELECT jobq.fail(job_id, token, 'once', retry_in => '0') FROM jobq.dequeue('bin');
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('bin', 2);
SELECT job_id AS job, token FROM jobq.dequeue('bin') \gset
SELECT ready, delayed, active, dead, completed_total FROM jobq.queues WHERE queue = 'bin';
SELECT outcome($$SELECT jobq.purge_queue('bin', '{active}')$$);
SELECT outcome($$SELECT jobq.purge_queue('bin', '{everything}')$$);
SELECT outcome($$SELECT jobq.purge_queue('bin', '{ready,NULL}')$$);
SELECT outcome($$SELECT jobq.purge_queue('no such')$$);
SELECT outcome($$SELECT jobq.purge_queue(NULL)$$);
SELECT jobq.purge_queue('bin', NULL), jobq.purge_queue('bin', '{}');
-- rolled back, everything is there again
BEGIN;
SELECT jobq.purge_queue('bin');
ROLLBACK;
SELECT ready, delayed FROM jobq.queues WHERE queue = 'bin';
BEGIN;
SELECT jobq.purge_queue('bin', '{delayed}');
SELECT count(*) FROM jobq.jobs WHERE queue = 'bin' AND state = 'delayed';
COMMIT;
SELECT jobq.purge_queue('bin');
SELECT jobq.purge_queue('bin');
SELECT state, count(*) FROM jobq.jobs WHERE queue = 'bin' GROUP BY state ORDER BY state;
SELECT jobq.purge_queue('bin', '{dead}'), jobq.purge_queue('bin', '{completed}');
SELECT jobq.complete(:job, :token);
SELECT ready, delayed, active, dead FROM jobq.queues WHERE queue = 'bin';
SELECT count(*) FROM jobq.failure;
SELECT * FROM jobq.verify();

-- drop_queue: refused while there are jobs, whatever their state.
SELECT jobq.enqueue('bin') AS job \gset
SELECT outcome($$SELECT jobq.drop_queue('bin')$$);
SELECT job_id AS job, token FROM jobq.dequeue('bin') \gset
SELECT outcome($$SELECT jobq.drop_queue('bin')$$);
SELECT jobq.fail(:job, :token, retry_in => '1 h');
SELECT outcome($$SELECT jobq.drop_queue('bin')$$);
SELECT jobq.run_now(ARRAY[:job]);
SELECT jobq.fail(job_id, token, retry => false) FROM jobq.dequeue('bin');
SELECT jobq.enqueue('bin', delay => '1 h') > 0 AS job;
SELECT outcome($$SELECT jobq.drop_queue('bin')$$);
SELECT outcome($$SELECT jobq.drop_queue('no such')$$);
SELECT outcome('SELECT jobq.drop_queue(NULL)');
SELECT outcome($$SELECT jobq.drop_queue('bin', NULL)$$);
-- history alone does not keep it
SELECT jobq.purge_queue('bin'), jobq.purge_queue('bin', '{dead}');
SELECT jobq.enqueue('bin') > 0 AS job;
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('bin');
SELECT count(*) FROM jobq.jobs WHERE queue = 'bin';
SELECT jobq.drop_queue('bin');
SELECT count(*) FROM jobq.jobs WHERE queue IS NULL OR queue = 'bin';

-- With force all goes, and who works on a job hears it.
SELECT jobq.create_queue('bin');
SELECT count(*) FROM jobq.enqueue_many('bin', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n));
SELECT count(*) FROM jobq.enqueue_many('bin', '[1, 2]', delay => '1 h');
SELECT jobq.fail(job_id, token, 'broken', retry => false) FROM jobq.dequeue('bin');
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('bin');
SELECT job_id AS job, token FROM jobq.dequeue('bin', 3) ORDER BY job_id LIMIT 1 \gset
BEGIN;
SELECT jobq.drop_queue('bin', force => true);
SELECT outcome($$SELECT jobq.enqueue('bin')$$);
ROLLBACK;
SELECT ready, delayed, active, dead FROM jobq.queues WHERE queue = 'bin';
SELECT jobq.drop_queue('bin', force => true);
SELECT outcome(format('SELECT jobq.complete(%s, %s)', :job, :token));
SELECT outcome($$SELECT jobq.enqueue('bin')$$);
SELECT count(*) FROM jobq.jobs WHERE queue IS NULL OR queue = 'bin';
SELECT count(*) FROM jobq.failure;
-- a new one of that name has nothing of the old
SELECT jobq.create_queue('bin');
SELECT ready, delayed, active, dead, enqueued_total FROM jobq.queues WHERE queue = 'bin';

-- The verbs work at every isolation level, and not in a read-only transaction.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT jobq.create_queue('strict'), jobq.create_queue('strict');
SELECT jobq.alter_queue('strict', max_attempts => 2), jobq.rename_queue('strict', 'stricter'), jobq.pause_queue('stricter');
SELECT jobq.enqueue('stricter', delay => '1 h') > 0 AS job;
SELECT jobq.purge_queue('stricter');
SELECT jobq.drop_queue('stricter');
COMMIT;
BEGIN READ ONLY;
SELECT outcome($$SELECT jobq.create_queue('x')$$);
SELECT outcome($$SELECT jobq.purge_queue('bin')$$);
ROLLBACK;

-- Undone with its transaction or savepoint.
BEGIN;
SELECT jobq.create_queue('gone');
SAVEPOINT s;
SELECT jobq.enqueue('gone') > 0 AS job;
SELECT jobq.create_queue('gone too');
ROLLBACK TO s;
SELECT outcome($$SELECT jobq.enqueue('gone too')$$);
ROLLBACK;
SELECT outcome($$SELECT jobq.enqueue('gone')$$);

BEGIN;
SAVEPOINT s;
SELECT jobq.drop_queue('bin', force => true);
ROLLBACK TO s;
SELECT jobq.enqueue('bin') > 0 AS job;
COMMIT;
SELECT count(*) FROM jobq.dequeue('bin');
-- enqueued and dropped in one transaction
BEGIN;
SELECT jobq.enqueue('bin') > 0 AS job;
SELECT jobq.drop_queue('bin', force => true), jobq.create_queue('bin');
SELECT jobq.enqueue('bin', '"kept"') > 0 AS job;
COMMIT;
SELECT payload FROM jobq.dequeue('bin');

-- a drop is not left undecided
BEGIN;
SELECT jobq.create_queue('half'), jobq.drop_queue('half');
PREPARE TRANSACTION 'regress_jobq_half';

-- A role that may make queues owns what it makes, and does what it likes with it; but its dead letters go where it may enqueue.
CREATE ROLE regress_jobq_maker;
GRANT USAGE ON SCHEMA jobq TO regress_jobq_maker;
GRANT EXECUTE ON FUNCTION jobq.create_queue TO regress_jobq_maker;
SET ROLE regress_jobq_maker;
SELECT jobq.create_queue('made');
SELECT jobq.alter_queue('made', max_attempts => 7), jobq.enqueue('made') > 0 AS enqueued, jobq.purge_queue('made');
SELECT outcome($$SELECT jobq.alter_queue('made', dead_letter_queue => 'bin')$$), outcome($$SELECT jobq.create_queue('made2', dead_letter_queue => 'bin')$$);
SELECT outcome('SELECT count(*) FROM jobq.queue');
SELECT outcome('SELECT jobq.adopt()');
RESET ROLE;
SELECT name, owner, max_attempts, dead_letter_queue FROM settings WHERE name = 'made';
SET ROLE regress_jobq_maker;
SELECT jobq.drop_queue('made');
RESET ROLE;
DROP OWNED BY regress_jobq_maker;
DROP ROLE regress_jobq_maker;

-- A hostile operator on the caller's path is not used.
CREATE SCHEMA evil;
CREATE FUNCTION evil.equal(text, text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'stolen'; END$$;
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.equal);
SET search_path = evil, pg_catalog;
SELECT jobq.create_queue('safe'), jobq.alter_queue('safe', max_attempts => 2), jobq.pause_queue('safe'), jobq.purge_queue('safe');
SHOW search_path;
SELECT jobq.drop_queue('safe');
RESET search_path;
SELECT * FROM jobq.verify();
