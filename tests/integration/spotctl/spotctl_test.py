#!/usr/bin/env python3
"""spotctl, the real binary, against a scripted daemon: what it sends, what it shows, how it exits.

usage: spotctl_test.py SPOTCTL [unittest arguments]
"""

import csv
import io
import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from spotctl_fake import FakeDaemon, Reply, problem

SPOTCTL = None
POOL = {"id": "p44", "provider": "aws", "region": "us-east-1", "zone": "use1-az4", "zone_name": "us-east-1a",
        "instance_type": "g5.xlarge", "market": "spot", "gpu": "A10G", "gpus": 1, "gpu_mem_mib": 24576, "vcpus": 4,
        "mem_mib": 16384, "arch": "x86_64", "price_micros": 412300, "price_usd": 0.4123, "price_per_gpu_micros": 412300,
        "price_state": "fresh", "price_why": "", "observed_at": "2026-01-01T00:00:00Z", "age_s": 65,
        "effective_at": "2026-01-01T00:00:00Z", "source": "DescribeSpotPriceHistory"}
JOB = {"id": "j12", "name": "train", "state": "RUNNING", "owner": "ann", "team": "nlp", "project": "llama",
       "class": "training", "epoch": 2, "created_at": "2026-01-01T00:00:00Z", "steps_done": 30, "steps_total": 600,
       "why": "step 30", "pool": POOL, "node": "n7", "market": "spot", "attempts": 2, "interruptions": 1,
       "cost_micros": 1234567, "cost_usd": 1.234567,
       "checkpoint": {"id": "c9", "steps": 25, "bytes": 1000, "committed_at": "2026-01-01T00:10:00Z"}}
NODE = {"id": "n7", "state": "READY", "pool": POOL, "job": "j12", "fleet": "f3", "ref": "i-1", "price_micros": 412300,
        "created_at": "2026-01-01T00:00:00Z", "last_seen_at": None, "notice": None, "cost_micros": 5, "end_cause": "",
        "why": "", "last_error": "", "notices": [], "attempts": [], "events": []}
FLEET = {"id": "f3", "name": "big", "state": "ACTIVE", "spec": {"nodes": 8}, "nodes_live": 2, "nodes_ready": 1, "pools": 2,
         "cost_micros": 99, "created_at": "2026-01-01T00:00:00Z", "owner": "ann", "team": "nlp", "project": "", "why": "",
         "nodes": [NODE]}


def page(items, after=None):
    return Reply(body={"items": items, "next": after})


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.daemon = FakeDaemon().__enter__()
        self.token_file = os.path.join(self.home.name, "token")
        self.write(self.token_file, "secret-token-123\n", 0o600)

    def tearDown(self):
        self.daemon.__exit__()
        self.home.cleanup()

    def write(self, path, text, mode=0o644):
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def file(self, text, name="file.yaml"):
        return self.write(os.path.join(self.home.name, name), text)

    def env(self, **more):
        env = {"HOME": self.home.name, "PATH": os.environ["PATH"], "SPOTCTL_URL": self.daemon.url,
               "SPOTCTL_TOKEN_FILE": self.token_file}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def run_it(self, *words, stdin="", env=None, code=0):
        p = subprocess.run([SPOTCTL, *words], input=stdin, capture_output=True, text=True, timeout=60,
                           env=env or self.env())
        self.assertEqual(p.returncode, code, "%s\nstdout: %s\nstderr: %s" % (words, p.stdout, p.stderr))
        return p

    def only_request(self):
        self.assertEqual(len(self.daemon.requests), 1, [(r.method, r.path) for r in self.daemon.requests])
        return self.daemon.requests[0]

    def rows(self, text):
        return [line.split("\t") for line in text.splitlines()]


