/* The training example on the CPU; the program is train.h. */
#include "train.h"

struct train_place {
	struct train_net net;
};

static float *floats_new(size_t n)
{
	float *p = (float *)calloc(n, sizeof(float));

	if (p == NULL) {
		train_die("memory for", "the model");
	}
	return p;
}

static struct train_place *train_place_new(int hidden)
{
	struct train_place *p = (struct train_place *)calloc(1, sizeof(*p));
	size_t weights = (size_t)train_weights(hidden), wide = (size_t)TRAIN_BATCH * (size_t)hidden;

	if (p == NULL) {
		train_die("memory for", "the model");
	}
	p->net.hidden = hidden;
	p->net.weights = floats_new(weights);
	p->net.momenta = floats_new(weights);
	p->net.input = floats_new((size_t)TRAIN_BATCH * TRAIN_INPUTS);
	p->net.target = floats_new(TRAIN_BATCH);
	p->net.act = floats_new(wide);
	p->net.back = floats_new(wide);
	p->net.miss = floats_new(TRAIN_BATCH);
	return p;
}

static void train_place_put(struct train_place *p, const float *state)
{
	size_t n = (size_t)train_weights(p->net.hidden);

	memcpy(p->net.weights, state, n * sizeof(float));
	memcpy(p->net.momenta, state + n, n * sizeof(float));
}

static void train_place_get(struct train_place *p, float *state)
{
	size_t n = (size_t)train_weights(p->net.hidden);

	memcpy(state, p->net.weights, n * sizeof(float));
	memcpy(state + n, p->net.momenta, n * sizeof(float));
}

static float train_place_step(struct train_place *p, uint64_t seed, uint64_t step)
{
	int wide = TRAIN_BATCH * p->net.hidden;
	float loss = 0.0f;

	for (int i = 0; i < TRAIN_BATCH * TRAIN_INPUTS; i++) {
		train_input(p->net, seed, step, i);
	}
	for (int row = 0; row < TRAIN_BATCH; row++) {
		train_target(p->net, seed, row);
	}
	for (int i = 0; i < wide; i++) {
		train_forward(p->net, i);
	}
	for (int row = 0; row < TRAIN_BATCH; row++) {
		train_miss(p->net, row);
	}
	for (int i = 0; i < wide; i++) {
		train_backward(p->net, i);
	}
	for (int i = 0; i < train_weights(p->net.hidden); i++) {
		train_update(p->net, i);
	}
	for (int row = 0; row < TRAIN_BATCH; row++) {
		loss += p->net.miss[row] * p->net.miss[row];
	}
	return loss / (2.0f * TRAIN_BATCH);
}
