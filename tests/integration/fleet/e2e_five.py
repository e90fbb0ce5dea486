#!/usr/bin/env python3
"""Five clouds, one fleet: spot dries up and comes back, a pool becomes dear, a block ends, demand falls to zero; and a zone dies. No job loses a step."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

CLOUDS = ("aws", "gcp", "azure", "coreweave", "lambda")
GPUS = "H100: 8"
FLEET = """name: five
nodes: {min: 0, max: 5}
idle_timeout: 3s
scale: {wait: 1s, cooldown: 2s}
on_demand_floor: 1
pools_min: 1
limits: {per_provider: 1}
resources: {accelerators: {%s}, use_spot: true}
rebalance: {at_once: 2, per_zone: 2, per_hour: 100}
""" % GPUS
STEPS = 9000
SIBLINGS = 8
SIBLING_STEPS = 6000
UNSAVED_S = 20
MARGIN_S = 8
CLEARS_S = 30 * 60  # EC2 ends the machines of a block so long before its end date
LIVE = ("WANTED", "LAUNCHING", "UNKNOWN", "BOOTING", "READY")


class Five(e2e.Case):
    # A refused pool rests long enough for all spot pools to be asked.
    OPTIONS = {"providers": CLOUDS, "regions": "us-east-1", "settings": {
        "engine": {"cool_min": "60s", "cool_max": "60s", "changeover": "15s"}, "market": {"pools": "2s", "signals": "1s"},
        "rank": {"ends_margin_s": str(MARGIN_S), "save_s": "1"}, "provider aws": {"reservations": "on"},
        "provider azure": {"regions": "westus3"}, "provider gcp": {"regions": "us-central1"}}}

    def mine(self):
        return [n for n in self.world.nodes(query="&fleet=five") if n["state"] in LIVE]

    def ready(self):
        """Its nodes, once there is one at each cloud and all are ready."""
        nodes = self.mine()
        whole = len(nodes) == len(CLOUDS) and all(n["state"] == "READY" for n in nodes)
        return {n["pool"]["provider"]: n for n in nodes} if whole else None

    def markets(self):
        nodes = self.ready()
        return {cloud: n["pool"]["market"] for cloud, n in nodes.items()} if nodes else None

    def begun(self):
        """Jobs of the queue make the fleet grow from nothing, on demand at every cloud."""
        w = self.world
        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 0})
        fleet = w.ctl("fleet", "create", "-", "-o", "name", text=FLEET)
        w.until("it is empty", 60, lambda: w.api("GET", "/v1/fleets/five")["size"]["rule"] == "first")
        steps = w.paced(STEPS)
        jobs = [w.submit(name="on-five-%d" % i, gpus=GPUS, steps=steps, step_ms=30, ours="work: 4h\nfleet: five") for i in range(5)]
        w.until("a node on demand at each cloud", 180, lambda: self.markets() == dict.fromkeys(CLOUDS, "on_demand"))
        for job in jobs:
            w.await_job(job, "it runs", 60, lambda j: j["state"] == "RUNNING" and j["attempts_list"][-1]["started_at"])
        return fleet, jobs

    def moves(self):
        return json.loads(self.world.ctl("rebalance", "report", "--fleet", "five", "-o", "json"))["items"]

    def check_return(self):
        """Lambda has no spot: its node is the floor."""
        w = self.world
        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 20})
        w.until("only the floor is on demand", 180, lambda: self.markets() == dict(dict.fromkeys(CLOUDS, "spot"), **{"lambda": "on_demand"}))
        dry = json.loads(w.ctl("rebalance", "--fleet", "five", "--dry-run", "-o", "json"))
        self.assertEqual(dry["moves"], [], dry)
        self.assertEqual(len([m for m in self.moves() if m["kind"] == "return"]), 4, "one move for each node: no thrash")

    def check_dear(self):
        w = self.world
        before = self.ready()
        dear = before["aws"]["pool"]
        w.sim("POST", "/price", {"pool": w.pool_text(dear), "usd": 3e-6 * dear["price_micros"]})
        w.until("the price is known", 60, lambda: w.api("GET", "/v1/pools/" + dear["id"])["price_micros"] > 2.9 * dear["price_micros"])

        def moved():
            w.ctl("rebalance", "--fleet", "five", "-o", "json")
            nodes = self.ready()
            return nodes and nodes["aws"]["pool"]["id"] != dear["id"]
        w.until("the dear pool is left", 120, moved)
        after = self.ready()
        self.assertEqual({c for c in CLOUDS if after[c]["id"] != before[c]["id"]}, {"aws"}, "a node moved whose pool is not dear")
        self.assertLess(after["aws"]["price_micros"], 3 * dear["price_micros"])

    def check_block(self):
        """The fleet takes a capacity block, and leaves it for spot before it ends."""
        w = self.world
        at = self.ready()["aws"]["pool"]
        block = w.sim("POST", "/aws/reservation", {
            "region": at["region"], "zone": at["zone"], "type": at["instance_type"], "count": 1, "block": True})["id"]

        def taken():
            w.ctl("rebalance", "--fleet", "five", "-o", "json")
            return (self.markets() or {}).get("aws") == "reserved"
        w.until("the fleet has a machine of the block", 120, taken)
        first = self.ready()["aws"]
        job = w.until("a job is there", 60, lambda: w.node(first["id"])["job"])
        epoch = w.await_job(job, "it runs", 60, lambda j: j["state"] == "RUNNING" and j["attempts_list"][-1]["started_at"])["epoch"]
        w.sim("POST", "/aws/reservation", {"extend": block, "ends_in_s": CLEARS_S + 60})
        w.until("the fleet has left the block", 120, lambda: (self.markets() or {}).get("aws") == "spot")
        w.await_attempt(job, epoch + 1)
        w.sim_wait("terminated", instance=first["ref"])
        self.assertEqual(w.instance(first["ref"])["ended_by"], "api", "it was still there when the block was cleared")
        w.sim("POST", "/aws/reservation", {"cancel": block})

    def asked(self, jobs):
        """Which of the jobs have saved since a burst asked them to, and when."""
        rows = [row.split("|") for row in self.world.sql(
            "SELECT s.job_id, min(c.committed_us) FROM burst_save s JOIN checkpoint c ON c.job_id = s.job_id AND c.epoch = s.epoch"
            " AND c.reason = 'burst' AND c.state = 'COMMITTED' GROUP BY 1").splitlines()]
        return {"j" + job: int(at) for job, at in rows if "j" + job in jobs}

    def check_zone(self, jobs):
        """A zone dies with eight siblings. After the first reclaim the others save before their own notice."""
        w = self.world
        w.until("all have worked for a while", 90, lambda: w.sql(
            "SELECT count(*) = %d FROM attempt a JOIN job j ON j.id = a.job_id WHERE j.name LIKE 'sibling%%' AND"
            " a.started_us < (extract(epoch FROM now()) - %d) * 1000000" % (SIBLINGS, UNSAVED_S)) == "t")
        nodes = {job: w.node(w.job(job)["node"]) for job in jobs}
        pools = {node["pool"]["id"]: node["pool"]["zone"] for node in nodes.values()}
        self.assertEqual(len(pools), 1, "the siblings are not in one pool")
        w.sim("POST", "/reclaim", {"instance": nodes[jobs[0]]["ref"], "notice_s": 20})
        w.until("the others have saved", 60, lambda: set(self.asked(jobs)) == set(jobs[1:]))
        for job in jobs[1:]:
            w.sim("POST", "/reclaim", {"instance": nodes[job]["ref"], "notice_s": 20})
        for job in jobs:
            self.assertNotIn(w.await_attempt(job, 2)["pool"]["zone"], pools.values(), "a replacement went to the zone that dies")
        saved = self.asked(jobs)
        heard = dict(row.split("|") for row in w.sql("SELECT 'n' || node_id, heard_us FROM notice WHERE kind = 'interruption'").splitlines())
        for job in jobs[1:]:
            self.assertLess(saved[job], int(heard[nodes[job]["id"]]), "the save came after the job's own notice")

    def check_ends(self, jobs, steps):
        w = self.world
        ended = [w.await_end(job) for job in jobs]
        self.assertEqual([(j["state"], j["lost_steps"]) for j in ended], [("SUCCEEDED", 0)] * len(jobs))
        for job in jobs:
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(steps))

    def test_a_fleet_over_five_clouds_follows_the_market_and_demand(self):
        w = self.world
        fleet, jobs = self.begun()
        self.check_return()
        siblings = [w.submit(name="sibling%d" % i, gpus="A10G: 1", steps=w.paced(SIBLING_STEPS), step_ms=50, ours="work: 20h") for i in range(SIBLINGS)]
        self.check_dear()
        self.assertEqual(len(self.moves()), 5, "no thrash")
        self.assertTrue(all(m["saving_micros"] > m["cost_micros"] for m in self.moves()), "a move that does not pay")
        self.check_block()
        self.check_zone(siblings)
        w.hurry()
        self.check_ends(jobs, STEPS)
        self.check_ends(siblings, SIBLING_STEPS)
        w.until("no node is left", 90, lambda: not self.mine())
        self.assertEqual(w.api("GET", "/v1/fleets/" + fleet)["size"]["wanted"], 0)
        # As many as the queue needed, and one for each move that was launched.
        self.assertEqual(w.sql("SELECT count(*) FROM node WHERE fleet_id = %s AND replaces_id IS NULL AND ready_us IS NOT NULL" % fleet[1:]), "5")
        w.ctl("fleet", "rm", fleet)
        w.await_gone(60)


if __name__ == "__main__":
    e2e.main()
