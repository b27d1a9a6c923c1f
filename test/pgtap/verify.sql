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
-- And groups: {b}+10 is ready, with {b}+11 and {b}+12 in line; {b}+13 waits out the backoff of {b}+14; {b}+15 is leased by {t}+1 with {b}+16
-- and {b}+17, {b}+18 is in line; {b}+19 is blocked by the dead job {b}+20, with {b}+21 in line; {b}+22 is paused, with {b}+23 in line; {b}+24
-- joins its group tomorrow. Their keys are g10 and so on; the place of a job in line is its id + 100.
-- {b}+40 waits for {b}+1 and {b}+14; {b}+41, an open batch of group g41, for {b}+40, and has seen {b}+5 die; {b}+42 has waited for {b}+7 and is
-- ready; {b}+43 waits for {b}+20, which is dead.
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
		INSERT INTO jobq.job_group (id, queue_id, group_key) SELECT b + n, q, 'g' || n FROM unnest('{10,13,15,19,22}'::int[]) n;
		INSERT INTO jobq.job (id, created, queue_id, max_attempts, priority, payload, group_key)
			SELECT b + m.n, now(), q, 3, 1000, '{}', 'g' || m.g
			FROM (VALUES (11, 10), (12, 10), (14, 13), (16, 15), (17, 15), (18, 15), (21, 19), (23, 22), (24, 24)) m (n, g);
		INSERT INTO jobq.line (group_id, ord, ver, job_id, attempt, priority, job_tid)
			SELECT b + m.g, b + m.n + 100, b + m.n + 150, b + m.n, m.attempt, 1000, '(0,1)'
			FROM (VALUES (11, 10, 0), (12, 10, 0), (14, 13, 1), (18, 15, 0), (21, 19, 0), (23, 22, 0)) m (n, g, attempt);
		INSERT INTO jobq.ready (seq, job_id, queue_id, attempt, lane, priority, group_id, from_ord)
			VALUES (b + 210, b + 10, q, 0, 2, 1000, b + 10, b + 111);
		INSERT INTO jobq.delayed (visible_at, job_id, queue_id, attempt, priority, group_id, from_ord)
			VALUES (now() + interval '1 day', b + 13, q, 0, 1000, b + 13, b + 114), (now() + interval '1 day', b + 24, q, 0, 1000, 0, NULL);
		INSERT INTO jobq.failure (job_id, at, attempt) VALUES (b + 14, now(), 1);
		INSERT INTO jobq.lease (token, started, lease_until, cancel, queue_id, job_ids, job_tids, attempts, group_id, ords, lane)
			VALUES (t + 1, now(), now() + interval '1 day', 0, q, ARRAY[b + 16, b + 17], '{"(0,1)","(0,2)"}', '{1,1}', b + 15, ARRAY[b + 116, b + 117], 2);
		INSERT INTO jobq.held (group_id, queue_id, priority, reason, since, from_ord, dead_job, dead_ord)
			VALUES (b + 19, q, 1000, 'blocked', now(), b + 121, b + 20, b + 120), (b + 22, q, 1000, 'paused', now(), b + 123, NULL, NULL);
		INSERT INTO jobq.dead (id, created, died, queue_id, attempt, max_attempts, priority, reason, payload, group_key)
			VALUES (b + 20, now(), now(), q, 3, 3, 1000, 'max_attempts', '{}', 'g19');
		INSERT INTO jobq.group_setting (queue_id, group_key, paused) VALUES (q, 'g22', true);
		INSERT INTO jobq.group_rate (queue_id, group_key, next_at) VALUES (q, 'g10', now());
		INSERT INTO jobq.job (id, created, queue_id, max_attempts, priority, payload, group_key, after_dead)
			VALUES (b + 40, now(), q, 3, 1000, '{}', NULL, 'w'), (b + 41, now(), q, 3, 1000, '{}', 'g41', 'r'), (b + 42, now(), q, 3, 1000, '{}', NULL, 'r'),
				(b + 43, now(), q, 3, 1000, '{}', NULL, 'w');
		INSERT INTO jobq.delayed (visible_at, job_id, queue_id, attempt, priority, group_id)
			VALUES ('infinity', b + 40, q, 0, 1000, NULL), ('infinity', b + 41, q, 0, 1000, 0), ('infinity', b + 43, q, 0, 1000, NULL);
		INSERT INTO jobq.ready (seq, job_id, queue_id, attempt, lane, priority) VALUES (b + 242, b + 42, q, 0, 0, 1000);
		INSERT INTO jobq.dependency VALUES (b + 40, b + 1, NULL), (b + 40, b + 14, NULL), (b + 41, b + 41, NULL), (b + 41, b + 40, NULL),
			(b + 41, b + 5, 'd'), (b + 42, b + 7, 'x'), (b + 43, b + 20, 'D');
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
SELECT is(pg_temp.breaks('INSERT INTO jobq.delayed SELECT now(), {b} + 40, {q}, 0, 1000'), 'place', 'a job is pending and delayed');
SELECT is(pg_temp.breaks('INSERT INTO jobq.delayed SELECT now() + interval ''1 day'', {b}, {q}, 0, 1000'), 'place', 'a job is ready and delayed');
SELECT is(pg_temp.breaks('INSERT INTO jobq.ready SELECT {b} + 101, {b}, {q}, 0, 0, 1000'), 'place', 'a job is ready twice');
SELECT is(pg_temp.breaks('INSERT INTO jobq.ready SELECT {b} + 101, {b} + 4, {q}, 0, 0, 1000'), 'place', 'a job is ready and active');
SELECT is(pg_temp.breaks($$INSERT INTO jobq.lease SELECT {t} + 2, started, lease_until, NULL, 0, queue_id, ARRAY[{b} + 4], '{"(0,2)"}', '{1}'
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
SELECT is(pg_temp.breaks($$INSERT INTO jobq.lease SELECT {t} + 2, started, lease_until, NULL, 0, queue_id, '{}', '{}', '{}' FROM jobq.lease WHERE token = {t}$$),
	'lease_arrays', 'a lease of nothing');
SELECT is(pg_temp.breaks($$UPDATE jobq.lease SET job_ids = ARRAY[{b} + 3, NULL] WHERE token = {t}; DELETE FROM jobq.job WHERE id = {b} + 4$$),
	'lease_arrays', 'a lease of a job without a name');
SELECT is(pg_temp.breaks($$INSERT INTO jobq.lease SELECT {t} + 2, started, lease_until, NULL, 0, queue_id, array_fill({b} + 6, ARRAY[65]),
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

-- groups
SELECT is(pg_temp.breaks('DELETE FROM jobq.line WHERE job_id = {b} + 11'), 'place', 'a job of a group lost its place in line');
SELECT is(pg_temp.breaks('INSERT INTO jobq.line SELECT group_id, {b} + 130, {b} + 180, job_id, attempt, priority, job_tid FROM jobq.line WHERE job_id = {b} + 11'),
	'place', 'a job stands in line twice');
SELECT is(pg_temp.breaks('INSERT INTO jobq.line SELECT {b} + 10, {b} + 130, {b} + 180, {b} + 24, 0, 1000, ''(0,1)'''),
	'line_job place', 'a delayed job stands in the line of another group');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE id = {b} + 12'), 'ticket_without_job', 'a place in line without its job');
SELECT is(pg_temp.breaks('UPDATE jobq.line SET priority = 5 WHERE job_id = {b} + 12'), 'ticket_differs', 'a place in line of another priority');
SELECT is(pg_temp.breaks('UPDATE jobq.line SET attempt = 3 WHERE job_id = {b} + 12'), 'attempt', 'a job in line without an attempt left');
SELECT is(pg_temp.breaks('DELETE FROM jobq.failure WHERE job_id = {b} + 14'), '', 'failures may have been deleted');

SELECT is(pg_temp.breaks('DELETE FROM jobq.ready WHERE job_id = {b} + 10'), 'group_ticket', 'a group lost its ticket');
SELECT is(pg_temp.breaks('DELETE FROM jobq.held WHERE group_id = {b} + 19'), 'group_ticket', 'a blocked group lost its ticket');
SELECT is(pg_temp.breaks('INSERT INTO jobq.ready SELECT {b} + 211, job_id, queue_id, 0, 2, 1000, NULL, group_id, from_ord FROM jobq.delayed WHERE group_id = {b} + 13'),
	'group_ticket', 'a group waits and is ready');
SELECT is(pg_temp.breaks('INSERT INTO jobq.ready SELECT {b} + 211, job_id, queue_id, 0, 2, 1000, NULL, group_id, from_ord FROM jobq.ready WHERE group_id = {b} + 10'),
	'group_ticket', 'a group is ready twice');
SELECT is(pg_temp.breaks('INSERT INTO jobq.ready SELECT {b} + 211, {b} + 15, {q}, 0, 2, 1000, NULL, {b} + 15, {b} + 118'), 'group_ticket', 'a leased group is ready');
SELECT is(pg_temp.breaks('INSERT INTO jobq.lease SELECT {t} + 2, started, lease_until, NULL, 0, queue_id, ARRAY[{b} + 6], ''{"(0,1)"}'', ''{1}'', NULL, NULL,
	group_id, ARRAY[{b} + 101], false, 2 FROM jobq.lease WHERE token = {t} + 1'), 'group_ticket', 'a group has two leases');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job_group WHERE id = {b} + 13'), 'group_ticket line_job', 'a ticket of no group');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET queue_id = {p} WHERE group_id = {b} + 13'), 'group_ticket', 'a group''s ticket of another queue');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET job_id = NULL WHERE group_id = {b} + 10'), 'group_ticket', 'a group''s ticket that is not found');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET job_id = {b} + 14 WHERE group_id = {b} + 13'), 'group_ticket', 'another one');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET lane = 0 WHERE group_id = {b} + 10'), 'ticket_lane', 'a group in a lane of jobs');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET lane = 2 WHERE seq = {b} + 100'), 'ticket_lane', 'a job in a lane of groups');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET lane = 3 WHERE group_id = {b} + 10'), '', 'a big group');
