#!/bin/bash
# The same steps (steps.txt) and the worker of doc/clients.md with five drivers, directly and through PgBouncer in transaction mode.
# Installs what is missing. Prints TAP per driver; the last line is "N passed, N failed".
#
#	bash test/clients/run.sh               all
#	bash test/clients/run.sh python go     some: python (psycopg 3), node (node-postgres), go (pgx), java (JDBC), c (libpq)
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec </dev/null
export LC_ALL=C.UTF-8

langs=("$@")
[ $# -gt 0 ] || langs=(python node go java c)
passed=0
failed=0
here=$PWD/test/clients

result()
{
	if [ "$1" = 0 ]; then
		passed=$((passed + 1))
		echo "ok - $2"
	else
		failed=$((failed + 1))
		echo "not ok - $2"
	fi
}

bash test/lib/install-deps.sh clients || exit 1
. test/lib/server.sh
. test/clients/paths.sh

out=
cleanup()
{
	[ ! -s "$out/pooler.pid" ] || kill "$(cat "$out/pooler.pid")" 2>/dev/null
	jobq_cleanup
}

# build LANG: programs that need it, into $out.
build()
{
	case $1 in
		go) (cd test/clients/go && go build -modfile="$GO_MOD" -o "$out/go/" ./worker ./steps) ;;
		java) javac -Xlint:all -Werror -cp "$JDBC_JAR" -d "$out/java" "$here"/java/*.java ;;
		c)
			local p conf
			conf=$(jobq_pg_config) # the system's: the private server has no headers of libpq
			for p in worker steps; do
				gcc -std=gnu99 -Wall -Wextra -Werror -O1 -o "$out/c/$p" "$here/c/$p.c" -I"$("$conf" --includedir)" -L"$("$conf" --libdir)" -lpq || return 1
			done
			;;
	esac
}

# program LANG steps|worker: sets the array cmd.
program()
{
	case $1 in
		python) cmd=("$PY_VENV/bin/python" "$here/python/$2.py") ;;
		node) cmd=(env NODE_PATH="$CLIENTS_DIR/node/node_modules" node "$here/node/$2.js") ;;
		go) cmd=("$out/go/$2") ;;
		java)
			local main=Worker
			[ "$2" = worker ] || main=Steps
			cmd=(java -XX:TieredStopAtLevel=1 -cp "$JDBC_JAR:$out/java" "$main")
			;;
		c) cmd=("$out/c/$2") ;;
	esac
}

# client MODE COMMAND...: becomes the command, with the environment of a client; call it in a subshell.
client()
{
	local mode=$1 port=$server_port pooled=0
	shift
	[ "$mode" = direct ] || port=$pooler_port pooled=1
	exec env PGHOST=127.0.0.1 PGPORT="$port" PGUSER=postgres PGPASSWORD="$password" PGDATABASE="$db" JOBQ_POOLED=$pooled "$@"
}

sql()
{
	PGDATABASE=$db jobq_sql "$1"
}

# Three server sessions in the pool, for two clients: with two they could have one each for ever.
fill_pool()
{
	local pids=()
	for _ in 1 2 3; do
		(client pooled psql -X -q -A -t -c 'SELECT pg_sleep(0.5)') >/dev/null &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# run_steps LANG MODE: every step of steps.txt must have come, in its order.
run_steps()
{
	local log=$out/log rc=0 p q wanted
	program "$1" steps
	(client "$2" timeout --kill-after=5 60 "${cmd[@]}" "$here/steps.txt") >"$log" 2>&1 || rc=$?
	cat "$log"
	p=$(grep -c '^ok ' "$log")
	q=$(grep -c '^not ok ' "$log")
	passed=$((passed + p))
	failed=$((failed + q))
	wanted=$(sed -nE 's/^(call|do( direct)?) //p' "$here/steps.txt")
	[ "$(sed -nE 's/^(not )?ok [0-9]+ - //; T; s/ # SKIP.*//; p' "$log")" = "$wanted" ] || rc=1
	[ "$rc" = 0 ] || [ "$q" != 0 ] || result 1 "$1, $2: all steps, and exit status 0 (it was $rc)"
}

