# Shared memory is full of hints. Lost, late or out of room, they cost time, never a job.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = jobq_node('main',
	conf => "jobq.rescan_interval = 1s\njobq.max_queues = 6\njobq.max_cursors = 16\njobq.max_databases = 2\njobq.scheduler_idle_timeout = 1s\n");

sub sql { return $node->safe_psql('postgres', shift); }

# Takes and completes all that can be had now; returns the ids.
sub drain
{
	my ($queue) = @_;
	return split /\n/, sql("SELECT job_id FROM (SELECT job_id, jobq.complete(job_id, token) AS ok FROM jobq.dequeue('$queue', 1000)) x WHERE ok");
}

# The job comes sooner or later, without anybody else doing anything.
sub comes_ok
{
	my ($queue, $id, $what) = @_;
	my @got;
	poll_until($what, sub { push @got, drain($queue); return scalar @got; }, limit => 20);
	is("@got", $id, $what);
	return;
}

sub counts_ok
{
	my ($what) = @_;
	poll_until("$what: counters are exact", 'SELECT bool_and(exact) FROM jobq.queues WHERE queue IN (\'p\', \'q\')', node => $node, limit => 30);
	verify_ok($node, "$what: verify");
	return;
}

# Two-phase commit: no process of ours is told of its second phase. The claims have gone past long since.
sql(q{SELECT jobq.create_queue('p', backoff => 'fixed', backoff_base => '0 s')});
for my $delay ('NULL', "'10 ms'")
{
	my $id = sql("BEGIN; SELECT jobq.enqueue('p', delay => $delay); PREPARE TRANSACTION 'enqueue'");
	sql(q{SELECT count(*) FROM jobq.enqueue_many('p', '[1, 2, 3, 4, 5]')});
	is(scalar(drain('p')), 5, 'others are taken while it is prepared');
	is(scalar(drain('p')), 0, 'it is not');
	my $waiter = JobqSession->new($node);
	$waiter->send(q{CALL jobq.wait('p', '50 s')});
	poll_until('somebody waits', 'SELECT wait_event_type = \'Extension\' FROM pg_stat_activity WHERE pid = ' . $waiter->pid, node => $node);
	sql(q{COMMIT PREPARED 'enqueue'});
	is($waiter->result, 't', 'COMMIT PREPARED of an enqueue: a waiter is told');
	comes_ok('p', $id, 'COMMIT PREPARED of an enqueue: the job comes');
	$waiter->close;
}
my $id = sql(q{BEGIN; SELECT jobq.enqueue('p'); PREPARE TRANSACTION 'enqueue'});
sql(q{ROLLBACK PREPARED 'enqueue'});
is(sql("SELECT count(*) FROM jobq.job($id)"), '0', 'ROLLBACK PREPARED of an enqueue: no job');
counts_ok('after prepared enqueues');

$id = sql(q{SELECT jobq.enqueue('p')});
sql("BEGIN; SELECT jobq.cancel($id); PREPARE TRANSACTION 'cancel'");
sql(q{SELECT jobq.enqueue('p')});
isnt((drain('p'))[0], $id, 'a job that is being cancelled is passed over');
sql(q{ROLLBACK PREPARED 'cancel'});
comes_ok('p', $id, 'ROLLBACK PREPARED of a cancel: the job comes');

$id = sql(q{SELECT jobq.enqueue('p')});
my $token = sql(q{SELECT token FROM jobq.dequeue('p')});
sql("BEGIN; SELECT jobq.complete($id, $token); PREPARE TRANSACTION 'complete'");
sql(q{ROLLBACK PREPARED 'complete'});
is(sql("SELECT state FROM jobq.job($id)"), 'active', 'ROLLBACK PREPARED of a complete: still active');
sql("BEGIN; SELECT jobq.complete($id, $token); PREPARE TRANSACTION 'complete'");
$node->stop('immediate');
$node->start;
is(sql("SELECT state FROM jobq.job($id)"), 'active', 'a prepared complete outlives a crash');
is(sql("SELECT jobq.extend($id, $token)"), 'ok', 'and extend does not wait for it');
sql(q{COMMIT PREPARED 'complete'});
is(sql("SELECT state FROM jobq.job($id)"), 'completed', 'and is done at its COMMIT PREPARED');
sql(q{SELECT jobq.enqueue('p')});
is((sqlstate_of($node, q{BEGIN; SELECT * FROM jobq.dequeue('p'); PREPARE TRANSACTION 'dequeue'}))[0], '0A000', 'PREPARE after a dequeue is refused');
is(scalar(drain('p')), 1, 'and gives the job back');
# A prepared transaction that has nothing to do with jobs may stay open.
sql(q{CREATE TABLE other (); BEGIN; INSERT INTO other DEFAULT VALUES; PREPARE TRANSACTION 'other'});
sql(q{BEGIN; SELECT jobq.enqueue('p'); PREPARE TRANSACTION 'enqueue'});
sql(q{COMMIT PREPARED 'enqueue'});
poll_until('taken', sub { return scalar drain('p'); });
counts_ok('after two-phase commits');
sql(q{ROLLBACK PREPARED 'other'});

