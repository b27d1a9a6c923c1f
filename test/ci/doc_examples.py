"""Runs the examples of the pages given, on the server that the environment names. Called by doc-examples.sh.

What a fenced block's first line says:
	sql                     run with psql; an error fails
	sql error=JQ001         run; every error must have this SQLSTATE, and there must be one
	text                    directly below an sql block: what that block prints, but for blank lines and "(n rows)"
	signature               a function as the catalog has it: names, types, defaults, results
	bash                    lines "bash FILE": the file must be there
	bash FILE               an excerpt: these lines stand in FILE
	LANGUAGE FILE           the whole of FILE, a program that other tests run
	sh                      run with bash; an error fails
	conf                    lines "name = value": the setting must exist, and take the value if a session may set it
Any other block is for reading only.

Besides: links between pages lead somewhere, the settings' table agrees with the server, every function of the catalog has
a section in doc/api.md that names all its arguments, every column of the views is named there, doc/internals.md names every
file of src/, and the README names every limit of src/jobq.h.
"""

import glob
import os
import re
import subprocess
import sys

TIME_LIMIT = 120
INTERNAL = {"handlers_changed", "register_database", "settings_changed"}  # no user calls them
VIEWS = ["queues", "jobs", "dependencies", "groups", "workers", "blocked_groups", "dead_letters", "grants", "schedules", "schedule_runs"]

passed = failed = 0


def result(ok, name, detail=""):
	global passed, failed
	if ok:
		passed += 1
		return
	failed += 1
	print("not ok - " + name)
	for line in detail.rstrip().splitlines():
		print("    " + line)


class Block:
	def __init__(self, page, line, info):
		self.page, self.line, self.info, self.lines = page, line, info.split(), []
		self.below = None  # the text block directly below

	@property
	def kind(self):
		return self.info[0] if self.info else ""

	@property
	def text(self):
		return "\n".join(self.lines) + "\n"

	@property
	def name(self):
		return "%s:%d" % (self.page, self.line)


def read_blocks(page):
	blocks, block, last, gap = [], None, None, ""
	with open(page, encoding="utf-8") as f:
		for n, line in enumerate(f, 1):
			line = line.rstrip("\n")
			if line.startswith("```"):
				if block is None:
					block = Block(page, n, line[3:])
				else:
					if block.kind == "text" and last and last.kind == "sql" and not gap.strip():
						last.below = block
					blocks.append(block)
					last, block, gap = block, None, ""
			elif block is not None:
				block.lines.append(line)
			else:
				gap += line
	if block is not None:
		result(False, block.name, "the block does not end")
	return blocks


def psql(database, *args, text=None):
	return subprocess.run(["psql", "-X", "-q", "-d", database, *args], input=text, capture_output=True, text=True,
		timeout=TIME_LIMIT, check=False)


def rows(database, query):
	p = psql(database, "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", query)
	if p.returncode != 0:
		sys.exit("%s\n%s" % (query, p.stderr))
	return [line.split("\t") for line in p.stdout.splitlines()]


def tidy(text):
	"""Without blank lines, padding and the counts of rows, which say nothing where there are rows."""
	lines = [line.rstrip() for line in text.splitlines() if line.strip()]
	return [line for line in lines if not re.fullmatch(r"\(([1-9]\d*) rows?\)", line)]


def run_sql(database, blocks):
	"""All sql blocks of a page in one session; each one's output and errors are told apart by marks."""
	script = ["\\set VERBOSITY verbose", "\\set SHOW_CONTEXT never"]
	for i, block in enumerate(blocks):
		script += ["\\echo @@@ %d" % i, "\\warn @@@ %d" % i, block.text]
	p = psql(database, text="\n".join(script) + "\n")
	out, err = ([s.split("\n", 1)[1] for s in re.split(r"^@@@ ", stream, flags=re.M)[1:]] for stream in (p.stdout, p.stderr))
	for i, block in enumerate(blocks):
		if i >= len(out) or i >= len(err):
			result(False, block.name, "not reached: psql ended with %d\n%s" % (p.returncode, p.stderr[-2000:]))
			continue
		wanted = [word[6:] for word in block.info if word.startswith("error=")]
		states = re.findall(r"^(?:psql:[^ ]* )?(?:ERROR|FATAL): +([0-9A-Z]{5}):", err[i], flags=re.M)
		# a mistake of psql's own has no state
		other = re.findall(r"^.*(?:invalid command|unrecognized|syntax error|error: ).*$", err[i], flags=re.M)
		ok = set(states) == set(wanted) and not (other and not wanted)
		detail = "wanted error %s, got:\n%s" % (wanted[0] if wanted else "none", err[i])
		if ok and block.below and tidy(out[i]) != tidy(block.below.text):
			ok, detail = False, "it prints:\n" + out[i]
		result(ok, block.name, detail)


