# metrics() as a monitoring system reads it: directly, through Debian's exporter, in the dashboard; and sql/tools/jobq-top.sql.
use strict;
use warnings;

use HTTP::Tiny;
use IPC::Run ();
use JSON::PP ();
use Jobq;
use JobqSession;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('main', conf => "jobq.max_queues = 1200\njobq.rescan_interval = 1s\n");
my $sql = sub { return $node->safe_psql('postgres', shift) };

# A text in the format of Prometheus: metric => type, and series => value. Dies where a line is none.
sub read_metrics
{
	my ($text) = @_;
	my (%type, %help, %series, $last);
	die "no newline at the end" unless $text =~ /\n\z/;
	for (split /\n/, $text)
	{
		if (/^# HELP (\w+) \S/) { die "HELP twice: $_" if $help{$1}++; $last = $1; next }
		if (/^# TYPE (\w+) (gauge|counter|histogram|untyped)$/) { die "TYPE without HELP: $_" unless $last eq $1; $type{$1} = $2; next }
		/^((\w+?)(?:_bucket|_sum|_count)?(?:\{(?:\w+="(?:[^"\\\n]|\\[\\n"])*",?)*\})?) (-?[0-9.e+]+|NaN)$/ or die "not a sample: $_";
		my ($series, $value) = ($1, $3);
		my ($name) = $series =~ /^(\w+)/;
		die "a sample apart from its metric: $_" unless $name eq $last || ($name =~ /^\Q$last\E_(bucket|sum|count)$/ && $type{$last} eq 'histogram');
		die "twice: $_" if exists $series{$series};
		$series{$series} = $value;
	}
	return (\%type, \%series);
}

# Groups by state as the counters have them, and as the view counts them.
my $counted = q{SELECT queue, groups_ready, groups_waiting, groups_leased, groups_migrating, groups_blocked, ready, delayed, pending, active, dead FROM jobq.queue_metrics() ORDER BY 1};
my $seen = q{
	SELECT q.queue, g.ready, g.waiting, g.leased, g.migrating, g.blocked, j.ready, j.delayed, j.pending, j.active, j.dead
	FROM jobq.queues q, LATERAL (
		SELECT count(*) FILTER (WHERE state = 'READY') AS ready, count(*) FILTER (WHERE state = 'WAIT') AS waiting, count(*) FILTER (WHERE state = 'LEASED') AS leased,
			count(*) FILTER (WHERE state = 'MIGRATING') AS migrating, count(*) FILTER (WHERE state = 'BLOCKED') AS blocked
		FROM jobq.groups g WHERE g.queue = q.queue) g, LATERAL (
		SELECT count(*) FILTER (WHERE state = 'ready') AS ready, count(*) FILTER (WHERE state = 'delayed') AS delayed, count(*) FILTER (WHERE state = 'pending') AS pending,
			count(*) FILTER (WHERE state = 'active') AS active, count(*) FILTER (WHERE state = 'dead') AS dead
		FROM jobq.jobs j WHERE j.queue = q.queue) j ORDER BY 1};
sub counts_ok
{
	my ($what) = @_;
	my ($a, $b);
	my $same = poll_until("$what: counters are those of the tables", sub { ($a, $b) = ($sql->($counted), $sql->($seen)); return $a eq $b }, limit => 20);
	ok($same, "$what: counters are those of the tables") or diag("counters:\n$a\ntables:\n$b");
	return;
}

# Some of everything, with savepoints, rollbacks, ended leases, drains, pauses and purges.
$sql->(q{
	SELECT jobq.create_queue('orders', backoff => 'fixed', backoff_base => '1 hour', lease => '1 min');
	SELECT jobq.create_queue('pass', backoff => 'fixed', backoff_base => '1 hour', on_retry => 'pass', on_dead => 'skip', isolate_above => 3);
	SELECT jobq.create_queue('odd "name" \ {}');
	SELECT count(jobq.enqueue(q, to_jsonb(n), group_key => 'g' || n % 40, max_attempts => 1 + n % 2)) FROM generate_series(1, 160) n, unnest('{orders,pass}'::text[]) q;
	SELECT count(jobq.enqueue('odd "name" \ {}', delay => CASE WHEN n % 2 = 0 THEN interval '1 h' ELSE '0' END)) FROM generate_series(1, 10) n;
});
counts_ok('enqueued');
$sql->(q{SELECT count(*) FROM jobq.dequeue('orders', 12, worker => 'w1', group_batch => 2)});
$sql->(q{SELECT count(*) FROM jobq.dequeue('pass', 12, worker => 'w2')});
$sql->(q{SELECT count(*) FROM jobq.dequeue('orders', 3, lease => '10 ms', worker => 'w3')});
counts_ok('taken');
$sql->(q{BEGIN; SELECT count(*) FROM jobq.dequeue('orders', 5); SAVEPOINT s; SELECT count(*) FROM jobq.dequeue('pass', 5); ROLLBACK TO s; ROLLBACK});
$sql->(q{BEGIN; SAVEPOINT s; SELECT count(*) FROM jobq.dequeue('pass', 2); ROLLBACK TO s; SELECT count(*) FROM jobq.dequeue('pass', 2, worker => 'w4'); COMMIT});
counts_ok('rolled back');
$sql->(q{SELECT jobq.drain_worker('w1', step => 3, pause => '1 h')});
counts_ok('draining');
# ends what a worker has: completed, failed, released, by turns
my $end = q{
	WITH mine AS (SELECT j.job_id, l.token, row_number() OVER (ORDER BY j.job_id) AS n FROM jobq.lease l, unnest(l.job_ids[1:1]) j (job_id) WHERE l.worker = '%s')
	SELECT count(CASE n %% 3 WHEN 0 THEN jobq.complete(job_id, token)::text WHEN 1 THEN jobq.fail(job_id, token, 'no') ELSE jobq.release(job_id, token)::text END) FROM mine};
$sql->(sprintf $end, $_) for qw(w1 w2);
counts_ok('ended');
$sql->(q{SELECT count(jobq.pause_group(q, 'g' || n)) FROM generate_series(0, 39, 3) n, unnest('{orders,pass}'::text[]) q});
counts_ok('paused');
$sql->(q{SELECT count(jobq.resume_group('orders', 'g' || n)) FROM generate_series(0, 39, 6) n});
$sql->(q{SELECT count(jobq.unblock_group(queue, group_key, CASE WHEN row_number % 2 = 0 THEN 'skip' ELSE 'retry' END)) FROM (SELECT *, row_number() OVER () FROM jobq.blocked_groups WHERE reason = 'blocked') b});
counts_ok('let go');
$sql->(q{SELECT jobq.purge_queue('pass', '{ready,delayed,dead}')});
counts_ok('purged');
# after a crash the counts are those of the tables again
$node->stop('immediate');
$node->start;
ok(poll_until('counts are kept again', "SELECT bool_and(exact = 1) FROM jobq.queue_metrics()", node => $node), 'counts are kept again after a crash');
counts_ok('after a crash');
$sql->(q{SELECT count(*) FROM jobq.dequeue('orders', 4, worker => 'w1')});
$sql->(q{WITH d AS MATERIALIZED (SELECT * FROM jobq.dequeue('odd "name" \ {}', 3)) SELECT count(jobq.complete(job_id, token)) FROM d});
$sql->(q{SELECT count(*) FROM jobq.dequeue('odd "name" \ {}')});

# the text
my ($type, $series) = read_metrics($sql->('SELECT jobq.metrics()') . "\n");
cmp_ok(scalar keys %$type, '>=', 35, 'metrics() tells many metrics');
is($series->{'jobq_queue_completed_total{queue="odd \"name\" \\\\ {}"}'}, 3, 'labels are escaped');
is($series->{'jobq_scheduler_running'}, 1, 'the scheduler runs');
for my $name (grep { $type->{$_} eq 'histogram' } sort keys %$type)
{
	my ($last, $bounds) = (0, 0);
	for (sort { $a->[0] <=> $b->[0] } map { /^\Q$name\E_bucket\{queue="orders",le="(.*)"\}/ ? [ $1 eq '+Inf' ? 9e99 : $1, $series->{$_} ] : () } keys %$series)
	{
		cmp_ok($_->[1], '>=', $last, "$name up to $_->[0]: cumulative");
		($last, $bounds) = ($_->[1], $bounds + 1);
	}
	is($bounds, 15, "$name has its buckets");
	is($series->{"${name}_count{queue=\"orders\"}"}, $last, "$name: the last one is the count");
}
is($series->{'jobq_queue_run_seconds_count{queue="odd \"name\" \\\\ {}"}'}, 3, 'each completion has a run time');

# what holds dead rows back shows
my $old = JobqSession->new($node);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$sql->('SELECT txid_current()') for 1 .. 3;
ok(poll_until('an old snapshot shows', 'SELECT horizon_age_seconds > 0.2 AND horizon_age_transactions >= 3 FROM jobq.database_metrics()', node => $node), 'an old snapshot shows');
$old->query('COMMIT');
$old->close;
ok(poll_until('and goes', 'SELECT horizon_age_seconds < 0.2 FROM jobq.database_metrics()', node => $node), 'and goes');

# Debian's exporter, with the file of queries that we ship
my $exporter = '/usr/bin/prometheus-postgres-exporter';
ok(-x $exporter, 'the exporter is installed: test/lib/install-deps.sh test') or BAIL_OUT('no exporter');
$sql->(q{CREATE ROLE watcher LOGIN IN ROLE pg_monitor});
my $port = PostgreSQL::Test::Cluster::get_free_port();
my ($out, $err) = ('', '');
local $ENV{DATA_SOURCE_NAME} = sprintf 'user=watcher host=%s port=%d dbname=postgres sslmode=disable', $node->host, $node->port;
my $process = IPC::Run::start(
	[ $exporter, "--web.listen-address=127.0.0.1:$port", '--extend.query-path=doc/monitoring/jobq.yaml', '--disable-default-metrics', '--disable-settings-metrics' ],
	'<', \undef, '>', \$out, '2>', \$err);
END { local $?; $process->kill_kill if $process; }
my $http = HTTP::Tiny->new(timeout => 10);
my $page = '';
my $scraped = poll_until('the exporter answers',
	sub { $process->pump_nb if $process->pumpable; my $r = $http->get("http://127.0.0.1:$port/metrics"); $page = $r->{content} if $r->{success}; return $page =~ /^jobq_queue_ready\{/m },
	limit => 30);
ok($scraped, 'the exporter shows our metrics') or diag("$err\n$page");
my ($their_type, $theirs) = ({}, {});
if ($scraped)
{
	($their_type, $theirs) = read_metrics(join '', grep { /^(# (HELP|TYPE) )?jobq_/ } map { "$_\n" } split /\n/, $page);
}
is_deeply($their_type, $type, 'the exporter has all metrics that metrics() has, of the same types');
my %bare = map { my $v = $theirs->{$_}; s/,?server="[^"]*"//; s/\{\}$//; ($_ => $v) } keys %$theirs;
is($bare{'jobq_queue_dead{queue="orders"}'}, $sql->(q{SELECT dead FROM jobq.queues WHERE queue = 'orders'}), 'the same numbers');
is($bare{'jobq_queue_run_seconds_count{queue="odd \"name\" \\\\ {}"}'}, 3, 'histograms too');
is($bare{'jobq_queue_run_seconds_bucket{queue="odd \"name\" \\\\ {}",le="+Inf"}'}, 3, 'with their buckets');
unlike($page, qr/^pg_exporter_last_scrape_error\S* 1$/m, 'and no error in its queries');
$process->kill_kill;

# the dashboard: every metric that it asks for is told
my $dashboard = JSON::PP::decode_json(slurp_file('doc/monitoring/jobq-dashboard.json'));
my %asked;
for my $panel (@{ $dashboard->{panels} })
{
	cmp_ok(scalar @{ $panel->{targets} }, '>', 0, "dashboard: '$panel->{title}' has an expression");
	$asked{$_}++ for map { $_->{expr} =~ /\b(jobq_\w+)/g } @{ $panel->{targets} };
}
$asked{$_}++ for map { ($_->{definition} // '') =~ /\b(jobq_\w+)/g } @{ $dashboard->{templating}{list} };
my %told = map { /^(\w+)/ ? ($1 => 1) : () } keys %$series;
is(join(' ', grep { !$told{$_} } sort keys %asked), '', 'every metric of the dashboard is emitted');
my %shown = map { (my $n = $_) =~ s/_(bucket|sum|count)$//; ($n => 1) } keys %asked;
is(join(' ', grep { !$shown{$_} } sort keys %$type), '', 'and every metric is on the dashboard');

# jobq-top: some rounds of it, over a connection of the monitoring role
$sql->(q{SELECT jobq.pause_queue('pass'); SELECT jobq.pause_group('orders', 'g39')});
$sql->('SELECT count(*) FROM jobq.queue_rates()');
my ($top_in, $top, $top_err) = ('', '', '');
my $watch = IPC::Run::start(
	[ $node->installed_command('psql'), '-X', '-d', sprintf('host=%s port=%d dbname=postgres user=watcher', $node->host, $node->port), '-v', 'every=0.3', '-v', 'clear=0', '-f', 'sql/tools/jobq-top.sql' ],
	'<', \$top_in, '>', \$top, '2>', \$top_err);
my $sent = 0;
my $rounds = poll_until('jobq-top shows some rounds', sub {
	$watch->pump_nb if $watch->pumpable;
	my $n = () = $top =~ /^jobq in /mg;
	$sql->(q{SELECT count(jobq.enqueue('odd "name" \ {}')) FROM generate_series(1, 50)}) if $n >= 1 && !$sent++;
	return $n >= 4 && $top =~ /^odd "name" \\ \{\} .* [1-9]\d*\.\d +0\.0 +0\.0  #+$/m;
}, limit => 60);
ok($rounds, 'jobq-top goes on, and shows how many jobs come per second') or diag($top);
$watch->signal('INT');
$watch->kill_kill;
is($top_err, '', 'without an error');
my ($orders) = $top =~ /^(orders .*)$/m;
my @columns = split ' ', $orders // '';
is_deeply([ @columns[ 1 .. 5 ] ], [ split /\|/, $sql->(q{SELECT ready, delayed, pending, active, dead FROM jobq.queues WHERE queue = 'orders'}) ], 'with the right numbers') or diag($top);
like($top, qr/^pass \(paused\)/m, 'a paused queue');
like($top, qr{^  orders / g39: paused since }m, 'a paused group');
my $groups = $sql->(q{SELECT format('groups: %s ready, %s waiting, %s leased, %s migrating, %s blocked', sum(groups_ready), sum(groups_waiting), sum(groups_leased), sum(groups_migrating), sum(groups_blocked)) FROM jobq.queue_metrics()});
like($top, qr/^\Q$groups\E$/m, 'groups by state');
like($top, qr/^oldest running jobs .*\n\d+ orders  +\d\d:\d\d:\d\d  \d of \d/m, 'the oldest running jobs');
my ($leases, $jobs) = split /\|/, $sql->(q{SELECT leases, jobs FROM jobq.workers WHERE worker = 'w1' AND queue = 'orders'});
like($top, qr/^w1 +orders +$leases +$jobs +0  #{20}$/m, 'the workers');

# a thousand queues
$sql->(q{SELECT count(jobq.create_queue('many ' || n)) FROM generate_series(1, 1000) n; SELECT count(jobq.enqueue('many ' || n)) FROM generate_series(1, 1000) n});
my $session = JobqSession->new($node);
$session->query('SELECT length(jobq.metrics())'); # a session learns of the queues once
my $best = 9e9;
for (1 .. 10)
{
	my $begin = Time::HiRes::time();
	$session->query('SELECT length(jobq.metrics())');
	my $took = Time::HiRes::time() - $begin;
	$best = $took if $took < $best;
}
cmp_ok($best, '<', 0.1 * ($ENV{JOBQ_TIMEOUT_SCALE} // 1), "metrics() of a thousand queues takes less than 100 ms");
note(sprintf '%.1f ms', $best * 1000);
$session->close;
(undef, $series) = read_metrics($sql->('SELECT jobq.metrics()') . "\n");
is(scalar(grep { /^jobq_queue_ready\{queue="many / && $series->{$_} == 1 } keys %$series), 1000, 'and tells all of them');
my @order = $sql->('SELECT jobq.metrics()') =~ /^jobq_queue_ready\{queue="(many \d+)"/mg;
is_deeply(\@order, [ map { "many $_" } 1 .. 1000 ], 'in the order in which they were made');

verify_ok($node);
server_alive_ok($node);
done_testing();
