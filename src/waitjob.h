/* waitjob.h: waiting for the end of a job */
#ifndef JOBQ_WAITJOB_H
#define JOBQ_WAITJOB_H

#include "jobq.h"

#include "common/hashfn.h"

#include "shmem.h"

/* The slots of jobs that the transaction has ended. Not undone by subtransactions: a wake-up too many is harmless. */
extern uint64 waitjob_ended;

static inline int
waitjob_slot(int64 job_id)
{
	return murmurhash32((uint32) job_id ^ (uint32) (job_id >> 32)) % JOB_WAIT_SLOTS;
}

/* Notes that a job ends with this transaction: finished, dead or deleted. */
static inline void
waitjob_note(int64 job_id)
{
	waitjob_ended |= UINT64CONST(1) << waitjob_slot(job_id);
}

extern void waitjob_at_commit(void);
extern void waitjob_forget(void);

#endif
