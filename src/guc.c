/*-------------------------------------------------------------------------
 *
 * guc.c
 *		The settings jobq.*; doc/operations.md has the same list.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "guc.h"

bool jobq_enabled = true;
int jobq_max_databases = 16;
int jobq_max_queues = 1024;
int jobq_max_cursors = 4096;
bool jobq_async_dequeue = true;
int jobq_rescan_interval = 60;
int jobq_commit_timeout = 10000;
bool jobq_session_liveness = false;
int jobq_scheduler_idle_timeout = 10;
int jobq_event_buffer = 4096;
int jobq_max_executors = 4;
int jobq_executor_idle_timeout = 10;
int jobq_stop_timeout = 3000;
#ifdef JOBQ_DEBUG
char *jobq_debug_point = NULL;
int jobq_debug_clock = 0;
#endif

#ifdef JOBQ_DEBUG
/* Settings of a build for tests. */
static void
debug_settings(void)
{
	DefineCustomStringVariable(
		"jobq.debug_point",
		"Names the debug points, separated by commas, at which this session waits for an advisory lock.", NULL,
		&jobq_debug_point, "", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.debug_clock",
							"How far jobq's clock is ahead of the server's, to see what a stepped clock does.", NULL,
							&jobq_debug_clock, 0, INT_MIN, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}
#endif

/* Defines all settings. Called once, while shared_preload_libraries is processed. */
void
guc_init(void)
{
	DefineCustomBoolVariable(
		"jobq.enabled", "Lets jobs be taken and the background workers run.",
		"Turn it off before the first start of a physical copy of a server that must not run the original's jobs.",
		&jobq_enabled, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.max_databases", "Number of databases of this server that may hold the extension.",
							NULL, &jobq_max_databases, 16, 1, 1024, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.max_queues",
							"Number of queues, over all databases, that have hints in shared memory.",
							"Queues beyond it work, without cursors, counters and immediate wake-ups.",
							&jobq_max_queues, 1024, 1, 1000000, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.max_cursors",
							"Number of claim cursors, over all databases: one per queue, lane and priority in use.",
							NULL, &jobq_max_cursors, 4096, 16, 4000000, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.event_buffer",
							"Number of events, over all databases, that are kept for who reads them late.",
							"Each takes 512 bytes of shared memory.", &jobq_event_buffer, 4096, 64, 4000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"jobq.async_dequeue",
		"Lets a transaction that did nothing but dequeue or extend commit without waiting for the disk.",
		"A crash may then undo the dequeue, which gives the job back.", &jobq_async_dequeue, true, PGC_USERSET, 0, NULL,
		NULL, NULL);
	DefineCustomIntVariable("jobq.rescan_interval",
							"Shortest time between two scans that look for forgotten tickets; 0 switches them off.",
							NULL, &jobq_rescan_interval, 60, 0, 86400, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.commit_timeout",
							"Longest wait of a COMMIT for another one that brings jobs into the same group; 0: none.",
							"lock_timeout counts too. The commit fails then, and nothing of it is done.",
							&jobq_commit_timeout, 10000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"jobq.session_liveness", "Ties the groups that this session takes to its life.",
		"They are taken over as soon as it has ended. Not for sessions behind a pooler that shares them.",
		&jobq_session_liveness, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.scheduler_idle_timeout",
							"Time without work after which a database's scheduler leaves, to come back on work.", NULL,
							&jobq_scheduler_idle_timeout, 10, 1, 86400, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.max_executors",
							"Number of processes, over all databases, that run handlers at a time; 0: none run.",
							"Each takes one of max_worker_processes while it is there.", &jobq_max_executors, 4, 0,
							1024, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.executor_idle_timeout",
							"Time without a job after which a process that runs handlers leaves.", NULL,
							&jobq_executor_idle_timeout, 10, 1, 86400, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("jobq.stop_timeout", "Time that a handler has to finish when its process is to end.",
							"It is interrupted then, and its job is given back without an attempt counted.",
							&jobq_stop_timeout, 3000, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
#ifdef JOBQ_DEBUG
	debug_settings();
#endif
	MarkGUCPrefixReserved("jobq");
}
