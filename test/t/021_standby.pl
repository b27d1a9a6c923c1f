# A standby refuses what writes, shows what there is, and runs everything from its promotion on: with tokens that nobody has seen, also
# when it lagged behind. A physical copy runs nothing while jobq.enabled is off.
use strict;
use warnings;

use Jobq;
use JobqSession;
use JobqVerbs;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "jobq.rescan_interval = 1s\nautovacuum = off\nwal_receiver_status_interval = 1\nwal_retrieve_retry_interval = 100ms\n";
my $first = jobq_node('first', conf => $conf, init => [ allows_streaming => 1 ]);
my $processes = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'};

$first->safe_psql('postgres', q{
	SELECT jobq.create_queue('q', lease => '1 hour', backoff => 'fixed', backoff_base => '0 s');
	SELECT jobq.create_queue('late')});
$first->safe_psql('postgres', q{SELECT count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n))});
$first->safe_psql('postgres', q{SELECT jobq.create_queue('chain'); SELECT jobq.enqueue('chain', after => ARRAY[jobq.open_batch('chain')])});
my ($id, $token) = split /\|/, $first->safe_psql('postgres', q{SET jobq.async_dequeue = off; SELECT job_id, token FROM jobq.dequeue('q')});
$first->backup('backup');

sub standby
{
	my ($name, $of, $backup) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($of, $backup, has_streaming => 1);
	$node->start;
	return $node;
}

# Cuts a standby off: what the primary does from now on it will never see.
sub cut_off
{
	my ($node) = @_;
	$node->append_conf('postgresql.conf', "primary_conninfo = ''\n");
	$node->reload;
	poll_until('the standby is cut off', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver', node => $node);
	return;
}

my $second = standby('second', $first, 'backup');
$first->wait_for_catchup($second);

# What the views show is what the primary has; nothing that writes runs; nothing waits.
for my $view (qw(queues jobs dependencies groups workers dead_letters))
{
	my $query = "SELECT row_to_json(v) FROM (SELECT * FROM jobq.$view ORDER BY 1, 2) v";
	if ($view eq 'queues')
	{
		# The totals are of a server's life, and the age of a job moves on.
		$query = q{SELECT queue, paused, ready, delayed, pending, active, dead, max_attempts, lease FROM jobq.queues ORDER BY 1};
	}
	is($second->safe_psql('postgres', $query), $first->safe_psql('postgres', $query), "view $view shows what the primary has");
}
my %reads = map { $_ => 1 } qw(job explain_job verify queue_counts joining events may_read may_see lease_counts metrics queue_metrics database_metrics queue_rates schedule_next);
for (jobq_calls($first))
{
	my ($name, $call) = @$_;
	$call =~ s/'q'\)$/'q', wait => '1 hour')/ if $name =~ /dequeue$/;
	$call =~ s/'q'\)$/'q', '1 hour')/ if $name eq 'wait';
	my ($state, $message) = sqlstate_of($second, "SET statement_timeout = '30 s'; $call");
	is($state, $reads{$name} ? '00000' : '25006', "on a standby: $name()") or diag($message);
}
is($second->safe_psql('postgres', "SELECT state FROM jobq.job($id)"), 'active', 'one job can be looked at');
verify_ok($second, 'verify on the standby');
is($second->safe_psql('postgres', $processes), '0', 'no process of ours in recovery');

# In a read-only transaction of the primary the same is refused.
for (jobq_calls($first))
{
	my ($name, $call) = @$_;
	next if $name =~ /^wait/; # not in a transaction block
	my ($state, $message) = sqlstate_of($first, "BEGIN READ ONLY; $call");
	is($state, $reads{$name} ? '00000' : '25006', "in a read-only transaction: $name()") or diag($message);
}

# Due jobs and an ended lease wait in the standby until it is promoted.
my $due = $first->safe_psql('postgres', q{SELECT jobq.enqueue('late', delay => '1 day')});
my $short = $first->safe_psql('postgres', q{SELECT job_id FROM jobq.dequeue('q', lease => '1 day')});
# Set by hand, so that the primary's scheduler does not see it; both are over by now.
$first->safe_psql('postgres', qq{
	UPDATE jobq.delayed SET visible_at = now() - interval '1 s' WHERE job_id = $due;
	UPDATE jobq.lease SET lease_until = now() - interval '1 s' WHERE $short = ANY (job_ids)});
$first->wait_for_catchup($second);
cut_off($second);

# The primary goes on: tokens of blocks that the standby does not know of.
my $highest = $token;
my $unseen;
for (1 .. 3)
{
	$first->restart;
	($unseen, $highest) = split /\|/, $first->safe_psql('postgres', q{SELECT job_id, token FROM jobq.dequeue('q')});
}
is($second->safe_psql('postgres', "SELECT count(*) FROM jobq.jobs WHERE job_id = $unseen AND state = 'ready'"), '1', 'the standby lags');
my $seen = $second->safe_psql('postgres', "SELECT count(*) FROM jobq.delayed WHERE job_id = $due");
my $first_ids = $first->safe_psql('postgres', 'SELECT last_value FROM jobq.job_block_seq');
$first->stop('immediate');

is($second->safe_psql('postgres', $processes), '0', 'still no process of ours');
is($second->safe_psql('postgres', "SELECT state FROM jobq.job($due)"), 'delayed', 'the due job waits') if $seen;
my $session = JobqSession->new($second);
$session->query('SELECT count(*) FROM jobq.queues');
$second->promote;
poll_until('the launcher runs after the promotion', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'jobq launcher'}, node => $second);
poll_until('the due job is ready', "SELECT state = 'ready' FROM jobq.job($due)", node => $second);
poll_until('the ended lease is ended', "SELECT state = 'ready' AND attempt = 1 FROM jobq.job($short)", node => $second);
poll_until('the counters are exact', 'SELECT bool_and(exact) FROM jobq.queues', node => $second);
verify_ok($second, 'verify after the promotion');

