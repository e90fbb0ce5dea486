"""The world of the chaos stories: e2e's clouds with real agents, and a Postgres that the stories control. Daemons are
started again whenever they end, as systemd does. judge.py judges the state after every story."""
import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

from support import e2e  # noqa: E402
from e2e import Failure  # noqa: E402,F401
from relay import Balancer, Plan, Proxy  # noqa: E402,F401
from pgserver import NAME, Postgres  # noqa: E402

# spotctl's word for a daemon that is not there, or says so (docs: spotctl exit codes).
UNREACHABLE = (6, 7)

# Broken requests are repeated soon, silent connections given up soon, killed leaders succeeded soon (e2e's lease is
# longer). An agent whose every second request is broken off enrols within a minute or so.
SETTINGS = {"database": {"statement_timeout": "5s"}, "engine": {"lease": "1500ms", "boot_timeout": "120s"}, "market": {"on_demand": "8s", "signals": "15s", "pools": "8s", "quotas": "15s"}}
# The resources that jobs ask for at each cloud, and the place of their checkpoints. One cloud at a time, so that every
# call of the story is that cloud's. Two have no object store of their own.
CLOUDS = {"aws": {}, "gcp": {"gpus": "L4: 1", "store": "gs"}, "azure": {"gpus": "T4: 1", "store": "az"},
          "coreweave": {"providers": ("coreweave", "aws"), "gpus": "H100: 8"},
          "lambda": {"providers": ("lambda", "aws"), "gpus": "A10: 1", "spot": False}}
cloud = "aws"
# Several worlds share the machine, and daemons that are killed all the time need more of it.
PATIENCE = 3


def skip(words):
    print("SKIPPED: %s" % words, flush=True)
    sys.exit(77)


def spotd(log, env, *words, wrap=()):
    return subprocess.Popen([*wrap, os.path.join(e2e.BUILD, "src/spotd/spotd"), *words], stdout=log, stderr=log, env=env)


@contextlib.contextmanager
def trouble(work):
    """work(over) goes on beside the story until that is over; its failure is the story's failure."""
    over, wrong = threading.Event(), []

    def run():
        try:
            work(over)
        except BaseException as e:  # noqa: B902  told below, in the story's own thread
            wrong.append(e)
    t = threading.Thread(target=run)
    t.start()
    try:
        yield
    finally:
        over.set()
        t.join()
    if wrong:
        raise Failure("the trouble itself failed: %r" % wrong[0])


@contextlib.contextmanager
def small_disk(size):
    """A folder that is a file system of its own, with room for some thousand files."""
    if os.geteuid() != 0:
        skip("only root mounts a file system")
    with tempfile.TemporaryDirectory(prefix="spotchaos-") as top:
        os.chmod(top, 0o711)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%s,mode=755,nr_inodes=8192" % size, "none", top], capture_output=True).returncode != 0:
            skip("no tmpfs may be mounted here")
        try:
            yield top
        finally:
            subprocess.run(["umount", "-l", top], check=True)


@contextlib.contextmanager
def full_disk(top):
    """Fills this file system to the last byte and the last file (elsewhere even a folder takes a block). Takes space,
    too, that others free meanwhile."""
    path, files = os.path.join(top, "ballast"), []

    def fill(f):
        try:
            while True:
                f.write(b"x" * 4096)
        except OSError:
            pass
        try:
            while True:
                os.mkdir("%s%d" % (path, len(files)))
                files.append("%s%d" % (path, len(files)))
        except OSError:
            pass

    def hold(over):
        while not over.wait(0.05):
            fill(f)
    with open(path, "wb", buffering=0) as f:
        fill(f)
        try:
            with trouble(hold):
                yield
        finally:
            os.unlink(path)
            for name in files:
                os.rmdir(name)


