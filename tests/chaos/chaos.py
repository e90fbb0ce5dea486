"""The world of the chaos stories: e2e's clouds with real agents, and a Postgres that the stories control. Daemons are
started again whenever they end, as systemd does. judge.py judges the state after every story."""
import contextlib
import http.client
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

from support import e2e  # noqa: E402
from support.postgres import DATABASE, USER, Postgres  # noqa: E402
from support.spotd import Spotd, create_token, program  # noqa: E402
from world import Failure, free_port  # noqa: E402
from relay import Proxy  # noqa: E402

# spotctl's word for a daemon that is not there, or says so (docs: spotctl exit codes).
UNREACHABLE = (6, 7)

# Broken requests are repeated soon, silent connections given up soon, killed leaders succeeded soon (e2e's lease is
# longer). An agent whose every second request is broken off enrols within a minute or so.
SETTINGS = {"database": {"statement_timeout": "5s"}, "engine": {"lease": "1500ms", "boot_timeout": "120s"}, "market": {"on_demand": "8s", "signals": "15s", "pools": "8s", "quotas": "15s"}}
# Planning would take most of the time of a daemon that is killed every few seconds. So each statement has one plan, as for
# a daemon that runs for long, with its joins as they stand.
POSTGRES = ("max_connections = 100", "shared_buffers = 32MB", "jit = off", "plan_cache_mode = force_generic_plan",
            "join_collapse_limit = 1", "from_collapse_limit = 1", "log_min_messages = warning")
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


def start_postgres(directory, settings=(), data=None):
    return Postgres(directory, [*POSTGRES, *settings], data)


def database_url(port, host="127.0.0.1", database=DATABASE):
    return "host=%s port=%d user=%s dbname=%s sslmode=disable gssencmode=disable" % (host, port, USER, database)


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


class KeptSpotd(Spotd):
    """A daemon and its supervisor. wrap: the words before its program."""

    def __init__(self, directory, config, env, name="spotd", wrap=()):
        super().__init__([*wrap, program(e2e.BUILD), "--config", config], directory, env, name)
        self.config, self.keeper, self.wanted, self.ends = config, None, False, []
        self.lock, self.born = threading.Lock(), threading.Event()

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
                super().start()
                self.born.set()
            self.ends.append(self.proc.wait())
            # RestartSec; a kill is answered at once, a daemon that gives up by itself is not hurried.
            pause.wait(0.05 if self.ends[-1] == -signal.SIGKILL else 0.5)

    def kill9(self):
        with self.lock:
            if self.alive():
                super().kill9()

    def stop(self):
        with self.lock:
            self.wanted = False
        super().stop()
        if self.keeper:
            self.keeper.join(20)


class World(e2e.World):
    """postgres: arguments of start_postgres(). The daemon's first statement is the proxy's number one."""

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

    def dsn(self):
        return self.pg.dsn()

    def raise_daemon(self):
        self.pg = start_postgres(self.dir, **self.postgres_args)
        host = self.net.outside("database") if self.net else "127.0.0.1"
        self.proxy = Proxy(self.pg.port, host)
        env = dict(self.environment(), DATABASE_URL=database_url(self.proxy.port, host))
        config = self.write_config()
        self.token = create_token([program(e2e.BUILD), "--config", config], env, "chaos")
        self.token_file = self.private_file("token", self.token + "\n")
        self.proxy.count = 0
        self.proxy.plan = self.first_plan(self) if self.first_plan else None
        self.daemon = KeptSpotd(self.dir, config, env, wrap=self.net.wrap() if self.net else ())
        self.daemon.extra.update(self.first_extra)
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
        port = free_port()
        path = os.path.join(self.dir, name + ".conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.config_on(port))
        other = KeptSpotd(self.dir, path, self.daemon.env, name, **more)
        other.port = port
        self.others.append(other)
        other.start()
        return other

    def parts(self):
        return [*self.others, *super().parts(), self.proxy, self.pg]

    def close(self, failed=False):
        if self.proxy:
            self.proxy.plan = None
        super().close(failed)

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
