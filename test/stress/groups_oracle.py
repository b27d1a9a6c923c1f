"""The oracle for groups: what oracle.py asks of every queue, and the order of each group besides.

A group is replayed from what the clients were told. Its leases stand in the order of their tokens. Jobs that were put in without a delay
have an exact place: the commit timestamp of their transaction (two transactions of one group commit one after the other), then the order
of the calls. A job may start only when nobody before it is left, where "left" is judged in favour of the queue: a call whose fate nobody
knows may have taken a job away. Jobs that joined at a moment that nobody saw (delayed, rescheduled, passed) have no exact place; for them
only the rule holds that who was given back comes first.
"""
import json
from collections import defaultdict

from journal import INF
from oracle import ENDS, TOLERANCE, Oracle, State

ENDING = ('fail', 'release')
BOUND = ENDS + ('extend', 'progress', 'assert_lease')


class GroupState(State):
	def __init__(self):
		super().__init__()
		self.commit_ts = {}		# transaction -> commit timestamp, in microseconds
		self.passing = set()	# queues with on_retry pass
		self.blocking = set()	# queues with on_dead block
		self.gap = {}			# queue -> seconds between two starts of a group
		self.backoff = {}		# queue -> seconds, fixed
		self.lease = {}			# queue -> seconds, where the caller names none
		self.group_of = {}		# job id -> key, of rows in history and dead; None: none


class Lease:
	"""A lease of a group, as dequeue answered it."""
	__slots__ = ('token', 'call', 'jobs', 'ids', 'status', 'group', 'until', 'deadline', 'next')

	def __init__(self, token, call, group):
		self.token, self.call, self.group = token, call, group
		self.jobs, self.ids = [], {}
		self.next = None		# the next one of its group that was committed

	def __repr__(self):
		return 'lease %d (%r) of %s' % (self.token, self.call, list(self.ids))


