-- Schedules: when they are due, what is enqueued, what is refused. How missed runs and changes of the clock are dealt with needs
-- another clock: test/t/040_schedules.pl; every day of 400 in many zones: test/cron.

\getenv srcdir PG_ABS_SRCDIR
\set setup :srcdir '/sql/include/common.sql'
\set ECHO none
\i :setup
\set ECHO all
SET datestyle = ISO;
SET timezone = 'UTC';
-- The next times on the zone's wall clock, with the offset from UTC.
CREATE FUNCTION wall(cron text, zone text, after timestamptz, n int DEFAULT 4) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('timezone', zone, true);
	RETURN QUERY SELECT to_char(s, 'Dy YYYY-MM-DD HH24:MI:SS TZH:TZM') FROM jobq.schedule_next(cron, zone, after, n) s;
	PERFORM set_config('timezone', 'UTC', true);
END
$$;

-- Five fields: minute, hour, day of month, month, day of week. The start itself does not count.
SELECT wall('*/20 * * * *', 'UTC', '2026-01-01 00:00');
SELECT wall('5,35 9-10 * * *', 'UTC', '2026-01-01 09:10');
SELECT wall('0 0-23/8 * jan,JUL *', 'UTC', '2026-01-31 10:00', 3);
SELECT wall('10/25 4 * * *', 'UTC', '2026-01-01', 3);
SELECT wall('0 6 * * mon-fri', 'UTC', '2026-01-02 06:00', 2);
SELECT wall('0 6 * * sat-sun', 'UTC', '2026-01-01', 2);
-- 0 and 7 are Sunday
SELECT wall('0 6 * * 0', 'UTC', '2026-01-01', 1);
SELECT wall('0 6 * * 5-7', 'UTC', '2026-01-01', 3);
-- Where both kinds of day are restricted, either one will do; one that begins with * is no restriction of that kind.
SELECT wall('0 0 13 * fri', 'UTC', '2026-01-01', 5);
SELECT wall('0 0 */13 * fri', 'UTC', '2026-01-01', 3);
-- The last day of the month, and its last Friday.
SELECT wall('0 0 L * *', 'UTC', '2027-12-01', 4);
SELECT wall('0 0 15,L 2 *', 'UTC', '2027-12-01', 4);
SELECT wall('0 0 * * 5L', 'UTC', '2026-01-01', 3);
SELECT wall('0 0 * * monL,friL', 'UTC', '2026-01-01', 3);
-- Leap years; a rare day takes no longer.
SELECT wall('0 0 29 2 *', 'UTC', '2095-01-01', 3);
SELECT wall('0 0 29 feb */7', 'UTC', '2026-01-01', 4);
-- Short forms.
SELECT name, wall(name, 'UTC', '2026-01-01 00:00:01', 1)
	FROM unnest('{@hourly,@daily,@midnight,@weekly,@monthly,@yearly,@annually,@Daily}'::text[]) name;
-- By elapsed time: multiples since 1970 in UTC, whatever the zone.
SELECT wall('every 30 seconds', 'Europe/Berlin', '2026-01-01 00:00:10', 2);
SELECT wall('every 5 minutes', 'UTC', '2026-01-01 00:02');
SELECT wall('every 2 hours', 'Europe/Berlin', '2026-10-24 23:00', 3);
SELECT wall('every minute', 'UTC', '2026-01-01 00:00:10', 1);
SELECT wall('every 1 s', 'UTC', '2026-01-01 00:00:10.5', 1);
-- Once.
SELECT wall('at 2027-01-01 10:00', 'Europe/Berlin', '2026-01-01');
SELECT wall('at 2027-01-01T10:00:30Z', 'Europe/Berlin', '2026-01-01');
SELECT wall('at 2027-01-01 10:00+05:30', 'UTC', '2026-01-01');
SELECT wall('at 2027-01-01 10:00', 'UTC', '2027-01-01 10:00');

