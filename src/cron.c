/*-------------------------------------------------------------------------
 *
 * cron.c
 *		When a schedule is due: expressions are parsed to sets of minutes,
 *		hours and days.
 *
 * Every error is 22023 and names the field and the value. An expression that
 * no day can ever match is refused too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "cron.h"

#define LONGEST_EVERY (366 * SECS_PER_DAY)

typedef struct CronField
{
	const char *name;
	int min;
	int max; /* largest number that may be written */
	const char *const *names;
	int first_name; /* value of names[0] */
	const char *hint;
} CronField;

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
										  "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

enum
{
	FIELD_MINUTE,
	FIELD_HOUR,
	FIELD_DAY,
	FIELD_MONTH,
	FIELD_WEEKDAY,
	NUM_FIELDS
};

static const CronField fields[NUM_FIELDS] = {
	[FIELD_MINUTE] = {"minute", 0, 59, NULL, 0,
					  "Minutes are 0 to 59: *, 5, 0-30, */15, 10-50/20, or a list of these with commas."},
	[FIELD_HOUR] = {"hour", 0, 23, NULL, 0,
					"Hours are 0 to 23: *, 5, 9-17, */6, 8-20/4, or a list of these with commas."},
	[FIELD_DAY] = {"day of month", 1, 31, NULL, 0,
				   "Days are 1 to 31, L is the last one: *, 5, 1-7, */2, L, or a list of these with commas."},
	[FIELD_MONTH] = {"month", 1, 12, month_names, 1,
					 "Months are 1 to 12 or jan to dec: *, 5, apr-sep, */3, or a list of these with commas."},
	[FIELD_WEEKDAY] = {"day of week", 0, 7, weekday_names, 0,
					   "Days are 0 to 7 (0 and 7 are Sunday) or sun to sat, 5L is the last Friday of the month: "
					   "*, mon-fri, 5L, or a list of these with commas."},
};

/* A field's value while it is parsed. */
typedef struct FieldSet
{
	uint64 set;
	uint64 last; /* with an L behind it */
	bool last_day;
	bool star; /* begins with * */
} FieldSet;

JOBQ_NORETURN static void
bad_field(const char *whole, int field, const char *value, const char *why)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid %s \"%s\" in cron expression \"%s\"", fields[field].name, value, whole),
					why ? errdetail("%s", why) : 0, errhint("%s", fields[field].hint)));
}

JOBQ_NORETURN static void
bad_expression(const char *whole, const char *detail, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid cron expression \"%s\"", whole),
					errdetail("%s", detail), errhint("%s", hint)));
}

/* Whether what follows a day of the week is the L of "the last one of the month". */
static bool
is_last_mark(const CronField *f, const char *p)
{
	return f == &fields[FIELD_WEEKDAY] && toupper((unsigned char) p[0]) == 'L' && p[1] == '\0';
}

/* Reads a number or a name at *p. False: there is none. A number of many digits is merely too large. */
static bool
read_value(const char **p, const CronField *f, int *value)
{
	if (isdigit((unsigned char) **p))
	{
		for (*value = 0; isdigit((unsigned char) **p); (*p)++)
			*value = Min(*value * 10 + (**p - '0'), 100000);
		return true;
	}
	for (int i = 0; f->names && f->names[i]; i++)
	{
		const char *rest = *p + 3;

		if (pg_strncasecmp(*p, f->names[i], 3) != 0)
			continue;
		if (isalpha((unsigned char) rest[0]) && !is_last_mark(f, rest))
			return false;
		*p = rest;
		*value = f->first_name + i;
		return true;
	}
	return false;
}

/* One element of a field's list. item: as written. */
static void
parse_item(const char *whole, int field, const char *item, FieldSet *result)
{
	const CronField *f = &fields[field];
	const char *p = item;
	int lo = f->min;
	int hi = field == FIELD_WEEKDAY ? 6 : f->max;
	int all = hi - lo + 1;
	int step = 1;

	if (field == FIELD_DAY && pg_strcasecmp(item, "L") == 0)
	{
		result->last_day = true;
		return;
	}
	if (*p == '*')
		p++;
	else
	{
		if (!read_value(&p, f, &lo))
			bad_field(whole, field, item, NULL);
		if (lo < f->min || lo > f->max)
			bad_field(whole, field, item, psprintf("It is out of range: %d to %d.", f->min, f->max));
		if (is_last_mark(f, p))
		{
			result->last |= UINT64CONST(1) << (lo % 7);
			return;
		}
		if (*p == '-')
		{
			p++;
			if (!read_value(&p, f, &hi))
				bad_field(whole, field, item, NULL);
			if (hi < f->min || hi > f->max)
				bad_field(whole, field, item, psprintf("It is out of range: %d to %d.", f->min, f->max));
			if (field == FIELD_WEEKDAY && hi == 0)
				hi = 7; /* sat-sun */
			if (lo > hi)
				bad_field(whole, field, item, "The range ends before it begins; write it as two, with a comma.");
		}
		else if (*p != '/')
			hi = lo; /* 5/15 goes on to the end */
		else if (field == FIELD_WEEKDAY && lo == 7)
			hi = 7;
	}
	if (*p == '/')
	{
		p++;
		if (!isdigit((unsigned char) *p) || !read_value(&p, f, &step))
			bad_field(whole, field, item, "A step is a number.");
		if (step < 1 || step > all)
			bad_field(whole, field, item, psprintf("The step must be 1 to %d.", all));
	}
	if (*p != '\0')
		bad_field(whole, field, item, NULL);
	for (int n = lo; n <= hi; n += step)
		result->set |= UINT64CONST(1) << (field == FIELD_WEEKDAY ? n % 7 : n);
}

