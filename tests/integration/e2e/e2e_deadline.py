#!/usr/bin/env python3
"""Deadlines: planned, not hoped for. An infeasible job is refused at submit. A job with time waits for spot, one
without does not. Starts can be put off. Tight supply is seen and reported."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402


class Deadline(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def decisions(self, job, kind):
        return [d for d in self.world.api("GET", "/v1/jobs/%s/why" % job)["decisions"] if d["kind"] == kind]

    def supply(self, **want):
        items = self.world.ctl_json("supply")["items"]
        return [s for s in items if all(s[k] == v for k, v in want.items())]

    def test_1_an_impossible_deadline_is_refused_with_a_possible_one(self):
        w = self.world
        text = "resources: {accelerators: 'A10G:1'}\nrun: x\nconfig: {spotctl: {work: 5h, deadline: 1h}}\n"
        p = w.spotctl("job", "submit", "-", text=text)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("config.spotctl.deadline", p.stderr)
        self.assertIn("cannot be met", p.stderr)
        # The time it names is one that is accepted.
        end = p.stderr.split("finishes at ")[1].split()[0]
        day, clock = end.rstrip("Z").split("T")
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(e2e.micros(end) / 1e6 + 60))
        self.assertEqual(len(day), 10)
        self.assertEqual(len(clock), 8)
        job = w.ctl("job", "submit", "-", text=text.replace("deadline: 1h", "deadline: %s, start_after: 59m" % later)
                    .replace("work: 5h", "work: 4h")).strip()
        w.ctl("job", "cancel", job)

    def test_2_it_waits_for_spot_only_with_time_in_hand(self):
        w = self.world
        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 0})
        roomy = w.submit(name="roomy", gpus="A10G: 1", steps=300, step_ms=20, ours="work: 2h\ndeadline: 30h",
                         resources=["instance_type: g5.xlarge"])
        tight = w.submit(name="tight", gpus="L4: 1", steps=150, ours="work: 2h\ndeadline: %ds" % (e2e.fastest_s(w, "L4: 1") + 15))
        w.await_job(tight, "the tight one ran on demand", 60,
                    lambda j: any(a["market"] == "on_demand" and a["started_at"] for a in j["attempts_list"]))
        waits = w.until("the roomy one waits", 90, lambda: self.decisions(roomy, "wait"))
        plan = waits[-1]["inputs"]["deadline"]
        self.assertEqual((plan["choice"], plan["held"]), ("wait", "wait"))
        self.assertGreater(plan["deadline_us"] - plan["elapsed_us"], plan["work_us"])
        self.assertTrue(plan["pools"])
        self.assertIn("deadline:", w.job(roomy)["why"])
        # Its patience would have been over long ago: nothing was bought on demand for it.
        mine = [n for n in w.nodes(live=False) if n["wanted_for"] == roomy]
        self.assertGreater(len(mine), 4, "not every zone was tried")
        self.assertTrue(all(n["pool"]["market"] == "spot" for n in mine))

        group = w.until("supply is seen to be tight", 60, lambda: self.supply(gpu="A10G", state="tight"))[0]
        self.assertGreaterEqual(group["index"], 0.35)
        self.assertGreater(group["parts"]["refusals_seen"], 0)
        self.assertIn("launches refused", group["why"])
        total = sum(group["parts"][k] for k in ("refusals", "reclaims", "scores", "price"))
        self.assertAlmostEqual(total, group["index"], places=3)

        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 20})
        j = w.await_end(roomy, 120)
        self.assertEqual((j["state"], j["lost_steps"]), ("SUCCEEDED", 0))
        self.assertEqual({a["market"] for a in j["attempts_list"]}, {"spot"})
        self.assertEqual(w.result_of(roomy), w.result_of_uninterrupted(300))
        j = w.await_end(tight)
        self.assertEqual(j["state"], "SUCCEEDED")
        self.assertLess(j["ended_at"], j["deadline_at"])
        w.until("supply has eased", 90, lambda: self.supply(gpu="A10G", state="easy"))
        events = [e["event"] for e in w.api("GET", "/v1/events?limit=1000")["items"]]
        self.assertIn("SUPPLY_TIGHT", events)
        self.assertIn("SUPPLY_EASY", events)
        w.await_gone()

    def test_5_the_cheapest_way_out_is_not_taken_when_it_would_be_late(self):
        w = self.world
        gpus = "A10G: 1, L4: 1, T4: 1"
        text = "resources: {accelerators: {%s}}\nrun: x\nconfig: {spotctl: {work: 2h, checkpoint: {path: c}}}\n" % gpus
        offers = [o for o in w.ctl_json("plan", "-", text=text)["offers"] if o["pool"]["market"] == "on_demand"]
        cheap = min(offers, key=lambda o: o["total_micros"])
        fast = min(offers, key=lambda o: o["hours_to_finish"])
        self.assertGreater(cheap["hours_to_finish"], fast["hours_to_finish"] * 1.05, "this market has no choice to make")
        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 0})
        late = (cheap["hours_to_finish"] + fast["hours_to_finish"]) / 2 * 3600
        job = w.submit(name="intime", gpus=gpus, steps=100, step_ms=20, ours="work: 2h\ndeadline: %ds" % late)
        j = w.await_job(job, "it runs on demand", 60, lambda j: j["attempts_list"] and j["attempts_list"][-1]["market"] == "on_demand", ends_ok=True)
        self.assertEqual(j["attempts_list"][-1]["pool"]["gpu"], fast["pool"]["gpu"])
        w.await_end(job)
        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 20})
        w.await_gone()

    def test_4_policies_are_tried_on_the_own_past(self):
        w = self.world
        text = "resources: {accelerators: 'A10G:1'}\nrun: x\nconfig: {spotctl: {work: 20h, deadline: 30h, checkpoint: {path: c}}}\n"
        r = w.ctl_json("backtest", "-", "--from", "10d", "--starts", "20", "--seed", "3", text=text)["policies"]
        self.assertEqual(set(r), {"auto", "uniform-progress", "greedy", "on-demand", "optimal"})
        for name, p in r.items():
            self.assertEqual((p["runs"], p["deadline_misses"]), (20, 0), name)
            self.assertGreaterEqual(p["mean_cost_vs_optimal"], 1 - 1e-9, name)
        self.assertAlmostEqual(r["on-demand"]["mean_cost_vs_on_demand"], 1, places=6)
        self.assertLess(r["auto"]["mean_cost"], r["on-demand"]["mean_cost"])
        whole = w.ctl_json("backtest", "-", "--from", "10d", "--starts", "20", "--seed", "3", text=text)
        self.assertEqual(whole["policies"]["auto"]["mean_cost"], r["auto"]["mean_cost"], "the same seed, another supply")
        self.assertLess(whole["supply_known"], 1)
        others = whole["mean_cost_if_unknown"]
        self.assertEqual((whole["unknown"], set(others)), ("prior", {"up", "down"}))
        self.assertLessEqual(others["up"]["optimal"], r["optimal"]["mean_cost"] + 1e-9)
        self.assertGreaterEqual(others["down"]["optimal"], r["optimal"]["mean_cost"] - 1e-9)
        up = w.ctl_json("backtest", "-", "--from", "10d", "--starts", "20", "--seed", "3", "--unknown", "up", text=text)
        self.assertAlmostEqual(up["policies"]["auto"]["mean_cost"], others["up"]["auto"], places=6)
        sure = w.ctl_json("backtest", "-", "--from", "10d", "--starts", "20", "--deadline", "200", text=text)
        self.assertEqual(sure["deadline_hours"], 200)
        self.assertIn("of their supply is known", w.spotctl("backtest", "-", "--from", "10d", "--starts", "5", text=text).stderr)
        again = w.ctl_json("backtest", "-", "--from", "10d", "--starts", "20", "--seed", "3", "--policy", "auto", text=text)["policies"]
        self.assertEqual(again["auto"]["runs"], 20)
        p = w.spotctl("backtest", "-", text=text.replace("deadline: 30h, ", ""))
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("--deadline HOURS", p.stderr)
        p = w.spotctl("backtest", "-", "--from", "1h", text=text)
        self.assertIn("the trace is too short: the time between --from and --to ends after 1h00m", p.stderr)

    def test_3_a_start_can_be_put_off(self):
        w = self.world
        job = w.submit(name="later", gpus="A10G: 1", steps=50, step_ms=20, ours="work: 1h\nstart_after: 8s")
        j = w.job(job)
        begin = e2e.micros(j["not_before_at"])
        self.assertGreaterEqual(begin - e2e.micros(j["created_at"]), 6900000)
        j = w.await_end(job)
        self.assertEqual(j["state"], "SUCCEEDED")
        first = min(e2e.micros(n["created_at"]) for n in w.nodes(live=False) if n["wanted_for"] == job)
        self.assertGreaterEqual(first, begin)
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
