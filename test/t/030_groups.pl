# Groups over time: sessions that end, leases that run out, workers that leave, commits that wait for each other, very many groups at once.
use strict;
use warnings;

use Jobq;
use JobqSession;
use List::Util qw(min max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('groups', conf => "jobq.rescan_interval = 0\njobq.scheduler_idle_timeout = 2s\n");

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The query comes true.
sub becomes
{
	my ($query, $name, $limit) = @_;
	return ok(poll_until($name, $query, node => $node, limit => $limit // 20), $name);
}

# A worker's session that is tied to its groups.
sub live_worker
{
	my $s = JobqSession->new($node);
	$s->query('SET jobq.session_liveness = on');
	return $s;
}

# Ends a session's server process; returns the server's time just before.
sub terminate
{
	my ($s) = @_;
	my ($at) = split /\|/, sql('SELECT clock_timestamp(), pg_terminate_backend(' . $s->pid . ')');
	$s->close;
	return $at;
}

sub group_state { return sql("SELECT state FROM jobq.groups WHERE queue = '$_[0]' AND group_key = '$_[1]'"); }

# Jobs of a group, with payloads 1 to n.
sub fill
{
	my ($queue, $key, $n) = @_;
	return sql("SELECT count(*) FROM jobq.enqueue_many('$queue', (SELECT jsonb_agg(n) FROM generate_series(1, $n) n), group_keys => array_fill('$key'::text, ARRAY[$n]))");
}

# A session that ended long ago, and one that ends now, whose group comes back: the scheduler has looked at all ended sessions by then.
my $probes = 0;

sub all_looked_at
{
	my ($name) = @_;
	my $key = 'probe ' . ++$probes;
	my $s = live_worker();
	fill('live', $key, 1);
	my $token = $s->query("SELECT token FROM jobq.dequeue('live', 1, lease => '1 hour')");
	terminate($s);
	becomes("SELECT state = 'READY' FROM jobq.groups WHERE queue = 'live' AND group_key = '$key'", $name);
	sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('live')});
	return;
}

# A token that is over can do nothing.
sub refused_everywhere
{
	my ($id, $token, $name) = @_;
	for my $call ("complete($id, $token)", "fail($id, $token)", "release($id, $token)", "extend($id, $token)", "progress($id, $token, '1')",
		"assert_lease($id, $token)", "ack($id, $token)", "nack($id, $token)", "complete_and_dequeue($id, $token, 'live')")
	{
		is((sqlstate_of($node, "SELECT jobq.$call"))[0], 'JQ001', "$name: the old token is refused: $call");
	}
	for my $verb (qw(complete_many fail_many release_many extend_many))
	{
		is(sql("SELECT status FROM jobq.$verb(ARRAY[$id], ARRAY[$token])"), 'lost', "$name: $verb");
	}
	return;
}

sql(q{SELECT jobq.create_queue('live', max_attempts => 100, backoff => 'fixed', backoff_base => '0 s')});

# Time in ms from $from until a dequeue that waits has the group's next job.
sub taken_after
{
	my ($waiter, $from) = @_;
	my ($id, $token, $payload, $attempt, $ms) = split /\|/,
		($waiter->result(limit => 40) // die 'the waiter is gone: ' . $waiter->errors);
	my $late = sql("SELECT extract(epoch FROM '$ms'::timestamptz - '$from'::timestamptz) * 1000");
	return ($late, $id, $token, $payload, $attempt);
}
my $wait_for = q{SELECT job_id, token, payload, attempt, clock_timestamp() FROM jobq.dequeue('live', wait => '30 s', lease => '1 hour')};

for my $how ('its backend is terminated', 'its client is killed')
{
	subtest "a session that is alive no more: $how" => sub {
		my @ms;
		for my $round (1 .. 3)
		{
			fill('live', 'a', 3);
			my $worker = live_worker();
			my ($first, $second) = map { [ split /\|/ ] } split /\n/,
				$worker->query(q{SELECT job_id, token, payload FROM jobq.dequeue('live', 2, group_batch => 2, lease => '1 hour')});
			is("$first->[2] $second->[2]", '1 2', 'two jobs of the group in hand');
			my $waiter = JobqSession->new($node);
			$waiter->send($wait_for);
			becomes('SELECT wait_event_type = \'Extension\' FROM pg_stat_activity WHERE pid = ' . $waiter->pid, 'another worker waits');
			my $at;
			if ($how =~ /client/)
			{
				$at = sql('SELECT clock_timestamp()');
				$worker->{psql}->signal('KILL');
			}
			else
			{
				$at = terminate($worker);
			}
			my ($ms, $id, $token, $payload, $attempt) = taken_after($waiter, $at);
			push @ms, $ms;
			is("$payload $attempt", '1 2', 'the first job of the group starts again');
			cmp_ok($token, '>', $first->[1], 'under a greater token');
			is(sql("SELECT state || attempt FROM jobq.job($second->[0])"), 'ready0', 'the one after it is uncounted');
			if ($round == 1)
			{
				refused_everywhere($first->[0], $first->[1], 'first job');
				is((sqlstate_of($node, "SELECT jobq.complete($second->[0], $second->[1])"))[0], 'JQ001', 'and for the second job');
			}
			is(sql("SELECT jobq.complete($id, $token)"), 't', 'the successor completes it');
			is(sql(q{SELECT string_agg(payload::text, ' ') FROM (SELECT payload, jobq.complete(job_id, token) FROM jobq.dequeue('live', 2, group_batch => 2)) x}),
				'2 3', 'and the others follow in order');
			$waiter->close;
			eval { $worker->{psql}->kill_kill };
			$worker->{closed} = 1;
		}
		cmp_ok(min(@ms), '<', 1000, "within a second (@ms ms)");
		verify_ok($node);
	};
}

subtest 'who lives keeps its lease; who did not ask for it has it until its time' => sub {
	my @w;
	for my $name ('off', 'reset', 'alive', 'set off')
	{
		fill('live', $name, 1);
		my $s = $name eq 'off' ? JobqSession->new($node) : live_worker();
		my ($id, $token, $key) = split /\|/, $s->query(q{SELECT job_id, token, group_key FROM jobq.dequeue('live', lease => '1 hour')});
		is($key, $name, "taken: $name");
		push @w, { name => $name, s => $s, id => $id, token => $token };
	}
	my ($off, $reset, $alive, $set_off) = @w;
	$reset->{s}->query('DISCARD ALL');
	$set_off->{s}->query('SET jobq.session_liveness = off');
	fill('live', 'after reset', 1);
	my ($later, $later_token) = split /\|/, $reset->{s}->query(q{SELECT job_id, token FROM jobq.dequeue('live', lease => '10 s')});
	all_looked_at('the scheduler looks at ended sessions');
	is(group_state('live', $_->{name}), 'LEASED', "$_->{name}: the lease goes on") for @w;
	is($_->{s}->query("SELECT jobq.extend($_->{id}, $_->{token})"), 'ok', "$_->{name}: extend") for @w;

	terminate($off->{s});
	terminate($reset->{s});
	all_looked_at('they have ended');
	is(group_state('live', 'off'), 'LEASED', 'without liveness the lease counts');
	is(group_state('live', 'after reset'), 'LEASED', 'so it does for what was taken after DISCARD ALL');
	is(sql("SELECT jobq.complete($off->{id}, $off->{token})"), 't', 'and its token is good, from any session');
	is(sql("SELECT jobq.extend($later, $later_token, '11 s')"), 'ok', 'and can be extended from any session');
	becomes(q{SELECT state = 'READY' FROM jobq.groups WHERE queue = 'live' AND group_key = 'after reset'}, 'it ends with its time');
	is(group_state('live', 'reset'), 'READY', 'what it took before is taken over');
	is($alive->{s}->query("SELECT jobq.complete($alive->{id}, $alive->{token})"), 't', 'who lives completes its job');
	is($set_off->{s}->query("SELECT jobq.complete($set_off->{id}, $set_off->{token})"), 't', 'so does who switched it off');
	is(sql(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) ok FROM jobq.dequeue('live', 10)) x WHERE ok}), '2', 'the two others run again');
	$_->{s}->close for @w;
	verify_ok($node);
};

