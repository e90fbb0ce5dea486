/*
 * A price history as text: a step line between axes, what is not known left empty, marks below.
 * Pure: values in, lines out.
 */
#ifndef SPOTCTL_PLOT_H
#define SPOTCTL_PLOT_H

#include "base/base.h"

struct arena;
struct plot_point {
	int64_t at_us, until_us; /* the price held from .. to, as far as was seen */
	int64_t micros;
};
struct plot_mark {
	int64_t at_us;
	char kind; /* 'r' taken back, 'x' refused */
};
struct plot {
	const struct plot_point *points;
	size_t points_n; /* in order of time */
	const struct plot_mark *marks;
	size_t marks_n;
	int64_t from_us, to_us;
	const char *now_word; /* behind the last price: "fresh", "stale for 3h" */
	int width, height; /* of the area itself, in characters */
	bool utf8; /* blocks of eighths; otherwise ASCII */
};
#define PLOT_WIDTH_MAX 200
/* Lines, each with its end. Nothing to draw: a line that says so. */
char *plot_text(struct arena *a, const struct plot *p);

#endif
