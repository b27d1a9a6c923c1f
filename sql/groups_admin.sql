-- Verbs about a group: pause, alter, and hand over; and about jobs that stand in its line.
\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/groups.sql'
\set ECHO none
\i :setup
\set ECHO all
CREATE VIEW settings AS SELECT q.name AS queue, s.group_key, s.weight, s.lease, s.rate_limit, s.rate_interval, s.paused
	FROM jobq.group_setting s JOIN jobq.queue q ON q.id = s.queue_id ORDER BY 1, 2;
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '1 h');

-- pause_group: nothing of the group is given out, whatever else goes on; what joins it waits.
SELECT count(*) FROM jobq.enqueue_many('work', '["a1", "a2", "b1"]', group_keys => '{a,a,b}');
SELECT jobq.pause_group('work', 'a');
SELECT * FROM groups ORDER BY 2;
SELECT * FROM settings;
SELECT explained('a1');
SELECT explained('a2');
SELECT take('work', 10), done('b1');
SELECT jobq.enqueue('work', '"a3"', group_key => 'a') > 0 AS job;
SELECT take('work', 10);
-- twice is once; resumed, it goes on where it was, and leaves no settings
SELECT jobq.pause_group('work', 'a');
SELECT group_key, state, pending, blocked_reason FROM groups;
SELECT * FROM jobq.verify();
SELECT jobq.resume_group('work', 'a');
SELECT jobq.resume_group('work', 'a');
SELECT * FROM groups;
SELECT * FROM settings;
-- during a lease: that finishes, nothing follows
SELECT take('work', 2, 2);
SELECT jobq.pause_group('work', 'a');
SELECT * FROM groups;
SELECT extended('a1'), done('a1');
SELECT take('work'), extended('a2');
SELECT done('a2');
SELECT * FROM groups;
SELECT take('work');
SELECT jobq.resume_group('work', 'a');
SELECT take('work'), done('a3');
SELECT * FROM left_over;
-- during a lease that is given back, or fails: it stands at its place, and the wait is over with the pause
SELECT count(*) FROM jobq.enqueue_many('work', '["a4", "a5"]', group_keys => '{a,a}');
SELECT take('work');
SELECT jobq.pause_group('work', 'a');
SELECT released('a4', '1 h');
SELECT * FROM groups;
SELECT jobq.resume_group('work', 'a');
SELECT take('work');
SELECT jobq.pause_group('work', 'a');
SELECT failed('a4');
SELECT * FROM groups;
SELECT jobq.run_now(ARRAY[id('a4')]);
SELECT take('work');
SELECT jobq.resume_group('work', 'a');
SELECT take('work'), released('a4', '1 h');
-- while it waits for its first job
SELECT state, waits FROM groups;
SELECT jobq.pause_group('work', 'a');
SELECT state, waits, blocked_reason FROM groups;
SELECT jobq.resume_group('work', 'a');
SELECT state, waits, blocked_reason FROM groups;
SELECT take('work'), done('a4');
-- a lease that ends in a pause
SELECT take('work', lease => '1 ms');
SELECT jobq.pause_group('work', 'a');
CALL becomes_true($$SELECT state = 'BLOCKED' FROM groups$$);
SELECT job, state, attempt FROM jobs WHERE group_key = 'a' AND state <> 'completed';
SELECT jobq.resume_group('work', 'a');
SELECT take('work'), done('a5');
-- one that has no jobs, or was never seen; the first job finds it paused, a delayed one too
SELECT jobq.pause_group('work', 'c');
SELECT * FROM groups;
SELECT jobq.enqueue('work', '"c1"', group_key => 'c') > 0 AS job;
SELECT jobq.enqueue('work', '"c2"', group_key => 'c', delay => '1 ms') > 0 AS job;
CALL becomes_true($$SELECT pending = 2 FROM groups$$);
SELECT * FROM groups;
SELECT take('work');
-- without jobs again it is idle, and paused all the same
SELECT jobq.cancel(id('c1')), jobq.delete_jobs(ARRAY[id('c2')]);
SELECT * FROM groups;
SELECT * FROM left_over;
SELECT jobq.enqueue('work', '"c3"', group_key => 'c') > 0 AS job;
SELECT take('work');
SELECT jobq.resume_group('work', 'c');
SELECT take('work'), done('c3');
SELECT jobq.resume_group('work', 'never seen');
-- rolled back
SELECT jobq.enqueue('work', '"c4"', group_key => 'c') > 0 AS job;
BEGIN;
SELECT jobq.pause_group('work', 'c');
ROLLBACK;
SELECT state FROM groups;
BEGIN;
SELECT jobq.pause_group('work', 'c');
SELECT take('work');
SELECT jobq.resume_group('work', 'c');
COMMIT;
CALL becomes_true($$SELECT state = 'READY' FROM jobq.groups$$);
SELECT take('work'), done('c4');
-- enqueued and paused in one transaction
BEGIN;
SELECT jobq.enqueue('work', '"c5"', group_key => 'c') > 0 AS job;
SELECT jobq.pause_group('work', 'c');
COMMIT;
SELECT state, blocked_reason, take('work') FROM groups;
BEGIN;
SELECT jobq.enqueue('work', '"c6"', group_key => 'c') > 0 AS job;
SELECT jobq.resume_group('work', 'c');
COMMIT;
CALL drain('work', NULL);
-- blocked and paused: one does not undo the other
SELECT count(*) FROM jobq.enqueue_many('work', '["d1", "d2"]', group_keys => '{d,d}', max_attempts => 1);
SELECT take('work'), failed('d1');
SELECT jobq.pause_group('work', 'd');
SELECT state, blocked_reason FROM groups;
SELECT jobq.resume_group('work', 'd');
SELECT state, blocked_reason, take('work') FROM groups;
SELECT jobq.pause_group('work', 'd');
SELECT jobq.unblock_group('work', 'd', 'retry');
SELECT state, pending, blocked_reason, take('work') FROM groups;
SELECT outcome($$SELECT jobq.unblock_group('work', 'd')$$);
SELECT jobq.resume_group('work', 'd');
SELECT take('work'), failed('d1');
SELECT jobq.pause_group('work', 'd');
SELECT jobq.unblock_group('work', 'd', 'skip');
SELECT state, pending, blocked_reason, take('work') FROM groups;
SELECT jobq.resume_group('work', 'd');
CALL drain('work', NULL);
-- a group of that name in another queue has nothing to do with it
SELECT jobq.create_queue('other');
SELECT jobq.pause_group('work', 'e');
SELECT jobq.enqueue('other', '"e1"', group_key => 'e') > 0 AS job;
SELECT take('other'), done('e1');
SELECT jobq.resume_group('work', 'e');
SELECT verb, args, outcome(format('SELECT jobq.%s(%s)', verb, args)) FROM unnest('{pause_group,resume_group}'::text[]) verb,
	unnest(ARRAY[$$'no such', 'a'$$, $$'work', ''$$, $$'work', repeat('x', 257)$$, $$'work', NULL$$, $$NULL, 'a'$$]) args;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- alter_group: NULL leaves a setting as it is, reset gives it back to the queue; only what says something is kept.
