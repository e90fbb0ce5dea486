/* Filling struct spot_err. err may be NULL everywhere. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/macros.h"

/* Sets rc and text, clears code and retry_after, and returns rc: a failure takes one line. */
enum spot_rc err_set(struct spot_err *err, enum spot_rc rc, const char *fmt, ...) PRINTF(3, 4);
/* Puts "prefix: " before the text and returns err->rc. Each layer does it at most once. */
enum spot_rc err_prefix(struct spot_err *err, const char *fmt, ...) PRINTF(2, 3);

#endif
