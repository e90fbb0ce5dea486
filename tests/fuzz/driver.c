/*
 * Replays a corpus: every file of a folder as it is, then seeded mutations of them. Needs no
 * fuzzing engine, so it runs in the unit suite with any compiler and under any sanitizer.
 *
 *	driver FOLDER [MUTATIONS [SEED]]      driver FILE
 *
 * An input that brings the target down is left as ./fuzz-crash-PID.
 */
#include "base/base.h"
#include "fuzz.h"

#include "base/text/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 4096
#define INPUT_MAX ((size_t)1 << 17)
#define SLOW_S 20

static struct {
	uint8_t *p;
	size_t n;
} corpus[FILES_MAX];
static size_t corpus_n;
static uint8_t input[INPUT_MAX];
static size_t input_n;

static void keep_input(int signo)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "fuzz-crash-%d", (int)getpid());
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0) {
		ssize_t done = write(fd, input, input_n);

		(void)done;
		close(fd);
		fprintf(stderr, "signal %d; the input is in ./%s\n", signo, name);
	}
	signal(signo, SIG_DFL);
	raise(signo);
}

static void run_input(void)
{
	/* An exact copy on the heap: reading one byte behind it is caught under ASan. */
	uint8_t *copy = malloc(input_n + (input_n == 0));

	assert(copy != NULL);
	memcpy(copy, input, input_n);
	alarm(SLOW_S);
	(void)fuzz_one(copy, input_n);
	alarm(0);
	free(copy);
}

static void input_load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	n = read(fd, input, sizeof(input));
	close(fd);
	assert(n >= 0 && corpus_n < FILES_MAX);
	corpus[corpus_n].p = malloc((size_t)n + 1);
	assert(corpus[corpus_n].p != NULL);
	memcpy(corpus[corpus_n].p, input, (size_t)n);
	corpus[corpus_n++].n = (size_t)n;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_folder(const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, by_name);

	if (n < 0) {
		fprintf(stderr, "%s: %s\n", dir, strerror(errno));
		exit(1);
	}
	for (int i = 0; i < n; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		if (names[i]->d_name[0] != '.') {
			input_load(path);
		}
		free(names[i]);
	}
	free(names);
}

/* ---- mutations ------------------------------------------------------------------------------- */

static void bytes_insert(size_t at, const void *p, size_t n)
{
	n = MIN(n, INPUT_MAX - input_n);
	memmove(input + at + n, input + at, input_n - at);
	memcpy(input + at, p, n);
	input_n += n;
}

static void bytes_graft(struct rng *r, size_t at)
{
	size_t k = rng_below(r, corpus_n), from, n;

	if (corpus[k].n > 0) {
		from = rng_below(r, corpus[k].n);
		n = 1 + rng_below(r, corpus[k].n - from);
		bytes_insert(at, corpus[k].p + from, n);
	}
}

static void mutate_once(struct rng *r)
{
	static const char *const words[] = {
		"0", "-1", "9223372036854775807", "-9223372036854775808", "1e999",
		"18446744073709551616", "null", "true", "{", "}", "[", "]", "\"", "\\", "<", ">",
		"&", "\n", "\r\n", ":", ",", "\xff\xfe", "\\u0000", "%00", "%", "Z",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	};
	size_t at = rng_below(r, input_n + 1),
	       n = at < input_n ? 1 + rng_below(r, MIN(input_n - at, (size_t)64)) : 0;
	const char *word = words[rng_below(r, ARRAY_LEN(words))];

	switch (rng_below(r, 7)) {
	case 0:
		input_n = at;
		break;
	case 1:
		if (at < input_n) {
			input[at] = (uint8_t)rng_below(r, 256);
		}
		break;
	case 2:
		if (at < input_n) {
			input[at] ^= (uint8_t)(1u << rng_below(r, 8));
		}
		break;
	case 3:
		memmove(input + at, input + at + n, input_n - at - n);
		input_n -= n;
		break;
	case 4: {
		uint8_t piece[64];

		memcpy(piece, input + at, n);
		bytes_insert(at, piece, n);
		break;
	}
	case 5:
		bytes_insert(at, word, strlen(word));
		break;
	default:
		bytes_graft(r, at);
		break;
	}
}

static void run_mutations(uint64_t count, uint64_t seed)
{
	struct rng r;

	rng_seeded_init(&r, seed);
	for (uint64_t i = 0; i < count; i++) {
		size_t k = rng_below(&r, corpus_n), rounds = 1 + rng_below(&r, 6);

		input_n = corpus[k].n;
		memcpy(input, corpus[k].p, input_n);
		while (rounds-- > 0) {
			mutate_once(&r);
		}
		run_input();
	}
}

int main(int argc, char **argv)
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM };
	uint64_t mutations = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000,
		 seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 20260101;
	struct stat st;

	if (argc < 2 || stat(argv[1], &st) != 0) {
		fprintf(stderr, "usage: %s FOLDER [MUTATIONS [SEED]] | FILE\n", argv[0]);
		return 2;
	}
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		signal(signals[i], keep_input);
	}
	if (S_ISDIR(st.st_mode)) {
		load_folder(argv[1]);
	} else {
		input_load(argv[1]);
		mutations = 0;
	}
	if (corpus_n == 0) {
		fprintf(stderr, "%s: no inputs\n", argv[1]);
		return 1;
	}
	for (size_t i = 0; i < corpus_n; i++) {
		input_n = corpus[i].n;
		memcpy(input, corpus[i].p, input_n);
		run_input();
	}
	run_mutations(mutations, seed);
	printf("%zu files, %llu mutations\n", corpus_n, (unsigned long long)mutations);
	for (size_t i = 0; i < corpus_n; i++) {
		free(corpus[i].p);
	}
	return 0;
}
