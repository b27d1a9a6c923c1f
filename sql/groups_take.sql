-- Which group comes next: rates, round robin, big groups apart, waiting.
\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/groups.sql'
\set ECHO none
\i :setup
\set ECHO all
CREATE VIEW rates AS SELECT q.name AS queue, r.group_key, count(*) AS rows, max(next_at) > now() AS limited FROM jobq.group_rate r JOIN jobq.queue q ON q.id = r.queue_id GROUP BY 1, 2 ORDER BY 1, 2;

-- A rate per group: a group that has used it up waits without a lease, and nobody else waits with it.
SELECT jobq.create_queue('rate', group_rate_limit => 1, group_rate_interval => '1 h', backoff => 'fixed', backoff_base => '1 h');
SELECT group_rate_limit, group_rate_interval FROM jobq.queues;
SELECT count(*) FROM jobq.enqueue_many('rate', '["a1", "a2", "b1", "free 1", "free 2"]', group_keys => '{a,a,b,NULL,NULL}');
SELECT take('rate', 10, 10);
SELECT * FROM groups ORDER BY 2;
SELECT * FROM rates;
SELECT done('a1');
SELECT * FROM groups ORDER BY 2;
SELECT explained('a2');
SELECT * FROM counts;
SELECT take('rate', 10);
-- it runs empty, and is limited all the same when the next job comes
SELECT done('b1');
SELECT jobq.enqueue('rate', '"b2"', group_key => 'b') > 0 AS job;
SELECT * FROM groups ORDER BY 2;
SELECT take('rate', 10);
-- neither run_now nor a pause is a way around it; a job that leaves is
SELECT jobq.run_now(ARRAY[id('b2')]) \g /dev/null
SELECT take('rate', 10);
SELECT jobq.pause_group('rate', 'b');
SELECT jobq.resume_group('rate', 'b');
SELECT * FROM groups ORDER BY 2;
SELECT jobq.cancel(id('a2'));
SELECT * FROM groups ORDER BY 2;
SELECT jobq.enqueue('rate', '"a3"', group_key => 'a') > 0 AS job;
SELECT take('rate', 10);
-- its own rate
SELECT jobq.alter_group('rate', 'a', rate_limit => 1000000);
SELECT take('rate', 10, wait => '10 s'), done('a3');
SELECT jobq.create_queue('own', group_rate_limit => 1, group_rate_interval => '1 h');
SELECT jobq.alter_group('own', 'fast', rate_limit => 1000000);
SELECT count(*) FROM jobq.enqueue_many('own', '["f1", "f2", "s1", "s2"]', group_keys => '{fast,fast,slow,slow}');
SELECT take('own'), done('f1');
SELECT take('own', wait => '30 s');
SELECT take('own', 10, wait => '30 s');
SELECT done('f2'), done('s1');
SELECT * FROM groups WHERE queue = 'own';
-- a claim that is rolled back has used nothing; a job that is given back has
SELECT jobq.enqueue('own', '"r1"', group_key => 'r') > 0 AS job;
BEGIN;
SELECT take('own');
ROLLBACK;
SELECT take('own'), released('r1');
SELECT state, waits FROM groups WHERE group_key = 'r';
SELECT jobq.drop_queue('own', force => true);
SELECT count(*) FROM rates WHERE queue = 'own';
-- the longer one counts: backoff or rate
SELECT jobq.alter_queue('rate', group_rate_interval => '1 ms');
SELECT jobq.enqueue('rate', '"c1"', group_key => 'c') > 0 AS job;
SELECT take('rate'), failed('c1');
SELECT wake_at > now() + interval '50 min' AS backoff FROM jobq.groups WHERE group_key = 'c';
SELECT jobq.run_now(ARRAY[id('c1')]);
SELECT take('rate', wait => '30 s'), done('c1');
-- a queue without rate limits the groups no more, each from its next turn on
SELECT jobq.alter_queue('rate', reset => '{group_rate_limit,group_rate_interval}');
SELECT jobq.purge_queue('rate');
SELECT count(*) FROM jobq.enqueue_many('rate', '["d1", "d2"]', group_keys => '{d,d}');
SELECT take('rate', 10, 10), done('d1'), done('d2'), done('free 1'), done('free 2');
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- Starts are spaced evenly, however often one asks and however the group runs empty in between.
SELECT jobq.create_queue('even', group_rate_limit => 20, group_rate_interval => '1 s');
SELECT count(*) FROM jobq.enqueue_many('even', '["e1", "e2", "e3", "e4"]', group_keys => '{e,e,e,e}');
CREATE TABLE starts (n serial, job text, at timestamptz);
CREATE PROCEDURE run(queue text, jobs int) LANGUAGE plpgsql AS $$
DECLARE
	d record;
