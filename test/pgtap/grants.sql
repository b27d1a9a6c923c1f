-- Every function and every view of the schema, called by every kind of role: on a queue that it has a right on, on one that it has
-- none on, and on one that does not exist. The last two must look the same. A function or view that is not in the tables of
-- expectations below fails the test.
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION jobq;
SELECT * FROM no_plan();

-- e, c, m: enqueue, consume, manage on queue "garden", by grant_queue(); o: its owner; n: nobody.
-- b: was given EXECUTE on everything, and SELECT on the views, but no right on any queue; be, bc, bm: has also one on "garden".
CREATE TEMP TABLE who (letter text PRIMARY KEY, role name);
INSERT INTO who SELECT l, 'jobq_grants_' || l FROM unnest('{e,c,m,o,n,b,be,bc,bm}'::text[]) l;
SELECT format('CREATE ROLE %I', role) FROM who \gexec
GRANT USAGE ON SCHEMA jobq TO jobq_grants_o;
GRANT EXECUTE ON FUNCTION jobq.create_queue TO jobq_grants_o;
SELECT jobq.stop() \g /dev/null
CREATE FUNCTION public.handle(jsonb) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION public.backoff(int, text) RETURNS interval LANGUAGE sql AS $$SELECT interval '1 s'$$;

-- Two queues with a job in every state, a blocked group, a handler, a schedule, events.
CREATE TEMP TABLE thing (queue text, name text, value text);
CREATE PROCEDURE fill(queue text) LANGUAGE plpgsql AS $$
DECLARE
	word text := queue || ' ';
	r record;
BEGIN
	PERFORM jobq.alter_queue(queue, events => '{waiting,active,completed,failed,dead}', on_dead => 'block');
	INSERT INTO thing SELECT queue, 'id', id FROM jobq.queue q WHERE q.name = fill.queue;
	INSERT INTO thing VALUES (queue, 'dead', jobq.enqueue(queue, to_jsonb(word || 'payload'), name => word || 'job', max_attempts => 1, group_key => word || 'group'));
	COMMIT;
	SELECT * INTO r FROM jobq.dequeue(queue, worker => word || 'worker');
	PERFORM jobq.fail(r.job_id, r.token, word || 'error');
	COMMIT;
	INSERT INTO thing VALUES (queue, 'done', jobq.enqueue(queue, to_jsonb(word || 'payload')));
	COMMIT;
	SELECT * INTO r FROM jobq.dequeue(queue, worker => word || 'worker');
	PERFORM jobq.complete(r.job_id, r.token, to_jsonb(word || 'result'));
	INSERT INTO thing VALUES (queue, 'done_token', r.token);
	COMMIT;
	INSERT INTO thing VALUES (queue, 'active', jobq.enqueue(queue, to_jsonb(word || 'payload')));
	COMMIT;
	SELECT * INTO r FROM jobq.dequeue(queue, lease => '1 hour', worker => word || 'worker');
	INSERT INTO thing VALUES (queue, 'token', r.token);
	COMMIT;
	INSERT INTO thing VALUES (queue, 'ready', jobq.enqueue(queue, to_jsonb(word || 'payload'), headers => jsonb_build_object('h', word || 'header')));
	INSERT INTO thing VALUES (queue, 'delayed', jobq.enqueue(queue, to_jsonb(word || 'payload'), delay => '1 day'));
	PERFORM jobq.enqueue_many(queue, '[1, 2, 3, 4, 5, 6, 7, 8, 9]');
	INSERT INTO thing VALUES (queue, 'batch', jobq.open_batch(queue, to_jsonb(word || 'payload'), name => word || 'callback'));
	PERFORM jobq.set_handler(queue, 'public.handle', name => word || 'handler');
	PERFORM jobq.schedule(word || 'schedule', '0 0 1 1 *', queue, to_jsonb(word || 'payload'));
	PERFORM jobq.pause_group(queue, word || 'idle');
	INSERT INTO jobq.schedule_run (schedule, instant, outcome, at) VALUES (word || 'schedule', now(), 'enqueued', now());
	COMMIT;
END
$$;
SET ROLE jobq_grants_o;
SELECT jobq.create_queue('garden') \g /dev/null
RESET ROLE;
SELECT jobq.create_queue('secret') \g /dev/null
CALL fill('garden');
CALL fill('secret');
INSERT INTO thing SELECT 'absent', name, CASE WHEN name LIKE '%token' THEN (1::bigint << 41) ELSE 987654321 END::text FROM thing WHERE queue = 'garden';
SELECT first FROM jobq.once('before') \g /dev/null

SELECT jobq.grant_queue('garden', 'jobq_grants_' || l, p) FROM (VALUES ('e', '{enqueue}'::text[]), ('c', '{consume}'), ('m', '{manage}'),
	('be', '{enqueue}'), ('bc', '{consume}'), ('bm', '{manage}')) g (l, p) \g /dev/null
