/* Launch templates: parameters of a launch under a name, in versions (CreateLaunchTemplate and its
 * neighbours in the EC2 API reference). RunInstances and CreateFleet complete their own parameters
 * from them. */
#include "base/base.h"
#include "cloudsim/ec2/ec2.h"
#include "base/text/text.h"

#define VERSIONS_MAX 1 /* CreateLaunchTemplateVersion is not emulated */

struct ltemplate {
	struct ltemplate *next;
	char *id, *name, *region, *token, *about;
	struct param *items; /* names and values are the template's own */
	size_t n;
	struct inst_tag *tags;
	size_t tags_n;
	int64_t made_us;
	bool deleted;
};

static struct ltemplate **templates_of(struct sim *s)
{
	return &aws_controls(s)->templates;
}

static void template_free(struct ltemplate *t)
{
	for (size_t k = 0; k < t->n; k++) {
		free((char *)(uintptr_t)t->items[k].name);
		free((char *)(uintptr_t)t->items[k].value);
	}
	for (size_t k = 0; k < t->tags_n; k++) {
		free(t->tags[k].key);
		free(t->tags[k].value);
	}
	free(t->tags);
	free(t->items);
	free(t->id);
	free(t->name);
	free(t->region);
	free(t->token);
	free(t->about);
	free(t);
}

void templates_free(struct aws_controls *c)
{
	struct ltemplate *next;

	for (struct ltemplate *t = c->templates; t; t = next) {
		next = t->next;
		template_free(t);
	}
	c->templates = NULL;
}

/* By id or name; NULL with e failed. */
static struct ltemplate *template_find(struct ec2 *e, const char *id, const char *name)
{
	if (id && name) {
		ec2_fail(e, 400, "InvalidParameterCombination",
		    "Launch template ID and launch template name cannot both be specified.");
		return NULL;
	}
	for (struct ltemplate *t = *templates_of(e->sim); t; t = t->next) {
		if (!t->deleted && str_same(t->region, e->rq->region) &&
		    (id ? str_same(t->id, id) : str_same(t->name, name))) {
			return t;
		}
	}
	if (id && !str_prefix(id, "lt-")) {
		ec2_fail(e, 400, "InvalidLaunchTemplateId.Malformed",
		    "The launch template ID '%s' is malformed.", id);
	} else if (id) {
		ec2_fail(e, 400, "InvalidLaunchTemplateId.NotFound",
		    "The specified launch template, with template ID %s, does not exist.", id);
	} else if (name) {
		ec2_fail(e, 400, "InvalidLaunchTemplateName.NotFoundException",
		    "The specified launch template, with template name %s, does not exist.", name);
	} else {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter launchTemplateId or "
		    "launchTemplateName");
	}
	return NULL;
}

static void template_xml(struct ec2 *e, const char *tag, const struct ltemplate *t)
{
	struct sbuf *b = &e->out;

	x_open(b, tag);
	x_text(b, "launchTemplateId", t->id);
	x_text(b, "launchTemplateName", t->name);
	x_text(b, "createTime", aws_time_ms(e->rq->arena, t->made_us));
	x_text(b, "createdBy", "arn:aws:iam::" AWS_ACCOUNT ":user/broker");
	x_int(b, "defaultVersionNumber", VERSIONS_MAX);
	x_int(b, "latestVersionNumber", VERSIONS_MAX);
	ec2_tags_xml(b, t->tags, t->tags_n);
	x_close(b, tag);
}

/* ---- made ------------------------------------------------------------------------------------ */

static bool data_known(const char *name)
{
	static const char *const known[] = { "KernelId", "RamDiskId", "EbsOptimized",
		"IamInstanceProfile.*", "BlockDeviceMapping.*", "NetworkInterface.*", "ImageId",
		"InstanceType", "KeyName", "Monitoring.Enabled", "Placement.*",
		"DisableApiTermination", "DisableApiStop", "InstanceInitiatedShutdownBehavior",
		"UserData", "TagSpecification.*", "SecurityGroupId.*", "SecurityGroup.*",
		"InstanceMarketOptions.*", "CreditSpecification.*", "CpuOptions.*",
		"CapacityReservationSpecification.*", "LicenseSpecification.*",
		"HibernationOptions.*", "MetadataOptions.*", "EnclaveOptions.*",
		"PrivateDnsNameOptions.*", "MaintenanceOptions.*" };

	for (size_t k = 0; k < ARRAY_LEN(known); k++) {
		if (glob_match(known[k], name)) {
			return true;
		}
	}
	return false;
}

static struct ltemplate *template_new(struct ec2 *e, const char *name, const struct form *data)
{
	struct ltemplate *t = calloc(1, sizeof(*t)), **at = templates_of(e->sim);

