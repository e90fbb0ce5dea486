#!/usr/bin/env python3
"""Orphans: machines and other things that carry our tag and have no row, made past the broker through the cloud's own
API. They are shown in dollars and ended after their grace, with all that belongs to them. A thing with any tag but
exactly ours is left alone."""
import copy
import json
import os
import secrets
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402
from clouds import GcsStore, call, must  # noqa: E402

GRACE_S = 8  # a slow machine, too, sees a leak before it is ended
# Seldom renewed: its holder leads all the same when something is launched in between.
SETTINGS = {"engine": {"orphan_grace": "%ds" % GRACE_S, "sweep": "2s", "lease": "30s"}}


class Planted:
    """ref: the broker's name for it. words: its names in an event or in the clouds' books. machine: the emulator's id,
    or None."""

    def __init__(self, ref, *words, **more):
        self.ref, self.words, self.machine = ref, [ref, *words], None
        self.__dict__.update(more)


class Leaks:
    """The tests of every cloud; below, one class each. rest: things besides machines that the provider lists."""
    GPUS = TAG = None    # TAG: the key of the owner's tag
    LISTED = None        # (service, action) of a request of each sweep.
    PER_SWEEP = 1        # Requests of that kind per sweep.
    REST_AFTER_S = None  # The rest ends by itself so long after it was seen; None: so late that a user has to end it.

    # ---- tags ------------------------------------------------------------------------------

    def own_tags(self, tags):
        return dict(tags)

    def no_tags(self, tags):
        return {}

    def another_installations(self, tags):
        return dict(tags, **{self.TAG: "00000000"})

    def one_character_more(self, tags):
        return dict(tags, **{self.TAG: tags[self.TAG] + "0"})

    def under_another_key(self, tags):
        return dict({k: v for k, v in tags.items() if k != self.TAG}, owner=tags[self.TAG])

    def fresh(self):
        """A name and a token as the broker gives them, of which no row knows."""
        unique = secrets.token_hex(8)
        return "brk.%s.n%s.%d" % (self.install, unique, time.time()), "spt-%s-n%s" % (self.install, unique)

    # ---- the list --------------------------------------------------------------------------

    def leaks(self, *more):
        seen = {i["ref"]: i for i in self.world.ctl_json("leaks", *more)["items"]}
        self.assertEqual([s.ref for s in self.strangers if s.ref in seen], [], "strangers are taken for ours")
        return seen

    def await_leaks(self, what, timeout_s, planted, *more):
        """If a machine's group comes first, the group is listed as a leftover until the machine is there."""
        def all_there():
            seen = self.leaks(*more)
            return seen if all(p.ref in seen and (p.machine is None or seen[p.ref]["kind"] == "instance") for p in planted) else None
        return self.world.until(what, timeout_s, all_there)

    def events(self):
        return self.world.api("GET", "/v1/events?limit=1000")["items"]

    def events_of(self, planted):
        return [e["event"] for e in sorted(self.events(), key=lambda e: e["id"]) if e["entity_id"] == "%s/%s" % (self.provider, planted.ref)]

    def live(self):
        return {i["id"] for i in self.world.instances(live=True)}

    def things_left(self):
        """Returns the running or stored things that do not belong to the strangers."""
        words = [word for s in self.strangers for word in (*s.words, s.machine) if word]
        return [x for x in self.world.sim("GET", "/books")["left"] if not any(word in x for word in words)]

    def span(self, leak):
        """From when it was seen to when its end was asked for."""
        return e2e.micros(leak["end_asked_at"]) - e2e.micros(leak["first_seen_at"])

    # ---- the story -------------------------------------------------------------------------

    def test_leaks_are_ended_after_a_grace_and_strangers_never_touched(self):
        w = self.world
        self.provider = self.OPTIONS["providers"][0]
        self.install = w.api("GET", "/v1/version")["install"]
        job = w.submit(gpus=self.GPUS, steps=w.paced(6000), step_ms=20)
        node = w.node(w.await_steps(job, 5)["node"])
        self.assertEqual(node["pool"]["provider"], self.provider)
        self.read(node)
        whose = (self.no_tags, self.another_installations, self.one_character_more, self.under_another_key)
        self.strangers = [make(who) for make in (self.machine, self.plant_rest) for who in whose]
        for s in self.strangers:
            self.runs(s)
        before = [self.look(s) for s in self.strangers]
        rests, orphan = self.rests_of_ours(), self.machine(self.own_tags)
        self.runs(orphan)
        self.listed(node, orphan, rests)
        self.ends_after_a_grace(orphan, rests)
        self.await_over(node, orphan, rests)
        # The node beside them was ours all the while.
        w.hurry()
        j = w.await_end(job)
        self.assertEqual((j["state"], j["attempts"], j["lost_steps"]), ("SUCCEEDED", 1, 0), j["why"])
        w.until("all of ours is gone, as is what belonged to it", 60, lambda: not w.nodes() and not self.things_left() and not self.leaks())
        seen = w.counted(*self.LISTED)
        w.until("two more sweeps", 60, lambda: w.counted(*self.LISTED) >= seen + 2 * self.PER_SWEEP)
        self.untouched(before)
        for s in self.strangers:
            self.end(s)
        w.await_gone()
        w.until("nothing is left in the books", 60, lambda: w.sim("GET", "/books")["left"] == [])

    def listed(self, node, orphan, rests):
        pool, found = node["pool"], self.await_leaks("the leaks are listed", 60, (orphan, *rests))
        for p in (orphan, *rests):
            self.assertEqual([found[p.ref][k] for k in ("provider", "region", "kind")],
                             [self.provider, pool["region"], "instance" if p is orphan else "leftover"])
            # An order for machines says which; a disk or a group does not.
            self.assertEqual(found[p.ref]["per_hour_micros"] > 0, found[p.ref]["instance_type"] != "", found[p.ref])
        one = found[orphan.ref]
        self.assertEqual([one[k] for k in ("zone", "instance_type", "market")], [pool[k] for k in ("zone", "instance_type", "market")])
        self.assertGreater(one["per_hour_micros"], 100000)

    def ends_after_a_grace(self, orphan, rests):
        """Checks an end by the clouds' own books. Other things than machines may be a launch's first step: they are
        left alone for as long as a launch may take."""
        w = self.world
        end = w.sim_wait("shutting_down", 50, instance=orphan.machine)[0]["at_us"]
        self.assertGreater(end - w.instance(orphan.machine)["launched_us"], GRACE_S * 1000000, "no grace")
        for r in rests if self.REST_AFTER_S is None else ():
            self.assertEqual(self.leaks().get(r.ref, {}).get("state"), "found")
            w.ctl("leaks", "end", r.ref)

    def await_over(self, node, orphan, rests):
        gone = self.await_leaks("the leaks are over", 90, (orphan, *rests), "--state", "gone")
        one, pool = gone[orphan.ref], node["pool"]
        self.assertEqual([one[k] for k in ("provider", "region", "zone", "instance_type", "kind")],
                         [self.provider, *(pool[k] for k in ("region", "zone", "instance_type")), "instance"])
        self.assertGreaterEqual(self.span(one), GRACE_S * 1000000)
        self.assertGreater(one["per_hour_micros"], 100000)
        self.assertGreater(one["cost_micros"], 0)
        self.assertEqual(self.events_of(orphan), ["ORPHAN", "ORPHAN_ENDED", "ORPHAN_GONE"])
        for r in rests:
            one = gone[r.ref]
            self.assertEqual([one[k] for k in ("provider", "region", "kind")], [self.provider, pool["region"], "leftover"])
            self.assertGreaterEqual(self.span(one), (self.REST_AFTER_S or GRACE_S) * 1000000)
            self.assertEqual(self.events_of(r), ["LEFTOVER", "LEFTOVER_GONE"] if self.REST_AFTER_S else ["LEAK_END", "LEFTOVER", "LEFTOVER_GONE"])

    def untouched(self, before):
        self.assertEqual([self.look(s) for s in self.strangers], before)
        self.assertEqual(self.live(), {s.machine for s in self.strangers} - {None})
        self.assertEqual(self.things_left(), [])
        told = json.dumps([self.events(), self.leaks(), self.leaks("--state", "gone")])
        self.assertEqual([word for s in self.strangers for word in s.words if word in told], [])

    def rests_of_ours(self):
        return [self.plant_rest(self.own_tags)]

    def runs(self, planted):
        if planted.machine:
            self.world.sim_wait("running", 50, instance=planted.machine)


