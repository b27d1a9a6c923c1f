/*-------------------------------------------------------------------------
 *
 * grant.h
 *		Who may do what with which queue.
 *
 * A check belongs in a function that SQL calls: what the scheduler and the
 * executors do in their own name goes to the functions below it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_GRANT_H
#define JOBQ_GRANT_H

#include "jobq.h"

#include "compat.h"

#include "meta.h"

/* Rights on a queue, as bits. */
#define RIGHT_ENQUEUE 0x01
#define RIGHT_CONSUME 0x02
#define RIGHT_MANAGE 0x04
#define RIGHT_OWN 0x08     /* owner, the extension's owner, superusers: includes all others */
#define RIGHT_MONITOR 0x10 /* pg_monitor: looks at everything */
#define RIGHTS_GRANTED (RIGHT_ENQUEUE | RIGHT_CONSUME | RIGHT_MANAGE)

/* Any of these: reads the queue's jobs; knows of the queue; has schedules that enqueue there. */
#define RIGHTS_READ (RIGHT_CONSUME | RIGHT_MANAGE | RIGHT_MONITOR)
#define RIGHTS_SEE (RIGHTS_GRANTED | RIGHT_MONITOR)
#define RIGHTS_FIRE (RIGHT_ENQUEUE | RIGHT_MANAGE | RIGHT_OWN)

/* Rights of a role on a queue; NULL: on one that was dropped. After meta_begin. */
extern uint32 grant_rights(QueueInfo *queue, Oid role);

/* Whether the current user has one of the rights. */
extern bool grant_has(QueueInfo *queue, uint32 rights);
extern bool grant_has_id(int32 queue_id, uint32 rights);
extern bool grant_has_all(void);

/* The queue of that name. Errors: 42501 without one of the rights, whether there is such a queue or not; else 42704; 22004 NULL. */
extern QueueInfo *grant_queue(const text *name, uint32 rights);
extern QueueInfo *grant_queue_arg(FunctionCallInfo fcinfo, int argno, uint32 rights);

/* The right of a privilege's name; 0: there is none of that name. */
extern uint32 grant_right_named(const char *privilege);

/* Inside a scope of spi.c. What rights on a queue need on the functions and views; role InvalidOid: PUBLIC. */
extern void grant_objects(Oid role, uint32 rights);
extern void grant_take_objects(Oid role, uint32 kept);

#endif
