/*-------------------------------------------------------------------------
 *
 * store.h
 *		Rows and indexes: the only module that calls the table, index and
 *		executor interfaces.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_STORE_H
#define JOBQ_STORE_H

#include "jobq.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "utils/jsonb.h"
#include "utils/snapshot.h"

#include "meta.h"

/* Attribute numbers, as the extension script makes the tables. */
enum
{
	Anum_job_id = 1,
	Anum_job_created,
	Anum_job_queue_id,
	Anum_job_max_attempts,
	Anum_job_priority,
	Anum_job_timeout,
	Anum_job_expires,
	Anum_job_name,
	Anum_job_group_key,
	Anum_job_unique_key,
	Anum_job_payload,
	Anum_job_headers,
	Anum_job_unique_started,
	Anum_job_unique_until,
	Anum_job_after_dead,
	Anum_job_run_at,
	Natts_job = Anum_job_run_at
};
enum
{
	Anum_dependency_job_id = 1,
	Anum_dependency_on_job,
	Anum_dependency_ended,
	Natts_dependency = Anum_dependency_ended
};
enum
{
	Anum_ready_seq = 1,
	Anum_ready_job_id,
	Anum_ready_queue_id,
	Anum_ready_attempt,
	Anum_ready_lane,
	Anum_ready_priority,
	Anum_ready_job_tid,
	Anum_ready_group_id,
	Anum_ready_from_ord,
	Anum_ready_since,
	Natts_ready = Anum_ready_since
};
enum
{
	Anum_delayed_visible_at = 1,
	Anum_delayed_job_id,
	Anum_delayed_queue_id,
	Anum_delayed_attempt,
	Anum_delayed_priority,
	Anum_delayed_job_tid,
	Anum_delayed_group_id,
	Anum_delayed_from_ord,
	Natts_delayed = Anum_delayed_from_ord
};
enum
{
	Anum_lease_token = 1,
	Anum_lease_started,
	Anum_lease_lease_until,
	Anum_lease_deadline,
	Anum_lease_cancel,
	Anum_lease_queue_id,
	Anum_lease_job_ids,
	Anum_lease_job_tids,
	Anum_lease_attempts,
	Anum_lease_worker,
	Anum_lease_progress,
	Anum_lease_group_id,
	Anum_lease_ords,
	Anum_lease_drain,
	Anum_lease_lane,
	Anum_lease_session,
	Natts_lease = Anum_lease_session
};
enum
{
	Anum_job_group_id = 1,
	Anum_job_group_queue_id,
	Anum_job_group_group_key,
	Natts_job_group = Anum_job_group_group_key
};
enum
{
	Anum_line_group_id = 1,
	Anum_line_ord,
	Anum_line_ver,
	Anum_line_job_id,
	Anum_line_attempt,
	Anum_line_priority,
	Anum_line_job_tid,
	Anum_line_since,
	Natts_line = Anum_line_since
};
enum
{
	Anum_held_group_id = 1,
	Anum_held_queue_id,
	Anum_held_priority,
	Anum_held_reason,
	Anum_held_since,
	Anum_held_from_ord,
	Anum_held_dead_job,
	Anum_held_dead_ord,
	Natts_held = Anum_held_dead_ord
};
enum
{
	Anum_group_setting_queue_id = 1,
	Anum_group_setting_group_key,
	Anum_group_setting_weight,
	Anum_group_setting_lease,
	Anum_group_setting_rate_limit,
	Anum_group_setting_rate_interval,
	Anum_group_setting_paused,
	Natts_group_setting = Anum_group_setting_paused
};
enum
{
	Anum_group_rate_queue_id = 1,
	Anum_group_rate_group_key,
	Anum_group_rate_next_at,
	Natts_group_rate = Anum_group_rate_next_at
};
enum
{
	Anum_unique_window_queue_id = 1,
	Anum_unique_window_unique_key,
	Anum_unique_window_job_id,
	Anum_unique_window_until,
	Natts_unique_window = Anum_unique_window_until
};
enum
{
	Anum_failure_job_id = 1,
	Anum_failure_at,
	Anum_failure_attempt,
	Anum_failure_error,
	Natts_failure = Anum_failure_error
};
enum
{
	Anum_dead_id = 1,
	Anum_dead_created,
	Anum_dead_died,
	Anum_dead_queue_id,
	Anum_dead_attempt,
	Anum_dead_max_attempts,
	Anum_dead_priority,
	Anum_dead_timeout,
	Anum_dead_expires,
	Anum_dead_reason,
	Anum_dead_last_error,
	Anum_dead_name,
	Anum_dead_group_key,
	Anum_dead_unique_key,
	Anum_dead_payload,
	Anum_dead_headers,
	Anum_dead_failures,
	Anum_dead_unique_started,
	Natts_dead = Anum_dead_unique_started
};
enum
{
	Anum_history_id = 1,
	Anum_history_token,
	Anum_history_created,
	Anum_history_started,
	Anum_history_finished,
	Anum_history_expiry,
	Anum_history_queue_id,
	Anum_history_attempt,
	Anum_history_max_attempts,
	Anum_history_priority,
	Anum_history_state,
	Anum_history_name,
	Anum_history_group_key,
	Anum_history_unique_key,
	Anum_history_worker,
	Anum_history_payload,
	Anum_history_headers,
	Anum_history_result,
	Anum_history_progress,
	Anum_history_failures,
	Natts_history = Anum_history_failures
};

