#!/usr/bin/env python3
"""The owner of an interruptible reservation reclaims it: the job on it saves within its notice, and loses no step."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

STEPS = 6000
NOTICE_S = 20
OTHER = "210987654321"


class Interruptible(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1",
               "settings": {"provider aws": {"reservations": "all"}, "market": {"pools": "2s", "signals": "1s", "on_demand": "2s"},
                            "engine": {"changeover": "15s"}}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        w = cls.world
        w.stop_daemon()
        w.settings["provider aws"]["interruption_queue.us-east-1"] = w.emulator.url + "/123456789012/spotbroker-interruptions"
        w.write_config()
        w.start_daemon()

    def reserve(self, type="g5.xlarge", **more):
        w = self.world
        self.at = w.until("the types are known", 60, lambda: next(
            (p for p in w.api("GET", "/v1/pools?provider=aws&market=on_demand&gpu=A10G&limit=1000")["items"]
             if p["instance_type"] == type and p["zone"] and p["price_micros"]), None))
        ask = {"region": self.at["region"], "zone": self.at["zone"], "type": type, "count": 1, **more}
        return w.sim("POST", "/aws/reservation", ask)["id"]

    def pool(self, market, test=lambda p: True):
        items = self.world.api("GET", "/v1/pools?provider=aws&market=%s&limit=1000" % market)["items"]
        return next((p for p in items if p["price_micros"] and p["zone"] == self.at["zone"] and
                     p["instance_type"] == self.at["instance_type"] and test(p)), None)

    def plan(self, ours=""):
        text = "name: p\nresources: {accelerators: {A10G: 1}}\nrun: x\nconfig: {spotctl: {work: 2h, checkpoint: {path: c}%s}}\n" % ours
        return [o["pool"]["market"] for o in self.world.ctl_json("plan", "-", text=text)["offers"]]

    def test_1_a_job_leaves_a_reservation_that_its_owner_reclaims(self):
        w = self.world
        cr = self.reserve(interruptible=True)
        pool = w.until("it is a pool with a price", 60, lambda: self.pool("interruptible"))
        self.assertEqual(pool["price_micros"], 1)
        w.until("a plan takes it", 30, lambda: self.plan()[:1] == ["interruptible"])
        self.assertNotIn("interruptible", self.plan(", interruptible: false"))
        hazard = w.api("GET", "/v1/pools/" + pool["id"])["hazard"]
        self.assertAlmostEqual(hazard["per_hour"], 0.1, 6)

        job = w.submit(steps=w.paced(STEPS), step_ms=30, gpus="A10G: 1", ours="work: 20h")
        j = w.await_steps(job, 40)
        first = w.node(j["node"])
        self.assertEqual((first["pool"]["id"], j["market"]), (pool["id"], "interruptible"))
        status, text = w.ec2("DescribeInstances", **{"InstanceId.1": first["ref"]})
        self.assertIn("<instanceLifecycle>interruptible-capacity-reservation<", text)
        self.assertIn("its owner may reclaim it", json.dumps(w.api("GET", "/v1/jobs/%s/why" % job)["decisions"]))

        self.assertEqual(w.sim("POST", "/aws/reservation", {"reclaim": cr, "notice_s": NOTICE_S})["instances"], [first["ref"]])
        j = w.await_attempt(job, 2, 90)
        old, new = [a for a in j["attempts_list"] if a["epoch"] in (1, 2)]
        self.assertEqual(old["exit_reason"], "drained", old)
        self.assertEqual(new["steps_start"], old["steps_done"])
        self.assertIsNotNone(new["restored_from"])
        self.assertNotEqual(w.node(new["node"])["pool"]["market"], "interruptible")
        left = w.node(first["id"])
        self.assertEqual([(n["kind"], n["source"]) for n in left["notices"]], [("interruption", "eventbridge")])
        w.sim_wait("terminated", instance=first["ref"])
        self.assertEqual(w.instance(first["ref"])["ended_by"], "api", "it had not saved when its owner took it")
        seen = w.api("GET", "/v1/pools/" + pool["id"])
        self.assertGreater(seen["hazard"]["per_hour"], 0.15, "the reclaim is not in the pool's record")

        w.hurry()
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0))
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        w.await_gone()

    def test_2_a_reservation_that_stays_comes_first(self):
        w = self.world
        lent = self.reserve(type="g5.2xlarge", interruptible=True)
        kept = self.reserve(type="g5.2xlarge")
        w.until("both are pools", 60, lambda: self.pool("interruptible") and self.pool("reserved"))
        w.until("a plan knows both", 30, lambda: {"interruptible", "reserved"} <= set(self.plan()))
        job = w.submit(steps=w.paced(STEPS), step_ms=30, gpus="A10G: 1", ours="work: 20h")
        self.assertEqual(w.await_steps(job, 1)["market"], "reserved")
        w.ctl("job", "cancel", job)
        w.await_gone()
        w.sim("POST", "/aws/reservation", {"cancel": kept})
        w.sim("POST", "/aws/reservation", {"reclaim": lent})

    def test_3_one_that_another_account_shares_costs_the_on_demand_price(self):
        w = self.world
        lent = self.reserve(type="g5.4xlarge", interruptible=True, owner=OTHER)
        pool = w.until("it is a pool with a price", 60, lambda: self.pool("interruptible"))
        self.assertEqual(pool["price_micros"], self.at["price_micros"])
        w.sim("POST", "/aws/reservation", {"reclaim": lent})


if __name__ == "__main__":
    e2e.main()
