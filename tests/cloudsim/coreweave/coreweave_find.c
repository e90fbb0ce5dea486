/* Looks up CoreWeave's instance types and the cluster of an instance. */
#include "base/base.h"
#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

const struct cw_type *cw_type_of(const struct sim *s, const struct itype *t)
{
	const struct coreweave *cw = s->coreweave;

	for (size_t k = 0; cw && k < cw->types_n; k++) {
		if (cw->types[k].type == t) {
			return &cw->types[k];
		}
	}
	return NULL;
}

struct k8s_cluster *cw_cluster_of(const struct inst *i)
{
	for (struct k8s_cluster *c = i->sim->coreweave->clusters; c; c = c->next) {
		if (c->zone && i->pool->zone && str_same(c->zone, i->pool->zone->name)) {
			return c;
		}
	}
	return NULL;
}
