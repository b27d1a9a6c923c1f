-- dequeue: what a worker gets, and how long it has it.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
SELECT jobq.create_queue('work');

-- An empty queue gives nothing, at once.
SELECT count(*) FROM jobq.dequeue('work');
SELECT count(*) FROM jobq.dequeue('work', 10000);

-- One job, with all a worker needs.
SELECT jobq.enqueue('work', '{"n": 1}', name => 'add', priority => 7, headers => '{"trace": "x"}', max_attempts => 5) AS job \gset
SELECT job_id = :job AS it, token > 0 AS token, name, payload, headers, priority, attempt, max_attempts, group_key,
	enqueued_at BETWEEN now() - interval '1 min' AND clock_timestamp() AS enqueued,
	lease_until BETWEEN now() + interval '30 s' AND clock_timestamp() + interval '30 s' AS leased_30_s, deadline
	FROM jobq.dequeue('work', worker => 'w1');
SELECT state, attempt, worker, started <= clock_timestamp() AS started, lease_until > now() AS leased FROM jobq.job(:job);
SELECT worker, queue, leases, jobs, expired FROM jobq.workers;
SELECT ready, active FROM jobq.queues WHERE queue = 'work';
-- it is nobody else's
SELECT count(*) FROM jobq.dequeue('work', 10);

-- A batch: at most so many, in order; those that were not taken stay available.
SELECT jobq.create_queue('batch');
SELECT count(*) FROM jobq.enqueue_many('batch', (SELECT jsonb_agg(n) FROM generate_series(1, 105) n));
CREATE TEMP TABLE taken AS SELECT row_number() OVER () AS n, * FROM jobq.dequeue('batch', 100);
SELECT count(*), bool_and(payload = to_jsonb(n)) AS in_order FROM taken;
-- up to 64 jobs have one lease, and tokens grow
SELECT token - min(token) OVER () < 100 AS near, count(*) FROM taken GROUP BY token ORDER BY token;
SELECT status, count(*) FROM jobq.complete_many((SELECT array_agg(job_id) FROM taken), (SELECT array_agg(token) FROM taken)) GROUP BY status;
SELECT ready, active, completed_total FROM jobq.queues WHERE queue = 'batch';
SELECT payload FROM jobq.dequeue('batch', 100);
SELECT count(*) FROM jobq.dequeue('batch', 100);

-- How many: 1 by default and for NULL, never "all".
SELECT count(*) FROM jobq.enqueue_many('work', '[1, 2, 3]');
SELECT count(*) FROM jobq.dequeue('work', NULL);
SELECT count(*) FROM jobq.dequeue('work', max_jobs => 1);
SELECT outcome('SELECT count(*) FROM jobq.dequeue(''work'', ' || n || ')') FROM unnest('{0,-1,10001,1000000000,-2147483648}'::int[]) n;
SELECT count(*) FROM jobq.dequeue('work', 10000);

-- How long: the queue's lease by default and for NULL, 1 ms to 30 days, never for ever.
SELECT jobq.create_queue('lease', lease => '5 min');
SELECT count(*) FROM jobq.enqueue_many('lease', '[1, 2, 3, 4]');
SELECT lease_until - now() BETWEEN '5 min' AND '5 min 10 s' AS queues_own FROM jobq.dequeue('lease');
SELECT lease_until - now() BETWEEN '5 min' AND '5 min 10 s' AS queues_own FROM jobq.dequeue('lease', lease => NULL);
SELECT lease_until - now() BETWEEN '1 h' AND '1 h 10 s' AS given FROM jobq.dequeue('lease', lease => '1 h');
SELECT outcome(format('SELECT count(*) FROM jobq.dequeue(''lease'', lease => %L)', l))
	FROM unnest(ARRAY['0', '-1 s', '0.9 ms', '31 days', '1000000 years', '1 month 1 us']) l;
SELECT lease_until - now() BETWEEN '30 days' AND '30 days 10 s' AS given FROM jobq.dequeue('lease', lease => '1 month');

-- Who and where: the other arguments.
SELECT outcome('SELECT count(*) FROM jobq.dequeue(' || args || ')')
	FROM unnest(ARRAY['NULL', $$'no such'$$, $$'WORK'$$, $$'work', worker => ''$$, $$'work', worker => repeat('x', 257)$$, $$'work', wait => '-1 s'$$,
		$$'work', wait => '25 h'$$, $$'work', group_batch => 0$$, $$'work', group_batch => 65$$,
		$$'work', group_batch => NULL, wait => NULL, worker => NULL$$]) args;

-- The lease counts from the moment of the call, not from the start of the transaction.
SELECT jobq.create_queue('slow');
SELECT jobq.enqueue('slow') > 0 AS job;
BEGIN;
SELECT pg_sleep(0.3) \g /dev/null
SELECT lease_until - interval '1 min' >= now() + interval '0.3 s' AS real_time FROM jobq.dequeue('slow', lease => '1 min');
COMMIT;
SELECT jobq.enqueue('slow') AS job \gset
SELECT count(*) FROM jobq.dequeue('slow');
SELECT started >= created AS after, started - created < '10 s' AS real_time FROM jobq.job(:job);

