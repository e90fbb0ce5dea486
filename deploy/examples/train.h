/*
 * A training loop that survives being moved: a two-layer perceptron learns a random function by SGD
 * with momentum. This header is the whole program except for where the arithmetic runs: train.c
 * runs it on the CPU, train.cu on a GPU. It compiles as C and as CUDA C++.
 *
 * Why a run that was stopped and resumed ends with the very same bits as one that was not:
 *   - every sum is taken by one thread in a fixed order (no atomics, no parallel reduction);
 *   - the data of step n are a pure function of (seed, n), so there is no reader position to keep;
 *   - the checkpoint holds all other state: weights, momenta, the step number and the loss of that
 *     step.
 * CPU and GPU results differ from each other (their tanhf and contraction differ).
 *
 * The agent's contract is all by environment; nothing is linked in. On SIGUSR1 the program saves a
 * checkpoint and continues; on SIGTERM it saves and exits with 0. It creates SPOT_SAVED_FILE after
 * each requested checkpoint, and writes SPOT_PROGRESS_FILE. It resumes from SPOT_CHECKPOINT_DIR.
 */
#ifndef EXAMPLE_TRAIN_H
#define EXAMPLE_TRAIN_H

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sha256.h"

#ifdef __CUDACC__
#define TRAIN_FN static __host__ __device__ inline
#else
#define TRAIN_FN static inline
#endif

#define TRAIN_INPUTS 32
#define TRAIN_BATCH 64
#define TRAIN_RATE 0.02f
#define TRAIN_MOMENTUM 0.9f
#define TRAIN_STEP_MS_MAX 3600000
/* a file for each step would cost short steps a tenth of their time */
#define TRAIN_PROGRESS_MS 100

/* ---- arithmetic: one function per element, called by a loop or by a kernel ------------------- */

/* Weights in one array so that a checkpoint is one write: W1[hidden][inputs] b1[hidden]
 * W2[hidden] b2, then the momenta in the same order. */
struct train_net {
	int hidden;
	float *weights; /* train_weights(hidden) floats */
	float *momenta; /* as many */
	float *input; /* [batch][inputs], of this step */
	float *target; /* [batch] */
	float *act; /* [batch][hidden] */
	float *back; /* [batch][hidden] */
	float *miss; /* [batch] prediction - target */
};

TRAIN_FN int train_weights(int hidden)
{
	return hidden * TRAIN_INPUTS + hidden + hidden + 1;
}

/* splitmix64's finaliser, as a function of a counter. */
TRAIN_FN uint64_t train_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Uniform in [-1, 1), exact in a float: 24 bits. */
TRAIN_FN float train_unit(uint64_t seed, uint64_t stream, uint64_t i)
{
	uint64_t bits = train_mix(train_mix(seed * 0x2545f4914f6cdd1dull + stream) + i) >> 40;

	return (float)bits * (1.0f / 8388608.0f) - 1.0f;
}

/* i in [0, batch*inputs) */
TRAIN_FN void train_input(struct train_net n, uint64_t seed, uint64_t step, int i)
{
	n.input[i] = train_unit(seed, 1000 + step, (uint64_t)i);
}

/* row in [0, batch). The target to learn: a fixed random plane, bent. */
TRAIN_FN void train_target(struct train_net n, uint64_t seed, int row)
{
	float sum = 0.0f;

	for (int c = 0; c < TRAIN_INPUTS; c++) {
		sum += train_unit(seed, 7, (uint64_t)c) * n.input[row * TRAIN_INPUTS + c];
	}
	n.target[row] = sum > 0.0f ? sum * 0.5f : sum * 0.1f;
}

TRAIN_FN float train_first_weight(uint64_t seed, int hidden, int i)
{
	float scale = i < hidden * TRAIN_INPUTS ? 0.17f : 0.1f;

	return scale * train_unit(seed, 3, (uint64_t)i);
}

