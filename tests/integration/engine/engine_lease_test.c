/* The lease: when a daemon takes it and when not, whatever clocks say and however long the database
 * is away. */
#include "engine_world.h"

/* until_us is by its writer's clock, which may be years behind ours: only its change counts. */
static void test_a_renewed_lease_is_not_taken_whatever_the_clocks_say(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.lease_us = 2 * SPOT_US_PER_S;
	world_sql(w,
	    "INSERT INTO leader (name, epoch, holder, until_us) VALUES ('engine', 7, 'another/1', "
	    "1000)");
	world_start(w);
	for (int i = 0; i < 12; i++) {
		world_for(w, 200);
		world_sql(w, "UPDATE leader SET until_us = until_us + 1000");
	}
	assert_int_equal(world_int(w, "SELECT epoch FROM leader"), 7);
	world_until(w, LIMIT, "SELECT (epoch = 8)::int FROM leader");
	world_sql(w,
	    "UPDATE leader SET epoch = 9, holder = 'another/1', until_us = 9000000000000000000");
	world_deposed(w);
	/* One that stands is, also with an end in the far future. */
	world_until(w, LIMIT, "SELECT (epoch = 10)::int FROM leader");
}

/* With a lease of so many seconds, for the first time. */
static void engine_lead(struct world *w, int lease_s)
{
	world_reset(w, true);
	w->conf.lease_us = lease_s * SPOT_US_PER_S;
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leader WHERE epoch = 1");
}

/* The database stands still for longer than a lease: nobody else can have taken it, and it need not
 * be watched for as long again. */
static void test_the_last_leader_leads_again_as_soon_as_the_database_answers(void **state)
{
	struct world *w = *state;
	int64_t end;

	engine_lead(w, 4);
	world_sql(w, "BEGIN; LOCK TABLE leader");
	world_for(w, w->conf.lease_us * 3 / 2000);
	assert_false(engine_leads(w->engine));
	world_sql(w, "COMMIT");
	end = world_us() + w->conf.lease_us;
	world_until(w, LIMIT, "SELECT (epoch = 2)::int FROM leader");
	assert_true(world_us() < end);
}

/* Rows of a holder with a clock behind are not as old as they look to the next leader. A machine
 * that was launched just now has time to boot. */
static void test_a_successor_of_a_clock_behind_gives_machines_their_time(void **state)
{
	struct world *w = *state;
	int64_t hour = SPOT_US_PER_HOUR, job;

	world_reset(w, true);
	w->conf.lease_us = 2 * SPOT_US_PER_S;
	w->agents = false;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	job = world_job(w, "{}");
	world_until_node(w, "BOOTING");
	world_sql(w,
	    "UPDATE leader SET epoch = epoch + 1, holder = 'another/1', until_us = %" PRId64,
	    world_us() - hour);
	world_deposed(w);
	world_sql(w,
	    "UPDATE node SET created_us = created_us - %" PRId64 ", state_us = state_us - %" PRId64
	    ", launch_sent_us = launch_sent_us - %" PRId64 ", launched_us = launched_us - %" PRId64,
	    hour, hour, hour, hour);
	for (int i = 0; i < 5; i++) { /* the other one renews */
		world_sql(w, "UPDATE leader SET until_us = %" PRId64, world_us() - hour);
		world_for(w, 400);
	}
	world_until(w, LIMIT, "SELECT (epoch = 3)::int FROM leader");
	/* the answer is under way */
	for (int i = 0; i < LIMIT / 10 && !engine_leads(w->engine); i++) {
		world_for(w, 10);
	}
	assert_true(engine_leads(w->engine));
	world_for(w, 1000);
	assert_string_equal(world_text(w, "SELECT state FROM node WHERE id = 1"), "BOOTING");
	w->agents = true;
	world_until_job(w, "RUNNING");
	assert_int_equal(world_int(w, "SELECT count(*) FROM node"), 1);
	world_finish(w, job);
}

