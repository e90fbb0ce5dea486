/* Filling struct spot_err. err may be NULL everywhere. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/base.h"

/* Sets code and words and returns rc, so that a failure is one line. Clears code/retry_after. */
enum spot_rc err_set(struct spot_err *err, enum spot_rc rc, const char *fmt, ...) PRINTF(3, 4);
/* Puts "prefix: " before the words, once per layer; returns err->rc. */
enum spot_rc err_prefix(struct spot_err *err, const char *fmt, ...) PRINTF(2, 3);

#endif
