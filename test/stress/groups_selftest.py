"""Does the oracle for groups see? As selftest.py, which runs these cases too: a good run, and one with one thing more for every way of
breaking what is promised of groups.
"""
from groups_oracle import GroupOracle, GroupState
from journal import Journals
from selftest import WALL, Fake

CASES = []


def case(*rules):
	def wrap(f):
		CASES.append((f.__name__, set(rules), f))
		return f
	return wrap


class GroupFake(Fake):
	def __init__(self, directory):
		super().__init__(directory)
		self.state = s = GroupState()
		queues = ('hold', 'pass', 'block', 'rate')
		s.keep = set(queues)
		s.max_attempts = dict.fromkeys(queues, 3)
		s.passing, s.blocking, s.gap = {'pass'}, {'block'}, {'rate': 0.5}
		s.backoff = dict.fromkeys(queues, 0.1)
		s.lease = dict.fromkeys(queues, 2.0)
		self.group = {}
		self.key = 0

	def new_key(self):
		self.key += 1
		return 'key %d' % self.key

	def end(self, client, x, fate, how='commit', marker=True):
		super().end(client, x, fate, how, marker)
		if marker and fate == 'c':
			self.state.commit_ts['%s.%d' % (client, x)] = round(self.now * 1e6)

	def put(self, n, g=None, queue='hold', together=False, **opt):
		"""n jobs of one group, each in a transaction of its own, or in one."""
		g = g or self.new_key()
		ids, x = [], self.begin('p') if together else None
		for _ in range(n):
			y = x if together else self.begin('p')
			ids.append(self.enqueue('u%d' % (self.ids + 1), queue, x=y, g=g, **opt))
			self.group[ids[-1]] = g
			if not together:
				self.end('p', y, 'c')
		if together:
			self.end('p', x, 'c')
		return ids

	def take(self, ids, client='w', attempt=1, lease=2.0, x=None, token=None, live=False, group=None):
		"""One lease. attempt: of all, or one each."""
		ids = ids if isinstance(ids, list) else [ids]
		attempts = attempt if isinstance(attempt, list) else [attempt] * len(ids)
		if token is None:
			self.tokens += 1
			token = self.tokens
		until = WALL + self.now + 0.01 + lease
		rows = [[i, token, a, 3, 1000, None, self.u[i], until, None, group or self.group[i]] for i, a in zip(ids, attempts)]
		self.call(client, 'dequeue', dict(q=self.queue[ids[0]], n=10, l=lease, w=0, b=10, **({'live': 1} if live else {})), rows, x)
		return token

	def done(self, ids, token, attempt=1, client='w', failures=None):
		for i in ids if isinstance(ids, list) else [ids]:
			self.complete(i, token, attempt=attempt, client=client, failures=failures)

	def dead_head(self, queue='block'):
		"""Two jobs, the first of them dead."""
		a, b = self.put(2, queue=queue)
		self.act('fail', a, self.take(a), 'blocked' if queue == 'block' else 'dead', err='no', retry=False)
		self.state.dead.append(dict(id=a, attempt=1, max_attempts=3, queue=queue, u=self.u[a], reason='rejected', failures='no',
			died=self.now))
		return a, b

	def check(self):
		for j in self.journals.values():
			j.close()
		oracle = GroupOracle(Journals(self.directory), self.state)
		return oracle, oracle.check()


