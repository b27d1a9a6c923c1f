-- enqueue and enqueue_many: what a producer can say, and what it is told.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
-- A table-valued call as text: its rows.
CREATE FUNCTION rows_of(statement text) RETURNS text LANGUAGE sql AS $$
	SELECT outcome('SELECT string_agg(r::text, '' '') FROM (' || $1 || ') r')
$$;
SELECT jobq.create_queue('mail');

-- A queue and nothing else: an empty object, priority 1000, ready at once, the queue's number of attempts.
SELECT jobq.enqueue('mail') AS job \gset
SELECT state, payload, name, headers, priority, attempt, max_attempts, run_at IS NULL AS at_once, last_error, result, started, finished,
	created BETWEEN now() - interval '1 min' AND clock_timestamp() AS created_now FROM jobq.job(:job);
SELECT ready, delayed, active, enqueued_total FROM jobq.queues WHERE queue = 'mail';

-- All there is to say, by position and by name.
SELECT jobq.enqueue('mail', '{"to": "ann"}', 'send', 5, NULL, '2000-01-01', NULL, NULL, 7, '10 s', NULL, '{"trace": "x"}', 'keep') AS job \gset
SELECT state, payload, name, headers, priority, max_attempts FROM jobq.job(:job);
SELECT jobq.enqueue(payload => '{"to": "bob"}', queue => 'mail', headers => '{}', max_attempts => 1, delay => '1 h', name => 'send', priority => -5,
	timeout => '1 min') AS job \gset
SELECT state, payload, name, headers, priority, max_attempts, run_at - created AS starts_after FROM jobq.job(:job);

-- Ids grow in the order of the calls.
CREATE TEMP TABLE made (n serial, id bigint);
INSERT INTO made (id) SELECT jobq.enqueue('mail') FROM generate_series(1, 600);
SELECT count(*), bool_and(later) AS grows FROM (SELECT id > lag(id, 1, 0::bigint) OVER (ORDER BY n) AS later FROM made) m;

-- The payload is any JSON value but SQL's NULL.
SELECT jobq.create_queue('any');
SELECT outcome(format('SELECT jobq.enqueue(''any'', %L) > 0', p))
	FROM unnest(ARRAY['null', 'true', '1e20', '"text"', '[]', '{}', '[1, [2, {"a": null}]]', '""', '"Gr\u00fc\u00dfe"', NULL]) p;
SELECT payload FROM jobq.dequeue('any', 10);

-- A start in the future, as a delay or as a time; a past time means now; a delay of 0 too.
SELECT jobq.create_queue('later');
CREATE TEMP TABLE later (n serial, id bigint);
INSERT INTO later (id) VALUES (jobq.enqueue('later', delay => '1 h 30 min')), (jobq.enqueue('later', delay => '1 month 1 day 1 us')),
	(jobq.enqueue('later', delay => '100 years')), (jobq.enqueue('later', delay => '0')), (jobq.enqueue('later', run_at => '2100-01-01 00:00Z')),
	(jobq.enqueue('later', run_at => '1900-01-01')), (jobq.enqueue('later', run_at => '4714-11-24 BC'));
SELECT state, CASE WHEN run_at = '2100-01-01 00:00Z' THEN 'then' ELSE (run_at - created)::text END AS starts FROM later, jobq.job(id) ORDER BY n;
SELECT ready, delayed, next_due IS NOT NULL AS due_known FROM jobq.queues WHERE queue = 'later';
SELECT outcome('SELECT jobq.enqueue(''later'', ' || args || ')')
	FROM unnest(ARRAY[$$delay => '-1 us'$$, $$delay => '200 years'$$, $$delay => '178000000 years'$$, $$run_at => 'infinity'$$, $$run_at => '-infinity'$$,
		$$run_at => '2200-01-01'$$, $$delay => '1 s', run_at => '2000-01-01'$$, $$delay => '1 day -25 h'$$]) args;

