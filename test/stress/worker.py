"""Workers: every way of taking jobs and of ending them, in time, late, twice, or with a token that is not theirs."""
import time

from client import Client, Refused, DLQ, MAIN, PURGE

STALE = ('JQ001',)


class Worker(Client):
	role = 'worker'

	def run(self):
		self.later = []		# (when, job, token): to be ended after the lease has run out
		self.old = []		# (job, token) of earlier days
		self.serial = 0
		super().run()

	def queue(self):
		x = self.rng.random()
		return PURGE if x < 0.03 else DLQ if x < 0.06 else self.rng.choice(MAIN)

	def mark(self):
		"""A text that is found again in results and error messages."""
		self.serial += 1
		return '%s/%d' % (self.name, self.serial)

	def size(self):
		return self.rng.choice((1, 1, 1, 2, 5, 10, 64, 65, 100, 150))

	def lease(self):
		return self.rng.choice((None, None, 1.0, 1.0, 2.0, 5.0))

	def wait(self):
		return self.rng.choice((0, 0, 0.1, 0.4))

	def step(self):
		self.late_ones()
		x = self.rng.random()
		if x < 0.03:
			return self.stale_ones()
		for share, way in ((0.40, self.plain), (0.12, self.chained), (0.10, self.in_one), (0.08, self.rolled_back),
				(0.06, self.half_rolled_back), (0.06, self.long_take), (0.06, self.waited), (0.05, self.cut),
				(0.04, self.prepared_take)):
			x -= share
			if x < 0.03:
				return way()

	# -- ways to take ----------------------------------------------------

	def take(self, queue=None, **kw):
		rows = self.dequeue(queue or self.queue(), self.size(), self.lease(), self.wait(), **kw)
		if not rows:
			time.sleep(0.005)
		return rows

	def plain(self):
		self.handle(self.take(noted=self.rng.random() < 0.25))

	def long_take(self):
		self.begin(marker=False)
		rows = self.take()
		time.sleep(self.rng.choice((0.05, 0.3)))
		self.commit()
		self.handle(rows)

	def waited(self):
		self.execute('CALL jobq.wait(%s, %s)', (self.queue(), '%d ms' % self.rng.choice((1, 50, 300))))
		self.plain()

	def rolled_back(self):
		self.begin(marker=self.rng.random() < 0.5)
		rows = self.take()
		if rows and self.rng.random() < 0.5:
			self.end_some(rows, self.rng.choice(('complete', 'fail', 'release')))
		self.rollback()

	def half_rolled_back(self):
		self.begin(marker=False)
		rows = self.take() if self.rng.random() < 0.5 else []
		first = self.savepoint()
		queue = self.queue()
		self.dequeue(queue, self.size(), self.lease())
		self.rollback_to(first)
		if self.rng.random() < 0.5:
			rows += self.dequeue(queue, self.size(), self.lease())
		self.commit()
		self.handle(rows)

	def cut(self):
		"""The network goes away in an open transaction."""
		self.begin(marker=False)
		rows = self.take()
		if rows and self.rng.random() < 0.5:
			self.end_some(rows, 'complete')
		self.cut_connection()

	def prepared_take(self):
		"""A dequeue cannot be prepared."""
		self.begin()
		if not self.take():
			return self.rollback()
		try:
			gid = self.prepare()
		except Refused:
			return self.execute('ROLLBACK')
		self.journal.write('wrong', e='PREPARE TRANSACTION was accepted after a dequeue: ' + gid)

	def in_one(self):
		"""Take, work and complete in one transaction, and look for a job made by the same transaction."""
		r = self.rng
		self.begin()
		if r.random() < 0.3:
			self.enqueue(self.queue(), '%s:own%d' % (self.name, self.journal.calls))
		rows = self.dequeue(self.queue(), r.choice((1, 1, 5, 100)), self.lease())
		for job, token in pairs(rows):
			self.complete_with_effect(job, token)
		if r.random() < 0.85:
			self.commit()
		else:
			self.rollback()

	def chained(self):
		"""One job after the other, each completed by the call that takes the next."""
		queue = self.queue()
		rows = self.dequeue(queue, 1, self.lease(), self.wait())
		for _ in range(self.rng.randint(3, 25)):
			if not rows:
				return
			job, token = rows[0][:2]
			explicit = self.rng.random() < 0.15
			if explicit:
				self.begin()
			rows = self.complete_and_dequeue(job, token, queue, {'r': self.mark()}, self.rng.choice((1, 1, 1, 3)), self.lease(),
				self.wait(), allow=STALE)
			if explicit:
				if self.rng.random() < 0.3:
					self.rollback()
					return
				self.commit()
			if rows and len(rows) > 1:
				self.handle(rows[1:])
		self.handle(rows or [])

	# -- ways to end -----------------------------------------------------

	def handle(self, rows):
		"""Ends a batch: every job gets a fate, and those of one fate are ended together or one by one."""
		r, todo = self.rng, {}
		if r.random() < 0.03:
			return		# all of them abandoned
		hostile = r.random() < 0.6
		if rows and r.random() < 0.1:
			time.sleep(r.choice((0.05, 0.2, 0.6)))
		for job, token in pairs(rows):
			x = r.random() if hostile else 1
			way = ('fail' if x < 0.09 else 'release' if x < 0.15 else 'abandon' if x < 0.18 else 'late' if x < 0.21
				else 'complete')
			todo.setdefault(way, []).append((job, token))
			self.old.append((job, token))
		del self.old[:-300]
		for job, token in todo.pop('late', ()):
			self.later.append((time.monotonic() + r.choice((0.5, 1.5, 3)), job, token))
		todo.pop('abandon', None)
		if rows and r.random() < 0.25:
			self.hold(r.choice(list(pairs(rows))))
		if rows and r.random() < 0.03:
			self.many('extend', list(pairs(rows)), dict(l=2.0), ', %s', ('2 s',))
		ways = list(todo)
		r.shuffle(ways)
		for way in ways:
			self.end(todo[way], way)

	def hold(self, pair):
		"""Signs of life of one job, some with wrong tokens."""
		r, (job, token) = self.rng, pair
		x = r.random()
		if x < 0.4:
			self.extend(job, token, r.choice((None, 0.5, 2.0, 4.0)), allow=STALE)
		elif x < 0.8:
			self.progress(job, token, {'p': self.mark()}, allow=STALE)
		else:
			self.forge(job, token)

	def forge(self, job, token):
		"""A token of no lease, of another job's lease, or of the future."""
		r = self.rng
		others = [t for _, t in self.old if t != token]
		bad = r.choice([token + r.choice((-1, 1, 1000, 1 << 40)), -token, 0] + others[-3:])
		if (job, bad) in self.old or any(bad == t for j, t in self.old if j == job):
			return
		verb = r.choice((self.complete, self.fail, self.release, self.extend, self.progress, self.assert_lease))
		rest = {self.fail: ('forged',), self.progress: ({'p': 'forged'},)}.get(verb, ())
		verb(job, bad, *rest, forged=True, allow=STALE)

	def end(self, pairs_, way):
		r = self.rng
		if way == 'complete' and r.random() < 0.15:
			return self.end_in_xact(pairs_)
		if len(pairs_) > 3 or r.random() < 0.3:
			r.shuffle(pairs_)
			self.end_many(pairs_, way)
			if way == 'complete' and r.random() < 0.1:
				self.end_many(pairs_, way)		# all of them again
			return
		self.end_some(pairs_, way)

	def end_many(self, pairs_, way):
		r = self.rng
		if r.random() < 0.2 and self.old:
			pairs_ = pairs_ + [r.choice(self.old)]		# one stale among them
		pairs_ = list(dict(pairs_).items())		# each job once
		if way == 'complete':
			marks = [{'r': self.mark()} for _ in pairs_]
			results = js_list(marks) if r.random() < 0.7 else None
			self.many('complete', pairs_, dict(res=marks if results else None), ', %s', (results,))
		elif way == 'fail':
			error, retry_in = self.mark(), r.choice((None, None, 0.0, 0.2))
			self.many('fail', pairs_, dict(err=error, ri=retry_in), ', %s, %s', (error, us(retry_in)))
		else:
			delay = r.choice((0, 0, 0.1))
			self.many('release', pairs_, dict(d=delay), ', %s', (us(delay),))

	def end_some(self, pairs_, way):
		r = self.rng
		inside = self.xact is not None
		for job, token in list(pairs(pairs_)):
			if way == 'complete':
				self.complete(job, token, {'r': self.mark()} if r.random() < 0.6 else None, allow=STALE)
				if not inside and r.random() < 0.05:
					self.complete(job, token, None, allow=STALE)		# the answer was lost; once more
			elif way == 'fail':
				if r.random() < 0.2:
					self.nack(job, token, allow=STALE)
				else:
					self.fail(job, token, self.mark(), r.choice((None, None, None, 0.0, 0.3)), r.random() > 0.04, allow=STALE)
				if not inside and r.random() < 0.1:
					self.fail(job, token, self.mark(), allow=STALE)
			else:
				self.release(job, token, r.choice((0, 0, 0.1, 0.5)), allow=STALE)

	def end_in_xact(self, pairs_):
		"""Completion together with the worker's own writes; some are rolled back and done again, some are prepared."""
		r = self.rng
		for job, token in pairs_[:20]:
			x = r.random()
			try:
				if x < 0.2:
					self.begin()
					self.complete_with_effect(job, token)
					if r.random() < 0.3:
						time.sleep(r.choice((0.05, 1.2)))
					self.rollback()
				self.begin(isolation=r.choice((None, None, None, 'REPEATABLE READ')))
				if r.random() < 0.3:
					self.assert_lease(job, token)
				if r.random() < 0.1:
					first = self.savepoint()
					self.complete(job, token, {'r': self.mark()})
					self.rollback_to(first)
				if r.random() < 0.05:
					self.fail(job, token, self.mark())
				else:
					self.complete_with_effect(job, token)
				if x > 0.95 and self.control.prepared:
					gid = self.prepare()
					if r.random() < 0.7:
						self.finish_prepared(gid, r.random() < 0.7)
				else:
					self.commit()
			except Refused as e:
				self.rollback_if_open()
				if e.state not in STALE:
					raise
		if pairs_[20:]:
			self.end_many(pairs_[20:], 'complete')

	def complete_with_effect(self, job, token):
		if self.complete(job, token, {'r': self.mark()}):
			self.execute('INSERT INTO stress.effect VALUES (%s, %s, %s)', (job, token, '%s.%d' % (self.name, self.xact)))

	def late_ones(self):
		now = time.monotonic()
		due = [l for l in self.later if l[0] <= now]
		self.later = [l for l in self.later if l[0] > now]
		for _, job, token in due[:10]:
			x = self.rng.random()
			if x < 0.3:
				self.extend(job, token, 1.0, allow=STALE)
			self.end_some([(job, token)], 'complete' if x < 0.7 else 'fail' if x < 0.85 else 'release')

	def stale_ones(self):
		"""Tokens of jobs that were ended before, or ran out."""
		for _ in range(min(3, len(self.old))):
			job, token = self.rng.choice(self.old)
			x = self.rng.random()
			if x < 0.2:
				self.extend(job, token, allow=STALE)
			elif x < 0.4:
				self.progress(job, token, {'p': self.mark()}, allow=STALE)
			elif x < 0.5:
				self.complete_and_dequeue(job, token, self.queue(), allow=STALE)
			else:
				self.end_some([(job, token)], self.rng.choice(('complete', 'fail', 'release')))


class Drainer(Client):
	"""The calm phase: takes what is there and completes it."""
	role = 'drainer'

	def step(self):
		queue = self.rng.choice((*set(MAIN), PURGE, DLQ))
		rows = self.dequeue(queue, 100, 5.0, 0.05)
		if rows:
			self.many('complete', list(pairs(rows)), dict(res=None), ', NULL')


def pairs(rows):
	return [(r[0], r[1]) for r in rows]


def us(seconds):
	return None if seconds is None else '%d us' % round(seconds * 1e6)


def js_list(values):
	import json
	return json.dumps(values)
