-- Ordered groups: one job at a time in the order of the commits, groups beside each other.
\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/groups.sql'
\set ECHO none
\i :setup
\set ECHO all

-- In a group the jobs run in their order, one at a time; other groups and jobs without one run beside it.
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '1 h');
SELECT count(*) FROM jobq.enqueue_many('work', '["a1", "a2", "a3", "b1", "b2", "free", "c1"]', group_keys => '{a,a,a,b,b,NULL,c}');
SELECT * FROM groups;
SELECT * FROM jobs;
SELECT * FROM counts;
SELECT string_agg(job, ' ' ORDER BY job) FROM (SELECT take('work') AS job FROM generate_series(1, 5) n) t;
SELECT * FROM groups;
SELECT done('a1');
SELECT take('work'), take('work');
SELECT done('b1'), done('a2');
SELECT take('work', 10);
SELECT done(job) FROM unnest('{a3,b2,c1,free}'::text[]) job;
-- a group without jobs leaves nothing behind
SELECT * FROM groups;
SELECT * FROM left_over;
SELECT * FROM counts;
-- what dequeue says of a job, and what is known of it afterwards
SELECT jobq.enqueue('work', '"told"', 'mail', 7, group_key => 'told', headers => '{"h": 1}') AS job \gset
SELECT token, job_id = :job AS it, group_key, name, priority, attempt, headers FROM jobq.dequeue('work', worker => 'w') \gset
SELECT :'it' AS it, :'group_key' AS group_key, :'name' AS name, :'priority' AS priority, :'attempt' AS attempt, :'headers' AS headers;
SELECT state, group_key, worker, attempt FROM jobq.job(:job);
SELECT jobq.extend(:job, :token), jobq.progress(:job, :token, '1'), jobq.assert_lease(:job, :token);
SELECT jobq.complete(:job, :token, '"result"'), jobq.complete(:job, :token);
SELECT state, group_key, worker, result, progress FROM jobq.job(:job);
SELECT outcome(format('SELECT jobq.%s(%s, %s)', verb, :job, :token)) FROM unnest('{fail,release,extend,assert_lease}'::text[]) verb;
SELECT outcome(format('SELECT jobq.complete(%s, %s)', :job, :token + 1));
SELECT * FROM jobq.verify();

-- Ten ready jobs of one group are one to take; a batch of them is one lease, in order, and only when asked for.
SELECT jobq.create_queue('batch');
SELECT count(*) FROM jobq.enqueue_many('batch', (SELECT jsonb_agg('A' || n) FROM generate_series(1, 10) n), group_keys => (SELECT array_agg('a'::text) FROM generate_series(1, 10) n));
SELECT take('batch', 10), take('batch', 10);
SELECT done('A1');
SELECT take('batch', 10, 4);
SELECT count(*) AS leases, min(cardinality(job_ids)) AS jobs, bool_and(ords[1] < ords[2] AND ords[2] < ords[3] AND ords[3] < ords[4]) AS in_order FROM jobq.lease;
SELECT * FROM groups;
-- in order, and nothing else
SELECT outcome($$SELECT done('A3')$$);
SELECT outcome($$SELECT failed('A4')$$);
SELECT outcome($$SELECT released('A5')$$);
SELECT done('A2'), extended('A4'), done('A2');
SELECT outcome($$SELECT done('A4')$$);
SELECT job, attempt, state FROM jobs WHERE queue = 'batch' AND state = 'active';
SELECT done('A3'), done('A4');
SELECT take('batch', 10) AS not_before_the_last;
SELECT done('A5');
-- never more than asked for in all, whichever bounds it; a batch no longer than the line
SELECT take('batch', 2, 64);
SELECT done('A6'), done('A7');
SELECT count(*) FROM jobq.enqueue_many('batch', '["B1", "B2", "B3", "u1", "u2"]', group_keys => '{b,b,b,NULL,NULL}');
SELECT take('batch', 10, 2);
SELECT done('A8'), done('A9');
SELECT done('B1'), done('B2'), done('u1'), done('u2');
SELECT take('batch', 100, 64);
SELECT done('A10'), done('B3');
-- many verbs: in whatever order they are named, jobs of a group end in their own; the others are told
SELECT count(*) FROM jobq.enqueue_many('batch', '["C1", "C2", "C3", "C4", "D1", "D2"]', group_keys => '{c,c,c,c,d,d}');
SELECT take('batch', 10, 4);
SELECT h.job, s.status FROM jobq.complete_many((SELECT array_agg(job_id ORDER BY n DESC) FROM hand WHERE job IN ('C1', 'C2', 'C4', 'D2')),
	(SELECT array_agg(token ORDER BY n DESC) FROM hand WHERE job IN ('C1', 'C2', 'C4', 'D2'))) s JOIN hand h USING (job_id) ORDER BY 1;
