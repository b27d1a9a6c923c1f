#!/bin/bash
# Every test, on private servers in a temporary directory; installs the packages that are missing first (as root).
#
#	bash test/check-all.sh                        all suites
#	bash test/check-all.sh regress isolation      some of them
#	bash test/check-all.sh tap:'01*'              files of a suite, by shell pattern
#	bash test/check-all.sh soak                   the long stress test; only when asked for
#	bash test/check-all.sh groups-soak            the long stress test of ordered groups; the same
#	bash test/check-all.sh model-soak             the models at larger bounds; the same
#
# Suites: lint, regress (sql/), isolation (test/specs/), pgtap (test/pgtap/), tap (test/t/), and the scripts
# of scripts_of() below. The last line is "N passed, N failed"; the exit status is 1 when something failed.
#
# JOBQ_ACCEPT=1 makes what the regression and isolation tests print their expected output: look at it before you commit it.
# JOBQ_KEEP=1 keeps the temporary directory. JOBQ_TIMEOUT_SCALE=4 multiplies every time limit, for a slow machine.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null
export LC_ALL=C.UTF-8

. test/lib/server.sh

ALL_SUITES="lint model regress isolation pgtap tap cron oracle stress groups_stress docs clients demo demo-groups demo-inside"
passed=0
failed=0
failures=()
ran=()
said=

# The script behind a suite that is one, its arguments, and its time limit in seconds. Its last line may be
# "N passed, N failed"; otherwise its exit status is one test.
scripts_of()
{
	case $1 in
		lint) echo "300 test/ci/lint.sh" ;;
		model) echo "600 test/model/run.sh" ;;
		model-soak) echo "14400 test/model/run.sh --soak" ;;
		stress) echo "600 test/stress/run.sh" ;;
		oracle) echo "300 test/stress/run.sh --self-test" ;;
		groups_stress) echo "600 test/stress/run.sh --groups --seconds 60" ;;
		soak) echo "7200 test/stress/run.sh --jobs 100000" ;;
		groups-soak) echo "3600 test/stress/run.sh --groups --workers 48 --producers 15 --groups-count 5000 --seconds 600 --pace 300" ;;
		cron) echo "300 test/cron/run.sh" ;;
		docs) echo "300 test/ci/doc-examples.sh" ;;
		clients) echo "1200 test/clients/run.sh" ;;
		demo) echo "300 test/demo.sh" ;;
		demo-groups) echo "300 test/demo-groups.sh 200" ;;
		demo-inside) echo "300 test/demo-inside.sh 600" ;;
	esac
}

# result NAME PASSED FAILED SECONDS [LOG]: one line per test file, and the end of the log when it failed.
result()
{
	local name=$1 p=$2 f=$3 seconds=$4 log=${5:-}
	passed=$((passed + p))
	failed=$((failed + f))
	if [ "$f" -eq 0 ]; then
		printf 'ok    %-45s %5d passed  %6.1f s\n' "$name" "$p" "$seconds"
		return
	fi
	failures+=("$name")
	printf 'FAIL  %-45s %5d passed, %d failed  %6.1f s\n' "$name" "$p" "$f" "$seconds"
	if [ -n "$log" ] && [ -s "$log" ]; then
		echo "---- $name"
		if [ "$(wc -l <"$log")" -gt 120 ]; then
			head -40 "$log"
			echo "  ... "
			tail -80 "$log"
		else
			cat "$log"
		fi
		echo "----"
	fi
}

now()
{
	date +%s.%N
}

since()
{
	awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'
}

# limited SECONDS LOG COMMAND...: runs it as the server's user in the copy of the checkout.
# A hang becomes a failure that says so.
limited()
{
	local seconds=$(($1 * ${JOBQ_TIMEOUT_SCALE:-1})) log=$2 rc
	shift 2
	as_pg timeout --kill-after=20 "$seconds" env -C "$TREE" "$@" >"$log" 2>&1 </dev/null
	rc=$?
	if [ $rc -eq 124 ] || [ $rc -eq 137 ]; then
		echo "TIMED OUT after $seconds s" >>"$log"
	fi
	return $rc
}

