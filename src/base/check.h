/* The findings of a provider's check verb, item by item, and the one item that is judged alike for
 * every vendor: our clock. Names, words and fixes are copied into the call's arena. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include "base/base.h"
#include "spot/provider.h"

struct check_list {
	struct spot_check_item *items;
	size_t n, cap;
};

void check_add(struct spot_call *c, struct check_list *l, const char *name,
    enum spot_check_state state, const char *words, const char *fix);
/* The same with the words of c->err, which is empty afterwards: only a question failed. */
void check_add_err(struct spot_call *c, struct check_list *l, const char *name,
    enum spot_check_state state, const char *fix);
bool check_has(const struct check_list *l, const char *name);
/* "clock", by the Date of the reply: good within a minute, bad from bad_us on (what the vendor
 * refuses), a warning between. why: the consequence, after "set the clock: ". */
void check_clock(struct spot_call *c, struct check_list *l, int64_t bad_us, const char *why);
/* The list is the answer of the verb. */
void check_done(const struct check_list *l, struct spot_check *a);

#endif
