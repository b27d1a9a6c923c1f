SELECT count(*) FROM jobq.dequeue('q');
