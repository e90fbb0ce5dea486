#!/usr/bin/env python3
"""Recovery as a figure: a reclaim with notice fills each phase, in order, and the histograms are sums of the rows."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

STEPS = 3000
NOTICE_S = 20
WAYS = (("notice", "signal", "saved", "committed"), ("notice", "wanted", "launched", "enrolled", "first_step"))
PHASES = ("signal", "saved", "committed", "wanted", "launched", "enrolled", "first_step", "total")
# The rows' own durations, without the functions that the product counts by.
ROWS = """SELECT provider, step_us - notice_us, signal_us - notice_us, saved_us - signal_us, committed_us - saved_us,
    wanted_us - notice_us, launched_us - wanted_us, enrolled_us - launched_us, step_us - enrolled_us
    FROM recovery WHERE outcome = 'recovered'"""
NAMES = ("total",) + PHASES[:-1]


class World(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def recovered(self, job, n):
        """The job's recoveries, once the n-th is over."""
        def look():
            found = self.world.job(job)["recoveries"]
            return found if len(found) == n and found[-1]["outcome"] == "recovered" else None
        return self.world.until("recovery %d of %s is over" % (n, job), 60, look)


class Notice(World):
    def in_order(self, r):
        for way in WAYS:
            times = [r[name + "_at"] for name in way]
            self.assertNotIn(None, times, r)
            self.assertEqual(times, sorted(times), way)
        for phase in PHASES:
            self.assertGreaterEqual(r["phases"][phase + "_s"], 0, phase)
        self.assertGreater(r["phases"]["total_s"], max(r["phases"]["enrolled_s"], r["phases"]["saved_s"]))

    def histograms(self):
        """{phase: (count, sum, cumulated counts by bound)} of /metrics, of AWS."""
        text = self.world.ask("GET", "/metrics")[1]
        found = {}
        for name, phase, bound, value in re.findall(
                r'^spot_recovery_seconds_(\w+)\{phase="(\w+)",provider="aws"(?:,le="([^"]+)")?\} (\S+)$', text, re.M):
            of = found.setdefault(phase, {"bucket": {}})
            if name == "bucket":
                of["bucket"][float(bound)] = int(value)
            else:
                of[name] = float(value)
        return found

    def sums_are_the_rows(self):
        rows = [line.split("|") for line in self.world.sql(ROWS).splitlines()]
        shown = self.histograms()
        for i, phase in enumerate(NAMES, 1):
            took = [int(row[i]) / 1e6 for row in rows if row[i]]
            self.assertAlmostEqual(shown[phase]["sum"], sum(took), places=5, msg=phase)
            self.assertEqual(shown[phase]["count"], len(took), phase)
            for bound, n in shown[phase]["bucket"].items():
                self.assertEqual(n, sum(t <= bound for t in took), (phase, bound, took))

    def test_a_reclaim_with_notice_fills_every_phase_in_order(self):
        w = self.world
        job = w.submit(steps=w.paced(STEPS), step_ms=30)
        j = w.await_steps(job, 40)
        self.assertEqual(j["recoveries"], [])
        w.clouds.reclaim(w.node(j["node"]), NOTICE_S)
        first = self.recovered(job, 1)[0]
        self.in_order(first)
        self.assertEqual((first["epoch"], first["node"], first["provider"], first["cause"], first["in_window"]),
                         (1, j["node"], "aws", "notice", True))
        self.assertLessEqual(first["committed_at"], first["deadline_at"])
        self.assertLess(first["phases"]["signal_s"], self.late.limit(1))
        self.sums_are_the_rows()

        # A daemon that starts again counts nothing twice, and the next recovery adds to the same sums.
        before = self.histograms()
        w.stop_daemon()
        w.start_daemon()
        w.await_ready()
        self.assertEqual(self.histograms(), before)
        j = w.await_steps(job, w.job(job)["steps_done"] + 20)
        w.clouds.reclaim(w.node(j["node"]), NOTICE_S)
        second = self.recovered(job, 2)[1]
        self.in_order(second)
        self.sums_are_the_rows()
        self.assertEqual(self.histograms()["total"]["count"], 2)
        self.reported(job)
        w.hurry()
        self.assertEqual(w.await_end(job)["state"], "SUCCEEDED")
        w.await_gone()

    def reported(self, job):
        w = self.world
        report = w.ctl_json("report", "recovery", "--since", "1h")
        self.assertEqual([(c["provider"], c["recoveries"], c["recovered"], c["success_pct"], c["saves"], c["saves_in_window"])
                          for c in report["clouds"]], [("aws", 2, 2, 100, 2, 2)])
        self.assertEqual([p["phase"] for p in report["clouds"][0]["phases"]], list(PHASES))
        for words in (("report", "recovery"), ("job", "show", job)):
            text = w.ctl(*words)
            self.assertIn("SUCCESS %" if words[0] == "report" else "LAUNCH", text)
        metrics = w.ask("GET", "/metrics")[1]
        for name in ("success_ratio", "saves_in_window_ratio"):
            self.assertIn('spot_recovery_%s{provider="aws"} 1\n' % name, metrics)


class Loss(World):
    def test_a_machine_lost_without_notice_has_no_save_and_recovers(self):
        w = self.world
        job = w.submit(steps=w.paced(STEPS), step_ms=30, interval="2s")
        j = w.await_steps(job, 40)
        w.clouds.reclaim(w.node(j["node"]), 0)
        r = self.recovered(job, 1)[0]
        self.assertEqual([r[name + "_at"] for name in ("signal", "saved")], [None, None])
        for name in ("wanted", "launched", "enrolled", "first_step"):
            self.assertIsNotNone(r[name + "_at"], name)
        self.assertIn(r["cause"], ("loss", "notice"))
        w.ctl("job", "cancel", job)
        w.await_gone()


class Prompt(World):
    """The engine looks by itself every ten seconds only: whatever is sooner follows from an event."""
    OPTIONS = {**World.OPTIONS, "settings": {"engine": {"tick": "10s"}}}
    SUBMITTED = "SELECT min(n.launch_sent_us) - j.created_us FROM job j JOIN node n ON n.job_id = j.id WHERE j.id = %s GROUP BY j.id"
    NOTICED = """SELECT min(n.launch_sent_us) - r.notice_us FROM recovery r JOIN node n ON n.job_id = r.job_id AND n.created_us > r.notice_us
        WHERE r.job_id = %s GROUP BY r.notice_us"""

    def seconds(self, sql, job):
        return int(self.world.until("a launch call for %s is sent" % job, 30, lambda: self.world.sql(sql % job[1:]))) / 1e6

    def test_the_launch_call_follows_a_submit_and_a_notice_at_once(self):
        w = self.world
        job = w.submit(steps=w.paced(STEPS), step_ms=30)  # the prices are known from here on
        j = w.await_steps(job, 20)
        took = []
        for _ in range(4):
            other = w.submit(name="other")
            took.append(self.seconds(self.SUBMITTED, other))
            w.ctl("job", "cancel", other)
        self.assertLess(max(took), self.late.limit(0.5), took)
        w.clouds.reclaim(w.node(j["node"]), NOTICE_S)
        self.assertLess(self.seconds(self.NOTICED, job), self.late.limit(0.5))
        self.assertEqual(self.recovered(job, 1)[0]["in_window"], True)
        w.ctl("job", "cancel", job)
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
