"""Does the oracle see? Each case fabricates the journals and the final state of a run, a good one plus one thing that a correct
queue never does, and names the rules that must be broken. The good run alone must break none.
"""
import os
import shutil
import sys
import tempfile

from journal import Journal, Journals
from oracle import Oracle, State, story

WALL = 1700000000.0
CASES = []


def case(*rules):
	"""Marks a function as a case that must break exactly these rules."""
	def wrap(f):
		CASES.append((f.__name__, set(rules), f))
		return f
	return wrap


class Fake:
	"""A run made up by hand. The clock moves by 10 ms with every line."""

	def __init__(self, directory):
		self.directory = directory
		self.now = 100.0
		self.journals, self.ids, self.tokens = {}, 0, 1000
		self.u = {}
		self.queue = {}
		self.state = s = State()
		s.keep = {'keep', 'dlq', 'route'}
		s.max_attempts = {'keep': 3, 'drop': 3, 'route': 1, 'dlq': 3, 'purge': 3}
		s.route = {'route': 'dlq'}
		s.purged = {'purge'}

	def tick(self):
		self.now += 0.01
		return round(self.now, 6)

	def journal(self, client):
		if client not in self.journals:
			self.journals[client] = Journal(os.path.join(self.directory, client + '.jsonl'), client, self.tick, WALL)
		return self.journals[client]

	# -- transactions and calls

	def begin(self, client, marker=True):
		j = self.journal(client)
		j.xacts += 1
		j.write('begin', x=j.xacts, **({'m': 1} if marker else {}))
		return j.xacts

	def end(self, client, x, fate, how='commit', marker=True):
		j = self.journal(client)
		j.write('fin', x=x, how=how)
		if fate != 'dies':
			j.write('end', x=x, f=fate)
		if marker and fate == 'c':
			self.state.markers.add('%s.%d' % (client, x))

	def call(self, client, verb, args, result=None, x=None, error=None, message='', answer=True):
		j = self.journal(client)
		j.calls += 1
		c = j.calls
		if x is None:
			j.xacts += 1
			j.write('call', x=j.xacts, c=c, v=verb, a=args, auto=1)
		else:
			j.write('call', x=x, c=c, v=verb, a=args)
		if error:
			j.write('err', c=c, s=None if error == 'lost' else error, e=message)
		elif answer:
			j.write('ret', c=c, r=result)
		return c

	# -- verbs

	def enqueue(self, u, queue='keep', client='p', x=None, known=True, **opt):
		self.ids += 1
		self.u[self.ids], self.queue[self.ids] = u, queue
		args = dict(q=queue, u=u, p=None, d=None, ma=None, nm=None, to=None)
		args.update(opt)
		self.call(client, 'enqueue', args, self.ids, x, None if known else 'lost')
		return self.ids

	def take(self, ids, client='w', attempt=1, lease=2.0, x=None, token=None, queue=None, **row):
		"""A dequeue that takes these jobs. Returns the token."""
		if token is None:
			self.tokens += 1
			token = self.tokens
		ids = ids if isinstance(ids, list) else [ids]
		deadline = row.get('deadline')
		rows = [[i, token, attempt, row.get('max_attempts', self.state.max_attempts[self.queue[i]]), row.get('priority', 1000),
			row.get('name'), row.get('u', self.u[i]), WALL + self.now + 0.01 + lease, None if deadline is None else WALL + deadline]
			for i in ids]
		args = dict(q=queue or self.queue[ids[0]], n=row.get('n', 10), l=lease, w=0)
		if row.get('noted'):
			args['noted'] = 1
			self.state.taken.update((i, token) for i in ids)
		self.call(client, 'dequeue', args, rows, x)
		return token

	def act(self, verb, job, token, result=None, client='w', x=None, error=None, answer=True, message='refused', **args):
		return self.call(client, verb, dict(j=job, t=token, **args), result, x, error, message, answer)

	def complete(self, job, token, result=True, attempt=1, client='w', x=None, kept=True, res=None, progress=None, failures=None, **kw):
		self.act('complete', job, token, result, client, x, res=res, **kw)
		if kept and self.queue[job] in self.state.keep:
			self.kept(job, token, 'c', attempt, client, res, progress, failures)

	def kept(self, job, token, state='c', attempt=1, worker='w', result=None, progress=None, failures=None):
		self.state.history.append(dict(id=job, token=token, state=state, attempt=attempt, max_attempts=3, queue=self.queue[job],
			u=self.u[job], name=None, worker=worker, result=result, progress=progress, failures=failures))

	def died(self, job, attempt=3, reason='max_attempts', failures=None):
		self.state.dead.append(dict(id=job, attempt=attempt, max_attempts=3, queue=self.queue[job], u=self.u[job], reason=reason,
			failures=failures))

	def effect(self, client='w', commit='c', dies=False):
		"""A completion with an effect in one transaction."""
		job = self.enqueue('effect%d' % self.ids)
		token = self.take(job, client)
		x = self.begin(client)
		self.complete(job, token, client=client, x=x, kept=commit == 'c')
		if commit == 'c':
			self.state.effects.append((job, token, '%s.%d' % (client, x)))
		self.end(client, x, commit, 'commit' if commit == 'c' else 'rollback')
		return job, token, '%s.%d' % (client, x)

	def event(self, kind, **fields):
		self.journal('orchestrator').write(kind, **fields)

	def check(self):
		for j in self.journals.values():
			j.close()
		oracle = Oracle(Journals(self.directory), self.state)
		return oracle, oracle.check()


