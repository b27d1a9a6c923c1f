# Limits under load: never one more than allowed, also across a crash; a rate in every window of time.
use strict;
use warnings;

use Jobq;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $seconds = $ENV{JOBQ_LIMIT_SECONDS} || 6;
my $node = jobq_node('limits', conf => "max_connections = 120\n");

sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(q{
	CREATE TABLE sample (n bigint);
	-- how many jobs of the queue are under a lease, as a job that runs sees it
	CREATE FUNCTION sample(q text) RETURNS void LANGUAGE sql AS $$
		INSERT INTO sample SELECT count(*) FROM jobq.lease l CROSS JOIN unnest(l.job_ids) i JOIN jobq.job j ON j.id = i
			JOIN jobq.queue ON queue.id = j.queue_id WHERE queue.name = $1
	$$;
	SELECT jobq.create_queue('five', concurrency => 5, lease => '10 min');
	SELECT jobq.create_queue('paced', rate_limit => 50, rate_burst => 10);
	SELECT jobq.create_queue('one', concurrency => 3, limit_name => 'shared'), jobq.create_queue('two', concurrency => 3, limit_name => 'shared');
});

sub fill { return sql("SELECT count(*) FROM jobq.enqueue_many('$_[0]', (SELECT jsonb_agg(i) FROM generate_series(1, $_[1]) i))"); }

# Workers that take, look, work a little and complete; some fail, release or roll back.
my $script = PostgreSQL::Test::Utils::tempdir() . '/worker.sql';
append_to_file($script, q{
\set what random(1, 10)
SELECT coalesce(max(job_id), 0) AS j, coalesce(max(token), 0) AS t FROM jobq.dequeue('five', wait => '200 ms') \gset
\if :j > 0
SELECT sample('five');
\sleep 3 ms
\if :what = 1
SELECT jobq.fail(:j, :t, retry_in => '0');
\elif :what = 2
SELECT jobq.release(:j, :t);
\elif :what = 3
BEGIN;
SELECT jobq.complete(:j, :t);
SELECT count(*) FROM jobq.dequeue('five');
ROLLBACK;
SELECT jobq.complete(:j, :t);
\else
SELECT jobq.complete(:j, :t);
\endif
\endif
});

sub work
{
	my ($clients, $time) = @_;
	return $node->command_ok([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-T', $time, '-f', $script, 'postgres' ],
		"$clients workers for $time s");
}

fill('five', 30000);
work(50, $seconds);
is(sql('SELECT max(n) FROM sample'), 5, 'never more than five at a time, and five there were');
cmp_ok(sql('SELECT count(*) FROM sample'), '>', 100, 'they have worked');
is(sql(q{SELECT active FROM jobq.queues WHERE queue = 'five'}), 0, 'none is left over');

# two hundred that wait for a full limit cost nothing
is(sql(q{SELECT count(*) FROM jobq.dequeue('five', 10)}), 5, 'the limit is used up');
append_to_file("$script.idle", q{SELECT count(*) FROM jobq.dequeue('five', wait => '3 s');});
my $ticks = sub {
	my $sum = 0;
	for my $pid (split /\n/, sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND query LIKE '%wait => ''3 s''%' AND pid <> pg_backend_pid()}))
	{
		my @stat = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //sr;
		$sum += $stat[11] + $stat[12];
	}
	return $sum;
};
my $idle = IPC::Run::start([ 'pgbench', '-n', '-c', 100, '-j', 2, '-t', 1, '-f', "$script.idle", '-h', $node->host, '-p', $node->port, 'postgres' ],
	'>', \my $out, '2>', \my $err);
poll_until('100 wait', q{SELECT count(*) >= 100 FROM pg_stat_activity WHERE query LIKE '%wait => ''3 s''%' AND wait_event_type = 'Extension'},
	node => $node, limit => 20);
my $before = $ticks->();
Time::HiRes::sleep(1);	# the time that is measured
my $used = $ticks->() - $before;
cmp_ok($used, '<=', 5, "they cost nothing in a second ($used ticks of 10 ms)");
$idle->finish;
sql(q{SELECT jobq.release(i, l.token) FROM jobq.lease l, unnest(l.job_ids) i});

# five leases that live on over a crash
is(sql(q{SET jobq.async_dequeue = off; SELECT count(*) FROM jobq.dequeue('five', 10)}), 5, 'five are taken');
$node->stop('immediate');
$node->start;
is(sql(q{SELECT count(*) FROM jobq.dequeue('five', 10)}), 0, 'after a crash they count at once');
sql('TRUNCATE sample');
work(20, 2);
is(sql('SELECT count(*) FROM sample'), 0, 'nobody gets a sixth');
sql(q{SELECT jobq.release(i, l.token) FROM jobq.lease l, unnest(l.job_ids) i});
work(50, 3);
is(sql('SELECT max(n) FROM sample'), 5, 'and then five again');

# a limit that two queues share
fill('one', 100);
fill('two', 100);
my @taken = map { sql("SELECT count(*) FROM jobq.dequeue('$_', 2)") } qw(one two one two);
is("@taken", '2 1 0 0', 'two queues share three');

# any second: rate and burst
fill('paced', 1000);
append_to_file("$script.paced", q{
SELECT coalesce(max(job_id), 0) AS j, coalesce(max(token), 0) AS t FROM jobq.dequeue('paced', wait => '500 ms') \gset
\if :j > 0
SELECT jobq.complete(:j, :t);
\endif
});
$node->command_ok([ 'pgbench', '-n', '-c', 8, '-T', 4, '-f', "$script.paced", 'postgres' ], 'eight workers at a rate');
my ($most, $all) = split /\|/, sql(q{SELECT max(n), count(*) FROM (
	SELECT count(*) OVER (ORDER BY started RANGE BETWEEN CURRENT ROW AND '999999 us' FOLLOWING) AS n
	FROM jobq.jobs WHERE queue = 'paced' AND state = 'completed') w});
cmp_ok($most, '<=', 60, "no second has more than 60 starts ($most)");
cmp_ok($all, '>=', 170, "and the rate is used ($all)");

is(sql('SELECT * FROM jobq.verify()'), '', 'verify');
done_testing();
