/*-------------------------------------------------------------------------
 *
 * ident.c
 *		Numbers that never come twice.
 *
 * Blocks of numbers are drawn from sequences, which are not undone by a
 * rollback, and handed out from shared memory in order. A block lower than
 * the current one (two sessions drew at once) is thrown away, so numbers
 * only ever grow.
 *
 * Token = (generation << 40) + block * 16384 + n. The block number never
 * restarts, so the low part runs over into the generation instead of ending.
 * generation = token_base + timeline: it rises by itself at every promotion,
 * by more than a lagging standby can lack. token_base is raised when the
 * system identifier changed (pg_upgrade, where the timeline restarts) and by
 * adopt(). A block's WAL is flushed before its first token leaves, whatever
 * synchronous_commit says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"

#include "compat.h"
#include "ident.h"
#include "meta.h"

#define ID_BLOCK 256
#define TOKEN_BLOCK 16384
#define GENERATION_BITS 40

/* Sub-object under which the lock of draw_block is known. */
#define LOCK_BLOCKS 1

/* generation of the tokens this server gives out; 0: not known yet */
static int64 generation = 0;
static Oid generation_ext = InvalidOid;

/* The owner of the extension's relations. */
static Oid
extension_owner(void)
{
	Relation rel = table_open(meta_table_oid(TABLE_QUEUE), AccessShareLock);
	Oid owner = rel->rd_rel->relowner;

	table_close(rel, AccessShareLock);
	return owner;
}

/* Last value of a sequence, 0 when it was never set. Runs with the owner's rights: callers need only EXECUTE on a verb. */
static int64
sequence_value(JobqSequence sequence)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum result;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = ObjectIdGetDatum(meta_sequence_oid(sequence));
	fcinfo->args[0].isnull = false;
	result = pg_sequence_last_value(fcinfo);
	return fcinfo->isnull ? 0 : DatumGetInt64(result);
}

/* Sets a sequence, whatever becomes of the transaction. */
static void
sequence_set(JobqSequence sequence, int64 value)
{
	DirectFunctionCall3(setval3_oid, ObjectIdGetDatum(meta_sequence_oid(sequence)), Int64GetDatum(value),
						BoolGetDatum(true));
}

/*
 * Draws a block from a sequence: the number after its last value, and after `at_least`. Not by nextval(), which would change the
 * caller's lastval(); a short lock makes reading and setting one step. Runs with the owner's rights.
 */
static int64
draw_block(JobqSequence sequence, int64 at_least)
{
	Oid oid = meta_sequence_oid(sequence);
	int64 block;
	Oid user;
	int context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(extension_owner(), context | SECURITY_LOCAL_USERID_CHANGE);
	LockDatabaseObject(RelationRelationId, oid, LOCK_BLOCKS, ExclusiveLock);
	block = Max(sequence_value(sequence), at_least) + 1;
	sequence_set(sequence, block);
	UnlockDatabaseObject(RelationRelationId, oid, LOCK_BLOCKS, ExclusiveLock);
	SetUserIdAndSecContext(user, context);
	return block;
}

/* Makes everything written so far durable: a marker record that ends it is flushed. */
static void
flush_wal(void)
{
	XLogFlush(log_message_compat("jobq", "", 1));
}

/*
 * Takes up to n numbers that follow each other; returns how many (0: the block is used up). *first receives the first.
 */
static int
block_take(DbSlot *db, NumberBlock *block, int n, int64 *first)
{
	int got;

	SpinLockAcquire(&db->mutex);
	got = (int) Min((int64) n, block->limit - block->next);
	*first = block->next;
	block->next += got;
	SpinLockRelease(&db->mutex);
	return got;
}

/* Puts a block in place unless the current one is higher. */
static void
block_install(DbSlot *db, NumberBlock *block, int64 start, int64 size)
{
	SpinLockAcquire(&db->mutex);
	if (start >= block->limit)
	{
		block->next = start;
		block->limit = start + size;
	}
	SpinLockRelease(&db->mutex);
}

