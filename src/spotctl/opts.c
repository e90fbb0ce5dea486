/* Options: long and short, anywhere after the command and common ones in front of it, checked
 * against the tables. */
#include "base/base.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

const struct ctl_opt common_opts[] = {
	{ "output", 'o', "FORMAT", "table, wide, json, csv or name", NULL },
	{ "json", 0, NULL, "short for -o json", NULL },
	{ "watch", 0, "[SECONDS]", "repeat the command at this interval (default 2)", NULL },
	{ "url", 0, "URL", "address of the daemon, such as https://spot.example.com", NULL },
	{ "token-file", 0, "FILE", "file with the API token (mode 0600)", NULL },
	{ "ca-file", 0, "FILE", "certificate authority of the daemon", NULL },
	{ "no-color", 0, NULL, "plain text", NULL }, { "help", 'h', NULL, "this help", NULL }, { 0 }
};

bool opt_applies(const struct ctl_cmd *cmd, const struct ctl_opt *o)
{
	if (strcmp(o->name, "output") == 0 || strcmp(o->name, "json") == 0 ||
	    strcmp(o->name, "no-color") == 0) {
		return (cmd->flags & CTL_OUT) != 0;
	}
	if (strcmp(o->name, "watch") == 0) {
		return (cmd->flags & CTL_WATCH) != 0;
	}
	if (strcmp(o->name, "url") == 0 || strcmp(o->name, "token-file") == 0) {
		return (cmd->flags & (CTL_OFFLINE | CTL_SERVER)) != CTL_OFFLINE;
	}
	if (strcmp(o->name, "ca-file") == 0) {
		return (cmd->flags & (CTL_OFFLINE | CTL_SERVER | CTL_CA)) != CTL_OFFLINE;
	}
	return true;
}

static const struct ctl_opt *find_in(const struct ctl_opt *o, const char *name, size_t n,
    char letter)
{
	for (; o != NULL && o->name != NULL; o++) {
		if (letter != 0 ? o->letter == letter
				: strlen(o->name) == n && strncmp(o->name, name, n) == 0) {
			return o;
		}
	}
	return NULL;
}

static const struct ctl_opt *find_opt(const struct ctl *c, const char *name, size_t n, char letter)
{
	const struct ctl_opt *o = c->cmd != NULL ? find_in(c->cmd->opts, name, n, letter) : NULL;

	return o != NULL ? o : find_in(common_opts, name, n, letter);
}

static const char *cmd_name(const struct ctl *c)
{
	static char name[64];

	if (c->cmd == NULL) {
		return "spotctl";
	}
	snprintf(name, sizeof(name), "spotctl %s%s%s", c->cmd->noun,
	    *c->cmd->verb != '\0' ? " " : "", c->cmd->verb);
	return name;
}

static bool number_like(const char *s)
{
	return s != NULL && *s >= '0' && *s <= '9';
}

static bool opt_keep(struct ctl *c, const struct ctl_opt *o, const char *value)
{
	if (c->values_n == CTL_VALUES_MAX) {
		say("%s: more than %d options", cmd_name(c), CTL_VALUES_MAX);
		return false;
	}
	c->given[c->values_n] = o;
	c->values[c->values_n++] = value;
	return true;
}

/* The value of an option that wants one: behind "=" or the letter (rest), or the next word. Returns
 * words used, or -1. */
static int take_value(struct ctl *c, const struct ctl_opt *o, const char *rest, const char *next)
{
	if (rest != NULL) {
		return opt_keep(c, o, rest) ? 0 : -1;
	}
	if (o->arg[0] == '[' && !number_like(next)) {
		return opt_keep(c, o, "") ? 0 : -1;
	}
	if (next == NULL) {
		say("%s: --%s needs a value: %s", cmd_name(c), o->name, o->arg);
		return -1;
	}
	return opt_keep(c, o, next) ? 1 : -1;
}

static int unknown_option(const struct ctl *c, const char *word)
{
	say("%s: no option '%s'; '%s --help' lists the options", cmd_name(c), word, cmd_name(c));
	return -1;
}

