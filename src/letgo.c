/*-------------------------------------------------------------------------
 *
 * letgo.c
 *		Pre-commit: jobs that wait for others are let go, or cancelled, when
 *		those end.
 *
 * Rules, each of which closes an interleaving that lets a job go too early,
 * twice, or never:
 *	- who ends a job that others wait for has that job's stripe, for sharing,
 *	  until its commit is visible; who waits for a job of another transaction
 *	  has it exclusively while it looks whether that job is still there. So
 *	  either sees the other;
 *	- a row is deleted under the stripe of the job that waits, at least for
 *	  sharing, and then the transaction looks whether others hold that job
 *	  back, by rows that nobody is deleting. If there are some, whoever
 *	  deletes the last of them looks later, and this one's work is done;
 *	- if there are none, it may be the last one. It looks again with the
 *	  stripe exclusively: those that looked before it are visible then, and
 *	  others will look after it;
 *	- stripes are taken in their order. What turns out to be needed in
 *	  addition is taken by giving all back and taking all anew, and then all
 *	  looks are repeated;
 *	- what keeps a batch open, and the rows of a job that waits no more, go
 *	  only when no stripe is given back any more: another transaction that
 *	  found them in our hands would leave them to us;
 *	- a job is let go by who deletes its ticket. A ticket in other hands is
 *	  not waited for: the scheduler sees to it (sweep.c).
 *
 * A job that is cancelled here has ended, too: the rounds go on until
 * nothing new comes of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "debug.h"
#include "depend.h"
#include "event.h"
#include "letgo.h"
#include "retire.h"
#include "stripe.h"
#include "timeutil.h"
#include "xact.h"

/* A job that has ended, and that others may wait for. */
typedef struct Ended
{
	int64 id;
	int64 goes_on_as; /* a dead one, as another job; 0: it does not */
	int32 goes_on_in; /* that one's queue */
	char how;         /* 0: it is live again */
} Ended;

/* A job of another transaction, of which it was read at the verb that it had not completed. */
typedef struct Unsure
{
	int64 id;       /* hash key */
	int32 queue_id; /* 0: not known */
	bool has_ended; /* when it was looked at; it stands among those, at place */
	int place;
} Unsure;

/* A job that waits, or did. */
typedef struct Waiter
{
	int64 id;       /* hash key */
	int64 near;     /* one that it waited for */
	int releasing;  /* rows that are still to be seen to, for want of its stripe */
	char policy;    /* see policy_of() */
	bool read;      /* it was, in this round */
	bool exclusive; /* its stripe is wanted so */
	bool left;      /* it waits no more: all its rows go */
	bool close;     /* its batch is closed */
	bool joined;    /* it must still wait: this transaction has made a member of it */
	bool cancel;    /* one that it waited for did not complete */
} Waiter;

static PendingList ended = {NULL, sizeof(Ended), 0, 0};

#define ENDED(i) (&((Ended *) ended.items)[i])

/* The work of one pre-commit. */
typedef struct LetGo
{
	HTAB *waiters;
	HTAB *unsure;
	int taken;           /* notes */
	StripeSet exclusive; /* that we hold */
	StripeSet shared;
	bool stable; /* nothing is left to be done in another round */
	Retire retire;
	StoreTable *dependency;
	Snapshot snapshot; /* of the round */
	TupleTableSlot *job;
} LetGo;

static int
stripe_of(int64 id)
{
	return (int) (murmurhash32((uint32) id ^ (uint32) (id >> 32)) % STRIPES);
}

static bool
holds(const LetGo *g, int64 id, bool exclusively)
{
	int stripe = stripe_of(id);

	return stripe_has(&g->exclusive, stripe) || (!exclusively && stripe_has(&g->shared, stripe));
}

static Waiter *
waiter(LetGo *g, int64 id)
{
	bool found;
	Waiter *w = hash_search(g->waiters, &id, HASH_ENTER, &found);

	if (!found)
	{
		memset(w, 0, sizeof(*w));
		w->id = w->near = id;
		g->stable = false;
	}
	return w;
}

static Ended *
add_ended(LetGo *g, int64 id, char how)
{
	Ended *e = list_add(&ended);

	e->id = id;
	e->how = how;
	g->stable = false;
	return e;
}

