/* Private to core/hazard: the model's tree and its messages. */
#ifndef CORE_HAZARD_PRIV_H
#define CORE_HAZARD_PRIV_H

#include "core/hazard/hazard.h"
#include "core/rank/rank.h"

enum signal { SIGNAL_NONE = 0, SIGNAL_ADVISOR, SIGNAL_SHARE, SIGNAL_BAND, SIGNAL_ON_DEMAND };
/* From the widest group to the pool itself. */
enum level { LEVEL_PROVIDER = 0, LEVEL_FAMILY, LEVEL_REGION, LEVEL_ZONE, LEVEL_POOL };
#define GROUP_LEVELS LEVEL_POOL

/* The estimate for a pool without a record. */
struct prior {
	double rate, lo, hi; /* per node-hour; lo and hi are the doubt in the conversion */
	enum signal signal;
};
struct prior hazard_prior(const struct offer *o, const struct rank_policy *p);
const char *signal_words(enum signal s);
/* 1 / relative variance of the truth about the prior's rate */
double signal_shape(enum signal s);
/* least weight of the prior, as a share of policy.prior_hours */
double signal_weight(enum signal s);

/* 5 % and 95 % quantiles of Gamma(shape, 1). */
void gamma_interval(double shape, double *ret_lo, double *ret_hi);

struct group {
	int32_t parent; /* index; -1 for a provider */
	enum level level;
	enum signal signal;
	/* the members' evidence of its ratio: reclaims seen, and expected by the signal */
	double o, e;
	double up_o, up_e; /* the same, discounted, for its parent */
	double a, b; /* Gamma(a, b): its ratio before the members' evidence */
	/* its ratio as first estimated; discounts the members' evidence */
	double about;
	double l, r, up_l, up_r; /* launches and refusals, their own and discounted */
	double own_n, own_p; /* launch odds by the groups above: weight and mean */
	/* time of day: score of cos and sin, its information, pools that add to it */
	double score_c, score_s, info_cc, info_ss, info_cs, day_pools;
	double day_factor;
	double odds_n, odds_p; /* launch odds for its members: weight and mean */
};

/* A group's estimate for a pool never used. Most pools are, so these lie close together in
 * memory. */
struct unused {
	/* its ratio; the interval as multiples of the ratio */
	float ratio, shape, shape_now, lo, hi;
	float day_factor;
	float odds_n, odds_p;
	float odds_lo, odds_hi; /* of a launch without a provider's signal */
};

struct leaf {
	int32_t group;
	enum signal signal;
	float rate, lo, hi; /* of the signal */
};

/* A pool that lost a machine lately. */
struct struck {
	uint64_t kin; /* model_kin() */
	const struct offer *offer;
	double age_h;
};

struct hazard_model {
	const struct offer *offers;
	size_t n;
	const struct rank_policy *policy;
	int64_t now_us;
	struct leaf *leaves; /* of each offer */
	uint32_t *used; /* offers with a record */
	size_t used_n;
	struct group *groups; /* parents before their children */
	size_t groups_n, groups_cap;
	uint64_t *keys; /* open addressing: hash of a group, and its index */
	int32_t *slots;
	size_t slots_n; /* power of two */
	/* pool id to offer: index, -1 = none; open addressing; NULL when ids ascend */
	int32_t *ids;
	size_t ids_n;
	struct unused *unused; /* of each group of a zone */
	/* 1 / relative variance of a member's ratio about its group's, estimated */
	double nu[LEVEL_POOL + 1];
	double joint[GROUP_LEVELS]; /* correlation by the level that two pools share */
	struct struck *struck;
	size_t struck_n;
};

struct own {
	double hours, reclaims, launches, refusals;
	double recent_hours, recent_reclaims; /* of them */
	double cluster; /* reclaims that come together, on average, >= 1 */
};
struct own own_of(const struct offer *o);
bool own_any(const struct offer *o);
/* A cache of name hashes by address. */
#define NAMES_NEAR 1024
struct name_near {
	const char *name;
	uint64_t hash;
};
/* Joins n leaves to their groups, creating groups and their parents as needed. The leaves' signals
 * must be set. */
#define JOIN_MAX 64
void model_join(struct arena *a, struct hazard_model *m, struct name_near near[NAMES_NEAR],
    size_t from, size_t n);
void model_ids(struct arena *a, struct hazard_model *m);
/* Fills the evidence that a pool's record gives its group. */
void leaf_up(const struct hazard_model *m, const struct own *own, const struct leaf *leaf,
    double *ret_o, double *ret_e);
/* Widens Gamma(a, b) of a group's ratio to that of a member. */
void diffuse(double nu, double *a, double *b);
/* Fills the ratio of a pool of this group before its own record. up_* is the pool's evidence in the
 * group. */
void leaf_prior(const struct hazard_model *m, const struct group *g, double up_o, double up_e,
    double *ret_a, double *ret_b);
void unused_estimate(struct arena *a, struct hazard_model *m);
/* Fills the launch odds for a pool of this group without a signal and without launches. */
void odds_unused(const struct group *g, struct unused *ret);
/* Returns the model's offer with the same pool id; NULL = none. */
const struct offer *model_find(const struct hazard_model *m, const struct offer *o);
/* Returns the index of the nearest known group of the offer: its own, or one above. -1 if even its
 * provider is unknown. */
int32_t model_group(const struct hazard_model *m, const struct offer *o);
/* Equal for spot pools of one provider, region and family. */
uint64_t model_kin(const struct offer *o);
void siblings_collect(struct arena *a, struct hazard_model *m);
/* Fills the rise of a pool after the reclaims of its siblings. */
void siblings_rise(const struct hazard_model *m, const struct offer *o, struct rise *ret);
void joint_estimate(struct hazard_model *m);
void odds_up(struct hazard_model *m);
void odds_down(struct hazard_model *m);
void odds_leaf_up(const struct own *own, double *ret_l, double *ret_r);
void day_add(struct group *g, const struct offer_record *r);
void day_estimate(struct hazard_model *m);

#endif
