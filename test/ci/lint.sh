#!/bin/bash
# Format, static analysis and conventions. The last line is "N passed, N failed".
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

passed=0
failed=0

# check NAME COMMAND...: the command's output is its list of breaches.
check()
{
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then
		passed=$((passed + 1))
		echo "ok - $name"
		grep '^note: ' <<<"$out"
	else
		failed=$((failed + 1))
		echo "not ok - $name"
		head -60 <<<"$out"
	fi
}

# Shows the first lines that clang-format would change.
format()
{
	local f rc=0
	for f in src/*.[ch] test/bench/*.c; do
		[ -e "$f" ] || continue
		diff -u --label "$f" --label "$f, formatted" "$f" <(clang-format-14 "$f") >/tmp/jobq-format.$$ || { rc=1; head -20 /tmp/jobq-format.$$; }
	done
	rm -f /tmp/jobq-format.$$
	[ $rc = 0 ] || echo 'to format: make format'
	return $rc
}

analyse()
{
	cppcheck --quiet --std=c99 --enable=warning,portability --inline-suppr --error-exitcode=1 \
		--suppress=missingInclude --suppress=internalAstError \
		--template='{file}:{line}: {severity}: {message} [{id}]' \
		--include=test/ci/cppcheck.h -Isrc "$@" src
}

shell_syntax()
{
	local f rc=0
	while read -r f; do
		bash -n "$f" || rc=1
	done < <(find . -name .git -prune -o -name '*.sh' -print; ls .ci/run)
	return $rc
}

python_syntax()
{
	local f rc=0
	while read -r f; do
		/usr/bin/python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$f" || rc=1
	done < <(find . -name .git -prune -o -name '*.py' -print)
	return $rc
}

perl_syntax()
{
	local f rc=0
	while read -r f; do
		# Tests need modules of the server's build; only whole programs are compiled here.
		perl -c "$f" 2>&1 | grep -v 'syntax OK$' && rc=1
	done < <(find test/ci -name '*.pl')
	return $rc
}

check 'C format (clang-format-14)' format
check 'static analysis (cppcheck)' analyse
check 'static analysis (cppcheck, -DJOBQ_DEBUG)' analyse -DJOBQ_DEBUG
check 'shell syntax' shell_syntax
check 'python syntax' python_syntax
check 'perl syntax' perl_syntax
for c in $(perl test/ci/conventions.pl list); do
	check "$c" perl test/ci/conventions.pl "$c"
done

echo "$passed passed, $failed failed"
[ $failed = 0 ]
