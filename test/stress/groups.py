"""The stress test of ordered groups: as stress.py, with many groups by Zipf's law, workers that are stopped past their leases and go on
as zombies, batches, acts out of order, paused, blocked and draining groups. The oracle replays every group.

	--seconds 30         how long things go wrong; --pace jobs are put in each second
	--groups-count 300   keys
	--workers 8 --producers 3 --crashes N
"""
import argparse
import os
import random
import signal
import sys
import time

from groups_clients import BLOCK, GROUP_QUEUES, HOLD, PASS, RATE, GroupAdmin, GroupDrainer, GroupProducer, GroupWorker, key_name
from groups_oracle import GroupOracle, GroupState
from journal import Journals
from stress import Gone, Run, report

COMMON = "max_attempts => 3, lease => '2 s', group_lease => '2 s', backoff => 'fixed', backoff_base => '100 ms'"
QUEUES = {
	HOLD: COMMON + ", on_retry => 'hold', on_dead => 'skip', isolate_above => 30",
	PASS: COMMON + ", on_retry => 'pass', on_dead => 'skip'",
	BLOCK: COMMON + ", on_retry => 'hold', on_dead => 'block'",
	RATE: COMMON + ", on_retry => 'hold', on_dead => 'skip', group_rate_limit => 10, group_rate_interval => '500 ms'",
}


class GroupRun(Run):
	kinds = GroupProducer, GroupWorker, GroupAdmin

	def __init__(self, args):
		super().__init__(args)
		self.control.keys = args.groups_count
		self.control.backlog = args.backlog
		self.stopped = {}		# worker's process -> when it goes on
		self.next_stop = 0

	def setup(self):
		self.connect()
		self.sql("""CREATE EXTENSION jobq;
			CREATE SCHEMA stress;
			CREATE TABLE stress.tx (id text PRIMARY KEY);
			CREATE TABLE stress.effect (job_id bigint NOT NULL, token bigint NOT NULL, tx text NOT NULL);
			CREATE TABLE stress.taken (job_id bigint NOT NULL, token bigint NOT NULL)""")
		if not self.args.rescan:
			self.sql('ALTER SYSTEM SET jobq.rescan_interval = 0')
			self.sql('SELECT pg_reload_conf()')
		for queue in GROUP_QUEUES:
			self.sql('SELECT jobq.create_queue(%%s, %s)' % QUEUES[queue], (queue,))
		for i in range(3):
			self.sql('SELECT jobq.alter_group(%s, %s, weight => 3)', (HOLD, key_name(i)))

	# -- zombies ---------------------------------------------------------

	def more_harm(self, now):
		for p, until in list(self.stopped.items()):
			if now > until:
				self.go_on(p)
		if now > self.next_stop:
			self.next_stop = now + self.rng.choice((0.3, 0.6, 1.0)) * 8 / self.args.workers
			workers = [p for (kind, _), p in self.procs.items() if kind is GroupWorker and p.is_alive() and p not in self.stopped]
			if len(workers) > self.args.workers / 2:
				p = self.rng.choice(workers)
				os.kill(p.pid, signal.SIGSTOP)
				self.stopped[p] = now + self.rng.choice((0.5, 2.5, 3.5))
				self.harm['workers stopped and continued'] += 1

	def go_on(self, p):
		del self.stopped[p]
		if p.is_alive():
			os.kill(p.pid, signal.SIGCONT)

	def stop_clients(self, limit):
		for p in list(self.stopped):
			self.go_on(p)
		super().stop_clients(limit)

	# -- the end ---------------------------------------------------------

	TRUE_COUNTS = """SELECT q.name,
		(SELECT count(*) FROM jobq.ready r WHERE r.queue_id = q.id AND r.group_id IS NULL)
			+ (SELECT count(*) FROM jobq.line l JOIN jobq.job j ON j.id = l.job_id WHERE j.queue_id = q.id),
		(SELECT count(*) FROM jobq.delayed r WHERE r.queue_id = q.id AND coalesce(r.group_id, 0) = 0),
		(SELECT count(*) FROM jobq.lease l, unnest(l.job_ids) i JOIN jobq.job j ON j.id = i WHERE l.queue_id = q.id),
		(SELECT count(*) FROM jobq.dead d WHERE d.queue_id = q.id)
		FROM jobq.queue q ORDER BY 1"""

	def told(self, verb, sql, args):
		"""A verb of the orchestrator's own, journalled like a client's."""
		j = self.journal
		j.calls += 1
		j.xacts += 1
		n = j.calls
		j.write('call', x=j.xacts, c=n, v=verb, a=args, auto=1)
		rows = self.sql(*sql)
		j.write('ret', c=n, r=rows[0][0] or None)

	def calm(self):
		self.verify('after the storm')
		self.check_gauges('after the storm')
		self.harm['groups blocked after the storm'] = self.unblock_all()
		for queue, key in self.sql('SELECT q.name, s.group_key FROM jobq.group_setting s JOIN jobq.queue q ON q.id = s.queue_id WHERE s.paused'):
			self.told('resume_group', ('SELECT jobq.resume_group(%s, %s)', (queue, key)), dict(q=queue, g=key))
		far = [r[0] for r in self.sql("""SELECT job_id FROM jobq.delayed WHERE visible_at > clock_timestamp() + interval '2 s'
			AND coalesce(group_id, 0) = 0""")]
		if far:
			self.told('run_now', ('SELECT jobq.run_now(%s::bigint[])', (far,)), dict(js=far))
		for i in range(2):
			self.start(GroupDrainer, i)
		self.drain()
		self.stop_clients(40)
		self.verify('at the end')
		self.check_gauges('at the end')
		left = self.sql("""SELECT (SELECT count(*) FROM jobq.job_group), (SELECT count(*) FROM jobq.line), (SELECT count(*) FROM jobq.held),
			(SELECT count(*) FROM jobq.ready), (SELECT count(*) FROM jobq.delayed), (SELECT count(*) FROM jobq.lease)""")[0]
		if any(left):
			self.journal.write('wrong', e='with no job left there are %d groups, %d rows in line, %d held, %d ready, %d delayed, %d leases' % left)

	def unblock_all(self):
		"""Leases that end by themselves may block a group yet, so drain() comes here again."""
		rows = self.sql("""SELECT q.name, g.group_key, h.dead_job FROM jobq.held h JOIN jobq.job_group g ON g.id = h.group_id
			JOIN jobq.queue q ON q.id = h.queue_id WHERE h.dead_job IS NOT NULL""")
		for i, (queue, key, dead) in enumerate(rows):
			head = ('skip', 'retry')[i % 2]
			self.told('unblock', ('SELECT jobq.unblock_group(%s, %s, %s)', (queue, key, head)), dict(q=queue, g=key, head=head, j=dead))
		return len(rows)

	def tend(self):
		super().tend()
		if any(kind is GroupDrainer for kind, _ in self.procs):
			self.unblock_all()

	def check_coverage(self, counts):
		"""A run of some length in which these never happened has shown nothing."""
		if self.args.seconds < 20:
			return
		for what in ('  of several jobs', 'refused out of order', 'groups blocked', 'complete no', 'fail no', 'extend no'):
			if not counts[what]:
				self.journal.write('note', e='never happened: ' + what)
				yield what

	def state(self):
		base = super().state()
		s = GroupState()
		s.__dict__.update(base.__dict__)
		s.keep, s.route, s.purged = set(GROUP_QUEUES), {}, set()
		s.max_attempts = dict.fromkeys(GROUP_QUEUES, 3)
		s.passing, s.blocking, s.gap = {PASS}, {BLOCK}, {RATE: 0.05}
		s.backoff = dict.fromkeys(GROUP_QUEUES, 0.1)
		s.lease = dict.fromkeys(GROUP_QUEUES, 2.0)
		s.commit_ts = dict(self.sql('SELECT id, (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint FROM stress.tx'))
		s.group_of = dict(self.sql('SELECT id, group_key FROM jobq.history UNION ALL SELECT id, group_key FROM jobq.dead'))
		died = dict(self.sql('SELECT id, extract(epoch FROM died)::float8 FROM jobq.dead'))
		wall = time.time() - time.monotonic()
		for row in s.dead:
			row['died'] = died[row['id']] - wall
		return s

	def run(self):
		self.began = time.monotonic()
		try:
			self.setup()
			start = time.monotonic()
			self.storm()
			storm = time.monotonic() - start
			self.calm()
			calm = time.monotonic() - start - storm
			self.read_log()
			state = self.state()
		finally:
			for p in self.procs.values():
				p.kill()
		oracle = GroupOracle(Journals(self.args.journal), state)
		violations = oracle.check()
		self.harm.update({k.strip(): oracle.counts[k] for k in ('leases of groups', '  of several jobs', 'refused out of order', 'groups blocked')})
		report(oracle, violations, self.harm, 'storm %.1f s, calm %.1f s, oracle %.1f s' % (storm, calm,
			time.monotonic() - start - storm - calm))
		missing = list(self.check_coverage(oracle.counts))
		if missing:
			print('not tested, for it never happened: ' + ', '.join(missing))
		return not violations and not missing