# A row that somebody locks by hand is passed over, and found again when it is let go.
my $locker = JobqSession->new($node);
my ($first, $second) = split /\n/, sql(q{SELECT jobq.enqueue('p') FROM generate_series(1, 2)});
$locker->query("BEGIN; SELECT * FROM jobq.ready WHERE seq = $first FOR UPDATE");
is(join(' ', drain('p')), $second, 'a ready row locked by hand is passed over');
$locker->query('ROLLBACK');
comes_ok('p', $first, 'and comes when it is let go');
$first = sql(q{SELECT jobq.enqueue('p', delay => '200 ms')});
$locker->query("BEGIN; SELECT * FROM jobq.delayed WHERE job_id = $first FOR UPDATE");
$second = sql(q{SELECT jobq.enqueue('p', delay => '250 ms')});
comes_ok('p', $second, 'a delayed row locked by hand holds up no other');
$locker->query('ROLLBACK');
comes_ok('p', $first, 'and is promoted when it is let go');
($first, $second) = split /\n/, sql(q{SELECT jobq.enqueue('p') FROM generate_series(1, 2)});
sql(q{SELECT jobq.dequeue('p', lease => '500 ms') FROM generate_series(1, 2)});
$locker->query("BEGIN; SELECT * FROM jobq.lease WHERE $first = ANY (job_ids) FOR UPDATE");
comes_ok('p', $second, 'a lease row locked by hand holds up no other');
$locker->query('ROLLBACK');
comes_ok('p', $first, 'and is ended when it is let go');
counts_ok('after locks by hand');

# More priorities than cursors, in both lanes.
sql(q{SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '0 s')});
sql(q{SELECT jobq.enqueue('q', to_jsonb(n), priority => n) FROM generate_series(40, 1, -1) n, generate_series(1, 2)});
is(sql(q{SELECT count(*) FROM (SELECT jobq.nack(job_id, token) FROM jobq.dequeue('q', 40)) x}), '40', 'half of them go back');
my $order = sql(q{SELECT string_agg(priority::text, ' ' ORDER BY n) FROM (SELECT priority, row_number() OVER () n FROM jobq.dequeue('q', 33)) x});
is($order, join(' ', map { ($_, $_) } 1 .. 16) . ' 17', 'more priorities than cursors: the order is right');
is(sql(q{SELECT count(*) FROM jobq.dequeue('q', 100)}), '47', 'and all come');
sql(q{SELECT jobq.enqueue('q', priority => 500)});
is(scalar(drain('q')), 1, 'a new priority, too');
sql(q{SELECT jobq.enqueue('q', priority => 499)});
is(sql(q{CALL jobq.wait('q', '10 s')}), 't', 'and is waited for');
is(scalar(drain('q')), 1, 'and taken');
$locker->query(q{BEGIN; SELECT jobq.enqueue('q', priority => 498)});
sql(q{SELECT jobq.enqueue('q', priority => 498)});
is(scalar(drain('q')), 1, 'out of cursors, an open enqueue is passed over');
$locker->query('COMMIT');
is(scalar(drain('q')), 1, 'and comes at its commit');
sql(q{SELECT count(*) FROM (SELECT jobq.complete_many(array_agg(job_id), array_agg(l.token)) FROM jobq.lease l, unnest(l.job_ids) u (job_id)) x});
counts_ok('after many priorities');

