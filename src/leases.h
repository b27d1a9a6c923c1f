/* leases.h: (job, token) pairs against the lease rows they name */
#ifndef JOBQ_LEASES_H
#define JOBQ_LEASES_H

#include "jobq.h"

#include "compat.h"

#include "utils/jsonb.h"

#include "store.h"

/* What became of one pair. */
typedef enum ItemStatus
{
	ITEM_PENDING, /* its lease is in our hands, the job listed there */
	ITEM_OK,
	ITEM_ALREADY, /* completed before, with this token */
	ITEM_LOST,
	ITEM_CANCEL, /* extended, and asked to cancel */
	ITEM_CANCELLED,
	ITEM_TOO_LARGE,    /* its result is larger than the queue allows: it stays as it was */
	ITEM_DRAIN,        /* extended, and its holder is to let go */
	ITEM_OUT_OF_ORDER, /* an earlier job of its group is not done: it stays as it was */
	ITEM_RETRY,
	ITEM_DEAD,
	ITEM_BLOCKED, /* dead, and its group waits */
	NUM_ITEM_STATUS
} ItemStatus;

typedef struct LeaseGroup LeaseGroup;

/* One pair of a call's list. */
typedef struct LeaseItem
{
	int64 job_id;
	int64 token;
	Jsonb *result; /* complete only */
	ItemStatus status;
	LeaseGroup *group;
	int position;  /* in the lease's arrays */
	bool returned; /* the lease is held exclusively, and the job leaves it */
	bool trusted;  /* the server's own doing: not for the current user to be allowed */
} LeaseItem;

/* All pairs of a list that name the same token. */
struct LeaseGroup
{
	Lease lease;
	bool deleted; /* by us: all its jobs are in the list */
	bool over;    /* a group's turn that ended: the lease must go */
	LeaseItem **items;
	int n;
};

/* How a verb needs the leases. */
typedef enum LeaseUse
{
	LEASE_USE_COMPLETE,  /* delete it whole, or share it */
	LEASE_USE_GIVE_BACK, /* delete it whole, or exclusive */
	LEASE_USE_HOLD       /* share it, whatever the list */
} LeaseUse;

/* The pairs of a call, grouped by token. */
typedef struct LeaseList
{
	StoreTable *lease;
	LeaseItem *items;
	int nitems;
	LeaseGroup *groups;
	int ngroups;
} LeaseList;

extern void leases_acquire(LeaseList *list, LeaseItem *items, int n, LeaseUse use);
extern void leases_write_back(LeaseList *list, StoreTable *job);
extern void leases_close(LeaseList *list);
extern void leases_group(LeaseList *list, LeaseItem *items, int n);
extern bool lease_item_allowed(const LeaseItem *item, int32 queue_id);
extern int pending_items(const LeaseGroup *group);
extern int lease_position(const Lease *lease, int64 job_id);
extern const char *item_status_name(ItemStatus status);
extern LeaseItem *lease_items_args(FunctionCallInfo fcinfo, int *n);
extern void lease_items_result(FunctionCallInfo fcinfo, LeaseItem *items, int n);
JOBQ_NORETURN extern void lease_lost(int64 job_id);

#endif
