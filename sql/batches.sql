-- Batches: jobs that belong together, and one that runs when all of them have ended: open_batch, enqueue's batch, close_batch.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/dependencies.sql'
\set ECHO none
\i :setup
\set ECHO all
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s'), jobq.create_queue('back');
CALL becomes_true('SELECT bool_and(exact) FROM jobq.queues');

-- Open it, add to it, close it. The batch's id is that of the job that runs at the end.
SELECT jobq.open_batch('back', '"batch"', name => 'callback', headers => '{"h": 1}') AS batch \gset
SELECT states(), waits();
SELECT jobq.enqueue('work', '"m1"', batch => :batch) > 0 AS job;
SELECT ord, job_id > 0 AS job, status FROM jobq.enqueue_many('work', '["m2", "m3"]', batch => :batch);
SELECT states(), waits();
SELECT explained('batch');
SELECT queue, pending, ready FROM pending;
SELECT take('work', 10), done('m2');
SELECT jobq.close_batch(:batch), jobq.close_batch(:batch);
SELECT states(), waits();
SELECT explained('batch');
SELECT done('m1'), take('back'), done('m3');
SELECT states(), waits();
SELECT job_id = :batch AS the_batch, name, payload, headers, attempt, token AS t FROM jobq.dequeue('back') \gset
SELECT :'the_batch', :'name', :'payload', :'headers', jobq.close_batch(:batch);
SELECT jobq.complete(:batch, :t), jobq.close_batch(:batch);
SELECT * FROM pending;
-- Nothing in it: it runs when it is closed.
SELECT jobq.open_batch('back', '"empty"') AS batch \gset
SELECT take('back'), jobq.close_batch(:batch);
SELECT take('back'), done('empty');
-- All done before it is closed.
SELECT jobq.open_batch('back', '"early"') AS batch \gset
SELECT jobq.enqueue('work', '"m4"', batch => :batch) > 0 AS job;
SELECT take('work'), done('m4');
SELECT states('back'), waits(), take('back');
SELECT jobq.enqueue('work', '"m5"', batch => :batch) > 0 AS job;
SELECT take('work'), done('m5');
SELECT jobq.close_batch(:batch), take('back'), done('early');
SELECT take('back'), done('early');
-- All in one transaction, with members and without.
BEGIN;
SELECT jobq.open_batch('back', '"at once"') AS batch, jobq.open_batch('back', '"empty at once"') AS empty \gset
SELECT count(*) FROM jobq.enqueue_many('work', '["n1", "n2"]', batch => :batch);
SELECT jobq.enqueue('work', '"n3"', batch => :batch, after => ids('n1', 'n2')) > 0 AS job;
SELECT jobq.close_batch(:batch), jobq.close_batch(:batch), jobq.close_batch(:empty);
SELECT states(), waits();
COMMIT;
SELECT waits();
SELECT take('back', 10), done('empty at once');
SELECT take('work', 10), done('n1'), done('n2');
SELECT take('work', 10), take('back');
SELECT done('n3');
SELECT states('back');
SELECT take('back'), done('at once');
SELECT jobq.drop_queue('work', force => true), jobq.drop_queue('back', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s'), jobq.create_queue('back');

-- Members add members while they run, also when it is closed already, and after members that are done.
SELECT jobq.open_batch('back', '"batch"') AS batch \gset
SELECT jobq.enqueue('work', '"1"', batch => :batch) > 0, jobq.close_batch(:batch);
SELECT take('work');
BEGIN;
SELECT jobq.enqueue('work', '"1.1"', batch => :batch) > 0, jobq.enqueue('work', '"1.2"', batch => :batch, after => ids('1')) > 0;
SELECT done('1');
COMMIT;
SELECT states(), waits();
SELECT take('work', 10);
-- in one transaction: its own completion first, then the new one
BEGIN;
SELECT done('1.1'), done('1.2');
SELECT jobq.enqueue('work', '"1.2.1"', batch => :batch) > 0 AS job;
COMMIT;
SELECT states(), waits();
SELECT take('work'), done('1.2.1'), take('back');
SELECT take('back');
-- once it has been let go nothing is added any more
SELECT outcome(format($$SELECT jobq.enqueue('work', '"late"', batch => %s)$$, :batch));
SELECT outcome(format($$SELECT count(*) FROM jobq.enqueue_many('work', '["late"]', batch => %s)$$, :batch));
SELECT outcome(format($$SELECT jobq.enqueue('work', '"late"', batch => %s, after => ids('1'))$$, :batch));
SELECT done('batch'), outcome(format($$SELECT jobq.enqueue('work', '"late"', batch => %s)$$, :batch));
-- nor to what is no batch, or is not there
SELECT jobq.enqueue('work', '"plain"') > 0, jobq.enqueue('work', '"delayed"', delay => '1 h') > 0;
SELECT job, outcome(format($$SELECT jobq.enqueue('work', '"lost"', batch => %s)$$, id(job))) FROM unnest('{plain,delayed,1}'::text[]) job;
SELECT job, outcome(format('SELECT jobq.close_batch(%s)', id(job))) FROM unnest('{plain,delayed,1,batch}'::text[]) job;
SELECT batch, outcome(format($$SELECT jobq.enqueue('work', '"lost"', batch => %s)$$, batch)) FROM unnest('{0,-1,1,9223372036854775807}'::bigint[]) batch;
SELECT batch, outcome(format('SELECT jobq.close_batch(%s)', batch)) FROM unnest('{0,-1,1,9223372036854775807}'::bigint[]) batch;
SELECT outcome('SELECT jobq.close_batch(NULL)');
SELECT jobq.enqueue('work', '"none"', batch => NULL) > 0 AS job;
-- one that waits for jobs, but was not opened as a batch
SELECT jobq.enqueue('work', '"pending"', after => ids('plain')) > 0 AS job;
SELECT outcome(format('SELECT jobq.close_batch(%s)', id('pending')));
SELECT outcome(format($$SELECT jobq.enqueue('work', '"more"', batch => %s) > 0$$, id('pending')));
SELECT states(), waits();
-- refused: as with after
SELECT jobq.open_batch('back', '"batch 2"') AS batch \gset
SELECT args, outcome(format('SELECT jobq.enqueue(''work'', batch => %s, %s) > 0', :batch, args))
	FROM unnest(ARRAY[$$unique_key => 'u', on_conflict => 'replace'$$, $$after => '{9223372036854775807}'$$, $$after_dead => 'perhaps'$$]) args;
SELECT args, outcome('SELECT jobq.open_batch(' || args || ') > 0')
	FROM unnest(ARRAY[$$'no such'$$, 'NULL', $$'back', unique_key => 'u', on_conflict => 'replace'$$, $$'back', after_dead => 'perhaps'$$, $$'back', after_dead => NULL$$,
		$$'back', after => '{9223372036854775807}'$$, $$'back', batch => 9223372036854775807$$, $$'back', delay => '-1 s'$$, $$'back', priority => 32768$$]) args;
-- the same arguments, in the same order
SELECT pg_get_function_arguments('jobq.open_batch'::regproc) = pg_get_function_arguments('jobq.enqueue'::regproc) AS the_same;
SELECT jobq.drop_queue('work', force => true), jobq.drop_queue('back', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s'), jobq.create_queue('back');

-- after_dead of the batch: what a member does that does not complete.
SELECT jobq.open_batch('back', to_jsonb(p), after_dead => p) > 0 AS job FROM unnest('{wait,cancel,run}'::text[]) p;
SELECT jobq.enqueue('work', to_jsonb(p || ' ' || n), batch => id(p), max_attempts => 1) > 0 AS job FROM unnest('{wait,cancel,run}'::text[]) p, generate_series(1, 5) n;
SELECT take('work', 20);
SELECT failed(p || ' 1'), done(p || ' 2') FROM unnest('{wait,cancel,run}'::text[]) p;
SELECT states('back'), waits();
-- a batch that was cancelled takes no more members; those it had go on
SELECT outcome(format($$SELECT jobq.enqueue('work', '"lost"', batch => %s)$$, id('cancel'))), outcome(format('SELECT jobq.close_batch(%s)', id('cancel')));
SELECT done_all('cancel 3', 'cancel 4', 'cancel 5');
SELECT jobq.cancel(id(p || ' 3')), released(p || ' 3') FROM unnest('{wait,run}'::text[]) p;
SELECT jobq.close_batch(id('wait')), jobq.close_batch(id('run'));
SELECT done_all('wait 4', 'run 4', 'wait 5', 'run 5');
SELECT states('back'), waits();
SELECT explained('wait');
-- the one that runs learns by the view which have failed
SELECT take('back');
SELECT d.state, o.payload, o.last_error FROM jobq.dependencies d JOIN jobq.jobs j USING (job_id) LEFT JOIN jobq.jobs o ON o.job_id = d.on_job WHERE j.payload = '"run"' ORDER BY on_job;
SELECT failed('run', '0');
SELECT take('back'), waits();
SELECT done('run');
SELECT waits();
-- the one that waits goes on when the dead one has come back and completed; for a cancelled one there is run_now
SELECT jobq.redrive('work', ids('wait 1'));
SELECT take('work'), done('wait 1');
SELECT states('back'), waits();
SELECT jobq.run_now(ids('wait'));
SELECT take('back'), done('wait'), waits();
SELECT jobq.drop_queue('work', force => true), jobq.drop_queue('back', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s'), jobq.create_queue('back');

-- Batches in batches: the callback of the inner one is a member of the outer one.
SELECT jobq.open_batch('back', '"outer"', after_dead => 'run') AS outer \gset
SELECT jobq.open_batch('back', '"inner"', batch => :outer) AS inner \gset
SELECT jobq.enqueue('work', '"i1"', batch => :inner) > 0, jobq.enqueue('work', '"o1"', batch => :outer) > 0, jobq.enqueue('work', '"o2"', batch => :outer, after => ids('inner')) > 0;
SELECT jobq.close_batch(:outer), jobq.close_batch(:inner);
SELECT states(), waits();
SELECT take('work', 10), done('i1'), done('o1'), take('back');
SELECT take('back', 10), done('inner'), take('back');
SELECT take('work', 10), done('o2'), take('back');
SELECT take('back', 10), done('outer');
-- by policy: the inner one is cancelled with its member, the outer one runs all the same
SELECT jobq.open_batch('back', '"outer 2"', after_dead => 'run') AS outer \gset
SELECT jobq.open_batch('back', '"inner 2"', batch => :outer, after_dead => 'cancel') AS inner \gset
SELECT jobq.enqueue('work', '"i2"', batch => :inner) > 0, jobq.close_batch(:outer), jobq.close_batch(:inner), jobq.cancel(id('i2'));
SELECT states('back'), waits();
SELECT take('back', 10), done('outer 2');
-- Nobody waits for himself, whether by one step or by many.
SELECT jobq.open_batch('back', '"b"') AS b \gset
SELECT outcome(format($$SELECT jobq.enqueue('work', '"self"', batch => %1$s, after => ARRAY[%1$s])$$, :b));
SELECT outcome(format($$SELECT count(*) FROM jobq.enqueue_many('work', '["self"]', batch => %1$s, after => ARRAY[%1$s])$$, :b));
SELECT outcome(format($$SELECT jobq.open_batch('work', '"self"', batch => %1$s, after => ARRAY[%1$s])$$, :b));
SELECT jobq.enqueue('work', '"x"', after => ids('b')) > 0, jobq.enqueue('work', '"y"', after => ids('x')) > 0;
SELECT outcome(format($$SELECT jobq.enqueue('work', '"self"', batch => %s, after => ids('x'))$$, :b));
SELECT outcome(format($$SELECT jobq.enqueue('work', '"self"', batch => %s, after => ids('y'))$$, :b));
SELECT jobq.open_batch('back', '"c"', after => ids('y')) AS c \gset
SELECT outcome(format($$SELECT jobq.enqueue('work', '"self"', batch => %s, after => ARRAY[%s])$$, :b, :c));
SELECT jobq.enqueue('work', '"z"', batch => :c, after => ids('x')) > 0 AS job;
-- a batch is no member of itself, nor of one that waits for it
SELECT jobq.open_batch('back', '"d"', batch => :b) AS d \gset
SELECT outcome(format($$SELECT jobq.enqueue('work', '"self"', batch => %s, after => ARRAY[%s])$$, :d, :b));
SELECT outcome(format($$SELECT jobq.enqueue('work', '"self"', batch => %s, after => ids('y'))$$, :d));
SELECT states(), waits();
-- in one transaction, where nobody else sees it yet
BEGIN;
SELECT jobq.open_batch('back', '"e"') AS e \gset
SELECT jobq.enqueue('work', '"v"', after => ids('e')) > 0, jobq.enqueue('work', '"w"', after => ids('v')) > 0;
SAVEPOINT s;
SELECT jobq.enqueue('work', '"self"', batch => :e, after => ids('w')) > 0 AS job;
ROLLBACK TO s;
COMMIT;
SELECT * FROM jobq.verify();
SELECT jobq.drop_queue('work', force => true), jobq.drop_queue('back', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s'), jobq.create_queue('back');

-- The callback is a job like others: its start, group, key, attempts; and it may wait for jobs that are no members.
SELECT jobq.enqueue('work', '"other"') > 0 AS job;
SELECT jobq.open_batch('back', '"later"', delay => '1 h') > 0, jobq.open_batch('back', '"past"', delay => '1 ms') > 0, jobq.open_batch('back', '"grouped"', group_key => 'g') > 0,
	jobq.open_batch('back', '"after other"', after => ids('other')) > 0;
SELECT jobq.open_batch('back', '"keyed"', unique_key => 'k') AS keyed \gset
SELECT jobq.open_batch('back', '"keyed 2"', unique_key => 'k') = :keyed AS the_same, jobq.enqueue('back', '"keyed 3"', unique_key => 'k') = :keyed AS the_same;
SELECT outcome($$SELECT jobq.open_batch('back', '"keyed 2"', unique_key => 'k', on_conflict => 'error')$$);
SELECT payload, state, run_at > now() AS waits FROM jobq.jobs WHERE queue = 'back' ORDER BY job_id;
SELECT payload, jobq.close_batch(job_id) FROM jobq.jobs WHERE queue = 'back' ORDER BY job_id;
SELECT payload, state, run_at > now() AS waits FROM jobq.jobs WHERE queue = 'back' ORDER BY job_id;
-- what has been let go is closed
SELECT jobq.close_batch(id('later'));
SELECT outcome(format($$SELECT jobq.enqueue('work', batch => %s)$$, id('later')));
SELECT * FROM groups;
SELECT take('work'), done('other');
SELECT take('back', 10), done_all('past', 'grouped', 'after other', 'keyed');
SELECT jobq.run_now(ids('later'));
SELECT take('back'), done('later');
-- a duplicate of a job elsewhere is no member
SELECT jobq.enqueue('work', '"a"', unique_key => 'u') AS a \gset
SELECT jobq.open_batch('back', '"batch"') AS batch \gset
SELECT jobq.enqueue('work', '"b"', unique_key => 'u', batch => :batch) = :a AS the_same;
SELECT ord, status, job_id = :a AS is_a FROM jobq.enqueue_many('work', '["c", "d", "e"]', unique_keys => '{u,v,v}', batch => :batch);
SELECT waits();
-- members of every kind, in several queues
SELECT jobq.enqueue('back', '"other queue"', batch => :batch) > 0, jobq.enqueue('work', '"in a group"', group_key => 'h', batch => :batch) > 0,
	jobq.enqueue('work', '"delayed"', delay => '1 h', batch => :batch) > 0, jobq.enqueue('work', '"expires"', delay => '1 h', expires_in => '50 ms', batch => :batch) > 0;
CALL becomes_true($$SELECT expired_total = 1 FROM jobq.queues WHERE queue = 'work'$$);
SELECT jobq.close_batch(:batch);
SELECT waits();
SELECT jobq.run_now(ids('delayed', 'batch'));
SELECT states(), waits();
SELECT jobq.drop_queue('work', force => true), jobq.drop_queue('back', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s'), jobq.create_queue('back');
SELECT * FROM jobq.verify();

-- The callback withdrawn, moved, started while its batch is open; the members do not mind.
SELECT jobq.open_batch('back', to_jsonb(n), expires_in => CASE n WHEN 'expires' THEN '50 ms' END::interval) > 0 AS job FROM unnest('{cancelled,deleted,purged,started,moved,expires}'::text[]) n;
SELECT jobq.enqueue('work', to_jsonb('m ' || n), batch => id(n)) > 0 AS job FROM unnest('{cancelled,deleted,purged,started,moved}'::text[]) n;
SELECT jobq.enqueue('work', to_jsonb('after ' || n), after => ids(n), after_dead => 'run') > 0 AS job FROM unnest('{cancelled,deleted,purged,started,moved}'::text[]) n;
CREATE TEMP TABLE gone AS SELECT payload #>> '{}' AS name, job_id FROM jobq.jobs WHERE queue = 'back';
CALL becomes_true($$SELECT expired_total = 1 FROM jobq.queues WHERE queue = 'back'$$);
SELECT jobq.cancel(id('cancelled')), jobq.delete_jobs(ids('deleted'));
SELECT jobq.run_now(ids('started')), jobq.reschedule(id('moved'), now() + interval '1 h', 5);
SELECT states('back'), states('work'), waits();
SELECT name, outcome(format($$SELECT jobq.enqueue('work', batch => %s)$$, job_id)) AS add, outcome(format('SELECT jobq.close_batch(%s)', job_id)) AS close
	FROM gone WHERE name IN ('cancelled', 'deleted', 'started', 'expires') ORDER BY job_id;
SELECT jobq.close_batch(id('moved'));
SELECT take('work', 10), done('m moved'), done('m started'), done('m cancelled');
SELECT states('back'), run_at > now() AS waits, priority FROM jobq.jobs WHERE payload = '"moved"';
SELECT jobq.purge_queue('back', '{pending}');
SELECT states('back'), waits();
SELECT name, outcome(format($$SELECT jobq.enqueue('work', batch => %s)$$, job_id)) AS add, outcome(format('SELECT jobq.close_batch(%s)', job_id)) AS close FROM gone WHERE name = 'purged';
SELECT done('m purged'), done('m deleted'), take('back', 10), done('started');
SELECT waits();
DROP TABLE gone;
SELECT jobq.drop_queue('work', force => true), jobq.drop_queue('back', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s'), jobq.create_queue('back');
-- the queue of the members dropped, that of the callback
SELECT jobq.open_batch('back', to_jsonb(p), after_dead => p) > 0 AS job FROM unnest('{wait,cancel,run}'::text[]) p;
SELECT count(*) FROM (SELECT jobq.enqueue('work', to_jsonb('m ' || p), batch => id(p)) FROM unnest('{wait,cancel,run}'::text[]) p) m;
SELECT jobq.close_batch(id(p)) FROM unnest('{wait,cancel,run}'::text[]) p;
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
SELECT states(), waits();
SELECT jobq.enqueue('work', '"n"', batch => id('wait')) > 0 AS job;
SELECT jobq.drop_queue('back', force => true), jobq.create_queue('back');
SELECT states(), waits(), take('work'), done('n');
SELECT * FROM jobq.verify();

-- Many members, by one call; many calls; a batch that is open for long.
SELECT jobq.open_batch('back', '"big"') AS batch \gset
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 3000) n), batch => :batch);
SELECT count(*) FROM (SELECT jobq.enqueue('work', to_jsonb(n), batch => :batch) FROM generate_series(1, 200) n) m;
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n), batch => :batch, group_keys => (SELECT array_agg('g' || n % 7) FROM generate_series(1, 100) n));
SELECT queue, pending, ready FROM pending;
SELECT count(*) FROM jobq.dependencies;
CREATE PROCEDURE work_off(queue text, at_a_time int, INOUT n bigint DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	done bigint;
BEGIN
	LOOP
		SELECT count(*) INTO done FROM (SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM jobq.dequeue(queue, at_a_time)) d, jobq.complete_many(d.ids, d.tokens);
		EXIT WHEN done = 0;
		n := n + done;
		COMMIT;
	END LOOP;
END
$$;
SELECT jobq.close_batch(:batch);
CALL work_off('work', 64);
SELECT count(*) FROM jobq.dependencies;
SELECT take('back'), done('big');
SELECT queue, pending, ready, completed FROM pending;

-- What is rolled back was never there.
BEGIN;
SELECT jobq.open_batch('back', '"never"') AS batch \gset
SELECT jobq.enqueue('work', '"never"', batch => :batch) > 0, jobq.close_batch(:batch);
ROLLBACK;
SELECT states('back'), waits();
SELECT outcome(format($$SELECT jobq.enqueue('work', batch => %s)$$, :batch)), outcome(format('SELECT jobq.close_batch(%s)', :batch));
SELECT jobq.open_batch('back', '"batch"') AS batch \gset
BEGIN;
SELECT jobq.close_batch(:batch);
ROLLBACK;
SELECT waits();
BEGIN;
SELECT jobq.enqueue('work', '"a"', batch => :batch) > 0 AS job;
SAVEPOINT s;
SELECT jobq.enqueue('work', '"b"', batch => :batch) > 0, jobq.close_batch(:batch);
ROLLBACK TO s;
COMMIT;
SELECT waits();
SELECT take('work', 10);
BEGIN;
SELECT jobq.close_batch(:batch);
SAVEPOINT s;
SELECT done('a');
ROLLBACK TO s;
COMMIT;
SELECT waits();
SELECT done('a');
SELECT take('back'), done('batch');
-- a member's last act and the closing in one transaction, in both orders; the batch withdrawn with it
SELECT jobq.open_batch('back', to_jsonb(n)) > 0 AS job FROM unnest('{x,y,z}'::text[]) n;
SELECT jobq.enqueue('work', to_jsonb('m' || n), batch => id(n)) > 0 AS job FROM unnest('{x,y,z}'::text[]) n;
SELECT take('work', 10);
BEGIN;
SELECT done('mx'), jobq.close_batch(id('x'));
SELECT jobq.close_batch(id('y')), done('my');
SELECT done('mz'), jobq.close_batch(id('z')), jobq.cancel(id('z'));
COMMIT;
SELECT states('back'), waits();
SELECT take('back', 10), done_all('x', 'y');
-- every isolation level
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT jobq.open_batch('back', '"serial"') AS batch \gset
SELECT jobq.enqueue('work', '"s"', batch => :batch) > 0, jobq.close_batch(:batch);
COMMIT;
SELECT take('work');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT jobq.enqueue('work', '"t"', batch => :batch) > 0, done('s');
COMMIT;
SELECT take('work'), done('t');
SELECT take('back'), done('serial');
-- two-phase commit
BEGIN;
SELECT jobq.open_batch('back', '"prepared"') > 0 AS job;
PREPARE TRANSACTION 'regress_jobq_batch';
ROLLBACK PREPARED 'regress_jobq_batch'; -- there is none
SELECT jobq.open_batch('back', '"batch"') AS batch \gset
BEGIN;
SELECT jobq.enqueue('work', '"prepared"', batch => :batch) > 0 AS job;
PREPARE TRANSACTION 'regress_jobq_batch';
BEGIN;
SELECT jobq.close_batch(:batch);
PREPARE TRANSACTION 'regress_jobq_batch';
SELECT states('back'), waits();
SELECT jobq.cancel(:batch);
-- read only
BEGIN READ ONLY;
SELECT outcome($$SELECT jobq.open_batch('back')$$), outcome($$SELECT jobq.close_batch(1)$$);
COMMIT;

-- Rights: adding and closing take enqueue on the batch's queue, and adding enqueue on the member's, too.
CREATE ROLE regress_jobq_batch;
SELECT jobq.create_queue('his'), jobq.create_queue('consumed');
SELECT jobq.grant_queue('his', 'regress_jobq_batch', '{enqueue}'), jobq.grant_queue('consumed', 'regress_jobq_batch', '{consume}');
SELECT jobq.open_batch('his', '"his"') AS his, jobq.open_batch('consumed', '"consumed"') AS consumed, jobq.open_batch('back', '"not his"') AS back \gset
SET ROLE regress_jobq_batch;
SELECT jobq.open_batch('his', '"his own"') AS own \gset
SELECT jobq.enqueue('his', '"member"', batch => :his) > 0, jobq.enqueue('his', '"member of his own"', batch => :own) > 0;
\set VERBOSITY sqlstate
SELECT jobq.enqueue('his', '"refused"', batch => :consumed);
SELECT jobq.enqueue('his', '"refused"', batch => :back);
SELECT jobq.enqueue('work', '"refused"', batch => :his);
SELECT jobq.close_batch(:consumed);
SELECT jobq.close_batch(:back);
SELECT jobq.open_batch('consumed');
\set VERBOSITY default
SELECT jobq.close_batch(:his), jobq.close_batch(:own), jobq.close_batch(:own);
RESET ROLE;
SELECT states('his'), states('consumed'), waits();
SELECT jobq.drop_queue('his', force => true), jobq.drop_queue('consumed', force => true), jobq.drop_queue('back', force => true), jobq.drop_queue('work', force => true);
DROP OWNED BY regress_jobq_batch;
DROP ROLE regress_jobq_batch;

SELECT * FROM jobq.dependency;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();
