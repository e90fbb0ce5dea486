"""The agent and the CUDA example on a real GPU, against the scripted daemon and store of tests/integration/agent.

usage: gpu_test.py SPOT_AGENT SPOT_TRAIN GPU_LOAD [unittest arguments, such as a class]
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_case                                       # noqa: E402
from facts import Facts, Samples                      # noqa: E402,F401
from faults import Faults                             # noqa: E402,F401
from moving import Large, Moving                      # noqa: E402,F401
from overhead import Overhead                         # noqa: E402,F401

if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    program = unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2, exit=False)
    gpu_case.print_figures()
    sys.exit(0 if program.result.wasSuccessful() else 1)
