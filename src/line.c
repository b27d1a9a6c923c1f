/*-------------------------------------------------------------------------
 *
 * line.c
 *		What a transaction owes the groups it touched, paid in pre-commit.
 *
 * Rules, each of which closes an interleaving that loses a wake-up or
 * breaks the order:
 *	- stripes are taken in their order, after all other work; nothing is
 *	  waited for while one is held but the next: rows touched then are owned
 *	  already, or taken without waiting;
 *	- a stripe is held until the commit is visible;
 *	- one snapshot, taken after the last stripe is held, decides for all
 *	  tables, also under REPEATABLE READ: nothing read before may decide;
 *	- every way out takes this path: complete, fail, release, expiry, settle,
 *	  cancel, unblock, a passed job or a delayed one that joins again;
 *	- a place in line is drawn under the stripe, so the order of commits is
 *	  the order of the line.
 *
 * Writing here is plain writing of rows: no SPI, no triggers, no foreign
 * keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "debug.h"
#include "group.h"
#include "ident.h"
#include "line.h"
#include "pending.h"
#include "stripe.h"
#include "timeutil.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_joining);

typedef enum NoteKind
{
	NOTE_JOIN,
	NOTE_PUT_BACK,
	NOTE_LET_GO,
	NOTE_LEFT,
	NOTE_LOOK,
	NOTE_UNBLOCK,
	NOTE_FORGET,
	NOTE_VOID
} NoteKind;

/* What is owed to one group. */
typedef struct Note
{
	SubTransactionId subid;
	int16 kind;
	int16 stripe;
	int32 queue_id;
	text *key;      /* in notes_context */
	int64 group_id; /* let go */
	union
	{
		LineRow row;     /* join, put back; left, forget: only ord or job_id */
		LineAfter after; /* let go */
	} u;
} Note;

static PendingList notes = {NULL, sizeof(Note), 0, 0};
static MemoryContext notes_context = NULL;
static bool closed = false; /* the commit has begun: what is noted now would not be paid */

#define NOTE(i) (&((Note *) notes.items)[i])

static Note *
new_note(NoteKind kind, QueueInfo *queue, const text *key)
{
	Note *note;
	Note *last = notes.n > 0 ? NOTE(notes.n - 1) : NULL;
	text *copy = NULL;

	if (closed)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("a group cannot be changed any more: the transaction is being committed"),
			 errhint(
				 "Put jobq before other libraries in shared_preload_libraries, so that it comes last in a commit.")));
	if (notes_context == NULL)
		notes_context =
			AllocSetContextCreate(TopMemoryContext, "jobq groups of the transaction", ALLOCSET_DEFAULT_SIZES);
	if (key && last && last->key && same_key(last->key, key))
		copy = last->key;
	else if (key)
	{
		Size len = VARSIZE_ANY_EXHDR(key);

		copy = MemoryContextAlloc(notes_context, len + VARHDRSZ);
		SET_VARSIZE(copy, len + VARHDRSZ);
		memcpy(VARDATA(copy), VARDATA_ANY(key), len);
	}
	note = list_add(&notes);
	note->subid = GetCurrentSubTransactionId();
	note->kind = kind;
	if (queue)
	{
		note->queue_id = queue->id;
		note->stripe = group_stripe(queue->id, copy);
		note->key = copy;
	}
	return note;
}

void
line_join(QueueInfo *queue, const text *key, const LineRow *row)
{
	new_note(NOTE_JOIN, queue, key)->u.row = *row;
}

void
line_put_back(QueueInfo *queue, const text *key, const LineRow *row)
{
	new_note(NOTE_PUT_BACK, queue, key)->u.row = *row;
}

void
line_let_go(QueueInfo *queue, const text *key, int64 group_id, const LineAfter *after)
{
	Note *note = new_note(NOTE_LET_GO, queue, key);

	note->group_id = group_id;
	note->u.after = *after;
}

