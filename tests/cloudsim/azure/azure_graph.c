/*
 * Resource Graph: the part of the query language that collectors use (azure_graph_rows.c has the
 * tables). Operators are where, project, extend, summarize count(), count, order by and take.
 * Conditions are ==, =~, !=, in, in~, contains, and, isnotempty.
 */
#include "base/base.h"
#include "cloudsim/azure/azure.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

#include <ctype.h>

struct query {
	struct az_call *c;
	struct arena *a;
	const char *p;
	const char *wrong;
};

/* ---- words of the language ------------------------------------------------------------------- */

static void blanks_skip(struct query *q)
{
	while (isspace((unsigned char)*q->p)) {
		q->p++;
	}
}

static bool word_read(struct query *q, const char *w)
{
	size_t n = strlen(w);
	bool name = isalpha((unsigned char)w[n - 1]);

	blanks_skip(q);
	if (strncmp(q->p, w, n) != 0 ||
	    (name && (isalnum((unsigned char)q->p[n]) || q->p[n] == '~'))) {
		return false;
	}
	q->p += n;
	return true;
}

static const char *name_read(struct query *q)
{
	size_t n = 0;

	blanks_skip(q);
	while (isalnum((unsigned char)q->p[n]) || q->p[n] == '_') {
		n++;
	}
	if (n == 0) {
		q->wrong = "a name is expected";
	}
	q->p += n;
	return arena_strndup(q->a, q->p - n, n);
}

static const char *quoted_read(struct query *q)
{
	char mark;
	const char *end;
	const char *text;

	blanks_skip(q);
	mark = *q->p;
	end = mark == '\'' || mark == '"' ? strchr(q->p + 1, mark) : NULL;
	if (!end) {
		q->wrong = "a text is expected";
		return "";
	}
	text = arena_strndup(q->a, q->p + 1, (size_t)(end - q->p - 1));
	q->p = end + 1;
	return text;
}

/* A path "a.b['c'][0]", tostring(x), tolower(x), todouble(x), or a text. New reference. */
static json_t *value_read(struct query *q, const json_t *row)
{
	static const char *const functions[] = { "tostring", "tolower", "todouble", "todatetime" };
	const json_t *at;

	blanks_skip(q);
	if (*q->p == '\'' || *q->p == '"') {
		return json_string(quoted_read(q));
	}
	for (size_t k = 0; k < ARRAY_LEN(functions); k++) {
		json_t *v;

		if (!word_read(q, functions[k])) {
			continue;
		}
		if (!word_read(q, "(")) {
			q->wrong = "a parenthesis is expected";
		}
		v = value_read(q, row);
		if (!word_read(q, ")")) {
			q->wrong = "a parenthesis is expected";
		}
		if (k == 1 && json_is_string(v)) {
			json_t *low = json_string(az_lower(q->a, json_string_value(v)));

			json_decref(v);
			return low;
		}
		return v;
	}
	at = json_object_get(row, name_read(q));
	for (;;) {
		if (word_read(q, ".")) {
			at = json_object_get(at, name_read(q));
		} else if (word_read(q, "[")) {
			blanks_skip(q);
			if (isdigit((unsigned char)*q->p)) {
				at = json_array_get(at,
				    strtoul(q->p, (char **)(uintptr_t)&q->p, 10));
			} else {
				at = json_object_get(at, quoted_read(q));
			}
			if (!word_read(q, "]")) {
				q->wrong = "a bracket is expected";
			}
		} else {
			return at ? json_incref((json_t *)(uintptr_t)at) : json_null();
		}
	}
}

static const char *as_text(struct arena *a, const json_t *v)
{
	if (json_is_string(v)) {
		return json_string_value(v);
	}
	return json_is_null(v) ? "" : json_text(a, v);
}

static bool in_list(struct query *q, const char *v, bool any_case)
{
	bool found = false;

	if (!word_read(q, "(")) {
		q->wrong = "a list is expected";
	}
	do {
		const char *item = quoted_read(q);

		found = found || (any_case ? az_same(item, v) : str_same(item, v));
	} while (!q->wrong && word_read(q, ","));
	if (!word_read(q, ")")) {
		q->wrong = "a parenthesis is expected";
	}
	return found;
}

