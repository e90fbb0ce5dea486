/*
 * Credentials, and which clusters there are. The API token finds clusters and is accepted by their
 * managed endpoint; a kubeconfig leads to any cluster. With service_account set, their credential
 * is used once: for a token of that account. The token is renewed at 80 % of its granted life (the
 * kubelet's own rule). CoreWeave's service account tokens are good at the "api." host only
 * (coreweave/skills, cw-get-kubeconfig).
 *
 * A cluster that cannot be reached keeps the others going: it is marked, and its calls say why.
 */
#include "base/base.h"
#include "coreweave_priv.h"

enum { A_API_FILE = 0, A_OBJECT_FILE, A_DISCOVER, A_CONFIG, A_FILES, A_TOKEN, A_NEXT, A_END };
enum { F_CA = 0, F_CERT, F_KEY, F_TOKEN, F_COUNT };
#define RETRY_US (60 * SPOT_US_PER_S)
#define REDISCOVER_US (15 * 60 * SPOT_US_PER_S)
#define REREAD_US (10 * 60 * SPOT_US_PER_S) /* a projected token's file changes by itself */
#define TOKEN_LIFE_S 3600
#define TRIES 2

struct authing {
	int at;
	size_t i;
	bool forced, found, with_bootstrap;
	int file, tries;
	struct cw_kubeconfig k;
	struct spot_err first;
};

/* ---- clusters -------------------------------------------------------------------------------- */

static void secret_put(struct secret *s, const char *v, size_t n)
{
	secret_fini(s);
	secret_init(s, v, n);
}

static const char *text_keep(struct cw *self, const char *was, const char *now)
{
	return str_same(was, now) ? was : arena_strdup(self->arena, now);
}

static void mark_bad(struct spot_call *c, struct authing *st, struct cw_cluster *cl, bool usable)
{
	cl->renew_us = c->now_us + RETRY_US;
	if (st->first.rc == SPOT_OK) {
		st->first = c->err;
	}
	if (!usable) {
		cl->ready = false;
		cl->bad_rc = c->err.rc != SPOT_OK ? c->err.rc : SPOT_UNAVAILABLE;
		snprintf(cl->bad, sizeof(cl->bad), "%.299s", c->err.text);
	}
	st->at = A_NEXT;
}

/* ---- freshness ------------------------------------------------------------------------------- */

static bool renewal_due(const struct cw_cluster *cl, int64_t now_us)
{
	/* A token that is renewed too late for the clock is refused, and renewed then. A cluster
	 * that cannot be used needs no renewal. */
	return (!cl->ready && cl->bad_rc == SPOT_OK) ||
	    (cl->renew_us != 0 && call_due(now_us, cl->renew_us, cl->ready ? INT64_MAX : RETRY_US));
}

bool cw_auth_fresh(const void *p, int64_t now_us)
{
	const struct cw *self = p;

	if (self->clusters_n == 0 ||
	    (self->discover_us != 0 && call_due(now_us, self->discover_us, REDISCOVER_US))) {
		return false;
	}
	if (self->object_secret_file != NULL && !secret_set(&self->object_secret)) {
		return false;
	}
	for (size_t i = 0; i < self->clusters_n; i++) {
		if (renewal_due(self->clusters[i], now_us)) {
			return false;
		}
	}
	return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static struct str text_trim(struct str s)
{
	while (s.n > 0 && strchr(" \t\r\n", s.p[s.n - 1]) != NULL) {
		s.n--;
	}
	while (s.n > 0 && strchr(" \t\r\n", s.p[0]) != NULL) {
		s.p++;
		s.n--;
	}
	return s;
}

static enum spot_step file_bad(struct spot_call *c, const char *path)
{
	return call_fail(c, SPOT_CONFIG, NULL, "%s %s", path,
	    c->in->status == 404 ? "does not exist" : "cannot be read: check its owner and mode");
}

static bool token_ok(struct str t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] <= ' ' || t.p[i] > '~') {
			return false;
		}
	}
	return t.n >= 8 && t.n <= 65536;
}

static enum spot_step read_secret(struct spot_call *c, struct authing *st, const char *path,
    struct secret *ret)
{
	struct str t = text_trim(c->in->body);