SELECT jobq.alter_group('work', 'w', weight => 3);
SELECT jobq.alter_group('work', 'w', lease => '2 min', rate_limit => 5, rate_interval => '1 min');
SELECT jobq.alter_group('work', 'w', rate_limit => 6);
SELECT * FROM settings;
SELECT * FROM groups;
SELECT jobq.alter_group('work', 'w', lease => '3 min', reset => '{weight,rate_limit}');
SELECT * FROM settings;
SELECT jobq.alter_group('work', 'w'), jobq.alter_group('work', 'nothing');
SELECT * FROM settings;
SELECT jobq.alter_group('work', 'w', reset => '{weight,lease,rate_limit,rate_interval}');
SELECT count(*) FROM settings;
SELECT args, outcome('SELECT jobq.alter_group(' || args || ')') FROM unnest(ARRAY[$$'no such', 'a'$$, $$NULL, 'a'$$, $$'work', NULL$$, $$'work', ''$$, $$'work', repeat('x', 257)$$,
	$$'work', 'a', weight => 0$$, $$'work', 'a', weight => 65$$, $$'work', 'a', weight => -1$$, $$'work', 'a', lease => '0'$$, $$'work', 'a', lease => '-1 s'$$,
	$$'work', 'a', lease => '31 days'$$, $$'work', 'a', rate_limit => 0$$, $$'work', 'a', rate_limit => -5$$, $$'work', 'a', rate_interval => '0'$$, $$'work', 'a', rate_interval => '-1 s'$$,
	$$'work', 'a', reset => '{speed}'$$, $$'work', 'a', reset => '{paused}'$$, $$'work', 'a', reset => '{NULL}'$$, $$'work', 'a', weight => 2, reset => '{weight}'$$,
	$$'work', 'a', reset => NULL$$]) args;
