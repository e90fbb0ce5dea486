#!/usr/bin/env python3
"""Budgets of jobs bind: a job saves, stops and gives its machine back before it costs more, and goes on from there when it may."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

STEPS = 3000
# The reserve of a budget: time to stop and to end a machine (core/money/money.h), a pass, and a save as the file
# allows it.
END_S, LOOK_S, SAVE_S = 130, 1, 10
MORE_S = 2  # so long a limit lets the job run on that is set under it
PLAIN = """name: %s
resources:
  accelerators: {A10G: 1, L4: 1, T4: 1}
  use_spot: true
run: sleep 300
config: {spotctl: {team: %s, project: e2e, class: training, budget: %s, work: %s, checkpoint: {path: ckpt}}}
"""


def usd(micros):
    return "%d.%06d" % divmod(micros, 1000000)


class Budget(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "settings": {"engine": {"budget_look": "%ds" % LOOK_S}}}

    # ---- asking --------------------------------------------------------------------------

    def budget(self, job):
        return self.world.ctl_json("job", "budget", job)["budget"]

    def events(self, job, *kinds):
        return [e for e in self.world.ctl_json("job", "why", job)["events"] if e["event"] in kinds]

    def parked(self, job):
        return self.world.await_job(job, "it is parked", 60, lambda j: j["state"] == "PARKED")

    def launches(self):
        return len(self.world.sim("GET", "/state")["launches"])

    def metric(self, text):
        w = self.world
        w.until("the metric " + text, 20, lambda: text in str(w.ask("GET", "/metrics")[1]).splitlines())

    def consistent(self):
        out = self.world.spotctl("doctor", "--consistency")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)

    def told_budget(self, job):
        """The budget that spotctl says a parked job needs."""
        shown = self.world.ctl("job", "show", job)
        said = re.search(r"^parked +needs at least \d+\.\d\d USD left, which is a budget of (\d+\.\d\d) USD; "
                         r"raise it with 'spotctl job budget %s AMOUNT', or cancel with 'spotctl job cancel %s'$" % (job, job), shown, re.M)
        self.assertTrue(said, shown)
        return said.group(1)

    def cancelled(self, job):
        w = self.world
        w.ctl("job", "cancel", job)
        j = w.await_end(job)
        self.assertEqual(j["state"], "CANCELLED")
        return j

    def submit_unpaid(self, name):
        """A job that no machine can be begun on for its budget."""
        return self.world.ctl("job", "submit", "-", text=PLAIN % (name, "vision", "0.001", "1h"))

    # ---- a budget that is used up --------------------------------------------------------

    def test_a_job_with_a_used_up_budget_is_parked_and_goes_on(self):
        w = self.world
        job = w.submit(name="tight", steps=w.paced(STEPS), step_ms=30, ours="work: 2h\nbudget: 10")
        j = w.await_steps(job, 20)
        self.assertEqual((j["market"], j["checkpoint"]), ("spot", None), "only the end of its budget makes it save")
        self.assertEqual(self.budget(job)["limit_micros"], 10000000)
        node = w.node(j["node"])
        price = max(node["price_micros"], node["pool"]["price_micros"])
        kept = -(-price * (END_S + LOOK_S + SAVE_S) // 3600)
        asked_us = time.time() * 1e6
        spent = self.budget(job)["spent_micros"]
        limit = spent + kept + MORE_S * price // 3600
        self.assertEqual(w.ctl_json("job", "budget", job, usd(limit))["budget"]["limit_micros"], limit)

        step = self.check_saved(job, limit)
        # Not before all but the reserve was spent; amounts are rounded.
        self.assertGreaterEqual(e2e.micros(self.events(job, "BUDGET")[0]["at"]) - asked_us, (MORE_S - 0.5) * 1e6)
        w.sim_wait("terminated", instance=node["ref"])
        w.await_gone()
        w.until("nothing of it is left at the cloud", 60, lambda: not w.sim("GET", "/books")["left"])
        self.check_cost(job, limit)
        self.check_parked_is_told(job)
        self.check_less_is_refused(job, limit)
        self.check_too_little_more_leaves_it_parked(job)
        self.check_goes_on(job, step)

    def check_saved(self, job, limit):
        """It stopped with nothing lost, for its budget. Returns the step that is committed."""
        j = self.parked(job)
        (first,) = j["attempts_list"]
        self.assertEqual((j["reason"], j["node"], j["epoch"], j["lost_steps"]), ("budget", None, 1, 0))
        self.assertEqual(first["exit_reason"], "drained")
        self.assertGreaterEqual(j["checkpoint"]["steps"], 20)
        self.assertEqual(j["checkpoint"]["steps"], first["steps_done"], "it was stopped before it had saved")
        told, parked = self.events(job, "BUDGET")
        self.assertEqual([(e["was"], e["now"]) for e in (told, parked)], [("RUNNING", "DRAINING"), ("QUEUED", "PARKED")])
        self.assertRegex(told["why"], r"its budget is used up: \d+\.\d{4} of %.4f USD are spent" % (limit / 1e6))
        self.assertIn("'spotctl job budget %s AMOUNT'" % job, j["why"])
        return j["checkpoint"]["steps"]

    def check_cost(self, job, limit):
        """Not above the limit, once all is billed."""
        w = self.world

        def billed():
            cost = w.api("GET", "/v1/jobs/%s/cost" % job)
            return cost["total_micros"] if cost["total_micros"] == self.budget(job)["spent_micros"] else None
        total = w.until("all that it spent is in the ledger", 60, billed)
        self.assertLessEqual(total, limit)
        self.assertEqual(self.budget(job)["left_micros"], limit - total)

    def check_parked_is_told(self, job):
        w = self.world
        b = self.budget(job)
        self.assertGreater(b["needs_micros"], b["left_micros"])
        self.assertGreaterEqual(float(self.told_budget(job)) * 1e6, b["spent_micros"] + b["needs_micros"])
        self.assertIn(job, [j["id"] for j in w.ctl_json("job", "ls", "--state", "active")["items"]])
        self.assertIn(job, [j["id"] for j in w.api("GET", "/v1/jobs?state=active")["items"]])
        self.metric('spot_parked_jobs{team="research"} 1')
        self.consistent()

    def check_less_is_refused(self, job, limit):
        w = self.world
        spent = self.budget(job)["spent_micros"]
        refused = w.spotctl("job", "budget", job, usd(spent - 1))
        self.assertEqual(refused.returncode, 4, refused.stdout + refused.stderr)
        self.assertIn("job '%s' has cost %s USD already" % (job, usd(spent)), refused.stderr)
        self.assertEqual(self.budget(job)["limit_micros"], limit)

    def check_too_little_more_leaves_it_parked(self, job):
        """The engine checks all parked jobs together: when it lets a later one go on, it has left this one."""
        w = self.world
        probe = self.submit_unpaid("probe")
        self.parked(probe)
        b = self.budget(job)
        w.ctl("job", "budget", job, usd(b["spent_micros"] + b["needs_micros"] - 1))
        w.ctl("job", "budget", probe, self.told_budget(probe))
        w.until("the probe goes on with what it was said to need", 60, lambda: self.events(probe, "FUNDED"))
        self.assertEqual((w.job(job)["state"], self.events(job, "FUNDED")), ("PARKED", []))
        self.cancelled(probe)
        self.assertEqual((w.job(job)["state"], self.events(job, "FUNDED")), ("PARKED", []))

    def check_goes_on(self, job, step):
        w = self.world
        self.assertIsNone(w.ctl_json("job", "budget", job, "none")["budget"])
        j = w.await_attempt(job, 2)
        self.assertEqual(j["attempts_list"][1]["steps_start"], step)
        self.assertEqual(j["attempts_list"][1]["restored_from"], j["checkpoints"][-1]["id"])
        (funded,) = self.events(job, "FUNDED")
        self.assertEqual((funded["was"], funded["now"], funded["why"]), ("PARKED", "QUEUED", "its budget was lifted: it is placed again"))
        w.hurry()
        done = w.await_end(job)
        self.assertEqual((done["state"], done["attempts"], done["steps_done"], done["lost_steps"], done["budget"]),
                         ("SUCCEEDED", 2, STEPS, 0, None))
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        w.await_gone()
        self.consistent()

    # ---- a budget that does not suffice from the start -----------------------------------

    def test_a_budget_that_pays_no_start_launches_nothing(self):
        w = self.world
        before = self.launches()
        job = self.submit_unpaid("unpaid")
        j = self.parked(job)
        self.assertEqual((j["attempts"], j["cost_micros"], j["checkpoint"]), (0, 0, None))
        self.assertRegex(j["why"], r"^0\.0010 of 0\.0010 USD of its budget are left; a start needs 0\.\d{4} USD at least")
        self.metric('spot_parked_jobs{team="vision"} 1')
        # A waiting command prints advice, and waits on.
        waits = w.start_ctl("job", "wait", job)
        self.assertIn("PARKED", waits.stderr.readline())
        self.assertIn("raise it with 'spotctl job budget %s AMOUNT'" % job, waits.stderr.readline())
        self.assertIsNone(waits.poll())
        self.assertEqual(self.cancelled(job)["attempts"], 0)
        waits.communicate()
        self.assertNotEqual(waits.returncode, 0)
        self.assertEqual((self.launches(), w.nodes(live=False, query="&job=" + job)), (before, []))
        over = w.spotctl("job", "budget", job, "10")
        self.assertEqual(over.returncode, 4, over.stderr)
        self.assertIn("job '%s' is over: CANCELLED" % job, over.stderr)
        self.consistent()

    def test_a_budget_below_the_expected_cost_is_said_at_submit(self):
        w = self.world
        out = w.spotctl("job", "submit", "-", text=PLAIN % ("dear", "vision", "1", "1000h"))
        self.assertEqual(out.returncode, 0, out.stderr)
        job = out.stdout.strip()
        self.assertRegex(out.stderr, r"warning: budget: 1\.0000 USD do not pay for this work\. The best offer now, aws \S+ \S+ spot at "
                                     r"\d+\.\d{4} USD/h, is expected to need \d+\.\d{4} USD to the end")
        self.assertEqual(self.budget(job)["limit_micros"], 1000000)
        self.cancelled(job)
        w.await_gone()
        self.consistent()


if __name__ == "__main__":
    e2e.main()
