/* Tables for people, tab-separated text for pipes, JSON and CSV for programs. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#include <stdarg.h>

#define COLUMNS_MAX 72
#define PAGE_ROWS 1000

const char *state_color(const struct ctl *c, const char *state)
{
	static const struct {
		const char *state, *color;
	} map[] = {
		{ "RUNNING", "\033[32m" },
		{ "READY", "\033[32m" },
		{ "SUCCEEDED", "\033[32m" },
		{ "ok", "\033[32m" },
		{ "fresh", "\033[32m" },
		{ "ACTIVE", "\033[32m" },
		{ "DRAINING", "\033[33m" },
		{ "QUEUED", "\033[33m" },
		{ "PARKED", "\033[33m" },
		{ "UNKNOWN", "\033[33m" },
		{ "stale", "\033[33m" },
		{ "frozen", "\033[33m" },
		{ "degraded", "\033[33m" },
		{ "warn", "\033[33m" },
		{ "bad", "\033[31m" },
		{ "FAILED", "\033[31m" },
		{ "implausible", "\033[31m" },
		{ "down", "\033[31m" },
	};

	for (size_t i = 0; c->color && i < ARRAY_LEN(map); i++) {
		if (strcmp(map[i].state, state) == 0) {
			return map[i].color;
		}
	}
	return "";
}

static bool number_kind(enum cell_kind k)
{
	return k == CELL_USD || k == CELL_SAVING || k == CELL_INT || k == CELL_REAL ||
	    k == CELL_HOURS || k == CELL_RATE || k == CELL_STEPS || k == CELL_AGE ||
	    k == CELL_NUMBER || k == CELL_SPAN;
}

static void put_cell(const struct ctl *c, const char *text, size_t width, bool last, bool number,
    bool state)
{
	const char *color = state ? state_color(c, text) : "";
	size_t n = text_width(text);
	int pad = n < width ? (int)(width - n) : 0;

	if (!c->tty) {
		printf("%s%s", text, last ? "\n" : "\t");
		return;
	}
	printf("%*s%s%s%s%*s%s", number ? pad : 0, "", color, text, *color != '\0' ? "\033[0m" : "",
	    number || last ? 0 : pad, "", last ? "\n" : "  ");
}

static void put_csv(const char *text, bool last)
{
	if (strpbrk(text, ",\"\n\r") == NULL) {
		printf("%s", text);
	} else {
		putchar('"');
		for (; *text != '\0'; text++) {
			if (*text == '"') {
				putchar('"');
			}
			putchar(*text);
		}
		putchar('"');
	}
	putchar(last ? '\n' : ',');
}

static size_t pick_columns(const struct ctl *c, const struct column *cols,
    const struct column **ret)
{
	size_t n = 0;

	for (; cols->head != NULL; cols++) {
		if (cols->show != WIDE || c->format == FORMAT_WIDE || c->format == FORMAT_CSV) {
			assert(n < COLUMNS_MAX);
			ret[n++] = cols;
		}
	}
	return n;
}

/* The last cell of a row goes on below itself when it is longer than its width. */
static void put_wrapped(const struct grid *g, const char *text, size_t width)
{
	size_t indent = 0, n = text_break(text, width);

	for (size_t k = 0; k + 1 < g->n; k++) {
		indent += g->width[k] + 2;
	}
	printf("%.*s\n", (int)n, text);
	for (text += n; *(text += strspn(text, " ")) != '\0'; text += n) {
		n = text_break(text, width);
		printf("%*s%.*s\n", (int)indent, "", (int)n, text);
	}
}

static void print_row(struct ctl *c, const struct grid *g, const char *const *cells, bool head,
    size_t wrap)
{
	for (size_t k = 0; k < g->n; k++) {
		bool last = k + 1 == g->n;

		if (c->format == FORMAT_CSV) {
			put_csv(cells[k], last);
		} else if (last && wrap > 0) {
			put_wrapped(g, cells[k], wrap);
		} else {
			put_cell(c, cells[k], g->width[k], last, number_kind(g->cols[k]->kind),
			    !head && g->cols[k]->kind == CELL_STATE);
		}
	}
}

static void print_rows(struct ctl *c, const json_t *items, const struct column **cols, size_t n)
{
	size_t rows = json_array_size(items), width[COLUMNS_MAX], wrap;
	const char *heads[COLUMNS_MAX];
	struct grid g = {
		.cols = cols,
		.heads = heads,
		.cells = arena_array(c->arena, rows * n + 1, sizeof(*g.cells)),
		.width = width,
		.n = n,
		.rows = rows,
	};

	for (size_t k = 0; k < n; k++) {
		heads[k] = cols[k]->head;
		width[k] = text_width(heads[k]);
		for (size_t i = 0; i < rows; i++) {
			const char *text = cell_text(c, json_array_get(items, i), cols[k]);

			g.cells[i * n + k] =
			    c->format == FORMAT_CSV ? text : text_clean(c->arena, text);
			width[k] = MAX(width[k], text_width(g.cells[i * n + k]));
		}
	}
	wrap = grid_fit(c, &g);
	print_row(c, &g, heads, true, wrap);
	for (size_t i = 0; i < rows; i++) {
		print_row(c, &g, &g.cells[i * g.n], false, wrap);
	}
	if (g.hidden > 0 && !c->told_hidden) {
		c->told_hidden = true;
		say("(-o wide shows %zu more column%s)", g.hidden, g.hidden == 1 ? "" : "s");
	}
}

