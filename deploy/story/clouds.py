"""The broker's configuration for the five emulated clouds and a plain Kubernetes cluster: [provider] sections and files
with keys. Also the objects that an operator makes by hand before (a network at Azure, an SSH key at Lambda, buckets)."""
import json
import os
import urllib.parse

import s3
from world import Failure, exchange, http

ALL = ("aws", "gcp", "azure", "coreweave", "lambda")
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemoDemoDemo spotbroker"
S3_REGION = "us-east-1"
# Variables with these prefixes are not passed on: a user's own accounts stay out of it.
PREFIXES = ("AWS_", "LAMBDA_", "GOOGLE_", "GCE_", "AZURE_", "COREWEAVE_", "KUBE", "DATABASE_")


def call(method, url, body=None, headers=None):
    """(status, JSON or bytes)"""
    status, _, text = exchange(method, url, body, headers, 30)
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


def must(what, got, *codes):
    if got[0] not in codes:
        raise Failure("%s: %s %s" % (what, got[0], str(got[1])[:300]))
    return got[1]


class Clouds:
    """emulator: running; directory: where files with keys go, readable by the daemon only."""

    def __init__(self, emulator, directory, regions=None):
        self.sim, self.dir = emulator, directory
        self.urls, self.creds, self.files = (emulator.info[k] for k in ("urls", "credentials", "files"))
        self.regions = dict({"aws": "us-east-1,us-west-2", "gcp": "us-central1,us-east4", "azure": "eastus2,westus3"}, **(regions or {}))
        self.keys = (self.creds["aws"]["access_key_id"], self.creds["aws"]["secret_access_key"])
        self.clusters = {c["name"]: c for c in self.urls["kubernetes"]}

    def private(self, name, text):
        path = os.path.join(self.dir, name)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(text)
        return path

    def secrets(self):
        """The secrets that no log and no node may hold."""
        with open(self.creds["gcp"]["key_file"], encoding="utf-8") as f:
            key = json.load(f)["private_key"].splitlines()[1]
        return [self.keys[1], self.creds["lambda"]["api_key"], self.creds["azure"]["client_secret"], self.creds["azure"]["storage_key"],
                self.creds["coreweave"]["api_token"], key, *(c["token"] for c in self.clusters.values())]

    # ---- configuration -------------------------------------------------------------------

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
        text = "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n" % self.keys
        env.update(AWS_SHARED_CREDENTIALS_FILE=self.private("aws-credentials", text), AWS_EC2_METADATA_DISABLED="true",
                   HOME=self.dir)
        return env

    def sections(self, names):
        """{"provider aws": {key: value}}"""
        return {"provider " + n: dict({"kind": n}, **getattr(self, "at_" + n)()) for n in names}

    def at_aws(self):
        return {"endpoint": self.urls["aws"], "advisor_url": self.urls["advisor"], "regions": self.regions["aws"],
                "identity_certs": self.files["aws_identity_certs"]}

    def at_gcp(self):
        return {"endpoint": self.urls["gcp"], "project": self.creds["gcp"]["project"], "credentials": self.creds["gcp"]["key_file"],
                "regions": self.regions["gcp"]}

    def at_azure(self):
        a = self.creds["azure"]
        s = {"endpoint": self.urls["azure"], "authority": self.urls["azure"], "prices_endpoint": self.urls["azure"],
             "blob_endpoint": self.urls["azure_blob"], "subscription": a["subscription_id"], "tenant": a["tenant_id"],
             "client_id": a["client_id"], "client_secret_file": self.private("azure.secret", a["client_secret"] + "\n"),
             "storage_account": a["storage_account"], "attested_ca_file": self.urls["azure_ca"],
             "regions": self.regions["azure"], "ssh_public_key": SSH_KEY}
        for region in self.regions["azure"].split(","):
            s["subnet." + region] = "/subscriptions/%s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/%s/subnets/nodes" % (
                a["subscription_id"], region)
        return s

    def at_coreweave(self):
        s = {"api_endpoint": self.urls["coreweave"], "clusters": "gpu-east,gpu-west", "image": "registry.example/cuda:12",
             "api_token_file": self.private("coreweave.token", self.creds["coreweave"]["api_token"] + "\n")}
        for name in ("gpu-east", "gpu-west"):
            s["kubeconfig." + name] = self.clusters[name]["kubeconfig"]
        return dict(s, **self.accounts("gpu-east"))

    def at_kubernetes(self):
        prices = {"price.%s.on_demand" % t: "2.50" for t in ("dgx-h100",)}
        return dict({"clusters": "plain", "kubeconfig": self.clusters["plain"]["kubeconfig"], "image": "registry.example/cuda:12"},
                    **self.accounts("plain"), **prices)

    def accounts(self, cluster):
        return {k: self.clusters[cluster][k] for k in ("namespace", "service_account", "node_service_account")}

    def at_lambda(self):
        return {"endpoint": self.sim.url, "api_key_file": self.private("lambda.key", self.creds["lambda"]["api_key"] + "\n"),
                "ssh_key_name": "spotbroker"}

    # ---- objects that an operator makes by hand ------------------------------------------

    def prepare(self, names):
        if "lambda" in names:
            must("SSH key", http("POST", self.sim.url + "/api/v1/ssh-keys", {"name": "spotbroker", "public_key": SSH_KEY},
                                 self.creds["lambda"]["api_key"]), 200)
        if "azure" in names:
            self.networks()

    def azure_token(self, scope):
        a = self.creds["azure"]
        form = urllib.parse.urlencode({"client_id": a["client_id"], "client_secret": a["client_secret"], "scope": scope + "/.default",
                                       "grant_type": "client_credentials"}).encode()
        return must("token", call("POST", "%s/%s/oauth2/v2.0/token" % (self.urls["azure"], a["tenant_id"]), form), 200)["access_token"]

    def networks(self):
        head = {"Authorization": "Bearer " + self.azure_token("https://management.azure.com"), "Content-Type": "application/json"}
        group = "%s/subscriptions/%s/resourceGroups/net" % (self.urls["azure"], self.creds["azure"]["subscription_id"])
        must("resource group", call("PUT", group + "?api-version=2021-04-01", b'{"location": "eastus2"}', head), 200, 201)
        for region in self.regions["azure"].split(","):
            body = {"location": region, "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
                                                       "subnets": [{"name": "nodes", "properties": {"addressPrefix": "10.0.1.0/24"}}]}}
            must("network", call("PUT", "%s/providers/Microsoft.Network/virtualNetworks/%s?api-version=2023-11-01" % (group, region),
                                 json.dumps(body).encode(), head), 200, 201)

    # ---- machines ------------------------------------------------------------------------

    def machine(self, node):
        """The emulator's instance of a node of ours: clouds call one machine by different names."""
        pod = self.pod(node)
        names = {node["ref"], node["ref"].split("/")[-1], node["name"], pod["spec"].get("nodeName") if pod else None} - {None, ""}
        return next((i for i in self.sim.ask("GET", "/state")["instances"]
                     if names & {i["id"], i.get("name"), i.get("token"), i.get("hostname")}), None)

    def pod(self, node):
        """The Pod of a node whose reference ends in its uid; None at other clouds."""
        for objects in self.sim.ask("GET", "/coreweave/objects").values():
            for o in objects:
                if node["ref"] and o["metadata"].get("uid") == node["ref"].split("/")[-1]:
                    return o
        return None

    def home(self, node):
        """The folder of a node's programs on this machine."""
        home = os.path.join(self.sim.dir, "instances", (node["ref"] or "-").split("/")[-1])
        if os.path.isdir(home):
            return home
        machine = self.machine(node)
        return os.path.join(self.sim.dir, "instances", machine["id"] if machine else "-")

    def reclaim(self, node, notice_s):
        self.sim.ask("POST", "/reclaim", {"instance": self.machine(node)["id"], "notice_s": notice_s})

    def steps(self, home, job):
        """The steps that the job wrote on its node, before the agent reports them to the broker. -1: nothing."""
        pod = os.path.join(home, "volumes/work")
        root = os.path.join(pod if os.path.isdir(pod) else os.path.join(home, "var/lib/spot-agent"), "jobs")
        best = -1
        for name in os.listdir(root) if os.path.isdir(root) else ():
            if name.split("-")[0] != job:
                continue
            try:
                with open(os.path.join(root, name, "progress", "steps"), encoding="ascii") as f:
                    best = max(best, int(f.read().split()[0]))
            except (OSError, IndexError, ValueError):
                pass
        return best

    # ---- stores --------------------------------------------------------------------------

    def store(self, scheme, bucket):
        return {"s3": S3Store, "gs": GcsStore, "az": BlobStore}[scheme](self, bucket)


