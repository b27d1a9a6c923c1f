-- Rights. PUBLIC may do nothing; the owner and superusers use the functions, pg_monitor reads the views. payload, headers and result
-- are among what it reads. All others are given what they need by grant_queue() (src/grant.c has the list) and create_queue().

-- Whoever owns the schema may drop what is in it and put functions of the same names beside ours.
DO $do$
DECLARE
	schema_owner name;
BEGIN
	SELECT r.rolname INTO schema_owner
		FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
		WHERE n.nspname = 'jobq' AND NOT r.rolsuper AND r.rolname <> current_user;
	IF FOUND THEN
		RAISE EXCEPTION 'schema "jobq" belongs to role "%", who is no superuser', schema_owner
			USING ERRCODE = 'insufficient_privilege', HINT = 'Drop the schema or give it to a superuser, then create the extension again.';
	END IF;
END
$do$;

REVOKE ALL ON SCHEMA jobq FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA jobq FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA jobq FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA jobq FROM PUBLIC;

GRANT USAGE ON SCHEMA jobq TO pg_monitor;
GRANT SELECT ON jobq.queues, jobq.jobs, jobq.dependencies, jobq.groups, jobq.handlers, jobq.workers, jobq.dead_letters, jobq.schedules,
	jobq.schedule_runs, jobq.grants TO pg_monitor;
GRANT SELECT ON jobq.blocked_groups TO pg_monitor;
GRANT EXECUTE ON FUNCTION jobq.metrics, jobq.queue_metrics, jobq.database_metrics, jobq.queue_rates TO pg_monitor;
GRANT EXECUTE ON FUNCTION jobq.queue_counts, jobq.lease_counts, jobq.joining, jobq.events, jobq.may_read, jobq.may_see TO pg_monitor;
