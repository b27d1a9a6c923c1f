-- Milliseconds for the first and for the second :n dequeues of one transaction.
CREATE FUNCTION claims(n int, OUT first numeric, OUT second numeric) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
	middle timestamptz;
	taken bigint := 0;
	got bigint;
BEGIN
	FOR i IN 1 .. 2 * n LOOP
		IF i = n + 1 THEN
			middle := clock_timestamp();
		END IF;
		SELECT count(*) INTO got FROM jobq.dequeue('q');
		taken := taken + got;
	END LOOP;
	first := round(1000 * extract(epoch FROM middle - began), 1);
	second := round(1000 * extract(epoch FROM clock_timestamp() - middle), 1);
	IF taken <> 2 * n THEN
		RAISE EXCEPTION 'only % of % claims gave a job', taken, 2 * n;
	END IF;
END
$$;
SELECT * FROM claims(:n);
