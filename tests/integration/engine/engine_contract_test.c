/* Providers' facts: identity at enrolment, streams, leftovers. Late refusals and quotas are in
 * engine_quota_test.c. */
#include "engine_world.h"
#include "base/crypto/crypto.h"

#define URL "http://127.0.0.1:1"

/* ---- identity -------------------------------------------------------------------------------- */

static const char *nonce_of(struct world *w, int64_t node)
{
	static const uint8_t key[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	static char out[16];
	uint8_t mac[SHA256_BYTES], sum[SHA256_BYTES];
	char hex[SHA256_HEX], sql[80];
	const char *token;

	snprintf(sql, sizeof(sql), "SELECT token FROM node WHERE id = %" PRId64, node);
	token = world_text(w, sql);
	hmac_sha256(key, sizeof(key), token, strlen(token), mac);
	hex_encode(mac, sizeof(mac), hex);
	sha256(hex, strlen(hex), sum);
	snprintf(out, sizeof(out), "%010" PRIu32,
	    (uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3]);
	return out;
}

/* Writes the request of the agent of `boot`, as the API does. ref NULL = no proof. */
static void agent_ask(struct world *w, int64_t node, const char *boot, const char *ref)
{
	char proof[400] = "{}", hex[SHA256_HEX];

	if (ref != NULL) {
		snprintf(proof, sizeof(proof),
		    "{\"kind\":\"fake\",\"ref\":\"%s\",\"audience\":\"" URL "\",\"nonce\":\"%s\"}",
		    ref, nonce_of(w, node));
	}
	sha256_hex(proof, strlen(proof), hex);
	world_sql(w,
	    "INSERT INTO enrol_proof (node_id, boot_id, sha256, proof, asked_us) VALUES (%" PRId64
	    ", '%s', '%s', '%s', 1) ON CONFLICT DO NOTHING; NOTIFY spot_engine",
	    node, boot, hex, proof);
}

/* Makes a world with one node, which boots and waits for its agent. */
static int64_t booting_world(struct world *w)
{
	world_reset(w, true);
	w->cloud.verifies = true;
	w->agents = false;
	w->conf.boot_timeout_us = 20 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until_node(w, "BOOTING");
	return world_int(w, "SELECT max(id) FROM node");
}

static void test_a_good_proof_is_verified_and_its_text_forgotten(void **state)
{
	struct world *w = *state;
	int64_t node = booting_world(w);

	agent_ask(w, node, "b1", "i-1");
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'verified'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM enrol_proof WHERE proof = ''"), 1);
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'IDENTITY_VERIFIED'"),
	    1);
	/* Asked again, nothing is asked of the provider again. */
	agent_ask(w, node, "b1", "i-1");
	world_for(w, 200);
	assert_int_equal(w->cloud.verify_calls, 1);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'BOOTING'"), 1);
}

static void test_a_stolen_token_without_proof_is_denied_and_the_node_replaced(void **state)
{
	struct world *w = *state;
	int64_t node = booting_world(w);

	agent_ask(w, node, "thief", NULL);
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'denied'");
	assert_int_equal(w->cloud.verify_calls, 0);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE end_cause = 'identity' AND state = 'GONE'");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE state = 'BOOTING' AND id > 1");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'ENROL_DENIED' AND node_id "
			     "= 1"
			     " AND why LIKE '%sent nothing that proves%'"),
	    1);
	/* The pool is not to blame. */
	assert_int_equal(world_int(w, "SELECT count(*) FROM pool_cool"), 0);
}

static void test_a_foreign_proof_is_denied_with_the_providers_words(void **state)
{
	struct world *w = *state;
	int64_t node = booting_world(w);

	agent_ask(w, node, "thief", "i-99");
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE end_cause = 'identity'");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM event WHERE event = 'ENROL_DENIED' AND why LIKE "
			     "'%the proof is not of i-1%'"),
	    1);
	assert_int_equal(w->cloud.verify_calls, 1);
}

static void test_a_verified_node_is_not_ended_by_somebody_elses_proof(void **state)
{
	struct world *w = *state;
	int64_t node = booting_world(w);

	agent_ask(w, node, "b1", "i-1");
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'verified'");
	agent_ask(w, node, "thief", "i-99");
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'denied'");
	world_for(w, 200);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'BOOTING'"), 1);
}

static void test_a_proof_that_cannot_be_checked_waits_with_words_and_is_retried(void **state)
{
	struct world *w = *state;
	int64_t node = booting_world(w);

	w->cloud.verify_faults = 1;
	agent_ask(w, node, "b1", "i-1");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM enrol_proof WHERE verdict = '' AND why LIKE '%no keys%'");
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'verified'");
	assert_int_equal(w->cloud.verify_calls, 2);
}

/* Our account lacks a permission: no reason to end a machine. */
static void test_a_refusal_of_our_own_request_is_no_denial_of_the_proof(void **state)
{
	struct world *w = *state;
	int64_t node = booting_world(w);

	w->cloud.verify_rc = SPOT_DENIED;
	agent_ask(w, node, "b1", "i-1");
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = '' AND why <> ''");
	w->cloud.verify_rc = SPOT_OK;
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'verified'");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE state = 'BOOTING'"), 1);
}

