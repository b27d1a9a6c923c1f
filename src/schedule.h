/* schedule.h: schedules: their rows, and when they are due next */
#ifndef JOBQ_SCHEDULE_H
#define JOBQ_SCHEDULE_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "cron.h"
#include "shmem.h"

/* Instants of one schedule that are kept in schedule_runs, and the most that missed => 'all' catches up on. */
#define SCHEDULE_RUNS_KEPT 100
#define SCHEDULE_MAX_MISSED 100

/*
 * An instant that is dealt with later than this counts as missed. A clock that is set back by more than CLOCK_ERROR was wrong before:
 * schedules are then planned anew, as if it had never been so late.
 */
#define SCHEDULE_GRACE (60 * USECS_PER_SEC)
#define SCHEDULE_CLOCK_ERROR (3 * USECS_PER_HOUR)

extern bool schedule_plan(const CronExpr *expr, pg_tz *tz, TimestampTz now, TimestampTz last_run, TimestampTz *next);
extern void schedule_look_at(DbSlot *db, TimestampTz at);

#endif
