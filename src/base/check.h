/* Collects the findings of a provider's check verb. One item, our clock, has the same rule for
 * every vendor. Functions copy names, words and fixes into the call's arena. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include "base/macros.h"
#include "spot/provider.h"

struct check_list {
	struct spot_check_item *items;
	size_t n, cap;
};

/* Appends an item. words: the finding; fix: the remedy, "" if the item is good. */
void check_add(struct spot_call *c, struct check_list *l, const char *name,
    enum spot_check_state state, const char *words, const char *fix);
/* Appends an item with the text of c->err and clears c->err, since the verb itself goes on. */
void check_add_err(struct spot_call *c, struct check_list *l, const char *name,
    enum spot_check_state state, const char *fix);
bool check_has(const struct check_list *l, const char *name);
/* Appends the item "clock" by the Date of the reply. A skew under a minute is good. From bad_us on,
 * which the vendor refuses, it is bad. Between, it is a warning. why: the consequence. */
void check_clock(struct spot_call *c, struct check_list *l, int64_t bad_us, const char *why);
/* Makes the list the answer of the verb. */
void check_done(const struct check_list *l, struct spot_check *a);

#endif
