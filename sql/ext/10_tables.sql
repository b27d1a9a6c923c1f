-- Tables. A state is the table that holds a job's ticket: ready, delayed, lease. The job row itself is written once.
-- Column order is part of the C code's contract (src/store.h): append only.

CREATE SEQUENCE jobq.queue_id_seq AS int;
CREATE TABLE jobq.queue (
	id                  int PRIMARY KEY DEFAULT nextval('jobq.queue_id_seq'),
	name                text COLLATE "C" NOT NULL UNIQUE,
	owner               text NOT NULL,
	paused              boolean NOT NULL DEFAULT false,
	max_attempts        int NOT NULL DEFAULT 3,
	lease               interval NOT NULL DEFAULT '30 s',
	timeout             interval,
	backoff             text NOT NULL DEFAULT 'exponential_jitter',
	backoff_base        interval NOT NULL DEFAULT '1 s',
	backoff_cap         interval,
	backoff_function    text,
	concurrency         int,
	rate_limit          int,
	rate_interval       interval NOT NULL DEFAULT '1 s',
	rate_burst          int,
	keep_completed      interval DEFAULT '1 day',
	keep_dead           interval DEFAULT '30 days',
	dead_letter_queue   int,
	max_payload_bytes   int NOT NULL DEFAULT 262144,
	notify              boolean NOT NULL DEFAULT false,
	on_retry            text NOT NULL DEFAULT 'hold',
	on_dead             text NOT NULL DEFAULT 'block',
	group_rate_limit    int,
	group_rate_interval interval NOT NULL DEFAULT '1 s',
	group_lease         interval,
	isolate_above       int,
	created             timestamptz NOT NULL DEFAULT now(),
	events              text[],
	alert_dead          int,
	alert_dead_interval interval,
	limit_name          text COLLATE "C",
	ageing              boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE jobq.queue IS 'One row per queue: its settings. Change it with alter_queue(); any change reaches every session through the trigger.';

-- Job ids and ready sequence numbers come in blocks of 256 of this sequence: id = value * 256 + 0..255.
CREATE SEQUENCE jobq.job_block_seq AS bigint CACHE 1;
CREATE TABLE jobq.job (
	id           bigint NOT NULL,
	created      timestamptz NOT NULL,
	queue_id     int NOT NULL,
	max_attempts int NOT NULL,
	priority     smallint NOT NULL,
	timeout      interval,
	expires      timestamptz,
	name         text COLLATE "C",
	group_key    text COLLATE "C",
	unique_key   text COLLATE "C",
	payload      jsonb NOT NULL,
	headers      jsonb,
	unique_started boolean,
	unique_until   timestamptz,
	after_dead   "char",
	run_at       timestamptz
);
CREATE UNIQUE INDEX job_pkey ON jobq.job (id);
ALTER TABLE jobq.job ADD PRIMARY KEY USING INDEX job_pkey;
CREATE UNIQUE INDEX job_unique_key ON jobq.job (queue_id, unique_key) WHERE unique_key IS NOT NULL AND unique_started IS NOT TRUE;
CREATE INDEX job_expires ON jobq.job (expires, id) WHERE expires IS NOT NULL;
COMMENT ON TABLE jobq.job IS 'One row per live job, written once by enqueue and deleted when the job ends. Its row is its claim on its unique_key. unique_started: not null where the key is free from the first start on; the row is written anew then. after_dead: not null where it was enqueued to wait for others: what happens when one of them does not complete, w wait, c cancel, r run; run_at: its own start time, if it has one.';

CREATE TABLE jobq.ready (
	seq      bigint NOT NULL,
	job_id   bigint,
	queue_id int NOT NULL,
	attempt  int NOT NULL,
	lane     smallint NOT NULL,
	priority smallint NOT NULL,
	job_tid  tid,
	group_id bigint,
	from_ord bigint,
	since    timestamptz
);
CREATE INDEX ready_scan ON jobq.ready (queue_id, lane, priority, seq);
CREATE INDEX ready_job ON jobq.ready (job_id) WHERE lane <> 1;
COMMENT ON TABLE jobq.ready IS 'One row per ticket that may be taken now: a job''s, or the turn of a group. lane: 0 returned, 1 fresh, 2 groups, 3 bulk groups. A fresh job''s seq is its id; every other ticket takes a new one. A group''s ticket has the group''s id, drawn from the same numbers as job ids, in job_id and in group_id.';

CREATE TABLE jobq.delayed (
	visible_at timestamptz NOT NULL,
	job_id     bigint,
	queue_id   int NOT NULL,
	attempt    int NOT NULL,
	priority   smallint NOT NULL,
	job_tid    tid,
	group_id   bigint,
	from_ord   bigint
);
CREATE INDEX delayed_due ON jobq.delayed (queue_id, visible_at, job_id);
CREATE INDEX delayed_job ON jobq.delayed (job_id);
COMMENT ON TABLE jobq.delayed IS 'One row per ticket that may be taken from visible_at on; infinity: not before the jobs that jobq.dependency names have ended. It holds delayed starts, retry backoffs, groups that wait for their head or their rate (job_id and group_id are the group''s id). group_id 0: a job that joins its group''s line then.';

CREATE TABLE jobq.lease (
	token       bigint NOT NULL,
	started     timestamptz NOT NULL,
	lease_until timestamptz NOT NULL,
	deadline    timestamptz,
	cancel      bigint NOT NULL,
	queue_id    int NOT NULL,
	job_ids     bigint[] NOT NULL,
	job_tids    tid[] NOT NULL,
	attempts    int[] NOT NULL,
	worker      text,
	progress    jsonb,
	group_id    bigint,
	ords        bigint[],
	drain       boolean NOT NULL DEFAULT false,
	lane        smallint NOT NULL DEFAULT 1,
	session     bigint
);
CREATE UNIQUE INDEX lease_pkey ON jobq.lease (token);
ALTER TABLE jobq.lease ADD PRIMARY KEY USING INDEX lease_pkey;
CREATE INDEX lease_until ON jobq.lease (lease_until);
COMMENT ON TABLE jobq.lease IS 'One row per lease: at most 64 jobs of one dequeue call, or the next jobs of one group in the order of their ords. A job listed here is active while its job row exists; bit n of cancel asks for the end of the n-th.';

-- Groups. A group has a row in job_group exactly while it has a ticket, in ready, delayed, held or lease; an idle one has none.
-- Its jobs stand in line by ord, which is given at commit. Who is in line, and whether there is a row, changes only under the
-- group's stripe; settings and rate lie in rows of their own, so that nothing there waits for anybody.
CREATE TABLE jobq.job_group (
	id        bigint NOT NULL,
	queue_id  int NOT NULL,
	group_key text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX job_group_pkey ON jobq.job_group (id);
ALTER TABLE jobq.job_group ADD PRIMARY KEY USING INDEX job_group_pkey;
CREATE INDEX job_group_key ON jobq.job_group (queue_id, group_key, id);
COMMENT ON TABLE jobq.job_group IS 'One row per group that has jobs in line or under a lease. A group that comes back gets a new, higher id.';

-- A job that is taken and given back has a new row at its old place each time. ver grows and the newest comes first, so that a look at
-- the head meets one entry however many dead ones no vacuum can remove.
CREATE TABLE jobq.line (
	group_id bigint NOT NULL,
	ord      bigint NOT NULL,
	ver      bigint NOT NULL,
	job_id   bigint NOT NULL,
	attempt  int NOT NULL,
	priority smallint NOT NULL,
	job_tid  tid NOT NULL,
	since    timestamptz
);
CREATE INDEX line_order ON jobq.line (group_id, ord, ver DESC);
CREATE INDEX line_job ON jobq.line (job_id);
ALTER TABLE jobq.line REPLICA IDENTITY FULL;
COMMENT ON TABLE jobq.line IS 'One row per job that waits in its group. ord, given at commit, is its place for as long as it stays in the group.';

CREATE TABLE jobq.held (
	group_id bigint NOT NULL,
	queue_id int NOT NULL,
	priority smallint NOT NULL,
	reason   text NOT NULL,
	since    timestamptz NOT NULL,
	from_ord bigint NOT NULL,
	dead_job bigint,
	dead_ord bigint
);
CREATE UNIQUE INDEX held_pkey ON jobq.held (group_id);
ALTER TABLE jobq.held ADD PRIMARY KEY USING INDEX held_pkey;
COMMENT ON TABLE jobq.held IS 'One row per ticket that nobody may take: its group is paused, or blocked by a dead job.';

CREATE TABLE jobq.group_setting (
	queue_id      int NOT NULL,
	group_key     text COLLATE "C" NOT NULL,
	weight        int,
	lease         interval,
	rate_limit    int,
	rate_interval interval,
	paused        boolean NOT NULL DEFAULT false,
	PRIMARY KEY (queue_id, group_key)
);
COMMENT ON TABLE jobq.group_setting IS 'Settings of single groups, whether they have jobs or not; null: the queue''s.';

-- Not unique: an owner of the ticket inserts the new row and deletes the old one; the highest visible one counts.
CREATE TABLE jobq.group_rate (
	queue_id  int NOT NULL,
	group_key text COLLATE "C" NOT NULL,
	next_at   timestamptz NOT NULL
);
CREATE INDEX group_rate_key ON jobq.group_rate (queue_id, group_key, next_at);
ALTER TABLE jobq.group_rate REPLICA IDENTITY FULL;
COMMENT ON TABLE jobq.group_rate IS 'From when on a rate-limited group may start its next job.';

CREATE TABLE jobq.drain (
	worker    text COLLATE "C" PRIMARY KEY,
	step      int NOT NULL,
	pause     interval NOT NULL,
	requested timestamptz NOT NULL
);
COMMENT ON TABLE jobq.drain IS 'Workers that hand their groups over, made by drain_worker() and removed when they have none left.';

CREATE TABLE jobq.failure (
	job_id  bigint NOT NULL,
	at      timestamptz NOT NULL,
	attempt int NOT NULL,
	error   text
);
CREATE INDEX failure_job ON jobq.failure (job_id, attempt);
ALTER TABLE jobq.failure REPLICA IDENTITY FULL;
COMMENT ON TABLE jobq.failure IS 'One row per failed attempt of a live job. They move into the history or dead row when the job ends. attempt is 0 or less where it was before a redrive.';

CREATE TABLE jobq.dead (
	id           bigint NOT NULL,
	created      timestamptz NOT NULL,
	died         timestamptz NOT NULL,
	queue_id     int NOT NULL,
	attempt      int NOT NULL,
	max_attempts int NOT NULL,
	priority     smallint NOT NULL,
	timeout      interval,
	expires      timestamptz,
	reason       text NOT NULL,
	last_error   text,
	name         text COLLATE "C",
	group_key    text COLLATE "C",
	unique_key   text COLLATE "C",
	payload      jsonb NOT NULL,
	headers      jsonb,
	failures     jsonb,
	unique_started boolean
);
CREATE UNIQUE INDEX dead_pkey ON jobq.dead (id);
ALTER TABLE jobq.dead ADD PRIMARY KEY USING INDEX dead_pkey;
CREATE INDEX dead_queue ON jobq.dead (queue_id, id);
CREATE INDEX dead_died ON jobq.dead (queue_id, died);
COMMENT ON TABLE jobq.dead IS 'One row per dead letter: the whole job and the reason. Kept until redriven, purged, or keep_dead has passed.';

-- Finished jobs: a ring of plain tables by day of expiry, emptied by TRUNCATE. Day d (days since 2000-01-01) lives in
-- history_(d % 32); what is kept for more than 30 days, or for ever, lives in history_far and is deleted row by row.
DO $do$
DECLARE
	part text;
	n int;
BEGIN
	FOR n IN 0 .. 32 LOOP
		part := CASE WHEN n = 32 THEN 'history_far' ELSE 'history_' || n END;
		EXECUTE pg_catalog.format($ddl$
			CREATE TABLE jobq.%1$I (
				id           bigint NOT NULL,
				token        bigint,
				created      timestamptz NOT NULL,
				started      timestamptz,
				finished     timestamptz NOT NULL,
				expiry       timestamptz NOT NULL,
				queue_id     int NOT NULL,
				attempt      int NOT NULL,
				max_attempts int NOT NULL,
				priority     smallint NOT NULL,
				state        "char" NOT NULL,
				name         text COLLATE "C",
				group_key    text COLLATE "C",
				unique_key   text COLLATE "C",
				worker       text,
				payload      jsonb NOT NULL,
				headers      jsonb,
				result       jsonb,
				progress     jsonb,
				failures     jsonb
			)$ddl$, part);
		EXECUTE pg_catalog.format('CREATE INDEX %I ON jobq.%I (id)', part || '_id', part);
		-- where a publication holds all tables, rows without a key can be deleted only so
		EXECUTE pg_catalog.format('ALTER TABLE jobq.%I REPLICA IDENTITY FULL', part);
		EXECUTE pg_catalog.format('COMMENT ON TABLE jobq.%I IS %L', part,
			'Finished jobs (state c completed, x cancelled, e expired), by day of expiry.');
		EXECUTE pg_catalog.format('SELECT pg_catalog.pg_extension_config_dump(%L, %L)', 'jobq.' || part, '');
	END LOOP;
END
$do$;
CREATE INDEX history_far_expiry ON jobq.history_far (expiry);

-- Who this database is. identity is not dumped; origin is: where they differ, this is a copy and runs nothing until adopt().
CREATE TABLE jobq.identity (
	id     uuid NOT NULL,
	db_oid oid NOT NULL
);
ALTER TABLE jobq.identity REPLICA IDENTITY FULL;
COMMENT ON TABLE jobq.identity IS 'One row: a random id and the oid of the database it was made in. Not dumped.';
INSERT INTO jobq.identity SELECT pg_catalog.gen_random_uuid(), d.oid
	FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database();
CREATE TABLE jobq.origin (
	id uuid NOT NULL
);
ALTER TABLE jobq.origin REPLICA IDENTITY FULL;
COMMENT ON TABLE jobq.origin IS 'One row from the first queue on: a copy of identity.id that a dump carries.';

-- Tokens: value of token_block_seq * 16384 is the counter; generation = token_base + timeline. Sequences because they are durable
-- whatever the transaction that draws from them does.
CREATE SEQUENCE jobq.token_block_seq AS bigint CACHE 1;
CREATE SEQUENCE jobq.token_base AS bigint MINVALUE 0 START 0;
CREATE SEQUENCE jobq.token_generation AS bigint MINVALUE 0 START 0;
CREATE SEQUENCE jobq.token_system AS bigint MINVALUE -9223372036854775808 START 0;

CREATE TABLE jobq.resource_fence (
	resource text COLLATE "C" PRIMARY KEY,
	token    bigint NOT NULL,
	at       timestamptz NOT NULL
);
COMMENT ON TABLE jobq.resource_fence IS 'Highest token seen per resource, kept by fence().';

CREATE TABLE jobq.once_record (
	key     text COLLATE "C" PRIMARY KEY,
	created timestamptz NOT NULL,
	expires timestamptz NOT NULL,
	done    timestamptz,
	result  jsonb
);
CREATE INDEX once_record_expires ON jobq.once_record (expires);
COMMENT ON TABLE jobq.once_record IS 'One row per key of once(), until expires; done and result are what once_done() stored.';

DO $do$
DECLARE
	obj text;
BEGIN
	FOREACH obj IN ARRAY ARRAY['queue', 'queue_id_seq', 'job', 'job_block_seq', 'ready', 'delayed', 'lease', 'failure', 'dead',
		'job_group', 'line', 'held', 'group_setting', 'group_rate', 'drain', 'origin', 'token_block_seq', 'token_base', 'token_generation', 'token_system', 'resource_fence', 'once_record'] LOOP
		EXECUTE pg_catalog.format('SELECT pg_catalog.pg_extension_config_dump(%L, %L)', 'jobq.' || obj, '');
	END LOOP;
	-- Rows come and go at the rate of the jobs: vacuum early, at full speed, and leave no page half empty on purpose.
	FOREACH obj IN ARRAY ARRAY['job', 'ready', 'delayed', 'lease', 'job_group', 'line', 'held', 'group_rate'] LOOP
		EXECUTE pg_catalog.format('ALTER TABLE jobq.%I SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
			autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2)', obj);
	END LOOP;
END
$do$;
REVOKE ALL ON ALL TABLES IN SCHEMA jobq FROM PUBLIC;
