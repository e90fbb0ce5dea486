/* SSM public parameters: image ids per region. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "base/text/text.h"

static json_t *parameter_json(struct sim_req *rq, const char *name)
{
	for (size_t k = 0; k < images_n; k++) {
		if (str_same(images[k].parameter, name)) {
			return json_pack("{s:s, s:s, s:s, s:i, s:o, s:f, s:s}", "Name", name,
			    "Type", "String", "Value", image_id(rq->arena, rq->region, &images[k]),
			    "Version", 42, "ARN",
			    json_sprintf("arn:aws:ssm:%s::parameter%s", rq->region, name),
			    "LastModifiedDate", 1.7882208e9, "DataType", "aws:ec2:image");
		}
	}
	return NULL;
}

static void get_one(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *name = json_string_value(json_object_get(doc, "Name"));
	json_t *p = name ? parameter_json(rq, name) : NULL;

	if (!name) {
		reply_fail(rq, rep, 400, "ValidationException",
		    "1 validation error detected: Value null at 'name' failed to "
		    "satisfy constraint: Member must not be null");
	} else if (!p) {
		reply_fail(rq, rep, 400, "ParameterNotFound", "Parameter %s not found.", name);
	} else {
		reply_json(rq, rep, 200, json_pack("{s:o}", "Parameter", p));
	}
}

static void get_many(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const json_t *names = json_object_get(doc, "Names");
	json_t *found = json_array(), *missing = json_array();

	for (size_t k = 0; k < json_array_size(names); k++) {
		const char *name = json_string_value(json_array_get(names, k));
		json_t *p = name ? parameter_json(rq, name) : NULL;

		if (p) {
			json_array_append_new(found, p);
		} else {
			json_array_append_new(missing, json_string(name ? name : ""));
		}
	}
	if (json_array_size(names) < 1 || json_array_size(names) > 10) {
		json_decref(found);
		json_decref(missing);
		reply_fail(rq, rep, 400, "ValidationException",
		    "1 validation error detected: Value at 'names' failed to "
		    "satisfy constraint: Member must have length less than or equal to 10");
		return;
	}
	reply_json(rq, rep, 200,
	    json_pack("{s:o, s:o}", "Parameters", found, "InvalidParameters", missing));
}

static void by_path(struct sim_req *rq, struct sim_reply *rep, const json_t *doc)
{
	const char *path = json_string_value(json_object_get(doc, "Path"));
	json_t *found = json_array();

	for (size_t k = 0; path && k < images_n; k++) {
		if (str_prefix(images[k].parameter, path)) {
			json_array_append_new(found, parameter_json(rq, images[k].parameter));
		}
	}
	reply_json(rq, rep, 200, json_pack("{s:o}", "Parameters", found));
}

void ssm_serve(struct sim_req *rq, struct sim_reply *rep)
{
	json_t *doc = aws_json_body(rq, rep);

	if (!doc) {
		return;
	}
	if (str_same(rq->action, "GetParameter")) {
		get_one(rq, rep, doc);
	} else if (str_same(rq->action, "GetParameters")) {
		get_many(rq, rep, doc);
	} else if (str_same(rq->action, "GetParametersByPath")) {
		by_path(rq, rep, doc);
	} else {
		reply_fail(rq, rep, 400, "UnknownOperationException", "%s", "");
	}
	json_decref(doc);
}
