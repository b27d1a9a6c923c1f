/* sandbox.h: one run of a handler, with its role's rights and within its time */
#ifndef JOBQ_SANDBOX_H
#define JOBQ_SANDBOX_H

#include "jobq.h"

#include "datatype/timestamp.h"
#include "utils/jsonb.h"

#include "handler.h"
#include "shmem.h"

/* Why a run was interrupted. */
typedef enum SandboxInterrupt
{
	SANDBOX_RAN,
	SANDBOX_TIMED_OUT,
	SANDBOX_STOPPED /* the process is to end */
} SandboxInterrupt;

extern void sandbox_init(ExecutorSlot *place);
extern void sandbox_watch(bool on);
extern bool sandbox_stopping(void);
extern Jsonb *sandbox_run(const Handler *handler, Datum payload, HeapTuple delivery, TupleDesc desc, int64 timeout);
extern SandboxInterrupt sandbox_over(void);
extern text *sandbox_error(const ErrorData *error, SandboxInterrupt why, int64 timeout);
extern void sandbox_reset(void);

#endif
