"""The document describes the served API: every route, closed references, and success replies of all."""
import glob
import os
import re
import unittest
import lib

A = lib.Apid()
SRC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "src", "api", "*", "*.c")


class Document(unittest.TestCase):
    def routes(self):
        found = set()
        for path in glob.glob(SRC):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            found |= set(re.findall(r'ROUTE\("(\w+)", "([^"]+)"', text))
            found |= {("POST", p) for p in re.findall(r'ROUTE_(?:CREATE|CLAIM)\("([^"]+)"', text)}
            found |= {("GET", p) for p in re.findall(r'ROUTE_READ\("([^"]+)"', text)}
            found |= set(re.findall(r'\.method = "(\w+)",\s*\.path = "([^"]+)"', text))
        return found

    def test_every_route_is_in_the_document_and_nothing_else(self):
        have = {(m.upper(), p) for p, item in A.doc["paths"].items() for m in item}
        self.assertEqual(have, self.routes())
        self.assertGreaterEqual(len(have), 40)

    def test_references_are_closed_and_every_schema_is_used(self):
        used = set()

        def walk(x):
            if isinstance(x, dict):
                if "$ref" in x:
                    used.add(x["$ref"].rsplit("/", 1)[1])
                for v in x.values():
                    walk(v)
            elif isinstance(x, list):
                for v in x:
                    walk(v)
        walk(A.doc)
        self.assertEqual(used, set(A.doc["components"]["schemas"]))

    def test_every_operation_is_described(self):
        for path, item in A.doc["paths"].items():
            for method, op in item.items():
                self.assertTrue(op["summary"].endswith("."), path)
                self.assertRegex(op["description"], r"^Least role: .+\.$")
                for name in re.findall(r"\{(\w+)\}", path):
                    self.assertIn(name, [p["name"] for p in op["parameters"] if p["in"] == "path"])
                self.assertEqual("requestBody" in op and method in ("get", "delete"), False, path)

    def test_replies_that_have_a_tag_say_so(self):
        listed = A.doc["paths"]["/v1/jobs"]["get"]
        self.assertIn("304", listed["responses"])
        self.assertIn("ETag", listed["responses"]["200"]["headers"])
        self.assertIn("If-None-Match", [p["name"] for p in listed["parameters"]])
        self.assertNotIn("304", A.doc["paths"]["/v1/tokens"]["get"]["responses"])

    def test_undocumented_members_would_be_noticed(self):
        with self.assertRaises(AssertionError):
            A.valid({"name": "x", "role": "y", "team": "z", "more": 1}, {"$ref": "#/components/schemas/Whoami"}, "x")
        with self.assertRaises(AssertionError):
            A.valid({"name": "x", "role": "y"}, {"$ref": "#/components/schemas/Whoami"}, "x")
        with self.assertRaises(AssertionError):
            A.valid({"name": 1, "role": "y", "team": ""}, {"$ref": "#/components/schemas/Whoami"}, "x")

    def test_unknown_paths_and_methods(self):
        for path in ("/", "/v1", "/v1/", "/v1/jobs/", "/v1/jobs//", "/v2/jobs", "/v1/jobs/j1/nope", "/v1/jobs/j1/why/x", "/healthz/"):
            self.assertEqual(A.call("GET", path)[0], 404, path)
        s, p, h = A.call("PUT", "/v1/jobs")
        self.assertEqual((s, h["allow"]), (405, "POST, GET"))
        self.assertEqual(A.call("DELETE", "/v1/jobs/j1")[0], 405)

    def test_success_replies_of_every_route_are_valid(self):
        """One good call per route; lib.call holds each reply against its schema."""
        pool = A.pool()
        job = A.job()["id"]
        node, token = A.node(pool, "READY", ref="i-1")
        s = A.enrol(node, token)["session"]
        A.attempt(int(job[1:]), node, 1)
        A.sql("INSERT INTO provider (name, kind, state, updated_us) VALUES ('aws', 'aws', 'ok', 5)")
        A.sql("INSERT INTO price_refused VALUES (%d, 5, 1, 'test', 'too little')" % pool)
        fleet = A.call("POST", "/v1/fleets", {"name": "doc", "gpus": 8, "resources": {"accelerators": "V100:1"}}, expect=201)[1]["id"]
        A.call("POST", "/v1/fleets/plan", {"name": "doc", "gpus": 8, "resources": {"accelerators": "V100:1"}}, expect=200)
        reb = A.call("POST", "/v1/rebalance", {}, expect=202)[1]["id"]
        exam = A.call("POST", "/v1/doctor", {"providers": ["aws"], "consistency": False}, expect=202)[1]["id"]
        self.assertEqual(A.call("GET", "/v1/doctor/" + A.call("POST", "/v1/doctor", {"providers": ["aws"], "consistency": True}, expect=202)[1]["id"])[1]["providers"],
                         "consistency,aws")
        A.call("POST", "/v1/doctor", {"consistency": 1}, expect=400)
        A.sql("INSERT INTO doctor_item VALUES (%s, 'aws', '', 'account', 1, 'account', 'bad', 'refused', 'check the keys', NULL)" % exam[1:])
        tok = A.call("POST", "/v1/tokens", {"name": "doc", "role": "viewer"}, expect=201)[1]["id"]
        j1 = {"job": job, "epoch": 1}
        A.sql("INSERT INTO job_queue VALUES (%s, 1, 25, 1.5, 'first in the queue', 5)" % A.job()["id"][1:])
        A.call("PUT", "/v1/shares", {"team": "nlp", "weight": 2.5}, expect=200)
        A.sql("INSERT INTO team_share (team, file_pm) VALUES ('filed', 500)")
        A.call("PUT", "/v1/shares", {"team": "nlp", "weight": None}, expect=200)
        A.call("PUT", "/v1/shares", {"team": "nlp"}, expect=400)
        A.sql("INSERT INTO orphan (provider, region, ref, kind, first_us, last_us, why) VALUES ('aws', 'r', 'i-lost', 'instance', 5, 6, 'no row knows it')")
        said = A.call("POST", "/v1/leaks", {"ref": "i-lost", "act": "end"}, expect=200)[1]["items"][0]
        self.assertEqual(said["state"], "ending")  # the state shows the order before the sweep carries it out
        self.assertIn("its end was asked for by ", said["why"])
        self.assertEqual([[x["ref"] for x in A.call("GET", "/v1/leaks?state=" + s, expect=200)[1]["items"]] for s in ("found", "ending")], [[], ["i-lost"]])
        A.call("POST", "/v1/leaks", {"ref": "i-nobody", "act": "end"}, expect=404)
        A.call("POST", "/v1/leaks", {"ref": "i-lost", "act": "eat"}, expect=400)
        get = ["/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/v1/version", "/v1/whoami", "/v1/prices", "/v1/prices/refused", "/v1/prices/gpus", "/v1/pools",
               "/v1/pools/p%d?history=1d" % pool, "/v1/providers", "/v1/quotas", "/v1/supply", "/v1/classes", "/v1/gpus", "/v1/queue", "/v1/shares", "/v1/leaks", "/v1/leaks?state=found", "/v1/moves", "/v1/recovery", "/v1/jobs", "/v1/jobs/" + job, "/v1/jobs/%s/why" % job,
               "/v1/jobs/%s/logs" % job, "/v1/jobs/%s/cost" % job, "/v1/fleets", "/v1/fleets/" + fleet, "/v1/nodes", "/v1/nodes/n%d" % node,
               "/v1/rebalance/" + reb, "/v1/doctor/" + exam, "/v1/cost?by=job", "/v1/events", "/v1/tokens"]
        for path in get:
            self.assertEqual(A.call("GET", path)[0], 200, path)
        A.call("POST", "/v1/plan", lib.JOB, expect=200)
        A.pool(zone="bt", market="on_demand")
        self.assertIn("no price is recorded", A.call("POST", "/v1/backtest", lib.JOB, expect=409)[1]["detail"])
        A.sql("SELECT price_partitions_ensure(%d, %d)" % (lib.now() - lib.HOUR, lib.now() + lib.HOUR))
        A.sql("INSERT INTO price_point VALUES (%d, %d, %d, 500000, 'test')" % (pool, lib.now() - lib.HOUR, lib.now() - lib.HOUR))
        A.call("POST", "/v1/backtest", lib.JOB, expect=200)
        A.call("PATCH", "/v1/fleets/" + fleet, {"gpus": 16}, expect=200)
        A.call("DELETE", "/v1/fleets/" + fleet, expect=202)
        A.call("DELETE", "/v1/tokens/" + tok, expect=200)
        A.call("POST", "/v1/agent/poll", {"have": {"job": None}}, token=s, expect=200)
        A.call("POST", "/v1/agent/notice", {"kind": "rebalance"}, token=s, expect=200)
        A.call("POST", "/v1/agent/report", dict(j1, phase="RUNNING"), token=s, expect=200)
        c = A.call("POST", "/v1/agent/checkpoint", dict(j1, reason="periodic", chunks=[]), token=s, expect=200)[1]["checkpoint"]
        A.call("POST", "/v1/agent/commit", dict(j1, checkpoint=c), token=s, expect=200)
        self.assertEqual(A.call("GET", "/v1/checkpoints/" + c, expect=200)[1]["chunks"], [])
        A.call("POST", "/v1/agent/log?job=%s&epoch=1&offset=0" % job, b"x", token=s, expect=200)
        A.call("POST", "/v1/agent/sample", {"gpus": 0}, token=s, expect=200)
        A.call("POST", "/v1/nodes/n%d/drain" % node, expect=202)
        A.call("DELETE", "/v1/nodes/n%d" % node, expect=202)
        A.call("PATCH", "/v1/jobs/" + A.job(lib.JOB + "config: {spotctl: {budget: 5, checkpoint: {path: c}}}\n")["id"], {"budget_usd": 7.5}, expect=200)
        A.call("POST", "/v1/jobs/%s/cancel" % job, expect=202)
        missing = self.routes() - A.validated - {("GET", "/v1/agent/download/{file}")}
        self.assertEqual(missing, set())


if __name__ == "__main__":
    lib.main()
