#!/usr/bin/env python3
"""Second opinion on the golden exchanges: the vendor's own models (azure-mgmt-compute, -resource, -resourcegraph).

Each request to the Resource Manager must be one that the vendor's library can send (method, path, names of the query), and
its body must fit the model: no key that the model does not know, no read-only one, none missing that is required, each value of
its type, enumerations by name. Each reply likewise, read-only keys allowed. What the packages have no model of is listed here
by hand, with the page.
Exit status 0 = all agree, 77 = the packages are not installed.

    models_check.py [FILE...]         without files: all of this folder
"""
import datetime
import importlib
import inspect
import json
import pathlib
import re
import sys
from urllib.parse import parse_qsl, urlsplit

try:
    COMPUTE = importlib.import_module("azure.mgmt.compute.v2024_11_01")
    SKUS = importlib.import_module("azure.mgmt.compute.v2021_07_01")
    GROUPS = importlib.import_module("azure.mgmt.resource.resources.v2021_04_01")
    SUBSCRIPTIONS = importlib.import_module("azure.mgmt.resource.subscriptions.v2022_12_01")
    GRAPH = importlib.import_module("azure.mgmt.resourcegraph")
except ImportError as e:
    print(f"{e}: skipped")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
ARM = "https://management.azure.com"
PLAIN = {"str": str, "int": int, "long": int, "bool": bool, "float": (int, float), "object": object,
         "bytearray": str, "duration": str}


class Wrong(Exception):
    pass


def models_of(package):
    return importlib.import_module(package.__name__ + ".models")


# ---- models ----------------------------------------------------------------------------------

def wire_keys(model):
    """{wire key: (attribute, type)}, flattened keys ("properties.vmId") taken apart into a tree."""
    tree = {}
    for name, how in model._attribute_map.items():
        parts = [p.replace("\\.", ".") for p in re.split(r"(?<!\\)\.", how["key"])]
        at = tree
        for part in parts[:-1]:
            at = at.setdefault(part, {})
        at[parts[-1]] = (name, how["type"])
    return tree


def check_value(models, kind, value, where, request):
    if kind.startswith("["):
        if not isinstance(value, list):
            raise Wrong(f"{where}: not a list")
        for i, v in enumerate(value):
            check_value(models, kind[1:-1], v, f"{where}[{i}]", request)
    elif kind.startswith("{"):
        if not isinstance(value, dict):
            raise Wrong(f"{where}: not a map")
        for k, v in value.items():
            check_value(models, kind[1:-1], v, f"{where}.{k}", request)
    elif kind == "iso-8601":
        try:
            datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value))
        except (TypeError, ValueError):
            raise Wrong(f"{where}: '{value}' is not a date") from None
    elif kind in PLAIN:
        if kind != "object" and (not isinstance(value, PLAIN[kind]) or (kind != "bool" and isinstance(value, bool))):
            raise Wrong(f"{where}: {json.dumps(value)} is not of type {kind}")
    else:
        check_model(models, getattr(models, kind), value, where, request)


def check_tree(models, model, tree, value, where, request):
    if not isinstance(value, dict):
        raise Wrong(f"{where}: not an object, {model.__name__} is")
    rules = getattr(model, "_validation", {})
    for key, v in value.items():
        if key not in tree:
            raise Wrong(f"{where}: {model.__name__} has no '{key}'")
        if isinstance(tree[key], dict):
            check_tree(models, model, tree[key], v, f"{where}.{key}", request)
            continue
        name, kind = tree[key]
        rule = rules.get(name, {})
        if request and rule.get("readonly"):
            raise Wrong(f"{where}.{key}: read-only in {model.__name__}")
        if v is None and not rule.get("required"):
            continue
        check_value(models, kind, v, f"{where}.{key}", request)
        check_enum(models, model, name, v, f"{where}.{key}")
        for bound, broken in (("max_length", lambda n: len(v) > n), ("minimum", lambda n: v < n),
                              ("maximum", lambda n: v > n), ("pattern", lambda n: not re.match(n, v))):
            if bound in rule and broken(rule[bound]):
                raise Wrong(f"{where}.{key}: {json.dumps(v)} breaks {bound} {rule[bound]}")
    for key, how in tree.items():
        if isinstance(how, tuple) and rules.get(how[0], {}).get("required") and key not in value:
            raise Wrong(f"{where}: {model.__name__} needs '{key}'")


def check_enum(models, model, name, value, where):
    """Enumerations are of type str; the model's own text says which one is meant."""
    at = re.search(rf":vartype {name}: str or\s+~([\w.]+)", model.__doc__ or "")
    if at is None or not isinstance(value, str):
        return
    enum = at.group(1).rpartition(".")[2]
    if enum == "VirtualMachineSizeTypes":
        return  # "an enum that is not complete": its own text refers to the list of sizes
    known = [e.value for e in getattr(models, enum)]
    if value.lower() not in [k.lower() for k in known]:
        raise Wrong(f"{where}: '{value}' is none of {', '.join(known)}")


