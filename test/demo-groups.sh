#!/bin/bash
# The demo of ordered groups: a throw-away server, orders of four steps each (create, pay, ship, close), eight workers in plain
# bash and psql. Again and again one of them is killed, or stopped for longer than its lease and woken again. At the end the
# order of every order's steps is proved from what the steps have written.
#
#	bash test/demo-groups.sh [ORDERS]
#
# 1,000 orders when no number is given. Nothing stays behind but the packages that were missing. Ends with status 0 when all
# is right.
set -euo pipefail

cd "$(dirname "$0")/.."
orders=${1:-1000}
[[ $orders =~ ^[1-9][0-9]{0,5}$ ]] || { echo "usage: demo-groups.sh [ORDERS]" >&2; exit 2; }
workers=8
stall=2500000 # microseconds; the lease is 1 s
time_limit=150 # seconds; for the work itself
declare -a pids=() names=() wake=() stopped=()
failed=0

bash test/lib/install-deps.sh demo
. test/lib/server.sh
. test/lib/demo.sh
demo_width=62

# Ends the workers at once; each leads a process group, with its psql in it.
kill_workers()
{
	local pid
	for pid in "${pids[@]}" "${stopped[@]}"; do
		kill -KILL -- "-$pid" 2>/dev/null || true
	done
}

# Sets "now" to the microseconds since the start.
clock()
{
	now=$EPOCHREALTIME
	now=$((${now/[.,]/} - start))
}

# A step of every order, in one transaction; a few take longer than the lease.
enqueue()
{
	jobq_sql "SELECT count(*) || ' x $1' FROM jobq.enqueue_many('orders', name => '$1',
		payloads => (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('order', o, 'step', '$1',
			'slow', CASE WHEN o % 200 = 33 AND '$1' IN ('pay', 'close') THEN true END)) ORDER BY o) FROM generate_series(1, $orders) o),
		group_keys => (SELECT array_agg('order-' || o ORDER BY o) FROM generate_series(1, $orders) o))"
}

# A worker for place $1, in a process group of its own: Ctrl-C reaches this script alone, and one signal its psql as well. Half of
# them tie the groups they take to their session, half leave it to the time of the lease.
start_worker()
{
	local liveness=off
	started=$((started + 1))
	((started % 2 == 0)) || liveness=on
	PGOPTIONS="-c jobq.session_liveness=$liveness" setsid bash test/demo/order-worker.sh "worker-$started" 2>>"$JOBQ_TMP/workers.log" &
	pids[$1]=$!
	names[$1]=worker-$started
}

# Stops the worker at place $1 when it has jobs in hand, and then, by $2, kills it or lets it be until it is woken.
disturb()
{
	local place=$1 how=$2 pid=${pids[$1]} name=${names[$1]} tries state=active had
	kill -STOP -- "-$pid"
	# The request it may just have sent is done with when its session rests; one that waits for work has no job.
	for ((tries = 0; tries < 20; tries++)); do
		state=$(jobq_sql "SELECT state FROM pg_stat_activity WHERE application_name = '$name'")
		[ "$state" = active ] || break
		sleep 0.01
	done
	had=$(jobq_sql "WITH had AS (
			INSERT INTO lost_job SELECT '$how', l.token, (j.payload->>'order')::int, j.payload->>'step'
			FROM jobq.lease l JOIN jobq.jobs j ON j.job_id = ANY (l.job_ids)
			WHERE l.worker = '$name' AND j.state = 'active' AND '$state' <> 'active' RETURNING 1)
		SELECT count(*) FROM had")
	if [ "$had" = 0 ]; then
		kill -CONT -- "-$pid"
		return 1
	fi
	if [ "$how" = killed ]; then
		kill -KILL -- "-$pid"
		wait "$pid" 2>/dev/null || true
		kills=$((kills + 1))
		start_worker "$place"
	else
		stalls=$((stalls + 1))
		clock
		wake[place]=$((now + stall))
		stopped[place]=$pid
	fi
}

# How many leases of stopped workers were answered so when they came back.
told()
{
	jobq_sql "SELECT count(DISTINCT token) FROM lost_job JOIN step_refused USING (token) WHERE how = 'stalled' AND said = '$1'"
}

# Wakes those whose time has come; all of them when $1 is "all".
wake_up()
{
	local place
	clock
	for place in "${!wake[@]}"; do
		if [ "${1:-}" = all ] || ((now >= wake[place])); then
			kill -CONT -- "-${stopped[place]}"
			unset "wake[$place]" "stopped[$place]"
		fi
	done
}

demo_server max_connections=30
jobq_sql "SELECT FROM jobq.create_queue('orders', group_lease => '1 s', max_attempts => 100)"
jobq_sql "
	-- what the steps do, in the transaction that completes them
	CREATE TABLE shop_order (id int PRIMARY KEY, steps text[] NOT NULL DEFAULT '{}', tokens bigint[] NOT NULL DEFAULT '{}');
	-- what they do at their start, in a transaction of its own: at least once
	CREATE TABLE step_begun (n bigserial, order_id int, step text, token bigint, worker text);
	-- what workers did not end, and why
	CREATE TABLE step_refused (order_id int, step text, token bigint, worker text, said text);
	-- what workers had in hand when they were killed, or stopped past their lease
	CREATE TABLE lost_job (how text, token bigint, order_id int, step text);
	INSERT INTO shop_order SELECT generate_series(1, $orders)"

say "$orders orders, a group each; two of four steps, to begin with"
enqueue create
enqueue pay

say "$workers workers, up to 4 jobs of a group at a time, lease 1 s; the other steps meanwhile"
started=0 kills=0 stalls=0 now=0
start=${EPOCHREALTIME/[.,]/}
for ((n = 0; n < workers; n++)); do
	start_worker "$n"
