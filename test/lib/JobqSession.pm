# A psql that stays connected, for tests that need several sessions at a time. One interface for every server version.
package JobqSession;

use strict;
use warnings;

use IPC::Run ();
use Time::HiRes ();
use PostgreSQL::Test::Utils ();

# A session in a database of a node.
#
#	my $s = JobqSession->new($node, db => 'postgres', user => 'bob', host => '/socket', port => 6432);
#	my $rows = $s->query('SELECT 1');    waits for the answer; dies on an error, or when the limit passes
#	my $state = $s->state('SELECT 1');   waits, and returns the SQLSTATE of the error, 00000 without one
#	$s->send('SELECT pg_sleep(1)');      does not wait; several may be sent
#	my $rows = $s->result;               waits for all that was sent
#	$s->errors                           what psql wrote to stderr since the last call
sub new
{
	my ($class, $node, %opt) = @_;
	my $self = bless { in => '', out => '', err => '', errors => '', sent => 0 }, $class;
	my $host = $opt{host} // $node->host;
	my $port = $opt{port} // $node->port;
	my $user = $opt{user} // '';
	my $con = "host=$host port=$port dbname=" . ($opt{db} // 'postgres') . ($user ne '' ? " user=$user" : '');
	my $bin = $node->installed_command('psql');

	$self->{psql} = IPC::Run::start([ $bin, '-XAtq', '-d', $con, '-f', '-', '-v', 'VERBOSITY=verbose' ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
	$self->{pid} = $self->query('SELECT pg_backend_pid()') unless $opt{lazy};
	return $self;
}

# Pid of the server process.
sub pid { return $_[0]{pid}; }

# Sends statements; psql runs one after the other.
sub send
{
	my ($self, $sql) = @_;
	$self->{sent}++;
	$self->{in} .= "$sql\n;\n\\echo done-$self->{sent}\n\\warn done-$self->{sent}\n";
	$self->{psql}->pump_nb;
	return;
}

# Whether all that was sent has been answered, or the session is gone. Never waits.
sub finished
{
	my ($self) = @_;
	return 1 if $self->{gone};
	eval { $self->{psql}->pump_nb; 1 } or $self->{gone} = 1;
	$self->{gone} = 1 unless $self->{gone} || $self->{psql}->pumpable;
	return 1 if $self->{gone};
	return $self->{out} =~ /^done-$self->{sent}$/m && $self->{err} =~ /^done-$self->{sent}$/m;
}

# Waits for the answers to all that was sent and returns them. Undef when the session is gone; dies when the limit passes.
sub result
{
	my ($self, %opt) = @_;
	my $end = Time::HiRes::time() + ($opt{limit} // $PostgreSQL::Test::Utils::timeout_default // 60);
	until ($self->finished)
	{
		die "no answer from psql: $self->{out} $self->{err}" if Time::HiRes::time() > $end;
		Time::HiRes::sleep(0.002);
	}
	my ($out, $err) = ($self->{out}, $self->{err});
	$self->{out} = $self->{err} = '';
	s/^done-\d+\n?//mg for $out, $err;
	$self->{errors} .= $err;
	return undef if $self->{gone};
	chomp $out;
	return $out;
}

sub query
{
	my ($self, $sql, %opt) = @_;
	$self->send($sql);
	my $out = $self->result(%opt);
	die "the session ended: $self->{errors}" unless defined $out;
	die $self->errors if $self->{errors} =~ /(?:ERROR|FATAL):/;
	return $out;
}

sub state
{
	my ($self, $sql, %opt) = @_;
	$self->errors;
	$self->send($sql);
	$self->result(%opt);
	return $self->sqlstate;
}

sub errors
{
	my ($self) = @_;
	my $errors = $self->{errors};
	$self->{errors} = '';
	return $errors;
}

# SQLSTATE of the first error since errors() was last called; '00000' when there was none.
sub sqlstate
{
	my ($self) = @_;
	my $errors = $self->errors;
	return '00000' if $errors !~ /(?:ERROR|FATAL):/;
	return $errors =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5}):/ ? $1 : "none: $errors";
}

# Ends the session, also in the middle of a statement. Its server process may live on for a while.
sub close
{
	my ($self) = @_;
	return if $self->{closed};
	unless ($self->finished)
	{
		eval { $self->{psql}->kill_kill; };
		$self->{closed} = 1;
		return;
	}
	$self->{closed} = 1;
	$self->{in} .= "\\q\n";
	eval { $self->{psql}->finish; };
	return;
}

sub DESTROY
{
	my ($self) = @_;
	return if $self->{closed};
	local ($?, $@);
	eval { $self->{psql}->kill_kill; };
	return;
}

1;
