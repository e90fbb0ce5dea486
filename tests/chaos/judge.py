"""Rules for the end of every story. Nothing here shares code with the product: the money is counted again from the
emulator's own record and the price rows, in integers. The rules about rows are files that the simulation asks, too."""
import hashlib
import os
import sys
import time

from world import Failure

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "src/store"))
import gen_rules  # noqa: E402

HOUR_US = 3600 * 1000 * 1000
# The longest time of a launch and of the news of an end, on a busy machine, too. Also the age of time when it is billed
# (engine.bill_lag).
LATE_US = 180 * 1000 * 1000


class Broken(Exception):
    pass


def need(ok, text, *args):
    if not ok:
        raise Broken(text % args if args else text)


# ---- nothing left, nothing lost ------------------------------------------------------------

def nothing_left(w):
    """Neither machines nor their parts: disks, cards, addresses, orders, unfinished uploads."""
    def clean():
        books = w.sim("GET", "/books")
        return books["alive"] == 0 and not books["left"] and all(i["terminated"] for i in books["instances"]) and not w.nodes()
    try:
        w.until("nothing is left at the clouds", 120, clean)
    except Failure as e:
        books = w.sim("GET", "/books")
        raise Broken("%s\n  left: %s; alive: %s of %s" % (e, books["left"], books["alive"],
                     [i["instance"] for i in books["instances"] if not i["terminated"]])) from e
    books = w.sim("GET", "/books")
    need(not books["double_launches"], "launched twice: %s", books["double_launches"])
    return books


def jobs_whole(w):
    rows = {"j%d" % r["id"]: r for r in w.pg.rows("SELECT id, state, epoch FROM job")}
    need(set(rows) == set(w.jobs), "accepted were %s, the database has %s", sorted(w.jobs), sorted(rows))
    for job, steps in w.jobs.items():
        j = w.job(job)
        need(j["state"] == "SUCCEEDED", "%s is %s: %s", job, j["state"], j["why"])
        if steps is None:
            continue
        need(j["steps_done"] == steps, "%s has done %s of %d steps", job, j["steps_done"], steps)
        if job in w.gangs:
            ranks_whole(job, steps, *w.gangs[job])
        else:
            need(w.result_of(job) == w.result_of_uninterrupted(steps), "%s: its result is not that of an uninterrupted run", job)


