/*
 * Examinations: facts that an operator wants before trusting a configuration. The API writes a
 * request (table doctor_run); this process has the cloud keys and examines. It asks every
 * configured provider for our identity (verb whoami) and our permissions (verb check, region by
 * region). The daemon examines itself (doctor_self.c), and sends an object to the store and back
 * (doctor_store.c). On request it checks the invariants of the rows (doctor_consistency.c) and that
 * the object store has the objects they name (doctor_objects.c). Each probe writes its items when
 * it ends; the last one closes the run. Nothing is created or ended at a provider.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "engine/doctor/doctor_priv.h"

#define LOOK_US (45 * SPOT_US_PER_S) /* a whole check of one region; the client waits for 60 s */
#define WHOAMI_US (20 * SPOT_US_PER_S)
#define CLAIM_US (90 * SPOT_US_PER_S)
#define REGIONS_MOST 3
#define POOLS_MOST 8

static void doctor_fini(void *state)
{
	struct doctor *d = state;

	if (d->exam != NULL) {
		exam_free(d->exam);
	}
}

/* ---- providers ------------------------------------------------------------------------------- */

static void whoami_called(struct act *a)
{
	const struct probe *l = a->ctx;
	const struct spot_err *err = &a->call.op.err;
	enum spot_rc rc = a->call.op.rc;
	int64_t ms = (loop_mono_us(a->e->loop) - l->begun_us) / 1000;
	bool answered = rc != SPOT_UNAVAILABLE && rc != SPOT_TIMEOUT && rc != SPOT_CANCELLED;

	if (rc == SPOT_OK) {
		probe_item(a, "reachable", SPOT_CHECK_OK, "", "answered in %" PRId64 " ms", ms);
		probe_item(a, "account", SPOT_CHECK_OK, "", "%s",
		    str_empty(l->args.account) ? "known to the provider" : l->args.account);
	} else {
		probe_item(a, "reachable", answered ? SPOT_CHECK_OK : SPOT_CHECK_BAD,
		    answered ? "" : rc_remedy(rc), "%s",
		    answered ? arena_printf(a->arena, "answered in %" PRId64 " ms", ms)
			     : err->text);
		probe_item(a, "account", answered ? SPOT_CHECK_BAD : SPOT_CHECK_UNTESTED,
		    answered ? rc_remedy(rc) : "", "%s", answered ? err->text : "nobody answered");
	}
	probe_write(a);
}

static void check_called(struct act *a)
{
	const struct probe *l = a->ctx;
	const struct spot_err *err = &a->call.op.err;

	for (size_t i = 0; i < l->args.check.n; i++) {
		const struct spot_check_item *t = &l->args.check.items[i];

		probe_item(a, t->name, t->state, t->fix == NULL ? "" : t->fix, "%s",
		    t->words == NULL ? "" : t->words);
	}
	if (a->call.op.rc != SPOT_OK) {
		probe_item(a, "check", SPOT_CHECK_BAD, rc_remedy(a->call.op.rc), "%s", err->text);
	}
	probe_write(a);
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
		    .market = w->market },
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
	struct act *a = probe_new(x, name, region, "check", check_called);
	struct probe *l = a->ctx;
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

static void part_untested(struct exam *x, const char *provider, const char *part, const char *name,
    enum spot_check_state state, const char *words, const char *fix)
{
	struct act *a = probe_new(x, provider, "", part, NULL);

	probe_item(a, name, state, fix, "%s", words);
	probe_write(a);
}

static void provider_examine(struct exam *x, struct call_provider *p)
{
	const struct spot_provider_ops *ops = call_provider_ops(p);
	const char *name = call_provider_name(p);
	size_t regions = 0;

	if (ops->whoami != NULL) {
		struct act *a = probe_new(x, name, "", "account", whoami_called);
		struct probe *l = a->ctx;

		act_call(a, p, CALL_WHOAMI, &l->args.account, WHOAMI_US, false);
	}
	for (size_t i = 0; i < x->feeds_n; i++) {
		if (strcmp(x->feeds[i].provider, name) == 0) {
			feeds_examine(x, &x->feeds[i], p);
		}
	}
	if (ops->check == NULL) {
		part_untested(x, name, "check", "permissions", SPOT_CHECK_UNTESTED,
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

static bool name_asked(const struct exam *x, const char *name)
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

/* Reports a name that no provider has; silence would look like success. */
static void names_unknown(struct exam *x)
{
	char *list = arena_strdup(x->arena, x->asked), *save = NULL;

	for (char *name = strtok_r(list, ",", &save); name != NULL;
	     name = strtok_r(NULL, ",", &save)) {
		if (engine_provider(x->e, name) == NULL && strcmp(name, DOCTOR_SELF) != 0 &&
		    strcmp(name, DOCTOR_CONSISTENCY) != 0) {
			part_untested(x, name, "account", "configured", SPOT_CHECK_BAD,
			    "no provider of this name is configured",
			    "add its [provider NAME] section to the daemon's file; spotctl "
			    "providers lists "
			    "those there are");
		}
	}
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void doctor_database(struct step *s)
{
	struct exam *x = s->ctx;
	struct engine *e = x->e;
	struct q_engine_doctor_database_row *row;

	/* Held while the probes start: the first may end before the last begins. */
	x->pending = 1;
	if (step_rows(s) == 1 && q_engine_doctor_database_rows(&s->req, x->arena, &row) == 1 &&
	    name_asked(x, DOCTOR_SELF)) {
		database_examine(x, row);
		daemon_examine(x);
		store_examine(x);
		verdicts_examine(x);
	}
	if (x->asked[0] != '\0' && name_asked(x, DOCTOR_CONSISTENCY)) {
		consistency_examine(x);
		objects_examine(x);
	}
	names_unknown(x);
	for (size_t i = 0; i < e->providers_n; i++) {
		if (name_asked(x, call_provider_name(e->providers[i]))) {
			provider_examine(x, e->providers[i]);
		}
	}
	part_untested(x, DOCTOR_SELF, "~", "engine", SPOT_CHECK_OK, e->holder, "");
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
	x->doctor = s->r->state;
	x->doctor->exam = x;
	next = step_new(s->r, doctor_claimed, x);
	next->always = true;
	STEP(next, engine_doctor_claim,
	    (&(struct q_engine_doctor_claim){ .id = row->id,
		.claimed_by = e->me,
		.at_us = engine_now(e),
		.until_us = engine_now(e) + CLAIM_US,
		.fence = s->r->epoch }));
}

static void doctor_pass(struct recon *r, void *state)
{
	const struct doctor *d = state;
	struct step *s;

	if (d->exam != NULL) {
		return; /* one at a time; a pass follows its end */
	}
	s = step_new(r, doctor_due, NULL);
	STEP(s, engine_doctor_due,
	    (&(struct q_engine_doctor_due){ .claimed_by = r->e->me,
		.at_us = engine_now(r->e),
		.until_us = engine_now(r->e) + CLAIM_US }));
}

const struct recon_kind doctor_kind = { .name = "doctor",
	.wakes = TOUCH_DOCTOR,
	.state_size = sizeof(struct doctor),
	.fini = doctor_fini,
	.pass = doctor_pass };
