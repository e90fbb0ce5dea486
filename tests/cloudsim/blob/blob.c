/* Blob storage: which call a request is, containers, errors. */
#include "base/base.h"
#include "cloudsim/aws/aws.h"
#include "cloudsim/blob/blob.h"
#include "base/text/text.h"

#include <unistd.h>

/* ---- replies --------------------------------------------------------------------------------- */

void blob_error(struct sim_req *rq, struct sim_reply *rep, int status, const char *code,
    const char *message)
{
	char at[TIME_TEXT_MAX];
	const char *text = arena_printf(rq->arena,
	    "\xef\xbb\xbf<?xml version=\"1.0\" "
	    "encoding=\"utf-8\"?><Error><Code>%s</Code><Message>%s\n"
	    "RequestId:%s\nTime:%.26s0Z</Message></Error>",
	    code, message, rq->request_id, format_time(sim_wall(rq->sim), at));

	if (str_same(rq->http->method, "HEAD")) {
		reply_set(rep, status, NULL, NULL, 0);
	} else {
		reply_set(rep, status, "application/xml", text, strlen(text));
	}
	reply_header(rep, "x-ms-error-code", arena_strdup(rq->arena, code));
	reply_header(rep, "x-ms-request-id", rq->request_id);
}

/* ---- containers ------------------------------------------------------------------------------ */

static bool container_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n >= 3 && n <= 63 && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] &&
	    name[0] != '-' && name[n - 1] != '-' && !strstr(name, "--");
}

static struct blob_container *container_make(struct sim *s, const char *name)
{
	struct blob_container *b = calloc(1, sizeof(*b)), **at = &s->azure->blobs->containers;

	if (!b) {
		abort();
	}
	b->name = dup_text(name);
	b->etag = blob_etag(s);
	b->at_us = sim_wall(s);
	while (*at && strcmp((*at)->name, name) < 0) {
		at = &(*at)->next;
	}
	b->next = *at;
	*at = b;
	return b;
}

static struct blob_container *container_find(const struct sim *s, const char *name)
{
	for (struct blob_container *b = s->azure->blobs->containers; b; b = b->next) {
		if (strcmp(b->name, name) == 0) {
			return b;
		}
	}
	return NULL;
}

json_t *blob_container_add(struct sim *s, const json_t *doc, struct spot_err *err)
{
	const char *name = json_need_str(doc, "name", err);

	if (err->rc == SPOT_OK && !container_name_valid(name)) {
		err_set(err, SPOT_INVALID, "'%s' is no container name", name);
	}
	if (err->rc != SPOT_OK) {
		return NULL;
	}
	if (!container_find(s, name)) {
		container_make(s, name);
	}
	return json_object();
}

static void container_stamp(struct blob_call *b, const struct blob_container *box)
{
	reply_header(b->rep, "ETag", arena_strdup(b->rq->arena, box->etag));
	reply_header(b->rep, "Last-Modified", blob_date(b->rq->arena, box->at_us));
}

static void container_create(struct blob_call *b)
{
	if (!container_name_valid(b->container)) {
		blob_fail(b, 400,
		    strlen(b->container) < 3 ? "OutOfRangeInput" : "InvalidResourceName",
		    "The specified resource name contains invalid characters.");
	} else if (b->box) {
		blob_fail(b, 409, "ContainerAlreadyExists",
		    "The specified container already exists.");
	} else {
		reply_set(b->rep, 201, NULL, NULL, 0);
		container_stamp(b, container_make(b->rq->sim, b->container));
	}
}

static void container_delete(struct blob_call *b)
{
	for (struct blob_container **at = &b->st->containers; *at; at = &(*at)->next) {
		if (*at == b->box) {
			*at = b->box->next;
			break;
		}
	}
	blob_container_free(b->box);
	reply_set(b->rep, 202, NULL, NULL, 0);
}

static void serve_container(struct blob_call *b)
{
	const char *m = b->rq->http->method, *comp = az_query(b->c, "comp");

	if (!str_same(az_query(b->c, "restype"), "container")) {
		blob_fail(b, 400, "InvalidUri",
		    "The requested URI does not represent any resource on the server.");
	} else if (str_same(m, "PUT") && !comp) {
		container_create(b);
	} else if (!b->box) {
		blob_fail(b, 404, "ContainerNotFound", "The specified container does not exist.");
	} else if (str_same(m, "GET") && str_same(comp, "list")) {
		blob_list(b);
	} else if (str_same(m, "DELETE")) {
		container_delete(b);
	} else if (!comp && (str_same(m, "GET") || str_same(m, "HEAD"))) {
		reply_set(b->rep, 200, NULL, NULL, 0);
		container_stamp(b, b->box);
	} else {
		blob_fail(b, 405, "UnsupportedHttpVerb",
		    "The resource doesn't support specified Http Verb.");
	}
}

