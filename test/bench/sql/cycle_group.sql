SELECT job_id AS id, token FROM jobq.dequeue('q') \gset
SELECT jobq.release(:id, :token);
