/* EventBridge's default bus: the kinds of events that a rule of the account takes, in the vendor's
 * form (EC2 User Guide: spot-instance-termination-notices, rebalance-recommendations,
 * monitoring-instance-state-changes, monitor-interruptible-cr). Delivered at least once:
 * /aws/events {"twice": true}. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

static const struct {
	const char *type, *detail_type, *state;
} kinds[] = {
	{ "rebalance", "EC2 Instance Rebalance Recommendation", NULL },
	{ "notice", "EC2 Spot Instance Interruption Warning", NULL },
	{ "launched", "EC2 Instance State-change Notification", "pending" },
	{ "running", "EC2 Instance State-change Notification", "running" },
	{ "shutting_down", "EC2 Instance State-change Notification", "shutting-down" },
	{ "stopped", "EC2 Instance State-change Notification", "stopped" },
	{ "terminated", "EC2 Instance State-change Notification", "terminated" },
};

#define LENT_TYPE "EC2 Capacity Reservation Instance Interruption Warning"

static json_t *event_doc(struct inst *i, size_t k)
{
	bool change = kinds[k].state != NULL, warning = str_same(kinds[k].type, "notice"),
	     lent = warning && i->lent;
	json_t *detail = json_pack("{s:s}", "instance-id", i->id);
	char id[33], at[TIME_TEXT_MAX];

	rng_hex(&i->sim->rng, id, 16);
	if (change) {
		json_object_set_new(detail, "state", json_string(kinds[k].state));
	}
	if (warning) {
		json_object_set_new(detail, "instance-action", json_string(inst_interruption(i)));
	}
	if (lent) {
		json_object_set_new(detail, "instance-termination-time",
		    json_string(format_time_s(i->action_us, at)));
		json_object_set_new(detail, "azId", json_string(i->pool->zone->id));
	}
	/* A spot warning's ARN has the zone where others have region and account. */
	return json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:[o], s:o}", "version", "0", "id",
	    json_sprintf("%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8, id + 12, id + 16, id + 20),
	    "detail-type", lent ? LENT_TYPE : kinds[k].detail_type, "source", "aws.ec2", "account",
	    AWS_ACCOUNT, "time", format_time_s(sim_wall(i->sim), at), "region",
	    i->pool->region->name, "resources",
	    warning && !lent
		? json_sprintf("arn:aws:ec2:%s:instance/%s", i->pool->zone->name, i->id)
		: json_sprintf("arn:aws:ec2:%s:%s:instance/%s", i->pool->region->name, AWS_ACCOUNT,
		      i->id),
	    "detail", detail);
}

void aws_event(struct inst *i, const char *type)
{
	json_t *doc;
	char *text;

	if (i->sim->quitting) {
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		if (!str_same(kinds[k].type, type)) {
			continue;
		}
		doc = event_doc(i, k);
		text = json_dumps(doc, JSON_COMPACT);
		json_decref(doc);
		if (!text) {
			abort();
		}
		for (int n = 0; n < (aws_controls(i->sim)->events_twice ? 2 : 1); n++) {
			sqs_event(i->sim, i->pool->region->name, text);
		}
		free(text);
	}
}
