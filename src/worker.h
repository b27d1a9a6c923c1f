/* worker.h: habits that the background workers of a database share */
#ifndef JOBQ_WORKER_H
#define JOBQ_WORKER_H

#include "jobq.h"

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

extern void worker_fix_settings(const WorkerSetting *settings, int n);
extern WorkerHold worker_hold_extension(Oid ext_oid);

#endif
