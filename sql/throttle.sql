-- Limits of a queue: how many jobs run at a time, how many start, and that old ones of low priority get their turn.
\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
CREATE TABLE hand (queue text, job_id bigint, token bigint);
CREATE FUNCTION take(queue text, max_jobs int DEFAULT 100, wait interval DEFAULT '0') RETURNS bigint LANGUAGE sql AS $$
	WITH d AS (INSERT INTO hand SELECT $1, job_id, token FROM jobq.dequeue($1, $2, wait => $3, lease => '1 h') RETURNING 1)
	SELECT count(*) FROM d
$$;
CREATE FUNCTION finish(queue text, n int) RETURNS bigint LANGUAGE sql AS $$
	WITH h AS (DELETE FROM hand WHERE ctid IN (SELECT ctid FROM hand h WHERE h.queue = $1 LIMIT $2) RETURNING job_id, token)
	SELECT count(jobq.complete(job_id, token)) FROM h
$$;
CREATE FUNCTION fill(queue text, n int) RETURNS bigint LANGUAGE sql AS
	$$SELECT count(*) FROM jobq.enqueue_many($1, (SELECT jsonb_agg(i) FROM generate_series(1, $2) i))$$;

-- concurrency: jobs under a lease. What is refused costs no attempt.
SELECT jobq.create_queue('few', concurrency => 3);
SELECT fill('few', 20);
SELECT take('few');
SELECT take('few');
SELECT finish('few', 2);
SELECT take('few', 1), take('few', 1), take('few', 1);
SELECT max(attempt) FROM jobq.jobs WHERE queue = 'few' AND state = 'ready';
-- what was taken and rolled back makes room again; so does a job that fails, is released, or whose lease ends
BEGIN;
SELECT finish('few', 3);
-- (the same transaction may take what it has just made room for)
SELECT take('few');
SELECT take('few');
ROLLBACK;
SELECT take('few');
SELECT jobq.fail(job_id, token, retry_in => '1 h') FROM hand WHERE queue = 'few' LIMIT 1;
SELECT take('few');
SELECT job_id, token FROM hand WHERE queue = 'few' ORDER BY job_id DESC LIMIT 1 \gset
SELECT count(*) FROM jobq.complete_and_dequeue(:job_id, :token, 'few');
SELECT take('few');
-- changed at run time
SELECT jobq.alter_queue('few', concurrency => 5);
SELECT take('few');
SELECT jobq.alter_queue('few', concurrency => 1);
SELECT take('few');
SELECT jobq.alter_queue('few', reset => '{concurrency}');
SELECT take('few', 5);
SELECT ready, active, delayed FROM jobq.queues WHERE queue = 'few';

-- groups count like other jobs
SELECT jobq.create_queue('groups', concurrency => 2);
SELECT count(*) FROM jobq.enqueue_many('groups', '[1, 2, 3, 4, 5, 6]', group_keys => '{a,a,b,b,c,c}');
SELECT count(*) FROM jobq.dequeue('groups', 10);
SELECT count(*) FROM jobq.dequeue('groups', 10);

-- rate_limit: starts in an interval, evenly spaced, after a burst
SELECT jobq.create_queue('slow', rate_limit => 1, rate_interval => '1 h', rate_burst => 4);
SELECT fill('slow', 10);
SELECT take('slow', 3);
SELECT take('slow', 3);
SELECT take('slow', 3);
-- what was reserved and not taken is not lost
SELECT jobq.create_queue('empty', rate_limit => 1, rate_interval => '1 h', rate_burst => 4);
SELECT take('empty');
SELECT fill('empty', 10);
SELECT take('empty');
-- without a burst: one after the other; a waiting dequeue sleeps until it may
SELECT jobq.create_queue('even', rate_limit => 10, rate_interval => '1 s');
SELECT fill('even', 4);
SELECT take('even', wait => '0 s'), take('even', wait => '5 s'), take('even', wait => '5 s');
SELECT count(*), min(gap) >= '99 ms' AS spaced FROM
	(SELECT started - lag(started) OVER (ORDER BY started) AS gap FROM jobq.jobs WHERE queue = 'even' AND state = 'active') g;
SELECT jobq.alter_queue('slow', reset => '{rate_limit,rate_burst,rate_interval}');
SELECT take('slow', 3);

-- limit_name: queues that share a limit; each goes up to its own number
SELECT jobq.create_queue('big', concurrency => 4, limit_name => 'api'), jobq.create_queue('small', concurrency => 2, limit_name => 'api');
SELECT fill('big', 10), fill('small', 10);
SELECT take('small');
SELECT take('big');
SELECT take('small'), take('big');
SELECT finish('big', 2);
SELECT take('small'), take('big', 1);
SELECT finish('big', 3), finish('small', 1);
SELECT take('small');

-- ageing: one claim in eight takes the job that has waited longest, whatever its priority
SELECT jobq.create_queue('fair', ageing => true), jobq.create_queue('strict');
CREATE PROCEDURE serve(queue text, INOUT low int DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	p int;
BEGIN
	PERFORM jobq.enqueue(queue, priority => 2000) FROM generate_series(1, 5);
	low := 0;
	FOR i IN 1 .. 32 LOOP
		PERFORM jobq.enqueue(queue, priority => 1) FROM generate_series(1, 2);
		COMMIT;
		SELECT priority INTO p FROM jobq.dequeue(queue);
		COMMIT;
		low := low + (p = 2000)::int;
	END LOOP;
END
$$;
CALL serve('fair');
CALL serve('strict');
SELECT * FROM jobq.verify();