def good(f):
	# one after the other; a batch in order; two groups beside each other
	a, b, c = f.put(3)
	f.done(a, f.take(a))
	f.done([b, c], f.take([b, c]))
	a, b = f.put(1) + f.put(1)
	t, u = f.take(a), f.take(b, client='w2')
	f.done(b, u, client='w2')
	f.done(a, t)
	# a slow producer's job comes where its commit is
	g = f.new_key()
	x = f.begin('slow')
	late = f.enqueue('late', 'hold', 'slow', x, g=g)
	f.group[late] = g
	early, = f.put(1, g)
	f.end('slow', x, 'c')
	f.done([early, late], f.take([early, late]))
	# a savepoint that is rolled back is not in line
	x = f.begin('p')
	n = f.call('p', 'enqueue', dict(q='hold', u='undone', p=None, d=None, ma=None, nm=None, to=None, g='sp'), 999999, x)
	f.journal('p').write('undo', x=x, c=n)
	n = f.enqueue('kept', 'hold', 'p', x, g='sp')
	f.group[n] = 'sp'
	f.end('p', x, 'c')
	f.done(n, f.take(n))
	# the head fails and keeps its place; the rest of its batch is not counted; who is late hears so
	a, b, c = f.put(3)
	t = f.take([a, b, c])
	f.act('complete', b, t, error='JQ002')
	f.act('fail', b, t, error='JQ002', err='out of order')
	f.act('fail', a, t, 'retry', err='oops')
	f.act('complete', b, t, error='JQ001')
	f.now += 0.1
	t = f.take([a, b], attempt=[2, 1])
	f.done(a, t, 2, failures=['oops'])
	f.act('release', b, t, d=0.3)
	f.now += 0.3
	f.done([b, c], f.take([b, c]))
	# the first and the third are named: the second, too, is given back
	a, b, c = f.put(3)
	t = f.take([a, b, c])
	f.call('w', 'fail_many', dict(js=[a, c], ts=[t, t], err='some', ri=0), [[a, 'retry'], [c, 'ok']])
	t = f.take([a, b, c], attempt=[2, 1, 1])
	f.done(a, t, 2, failures=['some'])
	f.done([b, c], t)
	# many: the first fails, the rest is given back and has no error
	a, b = f.put(2)
	t = f.take([a, b])
	f.call('w', 'fail_many', dict(js=[a, b], ts=[t, t], err='all', ri=0), [[a, 'retry'], [b, 'ok']])
	t = f.take([a, b], attempt=[2, 1])
	f.call('w', 'complete_many', dict(js=[b, a], ts=[t, t], res=None), [[b, 'ok'], [a, 'ok']])
	f.kept(a, t, attempt=2, failures=['all'])
	f.kept(b, t)
	# lease over: the first unfinished job counts, the other does not; a zombie is refused
	a, b, c = f.put(3)
	t = f.take([a, b, c])
	f.done(a, t)
	f.now += 2.1
	u = f.take([b, c], 'w2', [2, 1])
	f.act('complete', b, t, error='JQ001')
	f.act('extend', b, t, error='JQ001', l=1)
	f.act('fail', c, t, error='JQ001', err='zombie')
	f.done(b, u, 2, 'w2')
	f.done(c, u, 1, 'w2')
	# the session ended: taken over at once
	a, = f.put(1)
	f.journal('w3').write('conn')
	f.take(a, 'w3', live=True)
	f.done(a, f.take(a, attempt=2), 2)
	# passed: the next one comes first
	a, b = f.put(2, queue='pass')
	f.act('fail', a, f.take(a), 'retry', err='later', ri=0.1)
	f.done(b, f.take(b))
	f.now += 0.1
	f.done(a, f.take(a, attempt=2), 2, failures=['later'])
	# passed, though nobody knows who had it
	a, b = f.put(2, queue='pass')
	f.call('w8', 'dequeue', dict(q='pass', n=1, l=1, w=0, live=1), answer=False)
	f.done(b, f.take(b))
	f.done(a, f.take(a, attempt=2), 2)
	# dead: skipped; blocked and skipped; blocked and tried again
	a, b = f.dead_head('hold')
	f.done(b, f.take(b))
	a, b = f.dead_head()
	f.call('admin', 'unblock', dict(q='block', g=f.group[a], head='skip', j=a))
	f.done(b, f.take(b))
	a, b = f.dead_head()
	f.call('admin', 'unblock', dict(q='block', g=f.group[a], head='retry', j=a))
	f.state.dead.pop()
	f.done([a, b], f.take([a, b]), failures=['no'])
	# cancelled in line; a delayed one comes when it is due, at the end
	a, b, c = f.put(3)
	d, = f.put(1, f.group[a], d=0.5)
	f.call('admin', 'cancel', dict(j=b), 'cancelled')
	f.kept(b, None, 'x')
	f.done([a, c], f.take([a, c]))
	f.now += 0.5
	f.done(d, f.take(d))
	# paused and resumed
	a, = f.put(1)
	for verb in ('pause_group', 'resume_group'):
		f.call('admin', verb, dict(q='hold', g=f.group[a]))
	f.done(a, f.take(a))
	# within its rate
	a, b = f.put(2, queue='rate')
	f.done(a, f.take(a))
	f.now += 0.5
	f.done(b, f.take(b))
	# asked to let go
	a, b = f.put(2)
	t = f.take([a, b], 'w9')
	f.call('admin', 'drain_worker', dict(w='w9'), 1)
	f.act('extend', a, t, 'drain', 'w9', l=1)
	f.done(a, t, client='w9')
	f.done(b, f.take(b, 'w2'), client='w2')
	# taken and rolled back
	a, = f.put(1)
	x = f.begin('w4', marker=False)
	f.take(a, 'w4', x=x)
	f.end('w4', x, 'r', 'rollback', marker=False)
	f.done(a, f.take(a))
	# the same by the server, which had ended the session before the client heard of it
	a, = f.put(1)
	x = f.begin('w7', marker=False)
	f.act('extend', a, f.take(a, 'w7', x=x), 'ok', 'w7', x, l=2)
	f.done(a, f.take(a, 'w2'), client='w2')
	f.end('w7', x, 'r', 'rollback', marker=False)
	f.journal('w7').write('gone', x=x)


