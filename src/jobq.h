/*-------------------------------------------------------------------------
 *
 * jobq.h
 *		Limits, enumerations and SQLSTATEs that every module shares.
 *
 * No module's prototypes stand here; each has a header of its own. Modules
 * include downwards only, in this order:
 *
 *		jobq compat < cron guc pending < eventkind flush timeutil < debug shmem
 *		< alert times cursor meta pool < args due wake worker < backoff ident spi
 *		store xact < depend grant limit stripe timewalk < handler waitjob < event
 *		sandbox < after group liveness unique < place < line < retire settings <
 *		turn waiting < letgo overdue < admin claim leases maintain stats jobinfo
 *		< explaindep extend finish redrive replace schedule scheduler ttl <
 *		enqueue < dequeue < executor < launcher manager
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_H
#define JOBQ_H

#include "postgres.h"

#include "fmgr.h"

#define JOBQ_VERSION "0.1.0"
#define JOBQ_SCHEMA "jobq"

/* Limits that users meet; README.md repeats them. */
#define JOBQ_MAX_QUEUE_NAME 128   /* bytes */
#define JOBQ_MAX_NAME 256         /* bytes: job names, worker names, keys */
#define JOBQ_MAX_LEASE_JOBS 64    /* jobs in one lease row (bits of lease.cancel) */
#define JOBQ_MAX_WEIGHT 64        /* of a group */
#define JOBQ_MAX_BATCH 10000      /* jobs in one dequeue() */
#define JOBQ_MAX_MANY 1000000     /* elements of an array argument */
#define JOBQ_MAX_ERROR_BYTES 8192 /* stored error text */
#define JOBQ_MAX_ATTEMPTS 1000000
#define JOBQ_DEFAULT_PRIORITY 1000
#define JOBQ_MAX_LEASE_USECS (INT64CONST(30) * 86400 * 1000000)    /* 30 days */
#define JOBQ_MAX_DELAY_USECS (INT64CONST(36525) * 86400 * 1000000) /* 100 years */

/* Lanes of one priority, as stored in ready.lane. */
typedef enum JobqLane
{
	LANE_RETURNED = 0, /* retries, releases, expired leases, due delayed jobs */
	LANE_FRESH = 1,    /* seq is the job's id */
	LANE_GROUP = 2,    /* the turn of a group */
	LANE_BULK = 3,     /* of a group with many jobs, kept apart */
	NUM_LANES
} JobqLane;

/* Per-queue counters; the first NUM_GAUGES are levels, the rest only grow. */
typedef enum JobqCounter
{
	COUNT_READY,
	COUNT_DELAYED,
	COUNT_ACTIVE,
	COUNT_DEAD,
	COUNT_GROUPS, /* that have a ticket: those without wait for nothing */
	COUNT_GROUPS_READY,
	COUNT_GROUPS_LEASED, /* the migrating ones included */
	COUNT_GROUPS_MIGRATING,
	COUNT_GROUPS_HELD,
	COUNT_PENDING, /* jobs that wait for others to end; not among the delayed ones */
	NUM_GAUGES,
	TOTAL_ENQUEUED = NUM_GAUGES,
	TOTAL_COMPLETED,
	TOTAL_FAILED,  /* failed attempts, expired leases included */
	TOTAL_RETRIED, /* failed attempts that will run again */
	TOTAL_DEAD,    /* jobs that became dead letters, routed ones included */
	TOTAL_CANCELLED,
	TOTAL_EXPIRED_LEASES,
	TOTAL_EXPIRED, /* jobs whose time to live was over while they waited */
	NUM_COUNTERS
} JobqCounter;

/* What is measured of the jobs of a queue, as a histogram each. */
typedef enum JobqTime
{
	TIME_WAIT, /* from when a job could start to its first start */
	TIME_RUN,  /* from the start of the last attempt to its completion */
	NUM_TIMES
} JobqTime;

#define ERRCODE_JOBQ_LEASE_LOST MAKE_SQLSTATE('J', 'Q', '0', '0', '1')
#define ERRCODE_JOBQ_OUT_OF_ORDER MAKE_SQLSTATE('J', 'Q', '0', '0', '2')
#define ERRCODE_JOBQ_BLOCKED MAKE_SQLSTATE('J', 'Q', '0', '0', '3')
#define ERRCODE_JOBQ_PAYLOAD_TOO_LARGE MAKE_SQLSTATE('J', 'Q', '0', '0', '4')

#endif /* JOBQ_H */
