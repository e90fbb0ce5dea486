/*
 * CoreWeave inside of the simulation. Its instances are Pods: each is a machine of host.c while its
 * container runs, with the container's environment and SIGTERM as its notice. Below them are
 * servers, which cost money. Also faults of Kubernetes clusters: their API servers, their
 * NodePools, Pods and nodes.
 */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"
#include "sim/faults/faults_coreweave.h"
#include "sim/host/host.h"

#include "cloudsim/coreweave/coreweave.h"
#include "base/text/text.h"

#include <signal.h>

#define NOTE_TOKEN "spotbroker.io/token"
#define LABEL_POOL "spotbroker.io/pool"

/* ---- containers ------------------------------------------------------------------------------ */

struct run {
	struct kubelet_pod *k; /* NULL: the kubelet has heard of its end */
	char id[64]; /* the Pod's uid */
	int status;
	struct loop_timer ended;
	struct run *next;
};
static struct run *runs;
static int pid_next = 1;

static struct run *run_of(const char *id)
{
	struct run *r = runs;

	while (r != NULL && !str_same(r->id, id)) {
		r = r->next;
	}
	return r;
}

static void run_ended(struct loop_timer *t)
{
	struct run *r = container_of(t, struct run, ended);
	struct kubelet_pod *k = STEAL(r->k);

	if (k != NULL) {
		kubelet_program_ended(k, r->status);
	}
}

/* Told in a turn of its own: the kubelet may be in the middle of something. */
static void run_end(struct run *r, int status)
{
	if (r->k == NULL || r->ended.armed) {
		return;
	}
	r->status = status;
	loop_timer_set(&r->ended, 0);
}

static void container_over(const char *id, int code)
{
	struct run *r = run_of(id);

	if (r != NULL) {
		run_end(r, code << 8);
	}
}

static const struct inst *server_under(const struct k8s_obj *pod)
{
	const struct k8s_obj *node =
	    k8s_find(pod->c, K8S_NODE, NULL, k_str(pod->doc, "spec.nodeName"));

	return node != NULL ? node->inst : NULL;
}

bool pod_program_start(struct kubelet_pod *k, const char **argv, const char **env)
{
	const struct inst *i = server_under(k->pod);
	struct run *r = calloc(1, sizeof(*r));
	size_t n = 0;

	assert(r != NULL && i != NULL);
	while (argv[n] != NULL) {
		n++;
	}
	snprintf(r->id, sizeof(r->id), "%s", k->pod->uid);
	r->k = k;
	r->next = runs;
	runs = r;
	loop_timer_init(&r->ended, world.loop, run_ended);
	k->pid = pid_next++;
	trace("cloud the container of Pod %s starts as %s", k->pod->name, r->id);
	host_boot(&(struct host_spec){ .id = r->id,
	    .user_data = str_from(argv[n - 1]),
	    .gpus = i->pool->type->gpus,
	    .gpu = i->pool->type->gpu,
	    .env = env,
	    .over = container_over });
	return true;
}

/* One that is lost with its node may go on unseen; one that its kubelet kills does not. */
void pod_program_signal(struct kubelet_pod *k, int signo)
{
	struct run *r = runs;

	while (r != NULL && r->k != k) {
		r = r->next;
	}
	if (r == NULL) {
		return;
	}
	if (signo == SIGTERM) {
		host_term(r->id);
		return;
	}
	if (k->pod == NULL) {
		host_end(r->id);
	} else {
		host_end_now(r->id);
	}
	run_end(r, SIGKILL);
}

static const struct k8s_obj *pod_on(const struct inst *i)
{
	const struct k8s_obj *node = i->own;

	for (const struct k8s_obj *p = node != NULL ? node->c->objs[K8S_POD] : NULL; p != NULL;
	     p = p->next) {
		if (str_same(k_str(p->doc, "spec.nodeName"), node->name) && !pod_over(p)) {
			return p;
		}
	}
	return NULL;
}

const char *machine_of(const struct inst *i)
{
	const struct k8s_obj *p = i->cloud == CLOUD_COREWEAVE ? pod_on(i) : NULL;

	return p != NULL ? p->uid : i->id;
}

/* ---- the lives of Pods and servers ----------------------------------------------------------- */

#define LIVES_MAX 1024
static struct life {
	char uid[40], token[128];
	const char *state;
	int64_t created_us, running_us, gone_us;
} lives[LIVES_MAX];
static size_t lives_n;
static bool orders_raised;

static struct life *life_of(const char *uid)
{
	for (size_t i = 0; i < lives_n; i++) {
		if (str_same(lives[i].uid, uid)) {
			return &lives[i];
		}
	}
	return NULL;
}

static void life_new(const struct k8s_obj *o, const char *token)
{
	struct life *l = &lives[lives_n++];

	assert(lives_n <= LIVES_MAX);
	*l = (struct life){ .created_us = world_now(), .state = "Pending" };
	snprintf(l->uid, sizeof(l->uid), "%s", o->uid);
	snprintf(l->token, sizeof(l->token), "%s", token);
	trace("cloud Pod %s is made, uid %s", o->name, o->uid);
}