# Files of a suite that the command line's pattern allows.
chosen()
{
	local pattern=$1 f name
	shift
	for f in "$@"; do
		name=$(basename "$f")
		# shellcheck disable=SC2254
		case ${name%.*} in
			$pattern) [ ! -e "$f" ] || echo "$f" ;;
		esac
	done
}

# A private server for the suites that share one. Its data is worth nothing, so it need not be flushed.
shared_server()
{
	JOBQ_FLAVOUR=$1
	jobq_start fsync=off max_prepared_transactions=10 max_connections=60 log_statement=none
}

# After a file: what verify() says in its database, and whether anything crashed. Appends to the log; false when bad.
aftermath()
{
	local db=$1 log=$2 bad=0 rows crashes
	if [ "$(PGDATABASE=$db jobq_sql "SELECT count(*) FROM pg_extension WHERE extname = 'jobq'" 2>/dev/null)" = 1 ]; then
		if ! rows=$(PGDATABASE=$db PGOPTIONS='-c statement_timeout=60s' jobq_sql 'SELECT * FROM jobq.verify()' 2>&1); then
			echo "jobq.verify() raised: $rows" >>"$log"
			bad=1
		elif [ -n "$rows" ]; then
			printf 'jobq.verify() after this file:\n%s\n' "$rows" >>"$log"
			bad=1
		fi
	fi
	crashes=$(grep -aE 'was terminated by signal|TRAP:|PANIC:' "$JOBQ_TMP/server.log")
	if [ -n "$crashes" ]; then
		printf 'the server crashed:\n%s\n' "$crashes" >>"$log"
		tail -30 "$JOBQ_TMP/server.log" >>"$log"
		bad=1
	fi
	: >"$JOBQ_TMP/server.log"
	PGDATABASE=postgres jobq_sql "DROP DATABASE IF EXISTS \"$db\" WITH (FORCE)" >>"$log" 2>&1 || bad=1
	return $bad
}

