-- What each function takes, gives and refuses. Every one may also fail with 55000 (library not preloaded, versions differ),
-- 42501 (no right) and, where it writes, 25006 (read-only transaction, standby).

-- producers
COMMENT ON FUNCTION jobq.enqueue IS
'Adds a job to queue and returns its id. It can be taken once the transaction has committed. payload: up to the queue''s max_payload_bytes; name, up to 256 bytes: for views and handlers; priority -32768 .. 32767, smaller first, NULL = 1000; delay (0 .. 100 years) or run_at: not before, a past time means now; max_attempts NULL = the queue''s; timeout: longest run of an attempt, however often it is extended, NULL = the queue''s; headers: a JSON object; group_key, 1 .. 256 bytes: the job runs in the order of commits among those of the same key, one at a time; a delayed one joins them when it is due. unique_key, 1 .. 256 bytes: no job is added while one of the queue has that key; waits for a transaction that is about to commit one. on_conflict: keep, return that job''s id; replace, also give it this content and start if it still waits; error. unique_until: finished, or started: the key is free from that job''s first start on, and a duplicate keeps it from starting until its own transaction has ended. unique_for (1 ms .. 100 years): the key is taken so long in any case. expires_in (1 ms .. 100 years): a job that still waits then is expired. after: ids of up to 1000000 jobs; it is pending until they have completed, in any order; those that have, or are no longer known, count as done. after_dead: what happens when one of them ends otherwise (dead, cancelled, expired, deleted): wait, it stays pending, a redriven one may still complete; cancel, it is cancelled, too; run, that one counts as done. batch: id of a batch, which waits for this job, too; see open_batch. Errors: 42704 no such queue or batch; 22023 bad argument, both delay and run_at, a job in after that never was, a member that waits for its own batch, after or batch with replace; 22004 NULL queue or payload; JQ004 payload or headers too large; 42710 the unique key is taken, with on_conflict error; 42501 also for a job in after of a queue on which the current user has no right; 55000 the batch waits for no members any more. With after or batch 0A000 at PREPARE TRANSACTION.';
COMMENT ON FUNCTION jobq.enqueue_many IS
'Adds one job per element of payloads, a JSON array of up to 1000000, in its order; returns ord (from 1), job_id and status per element: inserted; duplicate or replaced, with the id of the job that has its unique key (the first of two alike here); or why it was left out (payload_too_large, payload_too_deep, headers_too_large, headers_not_object). headers: NULL or a JSON array of the same length; group_keys: NULL or one key per element, NULL for a job without a group; unique_keys: the same; after, after_dead, batch and the rest as in enqueue, for all jobs alike. Errors: as enqueue, but for JQ004; 22023 also for no array or arrays of different length.';

COMMENT ON FUNCTION jobq.open_batch IS
'Adds a job that waits until its batch is closed and all members of it have completed, and returns its id, which is the batch''s. Members are jobs enqueued with it as batch, in any queue; a member may add more. Arguments and errors as for enqueue; after_dead: what happens when a member does not complete: wait, cancel or run.';
COMMENT ON FUNCTION jobq.close_batch IS
'Closes a batch: from now on only its members may add members, and its own job starts when all of them have completed; at once when there are none left. True: closed now; false: it was closed before, or is over. Errors: 42704 no such batch, or no right to enqueue to its queue; 22004 NULL batch.';