static void life_note(const struct k8s_obj *o, const char *type)
{
	const char *token = json_string_value(
		       json_object_get(k_at(o->doc, "metadata.annotations"), NOTE_TOKEN)),
		   *phase = k_str(o->doc, "status.phase");
	struct life *l;

	if (o->kind->id != K8S_POD || token == NULL) {
		return;
	}
	if (str_same(type, "ADDED")) {
		life_new(o, token);
	}
	l = life_of(o->uid);
	if (l->gone_us == 0 && l->running_us == 0 && str_same(phase, "Running")) {
		l->running_us = world_now();
		l->state = "Running";
	}
	if (l->gone_us == 0 && (str_same(type, "DELETED") || pod_over(o))) {
		l->gone_us = world_now();
		l->state = "over";
		trace("cloud Pod %s is over: %s %s", o->name, type, phase);
	}
}

size_t coreweave_instances_max(void)
{
	return lives_n;
}

static struct cloud_instance life_instance(const struct life *l)
{
	return (struct cloud_instance){ .id = l->uid,
		.ref = l->uid,
		.cloud = "coreweave",
		.token = l->token,
		.state = l->state,
		.ended_by = "",
		.alive = l->gone_us == 0,
		.running = l->gone_us == 0 && l->running_us != 0,
		.launched_us = l->created_us,
		.running_us = l->running_us,
		.gone_us = l->gone_us,
		.over_us = l->gone_us };
}

/* Since when each server is without a Pod of ours; looked at whenever somebody asks. */
static int64_t idle_since(const struct inst *i)
{
	static struct {
		const struct inst *i;
		int64_t idle_us;
	} had[LIVES_MAX];
	size_t k = 0;

	while (k < LIVES_MAX - 1 && had[k].i != NULL && had[k].i != i) {
		k++;
	}
	if (had[k].i == NULL) {
		had[k].i = i;
	}
	if (pod_on(i) != NULL) {
		had[k].idle_us = 0;
	} else if (had[k].idle_us == 0) {
		had[k].idle_us = world_now();
	}
	return had[k].idle_us;
}

size_t coreweave_instances(struct cloud_instance *ret)
{
	size_t n = 0;

	for (size_t k = 0; k < lives_n; k++) {
		ret[n++] = life_instance(&lives[k]);
	}
	for (const struct inst *i = sim.insts; i != NULL; i = i->next) {
		if (i->cloud != CLOUD_COREWEAVE) {
			continue;
		}
		ret[n++] = (struct cloud_instance){ .id = i->id,
			.ref = "",
			.cloud = "coreweave",
			.state = inst_state_name(i),
			.server = true,
			.ended_by = i->ended_by,
			.alive = i->state != INST_GONE && i->state != INST_SHUTTING,
			.running = i->state == INST_RUNNING,
			.launched_us = i->launched_us,
			.running_us = i->running_us,
			.gone_us = i->billed_to_us,
			.idle_us = idle_since(i) };
	}
	return n;
}

bool coreweave_raise(bool alive)
{
	static struct life *raised;
	static int64_t gone_us;

	if (alive && lives_n > 0 && lives[0].gone_us != 0) {
		raised = &lives[0];
		gone_us = raised->gone_us;
		raised->gone_us = 0;
		return true;
	}
	if (!alive && raised != NULL) {
		STEAL(raised)->gone_us = gone_us;
	}
	return false;
}

void cloud_orders_raise(bool open)
{
	orders_raised = open;
}

static size_t pods_of_pool(const struct k8s_obj *pool)
{
	size_t n = 0;

	for (const struct k8s_obj *p = pool->c->objs[K8S_POD]; p != NULL; p = p->next) {
		n += !pod_over(p) &&
		    str_same(json_string_value(
				 json_object_get(k_at(p->doc, "metadata.labels"), LABEL_POOL)),
			pool->name);
	}
	return n;
}

size_t cloud_orders_open(void)
{
	size_t n = orders_raised;

	for (const struct k8s_cluster *c = sim.coreweave->clusters; c != NULL; c = c->next) {
		for (const struct k8s_obj *o = c->zone != NULL ? c->objs[K8S_NODE_POOL] : NULL;
		     o != NULL; o = o->next) {
			int64_t target =
			    str_prefix(o->name, "sb-") ? k_int(o->doc, "spec.targetNodes", 0) : 0;

			n += (size_t)MAX(target - (int64_t)pods_of_pool(o), INT64_C(0));
		}
	}
	return n;
}

/* ---- opening --------------------------------------------------------------------------------- */

void coreweave_open(void)
{
	struct arena *a = arena_new(0);

	json_decref(token_jwks(&sim, a)); /* the key: made once for all seeds */
	arena_free(a);
	for (struct k8s_cluster *c = sim.coreweave->clusters; c != NULL; c = c->next) {
		c->seen = c->zone != NULL ? life_note : NULL;
		c->pull_us = PULL_US;
	}
}

/* As the operator has it: the API token finds the clusters, and gets the first token of the
 * broker's account. */
void coreweave_conf(struct sbuf *b, const char *dir, const json_t *creds)
{
	char key[600];

	snprintf(key, sizeof(key), "%s\n",
	    json_string_value(json_object_get(json_object_get(creds, "coreweave"), "api_token")));
	sbuf_printf(b,
	    "[provider coreweave]\nkind = coreweave\napi_endpoint = "
	    "http://127.0.0.1:%d\napi_token_file = %s\n"
	    "service_account = " K8S_ACCOUNT_BROKER "\nimage = registry.example/node:1\n",
	    cloud_port(&sim, CLOUD_COREWEAVE), private_file(dir, "coreweave.token", key));
}
