-- Groups in corner cases: what once went wrong, and goes right.
\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/groups.sql'
\set ECHO none
\i :setup
\set ECHO all
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '1 h');
-- a group's state and its jobs in line, in their order
CREATE VIEW in_line AS SELECT g.group_key, g.state, g.blocked_reason ~ 'dead' AS blocked, string_agg(l.job, ' ' ORDER BY l.ord) AS jobs
	FROM jobq.groups g LEFT JOIN (
		SELECT j.group_key, n.ord, payload #>> '{}' || CASE WHEN n.attempt > 0 THEN '(' || n.attempt || ')' ELSE '' END AS job
		FROM jobq.line n JOIN jobq.job j ON j.id = n.job_id) l USING (group_key)
	GROUP BY 1, 2, 3 ORDER BY 1;

-- A batch that is rolled back three times: its first job is to blame, in each group, and an attempt is counted for none but that.
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(g || n ORDER BY n, g) FROM unnest('{a,b,c,d,e,f}'::text[]) g, generate_series(1, 6) n),
	group_keys => (SELECT array_agg(g ORDER BY n, g) FROM unnest('{a,b,c,d,e,f}'::text[]) g, generate_series(1, 6) n));
BEGIN;
SELECT take('work', 36, 6);
ROLLBACK;
BEGIN;
SELECT take('work', 36, 6) \g /dev/null
ROLLBACK;
BEGIN;
SELECT take('work', 36, 6) \g /dev/null
ROLLBACK;
CALL becomes_true($$SELECT count(*) = 6 FROM jobq.failure$$);
SELECT * FROM in_line;
SELECT failed, retried FROM counts;
SELECT DISTINCT last_error FROM jobs;
SELECT * FROM jobq.verify();
SELECT jobq.purge_queue('work', '{ready}');
SELECT * FROM left_over;

-- A job fails for good, which will block its group, and somebody decides in the same transaction: the group goes on.
SELECT count(*) FROM jobq.enqueue_many('work', '["g1", "g2", "h1", "h2", "i1", "i2", "j1", "j2", "k1", "k2"]', group_keys => '{g,g,h,h,i,i,j,j,k,k}');
SELECT take('work', 5);
BEGIN;
SELECT failed('g1', retry => false), jobq.redrive('work', ARRAY[id('g1')]);
COMMIT;
BEGIN;
SELECT failed('h1', retry => false), jobq.delete_jobs(ARRAY[id('h1')]);
COMMIT;
BEGIN;
SELECT failed('i1', retry => false), jobq.purge_queue('work', '{dead}');
COMMIT;
BEGIN;
SELECT failed('j1', retry => false), jobq.unblock_group('work', 'j', 'retry');
COMMIT;
BEGIN;
SELECT failed('k1', retry => false), jobq.unblock_group('work', 'k', 'skip');
SELECT outcome($$SELECT jobq.unblock_group('work', 'k', 'skip')$$);
COMMIT;
SELECT * FROM in_line;
SELECT payload FROM jobq.dead_letters;
SELECT * FROM jobq.verify();
-- what is decided in a savepoint counts if that stays
SELECT count(*) FROM jobq.enqueue_many('work', '["s1", "s2", "t1", "t2"]', group_keys => '{s,s,t,t}', priority => 1, max_attempts => 1);
SELECT take('work', 2);
BEGIN;
SELECT failed('s1'), failed('t1');
SAVEPOINT a;
SELECT jobq.unblock_group('work', 's', 'retry'), jobq.redrive('work', ARRAY[id('t1')]);
SELECT outcome($$SELECT jobq.unblock_group('work', 's', 'skip')$$);
ROLLBACK TO a;
SELECT jobq.unblock_group('work', 's', 'skip');
SAVEPOINT b;
SELECT jobq.delete_jobs(ARRAY[id('t1')]);
ROLLBACK TO b;
COMMIT;
SELECT * FROM in_line WHERE group_key IN ('s', 't');
SELECT * FROM jobq.verify();
SELECT jobq.unblock_group('work', 't', 'retry');
SELECT take('work', 2), done('s2');
BEGIN;
SAVEPOINT a;
SELECT failed('t1');
RELEASE a;
SAVEPOINT b;
SELECT jobq.unblock_group('work', 't');
RELEASE b;
COMMIT;
SELECT take('work'), done('t1');
SELECT take('work'), done('t2');
-- another dead job of the group decides nothing
SELECT take('work', 5);
BEGIN;
SELECT failed('g1', retry => false), failed('k2', retry => false), jobq.redrive('work', ARRAY[id('k1')]);
COMMIT;
SELECT * FROM in_line WHERE state <> 'LEASED';
SELECT jobq.unblock_group('work', 'g', 'skip'), jobq.unblock_group('work', 'k', 'skip');
SELECT done('h2'), done('i2'), done('j1');
CALL drain('work', NULL);
SELECT jobq.purge_queue('work', '{dead}');
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- Settings of a group, and a resume of one that was never paused, leave alone what its first job waits for.
SELECT count(*) FROM jobq.enqueue_many('work', '["m1", "m2"]', group_keys => '{m,m}');
SELECT take('work'), failed('m1');
SELECT jobq.alter_group('work', 'm', weight => 2, lease => '1 min');
SELECT * FROM in_line;
SELECT jobq.resume_group('work', 'm');
SELECT jobq.alter_group('work', 'm', rate_limit => 10);
SELECT jobq.alter_group('work', 'm', reset => '{weight,lease,rate_limit}');
SELECT group_key, state, waits FROM groups;
SELECT take('work', 10);
SELECT jobq.cancel(id('m1')), jobq.cancel(id('m2'));
SELECT * FROM left_over;

