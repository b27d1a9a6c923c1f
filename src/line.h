/*-------------------------------------------------------------------------
 *
 * line.h
 *		What a transaction owes the groups it touched, paid in pre-commit.
 *
 * Who is in line, and whether a group has a ticket, changes only there:
 * under the stripes of all groups involved, with one snapshot taken after
 * the last of them. Verbs do what belongs to themselves at once (they
 * delete a ticket, a lease, a row of the line) and note the rest here. A
 * savepoint that is rolled back takes its notes with it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_LINE_H
#define JOBQ_LINE_H

#include "jobq.h"

#include "meta.h"
#include "place.h"
#include "store.h"

/* A job joins its group at the end of the line. row: job_id, attempt, priority, job_tid. */
extern void line_join(QueueInfo *queue, const text *key, const LineRow *row);

/* A job goes back to its place: row with group_id and ord. The transaction owns the group's ticket and lets go of it. */
extern void line_put_back(QueueInfo *queue, const text *key, const LineRow *row);

/* The group's ticket, which this transaction deleted, is given back. */
extern void line_let_go(QueueInfo *queue, const text *key, int64 group_id, const LineAfter *after);

/*
 * Takes back that the group's ticket is given back, if that was noted last and somebody is in line: the ticket is the transaction's own
 * again, as if it had just been deleted from ready.
 */
extern bool line_reclaim(QueueInfo *queue, Ticket *ticket);

/* Takes back that a dead job will block the group, which this transaction has noted; *held as if its ticket had come from held. */
extern bool line_unblock(QueueInfo *queue, const text *key, int64 dead_job, HeldRow *held);

/* A job left the line, at ord: a ticket that nobody has in hand follows the new head, or goes with the last job. */
extern void line_left(QueueInfo *queue, const text *key, int64 ord);

/* The group's settings changed: a ticket that nobody has in hand goes where it belongs now. */
extern void line_look(QueueInfo *queue, const text *key);

/*
 * Takes back that a job joins, or goes back to, its group's line, which this very transaction has noted. *has_place: it has one, in row.
 * False: nothing is noted.
 */
extern bool line_forget(int64 job_id, LineRow *row, bool *has_place);

/* Whether this very transaction has noted that a job joins, or goes back to, its group's line. */
extern bool line_joins(int64 job_id);

extern void line_init(void);

#endif
