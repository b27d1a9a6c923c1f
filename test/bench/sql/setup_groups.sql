-- Jobs of many groups, :jobs in all, in :groups groups by turns, in one queue of the name :queue.
SELECT jobq.create_queue(:'queue', keep_completed => '0');
SELECT count(*) FROM jobq.enqueue_many(:'queue', (SELECT jsonb_agg(list -> 0) FROM payloads, generate_series(1, :jobs) WHERE n = 100),
	group_keys => ARRAY(SELECT 'group ' || i % :groups FROM generate_series(1, :jobs) i));
