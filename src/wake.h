/* wake.h: who is woken when there is something to take */
#ifndef JOBQ_WAKE_H
#define JOBQ_WAKE_H

#include "jobq.h"

#include "shmem.h"

extern void wake_waiters(DbSlot *db, QueueSlot *slot, int n);
extern void wake_limited(DbSlot *db, QueueSlot *slot, int64 n);

#endif
