# Launcher and scheduler: killed, terminated, out of worker slots, databases dropped and copied, hostile settings, promotion, idle.
use strict;
use warnings;

use Jobq;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $limit = 30;

# Pid of the scheduler of a database, or ''.
sub scheduler_pid
{
	my ($node, $db) = @_;
	$db //= 'postgres';
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq scheduler' AND datname = '$db'");
}

sub launcher_pid
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq launcher'});
}

# A delayed job becomes ready by itself: only the scheduler does that.
sub promotes_ok
{
	my ($node, $db, $name) = @_;
	my $id = $node->safe_psql($db, q{SELECT jobq.enqueue('q', delay => '50 ms')});
	my $ok = poll_until($name, "SELECT EXISTS (SELECT FROM jobq.ready WHERE job_id = $id)", node => $node, db => $db, limit => $limit);
	ok($ok, $name);
	$node->safe_psql($db, "SELECT jobq.delete_jobs(ARRAY[$id]::bigint[])");
	return $ok;
}

sub leaves_ok
{
	my ($node, $db, $name) = @_;
	ok(poll_until($name, sub { scheduler_pid($node, $db) eq '' }, limit => $limit), $name);
}

# Lines of the log since an offset that match.
sub log_lines
{
	my ($node, $offset, $pattern) = @_;
	return grep { /$pattern/ } split /\n/, slurp_file($node->logfile, $offset);
}

my $fast = "jobq.scheduler_idle_timeout = 1\n";

subtest 'killed and terminated' => sub {
	my $node = jobq_node('kill', conf => $fast . "restart_after_crash = on\n");
	$node->safe_psql('postgres', q{SELECT jobq.create_queue('q')});
	promotes_ok($node, 'postgres', 'a new database has a scheduler');

	# the scheduler is terminated while a job is due soon
	my $id = $node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '1500 ms')});
	poll_until('scheduler is there', sub { scheduler_pid($node) ne '' });
	my $pid = scheduler_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	ok( poll_until('due', "SELECT EXISTS (SELECT FROM jobq.ready WHERE job_id = $id)", node => $node),
		'a terminated scheduler comes back and promotes');
	isnt(scheduler_pid($node), $pid, 'as another process');

	# many times: never given up
	for (1 .. 3)
	{
		poll_until('scheduler is there', sub { scheduler_pid($node) ne '' }) or last;
		$node->safe_psql('postgres',
			q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'});
		$node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '100 ms')});
	}
	promotes_ok($node, 'postgres', 'also after some terminations in a row');

	my $launcher = launcher_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
	ok( poll_until('launcher', sub { my $l = launcher_pid($node); return $l ne '' && $l ne $launcher }, limit => $limit),
		'a terminated launcher comes back');
	leaves_ok($node, 'postgres', 'the scheduler leaves when there is nothing to do');
	promotes_ok($node, 'postgres', 'and is started by the new launcher');

	# kill -9: the whole server restarts, nothing is lost
	for my $victim (qw(scheduler launcher))
	{
		$id = $node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '2 s')});
		poll_until('scheduler is there', sub { scheduler_pid($node) ne '' });
		$pid = $victim eq 'scheduler' ? scheduler_pid($node) : launcher_pid($node);
		my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
		kill 'KILL', $pid;
		ok( poll_until("restart after kill -9 of the $victim",
				sub {
					my ($rc, $out) = $node->psql('postgres', "SELECT EXISTS (SELECT FROM jobq.ready WHERE job_id = $id)");
					return $rc == 0 && $out eq 't';
				},
				limit => 60),
			"kill -9 of the $victim: everything comes back");
	}
	verify_ok($node);
	$node->stop;
};

