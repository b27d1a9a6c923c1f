# Unique keys and times to live where a regression test cannot look: crash, dump, clock, many at once, an old snapshot, no scheduler, administrators.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('main', debug => 1, conf => "jobq.scheduler_idle_timeout = 60\nmax_connections = 40\nautovacuum = off\n");

sub sql { return $node->safe_psql('postgres', shift); }

sub becomes
{
	my ($name, $query, %opt) = @_;
	return ok(poll_until($name, $query, node => $node, limit => 30, %opt), $name);
}

sub set_clock
{
	my ($ahead) = @_;
	sql("ALTER SYSTEM SET jobq.debug_clock = '$ahead'");
	$node->reload;
	return becomes("the clock is $ahead ahead", "SELECT current_setting('jobq.debug_clock') = '$ahead'");
}

subtest 'expired when its time comes' => sub {
	sql(q{SELECT jobq.create_queue('timely')});
	sql(q{
		SELECT count(*) FROM (SELECT jobq.enqueue('timely', expires_in => make_interval(secs => 0.2 + n * 0.05)) FROM generate_series(0, 19) n) x});
	becomes('all expire', q{SELECT expired_total = 20 FROM jobq.queues WHERE queue = 'timely'});
	is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'timely' AND finished < created + interval '0.2 s'}), '0', 'none too early');
	my $worst = sql(q{
		SELECT round(extract(epoch FROM max(h.finished - h.created - make_interval(secs => 0.2 + h.n * 0.05))) * 1000)
		FROM (SELECT finished, created, row_number() OVER (ORDER BY job_id) - 1 AS n FROM jobq.jobs WHERE queue = 'timely') h});
	cmp_ok($worst, '<', 500, "the latest $worst ms late");
	# The scheduler sleeps until then: a day is not waited for, and a clock that is set forward is noticed.
	sql(q{SELECT jobq.enqueue('timely', '"tomorrow"', expires_in => '1 day')});
	set_clock('25h');
	sql(q{SELECT jobq.enqueue('timely', '"wakes the scheduler"', expires_in => '10 ms')});
	becomes('a clock set forward', q{SELECT expired_total = 22 FROM jobq.queues WHERE queue = 'timely'});
	sql(q{SELECT jobq.enqueue('timely', '"an hour"', expires_in => '1 h')});
	set_clock('0');
	sql(q{SELECT jobq.enqueue('timely', '"short"', expires_in => '10 ms')});
	becomes('set back: what is short expires all the same', q{SELECT expired_total = 23 FROM jobq.queues WHERE queue = 'timely'});
	is(sql(q{SELECT jobq.purge_queue('timely')}), '1', 'and what is not, not');
	verify_ok($node);
};

subtest 'ten thousand at once' => sub {
	sql(q{SELECT jobq.create_queue('many')});
	# The same microsecond, a third of them in groups, some delayed; a worker holds a hundred.
	sql(q{
		SELECT count(*) FROM jobq.enqueue_many('many', (SELECT jsonb_agg(n) FROM generate_series(1, 10000) n), expires_in => '1 s', priority => 5,
			group_keys => (SELECT array_agg(CASE WHEN n % 3 = 0 THEN 'g' || n % 50 END ORDER BY n) FROM generate_series(1, 10000) n))});
	sql(q{CREATE TABLE hand AS SELECT job_id, token FROM jobq.dequeue('many', 100)});
	sql(q{SELECT count(*) FROM jobq.enqueue_many('many', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n), delay => '1 h', expires_in => '1 s')});
	becomes('all that wait expire', q{SELECT expired_total = 10000 FROM jobq.queues WHERE queue = 'many'});
	is(sql(q{SELECT ready, delayed, active FROM jobq.queues WHERE queue = 'many'}), '0|0|100', 'those that run go on');
	is(sql(q{SELECT count(*) FROM jobq.groups WHERE queue = 'many' AND state <> 'LEASED'}), '0', 'no group is left over');
	# They come back, and expire then; the scheduler does not keep looking at them meanwhile.
	my $before = sql(q{SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'job_expires'});
	sql('SELECT pg_sleep(1)');
	cmp_ok(sql(q{SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'job_expires'}) - $before, '<', 5, 'and are not looked at meanwhile');
	is(sql(q{SELECT count(*) FROM hand, LATERAL (SELECT jobq.release(job_id, token)) r}), '100', 'given back');
	becomes('they expire then', q{SELECT expired_total = 10100 FROM jobq.queues WHERE queue = 'many'});
	verify_ok($node);
};