class Gcp(Leaks, e2e.Case):
    """The rest: a disk without a machine."""
    OPTIONS = {"providers": ("gcp",), "store": "gs", "settings": SETTINGS}
    GPUS, TAG, LISTED = "L4: 1", "spotbroker-install", ("compute", "disks.aggregatedList")

    def ask(self, method, path, body=None):
        c = self.world.clouds
        url = "%s/compute/v1/projects/%s/zones/%s/%s" % (c.urls["gcp"], c.creds["gcp"]["project"], self.zone, path)
        return must("%s %s" % (method, path), call(method, url, None if body is None else json.dumps(body).encode(), self.head), 200)

    def read(self, node):
        self.zone, self.head = node["pool"]["zone"], GcsStore.head(self.world.store)
        self.vm = self.ask("GET", "instances/" + node["ref"].split("/")[1])
        self.disk = self.ask("GET", "disks/" + self.vm["disks"][0]["source"].split("/")[-1])

    def labelled(self, whose, labels):
        name, token = self.fresh()
        return name.replace(".", "-") + "-0123456789", whose(dict(labels, **{"spotbroker-token": token}))

    def machine(self, whose):
        name, labels = self.labelled(whose, self.vm["labels"])
        nic = self.vm["networkInterfaces"][0]
        boot = {"sourceImage": self.disk["sourceImage"], "diskSizeGb": self.disk["sizeGb"], "diskType": self.disk["type"], "labels": labels}
        body = {"name": name, "labels": labels, "machineType": self.vm["machineType"],
                "scheduling": {k: v for k, v in self.vm["scheduling"].items() if k != "preemptible"},
                "disks": [{"boot": True, "autoDelete": True, "initializeParams": boot}], "serviceAccounts": self.vm["serviceAccounts"],
                "networkInterfaces": [{"network": nic["network"], "nicType": nic["nicType"],
                                       "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]}]}
        made = self.ask("POST", "instances", body)["targetId"]
        return Planted("%s/%s" % (self.zone, made), name, made, machine=made, path="instances/" + name)

    def plant_rest(self, whose):
        name, labels = self.labelled(whose, self.disk["labels"])
        made = self.ask("POST", "disks", {"name": name, "sizeGb": self.disk["sizeGb"], "type": self.disk["type"], "labels": labels})["targetId"]
        return Planted("%s/disks/%s" % (self.zone, made), name, made, path="disks/" + name)

    def look(self, planted):
        return self.ask("GET", planted.path)

    def end(self, planted):
        self.ask("DELETE", planted.path)


class Azure(Leaks, e2e.Case):
    """A machine with its group, card, disk and address. The rest: a group without a machine."""
    OPTIONS = {"providers": ("azure",), "store": "az", "settings": SETTINGS}
    GPUS, TAG, LISTED = "T4: 1", "spotbroker-install", ("arm", "LIST resourceGroups")
    PER_SWEEP = 2  # two regions
    GROUPS, MACHINES, NETWORK = "2021-04-01", "2024-11-01", "2023-11-01"

    def ask(self, method, path, version, body=None, more=""):
        got = call(method, "%s%s?api-version=%s%s" % (self.world.clouds.urls["azure"], path, version, more),
                   None if body is None else json.dumps(body).encode(), self.head)
        return must("%s %s" % (method, path), got, 200, 201, 202)

    def group_path(self, name):
        return "/subscriptions/%s/resourceGroups/%s" % (self.world.clouds.creds["azure"]["subscription_id"], name)

    def vm_path(self, name):
        return "%s/providers/Microsoft.Compute/virtualMachines/%s" % (self.group_path(name), name)

    def read(self, node):
        self.head = {"Authorization": "Bearer " + self.world.clouds.azure_token("https://management.azure.com"), "Content-Type": "application/json"}
        self.group = self.ask("GET", self.group_path(node["ref"]), self.GROUPS)
        self.vm = self.ask("GET", self.vm_path(node["ref"]), self.MACHINES)
        card = self.ask("GET", self.vm["properties"]["networkProfile"]["networkInterfaces"][0]["id"], self.NETWORK)
        self.ip = card["properties"]["ipConfigurations"][0]["properties"]
        self.address = self.ask("GET", self.ip["publicIPAddress"]["id"], self.NETWORK)

    def plant_rest(self, whose):
        launch, token = self.fresh()
        tags = whose(dict(self.group["tags"], **{"spotbroker-token": token, "spotbroker-name": launch, "spotbroker-created": str(int(time.time()))}))
        name = "spotbroker-" + launch.replace(".", "-")
        self.ask("PUT", self.group_path(name), self.GROUPS, {"location": self.group["location"], "tags": tags})
        return Planted(name, tags=tags)

    def machine(self, whose):
        planted = self.plant_rest(whose)
        name, p = planted.ref, copy.deepcopy(self.vm["properties"])
        disk = p["storageProfile"]["osDisk"]
        disk = dict({k: disk[k] for k in ("createOption", "deleteOption", "caching")}, name=name + "-os",
                    managedDisk={"storageAccountType": disk["managedDisk"]["storageAccountType"]})
        address = {"name": name + "-ip", "sku": {"name": self.address["sku"]["name"]},
                   "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": self.address["properties"]["publicIPAllocationMethod"]}}
        card = {"primary": True, "deleteOption": "Delete", "ipConfigurations": [
            {"name": "ip", "properties": {"primary": True, "subnet": self.ip["subnet"], "publicIPAddressConfiguration": address}}]}
        image = {k: p["storageProfile"]["imageReference"][k] for k in ("publisher", "offer", "sku", "version")}
        body = {"location": self.vm["location"], "zones": self.vm["zones"],
                "tags": {k: v for k, v in planted.tags.items() if k != "spotbroker-created"},
                "properties": dict({k: p[k] for k in ("hardwareProfile", "priority", "evictionPolicy", "billingProfile")},
                                   storageProfile={"imageReference": image, "osDisk": disk},
                                   osProfile=dict({k: p["osProfile"][k] for k in ("adminUsername", "linuxConfiguration")}, computerName=name[:63]),
                                   networkProfile={"networkApiVersion": "2022-11-01", "networkInterfaceConfigurations": [
                                       {"name": name + "-nic", "properties": card}]})}
        planted.machine = self.ask("PUT", self.vm_path(name), self.MACHINES, body)["properties"]["vmId"]
        planted.words.append(planted.machine)
        return planted

    def runs(self, planted):
        """Its machine runs, with a card, a disk and an address of its own in the group."""
        super().runs(planted)
        if planted.machine:
            kinds = sorted(r["type"].split("/")[1] for r in self.look(planted)[1]["value"])
            self.assertEqual(kinds, ["disks", "networkInterfaces", "publicIPAddresses", "virtualMachines"])

    def look(self, planted):
        return self.ask("GET", self.group_path(planted.ref), self.GROUPS), self.ask("GET", self.group_path(planted.ref) + "/resources", self.GROUPS)

    def end(self, planted):
        self.ask("DELETE", self.group_path(planted.ref), self.GROUPS)


class CoreWeave(Leaks, e2e.Case):
    """A Pod with its node. The rest: an order for nodes without a Pod."""
    OPTIONS = {"providers": ("coreweave", "aws"), "regions": "us-east-1", "settings": SETTINGS}
    GPUS, TAG, LISTED, REST_AFTER_S = "H100: 8", "spotbroker.io/install", ("k8s", "GET nodepools"), 30
    PER_SWEEP = 2  # two clusters
    POOL = "spotbroker.io/pool"
    POOLS = "/apis/compute.coreweave.com/v1alpha1/nodepools"

    def ask(self, method, path, body=None, kind="application/json"):
        head = {"Authorization": "Bearer " + self.cluster["token"], "Content-Type": kind}
        return must("%s %s" % (method, path), call(method, self.cluster["server"] + path, None if body is None else json.dumps(body).encode(), head), 200, 201)

    def read(self, node):
        self.cluster = self.world.clouds.clusters[node["ref"].split("/")[0]]
        self.pods = "/api/v1/namespaces/%s/pods" % self.cluster["namespace"]
        self.pod = self.ask("GET", "%s/%s" % (self.pods, node["ref"].split("/")[1]))
        self.pool = self.ask("GET", "%s/%s" % (self.POOLS, self.pod["metadata"]["labels"][self.POOL]))

    def order(self, name, whose, target=1):
        spec = dict(self.pool["spec"], targetNodes=target, nodeLabels={self.POOL: name})
        self.ask("POST", self.POOLS, {"apiVersion": self.pool["apiVersion"], "kind": "NodePool", "spec": spec,
                                      "metadata": {"name": name, "labels": whose(self.pool["metadata"]["labels"])}})
        return Planted("nodepool/%s/%s" % (self.cluster["name"], name), name, pool=name, pod=None)

    def pool_name(self, whose):
        """As the broker of that installation names its own; one without a tag looks like ours but for a character."""
        install = {self.own_tags: self.install, self.another_installations: "00000000"}.get(whose, self.install + "0")
        return "sb-%s-%s-%s" % (install, self.pool["spec"]["instanceType"], secrets.token_hex(4))

    def plant_rest(self, whose):
        return self.order(self.pool_name(whose), whose)

    def rests_of_ours(self):
        """One that lost its labels is ours by its name."""
        return [self.plant_rest(self.own_tags), self.order(self.pool_name(self.own_tags), self.no_tags)]

    def machine(self, whose):
        """Ours is of our node's NodePool, which then is ordered for both; a stranger's has a NodePool of its own."""
        name, token = self.fresh()
        mine = whose == self.own_tags
        pool = self.pool["metadata"]["name"] if mine else self.order(self.pool_name(whose), whose, 0).pool
        meta, spec = self.pod["metadata"], copy.deepcopy(self.pod["spec"])
        for server_made in ("nodeName", "serviceAccount", "priority", "preemptionPolicy"):
            spec.pop(server_made, None)
        spec["nodeSelector"] = {self.POOL: pool}
        spec["containers"][0]["command"] = ["tail", "-f", "/dev/null"]
        labels = whose(dict(meta["labels"], **{self.POOL: pool}))
        made = self.ask("POST", self.pods, {"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {
            "name": name, "labels": labels, "annotations": dict(meta["annotations"], **{"spotbroker.io/token": token})}})["metadata"]
        self.target(pool, 2 if mine else 1)
        return Planted("%s/%s/%s" % (self.cluster["name"], name, made["uid"]), name, made["uid"], *(() if mine else (pool,)), pool=pool, pod=name)

    def target(self, pool, nodes):
        self.ask("PATCH", "%s/%s" % (self.POOLS, pool), {"spec": {"targetNodes": nodes}}, "application/merge-patch+json")

    def runs(self, planted):
        """The Pod on its node; the node of an order without one."""
        def there():
            pod = planted.pod and self.ask("GET", "%s/%s" % (self.pods, planted.pod))
            if pod and pod["status"]["phase"] != "Running":
                return None
            return next((i for i in self.world.instances(live=True) if i["state"] == "running" and (
                i["hostname"] == pod["spec"]["nodeName"] if pod else i["name"] == planted.pool)), None)
        node = self.world.until(planted.ref + " has its node", 60, there)
        planted.machine = node["id"]
        planted.words.append(node["hostname"])

    def look(self, planted):
        pool = self.ask("GET", "%s/%s" % (self.POOLS, planted.pool))
        pod = self.ask("GET", "%s/%s" % (self.pods, planted.pod)) if planted.pod else {"metadata": {}, "spec": {}, "status": {}}
        return [o[part].get(key) for o in (pool, pod) for part, key in (("metadata", "uid"), ("metadata", "labels"), ("metadata", "annotations"))] + [
            pool["spec"], pod["spec"], pod["metadata"].get("deletionTimestamp"), pod["status"].get("phase")]

    def end(self, planted):
        if planted.pod:
            self.ask("DELETE", "%s/%s" % (self.pods, planted.pod))
        self.target(planted.pool, 0)


if __name__ == "__main__":
    e2e.main()
