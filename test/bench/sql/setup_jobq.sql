-- :payload and :keep are psql variables. The arrays of payloads are made once, so that making them is not measured.
CREATE EXTENSION jobq;
SELECT jobq.create_queue('q', keep_completed => :'keep');
CREATE TABLE payloads (n int, list jsonb);
INSERT INTO payloads SELECT n, (SELECT jsonb_agg(:'payload'::jsonb) FROM generate_series(1, n)) FROM unnest('{100,1000}'::int[]) n;
