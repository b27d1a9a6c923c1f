# jobq: build with PGXS, test with scripts that also work where make is missing.
#
#	make / make install       the extension, for the server of $(PG_CONFIG)
#	make DEBUG=1              with the debug points that the race tests need
#	make WERROR=1             warnings are errors
#	make demo                 a demonstration on a throw-away server
#	make demo-groups          one of ordered groups: 1,000 orders, workers that crash and stall
#	make demo-inside          one of handlers, schedules and events inside the database
#	make check-all            every test; TESTS="regress isolation" for some
#	make lint / format        conventions / rewrite C files with clang-format
#	make soak / bench         the long stress tests / the benchmark

EXTENSION = jobq
EXTVERSION = 0.1.0
MODULE_big = jobq

SRCS = $(sort $(wildcard src/*.c))
OBJS = $(SRCS:.c=.o)
SQL_PARTS = $(sort $(wildcard sql/ext/[0-9][0-9]_*.sql))

DATA = $(wildcard sql/ext/upgrade/jobq--*--*.sql)
DATA_built = $(EXTENSION)--$(EXTVERSION).sql
EXTRA_CLEAN = .flavour

# For "make installcheck" against a running server that has jobq preloaded.
REGRESS = $(sort $(patsubst sql/%.sql,%,$(wildcard sql/*.sql)))

PG_CONFIG ?= pg_config
INCLUDEDIR_SERVER := $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))

# -isystem: the strict warnings are for this code, not for the server's headers.
PG_CPPFLAGS = -Isrc -isystem $(INCLUDEDIR_SERVER)
# Every SQL-callable function has fcinfo, used or not; lengthof() is unsigned, and its loops count with int.
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare
ifdef WERROR
PG_CFLAGS += -Werror
endif
ifdef DEBUG
PG_CPPFLAGS += -DJOBQ_DEBUG
endif

TESTS ?=

ifneq ($(PGXS),)
include $(PGXS)
else
all install installcheck clean:
	@echo "the server's build files (PGXS) were not found; set PG_CONFIG or run: bash test/lib/install-deps.sh demo" >&2; exit 1
endif

# Objects are rebuilt when a header or the flavour (DEBUG, WERROR) changes.
$(OBJS) $(SRCS:.c=.bc): $(wildcard src/*.h) Makefile .flavour

.flavour: .force
	@echo 'DEBUG=$(DEBUG) WERROR=$(WERROR) $(PG_CONFIG)' | cmp -s - $@ || echo 'DEBUG=$(DEBUG) WERROR=$(WERROR) $(PG_CONFIG)' > $@

$(EXTENSION)--$(EXTVERSION).sql: $(SQL_PARTS)
	cat $^ > $@

demo:
	bash test/demo.sh

demo-groups:
	bash test/demo-groups.sh

demo-inside:
	bash test/demo-inside.sh

check-all:
	bash test/check-all.sh $(TESTS)

lint:
	bash test/ci/lint.sh

soak:
	bash test/check-all.sh soak groups-soak

bench:
	bash test/bench/run.sh

format:
	clang-format-14 -i $(wildcard src/*.[ch] test/bench/*.c)

.PHONY: demo demo-groups demo-inside check-all lint soak bench format .force