class Requests(Case):
    """Every command: method, path, query, body, and the headers that make it safe."""

    def check(self, words, method, path, reply, query="", body=None, requests=1):
        self.daemon.on(method, path, reply)
        p = self.run_it(*words)
        r = self.daemon.requests[0]
        self.assertEqual((r.method, r.path, r.query), (method, path, query))
        self.assertEqual(r.headers["Authorization"], "Bearer secret-token-123")
        if body is not None:
            self.assertEqual(r.body.decode(), body)
        if method == "POST":
            self.assertRegex(r.headers["Idempotency-Key"], "^[0-9a-f]{32}$")
        else:
            self.assertIsNone(r.headers["Idempotency-Key"])
        self.assertEqual(len(self.daemon.requests), requests)
        return p

    def test_prices_with_every_filter(self):
        self.check(["prices", "-g", "A100", "--provider=aws", "-r", "us-east-1", "--zone", "z", "-tg5.xlarge", "-m", "spot",
                    "--state", "fresh", "--max", "2.5", "-n", "7"], "GET", "/v1/prices", page([POOL]),
                   "gpu=A100&provider=aws&region=us-east-1&zone=z&instance_type=g5.xlarge&market=spot&state=fresh&max_usd=2.5&limit=7")

    def test_pools(self):
        self.check(["pools"], "GET", "/v1/pools", page([POOL]), "limit=100")

    def test_pool_show_asks_for_a_week_of_prices(self):
        self.check(["pools", "show", "p44"], "GET", "/v1/pools/p44", Reply(body={**POOL, "history": []}), "history=7d")

    def test_providers(self):
        self.check(["providers"], "GET", "/v1/providers", page([{"name": "aws", "kind": "aws", "state": "ok"}]))

    def test_quota(self):
        self.check(["quota", "--provider", "aws"], "GET", "/v1/quotas", page([]), "provider=aws")

    def test_plan_sends_the_file(self):
        f = self.file("run: x\n")
        self.check(["plan", f], "POST", "/v1/plan", Reply(body={"offers": [{"pool": POOL, "chosen": True}], "refused": []}),
                   body="run: x\n")
        self.assertEqual(self.daemon.requests[0].headers["Content-Type"], "application/yaml")

    def test_job_submit_from_a_file(self):
        f = self.file("run: x\n")
        p = self.check(["job", "submit", f], "POST", "/v1/jobs", Reply(201, {**JOB, "state": "QUEUED"}), body="run: x\n")
        self.assertEqual(p.stdout, "j12\n")

    def test_job_submit_with_a_key_of_ones_own_from_standard_input(self):
        self.daemon.on("POST", "/v1/jobs", Reply(201, JOB))
        self.run_it("job", "submit", "-", "--key", "nightly-1", stdin="run: y\n")
        r = self.only_request()
        self.assertEqual((r.headers["Idempotency-Key"], r.body), ("nightly-1", b"run: y\n"))

    def test_job_ls_with_every_filter(self):
        self.check(["job", "ls", "-s", "active", "--team", "a&b", "--project", "p", "--class", "eval", "-u", "ann", "--name", "ü"],
                   "GET", "/v1/jobs", page([JOB]),
                   "state=active&team=a%26b&project=p&class=eval&owner=ann&name=%C3%BC&limit=100")

    def test_job_show(self):
        self.check(["job", "show", "j12"], "GET", "/v1/jobs/j12", Reply(body=JOB))

    def test_job_why(self):
        for words in (["job", "why", "j12"], ["job", "show", "j12", "--why"]):
            self.daemon.requests.clear()
            self.check(words, "GET", "/v1/jobs/j12/why", Reply(body={"decisions": [], "events": []}))

    def test_job_cancel_of_several(self):
        self.daemon.on("POST", "/v1/jobs/j1/cancel", Reply(202, JOB))
        self.daemon.on("POST", "/v1/jobs/j2/cancel", Reply(202, JOB))
        self.run_it("job", "cancel", "j1", "j2")
        self.assertEqual([r.path for r in self.daemon.requests], ["/v1/jobs/j1/cancel", "/v1/jobs/j2/cancel"])
        self.assertEqual(len({r.headers["Idempotency-Key"] for r in self.daemon.requests}), 2)

    def test_fleet_create(self):
        f = self.file("name: big\nnodes: 8\n")
        self.check(["fleet", "create", f], "POST", "/v1/fleets", Reply(201, FLEET), body="name: big\nnodes: 8\n")

    def test_fleet_ls(self):
        self.check(["fleet", "ls", "--state", "ACTIVE"], "GET", "/v1/fleets", page([FLEET]), "state=ACTIVE&limit=100")

    def test_fleet_show(self):
        self.check(["fleet", "show", "f3"], "GET", "/v1/fleets/f3", Reply(body=FLEET))

    def test_fleet_scale(self):
        self.check(["fleet", "scale", "f3", "--nodes", "4"], "PATCH", "/v1/fleets/f3", Reply(body=FLEET), body='{"nodes":4}')
        self.assertEqual(self.daemon.requests[0].headers["If-Match"], "*")

    def test_fleet_rm(self):
        self.check(["fleet", "rm", "f3"], "DELETE", "/v1/fleets/f3", Reply(202, FLEET))

    def test_node_ls_shows_the_living_unless_asked(self):
        self.check(["node", "ls", "-j", "j12"], "GET", "/v1/nodes", page([NODE]), "state=live&job=j12&limit=100")
        self.daemon.requests.clear()
        self.check(["node", "ls", "--all"], "GET", "/v1/nodes", page([NODE]), "limit=100")
        self.daemon.requests.clear()
        self.check(["node", "ls", "-s", "GONE"], "GET", "/v1/nodes", page([NODE]), "state=GONE&limit=100")

    def test_node_show(self):
        self.check(["node", "show", "n7"], "GET", "/v1/nodes/n7", Reply(body=NODE))

    def test_node_drain(self):
        self.check(["node", "drain", "n7"], "POST", "/v1/nodes/n7/drain", Reply(202, NODE))

    def test_node_rm(self):
        self.check(["node", "rm", "n7"], "DELETE", "/v1/nodes/n7", Reply(202, NODE))
        self.daemon.requests.clear()
        self.check(["node", "rm", "n7", "--force"], "DELETE", "/v1/nodes/n7", Reply(202, NODE), "force=1")

    def test_rebalance_waits_for_the_outcome(self):
        move = {"job": "j12", "from": POOL, "to": {**POOL, "provider": "lambda", "zone": ""}, "saving_micros": 1000000,
                "cost_micros": 20000, "why": "cheaper", "done": False}
        self.daemon.on("POST", "/v1/rebalance", Reply(202, {"id": "d5", "state": "pending"}))
        self.daemon.on("GET", "/v1/rebalance/d5", Reply(body={"id": "d5", "state": "pending"}), Reply(503, {}),
                       Reply(body={"id": "d5", "state": "done", "moves": [move], "kept": []}))
        p = self.run_it("rebalance", "--dry-run")
        self.assertEqual(json.loads(self.daemon.requests[0].body), {"dry_run": True})
        self.assertRegex(self.daemon.requests[1].query, "^timeout_s=20$")
        self.assertEqual(self.rows(p.stdout)[1][:4], ["j12", "aws/use1-az4", "g5.xlarge", "lambda/us-east-1"])
        self.assertIn("nothing was moved", p.stderr)

    def test_rebalance_that_nobody_answers(self):
        self.daemon.on("POST", "/v1/rebalance", Reply(202, {"id": "d5", "state": "pending"}))
        self.daemon.on("GET", "/v1/rebalance/d5", Reply(body={"id": "d5", "state": "pending"}))
        self.assertIn("is an engine running", self.run_it("rebalance", "--timeout", "1", code=6).stderr)

    def test_cost_by_dimensions(self):
        row = {"team": "nlp", "gpu": "A10G", "compute_micros": 1000000, "boot_micros": 0, "idle_micros": 500000,
               "lost_work_micros": 250000, "total_micros": 1750000, "gpu_hours": 3.25}
        p = self.check(["cost", "--by", "team,gpu", "--since", "2026-01-01T00:00:00Z"], "GET", "/v1/cost",
                       Reply(body={"by": ["team", "gpu"], "rows": [row], "totals": {"total_micros": 1750000}}),
                       "by=team%2Cgpu&since=2026-01-01T00%3A00%3A00.000000Z")
        self.assertEqual(self.rows(p.stdout)[:2],
                         [["TEAM", "GPU", "COMPUTE", "BOOT", "IDLE", "LOST WORK", "TOTAL USD", "GPU HOURS"],
                          ["nlp", "A10G", "1.0000", "0.0000", "0.5000", "0.2500", "1.7500", "3.25"]])
        self.assertIn("total  1.750000 USD", p.stdout)

    def test_cost_since_a_duration_is_a_time(self):
        self.check(["cost", "--since", "7d"], "GET", "/v1/cost", Reply(body={"by": ["team"], "rows": [], "totals": {}}),
                   self.daemon_query_time("by=team&since=", 7 * 86400))

    def daemon_query_time(self, prefix, ago):
        class Near(str):
            def __eq__(self, other):
                m = re.fullmatch(re.escape(prefix) + r"(\d+)-(\d+)-(\d+)T(\d+)%3A(\d+)%3A(\d+)\.\d+Z", other)
                then = time.mktime((*map(int, m.groups()), 0, 0, 0)) - time.timezone
                return abs(time.time() - ago - then) < 120
            __hash__ = str.__hash__
        return Near(prefix)

    def test_cost_of_a_job(self):
        reply = Reply(body={"items": [{"kind": "compute", "amount_micros": 412300, "seconds": 3600, "pool": POOL, "market": "spot",
                                       "price_micros": 412300, "node": "n7", "epoch": 1, "from_at": "2026-01-01T00:00:00Z",
                                       "to_at": "2026-01-01T01:00:00Z"}], "total_micros": 412300,
                            "savings": [{"baseline": "on-demand", "baseline_micros": 1006000, "saved_pct": 59.0158, "how": "x"}]})
        p = self.check(["cost", "--job", "j12"], "GET", "/v1/jobs/j12/cost", reply)
        self.assertIn("against on-demand: 1.006000 USD, saved 59.0 %", p.stdout)

    def test_events(self):
        e = {"id": 5, "at": "2026-01-01T00:00:00Z", "entity_id": "j12", "event": "PLACED", "was": "QUEUED", "now": "STARTING",
             "actor": "engine", "why": "cheapest"}
        p = self.check(["events", "--job", "j12", "--after", "4", "-n", "20"], "GET", "/v1/events", page([e], "5"),
                       "job=j12&limit=20&after=4")
        self.assertEqual(self.rows(p.stdout)[1], ["5", "2026-01-01T00:00:00Z", "j12", "PLACED", "QUEUED", "STARTING", "cheapest"])

    def test_tokens(self):
        self.check(["token", "ls"], "GET", "/v1/tokens", page([{"id": "t1", "name": "a", "role": "admin", "team": ""}]), "limit=100")
        self.daemon.requests.clear()
        p = self.check(["token", "create", "ci", "--role", "service", "--team", "nlp", "--expires", "90d"], "POST", "/v1/tokens",
                       Reply(201, {"id": "t2", "name": "ci", "token": "sb_abc"}))
        self.assertEqual(json.loads(self.daemon.requests[0].body),
                         {"name": "ci", "role": "service", "team": "nlp", "expires_s": 7776000})
        self.assertEqual(p.stdout, "sb_abc\n")
        self.daemon.requests.clear()
        self.check(["token", "rm", "t2"], "DELETE", "/v1/tokens/t2", Reply(body={}))

    def test_a_token_whose_value_was_lost_says_so(self):
        self.daemon.on("POST", "/v1/tokens", Reply(201, {"id": "t2", "name": "ci", "token": None}))
        self.assertIn("token rm t2", self.run_it("token", "create", "ci", code=1).stderr)

    def test_whoami_and_version(self):
        self.check(["whoami"], "GET", "/v1/whoami", Reply(body={"name": "ann", "role": "lead", "team": ""}))
        self.daemon.requests.clear()
        p = self.check(["version"], "GET", "/v1/version", Reply(body={"version": "9.9", "install": "i1"}))
        self.assertRegex(p.stdout, r"^spotctl \d+\.\d+\.\d+\nspotd 9\.9  installation i1  at http://")

    def test_version_of_the_program_alone_asks_nobody(self):
        self.assertRegex(self.run_it("--version").stdout, r"^spotctl \d+\.\d+\.\d+\n$")
        self.assertEqual(self.daemon.requests, [])

    def test_ids_cannot_leave_their_place_in_the_path(self):
        self.daemon.on("GET", "/v1/jobs/..%2Ftokens%3Fx", Reply(body=JOB))
        self.run_it("job", "show", "../tokens?x")
        self.assertEqual(self.only_request().path, "/v1/jobs/..%2Ftokens%3Fx")

    def test_common_options_may_stand_in_front(self):
        self.daemon.on("GET", "/v1/whoami", Reply(body={"name": "ann", "role": "lead", "team": ""}))
        self.run_it("--url", self.daemon.url, "--token-file", self.token_file, "-o", "json", "whoami", env=self.env(SPOTCTL_URL=None))
        self.assertEqual(self.only_request().headers["Authorization"], "Bearer secret-token-123")


