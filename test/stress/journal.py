"""Journals: what each client was about to do and what it was told.

One file per process, one JSON object per line, written with one write() before and one after each call, so that a client
killed with -9 leaves all it knew. The reader turns the files into transactions and calls with a fate:

	c  committed, and the client was told so
	r  rolled back, for certain
	u  unknown: the connection or the client was lost where either may have happened
	p  prepared; what became of it is for the marker row to say

A transaction that wrote a marker row (its id into stress.tx) is always settled by looking for that row.

Lines, by "k":
	start	role, wall: clock of this machine minus the monotonic clock that "t" is taken from
	begin	x: transaction, m: 1 if it writes a marker
	call	x, c: number of the call, v: verb, a: arguments; auto: 1 if it is a transaction of its own
	ret 	c, r: the answer
	err 	c, s: SQLSTATE (null: connection lost), e: message
	undo	x, c: calls of the transaction from this number on are being rolled back to a savepoint
	fin 	x, how: commit, rollback or prepare is being sent
	end 	x, f: fate
	conn	a new session begins here
	other kinds are the orchestrator's (crash, kill, verify, ...)
"""
import json
import os
import time

INF = float('inf')


class Journal:
	"""Writes one file. Nothing is buffered."""

	def __init__(self, path, role, clock=time.monotonic, wall=None):
		self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
		self.clock = clock
		self.calls = 0
		self.xacts = 0
		self.write('start', role=role, pid=os.getpid(), wall=time.time() - time.monotonic() if wall is None else wall)

	def write(self, kind, **fields):
		fields['k'] = kind
		fields.setdefault('t', round(self.clock(), 6))
		os.write(self.fd, (json.dumps(fields, separators=(',', ':')) + '\n').encode())

	def close(self):
		os.close(self.fd)


class Call:
	"""One call of a verb. t0..t1 holds the moment it ran; t1 is infinite when the client never heard back."""
	__slots__ = ('client', 'n', 'verb', 'args', 't0', 't1', 'result', 'error', 'message', 'answered', 'undone', 'xact')

	def __init__(self, client, n, verb, args, t0, xact):
		self.client, self.n, self.verb, self.args, self.t0, self.xact = client, n, verb, args, t0, xact
		self.t1 = INF
		self.result = None
		self.error = None		# SQLSTATE, or 'lost' when the connection died
		self.message = None
		self.answered = False	# a result came
		self.undone = None		# when the roll-back to the savepoint was sent

	@property
	def fate(self):
		return 'r' if self.undone is not None else self.xact.fate

	@property
	def end(self):
		"""By when the call's effect, if any, had happened."""
		return max(self.xact.t1, self.t1)

	def __repr__(self):
		return '%s#%d %s' % (self.client, self.n, self.verb)


class Xact:
	__slots__ = ('client', 'key', 'marker', 'calls', 'fin', 't0', 't1', 'how', 'fate', 'acked')

	def __init__(self, client, n, t0, marker):
		self.client = client
		self.key = '%s.%s' % (client, n)	# as in stress.tx
		self.marker = marker
		self.calls = []
		self.t0 = t0
		self.fin = None		# when commit or rollback was sent
		self.t1 = INF		# when its end was known
		self.how = None
		self.fate = None
		self.acked = False	# the client was told that it committed


class Journals:
	"""All files of a directory, read back."""

	def __init__(self, directory):
		self.xacts = []
		self.events = []	# of the orchestrator, (client, dict)
		self.wall = None
		for name in sorted(os.listdir(directory)):
			if name.endswith('.jsonl'):
				self._read(os.path.join(directory, name), name[:-len('.jsonl')])
		self.calls = [c for x in self.xacts for c in x.calls]

	@staticmethod
	def lines(path):
		with open(path, encoding='utf-8') as f:
			for line in f:
				try:
					yield json.loads(line)
				except ValueError:
					if line.endswith('\n'):
						raise		# only the last line of a killed client may be cut
					return

	def _read(self, path, client):
		xacts, calls = {}, {}
		for e in self.lines(path):
			kind = e['k']
			if kind == 'start':
				if self.wall is None:
					self.wall = e['wall']
			elif kind == 'begin':
				xacts[e['x']] = Xact(client, e['x'], e['t'], bool(e.get('m')))
			elif kind == 'call':
				x = xacts.get(e['x'])
				if x is None:
					x = xacts[e['x']] = Xact(client, e['x'], e['t'], False)
				if e.get('auto'):
					x.how, x.fin = 'auto', e['t']
				c = calls[e['c']] = Call(client, e['c'], e['v'], e['a'], e['t'], x)
				x.calls.append(c)
			elif kind in ('ret', 'err'):
				c = calls[e['c']]
				c.t1 = e['t']
				if kind == 'ret':
					c.result, c.answered = e['r'], True
				else:
					c.error, c.message = e['s'] or 'lost', e.get('e')
				if c.xact.how == 'auto':
					c.xact.t1 = e['t'] if c.error != 'lost' else INF
					c.xact.fate = 'c' if kind == 'ret' else 'u' if c.error == 'lost' else 'r'
					c.xact.acked = kind == 'ret'
			elif kind == 'undo':
				for c in xacts[e['x']].calls:
					if c.n >= e['c'] and c.undone is None:
						c.undone = e['t']
			elif kind == 'fin':
				xacts[e['x']].how, xacts[e['x']].fin = e['how'], e['t']
			elif kind == 'gone':
				# the session had ended before, at any time since its last call was sent: the answer may have waited for the client
				x = xacts[e['x']]
				x.fin = x.calls[-1].t0 if x.calls else x.t0
			elif kind == 'end':
				x = xacts[e['x']]
				x.fate = e['f']
				x.acked = e['f'] == 'c'
				x.t1 = e['t'] if e['f'] in 'cr' else INF
			else:
				self.events.append((client, e))
		for x in xacts.values():
			if x.fate is None:
				# The client died. Without a commit on its way the server rolls back.
				x.fate = 'u' if x.how in ('auto', 'commit', 'prepare') else 'r'
			self.xacts.append(x)

	def settle(self, markers):
		"""Replaces unknown fates by what the marker rows say. Yields (xact, text) where a marker contradicts the client."""
		crashes = sorted(e['t1'] for e in self.events_of('crash') if 't1' in e)
		for x in self.xacts:
			# whatever became of it, a transaction does not outlive the server
			x.t1 = min([x.t1] + [t1 for t1 in crashes if t1 > x.t0])
			if not x.marker:
				continue
			there = x.key in markers
			if x.fate in 'up':
				x.fate = 'c' if there else 'r'
			elif there and x.fate == 'r':
				yield x, 'rolled back, but its marker row is there'
			elif not there and x.fate == 'c':
				yield x, 'committed and acknowledged, but its marker row is gone'

	def events_of(self, kind):
		return [e for _, e in self.events if e['k'] == kind]
