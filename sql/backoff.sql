-- Backoff: how long a failed job waits before it runs again.

-- Fails the queue's next job n times and tells the delays: full minutes from failure to next start.
CREATE PROCEDURE delays(queue text, n int, error text DEFAULT 'x', INOUT delays text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	job record;
BEGIN
	delays := NULL;
	FOR i IN 1 .. n LOOP
		SELECT * INTO STRICT job FROM jobq.dequeue($1);
		PERFORM jobq.fail(job.job_id, job.token, $3);
		SELECT concat_ws(' ', delays, date_trunc('minute', run_at - (failures -> -1 ->> 'at')::timestamptz)::text) INTO delays FROM jobq.job(job.job_id);
		PERFORM jobq.run_now(ARRAY[job.job_id]);
		COMMIT;
	END LOOP;
END
$$;
-- A new queue with one job in it.
CREATE FUNCTION queue_with(name text, settings text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT jobq.create_queue(%L, max_attempts => 1000, %s)', $1, $2);
	RETURN jobq.enqueue($1) > 0;
END
$$;

-- fixed: always the same. linear: once, twice, three times the base. exponential: doubled each time.
SELECT queue_with('fixed', $$backoff => 'fixed', backoff_base => '3 min'$$), queue_with('linear', $$backoff => 'linear', backoff_base => '3 min'$$),
	queue_with('exponential', $$backoff => 'exponential', backoff_base => '3 min'$$);
CALL delays('fixed', 4);
CALL delays('linear', 4);
CALL delays('exponential', 4);

-- A cap bounds each, fixed too.
SELECT jobq.alter_queue(q, backoff_cap => '20 min') FROM unnest('{linear,exponential}'::text[]) q;
SELECT jobq.alter_queue('fixed', backoff_cap => '2 min');
CALL delays('fixed', 2);
CALL delays('linear', 4);
CALL delays('exponential', 2);

-- exponential_jitter, the default with a base of 1 s: between half of it and all of it, and not always the same.
SELECT jobq.create_queue('jitter'), jobq.create_queue('jitter 2', backoff => 'exponential_jitter', backoff_base => '1 h', max_attempts => 1000);
SELECT backoff, backoff_base, backoff_cap FROM jobq.queues WHERE queue = 'jitter';
SELECT count(*) FROM jobq.enqueue_many('jitter 2', (SELECT jsonb_agg(n) FROM generate_series(1, 200) n));
CREATE TEMP TABLE jittered (attempt int, delay interval);
DO $$
DECLARE
	ids bigint[];
	tokens bigint[];
BEGIN
	FOR i IN 1 .. 3 LOOP
		SELECT array_agg(job_id), array_agg(token) INTO ids, tokens FROM jobq.dequeue('jitter 2', 200);
		PERFORM jobq.fail_many(ids, tokens, 'x');
		INSERT INTO jittered SELECT attempt, run_at - (failures -> -1 ->> 'at')::timestamptz FROM unnest(ids) id, jobq.job(id);
		PERFORM jobq.run_now(ids);
		COMMIT;
	END LOOP;
END
$$;
SELECT attempt, count(*), min(delay) >= base / 2 AS half_at_least, max(delay) <= base + interval '1 min' AS all_at_most, count(DISTINCT delay) > 100 AS spread,
	min(delay) < base * 0.6 AND max(delay) > base * 0.9 AS wide
	FROM jittered, LATERAL (SELECT interval '1 h' * 2 ^ (attempt - 1) AS base) b GROUP BY attempt, base ORDER BY attempt;

-- However many attempts and however long the base, the arithmetic ends at 100 years; the verb never fails.
SELECT queue_with('endless', $$backoff => 'exponential', backoff_base => '1 s'$$), queue_with('steep', $$backoff => 'linear', backoff_base => '99 years'$$),
	queue_with('steeper', $$backoff => 'exponential_jitter', backoff_base => '100 years'$$);
CALL delays('steep', 3);
DO $$
DECLARE
	delays text;
BEGIN
	CALL delays('endless', 70, 'x', delays);
	RAISE NOTICE '% ... %', left(delays, 125), right(delays, 21);
	CALL delays('steeper', 5, 'x', delays);
	RAISE NOTICE '%', substring(delays FROM '(\d+) days [0-9:]+$')::int BETWEEN 18262 AND 36525;
END
$$;

-- A base of 0: fixed is at once; the growing ones still make a pause, so that nothing spins.
SELECT jobq.create_queue('zero ' || b, backoff => b, backoff_base => '0', max_attempts => 100) FROM unnest('{fixed,linear,exponential,exponential_jitter}'::text[]) b;
DO $$
DECLARE
	job record;
	id bigint;
	fails timestamptz;
	starts timestamptz;
BEGIN
	FOR job IN SELECT 'zero ' || b AS queue FROM unnest('{fixed,linear,exponential,exponential_jitter}'::text[]) b LOOP
		id := jobq.enqueue(job.queue);
		COMMIT;
		PERFORM jobq.fail(job_id, token, 'x') FROM jobq.dequeue(job.queue);
		SELECT (failures -> -1 ->> 'at')::timestamptz, run_at INTO fails, starts FROM jobq.job(id);
		RAISE NOTICE '%: %', job.queue, CASE WHEN starts IS NULL THEN 'at once' WHEN starts >= fails + interval '0.5 ms' THEN 'after a pause' ELSE 'spins' END;
		COMMIT;
	END LOOP;
END
$$;
-- ... unless a cap of 0 forbids it
SELECT queue_with('capped', $$backoff => 'exponential', backoff_cap => '0'$$);
SELECT jobq.fail(job_id, token, 'x') FROM jobq.dequeue('capped');
SELECT state FROM jobq.jobs WHERE queue = 'capped';

-- retry_in of a single failure goes before the queue's strategy.
SELECT jobq.fail(job_id, token, 'x', retry_in => '42 min') FROM jobq.dequeue('fixed');
SELECT date_trunc('minute', d.run_at - (d.failures -> -1 ->> 'at')::timestamptz) AS delay FROM jobq.jobs j, jobq.job(j.job_id) d WHERE j.queue = 'fixed';

-- A function of one's own: it is told the attempt and the error.
CREATE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE sql AS
	$$SELECT CASE WHEN error LIKE 'busy%' THEN interval '1 h' ELSE attempt * interval '10 min' END$$;
SELECT queue_with('function', $$backoff => 'function', backoff_function => 'mine', backoff_base => '4 h', backoff_cap => '45 min'$$);
CALL delays('function', 3);
CALL delays('function', 1, 'busy, come again');
-- Whether the default was used for the next failure: half the cap to all of it.
CREATE PROCEDURE default_used(error text DEFAULT 'x', INOUT delay text DEFAULT NULL) LANGUAGE plpgsql AS $$
BEGIN
	CALL delays('function', 1, $1, delay);
	delay := CASE WHEN delay::interval BETWEEN '22 min' AND '45 min' THEN 'the default' ELSE delay END;
END
$$;
-- strict and without an error text: as if it gave none
ALTER FUNCTION mine STRICT;
CALL default_used(NULL);
-- what it gives may be nothing at all: at once
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE sql AS $$SELECT interval '0'$$;
SELECT jobq.fail(job_id, token, 'x') FROM jobq.dequeue('function');
SELECT state FROM jobq.jobs WHERE queue = 'function';

-- Whatever it does wrong, fail() succeeds with the default, and says so. (The cap of 45 min bounds it.)
-- it returns NULL
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE sql AS $$SELECT NULL::interval$$;
CALL default_used();
-- it raises an error
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$BEGIN RAISE 'no idea'; END$$;
CALL default_used();
-- it returns nonsense
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE sql AS $$SELECT interval '-1 s'$$;
CALL default_used();
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE sql AS $$SELECT interval '1000000 years'$$;
CALL default_used();
-- it tries to become somebody else, or to leave something behind
CREATE ROLE regress_jobq_other;
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$BEGIN SET ROLE regress_jobq_other; RETURN '1 min'; END$$;
CALL default_used();
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS
	$$BEGIN SET SESSION AUTHORIZATION regress_jobq_other; RETURN '1 min'; END$$;
CALL default_used();
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$BEGIN CREATE TEMP TABLE trap (n int); RETURN '1 min'; END$$;
CALL default_used();
SELECT current_user = session_user AS same_user, current_user <> 'regress_jobq_other' AS nobody_else;
-- what it sets does not outlive it, and it has a safe search path
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE 'search_path: %', current_setting('search_path');
	SET work_mem = '64kB';
	PERFORM set_config('search_path', 'public', false);
	RETURN '1 min';
END
$$;
CALL delays('function', 1);
SHOW work_mem;
SHOW search_path;
-- it writes, and fails: what it wrote is gone, the failure is kept
CREATE TABLE log (n int);
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.log VALUES (1);
	RETURN attempt / 0 * interval '1 s';
END
$$;
CALL default_used();
SELECT count(*) FROM log;
-- it asks for ever: the caller's statement_timeout ends it, and the job is still in hand
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(3600); RETURN '1 min'; END$$;
SELECT job_id AS job, token FROM jobq.dequeue('function') \gset
SET statement_timeout = '50 ms';
SELECT jobq.fail(:job, :token, 'x');
RESET statement_timeout;
SELECT state FROM jobq.job(:job);
SELECT jobq.fail(:job, :token, 'x', retry_in => '0');
-- it raises what a cancel would
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$BEGIN RAISE query_canceled; END$$;
CALL default_used();
-- it was made again, and is no such function any more
DROP FUNCTION mine;
CREATE FUNCTION mine(attempt int, error text) RETURNS bigint LANGUAGE sql AS $$SELECT 60::bigint$$;
CALL default_used();
DROP FUNCTION mine;
CREATE FUNCTION mine(attempt int, error text) RETURNS SETOF interval LANGUAGE sql AS $$SELECT interval '1 min'$$;
CALL default_used();
DROP FUNCTION mine;
CREATE FUNCTION mine(attempt int, error text) RETURNS text LANGUAGE sql AS $$SELECT '1 min'$$;
CALL default_used();
DROP FUNCTION mine;
CREATE PROCEDURE mine(attempt int, error text) LANGUAGE sql AS $$SELECT interval '1 min'$$;
CALL default_used();
DROP PROCEDURE mine;
CREATE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE sql AS $$SELECT interval '7 min'$$;
CALL delays('function', 1);
-- it is gone
DROP FUNCTION mine;
CALL default_used();
-- its owner may not call it any more
CREATE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE sql AS $$SELECT interval '7 min'$$;
REVOKE EXECUTE ON FUNCTION mine FROM PUBLIC;
CALL delays('function', 1);
UPDATE jobq.queue SET owner = 'regress_jobq_other' WHERE name = 'function';
CALL default_used();
-- it runs with the rights of the queue's owner
GRANT EXECUTE ON FUNCTION mine TO regress_jobq_other;
CREATE OR REPLACE FUNCTION mine(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS
	$$BEGIN RAISE NOTICE 'as %', current_user; INSERT INTO public.log VALUES (1); RETURN '7 min'; END$$;
CALL default_used();
-- the owner has been dropped
DROP OWNED BY regress_jobq_other;
DROP ROLE regress_jobq_other;
CALL default_used();
SELECT current_user = session_user AS same_user;

SELECT * FROM jobq.verify();
