/* Cuts a node's time into priced lines. The rules are in money.h. */
#include "base/base.h"
#include "core/money/money.h"

/* floor(price * us / 3600e6) in 128 bits: neither overflow nor rounding drift. */
static int64_t cost_floor(int64_t price_micros, int64_t us)
{
	__extension__ typedef __int128 wide;

	return (int64_t)((wide)price_micros * us / SPOT_US_PER_HOUR);
}

int64_t ledger_amount(int64_t origin_us, int64_t from_us, int64_t to_us, int64_t price_micros)
{
	assert(origin_us <= from_us && from_us <= to_us);
	return cost_floor(price_micros, to_us - origin_us) -
	    cost_floor(price_micros, from_us - origin_us);
}

static const struct ledger_price *price_at(const struct ledger_price *prices, size_t n, int64_t us)
{
	const struct ledger_price *p = &prices[0];

	for (size_t i = 1; i < n && prices[i].from_us <= us; i++) {
		p = &prices[i];
	}
	return p;
}

static const struct ledger_attempt *attempt_at(const struct ledger_attempt *t, size_t n, int64_t us)
{
	for (size_t i = 0; i < n; i++) {
		if (t[i].from_us <= us && (t[i].to_us == 0 || us < t[i].to_us)) {
			return &t[i];
		}
	}
	return NULL;
}

/* Returns the next moment after us at which anything changes, at most to_us. */
static int64_t next_cut(int64_t us, int64_t to_us, int64_t ready_us,
    const struct ledger_price *prices, size_t prices_n, const struct ledger_attempt *t, size_t tn)
{
	int64_t cut = to_us;

	if (ready_us > us) {
		cut = MIN(cut, ready_us);
	}
	for (size_t i = 0; i < prices_n; i++) {
		if (prices[i].from_us > us) {
			cut = MIN(cut, prices[i].from_us);
		}
	}
	for (size_t i = 0; i < tn; i++) {
		if (t[i].from_us > us) {
			cut = MIN(cut, t[i].from_us);
		}
		if (t[i].to_us > us) {
			cut = MIN(cut, t[i].to_us);
		}
	}
	return cut;
}

void ledger_cut(struct arena *a, int64_t origin_us, int64_t from_us, int64_t to_us,
    int64_t ready_us, int64_t for_job, const struct ledger_price *prices, size_t prices_n,
    const struct ledger_attempt *attempts, size_t attempts_n, struct ledger_line **ret,
    size_t *ret_n)
{
	struct ledger_line *lines = NULL;
	size_t n = 0, cap = 0;

	assert(prices_n > 0 && origin_us <= from_us);
	for (int64_t at = from_us; at < to_us;) {
		int64_t cut = next_cut(at, to_us, ready_us, prices, prices_n, attempts, attempts_n);
		const struct ledger_price *p = price_at(prices, prices_n, at);
		const struct ledger_attempt *t = attempt_at(attempts, attempts_n, at);
		struct ledger_line *l;

		lines = arena_grow(a, lines, n, &cap, sizeof(*lines));
		l = &lines[n++];
		*l = (struct ledger_line){
			.from_us = at,
			.to_us = cut,
			.price_micros = p->price_micros,
			.price_observed_us = p->observed_us,
			.amount_micros = ledger_amount(origin_us, at, cut, p->price_micros),
		};
		if (t != NULL) {
			l->kind = "compute";
			l->job_id = t->job_id;
			l->epoch = t->epoch;
		} else {
			l->kind = ready_us == 0 || at < ready_us ? "boot" : "idle";
			l->job_id = for_job;
		}
		at = cut;
	}
	*ret = lines;
	*ret_n = n;
}