/* ---- routing --------------------------------------------------------------------------------- */

/* The operations as the REST reference names them. */
static const struct {
	const char *method, *comp, *action;
	void (*fn)(struct blob_call *);
} operations[] = {
	{ "PUT", NULL, "PutBlob", blob_put },
	{ "PUT", "block", "PutBlock", blob_put_block },
	{ "PUT", "blocklist", "PutBlockList", blob_put_list },
	{ "PUT", "metadata", "SetBlobMetadata", blob_put_meta },
	{ "GET", "blocklist", "GetBlockList", blob_get_list },
	{ "GET", NULL, "GetBlob", NULL },
	{ "HEAD", NULL, "GetBlobProperties", NULL },
	{ "DELETE", NULL, "DeleteBlob", blob_delete },
};

const char *blob_action(struct az_call *c)
{
	const char *m = c->rq->http->method, *comp = az_query(c, "comp");

	if (c->n == 1) {
		return str_same(comp, "userdelegationkey") ? "GetUserDelegationKey"
							   : "ListContainers";
	}
	if (c->n == 2) {
		return str_same(m, "PUT")    ? "CreateContainer"
		    : str_same(comp, "list") ? "ListBlobs"
		    : str_same(m, "DELETE")  ? "DeleteContainer"
					     : "GetContainerProperties";
	}
	for (size_t k = 0; k < ARRAY_LEN(operations); k++) {
		if (str_same(operations[k].method, m) && str_same(operations[k].comp, comp)) {
			return operations[k].action;
		}
	}
	return m;
}

static void serve_blob(struct blob_call *b)
{
	const char *m = b->rq->http->method, *comp = az_query(b->c, "comp");

	if (!b->box) {
		blob_fail(b, 404, "ContainerNotFound", "The specified container does not exist.");
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(operations); k++) {
		if (!str_same(operations[k].method, m) || !str_same(operations[k].comp, comp)) {
			continue;
		}
		if (operations[k].fn) {
			operations[k].fn(b);
		} else {
			blob_read(b, str_same(m, "HEAD"));
		}
		return;
	}
	blob_fail(b, 400, "InvalidQueryParameterValue",
	    "Value for one of the query parameters specified in the request URI is invalid.");
}

/* The blob's name is all of the path behind the container, decoded as a whole. */
static void path_split(struct blob_call *b)
{
	const char *p = b->rq->http->path + strlen("/" AZ_ACCOUNT), *slash;
	char *text;

	b->container = b->name = "";
	if (*p == '/') {
		p++;
	}
	slash = strchrnul(p, '/');
	b->container = arena_strndup(b->rq->arena, p, (size_t)(slash - p));
	if (*slash &&
	    url_decode(b->rq->arena, (struct str){ slash + 1, strlen(slash + 1) }, false, &text)) {
		b->name = text;
	}
}

static bool version_good(struct blob_call *b)
{
	const char *v = blob_header(b, "x-ms-version");

	/* A SAS may carry it instead (sv). */
	if (!v && az_query(b->c, "sig")) {
		return true;
	}
	if (v && str_prefix(v, "20") && strlen(v) == 10 && strcmp(v, "2015-02-21") >= 0 &&
	    strcmp(v, "2027-01-01") < 0) {
		return true;
	}
	blob_fail(b, 400, v ? "InvalidHeaderValue" : "MissingRequiredHeader",
	    "The value for one of the HTTP headers is not in the correct format.");
	reply_header(b->rep, "x-ms-version", "2025-07-05");
	return false;
}

void blob_serve(struct az_call *c)
{
	struct blob_call b = { .c = c, .rq = c->rq, .rep = c->rep, .st = c->az->blobs };
	const char *id = req_header(c->rq, "x-ms-client-request-id"),
		   *v = req_header(c->rq, "x-ms-version");

	path_split(&b);
	b.box = container_find(c->rq->sim, b.container);
	if (version_good(&b) && blob_authorized(&b)) {
		if (!*b.container && str_same(c->rq->action, "GetUserDelegationKey")) {
			blob_user_key(&b);
		} else if (!*b.container) {
			blob_list_containers(&b);
		} else if (!*b.name) {
			serve_container(&b);
		} else {
			serve_blob(&b);
		}
	}
	if (c->rep->status < 400) {
		reply_header(c->rep, "x-ms-request-id", c->rq->request_id);
	}
	reply_header(c->rep, "x-ms-version", v ? v : "2023-11-03");
	if (id) {
		reply_header(c->rep, "x-ms-client-request-id", id);
	}
}
