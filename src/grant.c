/*-------------------------------------------------------------------------
 *
 * grant.c
 *		Who may do what with which queue.
 *
 * Two things are asked for: EXECUTE on a function, which the server checks,
 * and a right on the queue, which is checked here. grant_queue() gives both.
 *
 * Rights stand in jobq.queue_acl by the names of roles, so that a dump can be
 * restored in any order. What a role may do with a queue is found out once
 * and kept for the session, until the queue's settings or rights change (the
 * triggers on both tables see to that), or any role or membership does.
 *
 * Who has no right is told the same of a queue that is there and of one that
 * is not; a job of such a queue is an unknown job.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "grant.h"
#include "spi.h"

/* Roles times queues that a session remembers. */
#define MAX_KNOWN 10000

/* Columns of jobq.queue_acl */
enum
{
	Anum_acl_queue_id = 1,
	Anum_acl_role,
	Anum_acl_privileges
};

typedef struct KnownKey
{
	int32 queue_id;
	Oid role;
} KnownKey;

typedef struct Known
{
	KnownKey key;      /* hash key */
	uint32 loads;      /* of the queue, and of the roles, when this was found out */
	uint32 generation; /* 0: not found out */
	uint32 rights;
} Known;

static HTAB *known = NULL;
static uint32 generation = 1; /* moves with every change of a role or a membership */

/* A function, view or procedure, and the rights each of which needs it. A row with none of RIGHTS_GRANTED is the owner's. */
typedef struct GrantedObject
{
	const char *name;
	uint32 rights;
} GrantedObject;

#define READING (RIGHT_CONSUME | RIGHT_MANAGE)

static const GrantedObject functions[] = {
	{"enqueue", RIGHT_ENQUEUE},
	{"enqueue_many", RIGHT_ENQUEUE},
	{"open_batch", RIGHT_ENQUEUE},
	{"close_batch", RIGHT_ENQUEUE},
	{"dequeue", RIGHT_CONSUME},
	{"complete", RIGHT_CONSUME},
	{"ack", RIGHT_CONSUME},
	{"fail", RIGHT_CONSUME},
	{"nack", RIGHT_CONSUME},
	{"release", RIGHT_CONSUME},
	{"extend", RIGHT_CONSUME},
	{"complete_many", RIGHT_CONSUME},
	{"fail_many", RIGHT_CONSUME},
	{"release_many", RIGHT_CONSUME},
	{"extend_many", RIGHT_CONSUME},
	{"complete_and_dequeue", RIGHT_CONSUME},
	{"progress", RIGHT_CONSUME},
	{"assert_lease", RIGHT_CONSUME},
	{"wait", RIGHT_CONSUME},
	{"fence", RIGHT_CONSUME},
	{"once", RIGHT_CONSUME},
	{"once_done", RIGHT_CONSUME},
	{"alter_queue", RIGHT_MANAGE},
	{"pause_queue", RIGHT_MANAGE},
	{"resume_queue", RIGHT_MANAGE},
	{"purge_queue", RIGHT_MANAGE},
	{"cancel", RIGHT_MANAGE},
	{"reschedule", RIGHT_MANAGE},
	{"run_now", RIGHT_MANAGE},
	{"delete_jobs", RIGHT_MANAGE},
	{"redrive", RIGHT_MANAGE},
	{"alter_group", RIGHT_MANAGE},
	{"pause_group", RIGHT_MANAGE},
	{"resume_group", RIGHT_MANAGE},
	{"unblock_group", RIGHT_MANAGE},
	{"set_handler", RIGHT_MANAGE},
	{"drop_handler", RIGHT_MANAGE},
	{"schedule", RIGHT_MANAGE},
	{"unschedule", RIGHT_MANAGE},
	{"schedule_next", RIGHT_MANAGE},
	{"job", READING},
	{"explain_job", READING},
	{"wait_job", READING},
	{"events", READING},
	{"joining", READING},
	{"lease_counts", READING},
	{"may_read", RIGHTS_GRANTED},
	{"may_see", RIGHTS_GRANTED},
	{"queue_counts", RIGHTS_GRANTED},
	{"rename_queue", 0},
	{"drop_queue", 0},
	{"grant_queue", 0},
	{"revoke_queue", 0},
};

