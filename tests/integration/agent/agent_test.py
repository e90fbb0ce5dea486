"""The agent against a scripted daemon, object store and metadata service.

usage: agent_test.py SPOT_AGENT SPOT_TRAIN [unittest arguments, such as a class]
The class Gpu also wants $FAKE_NVML_LIBS: directories "new" and "old" with a libnvidia-ml.so.1 each.
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node import Bootstrap, Enrolment, Gpu, Tls      # noqa: E402,F401
from noticing import AzureNotices, GcpNotices, PodNotices  # noqa: E402,F401
from running import Crowded, Disk, Files, Running    # noqa: E402,F401
from saving import Checkpoints                       # noqa: E402,F401
from storing import Blocks, Headers, Resumable       # noqa: E402,F401
from surviving import Survival                       # noqa: E402,F401

if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], verbosity=2)
