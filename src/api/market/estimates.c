/* The members `hazard` and `launch_odds` of a pool. */
#include "base/base.h"
#include "api/market/market_priv.h"

#include "base/text/text.h"
#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

struct number { /* a double of a struct, by its name in the reply */
	const char *key; /* with quotes and colon */
	size_t at;
};
#define HAZARD(name) \
	{ \
		",\"" #name "\":", offsetof(struct hazard, name) \
	}
#define ODDS(name) \
	{ \
		",\"" #name "\":", offsetof(struct odds, name) \
	}

static void numbers_put(struct sbuf *b, const void *from, const struct number *n, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double v;

		memcpy(&v, (const char *)from + n[i].at, sizeof(v));
		sbuf_puts(b, n[i].key);
		json_put_f64(b, v);
	}
	sbuf_putc(b, '}');
}

static void source_put(struct sbuf *b, const char *name, const char *source)
{
	sbuf_puts(b, name);
	sbuf_puts(b, "{\"source\":");
	json_put_str(b, source, strlen(source));
}

void estimates_add(const struct hazard_model *m, const struct offer *o, struct sbuf *b)
{
	static const struct number of_hazard[] = { HAZARD(per_hour), HAZARD(lo), HAZARD(hi),
		HAZARD(prior_per_hour), HAZARD(group_per_hour), HAZARD(weight_hours),
		HAZARD(own_hours), HAZARD(own_reclaims), HAZARD(usual_per_hour),
		HAZARD(usual_weight_hours), HAZARD(recent_hours), HAZARD(recent_reclaims),
		HAZARD(day_factor), HAZARD(raised_per_hour) };
	static const struct number of_odds[] = { ODDS(odds), ODDS(lo), ODDS(hi), ODDS(signal),
		ODDS(signal_weight), ODDS(account), ODDS(account_weight), ODDS(group),
		ODDS(group_weight), ODDS(own_launches), ODDS(own_refusals) };
	struct hazard h;
	struct odds s;

	hazard_of(m, o, &h);
	hazard_odds(m, o, &s);
	source_put(b, ",\"hazard\":", h.source);
	numbers_put(b, &h, of_hazard, ARRAY_LEN(of_hazard));
	source_put(b, ",\"launch_odds\":", s.source);
	numbers_put(b, &s, of_odds, ARRAY_LEN(of_odds));
}