def good(f):
	"""What a correct queue does, with all the accidents that are allowed."""
	# plain; a queue without history; settings that come back as they were given
	a = f.enqueue('a')
	f.complete(a, f.take(a))
	b = f.enqueue('b', 'drop')
	f.complete(b, f.take(b))
	c = f.enqueue('c', p=5, nm='mail', ma=7)
	f.complete(c, f.take(c, priority=5, name='mail', max_attempts=7), res={'r': 1})
	# failed, retried when due, completed
	d = f.enqueue('d')
	t = f.take(d)
	f.act('fail', d, t, 'retry', err='oops 1', ri=0.5)
	f.now += 0.6
	f.complete(d, f.take(d, attempt=2), attempt=2, failures=[{'error': 'oops 1'}])
	# failed until dead
	e = f.enqueue('e')
	for n in (1, 2, 3):
		f.act('fail', e, f.take(e, attempt=n), 'retry' if n < 3 else 'dead', err='bad')
	f.died(e, failures='bad')
	# released: not counted
	g = f.enqueue('g')
	f.act('release', g, f.take(g), d=0.2)
	f.now += 0.3
	f.complete(g, f.take(g))
	# lease ran out; the late completion is refused; so is a late extend; the new holder's is accepted
	h = f.enqueue('h')
	old = f.take(h)
	f.now += 2.1
	new = f.take(h, client='w2', attempt=2)
	f.act('complete', h, old, error='JQ001')
	f.act('extend', h, old, error='JQ001', l=1)
	f.complete(h, new, attempt=2, client='w2')
	# lease ran out, nobody came: still accepted
	i = f.enqueue('i')
	t = f.take(i)
	f.now += 3
	f.complete(i, t)
	# extended: stays with its holder
	k = f.enqueue('k')
	t = f.take(k, lease=1.0)
	f.act('extend', k, t, 'ok', l=4.0)
	f.act('progress', k, t, v={'p': 1})
	f.now += 2
	f.complete(k, t, progress={'p': 1})
	# rolled back in every way
	x = f.begin('p')
	f.enqueue('rolled back', x=x)
	f.end('p', x, 'r', 'rollback')
	x = f.begin('p')
	n = f.enqueue('kept before savepoint', x=x)
	c1 = f.call('p', 'enqueue', dict(q='keep', u='undone', p=None, d=None, ma=None, nm=None, to=None), 999999, x)
	f.journal('p').write('undo', x=x, c=c1)
	f.end('p', x, 'c')
	f.complete(n, f.take(n))
	# prepared: committed and rolled back, told apart by the marker
	x = f.begin('p')
	n = f.enqueue('prepared', x=x)
	f.end('p', x, 'p', 'prepare')
	f.state.markers.add('p.%d' % x)
	f.complete(n, f.take(n))
	x = f.begin('p')
	f.enqueue('prepared and rolled back', x=x)
	f.end('p', x, 'p', 'prepare')
	# the answer was lost: there, and not there
	n = f.enqueue('unknown, there', known=False)
	f.complete(n, f.take(n))
	f.enqueue('unknown, not there', known=False)
	x = f.begin('p9')
	f.enqueue('killed before commit', x=x, client='p9')
	# answer of the completion lost: repeated, and heard that it was done
	n = f.enqueue('answer lost')
	t = f.take(n)
	f.act('complete', n, t, error='lost')
	f.complete(n, t, False)
	n = f.enqueue('answer lost, not kept', 'drop')
	f.act('complete', n, f.take(n), error='lost')
	# forged tokens
	n = f.enqueue('forged')
	t = f.take(n)
	f.act('complete', n, t + 1000, error='JQ001', forged=1)
	f.complete(n, t)
	f.complete(n, t, False, kept=False)
	# effects, one of them rolled back first
	f.effect()
	job, token, _ = f.effect(commit='r')
	f.complete(job, token)
	# cancelled: waiting, and running
	n = f.enqueue('cancelled')
	f.call('admin', 'cancel', dict(j=n), 'cancelled')
	f.kept(n, None, 'x')
	n = f.enqueue('cancelled while running')
	t = f.take(n)
	f.call('admin', 'cancel', dict(j=n), 'running')
	f.act('extend', n, t, 'cancel', l=1)
	f.act('fail', n, t, 'cancelled', err='told to stop')
	f.kept(n, t, 'x')
	# deleted, purged, dead letter passed on
	n = f.enqueue('deleted')
	f.call('admin', 'delete_jobs', dict(js=[n]), 1)
	f.enqueue('purged', 'purge')
	f.call('admin', 'purge', dict(q='purge'), 1)
	n = f.enqueue('routed', 'route')
	f.act('fail', n, f.take(n), 'dead', err='no')
	f.ids += 1
	f.u[f.ids], f.queue[f.ids] = 'routed', 'dlq'
	f.complete(f.ids, f.take(f.ids))
	# dead, redriven, completed
	n = f.enqueue('redriven')
	for a in (1, 2, 3):
		f.act('fail', n, f.take(n, attempt=a), 'retry' if a < 3 else 'dead', err='again')
	f.call('admin', 'redrive', dict(q='keep'), 1)
	f.state.redriven[n] = f.tick()
	f.complete(n, f.take(n), failures='again')
	# dead letter passed on, and deleted there before anybody else saw it
	n = f.enqueue('routed, deleted', 'route')
	f.act('fail', n, f.take(n), 'dead', err='no')
	f.ids += 1
	f.journal('admin').write('met', jobs=[[f.ids, 'routed, deleted', 'dlq']])
	f.call('admin', 'delete_jobs', dict(js=[f.ids]), 1)
	# paused in between
	f.call('admin', 'pause', dict(q='keep'))
	f.call('w', 'dequeue', dict(q='keep', n=1, l=1, w=0), [])
	f.call('admin', 'resume', dict(q='keep'))
	# taken and rolled back: the first two times for nothing, the third counts
	n = f.enqueue('rolled back takes')
	for _ in range(3):
		x = f.begin('w', marker=False)
		f.take(n, x=x)
		f.end('w', x, 'r', 'rollback', marker=False)
	f.complete(n, f.take(n, attempt=2), attempt=2)
	# the same, one of them by a cancelled statement that told nobody what it had taken
	n = f.enqueue('rolled back takes, one unheard')
	f.call('w', 'dequeue', dict(q='keep', n=1, l=1, w=0), error='57014', message='canceling statement due to user request')
	for _ in range(2):
		x = f.begin('w', marker=False)
		f.take(n, x=x)
		f.end('w', x, 'r', 'rollback', marker=False)
	f.complete(n, f.take(n, attempt=2), attempt=2)
	f.now += 3
	# a crash undoes a dequeue that nobody forced to disk, but not one with a row of the caller's
	n, m = f.enqueue('dequeue lost by a crash'), f.enqueue('noted')
	f.take(n)
	t = f.take(m, noted=1)
	at = f.tick()
	f.now += 1
	f.event('crash', t=at, t1=f.tick(), pid=1)
	f.complete(n, f.take(n))
	f.complete(m, t)
	f.now += 10
	# a worker died in a dequeue: a job came back with one attempt more
	n = f.enqueue('taken by a dead worker')
	f.call('w3', 'dequeue', dict(q='keep', n=1, l=1, w=0), answer=False)
	f.now += 1
	f.complete(n, f.take(n, attempt=2), attempt=2)
	# delayed
	n = f.enqueue('delayed', d=1.0)
	f.now += 1.1
	f.complete(n, f.take(n))
	# many at once, one of them stale
	n, m = f.enqueue('many 1'), f.enqueue('many 2')
	t = f.take([n, m])
	f.call('w', 'complete_many', dict(js=[h, m, n], ts=[old, t, t], res=None), [[h, 'lost'], [m, 'ok'], [n, 'ok']])
	f.kept(n, t)
	f.kept(m, t)
	n, m = f.enqueue('chain 1'), f.enqueue('chain 2')
	t = f.take(n)
	f.tokens += 1
	f.call('w', 'complete_and_dequeue', dict(j=n, t=t, q='keep', n=1, l=2, w=0, res=None),
		[[m, f.tokens, 1, 3, 1000, None, 'chain 2', WALL + f.now + 2, None]])
	f.kept(n, t)
	f.complete(m, f.tokens)
	# cancelled statement
	f.act('complete', m, f.tokens, error='57014', message='canceling statement due to user request')


