"""Metadata services of Google Cloud and Azure, and their object stores, for the agent's tests.

Written from the vendors' pages (querying-metadata "waiting for updates"; scheduled-events; resumable uploads; Put Block,
Get Block List, Put Block List), not from the agent.
"""
import base64
import hashlib
import json
import os
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

from fake import Handler, Server


class Gcp(Server):
    """The metadata server: values with an etag each, GETs that wait for a change."""

    class Handler(Handler):
        def answer(self, status, text="", headers=()):
            flavor = [("Metadata-Flavor", "Google")] if self.owner.flavor else []
            self.reply(status, text.encode(), "application/text", [*flavor, *headers])

        def do_GET(self):
            me = self.owner
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            key = url.path[len("/computeMetadata/v1/"):]
            with me.lock:
                me.asked.append((key, query))
                me.lock.notify_all()
                if self.headers.get("Metadata-Flavor") != "Google":
                    return self.answer(403)
                if me.down:
                    return self.drop()
                if me.status:
                    return self.answer(me.status)
                if key not in me.values:
                    return self.answer(404)
                born = me.generation
                end = time.monotonic() + float(query.get("timeout_sec", 60))
                if query.get("wait_for_change") == "true":
                    while me.etag(key) == query.get("last_etag") and born == me.generation:
                        left = end - time.monotonic()
                        if left <= 0:
                            break
                        me.lock.wait(left)
                if born != me.generation or me.down:
                    return self.drop()
                text, etag = me.values[key], me.etag(key)
                if text == "TRUE":
                    me.first_read.setdefault(key, time.time())
            self.answer(200, text, [("ETag", etag)])

    def __init__(self):
        self.values = {"instance/preempted": "FALSE", "instance/maintenance-event": "NONE",
                       "instance/zone": "projects/123/zones/us-central1-a", "instance/id": "4520031799277581759",
                       "instance/service-accounts/default/identity": "header.payload.signature"}
        self.versions, self.generation = {}, 1
        self.asked, self.first_read = [], {}
        self.flavor, self.status, self.down = True, 0, False
        super().__init__(Gcp.Handler)

    def etag(self, key):
        return hashlib.sha256(f"{self.generation} {key} {self.versions.get(key, 0)}".encode()).hexdigest()[:16]

    def put(self, key, value):
        with self.lock:
            self.values[key] = value
            self.versions[key] = self.versions.get(key, 0) + 1
            self.lock.notify_all()
            return time.time()

    def restart(self, down=False):
        """Connections that wait are cut, etags are new."""
        with self.lock:
            self.generation += 1
            self.down = down
            self.lock.notify_all()

    def hanging(self):
        """Keys for which a GET waited for a change."""
        return {key for key, query in self.asked if query.get("wait_for_change") == "true"}


class Azure(Server):
    """Scheduled events (the first call waits until `awake`), instance and attested data."""

    class Handler(Handler):
        def check(self):
            """True: the request is as it must be and is to be answered."""
            me = self.owner
            url = urllib.parse.urlsplit(self.path)
            self.where, self.query = url.path, dict(urllib.parse.parse_qsl(url.query))
            if self.headers.get("Metadata") != "true" or "api-version" not in self.query:
                self.reply(400, {"error": "Bad request"})
                return False
            me.asked.append((time.monotonic(), self.where, self.query))
            me.lock.notify_all()
            return True

        def do_GET(self):
            me = self.owner
            with me.lock:
                if not self.check():
                    return None
                if self.where == "/metadata/instance/compute/name":
                    return self.reply(200, me.name.encode(), "text/plain")
                if self.where == "/metadata/attested/document":
                    return self.reply(200, {"encoding": "pkcs7", "signature": "TUlJ" + self.query["nonce"]})
                if self.where != "/metadata/scheduledevents":
                    return self.reply(404)
                while not me.awake:
                    me.lock.wait(1)
                if me.faults:
                    status, headers = me.faults.pop(0)
                    return self.reply(status, b"", headers=headers)
                for e in me.document["Events"]:
                    me.first_read.setdefault(e["EventId"], time.time())
                return self.reply(200, me.document)

        def do_POST(self):
            me = self.owner
            body = json.loads(self.body())
            with me.lock:
                if self.check():
                    me.acks.append([r["EventId"] for r in body["StartRequests"]])
                    me.on_ack()
                    me.lock.notify_all()
                    self.reply(me.ack_status.pop(0) if me.ack_status else 200)

    def __init__(self):
        self.name, self.awake = "sb-Lease-77", True
        self.document = {"DocumentIncarnation": 1, "Events": []}
        self.faults, self.acks, self.asked, self.first_read, self.ack_status = [], [], [], {}, []
        self.on_ack = lambda: None
        super().__init__(Azure.Handler)

    def event(self, kind="Preempt", resources=None, in_s=30, status="Scheduled", name=None):
        name = name or os.urandom(8).hex().upper()
        at = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + in_s))
        with self.lock:
            events = [e for e in self.document["Events"] if e["EventId"] != name]
            events.append({"EventId": name, "EventType": kind, "ResourceType": "VirtualMachine",
                           "Resources": resources or [self.name], "EventStatus": status,
                           "NotBefore": at if status == "Scheduled" else "", "Description": "", "EventSource": "Platform",
                           "DurationInSeconds": -1})
            self.document = {"DocumentIncarnation": self.document["DocumentIncarnation"] + 1, "Events": events}
        return name


