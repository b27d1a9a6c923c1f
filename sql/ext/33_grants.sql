-- Who may do what with which queue. Roles by their names, so that a dump can be restored in any order.
CREATE TABLE jobq.queue_acl (
	queue_id   int NOT NULL,
	role       text COLLATE "C" NOT NULL,
	privileges text[] NOT NULL,
	grantor    text NOT NULL,
	PRIMARY KEY (queue_id, role)
);
COMMENT ON TABLE jobq.queue_acl IS 'One row per queue and role that grant_queue() was called for; role public: everybody. A name that no role has gives nothing.';
SELECT pg_catalog.pg_extension_config_dump('jobq.queue_acl', '');
CREATE TRIGGER settings_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON jobq.queue_acl
	FOR EACH STATEMENT EXECUTE FUNCTION jobq.settings_changed();
ALTER TABLE jobq.queue_acl ENABLE ALWAYS TRIGGER settings_changed;
REVOKE ALL ON jobq.queue_acl FROM PUBLIC;

CREATE FUNCTION jobq.grant_queue(queue text, role text, privileges text[])
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_grant_queue';
CREATE FUNCTION jobq.revoke_queue(queue text, role text, privileges text[])
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_revoke_queue';

-- What the views show: they read with their owner's rights, and ask for those of the current user.
CREATE FUNCTION jobq.may_read(queue_id int)
	RETURNS boolean LANGUAGE C STABLE AS 'MODULE_PATHNAME', 'jobq_may_read';
CREATE FUNCTION jobq.may_see(queue_id int)
	RETURNS boolean LANGUAGE C STABLE AS 'MODULE_PATHNAME', 'jobq_may_see';

CREATE VIEW jobq.grants WITH (security_barrier) AS
	SELECT q.name AS queue, a.role, a.privileges, a.grantor,
		a.role = 'public' OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = a.role) AS usable
	FROM jobq.queue_acl a JOIN jobq.queue q ON q.id = a.queue_id
	WHERE jobq.may_read(q.id) OR jobq.may_see(q.id) AND a.role IN ('public', current_user);
COMMENT ON VIEW jobq.grants IS 'What grant_queue() gave: queue, role, privileges, grantor; usable: there is such a role. Who may only enqueue sees what is given to himself.';
