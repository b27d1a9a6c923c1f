-- Unique keys: at most one job of a queue has a key, until it is finished; a duplicate is that job.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
\pset null -
SET client_min_messages = warning;
CREATE VIEW job AS SELECT j.name, j.state, j.payload, j.priority, j.attempt, j.group_key FROM jobq.jobs j ORDER BY j.job_id;
SELECT jobq.create_queue('work', backoff => 'fixed', backoff_base => '0 s'), jobq.create_queue('other');

-- The second call adds nothing, and is no error: it answers with the job that is there.
SELECT jobq.enqueue('work', '1', name => 'a', unique_key => 'order 1') AS a \gset
SELECT jobq.enqueue('work', '2', name => 'b', unique_key => 'order 1') = :a AS the_same;
BEGIN;
SELECT jobq.enqueue('work', '3', unique_key => 'order 1') = :a AS the_same;
SELECT jobq.enqueue('work', '3', name => 'c', unique_key => 'order 2') > :a AS another;
SELECT jobq.enqueue('work', '4', unique_key => 'order 2') > :a AS the_same_again;
COMMIT;
SELECT * FROM job;
-- A key is a queue's own, and exact.
SELECT jobq.enqueue('other', unique_key => 'order 1') <> :a AS another_queue, jobq.enqueue('work', unique_key => 'Order 1', name => 'd') <> :a AS another_key;

-- It stays taken while the job runs, fails and comes back.
SELECT job_id = :a AS taken, token AS t FROM jobq.dequeue('work') \gset
SELECT :'taken', jobq.enqueue('work', unique_key => 'order 1') = :a AS while_it_runs, jobq.nack(:a, :t);
SELECT jobq.enqueue('work', unique_key => 'order 1') = :a AS while_it_waits_again;
SELECT * FROM job WHERE name = 'a';
SELECT jobq.reschedule(:a, now() + interval '1 h', 5);
SELECT jobq.enqueue('work', unique_key => 'order 1') = :a AS while_it_is_delayed;
SELECT jobq.run_now(ARRAY[:a]);
SELECT job_id = :a AS taken, token AS t FROM jobq.dequeue('work') \gset
SELECT jobq.complete(:a, :t);
SELECT jobq.enqueue('work', '5', name => 'e', unique_key => 'order 1') > :a AS free_again;
-- Cancelled, deleted, purged, dead: free again.
SELECT jobq.cancel(job_id) FROM jobq.jobs WHERE name = 'e' AND state = 'ready';
SELECT jobq.enqueue('work', '6', name => 'f', unique_key => 'order 1') AS f \gset
SELECT jobq.delete_jobs(ARRAY[:f]);
SELECT jobq.enqueue('work', '7', name => 'g', unique_key => 'order 1') > :f AS free_again;
SELECT jobq.purge_queue('work'), jobq.purge_queue('other');
SELECT jobq.enqueue('work', '8', name => 'h', unique_key => 'order 1', max_attempts => 1) AS h \gset
SELECT jobq.nack(job_id, token) FROM jobq.dequeue('work');
SELECT jobq.enqueue('work', '9', name => 'i', unique_key => 'order 1') AS i \gset

