-- Views: plain SELECTs over the tables; they lock nothing and write nothing. They read with their owner's rights, and show what the
-- current user may see; a barrier keeps functions in a query from looking at the rest.
-- A job's state is the table that holds its ticket, or its place in a line, so one snapshot shows every job exactly once.

-- Counts out of shared memory; no table is counted unless they are not known there yet.
CREATE FUNCTION jobq.queue_counts()
	RETURNS TABLE (queue_id int, ready bigint, delayed bigint, pending bigint, active bigint, dead bigint, enqueued_total bigint,
		completed_total bigint, failed_total bigint, retried_total bigint, dead_total bigint, cancelled_total bigint, expired_leases_total bigint,
		expired_total bigint,
		oldest_ready timestamptz, next_due timestamptz, exact boolean, totals_since timestamptz)
	LANGUAGE C ROWS 20 AS 'MODULE_PATHNAME', 'jobq_queue_counts';

-- Leases that the current user may know of, and how many live jobs each has.
CREATE FUNCTION jobq.lease_counts()
	RETURNS TABLE (queue_id int, worker text, started timestamptz, lease_until timestamptz, drain boolean, jobs int)
	LANGUAGE C STABLE ROWS 20 AS 'MODULE_PATHNAME', 'jobq_lease_counts';

-- Jobs get their place in a group's line at commit. Until then only the transaction that brought them knows of them, and shows them by this.
CREATE FUNCTION jobq.joining()
	RETURNS SETOF bigint LANGUAGE C STABLE ROWS 1 AS 'MODULE_PATHNAME', 'jobq_joining';

CREATE VIEW jobq.queues WITH (security_barrier) AS
SELECT q.name AS queue,
	q.paused,
	c.ready,
	c.delayed,
	c.pending,
	c.active,
	c.dead,
	c.enqueued_total,
	c.completed_total,
	c.failed_total,
	c.retried_total,
	c.dead_total,
	c.cancelled_total,
	c.expired_leases_total,
	c.expired_total,
	CASE WHEN c.oldest_ready IS NOT NULL THEN greatest(clock_timestamp() - c.oldest_ready, interval '0') END AS oldest_ready_age,
	c.next_due,
	CASE WHEN jobq.may_see(d.id) THEN d.name END AS dead_letter_queue,
	q.max_attempts,
	q.lease,
	q.timeout,
	q.backoff,
	q.backoff_base,
	q.backoff_cap,
	q.backoff_function,
	q.keep_completed,
	q.keep_dead,
	q.max_payload_bytes,
	q.notify,
	q.on_retry,
	q.on_dead,
	q.group_rate_limit,
	q.group_rate_interval,
	q.group_lease,
	q.isolate_above,
	q.events,
	q.alert_dead,
	q.alert_dead_interval,
	q.concurrency,
	q.rate_limit,
	q.rate_interval,
	q.rate_burst,
	q.limit_name,
	q.ageing,
	q.owner,
	q.created,
	c.exact,
	c.totals_since
FROM jobq.queue q
	LEFT JOIN jobq.queue_counts() c ON c.queue_id = q.id
	LEFT JOIN jobq.queue d ON d.id = q.dead_letter_queue
WHERE jobq.may_see(q.id);

-- The ring of history tables as one; part is the table's place in the ring, 32 the one for what is kept long.
DO $do$
BEGIN
	EXECUTE (
		SELECT 'CREATE VIEW jobq.history AS ' || string_agg(
			format('SELECT %s AS part, h.* FROM jobq.%I h', n, 'history_' || CASE n WHEN 32 THEN 'far' ELSE n::text END),
			' UNION ALL ' ORDER BY n)
		FROM generate_series(0, 32) n);
END
$do$;

-- Every job with all there is to say of it: what jobs is made of; job() says the same of one (src/jobinfo.c). Each arm finds one job by index,
-- but for lease, which has few rows; a query that does not ask for the failures does not read them.
CREATE VIEW jobq.job_full AS
SELECT u.job_id, q.name AS queue, u.state, u.name, u.priority, u.group_key, u.attempt, u.max_attempts, u.run_at, u.lease_until, u.worker,
	u.progress, u.last_error, u.created, u.started, u.finished, u.payload, u.headers, u.result, u.failures, u.deadline, u.reason,
	u.cancel_requested, u.queue_id, u.unique_key, u.expires
