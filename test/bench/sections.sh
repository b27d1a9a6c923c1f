# The sections of the benchmark; each is one function section_NAME. RUNS, SECS and the sizes are set in run.sh.

# ---- enqueue: one job a transaction, against a plain INSERT of one row

ours_enqueue() { fresh jobq; ENQUEUE_ONLY=1 measure jobq "$BENCH/sql/enqueue_1.sql" 4 1 -T "$SECS"; }
floor_insert() { fresh floor; ENQUEUE_ONLY=1 measure floor "$BENCH/rivals/floor_insert_1.sql" 4 1 -T "$SECS"; }

section_enqueue()
{
	pairs 'enqueue, 4 clients / floor' '>=0.85' ours_enqueue floor_insert
}

# ---- enqueue_many: 1,000 jobs a transaction, against INSERT .. SELECT

ours_enqueue_many() { fresh jobq; ENQUEUE_ONLY=1 measure jobq "$BENCH/sql/enqueue_many_1000.sql" 2 1000 -T "$SECS"; }
floor_insert_many() { fresh floor; ENQUEUE_ONLY=1 measure floor "$BENCH/rivals/floor_insert_1000.sql" 2 1000 -T "$SECS"; }

section_enqueue_many()
{
	pairs 'enqueue_many 1,000 / floor' '>=0.85' ours_enqueue_many floor_insert_many
}

# ---- drain: batches of 100 out of a backlog, until a tenth of it is left

drain()
{
	local side=$1 script=$2
	fresh "$side"
	fill "$side" "$((BACKLOG / 1000))"
	settle
	measure "$side" "$script" 2 0 -t "$((BACKLOG * 9 / 10 / 200))"
}

ours_drain() { drain jobq "$BENCH/sql/take_100.sql"; }
ours_drain_history() { drain jobq_history "$BENCH/sql/take_100.sql"; }
textbook_drain() { drain textbook "$BENCH/rivals/textbook_take_100.sql"; }

section_drain()
{
	pairs 'drain by 100 / textbook' '>=3.5' ours_drain textbook_drain
	pairs 'drain by 100, history / textbook' '>=2.2' ours_drain_history textbook_drain
}

# ---- life: enqueue 100, dequeue 100, complete 100

life()
{
	fresh "$1"
	settle
	measure "$1" "$2" 2 100 -T "$SECS"
}

# The rivals have no such script; this one is put together from theirs.
textbook_life_script()
{
	sed 's/generate_series(1, 1000)/generate_series(1, 100)/' "$BENCH/rivals/textbook_enqueue_1000.sql"
	cat "$BENCH/rivals/textbook_take_100.sql"
}

ours_life() { life jobq "$BENCH/sql/life_100.sql"; }
ours_life_history() { life jobq_history "$BENCH/sql/life_100.sql"; }
textbook_life()
{
	textbook_life_script >"$WORK/textbook_life_100.sql"
	life textbook "$WORK/textbook_life_100.sql"
}

section_life()
{
	pairs 'whole life by 100 / textbook' '>=3' ours_life textbook_life
	pairs 'whole life by 100, history / textbook' - ours_life_history textbook_life
}

# ---- one_by_one: a job a transaction, out of a backlog

one_by_one()
{
	local side=$1 script=$2
	fresh "$side"
	fill "$side" "$((ONES / 1000))"
	settle
	measure "$side" "$script" 4 0 -T "$SECS" -D id=0 -D token=0
}

ours_two() { one_by_one jobq "$BENCH/sql/take_1.sql"; }
ours_one() { one_by_one jobq "$BENCH/sql/complete_and_dequeue_1.sql"; }
ours_two_history() { one_by_one jobq_history "$BENCH/sql/take_1.sql"; }
ours_one_history() { one_by_one jobq_history "$BENCH/sql/complete_and_dequeue_1.sql"; }
textbook_two() { one_by_one textbook "$BENCH/rivals/textbook_take_1.sql"; }

section_one_by_one()
{
	pairs 'dequeue, complete / textbook' '>=1.7' ours_two textbook_two
	pairs 'complete_and_dequeue / textbook' '>=2.4' ours_one textbook_two
	pairs 'dequeue, complete, history / textbook' - ours_two_history textbook_two
	pairs 'complete_and_dequeue, history / textbook' - ours_one_history textbook_two
}

