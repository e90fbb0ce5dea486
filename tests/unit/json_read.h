/* Members that a test expects of an object. A missing one or another type fails the test. */
#ifndef UNIT_JSON_READ_H
#define UNIT_JSON_READ_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>

static inline int64_t int_read(const json_t *j, const char *name)
{
	const json_t *v = json_object_get(j, name);

	if (!json_is_integer(v)) {
		fail_msg("'%s' is no integer", name);
	}
	return json_integer_value(v);
}

static inline const char *text_read(const json_t *j, const char *name)
{
	const char *text = json_string_value(json_object_get(j, name));

	if (text == NULL) {
		fail_msg("'%s' is no string", name);
	}
	return text;
}

#endif
