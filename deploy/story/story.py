#!/usr/bin/env python3
"""The story of deploy/demo. Progress goes to standard error, the summary to standard output."""
import argparse
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bills import billed_of, not_billed, print_not_billed
from clouds import ALL, Clouds
from world import Daemon, Emulator, Failure, Killer, align, free_port, http, say, until

# Time is compressed, and this is how: a provider's two minutes of notice become NOTICE_S seconds, patience for spot, holds and poll
# intervals shrink alike. Prices are per real hour, and money is counted in real seconds.
NOTICE_S, NOTICE_KILLED_S = 12, 20
PATIENCE, PATIENCE_KILLED = "16s", "60s"  # five refusals in a row on a busy machine; a daemon under kills tries less in the same time.
# Least and longest. A cloud without capacity has four pools, and the first must still cool down when the last was tried.
COOL, COOL_KILLED = ("4s", "12s"), ("20s", "60s")
# How long that takes hangs on the machine and on the kills: the job has far more steps, and hurries once its story is told.
STEPS, STEPS_KILLED = 1600, 24000
STEP_MS, HURRY_MS = 50, 1
BUCKET = "spot-demo"
GPU, GPUS = "H100", 8  # a machine of the kind that all five sell
SPOT_CLOUDS = 4        # Lambda has no spot market
FIXED = ("coreweave", "lambda")  # list prices, not a market
CHANNEL = {"aws": "the instance metadata service", "gcp": "the metadata server's hanging GET", "azure": "Scheduled Events",
           "coreweave": "the Pod's SIGTERM"}

CONFIG = """# made by deploy/demo
[api]
listen = 127.0.0.1:{port}
public_url = http://127.0.0.1:{port}
agent_dir = {agents}

[market]
spot = 5s
on_demand = 60s
signals = 30s
pools = 120s
quotas = 120s

[engine]
tick = 500ms
lease = 1500ms
offers_age = 1s
watch = 2s
sweep = 5s
bill = 2s
boot_timeout = 60s
idle_keep = 3s
terminate_retry = 1s
cool_min = {cool[0]}
cool_max = {cool[1]}
reclaim_cool = 30s
list_lag = 5s
orphan_grace = 10s
drain_grace = 5s
patience = {patience}
return_hold = 2s
return_probe = 3s
return_margin = 0
supply_window = 20s
supply_hold = 2s
deadline_tick = 2s
moves_per_hour = 60
changeover = 1s

[rank]
restart_s = 5
save_s = 1

{sections}"""

JOB = """name: demo-train
resources:
  accelerators: {{{gpu}: {gpus}}}
  use_spot: true
file_mounts:
  bin/spot-train: {train}
run: |
  chmod +x bin/spot-train
  exec bin/spot-train --steps {steps} --step-ms {step_ms}{pace} --seed 7
config:
  spotctl:
    team: research
    project: demo
    class: training
    work: 2h
    checkpoint: {{path: ckpt, signal: USR1, interval: 30s, budget: 10s}}
"""


def open_tmp():
    """Root's own temporary folder may be closed to the user that the database then runs as."""
    path = os.path.realpath(tempfile.gettempdir())
    while os.geteuid() == 0 and path != "/":
        if not os.stat(path).st_mode & 0o001:
            return "/tmp"
        path = os.path.dirname(path)
    return None