static const GrantedObject views[] = {
	{"queues", RIGHTS_GRANTED}, {"grants", RIGHTS_GRANTED}, {"jobs", READING},         {"dependencies", READING},
	{"groups", READING},        {"workers", READING},       {"dead_letters", READING}, {"handlers", READING},
	{"schedules", READING},     {"schedule_runs", READING},
};

/* A role or a membership changed. */
static void
roles_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	if (++generation == 0)
		generation = 1;
}

/* Makes the table of what is known; forgets everything when that has become too much. */
static void
known_init(void)
{
	static bool registered = false;
	HASHCTL info;

	if (!registered)
	{
		CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, roles_changed, (Datum) 0);
		CacheRegisterSyscacheCallback(AUTHOID, roles_changed, (Datum) 0);
		registered = true;
	}
	if (known && hash_get_num_entries(known) < MAX_KNOWN)
		return;
	if (known)
		hash_destroy(known);
	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(KnownKey);
	info.entrysize = sizeof(Known);
	info.hcxt = CacheMemoryContext;
	known = hash_create("jobq rights", 64, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Whether a role has what is given to a role of that name; a name that no role has gives nothing. */
static bool
is_member(Oid role, const char *name)
{
	Oid oid = get_role_oid(name, true);

	return OidIsValid(oid) && has_privs_of_role(role, oid);
}

uint32
grant_right_named(const char *privilege)
{
	if (strcmp(privilege, "enqueue") == 0)
		return RIGHT_ENQUEUE;
	if (strcmp(privilege, "consume") == 0)
		return RIGHT_CONSUME;
	if (strcmp(privilege, "manage") == 0)
		return RIGHT_MANAGE;
	return 0;
}

/* Privileges as they stand in jobq.queue_acl. */
static uint32
rights_of_array(ArrayType *array)
{
	uint32 rights = 0;
	Datum *elements;
	bool *nulls;
	int n;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			rights |= grant_right_named(TextDatumGetCString(elements[i]));
	return rights;
}

/* What was granted to a role, and to those it is a member of, on a queue. */
static uint32
granted(int32 queue_id, Oid role)
{
	Relation rel = table_open(meta_table_oid(TABLE_QUEUE_ACL), AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	uint32 rights = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_acl_queue_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(queue_id));
	scan = systable_beginscan(rel, meta_index_oid(TABLE_QUEUE_ACL, 0), true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool isnull;
		char *name = TextDatumGetCString(heap_getattr(tuple, Anum_acl_role, RelationGetDescr(rel), &isnull));

		if (strcmp(name, "public") == 0 || is_member(role, name))
			rights |= rights_of_array(
				DatumGetArrayTypeP(heap_getattr(tuple, Anum_acl_privileges, RelationGetDescr(rel), &isnull)));
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return rights;
}

/* Rights on every queue, whatever was granted. */
static uint32
rights_on_all(Oid role)
{
	if (superuser_arg(role) || has_privs_of_role(role, spi_owner()))
		return RIGHTS_GRANTED | RIGHT_OWN | RIGHT_MONITOR;
	return has_privs_of_role(role, ROLE_PG_MONITOR) ? RIGHT_MONITOR : 0;
}

uint32
grant_rights(QueueInfo *queue, Oid role)
{
	KnownKey key;
	Known *entry;
	uint32 now;
	uint32 rights;

	/* spares the look; the server remembers who is one */
	if (superuser_arg(role) || queue == NULL)
		return rights_on_all(role);
	memset(&key, 0, sizeof(key));
	key.queue_id = queue->id;
	key.role = role;
	entry = known ? hash_search(known, &key, HASH_FIND, NULL) : NULL;
	if (entry && entry->loads == queue->loads && entry->generation == generation)
		return entry->rights;

	known_init();
	now = generation; /* a change while we look makes it stale */
	rights = rights_on_all(role);
	if (is_member(role, queue->owner))
		rights |= RIGHTS_GRANTED | RIGHT_OWN | RIGHT_MONITOR;
	if ((rights & RIGHT_OWN) == 0)
		rights |= granted(queue->id, role);
	entry = hash_search(known, &key, HASH_ENTER, NULL);
	entry->loads = queue->loads;
	entry->generation = now;
	entry->rights = rights;
	return rights;
}

bool
grant_has(QueueInfo *queue, uint32 rights)
{
	return (grant_rights(queue, GetUserId()) & (rights | RIGHT_OWN)) != 0;
}

bool
grant_has_id(int32 queue_id, uint32 rights)
{
	return superuser() || grant_has(meta_queue_by_id(queue_id), rights);
}

/* Whether the current user may do everything with every queue. */
bool
grant_has_all(void)
{
	return (rights_on_all(GetUserId()) & RIGHT_OWN) != 0;
}

/* Whether the current user may know which queues there are: who may make one learns of those that it cannot make. */
static bool
may_know_queues(void)
{
	CatCList *list;
	Oid schema = get_namespace_oid(JOBQ_SCHEMA, true);
	bool may = false;

	if (rights_on_all(GetUserId()) != 0)
		return true;
	list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum("create_queue"));
	for (int i = 0; i < list->n_members && !may; i++)
	{
		Form_pg_proc form = (Form_pg_proc) GETSTRUCT(&list->members[i]->tuple);

		may = form->pronamespace == schema && function_aclcheck_compat(form->oid, GetUserId()) == ACLCHECK_OK;
	}
	ReleaseSysCacheList(list);
	return may;
}

/* The privilege that a right is called by. */
static const char *
right_name(uint32 rights)
{
	if (rights & RIGHT_ENQUEUE)
		return "enqueue";
	if (rights & RIGHT_CONSUME)
		return "consume";
	return "manage";
}

QueueInfo *
grant_queue(const text *name, uint32 rights)
{
	QueueInfo *queue = meta_find_queue(name);
	int length;

	if (queue && grant_has(queue, rights))
		return queue;
	if (queue == NULL && may_know_queues())
		queue = meta_queue(name); /* says so */
	length = pg_mbcliplen(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), JOBQ_MAX_QUEUE_NAME);
	/* the same for a queue that is not there as for one that is none of the caller's business */
	ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					errmsg("permission denied for queue \"%.*s\"", length, VARDATA_ANY(name)),
					rights == RIGHT_OWN ? errhint("If there is such a queue, only its owner may do this.")
										: errhint("If there is such a queue, its owner gives the privilege %s with "
												  "jobq.grant_queue().",
												  right_name(rights))));
	return NULL; /* keep compiler quiet */
}

