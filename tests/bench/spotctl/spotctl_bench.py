#!/usr/bin/env python3
"""Whole-process time of spotctl against a warm API, and of curl fetching the same route: spotctl_bench.py SPOTCTL APID.
The store holds 100, 1,000 and 10,000 jobs. Both are spawned alternately, output to /dev/null. The time is from
posix_spawn to the reaped end. `--help` needs no server. curl prints the reply; spotctl makes a table of it."""
import http.client
import os
import shutil
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from support import apid  # noqa: E402

RUNS = int(os.environ.get("BENCH_RUNS", "60"))
JOB = """name: bench
resources:
  accelerators: V100:1
  use_spot: true
run: ./train.sh
"""


def once(argv, env):
    out = os.open(os.devnull, os.O_WRONLY)
    t0 = time.monotonic()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, out, 2)])
    status = os.waitpid(pid, 0)[1]
    ms = (time.monotonic() - t0) * 1000
    os.close(out)
    if status != 0:
        sys.exit("%s ended with status %d" % (" ".join(argv[:3]), os.waitstatus_to_exitcode(status)))
    return ms


def percentiles(all_ms):
    s = sorted(all_ms)
    return "p50 %.1f ms, p99 %.1f ms" % (s[len(s) // 2], s[min(len(s) - 1, (len(s) * 99 + 99) // 100 - 1)])


def pair(what, ours, theirs, env):
    """ours and theirs alternate, so that a busy machine hurts both."""
    a, b = [], []
    for _ in range(RUNS):
        a.append(once(ours, env))
        b.append(once(theirs, env))
    print("%s, %d runs: spotctl %s; curl %s" % (what, RUNS, percentiles(a), percentiles(b)), flush=True)


def main():
    spotctl, program = sys.argv[1:3]
    curl = shutil.which("curl")
    if curl is None:
        print("no curl: skipped")
        sys.exit(77)
    daemon, info = apid.start(program)
    url = "http://127.0.0.1:%d" % info["port"]
    token = os.path.join("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp", "spotctl-bench-%d" % os.getpid())
    auth = {"Authorization": "Bearer " + info["token"]}
    with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        f.write(info["token"] + "\n")
    with open(os.open(token + ".curl", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        f.write('header = "Authorization: Bearer %s"\n' % info["token"])
    env = dict(os.environ, SPOTCTL_URL=url, SPOTCTL_TOKEN_FILE=token, NO_COLOR="1")
    fetch = [curl, "-sf", "-K", token + ".curl"]
    try:
        wire = http.client.HTTPConnection("127.0.0.1", info["port"])
        print("--help, %d runs: spotctl %s" % (RUNS, percentiles([once([spotctl, "--help"], env) for _ in range(RUNS)])))
        pair("whoami", [spotctl, "whoami"], fetch + [url + "/v1/whoami"], env)
        jobs = 0
        for size in (100, 1000, 10000):
            t0, first = time.monotonic(), jobs
            while jobs < size:
                wire.request("POST", "/v1/jobs", JOB, dict(auth, **{"Content-Type": "application/yaml"}))
                r = wire.getresponse()
                r.read()
                if r.status != 201:
                    sys.exit("POST /v1/jobs: %d" % r.status)
                jobs += 1
            print("submit, one connection, one after the other: %.0f jobs/s" %
                  ((jobs - first) / (time.monotonic() - t0)), flush=True)
            pair("job ls --limit 100 of %d" % jobs, [spotctl, "job", "ls", "--limit", "100"],
                 fetch + [url + "/v1/jobs?limit=100"], env)
            pair("job show of %d" % jobs, [spotctl, "job", "show", "j1"], fetch + [url + "/v1/jobs/j1"], env)
    finally:
        os.unlink(token)
        os.unlink(token + ".curl")
        daemon.stdin.close()
        daemon.wait(60)


main()
