# Handlers: with whose rights they run, what they cannot do, what they leave behind, how their errors are kept, how many run at a time.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

# one process runs everything, so that each job meets what the one before has left
my $node = jobq_node('handlers', conf => "jobq.max_executors = 1\njobq.scheduler_idle_timeout = 2s\nlog_min_messages = error\n");
my $harmless = q{SELECT 1};

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub becomes
{
	my ($query, $name, $limit) = @_;
	return ok(poll_until($name, $query, node => $node, limit => $limit // 30), $name);
}

# A text as a literal.
sub quoted
{
	my ($text) = @_;
	$text =~ s/'/''/g;
	return "'$text'";
}

# Puts jobs into a queue, each a statement for the handler to execute; returns their ids.
sub enqueue
{
	my ($queue, @statements) = @_;
	return split /\n/, sql('SELECT jobq.enqueue(' . quoted($queue) . ', jsonb_build_object(\'sql\', s)) FROM unnest(ARRAY['
		  . join(', ', map { quoted($_) } @statements) . ']) WITH ORDINALITY u(s, n) ORDER BY n');
}

# Waits until the jobs have ended; returns a hash of each, in order.
sub outcomes
{
	my (@ids) = @_;
	my $list = join ',', @ids;
	poll_until("the end of jobs $list", "SELECT NOT EXISTS (SELECT FROM jobq.job WHERE id IN ($list))", node => $node, limit => 60);
	my @result;
	for my $id (@ids)
	{
		my ($state, $attempt, $result, $error) = split /\x1f/,
		  sql("SELECT concat_ws(E'\\x1f', state, attempt, COALESCE(result #>> '{}', ''), last_error) FROM jobq.job($id)"), 4;
		push @result, { id => $id, state => $state // 'none', attempt => $attempt, result => $result, error => $error // '' };
	}
	return @result;
}

sub run_one { return (outcomes(enqueue(@_)))[0]; }

sub executor_pid { return sql(q{SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE backend_type = 'jobq executor'}); }

# A handler that executes its payload's statement and returns what it gives.
my $body = q{LANGUAGE plpgsql AS $$
	DECLARE r text;
	BEGIN
		IF p->>'sql' LIKE 'SELECT%' THEN
			EXECUTE p->>'sql' INTO r;
		ELSE
			EXECUTE p->>'sql';
		END IF;
		RETURN concat_ws(' ', current_user, r);
	END $$};

sql(qq{
	CREATE ROLE alice LOGIN;
	CREATE ROLE bob LOGIN;
	CREATE SCHEMA a AUTHORIZATION alice;
	CREATE SCHEMA b AUTHORIZATION bob;
	SELECT jobq.create_queue(q, max_attempts => 1), jobq.grant_queue(q, r, '{enqueue,consume,manage}')
		FROM unnest('{alice,bob,super,moved,mood,path}'::text[]) q, unnest('{alice,bob}'::text[]) r;
	SELECT jobq.grant_queue(q, q, '{manage}') FROM unnest('{alice,bob}'::text[]) q;
	CREATE TABLE note (id serial, text text, who name DEFAULT current_user);
	GRANT ALL ON note, note_id_seq TO PUBLIC;
	CREATE FUNCTION run(p jsonb) RETURNS text $body;
	SELECT jobq.set_handler('super', 'run', timeout => '1 min');
	SET SESSION AUTHORIZATION alice;
	CREATE FUNCTION a.run(p jsonb) RETURNS text $body;
	CREATE FUNCTION a.note(s text) RETURNS text LANGUAGE plpgsql AS \$\$BEGIN INSERT INTO public.note (text) VALUES (s); RETURN s; END\$\$;
	SELECT jobq.set_handler('alice', 'a.run', timeout => '1 min');
	SET SESSION AUTHORIZATION bob;
	CREATE FUNCTION b.run(p jsonb) RETURNS text $body;
	SELECT jobq.set_handler('bob', 'b.run', timeout => '1 min');
});

subtest 'rights' => sub {
	my $job = run_one('alice', 'SELECT session_user');
	is("$job->{state} $job->{result}", 'completed alice ' . sql('SELECT session_user'), 'it runs as the role that set it');
	is(run_one('bob', $harmless)->{result}, 'bob 1', 'another role in the same process');
	sql(q{SELECT jobq.create_queue('moved', max_attempts => 1), jobq.grant_queue('moved', 'alice', '{manage}'); SET ROLE alice; SELECT jobq.set_handler('moved', 'a.run', timeout => '1 min')});
	is(run_one('moved', $harmless)->{result}, 'alice 1', 'set under SET ROLE: as that role');

	# ways back to the rights of the session
	sql(q{SET SESSION AUTHORIZATION alice;
		CREATE FUNCTION a.definer(s text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN EXECUTE s; END$$;
		CREATE FUNCTION a.nested(s text) RETURNS void LANGUAGE plpgsql SET work_mem = '1MB' AS $$BEGIN PERFORM a.definer(s); END$$;
		CREATE PROCEDURE a.proc(s text) LANGUAGE plpgsql AS $$BEGIN EXECUTE s; END$$});
	my @ways = (
		'RESET ROLE', 'SET ROLE postgres', 'SET ROLE NONE', 'SET LOCAL ROLE postgres',
		'SET SESSION AUTHORIZATION postgres', 'SET LOCAL SESSION AUTHORIZATION postgres', 'RESET SESSION AUTHORIZATION',
		'SET SESSION AUTHORIZATION DEFAULT',
		q{SELECT set_config('role', 'postgres', false)}, q{SELECT set_config('role', 'none', true)},
		q{SELECT set_config('session_authorization', 'postgres', false)});
	my @forms = (
		sub { $_[0] },
		sub { 'DO ' . quoted('BEGIN EXECUTE ' . quoted($_[0]) . '; END') },
		sub { 'SELECT a.definer(' . quoted($_[0]) . ')' },
		sub { 'SELECT a.nested(' . quoted($_[0]) . ')' },
		sub { 'CALL a.proc(' . quoted($_[0]) . ')' });
	my $super = sql('SELECT current_user');
	my @tries = map { my $form = $_; map { s/postgres/$super/gr } map { $form->($_) } @ways } @forms;
	my @got = outcomes(enqueue('alice', @tries));
	my @bad = grep { $got[$_]{state} ne 'dead' || $got[$_]{error} !~ /^cannot set parameter "\w+" within security-definer function \(SQLSTATE 42501\)/ } 0 .. $#got;
	is(join("\n", map { "$tries[$_]: $got[$_]{state} $got[$_]{error}" } @bad), '', scalar(@tries) . ' ways to another role are refused');

	# what only the session's role may do
	sql('CREATE TABLE secret AS SELECT 1 AS x');
	@tries = ('ALTER ROLE alice SUPERUSER', 'SELECT pg_read_file(\'PG_VERSION\')', 'COPY note (text) FROM PROGRAM \'echo x\'',
		'SET session_replication_role = replica', 'SELECT * FROM secret', 'SELECT * FROM b.x', 'SELECT pg_terminate_backend(pg_backend_pid())',
		q{UPDATE jobq.handler SET role = 'postgres'}, 'CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f()', 'CREATE SCHEMA c',
		q{LOAD 'jobq'}, 'CREATE FUNCTION a.c() RETURNS void LANGUAGE c AS \'jobq\', \'x\'', 'SELECT lo_import(\'/etc/passwd\')', 'SELECT * FROM pg_authid');
	@got = outcomes(enqueue('alice', @tries));
	@bad = grep { $got[$_]{state} ne 'dead' || $got[$_]{error} !~ /SQLSTATE 42501/ } 0 .. $#got;
	is(join("\n", map { "$tries[$_]: $got[$_]{state} $got[$_]{error}" } @bad), '', 'nothing is allowed that the role may not');

	# what runs late: deferred triggers, held cursors, temporary tables, in the commit of a superuser's process
	sql(q{SET SESSION AUTHORIZATION alice;
		CREATE FUNCTION a.try_all() RETURNS text LANGUAGE plpgsql AS $$
		DECLARE s text; e text := '';
		BEGIN
			FOREACH s IN ARRAY '{RESET ROLE,SET ROLE NONE,RESET SESSION AUTHORIZATION,ALTER ROLE alice SUPERUSER,SELECT * FROM public.secret}'::text[] LOOP
				BEGIN
					EXECUTE s;
					e := e || ' ESCAPED by ' || s;
				EXCEPTION WHEN insufficient_privilege THEN e := e || '.';
				END;
			END LOOP;
			RETURN a.note(e);
		END$$;
		CREATE FUNCTION a.trap() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM a.try_all(); RETURN NULL; END$$;
		CREATE TABLE a.t (i int);
		CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON a.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION a.trap();
		CREATE FUNCTION a.again() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN UPDATE a.t SET i = 2 WHERE i = 1; RETURN NULL; END$$;
		CREATE TABLE a.first (i int);
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON a.first DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION a.again();
		CREATE FUNCTION a.definer_insert() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO a.t VALUES (5)';
		CREATE FUNCTION a.immutable(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM a.try_all(); RETURN i; END$$;
		CREATE TYPE a.mood AS ENUM ('fine');
		CREATE FUNCTION a.to_json(a.mood) RETURNS json LANGUAGE plpgsql AS $$BEGIN PERFORM a.try_all(); RETURN '1'; END$$;
		CREATE FUNCTION a.mood(p jsonb) RETURNS a.mood LANGUAGE sql AS 'SELECT ''fine''::a.mood';
		CREATE CAST (a.mood AS json) WITH FUNCTION a.to_json(a.mood)});
	@tries = (
		'INSERT INTO a.t VALUES (1)', 'INSERT INTO a.first VALUES (1)', 'SELECT a.definer_insert()',
		'DECLARE held CURSOR WITH HOLD FOR SELECT a.try_all()',
		'DO $x$BEGIN EXECUTE \'DECLARE held CURSOR WITH HOLD FOR SELECT a.try_all()\'; EXECUTE \'INSERT INTO a.t VALUES (3)\'; END$x$',
		# ON COMMIT, triggers and indexes of temporary tables, dropped after the job
		q{CREATE TEMP TABLE x (i int DEFAULT length(a.try_all())) ON COMMIT DELETE ROWS; CREATE INDEX ON x (a.immutable(i)); INSERT INTO x DEFAULT VALUES},
		q{CREATE TEMP TABLE y (i int); CREATE CONSTRAINT TRIGGER late AFTER INSERT ON y DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION a.trap(); INSERT INTO y VALUES (1)},
		q{CREATE TEMP TABLE z (i int) ON COMMIT DROP; CREATE INDEX ON z (a.immutable(i)); INSERT INTO z VALUES (1)});
	my $n = () = @got = outcomes(enqueue('alice', @tries));
	is(join(' ', map { $_->{state} } @got), join(' ', ('completed') x $n), 'triggers at commit, held cursors, temporary tables');
	sql(q{SET SESSION AUTHORIZATION alice; SELECT jobq.set_handler('mood', 'a.mood')});
	$job = run_one('mood', '');
	is("$job->{state} $job->{result}", 'completed 1', 'a result with a cast of its own');
	is(sql('SELECT DISTINCT who, text FROM note'), 'alice|.....', 'and each of them ran with the rights of the role');
	is(sql('SELECT count(*) > 9 FROM note'), 't', 'all of them ran');
	is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'alice'}), 'f', 'alice is what she was');

	# functions, operators, tables and types of the role's own in front of the server's, while jobq's own statements run
	sql(q{SELECT jobq.alter_queue('path', backoff => 'fixed', keep_completed => '0');
		SET SESSION AUTHORIZATION alice;
		SET search_path = pg_temp, a, pg_catalog;
		SELECT jobq.set_handler('path', 'a.run');
		CREATE FUNCTION a.now() RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN PERFORM a.try_all(); RETURN pg_catalog.now(); END$$;
		CREATE FUNCTION a.eq(int, int) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM a.try_all(); RETURN $1 OPERATOR(pg_catalog.=) $2; END$$;
		CREATE FUNCTION a.eq(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM a.try_all(); RETURN $1 OPERATOR(pg_catalog.=) $2; END$$;
		CREATE OPERATOR a.= (LEFTARG = int, RIGHTARG = int, FUNCTION = a.eq);
		CREATE OPERATOR a.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = a.eq);
		CREATE FUNCTION a.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN PERFORM a.try_all(); RETURN pg_catalog.now(); END$$});
	sql('TRUNCATE note');
	@got = outcomes(enqueue('path', q{SET search_path = pg_temp, a, pg_catalog; CREATE TEMP TABLE job (id bigint); CREATE TEMP TABLE queue (id int, name text); CREATE TEMP TABLE handler (x int); SELECT jobq.enqueue('bob', '{"sql":"SELECT 1"}')},
			'SELECT 1/0', q{SELECT set_config('search_path', 'pg_temp, a, pg_catalog', false)}));
	becomes(q{SELECT count(*) = 0 FROM jobq.job}, 'all done');
	is(sql('SELECT count(*) FROM note'), '0', 'none of them is called by jobq');

	# the right is looked at when the job runs
	sql('REVOKE EXECUTE ON FUNCTION b.run FROM PUBLIC, bob');
	like(run_one('bob', $harmless)->{error}, qr/^role "bob" may not execute b\.run\(pg_catalog\.jsonb\) \(SQLSTATE 42501\)/, 'EXECUTE revoked');
	sql('GRANT EXECUTE ON FUNCTION b.run TO bob; ALTER SCHEMA b OWNER TO ' . $super . '; REVOKE ALL ON SCHEMA b FROM bob');
	like(run_one('bob', $harmless)->{error}, qr/^role "bob" may not use the schema of b\.run\(pg_catalog\.jsonb\) \(SQLSTATE 42501\)/, 'USAGE revoked');
	sql('ALTER SCHEMA b OWNER TO bob');
	is(run_one('bob', $harmless)->{state}, 'completed', 'granted again');
	verify_ok($node);
};

subtest 'the next job is clean' => sub {
	sql(q{SET SESSION AUTHORIZATION alice; CREATE SEQUENCE a.s});
	my $look = q{SELECT concat_ws('; ',
		(SELECT string_agg(name || '=' || setting, ' ') FROM pg_settings WHERE source = 'session' AND name <> 'search_path'),
		current_setting('search_path'), nullif(current_setting('my.own', true), ''), current_setting('transaction_isolation'),
		current_setting('transaction_read_only'),
		(SELECT count(*) || ' locks' FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
		(SELECT count(*) || ' statements' FROM pg_prepared_statements),
		(SELECT count(*) || ' cursors' FROM pg_cursors),
		(SELECT count(*) || ' temp' FROM (SELECT relnamespace FROM pg_class UNION ALL SELECT pronamespace FROM pg_proc UNION ALL SELECT typnamespace FROM pg_type) x
			WHERE relnamespace = pg_my_temp_schema()))};
	my $clean = '"$user", public; read committed; off; 0 locks; 0 statements; 0 cursors; 0 temp';
	my @traces = (
		(map { "SET $_" } 'search_path = pg_temp', q{timezone = 'Asia/Tokyo'}, 'statement_timeout = 1', 'lock_timeout = 1', 'idle_in_transaction_session_timeout = 1',
			'default_transaction_read_only = on', 'default_transaction_isolation = serializable', 'default_transaction_deferrable = on',
			'jobq.session_liveness = on', 'jobq.async_dequeue = off', 'jobq.commit_timeout = 1', 'my.own = 1', 'work_mem = 77', 'enable_seqscan = off',
			'datestyle = german', 'client_encoding = latin1', 'row_security = off', 'synchronous_commit = off', 'plan_cache_mode = force_generic_plan',
			'check_function_bodies = off', 'default_tablespace = \'\'', 'transaction_read_only = on', 'client_min_messages = debug5'),
		'SET LOCAL search_path = b', 'RESET ALL', q{SELECT set_config('timezone', 'UTC', true), set_config('timezone', 'Asia/Tokyo', false)},
		'CREATE TEMP TABLE leftover (i int)', 'CREATE TEMP TABLE leftover AS SELECT 1 AS i; CREATE TEMP VIEW v AS SELECT * FROM leftover; CREATE TEMP SEQUENCE s',
		q{CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'}, 'CREATE TYPE pg_temp.e AS ENUM (\'a\')',
		'SELECT pg_advisory_lock(1)', 'SELECT pg_advisory_lock(1), pg_advisory_lock(1), pg_advisory_lock_shared(2)', 'SELECT pg_advisory_xact_lock(3)', 'SELECT pg_advisory_lock(1) / 0',
		'PREPARE p AS SELECT 1', 'DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 100000)', 'DECLARE c CURSOR FOR SELECT 1',
		'SET TRANSACTION READ ONLY', 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE', 'SET CONSTRAINTS ALL DEFERRED', 'LISTEN x', 'NOTIFY x', 'LOCK TABLE a.t',
		'SELECT 1/0', q{SET timezone = 'Asia/Tokyo'; SELECT 1/0}, 'CREATE TEMP TABLE leftover (i int); SELECT 1/0');
	my @ids;
	push @ids, enqueue('alice', $_), enqueue('bob', $look) for @traces;
	my @got = outcomes(@ids);
	my @bad = grep { $got[ 2 * $_ + 1 ]{result} ne "bob $clean" } 0 .. $#traces;
	is(join("\n", map { "$traces[$_]: $got[ 2 * $_ + 1 ]{result} $got[ 2 * $_ + 1 ]{error}" } @bad), '', scalar(@traces) . ' traces are gone when the next job runs');
	my %ended = map { $traces[$_] => $got[ 2 * $_ ] } 0 .. $#traces;
	like($ended{LISTEN => 'LISTEN x'}{error} // $ended{'LISTEN x'}{error}, qr/^cannot execute LISTEN within a background process \(SQLSTATE 0A000\)/, 'LISTEN is refused');
	like($ended{'SET TRANSACTION READ ONLY'}{error}, qr/read-only transaction \(SQLSTATE 25006\)/, 'a transaction that was made read-only cannot complete the job');
	like($ended{'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE'}{error}, qr/SQLSTATE 25001/, 'the isolation level is chosen');
	@got = outcomes(enqueue('alice', q{SELECT nextval('a.s')}), enqueue('bob', 'SELECT lastval()'), enqueue('alice', q{SELECT setval('a.s', 77)}), enqueue('alice', q{SELECT currval('a.s')}));
	like($got[1]{error}, qr/SQLSTATE 55000/, 'lastval() knows nothing');
	like($got[3]{error}, qr/SQLSTATE 55000/, 'nor does currval()');
	is(executor_pid() =~ /^\d+$/ ? 'one' : executor_pid(), 'one', 'all in one process');

	# transaction control
	my @control = ('COMMIT', 'ROLLBACK', 'SAVEPOINT s', 'BEGIN', q{PREPARE TRANSACTION 'x'}, q{DO 'BEGIN COMMIT; END'}, q{DO 'BEGIN ROLLBACK; END'}, 'VACUUM', 'DISCARD ALL',
		q{DO $$BEGIN INSERT INTO note (text) VALUES ('must go'); COMMIT; EXCEPTION WHEN OTHERS THEN INSERT INTO note (text) VALUES ('must go'); RAISE; END$$});
	@got = outcomes(enqueue('super', @control));
	is(join(' ', map { $_->{state} } @got), join(' ', ('dead') x @control), 'COMMIT and its kin are failed attempts');
	is(sql(q{SELECT count(*) FROM note WHERE text = 'must go'}), '0', 'with nothing left of them');
	is(run_one('bob', $look)->{result}, "bob $clean", 'the process is as before');
	verify_ok($node);
};

subtest 'errors' => sub {
	sql(q{CREATE CAST (bytea AS text) WITHOUT FUNCTION;
		CREATE FUNCTION nest(n int) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF n = 0 THEN PERFORM 1/0; END IF;
			PERFORM nest(n - 1);
		EXCEPTION WHEN division_by_zero THEN
			RAISE EXCEPTION 'level %', n USING DETAIL = 'why', HINT = 'what to do', ERRCODE = '22012';
		END$$;
		CREATE FUNCTION recurse() RETURNS void LANGUAGE plpgsql AS $$BEGIN PERFORM recurse(); END$$;
		CREATE TABLE parent (i int PRIMARY KEY);
		CREATE TABLE child (i int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)});
	my @got = outcomes(enqueue('super',
			'SELECT nest(60)', 'SELECT recurse()', 'INSERT INTO child VALUES (1)', q{SELECT repeat('x', 1100000000)},
			q{DO $$BEGIN RAISE EXCEPTION '%', repeat('ж', 25000000); END$$}, q{DO $$BEGIN RAISE EXCEPTION 'x%', repeat('ж', 25000000) USING DETAIL = repeat('d', 9000), HINT = repeat('h', 9000); END$$},
			q{DO $$BEGIN RAISE EXCEPTION '%', 'bad ' || ('\xff00e4'::bytea)::text; END$$}, q{DO $$BEGIN RAISE EXCEPTION 'x' USING DETAIL = ('\xc3'::bytea)::text, HINT = repeat('é', 3) || ('\x80'::bytea)::text; END$$},
			q{DO $$BEGIN RAISE EXCEPTION '%', repeat('y', 8191) || ('\xe4b8ad'::bytea)::text; END$$}, q{DO $$BEGIN RAISE EXCEPTION ''; END$$}, q{DO $$BEGIN RAISE EXCEPTION SQLSTATE 'ABCDE'; END$$},
			q{SELECT repeat('r', 300000)}, q{SELECT 'ok'::bytea::text}));
	is(join(' ', map { $_->{state} } @got[ 0 .. $#got - 1 ]), join(' ', ('dead') x (@got - 1)), 'each is a failed attempt');
	is($got[-1]{state}, 'completed', 'and the next job runs');
	like($got[0]{error}, qr/^level 60 \(SQLSTATE 22012\)\nDETAIL: why\nHINT: what to do\nCONTEXT: PL/, 'nested exceptions');
	like($got[1]{error}, qr/^stack depth limit exceeded \(SQLSTATE 54001\)/, 'endless recursion');
	like($got[2]{error}, qr/^insert or update .* \(SQLSTATE 23503\)\nDETAIL: /, 'an error of a deferred constraint, in the commit');
	is(sql('SELECT count(*) FROM child'), '0', 'nothing is left of it');
	like($got[4]{error}, qr/^(?:ж)+$/, 'an error of 50 MB') or diag(substr($got[4]{error}, 0, 100));
	unlike($got[5]{error}, qr/\\x/, 'a character that is cut is left out');
	is(sql(q{SELECT max(octet_length(last_error)) <= 8192 FROM jobq.jobs}), 't', 'what is kept is bounded');
	like($got[6]{error}, qr/^bad \\xff/, 'invalid bytes are shown');
	like($got[7]{error}, qr/^x \(SQLSTATE P0001\)\nDETAIL: \\xc3\nHINT: ééé\\x80\n/, 'in the detail and the hint too');
	like($got[8]{error}, qr/^y{8191}/, 'a cut in the middle of a character');
	like($got[10]{error}, qr/SQLSTATE ABCDE/, 'an SQLSTATE of its own');
	like($got[11]{error}, qr/SQLSTATE JQ004/, 'a result that is too large');
	verify_ok($node);
};

subtest 'time' => sub {
	sql(q{SELECT jobq.create_queue('short', max_attempts => 1), jobq.create_queue('job', max_attempts => 1);
		SELECT jobq.set_handler('short', 'run', timeout => '300 ms'), jobq.set_handler('job', 'run', timeout => '1 min');
		CREATE TABLE locked (i int)});
	my $locker = JobqSession->new($node);
	$locker->query('BEGIN; LOCK TABLE locked');
	my $start = Time::HiRes::time();
	my @got = outcomes(enqueue('short',
			'SELECT pg_sleep(60)', q{DO 'BEGIN LOOP END LOOP; END'}, 'SELECT * FROM locked', 'SELECT count(*) FROM generate_series(1, 1e12)',
			q{DO $$BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN RAISE EXCEPTION 'mine'; END$$},
			q{DO $$BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END$$},
			q{DO $$BEGIN FOR i IN 1..3 LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END$$},
			q{SET lock_timeout = 1; SELECT * FROM locked}, 'SET statement_timeout = 1; SELECT pg_sleep(0.05)', 'SELECT 1'));
	cmp_ok(Time::HiRes::time() - $start, '<', 20, 'none lasts');
	my @late = splice @got, 0, 7;
	is(join("\n", map { ($_->{error} =~ /^(.*)/)[0] } @late), join("\n", ('the handler ran longer than its timeout of 00:00:00.3') x 7),
		'each that ran too long failed, and the message names the limit');
	like($got[0]{error}, qr/SQLSTATE 55P03/, 'its own lock_timeout is the handler\'s affair');
	is($got[2]{state}, 'completed', 'the process goes on');
	$locker->query('ROLLBACK');

	# one that never gives in
	my $pid = executor_pid();
	my ($id) = enqueue('short', q{DO $$BEGIN LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END$$});
	my ($after) = enqueue('short', $harmless);
	@got = outcomes($id, $after);
	is("$got[0]{state} $got[0]{attempt}", 'dead 1', 'a handler that catches every cancel ends with its process');
	is("$got[1]{state} $got[1]{attempt}", 'completed 1', 'the next job counts one attempt');
	isnt(executor_pid(), $pid, 'in a new process');

	# the job's own limit, and its queue's
	my $sleep = quoted('{"sql": "SELECT pg_sleep(60)"}');
	@got = outcomes(sql("SELECT jobq.enqueue('job', $sleep, timeout => '200 ms')"));
	like($got[0]{error}, qr/^the handler ran longer than its timeout of 00:00:00\.2\n/, 'the job\'s timeout is less than the handler\'s');
	@got = outcomes(sql("SELECT jobq.enqueue('short', $sleep, timeout => '1 min')"));
	like($got[0]{error}, qr/^the handler ran longer than its timeout of 00:00:00\.3\n/, 'or the handler\'s is less');
	sql(q{SELECT jobq.alter_queue('job', timeout => '250 ms')});
	@got = outcomes(enqueue('job', 'SELECT pg_sleep(60)'));
	like($got[0]{error}, qr/^the handler ran longer than its timeout of 00:00:00\.25\n/, 'the queue\'s timeout');
	# what counts a failure has its limit too: the queue's own function for the backoff
	sql(q{CREATE FUNCTION forever(attempt int, error text) RETURNS interval LANGUAGE plpgsql AS $$BEGIN LOOP END LOOP; END$$;
		SELECT jobq.create_queue('backoff', max_attempts => 2, backoff => 'function', backoff_function => 'forever', backoff_base => '10 ms'), jobq.set_handler('backoff', 'run')});
	is(join(' ', @{ run_one('backoff', 'SELECT 1/0') }{qw(state attempt)}), 'dead 2', 'a backoff function that does not end is interrupted');
	# from outside
	($id) = enqueue('alice', 'SELECT pg_sleep(60)');
	becomes(q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND wait_event = 'PgSleep')}, 'it runs');
	is(sql(q{SELECT query FROM pg_stat_activity WHERE backend_type = 'jobq executor'}), "job $id of queue \"alice\": a.run(pg_catalog.jsonb)", 'pg_stat_activity shows what');
	is(sql(q{SELECT bool_and(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'jobq executor'}), 't', 'cancelled');
	like((outcomes($id))[0]{error}, qr/^canceling statement due to user request \(SQLSTATE 57014\)/, 'is a failed attempt');
	is(run_one('alice', $harmless)->{state}, 'completed', 'the process goes on');
	verify_ok($node);
};

subtest 'roles and functions that go' => sub {
	sql(q{CREATE ROLE carol; GRANT ALL ON SCHEMA public TO carol;
		SELECT jobq.create_queue('carol', max_attempts => 2, backoff => 'fixed', backoff_base => '10 ms'), jobq.grant_queue('carol', 'carol', '{manage}');
		SET ROLE carol;
		SELECT jobq.set_handler('carol', 'run', timeout => '1 min')});
	# dropped while its job runs: the run ends, the next ones fail
	sql('SELECT pg_advisory_unlock_all()');
	my $gate = JobqSession->new($node);
	$gate->query('SELECT pg_advisory_lock(99)');
	my ($running) = enqueue('carol', 'SELECT pg_advisory_xact_lock(99)');
	becomes(q{SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)}, 'a job runs');
	my ($queued) = enqueue('carol', $harmless);
	sql('DROP OWNED BY carol; DROP ROLE carol');
	$gate->query('SELECT pg_advisory_unlock(99)');
	my @got = outcomes($running, $queued);
	is("$got[1]{state} $got[1]{attempt}", 'dead 2', 'a dropped role\'s jobs fail');
	like($got[1]{error}, qr/^role "carol" of handler public\.run\(pg_catalog\.jsonb\) does not exist any more \(SQLSTATE 42704\)\nHINT: /, 'with that reason');
	isnt($got[0]{state}, 'none', 'the one that ran has ended: ' . $got[0]{state});
	is(sql(q{SELECT usable FROM jobq.handlers WHERE queue = 'carol'}), 'f', 'the view shows it');
	is(run_one('bob', $harmless)->{state}, 'completed', 'other handlers go on');
	sql(q{SELECT jobq.set_handler('carol', 'run')});
	is(run_one('carol', $harmless)->{state}, 'completed', 'another role sets it right');
	is(sql("SELECT jobq.redrive('carol')") > 0 ? 'some' : 'none', 'some', 'the dead ones are redriven');
	becomes(q{SELECT NOT EXISTS (SELECT FROM jobq.job)}, 'and done');

	# the function
	sql(q{CREATE FUNCTION gone(p jsonb) RETURNS int LANGUAGE sql AS 'SELECT 1'; SELECT jobq.create_queue('gone', max_attempts => 1); SELECT jobq.set_handler('gone', 'gone')});
	is(run_one('gone', '')->{result}, '1', 'a function');
	sql(q{CREATE OR REPLACE FUNCTION gone(p jsonb) RETURNS int LANGUAGE sql AS 'SELECT 2'});
	is(run_one('gone', '')->{result}, '2', 'replaced: the next job runs the new one');
	sql('DROP FUNCTION gone');
	like(run_one('gone', '')->{error}, qr/^handler public\.gone\(pg_catalog\.jsonb\) does not exist any more \(SQLSTATE 42883\)/, 'dropped');
	sql(q{CREATE FUNCTION gone(p jsonb) RETURNS SETOF int LANGUAGE sql AS 'SELECT 1'});
	like(run_one('gone', '')->{error}, qr/^public\.gone\(pg_catalog\.jsonb\) cannot be a handler for what it returns \(SQLSTATE 42P13\)/, 'made anew as something that cannot be a handler');
	sql(q{DROP FUNCTION gone; CREATE FUNCTION gone(p jsonb) RETURNS text LANGUAGE sql AS 'SELECT current_user::text || 3'});
	is(run_one('gone', '')->{state}, 'completed', 'made anew: runs');
	verify_ok($node);
};

subtest 'jobs taken together' => sub {
	sql(q{CREATE SEQUENCE starts;
		CREATE TABLE ran (id serial, n int);
		CREATE FUNCTION batch(p jsonb) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM nextval('starts');
			INSERT INTO ran (n) VALUES ((p->>'n')::int);
			PERFORM pg_sleep((p->>'sleep')::float8);
			IF p ? 'fail' THEN RAISE EXCEPTION 'failed'; END IF;
		END$$;
		SELECT jobq.create_queue('batch', max_attempts => 1);
		SELECT jobq.set_handler('batch', 'batch', timeout => '1 min')});
	# Jobs 1 to 10; several are taken at a time, for those before were short. Returns their ids when the first one sleeps.
	my $start = sub {
		my ($of_first, $group) = @_;
		sql(q{SELECT count(*) FROM jobq.enqueue_many('batch', (SELECT jsonb_agg('{"n": 0}'::jsonb) FROM generate_series(1, 200)))});
		poll_until('warmed up', 'SELECT NOT EXISTS (SELECT FROM jobq.job)', node => $node);
		sql(q{TRUNCATE ran; SELECT setval('starts', 1, false)});
		my @ids = split /\n/, sql("SELECT jobq.enqueue('batch', jsonb_build_object('n', n) || CASE n WHEN 1 THEN '$of_first'::jsonb ELSE '{}' END, group_key => $group) FROM generate_series(1, 10) n");
		becomes(q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND wait_event = 'PgSleep')}, 'the first one runs');
		cmp_ok(sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'batch' AND state = 'active'}), '>=', 3, 'others were taken with it');
		return @ids;
	};
	my @ids = $start->('{"sleep": 0.5}', 'NULL');
	sql("SELECT jobq.cancel($ids[1])");
	becomes('SELECT NOT EXISTS (SELECT FROM jobq.job)', 'all end');
	is(sql("SELECT state FROM jobq.job($ids[1])"), 'cancelled', 'one that has not begun can be cancelled');
	is(sql(q{SELECT string_agg(n::text, ' ' ORDER BY id) FROM ran}), '1 3 4 5 6 7 8 9 10', 'and never starts');

	@ids = $start->('{"sleep": 60}', 'NULL');
	is(sql(q{SELECT jobq.stop('100 ms')}), '0', 'stop()');
	is(sql("SELECT string_agg(DISTINCT state || attempt, ' ') FROM jobq.jobs WHERE job_id >= $ids[0]"), 'ready0', 'no attempt is counted, neither of the one that ran nor of the others');
	is(sql("SELECT jobq.start(), jobq.cancel($ids[0])"), 't|cancelled', 'start()');
	becomes('SELECT NOT EXISTS (SELECT FROM jobq.job)', 'they run');

	@ids = $start->('{"sleep": 0.3, "fail": true}', q{'g'});
	becomes("SELECT state = 'dead' FROM jobq.job($ids[0])", 'the head of a group fails');
	becomes(q{SELECT state = 'BLOCKED' FROM jobq.groups WHERE queue = 'batch'}, 'which blocks the group');
	is(run_one('bob', $harmless)->{state}, 'completed', 'the process goes on');
	is(sql('SELECT last_value FROM starts'), '1', 'those that were taken with it have not started');
	is(sql("SELECT string_agg(DISTINCT state || attempt, ' ') FROM jobq.jobs WHERE job_id BETWEEN $ids[1] AND $ids[-1]"), 'ready0', 'and count no attempt');
	sql(q{SELECT jobq.unblock_group('batch', 'g', 'skip')});
	becomes('SELECT NOT EXISTS (SELECT FROM jobq.job)', 'they run when it goes on');
	is(sql(q{SELECT string_agg(n::text, ' ' ORDER BY id) FROM ran}), '2 3 4 5 6 7 8 9 10', 'in order');
	verify_ok($node);
};

subtest 'memory' => sub {
	plan skip_all => 'no /proc' unless -e "/proc/$$/status";
	sql(q{SELECT jobq.create_queue('many', max_attempts => 1, keep_completed => '0', keep_dead => '0');
		CREATE FUNCTION many(p jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$BEGIN IF p = '0' THEN RAISE EXCEPTION 'now and then'; END IF; RETURN p; END$$;
		SELECT jobq.set_handler('many', 'many')});
	my $rss = sub {
		my ($kb) = slurp_file('/proc/' . executor_pid() . '/status') =~ /^RssAnon:\s+(\d+) kB/m;
		return $kb;
	};
	my $run = sub {
		sql("SELECT count(*) FROM jobq.enqueue_many('many', (SELECT jsonb_agg(n % 20) FROM generate_series(1, $_[0]) n))");
		becomes(q{SELECT NOT EXISTS (SELECT FROM jobq.job)}, "$_[0] jobs", 60);
	};
	$run->(2000);
	my $before = $rss->();
	my $pid = executor_pid();
	$run->(10000);
	is(executor_pid(), $pid, 'the same process');
	cmp_ok($rss->() - $before, '<', 1024, 'its memory does not grow by 1 MB');
	is(sql(q{SELECT completed_total || ' ' || dead_total FROM jobq.queues WHERE queue = 'many'}), '11400 600', 'all were counted');
	verify_ok($node);
};

$node->stop;
server_alive_ok($node);

done_testing();
