/* Query-protocol parameters: form body and query string. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

static void form_add(struct sim_req *rq, struct form *f, size_t *cap, const char *text, size_t n)
{
	const char *end = text + n;

	for (const char *p = text; p < end;) {
		const char *amp = memchr(p, '&', (size_t)(end - p));
		const char *stop = amp ? amp : end;
		const char *eq = memchr(p, '=', (size_t)(stop - p));
		struct str key = { p, (size_t)((eq ? eq : stop) - p) };
		struct str value = { eq ? eq + 1 : stop, eq ? (size_t)(stop - eq - 1) : 0 };
		char *k, *v;

		if (key.n > 0) {
			if (!url_decode(rq->arena, key, true, &k) ||
			    !url_decode(rq->arena, value, true, &v)) {
				f->broken = "The request body is not valid form encoding";
				return;
			}
			f->items = arena_grow(rq->arena, f->items, f->n, cap, sizeof(*f->items));
			f->items[f->n++] = (struct param){ .name = k, .value = v };
		}
		p = stop + 1;
	}
}

static int param_cmp(const void *a, const void *b)
{
	const struct param *x = a, *y = b;

	return strcmp(x->name, y->name);
}

void form_parse(struct sim_req *rq, struct form *f)
{
	size_t cap = 0;

	*f = (struct form){ 0 };
	if (rq->http->body.n > 0) {
		form_add(rq, f, &cap, rq->http->body.p, rq->http->body.n);
	}
	if (rq->http->query && *rq->http->query) {
		form_add(rq, f, &cap, rq->http->query, strlen(rq->http->query));
	}
	if (f->n > 0) {
		qsort(f->items, f->n, sizeof(*f->items), param_cmp);
	}
}

void form_put(struct form *f, struct arena *a, const char *name, const char *value)
{
	struct param *more;

	if (!value) {
		return;
	}
	for (size_t k = 0; k < f->n; k++) {
		if (str_same(f->items[k].name, name)) {
			f->items[k].value = value;
			return;
		}
	}
	more = arena_array(a, f->n + 1, sizeof(*more));
	if (f->n > 0) {
		memcpy(more, f->items, f->n * sizeof(*more));
	}
	more[f->n] = (struct param){ .name = name, .value = value };
	f->items = more;
	f->n++;
	qsort(f->items, f->n, sizeof(*f->items), param_cmp);
}

void form_below(const struct form *f, struct arena *a, const char *prefix, struct form *ret)
{
	*ret = (struct form){ .items = arena_array(a, f->n + 1, sizeof(*ret->items)) };
	for (size_t k = 0; k < f->n; k++) {
		if (str_prefix(f->items[k].name, prefix)) {
			ret->items[ret->n++] =
			    (struct param){ .name = f->items[k].name + strlen(prefix),
				    .value = f->items[k].value };
		}
	}
}

const char *form_get(struct form *f, const char *name)
{
	for (size_t k = 0; k < f->n; k++) {
		if (str_same(f->items[k].name, name)) {
			f->items[k].used = true;
			return f->items[k].value;
		}
	}
	return NULL;
}

void form_accept(struct form *f, const char *pattern)
{
	for (size_t k = 0; k < f->n; k++) {
		if (glob_match(pattern, f->items[k].name)) {
			f->items[k].used = true;
		}
	}
}

const char *form_unknown(const struct form *f)
{
	for (size_t k = 0; k < f->n; k++) {
		if (!f->items[k].used) {
			return f->items[k].name;
		}
	}
	return NULL;
}

struct numbered {
	int64_t at;
	const char *value;
};

static int numbered_cmp(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

size_t form_list(struct form *f, struct arena *a, const char *prefix, const char ***ret)
{
	struct numbered *list = arena_array(a, f->n + 1, sizeof(*list));
	size_t n = 0, skip = strlen(prefix);

	for (size_t k = 0; k < f->n; k++) {
		struct param *p = &f->items[k];

		if (strncmp(p->name, prefix, skip) == 0 && p->name[skip] == '.' &&
		    parse_i64(p->name + skip + 1, 0, 100000, &list[n].at)) {
			list[n++].value = p->value;
			p->used = true;
		}
	}
	qsort(list, n, sizeof(*list), numbered_cmp);
	*ret = arena_array(a, n + 1, sizeof(**ret));
	for (size_t k = 0; k < n; k++) {
		(*ret)[k] = list[k].value;
	}
	return n;
}
