/*-------------------------------------------------------------------------
 *
 * waiters.c
 *		What pgbench cannot measure: consumers that wait.
 *
 *	waiters latency dequeue|call ROUNDS
 *		One consumer waits in dequeue(wait => ..), or in CALL wait and then
 *		dequeues; one producer enqueues. Prints, in milliseconds from the
 *		answer to the producer's COMMIT and from the sending of that COMMIT,
 *		the median and the 99th percentile until the row is in the
 *		consumer's hand.
 *
 *	waiters idle dequeue|call NUMBER SECONDS
 *		So many consumers wait on the empty queue. Prints the processor
 *		time that their backends used, and how many of them hold a
 *		snapshot, a transaction id, or locks other than their own virtual
 *		transaction.
 *
 * Connects as libpq's environment variables say; the queue is "q". Both ends
 * are in one thread and on one clock.
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#define WAIT_LIMIT_MS 30000

static const char *const dequeue_waiting = "SELECT job_id, token FROM jobq.dequeue('q', wait => '5 min')";
static const char *const dequeue_at_once = "SELECT job_id, token FROM jobq.dequeue('q')";
static const char *const call_wait = "CALL jobq.wait('q', '5 min')";

static void
die(const char *what, PGconn *conn)
{
	fprintf(stderr, "waiters: %s: %s\n", what, conn ? PQerrorMessage(conn) : "");
	exit(1);
}

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void
pause_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

static PGconn *
open_connection(void)
{
	PGconn *conn = PQconnectdb("");

	if (PQstatus(conn) != CONNECTION_OK)
		die("cannot connect", conn);
	return conn;
}

/* A result that must be a success; the caller clears it. */
static PGresult *
checked(PGconn *conn, PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		die("a statement failed", conn);
	return res;
}

static void
run(PGconn *conn, const char *statement)
{
	PQclear(checked(conn, PQexec(conn, statement)));
}

static void
submit(PGconn *conn, const char *statement)
{
	if (!PQsendQuery(conn, statement) || PQflush(conn) != 0)
		die("cannot send", conn);
}

