/* Answers the rules' questions to the clouds: their instances, their bills, their objects. */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"

#include "cloudsim/aws/aws.h"
#include "cloudsim/sim/cloud.h"
#include "cloudsim/s3/s3.h"
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"

/* Prices of the time before it count too: feeds report the past, and some are silent for long. */
static void bill_of(const struct inst *i, struct cloud_instance *ret)
{
	const struct price_log *l = &i->pool->price[i->side];

	ret->cost_micros = bill_micros(i, &ret->bill_from_us, &ret->bill_to_us);
	ret->free = i->cloud == CLOUD_AWS && i->side == SIDE_SPOT && i->billed_to_us != 0 &&
	    str_same(i->reason_code, "Server.SpotInstanceTermination") &&
	    ret->bill_to_us - ret->bill_from_us < SPOT_US_PER_HOUR;
	if (i->spans_n > 0) {
		ret->bill_to_us = ret->bill_from_us = 0;
	}
	ret->least_micros = INT64_MAX;
	for (size_t k = 0; k < l->n && l->at[k].us < ret->bill_to_us; k++) {
		ret->least_micros = MIN(ret->least_micros, l->at[k].micros);
		ret->most_micros = MAX(ret->most_micros, l->at[k].micros);
	}
}

size_t cloud_instances(struct cloud_instance **ret)
{
	size_t n = 0;
	struct cloud_instance *all =
	    calloc((size_t)sim.inst_seq + coreweave_instances_max() + 1, sizeof(*all));

	assert(all != NULL);
	for (const struct inst *i = sim.insts; i != NULL; i = i->next) {
		if (i->cloud == CLOUD_COREWEAVE || other_is(i)) {
			continue;
		}
		all[n++] = (struct cloud_instance){ .id = i->id,
			.ref = i->cloud == CLOUD_AZURE ? i->name : i->id,
			.cloud = cloud_name(i->cloud),
			.token = cloud_token(i),
			.state = inst_state_name(i),
			.ended_by = i->ended_by,
			.alive = i->state != INST_GONE && i->state != INST_SHUTTING,
			.running = i->state == INST_RUNNING,
			.launched_us = i->launched_us,
			.running_us = i->running_us,
			.gone_us = i->billed_to_us,
			.over_us = i->gone_us,
			.notice_us = i->notice_us,
			.taken_us = i->action_us };
		bill_of(i, &all[n - 1]);
	}
	n += coreweave_instances(all + n);
	*ret = all;
	return n;
}

bool cloud_costs(const char *ref, int64_t micros)
{
	for (const struct inst *i = sim.insts; i != NULL; i = i->next) {
		const struct price_log *l = &i->pool->price[i->side];
		bool had = false;

		for (size_t k = 0; k < l->n && !had; k++) {
			had = l->at[k].micros == micros;
		}
		if (str_same(i->cloud == CLOUD_AZURE ? i->name : i->id, ref) && !had) {
			return false;
		}
	}
	return true;
}

static bool launch_doubles;

void cloud_launch_doubles(bool doubles)
{
	launch_doubles = doubles;
}

size_t cloud_double_launches(void)
{
	json_t *bill = books_bill(&sim);
	size_t n = json_array_size(json_object_get(bill, "double_launches")) + launch_doubles;

	json_decref(bill);
	return n;
}

bool cloud_object(const char *key, const char *sha256)
{
	const struct s3_object *o = s3_find(sim.s3->buckets, key);
	struct arena *arena;
	struct str all = { "", 0 };
	char hex[SHA256_HEX];

	if (o == NULL) {
		return false;
	}
	arena = arena_new(0);
	if (o->file != NULL && !file_get(arena, o->file, &all)) {
		all = (struct str){ "", 0 };
	}
	sha256_hex(all.p, all.n, hex);
	arena_free(arena);
	return strcmp(hex, sha256) == 0;
}
