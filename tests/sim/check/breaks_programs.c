/* Breaks of what the programs say of themselves: each is wrong while the rules are asked. */
#include "sim/world/world.h"
#include "sim/check/breaks.h"
#include "sim/check/check.h"
#include "sim/host/host.h"

static struct host_progress *programs_get(size_t *n)
{
	const struct host_progress *p;

	*n = host_programs(&p);
	return (struct host_progress *)(uintptr_t)p;
}

void epoch_twice(void)
{
	size_t n;
	struct host_progress *p = programs_get(&n);

	for (size_t i = 1; i < n; i++) {
		struct host_progress had = p[i];

		memcpy(p[i].job, p[0].job, sizeof(p[i].job));
		p[i].epoch = p[0].epoch;
		check_rules_end();
		p[i] = had;
	}
}

void began_long_ago(void)
{
	size_t n;
	struct host_progress *p = programs_get(&n);

	for (size_t i = 0; i < n; i++) {
		int64_t had = p[i].begun_us;

		p[i].begun_us = 1;
		check_rules_end();
		p[i].begun_us = had;
	}
}

void begun_twice(void)
{
	size_t n;
	struct host_progress *p = programs_get(&n);

	for (size_t i = 1; i < n; i++) {
		struct host_progress had = p[i];

		p[i] = p[0];
		check_rules_end();
		p[i] = had;
	}
}

void begun_anew(void)
{
	size_t n;
	struct host_progress *p = programs_get(&n);

	for (size_t i = 0; i < n; i++) {
		int64_t had = p[i].begun_at;

		p[i].begun_at = 0;
		check_progress_again();
		check_rules_end();
		p[i].begun_at = had;
	}
}

void alien_found(void)
{
	size_t n;
	struct host_progress *p = programs_get(&n);

	for (size_t i = 0; i < n; i++) {
		p[i].alien = !p[i].alien;
	}
	check_progress_again();
	check_rules_end();
	for (size_t i = 0; i < n; i++) {
		p[i].alien = !p[i].alien;
	}
}
