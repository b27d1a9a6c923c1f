/* waiting.h: taking a job out of where it waits, whoever else may want it */
#ifndef JOBQ_WAITING_H
#define JOBQ_WAITING_H

#include "jobq.h"

#include "line.h"
#include "retire.h"
#include "store.h"

/* Where a job stood that was taken. */
typedef struct Waited
{
	int32 attempt;  /* counted so far */
	bool has_place; /* it stood in its group's line, or was to go back there: row tells where */
	LineRow row;
} Waited;

typedef enum WaitingResult
{
	WAITING_TAKEN, /* the job is ours, and counted out */
	WAITING_BUSY,  /* somebody has it in hand */
	WAITING_NOT    /* it is active, or gone */
} WaitingResult;

/*
 * Takes a job that waits, in ready, delayed or its group's line, without waiting for anybody. The snapshot is the one that showed the
 * job's row. A group that it leaves is seen to at commit.
 */
extern WaitingResult waiting_take(Retire *r, QueueInfo *queue, TupleTableSlot *job, Snapshot snapshot, Waited *w);

#endif
