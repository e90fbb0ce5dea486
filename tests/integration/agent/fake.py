"""A scripted daemon, object store and metadata service for the agent's tests, all in this process.

Written from include/spot/agent.h, not from the agent. Everything that arrives is kept; `until` waits for a condition
and prints all arrivals when it fails. Nothing here waits by sleeping.
"""
import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support.wait import until  # noqa: E402

CHUNK = 64 << 20


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status, data=b"", kind="application/json", headers=()):
        if isinstance(data, (dict, list)):
            data = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def drop(self):
        self.close_connection = True

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError, TimeoutError):
            pass


class Server:
    def __init__(self, handler, tls=None):
        outer = self

        class Bound(handler):
            owner = outer

        self.lock = threading.Condition(threading.RLock())
        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self.httpd.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.httpd.socket = context.wrap_socket(self.httpd.socket, server_side=True)
        self.port = self.httpd.server_address[1]
        self.scheme = "https" if tls else "http"
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()

    def until(self, condition, what, timeout=60):
        """Returns the first true value of condition()."""
        with self.lock:
            return until(what, timeout, condition, lambda: self.lock.wait(0.05), lambda: "\n" + self.story())

    def story(self):
        return ""


class Metadata(Server):
    """IMDSv2: a token first, then the keys in `keys`; absent keys are 404."""

    class Handler(Handler):
        def do_PUT(self):
            self.body()
            me = self.owner
            if self.path != "/latest/api/token" or not self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
                return self.reply(400)
            with me.lock:
                me.tokens += 1
                token = f"metadata-token-{me.tokens}"
                me.token = token
            self.reply(200, token.encode(), "text/plain")

        def do_GET(self):
            me = self.owner
            with me.lock:
                me.gets += 1
                good = self.headers.get("X-aws-ec2-metadata-token") == me.token
                value = me.keys.get(self.path)
                if value is not None and self.path not in me.first_read and good:
                    me.first_read[self.path] = time.time()
                me.lock.notify_all()
            if not good:
                return self.reply(401)
            if value is None:
                return self.reply(404, b"", "text/html")
            self.reply(200, value.encode(), "text/plain")

    def __init__(self):
        self.tokens, self.gets, self.token = 0, 0, None
        self.first_read = {}
        self.keys = {
            "/latest/meta-data/instance-id": "i-0123456789abcdef0",
            "/latest/dynamic/instance-identity/document": '{"instanceId": "i-0123456789abcdef0"}',
            "/latest/dynamic/instance-identity/rsa2048": "c2lnbmF0dXJl",
        }
        super().__init__(Metadata.Handler)

    def put(self, key, value):
        with self.lock:
            self.keys["/latest/" + key] = value
            return time.time()

    def interruption(self, in_s):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + in_s))
        return self.put("meta-data/spot/instance-action", json.dumps({"action": "terminate", "time": at}))

    def rebalance(self):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return self.put("meta-data/events/recommendations/rebalance", json.dumps({"noticeTime": at}))


