-- Events: what happened to jobs, for clients that poll.
\pset null -

-- Each queue chooses its events; by default there are none.
SELECT jobq.create_queue('quiet');
SELECT jobq.create_queue('q', events => '{all}', max_attempts => 2, backoff => 'fixed', backoff_base => '0 s');
SELECT events, alert_dead, alert_dead_interval FROM jobq.queues ORDER BY queue;

-- What is new since the last look, without what differs from run to run.
CREATE TABLE reader (seen bigint);
INSERT INTO reader VALUES (NULL);
CREATE FUNCTION news(of text DEFAULT NULL)
	RETURNS TABLE (queue text, event text, payload jsonb, name text, attempt int, max_attempts int, delay interval, group_key text, error text)
	LANGUAGE plpgsql AS $$
DECLARE
	upto bigint;
BEGIN
	SELECT max(e."position") INTO upto FROM jobq.events((SELECT seen FROM reader)) e;
	RETURN QUERY SELECT e.queue_name, e.event, j.payload, e.name, e.attempt, e.max_attempts, e.delay, e.group_key, e.error
		FROM jobq.events((SELECT seen FROM reader), of) e LEFT JOIN jobq.jobs j USING (job_id) ORDER BY e."position";
	UPDATE reader SET seen = coalesce(upto, seen);
END
$$;
SELECT * FROM news();

-- The life of a job.
SELECT jobq.enqueue('quiet', '0') > 0 AS job;
SELECT jobq.enqueue('q', '1', name => 'mail') > 0 AS job;
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q');
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('quiet');
SELECT * FROM news();

-- Failures: every failed attempt is told, and then whether the job runs again, and when, or is dead.
SELECT jobq.enqueue('q', '2') > 0 AS job;
SELECT jobq.fail(job_id, token, 'no "answer"') FROM jobq.dequeue('q');
SELECT jobq.fail(job_id, token, repeat('x', 1000)) FROM jobq.dequeue('q');
SELECT queue, event, payload, attempt, delay, left(error, 20) AS error, length(error) FROM news();
SELECT jobq.redrive('q');
SELECT jobq.fail(job_id, token, retry => false) FROM jobq.dequeue('q');
SELECT event, payload, attempt, error FROM news();

-- Given back, delayed, moved, cancelled, deleted.
SELECT jobq.enqueue('q', '3', delay => '1 hour') AS delayed \gset
SELECT jobq.run_now(ARRAY[:delayed]);
SELECT jobq.release(job_id, token) FROM jobq.dequeue('q');
SELECT jobq.release(job_id, token, '1 min') FROM jobq.dequeue('q');
SELECT jobq.reschedule(:delayed, run_at => now() - interval '1 s');
SELECT jobq.cancel(:delayed);
SELECT jobq.delete_jobs(ARRAY[jobq.enqueue('q', '4')]);
SELECT jobq.enqueue('q', '4') AS gone \gset
SELECT jobq.delete_jobs(ARRAY[:gone]);
SELECT jobq.enqueue('q', '5') > 0 AS job;
SELECT jobq.purge_queue('q');
SELECT event, payload, attempt, delay FROM news();

-- What is rolled back was never there; the order is that of the calls.
BEGIN;
SELECT jobq.enqueue('q', '6') > 0 AS job;
ROLLBACK;
BEGIN;
SELECT jobq.enqueue('q', '7') > 0 AS job;
SAVEPOINT s;
SELECT jobq.enqueue('q', '8') > 0 AS job;
ROLLBACK TO s;
SELECT jobq.enqueue('q', '9') > 0 AS job;
SELECT * FROM news();
COMMIT;
SELECT event, payload FROM news();
SELECT jobq.purge_queue('q');
SELECT count(*) FROM news();

-- A queue may choose some.
SELECT jobq.alter_queue('q', events => '{dead, completed}');
SELECT jobq.enqueue('q', '10', max_attempts => 1) > 0, jobq.enqueue('q', '11') > 0 AS jobs;
SELECT jobq.fail(job_id, token, 'x') FROM jobq.dequeue('q');
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q');
SELECT event, payload FROM news();
SELECT jobq.alter_queue('q', reset => '{events}');
SELECT jobq.enqueue('q', '12') > 0 AS job;
SELECT event, payload FROM news();
SELECT jobq.alter_queue('q', events => '{all}');

