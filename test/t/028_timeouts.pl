# Timeouts, isolation levels and cancellation: every verb works or says clearly why not, a wait ends at once, and the processes of the
# extension do not care what is set for roles and databases.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = jobq_node('main', conf => "max_connections = 160\njobq.rescan_interval = 1s\njobq.scheduler_idle_timeout = 1s\n");

sub sql { return $node->safe_psql('postgres', shift); }

sub waits
{
	my ($what, @sessions) = @_;
	my $pids = join ',', map { $_->pid } @sessions;
	my $n = scalar @sessions;
	return poll_until($what, "SELECT count(*) = $n FROM pg_stat_activity WHERE pid IN ($pids) AND wait_event_type = 'Extension' AND state = 'active'", node => $node);
}

# Ends when it must: far sooner than the hour that it would wait.
sub ends_ok
{
	my ($session, $state, $what) = @_;
	my $ended = poll_until($what, sub { $session->finished }, limit => 15);
	$session->result if $ended;
	is($ended ? $session->sqlstate : 'still waiting', $state, $what);
	return;
}

sql(q{SELECT jobq.create_queue('q', lease => '1 hour', backoff => 'fixed', backoff_base => '0 s')});
my @waits = (
	q{SELECT * FROM jobq.dequeue('q', wait => '1 hour')},
	q{SELECT * FROM jobq.complete_and_dequeue(NULL, NULL, 'q', wait => '1 hour')},
	q{CALL jobq.wait('q', '1 hour')});

# Isolation levels, as a role's default and in a transaction.
sql(q{
	CREATE ROLE serial SUPERUSER LOGIN;
	ALTER ROLE serial SET default_transaction_isolation = 'serializable';
	CREATE ROLE reader SUPERUSER LOGIN;
	ALTER ROLE reader SET default_transaction_read_only = on;
	CREATE ROLE hasty SUPERUSER LOGIN;
	ALTER ROLE hasty SET statement_timeout = '300 ms';
	CREATE ROLE locker SUPERUSER LOGIN;
	ALTER ROLE locker SET lock_timeout = '100 ms';
	CREATE ROLE idle SUPERUSER LOGIN;
	ALTER ROLE idle SET idle_in_transaction_session_timeout = '200 ms'});
my $s = JobqSession->new($node, user => 'serial');
my $id = $s->query(q{SELECT jobq.enqueue('q', '"serial"')});
is($s->state($_), '0A000', "serializable by default: $_") for @waits, q{SELECT jobq.dequeue('q')};
$s->send(q{SELECT jobq.dequeue('q')});
$s->result;
like($s->errors, qr/HINT:.*READ COMMITTED/, 'and the hint says what to do');
is(sql("SELECT state || attempt FROM jobq.job($id)"), 'ready0', 'nothing was changed');
my $token = $s->query("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT token FROM jobq.dequeue('q'); COMMIT");
like($token, qr/^\d+$/, 'at READ COMMITTED it works');
is($s->state("SELECT * FROM jobq.complete_and_dequeue($id, $token, 'q')"), '0A000', 'complete_and_dequeue is refused whole');
is(sql("SELECT state FROM jobq.job($id)"), 'active', 'the job was not completed by it');
is($s->query("SELECT jobq.extend($id, $token)"), 'ok', 'extend at serializable');
$s->query("SELECT jobq.progress($id, $token, '1')");
is($s->query("SELECT jobq.fail($id, $token, 'x')"), 'retry', 'fail');
for my $level ('SERIALIZABLE', 'REPEATABLE READ')
{
	$token = sql(q{SELECT token FROM jobq.dequeue('q')});
	# The transaction's snapshot is from before the lease's last change.
	$s->query("BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM jobq.lease");
	sql("SELECT jobq.extend($id, $token, '2 hours')");
	$s->query("SELECT jobq.release($id, $token); COMMIT");
	is(sql("SELECT state FROM jobq.job($id)"), 'ready', "release at $level, after the lease has moved");
	$token = sql(q{SELECT token FROM jobq.dequeue('q')});
	$s->query("BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM jobq.lease");
	sql("SELECT jobq.extend($id, $token, '3 hours')");
	is($s->query("SELECT jobq.complete($id, $token)"), 't', "complete at $level, after the lease has moved");
	$s->query('COMMIT');
	$id = $s->query("BEGIN ISOLATION LEVEL $level; SELECT jobq.enqueue('q'); COMMIT");
}
is($s->query('SELECT count(*) FROM jobq.queues'), '1', 'views at serializable');
is($s->query('SELECT count(*) FROM jobq.verify()'), '0', 'verify() at serializable');
is($s->query("SELECT jobq.cancel($id)"), 'cancelled', 'cancel at serializable');
$s->close;

my $reader = JobqSession->new($node, user => 'reader');
is($reader->state($_), '25006', "read-only by default: $_") for q{SELECT jobq.enqueue('q')}, q{SELECT jobq.dequeue('q')}, $waits[0];
$reader->close;

