/* See plot.h. Each column is a stretch of time and as high as the highest price that held in it, so
 * that no peak hides. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/render/plot.h"

#define LABEL 10 /* "  12.3456 " */
#define EIGHTS 8

struct scale {
	int64_t lo, hi; /* of the points shown */
	size_t lo_at, hi_at; /* which they are */
};

static bool value_shown(const struct plot *p, const struct plot_point *q)
{
	return q->until_us >= p->from_us && q->at_us < p->to_us;
}

static bool scale_of(const struct plot *p, struct scale *s)
{
	bool any = false;

	for (size_t i = 0; i < p->points_n; i++) {
		if (!value_shown(p, &p->points[i])) {
			continue;
		}
		if (!any || p->points[i].micros < s->lo) {
			s->lo = p->points[i].micros;
			s->lo_at = i;
		}
		if (!any || p->points[i].micros > s->hi) {
			s->hi = p->points[i].micros;
			s->hi_at = i;
		}
		any = true;
	}
	return any;
}

static int64_t column_from(const struct plot *p, int column)
{
	return p->from_us + (p->to_us - p->from_us) / p->width * column;
}

/* Highest price that held in the column's time; 0 = nothing is known of it. */
static int64_t column_price(const struct plot *p, int column)
{
	int64_t from = column_from(p, column),
		to = column + 1 == p->width ? p->to_us : column_from(p, column + 1), best = 0;

	for (size_t i = 0; i < p->points_n; i++) {
		if (p->points[i].at_us < to && p->points[i].until_us > from) {
			best = MAX(best, p->points[i].micros);
		}
	}
	return best;
}

/* 1 .. height * 8 eighths of a line; a flat price stands in the middle. */
static int level_of(const struct plot *p, const struct scale *s, int64_t micros)
{
	int most = p->height * EIGHTS;

	if (micros == 0) {
		return 0;
	}
	return s->hi == s->lo ? most / 2
			      : 1 + (int)((micros - s->lo) * (most - 1) / (s->hi - s->lo));
}

static void put_cell(struct sbuf *o, const struct plot *p, int level, int row)
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	int part = MAX(MIN(level - row * EIGHTS, EIGHTS), 0);

	if (p->utf8) {
		sbuf_puts(o, blocks[part]);
	} else {
		sbuf_putc(o,
		    part == 0               ? ' '
			: part == EIGHTS    ? '#'
			: part > EIGHTS / 2 ? '='
					    : '_');
	}
}

static char *usd_put(struct arena *a, int64_t micros)
{
	return arena_printf(a, "%" PRId64 ".%04" PRId64, (micros + 50) / 1000000,
	    (micros + 50) / 100 % 10000);
}

static void put_rows(struct sbuf *o, struct arena *a, const struct plot *p, const struct scale *s,
    const int *levels)
{
	for (int row = p->height - 1; row >= 0; row--) {
		const char *label = row == p->height - 1 ? usd_put(a, s->hi)
		    : row == 0 && s->lo < s->hi          ? usd_put(a, s->lo)
							 : "";
		const char *axis = *label != '\0' ? (p->utf8 ? "┤" : "+") : (p->utf8 ? "│" : "|");

		sbuf_printf(o, "%*s %s", LABEL - 1, label, axis);
		for (int c = 0; c < p->width; c++) {
			put_cell(o, p, levels[c], row);
		}
		sbuf_putc(o, '\n');
	}
}

/* The line of time: solid where prices are known, dotted where not. */
static void put_axis(struct sbuf *o, const struct plot *p, const int *levels)
{
	sbuf_printf(o, "%*s%s", LABEL, "", p->utf8 ? "└" : "+");
	for (int c = 0; c < p->width; c++) {
		sbuf_puts(o, levels[c] > 0 ? (p->utf8 ? "─" : "-") : (p->utf8 ? "·" : "."));
	}
	sbuf_putc(o, '\n');
}

static void put_marks(struct sbuf *o, const struct plot *p)
{
	char line[PLOT_WIDTH_MAX + 1];
	size_t taken = 0, refused = 0;

	memset(line, ' ', sizeof(line));
	line[p->width] = '\0';
	for (size_t i = 0; i < p->marks_n; i++) {
		const struct plot_mark *m = &p->marks[i];
		int64_t c;

		if (m->at_us < p->from_us || m->at_us >= p->to_us) {
			continue;
		}
		c = MIN((m->at_us - p->from_us) / MAX((p->to_us - p->from_us) / p->width, 1),
		    p->width - 1);
		taken += m->kind == 'r';
		refused += m->kind == 'x';
		/* Both in one column: a star. */
		line[c] = line[c] == ' ' || line[c] == m->kind ? m->kind : '*';
	}
	if (taken + refused == 0) {
		return;
	}
	sbuf_printf(o, "%*s %s\n", LABEL, "", line);
	sbuf_printf(o, "%*s r = reclaimed (%zu), x = refused (%zu)%s\n", LABEL, "", taken, refused,
	    strchr(line, '*') != NULL ? ", * = both" : "");
}

static void put_dates(struct sbuf *o, const struct plot *p)
{
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
	int room;

	format_time_s(p->from_us, from);
	format_time_s(p->to_us, to);
	room = p->width - (int)strlen(from) - (int)strlen(to);
	sbuf_printf(o, "%*s %s%*s%s\n", LABEL, "", from, MAX(room, 1), "", to);
}

static void put_words(struct sbuf *o, struct arena *a, const struct plot *p, const struct scale *s)
{
	const struct plot_point *last = &p->points[p->points_n - 1];
	char lo[TIME_TEXT_MAX], hi[TIME_TEXT_MAX];

	sbuf_printf(o, "USD/h  min %s (%s)  max %s (%s)  now %s", usd_put(a, s->lo),
	    format_time_s(p->points[s->lo_at].at_us, lo), usd_put(a, s->hi),
	    format_time_s(p->points[s->hi_at].at_us, hi), usd_put(a, last->micros));
	if (p->now_word != NULL && *p->now_word != '\0') {
		sbuf_printf(o, " (%s)", p->now_word);
	}
	sbuf_puts(o, "\n");
}

char *plot_text(struct arena *a, const struct plot *p)
{
	AUTO(sbuf) struct sbuf o;
	struct scale s = { 0 };
	int levels[PLOT_WIDTH_MAX], empty = 0;

	assert(
	    p->width > 0 && p->width <= PLOT_WIDTH_MAX && p->height > 0 && p->to_us > p->from_us);
	sbuf_init(&o, 0);
	if (!scale_of(p, &s)) {
		return arena_strdup(a, "no price in that time\n");
	}
	for (int c = 0; c < p->width; c++) {
		levels[c] = level_of(p, &s, column_price(p, c));
		empty += levels[c] == 0;
	}
	put_rows(&o, a, p, &s, levels);
	put_axis(&o, p, levels);
	put_dates(&o, p);
	put_marks(&o, p);
	put_words(&o, a, p, &s);
	if (empty > 0) {
		sbuf_puts(&o, "empty: unknown\n");
	}
	return arena_strdup(a, o.p);
}
