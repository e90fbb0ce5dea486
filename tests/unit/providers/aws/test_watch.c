#include "base/base.h"
#include "aws_test.h"

#include "base/text/text.h"

/* Events out of a queue, and scheduled events of machines. */

#define QUEUE "https://sqs.us-east-1.amazonaws.com/123456789012/spotbroker-interruptions"
#define SQS "https://sqs.us-east-1.amazonaws.com/"
static const char *const queued[] = { "interruption_queue.us-east-1", QUEUE, NULL };

#define EVENT(id, type, detail) \
	"{\\\"version\\\":\\\"0\\\",\\\"id\\\":\\\"" id "\\\",\\\"detail-type\\\":\\\"" type \
	"\\\",\\\"source\\\":\\\"aws.ec2\\\",\\\"time\\\":\\\"2015-08-30T12:36:00Z\\\"," \
	"\\\"region\\\":\\\"us-east-1\\\",\\\"resources\\\":[\\\"arn:aws:ec2:us-east-1a:" \
	"instance/i-0\\\"],\\\"detail\\\":{" detail "}}"
#define OF(ref) "\\\"instance-id\\\":\\\"" ref "\\\""
#define WARNING(id, ref) \
	EVENT(id, "EC2 Spot Instance Interruption Warning", \
	    OF(ref) ",\\\"instance-action\\\":\\\"terminate\\\"")
#define LENT(id, ref, at) \
	EVENT(id, "EC2 Capacity Reservation Instance Interruption Warning", \
	    OF(ref) ",\\\"instance-action\\\":\\\"terminate\\\"," \
		    "\\\"instance-termination-time\\\":\\\"" at "\\\"," \
		    "\\\"azId\\\":\\\"use1-az4\\\"")
#define REBALANCE(id, ref) EVENT(id, "EC2 Instance Rebalance Recommendation", OF(ref))
#define CHANGE(id, ref) \
	EVENT(id, "EC2 Instance State-change Notification", \
	    OF(ref) ",\\\"state\\\":\\\"running\\\"")
#define MESSAGE(handle, body) "{\"ReceiptHandle\":\"" handle "\",\"Body\":\"" body "\"}"
#define MESSAGES(list) "{\"Messages\":[" list "]}"
#define INSTANCE(ref, code) \
	"<item><instancesSet><item><instanceId>" ref "</instanceId><instanceState><code>" code \
	"</code></instanceState><tagSet><item><key>spotbroker:install</key><value>7f3a</value>" \
	"</item></tagSet></item></instancesSet></item>"
#define FOUND(items) \
	"<DescribeInstancesResponse><reservationSet>" items \
	"</reservationSet></DescribeInstancesResponse>"

static struct spot_watch watch_args(const char *cursor)
{
	return (struct spot_watch){ .region = "us-east-1",
		.install = "7f3a",
		.cursor = cursor,
		.hold_us = 25 * SPOT_US_PER_S };
}

static void events_of_our_machines_are_told_and_others_are_not(void **state)
{
	struct spot_watch w = watch_args("");
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	assert_int_equal(
	    RUN_SCRIPT(&d, DRIVE_WATCH, &w,
		{ .url = SQS,
		    .headers = { "x-amz-target: AmazonSQS.ReceiveMessage",
			"content-type: application/x-amz-json-1.0" },
		    .has = { "\"WaitTimeSeconds\":20", "\"MaxNumberOfMessages\":10",
			"\"QueueUrl\":\"" QUEUE "\"" },
		    .hasnt = { "VisibilityTimeout" },
		    .limit = "sqs",
		    .mutating = -1,
		    .status = 200,
		    .reply = MESSAGES(MESSAGE("h1", WARNING("e1", "i-0aaa")) "," MESSAGE("h2",
			REBALANCE("e2", "i-0bbb")) "," MESSAGE("h3",
			CHANGE("e3", "i-0aaa")) "," MESSAGE("h4",
			WARNING("e4", "i-0ddd")) "," MESSAGE("h5",
			WARNING("e1", "i-0aaa")) "," MESSAGE("h6", "not an event")) },
		{ .url = US_EAST,
		    .has = { "Filter.1.Name=tag%3Aspotbroker%3Ainstall&Filter.1.Value.1=7f3a",
			"Filter.2.Name=instance-id", "i-0aaa", "i-0bbb", "i-0ddd" },
		    .status = 200,
		    .reply = FOUND(INSTANCE("i-0aaa", "16") INSTANCE("i-0bbb", "16")) }),
	    SPOT_DONE);
	assert_int_equal(w.notices_n, 2);
	assert_string_equal(w.notices[0].ref, "i-0aaa");
	assert_int_equal(w.notices[0].kind, SPOT_NOTICE_INTERRUPTION);
	assert_int_equal(w.notices[0].deadline_us, DRIVE_NOW_US + 120 * SPOT_US_PER_S);
	assert_string_equal(w.notices[1].ref, "i-0bbb");
	assert_int_equal(w.notices[1].kind, SPOT_NOTICE_REBALANCE);
	assert_int_equal(w.notices[1].deadline_us, 0);
	assert_int_equal(w.seen_n, 2);
	assert_int_equal(w.seen[0].state, SPOT_INSTANCE_RUNNING);
	assert_true(w.gap);
	/* All messages go, also those that said nothing to us. */
	for (const char *h = "123456"; *h != '\0'; h++) {
		const char handle[] = { '"', 'h', *h, '"', '\0' };

		assert_non_null(strstr(w.next_cursor, handle));
	}
	drive_fini(&d);
}

