/* Options: long and short, anywhere after the command, checked against the command's table. */
#include "base/base.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "spotctl/ctl.h"

const struct ctl_opt common_opts[] = {
	{"output", 'o', "FORMAT", "table, wide, json, csv or name", NULL},
	{"watch", 0, "SECONDS", "repeat every so many seconds (default 2)", NULL},
	{"url", 0, "URL", "the daemon, such as https://spot.example.com", NULL},
	{"token-file", 0, "FILE", "file with the API token (mode 0600)", NULL},
	{"ca-file", 0, "FILE", "certificate authority of the daemon", NULL},
	{"no-color", 0, NULL, "plain text", NULL},
	{"help", 'h', NULL, "this help", NULL},
	{0}};

static const struct ctl_opt *find_in(const struct ctl_opt *o, const char *name, size_t n, char letter)
{
	for (; o != NULL && o->name != NULL; o++) {
		if (letter != 0 ? o->letter == letter : strlen(o->name) == n && strncmp(o->name, name, n) == 0) {
			return o;
		}
	}
	return NULL;
}

static const struct ctl_opt *find_opt(const struct ctl *c, const char *name, size_t n, char letter)
{
	const struct ctl_opt *o = find_in(c->cmd->opts, name, n, letter);

	return o != NULL ? o : find_in(common_opts, name, n, letter);
}

static bool number_like(const char *s)
{
	return s != NULL && *s >= '0' && *s <= '9';
}

/* Returns how many words were used beyond the option itself, or -1. */
static int take_option(struct ctl *c, const char *word, const char *next)
{
	bool is_long = word[1] == '-';
	const char *name = is_long ? word + 2 : word + 1;
	const char *equals = is_long ? strchr(name, '=') : NULL;
	size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
	const struct ctl_opt *o = find_opt(c, name, n, is_long ? 0 : name[0]);
	const char *value = "1";
	int used = 0;

	if (is_long && n == 4 && strncmp(name, "json", 4) == 0) {
		c->format = FORMAT_JSON; /* --json is short for -o json everywhere */
		return 0;
	}
	if (o == NULL || c->values_n == CTL_VALUES_MAX) {
		say("spotctl %s: no option '%s' ('--help' tells which there are)", c->cmd->noun, word);
		return -1;
	}
	if (o->arg != NULL && equals != NULL) {
		value = equals + 1;
	} else if (o->arg != NULL && !is_long && name[1] != '\0') {
		value = name + 1;
	} else if (o->arg != NULL && strcmp(o->name, "watch") == 0 && !number_like(next)) {
		value = "2";
	} else if (o->arg != NULL) {
		if (next == NULL) {
			say("spotctl %s: --%s needs a %s", c->cmd->noun, o->name, o->arg);
			return -1;
		}
		value = next;
		used = 1;
	}
	c->given[c->values_n] = o;
	c->values[c->values_n++] = value;
	return used;
}

static int apply_common(struct ctl *c)
{
	static const char *const formats[] = {"", "table", "wide", "json", "csv", "name"};
	const char *format = opt_value(c, "output"), *watch = opt_value(c, "watch");

	if (opt_flag(c, "no-color")) {
		c->color = false;
	}
	if (watch != NULL && !parse_i64(watch, 1, 86400, &c->watch_s)) {
		say("spotctl: --watch wants seconds, not '%s'", watch);
		return CTL_USAGE;
	}
	if (format == NULL) {
		return CTL_OK;
	}
	for (size_t i = 1; i < ARRAY_LEN(formats); i++) {
		if (strcmp(formats[i], format) == 0) {
			c->format = (enum ctl_format)i;
			return CTL_OK;
		}
	}
	say("spotctl: -o %s: table, wide, json, csv or name", format);
	return CTL_USAGE;
}

int opts_parse(struct ctl *c, int argc, char **argv)
{
	bool only_args = false;

	for (int i = 0; i < argc; i++) {
		int used = 0;

		if (!only_args && strcmp(argv[i], "--") == 0) {
			only_args = true;
		} else if (!only_args && argv[i][0] == '-' && argv[i][1] != '\0') {
			used = take_option(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
			if (used < 0) {
				return CTL_USAGE;
			}
			i += used;
		} else if (c->args_n < CTL_ARGS_MAX) {
			c->args[c->args_n++] = argv[i];
		}
	}
	if (opt_flag(c, "help")) {
		return CTL_OK;
	}
	if (c->args_n < c->cmd->args_min || c->args_n > c->cmd->args_max) {
		say("usage: spotctl %s%s%s %s", c->cmd->noun, *c->cmd->verb != '\0' ? " " : "", c->cmd->verb, c->cmd->args);
		return CTL_USAGE;
	}
	return apply_common(c);
}

const char *opt_value(const struct ctl *c, const char *name)
{
	for (int i = c->values_n - 1; i >= 0; i--) {
		if (strcmp(c->given[i]->name, name) == 0) {
			return c->values[i];
		}
	}
	return NULL;
}

bool opt_flag(const struct ctl *c, const char *name)
{
	return opt_value(c, name) != NULL;
}

char *opts_path(struct ctl *c, const char *path)
{
	AUTO(sbuf) struct sbuf b;
	char sep = strchr(path, '?') != NULL ? '&' : '?';

	sbuf_init(&b, 16384);
	sbuf_puts(&b, path);
	for (int i = 0; i < c->values_n; i++) {
		if (c->given[i]->query != NULL) {
			sbuf_printf(&b, "%c%s=%s", sep, c->given[i]->query, url_encode(c->arena, c->values[i], false));
			sep = '&';
		}
	}
	return arena_strdup(c->arena, b.p);
}
