/* place.h: where a group's jobs and its ticket belong */
#ifndef JOBQ_PLACE_H
#define JOBQ_PLACE_H

#include "jobq.h"

#include "group.h"
#include "meta.h"
#include "store.h"

/* How a ticket is given back by who owns it. */
typedef struct LineAfter
{
	int64 from_ord;         /* nobody stands in line before it, but for who is put back */
	int16 lane;             /* that it came from */
	TimestampTz not_before; /* the group waits until then; DT_NOBEGIN: not at all */
	int64 dead_job;         /* blocks the group; 0: none */
	bool drain;             /* the holder was asked to let go: it does not go on with the group */
	int64 dead_ord;         /* its place */
} LineAfter;

/* The work of one pre-commit. */
typedef struct Settling
{
	Snapshot snapshot;
	GroupTables tables;
	StoreTable *job_group;
	StoreTable *line;
	StoreTable *ready;
	StoreTable *delayed;
	StoreTable *held;
	int nrows; /* of the line, still to be inserted */
	LineRow rows[STORE_BATCH];
	int ntickets; /* of ready, still to be inserted */
	Ticket tickets[STORE_BATCH];
	struct GroupWork *made; /* groups that still need their first ticket */
	int nmade;
} Settling;

/* One group in it. */
typedef struct GroupWork
{
	QueueInfo *queue;
	const text *key;
	int64 id;
	int first;               /* of its notes */
	bool known;              /* it has a row, hence a ticket */
	bool made;               /* we made the row */
	ItemPointerData tid;     /* of the row, if known */
	const LineAfter *let_go; /* its ticket is ours, and given back so */
	int joins;
	bool left;            /* somebody left the line */
	bool look;            /* settings changed */
	bool unblocked;       /* the dead job that its ticket was given back with does not block it after all */
	TimestampTz rate_was; /* with look: what it waited for, if that was its rate */
	int64 gone_ord;       /* the first place of those that were to go back, and were withdrawn */
	int64 left_ord;       /* the first place that became free */
	bool have_head;
	LineRow head;
} GroupWork;

extern StoreTable *place_open(StoreTable **t, JobqTable which);
extern void place_in_line(Settling *s, GroupWork *g, const LineRow *row);
extern void place_find_head(Settling *s, GroupWork *g, int64 from_ord);
extern void place_hold(Settling *s, GroupWork *g, const LineAfter *blocked);
extern void place_ticket(Settling *s, GroupWork *g, const LineAfter *after);
extern void place_idle(Settling *s, GroupWork *g, int64 from_ord);
extern void place_parked(QueueInfo *queue, const Ticket *ticket, TimestampTz until);
extern void place_end(Settling *s);

#endif
