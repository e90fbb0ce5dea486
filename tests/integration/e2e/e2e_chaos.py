#!/usr/bin/env python3
"""Everything at once: every service of both clouds and the object store fails at random while jobs run and are moved."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

FAULTS = (
    ({"kind": "status", "status": 500, "code": "InternalError"}, 0.04),
    ({"kind": "status", "status": 503, "code": "RequestLimitExceeded"}, 0.04),
    ({"kind": "status", "status": 500, "code": "InternalError", "after": True}, 0.03),
    ({"kind": "reset_before"}, 0.03),
    ({"kind": "reset_after"}, 0.03),
    ({"kind": "truncate"}, 0.02),
    ({"kind": "malform"}, 0.02),
    ({"kind": "delay", "ms": 700}, 0.05),
    ({"kind": "delay", "ms": 700, "after": True}, 0.03),
)


class Chaos(e2e.Case):
    OPTIONS = {"regions": "us-east-1", "emulator": ("--boot-ms", "300", "--seed", "11")}

    def tearDown(self):
        self.world.sim("DELETE", "/fault")

    def test_jobs_finish_and_nothing_is_left_when_one_call_in_four_fails(self):
        w = self.world
        store = []
        for fault, chance in FAULTS:
            for service in ("ec2", "ssm", "s3", "lambda"):
                made = w.sim("POST", "/fault", dict(fault, match={"service": service}, count=-1, probability=chance))
                store += [made["id"]] if service == "s3" else []
        lambdas = w.submit(name="chaos-lambda", steps=200, step_ms=25, gpus="A10: 1", resources=["infra: lambda"])
        # While the calls fail, the user moves one job and the provider another. Which begins first is open: each is
        # moved when it runs.
        jobs = [w.submit(name="chaos-0", steps=500, step_ms=25, interval="4s")]
        j = w.await_steps(jobs[0], 40, 90)
        w.until("the drain is accepted", 30, lambda: w.spotctl("node", "drain", j["node"]).returncode == 0)
        jobs += [w.submit(name="chaos-%d" % k, steps=500, step_ms=25, interval="4s") for k in (1, 2)]
        j = w.await_steps(jobs[1], 40, 90)
        w.sim("POST", "/reclaim", {"instance": w.node(j["node"])["ref"], "notice_s": 15})
        jobs.append(lambdas)
        for job in jobs:
            j = w.await_end(job, 150)
            self.assertEqual(j["state"], "SUCCEEDED", "%s: %s" % (job, j["why"]))
        hits = sum(f["hits"] for f in w.sim("GET", "/fault")["faults"])
        self.assertGreater(hits, 12, "hardly anything went wrong")
        # The test reads the store, too, and is not made for a bad one; the clouds stay as bad as they are.
        for fault in store:
            w.sim("DELETE", "/fault?id=%d" % fault)
        for job, steps in zip(jobs, (500, 500, 500, 200)):
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(steps))
        self.assertEqual(w.job(jobs[0])["lost_steps"], 0)
        w.await_gone(90)


if __name__ == "__main__":
    e2e.main()
