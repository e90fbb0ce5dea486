/* jansson helpers: parse with caps, typed getters that name the field in their error. */
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
/* Rejects duplicates and trailing text; error has line and column. what: the document's name in
 * errors. */
NODISCARD enum spot_rc json_parse(struct str text, const char *what, json_t **ret,
    struct spot_err *err);
/* Optional getters: default when absent or null; wrong type is an error recorded in *err (first one
 * wins, checked once at the end by the caller: err->rc != SPOT_OK). Strings point into the
 * document. */
const char *json_str(const json_t *o, const char *key, const char *dflt, struct spot_err *err);
int64_t json_i64(const json_t *o, const char *key, int64_t dflt, struct spot_err *err);
/* int accepted */
double json_f64(const json_t *o, const char *key, double dflt, struct spot_err *err);
bool json_bool(const json_t *o, const char *key, bool dflt, struct spot_err *err);
/* Required: absent is an error too. */
const char *json_need_str(const json_t *o, const char *key, struct spot_err *err);
int64_t json_need_i64(const json_t *o, const char *key, struct spot_err *err);
/* First key of object o not in the NULL-terminated list, or NULL. */
const char *json_unknown_key(const json_t *o, const char *const *known);
/* compact, JSON_REAL_PRECISION(15), sorted = false */
char *json_text(struct arena *a, const json_t *j);
json_t *json_usd(int64_t micros); /* real with 6 decimals */
json_t *json_time(int64_t us); /* RFC 3339 string; null for 0 */

#endif