# -- lost, ghosts, twice -------------------------------------------------

@case('lost')
def committed_job_is_gone(f):
	f.enqueue('z')


@case('lost')
def taken_job_of_a_queue_without_history_is_gone(f):
	f.take(f.enqueue('z', 'drop'))


@case('lost')
def acknowledged_completion_without_history(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z), kept=False)


@case('lost')
def prepared_job_is_gone(f):
	x = f.begin('p')
	f.enqueue('z', x=x)
	f.end('p', x, 'p', 'prepare')
	f.state.markers.add('p.%d' % x)


@case('lost')
def job_of_a_savepoint_that_was_kept_is_gone(f):
	x = f.begin('p')
	f.enqueue('y', x=x)
	c = f.journal('p').calls
	f.journal('p').write('undo', x=x, c=c)
	f.enqueue('z', x=x)
	f.end('p', x, 'c')


@case('lost')
def dead_letter_was_not_passed_on(f):
	z = f.enqueue('z', 'route')
	f.act('release', z, f.take(z), d=0)


@case('ghost')
def rolled_back_job_in_history(f):
	x = f.begin('p')
	z = f.enqueue('z', x=x)
	f.end('p', x, 'r', 'rollback')
	f.kept(z, None)


@case('ghost')
def job_of_a_rolled_back_savepoint_is_taken(f):
	x = f.begin('p')
	z = f.enqueue('z', x=x)
	f.journal('p').write('undo', x=x, c=f.journal('p').calls)
	f.end('p', x, 'c')
	f.take(z)


