/* XML as a small read-only tree, by expat. Limits: depth 64, 2 million nodes. It ignores namespaces
 * and attributes, and refuses entities beyond the five. Text is the trimmed character data. */
#ifndef BASE_XML_H
#define BASE_XML_H

#include "base/base.h"

struct arena;
struct xml {
	const char *name; /* local name */
	const char *text; /* "" if none */
	struct xml *child, *next;
};
NODISCARD enum spot_rc xml_parse(struct arena *a, struct str text, struct xml **ret,
    struct spot_err *err);
/* Returns the first descendant by the path "a/b/c" below x; NULL if absent. x may be NULL. */
const struct xml *xml_at(const struct xml *x, const char *path);
const char *xml_text(const struct xml *x, const char *path, const char *dflt);
/* Iterate: for (c = xml_first(set, "item"); c; c = xml_next(c, "item")) */
const struct xml *xml_first(const struct xml *x, const char *name);
const struct xml *xml_next(const struct xml *x, const char *name);

#endif
