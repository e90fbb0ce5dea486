/* spotd: arguments, then the work asked for. */
#include "base/base.h"
#include "api/api.h"
#include "base/text/text.h"
#include "base/crypto/crypto.h"
#include "spotd/daemon.h"
#include "spotd/version.h"
#include "store/store.h"

#include <signal.h>
#include <sys/resource.h>

static const char usage[] =
    "usage: spotd [--config FILE] [--local] [--role api|engine|all] [--state-file PATH]\n"
    "       spotd [--config FILE] --check-config | --print-config | --migrate\n"
    "       spotd [--config FILE] [--local] --create-token NAME --role ROLE\n"
    "\n"
    "  --config FILE        configuration (INI); default: built-in values\n"
    "  --local              starts a private Postgres under $XDG_DATA_HOME/spotbroker; uses the\n"
    "                       provider credentials it finds, listens on loopback unless\n"
    "                       [api] listen says otherwise, writes an admin token to a file\n"
    "  --role ROLE          api: public port, no cloud keys; engine: cloud keys, no port; all "
    "(default)\n"
    "  --state-file PATH    writes {\"port\",\"pid\",\"install\"} to PATH when ready\n"
    "  --check-config       checks the configuration, prints every mistake, exits\n"
    "  --print-config       prints every key with its value and meaning\n"
    "  --migrate            brings the database's schema up to date and exits\n"
    "  --create-token NAME  creates an API token with --role admin|lead|engineer|viewer|service, "
    "prints it\n"
    "  --version, --help\n"
    "\n"
    "The database is [database] dsn or DATABASE_URL. SIGHUP reloads, SIGTERM drains, then "
    "stops.\n";

struct args {
	struct options options;
	const char *role, *token_name;
	bool check, print, migrate;
};

static bool flag_take(struct args *a, const char *arg)
{
	static const struct {
		const char *name;
		size_t at;
	} flags[] = {
		{ "--local", offsetof(struct args, options.local) },
		{ "--check-config", offsetof(struct args, check) },
		{ "--print-config", offsetof(struct args, print) },
		{ "--migrate", offsetof(struct args, migrate) },
	};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		if (strcmp(arg, flags[i].name) == 0) {
			*(bool *)(void *)((char *)a + flags[i].at) = true;
			return true;
		}
	}
	return false;
}

/* --name VALUE or --name=VALUE; i moves past what was used. */
static bool value_take(struct args *a, int argc, char **argv, int *i)
{
	static const struct {
		const char *name;
		size_t at;
	} values[] = {
		{ "--config", offsetof(struct args, options.config) },
		{ "--role", offsetof(struct args, role) },
		{ "--state-file", offsetof(struct args, options.state_file) },
		{ "--create-token", offsetof(struct args, token_name) },
	};

	for (size_t k = 0; k < ARRAY_LEN(values); k++) {
		size_t n = strlen(values[k].name);
		const char **to = (const char **)(void *)((char *)a + values[k].at);

		if (strncmp(argv[*i], values[k].name, n) != 0) {
			continue;
		}
		if (argv[*i][n] == '=') {
			*to = argv[*i] + n + 1;
			return true;
		}
		if (argv[*i][n] == '\0' && *i + 1 < argc) {
			*to = argv[++*i];
			return true;
		}
	}
	return false;
}

static int usage_error(const char *what, const char *value)
{
	fprintf(stderr, "spotd: %s%s%s\nTry spotd --help.\n", what, value != NULL ? ": " : "",
	    value != NULL ? value : "");
	return 2;
}

/* -1: go on; else the exit status. */
static int args_read(struct args *a, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			fputs(usage, stdout);
			return 0;
		}
		if (strcmp(argv[i], "--version") == 0) {
			puts("spotd " SPOTD_VERSION);
			return 0;
		}
		if (!flag_take(a, argv[i]) && !value_take(a, argc, argv, &i)) {
			return usage_error("unknown argument, or its value is missing", argv[i]);
		}
	}
	if (a->token_name != NULL) {
		return a->role == NULL ? usage_error("--create-token needs --role", NULL) : -1;
	}
	if (a->role == NULL || strcmp(a->role, "all") == 0) {
		a->options.role_api = a->options.role_engine = true;
	} else if (strcmp(a->role, "api") == 0) {
		a->options.role_api = true;
	} else if (strcmp(a->role, "engine") == 0) {
		a->options.role_engine = true;
	} else {
		return usage_error("--role must be api, engine or all", a->role);
	}
	return -1;
}

