"""The stress test: runs the clients, does them harm, drains the queues, and asks the oracle.

Started by run.sh with a private server in the PG* environment variables. Everything random is drawn from generators seeded
with --seed and the process's name; the seed is the first line of the output.
"""
import argparse
import collections
import ctypes
import multiprocessing
import os
import random
import re
import signal
import sys
import time

import psycopg2

import hammer
from admin import Admin, Redriver
from client import DLQ, DROP, KEEP, LIMIT, PURGE, ROUTE
from journal import Journal, Journals
from oracle import Oracle, State, story
from producer import Producer
from worker import Drainer, Worker

QUEUES = {
	KEEP: "max_attempts => 5, lease => '2 s', backoff_base => '50 ms', backoff_cap => '500 ms'",
	DROP: "max_attempts => 4, lease => '2 s', backoff => 'fixed', backoff_base => '20 ms', keep_completed => '0'",
	LIMIT: "max_attempts => 3, lease => '2 s', timeout => '4 s', backoff => 'linear', backoff_base => '20 ms', backoff_cap => '100 ms'",
	DLQ: "max_attempts => 5, lease => '2 s', backoff => 'exponential', backoff_base => '20 ms', backoff_cap => '200 ms'",
	ROUTE: "max_attempts => 2, lease => '2 s', backoff => 'function', backoff_function => 'stress.backoff', dead_letter_queue => '%s'" % DLQ,
	PURGE: "max_attempts => 3, lease => '2 s', backoff_base => '20 ms', backoff_cap => '200 ms', keep_completed => '0'",
}
MAX_ATTEMPTS = {q: int(re.match(r'max_attempts => (\d+)', s).group(1)) for q, s in QUEUES.items()}


class Control(ctypes.Structure):
	"""Shared by all processes."""
	_fields_ = [('stop', ctypes.c_int), ('quota', ctypes.c_int), ('pace', ctypes.c_double), ('began', ctypes.c_double), ('prepared', ctypes.c_int),
		('keys', ctypes.c_int), ('backlog', ctypes.c_int), ('made', ctypes.c_int * 64), ('finished', ctypes.c_int * 64)]


class Gone(Exception):
	"""The orchestrator's connection is lost."""


