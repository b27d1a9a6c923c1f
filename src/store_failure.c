/*-------------------------------------------------------------------------
 *
 * store_failure.c
 *		Failed attempts of live jobs: rows of jobq.failure.
 *
 * They move into the history or dead row, as a jsonb array, when the job
 * ends. What failed before a job was redriven or routed on has attempt
 * numbers of 0 and less, since attempts count anew from there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "store.h"

/* Keeps the error of a failed attempt. error: already sanitised, or NULL. */
void
store_failure_insert(int64 job_id, int attempt, TimestampTz at, const text *error)
{
	StoreTable *failure = store_open(TABLE_FAILURE);
	TupleTableSlot *slot = store_slot(failure, 0);

	slot_set(slot, Anum_failure_job_id, Int64GetDatum(job_id));
	slot_set(slot, Anum_failure_at, TimestampTzGetDatum(at));
	slot_set(slot, Anum_failure_attempt, Int32GetDatum(attempt));
	if (error)
		slot_set(slot, Anum_failure_error, PointerGetDatum(error));
	store_insert(failure, &slot, 1);
	store_close(failure);
}

static void
push_key(JsonbParseState **state, const char *key)
{
	JsonbValue v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, key);
	v.val.string.len = strlen(key);
	(void) pushJsonbValue(state, WJB_KEY, &v);
}

static void
push_failure(JsonbParseState **state, TupleTableSlot *slot)
{
	JsonbValue v;
	char when[MAXDATELEN + 1];
	bool isnull;
	Datum error = slot_datum(slot, Anum_failure_error, &isnull);

	(void) pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	push_key(state, "attempt");
	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(DatumGetInt32(slot_value(slot, Anum_failure_attempt)));
	(void) pushJsonbValue(state, WJB_VALUE, &v);
	push_key(state, "at");
	JsonEncodeDateTime(when, slot_value(slot, Anum_failure_at), TIMESTAMPTZOID, NULL);
	v.type = jbvString;
	v.val.string.val = pstrdup(when);
	v.val.string.len = strlen(when);
	(void) pushJsonbValue(state, WJB_VALUE, &v);
	push_key(state, "error");
	if (isnull)
		v.type = jbvNull;
	else
	{
		v.val.string.val = text_to_cstring(DatumGetTextPP(error));
		v.val.string.len = strlen(v.val.string.val);
	}
	(void) pushJsonbValue(state, WJB_VALUE, &v);
	(void) pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Deletes a job's failed attempts and returns them as a jsonb array in order; null when there are none. */
Datum
store_failures_take(int64 job_id, bool *isnull)
{
	StoreTable *failure = store_open(TABLE_FAILURE);
	Snapshot snapshot = store_snapshot();
	JsonbParseState *state = NULL;
	ScanKeyData key;
	StoreScan scan;
	Datum result = (Datum) 0;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	store_scan_begin(&scan, failure, INDEX_FAILURE_JOB, snapshot, &key, 1);
	while (store_scan_next(&scan))
	{
		ItemPointerData tid = scan.slot->tts_tid;

		if (state == NULL)
			(void) pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
		push_failure(&state, scan.slot);
		(void) store_delete(failure, &tid, true);
	}
	store_scan_end(&scan);
	store_snapshot_done(snapshot);
	store_close(failure);
	*isnull = state == NULL;
	if (state)
		result = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL)));
	return result;
}

/*
 * The same without deleting them: what the snapshot shows of them. *last_error: of the last one, in the current memory context, NULL: it
 * has none; *last_attempt: its number.
 */
Datum
store_failures_read(Snapshot snapshot, int64 job_id, bool *isnull, text **last_error, int32 *last_attempt)
{
	StoreTable *failure = store_open_read(TABLE_FAILURE);
	JsonbParseState *state = NULL;
	ScanKeyData key;
	StoreScan scan;
	Datum error;
	bool no_error;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	store_scan_begin(&scan, failure, INDEX_FAILURE_JOB, snapshot, &key, 1);
	while (store_scan_next(&scan))
	{
		if (state == NULL)
			(void) pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
		push_failure(&state, scan.slot);
		*last_attempt = DatumGetInt32(slot_value(scan.slot, Anum_failure_attempt));
		error = slot_datum(scan.slot, Anum_failure_error, &no_error);
		*last_error = no_error ? NULL : DatumGetTextPCopy(error);
	}
	store_scan_end(&scan);
	store_close(failure);
	*isnull = state == NULL;
	if (state == NULL)
		return (Datum) 0;
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL)));
}

