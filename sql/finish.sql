-- complete, fail, release and their kin: how a worker ends its hold on a job.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
-- The same, without the hints: for the many ways to hear of a lost lease.
CREATE FUNCTION state_of(statement text) RETURNS text LANGUAGE sql AS $$SELECT split_part(outcome($1), ' | ', 1)$$;
CREATE VIEW counts AS SELECT queue, ready, delayed, active, dead, completed_total AS completed, failed_total AS failed, retried_total AS retried,
	dead_total AS died FROM jobq.queues;
SELECT jobq.create_queue('work');

-- complete: true now, false when it was done already with this token; the result is kept in the history.
SELECT jobq.enqueue('work', '{"n": 1}') AS job \gset
SELECT token FROM jobq.dequeue('work', worker => 'w1') \gset
SELECT jobq.complete(:job, :token, '{"sum": 3}');
SELECT jobq.complete(:job, :token, '{"sum": 4}'), jobq.complete(:job, :token), jobq.ack(:job, :token);
SELECT state, attempt, payload, result, worker, last_error, failures, finished >= started AS times FROM jobq.job(:job);
SELECT * FROM counts;
SELECT state_of(format('SELECT jobq.%s(%s, %s)', verb, :job, :token)) FROM unnest('{fail,nack,release,extend,assert_lease}'::text[]) verb;
-- without a result, by either name
SELECT jobq.enqueue('work', '{"n": 2}') AS a, jobq.enqueue('work', '{"n": 3}') AS b \gset
SELECT token FROM jobq.dequeue('work', 2) LIMIT 1 \gset
SELECT jobq.ack(:a, :token), jobq.complete(:b, :token, NULL);
SELECT state, result FROM jobq.job(:a);
-- no history, and still known: the answer that got lost can be asked for again
SELECT jobq.create_queue('forgetful', keep_completed => '0');
SELECT jobq.enqueue('forgetful') AS job \gset
SELECT token FROM jobq.dequeue('forgetful') \gset
SELECT jobq.complete(:job, :token), jobq.complete(:job, :token);
SELECT count(*) FROM jobq.job(:job);
-- a result has the size of a payload at most; the job is still there
SELECT jobq.create_queue('small', max_payload_bytes => 100);
SELECT jobq.enqueue('small') AS job \gset
SELECT token FROM jobq.dequeue('small') \gset
SELECT outcome(format('SELECT jobq.complete(%s, %s, to_jsonb(repeat(''x'', 100)))', :job, :token));
SELECT jobq.complete(:job, :token, to_jsonb(repeat('x', 88)));

-- In one transaction with the job's own writes: both or neither.
CREATE TABLE effects (n int);
SELECT jobq.enqueue('work', '{"n": 4}') AS job \gset
SELECT token FROM jobq.dequeue('work') \gset
BEGIN;
INSERT INTO effects VALUES (1);
SELECT jobq.complete(:job, :token), jobq.complete(:job, :token);
ROLLBACK;
SELECT state, (SELECT count(*) FROM effects) AS effects FROM jobq.job(:job);
BEGIN;
INSERT INTO effects VALUES (2);
SELECT jobq.complete(:job, :token);
COMMIT;
SELECT state, (SELECT count(*) FROM effects) AS effects FROM jobq.job(:job);

