/*-------------------------------------------------------------------------
 *
 * turn.h
 *		A group's turn: its next jobs go into a lease, and come back from it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_TURN_H
#define JOBQ_TURN_H

#include "jobq.h"

#include "group.h"
#include "line.h"
#include "meta.h"
#include "retire.h"
#include "store.h"

/* What taking turns needs; start with zeroes, end with turn_close. */
typedef struct TurnTables
{
	GroupTables group;
	StoreTable *line;
	StoreTable *job;
} TurnTables;

extern bool turn_is_poisoned(TurnTables *t, const Ticket *ticket);
extern int turn_take(TurnTables *t, QueueInfo *queue, const Ticket *ticket, int batch, int room, Ticket *jobs);
extern void turn_close(TurnTables *t);
extern int64 turn_lease_length(QueueInfo *queue, int64 group_id);
extern void turn_give_up(QueueInfo *queue, const Ticket *last);

/*
 * The end of a turn. The caller holds the group's lease exclusively, or has deleted it, and has read its jobs with a later snapshot. It
 * goes through them in their order; p is a job's place in the lease. Afterwards the lease must go, and turn_over is called.
 */
typedef struct TurnEnd
{
	Retire *retire;
	QueueInfo *queue;
	const Lease *lease;
	text *key;
	LineAfter after;
} TurnEnd;

/*
 * Takes the ticket of a blocked group out of held and gives it back at commit. dead_job: only if that one blocks it; 0: whichever. *held
 * tells what stood there. False: the group is not blocked so. Waits for who has the ticket in hand.
 */
extern bool turn_unblock(QueueInfo *queue, const text *key, int64 dead_job, HeldRow *held);

/* The same for a ticket that is held by a pause; where it goes is decided at commit. */
extern bool turn_unpause(QueueInfo *queue, const text *key);

extern void turn_end_begin(TurnEnd *e, Retire *retire, QueueInfo *queue, const Lease *lease);
extern void turn_saw(TurnEnd *e, TupleTableSlot *job);
extern FailResult turn_fail(TurnEnd *e, int p, TupleTableSlot *job, const Attempt *attempt, const text *error,
							const char *reason, int64 retry_in, bool retry);
extern void turn_return(TurnEnd *e, int p, TupleTableSlot *job, const Attempt *attempt, TimestampTz not_before);
extern void turn_over(TurnEnd *e);

#endif