def run_page(page):
	database = "doc_" + re.sub(r"\W", "_", os.path.splitext(os.path.basename(page))[0].lower())
	blocks = read_blocks(page)
	sql = [b for b in blocks if b.kind == "sql"]
	psql("postgres", "-c", "CREATE DATABASE " + database)
	if not (sql and "CREATE EXTENSION" in sql[0].text):
		psql(database, "-c", "CREATE EXTENSION jobq")
	if sql:
		run_sql(database, sql)
		bad = rows(database, "SELECT * FROM jobq.verify()")
		result(not bad, page + ": jobq.verify() at the end", str(bad))
	for block in blocks:
		if block.kind == "signature":
			check_signature(database, block)
		elif block.kind == "bash":
			check_bash(block)
		elif block.kind == "sh":
			p = subprocess.run(["bash", "-e", "-o", "pipefail"], input=block.text, capture_output=True, text=True, timeout=TIME_LIMIT,
				env=dict(os.environ, PGDATABASE=database), check=False)
			result(p.returncode == 0, block.name, p.stdout + p.stderr)
		elif block.kind == "conf":
			check_conf(block)
		elif block.kind != "sql" and len(block.info) > 1:
			with open(block.info[1], encoding="utf-8") as f:
				result(block.text == f.read(), block.name, "this is not what stands in " + block.info[1])


def check_bash(block):
	if len(block.info) > 1:
		with open(block.info[1], encoding="utf-8") as f:
			whole = f.read()
		result(block.text in whole, block.name, "these lines do not stand in " + block.info[1])
		return
	for line in block.lines:
		m = re.match(r"bash (\S+)", line)
		result(bool(m) and os.path.exists(m.group(1)), block.name, line)


def check_conf(block):
	for line in block.lines:
		m = re.match(r"([a-z_.]+) = ([^#]*)", line)
		if not m:
			result(not line.strip() or line.startswith("#"), block.name, line)
			continue
		value = m.group(2).strip().strip("'")
		# of one that a session cannot set only the name is checked
		p = psql("postgres", "-v", "ON_ERROR_STOP=1", "-c", "BEGIN", "-c", "SET LOCAL %s = '%s'" % (m.group(1), value), "-c", "ROLLBACK")
		ok = p.returncode == 0 or "cannot be changed" in p.stderr
		result(ok, block.name, line + "\n" + p.stderr)


def split_arguments(text):
	"""At commas outside brackets and quotes."""
	parts, depth, quoted, part = [], 0, False, ""
	for c in text:
		if c == "'":
			quoted = not quoted
		elif not quoted and c in "([":
			depth += 1
		elif not quoted and c in ")]":
			depth -= 1
		if c == "," and depth == 0 and not quoted:
			parts.append(part.strip())
			part = ""
		else:
			part += c
	return [p for p in parts + [part.strip()] if p]


def check_signature(database, block):
	text = " ".join(line.strip() for line in block.lines)
	for m in re.finditer(r"(?:CALL )?(\w+)\((.*?)\) -> (setof )?(table\(.*?\)|\w+)(?= |$)", text):
		name, result_type = m.group(1), m.group(4)
		wanted = rows(database, """
			SELECT a.name, format_type(a.type, NULL), a.mode, CASE WHEN a.mode IN ('i', 'b') THEN pg_get_function_arg_default(p.oid, a.n::int) END
			FROM pg_proc p LEFT JOIN LATERAL unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargmodes::text[])
				WITH ORDINALITY u(name, type, mode, n) ON true
				CROSS JOIN LATERAL (SELECT u.name, u.type, coalesce(u.mode, 'i') AS mode, u.n) a
			WHERE p.pronamespace = 'jobq'::regnamespace AND p.proname = '%s' ORDER BY a.n""" % name)
		problems = []
		ins = [w for w in wanted if w[0] and w[2] in "ib"]
		outs = [w for w in wanted if w[0] and w[2] == "t"]
		given = split_arguments(m.group(2))
		if not wanted:
			problems.append("no such function")
		if len(given) != len(ins):
			problems.append("it has %d arguments: %s" % (len(ins), [w[0] for w in ins]))
		for g, w in zip(given, ins):
			argument, _, default = g.partition(" = ")
			argument = re.sub(r"^INOUT ", "", argument)
			said_name, said_type = argument.split(" ", 1)
			real = rows(database, "SELECT '%s'::regtype = '%s'::regtype" % (said_type, w[1]))
			if said_name != w[0] or real != [["t"]]:
				problems.append("%s is %s %s" % (g, w[0], w[1]))
			elif bool(default) != bool(w[3]):
				problems.append("%s: default %s" % (g, w[3]))
			elif default:
				same = rows(database, "SELECT (%s)::%s IS NOT DISTINCT FROM (%s)::%s" % (default, w[1], w[3], w[1]))
				if same != [["t"]]:
					problems.append("%s: default %s" % (g, w[3]))
		if result_type.startswith("table("):
			said = [p.split(" ", 1) for p in split_arguments(result_type[6:-1])]
			if [s[0] for s in said] != [w[0] for w in outs]:
				problems.append("it returns %s" % [w[0] for w in outs])
		elif not text.startswith("CALL"):
			real = rows(database, """SELECT p.prorettype = '%s'::regtype OR p.proretset AND '%s' = 'rows' FROM pg_proc p
				WHERE p.pronamespace = 'jobq'::regnamespace AND p.proname = '%s'"""
				% (result_type if result_type != "rows" else "record", result_type, name))
			if real != [["t"]]:
				problems.append("it does not return %s" % result_type)
		result(not problems, "%s: %s" % (block.name, name), "\n".join(problems))
		documented.add(name)


