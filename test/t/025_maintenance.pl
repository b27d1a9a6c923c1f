# What administrators do to tables: rewriting, reindexing, extra columns and indexes, publications. Claims stay right through all of it.
use strict;
use warnings;

use Jobq;
use JobqSession;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = jobq_node('main', init => [ allows_streaming => 'logical' ], conf => "jobq.rescan_interval = 1s\nmax_connections = 40\n");
my @tables = qw(job ready delayed lease failure dead);

sub sql { return $node->safe_psql('postgres', shift); }

# Every index of ours, and the administrator's, has what its table has.
sub indexes_ok
{
	my ($what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', q{
		SELECT bt_index_check(i.indexrelid, true)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am a ON a.oid = x.relam
		WHERE c.relnamespace = 'jobq'::regnamespace AND i.indisvalid AND a.amname = 'btree'});
	is("$rc $err", '0 ', "$what: indexes are consistent");
	return;
}

# Jobs carry their own number, so that a row read through a wrong address shows.
sub load
{
	my ($queue, $n) = @_;
	sql("INSERT INTO sent SELECT job_id, ord, '$queue' FROM jobq.enqueue_many('$queue', (SELECT jsonb_agg(jsonb_build_object('n', n)) FROM generate_series(1, $n) n))");
	return;
}

# Takes $n jobs into the table hand; every one must have the payload it was sent with.
sub take_ok
{
	my ($what, $queue, $n, $expected) = @_;
	sql("TRUNCATE hand; INSERT INTO hand SELECT job_id, token, payload FROM jobq.dequeue('$queue', $n)");
	is(sql('SELECT count(*) FROM hand'), $expected // $n, "$what: jobs are taken");
	is(sql(q{SELECT count(*) FROM hand h LEFT JOIN sent s USING (job_id) WHERE (h.payload ->> 'n')::int IS DISTINCT FROM s.n}), '0', "$what: with their own payload");
	return;
}

sub complete_ok
{
	my ($what) = @_;
	is(sql('SELECT count(*) FROM (SELECT jobq.complete(job_id, token) AS ok FROM hand) x WHERE NOT ok'), '0', "$what: and completed");
	return;
}

sql('CREATE EXTENSION amcheck; CREATE TABLE sent (job_id bigint PRIMARY KEY, n int, queue text); CREATE UNLOGGED TABLE hand (job_id bigint, token bigint, payload jsonb)');

# Statistics of an empty table do not matter, and neither do bad settings.
sql(q{SELECT jobq.create_queue('q', lease => '1 hour', backoff => 'fixed', backoff_base => '0 s')});
sql("ANALYZE jobq.$_") for @tables;
load('q', 5000);
for my $settings ('', 'SET plan_cache_mode = force_generic_plan; SET enable_indexscan = off; SET enable_bitmapscan = off;')
{
	# The first claim of a session also reads catalogs.
	my $plan = sql("$settings SELECT jobq.dequeue('q') \\g /dev/null\nEXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM jobq.dequeue('q')");
	my ($hit) = $plan =~ /"Shared Hit Blocks": (\d+)/;
	my ($read) = $plan =~ /"Shared Read Blocks": (\d+)/;
	cmp_ok($hit + $read, '<', 60, 'a claim reads a handful of pages after ANALYZE on an empty table') or diag($plan);
}

# Rewritten tables: addresses in tickets and leases point to other rows, or past the end.
for my $rewrite ('VACUUM FULL', 'CLUSTER')
{
	sql(q{SELECT jobq.purge_queue('q', '{ready,delayed}')});
	load('q', 400);
	take_ok("$rewrite, before", 'q', 300);
	# Leases of half of them stay, the others go, so that the table shrinks; some jobs have tickets of every kind.
	sql('CREATE TABLE keep AS SELECT * FROM hand WHERE job_id % 3 = 0');
	sql('DELETE FROM hand WHERE job_id % 3 = 0');
	complete_ok("$rewrite, before");
	load('q', 100);
	sql(q{SELECT jobq.nack(job_id, token) FROM keep WHERE job_id % 9 = 0; DELETE FROM keep WHERE job_id % 9 = 0});
	for my $table (@tables)
	{
		my $index = { job => 'job_pkey', ready => 'ready_scan', delayed => 'delayed_due', lease => 'lease_pkey', failure => 'failure_job', dead => 'dead_pkey' }->{$table};
		sql($rewrite eq 'CLUSTER' ? "CLUSTER jobq.$table USING $index" : "VACUUM FULL jobq.$table");
	}
	take_ok("$rewrite, after", 'q', 1000, 200 + sql(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'q' AND state = 'ready' AND attempt = 1}));
	complete_ok("$rewrite, after");
	sql('TRUNCATE hand; INSERT INTO hand SELECT * FROM keep; DROP TABLE keep');
	complete_ok("$rewrite: leases from before");
	verify_ok($node, "$rewrite: verify");
	indexes_ok($rewrite);
}

