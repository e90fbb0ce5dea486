"""A whole world for end-to-end tests: emulated clouds with real agents, the daemon with its private Postgres, spotctl.

    e2e_x.py BUILD [unittest arguments]

Waiting is for events: the broker's own stream wakes every condition here, the emulator's /wait and the API's long polls
do the rest. A condition that nothing announces (the ledger) is looked at again every half second.
"""
import datetime
import hashlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import cloudsim_proc
from clouds import Clouds
from support import spotd
from support.feed import Feed
from support.late import Late
from support.postgres import prepare_local
from support.wait import until
from world import Emulator, Failure, free_port, http as plain_http

BUCKET, REGION = "spot-e2e", "us-east-1"
TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
BUILD = None

# The lease outlives the stalls of a busy machine. Tests that kill a daemon set a shorter one: its successor waits that long.
CONFIG = {
    "market": {"spot": "2s", "on_demand": "20s", "signals": "30s", "pools": "60s", "quotas": "60s"},
    "engine": {
        "tick": "300ms", "lease": "5s", "offers_age": "300ms", "watch": "1s", "sweep": "3s", "bill": "1s", "boot_timeout": "60s",
        "idle_keep": "2s", "terminate_retry": "1s", "cool_min": "3s", "cool_max": "8s", "reclaim_cool": "20s", "list_lag": "4s",
        "lookup_again": "1s", "launch_retry": "300ms", "launch_timeout": "30s", "call_timeout": "15s", "orphan_grace": "4s",
        "drain_grace": "5s", "patience": "4s", "return_hold": "2s", "return_probe": "2s", "return_margin": "0", "supply_window": "20s", "supply_hold": "2s", "deadline_tick": "2s",
        "moves_per_hour": "60", "changeover": "1s", "agent_silent": "8s", "agent_lost": "60s"},
    "rank": {"restart_s": "5", "save_s": "1"},
    "log": {"level": "info"},
}

JOB = """name: {name}
resources:
  accelerators: {{{gpus}}}
{resources}
{top}
file_mounts:
  bin/spot-train: {train}
run: |
  chmod +x bin/spot-train
  {before}
  exec bin/spot-train --steps {steps} --step-ms {step_ms} --seed 7
config:
  spotctl:
    team: research
    project: e2e
    class: training
{ours}
    checkpoint: {{path: ckpt, signal: USR1, interval: {interval}, budget: 10s}}
"""


def micros(text):
    """Microseconds of an RFC 3339 time."""
    t = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int((t - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) / datetime.timedelta(microseconds=1))


def fastest_s(world, gpus, work="2h"):
    """Seconds in which the plan has the job done on demand, with its start."""
    text = "resources:\n  accelerators: {%s}\nrun: x\nconfig: {spotctl: {work: %s, checkpoint: {path: ckpt}}}\n" % (gpus, work)
    offers = world.ctl_json("plan", "-", text=text)["offers"]
    return min(o["hours_to_finish"] for o in offers if o["pool"]["market"] == "on_demand") * 3600 + 5


