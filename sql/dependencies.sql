-- Jobs that wait for others: after.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/dependencies.sql'
\set ECHO none
\i :setup
\set ECHO all
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
CALL becomes_true('SELECT bool_and(exact) FROM jobq.queues');

-- A chain: one after the other.
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
SELECT jobq.enqueue('work', '"b"', after => ids('a')) > 0 AS job;
SELECT jobq.enqueue('work', '"c"', after => ids('b')) > 0 AS job;
SELECT states(), waits();
SELECT * FROM pending;
SELECT state, attempt, run_at, started, finished, last_error, failures FROM jobq.job(id('b'));
SELECT queue, payload, state, run_at FROM jobq.jobs ORDER BY job_id;
SELECT queue FROM jobq.dependencies ORDER BY job_id;
SELECT explained('b');
SELECT take('work', 10), done('a');
SELECT states(), waits();
SELECT explained('c');
SELECT take('work', 10), done('b');
SELECT take('work', 10), done('c');
SELECT states(), waits(), take('work');
SELECT * FROM pending;
-- A failure that is tried again is no end, nor is a job given back.
SELECT jobq.enqueue('work', '"d"') > 0 AS job;
SELECT jobq.enqueue('work', '"e"', after => ids('d'), after_dead => 'cancel') > 0 AS job;
SELECT take('work'), failed('d');
SELECT take('work'), released('d');
SELECT states('work'), waits();
SELECT take('work', 10), done('d');
SELECT take('work', 10), done('e');
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- Fan-out: many wait for one. Fan-in: one waits for many; the last one counts, whoever that is.
SELECT jobq.enqueue('work', '"split"') > 0 AS job;
SELECT ord, job_id > 0 AS job, status FROM jobq.enqueue_many('work', '["p1", "p2", "p3"]', after => ids('split'));
SELECT jobq.enqueue('work', '"join"', after => ids('p1', 'p2', 'p3', 'split')) > 0 AS job;
SELECT states(), waits();
SELECT take('work', 10), done('split');
SELECT states(), waits();
SELECT take('work', 10), done('p2');
SELECT done('p3');
SELECT states(), waits();
SELECT done('p1'), done('p1');
SELECT take('work', 10), done('join');
-- all in one call, or in one transaction
SELECT count(*) FROM jobq.enqueue_many('work', '["q1", "q2", "q3"]');
SELECT jobq.enqueue('work', '"q"', after => ids('q1', 'q2', 'q3')) > 0 AS job;
SELECT take('work', 10), done_all('q1', 'q2', 'q3');
SELECT take('work', 10), done('q');
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
-- wide: a thousand let go by one, and one by a thousand
SELECT jobq.enqueue('work', '"one"') > 0 AS job;
SELECT count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 1000) n), after => ids('one'));
SELECT jobq.enqueue('work', '"last"', after => (SELECT array_agg(job_id) FROM jobq.jobs)) > 0 AS job;
SELECT pending, ready FROM pending;
SELECT take('work', 10), done('one');
SELECT pending, ready FROM pending;
SELECT count(*) FROM (SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM jobq.dequeue('work', 999)) d, jobq.complete_many(d.ids, d.tokens) c WHERE c.status = 'ok';
SELECT pending, ready FROM pending;
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('work', 10);
SELECT take('work', 10), done('last');
SELECT count(*) FROM jobq.dependency;
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- Every way to complete: one call for one, for many, with the next dequeue, and a completion that is heard twice.
SELECT count(*) FROM jobq.enqueue_many('work', '["w1", "w2", "w3", "w4"]', priority => 5);
SELECT jobq.enqueue('work', to_jsonb('after ' || w), after => ids(w)) > 0 AS job FROM unnest('{w1,w2,w3,w4}'::text[]) w;
SELECT take('work', 4);
SELECT jobq.ack(job_id, token), jobq.ack(job_id, token) FROM hand WHERE job = 'w1';
SELECT c.status FROM hand h, jobq.complete_many(ARRAY[h.job_id, h.job_id], ARRAY[h.token, h.token]) c WHERE h.job = 'w2';
SELECT payload FROM hand h, jobq.complete_and_dequeue(h.job_id, h.token, 'work') WHERE h.job = 'w3';
SELECT states();
-- asked to cancel, and completed all the same
SELECT jobq.cancel(id('w4'));
SET client_min_messages = warning; -- the notice names the job
SELECT done('w4');
RESET client_min_messages;
SELECT states(), waits();
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- after: NULLs and duplicates do not matter; none is none.
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
SELECT jobq.enqueue('work', '"b"', after => ids('a') || NULL::bigint || ids('a')) > 0 AS job;
SELECT jobq.enqueue('work', '"c"', after => '{}') > 0, jobq.enqueue('work', '"d"', after => NULL) > 0, jobq.enqueue('work', '"e"', after => '{NULL}') > 0;
SELECT jobq.enqueue('work', '"f"', after_dead => 'cancel') > 0 AS job;
SELECT states(), waits();
SELECT take('work', 10), done('a');
SELECT take('work'), done('b');
-- with one that has ended already
SELECT jobq.enqueue('work', '"g"', after => ids('a', 'b')) > 0 AS job;
SELECT jobq.enqueue('work', '"h"', after => ids('a', 'c', 'b')) > 0 AS job;
SELECT states(), waits();
SELECT done('c'), take('work', 10), done_all('g', 'd', 'e', 'f');
-- or was rolled back, or deleted: its id was given out
BEGIN;
SELECT jobq.enqueue('work', '"undone"') AS undone \gset
ROLLBACK;
SELECT jobq.enqueue('work', '"i"', after => ARRAY[:undone]) > 0 AS job;
SELECT states();
SELECT take('work', 10), done_all('h', 'i');
-- What is refused.
SELECT args, outcome('SELECT jobq.enqueue(''work'', ' || args || ') > 0')
	FROM unnest(ARRAY[$$after => '{9223372036854775807}'$$, $$after => '{0}'$$, $$after => '{-1}'$$, $$after => ids('a') || 9223372036854775807$$,
		$$after => ids('a') || 1000000000000$$, $$after => ARRAY[[1], [2]]$$,
		$$after => array_fill(id('a'), ARRAY[1000000])$$, $$after => array_fill(id('a'), ARRAY[1000001])$$,
		$$after => ids('a'), after_dead => 'perhaps'$$, $$after => ids('a'), after_dead => ''$$, $$after => ids('a'), after_dead => NULL$$, $$after_dead => 'perhaps'$$,
		$$after => ids('a'), unique_key => 'u', on_conflict => 'replace'$$,
		$$after => ids('a'), on_conflict => 'replace'$$, $$after => ids('a'), delay => '1 s', run_at => now()$$, $$after => ids('a'), run_at => 'infinity'$$]) args;
