/* guc.h: the settings jobq.* */
#ifndef JOBQ_GUC_H
#define JOBQ_GUC_H

#include "jobq.h"

extern bool jobq_enabled;
extern int jobq_max_databases;
extern int jobq_max_queues;
extern int jobq_max_cursors;
extern bool jobq_async_dequeue;
extern int jobq_rescan_interval;
extern int jobq_commit_timeout; /* milliseconds */
extern bool jobq_session_liveness;
extern int jobq_scheduler_idle_timeout;
extern int jobq_event_buffer;
extern int jobq_max_executors;
extern int jobq_executor_idle_timeout; /* seconds */
extern int jobq_stop_timeout;          /* milliseconds */
#ifdef JOBQ_DEBUG
extern char *jobq_debug_point;
extern int jobq_debug_clock;
#endif

extern void guc_init(void);

#endif