-- A token that is forged, empty, another job's or another queue's changes nothing, whatever the verb.
SELECT jobq.create_queue('other');
SELECT jobq.enqueue('work', '{"n": 5}') AS a, jobq.enqueue('work', '{"n": 6}') AS b, jobq.enqueue('other') AS c \gset
SELECT token AS ta FROM jobq.dequeue('work') \gset
SELECT token AS tb FROM jobq.dequeue('work') \gset
SELECT token AS tc FROM jobq.dequeue('other') \gset
SELECT verb, string_agg(DISTINCT state_of(format('SELECT jobq.%s(%s, %s%s)', verb, job, token, CASE verb WHEN 'progress' THEN ', ''1''' END)), ' ') AS answers
	FROM unnest('{complete,ack,fail,nack,release,extend,progress,assert_lease}'::text[]) verb,
	(VALUES (:a, :'tb'), (:a, :'tc'), (:a, (:ta + 1000)::text), (:a, '0'), (:a, '-1'), (:a, 'NULL'), (:a, '9223372036854775807'), (:c, :'ta'), (1, :'ta'),
		(-1, :'ta'), (0, '0'), (9223372036854775807, '-9223372036854775808')) AS wrong (job, token)
	GROUP BY verb ORDER BY verb;
SELECT verb, state_of(format('SELECT jobq.%s(NULL, %s%s)', verb, :ta, CASE verb WHEN 'progress' THEN ', ''1''' END)) AS answer
	FROM unnest('{complete,ack,fail,nack,release,extend,progress,assert_lease}'::text[]) verb ORDER BY verb;
SELECT outcome(format('SELECT jobq.complete(%s, %s)', :a, :tb));
SELECT * FROM counts WHERE queue IN ('work', 'other') ORDER BY queue;
SELECT jobq.complete(:a, :ta), jobq.complete(:b, :tb), jobq.complete(:c, :tc);

-- fail: the attempt counts, the error is kept, the job comes again after the backoff ...
SELECT jobq.create_queue('bad', max_attempts => 3, backoff => 'fixed', backoff_base => '1 h');
SELECT jobq.enqueue('bad', '{"n": 1}') AS job \gset
SELECT jobq.fail(job_id, token, 'first') FROM jobq.dequeue('bad', worker => 'w1');
SELECT state, attempt, max_attempts, last_error, run_at - now() BETWEEN '59 min' AND '1 h' AS in_an_hour, worker FROM jobq.job(:job);
SELECT count(*) FROM jobq.dequeue('bad');
-- ... or after the time given, which may be none
SELECT jobq.run_now(ARRAY[:job]);
SELECT jobq.fail(job_id, token, 'second', retry_in => '0') FROM jobq.dequeue('bad');
SELECT state, attempt, last_error, run_at FROM jobq.job(:job);
SELECT job_id = :job AS it, token, attempt FROM jobq.dequeue('bad') \gset
SELECT :'attempt' AS attempt;
-- ... until no attempt is left: a dead letter with every error
SELECT jobq.fail(:job, :token, 'third');
SELECT state, attempt, last_error FROM jobq.job(:job);
SELECT f.value ->> 'attempt' AS attempt, f.value ->> 'error' AS error FROM jobq.job(:job), jsonb_array_elements(failures) f;
SELECT reason, attempt, last_error, payload FROM jobq.dead_letters WHERE job_id = :job;
-- with one token, once: one transition, one dead letter
SELECT state_of(format('SELECT jobq.fail(%s, %s, ''fourth'')', :job, :token));
SELECT count(*) FROM jobq.dead_letters WHERE job_id = :job;
SELECT * FROM counts WHERE queue = 'bad';
-- twice in one transaction with one token: once
SELECT jobq.enqueue('bad', '{"n": 2}') AS job \gset
SELECT token FROM jobq.dequeue('bad') \gset
BEGIN;
SELECT jobq.fail(:job, :token, 'once', retry_in => '1 h');
SELECT state_of(format('SELECT jobq.fail(%s, %s, ''twice'')', :job, :token));
COMMIT;
SELECT state, attempt, last_error, jsonb_array_length(failures) AS failures FROM jobq.job(:job);
SELECT jobq.cancel(:job);
-- no further attempt wanted
SELECT jobq.enqueue('bad', '{"n": 3}') AS job \gset
SELECT jobq.fail(job_id, token, 'no good', retry => false) FROM jobq.dequeue('bad');
SELECT reason, attempt, max_attempts FROM jobq.dead_letters WHERE job_id = :job;
-- no error text; nulls are the defaults
SELECT jobq.enqueue('bad', '{"n": 4}') AS job \gset
SELECT jobq.fail(job_id, token, NULL, NULL, NULL) FROM jobq.dequeue('bad');
SELECT state, attempt, last_error, failures -> 0 -> 'error' AS error FROM jobq.job(:job);
SELECT jobq.run_now(ARRAY[:job]);
-- the job's own number of attempts
SELECT jobq.enqueue('bad', '{"n": 5}', max_attempts => 1, priority => 0) AS job \gset
SELECT jobq.fail(job_id, token, 'only one') FROM jobq.dequeue('bad');
-- nack: the attempt counts, at once again
SELECT attempt, jobq.nack(job_id, token) FROM jobq.dequeue('bad');
SELECT attempt, jobq.nack(job_id, token) FROM jobq.dequeue('bad');
SELECT count(*) FROM jobq.dequeue('bad');
-- checked arguments
SELECT outcome('SELECT jobq.fail(1, 1, ' || args || ')') FROM unnest(ARRAY[$$retry_in => '-1 s'$$, $$retry_in => '200 years'$$]) args;
SELECT outcome('SELECT jobq.release(1, 1, ' || args || ')') FROM unnest(ARRAY[$$'-1 s'$$, $$'200 years'$$]) args;

