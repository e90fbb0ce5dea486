#include "base/base.h"
#include "sim/run/stop.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const int signals[] = { SIGTERM, SIGINT };
static volatile sig_atomic_t wanted;
static const char *folder;
static pid_t owner;

static int entry_remove(const char *path, const struct stat *st UNUSED, int type UNUSED,
    struct FTW *at UNUSED)
{
	return remove(path);
}

void tree_remove(const char *path)
{
	(void)nftw(path, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static void stop_ask(int signo)
{
	wanted = signo;
}

static void folder_leave(void)
{
	if (getpid() == owner) {
		tree_remove(folder);
	}
}

void stop_install(const char *dir)
{
	struct sigaction a = { .sa_handler = stop_ask }; /* without SA_RESTART: poll must return */

	folder = dir;
	owner = getpid();
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		(void)sigaction(signals[i], &a, NULL);
	}
	(void)atexit(folder_leave);
}

const char *stop_folder(void)
{
	return folder;
}

bool stop_wanted(void)
{
	return wanted != 0;
}

void stop_forget(void)
{
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		(void)signal(signals[i], SIG_DFL);
	}
}

void stop_now(void)
{
	if (wanted == 0) {
		return;
	}
	(void)fflush(NULL);
	stop_forget();
	(void)raise(wanted);
}
