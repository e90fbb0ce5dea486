/*
 * Keeps the measured rates of jobs of a team and a name for a second. They change as jobs run, so a
 * second more or less does not matter. A thousand submits of a name then need one statement. When
 * the second is over, one of them reads again. The others use the old rates until it has.
 */
#include "base/base.h"
#include "api/jobs/jobs_priv.h"

#define RATES_MAX 1024
#define OLD_MOST 10 /* times their age: older rates are read again by each */

struct rates_known {
	int64_t read_us, asked_us; /* mono */
	struct q_api_placing_row row;
	char *key; /* "TEAM\xffNAME" */
	char *rates;
};

struct job_rates {
	struct api_part part;
	struct api *api;
	struct map by_key;
	struct rates_known all[RATES_MAX];
	size_t n;
};

static bool key_same(const void *value, const void *key)
{
	return strcmp(((const struct rates_known *)value)->key, key) == 0;
}

static void rates_forget(struct job_rates *r)
{
	map_clear(&r->by_key);
	for (size_t i = 0; i < r->n; i++) {
		free(r->all[i].key);
		free(r->all[i].rates);
	}
	memset(r->all, 0, r->n * sizeof(r->all[0]));
	r->n = 0;
}

static void rates_fini(struct api_part *part)
{
	struct job_rates *r = container_of(part, struct job_rates, part);

	rates_forget(r);
	map_fini(&r->by_key);
	r->api->job_rates = NULL;
	free(r);
}

static struct job_rates *rates_of(struct api *api)
{
	struct job_rates *r = api->job_rates;

	if (r == NULL) {
		r = api->job_rates = calloc(1, sizeof(*r));
		assert(r != NULL);
		r->api = api;
		map_init(&r->by_key, NULL, key_same);
		api_own(api, &r->part, rates_fini);
	}
	return r;
}

static const char *key_make(struct areq *q, const char *team, const char *name)
{
	return arena_printf(q->arena, "%s\xff%s", team, name);
}

/* The first that finds old rates reads them again. */
static bool rates_good(struct rates_known *k, int64_t now_us, int64_t age_us)
{
	bool asked = now_us - k->asked_us < age_us && now_us - k->read_us < OLD_MOST * age_us;

	if (now_us - k->read_us < age_us || asked) {
		return true;
	}
	k->asked_us = now_us;
	return false;
}

bool rates_find(struct areq *q, const char *team, const char *name, struct q_api_placing_row *ret)
{
	struct job_rates *r = rates_of(q->api);
	const char *key = key_make(q, team, name);
	struct rates_known *k = map_get(&r->by_key, hash_str(HASH_START, key), key);

	if (k == NULL || !rates_good(k, loop_mono_us(q->api->loop), q->api->conf.rates_age_us)) {
		return false;
	}
	*ret = k->row;
	ret->rates = arena_strdup(q->arena, k->rates);
	return true;
}

static char *text_keep(char *was, const char *text)
{
	char *copy = text != NULL ? strdup(text) : NULL;

	assert(copy != NULL || text == NULL);
	free(was);
	return copy;
}

void rates_keep(struct areq *q, const char *team, const char *name,
    const struct q_api_placing_row *row)
{
	struct job_rates *r = rates_of(q->api);
	const char *key = key_make(q, team, name);
	struct rates_known *k = map_get(&r->by_key, hash_str(HASH_START, key), key);

	if (k == NULL) {
		if (r->n == RATES_MAX) {
			rates_forget(r);
		}
		k = &r->all[r->n++];
		k->key = text_keep(NULL, key);
		map_put(&r->by_key, hash_str(HASH_START, key), k);
	}
	k->read_us = loop_mono_us(q->api->loop);
	k->row = *row;
	k->rates = text_keep(k->rates, row->rates);
}
