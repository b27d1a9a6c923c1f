/* launcher.h: the worker that starts a scheduler where one is wanted */
#ifndef JOBQ_LAUNCHER_H
#define JOBQ_LAUNCHER_H

#include "jobq.h"

extern void launcher_register(void);

#endif
