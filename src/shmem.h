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
 *		JobqShared.limit_lock (LWLock: who takes how much of a limit)
 *		JobqShared.executor_lock (LWLock: places of executors)
 *		DbSlot.count_lock (LWLock: a recount against the appliers)
 *		QueueSlot.cursor_lock (LWLock)
 *		JobqShared.event_lock (LWLock: the buffer of events)
 *		any spinlock (a dozen loads and stores; never two at once)
 * Under an LWLock nothing is allocated, nothing waits and nothing can fail.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_SHMEM_H
#define JOBQ_SHMEM_H

#include "jobq.h"

#include "access/transam.h"
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
#define ALERT_BUCKETS 16
#define JOB_WAIT_SLOTS 64
#define TIME_BUCKETS 15 /* by the powers of 4 from 1 ms on; the last one: all that is longer */

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

/* How long something took: so many times within each bucket, and all together. */
typedef struct TimeHistogram
{
	int64 buckets[TIME_BUCKETS];
	int64 sum; /* microseconds */
} TimeHistogram;

/* Totals of a queue at a time at which somebody looked, to tell how fast they grow. */
typedef struct TotalsSample
{
	TimestampTz at; /* 0: none */
	int64 totals[NUM_COUNTERS - NUM_GAUGES];
} TotalsSample;

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

	pg_atomic_uint64 claims;        /* dequeues that looked for jobs */
	pg_atomic_uint64 claim_buffers; /* pages they looked at for it */

	ConditionVariable wake;
	pg_atomic_uint32 waiters;
	pg_atomic_uint32 handlers; /* executors it may have at a time; 0: no handler, paused, or the database is stopped */

	/* A drop raises dropping, then waits until no commit is under way; a commit counts itself in, then looks at dropping. */
	pg_atomic_uint32 committing;
	pg_atomic_uint32 dropping;

	/* Whether jobs wait for jobs of this queue; commits that end some, not knowing of any. See depend.c. */
	pg_atomic_uint32 watched;
	pg_atomic_uint32 ending;

	/* under mutex */
	bool exact; /* counts are those of the tables */
	int64 counts[NUM_COUNTERS];
	uint64 counted_by; /* recount_id of the count in counts */
	TimeHistogram times[NUM_TIMES];
	TotalsSample samples[2];    /* the newer one last */
	int64 recount[NUM_GAUGES];  /* changes that a running recount does not see in its snapshot */
	TimestampTz next_due;       /* earliest delayed ticket; DT_NOBEGIN: not known */
	TimestampTz delayed_cursor; /* no live ticket due before it, but for delayed_low */
	TimestampTz delayed_low;    /* earliest ticket made since the scheduler last looked */
	bool notify_pending;
	bool alarmed;       /* too many dead letters, and said so; see alert.c */
	bool alarm_pending; /* the scheduler is to say it */
	int64 alarm_count;  /* of dead letters then */
	int64 alert_width;  /* of a bucket, microseconds */
	int64 alert_bucket; /* number of the newest one */
	int64 alert_deaths[ALERT_BUCKETS];
	int64 reserved;      /* jobs that open transactions have taken, or are about to; kept where the queue is limited */
	TimestampTz rate_at; /* when the next start would be due by the rate, had there been no burst; under limit_lock */

	/* as the session last saw it that read the queue's settings */
	bool limited; /* has a concurrency */
	uint64 limit_group;

	uint64
		event_gone; /* position of the newest of its events that the buffer no longer has; under JobqShared.event_lock */
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
	int failures;              /* schedulers that ended badly in a row */
	TimestampTz lease_cursor;  /* no live lease ends before it, but for lease_low */
	TimestampTz lease_low;     /* earliest end of a lease made since the scheduler last looked */
	TimestampTz next_lease;    /* when the scheduler will look at the leases; DT_NOBEGIN: not known */
	bool sessions_ended;       /* one that marked its leases with a key; true at the start: not known */
	TimestampTz drain_at;      /* next look at the workers that hand over; DT_NOBEGIN: not known, DT_NOEND: none */
	TimestampTz next_schedule; /* earliest schedule to fire; DT_NOBEGIN: not known, DT_NOEND: none */
	bool prepared;             /* a PREPARE took counter changes with it: recount after it is gone */
	bool poisoned;             /* a job whose claim was rolled back too often waits for the scheduler */
	uint64 activity;           /* announcements, to know whether a rescan is worth while */
	uint64 rescan_activity;    /* activity when the last rescan began */
	TimestampTz next_rescan;   /* not before */
	TimestampTz totals_since;
	bool events_new;           /* the scheduler is to send events */
	bool alarms;               /* a queue has an alarm for the scheduler */
	TimestampTz expiry_cursor; /* no waiting job's time to live ends before it, but for expiry_low */
	TimestampTz expiry_low;    /* earliest one told since the scheduler last looked */
	TimestampTz next_expiry;   /* when the scheduler will look; DT_NOBEGIN: not known */
	TimestampTz
		next_window; /* end of the earliest window of a unique key without a job; DT_NOBEGIN: not known, DT_NOEND: none */
	TimestampTz once_next; /* next look for once() records that are over; DT_NOBEGIN: not known, DT_NOEND: none */

	TimestampTz sweep_at; /* next look for jobs that were not let go; DT_NOEND: none */

	/* Positions of events, under JobqShared.event_lock. After a start they begin above those of the time before. */
	uint64 event_first;
	uint64 event_next;
	uint64 event_sent;          /* all below were sent to who listens */
	bool handlers_changed;      /* the scheduler is to read again which queues have handlers */
	bool executors_wanted;      /* a job is ready that no executor was free for */
	int stopping;               /* transactions in which stop() was called */
	TimestampTz executor_pause; /* no executor is started before */
	int executor_failures;      /* that ended badly in a row */

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

