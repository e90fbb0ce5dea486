/* Recoveries: those of one job, and the report by cloud. */
#include "base/base.h"
#include "spotctl/cmd/cmd.h"

void show_recoveries(struct ctl *c, const json_t *job)
{
	static const struct column cols[] = { { "TRY", "epoch", CELL_INT, ALWAYS },
		{ "RANK", "rank", CELL_INT, WIDE }, { "CLOUD", "provider", CELL_TEXT, SPARE_2 },
		{ "CAUSE", "cause", CELL_TEXT, SPARE_4 }, { "HEARD", "notice_at", CELL_TIME, WIDE },
		{ "SIGNAL", "phases.signal_s", CELL_SPAN, ALWAYS },
		{ "SAVED", "phases.saved_s", CELL_SPAN, ALWAYS },
		{ "STORED", "phases.committed_s", CELL_SPAN, ALWAYS },
		{ "WANTED", "phases.wanted_s", CELL_SPAN, ALWAYS },
		{ "LAUNCH", "phases.launched_s", CELL_SPAN, ALWAYS },
		{ "ENROL", "phases.enrolled_s", CELL_SPAN, ALWAYS },
		{ "STEP", "phases.first_step_s", CELL_SPAN, ALWAYS },
		{ "ALL", "phases.total_s", CELL_SPAN, ALWAYS },
		{ "IN TIME", "in_window", CELL_TEXT, SPARE_1 },
		{ "OUTCOME", "outcome", CELL_TEXT, SPARE_3 }, { 0 } };
	const json_t *list = json_object_get(job, "recoveries");

	if (json_array_size(list) == 0) {
		return;
	}
	printf("\nrecoveries, from the notice; the save: signal, saved, stored; the next machine: "
	       "wanted,\nlaunch, enrol, first step\n");
	render_list(c, list, list, cols, "");
}

/* The phases of all clouds as one list, each with its cloud. */
static json_t *phases_list(const json_t *clouds)
{
	json_t *all = json_array(), *cloud, *phase;
	size_t i, k;

	json_array_foreach (clouds, i, cloud) {
		json_array_foreach (json_object_get(cloud, "phases"), k, phase) {
			(void)json_object_set(phase, "provider",
			    json_object_get(cloud, "provider"));
			(void)json_array_append(all, phase);
		}
	}
	return all;
}

int cmd_report_recovery(struct ctl *c)
{
	static const struct column clouds[] = { { "CLOUD", "provider", CELL_TEXT, ALWAYS },
		{ "ALL", "recoveries", CELL_INT, ALWAYS },
		{ "NOTICES", "notices", CELL_INT, SPARE_2 },
		{ "LOSSES", "losses", CELL_INT, SPARE_2 }, { "OPEN", "open", CELL_INT, ALWAYS },
		{ "RECOVERED", "recovered", CELL_INT, ALWAYS },
		{ "FAILED", "failed", CELL_INT, ALWAYS }, { "ENDED", "ended", CELL_INT, SPARE_1 },
		{ "SUCCESS %", "success_pct", CELL_NUMBER, ALWAYS },
		{ "SAVES", "saves", CELL_INT, ALWAYS },
		{ "IN TIME %", "in_window_pct", CELL_NUMBER, ALWAYS }, { 0 } };
	static const struct column phases[] = { { "CLOUD", "provider", CELL_TEXT, ALWAYS },
		{ "PHASE", "phase", CELL_TEXT, ALWAYS }, { "N", "n", CELL_INT, ALWAYS },
		{ "P50", "p50_s", CELL_SPAN, ALWAYS }, { "P95", "p95_s", CELL_SPAN, ALWAYS },
		{ "MAX", "max_s", CELL_SPAN, ALWAYS }, { 0 } };
	char *query = arena_strdup(c->arena, "");
	AUTO(json) json_t *list = NULL;
	struct reply r;
	int rc = time_param(c, "since", &query);

	rc = rc != CTL_OK ? rc
			  : conn_get(c,
				arena_printf(c->arena, "/v1/recovery%s%s", *query ? "?" : "",
				    *query ? query + 1 : ""),
				&r);
	if (rc != CTL_OK) {
		return rc;
	}
	rc = render_list(c, r.json, json_object_get(r.json, "clouds"), clouds,
	    "no notice and no loss in that time");
	if (rc != CTL_OK || (c->format != FORMAT_TABLE && c->format != FORMAT_WIDE)) {
		return rc;
	}
	list = phases_list(json_object_get(r.json, "clouds"));
	if (json_array_size(list) > 0) {
		putchar('\n');
		rc = render_list(c, list, list, phases, "");
	}
	return rc;
}
