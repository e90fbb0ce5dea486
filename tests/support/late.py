"""How busy the machine is: limits in tests allow for it. Late measures how late whoever sleeps for a moment wakes, all the time."""
import threading
import time

STEP_S = 0.01
# What is timed is a chain of so many processes and threads that each wait for a processor.
CHAIN = 20


class Late(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.worst, self.over = 0.0, threading.Event()
        self.start()

    def run(self):
        before = time.monotonic()
        while not self.over.wait(STEP_S):
            now = time.monotonic()
            self.worst = max(self.worst, now - before - STEP_S)
            before = now

    def limit(self, seconds):
        """What takes so long at most on a machine with nothing else to do, on this one: a few hundredths more on a calm machine."""
        return seconds + CHAIN * self.worst

    def stop(self):
        self.over.set()
        self.join()
