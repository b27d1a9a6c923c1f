# A crash of the server, or of one of its processes, loses no job, doubles none, and repeats no id and no token.
use strict;
use warnings;

use Jobq;
use JobqSession;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

# The walwriter is kept away, so that a commit that does not wait for the disk is lost by a crash.
my $node = jobq_node('main',
	conf => "restart_after_crash = on\nwal_writer_delay = 10s\nbgwriter_delay = 10s\njobq.rescan_interval = 1s\n");

my $highest_token = 0;
my $highest_id = 0;

sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

sub sql { return $node->safe_psql('postgres', shift); }

# Rows of "job_id|token" out of a dequeue; every token must be greater than all before it.
sub dequeue_tokens
{
	my ($what, $query) = @_;
	my @jobs = map { [ split /\|/ ] } split /\n/, sql($query);
	my @low = grep { $_->[1] <= $highest_token } @jobs;
	is(scalar @low, 0, "$what: tokens are greater than all before the crash");
	return @jobs;
}

# The queues view tells what the tables hold. A lease may end between the two looks, so look again.
sub counts_ok
{
	my ($what) = @_;
	ok( poll_until("$what: counters", q{
			SELECT bool_and(q.exact AND (q.ready, q.delayed, q.pending, q.active, q.dead) = (
				SELECT count(*) FILTER (WHERE j.state = 'ready'), count(*) FILTER (WHERE j.state = 'delayed'), count(*) FILTER (WHERE j.state = 'pending'),
					count(*) FILTER (WHERE j.state = 'active'), count(*) FILTER (WHERE j.state = 'dead')
				FROM jobq.jobs j WHERE j.queue = q.queue))
			FROM jobq.queues q}, node => $node, limit => 30),
		"$what: the counters are exact, and those of the tables");
	return;
}

# Jobs in every state; nothing here changes by itself within the hour.
sql(q{SELECT jobq.create_queue('still', lease => '1 hour', backoff => 'fixed', backoff_base => '1 hour')});
sql(q{SELECT count(*) FROM jobq.enqueue_many('still', (SELECT jsonb_agg(n) FROM generate_series(1, 300) n))});
sql(q{SELECT count(*) FROM jobq.enqueue_many('still', (SELECT jsonb_agg(n) FROM generate_series(1, 50) n), delay => '1 hour', priority => 7)});
sql(q{
	CREATE TABLE hand (job_id bigint, token bigint, n int);
	INSERT INTO hand SELECT job_id, token, row_number() OVER () FROM jobq.dequeue('still', 150, worker => 'w');
	SELECT count(*) FROM (SELECT jobq.complete(job_id, token, '{"r": 1}') FROM hand WHERE n BETWEEN 1 AND 30) x;
	SELECT count(*) FROM (SELECT jobq.fail(job_id, token, 'broken') FROM hand WHERE n BETWEEN 31 AND 60) x;
	SELECT count(*) FROM (SELECT jobq.fail(job_id, token, 'hopeless', retry => false) FROM hand WHERE n BETWEEN 61 AND 80) x;
	SELECT count(*) FROM (SELECT jobq.release(job_id, token) FROM hand WHERE n BETWEEN 81 AND 90) x;
	SELECT jobq.progress(job_id, token, '"half"') FROM hand WHERE n = 100;
	SELECT jobq.cancel(job_id) FROM hand WHERE n = 101;
	SELECT jobq.cancel(job_id) FROM jobq.jobs WHERE queue = 'still' AND state = 'ready' ORDER BY job_id DESC LIMIT 5;
	SELECT count(*) FROM jobq.enqueue_many('still', '[1, 2, 3]', after => ARRAY(SELECT job_id FROM hand WHERE n > 90))});
# And jobs whose leases end soon.
sql(q{SELECT jobq.create_queue('short', backoff => 'fixed', backoff_base => '0 s')});
sql(q{SELECT count(*) FROM jobq.enqueue_many('short', '[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]')});
sql(q{INSERT INTO hand SELECT job_id, token, 1000 FROM jobq.dequeue('short', 10, lease => '1500 ms')});

