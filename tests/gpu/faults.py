"""A job that breaks on the GPU."""
import os
import re

from gpu_case import LOAD, MIB, GpuCase, figure


def kernel_log():
    """Of the whole boot, as far as it may be read."""
    lines = []
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        while True:
            try:
                lines.append(os.read(fd, 8192).decode(errors="replace"))
            except BrokenPipeError:     # overwritten meanwhile
                continue
    except OSError:
        return lines
    finally:
        os.close(fd)


class Faults(GpuCase):
    def test_an_illegal_address_fails_the_job_and_the_gpu_serves_the_next(self):
        self.agent.start()
        self.until(lambda: self.daemon.samples and self.daemon.samples[-1]["gpus"] > 0, "GPUs", 90)
        before = kernel_log()
        self.load("--mib", 1024, "--crash")
        r = self.exited()
        self.assertEqual((r["reason"], r["exit_code"]), ("error", 7))
        log = self.daemon.log("j1", 1).decode()
        self.assertRegex(log, r"crash: .*illegal (memory access|address|instruction).* \(7\d\d\)")
        figure("report of an illegal address", {k: r.get(k) for k in ("reason", "exit_code", "why")})
        xids = [x for x in (kernel_log() or [])[len(before or []):] if "Xid" in x]
        figure("Xids in the kernel's log", re.findall(r"Xid[^\n]*", "".join(xids)) if before is not None else "not to be read here")
        self.load("--mib", MIB, "--busy", job="j2")
        self.until_log("holds", job="j2")
        self.sample(lambda s: s["gpu_util"] > 0 and s["gpu_mem_used_mib"] >= MIB, "the next job at work")

    def test_a_program_that_aborts_is_reported_by_its_signal(self):
        """Frameworks abort upon a CUDA error."""
        self.agent.start()
        self.job(f"'{LOAD}' --crash || kill -ABRT $$")
        r = self.exited()
        self.assertEqual((r["reason"], r.get("exit_signal")), ("error", 6))
        figure("report of an abort", {k: r.get(k) for k in ("reason", "exit_code", "exit_signal", "why")})