subtest 'in somebody\'s hands' => sub {
	sql(q{SELECT jobq.create_queue('held')});
	my $id = sql(q{SELECT jobq.enqueue('held', unique_key => 'k', unique_until => 'started', expires_in => '0.3 s')});
	my $s = JobqSession->new($node);
	$s->query('BEGIN');
	is($s->query(q{SELECT jobq.enqueue('held', unique_key => 'k')}), $id, 'a duplicate holds it back');
	sql('SELECT pg_sleep(0.6)');
	is(sql("SELECT state FROM jobq.job($id)"), 'ready', 'it is left');
	$s->query('COMMIT');
	becomes('and expires when its holder is done', "SELECT state = 'expired' FROM jobq.job($id)", limit => 5);
	$s->close;
	verify_ok($node);
};

subtest 'without a scheduler' => sub {
	sql(q{SELECT jobq.create_queue('alone')});
	# The scheduler waits at the debug point, and a session steps over it.
	my $lock = JobqSession->new($node);
	sql(q{ALTER SYSTEM SET jobq.debug_point = 'ttl-taken'});
	$lock->query(q{SELECT pg_advisory_lock(hashtext('ttl-taken'))});
	$node->reload;
	sql(q{SELECT jobq.enqueue('alone', '"bait"', expires_in => '1 ms')});
	becomes('the scheduler stands still', q{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.backend_type = 'jobq scheduler')});
	sql(q{SELECT count(*) FROM jobq.enqueue_many('alone', (SELECT jsonb_agg(n) FROM generate_series(1, 300) n), expires_in => '10 ms')});
	sql(q{SELECT count(*) FROM jobq.enqueue_many('alone', '[1, 2, 3]', group_keys => '{g,g,g}', expires_in => '10 ms')});
	sql(q{SELECT jobq.enqueue('alone', '"group goes on"', group_key => 'g')});
	sql(q{SELECT jobq.enqueue('alone', '"last"', priority => 2000)});
	sql('SELECT pg_sleep(0.05)');
	is(sql(q{SELECT string_agg(payload #>> '{}', ', ') FROM jobq.dequeue('alone', 1)}), 'group goes on', 'a dequeue looks on');
	is(sql(q{SELECT string_agg(payload #>> '{}', ', ') FROM jobq.dequeue('alone', 10)}), 'last', 'until it finds what is alive');
	is(sql(q{SELECT count(*) FROM jobq.dequeue('alone', 10)}), '0', 'and there is no more');
	is(sql(q{SELECT expired_total FROM jobq.queues WHERE queue = 'alone'}), '303', 'all the others have expired');
	sql(q{SELECT count(*) FROM jobq.enqueue_many('alone', '[1, 2]', expires_in => '1 ms')});
	sql('SELECT pg_sleep(0.01)');
	my $begin = Time::HiRes::time();
	is(sql(q{SELECT count(*) FROM jobq.dequeue('alone', 10, wait => '20 s')}), '0', 'a dequeue that waits and has expired some');
	cmp_ok(Time::HiRes::time() - $begin, '<', 10, 'keeps none of that uncommitted');
	sql(q{ALTER SYSTEM RESET jobq.debug_point});
	$node->reload;
	$lock->query(q{SELECT pg_advisory_unlock_all()});
	$lock->close;
	becomes('the scheduler goes on', q{SELECT expired_total = 306 FROM jobq.queues WHERE queue = 'alone'});
	verify_ok($node);
};

subtest 'crash' => sub {
	sql(q{SELECT jobq.create_queue('crash')});
	my $committed = sql(q{SELECT jobq.enqueue('crash', '1', unique_key => 'committed', expires_in => '3 s')});
	sql(q{SELECT jobq.enqueue('crash', '2', unique_key => 'window', unique_for => '1 day', priority => 1)});
	sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('crash')});
	my $s = JobqSession->new($node);
	$s->query('BEGIN');
	$s->query(q{SELECT jobq.enqueue('crash', '3', unique_key => 'open')});
	$s->query(q{SELECT count(*) FROM jobq.enqueue_many('crash', '[4, 5]', unique_keys => '{open2,open3}')});
	$node->stop('immediate');
	$node->start;
	is(sql(q{SELECT jobq.enqueue('crash', '6', unique_key => 'committed')}), $committed, 'a committed key is taken');
	is(sql(q{SELECT job_id IN (SELECT id FROM jobq.job) FROM jobq.enqueue_many('crash', '[7]', unique_keys => '{window}')}), 'f', 'so is a window');
	is(sql(q{SELECT string_agg(status, ' ') FROM jobq.enqueue_many('crash', '[8, 9, 10]', unique_keys => '{open,open2,open3}')}), 'inserted inserted inserted', 'what was not committed is not');
	becomes('times to live are known again', "SELECT state = 'expired' FROM jobq.job($committed)");
	verify_ok($node);
};

subtest 'two-phase commit' => sub {
	sql(q{SELECT jobq.create_queue('two_phase')});
	sql(q{BEGIN; SELECT jobq.enqueue('two_phase', '1', unique_key => 'k', expires_in => '0.2 s'); PREPARE TRANSACTION 'p'});
	is((sqlstate_of($node, q{SET lock_timeout = '200ms'; SELECT jobq.enqueue('two_phase', '2', unique_key => 'k')}))[0], '55P03', 'a prepared transaction is waited for');
	sql(q{COMMIT PREPARED 'p'});
	is(sql(q{SELECT count(*) FROM jobq.enqueue_many('two_phase', '[1]', unique_keys => '{k}') WHERE status = 'inserted'}), '0', 'then its key is taken')
	  if sql(q{SELECT state FROM jobq.jobs WHERE queue = 'two_phase'}) eq 'ready';
	becomes('and its job expires', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'two_phase' AND state = 'expired'}, limit => 60);
	verify_ok($node);
};

subtest 'dump and restore' => sub {
	sql(q{SELECT jobq.create_queue('dumped')});
	my $id = sql(q{SELECT jobq.enqueue('dumped', '1', unique_key => 'k', expires_in => '1 day')});
	sql(q{SELECT jobq.enqueue('dumped', '2', unique_key => 's', unique_until => 'started', priority => 1)});
	sql(q{SELECT count(*) FROM jobq.dequeue('dumped')});
	sql(q{SELECT jobq.enqueue('dumped', '3', unique_key => 's', unique_until => 'started', priority => 1)});
	sql(q{SELECT jobq.enqueue('dumped', '4', unique_key => 'w', unique_for => '1 day', priority => 0)});
	sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('dumped')});
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
	$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'dump');
	$node->safe_psql('postgres', 'CREATE DATABASE copy');
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'copy' ], 'restore');
	$node->safe_psql('copy', 'SELECT jobq.adopt()');
	is($node->safe_psql('copy', q{SELECT jobq.enqueue('dumped', unique_key => 'k')}), $id, 'keys are taken there, too');
	is($node->safe_psql('copy', q{SELECT string_agg(status, ' ' ORDER BY ord) FROM jobq.enqueue_many('dumped', '[1, 2, 3]', unique_keys => '{s,w,new}')}), 'duplicate duplicate inserted', 'by jobs and windows');
	is($node->safe_psql('copy', q{SELECT expires > now() + interval '23 h' FROM jobq.job WHERE unique_key = 'k'}), 't', 'times to live');
	verify_ok($node, 'verify there', 'copy');
	$node->safe_psql('postgres', 'DROP DATABASE copy WITH (FORCE)');
};

