/*
 * The API on a private database, for the Python tests beside it. Prints one line of JSON with port,
 * DSN and the first admin token, and serves until standard input ends. Then it prints a line for
 * each notification, so that tests need not poll. Nothing here is product code.
 */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "api/api.h"
#include "api/agent/agent.h"
#include "store/q.h"
#include "harness.h"

#include <fcntl.h>
#include <unistd.h>

#define ENROL_KEY "0123456789abcdef0123456789abcdef"

struct daemon {
	struct loop *loop;
	struct api *api;
	struct loop_fd in;
};

static void input_ended(struct loop_fd *f, int events UNUSED)
{
	struct daemon *d = container_of(f, struct daemon, in);
	char line[64];
	ssize_t n = read(0, line, sizeof(line) - 1);

	if (n > 0 && line[0] == 'd') {
		api_drain(d->api);
		return;
	}
	if (n > 0 && line[0] == 's') { /* "s URI": as [checkpoint] store; "s ?": not known */
		line[n] = '\0';
		line[strcspn(line, "\n")] = '\0';
		api_set_store(d->api, line[2] == '?' ? NULL : line + 2,
		    line[2] == '\0' ? NULL : "aws", "us-east-1");
		printf("%s\n", line);
		fflush(stdout);
		return;
	}
	if (n <= 0) {
		loop_quit(d->loop);
	}
}

static void notification_print(struct pg_listen *l UNUSED, const char *channel, const char *payload)
{
	printf("%s %s\n", channel, payload);
	fflush(stdout);
}

static void first_token(const char *dsn, struct rng *rng, char token[API_TOKEN_MAX])
{
	char sql[400], hex[65];
	uint8_t hash[32];

	api_token_make(rng, token, hash);
	hex_encode(hash, 32, hex);
	snprintf(sql, sizeof(sql),
	    "INSERT INTO api_token (name, role, hash, created_us) VALUES ('root', 'admin', "
	    "'\\x%s', 1)",
	    hex);
	testdb_exec(dsn, sql);
	testdb_exec(dsn,
	    "INSERT INTO install (id, enrol_key, created_us) VALUES ('deadbeef', '" ENROL_KEY
	    "', 1)");
}

int main(int argc, char **argv)
{
	struct testdb *db = testdb_start();
	const char *dsn = testdb_new(db);
	struct pg_conf pc = { .dsn = dsn, .connections = 4, .application = "apid" };
	struct handout *handout = argc > 1 ? handout_read(argv[1]) : NULL;
	struct api_conf conf = { .install = "deadbeef",
		.version = "test",
		.handout = handout,
		.orphan_timeout_us = 899500000,
		.rates_age_us = 1,
		.store_provider = "aws",
		.store_region = "us-east-1",
		.market_age_us = 1 };
	struct daemon d = { 0 };
	struct spot_err err = { 0 };
	char token[API_TOKEN_MAX];
	struct pg_listen notes[2] = { 0 };
	struct rng rng;
	struct pg *pg;

	rng_real_init(&rng);
	d.loop = loop_new(&clock_real, &rng);
	pg = pg_new(d.loop, &pc);
	first_token(dsn, &rng, token);
	place_policy_default(&conf.place);
	if (api_new(d.loop, pg, &conf, &d.api, &err) != SPOT_OK) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	printf("{\"port\": %d, \"dsn\": \"%s\", \"token\": \"%s\"}\n", api_port(d.api), dsn, token);
	fflush(stdout);
	pg_listen(pg, &notes[0], "spot_api", notification_print);
	pg_listen(pg, &notes[1], "spot_engine", notification_print);
	fcntl(0, F_SETFL, O_NONBLOCK);
	loop_fd_init(&d.in, d.loop, input_ended);
	loop_fd_set(&d.in, 0, LOOP_READ);
	loop_run(d.loop);
	pg_listen_stop(pg, &notes[0]);
	pg_listen_stop(pg, &notes[1]);
	loop_fd_stop(&d.in);
	api_free(d.api);
	handout_free(handout);
	pg_free(pg);
	loop_free(d.loop);
	testdb_stop(db);
	return 0;
}
