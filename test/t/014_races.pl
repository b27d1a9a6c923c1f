# Races that were lost once: between the reaper and a worker, drops and commits, rolled back claims, queues that come and go.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

# No rescan: what is forgotten stays so, and is seen here.
my $node = jobq_node('races', debug => 1,
	conf => "jobq.rescan_interval = 0\njobq.scheduler_idle_timeout = 60s\njobq.debug_point = 'lease-overdue,claim-rolled-back'\n");

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The query comes true.
sub becomes
{
	my ($query, $name, $limit) = @_;
	return ok(poll_until($name, $query, node => $node, limit => $limit // 15), $name);
}

# What the session answers to all that was sent: the SQLSTATE, or "hangs".
sub outcome
{
	my ($session, $limit) = @_;
	eval { $session->result(limit => $limit); 1 } or return 'hangs';
	return $session->sqlstate;
}

# While this session holds a debug point's lock, the scheduler stops there.
my $holder = JobqSession->new($node);

sub hold { return $holder->query("SELECT pg_advisory_lock(hashtext('$_[0]'))"); }
sub let_go { return $holder->query("SELECT pg_advisory_unlock(hashtext('$_[0]'))"); }

sub scheduler_stops
{
	return becomes(q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq scheduler' AND wait_event = 'advisory')},
		$_[0]);
}

subtest 'a lease rewritten between the look at it and its lock is ended all the same' => sub {
	sql(q{SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '1 h')});
	my %first = (release => 'ready 0', progress => 'ready 1', cancel => 'cancelled 1', fail => 'delayed 1', extend => 'ready 1', complete => 'completed 1');
	for my $verb (sort keys %first)
	{
		my ($first, $second) = split /\n/, sql(q{SELECT jobq.enqueue('q') FROM generate_series(1, 2)});
		hold('lease-overdue');
		my $token = sql(q{SELECT token FROM jobq.dequeue('q', 2, lease => '200 ms') LIMIT 1});
		scheduler_stops("$verb: the reaper has seen the lease");
		sql("SELECT jobq.$verb($first" . ($verb eq 'cancel' ? '' : ", $token") . ($verb eq 'progress' ? ", '1'" : $verb eq 'extend' ? ", '1 s'" : '') . ')');
		let_go('lease-overdue');
		becomes('SELECT count(*) = 0 FROM jobq.lease', "$verb: the lease is ended");
		is(sql("SELECT state || ' ' || attempt FROM jobq.job($first)"), $first{$verb}, "$verb: that job");
		is(sql("SELECT state || ' ' || attempt || ' ' || last_error FROM jobq.job($second)"), 'ready 1 lease expired', "$verb: its sibling");
		sql(q{SELECT jobq.purge_queue('q')});
	}
	verify_ok($node);
};

subtest 'rolled back claims, more than can be marked' => sub {
	my $jobs = 3000;
	my %claims = (
		# one job after the other reaches the limit, and is passed over from then on
		single => q{DO $$ BEGIN FOR i IN 1 .. 4500 LOOP PERFORM FROM jobq.dequeue('p single'); ROLLBACK; END LOOP; END $$},
		# some of the first reach it; the others take their places among the marks
		batched => join(';', map { "BEGIN; SELECT count(*) FROM jobq.dequeue('p batched', $_); ROLLBACK" } 1000, 1000, 1000, ($jobs) x 4));
	for my $how (sort keys %claims)
	{
		my $queue = "p $how";
		sql("SELECT jobq.create_queue('$queue', backoff => 'fixed', backoff_base => '0', max_attempts => 1000)");
		sql("SELECT count(*) FROM jobq.enqueue_many('$queue', (SELECT jsonb_agg(n) FROM generate_series(1, $jobs) n))");
		hold('claim-rolled-back');
		sql($claims{$how});
		scheduler_stops("$how: jobs have reached the limit");
		my ($done, $again) = (0, 0);
		my $take = sub {
			my ($n, $later) = split /\|/, sql("SELECT count(*) FILTER (WHERE ok), count(*) FILTER (WHERE attempt > 1)
				FROM (SELECT attempt, jobq.complete(job_id, token) AS ok FROM jobq.dequeue('$queue', 500)) x");
			$done += $n;
			$again += $later;
			return $n;
		};
		poll_until("$how: the others", sub { return !$take->(); });
		cmp_ok($done, '<', $jobs, "$how: they are passed over");
		let_go('claim-rolled-back');
		poll_until("$how: all jobs come", sub { $take->(); return $done >= $jobs; }, limit => 20);
		is($done, $jobs, "$how: every job is handed out in the end");
		cmp_ok($again, '>', 0, "$how: some after a counted attempt");
		is(sql("SELECT ready || ' ' || delayed || ' ' || active FROM jobq.queues WHERE queue = '$queue'"), '0 0 0', "$how: none is left");
	}
	verify_ok($node);
};

subtest 'two drops in one transaction against a commit into both queues' => sub {
	for my $drops ([ 'd2', 'd1' ], [ 'd1', 'd2' ])
	{
		for my $enqueues ([ 'd1', 'd2' ], [ 'd2', 'd1' ])
		{
			my $name = "drop @$drops, enqueue @$enqueues";
			my ($dropper, $producer) = map { JobqSession->new($node) } 1 .. 2;
			sql(q{SELECT jobq.create_queue('d1'); SELECT jobq.create_queue('d2')});
			$producer->query('BEGIN');
			$producer->query("SELECT jobq.enqueue('$_')") for @$enqueues;
			$dropper->query("BEGIN; SELECT jobq.drop_queue('$drops->[0]')");
			$producer->send('COMMIT');
			becomes('SELECT wait_event_type = \'Lock\' FROM pg_stat_activity WHERE pid = ' . $producer->pid, "$name: the commit waits");
			$dropper->send("SELECT jobq.drop_queue('$drops->[1]')");
			my $dropped = outcome($dropper, 15);
			$dropper->send('COMMIT');
			$dropped .= ' ' . outcome($dropper, 15);
			my $committed = outcome($producer, 15);
			like("$dropped, $committed", qr/^(?:00000 00000, (?:42704|40P01)|40P01 00000, 00000)$/, "$name: one of them gives way");
			if ("$dropped $committed" =~ /hangs/)
			{
				sql('SELECT pg_terminate_backend(pid, 10000) FROM unnest(ARRAY[' . join(', ', $dropper->pid, $producer->pid) . ']) pid');
			}
			$_->close for $dropper, $producer;
			# who gave way holds up nothing
			my $left = $committed eq '00000' ? 2 : 0;
			is(sql(q{SELECT count(*) FROM jobq.queues WHERE queue IN ('d1', 'd2')}), $left, "$name: both queues or none are left");
			is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue IN ('d1', 'd2')}), $left, "$name: with their jobs");
			sql(q{SET statement_timeout = '10 s'; SELECT jobq.enqueue(queue), jobq.drop_queue(queue, force => true) FROM jobq.queues WHERE queue IN ('d1', 'd2')});
			verify_ok($node, "$name: verify");
		}
	}
};

