#!/bin/bash
# A jobq worker in plain bash and psql. It hashes files: a job's payload is {"path": "/a/file"}, its result the SHA-256.
#
#	PGHOST=... PGDATABASE=... bash worker.sh NAME [QUEUE [BATCH]]
#
# To make it yours, change work() and the columns that the dequeue selects. SIGTERM stops it: it ends the job at hand,
# reports what is done and gives the rest back.
set -u

name=$1
queue=${2:-demo}
batch=${3:-20}
renew_after=1 # seconds; a third of the queue's lease

# One psql for the worker's whole life, its session named after the worker.
coproc DB { exec env PGAPPNAME="$name" psql -X -q -A -t -F ' ' -v ON_ERROR_STOP=1; }
exec {to_db}>&"${DB[1]}" {from_db}<&"${DB[0]}"

# Sends a statement; the array "rows" is its answer, one element a row. An error ends psql, and so the worker: what it held
# comes back when the lease is over.
sql()
{
	local row
	rows=()
	printf '%s;\n\\echo end of answer\n' "$1" >&"$to_db"
	while IFS= read -r row <&"$from_db"; do
		[ "$row" != 'end of answer' ] || return 0
		rows+=("$row")
	done
	echo "$name: the session has ended" >&2
	exit 1
}

# A text as an SQL literal.
literal()
{
	printf "'%s'" "${1//\'/\'\'}"
}

# One job. Prints the result; when it fails, the error.
work()
{
	local attempt=$1 fail_first=$2 path=$3 out

	# For the demo: some jobs are told to fail their first attempts.
	if ((attempt <= fail_first)); then
		echo "attempt $attempt fails on purpose"
		return 1
	fi
	out=$(sha256sum 2>&1 <"$path") || { echo "cannot hash $path: $out"; return 1; }
	echo "${out%% *}"
}

# Joins the elements with commas: an SQL array's inside.
commas()
{
	local IFS=,
	echo "$*"
}

stop=
trap 'stop=1' TERM INT
trap '' PIPE # a lost psql shows at the next read

while [ -z "$stop" ]; do
	# Returns at once when there is work, and the moment some comes; so this is no polling.
	sql "SELECT job_id, token, attempt, coalesce(payload->>'fail_first', '0'), payload->>'path'
		FROM jobq.dequeue('$queue', $batch, worker => '$name', wait => '1 s')"
	jobs=("${rows[@]}")
	ids=() tokens=() done_ids=() done_tokens=() results=()
	for job in "${jobs[@]}"; do
		read -r id token _ <<<"$job"
		ids+=("$id") tokens+=("$token")
	done
	renewed=$SECONDS
	n=0
	for job in "${jobs[@]}"; do
		[ -z "$stop" ] || break
		read -r id token attempt fail_first _ <<<"$job"
		path=${job#* * * * } # all after the fourth space, whatever a file's name holds
		if out=$(work "$attempt" "$fail_first" "$path"); then
			done_ids+=("$id") done_tokens+=("$token") results+=("\"$out\"")
		else
			sql "SELECT status FROM jobq.fail_many('{$id}', '{$token}', $(literal "$out"))"
		fi
		n=$((n + 1))
		if ((SECONDS - renewed >= renew_after)); then
			sql "SELECT status FROM jobq.extend_many('{$(commas "${ids[@]}")}', '{$(commas "${tokens[@]}")}')"
			renewed=$SECONDS
		fi
	done
	# A job whose lease was lost answers "lost" here and changes nothing: somebody else has it.
	if ((${#done_ids[@]} > 0)); then
		sql "SELECT status FROM jobq.complete_many('{$(commas "${done_ids[@]}")}', '{$(commas "${done_tokens[@]}")}',
			'[$(commas "${results[@]}")]')"
	fi
	if ((n < ${#ids[@]})); then
		sql "SELECT status FROM jobq.release_many('{$(commas "${ids[@]:n}")}', '{$(commas "${tokens[@]:n}")}')"
	fi
done
