"""Compares schedule_next() with croniter. Called by run.sh.

The calendar is croniter's: it is asked for wall clock times without a zone, since its own way through a change of the clock is
another than ours. What becomes of a wall clock time in a zone is worked out here, with Python's zoneinfo, as doc/schedules.md says:

	fixed hours    once: at its first occurrence, or, where the clock jumps over it, at the moment of the jump
	hours with *   at every moment at which the wall clock reads so

So every day is compared, those of the changes too.
"""

import argparse
import datetime
import random
import sys
import zoneinfo

import croniter
import psycopg2

DAYS = 400
UTC = datetime.timezone.utc

# Zone, first day. Each range holds what is odd about its zone.
ZONES = [
	("UTC", "2027-06-01"),
	("Europe/Berlin", "2027-06-01"),
	("America/New_York", "2027-06-01"),
	("Asia/Kathmandu", "2027-06-01"),       # 5 h 45 min
	("Australia/Lord_Howe", "2027-06-01"),  # shifts by half an hour
	("Pacific/Chatham", "2027-06-01"),      # 12 h 45 min, shifts at 2:45
	("America/Santiago", "2027-06-01"),     # shifts at midnight
	("Africa/Cairo", "2027-06-01"),         # forward at midnight, back from it
	("Asia/Beirut", "2027-06-01"),          # the same
	("America/St_Johns", "2027-06-01"),     # 3 h 30 min behind
	("Pacific/Apia", "2011-06-01"),         # leaves out 30 December 2011
	("America/Sao_Paulo", "2017-06-01"),    # shifts at midnight, and then no more
]

# Expression, and how croniter writes it where that differs.
FIXED = [
	("30 2 * * *",), ("0 0 * * *",), ("15 0 * * *",), ("59 23 * * *",), ("0 0 1 * *",), ("0 12 L * *", "0 12 l * *"),
	("0 0 1,15 * *",), ("0 3 29 2 *",), ("5 4 31 * *",), ("0 9 * * mon-fri",), ("0 0 13 * fri",), ("30 1-3 * * sun",),
	("0,15,30,45 2 * * *",), ("*/20 0-2 * * *",), ("0 0 * * 7",), ("45 2 * * 0",), ("0 2 * 3,10,11 sun",),
	("0 22-23 l * 1", "0 22-23 l * 1"), ("15 1 * * 5L", "15 1 * * L5"), ("0 1 * JAN,jul Tue",), ("0 6/6 * * *",),
	("@daily",), ("@weekly",), ("@monthly",), ("@yearly",),
]
STARRED = [
	("0 * * * *",), ("30 * * * *",), ("*/30 * * * *",), ("*/5 * 29,30 3,9-12 *",), ("0 */2 * * *",), ("10 */3 1-7 * *",), ("50 * * 3,10 sun",), ("@hourly",),
]


def random_expressions(rng, n):
	def values(lo, hi):
		kind = rng.randrange(4)
		a, b = sorted((rng.randint(lo, hi), rng.randint(lo, hi)))
		if kind == 0:
			return str(a)
		if kind == 1:
			return "%d-%d" % (a, b)
		if kind == 2:
			return "%d-%d/%d" % (a, b, rng.randint(1, 5))
		return ",".join(str(v) for v in sorted({rng.randint(lo, hi) for _ in range(3)}))

	for _ in range(n):
		minute = str(rng.randint(0, 59)) if rng.random() < 0.8 else "*/%d" % rng.choice([20, 25])
		hour = values(0, 23) if rng.random() < 0.8 else rng.choice(["*", "*/5"])
		# no * with a step, nor a range of all days, beside the other kind of day: there we follow cron, croniter does not
		day = values(1, 28) if rng.random() < 0.5 else "*"
		month = values(1, 12) if rng.random() < 0.4 else "*"
		weekday = values(1, 6) if rng.random() < 0.4 else "*"
		yield (" ".join((minute, hour, day, month, weekday)),)