/* i in [0, batch*hidden) */
TRAIN_FN void train_forward(struct train_net n, int i)
{
	int row = i / n.hidden, h = i % n.hidden;
	float sum = n.weights[n.hidden * TRAIN_INPUTS + h];

	for (int c = 0; c < TRAIN_INPUTS; c++) {
		sum += n.weights[h * TRAIN_INPUTS + c] * n.input[row * TRAIN_INPUTS + c];
	}
	n.act[i] = tanhf(sum);
}

/* row in [0, batch) */
TRAIN_FN void train_miss(struct train_net n, int row)
{
	const float *w2 = n.weights + n.hidden * (TRAIN_INPUTS + 1);
	float sum = w2[n.hidden];

	for (int h = 0; h < n.hidden; h++) {
		sum += w2[h] * n.act[row * n.hidden + h];
	}
	n.miss[row] = sum - n.target[row];
}

/* i in [0, batch*hidden) */
TRAIN_FN void train_backward(struct train_net n, int i)
{
	const float *w2 = n.weights + n.hidden * (TRAIN_INPUTS + 1);
	float a = n.act[i];

	n.back[i] = n.miss[i / n.hidden] * w2[i % n.hidden] * (1.0f - a * a);
}

/* i in [0, train_weights): gradient of weight i over the batch, then its update. */
TRAIN_FN void train_update(struct train_net n, int i)
{
	int in_w1 = n.hidden * TRAIN_INPUTS;
	float sum = 0.0f;

	for (int row = 0; row < TRAIN_BATCH; row++) {
		if (i < in_w1) {
			sum += n.back[row * n.hidden + i / TRAIN_INPUTS] *
			    n.input[row * TRAIN_INPUTS + i % TRAIN_INPUTS];
		} else if (i < in_w1 + n.hidden) {
			sum += n.back[row * n.hidden + (i - in_w1)];
		} else if (i < in_w1 + 2 * n.hidden) {
			sum += n.miss[row] * n.act[row * n.hidden + (i - in_w1 - n.hidden)];
		} else {
			sum += n.miss[row];
		}
	}
	n.momenta[i] = TRAIN_MOMENTUM * n.momenta[i] + sum * (1.0f / TRAIN_BATCH);
	n.weights[i] -= TRAIN_RATE * n.momenta[i];
}

/* ---- the device: the four functions that train.c and train.cu supply ------------------------- */

struct train_place; /* theirs */
static struct train_place *train_place_new(int hidden);
/* state: 2 * train_weights(hidden) floats, weights then momenta */
static void train_place_put(struct train_place *p, const float *state);
static void train_place_get(struct train_place *p, float *state);
static float train_place_step(struct train_place *p, uint64_t seed, uint64_t step); /* mean loss */

/* ---- the loop -------------------------------------------------------------------------------- */

struct train_options {
	uint64_t seed;
	int64_t steps, step_ms, save_every, report_every;
	int hidden;
	const char *dir, *pace; /* pace: NULL = step_ms holds to the end */
};

struct train_header {
	char magic[8];
	uint64_t seed, step;
	uint32_t hidden, inputs;
	float loss; /* of the last step: a run that is resumed behind it has no other */
	uint32_t zero;
};

static volatile sig_atomic_t train_asked_save, train_asked_stop;

static void train_on_signal(int signo)
{
	if (signo == SIGUSR1) {
		train_asked_save = 1;
	} else {
		train_asked_stop = 1;
	}
}

