"""The CUDA example as a job: to its end, and moved to another machine in the middle."""
import os
import tempfile
import time

import fake
from gpu_case import HIDDEN, LARGE_HIDDEN, LARGE_STEPS, SAVE_MIB, SECONDS, GpuCase, bare, figure, processor_of, sha_of

WHOLE = {}


def run_whole(hidden, steps):
    """The result of an uninterrupted run without any agent, once for each size."""
    if (hidden, steps) not in WHOLE:
        with tempfile.TemporaryDirectory() as where:
            WHOLE[hidden, steps] = sha_of(bare(where, "--hidden", hidden, "--steps", steps)[1])
    return WHOLE[hidden, steps]


def calibrate():
    """As many steps as take SECONDS here."""
    if "steps" not in WHOLE:
        with tempfile.TemporaryDirectory() as where:
            short = bare(os.path.join(where, "a"), "--hidden", HIDDEN, "--steps", 10)[0]
            rate = 200 / max(0.001, bare(os.path.join(where, "b"), "--hidden", HIDDEN, "--steps", 210)[0] - short)
        WHOLE["steps"] = max(300, int(rate * SECONDS))
        figure("steps of a run", WHOLE["steps"])
    return WHOLE["steps"]


class MovingCase(GpuCase):
    aws = True

    def on_notice(self, what):
        """From a notice, now, to the commit of the save: the seconds by stage, printed."""
        spent = processor_of(self.agent.process.pid)
        published = self.metadata.interruption(120)
        r = self.exited(timeout=150)
        self.assertEqual(r["reason"], "drained")
        (c,) = self.committed()
        self.assertEqual(c["reason"], "notice")
        at = {call: t for t, call, _ in self.daemon.requests if call in ("checkpoint", "commit")}
        signalled = next(x["signalled_us"] for x in self.daemon.reports if "signalled_us" in x) / 1e6
        figure(f"{what}, notice to signal", signalled - published, "s")
        figure(f"{what}, notice to saved, stopped and hashed", at["checkpoint"] - published, "s")
        figure(f"{what}, notice to committed checkpoint", at["commit"] - published, "s")
        spent = [after - before for before, after in zip(spent, processor_of(self.agent.process.pid))]
        figure(f"{what}, processor time of the agent, of its ended children", "%.2f, %.2f" % tuple(spent), "s")
        self.assertLess(at["commit"] - published, 120, "before the machine is gone")
        return c, r

    def move(self, hidden, steps, at):
        model = f"model of {hidden * 272 / 2**20:.1f} MiB"
        self.agent.start()
        self.train("--hidden", hidden, "--steps", steps, "--report-every", max(1, steps // 4))
        self.until_steps(at)
        c, r = self.on_notice(model)
        self.assertEqual(c["steps"], r["steps_done"])
        self.assertTrue(at <= c["steps"] < steps)
        self.another_machine()
        began = time.monotonic()
        self.train("--hidden", hidden, "--steps", steps, epoch=2, files=self.files_of(c), restored_from="c1", steps_start=c["steps"])
        self.until_log("resumed", epoch=2, timeout=120)
        figure(f"{model}, given to another machine until resumed", time.monotonic() - began, "s")
        r = self.exited(epoch=2, timeout=180)
        self.assertEqual((r["reason"], r["steps_done"]), ("ok", steps))
        log = self.daemon.log("j1", 2).decode()
        self.assertIn(f"step {c['steps']}: resumed", log)
        final = self.committed()[-1]
        self.assertEqual(final["reason"], "final")
        self.assertEqual(sha_of(self.stored(final, "result.txt").decode()), run_whole(hidden, steps))


class Moving(MovingCase):
    def test_a_job_ends_with_the_same_bits_as_without_us(self):
        steps = calibrate()
        self.agent.start()
        self.train("--hidden", HIDDEN, "--steps", steps, "--report-every", steps // 4)
        r = self.exited(timeout=180)
        self.assertEqual((r["reason"], r["exit_code"], r["steps_done"], r["steps_total"]), ("ok", 0, steps, steps))
        self.assertIn(b"GPU ", self.daemon.log("j1", 1))
        (c,) = self.committed()
        self.assertEqual(sha_of(self.stored(c, "result.txt").decode()), run_whole(HIDDEN, steps))

    def test_moved_in_the_middle_it_ends_with_the_same_bits(self):
        steps = calibrate()
        self.move(HIDDEN, steps, steps // 3)

    def test_a_killed_agents_successor_adopts_the_job_on_the_gpu(self):
        self.agent.start()
        self.load("--mib", 1024, "--busy")
        self.until_log("holds")
        (pid,) = self.pids_of_job()
        self.adopted_after_crash(pid)
        self.sample(lambda s: s["gpus"] > 0 and s["gpu_util"] > 0.5, "the job is at work")
        self.assertTrue(fake.alive(pid))
        self.assertEqual(len(self.daemon.enrols), 1)
        self.assertIsNone(self.daemon.report("EXITED"))
        c, _ = self.on_notice("1024 MiB of GPU memory, by an agent that adopted the job")
        self.assertEqual(sum(x["bytes"] for x in c["chunks"]), 1024 << 20)


class Large(MovingCase):
    def test_the_largest_example_model_is_moved_and_ends_with_the_same_bits(self):
        self.move(LARGE_HIDDEN, LARGE_STEPS, LARGE_STEPS // 3)

    def test_gigabytes_of_gpu_memory_are_saved_on_notice_and_come_back(self):
        self.agent.start()
        self.load("--mib", SAVE_MIB)
        self.until_log("holds")
        c, _ = self.on_notice(f"{SAVE_MIB} MiB of GPU memory")
        self.assertEqual(sum(x["bytes"] for x in c["chunks"]), SAVE_MIB << 20)
        self.another_machine()
        began = time.monotonic()
        self.load("--mib", SAVE_MIB, epoch=2, files=self.files_of(c), restored_from="c1")
        self.until_log("holds", epoch=2, timeout=180)
        figure(f"{SAVE_MIB} MiB of GPU memory, given to another machine until in GPU memory", time.monotonic() - began, "s")
        self.assertIn(f"restored {SAVE_MIB} MiB, 0 numbers wrong, no more", self.daemon.log("j1", 2).decode())
