-- The oracle of the tests and of whoever doubts: every broken rule, one row each; no rows when all is well.
--
-- All tables are read by one statement, hence by one snapshot: a transaction that commits meanwhile is seen whole or not at all
-- and cannot fake a violation. Sequences have no snapshot, but they only grow, so reading them later is harmless.
--
-- The counters in shared memory have no snapshot either. They are compared only when nobody could have changed them between the
-- snapshot and the reading: the snapshot has no transaction in progress; nobody is still leaving its commit (the lock on one's own
-- transaction id is held until the counters are changed); and after the reading the next transaction id is still the snapshot's.
-- age() asks for that id, once per transaction; so the call must also be the first statement of its transaction.
--
-- What a transaction owes its groups it pays at its commit; before that it sees groups without a ticket, so it should not ask.
--
-- It reads everything there is, so hash joins are right whatever the statistics say.
CREATE FUNCTION jobq.verify()
	RETURNS TABLE (rule text, detail text)
	LANGUAGE sql STABLE SECURITY DEFINER ROWS 10
	SET search_path = pg_catalog, pg_temp
	SET enable_nestloop = off
	SET jit = off
BEGIN ATOMIC
	WITH RECURSIVE
	-- where live jobs can be; a lease also lists jobs that have ended, whose rows are gone
	place AS MATERIALIZED (
		SELECT 'ready' AS kind, CASE r.lane WHEN 1 THEN r.seq ELSE r.job_id END AS job_id, r.queue_id, r.priority, r.attempt
		FROM jobq.ready r WHERE r.group_id IS NULL
		UNION ALL
		SELECT CASE WHEN d.visible_at = 'infinity' THEN 'pending' ELSE 'delayed' END, d.job_id, d.queue_id, d.priority, d.attempt
		FROM jobq.delayed d WHERE coalesce(d.group_id, 0) = 0
		UNION ALL
		SELECT 'line', n.job_id, g.queue_id, n.priority, n.attempt
		FROM jobq.line n
			LEFT JOIN jobq.job_group g ON g.id = n.group_id
		UNION ALL
		SELECT 'lease', h.job_id, h.queue_id, NULL, h.attempt
		FROM (SELECT unnest(l.job_ids) AS job_id, unnest(l.attempts) AS attempt, l.queue_id FROM jobq.lease l) h
			JOIN jobq.job j ON j.id = h.job_id
	),
	-- what holds a job back: what it waits for, or waits for all the same though it has ended
	awaited AS MATERIALIZED (
		SELECT d.job_id, d.on_job, d.ended FROM jobq.dependency d WHERE d.ended IS NULL OR d.ended IN ('D', 'X', 'E', 'R')
	),
	-- what stands for a group; one of these each
	turn AS MATERIALIZED (
		SELECT 'ready' AS kind, r.group_id, r.job_id, r.queue_id, r.from_ord FROM jobq.ready r WHERE r.group_id IS NOT NULL
		UNION ALL
		SELECT 'delayed', d.group_id, d.job_id, d.queue_id, d.from_ord FROM jobq.delayed d WHERE d.group_id <> 0
		UNION ALL
		SELECT 'held', h.group_id, h.group_id, h.queue_id, h.from_ord FROM jobq.held h
		UNION ALL
		SELECT 'lease', l.group_id, l.group_id, l.queue_id, NULL FROM jobq.lease l WHERE l.group_id IS NOT NULL
	),
	-- jobs of a group's lease that are not done
	leased AS MATERIALIZED (
		SELECT h.group_id, h.job_id, h.ord
		FROM (SELECT l.group_id, unnest(l.job_ids) AS job_id, unnest(l.ords) AS ord FROM jobq.lease l WHERE l.group_id IS NOT NULL) h
			JOIN jobq.job j ON j.id = h.job_id
	),
	working AS (
		SELECT l.group_id, max(l.ord) AS last FROM leased l GROUP BY l.group_id
	),
	queued AS MATERIALIZED (
		SELECT n.group_id, min(n.ord) AS first, count(*) AS n FROM jobq.line n GROUP BY n.group_id
	),
	placed AS (
		SELECT p.job_id, count(*) AS n, count(*) FILTER (WHERE p.kind = 'ready') AS ready,
			count(*) FILTER (WHERE p.kind = 'delayed') AS delayed, count(*) FILTER (WHERE p.kind = 'pending') AS pending,
			count(*) FILTER (WHERE p.kind = 'lease') AS lease,
			count(*) FILTER (WHERE p.kind = 'line') AS line
		FROM place p
		GROUP BY p.job_id
	),
	dead_letter_chain AS (
		SELECT q.id AS start, q.dead_letter_queue AS id FROM jobq.queue q WHERE q.dead_letter_queue IS NOT NULL
		UNION
		SELECT c.start, q.dead_letter_queue FROM dead_letter_chain c JOIN jobq.queue q ON q.id = c.id WHERE q.dead_letter_queue IS NOT NULL
	),
	last_block AS MATERIALIZED (
		SELECT s.last_value - CASE WHEN s.is_called THEN 0 ELSE 1 END AS block FROM jobq.job_block_seq s
	),
	true_counts AS (
		SELECT q.id AS queue_id, coalesce(p.ready, 0) AS ready, coalesce(p.delayed, 0) AS delayed,
			coalesce(p.pending, 0) AS pending, coalesce(p.active, 0) AS active, coalesce(d.dead, 0) AS dead
		FROM jobq.queue q
			LEFT JOIN (
				SELECT p.queue_id, count(*) FILTER (WHERE p.kind IN ('ready', 'line')) AS ready,
					count(*) FILTER (WHERE p.kind = 'delayed') AS delayed, count(*) FILTER (WHERE p.kind = 'pending') AS pending,
					count(*) FILTER (WHERE p.kind = 'lease') AS active
				FROM place p
				GROUP BY p.queue_id) p ON p.queue_id = q.id
			LEFT JOIN (SELECT d.queue_id, count(*) AS dead FROM jobq.dead d GROUP BY d.queue_id) d ON d.queue_id = q.id
	),
	quiet AS MATERIALIZED (
		SELECT pg_snapshot_xmax(pg_current_snapshot())::xid AS next_xid
		WHERE now() = statement_timestamp()
			AND pg_current_xact_id_if_assigned() IS NULL
			AND NOT EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()))
			AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted)
	),
	-- in the select list: called after quiet has had its look
	counts AS MATERIALIZED (
		SELECT jobq.queue_counts() AS c, q.next_xid FROM quiet q
	)

	-- a live job has exactly one place
	SELECT 'place', format('job %s has %s places: ready %s, delayed %s, pending %s, line %s, lease %s', j.id, coalesce(p.n, 0), coalesce(p.ready, 0),
		coalesce(p.delayed, 0), coalesce(p.pending, 0), coalesce(p.line, 0), coalesce(p.lease, 0))
	FROM jobq.job j
		LEFT JOIN placed p ON p.job_id = j.id
		LEFT JOIN jobq.joining() g (job_id) ON g.job_id = j.id
	WHERE coalesce(p.n, 0) <> CASE WHEN g.job_id IS NULL THEN 1 ELSE 0 END
	UNION ALL
	-- a ticket has a job
	SELECT 'ticket_without_job', format('%s ticket of queue %s names job %s, which is not live', p.kind, p.queue_id, p.job_id)
	FROM place p
		LEFT JOIN jobq.job j ON j.id = p.job_id
	WHERE j.id IS NULL
	UNION ALL
	-- and says of it what the job's own row says
	SELECT 'ticket_differs', format('%s of job %s has queue %s, priority %s; the job has %s, %s', p.kind, j.id, p.queue_id, p.priority,
		j.queue_id, j.priority)
	FROM place p
		JOIN jobq.job j ON j.id = p.job_id
	WHERE p.queue_id <> j.queue_id OR p.priority <> j.priority
	UNION ALL
	-- a fresh ticket's seq is its job's id; lanes are those we know
	SELECT 'ticket_lane', format('ready ticket with seq %s has lane %s, job id %s', r.seq, r.lane, coalesce(r.job_id::text, 'NULL'))
	FROM jobq.ready r
	WHERE CASE WHEN r.group_id IS NULL THEN r.lane NOT IN (0, 1) OR r.lane = 1 AND r.job_id <> r.seq
		ELSE r.lane NOT IN (2, 3) END
	UNION ALL
	SELECT 'ticket_seq', format('%s ready tickets have seq %s', count(*), r.seq)
	FROM jobq.ready r
	GROUP BY r.seq
	HAVING count(*) > 1
	UNION ALL
	-- finished is final, and once
	SELECT 'finished', format('job %s is there %s times: live %s, in history %s, dead %s', f.id, count(*), count(*) FILTER (WHERE f.kind = 1),
		count(*) FILTER (WHERE f.kind = 2), count(*) FILTER (WHERE f.kind = 3))
	FROM (
		SELECT j.id, 1 AS kind FROM jobq.job j
		UNION ALL
		SELECT h.id, 2 FROM jobq.history h
		UNION ALL
		SELECT d.id, 3 FROM jobq.dead d) f
	GROUP BY f.id
	HAVING count(*) > 1
	UNION ALL
	SELECT 'history', format('job %s in history: state %s, attempt %s of %s', h.id, h.state, h.attempt, h.max_attempts)
	FROM jobq.history h
	WHERE h.state NOT IN ('c', 'x', 'e') OR h.attempt NOT BETWEEN 0 AND h.max_attempts
	UNION ALL
	-- in the table of its day, or it would be emptied away with another day's
	SELECT 'history_day', format('job %s, kept until %s, lies in history_%s', h.id, h.expiry, h.part)
	FROM jobq.history h
	WHERE h.part < 32
		AND (NOT isfinite(h.expiry) OR floor(extract(epoch FROM h.expiry - timestamptz '2000-01-01 00:00:00+00') / 86400) % 32 <> h.part)
	UNION ALL
	SELECT 'dead', format('dead job %s: attempt %s of %s', d.id, d.attempt, d.max_attempts)
	FROM jobq.dead d
	WHERE d.attempt NOT BETWEEN 0 AND d.max_attempts
	UNION ALL
	SELECT 'lease_arrays', format('lease %s lists %s jobs, %s addresses, %s attempts, cancel bits %s', l.token, cardinality(l.job_ids),
		cardinality(l.job_tids), cardinality(l.attempts), l.cancel)
	FROM jobq.lease l
	WHERE cardinality(l.job_ids) NOT BETWEEN 1 AND 64
		OR cardinality(l.job_tids) <> cardinality(l.job_ids)
		OR cardinality(l.attempts) <> cardinality(l.job_ids)
		OR array_position(l.job_ids, NULL) IS NOT NULL
		OR array_position(l.attempts, NULL) IS NOT NULL
		OR cardinality(l.job_ids) < 64 AND l.cancel >> cardinality(l.job_ids) <> 0
	UNION ALL
	-- a group has a row exactly while it has a ticket, and one ticket
	SELECT 'group_ticket', format('group %s has %s tickets: %s', g.id, count(t.kind), coalesce(string_agg(t.kind, ', '), 'none'))
	FROM jobq.job_group g
		LEFT JOIN turn t ON t.group_id = g.id
	GROUP BY g.id
	HAVING count(t.kind) <> 1
	UNION ALL
	SELECT 'group_ticket', format('%s ticket of queue %s names group %s, which is not there', t.kind, t.queue_id, t.group_id)
	FROM turn t
		LEFT JOIN jobq.job_group g ON g.id = t.group_id AND g.queue_id = t.queue_id
	WHERE g.id IS NULL
	UNION ALL
	-- by which it is found
	SELECT 'group_ticket', format('%s ticket of group %s has job id %s', t.kind, t.group_id, coalesce(t.job_id::text, 'NULL'))
	FROM turn t
	WHERE t.job_id IS DISTINCT FROM t.group_id
	UNION ALL
	-- only jobs are pending
	SELECT 'group_ticket', format('delayed ticket of group %s is never due', d.group_id)
	FROM jobq.delayed d
	WHERE d.group_id <> 0 AND d.visible_at = 'infinity'
	UNION ALL
	SELECT 'group_key', format('group "%s" of queue %s has %s rows', g.group_key, g.queue_id, count(*))
	FROM jobq.job_group g
	GROUP BY g.queue_id, g.group_key
	HAVING count(*) > 1
	UNION ALL
	-- a group has a job, but for one that a dead job blocks, or that waits to be settled
	SELECT 'group_empty', format('group %s, whose ticket is in %s, has no job', t.group_id, t.kind)
	FROM turn t
		LEFT JOIN queued q ON q.group_id = t.group_id
		LEFT JOIN working w ON w.group_id = t.group_id
		LEFT JOIN jobq.held h ON h.group_id = t.group_id
	WHERE q.group_id IS NULL AND w.group_id IS NULL AND t.kind <> 'delayed' AND h.reason IS DISTINCT FROM 'blocked'
	UNION ALL
	SELECT 'line_job', format('line of group %s has job %s, which is of queue %s, group "%s"', n.group_id, n.job_id, j.queue_id, j.group_key)
	FROM jobq.line n
		JOIN jobq.job j ON j.id = n.job_id
		LEFT JOIN jobq.job_group g ON g.id = n.group_id
	WHERE (g.queue_id, g.group_key) IS DISTINCT FROM (j.queue_id, j.group_key)
	UNION ALL
	SELECT 'lease_job', format('lease of group %s has job %s, which is of queue %s, group "%s"', l.group_id, l.job_id, j.queue_id, j.group_key)
	FROM leased l
		JOIN jobq.job j ON j.id = l.job_id
		JOIN jobq.job_group g ON g.id = l.group_id
	WHERE (g.queue_id, g.group_key) IS DISTINCT FROM (j.queue_id, j.group_key)
	UNION ALL
	SELECT 'line_order', format('group %s has %s jobs at place %s', n.group_id, count(*), n.ord)
	FROM (SELECT n.group_id, n.ord FROM jobq.line n UNION ALL SELECT l.group_id, l.ord FROM leased l WHERE l.ord IS NOT NULL) n
	GROUP BY n.group_id, n.ord
	HAVING count(*) > 1
	UNION ALL
	-- who is leased stands before all who are in line
	SELECT 'line_order', format('group %s: a job is leased at place %s, behind place %s in line', w.group_id, w.last, q.first)
	FROM working w
		JOIN queued q ON q.group_id = w.group_id
	WHERE w.last > q.first
	UNION ALL
	SELECT 'line_from', format('%s ticket of group %s starts at place %s, behind place %s in line', t.kind, t.group_id, t.from_ord, q.first)
	FROM turn t
		JOIN queued q ON q.group_id = t.group_id
	WHERE t.from_ord > q.first
	UNION ALL
	SELECT 'lease_ords', format('lease %s of group %s has ords %s for jobs %s', l.token, coalesce(l.group_id::text, 'none'), l.ords, l.job_ids)
	FROM jobq.lease l
	WHERE (l.group_id IS NULL) <> (l.ords IS NULL)
		OR l.group_id IS NOT NULL AND (cardinality(l.ords) <> cardinality(l.job_ids) OR array_position(l.ords, NULL) IS NOT NULL
			OR EXISTS (SELECT FROM generate_subscripts(l.ords, 1) i WHERE l.ords[i] >= l.ords[i + 1]))
	UNION ALL
	-- only groups are handed over, and come from a lane of groups
	SELECT 'lease_lane', format('lease %s of group %s has lane %s, draining %s', l.token, coalesce(l.group_id::text, 'none'), l.lane, l.drain)
	FROM jobq.lease l
	WHERE CASE WHEN l.group_id IS NULL THEN l.lane NOT IN (0, 1) OR l.drain ELSE l.lane NOT IN (2, 3) END
	UNION ALL
	SELECT 'held', format('held ticket of group %s: reason %s, dead job %s', h.group_id, h.reason, coalesce(h.dead_job::text, 'none'))
	FROM jobq.held h
	WHERE h.reason NOT IN ('paused', 'blocked')
		OR h.reason = 'blocked' AND (h.dead_job IS NULL OR h.dead_ord IS NULL)
		OR h.reason = 'paused' AND (h.dead_job IS NOT NULL OR h.dead_ord IS NOT NULL)
	UNION ALL
	-- nobody would ever take it out again
	SELECT 'held', format('held ticket of group %s is paused, but the group "%s" is not', h.group_id, g.group_key)
	FROM jobq.held h
		JOIN jobq.job_group g ON g.id = h.group_id
		LEFT JOIN jobq.group_setting s ON s.queue_id = g.queue_id AND s.group_key = g.group_key
	WHERE h.reason = 'paused' AND s.paused IS DISTINCT FROM true
	UNION ALL
	SELECT 'held', format('held ticket of group %s is blocked by job %s, which is live', h.group_id, h.dead_job)
	FROM jobq.held h
		JOIN jobq.job j ON j.id = h.dead_job
	UNION ALL
	-- the dead job stands before all others
	SELECT 'line_order', format('group %s is blocked at place %s, behind place %s in line', h.group_id, h.dead_ord, q.first)
	FROM jobq.held h
		JOIN queued q ON q.group_id = h.group_id
	WHERE h.dead_ord >= q.first
	UNION ALL
	SELECT 'delayed_join', format('delayed job %s has group "%s", and its ticket %s', j.id, j.group_key,
		CASE WHEN d.group_id = 0 THEN 'joins one' ELSE 'joins none' END)
	FROM jobq.delayed d
		JOIN jobq.job j ON j.id = d.job_id
	WHERE (d.group_id IS NOT NULL) <> (j.group_key IS NOT NULL)
	UNION ALL
	SELECT 'lone_member', format('job %s of group "%s" has a ticket of its own, or a lease of no group', j.id, j.group_key)
	FROM jobq.job j
		JOIN (
			SELECT CASE r.lane WHEN 1 THEN r.seq ELSE r.job_id END AS job_id FROM jobq.ready r WHERE r.group_id IS NULL
			UNION ALL
			SELECT unnest(l.job_ids) FROM jobq.lease l WHERE l.group_id IS NULL) t ON t.job_id = j.id
	WHERE j.group_key IS NOT NULL
	UNION ALL
	SELECT 'lease_deadline', format('lease %s lasts until %s, past its deadline %s', l.token, l.lease_until, l.deadline)
	FROM jobq.lease l
	WHERE l.lease_until > l.deadline
	UNION ALL
	-- waiting: attempts counted so far, so one is left; leased: number of the running one
	SELECT 'attempt', format('%s of job %s: attempt %s of %s', p.kind, j.id, p.attempt, j.max_attempts)
	FROM place p
		JOIN jobq.job j ON j.id = p.job_id
	WHERE CASE p.kind WHEN 'lease' THEN p.attempt NOT BETWEEN 1 AND j.max_attempts ELSE p.attempt NOT BETWEEN 0 AND j.max_attempts - 1 END
	UNION ALL
	-- numbers below 1 are those of a life before a redrive
	SELECT 'failure', format('failure of attempt %s of job %s, which %s', f.attempt, f.job_id,
		CASE WHEN j.id IS NULL THEN 'is not live' ELSE format('is at attempt %s', p.attempt) END)
	FROM jobq.failure f
		LEFT JOIN jobq.job j ON j.id = f.job_id
		LEFT JOIN place p ON p.job_id = f.job_id
	WHERE j.id IS NULL OR f.attempt > p.attempt -- those from before a redrive are 0 and less
	UNION ALL
	SELECT 'failure', format('%s failures of attempt %s of job %s', count(*), f.attempt, f.job_id)
	FROM jobq.failure f
	GROUP BY f.job_id, f.attempt
	HAVING count(*) > 1
	UNION ALL
	SELECT 'queue', format('%s %s names queue %s, which does not exist', u.kind, u.id, u.queue_id)
	FROM (
		SELECT 'job' AS kind, j.id, j.queue_id FROM jobq.job j
		UNION ALL
		SELECT p.kind || ' of job', p.job_id, p.queue_id FROM place p WHERE p.kind <> 'line'
		UNION ALL
		SELECT 'group', g.id, g.queue_id FROM jobq.job_group g
		UNION ALL
		SELECT DISTINCT 'settings of a group, queue', s.queue_id, s.queue_id FROM jobq.group_setting s
		UNION ALL
		SELECT DISTINCT 'rate of a group, queue', r.queue_id, r.queue_id FROM jobq.group_rate r
		UNION ALL
		SELECT 'window of a unique key, job', w.job_id, w.queue_id FROM jobq.unique_window w
		UNION ALL
		SELECT 'as dead letter queue, queue', q.id, q.dead_letter_queue FROM jobq.queue q WHERE q.dead_letter_queue IS NOT NULL) u
		LEFT JOIN jobq.queue q ON q.id = u.queue_id
	WHERE q.id IS NULL
	UNION ALL
	-- who waits for others waits for one at least, and is pending for as long; a ticket that somebody had in hand is the sweep's business
	SELECT 'pending_without_dependency', format('pending job %s waits for no other', p.job_id)
	FROM place p
		LEFT JOIN awaited a ON a.job_id = p.job_id
	WHERE p.kind = 'pending' AND a.job_id IS NULL AND NOT EXISTS (SELECT FROM jobq.delayed d WHERE d.job_id = p.job_id AND d.xmax <> '0')
	UNION ALL
	SELECT 'dependency_not_pending', format('job %s waits for job %s, but is not pending', a.job_id, a.on_job)
	FROM awaited a
		JOIN jobq.job j ON j.id = a.job_id
		LEFT JOIN place p ON p.job_id = a.job_id AND p.kind = 'pending'
	WHERE p.job_id IS NULL
	UNION ALL
	SELECT 'dependency_without_job', format('job %s waits for job %s, but is not live', d.job_id, d.on_job)
	FROM jobq.dependency d
		LEFT JOIN jobq.job j ON j.id = d.job_id
	WHERE j.id IS NULL
	UNION ALL
	-- how one ended is kept only where the job runs all the same, or waits all the same
	SELECT 'dependency_ended', format('job %s, after_dead %s, is told that job %s ended as %s', d.job_id, coalesce(j.after_dead::text, 'none'),
		d.on_job, d.ended)
	FROM jobq.dependency d
		JOIN jobq.job j ON j.id = d.job_id
	WHERE d.ended IS NOT NULL AND (d.on_job = d.job_id
		OR CASE WHEN d.ended IN ('d', 'x', 'e', 'r') THEN j.after_dead IS DISTINCT FROM 'r'
			WHEN d.ended IN ('D', 'X', 'E', 'R') THEN coalesce(j.after_dead, 'r') = 'r' ELSE true END)
	UNION ALL
	-- nobody would tell it
	SELECT 'dependency_over', format('job %s waits for job %s, which %s', a.job_id, a.on_job, coalesce(e.state, 'is not there'))
	FROM awaited a
		LEFT JOIN jobq.job j ON j.id = a.on_job
		LEFT JOIN (
			SELECT h.id, 'has completed' AS state FROM jobq.history h WHERE h.state = 'c') e ON e.id = a.on_job
	WHERE j.id IS NULL AND (a.ended IS NULL OR e.id IS NOT NULL)
	UNION ALL
	SELECT 'after_dead', format('job %s, pending %s: after_dead is %s', j.id, p.job_id IS NOT NULL, coalesce(j.after_dead::text, 'none'))
	FROM jobq.job j
		LEFT JOIN place p ON p.job_id = j.id AND p.kind = 'pending'
	WHERE j.after_dead NOT IN ('w', 'c', 'r') OR p.job_id IS NOT NULL AND j.after_dead IS NULL
	UNION ALL
	-- that a unique key has one job is the index's business
	SELECT 'unique_key', format('job %s has no unique key, but a scope for one', j.id)
	FROM jobq.job j
	WHERE j.unique_key IS NULL AND (j.unique_started IS NOT NULL OR j.unique_until IS NOT NULL)
	UNION ALL
	SELECT 'unique_started', format('job %s is leased, but keeps unique key "%s", which is free from its start on', j.id, j.unique_key)
	FROM place p
		JOIN jobq.job j ON j.id = p.job_id
	WHERE p.kind = 'lease' AND j.unique_started IS FALSE
	UNION ALL
	-- a window begins where a job gives up the key, and ends where another gets it
	SELECT 'unique_window', format('unique key "%s" of queue %s has a window of job %s, and job %s', w.unique_key, w.queue_id, w.job_id, j.id)
	FROM jobq.unique_window w
		JOIN jobq.job j ON j.queue_id = w.queue_id AND j.unique_key = w.unique_key
	WHERE j.unique_started IS NOT TRUE
	UNION ALL
	SELECT 'dead_letter_loop', format('the dead letters of queue %s come back to it', c.start)
	FROM dead_letter_chain c
	WHERE c.id = c.start
	UNION ALL
	-- no id or seq is given out twice
	SELECT 'id_sequence', format('%s has %s, beyond block %s of job_block_seq', m.kind, m.highest, b.block)
	FROM (
		SELECT 'job' AS kind, (SELECT max(j.id) FROM jobq.job j) AS highest
		UNION ALL
		SELECT 'ready', (SELECT max(r.seq) FROM jobq.ready r)
		UNION ALL
		SELECT 'group', (SELECT max(g.id) FROM jobq.job_group g)
		UNION ALL
		SELECT 'line', (SELECT max(greatest(n.ord, n.ver)) FROM jobq.line n)
		UNION ALL
		SELECT 'held', (SELECT max(h.dead_ord) FROM jobq.held h)
		UNION ALL
		SELECT 'lease', (SELECT max(l.ords[cardinality(l.ords)]) FROM jobq.lease l)
		UNION ALL
		SELECT 'dependency', (SELECT max(d.on_job) FROM jobq.dependency d)
		UNION ALL
		SELECT 'dead', (SELECT max(d.id) FROM jobq.dead d)
		UNION ALL
		SELECT 'history', (SELECT max(h.id) FROM jobq.history h)) m
		CROSS JOIN last_block b
	WHERE m.highest >> 8 > b.block
	UNION ALL
	SELECT 'token_sequence', format('lease has token %s, beyond generation %s, block %s of the sequences', l.token, g.last_value, t.last_value)
	FROM jobq.lease l
		CROSS JOIN jobq.token_generation g
		CROSS JOIN jobq.token_block_seq t
	WHERE l.token >= (g.last_value << 40) + (t.last_value + 1) * 16384
	UNION ALL
	SELECT 'counters', format('queue %s: ready %s, delayed %s, pending %s, active %s, dead %s; counters say %s, %s, %s, %s, %s', t.queue_id,
		t.ready, t.delayed, t.pending, t.active, t.dead, (c.c).ready, (c.c).delayed, (c.c).pending, (c.c).active, (c.c).dead)
	FROM counts c
		JOIN true_counts t ON t.queue_id = (c.c).queue_id
	WHERE (c.c).exact
		AND ((c.c).ready, (c.c).delayed, (c.c).pending, (c.c).active, (c.c).dead)
			IS DISTINCT FROM (t.ready, t.delayed, t.pending, t.active, t.dead)
		AND age(c.next_xid) = 0;
END;
