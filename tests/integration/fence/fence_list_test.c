/* Each statement with which the engine or the poller writes looks at the lease; those that need not
 * are listed with the reason. The program of fence_probe.h tries whether that check holds. */
#include "base/base.h"
#include "fence_probe.h"
#include "store/q.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void every_writing_statement_is_fenced_or_waived(void **state)
{
	int bad = 0, fenced = 0;

	(void)state;
	for (size_t i = 0; i < q_all_n; i++) {
		const struct pg_stmt *s = &q_all[i];
		bool looks =
		    strstr(s->sql, "FROM leader WHERE name = 'engine' AND epoch = $") != NULL;
		bool locks =
		    strstr(s->sql, "FOR KEY SHARE") != NULL || strstr(s->sql, "FOR SHARE") != NULL;

		if (!s->writes || !fence_concerns(s->name)) {
			continue;
		}
		fenced += looks && locks;
		if (fence_waived(s->name) != NULL ? looks : !looks || !locks) {
			fprintf(stderr, "%s: %s\n", s->name,
			    looks ? "fenced, and on the list of those that are not"
				  : "writes without the lease");
			bad++;
		}
	}
	assert_int_equal(bad, 0);
	assert_true(fenced > 50);
}

static void each_waived_statement_exists(void **state)
{
	size_t waived = 0;

	(void)state;
	for (size_t i = 0; i < q_all_n; i++) {
		waived += fence_waived(q_all[i].name) != NULL;
	}
	assert_int_equal(waived, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_writing_statement_is_fenced_or_waived),
		cmocka_unit_test(each_waived_statement_exists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