-- workers
COMMENT ON FUNCTION jobq.dequeue IS
'Takes up to max_jobs (1 .. 10000) jobs that are ready or due, smaller priority first, and leases them. lease: time to finish or extend, 1 ms .. 30 days, NULL = the queue''s; worker: a name for the views, up to 256 bytes; wait: how long to wait for a job when there is none, up to 24 hours; group_batch: 1 .. 64 jobs of a group that has its turn, under one token, to be finished in the order of the rows. Each row carries the token that complete, fail, release and extend ask for; attempt: number of the attempt that starts; lease_until: its end; deadline: what no extend can pass, NULL = none. Rolled back, it gives the jobs back uncounted; the third roll-back of a job in a row counts as an attempt. Errors: 42704 no such queue; 22004 NULL queue; 22023 bad argument; 0A000 not READ COMMITTED; 55000 jobq.enabled is off, or the database is a copy that was not adopted.';
COMMENT ON FUNCTION jobq.complete IS
'Ends the job as completed and keeps result in its history. True: done now; false: it was already completed with this token. In one transaction with the job''s own writes its effects happen exactly once. Errors: JQ001 the lease was lost or the token is not the job''s, nothing changed; JQ004 result too large; JQ002 an earlier job of its group is not finished; 22004 NULL job_id.';
COMMENT ON FUNCTION jobq.ack IS
'The same as complete without a result.';
COMMENT ON FUNCTION jobq.fail IS
'Ends the attempt as failed. error: kept, cut to 8192 bytes; retry_in: time until the next attempt, NULL = by the queue''s backoff; retry false: no further attempt. Returns retry; dead when no attempt is left or wanted (a dead letter, or a new job in the queue''s dead_letter_queue); blocked, when its group waits for it then; cancelled when somebody had asked for the job''s end. In a group, the jobs taken with it go back uncounted. Errors: JQ001, JQ002 as in complete; 22004 NULL job_id; 22023 bad retry_in.';
COMMENT ON FUNCTION jobq.nack IS
'The same as fail with retry_in 0: the job can be taken again at once, the attempt counts.';
COMMENT ON FUNCTION jobq.release IS
'Gives the job back without counting the attempt; it can be taken again after delay. A job whose end somebody had asked for ends as cancelled. In a group, the jobs taken with it go back too, and the group waits for the delay. Errors: JQ001, JQ002 as in complete; 22004 NULL job_id; 22023 bad delay.';
COMMENT ON FUNCTION jobq.extend IS
'Moves the end of the lease to lease from now (1 ms .. 30 days, NULL = the queue''s), but never back and not past the deadline. Jobs that one dequeue took together are extended together. Returns ok; cancel when somebody asked for the job''s end; drain when the worker is to let go of the group. Never waits. Errors: JQ001 as in complete; 22004 NULL job_id; 22023 bad lease.';
COMMENT ON FUNCTION jobq.complete_many IS
'complete for each pair of job_ids and tokens; results: NULL or a JSON array of the same length. Returns per job, in the order given, ok, already, lost, out_of_order or result_too_large (it stays active); none of these hinders the others. Jobs are locked in the order of their ids. Errors: 22023 arrays of different length; 22004 NULL job id.';
COMMENT ON FUNCTION jobq.fail_many IS
'fail for each pair of job_ids and tokens, with one error and one retry_in for all. Returns per job retry, dead, blocked, cancelled, lost or out_of_order, and ok for those of a group that go back with one before them; a lost job does not hinder the others. Errors: 22023 arrays of different length, bad retry_in; 22004 NULL job id.';
COMMENT ON FUNCTION jobq.release_many IS
'release for each pair of job_ids and tokens. Returns per job ok, cancelled, lost or out_of_order; a lost job does not hinder the others. Errors: 22023 arrays of different length, bad delay; 22004 NULL job id.';
COMMENT ON FUNCTION jobq.extend_many IS
'extend for each pair of job_ids and tokens. Returns per job ok, cancel, drain or lost; a lost job does not hinder the others. Errors: 22023 arrays of different length, bad lease; 22004 NULL job id.';
COMMENT ON FUNCTION jobq.complete_and_dequeue IS
'complete, then dequeue from queue, in one call: one transaction per job. Returns the rows of dequeue. With job_id and token NULL it only takes; it waits only when it completed nothing. A job that was already completed with this token is no error. Errors: those of complete and of dequeue.';
COMMENT ON FUNCTION jobq.progress IS
'Stores value as the job''s progress, shown by jobs and job() and kept in its history. Errors: JQ001 as in complete; 22004 NULL job_id or value; JQ004 value too large.';
COMMENT ON FUNCTION jobq.assert_lease IS
'Checks the lease and holds it until the transaction ends: nobody can take the job over between the check and the commit. Errors: JQ001 as in complete; 22004 NULL job_id.';
COMMENT ON FUNCTION jobq.fence IS
'Keeps the highest token seen for resource (a name of 1 .. 256 bytes) and refuses lower ones, so that a worker that lost its lease cannot write after its successor; the same token is accepted again. Holds the resource against other callers until the transaction ends. Call it in the transaction that writes the data. Errors: JQ001 a higher token was here; 22004 NULL; 22023 bad name; 40001 under REPEATABLE READ when another transaction moved the fence meanwhile.';
COMMENT ON PROCEDURE jobq.wait IS
'Waits until queue has a job to take, for timeout (up to 24 hours) at most; ready tells whether it has. Holds no snapshot, transaction id or lock while it waits. Errors: 25001 inside a transaction block or a function; 42704 no such queue; 22004 NULL queue; 22023 bad timeout; 55000 as in dequeue.';

