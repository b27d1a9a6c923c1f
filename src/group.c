/*-------------------------------------------------------------------------
 *
 * group.c
 *		What holds for a group by its key, whether it has jobs or not: its
 *		stripe, its settings, its rate.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "group.h"
#include "stripe.h"
#include "timeutil.h"

/* The stripe of a group: the same before its row exists, while it lives and when it goes. */
int
group_stripe(int32 queue_id, const text *key)
{
	uint64 hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), queue_id);

	return (int) (hash % STRIPES);
}

/* Whether groups of the queue can have settings or a rate that a taker must look at. */
bool
group_is_special(QueueInfo *queue)
{
	return queue->group_settings || queue->group_rate_limit > 0;
}

/* The value of a column of group_setting, or the given one where that is null */
static int64
setting_int(TupleTableSlot *slot, int attnum, int64 otherwise)
{
	bool isnull;
	Datum datum = slot_datum(slot, attnum, &isnull);

	return isnull ? otherwise : DatumGetInt32(datum);
}

static int64
setting_interval(TupleTableSlot *slot, int attnum, int64 otherwise)
{
	bool isnull;
	Datum datum = slot_datum(slot, attnum, &isnull);

	return isnull ? otherwise : interval_usecs(DatumGetIntervalP(datum), "interval", PG_INT64_MIN, PG_INT64_MAX);
}

/* The settings of a group, as last committed or changed by this transaction; what it leaves open is the queue's. */
void
group_settings(GroupTables *t, QueueInfo *queue, const text *key, GroupSettings *settings)
{
	int64 limit = queue->group_rate_limit;
	int64 interval = queue->group_rate_interval;
	TupleTableSlot *slot;

	settings->paused = false;
	settings->weight = 1;
	settings->lease = queue->group_lease > 0 ? queue->group_lease : queue->lease;
	if (queue->group_settings)
	{
		Snapshot snapshot = store_snapshot();

		if (store_group_setting(store_open_once(&t->setting, TABLE_GROUP_SETTING), snapshot, queue->id, key, &slot))
		{
			settings->paused = DatumGetBool(slot_value(slot, Anum_group_setting_paused));
			settings->weight = (int) setting_int(slot, Anum_group_setting_weight, 1);
			settings->lease = setting_interval(slot, Anum_group_setting_lease, settings->lease);
			limit = setting_int(slot, Anum_group_setting_rate_limit, limit);
			interval = setting_interval(slot, Anum_group_setting_rate_interval, interval);
			ExecDropSingleTupleTableSlot(slot);
		}
		store_snapshot_done(snapshot);
	}
	settings->gap = limit > 0 ? Max(interval / limit, 1) : 0;
}

/* From when on a group with a rate may start its next job; DT_NOBEGIN: at any time. */
TimestampTz
group_rate_free(GroupTables *t, QueueInfo *queue, const text *key)
{
	Snapshot snapshot = store_snapshot();
	TimestampTz next_at;
	ItemPointerData tid;

	if (!store_group_rate(store_open_once(&t->rate, TABLE_GROUP_RATE), snapshot, queue->id, key, &next_at, &tid))
		next_at = DT_NOBEGIN;
	store_snapshot_done(snapshot);
	return next_at;
}

/*
 * Lets a group with a rate start its next job at the given time at the latest; returns what was noted before, DT_NOBEGIN: nothing. The
 * caller holds the group's stripe. A start in progress is not disturbed: of two rows the later time counts.
 */
TimestampTz
group_rate_shorten(GroupTables *t, QueueInfo *queue, const text *key, TimestampTz latest)
{
	StoreTable *rate = store_open_once(&t->rate, TABLE_GROUP_RATE);
	Snapshot snapshot = store_snapshot();
	TimestampTz before;
	ItemPointerData tid;
	bool known = store_group_rate(rate, snapshot, queue->id, key, &before, &tid);

	store_snapshot_done(snapshot);
	if (!known)
		return DT_NOBEGIN;
	if (before > latest && store_delete(rate, &tid, false) == TM_Ok)
	{
		store_group_rate_insert(rate, queue->id, key, latest);
		CommandCounterIncrement(); /* for who asks next */
	}
	return before;
}

/* Notes that a group starts a job, and from when on the next. The caller owns the group's ticket. */
void
group_rate_use(GroupTables *t, QueueInfo *queue, const text *key, TimestampTz next_at)
{
	StoreTable *rate = store_open_once(&t->rate, TABLE_GROUP_RATE);
	Snapshot snapshot = store_snapshot();
	TimestampTz before;
	ItemPointerData tid;
	bool known = store_group_rate(rate, snapshot, queue->id, key, &before, &tid);

	store_snapshot_done(snapshot);
	/* a row that cannot be deleted is being trimmed, or locked by hand: the later time counts */
	if (known)
		(void) store_delete(rate, &tid, false);
	store_group_rate_insert(rate, queue->id, key, next_at);
}

void
group_close(GroupTables *t)
{
	store_close(t->setting);
	store_close(t->rate);
	t->setting = t->rate = NULL;
}
