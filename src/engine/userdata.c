/*
 * The script a node boots with: fetches the agent named by its SHA-256, writes its configuration and
 * starts it. Byte for byte the same on every launch of the same row, because a repeated launch
 * with the same token must carry the same parameters (EC2 API idempotency: a token used with other
 * parameters is refused). Below AWS's 16 KiB. No secret in it outlives the enrolment: the token is
 * one-time, and any process on the node may read user data.
 */
#include "base/base.h"
#include "base/sbuf.h"
#include "base/sign.h"
#include "base/str.h"
#include "engine/engine_int.h"

#define USERDATA_MAX (16 << 10)

static const char script_head[] =
    "#!/bin/sh\n"
    "set -eu\n"
    "umask 077\n"
    "dir=${SPOT_AGENT_DIR:-/var/lib/spot-agent}\n"
    "mkdir -p \"$dir\"\n"
    "cat >\"$dir/boot.json\" <<'SPOT_BOOT_END'\n";

static const char script_fetch[] =
    "\nSPOT_BOOT_END\n"
    "want=%s\n"
    "if [ \"$(sha256sum \"$dir/spot-agent\" 2>/dev/null | cut -d' ' -f1)\" != \"$want\" ]; then\n"
    "  n=0\n"
    "  until curl -fsS%s --connect-timeout 10 -o \"$dir/spot-agent.new\" '%s/v1/agent/download/spot-agent' &&\n"
    "      [ \"$(sha256sum \"$dir/spot-agent.new\" | cut -d' ' -f1)\" = \"$want\" ]; do\n"
    "    n=$((n + 1)); [ $n -lt 60 ] || exit 1; sleep 5\n"
    "  done\n"
    "  chmod 700 \"$dir/spot-agent.new\"\n"
    "  mv -f \"$dir/spot-agent.new\" \"$dir/spot-agent\"\n"
    "fi\n";

/* A unit of its own survives cloud-init's; elsewhere (no systemd, or an agent directory was given) the agent
 * takes the script's place. */
static const char script_start[] =
    "if [ -z \"${SPOT_AGENT_DIR:-}\" ] && [ -d /run/systemd/system ] && [ \"$(id -u)\" = 0 ]; then\n"
    "  cat >/etc/systemd/system/spot-agent.service <<'SPOT_UNIT_END'\n"
    "[Unit]\nDescription=Spotbroker agent\nAfter=network-online.target\nWants=network-online.target\n"
    "[Service]\nExecStart=/var/lib/spot-agent/spot-agent\nRestart=always\nRestartSec=2\nOOMScoreAdjust=-900\n"
    "Delegate=yes\nKillMode=process\nLimitMEMLOCK=infinity\n"
    "[Install]\nWantedBy=multi-user.target\n"
    "SPOT_UNIT_END\n"
    "  systemctl daemon-reload\n"
    "  systemctl enable --now spot-agent.service\n"
    "else\n"
    "  exec \"$dir/spot-agent\"\n"
    "fi\n";

static char *boot_json(struct engine *e, struct arena *a, int64_t node_id, const char *token, const char *kind)
{
	uint8_t mac[SHA256_BYTES];
	char hex[SHA256_HEX];
	AUTO(json) json_t *j = NULL;

	hmac_sha256(e->enrol_key, e->enrol_key_n, token, strlen(token), mac);
	hex_encode(mac, sizeof(mac), hex);
	j = json_pack("{s:s, s:s?, s:s, s:s, s:s, s:s}", "url", e->conf.public_url, "ca_pem", e->conf.ca_pem, "token", hex,
	    "provider", kind, "install", e->install, "node", arena_printf(a, "n%" PRId64, node_id));
	return json_text(a, j);
}

struct str userdata_make(struct engine *e, struct arena *a, int64_t node_id, const char *token,
    const char *provider_kind)
{
	const char *ca = str_empty(e->conf.ca_pem) ? "" : " --cacert \"$dir/ca.pem\"";
	struct sbuf b;
	struct str ret;

	sbuf_init(&b, USERDATA_MAX);
	sbuf_puts(&b, script_head);
	sbuf_puts(&b, boot_json(e, a, node_id, token, provider_kind));
	if (ca[0] != '\0') {
		sbuf_printf(&b, "\nSPOT_BOOT_END\ncat >\"$dir/ca.pem\" <<'SPOT_BOOT_END'\n%s", e->conf.ca_pem);
	}
	sbuf_printf(&b, script_fetch, e->conf.agent_sha256, ca, e->conf.public_url);
	sbuf_puts(&b, script_start);
	assert(!b.overflow);
	ret = arena_bytes(a, b.p, b.n);
	sbuf_fini(&b);
	return ret;
}