static void train_die(const char *what, const char *path)
{
	fprintf(stderr, "spot-train: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

static void train_path(char *dst, size_t n, const char *dir, const char *name)
{
	int len = snprintf(dst, n, "%s/%s", dir, name);

	if (len < 0 || (size_t)len >= n) {
		errno = ENAMETOOLONG;
		train_die("path", dir);
	}
}

/* Replaces path by the bytes, as a whole or not at all, also over a power cut. */
static void train_write_file(const char *path, const void *a, size_t a_n, const void *b, size_t b_n)
{
	char part[4200];
	int len = snprintf(part, sizeof(part), "%s.part", path);
	FILE *f;

	if (len < 0 || (size_t)len >= sizeof(part)) {
		train_die("path", path);
	}
	f = fopen(part, "wb");
	if (f == NULL || fwrite(a, 1, a_n, f) != a_n || (b_n > 0 && fwrite(b, 1, b_n, f) != b_n) ||
	    fflush(f) != 0 || fsync(fileno(f)) != 0 || fclose(f) != 0 || rename(part, path) != 0) {
		train_die("cannot write", path);
	}
}

static void train_sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	if (fd < 0 || fsync(fd) != 0) {
		train_die("cannot sync", dir);
	}
	close(fd);
}

/* The progress file is a hint for people: no fsync. */
static void train_progress(int64_t done, int64_t total)
{
	const char *path = getenv("SPOT_PROGRESS_FILE");
	char text[64], part[4200];
	int len, n;
	FILE *f;

	if (path == NULL) {
		return;
	}
	n = snprintf(part, sizeof(part), "%s.part", path);
	len = snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 "\n", done, total);
	if (n < 0 || (size_t)n >= sizeof(part)) {
		return;
	}
	f = fopen(part, "w");
	if (f == NULL) {
		return;
	}
	if (fwrite(text, 1, (size_t)len, f) == (size_t)len && fclose(f) == 0) {
		(void)rename(part, path);
	} else {
		(void)unlink(part);
	}
}

static void train_progress_due(struct timespec *last, int64_t done, int64_t total)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if ((now.tv_sec - last->tv_sec) * 1000 + (now.tv_nsec - last->tv_nsec) / 1000000 <
	    TRAIN_PROGRESS_MS) {
		return;
	}
	*last = now;
	train_progress(done, total);
}

static void train_save(const struct train_options *o, struct train_place *place, float *state,
    int64_t step, float loss, int asked)
{
	char path[4200], text[32];
	struct train_header head;
	const char *saved = getenv("SPOT_SAVED_FILE");
	size_t bytes = 2 * (size_t)train_weights(o->hidden) * sizeof(float);
	int len;

	memset(&head, 0, sizeof(head));
	memcpy(head.magic, "SPOTTRN2", 8);
	head.seed = o->seed;
	head.step = (uint64_t)step;
	head.hidden = (uint32_t)o->hidden;
	head.inputs = TRAIN_INPUTS;
	head.loss = loss;
	train_place_get(place, state);
	train_path(path, sizeof(path), o->dir, "model.ckpt");
	train_write_file(path, &head, sizeof(head), state, bytes);
	train_sync_dir(o->dir);
	train_progress(step, o->steps);
	if (asked && saved != NULL) {
		len = snprintf(text, sizeof(text), "%" PRId64 "\n", step);
		train_write_file(saved, text, (size_t)len, NULL, 0);
	}
	printf("step %" PRId64 ": checkpoint saved%s\n", step, asked ? " (asked for)" : "");
	fflush(stdout);
}

/* Returns the step to go on from; 0 and fresh weights when there is no checkpoint. A file that is
 * there but is not ours ends the program: overwriting it would destroy somebody's work. */
