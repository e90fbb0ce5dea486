#!/usr/bin/env python3
"""Over TLS, and with the daemon's log at debug: a job end to end, and no secret where it does not belong."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

SECRET = "s3cret-of-the-job-7b1f0e"


class Guard(e2e.Case):
    OPTIONS = {"tls": True, "settings": {"log": {"level": "debug"}}}

    def read(self, path):
        try:
            with open(path, "rb") as f:
                return f.read()
        except OSError:
            return b""

    def refuse(self, where, text, secrets):
        for s in secrets:
            self.assertNotIn(s.encode(), text, "a secret is in " + where)

    def files(self, root):
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    yield path

    def test_a_job_over_tls_with_every_secret_in_its_place(self):
        w = self.world
        key = self.read(os.path.join(w.dir, "tls.key")).decode().splitlines()[1]
        keys = [*w.cloud_secrets, w.token, key]
        # One job on either cloud: the nodes of both are looked through.
        jobs = [w.submit(name="guarded-" + cloud, gpus=gpu, steps=400, resources=["infra: " + cloud], spot=cloud == "aws",
                         top="secrets: {JOB_SECRET: %s}\nenvs: {PLAIN: visible}" % SECRET) for cloud, gpu in (("aws", "T4: 1"), ("lambda", "A10: 1"))]
        # Each node is looked through as soon as its job runs: the other cloud may hold its launch back for 12 s.
        for job in jobs:
            node = w.await_steps(job, 10)["node"]
            self.check_node(w.node(node)["ref"], keys)
            if job == jobs[0]:
                w.ctl("node", "drain", node)  # one of them also moves, over TLS
        for job in jobs:
            j = w.await_end(job)
            self.assertEqual((j["state"], j["lost_steps"]), ("SUCCEEDED", 0), j["why"])
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(400))
        self.assertEqual(w.job(jobs[0])["attempts"], 2)
        w.await_gone()
        for path in self.files(os.path.join(w.dir, "cloud", "instances")):
            self.refuse(path, self.read(path), [*keys, SECRET])
        self.check_daemon(jobs, keys)

    def check_node(self, ref, keys):
        """While the job runs: environments and arguments of every process, and every file."""
        w = self.world
        own = 0
        w.until("the job's own processes are there", 30,
                lambda: any(b"spot-train" in self.read("/proc/%d/cmdline" % p) for p in w.tree(ref)))
        for pid in w.tree(ref):
            environ, cmdline = self.read("/proc/%d/environ" % pid), self.read("/proc/%d/cmdline" % pid)
            self.refuse("the environment of %s" % cmdline, environ, keys)
            self.refuse("the arguments of %s" % cmdline, cmdline, [*keys, SECRET])
            inside = SECRET.encode() in environ
            own += inside
            # Only the job's own processes have it, not the agent nor its supervisor.
            self.assertFalse(inside and b"spot-agent" in cmdline.split(b"\0")[0], cmdline)
            if b"spot-train" in cmdline:
                self.assertTrue(inside and b"PLAIN=visible" in environ, environ)
        self.assertGreaterEqual(own, 1)
        for path in self.files(os.path.join(w.dir, "cloud", "instances", ref)):
            self.refuse(path, self.read(path), [*keys, SECRET])

    def check_daemon(self, jobs, keys):
        w = self.world
        log = self.read(w.daemon.log.name)
        self.assertIn(b" debug ", log)
        self.refuse("the daemon's log", log, [*keys, SECRET])
        # A presigned URL's signature and a session's token are as good as a key for as long as they live.
        self.refuse("the daemon's log", log, ["X-Amz-Signature=", "Bearer "])
        daemon = w.daemon.proc.pid
        self.refuse("the daemon's arguments", self.read("/proc/%d/cmdline" % daemon), keys)
        self.refuse("the daemon's environment", self.read("/proc/%d/environ" % daemon), keys)
        for job in jobs:
            for path in ("", "/why", "/logs", "/cost"):
                self.refuse("GET job" + path, str(w.ask("GET", "/v1/jobs/" + job + path)[1]).encode(), [*keys, SECRET])
            source = w.job(job)["source"]
            self.assertIn("JOB_SECRET", source)
        for path in ("/v1/events?limit=1000", "/v1/nodes?limit=1000", "/v1/providers", "/v1/tokens", "/metrics"):
            self.refuse("GET " + path, str(w.ask("GET", path)[1]).encode(), [*keys, SECRET])

    def test_without_the_certificate_nobody_is_let_in(self):
        w = self.world
        self.assertEqual(w.spotctl("whoami").returncode, 0)
        out = w.spotctl("whoami", ca=False)
        self.assertNotEqual(out.returncode, 0)
        self.assertIn("certificate", out.stderr.lower())


if __name__ == "__main__":
    e2e.main()
