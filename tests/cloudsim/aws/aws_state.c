/* Client tokens and quotas of the one account. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

#include <search.h>

struct quota_row {
	char *region, *code;
	int64_t vcpus;
};
struct aws_state {
	void *tokens; /* tsearch by key */
	struct quota_row *rows;
	size_t rows_n;
	struct sqs *sqs;
	struct aws_controls controls;
};

struct aws_controls *aws_controls(struct sim *s)
{
	return &s->aws->controls;
}

struct sqs **aws_sqs(struct sim *s)
{
	return &s->aws->sqs;
}

void aws_state_new(struct sim *s)
{
	s->aws = calloc(1, sizeof(*s->aws));
	if (!s->aws) {
		abort();
	}
	s->aws->controls.manager_lag_h = 1;
}

static void token_free(void *p)
{
	struct launch_token *t = p;

	free(t->key);
	free(t->hash);
	free(t->insts);
	free(t->reply);
	free(t);
}

void aws_state_free(struct sim *s)
{
	tdestroy(s->aws->tokens, token_free);
	for (size_t k = 0; k < s->aws->rows_n; k++) {
		free(s->aws->rows[k].region);
		free(s->aws->rows[k].code);
	}
	free(s->aws->rows);
	free(s->aws);
	s->aws = NULL;
}

static int by_key(const void *a, const void *b)
{
	const struct launch_token *x = a, *y = b;

	return strcmp(x->key, y->key);
}

struct launch_token *token_find(struct sim *s, const char *key, bool create)
{
	struct launch_token probe = { .key = dup_text(key) }, *t;
	void *const *found = tfind(&probe, (void *const *)&s->aws->tokens, by_key);

	if (found || !create) {
		free(probe.key);
		return found ? *found : NULL;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		abort();
	}
	t->key = probe.key;
	if (!tsearch(t, &s->aws->tokens, by_key)) {
		abort();
	}
	return t;
}

/* ---- quotas ---------------------------------------------------------------------------------- */

/* Codes of "Amazon EC2 instance type quotas"; klass as in the usage metric. The class of a type is
 * the first with the family in its prefix list. P6 spot: two public sources disagree; here P5's. */
const struct quota quotas[] = {
	{ "L-417A185B", "Running On-Demand P instances", "P/OnDemand", "p", SIDE_ON_DEMAND },
	{ "L-DB2E81BA", "Running On-Demand G and VT instances", "G/OnDemand", "g", SIDE_ON_DEMAND },
	{ "L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
	    "Standard/OnDemand", "m", SIDE_ON_DEMAND },
	{ "L-C4BD4855", "All P5 Spot Instance Requests", "P5/Spot", "p5", SIDE_SPOT },
	{ "L-C4BD4855", "All P5 Spot Instance Requests", "P5/Spot", "p6", SIDE_SPOT },
	{ "L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", "P/Spot", "p", SIDE_SPOT },
	{ "L-3819A6DF", "All G and VT Spot Instance Requests", "G/Spot", "g", SIDE_SPOT },
	{ "L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
	    "Standard/Spot", "m", SIDE_SPOT },
};
const size_t quotas_n = ARRAY_LEN(quotas);

const struct quota *quota_of(const struct itype *t, enum side side)
{
	for (size_t k = 0; k < quotas_n; k++) {
		bool standard = str_prefix(quotas[k].klass, "Standard");

		if (quotas[k].side == side &&
		    (standard ? !*t->gpu : *t->gpu && str_prefix(t->name, quotas[k].prefix))) {
			return &quotas[k];
		}
	}
	return NULL;
}

int64_t quota_value(const struct sim *s, const char *region, const char *code)
{
	for (size_t k = s->aws->rows_n; k-- > 0;) {
		const struct quota_row *r = &s->aws->rows[k];

		if (glob_match(r->region, region) && glob_match(r->code, code)) {
			return r->vcpus;
		}
	}
	return s->conf.quota_vcpus;
}

static void quota_set(struct sim *s, const char *region, const char *code, int64_t vcpus)
{
	struct aws_state *st = s->aws;

	st->rows = realloc(st->rows, (st->rows_n + 1) * sizeof(*st->rows));
	if (!st->rows) {
		abort();
	}
	st->rows[st->rows_n++] = (struct quota_row){ dup_text(region), dup_text(code), vcpus };
}

json_t *quota_post(struct sim *s, const json_t *doc, struct arena *a UNUSED, struct spot_err *err)
{
	const char *region = json_str(doc, "region", "*", err);
	const char *code = json_str(doc, "code", "*", err);
	int64_t vcpus = json_need_i64(doc, "vcpus", err);

	if (err->rc != SPOT_OK) {
		return NULL;
	}
	quota_set(s, region, code, vcpus);
	return json_object();
}

int64_t quota_used(const struct sim *s, const char *region, const struct quota *q)
{
	int64_t sum = 0;

	for (size_t k = 0; k < s->market->pools_n; k++) {
		const struct pool *p = &s->market->pools[k];
		const struct quota *of;

		if (p->cloud != CLOUD_AWS || p->used[q->side] == 0 ||
		    !str_same(p->region->name, region)) {
			continue;
		}
		of = quota_of(p->type, q->side);
		if (of && str_same(of->code, q->code)) {
			sum += p->used[q->side] * p->type->vcpus;
		}
	}
	return sum;
}
