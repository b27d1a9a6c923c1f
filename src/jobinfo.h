/* jobinfo.h: all there is to know of one job */
#ifndef JOBQ_JOBINFO_H
#define JOBQ_JOBINFO_H

#include "jobq.h"

#include "store.h"

/* Columns of job(). */
enum
{
	JOB_JOB_ID,
	JOB_QUEUE,
	JOB_STATE,
	JOB_NAME,
	JOB_PRIORITY,
	JOB_GROUP_KEY,
	JOB_ATTEMPT,
	JOB_MAX_ATTEMPTS,
	JOB_RUN_AT,
	JOB_LEASE_UNTIL,
	JOB_WORKER,
	JOB_PROGRESS,
	JOB_LAST_ERROR,
	JOB_CREATED,
	JOB_STARTED,
	JOB_FINISHED,
	JOB_PAYLOAD,
	JOB_HEADERS,
	JOB_RESULT,
	JOB_FAILURES,
	JOB_DEADLINE,
	JOB_UNIQUE_KEY,
	JOB_EXPIRES,
	NUM_JOB_COLUMNS
};

/* Where a job is; the state is told by that. */
typedef enum JobPlace
{
	JOB_IN_READY,
	JOB_IN_LINE,
	JOB_JOINS, /* this transaction has brought it to its group */
	JOB_IN_DELAYED,
	JOB_IN_PENDING, /* in delayed, until the jobs that it waits for have ended */
	JOB_IN_LEASE,
	JOB_IS_LOST, /* it has a row, and neither a ticket nor a lease */
	JOB_IS_COMPLETED,
	JOB_IS_CANCELLED,
	JOB_IS_EXPIRED,
	JOB_IS_DEAD
} JobPlace;

typedef struct JobInfo
{
	int64 id;
	JobPlace place;
	int32 queue_id;
	QueueInfo *queue; /* NULL: it was dropped */
	Datum values[NUM_JOB_COLUMNS];
	bool nulls[NUM_JOB_COLUMNS];
	TupleTableSlot *slot; /* of its row, which the values point into */
	Ticket ticket;        /* in ready or delayed, pending ones too */
	LineRow row;          /* in line */
	bool in_hand;         /* somebody is deleting its ticket, or its row in line */
	Lease lease;          /* in lease */
	int position;         /* of the job in it */
	const char *reason;   /* is dead */
} JobInfo;

extern JobInfo *jobinfo_find(int64 id, Snapshot snapshot);
extern JobInfo *jobinfo_find_any(int64 id, Snapshot snapshot);
extern void jobinfo_end(JobInfo *info);
extern const char *jobinfo_string(const JobInfo *info, int column);

#endif
