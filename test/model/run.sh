#!/bin/bash
# Checks the models: the design must hold, in a search that was finished, and each variant that drops a rule must be refuted, by the
# invariant that variants.txt names. A search that does not finish, or finds something else, fails.
#
#	bash test/model/run.sh                     what CI runs: a few minutes, at most 1 GB for each of two searches at a time
#	bash test/model/run.sh --soak              larger bounds too: half an hour, up to 8 GB
#	bash test/model/run.sh NAME...             some variants, by shell pattern
#
# JOBQ_KEEP=1 keeps the temporary directory: the checker's output, and for what was refuted the steps that lead there (trail.txt).
# The last line is "N passed, N failed"; the exit status is 1 when something failed. Needs spin and gcc.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
export LC_ALL=C.UTF-8

soak=
if [ "${1:-}" = --soak ]; then
	soak=1
	shift
fi
patterns=("$@")
here=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/jobq-model.XXXXXX")

on_exit()
{
	if [ -n "${JOBQ_KEEP:-}" ]; then
		echo "kept: $work" >&2
	else
		rm -rf "$work"
	fi
}
trap on_exit EXIT
trap 'exit 1' INT TERM

# search DIR MODEL OPTIONS LIVE EXPECTED: runs the checker in DIR. Its output is in pan.out.
search()
{
	local dir=$1 model=$2 live=$4 optimize=-O1 o
	local -a flags=() cc=(-DSAFETY) run=() limits=(-w22 -m500000)
	for o in $3; do
		flags+=("-D$o")
	done
	if [ -n "$live" ]; then
		flags+=(-DLIVE)
		cc=(-DNFAIR=3)
		run=(-a -f)
	fi
	# at a small bound the compiler takes longer than the search, and what is refuted is so at once
	[ "$5" = holds ] || optimize=-O0
	[ -z "$soak" ] || limits=(-w26 -m2000000) optimize=-O2
	cd "$dir" || return 1
	cp "$here/$model.pml" .
	spin "${flags[@]}" -a "$model.pml" >spin.out 2>&1 || return 1
	gcc $optimize -w -DCOLLAPSE "-DMEMLIM=$memory" "${cc[@]}" -o pan pan.c >>spin.out 2>&1 || return 1
	timeout "$seconds" ./pan "${run[@]}" "${limits[@]}" >pan.out 2>&1 || return 1
	[ ! -e "$model.pml.trail" ] || [ -z "${JOBQ_KEEP:-}" ] || spin "${flags[@]}" -t -p -g -l "$model.pml" >trail.txt 2>&1
	return 0
}

# found DIR: what the search has come to.
found()
{
	local out=$1/pan.out
	if [ ! -s "$out" ]; then
		echo "no result"
	elif grep -qE 'max search depth too small|out of memory|memory limit' "$out"; then
		echo "not finished: $(grep -oE 'max search depth too small|out of memory|memory limit' "$out" | head -1)"
	elif grep -q '^pan:1: invalid end state' "$out"; then
		echo deadlock
	elif grep -q '^pan:1: acceptance cycle' "$out"; then
		echo cycle
	elif grep -q '^pan:1: assertion violated' "$out"; then
		sed -nE 's/.*assertion violated \(([A-Z]+[0-9]*)\|\|.*/\1/p; t; s/.*(assertion violated.*)/\1/p' "$out" | head -1
	elif grep -q 'errors: 0' "$out" && ! grep -q 'Search not completed' "$out"; then
		echo holds
	else
		echo "not finished"
	fi
}

# one LINE: checks a variant and prints its result.
one()
{
	local name model expected options live= got dir start
	IFS='|' read -r name model expected options <<<"$1"
	read -r name <<<"$name"
	read -r model <<<"$model"
	read -r expected <<<"$expected"
	[ "${name#live-}" = "$name" ] || live=1
	dir=$work/$name
	mkdir "$dir"
	start=$(date +%s.%N)
	if (search "$dir" "$model" "$options" "$live" "$expected"); then
		got=$(found "$dir")
	elif [ -s "$dir/pan.out" ]; then
		got="not finished in $seconds s"
	else
		got="no checker: $(head -c 300 "$dir/spin.out")"
	fi
	printf '%s - %s: %s (%s states, %.1f s)\n' "$([ "$got" = "$expected" ] && echo ok || echo 'not ok')" "$name" \
		"$([ "$got" = "$expected" ] && echo "$got" || echo "$got, not $expected")" \
		"$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$dir/pan.out" 2>/dev/null | head -1)" \
		"$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')"
	[ -n "${JOBQ_KEEP:-}" ] || rm -rf "$dir"
}

# wanted NAME: whether the command line asks for it.
wanted()
{
	local p
	[ ${#patterns[@]} -gt 0 ] || return 0
	for p in "${patterns[@]}"; do
		# shellcheck disable=SC2254
		case $1 in
			$p) return 0 ;;
		esac
	done
	return 1
}

for tool in spin gcc; do
	command -v $tool >/dev/null || { echo "not ok - $tool is missing"; echo "0 passed, 1 failed"; exit 1; }
done

# Larger searches need the memory for themselves.
if [ -n "$soak" ]; then
	memory=8000 seconds=3600 at_once=1
else
	memory=1000 seconds=$((120 * ${JOBQ_TIMEOUT_SCALE:-1})) at_once=2
fi

results=$work/results
: >"$results"
in_soak=
while read -r line; do
	case $line in
		'' | '#'*) continue ;;
		soak)
			in_soak=1
			continue
			;;
	esac
	read -r name _ <<<"$line"
	if ! wanted "$name" || { [ -n "$in_soak" ] && [ -z "$soak" ]; }; then
		continue
	fi
	while [ "$(jobs -rp | wc -l)" -ge $at_once ]; do
		wait -n
	done
	one "$line" | tee -a "$results" &
done <variants.txt
wait

passed=$(grep -c '^ok - ' "$results")
failed=$(grep -c '^not ok - ' "$results")
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