class Rendering(Case):
    def test_a_pipe_gets_tabs_and_no_colour(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB]))
        p = self.run_it("job", "ls")
        self.assertEqual(self.rows(p.stdout)[0], ["JOB", "NAME", "STATE", "STEPS", "WHERE", "GPU", "MARKET", "TRIES", "USD", "AGE"])
        row = self.rows(p.stdout)[1]
        self.assertEqual(row[:9], ["j12", "train", "RUNNING", "30/600", "aws/use1-az4", "1xA10G", "spot", "2", "1.2346"])
        self.assertNotIn("\033", p.stdout)

    def test_wide_has_more_columns(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB]))
        self.assertEqual(self.rows(self.run_it("job", "ls", "-o", "wide").stdout)[0][-7:],
                         ["OWNER", "TEAM", "PROJECT", "CLASS", "DEADLINE", "NODE", "WHY"])

    def test_json_is_the_reply(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB]))
        for words in (["-o", "json"], ["--json"], ["--output=json"]):
            self.assertEqual(json.loads(self.run_it("job", "ls", *words).stdout), {"items": [JOB], "next": None})

    def test_names_are_ids_or_the_first_column(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB, {**JOB, "id": "j13"}]))
        self.daemon.on("GET", "/v1/providers", page([{"name": "aws"}, {"name": "lambda"}]))
        self.assertEqual(self.run_it("job", "ls", "-o", "name").stdout, "j12\nj13\n")
        self.assertEqual(self.run_it("providers", "-o", "name").stdout, "aws\nlambda\n")

    def test_csv_is_exact_and_quoted(self):
        odd = {**JOB, "name": 'a "b",\nc', "cost_micros": -1}
        self.daemon.on("GET", "/v1/jobs", page([odd]))
        rows = list(csv.DictReader(io.StringIO(self.run_it("job", "ls", "-o", "csv").stdout)))
        self.assertEqual((rows[0]["NAME"], rows[0]["USD"], rows[0]["AGE"]), ('a "b",\nc', "-0.000001", "2026-01-01T00:00:00Z"))

    def test_empty_lists_say_what_to_do_on_stderr(self):
        self.daemon.on("GET", "/v1/jobs", page([]))
        p = self.run_it("job", "ls")
        self.assertEqual(p.stdout, "")
        self.assertIn("spotctl job submit", p.stderr)
        self.assertEqual(self.run_it("job", "ls", "-o", "csv").stdout.count("\n"), 1)

    def on_terminal(self, *words, env=None):
        parent, child = pty.openpty()
        p = subprocess.Popen([SPOTCTL, *words], stdin=subprocess.DEVNULL, stdout=child, stderr=subprocess.PIPE,
                             env=env or self.env(TERM="xterm"))
        os.close(child)
        out = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            out += part
        os.close(parent)
        p.stderr.close()
        p.wait()
        return out.decode().replace("\r\n", "\n")

    def test_a_terminal_gets_aligned_columns_and_colour(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB, {**JOB, "id": "j13", "name": "日本-Ü", "state": "FAILED"}]))
        out = self.on_terminal("job", "ls")
        self.assertIn("\033[32mRUNNING\033[0m", out)
        self.assertIn("\033[31mFAILED\033[0m", out)
        plain = re.sub(r"\033\[\d+m", "", out).splitlines()
        self.assertEqual(plain[0].index("STATE"), plain[1].index("RUNNING"))
        # two wide characters take two columns each
        self.assertEqual(plain[2].index("FAILED") + 2, plain[1].index("RUNNING"))

    def test_no_color(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB]))
        self.assertNotIn("\033", self.on_terminal("job", "ls", env=self.env(TERM="xterm", NO_COLOR="1")))
        self.assertNotIn("\033", self.on_terminal("job", "ls", env=self.env(TERM="dumb")))
        self.assertNotIn("\033", self.on_terminal("job", "ls", "--no-color"))
        self.assertIn("\033", self.on_terminal("job", "ls", env=self.env(TERM="xterm", NO_COLOR="")))

    def test_no_name_can_steer_the_terminal(self):
        evil = {**JOB, "name": "x\033]0;owned\007\ny", "why": "a\u202eb\u009b31m"}
        self.daemon.on("GET", "/v1/jobs", page([evil]))
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body=evil))
        for out in (self.on_terminal("job", "ls", "--no-color"), self.on_terminal("job", "show", "j12", "--no-color")):
            self.assertIn("x?]0;owned? y", out)
            self.assertNotRegex(out, "[\033\007\u202e\u009b]")
        self.daemon.on("GET", "/v1/jobs/j12", problem(409, "conflict", "no\033[2Jthing"))
        self.assertIn("no?[2Jthing", self.run_it("job", "show", "j12", code=4).stderr)

    def test_job_show_for_people_and_programs(self):
        detail = {**JOB, "lost_steps": 0, "attempts_list": [
            {"epoch": 1, "node": "n6", "pool": POOL, "market": "spot", "phase": "ENDED", "exit_reason": "drained", "steps_start": 0,
             "steps_done": 25, "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:10:00Z", "drain_why": "notice"}]}
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body=detail))
        out = self.run_it("job", "show", "j12").stdout
        self.assertIn("checkpoint   c9 at step 25, 1000 bytes", out)
        self.assertIn("drained", out)
        self.assertEqual(json.loads(self.run_it("job", "show", "j12", "-o", "json").stdout), detail)
        self.assertEqual(self.run_it("job", "show", "j12", "-o", "name").stdout, "j12\n")
        self.assertEqual(len(list(csv.DictReader(io.StringIO(self.run_it("job", "show", "j12", "-o", "csv").stdout)))), 1)

    def test_fleet_and_node_in_full(self):
        self.daemon.on("GET", "/v1/fleets/f3", Reply(body=FLEET))
        out = self.run_it("fleet", "show", "f3").stdout
        self.assertIn("f3\tbig\tACTIVE\t8\t\t2\t1", out)
        self.assertIn("n7\tREADY", out)
        node = {**NODE, "notice": {"kind": "interruption"}, "notices": [
            {"kind": "interruption", "heard_at": "2026-01-01T00:00:00Z", "deadline_at": "2026-01-01T00:02:00Z", "source": "imds"}]}
        self.daemon.on("GET", "/v1/nodes/n7", Reply(body=node))
        self.assertIn("interruption\t2026-01-01T00:00:00Z\t2026-01-01T00:02:00Z\timds", self.run_it("node", "show", "n7").stdout)

    def test_price_history_is_drawn(self):
        points = [{"at": "2026-01-01T00:00:00Z", "price_micros": m} for m in (100000, 150000, 200000)]
        self.daemon.on("GET", "/v1/pools/p44", Reply(body={**POOL, "history": points}))
        out = self.run_it("pools", "show", "p44", "--history", "1d").stdout
        self.assertIn("USD/h from 0.1000 to 0.2000, 3 points\n▁▄█\n", out)

    def test_plan_that_nothing_suits_says_why_and_exits_7(self):
        refused = [{"pool": POOL, "why": "price over the cap"}] * 3 + [{"pool": POOL, "why": "not enough memory"}]
        self.daemon.on("POST", "/v1/plan", Reply(body={"offers": [], "refused": refused, "note": "none of 4 pools suits"}))
        p = self.run_it("plan", self.file("run: x\n"), code=7)
        self.assertIn("3 pools: price over the cap", p.stderr)
        self.assertLess(p.stderr.index("price over"), p.stderr.index("not enough"))
        self.run_it("plan", self.file("run: x\n"), "-o", "json", code=7)

    def test_plan_shows_fifteen_and_wide_shows_all(self):
        offers = [{"pool": {**POOL, "id": "p%d" % i}, "chosen": i == 0, "total_micros": i} for i in range(40)]
        self.daemon.on("POST", "/v1/plan", Reply(body={"offers": offers, "refused": [], "warnings": ["w1"]}))
        f = self.file("run: x\n")
        p = self.run_it("plan", f)
        self.assertEqual(len(p.stdout.splitlines()), 16)
        self.assertEqual(self.rows(p.stdout)[1][:2], ["*", "p0"])
        self.assertIn("warning: w1", p.stderr)
        self.assertEqual(len(self.run_it("plan", f, "-o", "wide").stdout.splitlines()), 41)