-- Every other argument has its limits, and says them.
SELECT outcome('SELECT jobq.enqueue(' || args || ')')
	FROM unnest(ARRAY['NULL', $$'no such'$$, $$'Mail'$$, $$'mail', priority => 32768$$, $$'mail', priority => -32769$$, $$'mail', max_attempts => 0$$,
		$$'mail', max_attempts => -1$$, $$'mail', max_attempts => 1000001$$, $$'mail', timeout => '0'$$, $$'mail', timeout => '-1 s'$$,
		$$'mail', timeout => '0.9 ms'$$, $$'mail', timeout => '102 years'$$, $$'mail', headers => '[]'$$, $$'mail', headers => 'null'$$,
		$$'mail', headers => '"x"'$$, $$'mail', on_conflict => 'perhaps'$$, $$'mail', on_conflict => ''$$]) args;
CREATE TEMP TABLE widest (n serial, id bigint);
INSERT INTO widest (id) VALUES (jobq.enqueue('mail', priority => 32767, max_attempts => 1000000, timeout => '1 ms')),
	(jobq.enqueue('mail', priority => -32768, max_attempts => 1, timeout => '100 years', on_conflict => NULL)),
	(jobq.enqueue('mail', priority => NULL, max_attempts => NULL, timeout => NULL, name => NULL, delay => NULL, run_at => NULL, headers => NULL));
SELECT priority, max_attempts FROM widest, jobq.job(id) ORDER BY n;

-- The queue's max_payload_bytes bounds payload and headers; the hint says what to do instead.
SELECT jobq.create_queue('small', max_payload_bytes => 100);
SELECT outcome($$SELECT jobq.enqueue('small', to_jsonb(repeat('x', 88))) > 0$$);
SELECT outcome($$SELECT jobq.enqueue('small', to_jsonb(repeat('x', 100)))$$);
SELECT outcome($$SELECT jobq.enqueue('small', '1', headers => jsonb_build_object('h', repeat('x', 100)))$$);
SELECT jobq.alter_queue('small', max_payload_bytes => 1000);
SELECT outcome($$SELECT jobq.enqueue('small', to_jsonb(repeat('x', 100))) > 0$$);

-- enqueue_many: one job per element, in their order, one row each.
SELECT jobq.create_queue('bulk');
CREATE TEMP TABLE bulk AS SELECT * FROM jobq.enqueue_many('bulk', '["a", {"b": 1}, null, [1, 2]]', name => 'load', priority => 3, max_attempts => 2,
	timeout => '1 min');
SELECT ord, status, payload, name, priority, attempt, j.max_attempts, state FROM bulk b, jobq.job(b.job_id) j ORDER BY ord;
SELECT bool_and(job_id > before) AS grows FROM (SELECT job_id, lag(job_id, 1, 0::bigint) OVER (ORDER BY ord) AS before FROM bulk) b;
SELECT payload, name FROM jobq.dequeue('bulk', 10);
-- nothing in, nothing out
SELECT rows_of($$SELECT * FROM jobq.enqueue_many('bulk', '[]')$$);
-- delayed
SELECT count(*) FROM jobq.enqueue_many('bulk', '[1, 2, 3]', delay => '1 h');
SELECT ready, delayed, enqueued_total FROM jobq.queues WHERE queue = 'bulk';
-- headers: one JSON array of the same length; null means none
SELECT jobq.create_queue('headed');
SELECT count(*) FROM jobq.enqueue_many('headed', '[1, 2, 3]', headers => '[{"a": 1}, null, {}]');
SELECT payload, headers FROM jobq.dequeue('headed', 3);
-- one element that cannot be a job says so; the rest of the batch is unharmed
SELECT jobq.create_queue('strict', max_payload_bytes => 100);
SELECT ord, status, job_id IS NOT NULL AS job FROM jobq.enqueue_many('strict', jsonb_build_array(1, repeat('x', 100), 2, 3, 4),
	headers => jsonb_build_array(NULL, NULL, 5, jsonb_build_object('h', repeat('x', 100)), '{"h": 1}'::jsonb));