SELECT is(pg_temp.breaks('INSERT INTO jobq.job_group SELECT {b} + 30, {q}, ''g13''; INSERT INTO jobq.delayed SELECT now() + interval ''1 day'', {b} + 30, {q}, 0, 1000, NULL, {b} + 30, {b} + 130'),
	'group_key', 'two groups of one key');
SELECT is(pg_temp.breaks('INSERT INTO jobq.job_group SELECT {b} + 30, {p}, ''g13''; INSERT INTO jobq.delayed SELECT now() + interval ''1 day'', {b} + 30, {p}, 0, 1000, NULL, {b} + 30, {b} + 130'),
	'', 'the same key in another queue; a group without jobs that waits to be settled');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE group_key = ''g10''; DELETE FROM jobq.line WHERE group_id = {b} + 10'), 'group_empty', 'a ready group without jobs');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE group_key = ''g22''; DELETE FROM jobq.line WHERE group_id = {b} + 22'), 'group_empty', 'a paused group without jobs');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE group_key = ''g15''; DELETE FROM jobq.line WHERE group_id = {b} + 15'), 'group_empty', 'a lease without jobs');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE id IN ({b} + 16, {b} + 17)'), '', 'a lease whose jobs have ended, others are in line');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE id = {b} + 18; DELETE FROM jobq.line WHERE group_id = {b} + 15'), '', 'a lease of the last jobs');
