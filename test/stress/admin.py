"""An administrator: cancels, deletes, reschedules and runs early what it finds, pauses and purges queues."""
import time

from client import Client, Refused, Stop, DROP, KEEP, LIMIT, PURGE

GONE = ('42704', '55000')		# reschedule of a job that is active or finished, or was deleted


class Admin(Client):
	role = 'admin'

	def run(self):
		self.paused = None
		super().run()

	def connect(self):
		super().connect()
		# Whoever was killed here may have left a queue paused.
		for queue in (KEEP, DROP, LIMIT):
			try:
				self.resume(queue)
			except Exception as e:		# the next connection tries again
				self.journal.write('note', e=str(e))

	def pick(self, n):
		"""Some live jobs, straight from the table."""
		lo, hi = self.execute('SELECT min(id), max(id) FROM jobq.job')[0]
		if lo is None:
			return []
		return self.meet('j.id >= %s ORDER BY j.id LIMIT %s', (self.rng.randint(lo, hi), n))

	def meet(self, which, params):
		"""What the jobs are is noted: nobody else may ever see them."""
		rows = self.execute("""SELECT j.id, j.payload->>'u', q.name FROM jobq.job j JOIN jobq.queue q ON q.id = j.queue_id
			WHERE """ + which, params)
		self.journal.write('met', jobs=[list(r) for r in rows])
		return [r[0] for r in rows]

	def cancel_leases(self):
		"""All jobs of some old leases: those that nobody works on any more end together."""
		for job in self.meet("""j.id IN (SELECT unnest(job_ids) FROM (SELECT job_ids FROM jobq.lease ORDER BY token OFFSET %s LIMIT 5) l)
				ORDER BY j.id""", (self.rng.randint(0, 3),)):
			self.cancel(job)

	def step(self):
		r, x = self.rng, self.rng.random()
		time.sleep(r.choice((0.005, 0.02, 0.05)))
		jobs = self.pick(r.choice((1, 1, 3)))
		if not jobs:
			return
		try:
			if x < 0.03:
				self.cancel_leases()
			elif x < 0.45:
				self.in_xact_or_not(self.cancel, jobs[0])
			elif x < 0.60:
				self.run_now(jobs)
			elif x < 0.72:
				self.reschedule(jobs[0], r.choice((None, 0.0, 0.2, 1.0)), r.choice((0, 1, 1000, 2000)))
			elif x < 0.80:
				self.in_xact_or_not(self.delete_jobs, jobs[:1])
			elif x < 0.85:
				queue = r.choice((KEEP, DROP, LIMIT))
				self.pause(queue)
				time.sleep(r.choice((0.02, 0.15)))
				self.resume(queue)
			elif x < 0.87:
				self.purge(PURGE)
			elif x < 0.90:
				self.execute("SELECT jobq.alter_queue(%s, lease => %s)", (r.choice((KEEP, DROP)), r.choice(('1500 ms', '2 s', '3 s'))))
			elif x < 0.95:
				self.execute('SELECT * FROM jobq.job(%s)', (jobs[0],))
			else:
				self.execute('SELECT * FROM jobq.jobs WHERE job_id = %s', (jobs[0],))
		except Refused as e:
			self.rollback_if_open()
			if e.state not in GONE and not (e.state == '57014' and 'user request' in str(e)):
				self.journal.write('odd', s=e.state, e=str(e))

	def in_xact_or_not(self, verb, arg):
		x = self.rng.random()
		if x < 0.7:
			return verb(arg)
		self.begin()
		verb(arg)
		time.sleep(self.rng.choice((0, 0.05)))
		if x < 0.85:
			self.commit()
		else:
			self.rollback()


class Redriver(Client):
	"""Puts dead letters back to work, a few at a time; several of these share the rows."""
	role = 'redriver'

	def step(self):
		n = self.call('redrive', dict(q=KEEP), 'SELECT jobq.redrive(%s, max_jobs => 3)', (KEEP,))
		if n == 0:
			raise Stop()