SELECT args, outcome('SELECT count(*) FROM jobq.enqueue_many(''work'', ''[1]'', ' || args || ')')
	FROM unnest(ARRAY[$$after => '{9223372036854775807}'$$, $$after => ids('a'), after_dead => 'perhaps'$$, $$after => ids('a'), unique_keys => '{u}', on_conflict => 'replace'$$]) args;
SELECT outcome($$SELECT count(*) FROM jobq.enqueue_many('work', '[]', after => '{9223372036854775807}')$$);
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
SELECT * FROM jobq.verify();

-- Its own start: delay and run_at count from the enqueue.
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
SELECT jobq.enqueue('work', '"past"', after => ids('a'), delay => '1 ms') > 0 AS job;
SELECT jobq.enqueue('work', '"later"', after => ids('a'), delay => '1 h') > 0 AS job;
SELECT jobq.enqueue('work', '"at"', after => ids('a'), run_at => '2100-01-01 00:00:00+00') > 0 AS job;
SELECT jobq.enqueue('work', '"moved"', after => ids('a'), delay => '1 h') > 0 AS job;
SELECT jobq.enqueue('work', '"moved back"', after => ids('a')) > 0 AS job;
SELECT jobq.enqueue('work', '"urgent"', after => ids('a'), priority => 7) > 0 AS job;
SELECT jobq.enqueue('work', '"urgent now"', after => ids('a'), delay => '1 h') > 0 AS job;
SELECT * FROM pending;
SELECT payload, state, run_at > now() AS waits, priority FROM jobq.jobs ORDER BY job_id;
SELECT jobq.reschedule(id('moved'), now() - interval '1 s'), jobq.reschedule(id('moved back'), now() + interval '1 h'), jobq.reschedule(id('urgent now'), priority => 5);
SELECT payload, state, run_at > now() AS waits, priority FROM jobq.jobs ORDER BY job_id;
SELECT outcome(format('SELECT jobq.reschedule(%s, %L)', id('moved'), t)) FROM unnest(ARRAY['infinity', '-infinity']) t;
SELECT outcome(format('SELECT jobq.reschedule(%s)', id('moved')));
SELECT take('work', 10), done('a');
SELECT payload, state, run_at > now() AS waits, priority FROM jobq.jobs ORDER BY job_id;
SELECT run_at - created BETWEEN '1 h' AND '1 h 10 s' AS from_the_enqueue FROM jobq.jobs WHERE payload = '"later"';
SELECT * FROM pending;
SELECT take('work', 10);
SELECT jobq.run_now(ids('later', 'at', 'moved back', 'urgent now'));
SELECT take('work', 10);
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
-- run_now does not wait for its own start either
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
SELECT jobq.enqueue('work', '"now"', after => ids('a'), delay => '1 h') > 0 AS job;
SELECT jobq.run_now(ids('now')), states(), waits();
SELECT take('work', 10), done('a'), done('now'), take('work', 10);
-- in the order of their priority, and of being let go
SELECT count(*) FROM jobq.enqueue_many('work', '["x", "y"]', priority => 1);
SELECT jobq.enqueue('work', '"after x"', after => ids('x')) > 0 AS job;
SELECT jobq.enqueue('work', '"after y"', after => ids('y')) > 0 AS job;
SELECT jobq.enqueue('work', '"after y, urgent"', after => ids('y'), priority => 999) > 0 AS job;
SELECT take('work', 10), done('y');
SELECT done('x'), take('work', 10);
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- Groups: one joins its group's line when it is let go, behind who came before, and holds nobody up until then.
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
SELECT jobq.enqueue('work', '"g2"', group_key => 'g', after => ids('a')) > 0 AS job;
SELECT jobq.enqueue('work', '"g3"', group_key => 'g', after => ids('a')) > 0 AS job;
SELECT jobq.enqueue('work', '"lone"', group_key => 'lone', after => ids('a')) > 0 AS job;
SELECT * FROM groups;
SELECT jobq.enqueue('work', '"g1"', group_key => 'g') > 0 AS job;
SELECT * FROM groups;
SELECT take('work', 10), done('g1');
SELECT jobq.enqueue('work', '"g0"', group_key => 'g') > 0 AS job;
SELECT done('a');
SELECT * FROM groups;
SELECT * FROM pending;
CALL drain('work', NULL);
-- after a job of its own group, after one of another, and both in a circle of two groups
SELECT jobq.enqueue('work', '"h1"', group_key => 'h') > 0 AS job;
SELECT jobq.enqueue('work', '"i2"', group_key => 'i', after => ids('h1')) > 0 AS job;
SELECT jobq.enqueue('work', '"h2"', group_key => 'h', after => ids('h1', 'i2')) > 0 AS job;
SELECT jobq.enqueue('work', '"h3"', group_key => 'h', after => ids('h2')) > 0 AS job;
CALL drain('work', NULL);
-- a group that is paused takes it in and lets it wait; a blocked one, too
SELECT jobq.enqueue('work', '"p0"') > 0 AS job;
SELECT jobq.enqueue('work', '"p1"', group_key => 'p', after => ids('p0')) > 0 AS job;
SELECT jobq.enqueue('work', '"q1"', group_key => 'q', max_attempts => 1, priority => 1) > 0 AS job;
SELECT jobq.enqueue('work', '"q2"', group_key => 'q', after => ids('p0')) > 0 AS job;
SELECT jobq.enqueue('work', '"q3"', group_key => 'q', after => ids('q1'), after_dead => 'run') > 0 AS job;
SELECT jobq.pause_group('work', 'p');
SELECT take('work', 10), failed('q1'), done('p0');
SELECT * FROM groups;
SELECT jobq.resume_group('work', 'p'), jobq.unblock_group('work', 'q', 'skip');
CALL drain('work', NULL);
-- cancelled and deleted while it waits: its group does not hear of it
SELECT jobq.enqueue('work', '"r0"') > 0 AS job;
SELECT jobq.enqueue('work', to_jsonb('r' || n), group_key => 'r', after => ids('r0'), delay => CASE n WHEN 4 THEN '1 h' END::interval) > 0 AS job FROM generate_series(1, 4) n;
SELECT jobq.cancel(id('r1')), jobq.delete_jobs(ids('r2'));
SELECT take('work', 10), done('r0');
SELECT * FROM groups;
CALL drain('work', NULL);
SELECT jobq.run_now(ids('r4'));
CALL drain('work', NULL);
SELECT * FROM left_over;
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
-- a batch of a group, whose second job waits for the first one's completion to go on elsewhere
SELECT count(*) FROM jobq.enqueue_many('work', '["b1", "b2", "b3"]', group_keys => '{b,b,b}');
SELECT jobq.enqueue('work', '"after b1"', after => ids('b1')) > 0, jobq.enqueue('work', '"after b3"', group_key => 'b', after => ids('b3', 'b1')) > 0;
SELECT take('work', 10, 3), done('b1');
SELECT states(), waits();
SELECT done('b2'), done('b3');
SELECT states(), waits();
CALL drain('work', NULL);
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- Unique keys: one that waits has its key; a duplicate changes nothing, whatever it would wait for.
SELECT count(*) FROM jobq.enqueue_many('work', '["a", "a2"]');
SELECT jobq.enqueue('work', '"b"', unique_key => 'k', after => ids('a')) AS b \gset
SELECT jobq.enqueue('work', '"c"', unique_key => 'k', after => ids('a2')) = :b AS the_same, jobq.enqueue('work', '"d"', unique_key => 'k') = :b AS the_same;
SELECT outcome($$SELECT jobq.enqueue('work', unique_key => 'k', on_conflict => 'error')$$);
SELECT states(), waits();
-- replaced by one that waits for nothing: the new one is not to wait
SELECT outcome($$SELECT jobq.enqueue('work', '"e"', unique_key => 'k', on_conflict => 'replace') > 0$$);
SELECT states(), waits();
SELECT ord, status, job_id = :b AS is_b FROM jobq.enqueue_many('work', '["f", "g", "h"]', unique_keys => '{k,l,l}', after => ids('a2'));
SELECT states(), waits();
SELECT take('work', 10), done_all('a', 'a2');
SELECT count(*) FROM (SELECT take('work', 10)) t WHERE take = 'nothing';
-- until started: the key is free from the start on, not from being let go on
SELECT jobq.enqueue('work', '"s0"') > 0 AS job;
SELECT jobq.enqueue('work', '"s"', unique_key => 's', unique_until => 'started', after => ids('s0')) AS s \gset
SELECT jobq.enqueue('work', '"s"', unique_key => 's') = :s AS the_same, take('work'), done('s0');
SELECT state FROM jobq.job(:s);
SELECT jobq.enqueue('work', '"s"', unique_key => 's') = :s AS the_same;
SELECT take('work');
SELECT jobq.enqueue('work', '"s2"', unique_key => 's') = :s AS the_same;
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
-- In bulk what is left out waits for nothing.
SELECT jobq.enqueue('work', '"a"') > 0, jobq.alter_queue('work', max_payload_bytes => 30);
SELECT ord, status, job_id IS NULL AS none FROM jobq.enqueue_many('work', jsonb_build_array(repeat('x', 100), 'b', 'c'), after => ids('a'), after_dead => 'cancel');
SELECT states(), waits();
SELECT jobq.cancel(id('a'));
SELECT states(), waits();
SELECT ord, status, job_id > 0 AS job FROM jobq.enqueue_many('work', '["d"]', after => ids('a'), after_dead => 'cancel');
SELECT states();
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- What is rolled back was never there; a savepoint neither.
SELECT count(*) FROM jobq.enqueue_many('work', '["a", "b"]');
BEGIN;
SELECT jobq.enqueue('work', '"c"', after => ids('a')) > 0 AS job;
SELECT states(), waits();
ROLLBACK;
SELECT states(), waits(), take('work', 10);
BEGIN;
SELECT jobq.enqueue('work', '"c"', after => ids('a', 'b')) > 0 AS job;
SAVEPOINT s;
SELECT jobq.enqueue('work', '"d"', after => ids('a')) > 0 AS job;
SELECT jobq.enqueue('work', '"e"', after => ids('d')) > 0 AS job;
ROLLBACK TO s;
SELECT done('a');
SAVEPOINT s;
SELECT done('b');
ROLLBACK TO s;
COMMIT;
SELECT states(), waits();
BEGIN;
SELECT done('b');
ROLLBACK;
SELECT states(), waits();
SELECT * FROM pending;
-- all at once: completed and named, enqueued and cancelled, let go and cancelled
BEGIN;
SELECT done('b');
SELECT jobq.enqueue('work', '"f"', after => ids('b')) > 0 AS job;
SELECT jobq.cancel(id('c'));
SELECT jobq.enqueue('work', '"g"') > 0 AS job;
SELECT jobq.enqueue('work', '"h"', after => ids('g'), after_dead => 'run') > 0 AS job;
SELECT jobq.enqueue('work', '"i"', after => ids('g'), after_dead => 'cancel') > 0 AS job;
SELECT jobq.enqueue('work', '"j"', after => ids('i')) > 0 AS job;
SELECT jobq.cancel(id('g'));
COMMIT;
SELECT states(), waits();
SELECT * FROM pending;
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
-- the last one completes, and in the same transaction the one that waits is moved, started, deleted, purged
CREATE PROCEDURE beside(what text, statement text, before boolean) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM jobq.enqueue('work', '"a"');
	PERFORM jobq.enqueue('work', '"b"', after => ids('a'));
	PERFORM jobq.enqueue('work', '"c"', after => ids('b'), after_dead => 'run');
	COMMIT;
	PERFORM take('work');
	COMMIT;
	IF before THEN
		EXECUTE statement;
	END IF;
	PERFORM done('a');
	IF NOT before THEN
		EXECUTE statement;
	END IF;
	COMMIT;
	RAISE NOTICE '% %: %; %', what, CASE WHEN before THEN 'before' ELSE 'after' END, states(), waits();
	PERFORM jobq.drop_queue('work', force => true);
	PERFORM jobq.create_queue('work');
	COMMIT;
