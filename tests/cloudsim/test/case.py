"""Base of cloudsim's tests: starts the program once for each class of tests."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
from support.cloudsim import Cloudsim  # noqa: E402

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'cloudsim'


class Base(unittest.TestCase):
    options = ('--seed', '11', '--boot-ms', '30', '--terminate-ms', '30', '--no-throttle')

    @classmethod
    def setUpClass(cls):
        cls.sim = Cloudsim(PROGRAM, *cls.options)

    @classmethod
    def tearDownClass(cls):
        assert cls.sim.stop() == 0

    def tearDown(self):
        self.sim.ctl('DELETE', '/fault')
        self.sim.ctl('POST', '/stock', {'pool': '*', 'count': None})
