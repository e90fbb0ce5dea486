#!/usr/bin/env python3
"""The daemon itself: a bad reload, a second one on the same database."""
import contextlib
import glob
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402
from support.postgres import local_dsn  # noqa: E402


class Daemons(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def spotd(self, *args):
        return subprocess.run([os.path.join(e2e.BUILD, "src/spotd/spotd"), *args], env=self.world.environment(), capture_output=True,
                              text=True, timeout=30)

    def test_a_bad_reload_changes_nothing_under_a_running_job(self):
        w = self.world
        good = w.config_text()
        path = os.path.join(w.dir, "spotd.conf")
        self.assertEqual(self.spotd("--check-config", "--config", path).returncode, 0)
        printed = self.spotd("--print-config", "--config", path)
        self.assertIn("patience = 4s", printed.stdout)
        self.assertNotIn(w.lambda_key, printed.stdout)
        job = w.submit(steps=150)
        w.await_steps(job, 5)
        bad = good.replace("patience = 4s", "patience = long").replace("idle_keep = 2s", "idle_keep = 1h")
        w.write_config(bad)
        checked = self.spotd("--check-config", "--config", path)
        self.assertNotEqual(checked.returncode, 0)
        self.assertIn("spotd.conf:%d: " % (1 + bad.splitlines().index("patience = long")), checked.stderr)
        w.daemon.proc.send_signal(signal.SIGHUP)
        w.until("the reload is refused", 20, lambda: "config.refused" in w.log())
        self.assertNotIn("config.reloaded", w.log())
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 1))
        # Had the other half of the bad file been taken, the node would be kept for an hour.
        w.await_gone(40)
        job = w.submit(steps=100000)
        w.await_steps(job, 5)
        w.write_config(good.replace("patience = 4s", "patience = 5s").replace("[api]\n", "[api]\norphan_timeout = 2h\n"))
        w.daemon.proc.send_signal(signal.SIGHUP)
        w.until("a good file is taken", 20, lambda: "config.reloaded" in w.log())
        w.until("its agent knows", 60, lambda: self.agent_orphan_timeout(job) == 7200)
        w.spotctl("job", "cancel", job)
        w.await_end(job)

    def agent_orphan_timeout(self, job):
        for path in glob.glob(os.path.join(self.world.dir, "**", "state.json"), recursive=True):
            with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as f:
                doc = json.load(f)
                if doc.get("job", {}).get("id") == job:
                    return doc["orphan_timeout_s"]
        return None

    def test_of_two_daemons_one_acts_and_the_other_takes_over(self):
        w = self.world
        own = os.path.join(w.dir, "second.conf")
        port = e2e.free_port()
        with open(own, "w", encoding="utf-8") as f:
            f.write(w.config_text().replace("listen = 127.0.0.1:%d" % w.port, "listen = 127.0.0.1:%d" % port))
        log = os.path.join(w.dir, "second.log")

        def second_log():
            with open(log, encoding="utf-8", errors="replace") as f:
                return f.read()
        with open(log, "wb") as f:
            second = subprocess.Popen([os.path.join(e2e.BUILD, "src/spotd/spotd"), "--config", own], stdout=f, stderr=f,
                                      env=dict(w.environment(), DATABASE_URL=local_dsn(os.path.join(self.world.dir, "data"))))
        w.children.append(second)
        w.until("the second is ready", 30, lambda: "spotd.ready" in second_log())
        job = w.submit(steps=500)
        j = w.await_steps(job, 20)
        node, ref = j["node"], w.node(j["node"])["ref"]
        self.assertNotIn("engine.leads", second_log())
        self.assertNotIn("launch.sent", second_log())
        # Only the engine of the first goes: its process stops, its port with it; the second has both.
        w.daemon.proc.send_signal(signal.SIGSTOP)
        try:
            w.port = port
            w.until("the second leads", 20, lambda: "engine.leads" in second_log())
            w.sim("POST", "/reclaim", {"instance": ref, "notice_s": 6})
            w.until("the second acts", 30, lambda: "launch.sent" in second_log())
        finally:
            w.daemon.proc.send_signal(signal.SIGCONT)
        # The first wakes up and continues; the fence refuses its writes.
        j = w.await_attempt(job, 2, 60)
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 2))
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(500))
        self.assertNotEqual(j["attempts_list"][1]["node"], node)
        books = w.await_gone()
        tokens = [i["token"] for i in books["instances"]]
        self.assertEqual(len(tokens), len(set(tokens)))
        second.terminate()
        self.assertEqual(second.wait(30), 0, second_log()[-2000:])


if __name__ == "__main__":
    e2e.main()
