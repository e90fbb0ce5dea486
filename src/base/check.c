#include "base/base.h"
#include "base/check.h"

#include "base/arena.h"
#include "base/call.h"
#include "base/text/text.h"

#define CLOCK_GOOD_US (60 * SPOT_US_PER_S)

void check_add(struct spot_call *c, struct check_list *l, const char *name,
    enum spot_check_state state, const char *words, const char *fix)
{
	l->items = arena_grow(c->arena, l->items, l->n, &l->cap, sizeof(*l->items));
	l->items[l->n++] = (struct spot_check_item){ .name = arena_strdup(c->arena, name),
		.state = state,
		.words = arena_strdup(c->arena, words),
		.fix = arena_strdup(c->arena, fix) };
}

void check_add_err(struct spot_call *c, struct check_list *l, const char *name,
    enum spot_check_state state, const char *fix)
{
	check_add(c, l, name, state, c->err.text, fix);
	c->err = (struct spot_err){ 0 };
}

bool check_has(const struct check_list *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->items[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

void check_clock(struct spot_call *c, struct check_list *l, int64_t bad_us, const char *why)
{
	char text[32];
	int64_t off;

	if (!call_clock_off(c, &off)) {
		check_add(c, l, "clock", SPOT_CHECK_UNTESTED, "the reply has no date", "");
		return;
	}
	off = off < 0 ? -off : off;
	if (off < CLOCK_GOOD_US) {
		check_add(c, l, "clock", SPOT_CHECK_OK, "within a minute of the vendor's", "");
	} else {
		check_add(c, l, "clock", off < bad_us ? SPOT_CHECK_WARN : SPOT_CHECK_BAD,
		    arena_printf(c->arena, "%s off the vendor's", format_duration(off, text)),
		    arena_printf(c->arena, "set the clock (chrony, systemd-timesyncd): %s", why));
	}
}

void check_done(const struct check_list *l, struct spot_check *a)
{
	a->items = l->items;
	a->n = l->n;
}