	if (c->in->status != 200) {
		return file_bad(c, path);
	}
	if (!token_ok(t)) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "%s holds no token: one line of at least 8 characters", path);
	}
	secret_put(ret, t.p, t.n);
	st->at++;
	return SPOT_STEP_NONE;
}

/* ---- discovery ------------------------------------------------------------------------------- */

static bool cluster_wanted(const struct cw *self, const char *name, const char *id)
{
	for (size_t i = 0; i < self->wanted_n; i++) {
		if (strcmp(self->wanted[i], name) == 0 || strcmp(self->wanted[i], id) == 0) {
			return true;
		}
	}
	return self->wanted_n == 0;
}

static bool cluster_word_ok(const char *s)
{
	return s[0] != '\0' && strlen(s) <= 80 &&
	    strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
	    strlen(s);
}

/* Names may repeat across zones: the id tells clusters apart. */
static struct cw_cluster *cluster_for(struct cw *self, struct arena *a, const char *name,
    const char *id)
{
	struct cw_cluster *cl;

	for (size_t i = 0; i < self->clusters_n; i++) {
		cl = self->clusters[i];
		if (strcmp(cl->id, id) == 0 || (cl->id[0] == '\0' && strcmp(cl->name, name) == 0)) {
			return cl;
		}
	}
	if (cw_cluster_named(self, name, strlen(name)) != NULL || strcmp(name, "nodepool") == 0) {
		name = arena_printf(a, "%s-%.8s", name, id);
	}
	return cw_cluster_add(self, name);
}

static void cluster_found(struct cw *self, struct spot_call *c, const json_t *o)
{
	const char *name = cw_str(c->arena, o, "name"), *id = cw_str(c->arena, o, "id"),
		   *zone = cw_str(c->arena, o, "zone"), *status = cw_str(c->arena, o, "status"),
		   *server = cw_str(c->arena, o, "apiServerEndpoint");
	bool up = strcmp(status, "STATUS_RUNNING") == 0 || strcmp(status, "STATUS_UPDATING") == 0 ||
	    strcmp(status, "STATUS_UPGRADING") == 0;
	struct cw_cluster *cl;

	if (server[0] != '\0' && strstr(server, "://") == NULL) {
		server = arena_printf(c->arena, "https://%s", server);
	}
	if (!cluster_word_ok(name) || !cluster_word_ok(id) || !cluster_word_ok(zone) ||
	    !cluster_wanted(self, name, id)) {
		return;
	}
	if (!up && self->wanted_n == 0) {
		return;
	}
	cl = cluster_for(self, c->arena, name, id);
	if (cl == NULL) {
		return;
	}
	cl->id = text_keep(self, cl->id, id);
	cl->zone = text_keep(self, cl->zone, zone);
	cl->region = text_keep(self, cl->region, cw_zone_region(self, c->arena, zone));
	if (!up || (cl->kubeconfig == NULL && !cw_server_ok(server))) {
		call_fail(c, SPOT_UNAVAILABLE, NULL,
		    "the control plane says %.60s, endpoint '%.100s'", status, server);
		cl->ready = false;
		cl->bad_rc = SPOT_UNAVAILABLE;
		snprintf(cl->bad, sizeof(cl->bad), "%.299s", c->err.text);
		return;
	}
	if (cl->kubeconfig == NULL) {
		cl->managed = true;
		cl->bootstrap_server = text_keep(self, cl->bootstrap_server, server);
	}
	if (cl->bad_rc != SPOT_OK && cl->renew_us == 0) {
		cl->bad_rc = SPOT_OK; /* it was down, now it is up */
	}
}

static enum spot_step read_clusters(struct cw *self, struct spot_call *c, struct authing *st)
{
	struct cw_reply r;
	const json_t *items;
	enum spot_step s;