def check_model(models, model, value, where, request):
    check_tree(models, model, wire_keys(model), value, where, request)


# ---- operations ------------------------------------------------------------------------------

def operations_of(package):
    """(method, path with its {parameters}, names of the query) of every request that the library can send."""
    source = inspect.getsource(importlib.import_module(package.__name__ + ".operations._operations"))
    try:
        source += inspect.getsource(importlib.import_module(package.__name__ + ".operations._resource_graph_client_operations"))
    except ImportError:
        pass
    for block in re.split(r"(?m)^def build_", source)[1:]:
        body = block.split("\n\n\n")[0]
        method = re.search(r'HttpRequest\(method="(\w+)"', body)
        url = re.search(r'_url = kwargs\.pop\(\s*"template_url",\s*((?:"[^"]*"\s*)+)', body) or \
            re.search(r'_url = ((?:"[^"]*"\s*)+)', body)
        if method and url:
            yield method.group(1), "".join(re.findall(r'"([^"]*)"', url.group(1))), set(re.findall(r'_params\["([^"]+)"\]', body))


OPERATIONS = [o for package in (COMPUTE, SKUS, GROUPS, SUBSCRIPTIONS, GRAPH) for o in operations_of(package)]
# No package here: learn.microsoft.com/rest/api/compute-recommender (RecommenderRP.json 2025-06-05) and
# learn.microsoft.com/rest/api/authorization/permissions/list; operations of Compute are opaque links.
OPERATIONS += [
    ("POST", "/subscriptions/{s}/providers/Microsoft.Compute/locations/{l}/placementScores/spot/generate", {"api-version"}),
    ("GET", "/subscriptions/{s}/providers/Microsoft.Compute/locations/{l}/placementScores/spot", {"api-version"}),
    ("GET", "/subscriptions/{s}/providers/Microsoft.Authorization/permissions", {"api-version"}),
]


