#!/usr/bin/env python3
"""Planned moves: drain a node, remove one, rebalance; the job moves each time and nothing is lost."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

STEPS = 6000


class Move(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def moved(self, job, epoch):
        """Attempt epoch runs where the one before stopped: no step done twice, and all was saved first."""
        j = self.world.await_attempt(job, epoch)
        old, new = [a for a in j["attempts_list"] if a["epoch"] in (epoch - 1, epoch)]
        self.assertEqual(old["exit_reason"], "drained", old)
        self.assertEqual(new["steps_start"], old["steps_done"])
        self.assertGreater(new["steps_start"], old["steps_start"])
        self.assertIsNotNone(new["restored_from"])
        return j, old, new

    def test_drain_remove_and_rebalance_lose_nothing(self):
        w = self.world
        job = w.submit(steps=w.paced(STEPS), step_ms=30, ours="work: 20h", before="echo attempt $SPOT_EPOCH begins")
        follower = w.start_ctl("job", "logs", job, "--follow")
        j = w.await_steps(job, 40)

        first = w.node(j["node"])
        w.ctl("node", "drain", first["id"])
        j, old, new = self.moved(job, 2)
        self.assertNotEqual(new["node"], first["id"])
        w.sim_wait("terminated", instance=first["ref"])

        w.await_steps(job, new["steps_start"] + 20)
        second = w.node(w.job(job)["node"])
        w.ctl("node", "rm", second["id"])
        j, old, new = self.moved(job, 3)
        w.sim_wait("terminated", instance=second["ref"])
        w.until("both nodes are gone in our books", 20, lambda: all(w.node(n["id"])["state"] == "GONE" for n in (first, second)))

        self.rebalance(job)
        w.hurry()
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 4, 0))
        # A user who followed the log saw every attempt, once and in order, and the end.
        text, words = follower.communicate(timeout=30)
        self.assertEqual(follower.returncode, 0, words)
        self.assertEqual([line for line in text.splitlines() if line.startswith("attempt ")],
                         ["attempt %d begins" % n for n in (1, 2, 3, 4)])
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        w.await_gone()

    def rebalance(self, job):
        w = self.world
        j = w.await_steps(job, w.job(job)["steps_done"] + 10)
        here = j["pool"]
        kept = w.ctl_json("rebalance", "--dry-run")
        self.assertEqual((kept["state"], kept["moves"]), ("done", []), kept)
        self.assertIn(job, [k["job"] for k in kept["kept"]])

        # Another pool of the same GPU becomes much cheaper.
        there = next(p for p in w.api("GET", "/v1/prices?gpu=%s&market=spot&provider=aws&limit=1000" % here["gpu"])["items"]
                     if p["zone"] != here["zone"] and p["gpus"] == here["gpus"])
        usd = here["price_micros"] / 1e6 / 4
        w.sim("POST", "/price", {"pool": w.pool_text(there), "usd": usd})
        w.until("the cheaper price has arrived", 30, lambda: w.api("GET", "/v1/pools/" + there["id"])["price_micros"] == round(usd * 1e6))

        def would_move():
            r = w.ctl_json("rebalance", "--dry-run")
            return r if r["moves"] else None
        plan = w.until("a move pays", 20, would_move)
        move = plan["moves"][0]
        self.assertEqual((move["job"], move["to"]["id"], move["done"]), (job, there["id"], False))
        self.assertGreater(move["saving_micros"], move["cost_micros"])
        self.assertEqual(w.job(job)["epoch"], j["epoch"], "a dry run moved the job")
        self.assertEqual([n["pool"]["id"] for n in w.nodes()], [here["id"]], "a dry run launched something")

        done = w.ctl_json("rebalance")
        self.assertEqual([(m["job"], m["done"]) for m in done["moves"]], [(job, True)])
        j, old, new = self.moved(job, j["epoch"] + 1)
        self.assertEqual(new["pool"]["id"], there["id"])
        kinds = [d["kind"] for d in w.api("GET", "/v1/jobs/%s/why" % job)["decisions"]]
        self.assertIn("rebalance", kinds)
        self.report(job, here, there, new["node"])

    def report(self, job, here, there, node):
        """The report has the move's saving against the cost of staying, and adds up."""
        w = self.world
        why = w.api("GET", "/v1/jobs/%s/why" % job)["decisions"]
        move = [d for d in why if d["kind"] == "rebalance"][-1]["inputs"]["move"]
        self.assertEqual("p%d" % move["from_pool"], here["id"])
        self.assertEqual(move["here"]["total_micros"] > 0, True)

        def billed():
            r = w.ctl_json("rebalance", "report", "--since", "1h")
            return r if r["items"] and r["items"][0]["paid_micros"] > 0 and r["items"][0]["hours"] > 0 else None
        r = w.until("the move is in the report with what was paid", 60, billed)
        item = r["items"][0]
        self.assertEqual((item["job"], item["from"], item["to"], item["node"], item["done"]), (job, here["id"], there["id"], node, True))
        # Hours are printed with four digits.
        self.assertAlmostEqual(item["stay_micros"], item["hours"] * here["price_micros"],
                               delta=0.02 * item["stay_micros"] + 0.00005 * here["price_micros"] + 5)
        self.assertEqual(item["earned_micros"], item["stay_micros"] - item["paid_micros"])
        self.assertEqual(r["earned_micros"], sum(i["earned_micros"] for i in r["items"]))
        self.assertEqual((r["moves"], r["done"]), (1, 1))


if __name__ == "__main__":
    e2e.main()
