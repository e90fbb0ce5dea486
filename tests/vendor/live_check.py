#!/usr/bin/env python3
"""The vendor's own models judge a provider's requests in the live conformance suite, and the replies. The judges of the
golden files (tests/golden/<cloud>) and of the SDK tests check the recorded exchanges (tests/conform/live_record.c).
Replies of an emulator that was told to misbehave are left out. Each request is also shown to the judge with one
member misspelt, which it must refuse.

usage: live_check.py CLOUDSIM CONFORM_LIVE CLOUD       exit 77: the vendor's package is not there
"""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from urllib.parse import parse_qsl, urlencode, urlsplit

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def judge_load(name):
    spec = importlib.util.spec_from_file_location("judge", HERE.parent / "golden" / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # exits with 77 itself
    return module


def misspelt(doc, free=()):
    """Every copy of a JSON body with one key misspelt; below the keys named free are maps with keys of anybody's."""
    if isinstance(doc, list):
        for i, v in enumerate(doc):
            yield from (doc[:i] + [w] + doc[i + 1:] for w in misspelt(v, free))
    elif isinstance(doc, dict):
        for k, v in doc.items():
            yield {("x" + key if key == k else key): w for key, w in doc.items()}
            if k not in free:
                yield from ({**doc, k: w} for w in misspelt(v, free))


class Aws:
    golden, free = "aws/botocore_check.py", ()
    wanted = {"RunInstances", "DescribeInstances", "TerminateInstances", "DescribeSpotPriceHistory", "GetProducts",
              "DescribeInstanceTypes", "GetServiceQuota|ListServiceQuotas", "ReceiveMessage|DescribeSpotInstanceRequests"}

    def __init__(self):
        import aws_models
        self.j, self.replies, self.policy = judge_load(self.golden), aws_models, None

    def operation(self, e):
        if "authorization" not in e["headers"] or "content-type" not in e["headers"]:
            return None
        service = e["headers"]["authorization"].split("/")[3]
        if service not in self.j.SERVICES:
            return None
        model = self.j.SESSION.get_service_model(self.j.SERVICES[service])
        return model, model.operation_model(self.j.operation(service, e["headers"], e["body"])), service

    def name(self, e):
        found = self.operation(e)
        return found[1].name if found else None

    def request(self, e):
        model, op, service = self.operation(e)
        self.j.check_request(e["headers"], e["body"], model, op)
        self.j.check_policy(service, op.name, self.j.permitted())

    def reply(self, e):
        self.replies.check(self.operation(e)[1], e["status"], e["reply"])

    def spoiled(self, e):
        if "x-amz-target" in e["headers"]:
            yield from (json.dumps(d) for d in misspelt(json.loads(e["body"])))
            return
        fields = parse_qsl(e["body"], keep_blank_values=True)
        for i, (k, v) in enumerate(fields):
            if k not in ("Action", "Version"):
                yield urlencode(fields[:i] + [("X" + k, v)] + fields[i + 1:])


class Gcp:
    golden = "gcp/discovery_check.py"
    free = ("labels", "perInstanceProperties")
    wanted = {"POST instances", "GET aggregated/instances", "DELETE instances", "GET aggregated/machineTypes", "POST instances/bulkInsert",
              "GET aggregated/acceleratorTypes", "GET skus", "POST advice/capacityHistory", "POST operations/wait"}
    hosts = (("/compute/", "compute"), ("/v1/services/", "cloudbilling"), ("/storage/", "storage"))

    def __init__(self):
        self.j = judge_load(self.golden)

    def url(self, e):
        parts = urlsplit(e["url"])
        host = next((h for p, h in self.hosts if parts.path.startswith(p)), "cloudresourcemanager" if ":testIam" in parts.path else None)
        return "https://%s.googleapis.com%s%s" % (host, parts.path, "?" + parts.query if parts.query else "") if host else None

    def name(self, e):
        path = urlsplit(e["url"]).path
        end = re.sub(r".*/(?:zones|regions|projects|services)/[^/]+/", "", path)
        return "%s %s" % (e["method"], re.sub(r"/(spt|brk|spot|operation|[0-9])[^/]*", "", end)) if self.url(e) else None

    def judged(self, e, reply):
        self.j.problems.clear()
        head = "\n".join(["%s %s" % (e["method"], self.url(e))] + ["%s: %s" % h for h in e["headers"].items()])
        self.j.exchange_check("live", head + "\n\n" + e["body"], e["status"] if reply else 0, e["reply"] if reply else "")
        assert not self.j.problems, self.j.problems

    def request(self, e):
        self.judged(e, False)

    def reply(self, e):
        self.judged(e, True)

    def spoiled(self, e):
        if "/advice/" not in e["url"]:  # newer than the package's document
            yield from (json.dumps(d) for d in misspelt(json.loads(e["body"]), self.free))


class Azure:
    golden, free = "azure/models_check.py", ("tags", "userAssignedIdentities")
    wanted = {"PUT resourcegroups", "PUT virtualMachines", "GET virtualMachines", "DELETE resourcegroups", "GET skus", "GET usages",
              "POST resources", "GET resourcegroups"}

    def __init__(self):
        self.j = judge_load(self.golden)

    def url(self, e):
        parts = urlsplit(e["url"])
        if not re.match(r"/(subscriptions|providers)/", parts.path, re.I):
            return None
        return self.j.ARM + parts.path + ("?" + parts.query if parts.query else "")

    def name(self, e):
        path = urlsplit(e["url"]).path
        kind = re.search(r"/(virtualMachines|resourcegroups|skus|usages|resources|generate|spot|permissions|locations)(/spotbroker-[^/]*)?$", path, re.I)
        return "%s %s" % (e["method"], kind.group(1) if kind else "other") if self.url(e) else None

    def judged(self, e, status, reply):
        try:
            self.j.check_exchange("%s %s\n\n%s" % (e["method"], self.url(e), e["body"]), status, reply)
        except self.j.Wrong as w:
            raise AssertionError(str(w)) from w

    def request(self, e):
        self.judged(e, 200, "")

    def reply(self, e):
        # Some replies have no body: a gone thing, or an operation's end, which its resource shows.
        if e["reply"].strip():
            self.judged(e, e["status"], e["reply"])

    def spoiled(self, e):
        yield from (json.dumps(d) for d in misspelt(json.loads(e["body"]), self.free))


class Kubernetes:
    golden = "coreweave/openapi_check.py"
    free = ("labels", "annotations", "nodeSelector", "requests", "limits", "nodeLabels")
    wanted = {"POST pods", "GET pods", "DELETE pods", "GET nodes", "POST selfsubjectaccessreviews"}

    def __init__(self):
        import kubernetes_models
        self.j, self.replies = judge_load(self.golden), kubernetes_models

    def name(self, e):
        path = urlsplit(e["url"]).path
        if not re.match(r"/apis?/", path):
            return None
        return "%s %s" % (e["method"], re.sub(r"/(brk|sb)[^/]*", "", path).split("/")[-1])

    def request(self, e):
        if e["body"]:
            head = "\n".join("%s: %s" % h for h in e["headers"].items())
            wrong = self.j.body_errors("%s %s" % (e["method"], e["url"]), head, e["body"])
            assert not wrong, wrong

    def reply(self, e):
        wrong = self.replies.check(json.loads(e["reply"]))
        assert not wrong, wrong

    def spoiled(self, e):
        if json.loads(e["body"]).get("kind") or "/nodepools" in e["url"]:
            yield from (json.dumps(d) for d in misspelt(json.loads(e["body"]), self.free) if "xapiVersion" not in d)


class CoreWeave(Kubernetes):
    wanted = Kubernetes.wanted | {"POST nodepools", "PATCH nodepools", "GET nodepools"}


CLOUDS = {"aws": Aws, "gcp": Gcp, "gcp-attached": Gcp, "azure": Azure, "coreweave": CoreWeave, "kubernetes": Kubernetes}


def exchanges(program, conform, cloud, ended):
    """Yields the exchanges, also of a run that failed (misspelt members are refused there, too); ended gets its exit
    status."""
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "live")
        ended.append(subprocess.run([conform, program, cloud], env=dict(os.environ, LIVE_RECORD=path), stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, timeout=360).returncode)
        with open(path, encoding="utf-8") as f:
            for line in f:
                e = json.loads(line)
                e["headers"] = {k.lower(): v for k, v in e["headers"].items()}
                yield e


