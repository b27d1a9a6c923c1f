# What happens by itself at its time: due jobs, expired leases, rolled back claims, trimming, recounts, rescans, NOTIFY.
use strict;
use warnings;

use Jobq;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('timing', conf => "jobq.scheduler_idle_timeout = 2\nmax_prepared_transactions = 10\n");

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

# The query comes true.
sub becomes
{
	my ($query, $name) = @_;
	ok(poll_until($name, $query, node => $node, limit => 30), $name);
}

# Waits in one session until a job is in ready; prints how late that was, in ms.
sql(q{
	CREATE PROCEDURE lateness(id bigint, due timestamptz, OUT ms float8) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 50000 LOOP
			EXIT WHEN EXISTS (SELECT FROM jobq.ready r WHERE r.job_id = id);
			PERFORM pg_sleep(0.0002);
		END LOOP;
		ms := extract(epoch FROM clock_timestamp() - due) * 1000;
	END $$;
});

# Best of a few: the machine may be busy, the scheduler is not.
sub best_lateness
{
	my ($make) = @_;
	my $best;
	for (1 .. 5)
	{
		my ($id, $due) = split /\|/, sql($make);
		my $ms = sql("CALL lateness($id, '$due', NULL)");
		$best = $ms if !defined $best || $ms < $best;
		cmp_ok($ms, '>=', 0, 'not early');
	}
	return $best;
}

subtest 'due jobs and expired leases act within milliseconds' => sub {
	sql(q{SELECT jobq.create_queue('q', max_attempts => 100)});
	my $ms = best_lateness(q{WITH d AS (SELECT clock_timestamp() + interval '150 ms' AS due)
		SELECT jobq.enqueue('q', run_at => due), due FROM d});
	cmp_ok($ms, '<', 100, "a delayed job becomes ready in time (best: $ms ms)");
	sql(q{SELECT jobq.purge_queue('q')});

	$ms = best_lateness(q{SELECT jobq.enqueue('q') \gset
		SELECT job_id, lease_until FROM jobq.dequeue('q', lease => '150 ms')});
	cmp_ok($ms, '<', 100, "an expired lease comes back in time (best: $ms ms)");
	is(sql(q{SELECT expired_leases_total, retried_total, failed_total FROM jobq.queue_counts()}), '5|5|5', 'each counted once');
	sql(q{SELECT jobq.purge_queue('q')});

	# the retry's backoff
	sql(q{SELECT jobq.create_queue('retry', backoff => 'fixed', backoff_base => '200 ms')});
	$ms = best_lateness(q{SELECT jobq.purge_queue('retry') \gset
		SELECT jobq.enqueue('retry') AS id \gset
		SELECT jobq.fail(job_id, token, 'once') FROM jobq.dequeue('retry') \gset
		SELECT job_id, visible_at FROM jobq.delayed WHERE job_id = :id});
	cmp_ok($ms, '<', 100, "a backoff ends in time (best: $ms ms)");
	sql(q{SELECT jobq.purge_queue('retry')});
};

subtest 'many due at once' => sub {
	sql(q{SELECT jobq.create_queue('many')});
	sql(q{SELECT count(*) FROM jobq.enqueue_many('many', (SELECT jsonb_agg(g) FROM generate_series(1, 3000) g), run_at => now() + interval '1 s')});
	is(sql(q{SELECT delayed FROM jobq.queue_counts() WHERE delayed > 0}), '3000', 'counted as delayed');
	becomes(q{SELECT ready = 3000 AND delayed = 0 FROM jobq.queue_counts() c JOIN jobq.queue q ON q.id = c.queue_id WHERE q.name = 'many'},
		'3,000 jobs of one moment become ready');
	is( sql(q{SELECT bool_and(job_id > before) FROM (SELECT job_id, lag(job_id, 1, 0::bigint) OVER (ORDER BY seq) AS before FROM jobq.ready
			WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'many')) x}),
		't', 'in the order of their ids');
	is(sql(q{SELECT count(*) FROM jobq.dequeue('many', 3000)}), '3000', 'and all can be taken');
	sql(q{SELECT jobq.enqueue('many', delay => '300 ms', priority => g) FROM generate_series(1, 20) g});
	becomes(q{SELECT count(*) = 20 FROM jobq.ready}, 'all of them become ready');
	is( sql(q{SELECT string_agg(priority::text, ',' ORDER BY ord) FROM (SELECT priority, row_number() OVER () AS ord FROM jobq.dequeue('many', 20)) x}),
		join(',', 1 .. 20), 'and go out by priority');
	sql(q{SELECT jobq.drop_queue('many', force => true)});
};

