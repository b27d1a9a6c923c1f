SELECT job_id AS id, token FROM jobq.dequeue(:queue::text) \gset
SELECT jobq.complete(:id, :token);
