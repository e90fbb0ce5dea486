#!/usr/bin/env python3
"""Two daemons on three Postgres servers under Patroni, with etcd: the primary's machine ends in the middle of a story.

    patroni_test.py BUILD
"""
import base64
import http.client as http_client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import e2e  # noqa: E402
from support.postgres import lend, programs, psql  # noqa: E402
from support.processes import command_line, process_tree  # noqa: E402
from support.replicas import Case, Replicas  # noqa: E402
from support.wait import until  # noqa: E402
from world import free_port, http  # noqa: E402

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
      parameters: {{max_connections: 60, synchronous_commit: 'on', wal_keep_size: 128MB, hot_standby: 'on',
                    wal_retrieve_retry_interval: 500ms}}
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
        lend(home)
        self.config = os.path.join(cluster.dir, name + ".yml")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(name=name, rest=self.rest, port=self.port, etcd=cluster.etcd_port, dir=cluster.dir, bin=programs()))
        self.log = os.path.join(cluster.dir, name + ".log")
        self.proc = None

    def start(self):
        with open(self.log, "ab") as log:
            self.proc = subprocess.Popen([*self.cluster.as_user, "/usr/bin/patroni", self.config], stdout=log, stderr=log,
                                         cwd=os.path.join(self.cluster.dir, self.name), start_new_session=True)

    def pids(self):
        """Patroni, its Postgres, and all below."""
        home = os.path.join(self.cluster.dir, self.name).encode()
        return process_tree(self.proc.pid, *(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and home in command_line(int(pid))))

    def signal(self, sig):
        at = time.time()
        for pid in self.pids():
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        return at

    def freeze(self):
        return self.signal(signal.SIGSTOP)

    def wake(self):
        """Kills Patroni, and lets its frozen Postgres go on, as a watchdog would. Patroni 3.0.2 that sleeps for longer
        than its lease and goes on puts the leader's key back, although another node holds it by then. That makes two
        histories, and loses the writes that the other one accepted."""
        self.proc.kill()
        self.proc.wait(20)
        self.signal(signal.SIGCONT)
        self.start()

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
        self.as_user = lend(self.dir)
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
        """Returns the node with the leader's key: a node that was frozen calls itself the primary for a while."""
        name = self.key("leader")
        for n in self.nodes:
            r = n.role() if n.name == name else {}
            if r.get("role") in ("master", "primary") and r.get("state") == "running":
                return n
        return None

    def whole(self):
        """Returns the primary, once its possible successor can be promoted and the third server follows. The key of
        synchronous standbys then says the same as the primary, which has both of them stream. The key comes some
        seconds after the standby."""
        try:
            p = self.primary()
            key = json.loads(p and self.key("sync") or "{}")
            if not p or key.get("leader") != p.name:
                return None
            rows = self.query_node(p, "SELECT application_name, sync_state FROM pg_stat_replication WHERE state = 'streaming' AND application_name LIKE 'pg%'",
                           "postgres", "postgres")
            follow = dict(line.split("|") for line in rows.splitlines())
            sync = [name for name, state in follow.items() if state == "sync"]
            ready = len(follow) == len(self.nodes) - 1 and sync == [key.get("sync_standby")]
            return p if ready and all(n is p or n.role().get("state") == "running" for n in self.nodes) else None
        except (OSError, e2e.Failure, ValueError):
            return None

    def key(self, name):
        """Returns etcd's value. Patroni's own /cluster names the node that may be promoted, but not the primary that it
        would replace."""
        try:
            _, got = http("POST", "http://127.0.0.1:%d/v3/kv/range" % self.etcd_port,
                          {"key": base64.b64encode(b"/service/spot/" + name.encode()).decode()}, timeout=3)
            return base64.b64decode(got["kvs"][0]["value"]).decode() if got.get("kvs") else None
        except OSError:
            return None

    def dsn(self):
        """As deploy/docs/operating.md has it: all servers, and only the one that takes writes."""
        return "host=%s port=%s user=spotbroker dbname=spotbroker target_session_attrs=read-write" % (
            ",".join("127.0.0.1" for _ in self.nodes), ",".join(str(n.port) for n in self.nodes))

    def sql(self, text, database="spotbroker", user="postgres"):
        return self.query_node(until("a primary", 60, self.primary), text, database, user)

    def has_database(self, node):
        try:
            return self.query_node(node, "SELECT 1", "spotbroker", "postgres") == "1"
        except e2e.Failure:
            return False

    def recovers(self, node):
        """Returns whether the server is a standby by its own answer; None if it does not answer."""
        try:
            return self.query_node(node, "SELECT pg_is_in_recovery()", "postgres", "postgres") == "t"
        except e2e.Failure:
            return None

    def is_primary(self, node):
        return self.recovers(node) is False

    def query_node(self, node, text, database, user):
        return psql("host=127.0.0.1 port=%d user=%s dbname=%s" % (node.port, user, database), text)

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