END
$$;
CALL beside('moved', $$SELECT jobq.reschedule(id('b'), now() + interval '1 h', 3)$$, false);
CALL beside('moved', $$SELECT jobq.reschedule(id('b'), now() + interval '1 h', 3)$$, true);
CALL beside('started', $$SELECT jobq.run_now(ids('b'))$$, false);
CALL beside('started', $$SELECT jobq.run_now(ids('b'))$$, true);
CALL beside('cancelled', $$SELECT jobq.cancel(id('b'))$$, false);
CALL beside('cancelled', $$SELECT jobq.cancel(id('b'))$$, true);
CALL beside('deleted', $$SELECT jobq.delete_jobs(ids('b'))$$, false);
CALL beside('deleted', $$SELECT jobq.delete_jobs(ids('b'))$$, true);
CALL beside('purged', $$SELECT jobq.purge_queue('work', '{pending}')$$, false);
CALL beside('purged', $$SELECT jobq.purge_queue('work', '{pending}')$$, true);
SELECT * FROM jobq.verify();
-- every isolation level
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT jobq.enqueue('work', '"b"', after => ids('a')) > 0 AS job;
COMMIT;
SELECT take('work');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT done('a');
SELECT jobq.enqueue('work', '"c"', after => ids('b')) > 0 AS job;
COMMIT;
SELECT states(), waits();
-- Two-phase commit is refused.
SELECT take('work');
BEGIN;
SELECT jobq.enqueue('work', '"d"', after => ids('b')) > 0 AS job;
PREPARE TRANSACTION 'regress_jobq_dependency';
BEGIN;
SELECT done('b');
PREPARE TRANSACTION 'regress_jobq_dependency';
BEGIN;
SELECT jobq.cancel(id('c'));
PREPARE TRANSACTION 'regress_jobq_dependency';
BEGIN;
SELECT jobq.run_now(ids('c'));
PREPARE TRANSACTION 'regress_jobq_dependency';
BEGIN;
SELECT jobq.reschedule(id('c'), priority => 4);
PREPARE TRANSACTION 'regress_jobq_dependency';
BEGIN;
SELECT jobq.delete_jobs(ids('c'));
PREPARE TRANSACTION 'regress_jobq_dependency';
SELECT states(), waits(), done('b');
-- A completion that nobody waits for takes part as before. One that begins to wait for it meanwhile does not wait for ever.
SELECT jobq.create_queue('fresh');
SELECT jobq.enqueue('fresh', '"p"') > 0 AS job;
SELECT take('fresh');
BEGIN;
SELECT done('p');
PREPARE TRANSACTION 'regress_jobq_dependency';
SELECT jobq.enqueue('work', '"q"', after => ids('p')) > 0 AS job;
SELECT state FROM jobq.job(id('q'));
COMMIT PREPARED 'regress_jobq_dependency';
CALL becomes_true($$SELECT state = 'ready' FROM jobq.job(id('q'))$$);
SELECT waits();
SELECT jobq.drop_queue('fresh', force => true);
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- Who waits for a queue is woken by what is let go; wait_job sees it through.
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
SELECT jobq.enqueue('work', '"b"', after => ids('a')) AS b \gset
CALL jobq.wait_job(:b, '10 ms');
SELECT take('work'), done('a');
CALL jobq.wait('work', '30 s', NULL);
SELECT take('work'), done('b');
CALL jobq.wait_job(:b, '30 s');

