"""The oracle: compares what all clients were told with what the database holds at the end.

check(journals, state) returns violations. It knows nothing of how the queue works, only what it promises; each promise is a
rule with a name, and selftest.py holds a fabricated run for each rule that breaks it.

Time: all clients ran on one machine and stamped their lines with its monotonic clock; the server's lease_until is brought to
that clock. A call had its effect somewhere between t0 (before it was sent) and end (its transaction's end was known).

A crash of the server may undo what was committed asynchronously: first attempts that were dequeued, and nothing else in the
transaction; or an extend. Such a delivery is "maybe" when the crash came within LOSS seconds of it.
"""
import bisect
from collections import defaultdict

from journal import INF

LOSS = 3.0		# seconds; three times wal_writer_delay is the promise, this machine may be slow
TOLERANCE = 0.02	# seconds, between the two clocks
SHORTEST_LEASE = 1.5	# seconds, of a queue in this test when the caller names none

ENDS = ('complete', 'fail', 'release')


class State:
	"""What the database holds at the end; filled by stress.py, or by hand in the self-test."""

	def __init__(self):
		self.live = {}			# job id -> dict(queue, u)
		self.history = []		# dict(id, token, state, attempt, max_attempts, queue, u, name, worker, result, progress, failures)
		self.dead = []			# dict(id, attempt, max_attempts, queue, u, reason, failures)
		self.effects = []		# (job, token, xact)
		self.taken = set()		# (job, token), written by dequeues that note what they took
		self.markers = set()
		self.keep = set()		# queues with history
		self.max_attempts = {}	# queue -> default
		self.route = {}			# queue -> its dead letter queue
		self.purged = set()		# queues that are purged
		self.redriven = {}		# job id -> when it was redriven from the dead letters


class Violation:
	def __init__(self, rule, text, job=None):
		self.rule, self.text, self.job = rule, text, job

	def __str__(self):
		return '%s: %s%s' % (self.rule, '' if self.job is None else '%r: ' % self.job, self.text)


class Delivery:
	"""A job in an answer of dequeue."""
	__slots__ = ('call', 'id', 'token', 'attempt', 'max_attempts', 'priority', 'name', 'u', 'until', 'deadline', 'group', 'status')

	def __init__(self, call, row, wall):
		self.call = call
		self.id, self.token, self.attempt, self.max_attempts, self.priority, self.name, self.u, until, deadline = row[:9]
		self.group = row[9] if len(row) > 9 else None
		self.until = until - wall
		self.deadline = INF if deadline is None else deadline - wall
		self.status = None		# c committed for good, m maybe, r rolled back


class Act:
	"""What one verb did to one job."""
	__slots__ = ('call', 'kind', 'job', 'token', 'outcome', 'value', 'result')

	def __init__(self, call, kind, job, token, outcome, value=None, result=None):
		self.call, self.kind, self.job, self.token = call, kind, job, token
		# yes, yes? (or already), already, no (stale), order (not the next of its group), unknown, void (an error: no effect)
		self.outcome = outcome
		self.value, self.result = value, result

	@property
	def sure(self):
		return self.outcome in ('yes', 'yes?') and self.call.fate == 'c'

	@property
	def possible(self):
		return self.outcome in ('yes', 'yes?', 'unknown') and self.call.fate != 'r'


class Job:
	def __init__(self, u):
		self.u = u
		self.id = None
		self.queue = None
		self.enqueue = None		# Call; None for a job that a dead letter queue made
		self.rank = 0			# its place in that call
		self.group = None		# key
		self.deliveries, self.acts, self.cancels, self.deletes, self.moves = [], [], [], [], []
		self.history, self.dead, self.live, self.met = [], [], False, False

	def __repr__(self):
		return 'job %s (%s)' % (self.id, self.u)

	@property
	def seen(self):
		return bool(self.deliveries or self.history or self.dead or self.live or self.met)


