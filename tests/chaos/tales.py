"""The workload during a story: jobs (the default tale), a job of several nodes, standing capacity. Each returns when
all requests are over, and leaves its expectations to the judge: World.jobs, World.gangs."""
import os
import sys

import chaos
from support import e2e
from chaos import Failure
from judge import need

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration", "e2e"))
import e2e_gang  # noqa: E402

RANKS = 3
FLEET = """name: chaos-fleet
nodes: %d
team: research
project: e2e
resources:
  accelerators: {%s}
  use_spot: true
limits: {per_pool: 2}
"""
told = "jobs"


def tale(w, **more):
    TALES[told](w, **more)


def jobs(w, steps=200, reclaims=1):
    """A job that its provider takes the machine from, and one beside it."""
    w.prices()
    b = w.submit(name="beside", steps=steps // 4, step_ms=25, interval="2s")
    a = w.submit(name="moved", steps=steps, step_ms=25, interval="2s")
    w.tell("submitted %s and %s" % (a, b))
    for k in range(reclaims):
        take(w, a, 20 + 40 * k)
    over(w, a, b)


def over(w, *wanted):
    for job in wanted:
        j = w.await_end(job, 400)
        w.tell("%s %s after %d attempts, %s steps" % (job, j["state"], j["attempts"], j["steps_done"]))


def take(w, job, steps, rank=0, dies=False):
    """The provider takes the job's machine once it has done so many steps; a job that was faster is let go. dies: without a notice."""
    def far():
        j = w.job(job)
        if j["state"] in e2e.TERMINAL:
            return j
        return j if j["state"] == "RUNNING" and j["node"] and w.local_steps(job, j["node"]) >= steps else None
    j = w.until("%s at step %d" % (job, steps), 180, far)
    at = [a for a in j["attempts_list"] if (a["epoch"], a["rank"]) == (j["epoch"], rank)] if j["node"] else []
    if not at or not take_node(w, at[0]["node"], dies):
        w.tell("%s was faster than its provider" % job)
    else:
        w.tell("%s was at step %d" % (job, w.local_steps(job, j["node"])))


def take_node(w, node, dies=False):
    """False: it has no machine any more."""
    machine = w.clouds.machine(w.node(node))
    if not machine or machine["id"] not in [i["id"] for i in w.instances(live=True)]:
        return False
    if dies or chaos.cloud == "lambda":  # nobody takes a machine there; it can fail
        w.sim("POST", "/kill", {"instance": machine["id"]})
        w.tell("%s (%s) dies" % (machine["id"], node))
    else:
        w.sim("POST", "/reclaim", {"instance": machine["id"], "notice_s": 6})
        w.tell("%s (%s) is being taken" % (machine["id"], node))
    return True


def submit_gang(w, steps):
    """Its ranks meet at each step, so none does without the others; each tells its sum at the end."""
    meet = os.path.join(w.dir, "meet")
    os.makedirs(meet, exist_ok=True)
    os.chmod(meet, 0o777)
    with open(os.path.join(os.path.dirname(e2e_gang.__file__), "gang_train.py"), "rb") as f:
        w.store.put("e2e/gang-train", f.read())
    job = w.ctl("job", "submit", "-", text=e2e_gang.JOB.format(
        gpus=chaos.CLOUDS[chaos.cloud].get("gpus", "A10G: 1"), spot="true" if chaos.CLOUDS[chaos.cloud].get("spot", True) else "false",
        train=w.store.uri("e2e/gang-train"), steps=steps, step_ms=25, meet=meet, pause=1, more="", interval="2s", ours="    work: 2h",
        resources=""))
    w.jobs[job] = steps
    w.gangs[job] = (RANKS, meet)
    return job


def gang(w, steps=160):
    """A job of three nodes: one machine is taken with a notice, later another one dies without; and a single job beside it."""
    w.prices()
    b = w.submit(name="beside", steps=steps // 4, step_ms=25, interval="2s")
    a = submit_gang(w, steps)
    w.tell("submitted %s of %d nodes and %s" % (a, RANKS, b))
    take(w, a, 20, rank=1)
    take(w, a, 90, rank=2, dies=True)
    over(w, a, b)


def submit_fleet(w, nodes):
    text = FLEET % (nodes, chaos.CLOUDS[chaos.cloud].get("gpus", "A10G: 1, L4: 1, T4: 1"))
    made = w.ctl("fleet", "create", "-", "-o", "name", text=text)
    w.tell("%s of %d nodes" % (made, nodes))
    return made


def fleet(w, steps=80):
    """Three nodes that stand by. A job runs on them, one is reclaimed and one dies, and both are replaced. One is given
    back, then all."""
    w.prices()
    mine = submit_fleet(w, 3)

    def ready(n):
        def look():
            nodes = [x for x in w.nodes(query="&fleet=" + mine) if x["state"] in ("WANTED", "LAUNCHING", "UNKNOWN", "BOOTING", "READY")]
            return nodes if len(nodes) == n and all(x["state"] == "READY" for x in nodes) else None
        return w.until("%d ready nodes of the fleet" % n, 180, look)
    first = ready(3)
    job = w.submit(name="on-the-fleet", steps=steps, step_ms=25, interval="2s", ours="work: 1h\nfleet: chaos-fleet")
    taken = [n["id"] for n in first[:2] if take_node(w, n["id"], dies=n is first[1])]
    made_good = w.until("%s are made good" % taken, 180, lambda: (
        lambda now: now if not {n["id"] for n in now} & set(taken) else None)(ready(3)))
    w.tell("again 3 nodes: %s" % sorted(n["id"] for n in made_good))
    over(w, job)
    w.api("PATCH", "/v1/fleets/" + mine, {"nodes": 2})
    ready(2)
    w.api("DELETE", "/v1/fleets/" + mine)
    w.until("the fleet is closed", 120, lambda: w.api("GET", "/v1/fleets/" + mine)["state"] == "CLOSED")
    bought = len(w.sim("GET", "/books")["instances"])
    need(bought == 3 + len(taken), "%d machines were bought for 3 nodes of which %d were taken", bought, len(taken))


TALES = {"jobs": jobs, "gang": gang, "fleet": fleet}


def tell_of(words):
    """Each is a cloud or a tale."""
    global told
    for word in words:
        if word in TALES:
            told = word
        elif word in chaos.CLOUDS:
            chaos.cloud = word
        else:
            raise Failure("neither a cloud nor a tale: %s" % word)
