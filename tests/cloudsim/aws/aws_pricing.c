/*
 * Price List GetProducts. A type and region has one on-demand Linux price. A careless filter also
 * catches other products. These are the unused-reservation row of the same price, the capacity
 * block of 0 dollars, and a pseudo-product without an instance type.
 */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

enum variant { VARIANT_USED = 0, VARIANT_UNUSED, VARIANT_BLOCK, VARIANT_COUNT };

struct product {
	const struct itype *type; /* NULL: the pseudo-product */
	const char *region;
	enum variant variant;
	int64_t micros;
};

static const char *sku_of(struct arena *a, const struct product *p)
{
	char hex[SHA256_HEX], *out;
	const char *text = arena_printf(a, "%s|%s|%d", p->type ? p->type->name : "free", p->region,
	    (int)p->variant);

	sha256_hex(text, strlen(text), hex);
	out = arena_strndup(a, hex, 16);
	for (char *c = out; *c; c++) {
		*c = (char)(*c >= 'a' && *c <= 'f'
			? *c - 'a' + 'A'
			: *c + 'G' - '0'); /* letters, as SKUs mostly are */
	}
	return out;
}

static void attribute_set(json_t *o, const char *key, const char *value)
{
	json_object_set_new(o, key, json_string(value));
}

static json_t *attributes_json(struct arena *a, const struct product *p)
{
	json_t *o = json_object();

	attribute_set(o, "servicecode", "AmazonEC2");
	attribute_set(o, "servicename", "Amazon Elastic Compute Cloud");
	attribute_set(o, "regionCode", p->region);
	attribute_set(o, "location", p->region);
	attribute_set(o, "locationType", "AWS Region");
	attribute_set(o, "operatingSystem", "Linux");
	if (!p->type) {
		attribute_set(o, "group", "FreeTier");
		attribute_set(o, "usagetype", "Global-BoxUsage:freetier");
		return o;
	}
	attribute_set(o, "instanceType", p->type->name);
	attribute_set(o, "currentGeneration", p->type->current ? "Yes" : "No");
	attribute_set(o, "instanceFamily", *p->type->gpu ? "GPU instance" : "General purpose");
	attribute_set(o, "vcpu", arena_printf(a, "%d", p->type->vcpus));
	attribute_set(o, "memory", arena_printf(a, "%g GiB", p->type->mem_mib / 1024.0));
	attribute_set(o, "gpu", arena_printf(a, "%d", p->type->gpus));
	attribute_set(o, "tenancy", "Shared");
	attribute_set(o, "preInstalledSw", "NA");
	attribute_set(o, "licenseModel", "No License required");
	attribute_set(o, "capacitystatus",
	    p->variant == VARIANT_UNUSED ? "UnusedCapacityReservation" : "Used");
	attribute_set(o, "marketoption",
	    p->variant == VARIANT_BLOCK ? "CapacityBlock" : "OnDemand");
	attribute_set(o, "operation",
	    p->variant == VARIANT_BLOCK ? "RunInstances:CB" : "RunInstances");
	attribute_set(o, "usagetype",
	    arena_printf(a, "%s:%s", p->variant == VARIANT_UNUSED ? "UnusedBox" : "BoxUsage",
		p->type->name));
	return o;
}

static const char *product_family(const struct product *p)
{
	if (!p->type) {
		return "NA";
	}
	return str_suffix(p->type->name, ".metal") ? "Compute Instance (bare metal)"
						   : "Compute Instance";
}

