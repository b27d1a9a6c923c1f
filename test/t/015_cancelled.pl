# Many running jobs are asked to stop, and their holder never comes back: each ends as cancelled, with its own payload.
use strict;
use warnings;

use Jobq;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = jobq_node('cancelled');

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

# more than are written to the history at a time
my $n = 300;
sql(q{SELECT jobq.create_queue('q')});
sql("SELECT count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(jsonb_build_object('n', g, 'pad', repeat('x', g % 50))) FROM generate_series(1, $n) g))");
sql(q{CREATE TABLE taken AS SELECT job_id, payload FROM jobq.dequeue('q', 1000, lease => '1 s')});
is(sql(q{SELECT count(*) FROM (SELECT jobq.cancel(job_id) AS c FROM taken) x WHERE c = 'running'}), $n, 'all are asked to stop');
ok(poll_until('their leases end', q{SELECT count(*) = 0 FROM jobq.job}, node => $node, limit => 30), 'they end with their leases');
is(sql(q{SELECT count(*) FROM jobq.jobs j JOIN taken t USING (job_id) WHERE j.state = 'cancelled' AND j.payload = t.payload}), $n,
	'each is in the history as cancelled, with its own payload');
is(sql(q{SELECT cancelled_total FROM jobq.queues}), $n, 'and counted');
verify_ok($node);
server_alive_ok($node);
done_testing();
