/*
 * spotctl's inside: one process, one command, blocking HTTP to the daemon's REST API and nothing
 * else. Data go to stdout, everything else to stderr. Commands return an exit code;
 * help.c has the table.
 *
 * Memory: everything lives in c->arena. A command that repeats (--watch, logs, wait, events) calls
 * round_begin and round_end around each round. The latter frees everything of the round, replies
 * with their JSON included.
 */
#ifndef SPOTCTL_CTL_H
#define SPOTCTL_CTL_H

#include "base/base.h"
#include "base/text/text.h"
#include "spot/http.h"

enum ctl_exit {
	CTL_OK = 0,
	CTL_FAILED = 1,
	CTL_USAGE = 2,
	CTL_NOT_FOUND = 3,
	CTL_CONFLICT = 4,
	CTL_DENIED = 5,
	CTL_UNREACHABLE = 6,
	CTL_NO_CAPACITY = 7,
	CTL_PARTIAL = 8,
	CTL_INTERRUPTED = 130
};
enum ctl_format { FORMAT_TABLE = 1, FORMAT_WIDE, FORMAT_JSON, FORMAT_CSV, FORMAT_NAME };

struct ctl_opt {
	const char *name; /* long name, without dashes */
	char letter; /* 0 = none */
	const char *arg; /* NULL = a flag */
	const char *help;
	/* the query parameter it becomes; NULL = the command looks at it itself */
	const char *query;
};
#define CTL_OFFLINE 1u /* needs no server: settings are not read */
#define CTL_OUT 2u /* -o applies */
#define CTL_WATCH 4u /* --watch applies: only reads, and ends */
#define CTL_SERVER 8u /* --url and the token apply although CTL_OFFLINE: the command reads them */
#define CTL_CA 16u /* --ca-file applies although CTL_OFFLINE */
struct ctl;
struct ctl_cmd {
	const char *noun, *verb; /* verb "" = the noun alone */
	const char *args; /* as shown in usage */
	int args_min, args_max;
	const char *help;
	const struct ctl_opt *opts; /* ends with a zero name; NULL = none of its own */
	int (*run)(struct ctl *c);
	unsigned flags;
};
#define CTL_VALUES_MAX 64
#define CTL_ARGS_MAX 64
struct doc;
struct ctl {
	struct arena *arena;
	struct doc *docs; /* parsed replies of this round */
	const struct ctl_cmd *cmd;
	const struct ctl_opt *given[CTL_VALUES_MAX];
	const char *values[CTL_VALUES_MAX];
	int values_n;
	const char *args[CTL_ARGS_MAX];
	int args_n;
	enum ctl_format format;
	bool color, tty;
	bool told_hidden; /* that -o wide shows more columns; said once */
	int64_t watch_s; /* 0 = once */
	const char *url, *token, *ca_file;
	void *curl;
};

/* tree.c: the commands; ends with a zero noun */
extern const struct ctl_cmd ctl_commands[];
const struct ctl_cmd *tree_find(const char *noun, const char *verb, bool *ret_noun_known);
const char *tree_suggest_noun(const char *word); /* NULL: nothing near */
bool tree_has_verbs(const char *noun);
const char *tree_suggest_verb(const char *noun, const char *word);
/* help.c */
void tree_help(FILE *to, const char *noun);
void cmd_help(FILE *to, const struct ctl_cmd *cmd);
/* code, meaning; ends with NULL */
extern const char *const exit_words[][2];
/* opts.c */
extern const struct ctl_opt common_opts[];
int opts_parse(struct ctl *c, int argc, char **argv); /* 0 or CTL_USAGE */
/* Options in front of the command; returns the number of words they took, or -1. */
int opts_parse_front(struct ctl *c, int argc, char **argv);
const char *opt_value(const struct ctl *c, const char *name); /* NULL = not given */
bool opt_flag(const struct ctl *c, const char *name);
/* Appends "&NAME=time" to *path if the option was given: a time, or a duration back from now. */
int time_param(struct ctl *c, const char *name, char **path);
bool opt_applies(const struct ctl_cmd *cmd, const struct ctl_opt *common);
/* "path?a=b&c=d" of the options that are query parameters. */
char *opts_path(struct ctl *c, const char *path);
/* refs.c: puts ids in the place of the names of jobs, in arguments and in --job. */
int refs_resolve(struct ctl *c);
/* settings.c: flags > SPOTCTL_URL, SPOTCTL_TOKEN_FILE, SPOTCTL_CA_FILE > config file > loopback
 * default. 0 or exit code */
