/* ident.h: numbers that never come twice: job ids, ready sequence numbers, tokens */
#ifndef JOBQ_IDENT_H
#define JOBQ_IDENT_H

#include "jobq.h"

#include "shmem.h"

extern void ident_job_ids(DbSlot *db, int64 *ids, int n);
extern bool ident_job_was_drawn(DbSlot *db, int64 id);
extern int64 ident_token(DbSlot *db);
extern void ident_raise_generation(int64 seen_id, int64 seen_token);

static inline int64
ident_job_id(DbSlot *db)
{
	int64 id;

	ident_job_ids(db, &id, 1);
	return id;
}

#endif
