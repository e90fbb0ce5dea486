/*
 * The training example on one GPU; the program is train.h. Build: nvcc -O2 -o spot-train-cuda
 * train.cu
 *
 * One thread computes one element and takes its sums in the same fixed order in every run. So a
 * resumed run ends with the same bits as an uninterrupted one on the same GPU model. The mean loss
 * is summed on the host for the same reason.
 */
#include "train.h"

#include <cuda_runtime.h>

#define TRAIN_THREADS 128

struct train_place {
	struct train_net net; /* device pointers */
	float miss[TRAIN_BATCH];
};

static void cuda_check(cudaError_t e, const char *what)
{
	if (e != cudaSuccess) {
		fprintf(stderr, "spot-train: %s: %s\n", what, cudaGetErrorString(e));
		exit(1);
	}
}

static int blocks(int n)
{
	return (n + TRAIN_THREADS - 1) / TRAIN_THREADS;
}

__global__ static void kernel_input(struct train_net n, uint64_t seed, uint64_t step)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < TRAIN_BATCH * TRAIN_INPUTS)
		train_input(n, seed, step, i);
}

__global__ static void kernel_target(struct train_net n, uint64_t seed)
{
	int row = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (row < TRAIN_BATCH)
		train_target(n, seed, row);
}

__global__ static void kernel_forward(struct train_net n)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < TRAIN_BATCH * n.hidden)
		train_forward(n, i);
}

__global__ static void kernel_miss(struct train_net n)
{
	int row = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (row < TRAIN_BATCH)
		train_miss(n, row);
}

__global__ static void kernel_backward(struct train_net n)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < TRAIN_BATCH * n.hidden)
		train_backward(n, i);
}

__global__ static void kernel_update(struct train_net n)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < train_weights(n.hidden))
		train_update(n, i);
}

static float *device_floats(size_t n)
{
	void *p = NULL;

	cuda_check(cudaMalloc(&p, n * sizeof(float)), "cudaMalloc");
	cuda_check(cudaMemset(p, 0, n * sizeof(float)), "cudaMemset");
	return (float *)p;
}

static struct train_place *train_place_new(int hidden)
{
	struct train_place *p = (struct train_place *)calloc(1, sizeof(*p));
	size_t weights = (size_t)train_weights(hidden), wide = (size_t)TRAIN_BATCH * (size_t)hidden;
	struct cudaDeviceProp prop;

	if (p == NULL)
		train_die("memory for", "the model");
	cuda_check(cudaSetDevice(0), "no usable GPU");
	cuda_check(cudaGetDeviceProperties(&prop, 0), "cudaGetDeviceProperties");
	printf("GPU %s, %zu MiB\n", prop.name, prop.totalGlobalMem >> 20);
	p->net.hidden = hidden;
	p->net.weights = device_floats(weights);
	p->net.momenta = device_floats(weights);
	p->net.input = device_floats((size_t)TRAIN_BATCH * TRAIN_INPUTS);
	p->net.target = device_floats(TRAIN_BATCH);
	p->net.act = device_floats(wide);
	p->net.back = device_floats(wide);
	p->net.miss = device_floats(TRAIN_BATCH);
	return p;
}

static void train_place_put(struct train_place *p, const float *state)
{
	size_t n = (size_t)train_weights(p->net.hidden), bytes = n * sizeof(float);

	cuda_check(cudaMemcpy(p->net.weights, state, bytes, cudaMemcpyHostToDevice), "copy to GPU");
	cuda_check(cudaMemcpy(p->net.momenta, state + n, bytes, cudaMemcpyHostToDevice), "copy to GPU");
}

static void train_place_get(struct train_place *p, float *state)
{
	size_t n = (size_t)train_weights(p->net.hidden), bytes = n * sizeof(float);

	cuda_check(cudaMemcpy(state, p->net.weights, bytes, cudaMemcpyDeviceToHost), "copy from GPU");
	cuda_check(
	    cudaMemcpy(state + n, p->net.momenta, bytes, cudaMemcpyDeviceToHost), "copy from GPU");
}

/* Kernels of one stream run in order: no synchronisation is needed between them. */
static float train_place_step(struct train_place *p, uint64_t seed, uint64_t step)
{
	struct train_net n = p->net;
	float loss = 0.0f;

	kernel_input<<<blocks(TRAIN_BATCH * TRAIN_INPUTS), TRAIN_THREADS>>>(n, seed, step);
	kernel_target<<<blocks(TRAIN_BATCH), TRAIN_THREADS>>>(n, seed);
	kernel_forward<<<blocks(TRAIN_BATCH * n.hidden), TRAIN_THREADS>>>(n);
	kernel_miss<<<blocks(TRAIN_BATCH), TRAIN_THREADS>>>(n);
	kernel_backward<<<blocks(TRAIN_BATCH * n.hidden), TRAIN_THREADS>>>(n);
	kernel_update<<<blocks(train_weights(n.hidden)), TRAIN_THREADS>>>(n);
	cuda_check(cudaGetLastError(), "kernel launch");
	cuda_check(cudaMemcpy(p->miss, n.miss, sizeof(p->miss), cudaMemcpyDeviceToHost), "step");
	for (int row = 0; row < TRAIN_BATCH; row++)
		loss += p->miss[row] * p->miss[row];
	return loss / (2.0f * TRAIN_BATCH);
}
