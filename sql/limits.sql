-- Limits, and input that means no good: refused with a clear error, or kept as it is; never anything in between.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
-- Only what matters of a long outcome.
CREATE FUNCTION short(statement text) RETURNS text LANGUAGE sql AS $$SELECT left(outcome($1), 100)$$;
SELECT jobq.create_queue('q');

-- Names of jobs and workers: 1 to 256 bytes, any characters, case matters.
SELECT label, short(format('SELECT jobq.enqueue(''q'', name => %L) > 0', name)) AS job, short(format('SELECT count(*) FROM jobq.dequeue(''q'', worker => %L)', name)) AS worker
	FROM (VALUES ('null', NULL), ('empty', ''), ('256 bytes', repeat('x', 256)), ('257 bytes', repeat('x', 257)), ('257 bytes in 129 characters', repeat('ä', 128) || 'x'),
		('a megabyte', repeat('x', 1000000)), ('newline', E'a\nb'), ('control', E'\x01\x7f'), ('quotes', $$a'b"c\$$), ('punctuation', 'a:b,c;d{}%s$1'), ('space', ' '),
		('star', '*'), ('umlaut', 'Aufträge'), ('case', 'AUFTRÄGE')) AS n (label, name);
SELECT name, count(*) FROM jobq.jobs WHERE length(name) < 100 GROUP BY name ORDER BY name COLLATE "C";
SELECT count(*) FROM jobq.dequeue('q', 1, worker => E'a\n"b') a, jobq.dequeue('q', 1, worker => 'w:1, x') b;
SELECT worker, jobs FROM jobq.workers WHERE length(worker) < 100 ORDER BY worker COLLATE "C";

-- Queue names: case and every character matter; a queue is never mistaken for another.
SELECT jobq.create_queue(n) FROM unnest(ARRAY['Orders', 'orders', 'orders ', ' orders', 'ord"ers', 'ord''ers', 'a:b', 'a', 'b', 'a,b', 'null', 'NULL', '%', 'a%', repeat('x', 128)]) n;
SELECT count(jobq.enqueue(queue, to_jsonb(queue))) FROM jobq.queues WHERE queue <> 'q';
SELECT q.queue = d.payload #>> '{}' AS own, count(*) FROM jobq.queues q, LATERAL jobq.dequeue(q.queue, 10) d WHERE q.queue <> 'q' GROUP BY 1;
SELECT short(format('SELECT jobq.%s', call)) FROM unnest(ARRAY[$$enqueue(repeat('x', 129))$$, $$enqueue(repeat('x', 1000000))$$, $$enqueue('')$$, $$dequeue(repeat('x', 129))$$,
	$$enqueue('ORDERS')$$, $$enqueue(E'orders\n')$$, $$enqueue('no"such')$$]) call;

-- Payloads that JSON itself refuses: the error names the reason, nothing is stored.
SELECT jobq.create_queue('json');
SELECT label, split_part(outcome(format('SELECT jobq.enqueue(''json'', %L) > 0', payload)), ' | ', 1) FROM (VALUES ('zero character', '{"a":"\u0000"}'), ('half a surrogate', '"\ud800"'),
	('unknown escape', '"\x"'), ('no json', 'hello'), ('empty', ''), ('comma', '[1,]'), ('NaN', 'NaN'), ('two values', '1 2'), ('huge exponent', '1e1000000')) v (label, payload);
SELECT label, split_part(outcome(format('SELECT count(*) FROM jobq.enqueue_many(''json'', %L)', payloads)), ' | ', 1) FROM (VALUES ('zero character', '[1, {"a":"\u0000"}, 2]'),
	('no json', '[1, hello]')) v (label, payloads);
SELECT ready FROM jobq.queues WHERE queue = 'json';
-- ... what it takes, comes back as it was
SELECT jobq.enqueue('json', '1e400') AS job \gset
SELECT payload = '1e400' AS same, length(payload::text) FROM jobq.dequeue('json');
SELECT jobq.enqueue('json', '{"b": 1, "a": {"": null}, "b": 2, "\u00e4\ud83d\ude00": -0.00}') AS job \gset
SELECT payload FROM jobq.dequeue('json');

-- Too large: the limit is the queue's, the hint says what to do.
SELECT outcome($$SELECT jobq.enqueue('json', to_jsonb(repeat('x', 20000000)))$$);
SELECT split_part(outcome($$SELECT jobq.enqueue('json', to_jsonb(repeat('x', 300000000)))$$), ' ', 1);
SELECT jobq.create_queue('large', max_payload_bytes => 268435455);
SELECT jobq.enqueue('large', to_jsonb(repeat('x', 20000000))) AS job \gset
SELECT length(payload #>> '{}') FROM jobq.dequeue('large');

-- Too deep: 1000 levels are taken and come back; more are refused, by us or by the server.
SELECT jobq.create_queue('deep', max_payload_bytes => 10000000);
CREATE FUNCTION nested(levels int) RETURNS text LANGUAGE sql AS $$SELECT repeat('[', $1) || repeat(']', $1)$$;
SELECT levels, CASE WHEN levels < 5000 THEN short(format('SELECT jobq.enqueue(''deep'', %L) > 0', nested(levels)))
		ELSE (short(format('SELECT jobq.enqueue(''deep'', %L)', nested(levels))) ~ '^(22023|54001) ')::text END
	FROM unnest('{1,999,1000,1001,2000,10000,100000}'::int[]) levels;
SELECT length(payload::text) FROM jobq.dequeue('deep', 10);
-- as one of many, it is the only one left out
SELECT ord, status FROM jobq.enqueue_many('deep', ('[1, ' || nested(1001) || ', 2]')::jsonb);
SELECT payload FROM jobq.dequeue('deep', 10);

-- Arrays: a million elements at most; strange ones are refused.
SELECT outcome($$SELECT count(*) FROM jobq.complete_many(array_fill(1::bigint, ARRAY[1000001]), array_fill(1::bigint, ARRAY[1000001]))$$);
SELECT outcome($$SELECT count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(1) FROM generate_series(1, 1000001)))$$);
SELECT s.status, count(*) FROM jobq.complete_many(array_fill(1::bigint, ARRAY[1000]), array_fill(1::bigint, ARRAY[1000])) s GROUP BY 1;
SELECT outcome($$SELECT count(*) FROM jobq.complete_many('[-3:-2]={1,2}', '{1,2}')$$);

