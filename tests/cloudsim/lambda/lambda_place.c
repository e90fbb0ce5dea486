/* Lambda's shared file systems and firewall rulesets: both of one region, attached at launch or
 * never, not to be deleted while attached. Kept as the objects that the API shows. */
#include "base/base.h"
#include "cloudsim/lambda/lambda.h"
#include "base/text/text.h"

#define NAME_MAX_FS 60
#define NAME_MAX_FW 64

json_t *lambda_place_new(void)
{
	/* A new account allows SSH and ping from everywhere. */
	return json_pack("{s:[], s:[], s:{s:s, s:s, s:[{s:s, s:[i,i], s:s, s:s}, {s:s, s:s, "
			 "s:s}]}}",
	    "files", "rulesets", "global", "id", "global", "name", "Default Workspace Global Rules",
	    "rules", "protocol", "tcp", "port_range", 22, 22, "source_network", "0.0.0.0/0",
	    "description", "Allow SSH from anywhere", "protocol", "icmp", "source_network",
	    "0.0.0.0/0", "description", "Allow ping from anywhere");
}

static json_t *list_of(struct sim_req *rq, const char *what)
{
	return json_object_get(rq->sim->lambda->place, what);
}

static const char *text_get(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static json_t *item_find(const json_t *list, const char *key, const char *value, size_t *ret_at)
{
	size_t k;
	json_t *o;

	json_array_foreach (list, k, o) {
		if (str_same(text_get(o, key), value)) {
			if (ret_at) {
				*ret_at = k;
			}
			return o;
		}
	}
	return NULL;
}

static bool invalid_fail(struct sim_req *rq, struct sim_reply *rep, const char *what)
{
	reply_fail(rq, rep, 400, "global/invalid-parameters", "%s", what);
	return false;
}

static bool missing_fail(struct sim_req *rq, struct sim_reply *rep, int status, const char *what)
{
	reply_fail(rq, rep, status, "global/object-does-not-exist", "%s does not exist.", what);
	return false;
}

/* Living machines that have it: names of file systems, objects with an id of rulesets. */
static json_t *users_of(struct sim_req *rq, const char *member, const char *id)
{
	json_t *ids = json_array(), *o;
	size_t k;

	for (const struct inst *i = rq->sim->insts; i; i = i->next) {
		if (i->cloud != CLOUD_LAMBDA || i->state == INST_GONE || !i->own) {
			continue;
		}
		json_array_foreach (json_object_get(i->own, member), k, o) {
			if (str_same(json_is_string(o) ? json_string_value(o) : text_get(o, "id"),
				id)) {
				json_array_append_new(ids, json_string(i->id));
			}
		}
	}
	return ids;
}

/* ---- file systems ---------------------------------------------------------------------------- */

static bool fs_name_valid(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > NAME_MAX_FS ||
	    !strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
		return false;
	}
	return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == n;
}

static json_t *fs_json(struct sim_req *rq, const json_t *o)
{
	json_t *ret = json_deep_copy(o), *users = users_of(rq, "files", text_get(o, "name"));

	json_object_set_new(ret, "is_in_use", json_boolean(json_array_size(users) > 0));
	json_decref(users);
	return ret;
}

static void fs_list(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *data = json_array(), *o;
	size_t k;

	json_array_foreach (list_of(rq, "files"), k, o) {
		json_array_append_new(data, fs_json(rq, o));
	}
	lambda_data(rq, rep, data);
}

static void fs_create(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const struct region *region =
	    market_region(rq->sim->market, CLOUD_LAMBDA, text_get(doc, "region"));
	const char *name = text_get(doc, "name");
	char at[TIME_TEXT_MAX];
	json_t *o;

	if (!fs_name_valid(name)) {
		invalid_fail(rq, rep,
		    "name must match ^[a-zA-Z]+[0-9a-zA-Z-]*$ and have at most 60 characters");
	} else if (!region) {
		invalid_fail(rq, rep, "Unknown region");
	} else if (item_find(list_of(rq, "files"), "name", name, NULL)) {
		reply_fail(rq, rep, 400, "global/duplicate", "A filesystem with that name exists.");
	} else {
		o = json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:b, s:o, s:i}", "id",
		    sim_id(rq->sim, rq->arena, "", 16), "name", name, "mount_point",
		    arena_printf(rq->arena, "/lambda/nfs/%s", name), "created",
		    format_time_s(sim_wall(rq->sim), at), "created_by", "id",
		    "3da5a70a57a7422ea8a7203f98b2198b", "email", "me@example.com", "status",
		    "active", "is_in_use", 0, "region", lambda_region_json(region), "bytes_used",
		    0);
		json_array_append_new(list_of(rq, "files"), o);
		lambda_data(rq, rep, fs_json(rq, o));
	}
}

