-- Last: from this transaction's commit on the launcher knows the database.
CREATE FUNCTION jobq.register_database()
	RETURNS void LANGUAGE C AS 'MODULE_PATHNAME', 'jobq_register_database';
COMMENT ON FUNCTION jobq.register_database() IS 'Internal: tells the launcher of this database. Called by CREATE EXTENSION.';
REVOKE ALL ON FUNCTION jobq.register_database() FROM PUBLIC;
SELECT jobq.register_database();