/* A process that runs handlers, or the place reserved for one; guarded by JobqShared.executor_lock. See pool.c. */
typedef struct ExecutorSlot
{
	Oid db_oid;           /* InvalidOid: free */
	int pid;              /* 0: on its way */
	TimestampTz reserved; /* when the place was taken */
	Latch *latch;
	int64 key;             /* marks its leases */
	pg_atomic_uint32 idle; /* sleeps, and may be woken for a job; changed under a shared lock, too */
	bool leave;            /* is to finish what it runs, and go */
	TimestampTz until;     /* then what it still runs is interrupted and given back */
	int32 queue_id;        /* whose jobs it runs; 0: none */
	uint32 handler;        /* number of the handler that runs; 0: none */
} ExecutorSlot;

typedef enum EventState
{
	EVENT_RESERVED, /* its transaction is about to commit */
	EVENT_PUBLIC,
	EVENT_VOID /* its transaction was rolled back, or let the readers wait too long */
} EventState;

/* An event in the buffer, a ring. Texts are cut to what fits. See event.c. */
typedef struct EventRecord
{
	uint64 place;    /* number of records that the ring got before it */
	uint64 position; /* the same of its database */
	TimestampTz at;
	int64 job_id; /* 0: none */
	int64 delay;  /* microseconds; -1: none */
	int64 count;  /* -1: none */
	Oid db_oid;   /* InvalidOid: never used */
	int32 queue_id;
	int32 slot;    /* of the queue; -1: none */
	int32 attempt; /* -1: none */
	int32 max_attempts;
	uint8 kind;
	uint8 state;
	uint8 name_bytes; /* 0: none, as of the others */
	uint8 key_bytes;
	uint8 error_bytes;
	char name[120];
	char key[127];
	char error[192];
} EventRecord;

/* Where sessions wait for the end of a job, by a hash of its id. See waitjob.c. */
typedef struct JobWaitSlot
{
	ConditionVariable wake;
	pg_atomic_uint32 waiters;
} JobWaitSlot;

typedef struct DoneSlot
{
	Oid db_oid;
	int32 queue_id;
	int64 job_id;
	int64 token;
} DoneSlot;

typedef struct JobqShared
{
	LWLock lock;
	LWLock executor_lock;
	LWLock limit_lock;
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
	LWLock event_lock;
	uint64 event_next;            /* number of records that the ring has got */
	pg_atomic_uint32 job_waiters; /* in all slots: 0 spares the look */
	JobWaitSlot job_waits[JOB_WAIT_SLOTS];
} JobqShared;

extern JobqShared *jobq_shared; /* NULL: the library was not preloaded */
extern DbSlot *jobq_dbs;
extern QueueSlot *jobq_queues;
extern ClaimCursor *jobq_cursors;
extern EventRecord *jobq_event_ring;    /* jobq.event_buffer of them */
extern pg_atomic_uint64 *jobq_sessions; /* by backend: its liveness key, see liveness.c */
extern ExecutorSlot *jobq_executors;

extern void shmem_init(void);

extern DbSlot *shmem_db(Oid db_oid, Oid ext_oid);
extern DbSlot *shmem_db_find(Oid db_oid);
extern void shmem_db_free(Oid db_oid);
extern QueueSlot *shmem_queue(Oid db_oid, Oid ext_oid, int32 queue_id);
extern void shmem_queue_sweep(Oid db_oid, const int32 *ids, int n);
extern void shmem_queue_free(Oid db_oid, int32 queue_id);
extern int32 shmem_cursor_alloc(void);

extern bool shmem_recount_sees(DbSlot *db, FullTransactionId full);
extern void shmem_wake_scheduler(DbSlot *db);
extern void shmem_wake_launcher(void);

extern void shmem_done_remember(Oid db_oid, int32 queue_id, int64 job_id, int64 token);
extern bool shmem_done_known(Oid db_oid, int64 job_id, int64 token, int32 *queue_id);
extern void shmem_rollback_add(Oid db_oid, int32 queue_id, int64 job_id, DbSlot *db);
extern void shmem_rollback_clear(Oid db_oid, int64 job_id, int at_most);
extern int shmem_rollback_count(Oid db_oid, int64 job_id);
extern int64 shmem_rollback_next(Oid db_oid, int at_least, int *position, int32 *queue_id);

/* A claim that is rolled back this often in a row counts as an attempt. */
#define ROLLBACK_LIMIT 3

#endif /* JOBQ_SHMEM_H */
