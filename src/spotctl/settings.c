/*
 * The daemon's address and our token: from flags, the environment, and the file that `spotctl
 * login` writes. A token that was saved for one server is not sent to another that --url or
 * SPOTCTL_URL names.
 */
#include "base/base.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"
#include "spotctl/ctl.h"

#include <unistd.h>

#define URL_DEFAULT "http://127.0.0.1:8642"

struct saved {
	const char *url, *token_file, *ca_file;
};
static const struct conf_item items[] = {
	{ "server", "url", "", NULL, "2000", "Address of the daemon.", CONF_STR, 0,
	    offsetof(struct saved, url) },
	{ "server", "token_file", "", NULL, "2000", "File with the API token, mode 0600.",
	    CONF_PATH, 0, offsetof(struct saved, token_file) },
	{ "server", "ca_file", "", NULL, "2000", "Certificate authority of the daemon.", CONF_PATH,
	    0, offsetof(struct saved, ca_file) },
};

char *config_dir(struct ctl *c)
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
	struct spot_err err = { 0 };
	char buf[8192];
	size_t n;

	if (f == NULL) {
		return CTL_OK;
	}
	n = fread(buf, 1, sizeof(buf), f);
	fclose(f);
	if (n == sizeof(buf)) {
		say("spotctl: '%s' is larger than 8 KiB; 'spotctl login URL' rewrites it", path);
		return CTL_USAGE;
	}
	if (conf_parse(c->arena, items, ARRAY_LEN(items), path, (struct str){ buf, n }, ret, NULL,
		&err) != SPOT_OK) {
		say("spotctl: %s", err.text);
		return CTL_USAGE;
	}
	return CTL_OK;
}

static const char *setting_given(const struct ctl *c, const char *flag, const char *env)
{
	const char *v = opt_value(c, flag);

	return !str_empty(v) ? v : getenv(env);
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static const char *host_of(const char *url)
{
	const char *p = strstr(url, "://");

	return p != NULL ? p + 3 : url;
}

char *url_normalise(struct ctl *c, const char *url)
{
	char *u = strstr(url, "://") != NULL ? arena_strdup(c->arena, url)
					     : arena_printf(c->arena, "https://%s", url);
	size_t n = strlen(u);
	const char *host = host_of(u);

	while (n > 0 && u[n - 1] == '/') {
		u[--n] = '\0';
	}
	if ((!str_prefix(u, "http://") && !str_prefix(u, "https://")) || *host == '\0' ||
	    *host == '/') {
		say("spotctl: URL '%.200s' must be http:// or https:// and a host", url);
		return NULL;
	}
	/* it would end up in messages and process lists */
	if (memchr(host, '@', strcspn(host, "/")) != NULL) {
		say("spotctl: the URL must not have a user or password; put the token into a file "
		    "(--token-file)");
		return NULL;
	}
	if (strpbrk(host, "?#\\ \t\r\n") != NULL) {
		say("spotctl: URL '%.200s' must have only a host, a port and a path", url);
		return NULL;
	}
	return u;
}

bool url_loopback(const char *url)
{
	static const char *const hosts[] = { "127.0.0.1", "localhost", "[::1]" };
	const char *host = host_of(url);

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		size_t n = strlen(hosts[i]);

		if (strncmp(host, hosts[i], n) == 0 &&
		    (host[n] == '\0' || host[n] == ':' || host[n] == '/')) {
			return true;
		}
	}
	return false;
}

/* ---- the token ------------------------------------------------------------------------------- */

/* The admin token that a local daemon leaves for its own user. */
static const char *local_token_file(struct ctl *c)
{
	const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	const char *path;

	if (!str_empty(xdg)) {
		path = arena_printf(c->arena, "%s/spotbroker/admin-token", xdg);
	} else if (geteuid() == 0) {
		path = "/var/lib/spotbroker/admin-token";
	} else {
		path = arena_printf(c->arena, "%s/.local/share/spotbroker/admin-token",
		    home != NULL ? home : ".");
	}
	return url_loopback(c->url) && access(path, R_OK) == 0 ? path : NULL;
}

static const char *token_file_of(struct ctl *c, const struct saved *s)
{
	const char *file = setting_given(c, "token-file", "SPOTCTL_TOKEN_FILE");

	if (str_empty(file) && !str_empty(s->token_file) && strcmp(c->url, s->url) == 0) {
		file = s->token_file;
	}
	return str_empty(file) ? local_token_file(c) : file;
}

static int read_token(struct ctl *c, const char *path)
{
	struct secret token = { 0 };
	struct spot_err err = { 0 };

	if (secret_read_file(&token, path, &err) != SPOT_OK) {
		say("spotctl: %s", err.text);
		return CTL_DENIED;
	}
	c->token = arena_strdup(c->arena, secret_reveal(&token));
	secret_fini(&token);
	if (c->token[strcspn(c->token, "\r\n")] != '\0' || *c->token == '\0') {
		say("spotctl: token file '%s' must have exactly one line", path);
		return CTL_DENIED;
	}
	return CTL_OK;
}

int settings_load(struct ctl *c)
{
	struct saved s = { "", "", "" };
	const char *url = setting_given(c, "url", "SPOTCTL_URL"),
		   *ca = setting_given(c, "ca-file", "SPOTCTL_CA_FILE"), *token_file;
	int rc = load_saved(c, &s);

	if (rc != CTL_OK) {
		return rc;
	}
	s.url = str_empty(s.url) ? URL_DEFAULT : url_normalise(c, s.url);
	c->url = str_empty(url) ? s.url : url_normalise(c, url);
	if (c->url == NULL || s.url == NULL) {
		return CTL_USAGE;
	}
	c->ca_file = str_empty(ca) && strcmp(c->url, s.url) == 0 ? s.ca_file : ca;
	token_file = token_file_of(c, &s);
	return str_empty(token_file) ? CTL_OK : read_token(c, token_file);
}
