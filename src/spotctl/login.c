/* login: tries the token, then writes it and where the server is into ~/.config/spotctl. */
#include "base/base.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "spotctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define TOKEN_MAX 4096

/* A whole new file takes the old one's place, so that a full disk leaves the old login. */
static int write_private(struct ctl *c, const char *path, const char *text)
{
	char *part = arena_printf(c->arena, "%s.new", path);
	int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	size_t n = strlen(text);
	bool ok;

	if (fd < 0) {
		say("spotctl: %s: %s", part, strerror(errno));
		return CTL_FAILED;
	}
	ok = fchmod(fd, 0600) == 0 && write(fd, text, n) == (ssize_t)n && fsync(fd) == 0;
	ok = close(fd) == 0 && ok;
	ok = ok && rename(part, path) == 0;
	if (!ok) {
		say("spotctl: cannot write '%s': %s", path, strerror(errno));
		(void)unlink(part);
	}
	return ok ? CTL_OK : CTL_FAILED;
}

static void make_dirs(char *dir)
{
	for (char *p = dir + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		/* a failure shows when the file is written, and is reported then */
		(void)mkdir(dir, 0755);
		*p = '/';
	}
	(void)mkdir(dir, 0700);
}

/* From a terminal without echo. The length, or -1. */
static int read_line(char *line, size_t size)
{
	struct termios old, quiet;
	bool ask = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &old) == 0;
	bool got;

	if (ask) {
		fprintf(stderr, "token: ");
		quiet = old;
		quiet.c_lflag &= ~(tcflag_t)ECHO;
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
	}
	got = fgets(line, (int)size, stdin) != NULL;
	if (ask) {
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
		fputc('\n', stderr);
	}
	if (!got) {
		return -1;
	}
	line[strcspn(line, "\r\n")] = '\0';
	return (int)strlen(line);
}

static int login_save(struct ctl *c, const char *token, char **ret_config)
{
	char *dir = config_dir(c), *token_path = arena_printf(c->arena, "%s/token", dir);
	const char *ca = c->ca_file;
	char *real = str_empty(ca) ? NULL : realpath(ca, NULL);
	char *text = arena_printf(c->arena, "[server]\nurl = %s\ntoken_file = %s\n%s%s%s", c->url,
	    token_path, real != NULL ? "ca_file = " : "", real != NULL ? real : "",
	    real != NULL ? "\n" : "");
	int rc;

	free(real);
	*ret_config = arena_printf(c->arena, "%s/config.ini", dir);
	make_dirs(dir);
	rc = write_private(c, token_path, token);
	return rc != CTL_OK ? rc : write_private(c, *ret_config, text);
}

static int login_with(struct ctl *c, char *token)
{
	const char *ca = opt_value(c, "ca-file");
	char *config = NULL;
	struct reply r;
	int rc;

	c->ca_file = !str_empty(ca) ? ca : getenv("SPOTCTL_CA_FILE");
	c->token = token;
	rc = conn_get(c, "/v1/whoami", &r);
	if (rc == CTL_OK) {
		rc = login_save(c, token, &config);
	}
	if (rc == CTL_OK) {
		say("logged in to %s as %s (%s); saved in %s", c->url,
		    json_str(r.json, "name", "?", NULL), json_str(r.json, "role", "?", NULL),
		    config);
	}
	c->token = NULL;
	return rc;
}

int cmd_login(struct ctl *c)
{
	char token[TOKEN_MAX] = "";
	int n, rc;

	c->url = url_normalise(c, c->args[0]);
	if (c->url == NULL) {
		return CTL_USAGE;
	}
	if (str_prefix(c->url, "http:") && !url_loopback(c->url)) {
		say("warning: http sends the token unencrypted to %s; use https", c->url);
	}
	n = read_line(token, sizeof(token));
	if (n <= 0 || n == TOKEN_MAX - 1) {
		say("spotctl login: %s on standard input", n > 0 ? "no valid token" : "no token");
		mem_wipe(token, sizeof(token));
		return CTL_USAGE;
	}
	rc = login_with(c, token);
	mem_wipe(token, sizeof(token));
	return rc;
}
