#!/usr/bin/env python3
"""Fleets that follow demand: the queue, any fleet of the team, PUT demand, idle to zero, hours close to now, expiry."""
import datetime
import json
import os
import sys
import zoneinfo

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import e2e  # noqa: E402

ELASTIC = """name: elastic
nodes: {min: 0, max: 3}
idle_timeout: 3s
scale: {wait: 1s, cooldown: 2s}
demand: {per: 2}
team: %s
pools_min: 1
resources: {accelerators: {A10G: 1, L4: 1, T4: 1, A10: 1}, use_spot: true}
"""
HOURS = """name: hours
nodes: {min: 1, max: 2}
schedule: {up: "%s", down: "%s", tz: America/New_York}
idle_timeout: 1h
pools_min: 1
resources: {accelerators: {A10G: 1, L4: 1, T4: 1, A10: 1}, use_spot: true}
"""
ENDS = """name: ends
nodes: 1
expires: 15s
pools_min: 1
resources: {accelerators: {A10G: 1, L4: 1, T4: 1, A10: 1}, use_spot: true}
"""
LIVE = ("WANTED", "LAUNCHING", "UNKNOWN", "BOOTING", "READY")


class Elastic(e2e.Case):
    OPTIONS = {"emulator": ("--boot-ms", "300")}

    def fleet(self, name):
        return self.world.api("GET", "/v1/fleets/" + name)

    def mine(self, fleet):
        return [n for n in self.world.nodes(query="&fleet=" + fleet) if n["state"] in LIVE]

    def size(self, name, wanted, timeout_s=60):
        return self.world.until("%s wants %d" % (name, wanted), timeout_s,
                                lambda: (lambda f: f if f["size"]["wanted"] == wanted and f["size"]["rule"] else None)(self.fleet(name)))

    def test_the_size_follows_demand_and_the_clock(self):
        w = self.world
        up = datetime.datetime.now(zoneinfo.ZoneInfo("America/New_York")) + datetime.timedelta(seconds=75)
        hours = w.ctl("fleet", "create", "-", "-o", "name",
                      text=HOURS % (up.strftime("%a %H:%M"), (up + datetime.timedelta(minutes=1)).strftime("%H:%M")))
        ends = w.ctl("fleet", "create", "-", "-o", "name", text=ENDS)
        elastic = w.ctl("fleet", "create", "-", "-o", "name", text=ELASTIC % "research")
        self.assertIn("outside of the schedule", self.size("hours", 0)["size"]["why"])
        self.assertEqual(self.size("elastic", 0)["size"]["rule"], "first")
        self.check_queue(elastic)
        self.check_demand(elastic)
        self.check_end(ends)
        self.check_hours(hours, up)
        for fleet in (hours, elastic):
            w.ctl("fleet", "rm", fleet)
        w.await_gone(60)

    def check_queue(self, elastic):
        """Three jobs make it grow to three, one of them by way of 'any'. Then it falls to zero."""
        w = self.world
        jobs = [w.submit(name="q%d" % i, steps=40, ours="work: 1h\nfleet: %s" % f)
                for i, f in enumerate(("elastic", "elastic", "any"))]
        grown = self.size("elastic", 3)
        self.assertIn("in the queue", grown["size"]["why"] + w.sql("SELECT string_agg(why, ';') FROM event WHERE event = 'SIZE'"))
        for job in jobs:
            j = w.await_end(job)
            self.assertEqual((j["state"], j["attempts"]), ("SUCCEEDED", 1))
            self.assertEqual(w.node(j["attempts_list"][0]["node"])["fleet"], elastic)
        self.size("elastic", 0)
        w.until("no node is left", 60, lambda: not self.mine(elastic))
        self.assertEqual(w.sql("SELECT count(*) FROM node WHERE fleet_id = %s" % elastic[1:]), "3", "it launched more than the queue needed")
        # No working node went back: each node of the fleet ended idle.
        self.assertEqual(w.sql("SELECT count(*) FROM attempt a JOIN node n ON n.id = a.node_id WHERE n.fleet_id = %s AND a.exit_reason <> 'ok'"
                               % elastic[1:]), "0")

    def check_demand(self, elastic):
        w = self.world
        shown = json.loads(w.ctl("fleet", "demand", "elastic", "--replicas", "1", "--ttl", "8s", "-o", "json"))
        self.assertEqual((shown["value"], shown["unit"]), (1, "replicas"))
        self.assertEqual(self.size("elastic", 2)["size"]["rule"], "demand")
        w.until("two ready nodes", 60, lambda: len([n for n in self.mine(elastic) if n["state"] == "READY"]) == 2)
        self.assertIn("2/2 0-3", w.ctl("fleet", "ls"))
        self.assertIn("demand of 1 replicas by", w.ctl("fleet", "show", "elastic"))
        self.size("elastic", 0)
        w.until("no node is left", 60, lambda: not self.mine(elastic))

    def check_end(self, ends):
        w = self.world
        w.until("the fleet has expired", 60, lambda: self.fleet(ends)["state"] == "CLOSED")
        self.assertGreaterEqual(int(w.sql("SELECT count(*) FROM node WHERE fleet_id = %s AND launched_us IS NOT NULL" % ends[1:])), 1)

    def check_hours(self, hours, up):
        """It opens at the minute with min, and ends a minute later at zero, below min."""
        w = self.world
        self.size("hours", 1, 150)
        at = up.replace(second=0, microsecond=0).timestamp()
        self.assertGreaterEqual(int(w.sql("SELECT min(size_us) FROM fleet WHERE id = %s" % hours[1:])) / 1e6, at)
        w.until("its node is ready", 60, lambda: [n for n in self.mine(hours) if n["state"] == "READY"])
        self.size("hours", 0, 150)
        w.until("its node is gone", 60, lambda: not self.mine(hours))


if __name__ == "__main__":
    e2e.main()
