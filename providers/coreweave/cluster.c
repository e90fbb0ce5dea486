/* The clusters of a provider instance: add, find, walk, and what makes a server address good. */
#include "base/base.h"
#include "coreweave_priv.h"

bool cw_server_ok(const char *url)
{
	return url != NULL && str_prefix(url, "https://") && url[8] != '\0' && url[8] != '/' &&
	    strlen(url) < 300 && strpbrk(url, " \t\r\n?#@\"'\\<>") == NULL;
}

struct cw_cluster *cw_cluster_add(struct cw *self, const char *name)
{
	struct cw_cluster *cl;

	if (self->clusters_n == CW_CLUSTERS_MAX) {
		return NULL;
	}
	cl = calloc(1, sizeof(*cl));
	if (cl == NULL) {
		abort();
	}
	cl->name = arena_strdup(self->arena, name);
	cl->id = cl->region = cl->zone = "";
	self->clusters[self->clusters_n++] = cl;
	return cl;
}

void cw_cluster_free(struct cw_cluster *cl)
{
	secret_fini(&cl->key_pem);
	secret_fini(&cl->bootstrap);
	secret_fini(&cl->token);
	free(cl);
}

struct cw_cluster *cw_cluster_next(const struct cw *self, const char *region, const char *zone,
    size_t *i)
{
	while (*i < self->clusters_n) {
		struct cw_cluster *cl = self->clusters[(*i)++];

		if ((str_empty(region) || strcmp(region, cl->region) == 0) &&
		    (str_empty(zone) || strcmp(zone, cl->zone) == 0) &&
		    (cl->ready || cl->bad_rc != SPOT_OK)) {
			return cl;
		}
	}
	return NULL;
}

struct cw_cluster *cw_cluster_named(const struct cw *self, const char *name, size_t n)
{
	for (size_t i = 0; i < self->clusters_n; i++) {
		if (strlen(self->clusters[i]->name) == n &&
		    memcmp(self->clusters[i]->name, name, n) == 0) {
			return self->clusters[i];
		}
	}
	return NULL;
}
