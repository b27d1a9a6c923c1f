# The server's clock is set back by an hour: nothing sleeps for an hour, and no lease becomes eternal.
use strict;
use warnings;

use Jobq;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $node = jobq_node('clock', debug => 1, conf => "jobq.scheduler_idle_timeout = 60\n");

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub set_clock
{
	my ($ahead) = @_;
	sql("ALTER SYSTEM SET jobq.debug_clock = '$ahead'");
	$node->reload;
	ok(poll_until('the setting is seen', "SELECT current_setting('jobq.debug_clock') = '$ahead'", node => $node, limit => 10),
		"the clock is $ahead ahead");
}

set_clock('1h');
sql(q{SELECT jobq.create_queue('q', lease => '2 s', max_attempts => 9)});
# a scheduler that knows times to come, and a lease reckoned by the old clock
sql(q{SELECT jobq.enqueue('q', delay => '30 s')});
sql(q{SELECT jobq.enqueue('q', '"held"')});
my ($held, $token) = split /\|/, sql(q{SELECT job_id, token FROM jobq.dequeue('q')});

# somebody waits across the step
my $begin = Time::HiRes::time();
my $waiter = $node->background_psql('postgres');
$waiter->query_until(qr/begun/, "\\echo begun\nSELECT 'took ' || count(*) FROM jobq.dequeue('q', wait => '3 s');\n\\echo over\n");
set_clock('0');

my $id = sql(q{SELECT jobq.enqueue('q', delay => '200 ms')});
ok(poll_until('a delayed job of the new time', "SELECT state <> 'delayed' FROM jobq.jobs WHERE job_id = $id", node => $node, limit => 20),
	'a job delayed by the new clock becomes due');
$waiter->query_until(qr/over/, "\\echo over\n");
cmp_ok(Time::HiRes::time() - $begin, '<', 60, 'a wait does not last an hour longer');
$waiter->quit;

my $job = sql(q{SELECT jobq.enqueue('q', '"short"', priority => 1)});
sql(q{SELECT count(*) FROM jobq.dequeue('q', lease => '300 ms')});
ok(poll_until('a lease of the new time ends', "SELECT state <> 'active' FROM jobq.jobs WHERE job_id = $job", node => $node, limit => 20),
	'a lease taken by the new clock ends');

is(sql(qq{SELECT lease_until < clock_timestamp() + interval '1 h 3 s' FROM jobq.jobs WHERE job_id = $held}), 't',
	'a lease from before ends after the hour at the latest');
is(sql("SELECT jobq.complete($held, $token)"), 't', 'and its holder can complete the job');

set_clock('2h');
ok(poll_until('what was due', q{SELECT count(*) = 0 FROM jobq.jobs WHERE state IN ('delayed', 'active')}, node => $node, limit => 20),
	'set forward: what is due by then is due at once');
verify_ok($node);
done_testing();
