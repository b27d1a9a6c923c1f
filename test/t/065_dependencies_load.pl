# Dependencies and batches under load: producers, workers, administrators, sessions that are killed, and a server that crashes. Nobody starts
# before all that he waits for has ended as his policy asks; nobody is forgotten; nothing happens twice.
#
# What the test knows it writes itself, in the transactions that do it: planned (who waits for whom), opened and closed (batches), removed,
# forced, redriven and completed. A job's end is what jobq.job() says. Each start is checked by a snapshot of its own before anything else
# is done with the job; whoever waits is looked for while the load runs; the final states are compared with what the policies make of each
# other.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $seconds = $ENV{JOBQ_DEPENDENCY_SECONDS} || 20;
my $seed = $ENV{JOBQ_DEPENDENCY_SEED} || time % 1000000;
my $workers = 8;
my $producers = 2;
my $bound = 5; # seconds within which whoever can go on does
note("seed $seed, $seconds s; repeat with JOBQ_DEPENDENCY_SEED=$seed");
srand($seed);

# Built with debug points: a gate that opens and closes makes commits stand still for a moment where it matters.
my $node = jobq_node('load', debug => 1, conf => "max_connections = 60\nrestart_after_crash = on\njobq.rescan_interval = 1s\n");

sub sql { return $node->safe_psql('postgres', shift); }

