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
				WHEN 'ready' THEN 'ready: waits for a worker to take it'
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
			CASE WHEN j.state IN ('ready', 'delayed') THEN nullif(concat_ws('; ',
				CASE WHEN q.paused THEN format('queue "%s" is paused: resume_queue() lets it run', q.name) END,
				CASE WHEN current_setting('jobq.enabled', true) = 'off' THEN 'jobq.enabled is off: nothing runs on this server' END,
				CASE WHEN NOT EXISTS (
						SELECT FROM jobq.identity i JOIN jobq.origin o ON o.id = i.id JOIN pg_database d ON d.oid = i.db_oid
						WHERE d.datname = current_database())
					THEN 'this database is a copy: nothing runs in it until adopt()' END,
				CASE WHEN j.group_key IS NOT NULL AND j.state = 'delayed' THEN format('joins group "%s" then', j.group_key) END,
				CASE WHEN j.group_key IS NOT NULL AND j.state = 'ready' THEN nullif(coalesce((
					SELECT concat_ws('; ',
						(SELECT format('behind job %s of its group "%s"', p.job_id, j.group_key)
						FROM jobq.line p WHERE p.group_id = n.group_id AND p.ord < n.ord ORDER BY p.ord DESC LIMIT 1),
						CASE g.state
							WHEN 'BLOCKED' THEN CASE g.blocked_reason
								WHEN 'paused' THEN format('its group "%s" is paused: resume_group() lets it go on', j.group_key)
								ELSE format('its group "%s" is blocked by %s: unblock_group() lets it go on', j.group_key, g.blocked_reason) END
							WHEN 'WAIT' THEN format(CASE WHEN EXISTS (SELECT FROM jobq.group_rate r WHERE r.queue_id = j.queue_id
										AND r.group_key = j.group_key AND r.next_at = g.wake_at)
									THEN 'its group "%s" waits for its rate until %s'
									ELSE 'its group "%s" waits with its first job until %s' END, j.group_key, g.wake_at)
							WHEN 'LEASED' THEN format('its group "%s" is worked on by %s until %s', j.group_key,
								coalesce('worker "' || g.holder || '"', 'a worker without a name'), g.lease_until)
							WHEN 'MIGRATING' THEN format('its group "%s" is being handed over by %s', j.group_key,
								coalesce('worker "' || g.holder || '"', 'a worker without a name'))
						END)
					FROM jobq.line n
						JOIN jobq.groups g ON g.queue = j.queue AND g.group_key = j.group_key
					WHERE n.job_id = j.job_id LIMIT 1), 'joins its group at commit'), '') END,
				CASE WHEN j.state = 'ready' THEN (
					SELECT format('queue "%s" has %s ready and %s active jobs', q.name, c.ready, c.active)
					FROM jobq.queue_counts() c WHERE c.queue_id = j.queue_id) END), '')
			END)
		FROM jobq.job_full j
			LEFT JOIN jobq.queue q ON q.id = j.queue_id
		WHERE j.job_id = $1
		LIMIT 1),
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
