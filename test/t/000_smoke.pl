# The extension loads, says what it needs, and is the version it claims to be.
use strict;
use warnings;

use Jobq;
use Test::More;

# Without preloading: one clear error, and what to do.
my $bare = jobq_node('bare', preload => '');
my ($state, $message) = sqlstate_of($bare, 'CREATE EXTENSION jobq');
if ($state eq '00000')
{
	# Creating it may be allowed; calling it is not.
	($state, $message) = sqlstate_of($bare, q{SELECT jobq.create_queue('q')});
}
is($state, '55000', 'not preloaded: object_not_in_prerequisite_state');
like($message, qr/HINT:.*shared_preload_libraries/s, 'the hint names the setting');
server_alive_ok($bare, 'the refusal crashed nothing');
$bare->stop;

my $node = jobq_node('main');
is($node->safe_psql('postgres', q{SELECT extversion FROM pg_extension WHERE extname = 'jobq'}), '0.1.0', 'version');
is( $node->safe_psql('postgres', q{SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'jobq'}),
	'jobq', 'lives in schema jobq');

# One job's life.
$node->safe_psql('postgres', q{SELECT jobq.create_queue('smoke')});
my $id = $node->safe_psql('postgres', q{SELECT jobq.enqueue('smoke', '{"n": 1}')});
my ($job, $token, $payload) =
  split /\|/, $node->safe_psql('postgres', q{SELECT job_id, token, payload FROM jobq.dequeue('smoke')});
is($job, $id, 'the job that was enqueued is dequeued');
is($payload, '{"n": 1}', 'with its payload');
is($node->safe_psql('postgres', "SELECT jobq.complete($id, $token)"), 't', 'and completed');
is($node->safe_psql('postgres', q{SELECT count(*) FROM jobq.dequeue('smoke')}), '0', 'once');
verify_ok($node);

# It survives a crash of the server, and goes when dropped.
$node->stop('immediate');
$node->start;
verify_ok($node, 'verify after a crash');
$node->safe_psql('postgres', 'DROP EXTENSION jobq');
is( $node->safe_psql('postgres',
		q{SELECT count(*) FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'jobq')}),
	'0', 'DROP EXTENSION leaves no table');
$node->safe_psql('postgres', 'CREATE EXTENSION jobq');
verify_ok($node, 'verify after it was created again');
$node->stop;
server_alive_ok($node);

done_testing();
