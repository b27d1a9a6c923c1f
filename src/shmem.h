/*-------------------------------------------------------------------------
 *
 * shmem.h
 *		Shared memory: hints, never truth.
 *
 * Everything here can be lost at any moment and is rebuilt from the tables;
 * losing it costs time, never a job.
 *
 * Lock order (take only downwards, hold as few as possible):
 *		JobqShared.lock (LWLock: slots and their hash)
 *		DbSlot.count_lock (LWLock: a recount against the appliers)
 *		QueueSlot.cursor_lock (LWLock)
 *		any spinlock (a dozen loads and stores; never two at once)
 * Under an LWLock nothing is allocated, nothing waits and nothing can fail.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_SHMEM_H
#define JOBQ_SHMEM_H

#include "jobq.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#define CURSOR_LOG 64
#define CURSOR_STANDING 32
#define ROLLBACK_SLOTS 1024
#define DONE_SLOTS 16384
#define DONE_LOCKS 64
#define LAUNCHER_PROBES 2
#define RECOUNT_MAX_XIDS 4096

/* One interval of sequence numbers below a cursor that a claim still has to look at. */
typedef struct CursorInterval
{
	int64 lo;
	int64 hi;
	uint64 id; /* of this very entry: bounds alone come again */
} CursorInterval;

/* Claim cursor of one (queue, lane, priority); guarded by QueueSlot.cursor_lock. See cursor.c. */
typedef struct ClaimCursor
{
	int32 next; /* next higher priority of the lane, or next free; -1 at the end */
	int16 priority;
	bool drained; /* nothing was left from cursor on, as of drained_gen */
	uint64 drained_gen;
	uint64 gen;   /* announcements so far */
	int64 cursor; /* scans start here */
	int64 span;   /* sequence numbers that a job took up lately, 0: not known */
	uint64 next_id;
	int nstanding;
	CursorInterval standing[CURSOR_STANDING];
	struct
	{
		int64 lo;
		int64 hi;
	} log[CURSOR_LOG];
} ClaimCursor;

typedef struct QueueSlot
{
	slock_t mutex; /* counts, due times */
	Oid db_oid;    /* InvalidOid: free */
	Oid ext_oid;
	int32 queue_id;

	LWLock cursor_lock;
	int32 lane_head[NUM_LANES];  /* index into JobqShared.cursors, by priority; -1: none */
	bool lane_known[NUM_LANES];  /* every priority that has tickets has a cursor */
	uint32 lane_lost[NUM_LANES]; /* how often that ceased to be so */
	pg_atomic_uint32 turn;       /* of the lanes */

	ConditionVariable wake;
	pg_atomic_uint32 waiters;

	/* A drop raises dropping, then waits until no commit is under way; a commit counts itself in, then looks at dropping. */
	pg_atomic_uint32 committing;
	pg_atomic_uint32 dropping;

	/* under mutex */
	bool exact; /* counts are those of the tables */
	int64 counts[NUM_COUNTERS];
	uint64 counted_by;          /* recount_id of the count in counts */
	int64 recount[NUM_GAUGES];  /* changes that a running recount does not see in its snapshot */
	TimestampTz next_due;       /* earliest delayed ticket; DT_NOBEGIN: not known */
	TimestampTz delayed_cursor; /* no live ticket due before it, but for delayed_low */
	TimestampTz delayed_low;    /* earliest ticket made since the scheduler last looked */
	bool notify_pending;
} QueueSlot;

/* A block of numbers that was reserved durably and is handed out from here. */
typedef struct NumberBlock
{
	int64 next;
	int64 limit; /* next == limit: used up */
} NumberBlock;

