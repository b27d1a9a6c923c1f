/* stats.h: what is known of each queue, for the views and the metrics */
#ifndef JOBQ_STATS_H
#define JOBQ_STATS_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "meta.h"
#include "shmem.h"

typedef struct QueueStats
{
	QueueInfo *queue;
	bool exact; /* the counts are kept in shared memory */
	int64 counts[NUM_COUNTERS];
	TimestampTz next_due; /* DT_NOBEGIN: not known */
	bool alarmed;
	TimeHistogram times[NUM_TIMES];
	int64 claims;
	int64 claim_buffers;
	TotalsSample sample; /* of the totals, some time ago */
	/* what stats_heads finds */
	TimestampTz oldest_ready; /* DT_NOEND: none */
	int64 cursor_distance;    /* numbers from where a claim starts to scan to the first ticket, at most */
	int cursor_intervals;     /* that a claim scans before it */
} QueueStats;

extern QueueStats *stats_collect(DbSlot *db, TimestampTz now, int *n);
extern void stats_counts(DbSlot *db, QueueInfo *queue, QueueStats *stats);
extern void stats_heads(QueueStats *stats, int n);

extern PGDLLEXPORT Datum jobq_queue_counts(PG_FUNCTION_ARGS);

#endif
