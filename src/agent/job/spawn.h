/*
 * fork() for children that become another program at once. A child holds copies of all our open
 * files until its exec: were we to go on meanwhile, close a program that was just fetched and run
 * it, execve(2) would find it open for writing and fail with ETXTBSY. So the parent comes back when
 * the child has become its program, or is over.
 */
#ifndef AGENT_SPAWN_H
#define AGENT_SPAWN_H

#include "base/base.h"

#include <sys/types.h>

/* 0 in the child, which must exec or _exit soon; its pid in the parent; -1 with errno. */
pid_t spawn_fork(void);

#endif