/* One field. value is changed. */
static void
parse_field(const char *whole, int field, char *value, FieldSet *result)
{
	memset(result, 0, sizeof(*result));
	result->star = value[0] == '*';
	while (value)
	{
		char *comma = strchr(value, ',');

		if (comma)
			*comma = '\0';
		if (*value == '\0')
			bad_field(whole, field, "", "An element of the list is missing.");
		parse_item(whole, field, value, result);
		value = comma ? comma + 1 : NULL;
	}
}

/* Refuses days that never come, as the 31st of February. */
static void
check_possible(const char *whole, const CronExpr *e)
{
	/* a day of the week comes in any month */
	if (e->last_day || (!e->any_weekday && !e->any_day))
		return;
	for (int month = 1; month <= 12; month++)
		if ((e->months & (1u << month)) && (e->days & ((UINT64CONST(1) << (day_tab[1][month - 1] + 1)) - 1)))
			return;
	bad_expression(whole, "No day matches both its day of month and its month.",
				   "Choose a day that the month has; L is its last one.");
}

static void
parse_fields(const char *whole, char **words, CronExpr *e)
{
	FieldSet sets[NUM_FIELDS];

	for (int i = 0; i < NUM_FIELDS; i++)
		parse_field(whole, i, words[i], &sets[i]);
	e->kind = CRON_FIELDS;
	e->minutes = sets[FIELD_MINUTE].set;
	e->hours = (uint32) sets[FIELD_HOUR].set;
	e->any_hour = sets[FIELD_HOUR].star;
	e->days = (uint32) sets[FIELD_DAY].set;
	e->last_day = sets[FIELD_DAY].last_day;
	e->any_day = sets[FIELD_DAY].star;
	e->months = (uint32) sets[FIELD_MONTH].set;
	e->weekdays = (uint32) sets[FIELD_WEEKDAY].set;
	e->last_weekdays = (uint32) sets[FIELD_WEEKDAY].last;
	e->any_weekday = sets[FIELD_WEEKDAY].star;
	check_possible(whole, e);
}

/* @daily and the like. */
static void
parse_nickname(const char *whole, const char *word, CronExpr *e)
{
	static const char *const nicknames[][6] = {
		{"@hourly", "0", "*", "*", "*", "*"},   {"@daily", "0", "0", "*", "*", "*"},
		{"@midnight", "0", "0", "*", "*", "*"}, {"@weekly", "0", "0", "*", "*", "0"},
		{"@monthly", "0", "0", "1", "*", "*"},  {"@yearly", "0", "0", "1", "1", "*"},
		{"@annually", "0", "0", "1", "1", "*"},
	};

	for (int i = 0; i < lengthof(nicknames); i++)
		if (pg_strcasecmp(word, nicknames[i][0]) == 0)
		{
			char *words[NUM_FIELDS];

			for (int f = 0; f < NUM_FIELDS; f++)
				words[f] = pstrdup(nicknames[i][f + 1]);
			parse_fields(whole, words, e);
			return;
		}
	bad_expression(whole, psprintf("There is no \"%s\".", word),
				   "Use @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually.");
}

/* every [N] UNIT */
static void
parse_every(const char *whole, char **words, int n, CronExpr *e)
{
	static const struct
	{
		const char *names;
		int seconds;
	} units[] = {{" s sec secs second seconds ", 1}, {" m min mins minute minutes ", 60}, {" h hour hours ", 3600}};
	const char *const hint =
		"Write as every 30 seconds, every 5 minutes, every 2 hours. For days use fields, as 0 3 * * *.";
	const char *unit = words[n - 1];
	int64 count = 1;

	if (n < 2 || n > 3)
		bad_expression(whole, "After every come a number and a unit.", hint);
	if (n == 3)
	{
		if (strlen(words[1]) > 9 || strspn(words[1], "0123456789") != strlen(words[1]))
			bad_expression(whole, psprintf("\"%s\" is not a number of up to 9 digits.", words[1]), hint);
		count = atoi(words[1]);
	}
	for (int i = 0; i < lengthof(units); i++)
	{
		char *found = strstr(units[i].names, psprintf(" %s ", unit));

		if (found)
			e->every = count * units[i].seconds;
	}
	if (e->every == 0 && count > 0)
		bad_expression(whole, psprintf("There is no unit \"%s\".", unit), hint);
	if (e->every < 1 || e->every > LONGEST_EVERY)
		bad_expression(whole, "It must be 1 second to 366 days.", hint);
	e->kind = CRON_EVERY;
}

