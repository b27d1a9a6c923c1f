/*-------------------------------------------------------------------------
 *
 * meta.c
 *		What this session knows of the installation: oids of the tables,
 *		the extension's version, the database's identity, the queues.
 *
 * All of it is cached and dropped by relcache invalidation: of our tables
 * for the oids, of jobq.queue and jobq.origin (whose triggers ask for it)
 * for queues and identity. An invalidation only marks things stale; they are
 * renewed at the next look, so a QueueInfo pointer stays good for a verb.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "eventkind.h"
#include "guc.h"
#include "meta.h"
#include "timeutil.h"

/* Columns of jobq.queue, as the extension script makes it. */
enum
{
	Anum_queue_id = 1,
	Anum_queue_name,
	Anum_queue_owner,
	Anum_queue_paused,
	Anum_queue_max_attempts,
	Anum_queue_lease,
	Anum_queue_timeout,
	Anum_queue_backoff,
	Anum_queue_backoff_base,
	Anum_queue_backoff_cap,
	Anum_queue_backoff_function,
	Anum_queue_concurrency,
	Anum_queue_rate_limit,
	Anum_queue_rate_interval,
	Anum_queue_rate_burst,
	Anum_queue_keep_completed,
	Anum_queue_keep_dead,
	Anum_queue_dead_letter_queue,
	Anum_queue_max_payload_bytes,
	Anum_queue_notify,
	Anum_queue_on_retry,
	Anum_queue_on_dead,
	Anum_queue_group_rate_limit,
	Anum_queue_group_rate_interval,
	Anum_queue_group_lease,
	Anum_queue_isolate_above,
	Anum_queue_created,
	Anum_queue_events,
	Anum_queue_alert_dead,
	Anum_queue_alert_dead_interval,
	Anum_queue_limit_name,
	Anum_queue_ageing,
	Natts_queue = Anum_queue_ageing
};

typedef struct TableName
{
	const char *name;
	const char *indexes[3]; /* in the order of store.h's numbers */
} TableName;

static const TableName table_names[TABLE_HISTORY] = {
	[TABLE_QUEUE] = {"queue", {"queue_pkey", "queue_name_key"}},
	[TABLE_JOB] = {"job", {"job_pkey", "job_unique_key", "job_expires"}},
	[TABLE_READY] = {"ready", {"ready_scan", "ready_job"}},
	[TABLE_DELAYED] = {"delayed", {"delayed_due", "delayed_job"}},
	[TABLE_LEASE] = {"lease", {"lease_pkey", "lease_until"}},
	[TABLE_FAILURE] = {"failure", {"failure_job"}},
	[TABLE_DEAD] = {"dead", {"dead_pkey", "dead_queue", "dead_died"}},
	[TABLE_IDENTITY] = {"identity", {NULL}},
	[TABLE_ORIGIN] = {"origin", {NULL}},
	[TABLE_JOB_GROUP] = {"job_group", {"job_group_pkey", "job_group_key"}},
	[TABLE_LINE] = {"line", {"line_order", "line_job"}},
	[TABLE_HELD] = {"held", {"held_pkey"}},
	[TABLE_GROUP_SETTING] = {"group_setting", {"group_setting_pkey"}},
	[TABLE_GROUP_RATE] = {"group_rate", {"group_rate_key"}},
	[TABLE_UNIQUE_WINDOW] = {"unique_window", {"unique_window_pkey", "unique_window_until"}},
	[TABLE_QUEUE_ACL] = {"queue_acl", {"queue_acl_pkey"}},
	[TABLE_DEPENDENCY] = {"dependency", {"dependency_pkey", "dependency_on"}},
};

static const char *const sequence_names[NUM_SEQUENCES] = {
	[SEQ_JOB_BLOCK] = "job_block_seq",           [SEQ_TOKEN_BLOCK] = "token_block_seq", [SEQ_TOKEN_BASE] = "token_base",
	[SEQ_TOKEN_GENERATION] = "token_generation", [SEQ_TOKEN_SYSTEM] = "token_system",
};

typedef struct QueueName
{
	char name[JOBQ_MAX_QUEUE_NAME + 1]; /* hash key */
	QueueInfo *queue;
} QueueName;