# until_sql SECONDS QUERY: polls until it answers t.
until_sql()
{
	local end=$((SECONDS + $1))
	while [ "$(sql "$2")" != t ]; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

# Twenty letters; one that can never be sent; one whose first sending outlasts its lease, so that the other worker takes it over.
worker_setup='
CREATE TABLE mail_sent (address text NOT NULL);
CREATE SEQUENCE tries;
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.address = $x$late$x$ THEN PERFORM pg_sleep(1);
	ELSIF nextval($x$tries$x$) = 1 THEN PERFORM pg_sleep(2); END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER slow BEFORE INSERT ON mail_sent FOR EACH ROW WHEN (NEW.address IN ($x$slow$x$, $x$late$x$)) EXECUTE FUNCTION slow();
SELECT jobq.create_queue($x$mail$x$, max_attempts => 20, lease => $x$700 ms$x$, backoff => $x$fixed$x$, backoff_base => $x$0$x$);
SELECT jobq.enqueue($x$mail$x$, $x${"to": "slow"}$x$, priority => 1);
SELECT jobq.enqueue($x$mail$x$, $x${"address": 5}$x$, max_attempts => 2);
SELECT count(*) FROM jobq.enqueue_many($x$mail$x$, (SELECT jsonb_agg(jsonb_build_object($x$to$x$, n)) FROM (SELECT n::text || $x$@example.org$x$ AS n FROM generate_series(1, 20) n) x));
'

# run_workers LANG MODE: two of the documentation's workers.
run_workers()
{
	local what="$1, $2, worker" pids=() pid rc before=$failed
	sql "$worker_setup" >/dev/null || { result 1 "$what: its queue is set up"; return; }
	program "$1" worker
	: >"$out/log"
	for _ in 1 2; do
		client "$2" timeout --kill-after=5 60 "${cmd[@]}" mail >>"$out/log" 2>&1 &
		pids+=($!)
	done
	until_sql 20 "SELECT count(*) = 0 FROM jobq.jobs WHERE queue = 'mail' AND state NOT IN ('completed', 'dead')"
	result $? "$what: all jobs end"
	[ "$(sql "SELECT count(*) FROM jobq.jobs WHERE queue = 'mail' AND state = 'completed' AND result ->> 'sent' = payload ->> 'to'")" = 21 ]
	result $? "$what: results are kept"
	[ "$(sql "SELECT attempt || ' ' || (length(last_error) > 3) FROM jobq.dead_letters WHERE payload ? 'address'")" = '2 true' ]
	result $? "$what: a job that cannot be done is dead after its attempts, with the error"
	until_sql 5 "SELECT last_value > 1 FROM tries" && until_sql 5 "SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE '%mail_sent%' AND state = 'active' AND pid <> pg_backend_pid()"
	result $? "$what: a job whose lease ended is done by the other one"
	sql "SELECT jobq.alter_queue('mail', lease => '1 min')" >/dev/null
	sql "SELECT jobq.enqueue('mail', '{\"to\": \"late\"}')" >/dev/null
	until_sql 5 "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%mail_sent%' AND wait_event = 'PgSleep'"
	for pid in "${pids[@]}"; do kill -TERM "$pid"; done
	for pid in "${pids[@]}"; do
		wait "$pid"
		rc=$?
		# A Java program that a SIGTERM ended says so whatever it did before.
		[ "$1" != java ] || [ $rc != 143 ] || rc=0
		[ $rc = 0 ] || { echo "# exit status $rc"; break; }
	done
	result $rc "$what: leaves on SIGTERM"
	[ "$(sql "SELECT count(*) FROM mail_sent WHERE address = 'late'")" = 1 ] && [ "$(sql "SELECT active FROM jobq.queues WHERE queue = 'mail'")" = 0 ]
	result $? "$what: after the job in hand"
	# Now that both are gone: the one that lost its lease was the last to write.
	[ "$(sql "SELECT count(*) || ' ' || count(DISTINCT address) FROM mail_sent")" = '22 22' ]
	result $? "$what: what they write is there once"
	grep -q 'lost' "$out/log"
	result $? "$what: says that it lost a lease"
	[ "$failed" = "$before" ] || sed 's/^/# /' "$out/log"
}

jobq_tmp
trap cleanup EXIT
out=$JOBQ_TMP/clients
mkdir -p "$out"/{go,java,c}

t=$SECONDS
ready=()
for lang in "${langs[@]}"; do
	if bash test/clients/install.sh "$lang" && build "$lang"; then
		ready+=("$lang")
	else
		result 1 "$lang: installed and built"
	fi
done
echo "# installed and built in $((SECONDS - t)) s"

read -r server_port pooler_port < <(/usr/bin/python3 -c '
import socket
s = [socket.socket(), socket.socket()]
for x in s: x.bind(("127.0.0.1", 0))
print(*[x.getsockname()[1] for x in s])')
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
# Not all drivers know unix sockets, so it listens on the loopback address, with a password.
JOBQ_FLAVOUR=plain
jobq_start fsync=off max_connections=60 max_worker_processes=40 password_encryption=scram-sha-256
jobq_sql "ALTER ROLE postgres PASSWORD '$password'" || exit 1
printf 'local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n' >"$JOBQ_DATA/pg_hba.conf"
printf "listen_addresses = '127.0.0.1'\nport = %s\n" "$server_port" >>"$JOBQ_DATA/postgresql.conf"
export PGPORT=$server_port
jobq_restart

# Each transaction goes to the server session that has rested longest.
cat >"$out/pgbouncer.ini" <<INI
[databases]
* = host=$PGHOST port=$server_port user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $pooler_port
unix_socket_dir =
pidfile = $out/pooler.pid
auth_type = scram-sha-256
auth_file = $out/users
pool_mode = transaction
default_pool_size = 4
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
INI
printf '"postgres" "%s"\n' "$password" >"$out/users"
chown -R "$JOBQ_OS_USER" "$out"
chmod 600 "$out/users"
as_pg "$(PATH=$PATH:/usr/sbin command -v pgbouncer)" -q "$out/pgbouncer.ini" >"$out/pooler.log" 2>&1 &
db=postgres
for _ in $(seq 100); do
	(client pooled psql -X -q -c 'SELECT 1') >/dev/null 2>&1 && break
	sleep 0.1
done
(client pooled psql -X -q -c 'SELECT 1') >/dev/null 2>&1 || { cat "$out/pooler.log"; result 1 'pgbouncer is up'; }

# A function without a step would be one that no driver was tried with; these are not for users, or called below.
sql 'CREATE EXTENSION jobq'
missing=$(sql "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'jobq'::regnamespace AND prorettype <> 'trigger'::regtype
	AND proname NOT IN ('register_database', 'verify', 'may_read', 'may_see', 'lease_counts')" | while read -r f; do grep -q "^	sql .*jobq\.$f(" test/clients/steps.txt || echo "$f"; done)
[ -z "$missing" ]
result $? "every function has a step"
[ -z "$missing" ] || echo "# without one:" $missing

for lang in "${ready[@]}"; do
	for mode in direct pooled; do
		t=$SECONDS
		db=client_${lang}_$mode
		echo "# $lang, $mode"
		PGDATABASE=postgres jobq_sql "CREATE DATABASE $db" && sql 'CREATE EXTENSION jobq' || { result 1 "$lang, $mode: its database"; continue; }
		[ "$mode" = direct ] || fill_pool
		run_steps "$lang" "$mode"
		run_workers "$lang" "$mode"
		rows=$(sql 'SELECT * FROM jobq.verify()' 2>&1)
		[ -z "$rows" ]
		result $? "$lang, $mode: verify()"
		[ -z "$rows" ] || echo "$rows" | sed 's/^/# /'
		PGDATABASE=postgres jobq_sql "DROP DATABASE $db WITH (FORCE)"
		echo "# $lang, $mode: $((SECONDS - t)) s"
	done
done
crashes=$(grep -aE 'was terminated by signal|TRAP:|PANIC:' "$JOBQ_TMP/server.log")
[ -z "$crashes" ]
result $? 'the server did not crash'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