-- queues
COMMENT ON FUNCTION jobq.create_queue IS
'Makes a queue. True: made; false: it was there, its settings untouched. name: 1 .. 128 bytes; max_attempts: attempts per job; lease: default time to finish or extend; timeout: longest run of an attempt, NULL = none; backoff: fixed, linear, exponential, exponential_jitter or function; backoff_base, backoff_cap: first and longest wait; backoff_function: f(attempt int, error text) returns interval; keep_completed, keep_dead: how long finished jobs and dead letters are kept, NULL = for ever, 0 = completed ones not at all; dead_letter_queue: where dead letters go as new jobs; max_payload_bytes; notify: NOTIFY to clients that LISTEN. on_retry: hold, a group waits with its failed job, or pass, it goes on; on_dead: block, a group waits for unblock_group(), or skip; group_rate_limit: starts in each group per group_rate_interval, evenly spaced; group_lease: default lease of a group''s jobs, NULL = lease; isolate_above: groups with more jobs in line are served apart. events: which events of its jobs are kept and sent, of waiting, active, completed, failed, retrying, dead, cancelled, expired, deleted, group_blocked, group_unblocked or all; NULL = none; alert_dead: an alarm when there are so many dead letters, or, with alert_dead_interval, when so many jobs died within it. concurrency: jobs that run at a time; rate_limit, rate_interval, rate_burst: starts in an interval, and at once; limit_name: queues of one name share them; ageing: one claim in eight takes from the priority whose next job is the oldest. Errors: 22023 bad setting, dead letters in a circle; 42704 no such dead_letter_queue; 42883 no such backoff_function; 22004 NULL name.';
COMMENT ON FUNCTION jobq.alter_queue IS
'Changes settings of a queue: NULL leaves one as it is, reset names those to put back to their default (none included). Arguments and errors as in create_queue; 42704 no such queue.';
COMMENT ON FUNCTION jobq.rename_queue IS
'Gives a queue another name; its jobs and settings stay. Errors: 42704 no such queue; 42710 new_name is taken; 22023 bad name.';
COMMENT ON FUNCTION jobq.drop_queue IS
'Removes a queue and its history. While it has jobs or dead letters it is refused unless force: then they go with it, and who works on one hears JQ001. Waits for transactions that have a job of it in hand. Errors: 42704 no such queue; 55006 it has jobs; 2BP01 another queue sends its dead letters here.';
COMMENT ON FUNCTION jobq.pause_queue IS
'Lets nothing more be taken from queue until resume_queue; what is running goes on. Errors: 42704 no such queue.';
COMMENT ON FUNCTION jobq.resume_queue IS
'Ends a pause. Errors: 42704 no such queue.';
COMMENT ON FUNCTION jobq.purge_queue IS
'Deletes the jobs of queue that are in states (ready, delayed, pending, dead, completed: all its history), never active ones nor what another transaction has in hand, and returns how many. Groups that a purged dead letter blocks go on. Errors: 42704 no such queue; 22023 unknown state, or active.';