subtest 'liveness is for groups' => sub {
	my $worker = live_worker();
	sql(q{SELECT jobq.enqueue('live')});
	my ($id, $token) = split /\|/, $worker->query(q{SELECT job_id, token FROM jobq.dequeue('live', lease => '1 hour')});
	terminate($worker);
	all_looked_at('it has ended');
	is(sql("SELECT jobq.complete($id, $token)"), 't', 'a job without a group stays with its lease');
	verify_ok($node);
};

subtest 'many groups of one session, and one that is being finished' => sub {
	my $worker = live_worker();
	is(sql(q{SELECT count(*) FROM jobq.enqueue_many('live', (SELECT jsonb_agg(n) FROM generate_series(1, 260) n),
		group_keys => ARRAY(SELECT 'm' || n % 130 FROM generate_series(1, 260) n))}), '260', 'jobs in 130 groups');
	is($worker->query(q{CREATE TEMP TABLE hand AS SELECT * FROM jobq.dequeue('live', 130, lease => '1 hour'); SELECT count(*) FROM hand}), '130', 'all in hand');
	my ($id, $token, $key) = split /\|/, $worker->query('SELECT job_id, token, group_key FROM hand ORDER BY job_id LIMIT 1');
	my $finisher = JobqSession->new($node);
	is($finisher->query("BEGIN; SELECT jobq.complete($id, $token)"), 't', 'another session finishes one');
	terminate($worker);
	becomes(q{SELECT count(*) = 129 FROM jobq.groups WHERE queue = 'live' AND state = 'READY'}, 'the others are taken over meanwhile');
	is(group_state('live', $key), 'LEASED', 'that one is left alone');
	$finisher->query('COMMIT');
	becomes("SELECT state = 'READY' AND pending = 1 FROM jobq.groups WHERE queue = 'live' AND group_key = '$key'", 'it is finished, and its group goes on');
	is(sql("SELECT state FROM jobq.job($id)"), 'completed', 'once');
	$finisher->close;

	# the same, but what was begun is rolled back
	$worker = live_worker();
	($id, $token, $key) = split /\|/, $worker->query(q{SELECT job_id, token, group_key FROM jobq.dequeue('live', lease => '1 hour')});
	$finisher = JobqSession->new($node);
	$finisher->query("BEGIN; SELECT jobq.complete($id, $token)");
	terminate($worker);
	all_looked_at('it has ended');
	is(group_state('live', $key), 'LEASED', 'being finished');
	$finisher->query('ROLLBACK');
	becomes("SELECT state = 'READY' FROM jobq.groups WHERE queue = 'live' AND group_key = '$key'", 'rolled back, it is taken over');
	$finisher->close;

	# a worker that dies in the transaction that took the job
	$worker = live_worker();
	$key = $worker->query(q{BEGIN; SELECT group_key FROM jobq.dequeue('live', lease => '1 hour')});
	terminate($worker);
	becomes("SELECT state = 'READY' FROM jobq.groups WHERE queue = 'live' AND group_key = '$key'", 'a take that did not commit is undone');
	becomes(q{SELECT count(*) = 0 FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('live', 1000)) x}, 'all the rest is done');
	verify_ok($node);
};

