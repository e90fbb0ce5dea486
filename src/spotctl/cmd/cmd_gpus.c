/* prices without a question: a row per GPU, a column per provider and market, the cheapest of each
 * per GPU-hour. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#define PROVIDERS_MOST 14 /* two columns each, beside the GPU */

/* Their names in order; those beyond what a table holds are left out. */
static size_t providers_of(const json_t *items, const char **ret)
{
	const json_t *row, *offer;
	size_t n = 0, i, k, j;

	json_array_foreach (items, i, row) {
		json_array_foreach (json_object_get(row, "offers"), k, offer) {
			const char *name =
			    json_str(json_object_get(offer, "pool"), "provider", "?", NULL);

			for (j = 0; j < n && strcmp(ret[j], name) != 0; j++) {
			}
			if (j == n && n < PROVIDERS_MOST) {
				for (j = n++; j > 0 && strcmp(ret[j - 1], name) > 0; j--) {
					ret[j] = ret[j - 1];
				}
				ret[j] = name;
			}
		}
	}
	return n;
}

static char *text_upper(struct ctl *c, const char *s)
{
	char *up = arena_strdup(c->arena, s);

	for (char *p = up; *p != '\0'; p++) {
		*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
	}
	return up;
}

/* A price that is not known to be today's carries a mark. */
static const char *mark_of(const char *state)
{
	return strcmp(state, "stale") == 0      ? "~"
	    : strcmp(state, "frozen") == 0      ? "="
	    : strcmp(state, "implausible") == 0 ? "?"
						: "";
}

static const json_t *offer_of(const json_t *row, const char *provider, const char *market)
{
	const json_t *offer;
	size_t i;

	json_array_foreach (json_object_get(row, "offers"), i, offer) {
		const json_t *pool = json_object_get(offer, "pool");

		if (strcmp(json_str(pool, "provider", "", NULL), provider) == 0 &&
		    strcmp(json_str(pool, "market", "", NULL), market) == 0) {
			return offer;
		}
	}
	return NULL;
}

static void put_prices(struct ctl *c, json_t *row, const char *const *providers, size_t n,
    bool *ret_marked)
{
	static const char *const markets[] = { "spot", "on_demand" };

	for (size_t i = 0; i < n * ARRAY_LEN(markets); i++) {
		const char *provider = providers[i / 2], *market = markets[i % 2], *mark;
		const json_t *offer = offer_of(row, provider, market);

		if (offer == NULL) {
			continue;
		}
		mark = mark_of(json_str(json_object_get(offer, "pool"), "price_state", "", NULL));
		*ret_marked |= *mark != '\0';
		json_object_set_new(row, arena_printf(c->arena, "%zu", i),
		    json_sprintf("%s%s", usd_text(c, json_i64(offer, "per_gpu_micros", 0, NULL), 4),
			mark));
	}
}

int prices_gpus(struct ctl *c)
{
	const char *providers[PROVIDERS_MOST];
	struct column cols[2 * PROVIDERS_MOST + 2] = { { "GPU", "gpu", CELL_TEXT, ALWAYS } };
	struct reply r;
	json_t *items, *row;
	size_t n, i;
	bool marked = false;
	int rc = conn_get(c, "/v1/prices/gpus", &r);

	if (rc != CTL_OK) {
		return rc;
	}
	items = json_object_get(r.json, "items");
	n = providers_of(items, providers);
	for (i = 0; i < 2 * n; i++) {
		cols[1 + i] = (struct column){ arena_printf(c->arena, "%s %s",
						   text_upper(c, providers[i / 2]),
						   i % 2 == 0 ? "SPOT" : "OD"),
			arena_printf(c->arena, "%zu", i), CELL_NUMBER, ALWAYS };
	}
	json_array_foreach (items, i, row) {
		put_prices(c, row, providers, n, &marked);
	}
	rc = render_list(c, r.json, items, cols,
	    "no prices yet; check the providers with 'spotctl providers'");
	if (rc == CTL_OK && json_array_size(items) > 0) {
		say("USD per GPU-hour, cheapest place of each; --cheapest adds age, source, "
		    "reclaims and capacity; --gpu NAME lists all places%s",
		    marked ? " (~ stale, = frozen, ? implausible)" : "");
	}
	return rc;
}
