#!/usr/bin/env python3
"""Lambda Cloud as the only provider: no spot, no zones, no launch tokens, no notices, no object store."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

JOB = """name: %s
resources:
  accelerators: {A10: 1}
run: |
  echo begins on $SPOT_NODE_ID
  for i in 1 2 3 4 5 6 7 8 9 10; do echo $i 10 >"$SPOT_PROGRESS_FILE"; sleep 0.1; done
  echo ends
config:
  spotctl: {team: research, project: e2e, work: 1h}
"""
LAUNCH = "POST /instance-operations/launch"


class Lambda(e2e.Case):
    # Launches go out at one per twelve seconds, as Lambda documents: every test here has two at most.
    OPTIONS = {"providers": ("lambda",), "settings": {"checkpoint": {"store": "", "endpoint": ""}}}

    def setUp(self):
        self.seq = self.world.sim("GET", "/state")["seq"]

    def tearDown(self):
        self.world.sim("DELETE", "/fault")
        self.world.sim("POST", "/config", {"boot_ms": 300})

    def submit(self, name):
        return self.world.ctl("job", "submit", "-", text=JOB % name)

    def ended(self, job):
        w = self.world
        j = w.await_end(job, 60)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 1), j["why"])
        log = w.ctl("job", "logs", job)
        self.assertIn("begins on " + j["attempts_list"][0]["node"], log)
        self.assertIn("ends", log)
        # There is no spot market here, so nobody waits for one.
        self.assertEqual({d["kind"] for d in w.api("GET", "/v1/jobs/%s/why" % job)["decisions"]}, {"place"})
        return j

    def test_a_job_that_saves_where_there_is_no_store_comes_to_its_end(self):
        text = JOB.replace("  echo ends", "  echo 10 >out/model\n  echo ends").replace("work: 1h", "work: 1h, checkpoint: {path: out}")
        job = self.world.ctl("job", "submit", "-", text=text % "saves")
        self.assertEqual(self.ended(job)["checkpoints"], [])
        self.assertRegex(self.world.ctl("job", "show", job), r"(?m)^not saved +no checkpoint is stored, .*\[checkpoint\] store is empty")
        self.world.await_gone()

    def test_a_lost_reply_of_a_launch_makes_one_instance(self):
        w = self.world
        w.sim("POST", "/fault", {"match": {"service": "lambda", "action": LAUNCH}, "kind": "reset_after"})
        job = self.submit("lost-reply")
        j = self.ended(job)
        node = w.node(j["attempts_list"][0]["node"])
        self.assertIn("UNKNOWN", [e["now"] for e in node["events"]])
        self.assertEqual(sum(f["hits"] for f in w.sim("GET", "/fault")["faults"]), 1)
        self.assertEqual(len([i for i in w.instances() if i["name"] == node["name"]]), 1)
        self.assertEqual(node["name"], w.instance(node["ref"])["name"])
        w.await_gone()

    def test_a_launch_that_the_vendor_took_twice_leaves_one_instance(self):
        w = self.world
        w.sim("POST", "/config", {"throttle": False})
        w.sim("POST", "/fault", {"match": {"service": "lambda", "action": LAUNCH}, "kind": "duplicate"})
        job = self.submit("twice")
        events = w.sim_wait("launched", 40, since=self.seq, count=2)
        w.sim("POST", "/config", {"throttle": True})
        both = {e["instance"] for e in events}
        j = self.ended(job)
        ours = w.node(j["attempts_list"][0]["node"])["ref"]
        self.assertIn(ours, both)
        # Both agents came at once with the same token; the one on the ended machine never enrolled.
        self.assertEqual([e["event"] for e in w.node(j["attempts_list"][0]["node"])["events"] if e["event"].startswith("AGENT_")],
                         ["AGENT_ENROLLED"])
        w.sim_wait("terminated", 40, instance=(both - {ours}).pop())
        w.made_twice.add(w.instance(ours)["name"])
        w.await_gone()

    def test_an_unhealthy_boot_is_replaced(self):
        w = self.world
        w.sim("POST", "/config", {"boot_ms": 60000})
        job = self.submit("unhealthy")
        ref = w.until("an instance boots", 40, lambda: [n["ref"] for n in w.nodes() if n["ref"] and n["wanted_for"] == job])[0]
        w.sim("POST", "/config", {"boot_ms": 300})
        w.sim("POST", "/unhealthy", {"instance": ref})
        j = self.ended(job)
        good = w.node(j["attempts_list"][0]["node"])
        self.assertNotEqual(good["ref"], ref)
        # Unhealthy ones are billed until they are ended: ended and confirmed it must be.
        w.sim_wait("terminated", instance=ref)
        bad = next(n for n in w.nodes(live=False) if n["ref"] == ref)
        w.until("the end is confirmed", 20, lambda: w.node(bad["id"])["state"] in ("GONE", "FAILED"))
        broken = [e for e in w.node(bad["id"])["events"] if e["event"] == "BROKEN"]
        self.assertEqual(len(broken), 1)
        self.assertIn("unhealthy", broken[0]["why"])
        self.assertTrue(w.node(bad["id"])["end_cause"], w.node(bad["id"]))
        w.await_gone()

    def test_an_instance_under_our_name_that_nobody_knows_is_ended(self):
        w = self.world
        install = w.api("GET", "/v1/version")["install"]
        made = {}
        for who, name, tags in (("orphan", "brk.%s.nffffffffffffffff.1" % install, [{"key": "brk-install", "value": install}]),
                                ("stranger", "brk.00000000.nffffffffffffffff.1", [])):
            def go(name=name, tags=tags):
                status, reply = e2e.plain_http("POST", w.emulator.url + "/api/v1/instance-operations/launch", {
                    "region_name": "us-east-1", "instance_type_name": "gpu_1x_a10", "ssh_key_names": ["spotbroker"], "name": name,
                    "tags": tags}, w.lambda_key)
                return reply["data"]["instance_ids"][0] if status == 200 else None
            made[who] = w.until("a launch within the vendor's limit", 40, go)
        w.sim_wait("terminated", 40, instance=made["orphan"])
        swept = w.counted("lambda", "GET /instances")
        w.until("further looks at the account", 40, lambda: w.counted("lambda", "GET /instances") >= swept + 5)
        self.assertEqual({i["id"] for i in w.instances(live=True)}, {made["stranger"]})
        w.until("a terminate within the vendor's limit", 20, lambda: e2e.plain_http(
            "POST", w.emulator.url + "/api/v1/instance-operations/terminate",
            {"instance_ids": [made["stranger"]]}, w.lambda_key)[0] == 200)
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
