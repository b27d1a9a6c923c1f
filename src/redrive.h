/* redrive.h: dead letters go back to work */
#ifndef JOBQ_REDRIVE_H
#define JOBQ_REDRIVE_H

#include "jobq.h"

#include "meta.h"
#include "store.h"

extern bool redrive_held(QueueInfo *queue, const HeldRow *held, int64 *holder);

#endif
