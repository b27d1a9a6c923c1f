#!/bin/bash
# A jobq worker for ordered groups in plain bash and psql. A job is one step of an order: {"order": 7, "step": "pay"}.
#
#	PGHOST=... PGDATABASE=... bash order-worker.sh NAME [QUEUE [BATCH]]
#
# To make it yours, change begin(), work() and effect(). SIGTERM stops it: it ends the job at hand and gives the rest back.
set -u

name=$1
queue=${2:-orders}
batch=${3:-4}
renew_after=300000 # microseconds; a third of the queue's lease

# One psql for the worker's whole life, its session named after the worker.
coproc DB { exec env PGAPPNAME="$name" psql -X -q -A -t -F ' '; }
exec {to_db}>&"${DB[1]}" {from_db}<&"${DB[0]}"
exec {never}<> <(:) # nothing ever comes from here: read -t on it is a sleep

# Sends a request: one statement, or several divided by \; which are one transaction. The array "rows" is its answer, "sqlstate"
# says how it went, 00000 for well.
sql()
{
	local row
	rows=()
	printf '%s;\n\\echo end of answer :SQLSTATE\n' "$1" >&"$to_db"
	while IFS= read -r row <&"$from_db"; do
		if [[ $row == 'end of answer '* ]]; then
			sqlstate=${row##* }
			[ "$sqlstate" = 00000 ]
			return
		fi
		rows+=("$row")
	done
	echo "$name: the session has ended" >&2
	exit 1
}

# Joins the elements with commas: an SQL array's inside.
commas()
{
	local IFS=,
	echo "$*"
}

# What a step does first, for all to see: it cannot be taken back. Only whose the group is may do it.
begin()
{
	sql "SELECT jobq.assert_lease($id, $token)\\; INSERT INTO step_begun (order_id, step, token, worker) VALUES ($order, '$step', $token, '$name')"
}

# Takes some time; what takes long renews the lease meanwhile. False: stop at once.
work()
{
	local slices=1
	[ -z "$slow" ] || slices=100
	while :; do
		read -r -t "0.0$((RANDOM % 10 + 10))" -u "$never"
		((--slices > 0)) || return 0
		renew || return 1
	done
}

# Its result, in the transaction that completes the job: both, or neither.
effect()
{
	sql "UPDATE shop_order SET steps = array_append(steps, '$step'), tokens = array_append(tokens, $token) WHERE id = $order\\; SELECT jobq.complete($id, $token)"
}

# Renews the leases of the job at hand and of those that come after it, once a third of their time has passed. False: the job at
# hand is not ours any more, or is not wanted.
renew()
{
	local i now=${EPOCHREALTIME/[.,]/}
	((now - renewed > renew_after)) || return 0
	renewed=$now
	sql "SELECT status FROM jobq.extend_many('{$(commas "${ids[@]:n}")}', '{$(commas "${tokens[@]:n}")}')" || return 1
	for i in "${!rows[@]}"; do
		case ${rows[i]} in
			lost) gone[${tokens[n + i]}]=lost ;; # somebody else has the group
			cancel) [ "$i" != 0 ] || unwanted=1 ;;
			drain) stop=1 ;; # the job at hand may end, no other begins
		esac
	done
	[ -z "${gone[$token]:-}" ] && [ -z "$unwanted" ]
}

stop=
trap 'stop=1' TERM INT
trap '' PIPE # a lost psql shows at the next read

while [ -z "$stop" ]; do
	# Returns at once when there is work, and the moment some comes; so this is no polling. Jobs of one group come in their order,
	# under one token.
	sql "SELECT job_id, token, payload->>'order', payload->>'step', payload->>'slow'
		FROM jobq.dequeue('$queue', $batch, group_batch => $batch, worker => '$name', wait => '1 s')" || exit 1
	jobs=("${rows[@]}")
	ids=() tokens=()
	for job in "${jobs[@]}"; do
		read -r id token _ <<<"$job"
		ids+=("$id") tokens+=("$token")
	done
	renewed=${EPOCHREALTIME/[.,]/}
	declare -A gone=() # tokens that are no good any more
	for n in "${!jobs[@]}"; do
		read -r id token order step slow <<<"${jobs[n]}"
		unwanted=
		if [ -n "${gone[$token]:-}" ]; then
			: # what comes after a job that did not end is not ours either
		elif [ -n "$stop" ]; then
			sql "SELECT jobq.release($id, $token)" # those after it go back with it; after a drain the group has gone already
			gone[$token]=released
		elif renew && begin && work && effect; then
			continue
		elif [ "$sqlstate" = JQ001 ]; then
			gone[$token]=JQ001
		elif [ -z "${gone[$token]:-}" ]; then
			# an error of its own, or somebody asked for the job's end: fail answers to both
			sql "SELECT jobq.fail($id, $token, 'error $sqlstate')"
			gone[$token]=failed
		fi
		sql "INSERT INTO step_refused (order_id, step, token, worker, said) VALUES ($order, '$step', $token, '$name', '${gone[$token]}')"
	done
done
