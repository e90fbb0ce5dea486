/*
 * A whole out-of-tree provider: the code that a cloud outside of this repository has to write.
 * "Acme" sells machines by a JSON API:
 *
 * - GET /v1/offers: [{"region","kind","gpu","gpus","cents"}]
 * - GET /v1/machines: [{"id","label","state","region","kind"}]
 * - POST /v1/machines: {"kind","region","label"} gives {"id"}; a label is accepted once
 * - DELETE /v1/machines/ID
 *
 * It is built as a shared object with src/base linked in, and exports nothing but the table. ACME_*
 * macros spoil the table on purpose, for the tests of the loader.
 */
#include "base/base.h"

#include "base/text/text.h"
#include "spot/provider.h"

struct acme {
	char *endpoint, *name;
};

/* ---- settings; Acme has no credentials ------------------------------------------------------- */

static enum spot_rc acme_open(const struct spot_provider_conf *conf, void **ret_self,
    struct spot_err *err)
{
	const char *endpoint = conf->setting(conf->ctx, "endpoint");
	struct acme *self;

	if (str_empty(endpoint)) {
		return err_set(err, SPOT_CONFIG, "provider %s: set endpoint", conf->name);
	}
	self = calloc(1, sizeof(*self));
	if (self == NULL || (self->endpoint = strdup(endpoint)) == NULL ||
	    (self->name = strdup(conf->name)) == NULL) {
		abort();
	}
	*ret_self = self;
	return SPOT_OK;
}

static void acme_close(void *p)
{
	struct acme *self = p;

	if (self != NULL) {
		free(self->endpoint);
		free(self->name);
		free(self);
	}
}

static bool acme_auth_fresh(const void *self UNUSED, int64_t now_us UNUSED)
{
	return true;
}

static enum spot_step acme_auth(void *self UNUSED, struct spot_call *c UNUSED)
{
	return SPOT_DONE;
}

static size_t acme_secrets(const void *self UNUSED, const char **ret UNUSED, size_t n UNUSED)
{
	return 0;
}

/* ---- asking and reading ---------------------------------------------------------------------- */

static enum spot_step request_send(const struct acme *self, struct spot_call *c, const char *method,
    const char *path)
{
	call_request(c, method, arena_printf(c->arena, "%s%s", self->endpoint, path));
	return SPOT_SEND;
}

/* NONE: *ret is the reply, owned by the caller. */
static enum spot_step reply_read(struct spot_call *c, const char *what, json_t **ret)
{
	struct spot_err err = { 0 };

	if (c->in->status == 429 || (c->in->status >= 500 && !c->mutating)) {
		return call_again(c, c->in->status == 429 ? SPOT_THROTTLED : SPOT_UNAVAILABLE,
		    call_retry_after_us(c), NULL, "acme %s: HTTP %d", what, c->in->status);
	}
	if (c->in->status >= 500) {
		return call_fail(c, SPOT_UNKNOWN, NULL, "acme %s: HTTP %d, it may have happened",
		    what, c->in->status);
	}
	if (c->in->status == 404) {
		return call_fail(c, SPOT_NOT_FOUND, NULL, "acme %s: not there", what);
	}
	if (c->in->status == 409) {
		return call_fail(c, SPOT_NO_CAPACITY, NULL, "acme %s: sold out", what);
	}
	if (c->in->status != 200) {
		return call_fail(c, SPOT_INVALID, NULL, "acme %s: HTTP %d", what, c->in->status);
	}
	if (json_parse(c->in->body, what, ret, &err) != SPOT_OK) {
		return call_fail(c, c->mutating ? SPOT_UNKNOWN : SPOT_BAD_REPLY, NULL, "acme: %s",
		    err.text);
	}
	return SPOT_STEP_NONE;
}

/* ---- market ---------------------------------------------------------------------------------- */

static enum spot_step acme_regions(void *p, struct spot_call *c UNUSED, struct spot_regions *a)
{
	(void)p;
	a->names = arena_array(c->arena, 1, sizeof(*a->names));
	a->names[0] = "moon";
	a->n = 1;
	return SPOT_DONE;
}

static struct spot_pool_key offer_key(const struct acme *self, struct spot_call *c, const json_t *o,
    struct spot_err *err)
{
	return (struct spot_pool_key){
		.provider = arena_strdup(c->arena, self->name),
		.region = arena_strdup(c->arena, json_need_str(o, "region", err)),
		.zone = "",
		.instance_type = arena_strdup(c->arena, json_need_str(o, "kind", err)),
		.market = SPOT_MARKET_ON_DEMAND,
	};
}

