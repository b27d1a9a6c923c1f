-- Dead letters: what is kept of them, where they go, how they come back.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
-- Takes the next job as often as it can be tried, failing each time.
CREATE PROCEDURE kill(queue text, error text, INOUT result text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	job record;
BEGIN
	LOOP
		SELECT * INTO STRICT job FROM jobq.dequeue($1);
		result := jobq.fail(job.job_id, job.token, $2 || ' ' || job.attempt, retry_in => '0');
		COMMIT;
		EXIT WHEN result <> 'retry';
	END LOOP;
END
$$;

-- After its last attempt a job is dead, with all there is to know of it.
SELECT jobq.create_queue('work', max_attempts => 2);
SELECT jobq.enqueue('work', '{"n": 1}', name => 'add', priority => 5, headers => '{"trace": "x"}') AS job \gset
CALL kill('work', 'broken');
SELECT job_id = :job AS it, queue, name, reason, last_error, attempt, max_attempts, priority, payload, headers, died >= created AS dates
	FROM jobq.dead_letters;
SELECT f.value - 'at' AS failure, (f.value ->> 'at')::timestamptz <= now() AS dated
	FROM jobq.dead_letters, jsonb_array_elements(failures) f;
SELECT count(*) FROM jobq.failure;
-- rejected: no attempt more
SELECT jobq.enqueue('work', '{"n": 2}') > 0 AS job;
SELECT jobq.fail(job_id, token, 'no good', retry => false) FROM jobq.dequeue('work');
SELECT payload, reason, last_error, attempt FROM jobq.dead_letters ORDER BY job_id;
SELECT dead, dead_total, failed_total, retried_total FROM jobq.queues WHERE queue = 'work';

-- redrive: the same job again, attempts counted anew, its past kept.
SELECT created FROM jobq.dead_letters WHERE job_id = :job \gset
SELECT jobq.redrive('work', ARRAY[:job]);
SELECT state, name, priority, attempt, max_attempts, payload, last_error, created = :'created' AS same_age, headers -> 'trace' AS trace,
	(headers -> 'jobq_origin') - '{job_id,died}'::text[] AS origin, (headers -> 'jobq_origin' ->> 'job_id')::bigint = job_id AS origin_job,
	(headers -> 'jobq_origin' ->> 'died')::timestamptz <= now() AS died
	FROM jobq.job(:job);
SELECT f.value - 'at' AS failure FROM jobq.job(:job), jsonb_array_elements(failures) f;
SELECT ready, dead FROM jobq.queues WHERE queue = 'work';
-- its failures go along into history
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('work');
SELECT state, attempt, f.value - 'at' AS failure FROM jobq.job(:job), jsonb_array_elements(failures) f;
SELECT count(*) FROM jobq.failure;
SELECT outcome(format('SELECT jobq.redrive(''work'', ARRAY[%s])', :job));
-- dies again, comes back again: the first origin stays
SELECT jobq.enqueue('work', '{"n": 3}') AS job \gset
CALL kill('work', 'one');
SELECT jobq.redrive('work', ARRAY[:job]);
CALL kill('work', 'two');
SELECT f.value - 'at' AS failure FROM jobq.dead_letters, jsonb_array_elements(failures) f WHERE job_id = :job;
SELECT jobq.redrive('work', ARRAY[:job]);
SELECT last_error, f.value - 'at' AS failure FROM jobq.job(:job), jsonb_array_elements(failures) f;
SELECT headers -> 'jobq_origin' ->> 'reason' AS reason FROM jobq.job(:job);
SELECT jobq.cancel(:job);
SELECT * FROM jobq.verify();

-- Oldest first, at most max_jobs, again and again until nothing is left.
SELECT jobq.create_queue('many', max_attempts => 1, keep_completed => '0'), jobq.create_queue('other');
SELECT count(*) FROM jobq.enqueue_many('many', (SELECT jsonb_agg(n) FROM generate_series(1, 200) n));
SELECT status, count(*) FROM (SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM jobq.dequeue('many', 200)) d,
	jobq.fail_many(d.ids, d.tokens, 'broken') GROUP BY 1;
SELECT jobq.redrive('many', max_jobs => 50);
SELECT min(payload::int), max(payload::int) FROM jobq.jobs WHERE queue = 'many' AND state = 'ready';
SELECT jobq.redrive('many', max_jobs => 50, to_queue => 'other');
SELECT min(payload::int), max(payload::int), count(*), min(headers -> 'jobq_origin' ->> 'queue') AS origin FROM jobq.jobs WHERE queue = 'other';
BEGIN;
SELECT jobq.redrive('many');
ROLLBACK;
SELECT queue, ready, dead FROM jobq.queues WHERE queue IN ('many', 'other') ORDER BY queue;
-- of given ids those that are dead letters of the queue
SELECT array_agg(job_id ORDER BY job_id) AS ids FROM (SELECT job_id FROM jobq.dead_letters WHERE queue = 'many' ORDER BY job_id LIMIT 10) d \gset
SELECT jobq.redrive('other', :'ids');
SELECT jobq.redrive('many', :'ids', max_jobs => 4), jobq.redrive('many', :'ids'), jobq.redrive('many', :'ids');
SELECT jobq.redrive('many', '{}'), jobq.redrive('many', '{NULL,1}');
SELECT jobq.redrive('many'), jobq.redrive('many');
SELECT count(*), count(DISTINCT payload) FROM jobq.dequeue('many', 1000);
SELECT outcome('SELECT jobq.redrive(' || args || ')') FROM unnest(ARRAY[$$'no such'$$, 'NULL', $$'many', max_jobs => 0$$, $$'many', max_jobs => -1$$,
	$$'many', max_jobs => NULL$$, $$'many', max_jobs => 1000001$$, $$'many', to_queue => 'no such'$$]) args;
-- redriven to another queue, a job is tried as often as before
SELECT count(*), max(max_attempts) FROM jobq.dequeue('other', 1000);

-- dead_letter_queue: a new job there, instead of a dead letter here.
SELECT jobq.create_queue('morgue'), jobq.create_queue('ward', max_attempts => 1, dead_letter_queue => 'morgue');
SELECT jobq.enqueue('ward', '{"n": 4}', name => 'operate', headers => '{"trace": "y"}') AS job \gset
CALL kill('ward', 'lost');
SELECT queue, ready, dead, dead_total FROM jobq.queues WHERE queue IN ('ward', 'morgue') ORDER BY queue;
SELECT name, payload, attempt, max_attempts, headers -> 'trace' AS trace, (headers -> 'jobq_origin') - '{job_id,died}'::text[] AS origin,
	(headers -> 'jobq_origin' ->> 'job_id')::bigint = :job AS origin_job, job_id <> :job AS new_id
	FROM jobq.dequeue('morgue');
-- dead there, too, and redriven: it is still known where it came from
SELECT jobq.enqueue('ward', '{"n": 5}') AS job \gset
CALL kill('ward', 'lost');
CALL kill('morgue', 'again');
SELECT jobq.redrive('morgue', to_queue => 'work');
SELECT payload, (headers -> 'jobq_origin') - '{job_id,died}'::text[] AS origin, (headers -> 'jobq_origin' ->> 'job_id')::bigint = :job AS origin_job
	FROM jobq.dequeue('work');
SELECT jobq.drop_queue('ward'), jobq.drop_queue('morgue', force => true);
SELECT * FROM jobq.verify();