BEGIN
	FOR n IN 1 .. jobs LOOP
		SELECT * INTO STRICT d FROM jobq.dequeue(queue, wait => '30 s');
		INSERT INTO starts (job, at) SELECT j.payload #>> '{}', j.started FROM jobq.job(d.job_id) j;
		PERFORM jobq.complete(d.job_id, d.token);
		COMMIT;
	END LOOP;
END
$$;
CALL run('even', 4);
SELECT count(*) FROM jobq.enqueue_many('even', '["e5", "e6"]', group_keys => '{e,e}');
CALL run('even', 2);
SELECT string_agg(job, ' ' ORDER BY n) AS jobs, min(gap) >= '50 ms' AS spaced
	FROM (SELECT n, job, at - lag(at) OVER (ORDER BY n) AS gap FROM starts) s;
SELECT rows FROM rates WHERE queue = 'even';
SELECT * FROM left_over;

-- Round robin: a group with ten thousand jobs and ten of one each; those are served within a round.
SELECT jobq.create_queue('round');
SELECT count(*) FROM jobq.enqueue_many('round', (SELECT jsonb_agg('big' || n) FROM generate_series(1, 10000) n), group_keys => (SELECT array_agg('big'::text) FROM generate_series(1, 10000) n));
SELECT count(*) FROM jobq.enqueue_many('round', (SELECT jsonb_agg('small' || n) FROM generate_series(1, 10) n), group_keys => (SELECT array_agg('s' || n) FROM generate_series(1, 10) n));
TRUNCATE starts RESTART IDENTITY;
CALL run('round', 12);
SELECT string_agg(job, ' ' ORDER BY n) AS jobs FROM starts;
-- the big one in somebody's hands, or its head failing: a free group's job comes at once
SELECT take('round');
SELECT jobq.enqueue('round', '"free"', group_key => 'free') > 0 AS job;
SELECT take('round', 10), done('free');
SELECT failed('big3', '1 h');
SELECT jobq.enqueue('round', '"free"', group_key => 'free') > 0 AS job;
SELECT take('round', 10), done('free');
SELECT group_key, state, pending FROM groups;
-- jobs without a group and groups take turns, too
SELECT jobq.purge_queue('round');
SELECT count(*) FROM jobq.enqueue_many('round', (SELECT jsonb_agg('u' || n) FROM generate_series(1, 200) n));
SELECT count(*) FROM jobq.enqueue_many('round', (SELECT jsonb_agg('g' || n) FROM generate_series(1, 200) n), group_keys => (SELECT array_agg('g' || n) FROM generate_series(1, 200) n));
TRUNCATE starts RESTART IDENTITY;
CALL run('round', 40);
SELECT count(*) FILTER (WHERE job ~ 'u') BETWEEN 5 AND 35 AS both,
	string_agg(job, ' ' ORDER BY n) FILTER (WHERE job ~ 'u') = string_agg('u' || u, ' ' ORDER BY n) FILTER (WHERE job ~ 'u') AS in_order
	FROM (SELECT n, job, row_number() OVER (PARTITION BY left(job, 1) ORDER BY n) AS u FROM starts) s;