subtest 'while the scheduler has left' => sub {
	my @ms;
	for my $how ('liveness', 'lease')
	{
		@ms = ();
		for (1 .. 3)
		{
			fill('live', 'idle', 1);
			my $worker = live_worker();
			my ($id, $token, $until) = split /\|/,
				$worker->query(q{SELECT job_id, token, lease_until FROM jobq.dequeue('live', lease => } . ($how eq 'lease' ? q{'6 s')} : q{'1 hour')}));
			becomes(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}, 'the scheduler is idle and leaves')
				if $how eq 'liveness';
			my $waiter = JobqSession->new($node);
			$waiter->send($wait_for);
			my $from = $how eq 'lease' ? $until : terminate($worker);
			my ($ms, $next, $next_token) = taken_after($waiter, $from);
			push @ms, $ms;
			is($next, $id, "$how: taken over");
			is(sql("SELECT jobq.complete($next, $next_token)"), 't', "$how: and done");
			$_->close for $waiter, $worker;
			last if $how eq 'lease';
		}
		cmp_ok(min(@ms), '<', 1000, "$how: within a second (@ms ms)");
	}
	verify_ok($node);
};

subtest 'a worker that has only a lease' => sub {
	my @ms;
	for my $round (1 .. 5)
	{
		fill('live', 'b', 2);
		my $worker = JobqSession->new($node);
		my ($id, $token, $until) = split /\|/, $worker->query(q{SELECT job_id, token, lease_until FROM jobq.dequeue('live', lease => '250 ms')});
		my $waiter = JobqSession->new($node);
		$waiter->send($wait_for);
		my ($ms, $next, $next_token, $payload, $attempt) = taken_after($waiter, $until);
		push @ms, $ms;
		is("$payload $attempt", '1 2', 'the job runs again, at its place');
		cmp_ok($ms, '>=', 0, 'not before the lease is over');
		cmp_ok($next_token, '>', $token, 'under a greater token');
		refused_everywhere($id, $token, 'lease over') if $round == 1;
		is($worker->state("SELECT jobq.complete($id, $token)"), 'JQ001', 'the first worker is refused');
		is(sql("SELECT jobq.complete($next, $next_token)"), 't', 'the second is not');
		is(sql(q{SELECT string_agg(payload::text, ' ') FROM (SELECT payload, jobq.complete(job_id, token) FROM jobq.dequeue('live', 2)) x}), '2', 'and the next follows');
		$_->close for $waiter, $worker;
	}
	cmp_ok(min(@ms), '<', 200, "within 200 ms of the lease's end (@ms ms)");
	verify_ok($node);
};

