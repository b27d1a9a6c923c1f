"""Producers: every way of putting jobs in, and of not putting them in after all."""
import time

from client import Client, Refused, MAIN, PURGE

BURST = 3	# seconds


class Producer(Client):
	role = 'producer'

	def run(self):
		self.made = 0
		super().run()

	def u(self):
		self.made += 1
		return '%s:%d' % (self.name, self.made)

	def us(self, n):
		return [self.u() for _ in range(n)]

	def wishes(self):
		"""Random settings of a job; most have none."""
		r, kw = self.rng, {}
		if r.random() < 0.3:
			kw['priority'] = r.choice((-5, 0, 1, 1, 10, 999, 1000, 1001, 5000))
		if r.random() < 0.12:
			kw['delay'] = r.choice((0.0, 0.01, 0.1, 0.5, 1.0, 3.0, 3600.0))
		if r.random() < 0.2:
			kw['max_attempts'] = r.choice((1, 2, 2, 3, 10))
		if r.random() < 0.1:
			kw['name'] = r.choice(('mail', 'resize image', "o'hara"))
		if r.random() < 0.05:
			kw['timeout'] = r.choice((1.0, 2.5))
		if r.random() < 0.02:
			kw['pad'] = r.choice((3000, 20000))
		return kw

	def queue(self):
		return PURGE if self.rng.random() < 0.02 else self.rng.choice(MAIN)

	def some(self):
		"""One enqueue call of a random kind. Returns the number of jobs."""
		r, x = self.rng, self.rng.random()
		if x < 0.55:
			self.enqueue(self.queue(), self.u(), **self.wishes())
			return 1
		n = r.choice((1, 2, 5, 20, 64, 100, 200))
		if x < 0.9:
			self.enqueue_many(self.queue(), self.us(n), **self.wishes())
		else:
			self.enqueue_select(self.queue(), self.us(min(n, 20)), r.choice((None, None, 1, 1000)))
			n = min(n, 20)
		return n

	def made_good(self, n):
		self.control.made[self.index] += n

	def step(self):
		if self.control.made[self.index] >= self.control.quota:
			self.control.finished[self.index] = 1
			time.sleep(0.05)
			return
		# In bursts, so that the queues are full at times and empty at times.
		age = time.monotonic() - self.control.began
		if self.control.made[self.index] > self.control.pace * (age // BURST + 1) * BURST:
			time.sleep(0.02)
			return
		r, x = self.rng, self.rng.random()
		if r.random() < 0.05:
			# Keep the backlog bounded, so that most jobs are worked on while things go wrong.
			while not self.control.stop and self.execute("SELECT coalesce(sum(ready), 0) FROM jobq.queues")[0][0] > 4000:
				time.sleep(0.05)
		if x < 0.45:
			self.made_good(self.some())
		elif x < 0.60:
			self.begin(isolation=r.choice((None, None, 'REPEATABLE READ', 'SERIALIZABLE')))
			n = sum(self.some() for _ in range(r.randint(1, 4)))
			self.commit()
			self.made_good(n)
		elif x < 0.70:
			self.begin()
			for _ in range(r.randint(1, 4)):
				self.some()
			self.rollback()
		elif x < 0.82:
			self.savepoints()
		elif x < 0.90:
			# A slow producer: its ids are old when they are committed.
			self.begin()
			n = self.some()
			time.sleep(r.choice((0.02, 0.1, 0.4)))
			n += self.some()
			if r.random() < 0.75:
				self.commit()
				self.made_good(n)
			elif r.random() < 0.5:
				self.rollback()
			else:
				self.cut_connection()
		elif x < 0.97:
			if self.control.prepared:
				self.prepared()
		else:
			self.broken()

	def savepoints(self):
		r, n = self.rng, 0
		self.begin()
		if r.random() < 0.5:
			n += self.some()
		for _ in range(r.randint(1, 3)):
			first = self.savepoint()
			k = self.some()
			if r.random() < 0.5:
				self.rollback_to(first)
			else:
				if r.random() < 0.5:
					self.execute('RELEASE s')
				n += k
		self.commit()
		self.made_good(n)

	def prepared(self):
		r = self.rng
		self.begin()
		n = sum(self.some() for _ in range(r.randint(1, 3)))
		gid = self.prepare()
		x = r.random()
		if x < 0.2:
			return		# left to the resolver
		if x < 0.5:
			time.sleep(r.choice((0.05, 0.3)))
		commit = r.random() < 0.7
		self.finish_prepared(gid, commit)
		if commit:
			self.made_good(n)

	def broken(self):
		"""A transaction that an error ends after the enqueue."""
		self.begin()
		self.some()
		try:
			self.execute('SELECT 1 / 0')
		except Refused:
			self.rollback()
