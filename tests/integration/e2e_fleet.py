#!/usr/bin/env python3
"""Standing capacity: spread, limits, floor, a sold-out pool, a job on it, up, down and away."""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import e2e  # noqa: E402

FLEET = """name: e2e-fleet
nodes: 8
on_demand_floor: 2
pools_min: 5
team: research
project: e2e
resources:
  accelerators: {A10G: 1, L4: 1, T4: 1, A10: 1}
  use_spot: true
limits: {per_pool: 2, per_zone: 3, per_provider: 7}
"""
PROBE = """name: probe
resources: {accelerators: {A10G: 1, L4: 1, T4: 1, A10: 1}, use_spot: true}
run: "true"
config: {spotctl: {work: 1h, checkpoint: {path: ckpt}}}
"""
COUNTED = ("WANTED", "LAUNCHING", "UNKNOWN", "BOOTING", "READY")


class Fleet(e2e.Case):
    # As many agents as nodes on a small machine: instances boot slowly enough for that.
    OPTIONS = {"emulator": ("--boot-ms", "500")}

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
        self.assertGreaterEqual(sum(1 for n in nodes if n["pool"]["market"] == "on_demand"), floor)
        return pools

    def test_a_fleet_from_creation_to_its_end(self):
        w = self.world
        best = w.api("POST", "/v1/plan", PROBE, headers={"Content-Type": "application/yaml"})["offers"][0]["pool"]
        w.sim("POST", "/stock", {"pool": w.pool_text(best), "count": 0})

        fleet = w.ctl("fleet", "create", "-", "-o", "name", text=FLEET)
        nodes = self.ready(fleet, 8)
        self.assertGreaterEqual(len(self.check_limits(nodes)), 5)
        self.assertGreaterEqual(len({n["pool"]["gpu"] for n in nodes}), 2)
        self.assertEqual({n["pool"]["provider"] for n in nodes}, {"aws", "lambda"})
        self.check_sold_out(best, nodes)
        self.check_settled(fleet, 8)
        self.check_job(fleet)

        w.ctl("fleet", "scale", fleet, "--nodes", "4")
        fewer = self.ready(fleet, 4, 40)
        self.check_limits(fewer)
        w.until("the surplus is given back", 30, lambda: w.sim("GET", "/books")["alive"] == 4)
        self.check_settled(fleet, 4)

        w.ctl("fleet", "scale", fleet, "--nodes", "6")
        self.check_limits(self.ready(fleet, 6))

        w.ctl("fleet", "rm", fleet)
        w.await_gone(60)
        w.until("the fleet is closed", 20, lambda: w.api("GET", "/v1/fleets/" + fleet)["state"] == "CLOSED")

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
