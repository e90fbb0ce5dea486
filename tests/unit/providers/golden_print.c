#include "base/base.h"
#include "golden.h"

#include "base/text/text.h"

/* Prints a verb's output as the text of a golden file's result: everything that a caller can
 * see. */

static void print_key(const struct spot_pool_key *k, struct sbuf *out)
{
	sbuf_printf(out, "%s/%s/%s/%s/%s", k->provider, k->region, k->zone, k->instance_type,
	    spot_market_name(k->market));
}

static void print_instance(const struct spot_instance *i, struct sbuf *out)
{
	char t[TIME_TEXT_MAX];

	sbuf_printf(out, "%s ", i->ref);
	print_key(&i->key, out);
	sbuf_printf(out,
	    " %s cause=%d token=%s install=%s raw=%s reason=[%s] ip=%s request=%s%s created=%s\n",
	    spot_instance_state_name(i->state), (int)i->end_cause, i->token, i->install,
	    i->raw_state, i->raw_reason, i->ip, i->spot_request, i->leftover ? " LEFTOVER" : "",
	    i->created_us ? format_time_s(i->created_us, t) : "-");
}

static void print_found(const struct spot_instance *found, size_t n, struct sbuf *out)
{
	for (size_t i = 0; i < n; i++) {
		print_instance(&found[i], out);
	}
}

static void print_regions(const void *p, struct sbuf *out)
{
	const struct spot_regions *a = p;

	for (size_t i = 0; i < a->n; i++) {
		sbuf_printf(out, "%s\n", a->names[i]);
	}
}

static void print_pools(const void *p, struct sbuf *out)
{
	const struct spot_pools *a = p;

	for (size_t i = 0; i < a->n; i++) {
		const struct spot_pool_info *x = &a->pools[i];

		print_key(&x->key, out);
		sbuf_printf(out, " %s %s milli=%d mib=%d vcpus=%d mem=%d %s class=%s\n",
		    x->zone_name, x->shape.gpu_name, x->shape.gpu_milli, x->shape.gpu_mem_mib,
		    x->shape.vcpus, x->shape.mem_mib, x->shape.arch, x->quota_class);
	}
}

static void print_prices(const void *p, struct sbuf *out)
{
	const struct spot_prices *a = p;
	char t[TIME_TEXT_MAX], usd[USD_TEXT_MAX];

	for (size_t i = 0; i < a->n; i++) {
		const struct spot_price_point *x = &a->points[i];

		print_key(&x->key, out);
		sbuf_printf(out, " %s since %s by %s\n", format_usd(x->price_micros, usd),
		    x->effective_us ? format_time_s(x->effective_us, t) : "-", x->source);
	}
}

static void print_signals(const void *p, struct sbuf *out)
{
	const struct spot_signals *a = p;
	char t[TIME_TEXT_MAX];

	for (size_t i = 0; i < a->n; i++) {
		const struct spot_signal *x = &a->signals[i];

		sbuf_printf(out, "%s ", spot_signal_name(x->kind));
		print_key(&x->key, out);
		sbuf_printf(out, " value=%.2f lo=%.2f hi=%.2f as of %s by %s\n", x->value, x->lo,
		    x->hi, x->as_of_us ? format_time_s(x->as_of_us, t) : "-", x->source);
	}
}

static void print_quotas(const void *p, struct sbuf *out)
{
	const struct spot_quotas *a = p;

	for (size_t i = 0; i < a->n; i++) {
		const struct spot_quota *x = &a->quotas[i];

		sbuf_printf(out, "%s/%s %s %s %s %" PRId64 "\n", x->provider, x->region, x->class,
		    spot_market_name(x->market), x->unit, x->limit);
	}
}

static void print_launch(const void *p, struct sbuf *out)
{
	print_instance(&((const struct spot_launch *)p)->instance, out);
}

static void print_find(const void *p, struct sbuf *out)
{
	const struct spot_find *a = p;

	print_found(a->found, a->n, out);
}

static void print_list(const void *p, struct sbuf *out)
{
	const struct spot_list *a = p;

	print_found(a->found, a->n, out);
}

static void print_describe(const void *p, struct sbuf *out)
{
	const struct spot_describe *a = p;

	print_found(a->found, a->n, out);
}

static void print_terminate(const void *p, struct sbuf *out)
{
	print_instance(&((const struct spot_terminate *)p)->after, out);
}

static void print_notices(const void *p, struct sbuf *out)
{
	const struct spot_notices *a = p;
	char t[TIME_TEXT_MAX];

	for (size_t i = 0; i < a->n; i++) {
		sbuf_printf(out, "%s %s until %s by %s [%s]\n", a->notices[i].ref,
		    spot_notice_name(a->notices[i].kind),
		    a->notices[i].deadline_us ? format_time_s(a->notices[i].deadline_us, t) : "-",
		    a->notices[i].source, a->notices[i].raw);
	}
}

static void print_gang(const void *p, struct sbuf *out)
{
	const struct spot_launch_gang *a = p;

	print_found(a->instances, a->instances_n, out);
}

static void print_watch(const void *p, struct sbuf *out)
{
	const struct spot_watch *a = p;
	const struct spot_notices n = { .notices = a->notices, .n = a->notices_n };

	print_notices(&n, out);
	print_found(a->seen, a->seen_n, out);
	sbuf_printf(out, "gap=%d next %s\n", a->gap, a->next_cursor);
}

static void print_check(const void *p, struct sbuf *out)
{
	static const char *const states[] = { "?", "ok", "warn", "bad", "untested" };
	const struct spot_check *a = p;

	for (size_t i = 0; i < a->n; i++) {
		sbuf_printf(out, "%s: %s: %s [%s]\n", a->items[i].name, states[a->items[i].state],
		    a->items[i].words, a->items[i].fix);
	}
}

static void print_account(const void *p, struct sbuf *out)
{
	sbuf_printf(out, "%s\n", *(const char *const *)p);
}

void golden_print(enum drive_verb verb, const void *args, struct sbuf *out)
{
	static void (*const prints[])(const void *, struct sbuf *) = {
		[DRIVE_REGIONS] = print_regions,
		[DRIVE_POOLS] = print_pools,
		[DRIVE_PRICES] = print_prices,
		[DRIVE_LAUNCH] = print_launch,
		[DRIVE_FIND] = print_find,
		[DRIVE_LIST] = print_list,
		[DRIVE_DESCRIBE] = print_describe,
		[DRIVE_TERMINATE] = print_terminate,
		[DRIVE_WHOAMI] = print_account,
		[DRIVE_SIGNALS] = print_signals,
		[DRIVE_QUOTAS] = print_quotas,
		[DRIVE_NOTICES] = print_notices,
		[DRIVE_LAUNCH_GANG] = print_gang,
		[DRIVE_WATCH] = print_watch,
		[DRIVE_CHECK] = print_check,
	};

	/* Auth brings nothing that may be printed. */
	if (verb < ARRAY_LEN(prints) && prints[verb] != NULL) {
		prints[verb](args, out);
	}
}