static json_t *product_json(struct arena *a, const struct product *p)
{
	const char *sku = sku_of(a, p), *offer = arena_printf(a, "%s.JRTCKXETXF", sku);
	const char *rate = arena_printf(a, "%s.6YS6EN2CT7", offer);
	char usd[USD_TEXT_MAX];
	json_t *price, *terms;

	price = json_pack("{s:s, s:s, s:s, s:s, s:o, s:[], s:{s:s}}", "rateCode", rate, "unit",
	    "Hrs", "beginRange", "0", "endRange", "Inf", "description",
	    json_sprintf("$%s per %s %s Instance Hour", format_usd(p->micros, usd),
		"On Demand Linux", p->type ? p->type->name : "free tier"),
	    "appliesTo", "pricePerUnit", "USD",
	    arena_printf(a, "%s0000", format_usd(p->micros, usd)));
	terms = json_pack("{s:{s:{s:s, s:s, s:s, s:{s:o}, s:{}}}}", "OnDemand", offer, "sku", sku,
	    "offerTermCode", "JRTCKXETXF", "effectiveDate", "2026-09-01T00:00:00Z",
	    "priceDimensions", rate, price, "termAttributes");
	return json_pack("{s:{s:s, s:s, s:o}, s:s, s:o, s:s, s:s}", "product", "sku", sku,
	    "productFamily", product_family(p), "attributes", attributes_json(a, p), "serviceCode",
	    "AmazonEC2", "terms", terms, "version", "20260901000000", "publicationDate",
	    "2026-09-01T00:00:00Z");
}

/* ---- filters --------------------------------------------------------------------------------- */

static bool in_commas(const char *list, const char *value)
{
	size_t n = strlen(value);

	for (const char *p = list; *p;) {
		const char *end = strchrnul(p, ',');

		if ((size_t)(end - p) == n && strncmp(p, value, n) == 0) {
			return true;
		}
		p = *end ? end + 1 : end;
	}
	return false;
}

static bool product_passes(const json_t *filters, const json_t *attrs, const struct product *p,
    struct arena *a)
{
	size_t k;
	json_t *f;

	json_array_foreach (filters, k, f) {
		const char *field = json_string_value(json_object_get(f, "Field"));
		const char *want = json_string_value(json_object_get(f, "Value"));
		const char *type = json_string_value(json_object_get(f, "Type"));
		const char *have;
		bool hit;

		if (!field || !want || !type) {
			return false;
		}
		have = str_same(field, "productFamily") ? product_family(p)
		    : str_same(field, "sku")            ? sku_of(a, p)
		    : str_same(field, "serviceCode")
		    ? "AmazonEC2"
		    : json_string_value(json_object_get(attrs, field));
		if (str_same(type, "CONTAINS")) {
			hit = have && strstr(have, want);
		} else if (str_same(type, "ANY_OF")) {
			hit = have && in_commas(want, have);
		} else if (str_same(type, "NONE_OF")) {
			hit = !have || !in_commas(want, have);
		} else {
			hit = have && str_same(have, want);
		}
		if (!hit) {
			return false;
		}
	}
	return true;
}

static bool filters_valid(struct sim_req *rq, struct sim_reply *rep, const json_t *filters)
{
	static const char *const types[] = { "TERM_MATCH", "EQUALS", "CONTAINS", "ANY_OF",
		"NONE_OF" };
	size_t k;
	json_t *f;

	json_array_foreach (filters, k, f) {
		const char *type = json_string_value(json_object_get(f, "Type"));

		if (!type || !ec2_match_any(types, ARRAY_LEN(types), type)) {
			reply_fail(rq, rep, 400, "InvalidParameterException",
			    "Invalid filter type: %s", type ? type : "null");
			return false;
		}
	}
	if (json_array_size(filters) > 50) {
		reply_fail(rq, rep, 400, "InvalidParameterException",
		    "At most 50 filters are allowed");
		return false;
	}
	return true;
}

/* ---- the walk -------------------------------------------------------------------------------- */

struct walk {
	struct sim_req *rq;
	const json_t *filters;
	int64_t from, max, at;
	json_t *list;
	bool more;
};