-- A job that only gets another priority keeps its place, and its group its wait; one that is to run now ends the wait.
SELECT count(*) FROM jobq.enqueue_many('work', '["n1", "n2"]', group_keys => '{n,n}');
SELECT take('work'), failed('n1');
SELECT jobq.reschedule(id('n1'), priority => 5), jobq.reschedule(id('n2'), priority => 3);
SELECT * FROM in_line;
SELECT take('work');
SELECT jobq.reschedule(id('n2'), now());
SELECT group_key, state FROM groups;
SELECT jobq.reschedule(id('n1'), now(), 7);
SELECT * FROM in_line;
SELECT take('work', 2, 2), done('n1'), done('n2');

-- A rate: run_now does not count a group that waits for it, whatever else its first job waits for.
SELECT jobq.create_queue('rate', group_rate_limit => 1, group_rate_interval => '1 h', backoff => 'fixed', backoff_base => '2 h');
SELECT count(*) FROM jobq.enqueue_many('rate', '["r1", "r2", "s1"]', group_keys => '{r,r,s}');
SELECT take('rate', 10), done('r1'), failed('s1');
SELECT jobq.run_now(ARRAY[id('r2')]);
-- the backoff is over, the rate is not
SELECT jobq.run_now(ARRAY[id('s1')]), jobq.run_now(ARRAY[id('s1')]);
SELECT group_key, state, waits FROM groups;
-- A group's rate is eased: it holds at once, for who waits, is leased, or has no job at the moment.
SELECT count(*) FROM jobq.enqueue_many('rate', '["t1", "t2", "u1"]', group_keys => '{t,t,u}');
SELECT take('rate', 10), done('u1');
SELECT jobq.alter_group('rate', key, rate_limit => 1000000) FROM unnest('{r,t,u}'::text[]) key;
SELECT take('rate', wait => '30 s'), done('r2');
SELECT done('t1');
SELECT take('rate', wait => '30 s'), done('t2');
SELECT jobq.enqueue('rate', '"u2"', group_key => 'u') > 0 AS job;
SELECT take('rate', wait => '30 s'), done('u2');
SELECT group_key, state, waits FROM groups WHERE state <> 'IDLE';
-- no longer than that: a rate of a minute for one that has waited less than the hour
SELECT jobq.alter_group('rate', 's', rate_interval => '1 min');
SELECT group_key, wake_at - now() BETWEEN '50 s' AND '1 min' AS within_the_minute FROM jobq.groups WHERE group_key = 's';
-- made stricter, it holds from the next start on
SELECT jobq.alter_group('rate', 's', rate_interval => '1 day');
SELECT group_key, wake_at - now() BETWEEN '50 s' AND '1 min' AS within_the_minute FROM jobq.groups WHERE group_key = 's';
-- eased for the queue: who waits goes on waiting, until its settings are looked at
SELECT jobq.alter_group('rate', 's', reset => '{rate_interval}');
SELECT jobq.alter_queue('rate', reset => '{group_rate_limit,group_rate_interval}');
SELECT group_key, state FROM groups WHERE state <> 'IDLE';
SELECT jobq.alter_group('rate', 's');
SELECT take('rate'), done('s1');

-- The failures of a job that is cancelled in the tail of a batch go with it: into its history, or away.
SELECT jobq.create_queue('kept', on_retry => 'pass'), jobq.create_queue('gone', on_retry => 'pass', keep_completed => '0');
SELECT q, count(*) FROM unnest('{kept,gone}'::text[]) q, jobq.enqueue_many(q, jsonb_build_array(q || 1, q || 2), group_keys => '{g,g}') GROUP BY 1 ORDER BY 1;
SELECT take('kept'), failed('kept1', '0'), take('gone'), failed('gone1', '0');
SELECT take('kept', 2, 2), take('gone', 2, 2);
SELECT jobq.cancel(id('kept1')), jobq.cancel(id('gone1'));
SELECT released('kept2'), released('gone2');
SELECT job, state, attempt, last_error FROM jobs WHERE queue IN ('kept', 'gone');
SELECT f.value ->> 'error' AS failure FROM jobq.job(id('kept1')), jsonb_array_elements(failures) f;
SELECT * FROM jobq.failure;
CALL drain('kept', NULL);
CALL drain('gone', NULL);

SELECT * FROM left_over;
SELECT * FROM jobq.verify();
