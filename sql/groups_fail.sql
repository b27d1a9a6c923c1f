-- What becomes of a group when its job fails, is given back, or its lease ends.
SET datestyle = ISO;

-- What a statement comes to: its result, or SQLSTATE, message, detail and hint.
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement INTO result;
	RETURN coalesce(nullif(result, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	-- ids differ from run to run
	RETURN concat_ws(' | ', SQLSTATE || ' ' || regexp_replace(message, 'job -?\d+', 'job N'), nullif(detail, ''), nullif(hint, ''));
END
$$;
-- Asks until the answer is true, for half a minute at most.
CREATE PROCEDURE becomes_true(question text) LANGUAGE plpgsql AS $$
DECLARE
	answer boolean;
	until timestamptz := clock_timestamp() + interval '30 s';
BEGIN
	LOOP
		EXECUTE question INTO answer;
		EXIT WHEN answer;
		IF clock_timestamp() > until THEN
			RAISE EXCEPTION 'never came true: %', question;
		END IF;
		COMMIT;
		PERFORM pg_sleep(0.005);
	END LOOP;
END
$$;
-- Who has been taken. A payload names its job.
CREATE TABLE hand (n serial, job text, job_id bigint, token bigint);
-- Takes jobs; says which, those of one lease side by side and leases divided by bars, with the attempt where it is not the first.
-- Jobs of no group come last: whether they or the groups were looked at first is a matter of turns.
CREATE FUNCTION take(queue text, max_jobs int DEFAULT 1, batch int DEFAULT 1, worker text DEFAULT NULL, lease interval DEFAULT NULL, wait interval DEFAULT '0')
	RETURNS text LANGUAGE sql AS $$
	WITH d AS MATERIALIZED (
		SELECT payload #>> '{}' AS job, job_id, token, attempt, ordinality + CASE WHEN group_key IS NULL THEN 10000 ELSE 0 END AS n
		FROM jobq.dequeue($1, $2, $5, $4, $6, $3) WITH ORDINALITY),
	h AS (INSERT INTO hand (job, job_id, token) SELECT job, job_id, token FROM d ORDER BY n)
	SELECT coalesce(string_agg(jobs, ' | ' ORDER BY n), 'nothing')
	FROM (
		SELECT min(n) AS n, string_agg(job || CASE WHEN attempt > 1 THEN '(' || attempt || ')' ELSE '' END, ' ' ORDER BY n) AS jobs
		FROM d GROUP BY token) l
$$;
-- The verbs, by the name of a job that was taken.
CREATE FUNCTION done(job text) RETURNS boolean LANGUAGE sql AS
	$$SELECT jobq.complete(job_id, token) FROM hand WHERE n = (SELECT max(n) FROM hand WHERE job = $1)$$;
CREATE FUNCTION failed(job text, retry_in interval DEFAULT NULL, retry boolean DEFAULT true) RETURNS text LANGUAGE sql AS
	$$SELECT jobq.fail(job_id, token, $1 || ' is broken', $2, $3) FROM hand WHERE n = (SELECT max(n) FROM hand WHERE job = $1)$$;
CREATE FUNCTION released(job text, delay interval DEFAULT '0') RETURNS void LANGUAGE sql AS
	$$SELECT jobq.release(job_id, token, $2) FROM hand WHERE n = (SELECT max(n) FROM hand WHERE job = $1)$$;
CREATE FUNCTION extended(job text) RETURNS text LANGUAGE sql AS
	$$SELECT jobq.extend(job_id, token) FROM hand WHERE n = (SELECT max(n) FROM hand WHERE job = $1)$$;
-- Takes and completes all there is, as one worker; the order it came in.
CREATE PROCEDURE drain(queue text, INOUT jobs text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	job record;
BEGIN
	LOOP
		SELECT * INTO job FROM jobq.dequeue(queue);
		EXIT WHEN NOT FOUND;
		jobs := concat_ws(' ', jobs, job.payload #>> '{}' || CASE WHEN job.attempt > 1 THEN '(' || job.attempt || ')' ELSE '' END);
		PERFORM jobq.complete(job.job_id, job.token);
		COMMIT;
	END LOOP;
END
$$;
-- A job's id.
CREATE FUNCTION id(job text) RETURNS bigint LANGUAGE sql AS $$SELECT job_id FROM jobq.jobs WHERE payload = to_jsonb($1)$$;
-- Groups and jobs without what differs from run to run.
CREATE VIEW groups AS SELECT queue, group_key, state, pending, holder, token IS NOT NULL AND lease_until > now() AS leased, wake_at > now() AS waits,
	regexp_replace(blocked_reason, '\d+', 'N') AS blocked_reason FROM jobq.groups ORDER BY 1, 2;
CREATE VIEW jobs AS SELECT queue, payload #>> '{}' AS job, state, attempt, group_key, run_at > now() AS waits, worker, last_error FROM jobq.jobs ORDER BY job_id;
CREATE VIEW counts AS SELECT queue, ready, delayed, active, dead, completed_total AS completed, failed_total AS failed, retried_total AS retried
	FROM jobq.queues ORDER BY queue;
-- What is left of groups, all told.
CREATE VIEW left_over AS SELECT (SELECT count(*) FROM jobq.job_group) AS groups, (SELECT count(*) FROM jobq.line) AS line, (SELECT count(*) FROM jobq.held) AS held,
	(SELECT count(*) FROM jobq.ready WHERE group_id > 0) AS ready, (SELECT count(*) FROM jobq.delayed WHERE group_id IS NOT NULL) AS delayed,
	(SELECT count(*) FROM jobq.lease) AS leases;
-- Why a job does not run, with numbers and times masked.
CREATE FUNCTION explained(job text) RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(regexp_replace(jobq.explain_job(job_id), '\d{4}-\d\d-\d\d [0-9:.+]+', 'TIME', 'g'), 'job \d+', 'job N', 'g')
	FROM jobq.jobs WHERE payload = to_jsonb($1)$$;
SELECT jobq.create_queue('hold', backoff => 'fixed', backoff_base => '1 h');
SELECT jobq.create_queue('pass', backoff => 'fixed', backoff_base => '1 h', on_retry => 'pass');
SELECT jobq.create_queue('skip', backoff => 'fixed', backoff_base => '1 h', on_dead => 'skip');

-- hold: a failed job keeps its place, and its group waits out the backoff with it; nobody else does.
SELECT count(*) FROM jobq.enqueue_many('hold', '["a1", "a2", "a3", "b1"]', group_keys => '{a,a,a,b}');
SELECT jobq.enqueue('hold', '"free"', priority => 1) > 0 AS job;
SELECT take('hold', 2);
SELECT failed('a1');
SELECT * FROM groups WHERE queue = 'hold' ORDER BY 2;
SELECT * FROM jobs WHERE queue = 'hold';
SELECT explained('a1');
SELECT explained('a2');
SELECT * FROM counts WHERE queue = 'hold';
SELECT outcome($$SELECT failed('a1')$$);
SELECT take('hold', 10), done('b1'), done('free');
-- an enqueue into the waiting group goes to the end and wakes nobody
SELECT jobq.enqueue('hold', '"a4"', group_key => 'a') > 0 AS job;
SELECT take('hold', 10);
-- run_now on the first job ends the wait; on another, or one that waits for nothing, it does nothing
SELECT jobq.run_now(ARRAY[id('a2'), id('a3')]);
SELECT jobq.run_now(ARRAY[id('a1')]), jobq.run_now(ARRAY[id('a1')]);
SELECT * FROM groups WHERE queue = 'hold' ORDER BY 2;
SELECT take('hold'), failed('a1', '0');
SELECT take('hold'), done('a1');
CALL drain('hold', NULL);
-- by itself: the backoff over, the group is ready
SELECT count(*) FROM jobq.enqueue_many('hold', '["c1", "c2"]', group_keys => '{c,c}');
SELECT take('hold'), failed('c1', '50 ms');
SELECT take('hold', wait => '30 s'), done('c1');
CALL drain('hold', NULL);
SELECT f.value ->> 'attempt' AS attempt, f.value ->> 'error' AS error FROM jobq.job(id('a1')), jsonb_array_elements(failures) f;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- pass: the failed job leaves the line, the others go on, and it comes back at the end when it is due.
SELECT count(*) FROM jobq.enqueue_many('pass', '["d1", "d2", "d3"]', group_keys => '{d,d,d}');
SELECT take('pass'), failed('d1');
SELECT * FROM groups WHERE queue = 'pass';
SELECT * FROM jobs WHERE queue = 'pass';
SELECT explained('d1');
SELECT take('pass'), done('d2');
SELECT jobq.run_now(ARRAY[id('d1')]);
SELECT jobq.enqueue('pass', '"d4"', group_key => 'd') > 0 AS job;
CALL drain('pass', NULL);
-- also when nobody else is left, by itself, and failing again
SELECT jobq.enqueue('pass', '"d5"', group_key => 'd') > 0 AS job;
SELECT take('pass'), failed('d5', '50 ms');
SELECT take('pass', wait => '30 s'), failed('d5', '0');
SELECT take('pass', wait => '30 s');
SELECT * FROM counts WHERE queue = 'pass';
SELECT jobq.enqueue('pass', '"d6"', group_key => 'd') > 0 AS job;
SELECT failed('d5');
SELECT explained('d6');
SELECT blocked_reason FROM groups WHERE queue = 'pass';
SELECT jobq.unblock_group('pass', 'd', 'skip');
CALL drain('pass', NULL);
SELECT * FROM left_over;

-- Out of attempts, and the group waits for somebody to decide: block.
SELECT count(*) FROM jobq.enqueue_many('hold', '["e1", "e2", "f1"]', group_keys => '{e,e,f}', max_attempts => 1);
SELECT take('hold'), failed('e1');
SELECT * FROM groups ORDER BY 2;
SELECT job, state, attempt, last_error FROM jobs WHERE group_key = 'e';
SELECT explained('e2');
SELECT regexp_replace(explained('e1'), '^dead since TIME', 'dead') AS explained;
SELECT reason, group_key FROM jobq.dead_letters WHERE payload = '"e1"';
SELECT take('hold', 10), done('f1');
SELECT jobq.enqueue('hold', '"e3"', group_key => 'e') > 0 AS job;
SELECT take('hold', 10);
SELECT * FROM jobq.verify();
-- unblocked with the job: at its old place, all its attempts before it, its failures kept
SELECT jobq.unblock_group('hold', 'e');
SELECT group_key, state, pending FROM groups ORDER BY 1;
SELECT job, state, attempt, last_error FROM jobs WHERE group_key = 'e';
SELECT take('hold'), failed('e1', retry => false);
-- unblocked without it: it stays a dead letter
SELECT jobq.unblock_group('hold', 'e', 'skip');
SELECT take('hold'), failed('e2', retry => false);
SELECT jobq.unblock_group('hold', 'e', head => 'skip');
SELECT take('hold'), done('e3');
SELECT payload, reason, attempt, jsonb_array_length(failures) AS failures FROM jobq.dead_letters WHERE queue = 'hold' ORDER BY job_id;
SELECT * FROM left_over;
-- not blocked, unknown, misspelt
SELECT args, outcome('SELECT jobq.unblock_group(' || args || ')') FROM unnest(ARRAY[$$'hold', 'e'$$, $$'hold', 'e', 'skip'$$, $$'hold', 'never seen'$$, $$'hold', 'e', 'drop'$$,
	$$'hold', 'e', NULL$$, $$'no such', 'e'$$, $$'hold', ''$$, $$'hold', NULL$$, $$NULL, 'e'$$]) args;
-- the last job of a group: blocked all the same, with nobody waiting; who comes next waits
SELECT jobq.enqueue('hold', '"g1"', group_key => 'g', max_attempts => 1) > 0 AS job;
SELECT take('hold'), failed('g1');
SELECT * FROM groups;
SELECT * FROM jobq.verify();
SELECT jobq.enqueue('hold', '"g2"', group_key => 'g') > 0 AS job;
SELECT take('hold'), explained('g2');
SELECT jobq.unblock_group('hold', 'g', 'skip');
SELECT take('hold'), done('g2');
SELECT jobq.enqueue('hold', '"g3"', group_key => 'g', max_attempts => 1) > 0 AS job;
SELECT take('hold'), failed('g3');
SELECT jobq.unblock_group('hold', 'g', 'skip');
SELECT * FROM left_over;
-- rolled back, it is blocked as before
SELECT count(*) FROM jobq.enqueue_many('hold', '["h1", "h2"]', group_keys => '{h,h}', max_attempts => 1);
SELECT take('hold'), failed('h1');
BEGIN;
SELECT jobq.unblock_group('hold', 'h', 'retry');
ROLLBACK;
BEGIN;
SELECT jobq.unblock_group('hold', 'h', 'skip');
ROLLBACK;
SELECT group_key, state, pending FROM groups;
-- redrive of the job it waits for does what unblock does; of another dead letter of the group: the end of the line
SELECT jobq.enqueue('hold', '"h3"', group_key => 'h') > 0 AS job;
SELECT jobq.redrive('hold', ARRAY[id('h1')]);
SELECT group_key, state, pending FROM groups;
SELECT take('hold'), failed('h1');
SELECT jobq.unblock_group('hold', 'h', 'skip');
SELECT take('hold'), failed('h2');
SELECT jobq.redrive('hold', ARRAY[id('h1')]);
SELECT group_key, state, pending, blocked_reason FROM groups;
SELECT job, state FROM jobs WHERE group_key = 'h';
SELECT jobq.redrive('hold', ARRAY[id('h2')]);
CALL drain('hold', NULL);
-- a dead letter that is deleted or purged blocks no more
SELECT count(*) FROM jobq.enqueue_many('hold', '["i1", "i2", "i3"]', group_keys => '{i,i,i}', max_attempts => 1);
SELECT take('hold'), failed('i1');
SELECT jobq.delete_jobs(ARRAY[id('i1')]);
SELECT group_key, state, pending, blocked_reason FROM groups;
SELECT take('hold'), failed('i2');
SELECT jobq.purge_queue('hold', '{dead}') > 0 AS purged;
SELECT group_key, state, pending, blocked_reason FROM groups;
SELECT * FROM jobq.verify();
SELECT outcome($$SELECT jobq.unblock_group('hold', 'i')$$);
CALL drain('hold', NULL);
-- redriven to another queue: its group goes on without it, and it joins one there
SELECT jobq.create_queue('other');
SELECT count(*) FROM jobq.enqueue_many('hold', '["j1", "j2"]', group_keys => '{j,j}', max_attempts => 1);
SELECT take('hold'), failed('j1');
SELECT jobq.redrive('hold', to_queue => 'other');
SELECT queue, group_key, state, pending FROM groups ORDER BY 1;
CALL drain('hold', NULL);
CALL drain('other', NULL);
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- Out of attempts, and the group goes on without it: skip.
SELECT count(*) FROM jobq.enqueue_many('skip', '["k1", "k2"]', group_keys => '{k,k}', max_attempts => 1);
SELECT take('skip'), failed('k1');
SELECT group_key, state, pending, blocked_reason FROM groups;
SELECT take('skip'), failed('k2');
SELECT * FROM counts WHERE queue = 'skip';
SELECT * FROM left_over;
SELECT jobq.redrive('skip');
CALL drain('skip', NULL);
-- dead letters that are sent on go as jobs of no group
SELECT jobq.create_queue('letters');
SELECT jobq.alter_queue('skip', dead_letter_queue => 'letters'), jobq.alter_queue('hold', dead_letter_queue => 'letters');
SELECT count(*) FROM jobq.enqueue_many('skip', '["l1", "l2"]', group_keys => '{l,l}', max_attempts => 1);
SELECT take('skip'), failed('l1');
SELECT queue, job, state, group_key FROM jobs WHERE queue = 'letters' OR state <> 'completed';
CALL drain('skip', NULL);
-- and a group that is blocked by one has nothing to retry
SELECT count(*) FROM jobq.enqueue_many('hold', '["m1", "m2"]', group_keys => '{m,m}', max_attempts => 1);
SELECT take('hold'), failed('m1');
SELECT * FROM groups;
SELECT outcome($$SELECT jobq.unblock_group('hold', 'm')$$);
SELECT group_key, state FROM groups;
SELECT jobq.unblock_group('hold', 'm', 'skip');
CALL drain('hold', NULL);
CALL drain('letters', NULL);
SELECT jobq.alter_queue('skip', reset => '{dead_letter_queue}'), jobq.alter_queue('hold', reset => '{dead_letter_queue}');
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- fail and release of a job of a batch end the lease: it and those behind it go back to their places, those uncounted.
SELECT count(*) FROM jobq.enqueue_many('hold', '["n1", "n2", "n3", "n4", "n5"]', group_keys => '{n,n,n,n,n}');
SELECT take('hold', 4, 4), done('n1');
SELECT failed('n2', '0');
SELECT job, state, attempt, last_error FROM jobs WHERE group_key = 'n';
SELECT outcome(format('SELECT %s(%L)', verb, job)) FROM unnest('{done,failed,released,extended}'::text[]) verb, unnest('{n2,n3}'::text[]) job;
SELECT * FROM jobq.verify();
SELECT take('hold', 3, 3), released('n2');
SELECT job, state, attempt FROM jobs WHERE group_key = 'n';
SELECT take('hold', 10, 10), done('n2'), done('n3'), released('n4', '1 h');
SELECT * FROM groups;
SELECT take('hold');
SELECT jobq.run_now(ARRAY[id('n4')]);
SELECT take('hold', 10, 10), failed('n4');
SELECT jobq.run_now(ARRAY[id('n4')]);
-- out of attempts inside a batch: the rest waits behind it, or goes on
SELECT take('hold', 10, 10), failed('n4', retry => false);
SELECT job, state, attempt FROM jobs WHERE group_key = 'n';
SELECT jobq.unblock_group('hold', 'n', 'skip');
SELECT take('hold'), done('n5');
SELECT count(*) FROM jobq.enqueue_many('skip', '["o1", "o2", "o3"]', group_keys => '{o,o,o}', max_attempts => 1);
SELECT take('skip', 3, 3), failed('o1');
SELECT take('skip', 3, 3), done('o2'), done('o3');
-- a passed job of a batch
SELECT count(*) FROM jobq.enqueue_many('pass', '["p1", "p2", "p3"]', group_keys => '{p,p,p}');
SELECT take('pass', 3, 3), done('p1'), failed('p2', '1 h');
SELECT take('pass', 3, 3), done('p3');
SELECT jobq.run_now(ARRAY[id('p2')]);
CALL drain('pass', NULL);
SELECT * FROM left_over;
-- the many verbs: who stands behind one that failed or was released is told so
SELECT count(*) FROM jobq.enqueue_many('hold', '["q1", "q2", "q3", "r1", "r2", "s1", "s2"]', group_keys => '{q,q,q,r,r,s,s}');
SELECT take('hold', 10, 3);
SELECT h.job, s.status FROM jobq.fail_many((SELECT array_agg(job_id ORDER BY n DESC) FROM hand WHERE job IN ('q1', 'q3', 'r2', 's1')),
	(SELECT array_agg(token ORDER BY n DESC) FROM hand WHERE job IN ('q1', 'q3', 'r2', 's1')), 'broken', '0') s JOIN hand h USING (job_id) ORDER BY 1;
SELECT job, state, attempt FROM jobs WHERE group_key IN ('q', 'r', 's');
SELECT h.job, s.status FROM jobq.release_many((SELECT array_agg(job_id ORDER BY n DESC) FROM hand WHERE job ~ '^[qrs]'),
	(SELECT array_agg(token ORDER BY n DESC) FROM hand WHERE job ~ '^[qrs]')) s JOIN hand h USING (job_id) ORDER BY 1;
SELECT take('hold', 10, 3);
SELECT h.job, s.status FROM jobq.complete_many((SELECT array_agg(job_id ORDER BY job) FROM hand WHERE n > (SELECT max(n) - 7 FROM hand)),
	(SELECT array_agg(token ORDER BY job) FROM hand WHERE n > (SELECT max(n) - 7 FROM hand))) s JOIN (SELECT DISTINCT job, job_id FROM hand) h USING (job_id) ORDER BY 1;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- A lease that ends: the job in hand counts a failed attempt and stands where it stood, those behind it count none.
SELECT count(*) FROM jobq.enqueue_many('hold', '["t1", "t2", "t3", "t4"]', group_keys => '{t,t,t,t}');
SELECT take('hold', 3, 3, worker => 'gone', lease => '1 ms');
SELECT take('hold', wait => '30 s');
SELECT job, state, attempt, last_error FROM jobs WHERE group_key = 't';
SELECT failed, retried FROM counts WHERE queue = 'hold';
SELECT done('t1');
-- what was done of it before stays done
SELECT take('hold', 2, 2, lease => '200 ms'), done('t2');
SELECT take('hold', 2, 2, wait => '30 s');
SELECT job, state, attempt FROM jobs WHERE group_key = 't';
SELECT done('t3'), done('t4');
-- the holder that comes too late changes nothing
SELECT jobq.enqueue('hold', '"u1"', group_key => 'u') > 0 AS job;
SELECT job_id AS job, token AS old FROM jobq.dequeue('hold', lease => '1 ms') \gset
SELECT take('hold', wait => '30 s');
SELECT outcome(format('SELECT jobq.%s(%s, %s)', verb, :job, :old)) FROM unnest('{complete,fail,release,extend}'::text[]) verb;
SELECT outcome(format('SELECT jobq.complete_and_dequeue(%s, %s, ''hold'')', :job, :old));
SELECT max(token) > :old AS newer FROM hand WHERE job = 'u1';
SELECT done('u1');
-- the last attempt: dead, and the group is blocked or goes on
SELECT count(*) FROM jobq.enqueue_many('hold', '["v1", "v2"]', group_keys => '{v,v}', max_attempts => 1);
SELECT take('hold', 2, 2, lease => '1 ms');
CALL becomes_true($$SELECT state = 'BLOCKED' FROM jobq.groups WHERE group_key = 'v'$$);
SELECT * FROM groups;
SELECT job, state, attempt, last_error FROM jobs WHERE group_key = 'v';
SELECT jobq.unblock_group('hold', 'v', 'skip');
CALL drain('hold', NULL);
SELECT count(*) FROM jobq.enqueue_many('skip', '["w1", "w2"]', group_keys => '{w,w}', max_attempts => 1);
SELECT take('skip', 2, 2, lease => '1 ms');
SELECT take('skip', wait => '30 s'), done('w2');
SELECT payload, reason FROM jobq.dead_letters WHERE group_key = 'w';
-- pass
SELECT count(*) FROM jobq.enqueue_many('pass', '["x1", "x2"]', group_keys => '{x,x}');
SELECT take('pass', lease => '1 ms');
SELECT take('pass', wait => '30 s'), done('x2');
SELECT take('pass', wait => '30 s'), done('x1');
SELECT * FROM jobq.verify();
SELECT * FROM left_over;

-- Cancelled while it runs: it ends when it is given back, and the group goes on with the next.
SELECT count(*) FROM jobq.enqueue_many('hold', '["y1", "y2", "y3", "y4"]', group_keys => '{y,y,y,y}');
SELECT take('hold', 3, 3);
SELECT jobq.cancel(id('y1')), jobq.cancel(id('y3'));
SELECT extended('y1'), extended('y2'), extended('y3');
SELECT failed('y1');
SELECT job, state, attempt FROM jobs WHERE group_key = 'y';
SELECT take('hold'), released('y2');
SELECT jobq.cancel(id('y2'));
CALL drain('hold', NULL);
SELECT * FROM left_over;

-- A claim that is rolled back three times in a row counts as a failed attempt of the group's first job.
SELECT count(*) FROM jobq.enqueue_many('hold', '["z1", "z2"]', group_keys => '{z,z}');
DO $$
BEGIN
	FOR n IN 1 .. 3 LOOP
		PERFORM jobq.dequeue('hold');
		ROLLBACK;
	END LOOP;
END
$$;
CALL becomes_true('SELECT attempt = 1 FROM jobq.jobs WHERE payload = ''"z1"''');
SELECT job, state, attempt, last_error FROM jobs WHERE group_key = 'z';
SELECT group_key, state, pending, waits FROM groups;
SELECT * FROM jobq.verify();
SELECT jobq.run_now(ARRAY[id('z1')]);
CALL drain('hold', NULL);

SELECT * FROM counts;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();