# -- the order of starts -----------------------------------------------

@case('commit_order')
def starts_before_an_earlier_commit(f):
	a, b = f.put(2)
	f.done(b, f.take(b))
	f.done(a, f.take(a))


@case('commit_order')
def order_of_the_calls_instead_of_the_commits(f):
	g = f.new_key()
	x = f.begin('slow')
	late = f.enqueue('late', 'hold', 'slow', x, g=g)
	f.group[late] = g
	early, = f.put(1, g)
	f.end('slow', x, 'c')
	f.done([late, early], f.take([late, early]))


@case('commit_order')
def batch_in_wrong_order(f):
	a, b = f.put(2)
	f.done([b, a], f.take([b, a]))


@case('call_order')
def order_of_a_transaction_turned_round(f):
	a, b = f.put(2, together=True)
	f.done([b, a], f.take([b, a]))


@case('call_order')
def order_of_an_array_turned_round(f):
	g = f.new_key()
	x = f.begin('p')
	f.call('p', 'enqueue_many', dict(q='hold', us=['one', 'two'], gs=[g, g], p=None, d=None, ma=None, nm=None, to=None),
		[[f.ids + 1, 'inserted'], [f.ids + 2, 'inserted']], x)
	f.end('p', x, 'c')
	for u in ('one', 'two'):
		f.ids += 1
		f.u[f.ids], f.queue[f.ids], f.group[f.ids] = u, 'hold', g
	f.done([f.ids, f.ids - 1], f.take([f.ids, f.ids - 1]))


@case('prefix')
def batch_leaves_one_out(f):
	a, b, c = f.put(3)
	f.done([a, c], f.take([a, c]))
	f.done(b, f.take(b))


@case('place')
def failed_head_loses_its_place(f):
	a, b = f.put(2)
	f.act('fail', a, f.take(a), 'retry', err='x')
	f.now += 0.1
	f.done(b, f.take(b))
	f.done(a, f.take(a, attempt=2), 2, failures='x')


@case('place')
def released_job_loses_its_place(f):
	a, b = f.put(2)
	f.act('release', a, f.take(a), d=0)
	f.done(b, f.take(b))
	f.done(a, f.take(a))


@case('place')
def expired_job_loses_its_place(f):
	a, b = f.put(2)
	f.take(a)
	f.now += 2.1
	f.done(b, f.take(b))
	f.done(a, f.take(a, attempt=2), 2)


@case('place')
def rest_of_a_batch_loses_its_place(f):
	a, b, c = f.put(3)
	t = f.take([a, b])
	f.done(a, t)
	f.act('release', b, t, d=0)
	f.done(c, f.take(c))
	f.done(b, f.take(b))