-- A dead letter takes its key again when it is redriven; while another job has it, it stays dead, and the others go on.
SELECT jobq.enqueue('work', '10', name => 'k', unique_key => 'order 3', max_attempts => 1, priority => 1) AS k \gset
SELECT jobq.nack(job_id, token) FROM jobq.dequeue('work');
SELECT jobq.redrive('work') AS one_of_two;
SELECT name, state FROM job WHERE name IN ('h', 'i', 'k') ORDER BY name;
SELECT jobq.enqueue('work', unique_key => 'order 3') = :k AS has_its_key_again;
SELECT jobq.cancel(:i);
SELECT jobq.redrive('work') AS now_the_other;
SELECT jobq.enqueue('work', unique_key => 'order 1') = :h AS has_its_key_again;
SELECT jobq.purge_queue('work', '{ready,delayed,dead,completed}') > 0 AS purged;
-- Where the dead letter blocks its group, that is said.
SELECT jobq.create_queue('ordered');
SELECT jobq.enqueue('ordered', '1', group_key => 'g', unique_key => 'u', max_attempts => 1) > 0, jobq.enqueue('ordered', '2', group_key => 'g') > 0;
SELECT jobq.nack(job_id, token) FROM jobq.dequeue('ordered');
SELECT jobq.enqueue('ordered', '3', unique_key => 'u') AS u \gset
SELECT outcome($$SELECT jobq.unblock_group('ordered', 'g')$$);
SELECT jobq.cancel(:u), jobq.unblock_group('ordered', 'g');
SELECT payload FROM jobq.dequeue('ordered');
SELECT jobq.drop_queue('ordered', force => true);
-- A letter that goes to another queue leaves its key behind.
SELECT jobq.create_queue('letters'), jobq.create_queue('mortal', dead_letter_queue => 'letters', max_attempts => 1);
SELECT jobq.enqueue('mortal', name => 'm', unique_key => 'm') > 0;
SELECT jobq.nack(job_id, token) FROM jobq.dequeue('mortal');
SELECT jobq.enqueue('letters', name => 'n', unique_key => 'm') > 0, jobq.enqueue('mortal', name => 'o', unique_key => 'm') > 0;
SELECT * FROM job;
SELECT jobq.drop_queue('mortal', force => true), jobq.drop_queue('letters', force => true);

-- A rolled back enqueue leaves no key behind, nor does a rolled back savepoint.
BEGIN;
SELECT jobq.enqueue('work', unique_key => 'r') > 0;
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT jobq.enqueue('work', '1', unique_key => 'r') AS r \gset
ROLLBACK TO s;
SELECT jobq.enqueue('work', '2', name => 'r', unique_key => 'r') > :r AS another;
COMMIT;
SELECT * FROM job;

-- on_conflict => 'error'
SELECT outcome($$SELECT jobq.enqueue('work', unique_key => 'r', on_conflict => 'error')$$);
SELECT outcome($$SELECT jobq.enqueue_many('work', '[1, 2]', unique_keys => '{s, r}', on_conflict => 'error')$$);
SELECT outcome($$SELECT jobq.enqueue_many('work', '[1, 2]', unique_keys => '{s, s}', on_conflict => 'error')$$);
SELECT outcome($$SELECT jobq.enqueue('work', name => 's', unique_key => 's', on_conflict => 'error') > 0$$);

-- on_conflict => 'replace': a job that waits gets the new content and starts when the new one would. Debounce: each call pushes it out.
SELECT jobq.enqueue('work', '1', name => 'first', unique_key => 'd', delay => '1 h', headers => '{"h": 1}', on_conflict => 'replace') AS d \gset
SELECT jobq.enqueue('work', '2', name => 'second', priority => 7, unique_key => 'd', delay => '2 h', max_attempts => 1, timeout => '5 s', on_conflict => 'replace') = :d AS the_same;
SELECT name, state, payload, priority, max_attempts, headers, run_at - created > interval '119 min' AS pushed_out FROM jobq.job(:d);
SELECT jobq.enqueue('work', '3', name => 'third', priority => 1, unique_key => 'd', on_conflict => 'replace') = :d AS the_same;
SELECT job_id = :d AS now, payload, attempt, max_attempts, token AS t FROM jobq.dequeue('work') \gset
SELECT :'now', :'payload', :attempt, :max_attempts;
-- One that runs stays as it is.
SELECT jobq.enqueue('work', '4', name => 'fourth', unique_key => 'd', on_conflict => 'replace') = :d AS the_same;
SELECT name, state, payload FROM jobq.job(:d);
-- Earlier attempts were at something else.
SELECT jobq.fail(:d, :t, 'no', '1 h');
SELECT jobq.enqueue('work', '5', name => 'fifth', unique_key => 'd', on_conflict => 'replace') = :d AS the_same;
SELECT name, state, payload, attempt, failures FROM jobq.job(:d);
SELECT jobq.cancel(:d);
-- In a group it keeps its place, unless it is to start later.
SELECT jobq.enqueue('work', n::text::jsonb, group_key => 'g', unique_key => 'g' || n) > 0 FROM generate_series(1, 3) n;
SELECT jobq.enqueue('work', '11', group_key => 'g', unique_key => 'g1', on_conflict => 'replace') > 0;
SELECT jobq.enqueue('work', '22', group_key => 'g', unique_key => 'g2', delay => '1 ms', on_conflict => 'replace') > 0;
DO $$ BEGIN FOR i IN 1 .. 500 LOOP EXIT WHEN (SELECT count(*) = 3 FROM jobq.line); COMMIT; PERFORM pg_sleep(0.02); END LOOP; END $$;
SELECT payload FROM jobq.dequeue('work', 10, group_batch => 10) WHERE group_key = 'g';
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work');

