-- Every call with plain literals and with parameters as drivers bind them: it resolves, and to the one function there is.
-- A parameter without a declared type takes what the function has; one declared text, varchar or json needs a cast where jsonb or
-- interval is wanted.

-- The verbs, by literals.
SELECT jobq.create_queue('q');
SELECT jobq.create_queue('other', max_attempts => 5, lease => '1 min', timeout => '1 h', backoff => 'fixed', backoff_base => '1 s', backoff_cap => '1 min',
	keep_completed => '1 h', keep_dead => NULL, dead_letter_queue => 'q', max_payload_bytes => 1000, notify => 'on');
SELECT jobq.alter_queue('other', max_attempts => '7', lease => '2 min', reset => '{timeout,dead_letter_queue}');
SELECT jobq.enqueue('q') > 0 AS job;
SELECT jobq.enqueue('q', '{"a":1}') > 0 AS job;
SELECT jobq.enqueue('q', '{"a":1}', 'name', 10, '1 h', NULL, NULL, NULL, 3, '1 min', NULL, '{"h": 1}', 'keep') > 0 AS job;
SELECT jobq.enqueue('q', NULL) > 0 AS job;
SELECT jobq.enqueue(queue => 'q', payload => '1', run_at => '2000-01-01 00:00:00+00', priority => '5') > 0 AS job;
SELECT ord, job_id > 0 AS job, status FROM jobq.enqueue_many('q', '[1, 2, 3]');
SELECT ord, status FROM jobq.enqueue_many('q', '[1]', 'name', 1, '0', NULL, NULL, NULL, 3, '1 min', NULL, '[{"h": 1}]', 'keep');
SELECT count(*) FROM jobq.dequeue('q');
SELECT count(*) FROM jobq.dequeue('q', 2);
SELECT count(*) FROM jobq.dequeue('q', 1, '1 min', 'worker', '0', 1);
SELECT count(*) FROM jobq.dequeue('q', max_jobs => '1', lease => '1 min', wait => '1 ms');
SELECT jobq.complete(1, 1);
SELECT jobq.complete('1', '1', '{"r": 1}');
SELECT jobq.complete(1, 1, NULL);
SELECT jobq.ack(1, 1);
SELECT jobq.fail(1, 1);
SELECT jobq.fail(1, '1', 'error', '1 s', 'true');
SELECT jobq.nack(1, 1);
SELECT jobq.release(1, 1);
SELECT jobq.release(1, 1, '1 s');
SELECT jobq.extend(1, 1);
SELECT jobq.extend(1, 1, '1 min');
SELECT * FROM jobq.complete_many('{1}', '{1}');
SELECT * FROM jobq.complete_many('{1,2}', '{1,2}', '[1, null]');
SELECT * FROM jobq.complete_many(ARRAY[1, 2], ARRAY[1, 2]);
SELECT * FROM jobq.fail_many('{1}', '{1}', 'error', '1 s');
SELECT * FROM jobq.release_many('{1}', '{1}', '1 s');
SELECT * FROM jobq.extend_many('{1}', '{1}', '1 s');
SELECT count(*) FROM jobq.complete_and_dequeue(NULL, NULL, 'q');
SELECT count(*) FROM jobq.complete_and_dequeue(1, 1, 'q', '{"r": 1}', 1, '1 min', 'worker', '0', 1);
SELECT jobq.progress(1, 1, '{"percent": 10}');
SELECT jobq.assert_lease(1, 1);
SELECT jobq.fence('disk', 1);
CALL jobq.wait('other', '0');
CALL jobq.wait('other', '0', NULL);
CALL jobq.wait('other', timeout => '1 ms');
SELECT jobq.cancel(1), jobq.cancel('1');
SELECT jobq.reschedule(1, '2100-01-01');
SELECT jobq.reschedule(1, priority => 1);
SELECT jobq.run_now('{1,2}'), jobq.run_now(ARRAY[1, 2]), jobq.delete_jobs('{1,2}'), jobq.delete_jobs(NULL);
SELECT jobq.redrive('q'), jobq.redrive('q', '{1}', 10, 'other'), jobq.redrive('q', NULL, '10');
SELECT count(*) FROM jobq.job(1);
SELECT jobq.explain_job('1');
SELECT jobq.pause_queue('other'), jobq.resume_queue('other'), jobq.rename_queue('other', 'another'), jobq.purge_queue('another'),
	jobq.purge_queue('another', '{ready,delayed,dead}'), jobq.drop_queue('another'), jobq.create_queue('other');