def main():
	p = argparse.ArgumentParser(prog='test/stress/run.sh --groups')
	p.add_argument('--groups', action='store_true', help=argparse.SUPPRESS)
	p.add_argument('--seed', type=int)
	p.add_argument('--seconds', type=float, default=30)
	p.add_argument('--groups-count', type=int, default=300)
	p.add_argument('--workers', type=int, default=8)
	p.add_argument('--producers', type=int, default=3)
	p.add_argument('--pace', type=float, default=200, help='jobs per second that are put in, on the average')
	p.add_argument('--backlog', type=int, default=1500, help='producers wait for the workers above this')
	p.add_argument('--crashes', type=int, help='kill -9 of server processes; one for every 20 seconds')
	p.add_argument('--scheduler-harm', choices=('auto', 'on', 'off'), default='auto', help='terminate jobq processes; auto: one seed in three')
	p.add_argument('--rescan', choices=('auto', 'on', 'off'), default='auto', help='off: without the scan for forgotten tickets; auto: off for one seed in four')
	p.add_argument('--journal', required=True, help=argparse.SUPPRESS)
	p.add_argument('--log', required=True, help=argparse.SUPPRESS)
	args = p.parse_args()
	if args.seed is None:
		args.seed = random.SystemRandom().randrange(1 << 31)
	if args.crashes is None:
		args.crashes = round(args.seconds / 20)
	args.jobs = int(args.pace * args.seconds)
	args.hammer = 0
	args.scheduler_harm = args.scheduler_harm == 'on' or args.scheduler_harm == 'auto' and args.seed % 3 == 0
	args.rescan = args.rescan == 'on' or args.rescan == 'auto' and args.seed % 4 != 1
	print('stress of groups: seed %d, %d jobs in %d keys and %d queues, %d workers, %d producers, %d server crashes%s%s' % (args.seed, args.jobs,
		args.groups_count, len(GROUP_QUEUES), args.workers, args.producers, args.crashes, ', jobq processes terminated' if args.scheduler_harm else '',
		'' if args.rescan else ', no rescan'), flush=True)
	sys.exit(0 if GroupRun(args).run() else 1)


if __name__ == '__main__':
	main()
