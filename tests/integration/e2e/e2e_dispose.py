#!/usr/bin/env python3
"""Objects of abandoned checkpoints leave the store; objects that another checkpoint has too stay."""
import glob
import hashlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402


def psql():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/psql"))
    return found[-1] if found else shutil.which("psql") or sys.exit("psql is needed")


class Dispose(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}

    def dsn(self):
        for root, _, names in os.walk(os.path.join(self.world.dir, "data")):
            if "postmaster.pid" in names:
                with open(os.path.join(root, "postmaster.pid"), encoding="utf-8") as f:
                    lines = f.read().splitlines()
                return "host=%s port=%s dbname=spotbroker user=spotbroker" % (lines[4], lines[3])
        raise e2e.Failure("no database")

    def sql(self, text):
        r = subprocess.run([psql(), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", self.dsn()], input=text, capture_output=True,
                           text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout.strip()

    def abandoned(self, job, objects):
        """A checkpoint of the job's first attempt that was given up two hours ago, with these (key, bytes) uploaded."""
        rows = ["('f%d', %d, '%s', '%s')" % (i, len(body), hashlib.sha256(body).hexdigest(), key)
                for i, (key, body) in enumerate(objects)] or ["(NULL, 0, '', '')"]
        return self.sql("WITH c AS (INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us, urls_us) VALUES "
                        "(%s, 1, 'ABANDONED', 'periodic', 1, 9, 1, 1) RETURNING id), k AS (INSERT INTO checkpoint_chunk (checkpoint_id, "
                        "path, seq, bytes, mode, sha256, object_key, fresh) SELECT c.id, v.path, 0, v.n, 420, v.sha, v.key, true "
                        "FROM c, (VALUES %s) v (path, n, sha, key) WHERE v.path IS NOT NULL) SELECT id FROM c" % (job[1:], ", ".join(rows)))

    def test_chunks_of_an_abandoned_checkpoint_alone_are_deleted(self):
        w = self.world
        job = w.submit(steps=60, step_ms=10)
        w.await_end(job)
        chain = [c for c in w.job(job)["checkpoints"] if c["state"] == "COMMITTED"]
        chunk = [c for c in w.api("GET", "/v1/checkpoints/" + chain[-1]["id"])["chunks"] if c["path"] == "result.txt"][0]
        status, kept = w.get_object(chunk["object_key"])
        self.assertEqual(status, 200)
        keys = ["gone/%d" % i for i in range(40)]
        for k in keys:
            w.store.put(k, k.encode())
        self.assertEqual(w.get_object(keys[39])[0], 200)
        c = self.abandoned(job, [(k, k.encode()) for k in keys] + [(chunk["object_key"], kept), ("never/uploaded", b"x")])
        w.until("the abandoned checkpoint is disposed of", 60,
                lambda: self.sql("SELECT disposed_us IS NOT NULL FROM checkpoint WHERE id = %s" % c) == "t")
        self.assertEqual({w.get_object(k)[0] for k in keys}, {404})
        self.assertEqual(w.get_object(chunk["object_key"]), (200, kept))
        self.assertEqual(self.sql("SELECT count(*) FROM checkpoint_chunk WHERE checkpoint_id = %s AND deleted_us IS NOT NULL" % c), "41")
        w.await_gone()

    def test_while_its_urls_are_good_or_its_attempt_goes_on_nothing_is_deleted(self):
        w = self.world
        job = w.submit(steps=4000, step_ms=20)
        w.await_steps(job, 5)
        w.store.put("live/1", b"live")
        c = self.abandoned(job, [("live/1", b"live")])
        marker = self.abandoned(job, [])
        # Two passes and more: the engine looks at least every tick.
        at = w.local_steps(job, w.node(w.job(job)["node"])["ref"])
        w.await_steps(job, at + 150)
        self.assertEqual(w.get_object("live/1")[0], 200)
        self.assertEqual(self.sql("SELECT count(*) FROM checkpoint WHERE id IN (%s, %s) AND disposed_us IS NOT NULL" % (c, marker)), "0")
        self.sql("UPDATE checkpoint SET urls_us = extract(epoch FROM now())::int8 * 1000000 WHERE id = %s" % c)
        w.api("POST", "/v1/jobs/%s/cancel" % job)
        w.await_gone()
        w.until("the empty one is closed", 30,
                lambda: self.sql("SELECT disposed_us IS NOT NULL FROM checkpoint WHERE id = %s" % marker) == "t")
        self.assertEqual(w.get_object("live/1")[0], 200)


if __name__ == "__main__":
    e2e.main()