static void offer_add(struct walk *w, const struct product *p)
{
	json_t *attrs, *doc;

	if (w->more) {
		return;
	}
	attrs = attributes_json(w->rq->arena, p);
	if (product_passes(w->filters, attrs, p, w->rq->arena) && w->at++ >= w->from) {
		if (w->at > w->from + w->max) {
			w->more = true;
		} else {
			doc = product_json(w->rq->arena, p);
			json_array_append_new(w->list, json_string(json_text(w->rq->arena, doc)));
			json_decref(doc);
		}
	}
	json_decref(attrs);
}

static void walk_all(struct walk *w)
{
	const struct market *m = w->rq->sim->market;
	const struct pool *last = NULL;

	for (size_t k = 0; k < m->regions_n; k++) {
		if (m->regions[k].cloud == CLOUD_AWS) {
			offer_add(w,
			    &(struct product){ NULL, m->regions[k].name, VARIANT_USED, 0 });
		}
	}
	for (size_t t = 0; t < m->types_n; t++) {
		for (size_t k = 0; k < m->pools_n && !w->more; k++) {
			const struct pool *p = &m->pools[k];
			int64_t micros = price_at(&p->price[SIDE_ON_DEMAND], sim_wall(w->rq->sim));

			if (p->cloud != CLOUD_AWS || p->type != &m->types[t] ||
			    !p->price[SIDE_ON_DEMAND].sold ||
			    (last && last->type == p->type && last->region == p->region)) {
				continue;
			}
			last = p;
			if (str_prefix(p->type->name, "p4") || str_prefix(p->type->name, "p5") ||
			    str_prefix(p->type->name, "p6")) {
				offer_add(w,
				    &(struct product){ p->type, p->region->name, VARIANT_BLOCK,
					0 });
			}
			offer_add(w,
			    &(struct product){ p->type, p->region->name, VARIANT_UNUSED, micros });
			offer_add(w,
			    &(struct product){ p->type, p->region->name, VARIANT_USED, micros });
		}
	}
}

static void get_products(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *token = json_string_value(json_object_get(doc, "NextToken"));
	const json_t *max = json_object_get(doc, "MaxResults");
	struct walk w = { .rq = rq,
		.filters = json_object_get(doc, "Filters"),
		.max = max ? json_integer_value(max) : 100 };
	json_t *out;

	if (!str_same(json_string_value(json_object_get(doc, "ServiceCode")), "AmazonEC2")) {
		reply_fail(rq, rep, 400, "InvalidParameterException", "Invalid service code");
		return;
	}
	if (w.max < 1 || w.max > 100) {
		reply_fail(rq, rep, 400, "InvalidParameterException",
		    "MaxResults must be between 1 and 100");
		return;
	}
	if (token &&
	    (!str_prefix(token, "gp:") || !parse_i64(token + 3, 0, INT64_MAX / 2, &w.from))) {
		reply_fail(rq, rep, 400, "InvalidNextTokenException", "The next token is invalid");
		return;
	}
	if (!filters_valid(rq, rep, w.filters)) {
		return;
	}
	w.list = json_array();
	walk_all(&w);
	out = json_pack("{s:s, s:o}", "FormatVersion", "aws_v1", "PriceList", w.list);
	if (w.more) {
		json_object_set_new(out, "NextToken", json_sprintf("gp:%d", (int)(w.from + w.max)));
	}
	reply_json(rq, rep, 200, out);
}

/* ---- services and their attributes ----------------------------------------------------------- */

static bool is_ec2(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	if (str_same(json_string_value(json_object_get(doc, "ServiceCode")), "AmazonEC2")) {
		return true;
	}
	reply_fail(rq, rep, 400, "InvalidParameterException", "Invalid service code");
	return false;
}