static int64_t train_load(const struct train_options *o, float *state, float *ret_loss)
{
	char path[4200];
	struct train_header head;
	int count = train_weights(o->hidden);
	FILE *f;

	train_path(path, sizeof(path), o->dir, "model.ckpt");
	f = fopen(path, "rb");
	if (f == NULL) {
		if (errno != ENOENT) {
			train_die("cannot read", path);
		}
		for (int i = 0; i < count; i++) {
			state[i] = train_first_weight(o->seed, o->hidden, i);
			state[count + i] = 0.0f;
		}
		return 0;
	}
	if (fread(&head, sizeof(head), 1, f) != 1 || memcmp(head.magic, "SPOTTRN2", 8) != 0 ||
	    head.seed != o->seed || head.hidden != (uint32_t)o->hidden ||
	    head.inputs != TRAIN_INPUTS ||
	    fread(state, sizeof(float), 2 * (size_t)count, f) != 2 * (size_t)count ||
	    fgetc(f) != EOF) {
		fprintf(stderr,
		    "spot-train: %s is damaged or belongs to another --seed or --hidden\n", path);
		exit(1);
	}
	fclose(f);
	*ret_loss = head.loss;
	printf("step %" PRIu64 ": resumed\n", head.step);
	fflush(stdout);
	return (int64_t)head.step;
}

static void train_result(const struct train_options *o, struct train_place *place, float *state,
    int64_t step, float loss)
{
	char path[4200], hex[65], text[256];
	struct example_sha256 sha;
	int len;

	train_place_get(place, state);
	example_sha256_init(&sha);
	example_sha256_add(&sha, state, 2 * (size_t)train_weights(o->hidden) * sizeof(float));
	example_sha256_end(&sha, hex);
	len = snprintf(text, sizeof(text), "steps %" PRId64 "\nloss %.9g\nsha256 %s\n", step,
	    (double)loss, hex);
	train_path(path, sizeof(path), o->dir, "result.txt");
	train_write_file(path, text, (size_t)len, NULL, 0);
	train_sync_dir(o->dir);
	printf("%s", text);
	fflush(stdout);
}

/* Sleeps until `at`; a signal ends the sleep early, the step it belongs to is complete anyway. A
 * loop that is over a second late does not hurry afterwards. */
static void train_pace(struct timespec *at, int64_t step_ms)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec > at->tv_sec + (time_t)(step_ms / 1000) + 1) {
		*at = now;
	}
	at->tv_nsec += (long)(step_ms % 1000) * 1000000L;
	at->tv_sec += (time_t)(step_ms / 1000);
	if (at->tv_nsec >= 1000000000L) {
		at->tv_nsec -= 1000000000L;
		at->tv_sec++;
	}
	while (!train_asked_save && !train_asked_stop &&
	    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, at, NULL) == EINTR)
		;
}

static int64_t train_number(const char *name, const char *text, int64_t min, int64_t max)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || v < min || v > max) {
		fprintf(stderr,
		    "spot-train: --%s %s: a number from %" PRId64 " to %" PRId64 " is wanted\n",
		    name, text, min, max);
		exit(2);
	}
	return v;
}

/* The pace file's value now; without a file, or with anything else in it, --step-ms holds. */
static int64_t train_step_ms(const struct train_options *o)
{
	FILE *f = o->pace != NULL ? fopen(o->pace, "re") : NULL;
	int64_t ms = o->step_ms, said;

	if (f == NULL) {
		return ms;
	}
	if (fscanf(f, "%" SCNd64, &said) == 1 && said >= 0 && said <= TRAIN_STEP_MS_MAX) {
		ms = said;
	}
	fclose(f);
	return ms;
}

static void train_usage(FILE *out)
{
	fprintf(out,
	    "usage: spot-train [options]\n"
	    "  --steps N         train for N steps in all (default 1000)\n"
	    "  --step-ms M       each step takes at least M ms (default 0)\n"
	    "  --pace FILE       the same, read from FILE at each step while it is there\n"
	    "  --seed N          data and first weights (default 1)\n"
	    "  --hidden N        hidden units (default 64)\n"
	    "  --save-every N    checkpoint every N steps, 0 = only when asked (default 0)\n"
	    "  --report-every N  print the loss every N steps (default 50)\n"
	    "  --dir DIR         checkpoint directory (default $SPOT_CHECKPOINT_DIR or ./ckpt)\n"
	    "SIGUSR1 saves and goes on, SIGTERM saves and exits 0.\n");
}

