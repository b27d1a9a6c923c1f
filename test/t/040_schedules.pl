# Schedules with a clock of our own: what was missed, changes of the clock and of the zone, crashes, failover, many at once, idleness.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('main', debug => 1, conf => "jobq.scheduler_idle_timeout = 2\nrestart_after_crash = on\nlog_min_messages = warning\n");
my $ahead = 0;    # ms that jobq's clock is ahead of the server's

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

# Seconds since 1970, by jobq's clock.
sub now
{
	return Time::HiRes::time() + $ahead / 1000;
}

# Sets jobq's clock. A server that runs learns it at once, unless later is given.
sub set_clock
{
	my ($to, %opt) = @_;
	$ahead = int(($to - Time::HiRes::time()) * 1000);
	sql("ALTER SYSTEM SET jobq.debug_clock = '${ahead}ms'");
	return if $opt{later};
	$node->reload;
	poll_until('the clock is set', "SELECT (SELECT setting FROM pg_settings WHERE name = 'jobq.debug_clock') = '$ahead'", node => $node);
	return;
}

# The next multiple of so many seconds that is at least some seconds away.
sub next_multiple
{
	my ($of, $away) = @_;
	return (int((now() + $away) / $of) + 1) * $of;
}

sub runs
{
	my ($schedule) = @_;
	return sql("SELECT coalesce(string_agg(outcome || ' ' || extract(epoch FROM instant)::bigint, ', ' ORDER BY instant), '') FROM jobq.schedule_runs WHERE schedule = '$schedule'");
}

# No instant of a schedule has two jobs.
sub once_each
{
	my ($what, $n) = @_;
	$n //= $node;
	is($n->safe_psql('postgres', q{
		SELECT string_agg(headers ->> 'schedule' || ' ' || (headers ->> 'scheduled_for'), ', ')
		FROM (SELECT headers FROM jobq.job UNION ALL SELECT headers FROM jobq.history) j WHERE headers ? 'schedule'
		GROUP BY headers HAVING count(*) > 1}), '', "$what: one job for each instant");
	return;
}

sql(q{SELECT jobq.create_queue('q')});

# ---- the server is down over three ticks, then over 150
my $tick = next_multiple(300, 60);
set_clock($tick - 100);
sql(qq{
	SELECT jobq.schedule('m-' || missed, '*/5 * * * *', 'q', missed => missed) FROM unnest('{skip,last,all}'::text[]) missed;
	SELECT jobq.schedule('m-once', 'at ' || to_char(to_timestamp($tick), 'YYYY-MM-DD HH24:MI:SS'), 'q');
	SELECT jobq.schedule('m-off', '*/5 * * * *', 'q', enabled => false)});
is(sql('SELECT count(DISTINCT next_run) FROM jobq.schedules'), '1', 'all are due at the same time');
set_clock($tick + 750, later => 1);    # the tick, two more, and half the way to the next
$node->restart;
poll_until('they were dealt with', q{SELECT count(*) = 4 FROM jobq.schedules WHERE last_run IS NOT NULL}, node => $node);
my @ticks = map { $tick + 300 * $_ } 0 .. 3;
is(runs('m-skip'), "missed $ticks[2]", 'skip: none is made up for');
is(sql(q{SELECT extract(epoch FROM split_part(detail, 'since ', 2)::timestamptz)::bigint FROM jobq.schedule_runs WHERE schedule = 'm-skip'}),
	$tick, 'and it says since when');
