/* liveness.h: which sessions that took groups are still there */
#ifndef JOBQ_LIVENESS_H
#define JOBQ_LIVENESS_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "shmem.h"
#include "store.h"

extern int64 liveness_key(DbSlot *db);
extern bool liveness_has_ended(const Lease *lease);
extern TimestampTz liveness_grace(const Lease *lease);

#endif
