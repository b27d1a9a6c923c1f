/* times.h: how long things take, as histograms: noted by a transaction, and added to its queue's at its commit */
#ifndef JOBQ_TIMES_H
#define JOBQ_TIMES_H

#include "jobq.h"

#include "port/pg_bitutils.h"

#include "shmem.h"

/* Times to be added to a histogram. */
typedef struct PendingTimes
{
	uint32 used; /* a bit for each bucket that is not 0 */
	int32 buckets[TIME_BUCKETS];
	int64 sum;
} PendingTimes;

/* The bucket of a time: the first one whose bound, 4 to the power of its number in milliseconds, is not below it. */
static inline int
time_bucket(int64 usecs)
{
	uint64 ms = (uint64) (usecs + 999) / 1000;

	return ms <= 1 ? 0 : Min(pg_leftmost_one_pos64(ms - 1) / 2 + 1, TIME_BUCKETS - 1);
}

/* Adds a time. Less than nothing, by a clock that was set back, is nothing. */
static inline void
times_add(PendingTimes *p, int64 usecs)
{
	int bucket = time_bucket(Max(usecs, 0));

	p->used |= 1U << bucket;
	p->buckets[bucket]++;
	p->sum += Max(usecs, 0);
}

/* Adds a transaction's times to a queue's. Caller holds the slot's lock. */
static inline void
times_apply(TimeHistogram *h, const PendingTimes *p)
{
	for (uint32 used = p->used; used != 0; used &= used - 1)
	{
		int bucket = pg_rightmost_one_pos32(used);

		h->buckets[bucket] += p->buckets[bucket];
	}
	h->sum += p->sum;
}

#endif
