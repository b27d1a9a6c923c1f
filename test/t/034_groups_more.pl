# Groups: a dequeue that waits has none of their tickets in hand; a session's key is its own in all databases.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

# Our processes find no place to run: dequeue deals with what is due.
my $bare = jobq_node('bare', conf => "jobq.rescan_interval = 0\nmax_worker_processes = 1\nmax_logical_replication_workers = 4\n");

sub sql { return $bare->safe_psql('postgres', $_[0]); }

# A session that waits for a job of the queue, asleep.
sub waiter
{
	my ($queue, $seconds) = @_;
	my $s = JobqSession->new($bare);
	$s->send("SELECT concat_ws(' ', payload, attempt) FROM jobq.dequeue('$queue', lease => '1 hour', wait => '$seconds s')");
	poll_until('the waiter sleeps', "SELECT wait_event_type = 'Extension' AND state = 'active' FROM pg_stat_activity WHERE pid = " . $s->pid, node => $bare, limit => 20);
	return $s;
}

# Until a group's time to wait is over; by the server's clock.
sub is_due
{
	my ($table, $column) = @_;
	return poll_until("$table: due", "SELECT bool_and($column < clock_timestamp() - interval '100 ms') FROM jobq.$table", node => $bare, limit => 20);
}

subtest 'who waits holds no ticket of a group' => sub {
	is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'}), '0', 'none of our processes runs');
	sql(q{SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '1 h')});

	# each becomes due while somebody waits, and belongs to who comes next; the waiter may be first then, and its wait ends
	for my $case (
		[ 'a group in its backoff', q{SELECT jobq.enqueue('q', '1', group_key => 'backoff'); SELECT jobq.fail(job_id, token, retry_in => '1 s') FROM jobq.dequeue('q')}, 'delayed', 'visible_at', '1 2' ],
		[ 'a job that joins its group', q{SELECT jobq.enqueue('q', '2', group_key => 'joins', delay => '1 s')}, 'delayed', 'visible_at', '2 1' ],
		[ 'a lease that is over', q{SELECT jobq.enqueue('q', '3', group_key => 'lease', max_attempts => 9); SELECT count(*) FROM jobq.dequeue('q', lease => '1 s')}, 'lease', 'lease_until', '3 2' ])
	{
		my ($name, $make, $table, $column, $expected) = @$case;
		sql($make);
		my $waiter = waiter('q', 120);
		is_due($table, $column);
		my $got = '';
		poll_until("$name: taken", sub {
			$got = $waiter->finished ? $waiter->result : sql(q{SET lock_timeout = '10 s'; SELECT concat_ws(' ', payload, attempt) FROM jobq.dequeue('q', lease => '1 hour')});
			return $got ne '';
		}, limit => 20);
		is($got, $expected, "$name: taken while somebody waits");
		sql('SELECT pg_terminate_backend(' . $waiter->pid . ')') unless $waiter->finished;
		$waiter->close;
		poll_until("$name: the waiter is gone", 'SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $waiter->pid, node => $bare, limit => 20);
		sql('SELECT jobq.complete(j.id, l.token) FROM jobq.lease l, unnest(l.job_ids) j (id)');
		verify_ok($bare, "$name: verify");
	}

	# the lease's own worker may still be in time
	sql(q{SELECT jobq.enqueue('q', '4', group_key => 'late', max_attempts => 9)});
	my ($id, $token) = split /\|/, sql(q{SELECT job_id, token FROM jobq.dequeue('q', lease => '1 s')});
	my $waiter = waiter('q', 120);
	is_due('lease', 'lease_until');
	is(sql("SET lock_timeout = '10 s'; SELECT jobq.complete($id, $token)"), 't', 'a late worker completes while somebody waits for its group');
	sql('SELECT pg_terminate_backend(' . $waiter->pid . ')');
	$waiter->close;
	verify_ok($bare);
};

subtest 'who waited in vain leaves what is due to the next' => sub {
	sql(q{SELECT jobq.enqueue('q', '5', group_key => 'g'); SELECT jobq.fail(job_id, token, retry_in => '50 ms') FROM jobq.dequeue('q')});
	is(sql(q{SELECT count(*) FROM jobq.dequeue('q', wait => '500 ms')}), '0', 'it waits, and takes nothing');
	is(sql(q{SELECT state FROM jobq.groups}), 'READY', 'the group is ready');
	is(sql(q{SELECT concat_ws(' ', payload, attempt) FROM jobq.dequeue('q')}), '5 2', 'who comes next takes it at once');
	verify_ok($bare);
};
server_alive_ok($bare);
$bare->stop;