SELECT jobq.purge_queue('round');
-- the more urgent comes first, in a group or not
SELECT jobq.enqueue('round', to_jsonb('p' || n), priority => 100 - n, group_key => CASE WHEN n % 2 = 0 THEN 'p' || n END) > 0 AS job FROM generate_series(1, 6) n;
CALL drain('round', NULL);
SELECT * FROM left_over;

-- isolate_above: groups with more jobs in line are served apart, one claim in 16 as long as there are others.
SELECT jobq.create_queue('apart', isolate_above => 5);
SELECT isolate_above FROM jobq.queues WHERE queue = 'apart';
SELECT count(*) FROM jobq.enqueue_many('apart', (SELECT jsonb_agg('big' || n) FROM generate_series(1, 100) n), group_keys => (SELECT array_agg('big'::text) FROM generate_series(1, 100) n));
SELECT count(*) FROM jobq.enqueue_many('apart', (SELECT jsonb_agg('five'::text) FROM generate_series(1, 5) n), group_keys => (SELECT array_agg('five'::text) FROM generate_series(1, 5) n));
SELECT count(*) FROM jobq.enqueue_many('apart', (SELECT jsonb_agg('s' || n) FROM generate_series(1, 60) n), group_keys => (SELECT array_agg('s' || n) FROM generate_series(1, 60) n));
SELECT lane, count(*) FROM jobq.ready GROUP BY 1 ORDER BY 1;
TRUNCATE starts RESTART IDENTITY;
CALL run('apart', 48);
SELECT count(*) FILTER (WHERE job ~ 'big') BETWEEN 2 AND 4 AS one_in_16, bool_and(job <> 'big1' OR n < 18) AS soon FROM starts;
-- alone, it is served at once
SELECT jobq.purge_queue('apart', '{ready}') > 0 AS purged;
SELECT count(*) FROM jobq.enqueue_many('apart', (SELECT jsonb_agg('huge' || n) FROM generate_series(1, 40) n), group_keys => (SELECT array_agg('huge'::text) FROM generate_series(1, 40) n));
SELECT take('apart', 10, 2);
SELECT done('huge1'), done('huge2');
SELECT lane FROM jobq.ready;
-- and it is one of the others again a few turns after it has become small
TRUNCATE starts RESTART IDENTITY;
CALL run('apart', 37);
SELECT string_agg(job, ' ' ORDER BY n) = (SELECT string_agg('huge' || n, ' ' ORDER BY n) FROM generate_series(3, 39) n) AS in_order FROM starts;
SELECT take('apart'), done('huge40');
SELECT jobq.enqueue('apart', '"one"', group_key => 'huge') > 0 AS job;
SELECT lane FROM jobq.ready;
CALL drain('apart', NULL);
-- delayed, held or blocked, it comes back where it belongs
SELECT count(*) FROM jobq.enqueue_many('apart', (SELECT jsonb_agg('back' || n) FROM generate_series(1, 10) n), group_keys => (SELECT array_agg('back'::text) FROM generate_series(1, 10) n));
SELECT take('apart'), failed('back1', '1 h');
SELECT jobq.run_now(ARRAY[id('back1')]);
SELECT take('apart'), failed('back1', retry => false);
SELECT jobq.unblock_group('apart', 'back', 'skip');
SELECT jobq.pause_group('apart', 'back');
SELECT jobq.resume_group('apart', 'back');
SELECT take('apart', 10, 10);
SELECT jobq.drop_queue('apart', force => true);
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- complete_and_dequeue goes on with its own group where a claim by anybody else would.
SELECT jobq.create_queue('cad', group_lease => '5 min');
SELECT jobq.create_queue('else');
CREATE FUNCTION next(job text, queue text DEFAULT 'cad', batch int DEFAULT 1, max_jobs int DEFAULT 10) RETURNS text LANGUAGE sql AS $$
	WITH h AS (SELECT * FROM hand WHERE hand.job = $1 ORDER BY n DESC LIMIT 1),
	d AS MATERIALIZED (SELECT payload #>> '{}' AS job, d.job_id, d.token, d.attempt FROM h, jobq.complete_and_dequeue(h.job_id, h.token, $2, max_jobs => $4, worker => 'w', group_batch => $3) d),
	i AS (INSERT INTO hand (job, job_id, token) SELECT job, job_id, token FROM d)
	SELECT coalesce(string_agg(job || CASE WHEN attempt > 1 THEN '(' || attempt || ')' ELSE '' END, ' '), 'nothing') FROM d
$$;
SELECT count(*) FROM jobq.enqueue_many('cad', (SELECT jsonb_agg('a' || n) FROM generate_series(1, 30) n), group_keys => (SELECT array_agg('a'::text) FROM generate_series(1, 30) n));
SELECT take('cad', worker => 'w'), next('a1');
SELECT jobq.pause_group('cad', 'a');
SELECT next('a2');
CALL becomes_true('SELECT NOT EXISTS (SELECT FROM groups WHERE state = ''WAIT'' AND blocked_reason = ''paused'')');
SELECT * FROM groups;
SELECT jobq.resume_group('cad', 'a');
SELECT take('cad', worker => 'w');
SELECT jobq.cancel(id('a4')), jobq.cancel(id('a5')), jobq.cancel(id('a6'));
SELECT next('a3');
SELECT jobq.alter_group('cad', 'a', rate_limit => 1, rate_interval => '1 h');
SELECT next('a7');
SELECT jobq.enqueue('cad', '"limited"', group_key => 'a') > 0 AS job;
SELECT next('a8');
SELECT * FROM groups;
SELECT jobq.alter_group('cad', 'a', reset => '{rate_limit,rate_interval}');
SELECT * FROM groups;
SELECT take('cad', worker => 'w'), next('a9', 'else');
SELECT * FROM groups;
SELECT take('cad', worker => 'w');
SELECT jobq.pause_queue('cad');
SELECT next('a10');
SELECT jobq.resume_queue('cad');
SELECT take('cad', worker => 'w');
SELECT next('a11', batch => 3);
SELECT lease_until - now() > '4 min' AS groups_own FROM jobq.groups;
SELECT next('a12', batch => 3);
SELECT done('a13');
SELECT jobq.alter_group('cad', 'a', weight => 2);
SELECT next('a14', batch => 3);
SELECT jobq.reschedule(id('a25'), priority => 5);
SELECT jobq.enqueue('cad', '"b1"', priority => 500, group_key => 'b') > 0;
SELECT released('a15');
SELECT take('cad', 1), next('b1');
SELECT * FROM groups;
SELECT jobq.drop_queue('cad', force => true), jobq.drop_queue('else');
SELECT * FROM jobq.verify();

-- Whoever waits is woken by what makes a group ready: a backoff that is over, a resume, the end of a pause, of a block, of a rate.
SELECT jobq.create_queue('wake', backoff => 'fixed', backoff_base => '50 ms');
SELECT count(*) FROM jobq.enqueue_many('wake', '["w1", "w2"]', group_keys => '{w,w}');
SELECT take('wake'), failed('w1');
SELECT take('wake', wait => '30 s'), released('w1', '50 ms');
SELECT take('wake', wait => '30 s'), done('w1');
SELECT jobq.alter_group('wake', 'w', rate_limit => 20);
SELECT take('wake', wait => '30 s'), done('w2');
SELECT jobq.enqueue('wake', '"w3"', group_key => 'w', delay => '1 ms') > 0 AS job;
SELECT take('wake', wait => '30 s'), done('w3');
CALL jobq.wait('wake', '10 ms', NULL);
SELECT jobq.enqueue('wake', '"w4"', group_key => 'v') > 0 AS job;
CALL jobq.wait('wake', '30 s', NULL);
SELECT jobq.pause_group('wake', 'v');
CALL jobq.wait('wake', '10 ms', NULL);
SELECT jobq.resume_group('wake', 'v');
CALL drain('wake', NULL);

SELECT * FROM counts;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();
