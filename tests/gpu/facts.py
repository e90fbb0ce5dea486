"""The agent's facts about the GPUs, against nvidia-smi and the driver's library."""
import ctypes
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from driver import NOT_SUPPORTED, Nvml, smi
from gpu_case import AGENT, MIB, GpuCase, figure

HELPER = os.path.join(os.path.dirname(AGENT), "spot-nvml")


class Facts(GpuCase):
    def test_enrolment_tells_what_nvidia_smi_says(self):
        began = time.monotonic()
        self.agent.start()
        hw = self.until(lambda: self.daemon.enrols and self.daemon.enrols[0], "the enrolment", 60)["hw"]
        figure("start to enrolment", time.monotonic() - began, "s")
        want = [{"uuid": uuid, "name": name, "driver": driver, "mem_mib": int(mib)}
                for uuid, name, driver, mib in smi("uuid", "name", "driver_version", "memory.total")]
        figure("GPUs", "; ".join(f"{g['name']}, {g['mem_mib']} MiB, driver {g['driver']}" for g in want))
        self.assertEqual(hw["gpus"], want)
        self.assertNotIn("gpu_error", hw)
        self.assertNotIn("gpu_fault", hw)

    def test_cuda_is_started_before_a_machine_is_ready_and_it_starts(self):
        """That the helper has loaded and initialised CUDA says the loader, not the helper."""
        with tempfile.TemporaryDirectory() as where:
            env = dict(os.environ, LD_DEBUG="files", LD_DEBUG_OUTPUT=os.path.join(where, "ld"))
            p = subprocess.Popen([HELPER, "--interval", "1"], env=env, stdout=subprocess.PIPE, text=True)
            try:
                began, lines = time.monotonic(), []
                while not lines or "not_ready" in lines[-1]:
                    lines.append(json.loads(p.stdout.readline()))
                    self.assertNotIn("failed", lines[-1], lines)
                    self.assertLess(len(lines), 60, lines[-1])
                figure("helper's start to CUDA is ready", time.monotonic() - began, "s")
                figure("lines of the helper before that", len(lines) - 1)
            finally:
                p.kill()
                p.wait()
                p.stdout.close()
            told = "".join(Path(f).read_text(errors="replace") for f in glob.glob(os.path.join(where, "ld*")))
        found = re.findall(r"calling init: (\S*libcuda\.so\S*)", told)
        self.assertTrue(found, "the loader has not seen libcuda")
        figure("libcuda", found[0])
        cuda = ctypes.CDLL(found[0])
        self.assertEqual(cuda.cuInit(0), 0)

    def test_values_are_absent_where_the_driver_does_not_have_them(self):
        line = json.loads(subprocess.run([HELPER, "--once"], check=True, capture_output=True, text=True).stdout)
        nvml = Nvml()
        for i, gpu in enumerate(line["gpus"]):
            codes = nvml.codes(i)
            figure(f"GPU {i}: NVML's codes", codes)
            figure(f"GPU {i}: fabric (code, state, status)", nvml.fabric(i))
            for name, code in codes.items():
                self.assertEqual(name in gpu, code == 0, f"{name}: {code}")
                self.assertIn(code, (0, NOT_SUPPORTED, None))
        shown = dict(zip(("util", "power_mw", "temp_c"), smi("utilization.gpu", "power.draw", "temperature.gpu")[0]))
        for name, text in shown.items():
            self.assertEqual(name in line["gpus"][0], bool(re.match(r"[\d.]+$", text)), f"{name}: nvidia-smi says {text}")


class Samples(GpuCase):
    def test_samples_follow_what_a_program_does_to_the_gpu(self):
        self.agent.start()
        before = self.sample(lambda s: s["gpus"] > 0 and s["gpu_util"] <= 0.05, "an idle GPU", 90)
        gpus = smi("memory.total")
        self.assertEqual((before["gpus"], before["gpu_mem_total_mib"]), (len(gpus), sum(int(g[0]) for g in gpus)))
        self.load("--mib", MIB, "--busy")
        self.until_log("holds")
        busy = self.sample(lambda s: s["gpu_util"] * len(gpus) >= 0.9, "a busy GPU")
        self.sample(lambda s: s["gpu_mem_used_mib"] == busy["gpu_mem_used_mib"], "memory that stays as it is")
        rise = busy["gpu_mem_used_mib"] - before["gpu_mem_used_mib"]
        shown = sum(int(g[0]) for g in smi("memory.used"))
        figure("utilisation idle, busy", f"{before['gpu_util']:.2f}, {busy['gpu_util']:.2f}")
        figure("memory used idle, busy (the program took %d)" % MIB, f"{before['gpu_mem_used_mib']}, {busy['gpu_mem_used_mib']}", "MiB")
        figure("power idle, busy", f"{before['gpu_power_mw'] / 1e3:.0f}, {busy['gpu_power_mw'] / 1e3:.0f}", "W")
        self.assertGreaterEqual(rise, MIB)
        self.assertLess(rise, MIB + 2048, "what a CUDA context takes besides")
        self.assertAlmostEqual(busy["gpu_mem_used_mib"], shown, delta=64)
        self.assertGreater(busy["gpu_power_mw"], before["gpu_power_mw"])
        figure("nvidia-smi lists the job's process", "yes" if set(self.holders()) & set(self.pids_of_job()) else f"no: {self.holders()}")
        self.daemon.want("kill", "j1", 1)
        self.assertEqual(self.exited()["reason"], "killed")
        after = self.sample(lambda s: s["gpu_util"] <= 0.05 and s["gpu_mem_used_mib"] < before["gpu_mem_used_mib"] + 256,
                            "an idle GPU whose memory is free again")
        figure("memory used after the job", after["gpu_mem_used_mib"], "MiB")

    def holders(self):
        r = subprocess.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], capture_output=True, text=True)
        return [int(x) for x in r.stdout.split() if x.isdigit()]

    def test_a_helper_that_is_killed_comes_back_and_samples_go_on(self):
        self.agent.start()
        self.sample(lambda s: s["gpus"] > 0, "a sample", 90)
        (helper,) = self.until(lambda: len(self.helpers()) == 1 and self.helpers(), "the helper")
        os.kill(helper, signal.SIGKILL)
        began = time.monotonic()
        again = self.until(lambda: [p for p in self.helpers() if p != helper], "another helper", 90)
        figure("another helper after", time.monotonic() - began, "s")
        self.load("--mib", MIB, "--busy")
        self.until_log("holds")
        self.sample(lambda s: s["gpu_util"] > 0 and s["gpu_mem_used_mib"] >= MIB, "a sample of the new helper")
        self.assertEqual(self.helpers(), again)

    def helpers(self):
        """Those of our agent: its children."""
        found = []
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as f:
                    pid, rest = f.read().split(" (", 1)
            except OSError:
                continue
            name, state_and_parent = rest.rsplit(") ", 1)
            state, parent = state_and_parent.split()[:2]
            if name == "spot-nvml" and state not in "ZX" and int(parent) == self.agent.process.pid:
                found.append(int(pid))
        return found
