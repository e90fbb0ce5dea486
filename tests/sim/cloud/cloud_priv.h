/* Shared by the files of this room and the faults: the emulator's state (cloud_control.c) and how
 * its market is made small (account.c). */
#ifndef SIM_CLOUD_PRIV_H
#define SIM_CLOUD_PRIV_H

#include "cloudsim/sim/cloud.h"
#include "base/text/text.h"

extern struct sim sim;

/* coreweave.c: Pods are its instances, and each is a machine of host.c. */
struct cloud_instance;
void coreweave_open(void);
void coreweave_conf(struct sbuf *b, const char *dir, const json_t *creds);
void coreweave_minute(void);
void coreweave_calm(void);
size_t coreweave_instances(struct cloud_instance *ret); /* at most coreweave_instances_max() */
size_t coreweave_instances_max(void);
bool coreweave_raise(bool alive);
/* The launch token of an instance, or at a cloud without tokens its name; NULL: none. */
const char *cloud_token(const struct inst *i);
/* The machine behind an instance of the emulator: the Pod's on it, or itself. */
const char *machine_of(const struct inst *i);
/* cloud_control.c: a file that only we may read; the path stays until the next call. */
const char *private_file(const char *dir, const char *name, const char *text);

/* account.c: a folder of data with few pools, below dir. */
const char *market_small(const char *dir);
void azure_network(void);

/* faults_api.c: clouds that answer wrongly for a while, or just to one request that leaves the
 * daemon. */
void faults_api_minute(void);
void faults_front_minute(void);
void faults_api_calm(void);
struct api_fault {
	const char *cloud, *name, *service, *action, *kind;
	bool after;
	int status;
	const char *code, *body; /* NULL: the emulator's own */
};
void fault_inject(const struct api_fault *l, int64_t times);
/* one of those, drawn; NULL: there is none */
const struct api_fault *fault_find(const struct api_fault *list, size_t n, const char *action);

/* others.c: somebody else's machines in the same accounts. */
void others_come(void);
bool other_is(const struct inst *i);
void others_minute(void);

#define SSH_KEY \
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemoDemoDemo " \
	"spotbroker"

#endif
