# Helpers for the TAP tests: servers with jobq preloaded.
package Jobq;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

our @EXPORT = qw(jobq_node poll_until verify_ok server_alive_ok sqlstate_of);

# A running server with jobq preloaded and created in database postgres.
#
#	my $node = jobq_node('main', conf => "jobq.enabled = on\n");
#
#	conf       more lines for postgresql.conf
#	preload    value of shared_preload_libraries (default jobq; '' for none)
#	extension  0: do not create the extension
#	debug      1: the server built with debug points
#	init       array: arguments of init(), as allows_streaming => 1
#	start      0: only initialise
sub jobq_node
{
	my ($name, %opt) = @_;
	my %new;
	if ($opt{debug})
	{
		die "JOBQ_DEBUG_PREFIX is not set: run this test through test/check-all.sh" unless $ENV{JOBQ_DEBUG_PREFIX};
		$new{install_path} = $ENV{JOBQ_DEBUG_PREFIX};
	}
	my $node = PostgreSQL::Test::Cluster->new($name, %new);
	my $preload = $opt{preload} // 'jobq';
	$node->init(@{ $opt{init} // [] });
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$preload'\nmax_prepared_transactions = 10\n" . ($opt{conf} // ''));
	return $node unless $opt{start} // 1;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION jobq') if $preload ne '' && ($opt{extension} // 1);
	return $node;
}

# Runs $test until it is true, at most $limit seconds (default PG_TEST_TIMEOUT_DEFAULT, else 60). $test is code, or a
# query on $node that answers t. Fails the test called $what when the time is up; true when it came true.
sub poll_until
{
	my ($what, $test, %opt) = @_;
	my $limit = $opt{limit} // $PostgreSQL::Test::Utils::timeout_default // 60;
	my $end = Time::HiRes::time() + $limit;
	my $last;
	unless (ref $test)
	{
		my ($node, $db, $query) = ($opt{node}, $opt{db} // 'postgres', $test);
		$test = sub { (undef, $last) = $node->psql($db, $query); return defined $last && $last eq 't'; };
	}
	do
	{
		return 1 if $test->();
		Time::HiRes::sleep(0.02);
	} while (Time::HiRes::time() < $end);
	fail("$what: not within $limit s");
	diag("last answer: $last") if defined $last;
	return 0;
}

# No invariant is violated.
sub verify_ok
{
	my ($node, $name, $db) = @_;
	my $rows = $node->safe_psql($db // 'postgres', 'SELECT * FROM jobq.verify()');
	my $ok = is($rows, '', $name // 'jobq.verify() finds nothing');
	diag($rows) unless $ok;
	return $ok;
}

# The server's log shows no crash since it was last emptied.
sub server_alive_ok
{
	my ($node, $name) = @_;
	my $log = slurp_file($node->logfile);
	my @bad = grep { /was terminated by signal|TRAP:|PANIC:/ } split /\n/, $log;
	return is(join("\n", @bad), '', $name // 'no process of the server crashed');
}

# The SQLSTATE and the whole message that a statement raises; ('00000', '') when it raises none.
sub sqlstate_of
{
	my ($node, $sql, $db) = @_;
	my ($rc, $out, $err) = $node->psql($db // 'postgres', "\\set VERBOSITY verbose\n$sql", on_error_stop => 1);
	return ('00000', '') if $rc == 0;
	my ($state) = $err =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5}):/;
	return ($state // 'none', $err);
}

1;
