#!/bin/bash
# The stress test on a private server: clients and server processes are killed, connections cut, transactions rolled back,
# tokens forged; at the end an oracle accounts for every job. Exit status 0: no violation.
#
#	test/stress/run.sh                    the short form, a minute or so on two cores
#	test/stress/run.sh --jobs 100000      the long one
#	test/stress/run.sh --seed 42          the same random decisions as another run with this seed
#	test/stress/run.sh --self-test        does the oracle find what is wrong in fabricated runs? needs no server
#	test/stress/run.sh --groups           ordered groups: a minute; see groups.py for its other options
#	test/stress/run.sh --groups --workers 48 --producers 15 --groups-count 5000 --seconds 600 --pace 300
#	                                      the long one: 64 clients
#	also: --workers 8 --producers 3 --pace 700 --crashes 3 --hammer 20000 --seconds S --scheduler-harm auto|on|off
#	      --rescan auto|on|off
#
# After a violation the server's directory with the journals of all clients is kept and named.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3
export PYTHONDONTWRITEBYTECODE=1

script=stress.py
for arg in "$@"; do
	case $arg in
		--groups) script=groups.py ;;
		--self-test) exec "$python" "$here/selftest.py" ;;
		-h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
	esac
done

. "$here/../lib/server.sh"
"$python" -c 'import psycopg2' 2>/dev/null || jobq_die "no python3-psycopg2: run test/lib/install-deps.sh test first"

# kill -9 of a server process needs a server that starts again by itself. fsync stays on: it is what a user has.
jobq_start restart_after_crash=on max_prepared_transactions=20 max_connections=120 autovacuum=on autovacuum_naptime=5s \
	track_commit_timestamp=on 'log_line_prefix=%m [%p] %e %b %q%a '
# The server and its clients are one user's, who may signal both.
export PGOPTIONS='-c client_min_messages=error'
journal=$JOBQ_TMP/journal
mkdir "$journal"
chown "$JOBQ_OS_USER" "$journal"
rc=0
as_pg "$python" "$here/$script" --journal "$journal" --log "$JOBQ_TMP/server.log" "$@" || rc=$?
[ "$rc" = 0 ] || JOBQ_KEEP=1
exit "$rc"
