/* Works on the jobs of a queue until it gets SIGTERM: worker QUEUE. The server is the one of PGHOST, PGDATABASE and so on. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

static volatile sig_atomic_t stopping = 0;

static void
stop(int signo)
{
	(void) signo;
	stopping = 1;
}

/* Runs a statement with up to three parameters as text; the server finds their types. */
static PGresult *
query(PGconn *conn, const char *sql, const char *a, const char *b, const char *c)
{
	const char *values[] = {a, b, c};

	return PQexecParams(conn, sql, (a != NULL) + (b != NULL) + (c != NULL), NULL, values, NULL, NULL, 0);
}

static int
succeeded(PGresult *result)
{
	return PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK;
}

/* The job itself: what it writes to this database is done when the job is, exactly once. */
static PGresult *
handle(PGconn *conn, const char *to)
{
	return query(conn, "INSERT INTO mail_sent (address) VALUES (nullif($1, ''))", to, NULL, NULL);
}

static void
run(PGconn *conn, const char *job, const char *token, const char *to)
{
	PGresult *result;
	char ids[32], tokens[32], *error;

	PQclear(PQexec(conn, "BEGIN"));
	result = handle(conn, to);
	if (succeeded(result))
	{
		PQclear(result);
		result = query(conn, "SELECT jobq.complete($1, $2, jsonb_build_object('sent', $3::text))", job, token, to);
	}
	if (succeeded(result))
	{
		PQclear(result);
		result = PQexec(conn, "COMMIT");
		if (succeeded(result))
		{
			PQclear(result);
			return;
		}
	}
	/* When the lease was lost (SQLSTATE JQ001, PG_DIAG_SQLSTATE) somebody else has the job, and this says "lost". */
	error = strdup(PQresultErrorMessage(result));
	PQclear(result);
	PQclear(PQexec(conn, "ROLLBACK"));
	snprintf(ids, sizeof(ids), "{%s}", job);
	snprintf(tokens, sizeof(tokens), "{%s}", token);
	result = query(conn, "SELECT status FROM jobq.fail_many($1, $2, $3)", ids, tokens, error);
	fprintf(stderr, "job %s: %s: %s", job, succeeded(result) ? PQgetvalue(result, 0, 0) : "unknown", error);
	PQclear(result);
	free(error);
}

int
main(int argc, char **argv)
{
	const char *queue = argc > 1 ? argv[1] : "";
	PGconn *conn = PQconnectdb("");
	int ok = PQstatus(conn) == CONNECTION_OK;

	signal(SIGTERM, stop);
	while (ok && !stopping)
	{
		PGresult *job = query(conn, "SELECT job_id, token, payload ->> 'to' FROM jobq.dequeue($1, worker => 'c')",
							  queue, NULL, NULL);

		ok = succeeded(job);
		if (ok && PQntuples(job) > 0)
		{
			run(conn, PQgetvalue(job, 0, 0), PQgetvalue(job, 0, 1), PQgetvalue(job, 0, 2));
		}
		else if (ok)
		{
			PGresult *wait = query(conn, "CALL jobq.wait($1, '2 s')", queue, NULL, NULL);

			ok = succeeded(wait);
			PQclear(wait);
		}
		PQclear(job);
	}
	if (!ok)
		fprintf(stderr, "%s", PQerrorMessage(conn));
	PQfinish(conn);
	return !ok;
}
