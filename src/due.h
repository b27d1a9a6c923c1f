/* due.h: times that a transaction tells the scheduler when it commits */
#ifndef JOBQ_DUE_H
#define JOBQ_DUE_H

#include "jobq.h"

#include "datatype/timestamp.h"

/* A job that waits has a time to live that ends then. */
extern void due_expiry(TimestampTz expires);

/* A unique key that no job has any more is taken until then. */
extern void due_window(TimestampTz until);

extern void due_init(void);

#endif