static void fs_delete(struct sim_req *rq, struct sim_reply *rep, const char *id)
{
	size_t at = 0;
	json_t *o = item_find(list_of(rq, "files"), "id", id, &at), *users;
	bool used;

	if (!o) {
		missing_fail(rq, rep, 404, "Filesystem");
		return;
	}
	users = users_of(rq, "files", text_get(o, "name"));
	used = json_array_size(users) > 0;
	json_decref(users);
	if (used) {
		reply_fail(rq, rep, 400, "filesystems/filesystem-in-use",
		    "The filesystem is in use.");
		return;
	}
	json_array_remove(list_of(rq, "files"), at);
	lambda_data(rq, rep, json_pack("{s:[s]}", "deleted_ids", id));
}

/* ---- firewall -------------------------------------------------------------------------------- */

static bool port_range_valid(const json_t *range, bool icmp)
{
	json_int_t from = json_integer_value(json_array_get(range, 0)),
		   to = json_integer_value(json_array_get(range, 1));

	if (icmp) {
		return !range;
	}
	return json_array_size(range) == 2 && from >= 1 && from <= to && to <= 65535;
}

static bool rules_valid(struct sim_req *rq, struct sim_reply *rep, const json_t *rules)
{
	static const char *const known[] = { "protocol", "port_range", "source_network",
		"description", NULL };
	size_t k;
	json_t *r;

	if (!json_is_array(rules)) {
		return invalid_fail(rq, rep, "rules must be an array");
	}
	json_array_foreach (rules, k, r) {
		const char *protocol = text_get(r, "protocol");
		const char *description = json_string_value(json_object_get(r, "description"));

		if (!json_is_object(r) || json_unknown_key(r, known) ||
		    !*text_get(r, "source_network") || !description || strlen(description) > 128) {
			return invalid_fail(rq, rep,
			    "rules: protocol, source_network and description (at most 128) are "
			    "needed");
		}
		if (!str_same(protocol, "tcp") && !str_same(protocol, "udp") &&
		    !str_same(protocol, "icmp") && !str_same(protocol, "all")) {
			return invalid_fail(rq, rep, "rules: protocol is tcp, udp, icmp or all");
		}
		if (!port_range_valid(json_object_get(r, "port_range"),
			str_same(protocol, "icmp"))) {
			return invalid_fail(rq, rep,
			    "rules: port_range is [min, max], and not allowed for icmp");
		}
	}
	return true;
}

static json_t *fw_json(struct sim_req *rq, const json_t *o)
{
	json_t *ret = json_deep_copy(o);

	json_object_set_new(ret, "instance_ids", users_of(rq, "rulesets", text_get(o, "id")));
	return ret;
}

static void fw_list(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *data = json_array(), *o;
	size_t k;

	json_array_foreach (list_of(rq, "rulesets"), k, o) {
		json_array_append_new(data, fw_json(rq, o));
	}
	lambda_data(rq, rep, data);
}

static void fw_create(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const struct region *region =
	    market_region(rq->sim->market, CLOUD_LAMBDA, text_get(doc, "region"));
	const char *name = json_string_value(json_object_get(doc, "name"));
	char at[TIME_TEXT_MAX];
	json_t *o;

	if (!rules_valid(rq, rep, json_object_get(doc, "rules"))) {
		return;
	}
	if (!name || strlen(name) > NAME_MAX_FW || !region) {
		invalid_fail(rq, rep, "name (at most 64 characters) and a known region are needed");
		return;
	}
	o = json_pack("{s:s, s:s, s:o, s:O, s:s, s:[]}", "id", sim_id(rq->sim, rq->arena, "", 16),
	    "name", name, "region", lambda_region_json(region), "rules",
	    json_object_get(doc, "rules"), "created", format_time_s(sim_wall(rq->sim), at),
	    "instance_ids");
	json_array_append_new(list_of(rq, "rulesets"), o);
	lambda_data(rq, rep, fw_json(rq, o));
}

