/*
 * Examinations: what an operator wants to know before trusting a configuration. The API wrote down
 * that somebody asks (table doctor_run); here, where the cloud keys are, every configured provider
 * is asked who we are (verb whoami) and what we may do (verb check, region by region), the daemon
 * looks at itself (doctor_self.c), and an object goes to the store and back (doctor_store.c). The
 * invariants of the rows are checked when that is asked (doctor_consistency.c), and that the object
 * store has what they say (doctor_objects.c). Each look writes its items when it ends; the last one
 * closes the run. Nothing is created or ended at a provider.
 */
#include "base/base.h"
#include "base/log.h"
#include "base/crypto/redact.h"
#include "base/text/str.h"
#include "engine/doctor/doctor.h"

#include <stdarg.h>

#define LOOK_US (45 * SPOT_US_PER_S) /* a whole check of one region; an asker waits for 60 s */
#define WHOAMI_US (20 * SPOT_US_PER_S)
#define CLAIM_US (90 * SPOT_US_PER_S)
#define REGIONS_MOST 3
#define POOLS_MOST 8
#define OUT_OF_REACH \
	"check the daemon's network, DNS and firewall, and the endpoint in the provider's section"

/* ---- one look -------------------------------------------------------------------------------- */

struct act *look_new(struct exam *x, const char *provider, const char *region, const char *part,
    void (*called)(struct act *))
{
	struct act *a = act_new(x->e, x->id, called);
	struct look *l = arena_alloc(a->arena, sizeof(*l));

	l->x = x;
	l->provider = arena_strdup(a->arena, provider);
	l->region = arena_strdup(a->arena, region);
	l->part = part;
	l->p = engine_provider(x->e, provider);
	l->begun_us = loop_mono_us(x->e->loop);
	a->ctx = l;
	x->pending++;
	return a;
}

/* Whatever a vendor says goes to people: registered secrets do not. */
static const char *clean(struct arena *a, const char *words)
{
	char *text = arena_strdup(a, words == NULL ? "" : words);
	size_t n = strlen(text);

	redact_text(text, &n);
	text[n] = '\0';
	return text;
}

void look_item(struct act *a, const char *name, enum spot_check_state state, const char *fix,
    const char *fmt, ...)
{
	struct look *l = a->ctx;
	char words[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	l->items = arena_grow(a->arena, l->items, l->n, &l->cap, sizeof(*l->items));
	l->amounts = arena_grow(a->arena, l->amounts, l->n, &l->amounts_cap, sizeof(*l->amounts));
	l->amounts[l->n] = -1;
	l->items[l->n++] = (struct spot_check_item){ .name = name,
		.state = state,
		.words = arena_strdup(a->arena, words),
		.fix = fix };
}

void look_amount(struct act *a, int64_t amount)
{
	struct look *l = a->ctx;

	l->amounts[l->n - 1] = amount;
}

static const char *state_name(enum spot_check_state s)
{
	switch (s) {
	case SPOT_CHECK_OK:
		return "ok";
	case SPOT_CHECK_WARN:
		return "warn";
	case SPOT_CHECK_BAD:
		return "bad";
	case SPOT_CHECK_UNTESTED:
	case SPOT_CHECK_NONE:
		break;
	}
	return "untested";
}

const char *rc_fix(enum spot_rc rc)
{
	static const struct {
		enum spot_rc rc;
		const char *fix;
	} known[] = {
		{ SPOT_UNAUTHENTICATED,
		    "check the credentials of the daemon: the provider's README says where it "
		    "looks for them" },
		{ SPOT_DENIED,
		    "give the daemon's account the permissions in deploy/iam for this provider" },
		{ SPOT_THROTTLED,
		    "ask again in a minute; somebody else uses the account's request rate" },
		{ SPOT_CONFIG, "correct the provider's section of the daemon's file" },
		{ SPOT_UNAVAILABLE, OUT_OF_REACH },
		{ SPOT_TIMEOUT, OUT_OF_REACH },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (known[i].rc == rc) {
			return known[i].fix;
		}
	}
	return "see the daemon's log";
}

static void exam_free(struct exam *x)
{
	x->e->exam = NULL;
	arena_free(x->arena);
	free(x);
}

void exam_drop(struct engine *e)
{
	if (e->exam != NULL) {
		exam_free(e->exam);
	}
}

static void done_wrote(struct act *a)
{
	struct exam *x = a->ctx;

	if (a->req.op.rc == SPOT_OK) {
		log_info("doctor.done", I64("run", x->id));
	}
	exam_free(x);
}

static void look_wrote(struct act *a)
{
	struct look *l = a->ctx;
	struct exam *x = l->x;
	struct act *last;

	x->lost |= a->req.op.rc != SPOT_OK;
	if (--x->pending > 0) {
		return;
	}
	if (x->lost) {
		exam_free(x);
		return;
	}
	last = act_new(x->e, x->id, NULL);
	last->ctx = x;
	last->wrote = done_wrote;
	ACT_WRITE(last, engine_doctor_done,
	    (&(struct q_engine_doctor_done){ .id = x->id,
		.claimed_by = x->me,
		.at_us = engine_now(x->e),
		.fence = x->epoch }));
}

void look_write(struct act *a)
{
	struct look *l = a->ctx;
	const char **t[4];

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		t[i] = arena_array(a->arena, l->n + 1, sizeof(**t));
	}
	for (size_t i = 0; i < l->n; i++) {
		t[0][i] = clean(a->arena, l->items[i].name);
		t[1][i] = state_name(l->items[i].state);
		t[2][i] = clean(a->arena, l->items[i].words);
		t[3][i] = clean(a->arena, l->items[i].fix);
	}
	a->wrote = look_wrote;
	ACT_WRITE(a, engine_doctor_items,
	    (&(struct q_engine_doctor_items){ .run_id = l->x->id,
		.claimed_by = l->x->me,
		.provider = l->provider,
		.region = l->region,
		.part = l->part,
		.names = t[0],
		.names_n = l->n,
		.states = t[1],
		.states_n = l->n,
		.words = t[2],
		.words_n = l->n,
		.fixes = t[3],
		.fixes_n = l->n,
		.amounts = l->amounts,
		.amounts_n = l->n,
		.fence = l->x->epoch }));
}

