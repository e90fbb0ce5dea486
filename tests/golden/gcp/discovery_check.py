#!/usr/bin/env python3
"""Second opinion on the golden exchanges: Google's own discovery documents.

For each request: find the method in the document, check that every path and query parameter is known and of its type, that
none is missing, and validate the body against the schema: no unknown field, no missing required one, no wrong type. For
each reply with status 200 the same. Requests to services without a discovery document in the package are named below.

usage: discovery_check.py [FILE...]        (default: all golden files beside this script)
Exit status 0 = all agree, 77 = google-api-python-client is not installed.
"""
import json
import os
import pathlib
import re
import sys
from urllib.parse import parse_qsl, urlsplit

try:
    import googleapiclient
except ImportError:
    print("google-api-python-client is not installed: skipped")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENTS = pathlib.Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
HOSTS = {
    "compute.googleapis.com": lambda path: "compute." + path.split("/")[2],
    "cloudbilling.googleapis.com": lambda path: "cloudbilling.v1",
    "storage.googleapis.com": lambda path: "storage.v1",
    "iamcredentials.googleapis.com": lambda path: "iamcredentials.v1",
    "sts.googleapis.com": lambda path: "sts.v1",
    "cloudresourcemanager.googleapis.com": lambda path: "cloudresourcemanager.v1",
}
# No document of the package describes these.
UNKNOWN_HOSTS = {
    "oauth2.googleapis.com": "the token endpoint is RFC 6749, not a Google API",
    "cloudquotas.googleapis.com": "the package carries no document of Cloud Quotas",
    "169.254.169.254": "the metadata server",
}
# Newer than some documents of the package: tolerated only where the document lacks them.
NEWER_METHODS = {"advice/capacity", "advice/capacityHistory"}
NEWER_FIELDS = {("Scheduling", "preemptionNoticeDuration")}
# The documents say these of themselves, the service answers otherwise.
REPLY_EXTRA = {}
problems = []


def load(name, cache={}):
    if name not in cache:
        with open(DOCUMENTS / (name + ".json"), encoding="utf-8") as f:
            cache[name] = json.load(f)
    return cache[name]


def methods(node):
    yield from node.get("methods", {}).values()
    for child in node.get("resources", {}).values():
        yield from methods(child)


def template_match(template, path):
    """Parameters of the path, or None."""
    pattern = re.sub(r"\\\{\\\+(\w+)\\\}", r"(?P<\1>.+)", re.escape(template))
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/:]+)", pattern)
    m = re.fullmatch(pattern, path)
    return m.groupdict() if m else None


def method_find(doc, verb, path):
    base = "/" + doc["servicePath"]
    for m in methods(doc):
        if m["httpMethod"] != verb:
            continue
        for template in (m["path"], m.get("flatPath", m["path"])):
            params = template_match(base + template, path)
            if params is not None and all(
                    "pattern" not in p or re.fullmatch(p["pattern"].strip("^$"), params.get(n, "")) for n, p in m.get("parameters", {}).items() if n in params):
                return m, params
    return None, None


class Judge:
    def __init__(self, doc, where, method_id):
        self.doc, self.where, self.method_id = doc, where, method_id

    def wrong(self, path, what):
        problems.append("%s: %s: %s" % (self.where, path, what))

    def scalar(self, schema, value, path):
        kind, form = schema.get("type"), schema.get("format", "")
        if kind == "string" and form in ("int64", "uint64"):
            if not (isinstance(value, str) and re.fullmatch(r"-?\d+", value)):
                self.wrong(path, "int64 must be a string of digits, is %r" % (value,))
        elif kind == "string" and not isinstance(value, str):
            self.wrong(path, "must be a string, is %r" % (value,))
        elif kind == "integer" and (isinstance(value, bool) or not isinstance(value, int)):
            self.wrong(path, "must be an integer, is %r" % (value,))
        elif kind == "number" and (isinstance(value, bool) or not isinstance(value, (int, float))):
            self.wrong(path, "must be a number, is %r" % (value,))
        elif kind == "boolean" and not isinstance(value, bool):
            self.wrong(path, "must be true or false, is %r" % (value,))
        if "enum" in schema and value not in schema["enum"]:
            self.wrong(path, "%r is none of %s" % (value, ", ".join(schema["enum"][:12])))
        # re2 patterns of the documents are of the simple kind that Python understands.
        if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
            self.wrong(path, "%r does not match %s" % (value, schema["pattern"]))

    def check(self, schema, value, path, name=""):
        if "$ref" in schema:
            name = schema["$ref"]
            return self.check(self.doc["schemas"][name], value, path, name)
        kind = schema.get("type")
        if kind == "array":
            if not isinstance(value, list):
                return self.wrong(path, "must be a list")
            for i, item in enumerate(value):
                self.check(schema["items"], item, "%s[%d]" % (path, i), name)
        elif kind == "object":
            self.object(schema, value, path, name)
        elif kind != "any":
            self.scalar(schema, value, path)
        return None

    def object(self, schema, value, path, name):
        if not isinstance(value, dict):
            return self.wrong(path, "must be an object")
        known = schema.get("properties", {})
        for key, item in value.items():
            at = path + "." + key
            if key in known:
                self.check(known[key], item, at)
            elif "additionalProperties" in schema:
                self.check(schema["additionalProperties"], item, at)
            elif (name, key) not in NEWER_FIELDS:
                self.wrong(at, "%s has no such field" % (name or "the object"))
        for key, p in known.items():
            if self.method_id in p.get("annotations", {}).get("required", []) and key not in value:
                self.wrong(path, "%s is required" % key)
        return None


