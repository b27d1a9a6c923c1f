/* explaindep.h: what a pending job waits for, in words */
#ifndef JOBQ_EXPLAINDEP_H
#define JOBQ_EXPLAINDEP_H

#include "jobq.h"

#include "lib/stringinfo.h"

#include "jobinfo.h"

extern void explain_dependencies(StringInfo text, const JobInfo *job, Snapshot snapshot);

#endif