static void stored_messages_are_deleted_and_recognized_again(void **state)
{
	struct spot_watch w = watch_args("{\"delete\":[\"h1\",\"h2\"],\"seen\":[\"e1\"]}");
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_WATCH, &w,
			     { .headers = { "x-amz-target: AmazonSQS.DeleteMessageBatch" },
				 .has = { "\"ReceiptHandle\":\"h1\"", "\"ReceiptHandle\":\"h2\"" },
				 .status = 503 },
			     { .headers = { "x-amz-target: AmazonSQS.DeleteMessageBatch" },
				 .has = { "\"ReceiptHandle\":\"h2\"" },
				 .status = 200,
				 .reply = "{\"Successful\":[{\"Id\":\"0\"}],\"Failed\":[{\"Id\":"
					  "\"1\"}]}" },
			     { .headers = { "x-amz-target: AmazonSQS.ReceiveMessage" },
				 .status = 200,
				 .reply = MESSAGES(MESSAGE("h3", WARNING("e1", "i-0aaa"))) }),
	    SPOT_DONE);
	assert_int_equal(w.notices_n, 0);
	assert_int_equal(w.seen_n, 0);
	assert_false(w.gap);
	assert_string_equal(w.next_cursor, "{\"delete\":[\"h3\"],\"seen\":[\"e1\"]}");
	drive_fini(&d);
}

/* monitor-interruptible-cr.html */
static void a_reservation_that_is_reclaimed_names_the_time(void **state)
{
	struct spot_watch w = watch_args("");
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_WATCH, &w,
			     { .status = 200,
				 .reply = MESSAGES(MESSAGE("h1",
				     LENT("e1", "i-0aaa", "2015-08-30T12:37:40Z")) "," MESSAGE("h2",
				     LENT("e2", "i-0bbb", "soon"))) },
			     { .status = 200,
				 .reply =
				     FOUND(INSTANCE("i-0aaa", "16") INSTANCE("i-0bbb", "16")) }),
	    SPOT_DONE);
	assert_int_equal(w.notices_n, 2);
	assert_int_equal(w.notices[0].kind, SPOT_NOTICE_INTERRUPTION);
	assert_int_equal(w.notices[0].deadline_us, DRIVE_NOW_US + 100 * SPOT_US_PER_S);
	assert_int_equal(w.notices[1].deadline_us, DRIVE_NOW_US + 120 * SPOT_US_PER_S);
	drive_fini(&d);
}

static void an_empty_queue_is_no_news_and_no_gap(void **state)
{
	struct spot_watch w = watch_args(""), again;
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_WATCH, &w, { .status = 200, .reply = "{}" }),
	    SPOT_DONE);
	again = watch_args(w.next_cursor);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_WATCH, &again, { .status = 200, .reply = "{}" }),
	    SPOT_DONE);
	assert_false(again.gap);
	/* An unreadable cursor loses only its memory of messages. */
	again = watch_args("{\"delete\":7");
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_WATCH, &again,
			     { .status = 200, .reply = "{\"Messages\":null}" }),
	    SPOT_DONE);
	drive_fini(&d);
}

static void without_a_queue_there_is_no_stream(void **state)
{
	static const char *const wrong[] = { "interruption_queue.us-east-1", "spotbroker", NULL };
	struct spot_watch w = watch_args("");
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	failed_with(&d, drive_run(&d, DRIVE_WATCH, &w), SPOT_NOT_OFFERED, "interruption_queue");
	drive_fini(&d);
	keyed_init(&d, wrong);
	failed_with(&d, drive_run(&d, DRIVE_WATCH, &w), SPOT_CONFIG,
	    "interruption_queue.us-east-1");
	drive_fini(&d);
}

static void a_queue_that_is_not_there_is_a_wrong_setting(void **state)
{
	struct spot_watch w = watch_args("");
	struct drive d;

	(void)state;
	keyed_init(&d, queued);
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_WATCH, &w,
		{ .status = 400,
		    .reply =
			"{\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\",\"message\":\"The "
			"specified queue does not exist.\"}" }),
	    SPOT_CONFIG, "interruption_queue");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_WATCH, &w,
		{ .status = 200, .reply = "{\"Messages\":[{\"Body\":\"x\"}]}" }),
	    SPOT_BAD_REPLY, "ReceiptHandle");
	failed_with(&d,
	    RUN_SCRIPT(&d, DRIVE_WATCH, &w, { .status = 200, .reply = "{\"Messages\":7}" }),
	    SPOT_BAD_REPLY, "not an array");
	drive_fini(&d);
}

/* ---- scheduled events ------------------------------------------------------------------------ */

