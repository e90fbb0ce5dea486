#!/usr/bin/env python3
"""A capacity block ends: the job on it saves before, and goes on elsewhere without losing a step."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

STEPS = 6000
FLEET = """name: standing
nodes: 1
resources: {accelerators: {A10G: 1}, use_spot: true}
"""
MARGIN_S = 8
CLEARS_S = 30 * 60  # EC2 ends the machines of a block so long before its end date


class Ends(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1",
               "settings": {"provider aws": {"reservations": "on"}, "market": {"pools": "2s", "signals": "1s", "on_demand": "2s"},
                            "engine": {"changeover": "15s"}, "rank": {"ends_margin_s": str(MARGIN_S), "save_s": "1"}}}

    def block(self, **more):
        w = self.world
        at = w.until("the types are known", 60, lambda: next(
            (p for p in w.api("GET", "/v1/pools?provider=aws&market=on_demand&gpu=A10G&limit=1000")["items"]
             if p["instance_type"] == "g5.xlarge" and p["zone"]), None))
        ask = {"region": at["region"], "zone": at["zone"], "type": "g5.xlarge", "count": 1, "block": True, **more}
        return w.sim("POST", "/aws/reservation", ask)["id"]

    def pool(self):
        items = self.world.api("GET", "/v1/pools?provider=aws&market=reserved&limit=1000")["items"]
        return next((p for p in items if p["price_micros"] and "ends" in [s["kind"] for s in p["signals"]]), None)

    def planned(self, pool):
        """The plan of a job of two hours, once it takes that pool."""
        text = "name: p\nresources: {accelerators: {A10G: 1}}\nrun: x\nconfig: {spotctl: {work: 2h, checkpoint: {path: c}}}\n"
        plan = json.loads(self.world.ctl("plan", "-", "-o", "json", text=text))
        return plan if plan["offers"] and plan["offers"][0]["pool"]["id"] == pool["id"] else None

    def test_a_fleet_has_a_machine_elsewhere_before_the_block_ends(self):
        w = self.world
        block = self.block()
        pool = w.until("the block is a pool with a price and an end", 60, self.pool)
        w.until("a plan takes it", 30, lambda: self.planned(pool))
        fleet = w.ctl("fleet", "create", "-", "-o", "name", text=FLEET)
        first = w.until("the fleet has its machine", 60, lambda: self.ready(fleet))
        self.assertEqual(first["pool"]["id"], pool["id"])
        ends = w.until("its end is shown", 30, lambda: w.node(first["id"])["ends_at"])
        self.assertEqual([n["ends_at"] for n in w.api("GET", "/v1/fleets/" + fleet)["nodes"]], [ends])
        self.assertIn(ends[:19], w.ctl("node", "show", first["id"]))
        self.assertIn(ends[:19], w.ctl("fleet", "show", fleet))
        w.sim("POST", "/aws/reservation", {"extend": block, "ends_in_s": CLEARS_S + 60})
        w.until("its earlier end is shown", 30, lambda: w.node(first["id"])["ends_at"] < ends)
        second = w.until("the fleet has another machine", 120, lambda: self.ready(fleet, first))
        self.assertNotEqual(second["pool"]["market"], "reserved")
        w.sim_wait("terminated", instance=first["ref"])
        self.assertEqual(w.instance(first["ref"])["ended_by"], "api", "it was still there when the block was cleared")
        self.assertLess(self.time_of(second, "READY"), self.time_of(first, "DRAINING", "TERMINATING"), "it drained first")
        w.sim("POST", "/aws/reservation", {"cancel": block})
        w.ctl("fleet", "rm", fleet)
        w.await_gone()

    def time_of(self, node, *states):
        events = self.world.api("GET", "/v1/events?node=%s&limit=200" % node["id"])["items"]
        return min(e["at"] for e in events if e["now"] in states)

    def ready(self, fleet, other=None):
        nodes = self.world.nodes(query="&fleet=" + fleet)
        return next((n for n in nodes if n["state"] == "READY" and n["id"] != (other or {}).get("id")), None)

    def test_a_job_leaves_a_block_before_it_ends(self):
        w = self.world
        block = self.block()
        pool = w.until("the block is a pool with a price and an end", 60, self.pool)
        # The price of a pool may be known before its end.
        w.until("a plan takes it, and knows the end", 30, lambda: (self.planned(pool) or {"offers": [{"pool": {}}]})["offers"][0]["pool"].get("ends_at"))
        self.assertRegex(self.planned(pool)["offers"][0]["pool"]["ends_at"], "^20..-")
        self.assertIn("ends 20", w.ctl("pools", "--market", "reserved", "-o", "wide"))

        job = w.submit(steps=w.paced(STEPS), step_ms=30, ours="work: 20h")
        j = w.await_steps(job, 40)
        first = w.node(j["node"])
        self.assertEqual((first["pool"]["id"], j["market"]), (pool["id"], "reserved"))
        self.assertEqual(first["notices"], [], "told a day before")
        why = w.api("GET", "/v1/jobs/%s/why" % job)["decisions"]
        self.assertIn("paid for already, and ends in", json.dumps(why))

        # The end comes near: the job is told when a save still fits, and not before.
        w.sim("POST", "/aws/reservation", {"extend": block, "ends_in_s": CLEARS_S + 30})
        j = w.await_attempt(job, 2, 90)
        old, new = [a for a in j["attempts_list"] if a["epoch"] in (1, 2)]
        self.assertEqual(old["exit_reason"], "drained", old)
        self.assertEqual(new["steps_start"], old["steps_done"])
        self.assertIsNotNone(new["restored_from"])
        self.assertNotEqual(w.node(new["node"])["pool"]["market"], "reserved")
        left = w.node(first["id"])
        self.assertIn("expiry notice (capacity-reservation)", json.dumps(left))
        w.sim_wait("terminated", instance=first["ref"])
        self.assertEqual(w.instance(first["ref"])["ended_by"], "api", "it was still there when the block was cleared")

        w.hurry()
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0))
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
