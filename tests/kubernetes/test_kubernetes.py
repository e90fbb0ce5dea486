#!/usr/bin/env python3
"""The CoreWeave and Kubernetes providers against a real API server. usage: test_kubernetes.py BIN_DIR VERBS_PROGRAM"""
import json
import os
import queue
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
try:
    import yaml
except ImportError:
    print("python3 yaml is missing: skipped")
    sys.exit(77)
sys.path.insert(0, HERE)
from cluster import Cluster, Failure  # noqa: E402

NS = "/api/v1/namespaces/spotbroker"
POOLS = "/apis/compute.coreweave.com/v1alpha1/nodepools"
BAD = 3  # SPOT_CHECK_BAD
TYPE = "gd-8xh100ib-i128"
POOL = "sb-7f3a9c01-%s-spot" % TYPE
INSTALL = "7f3a9c01"


class Plugin:
    """One open provider: calls by name, side by side."""

    def __init__(self, program, kind, settings, log):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.answers, self.ids = {}, 0
        self.news = queue.Queue()
        self.line({"kind": kind, "settings": settings, "env": {}})
        threading.Thread(target=self.reader, daemon=True).start()

    def line(self, doc):
        self.p.stdin.write(json.dumps(doc) + "\n")
        self.p.stdin.flush()

    def reader(self):
        for line in self.p.stdout:
            doc = json.loads(line)
            doc["at"] = time.monotonic()
            self.news.put(doc)
        self.news.put(None)

    def begin(self, verb, **args):
        self.ids += 1
        self.line({"id": self.ids, "verb": verb, "args": args})
        return self.ids

    def wait(self, call, timeout=60):
        while call not in self.answers:
            doc = self.news.get(timeout=timeout)
            assert doc is not None, "the plugin's program has ended"
            self.answers[doc["id"]] = doc
        return self.answers.pop(call)

    def call_any(self, verb, **args):
        return self.wait(self.begin(verb, **args))

    def ok(self, verb, **args):
        a = self.call_any(verb, **args)
        assert a["rc"] == "ok", "%s: %s %s" % (verb, a["rc"], a["error"])
        return a["result"]

    def close(self):
        self.p.stdin.close()
        assert self.p.wait(20) == 0, "the plugin's program ended with %s" % self.p.returncode