class Story:
    def __init__(self, args):
        self.args = args
        self.build = os.path.abspath(args.build)
        self.dir = tempfile.mkdtemp(prefix="spotdemo-", dir=args.dir or open_tmp())
        os.chmod(self.dir, 0o711)  # as root the database runs as another user, who must get to its folder
        self.pace = os.path.join(self.dir, "pace")
        self.began = time.monotonic()
        self.steps = STEPS if args.kill_seed is None else STEPS_KILLED
        self.notice_s = NOTICE_S
        self.emulator = self.daemon = self.killer = None
        self.token = None
        self.job = None

    # ---- small things --------------------------------------------------------------------

    def tell(self, text):
        say("%6.1fs %s" % (time.monotonic() - self.began, text))

    def api(self, method, path, body=None, ok=(200, 201, 202)):
        """Through a daemon that may be down for a moment (kill -9): asks again until it answers."""
        def one():
            try:
                status, reply = http(method, "http://127.0.0.1:%d%s" % (self.port, path), body, self.token, timeout=30)
            except OSError:
                return None
            if status in (500, 502, 503, 504):
                return None
            if status not in ok:
                raise Failure("%s %s: %s %s" % (method, path, status, reply))
            return (reply,)
        return self.until("the daemon answers %s %s" % (method, path), 60, one)[0]

    def spotctl(self, *words):
        env = dict(os.environ, SPOTCTL_URL="http://127.0.0.1:%d" % self.port, SPOTCTL_TOKEN_FILE=self.token_file, NO_COLOR="1")
        return subprocess.run([os.path.join(self.build, "src/spotctl/spotctl"), *words], env=env, capture_output=True,
                              text=True, timeout=120)

    def show(self, *words, lines=12):
        say("\n       $ spotctl %s" % " ".join(words))
        out = self.spotctl(*words)
        for line in align((out.stdout + out.stderr).splitlines()[:lines]):
            say("       " + line)
        say("")

    def current(self):
        return self.api("GET", "/v1/jobs/" + self.job)

    def running_on(self, market, after_epoch):
        """The job, once a later attempt of it runs (or ran) on a node of this market."""
        j = self.current()
        if j["state"] in ("FAILED", "CANCELLED"):
            raise Failure("the job is %s: %s" % (j["state"], j.get("why")))
        for attempt in j["attempts_list"]:
            if attempt["epoch"] > after_epoch and attempt["market"] == market and attempt["started_at"]:
                return j
        if j["state"] == "SUCCEEDED":
            raise Failure("the job finished before it ran on %s; it should be longer" % market)
        return None

    def place(self, j):
        p = j["pool"] or j["attempts_list"][-1]["pool"]
        return "%s/%s %s (%s, %.4f USD/h)" % (p["provider"], p["zone"] or p["region"], p["instance_type"], p["market"],
                                              p["price_micros"] / 1e6)

    # ---- chapters ------------------------------------------------------------------------

    def raise_world(self):
        self.tell("five emulated clouds (AWS, Google Cloud, Azure, CoreWeave, Lambda) on recorded prices, with metadata services and object stores")
        self.emulator = Emulator([os.path.join(self.build, "tests/cloudsim/cloudsim"), "--agents", "--boot-ms", "400"], os.path.join(self.dir, "cloud"))
        self.clouds = Clouds(self.emulator, self.dir)
        self.secrets = self.clouds.secrets()
        self.clouds.prepare(ALL)
        self.store = self.clouds.store("s3", BUCKET)
        with open(os.path.join(self.build, "deploy/examples/spot-train"), "rb") as f:
            self.store.put("demo/spot-train", f.read())
        self.port = free_port()
        patience, cool = (PATIENCE, COOL) if self.args.kill_seed is None else (PATIENCE_KILLED, COOL_KILLED)
        config = os.path.join(self.dir, "spotd.conf")
        sections = dict({"checkpoint": self.store.settings()}, **self.clouds.sections(ALL))
        with open(config, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(port=self.port, patience=patience, cool=cool, agents=self.agent_dir(), sections="\n".join(
                "[%s]\n%s" % (name, "".join("%s = %s\n" % kv for kv in keys.items())) for name, keys in sections.items())))
        env = dict(self.clouds.environment(), XDG_DATA_HOME=os.path.join(self.dir, "data"))
        self.daemon = Daemon(self.build, self.dir, config, env)
        self.daemon.start()
        self.token_file = os.path.join(self.dir, "data", "spotbroker", "admin-token")

        def up():
            if self.daemon.proc.poll() is not None and not self.killer:
                with open(self.daemon.log.name, encoding="utf-8", errors="replace") as f:
                    raise Failure("spotd ended at once:\n" + "".join(f.readlines()[-15:]))
            if not os.path.exists(self.token_file):
                return False
            with open(self.token_file, encoding="utf-8") as f:
                self.token = f.read().strip()
            try:
                return self.token and http("GET", "http://127.0.0.1:%d/readyz" % self.port, timeout=5)[0] == 200
            except OSError:
                return False
        began = time.monotonic()
        until("spotd is ready", 60, up)
        ready_s = time.monotonic() - began
        self.tell("spotd is up with its private Postgres on a Unix socket")
        if self.args.kill_seed is not None:
            self.killer = Killer(self.daemon, self.args.kill_seed, say, up)
            # A daemon that is slow to start lives longer between kills, and needs longer for the work of a notice.
            self.notice_s = NOTICE_KILLED_S + int(4 * max(0, ready_s - Killer.START_S))
            self.killer.start()

    def agent_dir(self):
        """The programs that nodes download, in one folder, as an installation has them."""
        path = os.path.join(self.dir, "agents")
        os.makedirs(path)
        for name in ("src/agent/spot-agent", "src/agent/spot-nvml"):
            if os.path.exists(os.path.join(self.build, name)):
                shutil.copy(os.path.join(self.build, name), path)
        return path

    def until(self, what, timeout_s, test):
        """A daemon under kills takes longer, and longer still if it is slow to start."""
        return until(what, timeout_s * (3 * self.killer.slow if self.killer else 1), test)

    def offers(self):
        return [p for p in self.api("GET", "/v1/prices?gpu=%s&limit=1000" % GPU)["items"] if p["gpus"] == GPUS]

    def prices_arrive(self):
        def five():
            items = self.offers()
            have = {(p["provider"], p["market"]) for p in items}
            ok = all((c, "on_demand") in have and (c == "lambda" or (c, "spot") in have) for c in ALL)
            return items if ok else None
        items = self.until("prices of all five clouds", 90, five)
        self.tell("prices of %d x %s at all five:" % (GPUS, GPU))
        rows = ["CLOUD\tPOOLS\tSPOT USD/H\tWHERE\tON DEMAND USD/H\tWHERE"]
        for cloud in ALL:
            cells = []
            for market in ("spot", "on_demand"):
                best = min((p for p in items if (p["provider"], p["market"]) == (cloud, market)), key=lambda p: p["price_micros"], default=None)
                cells += ["%.4f" % (best["price_micros"] / 1e6), best["zone"] or best["region"]] if best else ["-", "-"]
            rows.append("\t".join([cloud, "%d" % sum(1 for p in items if p["provider"] == cloud), *cells]))
        say("\n" + "\n".join("       " + line for line in align(rows)) + "\n")

    def submit(self):
        path = os.path.join(self.dir, "job.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(JOB.format(train=self.store.uri("demo/spot-train"), gpu=GPU, gpus=GPUS, steps=self.steps, step_ms=STEP_MS,
                               pace=" --pace " + shlex.quote(self.pace) if self.args.kill_seed is not None else ""))
        if not self.killer:
            self.show("plan", path, lines=9)

        def sent():
            out = self.spotctl("job", "submit", path, "--key", "demo-job")
            if out.returncode == 6 and self.killer:
                return None
            if out.returncode != 0:
                raise Failure("spotctl job submit: " + out.stderr)
            return out.stdout.strip()
        self.job = self.until("the job is accepted", 60, sent)
        self.tell("submitted as %s" % self.job)

    def first_spot(self):
        j = self.until("the job runs on spot", 90, lambda: self.running_on("spot", 0))
        self.tell("attempt %d runs on %s" % (j["epoch"], self.place(j)))

    def node_of(self, least):
        """The node of the job, once its attempt has done so many steps there."""
        def there():
            j = self.current()
            if j["state"] != "RUNNING" or not j["node"]:
                return None
            node = self.api("GET", "/v1/nodes/" + j["node"])
            start = j["attempts_list"][-1]["steps_start"]
            return node if self.clouds.steps(self.clouds.home(node), self.job) >= start + least else None
        return self.until("some progress", 60, there)

    def lose(self, least):
        """The cloud of the job sells its spot to others and takes the machine back, with its own notice. Returns the epoch."""
        node = self.node_of(least)
        cloud = node["pool"]["provider"]
        epoch = self.current()["epoch"]
        self.emulator.ask("POST", "/stock", {"pool": "%s/*/*/*/spot" % cloud, "count": 0})
        self.tell("%s takes its spot machines back: notice to %s through %s (time compressed: %d s)" % (
            cloud, self.clouds.machine(node)["id"], CHANNEL[cloud], self.notice_s))
        self.clouds.reclaim(node, self.notice_s)
        return epoch

    def moves(self):
        """From cloud to cloud, until one is left."""
        for k in range(SPOT_CLOUDS - 2):
            epoch = self.lose(STEPS // 10 if k == 0 else STEPS // 20)
            j = self.until("the job resumes at another cloud", 90, lambda: self.running_on("spot", epoch))
            old = j["attempts_list"][-2]
            self.tell("saved at step %d, uploaded, resumed at step %d on %s" % (
                old["steps_done"], j["attempts_list"][-1]["steps_start"], self.place(j)))

    def squeeze(self):
        self.emulator.ask("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 0})
        self.tell("no spot is left, anywhere")
        epoch = self.lose(STEPS // 20)
        j = self.until("on-demand takes over", 120, lambda: self.running_on("on_demand", epoch))
        self.tell("fail-over: attempt %d runs on %s from step %d" % (j["epoch"], self.place(j), j["attempts_list"][-1]["steps_start"]))

    def cheapen(self, cloud):
        """Its price falls below all others, and the broker has heard of it."""
        spot = [p for p in self.offers() if p["market"] == "spot"]
        mine = min((p for p in spot if p["provider"] == cloud), key=lambda p: p["price_micros"])
        usd = round(min(p["price_micros"] for p in spot) * 0.4 / 1e6, 2)
        self.emulator.ask("POST", "/price", {"pool": "%s/%s/*/%s/spot" % (cloud, mine["region"], mine["instance_type"]), "usd": usd})
        self.until("the new price", 60, lambda: any(p["provider"] == cloud and p["market"] == "spot" and
                                               p["price_micros"] <= usd * 1.01e6 for p in self.offers()))
        self.tell("%s makes spot cheap: %.2f USD/h in %s" % (cloud, usd, mine["region"]))

    def ease(self):
        j = self.current()
        epoch = j["epoch"]
        seen = {a["pool"]["provider"] for a in j["attempts_list"]}
        cloud = next((c for c in ALL if c not in seen and c not in FIXED), None)
        j = None
        if cloud:
            # First where it is cheapest: a probe that was under way elsewhere must not find a dear one.
            self.cheapen(cloud)
            self.emulator.ask("POST", "/stock", {"pool": "%s/*/*/*/spot" % cloud, "count": 20})
            try:
                j = until("the job returns to %s" % cloud, 15, lambda: self.running_on("spot", epoch))
            except Failure:
                pass  # the next probe comes too late for the story: spot opens everywhere
        self.emulator.ask("POST", "/stock", {"pool": "*/*/*/*/spot", "count": 20})
        self.tell("spot comes back")
        j = j or self.until("the job returns to spot", 120, lambda: self.running_on("spot", epoch))
        self.tell("returned: attempt %d runs on %s from step %d" % (j["epoch"], self.place(j), j["attempts_list"][-1]["steps_start"]))

    def finish(self):
        if self.killer:
            with open(self.pace + ".new", "w", encoding="ascii") as f:
                f.write("%d\n" % HURRY_MS)
            os.rename(self.pace + ".new", self.pace)

        def over():
            j = self.current()
            if j["state"] in ("FAILED", "CANCELLED"):
                raise Failure("the job is %s: %s" % (j["state"], j.get("why")))
            return j if j["state"] == "SUCCEEDED" else None
        j = self.until("the job finishes", 150, over)
        self.tell("finished after %d attempts" % j["attempts"])
        if not self.killer:
            self.show("job", "show", self.job, lines=20)
        return j

    # ---- checks --------------------------------------------------------------------------

    def check_chain(self, j):
        """Every committed checkpoint is in the store, whole; progress never goes back; the final one holds the result."""
        chain = sorted(j["checkpoints"], key=lambda c: int(c["id"][1:]))
        if not chain or chain[-1]["reason"] != "final":
            raise Failure("the newest committed checkpoint is not the final one: %s" % chain[-1:])
        steps = -1
        files = {}
        for c in chain:
            if c["steps"] < steps:
                raise Failure("checkpoint %s goes back from step %d to %d" % (c["id"], steps, c["steps"]))
            steps = c["steps"]
            files = {}
            for chunk in self.api("GET", "/v1/checkpoints/" + c["id"])["chunks"]:
                status, body = self.store.get(chunk["object_key"])
                if status != 200 or hashlib.sha256(body).hexdigest() != chunk["sha256"] or len(body) != chunk["bytes"]:
                    raise Failure("chunk %s of checkpoint %s is not in the store as committed" % (chunk["path"], c["id"]))
                files[chunk["path"]] = files.get(chunk["path"], b"") + body
        self.tell("checkpoint chain verified: %d committed, every chunk's sha256 matches" % len(chain))
        return files

    def check_result(self, files):
        alone = os.path.join(self.dir, "alone")
        os.makedirs(alone)
        subprocess.run([os.path.join(self.build, "deploy/examples/spot-train"), "--steps", str(self.steps), "--step-ms", "0", "--seed", "7"],
                       check=True, cwd=alone, stdout=subprocess.DEVNULL,
                       env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "SPOT_CHECKPOINT_DIR": alone})
        same = True
        for name in ("result.txt", ):
            with open(os.path.join(alone, name), "rb") as f:
                same = same and files.get(name) == f.read()
        self.tell("result is %s to an uninterrupted run" % ("bit-identical" if same else "NOT identical"))
        return same

    def all_gone(self):
        def gone():
            books = self.emulator.ask("GET", "/books")
            live = [i for i in books["instances"] if not i["terminated"]]
            return not live and not books["left"] and self.api("GET", "/v1/nodes?state=live")["items"] == []
        self.until("every instance is confirmed gone at its provider", 90, gone)
        books = self.emulator.ask("GET", "/books")
        if books["double_launches"]:
            raise Failure("double launches in the emulator's own record: %s" % books["double_launches"])
        self.tell("every machine is confirmed gone at its cloud, with its disks, cards, addresses, orders and uploads "
                  "(%d were launched, none twice)" % len(books["instances"]))
        return books

    def check_secrets(self):
        """No cloud key in any file of a node, nor in the daemon's log."""
        for root, _, names in os.walk(os.path.join(self.dir, "cloud", "instances")):
            for name in names:
                self.refuse_secret(os.path.join(root, name))
        self.refuse_secret(self.daemon.log.name)

    def refuse_secret(self, path):
        try:
            with open(path, "rb") as f:
                text = f.read()
        except OSError:
            return
        for secret in self.secrets:
            if secret.encode() in text:
                raise Failure("a cloud key is in %s" % path)

    def bill(self, j, same, books):
        """The ledger's word, once it covers the whole life of every node."""
        def billed():
            totals = self.api("GET", "/v1/cost?by=job")["totals"]["total_micros"]
            nodes = sum(n["cost_micros"] for n in self.api("GET", "/v1/nodes?limit=1000")["items"])
            last = getattr(self, "last_bill", None)
            self.last_bill = (totals, nodes, time.monotonic()) if last is None or last[:2] != (totals, nodes) else last
            # Billing runs every two seconds: a sum that stood still for longer is the final one.
            return time.monotonic() - self.last_bill[2] > 5
        self.until("the bill is complete", 60, billed)
        cost = self.api("GET", "/v1/jobs/%s/cost" % self.job)
        if sum(line["amount_micros"] for line in cost["items"]) != cost["total_micros"]:
            raise Failure("the ledger's lines do not sum to its total")
        if not self.killer:
            self.show("cost", "--by", "job,market", lines=8)
        against = {s["baseline"]: s for s in cost["savings"]}
        on_demand, cheapest = against["on-demand"], against["cheapest-pool"]
        return {
            "job": {"id": self.job, "state": j["state"], "attempts": j["attempts"], "lost_steps": j["lost_steps"],
                    "steps": j["steps_done"], "result_matches_uninterrupted": same},
            "instances_launched": len(books["instances"]),
            "instances_left": sum(1 for i in books["instances"] if not i["terminated"]),
            "double_launches": len(books["double_launches"]),
            "cost_usd": cost["total_usd"],
            "on_demand_cost_usd": on_demand["baseline_usd"],
            "saved_pct": round(on_demand["saved_pct"], 1),
            "cheapest_pool_only_cost_usd": cheapest["baseline_usd"],
            "cheapest_pool_only_how": cheapest["how"],
            "provider_bill_usd": round(sum(map(billed_of, books["instances"])) / 1e6, 6),
            "not_billed": not_billed(cost, {n["id"]: n for n in self.api("GET", "/v1/nodes?limit=1000")["items"]}, books),
            "daemon_kills": self.killer.kills if self.killer else 0,
            "clouds": self.per_cloud(j, books),
            "seconds": round(time.monotonic() - self.began, 1),
        }

    def per_cloud(self, j, books):
        """For each cloud: its acts, our payment, its own books, and what is left there."""
        paid = {x["provider"]: x["total_micros"] for x in self.api("GET", "/v1/cost?by=provider")["rows"]}
        return {cloud: {
            "attempts": sum(1 for a in j["attempts_list"] if a["pool"]["provider"] == cloud and a["started_at"]),
            "instances_launched": sum(1 for i in books["instances"] if i["provider"] == cloud),
            "paid_usd": round(paid.get(cloud, 0) / 1e6, 6),
            "provider_bill_usd": round(sum(billed_of(i) for i in books["instances"] if i["provider"] == cloud) / 1e6, 6),
            "left": sum(1 for i in books["instances"] if i["provider"] == cloud and not i["terminated"]) +
                    sum(1 for x in books["left"] if x.startswith(cloud)),
        } for cloud in ALL}

    def run(self):
        self.raise_world()
        self.prices_arrive()
        self.submit()
        self.first_spot()
        self.moves()
        self.squeeze()
        self.ease()
        j = self.finish()
        books = self.all_gone()
        if self.killer:
            self.killer.stop()
        same = self.check_result(self.check_chain(j))
        self.check_secrets()
        return self.bill(self.current(), same, books)

    def keep(self):
        say("\nleft running. In another terminal:\n  export SPOTCTL_URL=http://127.0.0.1:%d SPOTCTL_TOKEN_FILE=%s\n  %s job ls\n"
            "Enter or Ctrl-C ends it." % (self.port, shlex.quote(self.token_file),
                                          shlex.quote(os.path.join(self.build, "src/spotctl/spotctl"))))
        try:
            if not sys.stdin.readline() and not sys.stdin.isatty():
                signal.pause()  # in the background there is no Enter; a signal ends it
        except KeyboardInterrupt:
            pass

    def close(self, failed):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # impatience must not leave anything running
        if self.killer:
            self.killer.stop()
        for part in (self.daemon, self.emulator):
            if part:
                part.stop()
        if failed:
            say("logs are in %s" % self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)


def print_summary(s):
    print("\nsummary\n  job %(id)s %(state)s after %(attempts)d attempts, %(steps)d steps, %(lost_steps)d lost" % s["job"])
    print("  result matches the uninterrupted run: %s" % ("yes" if s["job"]["result_matches_uninterrupted"] else "NO"))
    print("  cost %.6f USD; the same on on-demand %.6f USD: saved %.1f %%" % (s["cost_usd"], s["on_demand_cost_usd"], s["saved_pct"]))
    print("  sticking to the cheapest pool only: %.6f USD: %s" % (s["cheapest_pool_only_cost_usd"], s["cheapest_pool_only_how"]))
    print("  instances launched %(instances_launched)d, left %(instances_left)d, launched twice %(double_launches)d" % s)
    rows = ["  CLOUD\tATTEMPTS\tMACHINES\tPAID USD\tITS OWN BILL\tLEFT"]
    for cloud, c in s["clouds"].items():
        rows.append("  %s\t%d\t%d\t%.6f\t%.6f\t%d" % (cloud, c["attempts"], c["instances_launched"], c["paid_usd"], c["provider_bill_usd"], c["left"]))
    print("\n".join(align(rows)))
    print_not_billed(s)
    print("  %.0f seconds" % s["seconds"])


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    p = argparse.ArgumentParser(prog="deploy/demo")
    p.add_argument("--build", required=True, help=argparse.SUPPRESS)
    p.add_argument("--dir", default=None, help="where its files go (default: the system's temporary directory)")
    p.add_argument("--json", action="store_true", help="print the summary as JSON")
    p.add_argument("--keep", action="store_true", help="leave everything running until Enter or Ctrl-C")
    p.add_argument("--kill-seed", type=int, default=None, help="kill -9 the daemon at random moments of this seed")
    args = p.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background
    os.umask(0o022)  # the same for everyone: the database of root runs as another user
    story = Story(args)
    failed, logs = True, True
    try:
        summary = story.run()
        failed = not (summary["job"]["state"] == "SUCCEEDED" and summary["job"]["attempts"] >= 4 and
                      summary["job"]["lost_steps"] == 0 and summary["job"]["result_matches_uninterrupted"] and
                      summary["instances_left"] == 0 and summary["double_launches"] == 0 and
                      sum(1 for c in summary["clouds"].values() if c["attempts"]) >= 4 and
                      not any(c["left"] for c in summary["clouds"].values()))
        if args.json:
            print(json.dumps(summary))
        else:
            print_summary(summary)
        sys.stdout.flush()
        if args.keep:
            story.keep()
    except (Failure, subprocess.SubprocessError, OSError, KeyError) as e:
        say("demo failed: %s: %s" % (type(e).__name__, e))
    except KeyboardInterrupt:
        logs = False
        say("interrupted")
    finally:
        story.close(failed and logs)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
