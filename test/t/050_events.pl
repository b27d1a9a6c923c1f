# Events: what listeners and pollers get, in which order, what is lost and how that is told; alarms of dead letters.
use strict;
use warnings;

use Jobq;
use JobqSession;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('events', init => [ allows_streaming => 1 ], conf => "jobq.event_buffer = 20000\njobq.scheduler_idle_timeout = 1\n");

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

# A session that listens to the events of queues.
sub listener
{
	my (@queues) = @_;
	my $s = JobqSession->new($node);
	$s->query("LISTEN \"jobqevents_$_\"") for @queues;
	return { session => $s, payloads => [], events => [] };
}

# Takes what has arrived. Dies on a payload that is no JSON.
sub receive
{
	my ($l) = @_;
	my $out = $l->{session}->query('SELECT 1');
	while ($out =~ /^Asynchronous notification "jobqevents_([^"]*)" with payload "(.*)" received from server process/mg)
	{
		my ($queue, $payload) = ($1, $2);
		my $data = JSON::PP->new->utf8->decode($payload);
		push @{ $l->{payloads} }, $payload;
		push @{ $l->{events} }, map { { %$_, queue => $data->{queue} } } @{ $data->{events} };
	}
	return;
}

# Waits until the listener has got as many events as said.
sub received
{
	my ($l, $n, $what) = @_;
	return poll_until($what, sub { receive($l); return @{ $l->{events} } >= $n; });
}

sub last_position
{
	return sql('SELECT coalesce(max("position"), 0) FROM jobq.events(max_events => 100000)');
}

sql(q{SELECT jobq.create_queue('q', events => '{all}', backoff => 'fixed', backoff_base => '1 h'), jobq.create_queue('plain')});

subtest 'listeners get every event, many in one message' => sub {
	my $l = listener('q', 'plain');
	sql(join ';', map { "SELECT jobq.enqueue('q', '$_'), jobq.enqueue('plain', '$_')" } 1 .. 500);
	received($l, 500, 'events of 500 commits');
	is(scalar @{ $l->{events} }, 500, 'one for each job of the queue that has events');
	is(join(',', map { $_->{position} } @{ $l->{events} }), sql('SELECT string_agg("position"::text, \',\') FROM jobq.events(max_events => 100000)'),
		'in their order, the same as for who asks');
	is(scalar(grep { $_->{event} ne 'waiting' || $_->{queue} ne 'q' } @{ $l->{events} }), 0, 'of that queue');
	cmp_ok(scalar @{ $l->{payloads} }, '<', 100, 'in few messages');
	is(scalar(grep { length($_) >= 8000 } @{ $l->{payloads} }), 0, 'each shorter than 8000 bytes');
	sql(q{SELECT jobq.purge_queue('q')});
};

subtest 'what a message says' => sub {
	my $l = listener('q');
	sql(q{SELECT jobq.enqueue('q', '"secret"', name => E'a "b" \\\\ \t', group_key => 'größe', max_attempts => 2) \gset
		SELECT jobq.fail(job_id, token, E'line 1\nline 2') FROM jobq.dequeue('q')});
	received($l, 4, 'events of a failure');
	my %e = map { $_->{event} => $_ } @{ $l->{events} };
	is(join(' ', map { $_->{event} } @{ $l->{events} }), 'waiting active failed retrying', 'its events');
	is($e{retrying}{error}, "line 1\nline 2", 'the error');
	is($e{retrying}{name}, "a \"b\" \\ \t", 'the name');
	is($e{retrying}{group_key}, "gr\xf6\xdfe", 'the group');
	cmp_ok($e{retrying}{delay}, '==', 3600, 'the delay in seconds');
	is("$e{retrying}{attempt} $e{retrying}{max_attempts}", '1 2', 'the attempts');
	like($e{retrying}{at}, qr/^\d{4}-\d\d-\d\dT[\d:.]+\+00:00$/, 'the time');
	is(scalar(grep { /secret/ } @{ $l->{payloads} }), 0, 'no payload');
	sql(q{SELECT jobq.purge_queue('q', '{ready,delayed}')});
};

