/* The options of one attempt to connect: those of the DSN, our defaults for the rest, and the order
 * of its hosts. */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"

#define HOSTS_MAX 64 /* longer lists keep their order */

/* Our defaults for options that the DSN leaves open. The TCP settings detect a peer that vanished
 * (but not a frozen one, see pg_scout.c); read-write skips standbys. */
static const struct {
	const char *key, *value;
} defaults[] = {
	{ "client_encoding", "UTF8" },
	{ "keepalives_idle", "20" },
	{ "keepalives_interval", "5" },
	{ "keepalives_count", "3" },
	{ "tcp_user_timeout", "30000" },
	{ "target_session_attrs", "read-write" },
};

void pg_opts_set(struct pg_opts *o, const char *key, const char *value, bool override)
{
	for (int i = 0; i < o->n; i++) {
		if (str_same(o->keys[i], key)) {
			if (override) {
				o->values[i] = value;
			}
			return;
		}
	}
	assert(o->n < PG_OPTS_MAX - 1);
	o->keys[o->n] = key;
	o->values[o->n++] = value;
	o->keys[o->n] = o->values[o->n] = NULL;
}

const char *pg_opts_get(const struct pg_opts *o, const char *key, const char *env)
{
	for (int i = 0; i < o->n; i++) {
		if (str_same(o->keys[i], key)) {
			return o->values[i];
		}
	}
	return env == NULL ? NULL : getenv(env);
}

bool pg_opts_parse(const char *dsn, struct pg_opts *o)
{
	memset(o, 0, sizeof(*o));
	o->info = PQconninfoParse(dsn, NULL);
	if (o->info == NULL) {
		return false;
	}
	for (PQconninfoOption *i = o->info; i->keyword != NULL; i++) {
		if (i->val != NULL && i->val[0] != '\0') {
			pg_opts_set(o, i->keyword, i->val, true);
			if (strcmp(i->keyword, "password") == 0) {
				redact_add(i->val, strlen(i->val));
			}
		}
	}
	return true;
}

void pg_opts_fini(struct pg_opts *o)
{
	PQconninfoFree(o->info);
	for (size_t i = 0; i < ARRAY_LEN(o->made); i++) {
		free(o->made[i]);
	}
}

void pg_opts_complete(struct pg_opts *o, const char *application,
    const struct pg_resolve_result *res)
{
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
		pg_opts_set(o, defaults[i].key, defaults[i].value, false);
	}
	pg_opts_set(o, "application_name", application, false);
	if (res != NULL) {
		pg_opts_set(o, "host", res->hosts, true);
		pg_opts_set(o, "hostaddr", res->addrs, true);
		pg_opts_set(o, "port", res->ports, true);
	}
}

/* ---- the hosts ------------------------------------------------------------------------------- */

enum { HOST, HOSTADDR, PORT, LISTS };
static const char *const list_keys[LISTS] = { "host", "hostaddr", "port" };

/* Returns item k of a comma list. A list of one item, such as a common port, has that one for every
 * k. */
static struct str list_item(const char *list, int k)
{
	const char *at = list == NULL ? "" : list;

	if (strchr(at, ',') == NULL) {
		k = 0;
	}
	for (; k > 0; k--) {
		at += strcspn(at, ",") + (strchr(at, ',') != NULL);
	}
	return (struct str){ at, strcspn(at, ",") };
}

static int list_len(const char *list)
{
	int n = 1;

	for (const char *s = list == NULL ? "" : list; *s != '\0'; s++) {
		n += *s == ',';
	}
	return n;
}

static bool item_is(struct str item, const char *word)
{
	return item.n == strlen(word) && memcmp(item.p, word, item.n) == 0;
}

static bool host_is(const char *const lists[LISTS], int k, const struct pg_place *p)
{
	struct str addr = list_item(lists[HOSTADDR], k), port = list_item(lists[PORT], k);

	return (addr.n > 0 ? item_is(addr, p->addr)
			   : item_is(list_item(lists[HOST], k), p->host)) &&
	    (port.n == 0 || item_is(port, p->port));
}

void pg_place_of(PGconn *c, struct pg_place *ret)
{
	const char *host = c == NULL ? NULL : PQhost(c), *addr = c == NULL ? NULL : PQhostaddr(c);
	const char *port = c == NULL ? NULL : PQport(c);

	(void)snprintf(ret->host, sizeof(ret->host), "%s", host == NULL ? "" : host);
	(void)snprintf(ret->addr, sizeof(ret->addr), "%s", addr == NULL ? "" : addr);
	(void)snprintf(ret->port, sizeof(ret->port), "%s", port == NULL ? "" : port);
}

bool pg_place_same(const struct pg_place *a, const struct pg_place *b)
{
	return strcmp(a->host, b->host) == 0 && strcmp(a->addr, b->addr) == 0 &&
	    strcmp(a->port, b->port) == 0;
}

static char *list_made(const char *list, const int *order, int n)
{
	size_t cap = strlen(list) + 2, len = 0;
	char *ret = malloc(cap);

	assert(ret != NULL);
	ret[0] = '\0';
	for (int i = 0; i < n; i++) {
		struct str item = list_item(list, order[i]);

		len += (size_t)snprintf(ret + len, cap - len, "%s%.*s", i > 0 ? "," : "",
		    (int)item.n, item.p);
	}
	return ret;
}

int pg_opts_order(struct pg_opts *o, int first, const struct pg_place *place, enum pg_order how)
{
	const char *lists[LISTS];
	int order[HOSTS_MAX], at[HOSTS_MAX], n = 0, at_n = 0, len;

	for (int i = 0; i < LISTS; i++) {
		lists[i] = pg_opts_get(o, list_keys[i], NULL);
	}
	len = list_len(lists[lists[HOSTADDR] != NULL ? HOSTADDR : HOST]);
	if (len == 1 || len > HOSTS_MAX) {
		return len;
	}
	for (int i = 0; i < len; i++) {
		int k = (first + i) % len;

		if (host_is(lists, k, place)) {
			at[at_n++] = k;
		} else if (how != PG_ORDER_ONLY) {
			order[n++] = k;
		}
	}
	for (int i = 0; how != PG_ORDER_OTHERS && i < at_n; i++) {
		order[n++] = at[i];
	}
	for (int i = 0; n > 0 && i < LISTS; i++) {
		if (lists[i] != NULL && list_len(lists[i]) == len) {
			o->made[i] = list_made(lists[i], order, n);
			pg_opts_set(o, list_keys[i], o->made[i], true);
		}
	}
	return how == PG_ORDER_LAST ? len : n;
}
