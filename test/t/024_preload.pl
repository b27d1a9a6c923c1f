# Without the library preloaded, or with another version of it, every function says what to do, and nothing crashes.
use strict;
use warnings;

use Jobq;
use JobqVerbs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = jobq_node('main');
# joining() needs nothing of the library's state: the views that ask it can be read in any case
my @calls = grep { $_->[0] ne 'joining' } jobq_calls($node);
cmp_ok(scalar @calls, '>=', 35, 'the functions are found in the catalog');
$node->safe_psql('postgres', q{SELECT jobq.create_queue('q'); SELECT jobq.enqueue('q') FROM generate_series(1, 3)});
my ($id, $token) = split /\|/, $node->safe_psql('postgres', q{SELECT job_id, token FROM jobq.dequeue('q')});
my $states = q{SELECT 'ready', job_id, attempt FROM jobq.ready UNION ALL SELECT 'delayed', job_id, attempt FROM jobq.delayed UNION ALL SELECT 'active', unnest(job_ids), unnest(attempts) FROM jobq.lease ORDER BY 1, 2};
my $before = $node->safe_psql('postgres', $states);

# Written in SQL alone: they need no library, so they work, or say why not. (fence() guards data in databases that run no jobs.)
my %plain = map { $_ => 1 } qw(fence schedule_next);

sub all_refused
{
	my ($what, $state, $message) = @_;
	for (@calls)
	{
		my ($name, $call) = @$_;
		my ($got, $text) = sqlstate_of($node, $call);
		next if $plain{$name} && $got eq '00000';
		is($got, $state, "$what: $name()");
		like($text, $message, "$what: $name() says why and what to do");
	}
	return;
}

$node->safe_psql('postgres', 'CREATE DATABASE dropped');
$node->safe_psql('dropped', q{CREATE EXTENSION jobq; SELECT jobq.create_queue('q'); SELECT jobq.enqueue('q')});

# The extension is there, the library is not preloaded.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
all_refused('not preloaded', '55000', qr/ERROR:\s+55000: jobq must be loaded via shared_preload_libraries.*HINT:.*shared_preload_libraries/s);
for my $view (qw(queues jobs workers))
{
	is((sqlstate_of($node, "SELECT * FROM jobq.$view"))[0], '55000', "view $view, whose rights or counts the library knows, cannot be read");
}
is((sqlstate_of($node, 'SELECT * FROM jobq.job, jobq.lease'))[0], '00000', 'its owner can read the tables');
is((sqlstate_of($node, "UPDATE jobq.queue SET paused = paused"))[0], '00000', 'the trigger of a settings table does without it');
is($node->safe_psql('postgres', $states), $before, 'nothing was changed');
is((sqlstate_of($node, "LOAD 'jobq'"))[0], '00000', 'LOAD raises no error');
($_) = sqlstate_of($node, q{LOAD 'jobq'; SELECT jobq.enqueue('q')});
is($_, '55000', 'loaded by hand in the same session');
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
my ($state, $message) = sqlstate_of($node, 'CREATE EXTENSION jobq', 'fresh');
is($state, '55000', 'CREATE EXTENSION without preloading is refused');
like($message, qr/HINT:.*shared_preload_libraries/s, 'and says what to do');
is($node->safe_psql('fresh', q{SELECT count(*) FROM pg_namespace WHERE nspname = 'jobq'}), '0', 'and leaves nothing behind');
is((sqlstate_of($node, 'DROP EXTENSION jobq', 'dropped'))[0], '00000', 'DROP EXTENSION does without the library');
server_alive_ok($node, 'nothing crashed without preloading');

# As session_preload_libraries it is loaded, but too late for shared memory.
$node->append_conf('postgresql.conf', "session_preload_libraries = 'jobq'\n");
$node->reload;
poll_until('session_preload_libraries is set', q{SELECT current_setting('session_preload_libraries') = 'jobq'}, node => $node);
($state, $message) = sqlstate_of($node, q{SELECT jobq.enqueue('q')});
is($state, '55000', 'session_preload_libraries is not enough');
$node->append_conf('postgresql.conf', "session_preload_libraries = ''\n");

# Preloaded again: it goes on where it was.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'jobq'\n");
$node->restart;
is($node->safe_psql('postgres', "SELECT jobq.complete($id, $token)"), 't', 'preloaded again: the lease is still good');
poll_until('counters are exact', 'SELECT bool_and(exact) FROM jobq.queues', node => $node);
verify_ok($node, 'verify when preloaded again');

# The library is of another version than the extension: as after an upgrade of the package without ALTER EXTENSION UPDATE, or the
# reverse. What the catalogs say is not trusted.
$node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '100 ms')});
my $log = -s $node->logfile;
$node->safe_psql('postgres', q{UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'jobq'});
all_refused('other version', '55000', qr/extension "jobq" is of version 0\.0\.9 but the loaded library is of version \d+\.\d+\.\d+.*HINT:.*ALTER EXTENSION jobq UPDATE/s);
$node->restart;
poll_until('the scheduler says so, once', sub { return slurp_file($node->logfile, $log) =~ /jobq scheduler does not run in database "postgres": extension "jobq" is of version 0\.0\.9/; });
poll_until('and leaves', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}, node => $node);
($state) = sqlstate_of($node, q{SELECT jobq.dequeue('q')});
is($state, '55000', 'refused after a restart, too');
my $told = () = slurp_file($node->logfile, $log) =~ /jobq scheduler does not run in database/g;
cmp_ok($told, '<=', 2, 'no loop of starts');

# A session that was there before the change, and one in the middle of a transaction.
$node->safe_psql('postgres', q{UPDATE pg_extension SET extversion = '0.1.0' WHERE extname = 'jobq'});
is( $node->safe_psql('postgres', q{SELECT count(*) FROM jobq.dequeue('q', 10)}), '3', 'the right version again: jobs run');
$node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '50 ms')});
poll_until('and the scheduler', q{SELECT ready = 1 FROM jobq.queues}, node => $node);
poll_until('counters are exact again', 'SELECT bool_and(exact) FROM jobq.queues', node => $node);
verify_ok($node, 'verify at the end');
server_alive_ok($node);
$node->stop;
done_testing();
