-- explain_job() has an answer for every reason that a job does not run, and job() agrees with the view jobs.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION jobq;
\pset null '(null)'

-- Times, tokens and ids as words.
CREATE FUNCTION why(job_id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(regexp_replace(regexp_replace(jobq.explain_job(job_id), '\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00', 'TIME', 'g'),
		'token \d+', 'token N'), '(job |batch\()\d+', '\1N', 'g')
$$;
SET timezone = 'UTC';
SET datestyle = ISO;
SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '1 h');
CALL becomes_true('SELECT bool_and(exact) FROM jobq.queues');

-- unknown; no row where there is none
SELECT why(1), why(NULL);
SELECT count(*) FROM jobq.job(1);

-- ready, paused
SELECT jobq.enqueue('q') AS job \gset
SELECT why(:job);
SELECT jobq.pause_queue('q');
SELECT why(:job);
SELECT jobq.resume_queue('q');

-- active; late; asked to end
SELECT token FROM jobq.dequeue('q', worker => 'w1') \gset
SELECT why(:job);
SELECT jobq.cancel(:job);
SELECT why(:job);
SELECT jobq.fail(:job, :token, 'nobody hears');
SELECT why(:job);

-- delayed, in backoff, completed
SELECT jobq.enqueue('q', delay => '1 h') AS later \gset
SELECT why(:later);
SELECT jobq.enqueue('q', max_attempts => 2) AS job \gset
SELECT token FROM jobq.dequeue('q') \gset
SELECT jobq.fail(:job, :token, repeat('é', 300));
SELECT length(why(:job)) - length(repeat('é', 200)) AS rest, left(why(:job), 62);
SELECT jobq.run_now(ARRAY[:job]);
SELECT token FROM jobq.dequeue('q') \gset
SELECT jobq.complete(:job, :token, '1');
SELECT why(:job);

-- dead
SELECT jobq.enqueue('q', max_attempts => 1) AS job \gset
SELECT token FROM jobq.dequeue('q') \gset
SELECT jobq.fail(:job, :token, 'no route');
SELECT why(:job);

-- claims that were rolled back
SELECT jobq.enqueue('q') AS job \gset
BEGIN;
SELECT count(*) FROM jobq.dequeue('q');
ROLLBACK;
SELECT why(:job);
SELECT job_id = :job AS taken, token FROM jobq.dequeue('q') \gset
SELECT jobq.complete(:job, :token);

-- limits
SELECT jobq.alter_queue('q', concurrency => 1);
SELECT jobq.enqueue('q') AS first, jobq.enqueue('q') AS second \gset
SELECT token FROM jobq.dequeue('q') \gset
SELECT why(:second);
SELECT jobq.complete(:first, :token);
SELECT jobq.alter_queue('q', rate_limit => 1, rate_interval => '1 h', rate_burst => 1, reset => '{concurrency}');
SELECT token FROM jobq.dequeue('q') \gset
SELECT jobq.complete(:second, :token);
SELECT jobq.enqueue('q') AS third \gset
SELECT why(:third);
SELECT jobq.alter_queue('q', reset => '{rate_limit,rate_interval,rate_burst}');
SELECT jobq.delete_jobs(ARRAY[:third, :later]);

-- groups: behind a job, blocked, paused, rate, joining
SELECT jobq.enqueue('q', group_key => 'a') AS a1, jobq.enqueue('q', group_key => 'a', max_attempts => 1) AS a2, jobq.enqueue('q', group_key => 'b') AS b1 \gset
BEGIN;
SELECT jobq.enqueue('q', group_key => 'c') AS c1 \gset
SELECT why(:c1);
ROLLBACK;
SELECT why(:a1), why(:b1);
SELECT why(:a2);
SELECT token FROM jobq.dequeue('q', worker => 'w2') \gset
SELECT why(:a2);
SELECT jobq.drain_worker('w2');
SELECT why(:a1);
SELECT why(:a2);
SELECT jobq.complete(:a1, :token);
SELECT jobq.pause_group('q', 'b');
SELECT why(:b1);
SELECT token FROM jobq.dequeue('q') \gset
SELECT jobq.enqueue('q', group_key => 'a') AS a3 \gset
SELECT jobq.fail(:a2, :token, 'broken');
SELECT why(:a2);
SELECT why(:a3);
SELECT jobq.unblock_group('q', 'a', head => 'skip');
SELECT token FROM jobq.dequeue('q') \gset
SELECT jobq.fail(:a3, :token, 'again');
SELECT why(:a3);
SELECT jobq.resume_group('q', 'b');
SELECT jobq.alter_group('q', 'b', rate_limit => 1, rate_interval => '1 h');
SELECT jobq.enqueue('q', group_key => 'b') AS b2 \gset
SELECT token FROM jobq.dequeue('q') \gset
SELECT jobq.complete(:b1, :token);
SELECT why(:b2);
SELECT jobq.enqueue('q', group_key => 'b', delay => '1 h') AS b3 \gset
SELECT why(:b3);

