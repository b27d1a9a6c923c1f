# The sections of the benchmark that are about ordered groups.

# ---- group_enqueue: one job a transaction into one of many groups, against one without a group

ours_group_enqueue() { fresh jobq; ENQUEUE_ONLY=1 measure jobq "$BENCH/sql/enqueue_group_1.sql" 4 1 -T "$SECS"; }

section_group_enqueue()
{
	pairs 'enqueue to a group / without' '>=0.6' ours_group_enqueue ours_enqueue
}

# ---- groups: a backlog in 10,000 groups, one by one and by turns of ten, against the same backlog without groups

# grouped_take SCRIPT GROUPED
grouped_take()
{
	fresh jobq
	if [ -n "$2" ]; then
		sql -v queue=g -v jobs="$GROUP_JOBS" -v groups=$((GROUP_JOBS / 10)) -f "$BENCH/sql/setup_groups.sql" >/dev/null
	else
		sql -c "SELECT jobq.create_queue('g', keep_completed => '0')" \
			-c "SELECT count(*) FROM jobq.enqueue_many('g', (SELECT jsonb_agg(list -> 0) FROM payloads, generate_series(1, $GROUP_JOBS) WHERE n = 100))" >/dev/null
	fi
	settle
	# each client takes its share of four fifths
	measure jobq "$BENCH/sql/$1.sql" 4 0 -t "$3" -D queue=g
}

grouped_ones() { grouped_take take_1_of grouped $((GROUP_JOBS / 5)); }
plain_ones() { grouped_take take_1_of '' $((GROUP_JOBS / 5)); }
grouped_tens() { grouped_take take_10_of grouped $((GROUP_JOBS / 50)); }
plain_tens() { grouped_take take_10_of '' $((GROUP_JOBS / 50)); }

section_groups()
{
	pairs 'groups, one by one / no groups' '>=0.5' grouped_ones plain_ones
	pairs 'groups, group_batch 10 / no groups' '>=0.8' grouped_tens plain_tens
}

# ---- group_claim: a claim beside idle groups, and out of many ready ones

group_claim_setup()
{
	local db=$1 groups=$2
	fresh jobq "$db"
	sql -d "$db" -v queue=groups -v jobs="$groups" -v groups="$groups" -f "$BENCH/sql/setup_groups.sql" >/dev/null
	sql -d "$db" -f "$BENCH/sql/buffers_of.sql"
}

# A million groups that had a job each, which is done.
group_claim_idle()
{
	local db=$1 n
	for ((n = 0; n < MILLION; n += 100000)); do
		sql -d "$db" -c "SELECT count(*) FROM jobq.enqueue_many('groups', (SELECT jsonb_agg(list -> 0) FROM payloads, generate_series(1, 100000) WHERE n = 100), priority => 1,
				group_keys => ARRAY(SELECT 'idle ' || $n + i FROM generate_series(1, 100000) i))" \
			-c "SELECT count(*) FROM generate_series(1, 10) t, LATERAL (SELECT array_agg(job_id) ids, array_agg(token) tokens
				FROM jobq.dequeue('groups', 10000 + 0 * t)) d, LATERAL jobq.complete_many(ids, tokens)" >/dev/null
	done
}

group_claim_time()
{
	PGDATABASE=$1 pgb 1 "$BENCH/sql/dequeue_1_of_groups.sql" -t 300
	RATE=$(sed -n 's/^latency average = \([0-9.]*\) ms/\1/p' "$WORK/pgbench")
}

group_claim_buffers()
{
	RATE=$(for ((i = 0; i < 99; i++)); do echo "SELECT buffers_of(\$\$SELECT * FROM jobq.dequeue('groups')\$\$);"; done |
		sql -d "$1" | sort -n | sed -n 50p)
}

few_groups_time() { group_claim_time claim_few; }
idle_groups_time() { group_claim_time claim_idle; }
many_groups_time() { group_claim_time claim_many; }
few_groups_buffers() { group_claim_buffers claim_few; }
idle_groups_buffers() { group_claim_buffers claim_idle; }
many_groups_buffers() { group_claim_buffers claim_many; }

