\set g random(1, 100000)
SELECT jobq.enqueue('q', '{"to":"alice@example.com","subject":"Welcome to the service","template":"welcome","vars":{"name":"Alice","plan":"pro","url":"https://example.com/confirm/abcdef0123456789"},"attempt":1}', group_key => 'group ' || :g);
