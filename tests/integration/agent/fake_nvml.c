/*
 * A libnvidia-ml.so.1 with scripted answers. $FAKE_NVML names a file with one word, read at each
 * call of nvmlDeviceGetCount:
 *
 * - "two": two GPUs
 * - "lost": the second one answers GPU_IS_LOST
 * - "hang": the call never returns
 * - "joining", "apart": the second one is not in the NVLink fabric yet, or could not get into it
 * - "nocuda": fake_cuda.c
 *
 * Each such call adds a byte to the file $FAKE_NVML.asked. With FAKE_OLD it is an old library:
 * unversioned symbols and the first memory structure only.
 */
#include "base/base.h"

#include <unistd.h>

struct memory_v1 {
	unsigned long long total, free, used;
};
struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
struct utilization {
	unsigned gpu, memory;
};

static char script[16];

static void script_read(void)
{
	const char *path = getenv("FAKE_NVML");
	FILE *f = path != NULL ? fopen(path, "re") : NULL;

	if (f == NULL || fscanf(f, "%15s", script) != 1) {
		memcpy(script, "two", 4);
	}
	if (f != NULL) {
		fclose(f);
	}
}

static void asked_write(void)
{
	const char *path = getenv("FAKE_NVML");
	char name[4096];
	FILE *f;

	if (path == NULL ||
	    (size_t)snprintf(name, sizeof(name), "%s.asked", path) >= sizeof(name)) {
		return;
	}
	f = fopen(name, "ae");
	if (f != NULL) {
		(void)fputc('.', f);
		fclose(f);
	}
}

static unsigned index_of(void *device)
{
	return (unsigned)(uintptr_t)device - 1;
}

#ifdef FAKE_OLD
#define INIT nvmlInit
#define COUNT nvmlDeviceGetCount
#define HANDLE nvmlDeviceGetHandleByIndex
#else
#define INIT nvmlInit_v2
#define COUNT nvmlDeviceGetCount_v2
#define HANDLE nvmlDeviceGetHandleByIndex_v2
#endif

int INIT(void);
int INIT(void)
{
	return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned n);
int nvmlSystemGetDriverVersion(char *text, unsigned n)
{
	(void)snprintf(text, n, "550.54.15");
	return 0;
}

int COUNT(unsigned *ret);
int COUNT(unsigned *ret)
{
	script_read();
	asked_write();
	while (strcmp(script, "hang") == 0) {
		(void)pause();
	}
	*ret = 2;
	return 0;
}

int HANDLE(unsigned i, void **ret);
int HANDLE(unsigned i, void **ret)
{
	*ret = (void *)(uintptr_t)(i + 1);
	return i < 2 ? 0 : 2;
}

int nvmlDeviceGetName(void *d, char *text, unsigned n);
int nvmlDeviceGetName(void *d, char *text, unsigned n)
{
	(void)d;
	(void)snprintf(text, n, "NVIDIA \"Test\" GPU");
	return 0;
}

int nvmlDeviceGetUUID(void *d, char *text, unsigned n);
int nvmlDeviceGetUUID(void *d, char *text, unsigned n)
{
	(void)snprintf(text, n, "GPU-%u", index_of(d));
	return 0;
}

#ifdef FAKE_OLD
int nvmlDeviceGetMemoryInfo(void *d, struct memory_v1 *m);
int nvmlDeviceGetMemoryInfo(void *d, struct memory_v1 *m)
{
	*m = (struct memory_v1){ .total = 16384ull << 20, .used = (100ull + index_of(d)) << 20 };
	return 0;
}
#else
int nvmlDeviceGetMemoryInfo_v2(void *d, struct memory_v2 *m);
int nvmlDeviceGetMemoryInfo_v2(void *d, struct memory_v2 *m)
{
	if (m->version != 0x02000028) {
		return 25; /* ARGUMENT_VERSION_MISMATCH */
	}
	if (strcmp(script, "lost") == 0 && index_of(d) == 1) {
		return 15;
	}
	m->total = 81920ull << 20;
	m->used = (1000ull + index_of(d)) << 20;
	return 0;
}
#endif

int nvmlDeviceGetUtilizationRates(void *d, struct utilization *u);
int nvmlDeviceGetUtilizationRates(void *d, struct utilization *u)
{
	u->gpu = index_of(d) == 0 ? 40 : 60;
	return 0;
}

int nvmlDeviceGetPowerUsage(void *d, unsigned *mw);
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw)
{
	*mw = 300000 + index_of(d);
	return 0;
}

int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius);
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius)
{
	(void)d;
	(void)celsius;
	return sensor == 0 ? 3 : 2; /* NOT_SUPPORTED: the value is left out */
}

#ifndef FAKE_OLD
struct fabric {
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
};

int nvmlDeviceGetGpuFabricInfo(void *d, struct fabric *f);
int nvmlDeviceGetGpuFabricInfo(void *d, struct fabric *f)
{
	bool second = index_of(d) == 1;

	*f = (struct fabric){ .state = second && strcmp(script, "joining") == 0 ? 2 : 3,
		.status = second && strcmp(script, "apart") == 0 ? 999 : 0 };
	return 0;
}
#endif

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code)
{
	return code == 15 ? "GPU is lost" : "error";
}
