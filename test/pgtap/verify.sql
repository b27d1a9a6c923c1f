-- verify() names every broken rule: a healthy state is made by hand, one thing in it is broken, verify() is asked, all is undone.
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
SET search_path = public, pg_catalog;
SET timezone = 'America/St_Johns';
SELECT * FROM no_plan();

CREATE TEMP TABLE rule_seen (rule text);

-- Two queues {q} and {p}, and in {q} the jobs {b}: ready, {b}+1: returned after one failure, {b}+2: delayed, {b}+3 and {b}+4: in one
-- lease {t}, the first in its second attempt, {b}+5: dead, {b}+6: completed. {h} is the history table of that one.
CREATE FUNCTION pg_temp.breaks(change text) RETURNS text LANGUAGE plpgsql AS $fn$
DECLARE
	b bigint := nextval('jobq.job_block_seq') * 256;
	t bigint := nextval('jobq.token_block_seq') * 16384;
	q int;
	p int;
	h text := 'jobq.history_' || floor(extract(epoch FROM now() + interval '1 day' - timestamptz '2000-01-01 00:00+00') / 86400)::int % 32;
	before text;
	rules text[];
BEGIN
	BEGIN
		INSERT INTO jobq.queue (name, owner) VALUES ('verify-q', current_user) RETURNING id INTO q;
		INSERT INTO jobq.queue (name, owner) VALUES ('verify-p', current_user) RETURNING id INTO p;
		INSERT INTO jobq.job (id, created, queue_id, max_attempts, priority, payload)
			SELECT b + n, now(), q, 3, 1000, '{}' FROM generate_series(0, 4) n;
		INSERT INTO jobq.ready (seq, queue_id, attempt, lane, priority) VALUES (b, q, 0, 1, 1000);
		INSERT INTO jobq.ready (seq, job_id, queue_id, attempt, lane, priority) VALUES (b + 100, b + 1, q, 1, 0, 1000);
		INSERT INTO jobq.delayed (visible_at, job_id, queue_id, attempt, priority) VALUES (now() + interval '1 day', b + 2, q, 0, 1000);
		INSERT INTO jobq.lease (token, started, lease_until, cancel, queue_id, job_ids, job_tids, attempts)
			VALUES (t, now(), now() + interval '1 day', 2, q, ARRAY[b + 3, b + 4], '{"(0,1)","(0,2)"}', '{2,1}');
		INSERT INTO jobq.failure (job_id, at, attempt) VALUES (b + 1, now(), 1), (b + 3, now(), 1);
		INSERT INTO jobq.dead (id, created, died, queue_id, attempt, max_attempts, priority, reason, payload)
			VALUES (b + 5, now(), now(), q, 3, 3, 1000, 'max_attempts', '{}');
		EXECUTE format('INSERT INTO %s (id, created, finished, expiry, queue_id, attempt, max_attempts, priority, state, payload)
			VALUES (%s, now(), now(), now() + interval ''1 day'', %s, 1, 3, 1000, ''c'', ''{}'')', h, b + 6, q);
		SELECT string_agg(v::text, ' ') INTO before FROM jobq.verify() v;
		EXECUTE replace(replace(replace(replace(replace(change, '{b}', b::text), '{q}', q::text), '{p}', p::text), '{h}', h), '{t}', t::text);
		rules := ARRAY(SELECT DISTINCT v.rule FROM jobq.verify() v ORDER BY 1);
		RAISE EXCEPTION 'undo' USING ERRCODE = 'JQT00';
	EXCEPTION WHEN SQLSTATE 'JQT00' THEN
		INSERT INTO rule_seen SELECT unnest(rules);
	END;
	RETURN coalesce('before: ' || before, array_to_string(rules, ' '));
END
$fn$;

SELECT is_empty('SELECT * FROM jobq.verify()', 'all is well at the start');
SELECT is(pg_temp.breaks('SELECT'), '', 'a healthy state breaks no rule');

SELECT is(pg_temp.breaks('DELETE FROM jobq.ready WHERE seq = {b}'), 'place', 'a ready job lost its ticket');
SELECT is(pg_temp.breaks('DELETE FROM jobq.delayed WHERE job_id = {b} + 2'), 'place', 'a delayed job lost its ticket');
SELECT is(pg_temp.breaks('DELETE FROM jobq.lease WHERE token = {t}'), 'place', 'active jobs lost their lease');
SELECT is(pg_temp.breaks('INSERT INTO jobq.delayed SELECT now() + interval ''1 day'', {b}, {q}, 0, 1000'), 'place', 'a job is ready and delayed');
SELECT is(pg_temp.breaks('INSERT INTO jobq.ready SELECT {b} + 101, {b}, {q}, 0, 0, 1000'), 'place', 'a job is ready twice');
SELECT is(pg_temp.breaks('INSERT INTO jobq.ready SELECT {b} + 101, {b} + 4, {q}, 0, 0, 1000'), 'place', 'a job is ready and active');
SELECT is(pg_temp.breaks($$INSERT INTO jobq.lease SELECT {t} + 1, started, lease_until, NULL, 0, queue_id, ARRAY[{b} + 4], '{"(0,2)"}', '{1}'
	FROM jobq.lease WHERE token = {t}$$), 'place', 'two leases hold one job');
SELECT is(pg_temp.breaks($$UPDATE jobq.lease SET job_ids = ARRAY[{b} + 3, {b} + 3] WHERE token = {t}$$), 'place', 'one lease holds a job twice');

SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE id = {b}'), 'ticket_without_job', 'a ready ticket without its job');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE id = {b} + 2'), 'ticket_without_job', 'a delayed ticket without its job');
SELECT is(pg_temp.breaks('INSERT INTO jobq.delayed SELECT now() + interval ''1 day'', NULL, {q}, 0, 1000'), 'ticket_without_job', 'a ticket that names no job');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE id = {b} + 4'), '', 'a lease may list a job that has ended');

