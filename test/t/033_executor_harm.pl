# Executors when things go wrong around them: killed, terminated, stopped, out of slots, dropped databases, shutdown, promotion; and how many run at a time.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $limit = 30;
my $fast = "jobq.scheduler_idle_timeout = 1\njobq.executor_idle_timeout = 1\njobq.stop_timeout = 300ms\nlog_min_messages = warning\n";

# What the tests' databases have: a handler that executes its payload's statement, and one that says that it ran.
my $setup = q{
	CREATE TABLE ran (id serial, job_id bigint, attempt int, began timestamptz DEFAULT clock_timestamp(), ended timestamptz);
	CREATE FUNCTION run(p jsonb) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE r text;
	BEGIN
		IF p->>'sql' LIKE 'SELECT%' THEN EXECUTE p->>'sql' INTO r; ELSE EXECUTE p->>'sql'; END IF;
		RETURN r;
	END$$;
	CREATE FUNCTION note(j jobq.delivery) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE began timestamptz := clock_timestamp();
	BEGIN
		PERFORM pg_sleep((j.payload->>'sleep')::float8);
		INSERT INTO ran (job_id, attempt, began, ended) VALUES (j.job_id, j.attempt, began, clock_timestamp());
	END$$;
	SELECT jobq.create_queue('run', max_attempts => 3, backoff => 'fixed', backoff_base => '10 ms'), jobq.create_queue('note', max_attempts => 3, backoff => 'fixed', backoff_base => '10 ms');
	SELECT jobq.set_handler('run', 'run', timeout => '1 min'), jobq.set_handler('note', 'note', timeout => '1 min')};