subtest 'worker slots' => sub {
	# one for the launcher, one for logical replication: none for a scheduler
	my $node = jobq_node('slots', conf => $fast . "max_worker_processes = 2\nmax_logical_replication_workers = 4\n");
	$node->safe_psql('postgres', q{SELECT jobq.create_queue('q', max_attempts => 2)});
	my $id = $node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '100 ms')});
	ok( poll_until('warning', sub { scalar log_lines($node, 0, qr/no free background worker slot/) }),
		'out of worker slots: the log says so');

	# without a scheduler a dequeue sees what is due, and what has expired
	my $first = '';
	ok( poll_until('due job',
			sub {
				$first = $node->safe_psql('postgres', q{SELECT job_id || ' ' || attempt FROM jobq.dequeue('q', lease => '300 ms')});
				return $first ne '';
			}),
		'a due job is taken without a scheduler');
	is($first, "$id 1", 'that job');
	my $second = '';
	ok( poll_until('expired',
			sub {
				$second = $node->safe_psql('postgres', q{SELECT job_id || ' ' || attempt FROM jobq.dequeue('q', lease => '300 ms')});
				return $second ne '';
			}),
		'an expired lease comes back without a scheduler');
	is($second, "$id 2", 'as the second attempt');
	ok( poll_until('dead',
			sub {
				$node->safe_psql('postgres', q{SELECT job_id FROM jobq.dequeue('q')});
				return $node->safe_psql('postgres', "SELECT reason FROM jobq.dead WHERE id = $id") eq 'lease_expired';
			}),
		'and dies after the last');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM jobq.dead'), '1', 'once');
	is(scalar(log_lines($node, 0, qr/no free background worker slot/)), 1, 'the warning came once');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}),
		'0', 'there was no scheduler');
	verify_ok($node);

	# one slot for two databases: both are served
	$node->append_conf('postgresql.conf', "max_worker_processes = 3\n");
	$node->restart;
	$node->safe_psql('postgres', 'CREATE DATABASE two');
	$node->safe_psql('two', 'CREATE EXTENSION jobq');
	$node->safe_psql($_, q{SELECT jobq.create_queue('q')}) for qw(postgres two);
	for (1 .. 2)
	{
		promotes_ok($node, 'postgres', 'one slot, two databases: the first');
		promotes_ok($node, 'two', 'one slot, two databases: the second');
	}
	$node->stop;
	server_alive_ok($node);
};