-- events
COMMENT ON FUNCTION jobq.events IS
'Events of the queues that chose some, in their order, behind the position after; NULL: from the oldest that is kept. queue: only of that one; max_events: 1 .. 100000. position grows with each event; at: time of its commit; delay: until the job may be taken; name, group_key and error are cut to 120, 127 and 192 bytes. A row lost says that count events (at most; NULL: not known) before the next one are not to be had any more: the reader was too late, or the server was started. Payloads are in no event. Errors: 42704 no such queue; 22023 bad after or max_events.';
COMMENT ON FUNCTION jobq.once IS
'Tells who is the first to do what key (1 .. 256 bytes) stands for. first is true for one committed transaction until ttl (1 ms .. 36525 days) has passed; for others it is false, and result is what once_done stored, NULL if nothing. Waits for a transaction that called it with the same key first; if that one is rolled back, the caller is first. Errors: 40001 above READ COMMITTED when it had to wait for one that committed; 22023 bad key or ttl; 22004 NULL key; 25006 read-only.';
COMMENT ON FUNCTION jobq.once_done IS
'Stores the result that later callers of once with this key get. Errors: 42704 there is no record of the key, or its ttl has passed; 40001 above READ COMMITTED when another transaction changed it meanwhile; 22023 bad key; 22004 NULL key; 25006 read-only.';
COMMENT ON PROCEDURE jobq.wait_job IS
'Waits until the job has ended, for timeout (up to 24 hours) at most. state: completed, cancelled, expired or dead, with the result of a completed one; ready, delayed, pending or active when the time is over; NULL when the job is not known: it never was, was deleted, or its queue keeps no history of it. Holds no snapshot, transaction id or lock while it waits. Errors: 25001 inside a transaction block or a function; 22004 NULL job_id; 22023 bad timeout; 55000 as in dequeue.';

-- groups
COMMENT ON FUNCTION jobq.alter_group IS
'Changes settings of one group, whether it has jobs or not: NULL leaves one as it is, reset names those that go back to the queue''s. weight 1 .. 64: jobs per turn, for each that group_batch asks for; lease: 1 ms .. 30 days; rate_limit 1 .. 1000000 starts per rate_interval (from 1 ms), evenly spaced: a group with a rate has one job per turn. Errors: 42704 no such queue; 22023 bad argument, a setting both given and reset; 22004 NULL queue or group_key.';
COMMENT ON FUNCTION jobq.pause_group IS
'Nothing of the group is leased by a dequeue that begins after this commits, until resume_group; the lease in hand goes on. For any key, also of a group without jobs; harmless when repeated. Errors: 42704 no such queue; 22023 bad key; 22004 NULL.';
COMMENT ON FUNCTION jobq.resume_group IS
'Undoes pause_group: the group goes on at once, but for its rate, a dead job that blocks it, and who has it in hand. Harmless when it is not paused. Errors as in pause_group.';
COMMENT ON FUNCTION jobq.unblock_group IS
'Lets a group go on that is blocked by a dead job. head: retry, with that job, at its old place and with all its attempts again; skip, without it, which stays a dead letter. A paused group stays paused. Errors: 55000 the group is not blocked, or its dead letter is gone (retry); 42704 no such queue; 22023 bad key or head; 22004 NULL queue or group_key.';
COMMENT ON FUNCTION jobq.drain_worker IS
'Asks a worker to hand over its groups, step (1 .. 10000) at a time and the next ones every pause (from 1 ms): its extend answers drain, and what it completes next ends the lease; no attempt is counted for the rest. Returns how many leases of groups it holds; the scheduler asks on until none is left. Leases of jobs without a group are left alone. Errors: 22023 bad argument; 22004 NULL worker.';

