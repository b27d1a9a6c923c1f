#!/usr/bin/perl
# The project's conventions, one check each. Usage: conventions.pl CHECK, from the top of the checkout.
# Prints file:line: message for each breach; exit status 1 when there is one. "conventions.pl list" names the checks.
use strict;
use warnings;

my $bad = 0;
my %checks = (
	'version-ifs' => \&version_ifs,
	'include-order' => \&include_order,
	'sizes' => \&sizes,
	'words' => \&words,
	'whitespace' => \&whitespace,
	'security-definer' => \&security_definer,
	'c-functions' => \&c_functions,
	'expected-files' => \&expected_files,
	'versions' => \&versions,
	'elog' => \&elog,
);

my $check = shift // 'list';
if ($check eq 'list')
{
	print "$_\n" for sort keys %checks;
	exit 0;
}
die "no check named $check\n" unless $checks{$check};
$checks{$check}->();
exit($bad ? 1 : 0);

sub breach
{
	print "$_[0]\n";
	$bad = 1;
}

sub slurp
{
	my ($file) = @_;
	open my $fh, '<', $file or die "$file: $!\n";
	local $/;
	return scalar(<$fh>) // '';
}

sub lines_of
{
	return split /\n/, slurp($_[0]), -1;
}

sub c_files
{
	return sort glob('src/*.c src/*.h');
}

# All text files of the project, whether under version control or not yet.
sub all_files
{
	my @files;
	my @dirs = ('.');
	while (my $dir = shift @dirs)
	{
		opendir my $dh, $dir or next;
		for my $name (sort readdir $dh)
		{
			next if $name =~ /^(\.|\.\.|\.git|\.flavour|results|tmp_check|output_iso|regression\.\w+|jobq--[\d.]+\.sql|__pycache__|node_modules)$/;
			my $path = $dir eq '.' ? $name : "$dir/$name";
			if (-l $path) { next }
			elsif (-d $path) { push @dirs, $path }
			elsif ($path !~ /\.(o|bc|so|png|pyc|gz)$/ && -T $path) { push @files, $path }
		}
	}
	return @files;
}

# Differences between server versions stand in one header.
sub version_ifs
{
	for my $file (c_files())
	{
		next if $file eq 'src/compat.h';
		my $n = 0;
		for (lines_of($file))
		{
			$n++;
			breach("$file:$n: PG_VERSION_NUM belongs into src/compat.h") if /PG_VERSION_NUM/;
		}
	}
}

# Modules include downwards only, in the order that the banner of src/jobq.h gives: "a b < c" means that c may include
# a and b, and that a and b may not include each other. jobq.h is everybody's; jobq.c wires all and may include all.
# A .c file without a header of its own is a part of the highest module that it includes, unless it has a name in the order.
sub include_order
{
	my ($banner) = slurp('src/jobq.h') =~ m{in this order:(.*?)\n \*-}s
	  or die "src/jobq.h: no order of the modules in its banner\n";
	$banner =~ s/\n \*/ /g;
	my (%level, $n);
	for my $part (split /</, $banner)
	{
		$n++;
		$level{$_} = $n for split ' ', $part;
	}
	for my $file (c_files())
	{
		my ($module, $kind) = $file =~ m{src/(.*)\.([ch])$};
		next if !$level{$module} && !-e "src/$module.h";
		breach("$file:1: module $module is not in the order of src/jobq.h's banner") unless $level{$module};
		next if $file eq 'src/jobq.c' || !$level{$module};
		my $line = 0;
		for (lines_of($file))
		{
			$line++;
			next unless /^\s*#\s*include\s+"([^"]+)\.h"/;
			my $other = $1;
			next if !-e "src/$other.h" || $other eq 'jobq' || $other eq $module;
			next unless $level{$other};
			breach("$file:$line: $module includes $other, which is not below it") if $level{$other} >= $level{$module};
		}
	}
}

