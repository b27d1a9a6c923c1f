-- Shows what jobq is doing, again and again, until Ctrl-C.
--
--	psql -d mydb -f sql/tools/jobq-top.sql
--	psql -d mydb -v every=5 -v rows=20 -v clear=0 -f sql/tools/jobq-top.sql
--
-- every: seconds between two looks (2); rows: queues and workers shown (10); clear: 0 leaves the screen alone (1).
-- Needs what pg_monitor may read. It keeps nothing in the session, so it works through any pooler. Rates are per second since somebody
-- last looked, half a second ago or more.
\set QUIET on
\if :{?every}
\else
	\set every 2
\endif
\if :{?rows}
\else
	\set rows 10
\endif
\if :{?clear}
\else
	\set clear 1
\endif
\pset pager off
\pset tuples_only on
\pset format unaligned
\pset null ''

WITH d AS MATERIALIZED (
	SELECT * FROM jobq.database_metrics()
), q AS MATERIALIZED (
	SELECT m.*, r.enqueued, r.completed, r.failed, r.seconds,
		row_number() OVER (ORDER BY m.active + m.ready DESC, m.dead DESC, m.queue) AS place, greatest(max(m.ready) OVER (), 1) AS most
	FROM jobq.queue_metrics() m
		LEFT JOIN jobq.queue_rates() r USING (queue)
), blocked AS MATERIALIZED (
	SELECT b.*, row_number() OVER (ORDER BY b.since) AS place FROM jobq.blocked_groups b
), running AS MATERIALIZED (
	SELECT j.job_id, j.queue, j.name, j.worker, j.attempt, j.max_attempts, j.started, row_number() OVER (ORDER BY j.started, j.job_id) AS place
	FROM jobq.jobs j WHERE j.state = 'active' ORDER BY j.started, j.job_id LIMIT 5
), w AS MATERIALIZED (
	SELECT w.*, row_number() OVER (ORDER BY w.jobs DESC, w.worker, w.queue) AS place, greatest(max(w.jobs) OVER (), 1) AS most FROM jobq.workers w
)
SELECT line FROM (
	SELECT 1 AS part, 0 AS n, CASE WHEN :'clear' = '1' THEN E'\033[H\033[2J' ELSE '' END
		|| format('jobq in %s at %s   scheduler %s   executors %s of %s [%s]   horizon %s%s%s%s', current_database(),
			to_char(clock_timestamp(), 'HH24:MI:SS'), CASE WHEN d.scheduler_running = 1 THEN 'runs' ELSE 'rests' END,
			d.executors_max - d.executors_free, d.executors_max,
			repeat('#', (d.executors_max - d.executors_free)::int) || repeat('.', d.executors_free::int),
			date_trunc('second', make_interval(secs => d.horizon_age_seconds)),
			CASE WHEN d.enabled = 0 THEN '   DISABLED' END, CASE WHEN d.adopted = 0 THEN '   A COPY: NOT ADOPTED' END,
			CASE WHEN d.handlers_stopped = 1 THEN '   HANDLERS STOPPED' END) AS line
	FROM d
	UNION ALL
	SELECT 2, 0, E'\n' || rpad('queue', 24) || lpad('ready', 10) || lpad('delayed', 10) || lpad('pending', 9) || lpad('active', 8) || lpad('dead', 8) || lpad('oldest', 12)
		|| lpad('in/s', 9) || lpad('done/s', 9) || lpad('fail/s', 9) || '  backlog'
	UNION ALL
	SELECT 2, q.place, rpad(q.queue || CASE WHEN q.paused = 1 THEN ' (paused)' ELSE '' END, 24) || lpad(q.ready::text, 10) || lpad(q.delayed::text, 10)
		|| lpad(q.pending::text, 9) || lpad(q.active::text, 8) || lpad(q.dead::text || CASE WHEN q.dead_alert = 1 THEN '!' ELSE '' END, 8)
		|| lpad(date_trunc('second', make_interval(secs => q.oldest_ready_age_seconds))::text, 12)
		|| lpad(coalesce(round(q.enqueued::numeric, 1)::text, '-'), 9) || lpad(coalesce(round(q.completed::numeric, 1)::text, '-'), 9)
		|| lpad(coalesce(round(q.failed::numeric, 1)::text, '-'), 9) || '  ' || repeat('#', ceil(20 * q.ready / q.most)::int)
	FROM q WHERE q.place <= :rows
	UNION ALL
	SELECT 2, q.n, format('... and %s more', q.n - :rows) FROM (SELECT count(*) AS n FROM q) q WHERE q.n > :rows
	UNION ALL
	SELECT 3, 0, format(E'\ngroups: %s ready, %s waiting, %s leased, %s migrating, %s blocked', sum(q.groups_ready), sum(q.groups_waiting),
			sum(q.groups_leased), sum(q.groups_migrating), sum(q.groups_blocked))
	FROM q HAVING sum(q.groups_ready + q.groups_waiting + q.groups_leased + q.groups_migrating + q.groups_blocked) > 0
	UNION ALL
	SELECT 3, b.place, format('  %s / %s: %s since %s', b.queue, left(b.group_key, 40),
		CASE b.reason WHEN 'blocked' THEN 'blocked by dead job ' || b.dead_job ELSE b.reason END, date_trunc('second', b.since))
	FROM blocked b WHERE b.place <= 5
	UNION ALL
	SELECT 4, 0, E'\n' || rpad('oldest running jobs', 36) || lpad('for', 12) || '  attempt   worker' FROM running HAVING count(*) > 0
	UNION ALL
	SELECT 4, r.place, rpad(format('%s %s %s', r.job_id, r.queue, r.name), 36)
		|| lpad(greatest(date_trunc('second', clock_timestamp() - r.started), '0')::text, 12)
		|| '  ' || rpad(format('%s of %s', r.attempt, r.max_attempts), 10) || coalesce(r.worker, '')
	FROM running r
	UNION ALL
	SELECT 5, 0, E'\n' || rpad('workers', 24) || rpad('queue', 24) || lpad('leases', 8) || lpad('jobs', 8) || lpad('expired', 9) || '  jobs'
	FROM w HAVING count(*) > 0
	UNION ALL
	SELECT 5, w.place, rpad(coalesce(w.worker, '(no name)'), 24) || rpad(w.queue, 24) || lpad(w.leases::text, 8) || lpad(w.jobs::text, 8)
		|| lpad(w.expired::text, 9) || '  ' || repeat('#', ceil(20.0 * w.jobs / w.most)::int)
	FROM w WHERE w.place <= :rows
) lines
ORDER BY part, n
\watch :every
