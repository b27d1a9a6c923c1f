/* manager.h: who decides how many executors there are */
#ifndef JOBQ_MANAGER_H
#define JOBQ_MANAGER_H

#include "jobq.h"

extern void manager_init(void);

#endif
