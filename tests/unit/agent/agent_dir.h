/* A folder for each test, whose name has blanks: set-up and end for cmocka. */
#ifndef AGENT_DIR_H
#define AGENT_DIR_H

#include "base/base.h"

#include "agent/agent.h"

#include <unistd.h>

static char dir[64];

static int dir_new(void **state)
{
	(void)state;
	memcpy(dir, "/tmp/spot agent XXXXXX", sizeof("/tmp/spot agent XXXXXX"));
	return mkdtemp(dir) == NULL;
}

static int dir_end(void **state)
{
	(void)state;
	dir_remove(dir);
	return access(dir, F_OK) == 0;
}

#endif
