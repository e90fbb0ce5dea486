#!/usr/bin/env python3
"""spotctl over time and restarts, its settings, and its usage.

usage: life_test.py SPOTCTL [unittest arguments]
"""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import unittest

from spotctl_case import Case, JOB, PARKED, SPOTCTL, page
from spotctl_fake import FakeDaemon, Reply, problem


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

    def test_a_key_under_way_is_waited_for(self):
        """Its first request may have died with its daemon: the same key, until it is free again."""
        busy = problem(409, "conflict", "a request with this Idempotency-Key is in progress; repeat it in a second")
        busy.headers["Retry-After"] = "0"
        self.daemon.on("POST", "/v1/jobs", *[busy] * 9, Reply(201, JOB))
        self.assertEqual(self.run_it("job", "submit", self.file("run: x\n"), "--key", "k1").stdout, "j12\n")
        self.assertEqual([r.headers["Idempotency-Key"] for r in self.daemon.requests], ["k1"] * 10)

    def test_a_request_without_a_key_is_not_repeated(self):
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

    def test_job_wait_continues_while_parked_and_says_what_is_needed(self):
        self.daemon.on("GET", "/v1/jobs/j12", Reply(body=PARKED), Reply(body=PARKED), Reply(body={**JOB, "state": "QUEUED", "why": "funded"}),
                       Reply(body={**JOB, "state": "SUCCEEDED", "why": "done"}))
        err = self.run_it("job", "wait", "j12").stderr
        self.assertIn("j12: PARKED its budget is used up", err)
        self.assertEqual(err.count("j12: needs at least 0.42 USD left"), 1)
        self.assertIn("still waiting\n", err)
        self.assertLess(err.index("PARKED"), err.index("SUCCEEDED"))

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
        p = subprocess.run([SPOTCTL[0], "job", "logs", "j12"], capture_output=True, env=self.env(), timeout=60)
        self.assertEqual(p.stdout, b"\xff\x00\n")

    def event(self, n):
        return {"id": n, "at": "2026-01-01T00:00:00Z", "entity_id": "j12", "event": "E%d" % n, "was": "", "now": "", "why": "w"}

    def sse(self, n):
        return "id: %d\nevent: job\ndata: %s\n\n" % (n, json.dumps(self.event(n)))

    def follow(self, count, *words, parts=()):
        self.daemon.on("GET", "/v1/events", *parts)
        p = subprocess.Popen([SPOTCTL[0], "events", "-f", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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
        p = subprocess.Popen([SPOTCTL[0], "job", "ls", "--watch", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
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
    def test_a_noun_alone_names_its_actions(self):
        self.assertIn("usage: spotctl leaks\n       spotctl leaks end REF: terminate a leak now", self.run_it("leaks", "--help").stdout)
        self.assertNotIn("spotctl leaks keep", self.run_it("leaks", "end", "--help").stdout)

    def test_wrong_words_are_refused_with_help(self):
        for words, text in (
                (["prcies"], "did you mean 'prices'"), (["job", "list"], "did you mean 'ls'"), (["jobs"], "did you mean 'job'"),
                (["xyzzy"], "'spotctl help' lists them"), (["job"], "job submit FILE"), (["prices", "x"], "usage: spotctl prices"),
                (["job", "show"], "usage: spotctl job show JOB"), (["job", "ls", "--bogus"], "no option '--bogus'"),
                (["job", "ls", "-nx"], "--limit must be a number"), (["job", "ls", "-o", "xml"], "table, wide, json, csv or name"),
                (["job", "ls", "--watch=0"], "--watch must be seconds"), (["job", "logs", "j1", "-o", "json"], "does not apply"),
                (["job", "submit", "x", "--watch"], "does not apply"), (["job", "ls", "--state"], "--state needs a value: LIST"),
                (["node", "ls", "--all=yes"], "takes no value"), (["fleet", "scale", "f1"], "--nodes N or --gpus N"),
                (["fleet", "scale", "f1", "--nodes", "-1"], "--nodes N or --gpus N"), (["job", "show", ""], "must not be empty"),
                (["job", "submit", "/nonexistent.yaml"], "No such file"), (["cost", "--since", "yesterday"], "such as 7d"),
                (["cost", "--job", "j1", "--by", "team"], "cannot be combined with"), (["events", "--after", "x"], "number of an event"),
                (["events", "-f", "-o", "csv"], "--follow needs -o"), (["token", "create", "x", "--expires", "soon"], "such as 90d"),
                (["job", "cancel", *["j1"] * 65], "more than 64 arguments"), (["completion", "tcsh"], "bash, zsh or fish"),
                (["leaks", "ned"], "leaks: no action 'ned'; did you mean 'end'?"), (["rebalance", "xyzzy"], "rebalance report"),
                (["help", "xyzzy"], "no command 'xyzzy'"), (["job", "submit", "x", "-f", "--json"], "--follow prints a log")):
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
        self.daemon.on("GET", "/v1/fleets/-x", Reply(404, body={"status": 404, "code": "not_found", "detail": "no such fleet"}))
        self.assertIn("no such fleet", self.run_it("fleet", "show", "--", "-x", code=3).stderr)

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
    SPOTCTL[0] = os.path.abspath(sys.argv.pop(1))
    unittest.main()
