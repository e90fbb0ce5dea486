/*
 * The REST interface: routes over rows. It reads and writes the store and never talks to a cloud.
 * It reaches the engine, which may be another process, only through rows and NOTIFY. Owned by
 * src/spotd, which owns loop and pool too. Nothing in memory is needed after a restart.
 */
#ifndef API_API_H
#define API_API_H

#include "core/spec/spec.h"
#include "core/place/place.h"
#include "io/loop/loop.h"
#include "io/pg/pg.h"

struct api;
struct handout;
struct api_conf {
	const char *address; /* "127.0.0.1" */
	int port; /* 0 = pick one */
	const char *tls_cert, *tls_key; /* paths; NULL = plain */
	int connections_max; /* 0 = from RLIMIT_NOFILE */
	const char *install; /* 8 hex digits */
	const char *version; /* of the program */
	const struct handout *handout; /* programs for nodes; borrowed; NULL = none */
	/* As the engine places jobs, so that a plan says what would be done; its store is below. */
	struct place_policy place;
	/* place of the checkpoint store, for the cost of moves; NULL = unknown */
	const char *store_provider, *store_region;
	/* [checkpoint] store, which must be able to give out what a job mounts; "" = none:
	 * agents store nothing, NULL = not known here */
	const char *store;
	struct class_table classes; /* all zero = the built-in ones */
	/* an agent without us for so long ends its job and machine; told with each poll; 0 =
	 * never */
	int64_t orphan_timeout_us;
	/* a plan or a submit sees the market as of at most so long ago; 0 = 250 ms */
	int64_t market_age_us;
	/* Plans use measured rates that are at most this old; 0 = 1 s. */
	int64_t rates_age_us;
};
/* After a reload of the configuration. */
void api_set_place(struct api *api, const struct place_policy *place);
void api_set_classes(struct api *api, const struct class_table *classes);
void api_set_orphan_timeout(struct api *api, int64_t us);
/* copied */
void api_set_store(struct api *api, const char *store, const char *provider, const char *region);
/* the one before is not used any more */
void api_set_handout(struct api *api, const struct handout *handout);
/* conf and its strings are copied. Fails when the address or the certificate cannot be used. */
NODISCARD enum spot_rc api_new(struct loop *l, struct pg *pg, const struct api_conf *conf,
    struct api **ret, struct spot_err *err);
void api_free(struct api *api); /* NULL accepted; before pg_free and loop_free */
int api_port(const struct api *api);
/* Stops accepting; parked requests are answered, requests under way end, streams are closed. */
void api_drain(struct api *api);
int api_open_connections(const struct api *api);
NODISCARD enum spot_rc api_reload_tls(struct api *api, struct spot_err *err);

/* A fresh bearer token ("spt_" and 64 hex digits) and what is stored of it. For the first token of
 * an installation, which spotd writes with the statement api_token_create. */
#define API_TOKEN_MAX 72
void api_token_make(struct rng *rng, char token[API_TOKEN_MAX], uint8_t hash[32]);
void api_token_hash(const char *token, size_t n, uint8_t hash[32]);

#endif
