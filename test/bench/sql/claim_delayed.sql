SELECT count(*) FROM jobq.enqueue_many('q', (SELECT list FROM payloads WHERE n = 1000), priority => 1, delay => '1 day');
