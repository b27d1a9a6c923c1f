#!/bin/bash
# Installs the driver of one language, in the version and with the checksum that its lock file names, into a directory of its own;
# nothing when it is there. The language itself comes from test/lib/install-deps.sh clients.
#
#	install.sh python|node|go|java|c
#
# JOBQ_CLIENTS_DIR: where to; the default is in the user's cache. Quiet unless it fails.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. ./paths.sh

lang=${1:-}
mkdir -p "$CLIENTS_DIR/$lang" || exit 1
log=$CLIENTS_DIR/$lang/install.log
: >"$log"

# failed WHAT: the end of the log, and what it means.
failed()
{
	tail -15 "$log" >&2
	echo "error: $lang: $1; that takes the language's package registry (this machine may not reach it) and a lock file that fits" >&2
	exit 1
}

run()
{
	timeout 300 "$@" >>"$log" 2>&1 </dev/null
}

# A stamp says which lock file the directory was filled from.
stamp_of()
{
	cat "$@" | sha256sum | cut -d ' ' -f 1
}

current()
{
	[ "$(cat "$CLIENTS_DIR/$lang/stamp" 2>/dev/null)" = "$stamp" ]
}

case $lang in
	python)
		stamp=$(stamp_of python/requirements.txt)-$(/usr/bin/python3 --version)
		current && exit 0
		rm -rf "$PY_VENV"
		run /usr/bin/python3 -m venv "$PY_VENV" || failed 'no virtual environment'
		run "$PY_VENV/bin/pip" install --no-input --retries 2 --no-deps --only-binary :all: --require-hashes -r python/requirements.txt ||
			failed 'pip could not install psycopg'
		;;
	node)
		stamp=$(stamp_of node/package.json node/package-lock.json)-$(node --version)
		current && exit 0
		rm -rf "$CLIENTS_DIR/node/node_modules"
		cp node/package.json node/package-lock.json "$CLIENTS_DIR/node/"
		run npm ci --prefix "$CLIENTS_DIR/node" --ignore-scripts --no-audit --no-fund --fetch-retries 2 || failed 'npm could not install pg'
		;;
	go)
		stamp=$(stamp_of "go/$GO_MOD" "go/${GO_MOD%.mod}.sum")-$(go version)
		current && exit 0
		(cd go && run go build -modfile="$GO_MOD" ./...) ||
			failed 'go could not fetch pgx'
		;;
	java)
		read -r artifact sum <java/driver.lock
		stamp=$artifact-$sum
		current && exit 0
		IFS=: read -r group name version <<<"$artifact"
		run mvn -B -q -C -Dmaven.repo.local="$CLIENTS_DIR/java/m2" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:get \
			-Dartifact="$artifact" -Dtransitive=false || failed 'Maven could not fetch the JDBC driver'
		cp "$CLIENTS_DIR/java/m2/${group//./\/}/$name/$version/$name-$version.jar" "$JDBC_JAR" || failed 'Maven fetched no driver'
		if ! echo "$sum  $JDBC_JAR" | sha256sum --check --status; then
			rm -f "$JDBC_JAR"
			failed "the JDBC driver's checksum is not the one in java/driver.lock"
		fi
		rm -rf "$CLIENTS_DIR/java/m2"
		;;
	c)
		exit 0
		;;
	*)
		echo 'usage: install.sh python|node|go|java|c' >&2
		exit 2
		;;
esac
echo "$stamp" >"$CLIENTS_DIR/$lang/stamp"