/* Returns how many words were used beyond the option itself, or -1. */
static int take_long(struct ctl *c, const char *word, const char *next)
{
	const char *name = word + 2, *equals = strchr(name, '=');
	const struct ctl_opt *o =
	    find_opt(c, name, equals != NULL ? (size_t)(equals - name) : strlen(name), 0);

	if (o == NULL) {
		return unknown_option(c, word);
	}
	if (o->arg != NULL) {
		return take_value(c, o, equals != NULL ? equals + 1 : NULL, next);
	}
	if (equals != NULL) {
		say("%s: --%s takes no value", cmd_name(c), o->name);
		return -1;
	}
	return opt_keep(c, o, "1") ? 0 : -1;
}

/* "-n5", "-n 5", "-wf" */
static int take_letters(struct ctl *c, const char *word, const char *next)
{
	for (const char *p = word + 1; *p != '\0'; p++) {
		const struct ctl_opt *o = find_opt(c, NULL, 0, *p);

		if (o == NULL) {
			return unknown_option(c, word);
		}
		if (o->arg != NULL) {
			return take_value(c, o, p[1] != '\0' ? p + 1 : NULL, next);
		}
		if (!opt_keep(c, o, "1")) {
			return -1;
		}
	}
	return 0;
}

static int take_option(struct ctl *c, const char *word, const char *next)
{
	return word[1] == '-' ? take_long(c, word, next) : take_letters(c, word, next);
}

static int apply_format(struct ctl *c)
{
	static const char *const formats[] = { "", "table", "wide", "json", "csv", "name" };
	const char *format = opt_value(c, "output");

	if (opt_flag(c, "json")) {
		c->format = FORMAT_JSON;
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
	say("%s: no format '%s'; -o takes table, wide, json, csv or name", cmd_name(c), format);
	return CTL_USAGE;
}

static int apply_common(struct ctl *c)
{
	const char *watch = opt_value(c, "watch");

	for (int i = 0; i < c->values_n; i++) {
		const struct ctl_opt *o = c->given[i];

		if (o >= common_opts && o < common_opts + ARRAY_LEN(common_opts) &&
		    !opt_applies(c->cmd, o)) {
			say("%s: --%s does not apply here", cmd_name(c), o->name);
			return CTL_USAGE;
		}
	}
	if (opt_flag(c, "no-color")) {
		c->color = false;
	}
	if (watch != NULL && *watch == '\0') {
		c->watch_s = 2;
	} else if (watch != NULL && !parse_i64(watch, 1, 86400, &c->watch_s)) {
		say("%s: --watch must be seconds from 1 to 86400, not '%s'", cmd_name(c), watch);
		return CTL_USAGE;
	}
	return apply_format(c);
}

int opts_parse_front(struct ctl *c, int argc, char **argv)
{
	int i = 0;

	/* --help in front is the command "help" */
	while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0' &&
	    strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) {
		int used = take_option(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL);

		if (used < 0) {
			return -1;
		}
		i += 1 + used;
	}
	return i;
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
		} else {
			say("%s: more than %d arguments", cmd_name(c), CTL_ARGS_MAX);
			return CTL_USAGE;
		}
	}
	if (opt_flag(c, "help")) {
		return CTL_OK;
	}
	if (c->args_n < c->cmd->args_min || c->args_n > c->cmd->args_max) {
		say("usage: %s%s%s", cmd_name(c), *c->cmd->args != '\0' ? " " : "", c->cmd->args);
		return CTL_USAGE;
	}
	for (int i = 0; i < c->args_n; i++) {
		if (c->args[i][0] == '\0') {
			say("%s: an argument must not be empty", cmd_name(c));
			return CTL_USAGE;
		}
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

	sbuf_init(&b, 65536);
	sbuf_puts(&b, path);
	for (int i = 0; i < c->values_n; i++) {
		/* the last of several counts, as everywhere */
		if (c->given[i]->query != NULL && opt_value(c, c->given[i]->name) == c->values[i]) {
			sbuf_printf(&b, "%c%s=%s", sep, c->given[i]->query,
			    url_encode(c->arena, c->values[i], false));
			sep = '&';
		}
	}
	return arena_strdup(c->arena, b.p);
}
