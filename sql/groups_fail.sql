-- What becomes of a group when its job fails, is given back, or its lease ends.
\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/groups.sql'
\set ECHO none
\i :setup
\set ECHO all
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
