# Groups through crashes, restarts and failovers: no token twice, no order broken, no job lost, and everything goes on.
use strict;
use warnings;

use Jobq;
use JobqSession;
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $conf = "restart_after_crash = on\njobq.rescan_interval = 1s\nautovacuum = off\nwal_receiver_status_interval = 1\nwal_retrieve_retry_interval = 100ms\n";
my $node = jobq_node('first', conf => $conf, init => [ allows_streaming => 1 ]);
my $kills = 0;

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub becomes
{
	my ($query, $name, $limit) = @_;
	return ok(poll_until($name, $query, node => $node, limit => $limit // 20), $name);
}

sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

# Jobs of a group, with payloads from $from to $to.
sub fill
{
	my ($on, $queue, $key, $from, $to) = @_;
	return $on->safe_psql('postgres', "SELECT count(*) FROM jobq.enqueue_many('$queue', (SELECT jsonb_agg(n) FROM generate_series($from, $to) n),
		group_keys => array_fill('$key'::text, ARRAY[$to - $from + 1]))");
}

subtest 'leases from before a crash' => sub {
	sql(q{SELECT jobq.create_queue('q', lease => '1 hour', max_attempts => 100, backoff => 'fixed', backoff_base => '0 s')});
	fill($node, 'q', $_, 1, 2) for qw(long short over marked late);
	sql(q{SELECT jobq.enqueue('q', '"alone"')});
	sql(q{CREATE TABLE hand (what text PRIMARY KEY, job_id bigint, token bigint, lease_until timestamptz)});
	my $keep = sub {
		my ($lease, $liveness) = @_;
		return sql("SET jobq.async_dequeue = off; SET jobq.session_liveness = $liveness;
			INSERT INTO hand SELECT coalesce(group_key, 'alone'), job_id, token, lease_until FROM jobq.dequeue('q', lease => '$lease') RETURNING what");
	};
	my $marked = JobqSession->new($node);
	# each group in turn; a job without a group comes when its lane has its turn
	sql(q{SELECT jobq.pause_group('q', k) FROM unnest('{long,short,over,marked,late}'::text[]) k});
	is($keep->('4 s', 'off'), 'alone', 'taken: alone');
	for my $take ([ 'long', '1 hour' ], [ 'short', '6 s' ], [ 'over', '4 s' ], [ 'late', '4 s' ])
	{
		sql("SELECT jobq.resume_group('q', '$take->[0]')");
		is($keep->($take->[1], 'off'), $take->[0], "taken: $take->[0]");
	}
	sql(q{SELECT jobq.resume_group('q', 'marked')});
	$marked->query(q{SET jobq.session_liveness = on});
	is($marked->query(q{SET jobq.async_dequeue = off;
			INSERT INTO hand SELECT group_key, job_id, token, lease_until FROM jobq.dequeue('q', lease => '12 s') RETURNING what}),
		'marked', 'taken by a session that is tied to it');

	crash();
	$marked->close;
	my $from = sql('SELECT pg_postmaster_start_time()');
	my ($late, $late_token) = split /\|/, sql(q{SELECT job_id, token FROM hand WHERE what = 'late'});
	# they have run out, as far as their own time goes, when the server had been down for long
	sql(q{UPDATE jobq.lease l SET started = l.started - interval '1 hour', lease_until = l.lease_until - interval '1 hour' FROM hand h
		WHERE h.token = l.token AND h.what IN ('alone', 'over', 'short', 'late')});
	sql(q{SELECT jobq.enqueue('q', '"look"', delay => '10 ms')});
	crash();
	$from = sql('SELECT pg_postmaster_start_time()');
	my $at = {};
	poll_until('leases end', sub {
		for (split /\n/, sql(q{SELECT h.what || '|' || extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) FROM hand h
				WHERE NOT EXISTS (SELECT FROM jobq.lease l WHERE l.token = h.token)}))
		{
			my ($what, $t) = split /\|/;
			$at->{$what} //= $t;
		}
		sql("SELECT jobq.extend($late, $late_token, '1 hour')") if !$at->{extended}++;
		return $at->{short} && $at->{over} && $at->{alone};
	}, limit => 30);
	cmp_ok($at->{alone} // 99, '<', 3.9, 'a job without a group comes back at once');
	cmp_ok($at->{over} // 0, '>=', 3.9, 'a group of which the lease is over has its length once more, from the start on');
	cmp_ok($at->{over} // 99, '<', 10, 'and no longer');
	cmp_ok($at->{short} // 0, '>=', 5.9, 'so has another one, by its length');
	cmp_ok($at->{short} // 99, '<', 12, 'and no longer');
	ok(!$at->{late}, 'a worker that came back meanwhile keeps its group');
	is(sql("SELECT jobq.complete($late, $late_token)"), 't', 'and completes its job');
	is(sql(q{SELECT string_agg(what, ' ' ORDER BY what) FROM hand JOIN jobq.lease USING (token) WHERE what <> 'late'}), 'long marked',
		'what has time left lasts, also of a session that has not survived');
	is(sql(q{SELECT jobq.complete(job_id, token) FROM hand WHERE what = 'long'}), 't', 'its token is good');
	my $old = sql('SELECT max(token) FROM hand');
	becomes(q{SELECT NOT EXISTS (SELECT FROM jobq.lease l JOIN hand h USING (token) WHERE h.what = 'marked')}, 'it ends with its time and the grace', 40);
	is( sql(qq{SELECT string_agg(group_key || payload || attempt || (token > $old)::text, ' ' ORDER BY group_key)
			FROM jobq.dequeue('q', 100) WHERE group_key IS NOT NULL}),
		'late21true long21true marked12true over12true short12true', 'every group goes on at its first unfinished job, under greater tokens');
	is((sqlstate_of($node, "SELECT jobq.complete(job_id, token) FROM hand WHERE what = '$_'"))[0], 'JQ001', "$_: the old token is over") for qw(over short marked);
	verify_ok($node);
	sql(q{SELECT jobq.drop_queue('q', force => true); DROP TABLE hand});
};

subtest 'a rate survives restart and idleness' => sub {
	sql(q{SELECT jobq.create_queue('rate', group_rate_limit => 1, group_rate_interval => '1 hour')});
	sql(q{SELECT jobq.alter_group('rate', 'own', rate_limit => 4, rate_interval => '4 days', weight => 3)});
	fill($node, 'rate', $_, 1, 1) for qw(own queues);
	# a dequeue alone need not survive a crash; with a completion it does
	is(sql(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('rate', 2)) x}), '2', 'one each');
	is(sql(q{SELECT count(*) FROM jobq.job_group}), '0', 'they are idle');
	my $next = sql('SELECT group_key, next_at FROM jobq.group_rate ORDER BY 1');
	for my $how ('immediate', 'fast')
	{
		$node->stop($how);
		$node->start;
		is(sql('SELECT group_key, next_at FROM jobq.group_rate ORDER BY 1'), $next, "$how: the rates are there");
		is(sql(q{SELECT weight, rate_limit, rate_interval FROM jobq.group_setting WHERE group_key = 'own'}), '3|4|4 days', "$how: so are the settings");
	}
	fill($node, 'rate', $_, 2, 3) for qw(own queues);
	becomes(q{SELECT count(*) = 2 FROM jobq.groups WHERE queue = 'rate' AND state = 'WAIT'}, 'they wait for their rate');
	is(sql(q{SELECT group_key, wake_at FROM jobq.groups WHERE queue = 'rate' ORDER BY 1}), $next, 'until the time that was set before');
	is(sql(q{SELECT count(*) FROM jobq.dequeue('rate', 10)}), '0', 'and hold no worker');
	crash();
	is(sql(q{SELECT count(*) FROM jobq.dequeue('rate', 10)}), '0', 'nor after a crash');
	sql(q{SELECT jobq.alter_group('rate', 'own', rate_limit => 1000, rate_interval => '1 s')});
	verify_ok($node);
	sql(q{SELECT jobq.drop_queue('rate', force => true)});
};

subtest 'a worker that leaves, and a crash' => sub {
	sql(q{SELECT jobq.create_queue('leave', lease => '1 hour')});
	fill($node, 'leave', "k$_", 1, 2) for 1 .. 4;
	sql(q{CREATE TABLE hand AS SELECT job_id, token FROM jobq.dequeue('leave', 4, worker => 'old')});
	is(sql(q{SELECT jobq.drain_worker('old', step => 2, pause => '100 ms')}), '4', 'asked to leave');
	crash();
	is(sql(q{SELECT count(*) FROM jobq.groups WHERE state = 'MIGRATING'}), '2', 'what was marked is marked');
	is(sql(q{SELECT string_agg(heard, ' ' ORDER BY heard) FROM (SELECT jobq.extend(job_id, token) AS heard FROM hand) x}), 'drain drain ok ok', 'the worker hears of it');
	my $done = 0;
	ok( poll_until('handed over', sub {
				$done += () = sql(q{DELETE FROM hand h WHERE (SELECT drain FROM jobq.lease l WHERE l.token = h.token)
					RETURNING jobq.complete(job_id, token)}) =~ /t/g;
				return $done == 4;
			}, limit => 20),
		'the scheduler goes on to ask until all are handed over');
	becomes('SELECT count(*) = 0 FROM jobq.drain', 'the wish is fulfilled');
	is(sql(q{SELECT string_agg(payload::text || ' ' || attempt, ', ') FROM jobq.dequeue('leave', 4)}), '2 1, 2 1, 2 1, 2 1', 'the next jobs follow');
	verify_ok($node);
	sql(q{SELECT jobq.drop_queue('leave', force => true); DROP TABLE hand});
};

# Load: producers that agree on an order by the lock of a row, workers that take batches, fail, give back, and complete with their write.
sql(q{
	SELECT jobq.create_queue('load', lease => '2 s', max_attempts => 1000, backoff => 'fixed', backoff_base => '0 s');
	CREATE TABLE sent (group_key text PRIMARY KEY, n int NOT NULL);
	INSERT INTO sent SELECT 'g' || g, 0 FROM generate_series(1, 12) g;
	CREATE TABLE done (id bigint GENERATED ALWAYS AS IDENTITY, group_key text, n int, job_id bigint, token bigint);

	CREATE PROCEDURE produce() LANGUAGE plpgsql AS $$
	DECLARE
		key text;
		last int;
		many int;
	BEGIN
		LOOP
			key := 'g' || 1 + floor(12 * random() ^ 2)::int;
			many := 1 + floor(random() * 4)::int;
			UPDATE sent SET n = n + many WHERE group_key = key RETURNING n INTO last;
			PERFORM jobq.enqueue('load', to_jsonb(n), group_key => key) FROM generate_series(last - many + 1, last) n;
			IF random() < 0.1 THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
			PERFORM pg_sleep(0.002);
		END LOOP;
	END $$;

	CREATE PROCEDURE consume(batch int, stop_when_empty boolean) LANGUAGE plpgsql AS $$
	DECLARE
		job record;
		seen bigint;
		lost bigint;
		empty int := 0;
	BEGIN
		CREATE TEMP TABLE IF NOT EXISTS hand (place bigint, job_id bigint, token bigint, n int, group_key text);
		LOOP
			DELETE FROM hand;
			INSERT INTO hand SELECT t.ordinality, t.job_id, t.token, t.payload::int, t.group_key
				FROM jobq.dequeue('load', batch, group_batch => 3) WITH ORDINALITY t;
			COMMIT;
			seen := 0;
			lost := 0;
			FOR job IN SELECT h.place, h.job_id, h.token, h.n, h.group_key FROM hand h ORDER BY h.place LOOP
				IF job.token <> seen THEN
					RAISE NOTICE 'took % %', job.token, job.group_key;
					seen := job.token;
				END IF;
				CONTINUE WHEN job.token = lost;
				BEGIN
					CASE floor(random() * 20)::int
						WHEN 0 THEN
							lost := job.token;
							PERFORM jobq.fail(job.job_id, job.token, 'x');
						WHEN 1 THEN
							lost := job.token;
							PERFORM jobq.release(job.job_id, job.token);
						ELSE
							INSERT INTO done (group_key, n, job_id, token) VALUES (job.group_key, job.n, job.job_id, job.token);
							PERFORM jobq.complete(job.job_id, job.token);
					END CASE;
				EXCEPTION WHEN SQLSTATE 'JQ001' THEN
					lost := job.token;
				END;
				COMMIT;
			END LOOP;
			IF seen = 0 THEN
				empty := empty + 1;
				EXIT WHEN stop_when_empty AND empty > 20;
				PERFORM pg_sleep(0.01);
			END IF;
		END LOOP;
	END $$});

my %tokens;
my $highest_token = 0;

# What a worker said it took: no token may come twice, nor be lower than what was known before.
sub note_tokens
{
	my ($name, @outputs) = @_;
	my (@wrong, @new);
	for my $out (@outputs)
	{
		while ($out =~ /took (\d+) (\S+)/g)
		{
			push @wrong, "$1 again" if $tokens{$1}++;
			push @wrong, "$1 is not above $highest_token" if $1 <= $highest_token;
			push @new, $1;
		}
	}
	$highest_token = max($highest_token, @new);
	is("@wrong", '', "$name: no token twice, none lower than before (" . @new . ' tokens)');
	return;
}

# In every group the jobs were done in the order in which they were sent, once each, under tokens that grow.
my $disorder = q{
	SELECT group_key, n, expected, token, before FROM (
		SELECT group_key, n, row_number() OVER w AS expected, token, lag(token, 1, 0::bigint) OVER w AS before
		FROM done WINDOW w AS (PARTITION BY group_key ORDER BY id)) x
	WHERE n <> expected OR token < before LIMIT 5};

sub start_load
{
	my @workers;
	for my $call (('CALL produce()') x 2, 'CALL consume(1, false)', 'CALL consume(4, false)', 'CALL consume(10, false)')
	{
		my %w = (out => '', err => '', call => $call);
		$w{run} = IPC::Run::start([ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr('postgres') . ' application_name=load', '-c', $call ],
			'<', \undef, '>', \$w{out}, '2>', \$w{err});
		push @workers, \%w;
	}
	return @workers;
}

# Runs load until so much is done, breaks it off, and has a look.
sub load_round
{
	my ($name, $break) = @_;
	my $before = sql('SELECT count(*) FROM done');
	my @workers = start_load();
	poll_until("$name: work is being done", sub {
		$_->{run}->pump_nb for grep { $_->{run}->pumpable } @workers;
		return sql('SELECT count(*) FROM done') > $before + 300;
	}, limit => 40);
	$break->();
	eval { $_->{run}->finish } for @workers;
	note_tokens($name, map { $_->{err} } @workers);
	my @errors = grep { /ERROR/ && !/terminating|crash/ } map { split /\n/, $_->{err} } @workers;
	is("@errors", '', "$name: the workers met no error");
	is(sql($disorder), '', "$name: every group in order");
	verify_ok($node, "$name: verify");
	return;
}

sub kill_one
{
	my ($like) = @_;
	my $restarts = sub { my $n = () = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/g; return $n; };
	my $before = $restarts->();
	my $pid;
	poll_until('a victim', sub {
		$pid = sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'load' AND query LIKE '%$like%' AND backend_xid IS NOT NULL LIMIT 1");
		return $pid ne '' && kill 'KILL', $pid;
	});
	$kills++;
	poll_until('the server restarts', sub { $restarts->() > $before });
	poll_until('the server is back', 'SELECT true', node => $node);
	return;
}

subtest 'crashes under load' => sub {
	load_round('a producer killed', sub { kill_one('produce') });
	load_round('a worker killed', sub { kill_one('consume') });
	load_round('another worker killed', sub { kill_one('consume(10') });
	load_round('an immediate stop', sub { crash() });
	load_round('sessions terminated', sub { sql(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'load'}) });
	# all that is left, by one worker
	my $s = JobqSession->new($node);
	becomes(q{SELECT count(*) = 0 FROM jobq.groups WHERE queue = 'load' AND state = 'LEASED'}, 'leases of the dead workers end');
	$s->query('CALL consume(10, true)', limit => 60);
	note_tokens('the rest', $s->errors);
	$s->close;
	is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'load' AND state <> 'completed'}), '0', 'nothing is left');
	is(sql($disorder), '', 'every group in order');
	is(sql('SELECT group_key FROM sent WHERE n <> (SELECT count(*) FROM done WHERE done.group_key = sent.group_key)'), '', 'and complete');
	is(sql(q{SELECT count(*) FROM jobq.job_group}), '0', 'all groups are idle');
	cmp_ok(sql('SELECT count(*) FROM done'), '>', 1500, 'there was work');
	verify_ok($node);
	my @died = slurp_file($node->logfile) =~ /(was terminated by signal[^\n]*|TRAP:[^\n]*|PANIC:[^\n]*)/g;
	is(scalar(grep { !/signal 9/ } @died), 0, 'nothing died but what was killed') or diag("@died");
	is(scalar @died, $kills, 'and of that, each once');
};

# Failover. Each standby lags when it is promoted: what its primary did last is not known there, and happens again, in order.
sub standby
{
	my ($name, $of) = @_;
	$of->backup("for_$name");
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($of, "for_$name", has_streaming => 1);
	$standby->start;
	return $standby;
}

sub cut_off
{
	my ($standby) = @_;
	$standby->append_conf('postgresql.conf', "primary_conninfo = ''\n");
	$standby->reload;
	poll_until('the standby is cut off', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver', node => $standby);
	return;
}

# Takes and completes so many jobs of the groups of queue f, one by one; the payloads by group, as "a: 1 2 b: 1". Tokens must grow.
sub work
{
	my ($name, $n) = @_;
	my (%steps, @low);
	for (1 .. $n)
	{
		my ($id, $token, $key, $step) = split /\|/, sql(q{SELECT job_id, token, group_key, payload FROM jobq.dequeue('f')});
		last unless $id;
		push @low, "$token <= $highest_token" if $token <= $highest_token;
		$highest_token = max($highest_token, $token);
		push @{ $steps{$key} }, $step;
		sql("SELECT jobq.complete($id, $token)");
	}
	is("@low", '', "$name: tokens grow");
	return join ' ', map { "$_: @{$steps{$_}}" } sort keys %steps;
}

subtest 'two failovers in a row to standbys that lag' => sub {
	sql(q{SELECT jobq.create_queue('f', lease => '1 hour', on_dead => 'block', backoff => 'fixed', backoff_base => '1 hour')});
	fill($node, 'f', $_, 1, 9) for qw(a b c);
	fill($node, 'f', $_, 1, 3) for qw(blocked paused waits);
	sql(q{SELECT jobq.pause_group('f', 'paused'); SELECT jobq.create_queue('f2', backoff => 'fixed', backoff_base => '0 s')});
	for my $fate ([ 'blocked', 'retry => false' ], [ 'waits', 'retry => true' ])
	{
		# its turn comes when the others have had theirs
		my ($key, $how) = @$fate;
		sql("DO \$\$
			DECLARE r record;
			BEGIN
				LOOP
					SELECT * INTO r FROM jobq.dequeue('f');
					IF r.group_key = '$key' THEN
						PERFORM jobq.fail(r.job_id, r.token, 'x', $how);
						EXIT;
					END IF;
					PERFORM jobq.release(r.job_id, r.token);
				END LOOP;
			END \$\$");
	}
	$highest_token = max($highest_token, sql('SELECT max(token) FROM done'));
	my @nodes = ($node);
	my %next = map { $_ => 1 } qw(a b c);
	my ($held, $held_token, $held_key);
	for my $round (1, 2)
	{
		my $standby = standby("standby$round", $node);
		push @nodes, $standby;
		# one group in hand when the primary goes
		($held, $held_token, $held_key) = split /\|/,
			sql(q{SET jobq.async_dequeue = off; SET jobq.session_liveness = off; SELECT job_id, token, group_key FROM jobq.dequeue('f', worker => 'holder')});
		$highest_token = max($highest_token, $held_token);
		fill($node, 'f2', "brief$round", 1, 1);
		my ($brief, $brief_token) = split /\|/,
			sql(q{SET jobq.async_dequeue = off; SELECT job_id, token FROM jobq.dequeue('f2', lease => '5 s')});
		$highest_token = max($highest_token, $brief_token);
		$node->wait_for_catchup($standby);
		for my $view (qw(groups jobs workers dead_letters))
		{
			my $query = "SELECT row_to_json(v) FROM (SELECT * FROM jobq.$view ORDER BY 1, 2) v";
			is($standby->safe_psql('postgres', $query), sql($query), "round $round: view $view on the standby");
		}
		like($standby->safe_psql('postgres', "SELECT jobq.explain_job($held)"), qr/holder/, "round $round: explain_job on the standby");
		verify_ok($standby, "round $round: verify on the standby");
		for my $call (q{enqueue('f', group_key => 'a')}, q{pause_group('f', 'a')}, q{resume_group('f', 'a')}, q{unblock_group('f', 'a')}, q{alter_group('f', 'a', weight => 2)},
			q{drain_worker('holder')})
		{
			is((sqlstate_of($standby, "SELECT jobq.$call"))[0], '25006', "round $round: on the standby: $call is refused");
		}
		cut_off($standby);
		poll_until('one lease is over', "SELECT lease_until < clock_timestamp() FROM jobq.lease WHERE token = $brief_token", node => $standby);
		# the standby sees nothing of this
		my $unseen = work("round $round: primary", 7);
		fill($node, 'f', 'a', 100, 101);
		$node->stop('immediate');
		$standby->promote;
		$node = $standby;
		becomes('SELECT NOT pg_is_in_recovery()', "round $round: promoted");
		if ($round == 1)
		{
			is(sql("SELECT jobq.extend($brief, $brief_token, '1 hour')"), 'ok', "round $round: whose lease is over may come back for a moment");
			is(sql("SELECT jobq.complete($brief, $brief_token)"), 't', "round $round: and goes on");
		}
		# what the primary did last happens again, in the same order
		isnt($unseen, '', "round $round: the primary did something ($unseen)");
		is(sql("SELECT holder FROM jobq.groups WHERE group_key = '$held_key'"), 'holder', "round $round: the lease lasts");
		my $again = work("round $round: the promoted one", 7);
		is($again, $unseen, "round $round: the same jobs again, in order");
		is(sql("SELECT jobq.complete($held, $held_token)"), 't', "round $round: who held a group completes its job");
		is(sql(q{SELECT string_agg(group_key || ' ' || state, ', ' ORDER BY group_key) FROM jobq.groups WHERE state IN ('BLOCKED', 'WAIT')}),
			'blocked BLOCKED, paused BLOCKED, waits WAIT', "round $round: who was held is held");
		fill($node, 'f', $_, 10 * $round, 10 * $round) for qw(a b c);
		if ($round == 2)
		{
			becomes("SELECT state = 'READY' FROM jobq.groups WHERE group_key = 'brief$round'", "round $round: whose worker does not come back goes on");
			is((sqlstate_of($node, "SELECT jobq.complete($brief, $brief_token)"))[0], 'JQ001', "round $round: the old token is over");
		}
		becomes('SELECT bool_and(exact) FROM jobq.queues', "round $round: counters are exact");
		verify_ok($node, "round $round: verify");
	}
	sql(q{SELECT jobq.unblock_group('f', 'blocked'); SELECT jobq.resume_group('f', 'paused'); SELECT jobq.run_now(ARRAY(SELECT job_id FROM jobq.jobs WHERE group_key = 'waits'))});
	work('the rest', 100);
	is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'f' AND state NOT IN ('completed')}), '0', 'all is done in the end');
	is( sql(q{SELECT string_agg(group_key || ': ' || steps, ', ' ORDER BY group_key)
			FROM (SELECT group_key, string_agg(payload::text, ' ' ORDER BY token) steps FROM jobq.history WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'f') GROUP BY group_key) x}),
		join(', ', map { "$_: " . (length > 1 ? '1 2 3' : '1 2 3 4 5 6 7 8 9 10 20') } qw(a b blocked c paused waits)), 'in order');
	verify_ok($node);
	server_alive_ok($_) for @nodes[ 1 .. $#nodes ];
};