FROM (
	-- never taken yet: no attempt, so no failure
	SELECT j.id AS job_id, j.queue_id, 'ready'::text AS state, j.name, j.priority::int AS priority, j.group_key, r.attempt, j.max_attempts,
		NULL::timestamptz AS run_at, NULL::timestamptz AS lease_until, NULL::text AS worker, NULL::jsonb AS progress,
		NULL::text AS last_error, j.created, NULL::timestamptz AS started, NULL::timestamptz AS finished, j.payload, j.headers,
		NULL::jsonb AS result, '[]'::jsonb AS failures, NULL::timestamptz AS deadline, NULL::text AS reason, false AS cancel_requested,
		j.unique_key, j.expires
	FROM jobq.job j
		JOIN jobq.ready r ON r.queue_id = j.queue_id AND r.lane = 1 AND r.priority = j.priority AND r.seq = j.id
	UNION ALL
	SELECT j.id, j.queue_id, 'ready', j.name, j.priority::int, j.group_key, r.attempt, j.max_attempts,
		NULL, NULL, NULL, NULL,
		(SELECT f.error FROM jobq.failure f WHERE f.job_id = j.id ORDER BY f.attempt DESC LIMIT 1), j.created, NULL, NULL, j.payload, j.headers,
		NULL, (SELECT jsonb_agg(jsonb_build_object('attempt', f.attempt, 'at', f.at, 'error', f.error) ORDER BY f.attempt)
			FROM jobq.failure f WHERE f.job_id = j.id), NULL, NULL, false, j.unique_key, j.expires
	FROM jobq.job j
		JOIN jobq.ready r ON r.job_id = j.id AND r.lane = 0
	UNION ALL
	-- in its group's line, whatever the group waits for
	SELECT j.id, j.queue_id, 'ready', j.name, j.priority::int, j.group_key, n.attempt, j.max_attempts,
		NULL, NULL, NULL, NULL,
		(SELECT f.error FROM jobq.failure f WHERE f.job_id = j.id ORDER BY f.attempt DESC LIMIT 1), j.created, NULL, NULL, j.payload, j.headers,
		NULL, (SELECT jsonb_agg(jsonb_build_object('attempt', f.attempt, 'at', f.at, 'error', f.error) ORDER BY f.attempt)
			FROM jobq.failure f WHERE f.job_id = j.id), NULL, NULL, false, j.unique_key, j.expires
	FROM jobq.job j
		JOIN jobq.line n ON n.job_id = j.id
	UNION ALL
	-- about to stand in one; every attempt that counted has left a failure
	SELECT j.id, j.queue_id, 'ready', j.name, j.priority::int, j.group_key,
		greatest((SELECT max(f.attempt) FROM jobq.failure f WHERE f.job_id = j.id), 0), j.max_attempts,
		NULL, NULL, NULL, NULL,
		(SELECT f.error FROM jobq.failure f WHERE f.job_id = j.id ORDER BY f.attempt DESC LIMIT 1), j.created, NULL, NULL, j.payload, j.headers,
		NULL, (SELECT jsonb_agg(jsonb_build_object('attempt', f.attempt, 'at', f.at, 'error', f.error) ORDER BY f.attempt)
			FROM jobq.failure f WHERE f.job_id = j.id), NULL, NULL, false, j.unique_key, j.expires
	FROM jobq.joining() g (job_id)
		JOIN jobq.job j ON j.id = g.job_id
	UNION ALL
	SELECT j.id, j.queue_id, 'delayed', j.name, j.priority::int, j.group_key, d.attempt, j.max_attempts,
		d.visible_at, NULL, NULL, NULL,
		(SELECT f.error FROM jobq.failure f WHERE f.job_id = j.id ORDER BY f.attempt DESC LIMIT 1), j.created, NULL, NULL, j.payload, j.headers,
		NULL, (SELECT jsonb_agg(jsonb_build_object('attempt', f.attempt, 'at', f.at, 'error', f.error) ORDER BY f.attempt)
			FROM jobq.failure f WHERE f.job_id = j.id), NULL, NULL, false, j.unique_key, j.expires
	FROM jobq.job j
		JOIN jobq.delayed d ON d.job_id = j.id
	WHERE d.visible_at < 'infinity'
	UNION ALL
	-- an arm of its own, so that a query for one state does not read the tickets of the other
	SELECT j.id, j.queue_id, 'pending', j.name, j.priority::int, j.group_key, d.attempt, j.max_attempts,
		j.run_at, NULL, NULL, NULL,
		(SELECT f.error FROM jobq.failure f WHERE f.job_id = j.id ORDER BY f.attempt DESC LIMIT 1), j.created, NULL, NULL, j.payload, j.headers,
		NULL, (SELECT jsonb_agg(jsonb_build_object('attempt', f.attempt, 'at', f.at, 'error', f.error) ORDER BY f.attempt)
			FROM jobq.failure f WHERE f.job_id = j.id), NULL, NULL, false, j.unique_key, j.expires
	FROM jobq.job j
		JOIN jobq.delayed d ON d.job_id = j.id
	WHERE d.visible_at = 'infinity'
	UNION ALL
	-- a job that a lease lists is active while its row exists
	SELECT j.id, j.queue_id, 'active', j.name, j.priority::int, j.group_key, l.attempts[array_position(l.job_ids, j.id)], j.max_attempts,
		NULL, l.lease_until, l.worker, l.progress -> j.id::text,
		(SELECT f.error FROM jobq.failure f WHERE f.job_id = j.id ORDER BY f.attempt DESC LIMIT 1), j.created, l.started, NULL, j.payload, j.headers,
		NULL, (SELECT jsonb_agg(jsonb_build_object('attempt', f.attempt, 'at', f.at, 'error', f.error) ORDER BY f.attempt)
			FROM jobq.failure f WHERE f.job_id = j.id), nullif(l.deadline, 'infinity'), NULL,
		l.cancel >> (array_position(l.job_ids, j.id) - 1) & 1 = 1, j.unique_key, j.expires
	FROM jobq.lease l
		JOIN jobq.job j ON j.id = ANY (l.job_ids)
	UNION ALL
	-- a join, so that asking for a live state does not read the history
	SELECT h.id, h.queue_id, s.state, h.name, h.priority::int, h.group_key, h.attempt, h.max_attempts,
		NULL, NULL, h.worker, h.progress,
		h.failures -> -1 ->> 'error', h.created, h.started, h.finished, h.payload, h.headers,
		h.result, h.failures, NULL, NULL, false, h.unique_key, NULL
	FROM jobq.history h
		JOIN (VALUES ('c'::"char", 'completed'::text), ('x', 'cancelled'), ('e', 'expired')) s (code, state) ON s.code = h.state
	UNION ALL
	SELECT d.id, d.queue_id, 'dead', d.name, d.priority::int, d.group_key, d.attempt, d.max_attempts,
		NULL, NULL, NULL, NULL,
		d.last_error, d.created, NULL, d.died, d.payload, d.headers,
		NULL, d.failures, NULL, d.reason, false, d.unique_key, NULL
	FROM jobq.dead d
) u
	LEFT JOIN jobq.queue q ON q.id = u.queue_id;

