/* The emulator's state and its control, for the files above. */
#include "sim/world/world.h"
#include "sim/cloud/cloud.h"
#include "sim/cloud/cloud_priv.h"
#include "cloudsim/sim/cloud.h"

struct sim sim;

void cloud_guest_off(const char *id)
{
	struct inst *i = inst_find(&sim, id);

	if (i != NULL) {
		inst_guest_off(i);
	}
}

void cloud_post(const char *path, json_t *body)
{
	struct spot_err err = { 0 };
	json_t *doc = json_pack("[{s:s, s:o}]", "post", path, "body", body);

	if (!control_apply(&sim, doc, &err)) {
		fprintf(stderr, "sim: %s: %s\n", path, err.text);
		abort();
	}
	json_decref(doc);
}

/* The launch token, or at a cloud without tokens the name that it was given; Google keeps it as a
 * label, Azure as a tag. */
const char *cloud_token(const struct inst *i)
{
	const char *label = i->cloud == CLOUD_GCP || i->cloud == CLOUD_AZURE
	    ? inst_tag(i, "spotbroker-token")
	    : NULL;

	return label != NULL ? label : i->token != NULL ? i->token : i->name;
}

const char *private_file(const char *dir, const char *name, const char *text)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!file_put(path, text, strlen(text), 0600)) {
		fprintf(stderr, "sim: cannot write %s\n", path);
		exit(1);
	}
	return path;
}
