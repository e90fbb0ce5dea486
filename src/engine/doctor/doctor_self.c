/* The daemon about itself: its database, its address, the agent it hands out, the cost of polling.
 * */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/doctor/doctor_priv.h"

#define SKEW_WARN_US (1 * SPOT_US_PER_S)
#define SKEW_BAD_US (30 * SPOT_US_PER_S)
#define SLOW_WARN_US (50 * INT64_C(1000))
#define DAY_S 86400.0
#define STREAM_S 25.0 /* src/engine/launch/stream.c: a long poll that brings no news */

void database_examine(struct exam *x, const struct q_engine_doctor_database_row *row)
{
	struct act *a = probe_new(x, DOCTOR_SELF, "", "database", NULL);
	int64_t took = loop_mono_us(x->e->loop) - x->sent_us;
	int64_t skew = row->now_us - (engine_now(x->e) - took / 2), off = skew < 0 ? -skew : skew;

	probe_item(a, "database", row->recovery ? SPOT_CHECK_BAD : SPOT_CHECK_OK,
	    row->recovery ? "point the daemon at the primary server" : "", "Postgres %s%s",
	    row->version, row->recovery ? ", a standby that takes no writes" : "");
	probe_item(a, "database latency", took < SLOW_WARN_US ? SPOT_CHECK_OK : SPOT_CHECK_WARN,
	    took < SLOW_WARN_US
		? ""
		: "run the daemon near its database: each step of a job is a few statements",
	    "%.1f ms for a statement", (double)took / 1000);
	probe_item(a, "database clock",
	    off < SKEW_WARN_US      ? SPOT_CHECK_OK
		: off < SKEW_BAD_US ? SPOT_CHECK_WARN
				    : SPOT_CHECK_BAD,
	    off < SKEW_WARN_US ? "" : "set both clocks (chrony, systemd-timesyncd)",
	    "%.3f s %s of the daemon's", (double)off / 1e6, skew < 0 ? "behind" : "ahead");
	probe_write(a);
}

/* Host names that mean the machine itself. */
static bool is_loopback(const char *host)
{
	return str_prefix(host, "127.") || str_prefix(host, "localhost") ||
	    str_prefix(host, "[::1]");
}

static void address_item(struct act *a, const char *url)
{
	bool https = str_prefix(url, "https://");
	const char *host = https ? url + 8 : str_prefix(url, "http://") ? url + 7 : NULL;

	if (host == NULL || *host == '\0' || *host == '/' || *host == ':' ||
	    strpbrk(url, " ?#@") != NULL) {
		probe_item(a, "public address", SPOT_CHECK_BAD,
		    "set [api] public_url to https://HOST:PORT as a node reaches it",
		    "'%s' is no address", url);
	} else if (is_loopback(host)) {
		probe_item(a, "public address", SPOT_CHECK_WARN,
		    "set [api] public_url to the address that nodes in a cloud reach, and open its "
		    "port",
		    "%s is this machine only: no node elsewhere reaches it", url);
	} else if (!https) {
		probe_item(a, "public address", SPOT_CHECK_WARN,
		    "set [api] tls_cert and tls_key: one-time tokens cross the network",
		    "%s is not encrypted", url);
	} else {
		probe_item(a, "public address", SPOT_CHECK_OK, "", "%s", url);
	}
}

static void binary_item(struct act *a, const char *name, const char *sha256, bool kept,
    enum spot_check_state missing, const char *fix)
{
	if (str_empty(sha256)) {
		probe_item(a, name, missing, fix, "there is none to hand out");
	} else if (!kept) {
		probe_item(a, name, SPOT_CHECK_WARN,
		    "the leader's log says why (agent.not_kept); it is tried again each minute",
		    "sha256 %s is not in the database: only the leader's own API hands it out",
		    sha256);
	} else {
		probe_item(a, name, SPOT_CHECK_OK, "", "sha256 %s", sha256);
	}
}

void daemon_examine(struct exam *x)
{
	const struct engine_conf *c = &x->e->conf;
	struct act *a = probe_new(x, DOCTOR_SELF, "", "daemon", NULL);

	probe_item(a, "leader", SPOT_CHECK_OK, "", "%s, since %" PRId64 " s, epoch %" PRId64,
	    x->e->holder, (engine_now(x->e) - x->e->led_since_us) / SPOT_US_PER_S, x->epoch);
	if (clock_doubted(x->e)) {
		probe_item(a, "billing clock", SPOT_CHECK_WARN,
		    "set the daemon's clock (chrony, systemd-timesyncd); spotctl doctor PROVIDER "
		    "tells how far it is off",
		    "nothing is billed until a cloud's time agrees with this clock, for [engine] "
		    "clock_doubt at most");
	} else {
		probe_item(a, "billing clock", SPOT_CHECK_OK, "", "believed");
	}
	address_item(a, c->public_url == NULL ? "" : c->public_url);
	binary_item(a, "spot-agent", c->agent_sha256, !c->agent_not_kept, SPOT_CHECK_BAD,
	    "install spot-agent beside spotd or set [api] agent_dir: no node can run a job without "
	    "it");
	binary_item(a, "spot-nvml", c->nvml_sha256, true, SPOT_CHECK_WARN,
	    "install spot-nvml beside spotd: without it nothing is known of the nodes' GPUs");
	binary_item(a, "spot-agent arm64", c->agent_arm64_sha256, true, SPOT_CHECK_UNTESTED, "");
	for (size_t i = 0; i < x->e->unopened_n; i++) {
		probe_item(a, arena_printf(a->arena, "provider %s", x->e->unopened[i].name),
		    SPOT_CHECK_WARN,
		    "give it its credentials, or write [provider NAME] sections for those that are "
		    "wanted",
		    "could not be opened: %s", x->e->unopened[i].why);
	}
	probe_write(a);
}

