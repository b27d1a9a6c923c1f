/* admin.h: the queues themselves: made, changed, renamed, paused */
#ifndef JOBQ_ADMIN_H
#define JOBQ_ADMIN_H

#include "jobq.h"

#include "compat.h"

#include "storage/lockdefs.h"

extern void admin_lock_name(const text *name, LOCKMODE mode);
extern void admin_lock_routes(void);
extern int32 admin_queue_id(const text *name);
JOBQ_NORETURN extern void admin_no_such_queue(const text *name);

#endif