-- Changes of the clock. Fixed hours: once for each day, at the moment of the jump where the time is left out, and the first time
-- where it comes twice.
SELECT wall('30 2 * * *', 'Europe/Berlin', '2026-03-28 00:00', 3);
SELECT wall('30 2 * * *', 'Europe/Berlin', '2026-10-24 00:00', 3);
SELECT wall('0,30 2 * * *', 'Europe/Berlin', '2026-03-28 12:00', 3);
SELECT wall('0 3 * * *', 'Europe/Berlin', '2026-03-28 12:00', 2);
SELECT wall('at 2026-03-29 02:10', 'Europe/Berlin', '2026-03-01');
SELECT wall('at 2026-10-25 02:10', 'Europe/Berlin', '2026-03-01');
-- started between the two 02:30: nothing is made up for
SELECT wall('30 2 * * *', 'Europe/Berlin', '2026-10-25 02:45+02', 1);
-- Hours with *: at every moment at which the clock reads so.
SELECT wall('30 * * * *', 'Europe/Berlin', '2026-03-29 01:00+01', 2);
SELECT wall('30 * * * *', 'Europe/Berlin', '2026-10-25 02:00+02', 3);
SELECT wall('0 */2 * * *', 'Europe/Berlin', '2026-10-25 01:00+02', 3);
-- Half an hour; midnight; a day that is left out; the last day of a month that has 25 hours.
SELECT wall('15 2 * * *', 'Australia/Lord_Howe', '2026-10-03 00:00+00', 2);
SELECT wall('45 1 * * *', 'Australia/Lord_Howe', '2026-04-03 20:00+00', 2);
SELECT wall('0 0 * * *', 'America/Santiago', '2026-09-05 12:00+00', 2);
SELECT wall('0 12 * * *', 'Pacific/Apia', '2011-12-29 12:00+00', 3);
SELECT wall('30 2 L 10 *', 'Europe/Berlin', '2027-10-01', 1);

-- Many at once.
SELECT count(*), min(s), max(s) FROM jobq.schedule_next('* * * * *', 'UTC', '2026-01-01', 10000) s;

-- What is refused, and why.
\pset format unaligned
SELECT cron, outcome(format('SELECT jobq.schedule_next(%L)', cron)) FROM unnest(ARRAY[
	'60 * * * *', '* 24 * * *', '* * 0 * *', '* * 32 * *', '* * * 13 *', '* * * * 8', '-1 * * * *', '1.5 * * * *', '99999999999 * * * *',
	'* * * foo *', '* * * * monday', '* * * * L', 'L * * * *', '* * L-3 * *', '* * ? * *', '* * * * 5#2', '* * * * 1-5L',
	'30-10 * * * *', '* * * * fri-mon', '*/0 * * * *', '*/90 * * * *', '*/x * * * *', '1- * * * *', '1,,2 * * * *', ', * * * *',
	'** * * * *', '0 0 31 2 *', '0 0 30,31 feb *', '0 0 31 4,6,9,11 *', '', '   ', '* * * *', '0 * * * * *', '@fortnightly', '@reboot',
	'every', 'every 5', 'every 0 seconds', 'every x minutes', 'every 3 days', 'every 99999999999 s', 'every 400 hours hours',
	'every 9000 hours', 'at', 'at noon', 'at 2027-02-30 10:00', 'at 2027-01-01', 'at 2027-01-01 24:00', 'at 2027-01-01 10:00 CET']) cron;
\pset format aligned
SELECT outcome($$SELECT jobq.schedule_next(NULL)$$);
SELECT outcome($$SELECT jobq.schedule_next('@daily', 'Mars/Base')$$);
SELECT outcome($$SELECT jobq.schedule_next('@daily', n => 0)$$);
SELECT outcome($$SELECT jobq.schedule_next('@daily', after => 'infinity')$$);
SELECT left(outcome(format('SELECT jobq.schedule_next(%L)', repeat('1', 2000))), 60);