/* Reads the notes that have come since the last round. */
static void
take_notes(LetGo *g)
{
	int32 queue_id = 0;
	bool watched = false;

	for (; g->taken < depend_notes.n; g->taken++)
	{
		DependNote *note = DEPEND_NOTE(g->taken);
		Ended *e;
		Unsure *u;
		Waiter *w;
		bool known;

		switch ((DependKind) note->kind)
		{
			case DEPEND_ENDED:
			case DEPEND_MOVED:
				if (note->queue_id != queue_id)
					watched = depend_is_watched(note);
				queue_id = note->queue_id;
				if (!watched)
					break;
				e = add_ended(g, note->job, note->how);
				e->goes_on_as = note->other;
				e->goes_on_in = note->other_queue;
				break;
			case DEPEND_LEFT:
				w = waiter(g, note->job);
				w->left = w->exclusive = true;
				break;
			case DEPEND_CHECK:
				(void) waiter(g, note->job);
				break;
			case DEPEND_CANCEL:
				w = waiter(g, note->job);
				w->cancel = w->exclusive = true;
				break;
			case DEPEND_UNSURE:
				u = hash_search(g->unsure, &note->other, HASH_ENTER, &known);
				if (!known)
				{
					u->queue_id = note->queue_id;
					u->has_ended = false;
				}
				w = waiter(g, note->job);
				w->near = note->other;
				break;
			case DEPEND_MEMBER:
				w = waiter(g, note->job);
				w->joined = true;
				w->near = note->other;
				break;
			case DEPEND_CLOSE:
				w = waiter(g, note->job);
				w->close = w->exclusive = true;
				break;
		}
	}
}

/* The stripes that are needed for all that is known now. */
static void
want_stripes(LetGo *g, StripeSet *exclusive, StripeSet *shared)
{
	HASH_SEQ_STATUS seq;
	Unsure *u;
	Waiter *w;

	memset(exclusive, 0, sizeof(*exclusive));
	memset(shared, 0, sizeof(*shared));
	for (int i = 0; i < ended.n; i++)
		stripe_add(shared, stripe_of(ENDED(i)->id));
	hash_seq_init(&seq, g->unsure);
	while ((u = hash_seq_search(&seq)) != NULL)
		stripe_add(exclusive, stripe_of(u->id));
	hash_seq_init(&seq, g->waiters);
	while ((w = hash_seq_search(&seq)) != NULL)
		stripe_add(w->exclusive ? exclusive : shared, stripe_of(w->id));
}

/* Reads the row of a job that waits, into g->job. False: there is none. */
static bool
read_job(LetGo *g, int64 id)
{
	return store_job_fetch(g->retire.job, g->snapshot, id, NULL, g->job);
}

/* Finds the ticket of a job that waits for others; its row stands in g->job then. False: it waits no more. */
static bool
find_pending(LetGo *g, int64 id, QueueInfo **queue, Ticket *ticket)
{
	StoreTable *delayed = store_open_once(&g->retire.delayed, TABLE_DELAYED);

	if (!read_job(g, id))
		return false;
	*queue = meta_queue_by_id(DatumGetInt32(slot_value(g->job, Anum_job_queue_id)));
	return *queue && store_ticket_find(TABLE_DELAYED, delayed, g->snapshot, id, (*queue)->id, 0, ticket) &&
		   TIMESTAMP_IS_NOEND(ticket->visible_at);
}

/* after_dead of a job; 0: it waits no more, so that a row of it is left over, and goes. */
static char
policy_of(LetGo *g, Waiter *w)
{
	QueueInfo *queue;
	Ticket ticket;
	bool isnull;
	Datum policy;

	if (!w->read)
	{
		w->read = true;
		w->policy = 0;
		if (find_pending(g, w->id, &queue, &ticket))
		{
			policy = slot_datum(g->job, Anum_job_after_dead, &isnull);
			w->policy = isnull ? 0 : DatumGetChar(policy);
		}
	}
	return w->policy;
}

