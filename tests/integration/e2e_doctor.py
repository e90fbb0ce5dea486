#!/usr/bin/env python3
"""spotctl doctor: what is wrong is named with what to do about it; secrets stay where they are."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import e2e  # noqa: E402


def by_name(run, provider):
    return {(i["region"], i["name"]): i for i in run["items"] if i["provider"] == provider}


class Healthy(e2e.Case):
    OPTIONS = {"regions": "us-east-1,us-west-2"}

    def examine(self, *words):
        p = self.world.spotctl("doctor", *words, "-o", "json")
        return p.returncode, json.loads(p.stdout)

    def test_every_part_is_looked_at_and_nothing_is_created(self):
        w = self.world
        w.prices()
        before = len(w.instances())
        code, run = self.examine()
        self.assertEqual(run["state"], "done")
        own = by_name(run, "spotd")
        for name in ("database", "database latency", "database clock", "spot-agent", "spot-nvml", "store PUT", "store GET", "store DELETE", "engine"):
            self.assertEqual(own["", name]["state"], "ok", own["", name])
        self.assertEqual(own["", "public address"]["state"], "warn")
        self.assertIn("public_url", own["", "public address"]["fix"])
        aws = by_name(run, "aws")
        for name in ("reachable", "account", "prices", "feeds", "poll cost"):
            self.assertEqual(aws["", name]["state"], "ok", aws["", name])
        regions = {r for r, _ in aws}
        self.assertEqual(regions, {"", "us-east-1", "us-west-2"})
        self.assertEqual({i["state"] for i in run["items"] if i["state"] == "bad"}, set(), [i for i in run["items"] if i["state"] == "bad"])
        self.assertEqual(code, 0)
        # A feed polled each second costs at least a request each second.
        self.assertGreater(aws["", "poll cost"]["amount"], 86400 / 2)
        self.assertIn("published limits", aws["", "poll cost"]["words"])
        self.assertIn("lambda", {i["provider"] for i in run["items"]})
        metrics = w.ask("GET", "/metrics")[1]
        self.assertIn("spot_doctor_items{state=\"ok\"}", metrics)
        self.assertIn("spot_poll_requests_per_day{provider=\"aws\"}", metrics)
        for i in run["items"]:
            self.assertTrue(i["words"] and (i["fix"] or i["state"] in ("ok", "untested")), i)
        self.assertEqual(len(w.instances()), before)
        install = w.api("GET", "/v1/version")["install"]
        self.assertEqual(w.get_object("checkpoints/%s/doctor/%s" % ( install, run["id"]))[0], 404)
        table = w.spotctl("doctor", "aws")
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertEqual(table.stdout.splitlines()[0].split("\t"), ["PROVIDER", "REGION", "CHECK", "STATE", "SEEN", "FIX"])
        self.assertEqual({line.split("\t")[0] for line in table.stdout.splitlines()[1:]}, {"aws", "spotd"})

    def test_a_name_that_nobody_has_is_bad(self):
        code, run = self.examine("awz")
        self.assertEqual((code, by_name(run, "awz")["", "configured"]["state"]), (1, "bad"))
        self.assertIn("[provider NAME]", by_name(run, "awz")["", "configured"]["fix"])

    def test_a_store_that_refuses_is_told_from_one_that_works(self):
        w = self.world
        w.sim("POST", "/fault", {"match": {"service": "s3", "key": "*doctor*"}, "kind": "status", "status": 403, "code": "AccessDenied", "count": 1})
        code, run = self.examine("spotd")
        put = by_name(run, "spotd")["", "store PUT"]
        self.assertEqual((code, put["state"]), (1, "bad"), run)
        self.assertIn("403", put["words"])
        self.assertIn("deploy/iam", put["fix"])
        code, run = self.examine("spotd")
        self.assertEqual((code, by_name(run, "spotd")["", "store PUT"]["state"]), (0, "ok"))

    def test_who_may_ask(self):
        w = self.world
        token = w.ctl_json("token", "create", "watcher", "--role", "viewer")["token"]
        status, reply = w.ask("POST", "/v1/doctor", {}, headers={"Authorization": "Bearer " + token})
        self.assertEqual((status, reply["code"]), (403, "denied"))
        run = w.api("POST", "/v1/doctor", {"providers": ["spotd"]}, headers={"Idempotency-Key": "once"})
        self.assertEqual(w.api("POST", "/v1/doctor", {"providers": ["spotd"]}, headers={"Idempotency-Key": "once"})["id"], run["id"])
        self.assertEqual(w.ask("GET", "/v1/doctor/" + run["id"], headers={"Authorization": "Bearer " + token})[0], 200)
        self.assertEqual(w.ask("POST", "/v1/doctor", {"providers": ["a b"]})[0], 400)
        self.assertEqual(w.ask("GET", "/v1/doctor/r999999")[0], 404)


class BadKey(e2e.Case):
    SECRET = "wrongSecretWrongSecretWrongSecretWrong12"
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def test_a_bad_key_is_bad_with_words_and_never_shown(self):
        w = self.world
        w.private_file("aws-credentials", "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n" % (w.keys[0], self.SECRET))
        w.stop_daemon()
        w.start_daemon()
        p = w.spotctl("doctor", "-o", "json")
        self.assertEqual(p.returncode, 1, p.stderr)
        run = json.loads(p.stdout)
        account = by_name(run, "aws")["", "account"]
        self.assertEqual(account["state"], "bad", account)
        self.assertIn("credentials", account["fix"])
        self.assertEqual(by_name(run, "aws")["", "reachable"]["state"], "ok")
        table = w.spotctl("doctor")
        for text in (p.stdout, p.stderr, table.stdout, table.stderr, w.log()):
            self.assertNotIn(self.SECRET, text)
        self.assertIn("bad", table.stderr)


if __name__ == "__main__":
    e2e.main()
