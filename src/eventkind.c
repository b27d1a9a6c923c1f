/*-------------------------------------------------------------------------
 *
 * eventkind.c
 *		The kinds of events and their names.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "eventkind.h"

const char *const event_names[NUM_EVENTS] = {
	[EVENT_WAITING] = "waiting",
	[EVENT_ACTIVE] = "active",
	[EVENT_COMPLETED] = "completed",
	[EVENT_FAILED] = "failed",
	[EVENT_RETRYING] = "retrying",
	[EVENT_DEAD] = "dead",
	[EVENT_CANCELLED] = "cancelled",
	[EVENT_EXPIRED] = "expired",
	[EVENT_DELETED] = "deleted",
	[EVENT_GROUP_BLOCKED] = "group_blocked",
	[EVENT_GROUP_UNBLOCKED] = "group_unblocked",
	[EVENT_DEAD_ALARM] = "dead_alarm",
	[EVENT_LOST] = "lost",
};

/* The bits of the named kinds; all: every one. Errors: 22023 unknown name; 22004 a null. */
uint32
event_mask(ArrayType *names)
{
	Datum *elements;
	bool *nulls;
	int n;
	uint32 mask = 0;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		StringInfoData known;
		char *name;
		int kind = 0;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("events must not contain nulls")));
		name = TextDatumGetCString(elements[i]);
		if (strcmp(name, "all") == 0)
		{
			mask |= (1u << NUM_QUEUE_EVENTS) - 1;
			continue;
		}
		while (kind < NUM_QUEUE_EVENTS && strcmp(event_names[kind], name) != 0)
			kind++;
		if (kind < NUM_QUEUE_EVENTS)
		{
			mask |= 1u << kind;
			continue;
		}
		initStringInfo(&known);
		for (kind = 0; kind < NUM_QUEUE_EVENTS; kind++)
			appendStringInfo(&known, "%s, ", event_names[kind]);
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no event \"%s\"", name),
						errhint("The events are %sor all.", known.data)));
	}
	return mask;
}