subtest 'extend beside an open verb on other jobs of the batch' => sub {
	sql(q{SELECT jobq.create_queue('x')});
	my ($worker, $heart) = map { JobqSession->new($node) } 1 .. 2;
	$heart->query(q{SET statement_timeout = '5 s'});
	for my $verb ('complete', 'release', 'fail', 'all')
	{
		my @ids = split /\n/, sql(q{SELECT jobq.enqueue('x') FROM generate_series(1, 4)});
		my $token = sql(q{SELECT token FROM jobq.dequeue('x', 4) LIMIT 1});
		sql("SELECT jobq.complete($ids[3], $token)");
		sql("SELECT jobq.cancel($ids[1])");
		$worker->query('BEGIN');
		$worker->query($verb eq 'all' ? "SELECT jobq.complete_many(ARRAY[$ids[0], $ids[1], $ids[2]], array_fill($token, ARRAY[3]))"
			: "SELECT jobq.$verb($ids[0], $token)");
		$worker->errors;
		is($heart->query("SELECT jobq.extend($ids[1], $token)"), 'cancel', "$verb: the job that was asked to cancel hears it");
		is($heart->query("SELECT jobq.extend($ids[2], $token)"), 'ok', "$verb: another does not");
		is($heart->query("SELECT string_agg(status, ' ' ORDER BY n) FROM unnest(ARRAY[$ids[0], $ids[1], $ids[2], $ids[3]]) WITH ORDINALITY u (job_id, n)
				JOIN jobq.extend_many(ARRAY[$ids[0], $ids[1], $ids[2], $ids[3]], array_fill($token, ARRAY[4])) USING (job_id)"),
			'ok cancel ok lost', "$verb: extend_many tells each");
		is($heart->state("SELECT jobq.extend($ids[3], $token)"), 'JQ001', "$verb: one that is completed is lost");
		is($heart->state("SELECT jobq.extend($ids[3] + 1000, $token)"), 'JQ001', "$verb: one that the lease never had is lost");
		$worker->query('ROLLBACK');
		sql("SELECT count(*) FROM jobq.complete_many(ARRAY[$ids[0], $ids[1], $ids[2]], array_fill($token, ARRAY[3]))");
	}
	is(sql('SELECT count(*) FROM jobq.lease'), '0', 'no lease is left');
	$_->close for $worker, $heart;
	verify_ok($node);
};

subtest 'resume_queue wakes waiters' => sub {
	sql(q{SELECT jobq.create_queue('w')});
	my @waiters = map { JobqSession->new($node) } 1 .. 3;
	my $pids = join ', ', map { $_->pid } @waiters;
	my $asleep = "SELECT count(*) = 3 FROM pg_stat_activity WHERE pid IN ($pids) AND wait_event_type = 'Extension'";
	for my $wait (q{SELECT 't' FROM jobq.dequeue('w', wait => '30 s')}, q{CALL jobq.wait('w', '30 s')})
	{
		for my $when ('before', 'during')
		{
			my $name = "$wait, paused $when";
			sql(q{SELECT jobq.pause_queue('w')}) if $when eq 'before';
			$_->send($wait) for @waiters;
			becomes($asleep, "$name: all sleep");
			sql(q{SELECT jobq.pause_queue('w')}) if $when eq 'during';
			sql(q{SELECT jobq.enqueue('w') FROM generate_series(1, 3)});
			becomes($asleep, "$name: still");
			my $begin = Time::HiRes::time();
			sql(q{SELECT jobq.resume_queue('w')});
			my $got = join ' ', map { $_->result } @waiters;
			my $took = Time::HiRes::time() - $begin;
			is($got, 't t t', "$name: each gets a job");
			cmp_ok($took, '<', 2, sprintf('%s: woken after %.3f s', $name, $took));
			sql(q{SELECT jobq.purge_queue('w')});
		}
	}
	$_->close for @waiters;
};

$holder->close;
verify_ok($node);
$node->stop;
server_alive_ok($node);

subtest 'queues that come and go, with few slots' => sub {
	$node = jobq_node('slots', debug => 1, conf => "jobq.rescan_interval = 0\njobq.max_queues = 8\njobq.scheduler_idle_timeout = 60s\n");
	my $session = JobqSession->new($node);
	my $exact = sub {
		my ($queue, $name) = @_;
		sql("SELECT jobq.create_queue('$queue')");
		becomes("SELECT c.exact FROM jobq.queue q, jobq.queue_counts() c WHERE c.queue_id = q.id AND q.name = '$queue'", $name);
		# its waiters are woken, its delayed jobs are promoted
		$session->send("SELECT payload FROM jobq.dequeue('$queue', wait => '20 s')");
		becomes('SELECT wait_event_type = \'Extension\' FROM pg_stat_activity WHERE pid = ' . $session->pid, "$name: a waiter sleeps");
		sql("SELECT jobq.enqueue('$queue', '7')");
		my $begin = Time::HiRes::time();
		is($session->result, '7', "$name: and is woken");
		cmp_ok(Time::HiRes::time() - $begin, '<', 2, "$name: soon");
		sql("SELECT jobq.drop_queue('$queue', force => true)");
	};

	$session->query("BEGIN; SELECT jobq.create_queue('gone $_'), jobq.enqueue('gone $_'); ROLLBACK") for 1 .. 40;
	$exact->('new', 'after many rolled back create_queue');
	$session->query("BEGIN; SAVEPOINT s; SELECT jobq.create_queue('gone $_'), jobq.enqueue('gone $_'); ROLLBACK TO s; COMMIT") for 1 .. 40;
	$exact->('new', 'after many in savepoints');

	my @waiters = map { JobqSession->new($node) } 1 .. 2;
	my $pids = join ', ', map { $_->pid } @waiters;
	for my $n (1 .. 20)
	{
		sql("SELECT jobq.create_queue('dropped $n')");
		$waiters[0]->send("SELECT * FROM jobq.dequeue('dropped $n', wait => '30 s')");
		$waiters[1]->send("CALL jobq.wait('dropped $n', '30 s')");
		poll_until('they wait', "SELECT count(*) = 2 FROM pg_stat_activity WHERE pid IN ($pids) AND wait_event_type = 'Extension'", node => $node);
		sql("SELECT jobq.drop_queue('dropped $n', force => true)");
		my $heard = join ' ', map { outcome($_, 15) } @waiters;
		is($heard, '42704 42704', 'its waiters hear of the drop') if $n == 1 || $heard ne '42704 42704';
	}
	$exact->('new', 'after many drops beside waiters');
	$_->close for @waiters;

	# a recount does not see a queue that is not committed yet
	$session->query(q{BEGIN; SELECT jobq.create_queue('late'), jobq.enqueue('late', '1', delay => '300 ms'), jobq.enqueue('late', '2')});
	sql(q{SELECT jobq.create_queue('other')});
	becomes(q{SELECT c.exact FROM jobq.queue q, jobq.queue_counts() c WHERE c.queue_id = q.id AND q.name = 'other'}, 'a recount beside a queue being made');
	$session->query('COMMIT');
	becomes(q{SELECT count(*) = 2 FROM jobq.ready}, 'its delayed job becomes ready, without anybody asking');
	is(sql(q{SELECT string_agg(payload::text, ' ' ORDER BY payload::text) FROM jobq.dequeue('late', 10)}), '1 2', 'both can be taken');
	becomes(q{SELECT exact AND active = 2 FROM jobq.queues WHERE queue = 'late'}, 'and are counted');
	$session->close;
	verify_ok($node);
	$node->stop;
	server_alive_ok($node);
};

subtest 'without a scheduler, what is due takes its turn by priority' => sub {
	# one worker slot for the launcher, one for logical replication: none for a scheduler
	$node = jobq_node('bare', debug => 1, conf => "jobq.rescan_interval = 0\nmax_worker_processes = 2\nmax_logical_replication_workers = 4\n");
	# each check in a queue of its own, in which every lane has been found empty before
	my $queue = '';
	my $fresh = sub {
		$queue = "q$_[0]";
		sql("SELECT jobq.create_queue('$queue', backoff => 'fixed', backoff_base => '0')");
		sql("SELECT jobq.enqueue('$queue', priority => p), jobq.enqueue('$queue', priority => p, delay => '1 ms') FROM unnest('{1,2,3,5,7,9}'::int[]) p");
		poll_until('drained', sub {
			sql("SELECT jobq.complete(job_id, token) FROM jobq.dequeue('$queue', 100)");
			return sql("SELECT count(*) FROM jobq.jobs WHERE queue = '$queue' AND state <> 'completed'") eq '0';
		}, limit => 15);
		sql("SELECT count(*) FROM jobq.dequeue('$queue', 100)") for 1 .. 3;
	};
	my $due = sub { return becomes('SELECT max(visible_at) < clock_timestamp() FROM jobq.delayed', $_[0]); };
	my $make = sub {
		sql("SELECT jobq.enqueue('$queue', '\"due 5\"', priority => 5, delay => '50 ms'), jobq.enqueue('$queue', '\"due 1\"', priority => 1, delay => '60 ms'),
			jobq.enqueue('$queue', '\"ready 3\"', priority => 3), jobq.enqueue('$queue', '\"ready 7\"', priority => 7)");
		$due->('they are due');
	};
	my $take = sub { return sql("SELECT string_agg(payload #>> '{}', ', ') FROM jobq.dequeue('$queue', $_[0])") };

	$fresh->(1);
	$make->();
	is($take->(1), $_, "one by one: $_") for 'due 1', 'ready 3', 'due 5', 'ready 7';
	$fresh->(2);
	$make->();
	is($take->(3), 'due 1, ready 3, due 5', 'as a batch');
	is($take->(3), 'ready 7', 'and the rest');

	$fresh->(3);
	sql("SELECT jobq.enqueue('$queue', '\"worse\"', priority => 9, delay => '10 ms'), jobq.enqueue('$queue', '\"better\"', priority => 2)");
	$due->('the worse one is due');
	is($take->(1), 'better', 'a ready job of a better priority goes first');
	is(sql("CALL jobq.wait('$queue', '10 s')"), 't', 'the due one is seen');
	is(sql("BEGIN; SELECT payload #>> '{}' FROM jobq.dequeue('$queue'); ROLLBACK"), 'worse', 'taken and rolled back');
	is($take->(1), 'worse', 'it can be taken again');

	# two claims at once
	$fresh->(4);
	$make->();
	my $other = JobqSession->new($node);
	$other->query('BEGIN');
	is($other->query("SELECT payload #>> '{}' FROM jobq.dequeue('$queue')"), 'due 1', 'an open claim has the first');
	is($take->(1), 'ready 3', 'another the second, without waiting');
	$other->query('ROLLBACK');
	is($take->(3), 'due 1, due 5, ready 7', 'nothing is lost');

	# nothing else is there
	$fresh->(5);
	sql("SELECT jobq.enqueue('$queue', '\"only\"', priority => 3, delay => '10 ms')");
	$due->('the only one is due');
	is($take->(1), 'only', 'the next dequeue takes it');

	# somebody waits for it
	$fresh->(6);
	$other->send("SELECT payload #>> '{}' FROM jobq.dequeue('$queue', wait => '10 s')");
	becomes('SELECT wait_event_type = \'Extension\' FROM pg_stat_activity WHERE pid = ' . $other->pid, 'a dequeue waits');
	my $begin = Time::HiRes::time();
	sql("SELECT jobq.enqueue('$queue', '\"next\"', priority => 3, delay => '300 ms')");
	is($other->result(limit => 20), 'next', 'and takes one that becomes due meanwhile');
	cmp_ok(Time::HiRes::time() - $begin, '<', 3, 'soon');

	# a lease that is over
	$fresh->(7);
	sql("SELECT jobq.enqueue('$queue', '\"expired\"', priority => 3)");
	sql("SELECT job_id FROM jobq.dequeue('$queue', lease => '100 ms')");
	becomes('SELECT max(lease_until) < clock_timestamp() FROM jobq.lease l WHERE (SELECT max(token) FROM jobq.lease) = l.token', 'its lease is over');
	is(sql("SELECT payload #>> '{}' || ' ' || attempt FROM jobq.dequeue('$queue')"), 'expired 2', 'the next dequeue takes that job, too');
	$other->close;
	is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}), '0', 'there was no scheduler');
	verify_ok($node);
	$node->stop;
	server_alive_ok($node);
};

done_testing();