/* ---- providers ------------------------------------------------------------------------------- */

static void whoami_called(struct act *a)
{
	const struct look *l = a->ctx;
	const struct spot_err *err = &a->call.op.err;
	enum spot_rc rc = a->call.op.rc;
	int64_t ms = (loop_mono_us(a->e->loop) - l->begun_us) / 1000;
	bool answered = rc != SPOT_UNAVAILABLE && rc != SPOT_TIMEOUT && rc != SPOT_CANCELLED;

	if (rc == SPOT_OK) {
		look_item(a, "reachable", SPOT_CHECK_OK, "", "answered in %" PRId64 " ms", ms);
		look_item(a, "account", SPOT_CHECK_OK, "", "%s",
		    str_empty(l->args.account) ? "known to the provider" : l->args.account);
	} else {
		look_item(a, "reachable", answered ? SPOT_CHECK_OK : SPOT_CHECK_BAD,
		    answered ? "" : rc_fix(rc), "%s",
		    answered ? arena_printf(a->arena, "answered in %" PRId64 " ms", ms)
			     : err->text);
		look_item(a, "account", answered ? SPOT_CHECK_BAD : SPOT_CHECK_UNTESTED,
		    answered ? rc_fix(rc) : "", "%s", answered ? err->text : "nobody answered");
	}
	look_write(a);
}

static void check_called(struct act *a)
{
	const struct look *l = a->ctx;
	const struct spot_err *err = &a->call.op.err;

	for (size_t i = 0; i < l->args.check.n; i++) {
		const struct spot_check_item *t = &l->args.check.items[i];

		look_item(a, t->name, t->state, t->fix == NULL ? "" : t->fix, "%s",
		    t->words == NULL ? "" : t->words);
	}
	if (a->call.op.rc != SPOT_OK) {
		look_item(a, "check", SPOT_CHECK_BAD, rc_fix(a->call.op.rc), "%s", err->text);
	}
	look_write(a);
}

