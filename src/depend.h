/*-------------------------------------------------------------------------
 *
 * depend.h
 *		Jobs that wait for others: what a transaction notes of them.
 *
 * Verbs note which jobs they ended, and which jobs wait or no longer do.
 * Who is let go by that is found out in pre-commit (letgo.c): completions
 * need not look, and nobody waits for an open transaction. A savepoint that
 * is rolled back takes its notes with it.
 *
 * The jobs of a queue are watched once a job waits for one of them. Until
 * then its completions cost no more than the notes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_DEPEND_H
#define JOBQ_DEPEND_H

#include "jobq.h"

#include "meta.h"
#include "pending.h"
#include "store.h"

/* How a job ended, as stored in dependency.ended, but for the first. */
#define ENDED_COMPLETED 'c'
#define ENDED_CANCELLED 'x'
#define ENDED_EXPIRED 'e'
#define ENDED_DEAD 'd'
#define ENDED_REMOVED 'r'

typedef enum DependKind
{
	DEPEND_ENDED,  /* job ended, see how */
	DEPEND_MOVED,  /* job died and goes on as other */
	DEPEND_LEFT,   /* job waits no more: its rows are to go */
	DEPEND_CHECK,  /* job may wait for nothing any more */
	DEPEND_CANCEL, /* job waits for one that did not complete, and is to be cancelled for that */
	DEPEND_UNSURE, /* job waits for other, which may have ended before anybody could know of it */
	DEPEND_MEMBER, /* other has become a member of batch job, which must still wait at commit */
	DEPEND_CLOSE   /* job is a batch, and is closed */
} DependKind;

typedef struct DependNote
{
	SubTransactionId subid;
	int16 kind;
	char how;
	int32 queue_id;    /* of job; ended, moved. Unsure: of other, if it was live */
	int32 other_queue; /* of other; moved */
	QueueSlot *slot;   /* of queue_id, or NULL */
	int64 job;
	int64 other;
} DependNote;

/* Of this transaction. */
extern PendingList depend_notes;

#define DEPEND_NOTE(i) (&((DependNote *) depend_notes.items)[i])

/* What of a kind concerns which job; other: see DependKind, or 0. */
extern void depend_note(DependKind kind, int64 job, int64 other);

/* A note of DEPEND_UNSURE; queue_id: of other, when that is live as far as could be seen; else 0. */
extern void depend_unsure(int64 job, int64 other, int32 queue_id);

extern void depend_ended(QueueInfo *queue, int64 job, char how);
extern void depend_moved(QueueInfo *queue, int64 job, QueueInfo *to, int64 goes_on_as);

/* A job's row goes, or it starts to wait no more: what is stored of its waiting goes too. */
static inline void
depend_left(TupleTableSlot *job)
{
	bool isnull;

	(void) slot_datum(job, Anum_job_after_dead, &isnull);
	if (!isnull)
		depend_note(DEPEND_LEFT, DatumGetInt64(slot_value(job, Anum_job_id)), 0);
}

/*
 * A row about a job of this queue is to be written: the queue's jobs are watched from now on. When it is the first, it waits for the
 * commits in progress of who did not know; wait false: the job is this transaction's own, and they cannot have ended it.
 */
extern void depend_watch(QueueInfo *queue, bool wait);

/*
 * Whether jobs of the note's queue are watched. In pre-commit; if they are not, who starts to watch them waits until this transaction is
 * over.
 */
extern bool depend_is_watched(const DependNote *note);

/* Whether the notes are of no consequence: jobs that ended in queues whose jobs nobody waits for. In pre-commit. */
extern bool depend_nothing_to_do(void);

/*
 * Whether a transaction may be prepared: it ends jobs that nobody waits for as far as can be seen, and changes nothing else. No stripes:
 * it would keep them. Who comes to wait for such a job is seen to by the sweep, which follows a COMMIT PREPARED.
 */
extern bool depend_may_prepare(void);

/* Called in pre-commit, before groups are seen to; see letgo.c. */
typedef void (*DependPrecommit)(bool prepare);
extern DependPrecommit depend_precommit;

/* The scheduler is to look for jobs that were not let go; at once, at the end of this transaction. */
extern void depend_sweep_soon(void);

extern void depend_init(void);

#endif