subtest '20,000 groups in a transaction' => sub {
	is(sql('SHOW max_locks_per_transaction'), '64', 'default max_locks_per_transaction');
	sql(q{SELECT jobq.create_queue('wide')});
	my $enqueue = q{SELECT count(*) FROM jobq.enqueue_many('wide', (SELECT jsonb_agg('%s'::text) FROM generate_series(1, 20000)),
		group_keys => ARRAY(SELECT 'g' || n FROM generate_series(1, 20000) n ORDER BY n %s))};
	is(sql(sprintf($enqueue, 'one', 'ASC')), '20000', 'one transaction');
	is(sql(q{SELECT count(*) FROM jobq.groups WHERE queue = 'wide' AND state = 'READY'}), '20000', 'made 20,000 groups');
	verify_ok($node, 'verify: one transaction');
	# in opposite order, into groups that exist and, the second time, into new ones
	for my $round ('busy groups', 'new groups')
	{
		my ($up, $down) = map { JobqSession->new($node) } 1 .. 2;
		$up->query('BEGIN; ' . sprintf($enqueue, 'up', 'ASC'));
		$down->query('BEGIN; ' . sprintf($enqueue, 'down', 'DESC'));
		$_->send('COMMIT') for $up, $down;
		$_->result(limit => 60) for $up, $down;
		is($_->sqlstate, '00000', "$round: no deadlock, no lack of memory") for $up, $down;
		$_->close for $up, $down;
		# which came first is the same in all groups
		like(sql(q{SELECT count(DISTINCT orders) || ' ' || max(orders) FROM (SELECT string_agg(j.payload #>> '{}', ' ' ORDER BY n.ord) orders
				FROM jobq.line n JOIN jobq.job j ON j.id = n.job_id GROUP BY n.group_id) x}),
			qr/^1 (?:one )?(?:up down|down up)$/, "$round: one transaction is before the other in all groups");
		verify_ok($node, "$round: verify");
		is(sql(q{SELECT jobq.purge_queue('wide')}), $round eq 'busy groups' ? '60000' : '40000', "$round: purged");
		is(sql(q{SELECT count(*) FROM jobq.groups WHERE queue = 'wide'}), '0', "$round: no group is left");
	}
	verify_ok($node);
	sql(q{SELECT jobq.drop_queue('wide')});
};

subtest 'a worker that leaves' => sub {
	sql(q{SELECT jobq.create_queue('leave', lease => '1 hour')});
	sql(q{SELECT count(*) FROM jobq.enqueue_many('leave', (SELECT jsonb_agg(n / 20 + 1) FROM generate_series(0, 59) n),
		group_keys => ARRAY(SELECT 'k' || n % 20 FROM generate_series(0, 59) n))});
	sql(q{SELECT jobq.enqueue('leave', '"alone"', priority => 1)});
	my $worker = JobqSession->new($node);
	$worker->query(q{CREATE TEMP TABLE hand (job_id bigint, token bigint, n int, done boolean DEFAULT false);
		INSERT INTO hand SELECT job_id, token, 1 FROM jobq.dequeue('leave', worker => 'old');
		DO $$ BEGIN FOR i IN 1 .. 20 LOOP
			INSERT INTO hand SELECT job_id, token, row_number() OVER () FROM jobq.dequeue('leave', 2, group_batch => 2, worker => 'old');
		END LOOP; END $$});
	is($worker->query('SELECT count(DISTINCT token) || \' \' || count(*) FROM hand'), '21 41', '20 groups and one job in hand');
	my $migrating = q{SELECT count(*) FROM jobq.groups WHERE state = 'MIGRATING'};
	is(sql($migrating), '0', 'none is being handed over');
	is(sql(q{SELECT jobq.drain_worker('old', step => 5, pause => '150 ms')}), '20', 'asked to leave');
	is(sql($migrating), '5', 'the first five');
	is(sql(q{SELECT jobq.drain_worker('old', step => 5, pause => '150 ms')}), '20', 'asked again');
	is(sql($migrating), '5', 'no more for that');
	is(sql(q{SELECT jobq.drain_worker('nobody')}), '0', 'a worker without leases has none to hand over');
	my $highest = 0;
	my $handed = 0;
	# a worker that is slow: it lets go two groups at a time
	my $end = Time::HiRes::time() + 30;
	while ($handed < 20 && Time::HiRes::time() < $end)
	{
		my $n = $worker->query(q{
			WITH asked AS MATERIALIZED (
				SELECT h.job_id, h.token, jobq.extend(h.job_id, h.token) AS heard FROM hand h WHERE h.n = 1 AND NOT h.done ORDER BY h.token),
			over AS MATERIALIZED (
				SELECT a.job_id, jobq.complete(a.job_id, a.token) AS ok FROM (SELECT * FROM asked WHERE heard = 'drain' LIMIT 2) a)
			UPDATE hand h SET done = true FROM over o WHERE o.job_id = h.job_id AND o.ok RETURNING 1});
		$handed += () = $n =~ /1/g;
		$highest = max($highest, sql($migrating));
	}
	is($handed, 20, 'all are handed over');
	cmp_ok($highest, '<=', 5, 'never more than five at a time');
	is(sql(q{SELECT count(*) FROM jobq.groups WHERE queue = 'leave' AND state = 'READY' AND pending = 2}), '20', 'each with the rest of its batch');
	is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'leave' AND state = 'ready' AND attempt = 0}), '40', 'which counts no attempt');
	is($worker->query(q{SELECT string_agg(jobq.extend(job_id, token), ' ') FROM hand WHERE NOT done AND n = 1}), 'ok', 'the job without a group is left to it');
	becomes('SELECT count(*) = 0 FROM jobq.drain', 'the wish is fulfilled') or diag(sql('SELECT * FROM jobq.drain'));
	is($worker->state('SELECT jobq.complete(job_id, token) FROM hand WHERE n = 2 LIMIT 1'), 'JQ001', 'what went back is not the old worker\'s any more');
	is( sql(q{SELECT string_agg(DISTINCT steps || ' ' || attempts, ',') FROM (
			SELECT string_agg(payload::text, ' ' ORDER BY ordinality) steps, max(attempt) attempts
			FROM jobq.dequeue('leave', 40, group_batch => 2, worker => 'new') WITH ORDINALITY GROUP BY group_key) x}),
		'2 3 1', 'another worker goes on in order');
	verify_ok($node, 'verify: handed over');
	sql(q{SELECT jobq.drop_queue('leave', force => true)});
	$worker->close;

	# one that says nothing keeps its groups until they end; the wish lasts until then
	sql(q{SELECT jobq.create_queue('leave', lease => '1 s', backoff => 'fixed', backoff_base => '0 s')});
	fill('leave', "s$_", 1) for 1 .. 3;
	sql(q{SELECT count(*) FROM jobq.dequeue('leave', 3, worker => 'silent')});
	is(sql(q{SELECT jobq.drain_worker('silent', step => 1, pause => '50 ms')}), '3', 'a silent worker');
	is(sql($migrating), '1', 'is asked for one');
	becomes(q{SELECT count(*) = 3 FROM jobq.groups WHERE queue = 'leave' AND state = 'READY'}, 'its groups come back with their time');
	becomes('SELECT count(*) = 0 FROM jobq.drain', 'and the wish is over');
	verify_ok($node);
	sql(q{SELECT jobq.drop_queue('leave', force => true)});
};