subtest 'a lease in use is not ended, one that nobody finishes is' => sub {
	sql(q{SELECT jobq.create_queue('busy', max_attempts => 2)});
	sql(q{SELECT jobq.enqueue('busy') FROM generate_series(1, 4)});
	# a worker finishes one of a batch in an open transaction while the lease runs out
	my $worker = $node->background_psql('postgres', on_error_stop => 1);
	$worker->query_safe(q{CREATE TEMP TABLE mine AS SELECT job_id, token FROM jobq.dequeue('busy', 2, lease => '400 ms')});
	$worker->query_safe(q{BEGIN; SELECT jobq.complete(job_id, token) FROM mine ORDER BY job_id LIMIT 1});
	sql(q{SELECT count(*) FROM jobq.dequeue('busy', 2, lease => '400 ms')});
	becomes(q{SELECT count(*) = 1 FROM jobq.lease WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'busy')},
		'the other lease is ended, past the one in use');
	is(sql(q{SELECT count(*) FROM jobq.ready WHERE lane = 0}), '2', 'its two jobs are back');
	$worker->query_safe('COMMIT');
	becomes(q{SELECT count(*) = 0 FROM jobq.lease WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'busy')},
		'then the first one too');
	is(sql(q{SELECT count(*) FROM jobq.ready WHERE lane = 0}), '3', 'the completed job stays completed');
	is(sql(q{SELECT count(*) FROM jobq.failure WHERE error = 'lease expired'}), '3', 'every unfinished job has its failure');
	$worker->quit;
	# last attempt
	sql(q{SELECT count(*) FROM jobq.dequeue('busy', 3, lease => '100 ms')});
	becomes(q{SELECT count(*) = 3 FROM jobq.dead WHERE reason = 'lease_expired'}, 'after the last attempt they are dead letters');
	is(sql(q{SELECT active, dead, dead_total FROM jobq.queue_counts() c JOIN jobq.queue q ON q.id = c.queue_id WHERE name = 'busy'}),
		'0|3|3', 'each once');
	# cancelled while running
	my $id = sql(q{SELECT jobq.enqueue('busy')});
	sql(q{SELECT count(*) FROM jobq.dequeue('busy', lease => '500 ms')});
	sql("SELECT jobq.cancel($id)");
	becomes("SELECT state = 'cancelled' FROM jobq.job($id)", 'a cancelled job whose worker says nothing ends as cancelled');
	sql(q{SELECT jobq.drop_queue('busy', force => true)});
};

subtest 'a lease that cannot be ended stops nothing else' => sub {
	sql(q{SELECT jobq.create_queue('poison', max_attempts => 1)});
	sql(q{SELECT jobq.enqueue('poison') FROM generate_series(1, 150)});
	# a hundred jobs whose dead letters are there already, then fifty good ones
	sql(q{INSERT INTO jobq.dead (id, created, died, queue_id, attempt, max_attempts, priority, reason, payload)
		SELECT id, created, now(), queue_id, 1, 1, priority, 'test', payload FROM jobq.job ORDER BY id LIMIT 100});
	sql(q{DO $$ BEGIN FOR i IN 1 .. 150 LOOP PERFORM jobq.dequeue('poison', lease => '1 s'); END LOOP; END $$});
	my $offset = -s $node->logfile;
	my $due = sql(q{SELECT jobq.enqueue('q', delay => '1500 ms')});
	becomes(q{SELECT count(*) = 50 FROM jobq.dead WHERE reason = 'lease_expired' AND queue_id = (SELECT id FROM jobq.queue WHERE name = 'poison')},
		'the leases behind the bad ones are ended');
	becomes("SELECT EXISTS (SELECT FROM jobq.ready WHERE job_id = $due)", 'and due jobs are promoted');
	is(sql(q{SELECT count(*) FROM jobq.lease}), '100', 'the bad ones stay');
	my @errors = grep { /duplicate key/ } split /\n/, slurp_file($node->logfile, $offset);
	cmp_ok(scalar(@errors), '<=', 250, 'without an error loop');
	sql(q{DELETE FROM jobq.dead WHERE reason = 'test'});
	becomes(q{SELECT count(*) = 0 FROM jobq.lease}, 'and are ended once they can be');
	sql(q{SELECT jobq.purge_queue('q'); SELECT jobq.drop_queue('poison', force => true)});
};

