SELECT coalesce(array_agg(job_id), '{}') AS ids, coalesce(array_agg(token), '{}') AS tokens FROM jobq.dequeue('q', 100) \gset
SELECT count(*) FROM jobq.complete_many(:ids::bigint[], :tokens::bigint[]);
