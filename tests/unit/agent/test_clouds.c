/* Answers of the metadata services of Google Cloud and Azure, and the next request after each. */
#include "base/base.h"
#include "unit.h"

#include "agent/agent.h"
#include "agent/notice/notice_priv.h"
#include "base/text/text.h"

#include <stdlib.h>
#include <unistd.h>

#define NOW INT64_C(1767225600000000) /* 2026-01-01T00:00:00Z */
#define S SPOT_US_PER_S

/* ---- Google Cloud ---------------------------------------------------------------------------- */

static void a_value_is_news_once(void **state)
{
	struct gcp_key k = { 0 };

	(void)state;
	assert_true(notice_gcp_answer(&k, 10 * S, "a1", STR_LIT("FALSE")));
	assert_string_equal(k.value, "FALSE");
	assert_string_equal(k.etag, "a1");
	assert_int_equal(k.next_us, 10 * S);
	k.started_us = 10 * S;
	/* the server's own timeout */
	assert_false(notice_gcp_answer(&k, 70 * S, "a1", STR_LIT("FALSE")));
	assert_int_equal(k.next_us, 70 * S);
	assert_true(notice_gcp_answer(&k, 71 * S, "a2", STR_LIT("TRUE\r\n")));
	assert_string_equal(k.value, "TRUE");
	assert_string_equal(k.etag, "a2");
}

static void a_server_that_does_not_wait_is_asked_once_a_second(void **state)
{
	struct gcp_key k = { .etag = "a1", .value = "NONE", .started_us = 5 * S, .waited = true };

	(void)state;
	notice_gcp_answer(&k, 5 * S + 100, "a1", STR_LIT("NONE"));
	assert_int_equal(k.next_us, 6 * S + 100);
	k.started_us = 7 * S;
	notice_gcp_answer(&k, 7 * S + 100, "a2", STR_LIT("NONE")); /* nor one with ever new etags */
	assert_int_equal(k.next_us, 8 * S + 100);
	k.started_us = 9 * S;
	notice_gcp_answer(&k, 9 * S + 100, "a3", STR_LIT("TRUE")); /* it changed: at once */
	assert_int_equal(k.next_us, 9 * S + 100);
}

static void an_etag_that_cannot_go_into_a_url_is_none(void **state)
{
	char longer[200] = "";
	const char *const etags[] = { "", "a b", "a&alt=json", "a\"", longer };

	(void)state;
	memset(longer, 'e', sizeof(longer) - 1);
	for (size_t i = 0; i < ARRAY_LEN(etags); i++) {
		struct gcp_key k = { .etag = "old" };

		notice_gcp_answer(&k, 3 * S, etags[i], STR_LIT("NONE"));
		assert_string_equal(k.etag, "");
		assert_int_equal(k.next_us, 4 * S);
	}
}

static void after_a_fault_it_begins_anew_and_soon(void **state)
{
	struct gcp_key k = { .etag = "a1", .value = "FALSE" };
	int64_t wait = S / 10;

	(void)state;
	for (int i = 0; i < 20; i++) {
		notice_gcp_fault(&k, 9 * S);
		assert_int_equal(k.next_us, 9 * S + MIN(wait, S));
		wait *= 2;
	}
	assert_string_equal(k.etag, "");
	/* the earlier answer still holds */
	assert_false(notice_gcp_answer(&k, 10 * S, "b1", STR_LIT("FALSE")));
	notice_gcp_fault(&k, 11 * S);
	assert_int_equal(k.next_us, 11 * S + S / 10);
}

/* ---- Azure ----------------------------------------------------------------------------------- */

#define EVENT(id, type, resources, status, before) \
	"{\"EventId\":\"" id "\",\"EventType\":\"" type \
	"\",\"ResourceType\":\"VirtualMachine\",\"Resources\":" resources \
	",\"EventStatus\":\"" status "\",\"NotBefore\":\"" before "\"}"
#define DOCUMENT(events) "{\"DocumentIncarnation\":7,\"Events\":[" events "]}"

static size_t events_of(const char *text, struct azure_event ret[AZURE_EVENTS_MAX])
{
	size_t n = 99;

	assert_true(notice_azure_events(str_from(text), "VM-1", NOW, ret, &n));
	return n;
}

static void an_event_of_this_machine_gives_its_time(void **state)
{
	struct azure_event e[AZURE_EVENTS_MAX];

	(void)state;
	assert_int_equal(events_of(DOCUMENT(EVENT("A", "Preempt", "[\"vm-1\"]", "Scheduled",
				       "Thu, 01 Jan 2026 00:00:30 GMT")),
			     e),
	    1);
	assert_string_equal(e[0].id, "A");
	assert_int_equal(e[0].kind, NOTICE_INTERRUPTION);
	assert_int_equal(e[0].deadline_wall_us, NOW + 30 * S);
	assert_true(e[0].alone);
}

static void a_started_event_or_an_odd_time_means_now(void **state)
{
	struct azure_event e[AZURE_EVENTS_MAX];

	(void)state;
	assert_int_equal(events_of(DOCUMENT(EVENT("A", "Terminate", "[\"VM-1\"]", "Started",
				       "") "," EVENT("B", "Preempt", "[\"VM-1\"]", "Scheduled",
				       "2026-01-01T00:00:30Z") "," EVENT("C", "Preempt",
				       "[\"VM-1\"]", "Scheduled", "")),
			     e),
	    3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(e[i].deadline_wall_us, NOW);
	}
}

