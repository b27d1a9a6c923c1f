#!/bin/bash
# The demo: a throw-away server, one job per file, four workers in plain bash and psql, one of them killed in the middle.
# At the end every result is compared with what sha256sum says.
#
#	bash test/demo.sh [FOLDER]
#
# FOLDER is /usr/share/doc when none is given; where it has fewer than 2,000 files, 2,000 are made. Its files must hold
# still meanwhile. Nothing stays behind but the packages that were missing. Ends with status 0 when all is right.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=${1:-/usr/share/doc}
workers=4
few=2000
time_limit=300 # seconds; for the work itself
declare -a pids=()
failed=0

bash test/lib/install-deps.sh demo
. test/lib/server.sh
. test/lib/demo.sh

# The files to hash, one path a line. Left out: what cannot be read, is larger than the short lease of the demo is good
# for, or has a name that is no line of UTF-8.
list_files()
{
	find "$1" -type f -readable -size -64M ! -path $'*\n*' -print | LC_ALL=C.UTF-8 grep -ax '.*' | sort || true
}

make_files()
{
	local i
	mkdir -p "$JOBQ_TMP/files"
	for ((i = 1; i <= few; i++)); do
		printf "file %d of the demo's own\n%*s\n" "$i" "$((i * 7 % 5000))" "$i" >"$JOBQ_TMP/files/it's no. $i"
	done
}

counts()
{
	jobq_sql "SELECT ready, delayed, active, dead, completed_total, retried_total FROM jobq.queues WHERE queue = 'demo'"
}

# Stops one worker, makes sure that it holds jobs, and kills it. Sets "victim" to its name, empty when it holds none.
kill_one()
{
	local n=$1 pid=${pids[$1]} tries state
	victim=worker-$((n + 1))
	kill -STOP -- "-$pid"
	# The statement it may just have sent is done with when its session rests.
	for ((tries = 0; tries < 100; tries++)); do
		state=$(jobq_sql "SELECT state FROM pg_stat_activity WHERE application_name = '$victim'")
		[ "$state" = active ] || break
		sleep 0.05
	done
	jobq_sql "SELECT job_id FROM jobq.jobs WHERE queue = 'demo' AND state = 'active' AND worker = '$victim'" >"$JOBQ_TMP/held"
	if [ ! -s "$JOBQ_TMP/held" ]; then
		kill -CONT -- "-$pid"
		victim=
		return 0
	fi
	kill -KILL -- "-$pid"
	wait "$pid" 2>/dev/null || true
	unset "pids[$n]"
	echo "          kill -9 of $victim and its psql, $(wc -l <"$JOBQ_TMP/held") jobs in its hands"
}

demo_server max_connections=20
jobq_sql "SELECT FROM jobq.create_queue('demo', max_attempts => 3, lease => '3 s', backoff => 'exponential_jitter', backoff_base => '300 ms')"

list_files "$folder" >"$JOBQ_TMP/paths"
if [ "$(wc -l <"$JOBQ_TMP/paths")" -lt "$few" ]; then
	make_files
	folder="$few generated files"
	list_files "$JOBQ_TMP/files" >"$JOBQ_TMP/paths"
fi
total=$(wc -l <"$JOBQ_TMP/paths")