static bool registered = false;
static bool installation_stale = true;
static bool queues_stale = true;
static bool adopted_known = false;
static bool adopted = false;
static Oid extension_oid = InvalidOid;
static Oid schema_oid = InvalidOid;
static Oid table_oids[NUM_TABLES];
static Oid index_oids[NUM_TABLES][3];
static Oid sequence_oids[NUM_SEQUENCES];
static DbSlot *db_slot = NULL;
static HTAB *queues_by_id = NULL;
static HTAB *queues_by_name = NULL;

/* Relcache invalidation: nothing but flags may change here. */
static void
relation_invalidated(Datum arg, Oid relid)
{
	if (!OidIsValid(relid))
	{
		installation_stale = queues_stale = true;
		return;
	}
	for (int i = 0; i < NUM_TABLES; i++)
	{
		if (table_oids[i] != relid)
			continue;
		installation_stale = true;
		if (i == TABLE_QUEUE || i == TABLE_ORIGIN)
			queues_stale = true;
	}
}

/* Registers the callback. Called from _PG_init; touches no catalog. */
void
meta_init(void)
{
	if (!registered)
		CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
	registered = true;
}

/* Looks the extension up anew: its oid, schema and version. */
static bool
find_extension(bool missing_ok)
{
	Relation rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple tuple;
	bool isnull;
	char *version = NULL;

	extension_oid = InvalidOid;
	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("jobq"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);
		Datum datum = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(rel), &isnull);

		extension_oid = form->oid;
		schema_oid = form->extnamespace;
		version = TextDatumGetCString(datum);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);

	if (!OidIsValid(extension_oid))
	{
		if (missing_ok)
			return false;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"jobq\" does not exist in this database"), errhint("Run CREATE EXTENSION jobq.")));
	}
	if (strcmp(version, JOBQ_VERSION) != 0)
	{
		extension_oid = InvalidOid;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"jobq\" is of version %s but the loaded library is of version %s", version,
						JOBQ_VERSION),
				 errhint("Run ALTER EXTENSION jobq UPDATE, or restart the server if the library on disk is newer.")));
	}
	return true;
}

/* Brings the cached oids up to date. */
static bool
resolve_installation(bool missing_ok)
{
	if (!installation_stale && OidIsValid(extension_oid))
		return true;
	installation_stale = false; /* an invalidation while we look sets it again */
	memset(table_oids, 0, sizeof(table_oids));
	memset(index_oids, 0, sizeof(index_oids));
	memset(sequence_oids, 0, sizeof(sequence_oids));
	db_slot = NULL;
	if (!find_extension(missing_ok))
	{
		installation_stale = true;
		return false;
	}
	/* so that the callback knows them */
	(void) meta_table_oid(TABLE_QUEUE);
	(void) meta_table_oid(TABLE_ORIGIN);
	return true;
}

static Oid
find_relation(const char *name)
{
	Oid oid = get_relname_relid(name, schema_oid);

	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("relation \"jobq.%s\" does not exist", name),
				 errhint("The installation is damaged: restore the relation, or drop and create the extension.")));
	return oid;
}

/* Oid of one of our tables. Needs resolve_installation (meta_begin) before. */
Oid
meta_table_oid(JobqTable table)
{
	if (!OidIsValid(table_oids[table]))
	{
		char name[NAMEDATALEN];

		if (table < TABLE_HISTORY)
			strlcpy(name, table_names[table].name, sizeof(name));
		else if (table == TABLE_HISTORY_FAR)
			strlcpy(name, "history_far", sizeof(name));
		else
			snprintf(name, sizeof(name), "history_%d", (int) (table - TABLE_HISTORY));
		table_oids[table] = find_relation(name);
	}
	return table_oids[table];
}

