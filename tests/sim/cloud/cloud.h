/* The emulated clouds inside of the simulation, and their events. */
#ifndef SIM_CLOUD_H
#define SIM_CLOUD_H

#include "base/base.h"
#include "base/text/text.h"

#define SIM_BUCKET "spot-sim"

/* Before the seed is chosen: reads the market's data, once for all seeds. */
void cloud_open(const char *dir);
/* Identities and chances of this seed. */
void cloud_seed(uint64_t seed);
/* account.c: which clouds the daemon has, by name, AWS always. false: there is no such cloud. */
bool clouds_choose(const char *list);
const char *clouds_of_seed(uint64_t seed);
bool cloud_is_here(const char *name);
/* Files and environment that the daemon finds; returns its configuration's [provider] sections. */
const char *cloud_conf(const char *dir);
/* After that: objects and volumes are files below dir. Other seeds run at the same time and have
 * files of the same names. */
void cloud_files(const char *dir);
/* Each minute: draws faults. */
void cloud_minute(void);
/* Ends all faults: stock is back, lies are over. */
void cloud_calm(void);

/* Around the service of a request: a list may lack an instance, once. */
void cloud_list_begins(const char *url, struct str body);
void cloud_list_ends(void);
/* It runs, and each list of the last minutes that was whole had it. */
bool cloud_lists_all(const char *ref);
/* The machine has switched itself off. */
void cloud_guest_off(const char *id);
/* A program that did not stop for a notice; NULL = it did. */
void cloud_unheeded(const char *job, const char *id);
/* Returns the paid things beside instances: disks, cards, addresses, groups, orders, uploads. A
 * JSON array; the caller frees it. */
json_t *cloud_left(void);
void cloud_leave(bool something); /* for breaks.c */
/* Somebody else's machines in the same accounts: still as they were. */
void cloud_check_others(void);
/* For breaks.c: one of them is ended, and lives again with the next call. */
void cloud_end_other(bool end);
/* Machines with our mark that no row knows (others.c): nothing is left to be done with them. */
bool others_settled(void);
void others_check_end(void);
void others_lose(bool lose); /* for breaks.c */
/* For breaks.c: one instance that has ended lives; the next call ends it again. false = there is
 * none. */
/* faults_api.c: a request leaves the daemon; its answer may be a lie. */
void faults_api_act(const char *method, const char *url, struct str body);
void cloud_seem_young(bool young); /* all were launched a day later than they were; for breaks.c */
bool cloud_raise(bool alive);

struct inst;
/* One that runs, drawn; NULL = there is none. */
struct inst *cloud_any(bool spot);
void cloud_post(const char *path, json_t *body); /* the emulator's control */

struct cloud_instance {
	const char *id, *cloud, *token, *state, *ended_by;
	const char *ref; /* the end of a row's ref */
	bool server; /* under Pods that are instances: no row's; costs money */
	int64_t idle_us; /* a server: since when no Pod of ours is on it; 0 = there is one */
	bool alive; /* pending, running, stopping: it costs money or may do so */
	bool running;
	int64_t launched_us, running_us, gone_us, cost_micros;
	/* since when it is told that the cloud takes it; 0 = it is not, or (CoreWeave) that is
	 * not known here */
	int64_t notice_us;
	int64_t taken_us; /* by when, of those with notice_us */
	/* gone_us: it costs nothing any more; then nothing is left of it either. 0 = not yet */
	int64_t over_us;
	/* The cloud's bill: cost_micros of it, at prices from least to most an hour. free: EC2 does
	 * not bill its first hour. All are 0 for an instance that was stopped and started again,
	 * since it has more than one interval. */
	int64_t bill_from_us, bill_to_us, least_micros, most_micros;
	bool free;
};
/* A launch's outcome was written down as unknown: its machine may end at once (unheard_end). */
void cloud_launch_unknown(void);
size_t cloud_instances(struct cloud_instance **ret); /* the caller frees */
/* Orders of machines beyond the Pods that want them. */
size_t cloud_orders_open(void);
void cloud_orders_raise(bool open); /* for breaks.c */
size_t cloud_double_launches(void);
void cloud_launch_doubles(bool doubles); /* for breaks.c */
/* A machine of that ref had this price an hour, once or always. True where there is no such
 * machine. */
bool cloud_costs(const char *ref, int64_t micros);
/* An object with these bytes: their SHA-256, in hex. */
bool cloud_object(const char *key, const char *sha256);

#endif
