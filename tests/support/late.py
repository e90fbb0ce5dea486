"""How busy the machine is: limits in tests allow for it. Late measures all the time how late a short sleep ends."""
import threading
import time

STEP_S = 0.01
# A timed act is a chain of so many processes and threads that each wait for a processor.
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
        """The limit on this machine of an act that takes so many seconds at most on an idle one."""
        return seconds + CHAIN * self.worst

    def stop(self):
        self.over.set()
        self.join()