say "one job per file: $total jobs for $folder"
# Every 50th job fails its first attempt, every 500th all of them.
psql -X -q -A -t -v ON_ERROR_STOP=1 <<SQL
\set paths \`cat $JOBQ_TMP/paths\`
CREATE TABLE demo_jobs AS
	WITH file AS (
		SELECT path, n, CASE WHEN n % 500 = 499 THEN 99 WHEN n % 50 = 0 THEN 1 END AS fail_first
		FROM string_to_table(:'paths', E'\n') WITH ORDINALITY AS f (path, n)
	), made AS (
		SELECT * FROM jobq.enqueue_many('demo', (SELECT jsonb_agg(jsonb_strip_nulls(
			jsonb_build_object('path', path, 'fail_first', fail_first)) ORDER BY n) FROM file), name => 'hash')
	)
	SELECT made.job_id, file.path, coalesce(file.fail_first, 0) AS fail_first FROM made JOIN file ON file.n = made.ord;
SQL
once=$(jobq_sql 'SELECT count(*) FROM demo_jobs WHERE fail_first = 1')
always=$(jobq_sql 'SELECT count(*) FROM demo_jobs WHERE fail_first > 1')

say "$workers workers; $once jobs are to fail once, $always always"
printf '%8s %8s %8s %8s %8s %10s %8s\n' second ready delayed active dead completed retried
start=$EPOCHREALTIME
for ((n = 0; n < workers; n++)); do
	# A process group each: Ctrl-C reaches this script alone, and one kill reaches a worker's psql as well.
	setsid bash test/demo/worker.sh "worker-$((n + 1))" &
	pids[n]=$!
done

victim='' shown=-1 next=0
while :; do
	counted=$(counts)
	IFS='|' read -r ready delayed active dead completed retried <<<"$counted"
	now=$EPOCHREALTIME
	second=$(((${now/[.,]/} - ${start/[.,]/}) / 1000000))
	open=$((ready + delayed + active))
	if ((second > shown || open == 0)); then
		printf '%8d %8d %8d %8d %8d %10d %8d\n' "$second" "$ready" "$delayed" "$active" "$dead" "$completed" "$retried"
		shown=$second
	fi
	((open > 0)) || break
	if ((second > time_limit)); then
		echo "not done after $time_limit seconds"
		failed=1
		break
	fi
	if [ -z "$victim" ] && ((completed * 5 > total)); then
		kill_one "$next"
		next=$(((next + 1) % workers))
	fi
	sleep 0.1
done

# A worker that is told to stop ends well; the killed one is no longer in the list.
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

# What sha256sum says (ended by NUL: then it does not rewrite odd names), and what the jobs' results say.
tr '\n' '\0' <"$JOBQ_TMP/paths" | xargs -0 sha256sum -z -- | tr '\0' '\n' | LC_ALL=C sort >"$JOBQ_TMP/wanted"
jobq_sql "SELECT (result #>> '{}') || '  ' || (payload->>'path') FROM jobq.jobs
	WHERE queue = 'demo' AND state = 'completed'" | LC_ALL=C sort >"$JOBQ_TMP/found"
completed=$(jobq_sql "SELECT count(*) FROM jobq.jobs WHERE queue = 'demo' AND state = 'completed'")
dead=$(jobq_sql "SELECT count(*) FROM jobq.jobs WHERE queue = 'demo' AND state = 'dead'")
right=$(LC_ALL=C comm -12 "$JOBQ_TMP/wanted" "$JOBQ_TMP/found" | wc -l)
lost=$(jobq_sql "SELECT count(*) FROM demo_jobs d WHERE NOT EXISTS (SELECT FROM jobq.jobs j
	WHERE j.job_id = d.job_id AND j.state IN ('completed', 'dead'))")
seconds=$(jobq_sql "SELECT round(extract(epoch FROM max(j.finished) - to_timestamp('${start/,/.}'))::numeric, 2)
	FROM jobq.jobs j WHERE j.queue = 'demo' AND j.state = 'completed'")
held=$(wc -l <"$JOBQ_TMP/held" 2>/dev/null || echo 0)

say 'result'
line 'jobs' "$total"
line 'done' "$completed" "$((total - always))"
line '  of them with the hash that sha256sum finds' "$right" "$((total - always))"
line 'retried after a failure or a lost lease' "$retried"
line '  jobs that failed once and are done' "$(jobq_sql "SELECT count(*) FROM demo_jobs d JOIN jobq.jobs j USING (job_id)
	WHERE d.fail_first = 1 AND j.state = 'completed' AND j.attempt > 1")" "$once"
line 'dead' "$dead" "$always"
line '  of them meant to be' "$(jobq_sql "SELECT count(*) FROM demo_jobs d JOIN jobq.jobs j USING (job_id)
	WHERE d.fail_first > 1 AND j.state = 'dead' AND j.attempt = 3")" "$always"
if [ -n "$victim" ]; then
	line "in the killed worker's hands" "$held"
	line '  of them ended by others' "$(jobq_sql "SELECT count(*) FROM jobq.jobs WHERE attempt > 1
		AND state IN ('completed', 'dead') AND worker IS DISTINCT FROM '$victim'
		AND job_id IN ($(paste -sd, "$JOBQ_TMP/held"))")" "$held"
else
	line 'workers killed with jobs in their hands' 0 1
fi
line 'lost' "$lost" 0
line 'workers that stopped well' "$stopped_well" "$((workers - 1))"
line 'rows of jobq.verify()' "$(jobq_sql 'SELECT count(*) FROM jobq.verify()')" 0
line 'seconds to the last hash' "$seconds"
line 'jobs per second (a new sha256sum for each)' "$(awk -v n="$completed" -v s="$seconds" 'BEGIN { printf "%d", n / s }')"
demo_verdict
