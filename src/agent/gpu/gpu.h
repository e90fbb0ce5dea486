/*
 * Facts of the node (for enrolment) and its load (samples). GPU facts come from spot-nvml or
 * nvidia-smi, the rest from /proc.
 */
#ifndef AGENT_GPU_H
#define AGENT_GPU_H

#include "base/base.h"

#include "agent/net/net.h"
#include "agent/sys/sys.h"
#include "base/text/text.h"

struct gpu_now {
	bool known; /* a source has answered */
	char error[160]; /* such as "no GPU"; "" if there are GPUs */
	char driver[80];
	json_t *gpus; /* [{"uuid","name","mem_mib"}] */
	int64_t count, mem_used_mib, mem_total_mib, power_mw;
	double util; /* mean, 0..1; < 0: not known */
	char not_ready[160]; /* reason why programs cannot use the GPUs yet; "" = they can */
	bool failed; /* not_ready or error is permanent */
};
struct gpu {
	struct gpu_now now;
	enum { GPU_HELPER = 0, GPU_SMI, GPU_NONE } by;
	pid_t pid;
	int fd;
	struct sbuf text;
	int64_t heard_us, next_us;
	int64_t every_us; /* the helper's interval */
	int hangs; /* hangs and ends by a signal, in a row */
};
void gpu_step(struct agent *a);
void gpu_ready(struct agent *a); /* reads the source's output */
void gpu_child_ended(struct agent *a, pid_t pid, int status);
void gpu_stop(struct agent *a);
/* Returns the latest time until which enrolment waits for the GPUs, from since_us on; 0 = it does
 * not wait. */
int64_t gpu_settles_us(const struct gpu_now *now, int64_t since_us, int64_t now_us);
/* Returns the reason why programs cannot use the GPUs; "" = they can. */
const char *gpu_fault(const struct gpu_now *now);
/* Parse the texts of the two sources into now. */
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
