#!/usr/bin/env python3
"""The daemon as a program: arguments, configuration, roles, reload, stopping, coming back after kill -9.

    engine_spotd_test.py SPOTD SAMPLE
"""
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support.postgres import local_dsn, psql  # noqa: E402
from support.spotd import Spotd  # noqa: E402
from support.wait import until  # noqa: E402
from world import exchange  # noqa: E402

SPOTD, SAMPLE = sys.argv[1], sys.argv[2]
DIR = tempfile.mkdtemp(prefix="spotbroker-spotd-")
os.chmod(DIR, 0o711)
ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": DIR, "XDG_DATA_HOME": os.path.join(DIR, "data"),
       "AWS_EC2_METADATA_DISABLED": "true"}
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        ENV[name] = os.environ[name]


def run(*args, env=None):
    return subprocess.run([SPOTD, *args], env=dict(ENV, **(env or {})), capture_output=True, text=True, timeout=90)


def conf(text, name="spotd.conf"):
    path = os.path.join(DIR, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def get(url, token=None, post=None):
    headers = {"Authorization": "Bearer " + token} if token else {}
    if post is not None:
        headers["Content-Type"] = "application/yaml"
    status, got, text = exchange("GET" if post is None else "POST", url, post, headers)
    return status, None if status >= 400 else json.loads(text) if got["Content-Type"] == "application/json" else text


class Daemon(Spotd):
    """Runs at once."""
    alive_ones = []

    def __init__(self, *args, env=None):
        name = "state-%d.json" % time.monotonic_ns()
        self.state = os.path.join(DIR, name)
        super().__init__([SPOTD, "--state-file", self.state, *args], DIR, dict(ENV, **(env or {})), name)
        self.start()
        Daemon.alive_ones.append(self)

    def ready(self):
        state = self.await_state(self.state)
        self.url = "http://127.0.0.1:%d" % state["port"]
        return state


GCP_KEY = json.dumps({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"})
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: lab
clusters: [{name: lab, cluster: {server: "https://lab.example:6443"}}]
users: [{name: u, user: {token: word}}]
contexts: [{name: lab, context: {cluster: lab, user: u}}]
"""
LOCAL = "[api]\nlisten = 127.0.0.1:0\n[engine]\nlease = 1s\n"


class Arguments(unittest.TestCase):
    def test_help_and_version_say_what_they_are(self):
        self.assertIn("--check-config", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^spotd \d+\.\d+")

    def test_an_unknown_argument_or_role_is_refused(self):
        for args in (["--nonsense"], ["--role", "king"], ["--config"], ["--create-token", "x"]):
            self.assertEqual(run(*args).returncode, 2, args)

    def test_without_a_database_it_says_what_to_set(self):
        r = run()
        self.assertEqual(r.returncode, 2)
        self.assertIn("DATABASE_URL", r.stderr)


class Configuration(unittest.TestCase):
    def refused(self, text, *words):
        r = run("--config", conf(text), "--check-config")
        self.assertEqual(r.returncode, 1, text)
        for w in words:
            self.assertIn(w, r.stderr)

    def test_mistakes_are_named_with_line_and_key(self):
        self.refused("[engine]\n\ntick = soon\n", "spotd.conf:3: ", "tick", "duration")
        self.refused("[engine]\ntick = 1us\n", "below the minimum")
        self.refused("[engine]\ntock = 1s\n", "no key 'tock'")
        self.refused("[motor]\n", "unknown section")
        self.refused("[motor x]\nkind = aws\n", "[provider NAME]")
        self.refused("[api]\nlisten = 8642\n", "ADDRESS:PORT")
        self.refused("[api]\ntls_cert = a.pem\n", "tls_key")
        self.refused("[checkpoint]\nstore = /tmp/x\n", "s3://")
        self.refused("[log]\nlevel = loud\n", "loud")
        self.refused("[share nlp]\nweight = none\n", "spotd.conf:2: [share nlp] weight = 'none': must be a number from 0.001 to 1000")
        self.refused("[share nlp]\nwait = 2\n", "spotd.conf:2: [share nlp]: no key 'wait'; valid is weight")
        self.refused("[share nlp]\n", "spotd.conf:1: [share nlp]: weight is missing")
        self.refused("[share %s]\nweight = 1\n" % ("x" * 61), "at most 60 bytes")
        self.refused("[engine]\ncool_min = 30m\ncool_max = 1m\n", "cool_min")
        self.refused("[engine]\ntick = 1s\n[api]\norphan_timeout = 30s\n", "spotd.conf:4: ", "[api] orphan_timeout must be at least 1m", "0s for never")
        self.refused("[api]\npublic_ca = /nowhere.pem\n", "/nowhere.pem")

    def test_every_mistake_is_named_at_once(self):
        text = """[api]
listen = 8642
tls_cert = a.pem
[engine]
tick = soon
tock = 1s
cool_min = 30m
cool_max = 1m
[motor x]
kind = aws
[class eval]
priority = high
tiers = Q9
[provider aws]
regions = Ohio
identity = maybe
[provider mars]
[log]
level = loud
"""
        r = run("--config", conf(text), "--check-config")
        self.assertEqual(r.returncode, 1)
        at = [re.match(r".*/spotd\.conf:(\d+): \S", line) for line in r.stderr.splitlines()]
        self.assertNotIn(None, at, r.stderr)
        self.assertEqual([int(m.group(1)) for m in at], [5, 6, 9, 12, 13, 2, 3, 19, 7, 16, 14, 17], r.stderr)
        # One by one the words are the same, and the daemon starts with none of them.
        self.assertEqual(run("--config", conf(text), "--print-config").stderr, "spotd: " + r.stderr.splitlines()[0] + "\n")

    def test_mistakes_in_a_provider_are_named_before_anything_starts(self):
        self.refused("[provider mars]\n", "spotd.conf:1: ", "mars")
        self.refused("[provider aws]\nregion = us-east-1\n", "spotd.conf:2: ", "'region'", "providers/aws/README.md; did you mean 'regions'?")
        self.refused("[provider aws]\nregions = Ohio\n", "regions", "Ohio")
        self.refused("[provider aws]\n\nsecret_access_key = hunter2hunter2\n", "spotd.conf:3: ", "secret_access_key")
        self.refused("[provider lambda]\nendpoint = http://example.com\n", "https")
        r = run("--config", conf("[provider aws]\nsubnet.use1-az1 = subnet-0a1b2c3d\n"), "--check-config")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_the_store_must_be_one_that_its_provider_can_sign_for(self):
        aws, lam = "[provider aws]\n", "[provider lambda]\napi_key_file = /dev/null\n"
        self.refused("[checkpoint]\nstore = ftp://x/y\n", "s3://", "gs://", "az://")
        self.refused("[checkpoint]\nstore = s3://\n", "s3://bucket/prefix")
        self.refused("[checkpoint]\nstore = s3://b/p\nprovider = gcp\n" + aws, "no section [provider gcp]")
        self.refused("[checkpoint]\nstore = gs://b/p\n" + aws, "does not fit provider = 'aws' of kind aws", "gs:// gcp")
        self.refused("[checkpoint]\nstore = s3://b/p\nprovider = lambda\n" + aws + lam, "kind lambda has no object store")
        r = run("--config", conf("[checkpoint]\nstore = s3://b/p\n" + aws), "--check-config")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_the_identity_of_nodes_is_required_unless_told_otherwise_and_said(self):
        self.refused("[provider aws]\nidentity = maybe\n", "spotd.conf:2: ", "required", "off")
        r = run("--config", conf("[provider aws]\n[provider lambda]\n[provider east]\nkind = aws\nidentity = off\n"), "--check-config")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r"\[provider aws\] identity = required: ")
        self.assertIn("[provider lambda] identity = required: this cloud has no proof of identity", r.stdout)
        self.assertIn("[provider east] identity = off: a node enrols with its one-time token alone", r.stdout)

    def test_a_printed_configuration_reads_back_the_same(self):
        text = run("--config", conf("[engine]\nwatch = 1500ms\n[rank]\nprior_hours = 7.5\n"), "--print-config").stdout
        self.assertIn("watch = 1500ms", text)
        again = run("--config", conf(text, "again.conf"), "--print-config").stdout
        self.assertEqual(text, again)

    def test_the_sample_file_is_what_the_program_prints(self):
        with open(SAMPLE, encoding="utf-8") as f:
            sample = f.read()
        self.assertIn(run("--print-config").stdout, sample)
        self.assertEqual(run("--config", SAMPLE, "--check-config").returncode, 0)

    def test_each_provider_of_the_sample_file_can_be_uncommented(self):
        with open(SAMPLE, encoding="utf-8") as f:
            lines = f.read().splitlines()
        first = next(k for k, line in enumerate(lines) if line.startswith("# [provider "))
        blocks = ("\n".join(line[2:] for line in lines[first:]) + "\n").split("\n\n")
        names = []
        for block in blocks:
            block = block.replace("/etc/spotbroker/", DIR + "/sample-")
            for path in re.findall(re.escape(DIR) + r"/sample-\S+", block):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(KUBECONFIG if path.endswith(".kubeconfig") else GCP_KEY if path.endswith(".json") else "word\n")
                os.chmod(path, 0o600)
            r = run("--config", conf(block, "block.conf"), "--check-config")
            self.assertEqual(r.returncode, 0, block + r.stderr)
            names.append(re.match(r"\[provider (\w+)\]", block).group(1))
        self.assertEqual(sorted(names), ["aws", "azure", "coreweave", "gcp", "k8s", "lambda"])

    def test_a_first_start_copies_the_cluster_that_the_build_made(self):
        if os.path.getsize(os.path.join(os.path.dirname(SPOTD), "cluster.tar.gz")) == 0:
            self.skipTest("the build could not make one")
        done = run("--local", "--migrate", "--config", conf(LOCAL, "first.conf"),
                   env={"XDG_DATA_HOME": os.path.join(DIR, "first")})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("no_template", done.stderr)
        self.assertNotIn("schema.migrated", done.stderr)

    def test_a_provider_that_does_not_exist_is_refused_at_start(self):
        d = Daemon("--local", "--config", conf(LOCAL + "[provider mars]\n", "mars.conf"))
        self.assertEqual(d.proc.wait(60), 1, d.text())
        self.assertIn("mars", d.text())


class Running(unittest.TestCase):
    def tearDown(self):
        while Daemon.alive_ones:
            d = Daemon.alive_ones.pop()
            if d.alive():
                d.kill9()
            d.stop()

    def test_local_start_serves_stops_and_starts_again_with_the_same_installation(self):
        path = conf(LOCAL, "local.conf")
        d = Daemon("--local", "--config", path)
        first = d.ready()
        token_file = os.path.join(DIR, "data", "spotbroker", "admin-token")
        self.assertEqual(os.stat(token_file).st_mode & 0o777, 0o600)
        with open(token_file, encoding="utf-8") as f:
            token = f.read().strip()
        d.await_log("engine.leads")
        self.assertEqual(get(d.url + "/readyz")[0], 200)
        self.assertEqual(get(d.url + "/v1/whoami")[0], 401)
        self.assertEqual(get(d.url + "/v1/whoami", token)[1]["role"], "admin")
        self.assertEqual(d.end(), 0)
        self.assertNotIn(token, d.text())
        again = Daemon("--local", "--config", path)
        self.assertEqual(again.ready()["install"], first["install"])
        self.assertEqual(get(again.url + "/v1/whoami", token)[0], 200)
        self.assertEqual(again.end(signal.SIGINT), 0)

    def test_after_kill_minus_nine_it_leads_again_within_its_lease(self):
        path = conf(LOCAL, "kill.conf")
        d = Daemon("--local", "--config", path)
        d.ready()
        d.await_log("engine.leads")
        d.end(signal.SIGKILL)
        d = Daemon("--local", "--config", path)
        began = time.monotonic()
        d.ready()
        d.await_log("engine.leads")
        self.assertLess(time.monotonic() - began, 30)
        d.end()

    def test_a_bad_reload_changes_nothing_and_a_good_one_does(self):
        path = conf(LOCAL, "reload.conf")
        d = Daemon("--local", "--config", path)
        d.ready()
        conf(LOCAL + "tick = never\n", "reload.conf")
        d.send(signal.SIGHUP)
        d.await_log("config.refused")
        self.assertEqual(get(d.url + "/healthz")[0], 200)
        conf(LOCAL + "[log]\njson = true\n", "reload.conf")
        d.send(signal.SIGHUP)
        d.await_log('"config.reloaded"')
        self.assertEqual(get(d.url + "/healthz")[0], 200)
        self.assertEqual(d.end(), 0)

    def test_a_reload_reaches_the_api_and_the_engine(self):
        path = conf(LOCAL, "store.conf")
        d = Daemon("--local", "--config", path)
        d.ready()
        with open(os.path.join(DIR, "data", "spotbroker", "admin-token"), encoding="utf-8") as f:
            token = f.read().strip()
        text = b"name: saves\nresources: {accelerators: 'V100:1'}\nrun: 'true'\nconfig: {spotctl: {checkpoint: {path: ckpt}}}\n"
        status, job = get(d.url + "/v1/jobs", token, text)
        self.assertEqual(status, 201)
        self.assertIn("[checkpoint] store is empty", job["not_stored"])
        conf(LOCAL.replace("lease = 1s", "lease = 5m") + "[checkpoint]\nstore = s3://bucket/prefix\n", "store.conf")
        d.send(signal.SIGHUP)
        d.await_log("config.reloaded")
        self.assertIsNone(get(d.url + "/v1/jobs/" + job["id"], token)[1]["not_stored"])
        left = "SELECT until_us / 1e6 - extract(epoch FROM clock_timestamp()) > 60 FROM leader WHERE name = 'engine'"
        until("the engine renews by the new lease", 60, lambda: psql(local_dsn(ENV["XDG_DATA_HOME"]), left).strip() == "t", trouble=d.trouble)
        self.assertEqual(d.end(), 0)

    def test_a_reload_with_a_store_that_nobody_signs_for_is_refused(self):
        sections = LOCAL + "[provider l]\nkind = lambda\napi_key_file = %s\n" % conf("secret_key_of_the_test", "lambda.key")
        path = conf(sections, "store.conf")
        d = Daemon("--local", "--config", path)
        d.ready()
        for text, words in (
                (sections + "[checkpoint]\nstore = s3://b/p\nprovider = nobody\n", "no section [provider nobody]"),
                (sections + "[checkpoint]\nstore = s3://b/p\nprovider = l\n", "kind lambda has no object store"),
                (sections + "[provider a]\nkind = aws\nregions = us-east-1\n[checkpoint]\nstore = s3://b/p\nprovider = a\n",
                 "restart the daemon")):
            conf(text, "store.conf")
            d.send(signal.SIGHUP)
            d.await_log(words)
            self.assertNotIn("config.reloaded", d.text())
        conf(sections, "store.conf")
        d.send(signal.SIGHUP)
        d.await_log("config.reloaded")
        self.assertEqual(d.end(), 0)

    def test_the_download_changes_with_the_pin_in_the_user_data(self):
        agents = os.path.join(DIR, "agents")
        os.makedirs(agents)

        def put(text):
            with open(os.path.join(agents, "spot-agent.new"), "w", encoding="utf-8") as f:
                f.write(text)
            os.rename(os.path.join(agents, "spot-agent.new"), os.path.join(agents, "spot-agent"))
            return hashlib.sha256(text.encode()).hexdigest()

        def download(pin=None, url=None):
            status, _, text = exchange("GET", (url or d.url) + "/v1/agent/download/spot-agent", headers={"X-Sha256": pin} if pin else {})
            return status if status >= 400 else text.decode()

        old = put("the old agent")
        path = conf(LOCAL.replace("[engine]", "agent_dir = %s\n[engine]" % agents), "agents.conf")
        d = Daemon("--local", "--config", path)
        d.ready()
        self.assertEqual(download(), "the old agent")
        new = put("the new agent")
        self.assertEqual((download(), download(old), download(new)), ("the old agent", "the old agent", 404))
        d.send(signal.SIGHUP)
        d.await_log("agent.changed")
        self.assertIn(new, d.text())
        self.assertEqual((download(), download(old), download(new)), ("the new agent", "the old agent", "the new agent"))
        self.assertEqual((download("0" * 64), download("A" * 64), download("x")), (404, 400, 400))
        # A daemon beside it, which has another.
        third = put("the third agent")
        other = Daemon("--config", path, env={"DATABASE_URL": local_dsn(ENV["XDG_DATA_HOME"])})
        other.ready()
        self.assertEqual([download(p, other.url) for p in (None, old, new, third)],
                         ["the third agent", "the old agent", "the new agent", "the third agent"])
        self.assertEqual((download(), download(third)), ("the new agent", "the third agent"))
        self.assertEqual(other.end(), 0)
        # One that cannot be read changes nothing.
        os.unlink(os.path.join(agents, "spot-agent"))
        d.send(signal.SIGHUP)
        d.await_log("agent.refused")
        self.assertEqual(download(), "the new agent")
        self.assertEqual(d.end(), 0)

    def test_the_roles_apart_share_one_database(self):
        # longer than a busy machine stalls; a waiting daemon asks every third of it
        steady = LOCAL.replace("lease = 1s", "lease = 9s")
        main = Daemon("--local", "--config", conf(steady, "roles.conf"))
        main.ready()
        main.await_log("engine.leads")
        env = {"DATABASE_URL": local_dsn(ENV["XDG_DATA_HOME"])}
        token = run("--create-token", "robot", "--role", "service", env=env)
        self.assertEqual(token.returncode, 0, token.stderr)
        self.assertRegex(token.stdout, r"^spt_[0-9a-f]{64}\n$")
        again = run("--create-token", "robot", "--role", "service", env=env)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("token rm", again.stderr)
        self.assertEqual(run("--migrate", env=env).returncode, 0)
        api = Daemon("--role=api", "--config", conf(LOCAL, "api.conf"), env=env)
        api.ready()
        self.assertEqual(get(api.url + "/v1/whoami", token.stdout.strip())[1]["role"], "service")
        engine = Daemon("--role", "engine", "--config", conf(steady, "engine.conf"), env=env)
        self.assertEqual(engine.ready()["port"], 0)
        with open("/proc/%d/net/tcp" % engine.proc.pid, encoding="utf-8") as f:
            inodes = {line.split()[9] for line in f.read().splitlines()[1:] if line.split()[3] == "0A"}
        held = set()
        for fd in os.listdir("/proc/%d/fd" % engine.proc.pid):
            try:
                held.add(os.readlink("/proc/%d/fd/%s" % (engine.proc.pid, fd)))
            except OSError:
                pass
        self.assertEqual([i for i in inodes if "socket:[%s]" % i in held], [])
        # Only one engine acts; the second takes over when the first goes.
        self.assertNotIn("engine.leads", engine.text())
        self.assertEqual(main.text().count("engine.leads"), 1)
        self.assertEqual(api.end(), 0)
        self.assertEqual(engine.end(), 0)
        self.assertEqual(main.end(), 0)

    def test_the_lease_goes_over_at_once_when_its_holder_stops(self):
        slow = LOCAL.replace("lease = 1s", "lease = 5m")
        main = Daemon("--local", "--config", conf(LOCAL, "lease.conf"))
        main.ready()
        main.await_log("engine.leads")
        env = {"DATABASE_URL": local_dsn(ENV["XDG_DATA_HOME"])}
        self.assertEqual(main.end(), 0)
        database = Daemon("--local", "--role", "api", "--config", conf(LOCAL, "lease.conf"))
        database.ready()
        first = Daemon("--config", conf(slow, "slow.conf"), env=env)
        first.ready()
        first.await_log("engine.leads")
        second = Daemon("--config", conf(slow, "slow.conf"), env=env)
        second.ready()
        began = time.monotonic()
        self.assertEqual(first.end(), 0)
        second.await_log("engine.leads")
        self.assertLess(time.monotonic() - began, 60)  # a lease that was not given back lasts 5 minutes
        self.assertEqual(second.end(), 0)
        self.assertEqual(database.end(), 0)

    def test_systemd_is_told(self):
        path = os.path.join(DIR, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(path)
            s.settimeout(60)
            d = Daemon("--local", "--config", conf(LOCAL, "notify.conf"), env={"NOTIFY_SOCKET": path})
            self.assertEqual(s.recv(100), b"READY=1")
            d.send(signal.SIGTERM)
            self.assertEqual(s.recv(100), b"STOPPING=1")
            self.assertEqual(d.proc.wait(30), 0)


if __name__ == "__main__":
    try:
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    finally:
        shutil.rmtree(DIR, ignore_errors=True)
    sys.exit(0 if result.wasSuccessful() else 1)