SELECT is(pg_temp.breaks('DELETE FROM jobq.job WHERE group_key = ''g19''; DELETE FROM jobq.line WHERE group_id = {b} + 19'), '', 'a blocked group has its dead job');

SELECT is(pg_temp.breaks('UPDATE jobq.job SET group_key = ''g13'' WHERE id = {b} + 11'), 'line_job', 'a job in the line of another group');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET group_key = NULL WHERE id = {b} + 11'), 'line_job', 'a job without a group in line');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET queue_id = {p} WHERE id = {b} + 11'), 'line_job ticket_differs', 'a job in the line of another queue''s group');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET group_key = ''G15'' WHERE id = {b} + 16'), 'lease_job', 'a job in the lease of another group');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET group_key = NULL WHERE id = {b} + 16'), 'lease_job', 'a job without a group in a group''s lease');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET group_key = ''g'' WHERE id = {b}'), 'lone_member', 'a job of a group is ready by itself');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET group_key = ''g'' WHERE id = {b} + 1'), 'lone_member', 'a returned one');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET group_key = ''g'' WHERE id = {b} + 3'), 'lone_member', 'a job of a group is leased without it');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET group_id = NULL WHERE job_id = {b} + 24'), 'delayed_join', 'a delayed job that will not join its group');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET group_id = 0 WHERE job_id = {b} + 2'), 'delayed_join', 'a delayed job that will join no group');

