-- Jobs by their id: cancel, reschedule, run_now, delete_jobs.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
SELECT jobq.create_queue('work');

-- cancel: a waiting job never starts, ready or delayed.
SELECT jobq.enqueue('work', '{"n": 1}') AS a, jobq.enqueue('work', '{"n": 2}', delay => '1 h') AS b, jobq.enqueue('work', '{"n": 3}') AS c \gset
SELECT jobq.cancel(:a), jobq.cancel(:b);
SELECT jobq.cancel(:a), jobq.cancel(:b);
SELECT payload, state, attempt, started IS NULL AS never_started, finished IS NOT NULL AS ended FROM jobq.jobs WHERE queue = 'work' ORDER BY job_id;
SELECT ready, delayed, active, cancelled_total FROM jobq.queues WHERE queue = 'work';
SELECT job_id AS job, token, job_id = :c AS the_one_left FROM jobq.dequeue('work', 10) \gset
-- a running one: its holder is told at each extend, and decides
SELECT :'the_one_left' AS the_one_left, jobq.extend(:job, :token), jobq.cancel(:job), jobq.cancel(:job), jobq.extend(:job, :token);
SET client_min_messages = warning; -- the notice names the job
SELECT jobq.complete(:job, :token);
RESET client_min_messages;
SELECT jobq.cancel(:job);
SELECT jobq.cancel(1), jobq.cancel(-1), jobq.cancel(9223372036854775807);
SELECT outcome('SELECT jobq.cancel(NULL)');
-- one of a batch: the others run on
SELECT count(*) FROM jobq.enqueue_many('work', '[1, 2, 3]');
CREATE TEMP TABLE batch AS SELECT * FROM jobq.dequeue('work', 3);
SELECT jobq.cancel(job_id) FROM batch WHERE payload = '2';
SELECT b.payload, e.status FROM jobq.extend_many((SELECT array_agg(job_id ORDER BY job_id) FROM batch), (SELECT array_agg(token) FROM batch)) e
	JOIN batch b USING (job_id) ORDER BY 1;
-- given back, it ends instead of waiting again
SELECT jobq.release(job_id, token) FROM batch WHERE payload = '2';
SELECT jobq.cancel(job_id) FROM batch WHERE payload = '2';
SELECT c.status, count(*) FROM jobq.complete_many((SELECT array_agg(job_id) FROM batch), (SELECT array_agg(token) FROM batch)) c GROUP BY 1 ORDER BY 1;
-- dead is finished
SELECT jobq.enqueue('work') AS job \gset
SELECT jobq.fail(job_id, token, 'broken', retry => false) FROM jobq.dequeue('work');
SELECT jobq.cancel(:job);
-- a retry that waits is cancelled with its failures kept
SELECT jobq.enqueue('work') AS job \gset
SELECT jobq.fail(job_id, token, 'first', retry_in => '1 h') FROM jobq.dequeue('work');
SELECT jobq.cancel(:job);
SELECT state, attempt, last_error, failures -> 0 ->> 'error' AS failure FROM jobq.job(:job);
SELECT count(*) FROM jobq.failure;
-- its own transaction's job, its own transaction's lease
BEGIN;
SELECT jobq.enqueue('work') AS job \gset
SELECT jobq.cancel(:job);
COMMIT;
SELECT state FROM jobq.job(:job);
SELECT jobq.enqueue('work') AS job \gset
BEGIN;
SELECT token FROM jobq.dequeue('work') \gset
SELECT jobq.cancel(:job), jobq.extend(:job, :token);
ROLLBACK;
-- undone by a rollback: it waits as before
BEGIN;
SELECT jobq.cancel(:job);
SAVEPOINT s;
SELECT jobq.cancel(:job);
ROLLBACK;
SELECT state FROM jobq.job(:job);
SELECT job_id = :job AS it FROM jobq.dequeue('work');
SELECT * FROM jobq.verify();

-- No history: a cancelled job is gone.
SELECT jobq.create_queue('forgetful', keep_completed => '0');
SELECT jobq.enqueue('forgetful') AS job \gset
SELECT jobq.cancel(:job), jobq.cancel(:job);
SELECT count(*) FROM jobq.job(:job);