is(runs('m-last'), "missed $ticks[1], enqueued $ticks[2]", 'last: the last one is');
is(runs('m-all'), "enqueued $ticks[0], enqueued $ticks[1], enqueued $ticks[2]", 'all: each one is');
is(runs('m-once'), "enqueued $tick", 'a one-shot is late rather than never');
is(runs('m-off'), '', 'one that is switched off is not');
is(sql(q{SELECT DISTINCT extract(epoch FROM next_run)::bigint FROM jobq.schedules WHERE state = 'active'}), $ticks[3], 'they go on at the next tick');
set_clock($ticks[3] + 30);
poll_until('the next tick', q{SELECT count(*) = 3 FROM jobq.schedule_runs WHERE outcome = 'enqueued' AND schedule IN ('m-skip', 'm-last', 'm-all') AND instant = (SELECT max(instant) FROM jobq.schedule_runs)}, node => $node);
is(runs('m-skip'), "missed $ticks[2], enqueued $ticks[3]", 'half a minute late is not missed');
set_clock($ticks[3] + 150 * 300 + 150, later => 1);
$node->restart;
poll_until('dealt with again', qq{SELECT count(*) = 3 FROM jobq.schedules WHERE state = 'active' AND last_run > to_timestamp($ticks[3])}, node => $node);
is(sql(q{SELECT count(*) FROM jobq.schedule_runs WHERE schedule = 'm-all'}), '100', 'the history is bounded');
is(sql(qq{SELECT count(*), extract(epoch FROM max((headers ->> 'scheduled_for')::timestamptz))::bigint - $ticks[3] FROM jobq.job
	WHERE headers ->> 'schedule' = 'm-all' AND (headers ->> 'scheduled_for')::timestamptz > to_timestamp($ticks[3])}),
	'100|45000', 'all: at most 100 are made up for, the latest ones');
once_each('missed');
verify_ok($node);

# ---- nothing fires while jobq is off
sql(q{SELECT jobq.unschedule(name) FROM jobq.schedules});
$tick = next_multiple(60, 5);
sql(q{SELECT jobq.schedule('off', '* * * * *', 'q', missed => 'last')});
sql('ALTER SYSTEM SET jobq.enabled = off');
$node->reload;
poll_until('it is off', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}, node => $node);
set_clock($tick + 90);
Time::HiRes::sleep(1);
is(runs('off'), '', 'nothing fires while jobq.enabled is off');
sql('ALTER SYSTEM RESET jobq.enabled');
$node->reload;
poll_until('it is on', q{SELECT count(*) > 0 FROM jobq.schedule_runs WHERE outcome = 'enqueued'}, node => $node);
is(runs('off'), "missed $tick, enqueued " . ($tick + 60), 'and then what was missed counts as that');
sql(q{SELECT jobq.unschedule('off')});

# ---- changes of the zone's clock: a zone that jumps tomorrow at 2:00, and back the day after at 3:00
# From noon on, whatever the hour is in which the test runs: today's 2:30 is over.
my $noon = int(now() / 86400) * 86400 + 43200;
set_clock($noon < now() ? $noon + 86400 : $noon);
my @day = gmtime(now() + 86400);
my $julian = $day[7] + 1;    # without 29 February
$julian-- if $julian > 59 && $day[5] % 4 == 0;
my $back = $julian % 365 + 1;
my $zone = "XST0XDT,J$julian/2,J$back/3";
my $jump = int((now() + 86400) / 86400) * 86400 + 7200;
is(sql(qq{SELECT jobq.schedule('dst', '30 2 * * *', 'q', timezone => '$zone', missed => 'all') = to_timestamp($jump)}), 't',
	'2:30 that is left out is due at the jump');
is(sql(qq{SELECT jobq.schedule('dst-hourly', '30 * * * *', 'q', timezone => '$zone', missed => 'all') IS NOT NULL}), 't');
set_clock($jump - 1);
poll_until('the jump', q{SELECT count(*) = 1 FROM jobq.schedule_runs WHERE schedule = 'dst'}, node => $node);
is(runs('dst'), "enqueued $jump", 'it fires at the jump');
set_clock($jump + 86400 + 3 * 3600);    # back at 3:00 summer time, 2:00 UTC: 2:30 was at 1:30 and at 2:30 UTC
poll_until('the day after', qq{SELECT last_run >= to_timestamp($jump + 86400 - 1800) FROM jobq.schedules WHERE name = 'dst'}, node => $node);
is(runs('dst'), "enqueued $jump, enqueued " . ($jump + 86400 - 1800), 'and the first time only where it comes twice');
poll_until('hourly', qq{SELECT last_run >= to_timestamp($jump + 86400 + 9000) FROM jobq.schedules WHERE name = 'dst-hourly'}, node => $node);
is(sql(qq{SELECT count(*) FROM jobq.schedule_runs WHERE schedule = 'dst-hourly' AND outcome = 'enqueued' AND instant BETWEEN to_timestamp($jump - 3600) AND to_timestamp($jump + 86400 + 9000)}),
	'28', 'an hourly one goes by elapsed time');