# The same past the end of the relation, with rows that stay where their addresses are wrong.
load('q', 2000);
sql(q{SELECT jobq.delete_jobs(array_agg(job_id)) FROM jobq.jobs WHERE queue = 'q' AND state = 'ready' AND job_id < (SELECT max(job_id) - 20 FROM jobq.jobs)});
sql('VACUUM FULL jobq.job');
is(sql(q{SELECT count(*) > 0 FROM jobq.ready r WHERE (job_tid::text::point)[0] >= pg_relation_size('jobq.job') / 8192}), 't', 'addresses past the end');
take_ok('past the end', 'q', 100, 21);
sql('VACUUM FULL jobq.job');
complete_ok('past the end');
verify_ok($node, 'past the end: verify');

# Emptied by hand, all at once.
load('q', 100);
take_ok('TRUNCATE, before', 'q', 10);
sql('TRUNCATE ' . join(', ', map { "jobq.$_" } @tables));
take_ok('TRUNCATE', 'q', 10, 0);
load('q', 10);
take_ok('TRUNCATE, after', 'q', 20, 10);
complete_ok('TRUNCATE, after');
$node->restart;
poll_until('counters are exact', 'SELECT bool_and(exact) FROM jobq.queues', node => $node);
verify_ok($node, 'TRUNCATE: verify');

# Columns, indexes and triggers that are not ours.
sql(q{
	ALTER TABLE jobq.job ADD COLUMN note text;
	ALTER TABLE jobq.job ADD COLUMN gone int;
	ALTER TABLE jobq.ready ADD COLUMN note text;
	ALTER TABLE jobq.lease ADD COLUMN note text;
	ALTER TABLE jobq.dead ADD COLUMN note text;
	ALTER TABLE jobq.queue ADD COLUMN note text;
	ALTER TABLE jobq.job DROP COLUMN gone;
	CREATE INDEX dba_expression ON jobq.job ((payload ->> 'n'), queue_id);
	CREATE INDEX dba_partial ON jobq.job (created) WHERE priority < 0;
	CREATE INDEX dba_gin ON jobq.job USING gin (payload);
	CREATE INDEX dba_ready ON jobq.ready (attempt, job_id);
	CREATE INDEX dba_lease ON jobq.lease (worker);
	CREATE FUNCTION dba() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
	CREATE TRIGGER dba BEFORE INSERT OR UPDATE OR DELETE ON jobq.job FOR EACH ROW EXECUTE FUNCTION dba();
	CREATE TRIGGER dba AFTER INSERT OR DELETE ON jobq.ready FOR EACH ROW EXECUTE FUNCTION dba()});
load('q', 300);
sql(q{SELECT jobq.enqueue('q', '{"n": 0}', priority => -1)});
sql(q{INSERT INTO sent SELECT max(job_id), 0, 'q' FROM jobq.jobs});
take_ok('extra objects', 'q', 200);
sql(q{SELECT jobq.nack(job_id, token) FROM hand ORDER BY job_id LIMIT 50});
sql(q{DELETE FROM hand WHERE job_id IN (SELECT job_id FROM hand ORDER BY job_id LIMIT 50)});
complete_ok('extra objects');
is( sql(q{SET enable_seqscan = off; SELECT count(*) FROM jobq.job j WHERE j.payload ->> 'n' IS NOT NULL}), '151', 'an extra index finds what is there');
is( sql(q{SET enable_seqscan = off; SELECT count(*) FROM jobq.job WHERE payload @> '{"n": 250}'}), '1', 'one of another kind, too');
is( sql(q{SET enable_seqscan = on; SELECT count(*) FROM jobq.ready}), sql(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM jobq.ready WHERE attempt >= 0}),
	'and one of ready');
