"""Shared by the suite's tests: one agent on this machine's GPUs, the amount of computing, figures that are printed at
the end."""
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration", "agent"))
import case  # noqa: E402
import fake  # noqa: E402

AGENT, TRAIN, LOAD = sys.argv[1:4] if len(sys.argv) > 3 else ("", "", "")


def size(name, default):
    return int(os.environ.get("SPOT_GPU_" + name) or default)


HIDDEN = size("HIDDEN", 32768)                  # of the model that is moved: 8.5 MiB with its momenta
LARGE_HIDDEN = size("LARGE_HIDDEN", 1 << 22)    # the largest that the example takes: 1.1 GiB
LARGE_STEPS = size("LARGE_STEPS", 16)
MIB = size("MIB", 8192)                         # held while samples are looked at
SAVE_MIB = size("SAVE_MIB", 4096)               # saved on notice
SECONDS = size("SECONDS", 8)                    # about how long an uninterrupted run takes
FIGURES = []


def figure(what, value, unit=""):
    FIGURES.append(f"{what}: {value:.3f} {unit}" if isinstance(value, float) else f"{what}: {value} {unit}")
    sys.stderr.write("  " + FIGURES[-1].strip() + "\n")


def print_figures():
    print("\nfigures")
    for line in FIGURES:
        print("  " + line.strip())


def bare(directory, *args, **env):
    """The example without an agent: seconds, and its output."""
    began = time.monotonic()
    r = subprocess.run([TRAIN, "--dir", directory, *map(str, args)], env=dict(os.environ, **env), check=True, capture_output=True,
                       text=True, timeout=300)
    return time.monotonic() - began, r.stdout


def processor_of(pid):
    """Seconds of a process, and of its children that have ended."""
    with open(f"/proc/{pid}/stat") as f:
        v = [int(x) / os.sysconf("SC_CLK_TCK") for x in f.read().rsplit(") ", 1)[1].split()[11:15]]
    return v[0] + v[1], v[2] + v[3]


def sha_of(text):
    return re.search(r"^sha256 ([0-9a-f]{64})$", text, re.M).group(1)


class GpuCase(case.AgentCase):
    # Of the image: where the driver's libraries are, if the loader does not know it by itself.
    libs = {"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"]} if os.environ.get("LD_LIBRARY_PATH") else {}

    def setUp(self):
        super().setUp()
        self.agent.more_env = dict(self.libs)
        self.gone = []      # agents before the present one, with their logs

    def tearDown(self):
        folder = os.environ.get("SPOT_GPU_OUT")
        if folder:
            with open(os.path.join(folder, "agents.log"), "a") as f:
                f.write(f"== {self.id()}\n{''.join(self.gone)}{self.agent.consoles()}")
                f.write(f"last samples: {json.dumps(self.daemon.samples[-3:])}\n{self.daemon.story()}\n")

    def job(self, run, job="j1", epoch=1, **more):
        more.setdefault("num_gpus", 1)
        more["checkpoint"] = {"budget_s": 120, "kill_after_s": 60, **more.get("checkpoint", {})}
        return super().job(run, job, epoch, **more)

    def train(self, *args, **more):
        return self.job(f"exec '{TRAIN}' " + " ".join(map(str, args)), **more)

    def load(self, *args, **more):
        return self.job(f"exec '{LOAD}' " + " ".join(map(str, args)), **more)

    def until_steps(self, n, epoch=1, timeout=120):
        path = os.path.join(self.agent.job_dir("j1", epoch), "progress", "steps")

        def read():
            try:
                with open(path) as f:
                    return int(f.read().split()[0])
            except (OSError, IndexError, ValueError):
                return 0
        return self.until(lambda: read() >= n and read(), f"step {n}", timeout)

    def pids_of_job(self):
        return [int(x) for x in re.findall(r"^pid (\d+) holds", self.daemon.log("j1", 1).decode(), re.M)]

    def committed(self):
        return [c for c in self.daemon.checkpoints.values() if c["committed"]]

    def sample(self, condition, what, timeout=60):
        """The first sample from now on that is as wanted."""
        n = len(self.daemon.samples)
        return self.until(lambda: next((s for s in self.daemon.samples[n:] if condition(s)), None), what, timeout)

    def files_of(self, checkpoint):
        """A committed checkpoint as the files of the next attempt."""
        files = {}
        for c in sorted(checkpoint["chunks"], key=lambda c: (c["path"], c["seq"])):
            f = files.setdefault(c["path"], {"root": "checkpoint", "path": c["path"], "mode": c["mode"], "bytes": 0, "chunks": []})
            f["bytes"] += c["bytes"]
            f["chunks"].append({"url": f"{self.daemon.url}/objects/{c['sha256']}?signed=1", "bytes": c["bytes"], "sha256": c["sha256"]})
        return list(files.values())

    def stored(self, checkpoint, path):
        return b"".join(self.daemon.objects[c["sha256"]]
                        for c in sorted(checkpoint["chunks"], key=lambda c: c["seq"]) if c["path"] == path)

    def another_machine(self):
        """The node is gone, and another one with a directory of its own takes its place."""
        self.agent.crash()
        self.gone.append(self.agent.consoles())
        self.agent.close()
        if self.metadata:
            self.metadata.keys.pop("/latest/meta-data/spot/instance-action", None)
        self.daemon.want("idle")
        self.agent = fake.Agent(AGENT, self.daemon, self.metadata)
        self.agent.more_env = dict(self.libs)
        self.addCleanup(self.agent.close)
        self.agent.start()