SELECT job, state FROM jobs WHERE queue = 'batch' AND job ~ '^[CD]' ORDER BY 1;
SELECT h.job, s.status FROM jobq.complete_many((SELECT array_agg(job_id ORDER BY n DESC) FROM hand WHERE job ~ '^[CD]'),
	(SELECT array_agg(token ORDER BY n DESC) FROM hand WHERE job ~ '^[CD]')) s JOIN hand h USING (job_id) ORDER BY 1;
SELECT h.job, s.status FROM jobq.complete_many((SELECT array_agg(job_id ORDER BY n DESC) FROM hand WHERE job ~ '^[CD]'),
	(SELECT array_agg(token ORDER BY n DESC) FROM hand WHERE job ~ '^[CD]')) s JOIN hand h USING (job_id) ORDER BY 1;
SELECT * FROM left_over;
-- complete_and_dequeue: the next job is one of a group that waits, else of its own, under a new lease
SELECT count(*) FROM jobq.enqueue_many('batch', '["E1", "F1", "E2", "E3", "E4"]', group_keys => '{e,f,e,e,e}');
SELECT payload, job_id, token FROM jobq.complete_and_dequeue(NULL, NULL, 'batch') \gset
SELECT payload, job_id, token > :token AS newer, token FROM jobq.complete_and_dequeue(:job_id, :token, 'batch', group_batch => 2) \gset
SELECT :'payload' AS payload, :'newer' AS newer;
SELECT min(payload::text) AS first, min(job_id) AS job_id, max(job_id) AS last_id, min(token) AS token, count(*) FROM jobq.complete_and_dequeue(:job_id, :token, 'batch', max_jobs => 10, group_batch => 2) \gset
SELECT :'first' AS first, :'count' AS count;
SELECT outcome(format('SELECT count(*) FROM jobq.complete_and_dequeue(%s, %s, ''batch'')', :last_id, :token));
-- not before the batch is done
SELECT payload FROM jobq.complete_and_dequeue(:job_id, :token, 'batch');
SELECT payload, job_id, token > :token AS newer, token FROM jobq.complete_and_dequeue(:last_id, :token, 'batch') \gset
SELECT :'payload' AS payload, :'newer' AS newer;
SELECT group_key, state, pending FROM groups;
SELECT outcome(format('SELECT jobq.complete(%s, %s)', :last_id, :token));
SELECT payload FROM jobq.complete_and_dequeue(:job_id, :token, 'batch');
SELECT * FROM left_over;
SELECT n, outcome('SELECT count(*) FROM jobq.dequeue(''batch'', group_batch => ' || n || ')') FROM unnest('{0,-1,65,"NULL",64}'::text[]) n;

-- A group has one ticket and one turn however many jobs it has; who waits longest comes first.
SELECT jobq.create_queue('turns');
SELECT count(*) FROM jobq.enqueue_many('turns', (SELECT jsonb_agg('big' || n) FROM generate_series(1, 1000) n), group_keys => (SELECT array_agg('big'::text) FROM generate_series(1, 1000) n));
SELECT count(*) FROM jobq.enqueue_many('turns', '["x1", "x2", "y1"]', group_keys => '{x,x,y}');
SELECT count(*) FROM jobq.enqueue_many('turns', '["big1001"]', group_keys => '{big}');
SELECT count(*) AS tickets FROM jobq.ready WHERE group_id > 0;
SELECT group_key, state, pending FROM groups WHERE queue = 'turns' ORDER BY 1;
DO $$
DECLARE
	job record;
	came text[];
