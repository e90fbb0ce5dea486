"""Several daemons on one Postgres that is nobody's child, behind a balancer that knows which of them can be asked.

`Replicas` is a world of e2e.py: each client, agents too, reaches any of the daemons.
"""
import os
import select
import signal
import socket
import subprocess
import threading

from support import e2e
from support.late import Late
from support.postgres import Postgres
from support.spotd import Spotd
from support.wait import until
from world import Failure, free_port, http


class Balancer:
    """Hands each connection to one of the daemons that can be asked, by turns; those of one that cannot are cut."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.lock, self.turn, self.backends, self.pairs, self.over = threading.Lock(), 0, [], [], False
        threading.Thread(target=self.run, daemon=True).start()

    def add(self, port):
        with self.lock:
            if port not in self.backends:
                self.backends.append(port)

    def remove(self, port):
        with self.lock:
            self.backends = [p for p in self.backends if p != port]
            cut = [pair for pair in self.pairs if pair[0] == port]
        for _, *sockets in cut:
            self.cut(*sockets)

    @staticmethod
    def cut(*sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def run(self):
        while not self.over:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def pick(self):
        with self.lock:
            self.turn += 1
            return [self.backends[(self.turn + k) % len(self.backends)] for k in range(len(self.backends))]

    def serve(self, client):
        for port in self.pick():
            try:
                server = socket.create_connection(("127.0.0.1", port), timeout=2)
            except OSError:
                continue
            server.settimeout(None)
            pair = (port, client, server)
            with self.lock:
                self.pairs.append(pair)
                known = port in self.backends
            if known:
                self.pump(client, server)
            with self.lock:
                self.pairs.remove(pair)
            server.close()
            break
        client.close()

    @staticmethod
    def pump(a, b):
        other = {a: b, b: a}
        while True:
            ready, _, _ = select.select([a, b], [], [])
            for s in ready:
                try:
                    data = s.recv(1 << 16)
                    if not data:
                        return
                    other[s].sendall(data)
                except OSError:
                    return

    def close(self):
        self.over = True
        self.cut(self.listener)
        self.listener.close()


class Replica(Spotd):
    """One daemon of several; the balancer knows whether it can be asked."""

    def __init__(self, world, name, program=None):
        self.world, self.port = world, free_port()
        self.config = os.path.join(world.dir, name + ".conf")
        self.program = program or os.path.join(e2e.BUILD, "src/spotd/spotd")
        super().__init__([self.program, "--config", self.config], world.dir, None, name)

    def start(self):
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(self.world.config_text().replace("listen = 127.0.0.1:%d" % self.world.port, "listen = 127.0.0.1:%d" % self.port))
        self.env = dict(self.world.environment(), DATABASE_URL=self.world.dsn())
        super().start()
        self.await_up(self.answers)
        self.world.balancer.add(self.port)

    def answers(self):
        try:
            return http("GET", "http://127.0.0.1:%d/readyz" % self.port, timeout=5)[0] == 200
        except OSError:
            return False

    def send(self, number):
        at = super().send(number)
        (self.world.balancer.add if number == signal.SIGCONT else self.world.balancer.remove)(self.port)
        return at

    def terminate(self):
        return self.send(signal.SIGTERM)


class Replicas(e2e.World):
    """daemons: how many; programs: their executables, in order; the build's spotd by default."""

    def __init__(self, daemons=2, programs=(), **kw):
        self.count, self.programs = daemons, programs
        self.balancer, self.server, self.replicas = Balancer(), None, []
        super().__init__(**kw)

    def raise_server(self):
        return Postgres(self.dir)

    def dsn(self):
        return self.server.dsn()

    def sql(self, text):
        return self.server.sql(text)

    def raise_daemon(self):
        self.port = self.balancer.port
        self.server = self.raise_server()
        self.token_file = os.path.join(self.dir, "admin-token")
        for k in range(self.count):
            r = Replica(self, "spotd-%d" % k, self.programs[k] if k < len(self.programs) else None)
            self.replicas.append(r)
            r.start()
            if k == 0:
                self.make_token(r.program)
        self.daemon = self.replicas[0]
        self.feed = e2e.Feed(self)
        self.feed.start()

    def make_token(self, program):
        out = subprocess.run([program, "--create-token", "tests", "--role", "admin"], env=dict(self.environment(), DATABASE_URL=self.dsn()),
                             capture_output=True, text=True, timeout=60)
        if out.returncode != 0:
            raise Failure("no token: " + out.stderr)
        self.token = out.stdout.strip()
        with open(os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
            f.write(self.token + "\n")

    def leader(self):
        """Returns the daemon with the current lease."""
        holder = self.sql("SELECT holder FROM leader WHERE until_us > extract(epoch FROM clock_timestamp()) * 1000000")
        for r in self.replicas:
            if r.proc and r.proc.poll() is None and holder.endswith("/%d" % r.proc.pid):
                return r
        return None

    def await_leader(self, other_than=None, timeout_s=30):
        return until("somebody leads", timeout_s, lambda: (lambda r: r if r is not other_than else None)(self.leader()))

    def log(self):
        return "".join(r.text() for r in self.replicas)

    def close(self, failed=False):
        self.daemon = None
        if self.feed:
            self.feed.over = True
        for r in self.replicas:
            r.stop()
        self.balancer.close()
        if self.server:
            self.server.stop()
        super().close(failed)


class Case(e2e.Case):
    """One world of WORLD per class."""
    WORLD = None

    @classmethod
    def setUpClass(cls):
        cls.broken, cls.late = False, Late()
        cls.world = (cls.WORLD or Replicas)(**cls.OPTIONS)
        try:
            cls.world.prices()
        except BaseException:
            cls.world.close(True)
            raise

    def act_after(self, at):
        """Seconds from a moment until something was decided about a job that is submitted now."""
        w = self.world
        job = w.submit(name="probe", gpus="T4: 1", steps=100000)  # it may run by then, and must not be over
        first = w.until("a decision about the probe", 30, lambda: w.sql(
            "SELECT min(at_us) FROM decision WHERE job_id = %s" % job[1:]))
        w.ctl("job", "cancel", job)
        return int(first) / 1e6 - at

    def consistent(self):
        out = self.world.spotctl("doctor", "--consistency")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
