-- id and token live from one transaction to the next; they begin as 0.
\if :id > 0
SELECT coalesce(max(job_id), 0) AS id, coalesce(max(token), 0) AS token FROM jobq.complete_and_dequeue(:id, :token, 'q') \gset
\else
SELECT coalesce(max(job_id), 0) AS id, coalesce(max(token), 0) AS token FROM jobq.dequeue('q') \gset
\endif