subtest 'dropped, recreated, copied' => sub {
	my $node = jobq_node('drop', conf => $fast . "jobq.max_databases = 2\n");
	$node->safe_psql('postgres', q{SELECT jobq.create_queue('q')});
	promotes_ok($node, 'postgres', 'at first');

	# DROP EXTENSION while the scheduler is awake and a job waits for its time
	for (1 .. 3)
	{
		$node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '900 ms'); SELECT jobq.enqueue('q')});
		my $token = $node->safe_psql('postgres', q{SELECT token FROM jobq.dequeue('q', lease => '500 ms')});
		$node->safe_psql('postgres', q{SET statement_timeout = '20s'; DROP EXTENSION jobq});
		$node->safe_psql('postgres', q{CREATE EXTENSION jobq; SELECT jobq.create_queue('q')});
		promotes_ok($node, 'postgres', 'dropped with an active job and created again');
	}
	# held open: the scheduler neither waits nor makes the dropper wait
	my $dropper = $node->background_psql('postgres', on_error_stop => 1, timeout => 60);
	$node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '200 ms')});
	$dropper->query_safe('BEGIN; DROP EXTENSION jobq');
	# looked at all the time, until the job has been due for a while
	my $until = Time::HiRes::time() + 0.5;
	my $waits = 0;
	while (!$waits && Time::HiRes::time() < $until)
	{
		$waits = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler' AND wait_event_type = 'Lock'});
	}
	is($waits, '0', 'a scheduler does not wait for an open DROP EXTENSION');
	$dropper->query_safe('ROLLBACK');
	$dropper->quit;
	promotes_ok($node, 'postgres', 'a rolled back DROP EXTENSION changes nothing');

	# databases, more of them one after the other than there are slots
	for my $i (1 .. 4)
	{
		my $db = "db$i";
		$node->safe_psql('postgres', "CREATE DATABASE $db");
		ok( poll_until("extension in $db",
				sub { my ($rc) = $node->psql($db, 'CREATE EXTENSION IF NOT EXISTS jobq'); return $rc == 0 }),
			"database $i of a limit of 2");
		$node->safe_psql($db, q{SELECT jobq.create_queue('q')});
		promotes_ok($node, $db, "a scheduler in database $i");
		if ($i % 2)
		{
			$node->safe_psql('postgres', "SET statement_timeout = '20s'; DROP DATABASE $db WITH (FORCE)");
			pass('DROP DATABASE WITH FORCE, scheduler awake');
		}
		else
		{
			ok( poll_until('DROP DATABASE', sub { my ($rc) = $node->psql('postgres', "DROP DATABASE $db"); return $rc == 0 }),
				'DROP DATABASE once the scheduler has left');
		}
	}
	$node->safe_psql('postgres', 'CREATE DATABASE db1');
	ok( poll_until('extension in db1', sub { my ($rc) = $node->psql('db1', 'CREATE EXTENSION IF NOT EXISTS jobq'); return $rc == 0 }),
		'dropped and made again under the same name');
	$node->safe_psql('db1', q{SELECT jobq.create_queue('q')});
	promotes_ok($node, 'db1', 'works');
	promotes_ok($node, 'postgres', 'the other one still does');
	is($node->safe_psql('db1', q{SELECT count(*) FROM jobq.job}), '0', 'nothing is shared');
	# a database that lost the extension while nobody looked gives its place to another
	leaves_ok($node, 'db1', 'its scheduler leaves');
	$node->safe_psql('db1', 'DROP EXTENSION jobq');
	$node->safe_psql('postgres', 'CREATE DATABASE db2');
	ok( poll_until('extension in db2', sub { my ($rc) = $node->psql('db2', 'CREATE EXTENSION IF NOT EXISTS jobq'); return $rc == 0 }),
		'and its place is free for another database');
	$node->safe_psql('postgres', 'DROP DATABASE db1 WITH (FORCE)');
	$node->safe_psql('postgres', 'DROP DATABASE db2 WITH (FORCE)');

	# a copy runs nothing until it is adopted
	$node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '3 s')});
	ok( poll_until('CREATE DATABASE',
			sub { my ($rc) = $node->psql('template1', 'CREATE DATABASE copy TEMPLATE postgres'); return $rc == 0 }),
		'a database whose scheduler has left is a template');
	my $offset = -s $node->logfile;
	ok( poll_until('original', q{SELECT count(*) = 1 FROM jobq.ready}, node => $node, limit => $limit),
		'the original goes on');
	my $before = $node->safe_psql('copy', q{SELECT count(*) FROM jobq.ready});
	$node->safe_psql('copy', q{SELECT jobq.enqueue('q', delay => '10 ms')});
	ok( poll_until('said', sub { scalar log_lines($node, $offset, qr/does not run in database "copy"/) }),
		'the log says that the copy is not adopted');
	$node->safe_psql('copy', q{SELECT jobq.enqueue('q', delay => '10 ms')}) for 1 .. 3;
	is($node->safe_psql('copy', q{SELECT count(*) FROM jobq.ready}), $before, 'the copy does nothing');
	$node->safe_psql('copy', q{SELECT jobq.adopt()});
	ok( poll_until('adopted', q{SELECT count(*) = 5 FROM jobq.ready}, node => $node, db => 'copy', limit => $limit),
		'after adopt() it does');
	is(scalar(log_lines($node, $offset, qr/does not run in database "copy"/)), 1, 'it was said once');
	verify_ok($node, 'verify of the copy', 'copy');
	verify_ok($node, 'verify of the original');
	is(join("\n", log_lines($node, 0, qr/jobq maintenance/)), '', 'no step of maintenance failed');
	$node->stop;
	server_alive_ok($node);
};

