#!/usr/bin/env python3
"""Two daemons behind PgBouncer in the documented mode (deploy/docs/operating.md): a story, PgBouncer's restart in the middle of
it, and the leader's end.

    pgbouncer_test.py BUILD
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import e2e  # noqa: E402
from support.postgres import Postgres, lend  # noqa: E402
from support.replicas import Case, Replicas  # noqa: E402
from support.wait import until  # noqa: E402
from world import free_port  # noqa: E402

# The lines of deploy/docs/operating.md; the rest is where it runs.
DOCUMENTED = """pool_mode = session
default_pool_size = 30
ignore_startup_parameters = extra_float_digits,options
server_reset_query = DISCARD ALL
"""


class Bouncer:
    def __init__(self, directory, server):
        self.program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        self.dir, self.port, self.proc = os.path.join(directory, "bouncer"), free_port(), None
        os.makedirs(self.dir)
        self.ini = os.path.join(self.dir, "pgbouncer.ini")
        self.configure(server, DOCUMENTED)
        self.as_user = lend(self.dir)
        self.start()

    def configure(self, server, lines):
        with open(self.ini, "w", encoding="utf-8") as f:
            f.write("[databases]\nspotbroker = host=127.0.0.1 port=%d user=spotbroker\n[pgbouncer]\n%slisten_addr = 127.0.0.1\n"
                    "listen_port = %d\nunix_socket_dir =\nauth_type = any\nlogfile = %s\n" % (
                        server.port, lines, self.port, os.path.join(self.dir, "log")))

    def start(self):
        with open(os.path.join(self.dir, "out"), "ab") as out:
            self.proc = subprocess.Popen([*self.as_user, self.program, self.ini], stdout=out, stderr=out, cwd=self.dir)
        until("PgBouncer answers", 20, self.answers)

    def answers(self):
        return subprocess.run(["psql", "-qAtX", "-c", "SELECT 1", self.dsn()], capture_output=True, check=False).returncode == 0

    def dsn(self):
        return "host=127.0.0.1 port=%d user=spotbroker dbname=spotbroker" % self.port

    def stop(self, sig=signal.SIGKILL):
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
            self.proc.wait(20)


class Bounced(Replicas):
    def raise_server(self):
        server = Postgres(self.dir)
        self.bouncer = Bouncer(self.dir, server)
        return server

    def dsn(self):
        return self.bouncer.dsn()

    def close(self, failed=False):
        super().close(failed)
        self.bouncer.stop()


class Behind(Case):
    WORLD = Bounced
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "daemons": 2, "settings": {"engine": {"lease": "1200ms"}}}

    def test_a_story_with_restarts_of_pgbouncer_and_the_end_of_the_leader(self):
        w = self.world
        self.assertEqual(w.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'spotd' AND client_port IS NULL"), "0")
        job = w.submit(steps=900)
        ref = w.node(w.await_steps(job, 20)["node"])["ref"]
        for sig in (signal.SIGTERM, signal.SIGKILL):
            w.bouncer.stop(sig)
            w.bouncer.start()
            back = self.act_after(time.time())
            sys.stderr.write("        first act after PgBouncer is back (%s): %.2f s\n" % (sig.name, back))
            self.assertLess(back, self.late.limit(2.0))
        leader = w.await_leader()
        took = self.act_after(leader.kill9())
        sys.stderr.write("        first act after kill -9 of the leader: %.2f s\n" % took)
        self.assertLess(took, self.late.limit(2.0))
        leader.start()
        w.sim("POST", "/reclaim", {"instance": ref, "notice_s": 10})
        w.await_attempt(job, 2, 60)
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0), j["why"])
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(900))
        w.await_gone()
        self.consistent()


class Shared(unittest.TestCase):
    def test_a_pooler_that_shares_sessions_is_refused_with_what_to_do(self):
        with tempfile.TemporaryDirectory(prefix="spotbounce-") as top:
            os.chmod(top, 0o755)
            server = Postgres(top)
            bouncer = Bouncer(top, server)
            try:
                for mode, reset in (("session", "0"), ("transaction", "0"), ("transaction", "1"), ("statement", "0")):
                    bouncer.stop()
                    bouncer.configure(server, DOCUMENTED.replace("session", mode, 1) + "server_reset_query_always = %s\n" % reset)
                    bouncer.start()
                    out = subprocess.run([os.path.join(e2e.BUILD, "src/spotd/spotd"), "--migrate"], env=dict(os.environ, DATABASE_URL=bouncer.dsn()),
                                         capture_output=True, text=True, timeout=120, check=False)
                    self.assertEqual(out.returncode == 0, mode == "session", "%s: %s" % (mode, out.stderr))
                    self.assertEqual("pool_mode = session" in out.stderr, mode != "session", "%s: %s" % (mode, out.stderr))
            finally:
                bouncer.stop()
                server.stop()


if __name__ == "__main__":
    e2e.main()
