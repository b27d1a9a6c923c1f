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
time_limit=300 # seconds; for the work itself
declare -a pids=() names=() wake=() stopped=()
failed=0

bash test/lib/install-deps.sh demo
. test/lib/server.sh

# Ends the workers at once; each leads a process group, with its psql in it.
kill_workers()
{
	local pid
	for pid in "${pids[@]}" "${stopped[@]}"; do
		kill -KILL -- "-$pid" 2>/dev/null || true
	done
}

leave()
{
	local rc=$?
	trap '' INT TERM HUP
	kill_workers
	wait 2>/dev/null || true
	jobq_cleanup || true
	exit "$rc"
}

say()
{
	printf '\n== %s\n' "$*"
}

# One line of the table at the end; with a third argument, what it must be.
line()
{
	local verdict=
	if [ $# -ge 3 ]; then
		if [ "$2" = "$3" ]; then
			verdict=ok
		else
			verdict="WRONG, wanted $3"
			failed=1
		fi
	fi
	printf '  %-62s %7s  %s\n' "$1" "$2" "$verdict"
}

# Microseconds since the start.
clock()
{
	local now=$EPOCHREALTIME
	now=$((${now/[.,]/} - start))
}
