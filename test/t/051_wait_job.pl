# CALL wait_job: what wakes it, what it answers, what it holds meanwhile.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('wait_job');

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

sql(q{SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '1 h'), jobq.create_queue('brief', keep_completed => '0')});
my @waiters = map { JobqSession->new($node) } 1 .. 2;
my $other = JobqSession->new($node);

sub asleep
{
	my ($w) = @_;
	my $pid = $w->pid;
	poll_until('the waiter sleeps', "SELECT wait_event_type = 'Extension' AND state = 'active' FROM pg_stat_activity WHERE pid = $pid", node => $node, limit => 20);
	return;
}

# All waiters wait for the job and are asleep.
sub wait_for
{
	my ($job) = @_;
	for my $w (@waiters)
	{
		$w->send("CALL jobq.wait_job($job, '1 min')");
		asleep($w);
	}
	return;
}

# They answer at once: long before one would look by itself.
sub answers
{
	my ($answer, $name, %opt) = @_;
	my $start = Time::HiRes::time();
	is($_->result, $answer, $name) for @waiters;
	cmp_ok(Time::HiRes::time() - $start, '<', $opt{within} // 3, '... at once');
	return;
}

sub take
{
	my ($queue, $more) = @_;
	my ($job, $token) = split /\|/, sql("SELECT jobq.enqueue('$queue'" . ($more // '') . ") AS job \\gset\nSELECT job_id, token FROM jobq.dequeue('$queue')");
	return ($job, $token);
}

subtest 'it holds nothing' => sub {
	my ($job, $token) = take('q');
	wait_for($job);
	my $pid = $waiters[0]->pid;
	is(sql("SELECT backend_xid IS NULL AND backend_xmin IS NULL FROM pg_stat_activity WHERE pid = $pid"), 't', 'no transaction id, no snapshot');
	is(sql("SELECT string_agg(DISTINCT locktype, ',') FROM pg_locks WHERE pid = $pid AND locktype <> 'virtualxid'"), '', 'no lock');
	sql(qq{SELECT jobq.complete($job, $token, '{"answer": 42}')});
	answers('completed|{"answer": 42}', 'the completion wakes it, with the result');
	is(sql("CALL jobq.wait_job($job)"), 'completed|{"answer": 42}', 'afterwards it answers without a wait');
};

subtest 'every end of a job' => sub {
	my ($job, $token) = take('q');
	wait_for($job);
	sql("SELECT jobq.fail($job, $token, 'x', retry => false)");
	answers('dead|', 'a death');

	$job = sql(q{SELECT jobq.enqueue('q', delay => '1 h')});
	wait_for($job);
	sql("SELECT jobq.cancel($job)");
	answers('cancelled|', 'a cancel');

	$job = sql(q{SELECT jobq.enqueue('q')});
	wait_for($job);
	sql("SELECT jobq.delete_jobs(ARRAY[$job])");
	answers('|', 'a deletion');

	($job, $token) = take('brief');
	wait_for($job);
	sql(qq{SELECT jobq.complete($job, $token, '1')});
	answers('|', 'a completion without a history');

	$job = sql(q{SELECT jobq.enqueue('q', max_attempts => 1)});
	wait_for($job);
	sql(q{SELECT 1 FROM jobq.dequeue('q', lease => '100 ms')});
	answers('dead|', 'a lease that expires');

	($job, $token) = take('q', q{, group_key => 'g'});
	wait_for($job);
	sql(qq{SELECT * FROM jobq.complete_many(ARRAY[$job], ARRAY[$token], '[7]')});
	answers('completed|7', 'one of a group');

	sql(q{SELECT jobq.create_queue('gone')});
	$job = sql(q{SELECT jobq.enqueue('gone')});
	wait_for($job);
	sql(q{SELECT jobq.drop_queue('gone', force => true)});
	answers('|', 'the drop of its queue');
};

subtest 'what is no end' => sub {
	my ($job, $token) = take('q');
	wait_for($job);
	$other->query("BEGIN; SELECT jobq.complete($job, $token)");
	$other->query('ROLLBACK');
	$other->query("BEGIN; SAVEPOINT s; SELECT jobq.complete($job, $token); ROLLBACK TO s; COMMIT");
	sql("SELECT jobq.fail($job, $token, 'x', '10 ms')");
	poll_until('it is ready again', "SELECT state = 'ready' FROM jobq.jobs WHERE job_id = $job", node => $node);
	asleep($_) for @waiters;
	ok(!$_->finished, 'neither a rollback nor a retry') for @waiters;
	($job, $token) = split /\|/, sql(q{SELECT job_id, token FROM jobq.dequeue('q')});
	$other->query("BEGIN; SELECT jobq.complete($job, $token)");
	asleep($_) for @waiters;
	ok(!$_->finished, 'nor a completion that is not committed') for @waiters;
	$other->query('COMMIT');
	answers('completed|', 'its commit is');
};

subtest 'a prepared transaction' => sub {
	my ($job, $token) = take('q');
	wait_for($job);
	sql("BEGIN; SELECT jobq.complete($job, $token); PREPARE TRANSACTION 'p'");
	sql(q{COMMIT PREPARED 'p'});
	answers('completed|', 'is noticed within seconds', within => 15);
};

subtest 'the time is over' => sub {
	my ($job) = take('q');
	is(sql("CALL jobq.wait_job($job, '50 ms')"), 'active|', 'active');
	$job = sql(q{SELECT jobq.enqueue('q', delay => '1 h')});
	is(sql("CALL jobq.wait_job($job, '0')"), 'delayed|', 'delayed');
	$job = sql(qq{SELECT jobq.enqueue('q', after => ARRAY[$job])});
	is(sql("CALL jobq.wait_job($job, '0')"), 'pending|', 'pending');
	$job = sql(q{SELECT jobq.enqueue('q')});
	is(sql("CALL jobq.wait_job($job, '0')"), 'ready|', 'ready');
	$job = sql(q{SELECT jobq.enqueue('q', group_key => 'g')});
	is(sql("CALL jobq.wait_job($job, '0')"), 'ready|', 'in line');
	is(sql("CALL jobq.wait_job(1)"), '|', 'no such job: at once');
	my $start = Time::HiRes::time();
	is(sql("CALL jobq.wait_job(job_id => $job, timeout => '1 s')"), 'ready|', 'names of arguments');
	cmp_ok(Time::HiRes::time() - $start, '>', 0.9, 'not before the time');
};

subtest 'where it cannot run' => sub {
	is((sqlstate_of($node, 'BEGIN; CALL jobq.wait_job(1)'))[0], '25001', 'in a transaction block');
	is((sqlstate_of($node, 'CALL jobq.wait_job(NULL)'))[0], '22004', 'no job');
	is((sqlstate_of($node, q{CALL jobq.wait_job(1, '-1 s')}))[0], '22023', 'a negative timeout');
	is((sqlstate_of($node, q{CALL jobq.wait_job(1, '2 days')}))[0], '22023', 'too long a timeout');
	is((sqlstate_of($node, 'CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL jobq.wait_job(1); END $$; SELECT f()'))[0], '42601',
		'plpgsql wants variables for the answers');
	is((sqlstate_of($node, 'DO $$ DECLARE s text; r jsonb; BEGIN CALL jobq.wait_job(1, state => s, result => r); END $$'))[0], '00000',
		'in a DO block of its own it can');
};

subtest 'a waiter that is stopped' => sub {
	my ($job, $token) = take('q');
	wait_for($job);
	my $start = Time::HiRes::time();
	sql('SELECT pg_cancel_backend(' . $waiters[0]->pid . ')');
	$waiters[0]->errors;
	$waiters[0]->result;
	is($waiters[0]->sqlstate, '57014', 'cancelled');
	cmp_ok(Time::HiRes::time() - $start, '<', 3, 'at once');
	is($waiters[0]->query("CALL jobq.wait_job($job, '0')"), 'active|', 'its session goes on');
	my $third = JobqSession->new($node);
	$third->send("CALL jobq.wait_job($job, '1 min')");
	asleep($third);
	$start = Time::HiRes::time();
	sql('SELECT pg_terminate_backend(' . $third->pid . ')');
	poll_until('terminated', sub { return $third->finished; }, limit => 10);
	cmp_ok(Time::HiRes::time() - $start, '<', 3, 'at once');
	$waiters[0]->send("CALL jobq.wait_job($job, '1 min')");
	asleep($waiters[0]);
	sql("SELECT jobq.complete($job, $token)");
	answers('completed|', 'the others are woken as before');
};

verify_ok($node);
server_alive_ok($node);
$node->stop;
done_testing();