void
line_left(QueueInfo *queue, const text *key, int64 ord)
{
	new_note(NOTE_LEFT, queue, key)->u.row.ord = ord;
}

void
line_look(QueueInfo *queue, const text *key)
{
	(void) new_note(NOTE_LOOK, queue, key);
}

/* Where it stands that a job joins the line, or goes back to it; -1: nowhere, or that was taken back. */
static int
find_pending(int64 job_id)
{
	for (int i = notes.n - 1; i >= 0; i--)
	{
		if (NOTE(i)->kind == NOTE_FORGET && NOTE(i)->u.row.job_id == job_id)
			return -1;
		if ((NOTE(i)->kind == NOTE_JOIN || NOTE(i)->kind == NOTE_PUT_BACK) && NOTE(i)->u.row.job_id == job_id)
			return i;
	}
	return -1;
}

bool
line_joins(int64 job_id)
{
	return find_pending(job_id) >= 0;
}

bool
line_forget(int64 job_id, LineRow *row, bool *has_place)
{
	int i = find_pending(job_id);

	if (i < 0)
		return false;
	*row = NOTE(i)->u.row;
	*has_place = NOTE(i)->kind == NOTE_PUT_BACK;
	new_note(NOTE_FORGET, NULL, NULL)->u.row.job_id = job_id;
	return true;
}

/* Whether somebody else of the note's group is to go back to its place. */
static bool
has_put_back(const Note *note)
{
	for (int i = 0; i < notes.n; i++)
		if (NOTE(i)->kind == NOTE_PUT_BACK && NOTE(i)->queue_id == note->queue_id && same_key(NOTE(i)->key, note->key))
			return true;
	return false;
}

bool
line_reclaim(QueueInfo *queue, Ticket *ticket)
{
	Note *note = notes.n > 0 ? NOTE(notes.n - 1) : NULL;
	StoreTable *line;
	Snapshot snapshot;
	LineRow head;
	bool found;

	if (note == NULL || note->kind != NOTE_LET_GO || note->queue_id != queue->id ||
		note->subid != GetCurrentSubTransactionId() || note->u.after.dead_job != 0 || note->u.after.drain ||
		!TIMESTAMP_IS_NOBEGIN(note->u.after.not_before) || has_put_back(note))
		return false;
	line = store_open(TABLE_LINE);
	snapshot = store_snapshot();
	found = store_line_head(line, snapshot, note->group_id, note->u.after.from_ord, &head);
	store_snapshot_done(snapshot);
	store_close(line);
	if (!found)
		return false;
	memset(ticket, 0, sizeof(*ticket));
	ticket->job_id = ticket->group_id = note->group_id;
	ticket->queue_id = queue->id;
	ticket->lane = note->u.after.lane;
	ticket->priority = head.priority;
	ticket->from_ord = note->u.after.from_ord;
	note->kind = NOTE_VOID;
	return true;
}

/* The notes that take something back. */
typedef struct Forgets
{
	int n;
	int *at;
} Forgets;

static Forgets
find_forgets(void)
{
	Forgets f = {0, NULL};

	for (int i = 0; i < notes.n; i++)
	{
		if (NOTE(i)->kind != NOTE_FORGET)
			continue;
		if (f.at == NULL)
			f.at = palloc((notes.n - i) * sizeof(int));
		f.at[f.n++] = i;
	}
	return f;
}

/* Whether what a job's note says was taken back by this transaction. */
static bool
is_forgotten(const Note *note, const Forgets *f)
{
	for (int i = 0; i < f->n; i++)
		if (f->at[i] > note - NOTE(0) && NOTE(f->at[i])->u.row.job_id == note->u.row.job_id)
			return true;
	return false;
}