static void
delete_row(LetGo *g, const Dependency *row)
{
	ItemPointerData tid = row->tid;

	/* one that ended the other job is about to delete it, too, or it is locked by hand: that is not waited for here */
	if (store_delete(g->dependency, &tid, false) != TM_Ok)
		depend_sweep_soon();
}

/* Puts another row in the place of one. */
static void
replace_row(LetGo *g, const Dependency *row, int64 on_job, char how)
{
	TupleTableSlot *slot = store_slot(g->dependency, 0);
	ItemPointerData tid = row->tid;

	store_dependency_fill(slot, row->job_id, on_job, how);
	if (store_delete(g->dependency, &tid, false) == TM_Ok)
		store_insert(g->dependency, &slot, 1);
	else
		depend_sweep_soon();
}

/* What becomes of a row on a job that has ended, now that its waiter's stripe is held. */
static void
settle_row(LetGo *g, Waiter *w, const Dependency *row, const Ended *e)
{
	char policy = e->how == ENDED_COMPLETED ? 0 : policy_of(g, w);
	char waited_for = (char) pg_ascii_toupper((unsigned char) e->how);

	if (policy == 0)
		delete_row(g, row);
	else if (policy == 'r')
		replace_row(g, row, row->on_job, e->how);
	else if (policy == 'w' && e->goes_on_as != 0)
	{
		QueueInfo *queue = meta_queue_by_id(e->goes_on_in);

		if (queue)
			depend_watch(queue, false);
		replace_row(g, row, e->goes_on_as, 0);
	}
	else if (row->ended != waited_for)
		replace_row(g, row, row->on_job, waited_for);
	/* the row that says why stays for the sweep where the ticket is in other hands */
	if (policy == 'c')
	{
		w->cancel = w->exclusive = true;
		g->stable = g->stable && holds(g, w->id, true);
	}
}

/* The rows on a job that has ended, by a scan for all of them. */
static void
see_ended(LetGo *g, StoreScan *scan, const Ended *e)
{
	if (!holds(g, e->id, false))
		g->stable = false;
	store_dependencies_on_next(scan, e->id);
	while (store_scan_next(scan))
	{
		Dependency row;
		Waiter *w;

		CHECK_FOR_INTERRUPTS();
		store_dependency_read(scan->slot, &row);
		/* its own batch's row is no wait for an end */
		if (!dependency_holds(&row) || row.job_id == row.on_job)
			continue;
		w = waiter(g, row.job_id);
		w->near = row.on_job;
		if (w->left)
			continue;
		if (holds(g, w->id, false))
			settle_row(g, w, &row, e);
		else
		{
			w->releasing++;
			g->stable = false;
		}
	}
}

static void
see_all_ended(LetGo *g)
{
	StoreScan scan;

	if (ended.n == 0)
		return;
	store_dependencies_on(&scan, g->dependency, g->snapshot, ENDED(0)->id);
	for (int i = 0; i < ended.n; i++)
		if (ENDED(i)->how != 0)
			see_ended(g, &scan, ENDED(i));
	store_scan_end(&scan);
}

/*
 * Whether a job of which nothing is known any more was removed: it was live at the verb, and its queue keeps what has completed. Otherwise
 * it is taken for done.
 */
static bool
was_removed(const Unsure *u)
{
	QueueInfo *queue = u->queue_id != 0 ? meta_queue_by_id(u->queue_id) : NULL;

	return u->queue_id != 0 && (queue == NULL || queue->keep_completed != 0);
}

/*
 * A job that may have ended before it was known that somebody waits for it. It is looked at in each round: between them a dead one may
 * have been redriven, and have completed.
 */
static void
see_unsure(LetGo *g, Unsure *u)
{
	char how = 0;

	if (!holds(g, u->id, true))
	{
		g->stable = false;
		return;
	}
	if (!store_job_fetch(g->retire.job, g->snapshot, u->id, NULL, g->job))
	{
		how = store_how_ended(u->id, g->snapshot, NULL);
		if (how == 0)
			how = was_removed(u) ? ENDED_REMOVED : ENDED_COMPLETED;
	}
	if (how != 0 && !u->has_ended)
	{
		u->place = ended.n;
		u->has_ended = true;
		(void) add_ended(g, u->id, how);
	}
	else if (u->has_ended)
		ENDED(u->place)->how = how;
}

