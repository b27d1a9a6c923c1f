-- Every twentieth job fails its first attempt, so 105 are taken for 100 that come.
SELECT count(*) FROM jobq.enqueue_many('q', (SELECT list FROM payloads WHERE n = 100));
SELECT coalesce(array_agg(job_id) FILTER (WHERE NOT bad), '{}') AS ids, coalesce(array_agg(token) FILTER (WHERE NOT bad), '{}') AS tokens, coalesce(array_agg(job_id) FILTER (WHERE bad), '{}') AS bad_ids, coalesce(array_agg(token) FILTER (WHERE bad), '{}') AS bad_tokens FROM (SELECT job_id, token, attempt = 1 AND job_id % 20 = 0 AS bad FROM jobq.dequeue('q', 105)) AS taken \gset
SELECT count(*) FROM jobq.complete_many(:ids::bigint[], :tokens::bigint[]);
SELECT count(*) FROM jobq.fail_many(:bad_ids::bigint[], :bad_tokens::bigint[], 'failed on purpose');
