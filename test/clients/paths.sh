# Where the drivers are; sourced by install.sh and run.sh.
CLIENTS_DIR=${JOBQ_CLIENTS_DIR:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/jobq-clients}
PY_VENV=$CLIENTS_DIR/python/venv
JDBC_JAR=$CLIENTS_DIR/java/postgresql.jar

# Go takes what it has, never another toolchain. The current pgx needs Go 1.25; with an older one the last that is content with 1.19.
export GOTOOLCHAIN=local GOMODCACHE=$CLIENTS_DIR/go/mod GOCACHE=$CLIENTS_DIR/go/build GOFLAGS=-buildvcs=false
GO_MOD=go.mod
case $(go version 2>/dev/null) in
	*" go1."[0-9]* | *" go1.1"* | *" go1.2"[0-4]*)
		case $(go version) in
			*" go1.2"[5-9]* | *" go1."[3-9][0-9]*) ;;
			*) GO_MOD=old.mod ;;
		esac
		;;
esac
