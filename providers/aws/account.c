#include "base/base.h"
#include "aws_priv.h"

/* The account: its regions, its identity, its quotas. */

/* ---- regions --------------------------------------------------------------------------------- */

enum spot_step aws_regions(void *p, struct spot_call *c, struct spot_regions *a)
{
	struct aws *self = p;
	const struct xml *doc, *set;
	struct query q;
	size_t cap = 0;
	enum spot_step s;

	call_state_get(c, 0);
	if (self->regions_n > 0) {
		a->names = self->regions;
		a->n = self->regions_n;
		return SPOT_DONE;
	}
	if (c->in == NULL) {
		query_begin(&q, c->arena, "DescribeRegions", EC2_VERSION);
		query_add(&q, "Filter.1.Name", "opt-in-status");
		query_add(&q, "Filter.1.Value.1", "opt-in-not-required");
		query_add(&q, "Filter.1.Value.2", "opted-in");
		return query_send_ec2(&q, self, c, self->home, "DescribeRegions",
		    AWS_LIMIT_DESCRIBE, false);
	}
	s = aws_reply_xml(self, c, "DescribeRegions", "DescribeRegionsResponse", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	set = xml_at(doc, "regionInfo");
	if (set == NULL) {
		return aws_bad_reply(c, "DescribeRegions", "no regionInfo");
	}
	a->names = NULL;
	a->n = 0;
	for (const struct xml *i = xml_first(set, "item"); i != NULL; i = xml_next(i, "item")) {
		const char *name = xml_text(i, "regionName", "");

		/* It becomes a host name. */
		if (!aws_region_ok(name)) {
			return aws_bad_reply(c, "DescribeRegions", "'%.40s' is no region name",
			    name);
		}
		if (strcmp(xml_text(i, "optInStatus", ""), "not-opted-in") == 0) {
			continue;
		}
		a->names = arena_grow(c->arena, (void *)a->names, a->n, &cap, sizeof(*a->names));
		a->names[a->n++] = name;
	}
	return SPOT_DONE;
}

/* ---- whoami ---------------------------------------------------------------------------------- */

enum spot_step aws_whoami(void *p, struct spot_call *c, const char **ret_account)
{
	struct aws *self = p;
	const struct xml *doc;
	const char *account;
	struct aws_request r = { .service = AWS_STS,
		.region = self->home,
		.action = "GetCallerIdentity",
		.content_type = "application/x-www-form-urlencoded; charset=utf-8",
		.limit = AWS_LIMIT_STS };
	struct query q;
	enum spot_step s;