indexes_ok('extra objects');
verify_ok($node, 'extra objects: verify');
sql('CREATE UNIQUE INDEX dba_unique ON jobq.job (id, queue_id)');
load('q', 10);
sql('DROP INDEX jobq.dba_unique');
take_ok('an index made and dropped', 'q', 1000, 161);
complete_ok('an index made and dropped');

# A publication of everything: rows without a replica identity leave all the same.
sql(q{CREATE PUBLICATION everything FOR ALL TABLES});
sql(q{SELECT pg_create_logical_replication_slot('slot', 'test_decoding')});
sql(q{SELECT jobq.create_queue('p', max_attempts => 2, keep_completed => NULL, keep_dead => '0 s', backoff => 'fixed', backoff_base => '10 ms')});
load('p', 30);
take_ok('publication', 'p', 20);
sql(q{SELECT jobq.nack(job_id, token) FROM hand WHERE job_id % 2 = 0; DELETE FROM hand WHERE job_id % 2 = 0});
complete_ok('publication');
sql(q{SELECT count(*) FROM (SELECT jobq.fail(job_id, token, retry => false) FROM jobq.dequeue('p', 5)) x});
sql(q{SELECT jobq.cancel(job_id) FROM jobq.jobs WHERE queue = 'p' AND state = 'ready' ORDER BY job_id LIMIT 1});
sql(q{SELECT jobq.extend(l.job_ids[1], l.token) FROM jobq.lease l});
sql(q{SELECT jobq.enqueue('p', delay => '10 ms')});
poll_until('the scheduler works under a publication', q{SELECT delayed = 0 FROM jobq.queues WHERE queue = 'p'}, node => $node);
sql(q{SELECT jobq.alter_queue('p', keep_completed => '1 ms'); SELECT jobq.pause_queue('p'); SELECT jobq.resume_queue('p')});
sql(q{SELECT jobq.fence('r', 1); SELECT jobq.fence('r', 2)});
is((sqlstate_of($node, q{SELECT jobq.purge_queue('p', '{ready,delayed,dead,completed}')}))[0], '00000', 'purge under a publication');
is((sqlstate_of($node, q{SELECT jobq.drop_queue('p', force => true)}))[0], '00000', 'drop_queue under a publication');
cmp_ok(sql(q{SELECT count(*) FROM pg_logical_slot_get_changes('slot', NULL, NULL) WHERE data LIKE 'table jobq.job: INSERT%'}), '>=', 30, 'what we write can be decoded');
sql(q{SELECT pg_drop_replication_slot('slot')});
my @wanted = grep { /ERROR:.*replica identity/ } split /\n/, slurp_file($node->logfile);
is("@wanted", '', 'nothing wanted a replica identity');
verify_ok($node, 'publication: verify');

# The original has come round a few generations.
$node->stop;
$node->set_standby_mode;
$node->start;
$node->promote;
poll_until('promoted', 'SELECT NOT pg_is_in_recovery()', node => $node);
$node->stop;
$node->set_standby_mode;
$node->start;
$node->promote;
poll_until('promoted again', 'SELECT NOT pg_is_in_recovery()', node => $node);