once_each('changes of the clock');
sql(q{SELECT jobq.unschedule(name) FROM jobq.schedules});

# ---- a clock that is set back: no instant twice; one that was wrong by more than three hours is forgotten
$tick = next_multiple(60, 5);
sql(q{SELECT jobq.schedule('back', '* * * * *', 'q')});
set_clock($tick - 1);
poll_until('a minute', qq{SELECT last_run = to_timestamp($tick) FROM jobq.schedules WHERE name = 'back'}, node => $node);
set_clock($tick - 1200);
Time::HiRes::sleep(0.5);
is(sql(q{SELECT extract(epoch FROM next_run)::bigint FROM jobq.schedules WHERE name = 'back'}), $tick + 60, 'set back by 20 minutes: it waits for the next new one');
set_clock($tick + 61);
poll_until('the next one', qq{SELECT last_run = to_timestamp($tick + 60) FROM jobq.schedules WHERE name = 'back'}, node => $node);
is(runs('back'), "enqueued $tick, enqueued " . ($tick + 60), 'and each fires once');
set_clock($tick - 4 * 3600);
poll_until('planned anew', qq{SELECT next_run < to_timestamp($tick - 3 * 3600) FROM jobq.schedules WHERE name = 'back'}, node => $node);
pass('set back by more than 3 hours: planned anew');
set_clock($tick - 4 * 3600 + 60);
poll_until('fires', q{SELECT last_outcome = 'enqueued' AND last_run IS NOT NULL FROM jobq.schedules WHERE name = 'back'}, node => $node);
# the same with no scheduler there to see it
sql(q{SELECT jobq.schedule('back', '0 * * * *', 'q')});
poll_until('the scheduler has left', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'}, node => $node);
set_clock($tick - 12 * 3600);
poll_until('planned anew', qq{SELECT next_run < to_timestamp($tick - 10 * 3600) FROM jobq.schedules WHERE name = 'back'}, node => $node, limit => 90);
pass('also when the scheduler was away');
set_clock($tick + 3600);
sql(q{SELECT jobq.unschedule(name) FROM jobq.schedules});
sql(q{SELECT jobq.purge_queue('q')});

# ---- a thousand in one second
sql(q{SELECT count(jobq.schedule('many-' || n, 'every 1 hour', 'q', jsonb_build_object('n', n))) FROM generate_series(1, 1000) n});
$tick = next_multiple(3600, 5);
set_clock($tick - 2);
poll_until('a thousand', q{SELECT count(*) = 1000 FROM jobq.schedule_runs}, node => $node);
is(sql(q{SELECT count(DISTINCT headers ->> 'schedule'), count(*) FROM jobq.job WHERE headers ? 'schedule'}), '1000|1000', '1,000 due in one second fire once each');
my $took = sql(q{SELECT round(1000 * extract(epoch FROM max(at - instant))) FROM jobq.schedule_runs});
cmp_ok($took, '<', 1000, "within a second: $took ms");
once_each('a thousand');
sql(q{SELECT jobq.unschedule(name) FROM jobq.schedules});
sql(q{SELECT jobq.purge_queue('q')});

# ---- what is wrong with one holds up no other
sql(q{CREATE ROLE gone SUPERUSER});
sql(q{SET ROLE gone; SELECT jobq.schedule('b-role', '* * * * *', 'q')});
sql(q{SELECT jobq.schedule('b-' || n, '* * * * *', 'q') FROM unnest('{zone,queue,locked,z}'::text[]) n; SELECT jobq.create_queue('lost'); SELECT jobq.schedule('b-queue', '* * * * *', 'lost')});
# as an upgrade of the zones, or somebody's hand, would do it
sql(q{UPDATE jobq.schedule SET timezone = 'Gone/Zone' WHERE name = 'b-zone'; UPDATE jobq.schedule SET queue_id = 99999 WHERE name = 'b-queue'; DROP ROLE gone});
my $holder = JobqSession->new($node);
$holder->query(q{BEGIN});
$holder->query(q{SELECT 1 FROM jobq.schedule WHERE name = 'b-locked' FOR UPDATE});
$tick = next_multiple(60, 5);
set_clock($tick - 1);
poll_until('the others', q{SELECT count(*) = 4 FROM jobq.schedules WHERE last_outcome IS NOT NULL}, node => $node);
is(runs('b-z'), "enqueued $tick", 'the last one fires');
is(sql(q{SELECT string_agg(name || ': ' || state || ', ' || last_error, '; ' ORDER BY name) FROM jobq.schedules WHERE last_outcome = 'failed'}),
	'b-queue: active, its queue does not exist; b-role: active, role "gone", who made it, does not exist; b-zone: broken, time zone "Gone/Zone" is not known', 'the others say why not');
is(runs('b-locked'), '', 'one that somebody has locked waits');
$holder->query('ROLLBACK');
poll_until('the locked one', q{SELECT last_outcome = 'enqueued' FROM jobq.schedules WHERE name = 'b-locked'}, node => $node);
is(runs('b-locked'), "enqueued $tick", 'and fires when the lock is gone');
set_clock($tick + 59);
poll_until('the next minute', qq{SELECT count(*) = 4 FROM jobq.schedules WHERE last_run = to_timestamp($tick + 60)}, node => $node);
my $log = slurp_file($node->logfile);
is(scalar(() = $log =~ /WARNING:  schedule "b-role" could not enqueue/g), 1, 'the log says it once');
# the zone is known again
sql(q{UPDATE jobq.schedule SET timezone = 'Europe/Berlin' WHERE name = 'b-zone'});
$node->restart;
poll_until('planned again', q{SELECT state = 'active' FROM jobq.schedules WHERE name = 'b-zone'}, node => $node);
pass('a zone that is known again is planned again');
sql(q{SELECT jobq.unschedule(name) FROM jobq.schedules});

# ---- who made it must be one who may enqueue
sql(q{CREATE ROLE maker; CREATE ROLE crew; CREATE ROLE member; GRANT crew TO member;
	SELECT jobq.create_queue('guarded'), jobq.grant_queue('guarded', 'maker', '{enqueue,manage}'), jobq.grant_queue('guarded', 'crew', '{manage}')});
sql(q{SET ROLE maker; SELECT jobq.schedule('r-maker', '* * * * *', 'guarded')});
sql(q{SET ROLE member; SELECT jobq.schedule('r-member', '* * * * *', 'guarded')});
sql(q{SELECT jobq.schedule('r-super', '* * * * *', 'guarded')});
# The clock's next minute, and what each of them made of it.
sub next_minute
{
	$tick = next_multiple(60, 5);
	set_clock($tick - 1);
	poll_until('the minute', qq{SELECT count(*) = 3 FROM jobq.schedules WHERE name LIKE 'r-%' AND last_run = to_timestamp($tick)}, node => $node);
	return sql(q{SELECT string_agg(split_part(name, '-', 2) || ' ' || last_outcome, ', ' ORDER BY name COLLATE "C") FROM jobq.schedules WHERE name LIKE 'r-%'});
}
my $notice = sub { return ($node->psql('postgres', $_[0]))[2]; };
is(next_minute(), 'maker enqueued, member enqueued, super enqueued', 'those who manage the queue');
is($notice->(q{SELECT jobq.revoke_queue('guarded', 'maker', '{manage}')}), '', 'a revoke that leaves what it takes');
is(next_minute(), 'maker enqueued, member enqueued, super enqueued', 'and one who may enqueue');
like($notice->(q{SELECT jobq.revoke_queue('guarded', 'maker', '{enqueue}')}),
	qr/^[^\n]*NOTICE:  schedules of queue "guarded" that role "maker" made enqueue no longer: 1\n/, 'a revoke says that a schedule enqueues no longer');
sql(q{REVOKE crew FROM member});
my $jobs = sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'guarded'});
is(next_minute(), 'maker failed, member failed, super enqueued', 'not one who may not, or is no longer in the role that may');
is(sql(q{SELECT string_agg(DISTINCT detail, '; ' ORDER BY detail) FROM jobq.schedule_runs WHERE schedule LIKE 'r-m%' AND outcome = 'failed' AND job_id IS NULL}),
	'role "maker", who made it, may not enqueue to queue "guarded"; role "member", who made it, may not enqueue to queue "guarded"', 'which says why');
