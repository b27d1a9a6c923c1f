/* extend.h: prolonging a lease */
#ifndef JOBQ_EXTEND_H
#define JOBQ_EXTEND_H

#include "jobq.h"

#include "leases.h"

extern void extend_one(int64 job_id, int64 token, int64 lease);
extern ItemStatus extend_look(int64 job_id, int64 token);

#endif
