"""Named malformed inputs: each is answered 4xx with a problem document, none 5xx, and memory stays flat."""
import json
import os
import unittest
import lib

A = lib.Apid()
FLEET = {"name": "f", "nodes": 1, "resources": {"accelerators": "V100:1"}}
DEEP = 5000


def job(**over):
    d = {"name": "x", "run": "y", "resources": {"accelerators": "V100:1"}}
    d.update(over)
    return json.dumps({k: v for k, v in d.items() if v is not ...})


def res(**over):
    return job(resources=over)


def our_config(**over):
    return job(config={"spotctl": over})


# name, body as text or bytes
JOB_FILES = [
    ("empty", ""), ("blank", "   \n"), ("a scalar", "hello"), ("a number", "42"), ("a list", "- a\n- b\n"), ("null", "null"),
    ("only a comment", "# nothing\n"), ("unclosed brace", '{"name": "x"'), ("unclosed quote", 'name: "x\n'),
    ("unclosed bracket", "name: [a\n"), ("tab indentation", "name: x\nresources:\n\taccelerators: V100\n"),
    ("bad indentation", "name: x\n run: y\n"), ("mapping in a scalar", "name: x: y: z\n"), ("duplicate key", "name: x\nname: y\nrun: z\n"),
    ("duplicate key in JSON", '{"name": "x", "name": "y", "run": "z"}'), ("anchor", "name: &a x\nrun: y\n"),
    ("alias", "name: *a\nrun: y\n"), ("tag", "name: !!python/object:os.system x\nrun: y\n"), ("merge key", "<<: {name: x}\nrun: y\n"),
    ("billion laughs", "a: &a [x,x]\nb: &b [*a,*a]\nrun: y\n"), ("deep list", "name: " + "[" * DEEP + "\n"),
    ("deep list in JSON", '{"name": ' + "[" * DEEP + "]" * DEEP + "}"), ("deep mapping", "".join("%sa:\n" % (" " * i) for i in range(60))),
    ("not UTF-8", b"name: \xff\xfe\nrun: y\n"), ("UTF-16", "name: x\nrun: y\n".encode("utf-16")), ("NUL byte", b"name: x\x00y\nrun: y\n"),
    ("lone surrogate", b'{"name": "\xed\xa0\x80", "run": "y"}'), ("control character", b"name: x\x01\nrun: y\n"),
    ("unknown key", job(frobnicate=1)), ("unknown key in resources", res(accelerator="V100")), ("unknown key of ours", our_config(teem="x")),
    ("key of wrong case", job(Name="x")), ("name is a list", job(name=[1])), ("name is a mapping", job(name={"a": 1})),
    ("name too long", job(name="x" * 1000)), ("name with a newline", job(name="a\nb")), ("run is a list", job(run=[1, 2])),
    ("run missing", job(run=...)), ("resources is a list", job(resources=[1])), ("resources is text", job(resources="V100")),
    ("negative count", res(accelerators="V100:-1")), ("zero count", res(accelerators="V100:0")), ("count not a number", res(accelerators="V100:x")),
    ("huge count", res(accelerators="V100:99999999999999999999")), 
    ("accelerators empty", res(accelerators="")), ("count without a GPU", res(accelerators=":8")), ("use_spot text", res(accelerators="V100:1", use_spot="maybe")),
    ("infra nonsense", res(infra="///")), ("cpus text", res(accelerators="V100:1", cpus="many")), ("memory negative", res(accelerators="V100:1", memory=-5)),
    ("any_of a scalar", res(any_of=5)), ("num_nodes 257", job(num_nodes=257)), ("num_nodes zero", job(num_nodes=0)),
    ("num_nodes text", job(num_nodes="one")), ("envs a list", job(envs=[1])), ("env with a bad name", job(envs={"A B": "x"})),
    ("env with an empty name", job(envs={"": "x"})), ("secrets text", job(secrets="x")), ("mount of nothing", job(file_mounts={"/a": 5})),
    ("deadline nonsense", our_config(deadline="soonish")), ("deadline long past", our_config(deadline="2001-01-01T00:00:00Z")),
    ("budget negative", our_config(budget=-5, checkpoint={"path": "c"})), ("budget of nothing", our_config(budget=0, checkpoint={"path": "c"})),
    ("budget in words", our_config(budget="little", checkpoint={"path": "c"})), ("budget a list", our_config(budget=[5], checkpoint={"path": "c"})), ("budget without a checkpoint", our_config(budget=5)), ("class unknown", our_config(**{"class": "nonsense"})), ("checkpoint text", our_config(checkpoint="x")),
    ("checkpoint interval negative", our_config(checkpoint={"path": "c", "interval": "-5s"})), ("checkpoint path climbs", our_config(checkpoint={"path": "../../etc"})),
    ("checkpoint signal unknown", our_config(checkpoint={"path": "c", "signal": "BOOM"})), ("interruptible text", our_config(interruptible="perhaps")),
    ("config of ours a list", job(config={"spotctl": []})), ("max_duration nonsense", our_config(max_duration="forever and a day")),
    ("two documents", "name: a\nrun: b\n---\nname: c\nrun: d\n"), ("more than a mebibyte", "name: x\nrun: y\n#" + "x" * (1 << 20)),
]
# name, method, path, body (dict = JSON, bytes raw), headers
REQUESTS = [
    ("fleet empty", "POST", "/v1/fleets", b""), ("fleet not JSON", "POST", "/v1/fleets", b"{"), ("fleet a list", "POST", "/v1/fleets", b"[]"),
    ("fleet without size", "POST", "/v1/fleets", {"name": "f", "resources": FLEET["resources"]}),
    ("fleet with both sizes", "POST", "/v1/fleets", dict(FLEET, gpus=8)), ("fleet without name", "POST", "/v1/fleets", {"nodes": 1}),
    ("fleet with negative size", "POST", "/v1/fleets", dict(FLEET, nodes=-1)), ("fleet with text size", "POST", "/v1/fleets", dict(FLEET, nodes="x")),
    ("fleet with unknown member", "POST", "/v1/fleets", dict(FLEET, colour="red")), ("fleet with bad limits", "POST", "/v1/fleets", dict(FLEET, limits=5)),
    ("fleet name too long", "POST", "/v1/fleets", dict(FLEET, name="x" * 100)),
    ("patch empty", "PATCH", "/v1/fleets/f1", b""), ("patch nothing", "PATCH", "/v1/fleets/f1", {}), ("patch both", "PATCH", "/v1/fleets/f1", {"nodes": 1, "gpus": 1}),
    ("patch text", "PATCH", "/v1/fleets/f1", {"nodes": "1"}), ("patch float", "PATCH", "/v1/fleets/f1", {"nodes": 1.5}), ("patch negative", "PATCH", "/v1/fleets/f1", {"nodes": -1}),
    ("patch null", "PATCH", "/v1/fleets/f1", {"nodes": None}), ("patch unknown", "PATCH", "/v1/fleets/f1", {"size": 1}), ("patch too many", "PATCH", "/v1/fleets/f1", {"nodes": 10**9}),
    ("patch with a bad ETag", "PATCH", "/v1/fleets/f1", {"nodes": 1}, {"If-Match": "v1"}), ("patch with a weak ETag", "PATCH", "/v1/fleets/f1", {"nodes": 1}, {"If-Match": 'W/"v1"'}),
    ("job patch empty", "PATCH", "/v1/jobs/j1", b""), ("job patch nothing", "PATCH", "/v1/jobs/j1", {}), ("job patch a list", "PATCH", "/v1/jobs/j1", []),
    ("job patch unknown", "PATCH", "/v1/jobs/j1", {"budget": 5}), ("job patch more", "PATCH", "/v1/jobs/j1", {"budget_usd": 5, "x": 1}),
    ("budget zero", "PATCH", "/v1/jobs/j1", {"budget_usd": 0}), ("budget below zero", "PATCH", "/v1/jobs/j1", {"budget_usd": -0.5}), ("budget a word", "PATCH", "/v1/jobs/j1", {"budget_usd": "none"}),
    ("budget true", "PATCH", "/v1/jobs/j1", {"budget_usd": True}), ("budget a mapping", "PATCH", "/v1/jobs/j1", {"budget_usd": {}}), ("budget too much", "PATCH", "/v1/jobs/j1", {"budget_usd": 1e18}),
    ("budget too small", "PATCH", "/v1/jobs/j1", {"budget_usd": 1e-9}), ("budget in digits of another kind", "PATCH", "/v1/jobs/j1", {"budget_usd": "1e3"}), ("budget with a blank", "PATCH", "/v1/jobs/j1", {"budget_usd": " 5"}),
    ("budget of no job", "PATCH", "/v1/jobs/j99999999", {"budget_usd": 5}),
    ("token empty", "POST", "/v1/tokens", {}), ("token role unknown", "POST", "/v1/tokens", {"name": "a", "role": "king"}), ("token name empty", "POST", "/v1/tokens", {"name": "", "role": "viewer"}),
    ("token name a number", "POST", "/v1/tokens", {"name": 5, "role": "viewer"}), ("token life negative", "POST", "/v1/tokens", {"name": "a", "role": "viewer", "expires_s": -1}),
    ("token life huge", "POST", "/v1/tokens", {"name": "a", "role": "viewer", "expires_s": 2**62}), ("token member unknown", "POST", "/v1/tokens", {"name": "a", "role": "viewer", "x": 1}),
    ("token as YAML", "POST", "/v1/tokens", b"name: a\nrole: viewer\n"), ("token of another type", "POST", "/v1/tokens", b"{}", {"Content-Type": "text/xml"}),
    ("JSON with a trailing comma", "POST", "/v1/rebalance", b'{"dry_run": true,}'), ("JSON with a comment", "POST", "/v1/rebalance", b'{} // x'),
    ("JSON twice", "POST", "/v1/rebalance", b"{}{}"), ("JSON with a duplicate key", "POST", "/v1/rebalance", b'{"dry_run":true,"dry_run":false}'),
    ("JSON deep", "POST", "/v1/rebalance", b"[" * 30000), ("JSON with NaN", "POST", "/v1/rebalance", b'{"dry_run": NaN}'), ("JSON number too large", "POST", "/v1/rebalance", b'{"dry_run": 1e999}'),
    ("JSON not UTF-8", "POST", "/v1/rebalance", b'{"dry_run": "\xff"}'), ("JSON with an escaped NUL", "POST", "/v1/tokens", b'{"name":"a\\u0000b","role":"viewer"}'),
    ("JSON bare word", "POST", "/v1/rebalance", b"yes"), ("JSON single quotes", "POST", "/v1/rebalance", b"{'dry_run': true}"), ("dry_run text", "POST", "/v1/rebalance", {"dry_run": "yes"}),
    ("dry_run number", "POST", "/v1/rebalance", {"dry_run": 1}), ("body over the cap", "POST", "/v1/rebalance", b" " * (65 * 1024)),
    ("job file as a form", "POST", "/v1/jobs", b"name=x", {"Content-Type": "application/x-www-form-urlencoded"}),
    ("job file as multipart", "POST", "/v1/jobs", b"x", {"Content-Type": "multipart/form-data; boundary=x"}),
    ("empty idempotency key", "POST", "/v1/jobs", lib.JOB.encode(), {"Idempotency-Key": "", "Content-Type": "application/yaml"}),
    ("long idempotency key", "POST", "/v1/jobs", lib.JOB.encode(), {"Idempotency-Key": "k" * 129, "Content-Type": "application/yaml"}),
    ("idempotency key with a space", "POST", "/v1/jobs", lib.JOB.encode(), {"Idempotency-Key": "a b", "Content-Type": "application/yaml"}),
    ("enrol empty", "POST", "/v1/agent/enrol", {}), ("enrol token a number", "POST", "/v1/agent/enrol", {"token": 5, "boot_id": "b"}),
    ("enrol without a boot id", "POST", "/v1/agent/enrol", {"token": "x"}), ("enrol boot id empty", "POST", "/v1/agent/enrol", {"token": "x", "boot_id": ""}),
    ("enrol hw a list", "POST", "/v1/agent/enrol", {"token": "x", "boot_id": "b", "hw": []}), ("enrol node nonsense", "POST", "/v1/agent/enrol", {"token": "x", "boot_id": "b", "node": "x"}),
]
QUERIES = [
    "/v1/jobs?limit=0", "/v1/jobs?limit=1001", "/v1/jobs?limit=x", "/v1/jobs?limit=1&limit=2", "/v1/jobs?limit=-1", "/v1/jobs?limit=1e2", "/v1/jobs?cursor=x",
    "/v1/jobs?cursor=-1", "/v1/jobs?state=NOPE", "/v1/jobs?state=RUNNING,", "/v1/jobs?state=,", "/v1/jobs?colour=red", "/v1/jobs?name=%zz", "/v1/jobs?name=%",
    "/v1/jobs?name=%ff", "/v1/jobs?name=%00", "/v1/jobs?", "/v1/jobs?=", "/v1/jobs?&&", "/v1/jobs?state=" + "RUNNING," * 40 + "RUNNING", "/v1/jobs/j1?wait_state=nope",
    "/v1/jobs/j1?timeout_s=301", "/v1/jobs/j1?timeout_s=-1", "/v1/jobs/j1/logs?offset=-1", "/v1/jobs/j1/logs?epoch=x", "/v1/jobs/j1/logs?follow_s=61",
    "/v1/jobs/j1/logs?offset=99999999999999999999", "/v1/prices?market=bazaar", "/v1/prices?state=old", "/v1/prices?max_usd=cheap", "/v1/prices?max_usd=-1",
    "/v1/prices?max_usd=1e3", "/v1/prices?cursor=5", "/v1/prices?cursor=-5", "/v1/prices?cursor=5-x", "/v1/prices?cursor=99999999999999999999-1", "/v1/pools?cursor=99999999999",
    "/v1/pools/p1?history=x", "/v1/pools/p1?history=0s", "/v1/pools/p1?history=-1d", "/v1/pools/p1?history=401d", "/v1/pools/p99999999999", "/v1/nodes?state=UP",
    "/v1/nodes?job=n1", "/v1/nodes?fleet=x", "/v1/cost?by=colour", "/v1/cost?by=team,", "/v1/cost?since=yesterday", "/v1/cost?until=2026-13-01T00:00:00Z", "/v1/events?after=x",
    "/v1/events?limit=0", "/v1/events?job=x", "/v1/rebalance/d1?timeout_s=121", "/v1/rebalance/x", "/v1/jobs/j1?x=%", "/v1/fleets?state=OPEN", "/v1/tokens?cursor=x", "/v1/quotas?zone=a",
    "/healthz?x=1", "/v1/jobs/%6a1", "/v1/jobs/j1%00", "/v1/jobs/..%2fjobs", "/v1/%6aobs",
]
OK_QUERIES = {"/v1/jobs?"}