class Paging(Case):
    def jobs(self, a, b):
        return [{**JOB, "id": "j%d" % i} for i in range(a, b)]

    def test_a_table_stops_at_a_hundred_and_says_so(self):
        self.daemon.on("GET", "/v1/jobs", page(self.jobs(0, 100), "100"))
        p = self.run_it("job", "ls")
        self.assertEqual(len(p.stdout.splitlines()), 101)
        self.assertIn("there are more", p.stderr)
        self.only_request()

    def test_a_limit_over_a_page_follows_the_cursor(self):
        self.daemon.on("GET", "/v1/jobs", page(self.jobs(0, 1000), "a/b"), page(self.jobs(1000, 1200), "c"))
        p = self.run_it("job", "ls", "-n", "1200", "--team", "x")
        self.assertEqual(len(p.stdout.splitlines()), 1201)
        self.assertEqual([r.query for r in self.daemon.requests],
                         ["team=x&limit=1000", "team=x&limit=200&cursor=a%2Fb"])

    def test_programs_get_everything(self):
        self.daemon.on("GET", "/v1/jobs", page(self.jobs(0, 3), "3"), page(self.jobs(3, 5)))
        self.assertEqual(len(json.loads(self.run_it("job", "ls", "-o", "json").stdout)["items"]), 5)

    def test_a_cursor_that_stands_still_ends(self):
        self.daemon.on("GET", "/v1/jobs", page(self.jobs(0, 1), "7"))
        self.assertEqual(self.run_it("job", "ls", "-o", "name").stdout, "j0\nj0\n")


