# Every function of schema jobq as a call, out of the catalog: a new one is tested without being named.
package JobqVerbs;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(jobq_calls);

# An argument of each type. The queue, the jobs and the tokens need not exist: what these calls are for is refused before.
my %value = (
	'text' => "'q'",
	'text[]' => "'{ready}'",
	'jsonb' => "'[1]'",
	'integer' => '1',
	'bigint' => '1',
	'bigint[]' => "'{1}'",
	'boolean' => 'true',
	'interval' => "'1 s'",
	'timestamp with time zone' => "'2100-01-01'");

# List of [ name, statement ], sorted by name, with the arguments that have no default. Trigger functions are left out.
sub jobq_calls
{
	my ($node, $db) = @_;
	my $rows = $node->safe_psql($db // 'postgres', q{
		SELECT p.proname, p.prokind, p.pronargs - p.pronargdefaults,
			(SELECT string_agg(format_type(t, NULL), ',' ORDER BY n) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a (t, n))
		FROM pg_proc p
		WHERE p.pronamespace = 'jobq'::regnamespace AND p.prorettype <> 'trigger'::regtype
		ORDER BY p.proname});
	my @calls;
	for (split /\n/, $rows)
	{
		my ($name, $kind, $required, $types) = split /\|/;
		my @types = split /,/, $types // '';
		my @args = map { $value{$_} // die "no value of type $_, for $name" } @types[ 0 .. $required - 1 ];
		$args[0] = "'\@daily'" if $name eq 'schedule_next'; # which needs nothing else
		push @calls, [ $name, ($kind eq 'p' ? 'CALL' : 'SELECT') . " jobq.$name(" . join(', ', @args) . ')' ];
	}
	return @calls;
}

1;
