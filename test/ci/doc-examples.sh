#!/bin/bash
# Runs every example of README.md and doc/*.md, and compares what they say with what there is. The last line is
# "N passed, N failed".
#
#	bash test/ci/doc-examples.sh              all pages
#	bash test/ci/doc-examples.sh doc/api.md   one of them
#
# Each page's sql blocks run in order, in one psql session, in a fresh database of a private server. How a page says what
# is to come of a block stands at the head of doc_examples.py.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
exec </dev/null
export LC_ALL=C.UTF-8

. test/lib/server.sh

jobq_start fsync=off max_connections=30 jit=off timezone=UTC jobq.max_databases=40
[ $# -gt 0 ] || set -- README.md doc/*.md
/usr/bin/python3 test/ci/doc_examples.py "$@"
