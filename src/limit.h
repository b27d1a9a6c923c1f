/* limit.h: how many jobs of a queue may run at a time, and how many may start */
#ifndef JOBQ_LIMIT_H
#define JOBQ_LIMIT_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "meta.h"

/* Whether a claim must ask. */
static inline bool
limit_applies(const QueueInfo *queue)
{
	return queue->concurrency > 0 || queue->rate_limit > 0;
}

extern int limit_reserve(QueueInfo *queue, int wanted);
extern void limit_settle(QueueInfo *queue, int reserved, int taken);
extern bool limit_is_free(QueueInfo *queue);
extern TimestampTz limit_free_at(QueueInfo *queue);

#endif
