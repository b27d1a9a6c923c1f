-- Looking at one job, and the fence for data elsewhere.

-- In C: planning the view job_full for one job takes far longer than looking into its tables.
CREATE FUNCTION jobq.job(job_id bigint)
	RETURNS TABLE (job_id bigint, queue text, state text, name text, priority int, group_key text, attempt int, max_attempts int,
		run_at timestamptz, lease_until timestamptz, worker text, progress jsonb, last_error text, created timestamptz,
		started timestamptz, finished timestamptz, payload jsonb, headers jsonb, result jsonb, failures jsonb, deadline timestamptz,
		unique_key text, expires timestamptz)
	LANGUAGE C STABLE ROWS 1 AS 'MODULE_PATHNAME', 'jobq_job';
CREATE FUNCTION jobq.explain_job(job_id bigint)
	RETURNS text LANGUAGE C STABLE AS 'MODULE_PATHNAME', 'jobq_explain_job';

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
