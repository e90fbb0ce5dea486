#!/usr/bin/env python3
"""Google's flex-start: a job waits in the queue for its machine, and leaves it before its end. A wait that runs out is a
refusal, and the job goes elsewhere."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

STEPS = 6000
BOOT_TIMEOUT_S = 15
PLAN = "name: p\nresources: {accelerators: {L4: 1}, use_spot: false}\nrun: x\nconfig: {spotctl: {work: 2h, checkpoint: {path: c}}}\n"


class Flex(e2e.Case):
    OPTIONS = {"providers": ("gcp",), "store": "gs",
               "settings": {"provider gcp": {"flex_start": "on", "flex_start_wait": "2m"},
                            "market": {"pools": "2s", "signals": "1s", "on_demand": "2s"},
                            "engine": {"boot_timeout": "%ds" % BOOT_TIMEOUT_S, "changeover": "15s"},
                            "rank": {"ends_margin_s": "8", "save_s": "1"}}}

    def planned(self):
        """The plan of a job that may not use spot, once a queued machine with a known end is its best."""
        plan = self.world.ctl_json("plan", "-", text=PLAN)
        best = plan["offers"][0]["pool"] if plan["offers"] else {}
        return plan if best.get("market") == "flex_start" and best.get("ends_at") else None

    def queued(self, job):
        """The node that the job waits for, once the broker has heard that it waits itself."""
        return next((n for n in self.world.nodes(query="&job=" + job) if n["state"] == "BOOTING" and n["provider_state"] == "queued"), None)

    def test_a_job_waits_for_its_machine_and_leaves_before_its_end(self):
        w = self.world
        w.sim("POST", "/gcp/config", {"flex_queue_ms": -1, "flex_wait_ms": 0, "flex_run_ms": 0})
        plan = w.until("a plan takes a queued machine", 60, self.planned)
        on_demand = next(o for o in plan["offers"] if o["pool"]["market"] == "on_demand")
        self.assertLess(plan["offers"][0]["total_micros"], on_demand["total_micros"])
        self.assertIn("queue", w.ctl("plan", "-", text=PLAN))
        self.assertIn("flex_start", w.ctl("pools", "--market", "flex_start"))
        self.assertIn("flex_start", w.ctl("prices", "--market", "flex_start", "-o", "json"))

        job = w.submit(gpus="L4: 1", spot=False, steps=w.paced(STEPS), step_ms=30, ours="work: 20h")
        first = w.until("its machine waits in the queue", 60, lambda: self.queued(job))
        self.assertEqual(first["pool"]["market"], "flex_start")
        shown = w.ctl("node", "show", first["id"])
        self.assertIn("flex_start", shown)
        self.assertIn("queued", shown)
        why = json.dumps(w.api("GET", "/v1/jobs/%s/why" % job)["decisions"])
        self.assertIn("a queued machine costs less than one on demand", why)
        # It is neither lost, nor given up as one that does not boot, nor paid for.
        until = time.monotonic() + BOOT_TIMEOUT_S + 5
        w.until("more than the time to boot has passed", BOOT_TIMEOUT_S + 30, lambda: time.monotonic() > until)
        now = w.node(first["id"])
        self.assertEqual((now["state"], now["provider_state"], now["launched_at"]), ("BOOTING", "queued", None))
        self.assertEqual(w.sql("SELECT count(*) FROM ledger WHERE node_id = %s" % first["id"][1:]).strip(), "0")

        self.assertIn('spot_queued_nodes{when="now"} 1', str(w.ask("GET", "/metrics")[1]))

        w.sim("POST", "/gcp/config", {"flex_queue_ms": 0})
        j = w.await_steps(job, 40)
        self.assertEqual((j["node"], j["market"], j["attempts"]), (first["id"], "flex_start", 1))
        self.assertIn('spot_queued_nodes{when="now"} 0', str(w.ask("GET", "/metrics")[1]))
        w.until("its end is shown", 30, lambda: w.node(first["id"])["ends_at"])
        self.assertEqual(w.node(first["id"])["notices"], [], "told a week before")
        w.until("it is paid for", 30, lambda: w.sql("SELECT count(*) FROM ledger WHERE kind = 'compute' AND node_id = %s"
                                                    % first["id"][1:]).strip() != "0")
        price = plan["offers"][0]["price_micros"]
        self.assertEqual(w.sql("SELECT DISTINCT price_micros FROM ledger WHERE node_id = %s AND price_micros > 0"
                               % first["id"][1:]).strip(), str(price))

        # The end comes near: the job is told when a save still fits.
        ran_s = (e2e.micros(w.api("GET", "/v1/whoami") and w.node(first["id"])["last_seen_at"]) - e2e.micros(now["created_at"])) / 1e6
        w.sim("POST", "/gcp/config", {"flex_run_ms": int((ran_s + 30) * 1000)})
        j = w.await_attempt(job, 2, 120)
        old, new = [a for a in j["attempts_list"] if a["epoch"] in (1, 2)]
        self.assertEqual(old["exit_reason"], "drained", old)
        self.assertEqual(new["steps_start"], old["steps_done"])
        self.assertIn("expiry notice (flex-start)", json.dumps(w.node(first["id"])))
        w.sim_wait("terminated", instance=self.id_of(first))
        self.assertEqual(w.instance(self.id_of(first))["ended_by"], "api", "it was still there when its run ended")
        w.sim("POST", "/gcp/config", {"flex_run_ms": 0})

        w.hurry()
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0))
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        w.await_gone()

    def test_a_job_that_is_cancelled_takes_its_order_back(self):
        w = self.world
        w.sim("POST", "/gcp/config", {"flex_queue_ms": -1, "flex_wait_ms": 0, "flex_run_ms": 0})
        w.until("a plan takes a queued machine", 60, self.planned)
        job = w.submit(gpus="L4: 1", spot=False)
        first = w.until("its machine waits in the queue", 60, lambda: self.queued(job))
        w.ctl("job", "cancel", job)
        w.await_gone()
        self.assertEqual(w.instance(self.id_of(first))["ended_by"], "api")
        gone = w.node(first["id"])
        self.assertEqual((gone["launched_at"], gone["cost_micros"]), (None, 0))

    def id_of(self, node):
        return node["ref"].split("/")[-1]

    def test_a_wait_that_runs_out_goes_elsewhere(self):
        w = self.world
        w.sim("POST", "/gcp/config", {"flex_queue_ms": -1, "flex_wait_ms": 6000, "flex_run_ms": 0})
        w.until("a plan takes a queued machine", 60, self.planned)
        job = w.submit(gpus="L4: 1", spot=False, steps=400, step_ms=20)
        first = w.until("its machine waits in the queue", 60, lambda: self.queued(job))
        j = w.await_end(job, 240)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 1, 0))
        self.assertEqual(w.node(j["attempts_list"][0]["node"])["pool"]["market"], "on_demand")
        gone = w.until("its order is over", 30, lambda: (lambda n: n if n["state"] == "GONE" else None)(w.node(first["id"])))
        self.assertEqual((gone["end_cause"], gone["launched_at"], gone["cost_micros"]), ("refused", None, 0))
        self.assertIn("queue", gone["why"] + json.dumps(gone))
        self.assertNotEqual(w.sql("SELECT refusals FROM pool_cool WHERE pool_id = %s AND rc = 'late_no_capacity'" % first["pool"]["id"][1:]).strip(), "")
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