my $picture = q{
	SELECT job_id, queue, state, name, priority, attempt, max_attempts, run_at, lease_until, worker, progress, last_error, created, started,
		finished, payload, result, unique_key, expires, (SELECT string_agg(on_job || ' ' || d.state, ', ' ORDER BY on_job) FROM jobq.dependencies d WHERE d.job_id = j.job_id)
	FROM jobq.jobs j WHERE queue = 'still' ORDER BY job_id};
my $before = sql($picture);
$highest_token = sql('SELECT max(token) FROM hand');
$highest_id = sql('SELECT max(job_id) FROM jobq.jobs');
is( sql(q{SELECT string_agg(state || '=' || n, ' ' ORDER BY state) FROM (SELECT state, count(*) n FROM jobq.jobs WHERE queue = 'still' GROUP BY state) s}),
	'active=60 cancelled=5 completed=30 dead=20 delayed=80 pending=3 ready=155', 'jobs in every state');
counts_ok('before');
verify_ok($node, 'verify before the crash');

crash();
is(sql($picture), $before, 'every job is as it was before the crash');
counts_ok('after the crash');
verify_ok($node, 'verify after the crash');

# What was active goes on under its old token, and nobody else has it.
is(sql('SELECT jobq.complete(job_id, token) FROM hand WHERE n = 91'), 't', 'a lease outlives the crash: complete');
is(sql('SELECT jobq.extend(job_id, token) FROM hand WHERE n = 92'), 'ok', 'extend');
is(sql('SELECT jobq.extend(job_id, token) FROM hand WHERE n = 101'), 'cancel', 'and a wish to cancel');
is((sqlstate_of($node, 'SELECT jobq.complete(job_id, token) FROM hand WHERE n = 50'))[0], 'JQ001', 'a token that was over stays over');
is(sql('SELECT jobq.complete(job_id, token) FROM hand WHERE n = 5'), 'f', 'a completion is known after the crash, out of the history');

my $new_id = sql(q{SELECT jobq.enqueue('still')});
cmp_ok($new_id, '>', $highest_id, 'ids are greater than all before the crash');
my @all = dequeue_tokens('still', q{SELECT job_id, token FROM jobq.dequeue('still', 1000)});
is(scalar @all, 156, 'all that was ready can be taken, nothing else');
$highest_token = max(map { $_->[1] } @all);
is($all[-1][0], $new_id, 'the newest last');

# Leases that ended: their jobs come back, with the next attempt.
poll_until('short leases come back', q{SELECT count(*) = 10 FROM jobq.jobs WHERE queue = 'short' AND state = 'ready' AND attempt = 1},
	node => $node);
my @back = dequeue_tokens('short', q{SELECT job_id, token, attempt FROM jobq.dequeue('short', 100)});
is(join(' ', map { $_->[2] } @back), join(' ', (2) x 10), 'expired leases counted one attempt');
$highest_token = max(map { $_->[1] } @back);
is((sqlstate_of($node, 'SELECT jobq.complete(job_id, token) FROM hand WHERE n = 1000 LIMIT 1'))[0], 'JQ001', 'their old tokens are over');

# A dequeue that nobody waited for may be lost by a crash: that gives the job back, and its token does not come again.
sql(q{SELECT jobq.create_queue('async', lease => '1 hour')});
my $lost = 0;
for my $round (1 .. 3)
{
	my $id = sql(q{SELECT jobq.enqueue('async')});
	my ($got, $token) = split /\|/, sql(q{SELECT job_id, token FROM jobq.dequeue('async')});
	cmp_ok($token, '>', $highest_token, "round $round: the token is new");
	$highest_token = $token;
	crash();
	my $state = sql("SELECT state || attempt FROM jobq.job($got)");
	like($state, qr/^(active1|ready0)$/, "round $round: the job is given back, uncounted, or still leased");
	if ($state eq 'ready0')
	{
		$lost++;
		is((sqlstate_of($node, "SELECT jobq.complete($got, $token)"))[0], 'JQ001', "round $round: the lost lease's token is worth nothing");
		($got, $token) = split /\|/, sql(q{SELECT job_id, token FROM jobq.dequeue('async')});
		cmp_ok($token, '>', $highest_token, "round $round: the token after the crash is greater than the one that was lost");
		$highest_token = $token;
	}
	is(sql("SELECT jobq.complete($got, $token)"), 't', "round $round: completed");
	crash();
	is(sql("SELECT state FROM jobq.job($got)"), 'completed', "round $round: a completion is never lost");
}
cmp_ok($lost, '>', 0, 'the case happened: a dequeue was lost');