sql(q{
	CREATE TABLE planned (job_id bigint, on_job bigint, at timestamptz DEFAULT clock_timestamp(), PRIMARY KEY (job_id, on_job));
	CREATE INDEX ON planned (on_job);
	CREATE TABLE policy (job_id bigint PRIMARY KEY, policy text, batch boolean);
	CREATE TABLE closed (job_id bigint PRIMARY KEY);
	CREATE TABLE removed (job_id bigint, at timestamptz DEFAULT clock_timestamp());
	CREATE TABLE forced (job_id bigint);
	CREATE TABLE redriven (job_id bigint);
	CREATE TABLE completed (job_id bigint, at timestamptz DEFAULT clock_timestamp());
	CREATE INDEX ON completed (job_id);
	CREATE INDEX ON removed (job_id);
	CREATE INDEX ON redriven (job_id);
	CREATE TABLE begun (job_id bigint, members bigint);
	CREATE TABLE violation (what text, job_id bigint, detail text);
	CREATE TABLE stop_at (at timestamptz);
	SELECT jobq.create_queue('w' || n, lease => '2 s', max_attempts => 3, backoff => 'fixed', backoff_base => '20 ms', on_dead => 'skip') FROM generate_series(0, 2) n;

	-- How a job has ended; null: not yet. Who was deleted after he had completed has completed. One that was redriven has been dead, whatever it is now.
	CREATE FUNCTION ended(job bigint) RETURNS text LANGUAGE sql STABLE AS $$
		SELECT CASE WHEN EXISTS (SELECT FROM completed c WHERE c.job_id = job) THEN 'completed'
			WHEN EXISTS (SELECT FROM removed r WHERE r.job_id = job) THEN 'removed'
			ELSE (SELECT nullif(j.state, CASE WHEN j.state IN ('completed', 'dead', 'cancelled', 'expired') THEN '' ELSE j.state END) FROM jobq.job(job) j) END
	$$;
	-- The same for one who waits. One that was deleted while he was being enqueued, or before, is not known any more, which is as good as completed.
	CREATE FUNCTION ended_for(job bigint, on_job bigint) RETURNS text LANGUAGE sql STABLE AS $$
		SELECT CASE WHEN EXISTS (SELECT FROM removed r JOIN planned d ON d.on_job = r.job_id WHERE d.job_id = ended_for.job AND d.on_job = ended_for.on_job AND r.at < d.at + interval '3 s')
			AND NOT EXISTS (SELECT FROM completed c WHERE c.job_id = ended_for.on_job) THEN 'unknown' ELSE ended(on_job) END
	$$;
	CREATE FUNCTION was_redriven(job bigint) RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT EXISTS (SELECT FROM redriven r WHERE r.job_id = job) $$;

	-- A job has been taken: was it right to let it go?
	CREATE FUNCTION check_start(job bigint) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		p policy;
	BEGIN
		SELECT * INTO p FROM policy WHERE job_id = job;
		IF NOT FOUND OR EXISTS (SELECT FROM forced f WHERE f.job_id = job) THEN
			RETURN;
		END IF;
		INSERT INTO violation SELECT 'started too early', job, format('policy %s: job %s is %s', p.policy, d.on_job, coalesce(e, 'not over'))
			FROM (SELECT d.on_job, ended_for(job, d.on_job) AS e FROM planned d WHERE d.job_id = job) d
			WHERE CASE p.policy WHEN 'run' THEN e IS NULL AND NOT was_redriven(d.on_job) ELSE e IS NULL OR e NOT IN ('completed', 'unknown') END;
		IF p.batch AND NOT EXISTS (SELECT FROM closed c WHERE c.job_id = job) THEN
			INSERT INTO violation VALUES ('started while open', job, p.policy);
		END IF;
		INSERT INTO begun SELECT job, count(*) FROM planned d WHERE d.job_id = job;
	END
	$$;

	-- Says whom a new job waits for.
	CREATE FUNCTION plan(job bigint, after bigint[], after_dead text, of bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF after IS NOT NULL THEN
			INSERT INTO policy VALUES (job, after_dead, false) ON CONFLICT DO NOTHING;
			INSERT INTO planned SELECT job, a FROM unnest(after) a ON CONFLICT DO NOTHING;
		END IF;
		IF of IS NOT NULL THEN
			INSERT INTO planned VALUES (of, job);
		END IF;
	END
	$$;
	CREATE FUNCTION any_queue() RETURNS text LANGUAGE sql AS $$ SELECT 'w' || floor(random() * 3) $$;
	CREATE FUNCTION any_policy() RETURNS text LANGUAGE sql AS $$ SELECT (ARRAY['wait', 'cancel', 'run'])[1 + floor(random() * 3)] $$;
	CREATE FUNCTION any_group() RETURNS text LANGUAGE sql AS $$ SELECT CASE WHEN random() < 0.2 THEN 'g' || floor(random() * 6) END $$;
	-- Some jobs of late, whatever has become of them.
	CREATE FUNCTION some_jobs(n int) RETURNS bigint[] LANGUAGE sql AS $$
		SELECT array_agg(id) FROM (SELECT id FROM (SELECT id FROM (SELECT on_job AS id FROM planned ORDER BY on_job DESC LIMIT 300) l
			UNION SELECT job_id FROM (SELECT job_id FROM completed ORDER BY at DESC LIMIT 20) c) x ORDER BY random() LIMIT n) y $$;
	CREATE FUNCTION put(queue text, after bigint[] DEFAULT NULL, after_dead text DEFAULT 'wait', of bigint DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		job bigint;
	BEGIN
		job := jobq.enqueue(queue, jsonb_build_object('batch', of), priority => 990 + (random() * 20)::int, delay => CASE WHEN random() < 0.05 THEN '50 ms' END::interval,
			group_key => any_group(), after => after, after_dead => after_dead, batch => of);
		PERFORM plan(job, after, after_dead, of);
		RETURN job;
	END
	$$;
	CREATE FUNCTION open(queue text, after_dead text, of bigint DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		job bigint := jobq.open_batch(queue, group_key => any_group(), after_dead => after_dead, batch => of);
	BEGIN
		INSERT INTO policy VALUES (job, after_dead, true);
		IF of IS NOT NULL THEN
			INSERT INTO planned VALUES (of, job);
		END IF;
		RETURN job;
	END
	$$;
	CREATE FUNCTION close(batch bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF jobq.close_batch(batch) THEN
			INSERT INTO closed VALUES (batch) ON CONFLICT DO NOTHING;
		END IF;
	END
	$$;
	-- Members by one call.
	CREATE FUNCTION fill(batch bigint, n int, after bigint[] DEFAULT NULL, after_dead text DEFAULT 'wait') RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		ids bigint[];
	BEGIN
		SELECT array_agg(m.job_id) INTO ids FROM jobq.enqueue_many(any_queue(), (SELECT jsonb_agg(jsonb_build_object('batch', batch)) FROM generate_series(1, n)),
			group_keys => (SELECT array_agg(any_group()) FROM generate_series(1, n)), after => after, after_dead => after_dead, batch => batch) m;
		PERFORM plan(i, after, after_dead, batch) FROM unnest(ids) i;
	END
	$$;

	-- What a worker does with a job that it has taken, in a transaction. Gently: it only completes.
	CREATE FUNCTION work(job bigint, token bigint, batch bigint, gently boolean) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		dice float := random();
	BEGIN
		IF NOT gently AND dice < 0.08 THEN
			PERFORM jobq.fail(job, token, 'broken', retry => random() < 0.6);
			RETURN;
		ELSIF NOT gently AND dice < 0.12 THEN
			PERFORM jobq.release(job, token, CASE WHEN random() < 0.5 THEN '0' ELSE '10 ms' END::interval);
			RETURN;
		END IF;
		-- members add members; not where the batch has been withdrawn, or started by hand
		IF NOT gently AND batch IS NOT NULL AND random() < 0.15 AND (SELECT state = 'pending' FROM jobq.job(batch)) THEN
			BEGIN
				PERFORM put(any_queue(), CASE WHEN random() < 0.2 THEN ARRAY[job] END, any_policy(), batch);
			EXCEPTION WHEN object_not_in_prerequisite_state THEN
				NULL;
			END;
		END IF;
		IF jobq.complete(job, token) THEN
			INSERT INTO completed VALUES (job);
		END IF;
		-- a commit that has more to do when it has let go
		IF NOT gently AND random() < 0.3 THEN
			PERFORM jobq.enqueue('w2', priority => 2000, group_key => 'h' || floor(random() * 50));
		END IF;
	END
	$$;
	CREATE PROCEDURE worker(seed float, gently boolean) LANGUAGE plpgsql AS $$
	DECLARE
		q text;
		j record;
		taken jsonb[];
		idle int := 0;
	BEGIN
		PERFORM setseed(seed);
		LOOP
			EXIT WHEN NOT gently AND (SELECT clock_timestamp() > at FROM stop_at);
			q := any_queue();
			SELECT array_agg(jsonb_build_object('j', d.job_id, 't', d.token, 'b', d.payload -> 'batch')) INTO taken FROM jobq.dequeue(q, 1 + floor(random() * 10)::int, group_batch => 3) d;
			COMMIT;
			IF taken IS NULL THEN
				idle := idle + 1;
				EXIT WHEN gently AND idle > 20 AND NOT EXISTS (SELECT FROM jobq.queues WHERE ready + delayed + active > 0);
				PERFORM pg_sleep(0.01);
				CONTINUE;
			END IF;
			idle := 0;
			FOR i IN 1 .. cardinality(taken) LOOP
				PERFORM check_start((taken[i] ->> 'j')::bigint);
				COMMIT;
				-- whoever died has left its lease; a lost one is no error here, but one in a group ends with the first that fails
				BEGIN
					PERFORM work((taken[i] ->> 'j')::bigint, (taken[i] ->> 't')::bigint, (taken[i] ->> 'b')::bigint, gently);
				EXCEPTION WHEN SQLSTATE 'JQ001' OR SQLSTATE 'JQ002' THEN
					NULL;
				END;
				COMMIT;
			END LOOP;
		END LOOP;
	END
	$$;

	-- A structure of some kind, in one transaction or more.
	CREATE PROCEDURE produce(big int) LANGUAGE plpgsql AS $$
	DECLARE
		kind int := floor(random() * 9);
		batch bigint;
		inner_batch bigint;
		job bigint;
		n int;
	BEGIN
		IF kind <= 1 THEN
			-- a batch, filled and closed step by step
			batch := open(any_queue(), any_policy());
			n := CASE WHEN big > 0 THEN big ELSE 1 + floor(random() ^ 3 * 60)::int END;
			IF random() < 0.5 THEN
				COMMIT;
			END IF;
			IF random() < 0.9 THEN
				PERFORM fill(batch, n);
			END IF;
			IF random() < 0.3 THEN
				COMMIT;
				-- it may be over by now: cancelled with the first member that died
				IF (SELECT state = 'pending' FROM jobq.job(batch)) THEN
					PERFORM fill(batch, 1 + floor(random() * 5)::int, some_jobs(2), any_policy());
				END IF;
				IF random() < 0.2 THEN
					ROLLBACK;
				END IF;
			END IF;
			COMMIT;
			PERFORM close(batch);
		ELSIF kind = 2 THEN
			-- a batch in a batch, and members that wait for each other
			batch := open(any_queue(), any_policy());
			inner_batch := open(any_queue(), any_policy(), batch);
			PERFORM fill(inner_batch, 5), close(batch);
			job := put(any_queue(), NULL, 'wait', inner_batch);
			FOR i IN 1 .. 3 LOOP
				job := put(any_queue(), ARRAY[job], any_policy(), inner_batch);
			END LOOP;
			IF random() < 0.5 THEN
				COMMIT;
			END IF;
			PERFORM close(inner_batch);
		ELSIF kind <= 4 THEN
			-- a chain, with branches
			job := put(any_queue());
			FOR i IN 1 .. 1 + floor(random() * 8)::int LOOP
				PERFORM put(any_queue(), ARRAY[job], any_policy()) FROM generate_series(1, floor(random() * 3)::int);
				job := put(any_queue(), ARRAY[job] || CASE WHEN random() < 0.3 THEN some_jobs(2) END, any_policy());
				IF random() < 0.1 THEN
					COMMIT;
				END IF;
			END LOOP;
		ELSIF kind >= 7 THEN
			-- pairs, of which both are likely to run at the same time
			FOR i IN 1 .. 20 LOOP
				job := jobq.enqueue('w0', priority => 980);
				batch := jobq.enqueue('w0', priority => 980);
				PERFORM put('w1', ARRAY[job, batch], any_policy());
			END LOOP;
		ELSE
			-- one that waits for what is going on
			job := put(any_queue(), some_jobs(1 + floor(random() * 20)::int), any_policy());
			PERFORM put(any_queue(), ARRAY[job], any_policy()) FROM generate_series(1, 3);
		END IF;
		IF random() < 0.05 THEN
			ROLLBACK;
		END IF;
		COMMIT;
	END
	$$;
	CREATE PROCEDURE producer(seed float) LANGUAGE plpgsql AS $$
	DECLARE
		n int := 0;
	BEGIN
		PERFORM setseed(seed);
		LOOP
			EXIT WHEN (SELECT clock_timestamp() > at FROM stop_at);
			IF (SELECT sum(ready) > 1500 FROM jobq.queues) THEN
				COMMIT;
				PERFORM pg_sleep(0.02);
				CONTINUE;
			END IF;
			n := n + 1;
			CALL produce(CASE WHEN n % 100 = 20 THEN 2000 ELSE 0 END);
		END LOOP;
	END
	$$;
	-- Who interferes: withdraws, moves, starts and redrives.
	CREATE PROCEDURE meddler(seed float) LANGUAGE plpgsql AS $$
	DECLARE
		dice float;
		job bigint;
		state text;
	BEGIN
		PERFORM setseed(seed);
		LOOP
			EXIT WHEN (SELECT clock_timestamp() > at FROM stop_at);
			dice := random();
			job := (some_jobs(1))[1];
			IF dice < 0.3 THEN
				-- a batch's callback, or one that waits
				SELECT p.job_id INTO job FROM (SELECT p.job_id FROM policy p ORDER BY p.job_id DESC LIMIT 100) p ORDER BY random() LIMIT 1;
			END IF;
			SELECT j.state INTO state FROM jobq.job(job) j;
			dice := random();
			IF dice < 0.15 THEN
				PERFORM jobq.cancel(job);
			ELSIF dice < 0.2 THEN
				IF state IN ('ready', 'delayed', 'pending') AND jobq.delete_jobs(ARRAY[job]) = 1 THEN
					INSERT INTO removed VALUES (job);
				END IF;
			ELSIF dice < 0.25 THEN
				-- noted before, in its own transaction: it may start at once
				IF state = 'pending' THEN
					INSERT INTO forced VALUES (job);
					COMMIT;
					PERFORM jobq.run_now(ARRAY[job]);
				END IF;
			ELSIF dice < 0.7 AND state IN ('ready', 'pending', 'delayed') THEN
				BEGIN
					PERFORM jobq.reschedule(job, CASE WHEN random() < 0.2 THEN now() + interval '50 ms' END, 990 + (random() * 20)::int);
				EXCEPTION WHEN object_not_in_prerequisite_state OR undefined_object THEN
					NULL;
				END;
				-- held for a while, and sometimes let go unchanged
				PERFORM pg_sleep(random() * 0.02);
				IF random() < 0.4 THEN
					ROLLBACK;
				END IF;
			ELSIF dice < 0.8 AND state = 'dead' AND NOT was_redriven(job) THEN
				IF jobq.redrive((SELECT j.queue FROM jobq.job(job) j), ARRAY[job]) = 1 THEN
					INSERT INTO redriven VALUES (job);
				END IF;
			END IF;
			COMMIT;
			PERFORM pg_sleep(0.005);
		END LOOP;
	END
	$$;

	-- Who waits although nothing keeps him: everybody he waits for has ended, or one of them not as he needs it.
	CREATE VIEW stuck AS
	WITH p AS MATERIALIZED (
		SELECT j.job_id, p.policy, p.batch AND NOT EXISTS (SELECT FROM closed c WHERE c.job_id = j.job_id) AS open
		FROM jobq.jobs j JOIN policy p USING (job_id) WHERE j.state = 'pending')
	SELECT p.job_id, p.policy, e.unfinished, e.completed, e.failed
	FROM p, LATERAL (
		SELECT count(*) FILTER (WHERE e IS NULL) AS unfinished, count(*) FILTER (WHERE e = 'completed') AS completed,
			count(*) FILTER (WHERE e <> 'completed') AS failed,
			count(*) FILTER (WHERE e = 'unknown') AS unknown
		FROM (SELECT ended_for(p.job_id, d.on_job) AS e FROM planned d WHERE d.job_id = p.job_id) d) e
	WHERE unknown = 0 AND CASE p.policy WHEN 'cancel' THEN failed > 0 OR unfinished = 0 AND NOT open WHEN 'run' THEN unfinished = 0 AND NOT open
		ELSE unfinished + failed = 0 AND NOT open END;
});

my (@sessions, %ended_early);
my $number = 0;

# Starts, and starts again what was killed. The sessions end when the time is up.
sub spawn
{
	my ($call) = @_;
	my $s = eval { JobqSession->new($node) } or return undef;
	$number++;
	$s->query(q{SET jobq.debug_point = 'depend-looked,depend-locked,line-precommit'}) if rand() < 0.6;
	$s->send(sprintf($call, (($seed * 7919 + $number * 104729) % 2000003) / 1000001.5 - 1));
	return $s;
}
my @calls = (('CALL worker(%f, false)') x $workers, ('CALL producer(%f)') x $producers, 'CALL meddler(%f)');

# Holds one of the points after the other, for some milliseconds each.
my $gate;
sub open_gate
{
	$gate = JobqSession->new($node);
	$gate->send(q{DO $$
	DECLARE
		point text;
	BEGIN
		LOOP
			EXIT WHEN (SELECT clock_timestamp() > at FROM stop_at);
			point := (ARRAY['depend-looked', 'depend-locked', 'line-precommit'])[1 + floor(random() * 3)];
			PERFORM pg_advisory_lock(hashtext(point));
			PERFORM pg_sleep(random() * 0.006);
			PERFORM pg_advisory_unlock(hashtext(point));
			PERFORM pg_sleep(random() * 0.003);
			COMMIT;
		END LOOP;
	END $$});
	return;
}

my %suspect; # since when a job seems to be stuck
my $errors = '';
my $looker;
my $looked = 0;

# Asks who is stuck, without waiting for the answer; returns those who have been for too long.
sub look
{
	my ($now) = @_;
	my @bad;
	if ($looker)
	{
		return unless $looker->finished;
		my $answer = $looker->result;
		if (defined $answer)
		{
			my %seen = map { (split /\|/)[0] => $_ } split /\n/, $answer;
			delete $suspect{$_} for grep { !$seen{$_} } keys %suspect;
			$suspect{$_} //= $looked for keys %seen;
			@bad = map { $seen{$_} } grep { $looked - $suspect{$_} > $bound } keys %suspect;
		}
	}
	$looker = JobqSession->new($node) unless $looker && !$looker->{gone};
	$looked = $now;
	$looker->send('SELECT * FROM stuck');
	return @bad;
}

my $begin = Time::HiRes::time();
sql("INSERT INTO stop_at VALUES (clock_timestamp() + interval '$seconds s')");
open_gate();
@sessions = map { spawn($_) } @calls;
my ($kills, $crashed, @stuck) = (0, 0);
while (Time::HiRes::time() < $begin + $seconds)
{
	Time::HiRes::sleep(0.1);
	my $now = Time::HiRes::time() - $begin;
	if (!$crashed && $now > $seconds / 2)
	{
		$node->stop('immediate');
		$node->start;
		$gate->close;
		open_gate();
		$crashed = 1;
	}
	for my $i (0 .. $#calls)
	{
		next unless !$sessions[$i] || $sessions[$i]->finished;
		my $e = $sessions[$i] ? $sessions[$i]->errors . $sessions[$i]{err} : '';
		# Killed, crashed, or told at commit that a batch has been let go meanwhile
		$errors .= $e if $e =~ /ERROR/ && $e !~ /ERROR:  (?:57P01|55000: batch)/;
		$sessions[$i]->close if $sessions[$i];
		$sessions[$i] = $now < $seconds ? spawn($calls[$i]) : undef;
	}
	if (rand() < 0.15)
	{
		my $victim = $sessions[ rand @sessions ];
		sql('SELECT pg_terminate_backend(' . $victim->pid . ')') if $victim;
		$kills++;
	}
	push @stuck, look($now) if $now > $looked + 1;
}
for my $s (grep { $_ } @sessions)
{
	poll_until('a session ends', sub { $s->finished }, limit => 60);
	my $e = $s->errors . $s->{err};
	$errors .= $e if $e =~ /ERROR/ && $e !~ /ERROR:  (?:57P01|55000: batch)/;
	$s->close;
}
poll_until('the look ends', sub { $looker->finished }, limit => 60);
$looker->close;
poll_until('the gate is open', sub { $gate->finished }, limit => 60);
$gate->close;
note("$kills sessions were killed; " . sql(q{SELECT count(*) || ' jobs completed, ' || (SELECT count(*) FROM planned) || ' dependencies, ' || (SELECT count(*) FROM policy WHERE batch) || ' batches' FROM completed}));
cmp_ok($kills, '>=', $seconds / 4, 'sessions were killed');
is($errors, '', 'no session met an error');
is(join("\n", @stuck), '', "while the load ran, nobody who could go on was kept for more than $bound s");

# What is left is done without failures; open batches are closed first.
sql(q{SELECT close(j.job_id) FROM jobq.jobs j JOIN policy p USING (job_id) WHERE p.batch AND j.state = 'pending' AND NOT EXISTS (SELECT FROM closed c WHERE c.job_id = j.job_id)});
my @gentle = map { spawn('CALL worker(%f, true)') } 1 .. 3;
for my $s (@gentle)
{
	poll_until('the rest is done', sub { $s->finished }, limit => 90);
	is($s->errors . $s->{err} =~ s/^done-\d+\n?//mgr, '', 'a worker has done the rest');
	$s->close;
}
ok(poll_until('nobody is stuck', 'SELECT NOT EXISTS (SELECT FROM stuck)', node => $node, limit => $bound), 'nobody who can go on waits') or diag(sql('SELECT * FROM stuck LIMIT 20'));
is(sql('SELECT * FROM violation LIMIT 20'), '', 'nobody started too early');
is(sql(q{SELECT state, count(*) FROM jobq.jobs WHERE state NOT IN ('completed', 'dead', 'cancelled', 'pending') GROUP BY 1}), '', 'all is over but what waits for the dead');
is(sql(q{SELECT job_id, count(*) FROM completed GROUP BY 1 HAVING count(*) > 1}), '', 'no job has completed twice');
is(sql(q{SELECT c.job_id FROM completed c WHERE NOT EXISTS (SELECT FROM removed r WHERE r.job_id = c.job_id) AND (SELECT state FROM jobq.job(c.job_id)) IS DISTINCT FROM 'completed' LIMIT 20}),
	'', 'what has completed is completed');
is(sql(q{SELECT b.job_id, b.members, count(d) FROM (SELECT job_id, min(members) AS members FROM begun GROUP BY 1) b LEFT JOIN planned d USING (job_id) GROUP BY 1, 2 HAVING b.members <> count(d) LIMIT 20}),
	'', 'nobody was added to a batch that had started');
# The policies: what became of whoever waited, given what became of the others. Where somebody interfered with him, or a dead one came back,
# there is more than one right end.
is(sql(q{
	WITH w AS MATERIALIZED (
		SELECT p.job_id, p.policy, ended(p.job_id) AS ended, (SELECT state FROM jobq.job(p.job_id)) AS state,
			d.n, d.completed, d.failed, d.unfinished, d.redriven
		FROM policy p, LATERAL (SELECT count(*) AS n, count(*) FILTER (WHERE e = 'completed') AS completed, count(*) FILTER (WHERE e <> 'completed') AS failed,
				count(*) FILTER (WHERE e IS NULL) AS unfinished, count(*) FILTER (WHERE was_redriven(on_job)) AS redriven,
				count(*) FILTER (WHERE e = 'unknown') AS unknown
			FROM (SELECT d.on_job, ended_for(p.job_id, d.on_job) AS e FROM planned d WHERE d.job_id = p.job_id) d) d
		WHERE unknown = 0 AND NOT EXISTS (SELECT FROM forced f WHERE f.job_id = p.job_id))
	SELECT * FROM w
	WHERE CASE
		-- all has gone well: he has been let go; and cancelled only by hand, which nobody can tell from here
		WHEN completed = n THEN ended IS NULL
		-- nobody kept him
		WHEN policy = 'run' AND unfinished = 0 THEN ended IS NULL
		-- waits for ever, or was withdrawn
		WHEN policy = 'wait' THEN state IS DISTINCT FROM 'pending' AND ended NOT IN ('cancelled', 'removed')
		WHEN policy = 'cancel' AND failed > redriven THEN ended NOT IN ('cancelled', 'removed')
		ELSE false END
	LIMIT 20}), '', 'everybody ended as his policy says');
is(sql(q{SELECT job_id FROM jobq.dependency d WHERE NOT EXISTS (SELECT FROM jobq.job j WHERE j.id = d.job_id) LIMIT 10}), '', 'who has ended waits for nobody');
ok(sql(q{SELECT count(*) > 500 FROM begun}), 'many have waited and run');
for my $policy ('wait', 'cancel', 'run')
{
	cmp_ok(sql(qq{SELECT count(*) FROM begun JOIN policy USING (job_id) WHERE policy = '$policy' AND batch}), '>', 5, "batches by $policy have run");
}
ok( poll_until('counters', q{
		SELECT bool_and(q.exact AND (q.pending, q.ready, q.delayed, q.active, q.dead) = (
			SELECT count(*) FILTER (WHERE j.state = 'pending'), count(*) FILTER (WHERE j.state = 'ready'), count(*) FILTER (WHERE j.state = 'delayed'),
				count(*) FILTER (WHERE j.state = 'active'), count(*) FILTER (WHERE j.state = 'dead')
			FROM jobq.jobs j WHERE j.queue = q.queue))
		FROM jobq.queues q}, node => $node, limit => 30),
	'the counters are those of the tables');
verify_ok($node);
server_alive_ok($node);
$node->stop;
done_testing();
