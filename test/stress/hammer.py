"""The hammer: many small transactions at full speed, in loops inside the server, for races that slow clients never hit.

Producers commit in another order than they drew their ids, some late, some not at all; consumers take, complete, roll back,
fail and release. The rescan for forgotten tickets is off meanwhile, so a ticket that the claim cursor passes over stays
behind. Every transaction notes in tables of its own, by the same commit, what it put in and what it completed; at the end
both must be equal.
"""
import multiprocessing
import os
import time

import psycopg2

QUEUE = 's_hammer'

SETUP = """
CREATE TABLE stress.put (id bigint NOT NULL);
CREATE TABLE stress.done (id bigint NOT NULL);
CREATE PROCEDURE stress.produce(rounds int, seed float8) LANGUAGE plpgsql AS $$
DECLARE
	urgency int;
BEGIN
	PERFORM setseed(seed);
	FOR i IN 1 .. rounds LOOP
		urgency := CASE WHEN random() < 0.8 THEN 1000 ELSE (random() * 2)::int END;
		INSERT INTO stress.put SELECT jobq.enqueue('s_hammer', priority => urgency);
		IF random() < 0.1 THEN
			INSERT INTO stress.put SELECT job_id FROM jobq.enqueue_many('s_hammer', '[{}, {}, {}, {}, {}]', priority => urgency);
		END IF;
		IF random() < 0.15 THEN
			BEGIN
				INSERT INTO stress.put SELECT jobq.enqueue('s_hammer', priority => urgency);
				IF random() < 0.5 THEN
					RAISE EXCEPTION 'undo';
				END IF;
			EXCEPTION WHEN raise_exception THEN
			END;
		END IF;
		IF random() < 0.15 THEN
			-- another one commits meanwhile, with a higher id
			PERFORM pg_sleep(random() * 0.004);
		END IF;
		IF random() < 0.1 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END
$$;
CREATE PROCEDURE stress.consume(until timestamptz, seed float8, INOUT taken bigint DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	ids bigint[];
	tokens bigint[];
	fate float8;
BEGIN
	PERFORM setseed(seed);
	WHILE clock_timestamp() < until LOOP
		fate := random();
		IF fate < 0.07 THEN
			-- a subtransaction's take is undone, and the next one sees the same jobs
			BEGIN
				PERFORM count(*) FROM jobq.dequeue('s_hammer', 1 + (random() * 20)::int, '60 s');
				RAISE EXCEPTION 'undo';
			EXCEPTION WHEN raise_exception THEN
			END;
		END IF;
		SELECT array_agg(job_id), array_agg(token) INTO ids, tokens
			FROM jobq.dequeue('s_hammer', 1 + (random() * random() * 30)::int, '60 s');
		taken := taken + coalesce(cardinality(ids), 0);
		IF ids IS NULL THEN
			COMMIT;
			PERFORM pg_sleep(0.001);
			CONTINUE;
		END IF;
		IF fate > 0.93 THEN
			IF fate > 0.97 THEN
				PERFORM pg_sleep(random() * 0.003);
			END IF;
			ROLLBACK;
			CONTINUE;
		ELSIF fate > 0.90 THEN
			PERFORM jobq.release_many(ids, tokens);
		ELSIF fate > 0.87 THEN
			PERFORM jobq.fail_many(ids, tokens, 'hammer', '0');
		ELSE
			INSERT INTO stress.done SELECT job_id FROM jobq.complete_many(ids, tokens) WHERE status = 'ok';
		END IF;
		COMMIT;
	END LOOP;
END
$$;
"""


def connect(name):
	conn = psycopg2.connect(application_name=name)
	conn.autocommit = True
	conn.cursor().execute('SET synchronous_commit = off')	# nothing crashes here, and the disk would set the pace
	return conn


def produce(rounds, seed):
	connect('hammer producer').cursor().execute('CALL stress.produce(%s, %s)', (rounds, seed))
	os._exit(0)


def consume(seconds, seed):
	conn = connect('hammer consumer')
	conn.cursor().execute("CALL stress.consume(clock_timestamp() + %s * interval '1 s', %s)", (seconds, seed))
	os._exit(0)


def run(conn, rng, rounds, seconds, producers=6, consumers=4):
	"""Returns what is wrong, as lines, and the number of jobs. conn: autocommit."""
	cur = conn.cursor()
	cur.execute(SETUP)
	cur.execute("SELECT jobq.create_queue(%s, max_attempts => 1000, keep_completed => '0', backoff => 'fixed', backoff_base => '10 ms')", (QUEUE,))
	cur.execute("SELECT current_setting('jobq.rescan_interval')")
	rescan = cur.fetchone()[0]
	set_rescan(cur, '0')
	fork = multiprocessing.get_context('fork')
	ps = [fork.Process(target=produce, args=(rounds // producers, rng.uniform(-1, 1)), daemon=True) for _ in range(producers)]
	ps += [fork.Process(target=consume, args=(seconds, rng.uniform(-1, 1)), daemon=True) for _ in range(consumers)]
	for p in ps:
		p.start()
	wrong = []
	deadline = time.monotonic() + seconds + 60
	for p in ps:
		p.join(max(0, deadline - time.monotonic()))
		if p.exitcode != 0:
			wrong.append('a client of the hammer ended with %s' % p.exitcode)
			p.kill()
	# All that can be taken is taken now. What stays behind was forgotten, or backs off for a moment.
	deadline = time.monotonic() + 10
	while True:
		cur.execute("""WITH j AS MATERIALIZED (SELECT job_id, token FROM jobq.dequeue('s_hammer', 10000, '60 s'))
			INSERT INTO stress.done SELECT c.job_id FROM (SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM j) a,
				jobq.complete_many(a.ids, a.tokens) c WHERE c.status = 'ok'""")
		cur.execute('SELECT count(*) FROM jobq.job')
		left = cur.fetchone()[0]
		if left == 0 or time.monotonic() > deadline:
			break
		time.sleep(0.02)
	cur.execute("""SELECT (SELECT count(*) FROM stress.put), (SELECT count(*) FROM stress.done), (SELECT count(DISTINCT id) FROM stress.done),
		(SELECT count(*) FROM (SELECT id FROM stress.put EXCEPT SELECT id FROM stress.done) x),
		(SELECT count(*) FROM (SELECT id FROM stress.done EXCEPT SELECT id FROM stress.put) x),
		(SELECT count(*) FROM jobq.ready), (SELECT count(*) FROM jobq.delayed), (SELECT count(*) FROM jobq.lease)""")
	put, done, distinct, missing, extra, ready, delayed, lease = cur.fetchone()
	if left:
		wrong.append('%d of %d jobs are left and cannot be taken: %d ready and %d delayed tickets, %d leases' % (left, put, ready, delayed,
			lease))
	if done != distinct:
		wrong.append('%d jobs were completed more than once' % (done - distinct))
	if missing != left or extra:
		wrong.append('%d jobs were never completed, %d completed that nobody put in' % (missing, extra))
	cur.execute('SELECT rule, detail FROM jobq.verify()')
	wrong += ['verify: %s: %s' % r for r in cur.fetchall()]
	set_rescan(cur, rescan)
	cur.execute('SELECT jobq.drop_queue(%s, force => true)', (QUEUE,))
	return wrong, put


def set_rescan(cur, value):
	cur.execute('ALTER SYSTEM SET jobq.rescan_interval = %s', (value,))
	cur.execute('SELECT pg_reload_conf()')
