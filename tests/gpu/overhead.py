"""The agent's cost: processor time, and steps of a job beside it."""
import glob
import os
import re
import tempfile
import time
from pathlib import Path

import fake
from gpu_case import HIDDEN, TRAIN, GpuCase, bare, figure
from moving import calibrate

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
ROUNDS = 2


class Overhead(GpuCase):
    def processor_s(self):
        """Of the agent, its helper and the job's supervisor; ended children count with their parents."""
        total = 0.0
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                text = Path(path).read_text()
                name = text.split("(", 1)[1].rsplit(")", 1)[0]
                v = text.rsplit(") ", 1)[1].split()
                if name in ("spot-agent", "spot-nvml") and self.is_ours(int(text.split(" ", 1)[0]), int(v[1])):
                    total += self.seconds_of(os.path.dirname(path), v)
            except OSError:
                continue
        return total

    @staticmethod
    def seconds_of(process, v):
        """In nanoseconds where the kernel has them, else in ticks."""
        try:
            return int(Path(process, "schedstat").read_text().split()[0]) / 1e9
        except (OSError, IndexError):
            return (int(v[11]) + int(v[12])) * TICK_S

    def is_ours(self, pid, parent):
        return self.agent.process.pid in (pid, parent) or pid in fake.pids_of(self.agent.home)

    def test_the_agent_costs_little(self):
        steps = calibrate()
        command = ("--hidden", HIDDEN, "--steps", steps, "--report-every", steps)
        alone, beside = [], []
        self.agent.start()
        self.until(lambda: self.daemon.samples and self.daemon.samples[-1]["gpus"] > 0, "GPUs", 90)
        began, spent = time.monotonic(), self.processor_s()
        self.until(lambda: time.monotonic() > began + 5, "some seconds", 60)
        figure("processor time of an idle agent with a sample a second", 100 * (self.processor_s() - spent) / (time.monotonic() - began), "%")
        for i in range(ROUNDS):
            self.agent.crash()
            alone.append((self.alone(command), self.alone(command, tells=True)))
            self.agent.start()
            beside.append(self.under_the_agent(command, i + 1))
        without, telling = (steps / min(x[i] for x in alone) for i in (0, 1))
        with_agent = steps / min(beside)
        figure("steps a second without the agent", without)
        figure("the same with a progress file", telling)
        figure("steps a second as a job of the agent", f"{with_agent:.3f} ({100 * with_agent / without - 100:+.2f} %)")
        self.assertGreater(with_agent, 0.95 * without)

    def alone(self, command, tells=False):
        """Seconds."""
        with tempfile.TemporaryDirectory() as where:
            more = {"SPOT_PROGRESS_FILE": os.path.join(where, "progress")} if tells else {}
            return bare(where, *command, **more)[0]

    def under_the_agent(self, command, n):
        """Seconds."""
        run, job = " ".join(map(str, command)), f"o{n}"
        began, spent = time.monotonic(), self.processor_s()
        self.job(f"a=$(date +%s%N); '{TRAIN}' {run}; b=$(date +%s%N); echo took $((b-a))", job=job)
        self.until_log("took", job=job, timeout=180)
        figure("processor time of the agent beside a job", 100 * (self.processor_s() - spent) / (time.monotonic() - began), "%")
        took = int(re.search(r"took (\d+)", self.daemon.log(job, 1).decode()).group(1)) / 1e9
        self.exited(job=job)
        self.daemon.want("idle")
        return took