-- jobs
COMMENT ON FUNCTION jobq.cancel IS
'Ends a job that waits: cancelled, it never starts. Of an active one it asks for the end: running, its worker hears of it at its next extend, and unless it completes, the job is cancelled with the attempt. Otherwise returns finished or not_found. Waits for a transaction that has the job in hand. Errors: 22004 NULL job_id.';
COMMENT ON FUNCTION jobq.reschedule IS
'Gives a waiting job another start (run_at; NULL leaves it, a past time means now) or another priority (NULL leaves it); it goes to the end of its priority and keeps its attempts. In its group it keeps its place, unless it is to run later: then it joins again. A pending one stays pending; run_at is the start that it has when it is let go. Waits for a transaction that has the job in hand. Errors: 42704 no such job; 55000 the job is active or finished; 22023 bad argument, nothing to change; 22004 NULL job_id.';
COMMENT ON FUNCTION jobq.run_now IS
'Makes the delayed and pending jobs among job_ids ready at once (what a pending one waited for is forgotten), ends the wait of a group whose first job is among them, and returns how many there were. Waits for nobody.';
COMMENT ON FUNCTION jobq.delete_jobs IS
'Deletes the waiting, finished and dead jobs among job_ids, without a trace, and returns how many there were; active ones stay. A group that a dead one of them blocks goes on. Waits for transactions that have one in hand.';
COMMENT ON FUNCTION jobq.redrive IS
'Makes dead letters of queue jobs again, with their ids: the oldest ones up to max_jobs (1 .. 1000000), or those in job_ids; in to_queue, NULL = the queue they died in. They are ready at once, have all their attempts again, keep their failures, and tell their origin in the headers (jobq_origin). In a group they join the end of the line, but for one that blocks its group: it is back at its place, and the group goes on. Returns how many; can be repeated until it returns 0. Passes over what another session has in hand, and leaves those whose unique key another job has. They have no time to live any more. Errors: 42704 no such queue; 22004 NULL queue; 22023 max_jobs out of range.';
COMMENT ON FUNCTION jobq.adopt IS
'Makes this database the owner of the jobs in it when it is a restored or cloned copy: only then they run here. Tokens given out by the original are never given out again. Errors: 42501 neither superuser nor owner of the extension.';
COMMENT ON FUNCTION jobq.job IS
'All there is to know of one job, live or finished: the columns of jobs, and failures (a JSON array of attempt, at, error; attempts from before a redrive have the numbers 0, -1 and so on) and deadline (end of the running attempt''s timeout). No row: the job is not known.';
COMMENT ON FUNCTION jobq.explain_job IS
'Says in a sentence why the job is not running, or who runs it; of a job in a group, what it and its group wait for; of a pending one, for which jobs, and what to do about those that will not complete. NULL for NULL.';
COMMENT ON FUNCTION jobq.verify IS
'Checks everything stored against the rules that always hold and returns a row for each violation: no rows when all is well. rule: which one; detail: where. It reads all tables in one snapshot, so running jobs do not disturb it; a transaction that has itself changed a group should commit first. The counters are compared only when the call is the first statement of its transaction and no other transaction writes meanwhile.';
COMMENT ON FUNCTION jobq.queue_counts IS
'Counts and totals by queue, for the view queues. exact: they are kept in shared memory; otherwise the jobs by state were counted in the tables just now, until the scheduler has made them exact. totals_since: when the totals began at 0.';
COMMENT ON FUNCTION jobq.lease_counts IS
'Leases of the queues whose jobs the current user may read, and how many live jobs each has. For the view workers.';
COMMENT ON FUNCTION jobq.joining IS
'Ids of the jobs that this transaction has brought to a group: they get their place in its line at commit. For the views.';
COMMENT ON FUNCTION jobq.settings_changed IS
'Trigger function: a change of the settings tables reaches every session at its commit.';

