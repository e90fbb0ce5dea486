#!/usr/bin/env python3
"""spotctl's output, and its exit codes when something is wrong.

usage: render_test.py SPOTCTL [unittest arguments]
"""

import csv
import datetime
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import unittest

from spotctl_case import BUDGET, Case, FLEET, FLEET_PLAN, JOB, NODE, PARKED, POOL, SPOTCTL, page
from spotctl_fake import Reply, problem


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

    def on_terminal(self, *words, env=None, columns=0):
        parent, child = pty.openpty()
        termios.tcsetwinsize(child, (24, columns))
        p = subprocess.Popen([SPOTCTL[0], *words], stdin=subprocess.DEVNULL, stdout=child, stderr=subprocess.PIPE,
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

    def test_a_table_fits_the_terminal(self):
        node = {**NODE, "created_at": "2026-01-02T03:04:05Z"}
        attempt = {"epoch": 1, "rank": 0, "node": "n1", "pool": POOL, "market": "spot", "phase": "EXITED", "exit_reason": "drained", "steps_start": 0,
                   "steps_done": 192, "started_at": "2026-01-02T03:04:05Z", "ended_at": "2026-01-02T03:05:05Z",
                   "drain_why": "interruption notice (pod-disruption-target), 1m59s left"}
        self.daemon.on("GET", "/v1/nodes", page([node]))
        self.daemon.on("GET", "/v1/prices", page([POOL]))
        self.daemon.on("GET", "/v1/pools", page([POOL]))
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body={**JOB, "attempts_list": [attempt], "checkpoints": []}))
        for words in (["node", "ls"], ["prices", "-n", "5"], ["pools"], ["job", "show", "j12"]):
            for columns in (80, 100):
                lines = re.sub(r"\033\[\d+m", "", self.on_terminal(*words, columns=columns)).splitlines()
                self.assertEqual([line for line in lines if len(line) > columns], [], words)
        shown = self.on_terminal("job", "show", "j12", columns=80)
        self.assertEqual(re.sub(r"\s+", "", shown).count("interruptionnotice(pod-disruption-target),1m59sleft"), 1, shown)
        self.assertNotIn("FROM STEP", shown)
        self.assertIn("FROM STEP", self.on_terminal("job", "show", "j12", "-o", "wide", columns=80))
        self.assertIn("FROM STEP", self.on_terminal("job", "show", "j12", columns=300))

    def test_a_narrow_terminal_shortens_times_before_it_drops_columns(self):
        event = {"id": 1, "at": "2026-01-02T03:04:05Z", "entity_id": "n1", "event": "CONFIRMED", "was": "TERMINATING", "now": "GONE", "why": "provider says gone"}
        self.daemon.on("GET", "/v1/events", page([event]))
        out = self.on_terminal("events", columns=74)
        self.assertIn("01-02 03:04Z", out)
        self.assertIn("TERMINATING", out)
        self.daemon.on("GET", "/v1/events", page([{**event, "at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT00:00:00Z")}]))
        self.assertRegex(self.on_terminal("events", columns=74), r"(?m)^ 1 +00:00:00Z ")

    def test_doctor_on_a_terminal_shows_what_is_not_ok(self):
        item = {"provider": "aws", "region": "us-east-1", "name": "launch", "state": "bad", "words": "x" * 90, "fix": "attach the policy", "amount": None}
        done = {"id": "r5", "state": "done", "by": "ann", "providers": "aws", "created_at": "2026-01-01T00:00:00Z", "done_at": None, "bad": 1, "warn": 0,
                "items": [item, {**item, "name": "list", "state": "ok"}]}
        self.daemon.on("POST", "/v1/doctor", Reply(202, done))
        out = self.on_terminal("doctor", columns=80)
        self.assertIn("attach the policy", re.sub(r"\s+", " ", out))
        self.assertEqual(out.replace("\n", "").replace(" ", "").count("x" * 90), 1, out)
        self.assertNotIn(" list ", out)
        self.assertIn(" list ", self.on_terminal("doctor", "--all", columns=80))
        self.assertIn("\tlist\tok\t", self.run_it("doctor", code=1).stdout)

    def test_the_name_of_a_leak_is_what_end_and_keep_take(self):
        self.daemon.on("GET", "/v1/leaks", page([{"provider": "aws", "region": "r", "kind": "instance", "ref": "i-%d" % k} for k in (1, 2)]))
        self.assertEqual(self.run_it("leaks", "-o", "name").stdout, "i-1\ni-2\n")

    def test_leaks_that_nobody_decided_about_are_named(self):
        leak = {"provider": "aws", "region": "r", "kind": "instance", "ref": "i-1", "state": "kept", "said": ""}
        self.daemon.on("GET", "/v1/leaks", page([leak, {**leak, "ref": "i-2", "said": "keep"}, {**leak, "ref": "i-3", "state": "found"}]))
        self.assertIn("1 kept until you decide: 'spotctl leaks end REF'", self.run_it("leaks").stderr)
        self.daemon.on("GET", "/v1/leaks", page([{**leak, "said": "keep"}]))
        self.assertNotIn("until somebody", self.run_it("leaks").stderr)

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
        shown = self.run_it("job", "show", "j12")
        out = shown.stdout
        self.assertEqual(shown.stderr, "")
        self.daemon.on("GET", "/v1/jobs/j13", Reply(body={**detail, "id": "j13", "attempts_list": [{**detail["attempts_list"][0], "exit_reason": "lost"}]}))
        self.assertIn("'spotctl job show j13 --why'", self.run_it("job", "show", "j13").stderr)
        self.assertIn("checkpoint   c9 at step 25, 1000 bytes", out)
        self.assertNotIn("not saved", out)
        self.daemon.on("GET", "/v1/jobs/j14", Reply(body={**detail, "checkpoint": None, "not_stored": "there is no store"}))
        self.assertIn("not saved    there is no store\n", self.run_it("job", "show", "j14").stdout)
        self.assertIn("drained", out)
        self.assertEqual(json.loads(self.run_it("job", "show", "j12", "-o", "json").stdout), detail)
        self.assertEqual(self.run_it("job", "show", "j12", "-o", "name").stdout, "j12\n")
        self.assertEqual(len(list(csv.DictReader(io.StringIO(self.run_it("job", "show", "j12", "-o", "csv").stdout)))), 1)

    def test_a_budget_is_told_and_what_to_do_about_a_parked_job(self):
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body={**JOB, "budget": BUDGET}))
        out = self.run_it("job", "show", "j12").stdout
        self.assertIn("budget       12.50 USD, 4.90 spent, 7.60 left\n", out)
        self.assertNotIn("parked", out)
        p = self.run_it("job", "budget", "j12")
        self.assertEqual(self.rows(p.stdout), [["JOB", "STATE", "LIMIT USD", "SPENT USD", "LEFT USD", "NEEDS USD"],
                                               ["j12", "RUNNING", "12.5000", "4.9000", "7.6000", ""]])
        self.assertEqual(p.stderr, "")
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body=PARKED))
        # Rounded up: 12.123456 and 0.413001 more.
        words = "needs at least 0.42 USD left, which is a budget of 12.54 USD; raise it with 'spotctl job budget j12 AMOUNT', or cancel with 'spotctl job cancel j12'"
        self.assertIn("parked       " + words, self.run_it("job", "show", "j12").stdout)
        p = self.run_it("job", "budget", "j12")
        self.assertIn("parked: " + words, p.stderr)
        self.assertEqual(self.rows(p.stdout)[1], ["j12", "PARKED", "12.5000", "12.1235", "0.3765", "0.4130"])
        self.assertEqual(json.loads(self.run_it("job", "budget", "j12", "-o", "json").stdout), PARKED)
        self.assertEqual(next(csv.DictReader(io.StringIO(self.run_it("job", "budget", "j12", "-o", "csv").stdout)))["NEEDS USD"], "0.413001")
        self.assertIn("\033[33mPARKED", self.on_terminal("job", "show", "j12", env=self.env(TERM="xterm")))

    def test_a_job_without_a_budget_says_how_to_set_one(self):
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body={**JOB, "budget": None}))
        self.assertIn("'spotctl job budget j12 AMOUNT' sets one", self.run_it("job", "budget", "j12").stderr)
        self.assertNotIn("budget", self.run_it("job", "show", "j12").stdout)
        self.daemon.on("PATCH", "/v1/jobs/j12", problem(409, "conflict", "job j12 has cost 4.900000 USD already", field="budget_usd"))
        self.assertIn("has cost 4.900000 USD", self.run_it("job", "budget", "j12", "1", code=4).stderr)

    def test_verdicts_are_told_with_what_was_seen_by_whom(self):
        v = {"id": 1, "at": "2026-01-01T00:01:00Z", "node": "n7", "job": "j12", "epoch": 1, "rank": 0, "verdict": "lost", "why": "provider says gone: x",
             "over_since_at": "2026-01-01T00:00:15Z", "missed": True, "alive_after_at": "2026-01-01T00:05:00Z", "alive_after_why": "its agent spoke",
             "seen": {"agent": {"enrolled_at": None, "spoke_at": "2026-01-01T00:00:15Z", "job": "j12", "epoch": 1, "step": 40},
                      "provider": {"state": "gone", "since_at": "2026-01-01T00:01:00Z", "said_at": "2026-01-01T00:01:00Z", "reason": "terminated\033[2J",
                                   "past": [{"state": "running", "at": "2026-01-01T00:00:00Z", "by": "asked"}], "answers_without_it": 2, "unanswered": 3,
                                   "unanswered_at": "2026-01-01T00:00:50Z", "unanswered_why": "timeout"},
                      "notices": [{"kind": "interruption", "by": "imds", "heard_at": "2026-01-01T00:00:10Z", "deadline_at": None}],
                      "job": {"job": "j12", "epoch": 1, "rank": 0, "phase": "RUNNING", "step": 38, "step_at": None, "ended_at": None, "checkpoint": "c9"},
                      "daemon": {"listens_at": "2025-12-31T23:01:00Z", "other_agents": 2, "others_spoke_at": "2026-01-01T00:00:58Z"}}}
        why = {"job": "j12", "state": "RUNNING", "why": "", "class_why": "", "queue": None, "decisions": [], "events": [], "verdicts": [v]}
        self.daemon.on("GET", "/v1/jobs/j12/why", Reply(body=why))
        out = self.run_it("job", "show", "--why", "j12").stdout
        for words in ("n7  lost  j12: provider says gone: x", "agent     polled last 45s before, it had j12 try 1 at step 40\n",
                      "provider  gone, received at that moment, saying: terminated?[2J; it said running (asked) 1m00s before; 2 consecutive complete answers lacked it; "
                      "3 consecutive queries without a complete answer, the last 10s before: timeout", "notice    interruption by imds, received 50s before",
                      "job       j12 try 1 was RUNNING at step 38, newest checkpoint c9", "daemon    listened since 1h00m before; the last of 2 other agents polled 2s before",
                      "over      since 45s before: found too late (missed loss)", "but       it was alive (false recovery): its agent spoke"):
            self.assertIn(words, out)
        self.assertEqual(json.loads(self.run_it("job", "show", "--why", "j12", "-o", "json").stdout), why)
        v["seen"]["agent"] = {"enrolled_at": None, "spoke_at": None, "job": None, "epoch": None, "step": None}
        self.daemon.on("GET", "/v1/jobs/j12/why", Reply(body=why))
        self.assertIn("    agent     never polled\n", self.run_it("job", "show", "--why", "j12").stdout)

    def test_fleet_and_node_in_full(self):
        self.daemon.on("GET", "/v1/fleets/f3", Reply(body=FLEET))
        out = self.run_it("fleet", "show", "f3").stdout
        self.assertIn("f3\tbig\tACTIVE\t2/5 0-20\tqueue\t2\t1\t2\t1.0000", out)
        for line in ("size      2/5 0-20: 2 with work, 0 idle, 0 on their way", "why       2 nodes with work, 3 jobs in the queue",
                     "next      its size is decided again at 2026-01-01T00:05:00Z", "pools     1: 1 in aws/", "demand    4 replicas by vllm until 2026-01-01T00:02:00Z",
                     "price     1.0000 USD/h; on demand 4.0000 USD/h, saves 75 %"):
            self.assertIn(line, out)
        size = {**FLEET["size"], "unit": "gpus", "gpus_of": "H100", "have": 2.123456, "used": 2.123456}
        self.daemon.on("GET", "/v1/fleets/f3", Reply(body={**FLEET, "size": size}))
        self.assertIn("size      2.12/5 0-20 H100: 2.12 with work", self.run_it("fleet", "show", "f3").stdout)
        self.daemon.on("GET", "/v1/fleets", page([FLEET, {**FLEET, "id": "f4", "name": "a-name-of-some-length"}]))
        lines = re.sub(r"\033\[\d+m", "", self.on_terminal("fleet", "ls", columns=80)).splitlines()
        self.assertIn("2/5 0-20", lines[1])
        self.assertEqual([x for x in lines if len(x) > 80], [])
        self.assertIn("n7\tREADY", out)
        self.assertRegex(out, r"\tCAPACITY ENDS\nn7\t.*\t\n")
        ends = {**NODE, "ends_at": "2026-12-05T11:00:00Z"}
        self.daemon.on("GET", "/v1/fleets/f3", Reply(body={**FLEET, "nodes": [ends]}))
        self.assertIn("\t2026-12-05T11:00:00Z\n", self.run_it("fleet", "show", "f3").stdout)
        shown = re.sub(r"\033\[\d+m", "", self.on_terminal("fleet", "show", "f3", columns=80)).splitlines()
        self.assertEqual([x for x in shown if len(x) > 80], [])
        self.assertTrue(any("12-05 11:00Z" in x for x in shown), shown)
        self.daemon.on("GET", "/v1/nodes", page([ends]))
        self.assertIn("2026-12-05T11:00:00Z", self.run_it("node", "ls", "-o", "wide").stdout)
        self.assertIn("\t0.4123\t59 %\tj12", out)
        self.assertIn(" 75 %", lines[1])
        moves = {"moves": [{"node": "n7", "job": None, "to": {**POOL, "zone": "use1-az9"}, "why": "saves 0.4000 USD/h for 8h, the move costs 0.1000 USD"},
                           {"node": "n8", "job": None, "to": POOL, "why": ""}], "kept": []}
        self.daemon.on("GET", "/v1/fleets/f3", Reply(body={**FLEET, "moves": moves}))
        self.assertIn("next      n7 moves to aws/use1-az9: saves 0.4000 USD/h for 8h, the move costs 0.1000 USD; 1 more; its size is decided again at 2026-01-01T00:05:00Z",
                      self.run_it("fleet", "show", "f3").stdout)
        shown = re.sub(r"\033\[\d+m", "", self.on_terminal("fleet", "show", "f3", columns=80)).splitlines()
        self.assertEqual([x for x in shown if len(x) > 80], [])
        self.assertTrue(any(x.startswith("          0.1000 USD; 1 more") for x in shown), shown)
        self.daemon.on("GET", "/v1/fleets/f3", Reply(body={**FLEET, "plan": FLEET_PLAN}))
        shown = self.run_it("fleet", "show", "f3")
        self.assertIn("p1\taws\tr\tz\tg5", shown.stdout)
        self.assertIn("limits.per_zone\taws r z\t3\t3", shown.stdout)
        self.assertIn("expected 10.0500 USD per hour of work + risk 1.6000 = 11.6500 USD", shown.stderr)
        self.assertIn("lower bound 11.0000 USD: gap 5.580 %", shown.stderr)
        self.assertIn("1 missing", shown.stderr)
        node = {**NODE, "notice": {"kind": "interruption"}, "notices": [
            {"kind": "interruption", "heard_at": "2026-01-01T00:00:00Z", "deadline_at": "2026-01-01T00:02:00Z", "source": "imds"}]}
        self.daemon.on("GET", "/v1/nodes/n7", Reply(body=node))
        self.assertIn("interruption\t2026-01-01T00:00:00Z\t2026-01-01T00:02:00Z\timds", self.run_it("node", "show", "n7").stdout)

    def history(self):
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        at = lambda hours: (now - datetime.timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
        points = [{"at": at(h), "effective_at": at(h), "price_micros": m} for h, m in ((30, 100000), (16, 150000), (8, 200000))]
        return {**POOL, "observed_at": at(4), "age_s": 4 * 3600, "price_state": "stale", "history": points,
                "gaps": [{"from_at": at(14), "to_at": at(10)}], "marks": [{"at": at(2), "kind": "reclaimed", "node": "n1"}]}

    def test_price_history_is_drawn(self):
        self.daemon.on("GET", "/v1/pools/p44", Reply(body=self.history()))
        lines = self.run_it("pools", "show", "p44", "--history", "1d").stdout.splitlines()
        top = next(x for x in lines if x.startswith("   0.2000 +"))
        axis = next(x for x in lines if x.startswith("          +"))
        # 64 columns for 24 hours: the silence and the time since the last poll are empty
        self.assertRegex(axis, r"^          \+-{26,27}\.{10,12}-{15,17}\.{10,12}$")
        self.assertIn("####", top)
        self.assertIn("r = reclaimed (1), x = refused (0)", "\n".join(lines))
        self.assertIn("now 0.2000 (stale, seen 4h00m ago)", "\n".join(lines))
        self.assertIn("empty: unknown", lines)

    def test_blocks_are_for_terminals_of_utf8(self):
        self.daemon.on("GET", "/v1/pools/p44", Reply(body=self.history()))
        self.assertIn("█", self.on_terminal("pools", "show", "p44", env=self.env(LC_ALL="C.UTF-8")))
        plain = self.on_terminal("pools", "show", "p44", env=self.env(LC_ALL="C"))
        self.assertNotIn("█", plain)
        self.assertIn("###", plain)

    def test_prices_stand_side_by_side_per_gpu(self):
        offer = lambda provider, market, micros, state="fresh": {"per_gpu_micros": micros, "pool": {**POOL, "provider": provider, "market": market, "price_state": state}}
        self.daemon.on("GET", "/v1/prices/gpus", page([
            {"gpu": "A10G", "offers": [offer("aws", "spot", 412300), offer("aws", "on_demand", 1006000)]},
            {"gpu": "H100-80GB-SXM", "offers": [offer("aws", "spot", 2400000, "frozen"), offer("gcp", "spot", 2250000, "stale"), offer("lambda", "on_demand", 2990000)]}]))
        p = self.run_it("prices")
        self.assertEqual(self.rows(p.stdout), [
            ["GPU", "AWS SPOT", "AWS OD", "GCP SPOT", "GCP OD", "LAMBDA SPOT", "LAMBDA OD"],
            ["A10G", "0.4123", "1.0060", "", "", "", ""],
            ["H100-80GB-SXM", "2.4000=", "", "2.2500~", "", "", "2.9900"]])
        self.assertIn("~ stale", p.stderr)

    def test_the_cheapest_of_each_gpu_and_cloud_tell_age_source_interval_and_room(self):
        pool = lambda provider, source: {**POOL, "provider": provider, "source": source, "signals": [{"kind": "capacity", "value": 0}],
                                         "hazard": {"per_hour": 0.01, "lo": 0.002, "hi": 0.05, "source": "own record"}}
        self.daemon.on("GET", "/v1/prices/gpus", page([
            {"gpu": "A10G", "offers": [{"per_gpu_micros": 412300, "pool": pool("aws", "DescribeSpotPriceHistory")}]},
            {"gpu": "T4", "offers": [{"per_gpu_micros": 412300, "pool": pool("azure", "RetailPrices")}]}]))
        head, *rows = self.rows(self.run_it("prices", "--cheapest").stdout)
        got = [dict(zip(head, cells)) for cells in rows]
        self.assertEqual([[g[k] for k in ("PROVIDER", "AGE", "STATE", "RECLAIMS/H", "FROM", "CAPACITY", "SOURCE")] for g in got],
                         [[p, "1m05s", "fresh", "0.0020..0.0500", "own record", "has none", s] for p, s in (("aws", "DescribeSpotPriceHistory"), ("azure", "RetailPrices"))])
        self.assertIn("--zone", self.run_it("prices", "--cheapest", "--zone", "z", code=2).stderr)

    def test_prices_of_one_gpu_have_interval_source_and_room(self):
        signals = [{"kind": "placement_score", "value": 7}, {"kind": "obtainability", "value": 0.62},
                   {"kind": "fulfilment", "value": 0.271, "lo": 2.9, "hi": 10.8}, {"kind": "capacity", "value": 0}]
        row = {**POOL, "signals": signals, "hazard": {"per_hour": 0.01, "lo": 0.002, "hi": 0.05, "source": "spot advisor"}}
        self.daemon.on("GET", "/v1/prices", page([row]))
        head, cells = self.rows(self.run_it("prices", "--gpu", "A10G").stdout)
        got = dict(zip(head, cells))
        self.assertEqual([got[k] for k in ("USD/H", "AGE", "STATE", "RECLAIMS/H", "FROM", "CAPACITY", "SOURCE")],
                         ["0.4123", "1m05s", "fresh", "0.0020..0.0500", "spot advisor", "score 7/10, odds 62 %, filled 27 % of 11, has none", "DescribeSpotPriceHistory"])

    def test_refused_prices_say_why(self):
        self.daemon.on("GET", "/v1/prices/refused", page([{"pool": POOL, "refused_micros": 10000, "observed_at": "2026-01-01T00:00:00Z",
                                                           "age_s": 60, "source": "x", "why": "too little"}]))
        self.assertEqual(self.rows(self.run_it("prices", "--refused", "-p", "aws").stdout)[1],
                         ["p44", "aws/use1-az4", "g5.xlarge", "1xA10G", "spot", "0.0100", "0.4123", "1m00s", "x", "too little"])
        self.run_it("prices", "--refused", "--max", "3", code=2)

    def test_doctor_shows_what_to_fix_and_fails_when_something_is_bad(self):
        item = {"provider": "aws", "region": "us-east-1", "name": "launch", "state": "bad", "words": "UnauthorizedOperation", "fix": "attach the policy", "amount": None}
        done = {"id": "r5", "state": "done", "by": "ann", "providers": "aws", "created_at": "2026-01-01T00:00:00Z", "done_at": None, "bad": 1, "warn": 0, "items": [item]}
        self.daemon.on("POST", "/v1/doctor", Reply(202, {**done, "state": "pending", "bad": 0, "items": []}))
        self.daemon.on("GET", "/v1/doctor/r5", Reply(body=done))
        p = self.run_it("doctor", "aws", code=1)
        self.assertEqual(self.rows(p.stdout)[1], ["aws", "us-east-1", "launch", "bad", "UnauthorizedOperation", "attach the policy"])
        self.assertIn("1 bad", p.stderr)
        self.assertEqual(json.loads(self.run_it("doctor", "-o", "json", code=1).stdout), done)
        self.daemon.on("GET", "/v1/doctor/r5", Reply(body={**done, "bad": 0, "items": []}))
        self.run_it("doctor")
        self.daemon.on("GET", "/v1/doctor/r5", Reply(body={**done, "state": "running"}))
        self.assertIn("check that an engine runs", self.run_it("doctor", "--timeout", "1", code=6).stderr)

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

    def test_plan_fits_eighty_columns_and_says_why_the_chosen_row_is_chosen(self):
        far = {**POOL, "id": "p1234", "provider": "azure", "zone": "southcentralus-3", "gpu": "A100-80GB-SXM4", "gpus": 16, "market": "on_demand",
               "instance_type": "Standard_NC96ads_A100_v4"}
        offer = {"pool": far, "chosen": False, "price_micros": 98320000, "launch_odds": 0.998, "hours_to_finish": 1234.5, "deadline_risk": 0.003,
                 "total_micros": 99321123456}
        spread = {"pool": "p1234", "market": "spot", "expected_micros": 99321123456, "cost_p5_micros": 99321123456, "cost_p50_micros": 99321123456,
                  "cost_p95_micros": 99321123456, "hours_p5": 1, "hours_p50": 1234.5, "hours_p95": 1234.5, "deadline_risk": 0.0001, "runs": 2000, "seed": 9}
        decision = {"choice": "on_demand", "kind": "failover", "pool": "p1234", "why": "deadline: the last safe moment " * 5, "until_at": None,
                    "passed_over": {"pool": "p7", "total_micros": 1, "why": "it needs 99.0 hours and would miss the deadline"}, "deadline": None}
        plan = {"offers": [{**offer, "pool": {**far, "id": "p7"}}, {**offer, "chosen": True}], "refused": [], "chosen": spread,
                "baselines": {"on_demand": spread, "cheapest_listed": spread}, "job": {"class_why": "training: " + "may be interrupted " * 9},
                "decision": decision, "submit_refusal": None, "warnings": ["a warning " * 20],
                "gang": {"nodes": 2, "offers": [{"pool": "p1234", "place": "azure/southcentralus-3/Standard_NC96ads_A100_v4", "market": "on_demand",
                                                 "hours": 1234.5, "total_micros": 99321123456, "refused": "another gang is being acquired there"}]}}
        self.daemon.on("POST", "/v1/plan", Reply(body=plan))
        p = self.run_it("plan", self.file("run: x\n"))
        lines = re.sub(r"\033\[\d+m", "", self.on_terminal("plan", self.file("run: x\n"))).splitlines() + p.stderr.splitlines()
        self.assertGreater(len(lines), 12)
        self.assertEqual([l for l in lines if len(l) > 80], [])
        self.assertIn("chosen: p1234, azure/southcentralus-3 Standard_NC96ads_A100_v4 on_demand:", " ".join(p.stderr.split()))
        self.assertIn("passed over: p7, which stands first: it needs 99.0 hours", " ".join(p.stderr.split()))
        rows = self.rows(p.stdout)
        self.assertEqual(rows[0], ["", "POOL", "PLACE", "GPU", "MARKET", "USD/H", "ODDS", "HOURS", "LATE", "USD"])
        self.assertEqual(rows[2][:2] + rows[2][4:], ["*", "p1234", "demand", "98.32", ">99%", "1234", "<1%", "99321"])
        # A file that submit would refuse ends as submit does.
        refusal = {"code": "invalid", "field": "config.spotctl.deadline", "detail": "cannot be met"}
        self.daemon.on("POST", "/v1/plan", Reply(body={**plan, "submit_refusal": refusal}))
        self.assertIn("submitting this file would be refused: config.spotctl.deadline: cannot be met", self.run_it("plan", self.file("run: x\n"), code=2).stderr)
        self.assertEqual(json.loads(self.run_it("plan", self.file("run: x\n"), "-o", "json", code=2).stdout)["submit_refusal"], refusal)

    def test_plan_wide_shows_every_term_and_what_others_would_do(self):
        terms = {"work_h": 10.0, "paid_hours": 10.25, "price_micros": 1234567, "compute_micros": 12654312, "egress_micros": 20, "total_micros": 12654332}
        spread = {"pool": "p1", "market": "spot", "expected_micros": 12654332, "cost_p5_micros": 1, "cost_p50_micros": 2, "cost_p95_micros": 3000000,
                  "hours_p5": 10, "hours_p50": 11, "hours_p95": 12, "interruptions": 0.5, "lost_work_hours": 0.1, "moves": 0.2, "deadline_risk": 0.031, "runs": 2000, "seed": 9}
        self.daemon.on("POST", "/v1/plan", Reply(body={"offers": [{"pool": POOL, "chosen": True, "terms": terms}], "refused": [], "chosen": spread,
                                                       "baselines": {"on_demand": {**spread, "pool": "p7"}, "cheapest_listed": None}, "job": {"class_why": "training: may be interrupted"}}))
        p = self.run_it("plan", self.file("run: x\n"), "--seed", "9", "-o", "wide")
        self.assertEqual(self.daemon.requests[-1].query, "seed=9")
        rows = self.rows(p.stdout)
        at = dict(zip(rows[0], rows[1]))
        self.assertEqual((at["PAID H"], at["PRICE"], at["COMPUTE"], at["EGRESS"], at["TOTAL"]), ("10.250000", "1.234567", "12.654312", "0.000020", "12.654332"))
        self.assertEqual([r[:3] for r in rows[-2:]], [["chosen", "p1", "12.6543"], ["on demand only", "p7", "12.6543"]])
        self.assertIn("0.03100", rows[-1])
        self.assertIn("2000 times (--seed 9); training: may be interrupted", p.stderr)


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
        p = self.run_it("pools", env=self.env(SPOTCTL_URL="http://127.0.0.1:1"), code=6)
        self.assertIn("start a daemon with 'spotd --local'", p.stderr)

    def test_somebody_else_there(self):
        self.daemon.on("GET", "/v1/pools", Reply(text="<html>", content_type="text/html"))
        self.assertIn("check that it is a Spotbroker daemon", self.run_it("pools", code=1).stderr)
        self.daemon.on("GET", "/v1/pools", Reply(body={"other": 1}))
        self.assertIn("lacks its list", self.run_it("pools", code=1).stderr)
        self.daemon.on("GET", "/v1/pools", Reply(text='{"items": [', content_type="application/json"))
        self.run_it("pools", code=1)

    def test_an_error_page_without_json(self):
        self.daemon.on("GET", "/v1/pools", Reply(500, text="oh no", content_type="text/plain"))
        self.assertIn("returned status 500 without a reason: oh no", self.run_it("pools", code=1).stderr)

    def test_without_a_token_one_is_told_how_to_give_it(self):
        self.daemon.on("GET", "/v1/pools", problem(401, "unauthenticated", "a bearer token is needed"))
        p = self.run_it("pools", env=self.env(SPOTCTL_TOKEN_FILE=None), code=5)
        self.assertIn("spotctl login", p.stderr)
        self.assertIsNone(self.only_request().headers["Authorization"])

    def test_a_token_file_that_others_can_read_is_refused(self):
        os.chmod(self.token_file, 0o644)
        p = self.run_it("pools", code=5)
        self.assertIn(self.token_file, p.stderr)
        self.assertNotIn("secret-token", p.stderr)
        self.assertEqual(self.daemon.requests, [])

    def test_a_url_with_a_password_is_refused_and_not_shown(self):
        p = self.run_it("--url", "https://ann:%s@example.com" % "hunter2", "pools", code=2)
        self.assertNotIn("hunter2", p.stderr)

    def test_urls_that_are_no_server(self):
        for url in ("file:///etc/passwd", "https://", "http://h/?x=1", "gopher://x"):
            with self.subTest(url=url):
                self.run_it("--url", url, "pools", code=2)

    def test_unwritable_output(self):
        self.daemon.on("GET", "/v1/jobs", page([JOB]))
        with open("/dev/full", "w") as full:
            p = subprocess.run([SPOTCTL[0], "job", "ls"], stdout=full, stderr=subprocess.PIPE, text=True, env=self.env(), timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn("cannot write to standard output", p.stderr)

    def test_a_broken_pipe_ends_quietly(self):
        self.daemon.on("GET", "/v1/jobs", page([{**JOB, "why": "x" * 1000, "id": "j%d" % i} for i in range(1000)]))
        p = subprocess.Popen([SPOTCTL[0], "job", "ls", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env())
        p.stdout.readline()
        p.stdout.close()
        err = p.stderr.read()
        p.stderr.close()
        self.assertEqual((p.wait(), err), (-signal.SIGPIPE, b""))


if __name__ == "__main__":
    SPOTCTL[0] = os.path.abspath(sys.argv.pop(1))
    unittest.main()