SELECT ready, enqueued_total FROM jobq.queues WHERE queue = 'strict';
SELECT payload, headers FROM jobq.dequeue('strict', 10);
-- not an array, arrays of different length, no queue
SELECT rows_of('SELECT * FROM jobq.enqueue_many(' || args || ')')
	FROM unnest(ARRAY[$$'bulk', '{}'$$, $$'bulk', '1'$$, $$'bulk', 'null'$$, $$'bulk', NULL$$, $$'bulk', '[1, 2]', headers => '[{}]'$$,
		$$'bulk', '[1]', headers => '{}'$$, $$'bulk', '[1]', headers => 'null'$$, $$'no such', '[1]'$$, $$NULL, '[1]'$$,
		$$'bulk', '[1]', priority => 32768$$, $$'bulk', '[1]', delay => '-1 s'$$, $$'bulk', '[1]', delay => '1 s', run_at => now()$$,
		$$'bulk', '[1]', name => ''$$]) args;
-- ten thousand of them: all there, in order
SELECT jobq.create_queue('many');
CREATE TEMP TABLE many AS SELECT * FROM jobq.enqueue_many('many', (SELECT jsonb_agg(n) FROM generate_series(1, 10000) n));
SELECT count(*), count(DISTINCT job_id), min(ord), max(ord), min(status), max(status) FROM many;
SELECT count(*), bool_and(payload = to_jsonb(ord)) AS in_order FROM (SELECT payload, row_number() OVER () AS ord FROM jobq.dequeue('many', 10000)) d;

-- As part of a query: a job per row.
SELECT count(jobq.enqueue('bulk', to_jsonb(r), name => 'row')) FROM (VALUES (1, 'x'), (2, 'y')) r (id, v);
SELECT payload FROM jobq.dequeue('bulk', 10) WHERE name = 'row';
-- ... and from a trigger
CREATE TABLE orders (id int PRIMARY KEY);
CREATE FUNCTION order_made() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM jobq.enqueue('mail', jsonb_build_object('order', NEW.id), name => 'order', priority => 0);
	RETURN NEW;
END
$$;
CREATE TRIGGER order_made AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION order_made();
INSERT INTO orders VALUES (1), (2);
SELECT payload FROM jobq.jobs WHERE queue = 'mail' AND name = 'order' ORDER BY job_id;

-- A paused queue takes jobs, and gives none.
SELECT jobq.create_queue('shut');
SELECT jobq.pause_queue('shut');
SELECT jobq.enqueue('shut') > 0 AS job;
SELECT count(*) FROM jobq.dequeue('shut');
SELECT jobq.resume_queue('shut');
SELECT count(*) FROM jobq.dequeue('shut');

-- Not in a read-only transaction.
BEGIN READ ONLY;
SELECT outcome($$SELECT jobq.enqueue('mail')$$);
SELECT rows_of($$SELECT * FROM jobq.enqueue_many('mail', '[1]')$$);
COMMIT;

-- Numbers are drawn without the caller's notice.
CREATE SEQUENCE mine START 42;
SELECT nextval('mine');
SELECT count(jobq.enqueue('mail')) FROM generate_series(1, 1000);
SELECT count(*) FROM jobq.enqueue_many('mail', (SELECT jsonb_agg(n) FROM generate_series(1, 1000) n));
SELECT count(*) FROM jobq.dequeue('mail', 10);
SELECT lastval();

-- Somebody sets the sequence of ids back by hand: they go on above those in use, and nothing counts its way up to them.
SELECT setval('jobq.job_block_seq', 100000000) AS years_later;
SELECT count(id) FROM (SELECT jobq.enqueue('mail') AS id FROM generate_series(1, 600)) e WHERE id > 100000000 * 256::bigint \gset
SELECT :count > 0 AS there;
SELECT max(id) AS highest FROM jobq.job \gset
SELECT setval('jobq.job_block_seq', 1);
SET statement_timeout = '2 s';
SELECT min(id) > :highest AS above, count(DISTINCT id) FROM (SELECT jobq.enqueue('mail') AS id FROM generate_series(1, 600)) e;
RESET statement_timeout;
SELECT last_value > 100000000 AS goes_on FROM jobq.job_block_seq;

SELECT * FROM jobq.verify();
