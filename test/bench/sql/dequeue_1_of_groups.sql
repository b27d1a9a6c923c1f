SELECT count(*) FROM jobq.dequeue('groups');