/* Oid of the n-th of our indexes on a table; InvalidOid past the last. */
Oid
meta_index_oid(JobqTable table, int n)
{
	if (n >= 3)
		return InvalidOid;
	(void) meta_table_oid(table); /* invalidations come by the table: it must be known as long as its indexes are */
	if (!OidIsValid(index_oids[table][n]))
	{
		char name[NAMEDATALEN];

		if (table < TABLE_HISTORY)
		{
			if (table_names[table].indexes[n] == NULL)
				return InvalidOid;
			strlcpy(name, table_names[table].indexes[n], sizeof(name));
		}
		else if (table == TABLE_HISTORY_FAR && n < 2)
			strlcpy(name, n == 0 ? "history_far_id" : "history_far_expiry", sizeof(name));
		else if (table != TABLE_HISTORY_FAR && n == 0)
			snprintf(name, sizeof(name), "history_%d_id", (int) (table - TABLE_HISTORY));
		else
			return InvalidOid;
		index_oids[table][n] = find_relation(name);
	}
	return index_oids[table][n];
}

Oid
meta_sequence_oid(JobqSequence sequence)
{
	if (!OidIsValid(sequence_oids[sequence]))
		sequence_oids[sequence] = find_relation(sequence_names[sequence]);
	return sequence_oids[sequence];
}

/* Oid of the extension; with missing_ok InvalidOid where there is none. Error 55000 on another version than the library's. */
Oid
meta_extension_oid(bool missing_ok)
{
	return resolve_installation(missing_ok) ? extension_oid : InvalidOid;
}

/* Brings cached oids up to date after a lock that may have let invalidations in: REINDEX CONCURRENTLY gives an index's name to another. */
void
meta_revalidate(void)
{
	(void) resolve_installation(false);
}

/* This database's slot in shared memory. */
DbSlot *
meta_db(void)
{
	if (db_slot == NULL || db_slot->db_oid != MyDatabaseId || db_slot->ext_oid != extension_oid)
		db_slot = shmem_db(MyDatabaseId, extension_oid);
	return db_slot;
}

/*
 * First call of every verb: checks that it may run here and now.
 *
 * verb: its name for messages. Errors: 55000 library not preloaded, extension missing or of another version, jobq.enabled off,
 * database not adopted; 25006 read-only or in recovery; 0A000 isolation level.
 */
DbSlot *
meta_begin(const char *verb, VerbNeeds needs)
{
	if (jobq_shared == NULL)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("jobq must be loaded via shared_preload_libraries"),
						errhint("Add jobq to shared_preload_libraries and restart the server.")));
	if (needs & VERB_WRITES)
	{
		char what[NAMEDATALEN];

		snprintf(what, sizeof(what), "%s()", verb);
		PreventCommandIfReadOnly(what);
		PreventCommandIfParallelMode(what);
		PreventCommandDuringRecovery(what);
	}
	if (needs & (VERB_TAKES & ~VERB_WRITES) || needs & VERB_WAITS)
	{
		if (RecoveryInProgress())
			ereport(ERROR,
					(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION), errmsg("cannot execute %s() during recovery", verb),
					 errhint("Connect to the primary server.")));
		if (IsolationUsesXactSnapshot())
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("%s() needs the isolation level READ COMMITTED", verb),
							errhint("Use BEGIN ISOLATION LEVEL READ COMMITTED.")));
	}

	/* A queue that was altered, paused or dropped by a commit before this call must be seen as that. */
	AcceptInvalidationMessages();
	(void) resolve_installation(false);

	if (needs & (VERB_TAKES & ~VERB_WRITES) || needs & VERB_WAITS)
	{
		if (!jobq_enabled)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("jobq is disabled on this server"),
					 errhint("Set jobq.enabled to on if this server is to run jobs.")));
	}
	/* leases that came with a copy belong to workers of the original: their tokens do nothing here */
	if ((needs & ~VERB_WRITES) != 0 && !meta_adopted())
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("the jobs of this database belong to another database, of which it is a copy"),
						errhint("Run SELECT jobq.adopt() if this copy is to run them.")));
	return meta_db();
}

