/*-------------------------------------------------------------------------
 *
 * spi.c
 *		Statements in SQL for what is done seldom.
 *
 * Between spi_begin and spi_end the session acts as the owner of our tables,
 * so that a role needs nothing but EXECUTE on a verb, and finds functions,
 * operators and types in pg_catalog only. An error inside needs no clean-up
 * here: the end of the (sub)transaction undoes the user, the setting and the
 * connection.
 *
 * Every statement sees all that was committed before it began, whatever the
 * isolation level: what is decided here is guarded by locks, not by the age
 * of the transaction's snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "meta.h"
#include "spi.h"

/* Role that owns our tables: the extension's owner. */
Oid
spi_owner(void)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(meta_table_oid(TABLE_QUEUE)));
	Oid owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", meta_table_oid(TABLE_QUEUE));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* Starts a stretch of SQL statements; needs meta_begin before. Scopes do not nest. */
void
spi_begin(SpiScope *scope)
{
	scope->caller = CurrentMemoryContext;
	GetUserIdAndSecContext(&scope->userid, &scope->sec_context);
	SetUserIdAndSecContext(spi_owner(), scope->sec_context | SECURITY_LOCAL_USERID_CHANGE);
	scope->nestlevel = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

/* Ends it: memory of the statements is freed, user and search path are as before. */
void
spi_end(SpiScope *scope)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	AtEOXact_GUC(true, scope->nestlevel);
	SetUserIdAndSecContext(scope->userid, scope->sec_context);
	MemoryContextSwitchTo(scope->caller);
}

/* Runs a plan with a new snapshot; returns the number of rows processed. */
static uint64
run_plan(SPIPlanPtr plan, const char *sql, int result, Datum *values, const char *nulls)
{
	Snapshot snapshot;
	int code;

	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	code = SPI_execute_snapshot(plan, values, nulls, snapshot, InvalidSnapshot, false, true, 0);
	UnregisterSnapshot(snapshot);
	if (code != result)
		elog(ERROR, "statement ended with %s instead of %s: %s", SPI_result_code_string(code),
			 SPI_result_code_string(result), sql);
	return SPI_processed;
}

/*
 * Runs a statement inside a scope. nulls: as for SPI, one character per value, or NULL. Returns the number of rows processed; rows
 * that it returns are read with spi_value until the next statement.
 */
uint64
spi_run(SpiStatement *statement, Datum *values, const char *nulls)
{
	if (statement->plan == NULL)
	{
		SPIPlanPtr plan = SPI_prepare(statement->sql, statement->nargs, statement->argtypes);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare (%s): %s", SPI_result_code_string(SPI_result), statement->sql);
		statement->plan = plan;
	}
	return run_plan(statement->plan, statement->sql, statement->result, values, nulls);
}

/* The same for a statement whose text is made up; its plan goes with the scope. */
uint64
spi_run_once(const char *sql, int result, int nargs, Oid *argtypes, Datum *values, const char *nulls)
{
	SPIPlanPtr plan = SPI_prepare(sql, nargs, argtypes);
	uint64 processed;

	if (plan == NULL)
		elog(ERROR, "could not prepare (%s): %s", SPI_result_code_string(SPI_result), sql);
	processed = run_plan(plan, sql, result, values, nulls);
	SPI_freeplan(plan);
	return processed;
}

/* A column (from 1) of a row (from 0) of the last statement. Lives until spi_end. */
Datum
spi_value(uint64 row, int column, bool *isnull)
{
	if (row >= SPI_processed || SPI_tuptable == NULL)
		elog(ERROR, "statement returned no row " UINT64_FORMAT, row);
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull);
}
