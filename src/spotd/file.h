/* Small files and folders of the daemon. */
#ifndef SPOTD_FILE_H
#define SPOTD_FILE_H

#include "base/base.h"

struct arena;
NODISCARD enum spot_rc file_read(const char *path, struct arena *a, size_t bytes_max,
    struct str *ret, struct spot_err *err);
/* Whole or not at all: written beside and renamed. */
NODISCARD enum spot_rc file_write(const char *path, const char *text, unsigned mode,
    struct spot_err *err);
bool file_exists(const char *path);
/* Folder and its parents, 0700. */
NODISCARD enum spot_rc folder_make(const char *path, struct spot_err *err);

#endif
