# What the demos share; source it after server.sh. The script sets failed=0, declares -a pids, and may redefine kill_workers.

# A heading.
say()
{
	printf '\n== %s\n' "$*"
}

# One line of the table at the end; with a third argument, what it must be. demo_width: of the first column.
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
	printf "  %-${demo_width:-42}s %9s  %s\n" "$1" "$2" "$verdict"
}

# Ends the workers at once; each leads a process group, with its psql in it.
kill_workers()
{
	local pid
	for pid in "${pids[@]}"; do
		kill -KILL -- "-$pid" 2>/dev/null || true
	done
}

# For trap leave EXIT.
leave()
{
	local rc=$?
	trap '' INT TERM HUP
	kill_workers
	wait 2>/dev/null || true
	jobq_cleanup || true
	exit "$rc"
}

# A server with jobq in it. Arguments: its settings.
demo_server()
{
	say 'a server of its own, with jobq built and installed in it'
	jobq_tmp
	trap leave EXIT
	jobq_start jit=off "$@"
	jobq_sql 'CREATE EXTENSION jobq'
	jobq_sql "SELECT version()" | cut -d, -f1
}

# The end of the script.
demo_verdict()
{
	((failed)) || return 0
	echo
	echo 'something is wrong'
	exit 1
}
