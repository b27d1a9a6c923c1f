-- One of the queues q1, q2, ...; their number is :queues.
\set n random(1, :queues)
SELECT jobq.enqueue('q' || :n::text, '{"to":"alice@example.com","subject":"Welcome to the service","template":"welcome","vars":{"name":"Alice","plan":"pro","url":"https://example.com/confirm/abcdef0123456789"},"attempt":1}');
SELECT coalesce(max(job_id), 0) AS id, coalesce(max(token), 0) AS token FROM jobq.dequeue('q' || :n::text) \gset
\if :id > 0
SELECT jobq.complete(:id, :token);
\endif
