# A dump, restored anywhere, and a database made from a template carry every job and run none of them until adopt(). Ids and tokens
# of the copy go on behind those of the original.
use strict;
use warnings;

use Jobq;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "jobq.scheduler_idle_timeout = 1s\njobq.rescan_interval = 1s\n";
my $node = jobq_node('main', conf => $conf, extension => 0);
my $other = jobq_node('other', conf => $conf, extension => 0);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $pg_dump = $node->installed_command('pg_dump');
my $pg_restore = $node->installed_command('pg_restore');

sub sql
{
	my ($query, $db, $where) = @_;
	return ($where // $node)->safe_psql($db // 'src', $query);
}

# Runs a program on a server.
sub run_ok
{
	my ($what, $where, @command) = @_;
	local $ENV{PGHOST} = $where->host;
	local $ENV{PGPORT} = $where->port;
	command_ok(\@command, $what);
	return;
}

# CREATE DATABASE .. TEMPLATE and RENAME want nobody connected: a scheduler that is idle leaves.
sub sql_when_free
{
	my ($what, $query) = @_;
	my $err;
	return poll_until($what, sub { my $rc; ($rc, undef, $err) = $node->psql('postgres', $query); return $rc == 0; }) || diag($err);
}

# All there is, but for what a session or a clock changes.
my $picture = q{
	SELECT row_to_json(j) FROM (SELECT f.* FROM jobq.job_full f ORDER BY job_id) j
	UNION ALL SELECT row_to_json(q) FROM (SELECT queue, paused, ready, delayed, pending, active, dead, dead_letter_queue, max_attempts, lease, timeout,
		backoff, backoff_base, backoff_cap, keep_completed, keep_dead, max_payload_bytes, notify, owner, created FROM jobq.queues ORDER BY queue) q
	UNION ALL SELECT row_to_json(d) FROM (SELECT * FROM jobq.dependency ORDER BY job_id, on_job) d
	UNION ALL SELECT row_to_json(f) FROM (SELECT * FROM jobq.resource_fence ORDER BY resource) f
	UNION ALL SELECT row_to_json(f) FROM (SELECT * FROM jobq.failure ORDER BY job_id, attempt) f};

$node->safe_psql('postgres', 'CREATE DATABASE src');
sql(q{
	CREATE EXTENSION jobq;
	SELECT jobq.create_queue('dlq');
	SELECT jobq.create_queue('q', max_attempts => 7, lease => '1 hour', timeout => '2 hours', backoff => 'fixed', backoff_base => '1 hour',
		keep_completed => NULL, dead_letter_queue => NULL, max_payload_bytes => 4000);
	SELECT jobq.create_queue('routed', dead_letter_queue => 'dlq', backoff => 'linear', backoff_cap => '1 min', notify => true);
	SELECT jobq.create_queue('chain');
	SELECT jobq.enqueue('chain', after => ARRAY[jobq.enqueue('chain')]);
	SELECT jobq.enqueue('chain', batch => jobq.open_batch('chain'));
	SELECT jobq.create_queue('paused');
	SELECT jobq.pause_queue('paused');
	SELECT jobq.create_queue('soon', backoff => 'fixed', backoff_base => '0 s');
	SELECT jobq.enqueue('paused', '{"p": 1}', name => 'n', headers => '{"h": 1}')});
sql(q{SELECT count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n))});
sql(q{SELECT count(*) FROM jobq.enqueue_many('q', '[1, 2, 3]', run_at => '2100-01-01')});
sql(q{SELECT count(*) FROM jobq.enqueue_many('q', '[1, 2, 3]', priority => -5)});
sql(q{SELECT jobq.enqueue('routed')});
sql(q{
	CREATE TABLE hand (job_id bigint, token bigint, n int);
	INSERT INTO hand SELECT job_id, token, row_number() OVER () FROM jobq.dequeue('q', 70, worker => 'w');
	INSERT INTO hand SELECT job_id, token, 100 FROM jobq.dequeue('routed');
	SELECT count(*) FROM (SELECT jobq.complete(job_id, token, '{"r": 1}') FROM hand WHERE n BETWEEN 1 AND 10) x;
	SELECT count(*) FROM (SELECT jobq.fail(job_id, token, 'broken') FROM hand WHERE n BETWEEN 11 AND 20) x;
	SELECT count(*) FROM (SELECT jobq.fail(job_id, token, 'hopeless', retry => false) FROM hand WHERE n BETWEEN 21 AND 25 OR n = 100) x;
	SELECT count(*) FROM (SELECT jobq.release(job_id, token) FROM hand WHERE n BETWEEN 26 AND 30) x;
	SELECT jobq.progress(job_id, token, '"half"') FROM hand WHERE n = 31;
	SELECT jobq.cancel(job_id) FROM hand WHERE n = 32;
	SELECT jobq.fence('disk', token) FROM hand WHERE n = 33});
