/*
 * The suite's load of a GPU. Holds --mib MiB of GPU memory, full of numbers that tell their place,
 * and computes without a pause (--busy) until SIGTERM. At SIGUSR1 it writes its memory to
 * SPOT_CHECKPOINT_DIR/memory.bin. If that file exists at the start, it reads it back into GPU
 * memory and checks each number. With --crash a kernel writes to an unmapped address.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime.h>

#define PIECE_MIB	 64
#define PIECE_WORDS	 (PIECE_MIB << 17)
#define PIECE_BYTES	 ((size_t)PIECE_MIB << 20)
#define PIECES_MAX	 2048
#define GPU_THREADS	 256
#define GPU_BLOCKS	 2048
#define BUSY_ROUNDS	 20000
#define EXIT_CUDA	 7

static volatile sig_atomic_t asked_save, asked_stop;
static uint64_t *pieces[PIECES_MAX], *host;
static int piece_count;

static void on_signal(int signo)
{
	if (signo == SIGUSR1)
		asked_save = 1;
	else
		asked_stop = 1;
}

static void cuda_check(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "gpu-load: %s: %s (%d)\n", what, cudaGetErrorString(e), (int)e);
	exit(EXIT_CUDA);
}

static void die(const char *what)
{
	fprintf(stderr, "gpu-load: %s: %s\n", what, strerror(errno));
	exit(1);
}

__host__ __device__ static inline uint64_t number_at(uint64_t i)
{
	uint64_t x = i + 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	return x ^ (x >> 31);
}

__global__ static void kernel_fill(uint64_t *p, uint64_t first)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < PIECE_WORDS; i += (uint64_t)gridDim.x * blockDim.x)
		p[i] = number_at(first + i);
}

__global__ static void kernel_look(const uint64_t *p, uint64_t first, unsigned long long *wrong)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < PIECE_WORDS; i += (uint64_t)gridDim.x * blockDim.x)
		if (p[i] != number_at(first + i))
			atomicAdd(wrong, 1ull);
}

__global__ static void kernel_busy(float *sink, int rounds)
{
	float x = (float)threadIdx.x;

	for (int i = 0; i < rounds; i++)
		x = x * 1.0001f + 0.5f;
	if (x == 12345.0f)
		*sink = x;
}

__global__ static void kernel_crash(int *p)
{
	*p = 1;
}

static void memory_take(int mib)
{
	piece_count = mib / PIECE_MIB;
	if (piece_count > PIECES_MAX)
		piece_count = PIECES_MAX;
	cuda_check(cudaMallocHost((void **)&host, PIECE_BYTES), "cudaMallocHost");
	for (int k = 0; k < piece_count; k++) {
		cuda_check(cudaMalloc((void **)&pieces[k], PIECE_BYTES), "cudaMalloc");
		kernel_fill<<<GPU_BLOCKS, GPU_THREADS>>>(pieces[k], (uint64_t)k * PIECE_WORDS);
	}
	cuda_check(cudaDeviceSynchronize(), "fill");
}

static void file_name(char *dst, size_t n, const char *name)
{
	const char *dir = getenv("SPOT_CHECKPOINT_DIR");
	int len = snprintf(dst, n, "%s/%s", dir != NULL ? dir : ".", name);

	if (len < 0 || (size_t)len >= n)
		die("path");
}

static void saved_tell(void)
{
	const char *path = getenv("SPOT_SAVED_FILE");
	FILE *f = path != NULL ? fopen(path, "w") : NULL;

	if (f == NULL || fprintf(f, "1\n") < 0 || fclose(f) != 0)
		die("SPOT_SAVED_FILE");
}

static void save(void)
{
	char part[4200], path[4200];
	FILE *f;

	file_name(part, sizeof(part), "memory.bin.part");
	file_name(path, sizeof(path), "memory.bin");
	f = fopen(part, "wb");
	if (f == NULL)
		die(part);
	(void)setvbuf(f, NULL, _IONBF, 0);
	for (int k = 0; k < piece_count; k++) {
		cuda_check(cudaMemcpy(host, pieces[k], PIECE_BYTES, cudaMemcpyDeviceToHost), "copy from GPU");
		if (fwrite(host, 1, PIECE_BYTES, f) != PIECE_BYTES)
			die(part);
	}
	if (fsync(fileno(f)) != 0 || fclose(f) != 0 || rename(part, path) != 0)
		die(path);
	saved_tell();
	printf("saved %d MiB\n", piece_count * PIECE_MIB);
	fflush(stdout);
}

static void restore(void)
{
	unsigned long long *wrong, count = 0;
	char path[4200];
	FILE *f;

	file_name(path, sizeof(path), "memory.bin");
	f = fopen(path, "rb");
	if (f == NULL)
		return;
	cuda_check(cudaMalloc((void **)&wrong, sizeof(*wrong)), "cudaMalloc");
	cuda_check(cudaMemset(wrong, 0, sizeof(*wrong)), "cudaMemset");
	for (int k = 0; k < piece_count; k++) {
		if (fread(host, 1, PIECE_BYTES, f) != PIECE_BYTES)
			die(path);
		cuda_check(cudaMemcpy(pieces[k], host, PIECE_BYTES, cudaMemcpyHostToDevice), "copy to GPU");
		kernel_look<<<GPU_BLOCKS, GPU_THREADS>>>(pieces[k], (uint64_t)k * PIECE_WORDS, wrong);
	}
	cuda_check(cudaMemcpy(&count, wrong, sizeof(count), cudaMemcpyDeviceToHost), "look");
	printf("restored %d MiB, %llu numbers wrong, %s\n", piece_count * PIECE_MIB, count, fgetc(f) == EOF ? "no more" : "and more");
	fclose(f);
}

static void crash(void)
{
	kernel_crash<<<1, 1>>>((int *)0x40);
	cuda_check(cudaDeviceSynchronize(), "crash");
}

static void loop(int busy)
{
	while (!asked_stop) {
		if (asked_save) {
			asked_save = 0;
			save();
		}
		if (busy) {
			kernel_busy<<<GPU_BLOCKS, GPU_THREADS>>>((float *)host, BUSY_ROUNDS);
			cuda_check(cudaDeviceSynchronize(), "busy");
		} else {
			(void)poll(NULL, 0, 20);
		}
	}
}

int main(int argc, char **argv)
{
	int mib = PIECE_MIB, busy = 0, wants_crash = 0;

	(void)signal(SIGUSR1, on_signal);
	(void)signal(SIGTERM, on_signal);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--busy") == 0)
			busy = 1;
		else if (strcmp(argv[i], "--crash") == 0)
			wants_crash = 1;
		else if (strcmp(argv[i], "--mib") == 0 && i + 1 < argc)
			mib = (int)strtol(argv[++i], NULL, 10);
		else
			return fprintf(stderr, "usage: gpu-load [--mib N] [--busy] [--crash]\n") < 0 ? 1 : 2;
	}
	memory_take(mib);
	restore();
	printf("pid %d holds %d MiB\n", (int)getpid(), piece_count * PIECE_MIB);
	fflush(stdout);
	if (wants_crash)
		crash();
	loop(busy);
	return 0;
}