/* Deletes a job's failed attempts. */
void
store_failures_delete(int64 job_id)
{
	StoreTable *failure = store_open(TABLE_FAILURE);
	Snapshot snapshot = store_snapshot();
	ScanKeyData key;
	StoreScan scan;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
	store_scan_begin(&scan, failure, INDEX_FAILURE_JOB, snapshot, &key, 1);
	while (store_scan_next(&scan))
	{
		ItemPointerData tid = scan.slot->tts_tid;

		(void) store_delete(failure, &tid, true);
	}
	store_scan_end(&scan);
	store_snapshot_done(snapshot);
	store_close(failure);
}

/* Looks for a job in a table of those that ended. */
static bool
find_ended(JobqTable which, int64 job_id, Snapshot snapshot, int queue_column, int state_column, int32 *queue_id,
		   char *state)
{
	StoreTable *t = store_open_read(which);
	ScanKeyData key;
	StoreScan scan;
	bool found = false;

	/* most tables of the ring are empty */
	if (RelationGetNumberOfBlocks(t->rel) > 0)
	{
		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job_id));
		store_scan_begin(&scan, t, which == TABLE_DEAD ? INDEX_DEAD_PKEY : INDEX_HISTORY_ID, snapshot, &key, 1);
		found = store_scan_next(&scan);
		if (found)
		{
			*queue_id = DatumGetInt32(slot_value(scan.slot, queue_column));
			if (state_column > 0)
				*state = DatumGetChar(slot_value(scan.slot, state_column));
		}
		store_scan_end(&scan);
	}
	store_close(t);
	return found;
}

/* How a job ended: d dead, c completed, x cancelled, e expired; 0: it is live, or not known any more. *queue_id (or NULL): its queue. */
char
store_how_ended(int64 job_id, Snapshot snapshot, int32 *queue_id)
{
	char state = 'd';
	int32 queue = 0;
	bool found = find_ended(TABLE_DEAD, job_id, snapshot, Anum_dead_queue_id, 0, &queue, &state);

	for (JobqTable which = TABLE_HISTORY; which < NUM_TABLES && !found; which++)
		found = find_ended(which, job_id, snapshot, Anum_history_queue_id, Anum_history_state, &queue, &state);
	if (queue_id)
		*queue_id = queue;
	return found ? state : 0;
}

/* Moves a job's failed attempts to another job, their numbers lowered by shift. */
void
store_failures_move(int64 from, int64 to, int shift)
{
	StoreTable *failure = store_open(TABLE_FAILURE);
	Snapshot snapshot = store_snapshot();
	ScanKeyData key;
	StoreScan scan;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(from));
	store_scan_begin(&scan, failure, INDEX_FAILURE_JOB, snapshot, &key, 1);
	while (store_scan_next(&scan))
	{
		TupleTableSlot *copy = store_slot(failure, 0);
		ItemPointerData tid = scan.slot->tts_tid;
		bool isnull;
		Datum error = slot_datum(scan.slot, Anum_failure_error, &isnull);

		slot_set(copy, Anum_failure_job_id, Int64GetDatum(to));
		slot_set(copy, Anum_failure_at, slot_value(scan.slot, Anum_failure_at));
		slot_set(copy, Anum_failure_attempt,
				 Int32GetDatum(DatumGetInt32(slot_value(scan.slot, Anum_failure_attempt)) - shift));
		if (!isnull)
			slot_set(copy, Anum_failure_error, error);
		store_insert(failure, &copy, 1);
		(void) store_delete(failure, &tid, true);
	}
	store_scan_end(&scan);
	store_snapshot_done(snapshot);
	store_close(failure);
}
