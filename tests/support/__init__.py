"""Shared code of the suites: worlds of emulated clouds, daemons and databases, and waits for their events.

A script puts the folder tests on its path and imports from here, e.g. `from support import e2e`.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
# world, clouds and s3 of the demo: tests use them as they are. Last in the path: a suite may have a module of the same name.
STORY = os.path.join(TOP, "deploy", "story")
if STORY not in sys.path:
    sys.path.append(STORY)
