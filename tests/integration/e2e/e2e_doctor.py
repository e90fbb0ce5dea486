#!/usr/bin/env python3
"""spotctl doctor: it names each problem with advice, and prints no secret."""
import glob
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402


def by_name(run, provider):
    return {(i["region"], i["name"]): i for i in run["items"] if i["provider"] == provider}


def psql():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/psql"))
    return found[-1] if found else shutil.which("psql") or sys.exit("psql is needed")


class Healthy(e2e.Case):
    OPTIONS = {"regions": "us-east-1,us-west-2"}

    def examine(self, *words):
        p = self.world.spotctl("doctor", *words, "-o", "json")
        return p.returncode, json.loads(p.stdout)

    def test_every_part_is_looked_at_and_nothing_is_created(self):
        w = self.world
        w.prices()
        before = len(w.instances())

        def fresh():  # a feed that was silent for a while, as a busy machine may have it, speaks again
            code, run = self.examine()
            return (code, run) if by_name(run, "aws")["", "prices"]["state"] == "ok" else None
        code, run = w.until("all prices are fresh", 60, fresh)
        self.assertEqual(run["state"], "done")
        own = by_name(run, "spotd")
        for name in ("database", "database clock", "spot-agent", "spot-nvml", "store PUT", "store GET", "store DELETE", "engine"):
            self.assertEqual(own["", name]["state"], "ok", own["", name])
        # The time of one statement is this machine's affair; the report of it is not.
        latency = own["", "database latency"]
        self.assertEqual(latency["state"], "ok" if float(latency["words"].split(" ms")[0]) < 50 else "warn", latency)
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

    def test_only_permitted_roles_may_ask(self):
        w = self.world
        token = w.ctl_json("token", "create", "watcher", "--role", "viewer")["token"]
        status, reply = w.ask("POST", "/v1/doctor", {}, headers={"Authorization": "Bearer " + token})
        self.assertEqual((status, reply["code"]), (403, "denied"))
        run = w.api("POST", "/v1/doctor", {"providers": ["spotd"]}, headers={"Idempotency-Key": "once"})
        self.assertEqual(w.api("POST", "/v1/doctor", {"providers": ["spotd"]}, headers={"Idempotency-Key": "once"})["id"], run["id"])
        self.assertEqual(w.ask("GET", "/v1/doctor/" + run["id"], headers={"Authorization": "Bearer " + token})[0], 200)
        self.assertEqual(w.ask("POST", "/v1/doctor", {"providers": ["a b"]})[0], 400)
        self.assertEqual(w.ask("GET", "/v1/doctor/r999999")[0], 404)