int settings_load(struct ctl *c);
/* http or https, a host, no user or password; without trailing slashes. NULL: refused, and said
 * why. */
char *url_normalise(struct ctl *c, const char *url);
bool url_loopback(const char *url);
char *config_dir(struct ctl *c);
/* conn.c */
struct reply {
	int status;
	struct str body; /* NUL behind it */
	struct spot_header headers[32];
	size_t headers_n;
	json_t *json; /* NULL if it is not JSON; freed at the end of the round */
};
/* Sends; prints what went wrong to stderr and returns the exit code, or CTL_OK with a 2xx reply. A
 * safe request (GET, and POST with its Idempotency-Key) is repeated twice if the connection broke
 * or the daemon was not ready. */
int conn_send(struct ctl *c, const char *method, const char *path, const char *type,
    struct str body, struct reply *ret);
/* a reply that is not JSON is an error */
int conn_get(struct ctl *c, const char *path, struct reply *ret);
int conn_get_text(struct ctl *c, const char *path, struct reply *ret);
/* As conn_get, but the daemon being away is not reported: for those who go on. */
int conn_poll(struct ctl *c, const char *path, bool text, struct reply *ret);
const char *reply_header(const struct reply *r, const char *name);
void conn_close(struct ctl *c);
int read_input(struct ctl *c, const char *path, struct str *ret); /* "-" = stdin; <= 1 MiB */
int read_file(struct ctl *c, const char *path, size_t bytes_max, struct str *ret);
void pause_ms(int ms);
void pause_failed(int failures); /* in a row, at least 1: doubles from 250 ms to 5 s */
struct round {
	struct arena *arena;
	struct doc *docs;
};
void round_begin(struct ctl *c, struct round *r);
void round_end(struct ctl *c, struct round *r);
void docs_free(struct ctl *c);
/* stream.c: server-sent events. each() gets one event's data. Reconnects with Last-Event-ID; after
 * = "" or the id to begin behind; ever = the daemon answered before, so that its absence now is a
 * restart. */
int conn_events(struct ctl *c, const char *path, const char *after, bool ever,
    bool (*each)(struct ctl *c, const char *data));
/* conn.c, for stream.c: returns a handle with url, credentials and policy set, and its headers in
 * *headers. With stall_s > 0 it is a stream, which ends only if it is silent for so long. */
struct curl_slist;
void *conn_prepare(struct ctl *c, const char *method, const char *path, int64_t stall_s,
    struct curl_slist **headers);
void conn_header(struct ctl *c, struct curl_slist **headers, const char *name, const char *value);
/* says it, returns the exit code */
int conn_problem(struct ctl *c, const struct reply *r);
void reply_parse(struct ctl *c, struct reply *r);
/* text.c */
/* a line to stderr, without control characters */
void say(const char *fmt, ...) PRINTF(1, 2);
size_t text_width(const char *s); /* columns on a terminal */
/* Control characters become '?' (tab and line ends a blank), so that no name can move the
 * cursor. */
