"""Clients of the groups run: as producer.py, worker.py and admin.py, but nearly every job belongs to a group.

Every transaction that puts jobs in writes a marker row, whose commit timestamp says where it came in the order of commits.
"""
import bisect
import json
import time

from admin import Admin
from client import DEQUEUE_COLUMNS, Lost, Refused, flags, js, sec
from producer import Producer
from worker import Worker, js_list, pairs, us

# Queues of this run; see groups.py. The same keys are used in all of them.
HOLD, PASS, BLOCK, RATE = 'g_hold', 'g_pass', 'g_block', 'g_rate'
GROUP_QUEUES = (HOLD, PASS, BLOCK, RATE)
BY_WEIGHT = (HOLD,) * 8 + (PASS,) * 5 + (BLOCK,) * 5 + (RATE,)
SMALL = 200			# keys of the rate-limited queue, used evenly: each of its groups may start only so many jobs
REFUSED = ('JQ001', 'JQ002')
COLUMNS = DEQUEUE_COLUMNS + ', group_key'


def key_name(i):
	# some with characters that are nobody's friends
	return ('order %d', "k'%d", 'K"%d', 'k\n%d', 'order %d', 'order %d', 'schlüssel %d')[i % 7] % i


class Zipf:
	def __init__(self, n, s=1.05):
		total, self.sums = 0.0, []
		for i in range(n):
			total += (i + 1) ** -s
			self.sums.append(total)

	def draw(self, rng):
		return key_name(bisect.bisect_left(self.sums, rng.random() * self.sums[-1]))


ZIPF = {}


def a_key(rng, queue, n):
	if queue == RATE:
		return key_name(rng.randrange(min(SMALL, n)))
	if n not in ZIPF:
		ZIPF[n] = Zipf(n)
	return ZIPF[n].draw(rng)


class GroupClient:
	def enqueue(self, queue, u, group=None, delay=None, max_attempts=None, priority=None):
		args = dict(q=queue, u=u, p=priority, d=delay, ma=max_attempts, nm=None, to=None, g=group)
		return self.call('enqueue', args, """SELECT jobq.enqueue(%s, payload => %s, delay => %s, group_key => %s, max_attempts => %s,
			priority => %s)""", (queue, json.dumps({'u': u}), sec(delay), group, max_attempts, priority))

	def enqueue_many(self, queue, us_, groups, delay=None):
		args = dict(q=queue, us=us_, gs=groups, p=None, d=delay, ma=None, nm=None, to=None)
		return self.call('enqueue_many', args, """SELECT job_id, status FROM jobq.enqueue_many(%s, %s, delay => %s,
			group_keys => %s::text[]) ORDER BY ord""", (queue, json.dumps([{'u': u} for u in us_]), sec(delay), groups),
			lambda rows: [list(r) for r in rows])

	def enqueue_select(self, queue, us_, groups):
		args = dict(q=queue, us=us_, gs=groups, p=None, d=None, ma=None, nm=None, to=None)
		return self.call('enqueue_many', args, """SELECT jobq.enqueue(%s, jsonb_build_object('u', u), group_key => g)
			FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS a (u, g, o) ORDER BY o""", (queue, us_, groups),
			lambda rows: [[r[0], 'inserted'] for r in rows])