static void train_parse(int argc, char **argv, struct train_options *o)
{
	static const struct option longs[] = { { "steps", 1, NULL, 's' },
		{ "step-ms", 1, NULL, 'm' }, { "pace", 1, NULL, 'f' }, { "seed", 1, NULL, 'r' },
		{ "hidden", 1, NULL, 'w' }, { "save-every", 1, NULL, 'e' },
		{ "report-every", 1, NULL, 'p' }, { "dir", 1, NULL, 'd' }, { "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			o->steps = train_number("steps", optarg, 1, INT64_C(1) << 40);
			break;
		case 'm':
			o->step_ms = train_number("step-ms", optarg, 0, TRAIN_STEP_MS_MAX);
			break;
		case 'f':
			o->pace = optarg;
			break;
		case 'r':
			o->seed = (uint64_t)train_number("seed", optarg, 0, INT64_MAX);
			break;
		case 'w':
			o->hidden = (int)train_number("hidden", optarg, 1, 1 << 22);
			break;
		case 'e':
			o->save_every = train_number("save-every", optarg, 0, INT64_C(1) << 40);
			break;
		case 'p':
			o->report_every = train_number("report-every", optarg, 1, INT64_C(1) << 40);
			break;
		case 'd':
			o->dir = optarg;
			break;
		case 'h':
			train_usage(stdout);
			exit(0);
		default:
			train_usage(stderr);
			exit(2);
		}
	}
	if (optind != argc) {
		train_usage(stderr);
		exit(2);
	}
	if (mkdir(o->dir, 0755) != 0 && errno != EEXIST) {
		train_die("cannot make", o->dir);
	}
}

static void train_catch(int signo)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = train_on_signal;
	sigemptyset(&sa.sa_mask);
	sigaction(signo, &sa, NULL);
}

int main(int argc, char **argv)
{
	const char *dir = getenv("SPOT_CHECKPOINT_DIR");
	struct train_options o;
	struct train_place *place;
	struct timespec at, told;
	float *state, loss = 0.0f;
	int64_t step;

	train_catch(SIGUSR1); /* before anything slow: a signal without a handler would end us */
	train_catch(SIGTERM);
	train_catch(SIGINT);
	memset(&o, 0, sizeof(o));
	o.seed = 1;
	o.steps = 1000;
	o.hidden = 64;
	o.report_every = 50;
	o.dir = dir != NULL ? dir : "ckpt";
	train_parse(argc, argv, &o);
	state = (float *)malloc(2 * (size_t)train_weights(o.hidden) * sizeof(float));
	if (state == NULL) {
		train_die("memory for", "weights");
	}
	step = train_load(&o, state, &loss);
	place = train_place_new(o.hidden);
	train_place_put(place, state);
	train_progress(step, o.steps);
	clock_gettime(CLOCK_MONOTONIC, &at);
	told = at;
	while (step < o.steps) {
		loss = train_place_step(place, o.seed, (uint64_t)step);
		step++;
		if (step % o.report_every == 0 || step == o.steps) {
			printf("step %" PRId64 " of %" PRId64 ": loss %.6f\n", step, o.steps,
			    (double)loss);
			fflush(stdout);
		}
		if (step < o.steps) {
			train_pace(&at, train_step_ms(&o));
		}
		train_progress_due(&told, step, o.steps);
		if (train_asked_save || train_asked_stop ||
		    (o.save_every > 0 && step % o.save_every == 0)) {
			int asked = train_asked_save || train_asked_stop;

			train_asked_save = 0;
			train_save(&o, place, state, step, loss, asked);
		}
		if (train_asked_stop && step < o.steps) {
			printf("step %" PRId64 ": stopping as asked\n", step);
			return 0;
		}
	}
	train_save(&o, place, state, step, loss, 0);
	train_result(&o, place, state, step, loss);
	return 0;
}

#endif
