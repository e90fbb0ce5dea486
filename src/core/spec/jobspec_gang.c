/* The job file: jobs of several nodes. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

enum spot_rc spec_elastic(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	const char *text = NULL;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (strcmp(text, "replace") != 0) {
		return yaml_fail(y, err,
		    "elastic: '%.60s' must be replace; leave the key out to give all machines "
		    "back when one is lost",
		    text);
	}
	if (s->num_nodes < 2) {
		return yaml_fail(y, err,
		    "elastic: replace is for jobs of several nodes: set num_nodes, or leave it "
		    "out");
	}
	s->elastic = true;
	return SPOT_OK;
}

/* The tier is the job's, not an alternative's: one that says best counts for all. */
enum spot_rc spec_network_tier(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	const char *text = NULL;
	enum spot_rc rc = spec_text(y, &text, err);

	if (rc != SPOT_OK || text == NULL) {
		return rc;
	}
	if (strcmp(text, "best") != 0 && strcmp(text, "standard") != 0) {
		return yaml_fail(y, err, "network_tier: '%.60s' must be best or standard", text);
	}
	s->together = s->together || strcmp(text, "best") == 0;
	return SPOT_OK;
}

enum spot_rc spec_gang_check(const struct yaml *doc, const struct job_spec *s, struct spot_err *err)
{
	const struct yaml *at = yaml_get(doc, "num_nodes");

	if (s->num_nodes == 1) {
		return SPOT_OK;
	}
	if (s->fleet != NULL) {
		return yaml_fail(at, err,
		    "num_nodes: %d nodes that begin together are launched together; a fleet is "
		    "spread over "
		    "pools: leave config.spotctl.fleet out",
		    (int)s->num_nodes);
	}
	return SPOT_OK;
}
