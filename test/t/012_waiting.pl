# Waiting for jobs: what a waiter holds meanwhile, what wakes it and what does not, and how it ends.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('waiting');

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

sql(q{SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '1 h')});
my $waiter = JobqSession->new($node);
my $other = JobqSession->new($node);
my $pid = $waiter->pid;

my $call = q{CALL jobq.wait('q', '1 min')};
my $dequeue = q{SELECT concat(payload, ' in attempt ', attempt) FROM jobq.dequeue('q', wait => '1 min')};

# Starts a wait and sees it asleep.
sub wait_with
{
	my ($statement) = @_;
	$waiter->send($statement);
	asleep();
	return;
}

sub asleep
{
	poll_until('the waiter sleeps', "SELECT wait_event_type = 'Extension' AND state = 'active' FROM pg_stat_activity WHERE pid = $pid", node => $node, limit => 20);
	return;
}

# The answer, long before the wait's own end.
sub answers
{
	my ($answer, $name) = @_;
	my $start = Time::HiRes::time();
	is($waiter->result, $answer, $name);
	cmp_ok(Time::HiRes::time() - $start, '<', 30, '... soon');
	return;
}

subtest 'CALL wait holds nothing' => sub {
	wait_with($call);
	is(sql("SELECT backend_xid IS NULL AND backend_xmin IS NULL FROM pg_stat_activity WHERE pid = $pid"), 't', 'no transaction id, no snapshot');
	is(sql("SELECT string_agg(DISTINCT locktype, ',') FROM pg_locks WHERE pid = $pid AND locktype <> 'virtualxid'"), '', 'no lock');
	sql(q{CREATE TABLE t (); DROP TABLE t; VACUUM jobq.ready});
	is(sql(q{SET lock_timeout = '10 s'; SELECT jobq.create_queue('r'), jobq.drop_queue('r')}), 't|', 'and stops nobody');
	sql(q{SELECT jobq.enqueue('q', '1')});
	answers('t', 'an enqueue that commits wakes it');
	is(sql(q{SELECT payload FROM jobq.dequeue('q')}), '1', 'the job is there');
};

subtest 'only a commit wakes' => sub {
	for my $wait ($call, $dequeue)
	{
		my $name = $wait eq $call ? 'CALL wait' : 'dequeue';
		wait_with($wait);
		$other->query(q{BEGIN; SELECT jobq.enqueue('q', '2')});
		asleep();
		ok(!$waiter->finished, "$name: not the call");
		$other->query('ROLLBACK');
		$other->query(q{BEGIN; SELECT jobq.enqueue('q', '3'); SAVEPOINT s; SELECT jobq.enqueue('q', '4'); ROLLBACK TO s});
		asleep();
		ok(!$waiter->finished, "$name: not a rollback");
		$other->query('COMMIT');
		answers($wait eq $call ? 't' : '3 in attempt 1', "$name: the commit");
		sql(q{SELECT jobq.dequeue('q')}) if $wait eq $call;
	}
};

subtest 'what else gives a job' => sub {
	for my $wait ($call, $dequeue)
	{
		my $name = $wait eq $call ? 'CALL wait' : 'dequeue';
		my $finish = sub {
			my ($answer, $what) = @_;
			answers($wait eq $call ? 't' : $answer, "$name: $what");
			is(sql($dequeue), $answer, '... and the job is there') if $wait eq $call;
		};

		sql(q{SELECT jobq.enqueue('q', '5')});
		$other->query(q{BEGIN; SELECT payload FROM jobq.dequeue('q')});
		wait_with($wait);
		$other->query('ROLLBACK');
		$finish->('5 in attempt 1', 'a claim that is rolled back');

		sql(q{SELECT jobq.enqueue('q', '6')});
		$other->query(q{BEGIN; SAVEPOINT s; SELECT payload FROM jobq.dequeue('q')});
		wait_with($wait);
		$other->query('ROLLBACK TO s');
		$finish->('6 in attempt 1', 'a claim whose savepoint is rolled back');
		$other->query('COMMIT');

		my ($job, $token) = split /\|/, sql(q{SELECT jobq.enqueue('q', '7') \gset
			SELECT job_id, token FROM jobq.dequeue('q')});
		wait_with($wait);
		sql("SELECT jobq.release($job, $token)");
		$finish->('7 in attempt 1', 'a job given back');

		($job, $token) = split /\|/, sql(q{SELECT jobq.enqueue('q', '8') \gset
			SELECT job_id, token FROM jobq.dequeue('q')});
		wait_with($wait);
		sql("SELECT jobq.fail($job, $token, 'x', '50 ms')");
		$finish->('8 in attempt 2', 'a retry whose time comes');

		wait_with($wait);
		sql(q{SELECT jobq.enqueue('q', '9', delay => '50 ms')});
		$finish->('9 in attempt 1', 'a delayed job whose time comes');

		$job = sql(q{SELECT jobq.enqueue('q', '10', delay => '1 h')});
		wait_with($wait);
		sql("SELECT jobq.run_now(ARRAY[$job])");
		$finish->('10 in attempt 1', 'run_now');

		sql(q{SELECT jobq.pause_queue('q'); SELECT jobq.enqueue('q', '11')});
		wait_with($wait);
		ok(!$waiter->finished, "$name: not a job of a paused queue");
		sql(q{SELECT jobq.resume_queue('q')});
		$finish->('11 in attempt 1', 'resume_queue');

		sql(q{SELECT jobq.alter_queue('q', backoff_base => '10 ms'); SELECT jobq.enqueue('q', '12')});
		sql(q{SELECT job_id FROM jobq.dequeue('q', lease => '200 ms')});
		wait_with($wait);
		$finish->('12 in attempt 2', 'a lease that ends');

		my $dead = sql(q{SELECT jobq.enqueue('q', '13') \gset
			SELECT jobq.fail(job_id, token, 'x', retry => false) FROM jobq.dequeue('q');
			SELECT :enqueue});
		wait_with($wait);
		sql(q{SELECT jobq.redrive('q')});
		$finish->('13 in attempt 1', 'redrive');
	}
};