/* Plays a full disk, and counts the attempts: a sequence counts statements that are rolled back,
 * too. */
static void disk_refuse(struct world *w, const char *what)
{
	world_sql(w,
	    "CREATE SEQUENCE asked; CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql "
	    "AS $$ BEGIN "
	    "PERFORM nextval('asked'); RAISE 'No space left on device' USING ERRCODE = '53100'; "
	    "END $$; "
	    "CREATE TRIGGER full_disk %s EXECUTE FUNCTION full_disk()",
	    what);
}

static void refuse_no_more(struct world *w)
{
	world_sql(w, "DROP FUNCTION full_disk() CASCADE; DROP SEQUENCE asked");
}

/* A database that refuses a statement does so at once: asking again at once would be all that
 * anybody does. */
static void test_a_lease_that_cannot_be_renewed_is_not_asked_for_without_a_pause(void **state)
{
	struct world *w = *state;

	engine_lead(w, 2);
	disk_refuse(w, "BEFORE UPDATE ON leader FOR EACH ROW");
	world_for(w, w->conf.lease_us / 1000 * 2);
	assert_false(engine_leads(w->engine));
	/* twelve looks in a lease; two leases */
	assert_in_range(world_int(w, "SELECT last_value FROM asked"), 1, 2 * 24);
	refuse_no_more(w);
	world_until(w, LIMIT, "SELECT (epoch = 2)::int FROM leader");
}

/* A few with each tick of a second, not as fast as turns follow one another. */
static void asked_by_ticks(struct world *w, int64_t from_us)
{
	assert_in_range(world_int(w, "SELECT last_value FROM asked"), 1,
	    20 + 20 * (world_us() - from_us) / SPOT_US_PER_S);
}

/* The simulation found it (seed 100027): an act that ends has a turn follow it, which claimed the
 * same launch again. */
static void test_a_launch_that_cannot_be_claimed_waits_for_the_tick(void **state)
{
	struct world *w = *state;
	int64_t job, from = world_us();

	world_reset(w, true);
	w->conf.tick_us = SPOT_US_PER_S;
	world_pool(w, "z1", "a1", "spot", 1000000);
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leader WHERE epoch = 1");
	disk_refuse(w, "BEFORE UPDATE ON node FOR EACH ROW WHEN (new.state = 'LAUNCHING')");
	job = world_job(w, "{}");
	world_until_node(w, "WANTED");
	world_for(w, 3000);
	asked_by_ticks(w, from);
	assert_int_equal(w->cloud.launches, 0);
	refuse_no_more(w);
	world_until_job(w, "RUNNING");
	world_finish(w, job);
}

/* A refused write must not count as written, which would start another turn at once. */
static void test_places_in_the_queue_that_cannot_be_written_wait_for_the_tick(void **state)
{
	struct world *w = *state;
	int64_t from = world_us();

	world_reset(w, true);
	w->conf.tick_us = SPOT_US_PER_S;
	world_start(w);
	world_until(w, LIMIT, "SELECT count(*) FROM leader WHERE epoch = 1");
	disk_refuse(w, "BEFORE INSERT ON job_queue FOR EACH ROW");
	(void)world_job(w, "{}");
	world_for(w, 3000);
	asked_by_ticks(w, from);
	refuse_no_more(w);
	world_until(w, LIMIT, "SELECT count(*) FROM job_queue WHERE pos = 1");
}

/* A lagging standby has taken over. The missing rows may have been machines, and no row says that
 * somebody led in those seconds. */
