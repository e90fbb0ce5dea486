#include "base/base.h"
#include "lambda_test.h"

const char *const lambda_env[] = { "LAMBDA_API_KEY", LAMBDA_KEY, NULL };
const char *const lambda_settings[] = { "ssh_key_name", "brk-key", NULL };

int lambda_setup(void **state)
{
	struct drive *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	drive_init(d, &lambda_ops, lambda_env, lambda_settings);
	*state = d;
	return 0;
}

int lambda_teardown(void **state)
{
	struct drive *d = *state;

	drive_fini(d);
	free(d);
	return 0;
}

const char *golden(struct drive *d, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", LAMBDA_GOLDEN, name);
	return drive_file(d->arena, path).p;
}

enum spot_step reply_with(struct drive *d, enum drive_verb verb, void *args, int status,
    const char *body)
{
	struct drive_try *t = arena_alloc(d->arena, sizeof(*t));
	enum spot_step s;

	t->status = status;
	t->reply = body;
	drive_script(d, t, 1);
	d->agains_max = 0;
	s = drive_run(d, verb, args);
	assert_int_equal(d->used, 1);
	assert_null(strstr(d->call.err.text, LAMBDA_JUP));
	return s;
}

void rc_is(const struct drive *d, enum spot_rc rc)
{
	if (d->call.err.rc != rc) {
		fail_msg("rc is %d, not %d: %s", (int)d->call.err.rc, (int)rc, d->call.err.text);
	}
}