subtest 'an old snapshot' => sub {
	sql(q{SELECT jobq.create_queue('old', keep_completed => '0')});
	my $s = JobqSession->new($node);
	$s->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$s->query('SELECT 1');
	for my $round (1 .. 5)
	{
		sql(qq{SELECT count(*) FROM jobq.enqueue_many('old', (SELECT jsonb_agg(n) FROM generate_series(1, 2000) n), expires_in => '1 ms')});
		becomes("round $round", "SELECT expired_total = $round * 2000 FROM jobq.queues WHERE queue = 'old'");
	}
	my $begin = Time::HiRes::time();
	sql(q{SELECT jobq.enqueue('old', expires_in => '1 ms')});
	becomes('one more, behind ten thousand dead entries', q{SELECT expired_total = 10001 FROM jobq.queues WHERE queue = 'old'}, limit => 5);
	# Another key each time costs the same; the same one, what doc/unique.md says.
	sql(q{DO $$ BEGIN FOR i IN 1 .. 500 LOOP PERFORM jobq.enqueue('old', unique_key => 'same'); PERFORM jobq.complete(job_id, token) FROM jobq.dequeue('old'); COMMIT; END LOOP; END $$});
	$begin = Time::HiRes::time();
	sql(q{DO $$ BEGIN FOR i IN 1 .. 100 LOOP PERFORM jobq.enqueue('old', unique_key => 'same'); PERFORM jobq.complete(job_id, token) FROM jobq.dequeue('old'); COMMIT; END LOOP; END $$});
	cmp_ok((Time::HiRes::time() - $begin) / 100, '<', 0.02, 'a key that was used again and again');
	$s->query('COMMIT');
	$s->close;
	verify_ok($node);
};