/* Indexes, numbered per table in the order of meta.c's list. */
enum
{
	INDEX_JOB_PKEY = 0,
	INDEX_JOB_UNIQUE_KEY,
	INDEX_JOB_EXPIRES,
	INDEX_READY_SCAN = 0,
	INDEX_READY_JOB,
	INDEX_DELAYED_DUE = 0,
	INDEX_DELAYED_JOB,
	INDEX_LEASE_PKEY = 0,
	INDEX_LEASE_UNTIL,
	INDEX_FAILURE_JOB = 0,
	INDEX_DEAD_PKEY = 0,
	INDEX_DEAD_QUEUE,
	INDEX_DEAD_DIED,
	INDEX_HISTORY_ID = 0,
	INDEX_QUEUE_PKEY = 0,
	INDEX_QUEUE_NAME,
	INDEX_JOB_GROUP_PKEY = 0,
	INDEX_JOB_GROUP_KEY,
	INDEX_LINE_ORDER = 0,
	INDEX_LINE_JOB,
	INDEX_HELD_PKEY = 0,
	INDEX_GROUP_SETTING_PKEY = 0,
	INDEX_GROUP_RATE_KEY = 0,
	INDEX_UNIQUE_WINDOW_PKEY = 0,
	INDEX_UNIQUE_WINDOW_UNTIL,
	INDEX_DEPENDENCY_PKEY = 0,
	INDEX_DEPENDENCY_ON,
	MAX_INDEXES = 3
};

/* Rows that bulk paths hold at a time: a slot per row costs a third of a bulk insert in the resource owner. */
#define STORE_BATCH 64

typedef struct StoreTable StoreTable;

/* An open table. Lives in the memory context of the call. */
struct StoreTable
{
	JobqTable which;
	Relation rel;
	BlockNumber nblocks; /* when last asked; a hint's block must lie below */
	LOCKMODE release;    /* by store_close; NoLock: the locks stay until the transaction ends */
	int nindexes;
	int deferred; /* index that store_insert leaves out, -1: none */
	Relation indexes[MAX_INDEXES];
	TupleTableSlot *slots[STORE_BATCH];
	TupleTableSlot *read_slot;
	struct StoreGeneric *generic; /* set when the table has indexes that are not ours */
};

/* A ticket as read from ready or delayed. */
typedef struct Ticket
{
	ItemPointerData tid;
	int64 seq;              /* ready */
	TimestampTz visible_at; /* delayed */
	int64 job_id;
	int32 queue_id;
	int32 attempt; /* counted so far */
	int16 lane;
	int16 priority;
	ItemPointerData job_tid; /* hint */
	bool mine;               /* made by this very transaction */
	bool joins;              /* delayed: the job joins its group's line when it is due */
	int64 group_id; /* the group whose turn it is; job_id is the same. Of a job taken from a line: its group. 0: none */
	int64 from_ord; /* of a group's: nobody stands in line before it */
	TimestampTz since; /* the job could start from then on; 0: since it was made */
	/* of a job taken from a line */
	int64 ord;              /* its place there */
	int64 turn_lease;       /* microseconds, where the consumer asks for none */
	TimestampTz turn_start; /* when a group with a rate started it; DT_NOBEGIN: not said */
} Ticket;

