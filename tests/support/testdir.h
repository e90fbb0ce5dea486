/* Folders of tests: made under $TMPDIR, locked while in use, removed when their test is over. */
#ifndef TESTDIR_H
#define TESTDIR_H

#include <stdbool.h>
#include <stddef.h>

/* A new folder; ret holds its path. Exits when there is none. */
void testdir_make(char *ret, size_t size);
/* Removes the folders of crashed tests: no process holds their lock any more. */
void testdir_sweep(void);
/* rm -rf; a path that does not exist is fine. */
void testdir_remove(const char *path);
/* cp -a; false when it failed. */
bool testdir_copy(const char *from, const char *to);

#endif