@case('place')
def delayed_job_loses_its_place_once_it_has_started(f):
	a, = f.put(1, d=0.1)
	f.now += 0.2
	f.act('release', a, f.take(a), d=0)
	b, = f.put(1, f.group[a])
	f.done(b, f.take(b))
	f.done(a, f.take(a))


@case('commit_order')
def cancel_that_was_too_late_frees_nobody(f):
	a, b = f.put(2)
	f.call('admin', 'cancel', dict(j=a), 'finished')
	f.done(b, f.take(b))
	f.done(a, f.take(a))


@case('commit_order')
def cancel_that_was_rolled_back_frees_nobody(f):
	a, b = f.put(2)
	x = f.begin('admin')
	f.call('admin', 'cancel', dict(j=a), 'cancelled', x)
	f.end('admin', x, 'r', 'rollback')
	f.done(b, f.take(b))
	f.done(a, f.take(a))


@case('uncommitted')
def starts_before_its_commit(f):
	g = f.new_key()
	x = f.begin('p')
	a = f.enqueue('early', 'hold', 'p', x, g=g)
	f.group[a] = g
	t = f.take(a)
	f.end('p', x, 'c')
	f.done(a, t)


@case('ghost')
def job_of_a_rolled_back_savepoint_is_in_line(f):
	x = f.begin('p')
	a = f.enqueue('undone too', 'hold', 'p', x, g='sp2')
	f.group[a] = 'sp2'
	f.journal('p').write('undo', x=x, c=f.journal('p').calls)
	f.end('p', x, 'c')
	f.done(a, f.take(a))


# -- leases and tokens ---------------------------------------------------

@case('two_leases', 'place', 'stale_accepted')
def second_lease_of_a_group_beside_the_first(f):
	# the second lease starts somebody else: the order is broken with it
	a, b = f.put(2)
	t = f.take([a])
	x = f.begin('w')
	f.complete(a, t, x=x, kept=False)		# not committed
	u = f.take(b, 'w2')
	f.done(b, u, client='w2')
	f.end('w', x, 'r', 'rollback')
	f.done(a, t)


@case('two_leases')
def same_job_taken_over_too_early(f):
	a, = f.put(1)
	f.take(a)
	f.now += 1
	f.done(a, f.take(a, 'w2', 2), 2, 'w2')


@case('two_leases')
def extended_lease_is_taken_over(f):
	a, = f.put(1)
	t = f.take(a)
	f.now += 1
	f.act('extend', a, t, 'ok', l=4.0)
	f.now += 2
	f.done(a, f.take(a, 'w2', 2), 2, 'w2')


@case('two_leases')
def marked_lease_is_taken_over_though_its_session_lives(f):
	a, = f.put(1)
	f.journal('w5').write('conn')
	f.take(a, 'w5', live=True)
	f.done(a, f.take(a, 'w2', 2), 2, 'w2')
	f.call('w5', 'dequeue', dict(q='hold', n=1, l=1, w=0), [])


@case('two_leases', 'two_holders')
def taken_while_another_open_transaction_holds_it(f):
	a, = f.put(1)
	x = f.begin('w', marker=False)
	f.take(a, x=x)
	u = f.take(a, 'w2')
	f.end('w', x, 'r', 'rollback', marker=False)
	f.done(a, u, client='w2')


@case('token_order', 'commit_order', 'place', 'stale_accepted', 'two_leases')
def token_smaller_than_the_one_before(f):
	# the later lease counts as the earlier one, and all that follows from it
	a, b = f.put(2)
	f.tokens += 10
	high = f.tokens
	t = f.take(a, token=high)
	f.done(a, t)
	f.done(b, f.take(b, token=high - 5))


@case('token_twice')
def token_given_twice(f):
	a, b = f.put(2)
	t = f.take(a)
	f.done(a, t)
	f.done(b, f.take(b, token=t))


@case('lease_mix')
def two_groups_under_one_token(f):
	a, b = f.put(1) + f.put(1)
	f.tokens += 1
	rows = [[i, f.tokens, 1, 3, 1000, None, f.u[i], WALL + f.now + 2, None, f.group[i]] for i in (a, b)]
	f.call('w', 'dequeue', dict(q='hold', n=10, l=2.0, w=0, b=1), rows)
	f.done([a, b], f.tokens)