-- Parameters without types, as libpq, pgx, node-postgres and JDBC send most of them.
PREPARE e1 AS SELECT jobq.enqueue($1, $2) > 0 AS job;
EXECUTE e1('q', '{"a": 1}');
PREPARE e2 AS SELECT jobq.enqueue($1, $2, $3, $4, $5, $6, NULL, NULL, $7, $8, NULL, $9, $10) > 0 AS job;
EXECUTE e2('q', '{"a": 1}', 'name', '10', '1 h', NULL, '3', '1 min', '{"h": 1}', 'keep');
PREPARE e3 AS SELECT jobq.enqueue(queue => $1, payload => $2, priority => $3, run_at => $4) > 0 AS job;
EXECUTE e3('q', '{"a": 1}', 5, now());
PREPARE m1 AS SELECT ord, status FROM jobq.enqueue_many($1, $2);
EXECUTE m1('q', '[1, 2]');
PREPARE d1 AS SELECT count(*) FROM jobq.dequeue($1, $2, $3, $4, $5);
EXECUTE d1('q', '1', '1 min', 'worker', '0');
PREPARE c1 AS SELECT jobq.complete($1, $2, $3);
EXECUTE c1('1', '1', '{"r": 1}');
PREPARE f1 AS SELECT jobq.fail($1, $2, $3, $4, $5);
EXECUTE f1(1, 1, 'error', '1 s', true);
PREPARE cm1 AS SELECT * FROM jobq.complete_many($1, $2, $3);
EXECUTE cm1('{1}', '{1}', '[1]');
PREPARE cd1 AS SELECT count(*) FROM jobq.complete_and_dequeue($1, $2, $3, $4);
EXECUTE cd1(NULL, NULL, 'q', NULL);
PREPARE r1 AS SELECT jobq.run_now($1), jobq.redrive($2, $3);
EXECUTE r1('{1}', 'q', '{1}');

-- Numbers of every width, text and varchar for names: as psycopg, JDBC's setInt, setLong and setString send them.
PREPARE e4(varchar, jsonb, text, smallint) AS SELECT jobq.enqueue($1, $2, $3, $4) > 0 AS job;
EXECUTE e4('q', '{"a": 1}', 'name', 1);
PREPARE d2(text, smallint, interval, varchar) AS SELECT count(*) FROM jobq.dequeue($1, $2, $3, $4);
EXECUTE d2('q', 1, '1 min', 'worker');
PREPARE c2(int, bigint) AS SELECT jobq.complete($1, $2);
EXECUTE c2(1, 1);
PREPARE c3(bigint, int, jsonb) AS SELECT jobq.complete($1, $2, $3);
EXECUTE c3(1, 1, '1');
PREPARE x1(smallint, smallint) AS SELECT jobq.extend($1, $2), jobq.release($1, $2), jobq.ack($1, $2);
EXECUTE x1(1, 1);
PREPARE f2(bigint, bigint, varchar) AS SELECT jobq.fail($1, $2, $3);
EXECUTE f2(1, 1, 'error');
PREPARE cm2(bigint[], bigint[]) AS SELECT * FROM jobq.complete_many($1, $2);
EXECUTE cm2('{1}', '{1}');
-- int[] for bigint[], as a driver makes it of small numbers
PREPARE cm3(int[], int[]) AS SELECT * FROM jobq.complete_many($1, $2);
EXECUTE cm3('{1}', '{1}');
PREPARE w1(text, interval) AS SELECT count(*) FROM jobq.dequeue($1, wait => $2);
EXECUTE w1('other', '1 ms');
PREPARE q1(text, int) AS SELECT jobq.create_queue($1, max_attempts => $2);
EXECUTE q1('made', 3);

-- JSON given as text, varchar or json, an interval given as text: with a cast.
PREPARE e5(text, text) AS SELECT jobq.enqueue($1, $2::jsonb) > 0 AS job;
EXECUTE e5('q', '{"a": 1}');
PREPARE e6(text, json) AS SELECT jobq.enqueue($1, $2::jsonb) > 0 AS job;
EXECUTE e6('q', '{"a": 1}');
PREPARE e7(varchar, varchar, varchar) AS SELECT jobq.enqueue($1, CAST($2 AS jsonb), delay => CAST($3 AS interval)) > 0 AS job;
EXECUTE e7('q', '{"a": 1}', '1 h');
PREPARE c4(bigint, bigint, text) AS SELECT jobq.complete($1, $2, $3::jsonb);
EXECUTE c4(1, 1, '1');
PREPARE d3(text, bigint) AS SELECT count(*) FROM jobq.dequeue($1, $2::int);
EXECUTE d3('q', 1);

-- Whatever the plan cache does.
SET plan_cache_mode = force_generic_plan;
EXECUTE e1('q', '{"a": 1}');
EXECUTE d1('q', '1', '1 min', 'worker', '0');
EXECUTE c1('1', '1', NULL);
SET plan_cache_mode = force_custom_plan;
EXECUTE e1('q', '{"a": 1}');
EXECUTE d1('q', '1', '1 min', 'worker', '0');
EXECUTE c1('1', '1', NULL);
RESET plan_cache_mode;

-- No overloads: one function per name.
SELECT proname, count(*) FROM pg_proc WHERE pronamespace = 'jobq'::regnamespace GROUP BY proname HAVING count(*) > 1;

SELECT * FROM jobq.verify();