class Oracle:
	def __init__(self, journals, state):
		self.j, self.state = journals, state
		self.wall = journals.wall or 0
		self.violations = []
		self.by_u, self.by_id, self.routed = {}, {}, defaultdict(list)
		self.by_token = defaultdict(list)	# token -> deliveries
		self.token_acts = defaultdict(list)	# token -> acts
		self.extends = defaultdict(list)	# token -> those of them that extend
		self.counts = defaultdict(int)

	def bad(self, rule, text, job=None):
		self.violations.append(Violation(rule, text, job))

	def check(self):
		for x, text in self.j.settle(self.state.markers):
			self.bad('durability', '%s %s' % (x.key, text))
		# A kill is sent at t and the server is back at t1; what was not on disk by then is gone.
		self.crashes = [(e['t'] - LOSS, e.get('t1', e['t'] + 60)) for e in self.j.events_of('crash')]
		self.collect_enqueues()
		self.collect_deliveries()
		self.collect_rows()
		self.collect_acts()
		self.check_events()
		self.check_errors()
		self.check_tokens()
		self.check_pauses()
		for job in list(self.by_id.values()) + [j for j in self.by_u.values() if j.id is None]:
			self.check_job(job)
		self.check_effects()
		self.check_purges()
		return self.violations

	# -- collecting ------------------------------------------------------

	def collect_enqueues(self):
		for c in self.j.calls:
			if c.verb not in ('enqueue', 'enqueue_many'):
				continue
			us = c.args['us'] if c.verb == 'enqueue_many' else [c.args['u']]
			ids = [None] * len(us)
			if c.answered:
				ids = [c.result] if c.verb == 'enqueue' else [r[0] for r in c.result]
				if len(ids) != len(us) or any(i is None for i in ids):
					self.bad('answer', '%r: %d ids for %d jobs' % (c, len(ids), len(us)))
				if c.verb == 'enqueue_many' and any(r[1] != 'inserted' for r in c.result):
					self.bad('answer', '%r: status other than inserted' % c)
			groups = c.args.get('gs') or [c.args.get('g')] * len(us)
			for rank, (u, i, group) in enumerate(zip(us, ids, groups)):
				job = self.by_u[u] = Job(u)
				job.enqueue, job.queue, job.id, job.rank, job.group = c, c.args['q'], i, rank, group
				if i is not None:
					if i in self.by_id:
						self.bad('id_twice', 'also the id of %r' % self.by_id[i], job)
					self.by_id[i] = job

	def job_of(self, job_id, u, queue, where):
		"""The job of a row; learns ids that the producer never heard of, and jobs that a dead letter queue made."""
		job = self.by_id.get(job_id)
		if job is not None:
			if job.u != u:
				self.bad('payload', '%s shows the payload of %s' % (where, u), job)
			elif job.queue != queue:
				self.bad('payload', '%s shows it in queue %s' % (where, queue), job)
			return job
		origin = self.by_u.get(u)
		if origin is not None and self.state.route.get(origin.queue) == queue:
			job = Job(u)
			self.routed[u].append(job)
		elif origin is not None and origin.id is None:
			job = origin
		else:
			job = Job(u)
			self.bad('ghost', '%s shows a job that nobody enqueued, id %s' % (where, job_id), job)
		job.id, job.queue = job_id, queue
		self.by_id[job_id] = job
		return job

	def maybe_lost(self, call):
		return any(lo <= call.end <= hi for lo, hi in self.crashes)

	def collect_deliveries(self):
		self.blind = defaultdict(list)		# queue -> when a dequeue was sent whose answer nobody heard
		self.undone = defaultdict(list)		# queue -> when one was sent that took we do not know what, and gave it back
		for c in self.j.calls:
			if c.verb not in ('dequeue', 'complete_and_dequeue'):
				continue
			if not c.answered:
				where = self.blind if c.error in (None, 'lost') and c.xact.fate != 'r' else self.undone
				where[c.args['q']].append(c.t0)
				continue
			n = c.args['n']
			if len(c.result) > n:
				self.bad('answer', '%r: %d jobs, %d asked for' % (c, len(c.result), n))
			durable = c.xact.marker or any(k.verb != 'dequeue' or k.args.get('noted') or k.answered and any(r[2] > 1 for r in k.result)
				for k in c.xact.calls if k.undone is None)
			seen = set()
			for row in c.result:
				d = Delivery(c, row, self.wall)
				d.status = {'c': 'c', 'u': 'm', 'p': 'm', 'r': 'r'}[c.fate]
				if d.status == 'c' and not durable and self.maybe_lost(c):
					d.status = 'm'
				if d.id in seen:
					self.bad('two_holders', '%r holds job %d twice' % (c, d.id))
				seen.add(d.id)
				job = self.job_of(d.id, d.u, c.args['q'], repr(c))
				job.deliveries.append(d)
				self.by_token[d.token].append(d)
				self.counts['delivered'] += 1
				if d.status == 'c' and c.args.get('noted') and (d.id, d.token) not in self.state.taken:
					self.bad('durability', '%r was answered, but the row the caller wrote with it is gone' % c, job)
		for times in list(self.blind.values()) + list(self.undone.values()):
			times.sort()
		for job in self.by_id.values():
			job.deliveries.sort(key=lambda d: d.token)

	def collect_rows(self):
		for row in self.state.history:
			self.job_of(row['id'], row['u'], row['queue'], 'history').history.append(row)
		for row in self.state.dead:
			self.job_of(row['id'], row['u'], row['queue'], 'dead').dead.append(row)
		for job_id, row in self.state.live.items():
			self.job_of(job_id, row['u'], row['queue'], 'job').live = True
		for client, e in self.j.events:
			if e['k'] == 'met':
				for job_id, u, queue in e['jobs']:
					self.job_of(job_id, u, queue, client).met = True

	ACCEPTED = {
		'complete': {'ok': 'yes', 'already': 'already'},
		'fail': {'ok': 'yes', 'retry': 'yes', 'dead': 'yes', 'cancelled': 'yes'},
		'release': {'ok': 'yes', 'cancelled': 'yes'},
		'extend': {'ok': 'yes', 'cancel': 'yes'},
	}

	def collect_acts(self):
		for c in self.j.calls:
			a, verb = c.args, c.verb
			if verb.endswith('_many') and verb != 'enqueue_many':
				self.collect_many(c, verb[:-len('_many')])
			elif verb in ('complete', 'fail', 'release', 'extend', 'progress', 'assert_lease', 'complete_and_dequeue'):
				kind, outcome, value = verb, None, c.result
				if not c.answered:
					outcome = {'JQ001': 'no', 'JQ002': 'order', None: 'unknown', 'lost': 'unknown'}.get(c.error, 'void')
				elif verb == 'complete':
					outcome = 'yes' if value else 'already'
				elif verb == 'complete_and_dequeue':
					outcome = 'yes?'
				elif verb in self.ACCEPTED:
					outcome = 'yes' if verb == 'release' else self.ACCEPTED[verb].get(value)
					if outcome is None:
						self.bad('answer', '%r answered %r' % (c, value))
						continue
				else:
					outcome = 'yes'
				if verb == 'complete_and_dequeue':
					kind = 'complete'
				self.add_act(Act(c, kind, a['j'], a['t'], outcome, value, a.get('res')))
			elif verb in ('cancel', 'delete_jobs', 'run_now', 'reschedule'):
				for i, job_id in enumerate(a.get('js', [a.get('j')])):
					job = self.by_id.get(job_id)
					if job is not None and not (c.error and c.error != 'lost'):
						where = {'cancel': job.cancels, 'delete_jobs': job.deletes}.get(verb, job.moves)
						if c.fate != 'r':
							where.append(c)

	def collect_many(self, c, verb):
		pairs = list(zip(c.args['js'], c.args['ts']))
		results = c.args.get('res') or [None] * len(pairs)
		if not c.answered:
			outcome = 'unknown' if c.error in (None, 'lost') else 'void'
			for (job, token), result in zip(pairs, results):
				self.add_act(Act(c, verb, job, token, outcome, None, result))
			return
		answers = dict(c.result)
		if sorted(answers) != sorted(c.args['js']) or len(c.result) != len(pairs):
			self.bad('answer', '%r answered for other jobs than it was asked' % c)
		for (job, token), result in zip(pairs, results):
			value = answers.get(job)
			outcome = self.ACCEPTED[verb].get(value, 'no' if value in ('lost', 'already') else None)
			if outcome is None:
				self.bad('answer', '%r answered %r for job %s' % (c, value, job))
				continue
			self.add_act(Act(c, verb, job, token, outcome, value, result))

	def add_act(self, act):
		self.counts['%s %s' % (act.kind, act.outcome)] += 1
		self.token_acts[act.token].append(act)
		if act.kind == 'extend' and act.possible:
			self.extends[act.token].append(act)
		job = self.by_id.get(act.job)
		if job is not None:
			job.acts.append(act)
		elif act.sure:
			self.bad('stale_accepted', '%r was accepted for job %s, which nobody knows' % (act.call, act.job))

	# -- rules over the whole run ---------------------------------------

	EVENTS = {'wrong': 'wrong', 'odd': 'error', 'stuck': 'liveness', 'commit_refused': 'error', 'client_died': 'liveness',
		'undrained': 'liveness', 'overdue': 'liveness', 'gauge': 'gauge', 'server_log': 'server_log'}

	def check_events(self):
		for client, e in self.j.events:
			if e['k'] in self.EVENTS:
				if e['k'] == 'commit_refused' and e.get('s') in ('57014', '40001'):
					continue
				self.bad(self.EVENTS[e['k']], '%s: %s' % (client, e.get('e')))
			elif e['k'] == 'verify':
				for row in e['rows']:
					self.bad('verify', '%s: %s' % (e['when'], row))

	def check_errors(self):
		"""Errors that no caller asked for, one violation for each kind."""
		kinds = defaultdict(list)
		for c in self.j.calls:
			if c.error in (None, 'lost', '40001') or c.error == 'JQ001' and ('j' in c.args and 't' in c.args):
				continue
			if c.error == '57014' and 'user request' in (c.message or ''):
				continue
			if c.verb == 'reschedule' and c.error in ('42704', '55000') or self.is_expected(c):
				continue
			kinds[c.error, c.verb].append(c)
		for (state, verb), calls in sorted(kinds.items()):
			rule = 'hang' if state == '57014' else 'deadlock' if state == '40P01' else 'error'
			self.bad(rule, '%s %d times, first %r: %s' % (verb, len(calls), calls[0], calls[0].message),
				self.by_id.get(calls[0].args.get('j')))

	def is_expected(self, call):
		"""Whether this error is an answer."""
		return False

	def check_tokens(self):
		for token, deliveries in self.by_token.items():
			if len({id(d.call) for d in deliveries}) > 1:
				self.bad('token_twice', 'token %d was given by %s' % (token, sorted({repr(d.call) for d in deliveries})),
					self.by_id.get(deliveries[0].id))
		# A dequeue that began after another had answered has higher tokens.
		calls = {id(ds[0].call): ds[0].call for ds in self.by_token.values()}
		calls = [(c, [r[1] for r in c.result]) for c in calls.values()]
		ended = sorted(((c.t1, max(ts), c) for c, ts in calls), key=lambda e: e[0])
		times, best, highest = [], [], (0, None)
		for t1, token, c in ended:
			highest = max(highest, (token, c), key=lambda e: e[0])
			times.append(t1)
			best.append(highest)
		for c, tokens in calls:
			i = bisect.bisect_left(times, c.t0)
			if i and best[i - 1][0] > min(tokens):
				self.bad('token_order', '%r gave token %d after %r had given %d' % (c, min(tokens), best[i - 1][1], best[i - 1][0]))

	def check_pauses(self):
		"""No lease by a dequeue that began after a pause had committed and ended before anybody resumed."""
		marks = defaultdict(list)
		for c in self.j.calls:
			if c.verb in ('pause', 'resume'):
				marks[c.args['q']].append(c)
		for queue, calls in marks.items():
			calls.sort(key=lambda c: c.t0)
			windows = [(p.t1, n.t0) for p, n in zip(calls, calls[1:]) if p.verb == 'pause' and p.answered and n.t0 > p.t1]
			starts = [w[0] for w in windows]
			for c in self.j.calls:
				if c.verb in ('dequeue', 'complete_and_dequeue') and c.args['q'] == queue and c.answered and c.result:
					i = bisect.bisect_left(starts, c.t0) - 1
					if i >= 0 and c.t1 < windows[i][1]:
						self.bad('paused', '%r took %d jobs while the queue %s was paused' % (c, len(c.result), queue))

	# -- rules of one job ------------------------------------------------

	def check_job(self, job):
		fate = 'c' if job.enqueue is None else job.enqueue.fate
		if fate == 'r':
			if job.seen:
				self.bad('ghost', 'its enqueue was rolled back (%r)' % job.enqueue, job)
			self.counts['rolled back'] += 1
			return
		if fate != 'c' and not job.seen:
			self.counts['unknown, not there'] += 1
			return
		self.counts['jobs'] += 1
		self.check_fields(job)
		self.check_deliveries(job)
		self.check_acts(job)
		self.check_end(job)

	def check_fields(self, job):
		if job.enqueue is None:
			return
		a = job.enqueue.args
		limit = a['ma'] or self.state.max_attempts[job.queue]
		for d in job.deliveries:
			if d.max_attempts != limit:
				self.bad('payload', '%r says max_attempts %s, not %s' % (d.call, d.max_attempts, limit), job)
			if d.name != a['nm']:
				self.bad('payload', '%r says name %r, not %r' % (d.call, d.name, a['nm']), job)
			if not job.moves and d.priority != (1000 if a['p'] is None else a['p']):
				self.bad('payload', '%r says priority %s, not %s' % (d.call, d.priority, a['p']), job)
			if d.until > d.deadline + TOLERANCE:
				self.bad('deadline', '%r gave a lease beyond the deadline' % d.call, job)
			if d.call.xact is job.enqueue.xact:
				self.bad('own_job', '%r took a job of its own transaction' % d.call, job)
		if a['d'] and not job.moves and job.deliveries:
			first = min(job.deliveries, key=lambda d: d.call.t1)
			self.check_due(job, job.enqueue.t0 + a['d'], first, 'enqueue')

	def check_due(self, job, due, d, what):
		if d.call.t1 < due - TOLERANCE:
			self.bad('early', '%r came %.3f s before %s allowed it' % (d.call, due - d.call.t1, what), job)

	def lease_end(self, token, at):
		"""The earliest moment at which the lease may have ended by time, for somebody who looks at `at`."""
		rows = self.by_token[token]
		end = min(d.until for d in rows)
		deadline = min(d.deadline for d in rows)
		for act in sorted(self.extends.get(token, ()), key=lambda a: a.call.t0):
			if act.call.t0 >= at:
				continue
			length = act.call.args.get('l')
			new = min(act.call.t0 + (SHORTEST_LEASE if length is None else length), deadline)
			# A lease that somebody else has in hand at that moment answers ok and stays as it is; a crash may undo it.
			certain = (act.sure and act.call.end < end and not self.maybe_lost(act.call)
				and not any(self.overlaps(a.call, act.call) for a in self.token_acts[token] if a is not act)
				and not any(self.overlaps(c, act.call) for d in rows for c in self.by_id[d.id].cancels))
			end = new if certain else min(end, new)
		return end

	@staticmethod
	def overlaps(a, b):
		return a is not b and a.t0 <= b.end and b.t0 <= a.end

	@staticmethod
	def between(times, lo, hi):
		return bisect.bisect_right(times, hi) - bisect.bisect_left(times, lo - 2)

	def acts_on(self, job, token, kinds):
		return [a for a in job.acts if a.token == token and a.kind in kinds]

	def check_deliveries(self, job):
		seen, prev, rolled, maybe = set(), None, 0, 0
		for d in job.deliveries:
			if d.token in seen:
				self.bad('token_twice', 'token %d twice for this job' % d.token, job)
			seen.add(d.token)
			if not 1 <= d.attempt <= d.max_attempts:
				self.bad('attempts', '%r: attempt %d of %d' % (d.call, d.attempt, d.max_attempts), job)
			lo, hi, since = 1, 1, job.enqueue.t0 if job.enqueue else 0
			if prev:
				low, high = self.check_handover(job, prev, d)
				lo, hi, since = prev.attempt + low, prev.attempt + high, prev.call.t0
			again = self.revived(job, prev, d)
			if again is not None:
				lo, hi, since, prev, rolled, maybe = 1, 1, again, None, 0, 0	# a new life
			blind = self.between(self.blind.get(job.queue, ()), since, d.call.t1)
			undone = self.between(self.undone.get(job.queue, ()), since, d.call.t1)
			hi += maybe + blind + (rolled + blind + undone) // 3
			if d.attempt < lo and prev and self.reborn(job, prev, d):
				lo = 1		# a new life, whose first attempt nobody saw
			if not lo <= d.attempt <= hi:
				self.bad('attempts', '%r: attempt %d, expected %d to %d' % (d.call, d.attempt, lo, hi), job)
			if d.status == 'c':
				prev, rolled, maybe = d, 0, 0
			elif d.status == 'r':
				rolled += 1
			else:
				maybe += 1
		self.check_open_xacts(job)

	def revived(self, job, prev, d):
		"""When the job was redriven, if that was between these two deliveries."""
		again = self.state.redriven.get(job.id, INF)
		return again if d.call.t1 > again and (prev is None or prev.call.t1 < again) else None

	def reborn(self, job, prev, d):
		"""Whether the job may have been redriven after the delivery before."""
		return False

	def last_revival(self, job):
		return self.state.redriven.get(job.id, -INF)

	def check_handover(self, job, prev, d):
		"""prev's lease ended before d began: by a verb, or by time. Returns the least and the most attempts counted for it."""
		ends = [a for a in self.acts_on(job, prev.token, ('fail', 'release')) if a.possible]
		sure = [a for a in ends if a.sure]
		for a in sure:
			delay = a.call.args.get('ri') if a.kind == 'fail' else a.call.args.get('d')
			if delay and not any(m.end > a.call.t0 for m in job.moves):
				self.check_due(job, a.call.t0 + delay, d, repr(a.call))
		early = d.call.t1 < self.lease_end(prev.token, d.call.t1) - TOLERANCE
		if early and not any(a.call.t0 < d.call.t1 for a in ends):
			self.bad('two_holders', '%r took it %.3f s before the lease of %r (token %d) ended' % (d.call,
				self.lease_end(prev.token, d.call.t1) - d.call.t1, prev.call, prev.token), job)
		if sure:
			return (1, 1) if sure[0].kind == 'fail' else (0, 0)
		return (0, 1) if ends else (1, 1)

	def check_open_xacts(self, job):
		"""While a transaction that took the job is open, nobody else gets it, even if it is rolled back later."""
		for r in job.deliveries:
			if r.status != 'r':
				continue
			free = r.call.undone if r.call.undone is not None else r.call.xact.fin
			if free is None:
				continue
			for d in job.deliveries:
				if d.call.xact is not r.call.xact and d.call.t0 > r.call.t1 and d.call.t1 < free:
					self.bad('two_holders', '%r took it while %r was open' % (d.call, r.call), job)

	def check_acts(self, job):
		delivered = {d.token: d for d in job.deliveries}
		sure_deliveries = [d for d in job.deliveries if d.status == 'c']
		for a in job.acts:
			d = delivered.get(a.token)
			if a.sure:
				if d is None:
					self.bad('stale_accepted', '%r with a token (%s) that nobody got for this job' % (a.call, a.token), job)
					continue
				if d.status == 'r':
					self.bad('stale_accepted', '%r with a token (%s) that was rolled back' % (a.call, a.token), job)
				for later in sure_deliveries:
					if later.token > a.token and (a.kind == 'complete' or later.call.end < a.call.t0):
						self.bad('stale_accepted', '%r with token %s, but %r gave token %s' % (a.call, a.token, later.call,
							later.token), job)
						break
				for e in self.acts_on(job, a.token, ENDS):
					if e is not a and e.sure and e.outcome == 'yes' and a.outcome != 'yes?' and e.call.end < a.call.t0:
						self.bad('stale_accepted', '%r was accepted after %r had ended this lease' % (a.call, e.call), job)
			elif a.outcome == 'no' and d is not None:
				self.check_refusal(job, a, d)
			elif a.outcome == 'already':
				if not any(e.call.t0 < a.call.t1 and (e.possible or e.call.xact is a.call.xact)
						for e in self.acts_on(job, a.token, ('complete',)) if e is not a):
					self.bad('false_already', '%r says that it was completed before' % a.call, job)

	def check_refusal(self, job, a, d):
		"""A token is good until its lease has ended: a refusal before that is a lie."""
		done = [e for e in self.acts_on(job, a.token, ('complete',)) if e.sure and e.call.end < a.call.t0]
		if a.kind == 'complete' and done and any(h['state'] == 'c' for h in job.history):
			self.bad('false_refusal', '%r was refused, but %r completed it and history knows' % (a.call, done[0].call), job)
		inside = d.call.xact is a.call.xact and (d.call.undone is None or d.call.undone > a.call.t1)
		if not inside and (d.status != 'c' or d.call.end > a.call.t0):
			return
		if any(e.call.t0 < a.call.t1 and e.outcome not in ('no', 'void') and (e.call.fate != 'r' or e.call.xact is a.call.xact)
				for e in self.acts_on(job, a.token, ENDS) if e is not a):
			return
		if job.cancels or job.deletes or job.queue in self.state.purged:
			return
		end = self.lease_end(a.token, a.call.t0)
		if a.call.t1 < end - TOLERANCE:
			self.bad('false_refusal', '%r was refused %.3f s before its lease ended' % (a.call, end - a.call.t1), job)

	CANCEL_ASKED = ('cancelled', 'running')

	def check_end(self, job):
		rows = len(job.history) + len(job.dead)
		completes = [a for a in job.acts if a.kind == 'complete']
		sure = [a for a in completes if a.sure]
		possible = [a for a in completes if a.possible]
		again = self.last_revival(job)
		deaths = [a for a in job.acts if a.kind == 'fail' and a.sure and a.value in ('dead', 'blocked') and a.call.t0 > again]
		asked = [c for c in job.cancels if not c.answered or c.result in self.CANCEL_ASKED]
		deleted = [c for c in job.deletes if not c.answered or c.result]
		routed = self.routed.get(job.u, []) if job.enqueue is not None else []

		# Finished once.
		if job.live:
			self.bad('unfinished', 'still there after the queue was drained', job)
		if rows + job.live > 1:
			self.bad('twice', '%d rows in history, %d dead, %s live' % (len(job.history), len(job.dead), job.live), job)
		if len([a for a in sure if a.outcome == 'yes']) > 1 or len({a.token for a in sure}) > 1:
			self.bad('double_end', 'completed by %s' % ', '.join(repr(a.call) for a in sure), job)
		if sure and deaths:
			self.bad('double_end', 'completed by %r, dead by %r' % (sure[0].call, deaths[0].call), job)
		if len(routed) > 1:
			self.bad('twice', '%d dead letters in %s' % (len(routed), routed[0].queue), job)
		if routed and (sure or job.history or job.dead):
			self.bad('double_end', 'finished, and routed to %s as %s' % (routed[0].queue, routed[0].id), job)

		# Not lost.
		if not rows and not job.live and not routed:
			unkept = job.queue not in self.state.keep
			if deleted or unkept and (sure or any(c.answered for c in asked)):
				pass
			elif unkept and (possible or asked):
				self.counts['maybe finished'] += 1
			elif job.queue in self.state.purged:
				self.counts['purged'] += 1
				return
			else:
				self.bad('lost', '%s, and gone' % ('enqueued by %r' % job.enqueue if job.enqueue else 'made as a dead letter'), job)
			if job.queue in self.state.purged and not sure and not any(c.answered for c in asked + deleted):
				self.counts['perhaps purged'] += 1
		self.counts['completed' if any(h['state'] == 'c' for h in job.history) or (not rows and sure) else
			'cancelled' if job.history or (not rows and asked) else 'dead' if job.dead else 'routed' if routed else
			'deleted' if deleted else 'other'] += 1

		# As the callers were told.
		for h in job.history:
			self.check_history(job, h, sure, possible, asked, deaths)
		for row in job.dead:
			if sure:
				self.bad('wrong_end', 'completed by %r, but a dead letter (%s)' % (sure[0].call, row['reason']), job)
			self.check_failures(job, row)
			if row['reason'] == 'lease_expired' and deaths:
				self.bad('wrong_end', 'dead by %r, but the reason says lease_expired' % deaths[0].call, job)
			if row['reason'] == 'claim_rolled_back':
				tries = [d for d in job.deliveries if d.status != 'c']
				since = job.enqueue.t0 if job.enqueue else 0
				if len(tries) + sum(self.between(times.get(job.queue, ()), since, INF) for times in (self.blind, self.undone)) < 3:
					self.bad('wrong_end', 'dead because claims were rolled back, but only %d were' % len(tries), job)
			if row['reason'] in ('max_attempts', 'rejected') and not any(a.kind == 'fail' and a.possible for a in job.acts):
				self.bad('wrong_end', 'dead by %s, but nobody failed it' % row['reason'], job)
		if deaths and not (job.dead or routed or deleted):
			self.bad('wrong_end', '%r answered dead, but there is no dead letter' % deaths[0].call, job)
		self.check_after(job, sure, deaths)

	def check_history(self, job, h, sure, possible, asked, deaths):
		if h['state'] == 'c':
			makers = [a for a in possible if a.token == h['token']]
			if not makers:
				self.bad('wrong_end', 'completed with token %s, which nobody did' % h['token'], job)
			if sure and h['token'] != sure[0].token:
				self.bad('wrong_end', 'completed with token %s, but %r was accepted' % (h['token'], sure[0].call), job)
			if makers and h['result'] not in [a.result for a in makers]:
				self.bad('history', 'result %r, not %r' % (h['result'], makers[0].result), job)
			if len(makers) == 1:
				said = [a for a in self.acts_on(job, h['token'], ('progress',)) if a.sure and a.call.end < makers[0].call.t0]
				said.sort(key=lambda a: a.call.t0)
				if said and h['progress'] != said[-1].call.args['v']:
					self.bad('history', 'progress %r, not %r' % (h['progress'], said[-1].call.args['v']), job)
		elif h['state'] == 'x':
			if sure:
				self.bad('wrong_end', 'completed by %r, but cancelled' % sure[0].call, job)
			if not asked:
				self.bad('wrong_end', 'cancelled, but nobody asked for it', job)
		else:
			self.bad('wrong_end', 'state %r' % h['state'], job)
		if deaths:
			self.bad('wrong_end', '%r answered dead, but it is in history as %r' % (deaths[0].call, h['state']), job)
		for d in job.deliveries:
			if d.token == h['token']:
				# a group's job that was cancelled in the untouched tail of a batch has not begun its attempt
				untouched = h['state'] == 'x' and d.group is not None
				if h['attempt'] != d.attempt and not (untouched and h['attempt'] == d.attempt - 1):
					self.bad('history', 'attempt %d, delivered as %d' % (h['attempt'], d.attempt), job)
				if d.call.client != h['worker']:
					self.bad('history', 'worker %r, delivered to %s' % (h['worker'], d.call.client), job)
		self.check_failures(job, h)

	def check_failures(self, job, row):
		text = str(row['failures'])
		for a in job.acts:
			error = a.call.args.get('err')
			if a.kind == 'fail' and a.sure and a.value != 'cancelled' and error and error not in text:
				self.bad('history', 'the error %r is not among its failures' % error, job)

	def check_after(self, job, sure, deaths):
		"""Nobody gets a job after its end, or after a cancel was answered."""
		over = [(a.call.end, a.call) for a in sure + deaths]
		over += [(c.end, c) for c in job.cancels if c.answered and c.result in self.CANCEL_ASKED and c.fate == 'c']
		over += [(c.end, c) for c in job.deletes if c.answered and c.result == len(c.args['js']) and c.fate == 'c']
		if not over:
			return
		end, call = min(over, key=lambda e: e[0])
		for d in job.deliveries:
			if d.call.t0 > end:
				self.bad('after_end', '%r took it after %r' % (d.call, call), job)

	# -- effects and purges ----------------------------------------------

	def check_effects(self):
		there = defaultdict(list)
		for job_id, token, key in self.state.effects:
			there[job_id].append((token, key))
		expected = defaultdict(list)
		for x in self.j.xacts:
			if x.marker and x.fate == 'c':
				for c in x.calls:
					if c.verb == 'complete' and c.result is True and c.fate == 'c':
						expected[c.args['j']].append((c.args['t'], x.key))
		for job_id in set(there) | set(expected):
			job = self.by_id.get(job_id)
			if sorted(there[job_id]) != sorted(expected[job_id]):
				self.bad('effect', 'effects %s, expected %s' % (there[job_id], expected[job_id]), job)
			if len(there[job_id]) > 1:
				self.bad('effect', '%d effects: %s' % (len(there[job_id]), there[job_id]), job)
			for h in job.history if job else ():
				for token, key in there[job_id]:
					if h['state'] != 'c' or h['token'] != token:
						self.bad('effect', 'effect of token %s (%s), but %s with token %s' % (token, key, h['state'], h['token']), job)
		self.counts['effects'] = len(self.state.effects)

	def check_purges(self):
		calls = [c for c in self.j.calls if c.verb == 'purge' and c.fate != 'r']
		told = sum(c.result for c in calls if c.answered)
		unknown = any(not c.answered for c in calls)
		gone, perhaps = self.counts['purged'], self.counts['perhaps purged']
		if gone > told and not unknown:
			self.bad('lost', '%d jobs of purged queues are gone, purge_queue deleted only %d' % (gone, told))
		if told > gone + perhaps:
			self.bad('answer', 'purge_queue says %d, only %d to %d jobs are gone' % (told, gone, gone + perhaps))
		told = sum(c.result or 0 for c in self.j.calls if c.verb == 'redrive')
		if told != len(self.state.redriven):
			self.bad('answer', 'redrive says %d in all, there were %d dead letters' % (told, len(self.state.redriven)))


