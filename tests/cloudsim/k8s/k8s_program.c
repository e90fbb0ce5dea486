/*
 * The container's program as a local process tree below "cloudsim pod-init" (k8s_init.c). The
 * simulation in tests/sim has functions of the same names instead.
 */
#include "base/base.h"
#include "cloudsim/k8s/k8s.h"
#include "base/text/text.h"
#include "io/proc/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Hides tools that would reach the host and are not in a container's image. */
static void hide_host_tools(const char *home)
{
	static const char *const names[] = { "shutdown", "poweroff", "halt", "reboot",
		"systemctl" };
	char path[4096];

	snprintf(path, sizeof(path), "%s/var/lib/spot-agent", home);
	dir_make(path, 0700);
	snprintf(path, sizeof(path), "%s/sbin", home);
	dir_make(path, 0755);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/sbin/%s", home, names[i]);
		file_put(path, "#!/bin/sh\nexit 127\n", 19, 0755);
	}
}

static void program_ended(struct loop_child *c, int status)
{
	kubelet_program_ended(container_of(c, struct kubelet_pod, child), status);
}

bool pod_program_start(struct kubelet_pod *k, const char **argv, const char **env)
{
	struct spot_err err = { 0 };
	struct proc_spec spec = { .argv = argv,
		.env = env,
		.dir = k->home,
		.in = -1,
		.new_session = true,
		.uid = -1,
		.gid = -1,
		.death_signal = SIGUSR2 };
	char console[4096];

	hide_host_tools(k->home);
	snprintf(console, sizeof(console), "%s/console.log", k->home);
	spec.out = spec.err = open(console, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (proc_spawn(&spec, &k->pid, &err) != SPOT_OK) {
		log_error("pod.program_failed", STR("pod", k->pod->name), STR("error", err.text));
		k->pid = 0;
	} else {
		loop_child_start(&k->child, k->sim->loop, k->pid, program_ended);
	}
	if (spec.out >= 0) {
		close(spec.out);
	}
	return k->pid != 0;
}

void pod_program_signal(struct kubelet_pod *k, int signo)
{
	kill(k->pid, signo);
}