/* The one service that has products here. */
static void describe_services(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const struct product any = { .type = market_type(rq->sim->market, CLOUD_AWS, "p5.48xlarge"),
		.region = "us-east-1" };
	json_t *names = json_pack("[s]", "productFamily"), *attrs AUTO(json) = NULL, *value;
	const char *name;

	if (json_object_get(doc, "ServiceCode") && !is_ec2(rq, rep, doc)) {
		json_decref(names);
		return;
	}
	attrs = attributes_json(rq->arena, &any);
	json_object_foreach (attrs, name, value) {
		json_array_append_new(names, json_string(name));
	}
	reply_json(rq, rep, 200,
	    json_pack("{s:s, s:[{s:s, s:o}]}", "FormatVersion", "aws_v1", "Services", "ServiceCode",
		"AmazonEC2", "AttributeNames", names));
}

/* Every value that a product has, once. */
static json_t *values_of(struct sim_req *rq, const char *name)
{
	const struct market *m = rq->sim->market;
	json_t *seen = json_object();

	for (size_t k = 0; k < m->pools_n; k++) {
		const struct pool *p = &m->pools[k];
		json_t *attrs, *v;

		if (p->cloud != CLOUD_AWS || !p->price[SIDE_ON_DEMAND].sold) {
			continue;
		}
		attrs = attributes_json(rq->arena,
		    &(struct product){ .type = p->type, .region = p->region->name });
		v = str_same(name, "productFamily")
		    ? json_string(product_family(&(struct product){ .type = p->type }))
		    : json_incref(json_object_get(attrs, name));
		if (v) {
			json_object_set_new(seen, json_string_value(v), json_true());
		}
		json_decref(v);
		json_decref(attrs);
	}
	return seen;
}

static void attribute_values(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *token = json_string_value(json_object_get(doc, "NextToken")), *value;
	const char *name = json_string_value(json_object_get(doc, "AttributeName"));
	const json_t *size = json_object_get(doc, "MaxResults");
	int64_t from = 0, at = 0, max = size ? json_integer_value(size) : 100;
	json_t *seen AUTO(json) = NULL, *list, *out, *mark;

	if (!is_ec2(rq, rep, doc)) {
		return;
	}
	seen = name ? values_of(rq, name) : NULL;
	if (json_object_size(seen) == 0 || max < 1 || max > 100) {
		reply_fail(rq, rep, 400, "InvalidParameterException", "%s",
		    max < 1 || max > 100 ? "MaxResults must be between 1 and 100"
					 : "Invalid attribute name");
		return;
	}
	if (token &&
	    (!str_prefix(token, "av:") || !parse_i64(token + 3, 0, INT64_MAX / 2, &from))) {
		reply_fail(rq, rep, 400, "InvalidNextTokenException", "The next token is invalid");
		return;
	}
	list = json_array();
	json_object_foreach (seen, value, mark) {
		if (at >= from && at < from + max) {
			json_array_append_new(list, json_pack("{s:s}", "Value", value));
		}
		at++;
	}
	out = json_pack("{s:o}", "AttributeValues", list);
	if (at > from + max) {
		json_object_set_new(out, "NextToken", json_sprintf("av:%d", (int)(from + max)));
	}
	reply_json(rq, rep, 200, out);
}

void pricing_serve(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *doc;

	/* The Price List lives in three regions only. */
	if (!str_same(rq->region, "us-east-1") && !str_same(rq->region, "eu-central-1") &&
	    !str_same(rq->region, "ap-south-1")) {
		reply_fail(rq, rep, 400, "UnrecognizedClientException",
		    "The Price List Query API has no endpoint in %s", rq->region);
		return;
	}
	doc = aws_json_body(rq, rep);
	if (!doc) {
		return;
	}
	if (str_same(rq->action, "GetProducts")) {
		get_products(rq, rep, doc);
	} else if (str_same(rq->action, "DescribeServices")) {
		describe_services(rq, rep, doc);
	} else if (str_same(rq->action, "GetAttributeValues")) {
		attribute_values(rq, rep, doc);
	} else {
		reply_fail(rq, rep, 400, "UnknownOperationException", "%s", "");
	}
	json_decref(doc);
}