class Zone:
	"""Where the wall clock times of a range lie."""

	def __init__(self, name, first):
		self.name = name
		self.info = zoneinfo.ZoneInfo(name)
		self.first = datetime.datetime.fromisoformat(first)
		self.begin = self.first.replace(tzinfo=UTC)
		self.end = self.begin + datetime.timedelta(days=DAYS)
		self.known = {}

	def wall(self, moment):
		return moment.astimezone(self.info).replace(tzinfo=None)

	def moments(self, wall):
		"""Every moment at which the wall clock reads so, the first one first."""
		found = self.known.get(wall)
		if found is None:
			both = {wall.replace(tzinfo=self.info, fold=fold).astimezone(UTC) for fold in (0, 1)}
			found = self.known[wall] = sorted(m for m in both if self.wall(m) == wall)
		return found

	def jump_over(self, wall):
		"""The moment of the jump that leaves out a wall clock time."""
		lo = wall.replace(tzinfo=UTC) - datetime.timedelta(days=2)
		hi = wall.replace(tzinfo=UTC) + datetime.timedelta(days=2)
		while hi - lo > datetime.timedelta(seconds=1):
			mid = (lo + (hi - lo) / 2).replace(microsecond=0)
			if self.wall(mid) < wall:
				lo = mid
			else:
				hi = mid
		return hi

	def expected(self, walls, starred):
		found = set()
		for wall in walls:
			moments = self.moments(wall)
			if starred:
				found.update(moments)
			else:
				found.add(moments[0] if moments else self.jump_over(wall))
		return sorted(m for m in found if self.begin < m <= self.end)


def wall_times(expression, first):
	"""croniter's wall clock times from two days before the range to two days after it."""
	at = first - datetime.timedelta(days=2)
	end = first + datetime.timedelta(days=DAYS + 2)
	walk = croniter.croniter(expression, at - datetime.timedelta(minutes=1), max_years_between_matches=9)
	found = []
	try:
		while True:
			t = walk.get_next(datetime.datetime)
			if t > end:
				return found
			found.append(t)
	except croniter.CroniterBadDateError:
		return found


def shown(moments):
	return ["%s" % m for m in moments[:5]]


def main():
	parser = argparse.ArgumentParser()
	parser.add_argument("--seed", type=int, default=4)
	parser.add_argument("--random", type=int, default=15)
	options = parser.parse_args()
	rng = random.Random(options.seed)
	expressions = [(e, False) for e in FIXED] + [(e, True) for e in STARRED]
	expressions += [(e, e[0].split()[1][0] == "*") for e in random_expressions(rng, options.random)]

	connection = psycopg2.connect("dbname=postgres")
	connection.autocommit = True
	cursor = connection.cursor()
	cursor.execute("CREATE EXTENSION jobq")
	zones = [Zone(*z) for z in ZONES]
	walls = {}
	passed = failed = instants = 0
	for expression, starred in expressions:
		for zone in zones:
			key = (expression[-1], zone.first)
			if key not in walls:
				walls[key] = wall_times(*key)
			expected = zone.expected(walls[key], starred)
			cursor.execute("SELECT s FROM jobq.schedule_next(%s, %s, %s, 100000) s WHERE s <= %s",
				(expression[0], zone.name, zone.begin, zone.end))
			got = [row[0].astimezone(UTC) for row in cursor]
			instants += len(got)
			if got == expected:
				passed += 1
				continue
			failed += 1
			print("not ok - '%s' in %s: missing %s, too many %s" % (expression[0], zone.name,
				shown(sorted(set(expected) - set(got))), shown(sorted(set(got) - set(expected)))))
	print("seed %d: %d expressions, %d instants" % (options.seed, len(expressions), instants))
	print("%d passed, %d failed" % (passed, failed))
	sys.exit(failed > 0 or passed == 0)


main()