SELECT count(*) FROM settings;
-- rolled back
BEGIN;
SELECT jobq.alter_group('work', 'w', weight => 3);
ROLLBACK;
SELECT count(*) FROM settings;
-- weight: jobs in a turn, for each that the worker asks for; never more than it can take, nor than a lease holds
SELECT jobq.alter_group('work', 'w', weight => 3);
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg('w' || n) FROM generate_series(1, 100) n), group_keys => (SELECT array_agg('w'::text) FROM generate_series(1, 100) n));
SELECT count(*) FROM jobq.enqueue_many('work', '["v1", "v2", "v3"]', group_keys => '{v,v,v}');
SELECT take('work', 10);
SELECT done('v1');
SELECT done('w1'), done('w2'), done('w3');
SELECT take('work', 2);
SELECT done('v2');
SELECT done('w4');
SELECT take('work', 10, 2);
SELECT done('v3'), released('w5');
SELECT jobq.alter_group('work', 'w', weight => 64);
SELECT cardinality(string_to_array(take('work', 100, 64), ' ')) AS jobs;
SELECT released('w5');
SELECT jobq.alter_group('work', 'w', reset => '{weight}');
SELECT take('work', 100), done('w5');
SELECT jobq.purge_queue('work');
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- How long a lease of a group lasts: the call's time, else the group's, else the queue's for groups, else the queue's; the same for extend.
CREATE FUNCTION lasts(queue text, lease interval DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	job record;
	extended text;
BEGIN
	SELECT * INTO STRICT job FROM jobq.dequeue(queue, lease => lease);
	PERFORM jobq.extend(job.job_id, job.token);
	SELECT date_trunc('minute', j.lease_until - clock_timestamp() + interval '5 s') INTO extended FROM jobq.job(job.job_id) j;
	PERFORM jobq.release(job.job_id, job.token);
	RETURN date_trunc('minute', job.lease_until - clock_timestamp() + interval '5 s') || ', then ' || extended;
END
$$;
SELECT jobq.create_queue('tiers', lease => '2 min');
SELECT jobq.enqueue('tiers', '"t1"', group_key => 't') > 0 AS job;
SELECT lasts('tiers');
SELECT jobq.alter_queue('tiers', group_lease => '4 min');
SELECT lasts('tiers');
SELECT jobq.alter_group('tiers', 't', lease => '6 min');
SELECT lasts('tiers');
SELECT lasts('tiers', '9 min');
SELECT jobq.alter_group('tiers', 't', reset => '{lease}');
SELECT lasts('tiers');
SELECT jobq.alter_queue('tiers', reset => '{group_lease}');
SELECT lasts('tiers');
CALL drain('tiers', NULL);
-- jobs of no group have the queue's own
SELECT jobq.alter_queue('tiers', group_lease => '4 min');
SELECT jobq.enqueue('tiers', '"free"') > 0 AS job;
SELECT lasts('tiers');
CALL drain('tiers', NULL);
-- run timeouts of a batch add up: they run one after the other
SELECT count(*) FROM jobq.enqueue_many('tiers', '["t2", "t3", "t4"]', group_keys => '{t,t,t}', timeout => '1 h');
SELECT payload, deadline - now() BETWEEN '3 h' AND '3 h 10 s' AS three_hours FROM jobq.dequeue('tiers', 3, group_batch => 3);
SELECT jobq.drop_queue('tiers', force => true);

-- cancel of a job in line: it never starts, the others move up, and with the last one the group is gone.
SELECT count(*) FROM jobq.enqueue_many('work', '["f1", "f2", "f3", "f4"]', group_keys => '{f,f,f,f}');
SELECT jobq.cancel(id('f1')), jobq.cancel(id('f3'));
SELECT jobq.cancel(id('f1'));
SELECT group_key, state, pending FROM groups;
SELECT job, state, attempt FROM jobs WHERE group_key = 'f';
SELECT * FROM jobq.verify();
SELECT take('work'), jobq.cancel(id('f4')), jobq.cancel(id('f2'));
SET client_min_messages = warning; -- the notice names the job
SELECT done('f2');
RESET client_min_messages;
SELECT * FROM left_over;
SELECT count(*) FROM jobq.enqueue_many('work', '["g1", "g2"]', group_keys => '{g,g}');
BEGIN;
SELECT jobq.cancel(id('g1')), jobq.cancel(id('g2'));
ROLLBACK;
SELECT group_key, state, pending FROM groups;
SELECT jobq.cancel(id('g1')), jobq.cancel(id('g2'));
SELECT * FROM left_over;
SELECT completed, ready FROM counts WHERE queue = 'work';
-- a cancelled first job takes the wait along that was its own
SELECT count(*) FROM jobq.enqueue_many('work', '["h1", "h2", "h3"]', group_keys => '{h,h,h}');
SELECT take('work'), failed('h1');
SELECT jobq.cancel(id('h2'));
SELECT group_key, state, pending, waits FROM groups;
SELECT jobq.cancel(id('h1'));
SELECT group_key, state, pending, waits FROM groups;
SELECT take('work'), failed('h3');
SELECT jobq.cancel(id('h3'));
SELECT * FROM left_over;
-- delete_jobs
SELECT count(*) FROM jobq.enqueue_many('work', '["i1", "i2", "i3"]', group_keys => '{i,i,i}');
SELECT take('work');
SELECT jobq.delete_jobs(ARRAY[id('i1'), id('i2')]);
SELECT done('i1');
SELECT take('work'), failed('i3');
SELECT group_key, state, pending, waits FROM groups;
SELECT jobq.delete_jobs(ARRAY[id('i3')]);
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- reschedule: a priority is the job's, and its group's once it is the first and the ticket is written anew; a later start leaves the line.
SELECT count(*) FROM jobq.enqueue_many('work', '["j1", "j2", "j3", "j4", "j5"]', group_keys => '{j,j,j,j,j}');
SELECT jobq.reschedule(id('j3'), priority => 5);
SELECT jobq.reschedule(id('j2'), now() + interval '1 h');
SELECT jobq.reschedule(id('j4'), now() - interval '1 h');
SELECT jobq.reschedule(id('j5'), now(), 7);
SELECT j.job, j.state, j.waits, p.priority FROM jobs j JOIN jobq.jobs p ON p.payload = to_jsonb(j.job) WHERE j.group_key = 'j' ORDER BY 1;
SELECT group_key, state, pending FROM groups;
SELECT * FROM jobq.verify();
SELECT jobq.enqueue('work', '"urgent"', priority => 4, group_key => 'u') > 0 AS job;
SELECT take('work', 2);
SELECT outcome(format('SELECT jobq.reschedule(%s, priority => 1)', id('j1')));
SELECT done('j1');
SELECT jobq.enqueue('work', '"less urgent"', priority => 6, group_key => 'l') > 0 AS job;
SELECT done('urgent');
CALL drain('work', NULL);
SELECT jobq.enqueue('work', '"j6"', group_key => 'j') > 0 AS job;
SELECT jobq.run_now(ARRAY[id('j2')]);
CALL drain('work', NULL);
-- the first and only one: its group is idle until then
SELECT jobq.enqueue('work', '"k1"', group_key => 'k') > 0 AS job;
SELECT jobq.reschedule(id('k1'), now() + interval '1 h');
SELECT * FROM left_over;
SELECT jobq.reschedule(id('k1'), now());
SELECT group_key, state FROM groups;
CALL drain('work', NULL);
SELECT * FROM jobq.verify();

-- drain_worker: a worker that leaves hands its groups over, so many at a time; attempts stay, and so does the order.
SELECT jobq.create_queue('ships');
SELECT count(*) FROM jobq.enqueue_many('ships', (SELECT jsonb_agg(format('s%s.%s', g, n) ORDER BY n, g) FROM generate_series(1, 20) g, generate_series(1, 3) n),
	group_keys => (SELECT array_agg('s' || g ORDER BY n, g) FROM generate_series(1, 20) g, generate_series(1, 3) n));
SELECT jobq.enqueue('ships', '"free"') > 0 AS job;
SELECT cardinality(string_to_array(take('ships', 41, 2, worker => 'old', lease => '10 min'), '|')) AS leases;
SELECT jobq.drain_worker('old', 5, '1 h');
SELECT state, count(*), min(holder) AS holder FROM jobq.groups GROUP BY 1 ORDER BY 1;
SELECT worker, leases, draining FROM jobq.workers;
SELECT extended('free');
SELECT answer, count(*) FROM (SELECT extended('s' || g || '.1') AS answer FROM generate_series(1, 20) g) e GROUP BY 1 ORDER BY 1;
-- asked again, no more of them at a time
SELECT jobq.drain_worker('old', 5, '1 h');
SELECT state, count(*) FROM jobq.groups GROUP BY 1 ORDER BY 1;
-- the job in hand is finished, and the rest of the batch goes back as it was
CREATE TABLE leaving AS SELECT group_key, group_key || '.1' AS job FROM jobq.groups WHERE state = 'MIGRATING';
SELECT explained(job) ~ 'its lease ends' AS active FROM leaving LIMIT 1;
SELECT count(*), bool_and(done(job)) FROM leaving;
SELECT state, pending, count(*) FROM jobq.groups GROUP BY 1, 2 ORDER BY 1;
SELECT j.state, j.attempt, count(*) FROM jobs j JOIN leaving USING (group_key) WHERE j.queue = 'ships' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT outcome(format('SELECT done(%L)', group_key || '.2')) FROM leaving LIMIT 1;
SELECT jobq.drain_worker('old', 5, '1 h');
SELECT state, count(*) FROM jobq.groups GROUP BY 1 ORDER BY 1;
SELECT * FROM jobq.verify();
-- step by step without being asked, to the end
SELECT jobq.drain_worker('old', 5, '1 ms');
CREATE PROCEDURE hand_over() LANGUAGE plpgsql AS $$
DECLARE
	most int := 0;
	marked int;
	until timestamptz := clock_timestamp() + interval '30 s';
BEGIN
	WHILE EXISTS (SELECT FROM jobq.groups WHERE holder = 'old') LOOP
		ASSERT clock_timestamp() < until, 'never handed over';
		SELECT count(*) INTO marked FROM jobq.groups WHERE state = 'MIGRATING';
		most := greatest(most, marked);
		PERFORM done(group_key || '.1') FROM jobq.groups WHERE state = 'MIGRATING' ORDER BY group_key LIMIT 1;
		COMMIT;
		PERFORM pg_sleep(0.005);
	END LOOP;
	RAISE NOTICE 'at most % at a time', most;
END
$$;
CALL hand_over();
SELECT state, pending, count(*) FROM jobq.groups GROUP BY 1, 2;
CALL becomes_true('SELECT count(*) = 0 FROM jobq.drain');
SELECT jobq.drain_worker('old');
SELECT worker, leases, draining FROM jobq.workers;
SELECT done('free');
DELETE FROM hand;
SELECT cardinality(string_to_array(take('ships', 100, worker => 'new'), '|')) AS leases;
SELECT count(*) FILTER (WHERE job ~ '\.2$') AS second_jobs, count(*) FROM hand;
SELECT state, holder, count(*) FROM jobq.groups GROUP BY 1, 2;
-- a lease that is draining and given back, or fails, or ends, is over like any other
SELECT jobq.drain_worker('new', 100);
SELECT released('s1.2'), failed('s2.2', '0'), done('s3.2');
SELECT state, count(*) FROM jobq.groups WHERE group_key IN ('s1', 's2', 's3') GROUP BY 1;
SELECT jobq.drop_queue('ships', force => true);
CALL becomes_true('SELECT count(*) = 0 FROM jobq.drain');
SELECT jobq.drain_worker('nobody'), (SELECT count(*) FROM jobq.drain) AS requests;
SELECT args, outcome('SELECT jobq.drain_worker(' || args || ')') FROM unnest(ARRAY['NULL', $$''$$, $$repeat('x', 257)$$, $$'w', 0$$, $$'w', -1$$, $$'w', 10001$$, $$'w', 5, '0'$$, $$'w', 5, '-1 s'$$,
	$$'w', NULL, NULL$$]) args;
-- rolled back, nobody is asked for anything
SELECT jobq.enqueue('work', '"m1"', group_key => 'm') > 0 AS job;
SELECT take('work', worker => 'stays');
BEGIN;
SELECT jobq.drain_worker('stays');
ROLLBACK;
SELECT extended('m1'), done('m1');
-- who is asked to hand over and completes with complete_and_dequeue lets go, too
SELECT count(*) FROM jobq.enqueue_many('work', '["m2", "m3"]', group_keys => '{m,m}');
SELECT take('work', worker => 'leaves');
SELECT jobq.drain_worker('leaves');
SELECT count(d.job_id) FROM (SELECT * FROM hand ORDER BY n DESC LIMIT 1) h, jobq.complete_and_dequeue(h.job_id, h.token, 'work', worker => 'leaves') d;
SELECT group_key, state, holder FROM groups;
CALL drain('work', NULL);

-- A copy of a database that is adopted has its groups as they were, the leased ones ready again.
SELECT count(*) FROM jobq.enqueue_many('work', '["n1", "n2", "n3", "o1", "p1"]', group_keys => '{n,n,n,o,p}');
SELECT take('work', 3, 2), done('n1');
SELECT jobq.pause_group('work', 'p');
UPDATE jobq.identity SET id = gen_random_uuid();
SELECT outcome($$SELECT count(*) FROM jobq.dequeue('work')$$);
-- the tokens of the original's workers do nothing here
SELECT verb, outcome(format('SELECT jobq.%s(job_id, token%s) FROM hand WHERE job = ''n2''', verb, args)) FROM (VALUES ('complete', ''), ('fail', ''), ('release', ''), ('extend', ''),
	('progress', ', ''1'''), ('assert_lease', ''), ('ack', ''), ('nack', '')) v (verb, args);
SELECT verb, outcome(format('SELECT count(*) FROM jobq.%s(ARRAY(SELECT job_id FROM hand WHERE job = ''n2''), ARRAY(SELECT token FROM hand WHERE job = ''n2''))', verb))
	FROM unnest('{complete_many,fail_many,release_many,extend_many}'::text[]) verb;
SELECT jobq.enqueue('work', '"n4"', group_key => 'n') > 0 AS job;
SELECT jobq.adopt();
SELECT outcome($$SELECT done('n2')$$);
SELECT * FROM groups ORDER BY 2;
SELECT job, state, attempt FROM jobs WHERE group_key IN ('n', 'o', 'p') AND state <> 'completed';
SELECT * FROM jobq.verify();
CALL drain('work', NULL);
SELECT jobq.resume_group('work', 'p');
CALL drain('work', NULL);

SELECT count(*) FROM settings;
SELECT * FROM counts;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();
