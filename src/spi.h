/* spi.h: cold statements in SQL, run with the extension owner's rights and a fixed search path */
#ifndef JOBQ_SPI_H
#define JOBQ_SPI_H

#include "jobq.h"

#include "executor/spi.h"

#define SPI_MAX_ARGS 8

/* A statement whose plan is kept for the session's life; to be declared static. */
typedef struct SpiStatement
{
	const char *sql;
	int result; /* SPI_OK_... that it must come back with */
	int nargs;
	Oid argtypes[SPI_MAX_ARGS];
	SPIPlanPtr plan; /* NULL until first use */
} SpiStatement;

typedef struct SpiScope
{
	Oid userid;
	int sec_context;
	int nestlevel;
	MemoryContext caller; /* results that must outlive the scope are copied here */
} SpiScope;

extern Oid spi_owner(void);
extern void spi_begin(SpiScope *scope);
extern void spi_end(SpiScope *scope);
extern uint64 spi_run(SpiStatement *statement, Datum *values, const char *nulls);
extern uint64 spi_run_once(const char *sql, int result, int nargs, Oid *argtypes, Datum *values, const char *nulls);
extern Datum spi_value(uint64 row, int column, bool *isnull);

#endif
