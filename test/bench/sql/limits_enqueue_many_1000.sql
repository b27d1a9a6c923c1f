-- :unique as in limits_enqueue_1.sql. The keys are made in any case, so that this is no part of the difference. Two priorities, so that
-- ageing has something to decide.
\set k random(1, 1000000000000)
\set p random(1, 2)
WITH keys AS MATERIALIZED (SELECT ARRAY(SELECT 'order ' || (:k::bigint * 1000 + i) FROM generate_series(1, 1000) i) AS a)
SELECT count(*) FROM keys, jobq.enqueue_many('q', (SELECT list FROM payloads WHERE n = 1000), priority => 1000 + :p::int,
	unique_keys => CASE WHEN :unique = 1 THEN a END) WHERE cardinality(a) = 1000;
