-- extend, progress, assert_lease, fence: how a worker keeps what it has.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
SELECT jobq.create_queue('work', lease => '10 min');

-- extend moves the end of the lease to so much from now; by default what the queue gives.
SELECT jobq.enqueue('work', '{"n": 1}') AS job \gset
SELECT token FROM jobq.dequeue('work', lease => '1 min') \gset
SELECT jobq.extend(:job, :token);
SELECT lease_until - now() BETWEEN '9 min 50 s' AND '10 min' AS queues_own, state, attempt FROM jobq.job(:job);
SELECT jobq.extend(:job, :token, '1 h');
SELECT lease_until AS until, lease_until - now() BETWEEN '59 min 50 s' AND '1 h' AS given FROM jobq.job(:job) \gset
SELECT :'given' AS given;
-- never back
SELECT jobq.extend(:job, :token, '1 s'), jobq.extend(:job, :token);
SELECT lease_until = :'until' AS unchanged FROM jobq.job(:job);
-- up to 30 days, from 1 ms
SELECT jobq.extend(:job, :token, '30 days'), jobq.extend(:job, :token, '1 ms'), jobq.extend(:job, :token, NULL);
SELECT outcome(format('SELECT jobq.extend(%s, %s, %L)', :job, :token, l)) FROM unnest('{0,"-1 s","0.9 ms","31 days","1000000 years"}'::text[]) l;
-- as often as one likes: a job that runs for hours is still one lease and one attempt
DO $$
DECLARE
	job record;
BEGIN
	SELECT l.token, j.job_id INTO job FROM jobq.jobs j, jobq.lease l WHERE j.queue = 'work' AND j.job_id = ANY (l.job_ids);
	FOR n IN 1 .. 300 LOOP
		ASSERT jobq.extend(job.job_id, job.token, n * interval '1 min') = 'ok';
		COMMIT;
	END LOOP;
END
$$;
SELECT state, attempt, last_error FROM jobq.job(:job);
SELECT ready, active, expired_leases_total FROM jobq.queues WHERE queue = 'work';
SELECT jobq.complete(:job, :token);

-- Never past the run timeout, whoever extends; the queue's or the job's own.
SELECT jobq.create_queue('limited', timeout => '1 h');
SELECT jobq.enqueue('limited') AS job, jobq.enqueue('limited', timeout => '2 min') AS own \gset
SELECT token, deadline FROM jobq.dequeue('limited', lease => '1 min') \gset
SELECT jobq.extend(:job, :token, '30 days');
SELECT lease_until = :'deadline' AS at_the_deadline, deadline - started AS timeout FROM jobq.job(:job);
SELECT token, deadline FROM jobq.dequeue('limited', lease => '1 min') \gset
SELECT jobq.extend(:own, :token, '1 h');
SELECT lease_until = :'deadline' AS at_the_deadline, deadline - started AS timeout FROM jobq.job(:own);

-- The jobs of one dequeue are extended together; one that is finished asks in vain.
SELECT jobq.create_queue('batch', lease => '1 min');
SELECT count(*) FROM jobq.enqueue_many('batch', '[1, 2, 3]');
CREATE TEMP TABLE batch AS SELECT payload::int AS n, job_id, token FROM jobq.dequeue('batch', 3);
SELECT jobq.complete(job_id, token) FROM batch WHERE n = 1;
SELECT n, outcome(format('SELECT jobq.extend(%s, %s, ''1 h'')', job_id, token)) FROM batch ORDER BY n;
SELECT n, lease_until - now() > '59 min' AS extended FROM batch, jobq.job(job_id) ORDER BY n;
SELECT b.n, e.status FROM jobq.extend_many((SELECT array_agg(job_id ORDER BY n) FROM batch), (SELECT array_agg(token ORDER BY n) FROM batch), '2 h') e
	JOIN batch b USING (job_id);
SELECT n, lease_until - now() > '1 h 59 min' AS extended FROM batch, jobq.job(job_id) WHERE n > 1 ORDER BY n;
SELECT e.status FROM jobq.extend_many(ARRAY[1, (SELECT job_id FROM batch WHERE n = 2), (SELECT job_id FROM batch WHERE n = 2)],
	(SELECT ARRAY[token, token, token + 1] FROM batch WHERE n = 2)) e;
SELECT outcome($$SELECT jobq.extend_many('{1}', '{1}', '0')$$);
SELECT count(*) FROM jobq.extend_many('{}', '{}');

