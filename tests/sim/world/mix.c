#include "base/base.h"
#include "sim/world/mix.h"
#include "sim/world/profiles.h"

static const struct mix_name {
	const char *name;
	size_t at;
} mix_names[] = {
#define X(n) { #n, offsetof(struct faults_mix, n) },
	FAULT_LIST(X)
#undef X
};

static const struct faults_mix mix_none = { 0 };
static const struct faults_mix mix_light = { .net_lost = 300,
	.net_reset = 500,
	.net_reply_lost = 500,
	.net_twice = 300,
	.launch_twice = 50000,
	.net_slow = 1000,
	.db_lost_before = 200,
	.db_lost_after = 200,
	.db_slow = 300,
	.crash = 12,
	.part = 8000,
	.reclaim = 25000,
	.kill = 8000,
	.stock = 20000,
	.price = 10000,
	.zombie = 100000,
	.lie = 30000,
	.copy_lost = 20000,
	.absent = 5000,
	.cut_commit = 5000,
	.rival = 250000,
	.pause = 8,
	.pause_claim = 20000,
	.clock = 3000,
	.clock_far = 1500,
	.agent_clock = 5000,
	.reboot = 5000,
	.drought = 5000,
	.silent_feed = 5000,
	.cluster = 100000,
	.pod = 50000,
	.stream_cut = 10000,
	.unheard_end = 400000,
	.absent_end = 400000,
	.gang_kill = 100000,
	.clock_boot = 5000,
	.lie_act = 20000,
	.recommend = 10000 };
static const struct faults_mix mix_heavy = { .net_lost = 4000,
	.net_reset = 6000,
	.net_reply_lost = 6000,
	.net_twice = 4000,
	.launch_twice = 200000,
	.net_slow = 8000,
	.db_lost_before = 2500,
	.db_lost_after = 2500,
	.db_slow = 2000,
	.crash = 120,
	.part = 50000,
	.reclaim = 90000,
	.kill = 40000,
	.stock = 80000,
	.price = 50000,
	.zombie = 300000,
	.lie = 150000,
	.copy_lost = 100000,
	.absent = 20000,
	.cut_commit = 40000,
	.rival = 250000,
	.pause = 60,
	.pause_claim = 100000,
	.clock = 15000,
	.clock_far = 8000,
	.agent_clock = 30000,
	.reboot = 20000,
	.drought = 20000,
	.silent_feed = 20000,
	.cluster = 300000,
	.pod = 150000,
	.stream_cut = 60000,
	.unheard_end = 400000,
	.absent_end = 400000,
	.gang_kill = 300000,
	.clock_boot = 20000,
	.lie_act = 60000,
	.recommend = 40000 };

/* Clocks are wrong, and nothing else is: no excuse for anything that a clock is not the reason
 * of. */
static const struct faults_mix mix_clocks = { .rival = 250000,
	.clock = 60000,
	.clock_far = 60000,
	.agent_clock = 60000,
	.clock_boot = 60000 };

int64_t *mix_at(struct faults_mix *m, size_t fault)
{
	return (int64_t *)(void *)((char *)m + mix_names[fault].at);
}

static bool mix_set(struct faults_mix *m, const char *name, size_t n, int64_t ppm)
{
	for (size_t i = 0; i < ARRAY_LEN(mix_names); i++) {
		if (strlen(mix_names[i].name) == n && memcmp(mix_names[i].name, name, n) == 0) {
			*mix_at(m, i) = ppm;
			return true;
		}
	}
	return false;
}

static const struct {
	const char *name;
	const struct faults_mix *mix;
} mixes[] = { { "none", &mix_none }, { "light", &mix_light }, { "heavy", &mix_heavy },
	{ "clocks", &mix_clocks } };

bool mix_parse(const char *text, struct faults_mix *ret)
{
	*ret = mix_none;
	for (size_t i = 0; i < ARRAY_LEN(mixes); i++) {
		if (strcmp(text, mixes[i].name) == 0) {
			*ret = *mixes[i].mix;
			return true;
		}
	}
	while (*text != '\0') {
		const char *eq = strchr(text, '=');
		char *end;

		if (eq == NULL ||
		    !mix_set(ret, text, (size_t)(eq - text), strtoll(eq + 1, &end, 10))) {
			return false;
		}
		text = *end == ',' ? end + 1 : end;
	}
	return true;
}

void mix_text(const struct faults_mix *m, char *buf, size_t n)
{
	size_t at = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(mix_names); i++) {
		int64_t ppm = *(const int64_t *)(const void *)((const char *)m + mix_names[i].at);

		if (ppm > 0) {
			at += (size_t)snprintf(buf + at, n - at, "%s%s=%" PRId64, at > 0 ? "," : "",
			    mix_names[i].name, ppm);
		}
	}
	if (at == 0) {
		snprintf(buf, n, "none");
	}
}