/* The only uuid of a one-row table, read with the latest snapshot; false when it is empty. */
static bool
read_identity(JobqTable table, pg_uuid_t *id, Oid *db_oid)
{
	Relation rel = table_open(meta_table_oid(table), AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple tuple = systable_getnext(scan);
	bool found = HeapTupleIsValid(tuple);
	bool isnull;

	if (found)
	{
		*id = *DatumGetUUIDP(heap_getattr(tuple, 1, RelationGetDescr(rel), &isnull));
		if (db_oid)
			*db_oid = DatumGetObjectId(heap_getattr(tuple, 2, RelationGetDescr(rel), &isnull));
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return found;
}

/* Whether a table has a visible row. */
static bool
has_row(JobqTable table)
{
	Relation rel = table_open(meta_table_oid(table), AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	bool found = HeapTupleIsValid(systable_getnext(scan));

	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return found;
}

/* Forgets the cached queues and the identity after an invalidation. */
static void
drop_stale_queues(void)
{
	HASH_SEQ_STATUS seq;
	QueueInfo *queue;
	QueueName *name;

	if (!queues_stale)
		return;
	queues_stale = false;
	adopted_known = false;
	if (queues_by_id == NULL)
		return;
	hash_seq_init(&seq, queues_by_id);
	while ((queue = hash_seq_search(&seq)) != NULL)
		queue->exists = false;
	hash_seq_init(&seq, queues_by_name);
	while ((name = hash_seq_search(&seq)) != NULL)
		hash_search(queues_by_name, name->name, HASH_REMOVE, NULL);
}

/*
 * Whether this database may run its jobs: it is the one they were made in, or adopt() was called. A database without origin row has
 * no queue yet, or is being restored.
 */
bool
meta_adopted(void)
{
	pg_uuid_t identity;
	pg_uuid_t origin;
	Oid db_oid = InvalidOid;

	drop_stale_queues();
	if (adopted_known)
		return adopted;
	adopted = read_identity(TABLE_IDENTITY, &identity, &db_oid) && db_oid == MyDatabaseId;
	if (adopted && read_identity(TABLE_ORIGIN, &origin, NULL))
		adopted = memcmp(&identity, &origin, sizeof(origin)) == 0;
	else if (adopted)
	{
		/* nothing made here yet; otherwise it is a restore under way, whose tables may come in any order */
		adopted = !has_row(TABLE_QUEUE) && !has_row(TABLE_JOB) && !has_row(TABLE_READY) && !has_row(TABLE_DELAYED) &&
				  !has_row(TABLE_LEASE) && !has_row(TABLE_DEAD);
		return adopted; /* not cached: the next row may change it */
	}
	adopted_known = true;
	return adopted;
}

static int64
interval_or(Datum datum, bool isnull, int64 otherwise)
{
	if (isnull)
		return otherwise;
	return interval_usecs(DatumGetIntervalP(datum), "interval", PG_INT64_MIN, PG_INT64_MAX);
}

static BackoffKind
backoff_kind(const char *name)
{
	if (strcmp(name, "fixed") == 0)
		return BACKOFF_FIXED;
	if (strcmp(name, "linear") == 0)
		return BACKOFF_LINEAR;
	if (strcmp(name, "exponential") == 0)
		return BACKOFF_EXPONENTIAL;
	if (strcmp(name, "function") == 0)
		return BACKOFF_FUNCTION;
	return BACKOFF_EXPONENTIAL_JITTER;
}

/* The number of a limit that queues share by its name; never 0. */
static uint64
limit_group(const text *name)
{
	return Max(DatumGetUInt64(hash_any_extended((unsigned char *) VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), 0)), 1);
}

/* Whether a group of the queue has settings of its own. */
static bool
has_group_settings(int32 queue_id)
{
	Relation rel = table_open(meta_table_oid(TABLE_GROUP_SETTING), AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData key;
	SysScanDesc scan;
	bool found;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	scan = systable_beginscan(rel, meta_index_oid(TABLE_GROUP_SETTING, 0), true, snapshot, 1, &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return found;
}

/* Writes a row of jobq.queue into the cache, over what stood there. Old strings are left: a caller may still hold them. */
static QueueInfo *
cache_queue(HeapTuple tuple, TupleDesc desc)
{
	Datum *v = palloc(desc->natts * sizeof(Datum)); /* an administrator may have added columns */
	bool *n = palloc(desc->natts * sizeof(bool));
	QueueInfo *queue;
	QueueName *name;
	bool found;
	int32 id;

#define COLUMN(col) v[Anum_queue_##col - 1], n[Anum_queue_##col - 1]
#define VALUE(col) v[Anum_queue_##col - 1]
	heap_deform_tuple(tuple, desc, v, n);
	id = DatumGetInt32(VALUE(id));
	queue = hash_search(queues_by_id, &id, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) queue + sizeof(int32), 0, sizeof(QueueInfo) - sizeof(int32));
		queue->exists = false;
	}
	text_to_cstring_buffer(DatumGetTextPP(VALUE(name)), queue->name, sizeof(queue->name));
	queue->owner = MemoryContextStrdup(CacheMemoryContext, TextDatumGetCString(VALUE(owner)));
	queue->paused = DatumGetBool(VALUE(paused));
	queue->notify = DatumGetBool(VALUE(notify));
	queue->max_attempts = DatumGetInt32(VALUE(max_attempts));
	queue->lease = interval_or(COLUMN(lease), 0);
	queue->timeout = interval_or(COLUMN(timeout), 0);
	queue->backoff = backoff_kind(TextDatumGetCString(VALUE(backoff)));
	queue->backoff_base = interval_or(COLUMN(backoff_base), 0);
	queue->backoff_cap = interval_or(COLUMN(backoff_cap), PG_INT64_MAX);
	queue->backoff_function =
		n[Anum_queue_backoff_function - 1]
			? NULL
			: MemoryContextStrdup(CacheMemoryContext, TextDatumGetCString(VALUE(backoff_function)));
	queue->keep_completed = interval_or(COLUMN(keep_completed), KEEP_FOREVER);
	queue->dead_letter_queue = n[Anum_queue_dead_letter_queue - 1] ? 0 : DatumGetInt32(VALUE(dead_letter_queue));
	queue->max_payload_bytes = DatumGetInt32(VALUE(max_payload_bytes));
	queue->pass_on_retry = strcmp(TextDatumGetCString(VALUE(on_retry)), "pass") == 0;
	queue->skip_on_dead = strcmp(TextDatumGetCString(VALUE(on_dead)), "skip") == 0;
	queue->group_rate_interval = interval_or(COLUMN(group_rate_interval), USECS_PER_SEC);
	queue->group_rate_limit = n[Anum_queue_group_rate_limit - 1] ? 0 : DatumGetInt32(VALUE(group_rate_limit));
	queue->group_lease = interval_or(COLUMN(group_lease), 0);
	queue->isolate_above = n[Anum_queue_isolate_above - 1] ? 0 : DatumGetInt32(VALUE(isolate_above));
	queue->events = n[Anum_queue_events - 1] ? 0 : event_mask(DatumGetArrayTypeP(VALUE(events)));
	queue->alert_dead = n[Anum_queue_alert_dead - 1] ? 0 : DatumGetInt32(VALUE(alert_dead));
	queue->alert_dead_interval = interval_or(COLUMN(alert_dead_interval), 0);
	queue->concurrency = n[Anum_queue_concurrency - 1] ? 0 : DatumGetInt32(VALUE(concurrency));
	queue->rate_limit = n[Anum_queue_rate_limit - 1] ? 0 : DatumGetInt32(VALUE(rate_limit));
	queue->rate_interval = interval_or(COLUMN(rate_interval), USECS_PER_SEC);
	queue->rate_burst = n[Anum_queue_rate_burst - 1] ? 1 : DatumGetInt32(VALUE(rate_burst));
	queue->limit_group = n[Anum_queue_limit_name - 1] ? 0 : limit_group(DatumGetTextPP(VALUE(limit_name)));
	queue->ageing = DatumGetBool(VALUE(ageing));
	queue->group_settings = has_group_settings(id);
	queue->slots_freed = pg_atomic_read_u32(&jobq_shared->slots_freed);
	queue->slot = shmem_queue(MyDatabaseId, extension_oid, id);
	if (queue->slot)
	{
		queue->slot->limited = queue->concurrency > 0;
		queue->slot->limit_group = queue->limit_group;
	}
	queue->exists = true;
	queue->loads++;

	name = hash_search(queues_by_name, queue->name, HASH_ENTER, &found);
	name->queue = queue;
#undef COLUMN
#undef VALUE
	pfree(v);
	pfree(n);
	return queue;
}

/* Reads a queue's row by one of its two keys; NULL when there is none that the latest snapshot shows. */
static QueueInfo *
load_queue(int index, int attnum, RegProcedure procedure, Datum value)
{
	Relation rel;
	Snapshot snapshot;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple tuple;
	QueueInfo *queue = NULL;

	if (queues_by_id == NULL)
	{
		HASHCTL info;

		memset(&info, 0, sizeof(info));
		info.hcxt = CacheMemoryContext;
		info.keysize = sizeof(int32);
		info.entrysize = sizeof(QueueInfo);
		queues_by_id = hash_create("jobq queues by id", 64, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		info.keysize = JOBQ_MAX_QUEUE_NAME + 1;
		info.entrysize = sizeof(QueueName);
		queues_by_name = hash_create("jobq queues by name", 64, &info, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	rel = table_open(meta_table_oid(TABLE_QUEUE), AccessShareLock);
	if (RelationGetDescr(rel)->natts < Natts_queue)
		elog(ERROR, "jobq.queue has %d columns instead of %d", RelationGetDescr(rel)->natts, Natts_queue);
	ScanKeyInit(&key, attnum, BTEqualStrategyNumber, procedure, value);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(rel, meta_index_oid(TABLE_QUEUE, index), true, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		queue = cache_queue(tuple, RelationGetDescr(rel));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return queue;
}

/*
 * Sees to it that the queue's slot is its own, or is looked for again where there was none. A slot that was freed tells that the queue was
 * dropped, before the invalidation does: then its row decides. Returns the queue, or NULL when it is gone.
 */
static QueueInfo *
renew_slot(QueueInfo *queue)
{
	if (queue->slot ? queue->slot->queue_id == queue->id && queue->slot->db_oid == MyDatabaseId
					: queue->slots_freed == pg_atomic_read_u32(&jobq_shared->slots_freed))
		return queue;
	queue->exists = false;
	return load_queue(0, Anum_queue_id, F_INT4EQ, Int32GetDatum(queue->id));
}

/* The queue of that name, or NULL when there is none. */
QueueInfo *
meta_find_queue(const text *name)
{
	char key[JOBQ_MAX_QUEUE_NAME + 1];
	QueueInfo *queue = NULL;

	drop_stale_queues();
	if (VARSIZE_ANY_EXHDR(name) <= JOBQ_MAX_QUEUE_NAME)
	{
		QueueName *entry = NULL;

		memset(key, 0, sizeof(key));
		memcpy(key, VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
		if (queues_by_name)
			entry = hash_search(queues_by_name, key, HASH_FIND, NULL);
		queue = entry ? renew_slot(entry->queue) : load_queue(1, Anum_queue_name, F_TEXTEQ, PointerGetDatum(name));
	}
	return queue;
}

/* The same. Error 42704 when there is none. */
QueueInfo *
meta_queue(const text *name)
{
	QueueInfo *queue = meta_find_queue(name);

	if (queue == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("queue \"%.*s\" does not exist", Min((int) VARSIZE_ANY_EXHDR(name), JOBQ_MAX_QUEUE_NAME),
							   VARDATA_ANY(name)),
						errhint("Make it with jobq.create_queue(); names are case-sensitive.")));
	return queue;
}

/* The queue of that id, or NULL when there is none. */
QueueInfo *
meta_queue_by_id(int32 id)
{
	QueueInfo *queue = NULL;

	drop_stale_queues();
	if (queues_by_id)
		queue = hash_search(queues_by_id, &id, HASH_FIND, NULL);
	if (queue == NULL || !queue->exists)
		queue = load_queue(0, Anum_queue_id, F_INT4EQ, Int32GetDatum(id));
	else
		queue = renew_slot(queue);
	return queue;
}

/* The queue named by a function's argument. Error 22004 when that is NULL. */
QueueInfo *
meta_queue_arg(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("queue must not be null")));
	return meta_queue(PG_GETARG_TEXT_PP(argno));
}

/* Empties every session's cache of queues at commit, and this one's at once. */
void
meta_settings_changed(void)
{
	queues_stale = true;
	CacheInvalidateRelcacheByRelid(meta_table_oid(TABLE_QUEUE));
}