SELECT is(pg_temp.breaks('UPDATE jobq.line SET ord = {b} + 111 WHERE job_id = {b} + 12'), 'line_order', 'two jobs at one place in line');
SELECT is(pg_temp.breaks('UPDATE jobq.line SET ord = {b} + 117 WHERE job_id = {b} + 18'), 'line_order', 'a place that is leased');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET ords = ARRAY[{b} + 116, {b} + 119] WHERE token = {t} + 1'), 'line_order', 'a job is leased before its turn');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET ords = ARRAY[{b} + 116, {b} + 119] WHERE token = {t} + 1; DELETE FROM jobq.job WHERE id = {b} + 17'), '', 'but not when it has ended');
SELECT is(pg_temp.breaks('UPDATE jobq.held SET dead_ord = {b} + 122 WHERE group_id = {b} + 19'), 'line_order', 'a dead job blocks those before it');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET from_ord = {b} + 112 WHERE group_id = {b} + 10'), 'line_from', 'a ticket that passes over a job');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET from_ord = {b} + 115 WHERE group_id = {b} + 13'), 'line_from', 'a waiting one');
SELECT is(pg_temp.breaks('UPDATE jobq.held SET from_ord = {b} + 124 WHERE group_id = {b} + 22'), 'line_from', 'a held one');
SELECT is(pg_temp.breaks('UPDATE jobq.ready SET from_ord = 0 WHERE group_id = {b} + 10'), '', 'a ticket that starts before the first');

SELECT is(pg_temp.breaks('UPDATE jobq.lease SET ords = NULL WHERE token = {t} + 1'), 'lease_ords', 'a lease of a group without places');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET ords = ARRAY[1, 2] WHERE token = {t}'), 'lease_ords', 'places in a lease of no group');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET ords = ARRAY[{b} + 117, {b} + 116] WHERE token = {t} + 1'), 'lease_ords', 'a lease out of order');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET ords = ARRAY[{b} + 116] WHERE token = {t} + 1'), 'lease_ords', 'a place too few');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET ords = ARRAY[{b} + 116, NULL] WHERE token = {t} + 1'), 'lease_ords', 'a place that is not known');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET lane = 1 WHERE token = {t} + 1'), 'lease_lane', 'a group from a lane of jobs');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET lane = 2 WHERE token = {t}'), 'lease_lane', 'jobs from a lane of groups');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET drain = true WHERE token = {t}'), 'lease_lane', 'a lease of no group that drains');
SELECT is(pg_temp.breaks('UPDATE jobq.lease SET drain = true, lane = 3 WHERE token = {t} + 1'), '', 'a big group that drains');