-- schedules
COMMENT ON FUNCTION jobq.schedule IS
'Has the scheduler enqueue a job at the times that cron says, and returns the first one; NULL when there is none: not enabled, or a one-shot that is over. name: 1 .. 256 bytes; one of that name gets these settings, and keeps its next time when cron and timezone are as before. cron: five fields, @hourly and the like, every 30 seconds, at 2027-01-01 10:00. queue, payload, job_name, priority, max_attempts: of the job, as for enqueue; its headers get schedule and scheduled_for. timezone: a name that PostgreSQL knows. missed: what to do about times at which no scheduler ran, dealt with a minute late or more: skip, last (one job for all of them) or all (at most the latest 100). overlap: allow, or skip while the previous job is not finished. enabled: false keeps it from firing. Errors: 22023 bad argument; 42704 no such queue; JQ004 payload too large; 22004 NULL name, cron, queue or payload.';
COMMENT ON FUNCTION jobq.unschedule IS
'Removes a schedule with its history; its jobs stay. False: there was none. Errors: 22004 NULL name.';
COMMENT ON FUNCTION jobq.schedule_next IS
'The next n (1 .. 100000) times of an expression after a moment, fewer when there are not so many. cron, timezone: as for schedule. Errors: 22023 bad expression, zone or number; 22004 NULL cron.';

-- rights
COMMENT ON FUNCTION jobq.grant_queue IS
'Lets a role do more with queue: enqueue; consume, dequeue and all that a worker does; manage, change the queue, its jobs, groups, schedules and handlers. role: a name, public, current_user or session_user; privileges: some of the three. Gives EXECUTE, SELECT and USAGE as they are needed for it. For the queue''s owner, members of that role, superusers. Errors: 42501; 42704 no such role or queue; 22023 no such privilege, none; 22004 a NULL.';
COMMENT ON FUNCTION jobq.revoke_queue IS
'Takes privileges back that grant_queue gave to role on queue; harmless where it has not got them. Open sessions hear of it at their next call. With the last queue of the role go EXECUTE, SELECT and USAGE, too. Errors as in grant_queue.';
COMMENT ON FUNCTION jobq.may_read IS
'Whether the current user reads the jobs of the queue with that id: consume, manage, its owner, pg_monitor. For the views.';
COMMENT ON FUNCTION jobq.may_see IS
'Whether the current user has any right on the queue with that id, or is a pg_monitor. For the views.';