static void test_a_lease_whose_row_went_back_is_taken_anew(void **state)
{
	struct world *w = *state;
	int64_t until, led;
	char sql[100];

	engine_lead(w, 2);
	until = world_int(w, "SELECT until_us FROM leader");
	led = world_int(w, "SELECT to_us FROM led WHERE epoch = 1");
	(void)snprintf(sql, sizeof(sql), "SELECT (until_us > %" PRId64 ")::int FROM leader", until);
	world_until(w, LIMIT, sql);
	world_sql(w,
	    "BEGIN; UPDATE leader SET until_us = %" PRId64 "; UPDATE led SET to_us = %" PRId64
	    " WHERE epoch = 1; COMMIT",
	    until, led);
	world_until(w, LIMIT, "SELECT (epoch = 2)::int FROM leader");
	assert_int_equal(world_int(w, "SELECT to_us FROM led WHERE epoch = 1"), led);
}

/* Another daemon took it in the seconds that the new primary lacks. Its epoch may be in a call that
 * is still under way, and no claim of two leaders looks the same. */
static void test_an_epoch_that_a_standby_lacks_is_not_given_twice(void **state)
{
	struct world *w = *state;

	engine_lead(w, 2);
	/* It led the newest itself. */
	world_sql(w, "UPDATE leader SET epoch = 7, holder = 'another/1'");
	world_until(w, LIMIT, "SELECT (epoch = 8)::int FROM leader");
	world_sql(w,
	    "BEGIN; DELETE FROM led WHERE epoch > 6; UPDATE leader SET epoch = 6, holder = "
	    "'another/1', until_us = 1000; COMMIT");
	world_until(w, LIMIT, "SELECT (epoch > 6)::int FROM leader");
	assert_int_equal(world_int(w, "SELECT epoch FROM leader"), 9);
	/* It has only seen it. */
	world_sql(w, "UPDATE leader SET epoch = 20, holder = 'another/1', until_us = 1000");
	world_deposed(w);
	for (int i = 0; i < 24; i++) { /* three leases of one that is renewed */
		world_sql(w, "UPDATE leader SET until_us = until_us + 1");
		world_for(w, w->conf.lease_us / 8000);
	}
	world_sql(w, "UPDATE leader SET epoch = 10");
	world_until(w, LIMIT, "SELECT (epoch > 10)::int FROM leader");
	assert_int_equal(world_int(w, "SELECT epoch FROM leader"), 21);
}

/* The first statement of the kind waits until hang_no_more, as if behind a slow one on its
 * connection. */
static void statement_hang(struct world *w, const char *what)
{
	world_sql(w,
	    "SELECT pg_advisory_lock(1); CREATE SEQUENCE asked; CREATE FUNCTION hang() RETURNS "
	    "trigger LANGUAGE plpgsql AS $$ BEGIN "
	    "IF nextval('asked') = 1 THEN PERFORM pg_advisory_lock_shared(1); END IF; RETURN NULL; "
	    "END $$; "
	    "CREATE TRIGGER hang BEFORE %s ON leader EXECUTE FUNCTION hang()",
	    what);
}

#define HANGS \
	"EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event " \
	"= 'advisory')"

static void hang_no_more(struct world *w)
{
	world_sql(w, "SELECT pg_advisory_unlock_all()");
	world_until(w, LIMIT, "SELECT (NOT " HANGS ")::int");
}

static void test_a_renewal_that_is_not_answered_loses_no_lease(void **state)
{
	struct world *w = *state;

	engine_lead(w, 2);
	statement_hang(w, "UPDATE");
	world_until(w, LIMIT, "SELECT " HANGS "::int");
	world_for(w, w->conf.lease_us / 1000 * 2);
	assert_true(engine_leads(w->engine));
	assert_int_equal(world_int(w, "SELECT " HANGS "::int"), 1);
	/* Now it comes, late, and the lease is renewed after it as before. */
	hang_no_more(w);
	world_for(w, w->conf.lease_us / 1000 * 2);
	assert_true(engine_leads(w->engine));
	assert_int_equal(world_int(w, "SELECT epoch FROM leader"), 1);
}

