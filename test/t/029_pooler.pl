# Through PgBouncer in transaction mode every verb works, and none leaves anything behind in the server's session.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Utils;
use Test::More;

my ($pgbouncer) = grep { -x } '/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', map { "$_/pgbouncer" } split /:/, $ENV{PATH};
plan skip_all => 'pgbouncer is not installed' unless $pgbouncer;

my $node = jobq_node('main', conf => "jobq.rescan_interval = 1s\n");
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $port = PostgreSQL::Test::Cluster::get_free_port();
my ($host, $server_port) = ($node->host, $node->port);
my $user = getpwuid($<); # auth_type any: it is named in the connection to the server
append_to_file("$dir/pgbouncer.ini", <<"INI");
[databases]
postgres = host=$host port=$server_port dbname=postgres user=$user
[pgbouncer]
listen_addr =
unix_socket_dir = $dir
listen_port = $port
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
logfile = $dir/log
pidfile = $dir/pid
ignore_startup_parameters = extra_float_digits
INI
my ($out, $err) = ('', '');
my $pooler = IPC::Run::start([ $pgbouncer, "$dir/pgbouncer.ini" ], '<', \undef, '>', \$out, '2>', \$err);
END { local $?; $pooler->kill_kill if $pooler; }

sub client { return JobqSession->new($node, host => $dir, port => $port); }
my $up = poll_until('the pooler is up', sub { $pooler->pump_nb if $pooler->pumpable; return -S "$dir/.s.PGSQL.$port"; }, limit => 20);
BAIL_OUT("pgbouncer did not start: $err") unless $up;

# Sessions of the pool, and what they hold between transactions.
my $pool = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()};
my @c = map { client() } 1 .. 5;
# Those of plpgsql come when it is loaded.
my $settings = q{SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings WHERE name NOT LIKE 'plpgsql.%' AND setting <> boot_val};
my $clean = $c[0]->query($settings);
my $sql = sub { return $node->safe_psql('postgres', shift); };

sub clean_ok
{
	my ($what) = @_;
	is($sql->("SELECT count(*) FROM pg_locks WHERE pid IN ($pool)"), '0', "$what: no lock is left");
	is($sql->("SELECT count(*) FROM pg_stat_activity WHERE pid IN ($pool) AND (state <> 'idle' OR backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)"), '0',
		"$what: and no transaction");
	for my $client (@c[ 0, 1 ])
	{
		is($client->query($settings), $clean, "$what: settings are as they were");
		is($client->query('SELECT count(*) FROM pg_prepared_statements'), '0', "$what: no prepared statement");
		is($client->query('SELECT count(*) FROM pg_cursors WHERE name <> \'\''), '0', "$what: no cursor");
		is($client->query('SELECT count(*) FROM pg_class WHERE pg_is_other_temp_schema(relnamespace) OR relnamespace = pg_my_temp_schema()'), '0', "$what: no temporary table");
	}
	return;
}

# Two clients side by side, so that one client's next statement runs in another session.
my $turn = 0;
sub any { return $c[ $turn++ % @c ]; }

any()->query(q{SELECT jobq.create_queue('dlq'); SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '0 s', dead_letter_queue => NULL)});
any()->query(q{SELECT jobq.alter_queue('q', lease => '1 hour')});
any()->query(q{SELECT jobq.rename_queue('dlq', 'other')});
any()->query(q{SELECT jobq.pause_queue('q')});
any()->query(q{SELECT jobq.resume_queue('q')});
my $id = any()->query(q{SELECT jobq.enqueue('q', '{"n": 1}', name => 'x')});
is(any()->query(q{SELECT count(*) FROM jobq.enqueue_many('q', '[1, 2, 3, 4, 5, 6, 7, 8, 9]')}), '9', 'enqueue_many');
my ($job, $token) = split /\|/, any()->query(q{SELECT job_id, token FROM jobq.dequeue('q', worker => 'w')});
is($job, $id, 'dequeue');
is(any()->query("SELECT jobq.extend($id, $token)"), 'ok', 'extend, in another session than the dequeue');
is(any()->query("SELECT jobq.progress($id, $token, '50')"), '', 'progress');
is(any()->query("SELECT jobq.assert_lease($id, $token)"), '', 'assert_lease');
is(any()->query("SELECT jobq.fence('r', $token)"), '', 'fence');
is(any()->query("SELECT jobq.complete($id, $token, '{}')"), 't', 'complete');
is(any()->query("SELECT jobq.ack($id, $token)"), 'f', 'ack, once more');
clean_ok('single verbs');

