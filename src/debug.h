/* debug.h: named points at which an isolation test can stop a session; nothing at all in a normal build */
#ifndef JOBQ_DEBUG_H
#define JOBQ_DEBUG_H

#include "jobq.h"

#ifdef JOBQ_DEBUG
extern void debug_point(const char *name);
#define DEBUG_POINT(name) debug_point(name)
#else
#define DEBUG_POINT(name) ((void) 0)
#endif

#endif