def parameter_check(judge, doc, method, path_params, query):
    known = dict(doc.get("parameters", {}), **method.get("parameters", {}))
    for name, value in list(path_params.items()) + query:
        p = known.get(name)
        if p is None:
            judge.wrong("?" + name, "no such parameter of " + method["id"])
            continue
        if p["type"] == "integer" and not re.fullmatch(r"-?\d+", value):
            judge.wrong("?" + name, "must be an integer, is %r" % value)
        elif p["type"] == "boolean" and value not in ("true", "false"):
            judge.wrong("?" + name, "must be true or false, is %r" % value)
        if "enum" in p and value not in p["enum"]:
            judge.wrong("?" + name, "%r is none of %s" % (value, ", ".join(p["enum"])))
        if p["type"] == "integer" and "maximum" in p and re.fullmatch(r"\d+", value) and int(value) > int(p["maximum"]):
            judge.wrong("?" + name, "%s is more than %s" % (value, p["maximum"]))
    given = set(path_params) | {n for n, _ in query}
    for name, p in method.get("parameters", {}).items():
        if p.get("required") and name not in given:
            judge.wrong("?" + name, "is required by " + method["id"])
    repeated = {n for n, _ in query if [q for q, _ in query].count(n) > 1}
    for name in repeated:
        if not known.get(name, {}).get("repeated"):
            judge.wrong("?" + name, "is given more than once")


def body_of(doc, headers, text):
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        # google.api.HttpBody in form: members in snake case.
        return {re.sub(r"_(\w)", lambda m: m.group(1).upper(), k): v for k, v in parse_qsl(text)}
    return json.loads(text)


def exchange_check(where, request, status, reply):
    head, _, body = request.partition("\n\n")
    lines = head.split("\n")
    verb, url = lines[0].split(" ", 1)
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    parts = urlsplit(url)
    if parts.netloc in UNKNOWN_HOSTS:
        return 0
    assert parts.netloc in HOSTS, "%s: no document for %s" % (where, parts.netloc)
    doc = load(HOSTS[parts.netloc](parts.path))
    method, path_params = method_find(doc, verb, parts.path)
    if method is None:
        if not any(parts.path.endswith(m) for m in NEWER_METHODS):
            problems.append("%s: no method of %s is %s %s" % (where, doc["id"], verb, parts.path))
        return 0
    judge = Judge(doc, where + " " + method["id"], method["id"])
    query = parse_qsl(parts.query, keep_blank_values=True)
    parameter_check(judge, doc, method, path_params, query)
    body = body.strip()
    if "request" in method and body:
        judge.check(method["request"], body_of(doc, headers, body), "request")
    elif "request" in method and method["id"].split(".")[-1] != "wait":
        judge.wrong("request", "a body is needed")
    elif body:
        judge.wrong("request", "no body is taken")
    if status == 200 and "response" in method:
        Judge(doc, where + " " + method["id"], "").check(method["response"], json.loads(reply), "reply")
    return 1


def file_check(path):
    checked, request = 0, None
    text = pathlib.Path(path).read_text(encoding="utf-8")
    for part in re.split(r"(?m)^--- ", text)[1:]:
        head, _, rest = part.partition("\n")
        if head.startswith("request"):
            request = rest.rstrip("\n")
        elif head.startswith("read"):
            request = None
        elif head.startswith("reply") and request is not None:
            where = os.path.basename(path)
            checked += exchange_check(where, request, int(head.split()[1]), rest.partition("\n\n")[2] if not rest.startswith("\n") else rest[1:])
            request = None
    return checked


def main(args):
    files = args or sorted(str(p) for p in HERE.glob("*.txt"))
    checked = sum(file_check(f) for f in files)
    for p in problems:
        print(p)
    print("%d exchanges in %d files, %d problems" % (checked, len(files), len(problems)))
    assert checked > 0 or args, "nothing was checked"
    return 1 if problems else 0


if __name__ == "__main__":
    # Run by the vendors' python, which meson finds: the build directory is the first argument then.
    sys.exit(main([a for a in sys.argv[1:] if a.endswith(".txt")]))
