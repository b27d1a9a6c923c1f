/* overdue.h: what becomes of a lease whose time is over */
#ifndef JOBQ_OVERDUE_H
#define JOBQ_OVERDUE_H

#include "jobq.h"

#include "store.h"

extern int overdue_lock(StoreTable *lease, Lease *rows, int n, void (*busy)(TimestampTz ends));
extern void overdue_end(StoreTable *lease, Lease *rows, int n, void (*working_on)(int64 token));
extern int overdue_end_some(DbSlot *db, QueueInfo *queue, int max, int64 *first_seq);

#endif