subtest 'PREPARE TRANSACTION' => sub {
	sql(q{SELECT jobq.create_queue('two_phase', lease => '1 hour')});
	fill('two_phase', 'p', 2);
	is((sqlstate_of($node, q{BEGIN; SELECT jobq.enqueue('two_phase', group_key => 'p'); PREPARE TRANSACTION 'x'}))[0], '0A000', 'after enqueue');
	is((sqlstate_of($node, q{BEGIN; SELECT jobq.enqueue_many('two_phase', '[1]', group_keys => '{q}'); PREPARE TRANSACTION 'x'}))[0], '0A000', 'after enqueue_many');
	is((sqlstate_of($node, q{BEGIN; SELECT jobq.dequeue('two_phase'); PREPARE TRANSACTION 'x'}))[0], '0A000', 'after dequeue');
	my $waiting = sql(q{SELECT max(job_id) FROM jobq.jobs WHERE queue = 'two_phase'});
	my ($id, $token) = split /\|/, sql(q{SELECT job_id, token FROM jobq.dequeue('two_phase')});
	for my $call ("complete($id, $token)", "fail($id, $token)", "fail($id, $token, retry => false)", "release($id, $token)", "release($id, $token, '1 s')",
		"complete_and_dequeue($id, $token, 'two_phase')", "complete_many(ARRAY[$id], ARRAY[$token])", "cancel($waiting)",
		"delete_jobs(ARRAY[$waiting])", "reschedule($waiting, now() + interval '1 h')", "purge_queue('two_phase')")
	{
		my ($state, $message) = sqlstate_of($node, "BEGIN; SELECT jobq.$call; PREPARE TRANSACTION 'x'");
		is($state, '0A000', "after $call") or diag($message);
		is(sql("SELECT string_agg(state, ' ' ORDER BY job_id) FROM jobq.jobs WHERE queue = 'two_phase'"), 'active ready', 'nothing of it happened');
	}
	is(sql('SELECT count(*) FROM pg_prepared_xacts'), '0', 'nothing is prepared');
	is(sql("SELECT jobq.complete($id, $token)"), 't', 'the lease is as good as before');
	is((sqlstate_of($node, q{BEGIN; SELECT jobq.enqueue('two_phase', '"alone"'); PREPARE TRANSACTION 'x'; COMMIT PREPARED 'x'}))[0], '00000', 'a job without a group may');
	verify_ok($node);
	sql(q{SELECT jobq.drop_queue('two_phase', force => true)});
};

