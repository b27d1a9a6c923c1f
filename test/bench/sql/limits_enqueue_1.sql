-- :unique is 1 or 0: with a unique key of its own, or without.
\set k random(1, 1000000000000000)
SELECT jobq.enqueue('q', '{"to":"alice@example.com","subject":"Welcome to the service","template":"welcome","vars":{"name":"Alice","plan":"pro","url":"https://example.com/confirm/abcdef0123456789"},"attempt":1}',
	unique_key => CASE WHEN :unique = 1 THEN 'order ' || :k END);
