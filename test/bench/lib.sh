# Bash functions of the benchmark: databases, one measured run, pairs of runs, the table. Source it after server.sh.

BENCH=$JOBQ_SRC/test/bench
PAYLOAD=$(cat "$BENCH/rivals/payload.json")
declare -a results=() costs=()
short=0

# psql in database "bench" (or $PGDATABASE); arguments as for psql.
sql()
{
	psql -X -q -A -t -v ON_ERROR_STOP=1 "$@"
}

note()
{
	echo "# $*" >&2
}

# A new database for one run, in place of the old one of that name: $1 textbook | floor | jobq | jobq_history | empty.
fresh()
{
	local side=$1 db=${2:-bench}
	sql -d postgres -c "DROP DATABASE IF EXISTS $db WITH (FORCE)" -c "CREATE DATABASE $db" 2>&1 | grep -v 'does not exist, skipping' || true
	case $side in
		textbook | floor) sql -d "$db" -f "$BENCH/rivals/$side.sql" ;;
		jobq) sql -d "$db" -v payload="$PAYLOAD" -v keep=0 -f "$BENCH/sql/setup_jobq.sql" >/dev/null ;;
		jobq_history) sql -d "$db" -v payload="$PAYLOAD" -v keep='1 day' -f "$BENCH/sql/setup_jobq.sql" >/dev/null ;;
		empty) ;;
	esac
}

# Before each run that takes jobs; harmless before the others.
settle()
{
	sql -d "${1:-bench}" -c 'VACUUM ANALYZE' -c 'CHECKPOINT'
}

# pgbench as every run uses it; its output is in $WORK/pgbench. Stops the benchmark when a client fails.
pgb()
{
	local clients=$1 script=$2
	shift 2
	pgbench -n -M prepared -c "$clients" -j "$((clients < 2 ? clients : 2))" -f "$script" "$@" >"$WORK/pgbench" 2>"$WORK/pgbench.err" </dev/null ||
		{ tail -5 "$WORK/pgbench.err" >&2; jobq_die "pgbench failed at $script"; }
}

# Fills the backlog of the current database with $2 thousand jobs.
fill()
{
	case $1 in
		textbook) pgb 2 "$BENCH/rivals/textbook_enqueue_1000.sql" -t $(($2 / 2)) ;;
		jobq*) pgb 2 "$BENCH/sql/enqueue_many_1000.sql" -t $(($2 / 2)) ;;
	esac
}

# Jobs in the current database that are not done.
backlog()
{
	case $1 in
		textbook) sql -c 'SELECT count(*) FROM tb' ;;
		jobq*) sql -c 'SELECT count(*) FROM jobq.job' ;;
		*) echo 0 ;;
	esac
}

# WAL position and buffers touched in this database, once no client's session is left to report its own.
usage()
{
	local tries
	for ((tries = 0; tries < 200; tries++)); do
		[ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND backend_type = 'client backend' AND pid <> pg_backend_pid()")" = 0 ] && break
		sleep 0.02
	done
	sql -F ' ' -c "SELECT pg_current_wal_insert_lsn() - '0/0', blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
}

# With PROFILE=1: samples the backends of the run that is going on, into profile-NAME.txt.
profile_start()
{
	[ -n "$profile" ] || return 0
	(
		sleep 1
		pids=$(sql -c "SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE application_name = 'pgbench'")
		[ -n "$pids" ] || exit 0
		perf record -q -e cpu-clock -F 999 -g -o "$WORK/perf.data" -p "$pids" -- sleep "${PROFILE_SECS:-5}" >/dev/null || true
	) 2>/dev/null & # perf ends by a signal when the run ends first, and the shell would say so
	profiler=$!
}

profile_end()
{
	[ -n "$profile" ] || return 0
	wait "$profiler" || true
	if [ -s "$WORK/perf.data" ]; then
		{
			perf report -i "$WORK/perf.data" --stdio --no-children -g none --percent-limit 0.5 2>/dev/null
			echo
			echo '# with what is called'
			perf report -i "$WORK/perf.data" --stdio --children -g none --percent-limit 1 2>/dev/null
		} >"$PROFILE_DIR/profile-$1.txt"
		rm -f "$WORK/perf.data"
		note "profile: $PROFILE_DIR/profile-$1.txt"
	else
		note "perf gave nothing for $1"
	fi
}

# One measured run in the current database: measure SIDE SCRIPT CLIENTS JOBS_ENQUEUED_PER_TRANSACTION pgbench-arguments...
# Sets RATE (jobs per second), WAL (bytes per job) and BUF (buffers per job). A job counts when it is done; in a run that
# does nothing but enqueue, when it is in. What counts is the difference of the tables, not what the script meant to do.
measure()
{
	local side=$1 script=$2 clients=$3 per_tx=$4 before after tx tps lsn0 lsn1 buf0 buf1 done_jobs
	shift 4
	before=$(backlog "$side")
	read -r lsn0 buf0 <<<"$(usage)"
	profile_start
	pgb "$clients" "$script" "$@"
	profile_end "$(basename "$script" .sql)-$side"
	read -r lsn1 buf1 <<<"$(usage)"
	after=$(backlog "$side")
	tx=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$WORK/pgbench")
	tps=$(sed -n 's/^tps = \([0-9.]*\) .*/\1/p' "$WORK/pgbench")
	if [ -n "${ENQUEUE_ONLY:-}" ]; then
		done_jobs=$((tx * per_tx))
	else
		done_jobs=$((tx * per_tx + before - after))
		# Jobs that ran out would make the run look fast or slow for no reason.
		[ "$per_tx" != 0 ] || [ "$after" -gt 0 ] || jobq_die "the backlog of $side ran out: more jobs or fewer seconds"
	fi
	read -r RATE WAL BUF <<<"$(awk -v j="$done_jobs" -v tx="$tx" -v tps="$tps" -v l="$((lsn1 - lsn0))" -v b="$((buf1 - buf0))" \
		'BEGIN { printf "%.1f %.0f %.2f\n", j / (tx / tps), l / j, b / j }')"
	note "  $side $(basename "$script" .sql): $RATE jobs/s, $WAL bytes of WAL and $BUF buffers per job"
}