sub setup
{
	my ($node, $db) = @_;
	$node->safe_psql($db // 'postgres', $setup);
}

sub enqueue_sql
{
	my ($node, $statement, $db) = @_;
	$statement =~ s/'/''/g;
	return $node->safe_psql($db // 'postgres', "SELECT jobq.enqueue('run', jsonb_build_object('sql', '$statement'))");
}

sub note_jobs
{
	my ($node, $n, $sleep, $db) = @_;
	return $node->safe_psql($db // 'postgres',
		"SELECT count(*) FROM jobq.enqueue_many('note', (SELECT jsonb_agg(jsonb_build_object('sleep', $sleep)) FROM generate_series(1, $n)))");
}

sub becomes
{
	my ($node, $query, $name, $db) = @_;
	return ok(poll_until($name, $query, node => $node, db => $db, limit => $limit), $name);
}

# state and attempt of a job
sub job_is
{
	my ($node, $id, $want, $name, $db) = @_;
	return is($node->safe_psql($db // 'postgres', "SELECT state || ' ' || attempt FROM jobq.job($id)"), $want, $name);
}

sub ends_as
{
	my ($node, $id, $want, $name, $db) = @_;
	poll_until($name, "SELECT state IN ('completed', 'dead') FROM jobq.job($id)", node => $node, db => $db, limit => $limit);
	return job_is($node, $id, $want, $name, $db);
}

# Waits for a handler that sleeps.
sub runs
{
	my ($node, $name, $n) = @_;
	$n //= 1;
	return becomes($node, "SELECT count(*) = $n FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND wait_event = 'PgSleep'", $name);
}

sub pids
{
	my ($node, $type, $db) = @_;
	return split /\n/, $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq $type'" . ($db ? " AND datname = '$db'" : ''));
}

sub log_lines
{
	my ($node, $offset, $pattern) = @_;
	return grep { /$pattern/ } split /\n/, slurp_file($node->logfile, $offset);
}

sub elapsed_since { return Time::HiRes::time() - $_[0]; }

subtest 'killed and terminated' => sub {
	my $node = jobq_node('kill', conf => $fast . "restart_after_crash = on\njobq.max_executors = 2\n");
	setup($node);

	# terminated from outside: what runs may finish, or goes back uncounted
	my $id = enqueue_sql($node, 'SELECT pg_sleep(0.15)');
	runs($node, 'a short job runs');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($_)") for pids($node, 'executor');
	ends_as($node, $id, 'completed 1', 'a terminated executor finishes what it can');
	$id = enqueue_sql($node, q{SELECT pg_sleep(CASE count(*) WHEN 0 THEN 60 ELSE 0 END) FROM ran});
	runs($node, 'a long job runs');
	$node->safe_psql('postgres', "INSERT INTO ran DEFAULT VALUES; SELECT pg_terminate_backend($_)") for pids($node, 'executor');
	ends_as($node, $id, 'completed 1', 'a terminated executor gives the rest back uncounted');
	is($node->safe_psql('postgres', "SELECT jsonb_array_length(failures) FROM jobq.job($id)"), '0', 'no failure is kept');

	# by its own handler
	$id = enqueue_sql($node, 'SELECT pg_terminate_backend(pg_backend_pid())');
	my $sleeper = enqueue_sql($node, 'SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(0.1)');
	ends_as($node, $_, 'completed 1', 'a handler that terminates itself finishes first') for $id, $sleeper;

	# scheduler and launcher, while a job runs
	$id = enqueue_sql($node, 'SELECT pg_sleep(1)');
	runs($node, 'a job runs');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($_)") for pids($node, 'scheduler'), pids($node, 'launcher');
	my $next = enqueue_sql($node, 'SELECT 1');
	ends_as($node, $id, 'completed 1', 'a job outlives scheduler and launcher');
	ends_as($node, $next, 'completed 1', 'and the next one runs');

	# kill -9 in the first of a batch: the attempt counts for it alone, and there is an end
	$node->safe_psql('postgres', q{SELECT jobq.alter_queue('run', max_attempts => 2)});
	$node->safe_psql('postgres', q{SELECT jobq.enqueue('run', '{"sql": "SELECT 1"}') FROM generate_series(1, 200)});
	becomes($node, 'SELECT NOT EXISTS (SELECT FROM jobq.job)', 'many short jobs: the next ones are taken together');
	my @ids = split /\n/, $node->safe_psql('postgres', q{SELECT jobq.enqueue('run', jsonb_build_object('sql', 'SELECT pg_sleep(' || CASE n WHEN 1 THEN 60 ELSE 0 END || ')')) FROM generate_series(1, 30) n});
	for my $attempt (1, 2)
	{
		poll_until('it runs', sub {
			my ($rc, $out) = $node->psql('postgres', "SELECT state || attempt FROM jobq.job($ids[0])");
			return $rc == 0 && $out eq "active$attempt";
		}) or last;
		runs($node, "attempt $attempt");
		my ($pid) = split /\n/, $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND wait_event = 'PgSleep'});
		kill 'KILL', $pid;
		ok(poll_until('the server comes back', sub { my ($rc, $out) = $node->psql('postgres', 'SELECT count(*) FROM pg_stat_activity WHERE pid = ' . $pid); return $rc == 0 && $out eq '0' }),
			"kill -9 in attempt $attempt: the server comes back");
	}
	ends_as($node, $ids[0], 'dead 2', 'the job dies after max_attempts');
	is($node->safe_psql('postgres', "SELECT failures->-1->>'error' FROM jobq.job($ids[0])"), 'the process that ran the handler ended', 'the reason is said');
	becomes($node, 'SELECT NOT EXISTS (SELECT FROM jobq.job)', 'the others are done');
	is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT state || ' ' || attempt, ',') FROM jobq.jobs WHERE job_id BETWEEN $ids[1] AND $ids[-1]"),
		'completed 1', 'with one attempt each');
	verify_ok($node);
	$node->stop;
};