int render_json(const json_t *j)
{
	if (json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY) !=
	    0) {
		return CTL_FAILED;
	}
	putchar('\n');
	return CTL_OK;
}

/* The id, or where rows have none, the first column. */
static void print_names(struct ctl *c, const json_t *items, const struct column *cols)
{
	const json_t *row;
	size_t i;

	json_array_foreach (items, i, row) {
		/* an object without a row of ours has its provider's name */
		const char *id = json_str(row, "id", json_str(row, "ref", NULL, NULL), NULL);

		printf("%s\n", text_clean(c->arena, id != NULL ? id : cell_text(c, row, cols)));
	}
}

static int no_list(const struct ctl *c)
{
	say("spotctl: the reply of %s lacks its list; check that spotctl and spotd have the same "
	    "version",
	    c->url);
	return CTL_FAILED;
}

int render_list(struct ctl *c, const json_t *whole, const json_t *items, const struct column *cols,
    const char *empty)
{
	const struct column *picked[COLUMNS_MAX];
	size_t n;

	if (c->format == FORMAT_JSON) {
		return render_json(whole);
	}
	if (!json_is_array(items)) {
		return no_list(c);
	}
	if (c->format == FORMAT_NAME) {
		print_names(c, items, cols);
		return CTL_OK;
	}
	if (json_array_size(items) == 0 && c->format != FORMAT_CSV) {
		say("%s", empty);
		return CTL_OK;
	}
	n = pick_columns(c, cols, picked);
	print_rows(c, items, picked, n);
	return CTL_OK;
}

int render_one(struct ctl *c, json_t *one, const struct column *cols)
{
	AUTO(json) json_t *list = json_array();

	json_array_append(list, one);
	return render_list(c, one, list, cols, "");
}

int render_done(struct ctl *c, const struct reply *r, const char *fmt, ...)
{
	char words[1024];
	va_list ap;

	if (c->format == FORMAT_JSON) {
		return render_json(r->json);
	}
	if (c->format == FORMAT_NAME) {
		printf("%s\n", json_str(r->json, "id", "", NULL));
		return CTL_OK;
	}
	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	say("%s", words);
	return CTL_OK;
}

/* ---- lists in pages -------------------------------------------------------------------------- */

static bool has_limit(const struct ctl *c)
{
	for (const struct ctl_opt *o = c->cmd->opts; o != NULL && o->name != NULL; o++) {
		if (strcmp(o->name, "limit") == 0) {
			return true;
		}
	}
	return false;
}

/* How many rows are wanted: what was said; 100 for a person; everything for a program. */
static int rows_wanted(struct ctl *c, int64_t *ret)
{
	const char *limit = opt_value(c, "limit");

	*ret = c->format == FORMAT_TABLE || c->format == FORMAT_WIDE ? 100 : INT64_MAX;
	if (limit != NULL && !parse_i64(limit, 1, 1000000, ret)) {
		say("spotctl: --limit must be a number from 1 to 1000000, not '%s'", limit);
		return CTL_USAGE;
	}
	return CTL_OK;
}

static char *page_path(struct ctl *c, const char *path, int64_t left, const char *cursor)
{
	const char *sep = strchr(path, '?') != NULL ? "&" : "?";

	if (has_limit(c)) {
		path =
		    arena_printf(c->arena, "%s%slimit=%" PRId64, path, sep, MIN(left, PAGE_ROWS));
		sep = "&";
	}
	return cursor == NULL ? arena_strdup(c->arena, path)
			      : arena_printf(c->arena, "%s%scursor=%s", path, sep,
				    url_encode(c->arena, cursor, false));
}

static int fetch_all(struct ctl *c, const char *path, json_t **ret)
{
	AUTO(json) json_t *all = json_array();
	const char *cursor = NULL;
	int64_t most;
	int rc = rows_wanted(c, &most);

	while (rc == CTL_OK) {
		struct reply r;
		json_t *items;
		const char *next;

		rc = conn_get(c, page_path(c, path, most - (int64_t)json_array_size(all), cursor),
		    &r);
		if (rc != CTL_OK) {
			return rc;
		}
		items = json_object_get(r.json, "items");
		if (!json_is_array(items)) {
			return no_list(c);
		}
		json_array_extend(all, items);
		next = json_str(r.json, "next", NULL, NULL);
		/* a cursor that stands still, or leads to nothing, is the end */
		if (str_same(next, cursor) || json_array_size(items) == 0) {
			next = NULL;
		}
		cursor = next;
		if (cursor == NULL || (int64_t)json_array_size(all) >= most) {
			break;
		}
	}
	*ret = json_pack("{s:O, s:s?}", "items", all, "next", cursor);
	return rc;
}

int list_command(struct ctl *c, const char *path, const struct column *cols, const char *empty)
{
	json_t *whole = NULL;
	int rc = fetch_all(c, opts_path(c, path), &whole);
	bool filtered = strcmp(opts_path(c, path), path) != 0;

	if (rc == CTL_OK) {
		rc = render_list(c, whole, json_object_get(whole, "items"), cols,
		    filtered ? "nothing matches these options" : empty);
	}
	if (rc == CTL_OK && json_is_string(json_object_get(whole, "next")) &&
	    c->format != FORMAT_JSON && c->watch_s == 0) {
		say("... there are more; use --limit N");
	}
	json_decref(whole);
	return rc;
}