@case('ghost')
def job_is_taken_before_its_enqueue_fails(f):
	x = f.begin('p')
	z = f.enqueue('z', x=x)
	f.take(z)
	f.end('p', x, 'r', 'rollback')


@case('ghost', 'unfinished')
def job_that_nobody_enqueued(f):
	f.state.live[f.ids + 1] = dict(queue='keep', u='nobody')


@case('unfinished')
def job_is_left(f):
	z = f.enqueue('z')
	f.state.live[z] = dict(queue='keep', u='z')


@case('twice')
def two_rows_in_history(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.complete(z, t)
	f.kept(z, t)


@case('twice', 'unfinished')
def finished_and_still_live(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z))
	f.state.live[z] = dict(queue='keep', u='z')


@case('twice')
def dead_letter_passed_on_twice(f):
	z = f.enqueue('z', 'route')
	f.act('fail', z, f.take(z), 'dead', err='no')
	for _ in (1, 2):
		f.ids += 1
		f.u[f.ids], f.queue[f.ids] = 'z', 'dlq'
		f.complete(f.ids, f.take(f.ids))


@case('lost')
def passed_on_and_gone(f):
	z = f.enqueue('z', 'route')
	f.act('fail', z, f.take(z), 'dead', err='no')
	f.ids += 1
	f.journal('admin').write('met', jobs=[[f.ids, 'z', 'dlq']])


@case('ghost')
def rolled_back_job_is_met(f):
	x = f.begin('p')
	z = f.enqueue('z', x=x)
	f.end('p', x, 'r', 'rollback')
	f.journal('admin').write('met', jobs=[[z, 'z', 'keep']])


@case('id_twice')
def one_id_for_two_jobs(f):
	f.enqueue('y')
	f.ids -= 1
	z = f.enqueue('z')
	f.complete(z, f.take(z))


# -- ends ------------------------------------------------------------------

