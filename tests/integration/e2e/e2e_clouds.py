#!/usr/bin/env python3
"""Each cloud alone: one job from the price poll until nothing is left. The machine proves itself by its cloud. The
cloud's own notice reaches the job within a second of the agent, and the job resumes elsewhere. Then each kind of object
store."""
import datetime
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

STEPS = 500


class Cloud:
    """The tests of every cloud; below, one class each."""
    GPUS, SPOT = "A10G: 1", True
    VERIFIED = True
    NOTICE = None   # the agent's word for where it heard it; None: this cloud gives none
    NOTICE_S = 20
    UPLOADS = ()

    def agent_log(self, home):
        text = ""
        for path in glob.glob(os.path.join(home, "**", "*.log"), recursive=True):
            with open(path, encoding="utf-8", errors="replace") as f:
                text += f.read()
        return text

    def event_time(self, text, event):
        line = next((x for x in text.splitlines() if "event=" + event in x or " %s " % event in x), None)
        self.assertIsNotNone(line, "%s is not in the agent's log:\n%s" % (event, text[-3000:]))
        return datetime.datetime.fromisoformat(re.search(r"\d{4}-\d\d-\d\dT[0-9:.]+", line).group())

    def take(self, node):
        self.world.clouds.reclaim(node, self.NOTICE_S)

    def verified(self, node):
        """Its cloud vouched for it before it was let in."""
        text = self.world.log()
        self.assertEqual(self.VERIFIED, "agent.identity_verified node=%s " % node["id"][1:] in text, text[-2000:])

    def heard(self, home):
        text = self.agent_log(home)
        seen, signalled = self.event_time(text, "notice.seen"), self.event_time(text, "job.signalled")
        self.assertIn("source=" + self.NOTICE, text)
        self.assertLess((signalled - seen).total_seconds(), self.late.limit(1))

    def test_a_job_from_price_to_nothing_left(self):
        w = self.world
        job = w.submit(gpus=self.GPUS, spot=self.SPOT, steps=STEPS, step_ms=20)
        j = w.await_steps(job, 60)
        node = w.node(j["node"])
        self.assertEqual(node["pool"]["provider"], self.OPTIONS["providers"][0])
        self.verified(node)
        if self.NOTICE:
            epoch = j["epoch"]
            home = w.clouds.home(node)
            self.take(node)
            j = w.await_attempt(job, epoch + 1)
            self.heard(home)
            old, new = j["attempts_list"][-2:]
            self.assertEqual((old["exit_reason"], new["steps_start"]), ("drained", old["steps_done"]), old)
            self.assertGreater(new["steps_start"], 0)
            self.assertNotEqual(new["node"], old["node"])
            self.verified(w.node(new["node"]))
        j = w.await_end(job)
        self.assertEqual((j["state"], j["lost_steps"]), ("SUCCEEDED", 0), j["why"])
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        books = w.await_gone()
        w.until("nothing is left in the books", 30, lambda: w.sim("GET", "/books")["left"] == [])
        self.assertFalse(books["double_launches"])
        self.uploads()
        self.stored(j)

    def objects(self):
        p = self.world.spotctl("doctor", "--consistency", "-o", "json")
        return next(i for i in json.loads(p.stdout)["items"] if i["name"] == "objects")

    def stored(self, job):
        """Asks the store, by its own kind of signed request, whether it has the rows' objects."""
        found = self.objects()
        self.assertEqual(found["state"], "ok", found)
        self.assertNotIn(": 0 looked at", found["words"])
        if self.UPLOADS:
            piece = self.world.ask("GET", "/v1/checkpoints/" + job["checkpoint"]["id"])[1]["chunks"][0]
            self.world.store.put(piece["object_key"], b"x" * (piece["bytes"] + 1))
            found = self.objects()
            self.assertEqual((found["state"], found["amount"]), ("bad", 1), found)
            self.assertIn("has %d of %d bytes" % (piece["bytes"] + 1, piece["bytes"]), found["words"])

    def uploads(self):
        """Each checkpoint came the store's own way."""
        for service, action in self.UPLOADS:
            self.assertGreater(self.world.counted(service, action), 1, action)


class Aws(Cloud, e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}
    NOTICE = "imds"


class Gcp(Cloud, e2e.Case):
    OPTIONS = {"providers": ("gcp", "aws")}
    GPUS = "L4: 1"
    NOTICE = "gcp"


class Azure(Cloud, e2e.Case):
    OPTIONS = {"providers": ("azure",), "store": "az"}
    GPUS = "T4: 1"
    NOTICE = "azure"
    UPLOADS = (("blob", "PutBlock"), ("blob", "PutBlockList"))


class CoreWeave(Cloud, e2e.Case):
    OPTIONS = {"providers": ("coreweave", "aws")}
    GPUS = "H100: 8"
    NOTICE = "sigterm"


class Kubernetes(Cloud, e2e.Case):
    OPTIONS = {"providers": ("kubernetes", "aws")}
    GPUS = "H100: 8"
    SPOT = False
    NOTICE = "sigterm"

    def take(self, node):
        self.world.take_pod(node, self.NOTICE_S)


class Lambda(Cloud, e2e.Case):
    OPTIONS = {"providers": ("lambda", "aws")}
    GPUS = "A10: 1"
    SPOT = False
    VERIFIED = False


class GcsStore(Gcp):
    OPTIONS = {"providers": ("gcp",), "store": "gs"}
    UPLOADS = (("storage", "xml.post"), ("storage", "xml.put"))  # a session each, and its pieces


if __name__ == "__main__":
    e2e.main()