def ranks_whole(job, steps, count, folder):
    """Each rank's sum: no step was left out or counted twice."""
    for rank in range(count):
        with open(os.path.join(folder, "%s.result.%d" % (job, rank)), encoding="ascii") as f:
            got = int(f.read())
        need(got == (rank + 1) * steps * (steps + 1) // 2, "%s: the sum of rank %d is %d", job, rank, got)


def saved_sets(w):
    """{job: [(step, since when)]} of complete saves: by every rank of an attempt at the same step."""
    parts, found = {}, {}
    for c in w.pg.rows("SELECT job_id, epoch, rank, steps, committed_us FROM checkpoint WHERE state = 'COMMITTED' ORDER BY committed_us DESC"):
        parts.setdefault((c["job_id"], c["epoch"], c["steps"]), {})[c["rank"]] = c["committed_us"]
    for (job, _, steps), ranks in parts.items():
        if len(ranks) == w.gangs.get("j%d" % job, (1,))[0]:
            found.setdefault(job, []).append((steps, max(ranks.values())))
    return found


def progress_kept(w, timed=True):
    """No attempt began behind the last complete save before it, and all ranks of one began at the same step. Each
    committed checkpoint is in the store as reported. timed: the rows' times say which came before."""
    saved, begun = saved_sets(w) if timed else {}, {}
    for a in w.pg.rows("SELECT job_id, epoch, rank, steps_start, created_us, steps_done FROM attempt ORDER BY job_id, epoch"):
        before = max((steps for steps, at in saved.get(a["job_id"], ()) if at <= a["created_us"]), default=0)
        need(a["steps_start"] >= before, "j%d attempt %d began at step %d, and step %d was committed", a["job_id"], a["epoch"],
             a["steps_start"], before)
        first = begun.setdefault((a["job_id"], a["epoch"]), a["steps_start"])
        need(a["steps_start"] >= begun.get((a["job_id"], a["epoch"] - 1), 0), "j%d attempt %d began behind the one before it", a["job_id"], a["epoch"])
        need(a["steps_start"] == first, "j%d attempt %d: rank %d began at step %d, another one at %d", a["job_id"], a["epoch"], a["rank"],
             a["steps_start"], first)
    for job in w.jobs:
        for c in w.job(job)["checkpoints"]:
            if c["state"] != "COMMITTED":
                continue
            for chunk in w.api("GET", "/v1/checkpoints/" + c["id"])["chunks"]:
                status, body = w.get_object(chunk["object_key"])
                need(status == 200 and hashlib.sha256(body).hexdigest() == chunk["sha256"],
                     "%s: piece %s of %s is not in the store as committed", job, chunk["path"], c["id"])


RULES = [r for r in gen_rules.folder_read(os.path.join(ROOT, "tests/sim/rules")) if r.head.get("chaos") == "yes"]


def rules_kept(w):
    """The rules about rows that the simulation asks, too, where no clock was wrong."""
    for rule in RULES:
        statement = rule.statement()
        for n in range(len(rule.params), 0, -1):
            statement = statement.replace("$%d::int8" % n, "0::int8")
        broken, words = w.pg.psql("SELECT broken || '|' || words FROM (%s) r (checked, broken, words)" % statement).split("|", 1)
        need(broken == "0", "%s: %s", rule.head["rule"], words)


def consistent(w):
    def clean():
        out = w.spotctl("doctor", "--consistency", "-o", "json")
        consistent.words = out.stdout + out.stderr
        return out.returncode == 0
    w.until("spotctl doctor --consistency is clean", 40, lambda: clean() or None)


# ---- the money -------------------------------------------------------------------------------

# A lost rank takes the work of the others with it, but for their last common save.
NOT_BILLED = """
SELECT (SELECT count(*) FROM node WHERE launched_us IS NOT NULL AND billed_to_us IS DISTINCT FROM ended_us AND ended_us < %(by)d)
    + (SELECT count(*) FROM attempt WHERE NOT settled OR ended_us IS NULL)
    + (SELECT count(*) FROM attempt a JOIN node n0 ON n0.id = a.node_id WHERE a.started_us IS NOT NULL AND (a.exit_reason = 'lost' OR a.exit_reason = 'killed' AND EXISTS (
            SELECT FROM attempt o WHERE (o.job_id, o.epoch, o.exit_reason) = (a.job_id, a.epoch, 'lost')))
        AND NOT EXISTS (SELECT FROM ledger l WHERE l.node_id = a.node_id AND l.kind IN ('lost_work', 'credit'))
        AND n0.billed_to_us > n0.launched_us AND n0.ended_us < %(by)d
        AND coalesce((SELECT max(CASE WHEN c.set_key IS NULL THEN c.committed_us ELSE c.set_us END) FROM checkpoint c
                WHERE (c.job_id, c.epoch, c.rank, c.state) = (a.job_id, a.epoch, a.rank, 'COMMITTED')), a.started_us)
            < least(a.ended_us, (SELECT ended_us FROM node n WHERE n.id = a.node_id)))"""


# By the rows' own times: after a clock that was wrong a life may be longer than it was, or nothing.
TO_CREDIT = """
SELECT ref FROM node n WHERE ended_us - launched_us BETWEEN 1 AND 3599999999 AND ended_us < %(by)d
    AND NOT EXISTS (SELECT FROM ledger l WHERE l.node_id = n.id AND l.kind = 'credit')"""


def billed_whole(w, by_us=1 << 62):
    """Until the ledger is complete: every interval, lost work, credits."""
    w.until("everything is billed", 60, lambda: w.pg.psql(NOT_BILLED % {"by": by_us}) == "0")
    free = {i["instance"] for i in w.sim("GET", "/books")["instances"] if i["free_first_hour"]}
    w.until("what is free is credited", 40, lambda: not free & {r["ref"] for r in w.pg.rows(TO_CREDIT % {"by": by_us})})


def cost(price, origin, a, b):
    """Floor differences, so that the parts of an interval sum to the whole."""
    return price * (b - origin) // HOUR_US - price * (a - origin) // HOUR_US


def segments(prices, noted, a, b, known_by):
    """Returns [(from, to, price)] of [a, b): the newest price row in force at each moment, of those observed by then.
    Before the first row the price noted at the launch counts."""
    rows = [p for p in prices if p["observed_us"] <= known_by]
    cuts = sorted({a, b, *(p["effective_us"] for p in rows if a < p["effective_us"] < b)})
    out = []
    for x, y in zip(cuts, cuts[1:]):
        in_force = [p for p in rows if p["effective_us"] <= x]
        out.append((x, y, max(in_force, key=lambda p: p["observed_us"])["price_micros"] if in_force else noted))
    return out


def node_money(node, prices, lines):
    """The lines that stand tile the node's life, each priced as the rows say. Returns them."""
    taken = {r["reverses"] for r in lines if r["reverses"] and r["kind"] != "credit"}
    stand = sorted((r for r in lines if not r["reverses"] and r["id"] not in taken), key=lambda r: r["from_us"])
    at = node["launched_us"]
    for r in stand:
        need(r["from_us"] == at, "n%d: the ledger goes on at %d where %d was due", node["id"], r["from_us"], at)
        at = r["to_us"]
    need(at == node["ended_us"], "n%d: the ledger ends at %d, the node at %d", node["id"], at, node["ended_us"])
    expected = 0
    for r in stand:
        # A line that replaces another one knows only the prices that the other knew.
        first = min(x["at_us"] for x in lines if not x["reverses"] and x["from_us"] <= r["from_us"] and x["to_us"] >= r["to_us"])
        for x, y, price in segments(prices, node["price_micros"], r["from_us"], r["to_us"], first):
            need(price == r["price_micros"], "n%d: a line of %d micro-dollars an hour from %d, and the price rows say %d", node["id"],
                 r["price_micros"], x, price)
            expected += cost(price, node["launched_us"], x, y)
    got = sum(r["amount_micros"] for r in lines if r["kind"] != "credit")
    need(got == expected, "n%d: the ledger has %d micro-dollars, interval x price is %d", node["id"], got, expected)
    return stand


def misdated(node, inst, clock):
    """True: this machine began or ended while the daemon's clock was wrong, so its interval is not its provider's to the second. It is put right before it
    is billed: by whatever the clock was wrong, no life begins or ends minutes beside the machine's."""
    a, b = inst["from_us"], inst["to_us"]
    if (clock.showed(node["launched_us"], a - LATE_US, a, a), clock.showed(node["ended_us"], b, b + LATE_US, b)) == (0, 0):
        return False
    need(abs(node["launched_us"] - a) <= LATE_US and abs(node["ended_us"] - b) <= LATE_US, "n%d was billed %d..%d, its provider bills %d..%d: a wrong clock "
         "was believed", node["id"], node["launched_us"], node["ended_us"], a, b)
    return True


def provider_money(node, stand, inst, lag_us):
    """The same interval as the provider's own bill: equal but for its rounding and for prices that we heard of late."""
    a, b = inst["from_us"], inst["to_us"]
    need(node["launched_us"] <= a and node["ended_us"] >= b or a >= b, "n%d was billed %d..%d, its provider bills %d..%d", node["id"],
         node["launched_us"], node["ended_us"], a, b)
    ours = sum(cost(r["price_micros"], node["launched_us"], max(a, r["from_us"]), min(b, r["to_us"])) for r in stand
               if max(a, r["from_us"]) < min(b, r["to_us"]))
    steps = [s["usd_micros_per_hour"] for s in inst["segments"]]
    late = sum(abs(x - y) for x, y in zip(steps, steps[1:])) * lag_us // HOUR_US
    slack = len(steps) + len(stand) + late
    need(abs(ours - inst["cost_micros"]) <= slack, "n%d: of its provider's interval we have %d micro-dollars, its bill says %d", node["id"], ours,
         inst["cost_micros"])


def bills(books, nodes):
    """{node's id: its machine's line in the provider's bill}; by which of its names we know a machine differs by cloud. CoreWeave
    bills the machines of a pool, and which of them a Pod had is gone with the Pod."""
    found = {}
    if all(i["provider"] == "coreweave" for i in books["instances"]):
        return found
    for node in nodes:
        if not node["ref"]:
            continue
        names = {node["ref"], node["ref"].split("/")[-1], node["name"]}
        lines = [i for i in books["instances"] if names & {i["instance"], i["name"], i["token"]}]
        need(len(lines) == 1, "n%d (%s) is %d times in the provider's bill: %s", node["id"], node["ref"], len(lines), books["instances"])
        found[node["id"]] = lines[0]
    billed = {i["instance"] for i in books["instances"]}
    known = {i["instance"] for i in found.values()}
    need(billed == known, "the provider bills %s, we know %s", sorted(billed), sorted(known))
    return found


def money(w, books, lag_us=30 * 1000 * 1000, clock=None, by_us=1 << 62):
    nodes = w.pg.rows("SELECT id, ref, name, pool_id, price_micros, launched_us, ended_us, billed_to_us, state FROM node")
    lines, prices = {}, {}
    for r in w.pg.rows("SELECT id, at_us, kind, node_id, from_us, to_us, price_micros, amount_micros, reverses FROM ledger ORDER BY id"):
        lines.setdefault(r["node_id"], []).append(r)
    for p in w.pg.rows("SELECT pool_id, observed_us, effective_us, price_micros FROM price_point WHERE pool_id IN (SELECT pool_id FROM node)"):
        prices.setdefault(p["pool_id"], []).append(p)
    theirs = bills(books, nodes)
    total, wrong = 0, []
    for node in nodes:
        mine = lines.get(node["id"], [])
        total += sum(r["amount_micros"] for r in mine)
        if not node["ref"]:
            need(not mine, "n%d never had an instance and was billed", node["id"])
            continue
        inst = theirs.get(node["id"])
        if inst and clock and misdated(node, inst, clock):
            wrong.append("n%d %+d s" % (node["id"], (node["ended_us"] - node["launched_us"] - inst["to_us"] + inst["from_us"]) / 1e6))
        if node["ended_us"] >= by_us:
            continue
        stand = node_money(node, prices.get(node["pool_id"], []), mine)
        if not inst:
            continue
        if not wrong or not wrong[-1].startswith("n%d " % node["id"]):
            provider_money(node, stand, inst, lag_us)
        rest = sum(r["amount_micros"] for r in mine)
        credited = any(r["kind"] == "credit" for r in mine)
        free = inst["free_first_hour"] and 0 < node["ended_us"] - node["launched_us"] < HOUR_US
        need(credited == free, "n%d: credited %s, and its provider's free hour is %s", node["id"], credited, free)
        need(not credited or rest == 0, "n%d: credited, and %d micro-dollars stand", node["id"], rest)
    shown = w.api("GET", "/v1/cost?by=job&until=2100-01-01T00:00:00Z")["totals"]["total_micros"]
    need(shown == total, "the cost shown is %d, the ledger has %d", shown, total)
    if clock:
        w.tell("%d of %d machines compared with the provider's bill; too long or too short by the clock's fault alone: %s" % (
            len(nodes) - len(wrong), len(nodes), ", ".join(wrong) or "none"))
        need(len(nodes) > len(wrong), "no machine has its provider's interval")
    return len(nodes), len(books["instances"]), total, sum(i["cost_micros"] for i in books["instances"] if not i["free_first_hour"])


def money_now(w):
    money(w, w.sim("GET", "/books"))


# ---- all of it -------------------------------------------------------------------------------

def judge(w, clock=None):
    """clock: the daemon's, wrong at times: its rows' times cannot be compared with those of others then."""
    books = nothing_left(w)
    jobs_whole(w)
    progress_kept(w, clock is None)
    # Time that by the rows ends hours from now is billed then.
    by_us = int(time.time() * 1e6) if clock else 1 << 62
    billed_whole(w, by_us)
    if not clock:
        rules_kept(w)
    try:
        consistent(w)
    except Exception as e:
        raise Broken("%s\n%s" % (e, consistent.words)) from e
    nodes, machines, total, bill = money(w, books, clock=clock, by_us=by_us)
    w.tell("judged: %d jobs whole, %d machines gone, none twice, ledger %d micro-dollars = intervals x prices (the provider's own intervals: %d)" % (
        len(w.jobs), machines, total, bill))

