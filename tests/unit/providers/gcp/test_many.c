#include "base/base.h"
#include "gcp_test.h"

#include "base/text/text.h"

/* Describe of more machines than a call has time to get one by one. */

#define GETS 50
#define PAGE 500
#define LISTED(zone) \
	API "/zones/" zone "/instances?filter=labels.spotbroker-install%3D7f3a&maxResults=500"
#define VM_IN(zone, id, state) \
	"{\"kind\":\"compute#instance\",\"id\":\"" id "\",\"zone\":\"" LINK "/zones/" zone \
	"\",\"machineType\":\"m/g2-standard-4\",\"status\":\"" state \
	"\",\"labels\":{\"spotbroker-install\":\"7f3a\"}}"
#define VMS(items, more) "{\"kind\":\"compute#instanceList\"" items more "}"
#define NOT_FOUND \
	{ \
		.status = 404, .reply = ERROR(404, "notFound", "m") \
	}

static struct spot_describe describe_args(struct drive *d, size_t n, const char *zone)
{
	const char **refs = arena_array(d->arena, n, sizeof(*refs));

	for (size_t i = 0; i < n; i++) {
		refs[i] = arena_printf(d->arena, "%s/%zu", zone, 1000 + i);
	}
	return (struct spot_describe){ .region = "", .refs = refs, .refs_n = n, .install = "7f3a" };
}

/* The list of ZONE with machines 1000 + from up to (not with) 1000 + to, in pages. */
static size_t list_pages(struct drive *d, struct drive_try *t, size_t from, size_t to)
{
	size_t n = 0;

	for (size_t at = from; at < to || n == 0; at += PAGE) {
		struct sbuf b;

		sbuf_init(&b, 0);
		for (size_t i = at; i < MIN(at + PAGE, to); i++) {
			sbuf_printf(&b, "%s" VM_IN(ZONE, "%zu", "RUNNING"), i > at ? "," : "",
			    1000 + i);
		}
		t[n].url = at == from
		    ? LISTED(ZONE)
		    : arena_printf(d->arena, "%s&pageToken=p%zu", LISTED(ZONE), at);
		t[n].limit = "list";
		t[n].status = 200;
		t[n].reply =
		    arena_printf(d->arena, VMS(",\"items\":[%s]", "%s"), b.p != NULL ? b.p : "",
			at + PAGE < to
			    ? arena_printf(d->arena, ",\"nextPageToken\":\"p%zu\"", at + PAGE)
			    : "");
		n++;
		sbuf_fini(&b);
	}
	return n;
}

static struct drive_try get_try(struct drive *d, const struct spot_describe *a, size_t i,
    bool there)
{
	const char *id = strchr(a->refs[i], '/') + 1;
	struct drive_try t = NOT_FOUND;

	if (there) {
		t = (struct drive_try){ .status = 200,
			.reply = arena_printf(d->arena, VM_IN(ZONE, "%s", "RUNNING"), id) };
	}
	t.url = arena_printf(d->arena, API "/zones/" ZONE "/instances/%s", id);
	t.limit = "read";
	return t;
}

