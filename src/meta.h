/* meta.h: what this session knows of the installation: oids, version, identity, queues */
#ifndef JOBQ_META_H
#define JOBQ_META_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "shmem.h"

typedef enum JobqTable
{
	TABLE_QUEUE,
	TABLE_JOB,
	TABLE_READY,
	TABLE_DELAYED,
	TABLE_LEASE,
	TABLE_FAILURE,
	TABLE_DEAD,
	TABLE_IDENTITY,
	TABLE_ORIGIN,
	TABLE_JOB_GROUP,
	TABLE_LINE,
	TABLE_HELD,
	TABLE_GROUP_SETTING,
	TABLE_GROUP_RATE,
	TABLE_UNIQUE_WINDOW,
	TABLE_QUEUE_ACL,
	TABLE_DEPENDENCY,
	TABLE_HISTORY, /* first of the ring */
	TABLE_HISTORY_FAR = TABLE_HISTORY + 32,
	NUM_TABLES
} JobqTable;

#define HISTORY_RING 32

typedef enum JobqSequence
{
	SEQ_JOB_BLOCK,
	SEQ_TOKEN_BLOCK,
	SEQ_TOKEN_BASE,
	SEQ_TOKEN_GENERATION,
	SEQ_TOKEN_SYSTEM,
	NUM_SEQUENCES
} JobqSequence;

typedef enum BackoffKind
{
	BACKOFF_FIXED,
	BACKOFF_LINEAR,
	BACKOFF_EXPONENTIAL,
	BACKOFF_EXPONENTIAL_JITTER,
	BACKOFF_FUNCTION
} BackoffKind;

#define KEEP_FOREVER PG_INT64_MAX

/* A queue as cached by this session. The struct stays where it is for the session's life; its content is renewed in place. */
typedef struct QueueInfo
{
	int32 id; /* hash key */
	bool exists;
	bool paused;
	bool notify;
	char name[JOBQ_MAX_QUEUE_NAME + 1];
	char *owner;
	int32 max_attempts;
	int64 lease;   /* microseconds */
	int64 timeout; /* microseconds; 0: none */
	BackoffKind backoff;
	int64 backoff_base; /* microseconds */
	int64 backoff_cap;  /* microseconds; PG_INT64_MAX: none */
	char *backoff_function;
	int64 keep_completed;    /* microseconds; 0: nothing kept */
	int32 dead_letter_queue; /* 0: none */
	int32 max_payload_bytes;
	bool pass_on_retry;     /* a failed job of a group leaves the line for its backoff; else the group waits with it */
	bool skip_on_dead;      /* a group goes on after a death; else it is blocked */
	bool group_settings;    /* some of its groups have settings of their own */
	int32 group_rate_limit; /* starts in a group in group_rate_interval; 0: no limit */
	int64 group_rate_interval;
	int64 group_lease;   /* microseconds; 0: lease */
	int32 isolate_above; /* jobs in line; 0: never */
	int32 concurrency;   /* jobs that run at a time; 0: no limit */
	int32 rate_limit;    /* starts in rate_interval; 0: no limit */
	int64 rate_interval;
	int32 rate_burst;          /* starts at once */
	uint64 limit_group;        /* of the queues that share the limits; 0: none do */
	bool ageing;               /* an old job of low priority comes before new ones of high priority now and then */
	uint32 events;             /* a bit for each EventKind that is wanted */
	int32 alert_dead;          /* 0: no alarm */
	int64 alert_dead_interval; /* microseconds in which so many may not die; 0: so many there may not be */
	QueueSlot *slot;           /* NULL: no slot was free */
	uint32 slots_freed;        /* when that was */
	uint32 loads; /* how often it was read: what hangs on its settings is read again when that has changed */
} QueueInfo;

/* What a verb needs of the transaction and the database it runs in. */
typedef enum VerbNeeds
{
	VERB_READS = 0,
	VERB_WRITES = 1,    /* not read-only, not in recovery, not parallel */
	VERB_TAKES = 1 | 2, /* also READ COMMITTED, jobq.enabled and an adopted database */
	VERB_WAITS = 4,     /* as VERB_TAKES, but writes nothing */
	VERB_HOLDS = 1 | 8  /* writes, by a lease's token: an adopted database */
} VerbNeeds;

extern void meta_init(void);
extern DbSlot *meta_begin(const char *verb, VerbNeeds needs);
extern DbSlot *meta_db(void);
extern Oid meta_extension_oid(bool missing_ok);
extern void meta_revalidate(void);
extern Oid meta_table_oid(JobqTable table);
extern Oid meta_index_oid(JobqTable table, int n);
extern Oid meta_sequence_oid(JobqSequence sequence);
extern QueueInfo *meta_queue(const text *name);
extern QueueInfo *meta_find_queue(const text *name);
extern QueueInfo *meta_queue_by_id(int32 id);
extern QueueInfo *meta_queue_arg(FunctionCallInfo fcinfo, int argno);
extern bool meta_adopted(void);
extern void meta_settings_changed(void);

#endif