	if (!t) {
		abort();
	}
	while (*at) {
		at = &(*at)->next;
	}
	*at = t;
	t->id = sim_id(e->sim, NULL, "lt-0", 8);
	t->name = dup_text(name);
	t->region = dup_text(e->rq->region);
	t->made_us = sim_wall(e->sim);
	t->items = calloc(data->n + 1, sizeof(*t->items));
	if (!t->items) {
		abort();
	}
	for (t->n = 0; t->n < data->n; t->n++) {
		t->items[t->n] = (struct param){ .name = dup_text(data->items[t->n].name),
			.value = dup_text(data->items[t->n].value) };
	}
	for (int k = 1; k <= 50; k++) {
		struct arena *a = e->rq->arena;
		const char *key =
		    form_get(&e->form, arena_printf(a, "TagSpecification.1.Tag.%d.Key", k));

		if (key) {
			inst_tag_set(&t->tags, &t->tags_n, key,
			    form_get(&e->form,
				arena_printf(a, "TagSpecification.1.Tag.%d.Value", k)));
		}
	}
	return t;
}

static bool name_valid(const char *name)
{
	size_t n = strlen(name);

	return n >= 3 && n <= 128 &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789()./_-") ==
	    n;
}

/* The name is free, the data is a template's; false: e failed. */
static bool create_check(struct ec2 *e, const char *name, const struct form *data)
{
	if (!name) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter launchTemplateName");
	} else if (!name_valid(name)) {
		ec2_fail(e, 400, "InvalidLaunchTemplateName.MalformedException",
		    "A launch template name must be between 3 and 128 characters, and may contain "
		    "letters, numbers, and the following characters: - ( ) . / _.");
	}
	if (data->n == 0) {
		ec2_fail(e, 400, "MissingParameter",
		    "The request must contain the parameter launchTemplateData");
	}
	for (size_t k = 0; k < data->n; k++) {
		if (!data_known(data->items[k].name)) {
			ec2_fail(e, 400, "UnknownParameter", "The parameter %s is not recognized",
			    data->items[k].name);
		}
	}
	return ec2_ready(e);
}

void ec2_create_template(struct ec2 *e)
{
	const char *name = form_get(&e->form, "LaunchTemplateName");
	const char *token = form_get(&e->form, "ClientToken");
	const char *about = form_get(&e->form, "VersionDescription");
	struct ltemplate *t;
	struct form data;

	form_accept(&e->form, "LaunchTemplateData.*");
	form_accept(&e->form, "TagSpecification.*");
	form_below(&e->form, e->rq->arena, "LaunchTemplateData.", &data);
	if (!create_check(e, name, &data)) {
		return;
	}
	for (t = *templates_of(e->sim); t; t = t->next) {
		if (t->deleted || !str_same(t->region, e->rq->region) || !str_same(t->name, name)) {
			continue;
		}
		if (token && str_same(t->token, token)) {
			break;
		}
		ec2_fail(e, 400, "InvalidLaunchTemplateName.AlreadyExistsException",
		    "Launch template name already in use.");
		return;
	}
	if (!t) {
		t = template_new(e, name, &data);
		t->token = dup_text(token);
		t->about = dup_text(about);
	}
	ec2_begin(e);
	template_xml(e, "launchTemplate", t);
}

/* ---- looked at, deleted ---------------------------------------------------------------------- */

static bool template_shown(const struct ltemplate *t, const struct ec2_filter *f, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		bool hit =
		    str_same(f[k].name, "launch-template-name") && ec2_filter_hits(&f[k], t->name);

		for (size_t i = 0; i < t->tags_n && !hit; i++) {
			hit = (str_same(f[k].name, "tag-key") &&
				  ec2_filter_hits(&f[k], t->tags[i].key)) ||
			    (str_prefix(f[k].name, "tag:") &&
				str_same(f[k].name + 4, t->tags[i].key) &&
				ec2_filter_hits(&f[k], t->tags[i].value));
		}
		if (!hit) {
			return false;
		}
	}
	return true;
}

void ec2_describe_templates(struct ec2 *e)
{
	static const char *const known[] = { "launch-template-name", "tag:*", "tag-key", NULL };
	const char **ids, **names;
	size_t ids_n = form_list(&e->form, e->rq->arena, "LaunchTemplateId", &ids), n;
	size_t names_n = form_list(&e->form, e->rq->arena, "LaunchTemplateName", &names);
	struct ec2_filter *f;
	struct ec2_page page;
	int64_t at = 0;

	if (!ec2_filters(e, known, &f, &n) || !ec2_page(e, 1, 200, 200, &page) || !ec2_ready(e)) {
		return;
	}
	for (size_t k = 0; k < ids_n + names_n; k++) {
		if (!template_find(e, k < ids_n ? ids[k] : NULL,
			k < ids_n ? NULL : names[k - ids_n])) {
			return;
		}
	}
	ec2_begin(e);
	x_open(&e->out, "launchTemplates");
	for (const struct ltemplate *t = *templates_of(e->sim); t; t = t->next) {
		if (t->deleted || !str_same(t->region, e->rq->region) ||
		    !ec2_match_any(ids, ids_n, t->id) || !ec2_match_any(names, names_n, t->name) ||
		    !template_shown(t, f, n)) {
			continue;
		}
		if (at >= page.at && at < page.at + page.size) {
			template_xml(e, "item", t);
		}
		at++;
	}
	x_close(&e->out, "launchTemplates");
	if (at > page.at + page.size) {
		x_text(&e->out, "nextToken", ec2_next_token(e, page.at + page.size));
	}
}

