/* Reads a whole file of recorded data. */
#ifndef BENCH_FILE_H
#define BENCH_FILE_H

#include "base/base.h"
#include "base/text/text.h"

#include <stdio.h>

/* Returns false if the file cannot be read. The text lives in the arena. */
static inline bool bench_file_read(struct arena *a, const char *path, struct str *ret)
{
	FILE *f = fopen(path, "re");
	long n;
	char *p;

	if (f == NULL) {
		return false;
	}
	if (fseek(f, 0, SEEK_END) != 0 || (n = ftell(f)) < 0) {
		fclose(f);
		return false;
	}
	rewind(f);
	p = arena_alloc(a, (size_t)n + 1);
	*ret = (struct str){ p, fread(p, 1, (size_t)n, f) };
	fclose(f);
	return true;
}

#endif