class World:
    def __init__(self, cluster, program, log):
        self.c, self.log, self.program = cluster, log, program
        self.launches = 0

    def open(self, kind, **more):
        settings = {"image": "registry.example/node:1", "service_account": "spotbroker", "clusters": "main",
                    "kubeconfig.main": self.c.kubeconfig("boot.conf", "bootstrap")}
        if kind == "coreweave":
            settings["zone.main"] = "US-EAST-04A"
        settings.update(more)
        return Plugin(self.program, kind, settings, self.log)

    def launch_args(self, **more):
        self.launches += 1
        args = {"region": "US-EAST", "zone": "US-EAST-04A", "type": TYPE, "market": "spot", "gpus": 8,
                "token": "tok-%d" % self.launches, "name": "brk.%s.n%d.1767323045" % (INSTALL, self.launches),
                "install": INSTALL, "user_data": "#!/bin/sh\necho é\n"}
        args.update(more)
        return args

    # ---- playing the kubelet and the NodePool controller

    def pods(self):
        return self.c.request("GET", NS + "/pods")["items"]

    def pod(self, instance):
        return self.c.request("GET", "%s/pods/%s" % (NS, instance["ref"].split("/")[1]))

    def target(self, name=POOL):
        return self.c.request("GET", "%s/%s" % (POOLS, name))["spec"]["targetNodes"]

    def pool_status(self, status, name=POOL):
        self.c.patch("%s/%s/status" % (POOLS, name), {"status": status})

    def node(self, name, labels, gpus=8):
        self.c.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        self.c.patch("/api/v1/nodes/%s/status" % name, {"status": {"allocatable": {
            "cpu": "127500m", "memory": "2112109804Ki", "nvidia.com/gpu": str(gpus), "pods": "110"}}})

    def run(self, instance, node):
        name = instance["ref"].split("/")[1]
        self.c.request("POST", "%s/pods/%s/binding" % (NS, name), {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
        self.c.patch("%s/pods/%s/status" % (NS, name), {"status": {"phase": "Running", "podIP": "10.1.2.3", "containerStatuses": [{
            "name": "node", "image": "i", "imageID": "i", "ready": True, "restartCount": 0, "state": {"running": {}}}]}})

    def unschedulable(self, instance, words):
        name = instance["ref"].split("/")[1]
        self.c.patch("%s/pods/%s/status" % (NS, name), {"status": {"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]}})

    def delete_pod(self, instance):
        self.c.request("DELETE", "%s/pods/%s" % (NS, instance["ref"].split("/")[1]), {
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})

    def event(self, reason, message, pool=POOL):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.c.request("POST", "/api/v1/namespaces/default/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-", "namespace": "default"},
            "involvedObject": {"kind": "NodePool", "name": pool}, "reason": reason, "message": message, "type": "Warning",
            "firstTimestamp": now, "lastTimestamp": now})


# ---- CoreWeave ------------------------------------------------------------------------------------------------------


def a_launch_makes_the_pod_and_orders_its_node(w, p):
    i = p.ok("launch", **w.launch_args())
    pod = w.pod(i)
    assert i["state"] == "pending" and i["spot_request"] == POOL and i["install"] == INSTALL, i
    assert pod["spec"]["restartPolicy"] == "Never" and pod["spec"]["terminationGracePeriodSeconds"] == 400
    box = pod["spec"]["containers"][0]
    assert box["command"] == ["/bin/sh", "-c", "#!/bin/sh\necho é\n"]
    assert box["resources"]["requests"]["nvidia.com/gpu"] == "8" == box["resources"]["limits"]["nvidia.com/gpu"]
    assert box["resources"]["requests"]["rdma/ib"] == "1"
    audience = [s["serviceAccountToken"]["audience"] for v in pod["spec"]["volumes"] if "projected" in v
                for s in v["projected"]["sources"]]
    assert audience == ["https://broker.example"], audience
    pool = w.c.request("GET", "%s/%s" % (POOLS, POOL))
    assert pool["spec"]["computeClass"] == "spot" and pool["spec"]["instanceType"] == TYPE
    assert pool["spec"]["targetNodes"] == 1 and pool["spec"]["autoscaling"] is False
    assert pool["spec"]["nodeTaints"][0]["effect"] == "NoSchedule"
    return i


def a_repeat_of_a_launch_finds_its_own_pod(w, p):
    args = w.launch_args()
    first, again = p.ok("launch", **args), p.ok("launch", **args)
    assert first["ref"] == again["ref"] and w.target() == len(w.pods())
    other = p.call_any("launch", **dict(args, user_data="something else"))
    assert other["rc"] == "mismatch", other
    p.ok("terminate", ref=first["ref"])


def launches_side_by_side_leave_one_right_target(w, p):
    before = len(w.pods())
    calls = [p.begin("launch", **w.launch_args()) for _ in range(6)]
    found = [p.wait(c) for c in calls]
    assert all(a["rc"] == "ok" for a in found), found
    assert w.target() == before + 6 == len(w.pods())
    ends = [p.begin("terminate", ref=a["result"]["ref"]) for a in found]
    assert all(p.wait(e)["rc"] == "ok" for e in ends)
    assert w.target() == before == len(w.pods())


def a_list_has_our_pods_only(w, p):
    i = p.ok("launch", **w.launch_args())
    p.ok("launch", **w.launch_args(install="ffffffff"))
    refs = [x["ref"] for x in p.ok("list", region="US-EAST", install=INSTALL)]
    assert i["ref"] in refs and len(refs) == len([x for x in w.pods() if x["metadata"]["labels"]["spotbroker.io/install"] == INSTALL])
    for x in p.ok("list", region="US-EAST", install="ffffffff"):
        p.ok("terminate", ref=x["ref"])
    p.ok("terminate", ref=i["ref"])


def find_orders_the_node_of_a_launch_that_was_cut_short(w, p):
    args = w.launch_args()
    i = p.ok("launch", **args)
    w.c.patch("%s/%s" % (POOLS, POOL), {"spec": {"targetNodes": 0}})
    found = p.ok("find", region="US-EAST", name=args["name"], token=args["token"], install=INSTALL)
    assert [x["ref"] for x in found] == [i["ref"]] and w.target() == len(w.pods())
    assert p.ok("find", region="US-EAST", name="brk.none", token="t", install=INSTALL) == []
    p.ok("terminate", ref=i["ref"])


def a_forgotten_order_is_listed_and_lowered(w, p):
    live = len(w.pods())
    w.c.patch("%s/%s" % (POOLS, POOL), {"spec": {"targetNodes": live + 3}})
    left = [x for x in p.ok("list", region="US-EAST", install=INSTALL) if x["leftover"]]
    assert [x["ref"] for x in left] == ["nodepool/main/" + POOL], left
    p.ok("terminate", ref=left[0]["ref"])
    assert w.target() == live
    assert not [x for x in p.ok("list", region="US-EAST", install=INSTALL) if x["leftover"]]


def a_running_pod_is_running_and_its_node_counts(w, p):
    i = p.ok("launch", **w.launch_args())
    w.node("n1", {"spotbroker.io/install": INSTALL, "spotbroker.io/pool": POOL})
    w.run(i, "n1")
    x = p.ok("describe", region="US-EAST", refs=[i["ref"]])
    assert x[0]["state"] == "running" and x[0]["ip"] == "10.1.2.3", x
    w.c.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    n = p.ok("notices", region="US-EAST", refs=[i["ref"]])
    assert [a["kind"] for a in n] == ["rebalance"], n
    w.c.request("DELETE", "/api/v1/nodes/n1")
    x = p.ok("describe", region="US-EAST", refs=[i["ref"]])
    assert x[0]["state"] == "interrupted" and x[0]["end_cause"] == 1, x
    w.delete_pod(i)


def terminate_waits_for_the_grace_and_lowers_the_target_at_once(w, p):
    i = p.ok("launch", **w.launch_args())
    w.node("n2", {"spotbroker.io/install": INSTALL})
    w.run(i, "n2")
    live = w.target()
    assert p.ok("terminate", ref=i["ref"])["state"] == "stopping"
    pod = w.pod(i)
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 31 and w.target() == live - 1
    assert p.ok("notices", region="US-EAST", refs=[i["ref"]]) == []  # our own doing
    w.delete_pod(i)
    assert p.ok("terminate", ref=i["ref"], spot_request=POOL)["state"] == "gone"
    w.c.request("DELETE", "/api/v1/nodes/n2")


def a_namesake_is_not_deleted(w, p):
    i = p.ok("launch", **w.launch_args())
    wrong = i["ref"].rsplit("/", 1)[0] + "/00000000-0000-4000-8000-000000000000"
    assert p.ok("terminate", ref=wrong)["state"] == "gone"
    assert w.pod(i)["metadata"].get("deletionTimestamp") is None
    p.ok("terminate", ref=i["ref"])


def no_capacity_is_said_by_an_event(w, p):
    i = p.ok("launch", **w.launch_args())
    w.unschedulable(i, "0/1 nodes are available")
    assert p.ok("describe", region="US-EAST", refs=[i["ref"]])[0]["state"] == "pending"
    w.event("CWInsufficientCapacity", "not enough nodes of the type")
    x = p.ok("describe", region="US-EAST", refs=[i["ref"]])[0]
    assert x["state"] == "failed" and x["raw_reason"].startswith("NO_CAPACITY: event CWInsufficientCapacity"), x
    p.ok("terminate", ref=i["ref"])
    assert w.target() == len(w.pods())


def a_condition_of_an_open_order_refuses_a_launch_and_undoes_it(w, p):
    first = p.ok("launch", **w.launch_args())
    w.pool_status({"currentNodes": 0, "conditions": [{"type": "Capacity", "status": "False", "reason": "CWInsufficientCapacity",
                                                      "message": "sold out"}]})
    a = p.call_any("launch", **w.launch_args())
    assert a["rc"] == "no_capacity" and a["code"] == "capacity", a
    assert w.target() == 1 == len(w.pods())
    w.pool_status({"currentNodes": 0, "conditions": [{"type": "Quota", "status": "False", "reason": "CWOverQuota", "message": "m"}]})
    a = p.call_any("launch", **w.launch_args())
    assert a["rc"] == "quota" and len(w.pods()) == 1, a
    w.pool_status({"currentNodes": 0, "conditions": None})
    p.ok("terminate", ref=first["ref"])


def a_target_that_the_server_refuses_undoes_the_launch(w, p):
    held = [p.ok("launch", **w.launch_args(market="on_demand")) for _ in range(20)]
    a = p.call_any("launch", **w.launch_args(market="on_demand"))  # the resource's schema allows 20
    assert a["rc"] == "invalid" and "targetNodes" in a["error"], a
    assert len(w.pods()) == 20
    for c in [p.begin("terminate", ref=i["ref"]) for i in held]:
        assert p.wait(c)["rc"] == "ok"
    assert w.target(POOL.replace("spot", "ondemand")) == 0


def watch_sees_a_delete_within_a_second(w, p):
    i = p.ok("launch", **w.launch_args())
    w.node("n3", {"spotbroker.io/install": INSTALL})
    w.run(i, "n3")
    first = p.ok("watch", region="US-EAST", install=INSTALL, hold_ms=20000)
    assert i["ref"] in [x["ref"] for x in first["seen"]] and not first["gap"], first
    call = p.begin("watch", region="US-EAST", install=INSTALL, cursor=first["cursor"], hold_ms=20000)
    time.sleep(1)  # so that the stream is open and quiet when it happens
    began = time.monotonic()
    w.c.request("DELETE", "%s/pods/%s" % (NS, i["ref"].split("/")[1]))
    a = p.wait(call)
    took = a["at"] - began
    assert a["rc"] == "ok" and took < 1, (a, took)
    n = a["result"]["notices"]
    assert [x["kind"] for x in n] == ["interruption"] and n[0]["ref"] == i["ref"], a
    left = n[0]["deadline_us"] / 1e6 - time.time()
    assert 300 < left <= 401, left
    assert a["result"]["seen"][0]["state"] == "stopping"
    w.delete_pod(i)
    gone = p.ok("watch", region="US-EAST", install=INSTALL, cursor=a["result"]["cursor"], hold_ms=20000)
    while gone["seen"][-1]["state"] != "gone":
        gone = p.ok("watch", region="US-EAST", install=INSTALL, cursor=gone["cursor"], hold_ms=20000)
    p.ok("terminate", ref=i["ref"], spot_request=POOL)
    assert w.target() == len(w.pods())
    w.c.request("DELETE", "/api/v1/nodes/n3")
    print("        a delete was told after %d ms" % (took * 1000))


def a_watch_that_is_too_old_says_gap(w, p):
    old = p.ok("watch", region="US-EAST", install=INSTALL, hold_ms=3000)["cursor"]
    i = p.ok("launch", **w.launch_args())
    w.c.forget()
    a = p.ok("watch", region="US-EAST", install=INSTALL, cursor=old, hold_ms=5000)
    assert a["gap"] and a["cursor"] != old and [x["ref"] for x in a["seen"]] == [i["ref"]], a
    quiet = p.ok("watch", region="US-EAST", install=INSTALL, cursor=a["cursor"], hold_ms=2000)
    assert not quiet["gap"] and quiet["seen"] == [] and quiet["cursor"], quiet


def a_node_is_who_its_token_says(w, p):
    i, other = p.ok("launch", **w.launch_args()), p.ok("launch", **w.launch_args())

    def token(pod, audience):
        name, uid = pod["ref"].split("/")[1:]
        return w.c.request("POST", NS + "/serviceaccounts/spotbroker-node/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
                "audiences": [audience], "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}}})["status"]["token"]

    def proof(t):
        return json.dumps({"kind": "kubernetes", "token": t})
    good = token(i, "https://broker.example")
    p.ok("verify", ref=i["ref"], proof=proof(good))
    for bad in (token(i, "https://else.example"), token(other, "https://broker.example"), good[:-6] + "AAAAAA", ""):
        a = p.call_any("verify", ref=i["ref"], proof=proof(bad))
        assert a["rc"] == "denied", a
    p.ok("terminate", ref=i["ref"])
    until = time.monotonic() + 20
    while p.call_any("verify", ref=i["ref"], proof=proof(good))["rc"] != "denied":  # the server remembers a good token for 10 s
        assert time.monotonic() < until, "the Pod is gone, its token is not"
        time.sleep(1)
    p.ok("terminate", ref=other["ref"])


def the_role_that_we_ship_is_enough(w, p):
    items = p.ok("check", region="")
    assert len(items) > 10 and all(x["state"] == 1 for x in items), [x for x in items if x["state"] != 1]
    assert p.ok("whoami") == "system:serviceaccount:spotbroker:spotbroker@main"
    assert p.ok("regions") == ["US-EAST"]


def a_missing_right_is_found_before_it_is_needed(w, p):
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/spotbroker"
    rules = w.c.request("GET", role)["rules"]
    w.c.patch(role, {"rules": [r for r in rules if "nodepools" not in r["resources"]]})
    try:
        until = time.monotonic() + 10
        while True:  # the authorizer reads roles from its own watch
            bad = [x for x in p.ok("check", region="") if x["state"] == BAD]
            if len(bad) >= 5 or time.monotonic() > until:
                break
        assert sorted(x["name"] for x in bad) == ["main: NodePool resource", "main: create nodepools", "main: get nodepools",
                                                  "main: list nodepools", "main: patch nodepools"], bad
        a = p.call_any("launch", **w.launch_args())
        assert a["rc"] == "denied" and w.pods() == [], a  # and its first steps are undone
    finally:
        w.c.patch(role, {"rules": rules})
    until = time.monotonic() + 10
    while any(x["state"] == BAD for x in p.ok("check", region="")) and time.monotonic() < until:
        pass


def quotas_are_those_of_the_namespace(w, p):
    w.c.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus", "namespace": "spotbroker"},
               "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}})
    try:
        q = p.ok("quotas", region="US-EAST")
        assert sorted((x["market"], x["limit"]) for x in q) == [("on_demand", 4), ("spot", 4)], q
        # Without a controller that counts, the admission plugin waits for a status: give it one.
        w.c.patch(NS + "/resourcequotas/gpus/status", {"status": {"hard": {"requests.nvidia.com/gpu": "4"},
                                                                  "used": {"requests.nvidia.com/gpu": "0"}}})
        a = p.call_any("launch", **w.launch_args())
        assert a["rc"] == "quota" and "exceeded quota" in a["error"], a
        assert w.pods() == []
    finally:
        w.c.request("DELETE", NS + "/resourcequotas/gpus")
    until = time.monotonic() + 10
    while any(x["limit"] != -1 for x in p.ok("quotas", region="US-EAST")) and time.monotonic() < until:
        pass


# ---- any cluster ----------------------------------------------------------------------------------------------------


def kubernetes_kind_finds_its_nodes_and_uses_them(w):
    p = w.open("kubernetes")
    gpu = {"node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
           "nvidia.com/gpu.memory": "81559", "kubernetes.io/arch": "amd64"}
    w.node("k1", gpu)
    w.node("k2", dict(gpu, **{"eks.amazonaws.com/capacityType": "SPOT"}))
    w.node("k3", {"node.kubernetes.io/instance-type": "m5.large"}, gpus=0)
    pools = p.ok("pools", region="main")
    assert sorted((x["type"], x["market"], x["gpu"], x["gpu_milli"], x["vcpus"], x["arch"]) for x in pools) == [
        ("p5.48xlarge", "on_demand", "H100-80GB-SXM", 8000, 127, "x86_64"),
        ("p5.48xlarge", "spot", "H100-80GB-SXM", 8000, 127, "x86_64")], pools
    i = p.ok("launch", **w.launch_args(region="main", zone="", type="p5.48xlarge"))
    pod = w.pod(i)
    assert pod["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    assert i["spot_request"] == "" and i["region"] == "main"
    w.unschedulable(i, "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    x = p.ok("describe", region="main", refs=[i["ref"]])[0]
    assert x["state"] == "failed" and x["raw_reason"].startswith("NO_CAPACITY"), x
    p.ok("terminate", ref=i["ref"])
    assert w.pods() == []
    p.close()


CASES = [a_launch_makes_the_pod_and_orders_its_node, a_repeat_of_a_launch_finds_its_own_pod,
         launches_side_by_side_leave_one_right_target, a_list_has_our_pods_only,
         find_orders_the_node_of_a_launch_that_was_cut_short, a_forgotten_order_is_listed_and_lowered,
         a_running_pod_is_running_and_its_node_counts, terminate_waits_for_the_grace_and_lowers_the_target_at_once,
         a_namesake_is_not_deleted, no_capacity_is_said_by_an_event,
         a_condition_of_an_open_order_refuses_a_launch_and_undoes_it, a_target_that_the_server_refuses_undoes_the_launch,
         watch_sees_a_delete_within_a_second, a_watch_that_is_too_old_says_gap, a_node_is_who_its_token_says,
         the_role_that_we_ship_is_enough, a_missing_right_is_found_before_it_is_needed, quotas_are_those_of_the_namespace]


def prepare(c):
    with open(os.path.join(ROOT, "deploy/iam/coreweave-rbac.yaml")) as f:
        for doc in yaml.safe_load_all(f):
            c.apply(doc)
    with open(os.path.join(HERE, "nodepools.yaml")) as f:
        c.apply(yaml.safe_load(f))
    # The client certificate of the kubeconfig may ask for the broker's token and nothing else.
    c.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "bootstrap", "namespace": "spotbroker"},
             "rules": [{"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["spotbroker"], "verbs": ["create"]}]})
    c.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "bootstrap", "namespace": "spotbroker"},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bootstrap"},
             "subjects": [{"kind": "User", "name": "spotbroker-bootstrap", "apiGroup": "rbac.authorization.k8s.io"}]})
    until = time.monotonic() + 20
    while c.raw("GET", POOLS)[0] != 200 and time.monotonic() < until:
        time.sleep(0.1)  # the new resource is served when its controller has seen it


def clean(w):
    for pod in w.pods():
        w.c.request("DELETE", "%s/pods/%s" % (NS, pod["metadata"]["name"]), {
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    for node in w.c.request("GET", "/api/v1/nodes")["items"]:
        w.c.request("DELETE", "/api/v1/nodes/" + node["metadata"]["name"])
    for pool in w.c.request("GET", POOLS)["items"]:
        w.c.patch("%s/%s" % (POOLS, pool["metadata"]["name"]), {"spec": {"targetNodes": 0}})


def main():
    failed = 0
    c = Cluster(sys.argv[1])
    try:
        prepare(c)
        with open(c.path("plugin.log"), "w") as log:
            w = World(c, sys.argv[2], log)
            p = w.open("coreweave")
            todo = [(f, lambda f=f: f(w, p)) for f in CASES]
            todo.append((kubernetes_kind_finds_its_nodes_and_uses_them, lambda: kubernetes_kind_finds_its_nodes_and_uses_them(w)))
            for f, run in todo:
                clean(w)
                try:
                    run()
                    print("ok      " + f.__name__, flush=True)
                except (AssertionError, Failure, queue.Empty) as e:
                    failed += 1
                    print("FAILED  %s: %s" % (f.__name__, str(e)[:2000]), flush=True)
            p.close()
    finally:
        c.stop()
    print("%d passed, %d failed" % (len(todo) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