documented = set()


def sections(page):
	"""Text below each heading, by heading."""
	found, heading = {}, ""
	with open(page, encoding="utf-8") as f:
		for line in f:
			if line.startswith("#"):
				heading = line.strip("# \n")
			found[heading] = found.get(heading, "") + line
	return found


def check_api(page, database):
	found = sections(page)
	functions = rows(database, """SELECT p.proname, coalesce(string_agg(u.name, ',' ORDER BY u.n), '') FROM pg_proc p
		LEFT JOIN LATERAL unnest(p.proargnames, p.proargmodes::text[]) WITH ORDINALITY u(name, mode, n) ON coalesce(u.mode, 'i') <> 't'
		WHERE p.pronamespace = 'jobq'::regnamespace GROUP BY p.oid, p.proname""")
	for name, arguments in functions:
		if name in INTERNAL:
			continue
		text = "".join(body for heading, body in found.items() if re.search(r"\b%s\b" % name, heading))
		if not text:
			result(False, page + ": " + name, "no heading names it")
			continue
		missing = [a for a in arguments.split(",") if a and not re.search(r"\b%s\b" % a, text)]
		result(not missing and name in documented, "%s: %s" % (page, name),
			"arguments not named: %s; signature %s" % (missing, "given" if name in documented else "missing"))
	for view in VIEWS:
		text = "".join(body for heading, body in found.items() if re.search(r"\b%s\b" % view, heading))
		columns = [r[0] for r in rows(database, "SELECT attname FROM pg_attribute WHERE attrelid = 'jobq.%s'::regclass AND attnum > 0" % view)]
		missing = [c for c in columns if "`%s`" % c not in text]
		result(not missing, "%s: view %s" % (page, view), "columns not named: %s" % missing)


def check_settings(page, database):
	with open(page, encoding="utf-8") as f:
		table = {m.group(1): m.group(2).strip() for m in re.finditer(r"^\| `(jobq\.\w+)` \| ([^|]*) \|", f.read(), flags=re.M)}
	real = {r[0]: r[1] for r in rows(database, """SELECT name, boot_val || coalesce(' ' || unit, '') FROM pg_settings
		WHERE name LIKE 'jobq.%' AND name <> 'jobq.debug_point'""")}
	result(table == real, page + ": settings and their defaults", "the page: %s\nthe server: %s" % (table, real))


def check_limits(page):
	with open("src/jobq.h", encoding="utf-8") as f:
		header = f.read()
	with open(page, encoding="utf-8") as f:
		text = f.read()
	limits = re.findall(r"^#define (JOBQ_(?:MAX|DEFAULT)_\w+) (\d+)\b", header, flags=re.M)
	result(len(limits) > 5, "src/jobq.h: limits found")
	for name, value in limits:
		result(re.search(r"(?<!\d)(?<!\d,)%s(?!,?\d)" % "{:,}".format(int(value)), text) is not None, "%s: %s" % (page, name), value)


def check_files(page):
	with open(page, encoding="utf-8") as f:
		text = f.read()
	missing = [n for n in sorted({os.path.splitext(os.path.basename(f))[0] for f in glob.glob("src/*.c")})
		if not re.search(r"`%s(\.c)?`" % n, text)]
	result(not missing, page + ": files of src/", "not named: %s" % missing)


def check_links(page):
	with open(page, encoding="utf-8") as f:
		text = f.read()
	for target in re.findall(r"\]\(([^)]+)\)", text):
		path, _, anchor = target.partition("#")
		where = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
		ok = os.path.exists(where)
		if ok and anchor:
			with open(where, encoding="utf-8") as f:
				headings = re.findall(r"^#+ (.*)$", f.read(), flags=re.M)
			ok = anchor in [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings]
		result(ok, "%s: link %s" % (page, target))


def main():
	pages = sys.argv[1:]
	for page in pages:
		try:
			run_page(page)
		except subprocess.TimeoutExpired as e:
			result(False, page, "took longer than %d s: %s" % (TIME_LIMIT, e.cmd))
		check_links(page)
	database = "doc_checks"
	psql("postgres", "-c", "CREATE DATABASE " + database)
	psql(database, "-c", "CREATE EXTENSION jobq")
	if "doc/api.md" in pages:
		check_api("doc/api.md", database)
	if "doc/operations.md" in pages:
		check_settings("doc/operations.md", database)
	if "doc/internals.md" in pages:
		check_files("doc/internals.md")
	if "README.md" in pages:
		check_limits("README.md")
		linked = open("README.md", encoding="utf-8").read()
		for page in glob.glob("doc/*.md"):
			result(page in linked, "README.md: link to " + page)
	print("%d passed, %d failed" % (passed, failed))
	sys.exit(failed > 0 or passed == 0)


main()
