SELECT count(*) AS n, coalesce(max(job_id), 0) AS id, coalesce(max(token), 0) AS token FROM jobq.dequeue(:queue::text) \gset
\if :n
SELECT jobq.complete(:id, :token);
\endif
