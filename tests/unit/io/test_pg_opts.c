/* The hosts of a DSN in the order in which an attempt asks them. */
#include "base/base.h"
#include "base/text/text.h"
#include "io/pg/pg_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define DSN "host=a,b,c hostaddr=10.0.0.1,10.0.0.2,10.0.0.3 port=5432,5433,5434 dbname=x"

static const struct pg_place nobody, b_place = { .host = "b", .addr = "10.0.0.2", .port = "5433" };

/* "hosts|addresses|ports" after ordering. */
static void assert_order(const char *dsn, int first, const struct pg_place *place,
    enum pg_order how, int n, const char *want)
{
	struct pg_opts o;
	char got[256];

	assert_true(pg_opts_parse(dsn, &o));
	assert_int_equal(pg_opts_order(&o, first, place, how), n);
	(void)snprintf(got, sizeof(got), "%s|%s|%s", pg_opts_get(&o, "host", NULL),
	    pg_opts_get(&o, "hostaddr", NULL) != NULL ? pg_opts_get(&o, "hostaddr", NULL) : "",
	    pg_opts_get(&o, "port", NULL));
	assert_string_equal(got, want);
	pg_opts_fini(&o);
}

static void each_attempt_begins_with_another_host(void **state)
{
	(void)state;
	assert_order(DSN, 0, &nobody, PG_ORDER_LAST, 3,
	    "a,b,c|10.0.0.1,10.0.0.2,10.0.0.3|5432,5433,5434");
	assert_order(DSN, 5, &nobody, PG_ORDER_LAST, 3,
	    "c,a,b|10.0.0.3,10.0.0.1,10.0.0.2|5434,5432,5433");
	assert_order("host=a,b port=1", 1, &nobody, PG_ORDER_LAST, 2, "b,a||1");
	assert_order("host=a port=1", 7, &b_place, PG_ORDER_OTHERS, 1, "a||1");
}

static void a_host_that_was_silent_is_asked_last_alone_or_not(void **state)
{
	static const struct pg_place by_name = { .host = "b", .addr = "10.9.9.9", .port = "1" };
	static const struct pg_place moved = { .host = "b", .addr = "10.0.0.9", .port = "5433" };

	(void)state;
	assert_order(DSN, 1, &b_place, PG_ORDER_LAST, 3,
	    "c,a,b|10.0.0.3,10.0.0.1,10.0.0.2|5434,5432,5433");
	assert_order(DSN, 1, &b_place, PG_ORDER_OTHERS, 2, "c,a|10.0.0.3,10.0.0.1|5434,5432");
	assert_order(DSN, 1, &b_place, PG_ORDER_ONLY, 1, "b|10.0.0.2|5433");
	/* Without addresses the name counts; with them the address does. */
	assert_order("host=a,b port=1", 0, &by_name, PG_ORDER_OTHERS, 1, "a||1");
	assert_order("host=a,b port=1,2", 0, &by_name, PG_ORDER_OTHERS, 2, "a,b||1,2");
	assert_order(DSN, 0, &moved, PG_ORDER_ONLY, 0,
	    "a,b,c|10.0.0.1,10.0.0.2,10.0.0.3|5432,5433,5434");
}

static void a_dsn_that_does_not_parse_is_told(void **state)
{
	struct pg_opts o;

	(void)state;
	assert_false(pg_opts_parse("host=a nonsense", &o));
	pg_opts_fini(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_attempt_begins_with_another_host),
		cmocka_unit_test(a_host_that_was_silent_is_asked_last_alone_or_not),
		cmocka_unit_test(a_dsn_that_does_not_parse_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