subtest 'how many at a time' => sub {
	my $node = jobq_node('many', conf => $fast . "jobq.max_executors = 3\nmax_worker_processes = 16\n");
	$node->safe_psql('postgres', 'CREATE DATABASE two');
	$node->safe_psql('two', 'CREATE EXTENSION jobq');
	setup($node, $_) for qw(postgres two);

	# two databases share the places
	$node->safe_psql($_, q{SELECT jobq.set_handler('note', 'note', concurrency => 8, timeout => '1 min')}) for qw(postgres two);
	my $most = 0;
	note_jobs($node, 30, 0.03, $_) for qw(postgres two);
	for my $db (qw(postgres two))
	{
		ok( poll_until("all of $db",
				sub {
					my $n = () = pids($node, 'executor');
					$most = $n if $n > $most;
					return $node->safe_psql($db, 'SELECT count(*) FROM jobq.job') eq '0';
				}),
			"all jobs of database $db run");
	}
	is($most, 3, 'with jobq.max_executors processes at most');
	becomes($node, q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq executor')}, 'idle ones leave');

	# a limit of the handler
	my $overlap = q{SELECT max(n) FROM (SELECT (SELECT count(*) FROM ran b WHERE b.began <= a.began AND b.ended > a.began AND b.job_id IN (SELECT job_id FROM jobq.jobs WHERE name IS NOT DISTINCT FROM j.name)) AS n
		FROM ran a JOIN jobq.jobs j ON j.job_id = a.job_id WHERE j.name IS NOT DISTINCT FROM %s) x};
	for my $concurrency (1, 2)
	{
		$node->safe_psql('postgres', "TRUNCATE ran; SELECT jobq.set_handler('note', 'note', concurrency => $concurrency, timeout => '1 min')");
		note_jobs($node, 20, 0.02);
		becomes($node, 'SELECT NOT EXISTS (SELECT FROM jobq.job)', "concurrency $concurrency: all run");
		is($node->safe_psql('postgres', sprintf $overlap, 'NULL'), $concurrency, "$concurrency at a time");
	}
	# several handlers of one queue, each with its own
	$node->safe_psql('postgres', q{TRUNCATE ran; SELECT jobq.set_handler('note', 'note', timeout => '1 min'), jobq.set_handler('note', 'note', name => 'a', concurrency => 1),
		jobq.set_handler('note', 'note', name => 'b', concurrency => 2)});
	$node->safe_psql('postgres', q{SELECT jobq.enqueue('note', '{"sleep": 0.02}', name => (ARRAY['a', 'b', 'c'])[n % 3 + 1]) FROM generate_series(0, 44) n});
	becomes($node, 'SELECT NOT EXISTS (SELECT FROM jobq.job)', 'several handlers: all run');
	is($node->safe_psql('postgres', sprintf $overlap, "'$_->[0]'"), $_->[1], "$_->[1] at a time by the name $_->[0]") for [ 'a', 1 ], [ 'c', 1 ];
	cmp_ok($node->safe_psql('postgres', sprintf $overlap, q{'b'}), '<=', 2, 'no more than 2 by the name b');
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT job_id), max(attempt) FROM ran'), '45|45|1', 'each once');

	# workers of both kinds on one queue
	$node->safe_psql('postgres', q{TRUNCATE ran; SELECT jobq.drop_handler('note', n) FROM unnest('{a,b}'::text[]) n; SELECT jobq.set_handler('note', 'note', concurrency => 2);
		CREATE PROCEDURE work() LANGUAGE plpgsql AS $$
		DECLARE d record; idle int := 0;
		BEGIN
			WHILE idle < 20 LOOP
				FOR d IN SELECT * FROM jobq.dequeue('note', 2) LOOP
					INSERT INTO ran (job_id, attempt) VALUES (d.job_id, d.attempt);
					PERFORM jobq.complete(d.job_id, d.token);
					idle := 0;
				END LOOP;
				COMMIT;
				idle := idle + 1;
				PERFORM pg_sleep(0.005);
			END LOOP;
		END$$});
	my @workers = map { JobqSession->new($node) } 1 .. 2;
	note_jobs($node, 300, 0.002);
	$_->send('CALL work()') for @workers;
	becomes($node, 'SELECT NOT EXISTS (SELECT FROM jobq.job)', 'handlers and clients on one queue: all run');
	$_->result for @workers;
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT job_id), max(attempt) FROM ran'), '300|300|1', 'each once');
	is($node->safe_psql('postgres', 'SELECT count(*) > 0 AND count(ended) > 0 FROM ran WHERE ended IS NULL OR true'), 't', 'by both');
	$_->close for @workers;

	# idle: no statement, no transaction
	becomes($node, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'}, 'executors and scheduler leave');
	$node->append_conf('postgresql.conf', "jobq.executor_idle_timeout = 60\njobq.scheduler_idle_timeout = 60\njobq.rescan_interval = 0\n");
	$node->reload;
	note_jobs($node, 1, 0);
	becomes($node, 'SELECT NOT EXISTS (SELECT FROM jobq.job)', 'one more');
	my $still = sub {
		return $node->safe_psql('template1', q{SELECT string_agg(pid || state || state_change || COALESCE(backend_xmin::text, '') || COALESCE(xact_start::text, ''), ' ' ORDER BY pid),
			(SELECT pg_stat_get_db_xact_commit(oid) + pg_stat_get_db_xact_rollback(oid) FROM pg_database WHERE datname = 'postgres')
			FROM pg_stat_activity WHERE backend_type IN ('jobq executor', 'jobq scheduler') AND datname = 'postgres'});
	};
	my $last = '';
	ok(poll_until('at rest', sub { my $now = $still->(); my $same = $now eq $last; $last = $now; Time::HiRes::sleep(0.5); return $same }), 'executor and scheduler come to rest');
	Time::HiRes::sleep(4);
	is($still->(), $last, 'four idle seconds: nothing was done');
	like($last, qr/\d+idle/, 'an executor was there');
	verify_ok($node, undef, $_) for qw(postgres two);
	$node->stop;
	server_alive_ok($node);
};

