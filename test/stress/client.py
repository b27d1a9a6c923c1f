"""What producers, workers and administrators have in common: a connection, a journal, and the verbs as journalled calls."""
import json
import os
import random
import socket
import time

import psycopg2

from journal import Journal

# Queues of the test; see stress.setup().
KEEP, DROP, LIMIT, ROUTE, DLQ, PURGE = 's_keep', 's_drop', 's_limit', 's_route', 's_dlq', 's_purge'
MAIN = (KEEP, KEEP, KEEP, DROP, DROP, LIMIT, ROUTE)	# by weight

DEQUEUE_COLUMNS = """job_id, token, attempt, max_attempts, priority, name, payload->>'u',
	extract(epoch from lease_until)::float8, extract(epoch from deadline)::float8"""


class Refused(Exception):
	"""The server answered with an error and the connection lives: nothing happened."""

	def __init__(self, state, message):
		super().__init__('%s: %s' % (state, message))
		self.state = state


class Lost(Exception):
	"""The connection died; whether the last statement took effect is not known."""


class Stop(Exception):
	"""The phase is over."""


class Client:
	role = 'client'

	def __init__(self, directory, index, incarnation, seed, control):
		self.name = '%s%d-%d' % (self.role, index, incarnation)
		self.index = index
		self.rng = random.Random('%s/%s' % (seed, self.name))
		self.control = control
		self.journal = Journal(os.path.join(directory, self.name + '.jsonl'), self.role)
		self.conn = None
		self.xact = None	# number of the explicit transaction, or None

	# -- connection ------------------------------------------------------

	def connect(self):
		deadline = time.monotonic() + 60
		while True:
			try:
				self.conn = psycopg2.connect(application_name=self.name, connect_timeout=10)
				self.conn.autocommit = True
				cur = self.conn.cursor()
				cur.execute('SET statement_timeout = 30000')
				self.journal.write('conn')
				return
			except psycopg2.Error as e:
				if time.monotonic() > deadline:
					self.journal.write('stuck', e='cannot connect for 60 s: %s' % e)
					raise
				time.sleep(0.05)

	def run(self):
		"""Iterates until told to stop. A lost connection is replaced; a refused call that nobody expected ends the iteration."""
		self.connect()
		while not self.control.stop:
			try:
				self.step()
			except Lost:
				self.drop_connection()
				self.connect()
			except Refused:
				self.rollback_if_open()
			except Stop:
				break
		self.journal.write('done')

	def drop_connection(self):
		self.xact = None
		try:
			self.conn.close()
		except psycopg2.Error:
			pass

	def cut_connection(self):
		"""As if the network had gone: no goodbye."""
		s = socket.socket(fileno=os.dup(self.conn.fileno()))
		s.shutdown(socket.SHUT_RDWR)
		s.close()
		raise Lost()

	def execute(self, sql, params=()):
		try:
			cur = self.conn.cursor()
			cur.execute(sql, params)
			return cur.fetchall() if cur.description else None
		except psycopg2.Error as e:
			if self.conn.closed or e.pgcode is None or e.pgcode in ('57P01', '57P02', '57P03', '57P05'):
				raise Lost() from e
			raise Refused(e.pgcode, str(e).strip().split('\n')[0]) from e

	# -- transactions ----------------------------------------------------

	def begin(self, marker=True, isolation=None):
		self.journal.xacts += 1
		n = self.journal.xacts
		self.journal.write('begin', x=n, **({'m': 1} if marker else {}))
		try:
			self.execute('BEGIN' + (' ISOLATION LEVEL ' + isolation if isolation else ''))
			self.xact = n
			if marker:
				self.execute('INSERT INTO stress.tx VALUES (%s)', ('%s.%d' % (self.name, n),))
		except Lost:
			self.xact = None
			raise

	def commit(self):
		n, self.xact = self.xact, None
		self.journal.write('fin', x=n, how='commit')
		try:
			self.execute('COMMIT')
		except Lost:
			self.journal.write('end', x=n, f='u')
			raise
		except Refused as e:
			self.journal.write('commit_refused', x=n, s=e.state, e=str(e))
			self.journal.write('end', x=n, f='r')
			raise
		self.journal.write('end', x=n, f='c')

	def rollback(self):
		n, self.xact = self.xact, None
		self.journal.write('fin', x=n, how='rollback')
		try:
			self.execute('ROLLBACK')
		except Lost:
			self.journal.write('gone', x=n)
			raise
		finally:
			self.journal.write('end', x=n, f='r')

	def rollback_if_open(self):
		if self.xact is not None:
			try:
				self.rollback()
			except Lost:
				self.drop_connection()
				self.connect()

	def prepare(self):
		"""PREPARE TRANSACTION. Returns the gid; the caller or the orchestrator's resolver ends it."""
		n, self.xact = self.xact, None
		gid = '%s.%d' % (self.name, n)
		self.journal.write('fin', x=n, how='prepare')
		try:
			self.execute('PREPARE TRANSACTION %s', (gid,))
		except Lost:
			self.journal.write('end', x=n, f='u')
			raise
		except Refused:
			self.journal.write('end', x=n, f='r')
			raise
		self.journal.write('end', x=n, f='p')
		return gid

	def finish_prepared(self, gid, commit):
		try:
			self.execute(('COMMIT' if commit else 'ROLLBACK') + ' PREPARED %s', (gid,))
		except Refused:
			pass	# the resolver was faster

	def savepoint(self):
		self.execute('SAVEPOINT s')
		return self.journal.calls + 1

	def rollback_to(self, first_call):
		self.journal.write('undo', x=self.xact, c=first_call)
		self.execute('ROLLBACK TO s')

	def committed_call(self, function, *args, **kwargs):
		"""One verb in a transaction with a marker, so that its fate is known whatever happens."""
		self.begin()
		result = function(*args, **kwargs)
		self.commit()
		return result

	# -- verbs -----------------------------------------------------------

	def call(self, verb, args, sql, params, shape=lambda rows: rows[0][0], allow=()):
		j = self.journal
		j.calls += 1
		c = j.calls
		if self.xact is None:
			j.xacts += 1
			j.write('call', x=j.xacts, c=c, v=verb, a=args, auto=1)
		else:
			j.write('call', x=self.xact, c=c, v=verb, a=args)
		try:
			rows = self.execute(sql, params)
		except Lost:
			self.xact = None
			j.write('err', c=c, s=None)
			raise
		except Refused as e:
			j.write('err', c=c, s=e.state, e=str(e))
			if e.state in allow and self.xact is None:
				return None
			raise
		result = shape(rows)
		j.write('ret', c=c, r=result)
		return result

	def enqueue(self, queue, u, priority=None, delay=None, max_attempts=None, name=None, timeout=None, pad=0):
		args = dict(q=queue, u=u, p=priority, d=delay, ma=max_attempts, nm=name, to=timeout)
		return self.call('enqueue', args, """SELECT jobq.enqueue(%s, payload => %s, name => %s, priority => %s, delay => %s,
			max_attempts => %s, timeout => %s, headers => %s)""",
			(queue, json.dumps({'u': u, 'pad': 'x' * pad}), name, priority, sec(delay), max_attempts, sec(timeout),
			json.dumps({'h': u})))

	def enqueue_many(self, queue, us, priority=None, delay=None, max_attempts=None, name=None, timeout=None, pad=0):
		args = dict(q=queue, us=us, p=priority, d=delay, ma=max_attempts, nm=name, to=timeout)
		return self.call('enqueue_many', args, """SELECT job_id, status FROM jobq.enqueue_many(%s, %s, name => %s,
			priority => %s, delay => %s, max_attempts => %s, timeout => %s, headers => %s) ORDER BY ord""",
			(queue, json.dumps([{'u': u, 'pad': 'x' * pad} for u in us]), name, priority, sec(delay), max_attempts, sec(timeout),
			json.dumps([{'h': u} for u in us])), lambda rows: [list(r) for r in rows])

	def enqueue_select(self, queue, us, priority=None):
		"""The same through one statement that calls enqueue() for each row."""
		args = dict(q=queue, us=us, p=priority, d=None, ma=None, nm=None, to=None)
		return self.call('enqueue_many', args, """SELECT jobq.enqueue(%s, jsonb_build_object('u', u), priority => %s)
			FROM unnest(%s::text[]) WITH ORDINALITY AS a (u, o)""", (queue, priority, us), lambda rows: [[r[0], 'inserted'] for r in rows])

	def dequeue(self, queue, n=1, lease=None, wait=0, noted=False):
		args = dict(q=queue, n=n, l=lease, w=wait)
		params = (queue, n, sec(lease), self.name, sec(wait))
		take = 'SELECT %s FROM jobq.dequeue(%%s, %%s, %%s, %%s, wait => %%s)' % DEQUEUE_COLUMNS
		if noted:
			# The caller's own row, written by the same statement, must survive whatever the dequeue itself may lose.
			args['noted'] = 1
			take = """WITH j AS MATERIALIZED (%s), w AS (INSERT INTO stress.taken SELECT job_id, token FROM j)
				SELECT * FROM j""" % take
		return self.call('dequeue', args, take, params, lambda rows: [list(r) for r in rows])

	def complete_and_dequeue(self, job, token, queue, result=None, n=1, lease=None, wait=0, **kw):
		return self.call('complete_and_dequeue', dict(j=job, t=token, q=queue, n=n, l=lease, w=wait, res=result),
			'SELECT %s FROM jobq.complete_and_dequeue(%%s, %%s, %%s, %%s, %%s, %%s, %%s, wait => %%s)' % DEQUEUE_COLUMNS,
			(job, token, queue, js(result), n, sec(lease), self.name, sec(wait)), lambda rows: [list(r) for r in rows], **kw)

	def complete(self, job, token, result=None, **kw):
		if result is None and not kw.get('forged') and self.rng.random() < 0.3:
			return self.call('complete', dict(j=job, t=token), 'SELECT jobq.ack(%s, %s)', (job, token), **flags(kw))
		return self.call('complete', dict(j=job, t=token, res=result, **forged(kw)), 'SELECT jobq.complete(%s, %s, %s)',
			(job, token, js(result)), **flags(kw))

	def fail(self, job, token, error, retry_in=None, retry=True, **kw):
		return self.call('fail', dict(j=job, t=token, err=error, ri=retry_in, retry=retry, **forged(kw)),
			'SELECT jobq.fail(%s, %s, %s, %s, %s)', (job, token, error, sec(retry_in), retry), **flags(kw))

	def nack(self, job, token, **kw):
		return self.call('fail', dict(j=job, t=token, ri=0), 'SELECT jobq.nack(%s, %s)', (job, token), **flags(kw))

	def release(self, job, token, delay=0, **kw):
		return self.call('release', dict(j=job, t=token, d=delay, **forged(kw)), 'SELECT jobq.release(%s, %s, %s)',
			(job, token, sec(delay)), lambda rows: None, **flags(kw))

	def extend(self, job, token, lease=None, **kw):
		return self.call('extend', dict(j=job, t=token, l=lease, **forged(kw)), 'SELECT jobq.extend(%s, %s, %s)',
			(job, token, sec(lease)), **flags(kw))

	def progress(self, job, token, value, **kw):
		return self.call('progress', dict(j=job, t=token, v=value, **forged(kw)), 'SELECT jobq.progress(%s, %s, %s)',
			(job, token, js(value)), lambda rows: None, **flags(kw))

	def assert_lease(self, job, token, **kw):
		return self.call('assert_lease', dict(j=job, t=token, **forged(kw)), 'SELECT jobq.assert_lease(%s, %s)',
			(job, token), lambda rows: None, **flags(kw))

	def many(self, verb, pairs, args=None, extra='', params=()):
		"""complete_many, fail_many, release_many, extend_many; their answers per job."""
		jobs, tokens = [p[0] for p in pairs], [p[1] for p in pairs]
		return self.call(verb + '_many', dict(js=jobs, ts=tokens, **(args or {})),
			'SELECT job_id, status FROM jobq.%s_many(%%s::bigint[], %%s::bigint[]%s)' % (verb, extra),
			(jobs, tokens) + tuple(params), lambda rows: [list(r) for r in rows])

	def cancel(self, job):
		return self.call('cancel', dict(j=job), 'SELECT jobq.cancel(%s)', (job,))

	def run_now(self, jobs):
		return self.call('run_now', dict(js=jobs), 'SELECT jobq.run_now(%s::bigint[])', (jobs,))

	def reschedule(self, job, delay=None, priority=None):
		if delay is None:
			return self.call('reschedule', dict(j=job, p=priority), 'SELECT jobq.reschedule(%s, priority => %s)', (job, priority),
				lambda rows: None)
		return self.call('reschedule', dict(j=job, d=delay, p=priority),
			'SELECT jobq.reschedule(%s, clock_timestamp() + %s::interval, %s)', (job, sec(delay), priority), lambda rows: None)

	def delete_jobs(self, jobs):
		return self.call('delete_jobs', dict(js=jobs), 'SELECT jobq.delete_jobs(%s::bigint[])', (jobs,))

	def pause(self, queue):
		return self.call('pause', dict(q=queue), 'SELECT jobq.pause_queue(%s)', (queue,), lambda rows: None)

	def resume(self, queue):
		return self.call('resume', dict(q=queue), 'SELECT jobq.resume_queue(%s)', (queue,), lambda rows: None)

	def purge(self, queue):
		return self.call('purge', dict(q=queue), 'SELECT jobq.purge_queue(%s)', (queue,))


def sec(seconds):
	return None if seconds is None else '%d us' % round(seconds * 1e6)


def js(value):
	return None if value is None else json.dumps(value)


def flags(kw):
	return {k: v for k, v in kw.items() if k == 'allow'}


def forged(kw):
	return {'forged': 1} if kw.get('forged') else {}