/* ---- feeds and what they cost ---------------------------------------------------------------- */

/* One price that stands still for long is normal; most of them is not. */
static void prices_item(struct act *a, const struct q_engine_doctor_feeds_row *w)
{
	int64_t all = w->fresh + w->stale + w->frozen + w->implausible;
	enum spot_check_state state = SPOT_CHECK_OK;
	const char *fix = "";

	if (all == 0) {
		state = w->failing > 0 ? SPOT_CHECK_BAD : SPOT_CHECK_WARN;
		fix = w->failing > 0 ? "the feeds below fail: mend that first"
				     : "wait for the first poll";
	} else if (w->stale + w->implausible > 0 || w->frozen > all / 2) {
		state = w->stale == all ? SPOT_CHECK_BAD : SPOT_CHECK_WARN;
		fix = "spotctl prices --state stale (frozen, implausible) lists them; they rank "
		      "behind fresh ones";
	}
	probe_item(a, "prices", state, fix,
	    "%" PRId64 ": %" PRId64 " fresh, %" PRId64 " stale, %" PRId64 " frozen, %" PRId64
	    " implausible",
	    all, w->fresh, w->stale, w->frozen, w->implausible);
	if (w->failing > 0) {
		probe_item(a, "feeds", w->failing == w->feeds ? SPOT_CHECK_BAD : SPOT_CHECK_WARN,
		    "spotctl providers -o json tells each feed's error",
		    "%" PRId64 " of %" PRId64 " fail, such as: %s", w->failing, w->feeds,
		    w->error == NULL ? "?" : w->error);
	} else {
		probe_item(a, "feeds", SPOT_CHECK_OK, "",
		    "%" PRId64 " in %" PRId64 " regions, %" PRId64 " not read yet", w->feeds,
		    w->regions, w->silent);
	}
}

/* Each place with nodes is polled. */
static double watched_per_day(const struct exam *x, const char *provider)
{
	double places = 0;

	for (size_t i = 0; i < x->places_n; i++) {
		places += strcmp(x->places[i].provider, provider) == 0 && x->places[i].nodes > 0;
	}
	return places * DAY_S * 1e6 / (double)MAX(x->e->conf.watch_us, 1);
}

/* The widest of the vendor's published rates, to compare our average with. */
static const struct spot_limit *limit_widest(const struct spot_provider_ops *ops)
{
	const struct spot_limit *best = NULL;

	for (size_t i = 0; i < ops->limits_n; i++) {
		if (best == NULL || ops->limits[i].per_second > best->per_second) {
			best = &ops->limits[i];
		}
	}
	return best;
}

static void cost_item(struct act *a, const struct q_engine_doctor_feeds_row *w,
    const struct exam *x, const struct spot_provider_ops *ops)
{
	const struct spot_limit *top = limit_widest(ops);
	double sweeps = (double)w->regions * DAY_S * 1e6 / (double)MAX(x->e->conf.sweep_us, 1);
	double watch = watched_per_day(x, w->provider);
	double streams = ops->watch == NULL ? 0 : (double)MIN(w->regions, 8) * DAY_S / STREAM_S;
	double all = w->per_day + sweeps + watch + streams;
	bool much = top != NULL && all / DAY_S > top->per_second / 2;
	AUTO(sbuf) struct sbuf text;

	sbuf_init(&text, 0);
	sbuf_printf(&text,
	    "%.0f requests a day: feeds %.0f, sweeps %.0f, nodes %.0f, streams %.0f; %.3f a second",
	    all, w->per_day, sweeps, watch, streams, all / DAY_S);
	for (size_t i = 0; i < ops->limits_n; i++) {
		sbuf_printf(&text, "%s%s %g/s", i == 0 ? ", published limits: " : ", ",
		    ops->limits[i].name, ops->limits[i].per_second);
	}
	probe_item(a, "poll cost", much ? SPOT_CHECK_WARN : SPOT_CHECK_OK,
	    much
		? "poll less often: the intervals are in [market] and [engine] of the daemon's file"
		: "",
	    "%s", text.p);
	probe_amount(a, (int64_t)(all + 0.5));
}

void feeds_examine(struct exam *x, const struct q_engine_doctor_feeds_row *w,
    struct call_provider *p)
{
	struct act *a = probe_new(x, w->provider, "", "feeds", NULL);

	prices_item(a, w);
	cost_item(a, w, x, call_provider_ops(p));
	probe_write(a);
}
