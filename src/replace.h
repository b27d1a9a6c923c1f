/* replace.h: a new call takes the place of a waiting job's old content */
#ifndef JOBQ_REPLACE_H
#define JOBQ_REPLACE_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "meta.h"
#include "store.h"

/*
 * Gives a waiting job the content of a new row, a slot of the job table whose id and time of creation are set here. False: it does not
 * wait, or somebody has it in hand.
 */
extern bool replace_job(QueueInfo *queue, int64 job_id, TupleTableSlot *row, TimestampTz visible_at);

#endif