section_group_claim()
{
	local db
	# every pair takes a few hundred of them
	group_claim_setup claim_few $((RUNS * 1000))
	group_claim_setup claim_idle $((RUNS * 1000))
	group_claim_idle claim_idle
	group_claim_setup claim_many 200000
	for db in claim_few claim_idle claim_many; do
		settle "$db"
	done
	pairs "claim, $MILLION idle groups / none: ms" '<=1.3' idle_groups_time few_groups_time
	pairs "claim, $MILLION idle groups / none: buffers" '<=1.3' idle_groups_buffers few_groups_buffers
	pairs 'claim, 200,000 ready groups / 1,000: ms' '<=2' many_groups_time few_groups_time
	pairs 'claim, 200,000 ready groups / 1,000: buffers' '<=2' many_groups_buffers few_groups_buffers
	for db in claim_few claim_idle claim_many; do
		sql -d postgres -c "DROP DATABASE $db WITH (FORCE)"
	done
}

# ---- group_cycles: one group is taken and given back again and again under an old snapshot: the last claims against the first

section_group_cycles()
{
	local i first last
	local -a a=() b=() r=()
	for ((i = 0; i < RUNS; i++)); do
		fresh jobq
		sql -f "$BENCH/sql/buffers_of.sql"
		sql -c "SELECT jobq.enqueue('q', '{}', group_key => 'g')" >/dev/null
		session_begin snapshot 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;'
		pgb 1 "$BENCH/sql/cycle_group.sql" -t 100
		first=$(cycle_buffers)
		pgb 1 "$BENCH/sql/cycle_group.sql" -t 4000
		last=$(cycle_buffers)
		session_end snapshot
		a+=("$first") b+=("$last") r+=("$(divide "$last" "$first")")
	done
	result '4,000 claims and releases under a snapshot: buffers of a claim' "$(median "${b[@]}")" "$(median "${a[@]}")" "$(median "${r[@]}")" '<=2'
}

# Buffers of a claim; the job is given back.
cycle_buffers()
{
	sql -c "SELECT buffers_of(\$\$SELECT jobq.release(job_id, token) FROM jobq.dequeue('q')\$\$)"
}

# ---- group_fair: many small groups beside a very large one; until the small ones are done

# Seconds that four workers need until the jobs of the small groups are done; $1 jobs in one more group.
small_groups()
{
	local left began now
	fresh jobq
	sql -v queue=g -v jobs=10000 -v groups=1000 -f "$BENCH/sql/setup_groups.sql" >/dev/null
	[ "$1" = 0 ] || sql -c "SELECT count(*) FROM jobq.enqueue_many('g', (SELECT jsonb_agg(list -> 0) FROM payloads, generate_series(1, $1) WHERE n = 100),
		group_keys => array_fill('giant'::text, ARRAY[$1]))" >/dev/null
	settle
	began=$(date +%s.%N)
	pgbench -n -M prepared -c 4 -j 2 -f "$BENCH/sql/take_1_or_none_of.sql" -T 60 -D queue=g >"$WORK/pgbench" 2>&1 &
	local worker=$!
	for ((;;)); do
		left=$(sql -c "SELECT count(*) FROM jobq.job WHERE group_key <> 'giant'")
		[ "$left" != 0 ] || break
		kill -0 "$worker" 2>/dev/null || jobq_die 'the small groups were not done in time'
		sleep 0.02
	done
	now=$(date +%s.%N)
	kill "$worker"
	wait "$worker" 2>/dev/null || true
	RATE=$(awk -v a="$began" -v b="$now" 'BEGIN { printf "%.2f\n", b - a }')
}

small_beside_giant() { small_groups 100000; }
small_alone() { small_groups 0; }

section_group_fair()
{
	pairs '1,000 groups of 10 beside one of 100,000 / alone: s' '<=1.2' small_beside_giant small_alone
}