subtest 'windows are collected' => sub {
	sql(q{SELECT jobq.create_queue('windows')});
	sql(q{SELECT count(*) FROM jobq.enqueue_many('windows', (SELECT jsonb_agg(n) FROM generate_series(1, 1200) n), unique_for => '2 s',
		unique_keys => (SELECT array_agg('w' || n ORDER BY n) FROM generate_series(1, 1200) n))});
	sql(q{SELECT count(*) FROM (SELECT array_agg(job_id) j, array_agg(token) t FROM jobq.dequeue('windows', 1200)) d, jobq.complete_many(d.j, d.t)});
	is(sql(q{SELECT count(*) FROM jobq.unique_window WHERE unique_key LIKE 'w_%' AND queue_id = (SELECT id FROM jobq.queue WHERE name = 'windows')}), '1200', 'they are there');
	set_clock('2min');
	sql(q{SELECT jobq.enqueue('windows', unique_key => 'x', unique_for => '1 ms', expires_in => '1 ms')});
	becomes('and gone when they are over', q{SELECT count(*) = 0 FROM jobq.unique_window WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'windows')}, limit => 60);
	set_clock('0');
	verify_ok($node);
};

subtest 'administrators' => sub {
	sql(q{SELECT jobq.create_queue('admin'); ALTER TABLE jobq.job ADD COLUMN note text; CREATE INDEX job_note ON jobq.job (name)});
	my $id = sql(q{SELECT jobq.enqueue('admin', unique_key => 'a', name => 'x')});
	is(sql(q{SELECT jobq.enqueue('admin', unique_key => 'a')}), $id, 'with an index of theirs on the table');
	is(sql(q{SELECT string_agg(status, ' ' ORDER BY ord) FROM jobq.enqueue_many('admin', '[1, 2, 3]', unique_keys => '{b,a,b}')}), 'inserted duplicate duplicate', 'in bulk');
	sql('REINDEX INDEX CONCURRENTLY jobq.job_unique_key; VACUUM FULL jobq.job');
	is(sql(q{SELECT string_agg(status, ' ' ORDER BY ord) FROM jobq.enqueue_many('admin', '[1, 2, 3]', unique_keys => '{b,a,c}')}), 'duplicate duplicate inserted', 'after REINDEX and VACUUM FULL');
	# Against a storm of producers of the same keys
	my @sessions = map { JobqSession->new($node) } 1 .. 4;
	sql('DROP INDEX jobq.job_note; ALTER TABLE jobq.job DROP COLUMN note');
	$_->send(q{DO $$ BEGIN FOR i IN 1 .. 150 LOOP
		PERFORM count(*) FROM jobq.enqueue_many('admin', '[1, 2, 3, 4, 5]', unique_keys => ARRAY(SELECT 's' || (random() * 20)::int FROM generate_series(1, 5)));
		COMMIT;
		PERFORM jobq.enqueue('admin', unique_key => 's' || (random() * 20)::int, on_conflict => (ARRAY['keep', 'replace'])[1 + (random() > 0.5)::int]);
		COMMIT;
		PERFORM jobq.complete(job_id, token) FROM jobq.dequeue('admin', 3);
		COMMIT;
	END LOOP; END $$}) for @sessions;
	sql('REINDEX INDEX CONCURRENTLY jobq.job_unique_key');
	my @errors = grep { $_ ne '' } map { $_->result; $_->errors } @sessions;
	is(join("\n", @errors), '', 'a storm of producers beside REINDEX CONCURRENTLY: no error');
	$_->close for @sessions;
	verify_ok($node);
};

server_alive_ok($node);
$node->stop;
done_testing();
