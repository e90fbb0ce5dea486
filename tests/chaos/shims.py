"""The shim that is preloaded into a program (shim.c), and the script that nodes download as their agent."""
import os
import struct
import time

from support import e2e


def shim_env(kind, at, every, program, mark, port=0):
    return {"LD_PRELOAD": os.path.join(e2e.BUILD, "tests/chaos/spot_chaos_shim.so"), "SPOT_SHIM": "%s:%s:%s" % (kind, at, every),
            "SPOT_SHIM_PROGRAM": program, "SPOT_SHIM_DB_PORT": str(port), "SPOT_SHIM_MARK": mark}


class Clock:
    """The wall clock of a program that has this environment: ahead of ours by the last value of set(). It knows its
    error at each past moment."""

    def __init__(self, path, program):
        self.path = path
        self.spans = []  # (since, until, ahead by), in microseconds of ours; neighbours overlap by the time that setting took
        self.env = {"LD_PRELOAD": os.path.join(e2e.BUILD, "tests/chaos/spot_chaos_shim.so"), "SPOT_SHIM_PROGRAM": program, "SPOT_SHIM_CLOCK": path}
        self.set(0)

    def set(self, seconds):
        ahead, began = int(seconds * 1e6), int(time.time() * 1e6)
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb", buffering=0) as f:
            f.write(struct.pack("=q", ahead))
        if self.spans:
            self.spans[-1] = (self.spans[-1][0], int(time.time() * 1e6), self.spans[-1][2])
        self.spans.append((began, 1 << 62, ahead))

    def showed(self, shown_us, since_us, until_us, near_us):
        """Returns the clock's error when it showed this, at a moment of [since, until]. If there are several, returns
        the one nearest to near_us; None: it never showed it."""
        found = [ahead for a, b, ahead in self.spans if max(a, since_us) <= shown_us - ahead <= min(b, until_us)]
        return min(found, key=lambda ahead: abs(shown_us - ahead - near_us), default=None)


def marks(path):
    try:
        with open(path, encoding="ascii") as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def wrap_agent(w, env):
    """Makes nodes download a script as their agent, which preloads the shim and becomes the agent."""
    place_agent(w, "#!/bin/sh\n%s\nexec %s \"$@\"\n" % (
        "\n".join("export %s='%s'" % kv for kv in env.items()), os.path.join(w.dir, "spot-agent")))


def place_agent(w, script):
    folder = os.path.join(w.dir, "agents")
    os.rename(os.path.join(folder, "spot-agent"), os.path.join(w.dir, "spot-agent"))
    with open(os.path.join(folder, "spot-agent"), "w", encoding="utf-8") as f:
        f.write(script)
    os.chmod(os.path.join(folder, "spot-agent"), 0o755)
    os.chmod(w.dir, 0o755)
