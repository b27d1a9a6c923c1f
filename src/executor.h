/* executor.h: the worker that runs handlers */
#ifndef JOBQ_EXECUTOR_H
#define JOBQ_EXECUTOR_H

#include "jobq.h"

#include "postmaster/bgworker.h"

extern bool executor_start(Oid db_oid, int place, BackgroundWorkerHandle **handle);
extern PGDLLEXPORT void jobq_executor_main(Datum arg);

#endif
