/* The steps of ../steps.txt with libpq. Usage: steps STEPS; JOBQ_POOLED=1 behind a pooler. */
#define _DEFAULT_SOURCE
#include <endian.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libpq-fe.h>

#define MAX_ARGS 16
#define TEXT_SIZE 8192
#define BOOL_OID 16
#define INT2_OID 21
#define INTERVAL_OID 1186

typedef struct Step
{
	bool written, direct;
	char *name, *sql, *keep, *state;
	int args;
	char *kinds[MAX_ARGS], *texts[MAX_ARGS];
	char see[TEXT_SIZE]; /* rows, each with a line feed */
} Step;

static bool pooled;
static PGconn *conns[2];
static char seen[TEXT_SIZE]; /* what a step has seen so far */
static char last_state[6];   /* SQLSTATE of the last error, or empty */
static struct
{
	char name[32], value[256];
} kept[32];
static int nkept;

static void
see(const char *text)
{
	strncat(seen, text, sizeof(seen) - strlen(seen) - 1);
}

static PGconn *
connect_to_server(void)
{
	PGconn *conn = PQconnectdb("");

	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "%s", PQerrorMessage(conn));
		exit(1);
	}
	PQsetClientEncoding(conn, "UTF8");
	return conn;
}

/* Sees an error when there is one, and forgets the result. */
static PGresult *
checked(PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	snprintf(last_state, sizeof(last_state), "%s", state ? state : "");
	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
		return result;
	see(PQresultErrorMessage(result));
	PQclear(result);
	return NULL;
}

static PGresult *
query(PGconn *conn, const char *sql, const char *a, const char *b, const char *c)
{
	const char *values[] = {a, b, c};

	return checked(PQexecParams(conn, sql, (a != NULL) + (b != NULL) + (c != NULL), NULL, values, NULL, NULL, 0));
}

