/* backoff.h: how long a failed job waits */
#ifndef JOBQ_BACKOFF_H
#define JOBQ_BACKOFF_H

#include "jobq.h"

#include "meta.h"

extern int64 backoff_delay(QueueInfo *queue, int attempt, const text *error);
extern bool backoff_function_fits(Oid oid);

#endif