# Regression and isolation tests: each file in a database of its own, so that each can be run alone.
pg_regress_suite()
{
	local suite=$1 pattern=$2 program=$3 input=$4 ext=$5 dir=$6 expected=$7 f name db log out t f0 p count
	local -a load
	out=$JOBQ_TMP/out-$suite
	mkdir -p "$out"
	chown "$JOBQ_OS_USER" "$out"
	for f in $(chosen "$pattern" "$TREE/$dir"/*."$ext"); do
		name=$(basename "$f" ".$ext")
		db=${suite}_$name
		log=$JOBQ_TMP/log-$suite-$name
		load=(--load-extension=jobq)
		! grep -qiE '^[^-]*create extension +(if not exists +)?jobq' "$f" || load=()
		# With no expected file, all that the test printed is the difference.
		[ -e "$input/expected/$name.out" ] || as_pg touch "$input/expected/$name.out"
		rm -f "$out"/regression.*
		t=$(now)
		f0=0
		limited 180 "$log" "$PGXS_TEST/$program" --bindir="$JOBQ_BIN" --inputdir="$input" --outputdir="$out" \
			--host="$PGHOST" --port="$PGPORT" --user=postgres --dbname="$db" "${load[@]}" "$name" || f0=1
		if [ $f0 = 1 ] && [ -s "$out/regression.diffs" ]; then
			cat "$out/regression.diffs" >"$log"
		fi
		aftermath "$db" "$log" || f0=1
		if [ -n "${JOBQ_ACCEPT:-}" ] && [ -e "$out/results/$name.out" ]; then
			cp "$out/results/$name.out" "$expected/$name.out"
		fi
		count=1
		[ "$suite" != isolation ] || count=$(grep -c '^starting permutation' "$out/results/$name.out" 2>/dev/null)
		p=$((f0 ? 0 : count))
		result "$suite/$name" "$p" "$f0" "$(since "$t")" "$log"
	done
}

suite_regress()
{
	shared_server plain
	pg_regress_suite regress "$1" regress/pg_regress "$TREE" sql sql expected
	jobq_stop
}

suite_isolation()
{
	# pg_isolation_regress wants specs/ and expected/ side by side.
	local input=$JOBQ_TMP/isolation
	mkdir -p "$input"
	ln -sfn "$TREE/test/specs" "$input/specs"
	ln -sfn "$TREE/test/specs/expected" "$input/expected"
	shared_server debug
	pg_regress_suite isolation "$1" isolation/pg_isolation_regress "$input" spec test/specs test/specs/expected
	jobq_stop
}

# Counts the lines of a TAP log: "passed failed"; a bad exit, or no plan, is a failure even when every line is ok.
tap_counts()
{
	awk -v rc="$2" '
		/^ok / { ok++ }
		/^not ok / { bad++ }
		/^1\.\.[0-9]+/ { plan = substr($1, 4) + 0; planned = 1 }
		END {
			if (!bad && (rc != 0 || !planned || plan != ok)) bad = 1
			print ok + 0, bad + 0
		}' "$1"
}

suite_pgtap()
{
	local f name db log t rc p q
	shared_server plain
	for f in $(chosen "$1" "$TREE"/test/pgtap/*.sql); do
		name=$(basename "$f" .sql)
		db=pgtap_$name
		log=$JOBQ_TMP/log-pgtap-$name
		t=$(now)
		rc=0
		PGDATABASE=postgres jobq_sql "CREATE DATABASE \"$db\"" >"$log" 2>&1 &&
			PGDATABASE=$db jobq_sql 'CREATE EXTENSION pgtap' >>"$log" 2>&1 || rc=1
		if [ $rc = 0 ] && ! grep -qiE '^[^-]*create extension +(if not exists +)?jobq' "$f"; then
			PGDATABASE=$db jobq_sql 'CREATE EXTENSION jobq' >>"$log" 2>&1 || rc=1
		fi
		if [ $rc = 0 ]; then
			limited 180 "$log" pg_prove --verbose --psql-bin "$JOBQ_BIN/psql" -d "$db" "$f" || rc=1
		fi
		aftermath "$db" "$log" || rc=1
		read -r p q <<<"$(tap_counts "$log" $rc)"
		result "pgtap/$name" "$p" "$q" "$(since "$t")" "$log"
	done
	jobq_stop
}

suite_tap()
{
	local f name log t rc p q
	mkdir -p "$JOBQ_TMP/ports"
	chown "$JOBQ_OS_USER" "$JOBQ_TMP/ports"
	for f in $(chosen "$1" "$TREE"/test/t/*.pl); do
		name=$(basename "$f" .pl)
		log=$JOBQ_TMP/log-tap-$name
		mkdir -p "$JOBQ_TMP/tap/$name"
		chown "$JOBQ_OS_USER" "$JOBQ_TMP/tap" "$JOBQ_TMP/tap/$name"
		t=$(now)
		rc=0
		limited 300 "$log" env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE \
			PERL5LIB="$PGXS_TEST/perl:$TREE/test/lib" PG_REGRESS="$PGXS_TEST/regress/pg_regress" \
			TESTDIR="$JOBQ_TMP/tap/$name" TESTDATADIR="$JOBQ_TMP/tap/$name/tmp_check" TESTLOGDIR="$JOBQ_TMP/tap/$name/tmp_check/log" \
			PG_TEST_PORT_DIR="$JOBQ_TMP/ports" PG_TEST_TIMEOUT_DEFAULT=$((60 * ${JOBQ_TIMEOUT_SCALE:-1})) \
			JOBQ_DEBUG_PREFIX="$DEBUG_PREFIX" JOBQ_BIN="$JOBQ_BIN" TMPDIR="$JOBQ_TMP/tap/$name" \
			perl "$f" || rc=1
		read -r p q <<<"$(tap_counts "$log" $rc)"
		if [ "$q" != 0 ]; then
			# The servers' own last words.
			tail -n 15 "$JOBQ_TMP/tap/$name"/tmp_check/log/*.log >>"$log" 2>/dev/null
		fi
		jobq_stop_all
		result "tap/$name" "$p" "$q" "$(since "$t")" "$log"
		rm -rf "$JOBQ_TMP/tap/$name"
	done
}

suite_script()
{
	local name=$1 limit script args log t rc=0 p q
	read -r limit script args <<<"$(scripts_of "$name")"
	log=$JOBQ_TMP/log-$name
	t=$(now)
	# As root: a script of this kind starts servers of its own with test/lib/server.sh.
	# shellcheck disable=SC2086
	timeout --kill-after=20 $((limit * ${JOBQ_TIMEOUT_SCALE:-1})) env JOBQ_BUILT="$JOBQ_TMP" bash "$TREE/$script" $args >"$log" 2>&1 || rc=$?
	[ $rc != 124 ] && [ $rc != 137 ] || echo "TIMED OUT after $limit s" >>"$log"
	read -r p q <<<"$(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$log")"
	if [ -z "${q:-}" ]; then
		p=$((rc == 0)) q=$((rc != 0))
	elif [ $rc != 0 ] && [ "$q" = 0 ]; then
		q=1
	fi
	result "$name" "$p" "$q" "$(since "$t")" "$log"
}

# The end of every path out: nothing is printed after it.
summary()
{
	[ ${#failures[@]} -eq 0 ] || { echo; echo "failed:"; printf '  %s\n' "${failures[@]}"; }
	echo "$passed passed, $failed failed"
	said=1
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
	exit
}

# However this script ends, it says how it went.
on_exit()
{
	local rc=$?
	jobq_cleanup
	[ -n "$said" ] || echo "$passed passed, $((failed + 1)) failed"
	[ -n "$said" ] || [ $rc != 0 ] || rc=1
	exit "$rc"
}

start=$(now)
trap on_exit EXIT
bash test/lib/install-deps.sh test || exit 1
jobq_tmp
trap on_exit EXIT

# The server's user cannot read every checkout, and tests write beside their files: work in a copy.
TREE=$JOBQ_TMP/tree
mkdir "$TREE"
tar -c --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' . | tar -x --no-same-owner -C "$TREE"
mkdir -p "$TREE/test/specs/expected"
chown -R "$JOBQ_OS_USER" "$TREE"

for flavour in plain debug; do
	t=$(now)
	if jobq_build $flavour 2>"$JOBQ_TMP/log-build"; then
		result "build/$flavour" 1 0 "$(since "$t")"
	else
		result "build/$flavour" 0 1 "$(since "$t")" "$JOBQ_TMP/log-build"
	fi
done
if [ "$failed" -gt 0 ]; then
	summary
fi
DEBUG_PREFIX=$(dirname "$JOBQ_BIN")
jobq_build plain
PGXS_TEST=$(dirname "$("$JOBQ_BIN/pg_config" --pgxs)")/../test
PGXS_TEST=$(cd "$PGXS_TEST" && pwd -P)

[ $# -gt 0 ] || set -- $ALL_SUITES
for arg in "$@"; do
	suite=${arg%%:*}
	pattern='*'
	[ "$suite" = "$arg" ] || pattern=${arg#*:}
	t=$(now)
	case $suite in
		regress | isolation | pgtap | tap)
			suite_"$suite" "$pattern"
			;;
		lint | model | model-soak | cron | oracle | stress | groups_stress | soak | groups-soak | docs | clients | demo | demo-groups | demo-inside)
			read -r _ script _ <<<"$(scripts_of "$suite")"
			[ -e "$script" ] || continue
			suite_script "$suite"
			;;
		*)
			echo "unknown suite: $suite (known: $ALL_SUITES soak groups-soak model-soak)"
			result "suite/$suite" 0 1 0
			continue
			;;
	esac
	ran+=("$suite $(since "$t") s")
done

echo
echo "time per suite:"
printf '  %s\n' "${ran[@]}"
echo "  in all $(since "$start") s"
summary
