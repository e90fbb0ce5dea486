#!/usr/bin/env python3
"""Golden request bodies against Kubernetes' official models.

The models of the official Python client are generated from the project's OpenAPI document: openapi_types and attribute_map name
every member and its type; required members are those whose setter refuses None. A member that no model knows, one of a wrong
type or a missing one is a failure. NodePools and patches of them are held against tests/kubernetes/nodepools.yaml.

usage: openapi_check.py [FOLDER]     exit 77: the packages are not there
"""
import copy
import datetime
import glob
import json
import os
import re
import sys

try:
    import yaml
    from kubernetes.client import models
    from kubernetes.client.configuration import Configuration
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"Pod": "V1Pod", "TokenRequest": "AuthenticationV1TokenRequest", "TokenReview": "V1TokenReview",
         "DeleteOptions": "V1DeleteOptions", "SelfSubjectAccessReview": "V1SelfSubjectAccessReview",
         "SelfSubjectReview": "V1SelfSubjectReview"}
QUIET = Configuration()
QUIET.client_side_validation = True


def scalar(value, want, where):
    ok = {"str": isinstance(value, str), "int": isinstance(value, int) and not isinstance(value, bool),
          "bool": isinstance(value, bool), "float": isinstance(value, (int, float)) and not isinstance(value, bool),
          "object": True, "datetime": isinstance(value, str)}[want]
    return [] if ok else ["%s: %r is no %s" % (where, value, want)]


def check(value, want, where):
    if want.startswith("list["):
        if not isinstance(value, list):
            return ["%s: no list" % where]
        return [e for i, v in enumerate(value) for e in check(v, want[5:-1], "%s[%d]" % (where, i))]
    if want.startswith("dict("):
        if not isinstance(value, dict):
            return ["%s: no map" % where]
        return [e for k, v in value.items() for e in check(v, want[5:-1].split(", ", 1)[1], "%s.%s" % (where, k))]
    if want in ("str", "int", "bool", "float", "object", "datetime"):
        return scalar(value, want, where)
    return model(value, getattr(models, want), where)


def model(value, cls, where):
    if not isinstance(value, dict):
        return ["%s: no object" % where]
    types = {cls.attribute_map[a]: t for a, t in cls.openapi_types.items()}
    errors = ["%s: %s has no member '%s'" % (where, cls.__name__, k) for k in value if k not in types]
    for k, v in value.items():
        if k in types:
            errors += check(v, types[k], where + "." + k)
    for attribute, key in cls.attribute_map.items():
        if key not in value and required(cls, attribute):
            errors.append("%s: %s lacks '%s'" % (where, cls.__name__, key))
    return errors


def required(cls, attribute):
    """The generated setter of a required member refuses None."""
    blank = cls.__new__(cls)
    blank.local_vars_configuration = QUIET
    try:
        getattr(cls, attribute).fset(blank, None)
    except ValueError:
        return True
    return False


# ---- NodePools: the resource's own schema, closed ------------------------------------------------------------------------


def nodepool_schema():
    with open(os.path.join(HERE, "../../kubernetes/nodepools.yaml")) as f:
        schema = yaml.safe_load(f)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema["properties"]["spec"]


def by_schema(value, schema, where, patch):
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if not isinstance(value, kinds[schema["type"]]) or (schema["type"] == "integer" and isinstance(value, bool)):
        return ["%s: no %s" % (where, schema["type"])]
    errors = []
    if "enum" in schema and value not in schema["enum"]:
        errors.append("%s: %r is not one of %s" % (where, value, schema["enum"]))
    if schema["type"] == "array":
        return errors + [e for i, v in enumerate(value) for e in by_schema(v, schema["items"], "%s[%d]" % (where, i), patch)]
    if schema["type"] == "object":
        members, rest = schema.get("properties", {}), schema.get("additionalProperties")
        for k, v in value.items():
            if k not in members and rest is None:
                errors.append("%s: no member '%s'" % (where, k))
            else:
                errors += by_schema(v, members.get(k, rest), where + "." + k, patch)
        errors += ["%s lacks '%s'" % (where, k) for k in schema.get("required", []) if k not in value and not patch]
    return errors


def nodepool(body, patch):
    errors = model(body.get("metadata", {}) if patch else body["metadata"], models.V1ObjectMeta, "metadata")
    if not patch and (body.get("kind"), body.get("apiVersion")) != ("NodePool", "compute.coreweave.com/v1alpha1"):
        errors.append("kind and apiVersion are not NodePool's")
    if patch and set(body) - {"metadata", "spec"}:
        errors.append("a patch of more than metadata and spec: %s" % sorted(body))
    return errors + by_schema(body.get("spec", {}), nodepool_schema(), "spec", patch)


# ---- files ---------------------------------------------------------------------------------------------------------------


def requests(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for part in re.split(r"^### \d+\n", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n\n")
        yield head.split("\n")[0], head, body.strip()


def body_errors(line, head, body):
    doc = json.loads(body)
    if "/nodepools" in line:
        kind = re.search(r"^content-type: (.*)$", head, flags=re.M).group(1)
        if line.startswith("PATCH") and kind != "application/merge-patch+json":
            return ["a patch as %s" % kind]
        return nodepool(doc, line.startswith("PATCH"))
    if doc.get("kind") not in KINDS:
        return ["unknown kind %s" % doc.get("kind")]
    return model(doc, getattr(models, KINDS[doc["kind"]]), doc["kind"])


def spoiled(doc):
    """The same body with one member misspelt, at every place in turn."""
    def walk(node, path):
        if isinstance(node, dict):
            for k in node:
                yield path + [k]
                yield from walk(node[k], path + [k])
        elif isinstance(node, list):
            for i, v in enumerate(node):
                yield from walk(v, path + [i])
    free = ("labels", "annotations", "nodeSelector", "requests", "limits", "nodeLabels")
    for path in walk(doc, []):
        if any(p in free for p in path[:-1]):
            continue
        bad = copy.deepcopy(doc)
        at = bad
        for step in path[:-1]:
            at = at[step]
        at[path[-1] + "x"] = at.pop(path[-1])
        yield ".".join(map(str, path)), bad


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    bodies = failed = spoilt = 0
    began = datetime.datetime.now()
    for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
        for line, head, body in requests(path):
            if not body:
                continue
            bodies += 1
            for e in body_errors(line, head, body):
                failed += 1
                print("%s: %s: %s" % (os.path.basename(path), line, e))
            # And every misspelt member must be seen: a check that cannot fail proves nothing.
            for where, bad in spoiled(json.loads(body)):
                spoilt += 1
                try:
                    seen = body_errors(line, head, json.dumps(bad))
                except (KeyError, TypeError):
                    seen = ["no such member"]
                if not seen and where != "apiVersion":
                    failed += 1
                    print("%s: %s: misspelling %s is not noticed" % (os.path.basename(path), line, where))
    print("%d bodies, %d misspellings, %d failures, %s" % (bodies, spoilt, failed, datetime.datetime.now() - began))
    return 1 if failed or bodies == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
