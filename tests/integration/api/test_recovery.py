"""The figures of recovery: phases, success rate by cloud over 30 days, saves inside the window of the notice."""
import re
import unittest
import lib

A = lib.Apid()
DAY = 24 * lib.HOUR


class Rows(unittest.TestCase):
    def setUp(self):
        A.sql("TRUNCATE recovery")
        self.pool = A.pool(zone=self._testMethodName)
        self.job = int(A.job()["id"][1:])
        self.node = A.node(self.pool)[0]
        self.epoch = 0

    def row(self, provider="aws", outcome="recovered", age_us=lib.HOUR, cause="notice", in_window=None, **seconds):
        """Adds a recovery; the times of its phases are seconds after the notice."""
        self.epoch += 1
        at = lib.now() - age_us
        names = "".join(", %s_us" % k for k in seconds)
        times = "".join(", %d" % (at + int(v * lib.US)) for v in seconds.values())
        A.sql("""INSERT INTO recovery (job_id, epoch, rank, node_id, provider, cause, saves, notice_us, outcome, in_window%s)
            VALUES (%d, %d, 0, %d, '%s', '%s', true, %d, '%s', %s%s)""" % (
            names, self.job, self.epoch, self.node, provider, cause, at, outcome, "NULL" if in_window is None else in_window, times))

    def report(self, query=""):
        return {c["provider"]: c for c in A.call("GET", "/v1/recovery" + query, expect=200)[1]["clouds"]}

    def gauges(self, name):
        text = A.call("GET", "/metrics", expect=200)[1].decode()
        return {p: float(v) for p, v in re.findall(r'^%s\{provider="(\w+)"\} (\S+)$' % name, text, re.M)}

    def test_the_success_rate_is_that_of_30_days_by_cloud(self):
        for provider, outcome, age in (("aws", "recovered", lib.HOUR), ("aws", "recovered", 29 * DAY), ("aws", "failed", DAY), ("aws", "open", DAY),
                                       ("aws", "failed", 31 * DAY), ("gcp", "ended", DAY), ("azure", "recovered", DAY)):
            self.row(provider, outcome, age)
        clouds = self.report()
        self.assertEqual([(p, c["recoveries"], c["open"], c["recovered"], c["failed"], c["ended"], c["success_pct"]) for p, c in clouds.items()],
                         [("aws", 4, 1, 2, 1, 0, 66.7), ("azure", 1, 0, 1, 0, 0, 100), ("gcp", 1, 0, 0, 0, 1, None)])
        ratios = self.gauges("spot_recovery_success_ratio")
        self.assertAlmostEqual(ratios.pop("aws"), 2 / 3, places=9)
        self.assertEqual(ratios, {"azure": 1})
        self.assertEqual(self.gauges("spot_recoveries_open"), {"aws": 1, "azure": 0, "gcp": 0})
        self.assertEqual(self.report("?since=60d")["aws"]["success_pct"], 50)
        self.assertEqual(self.report("?since=2h")["aws"]["recoveries"], 1)

    def test_saves_inside_the_window_are_counted_by_cloud(self):
        for provider, cause, landed in (("aws", "notice", True), ("aws", "notice", False), ("aws", "notice", None), ("aws", "loss", None),
                                        ("aws", "notice", True), ("gcp", "notice", False), ("azure", "loss", None)):
            self.row(provider, cause=cause, in_window=landed)
        self.row(age_us=31 * DAY, in_window=False)
        self.assertEqual([(p, c["notices"], c["losses"], c["saves"], c["saves_in_window"], c["in_window_pct"]) for p, c in self.report().items()],
                         [("aws", 4, 1, 3, 2, 66.7), ("azure", 0, 1, 0, 0, None), ("gcp", 1, 0, 1, 0, 0)])
        ratios = self.gauges("spot_recovery_saves_in_window_ratio")
        self.assertAlmostEqual(ratios.pop("aws"), 2 / 3, places=9)
        self.assertEqual(ratios, {"gcp": 0})

    def test_each_phase_begins_at_the_end_of_the_one_before(self):
        self.row(signal=1, saved=3, committed=6, wanted=2, launched=7, enrolled=20, step=24)
        self.row(outcome="failed", wanted=8)
        self.row(signal=3, wanted=4, launched=3.5)  # by two clocks: no phase is shorter than nothing
        phases = {p["phase"]: (p["n"], p["p50_s"], p["max_s"]) for p in self.report()["aws"]["phases"]}
        self.assertEqual(phases, {"signal": (2, 2, 3), "saved": (1, 2, 2), "committed": (1, 3, 3), "wanted": (3, 4, 8), "launched": (2, 2.5, 5),
                                  "enrolled": (1, 13, 13), "first_step": (1, 4, 4), "total": (1, 24, 24)})
        self.assertEqual(list(phases), ["signal", "saved", "committed", "wanted", "launched", "enrolled", "first_step", "total"])
        A.sql("UPDATE job SET epoch = 3 WHERE id = %d" % self.job)
        shown = A.call("GET", "/v1/jobs/j%d" % self.job, expect=200)[1]["recoveries"]
        self.assertEqual([(r["phases"]["launched_s"], r["phases"]["total_s"]) for r in shown], [(5, 24), (None, None), (0, None)])