subtest 'hostile settings' => sub {
	my $node = jobq_node('hostile', conf => $fast);
	$node->safe_psql('postgres', q{
		SELECT jobq.create_queue('q');
		CREATE ROLE nobody;
		CREATE SCHEMA evil;
		CREATE FUNCTION evil.bad() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hostile function ran'; END $$;
		CREATE FUNCTION evil.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT evil.bad()::bigint';
		CREATE FUNCTION evil.eq(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT evil.bad() > 0';
		CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.eq);
	});
	my @settings = (
		"statement_timeout = '1ms'", "lock_timeout = '1ms'",
		"idle_in_transaction_session_timeout = '1ms'",
		"default_transaction_isolation = 'serializable'",
		'default_transaction_read_only = on',
		'default_transaction_deferrable = on',
		'search_path = evil, pg_catalog',
		'enable_indexscan = off', 'enable_seqscan = off', 'enable_tidscan = off',
		"plan_cache_mode = 'force_generic_plan'",
		"session_replication_role = 'replica'",
		"timezone = 'Asia/Kolkata'", "datestyle = 'German'", "intervalstyle = 'sql_standard'");
	my @alters;
	for my $what ('ROLE postgres', 'DATABASE postgres', 'ROLE ALL')
	{
		push @alters, map { "ALTER $what SET $_" } @settings;
	}
	$node->safe_psql('postgres', join('; ', @alters, 'ALTER DATABASE postgres SET role = nobody'));
	my $hostile = sub {
		my ($sql) = @_;
		local $ENV{PGOPTIONS} =
		  '-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c default_transaction_read_only=off'
		  . ' -c default_transaction_isolation=read\ committed -c search_path=pg_catalog -c role=none -c session_replication_role=origin';
		return $node->safe_psql('postgres', $sql);
	};
	my $offset = -s $node->logfile;
	ok(poll_until('the scheduler leaves', sub { $hostile->(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}) eq '0' }),
		'the next scheduler starts with these settings');
	my $id = $hostile->(q{SELECT jobq.enqueue('q', delay => '100 ms')});
	ok(poll_until('promotion', sub { $hostile->("SELECT EXISTS (SELECT FROM jobq.ready WHERE job_id = $id)") eq 't' }),
		'a due job is promoted under hostile settings');
	$hostile->(q{SELECT * FROM jobq.dequeue('q', lease => '100 ms')});
	ok(poll_until('expiry', sub { $hostile->("SELECT EXISTS (SELECT FROM jobq.ready WHERE job_id = $id)") eq 't' }),
		'a lease expires under hostile settings');
	ok(poll_until('recount', sub { $hostile->(q{SELECT exact AND ready = 1 FROM jobq.queue_counts()}) eq 't' }), 'counters are exact');
	is(join("\n", log_lines($node, $offset, qr/jobq scheduler.*ERROR|jobq maintenance|hostile function/)), '', 'without an error');
	$node->stop;
	server_alive_ok($node);
};

subtest 'enabled and disabled' => sub {
	my $node = jobq_node('enabled', conf => $fast . "jobq.enabled = off\n");
	$node->safe_psql('postgres', q{SELECT jobq.create_queue('q')});
	my $id = $node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '10 ms')});
	poll_until('launcher', sub { launcher_pid($node) ne '' });
	is(scheduler_pid($node), '', 'switched off: no scheduler');
	$node->append_conf('postgresql.conf', "jobq.enabled = on\n");
	$node->reload;
	ok(poll_until('on', "SELECT EXISTS (SELECT FROM jobq.ready WHERE job_id = $id)", node => $node), 'switched on: it works');
	$node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '800 ms')});
	$node->append_conf('postgresql.conf', "jobq.enabled = off\n");
	$node->reload;
	leaves_ok($node, 'postgres', 'switched off again: the scheduler leaves');
	poll_until('due', q{SELECT bool_and(visible_at < clock_timestamp() - interval '200 ms') FROM jobq.delayed}, node => $node);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM jobq.delayed}), '1', 'and nothing happens by itself');
	$node->append_conf('postgresql.conf', "jobq.enabled = on\n");
	$node->reload;
	ok(poll_until('on', q{SELECT count(*) = 0 FROM jobq.delayed}, node => $node), 'until it is on again');
	$node->stop;
	server_alive_ok($node);
};

