-- Looking at one job, and the fence for data elsewhere.

-- The settings keep each lookup on indexes, whatever the statistics say, and a 37-armed plan away from the JIT compiler.
CREATE FUNCTION jobq.job(job_id bigint)
	RETURNS TABLE (job_id bigint, queue text, state text, name text, priority int, group_key text, attempt int, max_attempts int,
		run_at timestamptz, lease_until timestamptz, worker text, progress jsonb, last_error text, created timestamptz,
		started timestamptz, finished timestamptz, payload jsonb, headers jsonb, result jsonb, failures jsonb, deadline timestamptz)
	LANGUAGE sql STABLE SECURITY DEFINER ROWS 1
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
BEGIN ATOMIC
	SELECT j.job_id, j.queue, j.state, j.name, j.priority, j.group_key, j.attempt, j.max_attempts, j.run_at, j.lease_until, j.worker,
		j.progress, j.last_error, j.created, j.started, j.finished, j.payload, j.headers, j.result, coalesce(j.failures, '[]'), j.deadline
	FROM jobq.job_full j
	WHERE j.job_id = $1;
END;

CREATE FUNCTION jobq.explain_job(job_id bigint)
	RETURNS text
	LANGUAGE sql STABLE SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off
	SET jit = off
BEGIN ATOMIC
	SELECT CASE WHEN $1 IS NOT NULL THEN coalesce((
		SELECT concat_ws('; ',
			CASE j.state
				WHEN 'completed' THEN format('completed at %s in attempt %s of %s', j.finished, j.attempt, j.max_attempts)
				WHEN 'cancelled' THEN format('cancelled at %s', j.finished)
				WHEN 'expired' THEN format('expired at %s: its time to live ran out', j.finished)
				WHEN 'dead' THEN format('dead since %s: %s, attempt %s of %s', j.finished, j.reason, j.attempt, j.max_attempts)
				WHEN 'active' THEN format('active: attempt %s of %s, %s since %s', j.attempt, j.max_attempts,
					coalesce('held by worker "' || j.worker || '"', 'held by a worker without a name'), j.started)
				WHEN 'delayed' THEN format(CASE WHEN j.run_at > clock_timestamp() THEN 'delayed until %s' ELSE 'delayed, due since %s' END, j.run_at)
				WHEN 'ready' THEN CASE
					WHEN j.group_key IS NULL OR g.previous IS NULL AND g.in_ready THEN 'ready: waits for a worker to take it'
					WHEN g.in_line THEN format('ready: waits for its turn in group "%s"', j.group_key)
					ELSE format('ready: joins its group "%s" at commit', j.group_key) END
			END,
			CASE
				WHEN j.state = 'active' AND j.lease_until >= clock_timestamp() THEN format('its lease ends at %s', j.lease_until)
				WHEN j.state = 'active' THEN format('its lease ended at %s and will be taken back unless the worker comes first', j.lease_until)
				WHEN j.state = 'delayed' AND j.attempt = 0 THEN 'not started yet'
				WHEN j.state IN ('ready', 'delayed') AND j.attempt > 0 THEN format('%s of %s attempts are used up', j.attempt, j.max_attempts)
			END,
			CASE WHEN j.cancel_requested THEN 'its cancellation is asked for' END,
			CASE WHEN j.last_error IS NOT NULL AND j.state <> 'completed' THEN 'last error: ' || left(j.last_error, 200) END,
			CASE WHEN j.state = 'dead' THEN 'redrive() runs it again' END,
			CASE WHEN j.state = 'delayed' AND j.group_key IS NOT NULL THEN format('joins group "%s" then', j.group_key) END,
			g.waits,
			CASE WHEN j.state IN ('ready', 'delayed') THEN nullif(concat_ws('; ',
				CASE WHEN q.paused THEN format('queue "%s" is paused: resume_queue() lets it run', q.name) END,
				CASE WHEN current_setting('jobq.enabled', true) = 'off' THEN 'jobq.enabled is off: nothing runs on this server' END,
				CASE WHEN NOT EXISTS (
						SELECT FROM jobq.identity i JOIN jobq.origin o ON o.id = i.id JOIN pg_database d ON d.oid = i.db_oid
						WHERE d.datname = current_database())
					THEN 'this database is a copy: nothing runs in it until adopt()' END,
				CASE WHEN j.state = 'ready' THEN (
					SELECT format('queue "%s" has %s ready and %s active jobs', q.name, c.ready, c.active)
					FROM jobq.queue_counts() c WHERE c.queue_id = j.queue_id) END), '')
			END)
		FROM (SELECT f.* FROM jobq.job_full f WHERE f.job_id = $1 LIMIT 1) j
			LEFT JOIN jobq.queue q ON q.id = j.queue_id
			-- where its group stands, as far as that is why it does not run
			LEFT JOIN LATERAL (
				SELECT t.in_line, t.in_ready, t.previous, nullif(concat_ws('; ',
					CASE WHEN t.previous IS NOT NULL THEN format('behind job %s of its group "%s"', t.previous, j.group_key) END,
					CASE
						WHEN j.state = 'dead' THEN CASE WHEN t.dead_job = j.job_id
							THEN format('it blocks its group "%s": unblock_group() lets it go on', j.group_key) END
						WHEN j.state = 'active' THEN CASE WHEN t.drain THEN 'its worker is asked to hand its group over' END
						WHEN t.dead_job IS NOT NULL
							THEN format('its group "%s" is blocked by dead job %s: unblock_group() lets it go on', j.group_key, t.dead_job)
						WHEN t.visible_at <= t.next_at THEN format('its group "%s" waits for its rate until %s', j.group_key, t.next_at)
						WHEN t.visible_at IS NOT NULL THEN format('its group "%s" waits until %s', j.group_key, t.visible_at)
							|| CASE WHEN t.head_attempt > 0 THEN format(': job %s is in backoff', t.head) ELSE '' END
						WHEN t.token IS NOT NULL THEN format(
							CASE WHEN t.drain THEN 'its group "%s" is being handed over by %s (token %s)'
								ELSE 'its group "%s" is worked on by %s (token %s)' END, j.group_key,
							coalesce('worker "' || t.worker || '"', 'a worker without a name'), t.token)
						WHEN t.in_ready THEN nullif(concat_ws('; ',
							CASE WHEN t.bulk THEN format('its group "%s" has more jobs than isolate_above and is served apart', j.group_key) END,
							CASE WHEN t.others > 100 THEN format('more than 100 groups are before its group "%s"', j.group_key)
								WHEN t.others > 0 THEN format('groups before its group "%s": %s', j.group_key, t.others) END), '')
					END,
					CASE WHEN t.paused AND j.state = 'ready' THEN format('its group "%s" is paused: resume_group() lets it go on', j.group_key) END), '') AS waits
				FROM (
					SELECT n.ord IS NOT NULL AS in_line, r.seq IS NOT NULL AS in_ready, r.lane = 3 AS bulk, l.token, l.worker, l.drain,
						h.dead_job, d.visible_at, h.reason IS NOT DISTINCT FROM 'paused' OR coalesce(s.paused, false) AS paused,
						f.job_id AS head, f.attempt AS head_attempt,
						(SELECT max(a.next_at) FROM jobq.group_rate a WHERE a.queue_id = j.queue_id AND a.group_key = j.group_key) AS next_at,
						-- the last unfinished one before it: in line, else under the lease
						coalesce(
							(SELECT p.job_id FROM jobq.line p WHERE p.group_id = i.id AND p.ord < n.ord ORDER BY p.ord DESC LIMIT 1),
							(SELECT u.job_id FROM unnest(l.job_ids) WITH ORDINALITY u (job_id, place) JOIN jobq.job x ON x.id = u.job_id
								WHERE n.ord IS NOT NULL OR u.place < array_position(l.job_ids, j.job_id) ORDER BY u.place DESC LIMIT 1)) AS previous,
						-- no more than that are counted
						(SELECT count(*) FROM (
							SELECT FROM jobq.ready o WHERE o.queue_id = r.queue_id AND o.lane = r.lane AND o.priority = r.priority AND o.seq < r.seq
							LIMIT 101) o) AS others
					FROM jobq.job_group i
						LEFT JOIN jobq.line n ON n.job_id = j.job_id
						LEFT JOIN LATERAL (SELECT c.job_id, c.attempt FROM jobq.line c WHERE c.group_id = i.id ORDER BY c.ord LIMIT 1) f ON true
						LEFT JOIN jobq.ready r ON r.job_id = i.id AND r.lane <> 1
						LEFT JOIN jobq.delayed d ON d.job_id = i.id AND d.group_id = i.id
						LEFT JOIN jobq.lease l ON l.group_id = i.id
						LEFT JOIN jobq.held h ON h.group_id = i.id
						LEFT JOIN jobq.group_setting s ON s.queue_id = i.queue_id AND s.group_key = i.group_key
					WHERE i.queue_id = j.queue_id AND i.group_key = j.group_key) t
				WHERE j.state IN ('active', 'dead') OR t.in_line) g ON true),
		format('job %s is not known: it never existed, or it ended and is no longer kept', $1)) END;
