/* group.h: what holds for a group by its key: stripe, settings, rate */
#ifndef JOBQ_GROUP_H
#define JOBQ_GROUP_H

#include "jobq.h"

#include "datatype/timestamp.h"

#include "meta.h"
#include "store.h"

/* Tables that are opened on first use; closed by group_close. Start with zeroes. */
typedef struct GroupTables
{
	StoreTable *setting;
	StoreTable *rate;
} GroupTables;

typedef struct GroupSettings
{
	bool paused;
	int weight;  /* jobs per turn, for each that the consumer asks for */
	int64 lease; /* microseconds */
	int64 gap;   /* microseconds between two starts; 0: no limit */
} GroupSettings;

extern int group_stripe(int32 queue_id, const text *key);
extern void group_settings(GroupTables *t, QueueInfo *queue, const text *key, GroupSettings *settings);
extern bool group_is_special(QueueInfo *queue);
extern TimestampTz group_rate_free(GroupTables *t, QueueInfo *queue, const text *key);
extern TimestampTz group_rate_shorten(GroupTables *t, QueueInfo *queue, const text *key, TimestampTz latest);
extern void group_rate_use(GroupTables *t, QueueInfo *queue, const text *key, TimestampTz next_at);
extern void group_close(GroupTables *t);

static inline bool
same_key(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		   memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

#endif