/* The one result of a statement that was sent, when it is there; else NULL. Never waits. */
static PGresult *
take_result(PGconn *conn)
{
	PGresult *res;

	if (!PQconsumeInput(conn))
		die("connection lost", conn);
	if (PQisBusy(conn))
		return NULL;
	res = checked(conn, PQgetResult(conn));
	PQclear(PQgetResult(conn)); /* the end of the answer is in the same packet */
	return res;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

static double
percentile(const double *sorted, int n, int percent)
{
	int i = n * percent / 100;

	return sorted[i < n ? i : n - 1];
}

/* One round: commit an enqueue while the consumer waits; the two times until it holds the row. */
static void
one_round(PGconn *producer, PGconn *consumer, int by_call, double *from_answer, double *from_sending)
{
	double sent, answered = 0, in_hand = 0;
	int woken = !by_call;
	PGresult *res;
	char complete[128];
	struct pollfd fds[2] = {{PQsocket(consumer), POLLIN, 0}, {PQsocket(producer), POLLIN, 0}};

	submit(consumer, by_call ? call_wait : dequeue_waiting);
	pause_us(2000 + random() % 8000); /* so that it does wait, and at no fixed beat */
	run(producer, "BEGIN");
	run(producer, "SELECT jobq.enqueue('q', '{\"n\": 1}')");
	sent = now_ms();
	submit(producer, "COMMIT");
	while (!answered || !in_hand)
	{
		if (poll(fds, 2, WAIT_LIMIT_MS) <= 0)
			die("no answer: was the wake-up lost?", NULL);
		if (!in_hand && (fds[0].revents & POLLIN) && (res = take_result(consumer)) != NULL)
		{
			if (!woken)
			{
				woken = 1;
				PQclear(res);
				submit(consumer, dequeue_at_once);
			}
			else
			{
				in_hand = now_ms();
				if (PQntuples(res) != 1)
					die("the consumer came back without a job", NULL);
				snprintf(complete, sizeof complete, "SELECT jobq.complete(%s, %s)", PQgetvalue(res, 0, 0),
						 PQgetvalue(res, 0, 1));
				PQclear(res);
			}
		}
		if (!answered && (fds[1].revents & POLLIN) && (res = take_result(producer)) != NULL)
		{
			answered = now_ms();
			PQclear(res);
		}
	}
	run(consumer, complete);
	*from_answer = in_hand - answered;
	*from_sending = in_hand - sent;
}

static void
latency(int by_call, int rounds)
{
	PGconn *producer = open_connection(), *consumer = open_connection();
	double *a = malloc(rounds * sizeof(double)), *b = malloc(rounds * sizeof(double));

	for (int i = -20; i < rounds; i++) /* the first ones fill caches */
	{
		int at = i < 0 ? 0 : i;

		one_round(producer, consumer, by_call, &a[at], &b[at]);
	}
	qsort(a, rounds, sizeof(double), compare);
	qsort(b, rounds, sizeof(double), compare);
	printf("%.3f %.3f %.3f %.3f\n", percentile(a, rounds, 50), percentile(a, rounds, 99), percentile(b, rounds, 50),
		   percentile(b, rounds, 99));
	PQfinish(producer);
	PQfinish(consumer);
	free(a);
	free(b);
}

/* Nanoseconds on a processor since the process began. */
static double
cpu_ns(int pid)
{
	char path[64];
	double ns;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lf", &ns) != 1)
		die(path, NULL);
	fclose(f);
	return ns;
}

static double
cpu_of_all(PGconn **conns, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += cpu_ns(PQbackendPID(conns[i]));
	return sum;
}

static void
idle(int by_call, int n, int seconds)
{
	PGconn **conns = malloc(n * sizeof(PGconn *)), *watcher = open_connection();
	double before, after;
	PGresult *res;
	char error[256];

	run(watcher, "SET application_name = 'watcher'");
	for (int i = 0; i < n; i++)
	{
		conns[i] = open_connection();
		run(conns[i], "SET application_name = 'waiter'");
		submit(conns[i], by_call ? call_wait : dequeue_waiting);
	}
	pause_us(2000000); /* all of them have settled by then */
	before = cpu_of_all(conns, n);
	pause_us(seconds * 1000000L);
	after = cpu_of_all(conns, n);
	res =
		checked(watcher,
				PQexec(watcher,
					   "SELECT count(*) FILTER (WHERE a.state = 'active'), count(a.backend_xmin), count(a.backend_xid),"
					   " count(*) FILTER (WHERE EXISTS (SELECT FROM pg_locks l"
					   "  WHERE l.pid = a.pid AND l.locktype <> 'virtualxid'))"
					   " FROM pg_stat_activity a WHERE a.application_name = 'waiter'"));
	if (atoi(PQgetvalue(res, 0, 0)) != n)
		die("not all of them were waiting", NULL);
	printf("%.3f %s %s %s\n", (after - before) / 1e6 / seconds, PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2),
		   PQgetvalue(res, 0, 3));
	PQclear(res);
	for (int i = 0; i < n; i++)
	{
		PGcancel *cancel = PQgetCancel(conns[i]);

		PQcancel(cancel, error, sizeof error);
		PQfreeCancel(cancel);
		while ((res = PQgetResult(conns[i])) != NULL)
			PQclear(res);
		PQfinish(conns[i]);
	}
	PQfinish(watcher);
	free(conns);
}

int
main(int argc, char **argv)
{
	int by_call = argc > 2 && strcmp(argv[2], "call") == 0;

	if (argc == 4 && strcmp(argv[1], "latency") == 0 && atoi(argv[3]) > 0)
		latency(by_call, atoi(argv[3]));
	else if (argc == 5 && strcmp(argv[1], "idle") == 0 && atoi(argv[3]) > 0 && atoi(argv[4]) > 0)
		idle(by_call, atoi(argv[3]), atoi(argv[4]));
	else
	{
		fprintf(stderr,
				"usage: waiters latency dequeue|call ROUNDS\n       waiters idle dequeue|call NUMBER SECONDS\n");
		return 2;
	}
	return 0;
}