def story(oracle, job, limit=60):
	"""All that the journals know of one job, in order of time."""
	lines = []
	calls = set()
	if job.enqueue is not None:
		calls.add(job.enqueue)
	calls.update(d.call for d in job.deliveries)
	calls.update(a.call for a in job.acts)
	for c in job.cancels + job.deletes + job.moves:
		calls.add(c)
	for c in calls:
		args = {k: v for k, v in c.args.items() if k not in ('us', 'js', 'ts', 'res') and v is not None}
		answer = c.result
		for d in job.deliveries:
			if d.call is c:
				answer = 'attempt %d of %d, token %d, until %.3f, deadline %.3f (%d jobs in all)' % (d.attempt, d.max_attempts,
					d.token, d.until, d.deadline, len(c.result))
		if c.verb.endswith('_many') and c.answered:
			answer = next((r for a in job.acts if a.call is c for r in [a.value]), None)
			args['t'] = next((a.token for a in job.acts if a.call is c), None)
		if not c.answered:
			answer = 'error %s %s' % (c.error, c.message or '')
		lines.append((c.t0, '%12.4f %12.4f  %-14s #%-5d %-20s %s -> %s  [%s%s, end %.4f]' % (c.t0, c.t1, c.client, c.n, c.verb, args,
			answer, c.fate, ', in %s' % c.xact.how if c.xact.how != 'auto' else '', c.end)))
	lines.sort()
	rows = ['history: %s' % {k: v for k, v in h.items() if k != 'failures'} for h in job.history]
	rows += ['failures: %s' % h['failures'] for h in job.history + job.dead]
	rows += ['dead: %s' % {k: v for k, v in r.items() if k != 'failures'} for r in job.dead]
	rows += ['live'] if job.live else []
	crashes = [' %s' % e for e in oracle.j.events_of('crash')]
	return [l[1] for l in lines[:limit]] + ['...'] * (len(lines) > limit) + rows + (['crashes:'] + crashes if crashes else [])
