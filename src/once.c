/*-------------------------------------------------------------------------
 *
 * once.c
 *		once(), once_done(): what has been done already, by a key.
 *
 * The unique index decides who is first: who inserts the key, or takes over
 * a record whose time has passed. Others wait for the end of that one's
 * transaction, and then see its record or are first themselves.
 *
 * Records that are over are deleted by the scheduler (collect.c), which is
 * told at commit when that is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "args.h"
#include "event.h"
#include "meta.h"
#include "spi.h"
#include "timeutil.h"
#include "xact.h"

PG_FUNCTION_INFO_V1(jobq_once);
PG_FUNCTION_INFO_V1(jobq_once_done);

static text *
key_arg(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("key must not be null")));
	return arg_text(fcinfo, 0, "key", JOBQ_MAX_NAME);
}

/* What a look at the key's record finds. */
typedef enum Found
{
	FOUND_NONE,
	FOUND_LIVE,
	FOUND_OVER
} Found;

/* Reads the record. *result: as a Datum that lives until the scope ends. */
static Found
look(Datum *values, Datum *result, bool *isnull)
{
	static SpiStatement find = {.sql = "SELECT expires > $2, result FROM jobq.once_record WHERE key = $1",
								.result = SPI_OK_SELECT,
								.nargs = 2,
								.argtypes = {TEXTOID, TIMESTAMPTZOID}};

	if (spi_run(&find, values, NULL) == 0)
		return FOUND_NONE;
	if (!DatumGetBool(spi_value(0, 1, isnull)))
		return FOUND_OVER;
	*result = spi_value(0, 2, isnull);
	return FOUND_LIVE;
}

/* Makes the record, or takes over one that is over. False: another transaction did. Waits for one that is about to. */
static bool
make(Found found, Datum *values)
{
	static SpiStatement insert = {
		.sql = "INSERT INTO jobq.once_record (key, created, expires) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING",
		.result = SPI_OK_INSERT,
		.nargs = 3,
		.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};
	static SpiStatement renew = {
		.sql = "UPDATE jobq.once_record SET created = $2, expires = $3, done = NULL, result = NULL"
			   " WHERE key = $1 AND expires <= $2",
		.result = SPI_OK_UPDATE,
		.nargs = 3,
		.argtypes = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

	return spi_run(found == FOUND_NONE ? &insert : &renew, values, NULL) > 0;
}

/*
 * jobq.once(key, ttl): whether nobody has done what the key stands for. first: true for one committed transaction until ttl has passed;
 * else result is what once_done() stored, or NULL.
 *
 * Errors: 22004; 22023 bad key, or a ttl that is not positive and finite; 25006; 40001 above READ COMMITTED.
 */
Datum
jobq_once(PG_FUNCTION_ARGS)
{
	DbSlot *db = meta_begin("once", VERB_WRITES);
	text *key = key_arg(fcinfo);
	int64 ttl = arg_interval(fcinfo, 1, "ttl", USECS_PER_DAY, 1000, JOBQ_MAX_DELAY_USECS);
	ReturnSetInfo *rsinfo;
	SpiScope scope;
	Datum args[3];
	Datum row[2] = {BoolGetDatum(false)};
	bool nulls[2] = {false, true};
	Found found;

	InitMaterializedSRF(fcinfo, 0);
	rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	xact_verb_begin(db);
	spi_begin(&scope);
	args[0] = PointerGetDatum(key);
	for (;;)
	{
		TimestampTz now = clock_now();

		CHECK_FOR_INTERRUPTS();
		args[1] = TimestampTzGetDatum(now);
		args[2] = TimestampTzGetDatum(timestamp_add(now, ttl));
		found = look(args, &row[1], &nulls[1]);
		if (found == FOUND_LIVE)
			break;
		if (make(found, args))
		{
			row[0] = BoolGetDatum(true);
			nulls[1] = true;
			event_once_expires(db, DatumGetTimestampTz(args[2]));
			break;
		}
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row, nulls);
	spi_end(&scope);
	xact_verb_end(false);
	return (Datum) 0;
}

/*
 * jobq.once_done(key, result): stores what later callers of once() get.
 *
 * Errors: 22004; 22023 bad key; 42704 no record of the key, or its time has passed; 25006; 40001 above READ COMMITTED.
 */
Datum
jobq_once_done(PG_FUNCTION_ARGS)
{
	static SpiStatement store = {
		.sql = "UPDATE jobq.once_record SET done = $2, result = $3 WHERE key = $1 AND expires > $2",
		.result = SPI_OK_UPDATE,
		.nargs = 3,
		.argtypes = {TEXTOID, TIMESTAMPTZOID, JSONBOID}};
	DbSlot *db = meta_begin("once_done", VERB_WRITES);
	text *key = key_arg(fcinfo);
	SpiScope scope;
	Datum args[3] = {PointerGetDatum(key), TimestampTzGetDatum(clock_now())};
	const char *nulls = PG_ARGISNULL(1) ? "  n" : NULL;
	bool stored;

	if (!PG_ARGISNULL(1))
		args[2] = PG_GETARG_DATUM(1);
	xact_verb_begin(db);
	spi_begin(&scope);
	stored = spi_run(&store, args, nulls) > 0;
	spi_end(&scope);
	if (!stored)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("there is no once() record \"%s\"", text_to_cstring(key)),
				 errhint("Call jobq.once() with the key first; its record ends when its ttl has passed.")));
	xact_verb_end(false);
	PG_RETURN_VOID();
}
