/*-------------------------------------------------------------------------
 *
 * jobq.c
 *		Wiring: what happens when the library is loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "due.h"
#include "event.h"
#include "guc.h"
#include "jobq.h"
#include "launcher.h"
#include "letgo.h"
#include "line.h"
#include "maintain.h"
#include "manager.h"
#include "meta.h"
#include "shmem.h"
#include "xact.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(jobq_register_database);
PG_FUNCTION_INFO_V1(jobq_settings_changed);

void _PG_init(void);

/*
 * Never raises an error: pg_upgrade loads the library without preloading it. Then every verb says what is missing (meta_begin).
 */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	guc_init();
	shmem_init();
	meta_init();
	event_init(); /* before xact.c: callbacks run in the reverse order */
	xact_init();
	line_init();
	letgo_init(); /* comes before all that */
	due_init();
	drain_init();
	schedule_init();
	manager_init();
	if (!IsBinaryUpgrade)
		launcher_register();
}

/* Last statement of the extension script: this database has the extension from its commit on. */
Datum
jobq_register_database(PG_FUNCTION_ARGS)
{
	(void) meta_begin("register_database", VERB_WRITES);
	xact_register_database(meta_extension_oid(false));
	PG_RETURN_VOID();
}

/* Trigger of jobq.queue, jobq.origin and jobq.identity: every session renews what it knows of them. */
Datum
jobq_settings_changed(PG_FUNCTION_ARGS)
{
	if (meta_extension_oid(true) != InvalidOid)
		meta_settings_changed();
	PG_RETURN_POINTER(NULL);
}
