"""Shared by the tests of the agent's protocol: a daemon, a node with its job, the agent's calls."""
import hashlib
import unittest
import lib

A = lib.Apid()
SPEC = """name: train
setup: make
run: ./train
envs: {A: "1"}
secrets: {KEY: sesame-sesame}
resources:
  accelerators: V100:1
config:
  spotctl:
    checkpoint: {path: ckpt, signal: USR1, interval: 60s}
"""


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Case(unittest.TestCase):
    n = 0

    def setUp(self):
        Case.n += 1
        self.pool = A.pool(zone="z%d" % Case.n)
        self.node, self.token = A.node(self.pool, "BOOTING")

    def start(self, epoch=1, steps=0):
        """An enrolled node with a job on it."""
        self.session = A.enrol(self.node, self.token)["session"]
        A.sql("UPDATE node SET state = 'READY' WHERE id = %d" % self.node)
        self.job = int(A.job(SPEC)["id"][1:])
        A.attempt(self.job, self.node, epoch, steps)

    def agent(self, what, body, expect=200, session=None):
        return A.call("POST", "/v1/agent/" + what, body, token=session or self.session, expect=expect)[1]

    def poll(self, job=None, epoch=0, version=0, hold=0, **more):
        body = {"have": {"job": job, "epoch": epoch, "phase": "RUNNING", "version": version}, "hold_ms": hold}
        body.update(more)
        return self.agent("poll", body)

    def report(self, phase, expect=200, **more):
        body = {"job": "j%d" % self.job, "epoch": 1, "phase": phase}
        body.update(more)
        return self.agent("report", body, expect)

    def attempt(self, cols):
        return A.sql("SELECT %s FROM attempt WHERE job_id = %d ORDER BY epoch DESC LIMIT 1" % (cols, self.job))

    def move_away(self):
        """The job goes on elsewhere with epoch 2."""
        A.sql("UPDATE attempt SET ended_us = 1, phase = 'EXITED', exit_reason = 'lost', settled = true WHERE job_id = %d" % self.job)
        other, _ = A.node(self.pool)
        A.attempt(self.job, other, 2)
