-- Jobs that wait for others: what happens when one of those does not complete (after_dead), or when the waiting job is withdrawn itself.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/dependencies.sql'
\set ECHO none
\i :setup
\set ECHO all
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
CALL becomes_true('SELECT bool_and(exact) FROM jobq.queues');

-- Each way to end, before and after the others were enqueued. x ends; of those that wait for it, w does what after_dead 'wait' says,
-- c 'cancel', r 'run'; cc waits for c by 'cancel', cr by 'run'. Of one that runs all the same, the view tells how the other ended.
CREATE TABLE fate (way text, "when" text, x text, w text, c text, cc text, cr text, r text, dependencies text);
CREATE PROCEDURE try(way text, "when" text, VARIADIC steps text[]) LANGUAGE plpgsql AS $$
DECLARE
	step text;
	x bigint;
	v record;
BEGIN
	PERFORM jobq.create_queue('x', max_attempts => 1), jobq.create_queue('morgue'), jobq.create_queue('others');
	COMMIT;
	FOREACH step IN ARRAY CASE "when" WHEN 'before' THEN steps[:1] || ARRAY['others'] || steps[2:] ELSE steps || ARRAY['others'] END LOOP
		IF step = 'others' THEN
			PERFORM jobq.enqueue('others', to_jsonb(p), after => ARRAY[x], after_dead => p) FROM unnest('{wait,cancel,run}'::text[]) p;
			PERFORM jobq.enqueue('others', to_jsonb(p), after => ids('cancel'), after_dead => substr(p, 2)) FROM unnest('{ccancel,crun}'::text[]) p;
		ELSIF step ~ '^CALL' THEN
			-- while nobody waits for the last one
			CALL becomes_true(substr(step, 6));
		ELSE
			EXECUTE step;
			x := coalesce(x, id('x'));
		END IF;
		COMMIT;
	END LOOP;
	INSERT INTO fate SELECT way, "when", max(state) FILTER (WHERE job_id = x), max(state) FILTER (WHERE payload = '"wait"'),
		max(state) FILTER (WHERE payload = '"cancel"'), max(state) FILTER (WHERE payload = '"ccancel"'),
		max(state) FILTER (WHERE payload = '"crun"'), max(state) FILTER (WHERE payload = '"run"'),
		(SELECT string_agg(j.payload #>> '{}' || ': ' || d.state, ', ' ORDER BY d.job_id, d.on_job) FROM jobq.dependencies d JOIN jobq.jobs j USING (job_id))
		FROM jobq.jobs;
	FOR v IN SELECT rule || ': ' || detail AS violation FROM jobq.verify() LOOP
		RAISE WARNING '% %: %', way, "when", v.violation;
	END LOOP;
	PERFORM jobq.drop_queue('others', force => true);
	PERFORM jobq.drop_queue(queue, force => true) FROM jobq.queues WHERE queue IN ('x', 'morgue') ORDER BY queue DESC;
	COMMIT;
END
$$;
CREATE PROCEDURE each_way(way text, VARIADIC steps text[]) LANGUAGE plpgsql AS $$
BEGIN
	CALL try(way, 'before', VARIADIC steps);
	CALL try(way, 'after', VARIADIC steps);
END
$$;
CALL each_way('completed', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.complete(job_id, token) FROM jobq.dequeue('x')$$);
CALL each_way('attempts used up', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$);
CALL each_way('rejected', $$SELECT jobq.enqueue('x', '"x"', max_attempts => 9)$$, $$SELECT jobq.fail(job_id, token, retry => false) FROM jobq.dequeue('x')$$);
CALL each_way('rejected, one of many', $$SELECT jobq.enqueue('x', '"x"')$$,
	$$SELECT count(*) FROM (SELECT array_agg(job_id) j, array_agg(token) t FROM jobq.dequeue('x')) d, jobq.fail_many(j, t, 'broken')$$);
CALL each_way('last lease over', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.dequeue('x', lease => '1 ms')$$, $$CALL SELECT dead = 1 FROM jobq.queues WHERE queue = 'x'$$);
CALL each_way('cancelled, ready', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.cancel(id('x'))$$);
CALL each_way('cancelled, delayed', $$SELECT jobq.enqueue('x', '"x"', delay => '1 h')$$, $$SELECT jobq.cancel(id('x'))$$);
CALL each_way('cancelled, in a group', $$SELECT jobq.enqueue('x', '"x"', group_key => 'g')$$, $$SELECT jobq.cancel(id('x'))$$);
CALL each_way('cancelled, running, given back', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT take('x'), jobq.cancel(id('x'))$$, $$SELECT released('x')$$);
CALL each_way('cancelled, running, failed', $$SELECT jobq.enqueue('x', '"x"', max_attempts => 9)$$, $$SELECT take('x'), jobq.cancel(id('x'))$$, $$SELECT failed('x')$$);
CALL each_way('cancelled, running, lease over', $$SELECT jobq.enqueue('x', '"x"', max_attempts => 9)$$, $$SELECT take('x', lease => '200 ms'), jobq.cancel(id('x'))$$,
	$$CALL SELECT active = 0 FROM jobq.queues WHERE queue = 'x'$$);
CALL each_way('cancelled, running, completed', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT take('x'), jobq.cancel(id('x'))$$, $$SELECT done('x')$$);
CALL each_way('expired', $$SELECT jobq.enqueue('x', '"x"', expires_in => '30 ms')$$, $$CALL SELECT expired_total = 1 FROM jobq.queues WHERE queue = 'x'$$);
CALL each_way('expired, in a group', $$SELECT jobq.enqueue('x', '"x"', group_key => 'g', expires_in => '30 ms')$$, $$CALL SELECT expired_total = 1 FROM jobq.queues WHERE queue = 'x'$$);
CALL each_way('deleted', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.delete_jobs(ids('x'))$$);
CALL each_way('purged', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.purge_queue('x')$$);
CALL each_way('purged, in a group', $$SELECT jobq.enqueue('x', '"x"', group_key => 'g')$$, $$SELECT jobq.purge_queue('x')$$);
CALL each_way('its queue dropped', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.drop_queue('x', force => true)$$);
CALL each_way('its queue dropped, running', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT take('x')$$, $$SELECT jobq.drop_queue('x', force => true)$$);
CALL each_way('dead, and deleted', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$, $$SELECT jobq.delete_jobs(ids('x'))$$);
CALL each_way('dead, and purged', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$, $$SELECT jobq.purge_queue('x', '{dead}')$$);
CALL each_way('dead, in its group', $$SELECT jobq.enqueue('x', '"x"', group_key => 'g')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$);
CALL each_way('dead, and skipped', $$SELECT jobq.enqueue('x', '"x"', group_key => 'g')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$, $$SELECT jobq.unblock_group('x', 'g', 'skip')$$);
CALL each_way('dead, and completed after all', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$,
	$$SELECT jobq.redrive('x')$$, $$SELECT take('x')$$, $$SELECT done('x')$$);
CALL each_way('dead, and completed elsewhere', $$SELECT jobq.enqueue('x', '"x"')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$,
	$$SELECT jobq.redrive('x', to_queue => 'morgue')$$, $$SELECT take('morgue')$$, $$SELECT done('x')$$);
CALL each_way('to a dead letter queue', $$SELECT jobq.enqueue('x', '"x"'), jobq.alter_queue('x', dead_letter_queue => 'morgue')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$);
CALL each_way('... and completed there', $$SELECT jobq.enqueue('x', '"x"'), jobq.alter_queue('x', dead_letter_queue => 'morgue')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$,
	$$SELECT jobq.complete(job_id, token) FROM jobq.dequeue('morgue')$$);
CALL each_way('... and cancelled there', $$SELECT jobq.enqueue('x', '"x"'), jobq.alter_queue('x', dead_letter_queue => 'morgue')$$, $$SELECT jobq.nack(job_id, token) FROM jobq.dequeue('x')$$,
	$$SELECT jobq.cancel(job_id) FROM jobq.jobs WHERE queue = 'morgue'$$);
-- what is not kept is not known any more
CALL each_way('cancelled, not kept', $$SELECT jobq.enqueue('x', '"x"'), jobq.alter_queue('x', keep_completed => '0')$$, $$SELECT jobq.cancel(id('x'))$$);
CALL each_way('completed, not kept', $$SELECT jobq.enqueue('x', '"x"'), jobq.alter_queue('x', keep_completed => '0')$$, $$SELECT take('x')$$, $$SELECT done('x')$$);
\a
SELECT * FROM fate;
\a
DROP PROCEDURE each_way, try;
DROP TABLE fate;

-- A person decides about one that stays: run_now() starts it, cancel() ends it.
SELECT count(*) FROM jobq.enqueue_many('work', '["dead", "alive"]', max_attempts => 1);
SELECT take('work', 2), failed('dead');
SELECT jobq.enqueue('work', '"stays"', after => ids('dead', 'alive')) > 0 AS job;
SELECT jobq.enqueue('work', '"stays too"', after => ids('dead')) > 0 AS job;
SELECT jobq.enqueue('work', '"goes when that is done"', after => ids('stays')) > 0 AS job;
SELECT states(), waits();
SELECT explained('stays'), explained('stays too');
SELECT jobq.run_now(ids('stays', 'dead')), jobq.cancel(id('stays too'));
SELECT states(), waits();
SELECT done('alive'), take('work', 10), done('stays');
SELECT take('work', 10), done('goes when that is done');
SELECT waits();
-- A dead one that is redriven and dies again is dead again; those that were cancelled stay it.
SELECT jobq.enqueue('work', '"again"', after => ids('dead')) > 0 AS job;
SELECT jobq.redrive('work', ids('dead'));
SELECT take('work'), failed('dead');
SELECT state FROM jobq.job(id('again'));
SELECT jobq.redrive('work', ids('dead'));
SELECT take('work'), done('dead');
SELECT take('work'), done('again');
SELECT waits();
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- One that has waited once is a job like any other from then on: retries, dead letters and redrives do not ask again.
SELECT jobq.enqueue('work', '"a"') > 0 AS job;
SELECT jobq.enqueue('work', '"b"', after => ids('a'), after_dead => 'cancel', max_attempts => 2) > 0 AS job;
SELECT take('work'), done('a');
SELECT take('work'), failed('b');
SELECT states('work'), take('work'), failed('b');
SELECT jobq.redrive('work');
SELECT states('work'), take('work'), released('b', '1 h');
SELECT states('work'), jobq.run_now(ids('b'));
SELECT take('work'), done('b');

-- Policies meet: the first that does not complete decides for 'cancel'; for 'run' each one counts as done.
SELECT count(*) FROM jobq.enqueue_many('work', '["k", "l", "m"]', max_attempts => 1);
SELECT jobq.enqueue('work', to_jsonb(p), after => ids('k', 'l', 'm'), after_dead => p) > 0 AS job FROM unnest('{wait,cancel,run}'::text[]) p;
SELECT take('work', 3), done('k'), failed('l');
SELECT state, payload FROM jobq.jobs WHERE payload IN ('"wait"', '"cancel"', '"run"') ORDER BY job_id;
SELECT waits();
SELECT failed('m');
SELECT state, payload FROM jobq.jobs WHERE payload IN ('"wait"', '"cancel"', '"run"') ORDER BY job_id;
SELECT waits();
-- what the view tells of one that runs all the same is there while it runs, and goes with it
SELECT take('work'), waits();
SELECT done('run');
SELECT waits();
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
-- a cascade ends where 'cancel' ends; a diamond is one job all the same
SELECT jobq.enqueue('work', '"top"') > 0 AS job;
SELECT jobq.enqueue('work', '"left"', after => ids('top'), after_dead => 'cancel') > 0 AS job;
SELECT jobq.enqueue('work', '"right"', after => ids('top'), after_dead => 'cancel') > 0 AS job;
SELECT jobq.enqueue('work', '"bottom"', after => ids('left', 'right'), after_dead => 'cancel') > 0 AS job;
SELECT jobq.enqueue('work', '"below"', after => ids('bottom', 'left'), after_dead => 'run') > 0 AS job;
SELECT jobq.enqueue('work', '"waits below"', after => ids('bottom', 'below')) > 0 AS job;
SELECT jobq.cancel(id('top'));
SELECT states(), waits();
SELECT * FROM pending;
SELECT take('work', 10), done('below');
SELECT waits();
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- A thousand deep, cancelled in one; also where the chain was built in one transaction.
CREATE PROCEDURE chain(n int, policy text) LANGUAGE plpgsql AS $$
DECLARE
	last bigint := jobq.enqueue('work', '0');
BEGIN
	FOR i IN 1 .. n LOOP
		last := jobq.enqueue('work', to_jsonb(i), after => ARRAY[last], after_dead => policy);
	END LOOP;
END
$$;
CALL chain(1000, 'cancel');
SELECT pending, ready FROM pending;
SELECT jobq.cancel(job_id) FROM jobq.jobs WHERE payload = '0';
SELECT state, count(*) FROM jobq.jobs GROUP BY state ORDER BY state;
SELECT pending, ready, cancelled FROM pending;
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');
-- cancelled in the transaction that built it
BEGIN;
CALL chain(1000, 'cancel');
SELECT jobq.cancel(job_id) FROM jobq.jobs WHERE payload = '0';
COMMIT;
SELECT state, count(*) FROM jobq.jobs GROUP BY state ORDER BY state;
-- one after the other
CALL chain(200, 'wait');
CREATE PROCEDURE work_off(queue text, INOUT n int DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	j record;
BEGIN
	LOOP
		SELECT * INTO j FROM jobq.dequeue(queue);
		EXIT WHEN NOT FOUND;
		PERFORM jobq.complete(j.job_id, j.token);
		n := n + 1;
		COMMIT;
	END LOOP;
END
$$;
CALL work_off('work');
SELECT state, count(*) FROM jobq.jobs GROUP BY state ORDER BY state;
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s');

-- Withdrawn while it waits: cancel, delete, purge, drop, the end of its time to live. Each is heard by who waits for it.
SELECT jobq.create_queue('mine', events => '{all}'), jobq.create_queue('theirs');
SELECT jobq.enqueue('theirs', '"a"') > 0 AS job;
SELECT jobq.enqueue('mine', to_jsonb(n), after => ids('a'), name => n, expires_in => CASE n WHEN 'expired' THEN '50 ms' END::interval) > 0 AS job
	FROM unnest('{cancelled,deleted,purged,expired}'::text[]) n;
SELECT jobq.enqueue('theirs', to_jsonb(n || ' ' || p), after => ids(n), after_dead => p) > 0 AS job
	FROM unnest('{cancelled,deleted,purged,expired}'::text[]) n, unnest('{cancel,run}'::text[]) p WHERE p = 'run' OR n <> 'expired';
CALL becomes_true($$SELECT expired_total = 1 FROM jobq.queues WHERE queue = 'mine'$$);
SELECT jobq.cancel(id('cancelled')), jobq.cancel(id('cancelled'));
SELECT jobq.delete_jobs(ids('deleted', 'deleted', 'a'));
SELECT jobq.enqueue('theirs', '"other"') > 0, jobq.enqueue('mine', '"delayed"', delay => '1 h') > 0;
SELECT jobq.purge_queue('mine', '{delayed}'), jobq.purge_queue('mine');
SELECT states('mine');
SELECT jobq.purge_queue('mine', '{pending}');
SELECT states('mine');
SELECT states('theirs'), waits();
SELECT * FROM pending;
SELECT event, name, attempt, error FROM jobq.events(NULL, 'mine') ORDER BY "position";
-- a queue with one that waits is not empty
SELECT jobq.drop_queue('theirs', force => true);
SELECT jobq.create_queue('theirs');
SELECT jobq.enqueue('theirs', '"b"') > 0 AS job;
SELECT jobq.enqueue('mine', '"c"', after => ids('b'), name => 'c') > 0 AS job;
SELECT jobq.enqueue('theirs', '"d"', after => ids('c'), after_dead => 'cancel') > 0 AS job;
SELECT jobq.enqueue('theirs', '"e"', after => ids('c'), after_dead => 'run', delay => '1 h') > 0 AS job;
SELECT outcome($$SELECT jobq.drop_queue('mine')$$);
SELECT jobq.drop_queue('mine', force => true);
SELECT states(), waits();
-- events of one that is let go
SELECT jobq.create_queue('mine', events => '{all}');
SELECT jobq.enqueue('mine', '"f"', after => ids('b'), name => 'f') > 0, jobq.enqueue('mine', '"g"', after => ids('b'), name => 'g', delay => '1 h') > 0,
	jobq.enqueue('mine', '"h"', after => ids('b'), name => 'h', group_key => 'h') > 0;
SELECT event, name FROM jobq.events(NULL, 'mine') WHERE name IN ('f', 'g', 'h') ORDER BY "position";
SELECT take('theirs'), done('b');
SELECT event, name FROM jobq.events(NULL, 'mine') WHERE name IN ('f', 'g', 'h') ORDER BY "position";
-- renamed meanwhile
SELECT jobq.enqueue('mine', '"i"') > 0, jobq.rename_queue('mine', 'renamed'), jobq.enqueue('renamed', '"j"', after => ids('i')) > 0;
SELECT queue FROM jobq.dependencies d JOIN jobq.jobs j USING (job_id, queue) WHERE payload = '"j"';
SELECT jobq.drop_queue('renamed', force => true), jobq.drop_queue('theirs', force => true);
SELECT * FROM jobq.dependency;
SELECT * FROM left_over;
SELECT * FROM jobq.verify();
