"""Waits that end with their event."""
import threading
import time

from world import Failure


def until(what, timeout_s, test, pause=0.05, trouble=None):
    """The first true value of test(). pause: seconds between two looks, or a function that waits for news.
    trouble: gives words for the failure."""
    idle = threading.Event()
    end = time.monotonic() + timeout_s
    while True:
        got = test()
        if got:
            return got
        if time.monotonic() > end:
            raise Failure("timed out after %g s: %s%s" % (timeout_s, what, trouble() if trouble else ""))
        if callable(pause):
            pause()
        else:
            idle.wait(pause)
