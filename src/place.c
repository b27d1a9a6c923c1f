/*-------------------------------------------------------------------------
 *
 * place.c
 *		Where a group's jobs and its ticket belong, and putting them there.
 *
 * Used in pre-commit, under the group's stripe, by who owns the ticket or
 * has made the group (line.c). What can be written together is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "event.h"
#include "ident.h"
#include "place.h"
#include "timeutil.h"
#include "xact.h"

/* How long a ticket rests that cannot be settled now, since somebody has a row of its group in hand. */
#define SETTLE_PAUSE (50 * 1000)

/* Every so many turns a group's line is counted for isolate_above. */
#define COUNT_TURNS 8

/* The same as store_open_once; for line.c. */
StoreTable *
place_open(StoreTable **t, JobqTable which)
{
	return store_open_once(t, which);
}

/* Writes the rows of the line that are still to be written. */
static void
flush_rows(Settling *s)
{
	int64 vers[STORE_BATCH];
	TupleTableSlot *slots[STORE_BATCH];

	if (s->nrows == 0)
		return;
	ident_job_ids(meta_db(), vers, s->nrows);
	for (int i = 0; i < s->nrows; i++)
	{
		slots[i] = store_slot(s->line, i);
		store_line_fill(slots[i], &s->rows[i], vers[i]);
	}
	store_insert(s->line, slots, s->nrows);
	s->nrows = 0;
}

/* Puts a job into the line. */
void
place_in_line(Settling *s, GroupWork *g, const LineRow *row)
{
	if (s->nrows == STORE_BATCH)
		flush_rows(s);
	s->rows[s->nrows++] = *row;
	if (!g->have_head || row->ord < g->head.ord)
		g->head = *row;
	g->have_head = true;
	xact_count(g->queue, COUNT_READY, 1);
}

/* Finds the first in line among those that were there before. */
void
place_find_head(Settling *s, GroupWork *g, int64 from_ord)
{
	LineRow row;

	if (store_line_head(s->line, s->snapshot, g->id, from_ord, &row) && (!g->have_head || row.ord < g->head.ord))
	{
		g->head = row;
		g->have_head = true;
	}
}

/* Whether more jobs are in line than the queue wants to see among the other groups. */
static bool
is_bulk(Settling *s, GroupWork *g)
{
	StoreScan scan;
	int n = g->joins;

	if (n > g->queue->isolate_above || g->made)
		return n > g->queue->isolate_above;
	store_line_scan(&scan, s->line, s->snapshot, g->id, g->head.ord);
	while (n <= g->queue->isolate_above && store_scan_next(&scan))
		n++;
	store_scan_end(&scan);
	return n > g->queue->isolate_above;
}

static int16
choose_lane(Settling *s, GroupWork *g, int64 seq, const LineAfter *after)
{
	if (g->queue->isolate_above == 0)
		return LANE_GROUP;
	/* counting costs more than the turn itself */
	if (after && after->lane >= LANE_GROUP && seq % COUNT_TURNS != 0)
		return after->lane;
	return is_bulk(s, g) ? LANE_BULK : LANE_GROUP;
}

static void
insert_delayed(StoreTable *delayed, QueueInfo *queue, int64 group_id, int16 priority, int64 from_ord,
			   TimestampTz visible_at)
{
	TupleTableSlot *slot = store_slot(delayed, 0);
	Ticket ticket;

	memset(&ticket, 0, sizeof(ticket));
	ticket.job_id = ticket.group_id = group_id;
	ticket.queue_id = queue->id;
	ticket.priority = priority;
	ticket.from_ord = from_ord;
	ticket.visible_at = visible_at;
	store_delayed_fill(slot, &ticket);
	store_insert(delayed, &slot, 1);
	xact_made_delayed(queue, visible_at);
}

