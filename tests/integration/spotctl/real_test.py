#!/usr/bin/env python3
"""spotctl against the real daemon with its private Postgres: each understands the other, also over kill -9.

usage: real_test.py SOURCE_ROOT SPOTCTL SPOTD [unittest arguments]
"""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support.spotd import Spotd  # noqa: E402
from world import free_port  # noqa: E402

ROOT = SPOTCTL = SPOTD = None


class Daemon:
    """One installation: spotd --local without an account anywhere."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="spotctl-real-")
        os.chmod(self.dir, 0o711)  # of root, the database runs as another user
        self.url = "http://127.0.0.1:%d" % free_port()
        self.conf = os.path.join(self.dir, "spotd.conf")
        self.state = os.path.join(self.dir, "state.json")
        with open(self.conf, "w") as f:
            f.write("[api]\nlisten = %s\n" % self.url[len("http://"):])
        # no account anywhere, and no look for one
        self.env = {"PATH": os.environ["PATH"], "HOME": self.dir, "XDG_DATA_HOME": os.path.join(self.dir, "data"),
                    "AWS_EC2_METADATA_DISABLED": "true"}
        self.spotd = None

    def start(self):
        if os.path.exists(self.state):
            os.unlink(self.state)
        self.spotd = Spotd([SPOTD, "--local", "--config", self.conf, "--state-file", self.state], self.dir, self.env)
        self.spotd.start()
        self.spotd.await_state(self.state)

    def kill(self):
        self.spotd.kill9()
        self.spotd.stop()

    def stop(self):
        self.spotd.stop()
        subprocess.run(["rm", "-rf", self.dir], check=False)

    def spotctl_env(self):
        return {**self.env, "SPOTCTL_URL": self.url}


class Real(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.daemon.start()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def run_it(self, *words, code=0):
        p = subprocess.run([SPOTCTL, *words], capture_output=True, text=True, timeout=120, env=self.daemon.spotctl_env())
        self.assertEqual(p.returncode, code, "%s\n%s\n%s" % (words, p.stdout, p.stderr))
        return p

    def example(self, name):
        return os.path.join(ROOT, "deploy/examples", name)

    def submit(self):
        return self.run_it("job", "submit", self.example("train-cpu.yaml")).stdout.strip()

    def test_the_local_token_is_found_and_is_the_admins(self):
        rows = list(csv.DictReader(io.StringIO(self.run_it("whoami", "-o", "csv").stdout)))
        self.assertEqual(rows[0]["ROLE"], "admin")

    def test_every_list_answers_in_every_format(self):
        for words in (["prices"], ["pools"], ["providers"], ["quota"], ["job", "ls"], ["node", "ls"], ["node", "ls", "--all"],
                      ["fleet", "ls"], ["events"], ["token", "ls"], ["cost"], ["cost", "--by", "team,project,class,provider,gpu,job,market,kind"],
                      ["cost", "--since", "7d", "--until", "1d"], ["version"]):
            with self.subTest(words=words):
                for form in ("table", "wide", "json", "csv", "name"):
                    out = self.run_it(*words, "-o", form).stdout
                    if form == "json":
                        json.loads(out)

    def test_every_filter_is_known_to_the_daemon(self):
        market = ["-g", "A100", "-p", "aws", "-r", "us-east-1", "--zone", "z", "-t", "g5.xlarge", "-m", "spot", "--state", "fresh",
                  "--max", "2.5", "-n", "5"]
        for words in (["prices", *market], ["pools", *market], ["quota", "-p", "aws", "-r", "us-east-1"],
                      ["job", "ls", "-s", "active", "--team", "t", "--project", "p", "--class", "eval", "-u", "x", "--name", "n", "-n", "5"],
                      ["node", "ls", "-s", "READY,BOOTING", "-p", "aws", "-j", "j1", "--fleet", "f1", "-n", "5"],
                      ["fleet", "ls", "--state", "ACTIVE", "--team", "t", "-n", "5"], ["events", "--job", "j1", "--node", "n1", "--after", "0"],
                      ["token", "ls", "-n", "5"]):
            with self.subTest(words=words):
                self.run_it(*words)

    def test_the_life_of_a_job(self):
        job = self.submit()
        self.assertRegex(job, r"^j\d+$")
        self.assertIn(job, self.run_it("job", "ls", "-o", "name").stdout.split())
        shown = json.loads(self.run_it("job", "show", job, "-o", "json").stdout)
        self.assertEqual((shown["name"], shown["class"]), ("train-cpu", "training"))
        self.assertIn("train-cpu", self.run_it("job", "show", job).stdout)
        self.assertIn("SUBMITTED", self.run_it("job", "why", job).stdout)
        self.run_it("job", "logs", job)
        for words, limit in ((["30"], "30.000000"), ([], "30.000000"), (["12.345678"], "12.345678"), (["none"], "")):
            row = next(csv.DictReader(io.StringIO(self.run_it("job", "budget", job, *words, "-o", "csv").stdout)))
            self.assertEqual((row["JOB"], row["LIMIT USD"]), (job, limit))
        self.assertIn("total  0.000000 USD", self.run_it("cost", "--job", job).stdout)
        self.run_it("job", "cancel", job)
        self.assertIn("CANCELLED", self.run_it("job", "wait", job, "--timeout", "60", code=1).stderr)
        self.run_it("job", "cancel", "j999999", code=3)
        self.run_it("job", "cancel", job, "j999999", code=8)

    def test_the_same_key_makes_one_job(self):
        words = ["job", "submit", self.example("train-cpu.yaml"), "--key", "once"]
        self.assertEqual(self.run_it(*words).stdout, self.run_it(*words).stdout)
        self.run_it("job", "submit", self.example("train.yaml"), "--key", "once", code=4)

    def test_the_life_of_a_fleet(self):
        row = list(csv.DictReader(io.StringIO(self.run_it("fleet", "create", self.example("fleet.yaml"), "-o", "csv").stdout)))[0]
        self.assertEqual((row["NAME"], row["WANT NODES"]), ("research-fleet", "8"))
        fleet = row["FLEET"]
        self.run_it("fleet", "create", self.example("fleet.yaml"), code=4)
        row = list(csv.DictReader(io.StringIO(self.run_it("fleet", "scale", fleet, "--nodes", "3", "-o", "csv").stdout)))[0]
        self.assertEqual(row["WANT NODES"], "3")
        self.run_it("fleet", "show", fleet)
        self.run_it("node", "ls", "--fleet", "research-fleet")
        self.run_it("fleet", "rm", fleet)

    def test_a_rebalance_is_answered(self):
        self.assertIn("nothing to move", self.run_it("rebalance", "--dry-run", "--timeout", "60").stderr)

    def test_a_plan_that_nothing_suits(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write("resources: {accelerators: H100:8}\nrun: x\n")
            f.flush()
            self.run_it("plan", f.name, code=7)

    def test_a_plan_ends_as_submit_would(self):
        """This daemon has no store to mount from."""
        said = self.run_it("plan", self.example("train.yaml"), code=2).stderr
        self.assertIn("submitting this file would be refused", said)
        self.assertIn("file_mounts", self.run_it("job", "submit", self.example("train.yaml"), code=2).stderr)

    def test_a_bad_job_file_is_refused_with_its_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write("run: x\nresorces: {}\n")
            f.flush()
            self.assertIn("line 2, column 1", self.run_it("job", "submit", f.name, code=2).stderr)

    def test_things_that_are_not_there(self):
        for words in (["job", "show", "j999999"], ["node", "show", "n999999"], ["node", "rm", "n999999"], ["node", "drain", "n999999"],
                      ["fleet", "show", "f999999"], ["pools", "show", "p999999"], ["token", "rm", "t999999"], ["job", "logs", "j999999"],
                      ["job", "why", "j999999"], ["cost", "--job", "j999999"]):
            with self.subTest(words=words):
                self.assertNotEqual(self.run_it(*words, code=3).stderr, "")

    def test_a_viewers_token_may_look_and_no_more(self):
        token = self.run_it("token", "create", "looker", "--role", "viewer", "--expires", "1d").stdout
        path = os.path.join(self.daemon.dir, "looker")
        with open(path, "w") as f:
            f.write(token)
        os.chmod(path, 0o600)
        self.run_it("job", "ls", "--token-file", path)
        self.run_it("job", "submit", self.example("train-cpu.yaml"), "--token-file", path, code=5)
        ids = {t["name"]: t["id"] for t in json.loads(self.run_it("token", "ls", "-o", "json").stdout)["items"]}
        self.run_it("token", "rm", ids["looker"])
        self.run_it("job", "ls", "--token-file", path, code=5)

    def test_waiting_and_the_event_stream_outlive_a_killed_daemon(self):
        job = self.submit()
        env = self.daemon.spotctl_env()
        wait = subprocess.Popen([SPOTCTL, "job", "wait", job], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        events = subprocess.Popen([SPOTCTL, "events", "-f", "--job", job, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, env=env)
        seen = [json.loads(events.stdout.readline())]  # both are at it
        self.assertIn(job, wait.stderr.readline())
        self.addCleanup(wait.stderr.close)
        self.addCleanup(events.stdout.close)
        self.daemon.kill()
        self.daemon.start()
        self.run_it("job", "cancel", job)
        err = wait.communicate(timeout=120)[1]
        self.assertEqual(wait.returncode, 1, err)
        self.assertIn("CANCELLED", err)
        while seen[-1]["now"] != "CANCELLED":
            line = events.stdout.readline()
            self.assertNotEqual(line, "", events.stderr.read() if events.poll() is not None else "")
            seen.append(json.loads(line))
        events.send_signal(signal.SIGINT)
        events.communicate(timeout=30)
        ids = [e["id"] for e in seen]
        self.assertEqual(ids, sorted(set(ids)))
        listed = json.loads(self.run_it("events", "--job", job, "-o", "json", "-n", "1000").stdout)["items"]
        self.assertEqual(ids, [e["id"] for e in listed if e["id"] <= ids[-1]])


if __name__ == "__main__":
    ROOT, SPOTCTL, SPOTD = (os.path.abspath(p) for p in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