BEGIN
	FOR n IN 1 .. 7 LOOP
		SELECT * INTO STRICT job FROM jobq.dequeue('turns');
		came := came || (job.payload #>> '{}');
		PERFORM jobq.complete(job.job_id, job.token);
		COMMIT;
	END LOOP;
	RAISE NOTICE '%', came;
END
$$;
SELECT jobq.drop_queue('turns', force => true);
SELECT * FROM left_over;

-- The group's ticket has the priority of its first job; inside the group priority says nothing.
SELECT jobq.create_queue('prio');
SELECT jobq.enqueue('prio', to_jsonb(job), priority => priority, group_key => left(job, 1)) > 0 AS job
	FROM (VALUES ('a1', 50), ('a2', 10), ('b1', 20), ('b2', 60), ('c1', 55)) j (job, priority);
SELECT jobq.enqueue('prio', '"free"', priority => 30) > 0 AS job;
CALL drain('prio', NULL);

-- A job is taken once its enqueue has committed; its own transaction sees it in its place.
BEGIN;
SELECT jobq.enqueue('work', '"own"', group_key => 'own') AS job \gset
SELECT job, state, attempt, group_key FROM jobs WHERE job = 'own';
SELECT state FROM jobq.job(:job);
SELECT jobq.explain_job(:job);
SELECT count(*) FROM jobq.line;
SELECT take('work', 10);
SELECT * FROM jobq.verify();
COMMIT;
SELECT take('work', 10), done('own');
-- enqueued, then cancelled, moved, deleted, in one transaction
BEGIN;
SELECT jobq.enqueue('work', '"one"', group_key => 'own') AS one, jobq.enqueue('work', '"two"', group_key => 'own') AS two,
	jobq.enqueue('work', '"three"', group_key => 'own') AS three, jobq.enqueue('work', '"four"', group_key => 'own') AS four \gset
SELECT jobq.cancel(:one), jobq.delete_jobs(ARRAY[:three]), jobq.reschedule(:two, now() + interval '1 h'), jobq.reschedule(:four, priority => 3);
SELECT job, state FROM jobs WHERE group_key = 'own' ORDER BY 1;
SELECT * FROM jobq.verify();
COMMIT;
SELECT j.job, j.state, p.priority, waits FROM jobs j JOIN jobq.jobs p ON p.payload = to_jsonb(j.job) WHERE j.group_key = 'own' AND j.job <> 'own' ORDER BY 1;
CALL drain('work', NULL);
SELECT jobq.cancel(:two);
SELECT * FROM left_over;

-- Savepoints: only what is kept is in line, in the order of the calls.
BEGIN;
SELECT jobq.enqueue('work', '"kept 1"', group_key => 's') > 0 AS job;
SAVEPOINT a;
SELECT jobq.enqueue('work', '"gone 1"', group_key => 's') > 0 AS job;
SELECT count(*) FROM jobq.enqueue_many('work', '["gone 2", "gone 3"]', group_keys => '{s,t}');
SAVEPOINT b;
SELECT jobq.enqueue('work', '"gone 4"', group_key => 's') > 0 AS job;
RELEASE b;
SELECT count(*) FROM jobs WHERE state = 'ready';
ROLLBACK TO a;
SELECT count(*) FROM jobs WHERE state = 'ready';
SELECT jobq.enqueue('work', '"kept 2"', group_key => 's') > 0 AS job;
SAVEPOINT c;
SELECT jobq.enqueue('work', '"kept 3"', group_key => 's') AS job \gset
RELEASE c;
SAVEPOINT d;
SELECT jobq.cancel(:job);
ROLLBACK TO d;
COMMIT;
SELECT group_key, state, pending FROM groups;
-- a release that is rolled back, one that is not
BEGIN;
SELECT take('work');
SAVEPOINT a;
SELECT done('kept 1');
ROLLBACK TO a;
SELECT released('kept 1');
SAVEPOINT b;
SELECT jobq.enqueue('work', '"gone 5"', group_key => 's') > 0 AS job;
ROLLBACK TO b;
COMMIT;
CALL drain('work', NULL);
BEGIN;
SELECT jobq.enqueue('work', '"gone 6"', group_key => 's') > 0 AS job;
ROLLBACK;
SELECT * FROM left_over;
-- a claim that is rolled back: ready at once, at its place, not counted
SELECT count(*) FROM jobq.enqueue_many('work', '["k1", "k2"]', group_keys => '{k,k}');
BEGIN;
SELECT take('work', 10, 10), done('k1'), done('k2');
ROLLBACK;
SELECT * FROM groups;
BEGIN;
SAVEPOINT s;
SELECT take('work');
ROLLBACK TO s;
SELECT take('work');
SELECT done('k1');
COMMIT;
CALL drain('work', NULL);
SELECT * FROM jobq.verify();

-- A job with a future start joins when it is due and blocks nobody until then.
SELECT jobq.enqueue('work', '"d1"', group_key => 'd') > 0 AS job;
SELECT jobq.enqueue('work', '"d2"', group_key => 'd', delay => '1 h') AS later \gset
SELECT jobq.enqueue('work', '"d3"', group_key => 'd') > 0 AS job;
SELECT * FROM jobs WHERE queue = 'work' AND group_key = 'd';
SELECT explained('d2');
SELECT group_key, state, pending FROM groups;
SELECT * FROM counts WHERE queue = 'work';
SELECT take('work'), done('d1');
SELECT jobq.run_now(ARRAY[:later]);
SELECT jobq.enqueue('work', '"d4"', group_key => 'd') > 0 AS job;
CALL drain('work', NULL);
-- by itself
SELECT jobq.enqueue('work', '"due"', group_key => 'd', delay => '50 ms') > 0 AS job;
SELECT * FROM groups;
SELECT take('work', wait => '30 s'), done('due');
-- in a bulk, all or none delayed
SELECT count(*) FROM jobq.enqueue_many('work', '["e1", "e2", "e3"]', group_keys => '{e,f,NULL}', delay => '50 ms');
CALL becomes_true('SELECT count(*) = 3 FROM jobs WHERE queue = ''work'' AND state = ''ready''');
SELECT take('work', 3);
SELECT done('e1'), done('e2'), done('e3');
SELECT * FROM left_over;

-- Keys: 1 to 256 bytes of anything; what differs in a byte is another group, and the same key in another queue, too.
SELECT jobq.create_queue('names');
SELECT outcome($$SELECT jobq.enqueue('names', group_key => '')$$);
SELECT outcome($$SELECT jobq.enqueue('names', group_key => repeat('x', 257))$$);
SELECT outcome($$SELECT jobq.enqueue('names', group_key => repeat('ä', 129))$$);
SELECT outcome($$SELECT jobq.enqueue('names', group_key => repeat('x', 1000000))$$);
SELECT jobq.enqueue('names', to_jsonb(row_number() OVER ()), group_key => key) > 0 AS job
	FROM unnest(ARRAY['orders', 'Orders', 'orders ', ' ', '''', '"', 'a:b,c', E'a\nb', E'\t', E'\x01', 'ä', 'é', 'NULL', '%', repeat('x', 256), repeat('ä', 128), NULL]) key;
SELECT jobq.enqueue('names', '"again"', group_key => 'orders') > 0 AS job;
SELECT jobq.enqueue('work', '"elsewhere"', group_key => 'orders') > 0 AS job;
SELECT left(quote_literal(group_key), 20) AS key, octet_length(group_key) AS bytes, pending FROM groups WHERE queue = 'names' ORDER BY group_key COLLATE "C";
SELECT count(DISTINCT token), count(DISTINCT group_key) FROM jobq.dequeue('names', 100);
SELECT take('names'), take('work'), done('elsewhere');
SELECT jobq.complete(j.job_id, l.token) FROM jobq.jobs j, jobq.lease l WHERE j.job_id = ANY (l.job_ids) AND j.group_key = 'orders';
CALL drain('names', NULL);
SELECT jobq.drop_queue('names', force => true);
SELECT * FROM left_over;

-- Bulk: a key per payload, NULL for none.
SELECT outcome('SELECT count(*) FROM jobq.enqueue_many(''work'', ' || args || ')')
	FROM unnest(ARRAY[$$'[1, 2]', group_keys => '{a}'$$, $$'[1]', group_keys => '{}'$$, $$'[1]', group_keys => '{a,b}'$$, $$'[1, 2]', group_keys => '{{a,b}}'$$, $$'[1]', group_keys => '{""}'$$,
		$$'[1, 2]', group_keys => ARRAY['a', repeat('x', 257)]$$, $$'[]', group_keys => '{}'$$, $$'[]', group_keys => '{a}'$$, $$'[]', group_keys => NULL$$]) args;
SELECT count(*) FROM jobq.jobs WHERE state = 'ready';
SELECT ord, status FROM jobq.enqueue_many('work', '["m1", "m2", "m3", "m4"]', group_keys => '{m,NULL,m,n}');
SELECT take('work', 10, 10);
SELECT done(job) FROM unnest('{m1,m3,m2,m4}'::text[]) job;
-- one that cannot be a job is left out, and its place in the group with it
SELECT jobq.alter_queue('work', max_payload_bytes => 100);
SELECT ord, status FROM jobq.enqueue_many('work', jsonb_build_array('m1', repeat('x', 100), 'm3'), group_keys => '{m,m,m}');
CALL drain('work', NULL);
SELECT jobq.alter_queue('work', reset => '{max_payload_bytes}');
-- more than one batch of rows at a time: each group in order, whatever the order among them
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 2000) n), group_keys => (SELECT array_agg('g' || n % 300) FROM generate_series(1, 2000) n));
SELECT count(*), min(pending), max(pending) FROM groups;
CREATE TEMP TABLE came (n serial, job int, group_key text);
DO $$
DECLARE
	took int;
BEGIN
	LOOP
		WITH d AS MATERIALIZED (SELECT * FROM jobq.dequeue('work', 500, group_batch => 2) WITH ORDINALITY),
		t AS (INSERT INTO came (job, group_key) SELECT payload::int, group_key FROM d ORDER BY ordinality)
		SELECT count(*) INTO took FROM (SELECT array_agg(job_id ORDER BY ordinality) AS ids, array_agg(token ORDER BY ordinality) AS tokens FROM d) a, jobq.complete_many(ids, tokens);
		EXIT WHEN took = 0;
		COMMIT;
	END LOOP;
END
$$;
SELECT count(*), count(DISTINCT job), bool_and(in_order) AS in_order
	FROM (SELECT job, job > lag(job, 1, 0) OVER (PARTITION BY group_key ORDER BY n) AS in_order FROM came) c;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();

-- A group that comes back is a new one with greater tokens; settings and order do not depend on that.
SELECT jobq.enqueue('work', '"t1"', group_key => 't') > 0 AS job;
SELECT id AS first_id FROM jobq.job_group \gset
SELECT take('work'), done('t1');
SELECT jobq.enqueue('work', '"t2"', group_key => 't') > 0 AS job;
SELECT id > :first_id AS newer FROM jobq.job_group;
SELECT take('work'), released('t2');
SELECT take('work'), failed('t2', '0');
SELECT take('work'), done('t2');
SELECT count(*), bool_and(grows) AS grows FROM (SELECT token > lag(token, 1, 0::bigint) OVER (ORDER BY n) AS grows FROM hand WHERE job IN ('t1', 't2')) t;

-- Every isolation level will do for all but a claim.
SELECT count(*) FROM jobq.enqueue_many('work', '["i1", "i2", "i3"]', group_keys => '{i,i,i}');
SELECT take('work');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM jobq.jobs WHERE state = 'ready';
SELECT done('i1');
SELECT jobq.enqueue('work', '"i4"', group_key => 'i') > 0 AS job;
COMMIT;
SELECT take('work');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM jobq.jobs WHERE state = 'ready';
SELECT jobq.enqueue('work', '"i5"', group_key => 'i') > 0 AS job;
SELECT failed('i2', '0');
COMMIT;
CALL drain('work', NULL);
-- a read-only transaction refuses
BEGIN READ ONLY;
SELECT outcome($$SELECT jobq.enqueue('work', group_key => 'i')$$);
SELECT outcome($$SELECT jobq.pause_group('work', 'i')$$);
COMMIT;

-- Two-phase commit is refused once a group is touched, and then nothing has happened.
BEGIN;
SELECT jobq.enqueue('work', '"p1"', group_key => 'p') > 0 AS job;
PREPARE TRANSACTION 'regress_jobq_groups';
SELECT count(*) FROM jobq.enqueue_many('work', '["p2", "p3", "p4", "p5"]', group_keys => '{p,p,p,q}', priority => 5);
SELECT take('work', 1);
BEGIN;
SELECT done('p2');
PREPARE TRANSACTION 'regress_jobq_groups';
BEGIN;
SELECT failed('p2');
PREPARE TRANSACTION 'regress_jobq_groups';
BEGIN;
SELECT released('p2');
PREPARE TRANSACTION 'regress_jobq_groups';
BEGIN;
SELECT jobq.cancel(id('p3'));
PREPARE TRANSACTION 'regress_jobq_groups';
BEGIN;
SELECT jobq.pause_group('work', 'p');
PREPARE TRANSACTION 'regress_jobq_groups';
SELECT * FROM groups;
SELECT done('p2');
-- what touches no group may
BEGIN;
SELECT jobq.enqueue('work', '"p6"') > 0 AS job;
PREPARE TRANSACTION 'regress_jobq_groups';
COMMIT PREPARED 'regress_jobq_groups';
CALL becomes_true('SELECT count(*) = 1 FROM jobq.jobs WHERE payload = ''"p6"'' AND state = ''ready''');
CALL becomes_true('SELECT exact FROM jobq.queues WHERE queue = ''work''');
SELECT take('work', 2);
SELECT done('p3'), done('p5');
SELECT take('work'), done('p4');
SELECT take('work', wait => '30 s'), done('p6');

-- A queue can be purged, renamed and dropped with its groups.
SELECT jobq.create_queue('gone');
SELECT count(*) FROM jobq.enqueue_many('gone', '["q1", "q2", "r1", "s1", "s2"]', group_keys => '{q,q,r,s,s}');
SELECT jobq.enqueue('gone', '"free"', priority => 1) > 0 AS job;
SELECT jobq.enqueue('gone', '"q3"', group_key => 'q', delay => '1 h') > 0 AS job;
SELECT take('gone', 2);
SELECT jobq.rename_queue('gone', 'renamed');
SELECT group_key, state, pending FROM groups WHERE queue = 'renamed' ORDER BY 1;
-- what is in hand stays
SELECT jobq.purge_queue('renamed', '{ready}');
SELECT group_key, state, pending FROM groups WHERE queue = 'renamed' ORDER BY 1;
SELECT job, state FROM jobs WHERE queue = 'renamed';
SELECT jobq.purge_queue('renamed', '{delayed}');
SELECT * FROM jobq.verify();
SELECT outcome($$SELECT jobq.drop_queue('renamed')$$);
SELECT done('q1'), done('free');
SELECT * FROM left_over;
-- groups in every state go with their queue
SELECT count(*) FROM jobq.enqueue_many('renamed', '["q4", "q5", "r4", "s4", "s5", "t4"]', group_keys => '{q,q,r,s,s,t}');
SELECT jobq.pause_group('renamed', 'r'), jobq.alter_group('renamed', 'z', weight => 2);
SELECT take('renamed'), released('q4', '1 h');
SELECT take('renamed');
SELECT group_key, state, pending FROM groups WHERE queue = 'renamed' ORDER BY 1;
SELECT jobq.drop_queue('renamed', force => true);
SELECT * FROM left_over;
SELECT count(*) FROM jobq.group_setting;
SELECT outcome($$SELECT done('s4')$$);
-- purged, a paused one and a waiting one, too; an idle group keeps its settings
SELECT jobq.create_queue('swept');
SELECT count(*) FROM jobq.enqueue_many('swept', '["u1", "u2", "v1", "w1"]', group_keys => '{u,u,v,w}');
SELECT jobq.pause_group('swept', 'v');
SELECT take('swept'), released('u1', '1 h');
SELECT group_key, state, pending, waits, blocked_reason FROM groups ORDER BY 1;
SELECT jobq.purge_queue('swept');
SELECT group_key, state, pending, waits, blocked_reason FROM groups ORDER BY 1;
SELECT * FROM left_over;
SELECT ready, delayed FROM counts WHERE queue = 'swept';
SELECT jobq.drop_queue('swept');
SELECT count(*) FROM jobq.group_setting;
-- in the transaction that enqueues, too; and never the new queue's
BEGIN;
SELECT jobq.create_queue('gone');
SELECT jobq.enqueue('gone', group_key => 'g') > 0 AS job;
SELECT jobq.drop_queue('gone', force => true);
SELECT jobq.create_queue('gone');
SELECT jobq.enqueue('gone', '"new"', group_key => 'g') > 0 AS job;
COMMIT;
CALL drain('gone', NULL);
-- a paused queue gives out no group
SELECT jobq.enqueue('gone', '"paused"', group_key => 'g') > 0 AS job;
SELECT jobq.pause_queue('gone');
SELECT take('gone'), explained('paused');
SELECT jobq.resume_queue('gone');
CALL drain('gone', NULL);

SELECT * FROM left_over;
SELECT * FROM jobq.verify();
