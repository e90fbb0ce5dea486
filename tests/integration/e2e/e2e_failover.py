#!/usr/bin/env python3
"""No spot: on-demand after a patience that the deadline allows; spot again: back to it. Each step explains itself."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

STEPS = 6000


class Failover(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def decisions(self, job):
        return self.world.api("GET", "/v1/jobs/%s/why" % job)["decisions"]

    def test_deadline_on_demand_and_the_way_back(self):
        w = self.world
        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 0})
        # Without a deadline patience decides; with one that leaves seconds of slack there is no time to wait.
        easy = w.submit(name="easy", gpus="A10G: 1", steps=w.paced(STEPS), step_ms=30, ours="work: 2h")
        tight = w.submit(name="tight", gpus="L4: 1", steps=150, ours="work: 2h\ndeadline: %ds" % (e2e.fastest_s(w, "L4: 1") + 10))
        for job in (easy, tight):
            w.await_job(job, "%s ran on demand" % job, 60,
                        lambda j: any(a["market"] == "on_demand" and a["started_at"] for a in j["attempts_list"]))
        t, e = w.job(tight), w.job(easy)
        waited = {}
        for j in (t, e):
            waited[j["id"]] = e2e.micros(j["attempts_list"][0]["created_at"]) - e2e.micros(j["created_at"])
        # The tight one waits no longer than its deadline allows. The other tries spot for its patience of four seconds,
        # of which a quarter is left once supply is seen to be tight.
        self.assertLess(waited[tight], 60000000)
        self.assertGreaterEqual(waited[easy], 1000000)
        why = w.ctl("job", "why", tight)
        self.assertIn("deadline:", why)
        self.assertIn("failover", [d["kind"] for d in self.decisions(tight)])
        why = w.ctl("job", "why", easy)
        self.assertIn("fail over to on-demand", why)
        self.assertIn("patience", why)
        self.assertIn("failover", [d["kind"] for d in self.decisions(easy)])
        refused = [n for n in w.nodes(live=False) if n["wanted_for"] == easy and n["state"] == "FAILED"]
        self.assertTrue(refused, "spot was never tried")
        self.assertTrue(all("InsufficientInstanceCapacity" in n["last_error"] for n in refused), refused[0])

        w.sim("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 20})
        j = w.await_job(easy, "it returns to spot", 90, lambda j: j["state"] == "RUNNING" and j["market"] == "spot")
        old, new = j["attempts_list"][-2:]
        self.assertEqual((old["market"], old["exit_reason"]), ("on_demand", "drained"))
        self.assertEqual(new["steps_start"], old["steps_done"])
        # Launched before it left: the new node was ready while the old one still worked.
        self.assertLess(w.node(new["node"])["ready_at"], old["ended_at"])
        back = [d for d in self.decisions(easy) if d["kind"] == "return"]
        self.assertTrue(back)
        self.assertIn("saves", back[-1]["why"])
        self.assertTrue(back[-1]["inputs"], "the decision is stored without what it was made of")
        self.assertIn("return", w.ctl("job", "why", easy))
        w.hurry()
        for job, steps in ((easy, STEPS), (tight, 150)):
            j = w.await_end(job)
            self.assertEqual((j["state"], j["lost_steps"]), ("SUCCEEDED", 0))
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(steps))
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
