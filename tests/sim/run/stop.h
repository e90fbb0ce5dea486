/* A batch that is told to end (SIGTERM, SIGINT) leaves nothing behind: no folder in /dev/shm, no
 * server. */
#ifndef SIM_STOP_H
#define SIM_STOP_H

#include <stdbool.h>

/* From here on a signal only asks for the end; should the program exit on the way, dir is removed
 * all the same. */
void stop_install(const char *dir);
const char *stop_folder(void);
bool stop_wanted(void);
/* A child of the batch ends at once. */
void stop_forget(void);
/* Ends by the signal that asked for it; returns if none did. */
void stop_now(void);

void tree_remove(const char *path);

#endif