-- A cancelled job hears it at each extend, alone and in a list; the others of its batch do not.
SELECT jobq.cancel(job_id) FROM batch WHERE n = 2;
SELECT jobq.extend(job_id, token), jobq.extend(job_id, token) FROM batch WHERE n = 2;
SELECT n, e.status FROM batch, jobq.extend_many(ARRAY[job_id], ARRAY[token]) e WHERE n > 1 ORDER BY n;

-- What an extend did in a transaction that is rolled back was not done.
SELECT lease_until AS until FROM batch, jobq.job(job_id) WHERE n = 3 \gset
BEGIN;
SELECT jobq.extend(job_id, token, '1 day') FROM batch WHERE n = 3;
SAVEPOINT s;
SELECT jobq.extend(job_id, token, '2 days') FROM batch WHERE n = 3;
ROLLBACK TO s;
SELECT lease_until - now() BETWEEN '23 h' AND '1 day 1 min' AS a_day FROM batch, jobq.job(job_id) WHERE n = 3;
ROLLBACK;
SELECT lease_until = :'until' AS unchanged FROM batch, jobq.job(job_id) WHERE n = 3;

-- progress: shown while the job runs, kept when it has ended; the last one counts.
SELECT jobq.enqueue('batch', '{"n": 4}') AS job \gset
SELECT token FROM jobq.dequeue('batch') \gset
SELECT jobq.progress(:job, :token, '{"percent": 10}');
SELECT progress FROM jobq.jobs WHERE job_id = :job;
SELECT jobq.progress(:job, :token, '20'), jobq.progress(:job, :token, '{"percent": 30}');
SELECT state, progress FROM jobq.job(:job);
SELECT jobq.complete(:job, :token);
SELECT state, progress FROM jobq.job(:job);
-- each job of a batch has its own
SELECT jobq.progress(job_id, token, to_jsonb(n * 10)) FROM batch WHERE n > 1;
SELECT n, progress FROM batch, jobq.job(job_id) ORDER BY n;
-- null, too large, lost
SELECT outcome(format('SELECT jobq.progress(%s, %s, %s)', job_id, token, v)) FROM batch, unnest(ARRAY['NULL', $$'null'$$, $$'[]'$$]) v WHERE n = 3;
SELECT jobq.alter_queue('batch', max_payload_bytes => 100);
SELECT outcome(format('SELECT jobq.progress(%s, %s, to_jsonb(repeat(''x'', 100)))', job_id, token)) FROM batch WHERE n = 3;
SELECT outcome(format('SELECT jobq.progress(%s, %s, ''1'')', job_id, token)) FROM batch WHERE n = 1;
SELECT progress FROM batch, jobq.job(job_id) WHERE n = 3;
-- a retry starts without
SELECT jobq.fail(job_id, token, 'broken', '0') FROM batch WHERE n = 3;
SELECT n, state, progress FROM batch, jobq.job(job_id) WHERE n = 3;

-- assert_lease: quiet while the lease is good, JQ001 when it is not.
SELECT jobq.enqueue('work', '{"n": 5}') AS job \gset
SELECT token FROM jobq.dequeue('work') \gset
BEGIN;
SELECT jobq.assert_lease(:job, :token);
SELECT jobq.assert_lease(:job, :token);
SELECT jobq.extend(:job, :token, '1 h'), jobq.progress(:job, :token, '1'), jobq.assert_lease(:job, :token);
SELECT jobq.complete(:job, :token);
SELECT outcome(format('SELECT jobq.assert_lease(%s, %s)', :job, :token));
COMMIT;
SELECT state, progress FROM jobq.job(:job);
SELECT outcome(format('SELECT jobq.assert_lease(%s, %s)', :job, :token));
SELECT jobq.enqueue('work', '{"n": 6}') AS job \gset
SELECT token FROM jobq.dequeue('work') \gset
BEGIN;
SELECT jobq.assert_lease(:job, :token);
SELECT jobq.fail(:job, :token, 'after all', '1 h');
COMMIT;
SELECT state, attempt FROM jobq.job(:job);

-- fence: the highest token wins, wherever the data is; a stale worker is refused.
SELECT jobq.fence('ledger', :token);
SELECT jobq.fence('ledger', :token), jobq.fence('ledger', :token + 1), jobq.fence('other ledger', 1);
SELECT regexp_replace(outcome(format('SELECT jobq.fence(''ledger'', %s)', :token)), '\d{6,}', 'N', 'g');
SELECT resource, token = :token + 1 AS highest FROM jobq.resource_fence ORDER BY resource;

SELECT * FROM jobq.verify();
