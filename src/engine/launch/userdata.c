/*
 * The script that a node boots with: src/agent/bootstrap.sh with its blanks filled. Every launch of
 * a row gets the same bytes, since a repeated launch with the same token must carry the same
 * parameters (EC2 API idempotency). Below AWS's 16 KiB. No secret in it outlives the enrolment: the
 * token is one-time, and any process on the node may read user data.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"
#include "engine/launch/launch_priv.h"

#define USERDATA_MAX (16 << 10)

extern const char engine_bootstrap[]; /* generated from src/agent/bootstrap.sh */

struct blank {
	const char *name, *value;
};

/* Returns the blank that begins at p, NULL if none does. */
static const struct blank *blank_at(const struct blank *blanks, const char *p)
{
	for (; blanks->name != NULL; blanks++) {
		if (str_prefix(p, blanks->name)) {
			return blanks;
		}
	}
	return NULL;
}

static void blanks_fill(struct sbuf *b, const struct blank *blanks)
{
	for (const char *p = engine_bootstrap; *p != '\0';) {
		const struct blank *x = *p == '@' ? blank_at(blanks, p) : NULL;

		if (x == NULL) {
			sbuf_putc(b, *p++);
		} else {
			sbuf_puts(b, x->value);
			p += strlen(x->name);
		}
	}
}

struct str userdata_make(struct engine *e, struct arena *a, int64_t node_id, const char *token,
    const char *provider_kind)
{
	uint8_t mac[SHA256_BYTES];
	char hex[SHA256_HEX];
	const struct blank blanks[] = {
		{ "@URL@", e->conf.public_url },
		{ "@CA_PEM@", str_empty(e->conf.ca_pem) ? "" : e->conf.ca_pem },
		{ "@TOKEN@", hex },
		{ "@PROVIDER@", provider_kind },
		{ "@INSTALL@", e->install },
		{ "@NODE@", arena_printf(a, "n%" PRId64, node_id) },
		{ "@AGENT_SHA256@", e->conf.agent_sha256 },
		{ "@NVML_SHA256@", str_empty(e->conf.nvml_sha256) ? "" : e->conf.nvml_sha256 },
		{ "@AGENT_SHA256_ARM64@",
		    str_empty(e->conf.agent_arm64_sha256) ? "" : e->conf.agent_arm64_sha256 },
		{ "@NVML_SHA256_ARM64@",
		    str_empty(e->conf.nvml_arm64_sha256) ? "" : e->conf.nvml_arm64_sha256 },
		{ NULL, NULL },
	};
	struct sbuf b;
	struct str ret;

	hmac_sha256(e->enrol_key, e->enrol_key_n, token, strlen(token), mac);
	hex_encode(mac, sizeof(mac), hex);
	sbuf_init(&b, USERDATA_MAX);
	blanks_fill(&b, blanks);
	assert(!b.overflow);
	ret = arena_bytes(a, b.p, b.n);
	sbuf_fini(&b);
	return ret;
}
