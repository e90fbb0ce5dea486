/*
 * Names for the enumerations in include/spot/types.h and err.h, and lookups on contract structs.
 * Pure; nothing here can fail.
 */
#include "base/base.h"
#include "spot/http.h"

#include <strings.h>

struct rc_info {
	const char *name;
	int http;
	enum spot_act act;
};
static const struct rc_info rc_table[SPOT_RC_COUNT] = {
#define X(name, wire, http, act) [SPOT_##name] = { wire, http, SPOT_ACT_##act },
	SPOT_RC_LIST(X)
#undef X
};

static const struct rc_info *rc_info(enum spot_rc rc)
{
	return (unsigned)rc < SPOT_RC_COUNT ? &rc_table[rc] : &rc_table[SPOT_INTERNAL];
}

const char *spot_rc_name(enum spot_rc rc)
{
	return rc_info(rc)->name;
}

int spot_rc_http(enum spot_rc rc)
{
	return rc_info(rc)->http;
}

enum spot_act spot_rc_act(enum spot_rc rc)
{
	return rc_info(rc)->act;
}

/* Index 0 is "not set" in every list, so that a missing value never looks valid. */
static const char *const market_names[] = { NULL,
#define X(name, wire) wire,
	SPOT_MARKET_LIST(X)
#undef X
};
static const char *const signal_names[] = { NULL,
#define X(name, wire) wire,
	SPOT_SIGNAL_LIST(X)
#undef X
};
static const char *const instance_names[] = { NULL,
#define X(name, wire) wire,
	SPOT_INSTANCE_LIST(X)
#undef X
};
static const char *const notice_names[] = { NULL,
#define X(name, wire) wire,
	SPOT_NOTICE_LIST(X)
#undef X
};

static const char *name_of(const char *const *names, size_t n, unsigned v)
{
	return v > 0 && v < n ? names[v] : "?";
}

static unsigned value_of(const char *const *names, size_t n, const char *name)
{
	for (unsigned i = 1; name != NULL && i < n; i++) {
		if (strcmp(names[i], name) == 0) {
			return i;
		}
	}
	return 0;
}

const char *spot_market_name(enum spot_market m)
{
	return name_of(market_names, ARRAY_LEN(market_names), (unsigned)m);
}

enum spot_market spot_market_parse(const char *name)
{
	return (enum spot_market)value_of(market_names, ARRAY_LEN(market_names), name);
}

const char *spot_signal_name(enum spot_signal_kind k)
{
	return name_of(signal_names, ARRAY_LEN(signal_names), (unsigned)k);
}

const char *spot_instance_state_name(enum spot_instance_state s)
{
	return name_of(instance_names, ARRAY_LEN(instance_names), (unsigned)s);
}

const char *spot_notice_name(enum spot_notice_kind k)
{
	return name_of(notice_names, ARRAY_LEN(notice_names), (unsigned)k);
}

enum spot_notice_kind spot_notice_parse(const char *name)
{
	return (enum spot_notice_kind)value_of(notice_names, ARRAY_LEN(notice_names), name);
}

const char *spot_header_value(const struct spot_header *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcasecmp(list[i].name, name) == 0) {
			return list[i].value;
		}
	}
	return NULL;
}

const char *spot_http_header(const struct spot_http_response *r, const char *name)
{
	return spot_header_value(r->headers, r->headers_n, name);
}
