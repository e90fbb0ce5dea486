#!/usr/bin/env python3
"""An earlier daemon (SPOT_UPGRADE_SPOTD) works on the database that the new one has migrated, beside it. A job
submitted to either ends, under either leader; then the earlier one goes.

    upgrade_test.py BUILD
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import e2e  # noqa: E402
from support.replicas import Case, Replicas  # noqa: E402

OLD = os.environ["SPOT_UPGRADE_SPOTD"]


def without_unknown(text):
    """Leaves out settings that the earlier daemon does not know yet."""
    known, section = set(), ""
    for line in subprocess.run([OLD, "--print-config"], capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("["):
            section = line
        elif "=" in line:
            known.add((section, line.lstrip("# ").split("=")[0].strip()))
    out, section = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line
        if "=" not in line or section.startswith("[provider") or (section, line.split("=")[0].strip()) in known:
            out.append(line)
    return "\n".join(out) + "\n"


class Mixed(Replicas):
    def config_text(self):
        return without_unknown(super().config_text())


class Upgrade(Case):
    WORLD = Mixed
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "daemons": 1, "programs": (OLD,), "settings": {"engine": {"lease": "1200ms"}}}

    def version(self):
        return int(self.world.sql("SELECT max(version) FROM schema_version"))

    def run_both(self, words):
        """A job to each daemon; both end whole."""
        w = self.world
        jobs, ports = [], [r.port for r in w.replicas]
        for port in ports:
            for other in ports:
                w.balancer.remove(other)
            w.balancer.add(port)
            jobs.append(w.submit(name="%s-%d" % (words, len(jobs)), steps=150))
        for port in ports:
            w.balancer.add(port)
        for job in jobs:
            j = w.await_end(job, 120)
            self.assertEqual((j["state"], j["lost_steps"]), ("SUCCEEDED", 0), j["why"])
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(150))

    def test_the_earlier_daemon_and_this_one_share_a_database(self):
        from support.replicas import Replica
        w = self.world
        old, before = w.replicas[0], self.version()
        long = w.submit(name="through-it-all", steps=1500)
        w.await_steps(long, 10)
        new = Replica(w, "spotd-new")
        w.replicas.append(new)
        new.start()  # migrates under the earlier one, which leads
        sys.stderr.write("        schema %d under a daemon that knows %d\n" % (self.version(), before))
        self.assertGreater(self.version(), before)
        self.assertIs(w.await_leader(), old)
        self.run_both("old-leads")
        # The earlier one is killed: this one leads, with the other's jobs.
        old.freeze()
        self.assertIs(w.await_leader(old), new)
        old.thaw()
        self.run_both("new-leads")
        # And the other way round: a new leader that goes leaves everything to the earlier one.
        new.terminate()
        self.assertEqual(new.proc.wait(30), 0)
        self.assertIs(w.await_leader(), old)
        j = w.job(long)
        self.assertEqual((j["state"], j["attempts"]), ("RUNNING", 1), j["why"])
        new.start()
        # The end of the upgrade.
        old.terminate()
        self.assertEqual(old.proc.wait(30), 0)
        self.assertIs(w.await_leader(), new)
        j = w.await_end(long, 180)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 1, 0), j["why"])
        w.await_gone()
        self.assertEqual([line for line in old.text().splitlines() if " error " in line and "pg.down" not in line], [])
        self.consistent()


if __name__ == "__main__":
    e2e.main()