# A session that was there before goes on, now as a writer.
my ($job, $new) = split /\|/, $session->query(q{SELECT job_id, token FROM jobq.dequeue('q')});
ok($job, 'a session from before the promotion takes a job');
cmp_ok($new, '>', $highest, 'its token is greater than those that the standby never saw');
is($session->query("SELECT jobq.complete($job, $new)"), 't', 'and completes it');
$session->close;
is($second->safe_psql('postgres', "SELECT jobq.complete($id, $token)"), 't', 'a lease from before the promotion holds');
is((sqlstate_of($second, "SELECT jobq.complete($unseen, $highest)"))[0], 'JQ001', 'one that the standby never saw does not');
is($second->safe_psql('postgres', "SELECT state FROM jobq.job($unseen)"), 'ready', 'its job runs again');
$highest = $second->safe_psql('postgres', q{SET jobq.async_dequeue = off; SELECT max(token) FROM jobq.dequeue('q', 10)});

# The next failover, with a lag again.
$second->backup('backup2');
my $third = standby('third', $second, 'backup2');
$second->wait_for_catchup($third);
cut_off($third);
for (1 .. 2)
{
	$second->restart;
	my $next = $second->safe_psql('postgres', q{SELECT token FROM jobq.dequeue('q')});
	cmp_ok($next, '>', $highest, 'tokens grow with a restart');
	$highest = $next;
}
$second->stop('immediate');
$third->promote;
poll_until('the third server takes writes', q{SELECT NOT pg_is_in_recovery()}, node => $third);
my @jobs = split /\n/, $third->safe_psql('postgres', q{SELECT token FROM jobq.dequeue('q', 5)});
cmp_ok($jobs[0], '>', $highest, 'two failovers in a row: the token is greater again');
poll_until('its scheduler runs', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}, node => $third);

# Promoted twice in one go: a standby of the promoted server, promoted before anybody took a token.
$third->backup('backup3');
my $fourth = standby('fourth', $third, 'backup3');
$third->wait_for_catchup($fourth);
$highest = $third->safe_psql('postgres', q{SELECT max(token) FROM jobq.dequeue('q', 5)});
$third->wait_for_catchup($fourth);
$third->stop;
$fourth->promote;
poll_until('the fourth server takes writes', q{SELECT NOT pg_is_in_recovery()}, node => $fourth);
cmp_ok($fourth->safe_psql('postgres', q{SELECT min(token) FROM jobq.dequeue('q', 5)}), '>', $highest, 'three failovers in a row');
poll_until('the counters are exact there', 'SELECT bool_and(exact) FROM jobq.queues', node => $fourth);
verify_ok($fourth, 'verify after all failovers');
server_alive_ok($_) for $first, $second, $third, $fourth;

# A physical copy that must not run the original's jobs.
$fourth->safe_psql('postgres', q{SELECT jobq.enqueue('late', delay => '50 ms')});
$fourth->backup('backup4');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($fourth, 'backup4');
$copy->append_conf('postgresql.conf', "jobq.enabled = off\n");
$copy->start;
for my $call (q{SELECT * FROM jobq.dequeue('q')}, q{SELECT * FROM jobq.dequeue('q', wait => '1 hour')},
	q{SELECT * FROM jobq.complete_and_dequeue(NULL, NULL, 'q')}, q{CALL jobq.wait('q', '1 hour')})
{
	my ($state, $message) = sqlstate_of($copy, $call);
	is($state, '55000', "jobq.enabled = off: $call");
	like($message, qr/HINT:.*jobq\.enabled/s, 'and says what to do');
}
my $later = $copy->safe_psql('postgres', q{SELECT jobq.enqueue('late', delay => '10 ms')});
is($copy->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}), '0', 'no scheduler');
is($copy->safe_psql('postgres', "SELECT state FROM jobq.job($later)"), 'delayed', 'enqueue works, nothing runs');
verify_ok($copy, 'verify of the copy');
$session = JobqSession->new($copy);
is($session->query('SHOW jobq.enabled'), 'off', 'a session from before');
$copy->append_conf('postgresql.conf', "jobq.enabled = on\n");
$copy->reload;
poll_until('switched on, it runs', "SELECT state = 'ready' FROM jobq.job($later)", node => $copy);
poll_until('the session sees it, too', sub { return $session->query('SHOW jobq.enabled') eq 'on'; });
like($session->query(q{SELECT count(*) FROM jobq.dequeue('late')}), qr/^1$/, 'and takes a job');

# And off again, while it runs and somebody waits.
my $waiter = JobqSession->new($copy);
$copy->safe_psql('postgres', q{SELECT jobq.create_queue('empty')});
$waiter->send(q{CALL jobq.wait('empty', '1 hour')});
poll_until('somebody waits', 'SELECT wait_event_type = \'Extension\' FROM pg_stat_activity WHERE pid = ' . $waiter->pid, node => $copy);
$copy->append_conf('postgresql.conf', "jobq.enabled = off\n");
$copy->reload;
poll_until('switched off, the scheduler leaves', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}, node => $copy);
($_) = sqlstate_of($copy, q{SELECT jobq.dequeue('q')});
is($_, '55000', 'and nothing is taken');
$copy->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $waiter->pid . ')');
verify_ok($copy, 'verify of the copy at the end');
$waiter->close;
$session->close;
server_alive_ok($copy);
$_->stop for $fourth, $copy;
done_testing();
