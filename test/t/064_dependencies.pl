# Dependencies and batches where a regression test cannot look: crash, no scheduler, dump, handlers, an old snapshot, many at once.
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

# Jobs of a queue and their states, in the order of their ids; a payload names its job.
sub states
{
	my ($queue, $db) = @_;
	return $node->safe_psql($db // 'postgres', qq{SELECT string_agg(payload #>> '{}' || ' ' || state, ', ' ORDER BY job_id) FROM jobq.jobs WHERE queue = '$queue'});
}

sub counts_ok
{
	my ($name, $db) = @_;
	return becomes($name, q{
		SELECT bool_and(q.exact AND (q.pending, q.ready, q.delayed, q.active, q.dead) = (
			SELECT count(*) FILTER (WHERE j.state = 'pending'), count(*) FILTER (WHERE j.state = 'ready'), count(*) FILTER (WHERE j.state = 'delayed'),
				count(*) FILTER (WHERE j.state = 'active'), count(*) FILTER (WHERE j.state = 'dead')
			FROM jobq.jobs j WHERE j.queue = q.queue))
		FROM jobq.queues q}, db => $db);
}

# What a test starts with, called by name. after is a list of names, a batch a name.
sql(q{
	CREATE TABLE hand (n serial, job text, job_id bigint, token bigint);
	CREATE FUNCTION id(job text) RETURNS bigint LANGUAGE sql AS $$ SELECT max(job_id) FROM jobq.jobs WHERE payload = to_jsonb(job) $$;
	CREATE FUNCTION ids(jobs text) RETURNS bigint[] LANGUAGE sql AS $$ SELECT array_agg(id(j)) FROM string_to_table(jobs, ' ') j $$;
	CREATE FUNCTION put(queue text, job text, after text DEFAULT NULL, after_dead text DEFAULT 'wait', batch text DEFAULT NULL, group_key text DEFAULT NULL) RETURNS bigint LANGUAGE sql AS
	$$ SELECT jobq.enqueue(queue, to_jsonb(job), group_key => group_key, after => ids(after), after_dead => after_dead, batch => id(batch)) $$;
	CREATE FUNCTION take(queue text, n int DEFAULT 1) RETURNS text LANGUAGE sql AS $$
		WITH d AS MATERIALIZED (SELECT payload #>> '{}' AS job, job_id, token FROM jobq.dequeue(queue, n, '1 h')), h AS (INSERT INTO hand (job, job_id, token) SELECT job, job_id, token FROM d)
		SELECT coalesce(string_agg(job, ' ' ORDER BY job_id), 'nothing') FROM d $$;
	CREATE FUNCTION done(job text) RETURNS boolean LANGUAGE sql AS $$ SELECT jobq.complete(job_id, token) FROM hand h WHERE h.job = $1 ORDER BY n DESC LIMIT 1 $$;
	CREATE FUNCTION failed(job text) RETURNS text LANGUAGE sql AS $$ SELECT jobq.fail(job_id, token, 'broken', retry => false) FROM hand h WHERE h.job = $1 ORDER BY n DESC LIMIT 1 $$});

subtest 'crash' => sub {
	sql(q{SELECT jobq.create_queue('crash')});
	sql(q{SELECT put('crash', 'a'), put('crash', 'b'), put('crash', 'c')});
	sql(q{SELECT put('crash', 'd', 'a b'), put('crash', 'e', 'b', 'cancel'), put('crash', 'f', 'b', 'run', group_key => 'g')});
	sql(q{SELECT jobq.open_batch('crash', '"open"'), jobq.open_batch('crash', '"closed"')});
	sql(q{SELECT put('crash', 'g', batch => 'open'), put('crash', 'h', batch => 'closed'), put('crash', 'i', batch => 'closed', after => 'h'), jobq.close_batch(id('closed'))});
	is(sql(q{SET jobq.async_dequeue = off; SELECT take('crash', 10)}), 'a b c g h', 'all that waits for nothing is taken');
	is(sql(q{SELECT done('a')}), 't', 'one is done');
	# Open when the server goes down: they have never been.
	my @s = map { JobqSession->new($node) } 1 .. 4;
	$_->query('BEGIN') for @s;
	$s[0]->query(q{SELECT done('b')});
	$s[1]->query(q{SELECT done('g'), jobq.close_batch(id('open'))});
	$s[2]->query(q{SELECT put('crash', 'never', 'c'), put('crash', 'never', batch => 'open')});
	$s[3]->query(q{SELECT jobq.reschedule(id('e'), priority => 5)});
	my $before = states('crash');
	my $waits = sql('SELECT * FROM jobq.dependencies ORDER BY job_id, on_job');
	$node->stop('immediate');
	$node->start;
	is(states('crash'), $before, 'every job is as it was');
	is(sql('SELECT * FROM jobq.dependencies ORDER BY job_id, on_job'), $waits, 'and waits for what it waited for');
	counts_ok('counters');
	verify_ok($node, 'verify after the crash');
	is(sql(q{SELECT failed('b')}), 'dead', 'one dies');
	is(sql(q{SELECT state FROM jobq.job(id('d'))}), 'pending', 'wait');
	is(sql(q{SELECT state FROM jobq.job(id('e'))}), 'cancelled', 'cancel');
	is(sql(q{SELECT state FROM jobq.job(id('f'))}), 'ready', 'run');
	is(sql(q{SELECT done('h')}), 't', 'done');
	is(sql(q{SELECT take('crash', 10)}), 'f i', 'the chain goes on');
	is(sql(q{SELECT done('f'), done('i')}), 't|t', 'done');
	is(sql(q{SELECT take('crash', 10), done('closed')}), 'closed|t', 'the closed batch') or diag(states('crash'));
	# Committed just before the crash: it counts.
	sql(q{SELECT done('g')});
	sql(q{SELECT jobq.close_batch(id('open'))});
	$node->stop('immediate');
	$node->start;
	is(sql(q{SELECT take('crash')}), 'open', 'the other one');
	$node->restart;
	counts_ok('counters after a restart');
	is(sql(q{SELECT state FROM jobq.job(id('d'))}), 'pending', 'wait, still');
	is(sql(q{SELECT jobq.redrive('crash', ids('b'))}), '1', 'redriven');
	is(sql(q{SELECT take('crash')}), 'b', 'taken');
	is(sql(q{SELECT done('b'), done('c'), done('open')}), 't|t|t', 'done');
	is(sql(q{SELECT take('crash', 10), done('d')}), 'd|t', 'and it is let go');
	is(sql(q{SELECT count(*) FROM jobq.dependency}), '0', 'nobody waits');
	$_->close for @s;
	verify_ok($node);
};

# Whether somebody waits for the end of a commit in progress, at the moment.
sub waits_in
{
	my ($s, $seconds) = @_;
	my $end = Time::HiRes::time() + $seconds;
	while (Time::HiRes::time() < $end)
	{
		return 0 if $s->finished;
		Time::HiRes::sleep(0.01);
	}
	return 1;
}

subtest 'the first that waits' => sub {
	# A job ends in a queue in which nobody has waited for one so far; its commit stops where it is too late to look.
	my $round = 0;
	for my $end ('done', 'failed')
	{
		for my $how ('alone', 'two', 'cancelled')
		{
			my $q = 'first' . ++$round;
			my $x = "x$round";
			# So it must be an extension in which nobody has waited for anybody.
			sql('DROP EXTENSION jobq; CREATE EXTENSION jobq');
			sql(qq{SELECT jobq.create_queue('$q'), jobq.create_queue('later')});
			sql(qq{SELECT put('$q', 'before $round'), put('$q', '$x')});
			sql(qq{SELECT take('$q', 2), done('before $round')});
			my $lock = JobqSession->new($node);
			$lock->query(q{SELECT pg_advisory_lock(hashtext('line-precommit'))});
			my $ender = JobqSession->new($node);
			$ender->query(q{SET jobq.debug_point = 'line-precommit'; BEGIN});
			$ender->query(qq{SELECT $end('$x'), put('$q', 'grouped', group_key => 'g')});
			$ender->send('COMMIT');
			becomes("$end, $how: the commit stands still", 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = ' . $ender->pid . ')');
			# The first of them starts to watch the queue, and waits; when it is cancelled, another one has to.
			my (@producers, @wait);
			for my $n (1 .. ($how eq 'alone' ? 1 : 3))
			{
				my $s = JobqSession->new($node);
				$s->send(qq{SELECT put('later', 'wait$n', '$x'), put('later', 'cancel$n', '$x', 'cancel'), put('later', 'run$n', '$x', 'run')});
				push @wait, waits_in($s, 0.2);
				if ($how eq 'cancelled' && $n == 1)
				{
					sql('SELECT pg_cancel_backend(' . $s->pid . ')');
					$s->result;
					$s->close;
					next;
				}
				push @producers, $s;
			}
			note("$end, $how: producers wait for the commit: @wait");
			$lock->query(q{SELECT pg_advisory_unlock_all()});
			$_->result for $ender, @producers;
			becomes("$end, $how: whoever can go on does", qq{
				SELECT count(*) > 0 AND bool_and(state = CASE WHEN '$end' = 'done' OR payload #>> '{}' ~ '^run' THEN 'ready' WHEN payload #>> '{}' ~ '^wait' THEN 'pending' ELSE 'cancelled' END)
				FROM jobq.jobs WHERE queue = 'later'});
			$_->close for @producers, $ender, $lock;
			verify_ok($node, "$end, $how: verify");
		}
	}
};

subtest 'two-phase commit and a restart' => sub {
	# What the transaction brings is visible only after the restart, and after somebody has looked whether there is anything.
	sql('DROP EXTENSION jobq; CREATE EXTENSION jobq');
	sql(q{SELECT jobq.create_queue('two_phase')});
	# Each kind by itself; it may be refused, or work.
	my @kinds = (
		[ 'waiting', q{SELECT put('two_phase', 'waiting'), put('two_phase', 'b', 'waiting')} ],
		[ 'batch', q{SELECT jobq.open_batch('two_phase', '"batch"')} ]);
	my %prepared;
	for (@kinds)
	{
		my ($kind, $query) = @$_;
		$prepared{$kind} = 1 if $node->psql('postgres', "BEGIN; $query; PREPARE TRANSACTION '$kind'", on_error_stop => 1) == 0;
	}
	note('prepared: ' . join(' ', sort keys %prepared));
	$node->restart;
	sql(q{SELECT put('two_phase', 'other')});
	sql(q{SELECT take('two_phase'), done('other')});
	sql("COMMIT PREPARED '$_'") for sort keys %prepared;
	if ($prepared{waiting})
	{
		becomes('its job can be taken', q{SELECT take('two_phase', 10) = 'waiting'});
		sql(q{SELECT done('waiting')});
		becomes('and lets the other one go', q{SELECT state = 'ready' FROM jobq.job(id('b'))});
	}
	if ($prepared{batch})
	{
		sql(q{SELECT jobq.close_batch(id('batch'))});
		becomes('the batch is closed', q{SELECT state = 'ready' FROM jobq.job(id('batch'))});
	}
	verify_ok($node);
	# A completion that was prepared takes effect later, and is heard.
	sql(q{SELECT put('two_phase', 'p')});
	sql(q{SELECT take('two_phase', 10)});
	my $r = $node->psql('postgres', q{BEGIN; SELECT done('p'); PREPARE TRANSACTION 'completion'}, on_error_stop => 1);
	if ($r == 0)
	{
		sql(q{SELECT put('two_phase', 'q', 'p'), put('two_phase', 'r', 'p', 'cancel')});
		$node->restart;
		is(sql(q{SELECT state FROM jobq.job(id('q'))}), 'pending', 'waits for a prepared transaction');
		sql(q{COMMIT PREPARED 'completion'});
		becomes('until it is committed', q{SELECT bool_and(state = 'ready') FROM jobq.jobs WHERE payload IN ('"q"', '"r"')});
	}
	sql(q{SELECT jobq.drop_queue(q.queue, force => true) FROM jobq.queues q});
	verify_ok($node);
};

subtest 'in the middle of a commit' => sub {
	# Somebody's process is ended, or the server goes down, when all is done but for the commit record.
	for my $how ('terminated', 'crash')
	{
		sql(q{SELECT jobq.create_queue('mid')});
		sql(q{SELECT put('mid', 'a'), put('mid', 'b')});
		sql(q{SELECT put('mid', 'w', 'a b'), put('mid', 'c', 'a', 'cancel'), put('mid', 'cc', 'c', 'cancel'), jobq.open_batch('mid', '"batch"')});
		sql(q{SELECT put('mid', 'm', batch => 'batch'), jobq.close_batch(id('batch'))});
		sql(q{SELECT take('mid', 10)});
		my $lock = JobqSession->new($node);
		$lock->query(q{SELECT pg_advisory_lock(hashtext('line-precommit'))});
		my $s = JobqSession->new($node);
		$s->query(q{SET jobq.debug_point = 'line-precommit'; BEGIN});
		$s->query(q{SELECT failed('a'), done('m'), put('mid', 'grouped', group_key => 'g')});
		$s->send('COMMIT');
		becomes("$how: the commit stands still", 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = ' . $s->pid . ')');
		my $waiter = JobqSession->new($node);
		$waiter->send(q{SELECT done('b')});
		if ($how eq 'crash')
		{
			$node->stop('immediate');
			$node->start;
		}
		else
		{
			sql('SELECT pg_terminate_backend(' . $s->pid . ', 10000)');
			is($waiter->result, 't', 'the other one goes on');
			$lock->query('SELECT pg_advisory_unlock_all()');
		}
		$_->close for $lock, $s, $waiter;
		sql(q{SELECT done('b')}) if $how eq 'crash';
		is(states('mid'), 'a active, b completed, w pending, c pending, cc pending, batch pending, m active', "$how: nothing has happened");
		is(sql(q{SELECT done('a'), done('m')}), 't|t', "$how: again");
		is(states('mid'), 'a completed, b completed, w ready, c ready, cc pending, batch ready, m completed', "$how: all is let go");
		counts_ok("$how: counters");
		verify_ok($node);
		sql(q{SELECT jobq.drop_queue('mid', force => true)});
	}
};

subtest 'without a scheduler' => sub {
	sql(q{SELECT jobq.create_queue('alone'), jobq.create_queue('bait')});
	sql(q{SELECT put('alone', 'a'), put('alone', 'b'), put('alone', 'c')});
	sql(q{SELECT put('alone', 'd', 'a'), put('alone', 'e', 'a', group_key => 'g'), put('alone', 'f', 'b', 'cancel'), put('alone', 'g', 'f', 'run'), jobq.open_batch('alone', '"batch"')});
	sql(q{SELECT jobq.enqueue('alone', '"later"', delay => '10 ms', after => ids('c'))});
	sql(q{SELECT put('alone', 'm', batch => 'batch')});
	# The scheduler waits at the debug point.
	my $lock = JobqSession->new($node);
	sql(q{ALTER SYSTEM SET jobq.debug_point = 'ttl-taken'});
	$lock->query(q{SELECT pg_advisory_lock(hashtext('ttl-taken'))});
	$node->reload;
	sql(q{SELECT jobq.enqueue('bait', expires_in => '1 ms')});
	becomes('the scheduler stands still', q{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.backend_type = 'jobq scheduler')});
	is(sql(q{SELECT take('alone', 10)}), 'a b c m', 'taken');
	is(sql(q{SELECT done('a'), failed('b'), done('c'), done('m'), jobq.close_batch(id('batch'))}), 't|dead|t|t|t', 'ended');
	is(states('alone'), 'a completed, b dead, c completed, d ready, e ready, f cancelled, g ready, batch ready, later ready, m completed', 'all is let go');
	is(sql(q{SELECT take('alone', 10)}), 'd e g batch later', 'and can be taken');
	is(sql(q{SELECT done(j) FROM unnest('{d,e,g,batch,later}'::text[]) j}), "t\nt\nt\nt\nt", 'done');
	is(sql(q{SELECT a.backend_type FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted}), 'jobq scheduler', 'the scheduler has not helped');
	sql(q{ALTER SYSTEM RESET jobq.debug_point});
	$node->reload;
	$lock->query(q{SELECT pg_advisory_unlock_all()});
	$lock->close;
	becomes('the scheduler goes on', q{SELECT expired_total = 1 FROM jobq.queues WHERE queue = 'bait'});
	verify_ok($node);
};

subtest 'disabled' => sub {
	sql(q{SELECT jobq.create_queue('off')});
	sql(q{SELECT put('off', 'a'), jobq.open_batch('off', '"batch"')});
	sql(q{SELECT put('off', 'b', 'a'), put('off', 'm', batch => 'batch'), jobq.close_batch(id('batch'))});
	is(sql(q{SELECT take('off', 10)}), 'a m', 'taken');
	sql('ALTER SYSTEM SET jobq.enabled = off');
	$node->reload;
	becomes('no scheduler', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq scheduler')});
	is(sql(q{SELECT done('a'), done('m')}), 't|t', 'completed while jobq.enabled is off');
	is(states('off'), 'a completed, batch ready, b ready, m completed', 'and let go');
	sql('ALTER SYSTEM RESET jobq.enabled');
	$node->reload;
	becomes('jobq.enabled is on', q{SELECT current_setting('jobq.enabled') = 'on'});
	is(sql(q{SELECT take('off', 10), done('batch'), done('b')}), 'batch b|t|t', 'taken');
	verify_ok($node);
};

subtest 'dump and restore' => sub {
	sql(q{SELECT jobq.create_queue('dumped')});
	sql(q{SELECT put('dumped', 'a'), put('dumped', 'dies'), jobq.open_batch('dumped', '"open"'), jobq.open_batch('dumped', '"closed"', after_dead => 'run')});
	sql(q{SELECT put('dumped', 'b', 'a'), put('dumped', 'c', 'b', 'cancel', group_key => 'g'), put('dumped', 'm', batch => 'open'), put('dumped', 'n', 'a', batch => 'closed'),
		put('dumped', 'o', batch => 'closed'), jobq.close_batch(id('closed'))});
	sql(q{SELECT jobq.enqueue('dumped', '"later"', run_at => '2100-01-01', after => ids('a')), jobq.enqueue('dumped', '"keyed"', unique_key => 'k', after => ids('a'))});
	# one of a batch has failed and its callback will run all the same; one waits for a job that is dead
	is(sql(q{SELECT take('dumped', 4)}), 'a dies m o', 'taken');
	sql(q{SELECT failed('dies'), failed('o')});
	sql(q{SELECT jobq.release(job_id, token) FROM hand WHERE job_id IN (id('a'), id('m'))});
	sql(q{SELECT put('dumped', 'stays', 'dies')});
	my $picture = q{SELECT d.job_id, d.queue, d.on_job, d.state FROM jobq.dependencies d ORDER BY 1, 3};
	my ($before, $jobs) = (sql($picture), states('dumped'));
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
	$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'dump');
	like(slurp_file($dump), qr/^COPY jobq\.dependency /m, 'what they wait for is dumped');
	$node->safe_psql('postgres', 'CREATE DATABASE copy');
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'copy' ], 'restore');
	is($node->safe_psql('copy', $picture), $before, 'and restored');
	is(states('dumped', 'copy'), $jobs, 'so are they');
	verify_ok($node, 'verify of the copy', 'copy');
	my $copy = sub { return $node->safe_psql('copy', shift); };
	# Before it is adopted it can be added to, and nothing runs.
	is($copy->(q{SELECT put('dumped', 'p', batch => 'closed') > 0, jobq.close_batch(id('open'))}), 't|t', 'a batch of the copy is added to and closed');
	verify_ok($node, 'verify', 'copy');
	$copy->('SELECT jobq.adopt()');
	is($copy->(q{SELECT take('dumped', 10)}), 'a m p', 'adopted, what waited for nothing can be taken');
	is($copy->(q{SELECT done('a'), done('m'), done('p')}), 't|t|t', 'done');
	is($copy->(q{SELECT take('dumped', 10)}), 'open b n keyed', 'and lets go of what waited');
	is($copy->(q{SELECT jobq.enqueue('dumped', unique_key => 'k') = id('keyed')}), 't', 'a key is a key');
	is($copy->(q{SELECT done('b'), done('n'), done('open'), done('keyed')}), 't|t|t|t', 'done');
	is($copy->(q{SELECT take('dumped', 10)}), 'closed c', 'on and on');
	is($copy->(q{SELECT d.state FROM jobq.dependencies d WHERE d.job_id = id('closed')}), 'dead', 'a member that has failed is known there');
	is($copy->(q{SELECT done('closed'), done('c'), jobq.run_now(ids('later stays'))}), 't|t|2', 'the others');
	counts_ok('counters of the copy', 'copy');
	verify_ok($node, 'verify there', 'copy');
	is(states('dumped'), $jobs, 'the original has not changed');
	$node->safe_psql('postgres', 'DROP DATABASE copy WITH (FORCE)');
	sql(q{SELECT jobq.drop_queue('dumped', force => true)});
	verify_ok($node);
};