static void pool_info(struct act *a, const struct q_engine_doctor_pools_row *w,
    struct spot_pool_info *ret)
{
#define KEEP(s) arena_strdup(a->arena, (s))
	*ret = (struct spot_pool_info){
		.key = { .provider = KEEP(w->provider),
		    .region = KEEP(w->region),
		    .zone = KEEP(w->zone),
		    .instance_type = KEEP(w->instance_type),
		    .market = spot_market_parse(w->market) },
		.zone_name = KEEP(w->zone_name),
		.shape = { .gpu_name = KEEP(w->gpu_name),
		    .gpu_milli = w->gpu_milli,
		    .gpu_mem_mib = w->gpu_mem_mib,
		    .vcpus = w->vcpus,
		    .mem_mib = w->mem_mib,
		    .arch = KEEP(w->arch) },
		.quota_class = KEEP(w->quota_class),
	};
#undef KEEP
}

static void check_region(struct exam *x, struct call_provider *p, const char *region)
{
	const char *name = call_provider_name(p);
	struct act *a = look_new(x, name, region, "check", check_called);
	struct look *l = a->ctx;
	struct spot_pool_info *pools = arena_array(a->arena, POOLS_MOST, sizeof(*pools));
	size_t n = 0;

	for (size_t i = 0; i < x->pools_n && n < POOLS_MOST; i++) {
		if (strcmp(x->pools[i].provider, name) == 0 &&
		    strcmp(x->pools[i].region, region) == 0) {
			pool_info(a, &x->pools[i], &pools[n++]);
		}
	}
	l->args.check = (struct spot_check){ .region = l->region,
		.pools = pools,
		.pools_n = n,
		.install = x->e->install };
	act_call(a, p, CALL_CHECK, &l->args.check, LOOK_US, false);
}

static void untested(struct exam *x, const char *provider, const char *part, const char *name,
    enum spot_check_state state, const char *words, const char *fix)
{
	struct act *a = look_new(x, provider, "", part, NULL);

	look_item(a, name, state, fix, "%s", words);
	look_write(a);
}

static void examine(struct exam *x, struct call_provider *p)
{
	const struct spot_provider_ops *ops = call_provider_ops(p);
	const char *name = call_provider_name(p);
	size_t regions = 0;

	if (ops->whoami != NULL) {
		struct act *a = look_new(x, name, "", "account", whoami_called);
		struct look *l = a->ctx;

		act_call(a, p, CALL_WHOAMI, &l->args.account, WHOAMI_US, false);
	}
	for (size_t i = 0; i < x->feeds_n; i++) {
		if (strcmp(x->feeds[i].provider, name) == 0) {
			self_feeds(x, &x->feeds[i], p);
		}
	}
	if (ops->check == NULL) {
		untested(x, name, "check", "permissions", SPOT_CHECK_UNTESTED,
		    "this kind of provider has no way to ask", "");
		return;
	}
	for (size_t i = 0; i < x->places_n && regions < REGIONS_MOST; i++) {
		if (strcmp(x->places[i].provider, name) == 0) {
			check_region(x, p, x->places[i].region);
			regions++;
		}
	}
	if (regions == 0) {
		check_region(x, p, ""); /* no pool is known yet: the provider's own first region */
	}
}

static bool asked_for(const struct exam *x, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = x->asked; *at != '\0'; at += strcspn(at, ",")) {
		at += *at == ',';
		if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0')) {
			return true;
		}
	}
	return x->asked[0] == '\0';
}

/* A name that nobody has is told, not passed over. */
static void strangers(struct exam *x)
{
	char *list = arena_strdup(x->arena, x->asked), *save = NULL;

	for (char *name = strtok_r(list, ",", &save); name != NULL;
	     name = strtok_r(NULL, ",", &save)) {
		if (engine_provider(x->e, name) == NULL && strcmp(name, DOCTOR_SELF) != 0 &&
		    strcmp(name, DOCTOR_CONSISTENCY) != 0) {
			untested(x, name, "account", "configured", SPOT_CHECK_BAD,
			    "no provider of this name is configured",
			    "add its [provider NAME] section to the daemon's file; spotctl "
			    "providers lists "
			    "those there are");
		}
	}
}

/* ---- the turn -------------------------------------------------------------------------------- */