class GroupProducer(GroupClient, Producer):
	def key(self, queue):
		return a_key(self.rng, queue, self.control.keys)

	def some(self, queue=None):
		r, x = self.rng, self.rng.random()
		queue = queue or r.choice(BY_WEIGHT)
		delay = r.choice((0.05, 0.3, 1.0, 60.0)) if r.random() < 0.06 else None
		if x < 0.55:
			self.enqueue(queue, self.u(), None if r.random() < 0.03 else self.key(queue), delay,
				r.choice((1, 2)) if r.random() < 0.1 else None, r.choice((1, 1000, 2000)) if r.random() < 0.1 else None)
			return 1
		n = r.choice((1, 2, 3, 5, 20) if queue != RATE else (1, 2))
		# a run of one group now and then, so that there are batches
		one = self.key(queue) if r.random() < 0.4 else None
		groups = [None if r.random() < 0.02 else one or self.key(queue) for _ in range(n)]
		if x < 0.85:
			self.enqueue_many(queue, self.us(n), groups, delay)
		else:
			self.enqueue_select(queue, self.us(n), groups)
		return n

	def step(self):
		c, i = self.control, self.index
		if c.made[i] >= c.quota:
			c.finished[i] = 1
			time.sleep(0.05)
			return
		if c.made[i] > c.pace * ((time.monotonic() - c.began) // 2 + 1) * 2:
			time.sleep(0.02)
			return
		r, x = self.rng, self.rng.random()
		if r.random() < 0.1:
			while not c.stop and self.execute('SELECT coalesce(sum(ready), 0) FROM jobq.queues')[0][0] > c.backlog:
				time.sleep(0.05)
		if x < 0.45:
			self.whole(1)
		elif x < 0.62:
			self.whole(r.randint(2, 5), r.choice((None, None, 'REPEATABLE READ', 'SERIALIZABLE')))
		elif x < 0.70:
			self.begin()
			self.some()
			self.rollback()
		elif x < 0.84:
			self.savepoints()
		elif x < 0.93:
			# A slow producer: others of its groups commit meanwhile, and come before it.
			self.begin()
			n = self.some()
			time.sleep(r.choice((0.02, 0.1, 0.4)))
			n += self.some()
			if r.random() < 0.8:
				self.commit()
				self.made_good(n)
			elif r.random() < 0.5:
				self.rollback()
			else:
				self.cut_connection()
		elif x < 0.96:
			self.prepared()
		else:
			self.broken()

	def whole(self, calls, isolation=None):
		self.begin(isolation=isolation)
		n = sum(self.some() for _ in range(calls))
		self.commit()
		self.made_good(n)

	def prepared(self):
		"""What would join a line at commit cannot be prepared."""
		self.begin()
		self.enqueue(HOLD, self.u(), self.key(HOLD))
		try:
			gid = self.prepare()
		except Refused as e:
			self.execute('ROLLBACK')
			if e.state != '0A000':
				self.journal.write('odd', s=e.state, e=str(e))
			return
		self.journal.write('wrong', e='PREPARE TRANSACTION was accepted after a grouped enqueue: ' + gid)


class GroupWorker(GroupClient, Worker):
	live = 0		# the session marks its leases

	def connect(self):
		self.live = int(self.index % 4 == 1)
		while True:
			super().connect()
			try:
				if self.live:
					self.execute('SET jobq.session_liveness = on')
				return
			except Lost:
				self.drop_connection()

	def queue(self):
		return self.rng.choice(BY_WEIGHT)

	def dequeue(self, queue, n=1, lease=None, wait=0, noted=False, batch=1):
		args = dict(q=queue, n=n, l=lease, w=wait, b=batch, **({'live': 1} if self.live else {}))
		take = 'SELECT %s FROM jobq.dequeue(%%s, %%s, %%s, %%s, wait => %%s, group_batch => %%s)' % COLUMNS
		if noted:
			args['noted'] = 1
			take = """WITH j AS MATERIALIZED (%s), w AS (INSERT INTO stress.taken SELECT job_id, token FROM j)
				SELECT * FROM j""" % take
		return self.call('dequeue', args, take, (queue, n, sec(lease), self.name, sec(wait), batch), lambda rows: [list(r) for r in rows])

	def complete_and_dequeue(self, job, token, queue, result=None, n=1, lease=None, wait=0, batch=1, **kw):
		args = dict(j=job, t=token, q=queue, n=n, l=lease, w=wait, res=result, b=batch, **({'live': 1} if self.live else {}))
		return self.call('complete_and_dequeue', args,
			'SELECT %s FROM jobq.complete_and_dequeue(%%s, %%s, %%s, %%s, %%s, %%s, %%s, wait => %%s, group_batch => %%s)' % COLUMNS,
			(job, token, queue, js(result), n, sec(lease), self.name, sec(wait), batch), lambda rows: [list(r) for r in rows], **flags(kw))

	def take(self, queue=None, **kw):
		r = self.rng
		rows = self.dequeue(queue or self.queue(), r.choice((1, 1, 3, 10, 30)), r.choice((None, 1.0, 1.5, 2.0, 3.0)),
			r.choice((0, 0.1, 0.4)), batch=r.choice((1, 1, 3, 10, 64)), **kw)
		if not rows:
			time.sleep(0.01)
		return rows

	def step(self):
		self.late_ones()
		x = self.rng.random()
		if x < 0.04:
			return self.stale_ones()
		for share, way in ((0.56, self.plain), (0.10, self.chained), (0.10, self.in_one), (0.05, self.rolled_back),
				(0.04, self.half_rolled_back), (0.05, self.long_take), (0.03, self.cut), (0.03, self.prepared_take)):
			x -= share
			if x < 0.04:
				return way()

	def half_rolled_back(self):
		self.begin(marker=False)
		rows = self.take() if self.rng.random() < 0.5 else []
		first = self.savepoint()
		queue = self.queue()
		self.dequeue(queue, 5, batch=3)
		self.rollback_to(first)
		if self.rng.random() < 0.5:
			rows += self.dequeue(queue, 5, batch=3)
		self.commit()
		self.handle(rows)

	def rolled_back(self):
		self.begin(marker=self.rng.random() < 0.5)
		rows = self.take()
		if rows and self.rng.random() < 0.5:
			job, token = rows[0][:2]
			self.end_some([(job, token)], self.rng.choice(('complete', 'fail', 'release')))
		self.rollback()

	def cut(self):
		self.begin(marker=False)
		rows = self.take()
		if rows and self.rng.random() < 0.5:
			self.end_some([rows[0][:2]], 'complete')
		self.cut_connection()

	def in_one(self):
		"""Take, work and complete in one transaction, with an own job of a group put in by it."""
		r = self.rng
		queue = self.queue()
		self.begin()
		if r.random() < 0.3:
			self.enqueue(queue, '%s:own%d' % (self.name, self.journal.calls), a_key(r, queue, self.control.keys))
		rows = self.dequeue(queue, r.choice((1, 1, 5, 20)), None, batch=r.choice((1, 3)))
		for job, token in pairs(rows):
			self.complete_with_effect(job, token)
		if r.random() < 0.85:
			self.commit()
		else:
			self.rollback()

	def chained(self):
		queue = self.queue()
		rows = self.dequeue(queue, 1, self.rng.choice((None, 2.0)), 0.1)
		for _ in range(self.rng.randint(3, 15)):
			if not rows:
				return
			job, token = rows[0][:2]
			rows = self.complete_and_dequeue(job, token, queue, {'r': self.mark()}, 1, self.rng.choice((None, 2.0)), 0,
				allow=REFUSED)
		self.handle(rows or [])

	# -- the end of a turn -------------------------------------------------

	def handle(self, rows):
		turns = {}
		for row in rows:
			turns.setdefault(row[1], []).append(row)
			self.old.append((row[0], row[1]))
		del self.old[:-300]
		for turn in turns.values():
			if turn[0][9] is None:
				for job, token in pairs(turn):
					self.end_some([(job, token)], self.rng.choice(('complete', 'complete', 'complete', 'fail', 'release')))
			else:
				self.turn(pairs(turn))

	def end_some(self, pairs_, way):
		try:
			super().end_some(pairs_, way)
		except Refused as e:
			if self.xact is not None or e.state not in REFUSED:
				raise

	def turn(self, jobs):
		r = self.rng
		x = r.random()
		if x < 0.03:
			return		# abandoned
		if r.random() < 0.05:
			time.sleep(r.choice((0.1, 0.5)))
		if r.random() < 0.15:
			self.hold(r.choice(jobs))
		if len(jobs) > 1 and r.random() < 0.25:
			self.end_some([r.choice(jobs[1:])], r.choice(('complete', 'complete', 'fail', 'release')))		# out of order
		if x < 0.20:
			part = jobs[:r.randint(1, len(jobs))] if r.random() < 0.4 else list(jobs)
			r.shuffle(part)
			return self.end_many(part, r.choice(('complete', 'complete', 'complete', 'fail', 'release')))
		for i, (job, token) in enumerate(jobs):
			y = r.random()
			time.sleep(r.choice((0, 0, 0.002, 0.01)))
			if y < 0.03:
				for pair in jobs[i:]:
					self.later.append((time.monotonic() + r.choice((1.5, 2.5, 3.5)), *pair))
				return
			if y < 0.10:
				answer = self.extend(job, token, r.choice((None, 1.5, 3.0)), allow=REFUSED)
				if answer == 'drain' and r.random() < 0.7:
					self.complete(job, token, allow=REFUSED)
					return
			if y < 0.22:
				way = 'fail' if y < 0.17 else 'release'
				self.end_some([(job, token)], way)
				if i + 1 < len(jobs) and r.random() < 0.5:
					self.end_some([jobs[i + 1]], 'complete')		# the lease is over
				return
			if y < 0.40:
				self.end_in_xact([(job, token)])
			elif self.complete(job, token, {'r': self.mark()}, allow=REFUSED) is None:
				return

	def complete(self, job, token, *rest, **kw):
		if 'allow' in kw:
			kw['allow'] = REFUSED
		return super().complete(job, token, *rest, **kw)

	def fail(self, job, token, *rest, **kw):
		if 'allow' in kw:
			kw['allow'] = REFUSED
		return super().fail(job, token, *rest, **kw)

	def end_in_xact(self, jobs):
		try:
			super().end_in_xact(jobs)
		except Refused as e:
			if e.state not in REFUSED:
				raise


class GroupDrainer(GroupClient, Worker):
	role = 'drainer'
	live = 0
	dequeue = GroupWorker.dequeue

	def step(self):
		# turns, so that two of these share the groups
		queue = self.rng.choice(GROUP_QUEUES)
		rows = self.dequeue(queue, 100, 5.0, 0.05, batch=10)
		if rows:
			self.many('complete', pairs(rows), dict(res=None), ', NULL')


class GroupAdmin(Admin):
	def connect(self):
		super(Admin, self).connect()

	def in_group(self, verb, queue, key, sql, allow=(), **args):
		try:
			self.in_xact_or_not(lambda _: self.call(verb, dict(q=queue, g=key, **args), sql[0], sql[1], lambda rows: None), None)
		except Refused as e:
			self.rollback_if_open()
			if e.state not in allow:
				raise

	def unblock(self):
		rows = self.execute("""SELECT q.name, g.group_key, h.dead_job FROM jobq.held h JOIN jobq.job_group g ON g.id = h.group_id
			JOIN jobq.queue q ON q.id = h.queue_id WHERE h.dead_job IS NOT NULL ORDER BY h.since LIMIT 5""")
		for queue, key, dead in rows:
			head = self.rng.choice(('retry', 'skip'))
			x = self.rng.random()
			if x < 0.1:
				self.delete_jobs([dead])
			elif x < 0.2:
				self.revive(queue, key, dead)
			else:
				self.in_group('unblock', queue, key, ('SELECT jobq.unblock_group(%s, %s, %s)', (queue, key, head)), ('55000',),
					head=head, j=dead)

	def revive(self, queue, key, job):
		self.committed_call(self.call, 'revive', dict(q=queue, g=key, j=job), 'SELECT jobq.redrive(%s, ARRAY[%s]::bigint[])', (queue, job))

	def step(self):
		r, x = self.rng, self.rng.random()
		time.sleep(r.choice((0.01, 0.03, 0.06)))
		try:
			if x < 0.25:
				self.unblock()
			elif x < 0.40:
				queue = r.choice((HOLD, HOLD, PASS, BLOCK, RATE))
				key = a_key(r, queue, self.control.keys)
				self.in_group('pause_group', queue, key, ('SELECT jobq.pause_group(%s, %s)', (queue, key)))
				time.sleep(r.choice((0.02, 0.15, 0.4)))
				self.in_group('resume_group', queue, key, ('SELECT jobq.resume_group(%s, %s)', (queue, key)))
			elif x < 0.44:
				for queue, key in self.execute("""SELECT q.name, s.group_key FROM jobq.group_setting s JOIN jobq.queue q ON q.id = s.queue_id
						WHERE s.paused LIMIT 5"""):
					self.in_group('resume_group', queue, key, ('SELECT jobq.resume_group(%s, %s)', (queue, key)))
			elif x < 0.48:
				worker = self.execute("""SELECT worker FROM jobq.lease WHERE worker ~ '^worker[048]-' LIMIT 1""")
				if worker:
					self.call('drain_worker', dict(w=worker[0][0]), 'SELECT jobq.drain_worker(%s, 3, %s)', (worker[0][0], '50 ms'))
			elif x < 0.56:
				rows = self.execute("""SELECT q.name, d.group_key, d.id FROM jobq.dead d JOIN jobq.queue q ON q.id = d.queue_id
					WHERE q.name <> %s AND d.group_key IS NOT NULL LIMIT 20""", (BLOCK,))
				if rows:
					self.revive(*r.choice(rows))
			elif x < 0.60:
				queue = r.choice((HOLD, PASS, BLOCK))
				self.execute('SELECT jobq.alter_group(%s, %s, weight => %s)', (queue, a_key(r, queue, self.control.keys), r.choice((1, 2, 5))))
			elif x < 0.64:
				self.execute('SELECT * FROM jobq.groups LIMIT 100')
			else:
				jobs = self.pick(r.choice((1, 1, 3)))
				if not jobs:
					return
				if x < 0.76:
					self.in_xact_or_not(self.cancel, jobs[0])
				elif x < 0.82:
					self.in_xact_or_not(self.delete_jobs, jobs[:1])
				elif x < 0.88:
					self.run_now(jobs)
				elif x < 0.95:
					self.reschedule(jobs[0], r.choice((None, 0.2, 1.0)), r.choice((1, 1000, 2000)))
				else:
					self.execute('SELECT jobq.explain_job(%s)', (jobs[0],))
		except Refused as e:
			self.rollback_if_open()
			if e.state not in ('42704', '55000') and not (e.state == '57014' and 'user request' in str(e)):
				self.journal.write('odd', s=e.state, e=str(e))
