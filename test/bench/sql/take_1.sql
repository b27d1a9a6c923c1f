SELECT coalesce(max(job_id), 0) AS id, coalesce(max(token), 0) AS token FROM jobq.dequeue('q') \gset
\if :id > 0
SELECT jobq.complete(:id, :token);
\endif