@case('double_end', 'stale_accepted')
def completed_twice_with_one_token(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.complete(z, t)
	f.complete(z, t, kept=False)


@case('double_end')
def completed_twice_at_the_same_time(f):
	z = f.enqueue('z')
	t = f.take(z)
	x = f.begin('w2', marker=False)
	f.complete(z, t, client='w2', x=x, kept=False)
	f.complete(z, t)
	f.end('w2', x, 'c', marker=False)


@case('double_end', 'stale_accepted')
def old_and_new_holder_complete(f):
	z = f.enqueue('z')
	t1 = f.take(z)
	f.now += 2.1
	t2 = f.take(z, client='w2', attempt=2)
	f.complete(z, t1, kept=False)
	f.complete(z, t2, client='w2', attempt=2)
	f.state.history[-1]['token'] = t1
	f.state.history[-1]['attempt'] = 1
	f.state.history[-1]['worker'] = 'w'


@case('double_end', 'stale_accepted', 'wrong_end')
def completed_and_dead(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.complete(z, t, kept=False)
	f.act('fail', z, t, 'dead', err='x')
	f.died(z, 1, failures='x')


@case('double_end')
def completed_and_passed_on(f):
	z = f.enqueue('z', 'route')
	f.complete(z, f.take(z))
	f.ids += 1
	f.u[f.ids], f.queue[f.ids] = 'z', 'dlq'
	f.complete(f.ids, f.take(f.ids))


@case('wrong_end')
def history_names_a_token_that_nobody_completed_with(f):
	z = f.enqueue('z')
	t1 = f.take(z)
	f.now += 3
	t2 = f.take(z, attempt=2)
	f.complete(z, t2, attempt=2)
	f.state.history[-1].update(token=t1, attempt=1)


@case('wrong_end')
def completed_by_nobody(f):
	z = f.enqueue('z')
	f.kept(z, f.take(z))


@case('wrong_end')
def cancelled_by_nobody(f):
	z = f.enqueue('z')
	f.kept(z, None, 'x')


@case('wrong_end')
def cancel_of_an_accepted_completion(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z), kept=False)
	f.call('admin', 'cancel', dict(j=z), 'cancelled')
	f.kept(z, None, 'x')


@case('wrong_end')
def cancel_too_late_but_cancelled(f):
	z = f.enqueue('z')
	f.call('admin', 'cancel', dict(j=z), 'not_found')
	f.kept(z, None, 'x')


@case('wrong_end')
def said_dead_but_completed(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.act('fail', z, t, 'dead', err='x')
	f.kept(z, t, failures='x')


@case('wrong_end')
def dead_letter_of_nobody(f):
	f.died(f.enqueue('z'))


@case('wrong_end', 'after_end', 'attempts', 'double_end')
def redriven_without_a_redrive(f):
	z = f.enqueue('z', ma=1)
	f.act('fail', z, f.take(z, max_attempts=1), 'dead', err='x')
	f.complete(z, f.take(z, max_attempts=1), failures='x')


@case('wrong_end')
def dead_by_too_few_roll_backs(f):
	z = f.enqueue('z', ma=1)
	x = f.begin('w', marker=False)
	f.take(z, x=x, max_attempts=1)
	f.end('w', x, 'r', 'rollback', marker=False)
	f.died(z, 1, 'claim_rolled_back', 'x')


@case('wrong_end')
def dead_for_another_reason(f):
	z = f.enqueue('z')
	f.act('fail', z, f.take(z), 'dead', err='x', retry=False)
	f.died(z, 1, 'lease_expired', 'x')


# -- fencing ---------------------------------------------------------------

@case('stale_accepted')
def late_completion_accepted_after_takeover(f):
	z = f.enqueue('z')
	t1 = f.take(z)
	f.now += 2.1
	f.take(z, client='w2', attempt=2)
	f.complete(z, t1)


@case('stale_accepted', 'attempts')
def late_release_accepted_after_takeover(f):
	z = f.enqueue('z')
	t1 = f.take(z)
	f.now += 2.1
	t2 = f.take(z, client='w2', attempt=2)
	f.act('release', z, t1, d=0)
	f.complete(z, t2, attempt=2, client='w2')


@case('stale_accepted')
def late_extend_accepted_after_takeover(f):
	z = f.enqueue('z')
	t1 = f.take(z)
	f.now += 2.1
	t2 = f.take(z, client='w2', attempt=2)
	f.call('w', 'extend_many', dict(js=[z], ts=[t1], l=1), [[z, 'ok']])
	f.complete(z, t2, attempt=2, client='w2')


@case('stale_accepted')
def forged_token_accepted(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.act('progress', z, t + 5000, v={'p': 1}, forged=1)
	f.complete(z, t)


@case('stale_accepted', 'wrong_end')
def completion_with_the_token_of_another_job(f):
	y, z = f.enqueue('y'), f.enqueue('z')
	t1, t2 = f.take(y), f.take(z)
	f.complete(y, t1)
	f.complete(z, t1, kept=False)
	f.kept(z, t2)


@case('stale_accepted')
def token_of_a_rolled_back_dequeue_accepted(f):
	z = f.enqueue('z')
	x = f.begin('w', marker=False)
	t = f.take(z, x=x)
	f.end('w', x, 'r', 'rollback', marker=False)
	f.complete(z, t)


@case('stale_accepted')
def second_fail_with_one_token_accepted(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.act('fail', z, t, 'retry', err='1')
	f.act('fail', z, t, 'retry', err='2')
	f.complete(z, f.take(z, attempt=2), attempt=2, failures='12')


@case('stale_accepted')
def extend_after_the_end_accepted(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.complete(z, t)
	f.act('extend', z, t, 'ok', l=1)


@case('stale_accepted')
def completion_of_an_unknown_job_accepted(f):
	f.act('complete', 123456, 99, True)


@case('false_refusal')
def holder_is_refused(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.act('complete', z, t, error='JQ001')
	f.complete(z, t)


@case('false_refusal')
def one_of_many_is_called_lost(f):
	y, z = f.enqueue('y'), f.enqueue('z')
	t = f.take([y, z])
	f.call('w', 'complete_many', dict(js=[y, z], ts=[t, t], res=None), [[y, 'ok'], [z, 'lost']])
	f.kept(y, t)
	f.now += 3
	f.complete(z, f.take(z, attempt=2), attempt=2)


@case('false_refusal')
def refused_in_the_transaction_that_took_it(f):
	z = f.enqueue('z')
	x = f.begin('w')
	t = f.take(z, x=x)
	f.act('complete', z, t, error='JQ001', x=x)
	f.end('w', x, 'r', 'rollback')
	f.complete(z, f.take(z))


@case('false_refusal')
def refused_though_extended(f):
	z = f.enqueue('z')
	t = f.take(z, lease=1.0)
	f.act('extend', z, t, 'ok', l=5.0)
	f.now += 3
	f.act('complete', z, t, error='JQ001')
	f.complete(z, t)


@case('false_refusal')
def refused_though_history_knows(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.complete(z, t)
	f.act('complete', z, t, error='JQ001')


@case('false_already')
def already_done_by_nobody(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.act('complete', z, t, False)
	f.complete(z, t)


@case('token_twice')
def same_token_for_two_calls(f):
	y, z = f.enqueue('y'), f.enqueue('z')
	t = f.take(y)
	f.complete(y, t)
	f.complete(z, f.take(z, token=t))


@case('token_twice')
def same_token_after_a_roll_back(f):
	z = f.enqueue('z')
	x = f.begin('w', marker=False)
	t = f.take(z, x=x)
	f.end('w', x, 'r', 'rollback', marker=False)
	f.complete(z, f.take(z, token=t))


@case('token_order')
def tokens_fall(f):
	y, z = f.enqueue('y'), f.enqueue('z')
	f.complete(y, f.take(y, token=500000))
	f.complete(z, f.take(z, token=400000, client='w2'), client='w2')


# -- leases and attempts ---------------------------------------------------

@case('two_holders')
def taken_while_leased(f):
	z = f.enqueue('z')
	f.take(z)
	f.now += 1
	f.complete(z, f.take(z, client='w2', attempt=2), attempt=2, client='w2')


@case('two_holders')
def taken_while_extended(f):
	z = f.enqueue('z')
	t = f.take(z, lease=1.0)
	f.act('extend', z, t, 'ok', l=5.0)
	f.now += 2
	f.complete(z, f.take(z, client='w2', attempt=2), attempt=2, client='w2')


@case('two_holders')
def taken_after_a_rolled_back_release(f):
	z = f.enqueue('z')
	t = f.take(z)
	x = f.begin('w')
	f.act('release', z, t, d=0, x=x)
	f.end('w', x, 'r', 'rollback')
	f.complete(z, f.take(z, client='w2', attempt=2), attempt=2, client='w2')


@case('two_holders')
def taken_while_the_first_taker_is_open(f):
	z = f.enqueue('z')
	x = f.begin('w', marker=False)
	f.take(z, x=x)
	t = f.take(z, client='w2')
	f.end('w', x, 'r', 'rollback', marker=False)
	f.complete(z, t, client='w2')


@case('two_holders', 'token_twice', 'attempts')
def twice_in_one_answer(f):
	z = f.enqueue('z')
	f.complete(z, f.take([z, z]))


@case('two_holders', 'attempts')
def dequeue_lost_without_a_crash(f):
	z = f.enqueue('z')
	f.take(z)
	f.complete(z, f.take(z))


@case('two_holders', 'attempts')
def noted_dequeue_lost_by_a_crash(f):
	z = f.enqueue('z')
	f.take(z, noted=1)
	at = f.tick()
	f.event('crash', t=at, t1=f.tick(), pid=1)
	f.complete(z, f.take(z))


@case('two_holders', 'attempts')
def second_attempt_lost_by_a_crash(f):
	z = f.enqueue('z')
	f.act('fail', z, f.take(z), 'retry', err='x')
	f.take(z, attempt=2)
	at = f.tick()
	f.event('crash', t=at, t1=f.tick(), pid=1)
	f.complete(z, f.take(z, attempt=2), attempt=2, failures='x')


@case('attempts')
def expired_lease_not_counted(f):
	z = f.enqueue('z')
	f.take(z)
	f.now += 2.1
	f.complete(z, f.take(z))


@case('attempts')
def release_counted(f):
	z = f.enqueue('z')
	f.act('release', z, f.take(z), d=0)
	f.complete(z, f.take(z, attempt=2), attempt=2)


@case('attempts')
def failure_not_counted(f):
	z = f.enqueue('z')
	f.act('fail', z, f.take(z), 'retry', err='x')
	f.complete(z, f.take(z), failures='x')


@case('attempts')
def rolled_back_dequeue_counted_at_once(f):
	z = f.enqueue('z')
	x = f.begin('w', marker=False)
	f.take(z, x=x)
	f.end('w', x, 'r', 'rollback', marker=False)
	f.complete(z, f.take(z, attempt=2), attempt=2)


@case('attempts')
def cancelled_dequeue_counted_at_once(f):
	z = f.enqueue('z')
	f.call('w', 'dequeue', dict(q='keep', n=1, l=1, w=0), error='57014', message='canceling statement due to user request')
	f.complete(z, f.take(z, attempt=2), attempt=2)


@case('attempts')
def more_attempts_than_allowed(f):
	z = f.enqueue('z')
	for n in (1, 2, 3):
		f.act('fail', z, f.take(z, attempt=n), 'retry', err='x')
	f.complete(z, f.take(z, attempt=4), attempt=4, failures='x')


@case('attempts')
def attempts_not_reset_by_redrive(f):
	z = f.enqueue('z')
	for a in (1, 2, 3):
		f.act('fail', z, f.take(z, attempt=a), 'retry' if a < 3 else 'dead', err='x')
	f.call('admin', 'redrive', dict(q='keep'), 1)
	f.state.redriven[z] = f.tick()
	f.complete(z, f.take(z, attempt=3), attempt=3, failures='x')


@case('early')
def delayed_job_comes_early(f):
	z = f.enqueue('z', d=2.0)
	f.now += 1
	f.complete(z, f.take(z))


@case('early')
def retry_comes_early(f):
	z = f.enqueue('z')
	f.act('fail', z, f.take(z), 'retry', err='x', ri=2.0)
	f.complete(z, f.take(z, attempt=2), attempt=2, failures='x')


@case('early')
def released_job_comes_early(f):
	z = f.enqueue('z')
	f.call('w', 'release_many', dict(js=[z], ts=[f.take(z)], d=1.0), [[z, 'ok']])
	f.complete(z, f.take(z))


@case('deadline')
def lease_beyond_the_deadline(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z, deadline=f.now + 0.5))


@case('after_end')
def taken_after_its_completion(f):
	z = f.enqueue('z', 'drop')
	f.complete(z, f.take(z))
	f.now += 3
	x = f.begin('w', marker=False)
	f.take(z, attempt=2, x=x)
	f.end('w', x, 'r', 'rollback', marker=False)


@case('after_end')
def taken_after_its_cancellation(f):
	z = f.enqueue('z')
	f.take(z)
	f.call('admin', 'cancel', dict(j=z), 'running')
	f.now += 3
	t = f.take(z, attempt=2)
	f.complete(z, t, attempt=2)


@case('after_end')
def taken_after_its_deletion(f):
	z = f.enqueue('z')
	f.call('admin', 'delete_jobs', dict(js=[z]), 1)
	f.complete(z, f.take(z))


@case('paused')
def taken_while_paused(f):
	z = f.enqueue('z')
	f.call('admin', 'pause', dict(q='keep'))
	t = f.take(z)
	f.call('admin', 'resume', dict(q='keep'))
	f.complete(z, t)


@case('own_job')
def taken_by_the_transaction_that_made_it(f):
	x = f.begin('w')
	z = f.enqueue('z', client='w', x=x)
	t = f.take(z, x=x)
	f.end('w', x, 'c')
	f.complete(z, t)


# -- contents --------------------------------------------------------------

@case('payload')
def payload_of_another_job(f):
	f.enqueue('y', 'drop', known=False)
	z = f.enqueue('z')
	f.complete(z, f.take(z, u='y'))


@case('payload')
def wrong_max_attempts(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z, max_attempts=4))


@case('payload')
def wrong_priority(f):
	z = f.enqueue('z', p=1)
	f.complete(z, f.take(z))


@case('payload')
def wrong_name(f):
	z = f.enqueue('z', nm='mail')
	f.complete(z, f.take(z))


@case('payload')
def job_in_another_queue(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z, queue='drop'))


@case('history')
def wrong_result(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z), res={'r': 1})
	f.state.history[-1]['result'] = {'r': 2}


@case('history')
def result_of_a_rolled_back_completion(f):
	z = f.enqueue('z')
	t = f.take(z)
	x = f.begin('w')
	f.complete(z, t, x=x, kept=False, res='no')
	f.end('w', x, 'r', 'rollback')
	f.complete(z, t, res='yes')
	f.state.history[-1]['result'] = 'no'


@case('history')
def progress_lost(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.act('progress', z, t, v={'p': 1})
	f.complete(z, t)


@case('history')
def error_lost(f):
	z = f.enqueue('z')
	f.act('fail', z, f.take(z), 'retry', err='why')
	f.complete(z, f.take(z, attempt=2), attempt=2)


@case('history')
def wrong_attempt_in_history(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z), attempt=2)


@case('history')
def wrong_worker_in_history(f):
	z = f.enqueue('z')
	f.complete(z, f.take(z))
	f.state.history[-1]['worker'] = 'w2'


# -- effects and durability ------------------------------------------------

@case('effect')
def effect_is_missing(f):
	f.effect()
	f.state.effects.pop()


@case('effect')
def effect_twice(f):
	f.effect()
	f.state.effects.append(f.state.effects[-1])


@case('effect')
def effect_of_a_rolled_back_completion(f):
	job, token, key = f.effect(commit='r')
	f.complete(job, token)
	f.state.effects.append((job, token, key))


@case('effect', 'lost')
def effect_without_its_completion(f):
	f.effect()
	f.state.history.pop()
	f.state.effects[-1] = (f.state.effects[-1][0], 1, 'nobody')


@case('durability', 'lost')
def acknowledged_commit_is_gone(f):
	x = f.begin('p')
	f.enqueue('z', x=x)
	f.end('p', x, 'c', marker=False)


@case('durability')
def rolled_back_commit_is_there(f):
	x = f.begin('p')
	f.enqueue('z', x=x)
	f.end('p', x, 'r', 'rollback')
	f.state.markers.add('p.%d' % x)


@case('durability')
def row_written_with_a_dequeue_is_gone(f):
	z = f.enqueue('z')
	t = f.take(z, noted=1)
	f.state.taken.clear()
	f.state.taken.update((d['id'], d['token']) for d in f.state.history)
	f.complete(z, t)


@case('lost')
def purge_took_more_than_it_says(f):
	f.enqueue('y', 'purge')
	f.enqueue('z', 'purge')
	f.call('admin', 'purge', dict(q='purge'), 1)


@case('answer')
def purge_says_more_than_it_took(f):
	f.enqueue('z', 'purge')
	f.call('admin', 'purge', dict(q='purge'), 2)


@case('answer')
def redriven_twice(f):
	f.call('admin', 'redrive', dict(q='keep'), 1)


@case('answer')
def more_jobs_than_asked_for(f):
	y, z = f.enqueue('y'), f.enqueue('z')
	t = f.take([y, z], n=1)
	f.complete(y, t)
	f.complete(z, t)


@case('answer')
def unknown_status(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.call('w', 'complete_many', dict(js=[z], ts=[t], res=None), [[z, 'perhaps']])
	f.complete(z, t)


@case('answer')
def status_of_another_job(f):
	z = f.enqueue('z')
	t = f.take(z)
	f.call('w', 'release_many', dict(js=[z], ts=[t]), [])
	f.complete(z, t)


# -- errors and events -----------------------------------------------------

@case('error')
def unexpected_error(f):
	f.call('p', 'enqueue', dict(q='keep', u='z', p=None, d=None, ma=None, nm=None, to=None), error='XX000',
		message='tuple concurrently updated')


@case('hang')
def statement_timeout(f):
	f.call('w', 'dequeue', dict(q='keep', n=1, l=1, w=0), error='57014', message='canceling statement due to statement timeout')


@case('deadlock')
def deadlock(f):
	f.act('complete', 1, 1, error='40P01')


@case('verify')
def verify_found_something(f):
	f.event('verify', when='at the end', rows=['ticket: job 1 has none'])


@case('gauge')
def counts_are_wrong(f):
	f.event('gauge', e='ready 1, view says 2')


@case('server_log')
def server_log_shows_a_crash(f):
	f.event('server_log', e='was terminated by signal 11')


@case('liveness')
def queue_does_not_drain(f):
	f.event('undrained', e='3 jobs are left')


@case('wrong')
def a_client_saw_something_wrong(f):
	f.event('wrong', e='PREPARE TRANSACTION was accepted after a dequeue')


def run_case(f_case, fake, good_run):
	directory = tempfile.mkdtemp(prefix='jobq-oracle-')
	try:
		f = fake(directory)
		good_run(f)
		f.now += 20		# nothing of the good run reaches into the case
		if f_case is not None:
			f_case(f)
		oracle, violations = f.check()
		for v in violations:
			if v.job is not None:
				story(oracle, v.job)
		return violations
	finally:
		shutil.rmtree(directory)


def main():
	import groups_selftest as groups
	failed = 0
	cases = [('good run', set(), None, Fake, good)] + [c + (Fake, good) for c in CASES]
	cases += [('good run of groups', set(), None, groups.GroupFake, groups.good)] + [c + (groups.GroupFake, groups.good) for c in groups.CASES]
	for name, expected, f_case, fake, good_run in cases:
		found = run_case(f_case, fake, good_run)
		rules = {v.rule for v in found}
		if rules != expected:
			failed += 1
			print('not ok - %s: expected %s, found %s' % (name, sorted(expected) or 'nothing', sorted(rules) or 'nothing'))
			for v in found:
				print('    %s' % v)
		else:
			print('ok - %s' % name)
	print('%d passed, %d failed' % (len(cases) - failed, failed))
	return 1 if failed else 0


if __name__ == '__main__':
	sys.exit(main())
