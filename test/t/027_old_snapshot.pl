# An old snapshot, an open prepared transaction or a replication slot keeps dead rows in every table. The cost of a claim does not grow
# with them. Buffers are counted, never time.
use strict;
use warnings;

use Jobq;
use JobqSession;
use List::Util qw(min);
use Test::More;

my $node = jobq_node('main', conf => "fsync = off\nsynchronous_commit = off\nautovacuum_naptime = 1s\nshared_buffers = 256MB\n",
	init => [ allows_streaming => 1 ]);
my $cycles = 4;
my $batch = 6000;

sub sql { return $node->safe_psql('postgres', shift); }

# Buffers that a statement of a session touches.
sub buffers
{
	my ($session, $query) = @_;
	my $plan = $session->query("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $query");
	my ($hit) = $plan =~ /"Shared Hit Blocks": (\d+)/ or die $plan;
	my ($read) = $plan =~ /"Shared Read Blocks": (\d+)/;
	return $hit + $read;
}

# A life of $batch jobs: enqueued, taken in tens, most completed, some failed once, some given back, some delayed.
my $cycle = qq{
	DO \$\$
	DECLARE
		round int := 0;
		taken bigint[];
		tokens bigint[];
	BEGIN
		PERFORM count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(n) FROM generate_series(1, $batch * 9 / 10) n));
		PERFORM count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(n) FROM generate_series(1, $batch / 10) n), delay => '1 ms');
		COMMIT;
		LOOP
			SELECT array_agg(job_id), array_agg(token) INTO taken, tokens FROM jobq.dequeue('q', 10);
			COMMIT;
			EXIT WHEN taken IS NULL;
			IF cardinality(taken) = 10 AND round % 2 = 0 THEN
				PERFORM jobq.nack(taken[1], tokens[1]);
				PERFORM jobq.release(taken[2], tokens[2]);
				taken := taken[3:];
				tokens := tokens[3:];
			END IF;
			PERFORM count(*) FROM jobq.complete_many(taken, tokens);
			round := round + 1;
			COMMIT;
		END LOOP;
	END \$\$};

# What a worker does: buffers of each verb. The least of some rounds: a vacuum beside it has the session read catalogs again, now and then.
sub measure
{
	my ($session) = @_;
	my %least;
	for (1 .. 4)
	{
		my %b;
		# The tickets of both lanes, fresh and returned.
		my $id = $session->query(q{SELECT jobq.enqueue('q')});
		$b{dequeue} = buffers($session, q{SELECT * FROM jobq.dequeue('q')});
		my $token = $session->query("SELECT token FROM jobq.lease WHERE $id = ANY (job_ids)");
		$b{nack} = buffers($session, "SELECT jobq.nack($id, $token)");
		$b{'dequeue again'} = buffers($session, q{SELECT * FROM jobq.dequeue('q')});
		$token = $session->query("SELECT token FROM jobq.lease WHERE $id = ANY (job_ids)");
		$b{extend} = buffers($session, "SELECT jobq.extend($id, $token)");
		$b{complete} = buffers($session, "SELECT jobq.complete($id, $token)");
		$b{'dequeue of nothing'} = buffers($session, q{SELECT * FROM jobq.dequeue('q')});
		$b{'view queues'} = buffers($session, 'SELECT * FROM jobq.queues');
		$least{$_} = min($b{$_}, $least{$_} // $b{$_}) for keys %b;
	}
	return %least;
}

sql(q{SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '0 s', max_attempts => 1000000, keep_completed => '0 s')});

my $holder = JobqSession->new($node);
my %hold = (
	'old snapshot' => [ sub { $holder->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class') }, sub { $holder->query('ROLLBACK') } ],
	'prepared transaction' => [
		sub { $holder->query(q{CREATE TABLE IF NOT EXISTS t (); BEGIN; INSERT INTO t DEFAULT VALUES; PREPARE TRANSACTION 'old'}) },
		sub { $holder->query(q{ROLLBACK PREPARED 'old'}) } ],
	# One transaction with an enqueue that stays open, and whose job comes at last.
	'open producer' => [ sub { $holder->query(q{BEGIN; SELECT jobq.enqueue('q', '"late"')}) }, sub { $holder->query('COMMIT') } ]);
for my $what ('old snapshot', 'prepared transaction', 'open producer')
{
	my $worker = JobqSession->new($node);
	$worker->query($cycle);
	my %first = measure($worker);
	$hold{$what}[0]->();
	my %last;
	for (1 .. $cycles)
	{
		$worker->query($cycle);
		%last = measure($worker);
	}
	my $dead = sql(q{SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE schemaname = 'jobq'});
	note("$what: $_: $first{$_} buffers, then $last{$_}") for sort keys %last;
	for (sort keys %last)
	{
		# A page split or a free space map page more is nothing; ten thousand dead rows would be hundreds.
		cmp_ok($last{$_}, '<=', 1.5 * $first{$_} + 20, "$what: $_");
	}
	my $pages = sql(q{SELECT sum(pg_relation_size(c.oid)) / 8192 FROM pg_class c WHERE c.relname IN ('ready', 'ready_scan')});
	cmp_ok($pages, '>', 100, "$what: there were dead rows to walk");
	$hold{$what}[1]->();
	if ($what eq 'open producer')
	{
		is($worker->query(q{SELECT payload FROM jobq.dequeue('q')}), '"late"', 'the late job comes at once');
		sql(q{SELECT jobq.complete(l.job_ids[1], l.token) FROM jobq.lease l});
	}
	$worker->close;
	sql(q{VACUUM jobq.job, jobq.ready, jobq.lease, jobq.delayed});
}

# Many claims in one transaction stay linear: their own dead rows are not walked either.
my $worker = JobqSession->new($node);
sql(q{SELECT count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(n) FROM generate_series(1, 5010) n))});
$worker->query('BEGIN');
$worker->query(q{SELECT count(*) FROM (SELECT jobq.dequeue('q') FROM generate_series(1, 5)) x});
my $early = buffers($worker, q{SELECT * FROM jobq.dequeue('q')});
$worker->query(q{SELECT count(*) FROM (SELECT jobq.dequeue('q') FROM generate_series(1, 5000)) x});
my $late = buffers($worker, q{SELECT * FROM jobq.dequeue('q')});
cmp_ok($late, '<=', 1.5 * $early + 20, "5,000 claims in one transaction: $early buffers, then $late");
$worker->query('ROLLBACK');
is($worker->query(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q', 10000)) x}), '5010', 'rolled back, they all come');
$worker->close;
$holder->close;
poll_until('counters are exact', 'SELECT bool_and(exact) FROM jobq.queues', node => $node);
verify_ok($node);
server_alive_ok($node);
$node->stop;
done_testing();
