/*-------------------------------------------------------------------------
 *
 * enqueuemany.c
 *		jobq.enqueue_many().
 *
 * With unique keys: all are looked at first, in their order, so that two
 * calls which wait for each other's keys do not deadlock. Then the rows are
 * written together, in a subtransaction, and entered into the index of keys
 * at the end, again in the keys' order. Where another transaction has got
 * one of the keys in between, all of that is undone and begins anew. (What a
 * single job does, a speculative insertion that leaves no trace where it
 * fails, costs twice as much.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "args.h"
#include "debug.h"
#include "enqueue.h"
#include "group.h"
#include "ident.h"
#include "store.h"
#include "unique.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_enqueue_many);

/* A walk over the elements of a JSON array. */
typedef struct ArrayWalk
{
	JsonbIterator *it;
	int n;
} ArrayWalk;

static void
walk_begin(ArrayWalk *walk, Jsonb *array, const char *what)
{
	JsonbValue v;

	if (!JB_ROOT_IS_ARRAY(array) || JB_ROOT_IS_SCALAR(array))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be a JSON array", what),
						errhint("Pass one element per job.")));
	walk->n = JB_ROOT_COUNT(array);
	if (walk->n > JOBQ_MAX_MANY)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s has more than %d elements", what, JOBQ_MAX_MANY)));
	walk->it = JsonbIteratorInit(&array->root);
	(void) JsonbIteratorNext(&walk->it, &v, true);
}

static Jsonb *
walk_next(ArrayWalk *walk, bool null_is_none)
{
	JsonbValue v;

	if (JsonbIteratorNext(&walk->it, &v, true) != WJB_ELEM)
		elog(ERROR, "unexpected end of a JSON array");
	if (null_is_none && v.type == jbvNull)
		return NULL;
	return JsonbValueToJsonb(&v);
}

/* A key for each of enqueue_many's jobs, NULL for none; NULL when no job has one. Errors: 22023 another number than of jobs, or a bad key. */
static text **
keys_arg(FunctionCallInfo fcinfo, int argno, const char *what, int njobs)
{
	ArrayType *array;
	Datum *elements;
	bool *nulls;
	text **keys;
	int n;

	if (PG_ARGISNULL(argno))
		return NULL;
	array = PG_GETARG_ARRAYTYPE_P(argno);
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	if (ARR_NDIM(array) > 1 || n != njobs)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s has %d elements but payloads has %d", what, n, njobs)));
	keys = palloc(Max(n, 1) * sizeof(text *));
	for (int i = 0; i < n; i++)
		keys[i] = nulls[i] ? NULL : check_text(DatumGetTextPP(elements[i]), what, JOBQ_MAX_NAME);
	return keys;
}

/* Why enqueue_many leaves a job out; NULL when it does not. */
static const char *
refusal(QueueInfo *queue, Jsonb *payload, Jsonb *headers)
{
	if (VARSIZE(payload) - VARHDRSZ > queue->max_payload_bytes)
		return "payload_too_large";
	if (jsonb_too_deep(payload))
		return "payload_too_deep";
	if (headers && !JB_ROOT_IS_OBJECT(headers))
		return "headers_not_object";
	if (headers && VARSIZE(headers) - VARHDRSZ > queue->max_payload_bytes)
		return "headers_too_large";
	return NULL;
}

typedef struct KeyOrder
{
	const text *key;
	int ord;
} KeyOrder;

/* A call of enqueue_many. */
typedef struct Many
{
	JobTemplate t;
	int n;
	Datum payloads;
	Datum headers; /* with_headers only */
	bool with_headers;
	text **group_keys;
	text **unique_keys; /* NULL: none; and then only ids and status are there of the rest */
	int64 *ids;
	const char **status; /* NULL: to be inserted */
	KeyOrder *order;     /* of the keys */
	int nkeys;
	ItemPointerData *tids; /* of the rows */
	int deadlocks;
	StoreTable *job;
	StoreTable *place;
} Many;

#define MAX_DEADLOCKS 10

static const char duplicate[] = "duplicate";
static const char replaced[] = "replaced";

/* A walk over the jobs' payloads and headers. */
typedef struct ManyWalk
{
	ArrayWalk payloads;
	ArrayWalk headers;
	bool with_headers;
} ManyWalk;

