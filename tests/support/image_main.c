/* Prints the path of the prepared Postgres data folder (pg_image.h), for tests in Python. */
#include "pg_image.h"

#include <stdio.h>

int main(void)
{
	const char *path = pg_image_path();

	if (path == NULL) {
		return 1;
	}
	puts(path);
	return 0;
}