/* The first value, in one of a few buffers that are used in turn. */
static const char *
value(PGconn *conn, const char *sql, const char *a, const char *b)
{
	static char buffers[8][256];
	static int next;
	char *buffer = buffers[next++ % 8];
	PGresult *result = query(conn, sql, a, b, NULL);

	snprintf(buffer, sizeof(buffers[0]), "%s", result && PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	return buffer;
}

static void
see_rows(PGresult *result)
{
	for (int i = 0; i < PQntuples(result); i++)
	{
		for (int j = 0; j < PQnfields(result); j++)
		{
			const char *text = PQgetvalue(result, i, j);

			if (j > 0)
				see("|");
			if (PQgetisnull(result, i, j))
				text = "-";
			else if (PQftype(result, j) == BOOL_OID)
				text = *text == 't' ? "true" : "false";
			see(text);
		}
		see("\n");
	}
}

static void
see_query(PGconn *conn, const char *sql, const char *a, const char *b)
{
	PGresult *result = query(conn, sql, a, b, NULL);

	if (result)
		see_rows(result);
	PQclear(result);
}

/* The row so far goes on. */
static void
same_row(void)
{
	size_t length = strlen(seen);

	if (length > 0 && seen[length - 1] == '\n')
		seen[length - 1] = '|';
}

/* Calls */

static const char *
kept_value(const char *name, size_t length)
{
	for (int i = nkept - 1; i >= 0; i--)
		if (strlen(kept[i].name) == length && strncmp(kept[i].name, name, length) == 0)
			return kept[i].value;
	return NULL;
}

static void
keep(const char *names, PGresult *result)
{
	for (int j = 0; *names; j++)
	{
		size_t length = strcspn(names, " ");
		int i;

		for (i = 0; i < nkept; i++)
			if (strlen(kept[i].name) == length && strncmp(kept[i].name, names, length) == 0)
				break;
		if (i == nkept)
			nkept++;
		snprintf(kept[i].name, sizeof(kept[i].name), "%.*s", (int) length, names);
		snprintf(kept[i].value, sizeof(kept[i].value), "%s", PQgetvalue(result, 0, j));
		names += length;
		names += *names == ' ';
	}
}

/* The text with kept values in place of {NAME}. */
static char *
filled(const char *text)
{
	char *full = calloc(1, TEXT_SIZE);
	size_t n = 0;

	while (*text && n < TEXT_SIZE - 257)
	{
		size_t length = *text == '{' ? strcspn(text, "}") : 0;
		const char *with = length > 1 && text[length] ? kept_value(text + 1, length - 1) : NULL;

		if (with)
		{
			n += sprintf(full + n, "%s", with);
			text += length + 1;
		}
		else
		{
			full[n++] = *text++;
		}
	}
	return full;
}

/* An array as SQL writes it: every element in quotes, but NULL. */
static char *
array_literal(const char *list)
{
	char *text = calloc(1, TEXT_SIZE);
	size_t n = sprintf(text, "{");

	while (*list)
	{
		size_t length = strcspn(list, ",");

		if (n > 1)
			text[n++] = ',';
		if (length == 1 && *list == '-')
		{
			n += sprintf(text + n, "NULL");
		}
		else
		{
			text[n++] = '"';
			for (size_t i = 0; i < length; i++)
			{
				if (list[i] == '"' || list[i] == '\\')
					text[n++] = '\\';
				text[n++] = list[i];
			}
			text[n++] = '"';
		}
		list += length;
		list += *list == ',';
	}
	sprintf(text + n, "}");
	return text;
}

/* All parameters are sent as text, without a type. */
static void
call(PGconn *conn, Step *step)
{
	char *args[MAX_ARGS];
	PGresult *result;

	for (int i = 0; i < step->args; i++)
	{
		const char *kind = step->kinds[i];

		if (strcmp(kind, "null") == 0)
		{
			args[i] = NULL;
		}
		else if (strcmp(kind, "json") == 0)
		{
			args[i] = strdup(step->texts[i]);
		}
		else
		{
			args[i] = filled(step->texts[i]);
			if (strcmp(kind, "texts") == 0 || strcmp(kind, "bigints") == 0)
			{
				char *list = args[i];

				args[i] = array_literal(list);
				free(list);
			}
		}
	}
	result = checked(PQexecParams(conn, step->sql, step->args, NULL, (const char *const *) args, NULL, NULL, 0));
	if (result)
	{
		if (step->keep && PQntuples(result) > 0)
			keep(step->keep, result);
		see_rows(result);
	}
	else if (step->state && strcmp(step->state, last_state) == 0)
	{
		sprintf(seen, "error %s\n", last_state);
	}
	PQclear(result);
	for (int i = 0; i < step->args; i++)
		free(args[i]);
}

/* Steps written out */

/* Until somebody waits for a job; ten seconds at most. */
static void
waiting(PGconn *conn)
{
	for (int i = 0; i < 500; i++)
	{
		if (*value(conn,
				   "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "
				   "AND wait_event_type = 'Extension' AND query LIKE '%dequeue%' AND state = 'active')",
				   NULL, NULL) == 't')
			return;
		poll(NULL, 0, 20);
	}
	see("nobody waits");
}

/* The interval and the number in binary, with their types. */
static void
own_types(PGconn *a, PGconn *b)
{
	struct
	{
		uint64_t microseconds;
		uint32_t days, months;
	} hour = {htobe64(UINT64_C(3600000000)), 0, 0};
	uint16_t priority = htobe16(1000);
	const Oid types[] = {0, INTERVAL_OID, INT2_OID};
	const char *values[] = {"own", (char *) &hour, (char *) &priority};
	const int lengths[] = {0, sizeof(hour), sizeof(priority)};
	const int formats[] = {0, 1, 1};
	PGresult *result = checked(
		PQexecParams(a, "SELECT jobq.enqueue($1, delay => $2, priority => $3)", 3, types, values, lengths, formats, 0));

	if (result)
	{
		see_query(b, "SELECT round(extract(epoch FROM run_at - created)) FROM jobq.job($1)", PQgetvalue(result, 0, 0),
				  NULL);
		value(b, "SELECT jobq.cancel($1)", PQgetvalue(result, 0, 0), NULL);
	}
	PQclear(result);
}

static void
send_dequeue(PGconn *conn, const char *sql)
{
	const char *values[] = {"own"};

	if (!PQsendQueryParams(conn, sql, 1, NULL, values, NULL, NULL, 0))
		see(PQerrorMessage(conn));
}

/* The result of what was sent; there is one. */
static PGresult *
only_result(PGconn *conn)
{
	PGresult *result = PQgetResult(conn);

	while (result)
	{
		PGresult *next = PQgetResult(conn);

		if (!next)
			break;
		PQclear(result);
		result = next;
	}
	return result;
}

static void
dequeue_waits(PGconn *a, PGconn *b)
{
	PGresult *job;

	send_dequeue(
		a, "SELECT job_id, token, payload ->> 'from', headers ->> 'h', name, extract(epoch FROM enqueued_at)::bigint "
		   "FROM jobq.dequeue($1, wait => '30 s')");
	waiting(b);
	PQclear(query(b, "SELECT jobq.enqueue($1, $2, headers => $3)", "own", "{\"from\": \"B\"}", "{\"h\": 1}"));
	job = checked(only_result(a));
	if (job && PQntuples(job) == 1)
	{
		see(PQgetvalue(job, 0, 2));
		see("|");
		see(PQgetvalue(job, 0, 3));
		see(PQgetisnull(job, 0, 4) ? "|true" : "|false");
		see(llabs(atoll(PQgetvalue(job, 0, 5)) - (long long) time(NULL)) < 60 ? "|true\n" : "|false\n");
		same_row();
		see_query(a, "SELECT jobq.complete($1, $2)", PQgetvalue(job, 0, 0), PQgetvalue(job, 0, 1));
	}
	PQclear(job);
}

static void
cancel_query(PGconn *a, PGconn *b)
{
	PGcancel *cancel = PQgetCancel(a);
	char error[256] = "";

	send_dequeue(a, "SELECT job_id FROM jobq.dequeue($1, wait => '60 s')");
	waiting(b);
	if (!PQcancel(cancel, error, sizeof(error)))
		see(error);
	PQfreeCancel(cancel);
	PQclear(checked(only_result(a)));
	sprintf(seen, "%s\n", last_state);
	value(a, "SELECT jobq.enqueue($1)", "own", NULL);
	same_row();
	see_query(a, "SELECT jobq.complete(job_id, token) FROM jobq.dequeue($1)", "own", NULL);
}

static void
together(PGconn *a, PGconn *b)
{
	const char *ends[] = {"ROLLBACK", "COMMIT"};
	PGresult *job;

	value(a, "SELECT jobq.enqueue($1)", "own", NULL);
	job = query(a, "SELECT job_id, token FROM jobq.dequeue($1)", "own", NULL, NULL);
	for (int i = 0; job && PQntuples(job) == 1 && i < 2; i++)
	{
		PQclear(query(a, "BEGIN", NULL, NULL, NULL));
		PQclear(query(a, "INSERT INTO effect VALUES ($1)", "together", NULL, NULL));
		value(a, "SELECT jobq.complete($1, $2)", PQgetvalue(job, 0, 0), PQgetvalue(job, 0, 1));
		PQclear(query(a, ends[i], NULL, NULL, NULL));
		same_row();
		see_query(b, "SELECT (SELECT count(*) FROM effect WHERE step = $1) || ' ' || state FROM jobq.job($2)",
				  "together", PQgetvalue(job, 0, 0));
	}
	PQclear(job);
}

static void
rolled_back(PGconn *a, PGconn *b)
{
	const char *count = "SELECT count(*) FROM jobq.jobs WHERE queue = $1 AND state = 'ready'";

	see_query(b, count, "own", NULL);
	PQclear(query(a, "BEGIN", NULL, NULL, NULL));
	value(a, "SELECT jobq.enqueue($1)", "own", NULL);
	PQclear(query(a, "ROLLBACK", NULL, NULL, NULL));
	same_row();
	see_query(b, count, "own", NULL);
}

static void
error_parts(PGconn *a, PGconn *b)
{
	const char *values[] = {"nowhere"};
	const int fields[] = {PG_DIAG_SQLSTATE, PG_DIAG_MESSAGE_PRIMARY, PG_DIAG_MESSAGE_HINT};
	PGresult *result = PQexecParams(a, "SELECT jobq.enqueue($1)", 1, NULL, values, NULL, NULL, 0);

	(void) b;
	for (int i = 0; i < 3; i++)
	{
		const char *field = PQresultErrorField(result, fields[i]);

		see(field ? field : "-");
		see(i < 2 ? "|" : "\n");
	}
	PQclear(result);
}

static void
enqueue(PGconn *conn, int n)
{
	const char *values[] = {"own", "{\"i\": 1}", "5"};

	/* Directly, a prepared statement; behind a pooler there must be none. */
	while (n-- > 0)
		PQclear(checked(
			pooled ? PQexecParams(conn, "SELECT jobq.enqueue($1, $2, priority => $3)", 3, NULL, values, NULL, NULL, 0)
				   : PQexecPrepared(conn, "enqueue", 3, values, NULL, NULL, 0)));
}

static void
many_sessions(PGconn *a, PGconn *b)
{
	for (int i = 0; i < 2 && !pooled; i++)
		PQclear(checked(PQprepare(i ? b : a, "enqueue", "SELECT jobq.enqueue($1, $2, priority => $3)", 0, NULL)));
	PQclear(query(b, "BEGIN", NULL, NULL, NULL));
	enqueue(b, 1);
	enqueue(a, 12);
	enqueue(b, 11);
	PQclear(query(b, "COMMIT", NULL, NULL, NULL));
	for (int i = 0; i < 11; i++)
	{
		enqueue(a, 1);
		enqueue(b, 1);
	}
	see_query(a, "SELECT count(*) FROM jobq.jobs WHERE queue = $1 AND state = 'ready'", "own", NULL);
	same_row();
	see_query(b, "SELECT jobq.purge_queue($1)", "own", NULL);
}

/* A listens to the channel and B enqueues: what A is told, within ten seconds. */
static PGnotify *
heard(PGconn *a, PGconn *b, const char *listen, const char *queue)
{
	time_t limit = time(NULL) + 10;
	PGnotify *notify = NULL;

	PQclear(query(a, listen, NULL, NULL, NULL));
	value(b, "SELECT jobq.enqueue($1)", queue, NULL);
	while (time(NULL) < limit && (notify = PQnotifies(a)) == NULL)
	{
		struct pollfd fd = {PQsocket(a), POLLIN, 0};

		poll(&fd, 1, 1000);
		PQconsumeInput(a);
	}
	see(notify ? notify->relname : "nothing heard");
	return notify;
}

static void
listen_jobs(PGconn *a, PGconn *b)
{
	PQfreemem(heard(a, b, "LISTEN jobq_heard", "heard"));
	see("\n");
}

static void
listen_events(PGconn *a, PGconn *b)
{
	PGnotify *notify = heard(b, a, "LISTEN jobqevents_loud", "loud");

	see(notify && strstr(notify->extra, "\"waiting\"") ? "|true\n" : "|false\n");
	PQfreemem(notify);
}

static const struct
{
	const char *name;
	void (*take)(PGconn *a, PGconn *b);
} written[] = {
	{"own types", own_types},
	{"dequeue waits", dequeue_waits},
	{"cancel of a running query", cancel_query},
	{"write and completion together", together},
	{"enqueue rolled back", rolled_back},
	{"what an error holds", error_parts},
	{"same statement, many sessions", many_sessions},
	{"listen", listen_jobs},
	{"listen to events", listen_events},
};

/* The next step of the file, with the line that begins the one after it in *line. */
static bool
read_step(FILE *file, char *line, Step *step)
{
	memset(step, 0, sizeof(Step));
	while (*line || fgets(line, TEXT_SIZE, file))
	{
		char *word = line + strspn(line, "\t"), *rest;

		line[strcspn(line, "\n")] = '\0';
		if (*line != '\t' && *line && *line != '#' && step->name)
			return true;
		rest = word + strcspn(word, " ");
		if (*rest)
			*rest++ = '\0';
		if (*line == '\0' || *line == '#')
			;
		else if (word == line)
		{
			step->written = strcmp(word, "do") == 0;
			step->direct = strncmp(rest, "direct ", 7) == 0;
			step->name = strdup(step->direct ? rest + 7 : rest);
		}
		else if (strcmp(word, "sql") == 0)
			step->sql = strdup(rest);
		else if (strcmp(word, "arg") == 0)
		{
			size_t length = strcspn(rest, " ");

			step->kinds[step->args] = strndup(rest, length);
			step->texts[step->args++] = strdup(rest + length + (rest[length] == ' '));
		}
		else if (strcmp(word, "keep") == 0)
			step->keep = strdup(rest);
		else if (strcmp(word, "error") == 0)
			step->state = strdup(rest);
		else if (strcmp(word, "see") == 0)
			sprintf(step->see + strlen(step->see), "%s\n", rest);
		else if (strcmp(word, "none") != 0)
		{
			printf("steps: %s\n", word);
			exit(1);
		}
		*line = '\0';
	}
	return step->name != NULL;
}

static void
take(Step *step, int calls)
{
	if (!step->written)
	{
		call(conns[calls % 2], step);
		return;
	}
	for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
		if (strcmp(written[i].name, step->name) == 0)
		{
			written[i].take(conns[0], conns[1]);
			return;
		}
	see("no such step\n");
}

int
main(int argc, char **argv)
{
	static char line[TEXT_SIZE];
	static Step step;
	FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
	int n = 0, calls = 0, bad = 0;

	if (!file)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	pooled = getenv("JOBQ_POOLED") && strcmp(getenv("JOBQ_POOLED"), "1") == 0;
	conns[0] = connect_to_server();
	conns[1] = connect_to_server();
	printf("# libpq %d\n", PQlibVersion());
	while (read_step(file, line, &step))
	{
		char *wanted, error[16];

		n++;
		if (step.direct && pooled)
		{
			printf("ok %d - %s # SKIP needs a session of its own\n", n, step.name);
			continue;
		}
		*seen = '\0';
		take(&step, step.written ? 0 : ++calls);
		snprintf(error, sizeof(error), "error %s\n", step.state ? step.state : "");
		wanted = filled(step.state ? error : step.see);
		if (strcmp(seen, wanted) == 0)
		{
			printf("ok %d - %s\n", n, step.name);
		}
		else
		{
			bad++;
			printf("not ok %d - %s\n# wanted: %s# seen: %s\n", n, step.name, wanted, seen);
		}
		free(wanted);
	}
	printf("1..%d\n", n);
	PQfinish(conns[0]);
	PQfinish(conns[1]);
	fclose(file);
	return bad > 0;
}
