/*-------------------------------------------------------------------------
 *
 * timewalk.h
 *		Bounded walks over what is due, in an index that is ordered by time.
 *
 * Of each index (of each queue, for delayed tickets) shared memory holds
 * three times: cursor, before which nothing waits; low, the earliest one told
 * since the scheduler last looked; and the one when it is to look next.
 *
 * What commits below or beside a walk is told through low: it is emptied
 * before the snapshot is taken, so whatever the snapshot does not show is in
 * it afterwards, and cursor and the next look are never set beyond it.
 *
 *		lock; timewalk_take(); unlock		no transaction's end between this
 *		timewalk_begin()					and the snapshot is missed
 *		timewalk_run(), with a snapshot
 *		commit
 *		timewalk_end()
 *		lock; cursor, next = what it says, at most low; unlock
 *
 * When the transaction fails, its caller puts look.low back into low.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_TIMEWALK_H
#define JOBQ_TIMEWALK_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "store.h"

/* A pass over what is due takes many transactions: where it stands, and what it has left. */
typedef struct TimePass
{
	bool running;
	TimestampTz resume_at;
	int64 resume_id;
	TimestampTz kept;  /* earliest one that the pass left */
	TimestampTz retry; /* when to try that again */
	bool busy;         /* it left some because they are in somebody's hands */
	int64 pause;       /* before those are tried again */
} TimePass;

#define TIME_PASS_INIT                      \
	{                                       \
		.kept = DT_NOEND, .retry = DT_NOEND \
	}

/* One transaction's look. */
typedef struct TimeLook
{
	bool taken; /* low was taken out of shared memory */
	TimestampTz low;
	TimestampTz start;
	bool resume;
	bool more;           /* stopped before the end of what is due */
	TimestampTz reached; /* everything before it was seen */
	int64 reached_id;
	TimestampTz next; /* none is due between now and then */
} TimeLook;

/* What is walked over, and what to do with it. */
typedef struct TimeWalk
{
	StoreTable *table;
	int index;
	int column;         /* of the index, that is the time */
	bool has_id;        /* an id is the next one, behind which a walk may stop among equal times */
	ScanKeyData prefix; /* where the time is the second column: what the first one is to be */
	int limit;          /* entries in one transaction, dead ones too */
	/* a row that the snapshot shows, due by `at`; false: no more in this transaction */
	bool (*take)(void *arg, TupleTableSlot *slot, TimestampTz at);
	void *arg;
} TimeWalk;

extern void timewalk_take(TimeLook *look, TimestampTz cursor, TimestampTz *low);
extern void timewalk_begin(TimeLook *look, const TimePass *pass);
extern void timewalk_run(TimeLook *look, const TimePass *pass, const TimeWalk *walk, Snapshot snapshot,
						 TimestampTz now);
extern void timewalk_leave(TimePass *pass, TimestampTz at, TimestampTz until);
extern void timewalk_leave_busy(TimePass *pass, TimestampTz at);
extern void timewalk_end(const TimeLook *look, TimePass *pass, TimestampTz *cursor, TimestampTz *next);

#endif
