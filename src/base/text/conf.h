/*
 * Configuration as one table: section, key, default, range, help, type, flags, offset. From it come
 * the INI parser, the range checks, --print-config, --check-config, the reload rules and the
 * manual. Unknown keys and bad values are refused as file:line: words. Sections may have a name:
 * [provider aws]; their keys are free text here and are checked by the provider at open. Which
 * kinds there are is checked by the caller (line is for its message); ret_named NULL refuses all of
 * them.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include "base/base.h"

struct arena;
enum conf_type { CONF_STR = 1, CONF_PATH, CONF_I64, CONF_F64, CONF_BOOL, CONF_DURATION, CONF_USD };
#define CONF_RELOAD 1u /* may change on SIGHUP */
#define CONF_SECRET 2u /* never printed */
struct conf_item {
	const char *section, *key;
	/* as text; min/max NULL = unbounded (strings: max length) */
	const char *dflt, *min, *max;
	const char *help;
	enum conf_type type;
	unsigned flags;
	/* offsetof in the target: const char *, int64_t, double, bool */
	size_t at;
};
struct conf_section { /* one [provider NAME] */
	const char *kind, *name;
	const char **keys, **values;
	size_t n;
	int *lines; /* where each key stands */
	bool *asked; /* conf_section_get() was called for it */
	int line;
};
struct conf_file {
	struct conf_section *sections;
	size_t n; /* named sections */
	const int *item_lines; /* where each item of the table is set; 0 = nowhere */
};
/* Sets defaults, then overrides from INI text (path is for messages). Strings live in arena.
 * Nothing in target is changed on failure. */
NODISCARD enum spot_rc conf_parse(struct arena *a, const struct conf_item *items, size_t n,
    const char *path, struct str text, void *target, struct conf_file *ret_named,
    struct spot_err *err);
/* Every mistake in the order of the file, as "file:line: words"; strings live in arena, which the
 * caller sets. */
struct conf_mistakes {
	struct arena *arena;
	const char **list;
	size_t n, cap;
};
void conf_mistake(struct conf_mistakes *m, const struct spot_err *err);
/* With all: reading goes on behind a mistake, and target and ret_named get what is good (a default
 * where a value is bad; nothing of a section that is refused), so that more can be checked. err is
 * the first mistake. NULL: as conf_parse. */
NODISCARD enum spot_rc conf_parse_all(struct arena *a, const struct conf_item *items, size_t n,
    const char *path, struct str text, void *target, struct conf_file *ret_named,
    struct conf_mistakes *all, struct spot_err *err);
/* Writes every key with value and help as INI. */
struct sbuf;
void conf_print(const struct conf_item *items, size_t n, const void *target, bool with_help,
    struct sbuf *out);
const char *conf_section_get(const struct conf_section *s, const char *key);
/* The first key nobody asked for yet (its line in ret_line), NULL if there is none. Keys with a dot
 * (subnet.ZONE) are left out: they are asked for when what they name is known. */
const char *conf_section_unasked(const struct conf_section *s, int *ret_line);

#endif