SELECT is(pg_temp.breaks('UPDATE jobq.ready SET priority = 5 WHERE seq = {b}'), 'ticket_differs', 'a ready ticket of another priority');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET priority = 5 WHERE job_id = {b} + 2'), 'ticket_differs', 'a delayed ticket of another priority');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET queue_id = {p} WHERE seq = {b}'), 'ticket_differs', 'a ready ticket of another queue');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET queue_id = {p} WHERE job_id = {b} + 2'), 'ticket_differs', 'a delayed ticket of another queue');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET queue_id = {p} WHERE token = {t}'), 'ticket_differs', 'a lease of another queue');

SELECT is(pg_temp.breaks('UPDATE jobq.ready SET lane = 7 WHERE seq = {b} + 100'), 'ticket_lane', 'a lane nobody looks into');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET job_id = {b} + 4 WHERE seq = {b}'), 'ticket_lane', 'a fresh ticket whose seq is not its job''s id');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET seq = {b} WHERE seq = {b} + 100'), 'ticket_seq', 'two tickets of one seq');

SELECT is(pg_temp.breaks('INSERT INTO {h} SELECT {b}, h.token, h.created, h.started, h.finished, h.expiry, h.queue_id, h.attempt, h.max_attempts,
	h.priority, h.state, NULL, NULL, NULL, NULL, h.payload FROM {h} h WHERE h.id = {b} + 6'), 'finished', 'a live job is in history');
SELECT is(pg_temp.breaks('INSERT INTO {h} SELECT * FROM {h} WHERE id = {b} + 6'), 'finished', 'a job is in history twice');
SELECT is(pg_temp.breaks('UPDATE jobq.dead SET id = {b} WHERE id = {b} + 5'), 'finished', 'a live job is dead');
SELECT is(pg_temp.breaks('UPDATE jobq.dead SET id = {b} + 6 WHERE id = {b} + 5'), 'finished', 'a job is completed and dead');

SELECT is(pg_temp.breaks('UPDATE {h} SET state = ''r'' WHERE id = {b} + 6'), 'history', 'an unknown final state');
SELECT is(pg_temp.breaks('UPDATE {h} SET attempt = 4 WHERE id = {b} + 6'), 'history', 'a finished job with too many attempts');
SELECT is(pg_temp.breaks('UPDATE {h} SET expiry = expiry + interval ''1 day'' WHERE id = {b} + 6'), 'history_day', 'a finished job in the table of another day');
SELECT is(pg_temp.breaks('UPDATE {h} SET expiry = ''infinity'' WHERE id = {b} + 6'), 'history_day', 'a job kept for ever in a table that is emptied');
SELECT is(pg_temp.breaks('INSERT INTO jobq.history_far SELECT {b} + 7, h.token, h.created, h.started, h.finished, ''infinity'', h.queue_id, h.attempt, h.max_attempts,
	h.priority, h.state, NULL, NULL, NULL, NULL, h.payload FROM {h} h WHERE h.id = {b} + 6'), '', 'where it does belong');
SELECT is(pg_temp.breaks('UPDATE jobq.dead SET attempt = 4 WHERE id = {b} + 5'), 'dead', 'a dead job with too many attempts');
SELECT is(pg_temp.breaks('UPDATE jobq.dead SET attempt = -1 WHERE id = {b} + 5'), 'dead', 'a dead job with less than none');

SELECT is(pg_temp.breaks($$UPDATE jobq.lease SET job_tids = '{"(0,1)"}' WHERE token = {t}$$), 'lease_arrays', 'a lease with an address too few');
SELECT is(pg_temp.breaks($$UPDATE jobq.lease SET attempts = '{2,1,1}' WHERE token = {t}$$), 'lease_arrays', 'a lease with an attempt too many');
SELECT is(pg_temp.breaks($$INSERT INTO jobq.lease SELECT {t} + 1, started, lease_until, NULL, 0, queue_id, '{}', '{}', '{}' FROM jobq.lease WHERE token = {t}$$),
	'lease_arrays', 'a lease of nothing');
SELECT is(pg_temp.breaks($$UPDATE jobq.lease SET job_ids = ARRAY[{b} + 3, NULL] WHERE token = {t}; DELETE FROM jobq.job WHERE id = {b} + 4$$),
	'lease_arrays', 'a lease of a job without a name');
SELECT is(pg_temp.breaks($$INSERT INTO jobq.lease SELECT {t} + 1, started, lease_until, NULL, 0, queue_id, array_fill({b} + 6, ARRAY[65]),
	array_fill('(0,1)'::tid, ARRAY[65]), array_fill(1, ARRAY[65]) FROM jobq.lease WHERE token = {t}$$), 'lease_arrays', 'a lease of 65 jobs');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET cancel = 4 WHERE token = {t}'), 'lease_arrays', 'a cancel bit of no job');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET deadline = lease_until - interval ''1 us'' WHERE token = {t}'), 'lease_deadline', 'a lease past its deadline');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET deadline = lease_until WHERE token = {t}'), '', 'a lease up to its deadline');

SELECT is(pg_temp.breaks('UPDATE jobq.ready SET attempt = 3 WHERE seq = {b} + 100'), 'attempt', 'a ready job without an attempt left');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET attempt = -1 WHERE job_id = {b} + 2'), 'attempt', 'a delayed job with a negative attempt');
SELECT is(pg_temp.breaks($$UPDATE jobq.lease SET attempts = '{4,1}' WHERE token = {t}$$), 'attempt', 'an attempt too many is running');
SELECT is(pg_temp.breaks($$UPDATE jobq.lease SET attempts = '{2,0}' WHERE token = {t}$$), 'attempt', 'a running attempt without a number');

SELECT is(pg_temp.breaks('INSERT INTO jobq.failure SELECT {b} + 6, now(), 1'), 'failure', 'a failure left behind by a finished job');
SELECT is(pg_temp.breaks('INSERT INTO jobq.failure SELECT {b} + 1, now(), 2'), 'failure', 'a failure of an attempt that is yet to come');
SELECT is(pg_temp.breaks('INSERT INTO jobq.failure SELECT {b} + 1, now(), 1'), 'failure', 'an attempt failed twice');
SELECT is(pg_temp.breaks('INSERT INTO jobq.failure VALUES ({b} + 1, now(), 0), ({b} + 1, now(), -1)'), '', 'failures of a life before a redrive');

SELECT is(pg_temp.breaks('UPDATE jobq.job SET queue_id = 0 WHERE id = {b}; UPDATE jobq.ready SET queue_id = 0 WHERE seq = {b}'), 'queue', 'a job of no queue');
SELECT is(pg_temp.breaks('UPDATE jobq.queue SET dead_letter_queue = 0 WHERE id = {q}'), 'queue', 'dead letters for no queue');
SELECT is(pg_temp.breaks('UPDATE jobq.queue SET dead_letter_queue = {q} WHERE id = {q}'), 'dead_letter_loop', 'dead letters for the queue itself');
SELECT is(pg_temp.breaks('UPDATE jobq.queue SET dead_letter_queue = {q} + {p} - id WHERE id IN ({q}, {p})'), 'dead_letter_loop', 'dead letters in a circle');
SELECT is(pg_temp.breaks('UPDATE jobq.queue SET dead_letter_queue = {p} WHERE id = {q}'), '', 'dead letters for another queue');

SELECT is(pg_temp.breaks('UPDATE jobq.job SET id = 1::bigint << 60 WHERE id = {b}; UPDATE jobq.ready SET seq = 1::bigint << 60 WHERE seq = {b}'),
	'id_sequence', 'a job with an id that is still to be given out');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET seq = 1::bigint << 60 WHERE seq = {b} + 100'), 'id_sequence', 'a ticket with such a seq');
SELECT is(pg_temp.breaks('UPDATE jobq.dead SET id = 1::bigint << 60 WHERE id = {b} + 5'), 'id_sequence', 'a dead job with such an id');
SELECT is(pg_temp.breaks('UPDATE {h} SET id = 1::bigint << 60 WHERE id = {b} + 6'), 'id_sequence', 'a finished job with such an id');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET token = 1::bigint << 62 WHERE token = {t}'), 'token_sequence', 'a lease with a token that is still to be given out');

-- The counters do not know of a job that is put there by hand. They are compared only while nobody else writes, so ask more than once:
-- autovacuum or the scheduler may be at work.
CREATE FUNCTION pg_temp.until_exact() RETURNS boolean LANGUAGE plpgsql AS $fn$
BEGIN
	FOR i IN 1 .. 200 LOOP
		IF (SELECT bool_and(exact) FROM jobq.queue_counts()) THEN
			RETURN true;
		END IF;
		PERFORM pg_sleep(0.05);
	END LOOP;
	RETURN false;
END
$fn$;
SELECT jobq.create_queue('verify-counters') \g /dev/null
SELECT ok(pg_temp.until_exact(), 'the counters become exact');
INSERT INTO jobq.dead (id, created, died, queue_id, attempt, max_attempts, priority, reason, payload)
	SELECT 0, now(), now(), q.id, 1, 1, 1000, 'by hand', '{}' FROM jobq.queue q WHERE q.name = 'verify-counters';
SELECT count(*) AS n, coalesce(min(detail), '') AS detail FROM jobq.verify() WHERE rule = 'counters' \gset a_
SELECT count(*) AS n, coalesce(min(detail), '') AS detail FROM jobq.verify() WHERE rule = 'counters' \gset b_
SELECT count(*) AS n, coalesce(min(detail), '') AS detail FROM jobq.verify() WHERE rule = 'counters' \gset c_
BEGIN;
SELECT pg_backend_pid() \g /dev/null
SELECT count(*) AS n FROM jobq.verify() WHERE rule = 'counters' \gset later_
COMMIT;
DELETE FROM jobq.dead WHERE id = 0;
SELECT ok(:a_n + :b_n + :c_n > 0, 'a counter that is wrong');
SELECT matches(concat(:'a_detail', :'b_detail', :'c_detail'), 'ready 0, delayed 0, active 0, dead 1; counters say 0, 0, 0, 0', 'and by how much');
SELECT is(:later_n, 0, 'counters are not compared later in a transaction');
INSERT INTO rule_seen VALUES ('counters');
SELECT jobq.drop_queue('verify-counters', true) \g /dev/null

SELECT results_eq($$SELECT DISTINCT rule FROM rule_seen ORDER BY 1$$,
	$$SELECT DISTINCT m[1] FROM regexp_matches(pg_get_functiondef('jobq.verify'::regproc), 'SELECT ''([a-z_]+)''::text[^,]*,\s+format', 'g') m ORDER BY 1$$,
	'every rule was broken here');
SELECT is_empty('SELECT * FROM jobq.verify()', 'all is well at the end');
SELECT * FROM finish();
