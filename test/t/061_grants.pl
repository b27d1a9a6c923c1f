# Rights on queues over dumps, changes of roles, open sessions, poolers and handlers.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = jobq_node('grants', extension => 0);
my $other = jobq_node('other', extension => 0);
my $dir = PostgreSQL::Test::Utils::tempdir();

sub sql
{
	my ($query, $db, $where) = @_;
	return ($where // $node)->safe_psql($db // 'src', $query);
}

# SQLSTATE of statements as a role.
sub state_as
{
	my ($role, $query, $db, $where) = @_;
	return (sqlstate_of($where // $node, "SET ROLE $role; $query", $db // 'src'))[0];
}

sub run_ok
{
	my ($what, $where, @command) = @_;
	local $ENV{PGHOST} = $where->host;
	local $ENV{PGPORT} = $where->port;
	command_ok([ $where->installed_command(shift @command), @command ], $what);
	return;
}

# All rights in the schema, as they are given.
my $rights = q{
	SELECT 'schema', n.nspname::text, a.grantee::regrole::text, a.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = 'jobq'
	UNION ALL SELECT 'function', p.proname, a.grantee::regrole::text, a.privilege_type FROM pg_proc p, aclexplode(p.proacl) a WHERE p.pronamespace = 'jobq'::regnamespace
	UNION ALL SELECT 'relation', c.relname, a.grantee::regrole::text, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a WHERE c.relnamespace = 'jobq'::regnamespace
	UNION ALL SELECT 'queue', q.name, a.role, a.privileges::text FROM jobq.queue_acl a JOIN jobq.queue q ON q.id = a.queue_id
	ORDER BY 1, 2, 3, 4};

$node->safe_psql('postgres', 'CREATE DATABASE src');
sql(q{CREATE EXTENSION jobq;
	CREATE ROLE app; CREATE ROLE worker; CREATE ROLE boss; CREATE ROLE maker; CREATE ROLE nobody;
	GRANT USAGE ON SCHEMA jobq TO maker;
	GRANT EXECUTE ON FUNCTION jobq.create_queue TO maker;
	SELECT jobq.create_queue(q) FROM unnest('{mail,other}'::text[]) q;
	SELECT jobq.grant_queue('mail', 'app', '{enqueue}'), jobq.grant_queue('mail', 'worker', '{consume}'), jobq.grant_queue('mail', 'boss', '{manage}');
	SET ROLE maker;
	SELECT jobq.create_queue('made');
	SELECT jobq.grant_queue('made', 'app', '{enqueue,consume}'), jobq.enqueue('made')});

subtest 'dump and restore' => sub {
	my $before = sql($rights);
	like($before, qr/^function\|enqueue\|app\|EXECUTE$/m, 'there is something to restore');
	run_ok('pg_dump', $node, 'pg_dump', '-Fc', '-f', "$dir/dump", 'src');
	run_ok('pg_dumpall of the roles', $node, 'pg_dumpall', '--roles-only', '-f', "$dir/roles.sql");
	$other->psql('postgres', slurp_file("$dir/roles.sql"), on_error_stop => 0); # the superuser is there
	for my $to ([ $node, 'copy' ], [ $other, 'src' ])
	{
		my ($where, $db) = @$to;
		$where->safe_psql('postgres', "CREATE DATABASE $db");
		run_ok("pg_restore into $db", $where, 'pg_restore', '--exit-on-error', '-d', $db, "$dir/dump");
		is(sql($rights, $db, $where), $before, 'every right is there');
		is(state_as('app', q{SELECT jobq.enqueue('mail')}, $db, $where), '00000', 'a producer goes on');
		is(state_as('app', q{SELECT jobq.enqueue('other')}, $db, $where), '42501', 'where it may');
		is(state_as('maker', q{SELECT jobq.adopt()}, $db, $where), '42501', 'who owns a queue does not adopt the database');
		sql('SELECT jobq.adopt()', $db, $where);
		is(state_as('worker', q{SELECT jobq.complete(job_id, token) FROM jobq.dequeue('mail')}, $db, $where), '00000', 'so does a worker');
		is(state_as('boss', q{SELECT jobq.pause_queue('mail')}, $db, $where), '00000', 'and a manager');
		is(state_as('maker', q{SELECT jobq.drop_queue('made', force => true)}, $db, $where), '00000', 'and an owner');
		is(state_as('nobody', q{SELECT jobq.enqueue('mail')}, $db, $where), '42501', 'nobody else');
		verify_ok($where, 'verify of the copy', $db);
	}
	$node->safe_psql('postgres', 'DROP DATABASE copy WITH (FORCE)');
	# without the roles the server's own rights are lost, the queues' are not
	$other->safe_psql('postgres', 'DROP DATABASE src WITH (FORCE); DROP ROLE app; CREATE DATABASE src');
	{
		local $ENV{PGHOST} = $other->host;
		local $ENV{PGPORT} = $other->port;
		command_checks_all([ $other->installed_command('pg_restore'), '-d', 'src', "$dir/dump" ], 1, [], [qr/role "app" does not exist/], 'a role is missing');
	}
	is(sql(q{SELECT privileges, usable FROM jobq.grants WHERE queue = 'mail' AND role = 'app'}, 'src', $other), '{enqueue}|f', 'its right is kept');
	sql('CREATE ROLE app', 'src', $other);
	is(state_as('app', q{SELECT jobq.enqueue('mail')}, 'src', $other), '42501', 'a role of that name lacks EXECUTE');
	sql(q{SELECT jobq.grant_queue('mail', 'app', '{enqueue}')}, 'src', $other);
	is(state_as('app', q{SELECT jobq.enqueue('mail')}, 'src', $other), '00000', 'until it is granted once more');
	verify_ok($other, 'verify', 'src');
};

subtest 'roles that change' => sub {
	my $session = JobqSession->new($node, db => 'src');
	$session->query('SET ROLE worker');
	is($session->state(q{SELECT count(*) FROM jobq.dequeue('mail')}), '00000', 'a worker');
	sql('ALTER ROLE worker RENAME TO drudge');
	is($session->state(q{SELECT count(*) FROM jobq.dequeue('mail')}), '42501', 'a role that was renamed has lost its rights, at the next call');
	is(sql(q{SELECT role, usable FROM jobq.grants WHERE queue = 'mail' ORDER BY 1}), "app|t\nboss|t\nworker|f", 'the view shows what is in vain');
	sql(q{SELECT jobq.grant_queue('mail', 'drudge', '{consume}'), jobq.revoke_queue('mail', 'worker', '{enqueue,consume,manage}')});
	is($session->state(q{SELECT count(*) FROM jobq.dequeue('mail')}), '00000', 'granted under the new name');
	is(sql(q{SELECT role, usable FROM jobq.grants WHERE queue = 'mail' ORDER BY 1}), "app|t\nboss|t\ndrudge|t", 'and taken from the old one');

	sql('ALTER ROLE maker RENAME TO builder');
	is(state_as('builder', q{SELECT jobq.enqueue('made')}), '42501', 'an owner who was renamed is none');
	sql(q{UPDATE jobq.queue SET owner = 'builder' WHERE owner = 'maker'});
	is(state_as('builder', q{SELECT jobq.enqueue('made')}), '00000', 'until the queue is given to the new name');

	is((sqlstate_of($node, 'DROP ROLE drudge', 'src'))[0], '2BP01', 'a role with rights in the schema is not dropped');
	sql(q{SELECT jobq.revoke_queue('mail', 'drudge', '{consume}'); DROP ROLE drudge});
	is(state_as('boss', q{SELECT jobq.resume_queue('mail')}), '00000', 'another one goes on');
	sql('DROP OWNED BY boss; DROP ROLE boss');
	is(sql(q{SELECT role, usable FROM jobq.grants WHERE role = 'boss'}), 'boss|f', 'the right of a dropped role is in vain');
	is(sql(q{SELECT count(*) FROM jobq.queues}), '3', 'and harms nothing');
	sql('CREATE ROLE boss');
	is(state_as('boss', q{SELECT jobq.pause_queue('mail')}), '42501', 'a new role of that name may not even look into the schema');
	sql(q{SELECT jobq.revoke_queue('mail', 'boss', '{manage}')});
	is(sql(q{SELECT count(*) FROM jobq.grants WHERE role = 'boss'}), '0', 'it is taken');
	verify_ok($node, 'verify', 'src');
};

subtest 'open sessions' => sub {
	my $s = JobqSession->new($node, db => 'src');
	my $enqueue = q{SELECT jobq.enqueue('mail')};
	# EXECUTE stays: app may enqueue elsewhere
	$s->query('SET ROLE app');
	is($s->state($enqueue), '00000', 'may enqueue');
	sql(q{SELECT jobq.revoke_queue('mail', 'app', '{enqueue}')});
	is($s->state($enqueue), '42501', 'a revoke takes effect at the next call');
	sql(q{SELECT jobq.grant_queue('mail', 'app', '{enqueue}')});
	is($s->state($enqueue), '00000', 'so does a grant');
	for my $level ('READ COMMITTED', 'REPEATABLE READ')
	{
		$s->query("BEGIN ISOLATION LEVEL $level");
		$s->query($enqueue);
		sql(q{SELECT jobq.revoke_queue('mail', 'app', '{enqueue}')});
		is($s->state($enqueue), '42501', "in an open transaction, too, at $level");
		$s->query('ROLLBACK');
		sql(q{SELECT jobq.grant_queue('mail', 'app', '{enqueue}')});
	}
	my $dba = JobqSession->new($node, db => 'src');
	$dba->query(q{BEGIN; SELECT jobq.revoke_queue('mail', 'app', '{enqueue}')});
	is($s->state($enqueue), '00000', 'one that is not committed has no effect');
	$dba->query('ROLLBACK');
	$dba->query(q{BEGIN; SAVEPOINT a; SELECT jobq.grant_queue('other', 'app', '{enqueue}'); SET LOCAL ROLE app; SELECT jobq.enqueue('other'); RESET ROLE; ROLLBACK TO a; SET LOCAL ROLE app});
	is($dba->state(q{SELECT jobq.enqueue('other')}), '42501', 'one that is rolled back neither');
	$dba->query('ROLLBACK');

	sql(q{CREATE ROLE temp; GRANT app TO temp});
	my $t = JobqSession->new($node, db => 'src');
	$t->query('SET ROLE temp');
	is($t->state($enqueue), '00000', 'a member');
	# keep EXECUTE, so that it is the queue's right that is missed
	sql(q{GRANT USAGE ON SCHEMA jobq TO temp; GRANT EXECUTE ON FUNCTION jobq.enqueue TO temp; REVOKE app FROM temp});
	is($t->state($enqueue), '42501', 'no longer a member');
	sql('GRANT app TO temp');
	is($t->state($enqueue), '00000', 'again');
	sql('ALTER ROLE temp SUPERUSER');
	is($t->state(q{SELECT jobq.enqueue('other')}), '00000', 'a superuser');
	sql('ALTER ROLE temp NOSUPERUSER');
	is($t->state(q{SELECT jobq.enqueue('other')}), '42501', 'not any more');

	# who waits for a job is told
	sql(q{SELECT jobq.create_queue('quiet'); SELECT jobq.grant_queue('quiet', 'app', '{consume}')});
	$s->errors;
	$s->send(q{SELECT * FROM jobq.dequeue('quiet', wait => '1 min')});
	my $pid = $s->pid;
	poll_until('it sleeps', "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid", node => $node, db => 'src');
	sql(q{SELECT jobq.revoke_queue('quiet', 'app', '{consume}')});
	sql(q{SELECT jobq.enqueue('quiet')});
	$s->result;
	is($s->sqlstate, '42501', 'a waiting dequeue gets no job after a revoke');

	# grants beside each other
	$dba->query(q{BEGIN; SELECT jobq.grant_queue('mail', 'nobody', '{consume}')});
	my $second = JobqSession->new($node, db => 'src');
	$second->send(q{SELECT jobq.grant_queue('other', 'temp', '{consume,manage}')});
	my $p = $second->pid;
	poll_until('it waits', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $p", node => $node, db => 'src');
	$dba->query('COMMIT');
	$second->result;
	is($second->sqlstate, '00000', 'two grants of the same functions at a time');
	is(state_as('nobody', q{SELECT count(*) FROM jobq.dequeue('mail')}), '00000', 'the first');
	is(state_as('temp', q{SELECT count(*) FROM jobq.dequeue('other')}), '00000', 'and the second');
	verify_ok($node, 'verify', 'src');
};

subtest 'one connection for many roles' => sub {
	sql(q{SELECT jobq.grant_queue('mail', 'app', '{enqueue}'), jobq.grant_queue('other', 'boss', '{enqueue}')});
	my $s = JobqSession->new($node, db => 'src');
	for my $round (1 .. 3)
	{
		is($s->state(q{SET ROLE app; SELECT jobq.enqueue('mail')}), '00000', "round $round: app on its queue");
		is($s->state(q{SELECT jobq.enqueue('other')}), '42501', 'not on the other');
		is($s->state(q{SET ROLE boss; SELECT jobq.enqueue('other')}), '00000', 'boss on its own');
		is($s->state(q{SELECT jobq.enqueue('mail')}), '42501', 'not on the other');
		is($s->state(q{RESET ROLE; SELECT jobq.enqueue('mail'), jobq.enqueue('other')}), '00000', 'the administrator on both');
	}
	is($s->query(q{BEGIN; SET LOCAL ROLE app; SELECT jobq.enqueue('mail') > 0; SET LOCAL ROLE boss; SELECT jobq.enqueue('other') > 0; COMMIT}), "t\nt", 'two roles in one transaction');
	sql(q{CREATE FUNCTION definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$SELECT jobq.enqueue('mail')$$});
	is(state_as('boss', 'SELECT definer()'), '00000', 'a function with the rights of its owner');
};

subtest 'handlers' => sub {
	sql(q{
		SELECT jobq.create_queue('in', max_attempts => 1), jobq.create_queue('out');
		SELECT jobq.grant_queue('in', 'boss', '{manage}'), jobq.grant_queue('out', 'boss', '{enqueue}');
		CREATE SCHEMA b AUTHORIZATION boss;
		SET ROLE boss;
		CREATE FUNCTION b.forward(p jsonb) RETURNS bigint LANGUAGE sql AS $$SELECT jobq.enqueue(p #>> '{}')$$;
		SELECT jobq.set_handler('in', 'b.forward')});
	is(state_as('app', q{CREATE FUNCTION pg_temp.f(jsonb) RETURNS void LANGUAGE sql AS ''; SELECT jobq.set_handler('in', 'pg_temp.f')}), '42501', 'a handler takes the right to manage');
	my ($ok, $denied) = split /\n/, sql(q{SELECT jobq.enqueue('in', to_jsonb(q)) FROM unnest('{out,mail}'::text[]) q});
	poll_until('both have ended', qq{SELECT count(*) = 2 FROM jobq.jobs WHERE job_id IN ($ok, $denied) AND state IN ('completed', 'dead')}, node => $node, db => 'src');
	is(sql("SELECT state FROM jobq.job($ok)"), 'completed', 'a handler enqueues where its role may');
	like(sql("SELECT state, last_error FROM jobq.job($denied)"), qr/^dead\|permission denied for queue "mail" \(SQLSTATE 42501\)/, 'and nowhere else');
	my ($rc, $out, $err) = $node->psql('src', q{SELECT jobq.revoke_queue('in', 'boss', '{manage}')});
	like($err, qr/NOTICE:  handlers of queue "in" that run as role "boss" go on: 1\n/, 'whoever revokes is told that handlers go on');
	my $job = sql(q{SELECT jobq.enqueue('in', '"out"')});
	poll_until('it has ended', "SELECT state = 'completed' FROM jobq.job($job)", node => $node, db => 'src');
	is(state_as('boss', q{SELECT jobq.drop_handler('in')}), '42501', 'its role has no more to say');
};

verify_ok($node, 'verify at the end', 'src');
server_alive_ok($node);
server_alive_ok($other);
done_testing();