subtest 'handlers' => sub {
	sql(q{
		SELECT jobq.create_queue('inside', max_attempts => 1, keep_completed => '1 day'), jobq.create_queue('callback');
		CREATE TABLE ran (what text, members bigint);
		-- a member with a depth adds two that are one less deep; some fail
		CREATE FUNCTION member(payload jsonb) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF (payload ->> 'depth')::int > 0 THEN
				PERFORM count(*) FROM jobq.enqueue_many('inside', (SELECT jsonb_agg(payload || jsonb_build_object('depth', (payload ->> 'depth')::int - 1, 'n', n)) FROM generate_series(1, 2) n),
					batch => (payload ->> 'batch')::bigint);
			ELSIF (payload ->> 'n')::int = 2 AND payload ? 'fails' THEN
				RAISE EXCEPTION 'no';
			END IF;
			INSERT INTO ran VALUES ('member', NULL);
		END
		$$;
		CREATE FUNCTION callback(job jobq.delivery) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO ran SELECT 'callback', count(*) FROM ran WHERE what = 'member';
			INSERT INTO ran SELECT 'failed', count(*) FROM jobq.dependencies d WHERE d.job_id = job.job_id AND d.state = 'dead';
		END
		$$;
		SELECT jobq.set_handler('inside', 'member', concurrency => 3), jobq.set_handler('callback', 'callback')});
	my $batch = sql(q{SELECT jobq.open_batch('callback')});
	sql(qq{SELECT jobq.enqueue('inside', '{"batch": $batch, "depth": 6, "n": 1}', batch => $batch), jobq.close_batch($batch)});
	becomes('the callback has run', "SELECT state = 'completed' FROM jobq.job($batch)");
	is(sql(q{SELECT members FROM ran WHERE what = 'callback'}), '127', 'after all members of members');
	is(sql(q{SELECT members FROM ran WHERE what = 'failed'}), '0', 'of which none has failed');
	sql('TRUNCATE ran');
	$batch = sql(q{SELECT jobq.open_batch('callback', after_dead => 'run')});
	sql(qq{SELECT jobq.enqueue('inside', '{"batch": $batch, "depth": 4, "n": 1, "fails": true}', batch => $batch), jobq.close_batch($batch)});
	becomes('the callback has run', "SELECT state = 'completed' FROM jobq.job($batch)");
	is(sql(q{SELECT string_agg(members::text, ' ' ORDER BY what) FROM ran WHERE what <> 'member'}), '23 8', 'and sees who has failed');
	verify_ok($node);
};