# statement_timeout ends each kind of wait; a job that comes in time is given.
my $hasty = JobqSession->new($node, user => 'hasty');
for my $wait (@waits)
{
	$hasty->send($wait);
	ends_ok($hasty, '57014', "statement_timeout: $wait");
}
sql(q{SELECT jobq.enqueue('q')});
is($hasty->query(q{CALL jobq.wait('q', '1 hour')}), 't', 'the session goes on: wait');
is($hasty->query(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q')) x}), '1', 'dequeue and complete');
$hasty->close;

# Cancelled in a savepoint, and in a block that catches it: the transaction goes on.
$s = JobqSession->new($node);
$s->query('BEGIN; SAVEPOINT a');
$s->send($waits[0]);
waits('somebody waits in a savepoint', $s);
sql('SELECT pg_cancel_backend(' . $s->pid . ')');
ends_ok($s, '57014', 'cancelled in a savepoint');
$s->query('ROLLBACK TO a');
$id = sql(q{SELECT jobq.enqueue('q')});
is($s->query(q{SELECT job_id FROM jobq.dequeue('q', wait => '10 s')}), $id, 'the transaction can go on and take a job');
$s->query('ROLLBACK');
$s->send(q{
	DO $$ BEGIN PERFORM jobq.dequeue('q', 1, wait => '1 hour') FROM generate_series(1, 2); EXCEPTION WHEN query_canceled THEN NULL; END $$});
waits('somebody waits in a block', $s);
sql('SELECT pg_cancel_backend(' . $s->pid . ')');
ends_ok($s, '00000', 'cancelled in a block that catches it');
is(sql("SELECT state || attempt FROM jobq.job($id)"), 'ready0', 'what it had taken is given back');
sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q')});

# Cancel and terminate, outside of blocks.
for my $wait (@waits)
{
	$s->send($wait);
	waits('somebody waits', $s);
	sql('SELECT pg_cancel_backend(' . $s->pid . ')');
	ends_ok($s, '57014', "pg_cancel_backend: $wait");
	my $victim = JobqSession->new($node);
	$victim->send($wait);
	waits('somebody waits', $victim);
	sql('SELECT pg_terminate_backend(' . $victim->pid . ')');
	poll_until("pg_terminate_backend: $wait", 'SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $victim->pid, node => $node, limit => 15);
	$victim->close;
}

# CALL wait holds nothing while it waits.
$s->send($waits[2]);
waits('somebody waits', $s);
is(sql('SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = ' . $s->pid), 't', 'CALL wait holds no snapshot and no transaction id');
is(sql(q{SELECT count(*) FROM pg_locks WHERE locktype <> 'virtualxid' AND pid = } . $s->pid), '0', 'and no lock');
sql('SELECT pg_cancel_backend(' . $s->pid . ')');
ends_ok($s, '57014', 'and ends');
is($s->state("BEGIN; $waits[2]"), '25001', 'in a transaction block it is refused');
$s->query('ROLLBACK');

# Waiters that are gone, in great number and in every way, take no wake-up from those that come later.
my @crowd = map { JobqSession->new($node, lazy => 1) } 1 .. 100;
$_->send('SELECT pg_backend_pid()') for @crowd;
$_->{pid} = $_->result for @crowd;
$crowd[$_]->send($waits[$_ % 3]) for 0 .. $#crowd;
waits('a hundred wait', @crowd);
sql('SELECT count(pg_terminate_backend(pid)) FROM unnest(ARRAY[' . join(',', map { $_->pid } @crowd[ 0 .. 49 ]) . ']) pid');
sql('SELECT count(pg_cancel_backend(pid)) FROM unnest(ARRAY[' . join(',', map { $_->pid } @crowd[ 50 .. 99 ]) . ']) pid');
poll_until('they are gone', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'}, node => $node);
$_->close for @crowd;
my @late = map { JobqSession->new($node) } 1 .. 4;
$_->send($waits[0]) for @late;
waits('four wait', @late);
for my $round (1 .. 4)
{
	$id = sql(q{SELECT jobq.enqueue('q')});
	my ($lucky) = (undef);
	poll_until("round $round: one is woken", sub { ($lucky) = grep { $_->finished } @late; return $lucky; }, limit => 15);
	last unless $lucky;
	like($lucky->result, qr/^$id\|/, "round $round: and has the job");
	@late = grep { $_ != $lucky } @late;
	waits("round $round: the others wait", @late) if @late;
	$lucky->close;
}

# A client that is gone without a word is noticed when the server looks for such.
sql(q{ALTER SYSTEM SET client_connection_check_interval = '100 ms'});
sql('SELECT pg_reload_conf()');
poll_until('the setting is there', q{SELECT current_setting('client_connection_check_interval') = '100ms'}, node => $node);
for my $wait (@waits)
{
	my $victim = JobqSession->new($node);
	$victim->send($wait);
	waits('somebody waits', $victim);
	$victim->close; # kills psql
	poll_until("a lost connection ends the wait: $wait", 'SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $victim->pid, node => $node, limit => 15);
}

# lock_timeout and statement_timeout where a verb waits for a lock; those that never wait do not.
$id = sql(q{SELECT jobq.enqueue('q')});
$token = sql(q{SELECT token FROM jobq.dequeue('q')});
my $blocker = JobqSession->new($node);
$blocker->query("BEGIN; SELECT * FROM jobq.lease WHERE token = $token FOR UPDATE");
my $locker = JobqSession->new($node, user => 'locker');
is($locker->state("SELECT jobq.complete($id, $token)"), '55P03', 'lock_timeout: complete of a locked lease');
is($locker->state("SELECT jobq.fail($id, $token)"), '55P03', 'fail');
is($locker->query("SELECT jobq.extend($id, $token)"), 'ok', 'extend never waits');
is($locker->query(q{SELECT count(*) FROM jobq.dequeue('q')}), '0', 'nor does dequeue');
like($locker->query(q{SELECT jobq.enqueue('q')}), qr/^\d+$/, 'nor enqueue');
$blocker->query('ROLLBACK');
is($locker->query("SELECT jobq.complete($id, $token)"), 't', 'let go, the job is completed');
is($locker->query(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q')) x}), '1', 'and the next');
$locker->close;

# A worker that dozes off in a transaction loses its session, and the job is given back.
$id = sql(q{SELECT jobq.enqueue('q')});
my $idle = JobqSession->new($node, user => 'idle');
$idle->send(q{BEGIN; SELECT count(*) FROM jobq.dequeue('q')});
poll_until('idle_in_transaction_session_timeout ends the session', 'SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $idle->pid, node => $node, limit => 15);
is(sql("SELECT state || attempt FROM jobq.job($id)"), 'ready0', 'and the job is ready, uncounted');
$idle->close;
sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q')});

# What is set for the database and its owner does not reach the scheduler.
sql(q{ALTER DATABASE postgres SET statement_timeout = '1 ms';
	ALTER DATABASE postgres SET lock_timeout = '1 ms';
	ALTER DATABASE postgres SET default_transaction_isolation = 'serializable';
	ALTER DATABASE postgres SET default_transaction_read_only = on;
	ALTER DATABASE postgres SET idle_in_transaction_session_timeout = '1 ms';
	ALTER DATABASE postgres SET search_path = 'nowhere';
	ALTER DATABASE postgres SET enable_indexscan = off;
	ALTER DATABASE postgres SET session_replication_role = replica;
	ALTER DATABASE postgres SET row_security = off;
	ALTER DATABASE postgres SET DateStyle = 'SQL, DMY';
	ALTER DATABASE postgres SET IntervalStyle = 'sql_standard';
	ALTER DATABASE postgres SET TimeZone = 'Pacific/Auckland';
	ALTER ROLE postgres SET statement_timeout = '1 ms';
	ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read';
	ALTER ROLE postgres SET role = 'serial'});
$s->query(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'});
my $delayed = $s->query(q{SELECT jobq.enqueue('q', delay => '50 ms')});
$id = $s->query(q{SELECT jobq.enqueue('q', priority => 1)});
$s->query(q{SELECT job_id FROM jobq.dequeue('q', lease => '50 ms')});
poll_until('the scheduler promotes', sub { return $s->query("SELECT state FROM jobq.job($delayed)") eq 'ready'; });
poll_until('and ends leases', sub { return $s->query("SELECT state || attempt FROM jobq.job($id)") eq 'ready1'; });
poll_until('and counts', sub { return $s->query('SELECT bool_and(exact) FROM jobq.queues') eq 't'; });
$s->query("ALTER DATABASE postgres RESET ALL; ALTER ROLE postgres RESET ALL");
verify_ok($node);

# A fast shutdown does not wait for those who wait.
my @waiters = map { JobqSession->new($node) } @waits;
sql(q{SELECT jobq.create_queue('empty')});
for (0 .. 2)
{
	(my $wait = $waits[$_]) =~ s/'q'/'empty'/;
	$waiters[$_]->send($wait);
}
waits('three wait', @waiters);
my $begun = time;
$node->stop('fast');
cmp_ok(time - $begun, '<', 20, 'a fast shutdown ends them at once');
$_->close for @waiters, $s, $blocker;
my @errors = grep { /FATAL|PANIC/ && !/terminating (connection|background worker)|shutting down|starting up|connection to client lost/ } split /\n/, slurp_file($node->logfile);
is("@errors", '', 'nobody ended but those that were ended');
$node->start;
is(sql(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q', 10)) x}), '2', 'all is there after it');
poll_until('counters are exact', 'SELECT bool_and(exact) FROM jobq.queues', node => $node);
verify_ok($node, 'verify at the end');
server_alive_ok($node);
$node->stop;
done_testing();
