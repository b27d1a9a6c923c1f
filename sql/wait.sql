-- Waiting for a job: dequeue with wait, and CALL wait.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
SELECT jobq.create_queue('work');

-- Nothing there: after the time given, the answer is no.
CALL jobq.wait('work', '0');
CALL jobq.wait('work', '10 ms');
SELECT count(*) FROM jobq.dequeue('work', wait => '10 ms');
SELECT count(*) FROM jobq.complete_and_dequeue(NULL, NULL, 'work', wait => '10 ms');

-- Something there: yes at once, for as long as it is there. It takes nothing.
SELECT jobq.enqueue('work', '1') AS job \gset
CALL jobq.wait('work', '1 h');
CALL jobq.wait('work');
CALL jobq.wait('work', NULL);
CALL jobq.wait(queue => 'work', timeout => '24 h', ready => NULL);
SELECT state, attempt FROM jobq.job(:job);
SELECT payload, attempt FROM jobq.dequeue('work', wait => '1 h');
CALL jobq.wait('work', '0');

-- A job due in a moment: it comes when it is due, long before the end of the wait.
SELECT jobq.enqueue('work', '2', delay => '100 ms') AS job \gset
SELECT payload, clock_timestamp() - enqueued_at >= '100 ms' AS not_early, clock_timestamp() - enqueued_at < '20 s' AS in_time FROM jobq.dequeue('work', wait => '1 h');
SELECT jobq.enqueue('work', '3', delay => '100 ms') AS job \gset
CALL jobq.wait('work', '1 h');
SELECT payload FROM jobq.dequeue('work', wait => '1 min');
-- a retry
SELECT jobq.enqueue('work', '4') AS job \gset
SELECT jobq.fail(job_id, token, 'x', retry_in => '50 ms') FROM jobq.dequeue('work');
SELECT payload, attempt FROM jobq.dequeue('work', wait => '1 h');
-- an ended lease
SELECT jobq.create_queue('short', lease => '50 ms', backoff => 'fixed', backoff_base => '10 ms');
SELECT jobq.enqueue('short', '5') AS job \gset
SELECT count(*) FROM jobq.dequeue('short');
SELECT payload, attempt FROM jobq.dequeue('short', lease => '1 h', wait => '1 h');

-- Not for what cannot be taken: a queue that is paused, a job of one's own open transaction.
SELECT jobq.enqueue('work', '6') AS job \gset
SELECT jobq.pause_queue('work');
CALL jobq.wait('work', '10 ms');
SELECT count(*) FROM jobq.dequeue('work', wait => '10 ms');
SELECT jobq.resume_queue('work');
CALL jobq.wait('work', '1 h');
SELECT count(*) FROM jobq.dequeue('work');
BEGIN;
SELECT jobq.enqueue('work', '7') AS job \gset
SELECT count(*) FROM jobq.dequeue('work', wait => '10 ms');
ROLLBACK;

-- complete_and_dequeue does not wait while its own completion is pending.
SELECT jobq.enqueue('work', '8') AS job \gset
SELECT token FROM jobq.dequeue('work') \gset
SELECT count(*) FROM jobq.complete_and_dequeue(:job, :token, 'work', wait => '1 h');

-- CALL wait wants to be alone: a transaction block would hold its snapshot and its locks for all that time.
BEGIN;
CALL jobq.wait('work', '1 h');
ROLLBACK;
CREATE FUNCTION waits() RETURNS void LANGUAGE plpgsql AS $$DECLARE r boolean; BEGIN CALL jobq.wait('work', '1 h', r); END$$;
SELECT waits();
-- a procedure that is not in one may call it
DO $$
DECLARE
	ready boolean;
BEGIN
	CALL jobq.wait('work', '10 ms', ready);
	RAISE NOTICE 'ready: %', ready;
	PERFORM jobq.enqueue('work', '9');
	COMMIT;
	CALL jobq.wait('work', '1 h', ready);
	RAISE NOTICE 'ready: %', ready;
END
$$;
SELECT payload FROM jobq.dequeue('work');

-- A wait ends at once when its statement is to end.
SET statement_timeout = '50 ms';
CALL jobq.wait('work', '1 h');
SELECT count(*) FROM jobq.dequeue('work', wait => '1 h');
RESET statement_timeout;
-- and leaves nothing behind
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype NOT IN ('virtualxid', 'relation');
SELECT jobq.enqueue('work', '10') AS job \gset
CALL jobq.wait('work', '1 h');
SELECT payload FROM jobq.dequeue('work');

-- What it does not understand, it says.
CALL jobq.wait('no such');
CALL jobq.wait(NULL);
CALL jobq.wait('work', '-1 s');
CALL jobq.wait('work', '25 h');
SET default_transaction_isolation = 'repeatable read';
CALL jobq.wait('work', '1 h');
RESET default_transaction_isolation;
SET default_transaction_read_only = on;
CALL jobq.wait('work', '10 ms');
RESET default_transaction_read_only;
SELECT outcome('SELECT count(*) FROM jobq.dequeue(''work'', wait => ' || w || ')') FROM unnest(ARRAY['NULL', $$'-1 s'$$, $$'24 h 1 s'$$]) w;

SELECT * FROM jobq.verify();