class World:
    """settings: sections of the daemon's configuration over CONFIG; providers: which clouds it has, regions of AWS;
    store: scheme of where checkpoints go."""
    least_s = 60  # is waited for whatever must come, on a busy machine

    def __init__(self, settings=None, providers=("aws", "lambda"), regions="us-east-1,us-west-2", emulator=("--boot-ms", "300"),
                 tls=False, env=None, store="s3"):
        self.dir = tempfile.mkdtemp(prefix="spote2e-")
        os.chmod(self.dir, 0o711)
        self.pace = os.path.join(self.dir, "pace")
        self.providers, self.regions, self.tls, self.scheme = providers, regions, tls, store
        self.settings = {k: dict(v) for k, v in CONFIG.items()}
        for section, keys in (settings or {}).items():
            self.settings.setdefault(section, {}).update(keys)
        self.emulator = self.daemon = self.feed = self.token = None
        self.port = free_port()
        self.extra_env = env or {}
        self.children = []
        self.made_twice = set()  # tokens that a test had launched twice on purpose
        try:
            self.raise_clouds(emulator)
            self.raise_daemon()
        except BaseException:
            self.close()
            raise

    # ---- building it ---------------------------------------------------------------------

    def raise_clouds(self, options):
        self.emulator = Emulator(BUILD, os.path.join(self.dir, "cloud"), list(options))
        self.clouds = Clouds(self.emulator, self.dir, {"aws": self.regions})
        self.keys, self.cloud_secrets = self.clouds.keys, self.clouds.secrets()
        self.lambda_key = self.emulator.info["credentials"]["lambda"]["api_key"]
        self.clouds.prepare(self.providers)
        self.store = self.clouds.store(self.scheme, BUCKET)
        with open(os.path.join(BUILD, "deploy/examples/spot-train"), "rb") as f:
            self.store.put("e2e/spot-train", f.read())

    def private_file(self, name, text):
        return self.clouds.private(name, text)

    def get_object(self, key):
        return self.store.get(key)

    def config_text(self):
        agents = os.path.join(self.dir, "agents")
        if not os.path.exists(agents):
            os.makedirs(agents)
            for name in ("src/agent/spot-agent", "src/agent/spot-nvml"):
                shutil.copy(os.path.join(BUILD, name), agents)
        s = {k: dict(v) for k, v in self.settings.items()}
        s["checkpoint"] = dict(self.store.settings(), **s.get("checkpoint", {}))
        s["api"] = dict({"listen": "127.0.0.1:%d" % self.port, "public_url": self.base, "agent_dir": agents}, **s.get("api", {}))
        if self.tls:
            cert, key = self.certificate()
            s["api"].update(tls_cert=cert, tls_key=key, public_ca=cert)
        for name, keys in self.clouds.sections(self.providers).items():
            s[name] = dict(keys, **s.get(name, {}))
        unknown = [n for n in s if n.startswith("provider ") and "kind" not in s[n]]
        for name in unknown:  # settings for a cloud that this world is without
            del s[name]
        return "".join("[%s]\n%s\n" % (section, "".join("%s = %s\n" % kv for kv in keys.items())) for section, keys in s.items())

    @property
    def base(self):
        return "%s://127.0.0.1:%d" % ("https" if self.tls else "http", self.port)

    def certificate(self):
        """A self-made certificate for 127.0.0.1; openssl's program makes it."""
        cert, key = os.path.join(self.dir, "tls.pem"), os.path.join(self.dir, "tls.key")
        if not os.path.exists(cert):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                            "-subj", "/CN=e2e", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                           check=True, capture_output=True)
        return cert, key

    def write_config(self, text=None):
        path = os.path.join(self.dir, "spotd.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text if text is not None else self.config_text())
        return path

    def environment(self):
        env = self.clouds.environment()
        env.update(XDG_DATA_HOME=os.path.join(self.dir, "data"))
        env.update(self.extra_env)
        return env

    def raise_daemon(self):
        data = os.path.join(self.dir, "data")
        prepare_local(BUILD, data)
        self.daemon = spotd.Spotd([spotd.program(BUILD), "--local", "--config", self.write_config()], self.dir, self.environment())
        self.token_file = os.path.join(data, "spotbroker", "admin-token")
        self.daemon.start()
        self.await_ready()
        self.feed = Feed(self)
        self.feed.start()

    def await_ready(self):
        def up():
            if not os.path.exists(self.token_file):
                return False
            with open(self.token_file, encoding="utf-8") as f:
                self.token = f.read().strip()
            try:
                return self.token and self.ask("GET", "/readyz")[0] == 200
            except OSError:
                return False
        self.daemon.await_up(up)

    def stop_daemon(self, sig=signal.SIGTERM):
        self.daemon.end(sig)

    def start_daemon(self):
        self.daemon.start()
        self.await_ready()

    def log(self):
        return self.daemon.text()

    def close(self, failed=False):
        if self.feed:
            self.feed.over = True
            self.feed.hang_up()
        for p in self.children:
            if p.poll() is None:
                p.kill()
                p.wait()
        for part in (self.daemon, self.emulator):
            if part:
                part.stop()
        if failed or os.environ.get("E2E_KEEP"):
            sys.stderr.write("files of this world: %s\n" % self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    # ---- waiting -------------------------------------------------------------------------

    def until(self, what, timeout_s, test):
        pause = (lambda: self.feed.wait(0.5)) if self.feed else 0.05
        return until(what, max(timeout_s, self.least_s), test, pause, self.trouble)

    def trouble(self):
        """Jobs and nodes, for the words of a failed wait."""
        try:
            jobs = ["%(id)s %(state)s epoch %(epoch)s node %(node)s steps %(steps_done)s why %(why)s" % j for j in self.api("GET", "/v1/jobs")["items"][:4]]
            nodes = ["%s %s %s %s: %s %s" % (n["id"], n["state"], n["ref"], self.pool_text(n["pool"]), n["why"], n["last_error"])
                     for n in self.api("GET", "/v1/nodes?limit=12")["items"]]
        except (Failure, OSError) as e:
            return "\n(no state: %s)" % e
        return "\n  " + "\n  ".join(jobs + nodes)

    # ---- speaking ------------------------------------------------------------------------

    def connection(self, timeout=60):
        if self.tls:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout,
                                               context=ssl.create_default_context(cafile=self.certificate()[0]))
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, token=True):
        """(status, JSON or text)"""
        c = self.connection()
        h = {"Content-Type": "application/json"}
        if token and self.token:
            h["Authorization"] = "Bearer " + self.token
        h.update(headers or {})
        try:
            c.request(method, path, None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body), h)
            r = c.getresponse()
            text = r.read()
        except http.client.HTTPException as e:
            raise OSError(str(e)) from e
        finally:
            c.close()
        try:
            return r.status, json.loads(text) if text else None
        except ValueError:
            return r.status, text.decode("utf-8", "replace")

    def api(self, method, path, body=None, ok=(200, 201, 202), **kw):
        status, reply = self.ask(method, path, body, **kw)
        if status not in ok:
            raise Failure("%s %s: %s %s" % (method, path, status, reply))
        return reply

    def spotctl_args(self, words, ca=True):
        if self.tls and ca:
            words = (*words, "--ca-file", self.certificate()[0])
        env = {k: v for k, v in os.environ.items() if not k.startswith("SPOTCTL")}
        env.update(SPOTCTL_URL=self.base, SPOTCTL_TOKEN_FILE=self.token_file, NO_COLOR="1", HOME=self.dir)
        return {"args": [os.path.join(BUILD, "src/spotctl/spotctl"), *words], "env": env, "text": True}

    def spotctl(self, *words, text=None, ca=True):
        return subprocess.run(**self.spotctl_args(words, ca), input=text, capture_output=True, timeout=120)

    def start_ctl(self, *words):
        """spotctl as a process beside the test."""
        self.children.append(subprocess.Popen(**self.spotctl_args(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return self.children[-1]

    def ctl(self, *words, text=None):
        out = self.spotctl(*words, text=text)
        if out.returncode != 0:
            raise Failure("spotctl %s: exit %d: %s%s" % (" ".join(words), out.returncode, out.stdout, out.stderr))
        return out.stdout.strip()

    def ctl_json(self, *words, text=None):
        return json.loads(self.ctl(*words, "-o", "json", text=text))

    def sim(self, method, path, body=None):
        return self.emulator.ask(method, path, body)

    def sim_wait(self, event, timeout_s=0, **more):
        timeout_s = max(timeout_s, min(self.least_s, 50))  # the request itself may take 60
        q = urllib.parse.urlencode(dict(more, event=event, timeout_ms=int(timeout_s * 1000)))
        got = self.sim("GET", "/wait?" + q)
        if got["timeout"]:
            raise Failure("the clouds saw no %s %s within %d s%s" % (event, more, timeout_s, self.trouble()))
        return got["events"]

    def instances(self, live=False):
        return self.sim("GET", "/state" + ("?live=1" if live else ""))["instances"]

    def counted(self, service, action):
        """Requests of that kind that the clouds have served."""
        return sum(c["n"] for c in self.sim("GET", "/state")["requests"] if c["service"] == service and c["action"] == action)

    def instance(self, ref):
        return [i for i in self.instances() if i["id"] == ref][0]

    def take_pod(self, node, grace_s):
        """Somebody drains the machine under it."""
        cluster = self.clouds.clusters[node["ref"].split("/")[0]]
        pod = self.clouds.pod(node)["metadata"]
        status, reply = plain_http("DELETE", "%s/api/v1/namespaces/%s/pods/%s?gracePeriodSeconds=%d" % (
            cluster["server"], pod["namespace"], pod["name"], grace_s), token=cluster["token"])
        if status != 200:
            raise Failure("the Pod is not deleted: %s %s" % (status, reply))

    def ec2(self, action, region=REGION, **params):
        """A signed call past the broker. Returns (status, XML text)."""
        form = urllib.parse.urlencode(dict({"Action": action, "Version": "2016-11-15"}, **params)).encode()
        url = self.emulator.url + "/"
        headers = cloudsim_proc.sign("POST", url, form, {"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
                                     *self.keys, region, "ec2")
        status, _, text = cloudsim_proc.http("POST", url, form, headers)
        return status, text.decode()

    # ---- jobs and nodes ------------------------------------------------------------------

    def prices(self, least=None):
        """Waits until every provider has told prices of the GPUs that tests use."""
        want = least or {("aws", "spot"): 5, ("aws", "on_demand"): 3, ("lambda", "on_demand"): 1, ("gcp", "spot"): 3, ("gcp", "on_demand"): 3,
                         ("azure", "spot"): 3, ("azure", "on_demand"): 3, ("coreweave", "spot"): 1, ("coreweave", "on_demand"): 1,
                         ("kubernetes", "on_demand"): 1}
        want = {k: n for k, n in want.items() if k[0] in self.providers}

        def there():
            have = {}
            for gpu in ("A10G", "A10", "L4", "T4", "H100"):
                for p in self.api("GET", "/v1/prices?gpu=%s&limit=1000" % gpu)["items"]:
                    have[(p["provider"], p["market"])] = have.get((p["provider"], p["market"]), 0) + 1
            return all(have.get(k, 0) >= n for k, n in want.items())
        self.until("prices", 60, there)

    def submit(self, name="e2e", gpus="A10G: 1, L4: 1, A10: 1, T4: 1", spot=True, steps=400, step_ms=50, interval="never", ours="",
               before=":", top="", resources=()):
        lines = ["use_spot: %s" % ("true" if spot else "false"), *resources]
        text = JOB.format(name=name, gpus=gpus, resources="\n".join("  " + line for line in lines), steps=steps, step_ms=step_ms,
                          interval=interval, train=self.store.uri("e2e/spot-train"), before=before, top=top,
                          ours="\n".join("    " + line for line in (ours.splitlines() or ["work: 2h"])))
        return self.ctl("job", "submit", "-", text=text)

    def paced(self, steps):
        """For submit(steps=...): a job that is longer than any machine needs for its story, and ends soon after hurry()."""
        if os.path.exists(self.pace):
            os.unlink(self.pace)
        return "%d --pace %s" % (steps, self.pace)

    def hurry(self):
        with open(self.pace + ".new", "w", encoding="ascii") as f:
            f.write("0\n")
        os.chmod(self.pace + ".new", 0o644)
        os.rename(self.pace + ".new", self.pace)

    def job(self, job):
        return self.api("GET", "/v1/jobs/" + job)

    def node(self, node):
        return self.api("GET", "/v1/nodes/" + node)

    def nodes(self, live=True, query=""):
        return self.api("GET", "/v1/nodes?limit=1000%s%s" % ("&state=live" if live else "", query))["items"]

    def await_job(self, job, what, timeout_s, test, ends_ok=False):
        def look():
            j = self.job(job)
            if not ends_ok and j["state"] in ("FAILED", "CANCELLED"):
                raise Failure("%s: the job is %s: %s %s" % (what, j["state"], j["reason"], j["why"]))
            return j if test(j) else None
        return self.until(what, timeout_s, look)

    def local_steps(self, job, node):
        """Steps that the job wrote on its node; the broker learns of them with the agent's next report."""
        home = os.path.join(self.dir, "cloud", "instances", node) if node.startswith("i-") else self.clouds.home(self.node(node))
        return self.clouds.steps(home, job)

    def agent_file(self, ref, job, name):
        """Does the agent of that instance hold this file for the job?"""
        root = os.path.join(self.dir, "cloud", "instances", ref, "var/lib/spot-agent/jobs")
        return any(os.path.exists(os.path.join(root, d, name)) for d in os.listdir(root) if d.split("-")[0] == job)

    def await_steps(self, job, steps, timeout_s=150):
        """The job, once it runs somewhere and has come so far."""
        return self.await_job(job, "%s at step %d" % (job, steps), timeout_s,
                              lambda j: j["state"] == "RUNNING" and j["node"] and self.local_steps(job, j["node"]) >= steps)

    def await_attempt(self, job, epoch, timeout_s=150):
        """The job, once this attempt or a later one has started to run."""
        return self.await_job(job, "attempt %d of %s" % (epoch, job), timeout_s,
                              lambda j: any(a["epoch"] >= epoch and a["started_at"] for a in j["attempts_list"]))

    def await_end(self, job, timeout_s=150):
        """By the API's own long poll."""
        end = time.monotonic() + timeout_s
        while True:
            j = self.api("GET", "/v1/jobs/%s?wait_state=terminal&timeout_s=10" % job)
            if j["state"] in TERMINAL:
                return j
            if time.monotonic() > end:
                raise Failure("%s does not end%s" % (job, self.trouble()))

    def await_gone(self, timeout_s=120):
        """Nothing lives: neither in the clouds' books nor in ours; nothing was launched twice."""
        self.until("every instance is gone", timeout_s, lambda: self.sim("GET", "/books")["alive"] == 0 and not self.nodes() and
                   not [i for i in self.sim("GET", "/books")["instances"] if not i["terminated"]])
        books = self.sim("GET", "/books")
        twice = [d for d in books["double_launches"] if d["token"] not in self.made_twice]
        if twice:
            raise Failure("launched twice: %s" % twice)
        return books

    @staticmethod
    def pool_text(p):
        return "%s/%s/%s/%s/%s" % (p["provider"], p["region"], p["zone"], p["instance_type"], p["market"])

    def result_of_uninterrupted(self, steps):
        alone = tempfile.mkdtemp(dir=self.dir)
        subprocess.run([os.path.join(BUILD, "deploy/examples/spot-train"), "--steps", str(steps), "--step-ms", "0", "--seed", "7"],
                       check=True, cwd=alone, stdout=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "SPOT_CHECKPOINT_DIR": alone})
        with open(os.path.join(alone, "result.txt"), "rb") as f:
            return f.read()

    def result_of(self, job):
        """result.txt out of the newest committed checkpoint, its chunks verified."""
        chain = sorted((c for c in self.job(job)["checkpoints"] if c["state"] == "COMMITTED"), key=lambda c: int(c["id"][1:]))
        text = b""
        for chunk in self.api("GET", "/v1/checkpoints/" + chain[-1]["id"])["chunks"]:
            if chunk["path"] != "result.txt":
                continue
            status, body = self.get_object(chunk["object_key"])
            if status != 200 or hashlib.sha256(body).hexdigest() != chunk["sha256"]:
                raise Failure("chunk %s is not in the store as committed" % chunk["object_key"])
            text += body
        return text

    def tree(self, ref):
        """Pids of an instance's processes."""
        with open(os.path.join(self.dir, "cloud", "instances", ref, "init.pid"), encoding="utf-8") as f:
            root = int(f.read())
        parents = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid, encoding="utf-8") as f:
                    parents[int(pid)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                pass
        found, fresh = {root}, {root}
        while fresh:
            fresh = {p for p, parent in parents.items() if parent in fresh} - found
            found |= fresh
        return sorted(found)

    def processes(self, ref, word):
        """Those of the tree with this word in their command line."""
        found = []
        for pid in self.tree(ref):
            try:
                with open("/proc/%d/cmdline" % pid, "rb") as f:
                    if word.encode() in f.read():
                        found.append(pid)
            except OSError:
                pass
        return found


class Case(unittest.TestCase):
    """One world per class; OPTIONS has its parts."""
    OPTIONS = {}
    maxDiff = None
    world = None
    broken = False

    @classmethod
    def setUpClass(cls):
        cls.broken, cls.late = False, Late()
        cls.world = World(**cls.OPTIONS)
        try:
            cls.world.prices()
        except BaseException:
            cls.world.close(True)
            raise

    @classmethod
    def tearDownClass(cls):
        cls.world.close(cls.broken)

    def run(self, result=None):
        before = (len(result.failures), len(result.errors))
        began = time.monotonic()
        super().run(result)
        sys.stderr.write("        %.1f s\n" % (time.monotonic() - began))
        if (len(result.failures), len(result.errors)) != before:
            type(self).broken = True


def main():
    global BUILD
    BUILD = os.path.abspath(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
