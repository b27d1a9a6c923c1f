#!/bin/bash
# Installs what is missing to build and run jobq on Debian, and nothing when nothing is missing.
#
#	install-deps.sh demo    a compiler, the server and its headers
#	install-deps.sh test    and what the tests use
#	install-deps.sh clients and the languages of test/clients
#
# Quiet unless it fails. Never starts a database server.
set -u

what=${1:-demo}
case $what in
	demo | test | clients) ;;
	*) echo "usage: install-deps.sh demo|test|clients" >&2; exit 2 ;;
esac

# The newest server version that has its headers here, else the newest one that apt offers.
find_version()
{
	local v
	for v in 18 17 16 15; do
		[ -e "/usr/include/postgresql/$v/server/postgres.h" ] && [ -x "/usr/lib/postgresql/$v/bin/postgres" ] && { echo $v; return; }
	done
	for v in 18 17 16 15; do
		apt-cache show "postgresql-server-dev-$v" >/dev/null 2>&1 && { echo $v; return; }
	done
}

# need PACKAGE COMMAND...: the package is missing when the command fails.
missing=()
need()
{
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

list_missing()
{
	missing=()
	need gcc command -v gcc
	need libc6-dev test -e /usr/include/stdio.h
	need make command -v make
	need "postgresql-$v" test -x "/usr/lib/postgresql/$v/bin/postgres"
	need "postgresql-server-dev-$v" test -e "/usr/include/postgresql/$v/server/postgres.h"
	[ "$what" != demo ] || return 0
	need perl command -v prove
	need libipc-run-perl perl -MIPC::Run -e 1
	need "postgresql-$v-pgtap" test -e "/usr/share/postgresql/$v/extension/pgtap.control"
	need libtap-parser-sourcehandler-pgtap-perl command -v pg_prove
	need pgbouncer test -x /usr/sbin/pgbouncer
	need prometheus-postgres-exporter test -x /usr/bin/prometheus-postgres-exporter
	need cppcheck command -v cppcheck
	need spin command -v spin
	need clang-format-14 command -v clang-format-14
	need python3 test -x /usr/bin/python3
	need python3-psycopg2 /usr/bin/python3 -c 'import psycopg2'
	need python3-croniter /usr/bin/python3 -c 'import croniter'
	[ "$what" = clients ] || return 0
	need python3-venv /usr/bin/python3 -c 'import ensurepip'
	need nodejs command -v node
	need npm command -v npm
	need golang-go command -v go
	need default-jdk-headless command -v javac
	need maven command -v mvn
	need libpq-dev test -e /usr/include/postgresql/libpq-fe.h
}

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
v=$(find_version)
v=${v:-15}
list_missing
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "error: missing: ${missing[*]} (Debian's names); this system has no apt-get, please install them" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "error: missing packages; as root: apt-get install ${missing[*]}" >&2
	exit 1
fi

log=$(mktemp)
# Without this a first installation of the server would make and start a cluster of its own.
no_cluster=/etc/postgresql-common/createcluster.d/jobq-no-cluster.conf
made_conf=
if [ ! -e /usr/share/postgresql-common/createcluster.conf ] && [ ! -e "$no_cluster" ]; then
	mkdir -p "$(dirname "$no_cluster")"
	echo 'create_main_cluster = false' >"$no_cluster"
	made_conf=1
fi
# Nor shall a package start what it brings.
policy=/usr/sbin/policy-rc.d
made_policy=
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	made_policy=1
fi
finish()
{
	rm -f "$log"
	[ -z "$made_conf" ] || rm -f "$no_cluster"
	[ -z "$made_policy" ] || rm -f "$policy"
}
trap finish EXIT

get()
{
	apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1 </dev/null
}

echo "installing: ${missing[*]}" >&2
# The package lists may be absent or old: refresh them when the first try fails.
if [ "$(find_version)" = "" ] || ! get install --no-install-recommends "${missing[@]}"; then
	get update || true
	v=$(find_version)
	v=${v:-15}
	list_missing
	if ! get install --no-install-recommends "${missing[@]}"; then
		tail -40 "$log" >&2
		echo "error: apt-get could not install: ${missing[*]}" >&2
		exit 1
	fi
fi

list_missing
if [ ${#missing[@]} -gt 0 ]; then
	echo "error: still missing after the installation: ${missing[*]}" >&2
	exit 1
fi
