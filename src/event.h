/*-------------------------------------------------------------------------
 *
 * event.h
 *		Events: what happened to jobs, for who listens or asks.
 *
 * A transaction notes its events; they are in the buffer, for others to
 * see, from its commit on. Queues that chose none pay one comparison.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_EVENT_H
#define JOBQ_EVENT_H

#include "jobq.h"

#include "eventkind.h"
#include "meta.h"
#include "store.h"

/* Whether events of a kind are wanted. */
static inline bool
event_wanted(const QueueInfo *queue, EventKind kind)
{
	return unlikely((queue->events & (1u << kind)) != 0);
}

extern void event_note_job(QueueInfo *queue, EventKind kind, TupleTableSlot *job, int32 attempt, int64 delay,
						   const text *error);
extern void event_note_group(QueueInfo *queue, EventKind kind, const text *key, int64 dead_job);
extern void event_append(DbSlot *db, QueueInfo *queue, EventKind kind, int64 count);
extern void event_once_expires(DbSlot *db, TimestampTz expires);

#define EVENT_NO_DELAY INT64CONST(-1)

/* A job's event; job is its row. delay: microseconds until it may be taken. */
static inline void
event_job(QueueInfo *queue, EventKind kind, TupleTableSlot *job, int32 attempt, int64 delay, const text *error)
{
	if (event_wanted(queue, kind))
		event_note_job(queue, kind, job, attempt, delay, error);
}

static inline void
event_group(QueueInfo *queue, EventKind kind, const text *key, int64 dead_job)
{
	if (event_wanted(queue, kind))
		event_note_group(queue, kind, key, dead_job);
}

/* A walk over the events of this database. */
typedef struct EventReader
{
	DbSlot *db;
	uint64 after;    /* position of the last one seen; 0: begin with what there is */
	int32 queue_id;  /* only of this queue; 0: of all */
	QueueSlot *slot; /* of that queue, or NULL */
	/* set by each event_read() */
	bool lost;          /* others before the first one returned are not to be had any more */
	int64 lost_count;   /* at most so many; -1: not known */
	uint64 lost_before; /* position of the first one that is */
	bool stalled;       /* what comes next is being committed */
	bool more;          /* there was no room for all */
} EventReader;

extern int event_read(EventReader *reader, EventRecord *records, int max);

extern void event_init(void);

#endif
