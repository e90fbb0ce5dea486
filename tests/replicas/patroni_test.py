#!/usr/bin/env python3
"""Two daemons on three Postgres servers under Patroni, with etcd: the primary's machine ends in the middle of a story.

    patroni_test.py BUILD
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import e2e  # noqa: E402
from replicas import Case, Replicas, free_port, http, lent, pg_bin, until  # noqa: E402

CONFIG = """
scope: spot
name: {name}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
etcd3: {{host: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    maximum_lag_on_failover: 1048576
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 60, synchronous_commit: 'on', wal_keep_size: 128MB, hot_standby: 'on'}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, {{auth: trust}}]
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: '{dir}/{name}/data'
  bin_dir: '{bin}'
  pgpass: '{dir}/{name}/pgpass'
  authentication:
    superuser: {{username: postgres}}
    replication: {{username: replicator}}
    rewind: {{username: postgres}}
  parameters: {{unix_socket_directories: '{dir}/{name}'}}
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
"""


class Node:
    """One machine: Patroni and its Postgres, in a process group of its own."""

    def __init__(self, cluster, name):
        self.cluster, self.name, self.port, self.rest = cluster, name, free_port(), free_port()
        home = os.path.join(cluster.dir, name)
        os.makedirs(home)
        lent(home)
        self.config = os.path.join(cluster.dir, name + ".yml")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(name=name, rest=self.rest, port=self.port, etcd=cluster.etcd_port, dir=cluster.dir, bin=pg_bin()))
        self.proc = None

    def start(self):
        with open(os.path.join(self.cluster.dir, self.name + ".log"), "ab") as log:
            self.proc = subprocess.Popen([*self.cluster.as_user, "/usr/bin/patroni", self.config], stdout=log, stderr=log,
                                         cwd=os.path.join(self.cluster.dir, self.name), start_new_session=True)

    def pids(self):
        """Patroni, its Postgres, and all below."""
        found = [self.proc.pid]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    if os.path.join(self.cluster.dir, self.name).encode() in f.read():
                        found.append(int(pid))
            except OSError:
                pass
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid, encoding="utf-8") as f:
                    if int(f.read().rsplit(")", 1)[1].split()[1]) in found:
                        found.append(int(pid))
            except (OSError, IndexError):
                pass
        return set(found)

    def signal(self, sig):
        at = time.time()
        for pid in self.pids():
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        return at

    def kill9(self):
        at = self.signal(signal.SIGKILL)
        self.proc.wait(20)
        self.signal(signal.SIGKILL)
        return at

    def role(self):
        try:
            return http("GET", "http://127.0.0.1:%d/patroni" % self.rest, timeout=3)[1]
        except OSError:
            return {}


class Cluster:
    def __init__(self, directory):
        self.dir = os.path.join(directory, "patroni")
        os.makedirs(self.dir)
        self.as_user = lent(self.dir)
        self.etcd_port = free_port()
        self.start_etcd()
        self.nodes = [Node(self, "pg%d" % k) for k in range(3)]
        for n in self.nodes:
            n.start()
        until("a primary with a synchronous standby", 120, self.whole)
        self.sql("CREATE ROLE spotbroker SUPERUSER LOGIN", "postgres")
        self.sql("CREATE DATABASE spotbroker OWNER spotbroker", "postgres")
        # libpq asks no other host when one says that there is no such database, and one standby is asynchronous.
        until("every server has the database", 60, lambda: all(self.has_database(n) for n in self.nodes))

    def start_etcd(self):
        url, peer = "http://127.0.0.1:%d" % self.etcd_port, "http://127.0.0.1:%d" % free_port()
        with open(os.path.join(self.dir, "etcd.log"), "ab") as log:
            self.etcd = subprocess.Popen([shutil.which("etcd"), "--data-dir", os.path.join(self.dir, "etcd"), "--listen-client-urls", url,
                                          "--advertise-client-urls", url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                                          "--initial-cluster", "default=" + peer, "--unsafe-no-fsync=true"], stdout=log, stderr=log)

    def primary(self):
        for n in self.nodes:
            if n.proc and n.proc.poll() is None:
                r = n.role()
                if r.get("role") in ("master", "primary") and r.get("state") == "running":
                    return n
        return None

    def whole(self):
        p = self.primary()
        return p if p and any(s.get("sync_state") == "sync" for s in p.role().get("replication", [])) else None

    def dsn(self):
        """As deploy/README.md has it: all servers, and only the one that takes writes."""
        return "host=%s port=%s user=spotbroker dbname=spotbroker target_session_attrs=read-write" % (
            ",".join("127.0.0.1" for _ in self.nodes), ",".join(str(n.port) for n in self.nodes))

    def sql(self, text, database="spotbroker", user="postgres"):
        return self.at(until("a primary", 60, self.primary), text, database, user)

    def has_database(self, node):
        try:
            return self.at(node, "SELECT 1", "spotbroker", "postgres") == "1"
        except e2e.Failure:
            return False

    def at(self, node, text, database, user):
        out = subprocess.run(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", text, "host=127.0.0.1 port=%d user=%s dbname=%s" % (
            node.port, user, database)], capture_output=True, text=True, check=False)
        if out.returncode != 0:
            raise e2e.Failure(out.stderr)
        return out.stdout.strip()

    def stop(self):
        for n in self.nodes:
            if n.proc and n.proc.poll() is None:
                n.signal(signal.SIGCONT)
                n.kill9()
        self.etcd.kill()
        self.etcd.wait()


class Patronised(Replicas):
    def raise_server(self):
        return Cluster(self.dir)


class Writer(threading.Thread):
    """Submits jobs all the time; what was accepted must be there for ever. When was it not?"""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.over, self.accepted, self.times, self.n = world, threading.Event(), [], [], 0

    def run(self):
        while not self.over.wait(0.1):
            self.n += 1
            text = e2e.JOB.format(name="w%d" % self.n, gpus="T4: 1", resources="", steps=1, step_ms=1, interval="never",
                                  train=self.world.store.uri("e2e/spot-train"), before=":", top="", ours="    work: 2h\n    start_after: 30d")
            req = urllib.request.Request(self.world.base + "/v1/jobs", data=text.encode(), method="POST", headers={
                "Authorization": "Bearer " + self.world.token, "Content-Type": "application/yaml", "Idempotency-Key": "writer-%06d" % self.n})
            while not self.over.is_set():
                try:
                    with urllib.request.urlopen(req, timeout=3) as r:
                        self.accepted.append(json.loads(r.read())["id"])
                        self.times.append(time.time())
                        break
                except (OSError, ValueError) as e:
                    if getattr(e, "code", 500) in (400, 422):
                        raise
                    self.over.wait(0.1)

    def gap(self, since):
        """The longest time without an accepted write from a moment on."""
        times = [t for t in [since, *self.times] if t >= since]
        return max((b - a for a, b in zip(times, times[1:])), default=0)


class FailOver(Case):
    WORLD = Patronised
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "daemons": 2, "settings": {"engine": {"lease": "1200ms"}}}

    def fail_over(self, what, hit):
        """The primary is hit; returns how long the cluster took, and how much longer we did."""
        w = self.world
        old = until("the cluster is whole", 120, w.server.whole)
        writer = Writer(w)
        writer.start()
        until("writes are accepted", 30, lambda: len(writer.accepted) > 10)
        at = hit(old)
        primary, up = None, None
        end = time.monotonic() + 120
        while time.monotonic() < end and up is None:
            for n in w.server.nodes:
                if n is not old and subprocess.run(
                        ["psql", "-qAtX", "-c", "CREATE TEMP TABLE x (i int)", "host=127.0.0.1 port=%d user=postgres dbname=postgres connect_timeout=2" % n.port],
                        capture_output=True, check=False).returncode == 0:
                    primary, up = n, time.time()
                    break
        self.assertIsNotNone(primary, "no fail-over")
        until("writes are accepted again", 60, lambda: any(t > up for t in writer.times))
        back = min(t for t in writer.times if t > up)
        # Asked of the new primary itself: to find it anew waits for the frozen one. A lease that began since is older than its newest renewal.
        acted = until("the engine acts again", 60, lambda: (lambda s: s and int(s) / 1e6)(w.server.at(
            primary, "SELECT min(CASE WHEN from_us > %d THEN from_us ELSE to_us END) FROM led WHERE to_us > %d" % (up * 1e6, up * 1e6),
            "spotbroker", "postgres")))
        writer.over.set()
        writer.join(10)
        sys.stderr.write("        %s: fail-over %.1f s, then writes after %.2f s, a leader after %.2f s; %d writes\n" % (
            what, up - at, back - up, acted - up, len(writer.accepted)))
        ids = ",".join(i[1:] for i in writer.accepted)
        self.assertEqual(int(w.sql("SELECT count(*) FROM job WHERE id IN (%s)" % ids)), len(writer.accepted), "an accepted job is lost")
        self.assertEqual(len(set(writer.accepted)), len(writer.accepted))
        self.assertLess(back - up, 2.0)
        self.assertLess(acted - up, 2.0)
        return old

    def test_the_primary_is_killed_then_frozen_and_nothing_is_lost(self):
        w = self.world
        job = w.submit(steps=2600)
        w.await_steps(job, 20)
        old = self.fail_over("kill -9", Node.kill9)
        old.start()
        ref = w.node(w.job(job)["node"])["ref"]
        w.sim("POST", "/reclaim", {"instance": ref, "notice_s": 10})
        w.await_attempt(job, 2, 60)
        # A machine that swallows what it is sent: connections to it hang, and it comes back as if nothing had been.
        old = self.fail_over("frozen", lambda n: n.signal(signal.SIGSTOP))
        old.signal(signal.SIGCONT)
        # It was the primary: what it still says, as a server that takes no writes, must not hold anybody.
        until("the cluster is whole again", 120, w.server.whole)
        j = w.await_end(job, 200)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0), j["why"])
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(2600))
        w.await_gone()
        self.consistent()

    def test_a_planned_switchover_is_followed(self):
        w = self.world
        old = until("the cluster is whole", 120, w.server.whole)
        began = time.time()
        status, words = http("POST", "http://127.0.0.1:%d/switchover" % old.rest, {"leader": old.name}, timeout=60)
        self.assertEqual(status, 200, words)
        until("another primary", 60, lambda: w.server.primary() not in (None, old))
        up = time.time()
        took = self.act_after(up)
        sys.stderr.write("        switchover %.1f s, then the first act after %.2f s\n" % (up - began, took))
        self.assertLess(took, 3)
        w.await_gone()


if __name__ == "__main__":
    e2e.main()
