/* Between conf_items.c and conf.c. */
#ifndef SPOTD_CONF_PRIV_H
#define SPOTD_CONF_PRIV_H

#include "spotd/conf.h"

#define CONF_AT(m) offsetof(struct spotd_conf, m)
extern const struct conf_item spotd_conf_items[];
extern const size_t spotd_conf_items_n;

#endif
