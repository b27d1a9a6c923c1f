/* finish.h: the verbs of who holds a lease */
#ifndef JOBQ_FINISH_H
#define JOBQ_FINISH_H

#include "jobq.h"

#include "utils/jsonb.h"

/*
 * Inside xact_verb_begin and end. Error JQ001 when the lease is lost, or the current user has no right on the queue (and is not trusted).
 */
extern bool finish_complete_one(int64 job_id, int64 token, Jsonb *result, bool trusted);
/* By an executor, whoever is the current user. */
extern void finish_fail_one(int64 job_id, int64 token, const text *error);
extern void finish_release_one(int64 job_id, int64 token);

#endif
