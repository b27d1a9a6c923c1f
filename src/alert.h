/* alert.h: the alarm of a queue with too many dead letters */
#ifndef JOBQ_ALERT_H
#define JOBQ_ALERT_H

#include "jobq.h"

#include "shmem.h"

extern bool alert_check(QueueSlot *slot, int threshold, int64 interval, int64 deaths, TimestampTz now);

#endif