/* The counter of jobs that wait where a ticket is. */
static inline JobqCounter
ticket_counter(JobqTable which, const Ticket *ticket)
{
	if (which == TABLE_READY)
		return COUNT_READY;
	return TIMESTAMP_IS_NOEND(ticket->visible_at) ? COUNT_PENDING : COUNT_DELAYED;
}

/* A job in line. */
typedef struct LineRow
{
	ItemPointerData tid;
	int64 group_id;
	int64 ord;
	int64 job_id;
	int32 attempt; /* counted so far */
	int16 priority;
	ItemPointerData job_tid; /* hint */
	TimestampTz since;       /* it could start from then on, but for those before it; 0: since it was made */
} LineRow;

/* A ticket that nobody may take. */
typedef struct HeldRow
{
	ItemPointerData tid;
	int64 group_id;
	int32 queue_id;
	int16 priority;
	bool blocked; /* by a dead job; else paused */
	TimestampTz since;
	int64 from_ord;
	int64 dead_job; /* blocked only */
	int64 dead_ord;
} HeldRow;

/* A lease as read. jobs are in the order they were taken. */
typedef struct Lease
{
	ItemPointerData tid;
	int64 token;
	TimestampTz started;
	TimestampTz lease_until;
	TimestampTz deadline; /* DT_NOEND: none */
	uint64 cancel;
	int32 queue_id;
	int njobs;
	int64 job_ids[JOBQ_MAX_LEASE_JOBS];
	ItemPointerData job_tids[JOBQ_MAX_LEASE_JOBS];
	int32 attempts[JOBQ_MAX_LEASE_JOBS]; /* number of the running attempt */
	text *worker;
	Jsonb *progress; /* object by job id, or NULL */
	int64 group_id;  /* 0: not a group's */
	int64 ords[JOBQ_MAX_LEASE_JOBS];
	bool drain;    /* its holder is to let go */
	int16 lane;    /* that a group's ticket came from */
	int64 session; /* liveness key of the holder's session; 0: none */
} Lease;

/* The job that has a unique key. */
typedef struct UniqueHolder
{
	int64 job_id;
	int16 priority;
	bool until_started; /* the key is free when it starts */
	bool mine;          /* made by this very transaction */
} UniqueHolder;

/* A key that is taken until a time without a job. */
typedef struct UniqueWindow
{
	ItemPointerData tid;
	int64 job_id; /* that had it */
	TimestampTz until;
} UniqueWindow;

typedef enum UniqueLook
{
	UNIQUE_LOOK_FREE,
	UNIQUE_LOOK_TAKEN,
	UNIQUE_LOOK_BUSY
} UniqueLook;

typedef enum LeaseLock
{
	LEASE_KEY_SHARE,
	LEASE_NO_KEY, /* for an update that keeps every job */
	LEASE_EXCLUSIVE
} LeaseLock;

/* tables */
extern StoreTable *store_open(JobqTable which);
extern void store_close(StoreTable *t);
extern StoreTable *store_open_once(StoreTable **t, JobqTable which);
extern TupleTableSlot *store_slot(StoreTable *t, int n);
extern void store_insert(StoreTable *t, TupleTableSlot **slots, int n);
extern bool store_insert_unique(StoreTable *t, int arbiter, TupleTableSlot *slot,
								bool (*may_stay)(void *arg, TupleTableSlot *slot), void *arg);
extern void store_enter_deferred(StoreTable *t, TupleTableSlot *slot, ItemPointer tid);
extern TM_Result store_delete(StoreTable *t, ItemPointer tid, bool wait);
extern bool store_take(StoreTable *t, ItemPointer tid, Snapshot snapshot);
extern TM_Result store_lock(StoreTable *t, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot, LockTupleMode mode,
							bool wait);
extern TM_Result store_update(StoreTable *t, ItemPointer tid, TupleTableSlot *slot);
extern TupleTableSlot *store_read_slot(StoreTable *t);
extern TableScanDesc store_heap_begin(StoreTable *t, Snapshot snapshot);
extern bool store_heap_next(TableScanDesc scan, TupleTableSlot *slot);
extern void store_heap_end(TableScanDesc scan);
extern Snapshot store_snapshot(void);
extern void store_snapshot_done(Snapshot snapshot);