static void doctor_database(struct step *s)
{
	struct exam *x = s->ctx;
	struct engine *e = x->e;
	struct q_engine_doctor_database_row *row;

	/* Held while the looks are made: the first may be over before the last has begun. */
	x->pending = 1;
	if (step_rows(s) == 1 && q_engine_doctor_database_rows(&s->req, x->arena, &row) == 1 &&
	    asked_for(x, DOCTOR_SELF)) {
		self_database(x, row);
		self_daemon(x);
		self_store(x);
		self_verdicts(x);
	}
	if (x->asked[0] != '\0' && asked_for(x, DOCTOR_CONSISTENCY)) {
		self_consistency(x);
		self_objects(x);
	}
	strangers(x);
	for (size_t i = 0; i < e->providers_n; i++) {
		if (asked_for(x, call_provider_name(e->providers[i]))) {
			examine(x, e->providers[i]);
		}
	}
	untested(x, DOCTOR_SELF, "~", "engine", SPOT_CHECK_OK, e->holder, "");
	x->pending--;
}

static void doctor_feeds(struct step *s)
{
	struct exam *x = s->ctx;
	struct step *next;

	if (s->req.op.rc != SPOT_OK) {
		exam_free(x);
		return;
	}
	x->feeds_n = q_engine_doctor_feeds_rows(&s->req, x->arena, &x->feeds);
	next = step_new(s->r, doctor_database, x);
	next->always = true;
	x->sent_us = loop_mono_us(x->e->loop);
	STEP(next, engine_doctor_database, NULL);
}

static void doctor_pools(struct step *s)
{
	struct exam *x = s->ctx;
	struct engine *e = x->e;
	const char **names = arena_array(x->arena, e->providers_n + 1, sizeof(*names));
	struct step *next;

	if (s->req.op.rc != SPOT_OK) {
		exam_free(x);
		return;
	}
	x->pools_n = q_engine_doctor_pools_rows(&s->req, x->arena, &x->pools);
	for (size_t i = 0; i < e->providers_n; i++) {
		names[i] = call_provider_name(e->providers[i]);
	}
	next = step_new(s->r, doctor_feeds, x);
	next->always = true;
	STEP(next, engine_doctor_feeds,
	    (&(struct q_engine_doctor_feeds){ .providers = names, .providers_n = e->providers_n }));
}

static void doctor_places(struct step *s)
{
	struct exam *x = s->ctx;
	struct step *next;

	if (s->req.op.rc != SPOT_OK) {
		exam_free(x);
		return;
	}
	x->places_n = q_engine_doctor_places_rows(&s->req, x->arena, &x->places);
	next = step_new(s->r, doctor_pools, x);
	next->always = true;
	STEP(next, engine_doctor_pools, NULL);
}

static void doctor_claimed(struct step *s)
{
	struct exam *x = s->ctx;
	struct step *next;

	if (step_rows(s) != 1) {
		exam_free(x);
		return;
	}
	next = step_new(s->r, doctor_places, x);
	next->always = true;
	STEP(next, engine_doctor_places, NULL);
}

static void doctor_due(struct step *s)
{
	struct engine *e = s->r->e;
	struct q_engine_doctor_due_row *row;
	struct exam *x;
	struct step *next;

	if (q_engine_doctor_due_rows(&s->req, s->r->arena, &row) == 0) {
		return;
	}
	x = calloc(1, sizeof(*x));
	if (x == NULL) {
		abort();
	}
	x->e = e;
	x->arena = arena_new(0);
	x->id = row->id;
	x->asked = arena_strdup(x->arena, row->providers);
	memcpy(x->me, e->me, sizeof(x->me));
	x->epoch = s->r->epoch;
	e->exam = x;
	next = step_new(s->r, doctor_claimed, x);
	next->always = true;
	STEP(next, engine_doctor_claim,
	    (&(struct q_engine_doctor_claim){ .id = row->id,
		.claimed_by = e->me,
		.at_us = engine_now(e),
		.until_us = engine_now(e) + CLAIM_US,
		.fence = s->r->epoch }));
}

void doctor_run(struct recon *r)
{
	struct step *s;

	if (r->e->exam != NULL) {
		return; /* one at a time; its end is a pass */
	}
	s = step_new(r, doctor_due, NULL);
	STEP(s, engine_doctor_due,
	    (&(struct q_engine_doctor_due){ .claimed_by = r->e->me,
		.at_us = engine_now(r->e),
		.until_us = engine_now(r->e) + CLAIM_US }));
}
