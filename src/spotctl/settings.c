/* Where the daemon is and who we are: flags, environment, the file that `spotctl login` writes. */
#include "base/base.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"
#include "spotctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define URL_DEFAULT "http://127.0.0.1:8642"

struct saved {
	const char *url, *token_file, *ca_file;
};
static const struct conf_item items[] = {
	{"server", "url", "", NULL, "2000", "Where the daemon listens.", CONF_STR, 0, offsetof(struct saved, url)},
	{"server", "token_file", "", NULL, "2000", "File with the API token, mode 0600.", CONF_PATH, 0,
	    offsetof(struct saved, token_file)},
	{"server", "ca_file", "", NULL, "2000", "Certificate authority of the daemon.", CONF_PATH, 0,
	    offsetof(struct saved, ca_file)},
};

static char *config_dir(struct ctl *c)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (!str_empty(xdg)) {
		return arena_printf(c->arena, "%s/spotctl", xdg);
	}
	return arena_printf(c->arena, "%s/.config/spotctl", home != NULL ? home : ".");
}

static int load_saved(struct ctl *c, struct saved *ret)
{
	char *path = arena_printf(c->arena, "%s/config.ini", config_dir(c));
	FILE *f = fopen(path, "re");
	struct conf_file named;
	struct spot_err err = {0};
	char buf[8192];
	size_t n;

	if (f == NULL) {
		return CTL_OK;
	}
	n = fread(buf, 1, sizeof(buf), f);
	fclose(f);
	if (conf_parse(c->arena, items, ARRAY_LEN(items), path, (struct str){buf, n}, ret, &named, &err) != SPOT_OK) {
		say("spotctl: %s", err.text);
		return CTL_USAGE;
	}
	return CTL_OK;
}

static const char *pick(const char *flag, const char *env, const char *saved)
{
	const char *e = getenv(env);

	if (!str_empty(flag)) {
		return flag;
	}
	return !str_empty(e) ? e : saved;
}

/* The admin token that a local daemon leaves for its own user. */
static char *local_token_file(struct ctl *c)
{
	const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	char *path = !str_empty(xdg) ? arena_printf(c->arena, "%s/spotbroker/admin-token", xdg)
	                             : arena_printf(c->arena, "%s/.local/share/spotbroker/admin-token", home != NULL ? home : ".");

	return access(path, R_OK) == 0 ? path : NULL;
}

int settings_load(struct ctl *c)
{
	struct saved s = {"", "", ""};
	const char *token_file;
	struct secret token = {0};
	struct spot_err err = {0};
	int rc = load_saved(c, &s);

	if (rc != CTL_OK) {
		return rc;
	}
	c->url = pick(opt_value(c, "url"), "SPOTCTL_URL", s.url);
	c->url = str_empty(c->url) ? URL_DEFAULT : c->url;
	c->ca_file = pick(opt_value(c, "ca-file"), "SPOTCTL_CA_FILE", s.ca_file);
	token_file = pick(opt_value(c, "token-file"), "SPOTCTL_TOKEN_FILE", s.token_file);
	if (str_empty(token_file)) {
		token_file = local_token_file(c);
	}
	if (str_empty(token_file)) {
		return CTL_OK;
	}
	if (secret_read_file(&token, token_file, &err) != SPOT_OK) {
		say("spotctl: %s", err.text);
		return CTL_DENIED;
	}
	c->token = arena_strdup(c->arena, secret_reveal(&token));
	secret_fini(&token);
	return CTL_OK;
}

static int write_private(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t n = strlen(text);
	bool ok;

	if (fd < 0) {
		say("spotctl: %s: %s", path, strerror(errno));
		return CTL_FAILED;
	}
	ok = fchmod(fd, 0600) == 0 && write(fd, text, n) == (ssize_t)n;
	ok = close(fd) == 0 && ok;
	if (!ok) {
		say("spotctl: %s: cannot write: %s", path, strerror(errno));
	}
	return ok ? CTL_OK : CTL_FAILED;
}

int cmd_login(struct ctl *c)
{
	char *dir = config_dir(c), *token = arena_printf(c->arena, "%s/token", dir);
	char *config = arena_printf(c->arena, "%s/config.ini", dir);
	char line[512] = "";
	struct reply r;
	int rc;

	if (isatty(STDIN_FILENO) == 1) {
		fprintf(stderr, "token: ");
	}
	if (fgets(line, sizeof(line), stdin) == NULL) {
		say("spotctl login: no token on standard input");
		return CTL_USAGE;
	}
	line[strcspn(line, "\r\n")] = '\0';
	c->url = c->args[0];
	c->token = line;
	rc = conn_get(c, "/v1/whoami", &r);
	if (rc != CTL_OK) {
		return rc;
	}
	for (char *p = dir + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		mkdir(dir, 0755);
		*p = '/';
	}
	mkdir(dir, 0700);
	rc = write_private(token, line);
	mem_wipe(line, sizeof(line));
	if (rc == CTL_OK) {
		rc = write_private(config, arena_printf(c->arena, "[server]\nurl = %s\ntoken_file = %s\n%s%s%s", c->url, token,
		    str_empty(c->ca_file) ? "" : "ca_file = ", str_empty(c->ca_file) ? "" : c->ca_file,
		    str_empty(c->ca_file) ? "" : "\n"));
	}
	if (rc == CTL_OK) {
		say("logged in to %s as %s; saved in %s", c->url, json_str(r.json, "name", "?", NULL), config);
	}
	return rc;
}
