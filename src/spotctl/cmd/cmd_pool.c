/* pools show: one pool, and its price history as a plot. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"
#include "spotctl/render/plot.h"

#define WIDTH 64
#define HEIGHT 8

static int64_t time_of(const json_t *o, const char *key, int64_t dflt)
{
	const char *text = json_str(o, key, NULL, NULL);
	int64_t us;

	return text != NULL && parse_time_us(text, &us) ? us : dflt;
}

/* A price is unknown while the feed is silent: its line ends at the silence and goes on behind
 * it. */
static void history_cut(const json_t *gaps, struct plot_point *points, size_t *n)
{
	const json_t *gap;
	size_t i;

	json_array_foreach (gaps, i, gap) {
		int64_t from = time_of(gap, "from_at", 0), to = time_of(gap, "to_at", 0);

		for (size_t k = 0; k < *n; k++) {
			struct plot_point p = points[k];

			if (p.at_us >= to || p.until_us <= from) {
				continue;
			}
			points[k].until_us = MAX(from, p.at_us);
			if (p.until_us > to) {
				memmove(&points[k + 2], &points[k + 1],
				    (*n - k - 1) * sizeof(*points));
				points[k + 1] = (struct plot_point){ to, p.until_us, p.micros };
				(*n)++;
				k++;
			}
		}
	}
}

/* A price is known from when it took effect until the next one, the last until it was last
 * confirmed. */
static struct plot_point *points_read(struct ctl *c, const json_t *pool, size_t *ret_n)
{
	const json_t *list = json_object_get(pool, "history"),
		     *gaps = json_object_get(pool, "gaps"), *o;
	struct plot_point *points = arena_array(c->arena,
	    json_array_size(list) + json_array_size(gaps) + 1, sizeof(*points));
	int64_t seen = time_of(pool, "observed_at", 0);
	size_t n = 0, i;

	json_array_foreach (list, i, o) {
		int64_t at = time_of(o, "effective_at", time_of(o, "at", 0));

		if (n > 0 && at < points[n - 1].at_us) {
			at = points[n - 1].at_us;
		}
		if (n > 0) {
			points[n - 1].until_us = at;
		}
		points[n++] =
		    (struct plot_point){ at, MAX(seen, at), json_i64(o, "price_micros", 0, NULL) };
	}
	history_cut(gaps, points, &n);
	*ret_n = n;
	return points;
}

static struct plot_mark *marks_read(struct ctl *c, const json_t *pool, size_t *ret_n)
{
	const json_t *list = json_object_get(pool, "marks"), *o;
	struct plot_mark *marks = arena_array(c->arena, json_array_size(list) + 1, sizeof(*marks));
	size_t i;

	json_array_foreach (list, i, o) {
		marks[i] = (struct plot_mark){ time_of(o, "at", 0),
			strcmp(json_str(o, "kind", "", NULL), "reclaimed") == 0 ? 'r' : 'x' };
	}
	*ret_n = json_array_size(list);
	return marks;
}

/* As the C library decides it: the first of these that is set. */
static bool locale_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = getenv(names[i]);

		if (!str_empty(v)) {
			return strcasestr(v, "UTF-8") != NULL || strcasestr(v, "utf8") != NULL;
		}
	}
	return false;
}

static void history_draw(struct ctl *c, const json_t *pool, int64_t span_us)
{
	int64_t now = clock_real.wall_us(&clock_real);
	const char *state = json_str(pool, "price_state", "", NULL);
	char age[32];
	struct plot p = { .from_us = now - span_us,
		.to_us = now,
		.width = WIDTH,
		.height = HEIGHT,
		.utf8 = c->tty && locale_utf8() };

	p.points = points_read(c, pool, &p.points_n);
	p.marks = marks_read(c, pool, &p.marks_n);
	p.now_word = text_clean(c->arena, state);
	if (strcmp(state, "fresh") != 0 && p.points_n > 0) {
		p.now_word = arena_printf(c->arena, "%s, seen %s ago", p.now_word,
		    format_duration(MAX(json_i64(pool, "age_s", 0, NULL), 0) * SPOT_US_PER_S, age));
	}
	printf("\n%s", plot_text(c->arena, &p));
}

int cmd_pool_show(struct ctl *c)
{
	const char *history = opt_value(c, "history");
	char *path = arena_printf(c->arena, "/v1/pools/%s?history=%s",
	    url_encode(c->arena, c->args[0], false),
	    history != NULL ? url_encode(c->arena, history, false) : "7d");
	int64_t span;
	struct reply r;
	int rc = conn_get(c, path, &r);

	rc = rc != CTL_OK ? rc : render_one(c, r.json, pool_cols);
	if (rc == CTL_OK && (c->format == FORMAT_TABLE || c->format == FORMAT_WIDE) &&
	    parse_duration_us(history != NULL ? history : "7d", &span) && span > 0) {
		history_draw(c, r.json, span);
	}
	return rc;
}
