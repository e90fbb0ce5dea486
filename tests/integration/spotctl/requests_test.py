#!/usr/bin/env python3
"""spotctl's requests, for every command.

usage: requests_test.py SPOTCTL [unittest arguments]
"""

import json
import os
import re
import sys
import time
import unittest

from spotctl_case import BUDGET, Case, FLEET, FLEET_PLAN, JOB, NODE, POOL, SPOTCTL, page
from spotctl_fake import Reply


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
                   "sort=gpu_price&gpu=A100&provider=aws&region=us-east-1&zone=z&instance_type=g5.xlarge&market=spot&state=fresh&max_usd=2.5&limit=7")

    def test_a_name_stands_for_its_only_open_job_else_for_its_newest(self):
        jobs = [dict(JOB, id="j9", state="FAILED"), dict(JOB, id="j7", state="RUNNING"), dict(JOB, id="j5", state="SUCCEEDED")]
        for at, (items, id) in enumerate(((jobs, "j7"), ([jobs[0], jobs[2]], "j9"))):
            self.daemon.on("GET", "/v1/jobs", page(items))
            self.daemon.on("GET", "/v1/jobs/" + id, Reply(body=dict(JOB, id=id)))
            self.run_it("job", "show", "my run", "-o", "json")
            self.assertEqual([(r.path, r.query) for r in self.daemon.requests[2 * at:]],
                             [("/v1/jobs", "name=my%20run&limit=200"), ("/v1/jobs/" + id, "")])

    def test_a_name_of_two_open_jobs_changes_nothing(self):
        self.daemon.on("GET", "/v1/jobs", page([dict(JOB, id="j9", state="QUEUED"), dict(JOB, id="j7", state="RUNNING")]))
        p = self.run_it("job", "cancel", "twin", code=2)
        self.assertIn("j9, j7", p.stderr)
        self.assertEqual([r.method for r in self.daemon.requests], ["GET"])

    def test_prices_of_a_gpu_are_asked_for_by_gpu_hour(self):
        self.check(["prices", "-g", "H100"], "GET", "/v1/prices", page([POOL]), "sort=gpu_price&gpu=H100&limit=100")

    def test_prices_without_a_question_are_per_gpu(self):
        self.check(["prices"], "GET", "/v1/prices/gpus", page([]))

    def test_the_cheapest_of_each_cloud_are_asked_for_with_filters(self):
        self.check(["prices", "--cheapest", "-g", "A100", "-p", "aws"], "GET", "/v1/prices/gpus", page([]), "gpu=A100&provider=aws")

    def test_prices_for_programs_are_per_pool(self):
        self.check(["prices", "-o", "json"], "GET", "/v1/prices", page([]), "limit=1000")

    def test_doctor_names_providers(self):
        run = {"id": "r1", "state": "done", "bad": 0, "warn": 0, "items": []}
        self.check(["doctor", "aws", "gcp"], "POST", "/v1/doctor", Reply(202, run))

    def test_doctor_checks_rows_when_asked(self):
        run = {"id": "r1", "state": "done", "bad": 0, "warn": 0, "items": []}
        self.check(["doctor", "--consistency"], "POST", "/v1/doctor", Reply(202, run), body='{"consistency":true}')

    def test_pools(self):
        self.check(["pools"], "GET", "/v1/pools", page([POOL]), "limit=100")

    def test_pool_show_asks_for_a_week_of_prices(self):
        self.check(["pools", "show", "p44"], "GET", "/v1/pools/p44", Reply(body={**POOL, "history": []}), "history=7d")

    def test_providers(self):
        self.check(["providers"], "GET", "/v1/providers", page([{"name": "aws", "kind": "aws", "state": "ok"}]))

    def test_quota(self):
        self.check(["quota", "--provider", "aws"], "GET", "/v1/quotas", page([]), "provider=aws")

    def test_rebalance_report(self):
        self.check(["rebalance", "report"], "GET", "/v1/moves", Reply(body={"moves": 0, "done": 0, "items": []}))
        self.run_it("rebalance", "report", "--since", "7d")
        self.assertRegex(self.daemon.requests[-1].query, "^since=20")

    def test_supply(self):
        self.check(["supply", "--state", "tight", "-g", "A10G"], "GET", "/v1/supply", page([]), "state=tight&gpu=A10G")

    def test_classes_list_their_meaning(self):
        self.check(["classes"], "GET", "/v1/classes", page([{"name": "eval", "tolerance": "spot", "preemptible": True, "priority": 10,
                                                             "tiers": ["T4", "L4"], "patience_s": 86400, "late": "fastest"}]))
        self.assertIn("eval\tspot\ttrue\t10\t86400\tfastest\tT4, L4\n", self.run_it("classes").stdout)

    def test_gpus(self):
        self.check(["gpus"], "GET", "/v1/gpus", page([{"name": "T4", "fp16_tflops": 65.0, "mem_gib": 16.0, "bandwidth_gb_s": None}]))

    SHARE = {"team": "nlp", "weight": 2, "source": "set", "file_weight": 0.5, "share": 1, "spent_micros": 0, "ratio": 0, "waiting": 0}

    def test_shares(self):
        self.check(["shares"], "GET", "/v1/shares", page([self.SHARE]))

    def test_shares_set(self):
        self.check(["shares", "set", "nlp", "2"], "PUT", "/v1/shares", page([self.SHARE]), body='{"team":"nlp","weight":2.0}')

    def test_shares_unset(self):
        self.check(["shares", "unset", "nlp"], "PUT", "/v1/shares", page([self.SHARE]), body='{"team":"nlp","weight":null}')

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

    def test_job_budget_shows_it_and_sets_it_digit_for_digit(self):
        job = {**JOB, "budget": BUDGET}
        self.check(["job", "budget", "j12"], "GET", "/v1/jobs/j12", Reply(body=job))
        for amount, body in (("25", '{"budget_usd":"25"}'), ("12.345678", '{"budget_usd":"12.345678"}'), ("none", '{"budget_usd":null}')):
            self.daemon.requests.clear()
            self.check(["job", "budget", "j12", amount], "PATCH", "/v1/jobs/j12", Reply(body=job), body=body)

    def test_job_budget_sends_no_amount_that_is_none(self):
        for amount in ("0", "0.00", "much", "1e3", "5 USD", "", "--", "-5"):
            self.run_it("job", "budget", "j12", amount, *(["x"] if amount == "--" else []), code=2)
        self.assertEqual(self.daemon.requests, [])

    def test_fleet_create(self):
        f = self.file("name: big\nnodes: 8\n")
        self.check(["fleet", "create", f], "POST", "/v1/fleets", Reply(201, FLEET), body="name: big\nnodes: 8\n")

    def test_fleet_create_dry_run(self):
        f = self.file("name: big\nnodes: 8\n")
        self.check(["fleet", "create", f, "--dry-run"], "POST", "/v1/fleets/plan", Reply(200, FLEET_PLAN), body="name: big\nnodes: 8\n")

    def test_fleet_ls(self):
        self.check(["fleet", "ls", "--state", "ACTIVE"], "GET", "/v1/fleets", page([FLEET]), "state=ACTIVE&limit=100")

    def test_fleet_show(self):
        self.check(["fleet", "show", "f3"], "GET", "/v1/fleets/f3", Reply(body=FLEET))

    def test_fleet_scale(self):
        self.check(["fleet", "scale", "f3", "--nodes", "4"], "PATCH", "/v1/fleets/f3", Reply(body=FLEET), body='{"nodes":4}')
        self.assertEqual(self.daemon.requests[0].headers["If-Match"], "*")

    def test_fleet_set(self):
        self.check(["fleet", "set", "big", "--min", "2", "--max", "8"], "PATCH", "/v1/fleets/big", Reply(body=FLEET), body='{"min":2,"max":8}')

    def test_fleet_set_of_the_rest(self):
        self.check(["fleet", "set", "f3", "--headroom", "1", "--target", "0"], "PATCH", "/v1/fleets/f3", Reply(body=FLEET),
                   body='{"target":0,"headroom":1}')
        self.assertIn("use some of --min", self.run_it("fleet", "set", "f3", code=2).stderr)
        self.assertIn("--max must be", self.run_it("fleet", "set", "f3", "--max", "-1", code=2).stderr)

    def test_fleet_demand(self):
        demand = FLEET["demand"]
        self.check(["fleet", "demand", "big", "--gpus", "16", "--ttl", "5m"], "PUT", "/v1/fleets/big/demand", Reply(body=demand),
                   body='{"gpus":16,"ttl_s":300}')
        self.daemon.requests.clear()
        self.check(["fleet", "demand", "f3"], "GET", "/v1/fleets/f3/demand", Reply(body=demand))
        for words in (["--gpus", "1", "--nodes", "1"], ["--ttl", "5m"], ["--nodes", "x"], ["--nodes", "1", "--ttl", "soon"]):
            self.assertIn("--replicas N, --nodes N or --gpus N", self.run_it("fleet", "demand", "f3", *words, code=2).stderr)

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
        self.assertIn("check that an engine runs", self.run_it("rebalance", "--timeout", "1", code=6).stderr)

    def test_cost_by_dimensions(self):
        row = {"team": "nlp", "gpu": "A10G", "compute_micros": 1000000, "boot_micros": 0, "idle_micros": 500000,
               "lost_work_micros": 250000, "credit_micros": -500000, "total_micros": 1250000, "gpu_hours": 3.25}
        p = self.check(["cost", "--by", "team,gpu", "--since", "2026-01-01T00:00:00Z"], "GET", "/v1/cost",
                       Reply(body={"by": ["team", "gpu"], "rows": [row], "totals": {"total_micros": 1250000}}),
                       "by=team%2Cgpu&since=2026-01-01T00%3A00%3A00.000000Z")
        self.assertEqual(self.rows(p.stdout)[:2],
                         [["TEAM", "GPU", "COMPUTE", "BOOT", "IDLE", "LOST WORK", "CREDIT", "TOTAL USD", "GPU HOURS"],
                          ["nlp", "A10G", "1.0000", "0.0000", "0.5000", "0.2500", "-0.5000", "1.2500", "3.25"]])
        self.assertIn("total  1.250000 USD", p.stdout)

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
        self.daemon.on("GET", "/v1/nodes/..%2Ftokens%3Fx", Reply(body=NODE))
        self.run_it("node", "show", "../tokens?x")
        self.assertEqual(self.only_request().path, "/v1/nodes/..%2Ftokens%3Fx")

    def test_a_name_that_looks_like_a_path_stays_a_word_of_the_query(self):
        self.daemon.on("GET", "/v1/jobs", page([]))
        self.run_it("job", "show", "../tokens?x", code=3)
        self.assertEqual(self.only_request().query, "name=..%2Ftokens%3Fx&limit=200")

    def test_common_options_may_stand_in_front(self):
        self.daemon.on("GET", "/v1/whoami", Reply(body={"name": "ann", "role": "lead", "team": ""}))
        self.run_it("--url", self.daemon.url, "--token-file", self.token_file, "-o", "json", "whoami", env=self.env(SPOTCTL_URL=None))
        self.assertEqual(self.only_request().headers["Authorization"], "Bearer secret-token-123")


if __name__ == "__main__":
    SPOTCTL[0] = os.path.abspath(sys.argv.pop(1))
    unittest.main()
