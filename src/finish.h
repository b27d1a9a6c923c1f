/* finish.h: the verbs of who holds a lease */
#ifndef JOBQ_FINISH_H
#define JOBQ_FINISH_H

#include "jobq.h"

#include "utils/jsonb.h"

extern bool finish_complete_one(int64 job_id, int64 token, Jsonb *result);

#endif