def awake(judge, e):
    """Each misspelling must be refused. Returns how many were."""
    count = 0
    for body in judge.spoiled(e):
        try:
            judge.request(dict(e, body=body))
        except Exception:  # a judge may also stumble over it
            count += 1
            continue
        raise AssertionError("a misspelt member is not noticed: %s" % body[:400])
    return count


def main(program, conform, cloud):
    judge = CLOUDS[cloud]()
    seen, wrong, spoilt, requests, replies, bodies, ended = set(), {}, 0, 0, 0, set(), []
    for e in exchanges(program, conform, cloud, ended):
        name = judge.name(e)
        if name is None or e["body"] is None:
            continue
        seen.add(name)
        try:
            judge.request(e)
            requests += 1
            shape = (name, re.sub(r"[0-9a-f]{6,}|\d+", "0", e["body"]))
            if e["body"] and shape not in bodies and len([b for b in bodies if b[0] == name]) < 4:
                bodies.add(shape)
                spoilt += awake(judge, e)
            if not e["faulty"] and e.get("reply") and e["status"] < 300:
                judge.reply(e)
                replies += 1
        except AssertionError as w:
            wrong.setdefault("%s: %s" % (name, str(w)[:600]), 0)
            wrong["%s: %s" % (name, str(w)[:600])] += 1
    for w, n in list(wrong.items())[:40]:
        print("%d x %s" % (n, w))
    if ended != [0]:
        print("the conformance run itself ended with status %s: tests/run conformance tells more" % ended)
    missing = {w for w in judge.wanted if not seen & set(w.split("|"))}
    print("%s: %d requests and %d replies of %d kinds judged, %d misspellings refused, %d wrong%s" % (
        cloud, requests, replies, len(seen), spoilt, len(wrong), "; never sent: %s of %s" % (sorted(missing), sorted(seen)) if missing else ""))
    return 1 if ended != [0] or wrong or missing or not replies or not spoilt else 0


if __name__ == "__main__":
    # Run by the vendors' python, which meson finds: the build directory is not among the last three.
    sys.exit(main(*sys.argv[-3:]))
