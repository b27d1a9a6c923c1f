-- What the tests of dependencies and batches share, on top of groups.sql. A payload names its job.
\ir groups.sql
\pset null -

-- Ids by name, for after.
CREATE FUNCTION ids(VARIADIC jobs text[]) RETURNS bigint[] LANGUAGE sql AS
	$$SELECT array_agg(id(j) ORDER BY n) FROM unnest(jobs) WITH ORDINALITY j (j, n)$$;
-- Every job and its state, in the order of their ids.
CREATE FUNCTION states(of text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(payload #>> '{}' || ' ' || state, ', ' ORDER BY job_id) FROM jobq.jobs WHERE of IS NULL OR queue = of
$$;
-- Who waits for whom, as the view says.
CREATE FUNCTION waits() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(format('%s for %s (%s)', j.payload #>> '{}', coalesce(o.payload #>> '{}', 'one that is gone'), d.state), ', ' ORDER BY d.job_id, d.on_job), 'nobody')
	FROM jobq.dependencies d JOIN jobq.jobs j USING (job_id) LEFT JOIN jobq.jobs o ON o.job_id = d.on_job
$$;
-- Several at once, by one call.
CREATE FUNCTION done_all(VARIADIC jobs text[]) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(DISTINCT s.status, ' ')
	FROM (SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM hand WHERE job = ANY (jobs)) h, jobq.complete_many(h.ids, h.tokens) s
$$;
CREATE VIEW pending AS SELECT queue, pending, ready, delayed, active, dead, completed_total AS completed, cancelled_total AS cancelled, expired_total AS expired
	FROM jobq.queues ORDER BY queue;
CREATE OR REPLACE FUNCTION explained(job text) RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(regexp_replace(regexp_replace(jobq.explain_job(job_id), '\d{4}-\d\d-\d\d [0-9:.+]+', 'TIME', 'g'), 'job \d+', 'job N', 'g'), '\(\d+\)', '(N)')
	FROM jobq.jobs WHERE payload = to_jsonb($1)$$;
