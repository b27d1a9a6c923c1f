/* handler.h: which function runs the jobs of a queue */
#ifndef JOBQ_HANDLER_H
#define JOBQ_HANDLER_H

#include "jobq.h"

#include "meta.h"

/* A row of jobq.handler, as cached; good until the queue's settings are read again. */
typedef struct Handler
{
	char *name;      /* of the jobs, or "*" for those without one of their own */
	uint32 number;   /* tells it from the queue's others */
	char *signature; /* of the function */
	char *role;
	char *search_path;
	int concurrency;
	int64 timeout; /* microseconds */
} Handler;

/* The function behind a handler. */
typedef struct HandlerFunction
{
	Oid oid;
	Oid result_type;
	bool takes_delivery; /* else the payload */
} HandlerFunction;

extern const Handler *handler_find(QueueInfo *queue, const char *name);
extern int64 handler_longest_timeout(QueueInfo *queue);
extern int handler_number_of(QueueInfo *queue);
extern HandlerFunction handler_function(const Handler *handler, Oid role);
extern Oid handler_delivery_type(void);

#endif
