/* Tables for people, tab-separated text for pipes, JSON and CSV for programs. */
#include "base/base.h"
#include "base/str.h"
#include "spotctl/ctl.h"

#include <poll.h>
#include <unistd.h>

#define COLUMNS_MAX 24
#define PAGES_MAX   1000

const char *state_color(const struct ctl *c, const char *state)
{
	static const struct { const char *state, *color; } map[] = {
		{"RUNNING", "\033[32m"}, {"READY", "\033[32m"}, {"SUCCEEDED", "\033[32m"}, {"ok", "\033[32m"}, {"fresh", "\033[32m"},
		{"DRAINING", "\033[33m"}, {"QUEUED", "\033[33m"}, {"UNKNOWN", "\033[33m"}, {"stale", "\033[33m"},
		{"frozen", "\033[33m"}, {"degraded", "\033[33m"}, {"FAILED", "\033[31m"}, {"implausible", "\033[31m"}, {"down", "\033[31m"},
	};

	for (size_t i = 0; c->color && i < ARRAY_LEN(map); i++) {
		if (strcmp(map[i].state, state) == 0) {
			return map[i].color;
		}
	}
	return "";
}

static void put_cell(const struct ctl *c, const char *text, size_t width, bool last, bool number, bool state)
{
	const char *color = state ? state_color(c, text) : "";
	size_t n = strlen(text);
	int pad = n < width ? (int)(width - n) : 0;

	if (!c->tty) {
		printf("%s%s", text, last ? "\n" : "\t");
		return;
	}
	printf("%*s%s%s%s%*s%s", number ? pad : 0, "", color, text, *color != '\0' ? "\033[0m" : "", number || last ? 0 : pad, "",
	    last ? "\n" : "  ");
}

static bool number_kind(enum cell_kind k)
{
	return k == CELL_USD || k == CELL_USD_HOUR || k == CELL_INT || k == CELL_REAL || k == CELL_HOURS || k == CELL_STEPS ||
	       k == CELL_AGE;
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

static size_t pick_columns(const struct ctl *c, const struct column *cols, const struct column **ret)
{
	size_t n = 0;

	for (; cols->head != NULL && n < COLUMNS_MAX; cols++) {
		if (!cols->wide || c->format == FORMAT_WIDE || c->format == FORMAT_CSV) {
			ret[n++] = cols;
		}
	}
	return n;
}

static void print_rows(struct ctl *c, const json_t *items, const struct column *const *cols, size_t n)
{
	size_t rows = json_array_size(items), width[COLUMNS_MAX];
	const char **cells = arena_array(c->arena, rows * n + 1, sizeof(*cells));

	for (size_t k = 0; k < n; k++) {
		width[k] = strlen(cols[k]->head);
		for (size_t i = 0; i < rows; i++) {
			cells[i * n + k] = cell_text(c, json_array_get(items, i), cols[k]);
			width[k] = MAX(width[k], strlen(cells[i * n + k]));
		}
	}
	for (size_t k = 0; k < n; k++) {
		if (c->format == FORMAT_CSV) {
			put_csv(cols[k]->head, k + 1 == n);
		} else {
			put_cell(c, cols[k]->head, width[k], k + 1 == n, number_kind(cols[k]->kind), false);
		}
	}
	for (size_t i = 0; i < rows; i++) {
		for (size_t k = 0; k < n; k++) {
			if (c->format == FORMAT_CSV) {
				put_csv(cells[i * n + k], k + 1 == n);
			} else {
				put_cell(c, cells[i * n + k], width[k], k + 1 == n, number_kind(cols[k]->kind), cols[k]->kind == CELL_STATE);
			}
		}
	}
}

int render_json(const json_t *j)
{
	if (json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY) != 0) {
		return CTL_FAILED;
	}
	putchar('\n');
	return CTL_OK;
}

int render_list(struct ctl *c, const json_t *whole, const json_t *items, const struct column *cols, const char *empty)
{
	const struct column *picked[COLUMNS_MAX];
	size_t n;

	if (c->format == FORMAT_JSON) {
		return render_json(whole);
	}
	if (c->format == FORMAT_NAME) {
		for (size_t i = 0; i < json_array_size(items); i++) {
			printf("%s\n", json_str(json_array_get(items, i), "id", "", NULL));
		}
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

/* Follows the cursor until the asked number of rows (or all pages for JSON and CSV) are there. */
static int fetch_all(struct ctl *c, const char *path, json_t **ret)
{
	AUTO(json) json_t *all = json_array();
	const char *limit = opt_value(c, "limit"), *cursor = NULL;
	int64_t most = 100;

	if (limit != NULL && !parse_i64(limit, 1, 1000000, &most)) {
		say("spotctl: --limit wants a number from 1 to 1000000");
		return CTL_USAGE;
	}
	for (int page = 0; page < PAGES_MAX; page++) {
		char sep = strchr(path, '?') != NULL ? '&' : '?';
		const char *at = cursor == NULL ? path
		                                : arena_printf(c->arena, "%s%ccursor=%s", path, sep, url_encode(c->arena, cursor, false));
		struct reply r;
		int rc = conn_get(c, at, &r);

		if (rc != CTL_OK) {
			return rc;
		}
		json_array_extend(all, json_object_get(r.json, "items"));
		cursor = json_str(r.json, "next", NULL, NULL);
		cursor = cursor != NULL ? arena_strdup(c->arena, cursor) : NULL;
		json_decref(r.json);
		if (cursor == NULL || (int64_t)json_array_size(all) >= most) {
			break;
		}
	}
	*ret = json_pack("{s:O, s:o}", "items", all, "next", cursor != NULL ? json_string(cursor) : json_null());
	return CTL_OK;
}

int list_command(struct ctl *c, const char *path, const struct column *cols, const char *empty)
{
	path = opts_path(c, path);
	for (;;) {
		json_t *whole = NULL;
		int rc = fetch_all(c, path, &whole);

		if (rc != CTL_OK) {
			return rc;
		}
		if (c->watch_s > 0 && c->tty) {
			printf("\033[H\033[2J");
		}
		rc = render_list(c, whole, json_object_get(whole, "items"), cols, empty);
		if (json_is_string(json_object_get(whole, "next")) && c->watch_s == 0) {
			say("... there are more: --limit N shows more of them");
		}
		json_decref(whole);
		if (c->watch_s == 0 || rc != CTL_OK) {
			return rc;
		}
		fflush(stdout);
		poll(NULL, 0, (int)c->watch_s * 1000);
	}
}
