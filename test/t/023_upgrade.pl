# pg_upgrade carries everything: the jobs run on without adopt(), and ids and tokens go on, although the timeline starts again at 1.
use strict;
use warnings;

use Cwd;
use Jobq;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "jobq.rescan_interval = 1s\n";
my $old = jobq_node('old', conf => $conf, init => [ allows_streaming => 1 ]);

# Two promotions, so that the old server's timeline is higher than a new one's.
for (1 .. 2)
{
	$old->stop;
	$old->set_standby_mode;
	$old->start;
	$old->promote;
}
poll_until('promoted', 'SELECT NOT pg_is_in_recovery()', node => $old);
$old->safe_psql('postgres', 'CHECKPOINT');
is($old->safe_psql('postgres', 'SELECT timeline_id FROM pg_control_checkpoint()'), '3', 'the old server is on timeline 3');

sub old { return $old->safe_psql('postgres', shift); }

old(q{
	SELECT jobq.create_queue('dlq');
	SELECT jobq.create_queue('q', lease => '1 hour', backoff => 'fixed', backoff_base => '1 hour', keep_completed => NULL);
	SELECT jobq.create_queue('routed', dead_letter_queue => 'dlq');
	SELECT jobq.create_queue('soon', backoff => 'fixed', backoff_base => '0 s')});
old(q{
	CREATE FUNCTION public.wait_for(attempt int, error text) RETURNS interval LANGUAGE sql AS $$ SELECT interval '7 s' $$;
	SELECT jobq.create_queue('f', backoff => 'function', backoff_function => 'public.wait_for(int, text)')});
old(q{SELECT count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n))});
old(q{SELECT jobq.enqueue('q', run_at => '2100-01-01'); SELECT jobq.enqueue('routed'); SELECT jobq.enqueue('f')});
old(q{
	CREATE TABLE hand (job_id bigint, token bigint, n int);
	INSERT INTO hand SELECT job_id, token, row_number() OVER () FROM jobq.dequeue('q', 70, worker => 'w');
	SELECT count(*) FROM (SELECT jobq.complete(job_id, token, '{"r": 1}') FROM hand WHERE n BETWEEN 1 AND 10) x;
	SELECT count(*) FROM (SELECT jobq.fail(job_id, token, 'broken') FROM hand WHERE n BETWEEN 11 AND 20) x;
	SELECT count(*) FROM (SELECT jobq.fail(job_id, token, 'hopeless', retry => false) FROM hand WHERE n BETWEEN 21 AND 25) x;
	SELECT jobq.progress(job_id, token, '"half"') FROM hand WHERE n = 31;
	SELECT jobq.fence('disk', token) FROM hand WHERE n = 33});
# A job that is due and a lease that is over by then: the new server's scheduler finds them by itself.
my $due = old(q{SELECT jobq.enqueue('soon', delay => '2 s')});
old(q{SELECT jobq.enqueue('soon')});
my $ended = old(q{SET jobq.async_dequeue = off; SELECT job_id FROM jobq.dequeue('soon', lease => '2 s')});
my $picture = q{
	SELECT row_to_json(j) FROM (SELECT * FROM jobq.job_full WHERE queue <> 'soon' ORDER BY job_id) j
	UNION ALL SELECT row_to_json(q) FROM (SELECT * FROM jobq.queue ORDER BY id) q
	UNION ALL SELECT row_to_json(f) FROM (SELECT * FROM jobq.resource_fence) f};
my $before = old($picture);
my $token = old('SELECT max(token) FROM jobq.lease');
my $id = old('SELECT max(job_id) FROM jobq.job_full');
verify_ok($old, 'verify of the old server');
$old->stop;

# The upgrade is by copy, so one old server serves for several.
sub upgrade
{
	my ($name, %opt) = @_;
	my $new = jobq_node($name, conf => $conf, start => 0, preload => $opt{preload}, init => [ allows_streaming => 1 ]);
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $cwd = getcwd();
	chdir $dir;
	command_ok([
			$new->installed_command('pg_upgrade'), '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $old->config_data('--bindir'),
			'-B', $new->config_data('--bindir'), '-s', $new->host, '-p', $old->port, '-P', $new->port ],
		"pg_upgrade, $name");
	chdir $cwd;
	$new->append_conf('postgresql.conf', "shared_preload_libraries = 'jobq'\n");
	$new->start;
	return $new;
}

for my $try ([ 'preloaded', 'jobq' ], [ 'not_preloaded', '' ])
{
	my ($name, $preload) = @$try;
	my $new = upgrade($name, preload => $preload);
	my $sql = sub { return $new->safe_psql('postgres', shift); };

	is($sql->('SELECT timeline_id FROM pg_control_checkpoint()'), '1', "$name: the timeline starts again");
	is($sql->($picture), $before, "$name: everything is there");
	verify_ok($new, "$name: verify");
	is((sqlstate_of($new, 'SELECT jobq.complete(job_id, token) FROM hand WHERE n = 40'))[0], '00000', "$name: a lease holds, without adopt()");
	my ($job, $new_token) = split /\|/, $sql->(q{SELECT job_id, token FROM jobq.dequeue('q')});
	ok($job, "$name: jobs can be taken, without adopt()");
	cmp_ok($new_token, '>', $token, "$name: tokens go on");
	is($sql->("SELECT jobq.fence('disk', $new_token)"), '', "$name: and pass the fence of the old ones");
	cmp_ok($sql->(q{SELECT jobq.enqueue('q')}), '>', $id, "$name: ids go on");
	is($sql->("SELECT jobq.complete($job, $new_token)"), 't', "$name: completed");
	my ($f, $f_token) = split /\|/, $sql->(q{SELECT job_id, token FROM jobq.dequeue('f')});
	is($sql->("SELECT jobq.fail($f, $f_token, 'x')"), 'retry', "$name: the queue's function is found");
	is($sql->("SELECT round(extract(epoch FROM run_at - last_at)) = 7 FROM (SELECT run_at, (failures -> -1 ->> 'at')::timestamptz AS last_at FROM jobq.job($f)) x"), 't', "$name: and obeyed");
	my $soon = $sql->(q{SELECT jobq.enqueue('soon', delay => '20 ms')});
	poll_until("$name: the scheduler runs", "SELECT state = 'ready' FROM jobq.job($soon)", node => $new);

	poll_until("$name: and finds what was due", "SELECT state = 'ready' FROM jobq.job($due)", node => $new);
	poll_until("$name: and leases that are over", "SELECT state = 'ready' AND attempt = 1 FROM jobq.job($ended)", node => $new);
	poll_until("$name: counters are exact", 'SELECT bool_and(exact) FROM jobq.queues', node => $new);
	verify_ok($new, "$name: verify after work");

	# A failover of the new server.
	my $highest = $sql->(q{SET jobq.async_dequeue = off; SELECT max(token) FROM jobq.dequeue('q', 5)});
	$new->stop;
	$new->set_standby_mode;
	$new->start;
	$new->promote;
	poll_until("$name: promoted", 'SELECT NOT pg_is_in_recovery()', node => $new);
	cmp_ok($sql->(q{SELECT min(token) FROM jobq.dequeue('q', 5)}), '>', $highest, "$name: tokens go on after a failover");
	verify_ok($new, "$name: verify at the end");
	server_alive_ok($new);
	is($sql->('DROP EXTENSION jobq; SELECT count(*) FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = \'jobq\')'),
		'0', "$name: the extension can be dropped");
	$new->stop;
}
server_alive_ok($old, 'the old server never crashed');
done_testing();
