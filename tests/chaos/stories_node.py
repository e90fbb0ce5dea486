"""Stories of a node's faults."""
import contextlib
import os
import random
import signal
import subprocess
import threading

from support import e2e
from chaos import Worlds, full_disk, skip, small_disk
from judge import judge, need
from shims import place_agent
from tales import submit_fleet


def long_job(w, steps=400, interval="2s"):
    w.prices()
    job = w.submit(name="long", steps=steps, step_ms=25, interval=interval)
    j = w.await_steps(job, 10, 150)
    return job, j["node"], w.node(j["node"])["ref"]


def agents_of(w, ref):
    """Pids of the agent program, not of the script that keeps it nor of the job's own shim."""
    found = []
    for pid in w.tree(ref):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/spot-agent") and b"--dir" in words:
            found.append(pid)
    return found


def story_agent_kill(seed):
    """kill -9 of the agent again and again; its keeper starts it. The job does not notice: one attempt, nothing lost."""
    rng = random.Random(int(seed))
    with Worlds() as w:
        job, node, ref = long_job(w, 800)
        kills, at = 0, 10
        while kills < 5:
            at += rng.randrange(20, 120)
            j = w.until("%s at step %d" % (job, at), 90, lambda: (
                lambda j: j if j["state"] in e2e.TERMINAL or j["node"] and w.local_steps(job, node) >= at else None)(w.job(job)))
            if j["state"] in e2e.TERMINAL:
                break
            pids = w.until("an agent", 40, lambda: agents_of(w, ref))
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            kills += 1
            w.tell("agent killed at step %d" % w.local_steps(job, node))
        j = w.await_end(job, 180)
        need(kills >= 2, "only %d kills", kills)
        need((j["attempts"], j["lost_steps"]) == (1, 0), "a healthy job was moved: %d attempts, %d steps lost", j["attempts"], j["lost_steps"])
        judge(w)


# A machine that starts has another boot id; here each start of an instance's programs has, by the number of their ancestor.
BOOT = """#!/bin/sh
printf '00000000-0000-4000-8000-%%012d\n' "$(cat "$HOME/init.pid")" >"$HOME/boot_id"
exec unshare -m sh -c 'mount --bind "$HOME/boot_id" /proc/sys/kernel/random/boot_id && exec "$0" "$@"' %s "$@"
"""


def boots(w):
    place_agent(w, BOOT % os.path.join(w.dir, "spot-agent"))


def story_reboot(seed):
    """The machine loses power and comes back, its disk as it was: the job resumes from its last commit."""
    rng = random.Random(int(seed))
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        skip("no mount namespaces here, so no other boot id")
    with Worlds(plan=boots) as w:
        job, node, ref = long_job(w)
        for at in (rng.randrange(60, 120), rng.randrange(160, 240)):
            w.until("%s at step %d" % (job, at), 120, lambda: (lambda j: j["node"] and w.local_steps(job, j["node"]) >= at)(w.job(job)))
            ref = w.node(w.job(job)["node"])["ref"]
            w.sim("POST", "/kill", {"instance": ref, "what": "reboot"})
            w.tell("%s loses power at step %d" % (ref, at))
            w.sim_wait("agent_started", 30, instance=ref, count=2)
        j = w.await_end(job, 180)
        w.tell("%s after %d attempts, %d steps lost" % (j["state"], j["attempts"], j["lost_steps"]))
        judge(w)


# ---- a node's disk ----------------------------------------------------------------------------

# Starts the program again when it could not save, as launchers of real ones do.
STUBBORN = "until bin/spot-train --steps %d --step-ms 25 --seed 7; do sleep 0.2; done; exit 0"
QUIET = """name: quiet
resources:
  accelerators: {A10G: 1, L4: 1, T4: 1}
  use_spot: true
run: |
  while ! [ -e %s ]; do sleep 0.1; done
config: {spotctl: {team: research, project: e2e, work: 1h, fleet: chaos-fleet}}
"""


def story_node_disk(phase, seconds):
    """The disk of a node is full for SECONDS and then free again. It is full while the job's files are laid out
    (fetch), while it runs and saves (run), or when it ends (end). Nothing is wrong with the job: it stays, and
    succeeds."""
    with small_disk("96m") as top:
        def at_instances(w):
            os.symlink(top, os.path.join(w.dir, "cloud", "instances"))
        with Worlds(plan=at_instances) as w:
            w.prices()
            fleet = submit_fleet(w, 1)
            w.until("its node is ready", 120, lambda: [n for n in w.nodes(query="&fleet=" + fleet) if n["state"] == "READY"])
            job = {"fetch": disk_at_fetch, "run": disk_at_run, "end": disk_at_end}[phase](w, top, float(seconds))
            j = w.await_end(job, 240)
            w.tell("%s %s after %d attempts, %s steps: %s" % (job, j["state"], j["attempts"], j["steps_done"], j["why"]))
            need((j["attempts"], j["lost_steps"]) == (1, 0), "it was moved: %d attempts, %d steps lost", j["attempts"], j["lost_steps"])
            w.api("DELETE", "/v1/fleets/" + fleet)
            judge(w)


@contextlib.contextmanager
def full_for(w, top, seconds):
    """The body of the with statement begins on a full disk."""
    with full_disk(top):
        yield
        w.tell("the disk is full")
        threading.Event().wait(seconds)  # its length is the story: nothing announces it
    w.tell("there is room again")


def stubborn(w, steps):
    return w.submit(name="stubborn", steps=steps, step_ms=25, interval="2s", before=STUBBORN % steps, ours="work: 1h\nfleet: chaos-fleet")


def disk_at_fetch(w, top, seconds):
    with full_for(w, top, seconds):
        job = stubborn(w, 100)
        w.await_job(job, "it is given to the node", 60, lambda j: j["attempts"])
    return job


def disk_at_run(w, top, seconds):
    job = stubborn(w, 300)
    w.await_steps(job, 30)
    with full_for(w, top, seconds):
        pass
    return job


def disk_at_end(w, top, seconds):
    flag = os.path.join(w.dir, "flag")
    job = w.ctl("job", "submit", "-", text=QUIET % flag)
    w.jobs[job] = None  # it has no steps
    w.await_job(job, "it runs", 60, lambda j: j["state"] == "RUNNING")
    with full_for(w, top, seconds):
        os.mkdir(flag)
    return job
