/* cursor.h: where claims start to scan, so that nobody walks the dead entries in front */
#ifndef JOBQ_CURSOR_H
#define JOBQ_CURSOR_H

#include "jobq.h"

#include "shmem.h"

/* One claim's view of one cursor. */
typedef struct CursorScan
{
	ClaimCursor *cursor; /* NULL: no cursor, scan from the start */
	int32 queue_id;      /* whose slot it was */
	int lane;
	int16 priority;
	int64 start;
	int64 span; /* as the cursor has it */
	uint64 gen;
	int nstanding;
	CursorInterval standing[CURSOR_STANDING]; /* lowest first */
	/* result, filled by the claimer */
	int nscanned;    /* so many of standing[] were scanned to their end */
	int64 part_lo;   /* of standing[nscanned]: scanned up to here, exclusive; PG_INT64_MIN: not at all */
	bool tail_seen;  /* something was seen there */
	int64 tail_last; /* the last seq seen there */
	int tail_taken;  /* tickets taken there */
	bool tail_end;   /* it came to its end */
} CursorScan;

extern void cursor_announce(QueueSlot *slot, int lane, int priority, int64 lo, int64 hi);
extern bool cursor_first(QueueSlot *slot, int32 queue_id, int lane, int above, CursorScan *scan);
extern bool cursor_open(QueueSlot *slot, int32 queue_id, int lane, int priority, CursorScan *scan);
extern void cursor_finish(QueueSlot *slot, CursorScan *scan);
extern bool cursor_lane_known(QueueSlot *slot, int lane, uint32 *lost);
extern void cursor_lane_learnt(QueueSlot *slot, int32 queue_id, int lane, uint32 lost);
extern bool cursor_position(QueueSlot *slot, int lane, int priority, int64 *position);

#endif