bool
line_unblock(QueueInfo *queue, const text *key, int64 dead_job, HeldRow *held)
{
	for (int i = notes.n - 1; i >= 0; i--)
	{
		Note *note = NOTE(i);

		if ((note->kind != NOTE_LET_GO && note->kind != NOTE_UNBLOCK) || note->queue_id != queue->id ||
			!same_key(note->key, key))
			continue;
		if (note->kind == NOTE_UNBLOCK || note->u.after.dead_job == 0 ||
			(dead_job != 0 && note->u.after.dead_job != dead_job))
			return false;
		memset(held, 0, sizeof(*held));
		held->group_id = note->group_id;
		held->queue_id = queue->id;
		held->blocked = true;
		held->from_ord = note->u.after.from_ord;
		held->dead_job = note->u.after.dead_job;
		held->dead_ord = note->u.after.dead_ord;
		/* noted and not done: a savepoint may undo it */
		(void) new_note(NOTE_UNBLOCK, queue, key);
		return true;
	}
	return false;
}

/* The order of the work: by stripe, by group, and within a group as noted. */
static int
by_group(const void *a, const void *b)
{
	const int i = *(const int *) a;
	const int j = *(const int *) b;
	const Note *x = NOTE(i);
	const Note *y = NOTE(j);
	int result;

	if (x->stripe != y->stripe)
		return x->stripe < y->stripe ? -1 : 1;
	if (x->queue_id != y->queue_id)
		return x->queue_id < y->queue_id ? -1 : 1;
	if (x->key != y->key)
	{
		int xlen = VARSIZE(x->key) - VARHDRSZ;
		int ylen = VARSIZE(y->key) - VARHDRSZ;

		result = memcmp(VARDATA(x->key), VARDATA(y->key), Min(xlen, ylen));
		if (result == 0)
			result = xlen - ylen;
		if (result != 0)
			return result;
	}
	return i < j ? -1 : i > j;
}

/* A new member of the line; the first one makes the group. */
static void
join(Settling *s, GroupWork *g, const Note *note)
{
	LineRow row = note->u.row;

	if (!g->known && !g->made)
	{
		g->id = ident_job_id(meta_db());
		g->made = true;
		store_group_insert(s->job_group, g->id, g->queue->id, g->key);
		xact_count(g->queue, COUNT_GROUPS, 1);
	}
	row.group_id = g->id;
	row.ord = ident_job_id(meta_db());
	place_in_line(s, g, &row);
	g->joins++;
}

/* The ticket that this transaction took is given back. */
static void
give_back(Settling *s, GroupWork *g)
{
	const LineAfter *after = g->let_go;

	place_find_head(s, g, after->from_ord);
	if (after->dead_job != 0 && !g->unblocked)
		place_hold(s, g, after);
	else if (g->have_head)
		place_ticket(s, g, g->gone_ord < g->head.ord ? NULL : after);
	else
		place_idle(s, g, after->from_ord);
}

/* Deletes the group's ticket, or finds that somebody has it in hand: that one looks at the line after us. */
static bool
take_free_ticket(Settling *s, GroupWork *g, JobqTable which, Ticket *ticket)
{
	StoreTable *t = which == TABLE_READY ? s->ready : s->delayed;

	xact_reserve();
	if (store_delete(t, &ticket->tid, false) != TM_Ok)
		return false;
	if (which == TABLE_READY)
		xact_took_ready(g->queue, ticket->lane, ticket->priority, ticket->seq);
	return true;
}

/*
 * The settings have changed: what is left of the wait after the last start is no longer than the rate now wants. (A job that is being
 * started just now may still count by the old rate.)
 */
static void
shorten_rate(Settling *s, GroupWork *g)
{
	GroupSettings settings = {0};

	if (group_is_special(g->queue))
		group_settings(&s->tables, g->queue, g->key, &settings);
	g->rate_was = group_rate_shorten(&s->tables, g->queue, g->key, timestamp_add(clock_now(), settings.gap));
}