# Not where it would take something else along.
sql(q{CREATE TABLE mine (job_id bigint, token bigint)});
sql(q{SELECT jobq.enqueue('async') FROM generate_series(1, 4)});
sql(q{SET jobq.async_dequeue = off; SELECT count(*) FROM jobq.dequeue('async')});
sql(q{WITH j AS (SELECT job_id, token FROM jobq.dequeue('async')) INSERT INTO mine SELECT job_id, token FROM j});
sql(q{BEGIN; SELECT count(*) FROM jobq.dequeue('async'); INSERT INTO mine VALUES (0, 0); COMMIT});
sql(q{BEGIN; INSERT INTO mine VALUES (1, 0); SELECT count(*) FROM jobq.dequeue('async'); COMMIT});
crash();
is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'async' AND state = 'active'}), '4', 'durable when asked for, or when the transaction wrote something else');
is(sql('SELECT count(*) FROM mine'), '3', 'with what it wrote');
$highest_token = sql('SELECT max(token) FROM jobq.lease');

# Processes killed in the middle of a transaction: the server restarts, and the transaction did not happen.
sub kill_backend
{
	my ($session) = @_;
	my $restarts = sub { my $n = () = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/g; return $n; };
	my $before = $restarts->();
	kill 'KILL', $session->pid or die "kill: $!";
	poll_until('the server restarts', sub { $restarts->() > $before });
	poll_until('the server is back', 'SELECT true', node => $node);
	$session->close;
	return;
}
my $kills = 0;
sql(q{SELECT jobq.create_queue('kill', lease => '1 hour')});
my ($first, $second) = split /\n/, sql(q{SELECT jobq.enqueue('kill') FROM generate_series(1, 2)});

my $s = JobqSession->new($node);
$s->query('BEGIN');
my ($id, $token) = split /\|/, $s->query(q{SELECT job_id, token FROM jobq.dequeue('kill')});
is($id, $first, 'taken in a transaction');
kill_backend($s);
$kills++;
is(sql("SELECT state || attempt FROM jobq.job($first)"), 'ready0', 'killed in a dequeue: the job is ready, uncounted');
my ($again, $next_token) = split /\|/, sql(q{SET jobq.async_dequeue = off; SELECT job_id, token FROM jobq.dequeue('kill')});
is($again, $first, 'and is the next one taken');
cmp_ok($next_token, '>', $token, 'under a greater token');
counts_ok('after a killed dequeue');

$s = JobqSession->new($node);
$s->query('BEGIN');
is($s->query("SELECT jobq.complete($first, $next_token)"), 't', 'completed in a transaction');
kill_backend($s);
$kills++;
is(sql("SELECT state FROM jobq.job($first)"), 'active', 'killed in a complete: the job is still active');

$s = JobqSession->new($node);
$s->query('BEGIN');
is($s->query("SELECT job_id FROM jobq.complete_and_dequeue($first, $next_token, 'kill')"), $second, 'complete and dequeue in a transaction');
kill_backend($s);
$kills++;
is(sql("SELECT jobq.complete($first, $next_token)"), 't', 'killed in complete_and_dequeue: the token is still good');
is(sql(q{SELECT job_id FROM jobq.dequeue('kill')}), $second, 'and the other job was not taken');
counts_ok('after killed processes');
verify_ok($node, 'verify after killed processes');
$highest_token = sql('SELECT max(token) FROM jobq.lease');

