/*-------------------------------------------------------------------------
 *
 * alert.c
 *		The alarm of a queue with too many dead letters.
 *
 * Who changes the counters looks whether the threshold was crossed, at its
 * commit; the scheduler tells of it. So no crossing is missed, however
 * short it is, and nothing is counted anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "alert.h"

/* Moves the window of the newest deaths to the present. */
static void
move_window(QueueSlot *slot, int64 width, TimestampTz now)
{
	int64 bucket = now / width;

	if (slot->alert_width != width || bucket - slot->alert_bucket >= ALERT_BUCKETS)
	{
		memset(slot->alert_deaths, 0, sizeof(slot->alert_deaths));
		slot->alert_width = width;
		slot->alert_bucket = bucket;
	}
	while (slot->alert_bucket < bucket)
		slot->alert_deaths[++slot->alert_bucket % ALERT_BUCKETS] = 0;
}

static int64
deaths_in_window(const QueueSlot *slot)
{
	int64 sum = 0;

	for (int i = 0; i < ALERT_BUCKETS; i++)
		sum += slot->alert_deaths[i];
	return sum;
}

/*
 * Looks at a queue after its counters were changed. interval: microseconds in which threshold jobs may not die; 0: threshold is for the
 * dead letters that there are. deaths: that the change brought. True: the scheduler is to raise an alarm. Caller holds slot->mutex.
 */
bool
alert_check(QueueSlot *slot, int threshold, int64 interval, int64 deaths, TimestampTz now)
{
	int64 count;

	if (interval == 0)
	{
		if (!slot->exact)
			return false; /* the recount looks when it has counted */
		count = slot->counts[COUNT_DEAD];
	}
	else
	{
		if (deaths == 0)
			return false;
		move_window(slot, Max(interval / ALERT_BUCKETS, 1), now);
		if (deaths_in_window(slot) < threshold)
			slot->alarmed = false;
		slot->alert_deaths[slot->alert_bucket % ALERT_BUCKETS] += deaths;
		count = deaths_in_window(slot);
	}
	if (count < threshold)
		slot->alarmed = false;
	if (count < threshold || slot->alarmed)
		return false;
	slot->alarmed = slot->alarm_pending = true;
	slot->alarm_count = count;
	return true;
}