subtest 'stop and start' => sub {
	my $node = jobq_node('stop', conf => $fast . "jobq.max_executors = 2\n");
	setup($node);
	is($node->safe_psql('postgres', 'SELECT jobq.stop()'), '0', 'stop with nothing at work');
	my $id = enqueue_sql($node, 'SELECT 1');
	$node->safe_psql('postgres', 'SELECT pg_sleep(0.3)');
	job_is($node, $id, 'ready 0', 'stopped: jobs wait');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM jobq.dequeue('run')}), '1', 'a client may take them');
	$node->safe_psql('postgres', "SELECT jobq.release(job_id, token) FROM (SELECT id AS job_id, token FROM jobq.job j JOIN jobq.lease l ON j.id = ANY (l.job_ids) WHERE j.id = $id) x");
	$node->restart;
	$node->safe_psql('postgres', 'SELECT pg_sleep(0.3)');
	job_is($node, $id, 'ready 0', 'it outlasts a restart');
	is($node->safe_psql('postgres', 'SELECT jobq.start(), jobq.start()'), 't|f', 'start; twice');
	ends_as($node, $id, 'completed 1', 'they run');

	# what runs: finishes, or is given back
	$id = enqueue_sql($node, 'SELECT pg_sleep(0.3)');
	runs($node, 'a job runs');
	my $start = Time::HiRes::time();
	is($node->safe_psql('postgres', q{SELECT jobq.stop('10 s')}), '0', 'stop waits for it');
	cmp_ok(elapsed_since($start), '<', 5, 'and no longer');
	job_is($node, $id, 'completed 1', 'it has finished');
	$node->safe_psql('postgres', 'SELECT jobq.start(); TRUNCATE ran');
	$id = enqueue_sql($node, q{SELECT pg_sleep(CASE count(*) WHEN 0 THEN 60 ELSE 0 END) FROM ran});
	runs($node, 'a long job runs');
	$start = Time::HiRes::time();
	is($node->safe_psql('postgres', q{SELECT jobq.stop('200 ms')}), '0', 'stop interrupts it');
	cmp_ok(elapsed_since($start), '<', 5, 'in time');
	job_is($node, $id, 'ready 0', 'it was given back, with no attempt counted');
	$node->safe_psql('postgres', 'INSERT INTO ran DEFAULT VALUES; SELECT jobq.start()');
	ends_as($node, $id, 'completed 1', 'and runs after start');

	# undone
	$id = enqueue_sql($node, 'SELECT pg_sleep(0.5)');
	runs($node, 'a job runs');
	my $s = JobqSession->new($node);
	$s->query('BEGIN');
	is($s->query(q{SELECT jobq.stop('5 s')}), '0', 'stop in a transaction');
	my $next = enqueue_sql($node, 'SELECT 1');
	$node->safe_psql('postgres', 'SELECT pg_sleep(0.3)');
	job_is($node, $next, 'ready 0', 'nothing runs while it is open');
	$s->query('ROLLBACK');
	ends_as($node, $_, 'completed 1', 'rolled back: all runs') for $id, $next;
	$s->query(q{BEGIN; SAVEPOINT s; SELECT jobq.stop('0'); ROLLBACK TO s; COMMIT});
	ends_as($node, enqueue_sql($node, 'SELECT 1'), 'completed 1', 'rolled back to a savepoint: all runs');
	$s->query(q{BEGIN; SELECT jobq.stop('0'); SELECT jobq.start(); COMMIT});
	ends_as($node, enqueue_sql($node, 'SELECT 1'), 'completed 1', 'stopped and started in one transaction: all runs');
	$id = enqueue_sql($node, q{SELECT jobq.stop('0')});
	ends_as($node, $id, 'dead 3', 'a handler cannot stop the handlers');

	# prepared transactions change it too
	$s->query(q{BEGIN; SELECT jobq.stop(); PREPARE TRANSACTION 'stop'});
	$s->query(q{COMMIT PREPARED 'stop'});
	becomes($node, 'SELECT EXISTS (SELECT FROM jobq.stopped)', 'stopped by a prepared transaction');
	$s->query(q{BEGIN; SELECT jobq.start(); PREPARE TRANSACTION 'start'});
	$id = enqueue_sql($node, 'SELECT 1');
	$s->query(q{COMMIT PREPARED 'start'});
	ends_as($node, $id, 'completed 1', 'and started by one');
	$s->query(q{BEGIN; SELECT jobq.create_queue('late'), jobq.set_handler('late', 'run'); SELECT jobq.enqueue('late', '{"sql": "SELECT 1"}'); PREPARE TRANSACTION 'set'});
	$s->query(q{COMMIT PREPARED 'set'});
	becomes($node, q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'late' AND state = 'completed'}, 'a handler set by a prepared transaction');

	# a paused queue, and the switch for all
	$node->safe_psql('postgres', q{SELECT jobq.pause_queue('run')});
	$id = enqueue_sql($node, 'SELECT 1');
	my $other = $node->safe_psql('postgres', q{SELECT jobq.enqueue('note', '{"sleep": 0}')});
	ends_as($node, $other, 'completed 1', 'another queue runs');
	job_is($node, $id, 'ready 0', 'a paused one does not');
	$node->safe_psql('postgres', q{SELECT jobq.resume_queue('run')});
	ends_as($node, $id, 'completed 1', 'until it is resumed');
	$id = enqueue_sql($node, q{SELECT pg_sleep(CASE count(*) WHEN 0 THEN 60 ELSE 0 END) FROM ran});
	$node->safe_psql('postgres', 'TRUNCATE ran');
	my $long = enqueue_sql($node, q{SELECT pg_sleep(CASE count(*) WHEN 0 THEN 60 ELSE 0 END) FROM ran});
	runs($node, 'a long job runs');
	$node->append_conf('postgresql.conf', "jobq.enabled = off\n");
	$node->reload;
	becomes($node, q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type IN ('jobq executor', 'jobq scheduler'))}, 'jobq.enabled = off: all leave');
	job_is($node, $long, 'ready 0', 'what ran was given back');
	$node->safe_psql('postgres', 'INSERT INTO ran DEFAULT VALUES');
	$node->append_conf('postgresql.conf', "jobq.enabled = on\n");
	$node->reload;
	ends_as($node, $long, 'completed 1', 'on again: it runs');
	$s->close;
	verify_ok($node);

	# the server's end
	for my $mode (qw(smart fast immediate))
	{
		$node->safe_psql('postgres', 'TRUNCATE ran');
		$id = enqueue_sql($node, q{SELECT pg_sleep(CASE count(*) WHEN 0 THEN 60 ELSE 0 END) FROM ran});
		runs($node, 'a long job runs');
		$start = Time::HiRes::time();
		$node->stop($mode);
		cmp_ok(elapsed_since($start), '<', 10, "$mode shutdown in time");
		$node->append_conf('postgresql.conf', "jobq.enabled = off\n");
		$node->start;
		my $left = $node->safe_psql('postgres', "SELECT state || ' ' || attempt FROM jobq.job($id)");
		is($left, $mode eq 'immediate' ? 'active 1' : 'ready 0', "$mode: the job is back" . ($mode eq 'immediate' ? ' after the start' : ', uncounted'));
		$node->safe_psql('postgres', 'INSERT INTO ran DEFAULT VALUES');
		$node->append_conf('postgresql.conf', "jobq.enabled = on\n");
		$node->reload;
		ends_as($node, $id, 'completed ' . ($mode eq 'immediate' ? 2 : 1), "$mode: it runs after the start");
	}
	verify_ok($node);
	$node->stop;
};