def md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


class Store(Server):
    """Two object stores: resumable sessions under /gcs/, block blobs under /azure/. Whole objects go to daemon.objects."""

    class Handler(Handler):
        def session(self):
            return self.owner.sessions.get(urllib.parse.urlsplit(self.path).path)

        def fault(self, when):
            """Returns the fault planned for this request: a status, or "drop"."""
            me = self.owner
            for i, f in enumerate(me.faults):
                if f["when"] == when:
                    f["after"] -= 1
                    if f["after"] < 0:
                        return me.faults.pop(i)
            return None

        def do_POST(self):
            me = self.owner
            self.body()
            url = urllib.parse.urlsplit(self.path)
            with me.lock:
                if self.headers.get("x-goog-resumable") != "start" or not url.query:
                    return self.reply(403)
                path = f"/session/{os.urandom(8).hex()}"
                me.sessions[path] = {"key": url.path[len("/gcs/"):], "data": bytearray()}
                me.created += 1
            if me.hold:
                me.hold.wait(60)
            with me.lock:
                self.reply(201, b"", headers=[("Location", f"{me.url}{path}?upload_id=secret")])

        def do_PUT(self):
            if self.path.startswith("/session/"):
                return self.put_piece()
            return self.put_block()

        def do_DELETE(self):
            """A session is cancelled."""
            with self.owner.lock:
                gone = self.owner.sessions.pop(urllib.parse.urlsplit(self.path).path, None)
            self.reply(404 if gone is None else 499)

        def put_piece(self):
            me = self.owner
            length, told = int(self.headers.get("Content-Length") or 0), self.headers["Content-Range"]
            with me.lock:
                s, fault = self.session(), self.fault("ask" if "*/" in told else "piece")
            span, total = told[len("bytes "):].split("/")
            keep = fault["keep"] if fault else length
            data = self.rfile.read(min(length, keep))
            with me.lock:
                me.sent += len(data)
                if s is None or (fault and fault["what"] == 410):
                    me.sessions.pop(urllib.parse.urlsplit(self.path).path, None)
                    self.rfile.read(length - len(data))
                    return self.reply(410)
                if span != "*":
                    first, last = (int(x) for x in span.split("-"))
                    if first != len(s["data"]) or last - first + 1 != length:
                        me.daemon.wrong.append(f"piece {told} of {length} bytes, {len(s['data'])} are stored")
                    if last + 1 < int(total) and length % (256 << 10):
                        me.daemon.wrong.append(f"piece of {length} bytes")
                    s["data"] += self.flipped(data, fault)
                    if len(s["data"]) < int(total):
                        del s["data"][len(s["data"]) // (256 << 10) * (256 << 10):]
                if fault and fault["what"] == "drop":
                    return self.drop()
                if fault and fault["what"] != "flip":
                    self.rfile.read(length - len(data))
                    return self.reply(fault["what"])
                return self.tell(s, int(total))

        def tell(self, s, total):
            have = len(s["data"])
            if have < total:
                return self.reply(308, b"", headers=[("Range", f"bytes=0-{have - 1}")] if have else [])
            self.owner.keep(s["key"], bytes(s["data"]))
            s["done"] = True
            return self.reply(200, {"kind": "storage#object"}, headers=[("x-goog-hash", "crc32c=AAAAAA=="), ("x-goog-hash", "md5=" + md5(s["data"]))])

        def flipped(self, data, fault):
            """One byte becomes another one on its way; a store that knows the right sum refuses it."""
            if not fault or fault["what"] != "flip":
                return data
            self.owner.flips += 1
            return data[:-1] + bytes([data[-1] ^ 1])

        def put_block(self):
            me = self.owner
            url = urllib.parse.urlsplit(self.path)
            query, key = dict(urllib.parse.parse_qsl(url.query)), url.path[len("/azure/"):]
            length = int(self.headers.get("Content-Length") or 0)
            with me.lock:
                fault = self.fault(query["comp"])
            data = self.rfile.read(min(length, fault["keep"]) if fault else length)
            with me.lock:
                me.sent += len(data) if query["comp"] == "block" else 0
                if query.get("sig") != "secret":
                    return self.reply(403)
                if self.headers.get("x-ms-blob-type") or self.headers.get("x-ms-version") != "2023-11-03":
                    me.daemon.wrong.append(f"headers of {query['comp']}: {dict(self.headers)}")
                blocks = me.blocks.setdefault(key, {})
                if fault and fault["what"] == "drop":
                    return self.drop()
                if query["comp"] == "block":
                    data = self.flipped(data, fault)
                    if len(data) == length and self.headers.get("Content-MD5") != md5(data):
                        return self.reply(400)
                    if {len(k) for k in blocks} - {len(query["blockid"])}:
                        return self.reply(400)
                    if not fault or fault["what"] in ("lost", "flip"):
                        blocks[query["blockid"]] = data
                    if fault and fault["what"] == "lost":
                        return self.drop()
                else:
                    ids = [e.text for e in ElementTree.fromstring(data).iter("Latest")]
                    if set(ids) - set(blocks):
                        return self.reply(400)
                    if not fault:
                        me.keep(key, b"".join(blocks[i] for i in ids))
                        me.blocks[key] = {}
                self.reply(fault["what"] if fault and fault["what"] != "flip" else 201)

        def do_GET(self):
            me = self.owner
            url = urllib.parse.urlsplit(self.path)
            with me.lock:
                me.lists += 1
                blocks = me.blocks.get(url.path[len("/azure/"):])
                if me.list_status:
                    return self.reply(me.list_status)
                if not blocks:
                    return self.reply(404)
                names = "".join(f"<Block><Name>{k}</Name><Size>{len(v)}</Size></Block>" for k, v in blocks.items())
                self.reply(200, f"<?xml version=\"1.0\"?><BlockList><UncommittedBlocks>{names}</UncommittedBlocks>"
                           "</BlockList>".encode(), "application/xml")

    def __init__(self, daemon, how):
        self.daemon, self.how = daemon, how
        self.sessions, self.blocks, self.faults = {}, {}, []
        self.sent, self.created, self.lists, self.list_status, self.flips = 0, 0, 0, 0, 0
        self.hold = None  # an event: the address of a session is told when it is set
        super().__init__(Store.Handler)

    def keep(self, key, data):
        if hashlib.sha256(data).hexdigest() != key and self.flips == 0:
            self.daemon.wrong.append(f"object {key} got other bytes")
        with self.daemon.lock:
            self.daemon.objects[key] = data
            self.daemon.events.append(("put", key))

    def open_sessions(self):
        with self.lock:
            return [s for s in self.sessions.values() if not s.get("done")]

    def plan(self, when, what, after=0, keep=1 << 40):
        """The request of that kind after `after` others: reads `keep` bytes of it, then answers a status or drops."""
        with self.lock:
            self.faults.append({"when": when, "what": what, "after": after, "keep": keep})

    def upload(self, chunk):
        if self.how == "resumable":
            return {"url": f"{self.url}/gcs/{chunk['sha256']}?X-Goog-Signature=secret", "how": "resumable",
                    "headers": {"x-goog-resumable": "start"}}
        return {"url": f"{self.url}/azure/{chunk['sha256']}?sv=2023-11-03&sig=secret", "how": "blocks",
                "headers": {"x-ms-blob-type": "BlockBlob", "x-ms-version": "2023-11-03"}}