class Errors(Case):
    def test_problems_become_exit_codes(self):
        cases = [(400, "invalid", 2), (401, "unauthenticated", 5), (403, "denied", 5), (404, "not_found", 3), (409, "conflict", 4),
                 (410, "gone", 3), (412, "conflict", 4), (413, "too_large", 2), (422, "mismatch", 4), (409, "no_capacity", 7),
                 (409, "quota", 7), (409, "price_cap", 7), (500, "internal", 1), (504, "timeout", 6)]
        for status, code, want in cases:
            with self.subTest(status=status, code=code):
                self.daemon.on("GET", "/v1/jobs/j1", problem(status, code, "the words of %s" % code))
                p = self.run_it("job", "show", "j1", code=want)
                self.assertEqual((p.stdout, p.stderr), ("", "spotctl: the words of %s\n" % code))

    def test_the_field_is_named(self):
        self.daemon.on("POST", "/v1/jobs", problem(400, "invalid", "line 3, column 1: clas: unknown key", field="clas", line=3))
        self.assertEqual(self.run_it("job", "submit", self.file("x: y\n"), code=2).stderr,
                         "spotctl: clas: line 3, column 1: clas: unknown key\n")

    def test_several_cancels_of_which_some_fail_are_partly_done(self):
        self.daemon.on("POST", "/v1/jobs/j1/cancel", Reply(202, JOB))
        self.run_it("job", "cancel", "j1", "j2", code=8)
        self.run_it("job", "cancel", "j2", code=3)

    def test_nobody_there(self):
        p = self.run_it("prices", env=self.env(SPOTCTL_URL="http://127.0.0.1:1"), code=6)
        self.assertIn("is spotd running?", p.stderr)

    def test_somebody_else_there(self):
        self.daemon.on("GET", "/v1/prices", Reply(text="<html>", content_type="text/html"))
        self.assertIn("is it a Spotbroker daemon?", self.run_it("prices", code=1).stderr)
        self.daemon.on("GET", "/v1/prices", Reply(body={"other": 1}))
        self.assertIn("lacks its list", self.run_it("prices", code=1).stderr)
        self.daemon.on("GET", "/v1/prices", Reply(text='{"items": [', content_type="application/json"))
        self.run_it("prices", code=1)

    def test_an_error_page_without_json(self):
        self.daemon.on("GET", "/v1/prices", Reply(500, text="oh no", content_type="text/plain"))
        self.assertIn("answered 500 without a reason: oh no", self.run_it("prices", code=1).stderr)

    def test_without_a_token_one_is_told_how_to_give_it(self):
        self.daemon.on("GET", "/v1/prices", problem(401, "unauthenticated", "a bearer token is needed"))
        p = self.run_it("prices", env=self.env(SPOTCTL_TOKEN_FILE=None), code=5)
        self.assertIn("spotctl login", p.stderr)
        self.assertIsNone(self.only_request().headers["Authorization"])

    def test_a_token_file_that_others_can_read_is_refused(self):
        os.chmod(self.token_file, 0o644)
        p = self.run_it("prices", code=5)
        self.assertIn(self.token_file, p.stderr)
        self.assertNotIn("secret-token", p.stderr)
        self.assertEqual(self.daemon.requests, [])

    def test_a_url_with_a_password_is_refused_and_not_shown(self):
        p = self.run_it("--url", "https://ann:hunter2@example.com", "prices", code=2)
        self.assertNotIn("hunter2", p.stderr)

    def test_urls_that_are_no_server(self):
        for url in ("file:///etc/passwd", "https://", "http://h/?x=1", "gopher://x"):
            with self.subTest(url=url):
                self.run_it("--url", url, "prices", code=2)

    def test_unwritable_output(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB]))
        with open("/dev/full", "w") as full:
            p = subprocess.run([SPOTCTL, "job", "ls"], stdout=full, stderr=subprocess.PIPE, text=True, env=self.env(), timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn("cannot write the output", p.stderr)

    def test_a_broken_pipe_ends_quietly(self):
        self.daemon.on("GET", "/v1/jobs", page([{**JOB, "why": "x" * 1000, "id": "j%d" % i} for i in range(1000)]))
        p = subprocess.Popen([SPOTCTL, "job", "ls", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env())
        p.stdout.readline()
        p.stdout.close()
        err = p.stderr.read()
        p.stderr.close()
        self.assertEqual((p.wait(), err), (-signal.SIGPIPE, b""))


class Repeating(Case):
    def test_a_lost_reply_is_asked_for_again_with_the_same_key(self):
        self.daemon.on("POST", "/v1/jobs", Reply(drop=True), Reply(201, JOB))
        self.assertEqual(self.run_it("job", "submit", self.file("run: x\n")).stdout, "j12\n")
        keys = [r.headers["Idempotency-Key"] for r in self.daemon.requests]
        self.assertEqual((len(keys), len(set(keys))), (2, 1))
        self.assertEqual([r.body for r in self.daemon.requests], [b"run: x\n"] * 2)

    def test_a_daemon_that_is_not_ready_is_asked_again(self):
        away = problem(503, "unavailable", "the database is away")
        away.headers["Retry-After"] = "0"
        self.daemon.on("GET", "/v1/jobs", away, page([JOB]))
        self.assertIn("j12", self.run_it("job", "ls").stdout)

    def test_but_not_for_ever(self):
        away = problem(503, "unavailable", "the database is away")
        away.headers["Retry-After"] = "0"
        self.daemon.on("GET", "/v1/jobs", away)
        self.assertEqual(self.run_it("job", "ls", code=6).stderr, "spotctl: the database is away\n")
        self.assertEqual(len(self.daemon.requests), 3)

    def test_what_has_no_key_is_not_repeated(self):
        for method, words in (("DELETE", ["node", "rm", "n7"]), ("PATCH", ["fleet", "scale", "f3", "--nodes", "2"])):
            self.daemon.requests.clear()
            self.daemon.on(method, "/v1/nodes/n7" if method == "DELETE" else "/v1/fleets/f3", Reply(drop=True))
            self.run_it(*words, code=6)
            self.only_request()


class Waiting(Case):
    def test_job_wait_goes_on_over_a_restart_and_tells_the_fate(self):
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body=JOB), Reply(drop=True), Reply(503, {}),
                       Reply(body={**JOB, "state": "SUCCEEDED", "why": "done"}))
        p = self.run_it("job", "wait", "j12")
        self.assertEqual(p.stderr.count("does not answer"), 1)
        self.assertIn("j12: RUNNING", p.stderr)
        self.assertIn("j12: SUCCEEDED", p.stderr)
        self.assertEqual(self.daemon.requests[0].query, "")
        self.assertEqual(self.daemon.requests[1].query, "wait_state=terminal&timeout_s=10")

    def test_job_wait_on_a_failure(self):
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body={**JOB, "state": "FAILED"}))
        self.run_it("job", "wait", "j12", code=1)

    def test_job_wait_gives_up(self):
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body=JOB))
        self.assertIn("still RUNNING", self.run_it("job", "wait", "j12", "--timeout", "1", code=6).stderr)

    def test_submit_and_wait_prints_one_document(self):
        self.daemon.on("POST", "/v1/jobs", Reply(201, {**JOB, "state": "QUEUED"}))
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body={**JOB, "state": "SUCCEEDED"}))
        p = self.run_it("job", "submit", self.file("run: x\n"), "--wait", "-o", "json")
        self.assertEqual(json.loads(p.stdout)["state"], "SUCCEEDED")

    def log(self, text, epoch, after, **more):
        return Reply(text=text, headers={"X-Log-Epoch": str(epoch), "X-Log-Next": str(after), **more})

    def test_logs_of_all_attempts(self):
        self.daemon.on("GET", "/v1/jobs/j12/logs", self.log("one\n", 1, 4), self.log("", 1, 4, **{"X-Log-Next-Epoch": "2"}),
                       self.log("two\n", 2, 4), self.log("", 2, 4, **{"X-Log-End": "1"}))
        p = self.run_it("job", "logs", "j12")
        self.assertEqual(p.stdout, "one\ntwo\n")
        self.assertEqual(p.stderr, "--- attempt 2\n")
        self.assertEqual([r.query for r in self.daemon.requests],
                         ["offset=0", "offset=4&epoch=1", "offset=0&epoch=2", "offset=4&epoch=2"])

    def test_logs_are_followed_over_a_restart_without_loss_or_repetition(self):
        self.daemon.on("GET", "/v1/jobs/j12/logs", self.log("a\n", 1, 2), Reply(drop=True), self.log("", 1, 2),
                       self.log("b\n", 1, 4), self.log("", 1, 4, **{"X-Log-End": "1"}))
        self.assertEqual(self.run_it("job", "logs", "-f", "j12").stdout, "a\nb\n")
        self.assertEqual(self.daemon.requests[3].query, "offset=2&follow_s=20&epoch=1")

    def test_logs_of_one_attempt_stay_with_it(self):
        self.daemon.on("GET", "/v1/jobs/j12/logs", self.log("one\n", 1, 4), self.log("", 1, 4, **{"X-Log-Next-Epoch": "2"}))
        self.assertEqual(self.run_it("job", "logs", "j12", "--epoch", "1", "-f").stdout, "one\n")

    def test_logs_are_bytes(self):
        reply = self.log("", 1, 3)
        reply.body = b"\xff\x00\n"
        self.daemon.on("GET", "/v1/jobs/j12/logs", reply, self.log("", 1, 3, **{"X-Log-End": "1"}))
        p = subprocess.run([SPOTCTL, "job", "logs", "j12"], capture_output=True, env=self.env(), timeout=60)
        self.assertEqual(p.stdout, b"\xff\x00\n")

    def event(self, n):
        return {"id": n, "at": "2026-01-01T00:00:00Z", "entity_id": "j12", "event": "E%d" % n, "was": "", "now": "", "why": "w"}

    def sse(self, n):
        return "id: %d\nevent: job\ndata: %s\n\n" % (n, json.dumps(self.event(n)))

    def follow(self, count, *words, parts=()):
        self.daemon.on("GET", "/v1/events", *parts)
        p = subprocess.Popen([SPOTCTL, "events", "-f", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=self.env())
        lines = [p.stdout.readline() for _ in range(count)]
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=30)[1]
        self.assertEqual(p.returncode, 130, err)
        return [line.split("\t")[3] for line in lines if "\t" in line] or lines

    def test_events_begin_behind_the_list_and_resume_behind_the_last(self):
        parts = (page([self.event(4), self.event(5)], "5"), Reply(stream=[": hello\nretry: 1000\n\n", self.sse(6), "id: 7\ndata: {\"i"]),
                 Reply(drop=True), Reply(stream=[self.sse(7).replace("\n", "\r\n"), self.sse(8)]), Reply(stream=[": quiet\n\n"]))
        self.assertEqual(self.follow(5, "--job", "j12", parts=parts), ["E4", "E5", "E6", "E7", "E8"])
        self.assertEqual(self.daemon.requests[0].query, "job=j12&limit=10")
        streams = self.daemon.requests[1:4]
        self.assertEqual([r.headers["Last-Event-ID"] for r in streams], ["5", "6", "6"])
        self.assertTrue(all(r.headers["Accept"] == "text/event-stream" and r.query == "job=j12" for r in streams))

    def test_events_after_a_number(self):
        self.assertEqual(self.follow(1, "--after", "3", parts=(Reply(stream=[self.sse(4)]), Reply(stream=[": q\n\n"]))), ["E4"])
        self.assertEqual(self.daemon.requests[0].headers["Last-Event-ID"], "3")

    def test_events_in_json_are_one_per_line(self):
        lines = self.follow(2, "-o", "json", parts=(page([self.event(1)], "1"), Reply(stream=[self.sse(2)]), Reply(stream=[": q\n\n"])))
        self.assertEqual([json.loads(x)["id"] for x in lines], [1, 2])

    def test_a_refused_stream_says_why(self):
        self.daemon.on("GET", "/v1/events", page([], None), problem(403, "denied", "a viewer's token is needed"))
        self.assertIn("a viewer's token is needed", self.run_it("events", "-f", code=5).stderr)

    def test_watch_repeats_and_outlives_a_restart(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB]), Reply(drop=True), page([{**JOB, "state": "SUCCEEDED"}]))
        p = subprocess.Popen([SPOTCTL, "job", "ls", "--watch", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=self.env())
        seen = [p.stdout.readline() for _ in range(4)]
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
        self.assertEqual(p.returncode, 130)
        self.assertIn("RUNNING", seen[1])
        self.assertIn("SUCCEEDED", seen[3])

    def test_watch_of_something_that_is_not_there_ends(self):
        self.run_it("job", "show", "j1", "--watch", code=3)


class Settings(Case):
    def login(self, stdin="new-token\n", code=0, url=None, **env):
        return self.run_it("login", url or self.daemon.url + "/", stdin=stdin, code=code,
                           env=self.env(SPOTCTL_URL=None, SPOTCTL_TOKEN_FILE=None, **env))

    def setUp(self):
        super().setUp()
        self.daemon.on("GET", "/v1/whoami", Reply(body={"name": "ann", "role": "lead", "team": ""}))
        self.daemon.on("GET", "/v1/jobs", page([JOB]))
        self.config = os.path.join(self.home.name, ".config", "spotctl")

    def test_login_tries_the_token_and_remembers_it(self):
        p = self.login()
        self.assertIn("as ann (lead)", p.stderr)
        self.assertEqual(self.only_request().headers["Authorization"], "Bearer new-token")
        path = os.path.join(self.config, "token")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.daemon.requests.clear()
        self.run_it("job", "ls", env=self.env(SPOTCTL_URL=None, SPOTCTL_TOKEN_FILE=None))
        self.assertEqual(self.only_request().headers["Authorization"], "Bearer new-token")

    def test_a_wrong_token_is_not_saved(self):
        self.daemon.on("GET", "/v1/whoami", problem(401, "unauthenticated", "unknown token"))
        self.login(code=5)
        self.assertFalse(os.path.exists(self.config))

    def test_login_without_a_token(self):
        self.assertIn("no token", self.login(stdin="", code=2).stderr)
        self.assertIn("no token", self.login(stdin="\n", code=2).stderr)

    def test_login_repairs_a_broken_configuration(self):
        os.makedirs(self.config)
        self.write(os.path.join(self.config, "config.ini"), "[serv\n")
        self.run_it("job", "ls", code=2)
        self.login()
        self.run_it("job", "ls", env=self.env(SPOTCTL_URL=None, SPOTCTL_TOKEN_FILE=None))

    def test_the_saved_token_goes_to_its_server_only(self):
        self.login()
        with FakeDaemon() as other:
            other.on("GET", "/v1/jobs", page([]))
            self.run_it("job", "ls", "--url", other.url, env=self.env(SPOTCTL_URL=None, SPOTCTL_TOKEN_FILE=None))
            self.assertIsNone(other.requests[0].headers["Authorization"])

    def test_the_local_daemons_token_is_found(self):
        data = os.path.join(self.home.name, "data", "spotbroker")
        os.makedirs(data)
        self.write(os.path.join(data, "admin-token"), "local-admin\n", 0o600)
        self.run_it("job", "ls", env=self.env(SPOTCTL_TOKEN_FILE=None, XDG_DATA_HOME=os.path.join(self.home.name, "data")))
        self.assertEqual(self.only_request().headers["Authorization"], "Bearer local-admin")

    def test_flags_before_environment_before_file(self):
        self.login()
        self.daemon.requests.clear()
        self.run_it("job", "ls", env=self.env(SPOTCTL_URL=None))
        other = self.write(os.path.join(self.home.name, "other"), "flag-token", 0o400)
        self.run_it("job", "ls", "--token-file", other)
        self.assertEqual([r.headers["Authorization"] for r in self.daemon.requests],
                         ["Bearer secret-token-123", "Bearer flag-token"])

    def test_a_proxy_never_sees_what_is_meant_for_this_machine(self):
        self.run_it("job", "ls", env=self.env(http_proxy="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1"))

    def test_help_and_completion_work_without_any_server_or_settings(self):
        os.makedirs(self.config)
        self.write(os.path.join(self.config, "config.ini"), "[serv\n")
        env = self.env(SPOTCTL_URL=None, SPOTCTL_TOKEN_FILE="/nonexistent")
        for words in (["help"], ["--help"], ["job", "--help"], ["completion", "bash"], ["--version"]):
            self.run_it(*words, env=env)


class Usage(Case):
    def test_wrong_words_are_refused_with_help(self):
        for words, text in (
                (["prcies"], "did you mean 'prices'"), (["job", "list"], "did you mean 'ls'"), (["jobs"], "did you mean 'job'"),
                (["xyzzy"], "'spotctl help' lists them"), (["job"], "job submit FILE"), (["prices", "x"], "usage: spotctl prices"),
                (["job", "show"], "usage: spotctl job show JOB"), (["job", "ls", "--bogus"], "no option '--bogus'"),
                (["job", "ls", "-nx"], "--limit wants a number"), (["job", "ls", "-o", "xml"], "table, wide, json, csv or name"),
                (["job", "ls", "--watch=0"], "--watch wants seconds"), (["job", "logs", "j1", "-o", "json"], "does not apply"),
                (["job", "submit", "x", "--watch"], "does not apply"), (["job", "ls", "--state"], "--state needs a LIST"),
                (["node", "ls", "--all=yes"], "takes no value"), (["fleet", "scale", "f1"], "--nodes N or --gpus N"),
                (["fleet", "scale", "f1", "--nodes", "-1"], "--nodes N or --gpus N"), (["job", "show", ""], "empty argument"),
                (["job", "submit", "/nonexistent.yaml"], "No such file"), (["cost", "--since", "yesterday"], "such as 7d"),
                (["cost", "--job", "j1", "--by", "team"], "do not go with it"), (["events", "--after", "x"], "number of an event"),
                (["events", "-f", "-o", "csv"], "--follow goes with"), (["token", "create", "x", "--expires", "soon"], "such as 90d"),
                (["job", "cancel", *["j1"] * 65], "more than 64 arguments"), (["completion", "tcsh"], "bash, zsh or fish"),
                (["help", "xyzzy"], "no command 'xyzzy'"), (["job", "submit", "x", "-f", "--json"], "--follow prints the log")):
            with self.subTest(words=words):
                p = self.run_it(*words, code=2)
                self.assertEqual(p.stdout, "")
                self.assertIn(text, p.stderr)
        self.assertEqual(self.daemon.requests, [])

    def test_files_that_are_no_job(self):
        self.assertIn("is empty", self.run_it("job", "submit", self.file(""), code=2).stderr)
        self.assertIn("larger than 1 MiB", self.run_it("plan", "-", stdin="x" * (1 << 20) + "y", code=2).stderr)
        self.assertIn("Is a directory", self.run_it("plan", self.home.name, code=2).stderr)

    def test_double_dash_ends_the_options(self):
        self.daemon.on("GET", "/v1/jobs/-x", Reply(body=JOB))
        self.run_it("job", "show", "--", "-x")

    def commands(self):
        text = self.run_it("help").stdout
        for line in text.splitlines():
            m = re.match(r"  ([a-z]+(?: [a-z]+)?) ", line)
            if m:
                yield m.group(1).split()

    def test_every_command_has_help(self):
        commands = list(self.commands())
        self.assertGreaterEqual(len(commands), 33)
        for words in commands:
            with self.subTest(command=words):
                a, b = self.run_it(*words, "--help"), self.run_it("help", *words)
                self.assertEqual(a.stdout, b.stdout)
                self.assertTrue(a.stdout.startswith("usage: spotctl " + " ".join(words)))
                self.assertIn("130 interrupted", a.stdout)
                self.assertEqual(a.stderr, "")

    def test_the_manual_page_and_the_completion_know_every_command_and_option(self):
        man = self.run_it("man").stdout
        bash, fish = self.run_it("completion", "bash").stdout, self.run_it("completion", "fish").stdout
        for words in self.commands():
            self.assertIn("## " + " ".join(words), man)
            self.assertIn("'%s')" % " ".join(words), bash)
            self.assertIn("-a " + words[-1], fish)
            for option in re.findall(r"(?<= )--([a-z-]+)", self.run_it(*words, "--help").stdout):
                self.assertIn("*--%s*" % option, man)
                self.assertRegex(bash, r"'%s'\) words=\".*--%s " % (" ".join(words), option))
                self.assertIn("-l %s" % option, fish)

    def complete(self, line):
        script = self.run_it("completion", "bash").stdout
        words = line.split(" ")
        p = subprocess.run(["bash", "-c", script + '\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _spotctl; echo "${COMPREPLY[@]}"',
                            "x", *words], capture_output=True, text=True, timeout=30)
        self.assertEqual(p.stderr, "")
        return p.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.complete("spotctl pri"), ["prices"])
        self.assertEqual(self.complete("spotctl job s"), ["submit", "show"])
        self.assertEqual(self.complete("spotctl job ls --st"), ["--state"])
        self.assertEqual(self.complete("spotctl prices --mar"), ["--market"])
        self.assertEqual(self.complete("spotctl prices -o w"), ["wide"])
        self.assertNotIn("man", self.complete("spotctl "))


if __name__ == "__main__":
    SPOTCTL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
