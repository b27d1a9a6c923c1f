/* letgo.h: jobs that wait for others are let go, or cancelled, when those end */
#ifndef JOBQ_LETGO_H
#define JOBQ_LETGO_H

#include "jobq.h"

extern void letgo_init(void);

#endif