@case('payload')
def job_comes_with_the_key_of_another_group(f):
	a, = f.put(1)
	f.done(a, f.take(a, group='another'))


@case('payload')
def history_shows_another_key(f):
	a, = f.put(1)
	f.done(a, f.take(a))
	f.state.group_of[a] = 'another'


# -- verbs -----------------------------------------------------------------

@case('out_of_order')
def later_job_of_a_batch_is_completed_first(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.done([b, a], t)


@case('out_of_order')
def later_job_of_a_batch_fails_before_the_first_is_done(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.act('fail', b, t, 'retry', err='y', ri=0)
	f.done([a, b], f.take([a, b], attempt=[1, 2]), failures='y')
	f.state.history[-1]['attempt'] = 2


@case('stale_accepted', 'double_end', 'wrong_end')
def completed_by_a_zombie_of_the_group(f):
	# two completions of one job are wrong by themselves, too
	a, b = f.put(2)
	t = f.take([a, b])
	f.done(a, t)
	f.now += 2.1
	u = f.take(b, 'w2', 2)
	f.act('complete', b, t, True)
	f.done(b, u, 2, 'w2', False)


@case('stale_accepted')
def extended_by_a_zombie(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.done(a, t)
	f.now += 2.1
	u = f.take(b, 'w2', 2)
	f.act('extend', b, t, 'ok', l=1.0)
	f.done(b, u, 2, 'w2')


@case('stale_accepted')
def completion_committed_after_the_takeover(f):
	a, b = f.put(2)
	t = f.take(a)
	f.now += 2.1
	x = f.begin('w')
	f.complete(a, t, x=x)
	f.state.effects.append((a, t, 'w.%d' % x))
	u = f.take(b, 'w2')
	f.end('w', x, 'c')
	f.done(b, u, client='w2')


@case('stale_accepted')
def accepted_after_a_failure_ended_the_lease(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.act('fail', a, t, 'dead', err='z', retry=False)
	f.died(a, 1, 'rejected', 'z')
	f.state.dead[-1]['died'] = f.now
	f.done(b, t)


@case('false_refusal')
def holder_is_refused(f):
	a, = f.put(1)
	t = f.take(a)
	f.act('complete', a, t, error='JQ001')
	f.done(a, t)


@case('false_refusal')
def next_one_is_told_that_it_is_out_of_order(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.done(a, t)
	f.act('complete', b, t, error='JQ002')
	f.done(b, t)


@case('false_refusal')
def whole_batch_is_told_that_it_is_out_of_order(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.call('w', 'complete_many', dict(js=[a, b], ts=[t, t], res=None), [[a, 'ok'], [b, 'out_of_order']])
	f.kept(a, t)
	f.done(b, t)


@case('wrong_refusal')
def zombie_is_told_that_it_is_out_of_order(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.now += 2.1
	u = f.take([a, b], 'w2', [2, 1])
	f.act('complete', b, t, error='JQ002')
	f.done(a, u, 2, 'w2')
	f.done(b, u, 1, 'w2')


@case('refused_changed')
def refused_failure_left_its_error(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.act('fail', b, t, error='JQ002', err='trace')
	f.done(a, t)
	f.done(b, t, failures=['trace'])


@case('wrong_end')
def refused_completion_did_it(f):
	a, b = f.put(2)
	t = f.take([a, b])
	f.act('complete', b, t, error='JQ002')
	f.done(a, t)
	f.kept(b, t)


@case('attempts')
def rest_of_a_failed_batch_is_counted(f):
	a, b = f.put(2)
	f.act('fail', a, f.take([a, b]), 'retry', err='x', ri=0)
	t = f.take([a, b], attempt=2)
	f.done([a, b], t, 2, failures='x')


@case('attempts')
def rest_of_an_expired_batch_is_counted(f):
	a, b = f.put(2)
	f.take([a, b])
	f.now += 2.1
	f.done([a, b], f.take([a, b], attempt=2), 2)


@case('attempts')
def first_job_of_an_expired_batch_is_not_counted(f):
	a, b = f.put(2)
	f.take([a, b])
	f.now += 2.1
	f.done([a, b], f.take([a, b], attempt=1))


@case('attempts')
def released_job_is_counted(f):
	a, = f.put(1)
	f.act('release', a, f.take(a), d=0)
	f.done(a, f.take(a, attempt=2), 2)


# -- waiting ---------------------------------------------------------------

@case('early')
def group_does_not_wait_for_its_head(f):
	a, b = f.put(2)
	f.act('fail', a, f.take(a), 'retry', err='x', ri=0.5)
	f.done([a, b], f.take([a, b], attempt=[2, 1]), failures='x')
	f.state.history[-2]['attempt'] = 2


@case('early')
def group_does_not_wait_for_the_backoff_of_its_queue(f):
	a, = f.put(1)
	f.act('fail', a, f.take(a), 'retry', err='x')
	f.done(a, f.take(a, attempt=2), 2, failures='x')


@case('early')
def group_does_not_wait_as_long_as_it_was_released_for(f):
	a, = f.put(1)
	f.act('release', a, f.take(a), d=0.5)
	f.done(a, f.take(a))


@case('early')
def delayed_job_of_a_group_comes_early(f):
	a, = f.put(1, d=0.5)
	f.done(a, f.take(a))


@case('blocked')
def group_goes_on_behind_a_dead_head(f):
	_, b = f.dead_head()
	f.done(b, f.take(b))


@case('blocked')
def group_goes_on_behind_a_head_that_died_by_time(f):
	a, b = f.put(2, queue='block', ma=1)
	f.tokens += 1
	f.call('w', 'dequeue', dict(q='block', n=1, l=2.0, w=0), [[a, f.tokens, 1, 1, 1000, None, f.u[a], WALL + f.now + 2, None, f.group[a]]])
	f.now += 2.1
	f.died(a, 1, 'lease_expired')
	f.state.dead[-1]['died'] = f.now
	f.tokens += 1
	f.call('w', 'dequeue', dict(q='block', n=1, l=2.0, w=0), [[b, f.tokens, 1, 1, 1000, None, f.u[b], WALL + f.now + 2, None, f.group[b]]])
	f.done(b, f.tokens)


@case('blocked')
def unblocking_another_group_helps(f):
	_, b = f.dead_head()
	f.call('admin', 'unblock', dict(q='block', g='another', head='skip', j=0))
	f.done(b, f.take(b))


@case('paused')
def paused_group_starts(f):
	a, = f.put(1)
	f.call('admin', 'pause_group', dict(q='hold', g=f.group[a]))
	t = f.take(a)
	f.call('admin', 'resume_group', dict(q='hold', g=f.group[a]))
	f.done(a, t)


@case('rate')
def starts_too_soon_one_after_the_other(f):
	a, b = f.put(2, queue='rate')
	f.done(a, f.take(a))
	f.now += 0.3
	f.done(b, f.take(b))


@case('rate')
def limited_group_starts_two_at_once(f):
	a, b = f.put(2, queue='rate')
	f.done([a, b], f.take([a, b]))


# -- the end -----------------------------------------------------------------

@case('lost')
def job_of_a_group_is_gone(f):
	a, b = f.put(2)
	f.done(a, f.take(a))


@case('unfinished')
def job_is_left_in_line(f):
	a, = f.put(1)
	f.state.live[a] = dict(queue='hold', u=f.u[a])


@case('after_end', 'stale_accepted', 'false_refusal')
def finished_job_starts_again(f):
	# nobody can say whose token was good
	a, = f.put(1)
	f.done(a, f.take(a))
	f.act('complete', a, f.take(a, attempt=2), error='JQ001')


@case('effect')
def effect_is_lost(f):
	a, = f.put(1)
	t = f.take(a)
	x = f.begin('w')
	f.complete(a, t, x=x)
	f.end('w', x, 'c')


@case('verify')
def verify_found_a_group_without_ticket(f):
	f.event('verify', when='at the end', rows=['ticket: group 1 has none'])


@case('wrong')
def groups_are_left_with_no_job(f):
	f.event('wrong', e='with no job left there are 2 groups')


@case('error')
def join_that_failed_at_commit(f):
	f.event('commit_refused', s='XX000', e='tuple concurrently updated')