subtest 'a group that cannot go on stops no other' => sub {
	for my $how ('lease', 'session')
	{
		sql(q{SELECT jobq.create_queue('bad', max_attempts => 1)});
		sql(q{SELECT jobq.enqueue('bad', group_key => key) FROM unnest('{a,b,c,d}'::text[]) key});
		# the dead letter of a is there already; b has lost its row
		sql(q{INSERT INTO jobq.dead (id, created, died, queue_id, attempt, max_attempts, priority, reason, payload)
			SELECT id, created, now(), 0, 1, 1, priority, 'test', payload FROM jobq.job WHERE group_key = 'a'});
		my $offset = -s $node->logfile;
		my $worker = live_worker();
		$worker->query(q{SELECT count(*) FROM jobq.dequeue('bad', 4, lease => } . ($how eq 'lease' ? q{'1 s')} : q{'1 hour')}));
		sql(q{CREATE TABLE lost AS SELECT * FROM jobq.job_group WHERE group_key = 'b'; DELETE FROM jobq.job_group WHERE group_key = 'b'});
		terminate($worker) if $how eq 'session';
		becomes(q{SELECT count(*) = 2 FROM jobq.groups WHERE queue = 'bad' AND state = 'BLOCKED'}, "$how: the others go on");
		is(sql(q{SELECT count(*) FROM jobq.lease}), '2', "$how: the bad ones stay");
		my @errors = grep { /ERROR:/ } split /\n/, slurp_file($node->logfile, $offset);
		cmp_ok(scalar(@errors), '<=', 20, "$how: without an error loop");
		sql(q{INSERT INTO jobq.job_group SELECT * FROM lost; DROP TABLE lost; DELETE FROM jobq.dead WHERE reason = 'test'});
		becomes(q{SELECT count(*) = 4 FROM jobq.groups WHERE queue = 'bad' AND state = 'BLOCKED'}, "$how: and go on once they can", 40);
		$worker->close;
		verify_ok($node, "$how: verify");
		sql(q{SELECT jobq.drop_queue('bad', force => true)});
	}
};

subtest 'through a pooler' => sub {
	my ($pgbouncer) = grep { -x } '/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', map { "$_/pgbouncer" } split /:/, $ENV{PATH};
	plan skip_all => 'pgbouncer is not installed' unless $pgbouncer;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	append_to_file("$dir/ini", "[databases]\npostgres = host=" . $node->host . ' port=' . $node->port . ' dbname=postgres user=' . getpwuid($<) . <<"INI");

[pgbouncer]
listen_addr =
unix_socket_dir = $dir
listen_port = $port
auth_type = any
pool_mode = transaction
default_pool_size = 2
logfile = $dir/log
pidfile = $dir/pid
INI
	my ($out, $err) = ('', '');
	my $pooler = IPC::Run::start([ $pgbouncer, "$dir/ini" ], '<', \undef, '>', \$out, '2>', \$err);
	poll_until('the pooler is up', sub { $pooler->pump_nb if $pooler->pumpable; return -S "$dir/.s.PGSQL.$port"; }, limit => 20);
	my @c = map { JobqSession->new($node, host => $dir, port => $port) } 1 .. 3;
	sql(q{SELECT jobq.create_queue('pool', lease => '1 hour')});
	$c[0]->query(q{BEGIN; SELECT jobq.enqueue('pool', '1', group_key => 'p')});
	$c[1]->query(q{SELECT jobq.enqueue('pool', '2', group_key => 'p')});
	is($c[1]->query(q{SELECT payload FROM jobq.dequeue('pool', 10, group_batch => 10)}), '2', 'what is committed can be taken');
	$c[0]->query('COMMIT');
	my ($id, $token) = split /\|/, $c[2]->query(q{SELECT l.job_ids[1], l.token FROM jobq.lease l JOIN jobq.queue q ON q.id = l.queue_id WHERE q.name = 'pool'});
	is($c[2]->query("SELECT jobq.complete($id, $token)"), 't', 'any client completes it');
	my $rest = $c[1]->query(q{SELECT job_id, token, payload FROM jobq.dequeue('pool')});
	like($rest, qr/\|1$/, 'then the next in the order of the commits');
	($id, $token) = split /\|/, $rest;
	$_->close for @c;
	$pooler->signal('INT');
	$pooler->finish;
	is(group_state('pool', 'p'), 'LEASED', 'when the pool has gone, the lease lasts');
	is(sql("SELECT jobq.complete($id, $token)"), 't', 'and its token is good');
	verify_ok($node);
};
server_alive_ok($node);
$node->stop;

