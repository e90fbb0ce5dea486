/*
 * Configuration as one table: section, key, default, range, help, type, flags, offset. The INI
 * parser, the range checks, --print-config, --check-config, the reload rules and the manual all
 * follow it. The parser refuses unknown keys and bad values, as "file:line: words".
 *
 * A section may have a name, as [provider aws]. The parser takes any key there; the provider checks
 * them when it opens, and the caller checks the kind. With ret_named NULL the parser refuses named
 * sections.
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
	/* texts; min and max may be NULL: no bound (for strings, bounds of the length) */
	const char *dflt, *min, *max;
	const char *help;
	enum conf_type type;
	unsigned flags;
	size_t at; /* offset in the target of a const char *, int64_t, double or bool */
};
struct conf_section { /* one [provider NAME] */
	const char *kind, *name;
	const char **keys, **values;
	size_t n;
	int *lines; /* line number of each key */
	bool *asked; /* conf_section_get() was called for this key */
	/* for each key, the nearest word that conf_section_get() did not find, for messages */
	struct conf_near {
		const char *word;
		int least;
	} *near;
	int line;
};
struct conf_file {
	struct conf_section *sections;
	size_t n; /* named sections */
	const int *item_lines; /* line number of each item of the table; 0 = not set */
};
/* Fills target with the defaults and then with the INI text. Strings live in a; path is for
 * messages. SPOT_CONFIG: the text has a mistake, and target is unchanged. */
NODISCARD enum spot_rc conf_parse(struct arena *a, const struct conf_item *items, size_t n,
    const char *path, struct str text, void *target, struct conf_file *ret_named,
    struct spot_err *err);
/* All mistakes in the order of the file, as "file:line: words". The caller sets arena, which holds
 * the strings. */
struct conf_mistakes {
	struct arena *arena;
	const char **list;
	size_t n, cap;
};
void conf_mistake(struct conf_mistakes *m, const struct spot_err *err);
/* As conf_parse, but goes on after a mistake if all is not NULL, so that the caller can check more.
 * A bad value leaves the default, and a refused section is left out. err is the first mistake. */
NODISCARD enum spot_rc conf_parse_all(struct arena *a, const struct conf_item *items, size_t n,
    const char *path, struct str text, void *target, struct conf_file *ret_named,
    struct conf_mistakes *all, struct spot_err *err);
/* Writes every key and value as INI, with the help as comments. Leaves out secret values. */
struct sbuf;
void conf_print(const struct conf_item *items, size_t n, const void *target, bool with_help,
    struct sbuf *out);
/* Returns the value of the key, NULL if absent, and marks the key as asked. */
const char *conf_section_get(const struct conf_section *s, const char *key);
/* Returns the first key that nobody asked for, or NULL. Sets *ret_line to its line, and
 * *ret_near to the nearest word that somebody asked for in vain, or NULL. Leaves out keys with a
 * dot (subnet.ZONE), since a provider asks for them only when it knows their second part. */
const char *conf_section_unasked(const struct conf_section *s, int *ret_line,
    const char **ret_near);

#endif
