/*-------------------------------------------------------------------------
 *
 * maintain.h
 *		The scheduler's steps: what must happen by itself in a database.
 *
 * A step says when it next wants to run (from shared memory, no transaction)
 * and does a bounded piece of work when it runs, in a short transaction of
 * its own. A step that fails is undone, logged, and left alone for a while;
 * the others go on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_MAINTAIN_H
#define JOBQ_MAINTAIN_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "shmem.h"

/* Why the scheduler ends. */
typedef enum MaintainLeave
{
	LEAVE_NOT,
	LEAVE_GONE,        /* the extension was dropped, or is another installation */
	LEAVE_NOT_ADOPTED, /* copy of another database */
	LEAVE_FAILED       /* no transaction could be started; another process may fare better */
} MaintainLeave;

typedef struct Maintain
{
	DbSlot *db;
	Oid ext_oid;
	MemoryContext cycle; /* reset before each step */
	const char *step;    /* name of the running step */
	bool begun;          /* maintain_begin succeeded */
	bool blocked;        /* the extension is being changed or dropped: wait a moment */
	MaintainLeave leave;
} Maintain;

typedef struct MaintainStep
{
	const char *name;
	/* DT_NOBEGIN: at once; DT_NOEND: there is nothing to wait for */
	TimestampTz (*due)(Maintain *m);
	void (*run)(Maintain *m);
	/* puts back into shared memory what a failed run took out of it; must not fail; may be NULL */
	void (*undo)(Maintain *m);
} MaintainStep;

/* maintain.c */
extern bool maintain_begin(Maintain *m);
extern void maintain_end(Maintain *m);
extern TimestampTz maintain_run_due(Maintain *m, bool *ran);
extern TimestampTz maintain_next(Maintain *m);
extern void maintain_undo(Maintain *m);
extern void maintain_working_on(int64 id);
extern int maintain_batch(int usual);
extern bool maintain_is_skipped(int64 id, TimestampTz *until);
extern bool maintain_slot_is_ours(Maintain *m, QueueSlot *slot);
extern int maintain_queue_ids(Maintain *m, int32 **ids);

/* promote.c */
extern TimestampTz promote_due(Maintain *m);
extern void promote_run(Maintain *m);
extern void promote_undo(Maintain *m);

/* expire.c */
extern TimestampTz expire_due(Maintain *m);
extern void expire_run(Maintain *m);
extern void expire_undo(Maintain *m);
extern TimestampTz take_over_due(Maintain *m);
extern void take_over_run(Maintain *m);
extern void take_over_undo(Maintain *m);
extern TimestampTz rolled_back_due(Maintain *m);
extern void rolled_back_run(Maintain *m);
extern void rolled_back_undo(Maintain *m);

/* drain.c */
extern void drain_init(void);
extern TimestampTz drain_due(Maintain *m);
extern void drain_run(Maintain *m);
extern void drain_undo(Maintain *m);

/* manager.c */
extern TimestampTz manager_due(Maintain *m);
extern void manager_run(Maintain *m);
extern void manager_undo(Maintain *m);

/* schedule.c, fire.c */
extern void schedule_init(void);
extern TimestampTz schedule_due(Maintain *m);
extern void schedule_run(Maintain *m);
extern void schedule_undo(Maintain *m);

/* trim.c */
extern TimestampTz trim_due(Maintain *m);
extern void trim_run(Maintain *m);
extern void trim_soon(void);

/* recount.c */
extern TimestampTz recount_due(Maintain *m);
extern void recount_run(Maintain *m);
extern void recount_undo(Maintain *m);

/* eventsend.c */
extern TimestampTz events_due(Maintain *m);
extern void events_run(Maintain *m);
extern void events_undo(Maintain *m);
extern TimestampTz alarms_due(Maintain *m);
extern void alarms_run(Maintain *m);
extern void alarms_undo(Maintain *m);

/* ttl.c */
extern TimestampTz ttl_due(Maintain *m);
extern void ttl_run(Maintain *m);
extern void ttl_undo(Maintain *m);

/* sweep.c */
extern TimestampTz sweep_due(Maintain *m);
extern void sweep_run(Maintain *m);
extern void sweep_undo(Maintain *m);

/* collect.c */
extern TimestampTz once_due(Maintain *m);
extern void once_run(Maintain *m);
extern TimestampTz windows_due(Maintain *m);
extern void windows_run(Maintain *m);
extern void collect_undo(Maintain *m);

/* rescan.c */
extern TimestampTz rescan_due(Maintain *m);
extern void rescan_run(Maintain *m);
extern void rescan_soon(Maintain *m);

#endif /* JOBQ_MAINTAIN_H */
