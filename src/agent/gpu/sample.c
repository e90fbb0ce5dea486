/* Facts of the node for enrolment, and its load every sample_s, from /proc and the last GPU
 * facts. */
#include "base/base.h"
#include "agent/agent.h"

#include "base/text/text.h"

#include <sys/utsname.h>
#include <unistd.h>

static int64_t meminfo_kib(const char *text, const char *name)
{
	const char *p = strstr(text, name);
	long long kib = 0;

	return p != NULL && sscanf(p + strlen(name), " %lld", &kib) == 1 ? kib : 0;
}

/* Reads memory in MiB; used is total minus the memory available for new work. */
static void memory_read(int64_t *ret_total, int64_t *ret_used)
{
	struct str text;

	*ret_total = *ret_used = 0;
	if (file_read("/proc/meminfo", 65536, &text, NULL) != SPOT_OK) {
		return;
	}
	*ret_total = meminfo_kib(text.p, "MemTotal:") / 1024;
	*ret_used = *ret_total - meminfo_kib(text.p, "MemAvailable:") / 1024;
	free((char *)(uintptr_t)text.p);
}

/* Returns the share of time not idle since the last call; -1 at the first call. */
static double cpu_read(struct sample *s)
{
	FILE *f = fopen("/proc/stat", "re");
	unsigned long long v[8] = { 0 };
	uint64_t all = 0, busy;
	double share = -1;

	if (f == NULL) {
		return -1;
	}
	if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
		&v[4], &v[5], &v[6], &v[7]) == 8) {
		for (size_t i = 0; i < ARRAY_LEN(v); i++) {
			all += v[i];
		}
		busy = all - v[3] - v[4]; /* idle, iowait */
		if (s->cpu_all != 0 && all > s->cpu_all) {
			share = (double)(busy - s->cpu_busy) / (double)(all - s->cpu_all);
		}
		s->cpu_all = all;
		s->cpu_busy = busy;
	}
	fclose(f);
	return share < 0 ? -1 : MIN(share, 1.0);
}

json_t *sample_hw(struct agent *a)
{
	const struct gpu_now *g = &a->gpu.now;
	struct utsname kernel = { 0 };
	char ip[INET_ADDRSTRLEN];
	int64_t total, used;
	json_t *o;

	memory_read(&total, &used);
	(void)uname(&kernel);
	o = json_pack("{s:I, s:I, s:s}", "vcpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
	    "mem_mib", (json_int_t)total, "kernel", kernel.release);
	own_address(ip);
	(void)json_object_set_new(o, "ip", json_string(ip));
	(void)json_object_set_new(o, "gpus", g->gpus != NULL ? json_incref(g->gpus) : json_array());
	if (g->count == 0) {
		(void)json_object_set_new(o, "gpu_error",
		    json_string(g->error[0] != '\0' ? g->error : "no GPU"));
	}
	/* The machine is unusable: the daemon replaces it. */
	if (gpu_fault(g)[0] != '\0') {
		(void)json_object_set_new(o, "gpu_fault", json_string(gpu_fault(g)));
	}
	return o;
}

static void sample_done(void *agent, const struct http_reply *reply)
{
	struct agent *a = agent;
	AUTO(daemon_reply) struct daemon_reply r;

	daemon_read(a, reply, &r);
	a->sample.call = NULL; /* a lost sample needs no retry */
}

void sample_step(struct agent *a)
{
	struct sample *s = &a->sample;
	const struct gpu_now *g = &a->gpu.now;
	int64_t total, used;
	double cpu;
	json_t *o;

	if (a->enrol.at != ENROL_DONE || s->call != NULL) {
		return;
	}
	if (a->now_us < s->next_us) {
		agent_wake(a, s->next_us);
		return;
	}
	s->next_us = a->now_us + a->sample_us;
	agent_wake(a, s->next_us);
	cpu = cpu_read(s);
	memory_read(&total, &used);
	o = json_pack("{s:I, s:I, s:I}", "at_us", (json_int_t)agent_wall_us(a), "gpus",
	    (json_int_t)g->count, "mem_used_mib", (json_int_t)used);
	if (cpu >= 0) {
		(void)json_object_set_new(o, "cpu_util", json_real(cpu));
	}
	if (g->count > 0) {
		(void)json_object_set_new(o, "gpu_mem_used_mib", json_integer(g->mem_used_mib));
		(void)json_object_set_new(o, "gpu_mem_total_mib", json_integer(g->mem_total_mib));
		(void)json_object_set_new(o, "gpu_power_mw", json_integer(g->power_mw));
		if (g->util >= 0) {
			(void)json_object_set_new(o, "gpu_util", json_real(g->util));
		}
	}
	s->call = daemon_post(a, "sample", o, 10 * SPOT_US_PER_S, sample_done);
}
