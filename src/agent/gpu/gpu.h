/*
 * Facts of the node (for enrolment) and its load (samples): GPU facts from spot-nvml or nvidia-smi,
 * the rest from /proc.
 */
#ifndef AGENT_GPU_H
#define AGENT_GPU_H

#include "base/base.h"

#include "agent/net/net.h"
#include "agent/sys/sys.h"
#include "base/text/sbuf.h"

struct gpu_now {
	bool known; /* at least one answer came */
	char error[160]; /* "no GPU"; "" if there are some */
	char driver[80];
	json_t *gpus; /* [{"uuid","name","mem_mib"}] */
	int64_t count, mem_used_mib, mem_total_mib, power_mw;
	double util; /* mean, 0..1; < 0: not known */
	/* why programs cannot use them although the driver answers; "" = they can */
	char not_ready[160];
	bool failed; /* that, or the error, will not pass */
};
struct gpu {
	struct gpu_now now;
	enum { GPU_HELPER = 0, GPU_SMI, GPU_NONE } by;
	pid_t pid;
	int fd;
	struct sbuf text;
	int64_t heard_us, next_us;
	int64_t every_us; /* the helper's interval */
	int hangs; /* or ends by a signal, without a line in between */
};
void gpu_step(struct agent *a);
void gpu_ready(struct agent *a);
void gpu_child_ended(struct agent *a, pid_t pid, int status);
void gpu_stop(struct agent *a);
/* Until when enrolment waits for the GPUs, since since_us; 0 = not, or no longer. */
int64_t gpu_settles_us(const struct gpu_now *now, int64_t since_us, int64_t now_us);
/* The reason why programs cannot use them; "" = they can. */
const char *gpu_fault(const struct gpu_now *now);
/* Text of the two sources into now. */
NODISCARD enum spot_rc gpu_helper_line(struct str line, struct gpu_now *now, struct spot_err *err);
NODISCARD enum spot_rc gpu_smi_text(const char *text, struct gpu_now *now, struct spot_err *err);

struct sample {
	struct http_call *call;
	int64_t next_us;
	uint64_t cpu_busy, cpu_all;
};
void sample_step(struct agent *a);
json_t *sample_hw(struct agent *a); /* the "hw" of enrolment */

#endif
