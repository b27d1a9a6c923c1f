/* worker.h: what the background workers have in common */
#ifndef JOBQ_WORKER_H
#define JOBQ_WORKER_H

#include "jobq.h"

#include "postmaster/bgworker.h"

typedef enum WorkerHold
{
	WORKER_OK,
	WORKER_BLOCKED,    /* somebody is changing or dropping the extension: try again in a moment */
	WORKER_GONE,       /* it was dropped, or is another installation */
	WORKER_NOT_ADOPTED /* copy of another database */
} WorkerHold;

typedef struct WorkerSetting
{
	const char *name;
	const char *value;
} WorkerSetting;

/* what all have to say of themselves; kind: launcher, scheduler or executor */
extern void worker_describe(BackgroundWorker *worker, const char *kind);

/* those of one database: by who starts one, and by the one that was started */
extern bool worker_start(const char *kind, Oid db_oid, int number, BackgroundWorkerHandle **handle);
extern void worker_connect(const WorkerSetting *settings, int n);

extern WorkerHold worker_hold_extension(Oid ext_oid);

/* where they begin: launcher.c, scheduler.c, executor.c */
extern PGDLLEXPORT void jobq_launcher_main(Datum arg);
extern PGDLLEXPORT void jobq_scheduler_main(Datum arg);
extern PGDLLEXPORT void jobq_executor_main(Datum arg);

#endif