class Watch(threading.Thread):
    """One standby, looked at over one connection: when was it promoted, and when had it first committed something?"""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.over, self.promoted, self.up, self.psql = node, threading.Event(), None, None, None
        self.start()

    def ask(self, text):
        self.psql.stdin.write(text + "\n")
        self.psql.stdin.flush()
        return self.psql.stdout.readline().strip()

    def look(self):
        answer = self.ask("SELECT pg_is_in_recovery();")
        while answer == "t" and not self.over.wait(0.02):
            answer = self.ask("SELECT pg_is_in_recovery();")
        if answer == "f":
            self.promoted = self.promoted or time.time()
            # With synchronous_mode_strict a primary commits nothing before it has a standby.
            if self.ask("CREATE TEMP TABLE x (i int); SELECT 1;") == "1":
                self.up = time.time()

    def run(self):
        while self.up is None and not self.over.is_set():
            self.psql = subprocess.Popen(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "host=127.0.0.1 port=%d user=postgres dbname=postgres connect_timeout=2" % self.node.port],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                self.look()
            except OSError:
                pass
            self.psql.kill()
            self.psql.communicate()
            self.over.wait(0.05)

    def stop(self):
        self.over.set()
        while self.is_alive():
            self.psql.kill()
            self.join(0.1)


class Writer(threading.Thread):
    """Submits jobs and cancels every third, all the time; accepted writes must last for ever. When was it not
    accepted?"""

    def __init__(self, world, name):
        super().__init__(daemon=True)
        self.world, self.name, self.over = world, name, threading.Event()
        self.accepted, self.cancelled, self.times, self.troubles = {}, [], [], {}
        self.start()

    def post(self, path, key, text="", timeout=3):
        """Returns the reply under that key, however often the request must be repeated; nothing when the story is
        over."""
        req = urllib.request.Request(self.world.base + path, data=text.encode(), method="POST", headers={
            "Authorization": "Bearer " + self.world.token, "Content-Type": "application/yaml", "Idempotency-Key": key})
        while not self.over.is_set():
            try:
                with urllib.request.urlopen(req, timeout=timeout) as r:
                    return json.loads(r.read())
            except (OSError, ValueError, http_client.HTTPException) as e:
                why = "%s %s" % (type(e).__name__, getattr(e, "code", e))
                self.troubles[why] = self.troubles.get(why, 0) + 1
                if getattr(e, "code", 500) in (400, 404, 422):
                    raise
                self.over.wait(0.1)
        return None

    def job(self, name):
        return e2e.JOB.format(name=name, gpus="T4: 1", resources="", steps=1, step_ms=1, interval="never", before=":", top="",
                              train=self.world.store.uri("e2e/spot-train"), ours="    work: 2h\n    start_after: 30d")

    def run(self):
        n = 0
        while not self.over.wait(0.02):
            n += 1
            name = "%s-%d" % (self.name, n)
            got = self.post("/v1/jobs", name, self.job(name))
            if got:
                self.accepted[name] = got["id"]
                self.times.append(time.time())
            if got and n % 3 == 0 and self.post("/v1/jobs/%s/cancel" % got["id"], name + "-cancel"):
                self.cancelled.append(name)
                self.times.append(time.time())

    def stop(self):
        self.over.set()
        self.join(20)


