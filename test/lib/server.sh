# Bash functions for a throw-away server with jobq in it. Source this file; it needs no installed jobq and changes nothing
# outside one temporary directory.
#
#	. test/lib/server.sh
#	jobq_build                    build this checkout; plain, or: jobq_build debug  (-DJOBQ_DEBUG)
#	jobq_start work_mem=8MB ...   new cluster with jobq preloaded; sets PGHOST, PGPORT, PGUSER, PGDATABASE, JOBQ_DATA
#	jobq_sql 'SELECT 1'           psql, no psqlrc, unaligned, stops at the first error
#	as_pg command ...             run a command as the server's user, with the built server's programs first in PATH
#	jobq_stop [fast|immediate]    jobq_restart [fast|immediate]
#
# Everything is stopped and removed when the shell exits (JOBQ_KEEP=1 keeps the directory). A script with an EXIT trap of
# its own calls jobq_cleanup in it.
#
# How it stays private: the server's programs are copied, and its libraries and data linked, into a directory tree of the
# same shape; PostgreSQL finds its files relative to its programs, so that tree is an installation of its own.

JOBQ_SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
JOBQ_TMP=
JOBQ_DATA=
JOBQ_BIN=

# A message to stderr and the end of the script.
jobq_die()
{
	echo "error: $*" >&2
	exit 1
}

# The user that runs the server: root may not.
if [ "$(id -u)" = 0 ]; then
	JOBQ_OS_USER=postgres
else
	JOBQ_OS_USER=$(id -un)
fi

as_pg()
{
	if [ "$(id -u)" = 0 ]; then
		# setpriv replaces itself, so that a signal to this process reaches the command.
		(cd "${JOBQ_TMP:-/}" && exec setpriv --reuid=postgres --regid=postgres --init-groups \
			env HOME="${JOBQ_TMP:-/}" USER=postgres LOGNAME=postgres "$@")
	else
		(cd "${JOBQ_TMP:-/}" && exec "$@")
	fi
}

