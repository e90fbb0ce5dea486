/* Writes each provider's health into its row: account, last success, last error, request counts. */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/market/market_priv.h"

static struct provider_health *health_find(struct poller *p, const struct call_provider *provider)
{
	for (size_t i = 0; i < p->deps.providers_n; i++) {
		if (p->deps.providers[i] == provider) {
			return &p->health[i];
		}
	}
	return NULL;
}

void health_ok(struct poller *p, const struct call_provider *provider)
{
	struct provider_health *h = health_find(p, provider);

	if (h != NULL) {
		h->ok_us = loop_wall_us(p->deps.loop);
	}
}

void health_failed(struct poller *p, const struct call_provider *provider,
    const struct spot_err *err)
{
	struct provider_health *h = health_find(p, provider);

	if (h != NULL) {
		h->err_us = loop_wall_us(p->deps.loop);
		h->err = *err;
	}
}

static const char *health_state(const struct provider_health *h)
{
	if (h->err_us <= h->ok_us) {
		return "ok";
	}
	/* An error that only the operator can fix takes the provider down; others pass. */
	if (h->err.rc == SPOT_UNAUTHENTICATED || h->err.rc == SPOT_DENIED ||
	    h->err.rc == SPOT_CONFIG) {
		return "down";
	}
	return "degraded";
}

static void whoami_done(struct op *op)
{
	struct provider_health *h =
	    container_of(container_of(op, struct call, op), struct provider_health, whoami);

	if (op->rc != SPOT_OK) {
		health_failed(h->poller, h->whoami.provider, &op->err);
		log_error("provider.auth_failed",
		    STR("provider", call_provider_name(h->whoami.provider)),
		    STR("error", op->err.text));
	} else if (h->account_arg != NULL &&
	    str_copy(h->account, sizeof(h->account), h->account_arg)) {
		log_info("provider.account",
		    STR("provider", call_provider_name(h->whoami.provider)),
		    STR("account", h->account));
	}
	arena_reset(h->arena);
}

static void whoami_start(struct provider_health *h, struct call_provider *provider)
{
	if (call_provider_ops(provider)->whoami == NULL || op_busy(&h->whoami.op) ||
	    h->account[0] != '\0') {
		return;
	}
	h->account_arg = NULL;
	call_start(&h->whoami, provider, CALL_WHOAMI, &h->account_arg, h->arena, 60 * SPOT_US_PER_S,
	    0, false, whoami_done);
}

void health_init(struct poller *p)
{
	p->health = calloc(p->deps.providers_n + 1, sizeof(*p->health));
	assert(p->health != NULL);
	for (size_t i = 0; i < p->deps.providers_n; i++) {
		p->health[i].poller = p;
		p->health[i].arena = arena_new(0);
		op_init(&p->health[i].whoami.op, p->deps.loop, whoami_done);
	}
}

void health_fini(struct poller *p)
{
	for (size_t i = 0; i < p->deps.providers_n; i++) {
		op_fini(&p->health[i].whoami.op);
		arena_free(p->health[i].arena);
	}
	free(p->health);
}

/* Every other time a provider whose row is out of date (its state, or an account now known); else
 * round robin. */
size_t health_next(const struct poller *p, size_t turn)
{
	for (size_t i = 0; turn % 2 == 0 && i < p->deps.providers_n; i++) {
		const struct provider_health *h = &p->health[i];

		if (h->stored != health_state(h) || h->stored_ok != (h->ok_us != 0) ||
		    h->stored_account != (h->account[0] != '\0')) {
			return i;
		}
	}
	return turn / 2 % p->deps.providers_n;
}

void health_store(struct poller *p, size_t i, void (*done)(struct op *))
{
	struct call_provider *provider = p->deps.providers[i];
	struct provider_health *h = &p->health[i];
	struct call_stats s = call_provider_stats(provider);
	AUTO(arena) struct arena *a = arena_new(0);
	const char **names = arena_array(a, p->deps.providers_n + 1, sizeof(*names));

	for (size_t k = 0; k < p->deps.providers_n; k++) {
		names[k] = call_provider_name(p->deps.providers[k]);
	}
	whoami_start(h, provider);
	h->stored = health_state(h);
	h->stored_ok = h->ok_us != 0;
	h->stored_account = h->account[0] != '\0';
	q_market_provider_put(p->deps.pg, &p->upkeep,
	    &(struct q_market_provider_put){ .name = call_provider_name(provider),
		.kind = call_provider_ops(provider)->kind,
		.account = h->account[0] != '\0' ? h->account : NULL,
		.state = health_state(h),
		.has_ok_us = h->ok_us != 0,
		.ok_us = h->ok_us,
		.error = h->err_us != 0 ? h->err.text : NULL,
		.has_error_us = h->err_us != 0,
		.error_us = h->err_us,
		.requests = s.requests,
		.throttled = s.throttled,
		.now_us = loop_wall_us(p->deps.loop),
		.fence = p->deps.epoch(p->deps.ctx),
		.sells_spot = (call_provider_ops(provider)->caps & SPOT_CAP_SPOT) != 0,
		.configured = names,
		.configured_n = p->deps.providers_n },
	    done);
}
