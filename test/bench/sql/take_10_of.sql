SELECT array_agg(job_id) AS ids, array_agg(token) AS tokens FROM jobq.dequeue(:queue::text, 10, group_batch => 10) \gset
SELECT count(*) FROM jobq.complete_many(:ids::bigint[], :tokens::bigint[]);