QueueInfo *
grant_queue_arg(FunctionCallInfo fcinfo, int argno, uint32 rights)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("queue must not be null")));
	return grant_queue(PG_GETARG_TEXT_PP(argno), rights);
}

/* Two kinds of objects are granted. */
typedef struct ObjectKind
{
	const char *privilege; /* as GRANT and REVOKE want it */
	const GrantedObject *objects;
	int n;
	SpiStatement find; /* those of the names $1 that the role $2 has been given itself ($3), or has not, as a list */
} ObjectKind;

static ObjectKind kinds[] = {
	{.privilege = "EXECUTE ON ROUTINE",
	 .objects = functions,
	 .n = lengthof(functions),
	 .find = {.sql =
				  "SELECT string_agg(format('jobq.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)), ', ')"
				  " FROM pg_proc p WHERE p.pronamespace = 'jobq'::regnamespace AND p.proname = ANY ($1)"
				  " AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND"
				  " d.deptype = 'e') AND $3 = EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = $2)",
			  .result = SPI_OK_SELECT,
			  .nargs = 3,
			  .argtypes = {TEXTARRAYOID, OIDOID, BOOLOID}}},
	{.privilege = "SELECT ON",
	 .objects = views,
	 .n = lengthof(views),
	 .find =
		 {.sql =
			  "SELECT string_agg(format('jobq.%I', c.relname), ', ')"
			  " FROM pg_class c WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind = 'v' AND c.relname = ANY ($1)"
			  " AND $3 = EXISTS (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = $2)",
		  .result = SPI_OK_SELECT,
		  .nargs = 3,
		  .argtypes = {TEXTARRAYOID, OIDOID, BOOLOID}}},
};