# ---- snapshot: whole lives at full speed while a snapshot is held

# Sets FIRST and LAST, jobs per second in the first and the last ten seconds.
under_snapshot()
{
	local side=$1 script=$2 variant=${3:-} before after tx edge kept
	fresh "$side"
	fill "$side" 20
	settle
	session_begin snapshot 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;'
	[ "$variant" != producer ] || session_begin producer "BEGIN; SELECT jobq.enqueue('q', '{\"late\": true}');"
	before=$(backlog "$side")
	pgb 2 "$script" -T "$SNAPSHOT_SECS" -P 1
	after=$(backlog "$side")
	[ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xmin IS NOT NULL")" -ge 1 ] ||
		jobq_die 'the snapshot was not held'
	tx=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$WORK/pgbench")
	# Each transaction brings 100 jobs; when they pile up, fewer than these are done.
	kept=$(awk -v b="$before" -v a="$after" -v tx="$tx" 'BEGIN { print 100 - (a - b) / tx }')
	edge=$((SNAPSHOT_SECS < 20 ? SNAPSHOT_SECS / 2 : 10))
	read -r FIRST LAST <<<"$(sed -n 's/^progress: [0-9.]* s, \([0-9.]*\) tps.*/\1/p' "$WORK/pgbench.err" |
		awk -v edge="$edge" -v per="$kept" '{ v[NR] = $1 }
			END { for (i = 1; i <= edge; i++) { a += v[i]; b += v[NR + 1 - i] } printf "%.0f %.0f\n", a * per / edge, b * per / edge }')"
	note "  $side ${variant:-plain}: $FIRST jobs/s at first, $LAST at last; backlog $before, then $after"
	if [ "$variant" = producer ]; then
		# The producer's job is the oldest of all; after its commit it is there to be taken, whatever passed it meanwhile.
		session_say producer 'COMMIT;'
		session_end producer
		pgb 2 "$script" -t 400
		[ "$(sql -c "SELECT count(*) FROM jobq.job WHERE payload = '{\"late\": true}'")" = 0 ] || jobq_die "the late producer's job was forgotten"
	fi
	session_end snapshot
}

section_snapshot()
{
	local i variant script name
	local -a keep=() ours=() rival=() apart=() rival_keep=() rival_first=() first=()
	textbook_life_script >"$WORK/textbook_life_100.sql"
	for ((i = 0; i < RUNS; i++)); do
		note "old snapshot: pair $((i + 1)) of $RUNS"
		under_snapshot jobq "$BENCH/sql/life_100.sql"
		keep+=("$(divide "$LAST" "$FIRST")") ours+=("$LAST") first+=("$FIRST")
		under_snapshot textbook "$WORK/textbook_life_100.sql"
		rival+=("$LAST") rival_first+=("$FIRST") rival_keep+=("$(divide "$LAST" "$FIRST")")
		apart+=("$(divide "${ours[i]}" "$LAST")")
	done
	result 'old snapshot: last 10 s / first 10 s' "$(median "${ours[@]}")" "$(median "${first[@]}")" "$(median "${keep[@]}")" '>=0.85'
	result 'old snapshot: last 10 s / textbook' "$(median "${ours[@]}")" "$(median "${rival[@]}")" "$(median "${apart[@]}")" '>=15'
	result 'textbook: last 10 s / first 10 s' "$(median "${rival[@]}")" "$(median "${rival_first[@]}")" "$(median "${rival_keep[@]}")" -
	for variant in producer failing; do
		script=$BENCH/sql/life_100.sql name='idle producer'
		[ "$variant" != failing ] || { script=$BENCH/sql/life_100_failing.sql name='5 % fail once'; }
		keep=() ours=() first=()
		for ((i = 0; i < RUNS; i++)); do
			under_snapshot jobq "$script" "$variant"
			keep+=("$(divide "$LAST" "$FIRST")") ours+=("$LAST") first+=("$FIRST")
		done
		result "old snapshot, $name: last / first" "$(median "${ours[@]}")" "$(median "${first[@]}")" "$(median "${keep[@]}")" '>=0.85'
	done
}

# ---- claim: the cost of a dequeue beside a million delayed, active and finished jobs, against an empty queue

