"""Shared by the agent's tests: one daemon, one node, and how to wait for their acts."""
import json
import os
import sys
import time
import unittest

import fake
from support.late import Late  # fake.py puts the folder tests on the path

AGENT, TRAIN = sys.argv[1:3] if len(sys.argv) > 2 else ("", "")
CKPT = {"path": "ckpt", "signal": "USR1", "command": "", "interval_s": 0, "budget_s": 20, "then": "TERM",
        "kill_after_s": 5}


class AgentCase(unittest.TestCase):
    aws = False

    def setUp(self):
        self.late, self.began = Late(), time.monotonic()
        self.addCleanup(self.late.stop)
        self.daemon = fake.Daemon()
        self.addCleanup(self.daemon.close)
        self.metadata = fake.Metadata() if self.aws else None
        if self.aws:
            self.addCleanup(self.metadata.close)
        self.agent = fake.Agent(AGENT, self.daemon, self.metadata)
        self.addCleanup(self.agent.close)
        self.addCleanup(self.check_nothing_wrong)

    def check_nothing_wrong(self):
        self.assertEqual(self.daemon.wrong, [])

    def _callTestMethod(self, method):
        try:
            method()
        except BaseException:
            sys.stderr.write("\n" + self.agent.consoles())
            raise

    def job(self, run, job="j1", epoch=1, **more):
        doc = {"name": "a job", "workdir": "", "setup": "", "run": run, "envs": {}, "secrets": {}, "num_gpus": 0,
               "max_duration_s": 0, "files": [], "checkpoint": dict(CKPT), "steps_start": 0,
               "restored_from": None, "log_offset": 0}
        checkpoint = more.pop("checkpoint", {})
        doc.update(more)
        doc["checkpoint"].update(checkpoint)
        self.daemon.want("run", job, epoch, doc)
        return doc

    def until(self, condition, what, timeout=60):
        return self.daemon.until(condition, what, timeout)

    def until_log(self, text, job="j1", epoch=1, timeout=60):
        self.until(lambda: text.encode() in self.daemon.log(job, epoch), f"log line {text!r}", timeout)

    def notices(self):
        """How many the agent has seen. It repeats one that was not answered for two seconds, and none that was."""
        seen = self.agent.consoles().count("notice.seen")
        self.assertLessEqual(len(self.daemon.notices), seen + int((time.monotonic() - self.began) / 2))
        return seen

    def exited(self, job="j1", epoch=1, timeout=60):
        return self.daemon.until_report("EXITED", job, epoch, timeout)

    def leader(self, job="j1", epoch=1):
        path = os.path.join(self.agent.job_dir(job, epoch), "job.json")

        def read():
            try:
                with open(path) as f:
                    doc = json.load(f)
                return doc["leader"] if doc["phase"] == "run" else None
            except (OSError, ValueError):
                return None
        return self.until(read, "job.json says run")

    def adopted_after_crash(self, pid):
        """The agent is killed; the job's process lives, and the next agent takes it for its own."""
        self.agent.crash()
        self.assertTrue(fake.alive(pid))
        n = len(self.daemon.haves)
        self.agent.start()
        have = self.until(lambda: self.daemon.haves[n:] and self.daemon.haves[n], "a poll of the new agent")
        self.assertEqual((have["job"], have["epoch"], have["phase"]), ("j1", 1, "RUNNING"))
