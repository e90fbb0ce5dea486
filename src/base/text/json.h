/* jansson helpers: a parser with limits, and typed getters that name the field in their error. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/base.h"
#include <jansson.h>

struct arena;
static inline void auto_json(json_t **j)
{
	json_decref(*j);
}
#define JSON_DEPTH_MAX 32
/* Parses a text into *ret, which the caller owns. Refuses duplicate keys and trailing text. The
 * error has the document's name (`what`), line and column. */
NODISCARD enum spot_rc json_parse(struct str text, const char *what, json_t **ret,
    struct spot_err *err);
/*
 * Optional getters: return the default if the member is absent or null. A wrong type sets *err
 * unless it holds an error already, so the caller tests err->rc once, at the end. Strings point
 * into the document.
 */
const char *json_str(const json_t *o, const char *key, const char *dflt, struct spot_err *err);
int64_t json_i64(const json_t *o, const char *key, int64_t dflt, struct spot_err *err);
/* Accepts integers. */
double json_f64(const json_t *o, const char *key, double dflt, struct spot_err *err);
bool json_bool(const json_t *o, const char *key, bool dflt, struct spot_err *err);
/* Required members: as above, and an absent one is an error. */
const char *json_need_str(const json_t *o, const char *key, struct spot_err *err);
int64_t json_need_i64(const json_t *o, const char *key, struct spot_err *err);
/* Returns the first key of o that is not in the NULL-terminated list, or NULL. */
const char *json_unknown_key(const json_t *o, const char *const *known);
/* Writes compact JSON, with the keys in their order and 15 significant digits. */
char *json_text(struct arena *a, const json_t *j);
json_t *json_usd(int64_t micros); /* real with 6 decimals */
json_t *json_time(int64_t us); /* RFC 3339 string; null for 0 */

#endif