static const char *item_of(const struct ltemplate *t, const char *name)
{
	for (size_t k = 0; k < t->n; k++) {
		if (str_same(t->items[k].name, name)) {
			return t->items[k].value;
		}
	}
	return NULL;
}

/* false: e failed. Versions are a number, "$Latest", "$Default". */
static bool version_there(struct ec2 *e, const struct ltemplate *t, const char *version)
{
	int64_t n;

	if (!version || str_same(version, "$Latest") || str_same(version, "$Default") ||
	    str_same(version, "1")) {
		return true;
	}
	if (!parse_i64(version, 1, INT64_MAX, &n)) {
		ec2_fail(e, 400, "InvalidLaunchTemplateId.VersionMalformed",
		    "The launch template version '%s' is malformed.", version);
	} else {
		ec2_fail(e, 400, "InvalidLaunchTemplateId.VersionNotFound",
		    "Could not find the specified version %s for the launch template with ID %s.",
		    version, t->id);
	}
	return false;
}

/* The members of the data that are plain texts. */
void ec2_describe_template_versions(struct ec2 *e)
{
	static const char *const texts[][2] = { { "ImageId", "imageId" },
		{ "InstanceType", "instanceType" }, { "KeyName", "keyName" },
		{ "UserData", "userData" },
		{ "InstanceInitiatedShutdownBehavior", "instanceInitiatedShutdownBehavior" } };
	const char **versions;
	size_t n = form_list(&e->form, e->rq->arena, "LaunchTemplateVersion", &versions);
	const char *id = form_get(&e->form, "LaunchTemplateId");
	const char *name = form_get(&e->form, "LaunchTemplateName");
	const struct ltemplate *t;

	form_accept(&e->form, "M??Version");
	form_accept(&e->form, "MaxResults");
	if (!ec2_ready(e) || !(t = template_find(e, id, name))) {
		return;
	}
	for (size_t k = 0; k < n; k++) {
		if (!version_there(e, t, versions[k])) {
			return;
		}
	}
	ec2_begin(e);
	sbuf_puts(&e->out, "<launchTemplateVersionSet><item>");
	x_text(&e->out, "launchTemplateId", t->id);
	x_text(&e->out, "launchTemplateName", t->name);
	x_int(&e->out, "versionNumber", VERSIONS_MAX);
	x_text(&e->out, "versionDescription", t->about);
	x_text(&e->out, "createTime", aws_time_ms(e->rq->arena, t->made_us));
	x_text(&e->out, "createdBy", "arn:aws:iam::" AWS_ACCOUNT ":user/broker");
	x_bool(&e->out, "defaultVersion", true);
	x_open(&e->out, "launchTemplateData");
	for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
		x_text(&e->out, texts[k][1], item_of(t, texts[k][0]));
	}
	x_close(&e->out, "launchTemplateData");
	sbuf_puts(&e->out, "</item></launchTemplateVersionSet>");
}

void ec2_delete_template(struct ec2 *e)
{
	const char *id = form_get(&e->form, "LaunchTemplateId");
	const char *name = form_get(&e->form, "LaunchTemplateName");
	struct ltemplate *t;

	if (!ec2_ready(e) || !(t = template_find(e, id, name))) {
		return;
	}
	t->deleted = true;
	ec2_begin(e);
	template_xml(e, "launchTemplate", t);
}

/* ---- used ------------------------------------------------------------------------------------ */

/* Whether the request has the member. "Placement" or "TagSpecification" replaces the template's
 * whole. */
static bool is_said(const struct form *f, const char *name)
{
	size_t n = strcspn(name, ".");

	for (size_t k = 0; k < f->n; k++) {
		if (strncmp(f->items[k].name, name, n) == 0 &&
		    (f->items[k].name[n] == '.' || f->items[k].name[n] == '\0')) {
			return true;
		}
	}
	return false;
}

const char *template_under(struct ec2 *e, const char *id, const char *name, const char *version,
    struct form *f)
{
	const struct ltemplate *t = template_find(e, id, name);
	const struct form own = *f;

	if (!t || !version_there(e, t, version)) {
		return NULL;
	}
	for (size_t k = 0; k < t->n; k++) {
		if (!is_said(&own, t->items[k].name)) {
			form_put(f, e->rq->arena, t->items[k].name, t->items[k].value);
		}
	}
	return t->id;
}

void template_apply(struct ec2 *e)
{
	const char *id = form_get(&e->form, "LaunchTemplate.LaunchTemplateId");
	const char *name = form_get(&e->form, "LaunchTemplate.LaunchTemplateName");
	const char *version = form_get(&e->form, "LaunchTemplate.Version");

	if (!id && !name && !version) {
		return;
	}
	id = template_under(e, id, name, version, &e->form);
	if (id) {
		form_put(&e->form, e->rq->arena, "LaunchTemplate.LaunchTemplateId", id);
	}
	form_accept(&e->form, "LaunchTemplate.*");
}