-- A job's run timeout is its deadline: no lease goes past it, a batch is split by it.
SELECT jobq.create_queue('limited', timeout => '1 h');
SELECT count(*) FROM jobq.enqueue_many('limited', '[1, 2]');
SELECT count(*) FROM jobq.enqueue_many('limited', '[3, 4]', timeout => '10 s');
SELECT payload, deadline - now() BETWEEN '1 h' AND '1 h 10 s' AS queues_own, deadline - now() BETWEEN '10 s' AND '20 s' AS jobs_own,
	lease_until = deadline AS lease_cut, dense_rank() OVER (ORDER BY token) AS lease FROM jobq.dequeue('limited', 10, lease => '1 min') ORDER BY payload;

-- A lease that ended gives the job to somebody else, with a greater token; the first holder can change nothing any more.
SELECT jobq.create_queue('race', backoff => 'fixed', backoff_base => '0');
SELECT jobq.enqueue('race', '{"n": 1}') AS job \gset
SELECT token AS old FROM jobq.dequeue('race', lease => '1 ms', worker => 'a') \gset
SELECT token AS new, token > :old AS greater, attempt, job_id = :job AS it FROM jobq.dequeue('race', worker => 'b', wait => '30 s') \gset
SELECT :'greater' AS greater, :'attempt' AS attempt, :'it' AS it;
SELECT outcome(format('SELECT jobq.complete(%s, %s)', :job, :old));
SELECT outcome(format('SELECT jobq.extend(%s, %s)', :job, :old));
SELECT outcome(format('SELECT jobq.fail(%s, %s, ''late'')', :job, :old));
SELECT outcome(format('SELECT jobq.fail(%s, %s, ''late'', retry => false)', :job, :old));
SELECT outcome(format('SELECT jobq.release(%s, %s)', :job, :old));
SELECT outcome(format('SELECT jobq.progress(%s, %s, ''1'')', :job, :old));
SELECT outcome(format('SELECT jobq.assert_lease(%s, %s)', :job, :old));
SELECT s.status FROM jobq.complete_many(ARRAY[:job], ARRAY[:old]) s;
-- the new holder's lease, attempt and counters are untouched
SELECT state, attempt, worker, last_error, progress, lease_until > now() AS leased FROM jobq.job(:job);
SELECT ready, delayed, active, dead, completed_total, failed_total, retried_total, expired_leases_total FROM jobq.queues WHERE queue = 'race';
SELECT jobq.complete(:job, :new);
SELECT state, attempt, worker, failures -> 0 ->> 'error' AS first_error FROM jobq.job(:job);

-- A lease that ended and was acted on is over, even when nobody has taken the job yet.
SELECT jobq.enqueue('race', '{"n": 2}') AS job \gset
SELECT token FROM jobq.dequeue('race', lease => '1 ms') \gset
CALL becomes_true(format('SELECT state = ''ready'' FROM jobq.job(%s)', :job));
SELECT outcome(format('SELECT jobq.complete(%s, %s)', :job, :token));
SELECT outcome(format('SELECT jobq.extend(%s, %s)', :job, :token));
SELECT state, attempt FROM jobq.job(:job);
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('race');

-- A worker that comes back under its old name does not keep its old leases alive.
SELECT jobq.enqueue('race', '{"n": 3}') > 0 AS job;
SELECT token FROM jobq.dequeue('race', lease => '1 ms', worker => 'a') \gset
SELECT payload, attempt, token > :token AS new_token FROM jobq.dequeue('race', lease => '1 h', worker => 'a', wait => '30 s');

-- A last attempt whose lease ends is dead, once, and says why.
SELECT jobq.create_queue('mortal', max_attempts => 1);
SELECT jobq.enqueue('mortal', '{"n": 1}') AS job \gset
SELECT count(*) FROM jobq.dequeue('mortal', lease => '1 ms', worker => 'gone');
CALL becomes_true('SELECT count(*) > 0 FROM jobq.dead_letters WHERE queue = ''mortal''');
SELECT job_id = :job AS it, reason, last_error, attempt, payload FROM jobq.dead_letters WHERE queue = 'mortal';
SELECT ready, active, dead, dead_total, failed_total, retried_total, expired_leases_total FROM jobq.queues WHERE queue = 'mortal';
SELECT count(*) FROM jobq.dequeue('mortal');

-- A job is not taken by the transaction that enqueues it, though that sees it; afterwards it is.
BEGIN;
SELECT jobq.enqueue('work', '{"own": true}') AS job \gset
SELECT count(*) FROM jobq.dequeue('work', 10);
SELECT state, payload FROM jobq.jobs WHERE job_id = :job;
SELECT count(*) FROM jobq.dequeue('work', 10, wait => '10 ms');
COMMIT;
SELECT job_id = :job AS it, payload FROM jobq.dequeue('work', 10);

