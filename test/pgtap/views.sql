-- The views, job() and explain_job(): columns, and what they show of a job in each state.
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
SET search_path = public, pg_catalog;
SELECT * FROM no_plan();

CREATE FUNCTION pg_temp.columns(rel regclass) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(attname || ' ' || format_type(atttypid, NULL), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = rel AND attnum > 0
$$;
SELECT is(pg_temp.columns('jobq.queues'), 'queue text, paused boolean, ready bigint, delayed bigint, pending bigint, active bigint, dead bigint, '
	'enqueued_total bigint, completed_total bigint, failed_total bigint, retried_total bigint, dead_total bigint, cancelled_total bigint, '
	'expired_leases_total bigint, expired_total bigint, oldest_ready_age interval, next_due timestamp with time zone, dead_letter_queue text, max_attempts integer, '
	'lease interval, timeout interval, backoff text, backoff_base interval, backoff_cap interval, backoff_function text, '
	'keep_completed interval, keep_dead interval, max_payload_bytes integer, notify boolean, on_retry text, on_dead text, group_rate_limit integer, group_rate_interval interval, '
	'group_lease interval, isolate_above integer, events text[], alert_dead integer, alert_dead_interval interval, concurrency integer, rate_limit integer, rate_interval interval, rate_burst integer, limit_name text, ageing boolean, owner text, created timestamp with time zone, '
	'exact boolean, totals_since timestamp with time zone', 'columns of queues');
SELECT is(pg_temp.columns('jobq.jobs'), 'job_id bigint, queue text, state text, name text, priority integer, group_key text, attempt integer, '
	'max_attempts integer, run_at timestamp with time zone, lease_until timestamp with time zone, worker text, progress jsonb, last_error text, '
	'created timestamp with time zone, started timestamp with time zone, finished timestamp with time zone, payload jsonb, headers jsonb, '
	'result jsonb, unique_key text, expires timestamp with time zone', 'columns of jobs');
SELECT is(pg_temp.columns('jobq.dependencies'), 'job_id bigint, queue text, on_job bigint, state text, waits boolean', 'columns of dependencies');
SELECT is(pg_temp.columns('jobq.workers'), 'worker text, queue text, leases bigint, jobs bigint, oldest_started timestamp with time zone, '
	'lease_until timestamp with time zone, expired bigint, draining bigint', 'columns of workers');
SELECT is(pg_temp.columns('jobq.groups'), 'queue text, group_key text, state text, pending bigint, holder text, token bigint, '
	'lease_until timestamp with time zone, wake_at timestamp with time zone, blocked_reason text', 'columns of groups');
SELECT is(pg_temp.columns('jobq.dead_letters'), 'job_id bigint, queue text, name text, reason text, last_error text, attempt integer, '
	'max_attempts integer, priority integer, payload jsonb, headers jsonb, created timestamp with time zone, died timestamp with time zone, '
	'failures jsonb, group_key text', 'columns of dead_letters');
SELECT is(pg_temp.columns('jobq.schedules'), 'name text, queue text, cron text, timezone text, state text, next_run timestamp with time zone, '
	'last_run timestamp with time zone, last_job_id bigint, last_outcome text, last_error text, missed text, overlap text, job_name text, priority integer, '
	'max_attempts integer, payload jsonb, owner text, created timestamp with time zone, changed timestamp with time zone', 'columns of schedules');
SELECT is(pg_temp.columns('jobq.schedule_runs'), 'schedule text, instant timestamp with time zone, outcome text, job_id bigint, '
	'at timestamp with time zone, detail text', 'columns of schedule_runs');
SELECT throws_ok(format('DELETE FROM jobq.%I', v), '55000', NULL, v || ' is read-only') FROM unnest('{queues,jobs,dependencies,groups,workers,dead_letters,schedules,schedule_runs}'::text[]) v;

-- whichever plan the statistics suggest, a lookup by id can use an index everywhere but in lease
CREATE FUNCTION pg_temp.scanned(query text) RETURNS text LANGUAGE plpgsql AS $fn$
DECLARE
	line text;
	names text[] := '{}';
BEGIN
	SET LOCAL enable_seqscan = off;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		names := names || (regexp_match(line, 'Seq Scan on (\w+)'))[1];
	END LOOP;
	RETURN array_to_string(names, ' ');
END
$fn$;
SELECT is(pg_temp.scanned('SELECT * FROM jobq.jobs WHERE job_id = 42'), 'lease', 'a lookup by job_id scans lease only');
SELECT is(pg_temp.scanned('SELECT * FROM jobq.groups WHERE queue = ''q'' AND group_key = ''k'''), 'lease', 'so does one of a group by its key');

-- One queue per state; nothing here waits, so nothing moves by itself.
SELECT jobq.create_queue(q, backoff => 'fixed', backoff_base => '1 hour', timeout => '2 hours', lease => '1 hour')
	FROM unnest('{v_ready,v_returned,v_delayed,v_retry,v_active,v_done,v_dead,v_group,v_bulk,v_pending}'::text[]) q \g /dev/null
SELECT jobq.create_queue('v_letters') \g /dev/null
SELECT jobq.alter_queue('v_done', dead_letter_queue => 'v_letters') \g /dev/null

-- ready
SELECT jobq.enqueue('v_ready', '{"n": 1}', name => 'mail', priority => 7, headers => '{"trace": "x"}') AS ready \gset
SELECT results_eq(format('SELECT queue, state, name, priority, group_key, attempt, max_attempts, run_at, lease_until, worker, progress, last_error,
		started, finished, payload, headers, result, created <= clock_timestamp() FROM jobq.jobs WHERE job_id = %s', :ready),
	$$VALUES ('v_ready' COLLATE "C", 'ready', 'mail' COLLATE "C", 7, NULL::text, 0, 3, NULL::timestamptz, NULL::timestamptz, NULL::text, NULL::jsonb, NULL::text,
		NULL::timestamptz, NULL::timestamptz, '{"n": 1}'::jsonb, '{"trace": "x"}'::jsonb, NULL::jsonb, true)$$, 'a ready job');
SELECT matches(jobq.explain_job(:ready), '^ready: waits for a worker to take it; queue "v_ready" has 1 ready and 0 active jobs$', 'explained');
SELECT jobq.pause_queue('v_ready') \g /dev/null
SELECT matches(jobq.explain_job(:ready), '; queue "v_ready" is paused: resume_queue\(\) lets it run;', 'explained when paused');
SELECT is((SELECT paused FROM jobq.queues WHERE queue = 'v_ready'), true, 'queues shows the pause');
SELECT jobq.resume_queue('v_ready') \g /dev/null
BEGIN;
UPDATE jobq.identity SET db_oid = 0;
SELECT jobq.explain_job(:ready) AS copied \gset
ROLLBACK;
SELECT matches(:'copied'::text, '; this database is a copy: nothing runs in it until adopt\(\);', 'explained in a copy');
BEGIN;
SELECT jobq.enqueue('v_ready') AS own \gset
SELECT state AS own_state, jobq.explain_job(job_id) AS own_reason FROM jobq.jobs WHERE job_id = :own \gset
ROLLBACK;
SELECT is(:'own_state'::text, 'ready', 'a transaction sees its own job');
SELECT is((SELECT count(*) FROM jobq.jobs WHERE job_id = :own), 0::bigint, 'which is gone with it');

-- returned after a failed attempt
SELECT jobq.enqueue('v_returned') AS returned \gset
SELECT token FROM jobq.dequeue('v_returned') \gset
SELECT jobq.fail(:returned, :token, 'no route', retry_in => '0') \g /dev/null
SELECT results_eq(format('SELECT state, attempt, last_error, started FROM jobq.jobs WHERE job_id = %s', :returned),
	$$VALUES ('ready', 1, 'no route', NULL::timestamptz)$$, 'a returned job');
SELECT matches(jobq.explain_job(:returned), '^ready: .*; 1 of 3 attempts are used up; last error: no route;', 'explained');
SELECT is((SELECT failures #- '{0,at}' FROM jobq.job(:returned)), '[{"attempt": 1, "error": "no route"}]', 'job() tells its failures');
SELECT ok((SELECT (failures #>> '{0,at}')::timestamptz BETWEEN created AND clock_timestamp() FROM jobq.job(:returned)), 'and when');

-- delayed: a late start, a backoff
SELECT jobq.enqueue('v_delayed', delay => '3 hours') AS delayed \gset
SELECT results_eq(format('SELECT state, attempt, run_at > now() + interval ''2 hours'' FROM jobq.jobs WHERE job_id = %s', :delayed),
	$$VALUES ('delayed', 0, true)$$, 'a delayed job');
SELECT matches(jobq.explain_job(:delayed), '^delayed until [^;]+; not started yet$', 'explained');
SELECT jobq.enqueue('v_retry') AS retry \gset
SELECT token FROM jobq.dequeue('v_retry') \gset
SELECT jobq.fail(:retry, :token, 'timeout') \g /dev/null
SELECT results_eq(format('SELECT state, attempt, last_error, run_at > now() + interval ''50 minutes'' FROM jobq.jobs WHERE job_id = %s', :retry),
	$$VALUES ('delayed', 1, 'timeout', true)$$, 'a job that waits out its backoff');
SELECT matches(jobq.explain_job(:retry), '^delayed until [^;]+; 1 of 3 attempts are used up; last error: timeout$', 'explained');

-- pending: what a job waits for, how that stands, and what becomes of it
CREATE FUNCTION pg_temp.waits(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(d.state || CASE WHEN d.waits THEN '' ELSE ' (done)' END, ' ' ORDER BY d.on_job) FROM jobq.dependencies d WHERE d.job_id = id AND d.queue = 'v_pending'
$$;
SELECT jobq.enqueue('v_pending', delay => '3 hours') AS p1, jobq.enqueue('v_pending', delay => '3 hours') AS p2, jobq.enqueue('v_pending', delay => '3 hours') AS p3,
	jobq.enqueue('v_pending', delay => '3 hours') AS p4 \gset
SELECT jobq.enqueue('v_pending', after => ARRAY[:p1, :p2, :p3, :p4], unique_key => 'one', expires_in => '1 day', priority => 9) AS pending,
	jobq.enqueue('v_pending', after => ARRAY[:p1, :p2, :p3, :p4], after_dead => 'run', run_at => '2100-01-01') AS waits_on \gset
SELECT results_eq(format('SELECT queue, state, priority, attempt, run_at, lease_until, started, finished, unique_key, expires > now() + interval ''23 hours'' FROM jobq.jobs WHERE job_id = %s', :pending),
	$$VALUES ('v_pending' COLLATE "C", 'pending', 9, 0, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, 'one' COLLATE "C", true)$$, 'a pending job');
SELECT results_eq(format('SELECT state, run_at, unique_key, expires FROM jobq.jobs WHERE job_id = %s', :waits_on), $$VALUES ('pending', '2100-01-01'::timestamptz, NULL::text COLLATE "C", NULL::timestamptz)$$,
	'one that has a time, too');
SELECT is(pg_temp.waits(:pending) || '; ' || pg_temp.waits(:waits_on), 'waiting waiting waiting waiting; waiting waiting waiting waiting', 'what they wait for');
SELECT results_eq(format('SELECT job_id FROM jobq.dependencies WHERE on_job = %s ORDER BY 1', :p1), format('VALUES (%s::bigint), (%s)', :pending, :waits_on), 'and who waits for one');
SELECT is(pg_temp.scanned('SELECT * FROM jobq.dependencies WHERE job_id = 42') || pg_temp.scanned('SELECT * FROM jobq.dependencies WHERE on_job = 42'), '', 'found by index');
SELECT jobq.run_now(ARRAY[:p1]) \g /dev/null
SELECT token FROM jobq.dequeue('v_pending') \gset
SELECT jobq.complete(:p1, :token) \g /dev/null
SELECT jobq.run_now(ARRAY[:p2]) \g /dev/null
SELECT token FROM jobq.dequeue('v_pending') \gset
SELECT jobq.fail(:p2, :token, 'no', retry => false) \g /dev/null
SELECT jobq.cancel(:p3) \g /dev/null
SELECT is(pg_temp.waits(:pending) || '; ' || pg_temp.waits(:waits_on), 'dead cancelled waiting; dead (done) cancelled (done) waiting', 'one completed, one died, one was cancelled');
SELECT jobq.delete_jobs(ARRAY[:p4]) \g /dev/null
SELECT is(pg_temp.waits(:pending) || '; ' || pg_temp.waits(:waits_on), 'dead cancelled removed; dead (done) cancelled (done) removed (done)', 'one was deleted');
SELECT is((SELECT string_agg(state, ' ' ORDER BY job_id) FROM jobq.jobs WHERE job_id IN (:pending, :waits_on)), 'pending delayed', 'which lets one go');
SELECT jobq.redrive('v_pending', ARRAY[:p2]) \g /dev/null
SELECT is(pg_temp.waits(:pending), 'waiting cancelled removed', 'one is redriven');
SELECT jobq.open_batch('v_pending') AS batch \gset
SELECT jobq.enqueue('v_pending', delay => '1 hour', batch => :batch) AS member \gset
SELECT is(pg_temp.waits(:batch), 'open waiting', 'an open batch');
SELECT jobq.close_batch(:batch) \g /dev/null
SELECT is(pg_temp.waits(:batch), 'waiting', 'a closed one');
SELECT jobq.delete_jobs(ARRAY[:pending, :waits_on]) \g /dev/null
SELECT is((SELECT count(*) FROM jobq.dependencies WHERE job_id IN (:pending, :waits_on)), 0::bigint, 'nothing is kept of who is gone');

-- active
SELECT array_agg(jobq.enqueue('v_active')) AS ids FROM generate_series(1, 4) \gset
SELECT job_id AS active, token FROM jobq.dequeue('v_active', worker => 'w1') \gset
SELECT jobq.progress(:active, :token, '{"percent": 40}') \g /dev/null
SELECT results_eq(format('SELECT state, attempt, worker, progress, started IS NOT NULL, lease_until > now() + interval ''50 minutes'', finished
	FROM jobq.jobs WHERE job_id = %s', :active),
	$$VALUES ('active', 1, 'w1', '{"percent": 40}'::jsonb, true, true, NULL::timestamptz)$$, 'an active job');
SELECT matches(jobq.explain_job(:active), '^active: attempt 1 of 3, held by worker "w1" since [^;]+; its lease ends at [^;]+$', 'explained');
SELECT ok((SELECT deadline = started + interval '2 hours' FROM jobq.job(:active)), 'job() tells its deadline');
SELECT jobq.cancel(:active) \g /dev/null
SELECT matches(jobq.explain_job(:active), '; its cancellation is asked for$', 'explained when somebody wants it to end');
SELECT array_agg(job_id ORDER BY job_id) AS batch, array_agg(token ORDER BY job_id) AS tokens FROM jobq.dequeue('v_active', 3) \gset
SELECT matches(jobq.explain_job((:'batch'::bigint[])[2]), 'held by a worker without a name since [^;]+; its lease ends at [^;]+$', 'explained without a name');
SELECT results_eq($$SELECT worker, leases, jobs, oldest_started < clock_timestamp(), lease_until > now(), expired FROM jobq.workers WHERE queue = 'v_active' ORDER BY 1$$,
	$$VALUES ('w1', 1::bigint, 1::bigint, true, true, 0::bigint), (NULL, 1, 3, true, true, 0)$$, 'workers');
SELECT jobq.complete((:'batch'::bigint[])[1], (:'tokens'::bigint[])[1]) \g /dev/null
SELECT results_eq($$SELECT worker, leases, jobs FROM jobq.workers WHERE queue = 'v_active' ORDER BY 1$$,
	$$VALUES ('w1', 1::bigint, 1::bigint), (NULL, 1, 2)$$, 'workers count live jobs');
SELECT is((SELECT state FROM jobq.job((:'batch'::bigint[])[1])), 'completed', 'one job of a lease is done');
SELECT is((SELECT state FROM jobq.job((:'batch'::bigint[])[2])), 'active', 'the next one is not');
SELECT is((SELECT count(*) FROM jobq.complete_many(:'batch'::bigint[], :'tokens'::bigint[])), 3::bigint, 'all are done');
SELECT is((SELECT count(*) FROM jobq.workers WHERE worker IS NULL AND queue = 'v_active'), 0::bigint, 'a lease without a live job is none');
BEGIN;
UPDATE jobq.lease SET lease_until = now() - interval '1 hour' WHERE token = :token;
SELECT expired, jobq.explain_job(:active) AS late FROM jobq.workers WHERE worker = 'w1' \gset
ROLLBACK;
SELECT is(:expired, 1, 'workers shows leases past their end');
SELECT matches(:'late'::text, '; its lease ended at [^;]+ and will be taken back unless the worker comes first', 'explained when the lease is over');

-- finished
SELECT jobq.enqueue('v_done', name => 'sum') AS done \gset
SELECT token FROM jobq.dequeue('v_done', worker => 'w2') \gset
SELECT jobq.complete(:done, :token, '{"sum": 3}') \g /dev/null
SELECT results_eq(format('SELECT queue, state, name, attempt, worker, result, started <= finished, lease_until FROM jobq.jobs WHERE job_id = %s', :done),
	$$VALUES ('v_done' COLLATE "C", 'completed', 'sum' COLLATE "C", 1, 'w2', '{"sum": 3}'::jsonb, true, NULL::timestamptz)$$, 'a completed job');
SELECT matches(jobq.explain_job(:done), '^completed at [^;]+ in attempt 1 of 3$', 'explained');
SELECT is((SELECT failures FROM jobq.job(:done)), '[]', 'it has no failures');
SELECT jobq.enqueue('v_done', delay => '1 day') AS cancelled \gset
SELECT jobq.cancel(:cancelled) \g /dev/null
SELECT results_eq(format('SELECT state, attempt, finished IS NOT NULL FROM jobq.jobs WHERE job_id = %s', :cancelled),
	$$VALUES ('cancelled', 0, true)$$, 'a cancelled job');
SELECT matches(jobq.explain_job(:cancelled), '^cancelled at [^;]+$', 'explained');

-- dead
SELECT jobq.enqueue('v_dead', '{"n": 9}', max_attempts => 2, priority => 3, headers => '{"a": 1}') AS dead \gset
SELECT token FROM jobq.dequeue('v_dead') \gset
SELECT jobq.fail(:dead, :token, 'first', retry_in => '0') \g /dev/null
SELECT token FROM jobq.dequeue('v_dead') \gset
SELECT jobq.fail(:dead, :token, 'second') \g /dev/null
SELECT results_eq(format('SELECT queue, state, attempt, max_attempts, last_error, finished IS NOT NULL, payload FROM jobq.jobs WHERE job_id = %s', :dead),
	$$VALUES ('v_dead' COLLATE "C", 'dead', 2, 2, 'second', true, '{"n": 9}'::jsonb)$$, 'a dead job');
SELECT matches(jobq.explain_job(:dead), '^dead since [^;]+: max_attempts, attempt 2 of 2; last error: second; redrive\(\) runs it again$', 'explained');
SELECT results_eq(format('SELECT queue, reason, last_error, attempt, max_attempts, priority, payload, headers, created <= died,
		jsonb_path_query_array(failures, ''$[*].error''), jsonb_path_query_array(failures, ''$[*].attempt'') FROM jobq.dead_letters WHERE job_id = %s', :dead),
	$$VALUES ('v_dead' COLLATE "C", 'max_attempts', 'second', 2, 2, 3, '{"n": 9}'::jsonb, '{"a": 1}'::jsonb, true, '["first", "second"]'::jsonb, '[1, 2]'::jsonb)$$,
	'a dead letter');
SELECT is((SELECT failures FROM jobq.job(:dead)), (SELECT failures FROM jobq.dead_letters WHERE job_id = :dead), 'job() tells the same failures');

-- groups, in each of their states; {a} is the first job of group a, {b} the second
CREATE FUNCTION pg_temp.groups(key text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', g.state, g.pending, g.holder, CASE WHEN g.token IS NOT NULL THEN 'token' END,
		CASE WHEN g.lease_until > now() + interval '50 minutes' THEN 'leased' END,
		CASE WHEN g.wake_at > now() + interval '50 minutes' THEN 'later' END, g.blocked_reason)
	FROM jobq.groups g WHERE g.queue = 'v_group' AND g.group_key = key
$$;
SELECT is(pg_temp.groups('a'), NULL, 'an idle group is not shown');
SELECT jobq.alter_group('v_group', 'a', lease => '1 hour') \g /dev/null
SELECT is(pg_temp.groups('a'), 'IDLE 0', 'but when it has settings');
BEGIN;
SELECT jobq.enqueue('v_group', '{"n": 1}', name => 'mail', priority => 7, group_key => 'a') AS a \gset
SELECT jobq.enqueue('v_group', group_key => 'a') AS b \gset
SELECT state || ' ' || group_key || ' ' || attempt AS joining, jobq.explain_job(job_id) AS joining_reason FROM jobq.jobs WHERE job_id = :a \gset
SELECT count(*) AS n FROM jobq.job(:b) \gset joining_
COMMIT;
SELECT is(:'joining'::text, 'ready a 0', 'a transaction sees its own grouped job');
SELECT matches(:'joining_reason'::text, '^ready: joins its group "a" at commit; queue "v_group" has 0 ready', 'explained');
SELECT is(:joining_n, 1, 'once');
SELECT results_eq(format('SELECT queue, state, name, priority, group_key, attempt, max_attempts, run_at, worker, last_error, payload, created <= clock_timestamp()
	FROM jobq.jobs WHERE job_id = %s', :a), $$VALUES ('v_group' COLLATE "C", 'ready', 'mail' COLLATE "C", 7, 'a' COLLATE "C", 0, 3, NULL::timestamptz, NULL::text, NULL::text, '{"n": 1}'::jsonb, true)$$,
	'a job in line');
SELECT is(pg_temp.groups('a'), 'READY 2', 'a ready group');
SELECT is(jobq.explain_job(:a), 'ready: waits for a worker to take it; queue "v_group" has 2 ready and 0 active jobs', 'its first job explained');
SELECT is(jobq.explain_job(:b), format('ready: waits for its turn in group "a"; behind job %s of its group "a"; queue "v_group" has 2 ready and 0 active jobs', :a),
	'its second job explained');
SELECT jobq.enqueue('v_group', priority => 7, group_key => 'other') AS other \gset
SELECT matches(jobq.explain_job(:other), '^ready: waits for a worker to take it; groups before its group "other": 1; queue', 'another group explained');
SELECT jobq.enqueue('v_group', priority => 5, group_key => 'other', delay => '2 hours') AS later \gset
SELECT matches(jobq.explain_job(:later), '^delayed until [^;]+; not started yet; joins group "other" then$', 'a delayed job of a group explained');
SELECT is((SELECT state || ' ' || group_key FROM jobq.jobs WHERE job_id = :later), 'delayed other', 'and shown');

SELECT token FROM jobq.dequeue('v_group', 2, worker => 'w3', group_batch => 2) LIMIT 1 \gset
SELECT jobq.enqueue('v_group', group_key => 'a') AS c \gset
SELECT is(pg_temp.groups('a'), 'LEASED 3 w3 token leased', 'a leased group');
SELECT is((SELECT array_agg(state || ' ' || attempt ORDER BY job_id) FROM jobq.jobs WHERE job_id IN (:a, :b, :c)), '{active 1,active 1,ready 0}', 'its jobs');
SELECT matches(jobq.explain_job(:a), '^active: attempt 1 of 3, held by worker "w3" since [^;]+; its lease ends at [^;]+$', 'the first one explained');
SELECT matches(jobq.explain_job(:b), format('; its lease ends at [^;]+; behind job %s of its group "a"$', :a), 'the second of its batch explained');
SELECT is(jobq.explain_job(:c), format('ready: waits for its turn in group "a"; behind job %s of its group "a"; its group "a" is worked on by worker "w3" (token %s); '
	'queue "v_group" has 2 ready and 2 active jobs', :b, :token), 'the one in line explained');
SELECT results_eq($$SELECT worker, leases, jobs, draining FROM jobq.workers WHERE queue = 'v_group'$$, $$VALUES ('w3', 1::bigint, 2::bigint, 0::bigint)$$, 'workers count it');
BEGIN;
SELECT jobq.drain_worker('w3') AS left \gset
SELECT pg_temp.groups('a') AS migrating, draining, jobq.explain_job(:a) AS active_reason, jobq.explain_job(:c) AS ready_reason
	FROM jobq.workers WHERE worker = 'w3' \gset
ROLLBACK;
SELECT is(:'migrating'::text, 'MIGRATING 3 w3 token leased', 'a group that is handed over');
SELECT is(:draining, 1, 'counted by worker');
SELECT matches(:'active_reason'::text, '; its worker is asked to hand its group over$', 'explained');
SELECT matches(:'ready_reason'::text, '; its group "a" is being handed over by worker "w3" \(token \d+\);', 'also to who is in line');
SELECT jobq.pause_group('v_group', 'a') \g /dev/null
SELECT is(pg_temp.groups('a'), 'LEASED 3 w3 token leased paused', 'a leased group that is to stop');
SELECT matches(jobq.explain_job(:c), '; its group "a" is worked on by worker "w3" [^;]+; its group "a" is paused: resume_group\(\) lets it go on;', 'explained');
SELECT jobq.complete(:a, :token) \g /dev/null
SELECT is(pg_temp.groups('a'), 'LEASED 2 w3 token leased paused', 'one of its jobs is done');
SELECT matches(jobq.explain_job(:b), '; its lease ends at [^;]+$', 'the next one is behind nobody');
SELECT jobq.release(:b, :token) \g /dev/null
SELECT is(pg_temp.groups('a'), 'BLOCKED 2 paused', 'a paused group');
SELECT matches(jobq.explain_job(:b), '^ready: waits for its turn in group "a"; its group "a" is paused: resume_group\(\) lets it go on; queue', 'explained');
SELECT jobq.resume_group('v_group', 'a') \g /dev/null
SELECT is(pg_temp.groups('a'), 'READY 2', 'a resumed group');

SELECT jobq.reschedule(:b, priority => 1) \g /dev/null
SELECT jobq.cancel(:other) \g /dev/null
SELECT is(pg_temp.groups('other'), NULL, 'a group without jobs is gone');
SELECT token FROM jobq.dequeue('v_group') \gset
SELECT jobq.fail(:b, :token, 'no route') \g /dev/null
SELECT is(pg_temp.groups('a'), 'WAIT 2 later', 'a group that waits for its first job''s backoff');
SELECT is((SELECT state || ' ' || attempt || ' ' || last_error FROM jobq.jobs WHERE job_id = :b), 'ready 1 no route', 'the job is still in line');
SELECT matches(jobq.explain_job(:c), format('; behind job %s of its group "a"; its group "a" waits until [^;]+: job %s is in backoff; queue', :b, :b), 'explained');
SELECT matches(jobq.explain_job(:b), format('^ready: waits for its turn in group "a"; 1 of 3 attempts are used up; last error: no route; its group "a" waits until [^;]+: job %s is in backoff; queue', :b), 'also to the first');
SELECT jobq.run_now(ARRAY[:b]::bigint[]) \g /dev/null
SELECT token FROM jobq.dequeue('v_group') \gset
SELECT jobq.release(:b, :token, '1 hour') \g /dev/null
SELECT matches(jobq.explain_job(:c), '; its group "a" waits until [^;]+(: job \d+ is in backoff)?; queue', 'released with a delay');
SELECT jobq.run_now(ARRAY[:b]::bigint[]) \g /dev/null
SELECT token FROM jobq.dequeue('v_group') \gset
SELECT is(jobq.fail(:b, :token, 'lost', retry => false), 'blocked', 'the first job is dead');
SELECT is(pg_temp.groups('a'), format('BLOCKED 1 dead job %s: rejected', :b), 'a blocked group');
SELECT is(jobq.explain_job(:c), format('ready: waits for its turn in group "a"; its group "a" is blocked by dead job %s: unblock_group() lets it go on; '
	'queue "v_group" has 1 ready and 0 active jobs', :b), 'explained');
SELECT matches(jobq.explain_job(:b), '^dead since [^;]+; last error: lost; redrive\(\) runs it again; it blocks its group "a": unblock_group\(\) lets it go on$', 'the dead job explained');
SELECT jobq.pause_group('v_group', 'a') \g /dev/null
SELECT is(pg_temp.groups('a'), format('BLOCKED 1 dead job %s: rejected; paused', :b), 'paused too');
SELECT matches(jobq.explain_job(:c), '; its group "a" is blocked by [^;]+; its group "a" is paused: ', 'explained');
SELECT jobq.unblock_group('v_group', 'a', 'skip') \g /dev/null
SELECT is(pg_temp.groups('a'), 'BLOCKED 1 paused', 'and still when it is unblocked');
SELECT matches(jobq.explain_job(:b), '; redrive\(\) runs it again$', 'the dead job blocks nobody any more');
SELECT jobq.cancel(:c) \g /dev/null
SELECT is(pg_temp.groups('a'), 'IDLE 0 paused', 'an idle group that is paused');
SELECT jobq.resume_group('v_group', 'a') \g /dev/null

-- one start per hour
SELECT jobq.alter_group('v_group', 'slow', rate_limit => 1, rate_interval => '1 hour') \g /dev/null
SELECT jobq.enqueue('v_group', group_key => 'slow') AS first \gset
SELECT jobq.enqueue('v_group', group_key => 'slow') AS second \gset
SELECT token FROM jobq.dequeue('v_group') \gset
SELECT jobq.complete(:first, :token) \g /dev/null
SELECT is(pg_temp.groups('slow'), 'WAIT 1 later', 'a group that waits for its rate');
SELECT matches(jobq.explain_job(:second), '^ready: waits for its turn in group "slow"; its group "slow" waits for its rate until [^;]+; queue', 'explained');

-- a big group
SELECT jobq.alter_queue('v_bulk', isolate_above => 2) \g /dev/null
SELECT array_agg(job_id) AS big FROM jobq.enqueue_many('v_bulk', '[1, 2, 3]', group_keys => '{big,big,big}') \gset
SELECT matches(jobq.explain_job((:'big'::bigint[])[1]), '^ready: waits for a worker to take it; its group "big" has more jobs than isolate_above and is served apart; queue',
	'a big group explained');
SELECT ok((SELECT oldest_ready_age BETWEEN '0' AND '10 minutes' FROM jobq.queues WHERE queue = 'v_bulk'), 'age of the oldest job when groups are ready');

-- unknown
SELECT is_empty('SELECT * FROM jobq.job(1)', 'job() of an unknown job');
SELECT is_empty('SELECT * FROM jobq.job(NULL)', 'job() of NULL');
SELECT is(jobq.explain_job(1), 'job 1 is not known: it never existed, or it ended and is no longer kept', 'explain_job() of an unknown job');
SELECT is(jobq.explain_job(NULL), NULL, 'explain_job() of NULL');

-- jobs and job() agree
SELECT is_empty($$SELECT j.job_id FROM jobq.jobs j CROSS JOIN LATERAL jobq.job(j.job_id) f
	WHERE to_jsonb(j) <> to_jsonb(f) - 'failures' - 'deadline'$$, 'job() shows what jobs shows');
SELECT is_empty('SELECT j.job_id FROM jobq.jobs j GROUP BY j.job_id HAVING count(*) > 1', 'each job once');

-- queues; what the scheduler has to find out first is waited for
CREATE FUNCTION pg_temp.until_known() RETURNS boolean LANGUAGE plpgsql AS $fn$
BEGIN
	FOR i IN 1 .. 200 LOOP
		IF (SELECT bool_and(exact AND (next_due IS NOT NULL OR queue <> 'v_delayed')) FROM jobq.queues) THEN
			RETURN true;
		END IF;
		PERFORM pg_sleep(0.05);
	END LOOP;
	RETURN false;
END
$fn$;
SELECT ok(pg_temp.until_known(), 'the scheduler makes the counts exact');
SELECT results_eq($$SELECT queue, ready, delayed, pending, active, dead, enqueued_total, completed_total, failed_total, retried_total, dead_total, cancelled_total
	FROM jobq.queues WHERE queue LIKE 'v\_%' ORDER BY 1$$, $$VALUES
	('v_active' COLLATE "C", 0::bigint, 0::bigint, 0::bigint, 1::bigint, 0::bigint, 4::bigint, 3::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint),
	('v_bulk', 3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0),
	('v_dead', 0, 0, 0, 0, 1, 1, 0, 2, 1, 1, 0),
	('v_delayed', 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0),
	('v_done', 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 1),
	('v_group', 1, 1, 0, 0, 1, 7, 2, 2, 1, 1, 2),
	('v_letters', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	('v_pending', 1, 1, 1, 0, 0, 8, 1, 1, 0, 1, 1),
	('v_ready', 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0),
	('v_retry', 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0),
	('v_returned', 1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0)$$, 'counts and totals');
SELECT is((SELECT dead_letter_queue FROM jobq.queues WHERE queue = 'v_done'), 'v_letters', 'where dead letters go');
SELECT ok((SELECT oldest_ready_age BETWEEN '0' AND '10 minutes' FROM jobq.queues WHERE queue = 'v_ready'), 'age of the oldest ready job');
SELECT is((SELECT oldest_ready_age FROM jobq.queues WHERE queue = 'v_done'), NULL, 'none when there is none');
SELECT is((SELECT next_due FROM jobq.queues WHERE queue = 'v_delayed'), (SELECT run_at FROM jobq.jobs WHERE job_id = :delayed), 'when the next job is due');
SELECT ok(totals_since < now() AND owner = current_user AND lease = '1 hour' AND backoff = 'fixed', 'since when, and settings') FROM jobq.queues WHERE queue = 'v_ready';

SELECT is_empty('SELECT * FROM jobq.verify()', 'all is well');
SELECT jobq.drop_queue(queue, true) FROM jobq.queues WHERE queue LIKE 'v\_%' ORDER BY queue = 'v_letters' \g /dev/null
SELECT is_empty('SELECT * FROM jobq.verify()', 'all is well at the end');
SELECT * FROM finish();