typedef struct DbSlot
{
	slock_t mutex;
	Oid db_oid;  /* InvalidOid: free */
	Oid ext_oid; /* pg_extension.oid: a new one is another installation */

	/* under mutex */
	NumberBlock ids;
	NumberBlock tokens;
	Latch *scheduler_latch; /* NULL: none running */
	int scheduler_pid;
	bool wanted;         /* the launcher is to start a scheduler */
	TimestampTz wake_at; /* a scheduler that left wants to be back by then */
	TimestampTz last_start;
	int failures;             /* schedulers that ended badly in a row */
	TimestampTz lease_cursor; /* no live lease ends before it, but for lease_low */
	TimestampTz lease_low;    /* earliest end of a lease made since the scheduler last looked */
	TimestampTz next_lease;   /* when the scheduler will look at the leases; DT_NOBEGIN: not known */
	bool sessions_ended;      /* one that marked its leases with a key; true at the start: not known */
	TimestampTz drain_at;     /* next look at the workers that hand over; DT_NOBEGIN: not known, DT_NOEND: none */
	bool prepared;            /* a PREPARE took counter changes with it: recount after it is gone */
	bool poisoned;            /* a job whose claim was rolled back too often waits for the scheduler */
	uint64 activity;          /* announcements, to know whether a rescan is worth while */
	uint64 rescan_activity;   /* activity when the last rescan began */
	TimestampTz next_rescan;  /* not before */
	TimestampTz totals_since;

	/*
	 * The last recount's snapshot, under count_lock: changes it shows are already in the count. It stays after the recount, for a
	 * transaction that was visible to it and applies its changes late.
	 */
	LWLock count_lock;
	bool recounting;
	uint64 recount_id;
	uint64 recount_next_xid; /* full transaction id: none from it on is shown */
	TransactionId recount_xmin;
	TransactionId recount_xmax;
	int recount_nxids;
	TransactionId recount_xids[RECOUNT_MAX_XIDS];
} DbSlot;

/* How often in a row the claim of a job was rolled back. */
typedef struct RollbackSlot
{
	Oid db_oid;
	int32 queue_id;
	int64 job_id; /* 0: free */
	int count;
} RollbackSlot;

typedef struct DoneSlot
{
	Oid db_oid;
	int64 job_id;
	int64 token;
} DoneSlot;

typedef struct JobqShared
{
	LWLock lock;
	slock_t launcher_mutex;
	Latch *launcher_latch;
	Oid probed[LAUNCHER_PROBES]; /* database of each probe that has looked for the extension */
	TimestampTz
		running_since;      /* jobs may be taken since then: the server's start, or its promotion; 0: not known yet */
	bool queues_overflowed; /* a queue found no slot: schedulers look for such */
	bool dbs_overflowed;    /* a database found no slot: the launcher has all of them looked at */
	slock_t cursor_mutex;   /* free list of cursors */
	int32 free_cursor;
	pg_atomic_uint32 slots_freed; /* queue slots freed so far: who found none looks again when it has moved */
	slock_t rollback_mutex;
	pg_atomic_uint32 nrollbacks; /* used slots: 0 spares the look */
	RollbackSlot rollbacks[ROLLBACK_SLOTS];
	slock_t done_mutex[DONE_LOCKS];
	DoneSlot done[DONE_SLOTS];
} JobqShared;

extern JobqShared *jobq_shared; /* NULL: the library was not preloaded */
extern DbSlot *jobq_dbs;
extern QueueSlot *jobq_queues;
extern ClaimCursor *jobq_cursors;
extern pg_atomic_uint64 *jobq_sessions; /* by backend: its liveness key, see liveness.c */

extern void shmem_init(void);

extern DbSlot *shmem_db(Oid db_oid, Oid ext_oid);
extern DbSlot *shmem_db_find(Oid db_oid);
extern void shmem_db_free(Oid db_oid);
extern QueueSlot *shmem_queue(Oid db_oid, Oid ext_oid, int32 queue_id);
extern void shmem_queue_sweep(Oid db_oid, const int32 *ids, int n);
extern void shmem_queue_free(Oid db_oid, int32 queue_id);
extern int32 shmem_cursor_alloc(void);

extern void shmem_wake_scheduler(DbSlot *db);
extern void shmem_wake_launcher(void);

extern void shmem_done_remember(Oid db_oid, int64 job_id, int64 token);
extern bool shmem_done_known(Oid db_oid, int64 job_id, int64 token);
extern void shmem_rollback_add(Oid db_oid, int32 queue_id, int64 job_id, DbSlot *db);
extern void shmem_rollback_clear(Oid db_oid, int64 job_id, int at_most);
extern int shmem_rollback_count(Oid db_oid, int64 job_id);
extern int64 shmem_rollback_next(Oid db_oid, int at_least, int *position, int32 *queue_id);

/* A claim that is rolled back this often in a row counts as an attempt. */
#define ROLLBACK_LIMIT 3

#endif /* JOBQ_SHMEM_H */
