/* overdue.h: leases and delayed tickets whose time has come */
#ifndef JOBQ_OVERDUE_H
#define JOBQ_OVERDUE_H

#include "jobq.h"

#include "store.h"

extern int overdue_lock(StoreTable *lease, Lease *rows, int n, void (*busy)(TimestampTz ends));
extern int overdue_lock_orphans(StoreTable *lease, Lease *rows, int n, void (*busy)(TimestampTz ends));
extern void overdue_end(StoreTable *lease, Lease *rows, int n, void (*working_on)(int64 token));
extern int overdue_end_some(DbSlot *db, QueueInfo *queue, int max, bool groups, int64 *first_seq);

extern int overdue_make_ready(DbSlot *db, QueueInfo *queue, StoreTable *ready, Ticket *tickets, int n);
extern void overdue_promote_some(DbSlot *db, QueueInfo *queue, int max, TimestampTz from, bool groups,
								 int64 *first_seq);

#endif