/* Deletes the rows of a job that waits no more; on_itself: only that which keeps its batch open. */
static void
delete_rows(LetGo *g, int64 id, bool on_itself)
{
	StoreScan scan;

	store_dependencies_of(&scan, g->dependency, g->snapshot, id);
	while (store_scan_next(&scan))
	{
		Dependency row;

		CHECK_FOR_INTERRUPTS();
		store_dependency_read(scan.slot, &row);
		if (!on_itself || row.on_job == id)
			delete_row(g, &row);
	}
	store_scan_end(&scan);
}

/* Takes that ticket, or leaves it to who has it in hand, and to the scheduler after that. */
static bool
take_pending(LetGo *g, int64 id, QueueInfo **queue, Ticket *ticket)
{
	if (!find_pending(g, id, queue, ticket))
		return false;
	if (!store_take(g->retire.delayed, &ticket->tid, g->snapshot))
	{
		depend_sweep_soon();
		return false;
	}
	xact_count(*queue, COUNT_PENDING, -1);
	return true;
}

/* A job that it waited for did not complete, and that is its end. */
static void
cancel_job(LetGo *g, Waiter *w)
{
	QueueInfo *queue;
	Ticket ticket;
	Attempt attempt;

	w->cancel = false;
	if (!take_pending(g, w->id, &queue, &ticket))
		return;
	memset(&attempt, 0, sizeof(attempt));
	attempt.attempt = ticket.attempt;
	(void) retire_finish(&g->retire, queue, g->job, 'x', &attempt);
	g->stable = false; /* it notes that the job has ended, and waits no more */
}

static void
see_waiter(LetGo *g, Waiter *w)
{
	QueueInfo *queue;
	Ticket ticket;

	if (!holds(g, w->id, w->exclusive))
	{
		/* a guess that saves a round */
		if (!w->exclusive && !store_dependencies_hold(g->dependency, w->id, w->near, w->releasing + 1))
			w->exclusive = true;
		g->stable = false;
		return;
	}
	if (w->left)
		return;
	if (w->cancel)
		cancel_job(g, w);
	if (w->joined && !find_pending(g, w->id, &queue, &ticket))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("batch " INT64_FORMAT " does not wait for members any more", w->id),
						errhint("Add members before jobq.close_batch(), or from a member that has not ended yet.")));
	if (!w->exclusive && !store_dependencies_hold(g->dependency, w->id, w->near, 1))
	{
		w->exclusive = true;
		g->stable = g->stable && holds(g, w->id, true);
	}
}

/* One look at all there is, and as much of the work as the stripes in hand allow. */
static void
do_round(LetGo *g)
{
	HASH_SEQ_STATUS seq;
	Unsure *u;
	Waiter *w;

	CommandCounterIncrement();
	g->stable = true;
	take_notes(g);
	g->snapshot = store_snapshot();
	hash_seq_init(&seq, g->waiters);
	while ((w = hash_seq_search(&seq)) != NULL)
	{
		w->releasing = 0;
		w->read = false;
	}
	hash_seq_init(&seq, g->unsure);
	while ((u = hash_seq_search(&seq)) != NULL)
		see_unsure(g, u);
	see_all_ended(g);
	hash_seq_init(&seq, g->waiters);
	while ((w = hash_seq_search(&seq)) != NULL)
		see_waiter(g, w);
	store_snapshot_done(g->snapshot);
}

/* Whether anything holds a job back; whoever could be deleting the last of it is visible now, or comes after us. */
static bool
is_held_back(LetGo *g, int64 id)
{
	StoreScan scan;
	Dependency row;
	bool held = false;

	store_dependencies_of(&scan, g->dependency, g->snapshot, id);
	while (!held && store_scan_next(&scan))
	{
		CHECK_FOR_INTERRUPTS();
		store_dependency_read(scan.slot, &row);
		held = dependency_holds(&row);
	}
	store_scan_end(&scan);
	return held;
}

