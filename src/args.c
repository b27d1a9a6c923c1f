/*-------------------------------------------------------------------------
 *
 * args.c
 *		Checks of arguments that several verbs share.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/regproc.h"
#include "utils/timestamp.h"

#include "args.h"
#include "timeutil.h"

/* A text that must have 1..max_bytes bytes. Error 22023 otherwise. */
text *
check_text(text *value, const char *what, int max_bytes)
{
	int bytes = VARSIZE_ANY_EXHDR(value);

	if (bytes == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", what)));
	if (bytes > max_bytes)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is too long", what),
						errdetail("It has %d bytes; at most %d are allowed.", bytes, max_bytes)));
	return value;
}

/* A text of 1..max_bytes bytes, or NULL. Error 22023 otherwise. */
text *
arg_text(FunctionCallInfo fcinfo, int argno, const char *what, int max_bytes)
{
	return PG_ARGISNULL(argno) ? NULL : check_text(PG_GETARG_TEXT_PP(argno), what, max_bytes);
}

/* A bigint. Error 22004 on NULL. */
int64
arg_int64(FunctionCallInfo fcinfo, int argno, const char *what)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", what)));
	return PG_GETARG_INT64(argno);
}

/* An int within bounds; NULL means the other value. Error 22023. */
int32
arg_int32_range(FunctionCallInfo fcinfo, int argno, const char *what, int32 otherwise, int32 min, int32 max)
{
	int32 value;

	if (PG_ARGISNULL(argno))
		return otherwise;
	value = PG_GETARG_INT32(argno);
	if (value < min || value > max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be between %d and %d", what, min, max)));
	return value;
}

/* An interval in microseconds within bounds; NULL means the other value. Error 22023. */
int64
arg_interval(FunctionCallInfo fcinfo, int argno, const char *what, int64 otherwise, int64 min, int64 max)
{
	if (PG_ARGISNULL(argno))
		return otherwise;
	return interval_usecs(PG_GETARG_INTERVAL_P(argno), what, min, max);
}

/* The elements of a bigint[]; a NULL array is empty, a NULL element is null_value. Error 22023 when it is too long or has dimensions. */
int64 *
arg_bigints(FunctionCallInfo fcinfo, int argno, const char *what, int64 null_value, int *n)
{
	ArrayType *array;
	Datum *elements;
	bool *nulls;
	int64 *result;

	*n = 0;
	if (PG_ARGISNULL(argno))
		return NULL;
	array = PG_GETARG_ARRAYTYPE_P(argno);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be a one-dimensional array", what)));
	deconstruct_array(array, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &elements, &nulls, n);
	if (*n > JOBQ_MAX_MANY)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s has more than %d elements", what, JOBQ_MAX_MANY)));
	result = palloc(Max(*n, 1) * sizeof(int64));
	for (int i = 0; i < *n; i++)
		result[i] = nulls[i] ? null_value : DatumGetInt64(elements[i]);
	pfree(elements);
	pfree(nulls);
	return result;
}

static int
compare_ids(const void *a, const void *b)
{
	int64 x = *(const int64 *) a;
	int64 y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/* The ids in a bigint[], ascending and each once; a NULL array is empty, and NULL elements are left out. Error 22023. */
int64 *
arg_id_set(FunctionCallInfo fcinfo, int argno, const char *what, int *n)
{
	int given;
	int64 *ids = arg_bigints(fcinfo, argno, what, PG_INT64_MIN, &given);

	*n = 0;
	if (given > 1)
		qsort(ids, given, sizeof(int64), compare_ids);
	for (int i = 0; i < given; i++)
		if (ids[i] != PG_INT64_MIN && (*n == 0 || ids[i] != ids[*n - 1]))
			ids[(*n)++] = ids[i];
	return ids;
}

/* Whether a value nests deeper than JOBQ_MAX_JSON_DEPTH. A level takes 8 bytes at least, so small values need no look. */
bool
jsonb_too_deep(const Jsonb *json)
{
	JsonbIterator *it;
	JsonbValue v;
	JsonbIteratorToken token;
	int depth = 0;

	if (VARSIZE(json) < JOBQ_MAX_JSON_DEPTH * 8)
		return false;
	it = JsonbIteratorInit(unconstify(JsonbContainer *, &json->root));
	while ((token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		if (token == WJB_BEGIN_ARRAY || token == WJB_BEGIN_OBJECT)
		{
			if (++depth > JOBQ_MAX_JSON_DEPTH)
				return true;
		}
		else if (token == WJB_END_ARRAY || token == WJB_END_OBJECT)
			depth--;
	}
	return false;
}

/* Error JQ004 when a value is larger than the queue allows. */
void
check_json_size(QueueInfo *queue, const Jsonb *json, const char *what)
{
	if (json && VARSIZE(json) - VARHDRSZ > queue->max_payload_bytes)
		ereport(
			ERROR,
			(errcode(ERRCODE_JOBQ_PAYLOAD_TOO_LARGE), errmsg("%s is too large for queue \"%s\"", what, queue->name),
			 errdetail("It takes %zu bytes; at most %d are allowed.", (Size) VARSIZE(json) - VARHDRSZ,
					   queue->max_payload_bytes),
			 errhint(
				 "Store the data elsewhere and enqueue a reference to it, or raise the queue's max_payload_bytes.")));
}

/* The function of a stored signature; InvalidOid when it is gone and missing_ok. */
Oid
function_by_signature(const char *signature, bool missing_ok)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum oid;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = CStringGetTextDatum(signature);
	fcinfo->args[0].isnull = false;
	oid = to_regprocedure(fcinfo);
	if (fcinfo->isnull && !missing_ok)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("function %s does not exist", signature)));
	return fcinfo->isnull ? InvalidOid : DatumGetObjectId(oid);
}