/* index scans; a scan's slot is overwritten by each step */
typedef struct StoreScan
{
	IndexScanDesc desc;
	TupleTableSlot *slot;
	StoreTable *table;
} StoreScan;
extern void store_make_read_slot(StoreTable *t);
extern void store_scan_begin(StoreScan *scan, StoreTable *t, int index, Snapshot snapshot, ScanKey keys, int nkeys);
extern bool store_scan_next(StoreScan *scan);
extern void store_scan_end(StoreScan *scan);

/* jobs */
extern bool store_job_fetch(StoreTable *job, Snapshot snapshot, int64 id, ItemPointer hint, TupleTableSlot *slot);

/* tickets */
extern void store_ready_fill(TupleTableSlot *slot, const Ticket *ticket);
extern void store_delayed_fill(TupleTableSlot *slot, const Ticket *ticket);
extern void store_ticket_read(JobqTable which, TupleTableSlot *slot, Ticket *ticket);
extern void store_ready_scan(StoreScan *scan, StoreTable *ready, Snapshot snapshot, int32 queue_id, int lane,
							 int priority, int64 lo, int64 hi);
extern bool store_ready_next_priority(StoreTable *ready, Snapshot snapshot, int32 queue_id, int lane, int above,
									  int16 *priority);
extern void store_delayed_scan(StoreScan *scan, StoreTable *delayed, Snapshot snapshot, int32 queue_id, TimestampTz lo,
							   TimestampTz hi);
extern bool store_ticket_of_group(JobqTable which, StoreTable *t, Snapshot snapshot, int64 group_id, Ticket *ticket);
extern bool store_ticket_find(JobqTable which, StoreTable *t, Snapshot snapshot, int64 job_id, int32 queue_id,
							  int16 priority, Ticket *ticket);

/* groups: store_line.c */
extern void store_line_fill(TupleTableSlot *slot, const LineRow *row, int64 ver);
extern void store_line_scan(StoreScan *scan, StoreTable *line, Snapshot snapshot, int64 group_id, int64 from_ord);
extern void store_line_read(TupleTableSlot *slot, LineRow *row);
extern bool store_line_head(StoreTable *line, Snapshot snapshot, int64 group_id, int64 from_ord, LineRow *row);
extern bool store_line_of_job(StoreTable *line, Snapshot snapshot, int64 job_id, LineRow *row);
extern void store_held_insert(StoreTable *held, const HeldRow *row);
extern bool store_held_find(StoreTable *held, Snapshot snapshot, int64 group_id, HeldRow *row);
extern bool store_group_find(StoreTable *job_group, Snapshot snapshot, int32 queue_id, const text *key, int64 *id,
							 ItemPointer tid);
extern text *store_group_key(StoreTable *job_group, Snapshot snapshot, int64 id);
extern void store_group_insert(StoreTable *job_group, int64 id, int32 queue_id, const text *key);
extern bool store_group_setting(StoreTable *t, Snapshot snapshot, int32 queue_id, const text *key,
								TupleTableSlot **slot);
extern bool store_group_rate(StoreTable *t, Snapshot snapshot, int32 queue_id, const text *key, TimestampTz *next_at,
							 ItemPointer tid);
extern void store_group_rate_insert(StoreTable *t, int32 queue_id, const text *key, TimestampTz next_at);

/* leases */
extern void store_lease_insert(StoreTable *lease, const Lease *row);
extern bool store_lease_find(StoreTable *lease, Snapshot snapshot, int64 token, Lease *row);
extern TM_Result store_lease_lock(StoreTable *lease, Lease *row, LeaseLock lock, bool wait);
extern TM_Result store_lease_update(StoreTable *lease, Lease *row);
extern void store_lease_read(TupleTableSlot *slot, Lease *row);
extern bool store_lease_of_job(StoreTable *lease, Snapshot snapshot, int64 job_id, Lease *row, int *position);
extern bool store_lease_of_group(StoreTable *lease, Snapshot snapshot, int64 group_id, Lease *row);
extern void store_lease_scan(StoreScan *scan, StoreTable *lease, Snapshot snapshot, TimestampTz lo, TimestampTz hi);

/* unique keys: store_unique.c */
typedef struct UniqueLooks
{
	StoreTable *job;
	SnapshotData dirty;
	StoreScan scan;
	bool open;
	StoreScan range;
	bool range_open;
} UniqueLooks;

extern void store_unique_begin(UniqueLooks *looks, StoreTable *job);
extern void store_unique_end(UniqueLooks *looks);
extern UniqueLook store_unique_look(UniqueLooks *looks, int32 queue_id, const text *key, bool wait,
									UniqueHolder *holder);