class FailOver(Case):
    WORLD = Patronised
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1", "daemons": 2, "settings": {"engine": {"lease": "1200ms"}}}
    WRITERS = 3
    told = 0

    def fail_over(self, what, hit, woken=False, again=False):
        """Hits the primary, and measures the time until another one (or the same again) committed, and our extra time.
        With woken the old one goes on when the other is promoted. The fail-over is over when it has stopped, too."""
        w = self.world
        old = until("the cluster is whole: " + what, 180, w.server.whole)
        FailOver.told += 1
        writers = [Writer(w, "w%d%c" % (self.told, "abc"[k])) for k in range(self.WRITERS)]
        until("writes are accepted", 30, lambda: all(len(x.accepted) > 20 for x in writers))
        at = hit(old)
        watches = [Watch(n) for n in w.server.nodes if n is not old or again]
        new = until("another primary: " + what, 120, lambda: next((x for x in watches if x.promoted), None))
        if woken:
            old.wake()
        until("it commits", 60, lambda: new.up)
        up = new.up
        if woken:
            until("the old primary stops", 60, lambda: not w.server.is_primary(old))
            up = max(up, time.time())
        acted = self.act_after(up)
        until("every writer goes on", 60, lambda: all(sum(t > up for t in x.times) > 20 for x in writers))
        back = [min(t for t in x.times if t > up) - up for x in writers]
        for x in [*writers, *watches]:
            x.stop()
        sys.stderr.write("        %s: promoted after %.2f s, it commits %.2f s later; then the writers go on after %s s, the engine acts after %.2f s; %d accepted\n" % (
            what, new.promoted - at, up - new.promoted, " ".join("%.2f" % b for b in sorted(back)), acted, sum(len(x.accepted) for x in writers)))
        limit = self.late.limit(2.0)
        self.assertLess(max(back), limit, [x.troubles for x in writers])
        self.assertLess(acted, limit)
        self.nothing_is_lost(writers)
        return old, writers

    def nothing_is_lost(self, writers):
        """Every request that was answered is done, once, and is the same when it is asked again."""
        rows = [line.split("|") for line in self.world.sql("SELECT name, 'j' || id, state FROM job WHERE name LIKE 'w%'").splitlines()]
        there = {name: (i, state) for name, i, state in rows}
        self.assertEqual(len(there), len(rows), "a job is there twice")
        for x in writers:
            for name, i in x.accepted.items():
                self.assertEqual(there.get(name, ("lost", ""))[0], i, name)
            # The reply says that the cancellation is on record; the engine then ends the job.
            until("the jobs that %s cancelled have ended" % x.name, 30, lambda x=x: self.world.sql(
                "SELECT count(*) FROM job WHERE name = ANY ('{%s}') AND state = 'CANCELLED'" % ",".join(x.cancelled)) == str(len(x.cancelled)))
            x.over.clear()
            for name, i in x.accepted.items():
                self.assertEqual(x.post("/v1/jobs", name, x.job(name), 10)["id"], i, "%s was made again" % name)

    def same_everywhere(self, writers):
        """The three servers have the same writes of the writers: no server has a write that it alone committed."""
        w = self.world
        primary = until("the cluster is whole again", 180, w.server.whole)
        self.nothing_is_lost(writers)
        text = "SELECT count(*), md5(string_agg(concat_ws(' ', id, name, state), ',' ORDER BY id)) FROM job WHERE name LIKE 'w%'"
        said = w.server.query_node(primary, text, "spotbroker", "postgres")
        for n in w.server.nodes:
            until("%s has what %s has" % (n.name, primary.name), 30, lambda n=n: w.server.query_node(n, text, "spotbroker", "postgres") == said)

    def test_b_the_primary_is_killed_then_frozen_and_nothing_is_lost(self):
        w = self.world
        job = w.submit(steps=2600)
        w.await_steps(job, 20)
        old, writers = self.fail_over("kill -9", Node.kill9)
        old.start()
        ref = w.node(w.job(job)["node"])["ref"]
        w.sim("POST", "/reclaim", {"instance": ref, "notice_s": 10})
        w.await_attempt(job, 2, 60)
        self.same_everywhere(writers)
        # A machine that swallows all packets: connections to it hang, and it comes back unchanged.
        old, writers = self.fail_over("frozen", Node.freeze)
        old.wake()
        # It was the primary: it still answers as a server that takes no writes, and must not hold anybody up.
        self.same_everywhere(writers)
        # It wakes while the daemons still speak to it.
        old, writers = self.fail_over("frozen, woken when another is promoted", Node.freeze, woken=True)
        self.same_everywhere(writers)
        j = w.await_end(job, 200)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 2, 0), j["why"])
        self.assertEqual(w.result_of(job), w.result_of_uninterrupted(2600))
        w.await_gone()
        self.consistent()

    def test_a_planned_switchover_is_followed(self):
        _, writers = self.fail_over("switchover", self.switch_over)
        self.same_everywhere(writers)
        self.world.await_gone()
        self.consistent()

    def test_c_pauses_of_etcd_and_of_the_primary_are_sat_out(self):
        _, writers = self.fail_over("etcd frozen until there is no primary, woken", self.etcd_pauses, again=True)
        self.same_everywhere(writers)
        self.primary_pauses()
        self.world.await_gone()
        self.consistent()

    def etcd_pauses(self, old):
        server = self.world.server
        server.etcd.send_signal(signal.SIGSTOP)
        until("the primary gives up", 90, lambda: server.recovers(old))
        server.etcd.send_signal(signal.SIGCONT)
        return time.time()

    def primary_pauses(self):
        """Too short for Patroni: nobody else takes over, and requests on their way are answered late."""
        w = self.world
        old = until("the cluster is whole", 180, w.server.whole)
        FailOver.told += 1
        writers = [Writer(w, "w%d%c" % (self.told, "abc"[k])) for k in range(self.WRITERS)]
        until("writes are accepted", 30, lambda: all(len(x.accepted) > 20 for x in writers))
        began = old.freeze()
        until("all writers hang", 10, lambda: all(x.troubles for x in writers))
        woken = old.signal(signal.SIGCONT)
        acted = self.act_after(woken)
        until("every writer goes on", 60, lambda: all(sum(t > woken for t in x.times) > 20 for x in writers))
        back = [min(t for t in x.times if t > woken) - woken for x in writers]
        for x in writers:
            x.stop()
        sys.stderr.write("        primary frozen for %.1f s: the writers go on after %s s, the engine acts after %.2f s\n" % (
            woken - began, " ".join("%.2f" % b for b in sorted(back)), acted))
        self.assertLess(max(*back, acted), self.late.limit(2.0))
        self.assertIs(until("the cluster is whole", 180, w.server.whole), old)
        self.nothing_is_lost(writers)

    @staticmethod
    def switch_over(old):
        """Asked of Patroni, which answers when it is done, and looks once a second."""
        threading.Thread(target=http, daemon=True, kwargs={"timeout": 60, "method": "POST", "url": "http://127.0.0.1:%d/switchover" % old.rest,
                                                           "body": {"leader": old.name}}).start()
        return time.time()


if __name__ == "__main__":
    e2e.main()
