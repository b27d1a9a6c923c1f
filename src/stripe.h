/*-------------------------------------------------------------------------
 *
 * stripe.h
 *		Locks in pre-commit, by stripe: what a hash of a key falls into.
 *
 * Stripes are taken in pre-commit only, all of one kind in their order, and
 * the kinds in the order below, so no two transactions can wait for each
 * other. Nothing else may be waited for while one is held but a later one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_STRIPE_H
#define JOBQ_STRIPE_H

#include "jobq.h"

#define STRIPES 256

/* In the order in which they are taken. */
typedef enum StripeKind
{
	STRIPE_JOB,  /* of jobs that wait for others, and of those */
	STRIPE_GROUP /* of groups, by key */
} StripeKind;

typedef struct StripeSet
{
	uint64 bits[STRIPES / 64];
} StripeSet;

static inline void
stripe_add(StripeSet *set, int stripe)
{
	set->bits[stripe / 64] |= UINT64CONST(1) << (stripe % 64);
}

static inline bool
stripe_has(const StripeSet *set, int stripe)
{
	return (set->bits[stripe / 64] & (UINT64CONST(1) << (stripe % 64))) != 0;
}

/*
 * Takes stripes until the transaction's end: those of exclusive, and those of shared (NULL: none) for sharing. Error 55P03 after
 * lock_timeout or jobq.commit_timeout, whichever is shorter: statement_timeout does not run in COMMIT.
 */
extern void stripes_lock(StripeKind kind, const StripeSet *exclusive, const StripeSet *shared);

/* Gives the same ones back before the end. */
extern void stripes_unlock(StripeKind kind, const StripeSet *exclusive, const StripeSet *shared);

#endif