-- Claims need READ COMMITTED, and say so at once, before anything is changed.
SELECT jobq.enqueue('work', '{"iso": true}') AS job \gset
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outcome($$SELECT count(*) FROM jobq.dequeue('work', wait => '1 h')$$);
SELECT outcome($$SELECT count(*) FROM jobq.complete_and_dequeue(NULL, NULL, 'work', wait => '1 h')$$);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT outcome($$SELECT count(*) FROM jobq.dequeue('work')$$);
COMMIT;
BEGIN READ ONLY;
SELECT outcome($$SELECT count(*) FROM jobq.dequeue('work')$$);
COMMIT;
SELECT state, attempt FROM jobq.job(:job);
SELECT job_id = :job AS it FROM jobq.dequeue('work');

-- Tokens grow from lease to lease, whatever the queue.
SELECT count(*) FROM jobq.enqueue_many('work', '[1, 2, 3]');
SELECT count(*) FROM jobq.enqueue_many('batch', '[1, 2, 3]');
CREATE TEMP TABLE tokens (n serial, token bigint);
INSERT INTO tokens (token) SELECT token FROM jobq.dequeue('work');
INSERT INTO tokens (token) SELECT token FROM jobq.dequeue('batch');
INSERT INTO tokens (token) SELECT token FROM jobq.dequeue('work', 2);
INSERT INTO tokens (token) SELECT token FROM jobq.dequeue('batch', 2);
SELECT count(*), count(DISTINCT token), bool_and(grows) AS grows FROM (SELECT token, token >= lag(token, 1, 0::bigint) OVER (ORDER BY n) AS grows FROM tokens) t;

-- In a query of one's own: what it took is in hand even where the rest of the query drops the row.
SELECT jobq.create_queue('sub');
SELECT count(*) FROM jobq.enqueue_many('sub', '[1, 2, 3]');
SELECT payload FROM jobq.dequeue('sub', 2) WHERE payload = '2';
SELECT ready, active FROM jobq.queues WHERE queue = 'sub';
SELECT payload FROM jobq.dequeue('sub', 3) LIMIT 1;
SELECT d.payload FROM generate_series(1, 3) g, LATERAL jobq.dequeue('sub', g) d;

-- complete_and_dequeue: ends one job and takes the next, in one transaction.
SELECT jobq.create_queue('chain');
SELECT count(*) FROM jobq.enqueue_many('chain', '[1, 2, 3, 4]');
SELECT job_id AS job, token, payload FROM jobq.complete_and_dequeue(NULL, NULL, 'chain', worker => 'w') \gset
SELECT :'payload' AS payload;
SELECT job_id AS next, token AS next_token, payload FROM jobq.complete_and_dequeue(:job, :token, 'chain', '{"done": 1}', worker => 'w') \gset
SELECT :'payload' AS payload;
SELECT state, result FROM jobq.job(:job);
SELECT ready, active, completed_total FROM jobq.queues WHERE queue = 'chain';
-- done before: no error, the next job all the same
SELECT payload FROM jobq.complete_and_dequeue(:job, :token, 'chain');
-- a lost lease is one, and takes nothing
SELECT outcome(format('SELECT count(*) FROM jobq.complete_and_dequeue(%s, %s, ''chain'')', :job, :next_token));
SELECT ready, active, completed_total FROM jobq.queues WHERE queue = 'chain';
-- a result too large: neither
SELECT jobq.alter_queue('chain', max_payload_bytes => 100);
SELECT outcome(format('SELECT count(*) FROM jobq.complete_and_dequeue(%s, %s, ''chain'', to_jsonb(repeat(''x'', 100)))', :next, :next_token));
SELECT ready, active, completed_total FROM jobq.queues WHERE queue = 'chain';
-- the next from another queue; more than one; none at all
SELECT payload FROM jobq.complete_and_dequeue(:next, :next_token, 'chain', max_jobs => 10, lease => '1 h') ORDER BY 1;
SELECT count(*) FROM jobq.complete_and_dequeue(NULL, NULL, 'chain');
SELECT jobq.enqueue('work') > 0 AS job;
SELECT job_id AS job, token FROM jobq.dequeue('work') \gset
SELECT count(*) FROM jobq.complete_and_dequeue(:job, :token, 'chain', wait => '1 h');
SELECT state FROM jobq.job(:job);
SELECT outcome('SELECT count(*) FROM jobq.complete_and_dequeue(' || args || ')')
	FROM unnest(ARRAY['NULL, NULL, NULL', $$NULL, NULL, 'no such'$$, $$NULL, 1, 'chain'$$, $$1, NULL, 'chain'$$, $$NULL, NULL, 'chain', max_jobs => 0$$,
		$$NULL, NULL, 'chain', lease => '0'$$]) args;

SELECT * FROM jobq.verify();