static void fw_patch(struct sim_req *rq, struct sim_reply *rep, json_t *o, const json_t *doc,
    bool global)
{
	json_t *rules = json_object_get(doc, "rules"), *name = json_object_get(doc, "name");

	if (rules && !rules_valid(rq, rep, rules)) {
		return;
	}
	if (name && !global &&
	    (!json_is_string(name) || strlen(json_string_value(name)) > NAME_MAX_FW)) {
		invalid_fail(rq, rep, "name must be a text of at most 64 characters");
		return;
	}
	if (rules) {
		json_object_set(o, "rules", rules);
	}
	if (name && !global) {
		json_object_set(o, "name", name);
	}
	lambda_data(rq, rep, global ? json_deep_copy(o) : fw_json(rq, o));
}

static void fw_delete(struct sim_req *rq, struct sim_reply *rep, const char *id, size_t at)
{
	json_t *users = users_of(rq, "rulesets", id);
	bool used = json_array_size(users) > 0;

	json_decref(users);
	if (used) {
		reply_fail(rq, rep, 400, "firewall-rulesets/firewall-ruleset-in-use",
		    "The ruleset is in use.");
		return;
	}
	json_array_remove(list_of(rq, "rulesets"), at);
	lambda_data(rq, rep, json_object());
}

static void fw_one(struct sim_req *rq, struct sim_reply *rep, const char *id, const json_t *doc)
{
	bool global = str_same(id, "global");
	size_t at = 0;
	json_t *o =
	    global ? list_of(rq, "global") : item_find(list_of(rq, "rulesets"), "id", id, &at);
	const char *method = rq->http->method;

	if (!o) {
		missing_fail(rq, rep, 404, "Firewall ruleset");
	} else if (str_same(method, "GET")) {
		lambda_data(rq, rep, global ? json_deep_copy(o) : fw_json(rq, o));
	} else if (str_same(method, "PATCH")) {
		fw_patch(rq, rep, o, doc, global);
	} else if (str_same(method, "DELETE") && !global) {
		fw_delete(rq, rep, id, at);
	} else {
		reply_fail(rq, rep, 404, "global/not-found", "Path not found.");
	}
}

/* The rules of the whole account: the global ruleset by its older name. PUT replaces everything. */
static void rules_serve(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	json_t *global = list_of(rq, "global");

	if (str_same(rq->http->method, "PUT")) {
		if (!rules_valid(rq, rep, json_object_get(doc, "data"))) {
			return;
		}
		json_object_set(global, "rules", json_object_get(doc, "data"));
	}
	lambda_data(rq, rep, json_deep_copy(json_object_get(global, "rules")));
}

bool lambda_place_serve(struct sim_req *rq, struct sim_reply *rep, const char *path,
    const json_t *doc)
{
	const char *method = rq->http->method;
	bool get = str_same(method, "GET"), post = str_same(method, "POST");

	if (get && str_same(path, "/file-systems")) {
		fs_list(rq, rep);
	} else if (post && str_same(path, "/filesystems")) {
		fs_create(rq, rep, doc);
	} else if (str_same(method, "DELETE") && str_prefix(path, "/filesystems/")) {
		fs_delete(rq, rep, path + strlen("/filesystems/"));
	} else if (get && str_same(path, "/firewall-rulesets")) {
		fw_list(rq, rep);
	} else if (post && str_same(path, "/firewall-rulesets")) {
		fw_create(rq, rep, doc);
	} else if (!post && str_prefix(path, "/firewall-rulesets/")) {
		fw_one(rq, rep, path + strlen("/firewall-rulesets/"), doc);
	} else if ((get || str_same(method, "PUT")) && str_same(path, "/firewall-rules")) {
		rules_serve(rq, rep, doc);
	} else {
		return false;
	}
	return true;
}

/* ---- at launch ------------------------------------------------------------------------------- */

