/* redrive.h: dead letters go back to work */
#ifndef JOBQ_REDRIVE_H
#define JOBQ_REDRIVE_H

#include "jobq.h"

#include "meta.h"

extern bool redrive_one(QueueInfo *queue, int64 id);

#endif