CREATE VIEW jobq.jobs WITH (security_barrier) AS
SELECT j.job_id, j.queue, j.state, j.name, j.priority, j.group_key, j.attempt, j.max_attempts, j.run_at, j.lease_until, j.worker, j.progress,
	j.last_error, j.created, j.started, j.finished, j.payload, j.headers, j.result, j.unique_key, j.expires
FROM jobq.job_full j
WHERE jobq.may_read(j.queue_id);

-- A row that says how one ended is kept where the job runs all the same, or, in upper case, waits all the same: it may have been redriven.
CREATE VIEW jobq.dependencies WITH (security_barrier) AS
SELECT d.job_id,
	q.name AS queue,
	d.on_job,
	CASE
		WHEN d.on_job = d.job_id THEN 'open'
		WHEN d.ended IS NULL THEN 'waiting'
		WHEN d.ended IN ('D', 'X', 'E', 'R') AND EXISTS (SELECT FROM jobq.job o WHERE o.id = d.on_job) THEN 'waiting'
		WHEN d.ended IN ('d', 'D') THEN 'dead'
		WHEN d.ended IN ('x', 'X') THEN 'cancelled'
		WHEN d.ended IN ('e', 'E') THEN 'expired'
		ELSE 'removed'
	END AS state,
	d.ended IS NULL OR d.ended IN ('D', 'X', 'E', 'R') AS waits
