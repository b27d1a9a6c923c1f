/* eventkind.h: the kinds of events and their names */
#ifndef JOBQ_EVENTKIND_H
#define JOBQ_EVENTKIND_H

#include "jobq.h"

#include "utils/array.h"

typedef enum EventKind
{
	EVENT_WAITING,
	EVENT_ACTIVE,
	EVENT_COMPLETED,
	EVENT_FAILED,
	EVENT_RETRYING,
	EVENT_DEAD,
	EVENT_CANCELLED,
	EVENT_EXPIRED,
	EVENT_DELETED,
	EVENT_GROUP_BLOCKED,
	EVENT_GROUP_UNBLOCKED,
	NUM_QUEUE_EVENTS, /* those above are chosen per queue */
	EVENT_DEAD_ALARM = NUM_QUEUE_EVENTS,
	EVENT_LOST,
	NUM_EVENTS
} EventKind;

extern const char *const event_names[NUM_EVENTS];

extern uint32 event_mask(ArrayType *names);

#endif
