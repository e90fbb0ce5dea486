/* config.spotctl.data of the job file: the data that the job reads, and its size. */
#include "base/base.h"
#include "base/text/text.h"
#include "core/spec/spec.h"

/* Parses "120GB": decimal units, as clouds bill them, and binary ones. */
static bool parse_bytes(const char *text, int64_t *ret)
{
	static const struct {
		const char *unit;
		double bytes;
	} units[] = { { "TiB", 1099511627776.0 }, { "GiB", 1073741824.0 }, { "MiB", 1048576.0 },
		{ "TB", 1e12 }, { "GB", 1e9 }, { "MB", 1e6 } };
	char number[32];
	double v;

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		size_t n = strlen(text), u = strlen(units[i].unit);

		if (n > u && n - u < sizeof(number) && strcmp(text + n - u, units[i].unit) == 0) {
			memcpy(number, text, n - u);
			number[n - u] = '\0';
			if (!parse_f64(number, 0, 1e6, &v)) {
				return false;
			}
			*ret = (int64_t)(v * units[i].bytes);
			return true;
		}
	}
	return false;
}

/* Reads the job's data, for the price of moving it. The scheme of its address gives its cloud. */
enum spot_rc spec_data(const struct yaml *y, struct job_spec *s, struct spot_err *err)
{
	static const char *const known[] = { "uri", "size", "region", NULL };
	static const struct spec_unsupported later[] = { { NULL, NULL } };
	static const char *const clouds[][2] = { { "s3://", "aws" }, { "gs://", "gcp" },
		{ "az://", "azure" } };
	const char *size = NULL;
	enum spot_rc rc;

	if (y == NULL || yaml_is_null(y)) {
		return SPOT_OK;
	}
	rc = spec_keys(y, "data", known, later, err);
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "uri"), &s->data_uri, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "size"), &size, err);
	}
	if (rc == SPOT_OK) {
		rc = spec_text(yaml_get(y, "region"), &s->data_region, err);
	}
	if (rc != SPOT_OK) {
		return rc;
	}
	for (size_t i = 0; s->data_uri != NULL && i < ARRAY_LEN(clouds); i++) {
		s->data_provider =
		    str_prefix(s->data_uri, clouds[i][0]) ? clouds[i][1] : s->data_provider;
	}
	if (s->data_provider == NULL) {
		return yaml_fail(y, err, "data.uri: where the data is, s3://, gs:// or az://");
	}
	if (size == NULL || !parse_bytes(size, &s->data_bytes)) {
		return yaml_fail(y, err,
		    "data.size: how much the job reads, such as 120GB or 1.5TB");
	}
	return SPOT_OK;
}
