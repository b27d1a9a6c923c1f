-- fence(): the highest token wins.
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
SET search_path = public, pg_catalog;
SELECT * FROM no_plan();

SELECT lives_ok($$SELECT jobq.fence('disk', 100)$$, 'a first token');
SELECT lives_ok($$SELECT jobq.fence('disk', 100)$$, 'the same token again');
SELECT is((SELECT count(*) FROM jobq.resource_fence WHERE resource = 'disk'), 1::bigint, 'one row per resource');
SELECT xmin AS before FROM jobq.resource_fence WHERE resource = 'disk' \gset
SELECT lives_ok($$SELECT jobq.fence('disk', 100)$$, 'and again');
SELECT is(xmin::text, :'before'::text, 'the same token writes nothing') FROM jobq.resource_fence WHERE resource = 'disk';
SELECT lives_ok($$SELECT jobq.fence('disk', 200)$$, 'a higher token');
SELECT throws_ok($$SELECT jobq.fence('disk', 199)$$, 'JQ001', 'token 199 for resource "disk" is stale: token 200 has been there', 'a lower token is refused');
SELECT is(token, 200::bigint, 'and changes nothing') FROM jobq.resource_fence WHERE resource = 'disk';
SELECT lives_ok($$SELECT jobq.fence('Disk', 1)$$, 'another resource has its own fence');
SELECT lives_ok($$SELECT jobq.fence('o''brien; "x"', 1)$$, 'any name will do');
SELECT lives_ok($$SELECT jobq.fence(repeat('x', 256), 1)$$, 'up to 256 bytes');
SELECT throws_ok($$SELECT jobq.fence(repeat('x', 257), 1)$$, '22023', 'resource name has 257 bytes', 'not longer');
SELECT throws_ok($$SELECT jobq.fence('', 1)$$, '22023', 'resource name has 0 bytes', 'not empty');
SELECT throws_ok($$SELECT jobq.fence(NULL, 1)$$, '22004', 'resource must not be null', 'no NULL resource');
SELECT throws_ok($$SELECT jobq.fence('disk', NULL)$$, '22004', 'token must not be null', 'no NULL token');

BEGIN;
SELECT jobq.fence('disk', 300) \g /dev/null
ROLLBACK;
SELECT is(token, 200::bigint, 'a token that was rolled back was never there') FROM jobq.resource_fence WHERE resource = 'disk';
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT jobq.fence('disk', 300) \g /dev/null
SELECT jobq.fence('disk', 300) \g /dev/null
SELECT jobq.fence('tape', 1) \g /dev/null
COMMIT;
SELECT is(token, 300::bigint, 'at any isolation level') FROM jobq.resource_fence WHERE resource = 'disk';
BEGIN READ ONLY;
SELECT throws_ok($$SELECT jobq.fence('disk', 400)$$, '25006', NULL, 'not in a read-only transaction');
ROLLBACK;

-- what a caller's search path holds is not used
CREATE SCHEMA trap;
CREATE TABLE trap.resource_fence (resource text PRIMARY KEY, token bigint, at timestamptz);
CREATE FUNCTION trap.octet_length(text) RETURNS int LANGUAGE sql AS 'SELECT 1000';
SET search_path = trap, public, pg_catalog;
SELECT lives_ok($$SELECT jobq.fence('disk', 300)$$, 'the function finds its own');
SELECT is((SELECT count(*) FROM trap.resource_fence), 0::bigint, 'and touches nothing else');
SET search_path = public, pg_catalog;
DROP SCHEMA trap CASCADE;

SELECT is_empty('SELECT * FROM jobq.verify()', 'all is well at the end');
SELECT * FROM finish();