static int fail_with(const struct spot_err *err)
{
	fprintf(stderr, "spotd: %s\n", err->text);
	return 1;
}

static int print_config(const struct spotd_conf *conf)
{
	struct sbuf b;

	sbuf_init(&b, 1 << 20);
	spotd_conf_print(conf, true, &b);
	fwrite(b.p, 1, b.n, stdout);
	sbuf_fini(&b);
	return 0;
}

/* Everything that is wrong, a line each, as compilers print it. The API role has neither providers
 * nor their keys. */
static int check_config(const struct args *a)
{
	AUTO(arena) struct arena *arena = arena_new(0);
	AUTO(sbuf) struct sbuf b;
	struct conf_mistakes all = { .arena = arena };
	struct spotd_conf conf = { 0 };
	struct spot_err err;

	sbuf_init(&b, 1 << 20);
	(void)!spotd_conf_read(a->options.config, &conf, &all, &err);
	if (conf.arena != NULL && a->options.role_engine) {
		providers_check(&conf, &b, &all);
	}
	fwrite(b.p, 1, b.n, stdout);
	for (size_t i = 0; i < all.n; i++) {
		fprintf(stderr, "%s\n", all.list[i]);
	}
	spotd_conf_free(&conf);
	return all.n == 0 ? 0 : 1;
}

static int token_print(const char *dsn, const struct args *a)
{
	char token[API_TOKEN_MAX];
	struct spot_err err;

	if (token_create(dsn, a->token_name, a->role, token, &err) != SPOT_OK) {
		return fail_with(&err);
	}
	puts(token);
	mem_wipe(token, sizeof(token));
	return 0;
}

static int daemon_serve(const struct args *a, struct spotd_conf *conf, const char *dsn,
    struct local *local)
{
	struct spot_err err;
	bool migrates = conf->migrate || a->migrate || a->options.local;

	if (session_check(dsn, &err) != SPOT_OK) {
		return fail_with(&err);
	}
	if (schema_up_to_date(dsn,
		migrates && (a->options.role_engine || a->token_name != NULL || a->migrate),
		&err) != SPOT_OK) {
		return fail_with(&err);
	}
	if (a->migrate) {
		return 0;
	}
	if (a->token_name != NULL) {
		return token_print(dsn, a);
	}
	if (a->options.local && local_token(local, dsn, &err) != SPOT_OK) {
		return fail_with(&err);
	}
	if (a->options.local) {
		fprintf(stderr, "spotd: data in %s, admin token in %s\n", local->dir,
		    local->token_file);
	}
	return daemon_run(&a->options, conf, dsn, a->options.local ? local->token_file : "");
}

/* Acts on a valid configuration. */
static int conf_load(const struct args *a, struct spotd_conf *conf)
{
	struct local local = { 0 };
	const char *dsn;
	struct spot_err err;
	int rc;

	if (a->print) {
		return print_config(conf);
	}
	dsn = str_empty(conf->dsn) ? getenv("DATABASE_URL") : conf->dsn;
	if (str_empty(dsn) && a->options.local) {
		if (local_start(&local, &err) != SPOT_OK) {
			return fail_with(&err);
		}
		dsn = local_dsn(&local);
	}
	if (str_empty(dsn)) {
		return usage_error("no database configured; set [database] dsn or DATABASE_URL, or "
				   "use --local",
		    NULL);
	}
	rc = daemon_serve(a, conf, dsn, &local);
	local_stop(&local);
	return rc;
}

/* A shell's limit of 1024 files would be a limit of connections: every node keeps one. */
#define FILES_WANTED 65536

static void limits_set(void)
{
	struct rlimit none = { 0, 0 }, files;

	(void)setrlimit(RLIMIT_CORE, &none); /* a core would hold keys */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_WANTED) {
		files.rlim_cur = MIN(files.rlim_max, (rlim_t)FILES_WANTED);
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

int main(int argc, char **argv)
{
	struct args a = { 0 };
	struct spotd_conf conf = { 0 };
	struct spot_err err;
	int rc = args_read(&a, argc, argv);

	if (rc >= 0) {
		return rc;
	}
	limits_set();
	(void)signal(SIGPIPE, SIG_IGN);
	if (a.check && !a.print) {
		return check_config(&a);
	}
	if (spotd_conf_read(a.options.config, &conf, NULL, &err) != SPOT_OK) {
		return fail_with(&err);
	}
	rc = conf_load(&a, &conf);
	spotd_conf_free(&conf);
	return rc;
}
