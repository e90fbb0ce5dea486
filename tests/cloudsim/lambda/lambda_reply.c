/* Shared by every Lambda call: the data envelope, and the account's audit record. */
#include "base/base.h"
#include "cloudsim/lambda/lambda.h"

void lambda_audit_add(struct sim *s, const char *action, const struct inst *i, bool ours)
{
	struct lambda_state *l = s->lambda;

	if (s->pretend) {
		return;
	}
	l->audit = realloc(l->audit, (l->audit_n + 1) * sizeof(*l->audit));
	if (!l->audit) {
		abort();
	}
	l->audit[l->audit_n++] = (struct lambda_audit){ sim_id(s, NULL, "", 16), dup_text(action),
		dup_text(i->id), dup_text(i->pool->region->name), dup_text(i->pool->type->name),
		ours, sim_wall(s) };
}

void lambda_data(struct sim_req *rq, struct sim_reply *rep, json_t *data)
{
	reply_json(rq, rep, 200, json_pack("{s:o}", "data", data));
}
