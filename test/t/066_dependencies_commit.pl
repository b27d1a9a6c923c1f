# A completion whose commit is under way when somebody begins to wait for jobs of its queue: whoever names its job sees that it has ended.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Only the completing session waits for the standby that does not exist: so its commit takes as long as the test likes.
my $node = jobq_node('commit', init => [ allows_streaming => 1 ], conf => "synchronous_standby_names = 'nowhere'\nsynchronous_commit = local\n");

sub sql { return $node->safe_psql('postgres', shift); }

# Completes a job of a queue of which nobody knows yet; returns the job and the session.
sub completes
{
	my ($queue) = @_;
	my $s = JobqSession->new($node);
	sql("SELECT jobq.create_queue('$queue')");
	my $job = sql("SELECT jobq.enqueue('$queue')");
	my ($id, $token) = split /\|/, sql("SELECT job_id, token FROM jobq.dequeue('$queue')");
	$s->query('SET synchronous_commit = on');
	$s->send("SELECT jobq.complete($id, $token)");
	poll_until('its commit is under way', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'", node => $node);
	return ($job, $s);
}

# Somebody enqueues a job after it, in another queue.
sub waits_for
{
	my ($job) = @_;
	my $s = JobqSession->new($node);
	$s->send("SELECT jobq.enqueue('waiting', after => ARRAY[$job])");
	return $s;
}

sub ends_well
{
	my ($name, $job, $committing, @naming) = @_;
	# those that do not wait have committed by then
	poll_until("$name: they have begun", sub {
		return !grep { !$_->finished && sql('SELECT coalesce(bool_and(clock_timestamp() - query_start < \'0.3 s\'), true) FROM pg_stat_activity
			WHERE state = \'active\' AND pid = ' . $_->pid) eq 't' } @naming;
	});
	sql('SELECT pg_cancel_backend(' . $committing->pid . ')');
	$committing->result;
	is($_->sqlstate, '00000', "$name: enqueued") for grep { $_->result; 1 } @naming;
	is(sql("SELECT state FROM jobq.job($job)"), 'completed', "$name: it has completed");
	is(sql("SELECT count(*), count(*) FILTER (WHERE state = 'ready') FROM jobq.jobs WHERE queue = 'waiting'"), @naming . '|' . @naming,
		"$name: none waits for what has ended");
	verify_ok($node, "$name: verify");
	sql("SELECT jobq.purge_queue('waiting')");
	return;
}

sql("SELECT jobq.create_queue('waiting')");

# dependency is empty until here, so each queue is found not to be waited for
{
	my ($job, $s) = completes('first');
	ends_well('the first one that names a job of the queue', $job, $s, waits_for($job));
}
sql('VACUUM jobq.dependency');
is(sql("SELECT pg_relation_size('jobq.dependency')"), 0, 'empty again');
{
	my ($job, $s) = completes('second');
	sql(q{BEGIN; SELECT jobq.enqueue('second', '"own"') AS own \gset
		SELECT jobq.enqueue('second', after => ARRAY[:own]); COMMIT});
	ends_well('after one that need not wait, for it named its own', $job, $s, waits_for($job));
}
sql("SELECT jobq.purge_queue('second', '{ready,pending}')");
sql('VACUUM jobq.dependency');
{
	my ($job, $s) = completes('third');
	my $one = waits_for($job);
	my $two = waits_for($job);
	ends_well('two at once', $job, $s, $one, $two);
}
server_alive_ok($node);
done_testing();