def check_url(method, url):
    parts = urlsplit(url)
    query = {k for k, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if "/operations/" in parts.path or any(k.lower() == "$skiptoken" for k in query):
        return  # a link of the vendor's, used as it came
    names = []
    for m, path, known in OPERATIONS:
        form = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
        if m == method and re.fullmatch(form, parts.path, re.I):
            names.append(known)
    if not names:
        raise Wrong(f"{method} {parts.path}: the vendor's library has no such operation")
    if "api-version" not in query:
        raise Wrong(f"{method} {parts.path}: no api-version")
    if not any(query <= known for known in names):
        raise Wrong(f"{method} {parts.path}: query {sorted(query)} is not among {sorted(names[0])}")


# ---- which model is it -----------------------------------------------------------------------

VM = r"/resourceGroups/[^/]+/providers/Microsoft\.Compute/virtualMachines/[^/]+"
NEAR = r"/resourceGroups/[^/]+/providers/Microsoft\.Compute/proximityPlacementGroups/[^/]+"
MODELS = [  # method, end of the path, package, model of the request, of the reply
    ("PUT", VM, COMPUTE, "VirtualMachine", "VirtualMachine"),
    ("GET", VM, COMPUTE, None, "VirtualMachine"),
    ("PUT", NEAR, COMPUTE, "ProximityPlacementGroup", "ProximityPlacementGroup"),
    ("GET", r"/providers/Microsoft\.Compute/virtualMachines", COMPUTE, None, "VirtualMachineListResult"),
    ("GET", r"/capacityReservations", COMPUTE, None, "CapacityReservationListResult"),
    ("GET", r"/locations/\w+/usages", COMPUTE, None, "ListUsagesResult"),
    ("GET", r"/providers/Microsoft\.Compute/skus", SKUS, None, "ResourceSkusResult"),
    ("PUT", r"/resourcegroups/[^/]+", GROUPS, "ResourceGroup", "ResourceGroup"),
    ("GET", r"/resourcegroups/[^/]+", GROUPS, None, "ResourceGroup"),
    ("DELETE", r"/resourcegroups/[^/]+", GROUPS, None, None),
    ("GET", r"/resourcegroups", GROUPS, None, "ResourceGroupListResult"),
    ("GET", r"/subscriptions/[^/]+/locations", SUBSCRIPTIONS, None, "LocationListResult"),
    ("GET", r"/subscriptions/[^/]+", SUBSCRIPTIONS, None, "Subscription"),
    ("POST", r"/Microsoft\.ResourceGraph/resources", GRAPH, "QueryRequest", "QueryResponse"),
]
SCORE = {"sku": str, "region": str, "availabilityZone": str, "score": str, "isQuotaAvailable": bool}
ASKED = {"desiredLocations": [str], "desiredSizes": [{"sku": str}], "desiredCount": int, "availabilityZones": bool}
BY_HAND = [
    ("POST", r"/placementScores/spot/generate", ASKED, {**ASKED, "placementScores": [SCORE]}),
    ("GET", r"/placementScores/spot", None,
     {"id": str, "name": str, "type": str, "properties": {"supportedResourceTypes": [str]}}),
    ("GET", r"/Microsoft\.Authorization/permissions", None,
     {"value": [{"actions": [str], "notActions": [str], "dataActions": [str], "notDataActions": [str]}]}),
    ("GET", r"/operations/[^/]+", None, {"startTime": str, "endTime": str, "status": str, "name": str, "error":
                                          {"code": str, "message": str}}),
]


def check_by_hand(form, value, where):
    if isinstance(form, list):
        if not isinstance(value, list):
            raise Wrong(f"{where}: not a list")
        for i, v in enumerate(value):
            check_by_hand(form[0], v, f"{where}[{i}]")
    elif isinstance(form, dict):
        for k, v in value.items():
            if k not in form:
                raise Wrong(f"{where}: there is no '{k}'")
            check_by_hand(form[k], v, f"{where}.{k}")
    elif not isinstance(value, form) or (form is not bool and isinstance(value, bool)):
        raise Wrong(f"{where}: {json.dumps(value)} is not of type {form.__name__}")


def form_of(method, path, answer):
    if re.search(r"/operations/[^/]+$", path) and "status" not in answer:
        return COMPUTE, None, "VirtualMachine"  # Location of a PUT: at its end the resource itself
    for m, end, package, request, reply in MODELS:
        if m == method and re.search(end + "$", path, re.I):
            return package, request, reply
    for m, end, request, reply in BY_HAND:
        if m == method and re.search(end + "$", path, re.I):
            return None, request, reply
    raise Wrong(f"{method} {path}: nothing to judge it by")


def check_error(doc):
    """{"error": {"code", "message", ...}}: the vendor's error body, CloudError in every package."""
    error = doc.get("error") if isinstance(doc, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str) or not isinstance(error.get("message"), str):
        raise Wrong("reply: not an error body")


def check_exchange(request, status, reply):
    head, _, body = request.partition("\n\n")
    method, url = head.split("\n")[0].split(" ", 1)
    if not url.startswith(ARM):
        return 0
    check_url(method, url)
    doc = json.loads(body) if body.strip() else None
    answer = json.loads(reply) if reply.strip() else None
    package, asked, answered = form_of(method, urlsplit(url).path, answer or {"status": ""})
    if (doc is None) != (asked is None):
        raise Wrong(f"{method} {url}: a body is {'wanted' if doc is None else 'not wanted'}")
    if status >= 400:
        check_error(answer)
    for form, value, where, is_request in ((asked, doc, "request", True), (answered, answer, "reply", False)):
        if value is None or form is None or (status >= 400 and not is_request):
            continue
        if package is None:
            check_by_hand(form, value, where)
        else:
            models = models_of(package)
            check_model(models, getattr(models, form), value, where, is_request)
    return 1


# ---- is the judge awake ----------------------------------------------------------------------

def misspellings(value, at=()):
    """Every copy of a body with one key misspelt; keys of maps (tags, identities) are anybody's."""
    if isinstance(value, list):
        for i, v in enumerate(value):
            for key, changed in misspellings(v, at):
                yield key, value[:i] + [changed] + value[i + 1:]
    elif isinstance(value, dict):
        for k, v in value.items():
            if not at or at[-1] not in ("tags", "userAssignedIdentities"):
                yield k, {("x" + key if key == k else key): w for key, w in value.items()}
            for key, changed in misspellings(v, at + (k,)):
                yield key, {**value, k: changed}


def check_judge(request, status, reply):
    """Each request with one key misspelt must be refused. Returns how many were; raises for the first that was not."""
    head, _, body = request.partition("\n\n")
    if not head.split("\n")[0].split(" ", 1)[1].startswith(ARM) or not body.strip():
        return 0
    count = 0
    for key, changed in misspellings(json.loads(body)):
        try:
            check_exchange(head + "\n\n" + json.dumps(changed), status, reply)
        except Wrong:
            count += 1
            continue
        raise Wrong(f"'x{key}' for '{key}' was not noticed")
    return count


# ---- the files -------------------------------------------------------------------------------

def exchanges(text):
    """request text, reply status, reply body; file reads are left out."""
    request = None
    for part in re.split(r"(?m)^--- ", text)[1:]:
        head, _, body = part.partition("\n")
        if head == "request":
            request = body.removesuffix("\n")
        elif head.startswith("reply") and request is not None:
            lines, _, content = ("\n" + body).partition("\n\n")
            yield request, int(head.split()[1]), content.removesuffix("\n")
            request = None
        elif head.startswith("read"):
            request = None


def main():
    files = [pathlib.Path(f) for f in sys.argv[1:]] or sorted(HERE.glob("*.txt"))
    judged = failed = misspelt = 0
    for f in files:
        for n, (request, status, reply) in enumerate(exchanges(f.read_text()), 1):
            try:
                judged += check_exchange(request, status, reply)
                misspelt += check_judge(request, status, reply)
            except Wrong as e:
                print(f"{f.name}, exchange {n}: {e}")
                failed += 1
    print(f"{judged} exchanges of {len(files)} files judged, {failed} wrong; {misspelt} misspelt keys noticed")
    return 1 if failed or judged == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