/* Jobs left the line, or settings changed, and the group's ticket is not ours: it follows if nobody has it in hand. */
static void
follow(Settling *s, GroupWork *g)
{
	JobqTable which = TABLE_READY;
	GroupSettings settings = {0};
	Ticket ticket;
	HeldRow held;
	bool move;

	if (group_is_special(g->queue))
		group_settings(&s->tables, g->queue, g->key, &settings);
	if (!store_ticket_of_group(which, place_open(&s->ready, which), s->snapshot, g->id, &ticket))
	{
		which = TABLE_DELAYED;
		if (!store_ticket_of_group(which, place_open(&s->delayed, which), s->snapshot, g->id, &ticket))
			which = TABLE_HELD;
	}
	if (which == TABLE_HELD)
	{
		if (!store_held_find(place_open(&s->held, which), s->snapshot, g->id, &held) || held.blocked)
			return; /* leased, or it waits for unblock_group() */
		place_find_head(s, g, held.from_ord);
		if ((g->have_head && settings.paused) || store_delete(s->held, &held.tid, false) != TM_Ok)
			return;
		xact_count(g->queue, COUNT_GROUPS_HELD, -1);
		if (g->have_head)
			place_ticket(s, g, NULL);
		else
			place_idle(s, g, held.from_ord);
		return;
	}
	place_find_head(s, g, ticket.from_ord);
	move = !g->have_head || settings.paused;
	if (which == TABLE_DELAYED)
		move |= (g->look && ticket.visible_at == g->rate_was) || (g->left && g->left_ord < g->head.ord);
	if (!move || !take_free_ticket(s, g, which, &ticket))
		return;
	if (g->have_head)
		place_ticket(s, g, NULL);
	else
		place_idle(s, g, ticket.from_ord);
}

/* All that is owed to one group. */
static void
settle_group(Settling *s, const int *order, int n, const Forgets *forgets)
{
	Note *first = NOTE(order[0]);
	GroupWork g;
	int64 let_go_id = 0;

	memset(&g, 0, sizeof(g));
	g.queue = meta_queue_by_id(first->queue_id);
	if (g.queue == NULL)
		return; /* dropped by this transaction, with all that is in it */
	g.key = first->key;
	g.first = order[0];
	g.known = store_group_find(s->job_group, s->snapshot, g.queue->id, g.key, &g.id, &g.tid);
	g.left_ord = g.gone_ord = PG_INT64_MAX;
	for (int i = 0; i < n; i++)
	{
		Note *note = NOTE(order[i]);

		switch ((NoteKind) note->kind)
		{
			case NOTE_JOIN:
				if (!is_forgotten(note, forgets))
					join(s, &g, note);
				break;
			case NOTE_PUT_BACK:
				if (is_forgotten(note, forgets))
					g.gone_ord = Min(g.gone_ord, note->u.row.ord); /* the group may have waited for it */
				else
					place_in_line(s, &g, &note->u.row);
				break;
			case NOTE_LET_GO:
				g.let_go = &note->u.after;
				let_go_id = note->group_id;
				g.unblocked = false;
				break;
			case NOTE_UNBLOCK:
				g.unblocked = true;
				break;
			case NOTE_LEFT:
				g.left = true;
				g.left_ord = Min(g.left_ord, note->u.row.ord);
				break;
			case NOTE_LOOK:
				g.look = true;
				break;
			case NOTE_FORGET:
			case NOTE_VOID:
				break;
		}
	}
	if (g.look)
		shorten_rate(s, &g);
	if (g.let_go && let_go_id == g.id)
		give_back(s, &g);
	else if (g.made)
		s->made[s->nmade++] = g;
	else if (g.known && (g.left || g.look))
		follow(s, &g);
	else if (g.let_go)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("group " INT64_FORMAT " of queue \"%s\" has no row", let_go_id, g.queue->name),
						errhint("SELECT * FROM jobq.verify() tells what else is wrong.")));
}

static int
by_first(const void *a, const void *b)
{
	return ((const GroupWork *) a)->first - ((const GroupWork *) b)->first;
}