subtest 'dropped, recreated, copied' => sub {
	my $node = jobq_node('drop', conf => $fast . "jobq.max_executors = 2\n");
	setup($node);
	# the extension waits for what runs, and takes its handlers with it
	my $id = enqueue_sql($node, 'SELECT pg_sleep(0.4)');
	runs($node, 'a job runs');
	my ($rc, undef, $err) = $node->psql('postgres', q{SET statement_timeout = '20s'; DROP EXTENSION jobq});
	like($err, qr/function note\(jobq\.delivery\) depends on type jobq\.delivery/, 'a function of jobq.delivery depends on the extension');
	$node->safe_psql('postgres', q{SET client_min_messages = error; SET statement_timeout = '20s'; DROP EXTENSION jobq CASCADE});
	becomes($node, q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type IN ('jobq executor', 'jobq scheduler'))}, 'nothing of it is left');
	$node->safe_psql('postgres', 'DROP TABLE ran; DROP FUNCTION run; CREATE EXTENSION jobq');
	setup($node);
	ends_as($node, enqueue_sql($node, 'SELECT 1'), 'completed 1', 'created again, with an executor');
	# dropped by a handler
	enqueue_sql($node, 'DROP EXTENSION jobq CASCADE');
	$id = enqueue_sql($node, 'SELECT 1');
	becomes($node, q{SELECT NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'jobq') OR NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND state <> 'idle')}, 'a handler that drops the extension ends');
	if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_extension WHERE extname = 'jobq'}) eq '1')
	{
		ends_as($node, $id, 'completed 1', 'it has not done so, and the next job runs');
		verify_ok($node);
	}

	# databases
	for my $i (1 .. 2)
	{
		$node->safe_psql('postgres', 'CREATE DATABASE d');
		$node->safe_psql('d', 'CREATE EXTENSION jobq');
		setup($node, 'd');
		ends_as($node, enqueue_sql($node, 'SELECT 1', 'd'), 'completed 1', "database $i: a handler runs", 'd');
		if ($i == 1)
		{
			ok(poll_until('DROP DATABASE', sub { my ($rc) = $node->psql('postgres', 'DROP DATABASE d'); return $rc == 0 }), 'DROP DATABASE once all have left');
			next;
		}
		ok(poll_until('CREATE DATABASE', sub { my ($rc) = $node->psql('postgres', 'CREATE DATABASE copy TEMPLATE d'); return $rc == 0 }), 'a template once all have left');
		my $copied = enqueue_sql($node, 'SELECT 1', 'copy');
		enqueue_sql($node, 'SELECT pg_sleep(60)', 'd');
		runs($node, 'a job runs in the original');
		is($node->safe_psql('copy', "SELECT state FROM jobq.job($copied)"), 'ready', 'a copy runs nothing');
		$node->safe_psql('copy', 'SELECT jobq.adopt()');
		ends_as($node, $copied, 'completed 1', 'until it is adopted', 'copy');
		verify_ok($node, 'verify of the copy', 'copy');
		my $start = Time::HiRes::time();
		$node->safe_psql('postgres', q{SET statement_timeout = '20s'; DROP DATABASE d WITH (FORCE)});
		cmp_ok(elapsed_since($start), '<', 5, 'DROP DATABASE WITH (FORCE) while a handler runs');
	}
	is(join("\n", grep { !/does not exist|administrator command|canceling/ } log_lines($node, 0, qr/jobq (executor|scheduler|launcher)\S* (ERROR|FATAL|PANIC)/)), '', 'no process failed');
	$node->stop;
	server_alive_ok($node);
};