	call_state_get(c, 0);
	if (c->in == NULL) {
		query_begin(&q, c->arena, "GetCallerIdentity", STS_VERSION);
		r.body = query_end(&q, &r.body_n);
		return aws_send(self, c, &r);
	}
	s = aws_reply_xml(self, c, "GetCallerIdentity", "GetCallerIdentityResponse", &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	account = xml_text(doc, "GetCallerIdentityResult/Account", "");
	if (strlen(account) != 12 || strspn(account, "0123456789") != 12) {
		return aws_bad_reply(c, "GetCallerIdentity", "Account is not twelve digits");
	}
	*ret_account = account;
	return SPOT_DONE;
}

/* ---- quotas ---------------------------------------------------------------------------------- */

/* Classes that pools name, with the code to ask for a default by (ec2-instance-quotas.html). P6 on
 * spot has no code that two sources agree on: it is known only if a quota's name says so. */
static const struct {
	const char *class, *code;
	enum spot_market market;
} classes[] = {
	{ "P/OnDemand", "L-417A185B", SPOT_MARKET_ON_DEMAND },
	{ "G/OnDemand", "L-DB2E81BA", SPOT_MARKET_ON_DEMAND },
	{ "P/Spot", "L-7212CCBC", SPOT_MARKET_SPOT },
	{ "P5/Spot", "L-C4BD4855", SPOT_MARKET_SPOT },
	{ "G/Spot", "L-3819A6DF", SPOT_MARKET_SPOT },
	{ "P6/Spot", "", SPOT_MARKET_SPOT },
};
#define CLASSES ARRAY_LEN(classes)

struct quoting {
	int64_t limit[CLASSES];
	bool known[CLASSES], exact[CLASSES]; /* exact: its name names the class itself */
	size_t ask; /* class whose default is asked for */
	bool listed;
};

static bool has_word(const char *text, size_t n, const char *word)
{
	size_t w = strlen(word);

	for (size_t i = 0; i + w <= n; i++) {
		bool left = i == 0 || strchr(" ,", text[i - 1]) != NULL;
		bool right = i + w == n || strchr(" ,", text[i + w]) != NULL;

		if (left && right && strncmp(text + i, word, w) == 0) {
			return true;
		}
	}
	return false;
}

static void class_set(struct quoting *x, const char *class, bool exact, int64_t limit)
{
	for (size_t i = 0; i < CLASSES; i++) {
		if (strcmp(classes[i].class, class) != 0 || (x->exact[i] && !exact)) {
			continue;
		}
		x->limit[i] = limit;
		x->known[i] = true;
		x->exact[i] = exact;
	}
}

/* On demand: "Running On-Demand P instances", "Running On-Demand G and VT instances". Spot: "All P5
 * Spot Instance Requests", "All P4, P3 and P2 Spot Instance Requests". Some partitions have "All P
 * Spot Instance Requests", which covers P5 and P6 too. */
static void quota_by_name(struct quoting *x, const char *name, int64_t limit)
{
	const char *od = "Running On-Demand ", *end;
	size_t n;

	if (str_prefix(name, od) && str_suffix(name, " instances")) {
		name += strlen(od);
		n = strlen(name) - strlen(" instances");
		if (has_word(name, n, "P")) {
			class_set(x, "P/OnDemand", true, limit);
		}
		if (has_word(name, n, "G")) {
			class_set(x, "G/OnDemand", true, limit);
		}
		return;
	}
	end = str_prefix(name, "All ") ? strstr(name, " Spot Instance Requests") : NULL;
	if (end == NULL || strncmp(name, "All Standard", 12) == 0) {
		return;
	}
	name += 4;
	n = end > name ? (size_t)(end - name) : 0;
	if (has_word(name, n, "G")) {
		class_set(x, "G/Spot", true, limit);
	}
	if (has_word(name, n, "P4")) {
		class_set(x, "P/Spot", true, limit);
	}
	if (has_word(name, n, "P5")) {
		class_set(x, "P5/Spot", true, limit);
	}
	if (has_word(name, n, "P6")) {
		class_set(x, "P6/Spot", true, limit);
	}
	if (has_word(name, n, "P")) {
		class_set(x, "P/Spot", true, limit);
		class_set(x, "P5/Spot", false, limit);
		class_set(x, "P6/Spot", false, limit);
	}
}

/* Value is a JSON number of whole vCPUs; negative or absurd ones are refused. */
static bool quota_value(const json_t *quota, int64_t *ret)
{
	const json_t *v = json_object_get(quota, "Value");
	double d = json_is_number(v) ? json_number_value(v) : -1;

	if (!(d >= 0 && d < 1e9)) {
		return false;
	}
	*ret = (int64_t)d;
	return true;
}

static enum spot_step quotas_send(struct aws *self, struct spot_call *c, const char *region,
    struct quoting *x)
{
	const struct call_state *st = c->state;
	json_t *doc AUTO(json) = json_pack("{s:s}", "ServiceCode", "ec2");
	struct aws_request r = { .service = AWS_QUOTAS,
		.region = region,
		.content_type = "application/x-amz-json-1.1",
		.limit = AWS_LIMIT_QUOTAS };

