-- Transactions: what a producer or a worker does counts when it commits, and not at all when it does not.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
CREATE VIEW counts AS SELECT queue, ready, delayed, active, dead, enqueued_total AS enqueued, completed_total AS completed, failed_total AS failed
	FROM jobq.queues;
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '1 h');

-- An enqueue that is rolled back was never there.
BEGIN;
SELECT jobq.enqueue('work', '1') AS job \gset
SELECT count(*) FROM jobq.enqueue_many('work', '[2, 3]', delay => '1 h');
SELECT count(*) FROM jobq.jobs;
ROLLBACK;
SELECT count(*) FROM jobq.jobs;
SELECT * FROM counts;
SELECT next_due FROM jobq.queues;
SELECT count(*) FROM jobq.dequeue('work', 10);

-- A savepoint takes back its own part: jobs, counters, wake-ups.
BEGIN;
SELECT jobq.enqueue('work', '"kept 1"') AS job \gset
SAVEPOINT a;
SELECT jobq.enqueue('work', '"gone"') AS job \gset
SELECT count(*) FROM jobq.enqueue_many('work', '["gone"]', delay => '1 h');
SAVEPOINT b;
SELECT jobq.enqueue('work', '"gone, too"') AS job \gset
RELEASE b;
ROLLBACK TO a;
SELECT jobq.enqueue('work', '"kept 2"') AS job \gset
SAVEPOINT c;
SELECT jobq.enqueue('work', '"kept 3"') AS job \gset
RELEASE c;
COMMIT;
SELECT * FROM counts;
SELECT payload FROM jobq.dequeue('work', 10);
-- an error that is caught is one
DO $$
BEGIN
	PERFORM jobq.enqueue('work', '"kept"');
	BEGIN
		PERFORM jobq.enqueue('work', '"gone"');
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
END
$$;
SELECT payload FROM jobq.dequeue('work', 10);
SELECT jobq.complete(job_id, token) FROM jobq.jobs j, LATERAL (SELECT token FROM jobq.lease l WHERE j.job_id = ANY (l.job_ids)) l WHERE j.state = 'active';

-- A dequeue that is rolled back gives the job back at once, and counts nothing.
SELECT jobq.enqueue('work', '"again"') AS job \gset
BEGIN;
SELECT payload, attempt FROM jobq.dequeue('work');
ROLLBACK;
SELECT state, attempt FROM jobq.job(:job);
BEGIN;
SAVEPOINT s;
SELECT payload, attempt FROM jobq.dequeue('work');
SELECT count(*) FROM jobq.dequeue('work');
ROLLBACK TO s;
SELECT state, attempt FROM jobq.job(:job);
SELECT payload, attempt FROM jobq.dequeue('work');
COMMIT;
SELECT * FROM counts;
SELECT jobq.complete(:job, token) FROM jobq.lease;

-- Rolled back three times in a row it is a failed attempt, with a reason and the queue's backoff: it may be the job's fault.
SELECT jobq.enqueue('work', '"poison"') AS job \gset
BEGIN;
SELECT payload, attempt FROM jobq.dequeue('work');
ROLLBACK;
BEGIN;
SELECT payload, attempt FROM jobq.dequeue('work');
ROLLBACK;
SELECT state, attempt FROM jobq.job(:job);
BEGIN;
SELECT payload, attempt FROM jobq.dequeue('work');
ROLLBACK;
CALL becomes_true(format('SELECT state = ''delayed'' FROM jobq.job(%s)', :job));
SELECT state, attempt, last_error, run_at - now() > '59 min' AS backs_off FROM jobq.job(:job);
SELECT * FROM counts;
-- a claim that commits in between starts the count anew
SELECT jobq.run_now(ARRAY[:job]);
BEGIN;
SELECT payload, attempt FROM jobq.dequeue('work');
ROLLBACK;
BEGIN;
SELECT payload, attempt FROM jobq.dequeue('work');
ROLLBACK;
SELECT attempt, jobq.release(job_id, token) FROM jobq.dequeue('work');
BEGIN;
SELECT payload, attempt FROM jobq.dequeue('work');
ROLLBACK;
BEGIN;
SELECT payload, attempt FROM jobq.dequeue('work');
ROLLBACK;
SELECT attempt, jobq.complete(job_id, token) FROM jobq.dequeue('work');
-- the last attempt used up like this is a dead letter
SELECT jobq.enqueue('work', '"fatal"', max_attempts => 1) AS job \gset
DO $$
BEGIN
	FOR n IN 1 .. 3 LOOP
		PERFORM jobq.dequeue('work');
		ROLLBACK;
	END LOOP;
END
$$;
CALL becomes_true(format('SELECT state = ''dead'' FROM jobq.job(%s)', :job));
SELECT reason, attempt, last_error FROM jobq.dead_letters;
SELECT * FROM counts;

