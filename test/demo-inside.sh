#!/bin/bash
# The demo of work inside the database: nobody runs a worker. A trigger on a table of sales enqueues a job for each sale, in
# its transaction (an outbox); a handler adds it to a table of totals; a schedule has the totals rolled up every second; what
# goes wrong is shown live, by psql, as events. One of the processes that run handlers is terminated in the middle. At the end
# every sale must have been counted exactly once.
#
#	bash test/demo-inside.sh [SALES]
#
# 2,000 sales when no number is given. Nothing stays behind but the packages that were missing. Ends with status 0 when all
# is right.
set -euo pipefail

cd "$(dirname "$0")/.."
sales=${1:-2000}
[[ $sales =~ ^[1-9][0-9]{1,5}$ ]] || { echo "usage: demo-inside.sh [SALES]    10 or more" >&2; exit 2; }
time_limit=120 # seconds; for the work itself
declare -a pids=()
failed=0

bash test/lib/install-deps.sh demo
. test/lib/server.sh
. test/lib/demo.sh

demo_server max_connections=20

jobq_sql "
	SELECT FROM jobq.create_queue('sales', max_attempts => 2, backoff => 'fixed', backoff_base => '300 ms', events => '{retrying,dead}');
	SELECT FROM jobq.create_queue('rollup');
	CREATE TABLE sale (id bigserial PRIMARY KEY, customer int NOT NULL, amount numeric NOT NULL);
	CREATE TABLE total (customer int PRIMARY KEY, sales bigint NOT NULL, amount numeric NOT NULL);
	CREATE TABLE rollup (scheduled_for timestamptz PRIMARY KEY, customers bigint, sales bigint, amount numeric);
	-- which sale was counted, by whom
	CREATE TABLE counted (sale bigint, pid int);

	-- the outbox: a job for each sale, committed with it or not at all
	CREATE FUNCTION outbox() RETURNS trigger LANGUAGE plpgsql AS \$\$
	BEGIN
		PERFORM jobq.enqueue('sales', to_jsonb(new), name => 'sale');
		RETURN NULL;
	END
	\$\$;
	CREATE TRIGGER outbox AFTER INSERT ON sale FOR EACH ROW EXECUTE FUNCTION outbox();

	-- the handlers
	CREATE FUNCTION add_sale(s jsonb) RETURNS numeric LANGUAGE plpgsql AS \$\$
	DECLARE
		result numeric;
	BEGIN
		INSERT INTO counted VALUES ((s->>'id')::bigint, pg_backend_pid());
		INSERT INTO total AS t VALUES ((s->>'customer')::int, 1, (s->>'amount')::numeric)
			ON CONFLICT (customer) DO UPDATE SET sales = t.sales + 1, amount = t.amount + excluded.amount
			RETURNING amount INTO result;
		IF (s->>'amount')::numeric < 0 THEN
			RAISE EXCEPTION 'sale % has an amount below zero', s->>'id';
		END IF;
		RETURN result;
	END
	\$\$;
	CREATE FUNCTION roll_up(job jobq.delivery) RETURNS void LANGUAGE sql AS \$\$
		INSERT INTO rollup SELECT (job.headers->>'scheduled_for')::timestamptz, count(*), coalesce(sum(sales), 0), coalesce(sum(amount), 0) FROM total
	\$\$;
	SELECT jobq.set_handler('sales', 'add_sale', concurrency => 2);
	SELECT jobq.set_handler('rollup', 'roll_up');
	SELECT FROM jobq.schedule('roll up', 'every 1 seconds', 'rollup', missed => 'all')"

say "$sales sales by a client that knows nothing of jobs; one in 200 is wrong, one in 50 is rolled back"
echo '   what psql hears of the events retrying and dead:'
# A session that listens. psql tells of notifications after each statement.
setsid bash -c '{ echo "LISTEN jobqevents_sales;"; while sleep 0.3; do echo "SELECT;"; done; } | psql -X -q -A -t 2>&1 |
	sed -u -n "s/^Asynchronous notification .\([^ ]*\). with payload .\(.*\). received.*/          \1  \2/; s/^\(.\{150\}\).*/\1 .../; /jobqevents/p"' &
pids[1]=$!
disown "$!"