static enum spot_step acme_pools(void *p, struct spot_call *c, struct spot_pools *a)
{
	AUTO(json) json_t *doc = NULL;
	struct spot_err err = { 0 };
	enum spot_step s;

	if (c->in == NULL) {
		return request_send(p, c, "GET", "/v1/offers");
	}
	s = reply_read(c, "offers", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	a->pools = arena_array(c->arena, json_array_size(doc) + 1, sizeof(*a->pools));
	for (a->n = 0; a->n < json_array_size(doc); a->n++) {
		const json_t *o = json_array_get(doc, a->n);

		a->pools[a->n] = (struct spot_pool_info){
			.key = offer_key(p, c, o, &err),
			.zone_name = "",
			.shape = { .gpu_name = arena_strdup(c->arena, json_str(o, "gpu", "", &err)),
			    .gpu_milli = (int32_t)(json_i64(o, "gpus", 0, &err) * 1000),
			    .arch = "x86_64" },
			.quota_class = "",
		};
	}
	return err.rc == SPOT_OK ? SPOT_DONE
				 : call_fail(c, SPOT_BAD_REPLY, NULL, "acme offers: %s", err.text);
}

static enum spot_step acme_prices(void *p, struct spot_call *c, struct spot_prices *a)
{
	AUTO(json) json_t *doc = NULL;
	struct spot_err err = { 0 };
	enum spot_step s;

