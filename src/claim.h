/* claim.h: taking tickets and giving the jobs out under a lease */
#ifndef JOBQ_CLAIM_H
#define JOBQ_CLAIM_H

#include "jobq.h"

#include "store.h"

/* What one dequeue asks for. */
typedef struct ClaimRequest
{
	DbSlot *db;
	QueueInfo *queue;
	int max_jobs;
	int group_batch; /* jobs in a group's turn */
	bool
		settles; /* deals with groups that are due or overdue, where no scheduler does: they are held until the transaction ends */
	int64 lease; /* microseconds */
	text *worker;
	int *expired; /* counts the jobs that were ended instead of given out; NULL: of no interest */
	int64
		executor; /* key that marks an executor's lease, 0: none; the jobs are taken under one lease then, and run in its order */
} ClaimRequest;

extern int claim_tickets(const ClaimRequest *request, Ticket *tickets);
extern bool claim_possible(DbSlot *db, QueueInfo *queue);

#endif
