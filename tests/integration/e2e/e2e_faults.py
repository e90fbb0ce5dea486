#!/usr/bin/env python3
"""Providers' faults: lost replies, errors after the effect, throttles, keys that end, and machines that nobody asked
for."""
import os
import sys
import xml.etree.ElementTree as ET

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402


class Faults(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def fault(self, action, kind, **more):
        self.world.sim("POST", "/fault", dict({"match": {"service": "ec2", "action": action}, "kind": kind}, **more))

    def hits(self):
        return sum(f["hits"] for f in self.world.sim("GET", "/fault")["faults"])

    def tearDown(self):
        self.world.sim("DELETE", "/fault")

    def runs_on_one_instance(self, job):
        """The job ran in its first attempt, on the only instance that was ever made for it."""
        w = self.world
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 1), j["why"])
        node = w.node(j["attempts_list"][0]["node"])
        made = [i for i in w.instances() if i["token"] and i["token"] == node["token"]]
        self.assertEqual([i["id"] for i in made], [node["ref"]])
        self.assertEqual(len(w.nodes(live=False, query="&job=" + job)) or 1, 1)
        w.await_gone()
        return node

    def states(self, node):
        return [e["now"] for e in self.world.node(node["id"])["events"]]

    def test_a_lost_reply_of_a_launch_is_found_again(self):
        self.fault("RunInstances", "reset_after")
        node = self.runs_on_one_instance(self.world.submit(steps=40))
        self.assertEqual(self.hits(), 1)
        self.assertIn("UNKNOWN", self.states(node))

    def test_an_error_after_the_effect_is_not_believed(self):
        self.fault("RunInstances", "status", status=500, code="InternalError", message="An internal error has occurred", after=True)
        node = self.runs_on_one_instance(self.world.submit(steps=40))
        self.assertEqual(self.hits(), 1)
        # Repeated with the same token, which EC2 answers with the instance that is there already.
        launches = [x for x in self.world.sim("GET", "/state")["launches"] if x["token"] == node["token"]]
        self.assertEqual([x["replayed"] for x in launches], [False, True])

    def test_a_launch_that_never_arrived_is_repeated(self):
        self.fault("RunInstances", "reset_before")
        self.runs_on_one_instance(self.world.submit(steps=40))
        self.assertEqual(self.hits(), 1)

    def test_throttled_launches_wait_and_are_repeated(self):
        self.fault("RunInstances", "status", status=503, code="RequestLimitExceeded", message="Request limit exceeded.", count=3)
        job = self.world.submit(steps=40)
        self.runs_on_one_instance(job)
        self.assertEqual(self.hits(), 3)

    def test_a_file_that_came_with_other_bytes_than_it_has_is_fetched_again(self):
        w = self.world
        w.sim("POST", "/fault", {"match": {"service": "s3", "action": "GetObject"}, "kind": "malform"})
        j = w.await_end(w.submit(steps=40))
        self.assertEqual(self.hits(), 1)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 1), "%s %s" % (j["reason"], j["why"]))

    def test_keys_that_end_are_read_again_and_the_job_goes_on(self):
        w = self.world
        job = w.submit(steps=300)
        j = w.await_steps(job, 20)
        # One answer as of an expired session, then really new keys, which the file holds from now on.
        self.fault("DescribeInstances", "expired_credentials", count=2)
        fresh = w.sim("POST", "/credentials", {"action": "rotate"})["aws"]
        w.keys = w.clouds.keys = (fresh["access_key_id"], fresh["secret_access_key"])
        w.private_file("aws-credentials", "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n" % w.keys)
        first = j["node"]
        w.ctl("node", "drain", first)
        j = w.await_attempt(job, 2, 40)
        self.assertGreater(j["attempts_list"][1]["steps_start"], 0)
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0))
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(300))
        w.await_gone()

    def launch(self, token, tags):
        """Past the broker, with the account's own keys."""
        image = next(i["image"] for i in self.world.instances() if i["image"])
        form = {"ImageId": image, "InstanceType": "g4dn.xlarge", "MinCount": "1", "MaxCount": "1", "ClientToken": token,
                "Placement.AvailabilityZone": "us-east-1a"}
        for k, (key, value) in enumerate(tags.items(), 1):
            form["TagSpecification.1.ResourceType"] = "instance"
            form["TagSpecification.1.Tag.%d.Key" % k] = key
            form["TagSpecification.1.Tag.%d.Value" % k] = value
        status, text = self.world.ec2("RunInstances", **form)
        self.assertEqual(status, 200, text)
        return next(e.text for e in ET.fromstring(text).iter() if e.tag.endswith("}instanceId"))

    def test_orphans_are_ended_after_a_grace_and_strangers_never_touched(self):
        w = self.world
        self.runs_on_one_instance(w.submit(steps=20))
        install = w.api("GET", "/v1/version")["install"]
        tag = next(k for i in w.instances() for k, v in i["tags"].items() if v == install)
        orphan = self.launch("behind-1", {tag: install})
        strangers = [self.launch("behind-2", {}), self.launch("behind-3", {tag: "00000000"}),
                     self.launch("behind-4", {tag: install + "0"}), self.launch("behind-5", {"Owner": install})]
        self.addCleanup(self.end_all, strangers)
        w.sim_wait("terminated", 40, instance=orphan)
        mine = w.until("the leak is over", 30, lambda: next((i for i in w.ctl_json("leaks", "--state", "gone")["items"] if i["ref"] == orphan), None))
        self.assertEqual((mine["provider"], mine["region"], mine["instance_type"], mine["kind"]), ("aws", "us-east-1", "g4dn.xlarge", "instance"))
        self.assertGreater(mine["per_hour_micros"], 100000)
        self.assertGreater(mine["cost_micros"], 0)
        life = w.instance(orphan)
        self.assertGreater(life["gone_us"] - life["launched_us"], 4000000, "no grace")
        self.assertEqual(life["ended_by"], "api")
        alarms = [e for e in w.api("GET", "/v1/events?limit=1000")["items"] if orphan in json_text(e)]
        self.assertTrue(alarms, "no alarm in the events")
        # Two more sweeps.
        swept = w.counted("ec2", "DescribeInstances")
        w.until("further looks at the account", 30, lambda: w.counted("ec2", "DescribeInstances") >= swept + 4)
        self.assertEqual({i["id"] for i in w.instances(live=True)}, set(strangers))
        self.assertFalse([e for e in w.api("GET", "/v1/events?limit=1000")["items"] if any(s in json_text(e) for s in strangers)])

    def end_all(self, refs):
        status, text = self.world.ec2("TerminateInstances", **{"InstanceId.%d" % k: r for k, r in enumerate(refs, 1)})
        self.assertEqual(status, 200, text)
        self.world.await_gone()


def json_text(e):
    return e2e.json.dumps(e)


if __name__ == "__main__":
    e2e.main()