# More queues than slots.
my @many = map { "many$_" } 1 .. 9;
sql(join ';', map { "SELECT jobq.create_queue('$_', backoff => 'fixed', backoff_base => '0 s')" } @many);
for my $round (1, 2)
{
	for my $queue (@many)
	{
		my $now = sql("SELECT jobq.enqueue('$queue')");
		my ($job, $t) = split /\|/, sql("SELECT job_id, token FROM jobq.dequeue('$queue')");
		is($job, $now, "$queue, round $round: taken");
		my $soon = sql("SELECT jobq.enqueue('$queue', delay => '20 ms')");
		is(sql("SELECT jobq.nack($job, $t)"), 'retry', "$queue: failed");
		is(sql("CALL jobq.wait('$queue', '10 s')"), 't', "$queue: waited for");
		my @got;
		poll_until("$queue: all come", sub { push @got, drain($queue); return @got >= 2; });
		is(join(' ', sort @got), join(' ', sort $now, $soon), "$queue: the retried and the delayed one come");
	}
}
sql("SELECT jobq.enqueue('many9') FROM generate_series(1, 3)");
sql(q{SELECT job_id FROM jobq.dequeue('many9', lease => '100 ms')});
is(sql(q{SELECT ready || ' ' || active FROM jobq.queues WHERE queue = 'many9'}), '2 1', 'the view counts a queue without a slot');
my $seen = 0;
poll_until('a lease of a queue without a slot ends', sub { $seen += drain('many9'); return $seen == 3; }, limit => 20);
my $waiter = JobqSession->new($node);
$waiter->send(q{SELECT job_id FROM jobq.dequeue('many9', wait => '50 s')});
poll_until('somebody waits', 'SELECT wait_event_type = \'Extension\' FROM pg_stat_activity WHERE pid = ' . $waiter->pid, node => $node);
$id = sql(q{SELECT jobq.enqueue('many9')});
is($waiter->result, $id, 'a waiter of a queue without a slot gets its job');
$waiter->close;
$locker->close;
verify_ok($node, 'verify with more queues than slots');
# A dropped queue's slot serves another.
sql("SELECT jobq.drop_queue('$_', force => true)") for @many[ 0 .. 7 ];
poll_until('the last one gets a slot', q{SELECT bool_and(exact) FROM jobq.queues}, node => $node);
verify_ok($node, 'verify after their drop');

# More databases than slots.
sql("CREATE DATABASE $_") for qw(two three);
$node->safe_psql('two', q{CREATE EXTENSION jobq; SELECT jobq.create_queue('x'); SELECT jobq.enqueue('x')});
my ($state, $message) = sqlstate_of($node, 'CREATE EXTENSION jobq', 'three');
is($state, '53400', 'one database too many: a clear error');
like($message, qr/HINT:.*jobq\.max_databases/s, 'that names the setting');
is($node->safe_psql('two', q{SELECT count(*) FROM jobq.dequeue('x')}), '1', 'the others work on');
verify_ok($node, 'verify of the second database', 'two');
sql('DROP DATABASE two WITH (FORCE)');
poll_until('a dropped database leaves its place to another', sub { my ($rc) = $node->psql('three', 'CREATE EXTENSION jobq'); return $rc == 0; });
$node->safe_psql('three', q{SELECT jobq.create_queue('x'); SELECT jobq.enqueue('x', delay => '20 ms')});
poll_until('its scheduler runs', q{SELECT ready = 1 FROM jobq.queues}, node => $node, db => 'three');
verify_ok($node, 'verify of the third database', 'three');
server_alive_ok($node);
$node->stop;

# Without rescans: late commits, rolled-back claims and savepoints, and nothing is forgotten.
my $off = jobq_node('off', conf => "jobq.rescan_interval = 0\nmax_connections = 40\n");
$off->safe_psql('postgres', q{SELECT jobq.create_queue('l', max_attempts => 1000000, backoff => 'fixed', backoff_base => '0 s', lease => '2 s')});
my $dir = PostgreSQL::Test::Utils::tempdir();
my %script = (
	slow => [ 2, q{
		\set ms random(1, 300)
		BEGIN;
		SELECT jobq.enqueue('l', priority => n) FROM generate_series(1, 2) n;
		\sleep :ms ms
		END;} ],
	undone => [ 1, q{
		BEGIN;
		SELECT jobq.enqueue('l', priority => 1);
		SAVEPOINT a;
		SELECT jobq.enqueue('l', priority => 2);
		ROLLBACK TO a;
		SELECT jobq.enqueue('l', priority => 2);
		END;} ],
	fast => [ 3, q{
		\set prio random(1, 2)
		SELECT count(*) FROM jobq.enqueue_many('l', '[1, 2, 3, 4, 5, 6]', priority => :prio);} ],
	delayed => [ 1, q{
		SELECT count(*) FROM jobq.enqueue_many('l', '[1, 2, 3]', delay => '20 ms');} ],
	done => [ 6, q{
		SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('l', 5)) x;} ],
	back => [ 2, q{
		\set ms random(1, 30)
		BEGIN;
		SELECT count(*) FROM jobq.dequeue('l', 4);
		\sleep :ms ms
		ROLLBACK;} ],
	savepoint => [ 2, q{
		BEGIN;
		SAVEPOINT a;
		SELECT count(*) FROM jobq.dequeue('l', 3);
		ROLLBACK TO a;
		SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('l', 2)) x;
		END;} ],
	again => [ 1, q{
		SELECT count(*) FROM (SELECT jobq.nack(job_id, token) FROM jobq.dequeue('l', 2)) x;
		SELECT count(*) FROM (SELECT jobq.release(job_id, token) FROM jobq.dequeue('l', 2)) x;} ],
	lost => [ 1, q{
		SELECT count(*) FROM jobq.dequeue('l', 1, lease => '100 ms');} ]);