END;

-- The row's lock keeps two callers apart until the first has committed; the same token again writes nothing.
CREATE FUNCTION jobq.fence(resource text, token bigint)
	RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp
AS $fn$
DECLARE
	highest bigint;
BEGIN
	IF $1 IS NULL OR $2 IS NULL THEN
		RAISE EXCEPTION '% must not be null', CASE WHEN $1 IS NULL THEN 'resource' ELSE 'token' END
			USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF octet_length($1) NOT BETWEEN 1 AND 256 THEN
		RAISE EXCEPTION 'resource name has % bytes', octet_length($1)
			USING ERRCODE = 'invalid_parameter_value', DETAIL = 'A resource name has 1 to 256 bytes.';
	END IF;
	INSERT INTO jobq.resource_fence AS f (resource, token, at)
		VALUES ($1, $2, clock_timestamp())
		ON CONFLICT ON CONSTRAINT resource_fence_pkey DO UPDATE SET token = EXCLUDED.token, at = EXCLUDED.at
			WHERE f.token < EXCLUDED.token;
	IF NOT FOUND THEN
		SELECT f.token INTO STRICT highest FROM jobq.resource_fence f WHERE f.resource = $1;
		IF highest > $2 THEN
			RAISE EXCEPTION 'token % for resource "%" is stale: token % has been there', $2, $1, highest
				USING ERRCODE = 'JQ001', HINT = 'The job was taken over by another worker. Stop working on it and write nothing.';
		END IF;
	END IF;
END
$fn$;
