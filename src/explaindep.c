/*-------------------------------------------------------------------------
 *
 * explaindep.c
 *		What explain_job() says of a job that waits for others.
 *
 * A job may wait for a million others, so all of it is bounded: how many
 * are counted, how many are looked at, how many are named. Those that will
 * not complete by themselves are named first: somebody has to do something
 * about them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "explaindep.h"
#include "grant.h"
#include "meta.h"
#include "store.h"

/* Others that are counted, and that are named. */
#define COUNTED 1000
#define NAMED 3
/* The first ones, among which those to name are chosen; and as many as are named of those that are said to have ended. */
#define LOOKED_AT 64
/* Index entries that are walked, dead ones too. */
#define WALKED 1500
/* Jobs that are visited to find out whether one waits for itself, and entries that are walked for all of them. */
#define RING_JOBS 100
#define RING_WALKED 3000

/* The others, as far as they are looked for. */
typedef struct Others
{
	int n;
	bool more; /* there may be others that were not come by */
	int looked;
	int64 ids[LOOKED_AT + NAMED]; /* of those to look at */
} Others;

/* The separator of clauses. */
static void
next_clause(StringInfo text)
{
	if (text->len > 0)
		appendStringInfoString(text, "; ");
}

/* Whether the job is the callback of a batch that nobody has closed. */
static bool
batch_is_open(StoreTable *dependency, Snapshot snapshot, int64 id)
{
	ScanKeyData keys[2];
	StoreScan scan;
	bool found;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	store_scan_begin(&scan, dependency, INDEX_DEPENDENCY_PKEY, snapshot, keys, 2);
	found = store_scan_next(&scan);
	store_scan_end(&scan);
	return found;
}

/* Looks for the others from one end of the index. */
static void
find_others(StoreTable *dependency, Snapshot snapshot, int64 id, bool (*step)(StoreWalk *walk, bool *visible),
			Others *others)
{
	ScanKeyData key;
	StoreWalk walk;
	bool visible;

	others->n = others->looked = 0;
	others->more = true;
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	store_walk_begin(&walk, dependency, INDEX_DEPENDENCY_PKEY, snapshot, &key, 1);
	while (others->n <= COUNTED && walk.walked < WALKED)
	{
		Dependency row;

		if (!step(&walk, &visible))
		{
			others->more = false;
			break;
		}
		if (!visible)
			continue;
		store_dependency_read(walk.slot, &row);
		if (!dependency_holds(&row) || row.on_job == id)
			continue;
		others->n++;
		if (others->looked < LOOKED_AT || (row.ended != 0 && others->looked < lengthof(others->ids)))
			others->ids[others->looked++] = row.on_job;
	}
	store_walk_end(&walk);
}

/* Chooses whom to name: those that have ended, then the first of the rest. Returns how many. */
static int
choose(const Others *others, Snapshot snapshot, int64 *named)
{
	StoreTable *job = store_open_read(TABLE_JOB);
	TupleTableSlot *slot = store_read_slot(job);
	bool live[lengthof(others->ids)];
	int n = 0;

	for (int i = 0; i < others->looked; i++)
		live[i] = store_job_fetch(job, snapshot, others->ids[i], NULL, slot);
	ExecDropSingleTupleTableSlot(slot);
	store_close(job);
	for (int i = 0; i < others->looked && n < NAMED; i++)
		if (!live[i])
			named[n++] = others->ids[i];
	for (int i = 0; i < others->looked && n < NAMED; i++)
		if (live[i])
			named[n++] = others->ids[i];
	return n;
}

/*
 * Whether a job waits for another, maybe by way of some more. enqueue() refuses rings; two of them at a time can close one. *room: entries
 * that may be walked.
 */
static bool
waits_for(Snapshot snapshot, int64 id, int64 target, int *room)
{
	StoreTable *dependency = store_open_read(TABLE_DEPENDENCY);
	int64 seen[RING_JOBS] = {id};
	int n = 1;
	bool found = false;

	for (int i = 0; i < n && !found; i++)
	{
		ScanKeyData key;
		StoreWalk walk;
		bool visible;

		CHECK_FOR_INTERRUPTS();
		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(seen[i]));
		store_walk_begin(&walk, dependency, INDEX_DEPENDENCY_PKEY, snapshot, &key, 1);
		while (!found && walk.walked < *room && store_walk_next(&walk, &visible))
		{
			Dependency row;
			int known = 0;

			if (!visible)
				continue;
			store_dependency_read(walk.slot, &row);
			if (!dependency_holds(&row))
				continue;
			found = row.on_job == target;
			while (known < n && seen[known] != row.on_job)
				known++;
			if (known == n && n < RING_JOBS)
				seen[n++] = row.on_job;
		}
		*room -= walk.walked;
		store_walk_end(&walk);
	}
	store_close(dependency);
	return found;
}