-- A schedule enqueues to a queue. It answers when it is due first.
SELECT jobq.create_queue('reports');
SELECT jobq.schedule('nightly', '30 2 * * *', 'reports', '{"kind": "all"}', 'europe/berlin', job_name => 'report')
	= min(s) FROM jobq.schedule_next('30 2 * * *', 'Europe/Berlin', n => 1) s;
SELECT name, queue, cron, timezone, state, next_run IS NOT NULL AS planned, last_run, last_job_id, last_outcome, last_error, missed, overlap, job_name,
	priority, max_attempts, payload, owner = current_user AS mine FROM jobq.schedules;
-- The same name again: other settings.
SELECT jobq.schedule('nightly', '@hourly', 'reports', missed => 'last', overlap => 'skip', priority => 5, max_attempts => 1) IS NOT NULL;
SELECT name, cron, timezone, missed, overlap, job_name, priority, max_attempts, payload FROM jobq.schedules;
-- Switched off, it keeps its settings.
SELECT jobq.schedule('nightly', '@hourly', 'reports', enabled => false);
SELECT name, state, next_run FROM jobq.schedules;

-- Its jobs carry the schedule's name and the instant that they are for.
SELECT jobq.schedule('tick', 'every 1 second', 'reports', '{"n": 1}', job_name => 'tick', max_attempts => 7) IS NOT NULL;
CALL becomes_true($$SELECT count(*) >= 2 FROM jobq.schedule_runs WHERE schedule = 'tick'$$);
SELECT jobq.schedule('tick', 'every 1 second', 'reports', enabled => false);
SELECT j.name, j.payload, j.max_attempts, j.headers ->> 'schedule' AS schedule, (j.headers ->> 'scheduled_for')::timestamptz = r.instant AS its_instant,
	r.outcome, r.detail, r.at BETWEEN r.instant AND r.instant + interval '10 s' AS in_time
	FROM jobq.schedule_runs r CROSS JOIN LATERAL jobq.job(r.job_id) j ORDER BY r.instant LIMIT 2;
SELECT last_outcome, last_job_id = (SELECT max(job_id) FROM jobq.schedule_runs) AS last FROM jobq.schedules WHERE name = 'tick';

-- Once. The job stays when the schedule goes.
SELECT jobq.schedule('once', format('at %s', to_char(clock_timestamp() + interval '3 s', 'YYYY-MM-DD HH24:MI:SS')), 'reports') IS NOT NULL;
CALL becomes_true($$SELECT state = 'finished' FROM jobq.schedules WHERE name = 'once'$$);
SELECT state, next_run, last_outcome FROM jobq.schedules WHERE name = 'once';
-- written again as it is, it stays finished
SELECT jobq.schedule('once', (SELECT cron FROM jobq.schedules WHERE name = 'once'), 'reports');
SELECT state FROM jobq.schedules WHERE name = 'once';
SELECT jobq.unschedule('once'), jobq.unschedule('once');
SELECT count(*) FROM jobq.jobs WHERE queue = 'reports' AND (SELECT headers ->> 'schedule' FROM jobq.job(job_id)) = 'once';

-- Overlap: while the job of the run before waits or runs, there is no other.
SELECT jobq.create_queue('slow');
SELECT jobq.schedule('slowly', 'every 1 second', 'slow', overlap => 'skip') IS NOT NULL;
CALL becomes_true($$SELECT count(*) >= 2 FROM jobq.schedule_runs WHERE schedule = 'slowly' AND outcome = 'skipped'$$);
SELECT count(*) FROM jobq.jobs WHERE queue = 'slow';
SELECT outcome, job_id IS NOT NULL AS job, regexp_replace(detail, '\d+', 'N') AS detail
	FROM jobq.schedule_runs WHERE schedule = 'slowly' ORDER BY instant LIMIT 2;