my $states = q{SELECT string_agg(state || '=' || n, ' ' ORDER BY state) FROM (SELECT state, count(*) n FROM jobq.jobs WHERE queue = 'q' GROUP BY state) s};
is(sql($states), 'active=40 completed=10 dead=5 delayed=13 ready=38', 'jobs in every state');
verify_ok($node, 'verify of the original', 'src');
my $before = sql($picture);
my $token = sql('SELECT max(token) FROM hand');
my $fenced = sql('SELECT token FROM hand WHERE n = 33');
my $id = sql('SELECT max(job_id) FROM jobq.job_full');
my $hint = qr/HINT:.*jobq\.adopt\(\)/s;

run_ok('pg_dump', $node, $pg_dump, '-Fc', '-f', "$dir/custom", 'src');
run_ok('pg_dump, plain', $node, $pg_dump, '-f', "$dir/plain", 'src');
run_ok('pg_dump --schema-only', $node, $pg_dump, '--schema-only', '-f', "$dir/schema", 'src');
my $plain = slurp_file("$dir/plain");
unlike($plain, qr/^COPY jobq\.identity/m, 'the identity is not dumped');
like($plain, qr/^COPY jobq\.origin/m, 'its copy is');
for my $object ('queue', 'job', 'ready', 'delayed', 'dependency', 'lease', 'failure', 'dead', 'resource_fence', 'history_far', map { "history_$_" } 0 .. 31)
{
	like($plain, qr/^COPY jobq\.$object /m, "$object is dumped");
}
like($plain, qr/setval\('jobq\.$_'/, "$_ is dumped") for qw(queue_id_seq job_block_seq token_block_seq token_base token_generation token_system);

my %copies; # tokens that copies gave out

# Runs what is in queue "chain", and tells how it ended.
sub chain_runs
{
	my ($db, $where) = @_;
	sql(q{SELECT jobq.close_batch(job_id) FROM jobq.dependencies WHERE state = 'open'}, $db, $where);
	sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('chain')}, $db, $where) for 1 .. 4;
	return sql(q{SELECT string_agg(state, ' ') FROM jobq.jobs WHERE queue = 'chain'}, $db, $where);
}