/* One file system, by name or id, for a machine of that region. */
static const json_t *fs_for(struct sim_req *rq, struct sim_reply *rep, const char *key,
    const char *value, const char *region)
{
	const json_t *o = item_find(list_of(rq, "files"), key, value, NULL);

	if (!o) {
		missing_fail(rq, rep, 400, "Filesystem");
	} else if (!str_same(text_get(json_object_get(o, "region"), "name"), region)) {
		reply_fail(rq, rep, 400, "instance-operations/launch/file-system-in-wrong-region",
		    "The filesystem is in another region.");
		o = NULL;
	}
	return o;
}

static bool mount_point_valid(const char *s)
{
	static const char set[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-/";

	return (str_prefix(s, "/home") || str_prefix(s, "/lambda/nfs") || str_prefix(s, "/data")) &&
	    strlen(s) <= 256 && !s[strspn(s, set)];
}

/* Mounts go before names: a file system in both lists is mounted where the mount says. */
static bool attach_files(struct sim_req *rq, struct sim_reply *rep, const json_t *doc,
    const char *region, json_t *files, json_t *mounts)
{
	const json_t *o;
	json_t *m, *name;
	size_t k;

	json_array_foreach (json_object_get(doc, "file_system_mounts"), k, m) {
		if (!mount_point_valid(text_get(m, "mount_point"))) {
			return invalid_fail(rq, rep,
			    "mount_point must lie under /home, /lambda/nfs or /data");
		}
		o = fs_for(rq, rep, "id", text_get(m, "file_system_id"), region);
		if (!o) {
			return false;
		}
		json_array_append(files, json_object_get(o, "name"));
		json_array_append_new(mounts,
		    json_pack("{s:s, s:s}", "mount_point", text_get(m, "mount_point"),
			"file_system_id", text_get(m, "file_system_id")));
	}
	json_array_foreach (json_object_get(doc, "file_system_names"), k, name) {
		o = fs_for(rq, rep, "name", json_is_string(name) ? json_string_value(name) : "",
		    region);
		if (!o) {
			return false;
		}
		if (item_find(mounts, "file_system_id", text_get(o, "id"), NULL)) {
			continue;
		}
		json_array_append(files, json_object_get(o, "name"));
		json_array_append_new(mounts,
		    json_pack("{s:s, s:s}", "mount_point", text_get(o, "mount_point"),
			"file_system_id", text_get(o, "id")));
	}
	return true;
}

static bool attach_rulesets(struct sim_req *rq, struct sim_reply *rep, const json_t *doc,
    const char *region, json_t *rulesets)
{
	const json_t *o;
	json_t *r;
	size_t k;

	json_array_foreach (json_object_get(doc, "firewall_rulesets"), k, r) {
		o = item_find(list_of(rq, "rulesets"), "id", text_get(r, "id"), NULL);
		if (!o) {
			return missing_fail(rq, rep, 400, "Firewall ruleset");
		}
		if (!str_same(text_get(json_object_get(o, "region"), "name"), region)) {
			return invalid_fail(rq, rep, "The firewall ruleset is in another region");
		}
		json_array_append_new(rulesets, json_pack("{s:s}", "id", text_get(r, "id")));
	}
	return true;
}

json_t *lambda_place_attach(struct sim_req *rq, struct sim_reply *rep, const json_t *doc,
    const char *region)
{
	static const char *const lists[] = { "file_system_names", "file_system_mounts",
		"firewall_rulesets" };
	json_t *ret = json_pack("{s:[], s:[], s:[]}", "files", "mounts", "rulesets");
	bool ok = true;

	for (size_t k = 0; k < ARRAY_LEN(lists) && ok; k++) {
		const json_t *list = json_object_get(doc, lists[k]);

		ok = !list || json_is_array(list) ||
		    invalid_fail(rq, rep, arena_printf(rq->arena, "%s must be an array", lists[k]));
	}
	if (ok &&
	    attach_files(rq, rep, doc, region, json_object_get(ret, "files"),
		json_object_get(ret, "mounts")) &&
	    attach_rulesets(rq, rep, doc, region, json_object_get(ret, "rulesets"))) {
		return ret;
	}
	json_decref(ret);
	return NULL;
}
