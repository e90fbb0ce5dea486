#!/usr/bin/env python3
"""A backup is taken in the middle of a story, the story goes on, and the older backup is restored. Machines launched
since the backup run on, are shown with their cost, and end only when an operator says so. Jobs of the backup go on. The
steps are those of deploy/docs/operating.md, for both kinds of backup that it names."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402
from support.replicas import Case  # noqa: E402


class Restore:
    """The story; below, one class for each kind of backup."""
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "daemons": 1,
               "settings": {"engine": {"lease": "1200ms", "orphan_grace": "2s", "sweep": "1s"}}}

    def test_machines_of_newer_rows_outlive_an_older_backup(self):
        w = self.world
        daemon = w.replicas[0]
        old = w.submit(name="of-the-backup", steps=w.paced(6000), interval="3s")
        old_ref = w.node(w.await_steps(old, 10)["node"])["ref"]
        self.back_up(os.path.join(w.server.dir, "backup"))
        new = [w.submit(name="since-%d" % k, steps=w.paced(6000), gpus="T4: 1") for k in range(2)]
        refs = [w.node(w.await_steps(job, 5)["node"])["ref"] for job in new]
        daemon.terminate()
        self.assertEqual(daemon.proc.wait(30), 0)
        database = self.put_back(os.path.join(w.server.dir, "backup"))
        w.dsn = lambda: w.server.dsn(database)
        w.sql = lambda text: w.server.sql(text, database=database)
        w.sql("UPDATE led SET from_us = from_us - 120000000, to_us = to_us - 120000000")
        self.assertEqual(w.sql("SELECT count(*) FROM job WHERE name LIKE 'since-%'"), "0", "the backup knows what came after it")
        daemon.start()
        # Found, kept, priced; the job of the backup goes on where it is.
        found = w.until("the sweeper shows both", 60, lambda: (lambda got: got if {i["ref"] for i in got} >= set(refs) else None)(
            [i for i in w.api("GET", "/v1/leaks")["items"] if i["kind"] == "instance"]))
        for leak in (i for i in found if i["ref"] in refs):
            self.assertEqual(leak["state"], "kept", leak)
            self.assertIn("restored", leak["why"])
            self.assertGreater(leak["per_hour_micros"], 0)
        shown = w.ctl("leaks")
        for ref in refs:
            self.assertIn(ref, shown)
        sweeps = w.counted("ec2", "DescribeInstances")
        w.until("the sweeper looked ten times more", 60, lambda: w.counted("ec2", "DescribeInstances") > sweeps + 10)
        alive = {i["id"] for i in w.instances(live=True)}
        self.assertLessEqual({old_ref, *refs}, alive, "a machine of a newer row was ended")
        # So does its job: the agent, which has no row, is told to wait.
        before = [w.local_steps(job, ref) for job, ref in zip(new, refs)]
        w.until("their jobs go on", 60, lambda: all(w.local_steps(job, ref) > n for job, ref, n in zip(new, refs, before)))
        self.assertIn("agent.stranger", daemon.text())
        w.ctl("leaks", "keep", refs[0])
        w.ctl("leaks", "end", refs[1])
        w.until("what was said is done", 60, lambda: refs[1] not in {i["id"] for i in w.instances(live=True)})
        self.assertIn(refs[0], {i["id"] for i in w.instances(live=True)})
        w.hurry()
        j = w.await_end(old, 120)
        self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 1), j["why"])
        self.assertEqual(w.result_of(old), w.result_of_uninterrupted(6000))
        w.ctl("leaks", "end", refs[0])
        w.await_gone()
        self.consistent()


class Dump(Restore, Case):
    def back_up(self, path):
        self.world.server.run("pg_dump", "-Fc", "-f", path, "-d", self.world.server.dsn())

    def put_back(self, path):
        server = self.world.server
        server.sql("CREATE DATABASE restored", database="postgres")
        server.run("pg_restore", "--no-owner", "-d", server.dsn("restored"), path)
        return "restored"


class BaseBackup(Restore, Case):
    def back_up(self, path):
        self.world.server.run("pg_basebackup", "-D", path, "-X", "stream", "-c", "fast", "-d", self.world.server.dsn())

    def put_back(self, path):
        """The server's files are those of the backup; later changes are not replayed."""
        server = self.world.server
        server.stop()
        server.data = path
        server.start()
        return "spotbroker"


if __name__ == "__main__":
    e2e.main()