# What is true of every copy. It changes the copy.
sub check_copy
{
	my ($what, $where, $db) = @_;

	is(sql($picture, $db, $where), $before, "$what: all jobs, queues and settings are there");
	verify_ok($where, "$what: verify before adopt()", $db);
	for my $call (
		q{SELECT * FROM jobq.dequeue('q')},
		q{SELECT * FROM jobq.dequeue('q', wait => '1 min')},
		q{SELECT * FROM jobq.complete_and_dequeue(NULL, NULL, 'q')},
		q{CALL jobq.wait('q', '1 min')})
	{
		my ($state, $message) = sqlstate_of($where, $call, $db);
		is($state, '55000', "$what: refused before adopt(): $call");
		like($message, $hint, "$what: and says what to do");
	}
	# Enqueue works; what is due at once would wake a scheduler, and it says why it does not stay.
	my $new_id = sql(q{SELECT jobq.enqueue('q', '"new"')}, $db, $where);
	cmp_ok($new_id, '>', $id, "$what: ids go on");
	my $due = sql(q{SELECT jobq.enqueue('soon', run_at => now() - interval '1 s')}, $db, $where);
	my $due_later = sql(q{SELECT jobq.enqueue('soon', delay => '10 ms')}, $db, $where);
	poll_until("$what: the scheduler does not run",
		sub { return slurp_file($where->logfile) =~ /jobq scheduler does not run in database "$db": it is a copy that was not adopted/; });
	poll_until("$what: and has left", "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = '$db' AND backend_type = 'jobq scheduler'", node => $where);
	is(sql("SELECT state FROM jobq.job($due_later)", $db, $where), 'delayed', "$what: nothing is done");
	verify_ok($where, "$what: verify after enqueues", $db);

	sql('SELECT jobq.adopt()', $db, $where);
	is(sql($states, $db, $where), 'completed=10 dead=5 delayed=13 ready=79', "$what: adopt() ends the leases, nothing else");
	is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'q' AND state = 'ready' AND attempt > 0}, $db, $where), '0', "$what: no attempt is counted");
	verify_ok($where, "$what: verify after adopt()", $db);
	is(chain_runs($db, $where), 'completed completed completed completed', "$what: jobs that wait for others are let go");
	is((sqlstate_of($where, 'SELECT jobq.complete(job_id, token) FROM hand WHERE n = 40', $db))[0], 'JQ001', "$what: the original's tokens are worth nothing");
	my @jobs = map { [ split /\|/ ] } split /\n/, sql(q{SELECT job_id, token FROM jobq.dequeue('q', 1000)}, $db, $where);
	is(scalar @jobs, 79, "$what: its jobs can be taken");
	my @low = grep { $_->[1] <= $token } @jobs;
	$copies{ $_->[1] } = 1 for @jobs;
	is(scalar @low, 0, "$what: under tokens greater than the original's");
	is(sql("SELECT jobq.complete($jobs[0][0], $jobs[0][1])", $db, $where), 't', "$what: and completed");
	is((sqlstate_of($where, "SELECT jobq.fence('disk', $fenced - 1)", $db))[0], 'JQ001', "$what: a fence outlives it");
	is(sql(q{SELECT jobq.redrive('q')}, $db, $where), '5', "$what: dead letters can be redriven");
	poll_until("$what: the scheduler runs", "SELECT state = 'ready' FROM jobq.job($due_later)", node => $where, db => $db);
	my $highest = sql('SELECT max(token) FROM jobq.lease', $db, $where);
	sql('SELECT jobq.adopt()', $db, $where);
	is(sql('SELECT max(token) FROM jobq.lease', $db, $where), $highest, "$what: adopt() again changes nothing");
	poll_until("$what: counters are exact", 'SELECT bool_and(exact) FROM jobq.queues', node => $where, db => $db);
	verify_ok($where, "$what: verify at the end", $db);
	server_alive_ok($where, "$what: nothing crashed");
	return;
}

sql('CREATE DATABASE copy', 'postgres');
run_ok('pg_restore on the same server', $node, $pg_restore, '-d', 'copy', "$dir/custom");
# A copy that was not adopted is copied like any other.
run_ok('pg_dump of the copy', $node, $pg_dump, '-Fc', '-f', "$dir/copy", 'copy');
check_copy('pg_restore', $node, 'copy');

