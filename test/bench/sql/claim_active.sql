SELECT count(*) FROM jobq.dequeue('q', 1000, lease => '1 day');
