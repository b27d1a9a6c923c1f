/* settings.h: the settings of a queue: their list, defaults and checks */
#ifndef JOBQ_SETTINGS_H
#define JOBQ_SETTINGS_H

#include "jobq.h"

#include "utils/array.h"

/* In the order of the arguments of create_queue() and alter_queue(), after the name. */
typedef enum Setting
{
	SETTING_MAX_ATTEMPTS,
	SETTING_LEASE,
	SETTING_TIMEOUT,
	SETTING_BACKOFF,
	SETTING_BACKOFF_BASE,
	SETTING_BACKOFF_CAP,
	SETTING_BACKOFF_FUNCTION,
	SETTING_CONCURRENCY,
	SETTING_RATE_LIMIT,
	SETTING_RATE_INTERVAL,
	SETTING_RATE_BURST,
	SETTING_KEEP_COMPLETED,
	SETTING_KEEP_DEAD,
	SETTING_DEAD_LETTER_QUEUE,
	SETTING_MAX_PAYLOAD_BYTES,
	SETTING_NOTIFY,
	SETTING_ON_RETRY,
	SETTING_ON_DEAD,
	SETTING_GROUP_RATE_LIMIT,
	SETTING_GROUP_RATE_INTERVAL,
	SETTING_GROUP_LEASE,
	SETTING_ISOLATE_ABOVE,
	SETTING_EVENTS,
	SETTING_ALERT_DEAD,
	SETTING_ALERT_DEAD_INTERVAL,
	SETTING_LIMIT_NAME,
	SETTING_AGEING,
	NUM_SETTINGS
} Setting;

typedef struct SettingInfo
{
	const char *name;     /* of the argument and of the column of jobq.queue */
	Oid type;             /* of the column */
	bool nullable;        /* NULL is a value: none, or for ever */
	bool supported;       /* else only the default is accepted */
	const char *standard; /* default, as text; NULL: null */
} SettingInfo;

/* Values as in the columns of jobq.queue; dead_letter_queue is the queue's id. */
typedef struct QueueSettings
{
	Datum value[NUM_SETTINGS];
	bool isnull[NUM_SETTINGS];
} QueueSettings;

extern const SettingInfo setting_info[NUM_SETTINGS];

extern char *settings_check_name(const text *name, const char *what);
extern void settings_from_args(FunctionCallInfo fcinfo, QueueSettings *settings, text **dead_letter_queue);
extern void settings_reset(QueueSettings *settings, const QueueSettings *given, ArrayType *names);
extern void settings_check(const QueueSettings *settings);

#endif