/* ---- by the seed ----------------------------------------------------------------------------- */

/* Of dice of their own, since nothing else may depend on the command line. */
static bool is_small(uint64_t seed, struct rng *ret)
{
	rng_seeded_init(ret, seed ^ UINT64_C(0x6a09e667f3bcc909));
	return seed >= SIM_SMALL_FROM && rng_below(ret, SIM_FULL) != 0;
}

void size_of_seed(uint64_t seed, int64_t minutes, struct world_conf *ret)
{
	struct rng r;

	ret->small = is_small(seed, &r);
	ret->jobs = rng_below(&r, 3) == 0 ? 2 : 1;
	ret->minutes = ret->small ? 5 + (int64_t)rng_below(&r, 6) : 20;
	if (profile_of_seed(PROFILE_MOVING_FLEETS, seed, ret->small)) {
		ret->minutes = 40;
	}
	if (minutes > 0) {
		ret->minutes = minutes;
	}
}

/* Is asked each minute, of the whole world: a small one has few minutes. */
static bool by_the_minute(size_t fault)
{
#define AT(name) (offsetof(struct faults_mix, name) / sizeof(int64_t))
	static const size_t minutely[] = { AT(part), AT(reclaim), AT(kill), AT(stock), AT(price),
		AT(lie), AT(clock), AT(clock_far), AT(agent_clock), AT(reboot), AT(drought),
		AT(silent_feed), AT(cluster), AT(pod), AT(lag), AT(db_refuse), AT(planned),
		AT(gang_kill), AT(clock_boot), AT(recommend), AT(halt), AT(front), AT(frozen_feed),
		AT(far) };
#undef AT

	for (size_t i = 0; i < ARRAY_LEN(minutely); i++) {
		if (minutely[i] == fault) {
			return true;
		}
	}
	return false;
}

/* Which faults there are matters more than how many: bugs hide behind the noise of other faults.
 * Faults that are asked for once stay. */
static void mix_swarm(uint64_t seed, struct faults_mix *m)
{
	struct rng r;

	rng_seeded_init(&r, seed ^ UINT64_C(0xbb67ae8584caa73b));
	/* not where there is nothing, or nothing but clocks */
	m->act_lost = m->lie != 0 ? 100000 : 0;
	m->lag = m->lie;
	m->db_refuse = m->lie / 2;
	m->planned = m->lie / 2;
	m->flip = m->lie / 2;
	m->halt = m->lie / 2;
	m->front = m->lie;
	m->pretend = m->act_lost;
	m->agent_crash = 5 * m->crash;
	m->frozen_feed = m->silent_feed;
	m->far = m->silent_feed;
	m->store_refuse = 2 * m->lie;
	for (size_t i = 0; i < MIX_FAULTS; i++) {
		int64_t *ppm = mix_at(m, i);
		bool kept = rng_below(&r, 2) == 0;
		int64_t more = (INT64_C(1) << rng_below(&r, 4)) * (by_the_minute(i) ? 3 : 1);

		if (ppm != &m->rival) {
			*ppm = kept ? MIN(*ppm * more, INT64_C(400000)) : 0;
		}
	}
}

/* Half of the seeds are calm enough to show faults in healthy work, half are rough. */
void mix_of_seed(uint64_t seed, const char *text, struct faults_mix *ret)
{
	struct rng r;
	bool small;

	if (text != NULL) {
		if (!mix_parse(text, ret)) {
			abort();
		}
		return;
	}
	small = is_small(seed, &r);
#define HAS(name) profile_of_seed(PROFILE_##name, seed, small)
	*ret = HAS(CALM) ? mix_none : HAS(CLOCKS) ? mix_clocks : HAS(LIGHT) ? mix_light : mix_heavy;
	if (HAS(MOVING_FLEETS)) {
		*ret = (seed & 16) != 0 ? mix_none : mix_light;
		ret->swing = 500000;
	}
	if (HAS(HALTED)) {
		ret->halt = ret->kill;
	}
	if (HAS(FRONTED)) {
		ret->front = ret->lie;
	}
	if (HAS(PRETENDED)) {
		ret->pretend = ret->lie;
		ret->agent_crash = 5 * ret->crash;
		ret->frozen_feed = 2 * ret->silent_feed;
		ret->far = ret->silent_feed;
	}
	if (HAS(REFUSED_STORE)) {
		ret->store_refuse = 2 * ret->lie;
	}
	if (HAS(CLOCK_BOOT)) {
		ret->clock_boot = 100000;
	}
	if (HAS(PLANNED)) {
		ret->planned = 5 * ret->kill;
	}
	if (small) {
		mix_swarm(seed, ret);
	}
	if (HAS(DEAR_GANGS)) {
		ret->gang_dear = 500000;
	}
	if (HAS(LARGE_CREWS)) {
		ret->set_lost = 300000;
	}
#undef HAS
}
