#!/bin/bash
# The benchmark: a private server, and jobq and its rivals in turns. doc/benchmarks.md says what each section means.
#
#	bash test/bench/run.sh [SECTION...]
#
# Sections, all of them when none is named:
#	enqueue enqueue_many drain life one_by_one snapshot claim latency waiters one_transaction queues limits
#	group_enqueue groups group_claim group_cycles group_fair
#
# Environment:
#	RUNS=5             runs, or pairs of runs; the median counts
#	SECS=10            length of a timed run
#	SNAPSHOT_SECS=120  length of a run under an old snapshot
#	OUT=file           also writes the tables there
#	PROFILE=1          samples the server with perf in the pgbench runs of jobq and rivals; PROFILE_DIR=. PROFILE_SECS=5
#	BACKLOG=500000 ONES=200000 MILLION=1000000 ROUNDS=2000 IDLE_SECS=20 IN_ONE=20000
#	GROUP_JOBS=100000
#	                   sizes: drain, one_by_one, claim, latency, waiters, one_transaction
#
# Ends with status 1 when anything falls short of what is wanted.
set -euo pipefail

RUNS=${RUNS:-5}
SECS=${SECS:-10}
SNAPSHOT_SECS=${SNAPSHOT_SECS:-120}
BACKLOG=${BACKLOG:-500000}
ONES=${ONES:-200000}
MILLION=${MILLION:-1000000}
ROUNDS=${ROUNDS:-2000}
IDLE_SECS=${IDLE_SECS:-20}
IN_ONE=${IN_ONE:-20000}
GROUP_JOBS=${GROUP_JOBS:-100000}
profile=${PROFILE:-}
unset PROFILE # the server's build rules take it for compiler flags
PROFILE_DIR=$(realpath "${PROFILE_DIR:-.}")
[ -z "${OUT:-}" ] || OUT=$(realpath "$OUT")
sections=(enqueue enqueue_many drain life one_by_one snapshot claim latency waiters one_transaction queues limits
	group_enqueue groups group_claim group_cycles group_fair)
chosen=("${@:-all}")
[ "${chosen[*]}" != all ] || chosen=("${sections[@]}")

cd "$(dirname "$0")/../.."
bash test/lib/install-deps.sh demo
. test/lib/server.sh
. test/bench/lib.sh
. test/bench/sections.sh
. test/bench/group_sections.sh

for s in "${chosen[@]}"; do
	declare -F "section_$s" >/dev/null || jobq_die "no section $s; there are: ${sections[*]}"
done
if [ -n "$profile" ] && ! perf record -q -e cpu-clock -o /dev/null -- true >/dev/null 2>&1; then
	jobq_die 'PROFILE=1 needs a working perf'
fi

leave()
{
	local rc=$? pid
	trap '' INT TERM HUP
	for pid in $(jobs -p); do
		kill -TERM "$pid" 2>/dev/null || true
	done
	jobq_cleanup || true
	exit "$rc"
}

jobq_tmp
trap leave EXIT
WORK=$JOBQ_TMP/bench
mkdir -p "$WORK"

# The settings of the rivals' README; a hundred waiting sessions need a few connections more than the default has.
jobq_start shared_buffers=2GB max_wal_size=8GB synchronous_commit=on max_connections=120
export PGDATABASE=bench
system_pg=$(jobq_pg_config) # libpq is not in the private tree
gcc -O2 -Wall -I"$("$system_pg" --includedir)" "$BENCH/waiters.c" -o "$WORK/waiters" -L"$("$system_pg" --libdir)" -lpq

for s in "${chosen[@]}"; do
	"section_$s"
done

{
	echo "$(sql -d postgres -c 'SELECT version()' | cut -d' ' -f1,2), $(nproc) processors, medians of $RUNS, $(date -u +%Y-%m-%d)"
	echo
	print_results
} | tee "$WORK/table"
[ -z "${OUT:-}" ] || cp "$WORK/table" "$OUT"
[ "$short" = 0 ]