median()
{
	printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

divide()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f\n", a / (b == 0 ? 1e-9 : b) }'
}

# One line of the table: result NAME OURS RIVAL RATIO WANTED, where WANTED is ">=1.5", "<=1.5" or "-" (for information).
# It is the ratio that counts, or OURS where the ratio is empty.
result()
{
	local verdict=''
	if [ "$5" != - ]; then
		verdict=$(awk -v r="${4:-$2}" -v w="${5#??}" -v op="${5%"${5#??}"}" 'BEGIN { print (op == ">=" ? r >= w : r <= w) ? "ok" : "short" }')
		[ "$verdict" = ok ] || short=$((short + 1))
	fi
	results+=("$1|$2|$3|$4|$5|$verdict")
	note "$1: $2${3:+ / $3}${4:+ = $4}, wanted $5 $verdict"
}

# A B A B ...: pairs NAME WANTED OURS RIVAL. OURS and RIVAL are functions that set RATE, and WAL and BUF.
# The ratio is the median of the pairs' ratios.
pairs()
{
	local name=$1 wanted=$2 ours=$3 rival=$4 i
	local -a a=() b=() r=() aw=() bw=() ab=() bb=()
	for ((i = 0; i < RUNS; i++)); do
		note "$name: pair $((i + 1)) of $RUNS"
		RATE='' WAL='' BUF=''
		"$ours"
		a+=("$RATE") aw+=("$WAL") ab+=("$BUF")
		RATE='' WAL='' BUF=''
		"$rival"
		b+=("$RATE") bw+=("$WAL") bb+=("$BUF")
		r+=("$(divide "${a[i]}" "$RATE")")
	done
	result "$name" "$(median "${a[@]}")" "$(median "${b[@]}")" "$(median "${r[@]}")" "$wanted"
	[ -z "${aw[0]}" ] ||
		costs+=("$name|$(median "${ab[@]}")|$(median "${bb[@]}")|$(median "${aw[@]}")|$(median "${bw[@]}")")
}

# A session that stays open until session_end: session_begin NAME SQL. The array "sessions" maps names to descriptors.
declare -A sessions=() session_pids=()
session_begin()
{
	local fd answer fifo=$WORK/session-$1
	rm -f "$fifo" "$fifo.out"
	mkfifo "$fifo"
	: >"$fifo.out"
	psql -X -q -A -t -v ON_ERROR_STOP=1 <"$fifo" >>"$fifo.out" 2>&1 &
	session_pids[$1]=$!
	exec {fd}>"$fifo"
	sessions[$1]=$fd
	session_say "$1" "$2"
}

# Sends SQL to an open session and waits until it is done.
session_say()
{
	local tries
	: >"$WORK/session-$1.out"
	printf '%s\n\\echo settled\n' "$2" >&"${sessions[$1]}"
	for ((tries = 0; tries < 1000; tries++)); do
		grep -q '^settled$' "$WORK/session-$1.out" && return 0
		kill -0 "${session_pids[$1]}" 2>/dev/null || break
		sleep 0.02
	done
	cat "$WORK/session-$1.out" >&2
	jobq_die "session $1 gave no answer"
}

session_end()
{
	local fd=${sessions[$1]}
	echo '\q' >&"$fd" # a later session's psql has this descriptor too, so its end may not show
	exec {fd}>&-
	wait "${session_pids[$1]}" || true
	unset "sessions[$1]" "session_pids[$1]"
}

# The table of results and that of costs.
print_results()
{
	{
		echo 'section|ours|rival|ratio|wanted|'
		printf '%s\n' "${results[@]}"
	} | table
	if [ ${#costs[@]} -gt 0 ]; then
		echo
		{
			echo 'per job|buffers, ours|buffers, rival|WAL bytes, ours|WAL bytes, rival'
			printf '%s\n' "${costs[@]}"
		} | table
	fi
}

# Aligns lines of |-separated fields: the first one left, the others right.
table()
{
	awk -F'|' '
		{ for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > w[i]) w[i] = length($i) } n[NR] = NF }
		END {
			for (l = 1; l <= NR; l++) {
				line = sprintf("%-" w[1] "s", cell[l, 1])
				for (i = 2; i <= n[l]; i++) line = line sprintf("  %" w[i] "s", cell[l, i])
				sub(/ +$/, "", line)
				print line
			}
		}'
}