# Load, and crashes in the middle of it. What was acknowledged is true after each.
sql(q{SELECT jobq.create_queue('load', lease => '1 s', max_attempts => 1000, backoff => 'fixed', backoff_base => '0 s')});
my %enqueued;
my %completed;
my %tokens;
my $dir = PostgreSQL::Test::Utils::tempdir();
# The variables are emptied before each call: psql keeps what stood there when the connection dies, and that is no answer.
append_to_file("$dir/produce", "\\set id\nSELECT jobq.enqueue('load', '{}', priority => " . (1000 + $_ % 3) . ") AS id \\gset\n\\echo e :id\n") for 1 .. 3000;
append_to_file("$dir/consume", <<'SQL') for 1 .. 3000;
SELECT job_id, token FROM jobq.dequeue('load') \gset
\echo d :job_id :token
\set ok
SELECT jobq.complete(:job_id, :token) AS ok \gset
\echo c :job_id :token :ok
SQL

sub load_until_crash
{
	my ($round) = @_;
	my @workers;
	for my $script ('produce', 'produce', 'consume', 'consume')
	{
		my %w = (out => '', err => '', script => $script);
		$w{run} = IPC::Run::start([ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr('postgres'), '-f', "$dir/$script" ],
			'<', \undef, '>', \$w{out}, '2>', \$w{err});
		push @workers, \%w;
	}
	poll_until("round $round: work is being done", sub {
		$_->{run}->pump_nb for grep { $_->{run}->pumpable } @workers;
		my $out = join '', map { $_->{out} } @workers;
		my $n = () = $out =~ /^c /mg;
		return $n > 200;
	});
	crash();
	eval { $_->{run}->finish } for @workers;
	my ($lowest_token, $new_highest, @doubled) = (undef, $highest_token);
	my %new_ids;
	for my $w (@workers)
	{
		# A job id may be told again when there was none to take: psql keeps the variables.
		my $last = '';
		for (split /\n/, $w->{out})
		{
			if (/^e (\d+)$/)
			{
				push @doubled, "id $1" if $enqueued{$1}++ || $1 <= $highest_id;
				$new_ids{$1} = 1;
			}
			elsif (/^d (\d+) (\d+)$/ && $last ne $_)
			{
				$last = $_;
				push @doubled, "token $2" if $tokens{$2}++ || $2 <= $highest_token;
				$new_highest = max($new_highest, $2);
			}
			elsif (/^c (\d+) (\d+) t$/)
			{
				push @doubled, "completion of $1" if $completed{$1}++;
			}
		}
	}
	$highest_token = $new_highest;
	$highest_id = max($highest_id, keys %new_ids);
	is("@doubled", '', "round $round: ids and tokens never repeat, no job is completed twice");
	return;
}

$highest_id = sql('SELECT max(job_id) FROM jobq.jobs');
for my $round (1 .. 4)
{
	load_until_crash($round);
	my %state = map { split /\|/ } split /\n/, sql(q{SELECT job_id, state FROM jobq.jobs WHERE queue = 'load'});
	my @missing = grep { !exists $state{$_} } keys %enqueued;
	is("@missing", '', "round $round: no acknowledged enqueue is lost");
	my @undone = grep { $state{$_} ne 'completed' } keys %completed;
	is("@undone", '', "round $round: no acknowledged completion is undone");
	counts_ok("round $round");
	verify_ok($node, "round $round: verify");
}
cmp_ok(scalar keys %completed, '>', 400, 'there was work');

# The rest is there, and no more than that.
poll_until('leases of the last crash come back', q{SELECT count(*) = 0 FROM jobq.jobs WHERE queue = 'load' AND state = 'active'}, node => $node);
my $left = sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'load' AND state <> 'completed'});
is(sql(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) ok FROM jobq.dequeue('load', 10000)) x WHERE ok}), $left, 'all the rest is done');
is(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'load' AND state <> 'completed'}), '0', 'nothing is left');
counts_ok('at the end');
verify_ok($node, 'verify at the end');

my $log = slurp_file($node->logfile);
my @died = $log =~ /(was terminated by signal[^\n]*|TRAP:[^\n]*|PANIC:[^\n]*)/g;
is(scalar(grep { !/signal 9/ } @died), 0, 'nothing died but what was killed') or diag("@died");
is(scalar @died, $kills, 'and of that, each once');
$node->stop;
done_testing();
