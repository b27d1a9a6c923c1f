-- Idempotency records: once() tells who is the first to do something, once_done() keeps what came of it.
\pset null -

SELECT * FROM jobq.once('order 1');
SELECT * FROM jobq.once('order 1');
SELECT jobq.once_done('order 1', '{"paid": true}');
SELECT * FROM jobq.once('order 1');
SELECT * FROM jobq.once('order 2');
SELECT jobq.once_done('order 2', NULL);
SELECT * FROM jobq.once('order 2');

-- It is part of the transaction.
BEGIN;
SELECT * FROM jobq.once('order 3');
SELECT * FROM jobq.once('order 3');
SELECT jobq.once_done('order 3', '1');
SELECT * FROM jobq.once('order 3');
ROLLBACK;
BEGIN;
SELECT * FROM jobq.once('order 3');
SAVEPOINT s;
SELECT * FROM jobq.once('order 4');
ROLLBACK TO s;
SELECT * FROM jobq.once('order 4');
COMMIT;
SELECT * FROM jobq.once('order 3');

-- After its ttl a record is none.
SELECT * FROM jobq.once('short', '1 ms');
SELECT pg_sleep(0.01);
SELECT jobq.once_done('short', '1');
SELECT * FROM jobq.once('short', '1 ms');
SELECT pg_sleep(0.01);
SELECT * FROM jobq.once('short');
SELECT * FROM jobq.once('short');
SELECT key, expires - created AS ttl, done IS NOT NULL AS done, result FROM jobq.once_record ORDER BY key;

-- The usual form: a step that is not done twice.
CREATE TABLE charge (order_id int);
CREATE FUNCTION charge_once(id int) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	c record;
BEGIN
	SELECT * INTO c FROM jobq.once('charge ' || id);
	IF c.first THEN
		INSERT INTO charge VALUES (id);
		PERFORM jobq.once_done('charge ' || id, jsonb_build_object('charged', id));
		SELECT * INTO c FROM jobq.once('charge ' || id);
	END IF;
	RETURN c.result;
END
$$;
SELECT charge_once(7);
SELECT charge_once(7);
SELECT count(*) FROM charge;

-- Above READ COMMITTED a record is seen, too, that was committed after the snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM jobq.once('order 1');
SELECT * FROM jobq.once('order 5');
COMMIT;

-- Keys are compared byte by byte.
SELECT * FROM jobq.once('Order 1');
SELECT * FROM jobq.once(repeat('é', 128));

-- Bad arguments.
\set VERBOSITY sqlstate
SELECT * FROM jobq.once(NULL);
SELECT * FROM jobq.once('');
SELECT * FROM jobq.once(repeat('x', 257));
SELECT * FROM jobq.once('x', '0 s');
SELECT * FROM jobq.once('x', '-1 s');
SELECT * FROM jobq.once('x', '100000 years');
SELECT jobq.once_done(NULL, '1');
SELECT jobq.once_done('', '1');
SELECT jobq.once_done('unknown', '1');
BEGIN READ ONLY;
SELECT * FROM jobq.once('x');
ROLLBACK;
\set VERBOSITY default
SELECT jobq.once_done('unknown', '1');

SELECT * FROM jobq.verify();
