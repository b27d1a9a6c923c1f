-- Handlers: functions in this database that run the jobs of a queue. Roles and functions by their names, so that a dump can be
-- restored in any order.
CREATE TABLE jobq.handler (
	queue_id    int NOT NULL,
	name        text COLLATE "C" NOT NULL,
	handler     text NOT NULL,
	role        text NOT NULL,
	search_path text NOT NULL,
	concurrency int NOT NULL,
	timeout     interval NOT NULL,
	PRIMARY KEY (queue_id, name)
);
COMMENT ON TABLE jobq.handler IS 'One row per function that runs the jobs of a name in a queue; name *: those of all other names, and of none.';
SELECT pg_catalog.pg_extension_config_dump('jobq.handler', '');

-- Not dumped: a restored database runs its handlers as soon as it is adopted.
CREATE TABLE jobq.stopped (
	at       timestamptz NOT NULL,
	only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one)
);
COMMENT ON TABLE jobq.stopped IS 'Has a row while the handlers of this database are stopped, by stop().';

CREATE FUNCTION jobq.handlers_changed()
	RETURNS trigger LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_handlers_changed';
DO $do$
DECLARE
	obj text;
BEGIN
	FOREACH obj IN ARRAY ARRAY['queue', 'handler', 'stopped', 'origin', 'identity'] LOOP
		EXECUTE pg_catalog.format('CREATE TRIGGER handlers_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON jobq.%I
			FOR EACH STATEMENT EXECUTE FUNCTION jobq.handlers_changed()', obj);
		EXECUTE pg_catalog.format('ALTER TABLE jobq.%I ENABLE ALWAYS TRIGGER handlers_changed', obj);
	END LOOP;
	EXECUTE 'CREATE TRIGGER settings_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON jobq.handler
		FOR EACH STATEMENT EXECUTE FUNCTION jobq.settings_changed()';
	EXECUTE 'ALTER TABLE jobq.handler ENABLE ALWAYS TRIGGER settings_changed';
END
$do$;

-- What a handler may take as its argument: a row as dequeue() returns it.
CREATE TYPE jobq.delivery AS (
	job_id       bigint,
	token        bigint,
	name         text,
	payload      jsonb,
	headers      jsonb,
	priority     int,
	attempt      int,
	max_attempts int,
	group_key    text,
	enqueued_at  timestamptz,
	lease_until  timestamptz,
	deadline     timestamptz
);
COMMENT ON TYPE jobq.delivery IS 'A job as a handler gets it; the columns are those of dequeue().';

CREATE FUNCTION jobq.set_handler(queue text, handler text, name text DEFAULT '*', concurrency int DEFAULT 1,
	timeout interval DEFAULT '30 s')
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_set_handler';
CREATE FUNCTION jobq.drop_handler(queue text, name text DEFAULT '*')
	RETURNS boolean LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_drop_handler';
CREATE FUNCTION jobq.stop(timeout interval DEFAULT '30 s')
	RETURNS int LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_stop';
CREATE FUNCTION jobq.start()
	RETURNS boolean LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_start';

CREATE VIEW jobq.handlers WITH (security_barrier) AS
	SELECT q.name AS queue, h.name, h.handler, h.role, h.concurrency, h.timeout, h.search_path,
		pg_catalog.to_regprocedure(h.handler) IS NOT NULL
			AND EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = h.role) AS usable
	FROM jobq.handler h JOIN jobq.queue q ON q.id = h.queue_id
	WHERE jobq.may_read(q.id);
COMMENT ON VIEW jobq.handlers IS 'Functions that run jobs: queue, name of the jobs (* all others), handler, role it runs as, concurrency, timeout, search_path; usable: function and role exist.';