# A subscriber is a copy: it runs nothing until adopt(), and then its ids and tokens come after those of the original.
my $other = jobq_node('subscriber', init => [ allows_streaming => 'logical' ]);
load('q', 20);
my $token = sql(q{SET jobq.async_dequeue = off; SELECT max(token) FROM jobq.dequeue('q', 5)});
my $id = sql('SELECT max(job_id) FROM jobq.jobs');
$other->safe_psql('postgres', 'CREATE TABLE sent (job_id bigint PRIMARY KEY, n int, queue text); CREATE UNLOGGED TABLE hand (job_id bigint, token bigint, payload jsonb)');
$other->safe_psql('postgres', "ALTER TABLE jobq.$_ ADD COLUMN note text") for qw(job ready lease dead queue);
$other->safe_psql('postgres', q{CREATE SUBSCRIPTION sub CONNECTION $$} . $node->connstr('postgres') . q{$$ PUBLICATION everything});
poll_until('the subscriber has it all', q{SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')}, node => $other);
is($other->safe_psql('postgres', q{SELECT count(*) FROM jobq.job}), '20', 'the jobs are there');
my ($state, $message) = sqlstate_of($other, q{SELECT * FROM jobq.dequeue('q')});
is($state, '55000', 'a subscriber runs nothing');
like($message, qr/HINT:.*adopt/s, 'until adopt()');
$other->safe_psql('postgres', q{ALTER SUBSCRIPTION sub DISABLE; ALTER SUBSCRIPTION sub SET (slot_name = NONE); DROP SUBSCRIPTION sub});
$other->safe_psql('postgres', q{SELECT jobq.adopt()});
cmp_ok($other->safe_psql('postgres', q{SELECT jobq.enqueue('q')}), '>', $id, 'after adopt() ids go on');
cmp_ok($other->safe_psql('postgres', q{SELECT min(token) FROM jobq.dequeue('q', 100)}), '>', $token, 'and tokens');
$other->safe_psql('postgres', q{SELECT jobq.create_queue('another')});
poll_until('counters are exact there', 'SELECT bool_and(exact) FROM jobq.queues', node => $other);
verify_ok($other, 'subscriber: verify');
server_alive_ok($other);
$other->stop;
sql('DROP PUBLICATION everything');
sql(q{SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots});

# All of it while jobs flow.
sql(q{SELECT jobq.create_queue('flow', lease => '1 hour', max_attempts => 1000, backoff => 'fixed', backoff_base => '0 s')});
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/flow.sql", q{
SELECT count(*) FROM jobq.enqueue_many('flow', '[1, 2, 3]');
SELECT jobq.enqueue('flow', delay => '5 ms');
SELECT count(*) FROM (SELECT jobq.nack(job_id, token) FROM jobq.dequeue('flow')) x;
SELECT count(*) FROM (SELECT jobq.complete_many(array_agg(job_id), array_agg(token)) FROM jobq.dequeue('flow', 4)) x;
});
my ($out, $err) = ('', '');
my $flow = IPC::Run::start([ $node->installed_command('pgbench'), '-n', '-h', $node->host, '-p', $node->port, '-c', '4', '-T', '12', '-f', "$dir/flow.sql", 'postgres' ],
	'<', \undef, '>', \$out, '2>', \$err);
poll_until('jobs flow', q{SELECT completed_total > 100 FROM jobq.queues WHERE queue = 'flow'}, node => $node);
my $log_start = -s $node->logfile;
my $rounds = 0;
my $running = sub { eval { $flow->pump_nb }; return $flow->pumpable; };
while ($running->())
{
	for my $table (qw(ready job lease delayed failure))
	{
		sql("REINDEX TABLE CONCURRENTLY jobq.$table");
		sql("VACUUM FULL jobq.$table");
		sql("REINDEX TABLE jobq.$table");
		sql("VACUUM (ANALYZE) jobq.$table");
		last unless $running->();
	}
	sql('CREATE INDEX CONCURRENTLY dba_flow ON jobq.ready (priority)');
	sql('DROP INDEX CONCURRENTLY jobq.dba_flow');
	$rounds++;
}
$flow->finish;
cmp_ok($rounds, '>', 0, 'maintenance went round while jobs flowed');
my @errors = grep { /(ERROR|FATAL|PANIC):/ } split /\n/, slurp_file($node->logfile, $log_start);
is("@errors[0 .. ($#errors < 3 ? $#errors : 3)]", '', 'no statement failed meanwhile');
is($flow->result(0), 0, 'and no client') or diag($err);
indexes_ok('flow');
my $live = q{SELECT count(*) = 0 FROM jobq.jobs WHERE queue = 'flow' AND state IN ('ready', 'delayed', 'active')};
poll_until('all jobs get done', sub {
	sql(q{SELECT count(*) FROM (SELECT jobq.complete(job_id, token) FROM jobq.dequeue('flow', 1000)) x});
	return sql($live) eq 't';
}, limit => 20) or diag(sql(q{SELECT state, attempt, count(*) FROM jobq.jobs WHERE queue = 'flow' GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 10}));
verify_ok($node, 'verify at the end');
server_alive_ok($node);
$node->stop;
done_testing();