class Run:
	kinds = Producer, Worker, Admin

	def __init__(self, args):
		self.args = args
		self.rng = random.Random('%s/orchestrator' % args.seed)
		self.control = multiprocessing.get_context('fork').RawValue(Control)
		self.journal = Journal(os.path.join(args.journal, 'orchestrator.jsonl'), 'orchestrator')
		self.procs = {}			# (class, index) -> process
		self.incarnations = collections.Counter()
		self.harm = collections.Counter()
		self.conn = None
		self.kills = 0			# server crashes that are ours
		self.crashed = 0		# when the last one was over
		self.holder, self.hold_until = None, 0
		self.redriven = {}
		self.limit = time.monotonic() + args.seconds if args.seconds else float('inf')

	# -- database --------------------------------------------------------

	def connect(self, limit=60):
		deadline = time.monotonic() + limit
		while True:
			try:
				self.conn = psycopg2.connect(application_name='stress', connect_timeout=10)
				self.conn.autocommit = True
				return
			except psycopg2.Error as e:
				if time.monotonic() > deadline:
					self.journal.write('stuck', e='the server does not come back: %s' % str(e).strip())
					raise
				time.sleep(0.05)

	def sql(self, text, params=()):
		try:
			cur = self.conn.cursor()
			cur.execute(text, params)
			return cur.fetchall() if cur.description else None
		except psycopg2.Error as e:
			if self.conn.closed or e.pgcode is None or e.pgcode in ('57P01', '57P02', '57P03'):
				raise Gone() from e
			raise

	def sql_patiently(self, text, params=()):
		while True:
			try:
				return self.sql(text, params)
			except Gone:
				self.connect()

	def setup(self):
		self.connect()
		self.sql("""CREATE EXTENSION jobq;
			CREATE SCHEMA stress;
			CREATE TABLE stress.tx (id text PRIMARY KEY);
			CREATE TABLE stress.effect (job_id bigint NOT NULL, token bigint NOT NULL, tx text NOT NULL);
			CREATE TABLE stress.taken (job_id bigint NOT NULL, token bigint NOT NULL);
			CREATE FUNCTION stress.backoff(attempt int, error text) RETURNS interval LANGUAGE sql
				AS $$SELECT attempt * interval '20 ms'$$""")
		if not self.args.rescan:
			self.sql('ALTER SYSTEM SET jobq.rescan_interval = 0')
			self.sql('SELECT pg_reload_conf()')
		for queue in (DLQ, KEEP, DROP, LIMIT, ROUTE, PURGE):
			self.sql('SELECT jobq.create_queue(%%s, %s)' % QUEUES[queue], (queue,))

	# -- clients ---------------------------------------------------------

	def start(self, kind, index):
		n = self.incarnations[kind, index] = self.incarnations[kind, index] + 1

		def body():
			signal.signal(signal.SIGINT, signal.SIG_IGN)
			os.dup2(os.open(os.path.join(self.args.journal, '%s%d-%d.err' % (kind.role, index, n)), os.O_WRONLY | os.O_CREAT, 0o644), 2)
			kind(self.args.journal, index, n, self.args.seed, self.control).run()
		p = multiprocessing.get_context('fork').Process(target=body, daemon=True)
		p.start()
		self.procs[kind, index] = p

	def tend(self):
		"""Replaces clients that were killed; one that ended by itself with an error is a failure of its own."""
		for (kind, index), p in list(self.procs.items()):
			if p.is_alive():
				continue
			if p.exitcode not in (0, -signal.SIGKILL):
				path = os.path.join(self.args.journal, '%s%d-%d.err' % (kind.role, index, self.incarnations[kind, index]))
				with open(path) as f:
					self.journal.write('client_died', e='%s%d ended with %s: %s' % (kind.role, index, p.exitcode, f.read()[-1500:]))
			if p.exitcode != 0 and not self.control.stop:
				self.start(kind, index)

	def stop_clients(self, limit):
		self.control.stop = 1
		deadline = time.monotonic() + limit
		while any(p.is_alive() for p in self.procs.values()) and time.monotonic() < deadline:
			time.sleep(0.02)
			try:
				self.resolve_prepared(1.0)		# somebody may wait for one
			except Gone:
				self.connect()
		for (kind, index), p in self.procs.items():
			if p.is_alive():
				self.journal.write('stuck', e='%s%d does not stop: %s' % (kind.role, index, self.sql_patiently(
					"SELECT pid, state, wait_event_type, wait_event, query FROM pg_stat_activity WHERE application_name = %s",
					('%s%d-%d' % (kind.role, index, self.incarnations[kind, index]),))))
				p.kill()
				p.join()
		self.tend()
		self.procs.clear()
		self.control.stop = 0

	# -- harm ------------------------------------------------------------

	def backends(self, where):
		return [r[0] for r in self.sql("""SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND %s
			ORDER BY backend_start, pid""" % where)]

	def harm_once(self):
		"""One random act of harm, now and then."""
		r, x = self.rng, self.rng.random()
		clients = "datname = current_database() AND backend_type = 'client backend' AND application_name ~ '^(producer|worker|admin)'"
		if x < 0.25:
			kind, index = r.choice(list(self.procs))
			self.procs[kind, index].kill()
			self.procs[kind, index].join()
			self.harm['clients killed'] += 1
			self.journal.write('kill', who='%s%d' % (kind.role, index))
		elif x < 0.60:
			pids = self.backends(clients)
			if pids:
				self.sql('SELECT pg_terminate_backend(%s)', (r.choice(pids),))
				self.harm['backends terminated'] += 1
		elif x < 0.85:
			pids = self.backends(clients)
			if pids:
				self.sql('SELECT pg_cancel_backend(%s)', (r.choice(pids),))
				self.harm['statements cancelled'] += 1
		elif x < 0.92:
			if self.args.scheduler_harm:
				pids = self.backends("backend_type ~ '^jobq'")
				if pids:
					self.sql('SELECT pg_terminate_backend(%s)', (r.choice(pids),))
					self.harm['jobq processes terminated'] += 1
		elif x < 0.95:
			self.hold_snapshot(r.choice((2, 5, 10)))
		else:
			# What stands in tickets and leases about the place of a job's row is wrong afterwards.
			table = r.choice(('job', 'job', 'ready', 'delayed', 'lease'))
			command = r.choice(('VACUUM jobq.%s', 'VACUUM jobq.%s', 'VACUUM FULL jobq.%s', 'REINDEX TABLE jobq.%s')) % table
			try:
				# a prepared transaction may be in the way, and it is for this process to end it
				self.sql('SET lock_timeout = 500')
				self.sql(command)
				self.harm['vacuum, vacuum full, reindex'] += 1
			except psycopg2.errors.LockNotAvailable:
				pass
			self.sql('SET lock_timeout = 0')

	def more_harm(self, now):
		"""For what another kind of run does besides."""

	def hold_snapshot(self, seconds):
		"""An old snapshot keeps all dead rows in the tables while it lives."""
		if self.holder is None:
			try:
				self.holder = psycopg2.connect(application_name='holder', connect_timeout=10)
				self.holder.cursor().execute('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM stress.effect')
				self.hold_until = time.monotonic() + seconds
				self.harm['old snapshots held'] += 1
			except psycopg2.Error:
				self.holder = None

	def let_snapshot_go(self, now):
		if self.holder is not None and now > self.hold_until:
			self.holder.close()
			self.holder = None

	OVERDUE = """SELECT 'lease', token, clock_timestamp() - lease_until FROM jobq.lease l
		WHERE lease_until < clock_timestamp() - interval '8 s' AND EXISTS (SELECT FROM jobq.job j WHERE j.id = ANY (l.job_ids))
		UNION ALL SELECT 'delayed ticket of job', job_id, clock_timestamp() - visible_at FROM jobq.delayed
		WHERE visible_at < clock_timestamp() - interval '8 s' LIMIT 5"""

	def check_overdue(self):
		"""Nothing waits long after its time, whatever is done to the processes. Not asked soon after a crash."""
		if time.monotonic() < self.crashed + 15:
			return
		rows = self.sql(self.OVERDUE)
		if rows:
			self.journal.write('overdue', e='; '.join('%s %s is overdue by %s' % r for r in rows))

	def crash(self):
		"""kill -9 of a random server process: the postmaster starts all of them anew, with empty shared memory."""
		pids = self.backends("backend_type = 'client backend'" if self.rng.random() < 0.7 else "backend_type ~ '^jobq'")
		if not pids:
			return False
		pid = self.rng.choice(pids)
		t = time.monotonic()
		try:
			os.kill(pid, signal.SIGKILL)
		except ProcessLookupError:
			return False
		self.kills += 1
		# The connection goes with it; until then nothing is new.
		deadline = time.monotonic() + 30
		while time.monotonic() < deadline:
			try:
				self.sql('SELECT 1')
				time.sleep(0.01)
			except Gone:
				break
		self.connect()
		self.journal.write('crash', t=round(t, 6), t1=round(time.monotonic(), 6), pid=pid)
		self.crashed = time.monotonic()
		self.harm['server crashes'] += 1
		return True

	def resolve_prepared(self, age):
		"""Ends prepared transactions that nobody else ends, half of them this way, half that."""
		for (gid,) in self.sql("SELECT gid FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - %s::interval ORDER BY gid",
				('%d ms' % (age * 1000),)):
			try:
				self.sql(('COMMIT' if self.rng.random() < 0.6 else 'ROLLBACK') + ' PREPARED %s', (gid,))
				self.harm['left prepared, resolved'] += 1
			except psycopg2.ProgrammingError:
				pass	# its client was faster

	def verify(self, when):
		rows = self.sql('SELECT rule, detail FROM jobq.verify()')
		self.harm['verify() calls'] += 1
		if rows:
			self.journal.write('verify', when=when, rows=[': '.join(map(str, r)) for r in rows[:20]])

	# -- phases ----------------------------------------------------------

	def hammer(self):
		try:
			for name, wrong, jobs in hammer.run(self.conn, self.rng, self.args.hammer):
				for text in wrong:
					self.journal.write('wrong', e='hammer, %s: %s' % (name, text))
				print('  %6.1f s  hammer, %s: %d jobs, %s' % (time.monotonic() - self.began, name, jobs,
					'; '.join(wrong) or 'none lost, none twice'), flush=True)
		except psycopg2.Error as e:
			self.journal.write('wrong', e='hammer: ' + str(e).strip())
			print('  hammer: %s' % str(e).strip(), flush=True)
			self.connect()
			self.sql_patiently('ALTER SYSTEM RESET jobq.rescan_interval')
			self.sql_patiently("SELECT pg_reload_conf(), jobq.drop_queue('s_hammer', force => true)")

	def storm(self):
		a = self.args
		self.control.quota = -(-a.jobs // a.producers)
		self.control.pace = a.pace / a.producers
		self.control.prepared = a.rescan
		self.control.began = time.monotonic()
		for i in range(a.producers):
			self.start(self.kinds[0], i)
		for i in range(a.workers):
			self.start(self.kinds[1], i)
		self.start(self.kinds[2], 0)
		crash_at = [(i + 0.3 + 0.5 * self.rng.random()) / a.crashes for i in range(a.crashes)]
		next_harm = next_verify = next_note = time.monotonic() + 1
		before, moved = 0, time.monotonic()
		while not all(self.control.finished[:a.producers]) and time.monotonic() < self.limit:
			time.sleep(0.05)
			now = time.monotonic()
			done = sum(self.control.made[:a.producers])
			if done != before:
				before, moved = done, now
			elif now > moved + 90:
				self.journal.write('stuck', e='no job was put in for 90 s: %s' % self.sql_patiently("""SELECT application_name, state, wait_event,
					left(query, 60), pg_blocking_pids(pid) FROM pg_stat_activity WHERE datname = current_database()"""))
				break
			try:
				self.tend()
				self.resolve_prepared(1.0)
				self.let_snapshot_go(now)
				self.more_harm(now)
				if crash_at and done >= crash_at[0] * a.jobs:
					if self.crash():
						crash_at.pop(0)
				elif now > next_harm:
					self.harm_once()
					next_harm = now + self.rng.choice((0.1, 0.3, 0.6))
				if now > next_verify:
					self.verify('during the storm')
					self.check_overdue()
					next_verify = now + 5
			except Gone:
				self.connect()
			if now > next_note:
				print('  %6.1f s  %6d jobs in, backlog %s' % (now - self.began, done, self.backlog()), flush=True)
				next_note = now + 10
		self.made = sum(self.control.made[:a.producers])
		if self.made < a.jobs:
			print('  stopped by --seconds at %d of %d jobs' % (self.made, a.jobs))
		self.let_snapshot_go(float('inf'))
		self.stop_clients(40)

	def backlog(self):
		try:
			return self.sql('SELECT coalesce(sum(ready), 0), coalesce(sum(delayed), 0), coalesce(sum(active), 0) FROM jobq.queues')[0]
		except Gone:
			self.connect()
			return '(no answer)'

	TRUE_COUNTS = """SELECT q.name,
		(SELECT count(*) FROM jobq.ready r WHERE r.queue_id = q.id),
		(SELECT count(*) FROM jobq.delayed r WHERE r.queue_id = q.id),
		(SELECT count(*) FROM jobq.lease l, unnest(l.job_ids) i JOIN jobq.job j ON j.id = i WHERE l.queue_id = q.id),
		(SELECT count(*) FROM jobq.dead d WHERE d.queue_id = q.id)
		FROM jobq.queue q ORDER BY 1"""

	def check_gauges(self, when, limit=30):
		"""The view's counts are those of the tables, once nothing moves; a recount may be under way, so poll."""
		deadline = time.monotonic() + limit
		while True:
			truth = self.sql(self.TRUE_COUNTS)
			view = self.sql('SELECT queue, ready, delayed, active, dead FROM jobq.queues ORDER BY 1')
			if truth == view and self.sql(self.TRUE_COUNTS) == truth:
				return
			if time.monotonic() > deadline:
				self.journal.write('gauge', e='%s: tables %s, view %s' % (when, truth, view))
				return
			time.sleep(0.1)

	def check_totals(self):
		"""Totals live in shared memory: they are right if nothing took it away, and no prepared transaction went past it."""
		if self.kills or self.args.rescan:
			return
		for queue in (KEEP, LIMIT):
			view = self.sql('SELECT completed_total, cancelled_total, dead_total FROM jobq.queues WHERE queue = %s', (queue,))[0]
			truth = self.sql("""SELECT count(*) FILTER (WHERE state = 'c'), count(*) FILTER (WHERE state = 'x'),
				(SELECT count(*) FROM jobq.dead d WHERE d.queue_id = q.id) + %s
				FROM jobq.queue q LEFT JOIN jobq.history h ON h.queue_id = q.id WHERE q.name = %s GROUP BY q.id""",
				(len(self.redriven) if queue == KEEP else 0, queue))[0]
			if view != truth:
				self.journal.write('gauge', e='%s: completed, cancelled, dead: totals %s, really %s' % (queue, view, truth))

	def calm(self):
		"""Nobody does harm any more: count, then work off everything."""
		while True:
			self.resolve_prepared(0)
			if not self.sql('SELECT 1 FROM pg_prepared_xacts'):
				break
		for queue in QUEUES:
			self.sql('SELECT jobq.resume_queue(%s)', (queue,))
		self.verify('after the storm')
		self.check_gauges('after the storm')
		# Long delays are cut short; the journal says so, since the rule about early jobs must know.
		far = [r[0] for r in self.sql("SELECT job_id FROM jobq.delayed WHERE visible_at > clock_timestamp() + interval '5 s'")]
		if far:
			self.journal.write('call', x=1, c=1, v='run_now', a=dict(js=far), auto=1)
			n = self.sql('SELECT jobq.run_now(%s::bigint[])', (far,))[0][0]
			self.journal.write('ret', c=1, r=n)
			if n != len(far):
				self.journal.write('wrong', e='run_now of %d delayed jobs says %d' % (len(far), n))
		for i in range(2):
			self.start(Drainer, i)
		self.drain()
		# Two sessions redrive the same dead letters: each of them lives again once.
		dead = [r[0] for r in self.sql('SELECT d.id FROM jobq.dead d JOIN jobq.queue q ON q.id = d.queue_id WHERE q.name = %s', (KEEP,))]
		self.redriven = dict.fromkeys(dead, time.monotonic())
		for i in range(2):
			self.start(Redriver, i)
		deadline = time.monotonic() + 60 + len(dead) / 100
		while any(p.is_alive() for (kind, _), p in self.procs.items() if kind is Redriver):
			if time.monotonic() > deadline:
				self.journal.write('stuck', e='the redrivers do not end')
				break
			time.sleep(0.05)
		self.drain()
		self.stop_clients(40)
		self.harm['dead letters redriven'] = len(dead)
		self.verify('at the end')
		self.check_totals()
		self.check_gauges('at the end')

	def drain(self):
		deadline = time.monotonic() + 60 + self.args.jobs / 1000
		left = 1
		while left:
			if time.monotonic() > deadline:
				self.journal.write('undrained', e='%d jobs are left; %d ready and %d delayed tickets, %d leases; %s' % (left,
					*self.sql("""SELECT (SELECT count(*) FROM jobq.ready), (SELECT count(*) FROM jobq.delayed),
						(SELECT count(*) FROM jobq.lease)""")[0],
					self.sql('SELECT queue, ready, delayed, active FROM jobq.queues')))
				return
			time.sleep(0.1)
			self.tend()
			left = self.sql('SELECT count(*) FROM jobq.job')[0][0]

	def read_log(self):
		"""What the server's log says that it should not."""
		killed, odd = 0, collections.Counter()
		with open(self.args.log, errors='replace') as f:
			for line in f:
				text = re.sub(r'^.*?\] ', '', line.strip())
				if 'was terminated by signal' in line:
					if 'signal 9' in line:
						killed += 1
					else:
						odd[text] += 1
				elif re.search(r' PANIC: |^TRAP:|^XX[0-9A-Z]{3} ', text):
					odd[text] += 1
				elif re.search(r'^\S+ jobq .*(ERROR|FATAL|WARNING): ', text) and not re.match(r'57P0[12] |57014 ', text):
					odd[text] += 1
		if killed > self.kills:
			odd['%d server processes were killed by signal 9, %d by this test' % (killed, self.kills)] += 1
		for text, n in odd.items():
			self.journal.write('server_log', e='%d times: %s' % (n, text))

	def state(self):
		s = State()
		s.keep = {KEEP, LIMIT, ROUTE, DLQ}
		s.max_attempts = MAX_ATTEMPTS
		s.route = {ROUTE: DLQ}
		s.purged = {PURGE}
		s.redriven = self.redriven
		names = dict(self.sql('SELECT id, name FROM jobq.queue'))
		cur = self.conn.cursor()
		cur.execute("""SELECT id, token, state, attempt, max_attempts, queue_id, payload->>'u', name, worker, result, progress, failures
			FROM jobq.history""")
		keys = ('id', 'token', 'state', 'attempt', 'max_attempts', 'queue', 'u', 'name', 'worker', 'result', 'progress', 'failures')
		s.history = [dict(zip(keys, r), queue=names.get(r[5])) for r in cur]
		cur.execute("SELECT id, attempt, max_attempts, queue_id, payload->>'u', reason, failures FROM jobq.dead")
		keys = ('id', 'attempt', 'max_attempts', 'queue', 'u', 'reason', 'failures')
		s.dead = [dict(zip(keys, r), queue=names.get(r[3])) for r in cur]
		cur.execute("SELECT id, queue_id, payload->>'u' FROM jobq.job")
		s.live = {r[0]: dict(queue=names.get(r[1]), u=r[2]) for r in cur}
		s.effects = self.sql('SELECT job_id, token, tx FROM stress.effect')
		s.taken = set(self.sql('SELECT job_id, token FROM stress.taken'))
		s.markers = {r[0] for r in self.sql('SELECT id FROM stress.tx')}
		return s

	def run(self):
		self.began = time.monotonic()
		try:
			self.setup()
			if self.args.hammer:
				self.hammer()
			start = time.monotonic()
			self.storm()
			storm = time.monotonic() - start
			self.calm()
			calm = time.monotonic() - start - storm
			self.read_log()
			state = self.state()
		finally:
			for p in self.procs.values():
				p.kill()
		journals = Journals(self.args.journal)
		oracle = Oracle(journals, state)
		violations = oracle.check()
		report(oracle, violations, self.harm, 'storm %.1f s, calm %.1f s, oracle %.1f s' % (storm, calm,
			time.monotonic() - start - storm - calm))
		return not violations


def report(oracle, violations, harm, times):
	fates = collections.Counter(x.fate for x in oracle.j.xacts)
	rows = [('transactions committed / rolled back / unknown', '%d / %d / %d' % (fates['c'], fates['r'], fates['u']))]
	c = oracle.counts
	rows += [('jobs accounted for', c['jobs']), ('enqueued and rolled back', c['rolled back']), ('deliveries', c['delivered'])]
	rows += [('  ended: ' + k, c[k]) for k in ('completed', 'cancelled', 'dead', 'routed', 'deleted', 'purged', 'maybe finished',
		'other') if c[k]]
	for kind in ('complete', 'fail', 'release', 'extend', 'progress', 'assert_lease'):
		rows.append(('%s: accepted / already / refused / unknown' % kind, '%d / %d / %d / %d' % (c[kind + ' yes'] + c[kind + ' yes?'],
			c[kind + ' already'], c[kind + ' no'], c[kind + ' unknown'])))
	rows += [('effects in the database', c['effects'])]
	rows += sorted(harm.items())
	width = max(len(str(k)) for k, _ in rows)
	print()
	for k, v in rows:
		print('  %-*s  %s' % (width, k, v))
	print('  ' + times)
	if not violations:
		print('\nno violation')
		return
	rules = collections.Counter(v.rule for v in violations)
	print('\n%d VIOLATIONS: %s' % (len(violations), ', '.join('%s %d' % r for r in rules.most_common())))
	shown = collections.Counter()
	for v in violations:
		shown[v.rule] += 1
		if shown[v.rule] > 5:
			continue
		print('\n%s' % v)
		if v.job is not None and shown[v.rule] <= 3:
			for line in story(oracle, v.job):
				print('    ' + line)


def main():
	p = argparse.ArgumentParser(prog='test/stress/run.sh')
	p.add_argument('--seed', type=int)
	p.add_argument('--jobs', type=int, default=30000)
	p.add_argument('--workers', type=int, default=8)
	p.add_argument('--producers', type=int, default=3)
	p.add_argument('--pace', type=float, default=700, help='jobs per second that are put in, on the average')
	p.add_argument('--crashes', type=int, help='kill -9 of server processes; as many as the jobs ask for: 3 and more')
	p.add_argument('--hammer', type=int, default=20000, help='transactions of the hammer before the storm; 0: none')
	p.add_argument('--seconds', type=float, help='end the storm after this time, however many jobs there were')
	p.add_argument('--scheduler-harm', choices=('auto', 'on', 'off'), default='auto', help='terminate jobq processes; auto: one seed in three')
	p.add_argument('--rescan', choices=('auto', 'on', 'off'), default='auto',
		help='off: without the scan for forgotten tickets and without prepared transactions, which need it; auto: off for one seed in four')
	p.add_argument('--journal', required=True, help=argparse.SUPPRESS)
	p.add_argument('--log', required=True, help=argparse.SUPPRESS)
	args = p.parse_args()
	if args.seed is None:
		args.seed = random.SystemRandom().randrange(1 << 31)
	if args.crashes is None:
		args.crashes = 3 + args.jobs // 50000
	if not 1 <= args.producers <= 64:
		p.error('--producers: 1 to 64')
	args.scheduler_harm = args.scheduler_harm == 'on' or args.scheduler_harm == 'auto' and args.seed % 3 == 0
	args.rescan = args.rescan == 'on' or args.rescan == 'auto' and args.seed % 4 != 1
	print('stress: seed %d, %d jobs, %d workers, %d producers, %d server crashes%s%s' % (args.seed, args.jobs, args.workers,
		args.producers, args.crashes, ', jobq processes terminated' if args.scheduler_harm else '',
		'' if args.rescan else ', no rescan'), flush=True)
	sys.exit(0 if Run(args).run() else 1)


if __name__ == '__main__':
	main()