-- waiting for others: where they stand, what to do about those that will not complete, what else matters meanwhile
SELECT jobq.create_queue('p'), jobq.create_queue('none', keep_completed => '0');
SELECT jobq.enqueue('p') AS a, jobq.enqueue('p', delay => '1 h') AS b, jobq.enqueue('q', delay => '1 h') AS c, jobq.enqueue('none') AS d \gset
SELECT jobq.enqueue('q', after => ARRAY[:a]) AS one, jobq.enqueue('q', after => ARRAY[:a, :b, :c, :d], unique_key => 'u', expires_in => '1 h') AS four \gset
SELECT why(:one);
SELECT why(:four);
SELECT jobq.enqueue('q', after => ARRAY[:c, :one], after_dead => 'cancel', delay => '2 h') AS late,
	jobq.enqueue('q', after => ARRAY[:c], after_dead => 'run', group_key => 'g') AS grouped \gset
SELECT why(:late);
SELECT why(:grouped);
SELECT token FROM jobq.dequeue('p') \gset
SELECT jobq.fail(:a, :token, 'no', retry => false);
SELECT why(:one);
SELECT jobq.cancel(:b), jobq.cancel(:d);
SELECT why(:four);
SELECT jobq.redrive('p');
SELECT why(:one);
SELECT jobq.open_batch('q') AS batch \gset
SELECT why(:batch);
SELECT jobq.enqueue('p', batch => :batch) AS member \gset
SELECT why(:batch);
SELECT jobq.close_batch(:batch);
SELECT why(:batch);
SELECT jobq.pause_queue('q');
SELECT why(:batch);
SELECT jobq.resume_queue('q');
-- job() and the view agree on all of them; none has a time that never comes
SELECT state, count(*), count(run_at) AS later, count(expires) AS expires, bool_and(run_at < 'infinity') AS finite FROM jobq.jobs WHERE state = 'pending' GROUP BY state;
SELECT j.job_id FROM jobq.jobs j LEFT JOIN LATERAL jobq.job(j.job_id) f ON true
	WHERE to_jsonb(j) IS DISTINCT FROM to_jsonb(f) - 'failures' - 'deadline';
-- a ring, as two transactions can close it between them
BEGIN;
SELECT jobq.enqueue('q', after => ARRAY[:one]) AS ring1 \gset
SELECT jobq.enqueue('q', after => ARRAY[:ring1]) AS ring2 \gset
INSERT INTO jobq.dependency VALUES (:one, :ring2);
SELECT why(:ring1);
SELECT why(:ring2);
ROLLBACK;
-- very many: counted up to a bound; those that will not complete are named first
SELECT array_agg(job_id) AS many FROM jobq.enqueue_many('p', (SELECT jsonb_agg(n) FROM generate_series(1, 1100) n)) \gset
SELECT (:'many'::bigint[])[20] AS odd, (:'many'::bigint[])[900] AS far, (:'many'::bigint[])[1050] AS farther, jobq.enqueue('q', after => :'many') AS all_of_them \gset
SELECT jobq.cancel(:farther), jobq.cancel(:far), jobq.cancel(:odd);
SELECT why(:all_of_them);
SELECT jobq.run_now(ARRAY[:all_of_them]);
SELECT why(:all_of_them);
SELECT count(jobq.drop_queue(q, force => true)) FROM unnest('{p,none}'::text[]) q;
SELECT why(:one);
SELECT jobq.delete_jobs(ARRAY[:one, :four, :late, :batch, :all_of_them]);

-- handlers: stopped, missing, without a function
SELECT jobq.stop();
SELECT jobq.create_queue('h');
CREATE FUNCTION handle(payload jsonb) RETURNS void LANGUAGE sql AS '';
SELECT jobq.set_handler('h', 'public.handle', 'greet');
SELECT jobq.enqueue('h', name => 'greet') AS known, jobq.enqueue('h', name => 'other') AS other \gset
SELECT why(:known);
SELECT why(:other);
DROP FUNCTION handle(jsonb);
SELECT why(:known);
SELECT jobq.delete_jobs(ARRAY[:known, :other]);
SELECT jobq.start();
SELECT jobq.drop_handler('h', 'greet');

-- a row without a ticket
SELECT jobq.enqueue('q') AS lost \gset
BEGIN;
DELETE FROM jobq.ready WHERE seq = :lost;
SELECT why(:lost);
SELECT count(*) FROM jobq.job(:lost);
ROLLBACK;

-- this database is a copy
SELECT id FROM jobq.identity \gset
UPDATE jobq.identity SET id = gen_random_uuid();
SELECT why(:lost);
UPDATE jobq.identity SET id = :'id';

-- job() shows what the view shows
SELECT string_agg(DISTINCT state, ' ') AS states FROM jobq.jobs;
SELECT j.job_id FROM jobq.jobs j LEFT JOIN LATERAL jobq.job(j.job_id) f ON true
	WHERE to_jsonb(j) IS DISTINCT FROM to_jsonb(f) - 'failures' - 'deadline';
SELECT j.job_id FROM jobq.job_full j CROSS JOIN LATERAL jobq.job(j.job_id) f WHERE coalesce(j.failures, '[]') <> f.failures OR j.deadline IS DISTINCT FROM f.deadline;

SELECT * FROM jobq.verify();