subtest 'claims that are rolled back' => sub {
	sql(q{SELECT jobq.create_queue('back', backoff => 'fixed', backoff_base => '1 hour')});
	my $id = sql(q{SELECT jobq.enqueue('back')});
	for (1 .. 2)
	{
		is(sql(q{BEGIN; SELECT job_id FROM jobq.dequeue('back'); ROLLBACK}), $id, 'taken and rolled back');
		is(sql(qq{SELECT attempt FROM jobq.ready WHERE job_id = $id}), '0', 'no attempt counted');
	}
	sql(q{BEGIN; SELECT job_id FROM jobq.dequeue('back'); ROLLBACK});
	becomes("SELECT EXISTS (SELECT FROM jobq.delayed WHERE job_id = $id AND attempt = 1)", 'the third in a row counts, and backs off');
	is(sql("SELECT error FROM jobq.failure WHERE job_id = $id"), 'claim rolled back 3 times in a row', 'and says why');
	is(sql(q{SELECT ready, delayed, retried_total FROM jobq.queue_counts() c JOIN jobq.queue q ON q.id = c.queue_id WHERE name = 'back'}),
		'0|1|1', 'counted');
	sql(q{SELECT jobq.drop_queue('back', force => true)});
};

subtest 'counters after a crash' => sub {
	sql(q{SELECT jobq.create_queue('counted', max_attempts => 1)});
	sql(q{SELECT jobq.enqueue('counted') FROM generate_series(1, 5)});
	sql(q{SELECT jobq.enqueue('counted', delay => '1 day') FROM generate_series(1, 3)});
	sql(q{SELECT jobq.fail(job_id, token) FROM jobq.dequeue('counted')});
	# a dequeue alone may be undone by a crash, unless asked not to
	sql(q{SET jobq.async_dequeue = off; SELECT count(*) FROM jobq.dequeue('counted', 2, lease => '10 minutes')});
	my $counts = q{SELECT ready, delayed, active, dead FROM jobq.queue_counts() c JOIN jobq.queue q ON q.id = c.queue_id WHERE name = 'counted'};
	is(sql($counts), '2|3|2|1', 'before');
	$node->stop('immediate');
	$node->start;
	is(sql($counts), '2|3|2|1', 'right after the start, counted or not');
	becomes(q{SELECT bool_and(exact) FROM jobq.queue_counts()}, 'the scheduler makes them exact');
	is(sql($counts), '2|3|2|1', 'the same');
	is(sql(q{SELECT oldest_ready = (SELECT min(created) FROM jobq.job j JOIN jobq.ready r ON r.job_id = j.id WHERE r.queue_id = q.id)
		AND next_due = (SELECT min(visible_at) FROM jobq.delayed d WHERE d.queue_id = q.id)
		FROM jobq.queue_counts() c JOIN jobq.queue q ON q.id = c.queue_id WHERE name = 'counted'}), 't', 'oldest ready job and next due time');
	# transactions that were open while it counted
	my $open = $node->background_psql('postgres', on_error_stop => 1);
	$open->query_safe(q{BEGIN; SELECT jobq.enqueue('counted') FROM generate_series(1, 10)});
	$node->safe_psql('postgres', q{SELECT jobq.create_queue('another')});
	becomes(q{SELECT bool_and(exact) FROM jobq.queue_counts()}, 'counting does not wait for an open transaction');
	$open->query_safe('COMMIT');
	is(sql($counts), '12|3|2|1', 'and its commit is counted');
	$open->quit;
};

subtest 'prepared transactions' => sub {
	sql(q{SELECT jobq.create_queue('two_phase')});
	sql(q{BEGIN; SELECT jobq.enqueue('two_phase'); SELECT jobq.enqueue('two_phase', delay => '1 s'); PREPARE TRANSACTION 'jobs'});
	# the cursor passes the prepared job's place
	sql(q{SELECT jobq.enqueue('two_phase')});
	is(sql(q{SELECT count(*) FROM jobq.dequeue('two_phase', 10)}), '1', 'a later job goes out');
	is(sql(q{SELECT count(*) FROM jobq.dequeue('two_phase', 10)}), '0', 'then there is nothing');
	sql(q{COMMIT PREPARED 'jobs'});
	my $got = 0;
	ok( poll_until('jobs of the prepared transaction',
			sub { $got += sql(q{SELECT count(*) FROM jobq.dequeue('two_phase', 10)}); return $got >= 2 }, limit => 40),
		'the jobs of a prepared transaction run, the due one and the delayed one');
	is($got, 2, 'once each');
	becomes(q{SELECT exact AND ready = 0 AND delayed = 0 AND active = 3 FROM jobq.queue_counts() c JOIN jobq.queue q ON q.id = c.queue_id WHERE name = 'two_phase'},
		'and the counters are exact again');
};

