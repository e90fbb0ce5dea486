/*
 * spotctl's inside: one process, one command, blocking HTTP to the daemon's REST API and nothing else. Data go to
 * stdout, everything else to stderr. Commands return an exit code:
 *   0 ok  1 failed  2 usage  3 not found  4 conflict  5 not allowed  6 unreachable or timed out
 *   7 no capacity, quota or budget  8 partly done  130 interrupted
 */
#ifndef SPOTCTL_CTL_H
#define SPOTCTL_CTL_H

#include "base/base.h"
#include "base/arena.h"
#include "base/json.h"

enum ctl_exit {
	CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_NOT_FOUND = 3, CTL_CONFLICT = 4, CTL_DENIED = 5,
	CTL_UNREACHABLE = 6, CTL_NO_CAPACITY = 7, CTL_PARTIAL = 8, CTL_INTERRUPTED = 130
};
enum ctl_format { FORMAT_TABLE = 1, FORMAT_WIDE, FORMAT_JSON, FORMAT_CSV, FORMAT_NAME };

struct ctl_opt {
	const char *name;      /* long name, without dashes */
	char letter;           /* 0 = none */
	const char *arg;       /* NULL = a flag */
	const char *help;
	const char *query;     /* the query parameter it becomes; NULL = the command looks at it itself */
};
struct ctl;
struct ctl_cmd {
	const char *noun, *verb;   /* verb "" = the noun alone */
	const char *args;          /* as shown in usage */
	int args_min, args_max;
	const char *help;
	const struct ctl_opt *opts; /* ends with a zero name; NULL = none of its own */
	int (*run)(struct ctl *c);
};
#define CTL_VALUES_MAX 32
#define CTL_ARGS_MAX   8
struct ctl {
	struct arena *arena;
	const struct ctl_cmd *cmd;
	const struct ctl_opt *given[CTL_VALUES_MAX];
	const char *values[CTL_VALUES_MAX];
	int values_n;
	const char *args[CTL_ARGS_MAX];
	int args_n;
	enum ctl_format format;
	bool color, tty;
	int64_t watch_s;           /* 0 = once */
	const char *url, *token, *ca_file;
	void *curl;
};

/* tree.c */
const struct ctl_cmd *tree_find(const char *noun, const char *verb, bool *ret_noun_known);
void tree_help(FILE *to, const char *noun);
void cmd_help(FILE *to, const struct ctl_cmd *cmd);
const char *tree_suggest(const char *word);
int cmd_completion(struct ctl *c);
int cmd_help_run(struct ctl *c);
/* opts.c */
extern const struct ctl_opt common_opts[];
int opts_parse(struct ctl *c, int argc, char **argv);  /* 0 or CTL_USAGE */
const char *opt_value(const struct ctl *c, const char *name); /* NULL = not given */
bool opt_flag(const struct ctl *c, const char *name);
/* "path?a=b&c=d" of the options that are query parameters. */
char *opts_path(struct ctl *c, const char *path);
/* settings.c: flags > SPOTCTL_URL, SPOTCTL_TOKEN_FILE, SPOTCTL_CA_FILE > config file > loopback default. 0 or exit code */
int settings_load(struct ctl *c);
int cmd_login(struct ctl *c);
/* conn.c */
struct reply {
	int status;
	struct str body;           /* NUL behind it */
	struct { const char *name, *value; } headers[32];
	size_t headers_n;
	json_t *json;              /* parsed when it is JSON; owned by the arena's cleanup list */
};
/* Sends; prints what went wrong to stderr and returns the exit code, or CTL_OK with a 2xx reply. */
int conn_send(struct ctl *c, const char *method, const char *path, const char *type, struct str body, struct reply *ret);
int conn_get(struct ctl *c, const char *path, struct reply *ret);
const char *reply_header(const struct reply *r, const char *name);
/* Streams server-sent events; each() gets one event's data. Reconnects with Last-Event-ID. */
int conn_events(struct ctl *c, const char *path, bool (*each)(struct ctl *c, const char *data));
void conn_close(struct ctl *c);
int read_input(struct ctl *c, const char *path, struct str *ret); /* "-" = stdin; <= 1 MiB */
/* render.c */
enum cell_kind {
	CELL_TEXT = 1, CELL_USD, CELL_USD_HOUR, CELL_AGE, CELL_TIME, CELL_INT, CELL_REAL, CELL_STEPS, CELL_GPU, CELL_PLACE,
	CELL_HAZARD, CELL_STATE, CELL_HOURS
};
struct column {
	const char *head, *path;   /* path: dotted members, "pool.region" */
	enum cell_kind kind;
	bool wide;                 /* only with -o wide and csv */
};
/* Text of one cell, in the arena; "" for null. */
const char *cell_text(struct ctl *c, const json_t *row, const struct column *col);
const json_t *json_path(const json_t *o, const char *path);
/* items: array of objects. whole: what -o json prints. */
int render_list(struct ctl *c, const json_t *whole, const json_t *items, const struct column *cols, const char *empty);
int render_json(const json_t *j);
/* The usual list command: GET (all pages), render, repeat with --watch. */
int list_command(struct ctl *c, const char *path, const struct column *cols, const char *empty);
void say(const char *fmt, ...) PRINTF(1, 2);           /* to stderr */
const char *state_color(const struct ctl *c, const char *state);

#define COMMAND(name) int cmd_##name(struct ctl *c)
COMMAND(prices); COMMAND(pools); COMMAND(pool_show); COMMAND(providers); COMMAND(quota); COMMAND(plan);
COMMAND(job_submit); COMMAND(job_ls); COMMAND(job_show); COMMAND(job_why); COMMAND(job_logs); COMMAND(job_cancel); COMMAND(job_wait);
COMMAND(fleet_create); COMMAND(fleet_ls); COMMAND(fleet_show); COMMAND(fleet_scale); COMMAND(fleet_rm);
COMMAND(node_ls); COMMAND(node_show); COMMAND(node_drain); COMMAND(node_rm);
COMMAND(rebalance); COMMAND(cost); COMMAND(events); COMMAND(whoami); COMMAND(version);
COMMAND(token_ls); COMMAND(token_create); COMMAND(token_rm);

#endif
