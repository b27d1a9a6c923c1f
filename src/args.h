/* args.h: checks of arguments that several verbs share */
#ifndef JOBQ_ARGS_H
#define JOBQ_ARGS_H

#include "jobq.h"

#include "datatype/timestamp.h"
#include "utils/jsonb.h"

#include "meta.h"

extern text *check_text(text *value, const char *what, int max_bytes);
extern text *arg_text(FunctionCallInfo fcinfo, int argno, const char *what, int max_bytes);
extern int64 arg_int64(FunctionCallInfo fcinfo, int argno, const char *what);
extern int32 arg_int32_range(FunctionCallInfo fcinfo, int argno, const char *what, int32 otherwise, int32 min,
							 int32 max);
extern int64 arg_interval(FunctionCallInfo fcinfo, int argno, const char *what, int64 otherwise, int64 min, int64 max);
extern int64 *arg_bigints(FunctionCallInfo fcinfo, int argno, const char *what, int64 null_value, int *n);
extern int64 *arg_id_set(FunctionCallInfo fcinfo, int argno, const char *what, int *n);
extern bool jsonb_too_deep(const Jsonb *json);
extern Oid function_by_signature(const char *signature, bool missing_ok);
extern void check_json_size(QueueInfo *queue, const Jsonb *json, const char *what);

/* Deepest nesting of a payload: consumers' parsers give up at about this depth. */
#define JOBQ_MAX_JSON_DEPTH 1000

#endif