extern text *store_unique_next(UniqueLooks *looks, int32 queue_id, const text *from, const text *to);
extern bool store_windows_exist(StoreTable *window);
extern bool store_window_find(StoreTable *window, Snapshot snapshot, int32 queue_id, const text *key,
							  UniqueWindow *row);
extern void store_window_insert(StoreTable *window, int32 queue_id, const text *key, int64 job_id, TimestampTz until);

/* dependencies: store_depend.c */
typedef struct Dependency
{
	ItemPointerData tid;
	int64 job_id; /* the job that waits */
	int64 on_job; /* for this one; itself: its batch is open */
	char
		ended; /* how that ended without completing; 0: it has not. An upper case letter: it is waited for all the same */
} Dependency;

/* Whether a row holds its job back. */
static inline bool
dependency_holds(const Dependency *row)
{
	return row->ended == 0 || (row->ended >= 'A' && row->ended <= 'Z');
}

extern bool store_dependencies_exist(StoreTable *dependency);
extern void store_dependency_fill(TupleTableSlot *slot, int64 job_id, int64 on_job, char ended);
extern void store_dependency_read(TupleTableSlot *slot, Dependency *row);
extern void store_dependencies_of(StoreScan *scan, StoreTable *dependency, Snapshot snapshot, int64 job_id);
extern void store_dependencies_on(StoreScan *scan, StoreTable *dependency, Snapshot snapshot, int64 on_job);
extern void store_dependencies_on_next(StoreScan *scan, int64 on_job);
extern bool store_dependencies_hold(StoreTable *dependency, int64 job_id, int64 near, int n);

/* failures and the ring of history tables */
extern void store_failure_insert(int64 job_id, int attempt, TimestampTz at, const text *error);
extern Datum store_failures_take(int64 job_id, bool *isnull);
extern Datum store_failures_read(Snapshot snapshot, int64 job_id, bool *isnull, text **last_error, int32 *last_attempt);
extern void store_failures_delete(int64 job_id);
extern void store_failures_move(int64 from, int64 to, int shift);
extern JobqTable store_history_table(TimestampTz expiry, TimestampTz now);
extern char store_how_ended(int64 job_id, Snapshot snapshot, int32 *queue_id);

static inline Datum
slot_datum(TupleTableSlot *slot, int attnum, bool *isnull)
{
	slot_getsomeattrs(slot, attnum);
	*isnull = slot->tts_isnull[attnum - 1];
	return slot->tts_values[attnum - 1];
}

/* Value of a column that is declared NOT NULL */
static inline Datum
slot_value(TupleTableSlot *slot, int attnum)
{
	slot_getsomeattrs(slot, attnum);
	return slot->tts_values[attnum - 1];
}

/* Since when the job of a ticket could start. */
static inline TimestampTz
store_ready_since(const Ticket *ticket, TupleTableSlot *job)
{
	return ticket->since != 0 ? ticket->since : (TimestampTz) DatumGetInt64(slot_value(job, Anum_job_created));
}

static inline void
slot_set(TupleTableSlot *slot, int attnum, Datum value)
{
	slot->tts_values[attnum - 1] = value;
	slot->tts_isnull[attnum - 1] = false;
}

static inline void
slot_set_null(TupleTableSlot *slot, int attnum)
{
	slot->tts_values[attnum - 1] = (Datum) 0;
	slot->tts_isnull[attnum - 1] = true;
}

/* store_walk.c: index walks that also step on dead entries, and tables opened only for reading */
typedef struct StoreWalk
{
	IndexScanDesc desc;
	TupleTableSlot *slot;
	int walked; /* entries so far */
} StoreWalk;

extern StoreTable *store_open_read(JobqTable which);
extern bool store_in_hand(StoreTable *t, Snapshot snapshot, ItemPointer tid);
extern void store_walk_begin(StoreWalk *walk, StoreTable *t, int index, Snapshot snapshot, ScanKey keys, int nkeys);
extern bool store_walk_next(StoreWalk *walk, bool *visible);
extern bool store_walk_back(StoreWalk *walk, bool *visible);
extern bool store_walk_was_committed(StoreWalk *walk);
extern Datum store_walk_key(StoreWalk *walk, int column);
extern void store_walk_end(StoreWalk *walk);

#endif /* JOBQ_STORE_H */