/* A job that waits for nothing any more goes where it would have gone without. */
static void
let_go(LetGo *g, int64 id)
{
	Retire *r = &g->retire;
	QueueInfo *queue;
	Ticket ticket;
	bool isnull;
	Datum run_at;
	TimestampTz start;

	if (!take_pending(g, id, &queue, &ticket))
		return;
	run_at = slot_datum(g->job, Anum_job_run_at, &isnull);
	start = isnull ? r->now : Max(DatumGetTimestampTz(run_at), r->now);
	retire_requeue(r, queue, g->job, ticket.attempt, start);
	event_job(queue, EVENT_WAITING, g->job, ticket.attempt, start > r->now ? start - r->now : EVENT_NO_DELAY, NULL);
}

static int
by_id(const void *a, const void *b)
{
	int64 x = *(const int64 *) a;
	int64 y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/*
 * Lets go of all that nothing holds back, in the order of their ids. Before that the rows of jobs that wait no more go, and those which
 * keep batches open: only now, when no stripe is given back any more. Another transaction that found them in our hands would leave them
 * to us, and we might be rolled back after its commit.
 */
static void
let_all_go(LetGo *g)
{
	int64 *ids = MemoryContextAllocHuge(CurrentMemoryContext, (hash_get_num_entries(g->waiters) + 1) * sizeof(int64));
	HASH_SEQ_STATUS seq;
	Waiter *w;
	int n = 0;

	CommandCounterIncrement();
	g->snapshot = store_snapshot();
	hash_seq_init(&seq, g->waiters);
	while ((w = hash_seq_search(&seq)) != NULL)
	{
		if (w->left || w->close)
			delete_rows(g, w->id, !w->left);
		if (w->exclusive && !w->left)
			ids[n++] = w->id;
	}
	store_snapshot_done(g->snapshot);
	qsort(ids, n, sizeof(int64), by_id);
	CommandCounterIncrement();
	g->snapshot = store_snapshot();
	for (int i = 0; i < n; i++)
		if (!is_held_back(g, ids[i]))
			let_go(g, ids[i]);
	store_snapshot_done(g->snapshot);
}

/* Rounds until all stripes are held that are needed, and nothing new comes up. */
static void
settle(LetGo *g)
{
	take_notes(g);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		want_stripes(g, &g->exclusive, &g->shared);
		stripes_lock(STRIPE_JOB, &g->exclusive, &g->shared);
		DEBUG_POINT("depend-locked");
		do_round(g);
		if (g->stable && g->taken == depend_notes.n)
			break;
		stripes_unlock(STRIPE_JOB, &g->exclusive, &g->shared);
		memset(&g->exclusive, 0, sizeof(g->exclusive));
		memset(&g->shared, 0, sizeof(g->shared));
		DEBUG_POINT("depend-looked");
	}
	let_all_go(g);
}

/* A hash table by job id. */
static HTAB *
by_job(const char *name, Size entrysize)
{
	HASHCTL ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(int64);
	ctl.entrysize = entrysize;
	ctl.hcxt = CurrentMemoryContext;
	return hash_create(name, 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Pre-commit. Errors: 55P03 when a stripe is waited for too long; 55000 a batch that a member was added to does not wait any more. */
static void
before_commit(bool prepare)
{
	MemoryContext context;
	MemoryContext old;
	LetGo g;

	if (depend_nothing_to_do())
		return;
	if (prepare && depend_may_prepare())
		return;
	if (prepare)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot PREPARE a transaction that has touched jobs which wait for others"),
						errhint("They are let go at COMMIT: commit in one phase.")));
	context = AllocSetContextCreate(CurrentMemoryContext, "jobq pre-commit", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	memset(&g, 0, sizeof(g));
	list_empty(&ended);
	g.waiters = by_job("jobq waiters", sizeof(Waiter));
	g.unsure = by_job("jobq unsure", sizeof(Unsure));
	xact_verb_begin(meta_db()); /* notices what others wrote since the last verb */
	retire_begin(&g.retire);
	g.dependency = store_open(TABLE_DEPENDENCY);
	g.job = store_read_slot(g.retire.job);
	settle(&g);
	retire_end(&g.retire);
	ExecDropSingleTupleTableSlot(g.job);
	store_close(g.dependency);
	xact_verb_end(true);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* Called once, from _PG_init. */
void
letgo_init(void)
{
	depend_precommit = before_commit;
	depend_init();
}