SELECT is(pg_temp.breaks('UPDATE jobq.held SET reason = ''tired'' WHERE group_id = {b} + 22'), 'held', 'an unknown reason');
SELECT is(pg_temp.breaks('UPDATE jobq.held SET dead_job = NULL WHERE group_id = {b} + 19'), 'held', 'a group blocked by nobody');
SELECT is(pg_temp.breaks('UPDATE jobq.held SET dead_ord = NULL WHERE group_id = {b} + 19'), 'held', 'a group blocked from nowhere');
SELECT is(pg_temp.breaks('UPDATE jobq.held SET dead_job = {b} + 20 WHERE group_id = {b} + 22'), 'held', 'a paused group with a dead job');
SELECT is(pg_temp.breaks('UPDATE jobq.held SET dead_job = {b} WHERE group_id = {b} + 19'), 'held', 'a group blocked by a live job');
SELECT is(pg_temp.breaks('DELETE FROM jobq.dead WHERE id = {b} + 20'), '', 'the dead letter may be gone');
SELECT is(pg_temp.breaks('UPDATE jobq.group_setting SET paused = false WHERE queue_id = {q}'), 'held', 'a ticket is held for a pause that is over');
SELECT is(pg_temp.breaks('DELETE FROM jobq.group_setting WHERE queue_id = {q}'), 'held', 'or was never there');
SELECT is(pg_temp.breaks('INSERT INTO jobq.group_setting (queue_id, group_key, paused) SELECT {q}, ''g'' || n, true FROM unnest(''{10,13,15,19}''::int[]) n'),
	'', 'a pause that its group''s ticket has not met yet');

SELECT is(pg_temp.breaks('INSERT INTO jobq.group_setting SELECT 0, ''g'', 2'), 'queue', 'settings of a group of no queue');
SELECT is(pg_temp.breaks('INSERT INTO jobq.group_rate SELECT 0, ''g'', now()'), 'queue', 'a rate of a group of no queue');
SELECT is(pg_temp.breaks('UPDATE jobq.job_group SET queue_id = 0 WHERE id = {b} + 10; UPDATE jobq.ready SET queue_id = 0 WHERE group_id = {b} + 10; UPDATE jobq.job SET queue_id = 0 WHERE group_key = ''g10'''),
	'queue', 'a group of no queue');

SELECT is(pg_temp.breaks('UPDATE jobq.line SET ord = 1::bigint << 60 WHERE job_id = {b} + 12'), 'id_sequence', 'a place in line that is still to be given out');
SELECT is(pg_temp.breaks('UPDATE jobq.line SET ver = 1::bigint << 60 WHERE job_id = {b} + 12'), 'id_sequence', 'a place in line of such a version');
SELECT is(pg_temp.breaks('DELETE FROM jobq.line WHERE job_id = {b} + 18; DELETE FROM jobq.job WHERE id = {b} + 18; UPDATE jobq.lease SET ords[2] = 1::bigint << 60 WHERE token = {t} + 1'),
	'id_sequence', 'such a place under a lease');
SELECT is(pg_temp.breaks('DELETE FROM jobq.line WHERE job_id = {b} + 21; DELETE FROM jobq.job WHERE id = {b} + 21; UPDATE jobq.held SET dead_ord = 1::bigint << 60 WHERE group_id = {b} + 19'),
	'id_sequence', 'such a place of a dead job');