-- release: given back, nothing counted; a hundred times over, the job is what it was.
SELECT jobq.create_queue('calm', max_attempts => 1);
SELECT jobq.enqueue('calm', '{"n": 1}') AS job \gset
SELECT jobq.release(job_id, token) FROM jobq.dequeue('calm');
SELECT state, attempt, run_at FROM jobq.job(:job);
SELECT jobq.release(job_id, token, '1 h') FROM jobq.dequeue('calm');
SELECT state, attempt, run_at - now() BETWEEN '59 min' AND '1 h' AS in_an_hour FROM jobq.job(:job);
SELECT jobq.run_now(ARRAY[:job]);
DO $$
DECLARE
	job record;
BEGIN
	FOR n IN 1 .. 100 LOOP
		SELECT * INTO STRICT job FROM jobq.dequeue('calm');
		ASSERT job.attempt = 1;
		PERFORM jobq.release(job.job_id, job.token);
		COMMIT;
	END LOOP;
END
$$;
SELECT state, attempt, failures FROM jobq.job(:job);
SELECT * FROM counts WHERE queue = 'calm';
SELECT (SELECT count(*) FROM jobq.lease WHERE :job = ANY (job_ids)) AS leases, (SELECT count(*) FROM jobq.failure WHERE job_id = :job) AS failures,
	(SELECT count(*) FROM jobq.ready WHERE job_id = :job) AS tickets;
SELECT attempt, jobq.complete(job_id, token) FROM jobq.dequeue('calm');

-- One of several: a batch has one token, and each job of it its own fate.
SELECT jobq.create_queue('batch', max_attempts => 2);
SELECT count(*) FROM jobq.enqueue_many('batch', '[1, 2, 3, 4, 5, 6]');
CREATE TEMP TABLE batch AS SELECT payload::int AS n, job_id, token FROM jobq.dequeue('batch', 6);
SELECT count(DISTINCT token) AS leases FROM batch;
SELECT jobq.complete(job_id, token) FROM batch WHERE n = 2;
SELECT jobq.fail(job_id, token, 'broken', retry_in => '1 h') FROM batch WHERE n = 1;
SELECT jobq.release(job_id, token, '1 h') FROM batch WHERE n = 6;
SELECT jobq.fail(job_id, token, 'broken', retry => false) FROM batch WHERE n = 3;
SELECT payload, state, attempt FROM jobq.jobs WHERE queue = 'batch' ORDER BY job_id;
SELECT * FROM counts WHERE queue = 'batch';
-- what is done is done, what is left goes on
SELECT n, state_of(format('SELECT jobq.extend(%s, %s)', job_id, token)) FROM batch ORDER BY n;
SELECT n, state_of(format('SELECT jobq.fail(%s, %s)', job_id, token)) FROM batch WHERE n IN (1, 2, 3, 6) ORDER BY n;
SELECT jobq.complete(job_id, token) FROM batch WHERE n IN (4, 5);
-- and the lease has gone with its last job
SELECT count(*) FROM jobq.lease WHERE token = (SELECT min(token) FROM batch);
SELECT * FROM counts WHERE queue = 'batch';