	if (!x->listed) {
		r.action = "ListServiceQuotas";
		r.target = "ServiceQuotasV20190624.ListServiceQuotas";
		json_object_set_new(doc, "MaxResults", json_integer(100));
		if (st->next != NULL) {
			json_object_set_new(doc, "NextToken", json_string(st->next));
		}
	} else {
		r.action = "GetAWSDefaultServiceQuota";
		r.target = "ServiceQuotasV20190624.GetAWSDefaultServiceQuota";
		json_object_set_new(doc, "QuotaCode", json_string(classes[x->ask].code));
	}
	r.body = json_text(c->arena, doc);
	r.body_n = strlen(r.body);
	return aws_send(self, c, &r);
}

static enum spot_step list_reply(struct aws *self, struct spot_call *c, struct quoting *x)
{
	const char *action = "ListServiceQuotas";
	json_t *doc AUTO(json) = NULL;
	const json_t *list, *item;
	size_t i;
	bool bad;
	enum spot_step s = aws_reply_json(self, c, action, &doc);

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	list = json_object_get(doc, "Quotas");
	if (!json_is_array(list)) {
		return aws_bad_reply(c, action, "Quotas is not an array");
	}
	json_array_foreach (list, i, item) {
		const char *name = json_string_value(json_object_get(item, "QuotaName"));
		int64_t limit;

		if (name == NULL) {
			return aws_bad_reply(c, action, "Quotas[%zu] has no QuotaName", i);
		}
		if (quota_value(item, &limit)) {
			quota_by_name(x, name, limit);
		}
	}
	x->listed = !aws_next_page(c->state, c->arena,
	    json_string_value(json_object_get(doc, "NextToken")), &bad);
	return bad ? aws_bad_reply(c, action, "the page token repeats") : SPOT_STEP_NONE;
}

static enum spot_step default_reply(struct aws *self, struct spot_call *c, struct quoting *x)
{
	const char *action = "GetAWSDefaultServiceQuota", *code, *message;
	json_t *doc AUTO(json) = NULL;
	int64_t limit;
	enum spot_step s;

	if (c->in->status == 400 || c->in->status == 404) {
		aws_error_read(c, &code, &message);
		if (strcmp(code, "NoSuchResourceException") == 0) {
			x->ask++;
			return SPOT_STEP_NONE;
		}
	}
	s = aws_reply_json(self, c, action, &doc);
	if (s != SPOT_STEP_NONE) {
		return s;
	}
	if (!quota_value(json_object_get(doc, "Quota"), &limit)) {
		return aws_bad_reply(c, action, "Quota.Value is not a number");
	}
	class_set(x, classes[x->ask++].class, true, limit);
	return SPOT_STEP_NONE;
}

static void quotas_result(struct aws *self, struct spot_call *c, struct spot_quotas *a,
    const struct quoting *x)
{
	a->n = CLASSES;
	a->quotas = arena_array(c->arena, CLASSES, sizeof(*a->quotas));
	for (size_t i = 0; i < CLASSES; i++) {
		a->quotas[i] = (struct spot_quota){ .provider = self->name,
			.region = a->region,
			.class = classes[i].class,
			.unit = "vcpu",
			.market = classes[i].market,
			.limit = x->known[i] ? x->limit[i] : -1,
			.observed_us = c->now_us };
	}
}

/* A quota without an applied value is not in the list: its default is asked for by code. */
enum spot_step aws_quotas(void *p, struct spot_call *c, struct spot_quotas *a)
{
	struct aws *self = p;
	struct call_state *st = call_state_get(c, sizeof(struct quoting));
	struct quoting *x = st->own;

	if (str_empty(a->region)) {
		return call_fail(c, SPOT_INVALID, NULL, "aws quotas: a region is needed");
	}
	if (c->in != NULL) {
		enum spot_step s = x->listed ? default_reply(self, c, x) : list_reply(self, c, x);

		if (s != SPOT_STEP_NONE) {
			return s;
		}
	}
	while (
	    x->listed && x->ask < CLASSES && (x->known[x->ask] || *classes[x->ask].code == '\0')) {
		x->ask++;
	}
	if (!x->listed || x->ask < CLASSES) {
		return quotas_send(self, c, a->region, x);
	}
	quotas_result(self, c, a, x);
	return SPOT_DONE;
}
