#!/usr/bin/env python3
"""Silent losses: a host that dies, an agent that is killed."""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

HOUR_US = 3600 * 1000 * 1000


class Loss(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    # ---- a host dies -----------------------------------------------------------------------

    def test_a_host_that_dies_costs_only_what_came_after_the_last_checkpoint(self):
        w = self.world
        job = w.submit(steps=w.paced(3000), step_ms=20, interval="3s")
        j = w.await_job(job, "a periodic checkpoint", 60, lambda j: j["checkpoint"])
        ref = w.node(j["node"])["ref"]
        node = j["node"]
        saved = j["checkpoint"]["steps"]
        w.await_steps(job, saved + 30)
        w.sim("POST", "/kill", {"instance": ref})
        j = w.await_attempt(job, 2)
        w.hurry()
        first, second = j["attempts_list"][:2]
        self.assertEqual(first["exit_reason"], "lost", first)
        kept = [c for c in j["checkpoints"] if c["epoch"] == 1 and c["state"] == "COMMITTED"]
        newest = max(kept, key=lambda c: int(c["id"][1:]))
        self.assertEqual(newest["reason"], "periodic")
        self.assertEqual((second["restored_from"], second["steps_start"]), (newest["id"], newest["steps"]))
        dead = w.node(node)
        self.assertIn(dead["end_cause"], ("lost", "reclaimed"), dead)
        self.assertTrue(dead["why"], "no evidence of the loss at the node")
        self.assertIn("lost", w.ctl("job", "why", job).lower())
        self.check_evidence(job, node)
        self.assertEqual(w.await_end(job)["state"], "SUCCEEDED")
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(3000))
        books = w.await_gone()
        self.check_money(job, books)

    def check_evidence(self, job, node):
        """The verdict has each observation with its witness, about the machine and about the job; neither counter
        moved."""
        w = self.world
        verdicts = {v["verdict"]: v for v in w.api("GET", "/v1/jobs/%s/why" % job)["verdicts"]}
        given_up = verdicts.get("lost") or verdicts["reclaimed"]
        for v in (given_up, verdicts["job_lost"]):
            self.assertEqual((v["node"], v["job"], v["epoch"], v["missed"], v["alive_after_at"]), (node, job, 1, False, None), v)
            seen = v["seen"]
            self.assertEqual(seen["agent"]["job"], job, seen)
            self.assertIsNotNone(seen["agent"]["spoke_at"])
            self.assertIn("running", [p["state"] for p in seen["provider"]["past"]], seen)
            self.assertIsNotNone(seen["daemon"]["listens_at"])
        self.assertEqual([v["verdict"] for v in w.api("GET", "/v1/nodes/" + node)["verdicts"]].count(given_up["verdict"]), 1)
        self.assertRegex(w.ctl("job", "show", "--why", job), r"(?s)VERDICTS with their evidence.*agent     polled last .*it had %s try 1" % job)
        doctor = {i["name"]: i for i in json.loads(w.spotctl("doctor", "spotd", "-o", "json").stdout)["items"]}
        self.assertEqual((doctor["false recoveries"]["state"], doctor["missed losses"]["state"]), ("ok", "ok"), doctor)

    def check_money(self, job, books):
        w = self.world

        def complete():
            cost = w.api("GET", "/v1/jobs/%s/cost" % job)
            kinds = {line["kind"] for line in cost["items"]}
            # Whole: up to the end of every node of the job.
            for n in w.nodes(live=False):
                mine = [line for line in cost["items"] if line["node"] == n["id"]]
                if mine and max(e2e.micros(line["to_at"]) for line in mine) < e2e.micros(n["ended_at"]):
                    return None
            return cost if "lost_work" in kinds else None
        cost = w.until("the bill with its lost work", 30, complete)
        lines = cost["items"]
        self.assertEqual(sum(line["amount_micros"] for line in lines), cost["total_micros"])
        by_id = {line["id"]: line for line in lines}
        reversals = [line for line in lines if line["reverses"]]
        self.assertTrue(reversals, "lost work was not taken out of compute by a reversal")
        for r in reversals:
            self.assertEqual(r["amount_micros"], -by_id[r["reverses"]]["amount_micros"])
        lost = sum(line["amount_micros"] for line in lines if line["kind"] == "lost_work")
        self.assertGreater(lost, 0)
        for line in lines:
            exact = line["price_micros"] * (e2e.micros(line["to_at"]) - e2e.micros(line["from_at"])) / HOUR_US
            self.assertLess(abs(abs(line["amount_micros"]) - exact), 1.0, line)
        by_kind = {r["kind"]: r for r in w.api("GET", "/v1/cost?by=kind")["rows"]}
        self.assertGreaterEqual(by_kind["lost_work"]["total_micros"], lost)
        bill = {i["instance"]: i for i in books["instances"]}
        for n in w.nodes(live=False):
            mine = [line for line in lines if line["node"] == n["id"]]
            if mine:
                self.check_node(n, mine, bill[n["ref"]])

    def check_node(self, n, lines, bill):
        """Our lines cover the node's life without gap or overlap, and differ from the provider's bill only by its
        edges. We count from the reply to the launch until the provider confirmed the end, EC2 from running to the end
        itself."""
        undone = {line["reverses"] for line in lines if line["reverses"]}
        spans = [(e2e.micros(line["from_at"]), e2e.micros(line["to_at"]), line["price_micros"]) for line in lines
                 if not line["reverses"] and line["id"] not in undone]
        spans.sort()
        self.assertEqual(spans[0][0], e2e.micros(n["launched_at"]))
        self.assertEqual(spans[-1][1], e2e.micros(n["ended_at"]))
        for a, b in zip(spans, spans[1:]):
            self.assertEqual(a[1], b[0], "gap or overlap in the ledger of %s" % n["id"])
        ours = sum(line["amount_micros"] for line in lines)
        # The launch reply leaves the cloud before its instance runs, but reaches us later.
        self.assertLess(spans[0][0], bill["from_us"] + self.late.limit(5) * 1e6)
        self.assertGreaterEqual(spans[-1][1], bill["to_us"])
        edges = (bill["from_us"] - spans[0][0]) * spans[0][2] + (spans[-1][1] - bill["to_us"]) * spans[-1][2]
        self.assertLessEqual(abs(ours - bill["cost_micros"] - edges / HOUR_US), 2,
                             "%s: ours %d, the provider's %d, edges %.1f" % (n["id"], ours, bill["cost_micros"], edges / HOUR_US))

    # ---- the agent is killed -----------------------------------------------------------------

    def test_a_killed_agent_is_started_again_and_the_job_never_notices(self):
        w = self.world
        job = w.submit(steps=w.paced(3000), step_ms=20)
        j = w.await_steps(job, 20)
        node = w.node(j["node"])
        agent = [p for p in w.processes(node["ref"], "spot-agent") if p not in w.processes(node["ref"], "--shim")]
        # The agent's own environment is closed to its user; its instance's is the same.
        with open(os.path.join(w.dir, "cloud", "instances", node["ref"], "init.pid"), encoding="utf-8") as f:
            init = int(f.read())
        with open("/proc/%d/environ" % init, "rb") as f:
            env = dict(x.decode().split("=", 1) for x in f.read().split(b"\0") if x)
        trainers = w.processes(node["ref"], "spot-train")
        os.kill(agent[0], signal.SIGKILL)
        at = w.local_steps(job, node["ref"])
        w.until("the job goes on without its agent", 20, lambda: w.local_steps(job, node["ref"]) > at + 20)
        self.assertTrue(trainers)
        self.assertEqual([p for p in trainers if not os.path.exists("/proc/%d" % p)], [])
        # On a machine the service manager does this (Restart=always); an emulated instance has none.
        program = os.path.join(env["SPOT_AGENT_DIR"], "spot-agent")
        with open(os.path.join(w.dir, "agent-again.log"), "wb") as log:
            w.children.append(subprocess.Popen([program], env=env, cwd=env["HOME"], stdout=log, stderr=log))
        w.hurry()
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 1, 0))
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(3000))
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