claim_ready=20000

claim_setup_empty()
{
	fresh jobq_history claim_empty
	PGDATABASE=claim_empty fill jobq $((claim_ready / 1000))
	settle claim_empty
}

claim_setup_full()
{
	local thousands=$((MILLION / 1000)) counts p
	fresh jobq_history claim_full
	export PGDATABASE=claim_full
	note "claim: $MILLION finished jobs"
	pgb 1 "$BENCH/sql/life_1000.sql" -t "$thousands"
	note "claim: $((MILLION / 10)) active jobs"
	pgb 1 "$BENCH/sql/enqueue_many_1000.sql" -t $((thousands / 10))
	pgb 1 "$BENCH/sql/claim_active.sql" -t $((thousands / 10))
	note "claim: $MILLION delayed jobs of the first priority"
	pgb 1 "$BENCH/sql/claim_delayed.sql" -t "$thousands"
	for ((p = 1; p <= 10; p++)); do
		pgb 1 "$BENCH/sql/claim_ready.sql" -t $((claim_ready / 10000)) -D priority=$((p * 100))
	done
	settle claim_full
	counts=$(sql -c 'SELECT completed_total, active, delayed, ready FROM jobq.queues')
	export PGDATABASE=bench
	[ "$counts" = "$MILLION|$((MILLION / 10))|$MILLION|$claim_ready" ] ||
		jobq_die "the full queue is not as it should be (completed|active|delayed|ready): $counts"
}

claim_time()
{
	PGDATABASE=$1 pgb 1 "$BENCH/sql/dequeue_1.sql" -t 1500
	RATE=$(sed -n 's/^latency average = \([0-9.]*\) ms/\1/p' "$WORK/pgbench")
}

# The median of 99 claims, each in a transaction of its own.
claim_buffers()
{
	RATE=$(for ((i = 0; i < 99; i++)); do echo "SELECT buffers_of(\$\$SELECT * FROM jobq.dequeue('q')\$\$);"; done |
		sql -d "$1" | sort -n | sed -n 50p)
}

full_time() { claim_time claim_full; }
empty_time() { claim_time claim_empty; }
full_buffers() { claim_buffers claim_full; }
empty_buffers() { claim_buffers claim_empty; }

section_claim()
{
	local db
	claim_setup_empty
	claim_setup_full
	for db in claim_empty claim_full; do
		sql -d "$db" -f "$BENCH/sql/buffers_of.sql"
	done
	pairs 'claim, full / empty: ms' '<=1.5' full_time empty_time
	pairs 'claim, full / empty: buffers' '<=1.5' full_buffers empty_buffers
	for db in claim_empty claim_full; do
		sql -d postgres -c "DROP DATABASE $db WITH (FORCE)"
	done
}

# ---- latency: from an enqueue's commit to the row in a waiting consumer's hand

latency_of()
{
	local mode=$1 name=$2 wanted50=$3 wanted99=$4 i a b c d
	local -a p50=() p99=() s50=() s99=()
	for ((i = 0; i < RUNS; i++)); do
		fresh jobq
		read -r a b c d <<<"$("$WORK/waiters" latency "$mode" "$ROUNDS")"
		[ -n "$d" ] || jobq_die 'no latency was measured'
		note "  $mode: $a ms (p99 $b) after the commit's answer, $c ms (p99 $d) after its sending"
		p50+=("$a") p99+=("$b") s50+=("$c") s99+=("$d")
	done
	result "$name: p50 ms" "$(median "${p50[@]}")" '' '' "$wanted50"
	result "$name: p99 ms" "$(median "${p99[@]}")" '' '' "$wanted99"
	result "$name, with the commit's flush: p50 ms" "$(median "${s50[@]}")" '' '' -
	result "$name, with the commit's flush: p99 ms" "$(median "${s99[@]}")" '' '' -
}

section_latency()
{
	latency_of dequeue 'dequeue(wait)' '<=0.5' '<=3'
	latency_of call 'CALL wait, dequeue' - -
}

# ---- waiters: a hundred of them on an empty queue

