/* Probes: each collects items, and writes them with one statement when it ends. The last one closes
 * the examination. */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "engine/doctor/doctor_priv.h"

#include <stdarg.h>

#define OUT_OF_REACH \
	"check the daemon's network, DNS and firewall, and the endpoint in the provider's section"

struct act *probe_new(struct exam *x, const char *provider, const char *region, const char *part,
    void (*called)(struct act *))
{
	struct act *a = act_new(x->e, x->id, called);
	struct probe *l = arena_alloc(a->arena, sizeof(*l));

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

/* People read a vendor's words, so remove registered secrets. */
static const char *words_clean(struct arena *a, const char *words)
{
	char *text = arena_strdup(a, words == NULL ? "" : words);
	size_t n = strlen(text);

	redact_text(text, &n);
	text[n] = '\0';
	return text;
}

static const char *state_word(enum spot_check_state s)
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

void probe_item(struct act *a, const char *name, enum spot_check_state state, const char *fix,
    const char *fmt, ...)
{
	struct probe *l = a->ctx;
	char words[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	l->items = arena_grow(a->arena, l->items, l->n, &l->cap, sizeof(*l->items));
	l->items[l->n++] = (struct q_engine_doctor_items_item){
		.name = words_clean(a->arena, name),
		.state = state_word(state),
		.words = words_clean(a->arena, words),
		.fix = words_clean(a->arena, fix),
	};
}

void probe_amount(struct act *a, int64_t amount)
{
	struct probe *l = a->ctx;

	l->items[l->n - 1].has_amount = amount >= 0;
	l->items[l->n - 1].amount = amount;
}

const char *rc_remedy(enum spot_rc rc)
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

void exam_free(struct exam *x)
{
	x->doctor->exam = NULL;
	arena_free(x->arena);
	free(x);
}

static void exam_ended(struct act *a)
{
	struct exam *x = a->ctx;

	if (a->req.op.rc == SPOT_OK) {
		log_info("doctor.done", I64("run", x->id));
	}
	exam_free(x);
}

static void probe_wrote(struct act *a)
{
	struct probe *l = a->ctx;
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
	last->wrote = exam_ended;
	ACT_WRITE(last, engine_doctor_done,
	    (&(struct q_engine_doctor_done){ .id = x->id,
		.claimed_by = x->me,
		.at_us = engine_now(x->e),
		.fence = x->epoch }));
}

void probe_write(struct act *a)
{
	struct probe *l = a->ctx;

	a->wrote = probe_wrote;
	ACT_WRITE(a, engine_doctor_items,
	    (&(struct q_engine_doctor_items){ .run_id = l->x->id,
		.claimed_by = l->x->me,
		.provider = l->provider,
		.region = l->region,
		.part = l->part,
		.item = l->items,
		.item_n = l->n,
		.fence = l->x->epoch }));
}
