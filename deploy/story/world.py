"""Starts, stops and speaks to the programs of the demo: emulator, daemon, and what they leave behind."""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request


class Failure(Exception):
    pass


def align(lines):
    """Columns that tabs separate, as a table: spotctl gives tabs where its output is not a terminal."""
    out, block = [], []
    for line in [*lines, None]:
        cells = line.split("\t") if line is not None else None
        if cells and len(cells) > 1 and (not block or len(block[0]) == len(cells)):
            block.append(cells)
            continue
        widths = [max(map(len, column)) for column in zip(*block)]
        out += ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in block]
        block = [cells] if cells and len(cells) > 1 else []
        if line is not None and not block:
            out.append(line)
    return out


def free_port():
    """A port where nobody listens, of those that the kernel gives to no outgoing connection: it is still free when its server comes."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first = int(f.read().split()[0])
    for _ in range(100):
        port = random.SystemRandom().randrange(10000, max(first, 10001))
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise Failure("no free port from 10000 to %d" % first)


def exchange(method, url, body=None, headers=None, timeout=60):
    """(status, headers, body bytes); no exception for 4xx and 5xx."""
    req = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(req, timeout=timeout) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def http(method, url, body=None, token=None, timeout=60):
    """Returns (status, parsed JSON or text)."""
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = "Bearer " + token
    data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    status, _, text = exchange(method, url, data, headers, timeout)
    try:
        return status, json.loads(text) if text else None
    except ValueError:
        return status, text.decode("utf-8", "replace")


def until(what, timeout_s, test, pause=0.05, trouble=None):
    """The first true value of test(). pause: seconds between two looks, or a function that waits for news.
    trouble: gives words for the failure."""
    idle = threading.Event()
    end = time.monotonic() + timeout_s
    while True:
        got = test()
        if got:
            return got
        if time.monotonic() > end:
            raise Failure("timed out after %g s: %s%s" % (timeout_s, what, trouble() if trouble else ""))
        if callable(pause):
            pause()
        else:
            idle.wait(pause)


class Emulator:
    """words: cloudsim and its options. Its files are in the directory; its output goes to the file log there, or to ours."""

    def __init__(self, words, directory, log="cloudsim.log"):
        self.dir = directory
        os.makedirs(directory, exist_ok=True)
        self.log = open(os.path.join(directory, log), "wb") if log else None
        self.proc = subprocess.Popen([*words, "--dir", directory], stdout=self.log, stderr=subprocess.STDOUT if log else None)
        try:
            self.info = self.wait_ready(os.path.join(directory, "cloudsim.json"))
        except BaseException:  # an interrupt too: nobody else knows of the process yet
            self.stop()
            raise
        self.control = "http://127.0.0.1:%d" % self.info["control_port"]
        self.url = "http://127.0.0.1:%d" % self.info["port"]

    def wait_ready(self, path):
        def is_ready():
            if self.proc.poll() is not None:
                raise Failure("the emulator ended at once: see %s" % (self.log.name if self.log else "above"))
            return os.path.exists(path)
        until("the emulator is ready", 60, is_ready)
        with open(path, encoding="utf-8") as f:
            return json.load(f)

    def ask(self, method, path, body=None):
        status, reply = http(method, self.control + path, body)
        if status >= 300:
            raise Failure("emulator %s %s: %s %s" % (method, path, status, reply))
        return reply

    def stop(self):
        """Returns the exit code."""
        if self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(30)
            except subprocess.TimeoutExpired:
                self.proc.kill()
        if self.log:
            self.log.close()
        return self.proc.wait()


class Daemon:
    """spotd with its private Postgres. Keys reach it by files only, as they should. SPOT_TEST_SPOTD: another program in its place."""

    def __init__(self, build, directory, config, env):
        self.build, self.dir, self.env = build, directory, env
        self.config = config
        self.log = open(os.path.join(directory, "spotd.log"), "ab")
        self.proc = None
        self.restarts = -1
        self.wanted = True
        self.lock = threading.Lock()

    def start(self):
        with self.lock:
            if not self.wanted:
                return
            self.restarts += 1
            program = os.environ.get("SPOT_TEST_SPOTD") or os.path.join(self.build, "src/spotd/spotd")
            self.proc = subprocess.Popen([program, "--local", "--config", self.config],
                                         stdout=self.log, stderr=subprocess.STDOUT, env=self.env)

    def kill9(self):
        with self.lock:
            if self.wanted and self.proc.poll() is None:
                self.proc.send_signal(signal.SIGKILL)
                self.proc.wait()

    def stop(self):
        with self.lock:
            self.wanted = False
        if self.proc and self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(30)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.log.close()


class Killer(threading.Thread):
    """kill -9 of the daemon at random moments, by seed; it is started again at once. Some lives end during the start, however long it is. The others
    last for a random time after a call says that it is ready. That time grows with the length of the start: on a slow machine no life
    would otherwise get anywhere."""
    LONGEST_S, START_S = 9.0, 3.0

    def __init__(self, daemon, seed, say, ready):
        super().__init__(daemon=True)
        self.target, self.rng, self.say, self.ready = daemon, random.Random(seed), say, ready
        self.over = threading.Event()
        self.kills, self.slow = 0, 1.0

    def lives(self):
        """False: all is over."""
        life = self.rng.uniform(0.3, self.LONGEST_S)
        if life > self.START_S:
            began = time.monotonic()
            while not self.ready() and time.monotonic() < began + 60:
                if self.over.wait(0.1):
                    return False
            slow = max(1.0, (time.monotonic() - began) / self.START_S)
            self.slow = max(self.slow, slow)
            life = (life - 1) * slow
        return not self.over.wait(life)

    def run(self):
        while self.lives():
            self.target.kill9()
            self.kills += 1
            self.say("       kill -9 of spotd, start %d" % (self.kills + 1))
            self.target.start()

    def stop(self):
        self.over.set()
        self.join()


def say(text):
    print(text, file=sys.stderr, flush=True)