section_waiters()
{
	local mode ms snapshots xids locks
	for mode in dequeue call; do
		fresh jobq
		read -r ms snapshots xids locks <<<"$("$WORK/waiters" idle "$mode" 100 "$IDLE_SECS")"
		[ -n "$locks" ] || jobq_die 'the waiters were not measured'
		# One thousandth of a processor for all of them together.
		result "100 waiters in $mode: ms of CPU per s" "$ms" '' '' '<=1'
		[ "$mode" = call ] || continue
		result 'CALL wait: snapshots, xids, locks' "$((snapshots + xids + locks))" '' '' '<=0'
	done
}

# ---- one_transaction: many dequeues inside one transaction; the second half against the first

section_one_transaction()
{
	local i first second
	local -a a=() b=() r=()
	for ((i = 0; i < RUNS; i++)); do
		fresh jobq
		fill jobq $((IN_ONE / 1000 + 2))
		settle
		read -r first second <<<"$(sql -F ' ' -v n=$((IN_ONE / 2)) -f "$BENCH/sql/one_transaction.sql")"
		a+=("$first") b+=("$second") r+=("$(divide "$second" "$first")")
	done
	result "$IN_ONE dequeues in one: ms, 2nd half / 1st" "$(median "${b[@]}")" "$(median "${a[@]}")" "$(median "${r[@]}")" '<=1.25'
}

# ---- queues: a job enqueued, dequeued and completed in one of many queues, against one queue

of_queues()
{
	fresh jobq
	sql -c "SELECT count(jobq.create_queue('q' || n, keep_completed => '0')) FROM generate_series(1, $1) n" >/dev/null
	settle
	measure jobq "$BENCH/sql/enqueue_take_1_of_queues.sql" 4 1 -T "$SECS" -D queues="$1"
}

many_queues() { of_queues 1000; }
one_queue() { of_queues 1; }

section_queues()
{
	# "No slower": what is left to noise.
	pairs '1,000 queues / 1 queue' '>=0.95' many_queues one_queue
}

# ---- limits: jobs per second of a queue without any, against one that has all of them, which never hold a job back, and unique keys

# A new queue; "on": with limits.
limited()
{
	unique=0
	fresh jobq
	[ "$1" = on ] || return 0
	unique=1
	sql -c "SELECT jobq.alter_queue('q', concurrency => 10000, rate_limit => 1000000, rate_burst => 1000000, ageing => true)" >/dev/null
}

# limited_enqueue on|off SCRIPT CLIENTS JOBS
limited_enqueue()
{
	local unique
	limited "$1"
	ENQUEUE_ONLY=1 measure jobq "$BENCH/sql/$2.sql" "$3" "$4" -T "$SECS" -D unique=$unique
}

# limited_take on|off SCRIPT CLIENTS THOUSANDS pgbench-arguments...
limited_take()
{
	local unique script=$2 clients=$3 thousands=$4
	limited "$1"
	shift 4
	pgb 2 "$BENCH/sql/limits_enqueue_many_1000.sql" -t $((thousands / 2)) -D unique=$unique
	settle
	measure jobq "$BENCH/sql/$script.sql" "$clients" 0 "$@"
}

without_ones() { limited_enqueue off limits_enqueue_1 4 1; }
with_ones() { limited_enqueue on limits_enqueue_1 4 1; }
without_many() { limited_enqueue off limits_enqueue_many_1000 2 1000; }
with_many() { limited_enqueue on limits_enqueue_many_1000 2 1000; }
without_take_100() { limited_take off take_100 2 $((BACKLOG / 1000)) -t $((BACKLOG * 9 / 10 / 200)); }
with_take_100() { limited_take on take_100 2 $((BACKLOG / 1000)) -t $((BACKLOG * 9 / 10 / 200)); }
without_take_1() { limited_take off take_1 4 $((ONES / 1000)) -T "$SECS"; }
with_take_1() { limited_take on take_1 4 $((ONES / 1000)) -T "$SECS"; }

section_limits()
{
	pairs 'enqueue, no limits / all' '<=1.3' without_ones with_ones
	pairs 'enqueue_many 1,000, no limits / all' '<=1.3' without_many with_many
	pairs 'dequeue, complete by 100, no limits / all' '<=1.3' without_take_100 with_take_100
	pairs 'dequeue, complete, no limits / all' '<=1.3' without_take_1 with_take_1
}
