-- Time to live: expires_in. A job that still waits when it is over is expired; one that runs goes on.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
\pset null -
SET client_min_messages = warning;
-- Waits until the scheduler has expired so many jobs of a queue.
CREATE PROCEDURE wait_for_expired(queue_name text, n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 500 LOOP
		COMMIT;
		EXIT WHEN (SELECT q.expired_total >= n FROM jobq.queues q WHERE q.queue = queue_name);
		PERFORM pg_sleep(0.02);
	END LOOP;
END
$$;
CREATE VIEW job AS SELECT j.name, j.state, j.payload, j.attempt, j.group_key FROM jobq.jobs j ORDER BY j.job_id;
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '1 h');

-- Wherever it waits: ready, delayed, between two attempts.
SELECT jobq.enqueue('work', '1', name => 'ready', expires_in => '1 s') > 0;
SELECT jobq.enqueue('work', '2', name => 'delayed', delay => '1 h', expires_in => '1 s') > 0;
SELECT jobq.enqueue('work', '3', name => 'retry', priority => 1, expires_in => '1 s') > 0;
SELECT jobq.enqueue('work', '4', name => 'running', priority => 1, expires_in => '1 s') > 0;
SELECT jobq.enqueue('work', '5', name => 'later', expires_in => '1 h') > 0;
SELECT jobq.enqueue('work', '6', name => 'never') > 0;
SELECT jobq.fail(job_id, token, 'not yet') FROM jobq.dequeue('work');
SELECT job_id AS running, token AS t FROM jobq.dequeue('work') \gset
SELECT * FROM job;
CALL wait_for_expired('work', 3);
SELECT * FROM job;
SELECT ready, delayed, active, cancelled_total, expired_total FROM jobq.queues WHERE queue = 'work';
SELECT failures -> 0 ->> 'error' AS error, f.finished >= f.created + interval '1 s' AS in_time FROM jobq.jobs j, jobq.job(j.job_id) f WHERE j.name = 'retry';
-- A running attempt may complete; one that fails too late is not tried again.
SELECT jobq.extend(:running, :t);
SELECT jobq.release(:running, :t);
CALL wait_for_expired('work', 4);
SELECT name, state, attempt FROM jobq.job(:running);
SELECT jobq.enqueue('work', '7', name => 'completes', priority => 1, expires_in => '0.5 s') > 0;
SELECT job_id AS running, token AS t FROM jobq.dequeue('work') \gset
SELECT pg_sleep(0.6);
SELECT jobq.complete(:running, :t);
SELECT name, state FROM jobq.job(:running);

-- In a group: it goes on with the next; also where the group is paused, or waits for its first job's backoff.
SELECT jobq.purge_queue('work', '{ready,delayed,completed}') > 0;
SELECT jobq.enqueue('work', '1', group_key => 'g', expires_in => '1 s') > 0, jobq.enqueue('work', '2', group_key => 'g') > 0;
SELECT jobq.enqueue('work', '1', group_key => 'paused', expires_in => '1 s') > 0, jobq.pause_group('work', 'paused');
SELECT jobq.enqueue('work', '1', group_key => 'backoff', priority => 1, expires_in => '1 s') > 0, jobq.enqueue('work', '2', group_key => 'backoff') > 0;
SELECT jobq.fail(job_id, token) FROM jobq.dequeue('work');
SELECT group_key, state, pending FROM jobq.groups ORDER BY group_key;
CALL wait_for_expired('work', 7);
SELECT * FROM job;
SELECT group_key, state, pending FROM jobq.groups ORDER BY group_key;
SELECT group_key, payload FROM jobq.dequeue('work', 10) ORDER BY group_key;
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work');

-- A dequeue never gives out what has expired, whether the scheduler has seen it or not, and looks on for what has not.
BEGIN;
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n), priority => 1, expires_in => '1 ms');
SELECT count(*) FROM jobq.enqueue_many('work', '[1, 2]', priority => 1, group_keys => '{g, g}', expires_in => '1 ms');
SELECT jobq.enqueue('work', '"alive"') > 0, jobq.enqueue('work', '"in the group"', group_key => 'g', priority => 1) > 0;
SELECT pg_sleep(0.01);
COMMIT;
CREATE TEMP TABLE taken AS SELECT payload FROM jobq.dequeue('work', 10);
CALL wait_for_expired('work', 102);
-- where the scheduler had the group's first job in hand, the group rests for a moment
INSERT INTO taken SELECT payload FROM jobq.dequeue('work', 10, wait => CASE WHEN (SELECT count(*) FROM taken) < 2 THEN interval '10 s' ELSE '0' END);
SELECT payload FROM taken ORDER BY payload;
SELECT state, count(*) FROM jobq.jobs GROUP BY state ORDER BY state;

-- The unique key of an expired job is free.
SELECT jobq.enqueue('work', '1', unique_key => 'u', expires_in => '10 ms') AS u \gset
CALL wait_for_expired('work', 103);
SELECT jobq.enqueue('work', '2', unique_key => 'u') > :u AS free;
-- A replaced job lives as long as the new one would.
SELECT jobq.enqueue('work', '1', unique_key => 'r', delay => '1 h', expires_in => '0.5 s') AS r \gset
SELECT jobq.enqueue('work', '2', unique_key => 'r', on_conflict => 'replace') = :r AS replaced, pg_sleep(0.6);
SELECT state, payload FROM jobq.job(:r);
-- A dead letter that is redriven has no time to live any more.
SELECT jobq.enqueue('work', '1', priority => 1, max_attempts => 1, expires_in => '0.5 s') AS d \gset
SELECT jobq.nack(job_id, token), pg_sleep(0.6) FROM jobq.dequeue('work');
SELECT jobq.redrive('work'), pg_sleep(0.1);
SELECT state FROM jobq.job(:d);

-- For all jobs of a call
SELECT count(*) FROM jobq.enqueue_many('work', '[1, 2, 3]', name => 'many', expires_in => '10 ms', delay => '1 h');
CALL wait_for_expired('work', 106);
SELECT state, count(*) FROM jobq.jobs WHERE name = 'many' GROUP BY state;

SELECT outcome('SELECT jobq.enqueue(''work'', expires_in => ' || arg || ') > 0')
	FROM unnest(ARRAY[$$'0'$$, $$'-1 s'$$, $$'0.9 ms'$$, $$'102 years'$$, $$'1 month'$$, 'NULL']) arg;
SELECT outcome($$SELECT jobq.enqueue_many('work', '[1]', expires_in => '-1 s')$$);
SELECT * FROM jobq.verify();
