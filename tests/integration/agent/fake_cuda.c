/* A libcuda.so.1 that is not ready while $FAKE_NVML holds the word "nocuda". */
#include "base/base.h"

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
	const char *path = getenv("FAKE_NVML");
	FILE *f = path != NULL ? fopen(path, "re") : NULL;
	char word[16] = "";

	(void)flags;
	if (f != NULL && fscanf(f, "%15s", word) != 1) {
		word[0] = '\0';
	}
	if (f != NULL) {
		fclose(f);
	}
	return strcmp(word, "nocuda") == 0 ? 802 : 0;
}