/* Returns the number of jobs. */
static int
open_walk(const Many *m, ManyWalk *walk)
{
	walk_begin(&walk->payloads, DatumGetJsonbP(m->payloads), "payloads");
	walk->with_headers = m->with_headers;
	if (!walk->with_headers)
		return walk->payloads.n;
	walk_begin(&walk->headers, DatumGetJsonbP(m->headers), "headers");
	if (walk->headers.n != walk->payloads.n)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("headers has %d elements but payloads has %d", walk->headers.n, walk->payloads.n)));
	return walk->payloads.n;
}

static void
next_input(const Many *m, ManyWalk *walk, int ord, JobInput *input)
{
	input->payload = walk_next(&walk->payloads, false);
	input->headers = walk->with_headers ? walk_next(&walk->headers, true) : NULL;
	input->group_key = m->group_keys ? m->group_keys[ord] : NULL;
	input->unique_key = m->unique_keys ? m->unique_keys[ord] : NULL;
	input->id = m->ids[ord];
}

/* What is refused claims no key, so that has to be known first. */
static void
refuse_first(Many *m)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "jobq enqueue look", ALLOCSET_DEFAULT_SIZES);
	ManyWalk walk;
	JobInput input;
	MemoryContext old;

	(void) open_walk(m, &walk);
	old = MemoryContextSwitchTo(context);
	for (int i = 0; i < m->n; i++)
	{
		next_input(m, &walk, i, &input);
		m->status[i] = refusal(m->t.queue, input.payload, input.headers);
		if (i % STORE_BATCH == STORE_BATCH - 1)
		{
			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(context);
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

static int
compare_keys(const text *x, const text *y)
{
	int xlen = VARSIZE_ANY_EXHDR(x);
	int ylen = VARSIZE_ANY_EXHDR(y);
	int result = memcmp(VARDATA_ANY(x), VARDATA_ANY(y), Min(xlen, ylen));

	return result != 0 ? result : xlen - ylen;
}

static int
by_key(const void *a, const void *b)
{
	const KeyOrder *x = a;
	const KeyOrder *y = b;
	int result = compare_keys(x->key, y->key);

	return result != 0 ? result : x->ord - y->ord;
}

/* Finds out which jobs have a key, and their order. */
static void
order_keys(Many *m)
{
	m->tids = palloc(Max(m->n, 1) * sizeof(ItemPointerData));
	m->order = palloc(Max(m->n, 1) * sizeof(KeyOrder));
	refuse_first(m);
	for (int i = 0; i < m->n; i++)
	{
		if (m->status[i] || m->unique_keys[i] == NULL)
			continue;
		m->order[m->nkeys].key = m->unique_keys[i];
		m->order[m->nkeys++].ord = i;
	}
	qsort(m->order, m->nkeys, sizeof(KeyOrder), by_key);
}

/*
 * The next used key that a walk over the call's keys has found: those that lie before it need no look of their own. Where used keys lie
 * densely it would be found anew all the time, at the price of a page's entries, so that single looks are cheaper for a while.
 */
typedef struct UsedKey
{
	text *key;
	bool none;   /* from where the walk is on */
	int spared;  /* looks, by the last key found */
	int singles; /* looks to come */
} UsedKey;

#define SPARED_ENOUGH 8
#define SINGLE_LOOKS 64

static bool
may_be_used(UniqueWork *u, UsedKey *used, const text *key, const text *last)
{
	if (used->none || used->singles-- > 0)
		return !used->none;
	if (used->key && compare_keys(used->key, key) < 0)
	{
		pfree(used->key);
		used->key = NULL;
		if (used->spared < SPARED_ENOUGH)
		{
			used->singles = SINGLE_LOOKS;
			return true;
		}
	}
	if (used->key == NULL)
	{
		used->key = unique_next(u, key, last);
		used->none = used->key == NULL;
		used->spared = 0;
	}
	used->spared++;
	return !used->none && same_key(used->key, key);
}

/* Looks at all keys. Of two jobs with the same one the first has it. */
static void
look_at_keys(Many *m)
{
	UsedKey used = {NULL};
	UniqueWork u;

	unique_begin(&u, m->t.queue, m->job, true);
	for (int i = 0; i < m->nkeys; i++)
	{
		KeyOrder *key = &m->order[i];
		int64 holder;

		if (i > 0 && same_key(key[-1].key, key->key))
		{
			holder = m->ids[key[-1].ord];
			m->status[key->ord] = duplicate;
		}
		else if (may_be_used(&u, &used, key->key, m->order[m->nkeys - 1].key)
					 ? unique_is_free(&u, key->key, 0, &holder)
					 : !unique_has_window(&u, key->key, 0, &holder))
			continue;
		else
			m->status[key->ord] = m->t.on_conflict == CONFLICT_REPLACE ? replaced : duplicate;
		if (m->t.on_conflict == CONFLICT_ERROR)
			enqueue_key_taken(&m->t, key->key, holder);
		m->ids[key->ord] = holder;
	}
	unique_end(&u);
}

/* Writes the next n jobs. */
static void
insert_batch(Many *m, ManyWalk *walk, int first, int n)
{
	JobInput inputs[STORE_BATCH];
	int ords[STORE_BATCH];
	int kept = 0;

	for (int i = 0; i < n; i++)
	{
		JobInput *input = &inputs[kept];
		const char **status = &m->status[first + i];

		next_input(m, walk, first + i, input);
		if (m->unique_keys == NULL)
			*status = refusal(m->t.queue, input->payload, input->headers);
		if (*status == NULL)
			ords[kept++] = first + i;
		else if (*status == replaced && !enqueue_replace(&m->t, m->job, input, input->id))
			*status = duplicate;
	}
	if (kept == 0)
		return;
	for (int i = 0; i < kept; i++)
		enqueue_fill(store_slot(m->job, i), &m->t, &inputs[i]);
	store_insert(m->job, m->job->slots, kept);
	for (int i = 0; i < kept && m->tids; i++)
		m->tids[ords[i]] = m->job->slots[i]->tts_tid;
	enqueue_place(&m->t, m->place, inputs, m->job->slots, kept);
}

/* Writes all jobs. */
static void
insert_all(Many *m)
{
	MemoryContext batch = AllocSetContextCreate(CurrentMemoryContext, "jobq enqueue batch", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;
	ManyWalk walk;

	(void) open_walk(m, &walk);
	/* slots live as long as the tables */
	for (int i = 0; i < Min(m->n, STORE_BATCH); i++)
	{
		(void) store_slot(m->job, i);
		(void) store_slot(m->place, i);
	}
	for (int i = 0; i < m->n; i += STORE_BATCH)
	{
		CHECK_FOR_INTERRUPTS();
		old = MemoryContextSwitchTo(batch);
		insert_batch(m, &walk, i, Min(STORE_BATCH, m->n - i));
		MemoryContextSwitchTo(old);
		MemoryContextReset(batch);
	}
	MemoryContextDelete(batch);
}

static void
open_tables(Many *m)
{
	m->job = store_open(TABLE_JOB);
	m->place = store_open(m->t.visible_at > m->t.now ? TABLE_DELAYED : TABLE_READY);
}

static void
close_tables(Many *m)
{
	store_close(m->place);
	store_close(m->job);
	m->place = m->job = NULL;
}

/* Enters the rows into the index of keys. Error 23505 where a key was taken since it was looked at. False: it got a window. */
static bool
enter_keys(Many *m)
{
	TupleTableSlot *slot = store_slot(m->job, 0);
	bool came = false;
	UniqueWork u;

	slot_set(slot, Anum_job_queue_id, Int32GetDatum(m->t.queue->id));
	for (int i = 0; i < m->nkeys; i++)
	{
		KeyOrder *key = &m->order[i];

		if (m->status[key->ord])
			continue;
		CHECK_FOR_INTERRUPTS();
		slot_set(slot, Anum_job_unique_key, PointerGetDatum(key->key));
		store_enter_deferred(m->job, slot, &m->tids[key->ord]);
	}
	unique_begin(&u, m->t.queue, m->job, true);
	for (int i = 0; i < m->nkeys && u.windows && !came; i++)
		if (m->status[m->order[i].ord] == NULL)
			came = unique_window_came(&u, m->order[i].key);
	unique_end(&u);
	return !came;
}

/* Writes jobs with unique keys, that were looked at. False: a key was taken meanwhile, and nothing is written. */
static bool
insert_unique(Many *m)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char *index = get_rel_name(meta_index_oid(TABLE_JOB, INDEX_JOB_UNIQUE_KEY));
	volatile bool written = false;
	bool again;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		open_tables(m);
		m->job->deferred = INDEX_JOB_UNIQUE_KEY;
		insert_all(m);
		written = enter_keys(m);
		close_tables(m);
		if (written)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		/* REINDEX CONCURRENTLY appends to the name */
		again = error->sqlerrcode == ERRCODE_UNIQUE_VIOLATION && error->constraint_name &&
				strncmp(error->constraint_name, index, strlen(index)) == 0;
		/* beside an index of others all are entered at once, in the order of the jobs */
		if (error->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED && m->job && m->job->generic)
			again = m->deadlocks++ < MAX_DEADLOCKS;
		if (!again)
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return written;
}

/* Jobs of which some have unique keys. */
static void
enqueue_unique(Many *m)
{
	order_keys(m);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		open_tables(m);
		look_at_keys(m);
		close_tables(m);
		DEBUG_POINT("keys-looked-at");
		if (insert_unique(m))
			break;
		/* what was found out may have changed */
		ident_job_ids(m->t.db, m->ids, m->n);
		for (int i = 0; i < m->nkeys; i++)
			m->status[m->order[i].ord] = NULL;
	}
}

/* What the jobs that were inserted wait for, and what waits for them. */
static void
attach(Many *m)
{
	int64 *ids = MemoryContextAllocHuge(CurrentMemoryContext, Max(m->n, 1) * sizeof(int64));
	int n = 0;

	for (int i = 0; i < m->n; i++)
		if (m->status[i] == NULL)
			ids[n++] = m->ids[i];
	after_attach(&m->t.after, m->t.queue, ids, n);
	pfree(ids);
}

static void
return_rows(Many *m, ReturnSetInfo *rsinfo)
{
	Datum inserted = CStringGetTextDatum("inserted");

	for (int i = 0; i < m->n; i++)
	{
		const char *status = m->status[i];
		bool has_id = status == NULL || status == duplicate || status == replaced;
		Datum values[3] = {Int32GetDatum(i + 1), Int64GetDatum(m->ids[i]), inserted};
		bool nulls[3] = {false, !has_id, false};

		if (status)
			values[2] = CStringGetTextDatum(status);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		if (status)
			pfree(DatumGetPointer(values[2]));
	}
}

/*
 * jobq.enqueue_many(): one job per element of a JSON array, in its order. Returns (ord, job_id, status) for each: inserted; duplicate or
 * replaced, with the id of the job that has the unique key; or why it was left out.
 *
 * Errors: as enqueue(); 22023 when an array has another length.
 */
Datum
jobq_enqueue_many(PG_FUNCTION_ARGS)
{
	ManyWalk walk;
	Many m;

	memset(&m, 0, sizeof(m));
	enqueue_read(fcinfo, "enqueue_many", false, &m.t);
	if (PG_ARGISNULL(ARG_PAYLOAD))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("payloads must not be null")));
	m.payloads = JsonbPGetDatum(PG_GETARG_JSONB_P(ARG_PAYLOAD));
	m.with_headers = !PG_ARGISNULL(ARG_HEADERS);
	if (m.with_headers)
		m.headers = JsonbPGetDatum(PG_GETARG_JSONB_P(ARG_HEADERS));
	m.n = open_walk(&m, &walk);
	m.group_keys = keys_arg(fcinfo, ARG_GROUP_KEY, "group_keys", m.n);
	m.unique_keys = keys_arg(fcinfo, ARG_UNIQUE_KEY, "unique_keys", m.n);
	InitMaterializedSRF(fcinfo, 0);

	xact_verb_begin(m.t.db);
	m.ids = palloc(Max(m.n, 1) * sizeof(int64));
	m.status = palloc0(Max(m.n, 1) * sizeof(char *));
	ident_job_ids(m.t.db, m.ids, m.n);
	if (m.unique_keys)
		enqueue_unique(&m);
	else
	{
		open_tables(&m);
		insert_all(&m);
		close_tables(&m);
	}
	attach(&m);
	return_rows(&m, (ReturnSetInfo *) fcinfo->resultinfo);
	xact_verb_end(false);
	return (Datum) 0;
}