-- The _many verbs answer for each pair, in the order given; a stale one does not hinder the others.
SELECT jobq.create_queue('many', max_attempts => 2);
SELECT count(*) FROM jobq.enqueue_many('many', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n));
CREATE TEMP TABLE hand AS SELECT payload::int AS n, job_id, token FROM jobq.dequeue('many', 100);
-- number 50 was given back behind this list's back
SELECT jobq.release(job_id, token, '1 h') FROM hand WHERE n = 50;
SELECT s.status, count(*) FROM jobq.complete_many((SELECT array_agg(job_id ORDER BY n DESC) FROM hand), (SELECT array_agg(token ORDER BY n DESC) FROM hand)) s
	GROUP BY s.status;
SELECT h.n, s.status FROM jobq.complete_many((SELECT array_agg(job_id) FROM hand WHERE n IN (49, 50, 51)),
	(SELECT array_agg(token) FROM hand WHERE n IN (49, 50, 51))) s JOIN hand h USING (job_id) ORDER BY n;
SELECT * FROM counts WHERE queue = 'many';
-- results: one element per job; null is none
SELECT count(*) FROM jobq.enqueue_many('many', '["a", "b", "c"]');
TRUNCATE hand;
INSERT INTO hand SELECT row_number() OVER (), job_id, token FROM jobq.dequeue('many', 3);
SELECT row_number() OVER () AS row, h.n, s.status FROM jobq.complete_many((SELECT array_agg(job_id ORDER BY n DESC) FROM hand),
	(SELECT array_agg(token ORDER BY n DESC) FROM hand), '[{"r": 3}, null, 1]') s JOIN hand h USING (job_id);
SELECT j.payload, j.result FROM hand h, jobq.job(h.job_id) j ORDER BY h.n;
-- the same pair twice in one list counts once; pairs of two queues in one list
SELECT jobq.enqueue('many', '"d"') AS a, jobq.enqueue('work', '"e"') AS b \gset
SELECT token AS ta FROM jobq.dequeue('many') \gset
SELECT token AS tb FROM jobq.dequeue('work') \gset
SELECT s.status FROM jobq.complete_many(ARRAY[:b, :a, :a], ARRAY[:tb, :ta, :ta]) s;
SELECT completed_total FROM jobq.queues WHERE queue = 'many';
-- fail_many and release_many
SELECT count(*) FROM jobq.enqueue_many('many', '[1, 2, 3, 4]', max_attempts => 1);
SELECT count(*) FROM jobq.enqueue_many('many', '[5, 6, 7, 8]');
TRUNCATE hand;
INSERT INTO hand SELECT payload::int, job_id, token FROM jobq.dequeue('many', 10);
SELECT h.n, s.status FROM jobq.fail_many((SELECT array_agg(job_id) FROM hand WHERE n IN (1, 2, 5, 6)), (SELECT array_agg(token) FROM hand WHERE n IN (1, 2, 5, 6)),
	'broken', retry_in => '1 h') s JOIN hand h USING (job_id) ORDER BY n;
SELECT h.n, s.status FROM jobq.release_many((SELECT array_agg(job_id) FROM hand WHERE n < 8), (SELECT array_agg(token) FROM hand WHERE n < 8), '1 h') s
	JOIN hand h USING (job_id) ORDER BY n;