subtest 'wide' => sub {
	sql(q{SELECT jobq.create_queue('wide', keep_completed => '0')});
	my $begin = Time::HiRes::time();
	sql(q{SELECT count(*) FROM jobq.enqueue_many('wide', (SELECT jsonb_agg(n) FROM generate_series(1, 50000) n))});
	my $plain = Time::HiRes::time() - $begin;
	$begin = Time::HiRes::time();
	sql(q{SELECT jobq.enqueue('wide', '"last"', priority => 2000, after => (SELECT array_agg(id ORDER BY random()) FROM jobq.job WHERE queue_id = (SELECT id FROM jobq.queue WHERE name = 'wide')))});
	cmp_ok(Time::HiRes::time() - $begin, '<', 10 + 4 * $plain, 'one that waits for fifty thousand');
	is(sql(q{SELECT count(*) FROM jobq.dependencies WHERE queue = 'wide'}), '50000', 'it does');
	my $done = 0;
	while (1)
	{
		my $n = sql(q{SELECT count(*) FROM (SELECT array_agg(job_id) j, array_agg(token) t FROM jobq.dequeue('wide', 5000)) d, jobq.complete_many(d.j, d.t)});
		last if $n == 0 || $done >= 50001;
		$done += $n;
		is(sql(q{SELECT pending FROM jobq.queues WHERE queue = 'wide'}), $done < 50000 ? '1' : '0', "after $done") if $done % 5000 == 0;
	}
	is($done, 50001, 'the last one comes last');
	# and the other way round
	my $one = sql(q{SELECT jobq.enqueue('wide', '"first"')});
	sql(qq{SELECT count(*) FROM jobq.enqueue_many('wide', (SELECT jsonb_agg(n) FROM generate_series(1, 50000) n), after => '{$one}')});
	$begin = Time::HiRes::time();
	is(sql(q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('wide')}), 't', 'fifty thousand are let go by one');
	my $time = Time::HiRes::time() - $begin;
	cmp_ok($time, '<', 10 + 4 * $plain, sprintf('in %.1f s (an enqueue of as many takes %.1f s)', $time, $plain));
	is(sql(q{SELECT pending, ready FROM jobq.queues WHERE queue = 'wide'}), '0|50000', 'all of them');
	is(sql(q{SELECT jobq.purge_queue('wide')}), '50000', 'and can be purged');
	# cancelled with it
	$one = sql(q{SELECT jobq.enqueue('wide', '"first"')});
	sql(qq{SELECT count(*) FROM jobq.enqueue_many('wide', (SELECT jsonb_agg(n) FROM generate_series(1, 50000) n), after => '{$one}', after_dead => 'cancel')});
	$begin = Time::HiRes::time();
	is(sql("SELECT jobq.cancel($one)"), 'cancelled', 'fifty thousand are cancelled by one');
	$time = Time::HiRes::time() - $begin;
	cmp_ok($time, '<', 10 + 4 * $plain, sprintf('in %.1f s', $time));
	is(sql(q{SELECT pending, ready FROM jobq.queues WHERE queue = 'wide'}), '0|0', 'all of them');
	verify_ok($node);
};