FROM jobq.dependency d
	JOIN jobq.job j ON j.id = d.job_id
	LEFT JOIN jobq.queue q ON q.id = j.queue_id
WHERE jobq.may_read(j.queue_id);

CREATE VIEW jobq.workers WITH (security_barrier) AS
SELECT l.worker,
	q.name AS queue,
	count(*) AS leases,
	sum(l.jobs) AS jobs,
	min(l.started) AS oldest_started,
	min(l.lease_until) AS lease_until,
	count(*) FILTER (WHERE l.lease_until < clock_timestamp()) AS expired,
	count(*) FILTER (WHERE l.drain) AS draining
FROM jobq.lease_counts() l
	LEFT JOIN jobq.queue q ON q.id = l.queue_id
WHERE l.jobs > 0
GROUP BY l.worker, q.name;

CREATE VIEW jobq.dead_letters WITH (security_barrier) AS
SELECT d.id AS job_id,
	q.name AS queue,
	d.name,
	d.reason,
	d.last_error,
	d.attempt,
	d.max_attempts,
	d.priority::int AS priority,
	d.payload,
	d.headers,
	d.created,
	d.died,
	d.failures,
	d.group_key
FROM jobq.dead d
	LEFT JOIN jobq.queue q ON q.id = d.queue_id
WHERE jobq.may_read(d.queue_id);

-- A group's state is the table that holds its ticket. A group is found by its key on indexes, but for lease, which has few rows. Idle
-- groups have no row anywhere; those that have settings are shown all the same.
-- A barrier does not hold for a view that is a UNION itself: hence the one around it.
CREATE VIEW jobq.groups WITH (security_barrier) AS
SELECT u.queue, u.group_key, u.state, u.pending, u.holder, u.token, u.lease_until, u.wake_at, u.blocked_reason
FROM (
	SELECT q.id AS queue_id,
		q.name AS queue,
		g.group_key,
		CASE
			WHEN l.drain THEN 'MIGRATING'
			WHEN l.token IS NOT NULL THEN 'LEASED'
			WHEN h.group_id IS NOT NULL THEN 'BLOCKED'
			WHEN d.group_id IS NOT NULL THEN 'WAIT'
			ELSE 'READY'
		END AS state,
		(SELECT count(*) FROM jobq.line n WHERE n.group_id = g.id)
			+ (SELECT count(*) FROM jobq.job j WHERE j.id = ANY (l.job_ids)) AS pending,
		l.worker AS holder,
		l.token,
		l.lease_until,
		d.visible_at AS wake_at,
		nullif(concat_ws('; ',
			CASE WHEN h.reason = 'blocked' THEN format('dead job %s: %s', h.dead_job,
				coalesce((SELECT x.reason FROM jobq.dead x WHERE x.id = h.dead_job), 'no dead letter any more')) END,
			CASE WHEN s.paused OR h.reason = 'paused' THEN 'paused' END), '') AS blocked_reason
	FROM jobq.queue q
		JOIN jobq.job_group g ON g.queue_id = q.id
		LEFT JOIN jobq.lease l ON l.group_id = g.id
		LEFT JOIN jobq.held h ON h.group_id = g.id
		LEFT JOIN jobq.delayed d ON d.job_id = g.id AND d.group_id = g.id
		LEFT JOIN jobq.group_setting s ON s.queue_id = g.queue_id AND s.group_key = g.group_key
	UNION ALL
	SELECT q.id, q.name, s.group_key, 'IDLE', 0::bigint, NULL, NULL::bigint, NULL::timestamptz, NULL::timestamptz, CASE WHEN s.paused THEN 'paused' END
	FROM jobq.queue q
		JOIN jobq.group_setting s ON s.queue_id = q.id
	WHERE NOT EXISTS (SELECT FROM jobq.job_group g WHERE g.queue_id = s.queue_id AND g.group_key = s.group_key)
) u
WHERE jobq.may_read(u.queue_id);