subtest 'an idle scheduler leaves, and comes back for events' => sub {
	my $l = listener('q');
	my $running = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq scheduler' AND datname = 'postgres'";
	poll_until('the scheduler leaves', "SELECT ($running) = 0", node => $node);
	sql(q{SELECT jobq.enqueue('q', '1', delay => '1 h')});
	received($l, 1, 'an event after that');
	sql(q{SELECT jobq.purge_queue('q')});
	received($l, 2, 'the next one');
	is(join(' ', map { $_->{event} } @{ $l->{events} }), 'waiting deleted', 'both');
};

subtest 'the order of a job\'s events' => sub {
	my $dir = PostgreSQL::Test::Utils::tempdir();
	append_to_file("$dir/in.sql", "SELECT jobq.enqueue('q', '1');\n");
	append_to_file("$dir/out.sql", "SELECT jobq.complete(job_id, token) FROM jobq.dequeue('q', 5);\n");
	my $before = last_position();
	$node->command_ok(
		[ $node->installed_command('pgbench'), '-n', '-c', '8', '-t', '150', '-f', "$dir/in.sql", '-f', "$dir/out.sql", 'postgres' ],
		'producers and consumers at once');
	sql(q{DO $$ BEGIN WHILE (SELECT count(jobq.complete(job_id, token)) FROM jobq.dequeue('q', 100)) > 0 LOOP COMMIT; END LOOP; END $$});
	is(sql("SELECT string_agg(DISTINCT life, ' / ') FROM (SELECT string_agg(event, ' ' ORDER BY \"position\") AS life
		FROM jobq.events($before, max_events => 100000) GROUP BY job_id) j"), 'waiting active completed', 'nobody acts before what he acts on is told');
	cmp_ok(sql("SELECT count(DISTINCT job_id) FROM jobq.events($before, max_events => 100000)"), '>', 300, 'of hundreds of jobs');
};

subtest 'a commit that takes long' => sub {
	my $l = listener('q');
	my $before = last_position();
	my $slow = JobqSession->new($node);
	$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nowhere'\nsynchronous_commit = local\n");
	$node->reload;
	poll_until('the setting is in force', 'SELECT current_setting(\'synchronous_standby_names\') = \'nowhere\'', node => $node);
	$slow->query('SELECT 1');
	$slow->query('SET synchronous_commit = on');
	$slow->send(q{SELECT jobq.enqueue('q', '"slow"', name => 'slow')});
	poll_until('it waits for a standby', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'", node => $node);
	sql(q{SELECT jobq.enqueue('q', '"fast"', name => 'fast')});
	received($l, 1, 'what others commit meanwhile is told');
	is($l->{events}[0]{name}, 'fast', 'in spite of it');
	is(sql("SELECT string_agg(name, ' ') FROM jobq.events($before)"), 'fast', 'to who asks, too');
	sql('SELECT pg_cancel_backend(' . $slow->pid . ')');
	$slow->result;
	received($l, 2, 'its events come when it is over');
	is(sql("SELECT string_agg(name, ' ' ORDER BY \"position\") FROM jobq.events($before)"), 'fast slow', 'behind the others');
	$node->adjust_conf('postgresql.conf', 'synchronous_standby_names', "''");
	$node->reload;
	sql(q{SELECT jobq.purge_queue('q')});
};

subtest 'a prepared transaction tells nothing' => sub {
	my $before = last_position();
	sql(q{BEGIN; SELECT jobq.enqueue('q', '1'); PREPARE TRANSACTION 'p'});
	sql(q{COMMIT PREPARED 'p'});
	sql(q{SELECT jobq.enqueue('q', '2')});
	is(sql("SELECT count(*) FROM jobq.events($before)"), 1, 'but those after it do');
	is(sql(q{SELECT jobq.purge_queue('q')}), 2, 'its job is there');
};

sub warnings_since
{
	my ($offset) = @_;
	return join "\n", slurp_file($node->logfile, $offset) =~ /WARNING:  (queue "q.*)$/mg;
}

subtest 'alarms' => sub {
	my $log = -s $node->logfile;
	my $l = listener('alarm');
	my $die = sub {
		my ($n) = @_;
		sql("SELECT jobq.enqueue('alarm', max_attempts => 1) FROM generate_series(1, $n); SELECT jobq.fail(job_id, token) FROM jobq.dequeue('alarm', $n)");
	};
	my $alarms = sub {
		receive($l);
		return join ' ', map { $_->{count} } grep { $_->{event} eq 'dead_alarm' } @{ $l->{events} };
	};
	my $settled = sub {
		my ($want, $what) = @_;
		poll_until($what, sub { return $alarms->() eq $want; });
		is($alarms->(), $want, $what);
	};

	sql(q{SELECT jobq.create_queue('alarm', alert_dead => 3)});
	$die->(2);
	$die->(1);
	$settled->('3', 'the threshold is reached: one alarm');
	$die->(2);
	sql(q{SELECT jobq.redrive('alarm', max_jobs => 3); SELECT jobq.fail(job_id, token, retry => false) FROM jobq.dequeue('alarm', 3)});
	$settled->('3 5', 'fallen below, and reached again: another');
	sql(q{SELECT jobq.purge_queue('alarm', '{dead}')});
	$die->(3);
	$settled->('3 5 3', 'also after a purge');
	sql(q{SELECT jobq.alter_queue('alarm', alert_dead => 10)});
	$die->(2);
	sql(q{SELECT jobq.alter_queue('alarm', alert_dead => 4)});
	$settled->('3 5 3 5', 'a threshold that is set below what there is');
	like(slurp_file($node->logfile, $log), qr/WARNING:  queue "alarm" has 3 dead letters.*DETAIL:  The alarm \(alert_dead\) is set to 3/s, 'in the log, too');

	sql(q{SELECT jobq.alter_queue('alarm', alert_dead => 2, alert_dead_interval => '1 h')});
	$die->(1);
	is($alarms->(), '3 5 3 5', 'in an interval those before it do not count');
	$die->(1);
	$settled->('3 5 3 5 2', 'new ones within it do');
	$die->(5);
	sql(q{SELECT jobq.alter_queue('alarm', alert_dead => 2, alert_dead_interval => '2 s')});
	# one, and one that comes when it is forgotten, and two that come together
	$die->(1);
	Time::HiRes::sleep(2.5);
	$die->(1);
	Time::HiRes::sleep(2.5);
	$die->(2);
	$settled->('3 5 3 5 2 2', 'those before the interval are forgotten');
	like(slurp_file($node->logfile, $log), qr/WARNING:  queue "alarm": 2 jobs have died within 01:00:00/, 'in the log, too');

	sql(q{SELECT jobq.create_queue('onward', alert_dead => 1, alert_dead_interval => '1 h', dead_letter_queue => 'alarm', events => '{}')});
	my $o = listener('onward');
	sql(q{SELECT jobq.enqueue('onward', max_attempts => 1)});
	sql(q{SELECT jobq.fail(job_id, token) FROM jobq.dequeue('onward')});
	received($o, 1, 'a queue that sends its dead letters on has its alarm');
	is($o->{events}[0]{event}, 'dead_alarm', 'though it chose no events');
};

subtest 'after a restart' => sub {
	my $before = last_position();
	sql(q{SELECT jobq.alter_queue('alarm', alert_dead => 3, reset => '{alert_dead_interval}')});
	my $log = -s $node->logfile;
	$node->restart;
	is(sql("SELECT event, count FROM jobq.events($before) LIMIT 1"), 'lost|', 'a position of the time before is known as such');
	poll_until('the alarm is raised again', sub { return slurp_file($node->logfile, $log) =~ /WARNING:  queue "alarm" has \d+ dead letters/; });
	sql(q{SELECT jobq.enqueue('q', '1')});
	cmp_ok(last_position(), '>', $before, 'positions are higher');
	is(sql("SELECT string_agg(event, ' ' ORDER BY \"position\") FROM jobq.events($before, 'q')"), 'lost waiting', 'and go on after it');
	sql(q{SELECT jobq.purge_queue('q')});
};

subtest 'a small buffer' => sub {
	$node->append_conf('postgresql.conf', 'jobq.event_buffer = 64');
	$node->restart;
	sql(q{SELECT jobq.create_queue('rare', events => '{all}')});
	sql(q{SELECT jobq.enqueue('rare', '1')});
	my $start = last_position();
	my $rare = sql(q{SELECT max("position") FROM jobq.events(queue => 'rare')});
	sql(join ';', map { "SELECT jobq.enqueue('q', '$_')" } 1 .. 200);
	is(sql("SELECT event, count FROM jobq.events($start) LIMIT 1"), 'lost|136', 'who comes late is told how many he has missed');
	is(sql("SELECT count(*) FROM jobq.events($start)"), 65, 'and gets the rest');
	is(sql("SELECT string_agg(event, ' ') FROM jobq.events($rare, 'rare')"), '', 'a reader of another queue has missed nothing');
	is(sql(q{SELECT event FROM jobq.events(} . ($start - 1) . q{, 'rare')}), 'lost', 'unless it is one of its own');
	is(sql('SELECT string_agg(DISTINCT event, \',\') FROM jobq.events()'), 'waiting', 'who begins has missed nothing');
	is(sql(q{SELECT count(*) FROM jobq.enqueue_many('q', (SELECT jsonb_agg(n) FROM generate_series(1, 100) n))}), 100, 'many in one transaction');
	is(sql('SELECT event, max(count), count(*) FROM jobq.events((SELECT max("position") FROM jobq.events()) - 33) GROUP BY event ORDER BY 1'),
		"lost|68|1\nwaiting||32", 'half of the buffer, and how many are missing');

	# the scheduler does not get to send for a while
	my $l = listener('q', 'rare');
	sql(q{SELECT jobq.enqueue('q', name => 'marker')});
	poll_until('all is sent', sub { receive($l); return scalar grep { ($_->{name} // '') eq 'marker' } @{ $l->{events} }; });
	my $scheduler = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'});
	kill STOP => $scheduler;
	sql(join ';', map { "SELECT jobq.enqueue('q', '$_', name => 'missed')" } 1 .. 200);
	receive($l);
	my $n = @{ $l->{events} };
	kill CONT => $scheduler;
	received($l, $n + 65, 'it goes on');
	my @new = @{ $l->{events} }[ $n .. $#{ $l->{events} } ];
	is($new[0]{event}, 'lost', 'listeners are told, too');
	is(scalar(grep { $_->{queue} eq 'rare' } @new), 0, 'those of the queue that has lost events');
	sql(q{SELECT jobq.purge_queue('q')});
};

subtest 'rights' => sub {
	sql('CREATE ROLE nobody_special LOGIN; CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher');
	is((sqlstate_of($node, 'SET ROLE nobody_special; SELECT * FROM jobq.events()'))[0], '42501', 'not for everybody');
	is((sqlstate_of($node, 'SET ROLE watcher; SELECT * FROM jobq.events()'))[0], '00000', 'for those who may read the views');
	is((sqlstate_of($node, q{SET ROLE watcher; SELECT * FROM jobq.once('x')}))[0], '42501', 'who may read only');
};

subtest 'records of once() are collected' => sub {
	sql(q{SELECT jobq.once('short ' || n, '1 ms') FROM generate_series(1, 1200) n; SELECT jobq.once('long')});
	is(sql('SELECT count(*) FROM jobq.once_record'), 1201, 'they are there');
	# a start looks at once; otherwise it takes a minute
	$node->restart;
	poll_until('those that are over are gone', 'SELECT count(*) = 1 FROM jobq.once_record', node => $node);
	is(sql('SELECT string_agg(key, \',\') FROM jobq.once_record'), 'long', 'the other one stays');
	poll_until('and the scheduler leaves', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq scheduler'", node => $node);
};

verify_ok($node);
server_alive_ok($node);
$node->stop;
done_testing();
