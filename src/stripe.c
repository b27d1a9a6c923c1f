/*-------------------------------------------------------------------------
 *
 * stripe.c
 *		Locks in pre-commit, by stripe: what a hash of a key falls into.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/proc.h"

#include "guc.h"
#include "stripe.h"

/* Advisory locks with these classes are ours; SQL gives out 1 and 2. */
static const uint16 lock_classes[] = {[STRIPE_JOB] = 0x4a52, [STRIPE_GROUP] = 0x4a51};

static LOCKMODE
lock_mode(const StripeSet *exclusive, const StripeSet *shared, int stripe)
{
	if (stripe_has(exclusive, stripe))
		return ExclusiveLock;
	return shared && stripe_has(shared, stripe) ? ShareLock : NoLock;
}

void
stripes_lock(StripeKind kind, const StripeSet *exclusive, const StripeSet *shared)
{
	int saved = LockTimeout;

	if (jobq_commit_timeout > 0 && (LockTimeout == 0 || LockTimeout > jobq_commit_timeout))
		LockTimeout = jobq_commit_timeout;
	PG_TRY();
	{
		for (int i = 0; i < STRIPES; i++)
		{
			LOCKMODE mode = lock_mode(exclusive, shared, i);
			LOCKTAG tag;

			if (mode == NoLock)
				continue;
			SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, i, lock_classes[kind]);
			(void) LockAcquire(&tag, mode, false, false);
		}
	}
	PG_FINALLY();
	{
		LockTimeout = saved;
	}
	PG_END_TRY();
}

void
stripes_unlock(StripeKind kind, const StripeSet *exclusive, const StripeSet *shared)
{
	for (int i = 0; i < STRIPES; i++)
	{
		LOCKMODE mode = lock_mode(exclusive, shared, i);
		LOCKTAG tag;

		if (mode == NoLock)
			continue;
		SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, i, lock_classes[kind]);
		(void) LockRelease(&tag, mode, false);
	}
}