class Invariants(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}
    RULES = ["machines", "vouched", "outlived", "epochs", "checkpoints", "progress", "ledger time", "ledger amounts", "ledger reversals", "moving",
             "budget", "leaders", "orphans", "objects"]
    # Rows broken by SQL once everything is over, and the rules that must report them, with their words.
    BREAKS = [("DELETE FROM checkpoint_chunk WHERE checkpoint_id = (SELECT max(id) FROM checkpoint WHERE state = 'COMMITTED')", {"checkpoints": "0 of"}),
              ("UPDATE attempt SET steps_start = 0 WHERE epoch = 2", {"progress": "epoch 2 began at step 0"}),
              ("INSERT INTO ledger (at_us, kind, node_id, pool_id, market, from_us, to_us, price_micros, price_observed_us, amount_micros) SELECT at_us, "
               "kind, node_id, pool_id, market, from_us, to_us, price_micros, price_observed_us, amount_micros + 1 FROM ledger ORDER BY id LIMIT 1",
               {"ledger time": "us billed twice", "ledger amounts": "which makes"}),
              ("UPDATE job SET budget_micros = 1", {"budget": "of its 1 micro-dollars had been spent"}),
              ("INSERT INTO led VALUES (1000000, 0, 9000000000000000)", {"leaders": "epoch 1000000 led, and the lease is at"})]

    def sql(self, text):
        for root, _, names in os.walk(os.path.join(self.world.dir, "data")):
            if "postmaster.pid" in names:
                with open(os.path.join(root, "postmaster.pid"), encoding="utf-8") as f:
                    lines = f.read().splitlines()
                dsn = "host=%s port=%s dbname=spotbroker user=spotbroker" % (lines[4], lines[3])
        r = subprocess.run([psql(), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", dsn], input=text, capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)

    def examine(self, *words):
        p = self.world.spotctl("doctor", "--consistency", *words, "-o", "json")
        return p.returncode, {i["name"]: i for i in json.loads(p.stdout)["items"]}

    def all_hold(self, when):
        code, items = self.examine()
        self.assertEqual({n: i["words"] for n, i in items.items() if i["state"] != "ok"}, {}, when)
        self.assertEqual((code, list(items)), (0, self.RULES + ["engine"]))
        return items

    def objects_are_asked_for(self, job):
        """Rows are as they were; the store is not."""
        w = self.world
        piece = w.ask("GET", "/v1/checkpoints/" + job["checkpoint"]["id"])[1]["chunks"][0]
        key, body = piece["object_key"], w.store.get(piece["object_key"])[1]
        self.assertEqual(len(body), piece["bytes"])
        for change, words in ((lambda: w.store.put(key, body[1:]), "has %d of %d bytes" % (len(body) - 1, len(body))),
                              (lambda: w.store.ask("DELETE", "/%s/%s" % (w.store.bucket, key)), "is not there")):
            change()
            code, items = self.examine()
            self.assertEqual((code, {n for n, i in items.items() if i["state"] != "ok"}), (1, {"objects"}), items)
            self.assertIn("%s of %s: piece 0 of %s %s" % (job["checkpoint"]["id"], job["id"], piece["path"], words), items["objects"]["words"])
            self.assertTrue(items["objects"]["fix"] and items["objects"]["amount"] == 1, items["objects"])
        w.store.put(key, body)
        w.sim("POST", "/fault", {"match": {"service": "s3", "action": "HeadObject"}, "kind": "status", "status": 403, "code": "AccessDenied"})
        code, items = self.examine()
        self.assertEqual((code, items["objects"]["state"]), (0, "untested"), items)
        self.assertIn("were not told: HTTP 403", items["objects"]["words"])
        w.sim("DELETE", "/fault")
        self.all_hold("with its object again")

    def test_a_failover_keeps_them_and_each_that_is_broken_is_named(self):
        w = self.world
        job = w.submit(steps=w.paced(3000), step_ms=20, interval="2s")
        j = w.await_job(job, "a periodic checkpoint", 60, lambda j: j["checkpoint"])
        self.all_hold("while it runs")
        w.sim("POST", "/kill", {"instance": w.node(j["node"])["ref"]})
        w.await_attempt(job, 2)
        w.hurry()
        self.all_hold("after the loss of its node")
        self.assertEqual(w.await_end(job)["state"], "SUCCEEDED")
        w.await_gone()
        items = self.all_hold("at the end")
        for name in ("checkpoints", "progress", "ledger time", "ledger amounts", "leaders", "objects"):
            self.assertNotIn(": 0 looked at", items[name]["words"], items[name])
        self.objects_are_asked_for(w.job(job))
        wrong = {}
        for text, rules in self.BREAKS:
            self.sql(text)
            wrong.update(rules)
            code, items = self.examine()
            self.assertEqual((code, {n for n, i in items.items() if i["state"] == "bad"}), (1, set(wrong)), items)
            for name, words in wrong.items():
                self.assertIn(words, items[name]["words"])
                self.assertTrue(items[name]["fix"] and items[name]["amount"] > 0, items[name])
        self.assertIn("leaders", w.spotctl("doctor", "--consistency").stdout)
        # Beside providers, when they are named; and not unless it is asked for.
        both = self.examine("aws")[1]
        self.assertTrue({"reachable", "leaders"} <= set(both), both)
        self.assertNotIn("leaders", {i["name"] for i in json.loads(w.spotctl("doctor", "spotd", "-o", "json").stdout)["items"]})
        self.assertEqual(w.ask("POST", "/v1/doctor", {"consistency": "yes"})[0], 400)


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
