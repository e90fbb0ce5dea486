#include "base/base.h"
#include "azure_priv.h"

/*
 * Azure Resource Graph: one POST per page
 * (learn.microsoft.com/rest/api/azureresourcegraph/resourcegraph/resources/ resources). The next
 * page is named by $skipToken in both directions; resultTruncated is a text.
 */

#define TOKEN_MAX 8000
#define PAGE 1000

const char *azure_graph_quote(struct arena *a, const char *text)
{
	static const char kept[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./ ";
	char *out = arena_strdup(a, text), *to = out;

	for (const char *p = text; *p != '\0'; p++) {
		if (strchr(kept, *p) != NULL) {
			*to++ = *p;
		}
	}
	*to = '\0';
	return arena_printf(a, "'%s'", out);
}

enum spot_step azure_graph_send(struct azure *self, struct spot_call *c, const char *query)
{
	const struct call_state *st = c->state;
	json_t *doc AUTO(json) =
	    json_pack("{s:[s], s:s, s:{s:s, s:i}}", "subscriptions", self->subscription, "query",
		query, "options", "resultFormat", "objectArray", "$top", PAGE);
	struct azure_request r = { .what = "POST ResourceGraph",
		.method = "POST",
		.limit = AZURE_LIMIT_GRAPH,
		.path = "/providers/Microsoft.ResourceGraph/resources?api-version=" API_GRAPH,
		.reply_bytes_max = 16 << 20 };

	if (st->next != NULL) {
		json_object_set_new(json_object_get(doc, "options"), "$skipToken",
		    json_string(st->next));
	}
	r.body = json_text(c->arena, doc);
	return azure_send(self, c, &r);
}

enum spot_step azure_graph_reply(struct spot_call *c, json_t **ret_doc, const json_t **ret_rows)
{
	static const char what[] = "POST ResourceGraph";
	struct call_state *st = c->state;
	enum spot_step s = azure_reply(c, what, ret_doc);
	const char *token;
	bool bad;

	if (s != SPOT_STEP_NONE) {
		return s;
	}
	*ret_rows = json_object_get(*ret_doc, "data");
	if (!json_is_array(*ret_rows)) {
		return azure_bad_reply(c, what, "no data in it");
	}
	token = azure_text(*ret_doc, "$skipToken");
	call_next_page(c->arena, token, AZURE_PAGES_MAX, &st->next, &st->pages, &bad);
	return bad || strlen(token) > TOKEN_MAX
	    ? azure_bad_reply(c, what, "there is no end to its pages")
	    : SPOT_STEP_NONE;
}
