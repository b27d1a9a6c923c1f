"""The hammer: many small transactions at full speed, in loops inside the server, for races that slow clients never hit.

Every transaction notes in tables of its own, by the same commit, what it put in and what it completed; at the end both must
be equal, and nothing may be left that cannot be taken. The rescan for forgotten tickets is off meanwhile. Parts:

	claim	producers commit in another order than they drew their ids, some late, some not at all; consumers take, complete,
			roll back, fail and release. A ticket that the claim cursor passes over stays behind.
	share	the jobs of one lease are ended by several sessions at a time, in every way; some jobs by two at once.
	expire	the same with leases so short that they end while that goes on.
	cancel	many leases end at one time, all their jobs cancelled or failed: each keeps its own payload.
"""
import multiprocessing
import time

import psycopg2

QUEUE = 's_hammer'

SETUP = """
CREATE TABLE stress.put (id bigint NOT NULL);
CREATE TABLE stress.done (id bigint NOT NULL);
CREATE TABLE stress.shared (id bigint NOT NULL, token bigint NOT NULL) WITH (autovacuum_vacuum_threshold = 1000);

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

CREATE PROCEDURE stress.consume(until timestamptz, seed float8) LANGUAGE plpgsql AS $$
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

CREATE PROCEDURE stress.share(until timestamptz, seed float8, length float8) LANGUAGE plpgsql AS $$
DECLARE
	ids bigint[];
	tokens bigint[];
	fate float8;
BEGIN
	PERFORM setseed(seed);
	WHILE clock_timestamp() < until LOOP
		WITH p AS (
			DELETE FROM stress.shared WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM stress.shared LIMIT 1 + (random() * random() * 20)::int FOR UPDATE SKIP LOCKED))
			RETURNING id, token)
		SELECT array_agg(id ORDER BY token), array_agg(token ORDER BY token) INTO ids, tokens FROM p;
		fate := random();
		IF ids IS NULL OR fate < 0.05 THEN
			ROLLBACK;
			-- some are handed to two sessions
			INSERT INTO stress.shared SELECT job_id, token
				FROM jobq.dequeue('s_hammer', 1 + (random() * random() * 100)::int, length * (0.5 + random()) * interval '1 s'),
					generate_series(1, CASE WHEN random() < 0.6 THEN 2 ELSE 1 END)
				ORDER BY generate_series, job_id;
		ELSIF fate < 0.15 THEN
			PERFORM jobq.release_many(ids, tokens);
		ELSIF fate < 0.25 THEN
			PERFORM jobq.fail_many(ids, tokens, 'hammer', '0');
		ELSIF fate < 0.40 THEN
			-- a heartbeat that moves the lease's row, its commit a little later
			PERFORM jobq.extend_many(ids, tokens, length * interval '1 s');
			PERFORM pg_sleep(random() * 0.003);
			INSERT INTO stress.shared SELECT * FROM unnest(ids, tokens);
		ELSIF fate < 0.45 THEN
			-- held over a moment, then given up
			PERFORM jobq.complete_many(ids, tokens);
			PERFORM pg_sleep(random() * 0.002);
			ROLLBACK;
		ELSIF fate < 0.50 THEN
			BEGIN
				PERFORM jobq.release_many(ids, tokens);
				RAISE EXCEPTION 'undo';
			EXCEPTION WHEN raise_exception THEN
				INSERT INTO stress.done SELECT job_id FROM jobq.complete_many(ids, tokens) WHERE status = 'ok';
			END;
		ELSIF fate < 0.55 THEN
			-- the lowest token: leases are locked in that order
			BEGIN
				PERFORM jobq.assert_lease(ids[1], tokens[1]);
				INSERT INTO stress.done SELECT job_id FROM jobq.complete_many(ids, tokens) WHERE status = 'ok';
			EXCEPTION
				WHEN SQLSTATE 'JQ001' THEN
					INSERT INTO stress.done SELECT job_id FROM jobq.complete_many(ids, tokens) WHERE status = 'ok';
				WHEN deadlock_detected THEN
					-- another one has asserted the same lease, and both would end it
					INSERT INTO stress.shared SELECT * FROM unnest(ids, tokens);
			END;
		ELSE
			INSERT INTO stress.done SELECT job_id FROM jobq.complete_many(ids, tokens) WHERE status = 'ok';
		END IF;
		IF random() < 0.4 THEN
			PERFORM pg_sleep(random() * 0.004);
		END IF;
		COMMIT;
	END LOOP;
END
$$;
"""

# Ends what is in hand and takes what can be taken.
FINISH = (
	"""WITH p AS MATERIALIZED (DELETE FROM stress.shared RETURNING id, token)
		INSERT INTO stress.done SELECT c.job_id FROM (SELECT array_agg(id) AS ids, array_agg(token) AS tokens FROM p) a,
			jobq.complete_many(a.ids, a.tokens) c WHERE c.status = 'ok'""",
	"""WITH j AS MATERIALIZED (SELECT job_id, token FROM jobq.dequeue('s_hammer', 10000, '60 s'))
		INSERT INTO stress.done SELECT c.job_id FROM (SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM j) a,
			jobq.complete_many(a.ids, a.tokens) c WHERE c.status = 'ok'""",
)