is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'guarded'}), $jobs + 1, 'and has no job');
sql(q{SELECT jobq.grant_queue('guarded', 'maker', '{enqueue}'); GRANT crew TO member});
is(next_minute(), 'maker enqueued, member enqueued, super enqueued', 'until they may again');
is(sql(q{SELECT count(last_error) FROM jobq.schedules WHERE name LIKE 'r-%'}), '0', 'and all is well');
once_each('rights');
sql(q{SELECT jobq.drop_queue('guarded', force => true); DROP OWNED BY maker, crew; DROP ROLE maker, crew, member});

# ---- a crash between the job and its commit
sql(q{SELECT jobq.schedule('crash', '* * * * *', 'q')});
my $lock = JobqSession->new($node);
$lock->query(q{SELECT pg_advisory_lock(hashtext('schedule-fired'))});
sql(q{ALTER SYSTEM SET jobq.debug_point = 'schedule-fired'});
$tick = next_multiple(60, 5);
set_clock($tick - 1);
my $pid = '';
poll_until('it waits before its commit', sub {
	$pid = sql(q{SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND NOT l.granted AND a.backend_type = 'jobq scheduler'});
	return $pid ne '';
});
sql(q{ALTER SYSTEM RESET jobq.debug_point});
is(runs('crash'), '', 'nothing is seen before the commit');
kill 'KILL', $pid;
$lock->close;
poll_until('the server is back', sub { return ($node->psql('postgres', 'SELECT 1'))[0] == 0; });
poll_until('it fires', q{SELECT count(*) > 0 FROM jobq.schedule_runs WHERE schedule = 'crash'}, node => $node);
like(runs('crash'), qr/^enqueued $tick\b/, 'after the crash the instant fires');
once_each('crash');
verify_ok($node);

