"""Shared code of the suites: worlds of emulated clouds, daemons and databases, and waits for their events.

A script puts the folder tests on its path and imports from here, e.g. `from support import e2e`.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
# world, clouds and s3 of the demo, cloudsim_proc of the emulator: tests use them as they are.
for folder in (os.path.join(TOP, "tests", "cloudsim"), os.path.join(TOP, "deploy", "story")):
    if folder not in sys.path:
        sys.path.append(folder)  # last: a suite may have a module of the same name