/* One of the others; room: see waits_for. Returns whether it may be that it never completes. */
static bool
say_other(StringInfo text, const JobInfo *job, int64 id, Snapshot snapshot, int *room)
{
	JobInfo *other = jobinfo_find_any(id, snapshot);
	bool stuck = false;

	next_clause(text);
	appendStringInfo(text, "job " INT64_FORMAT, id);
	if (other == NULL)
	{
		appendStringInfoString(text, " is gone and will not complete");
		return true;
	}
	if (!grant_has(other->queue, RIGHTS_READ))
	{
		appendStringInfoString(text, " is of a queue that you may not read");
		jobinfo_end(other);
		return false;
	}
	if (other->queue && other->queue != job->queue)
		appendStringInfo(text, " of queue \"%s\"", other->queue->name);
	switch (other->place)
	{
		case JOB_IS_DEAD:
			appendStringInfoString(text, " is dead: redrive() runs it again");
			stuck = true;
			break;
		case JOB_IS_CANCELLED:
			appendStringInfoString(text, " was cancelled and will not complete");
			stuck = true;
			break;
		case JOB_IS_EXPIRED:
			appendStringInfoString(text, " has expired and will not complete");
			stuck = true;
			break;
		case JOB_IS_COMPLETED:
			appendStringInfoString(text, " has completed");
			break;
		case JOB_IN_PENDING:
			stuck = waits_for(snapshot, id, job->id, room);
			appendStringInfoString(text, stuck ? " is pending and waits for this one in turn" : " is pending");
			break;
		case JOB_IS_LOST:
			appendStringInfoString(text, " has neither a ticket nor a lease");
			break;
		default:
			appendStringInfo(text, " is %s", jobinfo_string(other, JOB_STATE));
	}
	jobinfo_end(other);
	return stuck;
}

/* What becomes of the job when one of the others does not complete; nothing by itself is the default, and not said. */
static void
say_policy(StringInfo text, const JobInfo *job)
{
	bool isnull;
	char after_dead = DatumGetChar(slot_datum(job->slot, Anum_job_after_dead, &isnull));

	if (isnull || after_dead == 'w')
		return;
	next_clause(text);
	appendStringInfoString(text, after_dead == 'c' ? "it is cancelled when one that it waits for does not complete"
												   : "it runs even if one that it waits for does not complete");
}

/* Says what a pending job waits for, as the snapshot shows it. */
void
explain_dependencies(StringInfo text, const JobInfo *job, Snapshot snapshot)
{
	StoreTable *dependency = store_open_read(TABLE_DEPENDENCY);
	bool open = batch_is_open(dependency, snapshot, job->id);
	bool stuck = false;
	int room = RING_WALKED;
	int64 named[NAMED];
	Others others;
	int n;

	find_others(dependency, snapshot, job->id, store_walk_next, &others);
	/* those that have completed lie in front, not yet vacuumed */
	if (others.n == 0 && others.more)
		find_others(dependency, snapshot, job->id, store_walk_back, &others);
	store_close(dependency);

	next_clause(text);
	appendStringInfoString(text, "pending: ");
	if (others.n > 0)
		appendStringInfo(text, "waits for %s%d other job%s",
						 others.n > COUNTED ? "more than "
						 : others.more      ? "at least "
											: "",
						 Min(others.n, COUNTED), others.n == 1 ? "" : "s");
	else if (others.more)
		appendStringInfoString(text, "waits for other jobs");
	if (open)
		appendStringInfo(text, "%sits batch is open: close_batch(" INT64_FORMAT ") closes it",
						 others.n > 0 || others.more ? "; " : "", job->id);
	else if (others.n == 0 && !others.more)
		appendStringInfoString(text, "waits for nothing any more: the scheduler lets it go on");

	n = choose(&others, snapshot, named);
	for (int i = 0; i < n; i++)
		stuck |= say_other(text, job, named[i], snapshot, &room);
	if (others.n > n || others.more)
		appendStringInfoString(text, "; the view jobq.dependencies lists them all");
	if (stuck)
		appendStringInfoString(text, "; run_now() starts this one all the same, cancel() ends it");
	if (n > 0 || open)
		say_policy(text, job);
}