static void test_a_proof_waits_for_the_look_up_of_a_lost_launch(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.verifies = w->cloud.hide = true;
	w->agents = false;
	w->cloud.lose_replies = 1000;
	w->conf.boot_timeout_us = 20 * SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM node WHERE launch_sent_us IS NOT NULL AND ref IS NULL");
	agent_ask(w, 1, "b1", "i-1");
	world_for(w, 200);
	assert_int_equal(w->cloud.verify_calls, 0);
	assert_int_equal(world_int(w, "SELECT count(*) FROM enrol_proof WHERE verdict = ''"), 1);
	w->cloud.hide = false;
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'verified'");
}

static void test_an_engine_that_dies_in_the_middle_judges_after_its_restart(void **state)
{
	struct world *w = *state;
	int64_t node = booting_world(w);

	w->cloud.verify_faults = 1;
	agent_ask(w, node, "b1", "i-1");
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE claimed_by <> ''");
	world_kill(w);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'verified'");
}

static void test_identity_off_takes_the_token_alone(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->cloud.verifies = true;
	w->agents = false;
	w->identity_off = "fake";
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until_node(w, "BOOTING");
	agent_ask(w, 1, "b1", NULL);
	world_until(w, LIMIT, "SELECT count(*) FROM enrol_proof WHERE verdict = 'waived'");
	assert_int_equal(w->cloud.verify_calls, 0);
}

/* ---- clouds that vouch for nothing ----------------------------------------------------------- */

#define WAIVED "SELECT count(*) FROM enrol_proof WHERE verdict = 'waived'"

/* A node of such a cloud that boots; its agent, which asks from address, is held as long as nothing
 * is listed. */
static struct machine *held_machine(struct world *w, const char *address)
{
	world_reset(w, true);
	w->agents = false;
	w->conf.boot_timeout_us = 60 * SPOT_US_PER_S;
	w->conf.sweep_us = 60 * SPOT_US_PER_S; /* nobody waits for its next turn */
	w->conf.list_lag_us = 60 * SPOT_US_PER_S;
	w->conf.orphan_end = false;
	w->cloud.hide = true;
	world_pool(w, "z1", "a1", "on_demand", 1000000);
	world_start(w);
	world_job(w, "{}");
	world_until_node(w, "BOOTING");
	agent_ask(w, 1, "b1", NULL);
	world_sql(w, "UPDATE enrol_proof SET peer = '%s'; NOTIFY spot_engine", address);
	world_until(w, LIMIT,
	    "SELECT count(*) FROM enrol_proof WHERE why = 'no list of the account has shown it "
	    "yet'");
	return &w->cloud.list[0];
}

static void test_a_machine_that_nobody_vouches_for_is_listed_before_its_token_is_believed(
    void **state)
{
	struct world *w = *state;

	(void)held_machine(w, "127.0.0.1:1");
	assert_int_equal(world_int(w, WAIVED), 0);
	w->cloud.hide = false;
	world_until(w, LIMIT, WAIVED);
	assert_int_equal(world_int(w, "SELECT count(*) FROM node WHERE listed_us > 0"), 1);
}

/* Ours had died; the agent that came was on the second machine of its launch, which no list had
 * shown. */
static void test_while_lists_lack_our_machine_no_token_is_believed(void **state)
{
	struct world *w = *state;
	struct machine *ours = held_machine(w, "127.0.0.1:1");

	ours->lacks = 100000;
	w->cloud.hide = false;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM enrol_proof WHERE why = 'lists of the account lack it now'");
	assert_int_equal(world_int(w, WAIVED), 0);
	ours->lacks = 0;
	world_until(w, LIMIT, WAIVED);
}

/* The list with ours was older than the question: meanwhile ours might have gone. */
static void test_a_list_from_before_it_asked_vouches_for_nobody(void **state)
{
	struct world *w = *state;

	(void)held_machine(w, "127.0.0.1:1");
	world_sql(w, "UPDATE enrol_proof SET asked_us = %" PRId64, world_us() + 30 * SPOT_US_PER_S);
	w->cloud.hide = false;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM enrol_proof WHERE why = 'no list since it asked has shown that "
	    "ours is there'");
	assert_int_equal(world_int(w, WAIVED), 0);
	/* As if the next look came half a minute later. */
	world_sql(w, "UPDATE enrol_proof SET asked_us = asked_us - 30000000; NOTIFY spot_engine");
	world_until(w, LIMIT, WAIVED);
}

