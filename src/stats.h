/* stats.h: counters for the views */
#ifndef JOBQ_STATS_H
#define JOBQ_STATS_H

#include "jobq.h"

extern PGDLLEXPORT Datum jobq_queue_counts(PG_FUNCTION_ARGS);

#endif
