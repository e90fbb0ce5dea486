/* The cloud of engine_world.h tells notices and ends, signs URLs, and vouches for machines. */
#include "engine_cloud.h"
#include "base/base.h"

enum spot_step cloud_notices(void *self, struct spot_call *c, struct spot_notices *a)
{
	struct cloud *k = self;
	size_t each = k->notice_at_us[1] != 0 ? 2 : 1;

	a->notices = arena_array(c->arena, each + a->instances_n, sizeof(*a->notices));
	for (size_t i = 0; i < a->instances_n; i++) {
		if (k->block_ends_us != 0 && a->instances[i].key.market == SPOT_MARKET_RESERVED) {
			a->notices[a->n++] = (struct spot_notice){ .ref = arena_strdup(c->arena,
								       a->instances[i].ref),
				.kind = SPOT_NOTICE_EXPIRY,
				.deadline_us = k->block_ends_us,
				.source = "fake-block",
				.raw = "" };
		}
		for (size_t n = 0; n < each && strcmp(a->instances[i].ref, k->notice_ref) == 0;
		     n++) {
			a->notices[a->n++] =
			    (struct spot_notice){ .ref = arena_strdup(c->arena, k->notice_ref),
				    .kind = SPOT_NOTICE_INTERRUPTION,
				    .deadline_us = k->notice_at_us[n],
				    .source = "fake-control-plane",
				    .raw = "cut \xe2\x82" };
		}
	}
	return SPOT_DONE;
}

enum spot_rc cloud_presign(void *self, struct arena *arena, int64_t now_us, struct spot_presign *a,
    struct spot_err *err)
{
	struct cloud *k = self;

	if (k->sign_rc != SPOT_OK) {
		return err_set(err, k->sign_rc, "fake presign: no keys now");
	}
	if (k->sign_refuses != NULL && strcmp(a->bucket, k->sign_refuses) == 0) {
		return err_set(err, SPOT_INVALID, "fake presign: '%s' is not a bucket name",
		    a->bucket);
	}
	/* the wall clock stands still within a turn */
	k->signed_now = now_us == k->signed_at_us ? k->signed_now + 1 : 1;
	k->signed_at_us = now_us;
	k->signed_most = MAX(k->signed_most, k->signed_now);
	k->signed_n++;
	(void)arena_alloc(arena, k->sign_leaves);
	if (k->uploads_how != '\0' && strcmp(a->method, "PUT") == 0) {
		a->upload = k->uploads_how == 'r' ? SPOT_UPLOAD_RESUMABLE : SPOT_UPLOAD_BLOCKS;
	}
	if (k->uploads_header) {
		a->headers[a->headers_n++] = (struct spot_header){ "x-fake-kind", "block" };
	}
	a->until_us = k->urls_until_us;
	a->url = arena_printf(arena, "https://%s.fake/%s?%s", a->bucket, a->key, a->method);
	return SPOT_OK;
}

enum spot_step cloud_verify(void *self, struct spot_call *c, struct spot_verify *a)
{
	struct cloud *k = self;
	const char *good;

	k->verify_calls++;
	if (k->verify_faults > 0) {
		k->verify_faults--;
		return call_fail(c, SPOT_CONFIG, "", "fake verify: no keys to check with");
	}
	if (k->verify_rc != SPOT_OK) {
		return call_fail(c, k->verify_rc, "AccessDenied", "fake verify: %s",
		    spot_rc_name(k->verify_rc));
	}
	assert_int_equal(strlen(a->nonce), 10);
	good = arena_printf(c->arena,
	    "{\"kind\":\"fake\",\"ref\":\"%s\",\"audience\":\"%s\",\"nonce\":\"%s\"}", a->ref,
	    a->audience, a->nonce);
	if (a->proof.n != strlen(good) || memcmp(a->proof.p, good, a->proof.n) != 0) {
		return call_fail(c, SPOT_DENIED, "", "fake verify: the proof is not of %s", a->ref);
	}
	return SPOT_DONE;
}

static void watch_say(struct cloud *k, struct spot_call *c, struct spot_watch *a)
{
	a->notices = arena_array(c->arena, 1, sizeof(*a->notices));
	a->seen = arena_array(c->arena, 1, sizeof(*a->seen));
	if (k->watch_notice[0] != '\0') {
		a->notices[a->notices_n++] =
		    (struct spot_notice){ .ref = arena_strdup(c->arena, k->watch_notice),
			    .kind = SPOT_NOTICE_INTERRUPTION,
			    .source = "fake-stream",
			    .raw = "said" };
	}
	if (k->watch_gone[0] != '\0') {
		a->seen[0] = cloud_instance(c->arena, cloud_by_ref(k, k->watch_gone));
		a->seen[0].state = SPOT_INSTANCE_GONE;
		a->seen[0].end_cause = SPOT_END_RECLAIM;
		a->seen_n = 1;
	}
	a->gap = k->watch_gap;
	k->watch_notice[0] = k->watch_gone[0] = '\0';
	k->watch_gap = false;
}

/* Holds the call as a long poll does, by coming back to it. */
enum spot_step cloud_watch(void *self, struct spot_call *c, struct spot_watch *a)
{
	struct cloud *k = self;

	if (c->state == NULL) {
		c->state = k;
		k->watch_calls++;
		snprintf(k->watch_cursor, sizeof(k->watch_cursor), "%s", a->cursor);
		if (k->watch_faults > 0) {
			k->watch_faults--;
			return call_fail(c, SPOT_DENIED, "", "fake watch: not allowed");
		}
		if (k->watch_delay_us > 0 && k->watch_notice[0] == '\0' &&
		    k->watch_gone[0] == '\0' && !k->watch_gap) {
			return call_again(c, SPOT_UNAVAILABLE, k->watch_delay_us, "",
			    "fake watch: held");
		}
	}
	watch_say(k, c, a);
	a->next_cursor = arena_printf(c->arena, "c%d", k->watch_calls);
	return SPOT_DONE;
}