# Files of at most 700 lines, functions of at most 100. Longer than 80 is worth a second look.
sub sizes
{
	for my $file (c_files())
	{
		my @lines = lines_of($file);
		breach("$file: " . $#lines . " lines (at most 700)") if $#lines > 700;
		my ($start, $name) = (0, '');
		for my $i (0 .. $#lines)
		{
			$name = $1 if $lines[$i] =~ /^(\w+)\(/;
			if ($lines[$i] eq '{')
			{
				$start = $i;
			}
			elsif ($lines[$i] =~ /^\}/)
			{
				my $length = $i - $start + 1;
				if ($start && $lines[$i] eq '}')
				{
					if ($length > 100) { breach("$file:$start: $name() has $length lines (at most 100)") }
					elsif ($length > 80) { print "note: $file:$start: $name() has $length lines\n" }
				}
				$start = 0;
			}
		}
	}
}

# Words for unfinished work. Spelled in halves, for this file is searched too.
sub words
{
	my $words = join '|', map { join '', @$_ } ['TO', 'DO'], ['FIX', 'ME'], ['X', 'XX'], ['HA', 'CK:'];
	for my $file (all_files())
	{
		my $n = 0;
		for (lines_of($file))
		{
			$n++;
			breach("$file:$n: unfinished work: $1") if /\b($words)(?!\w)/;
		}
	}
}

sub whitespace
{
	for my $file (all_files())
	{
		next if $file =~ m{(^|/)expected/|\.patch$|\.diff$};    # those show what programs print
		my $text = slurp($file);
		breach("$file: no newline at the end") if $text ne '' && $text !~ /\n\z/;
		breach("$file: empty line at the end") if $text =~ /\n\n\z/;
		breach("$file: carriage return") if $text =~ /\r/;
		my $n = 0;
		for (split /\n/, $text)
		{
			$n++;
			breach("$file:$n: space at the end of the line") if /[ \t]$/ && $file !~ /\.md$/;
			breach("$file:$n: indented with spaces") if /^ {4}/ && $file =~ m{^(src/.*\.[ch]|sql/ext/.*\.sql)$};
		}
	}
}

# A function with its definer's rights says which search_path it runs with.
sub security_definer
{
	for my $file (sort glob('sql/ext/*.sql sql/ext/upgrade/*.sql'))
	{
		my $text = slurp($file);
		my $at = 0;
		$text =~ s/--[^\n]*//g;
		while ($text =~ /CREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|PROCEDURE)\s+([\w.]+)(.*?);\s*(?=\n|\z)/gsi)
		{
			my ($name, $rest) = ($1, $2);
			# The attributes may stand before or after the body; take both.
			my $tail = substr($text, pos($text), 4000);
			if (($rest =~ tr/$//) % 4 && $tail =~ /^(.*?\$\w*\$[^;]*);/s) { $rest .= $1 }
			next unless $rest =~ /SECURITY\s+DEFINER/i;
			breach("$file: $name is SECURITY DEFINER without SET search_path") unless $rest =~ /SET\s+search_path/i;
		}
	}
}

# Every C function that the extension's script names is there, and the other way round.
sub c_functions
{
	my (%sql, %c);
	for my $file (sort glob('sql/ext/*.sql sql/ext/upgrade/*.sql'))
	{
		my $text = slurp($file);
		$sql{$1} = $file while $text =~ /'MODULE_PATHNAME'\s*,\s*'(\w+)'/g;
	}
	for my $file (c_files())
	{
		my $text = slurp($file);
		$c{$1} = $file while $text =~ /^PG_FUNCTION_INFO_V1\((\w+)\)/gm;
	}
	for (sort keys %sql) { breach("$sql{$_}: $_ is in no C file") unless $c{$_} }
	for (sort keys %c) { breach("$c{$_}: $_ is in no SQL file") unless $sql{$_} }
}

# Every input has its expected output, and every output its input.
sub expected_files
{
	for (['sql', 'sql', 'expected'], ['test/specs', 'spec', 'test/specs/expected'])
	{
		my ($dir, $ext, $expected) = @$_;
		for my $in (sort glob("$dir/*.$ext"))
		{
			my ($name) = $in =~ m{([^/]+)\.$ext$};
			breach("$in: no $expected/$name.out") unless -e "$expected/$name.out";
		}
		for my $out (sort glob("$expected/*.out"))
		{
			my ($name) = $out =~ m{([^/]+)\.out$};
			(my $base = $name) =~ s/_\d$//;
			breach("$out: no $dir/$name.$ext") unless -e "$dir/$name.$ext" || -e "$dir/$base.$ext";
		}
	}
}

# One version, wherever it is written.
sub versions
{
	my ($version) = slurp('jobq.control') =~ /^default_version\s*=\s*'([^']+)'/m or die "jobq.control: no default_version\n";
	my %others = (
		'Makefile' => qr/^EXTVERSION\s*=\s*(\S+)/m,
		'src/jobq.h' => qr/JOBQ_VERSION\s+"([^"]+)"/,
		'META.json' => qr/"version"\s*:\s*"([^"]+)"/,
	);
	for my $file (sort keys %others)
	{
		my ($other) = slurp($file) =~ $others{$file};
		$other //= 'none';
		breach("$file: version $other, but jobq.control says $version") if $other ne $version;
	}
	require JSON::PP;
	eval { JSON::PP::decode_json(slurp('META.json')); 1 } or breach("META.json: $@");
}

# elog(ERROR) is for what cannot happen: shown as a number, to be looked at when it grows.
sub elog
{
	my $n = 0;
	for my $file (c_files())
	{
		$n += () = slurp($file) =~ /\belog\(\s*(?:ERROR|FATAL|PANIC)/g;
	}
	print "note: $n elog(ERROR) in src\n";
}