# Buffers of all tables of the extension, the session's own counts included.
sub buffers
{
	my ($s) = @_;
	$s->query('SELECT pg_stat_force_next_flush()');
	return $s->query(q{
		SELECT sum(coalesce(heap_blks_hit, 0) + coalesce(heap_blks_read, 0) + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0))
		FROM pg_statio_user_tables WHERE schemaname = 'jobq'});
}

subtest 'an old snapshot' => sub {
	my $n = 20000;
	my $old = JobqSession->new($node);
	$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$old->query('SELECT 1');
	sql(q{SELECT jobq.create_queue('old', keep_completed => '0'); CREATE TABLE job (n int, job_id bigint, token bigint, batch bigint)});
	for my $order ('n', 'n DESC', 'random()')
	{
		my $batch = sql(q{SELECT jobq.open_batch('old', '"batch"', priority => 2000)});
		sql(qq{SELECT count(*) FROM jobq.enqueue_many('old', (SELECT jsonb_agg(n) FROM generate_series(1, $n) n), batch => $batch)});
		sql(qq{SELECT jobq.close_batch($batch)});
		my $s = JobqSession->new($node);
		$s->query('TRUNCATE job');
		$s->query(q{INSERT INTO job SELECT payload::int, job_id, token FROM jobq.dequeue('old', 10000, '1 h')}) for 1 .. $n / 10000;
		is($s->query('SELECT count(*) FROM job'), $n, "$order: all members are taken");
		$s->query("CREATE TEMP TABLE todo AS SELECT row_number() OVER (ORDER BY $order) AS i, job_id, token FROM job");
		$s->query('CREATE UNIQUE INDEX ON todo (i)');
		my $some = sub {
			my ($from, $to) = @_;
			my $before = buffers($s);
			$s->query(qq{DO \$\$ DECLARE r record; BEGIN FOR r IN SELECT * FROM todo WHERE i BETWEEN $from AND $to ORDER BY i LOOP
				PERFORM jobq.complete(r.job_id, r.token); COMMIT; END LOOP; END \$\$}, limit => 120);
			return (buffers($s) - $before) / ($to - $from + 1);
		};
		my $first = $some->(1, 1000);
		$some->(1001, $n - 1000);
		my $last = $some->($n - 999, $n - 1);
		note(sprintf('%s: %.1f buffers per completion at first, %.1f at last', $order, $first, $last));
		# In no order it has to look over those that are done between two that are not: n / k of them for the k-th last one, n log n in all.
		my $limit = $order eq 'random()' ? 400 : 1.5 * $first + 10;
		cmp_ok($last, '<=', $limit, sprintf('%s: a completion costs no more at the end (%.1f buffers, %.1f)', $order, $first, $last));
		is($s->query("SELECT state FROM jobq.job($batch)"), 'pending', "$order: all but one");
		$s->query("SELECT jobq.complete(job_id, token) FROM todo WHERE i = $n");
		is($s->query("SELECT state FROM jobq.job($batch)"), 'ready', "$order: all");
		is($s->query(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('old')) c}), '1', "$order: the callback");
		$s->close;
	}
	# A batch that lives long: members come and go in it, and each costs the same.
	my $batch = sql(q{SELECT jobq.open_batch('old', '"batch"', priority => 2000)});
	my $s = JobqSession->new($node);
	my $round = sub {
		my $before = buffers($s);
		$s->query(qq{DO \$\$ BEGIN FOR i IN 1 .. 500 LOOP
			PERFORM jobq.enqueue('old', batch => $batch); COMMIT;
			PERFORM jobq.complete(job_id, token) FROM jobq.dequeue('old'); COMMIT; END LOOP; END \$\$}, limit => 120);
		return (buffers($s) - $before) / 500;
	};
	my $first = $round->();
	$round->() for 1 .. 10;
	my $last = $round->();
	cmp_ok($last, '<=', 1.5 * $first + 10, sprintf('a member that comes and goes (%.1f buffers, then %.1f)', $first, $last));
	is($s->query("SELECT jobq.close_batch($batch)"), 't', 'it is closed');
	is($s->query("SELECT state FROM jobq.job($batch)"), 'ready', 'and runs');
	$s->close;
	$old->query('COMMIT');
	$old->close;
	verify_ok($node);
};

server_alive_ok($node);
$node->stop;
done_testing();
