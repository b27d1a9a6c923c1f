SELECT count(*) FROM jobq.enqueue_many('q', (SELECT list FROM payloads WHERE n = 1000));