-- Dead letters that go to another queue.
SELECT jobq.create_queue('grave', events => '{waiting}');
SELECT jobq.alter_queue('q', dead_letter_queue => 'grave');
SELECT jobq.fail(job_id, token, 'x', retry => false) FROM jobq.dequeue('q');
SELECT queue, event, payload, attempt, error FROM news();

-- Groups.
SELECT jobq.create_queue('g', events => '{group_blocked, group_unblocked, waiting}', max_attempts => 1);
SELECT status FROM jobq.enqueue_many('g', '[1, 2, 3]', group_keys => '{k,k,k}');
SELECT jobq.fail(job_id, token, 'x') FROM jobq.dequeue('g');
SELECT event, payload, group_key FROM news();
SELECT jobq.unblock_group('g', 'k', 'skip');
SELECT status FROM (SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM jobq.dequeue('g', 2, group_batch => 2)) d,
	jobq.release_many(ids, tokens);
SELECT event, payload, attempt, group_key FROM news('g');

-- Texts are cut at the end of a character.
SELECT jobq.enqueue('q', '20', name => repeat('é', 100), group_key => repeat('€', 80)) > 0 AS job;
SELECT length(name), name = repeat('é', 60) AS cut, length(group_key), group_key = repeat('€', 42) AS key_cut FROM news('q');

-- A reader: one position goes on where the last one ended. Small pieces give the same.
SELECT bool_and(p > before) AS in_order, count(DISTINCT p) = count(*) AS once
	FROM (SELECT "position" AS p, lag("position", 1, 0::bigint) OVER () AS before FROM jobq.events()) e;
WITH RECURSIVE piece AS (
	SELECT (SELECT array_agg("position") FROM jobq.events(max_events => 3)) AS p
	UNION ALL
	SELECT (SELECT array_agg("position") FROM jobq.events(p[cardinality(p)], max_events => 3)) FROM piece WHERE p IS NOT NULL)
SELECT array_agg(x) = (SELECT array_agg("position") FROM jobq.events()) AS same FROM piece, unnest(p) x;
SELECT count(*) > 0 AS some, count(*) FILTER (WHERE queue_name <> 'g') AS others FROM jobq.events(queue => 'g');
SELECT count(*) FROM jobq.events((SELECT max("position") FROM jobq.events()));
SELECT at BETWEEN now() - interval '10 min' AND clock_timestamp() AS recent, count(*) > 0 AS any FROM jobq.events() GROUP BY 1;

-- A position from before the last start, or from another server: what is kept follows.
SELECT event, count, queue_name FROM jobq.events(1, max_events => 1);
SELECT event, count FROM jobq.events((SELECT max("position") + 1 FROM jobq.events()), max_events => 1) LIMIT 1;
SELECT event, count FROM jobq.events(0, 'grave');

-- A transaction with very many events keeps the first ones, and tells how many it did not.
SELECT count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(n) FROM generate_series(1, 3000) n));
SELECT event, count(*), max(count) AS not_kept FROM jobq.events((SELECT seen FROM reader), max_events => 100000) GROUP BY event ORDER BY 1;

-- What a queue that is dropped has told is gone with it.
SELECT jobq.drop_queue('q', force => true);
SELECT count(*) FILTER (WHERE queue_name = 'q') AS of_q, count(*) > 0 AS others FROM jobq.events();

-- Bad arguments.
\set VERBOSITY sqlstate
SELECT * FROM jobq.events(-1);
SELECT * FROM jobq.events(queue => 'nope');
SELECT * FROM jobq.events(max_events => 0);
SELECT * FROM jobq.events(max_events => 100001);
SELECT jobq.create_queue('x', events => '{started}');
SELECT jobq.create_queue('x', events => '{dead, NULL}');
SELECT jobq.create_queue('x', alert_dead => 0);
SELECT jobq.create_queue('x', alert_dead_interval => '1 min');
SELECT jobq.create_queue('x', alert_dead => 1, alert_dead_interval => '0 s');
SELECT jobq.create_queue('x', alert_dead => 1, dead_letter_queue => 'g');
\set VERBOSITY default
SELECT jobq.create_queue('x', events => '{started}');

SELECT * FROM jobq.verify();
