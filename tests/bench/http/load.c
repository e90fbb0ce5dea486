/* Load generator for HTTP/1.1: see the usage below. templates.h has the form of the file. */
#include "load_run.h"

#include "base/base.h"
#include "base/text/text.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: load --address HOST:PORT [options] TEMPLATES\n"
    "\n"
    "  --address A.B.C.D:PORT  server\n"
    "  --connections N         keep-alive connections (default 8)\n"
    "  --rate R                open loop: requests a second in all; 0: closed loop (default)\n"
    "  --seconds S             measured time (default 5)\n"
    "  --warmup S              time before it that does not count (default 0.5)\n"
    "  --counter N             {counter} of the first request (default: the time)\n"
    "  --seed N                for {random:N} and the mix (default 1)\n"
    "  --json                  one JSON object instead of a line of text\n"
    "\n"
    "Exit status: 0, 1 if a request failed or got a status of 400 or more, 2 wrong usage.\n";

struct args {
	const char *address, *path;
	int64_t counter, seed;
	struct load_conf conf;
	bool json;
};

static bool option_read(struct args *a, int key, const char *v)
{
	switch (key) {
	case 'a':
		a->address = v;
		return true;
	case 'c':
		return parse_i64(v, 1, 100000, &a->conf.connections);
	case 'r':
		return parse_f64(v, 0, 1e7, &a->conf.rate);
	case 's':
		return parse_duration_us(v, &a->conf.measure_us) && a->conf.measure_us > 0;
	case 'w':
		return parse_duration_us(v, &a->conf.warmup_us);
	case 'n':
		return parse_i64(v, 0, INT64_MAX / 2, &a->counter);
	case 'x':
		return parse_i64(v, 0, INT64_MAX, &a->seed);
	case 'j':
		a->json = true;
		return true;
	default:
		return false;
	}
}

static bool args_read(int argc, char **argv, struct args *a)
{
	static const struct option options[] = {
		{ "address", required_argument, NULL, 'a' },
		{ "connections", required_argument, NULL, 'c' },
		{ "rate", required_argument, NULL, 'r' },
		{ "seconds", required_argument, NULL, 's' },
		{ "warmup", required_argument, NULL, 'w' },
		{ "counter", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 'x' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int key;

	while ((key = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (!option_read(a, key, optarg)) {
			fprintf(stderr, "load: wrong option or value near '%s'\n",
			    optarg ? optarg : argv[optind - 1]);
			return false;
		}
	}
	a->path = argv[optind];
	a->conf.counter = a->counter;
	a->conf.seed = (uint64_t)a->seed;
	return a->address != NULL && optind + 1 == argc;
}

static bool address_read(struct arena *a, const char *text, struct sockaddr_in *ret)
{
	const char *colon = strrchr(text, ':');
	int64_t port = 0;

	if (colon == NULL || !parse_i64(colon + 1, 1, UINT16_MAX, &port)) {
		return false;
	}
	*ret = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	return inet_pton(AF_INET, arena_strndup(a, text, (size_t)(colon - text)), &ret->sin_addr) ==
	    1;
}

static bool file_add(const char *path, struct sbuf *ret)
{
	FILE *f = fopen(path, "re");
	char part[4096];
	size_t n;
	bool ok;

	if (f == NULL) {
		return false;
	}
	while ((n = fread(part, 1, sizeof(part), f)) > 0) {
		sbuf_add(ret, part, n);
	}
	ok = ferror(f) == 0;
	fclose(f);
	return ok;
}

static int64_t result_refused(const struct load_result *r)
{
	int64_t n = r->errors;

	for (int i = 400; i < LOAD_STATUS_MAX; i++) {
		n += r->statuses[i];
	}
	return n;
}

static void statuses_print(const struct load_result *r, const char *quote)
{
	const char *between = "";

	for (int i = 0; i < LOAD_STATUS_MAX; i++) {
		if (r->statuses[i] > 0) {
			printf("%s%s%d%s: %" PRId64, between, quote, i, quote, r->statuses[i]);
			between = ", ";
		}
	}
}

static double result_ms(const struct load_result *r, double share)
{
	return (double)histogram_percentile(&r->latency, share) / 1e3;
}

static void result_print_json(const struct args *a, const struct load_result *r)
{
	double seconds = (double)a->conf.measure_us / 1e6;
	int64_t n = r->latency.n;

	printf("{\"per_second\": %.3f, \"answered\": %" PRId64 ", \"late\": %" PRId64
	       ", \"unsent\": %" PRId64 ", \"errors\": %" PRId64 ", \"refused\": %" PRId64,
	    (double)r->answered / seconds, r->answered, r->late, r->unsent, r->errors,
	    result_refused(r));
	printf(", \"seconds\": %.3f, \"connections\": %" PRId64
	       ", \"rate\": %.3f, \"mean_ms\": %.3f",
	    seconds, a->conf.connections, a->conf.rate, histogram_mean(&r->latency) / 1e3);
	printf(", \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f",
	    result_ms(r, 0.5), result_ms(r, 0.99), result_ms(r, 0.999), result_ms(r, 1));
	printf(", \"samples\": %" PRId64 ", \"reply_bytes\": %" PRId64 ", \"statuses\": {", n,
	    r->reply_bytes);
	statuses_print(r, "\"");
	printf("}}\n");
}

static void result_print_text(const struct args *a, const struct load_result *r)
{
	double seconds = (double)a->conf.measure_us / 1e6;

	printf("%.0f replies/s, %" PRId64 " in %.1f s, %" PRId64 " connections, ",
	    (double)r->answered / seconds, r->answered, seconds, a->conf.connections);
	printf("p50 %.2f, p99 %.2f, p99.9 %.2f, max %.2f ms; status ", result_ms(r, 0.5),
	    result_ms(r, 0.99), result_ms(r, 0.999), result_ms(r, 1));
	statuses_print(r, "");
	printf("; %" PRId64 " late, %" PRId64 " not sent, %" PRId64 " errors%s%s\n", r->late,
	    r->unsent, r->errors, r->errors > 0 ? ": " : "", r->error);
}

int main(int argc, char **argv)
{
	struct args a = { .counter = clock_real.wall_us(&clock_real),
		.seed = 1,
		.conf = { .connections = 8,
		    .measure_us = 5 * SPOT_US_PER_S,
		    .warmup_us = SPOT_US_PER_S / 2 } };
	AUTO(arena) struct arena *arena = arena_new(0);
	static struct load_result result;
	struct templates templates;
	struct spot_err err = { 0 };
	AUTO(sbuf) struct sbuf text;

	sbuf_init(&text, 0);
	if (!args_read(argc, argv, &a) || !address_read(arena, a.address, &a.conf.address)) {
		fputs(usage_text, stderr);
		return 2;
	}
	if (!file_add(a.path, &text)) {
		fprintf(stderr, "load: cannot read '%s'\n", a.path);
		return 2;
	}
	if (templates_parse(arena, (struct str){ text.p, text.n }, a.address, &templates, &err) !=
	    SPOT_OK) {
		fprintf(stderr, "load: %s: %s\n", a.path, err.text);
		return 2;
	}
	load_run(&a.conf, &templates, &result);
	if (a.json) {
		result_print_json(&a, &result);
	} else {
		result_print_text(&a, &result);
	}
	return result_refused(&result) > 0 || result.latency.n == 0;
}