-- views
COMMENT ON VIEW jobq.queues IS 'One row per queue: jobs by state, totals, settings. Reads no jobs: the counts are kept in shared memory.';
COMMENT ON COLUMN jobq.queues.ready IS 'Jobs that may be taken now, and all that wait in the lines of groups.';
COMMENT ON COLUMN jobq.queues.delayed IS 'Jobs that may be taken later: delayed starts and retry backoffs.';
COMMENT ON COLUMN jobq.queues.pending IS 'Jobs that wait for others to end, and batches that are open.';
COMMENT ON COLUMN jobq.queues.active IS 'Jobs under a lease.';
COMMENT ON COLUMN jobq.queues.dead IS 'Dead letters kept.';
COMMENT ON COLUMN jobq.queues.failed_total IS 'Failed attempts, expired leases included.';
COMMENT ON COLUMN jobq.queues.retried_total IS 'Failed attempts after which the job runs again.';
COMMENT ON COLUMN jobq.queues.dead_total IS 'Jobs that became dead letters, those sent on to dead_letter_queue included.';
COMMENT ON COLUMN jobq.queues.expired_leases_total IS 'Leases that ended before their job did.';
COMMENT ON COLUMN jobq.queues.expired_total IS 'Jobs whose time to live was over while they waited.';
COMMENT ON COLUMN jobq.queues.oldest_ready_age IS 'Time since the creation of the job at the head of the queue; of a group that may be taken, its first job counts.';
COMMENT ON COLUMN jobq.queues.next_due IS 'When the next delayed job, or the next group that waits for a time, is due.';
COMMENT ON COLUMN jobq.queues.exact IS 'The counts are kept in shared memory; otherwise (after a start, for a moment) the jobs by state were counted in the tables just now.';
COMMENT ON COLUMN jobq.queues.totals_since IS 'When the totals began at 0: start of the server, or a change of the extension.';
COMMENT ON VIEW jobq.jobs IS 'Every job, live, finished or dead. A lookup by job_id reads a few index pages; for counts use queues.';
COMMENT ON COLUMN jobq.jobs.queue IS 'NULL: the queue was dropped.';
COMMENT ON COLUMN jobq.jobs.state IS 'ready, delayed, pending (waits for other jobs, see dependencies), active, completed, cancelled, expired or dead.';
COMMENT ON COLUMN jobq.jobs.attempt IS 'Attempts started so far, the running one included; released ones do not count.';
COMMENT ON COLUMN jobq.jobs.run_at IS 'When a delayed job is due; of a pending one the time that it was given, if any: it does not start before.';
COMMENT ON COLUMN jobq.jobs.lease_until IS 'End of an active job''s lease.';
COMMENT ON COLUMN jobq.jobs.last_error IS 'Error of the latest failed attempt.';
COMMENT ON COLUMN jobq.jobs.started IS 'Start of the running or last attempt; NULL while waiting.';
COMMENT ON COLUMN jobq.jobs.unique_key IS 'As given to enqueue; of a finished job, the one that it had.';
COMMENT ON COLUMN jobq.jobs.expires IS 'When a job that still waits is expired; NULL: never, or it is finished.';
COMMENT ON VIEW jobq.dependencies IS 'What jobs wait for, and what they have waited for in vain. A lookup by job_id or on_job reads a few index pages.';
COMMENT ON COLUMN jobq.dependencies.queue IS 'Of the job that waits.';
COMMENT ON COLUMN jobq.dependencies.on_job IS 'The job that it waits for; it may be in another queue.';
COMMENT ON COLUMN jobq.dependencies.state IS 'waiting; open: the job is the callback of a batch that close_batch() has not closed yet; dead, cancelled, expired, removed: on_job ended so.';
COMMENT ON COLUMN jobq.dependencies.waits IS 'Whether it holds the job back: not where on_job counts as done by after_dead run; such a row is kept until the job ends itself.';
COMMENT ON VIEW jobq.workers IS 'Leases by worker and queue, those of groups too. A lease counts while one of its jobs is live.';
COMMENT ON COLUMN jobq.workers.worker IS 'As given to dequeue; NULL: those that gave none.';
COMMENT ON COLUMN jobq.workers.lease_until IS 'End of the lease that ends first.';
COMMENT ON COLUMN jobq.workers.expired IS 'Leases whose end has passed and that nobody took back yet.';
COMMENT ON COLUMN jobq.workers.draining IS 'Leases of groups that the worker is asked to hand over.';
COMMENT ON VIEW jobq.groups IS 'Groups that have jobs in line or under a lease, or are blocked, and idle ones that have settings. A lookup by queue and group_key reads a few index pages and the leases.';
COMMENT ON COLUMN jobq.groups.state IS 'IDLE: no jobs; READY: may be taken; WAIT: for its first job''s backoff, a release''s delay or its rate; LEASED; MIGRATING: leased by a worker that is asked to hand it over; BLOCKED: by a dead job or a pause.';
COMMENT ON COLUMN jobq.groups.pending IS 'Jobs in line and unfinished ones under the lease; counted only when asked for.';
COMMENT ON COLUMN jobq.groups.holder IS 'Worker that has the lease, as given to dequeue.';
COMMENT ON COLUMN jobq.groups.wake_at IS 'When a waiting group may be taken again.';
COMMENT ON COLUMN jobq.groups.blocked_reason IS 'dead job N: reason, when the group waits for unblock_group(); paused, when for resume_group(), at once or after its lease; or both.';
COMMENT ON VIEW jobq.dead_letters IS 'Dead letters: the whole job and why it died.';
COMMENT ON COLUMN jobq.dead_letters.reason IS 'max_attempts, lease_expired (the last lease ran out), rejected (fail with retry false) or claim_rolled_back (three times in a row).';
COMMENT ON COLUMN jobq.dead_letters.failures IS 'Every failed attempt: JSON array of attempt, at, error.';
COMMENT ON VIEW jobq.schedules IS 'Schedules: their settings, next time, and what became of the last one.';
COMMENT ON COLUMN jobq.schedules.state IS 'active; disabled; finished: a one-shot that is over; broken: its time zone or expression is not known any more, see last_error.';
COMMENT ON COLUMN jobq.schedules.last_run IS 'The latest time that was dealt with, whatever became of it.';
COMMENT ON COLUMN jobq.schedules.last_job_id IS 'The job that was enqueued last.';
COMMENT ON COLUMN jobq.schedules.last_outcome IS 'enqueued, skipped, missed or failed; see schedule_runs.';
COMMENT ON COLUMN jobq.schedules.last_error IS 'Why it could not enqueue; NULL once it could again.';
COMMENT ON VIEW jobq.schedule_runs IS 'What became of the latest 100 times of each schedule.';
COMMENT ON COLUMN jobq.schedule_runs.instant IS 'When it was due.';
COMMENT ON COLUMN jobq.schedule_runs.outcome IS 'enqueued; skipped: the previous job was not finished; missed: no scheduler ran, and the policy makes up for no more; failed: it could not enqueue.';
COMMENT ON COLUMN jobq.schedule_runs.at IS 'When it was dealt with.';
COMMENT ON COLUMN jobq.schedule_runs.detail IS 'The error; the job that was not finished; since when all times were missed.';
COMMENT ON VIEW jobq.history IS 'The ring of history tables as one, for the other views. part: place in the ring; 32: history_far.';
COMMENT ON VIEW jobq.job_full IS 'Every job with all there is to say of it, for the other views. job() tells the same of one job.';

