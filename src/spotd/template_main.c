/* Part of the build: makes the cluster that the first start of spotd --local copies, with initdb
 * and all migrations done, as FOLDER/template.tar.gz. */
#include "base/base.h"
#include "io/cluster/pgcluster.h"
#include "store/q.h"

static enum spot_rc cluster_fill(const char *dir, struct spot_err *err)
{
	struct pgcluster *c = NULL;
	enum spot_rc rc = pgcluster_start(dir, "spotbroker", true, &c, err);

	if (rc == SPOT_OK) {
		rc = migrate_run(pgcluster_dsn(c), NULL, migrations_all, migrations_all_n, 1, NULL,
		    err);
	}
	if (rc == SPOT_OK) {
		/* A copy costs most for its number of files. Tools can do without this one. */
		rc = pg_script(pgcluster_dsn(c), "DROP DATABASE postgres", err);
	}
	pgcluster_stop(c);
	return rc;
}

int main(int argc, char **argv)
{
	struct spot_err err = { 0 };
	char id[SHA256_HEX];

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	migrations_id(migrations_all, migrations_all_n, id);
	if (cluster_fill(argv[1], &err) != SPOT_OK ||
	    pgcluster_template_make(argv[1], id, &err) != SPOT_OK) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return 1;
	}
	return 0;
}
