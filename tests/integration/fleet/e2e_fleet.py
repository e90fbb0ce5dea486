#!/usr/bin/env python3
"""Standing capacity: spread, limits, a floor as a share, a reservation, a sold-out pool, a job on it, up, down and away; its plan."""
import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

FLEET = """name: e2e-fleet
nodes: 8
on_demand_floor: 25%
pools_min: 5
team: research
project: e2e
resources:
  accelerators: {A10G: 1, L4: 1, T4: 1, A10: 1}
  use_spot: true
limits: {per_pool: 2, per_zone: 3, per_region: 5, per_provider: 7, per_gpu: 4}
"""
PROBE = """name: probe
resources: {accelerators: {A10G: 1, L4: 1, T4: 1, A10: 1}, use_spot: true}
run: "true"
config: {spotctl: {work: 1h, checkpoint: {path: ckpt}}}
"""
COUNTED = ("WANTED", "LAUNCHING", "UNKNOWN", "BOOTING", "READY")


class Fleet(e2e.Case):
    # As many agents as nodes on a small machine: instances boot slowly enough for that.
    OPTIONS = {"emulator": ("--boot-ms", "500"), "settings": {"provider aws": {"reservations": "on"}, "market": {"pools": "10s"}}}

    def mine(self, fleet):
        return [n for n in self.world.nodes(query="&fleet=" + fleet) if n["state"] in COUNTED]

    def ready(self, fleet, n, timeout_s=80):
        """The fleet's nodes, once there are n and all are ready."""
        def look():
            nodes = self.mine(fleet)
            return nodes if len(nodes) == n and all(x["state"] == "READY" for x in nodes) else None
        return self.world.until("%d ready nodes of the fleet" % n, timeout_s, look)

    def check_limits(self, nodes, floor=2):
        pools = collections.Counter(n["pool"]["id"] for n in nodes)
        zones = collections.Counter((n["pool"]["provider"], n["pool"]["region"], n["pool"]["zone"]) for n in nodes if n["pool"]["zone"])
        providers = collections.Counter(n["pool"]["provider"] for n in nodes)
        self.assertLessEqual(max(pools.values()), 2, pools)
        self.assertLessEqual(max(zones.values()), 3, zones)
        self.assertLessEqual(max(providers.values()), 7, providers)
        regions = collections.Counter((n["pool"]["provider"], n["pool"]["region"]) for n in nodes)
        self.assertLessEqual(max(regions.values()), 5, regions)
        self.assertLessEqual(max(collections.Counter(n["pool"]["gpu"] for n in nodes).values()), 4)
        self.assertGreaterEqual(sum(1 for n in nodes if n["pool"]["market"] != "spot"), floor)
        return pools

    def test_a_fleet_from_creation_to_its_end(self):
        w = self.world
        best = w.api("POST", "/v1/plan", PROBE, headers={"Content-Type": "application/yaml"})["offers"][0]["pool"]
        w.sim("POST", "/stock", {"pool": w.pool_text(best), "count": 0})
        reserved = self.reserve(best)
        self.check_draft(reserved)

        fleet = w.ctl("fleet", "create", "-", "-o", "name", text=FLEET)
        nodes = self.ready(fleet, 8)
        self.assertGreaterEqual(len(self.check_limits(nodes)), 5)
        self.assertGreaterEqual(len({n["pool"]["gpu"] for n in nodes}), 2)
        self.assertEqual({n["pool"]["provider"] for n in nodes}, {"aws", "lambda"})
        self.assertEqual(sum(1 for n in nodes if n["pool"]["id"] == reserved["id"]), 1, "the reservation of one is not used up")
        self.check_sold_out(best, nodes)
        self.check_settled(fleet, 8)
        self.check_plan(fleet)
        self.check_job(fleet)

        w.ctl("fleet", "scale", fleet, "--nodes", "4")
        fewer = self.ready(fleet, 4, 40)
        self.check_limits(fewer, 1)
        w.until("the surplus is given back", 30, lambda: w.sim("GET", "/books")["alive"] == 4)
        self.check_settled(fleet, 4)

        w.ctl("fleet", "scale", fleet, "--nodes", "6")
        self.check_limits(self.ready(fleet, 6))

        w.ctl("fleet", "rm", fleet)
        w.await_gone(60)
        w.until("the fleet is closed", 20, lambda: w.api("GET", "/v1/fleets/" + fleet)["state"] == "CLOSED")

    def reserve(self, best):
        """One machine in a zone where the best pool is not."""
        w = self.world
        at = next(p for p in w.api("GET", "/v1/pools?provider=aws&market=on_demand&gpu=A10G&limit=1000")["items"]
                  if p["instance_type"] == "g5.xlarge" and p["zone"] and p["zone"] != best["zone"])
        w.sim("POST", "/aws/reservation", {"region": at["region"], "zone": at["zone"], "type": "g5.xlarge", "count": 1})
        return w.until("the reservation is a pool with room", 60, lambda: next(
            (p for p in w.api("GET", "/v1/pools?provider=aws&market=reserved&limit=1000")["items"]
             if (p["zone"], p["instance_type"]) == (at["zone"], "g5.xlarge")), None))

    def check_draft(self, reserved):
        """A dry run shows the plan, with sums that add up, and starts nothing."""
        w = self.world
        mine = "p%s" % str(reserved["id"]).lstrip("p")

        def look():
            plan = json.loads(w.ctl("fleet", "create", "-", "--dry-run", "-o", "json", text=FLEET))
            return plan if mine in [p["pool"] for p in plan["pool_list"]] else None
        # Its price and its room come with the next polls.
        draft = w.until("the reservation is in the plan", 60, look)
        self.assertEqual((draft["want"], draft["missing"], draft["floor_want"]), (8, 0, 2))
        self.assertEqual(draft["total_micros"], draft["cost_micros"] + draft["risk_micros"])
        self.assertLessEqual(draft["bound_micros"], draft["total_micros"])
        self.assertGreaterEqual(draft["pools"], 5)
        self.assertEqual(w.nodes(), [])

    def check_plan(self, fleet):
        """The engine's own plan is with the fleet, in its decisions and in the metrics."""
        w = self.world
        plan = w.api("GET", "/v1/fleets/" + fleet)["plan"]
        self.assertEqual((plan["want"], plan["have"], plan["missing"], plan["surplus"]), (8, 8, 0, 0))
        self.assertEqual(sum(p["held"] for p in plan["pool_list"]), 8)
        self.assertGreaterEqual(plan["floor_have"], 2)
        metrics = w.ask("GET", "/metrics")[1]
        text = metrics.decode() if isinstance(metrics, bytes) else str(metrics)
        self.assertIn('spot_fleet_missing{fleet="e2e-fleet"} 0', text)
        self.assertIn('spot_fleet_gap{fleet="e2e-fleet"}', text)

    def check_sold_out(self, best, nodes):
        """The best pool had nothing: it was asked, rests, and others were taken."""
        w = self.world
        self.assertNotIn(best["id"], [n["pool"]["id"] for n in nodes])
        failed = [n for n in w.nodes(live=False) if n["pool"]["id"] == best["id"]]
        self.assertTrue(failed, "the best pool was never asked")
        self.assertEqual({n["state"] for n in failed}, {"FAILED"})
        # One refusal rests it: it is not asked again and again.
        self.assertLessEqual(len(failed), 6)
        pool = next(p for p in w.api("GET", "/v1/pools?provider=%(provider)s&zone=%(zone)s&instance_type=%(instance_type)s&limit=1000" % best)["items"]
                    if p["id"] == best["id"])
        self.assertGreaterEqual(pool["record"]["refusals"], 1, pool)
        self.assertIn("apacity", pool["cooling_why"] or "", pool)

    def check_settled(self, fleet, n):
        """At its size a fleet is at rest: two more rounds of the engine launch nothing."""
        w = self.world
        before = len(w.sim("GET", "/state")["launches"])
        asked = w.counted("ec2", "DescribeInstances")
        w.until("two more looks at the provider", 20, lambda: w.counted("ec2", "DescribeInstances") >= asked + 6)
        self.assertEqual(len(self.mine(fleet)), n)
        self.assertEqual(len(w.sim("GET", "/state")["launches"]), before, "the fleet goes on launching at its size")

    def check_job(self, fleet):
        w = self.world
        launched = len(w.sim("GET", "/state")["launches"])
        job = w.submit(name="on-the-fleet", steps=60, ours="work: 1h\nfleet: e2e-fleet")
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 1))
        node = w.node(j["attempts_list"][0]["node"])
        self.assertEqual(node["fleet"], fleet)
        self.assertEqual(node["state"], "READY", "the fleet's node went with the job")
        self.assertEqual(len(w.sim("GET", "/state")["launches"]), launched)


if __name__ == "__main__":
    e2e.main()
