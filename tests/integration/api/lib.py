"""Starts apid, speaks HTTP to it, and holds every reply against the OpenAPI document it serves."""
import atexit
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import apid  # noqa: E402
from support.postgres import programs, psql  # noqa: E402
from support.wait import until  # noqa: E402

ENROL_KEY = b"0123456789abcdef0123456789abcdef"
US = 1000000
HOUR = 3600 * US


class Apid:
    """One daemon and one database for a whole test file."""

    def __init__(self, args=()):
        self.proc, info = apid.start(APID, args)
        self.port, self.dsn, self.root = info["port"], info["dsn"], info["token"]
        self.tokens = {"admin": self.root}
        self.doc = None
        self.validated = set()
        self.notes, self.news = 0, threading.Condition()
        self.stored = None
        threading.Thread(target=self.hear, daemon=True).start()
        atexit.register(self.stop)
        self.judge()
        self.doc = self.call("GET", "/v1/openapi.json", token=None)[1]

    def hear(self):
        """A line is a notification of the database: until() looks then."""
        for line in self.proc.stdout:
            with self.news:
                self.notes += 1
                self.stored = line[2:-1] if line.startswith("s ") else self.stored
                self.news.notify_all()

    def judge(self):
        """There is no engine here: a trigger is it. It takes every proof but those that state its answer."""
        self.sql("""CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            NEW.verdict := coalesce(NEW.proof::json->>'verdict', 'waived');
            NEW.why := CASE NEW.verdict WHEN 'denied' THEN 'it is another machine' WHEN '' THEN 'its cloud is away' ELSE '' END;
            RETURN NEW; END $$;
            CREATE TRIGGER judge BEFORE INSERT ON enrol_proof FOR EACH ROW EXECUTE FUNCTION judge()""")

    def stop(self):
        if self.proc.poll() is None:
            self.proc.stdin.close()
            code = self.proc.wait(30)
            if code != 0:
                sys.stderr.write("apid ended with %d\n" % code)
                os._exit(1)

    def token(self, role, team=""):
        key = role + ("/" + team if team else "")
        if key not in self.tokens:
            got = self.call("POST", "/v1/tokens", {"name": key, "role": role, "team": team}, expect=201)[1]
            self.tokens[key] = got["token"]
        return self.tokens[key]

    def raw(self, method, path, body=None, headers=None, timeout=40):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            return r.status, r.read(), {k.lower(): v for k, v in r.getheaders()}
        finally:
            c.close()

    def call(self, method, path, body=None, token="", headers=None, expect=None, timeout=40):
        """token "" = the first admin's, None = none. Dicts go as JSON, text as YAML, bytes as they are."""
        h = dict(headers or {})
        if token is not None:
            h["Authorization"] = "Bearer " + (token or self.root)
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            h.setdefault("Content-Type", "application/json")
        elif isinstance(body, str):
            body = body.encode()
            h.setdefault("Content-Type", "application/yaml")
        status, data, got = self.raw(method, path, body, h, timeout)
        doc = data
        if got.get("content-type", "").split(";")[0] in ("application/json", "application/problem+json"):
            doc = json.loads(data)
        if expect is not None and status != expect:
            raise AssertionError("%s %s: %d, wanted %d: %r" % (method, path, status, expect, doc))
        if self.doc is not None:
            self.check(method, path, status, got.get("content-type", ""), doc)
        return status, doc, got

    def metric(self, name):
        text = self.call("GET", "/metrics", expect=200)[1].decode()
        return float([l for l in text.split("\n") if l.startswith(name + " ")][0].split()[1])

    def until(self, cond, what, limit=60):
        """Checked when the database notifies. For unannounced changes it is also checked ten times a second."""
        heard = self.notes

        def pause():
            nonlocal heard
            with self.news:
                self.news.wait_for(lambda: self.notes != heard, 0.1)
                heard = self.notes
        return until(what, limit, cond, pause)

    def store(self, uri):
        """The daemon's object store from now on, "": there is none; "?", as at first: it knows nothing of it."""
        self.proc.stdin.write("s %s\n" % uri)
        self.proc.stdin.flush()
        self.until(lambda: self.stored == uri, "it is set")

    def until_parked(self, n=1):
        """Until the daemon says that it holds so many requests: each has read the rows and waits to be woken."""
        self.until(lambda: self.metric("spot_http_parked") >= n, "%d requests are held" % n)

    @staticmethod
    def soon(limit, act):
        """act() gives the seconds that something took. A busy machine may take long for anything; not in each of several tries."""
        took = []
        while not took or took[-1] >= limit:
            if len(took) == 8:
                raise AssertionError("each time not within %g s: %s" % (limit, took))
            took.append(act())

    # ---- the document ------------------------------------------------------------------------

    def operation(self, method, path):
        path = path.split("?")[0]
        for pattern, item in self.doc["paths"].items():
            if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(pattern)), path) and method.lower() in item:
                return pattern, item[method.lower()]
        return None, None

    def check(self, method, path, status, ctype, doc):
        pattern, op = self.operation(method, path)
        if op is None:
            if status < 400:
                raise AssertionError("%s %s answers %d and is not in the document" % (method, path, status))
            op = {"responses": {"default": {"content": {"application/problem+json": {
                "schema": {"$ref": "#/components/schemas/Problem"}}}}}}
        responses = op["responses"]
        if status >= 400:
            content = responses["default"]["content"]
        elif str(status) in responses:
            content = responses[str(status)].get("content")
            self.validated.add((method, pattern))
        else:
            raise AssertionError("%s %s: status %d is not documented" % (method, path, status))
        if not content:
            return
        kind = ctype.split(";")[0]
        if kind not in content:
            raise AssertionError("%s %s: %s is not documented" % (method, path, ctype))
        self.valid(doc, content[kind]["schema"], "%s %s" % (method, path))

    def valid(self, v, s, at):
        """The part of JSON Schema that our document uses."""
        if "$ref" in s:
            return self.valid(v, self.doc["components"]["schemas"][s["$ref"].rsplit("/", 1)[1]], at)
        if "anyOf" in s:
            errors = []
            for o in s["anyOf"]:
                try:
                    return self.valid(v, o, at)
                except AssertionError as e:
                    errors.append(str(e))
            raise AssertionError("; ".join(errors))
        types = s.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(is_type(v, t) for t in types):
            raise AssertionError("%s: %r is not %s" % (at, v, "/".join(types)))
        if "enum" in s and v not in s["enum"]:
            raise AssertionError("%s: %r is not one of %s" % (at, v, s["enum"]))
        if s.get("format") == "date-time" and v is not None and not re.fullmatch(
                r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", v):
            raise AssertionError("%s: %r is not a time" % (at, v))
        if isinstance(v, dict):
            props = s.get("properties", {})
            for k in s.get("required", []):
                if k not in v:
                    raise AssertionError("%s: %s is missing" % (at, k))
            for k, x in v.items():
                if k in props:
                    self.valid(x, props[k], at + "." + k)
                elif s.get("additionalProperties") is False:
                    raise AssertionError("%s: %s is not documented" % (at, k))
        if isinstance(v, list) and "items" in s:
            for i, x in enumerate(v):
                self.valid(x, s["items"], "%s[%d]" % (at, i))

    # ---- the database --------------------------------------------------------------------------

    def sql(self, text):
        return psql(self.dsn, text)

    @contextlib.contextmanager
    def uncommitted(self, statement):
        """Yields the statement's answer; others see its writes when this is left."""
        p = subprocess.Popen([os.path.join(programs(), "psql"), "-XqAt", self.dsn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            p.stdin.write("BEGIN; %s;\n" % statement)
            p.stdin.flush()
            yield p.stdout.readline().strip()
        finally:
            p.communicate("COMMIT;\n")

    @contextlib.contextmanager
    def locked(self, table):
        """Rows of the table cannot be written meanwhile."""
        with self.uncommitted("LOCK TABLE %s IN SHARE MODE; SELECT 'locked'" % table) as said:
            assert said == "locked"
            yield

    def waiters(self, table):
        return int(self.sql("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '%s'::regclass" % table))

    def pool(self, provider="aws", region="us-east-1", zone="use1-az1", itype="p3.2xlarge", market="spot", gpu="V100",
             gpus=1, price=1.0, state="fresh", age_s=0):
        t = now() - age_s * US
        pid = self.sql("""INSERT INTO pool (provider, region, zone, zone_name, instance_type, market, gpu_name, gpu_milli,
            gpu_mem_mib, vcpus, mem_mib, arch, quota_class, offered, seen_us)
            VALUES ('%s','%s','%s','%s','%s','%s','%s',%d,16384,8,61440,'x86_64','P/Spot',true,%d)
            RETURNING id""" % (provider, region, zone, zone and region + "a", itype, market, gpu, int(gpus * 1000), t))
        if price is not None:
            self.sql("""INSERT INTO pool_latest (pool_id, price_micros, observed_us, effective_us, changed_us, source, state)
                VALUES (%s,%d,%d,%d,%d,'test','%s')""" % (pid, int(price * 1e6), t, t, t, state))
        return int(pid)

    def node(self, pool, state="READY", job=None, fleet=None, ref=None):
        n = int(self.sql("SELECT count(*) FROM node"))
        token = "tok-%d" % n
        nid = self.sql("""INSERT INTO node (pool_id, job_id, fleet_id, state, state_us, token, name, ref, price_micros,
            created_us, launched_us) VALUES (%d,%s,%s,'%s',%d,'%s','node-%d',%s,1000000,%d,%d) RETURNING id""" % (
            pool, job or "NULL", fleet or "NULL", state, now(), token, n, "'%s'" % ref if ref else "NULL", now(), now()))
        return int(nid), enrol_token(token)

    def attempt(self, job, node, epoch, steps_start=0, files="[]", desired="run"):
        self.sql("""UPDATE job SET epoch = %d, state = 'STARTING' WHERE id = %d;
            UPDATE node SET job_id = %d WHERE id = %d;
            INSERT INTO attempt (job_id, epoch, node_id, pool_id, market, desired, phase, files, urls_until_us, steps_start,
                steps_done, created_us)
            SELECT %d, %d, n.id, n.pool_id, 'spot', '%s', 'ASSIGNED', '%s', %d, %d, %d, %d FROM node n WHERE n.id = %d""" % (
            epoch, job, job, node, job, epoch, desired, files, now() + HOUR, steps_start, steps_start, now(), node))

    def enrol(self, node, token, boot="boot-1", ref="i-1", expect=200, **more):
        body = {"token": token, "version": "1", "boot_id": boot, "instance_ref": ref, "node": "n%d" % node}
        body.update(more)
        return self.call("POST", "/v1/agent/enrol", body, token=None, expect=expect)[1]

    def job(self, text=None, token="", expect=201, **headers):
        return self.call("POST", "/v1/jobs", text or JOB, token=token, expect=expect, headers=headers)[1]


JOB = """name: train
resources:
  accelerators: V100:1
  use_spot: true
run: ./train.sh
"""


def is_type(v, t):
    return {"object": isinstance(v, dict), "array": isinstance(v, list), "string": isinstance(v, str),
            "integer": isinstance(v, int) and not isinstance(v, bool),
            "number": isinstance(v, (int, float)) and not isinstance(v, bool),
            "boolean": isinstance(v, bool), "null": v is None}[t]


def now():
    return int(time.time() * US)


def enrol_token(launch_token):
    return hmac.new(ENROL_KEY, launch_token.encode(), hashlib.sha256).hexdigest()


APID = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else os.environ.get("APID", "apid")


def main():
    unittest.main(verbosity=1)