my $node = jobq_node('liveness', conf => "jobq.rescan_interval = 0\njobq.scheduler_idle_timeout = 60s\n", extension => 0);

# Two databases whose numbers run alike.
subtest 'the key of a session is its own in all databases' => sub {
	my %sessions;
	for my $db (qw(one two))
	{
		$node->safe_psql('postgres', "CREATE DATABASE $db");
		$node->safe_psql($db, q{CREATE EXTENSION jobq; SELECT jobq.create_queue('q', lease => '1 hour');
			SELECT count(*) FROM jobq.enqueue_many('q', '[1, 2, 3, 4, 5]', group_keys => '{g1,g2,g3,g4,g5}')});
		for (1 .. 5)
		{
			my $s = JobqSession->new($node, db => $db);
			$s->query(q{SET jobq.session_liveness = on; SELECT count(*) FROM jobq.dequeue('q')});
			push @{ $sessions{$db} }, $s;
		}
	}
	my $keys = join ' ', sort map { split /\n/, $node->safe_psql($_, 'SELECT session FROM jobq.lease WHERE session IS NOT NULL') } qw(one two);
	my %seen = map { $_ => 1 } split / /, $keys;
	is(scalar(keys %seen), 10, "ten sessions, ten keys: $keys");

	# all of one database end: its groups are taken over, those of the other are not
	for (@{ $sessions{one} })
	{
		$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $_->pid . ')');
		$_->close;
	}
	ok(poll_until('taken over', q{SELECT count(*) = 5 AND bool_and(state IN ('READY', 'WAIT')) FROM jobq.groups}, node => $node, db => 'one', limit => 20),
		'where the sessions ended the groups are taken over at once');
	# one more of the other database ends: by then its scheduler has looked at all its leases
	my $last = shift @{ $sessions{two} };
	$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $last->pid . ')');
	$last->close;
	ok(poll_until('taken over', q{SELECT count(*) = 1 FROM jobq.groups WHERE state IN ('READY', 'WAIT')}, node => $node, db => 'two', limit => 20), 'in the other, of one that ended there');
	is($node->safe_psql('two', q{SELECT count(*) FROM jobq.groups WHERE state = 'LEASED'}), '4', 'and of no other');
	is($sessions{two}[0]->query('SELECT bool_and(jobq.complete(j.id, l.token)) FROM jobq.lease l, unnest(l.job_ids) j (id)'), 't', 'their tokens are good');
	verify_ok($node, "verify in $_", $_) for qw(one two);
};

subtest 'a dead letter that blocks its group is not trimmed' => sub {
	my $one = sub { return $node->safe_psql('one', $_[0]); };
	$one->(q{SELECT jobq.create_queue('d', max_attempts => 1, keep_dead => '0');
		SELECT count(*) FROM jobq.enqueue_many('d', '[1, 2, 3]', group_keys => '{g,g,NULL}');
		SELECT jobq.fail(job_id, token) FROM jobq.dequeue('d', 3)});
	my $dead = q{SELECT coalesce(string_agg(payload::text, ' ' ORDER BY payload), '') FROM jobq.dead_letters WHERE queue = 'd'};
	# a new scheduler looks at once
	my $pass = sub {
		$node->restart;
		$one->(q{SELECT jobq.enqueue('q', delay => '10 ms')});
		return;
	};
	$pass->();
	ok(poll_until('trimmed', "SELECT ($dead) = '1'", node => $node, db => 'one', limit => 20), 'the other one is');
	$one->(q{SELECT jobq.unblock_group('d', 'g')});
	is($one->(q{SELECT payload, attempt FROM jobq.dequeue('d')}), '1|1', 'it can be tried again');
	is($one->(q{SELECT jobq.fail(j.id, l.token) FROM jobq.lease l, unnest(l.job_ids) j (id) WHERE l.group_id > 0 AND l.queue_id = (SELECT id FROM jobq.queue WHERE name = 'd')}),
		'blocked', 'and dies again');
	$one->(q{SELECT jobq.unblock_group('d', 'g', 'skip')});
	$pass->();
	ok(poll_until('trimmed', "SELECT ($dead) = ''", node => $node, db => 'one', limit => 20), 'once the group goes on without it, it is trimmed');
	verify_ok($node, 'verify', 'one');
};
server_alive_ok($node);
$node->stop;
done_testing();
