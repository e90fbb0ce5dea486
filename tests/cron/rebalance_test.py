#!/usr/bin/env python3
"""A real cron and a real systemd run the shipped files, and a fleet is rebalanced.

    rebalance_test.py BUILD [unittest arguments]

The commands are those of deploy/docs/operating.md. Exit code 77: this machine permits no machine inside; the reason is printed.
"""
import datetime
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import e2e  # noqa: E402
from support.postgres import Postgres  # noqa: E402
from support.wait import until  # noqa: E402
from host import SERVICE, SYSTEMD, TIMER, TOKEN_FILE, Host, Syslog  # noqa: E402
from machine import refusal  # noqa: E402
from world import free_port, http  # noqa: E402

FLEET = """name: %s
nodes: 2
pools_min: 1
resources:
  accelerators: {A10G: 1}
  use_spot: true
rebalance: {at_once: 2, per_zone: 2, per_hour: 100}
"""
NODES, STEPS = 2, 9000
COUNTED = ("WANTED", "LAUNCHING", "UNKNOWN", "BOOTING", "READY")
OFTEN = "[Timer]\nOnCalendar=\nOnCalendar=*:*:0/10\nRandomizedDelaySec=0\nAccuracySec=1s\n"
CRON_FILE = "/etc/cron.d/spotbroker"
# A mail server that delivers into one file.
SENDMAIL = """#!/bin/sh
umask 0
{ echo "for: $*"; cat; } >>/tmp/mail
"""
UNREACHABLE = 6  # exit code of spotctl