static void events_of_others_are_left_out_and_shared_ones_marked(void **state)
{
	struct azure_event e[AZURE_EVENTS_MAX];

	(void)state;
	assert_int_equal(events_of(DOCUMENT(EVENT("A", "Preempt", "[\"vm-2\"]", "Scheduled",
				       "") "," EVENT("B", "Preempt", "[\"vm-2\",\"vm-1\"]",
				       "Scheduled", "") "," EVENT("C", "Preempt", "[]", "Scheduled",
				       "") "," EVENT("D", "Preempt", "\"vm-1\"", "Scheduled",
				       "") "," EVENT("", "Preempt", "[\"vm-1\"]", "Scheduled", "")),
			     e),
	    1);
	assert_string_equal(e[0].id, "B");
	assert_false(e[0].alone);
}

static void types_tell_what_follows(void **state)
{
	struct azure_event e[AZURE_EVENTS_MAX];

	(void)state;
	assert_int_equal(events_of(DOCUMENT(EVENT("A", "Freeze", "[\"vm-1\"]", "Scheduled",
				       "") "," EVENT("B", "Reboot", "[\"vm-1\"]", "Scheduled",
				       "") "," EVENT("C", "Redeploy", "[\"vm-1\"]", "Scheduled",
				       "") "," EVENT("D", "Evaporate", "[\"vm-1\"]", "Scheduled",
				       "")),
			     e),
	    4);
	assert_int_equal(e[0].kind, -1);
	assert_int_equal(e[1].kind, NOTICE_MAINTENANCE);
	assert_int_equal(e[2].kind, NOTICE_MAINTENANCE);
	assert_int_equal(e[3].kind, -1);
}

static void text_that_is_no_document_is_refused(void **state)
{
	static const char *const texts[] = { "", "[]", "{}", "<html>",
		"{\"DocumentIncarnation\":1}", "{\"DocumentIncarnation\":\"1\",\"Events\":[]}",
		"{\"Events\":[]}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct azure_event e[AZURE_EVENTS_MAX];
		size_t n;

		assert_false(notice_azure_events(str_from(texts[i]), "vm", NOW, e, &n));
	}
}

static void more_events_than_fit_are_cut(void **state)
{
	struct azure_event e[AZURE_EVENTS_MAX];
	char text[8192] = "{\"DocumentIncarnation\":7,\"Events\":[";

	(void)state;
	for (int i = 0; i < 40; i++) {
		size_t n = strlen(text);

		(void)snprintf(text + n, sizeof(text) - n,
		    "%s{\"EventId\":\"E%d\",\"EventType\":\"Preempt\",\"Resources\":[\"vm-1\"]}",
		    i > 0 ? "," : "", i);
	}
	(void)snprintf(text + strlen(text), 8, "]}");
	assert_int_equal(events_of(text, e), AZURE_EVENTS_MAX);
}

/* ---- proofs ---------------------------------------------------------------------------------- */

static void the_nonce_is_ten_digits_of_the_tokens_hash(void **state)
{
	char nonce[11];

	(void)state;
	identity_nonce("abc", nonce); /* FIPS 180: ba7816bf 8f01cfea ... */
	assert_string_equal(nonce, "3128432319");
	identity_nonce("token-2", nonce);
	assert_int_equal(strlen(nonce), 10);
	assert_int_equal(strspn(nonce, "0123456789"), 10);
}

static void token_write(const char *path, const char *text)
{
	assert_int_equal(file_write(path, str_from(text), 0600, false, NULL), SPOT_OK);
}

static void a_proof_of_more_than_five_minutes_is_fetched_anew(void **state)
{
	static struct agent a;
	static char provider[] = "coreweave";
	char path[] = "/tmp/test-agent-token-XXXXXX";
	int fd = mkstemp(path);
	const json_t *proof;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	(void)setenv("SPOT_IDENTITY_TOKEN_FILE", path, 1);
	a.boot.provider = provider;
	a.now_us = 1000 * S;
	token_write(path, "first\n");
	assert_true(identity_ready(&a));
	proof = a.enrol.identity.proof;
	assert_string_equal(json_string_value(json_object_get(proof, "kind")), "kubernetes");
	assert_string_equal(json_string_value(json_object_get(proof, "token")), "first");
	token_write(path, "second");
	a.now_us += 299 * S;
	assert_true(identity_ready(&a));
	assert_string_equal(json_string_value(json_object_get(a.enrol.identity.proof, "token")),
	    "first");
	a.now_us += 2 * S;
	assert_true(identity_ready(&a));
	assert_string_equal(json_string_value(json_object_get(a.enrol.identity.proof, "token")),
	    "second");
	(void)unlink(path);
	a.now_us += 400 * S;
	assert_true(identity_ready(&a)); /* without one it enrols all the same */
	assert_null(a.enrol.identity.proof);
	identity_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_news_once),
		cmocka_unit_test(a_server_that_does_not_wait_is_asked_once_a_second),
		cmocka_unit_test(an_etag_that_cannot_go_into_a_url_is_none),
		cmocka_unit_test(after_a_fault_it_begins_anew_and_soon),
		cmocka_unit_test(an_event_of_this_machine_gives_its_time),
		cmocka_unit_test(a_started_event_or_an_odd_time_means_now),
		cmocka_unit_test(events_of_others_are_left_out_and_shared_ones_marked),
		cmocka_unit_test(types_tell_what_follows),
		cmocka_unit_test(text_that_is_no_document_is_refused),
		cmocka_unit_test(more_events_than_fit_are_cut),
		cmocka_unit_test(the_nonce_is_ten_digits_of_the_tokens_hash),
		cmocka_unit_test(a_proof_of_more_than_five_minutes_is_fetched_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