static void a_few_are_asked_for_one_by_one(void **state)
{
	struct drive_try t[GETS + 1];
	struct spot_describe a;
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	a = describe_args(&d, GETS, ZONE);
	for (size_t i = 0; i < GETS; i++) {
		t[i] = get_try(&d, &a, i, i != 7);
	}
	drive_script(&d, t, GETS);
	assert_int_equal(drive_run(&d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	assert_int_equal(a.n, GETS - 1);
	assert_null(a.untold);
	/* So are many without an owner. */
	a = describe_args(&d, GETS + 1, ZONE);
	a.install = NULL;
	t[GETS] = get_try(&d, &a, GETS, false);
	drive_script(&d, t, GETS + 1);
	assert_int_equal(drive_run(&d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	assert_int_equal(a.n, GETS - 1);
	assert_null(a.untold);
	drive_fini(&d);
}

static void many_take_a_request_for_500_and_one_for_each_that_is_lacking(void **state)
{
	struct drive_try t[16] = { { 0 } };
	struct spot_describe a;
	struct drive d;
	size_t n;

	(void)state;
	ready_init(&d, NULL);
	a = describe_args(&d, 5000, ZONE);
	n = list_pages(&d, t, 2, 5010); /* ten more than were asked for */
	assert_int_equal(n, 11);
	t[n++] = get_try(&d, &a, 0, false);
	t[n++] = get_try(&d, &a, 1, true); /* somebody took its label away */
	drive_script(&d, t, n);
	assert_int_equal(drive_run(&d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	assert_int_equal(a.n, 4999);
	assert_null(a.untold);
	for (size_t i = 0; i < a.n; i++) {
		assert_string_not_equal(a.found[i].ref, a.refs[0]);
	}
	drive_fini(&d);
}

/* Absence is a 404, and is told of no more than were asked for: the others' turn comes. */
static void an_unreachable_instance_has_no_answer(void **state)
{
	struct drive_try t[GETS + 2] = { { 0 } };
	struct spot_describe a;
	struct drive d;
	size_t n;

	(void)state;
	ready_init(&d, NULL);
	a = describe_args(&d, 1000, ZONE);
	n = list_pages(&d, t, 0, 880);
	for (size_t i = 0; i < GETS; i++) {
		t[n++] = get_try(&d, &a, 880 + i, i == 3);
	}
	drive_script(&d, t, n);
	assert_int_equal(drive_run(&d, DRIVE_DESCRIBE, &a), SPOT_DONE);
	assert_int_equal(a.n, 881);
	assert_non_null(a.untold);
	for (size_t i = 0; i < a.refs_n; i++) {
		assert_true(a.untold[i] == (i >= 880 + GETS));
	}
	drive_fini(&d);
}

/* Machines that live and that no list has, whatever hides them: more than one look asks for. */
static void those_behind_living_ones_have_their_turn(void **state)
{
	static const size_t first[] = { 880, 930, 980 };
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	for (size_t look = 0; look < ARRAY_LEN(first); look++) {
		struct drive_try t[GETS + 2] = { { 0 } };
		struct spot_describe a = describe_args(&d, 1000, ZONE);
		size_t n = list_pages(&d, t, 0, 880);

		/* From where the look before stopped, and from the beginning again. */
		for (size_t i = 0; i < GETS; i++) {
			t[n++] = get_try(&d, &a, 880 + (first[look] - 880 + i) % 120, true);
		}
		drive_script(&d, t, n);
		assert_int_equal(drive_run(&d, DRIVE_DESCRIBE, &a), SPOT_DONE);
		assert_int_equal(a.n, 930);
	}
	drive_fini(&d);
}

static void each_zone_is_listed_by_itself(void **state)
{
	struct spot_describe a;
	const char **refs;
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	a = describe_args(&d, 52, "us-east1-b");
	refs = arena_array(d.arena, 53, sizeof(*refs));
	memcpy(refs, a.refs, 52 * sizeof(*refs));
	refs[17] = "us-central1-a/1";
	refs[18] = "us-central1-ai1a/2";
	refs[40] = "us-central1-a/3";
	for (size_t i = 0; i < 52; i++) { /* the others are of no zone */
		refs[i] = i == 17 || i == 18 || i == 40 || i == 41 ? refs[i]
		    : i % 2 == 0                                   ? "nonsense"
								   : ZONE "/disks/5";
	}
	refs[52] = "us-central1-a/4";
	a.refs = refs;
	a.refs_n = 53;
	d.agains_max = 1;
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
		/* A list's warning makes no difference: each missing instance is asked for. */
		{ .url = LISTED("us-central1-a"),
		    .status = 200,
		    .reply = VMS(",\"items\":[" VM_IN("us-central1-a", "3", "STOPPING") "]",
			",\"nextPageToken\":\"p\",\"warning\":{\"code\":\"UNREACHABLE\"}") },
		{ .url = LISTED("us-central1-a") "&pageToken=p",
		    .status = 503,
		    .reply = ERROR(503, "backendError", "m") },
		{ .url = LISTED("us-central1-a") "&pageToken=p",
		    .status = 200,
		    .reply = VMS(",\"items\":[" VM_IN("us-central1-a", "1",
				     "RUNNING") "," VM_IN("us-central1-a", "9", "RUNNING") "]",
			"") },
		{ .url = LISTED("us-central1-ai1a"), .status = 200, .reply = VMS("", "") },
		{ .url = LISTED("us-east1-b"), .status = 200, .reply = VMS(",\"items\":[]", "") },
		{ .url = API "/zones/us-central1-ai1a/instances/2",
		    .status = 200,
		    .reply = "{\"kind\":\"compute#instance\",\"id\":\"2\",\"zone\":\"z/"
			     "us-central1-ai1a\",\"status\":\"RUNNING\"}" },
		{ .url = API "/zones/us-east1-b/instances/1041",
		    .status = 404,
		    .reply = ERROR(404, "notFound", "m") },
		{ .url = API "/zones/us-central1-a/instances/4",
		    .status = 404,
		    .reply = ERROR(404, "notFound", "m") }),
	    SPOT_DONE);
	assert_int_equal(a.n, 3);
	assert_string_equal(a.found[0].ref, "us-central1-a/3");
	assert_int_equal(a.found[0].state, SPOT_INSTANCE_STOPPING);
	assert_string_equal(a.found[1].ref, "us-central1-a/1");
	assert_string_equal(a.found[2].ref, "us-central1-ai1a/2");
	drive_fini(&d);
}

static void a_list_that_is_none_is_no_absence(void **state)
{
	struct spot_describe a;
	struct drive d;

	(void)state;
	ready_init(&d, NULL);
	a = describe_args(&d, 60, ZONE);
	failed_with(&d, RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a, { .status = 200, .reply = "{}" }),
	    SPOT_BAD_REPLY, "instances.list");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
		{ .status = 200, .reply = VMS(",\"items\":[{\"id\":\"1\"}]", "") }),
	    SPOT_BAD_REPLY, ZONE);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
		{ .status = 200, .reply = VMS(",\"items\":{}", "") }),
	    SPOT_BAD_REPLY, NULL);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
		{ .status = 404,
		    .reply = ERROR(404, "notFound",
			"The resource 'projects/spot-golden/zones/" ZONE "' was not found") }),
	    SPOT_CONFIG, NULL);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_are_asked_for_one_by_one),
		cmocka_unit_test(many_take_a_request_for_500_and_one_for_each_that_is_lacking),
		cmocka_unit_test(an_unreachable_instance_has_no_answer),
		cmocka_unit_test(those_behind_living_ones_have_their_turn),
		cmocka_unit_test(each_zone_is_listed_by_itself),
		cmocka_unit_test(a_list_that_is_none_is_no_absence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