static bool condition_read(struct query *q, const json_t *row)
{
	bool not_empty = word_read(q, "isnotempty"), found;
	const char *v;
	json_t *left;

	if (not_empty && !word_read(q, "(")) {
		q->wrong = "a parenthesis is expected";
	}
	left = value_read(q, row);
	v = as_text(q->a, left);
	v = arena_strdup(q->a, v);
	json_decref(left);
	if (not_empty) {
		if (!word_read(q, ")")) {
			q->wrong = "a parenthesis is expected";
		}
		return *v != '\0';
	}
	if (word_read(q, "in~")) {
		return in_list(q, v, true);
	}
	if (word_read(q, "in")) {
		return in_list(q, v, false);
	}
	if (word_read(q, "contains")) {
		return strstr(az_lower(q->a, v), az_lower(q->a, quoted_read(q))) != NULL;
	}
	found = word_read(q, "=~");
	if (found || word_read(q, "==")) {
		const char *want = quoted_read(q);

		return found ? az_same(v, want) : str_same(v, want);
	}
	if (word_read(q, "!=")) {
		return !str_same(v, quoted_read(q));
	}
	q->wrong = "an operator is expected";
	return false;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static json_t *rows_where(struct query *q, json_t *rows)
{
	const char *start = q->p;
	json_t *out = json_array(), *row;
	size_t k;

	if (json_array_size(rows) == 0) { /* still read on */
		json_t *none = json_object();

		do {
			(void)condition_read(q, none);
		} while (!q->wrong && word_read(q, "and"));
		json_decref(none);
	}
	json_array_foreach (rows, k, row) {
		bool ok = true;

		q->p = start;
		do {
			ok = condition_read(q, row) && ok;
		} while (!q->wrong && word_read(q, "and"));
		if (ok) {
			json_array_append(out, row);
		}
	}
	json_decref(rows);
	return out;
}

static json_t *project_one(struct query *q, const json_t *row)
{
	json_t *out = json_object();

	do {
		const char *before = q->p, *key = name_read(q);

		if (word_read(q, "=~") || !word_read(q, "=")) {
			q->p = before;
			json_object_set_new(out, key, value_read(q, row));
			/* properties.a without a name becomes properties_a */
			if (q->p > before && memchr(before, '.', (size_t)(q->p - before))) {
				size_t from = strspn(before, " \n"),
				       n = strcspn(before + from, " \n,|");
				char *flat = arena_strndup(q->a, before + from,
				    MIN(n, (size_t)(q->p - before) - from));
				json_t *v = json_incref(json_object_get(out, key));

				for (char *c = flat; *c; c++) {
					*c = (char)(*c == '.' ? '_' : *c);
				}
				json_object_del(out, key);
				json_object_set_new(out, flat, v);
			}
		} else {
			json_object_set_new(out, key, value_read(q, row));
		}
	} while (!q->wrong && word_read(q, ","));
	return out;
}

static json_t *rows_project(struct query *q, json_t *rows)
{
	const char *start = q->p;
	json_t *out = json_array(), *row, *none = json_object();
	size_t k;

	json_decref(project_one(q, none));
	json_decref(none);
	json_array_foreach (rows, k, row) {
		q->p = start;
		json_array_append_new(out, project_one(q, row));
	}
	json_decref(rows);
	return out;
}

/* extend a = x, b = y: the row and more. */
static json_t *rows_extend(struct query *q, json_t *rows)
{
	const char *start = q->p;
	json_t *row, *none = json_object();
	size_t k;

	json_array_append(rows, none); /* read on where there are no rows */
	json_array_foreach (rows, k, row) {
		q->p = start;
		do {
			const char *key = name_read(q);

			if (!word_read(q, "=")) {
				q->wrong = "a sign of equality is expected";
			} else {
				json_object_set_new(row, key, value_read(q, row));
			}
		} while (!q->wrong && word_read(q, ","));
	}
	json_array_remove(rows, json_array_size(rows) - 1);
	json_decref(none);
	return rows;
}

#define KEYS_MAX 4
/* summarize [n =] count() [by a, b]: groups in the order in which they come. */
static json_t *rows_summarize(struct query *q, json_t *rows)
{
	const char *column = "count_", *keys[KEYS_MAX];
	json_t *out = json_array(), *row, *groups = json_object();
	size_t k, n = 0;

	if (!word_read(q, "count")) {
		column = name_read(q);
		if (!word_read(q, "=") || !word_read(q, "count")) {
			q->wrong = "count() is expected";
		}
	}
	if (!q->wrong && (!word_read(q, "(") || !word_read(q, ")"))) {
		q->wrong = "a parenthesis is expected";
	}
	if (!q->wrong && word_read(q, "by")) {
		do {
			keys[n++] = name_read(q);
		} while (!q->wrong && n < KEYS_MAX && word_read(q, ","));
	}
	json_array_foreach (rows, k, row) {
		const char *id = "";
		json_t *group;

		for (size_t i = 0; i < n; i++) {
			id = arena_printf(q->a, "%s\n%s", id,
			    as_text(q->a,
				json_object_get(row, keys[i]) ? json_object_get(row, keys[i])
							      : json_null()));
		}
		group = json_object_get(groups, id);
		if (!group) {
			group = json_object();
			for (size_t i = 0; i < n; i++) {
				json_object_set(group, keys[i], json_object_get(row, keys[i]));
			}
			json_object_set(groups, id, group);
			json_array_append_new(out, group);
		}
		json_object_set_new(group, column,
		    json_integer(json_integer_value(json_object_get(group, column)) + 1));
	}
	if (n == 0 && json_array_size(out) == 0) {
		json_array_append_new(out, json_pack("{s:i}", column, 0));
	}
	json_decref(groups);
	json_decref(rows);
	return out;
}

struct sorting {
	const char *key[KEYS_MAX];
	bool down[KEYS_MAX];
	size_t n;
	struct arena *a;
};
struct sorted {
	json_t *row;
	size_t at; /* equal ones stay as they were */
};

static int by_keys(const void *a, const void *b, void *arg)
{
	const struct sorted *x = a, *y = b;
	const struct sorting *by = arg;

	for (size_t k = 0; k < by->n; k++) {
		const json_t *v = json_object_get(x->row, by->key[k]),
			     *w = json_object_get(y->row, by->key[k]);
		double dv = json_number_value(v), dw = json_number_value(w);
		int cmp = json_is_number(v) && json_is_number(w)
		    ? (dv > dw) - (dv < dw)
		    : strcmp(as_text(by->a, v ? v : json_null()),
			  as_text(by->a, w ? w : json_null()));

		if (cmp != 0) {
			return by->down[k] ? -cmp : cmp;
		}
	}
	return (x->at > y->at) - (x->at < y->at);
}

static json_t *rows_order(struct query *q, json_t *rows)
{
	struct sorting by = { .a = q->a };
	size_t n = json_array_size(rows);
	struct sorted *list = arena_array(q->a, n + 1, sizeof(*list));
	json_t *out = json_array();

	if (!word_read(q, "by")) {
		q->wrong = "by is expected";
	}
	do {
		by.key[by.n] = name_read(q);
		by.down[by.n++] = !word_read(q, "asc"); /* descending is the default */
		(void)word_read(q, "desc");
		blanks_skip(q);
	} while (*q->p == ',' && q->p++ && by.n < KEYS_MAX);
	for (size_t k = 0; k < n; k++) {
		list[k] = (struct sorted){ json_array_get(rows, k), k };
	}
	if (n > 1) {
		qsort_r(list, n, sizeof(*list), by_keys, &by);
	}
	for (size_t k = 0; k < n; k++) {
		json_array_append(out, list[k].row);
	}
	json_decref(rows);
	return out;
}

static json_t *rows_take(struct query *q, json_t *rows)
{
	char *end;
	size_t n;

	blanks_skip(q);
	n = strtoul(q->p, &end, 10);
	if (end == q->p) {
		q->wrong = "a number is expected";
	}
	q->p = end;
	while (json_array_size(rows) > n) {
		json_array_remove(rows, json_array_size(rows) - 1);
	}
	return rows;
}

static json_t *rows_count(json_t *rows)
{
	json_t *out = json_pack("[{s:I}]", "Count", (json_int_t)json_array_size(rows));

	json_decref(rows);
	return out;
}

static json_t *table_read(struct query *q)
{
	json_t *rows = json_array();

	if (!az_graph_rows(q->c, name_read(q), rows)) {
		q->wrong = "the table is unknown";
	}
	return rows;
}

static json_t *query_run(struct query *q)
{
	json_t *rows = table_read(q);

	while (!q->wrong && word_read(q, "|")) {
		if (word_read(q, "where")) {
			rows = rows_where(q, rows);
		} else if (word_read(q, "project")) {
			rows = rows_project(q, rows);
		} else if (word_read(q, "extend")) {
			rows = rows_extend(q, rows);
		} else if (word_read(q, "summarize")) {
			rows = rows_summarize(q, rows);
		} else if (word_read(q, "count")) {
			rows = rows_count(rows);
		} else if (word_read(q, "order") || word_read(q, "sort")) {
			rows = rows_order(q, rows);
		} else if (word_read(q, "take") || word_read(q, "limit")) {
			rows = rows_take(q, rows);
		} else {
			q->wrong = "the operator is unknown";
		}
	}
	blanks_skip(q);
	if (!q->wrong && *q->p) {
		q->wrong = "text is left over";
	}
	return rows;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Paging by token needs a projected id (docs, "Working with large Azure resource data sets"). */
static void page_reply(struct az_call *c, const json_t *rows)
{
	const json_t *options = json_object_get(c->doc, "options");
	const char *token = json_string_value(json_object_get(options, "$skipToken"));
	int64_t at = json_integer_value(json_object_get(options, "$skip")),
		top = json_integer_value(json_object_get(options, "$top")),
		n = (int64_t)json_array_size(rows);
	json_t *data = json_array(), *doc;
	size_t count;
	struct str raw;
	bool more, has_id = json_object_get(json_array_get(rows, 0), "id") != NULL;

	if (token &&
	    (!base64_decode(c->rq->arena, token, strlen(token), &raw) ||
		!parse_i64(raw.p, 0, 10000000, &at))) {
		json_decref(data);
		az_fail(c, 400, "BadRequest", "The $skipToken is invalid.");
		return;
	}
	top = top > 0 && top <= 1000 ? top : 100;
	for (int64_t k = at; k < n && k < at + top; k++) {
		json_array_append(data, json_array_get(rows, (size_t)k));
	}
	more = at + top < n;
	count = json_array_size(data);
	if (az_same(json_string_value(json_object_get(options, "resultFormat")), "table")) {
		json_t *columns = az_graph_columns(data);

		json_decref(data);
		data = columns;
	}
	doc = json_pack("{s:I, s:I, s:s, s:[], s:o}", "totalRecords", (json_int_t)n, "count",
	    (json_int_t)count, "resultTruncated", more && !has_id ? "true" : "false", "facets",
	    "data", data);
	if (more && has_id) {
		const char *next = arena_printf(c->rq->arena, "%lld", (long long)(at + top));

		json_object_set_new(doc, "$skipToken",
		    json_string(base64_encode(c->rq->arena, next, strlen(next))));
	}
	az_send(c, 200, doc);
}

void az_graph(struct az_call *c)
{
	static const char *const known[] = { "subscriptions", "query", "options", "facets",
		"managementGroups", NULL };
	struct query q = { .c = c, .a = c->rq->arena };
	json_t *rows;

	if (!str_same(c->rq->http->method, "POST")) {
		az_fail(c, 405, "MethodNotAllowed", "The method is not allowed here.");
		return;
	}
	reply_header(c->rep, "x-ms-user-quota-resets-after", "00:00:05");
	if (!throttle_take(c->rq->sim, "azure|graph", 15, 3, 1)) {
		az_fail(c, 429, "RateLimiting",
		    "Client application has been throttled and should not attempt to repeat the "
		    "request until an amount of time has elapsed.");
		reply_header(c->rep, "x-ms-user-quota-remaining", "0");
		reply_header(c->rep, "x-ms-user-quota-resets-after", "00:00:05");
		return;
	}
	reply_header(c->rep, "x-ms-user-quota-remaining", "14");
	if (!az_need_doc(c)) {
		return;
	}
	q.p = json_string_value(json_object_get(c->doc, "query"));
	if (!q.p || json_unknown_key(c->doc, known)) {
		az_fail(c, 400, "BadRequest",
		    "Please provide below info when asking for support: the request is invalid.");
		return;
	}
	rows = query_run(&q);
	if (q.wrong) {
		az_fail(c, 400, "BadRequest",
		    "Please provide below info when asking for support: ParserFailure: %s near "
		    "'%.40s'.",
		    q.wrong, q.p);
	} else {
		page_reply(c, rows);
	}
	json_decref(rows);
}