SELECT h.n, j.state, j.attempt, j.last_error FROM hand h, jobq.job(h.job_id) j ORDER BY n;
SELECT jobq.complete(job_id, token) FROM hand WHERE n = 8;
-- empty lists, NULL ones; different lengths and NULLs among the ids are errors, NULL tokens are nobody's
SELECT verb, (SELECT string_agg(outcome(format('SELECT count(*) || '' '' || min(status) FROM jobq.%s(%s)', verb, args)), ' / ')
		FROM unnest(ARRAY[$$'{}', '{}'$$, 'NULL, NULL', $$NULL, '{}'$$, $$'{1}', '{}'$$, $$'{1}', NULL$$, $$'{1,NULL}', '{1,1}'$$, $$'{1}', '{NULL}'$$,
			$$'{{1,2},{3,4}}', '{{1,2},{3,4}}'$$]) args)
	FROM unnest('{complete_many,fail_many,release_many,extend_many}'::text[]) verb;
SELECT outcome(format('SELECT jobq.complete_many(''{1,2}'', ''{1,2}'', %L)', r)) FROM unnest('{[],[1],"[1,2,3]","{}","1","null"}'::text[]) r;
SELECT outcome($$SELECT jobq.fail_many('{1}', '{1}', retry_in => '-1 s')$$), outcome($$SELECT jobq.release_many('{1}', '{1}', '-1 s')$$);

-- A worker that has its own idea of time: an expired lease that nobody acted on is still its own.
SELECT jobq.create_queue('late', lease => '1 ms');
SELECT jobq.enqueue('late') AS job \gset
BEGIN;
SELECT job_id = :job AS it, token FROM jobq.dequeue('late') \gset
SELECT jobq.enqueue('late') AS own \gset
SELECT pg_sleep(0.05) \g /dev/null
SELECT jobq.complete(:job, :token);
COMMIT;
SELECT state, attempt FROM jobq.job(:job);

-- Every verb works at every isolation level; none in a read-only transaction.
SELECT count(*) FROM jobq.enqueue_many('other', '[1, 2, 3, 4, 5, 6]');
TRUNCATE hand;
INSERT INTO hand SELECT payload::int, job_id, token FROM jobq.dequeue('other', 6);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT jobq.complete(job_id, token) FROM hand WHERE n = 1;
SELECT jobq.fail(job_id, token, 'x', '1 h') FROM hand WHERE n = 2;
SELECT jobq.release(job_id, token, '1 h') FROM hand WHERE n = 3;
SELECT jobq.extend(job_id, token, '1 h') FROM hand WHERE n = 4;
SELECT jobq.progress(job_id, token, '50') FROM hand WHERE n = 4;
SELECT jobq.assert_lease(job_id, token) FROM hand WHERE n = 4;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT s.status FROM hand, jobq.complete_many(ARRAY[job_id], ARRAY[token]) s WHERE n = 4;
SELECT s.status FROM hand, jobq.fail_many(ARRAY[job_id], ARRAY[token], 'x', '1 h') s WHERE n = 5;
SELECT s.status FROM hand, jobq.release_many(ARRAY[job_id], ARRAY[token], '1 h') s WHERE n = 6;
COMMIT;
SELECT n, state, attempt FROM hand, jobq.job(job_id) ORDER BY n;
BEGIN READ ONLY;
SELECT state_of('SELECT jobq.' || call) FROM unnest('{"complete(1,1)","ack(1,1)","fail(1,1)","nack(1,1)","release(1,1)","extend(1,1)","progress(1,1,''1'')","assert_lease(1,1)",
	"complete_many(''{1}'',''{1}'')","fail_many(''{1}'',''{1}'')","release_many(''{1}'',''{1}'')","extend_many(''{1}'',''{1}'')"}'::text[]) call;
COMMIT;