/* A later one was first, and that it was is not known: its answer was lost on the way. */
/* The row has the old end. An engine that believed the new one would act without a lease. */
static void test_a_renewal_under_way_keeps_its_length_when_the_setting_changes(void **state)
{
	struct world *w = *state;

	engine_lead(w, 6);
	statement_hang(w, "UPDATE");
	world_until(w, LIMIT, "SELECT " HANGS "::int");
	world_sql(w, "CREATE TABLE was AS SELECT until_us FROM leader");
	w->conf.lease_us = 600 * SPOT_US_PER_S;
	engine_reload(w->engine, &w->conf);
	hang_no_more(w);
	/* It renews at once, since the rest of the old lease is less than a third of the new. */
	world_until(w, LIMIT,
	    "SELECT (l.until_us - was.until_us > 60000000)::int FROM leader l, was");
	assert_true(engine_leads(w->engine));
}

static void test_a_renewal_that_is_overtaken_loses_no_lease(void **state)
{
	struct world *w = *state;
	int64_t end;

	engine_lead(w, 6);
	statement_hang(w, "UPDATE");
	world_sql(w,
	    "CREATE SEQUENCE said; CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ "
	    "BEGIN IF (SELECT last_value FROM asked) = 2 THEN "
	    "PERFORM setval('said', NEW.until_us); RAISE 'lost' USING ERRCODE = '08006'; END IF; "
	    "RETURN NEW; END $$; "
	    "CREATE TRIGGER lose BEFORE UPDATE ON leader FOR EACH ROW EXECUTE FUNCTION lose()");
	world_until(w, LIMIT, "SELECT is_called::int FROM said");
	/* Nothing turns: the engine has sent no third one when the first comes. */
	world_sql(w, "UPDATE leader SET until_us = (SELECT last_value FROM said)");
	world_sql(w, "SELECT pg_advisory_unlock_all()");
	end = world_us() + LIMIT * 1000;
	while (world_int(w, "SELECT " HANGS "::int") != 0) {
		assert_true(world_us() < end);
	}
	world_for(w, w->conf.lease_us / 1000 * 2);
	assert_true(engine_leads(w->engine));
	assert_int_equal(world_int(w, "SELECT epoch FROM leader"), 1);
}

static void test_a_look_that_is_not_answered_keeps_nobody_from_leading(void **state)
{
	struct world *w = *state;

	world_reset(w, true);
	w->conf.lease_us = 2 * SPOT_US_PER_S;
	world_sql(w,
	    "INSERT INTO leader (name, epoch, holder, until_us) VALUES ('engine', 7, 'another/1', "
	    "1000)");
	statement_hang(w, "INSERT");
	world_start(w);
	world_until(w, LIMIT, "SELECT (epoch = 8 AND " HANGS ")::int FROM leader");
	hang_no_more(w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_renewed_lease_is_not_taken_whatever_the_clocks_say),
		cmocka_unit_test(
		    test_a_renewal_under_way_keeps_its_length_when_the_setting_changes),
		cmocka_unit_test(test_a_successor_of_a_clock_behind_gives_machines_their_time),
		cmocka_unit_test(test_the_last_leader_leads_again_as_soon_as_the_database_answers),
		cmocka_unit_test(test_a_lease_whose_row_went_back_is_taken_anew),
		cmocka_unit_test(test_an_epoch_that_a_standby_lacks_is_not_given_twice),
		cmocka_unit_test(test_a_renewal_that_is_not_answered_loses_no_lease),
		cmocka_unit_test(test_a_renewal_that_is_overtaken_loses_no_lease),
		cmocka_unit_test(test_a_look_that_is_not_answered_keeps_nobody_from_leading),
		cmocka_unit_test(
		    test_a_lease_that_cannot_be_renewed_is_not_asked_for_without_a_pause),
		cmocka_unit_test(test_a_launch_that_cannot_be_claimed_waits_for_the_tick),
		cmocka_unit_test(test_places_in_the_queue_that_cannot_be_written_wait_for_the_tick),
	};

	return WORLD_TESTS(argc, argv, tests);
}