	if (c->in == NULL) {
		return request_send(p, c, "GET", "/v1/offers");
	}
	s = reply_read(c, "offers", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	a->points = arena_array(c->arena, json_array_size(doc) + 1, sizeof(*a->points));
	for (a->n = 0; a->n < json_array_size(doc); a->n++) {
		const json_t *o = json_array_get(doc, a->n);

		a->points[a->n] = (struct spot_price_point){
			.key = offer_key(p, c, o, &err),
			.price_micros =
			    json_need_i64(o, "cents", &err) * (SPOT_MICROS_PER_USD / 100),
			.observed_us = c->now_us,
			.source = "GET /v1/offers",
		};
	}
	return err.rc == SPOT_OK ? SPOT_DONE
				 : call_fail(c, SPOT_BAD_REPLY, NULL, "acme offers: %s", err.text);
}

/* ---- machines -------------------------------------------------------------------------------- */

static enum spot_instance_state state_of(const char *s)
{
	return strcmp(s, "up") == 0  ? SPOT_INSTANCE_RUNNING
	    : strcmp(s, "down") == 0 ? SPOT_INSTANCE_GONE
				     : SPOT_INSTANCE_ODD;
}

/* All machines for which wants() holds; label is "install/token". */
static enum spot_step machines_list(struct acme *self, struct spot_call *c, const char *install,
    const char *token, struct spot_instance **ret, size_t *ret_n)
{
	AUTO(json) json_t *doc = NULL;
	struct spot_err err = { 0 };
	enum spot_step s;

	if (c->in == NULL) {
		return request_send(self, c, "GET", "/v1/machines");
	}
	s = reply_read(c, "machines", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	*ret = arena_array(c->arena, json_array_size(doc) + 1, sizeof(**ret));
	*ret_n = 0;
	for (size_t i = 0; i < json_array_size(doc); i++) {
		const json_t *o = json_array_get(doc, i);
		const char *label = json_str(o, "label", "", &err);
		size_t n = strcspn(label, "/");
		struct spot_instance *x = &(*ret)[*ret_n];

		*x = (struct spot_instance){
			.ref = arena_strdup(c->arena, json_need_str(o, "id", &err)),
			.install = arena_strndup(c->arena, label, n),
			.token = label[n] == '/' ? arena_strdup(c->arena, label + n + 1) : "",
			.key = offer_key(self, c, o, &err),
			.raw_state = arena_strdup(c->arena, json_str(o, "state", "", &err)),
			.raw_reason = "",
			.ip = "",
			.spot_request = "",
		};
		x->state = state_of(x->raw_state);
		*ret_n += (str_empty(install) || strcmp(install, x->install) == 0) &&
		    (str_empty(token) || strcmp(token, x->token) == 0);
	}
	return err.rc == SPOT_OK
	    ? SPOT_DONE
	    : call_fail(c, SPOT_BAD_REPLY, NULL, "acme machines: %s", err.text);
}

static enum spot_step acme_find(void *p, struct spot_call *c, struct spot_find *a)
{
	return machines_list(p, c, a->install, a->token, &a->found, &a->n);
}

static enum spot_step acme_list(void *p, struct spot_call *c, struct spot_list *a)
{
	return machines_list(p, c, a->install, NULL, &a->found, &a->n);
}

static enum spot_step acme_describe(void *p, struct spot_call *c, struct spot_describe *a)
{
	enum spot_step s = machines_list(p, c, NULL, NULL, &a->found, &a->n);
	size_t kept = 0;

	for (size_t i = 0; s == SPOT_DONE && i < a->n; i++) {
		for (size_t k = 0; k < a->refs_n; k++) {
			if (strcmp(a->refs[k], a->found[i].ref) == 0) {
				a->found[kept++] = a->found[i];
				break;
			}
		}
	}
	a->n = s == SPOT_DONE ? kept : 0;
	return s;
}

static enum spot_step acme_launch(void *p, struct spot_call *c, struct spot_launch *a)
{
	AUTO(json) json_t *doc = NULL;
	enum spot_step s;

	if (c->in == NULL) {
		AUTO(json)
		json_t *body = json_pack("{s:s, s:s, s:s}", "kind", a->key.instance_type, "region",
		    a->key.region, "label", arena_printf(c->arena, "%s/%s", a->install, a->token));
		const char *text = json_text(c->arena, body);

		request_send(p, c, "POST", "/v1/machines");
		call_body(c, "application/json", text, strlen(text));
		c->mutating = true;
		return SPOT_SEND;
	}
	s = reply_read(c, "launch", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	a->instance = (struct spot_instance){
		.ref = arena_strdup(c->arena, json_str(doc, "id", "", NULL)),
		.token = a->token,
		.install = a->install,
		.key = a->key,
		.state = SPOT_INSTANCE_PENDING,
		.raw_state = "",
		.raw_reason = "",
		.ip = "",
		.spot_request = "",
	};
	return a->instance.ref[0] != '\0'
	    ? SPOT_DONE
	    : call_fail(c, SPOT_UNKNOWN, NULL, "acme launch: the reply has no id");
}

static enum spot_step acme_terminate(void *p, struct spot_call *c, struct spot_terminate *a)
{
	if (c->in == NULL) {
		request_send(p, c, "DELETE",
		    arena_printf(c->arena, "/v1/machines/%s", url_encode(c->arena, a->ref, false)));
		c->mutating = true;
		return SPOT_SEND;
	}
	if (c->in->status != 200 && c->in->status != 404) {
		return call_fail(c, SPOT_UNKNOWN, NULL, "acme terminate: HTTP %d", c->in->status);
	}
	a->after = (struct spot_instance){ .ref = a->ref,
		.token = "",
		.install = "",
		.key = { .provider = "", .region = "", .zone = "", .instance_type = "" },
		.state = SPOT_INSTANCE_GONE,
		.raw_state = "",
		.raw_reason = "",
		.ip = "",
		.spot_request = "" };
	return SPOT_DONE;
}

static const struct spot_limit acme_limits[] = {
	{ .name = "all", .per_second = 100, .burst = 100 }
};

#ifndef ACME_SYMBOL
#define ACME_SYMBOL spot_provider
#endif
#ifndef ACME_ABI
#define ACME_ABI SPOT_PROVIDER_ABI
#endif
#ifndef ACME_SIZE
#define ACME_SIZE sizeof(struct spot_provider_ops)
#endif

extern const struct spot_provider_ops ACME_SYMBOL;
const struct spot_provider_ops ACME_SYMBOL = {
	.abi = ACME_ABI,
	.size = ACME_SIZE,
	.kind = "acme",
	.caps = SPOT_CAP_TOKEN | SPOT_CAP_TAGS | SPOT_CAP_ALL_REGIONS,
	.token_scope = SPOT_TOKEN_GLOBAL,
	.token_life_us = 86400 * SPOT_US_PER_S,
	.launch_timeout_us = 60 * SPOT_US_PER_S,
	.limits = acme_limits,
	.limits_n = ARRAY_LEN(acme_limits),
	.open = acme_open,
	.close = acme_close,
	.auth_fresh = acme_auth_fresh,
	.auth = acme_auth,
	.secrets = acme_secrets,
	.regions = acme_regions,
	.pools = acme_pools,
	.prices = acme_prices,
	.launch = acme_launch,
	.find = acme_find,
	.list = acme_list,
	.describe = acme_describe,
#ifndef ACME_NO_TERMINATE
	.terminate = acme_terminate,
#endif
};
#ifdef ACME_NO_TERMINATE
/* Keeps the compiler from calling the function unused. */
void *acme_unused(void);
void *acme_unused(void)
{
	return (void *)(uintptr_t)acme_terminate;
}
#endif
