"""The steps of ../steps.txt with psycopg 3. Usage: steps.py STEPS; JOBQ_POOLED=1 behind a pooler."""

import datetime
import json
import os
import re
import sys
import threading
import time

import psycopg
from psycopg.types.json import Jsonb

POOLED = os.environ.get("JOBQ_POOLED") == "1"


def connect():
	conn = psycopg.connect(autocommit=True)
	if POOLED:
		conn.prepare_threshold = None
	return conn


def query(conn, sql, args=None):
	"""Rows of the last result; none when the statement has no rows."""
	cur = conn.execute(sql, args)
	return cur.fetchall() if cur.description else []


def value(conn, sql, args=None):
	return query(conn, sql, args)[0][0]


def shown(v):
	return "-" if v is None else str(v).lower() if isinstance(v, bool) else str(v)


def row(*values):
	return ["|".join(shown(v) for v in values)]


# Calls

def array(text, element):
	return [None if t == "-" else element(t) for t in text.split(",")] if text else []


BIND = {
	"text": str,
	"interval": str,
	"int": int,
	"bigint": int,
	"bool": lambda text: text == "true",
	"json": lambda text: Jsonb(json.loads(text)),
	"time": datetime.datetime.fromisoformat,
	"texts": lambda text: array(text, str),
	"bigints": lambda text: array(text, int),
	"null": lambda text: None,
}


def bind(kind, text):
	# before 3.11 fromisoformat knows no Z
	return BIND[kind](text.replace("Z", "+00:00") if kind == "time" else text)


def call(conn, step, kept):
	args = [bind(kind, re.sub(r"\{(\w+)\}", lambda m: kept[m.group(1)], text) if kind != "json" else text) for kind, text in step["args"]]
	try:
		rows = query(conn, re.sub(r"\$\d+", "%s", step["sql"].replace("%", "%%")), args)
	except psycopg.Error as e:
		if e.sqlstate == step["error"]:
			return ["error " + e.sqlstate]
		raise
	if rows:
		kept.update(zip(step["keep"], map(shown, rows[0])))
	return [row(*r)[0] for r in rows]


# Steps written out