def rss_kib():
    with open("/proc/%d/status" % A.proc.pid) as f:
        return int([l for l in f if l.startswith("VmRSS")][0].split()[1])


class Malformed(unittest.TestCase):
    def refused(self, name, got):
        status, doc, h = got
        self.assertTrue(400 <= status < 500, "%s: %d %r" % (name, status, doc))
        self.assertEqual(h["content-type"], "application/problem+json", name)
        self.assertTrue(doc["detail"], name)

    def test_job_files(self):
        self.assertGreaterEqual(len(JOB_FILES), 60)
        for name, body in JOB_FILES:
            for path in ("/v1/jobs", "/v1/plan"):
                with self.subTest(name, path=path):
                    self.refused(name, A.call("POST", path, body))
        self.assertEqual(A.sql("SELECT count(*) FROM job"), "0")

    def test_requests(self):
        self.assertGreaterEqual(len(REQUESTS), 50)
        for name, method, path, body, *more in REQUESTS:
            with self.subTest(name):
                headers = dict(more[0]) if more else {}
                if isinstance(body, bytes):
                    headers.setdefault("Content-Type", "application/json")
                self.refused(name, A.call(method, path, body, headers=headers))

    def test_queries(self):
        for path in QUERIES:
            with self.subTest(path):
                got = A.call("GET", path)
                self.assertLess(got[0], 500)
                if path not in OK_QUERIES:
                    self.refused(path, got)

    def test_agents_requests(self):
        node, token = A.node(A.pool())
        s = A.enrol(node, token)["session"]
        j = {"job": "j1", "epoch": 1}
        cases = [("poll", {}), ("poll", {"have": 1}), ("poll", {"have": {"job": 5}}), ("poll", {"have": {"job": "x"}}), ("poll", {"have": {}, "hold_ms": -1}),
                 ("poll", {"have": {}, "hold_ms": 10**9}), ("poll", {"have": {}, "steps_done": "x"}), ("notice", {}), ("notice", {"kind": "earthquake"}),
                 ("notice", {"kind": "interruption", "deadline_us": -1}), ("notice", {"kind": "interruption", "deadline_us": "now"}),
                 ("notice", {"kind": "interruption", "raw": "x" * 5000}), ("report", {}), ("report", dict(j, phase="DANCING")), ("report", dict(j, phase="EXITED")),
                 ("report", dict(j, phase="EXITED", reason="bored")), ("report", dict(j, phase="RUNNING", reason="ok")), ("report", dict(j, phase="RUNNING", epoch=0)),
                 ("report", dict(j, phase="RUNNING", epoch="1")), ("report", dict(j, phase="RUNNING", job=1)), ("report", dict(j, phase="RUNNING", steps_done=1.5)),
                 ("report", dict(j, phase="RUNNING", epoch=2**40)), ("commit", j), ("commit", dict(j, checkpoint="x")), ("commit", dict(j, checkpoint=5)),
                 ("checkpoint", j), ("checkpoint", dict(j, chunks=[5], reason="final")), ("sample", {"gpus": "x"}), ("sample", [])]
        for what, body in cases:
            with self.subTest(what, body=body):
                self.refused(what, A.call("POST", "/v1/agent/" + what, body, token=s))
        for q in ("", "?job=j1", "?job=j1&epoch=1", "?job=x&epoch=1&offset=0", "?job=j1&epoch=0&offset=0", "?job=j1&epoch=1&offset=-1"):
            self.refused(q, A.call("POST", "/v1/agent/log" + q, b"x", token=s))

    def test_memory_stays_flat(self):
        with open("/proc/%d/maps" % A.proc.pid) as f:
            if "libasan" in f.read():
                self.skipTest("a sanitizer keeps freed memory")
        def round():
            for name, body in JOB_FILES:
                A.call("POST", "/v1/plan", body)
        for _ in range(3):
            round()
        before = rss_kib()
        for _ in range(10):
            round()
        self.assertLess(rss_kib() - before, 4096)


if __name__ == "__main__":
    lib.main()
