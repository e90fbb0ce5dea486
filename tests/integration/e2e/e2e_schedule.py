#!/usr/bin/env python3
"""Scarce machines: the order of jobs, preemption without a loss, and the settings of a class."""
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

FLEET = """name: %s
nodes: 1
team: %s
project: e2e
resources:
  accelerators: {A10G: 1, L4: 1, T4: 1}
  use_spot: true
"""
PLAIN = """name: %s
resources: {accelerators: {A10G: 1, L4: 1, T4: 1}}
run: "sleep 300"
config: {spotctl: {class: %s, work: 1h, checkpoint: {path: ckpt}}}
"""
BY_TYPE = """name: bytype
resources: {instance_type: %s}
run: "sleep 300"
config: {spotctl: {class: sweep, work: 1h, checkpoint: {path: ckpt}}}
"""


class Schedule(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1",
               "settings": {"class sweep": {"tiers": "H100, A100"}, "class batch_inference": {"priority": "-7", "preemptible": "false"},
                            "share vision": {"weight": "0.5"}}}

    def fleet(self, name, team="research"):
        w = self.world
        fleet = w.ctl("fleet", "create", "-", "-o", "name", text=FLEET % (name, team))
        w.until("the fleet has its node", 60, lambda: [n for n in w.nodes(query="&fleet=" + fleet) if n["state"] == "READY"])
        return fleet

    def end(self, fleet, *jobs):
        for job in jobs:
            self.world.spotctl("job", "cancel", job)
        self.world.ctl("fleet", "rm", fleet)
        self.world.await_gone(60)

    def kinds(self, job):
        return {d["kind"]: d for d in self.world.api("GET", "/v1/jobs/%s/why" % job)["decisions"]}

    def test_a_higher_job_has_room_made_and_the_other_loses_nothing(self):
        w = self.world
        fleet = self.fleet("one")
        low = w.submit(name="low", steps=900, step_ms=30, ours="work: 2h\nfleet: one")
        w.await_steps(low, 60)
        launched = len(w.sim("GET", "/state")["launches"])

        # Not high enough: it waits, and the report says where and why.
        near = w.submit(name="near", steps=30, resources=["priority: 99"], ours="work: 1h\nfleet: one")
        w.await_job(near, "its place in the queue", 20, lambda j: j["queue"] and j["queue"]["position"] == 1)
        self.assertEqual(w.job(low)["epoch"], 1)

        high = w.submit(name="high", steps=240, resources=["priority: 500"], ours="work: 1h\nfleet: one")
        j = w.await_steps(high, 5)
        was = w.job(low)
        first = was["attempts_list"][0]
        self.assertEqual((was["state"], first["exit_reason"]), ("QUEUED", "drained"))
        self.assertGreaterEqual(first["steps_done"], 60)
        self.assertEqual(was["checkpoint"]["steps"], first["steps_done"], "it was stopped before it had saved")
        self.assertEqual(j["node"], first["node"])
        self.assertIn("makes room for " + high, first["drain_why"])
        self.check_queue(near, low)
        self.check_decisions(low, high)

        self.assertEqual(w.await_end(high)["state"], "SUCCEEDED")
        self.assertEqual(w.await_end(near)["state"], "SUCCEEDED")
        done = w.await_end(low)
        self.assertEqual((done["state"], done["attempts"], done["lost_steps"]), ("SUCCEEDED", 2, 0))
        self.assertEqual(done["attempts_list"][1]["steps_start"], first["steps_done"])
        self.assertEqual(w.result_of(low), w.result_of_uninterrupted(900))
        self.assertEqual(len(w.sim("GET", "/state")["launches"]), launched, "a fleet's jobs bought a machine")
        metrics = w.ask("GET", "/metrics")
        self.assertIn("spot_preemptions_total{what=\"jobs\"} 1", str(metrics))
        self.end(fleet)

    def check_queue(self, near, low):
        w = self.world
        q = w.until("both wait in order", 20, lambda: (lambda q: q if [x["job"] for x in q] == [near, low] else None)(
            w.ctl_json("queue")["items"]))
        self.assertEqual([x["position"] for x in q], [1, 2])
        self.assertEqual(q[0]["queue_why"], "first in the queue")
        self.assertEqual(q[1]["queue_why"], "behind %s: its priority is 99, this one's 0" % near)
        self.assertIn("makes room", w.job(low)["why"] + w.job(low)["attempts_list"][0]["drain_why"])
        self.assertIn("first in the queue", w.ctl("queue"))

    def check_decisions(self, low, high):
        made, left = self.kinds(high)["preempt"], self.kinds(low)["preempted"]
        self.assertEqual((made["outcome"]["victim"], made["outcome"]["handed_over"]), (int(low[1:]), True))
        seen = {r["job"]: r for r in made["inputs"]["running"]}
        self.assertEqual(seen[int(low[1:])]["cost_micros"], made["outcome"]["cost_micros"])
        self.assertIn("cheapest", made["why"])
        self.assertIn("makes room for " + high, left["why"])

    def test_the_team_that_spent_less_is_first(self):
        w = self.world
        fleet = self.fleet("fair")
        busy = w.submit(name="busy", steps=100000, step_ms=30, ours="work: 2h\nfleet: fair")
        w.await_steps(busy, 20)
        w.until("dollars of the team research", 30, lambda: [s for s in w.api("GET", "/v1/shares")["items"]
                                                             if s["team"] == "research" and s["spent_micros"] > 0])
        again = w.submit(name="again", steps=30, ours="work: 1h\nfleet: fair")
        other = w.ctl("job", "submit", "-", text=JOB_OF_VISION)
        q = w.until("the other team is first", 20, lambda: (lambda q: q if [x["job"] for x in q] == [other, again] else None)(
            w.ctl_json("queue")["items"]))
        self.assertRegex(q[1]["queue_why"], r"behind %s: team research used \d\.\d times its share, team vision 0\.0 times" % other)

        # A share is an admin's to set, and counts at once.
        shares = {s["team"]: s for s in w.ctl_json("shares", "set", "research", "3")["items"]}
        self.assertEqual((shares["research"]["weight"], shares["vision"]["waiting"]), (3, 1))
        self.assertEqual((shares["research"]["source"], shares["vision"]["source"], shares["vision"]["weight"]), ("set", "file", 0.5))
        self.assertAlmostEqual(shares["research"]["share"], 6 * shares["vision"]["share"], delta=0.001)
        self.assertAlmostEqual(sum(s["share"] for s in shares.values()), 1, delta=0.001)
        self.assertNotEqual(w.spotctl("shares", "set", "research", "none").returncode, 0)
        self.check_shares_of_the_file()
        self.assertIn("spot_queue_jobs{team=\"vision\"} 1", str(w.ask("GET", "/metrics")))

        w.spotctl("job", "cancel", busy)
        first = w.await_end(other)
        self.assertEqual(first["state"], "SUCCEEDED")
        self.assertGreaterEqual(w.await_end(again)["started_at"], first["ended_at"])
        self.end(fleet)

    def share(self, team):
        (s,) = [s for s in self.world.ctl_json("shares")["items"] if s["team"] == team]
        return s["weight"], s["source"], s["file_weight"]

    def check_shares_of_the_file(self):
        """A share that was set overrides the file; the file may change under a running daemon."""
        w = self.world
        w.ctl("shares", "set", "vision", "2")
        self.assertEqual(self.share("vision"), (2, "set", 0.5))
        w.write_config(w.config_text().replace("weight = 0.5", "weight = 0.75"))
        w.daemon.proc.send_signal(signal.SIGHUP)
        w.until("the file's share is taken", 20, lambda: self.share("vision") == (2, "set", 0.75))
        w.ctl("shares", "unset", "vision")
        self.assertEqual(self.share("vision"), (0.75, "file", 0.75))
        self.assertIn('spot_share_weight{team="vision"} 0.75', str(w.ask("GET", "/metrics")))
        w.until("they have waited for a second", 20, lambda: re.search(
            r'spot_queue_wait_seconds_max{team="vision"} [1-9]', str(w.ask("GET", "/metrics"))))

    def test_a_class_decides_what_the_file_does_not_say(self):
        w = self.world
        plan = w.api("POST", "/v1/plan", PLAIN % ("p", "eval"), headers={"Content-Type": "application/yaml"})
        self.assertIn("eval: fault-tolerant, may be interrupted, so spot by default", plan["job"]["class_why"])
        plan = w.api("POST", "/v1/plan", PLAIN % ("p", "serving"), headers={"Content-Type": "application/yaml"})
        self.assertIn("on-demand or reserved capacity only", plan["job"]["class_why"])
        self.assertNotIn("spot", {o["pool"]["market"] for o in plan["offers"]})

        classes = {c["name"]: c for c in w.ctl_json("classes")["items"]}
        self.assertEqual((classes["sweep"]["tiers"], classes["batch_inference"]["priority"], classes["serving"]["tolerance"]),
                         (["H100", "A100"], -7, "on_demand"))
        self.assertIn("H200", [g["name"] for g in w.ctl_json("gpus")["items"]])
        refused = w.spotctl("job", "submit", "-", text=PLAIN % ("tiers", "sweep"))
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("class sweep may have H100, A100 only", refused.stderr)

        refused = w.spotctl("job", "submit", "-", text=BY_TYPE % w.api("GET", "/v1/prices?gpu=A10G&limit=1")["items"][0]["instance_type"])
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, r"resources.instance_type: \S+ has \S+: a job of class sweep may have H100, A100 only")

        job = w.ctl("job", "submit", "-", text=PLAIN % ("web", "serving"))
        j = w.await_job(job, "it runs", 60, lambda j: j["state"] == "RUNNING")
        self.assertEqual((j["market"], j["priority"]), ("on_demand", 100))
        self.assertIn("serving: must not be interrupted", w.api("GET", "/v1/jobs/%s/why" % job)["class_why"])
        self.assertIn("serving: must not be interrupted", w.ctl("job", "why", job))
        batch = w.ctl("job", "submit", "-", text=PLAIN % ("b", "batch_inference"))
        self.assertEqual(w.job(batch)["priority"], -7)
        for x in (job, batch):
            w.spotctl("job", "cancel", x)
            w.await_end(x)
        w.await_gone(60)


JOB_OF_VISION = """name: other
resources:
  accelerators: {A10G: 1, L4: 1, T4: 1}
run: "true"
config: {spotctl: {team: vision, fleet: fair, work: 1h}}
"""


if __name__ == "__main__":
    e2e.main()