void
place_hold(Settling *s, GroupWork *g, const LineAfter *blocked)
{
	HeldRow row;

	memset(&row, 0, sizeof(row));
	row.group_id = g->id;
	row.queue_id = g->queue->id;
	row.priority = g->have_head ? g->head.priority : JOBQ_DEFAULT_PRIORITY;
	row.since = clock_now();
	row.from_ord = g->have_head ? g->head.ord : 0;
	if (blocked)
	{
		row.from_ord = g->have_head ? g->head.ord : blocked->from_ord;
		row.blocked = true;
		row.dead_job = blocked->dead_job;
		row.dead_ord = blocked->dead_ord;
		event_group(g->queue, EVENT_GROUP_BLOCKED, g->key, blocked->dead_job);
	}
	store_held_insert(store_open_once(&s->held, TABLE_HELD), &row);
	xact_count(g->queue, COUNT_GROUPS_HELD, 1);
}

/* Writes the tickets that are still to be written into ready. */
static void
flush_tickets(Settling *s)
{
	TupleTableSlot *slots[STORE_BATCH];

	if (s->ntickets == 0)
		return;
	(void) store_open_once(&s->ready, TABLE_READY);
	for (int i = 0; i < s->ntickets; i++)
	{
		slots[i] = store_slot(s->ready, i);
		store_ready_fill(slots[i], &s->tickets[i]);
	}
	store_insert(s->ready, slots, s->ntickets);
	s->ntickets = 0;
}

/* Writes the group's ticket to where it belongs. after: how it was given back, or NULL. */
void
place_ticket(Settling *s, GroupWork *g, const LineAfter *after)
{
	TimestampTz not_before = after ? after->not_before : DT_NOBEGIN;
	Ticket *ticket;

	if (group_is_special(g->queue))
	{
		GroupSettings settings;

		group_settings(&s->tables, g->queue, g->key, &settings);
		if (settings.paused)
		{
			place_hold(s, g, NULL);
			return;
		}
		if (settings.gap > 0)
		{
			TimestampTz free = group_rate_free(&s->tables, g->queue, g->key);

			not_before = Max(not_before, free);
		}
	}
	if (not_before > clock_now())
	{
		insert_delayed(store_open_once(&s->delayed, TABLE_DELAYED), g->queue, g->id, g->head.priority, g->head.ord,
					   not_before);
		return;
	}
	if (s->ntickets == STORE_BATCH)
		flush_tickets(s);
	ticket = &s->tickets[s->ntickets++];
	memset(ticket, 0, sizeof(*ticket));
	ticket->seq = ident_job_id(meta_db());
	ticket->job_id = ticket->group_id = g->id;
	ticket->queue_id = g->queue->id;
	ticket->priority = g->head.priority;
	ticket->from_ord = g->head.ord;
	ticket->lane = choose_lane(s, g, ticket->seq, after);
	xact_made_ready(g->queue, ticket->lane, ticket->priority, ticket->seq, ticket->seq, 1);
}

/* The group has no job left, and its ticket is ours: it becomes idle. */
void
place_idle(Settling *s, GroupWork *g, int64 from_ord)
{
	if (g->made)
		return;
	if (store_delete(s->job_group, &g->tid, false) == TM_Ok)
	{
		xact_count(g->queue, COUNT_GROUPS, -1);
		return;
	}
	/* somebody has locked the row by hand; that is not waited for under a stripe */
	insert_delayed(store_open_once(&s->delayed, TABLE_DELAYED), g->queue, g->id, JOBQ_DEFAULT_PRIORITY, from_ord,
				   clock_now() + SETTLE_PAUSE);
}

/* Parks a ticket that the caller deleted in ready, for the scheduler to let go of it. */
void
place_parked(QueueInfo *queue, const Ticket *ticket, TimestampTz until)
{
	StoreTable *delayed = store_open(TABLE_DELAYED);

	insert_delayed(delayed, queue, ticket->group_id, ticket->priority, ticket->from_ord, until);
	store_close(delayed);
}

/* Writes what is still to be written and closes all tables. */
void
place_end(Settling *s)
{
	flush_rows(s);
	flush_tickets(s);
	store_snapshot_done(s->snapshot);
	group_close(&s->tables);
	store_close(s->held);
	store_close(s->delayed);
	store_close(s->ready);
	store_close(s->line);
	store_close(s->job_group);
}