# Few jobs and many rollbacks: every job reaches the number at which a rolled-back claim counts, again and again.
my %poison = (
	poison_back => [ 8, q{
		BEGIN;
		SELECT count(*) FROM jobq.dequeue('l', 2);
		ROLLBACK;} ],
	poison_one => [ 1, q{
		SELECT count(*) FROM jobq.enqueue_many('l', '[1, 2]');} ],
	poison_done => [ 2, q{
		SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('l')) x;} ]);

sub load_ok
{
	my ($what, $seconds, %scripts) = @_;
	my $seed = int(rand(2**31));
	note("$what: seed $seed");
	my @files;
	for my $name (sort keys %scripts)
	{
		(my $text = $scripts{$name}[1]) =~ s/^\s+//mg;
		append_to_file("$dir/$name.sql", "$text\n");
		push @files, '-f', "$dir/$name.sql\@$scripts{$name}[0]";
	}
	{
		local $ENV{PGHOST} = $off->host;
		local $ENV{PGPORT} = $off->port;
		command_ok([ $off->installed_command('pgbench'), '-n', '-c', '12', '-j', '2', '-T', $seconds, "--random-seed=$seed", @files, 'postgres' ], "$what: load");
	}
	my $live = q{SELECT count(*) FROM jobq.job};
	poll_until("$what: all jobs get done", sub {
		$off->safe_psql('postgres', q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('l', 1000)) x});
		return $off->safe_psql('postgres', $live) == 0;
	}, limit => 20)
	  or diag($off->safe_psql('postgres', q{SELECT state, priority, attempt, job_id FROM jobq.jobs WHERE state IN ('ready', 'delayed', 'active') LIMIT 20}));
	is($off->safe_psql('postgres', $live), '0', "$what: nothing is forgotten");
	return;
}
load_ok('mixed', 8, %script);
load_ok('rollbacks', 4, %poison);
my @failed = grep { /ERROR:/ } split /\n/, slurp_file($off->logfile);
is("@failed", '', 'no statement of them failed');
is( $off->safe_psql('postgres', q{SELECT enqueued_total - completed_total FROM jobq.queues}), '0', 'as many were completed as were enqueued');
cmp_ok($off->safe_psql('postgres', q{SELECT completed_total FROM jobq.queues}), '>', 1000, 'there was work');
poll_until('counters are exact', 'SELECT bool_and(exact) FROM jobq.queues', node => $off);
verify_ok($off, 'verify after the load');
server_alive_ok($off);
$off->stop;
# The narrowest place: a ticket becomes claimable behind a claim that has looked past it and has not yet moved the cursor. (With debug
# points, at which a claim stops.)
my $debug = jobq_node('debug', debug => 1, conf => "jobq.rescan_interval = 0\n");
$debug->safe_psql('postgres', q{SELECT jobq.create_queue('q')});
my ($early, $holder, $claimer) = map { JobqSession->new($debug) } 1 .. 3;
$claimer->query(q{SET jobq.debug_point = 'claim-took'});
for my $case ('late commit', 'rolled-back claim', 'rolled back to a savepoint')
{
	my $behind;
	if ($case eq 'late commit')
	{
		$early->query('BEGIN');
		$behind = $early->query(q{SELECT jobq.enqueue('q')});
	}
	else
	{
		$behind = $early->query(q{SELECT jobq.enqueue('q')});
		$early->query('BEGIN; SAVEPOINT a');
		is($early->query(q{SELECT job_id FROM jobq.dequeue('q')}), $behind, "$case: in hand");
	}
	$debug->safe_psql('postgres', q{SELECT jobq.enqueue('q') FROM generate_series(1, 3)});
	$holder->query(q{SELECT pg_advisory_lock(hashtext('claim-took'))});
	$claimer->send(q{SELECT count(*) FROM jobq.dequeue('q', 3)});
	poll_until("$case: a claim has taken its first ticket", 'SELECT wait_event = \'advisory\' FROM pg_stat_activity WHERE pid = ' . $claimer->pid, node => $debug);
	$early->query($case eq 'late commit' ? 'COMMIT' : $case eq 'rolled-back claim' ? 'ROLLBACK' : 'ROLLBACK TO a');
	$holder->query(q{SELECT pg_advisory_unlock(hashtext('claim-took'))});
	is($claimer->result, '3', "$case: the claim takes the others");
	is($holder->query(q{SELECT job_id FROM jobq.dequeue('q', 10)}), $behind, "$case: the one behind comes at once");
	$early->query('COMMIT') if $case =~ /savepoint/;
}
$_->close for $early, $holder, $claimer;
poll_until('counters are exact', 'SELECT bool_and(exact) FROM jobq.queues', node => $debug);
verify_ok($debug, 'verify of the debug server');
server_alive_ok($debug);
$debug->stop;
done_testing();