-- The reason can be of any size and content: kept up to 8192 bytes, cut at a character's end.
SELECT jobq.create_queue('loud', max_attempts => 9);
SELECT count(*) FROM jobq.enqueue_many('loud', '[1, 2, 3, 4, 5]');
TRUNCATE hand;
INSERT INTO hand SELECT payload::int, job_id, token FROM jobq.dequeue('loud', 5);
SELECT jobq.fail(job_id, token, repeat('x', 50 * 1024 * 1024), '1 h') FROM hand WHERE n = 1;
SELECT jobq.fail(job_id, token, 'a' || repeat('ä', 5000), '1 h') FROM hand WHERE n = 2;
SELECT jobq.fail(job_id, token, E'line\nline\ttab \x01 "quoted" \\ back', '1 h') FROM hand WHERE n = 3;
SELECT jobq.fail(job_id, token, '', '1 h') FROM hand WHERE n = 4;
SELECT s.status FROM hand, jobq.fail_many(ARRAY[job_id], ARRAY[token], repeat('y', 8192), '1 h') s WHERE n = 5;
SELECT n, octet_length(last_error), length(last_error), left(last_error, 40), failures -> 0 ->> 'error' = last_error AS same FROM hand, jobq.job(job_id) ORDER BY n;

-- One result that is too large: the others are done, that job is still in hand.
SELECT count(*) FROM jobq.enqueue_many('small', '[1, 2, 3]');
TRUNCATE hand;
INSERT INTO hand SELECT payload::int, job_id, token FROM jobq.dequeue('small', 3);
SELECT h.n, s.status FROM jobq.complete_many((SELECT array_agg(job_id ORDER BY n) FROM hand), (SELECT array_agg(token ORDER BY n) FROM hand),
	jsonb_build_array(1, repeat('x', 100), 3)) s JOIN hand h USING (job_id) ORDER BY n;
SELECT n, state, result FROM hand, jobq.job(job_id) ORDER BY n;
SELECT active, completed FROM counts WHERE queue = 'small';
SELECT jobq.extend(job_id, token), jobq.complete(job_id, token, '"short"') FROM hand WHERE n = 2;

-- A lease whose other jobs are all completed ends with the last, however that one ends.
CREATE FUNCTION leases(queue text) RETURNS bigint LANGUAGE sql AS $$SELECT count(*) FROM jobq.lease l JOIN jobq.queue q ON q.id = l.queue_id WHERE q.name = $1$$;
SELECT jobq.create_queue('last');
SELECT count(*) FROM jobq.enqueue_many('last', '[1, 2, 3, 1, 2, 3, 1, 2, 3]');
TRUNCATE hand;
INSERT INTO hand SELECT payload::int, job_id, token FROM jobq.dequeue('last', 3) UNION ALL SELECT payload::int + 3, job_id, token FROM jobq.dequeue('last', 3)
	UNION ALL SELECT payload::int + 6, job_id, token FROM jobq.dequeue('last', 3);
SELECT count(jobq.complete(job_id, token)) FROM hand WHERE n % 3 = 1;
SELECT count(jobq.complete(job_id, token)) FROM hand WHERE n % 3 = 2;
SELECT leases('last');
SELECT jobq.fail(job_id, token, 'x') FROM hand WHERE n = 3;
SELECT leases('last');
SELECT jobq.release(job_id, token, '1 h') FROM hand WHERE n = 6;
SELECT leases('last');
SELECT s.status FROM hand, jobq.fail_many(ARRAY[job_id], ARRAY[token]) s WHERE n = 9;
SELECT leases('last'), active FROM counts WHERE queue = 'last';

-- Whether a lost pair was completed before is looked up in the history, which is not locked any longer than that.
BEGIN;
SELECT s.status, state_of('SELECT jobq.complete(2, 2)') FROM jobq.complete_many('{1,2}', '{1,2}') s;
SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = pg_backend_pid() AND c.relname LIKE 'history%';
COMMIT;

SELECT * FROM jobq.verify();
