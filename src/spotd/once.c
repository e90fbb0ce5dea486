/* Statements that are waited for, before the daemon's loop runs. */
#include "base/base.h"
#include "api/api.h"
#include "base/crypto/crypto.h"
#include "spotd/daemon.h"
#include "store/store.h"
#include "store/q.h"

void once_init(struct once *o, const char *dsn)
{
	rng_real_init(&o->rng);
	o->loop = loop_new(&clock_real, &o->rng);
	o->pg = pg_new(o->loop,
	    &(struct pg_conf){ .dsn = dsn, .connections = 1, .application = "spotd start" });
}

void once_fini(struct once *o)
{
	pg_free(o->pg);
	loop_free(o->loop);
}

void once_done(struct op *op)
{
	(void)op; /* its state is what is waited for */
}

enum spot_rc once_wait(struct loop *l, struct op *op, struct spot_err *err)
{
	while (op->state != OP_IDLE) {
		(void)loop_turn(l, SPOT_US_PER_S);
	}
	if (op->rc != SPOT_OK) {
		*err = op->err;
		err->rc = op->rc;
	}
	return op->rc;
}

enum spot_rc token_create(const char *dsn, const char *name, const char *role, char token[],
    struct spot_err *err)
{
	struct once o;
	struct pg_req req = { 0 };
	uint8_t hash[32];
	enum spot_rc rc;

	once_init(&o, dsn);
	api_token_make(&o.rng, token, hash);
	q_api_token_create(o.pg, &req,
	    &(struct q_api_token_create){ .name = name,
		.role = role,
		.team = "",
		.hash = { (const char *)hash, sizeof(hash) },
		.at_us = loop_wall_us(o.loop),
		.actor = "spotd" },
	    once_done);
	rc = once_wait(o.loop, &req.op, err);
	if (rc == SPOT_CONFLICT) {
		rc = err_set(err, rc,
		    "token '%s' exists already (revoke it with 'spotctl token rm'), or role '%s' "
		    "is none of admin, lead, engineer, viewer, service",
		    name, role);
	}
	pg_req_fini(&req);
	once_fini(&o);
	return rc;
}

enum spot_rc schema_up_to_date(const char *dsn, bool migrate, struct spot_err *err)
{
	if (!migrate) {
		return migrate_check(dsn, migrations_all, migrations_all_n, err);
	}
	return migrate_run(dsn, NULL, migrations_all, migrations_all_n,
	    clock_real.wall_us(&clock_real), NULL, err);
}
