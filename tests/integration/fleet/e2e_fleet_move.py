#!/usr/bin/env python3
"""A fleet follows the market: on demand without spot, back to its floor, away from a pool that became dear. Its job loses no step."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

FLEET = """name: moves
nodes: 3
on_demand_floor: 1
pools_min: 1
resources:
  accelerators: {A10G: 1}
  use_spot: true
rebalance: {at_once: 2, per_zone: 2, per_hour: 100}
"""
STEPS = 9000
COUNTED = ("WANTED", "LAUNCHING", "UNKNOWN", "BOOTING", "READY")


class FleetMove(e2e.Case):
    # A refused pool rests long enough for all spot pools to be asked.
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "settings": {"engine": {"cool_min": "20s", "cool_max": "20s"}}}

    def counted(self, fleet):
        return [n for n in self.world.nodes(query="&fleet=" + fleet) if n["state"] in COUNTED]

    def markets(self, fleet):
        """The markets of the ready nodes, once there are three nodes and all are ready."""
        nodes = self.counted(fleet)
        if len(nodes) != 3 or any(n["state"] != "READY" for n in nodes):
            return None
        return sorted(n["pool"]["market"] for n in nodes)

    def check_never_fewer(self, fleet):
        """No node left before its replacement was ready."""
        w = self.world
        every = {n["id"]: n for n in w.nodes(live=False) if n["fleet"] == fleet}
        moved = [n for n in every.values() if n["replaces"] and n["ready_at"]]
        for n in moved:
            left = [e for e in w.api("GET", "/v1/nodes/" + n["replaces"])["events"] if e["now"] in ("DRAINING", "TERMINATING")]
            self.assertTrue(not left or left[0]["at"] >= n["ready_at"], (n["id"], left))
        return moved

    def test_a_fleet_follows_the_market(self):
        w = self.world
        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 0})
        fleet = w.ctl("fleet", "create", "-", "-o", "name", text=FLEET)
        w.until("the fleet is on demand", 90, lambda: self.markets(fleet) == ["on_demand"] * 3)
        steps = w.paced(STEPS)
        jobs = [w.submit(name="on-moves-%d" % i, gpus="A10G: 1", steps=steps, step_ms=30, ours="work: 4h\nfleet: moves") for i in range(3)]
        for job in jobs:
            w.await_job(job, "it runs", 60, lambda j: j["state"] == "RUNNING" and j["attempts_list"][-1]["started_at"])

        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 20})
        w.until("only the floor is on demand", 120, lambda: self.markets(fleet) == ["on_demand", "spot", "spot"])
        self.assertGreaterEqual(len(self.check_never_fewer(fleet)), 2)
        # At rest: a rebalancing finds nothing to do, and every node says why it stays.
        dry = json.loads(w.ctl("rebalance", "--fleet", "moves", "--dry-run", "-o", "json"))
        self.assertEqual(dry["moves"], [], dry)
        self.assertEqual(len(dry["kept"]), 3)
        self.assertTrue(all(k["fleet"] == fleet and k["why"] for k in dry["kept"]), dry)
        self.check_dear(fleet)
        self.check_shown(fleet)
        w.hurry()
        ended = [w.await_end(job) for job in jobs]
        self.assertEqual([(j["state"], j["lost_steps"]) for j in ended], [("SUCCEEDED", 0)] * 3)
        self.assertGreaterEqual(sum(j["attempts"] for j in ended), 3 + 4, "each move takes its job along")
        for job in jobs:
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        w.ctl("fleet", "rm", fleet)
        w.await_gone(60)

    def check_dear(self, fleet):
        """The spot pools of the fleet become dear: a rebalancing moves their nodes elsewhere."""
        w = self.world
        dear = {n["pool"]["id"]: n["pool"] for n in self.counted(fleet) if n["pool"]["market"] == "spot"}
        for pool in dear.values():
            w.sim("POST", "/price", {"pool": w.pool_text(pool), "usd": 2e-6 * pool["price_micros"]})
        w.until("the prices are known", 60, lambda: all(
            p["price_micros"] > 1.9 * dear[p["id"]]["price_micros"]
            for p in w.api("GET", "/v1/pools?provider=aws&market=spot&gpu=A10G&limit=1000")["items"] if p["id"] in dear))

        def moved():
            w.ctl("rebalance", "--fleet", fleet, "-o", "json")
            nodes = self.counted(fleet)
            return len(nodes) == 3 and self.markets(fleet) and not any(n["pool"]["id"] in dear for n in nodes)
        w.until("the dear pools are left", 120, moved)
        self.check_never_fewer(fleet)

    def check_shown(self, fleet):
        w = self.world
        report = json.loads(w.ctl("rebalance", "report", "--fleet", "moves", "-o", "json"))
        self.assertGreaterEqual(report["done"], 3)
        self.assertEqual({i["fleet"] for i in report["items"]}, {fleet})
        self.assertEqual({i["kind"] for i in report["items"]}, {"return", "rebalance"})
        self.assertTrue(all(i["saving_micros"] > i["cost_micros"] for i in report["items"]))
        text = w.ctl("rebalance", "--fleet", "moves", "--dry-run")
        self.assertIn("STAYS", text)
        self.assertIn("WHY IT STAYS OR MOVES", w.ctl("fleet", "show", fleet))
        metrics = w.ask("GET", "/metrics")[1]
        text = metrics.decode() if isinstance(metrics, bytes) else str(metrics)
        self.assertRegex(text, r'spot_fleet_moves_total\{what="done"\} [3-9]')
        self.assertEqual(w.ask("POST", "/v1/rebalance", {"fleet": "nobody"})[0], 404)


if __name__ == "__main__":
    e2e.main()
