#include "base/base.h"
#include "gcp_priv.h"

/*
 * Places, names and labels. Labels hold lower-case letters, digits, '_' and '-', at most 63
 * (docs.cloud.google.com/compute/docs/labeling-resources, "Requirements for labels"), so other
 * characters of ours are written as '_' and two hexadecimal digits.
 */

#include "base/crypto/crypto.h"

#define LABEL_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-"
#define NAME_MAX_ 63
#define HASH_CHARS 10
#define TOO_LONG_AT 40 /* characters kept of a label that does not fit */

bool gcp_name_ok(const char *name)
{
	size_t n = name != NULL ? strlen(name) : 0;

	return n >= 1 && n <= NAME_MAX_ && strspn(name, LABEL_CHARS) == n && name[0] >= 'a' &&
	    name[0] <= 'z' && name[n - 1] != '-';
}

bool gcp_zone_ok(const char *zone)
{
	return gcp_name_ok(zone) && strchr(zone, '-') != NULL;
}

bool gcp_id_ok(const char *id)
{
	size_t n = id != NULL ? strlen(id) : 0;

	return n >= 1 && n <= 20 && strspn(id, "0123456789") == n;
}

const char *gcp_zone_region(struct arena *a, const char *zone)
{
	const char *dash = strrchr(zone, '-');

	return dash != NULL ? arena_strndup(a, zone, (size_t)(dash - zone)) : "";
}

const char *gcp_last(const char *link)
{
	const char *slash = strrchr(link, '/');

	return slash != NULL ? slash + 1 : link;
}

static const char *hash_of(struct arena *a, const char *text, size_t chars)
{
	char hex[SHA256_HEX];

	sha256_hex(text, strlen(text), hex);
	return arena_strndup(a, hex, chars);
}

/* Ours have dots, theirs may not; the hash keeps two of ours apart that become alike. */
const char *gcp_vm_name(struct arena *a, const char *name)
{
	char *out = arena_strdup(a, name);
	size_t keep = NAME_MAX_ - 1 - HASH_CHARS;

	for (char *p = out; *p != '\0'; p++) {
		if (*p >= 'A' && *p <= 'Z') {
			*p = (char)(*p - 'A' + 'a');
		} else if (strchr(LABEL_CHARS, *p) == NULL) {
			*p = '-';
		}
	}
	if (strlen(out) > keep) {
		out[keep] = '\0';
	}
	if (out[0] < 'a' || out[0] > 'z') {
		out = arena_printf(a, "n%.*s", (int)keep - 1, out);
	}
	return arena_printf(a, "%s-%s", out, hash_of(a, name, HASH_CHARS));
}

const char *gcp_label(struct arena *a, const char *text)
{
	static const char digits[] = "0123456789abcdef";
	char *out = arena_alloc(a, strlen(text) * 3 + 1);
	size_t n = 0;

	for (const char *p = text; *p != '\0'; p++) {
		if (strchr(LABEL_CHARS, *p) != NULL) {
			out[n++] = *p;
			continue;
		}
		out[n++] = '_';
		out[n++] = digits[(unsigned char)*p >> 4];
		out[n++] = digits[(unsigned char)*p & 15];
	}
	if (n < GCP_LABEL_MAX) {
		return out;
	}
	return arena_printf(a, "%.*s__%s", TOO_LONG_AT, out, hash_of(a, text, 20));
}

/* A text that was too long cannot be read back and stays as it is: it equals the label of the same
 * text. */
const char *gcp_unlabel(struct arena *a, const char *label)
{
	char *out = arena_alloc(a, strlen(label) + 1);
	size_t n = 0;

	for (const char *p = label; *p != '\0'; p++) {
		uint8_t byte;

		if (*p != '_') {
			out[n++] = *p;
			continue;
		}
		if (p[1] == '\0' || p[2] == '\0' || !hex_decode(p + 1, 2, &byte) || byte == 0) {
			return label;
		}
		out[n++] = (char)byte;
		p += 2;
	}
	out[n] = '\0';
	return out;
}

/* For people: what does not fit becomes '_'. */
const char *gcp_label_plain(struct arena *a, const char *text)
{
	char *out = arena_printf(a, "%.63s", text);

	for (char *p = out; *p != '\0'; p++) {
		if (*p >= 'A' && *p <= 'Z') {
			*p = (char)(*p - 'A' + 'a');
		} else if (strchr(LABEL_CHARS, *p) == NULL) {
			*p = '_';
		}
	}
	return out;
}

/* Keys begin with a letter. */
const char *gcp_label_key(struct arena *a, const char *key)
{
	const char *out = gcp_label_plain(a, key);

	return out[0] >= 'a' && out[0] <= 'z' ? out : arena_printf(a, "k%.62s", out);
}

/* A name-based UUID (RFC 9562, version 8) of the token: the same token, the same request. */
const char *gcp_uuid(struct arena *a, const char *token)
{
	uint8_t hash[SHA256_BYTES];
	char hex[33];

	sha256(token, strlen(token), hash);
	hash[6] = (uint8_t)((hash[6] & 0x0f) | 0x80);
	hash[8] = (uint8_t)((hash[8] & 0x3f) | 0x80);
	hex_encode(hash, 16, hex);
	return arena_printf(a, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
	    hex + 20);
}

bool gcp_ref_read(struct arena *a, const char *ref, const char **ret_zone, const char **ret_id,
    bool *ret_disk)
{
	const char *slash = ref != NULL ? strchr(ref, '/') : NULL, *id;

	if (slash == NULL) {
		return false;
	}
	*ret_zone = arena_strndup(a, ref, (size_t)(slash - ref));
	*ret_disk = str_prefix(slash, "/disks/");
	id = *ret_disk ? slash + 7 : slash + 1;
	*ret_id = id;
	return gcp_zone_ok(*ret_zone) && gcp_id_ok(id);
}

int64_t gcp_time(const char *text)
{
	int64_t us;

	return !str_empty(text) && parse_time_us(text, &us) ? us : 0;
}