class Window(unittest.TestCase):
    """Whether the save of a notice was durable in time, as the rows of attempts and checkpoints tell it."""

    def judged(self, committed_s=None, deadline_s=20, went_on=True, saves=True, cause="notice", left_s=None, reason="notice"):
        """in_window of a recovery whose save was durable so many seconds after the notice; left_s: the job left with nothing to save."""
        job, at = int(A.job()["id"][1:]), lib.now() - lib.HOUR
        nodes = [A.node(A.pool(zone="z%d-%d" % (job, i)))[0] for i in range(2)]
        A.attempt(job, nodes[0], 1)
        A.sql("""UPDATE attempt SET ended_us = %d, exit_reason = '%s', steps_done = 7 WHERE job_id = %d;
            INSERT INTO recovery (job_id, epoch, rank, node_id, provider, cause, saves, notice_us, deadline_us)
            VALUES (%d, 1, 0, %d, 'aws', '%s', %s, %d, %s)""" % (
            at + int((left_s or 60) * lib.US), "drained" if left_s else "lost", job, job, nodes[0], cause, saves, at,
            "NULL" if deadline_s is None else at + deadline_s * lib.US))
        if committed_s is not None:
            A.sql("""INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us, committed_us)
                VALUES (%d, 1, 'COMMITTED', '%s', 7, 1, %d, %d)""" % (job, reason, at, at + int(committed_s * lib.US)))
        if went_on:
            A.attempt(job, nodes[1], 2)
            A.sql("UPDATE attempt SET first_step_us = %d WHERE job_id = %d AND epoch = 2" % (at + 120 * lib.US, job))
        return A.sql("SELECT f.in_window FROM recovery r, recovery_now(r) f WHERE r.job_id = %d" % job)

    def test_a_save_counts_if_it_was_durable_by_the_deadline(self):
        self.assertEqual(self.judged(committed_s=19.9), "t")
        self.assertEqual(self.judged(committed_s=19.9, went_on=False), "t")
        self.assertEqual(self.judged(committed_s=20.1), "f")
        self.assertEqual(self.judged(), "f")
        self.assertEqual(self.judged(committed_s=5, reason="periodic"), "f")  # not the save that was asked for

    def test_it_is_not_known_before_the_end_nor_without_a_notice_or_a_save(self):
        self.assertEqual(self.judged(went_on=False), "")
        self.assertEqual(self.judged(committed_s=5, saves=False), "")
        self.assertEqual(self.judged(committed_s=5, cause="loss", deadline_s=None), "")

    def test_a_job_that_had_all_saved_and_left_in_time_counts(self):
        self.assertEqual(self.judged(committed_s=-30, reason="periodic", left_s=5), "t")
        self.assertEqual(self.judged(committed_s=-30, reason="periodic", left_s=25), "f")


if __name__ == "__main__":
    lib.main()