-- Paused, limited, ageing: it is let go, and then the queue's rules hold.
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
SELECT jobq.create_queue('paused'), jobq.create_queue('one', concurrency => 1), jobq.create_queue('aged', ageing => true), jobq.create_queue('slow', rate_limit => 1, rate_interval => '1 h', rate_burst => 1);
SELECT jobq.enqueue(q, to_jsonb(q || n), after => ids('a')) > 0 AS job FROM unnest('{paused,one,aged,slow}'::text[]) q, generate_series(1, 2) n;
SELECT jobq.pause_queue('paused');
SELECT take('work', 10), done('a');
SELECT queue, pending, ready FROM pending;
SELECT take('paused', 10), take('one', 10), take('aged', 10), take('slow', 10);
SELECT jobq.resume_queue('paused'), done('one1');
SELECT take('paused', 10), take('one', 10);
SELECT jobq.drop_queue(q, force => true) FROM unnest('{paused,one,aged,slow}'::text[]) q;

-- metrics
SELECT jobq.enqueue('work', '"m"') > 0, jobq.enqueue('work', '"n"', after => ids('m')) > 0;
SELECT line FROM regexp_split_to_table(jobq.metrics(), '\n') line WHERE line ~ 'pending' AND line !~ '^#';
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- Rights: of the jobs named, some right on their queue is needed.
CREATE ROLE regress_jobq_waits;
SELECT jobq.create_queue('his'), jobq.create_queue('seen'), jobq.create_queue('secret');
SELECT jobq.grant_queue('his', 'regress_jobq_waits', '{enqueue,consume}'), jobq.grant_queue('seen', 'regress_jobq_waits', '{consume}');
SELECT jobq.enqueue('seen', '"seen"') AS seen, jobq.enqueue('secret', '"secret"') AS secret \gset
SET ROLE regress_jobq_waits;
SELECT jobq.enqueue('his', '"allowed"', after => ARRAY[:seen]) > 0 AS job;
\set VERBOSITY sqlstate
SELECT jobq.enqueue('his', '"refused"', after => ARRAY[:seen, :secret]);
SELECT jobq.enqueue('secret', '"refused"', after => ARRAY[:seen]);
SELECT count(*) FROM jobq.dependency;
\set VERBOSITY default
SELECT queue, state FROM jobq.dependencies;
RESET ROLE;
-- one waits in a queue he sees, for one that he does not; one the other way round
SELECT jobq.enqueue('his', '"for secret"', after => ARRAY[:secret]) > 0, jobq.enqueue('secret', '"for seen"', after => ARRAY[:seen], after_dead => 'cancel') > 0;
SET ROLE regress_jobq_waits;
SELECT queue, state FROM jobq.dependencies;
SELECT token FROM jobq.dequeue('seen') \gset
SELECT jobq.fail(:seen, :token, retry => false);
RESET ROLE;
-- what he let go, he let go by rights of the one who enqueued it
SELECT states(), waits();
-- finished ones do not tell strangers anything
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('secret');
SET ROLE regress_jobq_waits;
\set VERBOSITY sqlstate
SELECT jobq.enqueue('his', after => ARRAY[:secret]) > 0;
\set VERBOSITY default
RESET ROLE;
SELECT jobq.drop_queue(q, force => true) FROM unnest('{his,seen,secret}'::text[]) q;
DROP OWNED BY regress_jobq_waits;
DROP ROLE regress_jobq_waits;

SELECT * FROM jobq.dependency;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();
