/* Files of a job on its machine: file_mounts, and the places that the agent makes. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

#define MOUNTS_MAX 512
#define PLACE_MAX 1024
#define NAME_MAX_BYTES 255

const char *spec_place_wrong(const char *path)
{
	size_t n = strlen(path);

	if (n == 0 || n > PLACE_MAX) {
		return "1 to 1024 bytes are wanted";
	}
	for (const char *p = path; *p != '\0'; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f) {
			return "control characters are not allowed";
		}
		if (strcspn(p, "/") > NAME_MAX_BYTES) {
			return "no part of it may be longer than 255 bytes";
		}
	}
	return strstr(path, "..") != NULL ? "'..' is not allowed" : NULL;
}

/* Returns a place for errors. Their text already names the destination, so the place has none. */
static struct yaml place_of(const struct yaml *y)
{
	return (struct yaml){ .kind = YAML_SCALAR, .line = y->line, .column = y->column };
}

/* Returns NULL for a file below the working directory, below the home directory (~/) or at an
 * absolute path, else the error. */
static const char *destination_wrong(const char *dst)
{
	const char *below = str_prefix(dst, "~/") ? dst + 2 : *dst == '/' ? dst + 1 : dst;
	const char *wrong = spec_place_wrong(dst), *name = strrchr(dst, '/');

	if (wrong != NULL) {
		return wrong;
	}
	name = name != NULL ? name + 1 : dst;
	if (*below == '\0' || *below == '/' || *name == '\0' || strcmp(name, ".") == 0 ||
	    strcmp(dst, "~") == 0) {
		return "name the file that the object becomes, such as data/train.bin, "
		       "/data/train.bin or ~/train.bin";
	}
	return NULL;
}

static enum spot_rc source_check(struct jobspec_ctx *x, const struct yaml *at,
    const struct yaml *source, const char *dst, struct spot_err *err)
{
	const struct yaml place = place_of(source != NULL ? source : at);
	struct store_uri uri;
	const char *wrong;

	if (source == NULL || source->kind != YAML_SCALAR ||
	    (!str_prefix(source->text, "s3://") && !str_prefix(source->text, "gs://") &&
		!str_prefix(source->text, "az://"))) {
		return yaml_fail(&place, err,
		    "file_mounts: %.100s: the source must be one object, s3://bucket/key "
		    "(upload local files to the object store first)",
		    dst);
	}
	if (str_suffix(source->text, "/") && strchr(source->text + 5, '/') > source->text + 5) {
		return yaml_fail(&place, err, "file_mounts: %.100s: name one object, not a prefix",
		    dst);
	}
	wrong = store_uri_read(x->arena, source->text, &uri);
	return wrong == NULL
	    ? SPOT_OK
	    : yaml_fail(&place, err, "file_mounts: %.100s: %.100s: %s", dst, source->text, wrong);
}

static enum spot_rc parse_mount(struct jobspec_ctx *x, const struct yaml *i, struct job_mount *m,
    struct spot_err *err)
{
	static const char *const known[] = { "source", "mode", NULL };
	static const struct spec_unsupported later[] = { { "name", "give source" },
		{ "store", "give source" }, { "persistent", "copies are made afresh" },
		{ NULL, NULL } };
	const struct yaml *source = i, *mode = NULL, place = place_of(i);
	enum spot_rc rc = SPOT_OK;
	const char *wrong;

	if (i->kind == YAML_MAP) {
		rc = spec_keys(i, "file_mounts", known, later, err);
		source = yaml_get(i, "source");
		mode = yaml_get(i, "mode");
	}
	if (rc == SPOT_OK && mode != NULL &&
	    (mode->kind != YAML_SCALAR || strcmp(mode->text, "COPY") != 0)) {
		return yaml_fail(mode, err, "file_mounts: only mode COPY is supported");
	}
	if (rc == SPOT_OK) {
		rc = source_check(x, i, source, i->key, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	wrong = destination_wrong(i->key);
	if (wrong != NULL) {
		return yaml_fail(&place, err, "file_mounts: '%.100s': %s", i->key, wrong);
	}
	*m = (struct job_mount){ .dst = i->key,
		.uri = source->text,
		.line = source->line,
		.column = source->column };
	return SPOT_OK;
}

/* Refuses a destination that another one needs as a folder. */
static enum spot_rc parse_twice(const struct yaml *i, const struct job_spec *s,
    struct spot_err *err)
{
	const struct yaml place = place_of(i);

	for (size_t k = 0; k < s->mounts_n; k++) {
		const char *dst = s->mounts[k].dst, *more = i->key, *less = dst;

		if (strlen(dst) > strlen(i->key)) {
			more = dst;
			less = i->key;
		}
		if (str_prefix(more, less) && more[strlen(less)] == '/') {
			return yaml_fail(&place, err,
			    "file_mounts: '%.100s' is a file, so '%.100s' cannot lie below it",
			    less, more);
		}
	}
	return SPOT_OK;
}

enum spot_rc spec_mounts(struct jobspec_ctx *x, const struct yaml *y, struct job_spec *s,
    struct spot_err *err)
{
	enum spot_rc rc = SPOT_OK;

	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	if (y->kind != YAML_MAP || y->children > MOUNTS_MAX) {
		return yaml_fail(y, err,
		    "file_mounts: a mapping of at most %d destinations, each with its source",
		    MOUNTS_MAX);
	}
	s->mounts = arena_array(x->arena, y->children + 1, sizeof(*s->mounts));
	for (const struct yaml *i = y->child; i != NULL && rc == SPOT_OK; i = i->next) {
		rc = parse_twice(i, s, err);
		if (rc == SPOT_OK) {
			rc = parse_mount(x, i, &s->mounts[s->mounts_n++], err);
		}
	}
	return rc;
}

enum spot_rc jobspec_store_check(const struct job_spec *s, const char *store, struct spot_err *err)
{
	for (size_t i = 0; i < s->mounts_n; i++) {
		const struct job_mount *m = &s->mounts[i];
		const struct yaml at = { .kind = YAML_SCALAR,
			.line = m->line,
			.column = m->column };

		if (str_empty(store)) {
			return yaml_fail(&at, err,
			    "file_mounts: %.60s: the daemon has no object store: set store and "
			    "provider in [checkpoint] of its configuration, or fetch the object in "
			    "setup",
			    m->dst);
		}
		if (!store_uri_alike(m->uri, store)) {
			return yaml_fail(&at, err,
			    "file_mounts: %.60s: %.80s needs %s to sign for it, and the daemon's "
			    "[checkpoint] store is "
			    "%.5s: copy the object there, or fetch it in setup",
			    m->dst, m->uri, store_uri_signers(m->uri), store);
		}
	}
	return SPOT_OK;
}
