#!/usr/bin/env python3
"""A zone dies within minutes, with eight siblings: after the first reclaim the others save before their own notice."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

JOBS = 8
STEPS = 6000
UNSAVED_S = 20


class Burst(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "emulator": ("--boot-ms", "500")}

    def rows(self, text):
        return [line.split("|") for line in self.world.sql(text).splitlines()]

    def asked(self):
        """The jobs that a burst asked to save, by job: when, and when that save was committed."""
        return {"j" + row[0]: [int(v or 0) for v in row[1:]] for row in self.rows(
            "SELECT s.job_id, s.at_us, min(c.committed_us) FROM burst_save s LEFT JOIN checkpoint c ON c.job_id = s.job_id"
            " AND c.epoch = s.epoch AND c.reason = 'burst' AND c.state = 'COMMITTED' GROUP BY 1, 2")}

    def begun(self):
        w = self.world
        jobs = [w.submit(name="sibling%d" % i, gpus="A10G: 1", steps=w.paced(STEPS), step_ms=50, ours="work: 20h") for i in range(JOBS)]
        for job in jobs:
            w.await_steps(job, 20)
        pools = {w.job(job)["pool"]["id"] for job in jobs}
        self.assertEqual(len(pools), 1, "the siblings are not in one pool")
        w.until("all have worked for a while without a save", 90, lambda: w.sql(
            "SELECT count(*) = %d FROM attempt WHERE started_us < (extract(epoch FROM now()) - %d) * 1000000" % (JOBS, UNSAVED_S)) == "t")
        return jobs, w.job(jobs[0])["pool"]

    def test_a_zone_that_dies_costs_no_step(self):
        w = self.world
        jobs, pool = self.begun()
        nodes = {job: w.node(w.job(job)["node"]) for job in jobs}
        self.assertEqual(self.asked(), {})
        w.sim("POST", "/reclaim", {"instance": nodes[jobs[0]]["ref"], "notice_s": 20})
        w.until("the others have saved", 60, lambda: set(self.asked()) == set(jobs[1:]) and all(row[1] for row in self.asked().values()))
        for job in jobs[1:]:
            j = w.job(job)
            self.assertEqual((j["state"], j["epoch"]), ("RUNNING", 1), "a save stopped the job")
        raised = w.api("GET", "/v1/pools/" + pool["id"])["hazard"]["raised_per_hour"]
        self.assertGreater(raised, 0)
        self.assertIn("burst_save", {d["kind"] for d in w.api("GET", "/v1/jobs/%s/why" % jobs[1])["decisions"]})

        for job in jobs[1:]:
            w.sim("POST", "/reclaim", {"instance": nodes[job]["ref"], "notice_s": 20})
        for job in jobs:
            j = w.await_attempt(job, 2)
            self.assertNotEqual(j["pool"]["zone"], pool["zone"], "a replacement went to the zone that dies")
        saves = self.asked()
        self.assertEqual(len(saves), JOBS - 1, "a burst asked twice, or a replacement")
        for node, heard in self.rows("SELECT node_id, heard_us FROM notice WHERE kind = 'interruption'"):
            for job in jobs[1:]:
                if nodes[job]["id"] == "n" + node:
                    self.assertLess(saves[job][1], int(heard), "the save came after the job's own notice")
        w.hurry()
        for job in jobs:
            j = w.await_end(job)
            self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0))
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        metrics = w.ask("GET", "/metrics")[1]
        text = metrics.decode() if isinstance(metrics, bytes) else str(metrics)
        self.assertIn('spot_bursts_total{what="begun"} 1', text)
        self.assertIn('spot_bursts_total{what="followed_3m"} %d' % (JOBS - 1), text)
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