SELECT is(pg_temp.breaks('UPDATE jobq.job_group SET id = 1::bigint << 60 WHERE id = {b} + 10; UPDATE jobq.line SET group_id = 1::bigint << 60 WHERE group_id = {b} + 10;
	UPDATE jobq.ready SET job_id = 1::bigint << 60, group_id = 1::bigint << 60 WHERE group_id = {b} + 10'), 'id_sequence', 'such an id of a group');

-- What a transaction is still to bring to its group has no place, and is no violation.
SELECT jobq.create_queue('verify-joining') \g /dev/null
BEGIN;
SELECT jobq.enqueue('verify-joining', group_key => 'k') \g /dev/null
SELECT count(*) AS n FROM jobq.verify() \gset joining_
SAVEPOINT a;
SELECT jobq.enqueue('verify-joining', group_key => 'k') AS id \gset second_
SELECT count(*) AS n FROM jobq.joining() \gset two_
ROLLBACK TO a;
SELECT count(*) AS n FROM jobq.joining() \gset one_
COMMIT;
SELECT is(:joining_n, 0, 'a transaction''s own joins are no violation');
SELECT is(:two_n::text || :one_n, '21', 'joining() forgets what was rolled back');
SELECT is_empty('SELECT * FROM jobq.joining()', 'and has nothing after the commit');
SELECT jobq.drop_queue('verify-joining', true) \g /dev/null

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
SELECT matches(concat(:'a_detail', :'b_detail', :'c_detail'), 'ready 0, delayed 0, pending 0, active 0, dead 1; counters say 0, 0, 0, 0, 0', 'and by how much');
SELECT is(:later_n, 0, 'counters are not compared later in a transaction');
INSERT INTO jobq.delayed (visible_at, job_id, queue_id, attempt, priority)
	SELECT 'infinity', 0, q.id, 0, 1000 FROM jobq.queue q WHERE q.name = 'verify-counters';
SELECT count(*) AS n, coalesce(min(detail), '') AS detail FROM jobq.verify() WHERE rule = 'counters' \gset a_
SELECT count(*) AS n, coalesce(min(detail), '') AS detail FROM jobq.verify() WHERE rule = 'counters' \gset b_
SELECT count(*) AS n, coalesce(min(detail), '') AS detail FROM jobq.verify() WHERE rule = 'counters' \gset c_
DELETE FROM jobq.delayed WHERE job_id = 0;
SELECT matches(concat(:'a_detail', :'b_detail', :'c_detail'), 'ready 0, delayed 0, pending 1, active 0, dead 0; counters say 0, 0, 0, 0, 0', 'a pending one');
INSERT INTO rule_seen VALUES ('counters');
SELECT jobq.drop_queue('verify-counters', true) \g /dev/null

-- unique keys
SELECT is(pg_temp.breaks('UPDATE jobq.job SET unique_started = false WHERE id = {b}'), 'unique_key', 'a scope without a unique key');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET unique_until = now() WHERE id = {b}'), 'unique_key', 'a window without one');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET unique_key = ''u'', unique_started = false WHERE id = {b}'), '', 'a waiting job keeps its key');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET unique_key = ''u'', unique_started = false WHERE id = {b} + 3'), 'unique_started', 'an active one does not, when it is free from the start on');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET unique_key = ''u'' WHERE id = {b} + 3'), '', 'but when it is not');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET unique_key = ''u'' WHERE id = {b}; INSERT INTO jobq.unique_window VALUES ({q}, ''u'', {b} + 6, now())'), 'unique_window', 'a key with a job and a window');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET unique_key = ''u'', unique_started = true WHERE id = {b} + 3; INSERT INTO jobq.unique_window VALUES ({q}, ''u'', {b} + 3, now())'), '', 'a job that has given it up');
SELECT is(pg_temp.breaks('INSERT INTO jobq.unique_window VALUES (0, ''u'', {b}, now())'), 'queue', 'a window of no queue');

-- jobs that wait for others
SELECT is(pg_temp.breaks('DELETE FROM jobq.delayed WHERE job_id = {b} + 40'), 'dependency_not_pending place', 'a pending job lost its ticket');
SELECT is(pg_temp.breaks('DELETE FROM jobq.dependency WHERE job_id = {b} + 40'), 'pending_without_dependency', 'a pending job that waits for nobody');
SELECT is(pg_temp.breaks('DELETE FROM jobq.dependency WHERE job_id = {b} + 41 AND ended IS NULL'), 'pending_without_dependency', 'or only for one that has ended');
SELECT is(pg_temp.breaks('DELETE FROM jobq.dependency WHERE job_id = {b} + 41 AND on_job = {b} + 40'), '', 'an open batch has no member yet');
SELECT is(pg_temp.breaks('DELETE FROM jobq.dependency WHERE ended IN (''d'', ''x'')'), '', 'nothing tells of the ended ones');
SELECT is(pg_temp.breaks('DELETE FROM jobq.dependency WHERE ended = ''D'''), 'pending_without_dependency', 'but where they are waited for all the same');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET visible_at = now() + interval ''1 day'' WHERE job_id = {b} + 40'), 'dependency_not_pending', 'a delayed job that waits for others');
SELECT is(pg_temp.breaks('UPDATE jobq.dependency SET ended = NULL, on_job = {b} WHERE job_id = {b} + 42'), 'dependency_not_pending', 'a ready one');
SELECT is(pg_temp.breaks('UPDATE jobq.dependency SET job_id = {b} + 2 WHERE job_id = {b} + 43; UPDATE jobq.job SET after_dead = ''w'' WHERE id = {b} + 2; DELETE FROM jobq.delayed WHERE job_id = {b} + 43;
	DELETE FROM jobq.job WHERE id = {b} + 43'), 'dependency_not_pending', 'one that waits for an ended one');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET visible_at = ''infinity'' WHERE job_id = {b} + 2'), 'after_dead pending_without_dependency', 'a delayed job that is never due');
