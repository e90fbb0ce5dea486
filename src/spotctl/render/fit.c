/* Makes a table fit the terminal; -o wide is not touched. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2 /* blanks between columns */
#define WRAP_LEAST 20 /* a narrower last column is hard to read */
#define CUT_LEAST 16 /* of a column that is cut */

/* Returns 0 if nobody knows. */
static size_t screen_columns(const struct ctl *c)
{
	struct winsize w = { 0 };

	return c->tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

static size_t grid_width(const struct grid *g)
{
	size_t sum = 0;

	for (size_t k = 0; k < g->n; k++) {
		sum += g->width[k] + (k > 0 ? GAP : 0);
	}
	return sum;
}

/* Only free text at the end of a row may go on below itself. */
static bool can_wrap(const struct grid *g)
{
	return g->n > 1 && g->cols[g->n - 1]->kind == CELL_TEXT;
}

static bool grid_fits(const struct grid *g, size_t screen)
{
	size_t need = grid_width(g), last = g->width[g->n - 1];

	if (can_wrap(g) && last > WRAP_LEAST) {
		need -= last - WRAP_LEAST;
	}
	return need <= screen;
}

static void drop_column(struct grid *g, size_t k)
{
	size_t to = 0;

	for (size_t i = 0; i < g->rows * g->n; i++) {
		if (i % g->n != k) {
			g->cells[to++] = g->cells[i];
		}
	}
	memmove(&g->cols[k], &g->cols[k + 1], (g->n - k - 1) * sizeof(g->cols[0]));
	memmove(&g->heads[k], &g->heads[k + 1], (g->n - k - 1) * sizeof(g->heads[0]));
	memmove(&g->width[k], &g->width[k + 1], (g->n - k - 1) * sizeof(g->width[0]));
	g->n--;
}

static bool column_is_empty(const struct grid *g, size_t k)
{
	for (size_t i = 0; i < g->rows; i++) {
		if (g->cells[i * g->n + k][0] != '\0') {
			return false;
		}
	}
	return true;
}

/* Leaves the date out of a column of times that are all of today, else the year and the seconds. */
static void shorten_times(struct ctl *c, struct grid *g, size_t k)
{
	char today[TIME_TEXT_MAX];
	bool all_today = true;

	format_time_s(clock_real.wall_us(&clock_real), today);
	for (size_t i = 0; i < g->rows; i++) {
		const char *t = g->cells[i * g->n + k];

		if (*t != '\0' && strlen(t) != strlen(today)) {
			return;
		}
		all_today &= *t == '\0' || memcmp(t, today, strlen("2026-11-28")) == 0;
	}
	g->width[k] = text_width(g->heads[k]);
	for (size_t i = 0; i < g->rows; i++) {
		const char **t = &g->cells[i * g->n + k];

		if (**t != '\0') {
			*t = all_today ? *t + strlen("2026-11-28T")
				       : arena_printf(c->arena, "%.5s %.5sZ", *t + 5, *t + 11);
		}
		g->width[k] = MAX(g->width[k], text_width(*t));
	}
}

/* Returns the column to leave out next, or g->n. Of two that rank the same, the last. */
static size_t next_spare(const struct grid *g)
{
	size_t best = g->n;

	for (size_t k = 1; k < g->n; k++) {
		if (g->cols[k]->show >= SPARE_1 &&
		    (best == g->n || g->cols[k]->show <= g->cols[best]->show)) {
			best = k;
		}
	}
	return best;
}

/* Cuts the widest text that is neither an id nor the last column, so that the table fits. */
static void cut_widest(struct ctl *c, struct grid *g, size_t screen)
{
	size_t widest = 0, over = grid_width(g), to;

	for (size_t k = 1; k + 1 < g->n; k++) {
		if (g->cols[k]->kind == CELL_TEXT &&
		    (widest == 0 || g->width[k] > g->width[widest])) {
			widest = k;
		}
	}
	if (widest == 0) {
		return;
	}
	if (can_wrap(g) && g->width[g->n - 1] > WRAP_LEAST) {
		over -= g->width[g->n - 1] - WRAP_LEAST;
	}
	over -= screen;
	to = MAX(g->width[widest] - MIN(over, g->width[widest]), CUT_LEAST);
	for (size_t i = 0; i < g->rows; i++) {
		const char **text = &g->cells[i * g->n + widest];

		if (text_width(*text) > to) {
			*text = arena_printf(c->arena, "%.*s...", (int)text_prefix(*text, to - 3),
			    *text);
		}
	}
	g->width[widest] = MIN(g->width[widest], to);
}

size_t grid_fit(struct ctl *c, struct grid *g)
{
	size_t screen = c->format == FORMAT_TABLE ? screen_columns(c) : 0, k;

	if (screen == 0 || g->n == 0) {
		return 0;
	}
	for (k = g->n - 1; k > 0 && !grid_fits(g, screen); k--) {
		if (g->rows > 0 && column_is_empty(g, k)) {
			drop_column(g, k);
		}
	}
	for (k = 0; k < g->n && grid_width(g) > screen; k++) {
		if (g->cols[k]->kind == CELL_TIME) {
			shorten_times(c, g, k);
		}
	}
	while (!grid_fits(g, screen) && (k = next_spare(g)) < g->n) {
		drop_column(g, k);
		g->hidden++;
	}
	if (!grid_fits(g, screen)) {
		cut_widest(c, g, screen);
	}
	if (!can_wrap(g) || grid_width(g) <= screen || !grid_fits(g, screen)) {
		return 0;
	}
	return g->width[g->n - 1] - (grid_width(g) - screen);
}
