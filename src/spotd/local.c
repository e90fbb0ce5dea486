/*
 * spotd --local: a private Postgres under $XDG_DATA_HOME/spotbroker (root: /var/lib/spotbroker) and
 * an admin token beside it (0600), made once. Everything of it can be deleted by deleting that
 * folder. The first start copies a cluster that the build made (template_main.c).
 */
#include "base/base.h"
#include "api/api.h"
#include "base/crypto/crypto.h"
#include "base/text/text.h"
#include "io/cluster/pgcluster.h"
#include "spotd/daemon.h"
#include "spotd/version.h"
#include "store/q.h"

#include <unistd.h>

static enum spot_rc local_paths(struct local *l, struct spot_err *err)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int n;

	if (!str_empty(data)) {
		n = snprintf(l->dir, sizeof(l->dir), "%s/spotbroker", data);
	} else if (geteuid() == 0) {
		/* Root's home is closed to the user that the database runs as. */
		n = snprintf(l->dir, sizeof(l->dir), "/var/lib/spotbroker");
	} else if (!str_empty(home)) {
		n = snprintf(l->dir, sizeof(l->dir), "%s/.local/share/spotbroker", home);
	} else {
		return err_set(err, SPOT_CONFIG, "--local needs XDG_DATA_HOME or HOME");
	}
	if (n < 0 || (size_t)n >= sizeof(l->dir)) {
		return err_set(err, SPOT_CONFIG,
		    "--local: the path of the data folder is too long");
	}
	snprintf(l->token_file, sizeof(l->token_file), "%s/admin-token", l->dir);
	return SPOT_OK;
}

/* In the folder of our program when it runs from the build folder, else where it is installed. */
static void template_find(char *path, size_t n)
{
	ssize_t len = readlink("/proc/self/exe", path, n);
	char *end;

	if (len > 0 && (size_t)len < n) {
		path[len] = '\0';
		end = strrchr(path, '/') + 1;
		(void)snprintf(end, n - (size_t)(end - path), "cluster.tar.gz");
		if (file_exists(path)) {
			return;
		}
	}
	(void)snprintf(path, n, "%s", SPOTD_TEMPLATE);
}

enum spot_rc local_start(struct local *l, struct spot_err *err)
{
	char db[4200], template[4096], id[SHA256_HEX];
	enum spot_rc rc = local_paths(l, err);

	if (rc == SPOT_OK) {
		rc = folder_make(l->dir, err);
	}
	if (rc == SPOT_OK) {
		snprintf(db, sizeof(db), "%s/postgres", l->dir);
		template_find(template, sizeof(template));
		migrations_id(migrations_all, migrations_all_n, id);
		rc = pgcluster_start_from(&(struct pgcluster_template){ template, id }, db,
		    "spotbroker", false, &l->cluster, err);
	}
	return rc;
}

const char *local_dsn(const struct local *l)
{
	return pgcluster_dsn(l->cluster);
}

enum spot_rc local_token(const struct local *l, const char *dsn, struct spot_err *err)
{
	char token[API_TOKEN_MAX], line[API_TOKEN_MAX + 2], name[64];
	struct rng rng;
	char part[9];
	enum spot_rc rc;

	if (file_exists(l->token_file)) {
		return SPOT_OK;
	}
	/* A name of its own: the file may have been lost while the row of the first one lives on.
	 */
	rng_real_init(&rng);
	rng_hex(&rng, part, 4);
	snprintf(name, sizeof(name), "local-%s", part);
	rc = token_create(dsn, name, "admin", token, err);
	if (rc == SPOT_OK) {
		snprintf(line, sizeof(line), "%s\n", token);
		rc = file_write(l->token_file, line, 0600, err);
	}
	mem_wipe(token, sizeof(token));
	mem_wipe(line, sizeof(line));
	return rc;
}

void local_stop(struct local *l)
{
	pgcluster_stop(l->cluster);
	l->cluster = NULL;
}