def client(errors, sql, params):
	try:
		conn = psycopg2.connect(application_name='hammer')
		conn.autocommit = True
		cur = conn.cursor()
		cur.execute('SET synchronous_commit = off')		# nothing crashes here, and the disk would set the pace
		cur.execute(sql, params)
	except psycopg2.Error as e:
		errors.put(str(e).strip().replace('\n', ' / '))


def part(cur, rng, clients):
	"""Runs the clients, then ends all there is. Returns what is wrong, as lines, and the number of jobs."""
	cur.execute('TRUNCATE stress.put, stress.done, stress.shared')
	fork = multiprocessing.get_context('fork')
	errors = fork.SimpleQueue()
	ps = []
	for sql, params in clients:
		p = fork.Process(target=client, args=(errors, sql, (params[0], rng.uniform(-1, 1)) + params[1:]), daemon=True)
		p.start()
		ps.append(p)
	wrong = []
	deadline = time.monotonic() + 120
	while any(p.is_alive() for p in ps) and time.monotonic() < deadline and not wrong:
		time.sleep(0.3)
		cur.execute('SELECT rule, detail FROM jobq.verify()')
		wrong += ['verify, meanwhile: %s: %s' % r for r in cur.fetchall()]
	for p in ps:
		p.join(max(0, deadline - time.monotonic()))
		if p.exitcode is None:
			wrong.append('a client does not end')
			p.kill()
	while not errors.empty():
		wrong.append('a client ended with: ' + errors.get())
	# What stays behind was forgotten; some may back off for a moment.
	deadline = time.monotonic() + 10
	while True:
		for sql in FINISH:
			cur.execute(sql)
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
		wrong.append('%d jobs were never completed, %d completed that nobody put in' % (missing - left, extra))
	cur.execute('SELECT rule, detail FROM jobq.verify()')
	wrong += ['verify: %s: %s' % r for r in cur.fetchall()]
	return wrong, put


def cancel(cur):
	cur.execute("SELECT jobq.alter_queue(%s, keep_completed => '1 hour')", (QUEUE,))
	cur.execute('''CREATE TABLE stress.sent AS SELECT n, job_id AS id FROM jobq.enqueue_many('s_hammer',
			(SELECT jsonb_agg(jsonb_build_object('n', n, 'pad', repeat('x', n % 100)) ORDER BY n) FROM generate_series(1, 600) n))
		JOIN generate_series(1, 600) n ON n = ord''')
	cur.execute("SELECT count(*) FROM jobq.dequeue('s_hammer', 600, '200 ms')")
	cur.execute("SELECT count(*) FROM (SELECT jobq.cancel(id) AS answer FROM stress.sent WHERE n % 4 <> 0) c WHERE answer = 'running'")
	cancelled = cur.fetchone()[0]
	deadline = time.monotonic() + 20
	while True:
		cur.execute('SELECT count(*) FROM jobq.lease l WHERE EXISTS (SELECT FROM jobq.job j WHERE j.id = ANY (l.job_ids))')
		if cur.fetchone()[0] == 0 or time.monotonic() > deadline:
			break
		time.sleep(0.02)
	cur.execute(FINISH[1])
	cur.execute('''SELECT count(h.id) FILTER (WHERE h.state = 'x'), count(h.id) FILTER (WHERE h.state = 'c'),
			count(*) FILTER (WHERE (h.payload->>'n')::int IS DISTINCT FROM s.n)
		FROM stress.sent s LEFT JOIN jobq.history h ON h.id = s.id''')
	row = cur.fetchone()
	if row != (cancelled, 600 - cancelled, 0):
		return ['of 600 jobs, %d of them cancelled: %d cancelled, %d completed, %d with another payload' % ((cancelled,) + row)], 600
	return [], 600


def run(conn, rng, rounds, parts=('claim', 'share', 'expire', 'cancel')):
	"""Yields (part, what is wrong, number of jobs). rounds: transactions that produce, over all. conn: autocommit."""
	cur = conn.cursor()
	cur.execute(SETUP)
	cur.execute("""SELECT jobq.create_queue(%s, max_attempts => 100000, keep_completed => '0', backoff => 'fixed',
		backoff_base => '10 ms')""", (QUEUE,))
	cur.execute("SELECT current_setting('jobq.rescan_interval')")
	rescan = cur.fetchone()[0]
	set_rescan(cur, '0')
	n = max(rounds // (6 + 3 + 3), 1)
	for name in parts:
		if name == 'cancel':
			yield (name, *cancel(cur))
			continue
		# the clients of a part stop at one time, and that is when the producers are through by experience
		until = time.time() + 1 + n * 6 / 2000
		produce = ('CALL stress.produce(%s, %s)', (n,))
		if name == 'claim':
			clients = [produce] * 6 + [('CALL stress.consume(to_timestamp(%s), %s)', (until,))] * 4
		else:
			length = 60.0 if name == 'share' else 0.006
			clients = [produce] * 3 + [('CALL stress.share(to_timestamp(%s), %s, %s)', (until, length))] * 6
		wrong, put = part(cur, rng, clients)
		yield name, wrong[:8] + ['and %d more' % (len(wrong) - 8)] * (len(wrong) > 8), put
		cur.execute('SELECT jobq.purge_queue(%s)', (QUEUE,))
	set_rescan(cur, rescan)
	cur.execute('SELECT jobq.drop_queue(%s, force => true)', (QUEUE,))


def set_rescan(cur, value):
	cur.execute('ALTER SYSTEM SET jobq.rescan_interval = %s', (value,))
	cur.execute('SELECT pg_reload_conf()')