class Rebalance(e2e.Case):
    OPTIONS = {"providers": ("aws",), "regions": "us-east-1"}
    token = None

    # ---- the fleet -----------------------------------------------------------------------

    def counted(self, fleet):
        return [n for n in self.world.nodes(query="&fleet=" + fleet) if n["state"] in COUNTED]

    def pools(self, fleet):
        """The pools of the nodes, once all are ready on spot."""
        nodes = self.counted(fleet)
        whole = len(nodes) == NODES and all(n["state"] == "READY" and n["pool"]["market"] == "spot" for n in nodes)
        return {n["pool"]["id"]: n["pool"] for n in nodes} if whole else None

    def fleet_raise(self, name):
        """A fleet on spot whose nodes have work. Returns its id and the jobs."""
        w = self.world
        fleet = w.ctl("fleet", "create", "-", "-o", "name", text=FLEET % name)
        w.until("its nodes are ready", 90, lambda: self.pools(fleet))
        steps = w.paced(STEPS)
        jobs = [w.submit(name="%s-%d" % (name, i), gpus="A10G: 1", steps=steps, step_ms=30, ours="work: 4h\nfleet: " + name) for i in range(NODES)]
        for job in jobs:
            w.await_job(job, "it runs", 60, lambda j: j["state"] == "RUNNING" and j["attempts_list"][-1]["started_at"])
        return fleet, jobs

    def make_dear(self, fleet):
        """The pools of its nodes become dear. Returns them; the daemon by itself moves nothing for that."""
        w = self.world
        dear = self.pools(fleet)
        for pool in dear.values():
            w.sim("POST", "/price", {"pool": w.pool_text(pool), "usd": 2e-6 * pool["price_micros"]})
        w.until("the prices are known", 60, lambda: all(
            p["price_micros"] > 1.9 * dear[p["id"]]["price_micros"]
            for p in w.api("GET", "/v1/pools?provider=aws&market=spot&gpu=A10G&limit=1000")["items"] if p["id"] in dear))
        return dear

    def moves(self, fleet):
        return json.loads(self.world.ctl("rebalance", "report", "--fleet", fleet, "-o", "json"))["items"]

    def await_left(self, fleet, jobs, dear, timeout_s):
        def left():
            pools = self.pools(fleet)
            return pools and not set(pools) & set(dear)
        self.world.until("the dear pools are left", timeout_s, left)
        for job in jobs:
            self.world.await_attempt(job, 2, 60)

    def check_rebalanced(self, name, fleet, jobs, began):
        """The scheduler moved each node once, each move pays, no job lost a step; then all of it ends."""
        w = self.world
        moves = self.moves(fleet)
        self.assertEqual([(m["kind"], m["fleet"]) for m in moves], [("rebalance", fleet)] * NODES)
        self.assertTrue(all(m["at"] >= began and m["saving_micros"] > m["cost_micros"] for m in moves), moves)
        self.assertEqual(len(re.findall(r"\b%s\b" % fleet, w.ctl("rebalance", "report", "--fleet", name))), NODES)
        w.hurry()
        ended = [w.await_end(job) for job in jobs]
        self.assertEqual([(j["state"], j["lost_steps"], j["attempts"]) for j in ended], [("SUCCEEDED", 0, 2)] * NODES)
        for job in jobs:
            self.assertEqual(w.result_of(job), w.result_of_uninterrupted(STEPS))
        w.ctl("fleet", "rm", fleet)
        w.await_gone(60)

    # ---- the machine ---------------------------------------------------------------------

    def host(self, name, init, conf=None):
        w = self.world
        host = Host(w.dir, name, init, conf or w.config_text() + "[database]\ndsn = %s\n" % w.dsn())
        self.addCleanup(host.stop)
        return host

    def make_token(self, host):
        """The first machine makes the token; the others share the daemon, and get it from there."""
        if Rebalance.token is None:
            Rebalance.token = host.make_token()
        else:
            host.write(TOKEN_FILE, Rebalance.token + "\n", 0o600)
        return Rebalance.token

    def now(self):
        return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")

    def daemon_is_away(self, act):
        self.world.stop_daemon()
        try:
            act()
        finally:
            self.world.start_daemon()

    # ---- cron ----------------------------------------------------------------------------

    def cron_host(self):
        host = self.host("cron", ["sleep", "infinity"])
        log = Syslog(os.path.join(self.world.dir, "syslog"))
        self.addCleanup(log.socket.close)
        host.shell("ln -s '%s/syslog' /dev/log" % self.world.dir)
        host.write("/usr/sbin/sendmail", SENDMAIL, 0o755)
        return host, log

    def check_failure_by_cron(self, host, log, token):
        self.world.until("the failed run is mailed", 130, lambda: "spotctl: " in host.read("/tmp/mail"))
        mail = host.read("/tmp/mail")
        self.assertRegex(mail, r"(?m)^To: root$")
        self.assertIn("spotctl: %s: " % self.world.base, mail)
        until("syslog has it", 20, lambda: "spotctl rebalance failed: exit code %d" % UNREACHABLE in log.text(), trouble=log.text)
        self.assertNotIn(token, mail + log.text())

    def test_cron_rebalances_the_fleet(self):
        host, log = self.cron_host()
        token = self.make_token(host)
        host.operate("chown spotbroker " + TOKEN_FILE)
        host.operate("install -m 0644 deploy/systemd/spotbroker.cron " + CRON_FILE)
        host.edit(CRON_FILE, {"http://127.0.0.1:8642": self.world.base, "\n7,37 * * * * spotbroker ": "\n* * * * * spotbroker "})
        fleet, jobs = self.fleet_raise("by-cron")
        dear = self.make_dear(fleet)
        self.assertEqual(self.moves(fleet), [])
        began = self.now()
        host.shell("/etc/init.d/cron start")
        self.await_left(fleet, jobs, dear, 150)
        self.assertIn("(spotbroker) CMD (/usr/bin/spotctl rebalance --timeout 300 ", log.text())
        self.assertEqual(host.read("/tmp/mail"), "", "a run that succeeds is not mailed")
        self.check_rebalanced("by-cron", fleet, jobs, began)
        self.daemon_is_away(lambda: self.check_failure_by_cron(host, log, token))

    # ---- systemd -------------------------------------------------------------------------

    def systemd_host(self, name):
        host = self.host(name, SYSTEMD)
        host.boot()
        host.write("/etc/spotbroker/rebalance.env", "SPOTCTL_URL=%s\n" % self.world.base)
        return host, self.make_token(host)

    def check_units(self, host):
        """systemd finds nothing wrong with the units that are installed beside their programs."""
        for unit in (SERVICE, TIMER, "spotd.service", "spotd-api.service", "spotd-engine.service"):
            out = host.run("systemd-analyze", "verify", "--man=no", "/etc/systemd/system/" + unit)
            self.assertEqual((out.returncode, out.stdout + out.stderr), (0, ""), unit)

    def check_secret(self, host, token):
        """The token is neither in the words nor in the environment of the run, which has a user of its own."""
        w = self.world
        host.shell("systemctl stop " + TIMER)
        w.daemon.freeze()
        try:
            host.shell("systemctl start --no-block " + SERVICE)
            until("the run waits for the daemon", 60, lambda: host.read("/proc/%s/cmdline" % host.shown(SERVICE, "MainPID")).startswith("/usr/bin/spotctl\0"))
            pid = host.shown(SERVICE, "MainPID")
            seen = host.read("/proc/%s/cmdline" % pid) + host.read("/proc/%s/environ" % pid)
            status = host.read("/proc/%s/status" % pid)
        finally:
            w.daemon.thaw()
        self.assertIn("SPOTCTL_TOKEN_FILE=/run/credentials/%s/token" % SERVICE, seen)
        self.assertNotIn(token, seen)
        self.assertRegex(status, r"(?m)^Uid:\t6\d{4}\t")
        self.assertRegex(status, r"(?m)^CapEff:\t0+$")
        until("the run ends well", 60, lambda: host.shown(SERVICE, "ActiveState") == "inactive")
        self.assertNotIn(token, host.journal("-o", "export"))

    def check_failure_by_systemd(self, host):
        out = host.run("systemctl", "start", SERVICE)
        self.assertNotEqual(out.returncode, 0)
        self.assertEqual([host.shown(SERVICE, n) for n in ("ActiveState", "Result", "ExecMainStatus")], ["failed", "exit-code", str(UNREACHABLE)])
        self.assertIn(SERVICE, host.shell("systemctl --failed --no-legend"))
        self.assertIn("spotctl: %s: " % self.world.base, host.journal("-u", SERVICE, "-o", "cat"))

    def test_systemd_rebalances_the_fleet(self):
        host, token = self.systemd_host("systemd")
        self.check_units(host)
        host.write("/etc/systemd/system/%s.d/override.conf" % TIMER, OFTEN)  # systemctl edit makes this file
        host.shell("systemctl daemon-reload")
        fleet, jobs = self.fleet_raise("by-timer")
        dear = self.make_dear(fleet)
        self.assertEqual(self.moves(fleet), [])
        began = self.now()
        host.operate("systemctl enable --now " + TIMER)
        self.await_left(fleet, jobs, dear, 90)
        self.assertNotEqual(host.shown(TIMER, "LastTriggerUSec"), "")
        self.assertIn(TIMER, host.operate("systemctl list-timers " + TIMER))
        self.assertIn(fleet, host.operate("journalctl -u " + SERVICE))
        self.check_rebalanced("by-timer", fleet, jobs, began)
        self.check_secret(host, token)
        self.daemon_is_away(lambda: self.check_failure_by_systemd(host))
        host.operate("systemctl start " + SERVICE)
        self.assertEqual(host.shown(SERVICE, "Result"), "success")

    def test_the_shipped_timer_makes_up_for_a_missed_run(self):
        host, _ = self.systemd_host("missed")
        host.shell("touch -d '2 hours ago' /var/lib/systemd/timers/stamp-" + TIMER)
        host.operate("systemctl enable --now " + TIMER)
        until("it ran", 200, lambda: host.shown(SERVICE, "ExecMainExitTimestamp"), pause=1, trouble=lambda: host.journal("-n", "30"))
        self.assertEqual([host.shown(SERVICE, n) for n in ("Result", "ExecMainStatus")], ["success", "0"])

    # ---- the daemon's own units ----------------------------------------------------------

    def check_ready(self, host, port):
        def ready():
            try:
                return http("GET", "http://127.0.0.1:%d/readyz" % port, timeout=5)[0] == 200
            except OSError:
                return False
        until("the daemon answers", 90, ready, trouble=lambda: host.journal("-n", "30"))

    def test_systemd_runs_the_daemon(self):
        """Together as one unit, and the roles apart; a rebalancing is answered by either."""
        folder = tempfile.mkdtemp(dir=self.world.dir)
        os.chmod(folder, 0o711)
        server, port = Postgres(folder), free_port()
        self.addCleanup(server.stop)
        host = self.host("daemon", SYSTEMD, "[database]\ndsn = %s\n[api]\nlisten = 127.0.0.1:%d\n" % (server.dsn(), port))
        host.boot()
        host.write("/etc/spotbroker/rebalance.env", "SPOTCTL_URL=http://127.0.0.1:%d\n" % port)
        host.shell("useradd --system -G spotbroker spotbroker-engine; useradd --system -G spotbroker spotbroker-api")
        host.operate("systemctl daemon-reload && systemctl enable --now spotd")
        self.check_ready(host, port)
        host.make_token()
        host.operate("systemctl start " + SERVICE)
        host.shell("systemctl reload spotd && systemctl is-active spotd")
        host.shell("systemctl disable --now spotd")
        self.assertEqual(host.shown("spotd.service", "Result"), "success")
        host.shell("systemctl enable --now spotd-engine spotd-api")
        self.check_ready(host, port)
        host.operate("systemctl start " + SERVICE)
        host.shell("systemctl is-active spotd-engine spotd-api")
        self.assertIsNone(re.search(r"status=31/SYS|signal=SYS", host.journal()), "a filter of the unit kills it")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotmachine-") as trial:
        no = refusal(trial)
    if no:
        print("skipped: " + no)
        sys.exit(77)
    e2e.main()