SELECT is(pg_temp.breaks('INSERT INTO jobq.dependency VALUES ({b} + 5, {b}, NULL), ({b} + 6, {b}, ''d'')'), 'dependency_without_job', 'finished jobs that wait');
SELECT is(pg_temp.breaks('INSERT INTO jobq.dependency VALUES ({b} + 40, {b} + 6, NULL)'), 'dependency_over', 'a job waits for one that has completed');
SELECT is(pg_temp.breaks('INSERT INTO jobq.dependency VALUES ({b} + 40, {b} + 6, ''D'')'), 'dependency_over', 'a redriven one');
SELECT is(pg_temp.breaks('INSERT INTO jobq.dependency VALUES ({b} + 40, {b} + 8, NULL)'), 'dependency_over', 'one that is gone');
SELECT is(pg_temp.breaks('INSERT INTO jobq.dependency VALUES ({b} + 40, {b} + 8, ''R''), ({b} + 40, {b} + 3, ''D'')'), '', 'when it knows; one that was redriven');
SELECT is(pg_temp.breaks('UPDATE jobq.dependency SET ended = ''c'' WHERE job_id = {b} + 42'), 'dependency_ended', 'an unknown end');
SELECT is(pg_temp.breaks('INSERT INTO jobq.dependency VALUES ({b} + 40, {b} + 5, ''d'')'), 'dependency_ended', 'an end that the job does not run after');
SELECT is(pg_temp.breaks('UPDATE jobq.dependency SET ended = ''D'' WHERE job_id = {b} + 41 AND ended = ''d'''), 'dependency_ended', 'one that it does not wait after');
SELECT is(pg_temp.breaks('UPDATE jobq.dependency SET ended = ''r'' WHERE on_job = job_id'), 'dependency_ended', 'a batch that has ended as its own member');
SELECT is(pg_temp.breaks('UPDATE jobq.dependency SET on_job = 1::bigint << 60 WHERE on_job = {b} + 1'), 'dependency_over id_sequence', 'a job waits for one that is still to come');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET after_dead = NULL WHERE id = {b} + 40'), 'after_dead', 'a pending job that does not know what to do');
SELECT is(pg_temp.breaks('UPDATE jobq.job SET after_dead = ''k'' WHERE id = {b}'), 'after_dead', 'an unknown word');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET group_id = NULL WHERE job_id = {b} + 41'), 'delayed_join', 'a pending job that will not join its group');
SELECT is(pg_temp.breaks('UPDATE jobq.delayed SET visible_at = ''infinity'' WHERE group_id = {b} + 13'), 'group_ticket', 'a group that is never due');

SELECT results_eq($$SELECT DISTINCT rule FROM rule_seen ORDER BY 1$$,
	$$SELECT DISTINCT m[1] FROM regexp_matches(pg_get_functiondef('jobq.verify'::regproc), 'SELECT ''([a-z_]+)''::text[^,]*,\s+format', 'g') m ORDER BY 1$$,
	'every rule was broken here');
SELECT is_empty('SELECT * FROM jobq.verify()', 'all is well at the end');
SELECT * FROM finish();