-- Ids and tokens: any number may be asked for.
SELECT outcome(format('SELECT jobq.complete(%s, %s)', id, token)) FROM (VALUES ('0', '0'), ('-1', '-1'), ('9223372036854775807', '9223372036854775807'),
	('-9223372036854775808', '-9223372036854775808')) v (id, token);
SELECT count(*) FROM unnest('{0,-1,9223372036854775807,-9223372036854775808}'::bigint[]) id, jobq.job(id);

-- An error text that is not valid in any encoding, where the server lets it in: kept as it is, fail succeeds.
CREATE DATABASE regress_jobq_ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0;
SELECT current_database() AS home \gset
\c regress_jobq_ascii
CREATE EXTENSION "jobq";
SELECT jobq.create_queue('q', max_attempts => 2);
SELECT jobq.enqueue('q', '{"n": 1}') AS job \gset
SELECT jobq.fail(job_id, token, E'bad \xff\xfe bytes', '0') FROM jobq.dequeue('q');
SELECT encode(last_error::bytea, 'escape') FROM jobq.job(:job);
SELECT jobq.fail(job_id, token, repeat(E'\xff', 10000)) FROM jobq.dequeue('q');
SELECT octet_length(last_error) FROM jobq.dead_letters;
SELECT octet_length(f ->> 'error') FROM jobq.dead_letters, jsonb_array_elements(failures) f;
SELECT * FROM jobq.verify();
\c :"home"
DROP DATABASE regress_jobq_ascii WITH (FORCE);

SELECT * FROM jobq.verify();
