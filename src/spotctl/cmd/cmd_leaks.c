/* leaks: what has our tag at the providers and no node accounts for, in dollars; what is to be done
 * with it. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

static const struct column cols[] = { { "PROVIDER", "provider", CELL_TEXT, ALWAYS },
	{ "REGION", "region", CELL_TEXT, SPARE_2 }, { "ZONE", "zone", CELL_TEXT, WIDE },
	{ "KIND", "kind", CELL_TEXT, SPARE_2 }, { "REF", "ref", CELL_TEXT, ALWAYS },
	{ "TYPE", "instance_type", CELL_TEXT, SPARE_1 }, { "STATE", "state", CELL_STATE, ALWAYS },
	{ "LAUNCHED", "launched_at", CELL_AGE, SPARE_1 },
	{ "SEEN", "first_seen_at", CELL_AGE, WIDE },
	{ "USD/H", "per_hour_micros", CELL_USD, SPARE_3 },
	{ "USD", "cost_micros", CELL_USD, ALWAYS }, { "SAID", "said", CELL_TEXT, WIDE },
	{ "BY", "said_by", CELL_TEXT, WIDE }, { "WHY", "why", CELL_TEXT, ALWAYS }, { 0 } };

static size_t count_undecided(const json_t *items)
{
	const json_t *one;
	size_t i, n = 0;

	json_array_foreach (items, i, one) {
		n += strcmp(json_str(one, "state", "", NULL), "kept") == 0 &&
		    str_empty(json_str(one, "said", "", NULL));
	}
	return n;
}

static int leaks_show(struct ctl *c, const struct reply *r, const char *empty)
{
	const json_t *items = json_object_get(r->json, "items");
	int rc = render_list(c, r->json, items, cols, empty);

	if (rc == CTL_OK && c->format == FORMAT_TABLE && json_array_size(items) > 0) {
		char total[USD_TEXT_MAX], hour[USD_TEXT_MAX];

		say("%s USD so far, %s USD per hour, at current prices of their pools",
		    format_usd(json_i64(r->json, "total_micros", 0, NULL), total),
		    format_usd(json_i64(r->json, "per_hour_micros", 0, NULL), hour));
		if (count_undecided(items) > 0) {
			say("%zu kept until you decide: 'spotctl leaks end REF' or 'spotctl leaks "
			    "keep REF'",
			    count_undecided(items));
		}
	}
	return rc;
}

int cmd_leaks(struct ctl *c)
{
	const char *path = opts_path(c, "/v1/leaks");
	struct reply r;
	int rc = conn_get(c, path, &r);

	return rc != CTL_OK
	    ? rc
	    : leaks_show(c, &r,
		  strcmp(path, "/v1/leaks") == 0 ? "every tagged resource belongs to a node"
						 : "no open leak matches these options");
}

static int leak_say(struct ctl *c, const char *act)
{
	const char *provider = opt_value(c, "provider");
	AUTO(json) json_t *body = json_pack("{s:s, s:s}", "ref", c->args[0], "act", act);
	struct reply r;
	int rc;

	if (!str_empty(provider)) {
		json_object_set_new(body, "provider", json_string(provider));
	}
	rc = conn_send(c, "POST", "/v1/leaks", NULL, str_from(json_text(c->arena, body)), &r);
	return rc != CTL_OK ? rc : leaks_show(c, &r, "");
}

int cmd_leak_end(struct ctl *c)
{
	return leak_say(c, "end");
}

int cmd_leak_keep(struct ctl *c)
{
	return leak_say(c, "keep");
}
