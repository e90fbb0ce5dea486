/*
 * A prepared Postgres data folder: initdb done, all migrations applied to the database
 * "spotbroker", fsync off. A test copies it instead of running initdb and the migrations. The build
 * folder holds one image for each state of the migrations; the first test that needs it makes it.
 */
#ifndef PG_IMAGE_H
#define PG_IMAGE_H

#include <stdbool.h>

#define PG_IMAGE_DATABASE "spotbroker"

/* Path of the image, made if absent; NULL after saying why on stderr. Static buffer. */
const char *pg_image_path(void);
/* Copies the image to dir/data. False: dir has no data, the caller's server starts with initdb. */
bool pg_image_copy(const char *dir);

#endif