/*
 * Gives the groups that were made their first tickets, in the order in which the transaction named them: who came first is served first.
 * (In the order of stripes, workers that take neighbouring tickets would wait for one stripe.)
 */
static void
place_first_tickets(Settling *s)
{
	if (s->nmade > 1)
		qsort(s->made, s->nmade, sizeof(GroupWork), by_first);
	for (int i = 0; i < s->nmade; i++)
		place_ticket(s, &s->made[i], NULL);
}

static int
count_groups(const int *order, int n)
{
	int groups = 1;

	for (int i = 1; i < n; i++)
		groups += NOTE(order[i])->queue_id != NOTE(order[i - 1])->queue_id ||
				  !same_key(NOTE(order[i])->key, NOTE(order[i - 1])->key);
	return groups;
}

static void
settle_all(const int *order, int n, const Forgets *forgets)
{
	Settling *s = palloc0(sizeof(Settling));
	int from = 0;

	s->snapshot = store_snapshot();
	s->job_group = store_open(TABLE_JOB_GROUP);
	s->line = store_open(TABLE_LINE);
	s->made = MemoryContextAllocHuge(CurrentMemoryContext, count_groups(order, n) * sizeof(GroupWork));
	for (int i = 1; i <= n; i++)
	{
		Note *note = NOTE(order[from]);

		if (i < n && NOTE(order[i])->queue_id == note->queue_id && same_key(NOTE(order[i])->key, note->key))
			continue;
		CHECK_FOR_INTERRUPTS();
		settle_group(s, &order[from], i - from, forgets);
		from = i;
	}
	place_first_tickets(s);
	place_end(s);
}

/* Pre-commit: pays what is owed. Error 55P03 when a stripe is waited for too long. */
static void
pay(bool prepare)
{
	StripeSet stripes = {{0}};
	Forgets forgets;
	MemoryContext context;
	MemoryContext old;
	int *order;
	int n = 0;

	closed = true;
	if (notes.n == 0)
		return;
	if (prepare)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has touched a group"),
				 errhint("Jobs join their group at COMMIT. Enqueue them without group_key, or commit in one phase.")));
	DEBUG_POINT("line-precommit");
	context = AllocSetContextCreate(CurrentMemoryContext, "jobq pre-commit", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	order = MemoryContextAllocHuge(context, notes.n * sizeof(int));
	for (int i = 0; i < notes.n; i++)
	{
		Note *note = NOTE(i);

		if (note->kind == NOTE_FORGET || note->kind == NOTE_VOID)
			continue;
		stripe_add(&stripes, note->stripe);
		order[n++] = i;
	}
	if (n > 0)
	{
		qsort(order, n, sizeof(int), by_group);
		stripes_lock(STRIPE_GROUP, &stripes, NULL);
		DEBUG_POINT("line-locked");
		xact_verb_begin(meta_db()); /* notices what others wrote since the last verb */
		CommandCounterIncrement();
		forgets = find_forgets();
		settle_all(order, n, &forgets);
		xact_verb_end(true);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * jobq.joining(): the ids of the jobs that this transaction has brought to a group, or back to it: they stand in its line at commit, and
 * have no place until then. For the views.
 */
Datum
jobq_joining(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Forgets forgets = find_forgets();

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	for (int i = 0; i < notes.n; i++)
	{
		Datum value = Int64GetDatum(NOTE(i)->u.row.job_id);
		bool isnull = false;

		if ((NOTE(i)->kind == NOTE_JOIN || NOTE(i)->kind == NOTE_PUT_BACK) && !is_forgotten(NOTE(i), &forgets))
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}
	return (Datum) 0;
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	closed = false;
	list_empty(&notes);
	if (notes_context)
		MemoryContextReset(notes_context);
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int n = notes.n;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	while (n > 0 && NOTE(n - 1)->subid == subid)
		NOTE(--n)->subid = parent;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		notes.n = n;
}

/* Registers the callbacks. Called once, from _PG_init. */
void
line_init(void)
{
	xact_precommit = pay;
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