#define STATUS(ref, words) \
	"<item><instanceId>" ref "</instanceId><eventsSet><item><code>instance-retirement</code>" \
	"<description>" words "</description><notBefore>2015-09-01T00:00:00.000Z</notBefore>" \
	"</item></eventsSet></item>"
#define STATUSES(items) \
	"<DescribeInstanceStatusResponse><instanceStatusSet>" items \
	"</instanceStatusSet></DescribeInstanceStatusResponse>"

static void scheduled_maintenance_is_a_notice(void **state)
{
	static const struct spot_instance mine[] = {
		{ .ref = "i-0aaa", .key = { .market = SPOT_MARKET_ON_DEMAND } },
		{ .ref = "i-0bbb", .key = { .market = SPOT_MARKET_ON_DEMAND } }
	};
	struct spot_notices n = { .region = "us-east-1", .instances = mine, .instances_n = 2 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &n,
			     { .has = { "DescribeInstanceStatus", "Filter.1.Name=event.code",
				   "instance-retirement" },
				 .status = 200,
				 .reply = STATUSES(STATUS("i-0aaa", "gone soon") STATUS("i-0bbb",
				     "[Completed] was") STATUS("i-0ccc", "foreign")) }),
	    SPOT_DONE);
	assert_int_equal(n.n, 1);
	assert_string_equal(n.notices[0].ref, "i-0aaa");
	assert_int_equal(n.notices[0].kind, SPOT_NOTICE_MAINTENANCE);
	assert_true(n.notices[0].deadline_us > DRIVE_NOW_US);
	/* Not permitted: the notices of spot are not lost with it. */
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_NOTICES, &n,
			     { .status = 403, .reply = EC2_XML("UnauthorizedOperation", "no") }),
	    SPOT_DONE);
	assert_int_equal(n.n, 0);
	drive_fini(&d);
}

/* ---- a zone that is disrupted ---------------------------------------------------------------- */

static void machines_elsewhere_are_described_while_a_zone_is_disrupted(void **state)
{
	static const char *const refs[] = { "i-0aaa", "i-0bbb", "i-0ccc" };
	struct spot_describe a = { .region = "us-east-1", .refs = refs, .refs_n = 3 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	assert_int_equal(RUN_SCRIPT(&d, DRIVE_DESCRIBE, &a,
			     { .has = { "i-0aaa", "i-0bbb", "i-0ccc" },
				 .status = 503,
				 .reply = EC2_XML("Unavailable", "m") },
			     { .has = { "i-0ccc" },
				 .status = 503,
				 .reply = EC2_XML("Unavailable", "m") },
			     { .has = { "i-0aaa", "i-0bbb" },
				 .hasnt = { "i-0ccc" },
				 .status = 503,
				 .reply = EC2_XML("Unavailable", "m") },
			     { .has = { "i-0aaa" },
				 .hasnt = { "i-0bbb" },
				 .status = 503,
				 .reply = EC2_XML("Unavailable", "m") },
			     { .has = { "i-0bbb" },
				 .status = 200,
				 .reply = FOUND(INSTANCE("i-0bbb", "16")) },
			     { .has = { "i-0ccc" },
				 .status = 200,
				 .reply = FOUND(INSTANCE("i-0ccc", "16")) }),
	    SPOT_DONE);
	assert_int_equal(a.n, 3);
	/* Not absent: absent would be taken for gone. */
	assert_string_equal(a.found[0].ref, "i-0aaa");
	assert_int_equal(a.found[0].state, SPOT_INSTANCE_ODD);
	assert_int_equal(a.found[1].state, SPOT_INSTANCE_RUNNING);
	assert_int_equal(a.found[2].state, SPOT_INSTANCE_RUNNING);
	drive_fini(&d);
}

static void a_region_that_is_down_stays_a_fault(void **state)
{
	static const char *const refs[] = { "i-0aaa", "i-0bbb", "i-0ccc", "i-0ddd", "i-0eee" };
	static const struct drive_try down[] = { { .status = 503,
	    .reply = EC2_XML("Unavailable", "m") } };
	struct spot_describe a = { .region = "us-east-1", .refs = refs, .refs_n = 5 };
	struct drive d;

	(void)state;
	keyed_init(&d, NULL);
	drive_script(&d, down, 1);
	d.cycle = true;
	failed_with(&d, drive_run(&d, DRIVE_DESCRIBE, &a), SPOT_UNAVAILABLE, NULL);
	drive_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_of_our_machines_are_told_and_others_are_not),
		cmocka_unit_test(stored_messages_are_deleted_and_recognized_again),
		cmocka_unit_test(a_reservation_that_is_reclaimed_names_the_time),
		cmocka_unit_test(an_empty_queue_is_no_news_and_no_gap),
		cmocka_unit_test(without_a_queue_there_is_no_stream),
		cmocka_unit_test(a_queue_that_is_not_there_is_a_wrong_setting),
		cmocka_unit_test(scheduled_maintenance_is_a_notice),
		cmocka_unit_test(machines_elsewhere_are_described_while_a_zone_is_disrupted),
		cmocka_unit_test(a_region_that_is_down_stays_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