# ---- made and removed in a loop, also by its own job
sql(q{SELECT jobq.unschedule(name) FROM jobq.schedules; SELECT jobq.purge_queue('q'); SELECT jobq.create_queue('own')});
sql(q{SELECT jobq.schedule('own', 'every 1 second', 'own')});
my $looper = JobqSession->new($node);
$looper->send(q{DO $$BEGIN FOR i IN 1 .. 2000 LOOP PERFORM jobq.schedule('loop', 'every 1 second', 'q'); COMMIT; PERFORM jobq.unschedule('loop'); COMMIT; END LOOP; END$$});
for (1 .. 3)
{
	is(sql(q{
		BEGIN;
		SELECT jobq.complete(job_id, token), jobq.unschedule('own'), jobq.schedule('own', 'every 1 second', 'own') IS NOT NULL
			FROM jobq.dequeue('own', wait => '20 s');
		COMMIT;}), 't|t|t', 'a job removes its own schedule and makes it again');
}
$looper->result;
is($looper->sqlstate, '00000', 'a loop of both, beside the scheduler');
once_each('loops');
sql(q{SELECT jobq.unschedule('own')});
is(sql(q{SELECT count(*) FROM jobq.schedule_runs}), '0', 'no history of what is gone');

# PREPARE would lose the word to the scheduler
my ($state) = sqlstate_of($node, q{BEGIN; SELECT jobq.schedule('p', '@daily', 'q'); PREPARE TRANSACTION 'p'});
is($state, '0A000', 'PREPARE TRANSACTION is refused');
verify_ok($node);

