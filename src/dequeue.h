/* dequeue.h: the claim that executors make */
#ifndef JOBQ_DEQUEUE_H
#define JOBQ_DEQUEUE_H

#include "jobq.h"

#include "access/tupdesc.h"
#include "utils/tuplestore.h"

#include "claim.h"

/* Columns of jobq.delivery, and of what dequeue returns. */
enum
{
	DELIVERY_JOB_ID,
	DELIVERY_TOKEN,
	DELIVERY_NAME,
	DELIVERY_PAYLOAD,
	DELIVERY_HEADERS,
	DELIVERY_PRIORITY,
	DELIVERY_ATTEMPT,
	DELIVERY_MAX_ATTEMPTS,
	DELIVERY_GROUP_KEY,
	DELIVERY_ENQUEUED_AT,
	DELIVERY_LEASE_UNTIL,
	DELIVERY_DEADLINE,
	NUM_DELIVERY
};

extern int dequeue_for_executor(const ClaimRequest *request, Tuplestorestate *result, TupleDesc desc);

#endif