subtest 'pg_upgrade' => sub {
	# groups in every state; nothing changes by itself within the hour
	sql(q{SELECT jobq.create_queue('u', lease => '1 hour', backoff => 'fixed', backoff_base => '1 hour')});
	for my $key (qw(leased blocked waits paused ready))
	{
		# each alone in the queue for its moment
		fill($node, 'u', $key, 1, 3);
		next if $key eq 'ready';
		sql(q{SET jobq.async_dequeue = off; CREATE TABLE IF NOT EXISTS hand (job_id bigint, token bigint, group_key text);
			INSERT INTO hand SELECT job_id, token, group_key FROM jobq.dequeue('u')});
		sql("SELECT jobq.fail(job_id, token, 'x', retry => group_key <> 'blocked') FROM hand WHERE group_key = '$key'") if $key =~ /blocked|waits/;
		sql("SELECT jobq.pause_group('u', 'paused'); SELECT jobq.release(job_id, token) FROM hand WHERE group_key = 'paused'") if $key eq 'paused';
	}
	sql(q{SELECT jobq.alter_group('u', 'idle', weight => 3, rate_limit => 1, rate_interval => '1 hour'); SELECT jobq.enqueue('u', '1', group_key => 'idle', priority => 1)});
	sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('u')});
	my $picture = q{SELECT row_to_json(x) FROM (SELECT * FROM jobq.groups ORDER BY queue, group_key) x
		UNION ALL SELECT row_to_json(x) FROM (SELECT * FROM jobq.jobs ORDER BY job_id) x
		UNION ALL SELECT row_to_json(x) FROM (SELECT * FROM jobq.group_rate ORDER BY next_at) x
		UNION ALL SELECT row_to_json(x) FROM (SELECT * FROM jobq.group_setting ORDER BY group_key) x};
	my $before = sql($picture);
	is(sql(q{SELECT string_agg(group_key || ' ' || state || ' ' || pending, ', ' ORDER BY group_key) FROM jobq.groups WHERE queue = 'u'}),
		'blocked BLOCKED 2, idle IDLE 0, leased LEASED 3, paused BLOCKED 3, ready READY 3, waits WAIT 3', 'groups in every state');
	$highest_token = max($highest_token, sql('SELECT max(token) FROM hand'));
	verify_ok($node, 'verify of the old server');
	$node->stop;
	my $old = $node;
	$node = jobq_node('upgraded', conf => $conf, start => 0);
	chdir PostgreSQL::Test::Utils::tempdir();
	command_ok([
			$node->installed_command('pg_upgrade'), '--no-sync', '-d', $old->data_dir, '-D', $node->data_dir, '-b', $old->config_data('--bindir'),
			'-B', $node->config_data('--bindir'), '-s', $node->host, '-p', $old->port, '-P', $node->port ],
		'pg_upgrade');
	$node->start;
	is(sql($picture), $before, 'everything is there');
	verify_ok($node, 'verify after it');
	sql(q{SELECT jobq.enqueue('u', '2', group_key => 'idle', priority => 1)});
	my ($id, $token, $key, $step) = split /\|/, sql(q{SELECT job_id, token, group_key, payload FROM jobq.dequeue('u')});
	is("$key $step", 'ready 1', 'the group that may run does; the others are where they were');
	cmp_ok($token, '>', $highest_token, 'tokens go on, although the timeline starts again');
	is(sql("SELECT jobq.complete($id, $token)"), 't', 'completed');
	is(sql(q{SELECT jobq.complete(job_id, token) FROM hand WHERE group_key = 'leased'}), 't', 'the old lease is good');
	is(sql(q{SELECT state FROM jobq.groups WHERE group_key = 'idle'}), 'WAIT', 'the rate of an idle group has survived');
	sql(q{SELECT jobq.unblock_group('u', 'blocked'); SELECT jobq.resume_group('u', 'paused');
		SELECT jobq.run_now(ARRAY(SELECT job_id FROM jobq.jobs WHERE group_key = 'waits'));
		SELECT jobq.alter_group('u', 'idle', reset => '{rate_limit,rate_interval}'); SELECT jobq.resume_group('u', 'idle')});
	my (%steps, @low);
	poll_until('the rest', sub {
		($id, $token, $key, $step) = split /\|/, sql(q{SELECT job_id, token, group_key, payload FROM jobq.dequeue('u')});
		return sql(q{SELECT count(*) FROM jobq.groups WHERE queue = 'u' AND state <> 'IDLE'}) eq '0' unless $id;
		push @low, $token if $token <= $highest_token;
		$highest_token = $token;
		$steps{$key} .= " $step";
		sql("SELECT jobq.complete($id, $token)");
		return 0;
	}, limit => 20);
	is(join(',', map { "$_$steps{$_}" } sort keys %steps), 'blocked 1 2 3,idle 2,leased 2 3,paused 1 2 3,ready 2 3,waits 1 2 3', 'all go on in order');
	is("@low", '', 'under tokens that grow');
	verify_ok($node, 'verify at the end');
	server_alive_ok($node);
	$node->stop;
};
done_testing();
