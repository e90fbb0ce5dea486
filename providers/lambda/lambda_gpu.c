/*
 * The API says what a type is in words only: gpu_description "A100 (40 GB SXM4)", per GPU, and no
 * architecture. Memory of an unknown form stays 0: not schedulable by memory rather than guessed.
 */
#include "base/base.h"
#include "lambda_priv.h"

#include <ctype.h>
#include <strings.h>

/* Models whose name in our catalogue is not the vendor's, or that exist in several memory sizes or
 * forms and are told apart by them. */
struct gpu_model {
	const char *vendor; /* upper case, without blanks */
	const char *name;
	bool by_memory, by_form;
	int32_t dflt_gb; /* used if the description has no memory; 0 = unknown */
};
static const struct gpu_model gpu_models[] = {
	{ "A10", "A10", false, false, 24 },
	{ "A100", "A100", true, false,
	    40 }, /* "a100" without 80gb in the type's name means 40 GB */
	{ "H100", "H100", true, true, 80 },
	{ "H200", "H200", false, false, 141 },
	{ "B200", "B200", false, false, 180 },
	{ "GH200", "GH200", true, false, 96 },
	{ "V100", "V100", true, false, 16 },
	{ "A6000", "A6000", false, false, 48 },
	{ "RTXA6000", "A6000", false, false, 48 },
	{ "RTX6000", "QuadroRTX6000", false, false, 24 },
	{ "QUADRORTX6000", "QuadroRTX6000", false, false, 24 },
};

struct gpu_words {
	char model[32]; /* upper case, no blanks */
	int32_t gb; /* 0 = not said */
	const char *form; /* "PCIe", "SXM", "NVL" or "" */
};

static const char *form_of(const char *text)
{
	static const char *const forms[] = { "PCIe", "SXM", "NVL" };

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		if (strcasestr(text, forms[i]) != NULL) {
			return forms[i];
		}
	}
	return "";
}

static void model_copy(char *dst, size_t dst_size, const char *s, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n && at + 1 < dst_size; i++) {
		if (isalnum((unsigned char)s[i])) {
			dst[at++] = (char)toupper((unsigned char)s[i]);
		}
	}
	dst[at] = '\0';
}

/* "Tesla V100 (16 GB)": model V100, 16. */
static void words_read(const char *description, struct gpu_words *ret)
{
	static const char *const brands[] = { "NVIDIA ", "Tesla " };
	const char *open;
	char *end;
	long gb;

	*ret = (struct gpu_words){ .form = "" };
	for (size_t i = 0; i < ARRAY_LEN(brands); i++) {
		if (str_prefix(description, brands[i])) {
			description += strlen(brands[i]);
		}
	}
	open = strchr(description, '(');
	model_copy(ret->model, sizeof(ret->model), description,
	    open != NULL ? (size_t)(open - description) : strlen(description));
	if (open == NULL) {
		return;
	}
	gb = strtol(open + 1, &end, 10);
	if (end > open + 1 && gb > 0 && gb < 10000 && str_prefix(end, " GB")) {
		ret->gb = (int32_t)gb;
	}
	ret->form = form_of(open);
}

/* "gpu_8x_a100_80gb_sxm4": what the name alone tells, for a description that tells nothing. */
static void words_from_type(const char *type, struct gpu_words *ret)
{
	const char *model = strstr(type, "x_");

	model = model != NULL ? model + 2 : type;
	*ret = (struct gpu_words){ .form = form_of(type) };
	model_copy(ret->model, sizeof(ret->model), model, strcspn(model, "_"));
	if (strstr(type, "_80gb") != NULL) {
		ret->gb = 80;
	}
}

static const struct gpu_model *model_find(const char *model)
{
	for (size_t i = 0; i < ARRAY_LEN(gpu_models); i++) {
		if (strcmp(gpu_models[i].vendor, model) == 0) {
			return &gpu_models[i];
		}
	}
	return NULL;
}

void lambda_gpu_shape(struct arena *a, const char *type, const char *gpu_description,
    struct spot_shape *ret)
{
	struct gpu_words w;
	const struct gpu_model *m;
	const char *form;
	int32_t gb;

	words_read(gpu_description, &w);
	if (w.model[0] == '\0' || strcmp(w.model, "NA") == 0) {
		words_from_type(type, &w);
	}
	m = model_find(w.model);
	gb = w.gb > 0 || m == NULL ? w.gb : m->dflt_gb;
	form = w.form[0] != '\0' ? w.form : form_of(type);
	if (m == NULL) {
		ret->gpu_name =
		    gb > 0 ? arena_printf(a, "%s-%dGB", w.model, gb) : arena_strdup(a, w.model);
	} else {
		ret->gpu_name = arena_printf(a, "%s%s%s%s", m->name,
		    m->by_memory ? arena_printf(a, "-%dGB", gb) : "",
		    m->by_form && form[0] != '\0' ? "-" : "", m->by_form ? form : "");
	}
	ret->gpu_mem_mib = gb * 1024;
	/* Grace is an ARM processor; every other host of theirs is x86-64. */
	ret->arch = str_prefix(w.model, "GH") || str_prefix(w.model, "GB") ? "arm64" : "x86_64";
}
