"""A real etcd and a real kube-apiserver on loopback, with their own certificates, in a folder that goes away."""
import base64
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "story"))
from world import free_port  # noqa: E402

START_S = 60


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Failure(Exception):
    def __init__(self, status, body):
        super().__init__("HTTP %d %s" % (status, body))
        self.status = status


class Cluster:
    def __init__(self, bin_dir):
        self.dir = tempfile.mkdtemp(prefix="kube-")
        self.bin = bin_dir
        self.processes = []
        self.port = free_port()
        self.certificates()
        self.start()

    def path(self, name):
        return os.path.join(self.dir, name)

    # ---- certificates

    def certificate(self, name, subject, extra=""):
        key, csr, crt, ext = (self.path(name + e) for e in (".key", ".csr", ".crt", ".ext"))
        with open(ext, "w") as f:
            f.write(extra or "extendedKeyUsage=clientAuth\n")
        openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", csr, "-subj", subject)
        openssl("x509", "-req", "-in", csr, "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"), "-CAcreateserial",
                "-days", "2", "-extfile", ext, "-out", crt)

    def certificates(self):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.path("ca.key"), "-out", self.path("ca.crt"),
                "-days", "2", "-subj", "/CN=test-ca")
        self.certificate("server", "/CN=kube-apiserver",
                         "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
        self.certificate("admin", "/O=system:masters/CN=admin")
        self.certificate("bootstrap", "/CN=spotbroker-bootstrap")
        openssl("genrsa", "-out", self.path("sa.key"), "2048")
        self.tls = ssl.create_default_context(cafile=self.path("ca.crt"))
        self.tls.load_cert_chain(self.path("admin.crt"), self.path("admin.key"))

    # ---- processes

    def spawn(self, name, *args):
        log = open(self.path(name + ".log"), "wb")
        self.processes.append(subprocess.Popen([os.path.join(self.bin, name), *args], stdout=log, stderr=log,
                                               cwd=self.dir))

    def start(self):
        client, peer = free_port(), free_port()
        self.etcd = client
        url = "http://127.0.0.1:%d" % client
        self.spawn("etcd", "--data-dir", self.path("etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
                   "--listen-peer-urls", "http://127.0.0.1:%d" % peer, "--initial-advertise-peer-urls",
                   "http://127.0.0.1:%d" % peer, "--initial-cluster", "default=http://127.0.0.1:%d" % peer)
        self.spawn("kube-apiserver", "--etcd-servers", url, "--bind-address=127.0.0.1", "--secure-port=%d" % self.port,
                   "--tls-cert-file", self.path("server.crt"), "--tls-private-key-file", self.path("server.key"),
                   "--client-ca-file", self.path("ca.crt"), "--service-account-key-file", self.path("sa.key"),
                   "--service-account-signing-key-file", self.path("sa.key"),
                   "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
                   "--service-cluster-ip-range=10.0.0.0/24", "--cert-dir", self.path("certs"),
                   # Pods are watched in etcd itself: compacted versions are gone at once.
                   "--watch-cache-sizes=pods#0", "--v=1")
        until = time.monotonic() + START_S
        while True:
            try:
                if self.raw("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            if time.monotonic() > until or any(p.poll() is not None for p in self.processes):
                with open(self.path("kube-apiserver.log"), errors="replace") as f:
                    raise RuntimeError("the API server does not start:\n" + f.read()[-3000:])
            time.sleep(0.2)  # readiness has no event to wait for

    def stop(self):
        for p in reversed(self.processes):
            p.kill()
            p.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def forget(self):
        """Compacts etcd: history before now is gone."""
        def ask(path, body):
            c = http.client.HTTPConnection("127.0.0.1", self.etcd, timeout=20)
            c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            r = c.getresponse()
            data = json.loads(r.read())
            c.close()
            if r.status != 200:
                raise Failure(r.status, data)
            return data
        revision = ask("/v3/kv/range", {"key": base64.b64encode(b"x").decode()})["header"]["revision"]
        ask("/v3/kv/compaction", {"revision": revision, "physical": True})

    # ---- requests as the administrator

    def raw(self, method, path, body=None, kind="application/json"):
        c = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=20)
        c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, data

    def request(self, method, path, body=None, kind="application/json"):
        status, data = self.raw(method, path, body, kind)
        if status >= 300:
            raise Failure(status, data.decode(errors="replace"))
        return json.loads(data)

    def patch(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def apply(self, doc):
        group, kind = doc["apiVersion"], doc["kind"].lower() + "s"
        kind = {"resourcequotas": "resourcequotas"}.get(kind, kind)
        base = "/api/v1" if group == "v1" else "/apis/" + group
        space = doc["metadata"].get("namespace")
        path = "%s%s/%s" % (base, "/namespaces/" + space if space else "", kind)
        return self.request("POST", path, doc)

    def kubeconfig(self, name, user):
        def b64(path):
            with open(self.path(path), "rb") as f:
                return base64.b64encode(f.read()).decode()
        path = self.path(name)
        with open(path, "w") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                       "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                       "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:%d" % self.port,
                                                              "certificate-authority-data": b64("ca.crt")}}],
                       "users": [{"name": "u", "user": {"client-certificate-data": b64(user + ".crt"),
                                                        "client-key": self.path(user + ".key")}}]}, f)
        return path