sql('CREATE DATABASE copy', 'postgres', $other);
command_ok([ $other->installed_command('psql'), '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain", $other->connstr('copy') ], 'restore with psql on another server');
check_copy('another server', $other, 'copy');

sql('CREATE DATABASE copy_of_copy', 'postgres', $other);
run_ok('pg_restore of the copy', $other, $pg_restore, '--single-transaction', '-d', 'copy_of_copy', "$dir/copy");
check_copy('copy of a copy', $other, 'copy_of_copy');

sql_when_free('CREATE DATABASE .. TEMPLATE', 'CREATE DATABASE clone TEMPLATE src');
check_copy('template', $node, 'clone');

# The original runs on as if nothing had been.
is(sql($picture), $before, 'the original is untouched');
is(sql('SELECT jobq.complete(job_id, token) FROM hand WHERE n = 40'), 't', 'and its leases hold');
sql_when_free('ALTER DATABASE .. RENAME', 'ALTER DATABASE src RENAME TO renamed');
for (1 .. 3)
{
	# A restart, so that it reserves new numbers, as the copies did.
	$node->restart;
	my ($got, $new) = split /\|/, sql(q{SELECT job_id, token FROM jobq.dequeue('q')}, 'renamed');
	ok($got, 'a renamed database is the same database');
	ok(!$copies{$new}, 'and gives out no token that a copy has given out');
}
verify_ok($node, 'verify of the original at the end', 'renamed');

# Only the schema: an empty installation that works.
sql('CREATE DATABASE bare', 'postgres');
command_ok([ $node->installed_command('psql'), '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/schema", $node->connstr('bare') ], 'restore of the schema');
is(sql('SELECT count(*) FROM jobq.queues', 'bare'), '0', 'schema only: no queues');
sql(q{SELECT jobq.create_queue('q'); SELECT jobq.enqueue('q')}, 'bare');
like(sql(q{SELECT job_id FROM jobq.dequeue('q')}, 'bare'), qr/^\d+$/, 'schema only: jobs run');
verify_ok($node, 'schema only: verify', 'bare');

# A restore fills the tables one after the other. Whatever their order, and whoever looks in between, nothing is lost: leases that are
# over and jobs that are due tempt a scheduler, which is there after a restart.
my @tables = ('job', 'ready', 'delayed', 'dependency', 'lease', 'failure', 'dead', 'queue', 'origin', 'resource_fence', 'history_far', map { "history_$_" } 0 .. 31);
my @sequences = qw(queue_id_seq job_block_seq token_block_seq token_base token_generation token_system);
my %pieces = (
	piece1 => [ [ 'lease', 'ready', 'delayed', 'dependency' ], [ 'dead', 'failure', 'job' ], [ 'queue' ], [ 'origin' ] ],
	piece2 => [ [ 'queue', 'lease' ], [ 'delayed', 'ready' ], [ 'failure', 'dead', 'job', 'dependency' ], [ 'origin' ] ],
	piece3 => [ [ 'job', 'dead', 'dependency' ], [ 'lease', 'delayed' ], [ 'origin' ], [ 'ready', 'failure', 'queue' ] ],
	piece4 => [ [ 'origin', 'lease' ], [ 'delayed' ], [ 'queue' ], [ 'job', 'ready', 'failure', 'dead' ] ]);
my %done;
my %oid;
sql("DROP DATABASE $_ WITH (FORCE)", 'postgres') for qw(copy clone bare renamed);
$node->append_conf('postgresql.conf', "log_min_messages = debug1\nlog_statement = none\n"); # tells of each start of a scheduler
for my $db (sort keys %pieces)
{
	sql("CREATE DATABASE $db", 'postgres');
	$oid{$db} = sql("SELECT oid FROM pg_database WHERE datname = '$db'", 'postgres');
	run_ok("$db: schema", $node, $pg_restore, '--section=pre-data', '-d', $db, "$dir/custom");
}
for my $step (0 .. 3)
{
	for my $db (sort keys %pieces)
	{
		my @some = @{ $pieces{$db}[$step] };
		run_ok("$db: data of @some", $node, $pg_restore, '--data-only', '-n', 'jobq', (map { ('-t', $_) } @some), '-d', $db, "$dir/custom");
		sql(q{UPDATE jobq.lease SET started = now() - interval '2 days', lease_until = now() - interval '1 day', deadline = NULL;
			UPDATE jobq.delayed SET visible_at = now() - interval '1 day' WHERE visible_at < 'infinity'}, $db);
		my ($state) = sqlstate_of($node, q{SELECT * FROM jobq.dequeue('q')}, $db);
		like($state, qr/^(55000|42704)$/, "$db: no dequeue after @some");
		$done{$db}{$_} = 1 for @some;
	}
	my $log = -s $node->logfile;
	$node->restart;
	for my $db (sort keys %pieces)
	{
		poll_until("$db: a scheduler has come",
			sub { return slurp_file($node->logfile, $log) =~ /starting background worker process "jobq scheduler for database $oid{$db}"/; });
	}
	poll_until('all schedulers have left', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname LIKE 'piece%'}, node => $node);
}
for my $db (sort keys %pieces)
{
	run_ok("$db: the rest", $node, $pg_restore, '--data-only', '-n', 'jobq',
		(map { ('-t', $_) } (grep { !$done{$db}{$_} } @tables), @sequences), '-d', $db, "$dir/custom");
	is(sql($states, $db), 'active=40 completed=10 dead=5 delayed=13 ready=38', "$db: nothing was lost");
	verify_ok($node, "$db: verify", $db);
	sql('SELECT jobq.adopt()', $db);
	cmp_ok(sql(q{SELECT min(token) FROM jobq.dequeue('q', 1000)}, $db), '>', $token, "$db: tokens go on");
	verify_ok($node, "$db: verify after adopt()", $db);
}

server_alive_ok($node);
$node->stop;
$other->stop;
done_testing();
