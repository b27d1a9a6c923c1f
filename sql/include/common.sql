-- What the regression tests share. A test reads it with \i; the lines for that stand at its head.

-- What a statement comes to: its result, or SQLSTATE, message, detail and hint.
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement INTO result;
	RETURN coalesce(nullif(result, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	-- ids differ from run to run
	RETURN concat_ws(' | ', SQLSTATE || ' ' || regexp_replace(message, '(job|batch) -?\d+', '\1 N', 'g'), nullif(detail, ''), nullif(hint, ''));
END
$$;
-- Asks until the answer is true, for half a minute at most.
CREATE PROCEDURE becomes_true(question text) LANGUAGE plpgsql AS $$
DECLARE
	answer boolean;
	until timestamptz := clock_timestamp() + interval '30 s';
BEGIN
	LOOP
		EXECUTE question INTO answer;
		EXIT WHEN answer;
		IF clock_timestamp() > until THEN
			RAISE EXCEPTION 'never came true: %', question;
		END IF;
		COMMIT;
		PERFORM pg_sleep(0.005);
	END LOOP;
END
$$;