# Where our processes find no place to run, dequeue does for groups what it does for jobs.
my $bare = jobq_node('bare', conf => "jobq.rescan_interval = 0\nmax_worker_processes = 1\nmax_logical_replication_workers = 4\n");

subtest 'without launcher and scheduler' => sub {
	my $s = sub { return $bare->safe_psql('postgres', $_[0]); };
	is($s->(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'}), '0', 'none of our processes runs');
	$s->(q{SELECT jobq.create_queue('q', backoff => 'fixed', backoff_base => '0 s')});
	$s->(q{SELECT jobq.enqueue('q', to_jsonb(n), group_key => 'g') FROM generate_series(1, 2) n});
	$s->(q{SELECT jobq.enqueue('q', '9', group_key => 'later', delay => '300 ms')});
	my ($id, $token) = split /\|/, $s->(q{SELECT job_id, token FROM jobq.dequeue('q', lease => '300 ms')});
	my %seen;
	my $take = sub {
		for (split /\n/, $s->(q{SELECT group_key, payload::text || ' ' || attempt, job_id, token FROM jobq.dequeue('q', 10, lease => '1 hour')}))
		{
			my ($key, @job) = split /\|/;
			$seen{$key} = \@job;
		}
		return;
	};
	poll_until('the lease ends', sub { $take->(); return $seen{g}; });
	is($seen{g}[0], '1 2', 'a lease that is over is ended by a dequeue');
	is((sqlstate_of($bare, "SELECT jobq.complete($id, $token)"))[0], 'JQ001', 'and its token is over');
	poll_until('the delayed job', sub { $take->(); return $seen{later}; });
	is($seen{later}[0], '9 1', 'a delayed job joins its group and runs');
	is($s->("SELECT jobq.fail($seen{g}[1], $seen{g}[2], retry_in => '300 ms')"), 'retry', 'a group that waits');
	delete $seen{g};
	poll_until('the backoff', sub { $take->(); return $seen{g}; });
	is($seen{g}[0], '1 3', 'goes on by itself');
	verify_ok($bare);
};
server_alive_ok($bare);
$bare->stop;

# Commits that wait for one that does not come to its end: debug points are needed to stop it there.
my $slow = jobq_node('slow', debug => 1, conf => "jobq.scheduler_idle_timeout = 60s\n");

subtest 'jobq.commit_timeout' => sub {
	my $s = sub { return $slow->safe_psql('postgres', $_[0]); };
	$s->(q{SELECT jobq.create_queue('c', lease => '1 hour')});
	$s->(q{SELECT jobq.enqueue('c', '"first"', group_key => 'g'), jobq.enqueue('c', '"second"', group_key => 'g')});
	my ($id, $token) = split /\|/, $s->(q{SELECT job_id, token FROM jobq.dequeue('c')});
	my ($holder, $stuck, $other, $waits) = map { JobqSession->new($slow) } 1 .. 4;
	$holder->query(q{SELECT pg_advisory_lock(hashtext('line-locked'))});
	$stuck->query(q{SET jobq.debug_point = 'line-locked'; BEGIN; SELECT jobq.enqueue('c', '"third"', group_key => 'g')});
	$stuck->send('COMMIT');
	poll_until('a commit is stuck', q{SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = } . $stuck->pid, node => $slow);

	# Runs it; the SQLSTATE, and how long it took.
	my $timed = sub {
		my ($set, $sql) = @_;
		$other->query("RESET ALL; $set");
		my $begun = Time::HiRes::time();
		my $state = $other->state($sql, limit => 40);
		return ($state, Time::HiRes::time() - $begun);
	};
	my $jobs = q{SELECT count(*) FROM jobq.jobs WHERE queue = 'c'};
	for my $how ([ q{SET jobq.commit_timeout = '300 ms'}, 0.3 ], [ q{SET jobq.commit_timeout = '30 s'; SET lock_timeout = '200 ms'}, 0.2 ],
		[ q{SET jobq.commit_timeout = 0; SET lock_timeout = '200 ms'}, 0.2 ], [ q{SET jobq.commit_timeout = '250 ms'; SET lock_timeout = '30 s'}, 0.25 ])
	{
		my ($set, $least) = @$how;
		for my $call (q{SELECT jobq.enqueue('c', '"no"', group_key => 'g')}, "SELECT jobq.complete($id, $token)",
			"SELECT jobq.fail($id, $token)", "SELECT jobq.release($id, $token)")
		{
			my ($state, $took) = $timed->($set, $call);
			is($state, '55P03', "$set: $call");
			cmp_ok($took, '>=', $least - 0.01, 'after that time');
			cmp_ok($took, '<', 15, 'and not long after');
		}
	}
	my ($state) = $timed->(q{SET jobq.commit_timeout = '200 ms'}, q{BEGIN; SELECT jobq.enqueue('c', '"no"'); SELECT jobq.enqueue('c', '"no"', group_key => 'g'); COMMIT});
	is($state, '55P03', 'a transaction fails as a whole');
	is($s->($jobs), '2', 'nothing of them is left');
	is($other->query("SELECT state || attempt FROM jobq.job($id)"), 'active1', 'the session goes on, and the job is still in hand');
	is($other->query(q{SHOW lock_timeout}), '0', 'its lock_timeout is what it was');
	# statement_timeout does not run in COMMIT, a cancel does
	$other->query(q{RESET ALL; SET statement_timeout = '200 ms'; SET jobq.commit_timeout = '1 s'; BEGIN; SELECT jobq.enqueue('c', '"no"', group_key => 'g')});
	is($other->state('COMMIT'), '55P03', 'in COMMIT statement_timeout does not count');
	$other->query('RESET ALL');
	# neighbours
	is($other->state(q{SET jobq.commit_timeout = '5 s'; SELECT jobq.enqueue('c', '"alone"')}), '00000', 'a job without a group does not wait');
	my @keys = map { "n$_" } 1 .. 5;
	my @passed = grep { $other->state("SELECT jobq.enqueue('c', '\"n\"', group_key => '$_')", limit => 40) eq '00000' } @keys;
	cmp_ok(scalar @passed, '>=', 4, 'other groups do not wait');
	is($other->query("SELECT jobq.extend($id, $token)"), 'ok', 'nor does an extend of the group in question');

	# one that waits without a limit gets through when the other does
	$waits->query(q{SET jobq.commit_timeout = 0; BEGIN; SELECT jobq.enqueue('c', '"fourth"', group_key => 'g')});
	$waits->send('COMMIT');
	poll_until('a second commit waits', q{SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event = 'advisory'}, node => $slow);
	ok(!$waits->finished, 'without a limit it waits');
	$holder->query(q{SELECT pg_advisory_unlock_all()});
	$_->result for $stuck, $waits;
	is($_->sqlstate, '00000', 'then both commit') for $stuck, $waits;
	is($other->query(qq{RESET ALL; SELECT jobq.complete($id, $token)}), 't', 'and what failed before works');
	is($other->query(q{SELECT jobq.enqueue('c', '"fifth"', group_key => 'g') > 0}), 't', 'enqueue too');
	is($other->query(q{SELECT string_agg(payload #>> '{}', ' ' ORDER BY ordinality) FROM jobq.dequeue('c', 10, group_batch => 10) WITH ORDINALITY WHERE group_key = 'g'}),
		'second third fourth fifth', 'in the order of the commits');
	$_->close for $holder, $stuck, $other, $waits;
	verify_ok($slow);
};

subtest 'a commit that hangs holds up its own group only' => sub {
	my $s = sub { return $slow->safe_psql('postgres', $_[0]); };
	$s->(q{SELECT jobq.create_queue('h', backoff => 'fixed', backoff_base => '0 s')});
	$s->(q{SELECT jobq.enqueue('h', group_key => key) FROM unnest('{g,h,i,j,k}'::text[]) key});
	my ($holder, $stuck) = map { JobqSession->new($slow) } 1 .. 2;
	$holder->query(q{SELECT pg_advisory_lock(hashtext('line-locked'))});
	$s->(q{SELECT count(*) FROM jobq.dequeue('h', 5, lease => '1 s')});
	$stuck->query(q{SET jobq.debug_point = 'line-locked'; BEGIN; SELECT jobq.enqueue('h', group_key => 'g')});
	$stuck->send('COMMIT');
	poll_until('a commit is stuck', q{SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = } . $stuck->pid, node => $slow);
	$s->(q{SELECT jobq.enqueue('h', group_key => key, delay => '1 s') FROM unnest('{g,l,m}'::text[]) key});
	ok( poll_until('others', q{SELECT count(*) = 6 FROM jobq.groups WHERE queue = 'h' AND state = 'READY'}, node => $slow, limit => 30),
		'the other leases of the same end, and the other jobs that are due, go on');
	is($s->(q{SELECT state FROM jobq.groups WHERE queue = 'h' AND group_key = 'g'}), 'LEASED', 'its own group waits');
	$holder->query(q{SELECT pg_advisory_unlock_all()});
	$stuck->result;
	ok( poll_until('it too', q{SELECT state = 'READY' AND pending = 3 FROM jobq.groups WHERE queue = 'h' AND group_key = 'g'}, node => $slow, limit => 30),
		'and goes on after it');
	$_->close for $holder, $stuck;
	verify_ok($slow);
};
server_alive_ok($slow);
$slow->stop;
done_testing();