def waiting(conn):
	"""Until somebody waits for a job; ten seconds at most."""
	limit = time.monotonic() + 10
	while not value(conn, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Extension' AND query LIKE '%dequeue%' AND state = 'active')"):
		if time.monotonic() > limit:
			raise TimeoutError("nobody waits")
		time.sleep(0.02)


def own_types(a, b):
	job = value(a, "SELECT jobq.enqueue(%s, delay => %s, priority => %s)", ("own", datetime.timedelta(hours=1), 1000))
	seconds = value(b, "SELECT round(extract(epoch FROM run_at - created)) FROM jobq.job(%s)", (job,))
	value(b, "SELECT jobq.cancel(%s)", (job,))
	return row(seconds)


def dequeue_waits(a, b):
	found = []
	thread = threading.Thread(target=lambda: found.append(query(a,
		"SELECT job_id, token, name, payload, headers, enqueued_at FROM jobq.dequeue(%s, wait => '30 s')", ("own",))[0]))
	thread.start()
	waiting(b)
	value(b, "SELECT jobq.enqueue(%s, %s, headers => %s)", ("own", Jsonb({"from": "B"}), Jsonb({"h": 1})))
	thread.join(20)
	job, token, name, payload, headers, at = found[0]
	near = abs(datetime.datetime.now(datetime.timezone.utc) - at) < datetime.timedelta(minutes=1)
	return row(payload["from"], headers["h"], name is None, near, value(a, "SELECT jobq.complete(%s, %s)", (job, token)))


def cancel_query(a, b):
	state = []

	def wait():
		try:
			query(a, "SELECT job_id FROM jobq.dequeue(%s, wait => '60 s')", ("own",))
		except psycopg.errors.QueryCanceled as e:
			state.append(e.sqlstate)

	thread = threading.Thread(target=wait)
	thread.start()
	waiting(b)
	a.cancel_safe()
	thread.join(20)
	value(a, "SELECT jobq.enqueue(%s)", ("own",))
	return row(state[0], value(a, "SELECT jobq.complete(job_id, token) FROM jobq.dequeue(%s)", ("own",)))


class Undo(Exception):
	pass


def together(a, b):
	job = value(a, "SELECT jobq.enqueue(%s)", ("own",))
	job, token = query(a, "SELECT job_id, token FROM jobq.dequeue(%s)", ("own",))[0]
	seen = []
	for undo in True, False:
		try:
			with a.transaction():
				a.execute("INSERT INTO effect VALUES (%s)", ("together",))
				a.execute("SELECT jobq.complete(%s, %s)", (job, token))
				if undo:
					raise Undo
		except Undo:
			pass
		seen.append("%s %s" % query(b, "SELECT (SELECT count(*) FROM effect WHERE step = %s), state FROM jobq.job(%s)", ("together", job))[0])
	return row(*seen)


def rolled_back(a, b):
	count = "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND state = 'ready'"
	before = value(b, count, ("own",))
	try:
		with a.transaction():
			value(a, "SELECT jobq.enqueue(%s)", ("own",))
			raise Undo
	except Undo:
		pass
	return row(before, value(b, count, ("own",)))


def error_parts(a, b):
	try:
		value(a, "SELECT jobq.enqueue(%s)", ("nowhere",))
	except psycopg.Error as e:
		return row(e.sqlstate, e.diag.message_primary, e.diag.message_hint)
	return []


def many_sessions(a, b):
	def enqueue(conn, n):
		for i in range(n):
			value(conn, "SELECT jobq.enqueue(%s, %s, priority => %s)", ("own", Jsonb({"i": i}), i))

	with b.transaction():
		enqueue(b, 1)
		enqueue(a, 12)
		enqueue(b, 11)
	for _ in range(11):
		enqueue(a, 1)
		enqueue(b, 1)
	return row(value(a, "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND state = 'ready'", ("own",)), value(b, "SELECT jobq.purge_queue(%s)", ("own",)))


def heard(a, b, channel, queue):
	a.execute("LISTEN " + channel)
	value(b, "SELECT jobq.enqueue(%s)", (queue,))
	return list(a.notifies(timeout=10, stop_after=1))[0]


def listen(a, b):
	return row(heard(a, b, "jobq_heard", "heard").channel)


def listen_events(a, b):
	n = heard(b, a, "jobqevents_loud", "loud")
	return row(n.channel, "waiting" in [e["event"] for e in json.loads(n.payload)["events"]])


DO = {
	"own types": own_types,
	"dequeue waits": dequeue_waits,
	"cancel of a running query": cancel_query,
	"write and completion together": together,
	"enqueue rolled back": rolled_back,
	"what an error holds": error_parts,
	"same statement, many sessions": many_sessions,
	"listen": listen,
	"listen to events": listen_events,
}


def read_steps(path):
	steps = []
	with open(path, encoding="utf-8") as f:
		for line in f.read().splitlines():
			word, _, rest = line.strip("\t").partition(" ")
			if not word or line.startswith("#"):
				continue
			if not line.startswith("\t"):
				direct = word == "do" and rest.startswith("direct ")
				steps.append({"do": word == "do", "direct": direct, "name": rest[7:] if direct else rest, "sql": None, "args": [], "keep": [], "see": [], "error": None})
			elif word == "arg":
				kind, _, text = rest.partition(" ")
				steps[-1]["args"].append((kind, text))
			elif word == "keep":
				steps[-1]["keep"] = rest.split(" ")
			elif word == "see":
				steps[-1]["see"].append(rest)
			elif word in ("sql", "error"):
				steps[-1][word] = rest
			elif word != "none":
				sys.exit("steps: " + line)
	return steps


def main(path):
	conns = [connect(), connect()]
	steps = read_steps(path)
	print("# psycopg", psycopg.__version__)
	kept, calls, bad = {}, 0, 0
	for n, step in enumerate(steps, 1):
		if step["direct"] and POOLED:
			print(f"ok {n} - {step['name']} # SKIP needs a session of its own")
			continue
		wanted = ["error " + step["error"]] if step["error"] else step["see"]
		try:
			if step["do"]:
				seen = DO[step["name"]](*conns)
			else:
				calls += 1
				seen = call(conns[calls % 2], step, kept)
			if not step["error"]:
				wanted = [re.sub(r"\{(\w+)\}", lambda m: kept[m.group(1)], s) for s in step["see"]]
		except Exception as e:
			seen = ["%s: %s" % (type(e).__name__, e)]
		ok = seen == wanted
		print(f"{'ok' if ok else 'not ok'} {n} - {step['name']}", flush=True)
		if not ok:
			bad += 1
			print(f"# wanted: {wanted}\n# seen: {seen}")
	print(f"1..{len(steps)}")
	for conn in conns:
		conn.close()
	return bad > 0


sys.exit(main(sys.argv[1]))
