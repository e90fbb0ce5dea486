/*
 * sim: one seed, or a batch of them. See README.md.
 *
 * The batch reads the common data once, then forks a child for each seed. Each child has a database
 * of its own, made from a migrated template.
 */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/run/batch.h"
#include "sim/run/options.h"
#include "sim/run/reach.h"
#include "sim/run/seed.h"
#include "sim/run/server.h"
#include "sim/run/stop.h"
#include "sim/store/gates.h"
#include "sim/store/rows.h"
#include "sim/world/profiles.h"
#include "sim/world/traps.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Learns the rules' statements: a seed without faults asks all of them, and they stay as it asked
 * them. */
static void statements_learn(const char *dir)
{
	struct options o = { .from = 1,
		.to = 1,
		.minutes = 1,
		.mix = "none",
		.quiet = true,
		.learn = true };
	struct database d;
	char line[4096];
	int p[2];
	pid_t pid;
	FILE *f;

	database_take(&d);
	if (pipe2(p, O_CLOEXEC) != 0) {
		abort();
	}
	pid = fork();
	if (pid == 0) {
		seed_child(&o, 1, d.dsn, dir, p[1]);
	}
	close(p[1]);
	f = fdopen(p[0], "r");
	assert(f != NULL);
	server_warm();
	gates_prepare();
	while (fgets(line, sizeof(line), f) != NULL) {
		void *at;

		if (sscanf(line, "sql %p", &at) == 1) {
			check_prepare(at);
		}
	}
	fclose(f);
	(void)waitpid(pid, NULL, 0);
	database_give(&d);
}

int main(int argc, char **argv)
{
	struct options o;
	char dir[] = "/dev/shm/spotbroker-sim-XXXXXX", cloud[64];
	double begun;
	int rc;

	if (!options_read(&o, argc, argv)) {
		fputs(options_usage, stderr);
		return 2;
	}
	if (o.trap != NULL && o.from == 0) {
		return trap_try(o.trap) ? 0 : 2;
	}
	if (o.states || o.profiles) {
		(o.states ? reach_list : profiles_print)();
		return 0;
	}
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	if (mkdtemp(dir) == NULL) {
		abort();
	}
	stop_install(dir);
	snprintf(cloud, sizeof(cloud), "%s/cloud", dir);
	begun = batch_clock_s();
	seed_gates_off = getenv("SPOT_SIM_GATES") != NULL;
	server_start();
	world_loop_open();
	cloud_open(strdup(cloud));
	if (server_copies()) {
		statements_learn(dir);
		server_universes();
	}
	fprintf(stderr, "sim: ready after %.1f s, in %s\n", batch_clock_s() - begun, dir);
	rc = batch_run(&o, dir);
	server_stop();
	tree_remove(dir);
	stop_now();
	return rc;
}
