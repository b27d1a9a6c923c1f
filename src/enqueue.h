/* enqueue.h: what enqueue and enqueue_many have in common */
#ifndef JOBQ_ENQUEUE_H
#define JOBQ_ENQUEUE_H

#include "jobq.h"

#include "datatype/timestamp.h"
#include "utils/jsonb.h"

#include "after.h"
#include "meta.h"
#include "store.h"

/* Both functions have their arguments in the same places. */
enum
{
	ARG_QUEUE,
	ARG_PAYLOAD,
	ARG_NAME,
	ARG_PRIORITY,
	ARG_DELAY,
	ARG_RUN_AT,
	ARG_GROUP_KEY,
	ARG_UNIQUE_KEY,
	ARG_MAX_ATTEMPTS,
	ARG_TIMEOUT,
	ARG_EXPIRES_IN,
	ARG_HEADERS,
	ARG_ON_CONFLICT,
	ARG_UNIQUE_UNTIL,
	ARG_UNIQUE_FOR,
	ARG_AFTER /* and after_dead, batch */
};

/* What happens when a job has the unique key already. */
typedef enum OnConflict
{
	CONFLICT_KEEP,    /* the answer is that job */
	CONFLICT_REPLACE, /* it gets the new content, if it waits */
	CONFLICT_ERROR
} OnConflict;

/* What the jobs of one call have in common. */
typedef struct JobTemplate
{
	DbSlot *db;
	QueueInfo *queue;
	TimestampTz now;
	TimestampTz visible_at; /* not after now: ready at once; DT_NOEND: it waits for others */
	int16 priority;
	int32 max_attempts;
	TimestampTz expires; /* DT_NOEND: never */
	text *name;
	Interval *timeout;
	OnConflict on_conflict;
	bool until_started;       /* a unique key is free from its job's first start on */
	TimestampTz unique_until; /* it is taken until then in any case; DT_NOBEGIN: no such time */
	After after;
	TimestampTz run_at; /* what visible_at is when the job waits for nobody any more */
} JobTemplate;

/* What differs from job to job. */
typedef struct JobInput
{
	Jsonb *payload;
	Jsonb *headers;   /* NULL: none */
	text *group_key;  /* NULL: no group */
	text *unique_key; /* NULL: none */
	int64 id;
} JobInput;

extern void enqueue_read(FunctionCallInfo fcinfo, const char *verb, bool opens, JobTemplate *t);
extern void enqueue_fill(TupleTableSlot *slot, const JobTemplate *t, const JobInput *input);
extern void enqueue_place(const JobTemplate *t, StoreTable *place, const JobInput *inputs, TupleTableSlot **jobs,
						  int n);
extern bool enqueue_replace(const JobTemplate *t, StoreTable *job, JobInput *input, int64 holder);
extern void enqueue_key_taken(const JobTemplate *t, const text *key, int64 holder);

#endif
