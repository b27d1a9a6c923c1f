"""Works on the jobs of a queue until it gets SIGTERM: worker.py QUEUE. The server is the one of PGHOST, PGDATABASE and so on."""

import signal
import sys

import psycopg
from psycopg.types.json import Jsonb

stopping = False


def stop(*_):
	global stopping
	stopping = True


def handle(conn, payload):
	"""The job itself: what it writes to this database is done when the job is, exactly once."""
	conn.execute("INSERT INTO mail_sent (address) VALUES (%s)", (payload["to"],))
	return {"sent": payload["to"]}


def run(conn, job_id, token, payload):
	try:
		with conn.transaction():
			result = handle(conn, payload)
			conn.execute("SELECT jobq.complete(%s, %s, %s)", (job_id, token, Jsonb(result)))
	except Exception as e:
		if conn.broken:
			raise
		# All is rolled back. When the lease was lost (SQLSTATE JQ001) somebody else has the job, and this says "lost".
		status = conn.execute("SELECT status FROM jobq.fail_many(%s, %s, %s)", ([job_id], [token], repr(e))).fetchone()[0]
		print(f"job {job_id}: {status}: {e!r}", file=sys.stderr)


def main(queue):
	signal.signal(signal.SIGTERM, stop)
	# Each verb is a transaction of its own; no prepared statements, for poolers.
	with psycopg.connect(autocommit=True, prepare_threshold=None) as conn:
		while not stopping:
			job = conn.execute("SELECT job_id, token, payload FROM jobq.dequeue(%s, worker => 'python')", (queue,)).fetchone()
			if job:
				run(conn, *job)
			else:
				conn.execute("CALL jobq.wait(%s, '2 s')", (queue,))


main(sys.argv[1])