SELECT jobq.complete(job_id, token) FROM jobq.dequeue('slow');
CALL becomes_true($$SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'slow' AND state = 'ready'$$);
SELECT jobq.unschedule('slowly');

-- The queue may be paused: jobs wait. It may be renamed. It cannot be dropped while schedules enqueue to it, but with them.
SELECT jobq.rename_queue('slow', 'slower');
SELECT jobq.pause_queue('slower');
SELECT jobq.schedule('slowly', 'every 1 second', 'slower') IS NOT NULL;
SELECT jobq.rename_queue('slower', 'slow');
CALL becomes_true($$SELECT count(*) >= 1 FROM jobq.schedule_runs WHERE schedule = 'slowly' AND outcome = 'enqueued'$$);
SELECT queue, last_error FROM jobq.schedules WHERE name = 'slowly';
SELECT outcome($$SELECT jobq.drop_queue('slow')$$);
SELECT jobq.drop_queue('slow', force => true);
SELECT count(*) FROM jobq.schedules WHERE name = 'slowly';
SELECT count(*) FROM jobq.schedule_runs WHERE schedule = 'slowly';

-- One that cannot enqueue says why, and tries again at its next time; others are not held up.
SELECT jobq.schedule('fat', 'every 1 second', 'reports', jsonb_build_object('text', repeat('x', 1000))) IS NOT NULL;
SELECT jobq.alter_queue('reports', max_payload_bytes => 500);
CALL becomes_true($$SELECT last_outcome = 'failed' FROM jobq.schedules WHERE name = 'fat'$$);
SELECT state, last_outcome, last_error FROM jobq.schedules WHERE name = 'fat';
SELECT DISTINCT outcome, detail, job_id FROM jobq.schedule_runs WHERE schedule = 'fat' AND outcome = 'failed';
SELECT jobq.alter_queue('reports', max_payload_bytes => 5000);
CALL becomes_true($$SELECT last_outcome = 'enqueued' AND last_error IS NULL FROM jobq.schedules WHERE name = 'fat'$$);
SELECT jobq.unschedule('fat');

-- Refused: arguments.
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'nosuch')$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'reports', timezone => 'Berlin')$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'reports', missed => 'some')$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'reports', overlap => 'never')$$);
SELECT outcome($$SELECT jobq.schedule('s', 'daily', 'reports')$$);
SELECT outcome($$SELECT jobq.schedule('s', 'at 2020-01-01 10:00', 'reports')$$);
SELECT outcome($$SELECT jobq.schedule('', '@daily', 'reports')$$);
SELECT outcome($$SELECT jobq.schedule(repeat('x', 257), '@daily', 'reports')$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'reports', job_name => repeat('x', 257))$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'reports', priority => 40000)$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'reports', max_attempts => 0)$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'reports', jsonb_build_object('x', repeat('x', 10000)))$$);
SELECT outcome($$SELECT jobq.schedule(NULL, '@daily', 'reports')$$);
SELECT outcome($$SELECT jobq.schedule('s', NULL, 'reports')$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', NULL)$$);
SELECT outcome($$SELECT jobq.schedule('s', '@daily', 'reports', NULL)$$);
SELECT outcome($$SELECT jobq.unschedule(NULL)$$);
-- Nulls elsewhere mean the default; names may be anything else.
SELECT jobq.schedule('Odd "name", with '' and ü', '@daily', 'reports', timezone => NULL, missed => NULL, overlap => NULL) IS NOT NULL;
SELECT name, timezone, missed, overlap FROM jobq.schedules WHERE name LIKE 'Odd%';
SELECT jobq.unschedule('Odd "name", with '' and ü');

-- A rollback leaves nothing.
BEGIN;
SELECT jobq.schedule('rolled back', 'every 1 second', 'reports') IS NOT NULL;
ROLLBACK;
SELECT count(*) FROM jobq.schedules WHERE name = 'rolled back';

SELECT * FROM jobq.verify();
