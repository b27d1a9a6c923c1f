/*
 * What cppcheck has to know of the server's macros; its real headers would bring thousands of configurations with them.
 * Only read by test/ci/lint.sh.
 */
#define PG_VERSION_NUM 150000
#define PG_FUNCTION_INFO_V1(f) extern int f##_info
#define PG_MODULE_MAGIC extern int magic
#define PGDLLEXPORT
#define PGDLLIMPORT
#define pg_attribute_noreturn() __attribute__((noreturn))
#define pg_attribute_printf(a, b)
#define pg_noreturn __attribute__((noreturn))
#define FLEXIBLE_ARRAY_MEMBER

#define DEBUG5 10
#define DEBUG1 14
#define LOG 15
#define INFO 17
#define NOTICE 18
#define WARNING 19
#define ERROR 21
#define FATAL 22
#define PANIC 23
#define ereport(level, ...) do { if ((level) >= ERROR) exit(1); } while (0)
#define elog(level, ...) do { if ((level) >= ERROR) exit(1); } while (0)
#define Assert(x) ((void) (x))
#define StaticAssertDecl(x, y) extern int static_assert_decl

#define PG_TRY() do {
#define PG_CATCH() } while (0); do {
#define PG_FINALLY() } while (0); do {
#define PG_END_TRY() } while (0)
#define foreach(cell, list) for (ListCell *cell = next_cell(list); cell; cell = next_cell(list))

#define INT64CONST(x) (x##L)
#define UINT64CONST(x) (x##UL)
