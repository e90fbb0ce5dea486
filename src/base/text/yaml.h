/*
 * YAML documents as a tree with positions, from libyaml's events. Limits: 1 MiB, depth 32, 20,000
 * nodes. The parser refuses anchors, aliases, tags and duplicate keys. Each error begins with
 * "line L, column C". Scalars keep their text; plain scalars may be null, booleans or numbers.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/base.h"

struct arena;
enum yaml_kind { YAML_NONE = 0, YAML_SCALAR, YAML_MAP, YAML_SEQ };
struct yaml {
	enum yaml_kind kind;
	int line, column; /* 1-based */
	const char *key; /* in a map: this entry's key (else NULL) */
	int key_line, key_column;
	const char *text; /* scalar */
	size_t begin, end; /* scalar: byte range in the file, with its quotes or its '|' */
	size_t key_begin, key_end; /* in a map: byte range of the key */
	bool plain; /* not quoted */
	struct yaml *child, *next; /* map entries or sequence items */
	size_t children;
};
/* Parses all documents into *ret_n roots, in a. JSON text is accepted, being a subset. */
NODISCARD enum spot_rc yaml_parse(struct arena *a, struct str text, struct yaml ***ret_docs,
    size_t *ret_n, struct spot_err *err);
/* Returns the entry of the key; NULL if absent or not a map. */
const struct yaml *yaml_get(const struct yaml *map, const char *key);
bool yaml_is_null(const struct yaml *y);
/* Sets err to "line 3, column 5: name: " and the message; returns its rc. */
enum spot_rc yaml_fail(const struct yaml *at, struct spot_err *err, const char *fmt, ...)
    PRINTF(3, 4);

#endif