-- Completions, failures and the rest that are rolled back leave the job in hand.
SELECT count(*) FROM jobq.enqueue_many('work', '[1, 2, 3, 4]');
CREATE TEMP TABLE hand AS SELECT payload::int AS n, job_id, token FROM jobq.dequeue('work', 4);
BEGIN;
SELECT jobq.complete(job_id, token) FROM hand WHERE n = 1;
SELECT jobq.fail(job_id, token, 'x') FROM hand WHERE n = 2;
SELECT jobq.release(job_id, token) FROM hand WHERE n = 3;
SELECT jobq.progress(job_id, token, '1') FROM hand WHERE n = 4;
SELECT count(*) FROM counts WHERE active = 4; -- the counters change at the commit
ROLLBACK;
SELECT n, state, attempt, progress FROM hand, jobq.job(job_id) ORDER BY n;
SELECT * FROM counts;
BEGIN;
SELECT jobq.complete(job_id, token) FROM hand WHERE n = 1;
SAVEPOINT s;
SELECT jobq.complete(job_id, token) FROM hand WHERE n = 2;
SELECT jobq.fail(job_id, token, 'x', retry => false) FROM hand WHERE n = 3;
ROLLBACK TO s;
SELECT jobq.release(job_id, token, '1 h') FROM hand WHERE n = 2;
COMMIT;
SELECT n, state, attempt FROM hand, jobq.job(job_id) ORDER BY n;
-- a completion that was rolled back was not "done already"
BEGIN;
SELECT jobq.complete(job_id, token) FROM hand WHERE n = 3;
ROLLBACK;
SELECT jobq.complete(job_id, token) FROM hand WHERE n = 3;
SELECT jobq.complete(job_id, token) FROM hand WHERE n = 4;
SELECT * FROM counts;

-- A whole life in one transaction is not possible, half a life is: take, work, complete.
SELECT jobq.enqueue('work', '"one go"') AS job \gset
BEGIN;
SELECT token FROM jobq.dequeue('work') \gset
SELECT jobq.progress(:job, :token, '0.5'), jobq.extend(:job, :token), jobq.complete(:job, :token, '"ok"');
COMMIT;
SELECT state, progress, result FROM jobq.job(:job);
-- given back and taken again in one transaction: not before the commit
SELECT jobq.enqueue('work', '"back"') AS job \gset
BEGIN;
SELECT token FROM jobq.dequeue('work') \gset
SELECT jobq.release(:job, :token);
SELECT count(*) FROM jobq.dequeue('work');
COMMIT;
SELECT payload, attempt, jobq.complete(job_id, token) FROM jobq.dequeue('work');

-- Two-phase commit: an enqueue takes part, a dequeue does not.
BEGIN;
SELECT jobq.enqueue('work', '"prepared"') AS job \gset
PREPARE TRANSACTION 'regress_jobq_1';
SELECT count(*) FROM jobq.dequeue('work');
COMMIT PREPARED 'regress_jobq_1';
SELECT payload, attempt FROM jobq.dequeue('work', wait => '30 s');
SELECT job_id = :job AS it, token FROM jobq.lease, unnest(job_ids) job_id WHERE job_id = :job \gset
BEGIN;
SELECT jobq.complete(:job, :token);
SELECT count(*) FROM jobq.enqueue_many('work', '["never"]');
PREPARE TRANSACTION 'regress_jobq_2';
ROLLBACK PREPARED 'regress_jobq_2';
SELECT state FROM jobq.job(:job);
BEGIN;
SELECT jobq.complete(:job, :token);
PREPARE TRANSACTION 'regress_jobq_2';
COMMIT PREPARED 'regress_jobq_2';
SELECT state FROM jobq.job(:job);
SELECT jobq.enqueue('work', '"taken"') AS job \gset
BEGIN;
SELECT payload FROM jobq.dequeue('work');
PREPARE TRANSACTION 'regress_jobq_3';
SELECT state, attempt FROM jobq.job(:job);
SELECT attempt, jobq.complete(job_id, token) FROM jobq.dequeue('work');
-- the counters are right again when the prepared transactions are gone
CALL becomes_true('SELECT exact AND ready = 0 AND active = 0 FROM jobq.queues WHERE queue = ''work''');

-- Every isolation level will do for all but a claim.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT jobq.enqueue('work', '"serializable"') AS a \gset
SELECT count(*) FROM jobq.enqueue_many('work', '["serializable", "too"]', delay => '1 h');
SELECT state FROM jobq.job(:a);
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM jobq.jobs WHERE queue = 'work' AND state = 'ready';
SELECT jobq.enqueue('work', '"repeatable"') AS b \gset
SELECT count(*) FROM jobq.jobs WHERE queue = 'work' AND state = 'ready';
COMMIT;
SELECT payload FROM jobq.dequeue('work', 10);

-- A cursor and an early end take no more than they were given.
SELECT count(*) FROM jobq.enqueue_many('work', '[1, 2, 3]');
BEGIN;
DECLARE c CURSOR FOR SELECT payload FROM jobq.dequeue('work', 2);
FETCH 1 FROM c;
CLOSE c;
COMMIT;
SELECT ready FROM counts;

-- Many claims in one transaction are as good as many transactions.
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 3000) n), priority => 1);
BEGIN;
SELECT count(*), count(DISTINCT d.job_id), bool_and(d.payload = to_jsonb(g)) AS in_order FROM generate_series(1, 3000) g, LATERAL (SELECT * FROM jobq.dequeue('work', least(g, 1))) d;
COMMIT;

SELECT * FROM jobq.verify();