class GroupOracle(Oracle):
	ACCEPTED = {
		'complete': {'ok': 'yes', 'already': 'already', 'out_of_order': 'order'},
		'fail': {'ok': 'yes', 'retry': 'yes', 'dead': 'yes', 'blocked': 'yes', 'cancelled': 'yes', 'out_of_order': 'order'},
		'release': {'ok': 'yes', 'cancelled': 'yes', 'out_of_order': 'order'},
		'extend': {'ok': 'yes', 'cancel': 'yes', 'drain': 'yes'},
	}

	def check(self):
		self.leases = {}					# token -> Lease
		self.of_group = defaultdict(list)	# (queue, key) -> leases by token
		self.places = defaultdict(list)		# (queue, key) -> (place, job), sorted
		self.revivals = defaultdict(list)	# job id -> calls that brought it back from the dead letters, perhaps
		self.admin = defaultdict(list)		# (verb, queue, key) -> calls
		self.drains = defaultdict(list)		# worker -> calls
		self.last_word = defaultdict(list)	# client -> (when a session began, when its last answered call was sent)
		self.died = {row['id']: row for row in self.state.dead}
		return super().check()

	# -- collecting ------------------------------------------------------

	def collect_acts(self):
		super().collect_acts()
		for token, acts in self.token_acts.items():
			if any(a.sure for a in acts):
				for d in self.by_token.get(token, ()):
					if d.status == 'm':
						d.status = 'c'		# no crash undid it
			for a in acts:
				if a.kind == 'fail' and a.value == 'ok':
					a.kind = 'release'		# named after the one that failed: given back uncounted, its error is nobody's
		for c in self.j.calls:
			if c.fate == 'r':
				continue
			if c.verb in ('unblock', 'pause_group', 'resume_group', 'revive'):
				self.admin[c.verb, c.args['q'], c.args['g']].append(c)
			if c.verb == 'revive' or c.verb == 'unblock' and c.args['head'] == 'retry':
				if c.error in (None, 'lost') and c.result != 0:
					self.revivals[c.args['j']].append(c)
			if c.verb == 'drain_worker':
				self.drains[c.args['w']].append(c)
		self.collect_sessions()
		self.collect_leases()
		self.collect_places()

	def collect_sessions(self):
		starts = defaultdict(list)
		for client, e in self.j.events:
			if e['k'] == 'conn':
				starts[client].append(e['t'])
		answers = defaultdict(list)
		for c in self.j.calls:
			if c.t1 != INF and c.error not in ('lost', '57P01'):
				answers[c.client].append(c.t0)		# it may have been answered, and the session ended, long before t1
		for client, times in starts.items():
			said = sorted(answers[client])
			for lo, hi in zip(times, times[1:] + [INF]):
				inside = [t for t in said if lo <= t < hi]
				self.last_word[client].append((lo, inside[-1] if inside else lo))

	def session_over(self, lease, at):
		"""Whether the session that took a marked lease may have ended before `at`."""
		if not lease.call.args.get('live'):
			return False
		words = [last for lo, last in self.last_word[lease.call.client] if lo <= lease.call.t0]
		return not words or words[-1] < at

	def collect_leases(self):
		for c in self.j.calls:
			if c.verb not in ('dequeue', 'complete_and_dequeue') or not c.answered:
				continue
			turns = {}
			for row in c.result:
				turns.setdefault(row[1], set()).add(row[9])
			for token, keys in turns.items():
				if len(keys) > 1:
					self.bad('lease_mix', '%r: token %d holds jobs of %s' % (c, token, sorted(map(repr, keys))))
		for job in self.by_id.values():
			if job.id in self.state.group_of and self.state.group_of[job.id] != job.group:
				self.bad('payload', 'history or dead shows group %r, not %r' % (self.state.group_of[job.id], job.group), job)
			for d in job.deliveries:
				if d.group != job.group:
					self.bad('payload', '%r says group %r, not %r' % (d.call, d.group, job.group), job)
		for token, ds in self.by_token.items():
			if ds[0].group is None:
				continue
			lease = self.leases[token] = Lease(token, ds[0].call, (ds[0].call.args['q'], ds[0].group))
			order = {row[0]: i for i, row in enumerate(lease.call.result)}
			ds = sorted((d for d in ds if d.call is lease.call), key=lambda d: order[d.id])
			lease.jobs = [self.by_id[d.id] for d in ds]
			lease.ids = {d.id: i for i, d in enumerate(ds)}
			lease.status, lease.until, lease.deadline = ds[0].status, ds[0].until, ds[0].deadline
			self.of_group[lease.group].append(lease)
			self.counts['leases of groups'] += 1
			self.counts['  of several jobs'] += len(ds) > 1
		for leases in self.of_group.values():
			leases.sort(key=lambda l: l.token)
			after = None
			for lease in reversed(leases):
				lease.next = after
				if lease.status == 'c':
					after = lease

	def collect_places(self):
		for job in self.by_u.values():
			c = job.enqueue
			if job.group is None or c is None or c.fate != 'c' or c.args['d'] or job.id is None:
				continue
			ts = self.state.commit_ts.get(c.xact.key)
			if ts is not None:
				self.places[job.queue, job.group].append(((ts, c.xact.key, c.n, job.rank), job))
		for entries in self.places.values():
			entries.sort(key=lambda e: e[0])

	def is_expected(self, c):
		return c.error == 'JQ002' and c.verb in ('complete', 'fail', 'release', 'complete_and_dequeue') \
			or c.verb == 'unblock' and c.error == '55000'

	def check_purges(self):
		pass	# nothing is purged here, and redrives are journalled one by one

	# -- what may have happened ------------------------------------------

	def left(self, job, lease):
		"""Why the job may have left its line, or the lease, before another lease was taken; None: it is still there."""
		at, token = lease.call.t1, lease.token
		for a in job.acts:
			if not a.possible or a.call.t0 >= at or a.token > token:
				continue
			if a.kind == 'complete' or a.kind in ENDING and (a.value in ('dead', 'blocked', 'cancelled') or a.outcome == 'unknown'):
				return a.call
		return self.taken_away(job, at) or self.passed(job, lease)

	def taken_away(self, job, at):
		for c in job.cancels:
			if c.t0 < at and (not c.answered or c.result in self.CANCEL_ASKED):
				return c
		for c in job.deletes:
			if c.t0 < at and (not c.answered or c.result):
				return c
		for c in job.moves:
			if c.verb == 'reschedule' and c.args.get('d') and c.t0 < at and c.error in (None, 'lost'):
				return c
		row = self.died.get(job.id)
		if row is not None and row['died'] <= at + TOLERANCE:
			return row
		# it was dead once, and nobody knows since when
		return next(iter(self.revivals.get(job.id, ())), None)

	def passed(self, job, lease):
		"""In a queue with on_retry pass, a job whose attempt failed, or whose lease ran out, stands elsewhere."""
		if job.queue not in self.state.passing:
			return None
		tries = 0
		for d in job.deliveries:
			if d.call.t0 >= lease.call.t1 or d.token >= lease.token:
				continue
			if d.status == 'r':
				tries += 1
				continue
			mine = self.leases[d.token]
			if not self.returned(job, mine):
				return d.call
		seen = [t for times in (self.undone, self.blind) for t in times.get(job.queue, ())]
		if tries + sum(t < lease.call.t1 for t in seen) >= 3:
			return lease.call		# an attempt may have been counted for claims that were rolled back
		# its next attempt tells of one that nobody saw: whoever had it ended before he could say so
		known = max((d.attempt for d in job.deliveries if d.token < lease.token and d.status != 'r'), default=0)
		later = next((d for d in job.deliveries if d.token > lease.token), None)
		if later and later.attempt > known + 1 and any(t < lease.call.t1 for t in self.blind.get(job.queue, ())):
			return later.call
		return None

	def returned(self, job, lease):
		"""Whether the job surely went back to its place from that lease, uncounted."""
		i = lease.ids.get(job.id)
		if i is None:
			return False
		for k, b in enumerate(lease.jobs[:i + 1]):
			for a in self.acts_on(b, lease.token, ENDING):
				if a.sure and (k < i or a.kind == 'release'):
					return True
		return False

	def moved(self, job, lease):
		"""Whether the job may stand at another place than the one it joined at."""
		return any(c.verb == 'reschedule' and c.t0 < lease.call.t1 for c in job.moves) or bool(self.revivals.get(job.id)) \
			or self.passed(job, lease) is not None

	def draining(self, lease, at):
		return any(c.t0 < at for c in self.drains.get(lease.call.client, ()))

	def may_be_over(self, lease, at):
		"""Whether a lease may have ended before `at`."""
		if at >= self.lease_end(lease.token, at) - TOLERANCE or lease.status != 'c' or self.session_over(lease, at):
			return True
		for a in self.token_acts.get(lease.token, ()):
			if a.possible and a.call.t0 < at and (a.kind in ENDING or a.kind == 'complete' and self.draining(lease, at)):
				return True
		return all(any(a.possible and a.call.t0 < at for a in self.acts_on(j, lease.token, ENDS)) or any(c.t0 < at and
			(not c.answered or c.result) for c in j.deletes) for j in lease.jobs)

	# -- rules of one job, other than without a group ----------------------

	def revived(self, job, prev, d):
		if job.group is None:
			return super().revived(job, prev, d)
		calls = [c for c in self.revivals.get(job.id, ()) if c.t0 < d.call.t1 and (prev is None or c.end > prev.call.t0)]
		return min(c.t0 for c in calls) if calls and d.attempt == 1 else None

	def reborn(self, job, prev, d):
		return any(c.t0 < d.call.t1 and c.end > prev.call.t0 for c in self.revivals.get(job.id, ()))

	def last_revival(self, job):
		return max((c.t0 for c in self.revivals.get(job.id, ())), default=-INF)

	def check_handover(self, job, prev, d):
		if job.group is None:
			return super().check_handover(job, prev, d)
		lease = self.leases[prev.token]
		i = lease.ids[job.id]
		acts = [a for a in self.acts_on(job, prev.token, ENDING) if a.possible]
		sure = [a for a in acts if a.sure]
		first = self.counted_first(lease, i)
		if sure and (sure[0].kind == 'release' or first == 1):
			return (1, 1) if sure[0].kind == 'fail' else (0, 0)
		if any(a.sure and a.job != job.id and a.kind in ENDING for a in self.token_acts[prev.token]):
			return 0, 0
		if acts or self.draining(lease, d.call.t1):
			return 0, 1
		return {1: (1, 1), 0: (0, 0), None: (0, 1)}[first]

	def counted_first(self, lease, i):
		"""Whether the i-th job is the first unfinished one of its lease: 1, 0, or None for unknown."""
		answer = 1
		for b in lease.jobs[:i]:
			ends = [a for a in self.acts_on(b, lease.token, ('complete',)) if a.possible]
			if any(a.sure for a in ends):
				continue
			if not ends and not b.deletes and not b.cancels:
				return 0
			answer = None
		return answer

	def check_refusal(self, job, a, d):
		if job.group is None:
			return super().check_refusal(job, a, d)
		done = [e for e in self.acts_on(job, a.token, ('complete',)) if e.sure and e.call.end < a.call.t0]
		if a.kind == 'complete' and done and any(h['state'] == 'c' for h in job.history):
			self.bad('false_refusal', '%r was refused, but %r completed it and history knows' % (a.call, done[0].call), job)
		inside = d.call.xact is a.call.xact and (d.call.undone is None or d.call.undone > a.call.t1)
		if not inside and (d.status != 'c' or d.call.end > a.call.t0):
			return
		lease = self.leases[a.token]
		for e in self.token_acts[a.token]:
			if e is a or e.call.t0 >= a.call.t1 or e.outcome in ('no', 'void', 'order'):
				continue
			if e.call.fate == 'r' and e.call.xact is not a.call.xact:
				continue
			if e.kind in ENDING or e.kind == 'complete' and (e.job == a.job or self.draining(lease, a.call.t1)):
				return
		if job.cancels or job.deletes or self.session_over(lease, a.call.t1):
			return
		end = self.lease_end(a.token, a.call.t0)
		if a.call.t1 < end - TOLERANCE:
			self.bad('false_refusal', '%r was refused %.3f s before its lease ended' % (a.call, end - a.call.t1), job)

	# -- rules of one group ------------------------------------------------

	def check_effects(self):
		super().check_effects()
		for group, leases in self.of_group.items():
			self.check_leases(leases)
			self.check_order(group, leases)
			self.check_pauses_of(group, leases)
			self.check_rate(group, leases)
			self.check_blocks(group, leases)
			for lease in leases:
				self.check_verbs(lease)
		self.check_traces()

	def check_leases(self, leases):
		"""S1: one at a time. S2: tokens grow in the order of time."""
		prev, highest = None, None
		for lease in sorted(leases, key=lambda l: l.call.t0):
			if highest and highest.call.t1 < lease.call.t0 and highest.token > lease.token:
				self.bad('token_order', '%r after %r' % (lease, highest), lease.jobs[0])
			if highest is None or lease.token > highest.token:
				highest = lease
		for lease in leases:
			if prev and not self.may_be_over(prev, lease.call.t1):
				self.bad('two_leases', '%r while %r was live, %.3f s before its end' % (lease, prev,
					self.lease_end(prev.token, lease.call.t1) - lease.call.t1), lease.jobs[0])
			if lease.status == 'c':
				prev = lease
		for held in leases:
			# a transaction that is open holds what it took, even if it is rolled back later
			free = held.call.undone if held.call.undone is not None else held.call.xact.fin
			if held.status != 'r' or free is None:
				continue
			for lease in leases:
				if lease.call.xact is not held.call.xact and lease.call.t0 > held.call.t1 and lease.call.t1 < free:
					self.bad('two_leases', '%r while the transaction of %r was open' % (lease, held), lease.jobs[0])

	def check_order(self, group, leases):
		"""S3, S4, S8, S9: who starts is the next in line."""
		entries = self.places.get(group, [])
		place = {job: i for i, (_, job) in enumerate(entries)}
		front, prev, started = 0, None, set()
		for lease in leases:
			while front < len(entries) and self.left(entries[front][1], lease):
				front += 1
			for k, job in enumerate(lease.jobs):
				if job.enqueue is not None and job.enqueue.xact.fin is not None and lease.call.t1 < job.enqueue.xact.fin:
					self.bad('uncommitted', '%r holds it before its commit was sent' % lease, job)
				if job not in place or self.moved(job, lease):
					continue
				for i in range(front, place[job]):
					b = entries[i][1]
					if b not in lease.jobs[:k] and not self.left(b, lease):
						self.bad(self.kind_of_disorder(lease, b, job, place, started), '%r starts it, but %r stands before it' % (lease, b), job)
						break
			if prev:
				self.check_front(prev, lease)
			if lease.status == 'c':
				prev = lease
				started.update(lease.jobs)

	@staticmethod
	def kind_of_disorder(lease, b, job, place, started):
		if b in started:
			return 'place'
		if b.enqueue.xact is job.enqueue.xact:
			return 'call_order'
		first = lease.jobs[0]
		return 'prefix' if first is not job and first in place and place[first] < place[b] else 'commit_order'

	def check_front(self, prev, lease):
		"""Who was given back comes first, in the old order."""
		rest = [b for b in prev.jobs if not self.left(b, lease) and not self.moved(b, lease)]
		found = [j for j in lease.jobs if j in rest or j not in prev.jobs and not self.revivals.get(j.id)]
		for b, j in zip(rest, found):
			if b is not j:
				self.bad('place', '%r starts it, but %r was given back by %r and comes first' % (lease, b, prev), j)
				return

	def check_verbs(self, lease):
		"""S5: what was accepted came from the holder, in order; what was refused was refused for a reason."""
		ended = None
		for a in sorted(self.token_acts.get(lease.token, ()), key=lambda a: (a.call.t0, a.call.n)):
			i = lease.ids.get(a.job)
			if i is None:
				continue
			job = lease.jobs[i]
			if a.outcome == 'order':
				self.counts['refused out of order'] += 1
				self.check_order_refusal(lease, i, a)
			if not a.sure or a.kind not in BOUND:
				continue
			after = lease.next
			if a.outcome == 'yes?' and any(e is not a and e.possible and e.call.t0 < a.call.t1
					for e in self.acts_on(job, a.token, ('complete',))):
				continue		# done before, and answered so
			if after and after.call.end < a.call.t0:
				self.bad('stale_accepted', '%r was accepted after %r' % (a.call, after), job)
			elif after and a.kind in ENDS and (a.call.xact.fin or a.call.t0) >= after.call.t1:
				self.bad('stale_accepted', '%r was committed after %r had been answered' % (a.call, after), job)
			if ended and ended.call is not a.call and ended.call.end < a.call.t0 and a.kind in ENDING + ('complete',):
				self.bad('stale_accepted', '%r was accepted after %r had ended the lease' % (a.call, ended.call), job)
			if a.kind in ENDS and a.outcome in ('yes', 'yes?'):
				self.check_turn(lease, i, a)
			if a.kind in ENDING:
				ended = ended or a
				self.check_early(lease, job, a)

	def check_turn(self, lease, i, a):
		"""S4: only the first unfinished job of a lease is ended. Who is named after it in the same call was given back with it."""
		if a.kind == 'release' and any(e.call is a.call and lease.ids.get(e.job, i) < i for e in self.token_acts[a.token]
				if e.kind in ENDING and e.outcome in ('yes', 'yes?')):
			return
		for b in lease.jobs[:i]:
			if any(e.call is a.call or e.possible and e.call.t0 < a.call.t1 for e in self.acts_on(b, lease.token, ENDS)):
				continue
			if any(c.t0 < a.call.t1 for c in b.deletes):
				continue
			self.bad('out_of_order', '%r was accepted, but %r comes before it in %r' % (a.call, b, lease), lease.jobs[i])
			return

	def check_order_refusal(self, lease, i, a):
		after = lease.next
		if after and after.call.end < a.call.t0:
			self.bad('wrong_refusal', '%r was told that it is out of order, but its lease was lost to %r' % (a.call, after), lease.jobs[i])
		if lease.status != 'c' or a.call.fate == 'r' and a.call.verb.endswith('_many') or self.draining(lease, a.call.t1):
			return
		for b in lease.jobs[:i]:
			if not any(e.outcome in ('yes', 'yes?') and (e.call is a.call or e.call.end < a.call.t0 and e.sure or
					e.call.xact is a.call.xact and e.call.t0 < a.call.t0 and e.call.undone is None)
					for e in self.acts_on(b, lease.token, ('complete',))):
				return
		self.bad('false_refusal', '%r was told that it is out of order, but all before it are done' % a.call, lease.jobs[i])

	def check_early(self, lease, job, a):
		"""S10: a group waits for its head's backoff, or as long as it was released for."""
		args, queue = a.call.args, lease.group[0]
		if a.kind == 'release':
			delay = args.get('d')
		elif queue in self.state.passing or a.value not in ('retry', 'ok'):
			return
		else:
			delay = self.state.backoff.get(queue) if args.get('ri') is None else args['ri']
		after = lease.next
		if not delay or after is None or a.call.args.get('js') and len(a.call.args['js']) > 1:
			return
		due = a.call.t0 + delay
		calls = job.cancels + job.deletes + job.moves + self.admin['resume_group', lease.group[0], lease.group[1]]
		if after.call.t1 < due - TOLERANCE and not any(c.end > lease.call.t0 for c in calls):
			self.bad('early', '%r came %.3f s before %r allowed it' % (after, due - after.call.t1, a.call), job)

	def check_blocks(self, group, leases):
		"""S11: a dead head blocks its group until somebody unblocks it."""
		if group[0] not in self.state.blocking:
			return
		for lease in leases:
			if lease.status != 'c' or lease.next is None:
				continue
			deaths = [(a.call.t0, self.by_id[a.job]) for a in self.token_acts.get(lease.token, ()) if a.kind == 'fail' and a.sure
				and a.value in ('dead', 'blocked') and a.job in lease.ids]
			for j in lease.jobs:
				row = self.died.get(j.id)
				if row and row['reason'] == 'lease_expired' and [d for d in j.deliveries if d.status == 'c'][-1].token == lease.token:
					deaths.append((lease.call.t0, j))
			for t, job in deaths:
				self.counts['groups blocked'] += 1
				calls = self.admin[('unblock',) + group] + self.revivals.get(job.id, []) + job.deletes
				if not any(c.t0 < lease.next.call.t1 and c.end > t and c.error in (None, 'lost') for c in calls):
					self.bad('blocked', '%r, but its death in %r blocks the group' % (lease.next, lease), job)

	def check_pauses_of(self, group, leases):
		"""S12"""
		calls = sorted(self.admin[('pause_group',) + group] + self.admin[('resume_group',) + group], key=lambda c: c.t0)
		for p, n in zip(calls, calls[1:] + [None]):
			if p.verb != 'pause_group' or p.fate != 'c' or not p.answered:
				continue
			for lease in leases:
				if lease.call.t0 > p.end and lease.call.t1 < (n.t0 if n else INF):
					self.bad('paused', '%r while its group was paused by %r' % (lease, p), lease.jobs[0])

	def check_rate(self, group, leases):
		"""S13: with one job in a turn, all windows are right if two starts in a row are far enough apart."""
		gap = self.state.gap.get(group[0])
		if gap is None:
			return
		last = None
		for lease in leases:
			if len(lease.jobs) > 1:
				self.bad('rate', '%r holds %d jobs' % (lease, len(lease.jobs)), lease.jobs[0])
			if lease.status != 'c' or lease.until >= lease.deadline - TOLERANCE:
				continue
			length = lease.call.args.get('l')
			start = lease.until - (self.state.lease[group[0]] if length is None else length)
			if last is not None and start - last < gap - 0.002:
				self.bad('rate', '%r starts %.4f s after the one before it, allowed are %.4f' % (lease, start - last, gap), lease.jobs[0])
			last = start

	def check_traces(self):
		"""S5: a refused fail leaves no trace of itself."""
		rows = defaultdict(str)
		for row in self.state.history + self.state.dead:
			rows[row['id']] += json.dumps(row['failures'])
		for job in self.by_id.values():
			for a in job.acts:
				error = a.call.args.get('err')
				if a.kind == 'fail' and error and (a.outcome in ('no', 'order') or a.call.fate == 'r') and '"%s"' % error in rows[job.id]:
					self.bad('refused_changed', '%r was refused or rolled back, but its error is among the failures' % a.call, job)