subtest 'worker slots' => sub {
	# launcher, logical replication's launcher, a scheduler: none is left
	my $node = jobq_node('slots', conf => $fast . "max_worker_processes = 2\nmax_logical_replication_workers = 0\njobq.max_executors = 2\n");
	setup($node);
	my $id = enqueue_sql($node, 'SELECT 1');
	my $other = enqueue_sql($node, 'SELECT 2');
	ok(poll_until('warning', sub { scalar log_lines($node, 0, qr/WARNING: .*no free background worker slot to run a handler/) }), 'out of worker slots: the log says so');
	job_is($node, $id, 'ready 0', 'the jobs wait');
	is($node->safe_psql('postgres', q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('run')}), 't', 'a client may take them');
	is(scalar(log_lines($node, 0, qr/no free background worker slot to run a handler/)), 1, 'it is said once');
	$node->append_conf('postgresql.conf', "max_worker_processes = 3\n");
	$node->restart;
	ends_as($node, $other, 'completed 1', 'with a slot they run');
	$node->append_conf('postgresql.conf', "jobq.max_executors = 0\n");
	$node->restart;
	$id = enqueue_sql($node, 'SELECT 1');
	is($node->safe_psql('postgres', 'SELECT jobq.stop(), jobq.start()'), '0|t', 'jobq.max_executors = 0: stop and start');
	is($node->safe_psql('postgres', q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('run')}), 't', 'clients take the jobs');
	verify_ok($node);
	$node->stop;
	server_alive_ok($node);
};

subtest 'promotion' => sub {
	my $primary = jobq_node('primary', conf => $fast, init => [ allows_streaming => 1 ]);
	setup($primary);
	$primary->backup('b');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($primary, 'b', has_streaming => 1);
	$standby->start;
	my $id = enqueue_sql($primary, q{SELECT pg_sleep(CASE pg_is_in_recovery() OR current_setting('cluster_name') = 'primary' WHEN true THEN 60 ELSE 0 END)});
	runs($primary, 'a job runs on the primary');
	my $waiting = enqueue_sql($primary, 'SELECT 1');
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'}), '0', 'no worker in recovery');
	$primary->stop('immediate');
	$standby->promote;
	ends_as($standby, $waiting, 'completed 1', 'after promotion what waited runs');
	ends_as($standby, $id, 'completed 2', 'and what ran on the old primary runs again, counted');
	verify_ok($standby);
	$standby->stop;
	server_alive_ok($standby);
};

done_testing();
