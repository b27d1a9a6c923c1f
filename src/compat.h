/*-------------------------------------------------------------------------
 *
 * compat.h
 *		Every difference between PostgreSQL 15 and 18, as small wrappers.
 *
 * No other file looks at PG_VERSION_NUM.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOBQ_COMPAT_H
#define JOBQ_COMPAT_H

#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "storage/condition_variable.h"
#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#else
#include "storage/backendid.h"
#endif
#include "utils/acl.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "jobq needs PostgreSQL 15 or later"
#endif

/* Before a declaration: the function does not return. */
#if PG_VERSION_NUM >= 180000
#define JOBQ_NORETURN pg_noreturn
#else
#define JOBQ_NORETURN __attribute__((noreturn))
#endif

static inline IndexScanDesc
index_beginscan_compat(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/*
 * Stops sleeping on a condition variable. A signal that this sleeper swallowed is handed on. From 16 on the server no longer does that,
 * and a sleep on another variable meanwhile may have swallowed one unseen, so that one more sleeper is woken in any case.
 */
static inline void
condition_variable_cancel_compat(ConditionVariable *cv)
{
#if PG_VERSION_NUM >= 160000
	(void) ConditionVariableCancelSleep();
	ConditionVariableSignal(cv);
#else
	(void) cv;
	ConditionVariableCancelSleep();
#endif
}

/* Enters a new row into every index of its table. */
static inline List *
exec_insert_index_tuples_compat(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL, false);
#else
	return ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL);
#endif
}

/* The same for a row inserted speculatively; *conflict: a unique index has its key already, or a row that may stay. */
static inline List *
exec_insert_index_tuples_unique_compat(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate, bool *conflict)
{
#if PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(rri, slot, estate, false, true, conflict, NIL, false);
#else
	return ExecInsertIndexTuples(rri, slot, estate, false, true, conflict, NIL);
#endif
}

/* Replaces a row; waits for whoever holds it. new_entries: the new version needs index entries. */
static inline TM_Result
table_tuple_update_compat(Relation rel, ItemPointer tid, TupleTableSlot *slot, CommandId cid, bool *new_entries)
{
	TM_FailureData failure;
	LockTupleMode mode;
	TM_Result result;
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes which;

	result = table_tuple_update(rel, tid, slot, cid, InvalidSnapshot, InvalidSnapshot, true, &failure, &mode, &which);
	*new_entries = which != TU_None;
#else
	result =
		table_tuple_update(rel, tid, slot, cid, InvalidSnapshot, InvalidSnapshot, true, &failure, &mode, new_entries);
#endif
	return result;
}

/* Writes a message record into the WAL, not bound to the transaction; returns its end. */
static inline XLogRecPtr
log_message_compat(const char *prefix, const char *message, size_t size)
{
#if PG_VERSION_NUM >= 170000
	return LogLogicalMessage(prefix, message, size, false, false);
#else
	return LogLogicalMessage(prefix, message, size, false);
#endif
}

/* Whether a role may execute a function. */
static inline AclResult
function_aclcheck_compat(Oid function, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE);
#else
	return pg_proc_aclcheck(function, role, ACL_EXECUTE);
#endif
}

/* Whether a role may name what is in a schema. */
static inline AclResult
schema_aclcheck_compat(Oid schema, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(NamespaceRelationId, schema, role, ACL_USAGE);
#else
	return pg_namespace_aclcheck(schema, role, ACL_USAGE);
#endif
}

/* This backend's place in an array of MaxBackends. */
static inline int
backend_index_compat(void)
{
#if PG_VERSION_NUM >= 170000
	return MyProcNumber;
#else
	return MyBackendId - 1;
#endif
}

/* Wait event shown while a session waits for jobs. */
static inline uint32
wait_event_compat(void)
{
#if PG_VERSION_NUM >= 170000
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew("JobqWait");
	return event;
#else
	return PG_WAIT_EXTENSION;
#endif
}

#endif /* JOBQ_COMPAT_H */
