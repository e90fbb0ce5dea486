/* Each pool of a trace in each slot: the knowledge at its start, and its losses. */
#ifndef CALIBRATION_SIBLINGS_H
#define CALIBRATION_SIBLINGS_H

#include "traces.h"

#include "core/hazard/hazard.h"

enum part { PART_FIT = 0, PART_TIME, PART_ZONE, PART_BOTH, PARTS };
enum model { MODEL_CONSTANT = 0, MODEL_TODAY, MODEL_SIBLINGS, MODELS };
extern const char *const part_names[PARTS];
extern const char *const model_names[MODELS];

struct strike {
	enum sibling level;
	double age_h;
};

struct look {
	enum part part;
	double hours; /* of the slot */
	double nodes, lost;
	double usual, constant; /* reclaims per node-hour */
	/* share of the nodes that was taken within 3 and 60 minutes; -1 = the trace cannot say */
	double taken_3, taken_60;
	double with[SIBLING_LEVELS]; /* other pools that lost machines in the same slot */
	struct strike strikes[12];
	size_t strikes_n;
};

struct looks {
	struct look *list;
	size_t n, cap;
};

struct look *looks_add(struct looks *all);
/* Fits the shares and the slow pace on the looks of PART_FIT. */
void looks_fit(const struct looks *all, struct sibling_fit *fit);
void looks_report(const struct looks *all, const struct sibling_fit *fit);
bool fit_write(const char *file, const struct sibling_fit *fit, const struct looks *all);

#endif