GRANT USAGE ON SCHEMA jobq TO jobq_grants_b, jobq_grants_be, jobq_grants_bc, jobq_grants_bm;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA jobq TO jobq_grants_b, jobq_grants_be, jobq_grants_bc, jobq_grants_bm;
SELECT format('GRANT SELECT ON %s TO jobq_grants_b, jobq_grants_be, jobq_grants_bc, jobq_grants_bm', string_agg(v, ', '))
	FROM unnest('{jobq.queues,jobq.jobs,jobq.dependencies,jobq.groups,jobq.workers,jobq.dead_letters,jobq.handlers,jobq.schedules,jobq.schedule_runs,jobq.grants}'::text[]) v \gexec

-- who may make queues learns which there are
REVOKE EXECUTE ON FUNCTION jobq.create_queue FROM jobq_grants_o, jobq_grants_b, jobq_grants_be, jobq_grants_bc, jobq_grants_bm;

-- execute: which privileges bring EXECUTE (o: only the owner has it; x: the database's administrator gives it); may: whom the statement
-- works for on his own queue; x: EXECUTE alone decides. {q} is the queue, the other braces are its things.
CREATE TEMP TABLE expected (name text, execute text, may text, statement text);
INSERT INTO expected VALUES
	('enqueue', 'e', 'e', $$SELECT jobq.enqueue('{q}') > 0$$),
	('enqueue_many', 'e', 'e', $$SELECT status FROM jobq.enqueue_many('{q}', '[1]')$$),
	('enqueue', 'e', 'e', $$SELECT jobq.enqueue('garden', batch => {batch}) > 0$$),
	('enqueue_many', 'e', 'e', $$SELECT status FROM jobq.enqueue_many('garden', '[1]', batch => {batch})$$),
	('open_batch', 'e', 'e', $$SELECT jobq.open_batch('{q}') > 0$$),
	('open_batch', 'e', 'e', $$SELECT jobq.open_batch('garden', batch => {batch}) > 0$$),
	('close_batch', 'e', 'e', $$SELECT jobq.close_batch({batch})$$),
	('dequeue', 'c', 'c', $$SELECT count(*) FROM jobq.dequeue('{q}')$$),
	('complete', 'c', 'c', $$SELECT jobq.complete({active}, {token})$$),
	('complete', 'c', 'c', $$SELECT jobq.complete({done}, {done_token})$$),
	('ack', 'c', 'c', $$SELECT jobq.ack({active}, {token})$$),
	('fail', 'c', 'c', $$SELECT jobq.fail({active}, {token}, 'x')$$),
	('nack', 'c', 'c', $$SELECT jobq.nack({active}, {token})$$),
	('release', 'c', 'c', $$SELECT jobq.release({active}, {token})$$),
	('extend', 'c', 'c', $$SELECT jobq.extend({active}, {token}, '2 hours')$$),
	('complete_many', 'c', 'c', $$SELECT status FROM jobq.complete_many(ARRAY[{active}, {done}], ARRAY[{token}, {done_token}])$$),
	('fail_many', 'c', 'c', $$SELECT status FROM jobq.fail_many(ARRAY[{active}], ARRAY[{token}])$$),
	('release_many', 'c', 'c', $$SELECT status FROM jobq.release_many(ARRAY[{active}], ARRAY[{token}])$$),
	('extend_many', 'c', 'c', $$SELECT status FROM jobq.extend_many(ARRAY[{active}], ARRAY[{token}], '2 hours')$$),
	('complete_and_dequeue', 'c', 'c', $$SELECT count(*) FROM jobq.complete_and_dequeue({active}, {token}, '{q}')$$),
	('complete_and_dequeue', 'c', 'c', $$SELECT count(*) FROM jobq.complete_and_dequeue({active}, {token}, 'garden')$$),
	('progress', 'c', 'c', $$SELECT jobq.progress({active}, {token}, '1')$$),
	('assert_lease', 'c', 'c', $$SELECT jobq.assert_lease({active}, {token})$$),
	('fence', 'c', 'x', $$SELECT jobq.fence('r', 1)$$),
	('once', 'c', 'x', $$SELECT first FROM jobq.once('k')$$),
	('once_done', 'c', 'x', $$SELECT jobq.once_done('before', '1')$$),
	('wait', 'c', NULL, NULL),
	('alter_queue', 'm', 'm', $$SELECT jobq.alter_queue('{q}', lease => '1 min')$$),
	('alter_queue', 'm', NULL, $$SELECT jobq.alter_queue('garden', dead_letter_queue => '{q}')$$),
	-- it would run with the owner's rights
	('alter_queue', 'm', 'o', $$SELECT jobq.alter_queue('{q}', backoff => 'function', backoff_function => 'public.backoff')$$),
	('pause_queue', 'm', 'm', $$SELECT jobq.pause_queue('{q}')$$),
	('resume_queue', 'm', 'm', $$SELECT jobq.resume_queue('{q}')$$),
	('purge_queue', 'm', 'm', $$SELECT jobq.purge_queue('{q}', '{ready,delayed,pending,dead,completed}')$$),
	('cancel', 'm', 'm', $$SELECT jobq.cancel(j) FROM unnest(ARRAY[{ready}, {delayed}, {batch}, {active}, {dead}, {done}]) j$$),
	('reschedule', 'm', 'm', $$SELECT jobq.reschedule({delayed}, priority => 5)$$),
	('reschedule', 'm', 'm', $$SELECT jobq.reschedule({batch}, priority => 5)$$),
	('reschedule', 'm', 'm', $$SELECT jobq.reschedule({ready}, run_at => now() + interval '1 hour')$$),
	('run_now', 'm', 'm', $$SELECT jobq.run_now(ARRAY[{delayed}, {batch}])$$),
	('delete_jobs', 'm', 'm', $$SELECT jobq.delete_jobs(ARRAY[{ready}, {delayed}, {batch}, {active}, {dead}, {done}])$$),
	('redrive', 'm', 'm', $$SELECT jobq.redrive('{q}')$$),
	('redrive', 'm', 'm', $$SELECT jobq.redrive('garden', ARRAY[{dead}])$$),
	('redrive', 'm', 'm', $$SELECT jobq.redrive('garden', to_queue => '{q}')$$),
	('alter_group', 'm', 'm', $$SELECT jobq.alter_group('{q}', '{q} group', weight => 2)$$),
	('pause_group', 'm', 'm', $$SELECT jobq.pause_group('{q}', '{q} group')$$),
	('resume_group', 'm', 'm', $$SELECT jobq.resume_group('{q}', '{q} idle')$$),
	('unblock_group', 'm', 'm', $$SELECT jobq.unblock_group('{q}', '{q} group')$$),
	('set_handler', 'm', 'm', $$SELECT jobq.set_handler('{q}', 'public.handle')$$),
	('drop_handler', 'm', 'm', $$SELECT jobq.drop_handler('{q}', '{q} handler')$$),
	('schedule', 'm', 'm', $$SELECT jobq.schedule('new', '0 0 1 1 *', '{q}') IS NOT NULL$$),
	('unschedule', 'm', NULL, $$SELECT jobq.unschedule('{q} schedule')$$),
	('schedule_next', 'm', 'x', $$SELECT jobq.schedule_next('0 0 1 1 *', n => 1)$$),
	('job', 'cm', 'cm', $$SELECT g FROM unnest(ARRAY[{ready}, {delayed}, {batch}, {active}, {dead}, {done}]) j, jobq.job(j) g$$),
	('explain_job', 'cm', 'cm', $$SELECT jobq.explain_job(j) FROM unnest(ARRAY[{ready}, {delayed}, {batch}, {active}, {dead}, {done}]) j$$),
	('wait_job', 'cm', NULL, NULL),
	('events', 'cm', 'cm', $$SELECT event, job_id, error FROM jobq.events(queue => '{q}')$$),
	('events', 'cm', 'cm', $$SELECT event, job_id, error FROM jobq.events() WHERE queue_name = '{q}'$$),
	('lease_counts', 'cm', 'cm', $$SELECT worker FROM jobq.lease_counts() WHERE queue_id = {id}$$),
	('joining', 'cm', 'x', $$SELECT count(*) FROM jobq.joining()$$),
	('may_read', 'ecm', 'cm', $$SELECT jobq.may_read({id}) OR NULL$$),
	('may_see', 'ecm', 'ecm', $$SELECT jobq.may_see({id}) OR NULL$$),
	('queue_counts', 'ecm', 'ecm', $$SELECT ready FROM jobq.queue_counts() WHERE queue_id = {id}$$),
	('rename_queue', 'o', 'o', $$SELECT jobq.rename_queue('{q}', 'renamed')$$),
	('drop_queue', 'o', 'o', $$SELECT jobq.drop_queue('{q}', force => true)$$),
	('grant_queue', 'o', 'o', $$SELECT jobq.grant_queue('{q}', 'jobq_grants_n', '{enqueue}')$$),
	('revoke_queue', 'o', 'o', $$SELECT jobq.revoke_queue('{q}', 'jobq_grants_e', '{enqueue}')$$),
	('create_queue', 'x', NULL, $$SELECT jobq.create_queue('{q}', dead_letter_queue => 'secret')$$),
	('metrics', 'x', NULL, $$SELECT count(*) FROM jobq.metrics() m WHERE m::text LIKE '%{q}%'$$),
	('queue_metrics', 'x', NULL, $$SELECT count(*) FROM jobq.queue_metrics() m WHERE m::text LIKE '%{q}%'$$),
	('queue_rates', 'x', NULL, $$SELECT count(*) FROM jobq.queue_rates() m WHERE m::text LIKE '%{q}%'$$),
	('database_metrics', 'x', NULL, NULL),
	('adopt', 'x', NULL, NULL),
	('stop', 'x', NULL, NULL),
	('start', 'x', NULL, NULL),
	('drain_worker', 'x', NULL, NULL),
	('verify', 'x', NULL, NULL),
	('settings_changed', 'x', NULL, NULL),
	('handlers_changed', 'x', NULL, NULL),
	('register_database', 'x', NULL, NULL);
-- the same for SELECT on views
CREATE TEMP TABLE expected_view (name text, may text);
INSERT INTO expected_view VALUES ('queues', 'ecm'), ('grants', 'ecm'), ('jobs', 'cm'), ('dependencies', 'cm'), ('groups', 'cm'), ('workers', 'cm'), ('dead_letters', 'cm'),
	('handlers', 'cm'), ('schedules', 'cm'), ('schedule_runs', 'cm'), ('history', ''), ('job_full', ''), ('blocked_groups', '');

-- who has EXECUTE and SELECT
SELECT results_eq($$SELECT DISTINCT proname::text COLLATE "C" FROM pg_proc WHERE pronamespace = 'jobq'::regnamespace ORDER BY 1$$,
	$$SELECT DISTINCT name COLLATE "C" FROM expected ORDER BY 1$$, 'every function has its expectation');
SELECT results_eq($$SELECT relname::text COLLATE "C" FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind = 'v' ORDER BY 1$$,
	$$SELECT name COLLATE "C" FROM expected_view ORDER BY 1$$, 'every view has its expectation');
CREATE FUNCTION pg_temp.holders(privileges text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(l, '' ORDER BY l) FROM unnest('{c,e,m,n,o}'::text[]) l WHERE strpos(privileges, l) > 0 OR l = 'o' AND privileges NOT IN ('x', '')
$$;
SELECT is(string_agg(w.letter, '' ORDER BY w.letter) FILTER (WHERE has_function_privilege(w.role, p.oid, 'EXECUTE')),
		pg_temp.holders(e.execute), p.proname || ': who may execute it')
	FROM pg_proc p JOIN (SELECT DISTINCT name, execute FROM expected) e ON e.name = p.proname, who w
	WHERE p.pronamespace = 'jobq'::regnamespace AND length(w.letter) = 1 AND w.letter <> 'b' GROUP BY p.oid, p.proname, e.execute ORDER BY p.proname;
SELECT is(string_agg(w.letter, '' ORDER BY w.letter) FILTER (WHERE has_table_privilege(w.role, c.oid, 'SELECT')), pg_temp.holders(coalesce(e.may, '')),
		c.relname || ': who may read it')
	FROM pg_class c LEFT JOIN expected_view e ON e.name = c.relname, who w
	WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind = 'v' AND length(w.letter) = 1 AND w.letter <> 'b' GROUP BY c.oid, c.relname, e.may ORDER BY c.relname;
SELECT is_empty($$SELECT c.relname, w.letter FROM pg_class c, who w WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'S', 'm', 'p')
	AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(w.role, c.oid, 'SELECT, UPDATE, USAGE')
		ELSE has_table_privilege(w.role, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') END$$, 'nobody has a right on a table or sequence');
SELECT is_empty($$SELECT c.relname, w.letter FROM pg_class c, who w WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind = 'v'
	AND has_table_privilege(w.role, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')$$, 'nor writes a view');
SELECT is_empty($$SELECT role FROM who WHERE has_schema_privilege(role, 'jobq', 'CREATE')$$, 'nor makes anything in the schema');

-- All there is of queue "secret".
CREATE FUNCTION picture() RETURNS text LANGUAGE sql AS $$
	SELECT md5(concat((SELECT string_agg(j::text, '' ORDER BY j.job_id) FROM jobq.job_full j WHERE j.queue_id = q.id), q,
		(SELECT string_agg(l::text, '' ORDER BY l.token) FROM jobq.lease l WHERE l.queue_id = q.id), (SELECT string_agg(a::text, '' ORDER BY a.role) FROM jobq.queue_acl a WHERE a.queue_id = q.id),
		(SELECT string_agg(h::text, '' ORDER BY h.queue_id, h.name) FROM jobq.handler h WHERE h.queue_id = q.id), (SELECT string_agg(s::text, '' ORDER BY s.name) FROM jobq.schedule s WHERE s.queue_id = q.id),
		(SELECT string_agg(g::text, '' ORDER BY g.queue_id, g.group_key) FROM jobq.group_setting g WHERE g.queue_id = q.id), (SELECT string_agg(h::text, '' ORDER BY h.group_id) FROM jobq.held h WHERE h.queue_id = q.id),
		(SELECT string_agg(r::text, '' ORDER BY r.seq) FROM jobq.ready r WHERE r.queue_id = q.id),
		(SELECT string_agg(d::text, '' ORDER BY d.job_id, d.on_job) FROM jobq.dependency d JOIN jobq.job j ON j.id = d.job_id WHERE j.queue_id = q.id)))
	FROM jobq.queue q WHERE q.name = 'secret'
$$;
CREATE TABLE before AS SELECT picture() AS p;
-- What a statement answers a role, with names and numbers made alike, and whether it changed queue "secret"; all that it did is undone.
CREATE FUNCTION attempt(role name, statement text, queue text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t record;
	r text;
	state text;
	hint text;
	text_ text;
BEGIN
	statement := replace(statement, '{q}', queue);
	FOR t IN SELECT * FROM thing WHERE thing.queue = attempt.queue LOOP
		statement := replace(statement, '{' || t.name || '}', t.value);
	END LOOP;
	BEGIN
		PERFORM set_config('role', role, true);
		EXECUTE format('SELECT string_agg(x::text, ''; '') FROM (%s) x', statement) INTO r;
		PERFORM set_config('role', 'none', true);
		IF picture() IS DISTINCT FROM (SELECT p FROM before) THEN
			r := concat(r, ' AND CHANGED SOMETHING');
		END IF;
		RAISE EXCEPTION USING ERRCODE = 'ZZ000', MESSAGE = coalesce(r, 'nothing');
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, text_ = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
		IF state <> 'ZZ000' THEN
			text_ := concat('ERROR ', state, ' ', text_, ' HINT ', hint);
		END IF;
		FOR t IN SELECT * FROM thing WHERE thing.queue = attempt.queue AND name <> 'id' ORDER BY length(value) DESC LOOP
			text_ := replace(text_, t.value, '#');
		END LOOP;
		RETURN replace(replace(text_, queue, 'QUEUE'), 'garden', 'QUEUE');
	END;
END
$$;
CREATE TEMP TABLE answer AS
	SELECT e.*, w.letter, w.role, attempt(w.role, e.statement, 'secret') AS foreign_, attempt(w.role, e.statement, 'absent') AS unknown,
		attempt(w.role, e.statement, 'garden') AS own
	FROM expected e, who w WHERE e.statement IS NOT NULL AND w.letter <> 'n';

-- what is not one's own looks as if it were not there
CREATE TEMP VIEW leak AS SELECT * FROM answer WHERE foreign_ <> unknown OR foreign_ LIKE '%CHANGED%' AND may <> 'x' OR foreign_ LIKE '%QUEUE %';
SELECT is((SELECT string_agg(format('%s: %s; unknown: %s', letter, foreign_, unknown), E'\n') FROM leak l WHERE l.name = e.name AND l.statement = e.statement), NULL,
	e.statement || ' on a queue of others') FROM expected e WHERE e.statement IS NOT NULL ORDER BY e.name;
-- what is, works, for those whom it shall work for
CREATE TEMP VIEW allowed AS SELECT *, may IN ('x', letter) AND letter <> 'b' AND strpos(own, 'permission denied for function') = 0
	OR letter = 'o' AND execute <> 'x' OR strpos(may, right(letter, 1)) > 0 AND (length(letter) = 1 OR letter LIKE 'b_') AS allowed FROM answer WHERE may IS NOT NULL;
SELECT is((SELECT string_agg(format('%s: %s', letter, own), E'\n') FROM allowed a WHERE a.name = e.name AND a.statement = e.statement AND allowed
		AND (own LIKE 'ERROR%' OR own = 'nothing')), NULL, e.statement || ' works on one''s own') FROM expected e WHERE e.statement IS NOT NULL AND may IS NOT NULL ORDER BY e.name;
-- and for nobody else: the right is asked for, not only EXECUTE
SELECT is((SELECT string_agg(format('%s: %s; unknown: %s', letter, own, unknown), E'\n') FROM allowed a WHERE a.name = e.name AND a.statement = e.statement
		AND NOT allowed AND may <> 'x' AND own <> unknown), NULL, e.statement || ' takes more than another right on the queue')
	FROM expected e WHERE e.statement IS NOT NULL ORDER BY e.name;
SELECT is((SELECT count(DISTINCT (letter, name)) FROM allowed WHERE NOT allowed AND letter IN ('be', 'bc', 'bm')) > 80, true, 'which was tried');
-- a schedule is there for those who may read it
SELECT is(string_agg(letter || ' ' || left(own, 42), E'\n' ORDER BY letter), E'b (f)\nbc ERROR 42501 permission denied for schedule\nbe (f)\nbm (t)\nm (t)\no (t)',
	'unschedule on one''s own') FROM answer WHERE name = 'unschedule' AND letter NOT IN ('e', 'c');
SELECT matches(attempt('jobq_grants_bm', $$SELECT jobq.schedule('secret schedule', '@daily', 'garden')$$, 'garden'), '^ERROR 42501 permission denied for schedule', 'a name that is taken');

-- procedures cannot be called from a function
\set ON_ERROR_STOP off
SET client_min_messages = error;
\o /dev/null
SET ROLE jobq_grants_c;
CALL jobq.wait('secret', '0');
\set wait_secret :SQLSTATE
CALL jobq.wait('absent', '0');
\set wait_none :SQLSTATE
CALL jobq.wait('garden', '0');
\set wait_own :SQLSTATE
SET ROLE jobq_grants_bm;
CALL jobq.wait('garden', '0');
\set wait_manager :SQLSTATE
RESET ROLE;
SELECT value AS job FROM thing WHERE queue = 'secret' AND name = 'done' \gset
SELECT value AS own_job FROM thing WHERE queue = 'garden' AND name = 'done' \gset
SELECT value AS own_active FROM thing WHERE queue = 'garden' AND name = 'active' \gset
SELECT value AS active FROM thing WHERE queue = 'secret' AND name = 'active' \gset
SELECT value AS dead FROM thing WHERE queue = 'secret' AND name = 'dead' \gset
SET ROLE jobq_grants_c;
CALL jobq.wait_job(:job, '0') \gset secret_
CALL jobq.wait_job(:active, '0') \gset active_
CALL jobq.wait_job(:dead, '0') \gset dead_
CALL jobq.wait_job(:own_job, '0') \gset own_
SET ROLE jobq_grants_be;
CALL jobq.wait_job(:own_job, '0') \gset producer_
CALL jobq.wait_job(:own_active, '0') \gset producing_
RESET ROLE;
\o
SET client_min_messages = warning;
\set ON_ERROR_STOP on
SELECT is(:'wait_secret' || :'wait_none' || :'wait_own' || :'wait_manager', '42501' || '42501' || '00000' || '42501', 'wait');
SELECT is(concat(:'own_state'::text, :'own_result'), 'completed"garden result"', 'wait_job');
-- \gset leaves a variable unset for a NULL
SELECT ok(NOT :{?secret_state} AND NOT :{?secret_result} AND NOT :{?active_state} AND NOT :{?dead_state} AND NOT :{?producer_state} AND NOT :{?producer_result}
	AND NOT :{?producing_state}, 'wait_job tells nobody of what is not for him to read');

-- Views show what one may see, and functions in a query see no more.
CREATE FUNCTION public.spy(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN
	IF $1 LIKE '%secret%' OR $1 LIKE '%garden payload%' AND current_user LIKE '%e' THEN
		RAISE EXCEPTION 'seen: %', $1;
	END IF;
	RETURN true;
END
$$;
CREATE TEMP TABLE look AS
	SELECT v.name, v.may, w.letter, w.role, attempt(w.role, format('SELECT string_agg(v::text, '' '') FROM jobq.%I v', v.name), 'garden') AS rows,
		attempt(w.role, format('SELECT count(*) FROM jobq.%I v WHERE %s', v.name, (SELECT string_agg(format('public.spy(v.%I::text)', a.attname), ' AND ')
			FROM pg_attribute a WHERE a.attrelid = format('jobq.%I', v.name)::regclass AND a.attnum > 0)), 'garden') AS spied
	FROM expected_view v, who w WHERE v.may <> '' AND w.letter <> 'n';
SELECT is((SELECT string_agg(letter || ': ' || rows, E'\n') FROM look l WHERE l.name = v.name AND rows LIKE '%secret%'), NULL, v.name || ' shows nothing of others') FROM expected_view v WHERE may <> '';
SELECT is((SELECT string_agg(letter || ': ' || spied, E'\n') FROM look l WHERE l.name = v.name AND spied LIKE '%seen%'), NULL, v.name || ' does so to functions in a query')
	FROM expected_view v WHERE may <> '';
SELECT is((SELECT string_agg(letter || ': ' || rows, E'\n') FROM look l WHERE l.name = v.name AND (rows NOT LIKE '%QUEUE%') <>
		(strpos(v.may, right(letter, 1)) = 0 AND letter <> 'o') AND letter <> 'b'), NULL, v.name || ' shows one''s own')
	FROM expected_view v WHERE may <> '';
SELECT is(rows, '()', name || ' shows nothing to who has no right') FROM look WHERE letter = 'b';
SELECT is((SELECT string_agg(rows, '') FROM look WHERE letter IN ('e', 'be') AND rows LIKE '%payload%'), NULL, 'a producer reads no payload');
SELECT ok((SELECT rows LIKE '%QUEUE payload%' FROM look WHERE letter = 'c' AND name = 'jobs'), 'a consumer does');

-- where dead letters go is known to who may see that queue
SELECT jobq.alter_queue('garden', dead_letter_queue => 'secret') \g /dev/null
SELECT is(attempt('jobq_grants_m', 'SELECT dead_letter_queue FROM jobq.queues', 'garden'), '()', 'the name of another queue is not told');
SELECT jobq.alter_queue('garden', reset => '{dead_letter_queue}') \g /dev/null

-- jobs of a queue of others: one waits for none of them, and hears nothing of those that one's own wait for
SELECT matches(attempt('jobq_grants_e', 'SELECT jobq.enqueue(''garden'', after => ARRAY[{ready}]) > 0', 'secret'), '^ERROR 42501 permission denied for job #', 'a stranger''s job is not waited for');
SELECT matches(attempt('jobq_grants_e', 'SELECT jobq.enqueue(''garden'', after => ARRAY[{dead}]) > 0', 'secret'), '^ERROR 42501 permission denied for job #', 'a dead one neither');
SELECT is(attempt('jobq_grants_e', 'SELECT jobq.enqueue(''garden'', after => ARRAY[{ready}, {dead}, {done}]) > 0', 'garden'), '(t)', 'one''s own is, with any right');
BEGIN;
SELECT jobq.enqueue('garden', after => ARRAY(SELECT value::bigint FROM thing WHERE queue = 'secret' AND name IN ('active', 'dead'))) AS waits \gset
SELECT matches(attempt('jobq_grants_c', 'SELECT jobq.explain_job(' || :waits || ')', 'secret'),
	'pending: waits for 2 other jobs; job # is of a queue that you may not read; job # is of a queue that you may not read"', 'only its number is told');
ROLLBACK;

-- a limit is shared by who manages all that share it
SELECT jobq.create_queue('shares', concurrency => 1, limit_name => 'mine'), jobq.grant_queue('shares', 'jobq_grants_m', '{manage}') \g /dev/null
SELECT jobq.create_queue('apart', concurrency => 1, limit_name => 'others') \g /dev/null
SELECT matches(attempt('jobq_grants_m', $$SELECT jobq.alter_queue('shares', limit_name => 'others')$$, 'garden'), '^ERROR 42501 permission denied for limit "others"', 'not with a stranger''s queue');
SELECT is(attempt('jobq_grants_m', $$SELECT jobq.alter_queue('garden', concurrency => 1, limit_name => 'mine')$$, 'garden'), '("")', 'but with another queue of one''s own');
SELECT jobq.drop_queue('shares'), jobq.drop_queue('apart') \g /dev/null

-- roles of roles, everybody, pg_monitor
CREATE ROLE jobq_grants_member IN ROLE jobq_grants_c;
CREATE ROLE jobq_grants_apart NOINHERIT IN ROLE jobq_grants_c;
CREATE ROLE jobq_grants_monitor IN ROLE pg_monitor;
SELECT is(attempt('jobq_grants_member', $$SELECT count(*) FROM jobq.dequeue('garden')$$, 'garden'), '(1)', 'a member has what its role has');
SELECT matches(attempt('jobq_grants_apart', $$SELECT count(*) FROM jobq.dequeue('garden')$$, 'garden'), '^ERROR 42501', 'unless it does not inherit');
SELECT is(attempt('jobq_grants_monitor', 'SELECT count(*) FROM jobq.queues', 'garden'), '(2)', 'pg_monitor sees all queues');
SELECT ok(attempt('jobq_grants_monitor', 'SELECT string_agg(j::text, '''') FROM jobq.jobs j', 'garden') LIKE '%secret payload%', 'and all jobs');
SELECT matches(attempt('jobq_grants_monitor', $$SELECT jobq.enqueue('garden')$$, 'garden'), '^ERROR 42501', 'and does nothing');
SELECT jobq.grant_queue('garden', 'public', '{enqueue}') \g /dev/null
SELECT is(attempt('jobq_grants_n', $$SELECT jobq.enqueue('garden') > 0$$, 'garden'), '(t)', 'everybody may enqueue');
SELECT matches(attempt('jobq_grants_n', $$SELECT jobq.enqueue('secret') > 0$$, 'secret'), '^ERROR 42501', 'there');
SELECT jobq.revoke_queue('garden', 'public', '{enqueue,consume,manage}') \g /dev/null
SELECT matches(attempt('jobq_grants_n', $$SELECT jobq.enqueue('garden') > 0$$, 'garden'), '^ERROR 42501', 'no longer');

-- what comes with a grant goes with the last one
SELECT is((SELECT count(*) FROM pg_proc p, aclexplode(p.proacl) a WHERE p.pronamespace = 'jobq'::regnamespace AND a.grantee = 0), 0::bigint, 'PUBLIC executes nothing again');
SELECT jobq.grant_queue('secret', 'jobq_grants_c', '{consume,manage}') \g /dev/null
SELECT jobq.revoke_queue('garden', 'jobq_grants_c', '{consume}') \g /dev/null
SELECT ok(has_function_privilege('jobq_grants_c', 'jobq.once(text, interval)', 'EXECUTE'), 'consume is left on another queue');
SELECT jobq.revoke_queue('secret', 'jobq_grants_c', '{consume}') \g /dev/null
SELECT ok(NOT has_function_privilege('jobq_grants_c', 'jobq.once(text, interval)', 'EXECUTE') AND has_function_privilege('jobq_grants_c', 'jobq.job(bigint)', 'EXECUTE'),
	'only manage is left');
SELECT jobq.revoke_queue('secret', 'jobq_grants_c', '{manage}') \g /dev/null
SELECT is((SELECT count(*) FROM pg_shdepend WHERE refobjid = 'jobq_grants_c'::regrole AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())), 0::bigint,
	'nothing is left');
SELECT jobq.grant_queue('secret', 'jobq_grants_o', '{enqueue}'), jobq.revoke_queue('secret', 'jobq_grants_o', '{enqueue}') \g /dev/null
SELECT ok(has_function_privilege('jobq_grants_o', 'jobq.complete(bigint, bigint, jsonb)', 'EXECUTE'), 'an owner keeps what his queue needs');

-- arguments
SELECT throws_ok($$SELECT jobq.grant_queue('garden', 'no such role', '{enqueue}')$$, '42704', 'role "no such role" does not exist');
SELECT throws_ok($$SELECT jobq.revoke_queue('garden', 'no such role', '{enqueue}')$$, '42704', 'role "no such role" does not exist');
SELECT throws_ok($$SELECT jobq.grant_queue('no such', 'public', '{enqueue}')$$, '42704', 'queue "no such" does not exist');
SELECT throws_ok($$SELECT jobq.grant_queue('garden', 'public', '{all}')$$, '22023', 'there is no privilege "all"');
SELECT throws_ok($$SELECT jobq.grant_queue('garden', 'public', '{}')$$, '22023', 'privileges must not be empty');
SELECT throws_ok($$SELECT jobq.grant_queue('garden', 'public', '{enqueue,NULL}')$$, '22004', 'privileges must not contain null');
SELECT throws_ok($$SELECT jobq.grant_queue('garden', 'public', NULL)$$, '22004', 'privileges must not be null');
SELECT throws_ok($$SELECT jobq.grant_queue('garden', NULL, '{enqueue}')$$, '22004', 'role must not be null');
SELECT throws_ok($$SELECT jobq.grant_queue(NULL, 'public', '{enqueue}')$$, '22004', 'queue must not be null');
CREATE ROLE "jobq_grants ""odd'";
SELECT jobq.grant_queue('garden', 'jobq_grants "odd''', '{manage,enqueue,enqueue}') \g /dev/null
SELECT is((SELECT privileges FROM jobq.grants WHERE role = 'jobq_grants "odd'''), '{enqueue,manage}', 'any name of a role; privileges in their order, once');
SELECT jobq.grant_queue('garden', 'jobq_grants "odd''', '{consume}') \g /dev/null
SELECT is((SELECT privileges FROM jobq.grants WHERE role = 'jobq_grants "odd'''), '{enqueue,consume,manage}', 'they add up');
SELECT jobq.revoke_queue('garden', 'jobq_grants "odd''', '{consume,manage}') \g /dev/null
SELECT is((SELECT privileges FROM jobq.grants WHERE role = 'jobq_grants "odd'''), '{enqueue}', 'and are taken one by one');
SELECT lives_ok($$SELECT jobq.revoke_queue('garden', 'jobq_grants "odd''', '{consume}')$$, 'what is not there may be taken');
SET ROLE "jobq_grants ""odd'";
SELECT jobq.enqueue('garden') > 0 AS enqueued \gset
RESET ROLE;
SELECT ok(:'enqueued', 'it works');
SELECT is_empty('SELECT * FROM jobq.verify()', 'no violation');

\set QUIET on
DROP OWNED BY jobq_grants_e, jobq_grants_c, jobq_grants_m, jobq_grants_o, jobq_grants_n, jobq_grants_b, jobq_grants_be, jobq_grants_bc, jobq_grants_bm, "jobq_grants ""odd'";
DROP ROLE jobq_grants_member, jobq_grants_apart, jobq_grants_monitor, "jobq_grants ""odd'";
SELECT format('DROP ROLE %I', role) FROM who \gexec
SELECT is(count(*) FILTER (WHERE usable), 0::bigint, 'grants to roles that were dropped give nothing') FROM jobq.grants;
SELECT jobq.revoke_queue('garden', 'jobq_grants_e', '{enqueue}') \g /dev/null
SELECT is(count(*), 0::bigint, 'and are taken by the name that the role had') FROM jobq.grants WHERE role = 'jobq_grants_e';
SELECT * FROM finish();
