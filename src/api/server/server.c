/* Life of the API: start, drain, end; housekeeping. */
#include "base/base.h"
#include "api/server/server_priv.h"

#define PURGE_US (3600 * SPOT_US_PER_S)
#define KEY_LIFE_US (25 * SPOT_US_PER_HOUR)
#define MARKET_AGE_US (SPOT_US_PER_S / 4)

static void keys_purged(struct op *op)
{
	struct api *api = container_of(op, struct api, purge.op);

	pg_req_fini(&api->purge);
	loop_timer_set(&api->purge_timer, PURGE_US);
}

static void keys_purge(struct loop_timer *t)
{
	struct api *api = container_of(t, struct api, purge_timer);

	q_api_idem_purge(api->pg, &api->purge,
	    &(struct q_api_idem_purge){ .before_us = loop_wall_us(api->loop) - KEY_LIFE_US },
	    keys_purged);
}

bool api_storeless(const struct api *api)
{
	return api->conf.store != NULL && *api->conf.store == '\0';
}

/* The old strings stay in the arena: a request may still use them. */
void api_set_store(struct api *api, const char *store, const char *provider, const char *region)
{
	if (str_same(store, api->conf.store) && str_same(provider, api->conf.store_provider) &&
	    str_same(region, api->conf.store_region)) {
		return;
	}
	api->conf.store = arena_strdup(api->arena, store);
	api->conf.store_provider = arena_strdup(api->arena, provider);
	api->conf.store_region = arena_strdup(api->arena, region);
}

static void conf_copy(struct api *api, const struct api_conf *conf)
{
	struct arena *a = api->arena;

	api->conf = *conf;
	api->conf.address = arena_strdup(a, conf->address ? conf->address : "127.0.0.1");
	api->conf.tls_cert = arena_strdup(a, conf->tls_cert);
	api->conf.tls_key = arena_strdup(a, conf->tls_key);
	api->conf.install = arena_strdup(a, conf->install ? conf->install : "");
	api->conf.version = arena_strdup(a, conf->version ? conf->version : "0");
	api->conf.store = arena_strdup(a, conf->store);
	api->conf.store_provider = arena_strdup(a, conf->store_provider);
	api->conf.store_region = arena_strdup(a, conf->store_region);
	if (conf->rates_age_us == 0) {
		api->conf.rates_age_us = SPOT_US_PER_S;
	}
	if (conf->classes.list[0].name == NULL) {
		class_table_default(&api->conf.classes);
	}
	if (conf->market_age_us == 0) {
		api->conf.market_age_us = MARKET_AGE_US;
	}
}

void api_set_classes(struct api *api, const struct class_table *classes)
{
	api->conf.classes = *classes;
}

void api_set_orphan_timeout(struct api *api, int64_t us)
{
	api->conf.orphan_timeout_us = us;
}

void api_set_handout(struct api *api, const struct handout *handout)
{
	api->conf.handout = handout;
}

void api_set_place(struct api *api, const struct place_policy *place)
{
	api->conf.place = *place;
	market_policy_set(api->market, &place->rank);
}

static void api_notified(struct pg_listen *l, const char *channel UNUSED, const char *payload)
{
	struct api *api = container_of(l, struct api, listen);

	hub_poke(api->hub);
	if (!payload || !*payload || *payload == 't') {
		tokens_forget(api->tokens);
	}
	if (!payload || !*payload) {
		/* connected again: notifications may have been missed */
		wait_wake_all(api);
	} else {
		wait_wake(api, payload);
	}
}

enum spot_rc server_new(struct loop *l, struct pg *pg, const struct api_conf *conf,
    const struct routes *routes, struct api **ret, struct spot_err *err)
{
	struct arena *a = arena_new(0);
	struct api *api = arena_alloc(a, sizeof(*api));
	struct httpd_conf hc = { 0 };
	enum spot_rc rc;

	api->loop = l;
	api->pg = pg;
	api->arena = a;
	api->started_us = loop_wall_us(l);
	conf_copy(api, conf);
	api->routes.rows = arena_array(a, routes->n, sizeof(*routes->rows));
	memcpy(api->routes.rows, routes->rows, routes->n * sizeof(*routes->rows));
	api->routes.n = routes->n;
	api->served = arena_array(a, routes->n * 6, sizeof(*api->served));
	hc.address = api->conf.address;
	hc.port = api->conf.port;
	hc.tls_cert = api->conf.tls_cert;
	hc.tls_key = api->conf.tls_key;
	hc.connections_max = api->conf.connections_max;
	hc.ctx = api;
	hc.body_max = api_body_max;
	hc.handle = api_handle;
	rc = httpd_new(l, &hc, &api->httpd, err);
	if (rc != SPOT_OK) {
		arena_free(a);
		return rc;
	}
	api->market = market_new(l, pg, &api->conf.place.rank);
	market_tell(api->market);
	api->hub = hub_new(api);
	api->tokens = tokens_new();
	seen_init(api);
	loop_timer_init(&api->purge_timer, l, keys_purge);
	loop_timer_set(&api->purge_timer, PURGE_US);
	pg_listen(pg, &api->listen, "spot_api", api_notified);
	log_info("api.listening", STR("address", api->conf.address),
	    I64("port", httpd_port(api->httpd)), BOOL("tls", api->conf.tls_cert != NULL));
	*ret = api;
	return SPOT_OK;
}

void api_own(struct api *api, struct api_part *part, void (*fini)(struct api_part *))
{
	part->fini = fini;
	part->next = api->parts;
	api->parts = part;
}

void api_forget_tokens(struct api *api)
{
	tokens_forget(api->tokens);
}

static void api_release(void *p)
{
	struct api *api = p;

	sbuf_fini(&api->body);
	gzip_free(api->gzip);
	arena_free(api->arena);
}

void api_free(struct api *api)
{
	struct api_part *part;
	struct areq *q;

	if (!api) {
		return;
	}
	hub_free(api->hub);
	while ((part = api->parts)) {
		api->parts = part->next;
		part->fini(part);
	}
	shares_fini(api);
	batches_fini(api);
	/* Requests whose statement is under way: forget both, close the connection. */
	while ((q = api->reqs)) {
		struct httpd_req *r = q->http;

		r->gone = NULL;
		areq_end(q);
		httpd_abort(r);
	}
	market_free(api->market);
	seen_fini(api);
	tokens_free(api->tokens);
	loop_timer_stop(&api->purge_timer);
	pg_req_fini(&api->purge);
	pg_listen_stop(api->pg, &api->listen);
	httpd_free(api->httpd);
	loop_bury(api->loop, api, api_release);
}

int api_port(const struct api *api)
{
	return httpd_port(api->httpd);
}

void api_drain(struct api *api)
{
	if (api->draining) {
		return;
	}
	api->draining = true;
	httpd_drain(api->httpd);
	hub_drain(api->hub);
	wait_wake_all(api);
}

int api_open_connections(const struct api *api)
{
	return httpd_stats(api->httpd).open;
}

enum spot_rc api_reload_tls(struct api *api, struct spot_err *err)
{
	return httpd_reload_tls(api->httpd, err);
}