	cw_reply_read(c, true, &r);
	s = cw_reply_verdict(c, NULL, "clusters", false, &r);
	items = json_object_get(r.doc, "items");
	if (s == SPOT_STEP_NONE && !json_is_array(items)) {
		/* No member at all is how an empty list is written in proto3's JSON. */
		s = items == NULL && json_object_size(r.doc) == 0
		    ? SPOT_STEP_NONE
		    : cw_bad_reply(c, "clusters", false, "'items' is not a list");
	}
	if (s != SPOT_STEP_NONE) {
		json_decref(r.doc);
		if (self->clusters_n > 0) {
			self->discover_us = c->now_us + RETRY_US; /* those that are known go on */
			st->at = A_CONFIG;
			return SPOT_STEP_NONE;
		}
		return s == SPOT_REAUTH ? SPOT_FAIL : s;
	}
	for (size_t i = 0; i < json_array_size(items); i++) {
		cluster_found(self, c, json_array_get(items, i));
	}
	json_decref(r.doc);
	self->discover_us = c->now_us + REDISCOVER_US;
	st->at = A_CONFIG;
	return SPOT_STEP_NONE;
}

/* ---- a cluster's own credentials ------------------------------------------------------------- */

static enum spot_step read_config(struct cw *self, struct spot_call *c, struct authing *st,
    struct cw_cluster *cl)
{
	enum spot_rc rc;

	if (c->in->status != 200) {
		file_bad(c, cl->kubeconfig);
		mark_bad(c, st, cl, cl->ready);
		return SPOT_STEP_NONE;
	}
	rc =
	    cw_kubeconfig_read(c->arena, c->in->body, cl->kubeconfig, cl->context, &st->k, &c->err);
	if (rc != SPOT_OK) {
		mark_bad(c, st, cl, false);
		return SPOT_STEP_NONE;
	}
	cl->bootstrap_server = text_keep(self, cl->bootstrap_server, st->k.server);
	st->file = 0;
	st->at = A_FILES;
	return SPOT_STEP_NONE;
}

static const char *file_path(const struct authing *st)
{
	const char *const all[F_COUNT] = { st->k.ca_file, st->k.cert_file, st->k.key_file,
		st->k.token_file };

	return all[st->file];
}

static enum spot_step read_file(struct spot_call *c, struct authing *st, struct cw_cluster *cl)
{
	const char *pem = arena_strndup(c->arena, c->in->body.p, c->in->body.n);
	struct str t = text_trim(c->in->body);

	if (c->in->status != 200) {
		file_bad(c, file_path(st));
		mark_bad(c, st, cl, cl->ready);
		return SPOT_STEP_NONE;
	}
	if (st->file == F_TOKEN ? !token_ok(t) : strstr(pem, "-----BEGIN") == NULL) {
		call_fail(c, SPOT_CONFIG, NULL, "%s holds no %s", file_path(st),
		    st->file == F_TOKEN ? "token" : "PEM text");
		mark_bad(c, st, cl, false);
		return SPOT_STEP_NONE;
	}
	switch (st->file++) {
	case F_CA:
		st->k.ca_pem = pem;
		break;
	case F_CERT:
		st->k.cert_pem = pem;
		break;
	case F_KEY:
		st->k.key_pem = pem;
		break;
	default:
		st->k.token = arena_strndup(c->arena, t.p, t.n);
		break;
	}
	return SPOT_STEP_NONE;
}

/* Everything is there: into the cluster. */
static void config_done(struct cw *self, struct authing *st, struct cw_cluster *cl)
{
	cl->ca_pem = text_keep(self, cl->ca_pem, st->k.ca_pem);
	cl->cert_pem = text_keep(self, cl->cert_pem, st->k.cert_pem);
	secret_fini(&cl->key_pem);
	secret_fini(&cl->bootstrap);
	if (st->k.key_pem != NULL) {
		secret_init(&cl->key_pem, st->k.key_pem, strlen(st->k.key_pem));
	}
	if (st->k.token[0] != '\0') {
		secret_init(&cl->bootstrap, st->k.token, strlen(st->k.token));
	}
}

static void in_use(struct cw *self, struct cw_cluster *cl, const char *server, const char *token,
    int64_t renew_us)
{
	cl->server = text_keep(self, cl->server, server);
	if (token != NULL) {
		secret_put(&cl->token, token, strlen(token));
	} else {
		secret_fini(&cl->token);
	}
	cl->renew_us = renew_us;
	cl->ready = true;
	cl->bad_rc = SPOT_OK;
	cl->bad[0] = '\0';
}