class Spotd:
    """A daemon and its supervisor. env: over its environment, read at each start; wrap: the words before its
    program."""

    def __init__(self, directory, config, env, name="spotd", wrap=()):
        self.config, self.env, self.name, self.wrap = config, env, name, list(wrap)
        self.extra = {}
        self.log = open(os.path.join(directory, name + ".log"), "ab")
        self.proc = self.keeper = None
        self.wanted = False
        self.ends = []
        self.lock = threading.Lock()
        self.born = threading.Event()

    def start(self):
        self.wanted = True
        self.born.clear()
        self.keeper = threading.Thread(target=self.keep, daemon=True)
        self.keeper.start()
        if not self.born.wait(20):
            raise Failure("spotd does not start")

    def keep(self):
        pause = threading.Event()
        while True:
            with self.lock:
                if not self.wanted:
                    return
                self.proc = spotd(self.log, dict(self.env, **self.extra), "--config", self.config, wrap=self.wrap)
                self.born.set()
            self.ends.append(self.proc.wait())
            # RestartSec; a kill is answered at once, a daemon that gives up by itself is not hurried.
            pause.wait(0.05 if self.ends[-1] == -signal.SIGKILL else 0.5)

    def kill9(self):
        with self.lock:
            if self.proc.poll() is None:
                self.proc.send_signal(signal.SIGKILL)
                self.proc.wait()

    def signal(self, number):
        self.proc.send_signal(number)

    def stop(self):
        with self.lock:
            self.wanted = False
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(signal.SIGCONT)
            self.proc.terminate()
            try:
                self.proc.wait(20)
            except subprocess.TimeoutExpired:
                self.proc.kill()
        if self.keeper:
            self.keeper.join(20)
        self.log.close()

    def text(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()


class World(e2e.World):
    """postgres: arguments of Postgres. The daemon's first statement is the proxy's number one."""

    def __init__(self, postgres=None, plan=None, extra=None, settings=None, net=None, **more):
        self.postgres_args, self.first_plan, self.first_extra, self.net = postgres or {}, plan, extra or {}, net
        self.pg = self.proxy = None
        self.told = time.monotonic()
        self.others = []
        self.jobs, self.gangs = {}, {}  # {job: its steps}; of those that have several nodes (how many, where their results are)
        merged = {k: dict(v) for k, v in SETTINGS.items()}
        for section, keys in (settings or {}).items():
            merged.setdefault(section, {}).update(keys)
        there = {k: v for k, v in CLOUDS[cloud].items() if k in ("providers", "store")}
        more = {"providers": (cloud,), "regions": "us-east-1", **there, **more}
        super().__init__(settings=merged, **more)

    def tell(self, text):
        print("%6.1f s  %s" % (time.monotonic() - self.told, text), flush=True)

    # ---- building ------------------------------------------------------------------------

    def dsn(self, port):
        return "host=%s port=%d user=%s dbname=%s sslmode=disable gssencmode=disable" % (self.net.outside("database") if self.net else "127.0.0.1", port, NAME, NAME)

    def raise_daemon(self):
        home = os.path.join(self.dir, "postgres")
        os.makedirs(home)
        self.pg = Postgres(home, **self.postgres_args)
        self.proxy = Proxy(self.pg.socket_path, self.net.outside("database") if self.net else "127.0.0.1")
        env = dict(self.environment(), DATABASE_URL=self.dsn(self.proxy.port))
        config = self.write_config()
        made = subprocess.run([os.path.join(e2e.BUILD, "src/spotd/spotd"), "--config", config, "--create-token", "chaos", "--role", "admin"],
                              env=env, capture_output=True, text=True, timeout=120)
        if made.returncode != 0:
            raise Failure("no token: " + made.stderr)
        self.token = made.stdout.strip()
        self.token_file = self.private_file("token", self.token + "\n")
        self.proxy.count = 0
        self.proxy.plan = self.first_plan(self) if self.first_plan else None
        self.daemon = Spotd(self.dir, config, env, wrap=self.net.wrap() if self.net else ())
        self.daemon.extra = dict(self.first_extra)
        self.daemon.start()
        self.await_ready()
        self.false_starts = len(self.daemon.ends)  # it may give up, with words, while it starts
        self.feed = e2e.Feed(self)
        self.feed.start()

    def await_ready(self):
        def up():
            try:
                return self.ask("GET", "/readyz")[0] == 200
            except OSError:
                return False
        self.until("spotd is ready", 90, up)

    def second(self, name="second", **more):
        """Another daemon on the same database, with a port of its own."""
        port = e2e.free_port()
        path = os.path.join(self.dir, name + ".conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.config_text().replace("listen = 127.0.0.1:%d" % self.port, "listen = 127.0.0.1:%d" % port))
        other = Spotd(self.dir, path, self.daemon.env, name, **more)
        other.port = port
        self.others.append(other)
        other.start()
        return other

    def close(self, failed=False):
        if self.proxy:
            self.proxy.plan = None
        for other in self.others:
            other.stop()
        if self.feed:
            self.feed.over = True
            self.feed.hang_up()
        for part in (self.daemon, self.emulator, self.proxy, self.pg):
            if part:
                part.stop()
        if failed or os.environ.get("E2E_KEEP"):
            self.tell("files of this world: %s" % self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    # ---- a daemon in a network of its own (net.py) ----------------------------------------

    def config_text(self):
        text = super().config_text()
        if not self.net:
            return text
        lines = []
        for line in text.splitlines():
            if line.startswith("listen ="):
                line = "listen = 0.0.0.0:%d" % self.port
            elif line.startswith("public_url ="):
                line = "public_url = http://%s:%d" % (self.net.inside("agents"), self.port)
            else:
                line = self.net.at_clouds(line)
            lines.append(line + "\n")
        return "".join(lines)

    @property
    def base(self):
        return "http://%s:%d" % (self.net.inside("control") if self.net else "127.0.0.1", self.port)

    def connection(self, timeout=60):
        if not self.net:
            return super().connection(timeout)
        return http.client.HTTPConnection(self.net.inside("control"), self.port, timeout=timeout)

    def until(self, what, timeout_s, test):
        return super().until(what, timeout_s * PATIENCE, test)

    # ---- speaking with a daemon that may be away -----------------------------------------

    def api(self, method, path, body=None, ok=(200, 201, 202), **kw):
        end = time.monotonic() + 90
        pause = threading.Event()
        while True:
            try:
                status, reply = self.ask(method, path, body, **kw)
            except OSError as e:
                status, reply = 503, str(e)
            if status in ok:
                return reply
            if status not in (500, 502, 503, 504, 429, 408) or time.monotonic() > end:
                raise Failure("%s %s: %s %s" % (method, path, status, reply))
            pause.wait(0.1)

    def ctl(self, *words, text=None):
        """Repeats a command while nobody is there. A submission has a key, so that it counts once. A daemon that dies
        with it holds it for a minute, and so may the next."""
        end = time.monotonic() + 240
        pause = threading.Event()
        if words[:2] in (("job", "submit"), ("fleet", "create")):
            words = (*words, "--key", os.urandom(8).hex())
        while True:
            out = self.spotctl(*words, text=text)
            if out.returncode == 0:
                return out.stdout.strip()
            if out.returncode not in UNREACHABLE or time.monotonic() > end:
                raise Failure("spotctl %s: exit %d: %s%s" % (" ".join(words), out.returncode, out.stdout, out.stderr))
            pause.wait(0.1)

    def submit(self, **kw):
        job = super().submit(**{**{k: v for k, v in CLOUDS[cloud].items() if k in ("gpus", "spot")}, **kw})
        self.jobs[job] = kw.get("steps", 400)
        return job

    def stray(self):
        """A machine past the broker, without its tag."""
        image = next(i["image"] for i in self.instances() if i["image"])
        status, text = self.ec2("RunInstances", **{"ImageId": image, "InstanceType": "g4dn.xlarge", "MinCount": "1", "MaxCount": "1",
                                                   "ClientToken": "stray", "Placement.AvailabilityZone": "us-east-1a"})
        self.stray_ref = text.split("<instanceId>")[1].split("<")[0] if status == 200 else None
        if status != 200:
            raise Failure("no stray machine: %s" % text)

    def end_stray(self):
        self.ec2("TerminateInstances", **{"InstanceId.1": self.stray_ref})

    def local_steps_of(self, ref, job):
        """Without asking anybody but the machine."""
        return self.clouds.steps(os.path.join(self.dir, "cloud", "instances", ref), job)

    def ref_of(self, job):
        """(job, instance) once it runs on one."""
        j = self.await_job(job, "%s runs" % job, 120, lambda j: j["state"] == "RUNNING" and j["node"])
        return j, self.node(j["node"])["ref"]


class Worlds:
    """with: a world that is closed, and kept for reading when the story failed."""

    def __init__(self, **options):
        self.world = World(**options)

    def __enter__(self):
        return self.world

    def __exit__(self, kind, value, trace):
        self.world.close(kind is not None)