/* n job ids or ready sequence numbers, growing. */
void
ident_job_ids(DbSlot *db, int64 *ids, int n)
{
	int done = 0;

	while (done < n)
	{
		int64 first;
		int got = block_take(db, &db->ids, n - done, &first);

		CHECK_FOR_INTERRUPTS();
		if (got == 0)
			block_install(db, &db->ids, draw_block(SEQ_JOB_BLOCK, (first - 1) / ID_BLOCK) * ID_BLOCK, ID_BLOCK);
		for (int i = 0; i < got; i++)
			ids[done++] = first + i;
	}
}

/* Whether a number was given out as a job's id, or might have been: other tickets draw from the same numbers. */
bool
ident_job_was_drawn(DbSlot *db, int64 id)
{
	bool in_hand;
	int64 block;
	Oid user;
	int context;

	SpinLockAcquire(&db->mutex);
	in_hand = id >= db->ids.next && id < db->ids.limit;
	SpinLockRelease(&db->mutex);
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(extension_owner(), context | SECURITY_LOCAL_USERID_CHANGE);
	block = sequence_value(SEQ_JOB_BLOCK);
	SetUserIdAndSecContext(user, context);
	return id > 0 && !in_hand && id / ID_BLOCK <= block;
}

/*
 * The current generation. What changed is set in the order base, generation, system: a crash in between raises the base once more,
 * never less. Two sessions at once set the same values.
 */
static int64
current_generation_as_owner(void)
{
	int64 base = sequence_value(SEQ_TOKEN_BASE);
	int64 last = sequence_value(SEQ_TOKEN_GENERATION);
	int64 timeline = (int64) GetWALInsertionTimeLine();
	int64 system = (int64) GetSystemIdentifier();
	int64 known = sequence_value(SEQ_TOKEN_SYSTEM);

	if (known != system)
	{
		if (last > 0 && base + timeline <= last)
		{
			base = last + 1 - timeline;
			if (base < 0)
				base = 0;
			sequence_set(SEQ_TOKEN_BASE, base);
		}
	}
	if (base + timeline > last)
		sequence_set(SEQ_TOKEN_GENERATION, base + timeline);
	if (known != system)
		sequence_set(SEQ_TOKEN_SYSTEM, system);
	return base + timeline;
}

static int64
current_generation(void)
{
	Oid user;
	int context;
	int64 result;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(extension_owner(), context | SECURITY_LOCAL_USERID_CHANGE);
	result = current_generation_as_owner();
	SetUserIdAndSecContext(user, context);
	return result;
}

/* A new token. Called only by who holds the ticket: later takers get greater tokens. */
int64
ident_token(DbSlot *db)
{
	int64 token;

	while (block_take(db, &db->tokens, 1, &token) == 0)
	{
		int64 block;

		if (generation == 0 || generation_ext != db->ext_oid)
		{
			generation = current_generation();
			generation_ext = db->ext_oid;
		}
		CHECK_FOR_INTERRUPTS();
		/* the low bits of the block in hand, should the sequence have been set back */
		block =
			draw_block(SEQ_TOKEN_BLOCK, token > 0 ? ((token - (generation << GENERATION_BITS)) / TOKEN_BLOCK) - 1 : 0);
		flush_wal();
		block_install(db, &db->tokens, (generation << GENERATION_BITS) + block * TOKEN_BLOCK, TOKEN_BLOCK);
	}
	return token;
}

/*
 * Starts a new generation, for a copy that begins a life of its own. Durable at once; what is left of the blocks in hand is thrown away.
 * seen_id, seen_token: the highest in the tables. The sequences of a copy by logical replication lag behind them.
 */
void
ident_raise_generation(int64 seen_id, int64 seen_token)
{
	DbSlot *db = meta_db();
	int64 current = current_generation();
	int64 next = Max(current, seen_token >> GENERATION_BITS) + 1;

	sequence_set(SEQ_TOKEN_BASE, sequence_value(SEQ_TOKEN_BASE) + next - current);
	sequence_set(SEQ_TOKEN_GENERATION, next);
	if (seen_id / ID_BLOCK > sequence_value(SEQ_JOB_BLOCK))
		sequence_set(SEQ_JOB_BLOCK, seen_id / ID_BLOCK);
	flush_wal();
	generation = 0;
	SpinLockAcquire(&db->mutex);
	db->ids.next = db->ids.limit = 0;
	db->tokens.next = db->tokens.limit = 0;
	SpinLockRelease(&db->mutex);
}