/* With the account's own token while it is good, else with what we were given. */
static void send_token(const struct cw *self, struct spot_call *c, const struct authing *st,
    const struct cw_cluster *cl)
{
	AUTO(json)
	json_t *body =
	    json_pack("{s:s, s:s, s:{s:[], s:i}}", "apiVersion", "authentication.k8s.io/v1", "kind",
		"TokenRequest", "spec", "audiences", "expirationSeconds", TOKEN_LIFE_S);

	cw_request_as(self, c, cl, st->with_bootstrap ? cl->bootstrap_server : cl->server,
	    st->with_bootstrap ? &cl->bootstrap : &cl->token, "POST",
	    arena_printf(c->arena, "/api/v1/namespaces/%s/serviceaccounts/%s/token", self->space,
		self->account));
	cw_request_json(c, "application/json", body);
}

/* Service account tokens are refused at the managed endpoint. */
static const char *api_host(struct arena *a, const struct cw_cluster *cl)
{
	const char *url = cl->bootstrap_server;

	return cl->managed && !str_prefix(url, "https://api.")
	    ? arena_printf(a, "https://api.%s", url + 8)
	    : url;
}

static enum spot_step token_failed(struct cw *self, struct spot_call *c, struct authing *st,
    struct cw_cluster *cl, enum spot_step s)
{
	if (s == SPOT_AGAIN && ++st->tries < TRIES) {
		return s;
	}
	if (!st->with_bootstrap) {
		st->with_bootstrap = true; /* our own token is too old or gone */
		st->tries = 0;
		return SPOT_STEP_NONE;
	}
	(void)self;
	mark_bad(c, st, cl, cl->ready && !st->forced);
	return SPOT_STEP_NONE;
}

static enum spot_step read_token(struct cw *self, struct spot_call *c, struct authing *st,
    struct cw_cluster *cl)
{
	json_t *doc = NULL;
	enum spot_step s = cw_reply_get(c, cl, "token", false, "TokenRequest", &doc);
	const json_t *status;
	const char *token;
	int64_t life, off = 0;

	if (s != SPOT_STEP_NONE) {
		return token_failed(self, c, st, cl, s);
	}
	status = json_object_get(doc, "status");
	token = cw_str(c->arena, status, "token");
	/* The server may grant another life than was asked for; its end is by the server's
	 * clock. */
	if (!call_clock_off(c, &off)) {
		off = 0;
	}
	life = cw_time(status, "expirationTimestamp") - c->now_us - off;
	json_decref(doc);
	if (!token_ok(str_from(token)) || life <= 0) {
		cw_bad_reply(c, "token", false, "no token or a life that is over");
		return token_failed(self, c, st, cl, SPOT_FAIL);
	}
	in_use(self, cl, api_host(c->arena, cl), token, c->now_us + life / 10 * 8);
	st->at = A_NEXT;
	return SPOT_STEP_NONE;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static struct cw_cluster *cluster_at(const struct cw *self, const struct authing *st)
{
	return st->i < self->clusters_n ? self->clusters[st->i] : NULL;
}

static enum spot_step auth_reply(struct cw *self, struct spot_call *c, struct authing *st)
{
	struct cw_cluster *cl = cluster_at(self, st);

	switch (st->at) {
	case A_API_FILE:
		return read_secret(c, st, self->api_token_file, &self->api_token);
	case A_OBJECT_FILE:
		return read_secret(c, st, self->object_secret_file, &self->object_secret);
	case A_DISCOVER:
		return read_clusters(self, c, st);
	case A_CONFIG:
		return read_config(self, c, st, cl);
	case A_FILES:
		return read_file(c, st, cl);
	default:
		return read_token(self, c, st, cl);
	}
}

static void begin_token(struct cw *self, struct spot_call *c, struct authing *st,
    struct cw_cluster *cl)
{
	const char *token = secret_set(&cl->bootstrap) ? secret_reveal(&cl->bootstrap) : NULL;
	bool reread =
	    cl->kubeconfig != NULL && st->k.token_file != NULL && st->k.token_file[0] != '\0';

