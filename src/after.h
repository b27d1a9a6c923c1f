/* after.h: enqueue's arguments after, after_dead and batch */
#ifndef JOBQ_AFTER_H
#define JOBQ_AFTER_H

#include "jobq.h"

#include "meta.h"

/* What the jobs of one call wait for, and what waits for them. */
typedef struct After
{
	bool waits;     /* they are to wait: for others, or until their batch is closed */
	bool opens;     /* each is a batch, and open */
	bool given;     /* one of the arguments says something */
	char policy;    /* what happens when one of the others does not complete: w, c, r */
	int n;          /* others */
	int64 *on_jobs; /* ascending */
	bool *own;      /* enqueued by this very transaction: nobody else can have ended it */
	int32 *queues;  /* of those that are live; else 0 */
	int64 batch;    /* of which they become members; 0: none */
} After;

/*
 * Reads the three arguments from argno on. Errors: 22023 an unknown word, an id that was never given out, or a job that would wait for
 * itself; 42501 a job of a queue without any right; 42704 no such batch; 55000 it does not wait any more.
 */
extern void after_read(FunctionCallInfo fcinfo, int argno, bool opens, After *a);

/* Writes what the jobs of these ids, which have been written, wait for. */
extern void after_attach(const After *a, QueueInfo *queue, const int64 *ids, int n);

#endif