/*
 * What a role has not been given itself, of all that the rights need; needless: what it has been given, and none of them needs. As GRANT
 * and REVOKE want it; NULL: nothing.
 */
static char *
find_objects(ObjectKind *kind, Oid role, uint32 rights, bool needless)
{
	Datum *names = palloc(kind->n * sizeof(Datum));
	int n = 0;
	Datum values[3];
	Datum list;
	bool isnull;

	for (int i = 0; i < kind->n; i++)
	{
		bool needed = (kind->objects[i].rights & rights) != 0 || (rights & RIGHT_OWN) != 0;

		if (needed != needless)
			names[n++] = CStringGetTextDatum(kind->objects[i].name);
	}
	values[0] = PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
	values[1] = ObjectIdGetDatum(role);
	values[2] = BoolGetDatum(needless);
	(void) spi_run(&kind->find, values, NULL);
	list = spi_value(0, 1, &isnull);
	return isnull ? NULL : TextDatumGetCString(list);
}

/* Whether the role has been given anything in the schema (true), or the use of it (false). */
static bool
uses_schema(Oid role, bool anything)
{
	static SpiStatement look = {
		.sql = "SELECT EXISTS (SELECT FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = 'jobq' AND"
			   " a.grantee = $1 AND a.privilege_type = 'USAGE'),"
			   " EXISTS (SELECT FROM pg_proc p, aclexplode(p.proacl) a WHERE p.pronamespace = 'jobq'::regnamespace AND"
			   " a.grantee = $1) OR EXISTS (SELECT FROM pg_class c, aclexplode(c.relacl) a WHERE c.relnamespace ="
			   " 'jobq'::regnamespace AND a.grantee = $1)",
		.result = SPI_OK_SELECT,
		.nargs = 1,
		.argtypes = {OIDOID}};
	Datum value = ObjectIdGetDatum(role);
	bool isnull;

	(void) spi_run(&look, &value, NULL);
	return DatumGetBool(spi_value(0, anything ? 2 : 1, &isnull));
}

/* The role as GRANT wants it. */
static const char *
grantee(Oid role)
{
	return OidIsValid(role) ? quote_identifier(GetUserNameFromId(role, false)) : "PUBLIC";
}

/* Two GRANTs on one object at a time fail: each waits for the other's end. */
static void
lock_objects(void)
{
	LockDatabaseObject(meta_table_oid(TABLE_QUEUE_ACL), 0, 0, ExclusiveLock);
}

static void
run_utility(const char *sql)
{
	(void) spi_run_once(sql, SPI_OK_UTILITY, 0, NULL, NULL, NULL);
}

/* Gives a role EXECUTE, SELECT and USAGE on what the rights need, where it has not been given that before. */
void
grant_objects(Oid role, uint32 rights)
{
	bool missing = !uses_schema(role, false);
	char *list;

	for (int i = 0; i < lengthof(kinds); i++)
		missing = missing || find_objects(&kinds[i], role, rights, false) != NULL;
	if (!missing)
		return;
	lock_objects();
	if (!uses_schema(role, false))
		run_utility(psprintf("GRANT USAGE ON SCHEMA jobq TO %s", grantee(role)));
	for (int i = 0; i < lengthof(kinds); i++)
		if ((list = find_objects(&kinds[i], role, rights, false)) != NULL)
			run_utility(psprintf("GRANT %s %s TO %s", kinds[i].privilege, list, grantee(role)));
}

/* Takes from a role what none of the rights needs that it keeps; the schema's use, when nothing in it is left to it. */
void
grant_take_objects(Oid role, uint32 kept)
{
	char *list;

	if (role == ROLE_PG_MONITOR)
		return; /* it has some of them from the start */
	lock_objects();
	for (int i = 0; i < lengthof(kinds); i++)
		if ((list = find_objects(&kinds[i], role, kept, true)) != NULL)
			run_utility(psprintf("REVOKE %s %s FROM %s", kinds[i].privilege, list, grantee(role)));
	if (uses_schema(role, false) && !uses_schema(role, true))
		run_utility(psprintf("REVOKE USAGE ON SCHEMA jobq FROM %s", grantee(role)));
}