/* Reads so many digits at *p. -1: there are others. */
static int
read_digits(const char **p, int digits)
{
	int n = 0;

	while (digits-- > 0)
	{
		if (!isdigit((unsigned char) **p))
			return -1;
		n = n * 10 + (*(*p)++ - '0');
	}
	return n;
}

/* Z, +01, +01:30 or nothing at *p; the rest of the text. False: something else. */
static bool
read_offset(const char *p, bool *given, int *seconds)
{
	int sign = *p == '-' ? -1 : 1;
	int hours;
	int minutes = 0;

	*given = *p != '\0';
	*seconds = 0;
	if (*p == '\0' || pg_strcasecmp(p, "Z") == 0)
		return true;
	if (*p != '+' && *p != '-')
		return false;
	p++;
	hours = read_digits(&p, 2);
	if (*p == ':')
		p++;
	if (*p != '\0')
		minutes = read_digits(&p, 2);
	*seconds = sign * (hours * 3600 + minutes * 60);
	return hours >= 0 && hours <= 15 && minutes >= 0 && minutes <= 59 && *p == '\0';
}

/* at YYYY-MM-DD HH:MM[:SS][offset]; words are those after "at" */
static void
parse_at(const char *whole, char **words, int n, CronExpr *e)
{
	const char *p = n > 0 ? words[0] : "";
	int year = read_digits(&p, 4);
	int month = *p == '-' ? (p++, read_digits(&p, 2)) : -1;
	int day = *p == '-' ? (p++, read_digits(&p, 2)) : -1;
	int hour = -1;
	int minute = -1;
	int second = 0;
	int offset = 0;
	bool ok = n == 1 || n == 2;

	if (n == 1 && toupper((unsigned char) *p) == 'T')
		p++;
	else if (n == 2 && *p == '\0')
		p = words[1];
	hour = read_digits(&p, 2);
	minute = *p == ':' ? (p++, read_digits(&p, 2)) : -1;
	if (*p == ':')
		second = (p++, read_digits(&p, 2));
	ok = ok && year >= 1970 && month >= 1 && month <= 12 && day >= 1 && day <= day_tab[isleap(year)][month - 1] &&
		 hour >= 0 && hour <= 23 && minute >= 0 && minute <= 59 && second >= 0 && second <= 59 &&
		 read_offset(p, &e->at_is_utc, &offset);
	if (!ok)
		bad_expression(whole, "After at comes a date and a time of day that exist.",
					   "Write as at 2027-01-01 10:00, or with an offset from UTC: at 2027-01-01 10:00:00+01:00.");
	e->kind = CRON_AT;
	e->at = (int64) (date2j(year, month, day) - UNIX_EPOCH_JDATE) * SECS_PER_DAY + hour * 3600 + minute * 60 + second -
			offset;
}

/* Parses an expression. Error 22023. Allocates in the current context. */
void
cron_parse(const char *text, CronExpr *e)
{
	char *copy = pstrdup(text);
	char *words[NUM_FIELDS + 1];
	char *save = NULL;
	int n = 0;

	memset(e, 0, sizeof(*e));
	for (char *word = strtok_r(copy, " \t\r\n\f\v", &save); word; word = strtok_r(NULL, " \t\r\n\f\v", &save))
	{
		if (n <= NUM_FIELDS)
			words[n] = word;
		n++;
	}
	if (n > 0 && pg_strcasecmp(words[0], "every") == 0)
	{
		for (int i = 0; i < Min(n, 3); i++)
			for (char *c = words[i]; *c; c++)
				*c = pg_ascii_tolower((unsigned char) *c);
		parse_every(text, words, n, e);
	}
	else if (n > 0 && pg_strcasecmp(words[0], "at") == 0)
		parse_at(text, words + 1, n - 1, e);
	else if (n == 1 && words[0][0] == '@')
		parse_nickname(text, words[0], e);
	else if (n == NUM_FIELDS)
		parse_fields(text, words, e);
	else
		bad_expression(
			text, psprintf("It must have 5 fields; it has %d.", n),
			n == NUM_FIELDS + 1
				? "The fields are minute, hour, day of month, month, day of week; for seconds write as every 30 seconds."
				: "The fields are minute, hour, day of month, month, day of week. Or write @daily, every 5 minutes, at 2027-01-01 10:00.");
	pfree(copy);
}

/* A time zone by its name. Error 22023 when there is none. */
pg_tz *
cron_timezone(const char *name)
{
	pg_tz *tz = pg_tzset(name);

	if (tz == NULL || !pg_tz_acceptable(tz))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("time zone \"%s\" is not known", name),
						errhint("Use a name of pg_timezone_names, as UTC or Europe/Berlin.")));
	return tz;
}
