#!/usr/bin/env python3
"""Cancellation at every moment of a job's life, and the end of its time, leave nothing behind."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402


class Cancel(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def cancelled(self, job):
        out = self.world.spotctl("job", "cancel", job)
        self.assertEqual(out.returncode, 0, out.stderr)
        j = self.world.await_end(job, 40)
        self.assertEqual(j["state"], "CANCELLED")
        # A waiting command says by its exit code that the job did not succeed.
        self.assertNotEqual(self.world.spotctl("job", "wait", job).returncode, 0)
        return j

    def test_queued_nothing_is_ever_launched(self):
        w = self.world
        before = len(w.sim("GET", "/state")["launches"])
        job = w.submit(name="impossible", resources=["max_hourly_cost: 0.01"])
        w.await_job(job, "a reason why it waits", 20, lambda j: j["state"] == "QUEUED" and "suits" in j["why"])
        j = self.cancelled(job)
        self.assertEqual(j["attempts"], 0)
        self.assertEqual(len(w.sim("GET", "/state")["launches"]), before)

    def test_booting_the_instance_is_given_back(self):
        w = self.world
        w.sim("POST", "/config", {"boot_ms": 60000})
        try:
            job = w.submit()
            ref = w.until("an instance boots for it", 30, lambda: [n["ref"] for n in w.nodes() if n["ref"] and n["wanted_for"] == job])[0]
            self.cancelled(job)
        finally:
            w.sim("POST", "/config", {"boot_ms": 300})
        w.sim_wait("terminated", instance=ref)
        w.await_gone()

    def test_running_the_job_is_stopped_and_the_node_given_back(self):
        w = self.world
        job = w.submit(steps=100000)
        j = w.await_steps(job, 10)
        ref = w.node(j["node"])["ref"]
        pids = w.processes(ref, "spot-train")
        self.assertTrue(pids)
        j = self.cancelled(job)
        self.assertEqual(j["attempts"], 1)
        w.sim_wait("terminated", instance=ref)
        w.await_gone()
        self.assertFalse([p for p in pids if os.path.exists("/proc/%d" % p)])
        # Cancelling a job that is over is no error and changes nothing.
        again = w.spotctl("job", "cancel", job)
        self.assertIn(again.returncode, (0, 5), again.stderr)
        self.assertEqual(w.job(job)["state"], "CANCELLED")

    def test_over_its_time_a_job_saves_stops_and_says_so(self):
        w = self.world
        job = w.submit(steps=100000, ours="max_duration: 4s")
        j = w.await_end(job)
        self.assertEqual((j["state"], j["reason"], j["why"], j["attempts"]), ("FAILED", "overtime", "max_duration is over", 1))
        self.assertEqual((j["attempts_list"][0]["exit_reason"], j["lost_steps"]), ("drained", 0))
        (saved,) = j["checkpoints"]
        self.assertEqual((saved["reason"], saved["steps"]), ("drain", j["steps_done"]))
        self.assertGreater(saved["steps"], 0)
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