# ---- idle: fifty schedules an hour away cost nothing
$node->safe_psql('postgres', 'CREATE DATABASE idle');
$node->safe_psql('idle', q{CREATE EXTENSION jobq; SELECT jobq.create_queue('q')});
set_clock(next_multiple(3600, 0) + 10);
$node->safe_psql('idle', q{SELECT count(jobq.schedule('s' || n, '@hourly', 'q')) FROM generate_series(1, 50) n});
my $transactions = q{SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'idle'};
my ($count, $same) = ('', 0);
poll_until('it comes to rest', sub {
	my $then = $count;
	Time::HiRes::sleep(1);
	$count = sql($transactions);
	$same = $count eq $then ? $same + 1 : 0;
	return $same >= 4;
});
my $started = sql(q{SELECT count(*), max(query_start) FROM pg_stat_activity WHERE datname = 'idle'});
Time::HiRes::sleep(12);
is(sql($transactions), $count, 'idle for 12 s: no transaction');
is(sql(q{SELECT count(*), max(query_start) FROM pg_stat_activity WHERE datname = 'idle'}), $started, 'and no statement');
# and yet it is back in time
set_clock(next_multiple(3600, 5) - 3);
ok(poll_until('all of them', sub { return $node->safe_psql('idle', q{SELECT count(*) FROM jobq.schedule_runs WHERE outcome = 'enqueued' AND at < instant + interval '1 s'}) eq '50'; }),
	'they fire in time');
verify_ok($node, 'verify in the idle database', 'idle');

# ---- a restored copy fires nothing until it is adopted, and then by the policy for what was missed
sql(q{SELECT jobq.schedule('c-' || missed, '* * * * *', 'q', missed => missed) FROM unnest('{skip,last}'::text[]) missed});
$tick = next_multiple(60, 5);
$node->safe_psql('postgres', 'CREATE DATABASE copy');
my $dump = $node->data_dir . '/../copy.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'dump');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('copy') ], 'restore');
set_clock($tick + 200);
poll_until('the original fires', qq{SELECT count(*) = 2 FROM jobq.schedules WHERE last_run > to_timestamp($tick + 100)}, node => $node);
is($node->safe_psql('copy', 'SELECT count(*) FROM jobq.schedule_runs'), '0', 'the copy does not');
$node->safe_psql('copy', 'SELECT jobq.adopt()');
poll_until('the copy is adopted', 'SELECT count(*) = 2 FROM jobq.schedules WHERE last_run IS NOT NULL', node => $node, db => 'copy');
cmp_ok($node->safe_psql('copy', q{SELECT count(*) FROM jobq.job WHERE headers ->> 'schedule' = 'c-last'}), '<=', 2, 'missed ones are made up for once');
verify_ok($node, 'verify in the copy', 'copy');
once_each('at the end');
server_alive_ok($node) if 0;    # the crash above was ours
$node->stop;

# ---- failover
my $first = jobq_node('first', debug => 1, init => [ allows_streaming => 1 ], conf => "jobq.scheduler_idle_timeout = 2\n");
$first->backup('backup');
my $second = PostgreSQL::Test::Cluster->new('second', install_path => $ENV{JOBQ_DEBUG_PREFIX});
$second->init_from_backup($first, 'backup', has_streaming => 1);
$second->start;
$first->safe_psql('postgres', q{SELECT jobq.create_queue('q'); SELECT jobq.schedule('f', 'every 1 second', 'q', missed => 'all'); SELECT jobq.schedule('g', 'every 1 second', 'q')});
poll_until('it fires', q{SELECT count(*) >= 4 FROM jobq.schedule_runs}, node => $first);
poll_until('the standby knows', q{SELECT count(*) >= 4 FROM jobq.schedule_runs}, node => $second);
is($second->safe_psql('postgres', q{SELECT count(*) FROM jobq.schedule_next('@daily')}), '5', 'schedule_next() works on a standby');
is((sqlstate_of($second, q{SELECT jobq.schedule('h', '@daily', 'q')}))[0], '25006', 'schedule() does not');
$first->stop('immediate');
$second->promote;
my $at = $second->safe_psql('postgres', q{SELECT count(*) FROM jobq.schedule_runs WHERE schedule = 'f'});
poll_until('it goes on', "SELECT count(*) >= $at + 2 FROM jobq.schedule_runs WHERE schedule = 'f'", node => $second);
$second->safe_psql('postgres', q{SELECT jobq.schedule(name, cron, queue, enabled => false) FROM jobq.schedules});
once_each('failover', $second);
is($second->safe_psql('postgres', q{SELECT 1 + extract(epoch FROM max(i) - min(i)) = count(*) FROM (SELECT (headers ->> 'scheduled_for')::timestamptz AS i FROM jobq.job WHERE headers ->> 'schedule' = 'f') x}),
	't', 'and with missed => all none is left out');
verify_ok($second);
done_testing();
