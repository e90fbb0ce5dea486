"""Stories of daemons that are away: asleep, cut off, in another time."""
import os
import random
import signal
import threading

from support import e2e
from chaos import Balancer, Worlds, skip, trouble
from judge import judge, need
from net import Net
from shims import Clock, wrap_agent
from stories_node import long_job
from tales import over, take, tale


def story_leader(seed, pause_s="12"):
    """The leader sleeps (SIGSTOP) for many leases and wakes up as if nothing had been, while another one acts; again and again."""
    rng = random.Random(int(seed))
    alive = {}
    front = Balancer(lambda: ("127.0.0.1", alive["port"]))
    with Worlds(settings={"api": {"public_url": "http://127.0.0.1:%d" % front.port}}, plan=lambda w: alive.update(port=w.port)) as w:
        first = w.daemon
        first.port = w.port
        other = w.second()
        w.port = front.port
        w.prices()
        b = w.submit(name="beside", steps=150, step_ms=25, interval="2s")
        # Longer than two of the sleeps, so that it runs when the third begins.
        a = w.submit(name="moved", steps=700 + int(80 * float(pause_s)), step_ms=25, interval="2s")
        take(w, a, 20)
        sleeper, waker = first, other
        for _ in range(3):
            leads = w.pg.rows("SELECT epoch, holder FROM leader WHERE name = 'engine'")[0]
            sleeper, waker = (first, other) if leads["holder"].endswith("/%d" % first.proc.pid) else (other, first)
            w.until("the other is ready", 60, lambda: ready(waker.port))
            sleeper.signal(signal.SIGSTOP)
            alive["port"] = waker.port
            front.cut_all()
            w.until("the other leads", 30, lambda: w.pg.rows("SELECT epoch FROM leader WHERE name = 'engine'")[0]["epoch"] > leads["epoch"])
            w.tell("%s sleeps, %s leads" % (sleeper.name, waker.name))
            if w.job(a)["state"] == "RUNNING":
                take(w, a, w.job(a)["steps_done"] + 10)
            threading.Event().wait(float(pause_s) * rng.uniform(0.5, 1))  # the sleep is the story: nothing announces its length
            sleeper.signal(signal.SIGCONT)
            w.until("it has heard of it", 30, lambda: w.pg.rows("SELECT epoch FROM leader WHERE name = 'engine'") and ready(sleeper.port))
        for job in (a, b):
            j = w.await_end(job, 240)
            w.tell("%s %s after %d attempts" % (job, j["state"], j["attempts"]))
        judge(w)
        front.stop()


def ready(port):
    try:
        return e2e.plain_http("GET", "http://127.0.0.1:%d/readyz" % port, timeout=5)[0] == 200
    except OSError:
        return False


# ---- networks -----------------------------------------------------------------------------------

def story_partition(link, seconds):
    """The daemon loses its way to LINK (clouds, agents, database) for SECONDS while a job runs: packets vanish, nothing is refused.
    A job that is well at its node stays there."""
    if not Net.possible():
        skip("no network namespaces and bridges here")
    net = Net(("control", "clouds", "agents", "database"))
    try:
        with Worlds(net=net) as w:
            partition(w, net, link, float(seconds))
    finally:
        net.close()


def partition(w, net, link, seconds):
    job, node, ref = long_job(w, int(seconds * 40) + 600)
    watched = {"clouds": lambda: w.counted("ec2", "DescribeInstances"), "database": lambda: w.proxy.count,
               "agents": lambda: net.heard("agents")}[link]
    before = watched()
    w.until("traffic", 40, lambda: watched() > before)
    net.cut(link, True)
    w.tell("the way to %s is cut at step %d" % (link, w.local_steps_of(ref, job)))
    before = None
    while before != watched():  # data on its way arrives
        before = watched()
        threading.Event().wait(2)
    threading.Event().wait(seconds)  # the cut is the story: nothing announces its length
    need(watched() == before, "the way to %s was not cut: %d then, %d now", link, before, watched())
    at = w.local_steps_of(ref, job)
    net.cut(link, False)
    w.tell("healed at step %d" % at)
    need(any(i["id"] == ref for i in w.instances(live=True)), "the job's machine was ended while it was well")
    j = w.await_end(job, 240)
    need((j["attempts"], j["lost_steps"]) == (1, 0), "a healthy job was moved: %d attempts, %d steps lost", j["attempts"], j["lost_steps"])
    judge(w)


# ---- clocks -------------------------------------------------------------------------------------

JUMPS_S = (10, 600, 4 * 3600)


def story_clock(who, seed):
    """The wall clock of WHO (daemon, agents) is set wrong by seconds, minutes or hours, ahead or back, and right again; all the time."""
    rng = random.Random(int(seed))
    clocks = []

    def wrong_clocks(w):
        clock = Clock(os.path.join(w.dir, "clock"), {"daemon": "spotd", "agents": "spot-agent"}[who])
        os.chmod(clock.path, 0o644)
        clocks.append(clock)
        if who == "daemon":
            w.first_extra = clock.env
        else:
            wrap_agent(w, clock.env)
    with Worlds(plan=wrong_clocks) as w:
        jumps = []

        def jump(over):
            while not over.wait(rng.uniform(0.3, 1.5)):
                jumps.append(rng.choice((1, -1)) * rng.uniform(1, rng.choice(JUMPS_S)))
                clocks[0].set(jumps[-1])
                over.wait(rng.uniform(0.3, 2))
                clocks[0].set(0)
        with trouble(jump):
            tale(w, steps=400)
        w.tell("%d jumps, by %s seconds" % (len(jumps), " ".join("%d" % s for s in jumps)))
        need(len(jumps) >= 3, "only %d jumps", len(jumps))
        if who == "daemon":  # a machine of now has the interval that its provider bills, whatever the clock was before
            w.until("the machines are gone", 120, lambda: not w.nodes())
            over(w, w.submit(name="after", steps=50, step_ms=25, interval="2s"))
        judge(w, clock=clocks[0] if who == "daemon" else None)