subtest 'several waiters' => sub {
	my @waiters = map { JobqSession->new($node) } 1 .. 4;
	$_->send(q{SELECT payload FROM jobq.dequeue('q', wait => '1 min')}) for @waiters;
	my $pids = join ',', map { $_->pid } @waiters;
	poll_until('all sleep', "SELECT count(*) = 4 FROM pg_stat_activity WHERE pid IN ($pids) AND wait_event_type = 'Extension'", node => $node);
	sql(q{SELECT jobq.enqueue_many('q', '[21, 22, 23, 24]')});
	is(join(' ', sort map { $_->result } @waiters), '21 22 23 24', 'each gets one of as many jobs');
	$_->send(q{SELECT payload FROM jobq.dequeue('q', wait => '1 min')}) for @waiters;
	poll_until('all sleep', "SELECT count(*) = 4 FROM pg_stat_activity WHERE pid IN ($pids) AND wait_event_type = 'Extension'", node => $node);
	for my $n (31 .. 34)
	{
		sql("SELECT jobq.enqueue('q', '$n')");
	}
	is(join(' ', sort map { $_->result } @waiters), '31 32 33 34', 'also when they come one by one');
	$_->close for @waiters;
};

subtest 'a wait ends at once' => sub {
	for my $wait ($call, $dequeue)
	{
		my $name = $wait eq $call ? 'CALL wait' : 'dequeue';
		wait_with($wait);
		sql("SELECT pg_cancel_backend($pid)");
		answers('', "$name: cancelled");
		is($waiter->sqlstate, '57014', '... with that reason');
		$waiter->errors;
		$waiter->send("SET statement_timeout = '50 ms'; $wait; RESET statement_timeout");
		is($waiter->result, '', "$name: statement_timeout");
		is($waiter->sqlstate, '57014', '... with that reason');
		wait_with($wait);
		sql("SELECT pg_terminate_backend($pid)");
		is($waiter->result, undef, "$name: its session terminated");
		$waiter->close;
		$waiter = JobqSession->new($node);
		$pid = $waiter->pid;
	}
	# The waiters that are gone take no wake-up with them.
	wait_with($dequeue);
	sql(q{SELECT jobq.enqueue('q', '41')});
	answers('41 in attempt 1', 'the next waiter is woken');

	wait_with($call);
	sql(q{SELECT jobq.rename_queue('q', 'q2')});
	sql(q{SELECT jobq.enqueue('q2', '42')});
	is($waiter->result, '', 'the queue got another name: there is nothing to wait for under the old one');
	is($waiter->sqlstate, '42704', '... and that is said');
	sql(q{SELECT jobq.rename_queue('q2', 'q'); SELECT jobq.dequeue('q')});
	wait_with($dequeue);
	sql(q{SELECT jobq.drop_queue('q', force => true)});
	is($waiter->result, '', 'the queue was dropped');
	is($waiter->sqlstate, '42704', '... and that is said');
	sql(q{SELECT jobq.create_queue('q')});
};

$waiter->close;
$other->close;
verify_ok($node);
$node->stop;
server_alive_ok($node);
done_testing();