($job, $token) = split /\|/, any()->query(q{SELECT job_id, token FROM jobq.dequeue('q')});
my ($next, $next_token) = split /\|/, any()->query("SELECT job_id, token FROM jobq.complete_and_dequeue($job, $token, 'q')");
isnt($next, $job, 'complete_and_dequeue');
is(any()->query("SELECT jobq.nack($next, $next_token)"), 'retry', 'nack');
($next, $next_token) = split /\|/, any()->query(q{SELECT job_id, token FROM jobq.dequeue('q')});
is(any()->query("SELECT jobq.release($next, $next_token)"), '', 'release');
($next, $next_token) = split /\|/, any()->query(q{SELECT job_id, token FROM jobq.dequeue('q')});
is(any()->query("SELECT jobq.fail($next, $next_token, 'broken', retry => false)"), 'dead', 'fail');
is(any()->query(q{SELECT jobq.redrive('q')}), '1', 'redrive');
my @many = map { [ split /\|/ ] } split /\n/, any()->query(q{SELECT job_id, token FROM jobq.dequeue('q', 4)});
my $ids = 'ARRAY[' . join(',', map { $_->[0] } @many) . ']::bigint[]';
my $tokens = 'ARRAY[' . join(',', map { $_->[1] } @many) . ']::bigint[]';
is(any()->query("SELECT string_agg(DISTINCT status, ',') FROM jobq.extend_many($ids, $tokens)"), 'ok', 'extend_many');
is(any()->query("SELECT string_agg(DISTINCT status, ',') FROM jobq.complete_many(($ids)[1:2], ($tokens)[1:2])"), 'ok', 'complete_many');
is(any()->query("SELECT string_agg(DISTINCT status, ',') FROM jobq.fail_many(($ids)[3:3], ($tokens)[3:3])"), 'retry', 'fail_many');
is(any()->query("SELECT string_agg(DISTINCT status, ',') FROM jobq.release_many(($ids)[4:4], ($tokens)[4:4])"), 'ok', 'release_many');
$job = any()->query(q{SELECT jobq.enqueue('q', delay => '1 hour')});
is(any()->query("SELECT jobq.reschedule($job, priority => 5)"), '', 'reschedule');
is(any()->query("SELECT jobq.run_now(ARRAY[$job])"), '1', 'run_now');
is(any()->query("SELECT jobq.cancel($job)"), 'cancelled', 'cancel');
is(any()->query("SELECT state FROM jobq.job($job)"), 'cancelled', 'job');
like(any()->query("SELECT jobq.explain_job($job)"), qr/^cancelled/, 'explain_job');
is(any()->query("SELECT jobq.delete_jobs(ARRAY[$job])"), '1', 'delete_jobs');
is(any()->query("SELECT count(*) > 0 FROM jobq.$_"), 't', "view $_") for qw(queues jobs);
any()->query("SELECT count(*) FROM jobq.$_") for qw(workers dead_letters);
clean_ok('all verbs');

# Waiting, alone in a transaction, occupies a session of the pool; the others go on beside it.
$c[0]->send(q{CALL jobq.wait('other', '1 hour')});
$c[1]->query('SELECT 1');
poll_until('somebody waits', "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid IN ($pool) AND wait_event_type = 'Extension'", node => $node);
is($sql->("SELECT count(*) FROM pg_locks WHERE locktype <> 'virtualxid' AND pid IN ($pool)"), '0', 'CALL wait holds no lock');
$id = $c[1]->query(q{SELECT jobq.enqueue('other')});
is($c[0]->result, 't', 'CALL wait');
$c[0]->query(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('other')});
$c[0]->send(q{SELECT job_id FROM jobq.dequeue('other', wait => '1 hour')});
poll_until('somebody waits again', "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid IN ($pool) AND wait_event_type = 'Extension'", node => $node);
$id = $c[2]->query(q{SELECT jobq.enqueue('other')});
is($c[0]->result, $id, 'dequeue with a wait');
clean_ok('waits');

# A client that dies in a transaction gives back what it took.
my $dying = client();
$dying->query('BEGIN');
($job) = split /\|/, $dying->query(q{SELECT job_id FROM jobq.dequeue('q')});
is($sql->("SELECT count(*) FROM pg_stat_activity WHERE pid IN ($pool) AND state = 'idle in transaction'"), '1', 'a client in a transaction');
$dying->close;
poll_until('it is lost, and its transaction', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid IN ($pool) AND state = 'idle in transaction'", node => $node, limit => 20);
my $taken = $c[0]->query(q{SELECT job_id FROM jobq.dequeue('q', 1000)});
like($taken, qr/^$job$/m, 'its job can be taken');
$c[1]->query(q{SELECT count(*) FROM (SELECT jobq.release(u.job_id, l.token) FROM jobq.lease l, unnest(l.job_ids) u (job_id) JOIN jobq.job j ON j.id = u.job_id) x});
clean_ok('a lost client');

# A load through the pool: pgbench with the simple protocol, many clients, two sessions.
append_to_file("$dir/load.sql", <<'SQL');
SELECT count(*) FROM jobq.enqueue_many('q', '[1, 2, 3]');
SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q', 3)) x;
BEGIN;
SELECT count(*) FROM jobq.dequeue('q', 2);
ROLLBACK;
SQL
{
	local $ENV{PGHOST} = $dir;
	local $ENV{PGPORT} = $port;
	command_ok([ $node->installed_command('pgbench'), '-n', '-c', '8', '-T', '3', '-M', 'simple', '-f', "$dir/load.sql", 'postgres' ], 'a load through the pool');
}
poll_until('all jobs get done', sub {
	any()->query(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q', 1000)) x});
	return any()->query(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'q' AND state IN ('ready', 'delayed', 'active')}) eq '0';
}, limit => 20);
clean_ok('load');
is(any()->query(q{SELECT jobq.purge_queue('q', '{dead,completed}') > 0}), 't', 'purge_queue');
is(any()->query(q{SELECT jobq.drop_queue('q')}), '', 'drop_queue');
clean_ok('at the end');
$_->close for @c;
poll_until('counters are exact', 'SELECT bool_and(exact) FROM jobq.queues', node => $node);
verify_ok($node);
$pooler->signal('INT');
$pooler->finish;
undef $pooler;
server_alive_ok($node);
$node->stop;
done_testing();
