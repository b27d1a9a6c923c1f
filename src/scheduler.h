/* scheduler.h: the worker that runs a database's maintenance steps */
#ifndef JOBQ_SCHEDULER_H
#define JOBQ_SCHEDULER_H

#include "jobq.h"

#include "postmaster/bgworker.h"

extern bool scheduler_start(Oid db_oid, int probe, BackgroundWorkerHandle **handle);
extern PGDLLEXPORT void jobq_scheduler_main(Datum arg);

#endif