# Makes the temporary directory; called by the others when it is needed.
jobq_tmp()
{
	[ -z "$JOBQ_TMP" ] || return 0
	[ "$(id -u)" != 0 ] || id postgres >/dev/null 2>&1 || jobq_die "no user postgres: run test/lib/install-deps.sh first"
	# A short path: a unix socket's name may not pass 107 bytes.
	JOBQ_TMP=$(mktemp -d /tmp/jobq.XXXXXX) || exit 1
	chmod 755 "$JOBQ_TMP"
	chown "$JOBQ_OS_USER" "$JOBQ_TMP"
	trap jobq_cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

# The server's own pg_config: the newest installed one that has server headers.
jobq_pg_config()
{
	if [ -n "${PG_CONFIG:-}" ]; then
		echo "$PG_CONFIG"
		return
	fi
	local c
	for c in $(ls -vr /usr/lib/postgresql/*/bin/pg_config 2>/dev/null) pg_config; do
		if [ -e "$("$c" --includedir-server 2>/dev/null)/postgres.h" ]; then
			echo "$c"
			return
		fi
	done
	jobq_die "no PostgreSQL server headers: run test/lib/install-deps.sh first"
}

# An installation tree of its own at $1: programs copied, the rest linked.
jobq_make_prefix()
{
	local root=$1 conf=$2 bin lib share inc f
	bin=$("$conf" --bindir) lib=$("$conf" --pkglibdir) share=$("$conf" --sharedir) inc=$("$conf" --includedir-server)
	mkdir -p "$root$bin" "$root$lib" "$root$share/extension" "$root$(dirname "$inc")"
	cp --reflink=auto "$bin"/* "$root$bin/" || return 1
	for f in "$lib"/*; do ln -s "$f" "$root$lib/"; done
	for f in "$share"/*; do [ "$f" = "$share/extension" ] || ln -s "$f" "$root$share/"; done
	for f in "$share"/extension/*; do ln -s "$f" "$root$share/extension/"; done
	ln -s "$inc" "$root$inc"
	# A jobq that the system has must not show through.
	rm -rf "$root$lib"/jobq.so "$root$share"/extension/jobq*
	[ "$("$root$bin/pg_config" --pkglibdir)" = "$root$lib" ]
}

# Builds a copy of the checkout (it stays clean) and installs it into a tree of its own. Sets JOBQ_BIN and PATH.
# A second call for the same flavour only switches to it.
jobq_build()
{
	local flavour=${1:-plain} conf root log
	# Said in full, for a make that calls this script may have other ideas.
	local -a args=(WERROR=1 with_llvm=no DEBUG=)
	[ "$flavour" = plain ] || args+=(DEBUG=1)
	jobq_tmp
	conf=$(jobq_pg_config) || exit 1
	# check-all has built it for the scripts that it calls.
	root=$JOBQ_TMP/$flavour
	[ ! -e "${JOBQ_BUILT:-/nonexistent}/$flavour/built" ] || root=$JOBQ_BUILT/$flavour
	if [ ! -e "$root/built" ]; then
		log=$JOBQ_TMP/build-$flavour.log
		mkdir -p "$root/src"
		(cd "$JOBQ_SRC" && cp -a Makefile jobq.control src sql "$root/src/") || return 1
		find "$root/src" \( -name '*.o' -o -name '*.bc' -o -name '*.so' \) -delete
		if ! { jobq_make_prefix "$root" "$conf" &&
			env -u MAKEFLAGS make -C "$root/src" -j"$(nproc)" PG_CONFIG="$root$("$conf" --bindir)/pg_config" "${args[@]}" all &&
			env -u MAKEFLAGS make -C "$root/src" PG_CONFIG="$root$("$conf" --bindir)/pg_config" "${args[@]}" install; } >"$log" 2>&1 </dev/null; then
			# What went wrong, without the long command lines; else the end of the log.
			{ grep -v -- ' -Wall ' "$log" | grep -A4 -E '(error|warning): |undefined reference|No rule' || tail -20 "$log"; } | head -60 >&2
			echo "error: the $flavour build failed" >&2
			return 1
		fi
		touch "$root/built"
	fi
	[ -z "$JOBQ_BIN" ] || PATH=${PATH#"$JOBQ_BIN:"}
	JOBQ_BIN=$root$("$conf" --bindir)
	export PATH=$JOBQ_BIN:$PATH
}

# Starts a new cluster; the arguments are settings, name=value. fsync is on unless fsync=off is given.
# JOBQ_PRELOAD= (empty) starts it without jobq.
jobq_start()
{
	local data s
	jobq_build "${JOBQ_FLAVOUR:-plain}" || exit 1
	[ -z "$JOBQ_DATA" ] || jobq_die "a server is running already"
	data=$JOBQ_TMP/data
	mkdir -p "$JOBQ_TMP/socket"
	chown "$JOBQ_OS_USER" "$JOBQ_TMP/socket"
	chmod 700 "$JOBQ_TMP/socket" # nobody else connects
	rm -rf "$data"
	as_pg "$JOBQ_BIN/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$JOBQ_TMP/initdb.log" 2>&1 ||
		{ cat "$JOBQ_TMP/initdb.log" >&2; jobq_die "initdb failed"; }
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$JOBQ_TMP/socket'"
		echo "shared_preload_libraries = '${JOBQ_PRELOAD-jobq}'"
		echo "log_line_prefix = '%m [%p] %b %q%a '"
		for s in "$@"; do
			echo "${s%%=*} = '${s#*=}'"
		done
	} >>"$data/postgresql.conf"
	JOBQ_DATA=$data
	export PGHOST=$JOBQ_TMP/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres PSQLRC=/dev/null
	jobq_up
}

jobq_up()
{
	as_pg "$JOBQ_BIN/pg_ctl" -D "$JOBQ_DATA" -l "$JOBQ_TMP/server.log" -w -t 60 start >/dev/null </dev/null ||
		{ tail -20 "$JOBQ_TMP/server.log" >&2; jobq_die "the server did not start"; }
}

jobq_stop()
{
	[ -n "$JOBQ_DATA" ] || return 0
	if [ -e "$JOBQ_DATA/postmaster.pid" ]; then
		as_pg "$JOBQ_BIN/pg_ctl" -D "$JOBQ_DATA" -w -t 60 -m "${1:-fast}" stop >/dev/null || return 1
	fi
	JOBQ_DATA=
}

jobq_restart()
{
	local data=$JOBQ_DATA
	jobq_stop "${1:-fast}"
	JOBQ_DATA=$data
	jobq_up
}

jobq_sql()
{
	"$JOBQ_BIN/psql" -X -q -A -t -v ON_ERROR_STOP=1 -c "$1"
}

# Stops every server whose data directory is below the temporary directory: also one that a killed test left.
jobq_stop_all()
{
	local pid
	find "$JOBQ_TMP" -name postmaster.pid 2>/dev/null | while read -r pid; do
		as_pg "$JOBQ_BIN/pg_ctl" -D "$(dirname "$pid")" -w -t 30 -m immediate stop >/dev/null 2>&1 </dev/null || true
	done || true
}

jobq_cleanup()
{
	local rc=$?
	if [ -n "$JOBQ_TMP" ]; then
		jobq_stop fast >/dev/null 2>&1 || true # the polite way first
		jobq_stop_all
		if [ -n "${JOBQ_KEEP:-}" ]; then
			echo "kept: $JOBQ_TMP" >&2
		else
			rm -rf "$JOBQ_TMP"
		fi
		JOBQ_TMP=
	fi
	return "$rc"
}