char *text_clean(struct arena *a, const char *s);
/* render.c */
enum cell_kind {
	CELL_TEXT = 1,
	CELL_USD,
	CELL_AGE,
	CELL_TIME,
	CELL_INT,
	CELL_REAL,
	CELL_STEPS,
	CELL_GPU,
	CELL_PLACE,
	CELL_SIZE, /* of a fleet: "3/5 0-20", has and wanted, min and max */
	CELL_SAVING, /* of size.hourly_micros or price_micros against on_demand_micros: "68 %" */
	CELL_HAZARD,
	CELL_STATE,
	CELL_HOURS,
	CELL_RATE,
	CELL_INTERVAL, /* of a hazard: "0.0012..0.0340" */
	CELL_CAPACITY, /* of the capacity signals */
	CELL_NUMBER, /* text that is a number, set to the right */
	CELL_SPAN, /* seconds: "0.012s", "4.2s", "2m05s" */
	/* six decimals; whole numbers are micro-dollars. For what is added up by hand */
	CELL_FINE
};
/* When a column is shown. A table wider than the terminal loses SPARE columns, SPARE_1 first. */
enum column_show {
	ALWAYS,
	WIDE, /* only with -o wide and csv */
	SPARE_1,
	SPARE_2,
	SPARE_3,
	SPARE_4
};
struct column {
	const char *head, *path; /* path: dotted members, "pool.region" */
	enum cell_kind kind;
	enum column_show show;
};
/* Text of one cell, in the arena; "" for null. */
const char *cell_text(struct ctl *c, const json_t *row, const struct column *col);
/* Returns a number with at most two decimals. */
const char *amount_text(struct ctl *c, const json_t *v);
const json_t *json_path(const json_t *o, const char *path);
char *usd_text(struct ctl *c, int64_t micros, int digits);
/* fit.c: a table of rows * n cells; width: of each column. In the arena. */
struct grid {
	const struct column **cols;
	const char **heads, **cells;
	size_t *width;
	size_t n, rows,
	    hidden; /* hidden: columns that grid_fit left out, those without any text aside */
};
/* Makes the table fit the terminal. It leaves out empty columns, shortens times, leaves out SPARE
 * columns. Returns the width into which the last column's text must be
 * wrapped, or 0 for no limit. Does nothing for other formats and without a terminal. */
size_t grid_fit(struct ctl *c, struct grid *g);
size_t text_prefix(const char *s, size_t width); /* bytes of the longest start that fits */
/* Returns the bytes of the longest start of s that ends before a word and fits into width columns.
 * A longer word is cut. Returns at least one character. */
size_t text_break(const char *s, size_t width);
/* items: array of objects. whole: what -o json prints. */
int render_list(struct ctl *c, const json_t *whole, const json_t *items, const struct column *cols,
    const char *empty);
/* One object as a list of one (csv, name, wide), or as JSON. */
int render_one(struct ctl *c, json_t *one, const struct column *cols);
int render_json(const json_t *j);
/* After an act: JSON as it came, the id for -o name, else the words on stderr. */
int render_done(struct ctl *c, const struct reply *r, const char *fmt, ...) PRINTF(3, 4);
/* The usual list command: GET, page by page, and render. */
int list_command(struct ctl *c, const char *path, const struct column *cols, const char *empty);
const char *state_color(const struct ctl *c, const char *state);

#define COMMAND(name) int cmd_##name(struct ctl *c)
COMMAND(prices);
COMMAND(pools);
COMMAND(pool_show);
COMMAND(providers);
COMMAND(quota);
COMMAND(backtest);
COMMAND(rebalance_report);
COMMAND(report_recovery);
COMMAND(supply);
COMMAND(queue);
COMMAND(leaks);
COMMAND(leak_end);
COMMAND(leak_keep);
COMMAND(shares);
COMMAND(share_set);
COMMAND(share_unset);
COMMAND(classes);
COMMAND(gpus);
COMMAND(plan);
COMMAND(job_submit);
COMMAND(job_ls);
COMMAND(job_show);
COMMAND(job_why);
COMMAND(job_logs);
COMMAND(job_cancel);
COMMAND(job_wait);
COMMAND(job_budget);
COMMAND(fleet_create);
COMMAND(fleet_ls);
COMMAND(fleet_show);
COMMAND(fleet_scale);
COMMAND(fleet_set);
COMMAND(fleet_demand);
COMMAND(fleet_rm);
COMMAND(node_ls);
COMMAND(node_show);
COMMAND(node_drain);
COMMAND(node_rm);
COMMAND(rebalance);
COMMAND(cost);
COMMAND(events);
COMMAND(whoami);
COMMAND(version);
COMMAND(token_ls);
COMMAND(token_create);
COMMAND(token_rm);
COMMAND(doctor);
COMMAND(simulate);
COMMAND(login);
COMMAND(completion);
COMMAND(help_run);
COMMAND(man);
/* cmd_gpus.c, for prices */
int prices_gpus(struct ctl *c);
/* cmd_market.c, for pools show */
extern const struct column pool_cols[];
/* cmd_plan.c: head's columns and, for -o wide and csv, those of every term of a score. */
const struct column *score_columns(struct ctl *c, const struct column *head);
/* cmd_job.c, for job show: the columns of a job */
extern const struct column job_cols[];

#endif