subtest 'history and dead letters are trimmed' => sub {
	sql(q{SELECT jobq.create_queue('kept', keep_dead => '1 hour', max_attempts => 1)});
	sql(q{SELECT jobq.enqueue('kept') FROM generate_series(1, 3)});
	sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('kept')});
	sql(q{SELECT jobq.fail(job_id, token) FROM jobq.dequeue('kept', 2)});
	is(sql(q{SELECT count(*) FROM jobq.dead WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'kept')}), '2', 'two dead letters');
	sql(q{UPDATE jobq.dead SET died = now() - interval '2 hours' WHERE id = (SELECT min(id) FROM jobq.dead
		WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'kept'))});
	# finished jobs of yesterday, of two days in one table, and beyond the ring
	my $day = sql(q{SELECT floor(extract(epoch FROM now() - '2000-01-01 00:00+00') / 86400)::int});
	my ($old, $mixed, $busy) = map { ($day - $_) % 32 } 1, 2, 3;
	my $row = q{(id, created, finished, expiry, queue_id, attempt, max_attempts, priority, state, payload)
		SELECT %s, now(), now(), %s, 1, 1, 1, 1, 'c', '{}' FROM generate_series(1, %d) g};
	my $past = "now() - interval '3 days'";
	sql("INSERT INTO jobq.history_$old " . sprintf($row, '-g', $past, 2000));
	sql("INSERT INTO jobq.history_$mixed " . sprintf($row, '-g', $past, 10));
	sql("INSERT INTO jobq.history_$mixed " . sprintf($row, '-g', "now() + interval '30 days'", 1));
	sql("INSERT INTO jobq.history_$busy " . sprintf($row, '-g', $past, 10));
	sql('INSERT INTO jobq.history_far ' . sprintf($row, '-g', $past, 2500));
	sql('INSERT INTO jobq.history_far ' . sprintf($row, '-g', "'infinity'", 5));
	my $reader = $node->background_psql('postgres', on_error_stop => 1);
	$reader->query_safe("BEGIN; SELECT count(*) FROM jobq.history_$busy");

	# a new scheduler looks at once
	sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'});
	sql(q{SELECT jobq.enqueue('kept', delay => '10 ms')});
	becomes("SELECT NOT EXISTS (SELECT FROM jobq.history_$old)", 'a table whose day is over is emptied');
	is(sql("SELECT pg_relation_size('jobq.history_$old')"), '0', 'whole');
	becomes(q{SELECT count(*) = 5 FROM jobq.history_far}, 'what expired beyond the ring is deleted, and only that');
	becomes(q{SELECT count(*) = 1 FROM jobq.dead WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'kept')},
		'an old dead letter is deleted, a younger one stays');
	is(sql(q{SELECT dead FROM jobq.queue_counts() c JOIN jobq.queue q ON q.id = c.queue_id WHERE name = 'kept'}), '1', 'and counted');
	is(sql("SELECT count(*) FROM jobq.history_$mixed"), '11', 'a table that holds a row to be kept is left');
	is($reader->query_safe("SELECT count(*) FROM jobq.history_$busy"), '10', 'one that somebody reads is left');
	is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler' AND wait_event_type = 'Lock'}), '0', 'nobody waits');
	$reader->query_safe('COMMIT');
	$reader->quit;
	sql("DELETE FROM jobq.history_$mixed; DELETE FROM jobq.history_$busy; DELETE FROM jobq.history_far");
};

subtest 'NOTIFY' => sub {
	my $long = 'n' x 100;
	sql(qq{SELECT jobq.create_queue('told', notify => true), jobq.create_queue('$long', notify => true), jobq.create_queue('silent')});
	my $listener = $node->background_psql('postgres', on_error_stop => 1);
	# the server cuts the long name, in LISTEN as in NOTIFY, and says so
	$listener->query_safe(q{SET client_min_messages = warning});
	$listener->query_safe(qq{LISTEN jobq_told; LISTEN jobq_silent; LISTEN "jobq_$long"});
	sql(qq{SELECT jobq.enqueue('told') FROM generate_series(1, 100); SELECT jobq.enqueue('silent'); SELECT jobq.enqueue('$long')});
	my $out = '';
	ok( poll_until('notification',
			sub { $out .= $listener->query_safe('SELECT 1'); return $out =~ /"jobq_told"/ && $out =~ /"jobq_nnn/ }, limit => 20),
		'a queue that asks for it has its listeners told');
	unlike($out, qr/"jobq_silent"/, 'another has not');
	sql(q{SELECT jobq.enqueue('told', delay => '200 ms')});
	$out = '';
	ok(poll_until('notification', sub { $out .= $listener->query_safe('SELECT 1'); return $out =~ /"jobq_told"/ }, limit => 20),
		'also of a job that becomes due');
	$listener->quit;
};

verify_ok($node);
$node->stop;
server_alive_ok($node);
done_testing();