-- Until started: who enqueues after the start makes a new job, so that what is written while one runs is not missed.
SELECT jobq.enqueue('work', '1', unique_key => 's', unique_until => 'started') AS s \gset
SELECT jobq.enqueue('work', '2', unique_key => 's', unique_until => 'started') = :s AS waits;
BEGIN;
SELECT payload FROM jobq.dequeue('work');
ROLLBACK;
SELECT jobq.enqueue('work', '3', unique_key => 's', unique_until => 'started') = :s AS the_start_was_rolled_back;
SELECT payload, token AS t FROM jobq.dequeue('work') \gset
SELECT jobq.enqueue('work', '4', unique_key => 's', unique_until => 'started') > :s AS runs;
-- It does not take the key back when it is retried.
SELECT jobq.nack(:s, :t);
SELECT payload FROM jobq.dequeue('work', 10);
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work');

-- A window: also no sooner than so long after the enqueue, whatever becomes of the job. Throttle: at most once in that time.
SELECT jobq.enqueue('work', '1', unique_key => 'w', unique_for => '1.5 s') AS w \gset
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('work');
SELECT jobq.enqueue('work', '2', unique_key => 'w', unique_for => '1.5 s') = :w AS too_soon;
SELECT outcome($$SELECT jobq.enqueue('work', '2', unique_key => 'w', on_conflict => 'error')$$);
SELECT ord, job_id = :w AS is_w, status FROM jobq.enqueue_many('work', '[2, 3]', unique_keys => '{w, x}', on_conflict => 'replace');
SELECT unique_key, job_id = :w AS is_w, until > now() AS open FROM jobq.unique_window;
SELECT pg_sleep(1.5);
SELECT jobq.enqueue('work', '4', unique_key => 'w') > :w AS time_is_up;
SELECT count(*) AS windows FROM jobq.unique_window;
-- A window that is shorter than the job's life leaves nothing.
SELECT jobq.purge_queue('work');
SELECT jobq.enqueue('work', unique_key => 'v', unique_for => '1 ms') > 0, pg_sleep(0.01);
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('work');
SELECT count(*) AS windows FROM jobq.unique_window;
-- With both: from its start on the window alone.
SELECT jobq.enqueue('work', '1', unique_key => 'b', unique_until => 'started', unique_for => '1 h') AS b \gset
SELECT payload FROM jobq.dequeue('work');
SELECT jobq.enqueue('work', '2', unique_key => 'b') = :b AS in_the_window;
-- A dead letter in its own window comes back all the same.
SELECT jobq.enqueue('work', '3', unique_key => 'dead', unique_for => '1 h', max_attempts => 1) AS dead \gset
SELECT jobq.nack(job_id, token) FROM jobq.dequeue('work');
SELECT jobq.enqueue('work', '4', unique_key => 'dead') = :dead AS in_the_window, jobq.redrive('work');
SELECT state FROM jobq.job(:dead);
SELECT jobq.drop_queue('work', force => true), jobq.create_queue('work');
SELECT count(*) AS windows FROM jobq.unique_window;

