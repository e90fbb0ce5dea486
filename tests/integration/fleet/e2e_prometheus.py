#!/usr/bin/env python3
"""A fleet follows a query of a real Prometheus, which scrapes a queue of this test. The failure of a dead server is shown."""
import http.server
import os
import shutil
import socket
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

FLEET = """name: served
nodes: {min: 0, max: 3}
idle_timeout: 1s
scale: {wait: 1s, cooldown: 2s}
demand: {prometheus: {url: "http://127.0.0.1:%d", query: "sum(waiting_requests)", target: 8, every: 1s}}
pools_min: 1
resources: {accelerators: {A10G: 1, L4: 1, T4: 1, A10: 1}, use_spot: true}
"""
CONFIG = """global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- {job_name: queue, static_configs: [{targets: ["127.0.0.1:%d"]}]}
"""


class Queue(http.server.BaseHTTPRequestHandler):
    waiting = 0

    def do_GET(self):
        body = b"# TYPE waiting_requests gauge\nwaiting_requests %d\n" % Queue.waiting
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


PORT = free_port()


@unittest.skipUnless(shutil.which("prometheus"), "no prometheus here: deploy/packages test")
class Metric(e2e.Case):
    OPTIONS = {"emulator": ("--boot-ms", "300"), "settings": {"engine": {"demand_hosts": "127.0.0.1:%d" % PORT}}}

    def raise_prometheus(self):
        w = self.world
        queue = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Queue)
        threading.Thread(target=queue.serve_forever, daemon=True).start()
        self.addCleanup(queue.shutdown)
        config = w.private_file("prometheus.yml", CONFIG % queue.server_address[1])
        data = os.path.join(os.path.dirname(config), "prometheus")
        server = subprocess.Popen(["prometheus", "--config.file=" + config, "--storage.tsdb.path=" + data,
                                   "--web.listen-address=127.0.0.1:%d" % PORT],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return server

    def fleet(self):
        return self.world.api("GET", "/v1/fleets/served")

    def wanted(self, n, timeout_s=90):
        return self.world.until("%d nodes are wanted" % n, timeout_s, lambda: (lambda f: f if f["size"]["wanted"] == n else None)(self.fleet()))

    def test_the_size_follows_the_query(self):
        w = self.world
        server = self.raise_prometheus()
        w.ctl("fleet", "create", "-", text=FLEET % PORT)
        w.until("the query is answered", 60, lambda: self.fleet()["demand"]["metric"]["value"] == 0)
        Queue.waiting = 9
        grown = self.wanted(2)
        self.assertEqual(grown["size"]["rule"], "demand")
        self.assertIn("query 9 / target 8 asks for 2", grown["size"]["why"])
        w.until("two nodes are ready", 60, lambda: self.fleet()["nodes_ready"] == 2)
        self.assertIn("sum(waiting_requests) = 9, target 8", w.ctl("fleet", "show", "served"))
        Queue.waiting = 0
        self.wanted(0)
        Queue.waiting = 24
        self.wanted(3)
        server.kill()
        server.wait()
        held = w.until("the failure is said", 30, lambda: (lambda f: f if f["demand"]["metric"]["error"] else None)(self.fleet()))
        self.assertEqual(held["size"]["wanted"], 3)
        given = self.wanted(0)
        self.assertIn("has no answer for", given["size"]["why"] + w.sql(
            "SELECT string_agg(why, ';') FROM event WHERE entity = 'fleet' AND event = 'SIZE'"))
        w.await_gone(60)

    def test_a_server_that_is_not_permitted_is_not_asked(self):
        w = self.world
        w.ctl("fleet", "create", "-", text=(FLEET % (PORT + 1)).replace("served", "elsewhere"))
        w.until("it is refused", 30, lambda: w.api("GET", "/v1/fleets/elsewhere")["demand"]["metric"]["error"]
                == "its host is not in [engine] demand_hosts")
        w.ctl("fleet", "rm", "elsewhere")


if __name__ == "__main__":
    e2e.main()