class S3Store:
    """One bucket. settings() goes into [checkpoint]."""

    def __init__(self, clouds, bucket):
        self.clouds, self.bucket = clouds, bucket
        self.make()

    def make(self):
        must("bucket", self.ask("PUT", "/" + self.bucket), 200, 409)

    def ask(self, method, path, body=b""):
        return s3.request(self.clouds.sim.url, S3_REGION, *self.clouds.keys, method, path, body)

    def uri(self, key):
        return "s3://%s/%s" % (self.bucket, key)

    def settings(self):
        return {"store": self.uri("checkpoints"), "provider": "aws", "region": S3_REGION, "endpoint": self.clouds.sim.url}

    def put(self, key, body):
        must("PUT " + key, self.ask("PUT", "/%s/%s" % (self.bucket, key), body), 200)

    def get(self, key):
        return self.ask("GET", "/%s/%s" % (self.bucket, key))


class GcsStore(S3Store):
    def head(self):
        token = self.clouds.sim.ask("POST", "/gcp/credentials", {"action": "token"})["access_token"]
        return {"Authorization": "Bearer " + token, "Content-Type": "application/json"}

    def make(self):
        must("bucket", call("POST", "%s/storage/v1/b?project=%s" % (self.clouds.urls["gcp"], self.clouds.creds["gcp"]["project"]),
                            json.dumps({"name": self.bucket}).encode(), self.head()), 200, 409)

    def uri(self, key):
        return "gs://%s/%s" % (self.bucket, key)

    def settings(self):
        return {"store": self.uri("checkpoints"), "provider": "gcp", "endpoint": self.clouds.urls["gcp"]}

    def put(self, key, body):
        must("PUT " + key, call("POST", "%s/upload/storage/v1/b/%s/o?uploadType=media&name=%s" % (
            self.clouds.urls["gcp"], self.bucket, urllib.parse.quote(key, "")), body, dict(self.head(), **{"Content-Type": "application/octet-stream"})), 200)

    def get(self, key):
        name = urllib.parse.quote(key, "")
        return fetch("%s/storage/v1/b/%s/o/%s?alt=media" % (self.clouds.urls["gcp"], self.bucket, name), self.head())


class BlobStore(S3Store):
    def head(self):
        return {"Authorization": "Bearer " + self.clouds.azure_token("https://storage.azure.com"), "x-ms-version": "2023-11-03"}

    def make(self):
        must("container", call("PUT", "%s/%s?restype=container" % (self.clouds.urls["azure_blob"], self.bucket), b"", self.head()), 201, 409)

    def uri(self, key):
        return "az://%s/%s" % (self.bucket, key)

    def settings(self):
        return {"store": self.uri("checkpoints"), "provider": "azure"}

    def put(self, key, body):
        must("PUT " + key, call("PUT", "%s/%s/%s" % (self.clouds.urls["azure_blob"], self.bucket, key), body,
                                dict(self.head(), **{"x-ms-blob-type": "BlockBlob"})), 201)

    def get(self, key):
        return fetch("%s/%s/%s" % (self.clouds.urls["azure_blob"], self.bucket, key), self.head())


def fetch(url, headers):
    """(status, bytes)"""
    return exchange("GET", url, headers=headers, timeout=30)[::2]