-- reschedule
SELECT jobq.create_queue('plan');
SELECT jobq.enqueue('plan', '"a"') AS a, jobq.enqueue('plan', '"b"') AS b, jobq.enqueue('plan', '"c"', delay => '1 h') AS c \gset
SELECT run_at FROM jobq.job(:c) \gset
SELECT jobq.reschedule(:c, priority => 7);
SELECT payload, state, priority, run_at = :'run_at' AS same_time FROM jobq.jobs WHERE queue = 'plan' ORDER BY job_id;
SELECT jobq.reschedule(:c, '2000-01-01');
SELECT jobq.reschedule(:a, now() + interval '1 h');
SELECT payload, state, priority, run_at > now() + interval '59 min' AS later FROM jobq.jobs WHERE queue = 'plan' ORDER BY job_id;
SELECT jobq.reschedule(:a, now(), 2000);
SELECT jobq.reschedule(:b, priority => 1999);
SELECT ready, delayed FROM jobq.queues WHERE queue = 'plan';
SELECT payload, priority, attempt FROM jobq.dequeue('plan', 10);
SELECT outcome(format('SELECT jobq.reschedule(%s, now())', :a));
SELECT outcome(format('SELECT jobq.reschedule(%s)', :a));
SELECT outcome('SELECT jobq.reschedule(NULL, now())');
SELECT outcome('SELECT jobq.reschedule(1, now())');
SELECT outcome(format('SELECT jobq.reschedule(%s, priority => %s)', :a, p)) FROM unnest(ARRAY[32768, -32769]) p;
SELECT outcome(format('SELECT jobq.reschedule(%s, %L)', :a, t)) FROM unnest(ARRAY['infinity', '-infinity', '2200-01-01']) t;
SELECT jobq.enqueue('plan') AS job \gset
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('plan');
SELECT outcome(format('SELECT jobq.reschedule(%s, now())', :job));
SELECT jobq.enqueue('plan') AS job \gset
SELECT jobq.fail(job_id, token, retry => false) FROM jobq.dequeue('plan');
SELECT outcome(format('SELECT jobq.reschedule(%s, now())', :job));
-- attempts and failures stay; a payload out of line, too
SELECT jobq.enqueue('plan', to_jsonb((SELECT string_agg(md5(n::text), '') FROM generate_series(1, 5000) n))) AS job \gset
SELECT jobq.fail(job_id, token, 'first', retry_in => '1 h') FROM jobq.dequeue('plan');
SELECT jobq.reschedule(:job, now(), -32768);
SELECT job_id = :job AS it, priority, attempt, md5(payload::text) = md5(to_jsonb((SELECT string_agg(md5(n::text), '') FROM generate_series(1, 5000) n))::text)
	AS whole FROM jobq.dequeue('plan');
SELECT last_error FROM jobq.job(:job);
-- rolled back
SELECT jobq.enqueue('plan', '"r"') AS job \gset
BEGIN;
SELECT jobq.reschedule(:job, now() + interval '1 h', 1);
ROLLBACK;
SELECT payload, priority FROM jobq.dequeue('plan');
SELECT * FROM jobq.verify();

-- run_now: what is delayed becomes ready; the rest is passed over.
SELECT jobq.create_queue('soon');
SELECT jobq.enqueue('soon', '"a"', delay => '1 h') AS a, jobq.enqueue('soon', '"b"', delay => '1 h') AS b, jobq.enqueue('soon', '"c"') AS c \gset
SELECT jobq.run_now(NULL), jobq.run_now('{}'), jobq.run_now('{NULL}'), jobq.run_now('{1,2}');
SELECT jobq.run_now(ARRAY[:b, :a, :b, NULL, :c, 1]);
SELECT jobq.run_now(ARRAY[:a, :b]);
SELECT payload FROM jobq.dequeue('soon', 10) ORDER BY job_id;
SELECT jobq.run_now(ARRAY[:a, :b, :c]);
SELECT outcome('SELECT jobq.run_now(ARRAY[[1],[2]])');

-- delete_jobs: waiting, finished or dead; never what runs.
SELECT jobq.create_queue('del');
SELECT jobq.enqueue('del', '"done"') AS done \gset
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('del');
SELECT jobq.enqueue('del', '"dead"') AS dead \gset
SELECT jobq.fail(job_id, token, retry => false) FROM jobq.dequeue('del');
SELECT jobq.enqueue('del', '"retry"') AS retry \gset
SELECT jobq.fail(job_id, token, retry_in => '1 h') FROM jobq.dequeue('del');
SELECT jobq.enqueue('del', '"active"') AS active \gset
SELECT token FROM jobq.dequeue('del') \gset
SELECT jobq.enqueue('del', '"ready"') AS ready, jobq.enqueue('del', '"cancelled"') AS cancelled \gset
SELECT jobq.cancel(:cancelled);
SELECT payload, state FROM jobq.jobs WHERE queue = 'del' ORDER BY job_id;
SELECT jobq.delete_jobs(NULL), jobq.delete_jobs('{}'), jobq.delete_jobs('{NULL,1}');
BEGIN;
SELECT jobq.delete_jobs(ARRAY[:done, :dead, :retry, :active, :ready, :cancelled, :ready, 1, NULL]);
SELECT payload, state FROM jobq.jobs WHERE queue = 'del';
ROLLBACK;
SELECT jobq.delete_jobs(ARRAY[:ready, :ready]);
SELECT jobq.delete_jobs(ARRAY[:done, :dead, :retry, :active, :ready, :cancelled]);
SELECT payload, state FROM jobq.jobs WHERE queue = 'del';
SELECT count(*) FROM jobq.failure f WHERE f.job_id IN (:retry, :dead);
SELECT jobq.complete(:active, :token);
SELECT ready, delayed, active, dead FROM jobq.queues WHERE queue = 'del';
SELECT * FROM jobq.verify();