class Daemon(Server):
    class Handler(Handler):
        def do_GET(self):
            me = self.owner
            path = urllib.parse.urlsplit(self.path).path
            with me.lock:
                if path.startswith("/v1/agent/download/"):
                    data = me.downloads.get(path.rsplit("/", 1)[1])
                    me.pins.append(self.headers.get("X-Sha256"))
                    return self.reply(200, data, "application/octet-stream") if data else self.reply(404)
                key = path[len("/objects/"):]
                me.events.append(("get", key))
                me.extra.append(("GET", self.headers.get("x-extra")))
                if me.url_status or not me.honoured("GET"):
                    return self.reply(me.url_status or 403)
                data = me.objects.get(key)
                if data is not None and me.corrupt.get(key, 0) > 0:
                    me.corrupt[key] -= 1
                    data = bytes([data[0] ^ 1]) + data[1:]
                data = me.longer.pop(key, data)
                told = me.told.get(key, {}).items()
                me.lock.notify_all()
            self.reply(200, data, "application/octet-stream", told) if data is not None else self.reply(404)

        def do_PUT(self):
            me = self.owner
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            key = urllib.parse.urlsplit(self.path).path[len("/objects/"):]
            with me.lock:
                if len(data) != length:
                    return self.drop()
                if not me.honoured("PUT"):
                    return self.reply(403)
                if me.put_failures > 0:
                    me.put_failures -= 1
                    return self.reply(500)
                for name in ("Authorization", "Content-Type", "Expect", "Transfer-Encoding"):
                    if self.headers.get(name):
                        me.wrong.append(f"PUT with a header that was not signed: {name}")
                me.extra.append(("PUT", self.headers.get("x-extra")))
                if sha(data) != key:
                    me.wrong.append(f"object {key} got other bytes")
                if me.put_flips > 0:    # a byte becomes another one on its way, after all that checked it
                    me.put_flips -= 1
                    data = data[:-1] + bytes([data[-1] ^ 1])
                me.objects[key] = data
                me.events.append(("put", key))
                me.lock.notify_all()
            self.reply(200, headers=[("ETag", me.put_etag or f'"{hashlib.md5(data).hexdigest()}"')])

        def do_POST(self):
            me = self.owner
            data = self.body()
            url = urllib.parse.urlsplit(self.path)
            what = url.path[len("/v1/agent/"):]
            with me.lock:
                me.requests.append((time.time(), what, data))
                if me.down:
                    return self.drop()
                if me.foreign.get(what, 0) > 0:     # an ingress that has no backend for a moment
                    me.foreign[what] -= 1
                    return self.reply(404, b"404 page not found\n", "text/plain")
                if what != "enrol" and self.headers.get("Authorization") != f"Bearer {me.session}":
                    return self.reply(401, {"code": "unauthenticated"})
            if what == "log":
                return self.post_log(urllib.parse.parse_qs(url.query), data)
            body = json.loads(data)
            getattr(self, "post_" + what)(body)

        def post_enrol(self, body):
            me = self.owner
            with me.lock:
                me.enrols.append(body)
                if me.enrol_later > 0:
                    me.enrol_later -= 1
                    return self.reply(503, {"code": "unavailable", "detail": "still being verified"})
                if me.enrol_status:
                    return self.reply(me.enrol_status, {"code": "denied", "detail": "the proof is of another machine"})
                me.session = f"session-{len(me.enrols)}-{os.urandom(8).hex()}"
                me.lock.notify_all()
                if me.lose_enrol > 0:
                    me.lose_enrol -= 1
                    return self.drop()
                self.reply(200, {"node": me.node, "session": me.session, "poll_hold_ms": me.hold_ms,
                                 "sample_s": 1})

        def post_poll(self, body):
            me = self.owner
            have = body["have"]
            end = time.monotonic() + body["hold_ms"] / 1000
            with me.lock:
                me.haves.append(have)
                me.lock.notify_all()
                while not me.down and not me.poll_at_once and (have["job"], have["epoch"], have["version"]) == me.wanted():
                    left = end - time.monotonic()
                    if left <= 0:
                        break
                    me.lock.wait(left)
                if me.down:
                    return self.drop()
                answer = dict(me.desired, version=me.version)
                if have["phase"] == "EXITED" and me.report("EXITED", have["job"], have["epoch"]) and have["version"] == me.version:
                    answer.update(desired="idle", job=None, epoch=0)
                if me.orphan_timeout_s is not None:
                    answer["orphan_timeout_s"] = me.orphan_timeout_s
                if answer["desired"] == "run" and (have["epoch"] != answer["epoch"] or have["job"] != answer["job"]):
                    answer["run"] = me.run
                    me.url_left["GET"] = me.url_each
            self.reply(200, answer)

        def post_notice(self, body):
            me = self.owner
            with me.lock:
                me.notices.append((time.time(), body))
                me.lock.notify_all()
            self.reply(200, {})

        def stale(self, body):
            me = self.owner
            if (body["job"], body["epoch"]) in me.fenced:
                self.reply(409, {"code": "stale_epoch", "title": "another attempt is current"})
                return True
            return False

        def post_report(self, body):
            me = self.owner
            with me.lock:
                me.reports.append(body)
                me.events.append(("report", body["phase"], body.get("reason")))
                me.lock.notify_all()
            if not self.stale(body):
                self.reply(200, {})

        def post_checkpoint(self, body):
            me = self.owner
            if self.stale(body):
                return
            with me.lock:
                name = f"c{len(me.checkpoints) + 1}"
                me.url_left["PUT"] = me.url_each
                me.checkpoints[name] = dict(body, committed=False)
                known = me.objects if me.url_each is None else {
                    x["sha256"] for c in me.checkpoints.values() if c["committed"] for x in c["chunks"]}
                fresh = [c for c in body["chunks"] if c["sha256"] not in known]
                me.checkpoints[name]["fresh"] = fresh
                me.events.append(("checkpoint", name))
                if me.on_checkpoint:
                    me.on_checkpoint()
                me.lock.notify_all()
            self.reply(200, {"checkpoint": name, "uploads": [
                {"path": c["path"], "seq": c["seq"], **(me.upload_of or me.upload)(c)} for c in fresh]})

        def post_commit(self, body):
            me = self.owner
            if self.stale(body):
                return
            with me.lock:
                c = me.checkpoints[body["checkpoint"]]
                missing = [x for x in c["chunks"] if x["sha256"] not in me.objects]
                if missing:
                    me.wrong.append("commit before all chunks are stored")
                    return self.reply(409, {"code": "conflict"})
                c["committed"] = True
                me.events.append(("commit", body["checkpoint"]))
                me.lock.notify_all()
            self.reply(200, {})

        def post_log(self, query, data):
            me = self.owner
            job, epoch, offset = query["job"][0], int(query["epoch"][0]), int(query["offset"][0])
            if len(data) > 256 << 10:
                me.wrong.append("log piece too large")
            if self.stale({"job": job, "epoch": epoch}):
                return
            with me.lock:
                if me.log_failures > 0:
                    me.log_failures -= 1
                    return self.reply(503, {"code": "unavailable"})
                me.events.append(("log", len(data)))
                log = me.logs.setdefault((job, epoch), bytearray())
                if offset == len(log):
                    log += data
                me.lock.notify_all()
                self.reply(200, {"next_offset": len(log)})

        def post_sample(self, body):
            me = self.owner
            with me.lock:
                me.samples.append(body)
                me.lock.notify_all()
            self.reply(200, {})

    def __init__(self, tls=None):
        self.node, self.session, self.hold_ms = "n7", None, 25000
        self.token = "one-time-" + os.urandom(12).hex()
        self.desired = {"desired": "idle", "job": None, "epoch": 0}
        self.version, self.run = 1, None
        self.enrols, self.haves, self.notices, self.reports, self.samples = [], [], [], [], []
        self.events, self.requests, self.wrong = [], [], []
        self.objects, self.checkpoints, self.logs, self.corrupt, self.downloads = {}, {}, {}, {}, {}
        self.pins = []  # the pin of each download
        self.told, self.longer = {}, {}
        self.fenced = set()
        self.put_flips, self.put_etag = 0, None
        self.foreign, self.url_each, self.url_left = {}, None, {}
        self.on_checkpoint, self.put_failures, self.log_failures, self.poll_at_once = None, 0, 0, False
        self.orphan_timeout_s = None
        self.upload_of, self.enrol_later, self.extra = None, 0, []
        self.lose_enrol, self.enrol_status, self.url_status, self.down = 0, 0, 0, False
        super().__init__(Daemon.Handler, tls)

    def honoured(self, method):
        """URLs run out: with url_each only so many are honoured of those that were given at once."""
        left = self.url_left.get(method)
        if left is not None:
            self.url_left[method] = left - 1
        return left is None or left > 0

    def upload(self, chunk):
        return {"url": f"{self.url}/objects/{chunk['sha256']}?signed=1"}

    def wanted(self):
        return (self.desired["job"], self.desired["epoch"], self.version)

    def want(self, desired, job=None, epoch=0, run=None, deadline_us=0, why="", **more):
        with self.lock:
            self.desired = {"desired": desired, "job": job, "epoch": epoch, "deadline_us": deadline_us,
                            "why": why, **more}
            self.run = run
            self.version += 1
            self.lock.notify_all()

    def set(self, **values):
        with self.lock:
            for name, value in values.items():
                setattr(self, name, value)
            self.lock.notify_all()

    def store(self, data):
        key = sha(data)
        with self.lock:
            self.objects[key] = data
        return {"url": f"{self.url}/objects/{key}?signed=1", "bytes": len(data), "sha256": key}

    def file(self, root, path, data, mode=0o644, pieces=1):
        step = max(1, -(-len(data) // pieces))
        return {"root": root, "path": path, "mode": mode, "bytes": len(data),
                "chunks": [self.store(data[i:i + step]) for i in range(0, len(data), step)]}

    def log(self, job, epoch):
        return bytes(self.logs.get((job, epoch), b""))

    def report(self, phase, job=None, epoch=None):
        for r in self.reports:
            if r["phase"] == phase and job in (None, r["job"]) and epoch in (None, r["epoch"]):
                return r
        return None

    def until_report(self, phase, job=None, epoch=None, timeout=60):
        return self.until(lambda: self.report(phase, job, epoch), f"report {phase} of {job} {epoch}", timeout)

    def story(self):
        return "\n".join([f"events: {self.events[-20:]}", f"reports: {self.reports[-6:]}",
                          f"haves: {self.haves[-3:]}",
                          "logs: " + str({k: bytes(v[-600:]) for k, v in self.logs.items()})])


class Agent:
    """One node: a directory with spaces in its name and the agent in it."""

    def __init__(self, program, daemon, metadata=None, **boot):
        self.program, self.daemon, self.metadata = program, daemon, metadata
        self.home = tempfile.mkdtemp(prefix="spot agent ")
        self.dir = os.path.join(self.home, "state dir")
        os.mkdir(self.dir)
        self.process, self.starts, self.more_env = None, 0, {}
        doc = {"url": daemon.url, "ca_pem": None, "token": daemon.token, "install": "test",
               "provider": "aws" if metadata else "lambda", "node": daemon.node}
        doc.update(boot)
        path = os.path.join(self.dir, "boot.json")
        with open(path, "w") as f:
            json.dump(doc, f)
        os.chmod(path, 0o600)

    def env(self):
        env = {"PATH": os.environ["PATH"], "HOME": self.home, "LD_PRELOAD": os.environ.get("LD_PRELOAD", ""),
               "AWS_SECRET_ACCESS_KEY": "not-for-jobs", "http_proxy": ""}
        if self.metadata:
            env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = self.metadata.url
        env.update(self.more_env)
        return {k: v for k, v in env.items() if v}

    def start(self, before=None):
        self.starts += 1
        self.console = os.path.join(self.home, f"console.{self.starts}")
        with open(self.console, "wb") as out:
            self.process = subprocess.Popen([self.program, "--dir", self.dir], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, env=self.env(), start_new_session=True,
                                            preexec_fn=before)
        return self

    def crash(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self, timeout=60):
        return self.process.wait(timeout)

    def job_dir(self, job, epoch):
        return os.path.join(self.dir, "jobs", f"{job}-{epoch}")

    def consoles(self):
        text = ""
        for i in range(1, self.starts + 1):
            with open(os.path.join(self.home, f"console.{i}"), errors="replace") as f:
                text += f.read()
        return text

    def close(self):
        if self.process and self.process.poll() is None:
            self.crash()
        for pid in pids_of(self.home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.home, ignore_errors=True)


def pids_of(path):
    """Processes that stand in a directory or below, or whose command line names it."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as f:
                line = f.read()
            cwd = os.readlink(f"/proc/{name}/cwd")
        except PermissionError:
            cwd = ""    # an agent lets nobody but root look into it
        except OSError:
            continue
        if cwd == path or cwd.startswith(path + "/") or path.encode() in line:
            found.append(int(name))
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