	if (self->account == NULL) {
		in_use(self, cl, cl->bootstrap_server, token, reread ? c->now_us + REREAD_US : 0);
		st->at = A_NEXT;
		return;
	}
	st->with_bootstrap = st->forced || !cl->ready || !secret_set(&cl->token);
	st->tries = 0;
	st->at = A_TOKEN;
}

static void begin_cluster(struct cw *self, struct spot_call *c, struct authing *st)
{
	struct cw_cluster *cl = cluster_at(self, st);

	if (cl == NULL) {
		st->at = A_END;
	} else if (cl->bootstrap_server == NULL && cl->kubeconfig == NULL) {
		st->at = A_NEXT; /* was never up */
	} else if (!st->forced && !renewal_due(cl, c->now_us)) {
		st->at = A_NEXT;
	} else if (cl->kubeconfig == NULL) {
		if (secret_set(&self->api_token)) {
			secret_put(&cl->bootstrap, secret_reveal(&self->api_token),
			    strlen(secret_reveal(&self->api_token)));
		}
		begin_token(self, c, st, cl);
	}
}

static enum spot_step auth_end(const struct cw *self, struct spot_call *c, const struct authing *st)
{
	for (size_t i = 0; i < self->clusters_n; i++) {
		if (self->clusters[i]->bad_rc == SPOT_OK && self->clusters[i]->ready) {
			return SPOT_DONE;
		}
	}
	if (self->clusters_n == 0) {
		return call_fail(c, SPOT_CONFIG, NULL,
		    "%s: no cluster%s: make one, or name those that exist in clusters and "
		    "kubeconfig.NAME",
		    self->name,
		    self->wanted_n > 0 ? " of those in clusters is there" : " is running");
	}
	return call_fail(c, st->first.rc != SPOT_OK ? st->first.rc : self->clusters[0]->bad_rc,
	    st->first.code, "%s: no cluster can be used: %s", self->name,
	    st->first.rc != SPOT_OK ? st->first.text : self->clusters[0]->bad);
}

static enum spot_step auth_walk(struct cw *self, struct spot_call *c, struct authing *st)
{
	for (;;) {
		switch (st->at) {
		case A_API_FILE:
			c->path = self->api_token_file;
			if (c->path != NULL && (st->forced || !secret_set(&self->api_token))) {
				return SPOT_READ;
			}
			st->at++;
			break;
		case A_OBJECT_FILE:
			c->path = self->object_secret_file;
			if (c->path != NULL && !secret_set(&self->object_secret)) {
				return SPOT_READ;
			}
			st->at++;
			break;
		case A_DISCOVER:
			if (self->cks && secret_set(&self->api_token) &&
			    (st->forced || call_due(c->now_us, self->discover_us, REDISCOVER_US))) {
				cw_api_request(self, c, "GET", "/v1beta1/cks/clusters");
				return SPOT_SEND;
			}
			st->at++;
			break;
		case A_CONFIG:
			begin_cluster(self, c, st);
			if (st->at == A_CONFIG) {
				c->path = cluster_at(self, st)->kubeconfig;
				return SPOT_READ;
			}
			break;
		case A_FILES:
			while (st->file < F_COUNT && str_empty(file_path(st))) {
				st->file++;
			}
			if (st->file < F_COUNT) {
				c->path = file_path(st);
				return SPOT_READ;
			}
			config_done(self, st, cluster_at(self, st));
			begin_token(self, c, st, cluster_at(self, st));
			break;
		case A_TOKEN:
			send_token(self, c, st, cluster_at(self, st));
			return SPOT_SEND;
		case A_NEXT:
			st->i++;
			st->k = (struct cw_kubeconfig){ 0 };
			st->at = A_CONFIG;
			break;
		default:
			return auth_end(self, c, st);
		}
	}
}

enum spot_step cw_auth(void *p, struct spot_call *c)
{
	struct cw *self = p;
	struct authing *st = c->state;

	if (st == NULL) {
		c->state = st = arena_alloc(c->arena, sizeof(*st));
		/* asked although fresh: what we have was refused */
		st->forced = cw_auth_fresh(self, c->now_us);
	}
	if (c->in != NULL) {
		enum spot_step s = auth_reply(self, c, st);

		if (s != SPOT_STEP_NONE) {
			return s == SPOT_REAUTH ? SPOT_FAIL : s;
		}
	}
	return auth_walk(self, c, st);
}