-- In bulk: a status for each, and the id of the job that has the key. The first of two alike has it.
SELECT jobq.enqueue('work', '0', name => 'there', unique_key => 'x') AS x \gset
SELECT ord, status, job_id = :x AS is_x, job_id - min(job_id) FILTER (WHERE status = 'inserted') OVER () AS id
	FROM jobq.enqueue_many('work', '[1, 2, 3, 4, 5, 6]', unique_keys => '{z, x, NULL, a, z, x}');
SELECT payload FROM job;
SELECT ord, status, job_id = :x AS is_x FROM jobq.enqueue_many('work', '[11, 12, 13]', unique_keys => '{x, x, new}', on_conflict => 'replace', priority => 3);
SELECT payload, priority FROM job;
-- What is left out takes no key.
SELECT jobq.alter_queue('work', max_payload_bytes => 30);
SELECT ord, status, job_id IS NULL AS none FROM jobq.enqueue_many('work', jsonb_build_array(repeat('x', 100), 1, 2), unique_keys => '{k, k, k}');
SELECT jobq.alter_queue('work', reset => '{max_payload_bytes}');
-- Many
SELECT status, count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 1000) n),
	unique_keys => (SELECT array_agg('many ' || n % 700 ORDER BY n) FROM generate_series(1, 1000) n)) GROUP BY status ORDER BY status;
SELECT status, count(*) FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(1, 1000) n),
	unique_keys => (SELECT array_agg('many ' || n ORDER BY n) FROM generate_series(1, 1000) n)) GROUP BY status ORDER BY status;
SELECT count(*), count(DISTINCT m.job_id), bool_and(m.job_id = j.id) FROM (SELECT n, job_id FROM jobq.enqueue_many('work', (SELECT jsonb_agg(n) FROM generate_series(0, 999) n),
	unique_keys => (SELECT array_agg('many ' || n ORDER BY n) FROM generate_series(0, 999) n)) e JOIN generate_series(0, 999) n ON n = e.ord - 1) m
	JOIN jobq.job j ON j.unique_key = 'many ' || m.n;

-- At every isolation level
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT jobq.enqueue('work', unique_key => 'x') = :x AS the_same, jobq.enqueue('work', unique_key => 'rr') > 0 AS enqueued;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT ord, status FROM jobq.enqueue_many('work', '[1, 2]', unique_keys => '{x, ser}');
COMMIT;

-- Limits, and what is refused
SELECT outcome('SELECT jobq.enqueue(''work'', ' || args || ') > 0')
	FROM unnest(ARRAY[$$unique_key => ''$$, $$unique_key => repeat('k', 257)$$, $$unique_key => repeat('k', 256)$$, $$unique_key => E'a "quoted"\n: key, ''x'''$$,
		$$unique_key => 'q', unique_until => 'never'$$, $$unique_key => 'q', unique_until => NULL$$, $$unique_key => 'p', unique_for => '0'$$,
		$$unique_key => 'p', unique_for => '-1 s'$$, $$unique_key => 'p', unique_for => '0.9 ms'$$, $$unique_key => 'p', unique_for => '102 years'$$,
		$$unique_key => 'p', on_conflict => 'perhaps'$$, $$unique_key => 'p', on_conflict => NULL$$, $$unique_for => '1 s', unique_until => 'started', on_conflict => 'error'$$]) args;
SELECT outcome('SELECT jobq.enqueue_many(''work'', ''[1, 2]'', unique_keys => ' || keys || ')')
	FROM unnest(ARRAY[$$'{a}'$$, $$'{a,b,c}'$$, $$'{{a},{b}}'$$, $$'{a,""}'$$]) keys;
SELECT ord, status FROM jobq.enqueue_many('work', '[]', unique_keys => '{}');
SELECT * FROM jobq.verify();