static void test_while_its_launch_has_a_second_machine_no_token_is_believed(void **state)
{
	struct world *w = *state;
	struct machine *ours, *second;

	ours = held_machine(w, "127.0.0.1:1");
	second = cloud_add(&w->cloud, "x-second", ours->token, false);
	/* A name of ours tells when it was launched, by a clock that was ahead then (seed 134491):
	 * no reason to wait for that time. */
	second->created_us = world_us() + 9000 * SPOT_US_PER_S;
	w->cloud.hide = false;
	world_until(w, LIMIT,
	    "SELECT count(*) FROM enrol_proof WHERE why = 'its launch made a second machine, which "
	    "is ended first'");
	/* The machine that the row names is told by its address. */
	world_until(w, LIMIT, "SELECT count(*) FROM node WHERE ip <> ''");
	world_sql(w,
	    "INSERT INTO enrol_proof (node_id, boot_id, sha256, proof, peer, asked_us) SELECT 1, "
	    "'b2', repeat('0', 64), '{}', "
	    "ip || ':55', 1 FROM node; NOTIFY spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) FROM enrol_proof WHERE verdict = 'waived' AND boot_id = 'b2'");
	assert_int_equal(world_int(w, WAIVED), 1);
	w->conf.orphan_end = true;
	w->conf.list_lag_us = 1;
	w->conf.sweep_us = SPOT_US_PER_S / 10;
	engine_reload(w->engine, &w->conf);
	world_until(w, LIMIT, "SELECT count(*) = 2 FROM enrol_proof WHERE verdict = 'waived'");
	assert_true(second->terminates >= 1);
	assert_int_equal(ours->terminates, 0);
}

/* Lists lag: the second machine may come before any shows it. One that has booted again is no
 * second one. */
static void test_two_machines_with_one_token_wait_until_lists_tell_them_apart(void **state)
{
	struct world *w = *state;
	struct machine *ours = held_machine(w, "127.0.0.1:1"), *second;

	world_sql(w,
	    "INSERT INTO enrol_proof (node_id, boot_id, sha256, proof, peer, asked_us) SELECT 1, "
	    "b, repeat('0', 64), '{}', p, 0 FROM "
	    "(VALUES ('k1.h1', '127.0.0.1:1'), ('k3.h1', '127.0.0.1:1'), ('k2.h2', '127.0.0.2:1')) "
	    "v (b, p); "
	    "DELETE FROM enrol_proof WHERE boot_id = 'b1'; "
	    "UPDATE enrol_proof SET asked_us = %" PRId64 "; NOTIFY spot_engine",
	    world_us());
	w->cloud.hide = false;
	world_until(w, LIMIT,
	    "SELECT count(*) = 3 FROM enrol_proof WHERE why LIKE 'two machines presented the "
	    "token%%'");
	assert_int_equal(world_int(w, WAIVED), 0);
	second = cloud_add(&w->cloud, "x-second", ours->token, false);
	world_until(w, LIMIT,
	    "SELECT count(*) = 3 FROM enrol_proof WHERE why = 'its launch made a second machine, "
	    "which is ended first'");
	/* It goes on for a while after its end: its requests look the same then. */
	world_sql(w,
	    "UPDATE enrol_proof SET asked_us = asked_us + 30000000 WHERE boot_id = 'k2.h2'");
	w->conf.orphan_end = true;
	w->conf.list_lag_us = 1;
	w->conf.sweep_us = SPOT_US_PER_S / 10;
	engine_reload(w->engine, &w->conf);
	world_until(w, LIMIT, "SELECT count(*) FROM orphan WHERE gone_us IS NOT NULL");
	assert_int_equal(world_int(w,
			     "SELECT count(*) FROM enrol_proof WHERE verdict = 'waived' AND "
			     "boot_id LIKE '%%.h1'"),
	    0);
	world_sql(w,
	    "UPDATE enrol_proof SET asked_us = asked_us - 30000000 WHERE boot_id = 'k2.h2'; NOTIFY "
	    "spot_engine");
	world_until(w, LIMIT,
	    "SELECT count(*) = 2 FROM enrol_proof WHERE verdict = 'waived' AND boot_id LIKE "
	    "'%%.h1'");
	assert_true(second->terminates >= 1);
	assert_int_equal(ours->terminates, 0);
}

#define T(f) cmocka_unit_test(f)
/* An argument runs only the tests whose names contain it. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_a_good_proof_is_verified_and_its_text_forgotten),
		T(test_a_stolen_token_without_proof_is_denied_and_the_node_replaced),
		T(test_a_foreign_proof_is_denied_with_the_providers_words),
		T(test_a_verified_node_is_not_ended_by_somebody_elses_proof),
		T(test_a_proof_that_cannot_be_checked_waits_with_words_and_is_retried),
		T(test_a_refusal_of_our_own_request_is_no_denial_of_the_proof),
		T(test_a_proof_waits_for_the_look_up_of_a_lost_launch),
		T(test_an_engine_that_dies_in_the_middle_judges_after_its_restart),
		T(test_identity_off_takes_the_token_alone),
		T(test_a_machine_that_nobody_vouches_for_is_listed_before_its_token_is_believed),
		T(test_while_lists_lack_our_machine_no_token_is_believed),
		T(test_a_list_from_before_it_asked_vouches_for_nobody),
		T(test_while_its_launch_has_a_second_machine_no_token_is_believed),
		T(test_two_machines_with_one_token_wait_until_lists_tell_them_apart),
	};

	return WORLD_TESTS(argc, argv, tests);
}