done
enqueue ship
enqueue close

printf '%8s %8s %8s %10s %8s %8s %8s %8s\n' second ready active completed killed stalled retried refused
shown=-1 next_event=300000
while :; do
	wake_up
	counted=$(jobq_sql "SELECT ready, active, completed_total, retried_total, dead, (SELECT count(DISTINCT token) FROM step_refused WHERE said IN ('lost', 'JQ001'))
		FROM jobq.queues WHERE queue = 'orders'")
	IFS='|' read -r ready active completed retried dead refused <<<"$counted"
	clock
	second=$((now / 1000000))
	open=$((orders * 4 - completed - dead))
	if ((second > shown || open == 0)); then
		printf '%8d %8d %8d %10d %8d %8d %8d %8d\n' "$second" "$ready" "$active" "$completed" "$kills" "$stalls" "$retried" "$refused"
		shown=$second
	fi
	((open > 0)) || break
	if ((second > time_limit)); then
		echo "not done after $time_limit seconds"
		failed=1
		break
	fi
	# not the last ones again and again
	if ((now > next_event && open * 50 > orders * 4)); then
		place=$((RANDOM % workers))
		how=killed
		if ((stalls < kills && (stalls == 0 || RANDOM % 2 == 0))); then
			how=stalled
		fi
		if [ -z "${stopped[place]:-}" ] && disturb "$place" $how; then
			next_event=$((now + 200000 + RANDOM % 500 * 1000))
		fi
	fi
	sleep 0.1
done
clock
took=$now

# Those that still sleep come back too late as well. Then all are told to stop, and end what they have in hand.
wake_up all
unanswered="SELECT count(DISTINCT token) FROM lost_job WHERE how = 'stalled' AND token NOT IN (SELECT token FROM step_refused WHERE said IN ('lost', 'JQ001'))"
for ((n = 0; n < 100; n++)); do
	[ "$(jobq_sql "$unanswered")" != 0 ] || break
	sleep 0.1
done
stopped_well=0
for pid in "${pids[@]}"; do
	kill -TERM "$pid" 2>/dev/null || true
done
for pid in "${pids[@]}"; do
	if wait "$pid"; then
		stopped_well=$((stopped_well + 1))
	fi
done
pids=()

say 'result'
line 'orders' "$orders"
line '  with all four steps, each once, in their order' "$(jobq_sql "SELECT count(*) FROM shop_order
	WHERE steps = '{create,pay,ship,close}'")" "$orders"
line 'steps' "$((orders * 4))"
line '  lost' "$(jobq_sql "SELECT count(*) FROM shop_order, unnest('{create,pay,ship,close}'::text[]) s
	WHERE s <> ALL (steps)")" 0
line '  done twice' "$(jobq_sql "SELECT count(*) FROM (SELECT FROM shop_order, unnest(steps) s GROUP BY id, s HAVING count(*) > 1) t")" 0
line '  begun before an earlier step of the order was done' "$(jobq_sql "SELECT count(*) FROM (
	SELECT place < max(place) OVER (PARTITION BY order_id ORDER BY n) OR
		place > 1 + max(place) OVER (PARTITION BY order_id ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS wrong
	FROM (SELECT *, array_position('{create,pay,ship,close}', step) AS place FROM step_begun) b) t WHERE wrong")" 0
line '  begun more than once: that is what at least once means' "$(jobq_sql "SELECT count(*) FROM (
	SELECT FROM step_begun GROUP BY order_id, step HAVING count(*) > 1) t")"
line 'orders whose tokens ever fell' "$(jobq_sql "SELECT count(DISTINCT id) FROM (
	SELECT id, t < lag(t) OVER (PARTITION BY id ORDER BY i) AS fell FROM shop_order, unnest(tokens) WITH ORDINALITY u (t, i)) w WHERE fell")" 0
line 'workers killed (kill -9) with jobs in hand' "$kills"
line 'workers stopped with jobs in hand, past their lease, and woken' "$stalls"
if ((orders >= 100)); then
	line '  at least one of each' "$((kills > 0 && stalls > 0))" 1
fi
line 'jobs in their hands' "$(jobq_sql 'SELECT count(*) FROM lost_job')"
line '  done under a later token' "$(jobq_sql 'SELECT count(*) FROM lost_job l JOIN shop_order o ON o.id = l.order_id
	WHERE o.tokens[array_position(o.steps, l.step)] > l.token')" "$(jobq_sql 'SELECT count(*) FROM lost_job')"
line 'leases of the stopped' "$(jobq_sql "SELECT count(DISTINCT token) FROM lost_job WHERE how = 'stalled'")"
line '  told by JQ001: a step, or its result, was refused' "$(told JQ001)"
line '  told by "lost", when they renewed it' "$(told lost)"
line '  not told' "$(jobq_sql "$unanswered")" 0
line 'dead letters, blocked groups' "$(jobq_sql "SELECT (SELECT count(*) FROM jobq.dead_letters) +
	(SELECT count(*) FROM jobq.groups WHERE state = 'BLOCKED')")" 0
line 'rows that groups left behind' "$(jobq_sql 'SELECT count(*) FROM jobq.groups')" 0
line 'workers that stopped well' "$stopped_well" "$workers"
line 'rows of jobq.verify()' "$(jobq_sql 'SELECT count(*) FROM jobq.verify()')" 0
line 'seconds' "$(awk -v t="$took" 'BEGIN { printf "%.1f", t / 1e6 }')"
line 'jobs per second, 10 to 20 ms of work in each' "$((orders * 4 * 1000000 / took))"
demo_verdict