start=${EPOCHREALTIME/[.,]/}
setsid psql -X -q -v ON_ERROR_STOP=1 >"$JOBQ_TMP/client.log" 2>&1 <<SQL &
CREATE PROCEDURE sell(n int) LANGUAGE plpgsql AS \$\$
BEGIN
	FOR i IN 1 .. n LOOP
		INSERT INTO sale (customer, amount) VALUES (i % 20, CASE WHEN i % 200 = 7 THEN -1 ELSE i % 90 + 0.5 END);
		IF i % 50 = 0 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
		IF i % 10 = 0 THEN
			PERFORM pg_sleep(0.02);
		END IF;
	END LOOP;
END
\$\$;
CALL sell($sales);
SQL
pids[0]=$!

printf '%8s %8s %10s %8s %10s %8s %8s %10s\n' second ready completed dead 'processes' sales counted 'roll-ups'
shown=-1 terminated=
while :; do
	counts=$(jobq_sql "SELECT sum(ready + delayed + active), sum(completed_total), sum(dead), (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq executor'),
		(SELECT count(*) FROM sale), (SELECT coalesce(sum(sales), 0) FROM total), (SELECT count(*) FROM rollup) FROM jobq.queues")
	IFS='|' read -r open completed dead processes sold counted rollups <<<"$counts"
	second=$(((${EPOCHREALTIME/[.,]/} - start) / 1000000))
	if ((second > shown)); then
		printf '%8d %8d %10d %8d %10d %8d %8d %10d\n' "$second" "$open" "$completed" "$dead" "$processes" "$sold" "$counted" "$rollups"
		shown=$second
	fi
	if [ -z "$terminated" ] && ((counted * 3 > sales)); then
		terminated=$(jobq_sql "SELECT count(pg_terminate_backend(pid)) FROM (
			SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq executor' LIMIT 1) p")
		echo "          one of the processes that run handlers is terminated"
	fi
	if ! kill -0 "${pids[0]}" 2>/dev/null &&
		[ "$(jobq_sql "SELECT ready + delayed + active FROM jobq.queues WHERE queue = 'sales'")" = 0 ] && ((rollups >= 4)); then
		break
	fi
	if ((second > time_limit)); then
		echo "not done after $time_limit seconds"
		failed=1
		break
	fi
	sleep 0.2
done
client=0
wait "${pids[0]}" || client=$?
# the listener's last round
sleep 0.7
kill_workers
pids=()
jobq_sql "SELECT FROM jobq.unschedule('roll up')"

say 'result'
wrong=$(jobq_sql 'SELECT count(*) FROM sale WHERE amount < 0')
line 'sales committed' "$(jobq_sql 'SELECT count(*) FROM sale')" "$((sales - sales / 50))"
line '  counted, each once' "$(jobq_sql 'SELECT count(*) FROM (SELECT FROM counted GROUP BY sale HAVING count(*) = 1) c')" \
	"$((sales - sales / 50 - wrong))"
line '  counted twice' "$(jobq_sql 'SELECT count(*) FROM (SELECT FROM counted GROUP BY sale HAVING count(*) > 1) c')" 0
line '  of wrong ones, with two attempts, nothing is left' "$(jobq_sql 'SELECT count(*) FROM counted JOIN sale ON id = sale WHERE amount < 0')" 0
line 'totals that differ from the sales' "$(jobq_sql 'SELECT count(*) FROM (
	SELECT customer, count(*), sum(amount) FROM sale WHERE amount >= 0 GROUP BY 1 EXCEPT SELECT * FROM total) d')" 0
line 'dead letters' "$(jobq_sql 'SELECT count(*) FROM jobq.dead_letters')" "$wrong"
line 'processes that counted' "$(jobq_sql 'SELECT count(DISTINCT pid) FROM counted')"
line 'roll-ups' "$(jobq_sql 'SELECT count(*) FROM rollup')"
line '  seconds without one' "$(jobq_sql "SELECT count(*) FROM (
	SELECT scheduled_for - lag(scheduled_for) OVER (ORDER BY scheduled_for) AS gap FROM rollup) g WHERE gap <> '1 s'")" 0
line 'the client ended with' "$client" 0
line 'rows of jobq.verify()' "$(jobq_sql 'SELECT count(*) FROM jobq.verify()')" 0
demo_verdict
