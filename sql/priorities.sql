-- In which order jobs are taken.

-- Takes n jobs, one transaction each, and tells their payloads in order.
CREATE PROCEDURE take(queue text, n int, INOUT payloads text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	taken text;
BEGIN
	payloads := NULL;
	FOR i IN 1 .. n LOOP
		SELECT payload INTO taken FROM jobq.dequeue($1);
		payloads := concat_ws(' ', payloads, coalesce(taken, '-'));
		COMMIT;
	END LOOP;
END
$$;

-- The smaller number first; among equals first in, first out.
SELECT jobq.create_queue('line');
SELECT count(jobq.enqueue('line', to_jsonb(p || '.' || n), priority => p)) FROM generate_series(1, 3) n, unnest('{5,-7,1000,0,32767,-32768}'::int[]) p;
CALL take('line', 20);

-- The default is 1000.
SELECT count(jobq.enqueue('line', to_jsonb(coalesce(p::text, 'default')), priority => p)) FROM unnest('{1001,NULL,999,1000}'::int[]) p;
CALL take('line', 5);

-- A batch is in the same order.
SELECT count(jobq.enqueue('line', to_jsonb(p), priority => p)) FROM unnest('{3,1,2,1,3,2}'::int[]) p;
SELECT payload FROM jobq.dequeue('line', 4);
SELECT payload FROM jobq.dequeue('line', 4);

-- A job that comes later and is more urgent goes first; what is taken stays taken.
SELECT count(*) FROM jobq.enqueue_many('line', '["a", "b"]', priority => 10);
CALL take('line', 1);
SELECT count(*) FROM jobq.enqueue_many('line', '["c"]', priority => 9);
CALL take('line', 3);

-- Ten priorities at once, jobs coming and going: always the least number there is, and the oldest of it.
SELECT jobq.create_queue('ten');
DO $$
DECLARE
	expected bigint;
	job record;
BEGIN
	PERFORM setseed(0.5);
	FOR n IN 1 .. 600 LOOP
		IF n <= 300 AND random() < 0.75 THEN
			PERFORM jobq.enqueue('ten', to_jsonb(n), priority => (random() * 9)::int);
		ELSE
			SELECT j.job_id INTO expected FROM jobq.jobs j WHERE j.queue = 'ten' AND j.state = 'ready' ORDER BY j.priority, j.job_id LIMIT 1;
			SELECT * INTO job FROM jobq.dequeue('ten');
			ASSERT job.job_id IS NOT DISTINCT FROM expected, 'in order';
		END IF;
		COMMIT;
	END LOOP;
END
$$;
SELECT ready, enqueued_total = active AS all_taken FROM jobq.queues WHERE queue = 'ten';

-- A returned job keeps its priority.
SELECT jobq.create_queue('back');
SELECT count(*) FROM jobq.enqueue_many('back', '["x"]', priority => 5);
SELECT jobq.release(job_id, token) FROM jobq.dequeue('back');
SELECT count(*) FROM jobq.enqueue_many('back', '["y"]', priority => 4);
SELECT payload, priority, attempt FROM jobq.dequeue('back');
SELECT payload, priority, attempt FROM jobq.dequeue('back');

-- Among equals those that come back go before fresh ones, but not always: a fresh one at least every eighth time.
SELECT jobq.create_queue('lanes');
SELECT count(*) FROM jobq.enqueue_many('lanes', (SELECT jsonb_agg('back ' || n) FROM generate_series(1, 40) n));
SELECT status, count(*) FROM (SELECT array_agg(job_id ORDER BY job_id) AS ids, array_agg(token ORDER BY job_id) AS tokens FROM jobq.dequeue('lanes', 40)) d,
	jobq.release_many(ids, tokens) GROUP BY 1;
SELECT count(*) FROM jobq.enqueue_many('lanes', (SELECT jsonb_agg('fresh ' || n) FROM generate_series(1, 40) n));
CREATE TEMP TABLE taken (n serial, kind text, number int);
DO $$
BEGIN
	FOR n IN 1 .. 32 LOOP
		INSERT INTO taken (kind, number) SELECT split_part(payload #>> '{}', ' ', 1), split_part(payload #>> '{}', ' ', 2)::int FROM jobq.dequeue('lanes');
		COMMIT;
	END LOOP;
END
$$;
SELECT kind, count(*), bool_and(follows) AS in_order FROM (SELECT kind, number = row_number() OVER (PARTITION BY kind ORDER BY n) AS follows FROM taken) t
	GROUP BY kind ORDER BY kind;
-- a more urgent fresh one goes before all that came back
SELECT count(*) FROM jobq.enqueue_many('lanes', '["urgent"]', priority => 999);
CALL take('lanes', 1);

-- A due job comes at the priority it has.
SELECT jobq.create_queue('due');
SELECT jobq.enqueue('due', '"less urgent"', priority => 9) AS a, jobq.enqueue('due', '"later"', priority => 1, delay => '1 h') AS b \gset
SELECT jobq.run_now(ARRAY[:b]);
CALL take('due', 2);

-- Jobs due at the same time become ready in the order they were made.
SELECT now() + interval '200 ms' AS then \gset
SELECT count(*), bool_and(status = 'inserted') AS ok FROM jobq.enqueue_many('due', (SELECT jsonb_agg(n) FROM generate_series(1, 1000) n), run_at => :'then');
DO $$
DECLARE
	until timestamptz := clock_timestamp() + interval '30 s';
BEGIN
	WHILE EXISTS (SELECT FROM jobq.jobs WHERE queue = 'due' AND state = 'delayed') LOOP
		ASSERT clock_timestamp() < until, 'all become ready';
		COMMIT;
		PERFORM pg_sleep(0.005);
	END LOOP;
END
$$;
SELECT count(*), bool_and(payload = to_jsonb(n)) AS in_order FROM (SELECT payload, row_number() OVER () AS n FROM jobq.dequeue('due', 2000)) d;

-- However many jobs of one priority, those of a more urgent one are found at once.
SELECT jobq.create_queue('deep');
SELECT count(*) FROM jobq.enqueue_many('deep', (SELECT jsonb_agg(n) FROM generate_series(1, 20000) n));
SELECT jobq.enqueue('deep', '"urgent"', priority => 1) > 0 AS job;
SELECT payload FROM jobq.dequeue('deep');
-- and the cost of a claim does not depend on settings of the planner or its statistics
ANALYZE jobq.ready, jobq.job;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
CALL take('deep', 3);
RESET enable_indexscan;
RESET enable_bitmapscan;
RESET enable_seqscan;
RESET plan_cache_mode;

SELECT * FROM jobq.verify();