subtest 'more queues than slots' => sub {
	my $node = jobq_node('many', conf => $fast . "jobq.max_queues = 2\n");
	for my $i (1 .. 4)
	{
		$node->safe_psql('postgres', "SELECT jobq.create_queue('q$i')");
		$node->safe_psql('postgres', "SELECT jobq.enqueue('q$i', delay => '200 ms'), jobq.enqueue('q$i')");
	}
	ok(poll_until('promotion', q{SELECT count(*) = 8 FROM jobq.ready}, node => $node), 'due jobs of all queues become ready');
	is($node->safe_psql('postgres', q{SELECT string_agg(ready::text, ',') FROM jobq.queue_counts()}), '2,2,2,2', 'and are counted');
	is($node->safe_psql('postgres', "SELECT count(*) FROM jobq.dequeue('q$_', 9, lease => '200 ms')"), '2', "queue $_ gives out its jobs")
	  for 1 .. 4;
	ok(poll_until('expiry', q{SELECT count(*) = 8 FROM jobq.ready}, node => $node), 'their leases end');
	verify_ok($node);
	$node->stop;
	server_alive_ok($node);
};

subtest 'standby and promotion' => sub {
	my $primary = jobq_node('primary', conf => $fast, init => [ allows_streaming => 1 ]);
	$primary->safe_psql('postgres', q{SELECT jobq.create_queue('q')});
	$primary->backup('b');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($primary, 'b', has_streaming => 1);
	$standby->start;
	$primary->safe_psql('postgres', q{SELECT jobq.enqueue('q'); SELECT jobq.enqueue('q', delay => '4 s')});
	$primary->safe_psql('postgres', q{SELECT job_id FROM jobq.dequeue('q', lease => '4 s')});
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'}),
		'0', 'no worker in recovery');
	is($standby->safe_psql('postgres', q{SELECT ready, delayed, active, exact FROM jobq.queue_counts()}), '0|1|1|f', 'a standby counts the tables');
	my ($state) = sqlstate_of($standby, q{SELECT * FROM jobq.dequeue('q')});
	is($state, '25006', 'and gives out nothing');
	$primary->stop('immediate');
	$standby->promote;
	ok(poll_until('promoted', q{SELECT count(*) = 2 FROM jobq.ready}, node => $standby),
		'after promotion the delayed job and the expired lease come back by themselves');
	verify_ok($standby);
	$standby->stop;
	server_alive_ok($standby);
};

subtest 'idle' => sub {
	my $node = jobq_node('idle', preload => 'jobq,pg_stat_statements', conf => $fast . "pg_stat_statements.track = all\n");
	$node->safe_psql('postgres', q{CREATE EXTENSION pg_stat_statements; SELECT jobq.create_queue('q')});
	promotes_ok($node, 'postgres', 'work first');
	# finished jobs and a job far ahead keep nobody awake
	$node->safe_psql('postgres', q{SELECT jobq.enqueue('q', delay => '1 day'); SELECT jobq.enqueue('q')});
	$node->safe_psql('postgres', q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q', lease => '1 s')});
	my $held = $node->safe_psql('postgres',
		q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%' AND state = 'idle' AND
			(backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR xact_start IS NOT NULL)});
	is($held, '0', 'a sleeping worker has no transaction and no snapshot');
	leaves_ok($node, 'postgres', 'the scheduler leaves');
	my $busy = sub {
		$node->safe_psql('postgres', q{SELECT COALESCE(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%jobq.%' AND query NOT LIKE '%pg_stat_%'});
	};
	# the rescan after activity may still come once
	$node->append_conf('postgresql.conf', "jobq.rescan_interval = 0\n");
	$node->reload;
	$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
	my $commits = $node->safe_psql('postgres', q{SELECT pg_stat_get_db_xact_commit(oid) FROM pg_database WHERE datname = 'postgres'});
	$node->safe_psql('template1', 'SELECT pg_sleep(3)');
	is($busy->(), '0', 'three idle seconds: no statement of ours');
	is(scheduler_pid($node), '', 'no scheduler came back');
	is( $node->safe_psql('postgres', q{SELECT state, backend_xmin IS NULL AND xact_start IS NULL FROM pg_stat_activity WHERE backend_type = 'jobq launcher'}),
		'idle|t', 'the launcher sleeps');
	verify_ok($node);
	$node->stop;
	server_alive_ok($node);
};

done_testing();