-- handlers
COMMENT ON FUNCTION jobq.set_handler(text, text, text, int, interval) IS
'Has jobs of a queue run by a function in this database, as the current role and with its search_path of now. queue; handler: a function of one argument, jsonb (the payload) or jobq.delivery (the job), by name or signature; name: of the jobs it is for, * for all that have no handler of their own; concurrency: how many run at a time, 1 to 1024; timeout: longest run. Replaces the handler of that name. Errors: 42704 unknown queue; 42883 no such function, or other arguments; 42725 two of that name; 42809 not a plain function; 42P13 its result; 42501 the role may not execute it; 22004; 22023.';
COMMENT ON FUNCTION jobq.drop_handler(text, text) IS
'Takes a handler away; its jobs wait, or fail where the queue has others. queue; name: as given to set_handler. True; false when there was none. What runs goes on to its end. Errors: 42704 unknown queue; 22004; 22023.';
COMMENT ON FUNCTION jobq.stop(interval) IS
'Keeps the handlers of this database from running, until start(); stays so over a restart. timeout: how long those that run may take to finish; then they are interrupted and their jobs given back, with no attempt counted. Returns how many processes are still at work: 0 when all have left. Errors: 22023; 25006.';
COMMENT ON FUNCTION jobq.start() IS
'Lets the handlers of this database run again, after the commit. True when they were stopped. Errors: 25006.';
COMMENT ON FUNCTION jobq.handlers_changed() IS
'Trigger function: the scheduler reads again which queues have handlers.';
